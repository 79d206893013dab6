"""Interfaces as they are, which of them have the default route, and which services manage them."""

from __future__ import annotations

from collections.abc import Mapping

from hfprov.baseline import Baseline
from hfprov.errors import NotUnderstoodError
from hfprov.evidence import ip_link
from hfprov.evidence.ip_link import Interfaces
from hfprov.evidence.systemd import Properties
from hfprov.evidence.systemd_units import shown_units, units
from hfprov.evidence.text import clean, json_document
from hfprov.reading import Observation, Source, command

_LINKS = command("ip", "-j", "-d", "link", "show")
_ROUTES = tuple(command("ip", "-j", family, "route", "show", "default") for family in ("-4", "-6"))
_NMCLI = command("nmcli", "-t", "-f", "DEVICE,STATE", "device")
_NM_NOT_RUNNING = 8
_UNITS = units(
    "systemd-networkd.service",
    "networking.service",
    "NetworkManager.service",
    properties=("ActiveState", "UnitFileState"),
)


def _parse_links(seen: Observation, _: Baseline) -> Interfaces:
    found = ip_link.parse(seen.text(_LINKS))
    if not isinstance(found, Interfaces) or not found.interfaces or not found.complete:
        raise NotUnderstoodError("'ip link' did not list the interfaces.")
    return found


LINKS: Source[Interfaces] = Source("interfaces", lambda _: (_LINKS,), _parse_links)


def default_devices(text: str) -> frozenset[str]:
    """Names of the interfaces of the default routes, from ``ip -j route show default``."""
    # Without a route some versions print nothing at all.
    routes = json_document(text) if clean(text).strip() else []
    found = set()
    for route in routes if isinstance(routes, list) else [None]:
        if not isinstance(route, dict):
            raise NotUnderstoodError("'ip route' did not list routes.")
        for hop in route.get("nexthops", [route]):
            if isinstance(hop, dict) and isinstance(hop.get("dev"), str):
                found.add(hop["dev"])
    return frozenset(found)


DEFAULT_ROUTES: Source[frozenset[str]] = Source(
    "default routes",
    lambda _: _ROUTES,
    lambda seen, _: frozenset(
        name for read in _ROUTES for name in default_devices(seen.text(read))
    ),
)


def _parse_nmcli(seen: Observation, _: Baseline) -> frozenset[str]:
    result = seen.one(_NMCLI)
    if result.status == "absent" or (result.ok and result.code == _NM_NOT_RUNNING):
        return frozenset()
    rows = [line.rpartition(":") for line in clean(seen.text(_NMCLI)).splitlines()]
    return frozenset(
        name.replace("\\:", ":")
        for name, _, state in rows
        if state not in ("unmanaged", "unavailable")
    )


NETWORK_MANAGER: Source[frozenset[str]] = Source(
    "interfaces of NetworkManager", lambda _: (_NMCLI,), _parse_nmcli
)


NETWORK_UNITS: Source[Mapping[str, Properties]] = Source(
    "network services", lambda _: (_UNITS,), lambda seen, _: shown_units(seen, _UNITS)[1]
)
_GUARD_UNIT = "hfprov-mtu-guard.timer"
_GUARD = units(_GUARD_UNIT, properties=("ActiveState",))
GUARD: Source[Properties] = Source(
    "guard of MTUs",
    lambda _: (_GUARD,),
    lambda seen, _: shown_units(seen, _GUARD)[1][_GUARD_UNIT],
)
"""Whether a change of an MTU waits to be confirmed."""
