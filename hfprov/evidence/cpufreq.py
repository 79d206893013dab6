"""CPU frequency scaling: ``/sys/devices/system/cpu/cpu*/cpufreq`` and ``cpupower`` text.

Source: the kernel's Documentation/admin-guide/pm/cpufreq.rst.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.sysfs_attributes import one_line, parse_number
from hfprov.evidence.text import excerpt

GOVERNORS = frozenset(
    {"performance", "powersave", "userspace", "ondemand", "conservative", "schedutil"}
)
"""Every governor that mainline Linux has."""


class Scaling(Struct, frozen=True):
    """The scaling of one CPU. Frequencies in GHz; None where the file is absent."""

    cpu: int
    governor: str
    driver: str | None
    min_ghz: float | None
    max_ghz: float | None
    current_ghz: float | None


def parse_governor(text: str) -> str:
    """The text of ``scaling_governor``."""
    plain = one_line(text, "scaling_governor")
    if plain not in GOVERNORS:
        raise NotUnderstoodError(f"'{excerpt(plain, 40)}' is not a governor that Linux has.")
    return plain


def parse_ghz(text: str) -> float:
    """GHz from a ``*_freq`` file, which is in kHz."""
    return parse_number(text, "A CPU frequency") / 1e6


def parse_scaling(cpu: int, files: Mapping[str, str]) -> Scaling:
    """The scaling of one CPU from the files of its ``cpufreq`` folder, by file name."""
    if "scaling_governor" not in files:
        raise NotUnderstoodError(f"CPU {cpu} has no scaling_governor.")

    def ghz(name: str) -> float | None:
        return parse_ghz(files[name]) if name in files else None

    driver = files.get("scaling_driver")
    return Scaling(
        cpu=cpu,
        governor=parse_governor(files["scaling_governor"]),
        driver=None if driver is None else one_line(driver, "scaling_driver"),
        min_ghz=ghz("scaling_min_freq"),
        max_ghz=ghz("scaling_max_freq"),
        current_ghz=ghz("scaling_cur_freq"),
    )
