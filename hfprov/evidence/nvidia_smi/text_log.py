"""``nvidia-smi -q`` and ``-q -d SECTION``: an indented log, one part per GPU.

Unlike XML it has no closing mark. A part is taken to be cut off when the log announces more GPUs
than it has, when its GPUs do not end with the same section, or when its last section lacks what
that section always ends with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.nvidia_smi.gpu_facts import gpu
from hfprov.evidence.nvidia_smi.model import Gpu, GpuProcess, GpuReport, MigDevice
from hfprov.evidence.nvidia_smi.values import find_pci_address, version, whole
from hfprov.regex import regex

_BANNER = regex(r"^=+NVSMI LOG=+\s*$")
_SECTION = regex(r"[A-Za-z][\w /()-]{1,60}\s*")
_OF_SECTION = regex(r"\s+[A-Za-z][^:]{0,80} : ")
_GPU = regex(r"^GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s*$")
_REPEATED = ("mig device", "processes", "accounted processes", "supported clocks")
_LAST_KEYS: Mapping[str, tuple[str, ...]] = {
    "retired pages": ("pending page blacklist", "pending page retirement", "pending"),
    "remapped rows": ("none", "remapping failure occurred"),
    "ecc mode": ("pending",),
    "bar1 memory usage": ("free",),
    "clock policy": ("auto boost default",),
    "gpu reset status": ("drain and reset recommended",),
    "pci": ("atomic caps inbound", "atomic caps outbound", "rx throughput"),
    "fabric": ("status", "clusteruuid", "incorrect configuration", "partition assigned"),
    "utilization": ("ofa", "decoder", "avg"),
}
"""What the last line of a section says, for sections that may be asked for alone (``-d``)."""


class _Part(Struct):
    """The lines of one GPU: ``(path, value)``; the value is None for a heading."""

    pci: str
    lines: list[tuple[tuple[str, ...], str | None]] = field(default_factory=list)

    @property
    def sections(self) -> list[str]:
        return list(dict.fromkeys(path[0] for path, _ in self.lines))


def parse_text(text: str) -> GpuReport:
    """A report from the indented log.

    Raises NotUnderstoodError when the log has no head or a line is in no part of it.
    """
    lines = text.split("\n")
    start = next((i for i, line in enumerate(lines) if _BANNER.match(line)), None)
    if start is None:
        raise NotUnderstoodError("There is no 'NVSMI LOG' line.")
    head: dict[str, str] = {}
    parts: list[_Part] = []
    stack: list[tuple[int, str]] = []
    for number, line in _numbered(lines, start):
        started = _GPU.match(line)
        if started:
            parts.append(_Part(find_pci_address(started.group(1))))
            stack = []
            continue
        _take(line, number, head, parts, stack)
    attached = whole(head.get("attached gpus", ""))
    return GpuReport(
        form="text",
        gpus=tuple(_gpu(part, index) for index, part in enumerate(parts)),
        timestamp=head.get("timestamp", ""),
        driver_version=version(head.get("driver version") or head.get("kmd version", "")),
        cuda_version=version(head.get("cuda version") or head.get("cuda umd version", "")),
        attached_gpus=attached,
        notices=tuple(line.strip() for line in lines[:start] if line.strip()),
        incomplete=_why_incomplete(attached, parts),
    )


def _numbered(lines: list[str], start: int) -> Iterator[tuple[int, str]]:
    """Lines behind the banner but for sections of the host, which precede the first GPU (vGPU)."""
    in_front, in_section = True, False
    for number, line in enumerate(lines[start + 1 :], start + 2):
        if not line.strip() or _BANNER.match(line):
            continue
        in_front = in_front and not _GPU.match(line)
        indented = line[0].isspace()
        if in_front and not indented:
            following = lines[number] if number < len(lines) else ""
            in_section = bool(_SECTION.fullmatch(line) and _OF_SECTION.match(following))
        if in_front and in_section and (not indented or _OF_SECTION.match(line)):
            continue
        yield number, line


def _take(
    line: str,
    number: int,
    head: dict[str, str],
    parts: list[_Part],
    stack: list[tuple[int, str]],
) -> None:
    bare = line.strip()
    indent = len(line) - len(line.lstrip())
    key, colon, rest = (bare + " ").partition(" : ")
    key, value = key.strip().lower(), rest if colon else None
    if not parts:
        if value is None or indent:
            raise NotUnderstoodError(
                f"Line {number} is before the first GPU and not 'name : value': "
                f"'{line.strip()[:60]}'."
            )
        head[key] = value.strip()
        return
    if not indent:
        raise NotUnderstoodError(
            f"Line {number} belongs to no GPU: '{line.strip()[:60]}'; "
            "'GPU <PCI address>' or an indented line was expected."
        )
    while stack and stack[-1][0] >= indent:
        stack.pop()
    stack.append((indent, key))
    path = tuple(name for _, name in stack)
    parts[-1].lines.append((path, None if value is None else value.strip()))


def _why_incomplete(attached: int | None, parts: list[_Part]) -> str:
    if attached is None:
        return "The number of attached GPUs is missing."
    if attached != len(parts):
        return f"{attached} GPUs are attached but {len(parts)} are reported."
    for part in parts:
        if not part.lines:
            return f"Nothing is reported for GPU {part.pci}."
        if part.lines[-1][1] is None and part.lines[-1][0][0] != "processes":
            return f"The log ends inside '{part.lines[-1][0][-1]}' of GPU {part.pci}."
    if parts and (reason := _cut_off(parts)):
        return reason
    return ""


def _cut_off(parts: list[_Part]) -> str:
    last = parts[-1]
    sections = last.sections
    if "product name" in sections and "processes" not in sections:
        return f"The log ends before the processes of GPU {last.pci}."
    missing = [name for name in parts[0].sections if name not in sections + list(_REPEATED)]
    if missing:
        return f"GPU {last.pci} has no '{missing[0]}', which GPU {parts[0].pci} has."
    path, value = last.lines[-1]
    expected = _LAST_KEYS.get(path[0])
    if expected and len(path) > 1 and path[-1] not in expected and value is not None:
        return f"The log ends inside '{path[0]}' of GPU {last.pci}."
    return ""


def _gpu(part: _Part, index: int) -> Gpu:
    raw = {
        "/".join(path): value
        for path, value in part.lines
        if value is not None and path[0] not in _REPEATED
    }
    return gpu(
        raw,
        index=index,
        pci=part.pci or None,
        processes=_processes(part),
        mig_devices=_mig_devices(part),
    )


def _processes(part: _Part) -> tuple[GpuProcess, ...] | None:
    lines = [(path[1:], value) for path, value in part.lines if path[0] == "processes"]
    if not lines or (lines[0][1] or "").upper() == "N/A":
        return None
    found: list[GpuProcess] = []
    instances: dict[str, int | None] = {}
    current: dict[str, str] = {}
    for path, value in [*lines, (("process id",), None)]:
        if not path:
            continue
        if path == ("process id",):
            if current:
                found.append(_process(current, instances))
                instances = {}
            current = {"pid": value or ""} if value else {}
        elif len(path) == 1 and path[0] in ("gpu instance id", "compute instance id"):
            if current:
                found.append(_process(current, instances))
                current, instances = {}, {}
            instances[path[0]] = whole(value or "")
        elif path[0] == "process id":
            current[path[-1]] = value or ""
    return tuple(found)


def _process(current: Mapping[str, str], instances: Mapping[str, int | None]) -> GpuProcess:
    return GpuProcess(
        pid=whole(current.get("pid", "")),
        type=current.get("type", ""),
        name=current.get("name", ""),
        used_memory_mib=whole(current.get("used gpu memory", "")),
        gpu_instance_id=instances.get("gpu instance id"),
        compute_instance_id=instances.get("compute instance id"),
    )


def _mig_devices(part: _Part) -> tuple[MigDevice, ...] | None:
    if not any(path[0].startswith("mig") for path, _ in part.lines):
        return None
    devices: list[dict[str, str]] = []
    for path, value in part.lines:
        if path == ("mig device",):
            devices.append({})
        elif path[0] == "mig device" and devices and value is not None:
            devices[-1]["/".join(path[1:])] = value
    return tuple(
        MigDevice(
            index=whole(device.get("index", "")),
            gpu_instance_id=whole(device.get("gpu instance id", "")),
            compute_instance_id=whole(device.get("compute instance id", "")),
            uuid=device.get("uuid", ""),
            memory_total_mib=whole(device.get("shared fb memory usage/total", "")),
            memory_used_mib=whole(device.get("shared fb memory usage/used", "")),
            volatile_sram_uncorrectable=whole(
                device.get("ecc errors/volatile/sram uncorrectable", "")
            ),
        )
        for device in devices
    )
