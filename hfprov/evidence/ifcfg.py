"""``/etc/sysconfig/network-scripts/ifcfg-*``: shell assignments of the old network scripts.

NetworkManager reads them as well (until EL9). Source: initscripts' sysconfig.txt.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.host_values import bad_line, natural, numbered_lines, unknown_form
from hfprov.evidence.text import clean, excerpt
from hfprov.regex import regex

_LINE = regex(r"(?:export )?([A-Za-z_][A-Za-z0-9_]*)=(.*)")
_SECRET = regex(r"PASSWORD|PSK|SECRET|PRIVATE_KEY|WEP_KEY")
_OPTION = regex(r"([a-z_]+)\s*=\s*([^\s=]+)(?=\s|$)")
_MODES = (
    "balance-rr",
    "active-backup",
    "balance-xor",
    "broadcast",
    "802.3ad",
    "balance-tlb",
    "balance-alb",
)


class IfcfgFacts(Struct, frozen=True):
    """One ifcfg file."""

    device: str | None
    name: str | None
    type: str | None
    mtu_bytes: int | None
    on_boot: bool | None
    master: str | None
    """Bond that this interface belongs to."""
    bridge: str | None
    vlan: bool
    bonding: Mapping[str, str]
    """Options of a bond by name; ``mode`` by name (``802.3ad``) where the number is known."""
    values: Mapping[str, str]
    problems: tuple[str, ...]
    """Lines that no shell would take as an assignment, and options of unknown value."""


def parse(text: str) -> IfcfgFacts:
    """Facts from an ifcfg file."""
    text = clean(text)
    values: dict[str, str] = {}
    problems: list[str] = []
    for number, line in numbered_lines(text):
        plain = line.strip()
        if not plain or plain.startswith("#"):
            continue
        match = _LINE.fullmatch(plain)
        if match is None:
            if not values:
                raise unknown_form("ifcfg", text, "KEY=value lines")
            problems.append(f"Line {number} is no assignment: '{excerpt(plain)}'.")
            continue
        try:
            words = shlex.split(match.group(2), comments=True)
        except ValueError:
            raise bad_line("ifcfg", number, line, "a closing quote") from None
        if not _SECRET.search(match.group(1)):
            values[match.group(1)] = words[0] if words else ""
    known = {"DEVICE", "NAME", "TYPE", "BOOTPROTO", "ONBOOT", "HWADDR", "IPADDR", "MASTER"}
    if not known & set(values):
        raise unknown_form("ifcfg", text, "'DEVICE=…'")
    bonding = _bonding(values.get("BONDING_OPTS", ""), problems)
    mtu = values.get("MTU")
    return IfcfgFacts(
        device=values.get("DEVICE"),
        name=values.get("NAME"),
        type=values.get("TYPE"),
        mtu_bytes=None if not mtu else natural(mtu, "MTU"),
        on_boot=_yes(values.get("ONBOOT")),
        master=values.get("MASTER"),
        bridge=values.get("BRIDGE"),
        vlan=_yes(values.get("VLAN")) or False,
        bonding=bonding,
        values=values,
        problems=tuple(problems),
    )


def _yes(value: str | None) -> bool | None:
    if value is None:
        return None
    plain = value.lower()
    if plain not in ("yes", "no", "true", "false", "0", "1"):
        raise NotUnderstoodError(f"'{excerpt(value, 40)}' should be yes or no.")
    return plain in ("yes", "true", "1")


def _bonding(text: str, problems: list[str]) -> dict[str, str]:
    options = dict(_OPTION.findall(text[:4096]))
    if " = " in text or "= " in text or " =" in text:
        problems.append("BONDING_OPTS has blanks around '=': the network scripts ignore that.")
    mode = options.get("mode")
    if mode is not None and mode.isascii() and mode.isdigit() and int(mode[:4]) < len(_MODES):
        options["mode"] = _MODES[int(mode[:4])]
    elif mode is not None and mode not in _MODES:
        problems.append(f"'{excerpt(mode, 40)}' is not a mode that the bonding driver has.")
    return options
