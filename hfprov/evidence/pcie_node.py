"""Network adapters and drives as PCI functions: their names, the port above, what lspci adds."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence import lspci
from hfprov.evidence.lspci_facts import Form, PciDevice
from hfprov.evidence.sysfs_attributes import parse_iommu_type
from hfprov.evidence.text import clean
from hfprov.reading import Observation, Source, command, complete_text, glob, listing
from hfprov.regex import regex

NETS = listing("/sys/class/net/*/device")
RDMA = listing("/sys/class/infiniband/*/device")
DRIVES = listing("/sys/class/nvme/*/device")
IOMMU = glob("/sys/class/net/*/device/iommu_group/type", limit=64)
_ADDRESS = regex(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")

_BRIDGES, _ETHERNET, _INFINIBAND = "0604", "0200", "0207"


def _lspci(class_id: str) -> tuple[str, ...]:
    # By class, because all of a machine with a hundred bridges is a megabyte; -n spares the names.
    return ("lspci", "-D", "-n", "-vv", "-d", f"::{class_id}")


_LSPCI = {
    class_id: command(*_lspci(class_id), timeout=10, limit=2 << 20)
    for class_id in (_ETHERNET, _INFINIBAND, _BRIDGES)
}


class Endpoint(Struct, frozen=True):
    """A PCI function that a network interface, an RDMA device or a drive belongs to."""

    address: str
    names: tuple[str, ...]
    """``ens1f0np0``, ``mlx5_0``, ``nvme0``, in this order."""
    parent: str
    """Address of the port that it is plugged into; empty where it hangs on the root complex."""

    @property
    def subject(self) -> str:
        """How findings name it."""
        return f"{self.names[0]} ({self.address})"


def _parse_endpoints(seen: Observation, _: Baseline) -> Mapping[str, Endpoint]:
    names: dict[str, list[str]] = {}
    parents: dict[str, str] = {}
    for read in (NETS, RDMA, DRIVES):
        for result in seen.each(read):
            if result.status == "absent":
                continue
            if not result.ok:
                raise NoEvidenceError(f"'{result.name}' could not be read: {result.stderr}")
            parts = result.link.split("/")
            # Virtio devices and subfunctions hang below the PCI function, not on it.
            if not _ADDRESS.fullmatch(parts[-1]):
                continue
            names.setdefault(parts[-1], []).append(clean(result.name.split("/")[-2]))
            above = parts[-2] if len(parts) > 1 else ""
            parents[parts[-1]] = above if _ADDRESS.fullmatch(above) else ""
    return {
        address: Endpoint(address, tuple(found), parents[address])
        for address, found in names.items()
    }


ENDPOINTS: Source[Mapping[str, Endpoint]] = Source(
    "adapters and drives", lambda _: (NETS, RDMA, DRIVES), _parse_endpoints
)
"""By PCI address; empty where nothing is on a PCI bus."""


def parse_listing(text: str) -> tuple[PciDevice, ...]:
    """Devices of ``lspci -vv``. No output at all is no such device."""
    if not clean(text).strip():
        return ()
    facts = lspci.parse(text)
    if facts.form is not Form.VERBOSE or not facts.complete:
        raise NotUnderstoodError("The output of 'lspci -vv' is cut off, or lacks the details.")
    return facts.devices


ADAPTER_DETAILS: Source[tuple[PciDevice, ...]] = Source(
    "network adapters in lspci",
    lambda _: (_LSPCI[_ETHERNET], _LSPCI[_INFINIBAND]),
    lambda seen, _: tuple(
        device
        for class_id in (_ETHERNET, _INFINIBAND)
        for device in parse_listing(seen.text(_LSPCI[class_id]))
    ),
)
BRIDGE_DETAILS: Source[tuple[PciDevice, ...]] = Source(
    "bridges in lspci",
    lambda _: (_LSPCI[_BRIDGES],),
    lambda seen, _: parse_listing(seen.text(_LSPCI[_BRIDGES])),
)


def _parse_iommu(seen: Observation, _: Baseline) -> Mapping[str, str]:
    return {
        clean(result.name.split("/")[4]): parse_iommu_type(complete_text(IOMMU, result))
        for result in seen.each(IOMMU)
        if result.status != "absent"
    }


IOMMU_TYPES: Source[Mapping[str, str]] = Source("iommu types", lambda _: (IOMMU,), _parse_iommu)
"""Type of the IOMMU group by network interface; empty where the IOMMU is off."""
