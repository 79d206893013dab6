"""The text forms of LLDP neighbours as plain words; :mod:`hfprov.evidence.lldp` types them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.net_lines import not_understood
from hfprov.regex import regex


class Announcement(Struct):
    """Values by the keys that :mod:`hfprov.evidence.lldp` asks for; a key may have several."""

    interface: str | None = None
    values: dict[str, list[str]] = field(default_factory=dict)

    def add(self, key: str, value: str) -> None:
        if value:
            self.values.setdefault(key, []).append(value)


_TLV = {
    "Port Description TLV": "port-description",
    "System Name TLV": "chassis-name",
    "System Description TLV": "chassis-description",
    "Time to Live TLV": "ttl",
}
_END = "End of LLDPDU TLV"


def lldptool_announcement(lines: Sequence[str]) -> Announcement:
    """``lldptool -t -n``: one TLV per unindented line, its content below it."""
    said = Announcement()
    tlv = ""
    ended = False
    for line in lines:
        if line.endswith(" TLV") and not line.startswith(("\t", " ")):
            tlv = line
            ended = ended or line == _END
        elif line.strip():
            _tlv_line(said, tlv, line.strip())
    if not ended:
        raise NotUnderstoodError(f"lldptool: the output ends before '{_END}'.")
    return said


def _tlv_line(said: Announcement, tlv: str, line: str) -> None:
    if tlv in _TLV:
        if _TLV[tlv] not in said.values:
            said.add(_TLV[tlv], line)
        return
    key, _, value = (part.strip() for part in line.partition(":"))
    if tlv in ("Chassis ID TLV", "Port ID TLV"):
        which = "chassis-id" if tlv == "Chassis ID TLV" else "port-id"
        said.add(which, value)
        said.add(f"{which}-type", key.lower())
    elif tlv == "Management Address TLV" and key in ("IPv4", "IPv6"):
        said.add("management", value)
    elif key == "Enabled capabilities":
        for name in value.split(","):
            said.add("capability", name.strip())
    elif tlv == "Port VLAN ID TLV" and key == "PVID":
        said.add("pvid", value)
    elif tlv == "Maximum Frame Size TLV":
        said.add("mfs", value or key)


_KEYVALUE = regex(r"lldp\.(?P<path>[^=]+)=(?P<value>.*)")
_KEYS = {
    "chassis.name": "chassis-name",
    "chassis.descr": "chassis-description",
    "chassis.mgmt-ip": "management",
    "port.descr": "port-description",
    "port.ttl": "ttl",
    "port.mfs": "mfs",
    "vlan.vlan-id": "pvid",
    "rid": "rid",
}
_ID_TYPES = ("mac", "ifname", "local", "ip", "ifalias", "component", "port", "unhandled")
_PARTS = (".chassis.", ".port.", ".vlan.")


def keyvalue_announcements(lines: Sequence[str]) -> list[Announcement]:
    """``lldpctl -f keyvalue``: ``lldp.IFACE.chassis.mac=…``; ``rid`` begins each neighbour."""
    found: list[Announcement] = []
    for number, line in enumerate(lines, start=1):
        match = _KEYVALUE.fullmatch(line)
        if match is None:
            # A description may have several lines.
            if found:
                continue
            raise not_understood("lldpctl", number, line, "'lldp.…=…'")
        interface, key = _split(match["path"], found[-1].interface if found else None)
        if not found or found[-1].interface != interface or key == "via":
            found.append(Announcement(interface))
        _keyvalue(found[-1], key, match["value"])
    return found


def _split(path: str, current: str | None) -> tuple[str, str]:
    """Interface and key of a path; an interface (``bond0.10``) may have dots of its own.

    A key that does not begin a neighbour goes on with the ``current`` interface.
    """
    key = path.removeprefix(f"{current}.")
    if current and key not in (path, "via"):
        return current, key
    for part in _PARTS:
        interface, found, rest = path.partition(part)
        if found:
            return interface, part.strip(".") + "." + rest
    interface, _, key = path.rpartition(".")
    return interface, key


def _keyvalue(said: Announcement, key: str, value: str) -> None:
    part, _, rest = key.partition(".")
    if part in ("chassis", "port") and rest in _ID_TYPES:
        said.add(f"{part}-id", value)
        said.add(f"{part}-id-type", rest)
    elif key.startswith("chassis.") and rest.endswith(".enabled") and value == "on":
        said.add("capability", rest.removesuffix(".enabled"))
    elif key in _KEYS:
        said.add(_KEYS[key], value)


_INTERFACE = regex(r"Interface:\s+(?P<name>[^\s,]+),\s+via:.*")
_PAIR = regex(r"(?P<key>[A-Z][A-Za-z ]*):\s+(?P<value>.*)")
_TEXT_KEYS = {
    "SysName": "chassis-name",
    "SysDescr": "chassis-description",
    "MgmtIP": "management",
    "PortDescr": "port-description",
    "TTL": "ttl",
    "MFS": "mfs",
}
_CAPABILITY = regex(r"(?P<name>\S+), (?P<state>on|off)")
_VLAN = regex(r"VLAN:\s+(?P<id>[0-9]{1,4}), pvid: yes.*")


def lldpctl_announcements(lines: Sequence[str]) -> list[Announcement]:
    """``lldpctl``: blocks that begin with ``Interface:``."""
    found: list[Announcement] = []
    for line in lines:
        stripped = line.strip()
        interface = _INTERFACE.fullmatch(stripped)
        if interface is not None:
            found.append(Announcement(interface["name"]))
        elif found:
            _lldpctl_line(found[-1], stripped)
    return found


def _lldpctl_line(said: Announcement, line: str) -> None:
    vlan = _VLAN.fullmatch(line)
    pair = _PAIR.fullmatch(line)
    if vlan is not None:
        said.add("pvid", vlan["id"])
    elif pair is None:
        return
    elif pair["key"] in ("ChassisID", "PortID"):
        which = "chassis-id" if pair["key"] == "ChassisID" else "port-id"
        kind, _, value = pair["value"].partition(" ")
        said.add(which, value.strip())
        said.add(f"{which}-type", kind)
    elif pair["key"] == "Capability":
        capability = _CAPABILITY.fullmatch(pair["value"])
        if capability is not None and capability["state"] == "on":
            said.add("capability", capability["name"])
    elif pair["key"] in _TEXT_KEYS:
        said.add(_TEXT_KEYS[pair["key"]], pair["value"])
