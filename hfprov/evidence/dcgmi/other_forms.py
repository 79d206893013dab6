"""``dcgmi health``, ``dcgmi discovery -l`` and ``dcgmi nvlink -s``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.dcgmi.model import (
    DiagStatus,
    DiscoveredGpu,
    Discovery,
    Health,
    HealthItem,
    HealthWatches,
    NvlinkStates,
    status_of,
)
from hfprov.evidence.nvidia_smi.values import find_pci_address, whole
from hfprov.regex import regex

_COUNT = regex(r"(\d+) (GPU|NvSwitch|CPU)e?s? found\.?", re.IGNORECASE)
_ARROW = regex(r"->\s*(.*)")
_SYSTEM = regex(
    r"([A-Za-z][A-Za-z -]* system|[A-Za-z]+):\s*(Healthy|Warning|Failure)(?:\s*-\s*(.*))?"
)
_RULE = regex(r"\+[-=+]+\+")


def parse_discovery(text: str) -> Discovery:
    """Devices that the host engine knows. Raises NotUnderstoodError without a headline."""
    counts: dict[str, int | None] = {}
    gpus: list[dict[str, str]] = []
    section = ""
    last = ""
    for line in (line.strip() for line in text.split("\n")):
        headline = _COUNT.fullmatch(line)
        if headline:
            section = headline.group(2).lower()
            counts[section] = whole(headline.group(1))
        elif section == "gpu" and line.startswith("|"):
            _gpu_line(line, gpus)
        last = line or last
    if "gpu" not in counts:
        raise NotUnderstoodError("There is no line 'N GPUs found.'.")
    found = tuple(
        DiscoveredGpu(
            gpu_id=int(gpu["id"]),
            name=_known(gpu.get("name", "")),
            pci_address=find_pci_address(gpu.get("pci bus id", "")),
            uuid=_known(gpu.get("device uuid", "")),
        )
        for gpu in gpus
    )
    incomplete = ""
    if counts["gpu"] != len(found):
        incomplete = f"{counts['gpu']} GPUs were found but {len(found)} are listed."
    elif not _RULE.fullmatch(last):
        incomplete = "The last table has no closing line."
    elif any(not gpu.uuid for gpu in found):
        incomplete = "A GPU is listed without its UUID."
    return Discovery(
        found,
        gpu_count=counts["gpu"],
        switch_count=counts.get("nvswitch"),
        cpu_count=counts.get("cpu"),
        incomplete=incomplete,
    )


def _known(value: str) -> str:
    """A text of the host engine; none where it prints a placeholder such as ``<<<NULL>>>``."""
    return "" if value.startswith("<<<") else value


def _gpu_line(line: str, gpus: list[dict[str, str]]) -> None:
    left, _, right = line.strip("|").partition("|")
    number = left.strip()
    if number.isascii() and number.isdigit():
        gpus.append({"id": number[:9]})
    elif number or not gpus:
        return
    key, colon, value = right.partition(":")
    if colon and gpus:
        gpus[-1][key.strip().lower()] = value.strip()


def parse_nvlink(text: str) -> NvlinkStates:
    """Link states. Raises NotUnderstoodError when no GPU is named or a state is unknown."""
    gpus: list[tuple[int, list[str]]] = []
    switches: list[tuple[int, list[str]]] = []
    current: list[tuple[int, list[str]]] = gpus
    keyed = False
    for line in (line.strip() for line in text.split("\n")):
        head = re.fullmatch(r"(gpuId|switchId|physicalId)\s+(\d+):", line, re.IGNORECASE)
        if head:
            current = gpus if head.group(1).lower() == "gpuid" else switches
            current.append((int(head.group(2)[:9]), []))
        elif line.startswith("Key:"):
            keyed = True
        elif current and re.fullmatch(r"[A-Z_?](?:\s+[A-Z_?])*", line):
            current[-1][1].extend(line.split())
    if not gpus:
        raise NotUnderstoodError("There is no line 'gpuId <number>:'.")
    unknown = {state for _, states in (*gpus, *switches) for state in states} - set("UDX_")
    if unknown:
        raise NotUnderstoodError(f"'{min(unknown)}' is not the state of a link.")
    empty = [number for number, states in gpus if not states]
    incomplete = f"No link is listed for GPU {empty[0]}." if empty else ""
    if not keyed:
        incomplete = incomplete or "The 'Key:' line, with which the output ends, is missing."
    return NvlinkStates(
        tuple((number, tuple(states)) for number, states in gpus),
        tuple((number, tuple(states)) for number, states in switches),
        incomplete,
    )


def parse_health(text: str) -> Health | HealthWatches:
    """The health report, or the list of what is watched.

    Raises NotUnderstoodError when neither 'Overall Health' nor a list of systems is there.
    """
    rows = [
        (left.strip(" |"), right.strip(" |"))
        for line in text.split("\n")
        if line.strip().startswith("|")
        for left, _, right in [line.strip().strip("|").partition("|")]
    ]
    overall = next(
        (
            right or left.partition(":")[2].strip() or left.removeprefix("Overall Health").strip()
            for left, right in rows
            if left.startswith("Overall Health")
        ),
        None,
    )
    if overall is None:
        return _watches(rows)
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    closed = bool(_RULE.fullmatch(lines[-1])) and "=" not in lines[-1]
    return Health(
        status_of(overall),
        overall,
        tuple(_items(rows)),
        incomplete="" if closed else "The report has no closing line.",
    )


def _watches(rows: Sequence[tuple[str, str]]) -> HealthWatches:
    states = {left: right.lower() for left, right in rows if right.lower() in ("on", "off")}
    if not states:
        raise NotUnderstoodError("There is neither 'Overall Health' nor a system 'On' or 'Off'.")
    return HealthWatches(
        tuple(name for name, state in states.items() if state == "on"),
        tuple(name for name, state in states.items() if state == "off"),
    )


def _items(rows: Sequence[tuple[str, str]]) -> Iterator[HealthItem]:
    group, number, system = "", None, ""
    status = DiagStatus.UNKNOWN
    words: list[str] = []
    started = False
    for left, right in [*rows, ("GPU", "")]:
        arrow = _ARROW.match(left)
        name = (arrow.group(1) if arrow else left).strip()
        old = re.fullmatch(r"(GPU|CPU|Switch) ID:\s*(\d+)", name)
        if not name and (inline := _SYSTEM.match(right)):
            if started:
                yield HealthItem(group, number, system, status, " ".join(words))
            system, status = inline.group(1), status_of(inline.group(2))
            words, started = [inline.group(3) or ""], True
            continue
        if not name:
            words.append(right)
            continue
        if started:
            yield HealthItem(group, number, system, status, " ".join(words).strip())
            started = False
        words = []
        if old:
            group, number, system = old.group(1), whole(old.group(2)), ""
            status, started = status_of(right), True
        elif name in ("GPU", "CPU", "NvSwitch", "Switch", "Link", "CPU Core"):
            group, number, system = name, None, ""
        elif arrow and name.isascii() and name.isdigit():
            number, system, status, started = whole(name), "", status_of(right), True
        elif arrow and right:
            system, status, started = name, status_of(right), True


def health_report(document: Mapping[str, Any]) -> Health:
    """Health from ``dcgmi health -c -j``. Raises NotUnderstoodError without 'Overall Health'."""
    body = document.get("body")
    overall = body.get("Overall Health") if isinstance(body, dict) else None
    value = overall.get("value") if isinstance(overall, dict) else overall
    if not isinstance(body, dict) or not isinstance(value, str):
        raise NotUnderstoodError("The document has no 'body' with 'Overall Health'.")
    items = []
    for group, entities in body.items():
        if group == "Overall Health" or not isinstance(entities, dict):
            continue
        children = entities.get("children", entities)
        for name, entity in children.items() if isinstance(children, dict) else ():
            told = entity.get("value", "") if isinstance(entity, dict) else entity
            items.append(
                HealthItem(
                    str(group), whole(str(name)), "", status_of(str(told)), str(entity)[:2000]
                )
            )
    return Health(status_of(value), value, tuple(items))
