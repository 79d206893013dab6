"""Communication libraries are told what describes the system, and nothing else.

New processes read these files when they start, so a repair disturbs nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from hfprov.baseline import Baseline
from hfprov.catalogue.comm_variables import Category, comm_variables
from hfprov.checks.registry import Facts, check, require
from hfprov.checks.written_file import judge_written_file
from hfprov.evidence.comm_settings import (
    FILES,
    INTERFACES,
    NCCL_FILES,
    RDMA_DEVICES,
    SETTINGS,
    UCX_DIRECTORY,
    UCX_FILE,
    Set,
    block_of,
)
from hfprov.evidence.system import MACHINE, Machine
from hfprov.reading import Result
from hfprov.verdict import (
    Finding,
    Impact,
    NotApplicable,
    compared,
    failed,
    not_applicable,
    passed,
    warned,
)

ROLE = "comm_library"
UNSET = "unset"
VARIABLES = (
    "comm_library_debug",
    "comm_library_socket_interfaces",
    "comm_library_ib_devices",
    "comm_library_ib_traffic_class",
    "comm_library_ib_address_family",
    "comm_library_ib_address_range",
    "comm_library_ib_queue_pairs",
    "comm_library_cross_nic",
    "comm_library_extra",
)


def declared(baseline: Baseline) -> Mapping[str, str]:
    """What NCCL is to be told, by name of variable."""

    def exactly(names: Iterable[str]) -> str:
        return "=" + ",".join(names) if names else UNSET

    values = {
        "NCCL_CROSS_NIC": baseline["comm_library_cross_nic"],
        "NCCL_DEBUG": baseline["comm_library_debug"],
        "NCCL_IB_ADDR_FAMILY": baseline["comm_library_ib_address_family"],
        "NCCL_IB_ADDR_RANGE": baseline["comm_library_ib_address_range"],
        "NCCL_IB_HCA": exactly(baseline["comm_library_ib_devices"]),
        "NCCL_IB_QPS_PER_CONNECTION": baseline["comm_library_ib_queue_pairs"],
        "NCCL_IB_TC": baseline["comm_library_ib_traffic_class"],
        "NCCL_SOCKET_IFNAME": exactly(baseline["comm_library_socket_interfaces"]),
    } | dict(baseline["comm_library_extra"])
    return {name: str(value) for name, value in values.items() if str(value) != UNSET}


def _ucx(baseline: Baseline) -> Mapping[str, str]:
    devices = baseline["comm_library_ucx_devices"]
    return {"UCX_NET_DEVICES": ",".join(devices)} if devices else {}


def _block_statements(text: str) -> list[str]:
    block = block_of(text)
    behind = ["lines of others before them"] if block.first > 1 else []
    return behind + list(block.lines)


def _lines(values: Mapping[str, str]) -> list[str]:
    return [f"{name}={values[name]}" for name in sorted(values)]


@check("comm_library.nccl", reads=[FILES], role=ROLE, impact=Impact.NONE, judges=VARIABLES)
def nccl(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The role's lines in the files of NCCL and RCCL, before those of others."""
    for path in NCCL_FILES:
        yield judge_written_file(
            path,
            facts.get(FILES)[path],
            wanted=_lines(declared(baseline)),
            statements=_block_statements,
        )


