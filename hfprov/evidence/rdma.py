"""``rdma`` of iproute2 (``link``, ``dev``, ``statistic``, ``resource``, ``system``), text and JSON.

Also ``show_counters`` (one port's hardware counters) and Huawei's ``hiroce3 gids``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.net_lines import (
    Node,
    empty,
    integer,
    json_value,
    not_understood,
    numbered,
    on_off,
    starts_like_json,
)
from hfprov.evidence.show_gids import GidTable, is_hiroce_head
from hfprov.evidence.show_gids import parse as parse_gids
from hfprov.evidence.text import excerpt
from hfprov.regex import regex


class RdmaLink(Struct, frozen=True):
    """One port of ``rdma link``; states in capitals, as printed."""

    device: str
    port: int
    state: str
    physical_state: str | None
    netdev: str | None
    lid: int | None = None
    sm_lid: int | None = None


class RdmaLinks(Struct, frozen=True):
    """``rdma link``."""

    links: tuple[RdmaLink, ...]


class RdmaDevice(Struct, frozen=True):
    """One device of ``rdma dev``."""

    name: str
    index: int | None
    node_type: str | None
    firmware_version: str | None
    node_guid: str | None
    sys_image_guid: str | None


class RdmaDevices(Struct, frozen=True):
    """``rdma dev``."""

    devices: tuple[RdmaDevice, ...]


class PortCounters(Struct, frozen=True):
    """Hardware counters of one port, by the driver's names. An absent counter is absent, not 0."""

    device: str | None
    """None for ``show_counters``, which was told it on its command line."""
    port: int
    counters: Mapping[str, int]


class RdmaStatistics(Struct, frozen=True):
    """``rdma statistic`` or ``show_counters``."""

    ports: tuple[PortCounters, ...]

    def of(self, device: str, port: int = 1) -> PortCounters | None:
        wanted = (device, port)
        return next((item for item in self.ports if (item.device, item.port) == wanted), None)


class RdmaResources(Struct, frozen=True):
    """``rdma resource``: one mapping of names to printed values for each resource."""

    entries: tuple[Mapping[str, str], ...]


class RdmaSystem(Struct, frozen=True):
    """``rdma system``. ``netns`` is ``shared`` or ``exclusive``."""

    netns: str
    copy_on_fork: bool | None = None


Facts = RdmaLinks | RdmaDevices | RdmaStatistics | RdmaResources | RdmaSystem | GidTable

_LINK = regex(r"(?:link|[0-9]+/[0-9]+:) (?P<device>[^\s/]+)/(?P<port>[0-9]{1,3}):? (?P<rest>.*)")
_DEVICE = regex(r"(?P<index>[0-9]{1,6}): (?P<name>\S+): (?P<rest>.*)")
_RESOURCE = regex(r"(?:ifindex|dev|link) .*")
_SYSTEM = regex(r"netns \S+(?: .*)?")
_COUNTERS_HEAD = regex(r"Port (?P<port>[0-9]{1,3}) (?:hw )?counters:")
_RESOURCE_KEYS = ("lqpn", "cqn", "mrn", "pdn", "cm-idn", "ctxn", "srqn", "qp", "cq", "mr")
_CM_HEAD = regex(r"Port [0-9]{1,3} cm counters:")
_LABELS = frozenset({"cntn", "qp-type", "pid", "comm"})
"""What ``rdma statistic qp`` says of a counter, beside its values."""
_COUNTER = regex(r"(?P<name>[A-Za-z]\w*): (?P<value>[0-9]{1,20})")


def parse(text: str) -> Facts:
    """Facts of one of the forms. Raises NotUnderstoodError."""
    if starts_like_json(text):
        return _from_json(text)
    lines = [
        (number, line.strip())
        for number, line in numbered(text)
        # -d adds 'caps: <…>' and the queue pairs of a counter on lines of their own.
        if not line.startswith((" ", "\t"))
    ]
    if not lines:
        raise empty("rdma")
    first = lines[0][1]
    if is_hiroce_head(first):
        return parse_gids(text)
    for pattern, read in _FORMS:
        if pattern.fullmatch(first):
            return read(lines)
    raise NotUnderstoodError(f"rdma: '{excerpt(first)}' begins no form that is known.")


def _system(lines: list[tuple[int, str]]) -> RdmaSystem:
    words = _words(*lines[0])
    fork = words.get("copy-on-fork")
    return RdmaSystem(words["netns"], None if fork is None else on_off(fork, "rdma system"))


def _resources(lines: list[tuple[int, str]]) -> RdmaResources:
    return RdmaResources(tuple(_words(number, line) for number, line in lines))


def _words(number: int, line: str) -> dict[str, str]:
    """``name value`` pairs; a name without a value means that the line was cut."""
    # The name of a process comes last, and may have spaces of its own.
    line, has_process, process = line.partition(" comm ")
    words = line.split()
    if len(words) % 2:
        raise not_understood("rdma", number, line, f"whole: '{words[-1][:40]}' has no value")
    found = dict(zip(words[::2], words[1::2], strict=True))
    return {**found, "comm": process.strip()} if has_process else found


