"""``ethtool -m``: the plugged module or cable (SFP, QSFP, CMIS), its light, heat and alarms.

Powers in dBm and mW as printed. A passive copper cable, and an optical module without digital
diagnostics, have no readings: None, never 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct, field

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.ethtool.failure import EthtoolFailure, failure_in
from hfprov.evidence.ethtool.pairs import Section
from hfprov.evidence.net_lines import decimal, not_understood, value_or_none
from hfprov.evidence.text import excerpt
from hfprov.regex import regex


class Lane(Struct, frozen=True):
    """Readings of one channel; ``number`` is None for a module with a single, unnumbered one."""

    number: int | None
    tx_bias_ma: float | None = None
    tx_power_mw: float | None = None
    tx_power_dbm: float | None = None
    rx_power_mw: float | None = None
    rx_power_dbm: float | None = None


class Transceiver(Struct, frozen=True):
    """``ethtool -m``."""

    identifier: str
    """What kind of module: ``SFP``, ``QSFP28``, ``QSFP-DD Double Density …``."""
    identifier_code: int | None
    connector: str | None
    vendor: str | None
    part_number: str | None
    revision: str | None
    serial_number: str | None
    date_code: str | None
    cable_length_m: float | None
    """Length of a copper or active cable; None where not told."""
    state: str | None
    """Module state of CMIS (``ModuleReady``)."""
    diagnostics: bool | None
    """Whether the module says that it has digital diagnostics; None when it does not say."""
    temperature_c: float | None
    voltage_v: float | None
    lanes: tuple[Lane, ...]
    alarms: tuple[str, ...] | None
    """Alarm and warning flags that are on, by their names, then signals that are lost.

    None when there are no flags and none of the signals is lost.
    """
    flags: Mapping[str, bool] = field(default_factory=dict)
    thresholds: Mapping[str, str] = field(default_factory=dict)
    """Alarm and warning thresholds as printed, with their units."""
    properties: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    failures: tuple[EthtoolFailure, ...] = ()


_CODE = regex(r"(?P<code>0x[0-9a-fA-F]{1,4})\s*\((?P<words>.*)\)")
_LANE = regex(
    r"(?P<what>.*?)\s*\((?:Channel|Chan|Lane)\s*(?P<lane>[0-9]{1,2})\)(?P<rest>.*)", re.IGNORECASE
)
_POWER = regex(r"(?P<mw>[-0-9.]+) mW(?: / (?P<dbm>-?[0-9.]+|-?inf) dBm)?")
_BIAS = ("laser bias current", "laser tx bias current")
_TX_POWER = ("laser output power", "transmit avg optical power", "laser tx power")
_RX_POWER = (
    "receiver signal average optical power",
    "receiver signal oma",
    "rcvr signal avg optical power",
    "laser rx power",
)
SIGNALS = (
    "rx loss of signal",
    "tx loss of signal",
    "rx loss of lock",
    "tx loss of lock",
    "tx fault",
    "tx adaptive eq fault",
)
"""``None``, ``Yes``, ``No``, or a list with one of them for each lane."""
_RANGE = regex(
    r"(?P<values>-?[0-9.]+(?:,-?[0-9.]+)*) \[(?P<low>-?[0-9.]+)\.\.(?P<high>-?[0-9.]+)\]"
)
"""A reading of ``mlxlink -m`` with the limits of the module."""
_LENGTHS = ("length (copper)", "length (copper or active cable)", "cable assembly length")


def parse_transceiver(section: Section) -> Transceiver:
    """Facts of one module; a hexadecimal dump is refused, because it says nothing readable."""
    properties: dict[str, list[str]] = {}
    failures: list[EthtoolFailure] = []
    for number, line in section.numbered():
        failure = failure_in(line)
        if failure is not None:
            failures.append(failure)
            continue
        key, colon, value = line.partition(":")
        if not colon:
            raise not_understood("ethtool -m", number, line, "'property : value'")
        properties.setdefault(key.strip(), []).append(value.strip())
    if "Identifier" not in properties:
        raise NotUnderstoodError("ethtool -m: there is no 'Identifier'.")
    return _facts(properties, tuple(failures))


def _facts(
    properties: Mapping[str, list[str]], failures: tuple[EthtoolFailure, ...]
) -> Transceiver:
    first = {" ".join(key.lower().split()): values[0] for key, values in properties.items()}
    code, identifier = _coded(first["identifier"])
    flags = {
        " ".join(key.split()): _flag(values, key)
        for key, values in properties.items()
        if _is_flag(key)
    }
    thresholds = {key: values[0] for key, values in properties.items() if key.endswith("threshold")}
    if (flags or first.get("alarm/warning flags implemented") == "Yes") and not thresholds:
        # ethtool prints thresholds last: without them, flags are missing too.
        raise NotUnderstoodError("ethtool -m: the output ends before the alarm thresholds.")
    troubles = (*_lost_signals(properties), *_out_of_range(properties))
    diagnostics = first.get("optical diagnostics support")
    length = next((first[key] for key in _LENGTHS if key in first), None)
    temperature = first.get("module temperature")
    voltage = first.get("module voltage")
    return Transceiver(
        identifier=identifier,
        identifier_code=code,
        connector=_words(first.get("connector")),
        vendor=_words(first.get("vendor name")),
        part_number=_words(first.get("vendor pn")),
        revision=_words(first.get("vendor rev")),
        serial_number=_words(first.get("vendor sn")),
        date_code=_words(first.get("date code")),
        cable_length_m=_length(length),
        state=_words(first.get("module state")),
        diagnostics=diagnostics.lower() == "yes" if diagnostics is not None else None,
        temperature_c=_leading(temperature, "degrees C", "Module temperature"),
        voltage_v=_leading(voltage, "V", "Module voltage"),
        lanes=_lanes(properties),
        alarms=(*(key for key, on in flags.items() if on), *troubles)
        if flags or troubles
        else None,
        flags=flags,
        thresholds=thresholds,
        properties={key: tuple(values) for key, values in properties.items()},
        failures=failures,
    )


def _lost_signals(properties: Mapping[str, list[str]]) -> list[str]:
    return [
        key
        for key, values in properties.items()
        if key.lower() in SIGNALS
        and any("yes" in re.split(r"\W+", value.lower()) for value in values)
    ]


def _out_of_range(properties: Mapping[str, list[str]]) -> list[str]:
    found = []
    for key, values in properties.items():
        match = _RANGE.fullmatch(values[0])
        if match is None:
            continue
        low, high = (decimal(match[end], f"The limits of '{key}'") for end in ("low", "high"))
        readings = [decimal(one, f"'{key}'") for one in match["values"].split(",")]
        if any(not low <= reading <= high for reading in readings):
            found.append(f"{key} {values[0]}")
    return found


def _coded(value: str) -> tuple[int | None, str]:
    match = _CODE.fullmatch(value)
    return (int(match["code"], 16), match["words"]) if match else (None, value)


def _words(value: str | None) -> str | None:
    return value_or_none(_coded(value)[1]) if value is not None else None


def _leading(value: str | None, unit: str, what: str) -> float | None:
    """The number before ``unit``; ethtool adds the same in other units behind a slash."""
    if value is None or value.lower() in ("n/a", "unsupported"):
        return None
    figure = value.partition("/")[0].strip()
    if not figure.endswith(unit):
        raise NotUnderstoodError(f"ethtool -m: '{what}: {excerpt(value)}' is not in '{unit}'.")
    return decimal(figure.removesuffix(unit), f"ethtool -m: '{what}'")


def _length(value: str | None) -> float | None:
    if value is None or not value.endswith("m") or value.endswith("km"):
        return None
    # A pluggable optic has no cable of its own, and says 0.
    return decimal(value[:-1], "ethtool -m: the cable length") or None


def _is_flag(key: str) -> bool:
    lowered = key.lower()
    without_lane = re.sub(r"\s*\((?:chan|channel|lane)\s*[0-9]+\)", "", lowered)
    return without_lane.endswith((" alarm", " warning"))


def _flag(values: list[str], key: str) -> bool:
    """On if any line says so: a repeated flag never hides the one that is on."""
    for value in values:
        if value.lower() not in ("on", "off"):
            raise NotUnderstoodError(
                f"ethtool -m: '{key}: {excerpt(value)}' is neither On nor Off."
            )
    return any(value.lower() == "on" for value in values)


def _lanes(properties: Mapping[str, list[str]]) -> tuple[Lane, ...]:
    readings: dict[int | None, dict[str, float | None]] = {}
    for key, values in properties.items():
        match = _LANE.fullmatch(key)
        what = (match["what"] if match else key).strip().lower()
        lane = int(match["lane"]) if match else None
        value = values[0]
        if what in _BIAS:
            readings.setdefault(lane, {})["tx_bias_ma"] = _leading(value, "mA", key)
        elif what in _TX_POWER:
            readings.setdefault(lane, {}).update(_power("tx", value, key))
        elif what in _RX_POWER:
            readings.setdefault(lane, {}).update(_power("rx", value, key))
    numbers = sorted(readings, key=lambda lane: -1 if lane is None else lane)
    return tuple(Lane(number, **readings[number]) for number in numbers)


def _power(side: str, value: str, key: str) -> dict[str, float | None]:
    if value.lower() in ("n/a", "unsupported"):
        return {f"{side}_power_mw": None, f"{side}_power_dbm": None}
    match = _POWER.fullmatch(value)
    if match is None:
        raise NotUnderstoodError(f"ethtool -m: '{key}: {excerpt(value)}' is not in mW and dBm.")
    dbm = match["dbm"]
    # No light at all is minus infinity dBm; it has no number, and the mW say 0.
    logarithmic = None if dbm is None or "inf" in dbm else decimal(dbm, f"ethtool -m: '{key}'")
    return {
        f"{side}_power_mw": decimal(match["mw"], f"ethtool -m: '{key}'"),
        f"{side}_power_dbm": logarithmic,
    }
