"""Copies between a host and its accelerators, and among them: nvbandwidth, TransferBench, RVS.

Of each test the slowest device, or pair of devices, is the figure: the others wait for it.
Bandwidths are GB/s (1e9 bytes per second), whatever the tool prints.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hfprov.evidence import nvbandwidth, rvs, transferbench
from hfprov.evidence.failures import ToolFailure
from hfprov.evidence.nvbandwidth import Status
from hfprov.measure.tool import (
    BANDWIDTH,
    LATENCY,
    Figure,
    HostTool,
    Kind,
    MeasureError,
    Settings,
)
from hfprov.words import plural

_COPIES = (
    "host_to_device_memcpy_ce",
    "device_to_host_memcpy_ce",
    "device_to_device_memcpy_read_ce",
)
_CORRUPT = "checking the pattern"
"""nvbandwidth compares what it copied; in JSON it says so outside of the document."""


def read_nvbandwidth(text: str, chosen: Settings) -> Sequence[Figure]:
    """Figures of one run. Raises MeasureError when data was corrupted or a test did not end."""
    found = nvbandwidth.parse(text)
    if isinstance(found, ToolFailure):
        raise MeasureError(found.sentence)
    corrupt = [line for line in found.messages if _CORRUPT in line]
    if found.error or corrupt or not found.complete:
        # That data was corrupted says more than where the tool stopped because of it.
        reasons = (*corrupt, found.error or "nvbandwidth did not end.")
        raise MeasureError(reasons[0])
    if found.devices:
        _require_all(len(found.devices), chosen, "nvbandwidth")
    figures = []
    for test in found.tests:
        if test.status is Status.WAIVED:
            continue
        if test.status is not Status.PASSED:
            raise MeasureError(f"nvbandwidth's test '{test.name}' is '{test.status.value}'.")
        # A device to itself is N/A.
        cells = [cell for row in test.rows for cell in row if cell is not None]
        if not cells:
            raise MeasureError(f"nvbandwidth's test '{test.name}' has no figure.")
        unit = test.unit or "GB/s"
        lower = unit != "GB/s"  # latencies, which the tool gives in ns
        value = max(cells) if lower else min(cells)
        figures.append(
            Figure(
                f"nvbandwidth {test.name}",
                unit,
                (value,),
                higher_is_better=not lower,
                tolerance=LATENCY if lower else BANDWIDTH,
            )
        )
    if not figures:
        raise MeasureError("nvbandwidth measured nothing: every test was waived.")
    return figures


def _require_all(seen: int, chosen: Settings, tool: str) -> None:
    """A device that is not there is not slow, and would not be missed in a minimum."""
    if chosen.accelerators and seen != chosen.accelerators:
        raise MeasureError(
            f"'{tool}' measured {plural(seen, 'device')}, and the node has {chosen.accelerators}."
        )


_TRANSFER_BYTES = 64 << 20
_WAYS = (("CPU", "GPU", "cpu to gpu"), ("GPU", "CPU", "gpu to cpu"), ("GPU", "GPU", "gpu to gpu"))


def read_transferbench(text: str, chosen: Settings) -> Sequence[Figure]:
    """Figures of the ``p2p`` preset, one way at a time.

    Of a copy between host and device the better NUMA node of the host counts: the other one is
    slower by design, and would hide a slow device.
    """
    found = transferbench.parse(text)
    if isinstance(found, ToolFailure):
        raise MeasureError(found.sentence)
    if found.errors or not found.complete:
        raise MeasureError(found.errors[0] if found.errors else "TransferBench did not end.")
    matrix = next((one for one in found.matrices if one.title.startswith("Unidirectional")), None)
    if matrix is None:
        raise MeasureError("TransferBench has no matrix of copies one way.")
    gpus = {cell.source for cell in matrix.cells if cell.source.startswith("GPU")}
    _require_all(len(gpus), chosen, "TransferBench")
    figures = []
    for source, target, name in _WAYS:
        values = _copies(matrix, source, target)
        if values:
            figures.append(Figure(f"transferbench {name}", "GB/s", (min(values),)))
    if not figures:
        raise MeasureError("TransferBench measured no copy with a GPU.")
    return figures


def _copies(matrix: transferbench.Matrix, source: str, target: str) -> Sequence[float]:
    """Of each device, or pair of devices, what copies between these kinds of device reach."""
    best: dict[tuple[str, ...], float] = {}
    for cell in matrix.cells:
        ends = cell.source, cell.target
        if cell.source == cell.target:
            continue  # within one device: its memory
        if cell.source.startswith(source) and cell.target.startswith(target):
            if cell.gbs is None:
                raise MeasureError(f"TransferBench did not copy from {ends[0]} to {ends[1]}.")
            gpus = tuple(end for end in ends if end.startswith("GPU"))
            best[gpus] = max(cell.gbs, best.get(gpus, 0.0))
    return list(best.values())


_RVS_CONF = "/opt/rocm/share/rocm-validation-suite/conf/pbqt_single.conf"
"""Of ROCm's packages: peer to peer copies of all pairs; ROCm/ROCmValidationSuite, docs."""
_BOTH_WAYS = "bidirectional: true"


def read_rvs(text: str, _: Settings) -> Sequence[Figure]:
    """Figures of RVS's modules pbqt (between GPUs) and pebb (between host and GPU)."""
    found = rvs.parse(text)
    if isinstance(found, ToolFailure):
        raise MeasureError(found.sentence)
    errors = [*found.errors, *(error for action in found.actions for error in action.errors)]
    if errors:
        raise MeasureError(f"rvs reports: {errors[0]}")
    failed = [action.name for action in found.actions if action.passed is False]
    if failed:
        raise MeasureError(f"rvs says that '{failed[0]}' failed.")
    values: dict[str, list[float]] = {}
    for action in found.actions:
        for test, value in _results(action):
            values.setdefault(test, []).append(value)
    if not values:
        raise MeasureError("rvs measured no bandwidth.")
    return [Figure(test, "GB/s", (min(some),)) for test, some in values.items()]


def _results(action: rvs.Action) -> Iterable[tuple[str, float]]:
    """Results of an action, not what it said on the way. Raises MeasureError where one is none."""
    if action.bandwidths and not any(one.final for one in action.bandwidths):
        raise MeasureError(f"rvs did not end '{action.name}'.")
    for one in action.bandwidths:
        if not one.final:
            continue
        if one.gbs is None or one.gbs <= 0:
            raise MeasureError(f"rvs has no number in '{one.description}'.")
        ways = " both ways" if _BOTH_WAYS in one.description else ""
        yield f"rvs {action.module or 'bandwidth'}{ways}", one.gbs


GPU_TOOLS = (
    HostTool(
        "nvbandwidth",
        Kind.GPU,
        lambda _: ["nvbandwidth", "-j", "-t", *_COPIES],
        read_nvbandwidth,
        300,
        aim="copies of accelerators",
        vendors=("nvidia",),
        usual=lambda _: 30.0,
    ),
    HostTool(
        "TransferBench",
        Kind.GPU,
        lambda _: ["TransferBench", "p2p", str(_TRANSFER_BYTES)],
        read_transferbench,
        300,
        aim="copies of accelerators",
        vendors=("amd",),
        usual=lambda _: 30.0,
    ),
    HostTool(
        "rvs",
        Kind.GPU,
        lambda _: ["rvs", "-c", _RVS_CONF],
        read_rvs,
        600,
        aim="peer copies as RVS does them",
        vendors=("amd",),
        usual=lambda _: 60.0,
    ),
)
