"""The data interfaces will have the declared MTU after a reboot, whatever configures them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hfprov.baseline import Baseline
from hfprov.checks.mtu import VARIABLES, data_interfaces
from hfprov.checks.registry import Facts, check
from hfprov.checks.unit_overrides import DROP_INS, judge_overrides
from hfprov.checks.unit_state import why_not_enabled
from hfprov.evidence.ifupdown import IFUPDOWN, Option
from hfprov.evidence.ip_link import Interface
from hfprov.evidence.managed_links import LINKS, NETWORK_MANAGER, NETWORK_UNITS
from hfprov.evidence.network_profiles import (
    NETPLAN_FILES,
    PROFILES,
    definitions_of,
)
from hfprov.evidence.networkd import APPLIED, NETWORKS, Network, size
from hfprov.evidence.systemd import Properties, property_of
from hfprov.verdict import Finding, Impact, failed, passed, unknown

DROP_IN = "90-hfprov-mtu.conf"
NETWORKD, IFUP, NETPLAN, NM = "systemd-networkd", "ifupdown", "netplan", "NetworkManager"
_UNIT_OF = {
    NETWORKD: "systemd-networkd.service",
    IFUP: "networking.service",
    NM: "NetworkManager.service",
}
_YES = ("1", "yes", "y", "true", "t", "on")
"""What systemd takes for true, systemd.syntax(7)."""
SOURCES = (LINKS, APPLIED, NETWORKS, IFUPDOWN, NETWORK_MANAGER, NETPLAN_FILES, PROFILES)


def drop_in_of(network_file: str) -> str:
    return f"/etc/systemd/network/{network_file.rpartition('/')[2]}.d/{DROP_IN}"


def applied_file(facts: Facts, link: Interface) -> str:
    """The networkd file in use for an interface; "" when networkd does not manage it."""
    return facts.get(APPLIED).get(link.index or -1, "")


@check(
    "mtu.persistent",
    reads=SOURCES,
    role="jumbo_mtu",
    impact=Impact.NONE,
    judges=VARIABLES,
)
def persistent(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The MTU that the files of each network configuration give the interface at the next boot."""
    wanted = int(baseline["jumbo_mtu_bytes"])
    for name in data_interfaces(baseline):
        link = facts.get(LINKS).find(name)
        stacks = stacks_of(facts, link) if link else []
        if link is None or not stacks:
            reason = "No network configuration that is known here manages it."
            expected = f"{wanted} after a reboot"
            yield failed(name, observed="unmanaged", expected=expected, reason=reason)
        for stack in stacks:
            if link:
                yield _persisted(facts, link, stack, wanted)


def stacks_of(facts: Facts, link: Interface) -> list[str]:
    """Every configuration that claims an interface."""
    found = []
    applied = applied_file(facts, link)
    if applied:
        netplan = applied.startswith("/run/") and "netplan" in applied
        found.append(NETPLAN if netplan else NETWORKD)
    if facts.get(IFUPDOWN).of(link.name):
        found.append(IFUP)
    if link.name in facts.get(NETWORK_MANAGER):
        profile = facts.get(PROFILES).get(link.name)
        found.append(NETPLAN if profile and profile.made_by_netplan else NM)
    return found


def _persisted(facts: Facts, link: Interface, stack: str, wanted: int) -> Finding:
    found = list(_settings(facts, link, stack))
    expected = f"{wanted} after a reboot"
    observed = ", ".join(f"{mtu or 'none'} by {where}" for mtu, where in found) or "no MTU"
    if not found or any(mtu != wanted for mtu, _ in found) or (stack == IFUP and len(found) > 1):
        reason = f"{stack} does not set the declared MTU at the next boot, once and only once."
        return failed(link.name, observed=observed, expected=expected, reason=reason)
    return passed(link.name, observed=observed, expected=expected)


def _settings(facts: Facts, link: Interface, stack: str) -> Iterator[tuple[int, str]]:
    """What a stack sets at the next boot, each with its place; all of it must be right."""
    if stack == IFUP:
        for option in _ifupdown_options(facts, link.name):
            if option.sets_mtu:
                yield option.mtu or 0, option.where
    if stack == NETPLAN:
        merged = [
            (one.mtu_bytes, file.path)
            for file, one in definitions_of(link, facts.get(NETPLAN_FILES))
            if one.mtu_bytes is not None
        ]
        yield merged[-1] if merged else (0, "netplan's files")
    profile = facts.get(PROFILES).get(link.name)
    if profile is not None:
        yield profile.mtu_bytes or 0, f"connection {profile.uuid}"
    # netplan has networkd's file made anew at every boot, in the same way as this one was made.
    applied = applied_file(facts, link)
    network = facts.get(NETWORKS).find(applied) if applied else None
    if stack in (NETWORKD, NETPLAN) and network:
        setting = network.mtu
        yield (size(setting.value) or 0, setting.where) if setting else (0, network.path)


