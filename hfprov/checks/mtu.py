"""The data interfaces have the declared MTU, and will have it after a reboot.

The path between nodes is measured, not judged here: a switch may still drop large frames.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts, check, require
from hfprov.checks.written_file import judge_written_file
from hfprov.evidence.ifupdown import IFUPDOWN, Option
from hfprov.evidence.ip_link import Interface
from hfprov.evidence.managed_links import DEFAULT_ROUTES, LINKS, NETWORK_MANAGER, NETWORK_UNITS
from hfprov.evidence.networkd import APPLIED, NETWORKS, size
from hfprov.evidence.systemd import Properties, parse_settings, property_of
from hfprov.verdict import Finding, Impact, failed, passed, unknown

DROP_IN = "90-hfprov-mtu.conf"
VARIABLES = ("jumbo_mtu_interfaces", "jumbo_mtu_bytes")
_WRITABLE_BY_OTHERS = 0o022
NETWORKD, IFUP, NETPLAN, NM = "systemd-networkd", "ifupdown", "netplan", "NetworkManager"
_UNIT_OF = {NETWORKD: "systemd-networkd.service", IFUP: "networking.service"}


def _interfaces(baseline: Baseline) -> list[str]:
    names = [str(name) for name in baseline["jumbo_mtu_interfaces"]]
    require(names, "No data interface is declared in 'jumbo_mtu_interfaces'.")
    return names


def _drop_in_of(network_file: str) -> str:
    return f"/etc/systemd/network/{network_file.rpartition('/')[2]}.d/{DROP_IN}"


def _applied(facts: Facts, link: Interface) -> str:
    """The networkd file in use for an interface; "" when networkd does not manage it."""
    return facts.get(APPLIED).get(link.index or -1, "")


@check("mtu.live", reads=[LINKS], role="jumbo_mtu", impact=Impact.NONE, judges=VARIABLES)
def live(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The MTU in effect. Raising it does not take an interface down."""
    expected = str(baseline["jumbo_mtu_bytes"])
    for name in _interfaces(baseline):
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
    for name in _interfaces(baseline):
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


