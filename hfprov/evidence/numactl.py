"""NUMA nodes, their CPUs, memory and distances: ``numactl --hardware``.

Nodes without memory (badly populated DIMMs) or without CPUs (CXL and HBM memory) are kept as they
are. The header, the number of nodes and the distances must fit together; where they do not, the
facts say so: the text was cut off, or a node is missing.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.cpulist import MAX_CPUS, parse_cpulist
from hfprov.evidence.host_values import bad_line, natural, numbered_lines, unknown_form
from hfprov.evidence.text import clean
from hfprov.regex import regex

_Nodes = dict[int, dict[str, int | tuple[int, ...] | None]]

_HEADER = regex(r"available: ([0-9]{1,5}) nodes? \(([0-9,-]+)\)")
_CPUS = regex(r"node ([0-9]{1,5}) cpus:((?: [0-9]{1,9})*)")
_MEMORY = regex(r"node ([0-9]{1,5}) (size|free): ([0-9]{1,12}) MB")
_UNKNOWN = regex(r"node ([0-9]{1,5}) (size|free): <not available>")
_COLUMNS = regex(r"node((?:\s+[0-9]{1,5})+)")
_DISTANCES = regex(r"([0-9]{1,5}):((?:\s+[0-9]{1,5})+)")


class NumaNode(Struct, frozen=True):
    """One NUMA node. Memory in MiB (numactl writes MB and means MiB); None: not available."""

    number: int
    cpus: tuple[int, ...] | None
    size_mib: int | None
    free_mib: int | None

    @property
    def is_memoryless(self) -> bool:
        return self.size_mib == 0


class NumactlFacts(Struct, frozen=True):
    """What ``numactl --hardware`` says."""

    announced: tuple[int, ...] | None
    """Nodes in the header; None where the header is missing."""
    nodes: tuple[NumaNode, ...]
    distances: Mapping[int, Mapping[int, int]]
    """By node, by node; 10 is local."""
    contradictions: tuple[str, ...]
    """What is missing or does not fit together; empty for a whole output."""


class _Reader:
    """Reads a text line by line."""

    __slots__ = ("announced", "columns", "distances", "nodes")

    def __init__(self) -> None:
        self.announced: tuple[int, ...] | None = None
        self.nodes: _Nodes = {}
        self.columns: list[int] = []
        self.distances: dict[int, dict[int, int]] = {}

    def feed(self, number: int, line: str, plain: str) -> bool:
        """Take one line. False if it is none of numactl's."""
        if match := _HEADER.fullmatch(plain):
            self.announced = parse_cpulist(match.group(2))
            if len(self.announced) != int(match.group(1)):
                raise bad_line("numactl", number, line, f"{match.group(1)} node numbers")
        elif match := _CPUS.fullmatch(plain):
            _put(self.nodes, number, line, int(match.group(1)), "cpus", _cpus(match.group(2)))
        elif match := _MEMORY.fullmatch(plain):
            value = natural(match.group(3), "Memory of a node")
            _put(self.nodes, number, line, int(match.group(1)), match.group(2), value)
        elif match := _UNKNOWN.fullmatch(plain):
            _put(self.nodes, number, line, int(match.group(1)), match.group(2), None)
        elif match := _COLUMNS.fullmatch(plain):
            self.columns = [int(word) for word in match.group(1).split()]
        elif (match := _DISTANCES.fullmatch(plain)) and self.columns:
            row = [int(word) for word in match.group(2).split()]
            self.distances[int(match.group(1))] = dict(zip(self.columns, row, strict=False))
        else:
            return False
        return True


def parse(text: str) -> NumactlFacts:
    """Facts from ``numactl --hardware``."""
    text = clean(text)
    reader = _Reader()
    for number, line in numbered_lines(text):
        plain = line.strip()
        if not plain or plain == "node distances:" or reader.feed(number, line, plain):
            continue
        if not reader.nodes and reader.announced is None:
            raise unknown_form("numactl", text, "'available: 2 nodes (0-1)'")
        raise bad_line("numactl", number, line, "a line of 'numactl --hardware'")
    if not reader.nodes:
        raise unknown_form("numactl", text, "'node 0 cpus: …'")
    return _facts(reader.announced, reader.nodes, reader.columns, reader.distances)


def _put(
    nodes: _Nodes,
    line_number: int,
    line: str,
    node: int,
    name: str,
    value: int | tuple[int, ...] | None,
) -> None:
    if name in nodes.setdefault(node, {}):
        raise bad_line("numactl", line_number, line, f"'{name}' of node {node} only once")
    nodes[node][name] = value


def _cpus(words: str) -> tuple[int, ...]:
    cpus = tuple(int(word) for word in words.split())
    if any(cpu >= MAX_CPUS for cpu in cpus):
        raise NotUnderstoodError(f"numactl lists a CPU beyond {MAX_CPUS - 1}.")
    return cpus


def _facts(
    announced: tuple[int, ...] | None,
    raw: _Nodes,
    columns: list[int],
    distances: dict[int, dict[int, int]],
) -> NumactlFacts:
    nodes = tuple(_node(number, raw[number]) for number in sorted(raw))
    found = []
    listed = tuple(node.number for node in nodes)
    if announced is None:
        found.append("The header 'available: … nodes' is missing.")
    elif listed != announced:
        found.append(f"{len(announced)} nodes are available, but {len(listed)} are listed.")
    found.extend(
        f"Node {node.number} lacks its CPUs or its memory."
        for node in nodes
        if node.cpus is None or "size" not in raw[node.number] or "free" not in raw[node.number]
    )
    if not columns or set(distances) != set(columns):
        found.append("The table of distances is missing or not whole.")
    if columns and not set(listed) <= set(columns):
        found.append("The table of distances lacks a node.")
    if columns and set(columns) - set(listed):
        found.append("The table of distances knows nodes that are not listed.")
    if any(set(row) != set(columns) for row in distances.values()):
        found.append("A row of the distances is not as long as its header.")
    return NumactlFacts(announced, nodes, distances, tuple(found))


def _node(number: int, values: dict[str, int | tuple[int, ...] | None]) -> NumaNode:
    cpus, size, free = values.get("cpus"), values.get("size"), values.get("free")
    return NumaNode(
        number=number,
        cpus=cpus if isinstance(cpus, tuple) else None,
        size_mib=size if isinstance(size, int) else None,
        free_mib=free if isinstance(free, int) else None,
    )
