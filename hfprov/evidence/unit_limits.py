"""Limits that systemd holds for what it starts, by default and for named units; and RemoveIPC.

The variable ``limits_services`` names the units, without the suffix ``.service``.
"""

from __future__ import annotations

from collections.abc import Mapping

from hfprov.baseline import Baseline
from hfprov.evidence.limits import RESOURCES
from hfprov.evidence.systemd import Properties, parse, property_of
from hfprov.reading import Observation, Read, Result, Source, command, glob

USER_UNIT = "user@0.service"
"""Any instance of user@.service shows what all get."""

_DEFAULTS_READ = command(
    "systemctl",
    "show",
    "--property="
    + ",".join(f"DefaultLimit{one.systemd}{part}" for one in RESOURCES for part in ("", "Soft")),
)
DEFAULTS: Source[Properties] = Source(
    "default limits of systemd",
    lambda _: (_DEFAULTS_READ,),
    lambda seen, _: parse(seen.text(_DEFAULTS_READ))[0],
)
_UNIT_PROPERTIES = "Id,LoadState,NeedDaemonReload,DropInPaths," + ",".join(
    f"Limit{one.systemd}{part}" for one in RESOURCES for part in ("", "Soft")
)


def _unit_reads(baseline: Baseline) -> tuple[Read, ...]:
    names = (f"{name}.service" for name in baseline.get("limits_services", ()))
    return (
        command("systemctl", "show", f"--property={_UNIT_PROPERTIES}", "--", USER_UNIT, *names),
    )


def _parse_units(seen: Observation, baseline: Baseline) -> Mapping[str, Properties]:
    """Units that the node has, by Id: an alias and its unit are one. A masked unit never starts."""
    units = parse(seen.text(_unit_reads(baseline)[0]))
    return {
        property_of(unit, "Id"): unit
        for unit in units
        if property_of(unit, "LoadState") not in ("not-found", "masked")
    }


UNITS: Source[Mapping[str, Properties]] = Source("units with limits", _unit_reads, _parse_units)


def drop_ins(name: str) -> Source[Mapping[str, Result]]:
    """Drop-ins of one name for services, by path."""
    read = glob(f"/etc/systemd/system/*.service.d/{name}")
    return Source(
        f"drop-ins {name}",
        lambda _: (read,),
        lambda seen, _: {result.name: result for result in seen.each(read)},
    )


_BUSCTL = command(
    "busctl",
    "get-property",
    "org.freedesktop.login1",
    "/org/freedesktop/login1",
    "org.freedesktop.login1.Manager",
    "RemoveIPC",
)
REMOVE_IPC: Source[str] = Source(
    "RemoveIPC of logind", lambda _: (_BUSCTL,), lambda seen, _: seen.text(_BUSCTL).strip()
)