@check(
    "comm_library.ucx",
    reads=[FILES],
    role=ROLE,
    impact=Impact.NONE,
    judges=["comm_library_ucx_devices"],
)
def ucx(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The role's line in UCX's file; none when none is declared."""
    result, wanted = facts.get(FILES)[UCX_FILE], _lines(_ucx(baseline))
    if wanted:
        yield judge_written_file(UCX_FILE, result, wanted=wanted, statements=_block_statements)
        directory = facts.get(FILES)[UCX_DIRECTORY]
        require(directory.ok, f"'{UCX_DIRECTORY}' could not be looked at: {directory.stderr}")
        yield compared(
            UCX_DIRECTORY,
            observed=f"{directory.mode or 0:04o} {directory.uid}:{directory.gid}",
            expected="0755 0:0",
            reason="Owner or mode are not as the role sets them: jobs may not get at the file.",
        )
        return
    require(result.ok or result.status == "absent", f"'{UCX_FILE}' could not be read.")
    left = block_of(result.text).lines
    observed = ", ".join(left) or "none"
    reason = "The role's lines are still there, though nothing is declared."
    yield compared(UCX_FILE, observed=observed, expected="none", reason=reason)


@check(
    "comm_library.strays",
    reads=[SETTINGS, FILES],
    role=ROLE,
    impact=Impact.MANUAL,
    judges=[
        *VARIABLES,
        "comm_library_ucx_devices",
        "comm_library_home_directories",
        "comm_library_modulefile_directories",
    ],
)
def strays(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """No other file sets a variable: with another value, or one that should stay unset."""
    wanted = {**declared(baseline), **_ucx(baseline)}
    findings = [
        _judge_stray(one, wanted)
        for one in facts.get(SETTINGS)
        if not _is_in_block(one, facts.get(FILES).get(one.path))
        or _category(one.name) in (Category.DEBUG, Category.UNSET)
    ]
    yield from findings
    if not findings:
        yield passed(observed="none", expected="no setting outside the role's lines")


def _is_in_block(one: Set, result: Result | None) -> bool:
    if result is None:
        return False
    block = block_of(result.text)
    return block.first < one.line < block.last


def _category(name: str) -> Category | None:
    row = comm_variables().find(name)
    return row.category if row else None


def _judge_stray(one: Set, wanted: Mapping[str, str]) -> Finding:
    row = comm_variables().find(one.name)
    subject, observed = f"{one.where} {one.name}", f"{one.name}={one.value}"
    if row is None:
        reason = "Nothing is known of this variable; it is not declared."
        return warned(subject, observed=observed, expected="not set here", reason=reason)
    if row.category in (Category.DEBUG, Category.UNSET):
        return failed(subject, observed=observed, expected="not set", reason=row.advice)
    contradicts = row.category is Category.SYSTEM and one.name in wanted
    if contradicts and one.value != wanted[one.name]:
        expected = f"{one.name}={wanted[one.name]}"
        reason = f"It may win over the declared value. {row.advice}"
        return failed(subject, observed=observed, expected=expected, reason=reason)
    return warned(subject, observed=observed, expected="not set here", reason=row.advice)


@check(
    "comm_library.devices",
    reads=[MACHINE, INTERFACES, RDMA_DEVICES],
    role=ROLE,
    impact=Impact.MANUAL,
    judges=[
        "comm_library_socket_interfaces",
        "comm_library_ib_devices",
        "comm_library_ucx_devices",
    ],
)
def devices(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """What the settings name is there: a device that was renamed makes every job fail."""
    interfaces, rdma = facts.get(INTERFACES), facts.get(RDMA_DEVICES)
    named = [(name, interfaces) for name in baseline["comm_library_socket_interfaces"]]
    on_rdma = [(name, rdma) for name in baseline["comm_library_ib_devices"]]
    on_rdma += [(name, rdma | interfaces) for name in baseline["comm_library_ucx_devices"]]
    if not named and not on_rdma:
        yield not_applicable(NotApplicable.NOT_REQUESTED, "No device is declared.")
        return
    in_container = facts.get(MACHINE) is Machine.CONTAINER
    for name, there in named + on_rdma:
        device = name.partition(":")[0]
        if in_container and (name, there) in on_rdma and device not in interfaces:
            reason = "RDMA devices are the container's host's."
            yield not_applicable(NotApplicable.CONTAINER, reason, name)
        elif device in there:
            yield passed(name, observed="there", expected="there")
        else:
            reason = "There is no device of this name, so that jobs find no way to each other."
            yield failed(name, observed="absent", expected="there", reason=reason)
