"""The parts of an amd-smi device that come as lists: clocks, ECC, throttling, processes, pages.

Each function reads the leaves of one device and returns None when the document does not have that
part at all.
"""

from __future__ import annotations

from typing import Any

from hfprov.errors import NotUnderstoodError
from hfprov.evidence import amd_smi_facts as facts
from hfprov.evidence.fields import Fields, integer
from hfprov.evidence.text import clean, is_missing
from hfprov.regex import regex

_BYTES = {"KB": 1024.0, "MB": 1024.0**2, "GB": 1024.0**3, "TB": 1024.0**4, "B": 1.0}
_MHZ = ("MHz", "Mhz")
_ECC_LEAF = regex(
    r"(?:ecc_blocks?\.)(?P<block>[a-z0-9_]+)\."
    r"(?P<what>correctable|uncorrectable|deferred)(?:_count)?$"
)
_BLOCK_STATE = regex(r"ras\.ecc_block_state\.(?P<block>[a-z0-9_]+)$")
_BLOCK_ENTRY = regex(r"ras\.ecc_block_state\.(?P<index>[0-9]+)\.(?P<what>block|status)$")
_TOO_MANY_PAGES = "ras.bad_page_threshold_exceeded"
_CLOCK_LEAF = regex(
    r"clocks?\.(?P<name>[a-z0-9_]+)\.(?P<what>clk|cur_clk|min_clk|max_clk|clk_locked|deep_sleep)$"
)
_VIOLATION_LEAF = regex(
    r"(?:throttle|violation)s?\.(?P<name>[a-z0-9_]+?)_"
    r"(?P<what>accumulated|violation_status|violation_activity|status|activity)"
    r"(?P<xcp>\.[a-z0-9_.]+)?$"
)


def _any(read: Fields, *prefixes: str) -> bool:
    return any(read.has(prefix) for prefix in prefixes)


def _truth(read: Fields, path: str) -> bool | None:
    text = read.text(path)
    if text is None:
        return None
    known = {"ENABLED": True, "DISABLED": False, "TRUE": True, "FALSE": False}
    truth = known.get(text.upper())
    if truth is None:
        read.error(path, text)
    return truth


def clocks(read: Fields) -> tuple[facts.Clock, ...] | None:
    if not _any(read, "clock", "clocks"):
        return None
    prefixes: dict[str, str] = {}
    for path in read.values:
        match = _CLOCK_LEAF.match(path)
        if match is not None:
            prefixes[match["name"]] = path.rpartition(".")[0]
    return tuple(
        facts.Clock(
            name=name,
            mhz=read.number(f"{prefix}.clk", f"{prefix}.cur_clk", units=_MHZ),
            min_mhz=read.number(f"{prefix}.min_clk", units=_MHZ),
            max_mhz=read.number(f"{prefix}.max_clk", units=_MHZ),
            locked=_truth(read, f"{prefix}.clk_locked"),
            deep_sleep=_truth(read, f"{prefix}.deep_sleep"),
        )
        for name, prefix in prefixes.items()
    )


def ecc(read: Fields) -> facts.Ecc | None:
    blocks = _ecc_blocks(read)
    if not blocks and not _any(read, "ecc", "ecc_blocks", "ecc_block", _TOO_MANY_PAGES):
        return None
    return facts.Ecc(
        correctable=read.count("ecc.total_correctable_count", "ecc.total_correctable"),
        uncorrectable=read.count("ecc.total_uncorrectable_count", "ecc.total_uncorrectable"),
        deferred=read.count("ecc.total_deferred_count", "ecc.total_deferred"),
        cache_correctable=read.count("ecc.cache_correctable_count"),
        cache_uncorrectable=read.count("ecc.cache_uncorrectable_count"),
        too_many_bad_pages=_truth(read, _TOO_MANY_PAGES),
        blocks=blocks,
    )


def _ecc_blocks(read: Fields) -> tuple[facts.EccBlock, ...]:
    found: dict[str, dict[str, Any]] = {}
    entries: dict[str, dict[str, str]] = {}
    for path, value in read.values.items():
        if match := _ECC_LEAF.match(path):
            found.setdefault(match["block"].upper(), {})[match["what"]] = read.count(path)
        elif match := _BLOCK_ENTRY.match(path):
            entries.setdefault(match["index"], {})[match["what"]] = str(value)
        elif match := _BLOCK_STATE.match(path):
            found.setdefault(match["block"].upper(), {})["state"] = read.text(path)
    for entry in entries.values():
        name = entry.get("block", "?").upper()
        found.setdefault(name, {})["state"] = entry.get("status")
    return tuple(facts.EccBlock(name, **values) for name, values in found.items())


def violations(read: Fields) -> tuple[facts.Violation, ...] | None:
    if not _any(read, "throttle", "violation", "violations"):
        return None
    found: dict[str, dict[str, Any]] = {}
    for path, value in read.values.items():
        match = _VIOLATION_LEAF.match(path)
        if match is None:
            continue
        values = found.setdefault(match["name"], {})
        each = _list_values(value)
        if match["what"] == "accumulated":
            _worst(values, "accumulated", [_violation_count(read, path, text) for text in each])
        elif match["what"].endswith("status"):
            _worst(values, "active", [_active(read, path, text) for text in each])
        else:
            percents = [_percent(read, path, text) for text in each]
            _worst(values, "activity_percent", percents)
    return tuple(facts.Violation(name, **values) for name, values in found.items())


