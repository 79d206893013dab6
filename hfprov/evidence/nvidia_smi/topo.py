"""``nvidia-smi topo -m``: how GPUs and NICs reach each other, and their CPU and NUMA affinity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.nvidia_smi.values import is_missing
from hfprov.regex import regex

_RELATION = regex(r"X|SYS|NODE|PHB|PXB|PIX|SOC|PSB|NV[#\d]+|NV\d+L|C2C|OK|NS|CNS|GNS|TNS|DR|U|N/A")
_NODE = regex(r"[A-Za-z][\w.:-]*")
_LEGEND = regex(r"\s*(NIC\d+)\s*:\s*(\S+)\s*")
_CPUS = regex(r"\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*")


class TopologyRow(Struct, frozen=True):
    name: str
    """``GPU0``, ``NIC3`` or, in older drivers, the device's own name."""
    relations: tuple[str, ...]
    """As printed, in the order of :attr:`Topology.columns`: ``NV18``, ``PIX``, ``SYS``, …"""
    cpu_affinity: str | None = None
    numa_affinity: str | None = None
    """None when the tool says N/A, or the columns cannot be told apart (tabs lost in copying)."""


class Topology(Struct, frozen=True):
    columns: tuple[str, ...]
    """Names of the columns; empty when the header is missing."""
    rows: tuple[TopologyRow, ...]
    nic_names: Mapping[str, str] = field(default_factory=dict)
    """From the NIC legend: ``NIC0`` is ``mlx5_0``."""
    incomplete: str = ""

    def relation(self, one: str, other: str) -> str | None:
        """How two nodes are connected; None when this was not reported."""
        for name, column in ((one, other), (other, one)):
            for row in self.rows:
                if row.name == name and column in self.columns:
                    at = self.columns.index(column)
                    return row.relations[at] if at < len(row.relations) else None
        return None


def looks_like_topology(lines: Sequence[str]) -> bool:
    """Whether some line is a row of the matrix."""
    return any(_matrix_row(line) is not None for line in lines)


def parse_topology(text: str) -> Topology:
    """The matrix with its legend.

    Raises NotUnderstoodError when there is no row of a matrix.
    """
    lines = text.split("\n")
    header = next((line for line in lines if _is_header(line)), None)
    columns = _columns(header) if header is not None else ()
    rows = [row for line in lines if (row := _matrix_row(line)) is not None]
    if not rows:
        raise NotUnderstoodError("There is no row of a topology matrix ('GPU0  X  …').")
    nics = {m.group(1): m.group(2) for line in lines if (m := _LEGEND.fullmatch(line))}
    whole_legend = any(line.split()[:2] == ["X", "="] for line in lines)
    return Topology(
        columns, tuple(rows), nics, _why_incomplete(columns, rows, nics, legend=whole_legend)
    )


def _is_header(line: str) -> bool:
    words = line.split()
    return (
        bool(words)
        and words[0].startswith("GPU")
        and not any(_RELATION.fullmatch(word) for word in words)
        and ("Affinity" in words or (len(words) > 1 and _NODE.fullmatch(words[1]) is not None))
    )


def _columns(header: str) -> tuple[str, ...]:
    found = []
    for word in header.split():
        if word in ("CPU", "GPU"):
            break
        found.append(word)
    return tuple(found)


def _matrix_row(line: str) -> TopologyRow | None:
    words = line.split()
    if len(words) < 2 or _NODE.fullmatch(words[0]) is None:
        return None
    relations: list[str] = []
    for word in words[1:]:
        # The affinity columns may start with N/A too, but only after the GPU's own X.
        if _RELATION.fullmatch(word) is None or (word == "N/A" and "X" in relations):
            break
        relations.append(word)
    if "X" not in relations:
        return None
    cpu, numa = _affinity(line, words[1 + len(relations) :])
    return TopologyRow(words[0], tuple(relations), cpu, numa)


def _affinity(line: str, words: Sequence[str]) -> tuple[str | None, str | None]:
    if not words or not (_CPUS.fullmatch(words[0]) or is_missing(words[0])):
        return None, None  # such as "NODENODE": a paste lost gaps, and what follows is anything
    tabs = [cell.strip() for cell in line.split("\t")]
    if len(tabs) > 2 and words[0] in tabs:
        words = [cell for cell in tabs[tabs.index(words[0]) :] if cell]
    elif len(words) < 3 and words[-1] == "N/A":
        return None, None  # "92-137" and "0" printed without a gap: not to be told apart
    cpu = words[0] if _CPUS.fullmatch(words[0]) else None
    numa = words[1] if len(words) > 1 and not is_missing(words[1]) else None
    return cpu, numa if numa and _CPUS.fullmatch(numa) else None


def _why_incomplete(
    columns: Sequence[str],
    rows: Sequence[TopologyRow],
    nics: Mapping[str, str],
    *,
    legend: bool,
) -> str:
    names = [row.name for row in rows]
    if not columns:
        return "The header line with the names of the columns is missing."
    missing = [name for name in columns if name not in names]
    if missing:
        return f"There is no row for '{missing[0]}'."
    short = next((row.name for row in rows if len(row.relations) != len(columns)), None)
    if short is not None:
        return f"The row of '{short}' does not have {len(columns)} relations."
    if not legend:
        return "The legend, with which the output ends, is missing."
    unnamed = [name for name in columns if name.startswith("NIC") and name not in nics]
    return f"The legend does not name '{unnamed[0]}'." if unnamed else ""
