"""SuperBench ``results-summary.jsonl``: one JSON object of metrics per node.

SuperBench exits 0 when nothing ran; so an empty file, a node without metrics and a line that was
cut off are refused, and benchmarks that returned an error are listed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.fields import mapping
from hfprov.evidence.text import clean, excerpt, json_decoder

TOOL = "superbench"


class NodeResult(Struct, frozen=True):
    node: str
    metrics: Mapping[str, float]
    """``nccl-bw:nvlink/allreduce_8589934592_busbw:0`` and so on, in the benchmark's own unit."""
    return_codes: Mapping[str, int]

    @property
    def failed(self) -> tuple[str, ...]:
        """Benchmarks with a return code other than 0."""
        return tuple(name for name, code in self.return_codes.items() if code != 0)


class SuperBench(Struct, frozen=True):
    nodes: tuple[NodeResult, ...]


def parse(text: str) -> SuperBench:
    """Facts of one summary. Raises NotUnderstoodError when it is empty or a line is not whole."""
    nodes: dict[str, NodeResult] = {}
    for at, line in enumerate(clean(text).split("\n"), start=1):
        if not line.strip():
            continue
        result = _node(at, line)
        if result.node in nodes:
            raise NotUnderstoodError(
                f"Line {at} of the summary of '{TOOL}' has node '{excerpt(result.node)}' again."
            )
        nodes[result.node] = result
    if not nodes:
        raise NotUnderstoodError(f"The summary of '{TOOL}' is empty: no benchmark ran.")
    return SuperBench(tuple(nodes.values()))


_RETURN_CODE = "return_code"


def _node(at: int, line: str) -> NodeResult:
    try:
        document = json_decoder().decode(line)
    except (ValueError, RecursionError) as error:
        raise NotUnderstoodError(
            f"Line {at} of the summary of '{TOOL}' is not whole JSON: {excerpt(str(error))}."
        ) from error
    values = mapping(document, f"Line {at} of the summary of '{TOOL}'")
    node = values.get("node")
    if not isinstance(node, str) or not node:
        raise NotUnderstoodError(f"Line {at} of the summary of '{TOOL}' names no node.")
    metrics: dict[str, float] = {}
    codes: dict[str, int] = {}
    for name, value in values.items():
        if name == "node" or value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise NotUnderstoodError(f"'{excerpt(name)}' on line {at} of '{TOOL}' is no number.")
        if not math.isfinite(value):
            raise NotUnderstoodError(f"'{excerpt(name)}' on line {at} of '{TOOL}' is not finite.")
        if _RETURN_CODE in name.rpartition("/")[2]:
            codes[name] = int(value)
        else:
            metrics[name] = float(value)
    if not metrics and not codes:
        raise NotUnderstoodError(f"Node '{excerpt(node)}' has no metric in '{TOOL}'.")
    return NodeResult(node, metrics, codes)
