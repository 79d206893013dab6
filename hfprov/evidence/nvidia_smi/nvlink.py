"""``nvidia-smi nvlink -s``: the links of each GPU and their speed."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.text import excerpt

_GPU = re.compile(r"GPU (\d+): (.*?)(?: \(UUID: ([^)]*)\))?\s*")
_LINK = re.compile(r"\s+Link (\d+)\s*:\s*(?:<?([0-9.]+) GB/s>?|(<?\s*[A-Za-z][A-Za-z /]*>?))\s*")
_INACTIVE = "inactive"


@dataclass(frozen=True, slots=True)
class NvlinkLink:
    link: int
    speed_gbytes_s: float | None
    """GB/s per direction; None when the link is not active."""
    state: str
    """``active``, ``inactive``, or what else the tool says."""


@dataclass(frozen=True, slots=True)
class NvlinkGpu:
    index: int
    name: str
    uuid: str
    links: tuple[NvlinkLink, ...]
    note: str = ""
    """What the tool says instead of links, for example that all are inactive."""
    incomplete: str = ""

    @property
    def active(self) -> int:
        return sum(1 for link in self.links if link.state == "active")


@dataclass(frozen=True, slots=True)
class NvlinkStatus:
    gpus: tuple[NvlinkGpu, ...]
    incomplete: str = ""


def parse_nvlink(text: str) -> NvlinkStatus:
    """Links by GPU.

    Raises NotUnderstoodError when a line is neither a GPU, a link nor a note about a GPU.
    """
    gpus: list[tuple[re.Match[str], list[NvlinkLink], list[str]]] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        started = _GPU.fullmatch(line.rstrip())
        if started:
            gpus.append((started, [], []))
            continue
        if not gpus:
            raise NotUnderstoodError(
                f"Line {number} was expected to be 'GPU <index>: <name>', not '{excerpt(line)}'."
            )
        link = _LINK.fullmatch(line)
        if link:
            gpus[-1][1].append(_link(link))
        else:
            gpus[-1][2].append(line.strip()[:300])
    if not gpus:
        raise NotUnderstoodError("There is no 'GPU <index>: <name>' line.")
    found = tuple(_gpu(started, links, notes) for started, links, notes in gpus)
    return NvlinkStatus(found, _why_incomplete(found))


def _link(match: re.Match[str]) -> NvlinkLink:
    speed, word = match.group(2), (match.group(3) or "").strip("<> ").lower()
    number = int(match.group(1)[:9])
    if speed:
        value = float(speed) if speed.count(".") <= 1 and speed != "." else 0.0
        return NvlinkLink(number, value, "active" if value > 0 else _INACTIVE)
    return NvlinkLink(number, None, word)


def _gpu(started: re.Match[str], links: list[NvlinkLink], notes: list[str]) -> NvlinkGpu:
    numbers = [link.link for link in links]
    why = ""
    if numbers != list(range(len(numbers))):
        why = "The links are not numbered without a gap."
    elif not links and not notes:
        why = "Nothing is said of this GPU's links."
    return NvlinkGpu(
        index=int(started.group(1)[:9]),
        name=started.group(2).strip(),
        uuid=started.group(3) or "",
        links=tuple(links),
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