@check(
    "mtu.persistent",
    reads=[LINKS, APPLIED, NETWORKS, IFUPDOWN, NETWORK_MANAGER],
    role="jumbo_mtu",
    impact=Impact.NONE,
    judges=VARIABLES,
)
def persistent(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The MTU that the files of each network configuration give the interface at the next boot."""
    wanted = int(baseline["jumbo_mtu_bytes"])
    for name in _interfaces(baseline):
        link = facts.get(LINKS).find(name)
        stacks = _stacks(facts, link) if link else []
        if link is None or not stacks:
            reason = "No network configuration that is known here manages it."
            expected = f"{wanted} after a reboot"
            yield failed(name, observed="unmanaged", expected=expected, reason=reason)
        for stack in stacks:
            yield _persisted(facts, name, stack, wanted)


def _stacks(facts: Facts, link: Interface) -> list[str]:
    """Every configuration that claims an interface."""
    found = []
    applied = _applied(facts, link)
    if applied:
        netplan = applied.startswith("/run/") and "netplan" in applied
        found.append(NETPLAN if netplan else NETWORKD)
    if facts.get(IFUPDOWN).of(link.name):
        found.append(IFUP)
    if link.name in facts.get(NETWORK_MANAGER):
        found.append(NM)
    return found


def _persisted(facts: Facts, name: str, stack: str, wanted: int) -> Finding:
    expected = f"{wanted} after a reboot"
    link = facts.get(LINKS).find(name)
    if stack == NETWORKD and link:
        network = facts.get(NETWORKS).find(_applied(facts, link))
        setting = network.mtu if network else None
        found = [(size(setting.value), setting.where)] if setting else []
    elif stack == IFUP:
        options = [one for one in _ifupdown_options(facts, name) if one.sets_mtu]
        found = [(one.mtu or 0, one.where) for one in options]
    else:
        reason = f"It is managed by {stack}, whose files are not read yet."
        return unknown(name, reason=reason, expected=expected)
    observed = ", ".join(f"{mtu or 'a command'} by {where}" for mtu, where in found) or "no MTU"
    if [mtu for mtu, _ in found] != [wanted]:
        reason = f"{stack} does not set the declared MTU at the next boot, once and only once."
        return failed(name, observed=observed, expected=expected, reason=reason)
    return passed(name, observed=observed, expected=expected)


def _ifupdown_options(facts: Facts, name: str) -> Iterator[Option]:
    for stanza in facts.get(IFUPDOWN).of(name):
        yield from stanza.options


@check(
    "mtu.rivals",
    reads=[LINKS, APPLIED, NETWORKS, IFUPDOWN, NETWORK_MANAGER, NETWORK_UNITS],
    role="jumbo_mtu",
    impact=Impact.MANUAL,
    judges=["jumbo_mtu_interfaces"],
)
def rivals(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """One configuration claims each interface, nothing wins over it, and it starts at boot."""
    for name in _interfaces(baseline):
        link = facts.get(LINKS).find(name)
        found = list(_rivals(facts, link, baseline)) if link else []
        yield from found
        if link and not found:
            yield passed(name, observed="none", expected="no rival")
        elif link is None:
            reason = "There is no interface of this name."
            yield failed(name, observed="absent", expected="no rival", reason=reason)


def _rivals(facts: Facts, link: Interface, baseline: Baseline) -> Iterator[Finding]:
    name, stacks = link.name, _stacks(facts, link)
    expected = "no rival"
    if len(stacks) > 1:
        reason = "More than one configuration claims it: which one wins changes from boot to boot."
        yield failed(name, observed=" and ".join(stacks), expected=expected, reason=reason)
    for stack in stacks:
        if problem := _not_started(facts.get(NETWORK_UNITS), stack):
            reason = "What configures the interface is not started at boot."
            yield failed(name, observed=problem, expected="enabled", reason=reason)
    if NETWORKD in stacks:
        yield from _networkd_rivals(facts, link, int(baseline["jumbo_mtu_bytes"]))
    if IFUP in stacks and not facts.get(IFUPDOWN).is_started(name):
        reason = "ifupdown does not bring the interface up at boot."
        yield failed(name, observed="no 'auto'", expected=f"auto {name}", reason=reason)
    for option in _ifupdown_options(facts, name):
        if option.sets_mtu and option.mtu is None:
            reason = "This command sets an MTU beside the role's."
            observed = f"{option.key} {option.value}"
            yield failed(option.where, observed=observed, expected=expected, reason=reason)


def _networkd_rivals(facts: Facts, link: Interface, wanted: int) -> Iterator[Finding]:
    applied = _applied(facts, link)
    networks = facts.get(NETWORKS)
    used = networks.find(applied)
    if used is None:
        reason = "networkd uses a file that is no longer there."
        yield failed(link.name, observed="no file", expected=applied, reason=reason)
        return
    for network in networks.files[: networks.files.index(used)]:
        answer = network.matches(link)
        if answer:
            reason = "This file comes first, and takes the interface at the next boot."
            yield failed(network.path, observed=network.path, expected=applied, reason=reason)
        elif answer is None:
            reason = f"It cannot be told whether '{network.path}' takes '{link.name}'."
            yield unknown(network.path, reason=reason, expected=applied)
    setting = used.mtu
    if setting and setting.path != _drop_in_of(applied) and size(setting.value) != wanted:
        reason = "This setting wins over the role's."
        expected = f"MTUBytes={wanted}"
        yield failed(setting.where, observed=setting.statement, expected=expected, reason=reason)


def _not_started(units: Mapping[str, Properties], stack: str) -> str:
    """What is wrong with a unit that must start at boot; "" when nothing is."""
    unit = units.get(_UNIT_OF.get(stack, ""))
    if unit is None:
        return ""
    state = property_of(unit, "UnitFileState")
    return "" if state in ("enabled", "static", "generated") else state or "not installed"


def _statements(text: str) -> list[str]:
    settings, strange = parse_settings(text, "")
    return [setting.statement for setting in settings] + list(strange)


@check(
    "mtu.files",
    reads=[LINKS, APPLIED, NETWORKS, IFUPDOWN],
    role="jumbo_mtu",
    impact=Impact.NONE,
    judges=VARIABLES,
)
def files(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The role's drop-ins, and none left over from another list; ifupdown's files are root's."""
    results = facts.get(NETWORKS).results
    ours = set()
    for name in _interfaces(baseline):
        link = facts.get(LINKS).find(name)
        applied = _applied(facts, link) if link else ""
        if applied:
            path = _drop_in_of(applied)
            ours.add(path)
            yield judge_written_file(
                path,
                results.get(path),
                wanted=[f"[Link] MTUBytes={baseline['jumbo_mtu_bytes']}"],
                statements=_statements,
            )
        if facts.get(IFUPDOWN).of(name):
            yield from _ifupdown_files(facts)
    for path in sorted(results):
        if path.endswith(f"/{DROP_IN}") and path not in ours:
            reason = "It is for an interface that is no longer declared."
            yield failed(path, observed="there", expected="absent", reason=reason)
    if not ours and not facts.get(IFUPDOWN).results:
        yield unknown(reason="No configuration of a declared interface was found.")


def _ifupdown_files(facts: Facts) -> Iterator[Finding]:
    for path, result in sorted(facts.get(IFUPDOWN).results.items()):
        observed = f"{result.mode or 0:04o} {result.uid}:{result.gid}"
        expected = "owner root, writable by root only"
        writable = result.mode is None or result.mode & _WRITABLE_BY_OTHERS
        if writable or (result.uid, result.gid) != (0, 0):
            reason = "Others could change the network configuration."
            yield failed(path, observed=observed, expected=expected, reason=reason)
        else:
            yield passed(path, observed=observed, expected=expected)
