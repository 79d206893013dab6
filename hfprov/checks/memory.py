"""Memory: all of it there, as fast as it was bought, and free of errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.checks.hardware import Expected, expected, in_container, not_bare_metal, odd_ones
from hfprov.checks.magnitude import magnitude, percent
from hfprov.checks.registry import Facts, check, require
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence.dmidecode import DmidecodeFacts, MemoryDevice
from hfprov.evidence.edac import Controller
from hfprov.evidence.memory_node import FIRMWARE_TABLE, MEMORY, MEMORY_ERRORS, UPTIME_SECONDS
from hfprov.evidence.system import MACHINE, Machine
from hfprov.verdict import (
    Finding,
    Impact,
    failed,
    passed,
    unknown,
    warned,
)

_MIB_PER_GIB = 1024
_KIB_PER_GIB = 1024 * 1024
_DAY = 86_400.0
_SHOWN = 8

CORRECTED_PER_DAY = 10
"""Corrected errors of one module in a day above which mcelog(8) reports it as failing."""
USABLE_SHARE, LITTLE_SHARE = 0.95, 0.90
"""The kernel keeps 2 to 3 % of memory for itself (page structures, crash kernel, firmware)."""
DERATED_SHARE = 0.90
"""Two modules on a channel run one step slower by design, which is at most a tenth."""
_NOT_MEMORY = frozenset({"Flash", "ROM", "EEPROM"})
_MEMORY = "the memory modules"


@check(
    "memory.modules",
    reads=[MACHINE, FIRMWARE_TABLE],
    impact=Impact.MANUAL,
    judges=["node_dimms"],
)
def modules(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Slots that should hold a module hold one."""
    if elsewhere := not_bare_metal(facts, _MEMORY):
        yield elsewhere
        return
    table = facts.get(FIRMWARE_TABLE)
    yield from judge_modules(table, expected(baseline, "node_dimms", lambda host: host.dimms))


def judge_modules(table: DmidecodeFacts, wanted: Expected | None) -> Iterator[Finding]:
    """Population against what is declared; where nothing is, against its own symmetry."""
    slots = _slots(table)
    present = [slot for slot in slots if slot.populated]
    require(present, "The firmware describes no memory module.")
    observed = f"{_sizes(present)} in {len(slots)} slots"
    empty = [name for name, slot in _named(slots).items() if not slot.populated]
    sockets = sum(1 for cpu in table.processors if cpu.populated)
    if wanted is not None:
        yield _counted(present, empty, wanted, observed)
    elif 0 < len(empty) < len(slots) / 4:
        reason = f"Few slots are empty ({_list(empty)}): a module may be missing or not detected."
        yield warned("", observed=observed, expected="all slots, or an even part", reason=reason)
    elif sockets and len(present) % sockets:
        reason = f"{len(present)} modules cannot be spread evenly over {sockets} processors."
        yield warned("", observed=observed, expected="as many for each processor", reason=reason)
    else:
        yield passed(observed=observed, expected="evenly populated")
    for name, slot in _named(present).items():
        if not slot.size_mib:
            reason = "The firmware sees a module but does not know its size: it is not in use."
            yield failed(name, observed="size unknown", expected="a size", reason=reason)


def _counted(
    present: list[MemoryDevice], empty: list[str], wanted: Expected, observed: str
) -> Finding:
    expectation = f"{wanted.count} modules, {wanted.origin}"
    if len(present) < wanted.count:
        where = f"; empty: {_list(empty)}" if empty else ""
        reason = f"{wanted.count - len(present)} modules are missing or not detected{where}."
        return failed("", observed=observed, expected=expectation, reason=reason)
    if len(present) > wanted.count:
        reason = "There are more modules than declared: the declaration or the node is wrong."
        return warned("", observed=observed, expected=expectation, reason=reason)
    return passed(observed=observed, expected=expectation)


