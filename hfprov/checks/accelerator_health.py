"""Whether each accelerator is sound, and run as it should be: memory, heat, clocks, modes."""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.catalogue.accelerators import Model
from hfprov.checks.accelerator_scope import SOURCES, of_each_device, untold
from hfprov.checks.registry import Facts, check
from hfprov.evidence.accelerators.model import Accelerator, Vendor
from hfprov.verdict import Finding, Impact, failed, passed, unknown, warned

RETIRED_PAGES_LIMIT = 60
"""Pages over which NVIDIA replaces a GPU with page retirement, where the catalogue has no row."""
HARMLESS_REASONS = frozenset(
    {"gpu_idle", "applications_clocks_setting", "sw_power_cap", "display_clocks_setting", "ppt"}
)
"""Reasons that hold clocks down by design: nothing to do, or a limit that was set."""
WARN_REASONS = frozenset({"sync_boost"})
BAD_REASONS = frozenset(
    {
        "hw_slowdown",
        "hw_thermal_slowdown",
        "hw_power_brake_slowdown",
        "sw_thermal_slowdown",
        "prochot",
        "socket_thermal",
        "vr_thermal",
        "hbm_thermal",
        "throttled",
    }
)
RECOVERY = {
    "none": "",
    "reset": "reset the GPU",
    "gpu reset": "reset the GPU",
    "gpu reset required": "reset the GPU",
    "node reboot": "reboot the node",
    "reboot": "reboot the node",
    "drain p2p": "drain the GPU's peers",
    "drain and reset": "drain, then reset the GPU",
    "drain p2p and reset": "drain, then reset the GPU",
}
"""Recovery actions of NVML, in words; another one is taken for the worst."""


