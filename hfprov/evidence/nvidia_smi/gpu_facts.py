"""Building a Gpu from the fields of whichever form, errors in place of values kept by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.nvidia_smi.field_names import FIELDS
from hfprov.evidence.nvidia_smi.model import (
    Clocks,
    Ecc,
    EccCounters,
    Fabric,
    FieldError,
    Gpu,
    GpuProcess,
    Inforom,
    Memory,
    MigDevice,
    Pcie,
    Power,
    RemappedRows,
    RetiredPages,
    Temperature,
    Utilization,
)
from hfprov.evidence.nvidia_smi.values import Kind, convert, is_error, is_missing
from hfprov.regex import regex

_REASON = regex(
    r"clocks[_ ](?:event|throttle)[_ ]reasons(?:/.*/|/|\.)"
    r"(?:clocks_(?:event|throttle)_reason_)?([^/]+)$"
)
_REASON_NAMES = {
    "idle": "gpu_idle",
    "display_clock_setting": "display_clocks_setting",
}
_REASON_BITS = (
    "gpu_idle",
    "applications_clocks_setting",
    "sw_power_cap",
    "hw_slowdown",
    "sync_boost",
    "sw_thermal_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "display_clocks_setting",
)
_GROUPS: Mapping[str, type] = {
    "inforom": Inforom,
    "memory": Memory,
    "utilization": Utilization,
    "temperature": Temperature,
    "power": Power,
    "clocks": Clocks,
    "pcie": Pcie,
    "retired_pages": RetiredPages,
    "remapped_rows": RemappedRows,
    "fabric": Fabric,
    "ecc.volatile": EccCounters,
    "ecc.aggregate": EccCounters,
    "ecc": Ecc,
}


def gpu(
    raw: Mapping[str, str],
    *,
    index: int | None = None,
    pci: str | None = None,
    processes: tuple[GpuProcess, ...] | None = None,
    mig_devices: tuple[MigDevice, ...] | None = None,
    brackets: bool = False,
) -> Gpu:
    """A GPU from what one form says of it, by the form's own field names.

    ``index`` and ``pci`` (normalised) are used where the fields do not have them. ``brackets``
    says that the form puts errors in brackets.
    """
    values: dict[str, dict[str, Any]] = {"": {}}
    errors: list[FieldError] = []
    unknown: dict[str, str] = {}
    reasons: dict[str, bool] = {}
    for name, text in raw.items():
        lowered = name.lower()
        reason = _REASON.match(lowered)
        if reason is not None:
            _add_reason(reason.group(1), text, reasons, errors)
            continue
        known = FIELDS.get(lowered)
        if is_missing(text):
            continue
        if known is None:
            if is_error(text, brackets=brackets):
                errors.append(FieldError(name, text.strip()))
            unknown[name] = text.strip()
            continue
        fact, kind = known
        if is_error(text, brackets=brackets):
            errors.append(FieldError(fact, text.strip()))
            continue
        _add_value(fact, kind, text, values, errors)
    found = values.pop("")
    nested = _build_groups(values)
    found.setdefault("index", index)
    found.setdefault("pci_address", pci)
    return Gpu(
        **found,
        **nested,
        event_reasons=frozenset(name for name, on in reasons.items() if on) if reasons else None,
        processes=processes,
        mig_devices=mig_devices,
        errors=tuple(errors),
        unknown_fields=unknown,
    )


def _add_value(
    fact: str,
    kind: Kind,
    text: str,
    values: dict[str, dict[str, Any]],
    errors: list[FieldError],
) -> None:
    try:
        value = convert(kind, text)
    except NotUnderstoodError:
        errors.append(FieldError(fact, text.strip()[:200]))
        return
    group, _, leaf = fact.rpartition(".")
    slot = values.setdefault(group, {})
    # Two names for one flag (pending blacklist, pending retirement): what is wrong wins.
    slot[leaf] = value or slot.get(leaf, False) if kind is Kind.FLAG else value


def _add_reason(name: str, text: str, reasons: dict[str, bool], errors: list[FieldError]) -> None:
    name = name.replace(" ", "_")
    name = _REASON_NAMES.get(name, name)
    if name == "supported" or is_missing(text):
        return
    if name == "active":
        try:
            mask = int(text.strip(), 16)
        except ValueError:
            errors.append(FieldError("event_reasons", text.strip()[:200]))
            return
        for bit, reason in enumerate(_REASON_BITS):
            reasons.setdefault(reason, bool(mask >> bit & 1))
        for bit in range(len(_REASON_BITS), 64):
            if mask >> bit & 1:
                reasons[f"bit_{bit}"] = True
        return
    lowered = text.strip().lower()
    if lowered in ("active", "not active"):
        reasons[name] = lowered == "active"
    else:
        errors.append(FieldError(f"event_reasons.{name}", text.strip()[:200]))


def _build_groups(values: dict[str, dict[str, Any]]) -> dict[str, Any]:
    built: dict[str, Any] = {}
    for group in ("ecc.volatile", "ecc.aggregate"):
        if group in values:
            values.setdefault("ecc", {})[group.removeprefix("ecc.")] = _GROUPS[group](
                **values.pop(group)
            )
    for group, found in values.items():
        built[group] = _GROUPS[group](**found)
    return built
