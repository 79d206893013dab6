"""``nvidia-smi mig -lgi``, ``-lci``, ``-lgip`` and ``-lcip``: how GPUs are, or can be, divided."""

from __future__ import annotations

import re

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.text import excerpt
from hfprov.regex import regex


class MigInstance(Struct, frozen=True):
    """A part of a GPU, or (``-lci``) a part of such a part."""

    gpu: int
    gpu_instance: int
    compute_instance: int | None
    """None in a list of GPU instances."""
    profile: str
    """``1g.10gb``, ``1c.3g.40gb``, …"""
    profile_id: int
    start: int
    """First memory slice; of compute instances the first compute slice."""
    size: int


class MigProfile(Struct, frozen=True):
    """A size that parts can have, and how many of it can still be made."""

    gpu: int
    gpu_instance: int | None
    """The instance that ``-lcip`` would divide."""
    profile: str
    profile_id: int
    free: int
    total: int


class MigListing(Struct, frozen=True):
    """One of the four lists: ``instances`` or ``profiles``, the other is empty."""

    instances: tuple[MigInstance, ...] = ()
    profiles: tuple[MigProfile, ...] = ()
    incomplete: str = ""


MARK = regex(
    r"^[ \t]*\|+ (?:GPU|Compute) instance(?: profile)?s:|^No (?:GPU|compute) instances found",
    re.MULTILINE,
)
_NONE = regex(r"No (?:GPU|compute) instances found\b.*")
_ROW = regex(
    r"\|+ +(?P<gpu>\d{1,4}) +(?:(?P<gi>\d{1,6}) +)?MIG (?P<profile>\S+) +(?P<id>\d{1,4})\*? +"
    r"(?:(?P<free>\d{1,4})/(?P<total>\d{1,4})\b.*|(?P<instance>\d{1,6}) +"
    r"(?P<start>\d{1,4}):(?P<size>\d{1,4})) *\|"
)


def parse_mig(text: str) -> MigListing:
    """Facts of one list; a sentence that there is no instance is an empty list.

    Raises NotUnderstoodError for a row that is none, and for a table without rows.
    """
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if all(_NONE.fullmatch(line) for line in lines):
        return MigListing()
    instances: list[MigInstance] = []
    profiles: list[MigProfile] = []
    for line in lines:
        if " MIG " not in line:
            continue
        row = _ROW.fullmatch(line)
        if row is None:
            raise NotUnderstoodError(f"The row '{excerpt(line)}' of a list of MIG is not whole.")
        gpu, profile, number = int(row["gpu"]), row["profile"], int(row["id"])
        of = int(row["gi"]) if row["gi"] else None
        if row["free"]:
            free, total = int(row["free"]), int(row["total"])
            profiles.append(MigProfile(gpu, of, profile, number, free, total))
            continue
        last, start, size = int(row["instance"]), int(row["start"]), int(row["size"])
        gpu_part, compute_part = (last, None) if of is None else (of, last)
        instances.append(MigInstance(gpu, gpu_part, compute_part, profile, number, start, size))
    if not instances and not profiles:
        raise NotUnderstoodError("The list of MIG has no row.")
    ended = lines[-1].startswith("+--")
    return MigListing(
        instances=tuple(instances),
        profiles=tuple(profiles),
        incomplete="" if ended else "The table of MIG has no end.",
    )
