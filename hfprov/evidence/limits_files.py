"""Limits of processes: ``limits.conf`` (pam_limits) and ``/proc/PID/limits``.

Sources: limits.conf(5), proc(5). A limit in limits.conf says nothing about services, which systemd
starts: look at /proc/PID/limits of the process itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.host_values import bad_line, numbered_lines, unknown_form
from hfprov.evidence.text import clean
from hfprov.regex import regex

UNLIMITED = -1
"""Stands for ``unlimited``."""

_ITEMS = frozenset(
    [
        "core",
        "data",
        "fsize",
        "memlock",
        "nofile",
        "rss",
        "stack",
        "cpu",
        "nproc",
        "as",
        "maxlogins",
        "maxsyslogins",
        "nonewprivs",
        "priority",
        "locks",
        "sigpending",
        "msgqueue",
        "nice",
        "rtprio",
        "chroot",
        "rttime",
    ]
)
_TYPES = frozenset({"soft", "hard", "-"})
_VALUE = regex(r"-?[0-9]{1,20}")
_MAX_LINE = 200
_PROC = regex(r"(Max [a-z -]+?)\s{2,}(\S+)\s+(\S+)(?:\s+(\S+))?")


class ConfiguredLimit(Struct, frozen=True):
    """One line of limits.conf."""

    domain: str
    """User, ``@group``, ``*``, ``%`` or a range of ids."""
    type: str
    """``soft``, ``hard``, or ``-`` for both."""
    item: str
    value: int | None
    """As in the file's unit (KiB for memory); UNLIMITED for unlimited, infinity and -1; None for
    a domain that is excluded ("-" without item) or a text (chroot)."""


class LimitsConfFacts(Struct, frozen=True):
    """limits.conf, in the order of its lines: pam_limits applies them in order."""

    limits: tuple[ConfiguredLimit, ...]


class ProcessLimit(Struct, frozen=True):
    """One limit of a running process; UNLIMITED for unlimited."""

    soft: int
    hard: int
    unit: str


class ProcessLimitsFacts(Struct, frozen=True):
    """``/proc/PID/limits`` by name: ``Max locked memory`` (bytes), ``Max open files``."""

    limits: Mapping[str, ProcessLimit]


def parse(text: str) -> LimitsConfFacts | ProcessLimitsFacts:
    """Facts from either file."""
    text = clean(text)
    first = next((line for line in text.split("\n") if line.strip()), "")
    if re.match(r"\s*Limit\s+Soft Limit\s+Hard Limit", first):
        return _process(text)
    return _configured(text)


def _process(text: str) -> ProcessLimitsFacts:
    limits: dict[str, ProcessLimit] = {}
    for number, line in numbered_lines(text):
        plain = line.strip()
        if not plain or plain.startswith("Limit "):
            continue
        match = _PROC.fullmatch(plain[:_MAX_LINE])
        if match is None:
            raise bad_line("/proc/PID/limits", number, line, "name, soft, hard and unit")
        name, soft, hard, unit = match.groups()
        if name in limits:
            raise bad_line("/proc/PID/limits", number, line, f"'{name}' only once")
        limits[name] = ProcessLimit(
            _limit(number, line, soft), _limit(number, line, hard), unit or ""
        )
    for name in ("Max open files", "Max locked memory"):
        if name not in limits:
            raise NotUnderstoodError(f"/proc/PID/limits has no '{name}': it is cut off.")
    return ProcessLimitsFacts(limits)


def _limit(number: int, line: str, word: str) -> int:
    if word == "unlimited":
        return UNLIMITED
    if not _VALUE.fullmatch(word) or word.startswith("-"):
        raise bad_line("/proc/PID/limits", number, line, "a number or 'unlimited'")
    return int(word)


def _configured(text: str) -> LimitsConfFacts:
    limits = []
    for number, line in numbered_lines(text):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        if len(words) == len(("domain", "-")) and words[1] == "-":
            limits.append(ConfiguredLimit(words[0], "-", "", None))
            continue
        if len(words) < len(("domain", "type", "item", "value")):
            if not limits:
                raise unknown_form("limits.conf", text, "'domain type item value'")
            raise bad_line("limits.conf", number, line, "'domain type item value'")
        domain, kind, item, value = words[:4]
        if kind.lower() not in _TYPES or item.lower() not in _ITEMS:
            if not limits:
                raise unknown_form("limits.conf", text, "'domain type item value'")
            raise bad_line("limits.conf", number, line, "a type and an item of limits.conf(5)")
        limits.append(
            ConfiguredLimit(
                domain, kind.lower(), item.lower(), _configured_value(number, line, item, value)
            )
        )
    if not limits and not text.lstrip().startswith("#"):
        raise unknown_form("limits.conf", text, "'domain type item value'")
    return LimitsConfFacts(tuple(limits))


def _configured_value(number: int, line: str, item: str, value: str) -> int | None:
    if item.lower() == "chroot":
        return None
    if value.lower() in ("unlimited", "infinity"):
        return UNLIMITED
    if not _VALUE.fullmatch(value):
        raise bad_line("limits.conf", number, line, "a number or 'unlimited'")
    return int(value)
