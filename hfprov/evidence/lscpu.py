"""CPUs, cores, sockets and NUMA nodes as lscpu tells them.

Forms: text (util-linux 2.1x to 2.4x, flat or indented, ``-x`` with masks), JSON (``-J``, flat or
nested), the tables of ``-e`` and ``-p``, and text followed by ``-p`` tables. lscpu translates its
labels: only the C locale is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.cpulist import parse_cpulist, parse_cpumask
from hfprov.evidence.host_values import (
    bad_line,
    decimal,
    json_value,
    mapping,
    natural,
    numbered_lines,
    optional_text,
    sequence,
    unknown_form,
)
from hfprov.evidence.lscpu_table import CpuRow, parse_columns, parse_commas
from hfprov.evidence.text import clean
from hfprov.regex import regex

_EXPECTED = "'CPU(s):' and other labels in the C locale"
_COLUMNS = regex(r"CPU +[A-Z][A-Za-z0-9: ]*\n")
_NODE = regex(r"NUMA node([0-9]{1,5}) CPU\(s\)")
_MODEL_KEYS = ("Model name", "Thread(s) per core", "Core(s) per socket", "Socket(s)")
_MAX_DEPTH = 8


class CpuModel(Struct, frozen=True):
    """One kind of core; machines with unlike cores (big.LITTLE) have several."""

    name: str | None
    """None where lscpu prints ``-``."""
    vendor: str | None
    threads_per_core: int | None
    cores_per_socket: int | None
    sockets: int | None
    """On s390 the sockets of one book; see ``books``."""
    max_mhz: float | None
    min_mhz: float | None
    flags: frozenset[str]


class LscpuFacts(Struct, frozen=True):
    """What lscpu says. None: no such line in this version or on this architecture."""

    architecture: str | None
    cpus: int | None
    """All CPUs that are possible or present, off-line ones too."""
    online: tuple[int, ...] | None
    offline: tuple[int, ...]
    models: tuple[CpuModel, ...]
    books: int | None
    numa_nodes: int | None
    numa_cpus: Mapping[int, tuple[int, ...]]
    virtualization: str | None
    """What the CPU supports: ``VT-x``, ``AMD-V``."""
    hypervisor_vendor: str | None
    """Set inside a virtual machine."""
    virtualization_type: str | None
    frequency_boost: bool | None
    scaling_percent: float | None
    bogomips: float | None
    caches: Mapping[str, str]
    vulnerabilities: Mapping[str, str]
    rows: tuple[CpuRow, ...]
    """One row for each CPU, from ``-e`` or ``-p``."""
    contradictions: tuple[str, ...]
    """What does not fit together: a node list that was cut off, or CPUs that are missing."""


def parse(text: str) -> LscpuFacts:
    """Facts from any form of lscpu output."""
    text = clean(text)
    start = text.lstrip()
    if start.startswith("{"):
        return _facts(_json_fields(text), ())
    if _COLUMNS.match(start):
        return _facts([], parse_columns(start))
    head, mark, tables = text.partition("# The following is the parsable format")
    if not mark and start.startswith("#"):
        return _facts([], parse_commas(start))
    fields = _text_fields(head) if head.strip() else []
    if not fields and not mark:
        raise unknown_form("lscpu", text, _EXPECTED)
    return _facts(fields, parse_commas(mark + tables) if mark else ())


def _text_fields(text: str) -> list[tuple[str, str]]:
    fields: list[tuple[str, str]] = []
    folded: list[str] = []
    width = 0
    for number, line in numbered_lines(text):
        if not line.strip():
            continue
        if fields and width and line[:width].isspace():
            folded.append(line)
            fields[-1] = (fields[-1][0], _unfold(folded, width))
            continue
        key, colon, value = line.partition(":")
        if not colon or not key.strip():
            raise bad_line("lscpu", number, line, "'label: value'")
        folded = [line]
        if value.strip():
            width = len(line) - len(value.lstrip())
        fields.append((key.strip(), value.strip()))
    if fields and not any(key in ("CPU(s)", "Architecture", "Model name") for key, _ in fields):
        raise unknown_form("lscpu", text, _EXPECTED)
    return fields


def _unfold(lines: list[str], width: int) -> str:
    """Join what lscpu 2.37 folded at the width of a terminal, in the middle of a word.

    A blank at the fold is lost at the end of the line, which is then shorter than the others.
    """
    longest = max(len(line) for line in lines)
    parts = [line[width:] + (" " if len(line) < longest else "") for line in lines]
    return "".join(parts).strip()


def _json_fields(text: str) -> list[tuple[str, str]]:
    document = mapping(json_value(text, "lscpu"), "The lscpu document")
    entries = sequence(document.get("lscpu", document.get("cpus")), "'lscpu'")
    fields: list[tuple[str, str]] = []
    waiting = [(entry, 0) for entry in reversed(entries)]
    while waiting:
        item, depth = waiting.pop()
        entry = mapping(item, "An entry of 'lscpu'")
        name = optional_text(entry.get("field"), "'field'")
        if name is None:
            raise NotUnderstoodError("An entry of 'lscpu' has no 'field'.")
        if depth > _MAX_DEPTH:
            raise NotUnderstoodError("The entries of 'lscpu' are nested too deep.")
        value = optional_text(entry.get("data"), f"'data' of '{name}'")
        fields.append((name.rstrip(":"), value or ""))
        children = sequence(entry.get("children", []), f"'children' of '{name}'")
        waiting.extend((child, depth + 1) for child in reversed(children))
    if not fields:
        raise NotUnderstoodError("The lscpu document lists nothing.")
    return fields


def _facts(fields: list[tuple[str, str]], rows: tuple[CpuRow, ...]) -> LscpuFacts:
    named: dict[str, str] = {}
    for key, value in fields:
        named.setdefault(key, value)
    # With "-x" lists are masks, with "0x" in front or (util-linux 2.38) without.
    are_masks = "On-line CPU(s) mask" in named
    cpus = parse_cpumask if are_masks else parse_cpulist
    suffix = "mask" if are_masks else "list"
    online = named.get(f"On-line CPU(s) {suffix}")
    offline = named.get(f"Off-line CPU(s) {suffix}")
    numa_cpus = {
        int(match.group(1)): cpus(value) if value else ()
        for key, value in named.items()
        if (match := _NODE.fullmatch(key))
    }
    boost = named.get("Frequency boost")
    facts = LscpuFacts(
        architecture=named.get("Architecture"),
        cpus=_count(named, "CPU(s)"),
        online=None if online is None else cpus(online),
        offline=() if offline is None else cpus(offline),
        models=tuple(_models(fields)),
        books=_count(named, "Book(s)"),
        numa_nodes=_count(named, "NUMA node(s)"),
        numa_cpus=numa_cpus,
        virtualization=named.get("Virtualization"),
        hypervisor_vendor=named.get("Hypervisor vendor"),
        virtualization_type=named.get("Virtualization type"),
        frequency_boost=None if boost is None else boost == "enabled",
        scaling_percent=_percent(named.get("CPU(s) scaling MHz")),
        bogomips=_number(named, "BogoMIPS"),
        caches=_prefixed(named, "L"),
        vulnerabilities=_vulnerabilities(fields),
        rows=rows,
        contradictions=(),
    )
    return _checked(facts)


def _checked(facts: LscpuFacts) -> LscpuFacts:
    found = []
    if facts.numa_nodes is not None and len(facts.numa_cpus) != facts.numa_nodes:
        found.append(
            f"lscpu announces {facts.numa_nodes} NUMA nodes, but lists {len(facts.numa_cpus)}."
        )
    if facts.online is not None and facts.cpus is not None:
        known = len(facts.online) + len(facts.offline)
        if known != facts.cpus:
            found.append(f"lscpu announces {facts.cpus} CPUs, but lists {known}.")
    listed = {cpu for cpus in facts.numa_cpus.values() for cpu in cpus}
    if facts.online is not None and facts.numa_cpus and listed != set(facts.online):
        found.append("The CPUs of the NUMA nodes are not the CPUs that are on-line.")
    if not found:
        return facts
    return replace(facts, contradictions=tuple(found))


def _models(fields: Iterable[tuple[str, str]]) -> Iterable[CpuModel]:
    """A model begins with each ``Model name``; what precedes the first belongs to the first."""
    groups: list[dict[str, str]] = [{}]
    for key, value in fields:
        if key == "Model name" and "Model name" in groups[-1]:
            groups.append({})
        groups[-1].setdefault(key, value)
    for group in groups:
        if not any(key in group for key in _MODEL_KEYS):
            continue
        name = group.get("Model name")
        yield CpuModel(
            name=None if name in (None, "-", "") else name,
            vendor=group.get("Vendor ID") or groups[0].get("Vendor ID"),
            # With CPUs offline, lscpu may divide to 0: that is no count of anything that is there.
            threads_per_core=_count(group, "Thread(s) per core") or None,
            cores_per_socket=_count(group, "Core(s) per socket", "Core(s) per cluster") or None,
            sockets=_count(group, "Socket(s)", "Socket(s) per book") or None,
            max_mhz=_number(group, "CPU max MHz"),
            min_mhz=_number(group, "CPU min MHz"),
            flags=frozenset(group.get("Flags", "").split()),
        )


def _count(fields: Mapping[str, str], *names: str) -> int | None:
    for name in names:
        value = fields.get(name)
        if value not in (None, "-", ""):
            return natural(str(value), f"lscpu '{name}'")
    return None


def _number(fields: Mapping[str, str], name: str) -> float | None:
    value = fields.get(name)
    return None if value in (None, "-", "") else decimal(str(value), f"lscpu '{name}'")


def _percent(value: str | None) -> float | None:
    return None if value is None else decimal(value.removesuffix("%"), "lscpu 'CPU(s) scaling MHz'")


def _prefixed(fields: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Cache sizes as printed, by level: ``L3``."""
    return {
        key.removesuffix(" cache"): value
        for key, value in fields.items()
        if re.fullmatch(rf"{prefix}[1-4][di]?(?: cache)?", key)
    }


def _vulnerabilities(fields: Iterable[tuple[str, str]]) -> dict[str, str]:
    found = {}
    inside = False
    for key, value in fields:
        if key == "Vulnerabilities":
            inside = True
        elif key.startswith("Vulnerability "):
            found[key.removeprefix("Vulnerability ")] = value
        elif inside:
            found[key] = value
    return found
