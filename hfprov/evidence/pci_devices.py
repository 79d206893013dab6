"""Every PCI function that the kernel sees, independent of any driver: sysfs.

What is missing here is missing from the bus; what is here and not in a driver's report is a device
that its driver does not drive. Formats: Documentation/ABI/testing/sysfs-bus-pci and
sysfs-bus-pci-devices-aer_stats of the kernel.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence.pcie import Link, parse_speed, parse_width
from hfprov.evidence.text import clean, excerpt
from hfprov.reading import Observation, Read, Result, Source, complete_text, glob, listing
from hfprov.regex import regex

DEVICES = "/sys/bus/pci/devices/*"
MOST = 4096
"""Functions that are read; a node with more is not judged by what was seen of it."""

UEVENT = glob(f"{DEVICES}/uevent", limit=2048, most=MOST)
LINK_READS = {
    name: glob(f"{DEVICES}/{name}", limit=256, most=MOST)
    for name in ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")
}
NUMA = glob(f"{DEVICES}/numa_node", limit=64, most=MOST)
AER_READS = {
    name: glob(f"{DEVICES}/aer_dev_{name}", limit=4096, most=MOST)
    for name in ("correctable", "nonfatal", "fatal")
}
VIRTUAL = listing(f"{DEVICES}/physfn", most=MOST)
_ADDRESS = regex(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_ID = regex(r"[0-9A-Fa-f]{4}:[0-9A-Fa-f]{4}")


class PciDevice(Struct, frozen=True):
    """One PCI function. None: no such file, or the kernel has no value."""

    address: str
    pci_id: str
    """``10de:2330``."""
    pci_class: int
    """Class, subclass and interface: ``0x030200``."""
    driver: str = ""
    virtual: bool = False
    """A virtual function (SR-IOV)."""
    link: Link | None = None
    """None for a device without a PCIe link of its own."""
    link_max: Link | None = None
    numa_node: int | None = None
    unreadable: tuple[str, ...] = ()
    """Files whose content makes no sense, which is how a device reads that fell off the bus."""

    @property
    def kind(self) -> int:
        """Class and subclass: ``0x0302``."""
        return self.pci_class >> 8

    @property
    def vendor(self) -> str:
        return self.pci_id[:4]


class AerCounts(Struct, frozen=True):
    """Errors of one PCIe function since boot: names with their counts, zero ones left out."""

    address: str
    correctable: Mapping[str, int] = field(default_factory=dict)
    nonfatal: Mapping[str, int] = field(default_factory=dict)
    fatal: Mapping[str, int] = field(default_factory=dict)


def _by_address(seen: Observation, read: Read) -> dict[str, Result]:
    """Results by PCI address. Raises NoEvidenceError when there are more than were read."""
    results = seen.each(read)
    if len(results) >= MOST:
        raise NoEvidenceError(f"The node has {MOST} PCI functions or more; not all were read.")
    found = {}
    for result in results:
        parts = result.name.rsplit("/", 2)
        if len(parts) == 3 and _ADDRESS.fullmatch(parts[1]):
            found[parts[1]] = result
    return found


def _parse(seen: Observation, _: Baseline) -> Mapping[str, PciDevice]:
    uevents = _by_address(seen, UEVENT)
    links = {name: _by_address(seen, read) for name, read in LINK_READS.items()}
    numa, virtual = _by_address(seen, NUMA), _by_address(seen, VIRTUAL)
    found = {}
    for address, result in uevents.items():
        if not result.ok or result.truncated:
            raise NoEvidenceError(f"'{result.name}' could not be read whole: {result.stderr}")
        unreadable: list[str] = []
        now = _link(address, "current", links, unreadable)
        best = _link(address, "max", links, unreadable)
        found[address] = _device(
            address,
            parse_uevent(result.text),
            virtual=address in virtual,
            links=(now, best),
            numa_node=_numa(numa.get(address)),
            unreadable=tuple(unreadable),
        )
    return found


PCI_DEVICES: Source[Mapping[str, PciDevice]] = Source(
    "pci devices", lambda _: (UEVENT, *LINK_READS.values(), NUMA, VIRTUAL), _parse
)
"""By address. Empty on a machine without a PCI bus, which is evidence too."""


def parse_uevent(text: str) -> dict[str, str]:
    """``KEY=value`` lines of a device's uevent file. Raises NotUnderstoodError."""
    values = {}
    for line in clean(text).split("\n"):
        key, equals, value = line.partition("=")
        if equals:
            values[key] = value
    if not _ID.fullmatch(values.get("PCI_ID", "")):
        raise NotUnderstoodError(f"'{excerpt(text)}' is no uevent of a PCI device.")
    return values


