"""What may be stored: text without known secrets, of bounded length, in every database's alphabet.

Strings from nodes are untrusted. They are stored as data, and made storable first: a lone surrogate
(legal in JSON) cannot be encoded, and PostgreSQL takes no NUL.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

TEXT_LIMIT = 4096
"""Characters kept of one text of a verdict, an event or a change. The evidence keeps the rest."""

MASK = "********"

_SHORT = 4
"""A secret shorter than this is masked only where it is the whole text: to mask every 'a' of all
texts would tell it."""


def storable(text: str, limit: int = TEXT_LIMIT) -> str:
    """The text, at most ``limit`` characters of it, as every database can store it."""
    if len(text) > limit:
        text = f"{text[:limit]}… [{len(text) - limit} more characters]"
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


class Redactor:
    """Masks the values of known secrets in all the forms in which they may appear in a text."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {secret for secret in secrets if secret}
        self._whole = frozenset(secret for secret in known if len(secret) < _SHORT)
        forms = {form for secret in known - self._whole for form in _forms(secret)}
        # Longest first: a secret that contains another one must not be left half readable.
        self._forms = sorted(forms, key=len, reverse=True)
        self._raw_forms = [form.encode("utf-8", "surrogatepass") for form in self._forms]

    def text(self, text: str, limit: int = TEXT_LIMIT) -> str:
        """The text, redacted and storable."""
        if text in self._whole:
            return MASK
        for form in self._forms:
            text = text.replace(form, MASK)
        return storable(text, limit)

    def data(self, data: Any) -> Any:
        """JSON-like data with every text in it (keys too) redacted and storable."""
        if isinstance(data, str):
            return self.text(data, limit=1 << 20)
        if isinstance(data, Mapping):
            return {self.text(str(key)): self.data(value) for key, value in data.items()}
        if isinstance(data, (list, tuple, set, frozenset)):
            return [self.data(item) for item in data]
        if data is None or isinstance(data, (bool, int, float)):
            return data
        return self.text(str(data))

    def json(self, data: Any) -> str:
        """The data as JSON text, redacted."""
        return json.dumps(self.data(data), separators=(",", ":"))

    def raw(self, raw: bytes) -> bytes:
        """Bytes of an observation, redacted."""
        mask = MASK.encode()
        for form in self._raw_forms:
            raw = raw.replace(form, mask)
        return raw


def redact(texts: Iterable[str], secrets: Iterable[str]) -> list[str]:
    """An argv (or other texts) with the values of ``secrets`` masked."""
    redactor = Redactor(secrets)
    return [redactor.text(text) for text in texts]


def _forms(secret: str) -> set[str]:
    encoded = secret.encode("utf-8", "surrogatepass")
    forms = {
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        quote(encoded, safe=""),
        base64.b64encode(encoded).decode(),
    }
    # A private key is often printed with other line breaks or indentation than it was read with.
    forms.update(line.strip() for line in secret.splitlines() if len(line.strip()) >= 2 * _SHORT)
    return forms
