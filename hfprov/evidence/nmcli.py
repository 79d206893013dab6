"""NetworkManager: ``nmcli device show`` and ``nmcli connection show NAME``.

``GENERAL.MTU`` of a device is the live value; ``802-3-ethernet.mtu`` (``infiniband.mtu``, …) of a
connection is what is configured, with ``auto`` for "not set". Source: nmcli(1), nm-settings(5).
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.host_values import bad_line, natural, numbered_lines, unknown_form
from hfprov.evidence.text import clean, excerpt
from hfprov.regex import regex

_PAIR = regex(r"([A-Za-z0-9][A-Za-z0-9-]*\.[A-Za-z0-9_.\[\]-]+):\s*(.*)")
_STATE = regex(r"([0-9]{1,3}) \(?([a-z() :-]+?)\)?")
_SECRET = regex(r"psk|password|secret|private-key|wep-key")
_NOISE = regex(r"TextFileProvider\(|Warning: |\*\* \(process")


class NmDevice(Struct, frozen=True):
    """One device of ``nmcli device show``. None: ``--`` or no such line."""

    name: str
    type: str | None
    mtu_bytes: int | None
    state_number: int | None
    """100 is activated."""
    state: str | None
    connection: str | None
    carrier: bool | None
    values: Mapping[str, str]


class NmConnection(Struct, frozen=True):
    """One connection profile of ``nmcli connection show NAME``."""

    id: str
    type: str | None
    interface: str | None
    controller: str | None
    """Bond, bridge or team that it belongs to ("master" before NetworkManager 1.46)."""
    mtu_bytes: int | None
    """None: ``auto`` or 0, the profile sets none."""
    autoconnect: bool | None
    values: Mapping[str, str]


class NmcliFacts(Struct, frozen=True):
    """Devices or connections."""

    devices: tuple[NmDevice, ...]
    connections: tuple[NmConnection, ...]


def parse(text: str) -> NmcliFacts:
    """Facts from nmcli."""
    text = clean(text)
    blocks: list[dict[str, str]] = []
    for number, line in numbered_lines(text):
        plain = line.strip()
        if not plain or _NOISE.match(plain):
            continue
        match = _PAIR.fullmatch(plain)
        if match is None:
            if not blocks:
                raise unknown_form("nmcli", text, "'GENERAL.DEVICE:' or 'connection.id:'")
            raise bad_line("nmcli", number, line, "'SETTING.property: value'")
        key, value = match.group(1), match.group(2).strip()
        if key in ("GENERAL.DEVICE", "connection.id") and (not blocks or key in blocks[-1]):
            blocks.append({})
        if not blocks:
            raise bad_line("nmcli", number, line, "'GENERAL.DEVICE' or 'connection.id' first")
        if not _SECRET.search(key):
            blocks[-1].setdefault(key, value)
    devices = tuple(
        _device(block)
        for block in blocks
        if "GENERAL.DEVICE" in block and "connection.id" not in block
    )
    connections = tuple(_connection(block) for block in blocks if "connection.id" in block)
    if not devices and not connections:
        raise unknown_form("nmcli", text, "'GENERAL.DEVICE:' or 'connection.id:'")
    return NmcliFacts(devices, connections)


def _value(block: Mapping[str, str], *names: str) -> str | None:
    for name in names:
        if block.get(name, "--") not in ("--", ""):
            return block[name]
    return None


def _device(block: dict[str, str]) -> NmDevice:
    mtu = _value(block, "GENERAL.MTU")
    state = _value(block, "GENERAL.STATE")
    match = _STATE.fullmatch(state or "")
    if state is not None and match is None:
        raise NotUnderstoodError(f"'{excerpt(state, 40)}' is not a state of NetworkManager.")
    carrier = _value(block, "WIRED-PROPERTIES.CARRIER")
    if carrier not in (None, "on", "off"):
        raise NotUnderstoodError(
            f"The carrier should be on or off, but is '{excerpt(carrier, 40)}'."
        )
    return NmDevice(
        name=block["GENERAL.DEVICE"],
        type=_value(block, "GENERAL.TYPE"),
        mtu_bytes=None if mtu is None else natural(mtu, "GENERAL.MTU"),
        state_number=int(match.group(1)) if match else None,
        state=match.group(2) if match else None,
        connection=_value(block, "GENERAL.CONNECTION"),
        carrier=None if carrier is None else carrier == "on",
        values=block,
    )


def _connection(block: dict[str, str]) -> NmConnection:
    mtus = [value for key, value in block.items() if key.endswith(".mtu")]
    set_mtus = {value for value in mtus if value not in ("auto", "0", "--", "")}
    if len(set_mtus) > 1:
        raise NotUnderstoodError("The connection sets different MTUs.")
    autoconnect = _value(block, "connection.autoconnect")
    return NmConnection(
        id=block["connection.id"],
        type=_value(block, "connection.type"),
        interface=_value(block, "connection.interface-name"),
        controller=_value(block, "connection.controller", "connection.master"),
        mtu_bytes=natural(set_mtus.pop(), "The MTU of a connection") if set_mtus else None,
        autoconnect=None if autoconnect is None else autoconnect == "yes",
        values=block,
    )