def _ifupdown_options(facts: Facts, name: str) -> Iterator[Option]:
    for stanza in facts.get(IFUPDOWN).of(name):
        yield from stanza.options


@check(
    "mtu.rivals",
    reads=[*SOURCES, NETWORK_UNITS, DROP_INS],
    role="jumbo_mtu",
    impact=Impact.MANUAL,
    judges=["jumbo_mtu_interfaces"],
)
def rivals(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """One configuration claims each interface, nothing wins over it, and it starts at boot."""
    for name in data_interfaces(baseline):
        link = facts.get(LINKS).find(name)
        found = list(_rivals(facts, link, baseline)) if link else []
        yield from found
        if link and not found:
            yield passed(name, observed="none", expected="no rival")
        elif link is None:
            reason = "There is no interface of this name."
            yield failed(name, observed="absent", expected="no rival", reason=reason)


def _rivals(facts: Facts, link: Interface, baseline: Baseline) -> Iterator[Finding]:
    name, stacks = link.name, stacks_of(facts, link)
    expected = "no rival"
    if len(stacks) > 1:
        reason = "More than one configuration claims it: which one wins changes from boot to boot."
        yield failed(name, observed=" and ".join(stacks), expected=expected, reason=reason)
    for stack in stacks:
        if problem := _not_started(facts.get(NETWORK_UNITS), _starter(facts, link, stack)):
            reason = "What configures the interface is not started at boot."
            reason = why_not_enabled(problem, reason)
            yield failed(name, observed=problem, expected="enabled", reason=reason)
        unit = _UNIT_OF.get(_starter(facts, link, stack), "")
        yield from judge_overrides(facts.get(DROP_INS), *([unit] if unit else []))
    if NETWORKD in stacks:
        yield from _networkd_rivals(facts, link, int(baseline["jumbo_mtu_bytes"]))
    profile = facts.get(PROFILES).get(name)
    if profile and not profile.autoconnect:
        reason = "NetworkManager does not activate the connection at boot."
        yield failed(name, observed="autoconnect no", expected="autoconnect yes", reason=reason)
    if profile and profile.path.startswith("/run/") and not profile.made_by_netplan:
        reason = "The connection is only in memory: it is gone after a reboot."
        yield failed(name, observed=profile.path, expected="a file below /etc", reason=reason)
    if IFUP in stacks and not facts.get(IFUPDOWN).is_started(name):
        reason = "ifupdown does not bring the interface up at boot."
        yield failed(name, observed="no 'auto'", expected=f"auto {name}", reason=reason)
    for option in _ifupdown_options(facts, name):
        if option.sets_mtu and option.mtu is None:
            reason = "This command sets an MTU beside the role's."
            observed = f"{option.key} {option.value}"
            yield failed(option.where, observed=observed, expected=expected, reason=reason)


def _starter(facts: Facts, link: Interface, stack: str) -> str:
    """The stack that carries out what netplan says."""
    if stack != NETPLAN:
        return stack
    return NETWORKD if applied_file(facts, link) else NM


def _networkd_rivals(facts: Facts, link: Interface, wanted: int) -> Iterator[Finding]:
    applied = applied_file(facts, link)
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
    if reason := _left_alone(used, link):
        yield failed(link.name, observed=used.path, expected="takes the interface", reason=reason)
    setting = used.mtu
    if setting and setting.path != drop_in_of(applied) and size(setting.value) != wanted:
        reason = "This setting wins over the role's."
        expected = f"MTUBytes={wanted}"
        yield failed(setting.where, observed=setting.statement, expected=expected, reason=reason)


def _left_alone(used: Network, link: Interface) -> str:
    """Why the file in use will not configure the interface at the next boot; "" where it will."""
    if used.matches(link) is False:
        return "With its drop-ins the file in use no longer matches it at the next boot."
    for key, bad in (("Unmanaged", _YES), ("ActivationPolicy", ("down", "always-down"))):
        last = used.values("Link", key)[-1:]
        if last and last[0].value.lower() in bad:
            return f"'{last[0].where}' has networkd leave it alone, or down, at the next boot."
    return ""


def _not_started(units: Mapping[str, Properties], stack: str) -> str:
    """What is wrong with a unit that must start at boot; "" when nothing is."""
    unit = units.get(_UNIT_OF.get(stack, ""))
    if unit is None:
        return ""
    state = property_of(unit, "UnitFileState")
    return "" if state in ("enabled", "static", "generated") else state or "not installed"
