"""What the kernel chose or somebody set, that slows the whole node and that no sysctl shows.

Sources: Linux, Documentation/ABI/testing/sysfs-devices-system-clocksource; admin-guide/mm/ksm.rst
and transhuge.rst; admin-guide/kernel-parameters.txt (``pcie_aspm.policy``).
"""

from __future__ import annotations

from collections.abc import Mapping

from hfprov.baseline import Baseline
from hfprov.errors import NotUnderstoodError
from hfprov.evidence.cpu_power import parse_choice
from hfprov.evidence.text import clean, excerpt
from hfprov.reading import KIB, Observation, Source, file
from hfprov.regex import regex

CLOCK_SOURCE, ASPM, DEFRAG, KSM = "clock source", "ASPM", "THP defrag", "KSM"
_FILES = {
    CLOCK_SOURCE: file(
        "/sys/devices/system/clocksource/clocksource0/current_clocksource", limit=KIB
    ),
    ASPM: file("/sys/module/pcie_aspm/parameters/policy", limit=KIB),
    DEFRAG: file("/sys/kernel/mm/transparent_hugepage/defrag", limit=KIB),
    KSM: file("/sys/kernel/mm/ksm/run", limit=KIB),
}
_CHOICES = (ASPM, DEFRAG)
_WORD = regex(r"[\w-]{1,60}")


def _parse(seen: Observation, _: Baseline) -> Mapping[str, str]:
    found = {}
    for name, read in _FILES.items():
        if not seen.exists(read):
            continue
        text = clean(seen.text(read)).strip()
        found[name] = parse_choice(text) if name in _CHOICES else text
        if not _WORD.fullmatch(found[name].replace("+", "-")):
            raise NotUnderstoodError(f"'{excerpt(text)}' of '{read}' is not one word.")
    return found


KERNEL_STATE: Source[Mapping[str, str]] = Source(
    "state of the kernel", lambda _: tuple(_FILES.values()), _parse
)
"""Values by name; what the kernel was built without is left out."""