@check("memory.alike", reads=[MACHINE, FIRMWARE_TABLE], impact=Impact.MANUAL)
def alike(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """Modules of different sizes or kinds leave channels unequally used."""
    yield not_bare_metal(facts, _MEMORY) or judge_alike(facts.get(FIRMWARE_TABLE))


def judge_alike(table: DmidecodeFacts) -> Finding:
    present = [slot for slot in _slots(table) if slot.populated]
    require(present, "The firmware describes no memory module.")
    values = {
        name: f"{_gib(slot)}, {slot.type or 'of unknown type'}, {slot.speed_mts or '?'} MT/s"
        for name, slot in _named(present).items()
    }
    odd = odd_ones(values)
    if odd is None:
        return passed(observed=next(iter(values.values())), expected="all modules alike")
    observed = ", ".join(f"{count} x {value}" for value, count in sorted(_counts(values).items()))
    named = _list(list(odd.different)) if odd.usual else "no kind has a majority"
    reason = f"The modules are not all alike ({named})."
    return warned("", observed=observed, expected="all modules alike", reason=reason)


@check(
    "memory.speed",
    reads=[MACHINE, FIRMWARE_TABLE],
    impact=Impact.MANUAL,
    judges=["node_memory_mts"],
)
def speed(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    if elsewhere := not_bare_metal(facts, _MEMORY):
        yield elsewhere
        return
    yield from judge_speed(facts.get(FIRMWARE_TABLE), expected(baseline, "node_memory_mts"))


def judge_speed(table: DmidecodeFacts, wanted: Expected | None) -> Iterator[Finding]:
    """The speed at which the firmware runs the modules."""
    present = _named([slot for slot in _slots(table) if slot.populated])
    running = {name: slot.configured_mts for name, slot in present.items() if slot.configured_mts}
    if len(running) < len(present) or not running:
        yield unknown(reason="The firmware does not tell the speed of every memory module.")
        return
    fastest = max(running.values())
    rated = max(slot.speed_mts or 0 for slot in present.values())
    expectation = f"{wanted.count} MT/s, {wanted.origin}" if wanted else f"{fastest} MT/s"
    least = max(fastest, wanted.count if wanted else 0)
    slow = {name: mts for name, mts in running.items() if mts < least}
    for name, mts in slow.items():
        reason = "The module runs slower than it should, and slows its channel down."
        yield failed(name, observed=f"{mts} MT/s", expected=expectation, reason=reason)
    if slow:
        return
    if wanted is None and rated and fastest < rated * DERATED_SHARE:
        reason = (
            f"The modules are made for {rated} MT/s. A setting of the firmware, or the processor, "
            "holds them back by more than a second module on a channel explains."
        )
        yield warned("", observed=f"{fastest} MT/s", expected=f"{rated} MT/s", reason=reason)
    else:
        yield passed(observed=f"{fastest} MT/s", expected=expectation)


@check(
    "memory.total",
    reads=[MACHINE, MEMORY, FIRMWARE_TABLE],
    impact=Impact.MANUAL,
    judges=["node_memory_gib"],
)
def total(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """What the kernel can use, of what is plugged in and of what was bought."""
    wanted = expected(baseline, "node_memory_gib", lambda host: host.ram_gib)
    elsewhere = in_container(facts, _MEMORY) if wanted else not_bare_metal(facts, _MEMORY)
    if elsewhere:
        yield elsewhere
        return
    usable = facts.get(MEMORY).total_kib / _KIB_PER_GIB
    installed, why = None, ""
    if facts.get(MACHINE) is Machine.BARE_METAL:
        installed, why = _installed(facts)
    yield judge_total(usable, installed, wanted, why)


def _installed(facts: Facts) -> tuple[float | None, str]:
    """GiB of all modules, or None and the reason why it is not known."""
    try:
        gib = facts.get(FIRMWARE_TABLE).memory_mib / _MIB_PER_GIB
    except (NoEvidenceError, NotUnderstoodError) as error:
        return None, error.message
    return (gib, "") if gib else (None, "The firmware describes no memory module.")


def judge_total(
    usable: float, installed: float | None, wanted: Expected | None, why: str = ""
) -> Finding:
    """``usable`` is the kernel's MemTotal, ``installed`` the sum of the modules; both in GiB."""
    if installed is None and wanted is None:
        return unknown(reason=f"Nobody says how much memory there should be. {why}".strip())
    observed = f"{usable:.0f} GiB usable"
    if installed is not None:
        observed += f" of {installed:.0f} GiB installed"
    expectation = f"{wanted.count} GiB, {wanted.origin}" if wanted else f"{installed:.0f} GiB"
    if wanted and installed is not None and installed < wanted.count:
        reason = "The modules that the firmware sees add up to less than the node was bought with."
        return failed("", observed=observed, expected=expectation, reason=reason)
    share = usable / (installed if installed is not None else float(wanted.count if wanted else 0))
    if share < USABLE_SHARE:
        reason = f"The kernel can use only {percent(share, 1)} of the memory."
        judged = failed if share < LITTLE_SHARE else warned
        return judged("", observed=observed, expected=expectation, reason=reason)
    return passed(observed=observed, expected=expectation)


@check("memory.errors", reads=[MACHINE, MEMORY_ERRORS, UPTIME_SECONDS], impact=Impact.MANUAL)
def errors(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """Errors since the node was started: one that was not corrected is one too many."""
    if elsewhere := not_bare_metal(facts, "the counters of memory errors"):
        yield elsewhere
        return
    yield from judge_errors(facts.get(MEMORY_ERRORS), facts.get(UPTIME_SECONDS))


def judge_errors(controllers: tuple[Controller, ...], seconds: float) -> Iterator[Finding]:
    """``seconds`` since the counters began. The modules first, then what no module owns."""
    days = max(1.0, seconds / _DAY)
    counts: dict[str, tuple[int, int]] = {}
    for controller in controllers:
        corrected, uncorrected = controller.corrected, controller.uncorrected
        for dimm in controller.dimms:
            name = f"mc{controller.index} {dimm.label or f'module {dimm.index}'}"
            counts[name] = (dimm.corrected, dimm.uncorrected)
            corrected -= dimm.corrected
            uncorrected -= dimm.uncorrected
        counts[f"mc{controller.index}"] = (max(0, corrected), max(0, uncorrected))
    bad = False
    for name, (corrected, uncorrected) in counts.items():
        observed = f"{magnitude(uncorrected)} uncorrected, {magnitude(corrected)} corrected"
        wanted = f"0 uncorrected, at most {CORRECTED_PER_DAY} corrected a day"
        if uncorrected:
            reason = "Data in memory was lost: processes were killed, or used what was wrong."
            yield failed(name, observed=observed, expected=wanted, reason=reason)
        elif corrected > CORRECTED_PER_DAY * days:
            reason = "The module is corrected more often than a healthy one: it may soon fail."
            yield warned(name, observed=observed, expected=wanted, reason=reason)
        bad = bad or uncorrected > 0 or corrected > CORRECTED_PER_DAY * days
    if not bad:
        worst = magnitude(max(corrected for corrected, _ in counts.values()))
        observed = f"{len(controllers)} controllers, 0 uncorrected, {worst} corrected on one module"
        yield passed(observed=observed, expected="no uncorrected error")


def _slots(table: DmidecodeFacts) -> list[MemoryDevice]:
    return [slot for slot in table.memory if slot.type not in _NOT_MEMORY]


def _named(slots: list[MemoryDevice]) -> dict[str, MemoryDevice]:
    """Slots by a name that is unique: some firmware calls one slot of each bank alike."""
    repeated = {name for name, count in Counter(s.locator for s in slots).items() if count > 1}
    named: dict[str, MemoryDevice] = {}
    for number, slot in enumerate(slots):
        name = slot.locator or f"slot {number}"
        if slot.locator in repeated:
            name = f"{slot.bank or ''} {name}".strip()
        named[f"{name} (slot {number})" if name in named else name] = slot
    return named


def _gib(slot: MemoryDevice) -> str:
    return f"{slot.size_mib / _MIB_PER_GIB:g} GiB" if slot.size_mib else "size unknown"


def _sizes(slots: list[MemoryDevice]) -> str:
    counts = Counter(_gib(slot) for slot in slots)
    return " + ".join(f"{count} x {size}" for size, count in sorted(counts.items()))


def _counts(values: dict[str, str]) -> Counter[str]:
    return Counter(values.values())


def _list(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
