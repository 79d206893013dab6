"""Units that set, or reset, what the role ``performance`` is about."""

from __future__ import annotations

from collections.abc import Mapping

from hfprov.baseline import Baseline
from hfprov.errors import NotUnderstoodError
from hfprov.evidence.systemd import Properties, parse
from hfprov.evidence.systemd_units import together
from hfprov.reading import Observation, Read, Result, Source, command, file

UNIT = "hfprov-performance.service"
SYSCTL_UNIT = "systemd-sysctl.service"
SWAP_TARGET = "swap.target"

_UNIT_FILE = file(f"/etc/systemd/system/{UNIT}")
UNIT_FILE: Source[Result] = Source(
    f"file of {UNIT}", lambda _: (_UNIT_FILE,), lambda seen, _: seen.one(_UNIT_FILE)
)
_PROPERTIES = "LoadState,ActiveState,UnitFileState,NeedDaemonReload,Result,DropInPaths"


def _names(baseline: Baseline) -> tuple[str, ...]:
    services = (f"{name}.service" for name in baseline.get("performance_stop_services", ()))
    return (UNIT, SYSCTL_UNIT, SWAP_TARGET, *services)


def _reads(baseline: Baseline) -> tuple[Read, ...]:
    argv = ("systemctl", "show", f"--property={_PROPERTIES}", "--", *_names(baseline))
    return (together(command(*argv)),)


def _parse(seen: Observation, baseline: Baseline) -> Mapping[str, Properties]:
    names = _names(baseline)
    found = parse(seen.text(_reads(baseline)[0]))
    if len(found) != len(names):
        raise NotUnderstoodError(f"'systemctl show' told of {len(found)} of {len(names)} units.")
    return dict(zip(names, found, strict=True))


UNITS: Source[Mapping[str, Properties]] = Source("units of performance", _reads, _parse)
"""By the name that was asked for."""
