"""The small forms of ethtool: driver, rings, channels, pause, coalescing, features, flags.

Forms: ``-i``, ``-g``, ``-l``, ``-a``, ``-c``, ``-k``, ``--show-priv-flags``, ``-T``, ``-P`` as text
of ethtool 3.x to 6.x. ``None`` means that the tool printed ``n/a`` or did not print the line.
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


class DriverInfo(Struct, frozen=True):
    """``ethtool -i``."""

    driver: str | None
    """As printed; IPoIB adds its own in brackets (``mlx5_core[ib_ipoib]``)."""
    version: str | None
    firmware_version: str | None
    """Without the PSID in parentheses that NVIDIA drivers append."""
    psid: str | None
    bus_info: str | None
    expansion_rom_version: str | None
    supports: Mapping[str, bool] = field(default_factory=dict)


_FIRMWARE = regex(r"(?P<version>\S.*?)\s*\((?P<psid>[A-Z][A-Za-z]*_?[A-Z0-9]{4,})\)")


def parse_driver(section: Section) -> DriverInfo:
    found: dict[str, str] = {}
    supports: dict[str, bool] = {}
    for _, key, value in section.pairs():
        if key.startswith("supports-"):
            supports[key.removeprefix("supports-")] = on_off(value, f"ethtool -i: '{key}'")
        else:
            found[key] = value
    firmware = value_or_none(found.get("firmware-version", ""))
    match = _FIRMWARE.fullmatch(firmware) if firmware else None
    return DriverInfo(
        driver=value_or_none(found.get("driver", "")),
        version=value_or_none(found.get("version", "")),
        firmware_version=match["version"] if match else firmware,
        psid=match["psid"] if match else None,
        bus_info=value_or_none(found.get("bus-info", "")),
        expansion_rom_version=value_or_none(found.get("expansion-rom-version", "")),
        supports=supports,
    )


class SizesFacts(Struct, frozen=True):
    """Largest and current sizes, by ethtool's names in lower case (``rx``, ``rx mini``)."""

    interface: str | None
    maximum: Mapping[str, int | None]
    current: Mapping[str, int | None]
    other: Mapping[str, str] = field(default_factory=dict)
    """Settings that are not sizes: ``tx push``, ``tcp data split``."""


class Rings(SizesFacts, frozen=True):
    """``ethtool -g``: descriptors per ring."""


class Channels(SizesFacts, frozen=True):
    """``ethtool -l``: numbers of queues (``rx``, ``tx``, ``other``, ``combined``)."""


_SIZE_KEYS = frozenset({"rx", "tx", "rx mini", "rx jumbo", "other", "combined"})


def _size(value: str, what: str) -> int | None:
    if value.lower() in ("n/a", ""):
        return None
    return integer(value, what)


def parse_sizes(section: Section, kind: type[Rings | Channels]) -> Rings | Channels:
    blocks: dict[str, dict[str, int | None]] = {}
    other: dict[str, str] = {}
    into: dict[str, int | None] | None = None
    for number, key, value in section.pairs():
        name = key.lower()
        if name in ("pre-set maximums", "current hardware settings"):
            into = blocks.setdefault(name, {})
        elif into is None:
            raise not_understood(
                f"ethtool ({section.form})", number, key, "'Pre-set maximums:' or a later block"
            )
        elif name in ("rx", "tx", "other", "combined"):
            into[name] = _size(value, f"ethtool ({section.form}): line {number}: '{key}'")
        elif name in _SIZE_KEYS:
            # Some drivers print words for rings that they do not have; that is no ring size.
            into[name] = integer(value, key) if value.isdecimal() else None
        else:
            other[name] = value
    if "current hardware settings" not in blocks:
        raise NotUnderstoodError(
            f"ethtool ({section.form}): the output ends before 'Current hardware settings:'."
        )
    current = blocks["current hardware settings"]
    maximum = blocks.get("pre-set maximums", {})
    missing = [name for name in maximum if name not in current]
    if missing or not current:
        raise NotUnderstoodError(
            f"ethtool ({section.form}): the current settings end before "
            f"'{missing[0] if missing else 'the first value'}'."
        )
    return kind(section.interface, maximum=maximum, current=current, other=other)


class Pause(Struct, frozen=True):
    """``ethtool -a``: global pause frames (not priority flow control)."""

    interface: str | None
    autonegotiate: bool | None
    rx: bool | None
    tx: bool | None
    rx_negotiated: bool | None = None
    tx_negotiated: bool | None = None
    statistics: Mapping[str, int] = field(default_factory=dict)


