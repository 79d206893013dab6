"""AMD GPUs as ``amd-smi`` reports them.

Read forms: ``list``, ``static``, ``metric``, ``monitor``, ``topology``, ``xgmi``, ``process``,
``bad-pages``, ``firmware``, ``partition``, ``version`` and the default screen; text, ``--json``
(a bare list, or an object with ``gpu_data``) and ``--csv``; ROCm 5.7 to 7. All GPU forms give the
same facts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field

from hfprov.errors import NotUnderstoodError
from hfprov.evidence import amd_smi_tables as tables
from hfprov.evidence import amd_smi_text as forms
from hfprov.evidence.amd_smi_device import gpu_from_leaves
from hfprov.evidence.amd_smi_facts import AmdSmi, Gpu, Link, Versions
from hfprov.evidence.failures import FailureKind, ToolFailure, failure_table, find_failure
from hfprov.evidence.fields import documentation_json, flatten, looks_like_json, mapping
from hfprov.evidence.text import clean, excerpt
from hfprov.regex import regex

_FAILURES = failure_table(
    {
        FailureKind.DRIVER_NOT_LOADED: (
            "driver not (?:initialized|loaded)",
            "DRIVER_NOT_LOADED",
            "amdgpu not found in modules",
            "amdgpu.* not loaded",
        ),
        FailureKind.NO_DEVICES: (
            "unable to detect any .*devices",
            "no (?:amd )?gpus? (?:detected|found)",
            "can ?not find a device",
            "AMDSMI_STATUS_(?:NOT_FOUND|NO_DRV)",
        ),
        FailureKind.PERMISSION: ("AMDSMI_STATUS_NO_PERM",),
        FailureKind.DEVICE_ERROR: ("AMDSMI_STATUS_(?:IO|BUSY|UNEXPECTED_DATA)",),
        FailureKind.NOT_SUPPORTED: ("not supported on (?:the|this) system", "NOT_SUPPORTED"),
        FailureKind.OTHER: (
            r"^(?:error|exception)\b",
            "error code: -?[0-9]+",
            r"Amd\w+Exception",
            "amdsmi_cli_exceptions",
            "unable to (?:load|initialize)",
        ),
    }
)
_VERSION = regex(r"^AMDSMI Tool: ", re.MULTILINE)
_DEVICE_LINE = regex(r"^(?:GPU|CPU|CORE): ?[0-9]{1,6}$", re.MULTILINE)
_CSV_LINE = regex(r"^(?:timestamp,)?gpu,[a-z]", re.MULTILINE | re.IGNORECASE)


def parse(text: str) -> AmdSmi | ToolFailure:
    """Facts of one amd-smi document, or the failure that the tool reports instead.

    Raises NotUnderstoodError when the output is neither, or is visibly cut off.
    """
    text = clean(text)
    if not text.strip():
        raise NotUnderstoodError("The output of 'amd-smi' is empty.")
    for recognises, read in _FORMS:
        if recognises(text):
            return read(text)
    failure = find_failure(text, _FAILURES)
    if failure is None:
        raise NotUnderstoodError(
            f"The output of 'amd-smi' is in no known form; it begins '{excerpt(text)}'."
        )
    return failure


def _gpus(devices: list[forms.Device]) -> tuple[Gpu, ...]:
    return tuple(
        gpu_from_leaves(forms.with_paths(device.leaves), device.index)
        for device in devices
        if device.kind == "gpu"
    )


def _from_screen(text: str) -> AmdSmi:
    devices, whole = forms.read_screen(text)
    return AmdSmi(gpus=_gpus(devices), versions=_screen_versions(text), complete=whole)


def _from_matrices(text: str) -> AmdSmi:
    links, devices = tables.read_matrices(text)
    return AmdSmi(gpus=_gpus(devices), links=tuple(links), complete="\n..." not in text)


def _from_monitor(text: str) -> AmdSmi:
    devices, whole = tables.read_monitor(text)
    return AmdSmi(gpus=_gpus(devices), complete=whole)


def _from_csv(text: str) -> AmdSmi:
    return AmdSmi(gpus=_gpus(forms.read_csv(text)))


def _from_indented(text: str) -> AmdSmi:
    devices, notes, whole = forms.read_indented(text)
    cpus = tuple({"cpu": each.index, **each.leaves} for each in devices if each.kind == "cpu")
    return AmdSmi(gpus=_gpus(devices), cpus=cpus, notes=tuple(notes), complete=whole)


_ROOTS = ("gpu_data", "gpus", "gpu_metrics", "topology", "xgmi_metric", "link_status", "cpu_data")


def _from_json(text: str) -> AmdSmi | ToolFailure:
    document, whole = documentation_json(text)
    if isinstance(document, list):
        roots = [document]
    elif isinstance(document, dict) and "error" in document:
        sentence = excerpt(str(document["error"]), 200)
        return find_failure(sentence, _FAILURES) or ToolFailure(FailureKind.OTHER, sentence)
    elif isinstance(document, dict):
        roots = [document[root] for root in _ROOTS if isinstance(document.get(root), list)]
        roots = roots or [[document]]
    else:
        raise NotUnderstoodError("The JSON of 'amd-smi' is neither a list nor an object.")
    if not any(roots):
        return ToolFailure(FailureKind.NO_DEVICES, "The JSON list of devices is empty.")
    read = _Entries()
    for root in roots:
        seen: set[int] = set()
        for number, entry in enumerate(root):
            read.add(mapping(entry, f"Entry {number} of the JSON of 'amd-smi'"), number, seen)
    return AmdSmi(
        _gpus(read.devices), tuple(read.links), read.versions, tuple(read.cpus), (), whole
    )


class _Entries(Struct):
    """What the entries of a JSON document say, put together per GPU."""

    devices: list[forms.Device] = field(default_factory=list)
    cpus: list[dict[str, object]] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    versions: Versions | None = None
    by_index: dict[int, forms.Device] = field(default_factory=dict)

    def add(self, entry: Mapping[str, Any], number: int, seen: set[int]) -> None:
        if "tool" in entry and "version" in entry:
            self.versions = _json_versions(entry)
        elif "gpu" in entry:
            self._add_gpu(entry, _index(entry["gpu"], number), seen)
        elif "cpu" in entry:
            self.cpus.append(flatten(entry))
        else:
            raise NotUnderstoodError(f"Entry {number} of the JSON of 'amd-smi' has no 'gpu'.")

    def _add_gpu(self, entry: Mapping[str, Any], index: int, seen: set[int]) -> None:
        if index in seen or index not in self.by_index:
            # The same index twice in one list is one row per partition, not one GPU.
            device = forms.Device("gpu", index)
            self.devices.append(device)
            self.by_index[index] = device
        seen.add(index)
        if isinstance(entry.get("links"), list):
            self.links += tables.json_links(str(entry.get("bdf", index)), entry["links"])
        leaves = flatten({key: each for key, each in entry.items() if key != "links"})
        self.by_index[index].leaves |= leaves


def _index(value: Any, number: int) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1_000_000:
        return value
    raise NotUnderstoodError(f"The 'gpu' of entry {number} of the JSON of 'amd-smi' is no index.")


def _json_versions(entry: Any) -> Versions:
    def text(name: str) -> str | None:
        value = entry.get(name)
        return None if value in (None, "N/A") else str(value)

    return Versions(
        text("version"), text("amdsmi_library_version"), text("rocm_version"),
        text("amdgpu_version"),
    )  # fmt: skip


_VERSION_PART = regex(r"(AMDSMI Tool|AMDSMI Library version|ROCm version|amdgpu version): (.+)")


def _text_versions(text: str) -> Versions:
    parts = {}
    for part in text.replace("\n", "|").split("|"):
        if match := _VERSION_PART.match(part.strip()):
            parts[match[1]] = None if match[2].strip() == "N/A" else match[2].strip()
    return Versions(
        parts.get("AMDSMI Tool"), parts.get("AMDSMI Library version"), parts.get("ROCm version"),
        parts.get("amdgpu version"),
    )  # fmt: skip


_SCREEN_VERSION = regex(
    r"AMD-SMI +(?P<tool>\S+)(?: +amdgpu version: +(?P<driver>\S+))?"
    r"(?: +ROCm version: +(?P<rocm>\S+))?"
)


def _screen_versions(text: str) -> Versions | None:
    match = _SCREEN_VERSION.search(text)
    return match and Versions(match["tool"], None, match["rocm"], match["driver"])


_FORMS: tuple[tuple[Callable[[str], object], Callable[[str], AmdSmi | ToolFailure]], ...] = (
    (looks_like_json, _from_json),
    (forms.is_screen, _from_screen),
    (tables.is_partition, lambda text: AmdSmi(gpus=_gpus(tables.read_partition(text)))),
    (tables.is_matrix, _from_matrices),
    (_DEVICE_LINE.search, _from_indented),
    (tables.is_monitor, _from_monitor),
    (_CSV_LINE.search, _from_csv),
    (_VERSION.search, lambda text: AmdSmi(versions=_text_versions(text))),
)
