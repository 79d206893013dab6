"""Collectives of nccl-tests and rccl-tests, within a node and over all nodes of a rail. No I/O.

A build without MPI that is started by ``mpirun`` runs once per process, and each of these runs
looks like a good one (NVIDIA/nccl-tests issues 27 and 213). So a run over several nodes counts only
when its ranks are as many as were asked for, on as many hosts, on distinct devices.
"""

from __future__ import annotations

from collections.abc import Sequence

from hfprov.evidence import nccl_tests
from hfprov.evidence.failures import ToolFailure
from hfprov.evidence.nccl_tests_facts import Measure, NcclTests, Row
from hfprov.measure.tool import Figure, Group, GroupTool, HostTool, Kind, MeasureError, Settings
from hfprov.words import plural

PROGRAM = "all_reduce_perf"
LAUNCHER = "mpirun"
_SWEEP = ("-b", "8", "-e", "8G", "-f", "2", "-w", "5", "-n", "20", "-c", "1")
"""Sizes from 8 bytes to 8 GiB, 5 runs to warm up and 20 that count, results compared."""
_SECONDS = 600


def whole_run(text: str) -> NcclTests:
    """One whole run whose results are right. Raises MeasureError for all else."""
    found = nccl_tests.parse(text)
    if isinstance(found, ToolFailure):
        raise MeasureError(found.sentence)
    if found.headers > 1 or found.summaries > 1:
        raise MeasureError(
            f"These are several runs, not one: {found.headers} tables, {found.summaries} "
            "summaries. The build may be without MPI."
        )
    if not found.complete:
        raise MeasureError(found.errors[0] if found.errors else "The run did not end.")
    wrong = sum(half.wrong or 0 for row in found.rows for half in _halves(row))
    if wrong or found.out_of_bounds or found.ok is False:
        raise MeasureError(f"{wrong or found.out_of_bounds or 'Some'} results are wrong.")
    if found.validated is False or found.out_of_bounds is None:
        raise MeasureError("Its results were not compared: a wrong sum is not fast.")
    if not found.ranks:
        raise MeasureError("It does not say which ranks took part.")
    return found


def _halves(row: Row) -> Sequence[Measure]:
    return [half for half in (row.out_of_place, row.in_place) if half is not None]


def figures_of(found: NcclTests, name: str) -> Sequence[Figure]:
    """Bus bandwidth of the largest message out of place and in place, each with its curve."""
    figures = []
    halves = (
        ("", [(row.size_bytes, row.out_of_place) for row in found.rows]),
        (" in-place", [(row.size_bytes, row.in_place) for row in found.rows]),
    )
    for label, measured in halves:
        points = [
            (float(size), half.busbw_gbs)
            for size, half in measured
            if half is not None and half.busbw_gbs is not None
        ]
        if points:
            best = max(points)[1]
            if best <= 0:
                raise MeasureError("Its bus bandwidth is 0: one device has nobody to talk to.")
            figures.append(Figure(f"{name}{label}", "GB/s", (best,), curve=tuple(points)))
    if not figures:
        raise MeasureError("There is no bus bandwidth in the output.")
    return figures


def read_one_node(text: str, chosen: Settings) -> Sequence[Figure]:
    """Figures of a run within one node, by all of its accelerators."""
    found = whole_run(text)
    if len(found.hosts) > 1:
        raise MeasureError(f"{len(found.hosts)} hosts took part, and one was asked for.")
    if chosen.accelerators and found.gpus != chosen.accelerators:
        raise MeasureError(
            f"{plural(found.gpus, 'device')} took part, and the node has {chosen.accelerators}."
        )
    return figures_of(found, f"{PROGRAM} busbw")


def read_group(text: str, group: Group) -> Sequence[Figure]:
    """Figures of a run over all of a group together."""
    found = whole_run(text)
    seen = len(found.hosts), found.distinct_ranks, found.gpus
    asked = len(group.ends), group.ranks, group.ranks
    if seen != asked or len(found.ranks) != group.ranks:
        raise MeasureError(
            f"{plural(found.distinct_ranks, 'rank')} with {plural(found.gpus, 'device')} on "
            f"{plural(len(found.hosts), 'host')} ({', '.join(found.hosts[:4])}) took part; "
            f"{group.ranks} on {plural(len(group.ends), 'host')} were asked for."
        )
    return figures_of(found, group_test(len(group.ends)))


def group_test(hosts: int) -> str:
    """How the figure of so many hosts is called: it is no better or worse than another number's."""
    return f"{PROGRAM} busbw {hosts} nodes"


def group_argv(group: Group, _: Settings) -> Sequence[str]:
    """One process per accelerator, by Open MPI's mpirun over ssh between the nodes.

    Open MPI's own traffic is kept to the interfaces of the rail; ranks find each other as the
    role 'comm_library' declares. What is declared is given along: a node whose files differ is
    drifted, and must not make this run another one.
    """
    interfaces = ",".join(dict.fromkeys(end.interface for end in group.ends))
    variables = {**group.environment}
    if len(group.ends) == 2:  # noqa: PLR2004
        # Over two nodes a tree sends less than the ring by which the bus bandwidth is reckoned,
        # and shows more than the wire carries: NVIDIA/nccl-tests, report 196.
        variables["NCCL_ALGO"] = "Ring"
    exported = [word for name in sorted(variables) for word in ("-x", f"{name}={variables[name]}")]
    hosts = ",".join(f"{end.address}:{group.accelerators}" for end in group.ends)
    return [
        *(LAUNCHER, "--allow-run-as-root", "--host", hosts),
        *("-np", str(group.ranks), "--map-by", f"ppr:{group.accelerators}:node"),
        *("--bind-to", "numa", "--mca", "pml", "ob1", "--mca", "btl", "tcp,self"),
        *("--mca", "btl_tcp_if_include", interfaces),
        *("--mca", "oob_tcp_if_include", interfaces),
        # The test is looked for on the other nodes as it is on this one.
        *("-x", "PATH", *exported),
        *(PROGRAM, *_SWEEP, "-g", "1"),
    ]


COLLECTIVE_TOOLS = (
    HostTool(
        PROGRAM,
        Kind.COLLECTIVE,
        lambda chosen: [PROGRAM, *_SWEEP, "-g", str(max(1, chosen.accelerators))],
        read_one_node,
        _SECONDS,
        aim="collectives of one node",
        vendors=("nvidia", "amd"),
        usual=lambda _: 60.0,
    ),
    GroupTool(
        PROGRAM,
        Kind.COLLECTIVE,
        group_argv,
        read_group,
        _SECONDS,
        aim="collectives over nodes",
        vendors=("nvidia", "amd"),
        needs=(LAUNCHER,),
    ),
)