def _device(
    address: str,
    values: Mapping[str, str],
    *,
    virtual: bool,
    links: tuple[Link | None, Link | None],
    numa_node: int | None,
    unreadable: tuple[str, ...],
) -> PciDevice:
    try:
        pci_class = int(values.get("PCI_CLASS", ""), 16)
    except ValueError:
        raise NotUnderstoodError(f"The class of PCI device '{address}' is not a number.") from None
    return PciDevice(
        address,
        values["PCI_ID"].lower(),
        pci_class,
        driver=values.get("DRIVER", ""),
        virtual=virtual,
        link=links[0],
        link_max=links[1],
        numa_node=numa_node,
        unreadable=unreadable,
    )


def _link(
    address: str, which: str, links: Mapping[str, Mapping[str, Result]], unreadable: list[str]
) -> Link | None:
    speed = links[f"{which}_link_speed"].get(address)
    width = links[f"{which}_link_width"].get(address)
    if speed is None or width is None or not (speed.ok and width.ok):
        return None
    if speed.truncated or width.truncated:
        unreadable.append(f"{which}_link: more text than a link has")
        return None
    try:
        return Link(parse_speed(speed.text), parse_width(width.text))
    except NotUnderstoodError as error:
        unreadable.append(f"{which}_link: {error.message}")
        return None


def _numa(result: Result | None) -> int | None:
    text = result.text.strip() if result is not None and result.ok else ""
    return int(text) if text.isdigit() and len(text) < 6 else None


def _parse_aer(seen: Observation, _: Baseline) -> Mapping[str, AerCounts]:
    """Functions with at least one counted error, by address, and how many have counters at all."""
    found: dict[str, dict[str, dict[str, int]]] = {}
    for kind, read in AER_READS.items():
        for address, result in _by_address(seen, read).items():
            if result.status == "absent":
                continue  # the device went away in the meantime
            # An unread counter must not look like a device without errors.
            counts = _aer(complete_text(read, result))
            mine = found.setdefault(address, {})
            if counts:
                mine[kind] = counts
    return {address: AerCounts(address, **kinds) for address, kinds in found.items()}


def _aer(text: str) -> dict[str, int]:
    *_, last = clean(text).rstrip().rsplit("\n", 1)
    if not last.startswith("TOTAL_"):
        raise NotUnderstoodError(f"AER counters end with '{excerpt(last)}' instead of their total.")
    # Nearly all of them are zero: the total, which ends the file, spares reading the rest.
    if last.endswith(" 0"):
        return {}
    counts = {}
    for line in clean(text).split("\n"):
        name, _, count = line.strip().rpartition(" ")
        if name and count.isdigit() and len(count) < 20 and int(count):
            counts[name] = int(count)
    totals = {name for name in counts if name.startswith("TOTAL_")}
    others = {name: count for name, count in counts.items() if name not in totals}
    return others or counts


AER: Source[Mapping[str, AerCounts]] = Source(
    "pci errors", lambda _: tuple(AER_READS.values()), _parse_aer
)
"""By address, for every function that has AER counters; empty where the kernel has no AER."""
