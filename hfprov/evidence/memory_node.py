"""Memory of a node: what the firmware says of its modules, what the kernel has, what went wrong."""

from __future__ import annotations

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence import dmidecode
from hfprov.evidence.dmidecode import DmidecodeFacts
from hfprov.evidence.edac import Controller, parse_edac
from hfprov.evidence.host_values import decimal
from hfprov.evidence.proc_system import MeminfoFacts, parse_meminfo
from hfprov.evidence.text import clean
from hfprov.reading import (
    Observation,
    Read,
    Source,
    command,
    complete_text,
    file,
    glob,
    text_source,
)

# The table comes from memory, not from a device: a second is long.
DMIDECODE = command("dmidecode", timeout=5, limit=1 << 20)
MEMINFO = file("/proc/meminfo", limit=16 * 1024)
UPTIME = file("/proc/uptime", limit=1024)
_EDAC = "/sys/devices/system/edac/mc/mc*"
EDAC_READS = (
    glob(f"{_EDAC}/[cu]e_*count", limit=256),
    glob(f"{_EDAC}/*[0-9]/dimm_[cu]e_count", limit=256),
    glob(f"{_EDAC}/*[0-9]/dimm_label", limit=256),
)


def _parse_table(text: str) -> DmidecodeFacts:
    facts = dmidecode.parse(text)
    if facts.complete is not True:
        raise NotUnderstoodError(
            "The firmware's table is not whole in the output of 'dmidecode'.",
            hint="Run 'dmidecode' on the node as root; a damaged table is a fault of the firmware.",
        )
    return facts


FIRMWARE_TABLE: Source[DmidecodeFacts] = text_source("firmware table", DMIDECODE, _parse_table)
MEMORY: Source[MeminfoFacts] = text_source("memory", MEMINFO, parse_meminfo)


def parse_uptime(text: str) -> float:
    """Seconds since boot, the first number of ``/proc/uptime``."""
    words = clean(text).split()
    if len(words) != 2:
        raise NotUnderstoodError("'/proc/uptime' should be two numbers.")
    return decimal(words[0], "The time since boot")


UPTIME_SECONDS: Source[float] = text_source("uptime", UPTIME, parse_uptime)


def files_of(seen: Observation, reads: tuple[Read, ...]) -> dict[str, str]:
    """Content by path of everything that globs found.

    Raises NoEvidenceError for a file that could not be read whole: a device of which half is known
    must not look healthy. A file that went away in the meantime is left out.
    """
    files: dict[str, str] = {}
    for read in reads:
        for result in seen.each(read):
            if result.status != "absent" and result.type == "file":
                files[result.name] = complete_text(read, result).strip("\n")
    return files


def _parse_errors(seen: Observation, _: Baseline) -> tuple[Controller, ...]:
    files = files_of(seen, EDAC_READS)
    if not files:
        raise NoEvidenceError(
            "The kernel counts no memory errors: no EDAC driver knows this memory controller.",
            hint="Load the EDAC driver of the platform (for instance i10nm_edac or amd64_edac).",
        )
    return parse_edac(files)


MEMORY_ERRORS: Source[tuple[Controller, ...]] = Source(
    "memory errors", lambda _: EDAC_READS, _parse_errors
)