def _worst(values: dict[str, Any], field: str, seen: list[Any]) -> None:
    known = [each for each in (*seen, values.get(field)) if each is not None]
    values[field] = max(known) if known else None


def _list_values(value: Any) -> list[str]:
    """The elements of a list, which human-readable output writes as ``[0 %, N/A]``."""
    if isinstance(value, list):
        return [str(_unwrapped(each)) for each in value]
    text = str(value).strip()
    if text.startswith("[") and text.endswith("]"):
        return [each.strip() for each in text[1:-1].split(",")]
    return [text]


def _unwrapped(value: Any) -> Any:
    return value.get("value") if isinstance(value, dict) else value


def _violation_count(read: Fields, path: str, text: str) -> int | None:
    if is_missing(text):
        return None
    try:
        return integer(text)
    except NotUnderstoodError:
        read.error(path, text)
        return None


def _active(read: Fields, path: str, text: str) -> bool | None:
    known = {"ACTIVE": True, "NOT ACTIVE": False, "TRUE": True, "FALSE": False}
    state = known.get(text.upper())
    if state is None and not is_missing(text):
        read.error(path, text)
    return state


def _percent(read: Fields, path: str, text: str) -> float | None:
    one = Fields({path: text})
    value = one.number(path, units=("%",))
    read.errors.extend(one.errors)
    return value


_NO_PROCESSES = "no running processes"
_PROCESS = regex(r"(?P<prefix>(?:process_list\.[0-9]+\.)?process_info(?:#[0-9]+)?)(?:\.|$)")


def processes(read: Fields) -> tuple[facts.Process, ...] | None:
    prefixes = {m["prefix"]: None for path in read.values if (m := _PROCESS.match(path))}
    if not prefixes and "process_list" not in read.values:
        return None
    found = []
    for prefix in prefixes:
        said = read.values.get(prefix)
        if said is not None:
            if is_missing(str(said)):
                return None
            if _NO_PROCESSES not in str(said).lower():
                read.error(prefix, str(said))
            continue
        name = read.raw(f"{prefix}.name", f"{prefix}.process_name")
        found.append(
            facts.Process(
                pid=read.count(f"{prefix}.pid", f"{prefix}.process_id"),
                name=None if name is None or is_missing(str(name)) else clean(str(name)),
                vram_bytes=read.scaled(
                    f"{prefix}.memory_usage.vram_mem", f"{prefix}.vram_mem", units=_BYTES
                ),
            )
        )
    return tuple(found)


def bad_pages(read: Fields) -> facts.BadPages | None:
    asked = [state for state in facts.PageState if read.has(state.value)]
    if not asked:
        return None
    pages: list[facts.BadPage] = []
    available = False
    for state in asked:
        said = read.raw(state.value)
        if said is not None and is_missing(str(said)):
            continue
        available = True
        if said is not None and "no bad pages" not in str(said).lower() and said != []:
            read.error(state.value, str(said))
        addresses = [
            path
            for path in read.values
            if path.startswith(f"{state.value}.") and "page_address" in path
        ]
        pages.extend(facts.BadPage(state, read.text(path)) for path in addresses)
    return facts.BadPages(available, tuple(pages))


_FIRMWARE = regex(r"(?P<prefix>(?:fw_list|ucode)\.(?:fw[ _])?[0-9]+)\.(?:fw_id|ucode_name)$")


def firmware(read: Fields) -> tuple[facts.Firmware, ...] | None:
    if not _any(read, "fw_list", "ucode"):
        return None
    prefixes = [m["prefix"] for path in read.values if (m := _FIRMWARE.match(path))]
    if not prefixes:
        return None
    return tuple(
        facts.Firmware(
            str(read.raw(f"{prefix}.fw_id", f"{prefix}.ucode_name")),
            read.text(f"{prefix}.fw_version", f"{prefix}.ucode_version"),
        )
        for prefix in prefixes
    )


_PORTS = {"U": facts.PortState.UP, "D": facts.PortState.DOWN, "X": facts.PortState.DISABLED}


def xgmi(read: Fields) -> facts.Xgmi | None:
    if not _any(read, "link_metrics", "link_status"):
        return None
    states = read.raw("link_status")
    ports = None
    if isinstance(states, (list, str)):
        names = states if isinstance(states, list) else states.strip("[]").replace(",", " ").split()
        ports = tuple(
            _PORTS.get(str(name).strip()[:1].upper(), facts.PortState.UNKNOWN) for name in names
        )
    return facts.Xgmi(
        bit_rate_gbit_s=read.number("link_metrics.bit_rate", units=("Gb/s",)),
        max_bandwidth_gbit_s=read.number("link_metrics.max_bandwidth", units=("Gb/s",)),
        link_type=read.text("link_metrics.link_type"),
        ports=ports,
    )
