"""Sentences that nvidia-smi prints instead of a report, before it, or in the middle of it.

They are evidence: a node whose driver libraries were replaced under a loaded module says so in one
of them. Wording as of drivers 375 to 610.
"""

from __future__ import annotations

import re

from msgspec import Struct

from hfprov.evidence.nvidia_smi.model import GpuError, NvidiaSmiFailure
from hfprov.evidence.nvidia_smi.values import find_pci_address
from hfprov.regex import regex

_GLOBAL: tuple[tuple[str, str], ...] = (
    ("no_devices", r"no devices (?:were|was) found"),
    ("version_mismatch", r"failed to initialize nvml: driver/library version mismatch"),
    ("driver_not_loaded", r"failed to initialize nvml: driver not loaded"),
    ("driver_not_loaded", r"nvidia-smi has failed because it couldn'?t communicate with the"),
    ("permission", r"failed to initialize nvml: (?:insufficient permissions|gpu access blocked)"),
    ("nvml_missing", r"failed to initialize nvml: nvml shared library not found"),
    ("nvml_missing", r"nvidia-smi couldn'?t find libnvidia-ml"),
    ("nvml_unknown_error", r"failed to initialize nvml"),
    ("other", r"nvidia-smi has failed because"),
    (
        "not_supported",
        r"no (?:supported )?(?:gpus|devices) (?:that support|supporting|in vgpu mode)",
    ),
    ("not_supported", r"no mig-supported devices found"),
    ("invalid_query", r"field \"[^\"\n]*\" is not a valid field"),
    ("invalid_query", r"invalid combination of input arguments"),
    ("invalid_query", r"option \S+ is not recognized"),
    ("tool_missing", r"(?:[^\n:]{1,60}: ){0,4}nvidia-smi: (?:command )?not found"),
    ("tool_missing", r"(?:[^\n:]{1,60}: ){0,4}nvidia-smi: no such file or directory"),
)
_PER_GPU: tuple[tuple[str, str], ...] = (
    ("unreachable", r"unable to determine the device handle for"),
    ("unreachable", r"unable to (?:query|communicate with|access|retrieve|get) .*gpu ?[0-9a-f]*:"),
    ("inforom_corrupted", r"(?:warning: )?inforom is corrupted at"),
    ("unreachable", r"(?:gpu )?[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]: .*(?:error|lost)"),
)
_STOPPED = r"terminating early due to previous errors"
_HARMLESS = r"treating as warning and moving on"

_LINES = regex(
    r"^[ \t]*(?:"
    + "|".join(pattern for _, pattern in (*_GLOBAL, *_PER_GPU))
    + f"|{_STOPPED}|{_HARMLESS}"
    + r").*$\n?",
    re.IGNORECASE | re.MULTILINE,
)
_UNIT = regex(
    r"gpu is lost|requires (?:a )?reset|gpu requires|insufficiently powered", re.IGNORECASE
)


class Said(Struct, frozen=True):
    """What the sentences in an output say, and the output without them."""

    failure: NvidiaSmiFailure | None
    errors: tuple[GpuError, ...]
    stopped: bool
    """Whether nvidia-smi says that it stopped before the end."""
    rest: str


def sentences(text: str) -> Said:
    """Find the known sentences in a text; ``rest`` is the text without their lines."""
    failure: NvidiaSmiFailure | None = None
    errors: list[GpuError] = []
    stopped = False
    for match in _LINES.finditer(text):
        line = match.group().strip()
        if re.match(_STOPPED, line, re.IGNORECASE):
            stopped = True
        elif kind := _kind(line, _GLOBAL):
            failure = failure or NvidiaSmiFailure(kind, line[:500], find_pci_address(line))
        elif kind := _kind(line, _PER_GPU):
            errors.append(GpuError(_refine(kind, line), find_pci_address(line), line[:500]))
    return Said(failure, tuple(errors), stopped, _LINES.sub("", text))


def as_failure(said: Said) -> NvidiaSmiFailure | None:
    """The failure that an output without any report amounts to, if it is one."""
    if said.failure is not None:
        failure = said.failure
        detail = " ".join(said.rest.split())[:500]
        message = f"{failure.message} {detail}".strip()
        return NvidiaSmiFailure(failure.kind, message, failure.pci_address, said.errors)
    if said.errors:
        first = said.errors[0]
        kind = {"lost": "gpu_lost", "unreachable": "gpu_unreachable"}.get(first.kind, first.kind)
        return NvidiaSmiFailure(kind, first.message, first.pci_address, said.errors)
    return None


def _kind(line: str, patterns: tuple[tuple[str, str], ...]) -> str:
    for kind, pattern in patterns:
        if re.match(pattern, line, re.IGNORECASE):
            return kind
    return ""


def _refine(kind: str, line: str) -> str:
    found = _UNIT.search(line)
    if found is None:
        return kind
    return "lost" if "lost" in found.group().lower() else "requires_reset"
