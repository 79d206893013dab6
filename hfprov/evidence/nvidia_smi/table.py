"""The plain table that ``nvidia-smi`` prints without arguments, drivers 375 to 610.

Cells are found by the ``|`` between them. A GPU has two lines, since driver 450 three. Unlike in
the other forms, an error is only a word (``ERR!``) where a value should be, and exit status is 0.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec.structs import replace

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.nvidia_smi.gpu_facts import gpu
from hfprov.evidence.nvidia_smi.model import Gpu, GpuProcess, GpuReport, MigDevice
from hfprov.evidence.nvidia_smi.values import find_pci_address, is_missing, version, whole
from hfprov.regex import regex

_TITLE = regex(r"\|\s*NVIDIA-SMI\s+(\S+)")
_DRIVER = regex(r"(?:Driver|KMD) Version:\s*(\S+)")
_CUDA = regex(r"CUDA (?:UMD )?Version:\s*(\S+)")
_FIRST = regex(r"\s*(\d+)\s+(\S.*)")
_SECOND = regex(r"\s*(\S+)\s+(\S+)\s+(\S+)\s*(.*)")
_RULE = regex(r"[+|][-=+|]+[+|]")
_MIG = regex(r"\s*(\d+)\s+(\d+|N/A)\s+(\d+|N/A)\s+(\d+|N/A)\s*")
_PROCESS = regex(r"\s*(\d+)\s+(?:(\d+|N/A)\s+(\d+|N/A)\s+)?(\d+)\s+([CGM+]+)\s+(.*)")
_ERROR = regex(r"ERR!|Unknown Error|GPU is lost|GPU requires reset", re.IGNORECASE)
_CELLS = 3


def parse_table(text: str) -> GpuReport:
    """A report from the plain table.

    Raises NotUnderstoodError when the head is missing or a GPU's lines are not as expected.
    """
    lines = [line.strip() for line in text.split("\n")]
    start = next((i for i, line in enumerate(lines) if _TITLE.match(line.strip())), None)
    if start is None:
        raise NotUnderstoodError("There is no '| NVIDIA-SMI <version>' line.")
    title = lines[start]
    driver, cuda = _DRIVER.search(title), _CUDA.search(title)
    before = [line.strip() for line in lines[:start] if line.strip()]
    timestamp = next(
        (line for line in before if re.match(r"[A-Z][a-z]{2} [A-Z][a-z]{2} ", line)), ""
    )
    body, closed = _until_blank(lines, start)
    gpus = _gpus(body)
    rest = lines[start + len(body) :]
    mig_devices, processes, listed = _sections(rest)
    incomplete = _why_incomplete(gpus, closed=closed, listed=listed)
    return GpuReport(
        form="table",
        gpus=tuple(
            replace(
                one,
                processes=tuple(p for p in processes if p.gpu_index == one.index)
                if listed
                else None,
                mig_devices=tuple(m for m in mig_devices if m.gpu_index == one.index),
            )
            for one in gpus
        ),
        timestamp=timestamp,
        driver_version=version(driver.group(1)) if driver else "",
        cuda_version=version(cuda.group(1)) if cuda else "",
        notices=tuple(line for line in before if line != timestamp and not _RULE.fullmatch(line)),
        incomplete=incomplete,
    )


def _until_blank(lines: Sequence[str], start: int) -> tuple[list[str], bool]:
    """The lines of the GPU table, and whether it ends with its closing rule."""
    body = []
    for line in lines[start:]:
        if not line.strip():
            break
        body.append(line.strip())
    last = body[-1] if body else ""
    return body, bool(_RULE.fullmatch(last)) and "-" in last and "=" not in last


def _gpus(body: Sequence[str]) -> list[Gpu]:
    ruled = next((i for i, line in enumerate(body) if "====" in line), None)
    if ruled is None:
        raise NotUnderstoodError("The table's head is not closed by a line of '='.")
    blocks: list[list[list[str]]] = []
    current: list[list[str]] = []
    for line in body[ruled + 1 :]:
        if _RULE.fullmatch(line):
            blocks.append(current)
            current = []
            continue
        if not line.startswith("|"):
            raise NotUnderstoodError(f"'{line[:80]}' is no line of the GPU table.")
        current.append(line.strip("|").split("|"))
    blocks.append(current)
    return [_gpu(block) for block in blocks if block]


def _gpu(block: Sequence[Sequence[str]]) -> Gpu:
    first = _FIRST.match(block[0][0])
    if first is None:
        raise NotUnderstoodError(
            f"'{block[0][0].strip()[:60]}' was expected to start with a GPU's index."
        )
    index = int(first.group(1)[:9])
    raw: dict[str, str] = {"index": str(index)}
    words = first.group(2).split()
    if len(words) > 1 and words[-1] in ("On", "Off", "N/A", "WDDM", "TCC", "MCDM", "ERR!"):
        mode = words.pop()
        driver_model = mode in ("WDDM", "TCC", "MCDM")
        raw["driver_model.current" if driver_model else "persistence_mode"] = mode
    raw["name"] = " ".join(words)
    second = block[0][1] if len(block[0]) > 1 else ""
    raw["display_active"] = second.split()[-1] if len(second.split()) > 1 else ""
    if len(block[0]) >= _CELLS:
        ecc = block[0][2].strip()
        # With MIG on, the cell says "On": the counters are in the MIG devices' lines.
        raw["ecc.errors.uncorrected.volatile.total"] = "" if ecc in ("On", "Off") else ecc
    if len(block) > 1:
        _second_line(block[1], raw)
    if len(block) > 2 and len(block[2]) >= _CELLS:
        raw["mig.mode.current"] = block[2][2].strip().rstrip("*")
    for row, cells in enumerate(block):
        for cell in cells:
            found = _ERROR.search(cell)
            if found and found.group() not in raw.values():
                raw[f"line {row + 1}: {cell.strip()[:60]}"] = found.group()
    if len(block) < 2:
        raw["the second line of this GPU"] = "[not found]"
    return gpu(raw, pci=find_pci_address(second) or None, brackets=True)


def _second_line(cells: Sequence[str], raw: dict[str, str]) -> None:
    match = _SECOND.match(cells[0])
    if match is None:
        raw["fan, temperature, power"] = f"[{cells[0].strip()[:60]}]"
    else:
        fan, temperature, state, rest = match.groups()
        draw, _, limit = rest.partition(" / ")
        raw["fan.speed"], raw["temperature.gpu"] = fan, temperature
        raw["pstate"], raw["power.draw"], raw["enforced.power.limit"] = state, draw, limit
    if len(cells) > 1 and "/" in cells[1] and not is_missing(cells[1].strip()):
        used, _, total = cells[1].partition("/")
        raw["memory.used"], raw["memory.total"] = used, total
    if len(cells) >= _CELLS:
        parts = cells[2].split(None, 1)
        raw["utilization.gpu"] = parts[0].removesuffix("%") if parts else ""
        raw["compute_mode"] = parts[1].strip() if len(parts) > 1 else ""


def _sections(
    lines: Sequence[str],
) -> tuple[list[MigDevice], list[GpuProcess], bool]:
    """MIG devices, processes, and whether the list of processes is there and closed."""
    section = ""
    mig: list[MigDevice] = []
    processes: list[GpuProcess] = []
    closed = False
    for line in (line.strip() for line in lines):
        if "MIG devices:" in line:
            section = "mig"
        elif re.match(r"\|\s*(?:Compute )?[Pp]rocesses:", line):
            section, closed = "processes", False
        elif _RULE.fullmatch(line):
            closed = closed or (section == "processes" and "=" not in line)
        elif section == "mig" and (found := _mig(line)):
            mig.append(found)
        elif section == "processes" and (process := _PROCESS.match(line.strip("|"))):
            processes.append(_process(process))
    return mig, processes, closed and section == "processes"


def _mig(line: str) -> MigDevice | None:
    cells = line.strip("|").split("|")
    ids = _MIG.fullmatch(cells[0])
    if ids is None or len(cells) < _CELLS:
        return None
    used, _, total = cells[1].partition("/")
    unc = cells[2].split()
    return MigDevice(
        gpu_index=whole(ids.group(1)),
        gpu_instance_id=whole(ids.group(2)),
        compute_instance_id=whole(ids.group(3)),
        index=whole(ids.group(4)),
        memory_used_mib=whole(used),
        memory_total_mib=whole(total),
        volatile_sram_uncorrectable=whole(unc[-1]) if unc else None,
    )


def _process(match: re.Match[str]) -> GpuProcess:
    gpu_index, instance, compute, pid, kind, rest = match.groups()
    name, _, memory = rest.rstrip().rpartition(" ")
    return GpuProcess(
        pid=whole(pid),
        type=kind,
        name=name.strip(),
        used_memory_mib=None if is_missing(memory) else whole(memory),
        gpu_instance_id=whole(instance or ""),
        compute_instance_id=whole(compute or ""),
        gpu_index=whole(gpu_index),
    )


def _why_incomplete(gpus: Sequence[Gpu], *, closed: bool, listed: bool) -> str:
    indexes = [one.index for one in gpus if one.index is not None]
    if not gpus:
        return "The table has no GPU."
    missing = sorted(set(range(max(indexes) + 1)) - set(indexes))
    if missing:
        return f"The GPU with index {missing[0]} is missing."
    if not closed:
        return "The table of GPUs has no closing line."
    if not listed:
        return "The list of processes, with which the table ends, is missing or cut off."
    return ""
