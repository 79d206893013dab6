"""Versions of the drivers that are loaded, from ``/sys/module``: no process is started for it."""

from __future__ import annotations

from collections.abc import Mapping

from hfprov.baseline import Baseline
from hfprov.evidence.text import clean
from hfprov.reading import Observation, Source, glob

_VERSIONS = glob("/sys/module/*/version", limit=256, most=4096)
DRIVERS = ("nvidia", "amdgpu", "habanalabs", "drv_davinci_intf_host", "mlx5_core", "bnxt_en", "ice")
"""Drivers of accelerators and of fast network cards that tell a version."""


def _parse(seen: Observation, _: Baseline) -> Mapping[str, str]:
    found = {
        result.name.split("/")[3]: clean(result.text).strip()
        for result in seen.each(_VERSIONS)
        if result.ok
    }
    return {name: found[name] for name in DRIVERS if name in found}


LOADED_DRIVERS: Source[Mapping[str, str]] = Source("loaded drivers", lambda _: (_VERSIONS,), _parse)
"""Version by name, in the order of :data:`DRIVERS`."""
