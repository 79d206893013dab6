"""Work may use all CPUs and the memory of the node: neither systemd nor a control group bounds it.

Each job's own bounds (of a scheduler, a container engine, a user) are let be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts, check
from hfprov.evidence.bound_values import OF_SETTING, Amount, Kind, Whole, of_setting
from hfprov.evidence.slices import SLICE_SETTINGS
from hfprov.evidence.systemd import Layers, Setting, layered
from hfprov.evidence.text import excerpt
from hfprov.evidence.work_bounds import WORK_BOUNDS, Bound
from hfprov.verdict import Finding, Impact, failed, passed

SYSTEM_CONF = layered("system.conf")
USER_CONF = layered("user.conf")
_OF_MANAGER = ("CPUAffinity", "NUMAPolicy")
_LISTS = (Kind.CPUS, Kind.NODES)
_SHARE_OF_MEMORY = 0.75
"""Below it a bound does more than keep the system itself alive."""
_ROUNDED = 0.99
_USUAL_POLICIES = ("n/a", "default", "local")
_BY_HAND = "No role takes it away: a person has to."


def _is_enough(kind: Kind, amount: Amount, whole: Whole) -> bool:
    if isinstance(amount, str):
        return amount in _USUAL_POLICIES
    if isinstance(amount, frozenset):
        return amount >= (whole.cpus if kind is Kind.CPUS else whole.nodes)
    share = whole.memory * _SHARE_OF_MEMORY if kind is Kind.MEMORY else len(whole.cpus)
    return amount >= share * _ROUNDED


def _expected(kind: Kind, whole: Whole) -> str:
    return {
        Kind.CPUS: f"all {len(whole.cpus)} CPUs",
        Kind.NODES: f"all {len(whole.nodes)} NUMA nodes",
        Kind.QUOTA: f"the time of {len(whole.cpus)} CPUs",
        Kind.MEMORY: f"at least {whole.memory * _SHARE_OF_MEMORY / 2**20:.0f} MiB",
        Kind.POLICY: "no policy",
    }[kind]


def _holding(settings: Sequence[Setting], key: str) -> tuple[Setting, ...]:
    """The assignments that hold: lists add up, of the others the last one; empty takes all back."""
    found: list[Setting] = []
    for one in settings:
        if one.key == key:
            adds_up = OF_SETTING[key] in _LISTS and one.value
            found = [*(found if adds_up else ()), *([one] if one.value else ())]
    return tuple(found)


def _manager(facts: Facts) -> Iterator[tuple[Setting, ...]]:
    """Settings of systemd itself that hold, those of one key and file together."""
    for source in (SYSTEM_CONF, USER_CONF):
        layers: Layers = facts.get(source)
        settings = [one for one in layers.settings if one.section == "Manager"]
        yield from (_holding(settings, key) for key in _OF_MANAGER)


def _of_slices(facts: Facts) -> Iterator[tuple[str, tuple[Setting, ...]]]:
    for name, settings in sorted(facts.get(SLICE_SETTINGS).items()):
        for key in OF_SETTING:
            yield name, _holding(settings, key)


def _whose(bound: Bound, facts: Facts) -> str:
    """Who has set a bound that is in effect, as far as files tell."""
    group = bound.subject.partition(" ")[0].rpartition("/")[2]
    if group.endswith(".service"):
        return f"'systemctl cat {excerpt(group)}' shows the line."
    of_process = not group.endswith(".slice")
    held = [settings for name, settings in _of_slices(facts) if of_process or _covers(name, group)]
    if of_process:
        held += _manager(facts)
    found = [one for settings in held for one in settings if OF_SETTING[one.key] is bound.kind]
    if not found:
        return "No file of systemd sets it: somebody did by hand, and it may go with a reboot."
    return "Set in " + ", ".join(f"'{excerpt(one.where, 160)}'" for one in found[:3]) + "."


def _covers(name: str, group: str) -> bool:
    stem = name.removesuffix(".slice")
    return name in (group, "-.slice") or (stem == "user-" and group.startswith(stem))


@check(
    "limits.bounds.live",
    reads=[WORK_BOUNDS, SLICE_SETTINGS, SYSTEM_CONF, USER_CONF],
    role="limits",
    impact=Impact.MANUAL,
    judges=["limits_services"],
)
def live(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """Sessions, services and what systemd starts may use all CPUs and most of the memory, now."""
    found = facts.get(WORK_BOUNDS)
    short = [one for one in found.bounds if not _is_enough(one.kind, one.amount, found.whole)]
    for bound in short:
        yield failed(
            bound.subject,
            observed=excerpt(bound.text),
            expected=_expected(bound.kind, found.whole),
            reason=f"All that runs there has no more. {_whose(bound, facts)} {_BY_HAND}",
        )
    if not short:
        yield passed(observed="not bounded", expected="not bounded")


@check(
    "limits.bounds.files",
    reads=[WORK_BOUNDS, SLICE_SETTINGS, SYSTEM_CONF, USER_CONF],
    role="limits",
    impact=Impact.MANUAL,
)
def files(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """No file of systemd bounds CPUs or memory from the next start or reload on."""
    whole = facts.get(WORK_BOUNDS).whole
    bounded = False
    for settings in [*_manager(facts), *(settings for _, settings in _of_slices(facts))]:
        if not settings or _is_enough(*_together(settings, whole), whole):
            continue
        bounded = True
        for one in settings:
            yield failed(
                one.where,
                observed=excerpt(one.statement),
                expected=_expected(OF_SETTING[one.key], whole),
                reason=f"It holds from the next start or reload of systemd on. {_BY_HAND}",
            )
    if not bounded:
        yield passed(observed="none", expected="no bound of CPUs or memory")


def _together(settings: Sequence[Setting], whole: Whole) -> tuple[Kind, Amount]:
    amounts = [of_setting(one.key, one.value, whole) for one in settings]
    total = amounts[-1]
    for one in amounts:
        if isinstance(total, frozenset) and isinstance(one, frozenset):
            total |= one
    return OF_SETTING[settings[-1].key], total
