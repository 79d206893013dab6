"""``nvidia-smi dmon`` and ``pmon``: samples in columns that the header names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.nvidia_smi.model import FieldError
from hfprov.evidence.nvidia_smi.values import is_missing
from hfprov.evidence.text import number
from hfprov.regex import regex

HEADER = regex(r"#\s*(?:Date\s+Time\s+)?gpu\b", re.IGNORECASE)
_UNITS = regex(r"#\s*(?:YYYYMMDD\s+\S+\s+)?Idx\b", re.IGNORECASE)
_TEXT = frozenset({"date", "time", "type", "command", "name", "ccpm"})


class MonitorSample(Struct, frozen=True):
    gpu_index: int
    values: Mapping[str, float | None]
    """By column name; None where the tool prints ``-``."""
    pid: int | None = None
    type: str = ""
    command: str = ""
    time: str = ""
    errors: tuple[FieldError, ...] = ()


class Monitor(Struct, frozen=True):
    """One run of ``dmon`` (samples of GPUs) or ``pmon`` (samples of processes)."""

    kind: str
    """``dmon`` or ``pmon``."""
    units: Mapping[str, str]
    """By column name, as printed: ``W``, ``C``, ``%``, ``MHz``."""
    samples: tuple[MonitorSample, ...]
    incomplete: str = ""


def parse_monitor(text: str) -> Monitor:
    """Samples of dmon or pmon.

    Raises NotUnderstoodError when the header is missing or a line does not fit it.
    """
    columns: list[str] = []
    units: dict[str, str] = {}
    samples: list[MonitorSample] = []
    for line_number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if HEADER.match(stripped):
            columns = [word.lower() for word in stripped.lstrip("#").split()]
        elif _UNITS.match(stripped):
            units = dict(zip(columns, stripped.lstrip("#").split(), strict=False))
        elif stripped and not stripped.startswith("#"):
            samples.append(_sample(columns, stripped, line_number))
    if not columns:
        raise NotUnderstoodError("There is no '# gpu …' header line.")
    kind = "pmon" if "pid" in columns else "dmon"
    return Monitor(kind, units, tuple(samples), "" if samples else "There is no sample.")


def _sample(columns: Sequence[str], line: str, line_number: int) -> MonitorSample:
    last_is_text = bool(columns) and columns[-1] in ("command", "name")
    words = line.split(None, len(columns) - 1) if last_is_text else line.split()
    if len(words) != len(columns) or not words:
        raise NotUnderstoodError(
            f"Line {line_number} has {len(words)} values for {len(columns)} columns: '{line[:80]}'."
        )
    row = dict(zip(columns, words, strict=True))
    values: dict[str, float | None] = {}
    errors = []
    for name, word in row.items():
        if name in ("gpu", "pid") or name in _TEXT:
            continue
        try:
            values[name] = None if is_missing(word) else number(word)
        except NotUnderstoodError:
            values[name] = None
            errors.append(FieldError(name, word[:200]))
    gpu = row.get("gpu", "")
    if not gpu.isascii() or not gpu.isdigit():
        raise NotUnderstoodError(f"Line {line_number} has no GPU index: '{line[:80]}'.")
    pid = row.get("pid", "")
    return MonitorSample(
        gpu_index=int(gpu[:9]),
        values=values,
        pid=int(pid[:18]) if pid.isascii() and pid.isdigit() else None,
        type=row.get("type", "").strip("-"),
        command=row.get("command", row.get("name", "")).strip(),
        time=f"{row.get('date', '')} {row.get('time', '')}".strip(),
        errors=tuple(errors),
    )
