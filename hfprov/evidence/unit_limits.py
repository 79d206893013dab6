"""Limits that systemd holds for what it starts, by default and for named units; and RemoveIPC.

The variable ``limits_services`` names the units, without the suffix ``.service``.
"""

from __future__ import annotations

from collections.abc import Mapping

from hfprov.baseline import Baseline
from hfprov.evidence.limits import RESOURCES
from hfprov.evidence.systemd import Properties, property_of
from hfprov.evidence.systemd_units import (
    ShowUnits,
    manager,
    shown_manager,
    shown_units,
    units,
)
from hfprov.reading import Observation, Result, Source, command, glob

USER_UNIT = "user@0.service"
"""Any instance of user@.service shows what all get."""

_PARTS = tuple(f"{one.systemd}{part}" for one in RESOURCES for part in ("", "Soft"))
_DEFAULTS_READ = manager(f"DefaultLimit{part}" for part in _PARTS)
DEFAULTS: Source[Properties] = Source(
    "default limits of systemd",
    lambda _: (_DEFAULTS_READ,),
    lambda seen, _: shown_manager(seen, _DEFAULTS_READ)[0],
)


def _units_read(baseline: Baseline) -> ShowUnits:
    names = (f"{name}.service" for name in baseline.get("limits_services", ()))
    properties = ("NeedDaemonReload", "DropInPaths", *(f"Limit{part}" for part in _PARTS))
    return units(USER_UNIT, *names, properties=properties)


def _parse_units(seen: Observation, baseline: Baseline) -> Mapping[str, Properties]:
    """Units that the node has, by Id: an alias and its unit are one. A masked unit never starts."""
    _, found = shown_units(seen, _units_read(baseline))
    return {
        property_of(unit, "Id"): unit
        for unit in found.values()
        if property_of(unit, "LoadState") not in ("not-found", "masked")
    }


UNITS: Source[Mapping[str, Properties]] = Source(
    "units with limits", lambda baseline: (_units_read(baseline),), _parse_units
)


def drop_ins(name: str) -> Source[Mapping[str, Result]]:
    """Drop-ins of one name for services, by path."""
    read = glob(f"/etc/systemd/system/*.service.d/{name}")
    return Source(
        f"drop-ins {name}",
        lambda _: (read,),
        lambda seen, _: {result.name: result for result in seen.each(read)},
    )


_LOGIND = {
    "service": "org.freedesktop.login1",
    "path": "/org/freedesktop/login1",
    "interface": "org.freedesktop.login1.Manager",
}
_REMOVE_IPC = command(
    *("busctl", "get-property", *_LOGIND.values(), "RemoveIPC"),
    bus={**_LOGIND, "properties": ["RemoveIPC"]},
)
_AS_BUSCTL = {"RemoveIPC=no": "b false", "RemoveIPC=yes": "b true"}


def _parse_remove_ipc(seen: Observation, _: Baseline) -> str:
    said = seen.text(_REMOVE_IPC).strip()
    return _AS_BUSCTL.get(said, said)


REMOVE_IPC: Source[str] = Source("RemoveIPC of logind", lambda _: (_REMOVE_IPC,), _parse_remove_ipc)
