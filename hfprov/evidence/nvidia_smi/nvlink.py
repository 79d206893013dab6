"""``nvidia-smi nvlink -s`` and ``-e``: the links of each GPU, their speed, their error counters."""

from __future__ import annotations

import re

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.text import excerpt
from hfprov.regex import regex

_GPU = regex(r"GPU (\d+): (.*?)(?: \(UUID: ([^)]*)\))?\s*")
_LINK = regex(r"\s+Link (\d+)\s*:\s*(?:<?([0-9.]+) GB/s>?|(<?\s*[A-Za-z][A-Za-z /]*>?))\s*")
_COUNTER = regex(r"\s+Link (\d+)\s*:\s*([A-Za-z][A-Za-z /()-]{0,60}?)\s*:\s*(\d{1,20})\s*")
_INACTIVE = "inactive"


class NvlinkLink(Struct, frozen=True):
    link: int
    speed_gbytes_s: float | None
    """GB/s per direction; None when the link is not active."""
    state: str
    """``active``, ``inactive``, or what else the tool says."""


class NvlinkGpu(Struct, frozen=True):
    index: int
    name: str
    uuid: str
    links: tuple[NvlinkLink, ...]
    counters: tuple[tuple[int, str, int], ...] = ()
    """(link, name, count) of ``nvlink -e``, the name as printed: ``Replay Errors``."""
    note: str = ""
    """What the tool says instead of links, for example that all are inactive."""
    incomplete: str = ""

    @property
    def active(self) -> int:
        return sum(1 for link in self.links if link.state == "active")


class NvlinkStatus(Struct, frozen=True):
    gpus: tuple[NvlinkGpu, ...]
    incomplete: str = ""


_Lines = tuple[re.Match[str], list[NvlinkLink], list[str], list[tuple[int, str, int]]]


def parse_nvlink(text: str) -> NvlinkStatus:
    """Links by GPU.

    Raises NotUnderstoodError when a line is neither a GPU, a link nor a note about a GPU.
    """
    gpus: list[_Lines] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        started = _GPU.fullmatch(line.rstrip())
        if started:
            gpus.append((started, [], [], []))
            continue
        if not gpus:
            raise NotUnderstoodError(
                f"Line {number} was expected to be 'GPU <index>: <name>', not '{excerpt(line)}'."
            )
        link, counter = _LINK.fullmatch(line), _COUNTER.fullmatch(line)
        if counter:
            gpus[-1][3].append((int(counter[1][:9]), counter[2], int(counter[3])))
        elif link:
            gpus[-1][1].append(_link(link))
        else:
            gpus[-1][2].append(line.strip()[:300])
    if not gpus:
        raise NotUnderstoodError("There is no 'GPU <index>: <name>' line.")
    found = tuple(_gpu(*lines) for lines in gpus)
    return NvlinkStatus(found, _why_incomplete(found))


def _link(match: re.Match[str]) -> NvlinkLink:
    speed, word = match.group(2), (match.group(3) or "").strip("<> ").lower()
    number = int(match.group(1)[:9])
    if speed:
        value = float(speed) if speed.count(".") <= 1 and speed != "." else 0.0
        return NvlinkLink(number, value, "active" if value > 0 else _INACTIVE)
    return NvlinkLink(number, None, word)


def _gpu(
    started: re.Match[str],
    links: list[NvlinkLink],
    notes: list[str],
    counters: list[tuple[int, str, int]],
) -> NvlinkGpu:
    numbers = [link.link for link in links]
    why = ""
    if numbers != list(range(len(numbers))):
        why = "The links are not numbered without a gap."
    elif not links and not notes and not counters:
        why = "Nothing is said of this GPU's links."
    return NvlinkGpu(
        index=int(started.group(1)[:9]),
        name=started.group(2).strip(),
        uuid=started.group(3) or "",
        links=tuple(links),
        counters=tuple(counters),
        note="; ".join(notes),
        incomplete=why,
    )


def _why_incomplete(gpus: tuple[NvlinkGpu, ...]) -> str:
    for gpu in gpus:
        if gpu.incomplete:
            return f"GPU {gpu.index}: {gpu.incomplete}"
    if [gpu.index for gpu in gpus] != list(range(len(gpus))):
        return "The GPUs are not numbered without a gap."
    counts = {len(gpu.links) for gpu in gpus if gpu.links}
    if len(counts) > 1:
        return f"GPUs have different numbers of links: {sorted(counts)}."
    return ""