def parse_pause(section: Section) -> Pause:
    found: dict[str, bool] = {}
    statistics: dict[str, int] = {}
    for number, key, value in section.pairs():
        name = key.lower()
        what = f"ethtool -a: line {number}: '{key}'"
        if name.endswith("pause_frames"):
            statistics[name] = integer(value, what)
        elif name != "statistics":
            found[name] = on_off(value, what)
    if "rx" not in found or "tx" not in found:
        raise NotUnderstoodError("ethtool -a: the output ends before 'RX:' and 'TX:'.")
    return Pause(
        section.interface,
        autonegotiate=found.get("autonegotiate"),
        rx=found["rx"],
        tx=found["tx"],
        rx_negotiated=found.get("rx negotiated"),
        tx_negotiated=found.get("tx negotiated"),
        statistics=statistics,
    )


class Coalescing(Struct, frozen=True):
    """``ethtool -c``: interrupt moderation. ``values`` by ethtool's names (``rx-usecs``)."""

    interface: str | None
    adaptive_rx: bool | None
    adaptive_tx: bool | None
    values: Mapping[str, int | None]
    cqe_mode_rx: bool | None = None
    cqe_mode_tx: bool | None = None


_TWO = regex(r"(?P<what>Adaptive|CQE mode) RX:\s*(?P<rx>\S+)\s+TX:\s*(?P<tx>\S+)")


def _switch(word: str, what: str) -> bool | None:
    return None if word.lower() == "n/a" else on_off(word, what)


def parse_coalescing(section: Section) -> Coalescing:
    switches: dict[str, bool | None] = {}
    values: dict[str, int | None] = {}
    for number, line in section.numbered():
        stripped = line.strip()
        what = f"ethtool -c: line {number}"
        two = _TWO.fullmatch(stripped)
        if two is not None:
            for side in ("rx", "tx"):
                switches[f"{two['what']} {side}"] = _switch(two[side], what)
            continue
        if stripped.startswith("{") or stripped in ("rx-profile:", "tx-profile:"):
            continue
        key, colon, value = stripped.partition(":")
        if not colon:
            raise not_understood("ethtool -c", number, line, "'name: value'")
        # ethtool 3.x wrote 'rx-frame-low' for what is 'rx-frames-low' since.
        name = re.sub(r"-frame-(low|high)$", r"-frames-\1", key.strip())
        values[name] = _size(value.strip(), f"{what}: '{name}'")
    if not switches and not values:
        raise NotUnderstoodError("ethtool -c: there is no setting below the heading.")
    return Coalescing(
        section.interface,
        adaptive_rx=switches.get("Adaptive rx"),
        adaptive_tx=switches.get("Adaptive tx"),
        values=values,
        cqe_mode_rx=switches.get("CQE mode rx"),
        cqe_mode_tx=switches.get("CQE mode tx"),
    )


class Feature(Struct, frozen=True):
    """One offload: whether it is on, cannot be changed, and what was asked for if that differs."""

    active: bool
    fixed: bool = False
    requested: bool | None = None


class Features(Struct, frozen=True):
    """``ethtool -k``, by feature name."""

    interface: str | None
    features: Mapping[str, Feature]
    failures: tuple[EthtoolFailure, ...] = ()


_FEATURE = regex(r"(?P<state>on|off)(?:\s+\[(?P<note>[a-z ]+)\])?")


def parse_features(section: Section) -> Features:
    found: dict[str, Feature] = {}
    failures: list[EthtoolFailure] = []
    for number, line in section.numbered():
        failure = failure_in(line)
        if failure is not None:
            failures.append(failure)
            continue
        key, _, value = line.partition(":")
        match = _FEATURE.fullmatch(value.strip())
        if match is None:
            raise not_understood("ethtool -k", number, line, "'feature: on' or 'feature: off'")
        note = match["note"] or ""
        requested = note == "requested on" if note.startswith("requested") else None
        found[key.strip()] = Feature(match["state"] == "on", note == "fixed", requested)
    if not found:
        raise NotUnderstoodError("ethtool -k: there is no feature below the heading.")
    return Features(section.interface, found, tuple(failures))


class PrivateFlags(Struct, frozen=True):
    """``ethtool --show-priv-flags``: the driver's own switches."""

    interface: str | None
    flags: Mapping[str, bool]


def parse_private_flags(section: Section) -> PrivateFlags:
    flags = {
        key: on_off(value, f"ethtool --show-priv-flags: line {number}: '{key}'")
        for number, key, value in section.pairs()
    }
    if not flags:
        raise NotUnderstoodError("ethtool --show-priv-flags: there is no flag below the heading.")
    return PrivateFlags(section.interface, flags)


class PermanentAddress(Struct, frozen=True):
    """``ethtool -P``; None where none is set (all zero, or said so)."""

    address: str | None


_ADDRESS = regex(r"[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5,31}")


def parse_address(section: Section) -> PermanentAddress:
    value = section.lines[0].partition(":")[2].strip()
    if value.lower() == "not set":
        return PermanentAddress(None)
    if _ADDRESS.fullmatch(value) is None:
        raise NotUnderstoodError(f"ethtool -P: '{excerpt(value)}' is not a hardware address.")
    return PermanentAddress(value.lower() if value.strip("0:") else None)
