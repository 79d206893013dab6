"""The data interfaces have the declared MTU now, and none of them carries management.

What they will have after a reboot is in :mod:`hfprov.checks.mtu_persistent`. The path between nodes
is measured, not judged here: a switch may still drop large frames.
"""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts, check, require
from hfprov.evidence.link_names import NAMINGS
from hfprov.evidence.managed_links import DEFAULT_ROUTES, GUARD, LINKS
from hfprov.evidence.systemd import property_of
from hfprov.evidence.udev_mtu import MTU_RULES
from hfprov.verdict import Finding, Impact, compared, failed, passed, unknown

VARIABLES = ("jumbo_mtu_interfaces", "jumbo_mtu_bytes")
GUARD_UNIT = "hfprov-mtu-guard.timer"


def data_interfaces(baseline: Baseline) -> list[str]:
    """The declared names. Raises NoEvidenceError when there are none."""
    names = [str(name) for name in baseline["jumbo_mtu_interfaces"]]
    require(names, "No data interface is declared in 'jumbo_mtu_interfaces'.")
    return names


@check("mtu.live", reads=[LINKS], role="jumbo_mtu", impact=Impact.NONE, judges=VARIABLES)
def live(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The MTU in effect. Raising it does not take an interface down."""
    expected = str(baseline["jumbo_mtu_bytes"])
    for name in data_interfaces(baseline):
        link = facts.get(LINKS).find(name)
        if link is None:
            reason = "There is no interface of this name."
            yield failed(name, observed="absent", expected=expected, reason=reason)
        elif link.mtu_bytes is None:
            yield unknown(name, reason="'ip link' did not tell its MTU.", expected=expected)
        elif str(link.mtu_bytes) != expected:
            reason = "The interface has another MTU than the declared one."
            yield failed(name, observed=str(link.mtu_bytes), expected=expected, reason=reason)
        else:
            yield passed(name, observed=expected, expected=expected)


@check(
    "mtu.management",
    reads=[LINKS, DEFAULT_ROUTES],
    role="jumbo_mtu",
    impact=Impact.MANUAL,
    judges=["jumbo_mtu_interfaces"],
)
def management(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """No declared data interface carries the default route, itself or from below."""
    links = facts.get(LINKS)
    for name in data_interfaces(baseline):
        mine = links.find(name)
        above = {name, mine.master if mine else None} | {
            link.name for link in links.interfaces if link.parent == name
        }
        carried = sorted(facts.get(DEFAULT_ROUTES) & above)
        expected = "not the default route"
        if carried:
            reason = f"The default route leaves through '{carried[0]}': this is management."
            yield failed(name, observed="default route", expected=expected, reason=reason)
        else:
            yield passed(name, observed="no default route", expected=expected)


@check("mtu.udev", reads=[MTU_RULES], role="jumbo_mtu", impact=Impact.MANUAL, judges=VARIABLES)
def udev(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """No rule of udev sets another MTU whenever a data interface appears."""
    names, wanted = data_interfaces(baseline), baseline["jumbo_mtu_bytes"]
    rivals = [
        rule
        for rule in facts.get(MTU_RULES)
        if rule.mtu != wanted and any(rule.may_take(name) for name in names)
    ]
    for rule in rivals:
        reason = "udev sets an MTU beside the declared configuration: the later of both wins."
        yield failed(rule.where, observed=rule.statement, expected="no rule", reason=reason)
    if not rivals:
        yield passed(observed="none", expected="no rule that sets another MTU")


@check(
    "mtu.name",
    reads=[LINKS, NAMINGS],
    role="jumbo_mtu",
    impact=Impact.MANUAL,
    judges=["jumbo_mtu_interfaces"],
)
def name_kept(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """No data interface has another name after the next boot: its configuration goes by name."""
    for name in data_interfaces(baseline):
        link, expected = facts.get(LINKS).find(name), f"'{name}' after a reboot"
        if link is None:
            reason = "There is no interface of this name."
            yield failed(name, observed="absent", expected=expected, reason=reason)
            continue
        others = facts.get(NAMINGS).of(link)
        for one in others:
            reason = "Nothing that is configured for this name holds under another one."
            subject = f"{name} {one.where}"
            yield failed(subject, observed=f"'{one.name}'", expected=expected, reason=reason)
        if not others:
            yield passed(name, observed="keeps its name", expected=expected)


@check(
    "mtu.guard",
    reads=[GUARD],
    role="jumbo_mtu",
    impact=Impact.MANUAL,
    judges=["jumbo_mtu_confirm_seconds"],
)
def guard(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """No change of an MTU waits to be confirmed, or else to be taken back."""
    seconds = baseline["jumbo_mtu_confirm_seconds"]
    yield compared(
        GUARD_UNIT,
        observed=property_of(facts.get(GUARD), "ActiveState"),
        expected="inactive",
        reason=f"A change is not confirmed; the node takes it back within {seconds} seconds.",
    )
