"""Recognising which form of nvidia-smi's output a text is, and reading it."""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec.structs import replace

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.nvidia_smi.listing import (
    HELP,
    VERSION,
    GpuList,
    QueryFields,
    Versions,
    parse_help,
    parse_list,
    parse_versions,
)
from hfprov.evidence.nvidia_smi.mig import MARK as MIG
from hfprov.evidence.nvidia_smi.mig import MigListing, parse_mig
from hfprov.evidence.nvidia_smi.model import GpuReport, GpuSeries, NvidiaSmiFailure
from hfprov.evidence.nvidia_smi.monitor import Monitor, parse_monitor
from hfprov.evidence.nvidia_smi.nvlink import NvlinkStatus, parse_nvlink
from hfprov.evidence.nvidia_smi.query_csv import CsvFacts, parse_csv
from hfprov.evidence.nvidia_smi.sentences import Said, as_failure, sentences
from hfprov.evidence.nvidia_smi.table import parse_table
from hfprov.evidence.nvidia_smi.text_log import parse_text
from hfprov.evidence.nvidia_smi.topo import Topology, looks_like_topology, parse_topology
from hfprov.evidence.nvidia_smi.xml_log import parse_xml
from hfprov.evidence.text import clean
from hfprov.regex import regex

NvidiaSmiFacts = (
    CsvFacts
    | GpuList
    | MigListing
    | Monitor
    | NvidiaSmiFailure
    | NvlinkStatus
    | QueryFields
    | Topology
    | Versions
)

_MARKS: tuple[tuple[re.Pattern[str], Callable[[str], NvidiaSmiFacts]], ...] = (
    (regex(r"<(?:\?xml|!DOCTYPE|nvidia_smi_log)"), parse_xml),
    (regex(r"^=+NVSMI LOG=+[ \t]*$", re.MULTILINE), parse_text),
    (regex(r"^[ \t]*\|[ \t]*NVIDIA-SMI[ \t]+\S", re.MULTILINE), parse_table),
    (MIG, parse_mig),
    (HELP, parse_help),
    (regex(r"^#[ \t]*(?:Date[ \t]+Time[ \t]+)?gpu\b", re.MULTILINE), parse_monitor),
    (VERSION, parse_versions),
    (regex(r"(?i)^(?:[ \t]+Link \d+[ \t]*:|.*\bNvlink\b)", re.MULTILINE), parse_nvlink),
    (regex(r"^GPU \d+: .*\(UUID: ", re.MULTILINE), parse_list),
)

_MOST = 8 * 1024 * 1024
"""Characters; a full report of eight GPUs has a third of a million."""


def parse(text: str) -> NvidiaSmiFacts:
    """Facts from any form of nvidia-smi's output; a sentence of failure is a fact too.

    Raises NotUnderstoodError when the text is no known form, or is a form but not whole.
    """
    if len(text) > _MOST:
        raise NotUnderstoodError(
            f"The output of nvidia-smi is {len(text)} characters long; at most {_MOST} are read."
        )
    text = clean(text)
    if not text.strip():
        raise NotUnderstoodError("nvidia-smi printed nothing.")
    said = sentences(text)
    reader = _reader(said.rest)
    failure = as_failure(said)
    if reader is None:
        if failure is not None:
            return failure
        reader = parse_csv
    return _with(said, reader(said.rest))


def _reader(text: str) -> Callable[[str], NvidiaSmiFacts] | None:
    for mark, reader in _MARKS:
        if mark.search(text):
            return reader
    lines = [line for line in text.split("\n") if line.strip()]
    if looks_like_topology(lines[:2000]):
        return parse_topology
    if lines and "," in lines[0]:
        return parse_csv
    return None


def _with(said: Said, facts: NvidiaSmiFacts) -> NvidiaSmiFacts:
    """The facts, with what sentences around them say."""
    reason = ""
    if said.stopped:
        reason = "nvidia-smi says that it stopped early because of errors."
    if said.failure is not None:
        reason = reason or f"nvidia-smi says: {said.failure.message}"
    if isinstance(facts, (GpuReport, GpuSeries, GpuList)):
        return replace(
            facts, errors=(*facts.errors, *said.errors), incomplete=facts.incomplete or reason
        )
    if said.failure is not None:
        return said.failure
    if isinstance(facts, (NvidiaSmiFailure, QueryFields, Versions)):
        return facts
    if said.errors:
        reason = reason or f"nvidia-smi says: {said.errors[0].message}"
    return replace(facts, incomplete=facts.incomplete or reason)
