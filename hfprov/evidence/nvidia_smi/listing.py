"""``nvidia-smi -L``, ``--version`` and ``--help-query-gpu``."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.nvidia_smi.model import GpuError, MigDevice
from hfprov.evidence.nvidia_smi.values import whole
from hfprov.evidence.text import excerpt
from hfprov.regex import regex

_GPU = regex(r"GPU (\d+): (.*?)\s*\(UUID: ([^)]*)\)")
_MIG = regex(r"MIG (\S+)\s+Device\s+(\d+):\s*\(UUID: ([^)]*)\)")
_FIELD = regex(r"\"([A-Za-z0-9_.]+)\"")
VERSION = regex(r"^NVIDIA-SMI version\s*:", re.IGNORECASE | re.MULTILINE)
HELP = regex(r"^List of valid properties to query for the switch \"--(\S+?)=?\"", re.MULTILINE)


class ListedGpu(Struct, frozen=True):
    index: int
    name: str
    uuid: str
    mig_devices: tuple[MigDevice, ...] = ()


class GpuList(Struct, frozen=True):
    """``nvidia-smi -L``."""

    gpus: tuple[ListedGpu, ...]
    errors: tuple[GpuError, ...] = ()
    notices: tuple[str, ...] = ()
    incomplete: str = ""


class Versions(Struct, frozen=True):
    """``nvidia-smi --version``. The three must agree; NVML leaves the last part out."""

    nvidia_smi: str
    nvml: str = ""
    driver: str = ""
    cuda: str = ""
    notices: tuple[str, ...] = ()


class QueryFields(Struct, frozen=True):
    """``nvidia-smi --help-query-…``: the fields that this version can be asked for."""

    query: str
    """``query-gpu``, …"""
    fields: tuple[str, ...]
    """The first name of each field."""
    aliases: Mapping[str, str]
    """Each other name of a field, with its first name."""


def parse_list(text: str) -> GpuList:
    """GPUs and their MIG devices. Raises NotUnderstoodError when no line lists a GPU."""
    gpus: list[tuple[re.Match[str], list[MigDevice]]] = []
    notices: list[str] = []
    for line in (line.strip() for line in text.split("\n")):
        listed, mig = _GPU.fullmatch(line), _MIG.fullmatch(line)
        if listed:
            gpus.append((listed, []))
        elif mig and gpus:
            gpus[-1][1].append(
                MigDevice(
                    index=whole(mig.group(2)),
                    uuid=mig.group(3),
                    profile=mig.group(1),
                    gpu_index=whole(gpus[-1][0].group(1)),
                )
            )
        elif line:
            notices.append(line[:500])
    if not gpus:
        raise NotUnderstoodError(f"No line lists a GPU; the first is '{excerpt(text)}'.")
    found = tuple(
        ListedGpu(int(one.group(1)[:9]), one.group(2), one.group(3), tuple(devices))
        for one, devices in gpus
    )
    indexes = [one.index for one in found]
    gaps = sorted(set(range(len(found))) - set(indexes))
    incomplete = f"The GPU with index {gaps[0]} is missing." if gaps else ""
    broken = next((line for line in notices if line.startswith(("GPU ", "MIG "))), "")
    if not incomplete and broken:
        incomplete = f"A line is cut off: '{broken[:80]}'."
    return GpuList(found, notices=tuple(notices), incomplete=incomplete)


def parse_versions(text: str) -> Versions:
    """Versions by component. Raises NotUnderstoodError when nvidia-smi's own is missing."""
    found: dict[str, str] = {}
    notices = []
    for line in (line.strip() for line in text.split("\n")):
        name, colon, value = line.partition(":")
        if colon and name.strip().lower().endswith("version") and value.strip():
            found[name.strip().lower()] = value.strip()
        elif line:
            notices.append(line[:500])
    own = found.get("nvidia-smi version")
    if not own:
        raise NotUnderstoodError("There is no 'NVIDIA-SMI version' line with a value.")
    return Versions(
        own,
        nvml=found.get("nvml version", ""),
        driver=found.get("driver version") or found.get("kmd version", ""),
        cuda=found.get("cuda version") or found.get("cuda umd version", ""),
        notices=tuple(notices),
    )


def parse_help(text: str) -> QueryFields:
    """Names of the fields of a query. Raises NotUnderstoodError when there is none."""
    head = HELP.search(text)
    if head is None:
        raise NotUnderstoodError("There is no 'List of valid properties' line.")
    names: list[str] = []
    aliases: dict[str, str] = {}
    blank = True
    for line in text[head.end() :].split("\n"):
        # A field is named at the start of a paragraph; its description may quote words as well.
        found = _FIELD.findall(line) if blank and line.startswith('"') else []
        blank = not line.strip()
        if not found:
            continue
        names.append(found[0])
        aliases.update({other: found[0] for other in found[1:] if other != found[0]})
    if not names:
        raise NotUnderstoodError("The list of properties names no field.")
    return QueryFields(head.group(1), tuple(names), aliases)
