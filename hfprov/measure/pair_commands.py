"""What tools of pairs have in common: where they run, and how perftest is started and read. No I/O.

Both ends are bound to the NUMA node of their card where numactl is installed: a process on the
other node measures the link between sockets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from hfprov.evidence import perftest
from hfprov.evidence.perftest_facts import Run
from hfprov.measure.tool import End, MeasureError, Settings, TransientError

Options = Callable[[End, int, Settings], list[str]]
"""The command of perftest for one end, without the address of a server."""
_SOFTWARE_RDMA = "rxe"
"""How devices begin that the kernel itself makes; they move some MB/s."""


def bound(end: End, argv: Sequence[str]) -> list[str]:
    """The command on the NUMA node of the end's card."""
    if end.numa_node is None:
        return list(argv)
    return ["numactl", f"--cpunodebind={end.numa_node}", "--localalloc", *argv]


def server_of(options: Options) -> Callable[[End, int, Settings], Sequence[str]]:
    """The server of a test of perftest."""
    return lambda end, port, chosen: bound(end, options(end, port, chosen))


def client_of(options: Options) -> Callable[[End, End, int, Settings], Sequence[str]]:
    """Its client, which has the server's address besides."""
    return lambda mine, other, port, chosen: bound(
        mine, [*options(mine, port, chosen), other.address]
    )


def is_software(end: End) -> bool:
    """Whether the kernel itself is the end's RDMA device."""
    return end.rdma_device.startswith(_SOFTWARE_RDMA)


def iterations(end: End, hardware: int) -> str:
    """How many messages: as many as said, or few where the kernel itself is the card."""
    return str(max(5, hardware // 100) if is_software(end) else hardware)


ALL_SIZES_SECONDS = 5.0
"""About what a run of perftest over all message sizes takes."""


def all_sizes(chosen: Settings) -> Sequence[Settings]:
    """The one run in which perftest goes through all message sizes."""
    return [replace(chosen, all_sizes=True)]


TITLES = {
    "ib_write_bw": "RDMA_Write",
    "ib_write_lat": "RDMA_Write",
    "ib_read_lat": "RDMA_Read",
    "ib_send_lat": "Send",
}
"""How perftest's programs call what they do, in the first line."""


def single_run(text: str, program: str) -> Run:
    """The only run in an output, one way. Raises MeasureError for all else, and what failed.

    Raises TransientError where perftest did not get to know the CPU's clock, which something else
    on the CPU prevents (the hypervisor of an emulated machine, an interrupt that takes long).
    """
    found = perftest.parse(text)
    if found.no_clock:
        raise TransientError(
            f"'{program}' could not tell how fast the CPU's clock runs, by which it takes the time "
            f"({found.failures[0]})."
        )
    if not found.ok or found.interleaved or len(found.runs) != 1:
        raise MeasureError(
            found.failures[0] if found.failures else "This is no single whole run of perftest."
        )
    [run] = found.runs
    if run.test is not None and not run.test.startswith(TITLES[program]):
        raise MeasureError(f"This is a '{run.test}', and not one of '{program}'.")
    if run.bidirectional:
        raise MeasureError("Both ways were measured at once, and are shown as one sum.")
    return run
