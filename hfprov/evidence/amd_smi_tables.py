"""amd-smi's tables: ``monitor``, ``topology`` and ``xgmi``.

A matrix with fewer rows than columns is refused: it was cut off, and a missing row would hide
exactly the link that is down.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.amd_smi_facts import Link
from hfprov.evidence.amd_smi_text import TOOL, Device
from hfprov.evidence.fields import Fields, integer, not_understood
from hfprov.regex import regex

_MONITOR = regex(r"^ *(?:TIMESTAMP +)?GPU +(?!NAME\b)[A-Z_%]+(?: +[A-Z_%]+)*$", re.MULTILINE)
_CELL = regex(r"[^\s/]+(?:/ *[^\s/]+)?(?: (?:W|%|°C|C|V|mV|J|MHz|MB|GB|KB|B|Mb/s|ns)(?=\s|$))?")
_COLUMNS = {
    "XCP": "partition_id", "POWER": "power.socket_power", "PWR_CAP": "limit.max_power",
    "GPU_TEMP": "temperature.hotspot", "GPU_T": "temperature.hotspot",
    "MEM_TEMP": "temperature.mem", "MEM_T": "temperature.mem",
    "GFX_UTIL": "usage.gfx_activity", "GFX%": "usage.gfx_activity",
    "MEM_UTIL": "usage.umc_activity", "MEM%": "usage.umc_activity",
    "GFX_CLOCK": "clock.gfx_0.clk", "GFX_CLK": "clock.gfx_0.clk",
    "MEM_CLOCK": "clock.mem_0.clk", "MEM_CLK": "clock.mem_0.clk",
    "SINGLE_ECC": "ecc.total_correctable_count", "DOUBLE_ECC": "ecc.total_uncorrectable_count",
    "PCIE_REPLAY": "pcie.replay_count", "VRAM_USED": "vram_used", "VRAM_TOTAL": "vram_total",
    "PVIOL": "violation.ppt_violation_activity",
    "TVIOL": "violation.socket_thermal_violation_activity",
    "PHOT_TVIOL": "violation.prochot_violation_activity",
    "VR_TVIOL": "violation.vr_thermal_violation_activity",
    "HBM_TVIOL": "violation.hbm_thermal_violation_activity",
    "GFX_CLKVIOL": "violation.gfx_clk_violation_activity",
}  # fmt: skip
_PROCESS_TABLE = "PROCESS INFO:"
_WIDE_GAP = regex(r"\s{2,}")


def is_monitor(text: str) -> bool:
    """Whether there is the header line of ``amd-smi monitor``."""
    return _MONITOR.search(text) is not None


def read_monitor(text: str) -> tuple[list[Device], bool]:
    """One device per row, and whether nothing was visibly left out."""
    header_line = _MONITOR.search(text)
    if header_line is None:
        raise NotUnderstoodError(f"There is no monitor table in the output of '{TOOL}'.")
    before = text.count("\n", 0, header_line.start())
    lines = text.split("\n")
    header = lines[before].split()
    devices: list[Device] = []
    whole = True
    for number, line in enumerate(lines[before + 1 :], start=before + 2):
        stripped = line.strip()
        if stripped == _PROCESS_TABLE:
            _read_processes(lines, number, devices)
            break
        if stripped == "...":
            whole = False
        elif stripped and stripped.split() != header:
            devices.append(_monitor_row(header, number, stripped))
    if not devices:
        raise NotUnderstoodError(f"The monitor table of '{TOOL}' has no rows.")
    return devices, whole


_USED_OF = regex(r"(?P<used>N/A|[^/]+)/(?P<total>.+)(?<!N/A)")


def _monitor_row(header: list[str], number: int, line: str) -> Device:
    cells = _CELL.findall(line)
    if len(cells) != len(header):
        raise not_understood(TOOL, number, line, f"{len(header)} columns as in the header")
    row = dict(zip(header, cells, strict=True))
    leaves: dict[str, Any] = {
        _COLUMNS[name]: cell for name, cell in row.items() if name in _COLUMNS
    }
    if memory := _USED_OF.fullmatch(row.get("VRAM_USAGE", "")):
        total = memory["total"].strip()
        leaves["vram_total"] = total
        leaves["vram_used"] = f"{memory['used']} {total.partition(' ')[2]}".strip()
    return Device("gpu", integer(row["GPU"]), leaves)


def _read_processes(lines: list[str], start: int, devices: list[Device]) -> None:
    """Rows of the process table under ``monitor -q``; the name may contain spaces."""
    by_index = {device.index: device for device in devices}
    for device in devices:
        device.leaves["process_list"] = []
    for number, line in enumerate(lines[start + 1 :], start=start + 2):
        cells = _WIDE_GAP.split(line.strip())
        if cells in ([""], ["..."]):
            continue
        if len(cells) < 6 or not cells[0].isascii() or not cells[0].isdigit():
            raise not_understood(TOOL, number, line, "a process: GPU, NAME, PID, memory")
        owner = by_index.get(integer(cells[0]))
        if owner is None:
            raise not_understood(TOOL, number, line, "a GPU that the table above has")
        if cells[1] == "N/A" and cells[2] == "N/A":
            continue
        prefix = f"process_list.{number}.process_info"
        owner.leaves |= {f"{prefix}.name": cells[1], f"{prefix}.pid": cells[2]}
        owner.leaves[f"{prefix}.vram_mem"] = cells[5]


_PARTITION = regex(r"^CURRENT_PARTITION:[ \t]*$", re.MULTILINE)
_PARTITION_COLUMNS = {
    "GPU_ID": "", "MEMORY": "partition.memory_partition",
    "ACCELERATOR_TYPE": "partition.accelerator_partition", "PARTITION_ID": "partition_id",
}  # fmt: skip


def is_partition(text: str) -> bool:
    """Whether there is the first table of ``amd-smi partition``."""
    return _PARTITION.search(text) is not None


def read_partition(text: str) -> list[Device]:
    """GPUs with their current partition; the tables of possible ones are passed over."""
    title = _PARTITION.search(text)
    at = text.count("\n", 0, title.end()) + 1 if title else 0
    lines = text.split("\n")[at:]
    header = _WIDE_GAP.split(lines[0].strip()) if lines else []
    if header[:2] != ["GPU_ID", "MEMORY"]:
        raise not_understood(TOOL, at + 1, lines[0] if lines else "", "'GPU_ID  MEMORY ...'")
    devices = []
    for number, line in enumerate(lines[1:], start=at + 2):
        if not line.strip():
            break
        cells = _WIDE_GAP.split(line.strip())
        if len(cells) != len(header):
            raise not_understood(TOOL, number, line, f"{len(header)} columns as in the header")
        row = dict(zip(header, cells, strict=True))
        leaves = {
            path: row[name]
            for name, path in _PARTITION_COLUMNS.items()
            if path and name in row and "," not in row[name]  # "0,1,2": several partitions
        }
        devices.append(Device("gpu", integer(row["GPU_ID"]), leaves))
    if not devices:
        raise NotUnderstoodError(f"The partition table of '{TOOL}' has no rows.")
    return devices


_TITLE = regex(r"^(?P<title>[A-Z][A-Z /-]* TABLE|XGMI LINK STATUS):[ \t]*$", re.MULTILINE)
_YES_NO = {"T": True, "F": False, "C": True, "NC": False, "ENABLED": True, "DISABLED": False}


def is_matrix(text: str) -> bool:
    """Whether there are tables of ``amd-smi topology`` or ``amd-smi xgmi``."""
    return _TITLE.search(text) is not None


def _sections(text: str) -> list[tuple[str, list[tuple[int, str]]]]:
    """Each titled table with its numbered, non-empty lines."""
    sections: list[tuple[str, list[tuple[int, str]]]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if title := _TITLE.match(line):
            sections.append((title["title"], []))
        elif line.strip().rstrip(":").lower() in ("legend", "..."):
            if line.strip() == "...":
                continue
            break
        elif sections and line.strip():
            sections[-1][1].append((number, line))
    return sections


def read_matrices(text: str) -> tuple[list[Link], list[Device]]:
    """Links of all topology tables put together, and GPUs of the xGMI tables."""
    links: dict[tuple[str, str], dict[str, Any]] = {}
    devices: dict[int, Device] = {}
    for title, lines in _sections(text):
        if title == "LINK METRIC TABLE":
            _xgmi_metrics(lines, devices)
        elif title == "XGMI LINK STATUS":
            _xgmi_status(lines, devices)
        else:
            _topology_table(title, lines, links)
    found = [Link(source, target, **values) for (source, target), values in links.items()]
    if not found and not devices:
        raise NotUnderstoodError(f"The tables of '{TOOL}' have no rows.")
    return found, list(devices.values())


def _topology_table(
    title: str, lines: list[tuple[int, str]], links: dict[tuple[str, str], dict[str, Any]]
) -> None:
    read = _TABLES.get(title)
    if read is None:
        return
    if not lines:
        raise NotUnderstoodError(f"The '{title}' of '{TOOL}' has no header line.")
    targets = lines[0][1].split()
    for number, line in lines[1:]:
        source, *cells = line.split()
        if len(cells) != len(targets):
            raise not_understood(TOOL, number, line, f"{len(targets)} columns ('{title}')")
        for target, cell in zip(targets, cells, strict=True):
            link = links.setdefault((source, target), {})
            try:
                link.update(read(cell))
            except (NotUnderstoodError, KeyError):
                raise not_understood(TOOL, number, cell, f"a cell of '{title}'") from None
    if len(lines) - 1 != len(targets):
        raise NotUnderstoodError(
            f"The '{title}' of '{TOOL}' has {len(lines) - 1} rows for {len(targets)} columns."
        )


def _count(field: str) -> Callable[[str], dict[str, Any]]:
    return lambda cell: {field: None if cell == "N/A" else integer(cell)}


def _flag(field: str) -> Callable[[str], dict[str, Any]]:
    return lambda cell: {field: None if cell in ("N/A", "SELF") else _YES_NO[cell]}


def bandwidth_range(cell: str) -> dict[str, Any]:
    """``50000-100000`` (MB/s) as the least and the greatest bandwidth of a link."""
    if cell == "N/A":
        return {"min_bandwidth_mbs": None, "max_bandwidth_mbs": None}
    least, _, most = cell.partition("-")
    return {"min_bandwidth_mbs": float(integer(least)), "max_bandwidth_mbs": float(integer(most))}


_TABLES: dict[str, Callable[[str], dict[str, Any]]] = {
    "ACCESS TABLE": _flag("enabled"),
    "WEIGHT TABLE": _count("weight"),
    "HOPS TABLE": _count("hops"),
    "LINK TYPE TABLE": lambda cell: {"type": cell},
    "NUMA BW TABLE": bandwidth_range,
    "CACHE COHERANCY TABLE": _flag("coherent"),
    "CACHE COHERENCY TABLE": _flag("coherent"),
    "ATOMICS TABLE": lambda cell: {"atomics": None if cell in ("N/A", "SELF") else cell},
    "DMA TABLE": _flag("dma"),
    "BI-DIRECTIONAL TABLE": _flag("bidirectional"),
}

_XGMI_GPU = regex(
    r"GPU(?P<gpu>[0-9]{1,6})\s+(?P<bdf>\S+)\s+(?P<rate>\S+(?: G[bT]/s)?)"
    r"\s+(?P<most>\S+(?: Gb/s)?)\s+(?P<type>\S+)\s*$"
)
_TRAFFIC = regex(r"\s+(?P<way>Read|Write)\s+(?P<cells>\S.*)$")
_TRAFFIC_CELL = regex(r"\S+(?: [KMGT]?B(?=\s|$))?")
_PORTS = regex(r"GPU(?P<gpu>[0-9]{1,6})\s+(?P<bdf>\S+)\s+(?P<ports>[UDX](?:\s+[UDX])*)\s*$")


def _xgmi_metrics(lines: list[tuple[int, str]], devices: dict[int, Device]) -> None:
    header = lines[0][1].split() if lines else []
    if header[:4] != ["bdf", "bit_rate", "max_bandwidth", "link_type"]:
        raise NotUnderstoodError(f"The xGMI table of '{TOOL}' has no header line.")
    targets = header[4:]
    ways = 0
    gpus = 0
    for number, line in lines[1:]:
        if row := _XGMI_GPU.match(line):
            gpus += 1
            leaves = _device(devices, row).leaves
            leaves["link_metrics.bit_rate"] = row["rate"].replace("GT/s", "Gb/s")
            leaves["link_metrics.max_bandwidth"] = row["most"]
            leaves["link_metrics.link_type"] = row["type"]
        elif (row := _TRAFFIC.match(line)) and len(_TRAFFIC_CELL.findall(row["cells"])) == len(
            targets
        ):
            ways += 1
        else:
            raise not_understood(TOOL, number, line, "a row of the xGMI table")
    if gpus != len(targets) or ways != 2 * gpus:
        raise NotUnderstoodError(
            f"The xGMI table of '{TOOL}' has {gpus} GPUs with {ways} traffic rows "
            f"for {len(targets)} columns."
        )


def _device(devices: dict[int, Device], row: re.Match[str]) -> Device:
    device = devices.setdefault(int(row["gpu"]), Device("gpu", int(row["gpu"])))
    device.leaves["bdf"] = row["bdf"]
    return device


def _xgmi_status(lines: list[tuple[int, str]], devices: dict[int, Device]) -> None:
    found = 0
    for number, line in lines[1:]:
        if row := _PORTS.match(line):
            found += 1
            _device(devices, row).leaves["link_status"] = row["ports"].split()
        elif not line.lstrip().startswith(("*", "SOC", "U:")):
            raise not_understood(TOOL, number, line, "a GPU with its xGMI port states")
    if not found:
        raise NotUnderstoodError(f"The xGMI link status of '{TOOL}' has no rows.")


def json_links(source: str, entries: list[Any]) -> list[Link]:
    """Links of one GPU in ``topology --json``."""
    links = []
    for entry in entries:
        if not isinstance(entry, dict) or "bdf" not in entry:
            raise NotUnderstoodError(f"A link of '{source}' in '{TOOL}' has no 'bdf'.")
        read = Fields(entry)
        state = read.text("link_status", "accessible")
        links.append(
            Link(
                source_bdf=source,
                target_bdf=str(entry["bdf"]),
                type=read.text("link_type"),
                hops=read.count("num_hops", "hops"),
                weight=read.count("weight"),
                enabled=None if state is None else _YES_NO.get(state),
                **bandwidth_range(read.text("bandwidth") or "N/A"),
            )
        )
    return links
