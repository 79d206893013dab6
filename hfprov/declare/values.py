"""Values as ansible-core tags them: where they were set, what is secret, and templates resolved.

The tags that ansible-core 2.19 and later puts on values (file and line, encrypted) have no public
name yet; what is used of them is in this file, and tests hold it against 2.19 and 2.21.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import jinja2
from ansible._internal._datatag._tags import Origin, VaultedValue
from ansible.errors import AnsibleError
from ansible.parsing.vault import AnsibleVaultError, EncryptedString, is_encrypted
from ansible.template import Templar

from hfprov.declare.files import shown

UNDECRYPTABLE = (
    "It is encrypted with Ansible Vault, and none of the given passwords decrypts it. "
    "Give '--vault-password-file', or set ANSIBLE_VAULT_PASSWORD_FILE."
)
_REACHES_ANYTHING = frozenset({"hostvars", "vars", "lookup", "query", "q"})
"""Names through which a template reads variables, files or commands that its text may not show."""


class TemplateProblem(Exception):  # noqa: N818 - it becomes a Problem, it is no error of its own
    """A value that cannot be rendered: why, and where it was set (empty when not known)."""

    def __init__(self, reason: str, at: str, *, is_plain: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.at = at
        self.is_plain = is_plain
        """Whether the reason quotes no value."""


class Renderer:
    """Resolves templates with Ansible's template engine, and knows which values are secret."""

    def __init__(self, loader: Any) -> None:
        self._templar = Templar(loader=loader)
        self._encrypted_files: dict[str, bool] = {}

    def is_template(self, value: Any) -> bool:
        """Whether a value must be rendered: a template or an encrypted string, at any depth."""
        if isinstance(value, EncryptedString):
            return True
        if isinstance(value, str):
            try:
                return "{" in value and bool(self._templar.is_template(value))
            except AnsibleError:  # e.g. a filter that does not exist: rendering it says so
                return True
        if isinstance(value, Mapping):
            return any(self.is_template(item) for pair in value.items() for item in pair)
        return isinstance(value, list | tuple) and any(self.is_template(item) for item in value)

    def render(self, value: Any, variables: Mapping[str, Any]) -> Any:
        """A value with its templates resolved, in plain Python types. Raises TemplateProblem."""
        self._templar.available_variables = variables
        try:
            return native(self._templar.template(value))
        except AnsibleError as error:
            at = where(error.obj) or where(value)
            if _undecryptable(error):
                raise TemplateProblem(UNDECRYPTABLE, at, is_plain=True) from error
            text = f"The template cannot be resolved: {reason(error)}."
            raise TemplateProblem(text, at) from error
        except RecursionError as error:
            raise TemplateProblem("The template refers to itself.", where(value)) from error

    def references(
        self, value: Any, variables: Mapping[str, Any]
    ) -> tuple[frozenset[str] | None, bool]:
        """Names of all variables that a value depends on, and whether any of it was encrypted.

        None for the names means: what it depends on is decided when it is rendered. That counts as
        secret, as it may be.
        """
        seen: set[str] = set()
        secret = False
        stack = [value]
        while stack:
            current = stack.pop()
            secret = secret or self.is_encrypted(current)
            for text in _strings(current):
                names = _names(text) - seen
                if not names.isdisjoint(_REACHES_ANYTHING):
                    return None, True
                seen |= names
                stack += (variables[name] for name in names if name in variables)
        return frozenset(seen), secret

    def is_encrypted(self, value: Any) -> bool:
        """Whether a value, at any depth, was encrypted by itself or lies in an encrypted file."""
        if isinstance(value, EncryptedString) or VaultedValue.is_tagged_on(value):
            return True
        origin = Origin.get_tag(value)
        if origin is not None and origin.path and self.in_encrypted_file(origin.path):
            return True
        if isinstance(value, Mapping):
            return any(self.is_encrypted(item) for item in value.values())
        return isinstance(value, list | tuple) and any(self.is_encrypted(item) for item in value)

    def in_encrypted_file(self, path: str) -> bool:
        """Whether a file is encrypted as a whole."""
        if path not in self._encrypted_files:
            try:
                with Path(path).open("rb") as file:
                    self._encrypted_files[path] = bool(is_encrypted(file.read(64)))
            except OSError:
                self._encrypted_files[path] = False
        return self._encrypted_files[path]


def native(value: Any) -> Any:
    """A value in plain Python types, without Ansible's tags."""
    plain = value
    if isinstance(value, EncryptedString):
        plain = str(value)
    elif isinstance(value, str):
        plain = str.__str__(value)  # str() would keep a subclass
    elif isinstance(value, int | float) and not isinstance(value, bool):
        plain = int(value) if isinstance(value, int) else float(value)
    elif isinstance(value, Mapping):
        plain = {native(key): native(item) for key, item in value.items()}
    elif isinstance(value, list | tuple | set | frozenset):
        plain = [native(item) for item in value]
    return plain


def where(value: Any) -> str:
    """Where a tagged value was set: ``path:line``, or a description of its source, or nothing."""
    origin = Origin.get_tag(value)
    if origin is None:
        return ""
    if not origin.path:
        return str(origin.description or "").strip("<>")
    return f"{shown(origin.path)}:{origin.line_num}" if origin.line_num else shown(origin.path)


def reason(error: BaseException) -> str:
    """What Ansible says about an error, on one line and without the final stop."""
    message = getattr(error, "message", None) or str(error) or type(error).__name__
    return re.sub(r"\s+", " ", str(message)).strip().rstrip(".")


def _undecryptable(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, AnsibleVaultError) or "Undecryptable" in type(error).__name__:
            return True
        error = error.__cause__
    return False


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, EncryptedString):  # its text is no template
        return
    if isinstance(value, str):
        yield str.__str__(value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _strings(key)
            yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)


@lru_cache(maxsize=4096)
def _names(text: str) -> frozenset[str]:
    """Names of the variables that a template refers to."""
    if "{" not in text:
        return frozenset()
    try:
        # Only parsed, never rendered: autoescape has no meaning here.
        tree = jinja2.Environment().parse(text)  # noqa: S701
    except jinja2.TemplateError:
        return _REACHES_ANYTHING
    return frozenset(str(name.name) for name in tree.find_all(jinja2.nodes.Name))
