"""Kernel settings: ``sysctl -a`` and ``sysctl NAME…``, or sysctl.conf files.

Both separators are read (``name = value`` and ``name=value``); complaints of sysctl about keys it
could not read are kept, since such a key is then missing.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from hfprov.evidence.host_values import bad_line, numbered_lines, unknown_form
from hfprov.evidence.text import clean, excerpt
from hfprov.regex import regex

_LINE = regex(r"-?([A-Za-z0-9_][^\s=]*)\s*=\s?(.*)")
_COMPLAINT = regex(r"sysctl: (.*)")
_KEY_IN_COMPLAINT = regex(r"'([^']+)'|\"([^\"]+)\"|/proc/sys/([^\s:]+)")


class SysctlFacts(Struct, frozen=True):
    """Settings by name with dots. A name that comes twice (in a file) has its last value."""

    values: Mapping[str, str]
    """White space inside values is one blank: ``4096 131072 6291456``."""
    unreadable: Mapping[str, str]
    """What sysctl said about keys that it could not read, by key."""
    complaints: tuple[str, ...]
    """Complaints that name no key."""


def parse(text: str) -> SysctlFacts:
    """Facts from sysctl."""
    text = clean(text)
    values: dict[str, str] = {}
    unreadable: dict[str, str] = {}
    complaints: list[str] = []
    for number, line in numbered_lines(text):
        plain = line.strip()
        if not plain or plain[0] in "#;":
            continue
        complaint = _COMPLAINT.fullmatch(plain)
        if complaint:
            key = _KEY_IN_COMPLAINT.search(complaint.group(1))
            if key is None:
                complaints.append(excerpt(plain, 200))
            else:
                name = next(part for part in key.groups() if part)
                unreadable[_dotted(name)] = excerpt(complaint.group(1), 200)
            continue
        match = _LINE.fullmatch(plain)
        if match is None:
            if not values and not unreadable:
                raise unknown_form("sysctl", text, "'name = value'")
            raise bad_line("sysctl", number, line, "'name = value'")
        values[_dotted(match.group(1))] = " ".join(match.group(2).split())
    if not values:
        if unreadable or complaints:
            said = next(iter((*unreadable.values(), *complaints)))
            raise unknown_form("sysctl", f"failed: {said}", "'name = value'")
        raise unknown_form("sysctl", text, "'name = value'")
    return SysctlFacts(values, unreadable, tuple(complaints))


def _dotted(name: str) -> str:
    """``net/ipv4/conf/eth0.1/mtu`` keeps the dot of eth0.1 as sysctl prints it: as a slash."""
    if "/" in name and ("." not in name or name.index("/") < name.index(".")):
        return name.translate(str.maketrans("/.", "./"))
    return name
