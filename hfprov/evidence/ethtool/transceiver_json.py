"""``ethtool --json -m`` (6.14 and later): the plugged module, from JSON.

Written after the sample output that came with the change to ethtool. The tool uses a key such as
``module_temperature`` twice, for the reading and for the thresholds; both are kept. Powers in mW.
"""

from __future__ import annotations

import math
from typing import Any

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.ethtool.transceiver import SIGNALS, Lane, Transceiver
from hfprov.evidence.net_lines import Node
from hfprov.evidence.text import Pairs

_THRESHOLDS = ":thresholds"
_RX_KEYS = ("rx_power", "rcvr_signal_avg_optical_power", "receiver_signal_average_optical_power")
_TX_KEYS = ("transmit_avg_optical_power", "laser_output_power", "tx_power")
_BIAS_KEYS = ("laser_tx_bias_current", "laser_bias_current")
_LENGTHS = ("length_(copper_or_active_cable)", "length_(copper)", "cable_assembly_length")


def keep_thresholds(pairs: Pairs) -> Any:
    """Members of an object; an object under a key that had a reading already goes beside it."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        repeated = key in found and isinstance(value, dict)
        found[key + _THRESHOLDS if repeated else key] = value
    return found


def transceiver_from_json(node: Node) -> Transceiver:
    """Facts of one module. Raises NotUnderstoodError for a value of the wrong kind."""
    flags = _flags(node)
    lost = _lost_signals(node)
    thresholds = _thresholds(node)
    implemented = node.bool("alarm/warning_flags_implemented")
    if (flags or implemented) and not thresholds:
        raise NotUnderstoodError(f"{node.where} has alarms but no thresholds.")
    length = next((found for key in _LENGTHS if (found := node.float(key)) is not None), None)
    return Transceiver(
        identifier=node.text("identifier_description") or "",
        identifier_code=node.need("identifier").as_int(),
        connector=node.text("connector_description"),
        vendor=node.text("vendor_name"),
        part_number=node.text("vendor_pn"),
        revision=node.text("vendor_rev"),
        serial_number=node.text("vendor_sn"),
        date_code=node.text("date_code"),
        cable_length_m=length or None,
        state=node.text("module_state_description"),
        diagnostics=node.bool("optical_diagnostics_support"),
        temperature_c=_reading(node, "module_temperature"),
        voltage_v=_reading(node, "module_voltage"),
        lanes=_lanes(node),
        alarms=(*(name for name, on in flags.items() if on), *lost) if flags or lost else None,
        flags=flags,
        thresholds=thresholds,
    )


def _reading(node: Node, key: str) -> float | None:
    found = node.get(key)
    return None if found is None or isinstance(found.value, dict) else found.as_float()


def _lost_signals(node: Node) -> list[str]:
    """Signals that text calls ``Rx loss of signal``; a word, a truth, or one of them per lane."""
    found = []
    for key, item in node.entries():
        name = key.replace("_", " ").capitalize()
        values = (
            [one.value for one in item.items()] if isinstance(item.value, list) else [item.value]
        )
        on = any(value is True or str(value).strip().lower() == "yes" for value in values)
        if name.lower() in SIGNALS and on:
            found.append(name)
    return found


def _flags(node: Node) -> dict[str, bool]:
    """Flags by ethtool's names in text; an array is one flag per channel."""
    flags: dict[str, bool] = {}
    for key, item in node.entries():
        if not key.endswith(("_alarm", "_warning")):
            continue
        name = key.replace("_", " ").capitalize()
        if isinstance(item.value, list):
            for number, flag in enumerate(item.items(), start=1):
                flags[f"{name} (Chan {number})"] = flag.as_bool()
        else:
            flags[name] = item.as_bool()
    return flags


def _thresholds(node: Node) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, item in node.entries():
        if isinstance(item.value, dict) and any("threshold" in name for name in item.members):
            what = key.removesuffix(_THRESHOLDS).replace("_", " ").capitalize()
            for name, value in item.entries():
                found[f"{what} {name.replace('_', ' ')}"] = str(value.as_float())
    return found


def _values(node: Node, keys: tuple[str, ...]) -> list[float]:
    """Readings of all channels: a list, an object with ``values``, or a single number."""
    for key in keys:
        found = node.get(key)
        if found is None:
            continue
        if isinstance(found.value, dict):
            inner = found.get("values") or found.get("value")
            if inner is None:
                continue
            found = inner
        if isinstance(found.value, list):
            return [item.as_float() for item in found.items()]
        return [found.as_float()]
    return []


def _lanes(node: Node) -> tuple[Lane, ...]:
    bias = _values(node, _BIAS_KEYS)
    sent = _values(node, _TX_KEYS)
    received = _values(node, _RX_KEYS)
    count = max(len(bias), len(sent), len(received))

    def at(values: list[float], index: int) -> float | None:
        return values[index] if index < len(values) else None

    return tuple(
        Lane(
            None if count == 1 else index + 1,
            tx_bias_ma=at(bias, index),
            tx_power_mw=at(sent, index),
            tx_power_dbm=_dbm(at(sent, index)),
            rx_power_mw=at(received, index),
            rx_power_dbm=_dbm(at(received, index)),
        )
        for index in range(count)
    )


def _dbm(milliwatts: float | None) -> float | None:
    """None for no light: that is minus infinity, which is no number."""
    return round(10 * math.log10(milliwatts), 2) if milliwatts and milliwatts > 0 else None
