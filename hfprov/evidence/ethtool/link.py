"""``ethtool DEV``: what a port can do, what it negotiated, and whether it has a link.

Wordings of ethtool 4.x to 6.x. A speed that the tool calls unknown is None, never 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct, field

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.ethtool.failure import EthtoolFailure, failure_in
from hfprov.evidence.ethtool.pairs import Section
from hfprov.evidence.net_lines import integer, not_understood, on_off, value_or_none
from hfprov.evidence.text import excerpt
from hfprov.regex import regex


class Modes(Struct, frozen=True):
    """What one side of the link supports or advertises. () where not reported."""

    link_modes: tuple[str, ...] = ()
    fec_modes: tuple[str, ...] = ()
    pause: str | None = None
    autonegotiation: bool | None = None


class LinkSettings(Struct, frozen=True):
    """``ethtool DEV``."""

    interface: str | None
    speed_mbps: int | None
    duplex: str | None
    """``full``, ``half``, or None where unknown."""
    autonegotiation: bool | None
    link_detected: bool | None
    """None: the tool did not say; never to be read as a link."""
    link_detail: str | None = None
    """Why there is no link, in the tool's words (``No cable``)."""
    lanes: int | None = None
    port: str | None = None
    ports: tuple[str, ...] = ()
    transceiver: str | None = None
    link_down_events: int | None = None
    supported: Modes = field(default_factory=Modes)
    advertised: Modes = field(default_factory=Modes)
    partner: Modes = field(default_factory=Modes)
    wake_on: str | None = None
    other: Mapping[str, str] = field(default_factory=dict)
    failures: tuple[EthtoolFailure, ...] = ()


_LINK_MODE = regex(r"[0-9]+\S*base\S*")
_SPEED = regex(r"(?P<mbps>[0-9]{1,9})Mb/s(?: +\(.*\))?|(?P<unknown>Unknown!.*)")
_DUPLEX = regex(r"(?P<duplex>Full|Half)|Unknown!(?: *\([0-9]+\))?")
_DETECTED = regex(r"(?P<state>yes|no)(?: +\((?P<detail>.*)\))?")
_UNREPORTED = frozenset({"Not reported", "Unknown", "None", ""})


def parse_link(section: Section) -> LinkSettings:
    """Facts of one ``Settings for DEV:`` block."""
    found, failures = _collect(section)
    if not found:
        if failures:
            raise NotUnderstoodError(f"ethtool: no setting was read: {failures[0].sentence}")
        raise NotUnderstoodError("ethtool: there is no setting below 'Settings for …:'.")
    take = found.pop
    speed = _match(_SPEED, take("Speed", "Unknown!"), "Speed")["mbps"]
    duplex = _match(_DUPLEX, take("Duplex", "Unknown!"), "Duplex")["duplex"]
    autonegotiation = take("Auto-negotiation", None)
    detected = take("Link detected", None)
    link = _match(_DETECTED, detected, "Link detected") if detected is not None else None
    lanes = take("Lanes", None)
    events = take("Link Down Events", take("Link down events", None))
    return LinkSettings(
        section.interface,
        speed_mbps=int(speed) if speed else None,
        duplex=duplex.lower() if duplex else None,
        autonegotiation=_switch(autonegotiation, "Auto-negotiation"),
        link_detected=link["state"] == "yes" if link else None,
        link_detail=link["detail"] if link else None,
        lanes=_count(lanes, "Lanes"),
        port=value_or_none(take("Port", "")),
        ports=tuple(take("Supported ports", "").strip("[] ").split()),
        transceiver=value_or_none(take("Transceiver", "")),
        link_down_events=_count(events, "Link Down Events"),
        supported=_modes(found, "Supported", "Supports auto-negotiation"),
        advertised=_modes(found, "Advertised", "Advertised auto-negotiation"),
        partner=_modes(
            found, "Link partner advertised", "Link partner advertised auto-negotiation"
        ),
        wake_on=value_or_none(take("Wake-on", "")),
        other=found,
        failures=tuple(failures),
    )


def _collect(section: Section) -> tuple[dict[str, str], list[EthtoolFailure]]:
    """The settings by name; lines that continue a list of link modes are put behind it."""
    found: dict[str, str] = {}
    failures: list[EthtoolFailure] = []
    open_key = ""
    for number, line in section.numbered():
        failure = failure_in(line)
        if failure is not None:
            failures.append(failure)
            continue
        key, colon, value = (part.strip() for part in line.partition(":"))
        if colon and not _continues(open_key, line):
            found[key] = value
            open_key = key
        elif _continues(open_key, line):
            found[open_key] += " " + line.strip()
        else:
            raise not_understood("ethtool", number, line, "'setting: value'")
    return found, failures


def _continues(open_key: str, line: str) -> bool:
    if open_key.endswith("link modes"):
        return all(_LINK_MODE.fullmatch(word) for word in line.split())
    return open_key == "Current message level" and ":" not in line


def _match(pattern: re.Pattern[str], value: str, key: str) -> re.Match[str]:
    match = pattern.fullmatch(value)
    if match is None:
        raise NotUnderstoodError(f"ethtool: '{key}: {excerpt(value)}' is not understood.")
    return match


def _switch(value: str | None, key: str) -> bool | None:
    if value is None or value.startswith("Unknown"):
        return None
    return on_off(value.partition(" ")[0], f"ethtool: '{key}'")


def _count(value: str | None, key: str) -> int | None:
    if value is None or value.startswith("Unknown"):
        return None
    return integer(value, f"ethtool: '{key}'")


def _words(value: str) -> tuple[str, ...]:
    return () if value in _UNREPORTED else tuple(value.split())


def _modes(found: dict[str, str], side: str, autonegotiation: str) -> Modes:
    modes = found.pop(f"{side} link modes", "")
    for word in _words(modes):
        if _LINK_MODE.fullmatch(word) is None:
            raise NotUnderstoodError(
                f"ethtool: '{excerpt(word)}' in '{side} link modes' is no mode."
            )
    negotiates = found.pop(autonegotiation, None)
    return Modes(
        link_modes=_words(modes),
        fec_modes=_fec_modes(found.pop(f"{side} FEC modes", "")),
        pause=value_or_none(found.pop(f"{side} pause frame use", "")),
        autonegotiation=_switch(negotiates, autonegotiation),
    )


def _fec_modes(value: str) -> tuple[str, ...]:
    """FEC modes; ``None`` is a mode here (no error correction), unlike elsewhere."""
    return () if value in ("Not reported", "Unknown", "") else tuple(value.split())
