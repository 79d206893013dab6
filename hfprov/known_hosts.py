"""Host keys of known_hosts files, found by name; see sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT".

Paramiko reads such files too, but looks through all lines for each line and each host: with one
line per host, that is all of the time of a sweep over thousands of them.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import threading
from dataclasses import dataclass
from pathlib import Path

_BLOCK = 64
"""Bytes that SHA-1 takes at a time, and so the length of a key of HMAC-SHA1."""


@dataclass(frozen=True, slots=True)
class HostKey:
    """One public key, as the file has it: its type and the base64 of its blob."""

    kind: str
    blob: str


@dataclass(frozen=True, slots=True)
class _Hashed:
    """A line that tells its host only to who knows the name: HMAC-SHA1 with a salt as the key."""

    inner: bytes
    outer: bytes
    digest: bytes
    key: HostKey

    @classmethod
    def of(cls, name: str, key: HostKey) -> _Hashed:
        """From ``|1|salt|digest``. Raises ValueError if it is something else."""
        _, _, salt, digest = name.split("|")
        secret = base64.b64decode(salt, validate=True).ljust(_BLOCK, b"\0")
        # The two keyed pads of RFC 2104: half the time of hmac.digest(), which makes them anew.
        inner, outer = (bytes(one ^ pad for one in secret) for pad in (0x36, 0x5C))
        return cls(inner, outer, base64.b64decode(digest, validate=True), key)

    def is_of(self, name: bytes) -> bool:
        inner = hashlib.sha1(self.inner + name, usedforsecurity=False).digest()
        return hashlib.sha1(self.outer + inner, usedforsecurity=False).digest() == self.digest


class KnownHosts:
    """The keys of one file. Names are looked up in constant time, hashed names one by one.

    Lines of a kind that is not supported (certificate authorities, patterns of names) or that make
    no sense hold no key for anybody. Safe to use from many threads.
    """

    def __init__(self, text: str) -> None:
        self._named: dict[str, list[HostKey]] = {}
        self._hashed: list[_Hashed] = []
        self._asked: set[str] = set()
        self._lock = threading.Lock()
        self.revoked: set[str] = set()
        """Blobs of keys that must not be accepted. OpenSSH revokes by name; here, for every host:
        who could use a stolen key would choose the name."""
        for line in text.splitlines():
            self._add(line.split())

    @classmethod
    def load(cls, path: str) -> KnownHosts:
        """Read a file. One that is not there holds no keys. Raises OSError for other reasons."""
        try:
            text = Path(path).expanduser().read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            text = ""
        return cls(text)

    def keys_of(self, name: str) -> tuple[HostKey, ...]:
        """The keys of ``host``, or of ``[host]:port`` where the port is not 22."""
        with self._lock:
            if self._hashed and name not in self._asked:
                self._name_hashed(name)
            return tuple(self._named.get(name, ()))

    def _name_hashed(self, name: str) -> None:
        """Find a name's hashed lines. Each is of one host only: none is looked at again."""
        self._asked.add(name)
        encoded, others = name.encode(), []
        for line in self._hashed:
            if line.is_of(encoded):
                self._named.setdefault(name, []).append(line.key)
            else:
                others.append(line)
        self._hashed = others

    def _add(self, fields: list[str]) -> None:
        match fields:
            case ["@revoked", _, _, blob, *_]:
                self.revoked.add(blob)
            case [names, kind, blob, *_] if names[0] not in "#@":
                for name in names.split(","):
                    self._add_name(name, HostKey(kind, blob))

    def _add_name(self, name: str, key: HostKey) -> None:
        if not name.startswith("|1|"):
            self._named.setdefault(name, []).append(key)
            return
        with contextlib.suppress(ValueError):
            self._hashed.append(_Hashed.of(name, key))
