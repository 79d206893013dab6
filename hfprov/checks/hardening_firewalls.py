"""No other firewall beside the role's table: two of them are never changed together."""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.checks.hardening_access import ROLE
from hfprov.checks.registry import Facts, check
from hfprov.evidence.inbound_rules import Inbound
from hfprov.evidence.other_firewalls import (
    FIREWALLD,
    NFTABLES,
    OTHER_FIREWALLS,
    RESTORING,
    UFW,
    OtherFirewalls,
)
from hfprov.evidence.text import excerpt
from hfprov.verdict import (
    Finding,
    Impact,
    NotApplicable,
    failed,
    not_applicable,
    passed,
    unknown,
    warned,
)

_BY_HAND = "No role switches it off: a person has to."


def _blocked(inbound: Inbound, baseline: Baseline) -> str:
    """Which declared networks a firewall keeps something from; "" for none."""
    management = str(baseline["hardening_management_interface"])
    # Declared by another role, which a host need not have.
    names = [str(name) for name in baseline.get("jumbo_mtu_interfaces", ())]
    found = [f"the management interface '{management}'"] if inbound.blocks(management) else []
    data = [f"'{name}'" for name in names if name != management and inbound.blocks(name)]
    found += [f"the data interface {' and '.join(data)}"] if data else []
    return " and ".join(found)


def _beside(found: OtherFirewalls, unit: str, inbound: Inbound, baseline: Baseline) -> Finding:
    blocked = _blocked(inbound, baseline)
    what = (
        f"It drops what its own rules do not allow on {blocked}."
        if blocked
        else "It filters beside the role's table: what one of both allows, the other may drop."
    )
    return failed(unit, observed=found.state(unit), expected="off", reason=f"{what} {_BY_HAND}")


def _nftables(found: OtherFirewalls, baseline: Baseline) -> Iterator[Finding]:
    """The service of nftables is no rival by itself: it may load tables that do no harm."""
    file = found.nft
    if file is None or not found.is_on(NFTABLES):
        yield passed(NFTABLES, observed="loads nothing", expected="no rival")
        return
    blocked = _blocked(file.inbound, baseline)
    if blocked:
        reason = f"'{file.path}' drops what its own rules do not allow on {blocked}. {_BY_HAND}"
        observed = found.state(NFTABLES)
        yield failed(NFTABLES, observed=observed, expected="no rival", reason=reason)
    for one in file.unread:
        reason = f"'{file.path}' includes '{excerpt(one)}', which is not read here."
        yield unknown(f"{NFTABLES} {excerpt(one, 80)}", reason=reason, expected="no rival")
    if file.flushes:
        reason = (
            "At boot the role's table comes after it; a restart or reload of this service takes it "
            "away until the role runs, and those of containers too. Have the file replace its own "
            "tables only."
        )
        yield warned(
            f"{NFTABLES} {file.path}",
            observed="flush ruleset",
            expected="its own tables only",
            reason=reason,
        )
    elif not blocked and not file.unread:
        yield passed(NFTABLES, observed="drops nothing there", expected="no rival")


@check(
    "hardening.firewall.rivals",
    reads=[OTHER_FIREWALLS],
    role=ROLE,
    impact=Impact.MANUAL,
    judges=["hardening_firewall", "hardening_management_interface"],
)
def firewall_rivals(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """No other firewall is at work, or loaded at boot, beside the role's table."""
    if not baseline["hardening_firewall"]:
        yield not_applicable(NotApplicable.NOT_REQUESTED, "No firewall is declared.")
        return
    found = facts.get(OTHER_FIREWALLS)
    # Ubuntu's ufw.service is enabled everywhere: what it does hangs on its own switch.
    if found.ufw is not None and found.is_there(UFW):
        yield _beside(found, UFW, found.ufw, baseline)
    else:
        yield passed(UFW, observed="off", expected="off")
    if found.is_on(FIREWALLD):
        yield _beside(found, FIREWALLD, found.firewalld, baseline)
    else:
        yield passed(FIREWALLD, observed="off", expected="off")
    for unit in RESTORING:
        inbound = found.saved.get(unit)
        if inbound is not None and found.is_on(unit) and _blocked(inbound, baseline):
            yield _beside(found, unit, inbound, baseline)
        else:
            yield passed(unit, observed="drops nothing there", expected="no rival")
    yield from _nftables(found, baseline)
