"""What netplan's files and NetworkManager's connections give an interface at the next start.

Both keep secrets beside the MTU: netplan's are masked on the node, and of NetworkManager only what
is needed is asked for. Sources: netplan's YAML reference; nmcli(1), nm-settings(5).
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence import netplan
from hfprov.evidence.ip_link import Interface
from hfprov.evidence.netplan import NetplanInterface
from hfprov.evidence.text import clean, excerpt
from hfprov.reading import Observation, Result, Source, command, file
from hfprov.regex import regex

OURS = "/etc/netplan/90-hfprov-mtu.yaml"
MADE_BY_NETPLAN = "/run/NetworkManager/system-connections/netplan-"
_PLACES = ("/lib/netplan", "/etc/netplan", "/run/netplan")
_MASK = r"s/((password|psk|key|secret|token|pin)[A-Za-z-]*[\"']?[ \t]*:).*/\1 masked/I"
_FILES = {place: command("sed", "-E", _MASK, "{path}", each=f"{place}/*.yaml") for place in _PLACES}
_OURS = file(OURS, limit=64 * 1024)
_ACTIVE = command("nmcli", "-t", "-f", "UUID,DEVICE,FILENAME", "connection", "show", "--active")
_SETTINGS = """\
for uuid in $(nmcli -t -f UUID connection show --active); do
  echo "uuid:$uuid"
  nmcli -t -f connection.autoconnect,802-3-ethernet.mtu,infiniband.mtu,ipv4.routes,ipv6.routes \\
    connection show "$uuid"
done"""
_DETAILS = command("sh", "-c", _SETTINGS, timeout=30, needs="/usr/bin/nmcli")
_NM_NOT_RUNNING = 8
_ROUTES = ("ipv4.routes", "ipv6.routes")
_MTU = regex(r"\bmtu\s*=\s*([0-9]{1,6})\b")
"""An attribute of a route, nm-settings-nmcli(5): ``10.0.0.0/8 10.1.0.1 mtu=1500``."""


class NetplanFile(Struct, frozen=True):
    """One file, in the order in which netplan reads them."""

    path: str
    interfaces: tuple[NetplanInterface, ...]


def _parse_netplan(seen: Observation, _: Baseline) -> tuple[NetplanFile, ...]:
    by_name: dict[str, NetplanFile] = {}
    for place, read in _FILES.items():
        for result in seen.each(read):
            path = f"{place}/{result.name}"
            if not result.ok or result.code != 0 or result.truncated:
                raise NoEvidenceError(f"'{path}' could not be read whole: {result.stderr}")
            by_name[result.name] = NetplanFile(path, netplan.parse(result.text).interfaces)
    return tuple(by_name[name] for name in sorted(by_name))


NETPLAN_FILES: Source[tuple[NetplanFile, ...]] = Source(
    "netplan files", lambda _: tuple(_FILES.values()), _parse_netplan
)
NETPLAN_OURS: Source[Result] = Source(
    "netplan file of the role", lambda _: (_OURS,), lambda seen, _: seen.one(_OURS)
)


def definitions_of(
    link: Interface, files: tuple[NetplanFile, ...]
) -> Iterator[tuple[NetplanFile, NetplanInterface]]:
    """Every definition that is for an interface, in the order in which they are merged."""
    found = [(one, each) for one in files for each in one.interfaces]
    matched = {(each.kind, each.id) for _, each in found if _is_for(link, each)}
    # A file may add to a definition that another file has matched to the interface.
    yield from ((one, each) for one, each in found if (each.kind, each.id) in matched)


def _is_for(link: Interface, one: NetplanInterface) -> bool:
    addresses = {(link.hardware_address or "").lower(), (link.permanent_address or "").lower()}
    if one.set_name == link.name:
        return True
    if one.match_mac is None and one.match_name is None:
        return one.id == link.name
    by_name = any(
        fnmatch.fnmatchcase(link.name, pattern) for pattern in (one.match_name or "").split()
    )
    return by_name or (one.match_mac or "-").lower() in addresses


class Profile(Struct, frozen=True):
    """The active connection of NetworkManager on one device."""

    uuid: str
    path: str
    """Its file; one below ``/run`` is gone after a reboot, or made by netplan."""
    mtu_bytes: int | None
    """None: ``auto``, the profile sets none."""
    autoconnect: bool
    route_mtus: tuple[int, ...]
    """Bytes, of its routes that have an MTU of their own."""

    @property
    def made_by_netplan(self) -> bool:
        return self.path.startswith(MADE_BY_NETPLAN)


def _parse_profiles(seen: Observation, __: Baseline) -> Mapping[str, Profile]:
    result = seen.one(_ACTIVE)
    if result.status == "absent" or (result.ok and result.code == _NM_NOT_RUNNING):
        return {}
    details = _details(clean(seen.text(_DETAILS)))
    found = {}
    for line in clean(seen.text(_ACTIVE)).splitlines():
        uuid, _, rest = line.partition(":")
        device, colon, path = rest.replace("\\:", "\0").partition(":")
        if not colon or uuid not in details:
            raise NotUnderstoodError(f"'{excerpt(line)}' is no active connection of nmcli.")
        settings = details[uuid]
        mtu = settings.get("infiniband.mtu") or settings.get("802-3-ethernet.mtu") or "auto"
        found[device.replace("\0", ":")] = Profile(
            uuid,
            path.replace("\0", ":"),
            int(mtu) if mtu.isdecimal() and mtu.isascii() and mtu != "0" else None,
            settings.get("connection.autoconnect") == "yes",
            tuple(int(one) for key in _ROUTES for one in _MTU.findall(settings.get(key, ""))),
        )
    return found


def _details(text: str) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    settings: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name == "uuid":
            settings = found.setdefault(value, {})
        else:
            settings[name] = value
    return found


PROFILES: Source[Mapping[str, Profile]] = Source(
    "connections of NetworkManager", lambda _: (_ACTIVE, _DETAILS), _parse_profiles
)
"""By device; empty where NetworkManager is not there or does not run."""
