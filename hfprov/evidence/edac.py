"""Memory errors that the kernel's EDAC drivers counted: ``/sys/devices/system/edac/mc``.

Source: the kernel's Documentation/ABI/testing/sysfs-devices-edac. No controller is no evidence:
without a driver for the memory controller nothing is counted.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.host_values import natural
from hfprov.evidence.sysfs_attributes import one_line
from hfprov.regex import regex

_COUNT = regex(r".*/mc/mc([0-9]{1,4})/([cu]e_(?:noinfo_)?count)")
_DIMM = regex(
    r".*/mc/mc([0-9]{1,4})/(?:dimm|rank)([0-9]{1,4})/"
    r"(dimm_[cu]e_count|dimm_label|dimm_location|size)"
)


class DimmErrors(Struct, frozen=True):
    """Errors of one module since the driver was loaded."""

    controller: int
    index: int
    label: str | None
    corrected: int
    uncorrected: int


class Controller(Struct, frozen=True):
    """Errors of one memory controller since the driver was loaded."""

    index: int
    corrected: int
    uncorrected: int
    corrected_elsewhere: int | None
    """Corrected errors that could not be attributed to a module."""
    uncorrected_elsewhere: int | None
    dimms: tuple[DimmErrors, ...]


def parse_edac(files: Mapping[str, str]) -> tuple[Controller, ...]:
    """Controllers from the files under ``/sys/devices/system/edac/mc``, ``{path: content}``.

    Raises NotUnderstoodError when there is no controller or one lacks its counts.
    """
    counts: dict[int, dict[str, int]] = {}
    dimms: dict[tuple[int, int], dict[str, str]] = {}
    for path, content in files.items():
        match = _COUNT.fullmatch(path)
        if match:
            value = natural(one_line(content, path), match.group(2))
            counts.setdefault(int(match.group(1)), {})[match.group(2)] = value
            continue
        match = _DIMM.fullmatch(path)
        if match:
            key = (int(match.group(1)), int(match.group(2)))
            dimms.setdefault(key, {})[match.group(3)] = one_line(content, path)
    if not counts:
        raise NotUnderstoodError(
            "There is no EDAC memory controller: memory errors are not counted.",
            hint="Load the EDAC driver of the platform (for instance i10nm_edac or amd64_edac).",
        )
    return tuple(_controller(index, counts[index], dimms) for index in sorted(counts))


def _controller(
    index: int, counts: Mapping[str, int], dimms: Mapping[tuple[int, int], Mapping[str, str]]
) -> Controller:
    for name in ("ce_count", "ue_count"):
        if name not in counts:
            raise NotUnderstoodError(f"Memory controller mc{index} has no {name}.")
    return Controller(
        index=index,
        corrected=counts["ce_count"],
        uncorrected=counts["ue_count"],
        corrected_elsewhere=counts.get("ce_noinfo_count"),
        uncorrected_elsewhere=counts.get("ue_noinfo_count"),
        dimms=tuple(_dimm(key, dimms[key]) for key in sorted(dimms) if key[0] == index),
    )


def _dimm(key: tuple[int, int], files: Mapping[str, str]) -> DimmErrors:
    for name in ("dimm_ce_count", "dimm_ue_count"):
        if name not in files:
            raise NotUnderstoodError(f"Module {key[1]} of mc{key[0]} has no {name}.")
    return DimmErrors(
        controller=key[0],
        index=key[1],
        label=files.get("dimm_label") or None,
        corrected=natural(files["dimm_ce_count"], "dimm_ce_count"),
        uncorrected=natural(files["dimm_ue_count"], "dimm_ue_count"),
    )