@check("accelerator.ecc_mode", reads=SOURCES, impact=Impact.DRAIN)
def ecc_mode(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Memory protection is on, now and after the next reset."""

    def judge(device: Accelerator, model: Model | None) -> Iterator[Finding]:
        ecc = device.ecc
        if ecc.enabled is None:
            wanted = model is not None and model.ecc and device.vendor is Vendor.NVIDIA
            yield untold(device, model, "ECC mode", expected=wanted)
        elif ecc.enabled and ecc.pending is not False:
            yield passed(device.name, observed="on", expected="on")
        elif model is None:
            reason = "Errors in its memory go unnoticed."
            yield warned(device.name, observed="off", expected="on", reason=reason)
        else:
            observed = "off" if not ecc.enabled else "on, off after the next reset"
            reason = "Errors in its memory go unnoticed: results may be wrong without a sign."
            yield failed(device.name, observed=observed, expected="on", reason=reason)

    yield from of_each_device(facts, baseline, judge)


@check("accelerator.ecc_errors", reads=SOURCES, impact=Impact.DRAIN)
def ecc_errors(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """No uncorrectable error since the last reset, and no memory beyond repair."""

    def judge(device: Accelerator, model: Model | None) -> Iterator[Finding]:
        ecc = device.ecc
        expected = "0 uncorrectable"
        if ecc.unrepairable:
            reason = f"It must be replaced: {ecc.unrepairable}."
            yield failed(device.name, observed="beyond repair", expected=expected, reason=reason)
        elif ecc.volatile_uncorrected:
            reason = "Data in its memory was lost since its last reset."
            observed = f"{ecc.volatile_uncorrected} uncorrectable"
            yield failed(device.name, observed=observed, expected=expected, reason=reason)
        elif ecc.volatile_uncorrected is None:
            wanted = model is not None and model.ecc and ecc.enabled is not False
            yield untold(device, model, "count of memory errors", expected=wanted)
        elif ecc.aggregate_uncorrected:
            reason = "It had uncorrectable errors earlier in its life; watch it."
            observed = f"0 since the last reset, {ecc.aggregate_uncorrected} in its life"
            yield warned(device.name, observed=observed, expected=expected, reason=reason)
        else:
            corrected = f", {ecc.volatile_corrected} corrected" if ecc.volatile_corrected else ""
            yield passed(device.name, observed=f"{expected}{corrected}", expected=expected)

    yield from of_each_device(facts, baseline, judge)


@check("accelerator.memory_repair", reads=SOURCES, impact=Impact.DRAIN)
def memory_repair(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """No remapped row or retired page waits for a reset, none failed, and not too many are used."""

    def judge(device: Accelerator, model: Model | None) -> Iterator[Finding]:
        repair = device.repair
        expected = "none failed or pending"
        limit = (model.max_retired_pages if model else None) or RETIRED_PAGES_LIMIT
        if not repair.kind:
            yield _no_repair_told(device, model)
            return
        observed = f"{repair.done or 0} {repair.kind}"
        if repair.failed:
            reason = "A repair of its memory failed: it must be replaced."
            yield failed(device.name, observed=observed, expected=expected, reason=reason)
        elif (
            repair.kind == "pages" and device.vendor is Vendor.NVIDIA and (repair.done or 0) > limit
        ):
            reason = f"More than {limit} pages of its memory were retired: it must be replaced."
            yield failed(device.name, observed=observed, expected=expected, reason=reason)
        elif repair.pending:
            reason = "A repair of its memory waits for a reset: drain the node and reset it."
            observed = f"{observed}, one pending"
            yield warned(device.name, observed=observed, expected=expected, reason=reason)
        elif repair.pending is None and repair.failed is None:
            yield unknown(device.name, reason="It does not tell whether a repair is pending.")
        else:
            yield passed(device.name, observed=observed, expected=expected)

    yield from of_each_device(facts, baseline, judge)


def _no_repair_told(device: Accelerator, model: Model | None) -> Finding:
    """Repairs cannot be asked for while MIG is on; without an error there is nothing to repair."""
    if device.partitioned and device.ecc.aggregate_uncorrected == 0:
        observed = "not told while MIG is on; no uncorrectable error in its life"
        return passed(device.name, observed=observed, expected="none failed or pending")
    wanted = model is not None and model.ecc and device.vendor is Vendor.NVIDIA
    return untold(
        device, model, "memory repairs", expected=wanted and device.ecc.enabled is not False
    )


@check("accelerator.recovery", reads=SOURCES, impact=Impact.DRAIN)
def recovery(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The driver asks for nothing to be done. What it asks for and we do not know is the worst."""

    def judge(device: Accelerator, _: Model | None) -> Iterator[Finding]:
        action = device.recovery_action
        if not action:
            yield untold(device, None, "recovery action", expected=False)
        elif action == "none":
            yield passed(device.name, observed="none", expected="none")
        else:
            known = RECOVERY.get(action)
            reason = f"The driver asks for it: drain the node, then {known}."
            if not known:
                reason = "The driver asks for something that we do not know: take the node out."
            yield failed(device.name, observed=action, expected="none", reason=reason)

    yield from of_each_device(facts, baseline, judge)


@check("accelerator.throttling", reads=SOURCES, impact=Impact.MANUAL)
def throttling(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Nothing but idleness and set limits holds the clocks down."""

    def judge(device: Accelerator, _: Model | None) -> Iterator[Finding]:
        expected = "none but idle or a set limit"
        if device.throttle is None:
            yield untold(device, None, "reasons for lower clocks", expected=False)
            return
        observed = ", ".join(sorted(device.throttle)) or "none"
        bad = device.throttle & BAD_REASONS
        strange = device.throttle - BAD_REASONS - HARMLESS_REASONS - WARN_REASONS
        if bad:
            reason = "The hardware holds its clocks down: heat, power, or a brake signal."
            yield failed(device.name, observed=observed, expected=expected, reason=reason)
        elif strange:
            reason = f"Clocks are held down for a reason that is not known: {observed}."
            yield unknown(device.name, reason=reason, expected=expected)
        elif device.throttle & WARN_REASONS:
            reason = "It waits for slower devices in its group."
            yield warned(device.name, observed=observed, expected=expected, reason=reason)
        else:
            yield passed(device.name, observed=observed, expected=expected)

    yield from of_each_device(facts, baseline, judge)


@check(
    "accelerator.temperature",
    reads=SOURCES,
    impact=Impact.MANUAL,
    judges=["node_accelerator_max_temperature_c"],
)
def temperature(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Below the device's own limits; below the declared one where it tells none."""
    highest = float(baseline.get("node_accelerator_max_temperature_c", 87))

    def judge(device: Accelerator, model: Model | None) -> Iterator[Finding]:
        yield _heat(device, model, highest)

    yield from of_each_device(facts, baseline, judge)


def _heat(device: Accelerator, model: Model | None, highest: float) -> Finding:
    heat = device.temperatures
    if heat.core is None and heat.margin is None:
        return untold(device, model, "temperature", expected=model is not None)
    observed = f"{heat.core:.0f} °C" if heat.core is not None else f"{heat.margin:.0f} °C left"
    slow = heat.slowdown_at is not None and heat.core is not None and heat.core >= heat.slowdown_at
    used_up = heat.margin is not None and heat.margin <= (heat.slowdown_margin or 0)
    limit = _limit(heat.slowdown_at, heat.margin, heat.core)
    if slow or used_up:
        reason = "It is so hot that it slows down, or worse."
        return failed(device.name, observed=observed, expected=limit, reason=reason)
    if (
        heat.memory is not None
        and heat.memory_limit is not None
        and heat.memory >= heat.memory_limit
    ):
        reason = "Its memory is at its limit."
        observed, limit = f"memory {heat.memory:.0f} °C", f"below {heat.memory_limit:.0f} °C"
        return failed(device.name, observed=observed, expected=limit, reason=reason)
    if heat.warn_at is not None and heat.core is not None and heat.core >= heat.warn_at:
        limit = f"below {heat.warn_at:.0f} °C"
        reason = "It is hotter than its vendor wants it to be in normal operation."
        return warned(device.name, observed=observed, expected=limit, reason=reason)
    if not limit and heat.core is not None and heat.core > highest:
        limit = f"at most {highest:.0f} °C"
        reason = "It is hotter than is declared to be right; it tells no limit of its own."
        return warned(device.name, observed=observed, expected=limit, reason=reason)
    return passed(device.name, observed=observed, expected=limit or f"at most {highest:.0f} °C")


def _limit(slowdown_at: float | None, margin: float | None, core: float | None) -> str:
    if slowdown_at is not None:
        return f"below {slowdown_at:.0f} °C"
    if margin is not None and core is not None:
        return f"below {core + margin:.0f} °C"
    return "some distance to its limit" if margin is not None else ""


@check("accelerator.health", reads=SOURCES, impact=Impact.MANUAL)
def health(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """What the vendor's own tool says of each device's health."""

    def judge(device: Accelerator, _: Model | None) -> Iterator[Finding]:
        said = device.health.strip()
        word = said.lower()
        if word in ("ok", "healthy"):
            yield passed(device.name, observed=said, expected="OK")
        elif not word:
            yield untold(device, None, "health", expected=device.vendor is Vendor.ASCEND)
        elif word == "warning":
            reason = "The vendor's tool warns of it."
            yield warned(device.name, observed=said, expected="OK", reason=reason)
        elif word == "unknown":
            yield unknown(device.name, reason="The vendor's tool does not know its health.")
        else:
            reason = "The vendor's tool says that it is not healthy."
            yield failed(device.name, observed=said, expected="OK", reason=reason)

    yield from of_each_device(facts, baseline, judge)
