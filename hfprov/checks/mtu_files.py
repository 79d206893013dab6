"""The files of the role that give data interfaces their MTU are as written, and root's."""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.checks.mtu import VARIABLES, data_interfaces
from hfprov.checks.mtu_persistent import (
    DROP_IN,
    NETPLAN,
    NETWORKD,
    NM,
    SOURCES,
    applied_file,
    drop_in_of,
    stacks_of,
)
from hfprov.checks.registry import Facts, check
from hfprov.checks.written_file import judge_written_file
from hfprov.evidence import netplan
from hfprov.evidence.ifupdown import IFUPDOWN
from hfprov.evidence.managed_links import LINKS
from hfprov.evidence.network_profiles import NETPLAN_FILES, NETPLAN_OURS, OURS, definitions_of
from hfprov.evidence.networkd import NETWORKS, SHUT_FOLDERS
from hfprov.evidence.systemd import parse_settings
from hfprov.verdict import Finding, Impact, failed, passed, unknown

_NETPLAN_MODE = 0o600
_WRITABLE_BY_OTHERS = 0o022


def _statements(text: str) -> list[str]:
    settings, strange = parse_settings(text, "")
    return [setting.statement for setting in settings] + list(strange)


@check(
    "mtu.files",
    reads=[*SOURCES, NETPLAN_OURS, SHUT_FOLDERS],
    role="jumbo_mtu",
    impact=Impact.NONE,
    judges=VARIABLES,
)
def files(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The role's drop-ins, and none left over from another list; ifupdown's files are root's."""
    results = facts.get(NETWORKS).results
    ours, stacks = set(), set()
    for name in data_interfaces(baseline):
        link = facts.get(LINKS).find(name)
        mine = stacks_of(facts, link) if link else []
        stacks.update(mine)
        applied = applied_file(facts, link) if link else ""
        if applied and NETWORKD in mine:
            path = drop_in_of(applied)
            ours.add(path)
            yield judge_written_file(
                path,
                results.get(path),
                wanted=[f"[Link] MTUBytes={baseline['jumbo_mtu_bytes']}"],
                statements=_statements,
            )
            folder = path.rpartition("/")[0]
            if folder in facts.get(SHUT_FOLDERS):
                reason = "networkd, which is not root, cannot read what is in it."
                yield failed(folder, observed="closed", expected="mode 0755", reason=reason)
        if facts.get(IFUPDOWN).of(name):
            yield from _ifupdown_files(facts)
    for path in sorted(results):
        if path.endswith(f"/{DROP_IN}") and path not in ours:
            reason = "It is for an interface that is no longer declared."
            yield failed(path, observed="there", expected="absent", reason=reason)
    yield from _netplan_file(facts, baseline, declared=NETPLAN in stacks)
    if NM in stacks:
        yield passed("NetworkManager", observed="no file of the role", expected="none")
    if not stacks:
        yield unknown(reason="No configuration of a declared interface was found.")


def _netplan_file(facts: Facts, baseline: Baseline, *, declared: bool) -> Iterator[Finding]:
    result = facts.get(NETPLAN_OURS)
    if not declared:
        if result.status != "absent":
            reason = "It is for an interface that is no longer declared, or not netplan's any more."
            yield failed(OURS, observed="there", expected="absent", reason=reason)
        return
    links = facts.get(LINKS)
    wanted = {
        f"{one.kind} {one.id} {baseline['jumbo_mtu_bytes']}"
        for name in data_interfaces(baseline)
        if (link := links.find(name)) and NETPLAN in stacks_of(facts, link)
        for _, one in definitions_of(link, facts.get(NETPLAN_FILES))
    }
    yield judge_written_file(
        OURS, result, wanted=sorted(wanted), statements=_netplan_statements, mode=_NETPLAN_MODE
    )


def _netplan_statements(text: str) -> list[str]:
    return [f"{one.kind} {one.id} {one.mtu_bytes}" for one in netplan.parse(text).interfaces]


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
