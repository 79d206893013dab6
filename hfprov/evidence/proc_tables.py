"""``/proc/net/dev``, ``vmstat``, ``PID/numa_maps`` and ``udevadm info``."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.host_values import bad_line, numbered_lines, unknown_form
from hfprov.evidence.text import clean
from hfprov.regex import regex

_COUNTER = regex(r"([a-z][a-z0-9_]*) ([0-9]{1,20})")
_NUMBER = regex(r"[0-9]{1,20}")
_MAPPING = regex(r"([0-9a-f]{5,16}) (\S+)((?: .*)?)")
_PAGES = regex(r"N([0-9]{1,5})=([0-9]{1,18})")
_PAGE_SIZE = regex(r"kernelpagesize_kB=([0-9]{1,9})")
_HEADER = regex(r"Inter-\|[^\n]*\n\s*face \|([a-z ]+)\|([a-z ]+)(?:\n|$)")
_UDEV = regex(r"([A-Z]): ?(.*)")
_PROPERTY = regex(r"[A-Z][A-Z0-9_]*=")


class NetCounters(Struct, frozen=True):
    """Counters of one interface since it appeared. Sizes in bytes, everything else in packets."""

    receive: Mapping[str, int]
    transmit: Mapping[str, int]


class NetDevFacts(Struct, frozen=True):
    """``/proc/net/dev`` by interface; columns are named as in its header."""

    interfaces: Mapping[str, NetCounters]


class VmstatFacts(Struct, frozen=True):
    """``/proc/vmstat``; counts are in pages or events."""

    counters: Mapping[str, int]


class NumaMapsFacts(Struct, frozen=True):
    """Where the memory of a process is."""

    mappings: int
    policies: Mapping[str, int]
    """Number of mappings by memory policy: ``default``, ``bind:0-1``, …"""
    kib_by_node: Mapping[int, int]


class UdevDevice(Struct, frozen=True):
    """One device of ``udevadm info``."""

    path: str
    name: str | None
    links: tuple[str, ...]
    properties: Mapping[str, str]


class UdevFacts(Struct, frozen=True):
    """``udevadm info`` or ``udevadm info --export-db``."""

    devices: tuple[UdevDevice, ...]


def parse_net_dev(text: str) -> NetDevFacts:
    """``/proc/net/dev``. Raises NotUnderstoodError without its header, or without a row."""
    lines = [(number, line) for number, line in numbered_lines(clean(text)) if line.strip()]
    header = _HEADER.match(clean(text).lstrip())
    if header is None:
        raise unknown_form("/proc/net/dev", clean(text), "its two lines of header")
    receive, transmit = header.group(1).split(), header.group(2).split()
    interfaces: dict[str, NetCounters] = {}
    for number, line in lines[2:]:
        # Names may hold a colon (aliases of old kernels): the counters follow the last one.
        name, colon, rest = line.strip().rpartition(":")
        words = rest.split()
        if not colon or len(words) != len(receive) + len(transmit):
            raise bad_line("/proc/net/dev", number, line, "a counter for each column")
        if not all(_NUMBER.fullmatch(word) for word in words):
            raise bad_line("/proc/net/dev", number, line, "whole numbers")
        if name in interfaces:
            raise bad_line("/proc/net/dev", number, line, f"'{name}' only once")
        values = [int(word) for word in words]
        interfaces[name] = NetCounters(
            dict(zip(receive, values, strict=False)),
            dict(zip(transmit, values[len(receive) :], strict=False)),
        )
    if not interfaces:
        raise NotUnderstoodError("/proc/net/dev shows no interface, not even lo: it is cut off.")
    return NetDevFacts(interfaces)


def parse_vmstat(text: str) -> VmstatFacts:
    """``/proc/vmstat``."""
    counters: dict[str, int] = {}
    for number, line in numbered_lines(clean(text)):
        if not line.strip():
            continue
        match = _COUNTER.fullmatch(line.strip())
        if match is None:
            raise bad_line("/proc/vmstat", number, line, "'name number'")
        counters[match.group(1)] = int(match.group(2))
    if "nr_free_pages" not in counters:
        raise unknown_form("/proc/vmstat", clean(text), "'nr_free_pages'")
    return VmstatFacts(counters)


def parse_numa_maps(text: str) -> NumaMapsFacts:
    """``/proc/PID/numa_maps``, summed up by node."""
    policies: dict[str, int] = {}
    kib: dict[int, int] = {}
    count = 0
    for number, line in numbered_lines(clean(text)):
        if not line.strip():
            continue
        match = _MAPPING.fullmatch(line.strip())
        if match is None:
            raise bad_line("/proc/PID/numa_maps", number, line, "'address policy …'")
        count += 1
        policies[match.group(2)] = policies.get(match.group(2), 0) + 1
        pages = _PAGES.findall(match.group(3))
        size = _PAGE_SIZE.search(match.group(3))
        if pages and size is None:
            raise bad_line("/proc/PID/numa_maps", number, line, "the page size at its end")
        for node, amount in pages:
            size_kib = int(size.group(1)) if size else 0
            kib[int(node)] = kib.get(int(node), 0) + int(amount) * size_kib
    if not count:
        raise unknown_form("/proc/PID/numa_maps", text, "mappings")
    return NumaMapsFacts(count, policies, dict(sorted(kib.items())))


def parse_udevadm(text: str) -> UdevFacts:
    """``udevadm info``: ``P:`` begins a device, ``E:`` is a property.

    A device may end a text of its own (a serial number) with a newline: then the next property, in
    the kernel's form, stands on a line without ``E:``.
    """
    blocks: list[list[tuple[str, str]]] = []
    for number, line in numbered_lines(clean(text)):
        if not line.strip():
            continue
        match = _UDEV.fullmatch(line.strip())
        if match is None and _PROPERTY.match(line) and blocks and blocks[-1][-1][0] == "E":
            blocks[-1].append(("E", line.strip()))
            continue
        if match is None or (match.group(1) == "E" and "=" not in match.group(2)):
            raise bad_line("udevadm", number, line, "'E: KEY=value'")
        if match.group(1) == "P":
            blocks.append([])
        if not blocks:
            raise bad_line("udevadm", number, line, "the path of a device first")
        blocks[-1].append((match.group(1), match.group(2)))
    if not blocks:
        raise unknown_form("udevadm", text, "'P: /devices/…'")
    return UdevFacts(tuple(_udev_device(block) for block in blocks))


def _udev_device(block: list[tuple[str, str]]) -> UdevDevice:
    properties = [value.partition("=") for letter, value in block if letter == "E"]
    return UdevDevice(
        path=block[0][1],
        name=next((value for letter, value in block if letter == "N"), None),
        links=tuple(value for letter, value in block if letter == "S"),
        properties={key: value for key, _, value in properties},
    )
