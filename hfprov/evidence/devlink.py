"""``devlink``: firmware that runs and that is stored, health, parameters, ports.

All of it with ``-j``; ``dev info``, ``health show`` and ``dev show`` as text too. Written from the
kernel's documentation of devlink-info, the sources of iproute2, and recorded text of ``dev info``.
A stored version that differs from the running one means a pending reset.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.devlink_text import read_devices, reporters_of
from hfprov.evidence.net_lines import Node, json_value
from hfprov.evidence.text import clean
from hfprov.regex import regex

_JSON = regex(r"\s*(?:[\[{]|$)")


class DeviceInfo(Struct, frozen=True):
    """``devlink dev info`` of one device (``pci/0000:03:00.0``)."""

    device: str
    driver: str | None
    serial_number: str | None
    fixed: Mapping[str, str] = field(default_factory=dict)
    running: Mapping[str, str] = field(default_factory=dict)
    stored: Mapping[str, str] = field(default_factory=dict)

    @property
    def pending(self) -> Mapping[str, tuple[str, str]]:
        """Running and stored version of each component where the two differ."""
        return {
            name: (self.running[name], stored)
            for name, stored in self.stored.items()
            if name in self.running and self.running[name] != stored
        }


class HealthReporter(Struct, frozen=True):
    """One reporter of ``devlink health show``."""

    device: str
    reporter: str
    state: str
    """``healthy`` or ``error``."""
    errors: int
    recoveries: int


class Parameter(Struct, frozen=True):
    """One parameter of ``devlink dev param show``: values by mode (``runtime``, ``driverinit``)."""

    device: str
    name: str
    values: Mapping[str, str]


class DevlinkPort(Struct, frozen=True):
    """One port of ``devlink port show``."""

    port: str
    type: str | None
    netdev: str | None
    flavour: str | None
    """``physical``, ``pcipf``, ``pcivf``, ``virtual``, …"""
    lanes: int | None = None


class Devlink(Struct, frozen=True):
    """What one devlink command told; the other lists are None."""

    info: tuple[DeviceInfo, ...] | None = None
    health: tuple[HealthReporter, ...] | None = None
    parameters: tuple[Parameter, ...] | None = None
    ports: tuple[DevlinkPort, ...] | None = None
    devices: tuple[str, ...] | None = None


def parse(text: str) -> Devlink:
    """Facts of ``devlink -j dev [info|param show]``, ``port show`` or ``health show``.

    Raises NotUnderstoodError for anything else, the text of parameters and ports included.
    """
    if not _JSON.match(clean(text)):
        return _from_text(text)
    node = Node(json_value(text), "devlink -j")
    if node.has("info"):
        return Devlink(info=tuple(_info(*pair) for pair in node.need("info").entries()))
    if node.has("health"):
        entries = node.need("health").entries()
        return Devlink(
            health=tuple(_reporter(name, item) for name, node in entries for item in node.objects())
        )
    if node.has("param"):
        entries = node.need("param").entries()
        return Devlink(
            parameters=tuple(
                _parameter(name, item) for name, node in entries for item in node.objects()
            )
        )
    if node.has("port"):
        return Devlink(ports=tuple(_port(*pair) for pair in node.need("port").entries()))
    if node.has("dev"):
        return Devlink(devices=tuple(name for name, _ in node.need("dev").entries()))
    raise NotUnderstoodError(
        "devlink -j: the document has none of 'info', 'health', 'param', 'port', 'dev'."
    )


def _from_text(text: str) -> Devlink:
    devices = read_devices(text)
    if any(device.reporters for device in devices):
        return Devlink(
            health=tuple(
                HealthReporter(device.device, *told)
                for device in devices
                for told in reporters_of(device)
            )
        )
    if not any(device.words or device.versions for device in devices):
        return Devlink(devices=tuple(device.device for device in devices))
    return Devlink(
        info=tuple(
            DeviceInfo(
                device.device,
                device.words.get("driver"),
                device.words.get("serial_number"),
                fixed=device.versions.get("fixed", {}),
                running=device.versions.get("running", {}),
                stored=device.versions.get("stored", {}),
            )
            for device in devices
        )
    )


def _texts(node: Node | None) -> dict[str, str]:
    return {} if node is None else {key: item.as_text() for key, item in node.entries()}


def _info(device: str, node: Node) -> DeviceInfo:
    versions = node.get("versions")
    return DeviceInfo(
        device,
        node.text("driver"),
        node.text("serial_number"),
        fixed=_texts(versions.get("fixed")) if versions else {},
        running=_texts(versions.get("running")) if versions else {},
        stored=_texts(versions.get("stored")) if versions else {},
    )


def _reporter(device: str, node: Node) -> HealthReporter:
    return HealthReporter(
        device,
        node.need("reporter").as_text(),
        node.need("state").as_text(),
        errors=node.need("error").as_int(),
        recoveries=node.need("recover").as_int(),
    )


def _parameter(device: str, node: Node) -> Parameter:
    values = {
        item.need("cmode").as_text(): _word(item.need("value"))
        for item in node.need("values").objects()
    }
    return Parameter(device, node.need("name").as_text(), values)


def _word(node: Node) -> str:
    if isinstance(node.value, bool):
        return "true" if node.value else "false"
    return node.as_text()


def _port(name: str, node: Node) -> DevlinkPort:
    return DevlinkPort(
        name, node.text("type"), node.text("netdev"), node.text("flavour"), node.int("lanes")
    )
