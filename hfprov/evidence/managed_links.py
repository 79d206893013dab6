"""Interfaces as they are, their routes, and which services manage them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NotUnderstoodError
from hfprov.evidence import ip_link
from hfprov.evidence.ip_link import Interfaces
from hfprov.evidence.systemd import Properties
from hfprov.evidence.systemd_units import shown_units, units
from hfprov.evidence.text import clean, excerpt, json_document
from hfprov.reading import KIB, Observation, Read, Source, command, file

_LINKS = command("ip", "-j", "-d", "link", "show")
_ROUTES = tuple(
    # All tables: with several rails each often has one of its own.
    command("ip", "-j", family, "route", "show", "table", "all", limit=1024 * KIB)
    for family in ("-4", "-6")
)
_NMCLI = command("nmcli", "-t", "-f", "DEVICE,STATE", "device")
_NM_NOT_RUNNING = 8
_MAIN = "main"
"""The table that ip does not name."""
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


class Route(Struct, frozen=True):
    """One route, of any table."""

    destination: str
    devices: tuple[str, ...]
    """Of each of its hops; empty for one that leads nowhere."""
    table: str
    mtu_bytes: int | None
    """None: that of the interface."""
    kind: str = ""
    """``local`` for an address of the node's own, ``broadcast``, …; "" for a plain one."""
    metric: int = 0
    """Of routes to the same destination the one with the lowest is taken."""


@lru_cache(maxsize=4)
def parse_routes(text: str) -> tuple[Route, ...]:
    """Routes of ``ip -j route show table all``; kept, because several sources ask one by one.

    Raises NotUnderstoodError.
    """
    # Without a route some versions print nothing at all.
    document = json_document(text) if clean(text).strip() else []
    found = []
    for route in document if isinstance(document, list) else [None]:
        if not isinstance(route, dict):
            raise NotUnderstoodError("'ip route' did not list routes.")
        hops, metrics = route.get("nexthops", [route]), route.get("metrics", [])
        if not isinstance(hops, list) or not isinstance(metrics, list):
            raise NotUnderstoodError("'ip route' told of a route in an unknown form.")
        devices = [hop.get("dev") for hop in hops if isinstance(hop, dict)]
        mtus = [one.get("mtu") for one in metrics if isinstance(one, dict)]
        metric = route.get("metric")
        found.append(
            Route(
                excerpt(str(route.get("dst", "")), 60),
                tuple(one for one in devices if isinstance(one, str)),
                excerpt(str(route.get("table", _MAIN)), 40),
                next((one for one in mtus if type(one) is int), None),
                excerpt(str(route.get("type", "")), 40),
                metric if type(metric) is int else 0,
            )
        )
    return tuple(found)


def default_devices(routes: Iterable[Route]) -> frozenset[str]:
    """Names of the interfaces of the default routes of the main table."""
    return frozenset(
        name
        for route in routes
        if route.destination == "default" and route.table == _MAIN
        for name in route.devices
    )


ROUTES: Source[tuple[Route, ...]] = Source(
    "routes",
    lambda _: _ROUTES,
    lambda seen, _: tuple(one for read in _ROUTES for one in parse_routes(seen.text(read))),
)
IPV4_ROUTES: Source[tuple[Route, ...]] = Source(
    "routes of IPv4", lambda _: _ROUTES[:1], lambda seen, _: parse_routes(seen.text(_ROUTES[0]))
)
IPV6_ROUTES: Source[tuple[Route, ...]] = Source(
    "routes of IPv6", lambda _: _ROUTES[1:], lambda seen, _: parse_routes(seen.text(_ROUTES[1]))
)
DEFAULT_ROUTES: Source[frozenset[str]] = Source(
    "default routes",
    ROUTES.reads,
    lambda seen, baseline: default_devices(ROUTES.parse(seen, baseline)),
)


def _ipv6_reads(baseline: Baseline) -> tuple[Read, ...]:
    names = map(str, baseline.get("jumbo_mtu_interfaces", ()))
    found = (name for name in names if re.fullmatch(r"[\w:.@-]{1,15}", name) and name.strip("."))
    return tuple(file(f"/proc/sys/net/ipv6/conf/{name}/mtu", limit=KIB) for name in found)


def _parse_ipv6(seen: Observation, baseline: Baseline) -> Mapping[str, int]:
    found = {}
    for read in _ipv6_reads(baseline):
        if seen.exists(read):
            text = clean(seen.text(read)).strip()
            if not re.fullmatch("[0-9]{1,9}", text):
                raise NotUnderstoodError(f"'{excerpt(text)}' is no MTU of IPv6.")
            found[str(read.request["path"]).split("/")[-2]] = int(text)
    return found


IPV6_MTUS: Source[Mapping[str, int]] = Source("MTUs of IPv6", _ipv6_reads, _parse_ipv6)
"""Bytes by declared data interface; without those that have no IPv6."""


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