def _links(lines: list[tuple[int, str]]) -> Facts:
    links: list[RdmaLink] = []
    ports: list[PortCounters] = []
    resources: list[Mapping[str, str]] = []
    for number, line in lines:
        match = _LINK.fullmatch(line)
        if match is None:
            raise not_understood("rdma", number, line, "'link DEVICE/PORT …'")
        words = _words(number, match["rest"])
        device, port = match["device"], int(match["port"])
        if "state" in words and "lqpn" not in words:
            links.append(_link(device, port, words, f"rdma link: line {number}"))
        elif any(value.isdecimal() for value in words.values()) and "lqpn" not in words:
            counters = {
                key: integer(value, f"rdma: '{key}'")
                for key, value in words.items()
                if key not in _LABELS
            }
            ports.append(PortCounters(device, port, counters))
        else:
            resources.append({"link": f"{device}/{port}", **words})
    if bool(links) + bool(ports) + bool(resources) != 1:
        raise NotUnderstoodError("rdma: links, counters and resources are mixed in one output.")
    if links:
        return RdmaLinks(tuple(links))
    return RdmaStatistics(tuple(ports)) if ports else RdmaResources(tuple(resources))


def _link(device: str, port: int, words: Mapping[str, str], what: str) -> RdmaLink:
    if "physical_state" not in words:
        raise NotUnderstoodError(f"{what} ends before its 'physical_state'.")
    lids = [words.get("lid"), words.get("sm_lid")]
    lid, sm_lid = (None if value is None else integer(value, what) for value in lids)
    return RdmaLink(
        device, port, words["state"], words["physical_state"], words.get("netdev"), lid, sm_lid
    )


def _devices(lines: list[tuple[int, str]]) -> RdmaDevices | RdmaResources:
    devices: list[RdmaDevice] = []
    resources: list[Mapping[str, str]] = []
    for number, line in lines:
        match = _DEVICE.fullmatch(line)
        if match is None:
            raise not_understood("rdma", number, line, "'INDEX: DEVICE: …'")
        words = _words(number, match["rest"])
        if "node_type" not in words:
            # 'rdma resource' without an object: how many of each kind.
            resources.append({"ifname": match["name"], **words})
            continue
        devices.append(
            RdmaDevice(
                match["name"],
                int(match["index"]),
                words["node_type"],
                words.get("fw"),
                words.get("node_guid"),
                words.get("sys_image_guid"),
            )
        )
    if devices and resources:
        raise NotUnderstoodError("rdma dev: a device ends before its 'node_type'.")
    return RdmaDevices(tuple(devices)) if devices else RdmaResources(tuple(resources))


def _shown_counters(lines: list[tuple[int, str]]) -> RdmaStatistics:
    ports: list[PortCounters] = []
    counters: dict[str, int] = {}
    skipping = False
    for number, line in lines:
        head = _COUNTERS_HEAD.fullmatch(line)
        match = _COUNTER.fullmatch(line)
        if _CM_HEAD.fullmatch(line):
            # Counters of connection managers use the same names for sent, received and repeated.
            skipping = True
        elif head is not None:
            skipping = False
            counters = {}
            ports.append(PortCounters(None, int(head["port"]), counters))
        elif match is not None:
            if not skipping:
                counters[match["name"]] = int(match["value"])
        else:
            raise not_understood("show_counters", number, line, "'counter: number'")
    if not all(port.counters for port in ports):
        raise NotUnderstoodError("show_counters: there is no counter below the heading.")
    return RdmaStatistics(tuple(ports))


_FORMS: tuple[tuple[re.Pattern[str], Callable[[list[tuple[int, str]]], Facts]], ...] = (
    (_COUNTERS_HEAD, _shown_counters),
    (_SYSTEM, _system),
    (_LINK, _links),
    (_DEVICE, _devices),
    (_RESOURCE, _resources),
)


def _from_json(text: str) -> Facts:
    document = Node(json_value(text), "rdma -j")
    nodes = [node for node in document.objects() if node.members]
    if not nodes:
        return RdmaLinks(())
    first = nodes[0]
    if first.has("netns"):
        return RdmaSystem(first.need("netns").as_text(), first.bool("copy-on-fork"))
    if first.has("state") and first.has("port") and not first.has("lqpn"):
        return RdmaLinks(tuple(_json_link(node) for node in nodes))
    if first.has("node_type") or first.has("node_guid"):
        return RdmaDevices(tuple(_json_device(node) for node in nodes))
    others = [key for key in first.members if key not in ("ifindex", "ifname", "port")]
    if first.has("port") and all(isinstance(first.members[key], int) for key in others):
        return RdmaStatistics(tuple(_json_counters(node) for node in nodes))
    if not any(first.has(key) for key in _RESOURCE_KEYS):
        raise NotUnderstoodError(
            f"rdma -j: no form has the keys '{', '.join(list(first.members)[:8])[:200]}'."
        )
    return RdmaResources(
        tuple({key: str(value)[:200] for key, value in node.members.items()} for node in nodes)
    )


def _json_link(node: Node) -> RdmaLink:
    return RdmaLink(
        node.need("ifname").as_text(),
        node.need("port").as_int(),
        node.need("state").as_text(),
        node.text("physical_state"),
        node.text("netdev"),
        node.int("lid"),
        node.int("sm_lid"),
    )


def _json_device(node: Node) -> RdmaDevice:
    return RdmaDevice(
        node.need("ifname").as_text(),
        node.int("ifindex"),
        node.text("node_type"),
        node.text("fw"),
        node.text("node_guid"),
        node.text("sys_image_guid"),
    )


def _json_counters(node: Node) -> PortCounters:
    counters = {
        key: item.as_int()
        for key, item in node.entries()
        if key not in ("ifindex", "ifname", "port")
    }
    return PortCounters(node.need("ifname").as_text(), node.need("port").as_int(), counters)
