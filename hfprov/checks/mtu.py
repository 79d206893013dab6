"""The data interfaces have the declared MTU, and will have it after a reboot.

The path between nodes is measured, not judged here: a switch may still drop large frames.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts, check, require
from hfprov.checks.written_file import judge_written_file
from hfprov.evidence.ifupdown import IFUPDOWN
from hfprov.evidence.ip_link import Interface
from hfprov.evidence.managed_links import DEFAULT_ROUTES, LINKS, NETWORK_MANAGER, NETWORK_UNITS
from hfprov.evidence.networkd import APPLIED, NETWORKS, size
from hfprov.evidence.systemd import Properties, parse_settings, property_of
from hfprov.verdict import Finding, Impact, failed, passed, unknown

DROP_IN = "90-hfprov-mtu.conf"
VARIABLES = ("jumbo_mtu_interfaces", "jumbo_mtu_bytes")
_WRITABLE_BY_OTHERS = 0o022


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
    reads=[LINKS, APPLIED, NETWORKS, IFUPDOWN, NETWORK_MANAGER, NETWORK_UNITS],
    role="jumbo_mtu",
    impact=Impact.NONE,
    judges=VARIABLES,
)
def persistent(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The MTU that the next boot sets, and that one configuration only claims the interface."""
    expected = f"{baseline['jumbo_mtu_bytes']} after a reboot"
    for name in _interfaces(baseline):
        link = facts.get(LINKS).find(name)
        if link is None:
            reason = "There is no interface of this name."
            yield failed(name, observed="absent", expected=expected, reason=reason)
            continue
        stacks = _stacks(facts, link)
        if len(stacks) != 1:
            reason = (
                f"It is configured by {' and by '.join(stacks)} at once."
                if stacks
                else "No network configuration that is known here manages it."
            )
            observed = ", ".join(stacks) or "unmanaged"
            yield failed(name, observed=observed, expected=expected, reason=reason)
        elif stacks[0] == "systemd-networkd":
            yield _networkd(facts, link, int(baseline["jumbo_mtu_bytes"]))
        elif stacks[0] == "ifupdown":
            yield _ifupdown(facts, name, int(baseline["jumbo_mtu_bytes"]))
        else:
            reason = f"It is managed by {stacks[0]}, whose files are not read yet."
            yield unknown(name, reason=reason, expected=expected)


def _stacks(facts: Facts, link: Interface) -> list[str]:
    """Every configuration that claims an interface."""
    found = []
    applied = _applied(facts, link)
    if applied:
        netplan = applied.startswith("/run/") and "netplan" in applied
        found.append("netplan" if netplan else "systemd-networkd")
    if facts.get(IFUPDOWN).of(link.name):
        found.append("ifupdown")
    if link.name in facts.get(NETWORK_MANAGER):
        found.append("NetworkManager")
    return found


def _networkd(facts: Facts, link: Interface, wanted: int) -> Finding:
    expected = f"{wanted} after a reboot"
    applied = _applied(facts, link)
    for network in facts.get(NETWORKS).files:
        answer = network.matches(link)
        if network.path == applied:
            break
        if answer:
            reason = f"'{network.path}' comes first, and takes the interface at the next boot."
            return failed(link.name, observed=network.path, expected=applied, reason=reason)
        if answer is None:
            reason = f"It cannot be told whether '{network.path}' takes the interface."
            return unknown(link.name, reason=reason, expected=applied)
    else:
        reason = f"networkd uses '{applied}', which is no longer there."
        return failed(link.name, observed="no file", expected=applied, reason=reason)
    if problem := _not_started(facts.get(NETWORK_UNITS), "systemd-networkd.service"):
        return failed(link.name, observed=problem, expected="enabled", reason=_NOT_AT_BOOT)
    setting = network.mtu
    if setting is None or size(setting.value) != wanted:
        observed = f"{setting.value} by {setting.where}" if setting else "no MTU"
        reason = "systemd-networkd will set another MTU at the next boot."
        return failed(link.name, observed=observed, expected=expected, reason=reason)
    return passed(link.name, observed=f"{wanted} by {setting.where}", expected=expected)


_NOT_AT_BOOT = "What configures the interface is not started at boot."


def _not_started(units: Mapping[str, Properties], name: str) -> str:
    """What is wrong with a unit that must start at boot; "" when nothing is."""
    if name not in units:
        return "not there"
    state = property_of(units[name], "UnitFileState")
    return "" if state in ("enabled", "static", "generated") else state or "not there"


def _ifupdown(facts: Facts, name: str, wanted: int) -> Finding:
    expected = f"{wanted} after a reboot"
    interfaces = facts.get(IFUPDOWN)
    if problem := _not_started(facts.get(NETWORK_UNITS), "networking.service"):
        return failed(name, observed=problem, expected="enabled", reason=_NOT_AT_BOOT)
    if not interfaces.is_started(name):
        return failed(name, observed="no 'auto'", expected=f"auto {name}", reason=_NOT_AT_BOOT)
    found = [
        option for stanza in interfaces.of(name) for option in stanza.options if option.sets_mtu
    ]
    if [option.mtu for option in found] != [wanted]:
        shown = [f"'{option.key} {option.value}' at {option.where}" for option in found]
        reason = "ifupdown will not set the declared MTU, or sets it more than once."
        return failed(name, observed=", ".join(shown) or "no MTU", expected=expected, reason=reason)
    return passed(name, observed=f"{wanted} by {found[0].where}", expected=expected)


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
