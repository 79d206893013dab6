"""The firewall of the management interface, where one is declared, and no other one beside it.

Two firewalls are never changed together: what one of them allows, the other may drop.
"""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.checks.hardening_access import ROLE
from hfprov.checks.registry import Facts, check
from hfprov.checks.unit_overrides import DROP_INS, judge_overrides
from hfprov.checks.written_file import judge_written_file
from hfprov.evidence.inbound_rules import Inbound
from hfprov.evidence.nftables import (
    AT_BOOT,
    LIVE_RULES,
    RULES_FILE,
    TABLE,
    UNIT,
    UNIT_FILE,
    parse_rules,
)
from hfprov.evidence.other_firewalls import (
    FIREWALLD,
    NFTABLES,
    OTHER_FIREWALLS,
    RESTORING,
    UFW,
    OtherFirewalls,
)
from hfprov.evidence.systemd import parse_settings, property_of
from hfprov.evidence.text import excerpt
from hfprov.verdict import (
    Finding,
    Impact,
    NotApplicable,
    compared,
    failed,
    not_applicable,
    passed,
    unknown,
    warned,
)

PORTS = ("hardening_firewall_tcp_ports", "hardening_firewall_udp_ports")
FIREWALL_OPTIONS = (
    "hardening_firewall",
    "hardening_management_interface",
    "hardening_firewall_sources",
    *PORTS,
)
UNIT_STATEMENTS = (
    "[Unit] Description=Firewall of the management interface (hfprov)",
    "[Unit] DefaultDependencies=no",
    "[Unit] Wants=network-pre.target",
    "[Unit] Before=network-pre.target shutdown.target",
    "[Unit] After=local-fs.target nftables.service",
    "[Unit] Conflicts=shutdown.target",
    "[Service] Type=oneshot",
    "[Service] RemainAfterExit=yes",
    f"[Service] ExecStart=/usr/sbin/nft -f {RULES_FILE.request['path']}",
    "[Service] ExecStop=-/usr/sbin/nft delete table inet hfprov_management",
    "[Install] WantedBy=sysinit.target",
)


def wanted_rules(baseline: Baseline) -> tuple[str, ...]:
    """The declared rules, as nft lists them, in the form of :func:`parse_rules`."""
    sources = [str(one) for one in baseline["hardening_firewall_sources"]]
    lines = [
        f"{TABLE} {{",
        "chain input {",
        "type filter hook input priority filter; policy accept;",
        f'iifname "{baseline["hardening_management_interface"]}" jump management',
        "}",
        "chain management {",
        "ct state established,related accept",
        "meta l4proto { icmp, ipv6-icmp } accept",
        "udp dport { 68, 546 } accept",
    ]
    for word, sign in (("ip saddr", "."), ("ip6 saddr", ":")):
        networks = ", ".join(one for one in sources if sign in one)
        if networks or (not sources and sign == "."):
            of = f"{word} {{ {networks} }} " if networks else ""
            for protocol, ports in zip(
                ("tcp", "udp"), (baseline[one] for one in PORTS), strict=True
            ):
                shown = ", ".join(str(port) for port in ports)
                lines += [f"{of}{protocol} dport {{ {shown} }} accept"] if shown else []
    return parse_rules("\n".join([*lines, "drop", "}", "}"]))


@check(
    "hardening.firewall.live",
    reads=[LIVE_RULES],
    role=ROLE,
    impact=Impact.RESTART,
    judges=FIREWALL_OPTIONS,
)
def firewall_live(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The rules that the kernel has now."""
    live = facts.get(LIVE_RULES)
    if not baseline["hardening_firewall"]:
        observed = "no such table" if live is None else "a table"
        reason = "A firewall is left over that is not declared."
        yield compared(TABLE, observed=observed, expected="no such table", reason=reason)
        return
    wanted = wanted_rules(baseline)
    if live == wanted:
        yield passed(TABLE, observed=f"{len(live)} lines, as declared", expected="as declared")
        return
    observed = "no such table"
    if live is not None:
        missing = [one for one in wanted if one not in live]
        added = [one for one in live if one not in wanted]
        observed = f"missing: {missing[:3]}, not declared: {added[:3]}"
    reason = "The management interface is not guarded as declared."
    yield failed(TABLE, observed=observed, expected="as declared", reason=reason)


@check(
    "hardening.firewall.file",
    reads=[AT_BOOT, DROP_INS],
    role=ROLE,
    impact=Impact.RESTART,
    judges=FIREWALL_OPTIONS,
)
def firewall_file(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The rules that are loaded at boot, and the unit that loads them."""
    found = facts.get(AT_BOOT)
    rules, unit = RULES_FILE.request["path"], UNIT_FILE.request["path"]
    if not baseline["hardening_firewall"]:
        for path in (rules, unit):
            observed = "there" if path in found.files else "absent"
            reason = "A firewall is left over that is not declared."
            yield compared(path, observed=observed, expected="absent", reason=reason)
        return
    yield judge_written_file(
        rules,
        found.files.get(rules),
        wanted=[TABLE, f"delete {TABLE}", *wanted_rules(baseline)],
        statements=parse_rules,
    )
    yield judge_written_file(
        unit,
        found.files.get(unit),
        wanted=UNIT_STATEMENTS,
        statements=lambda text: [one.statement for one in parse_settings(text, unit)[0]],
    )
    for key, expected, reason in (
        ("UnitFileState", "enabled", "The rules are not loaded at boot."),
        ("NeedDaemonReload", "no", "systemd has not read the unit since it changed."),
    ):
        observed = property_of(found.unit, key)
        yield compared(f"{UNIT} {key}", observed=observed, expected=expected, reason=reason)
    yield from judge_overrides(facts.get(DROP_INS), UNIT)


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
