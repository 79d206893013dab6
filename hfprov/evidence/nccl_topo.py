"""NCCL's topology XML: which GPU and NIC sit under which PCIe switch and NUMA node.

Two kinds exist: what NCCL dumps (``NCCL_TOPO_DUMP_FILE``), with ``gpu`` and ``net`` elements, and
hand-made files for virtual machines, where only PCI classes tell what a device is.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.nvidia_smi.values import pci_address
from hfprov.evidence.text import clean
from hfprov.evidence.xml_tree import Element, xml_document
from hfprov.regex import regex

_CLASS_GPU = ("0x0302", "0x0300", "0x0380", "0x1200")
_CLASS_NIC = ("0x0200", "0x0207", "0x0280")
_SPEED = regex(r"([0-9]{1,4}(?:\.[0-9]{1,3})?) ?GT/s")


class NvlinkTo(Struct, frozen=True):
    target: str
    """PCI address of the GPU or NVSwitch at the other end."""
    count: int | None
    target_class: str = ""

    @property
    def to_switch(self) -> bool:
        return self.target_class.startswith("0x0680")


class TopoNet(Struct, frozen=True):
    """A network interface as NCCL sees it."""

    name: str
    device: int | None
    speed_mbits: int | None
    port: int | None
    guid: str = ""
    gpu_direct: bool | None = None


class TopoDevice(Struct, frozen=True):
    """A GPU or a NIC with its place."""

    kind: str
    """``gpu`` or ``nic``."""
    pci_address: str
    """Empty for a NIC that the file puts directly under a CPU."""
    numa_node: int | None
    bridges: tuple[str, ...]
    """PCI addresses of the PCIe bridges above it, the outermost first."""
    link_speed_gts: float | None = None
    link_width: int | None = None
    vendor_id: str = ""
    device_id: str = ""
    gpu_index: int | None = None
    sm: int | None = None
    gpu_direct: bool | None = None
    nvlinks: tuple[NvlinkTo, ...] = ()
    nets: tuple[TopoNet, ...] = ()


class NcclTopology(Struct, frozen=True):
    version: str
    numa_nodes: tuple[int, ...]
    gpus: tuple[TopoDevice, ...]
    nics: tuple[TopoDevice, ...]

    def distance(self, one: TopoDevice, other: TopoDevice) -> str:
        """How two devices reach each other, in the terms of ``nvidia-smi topo -m``.

        ``PIX`` at most one bridge, ``PXB`` several, ``PHB`` through the host bridge of one NUMA
        node, ``SYS`` across NUMA nodes; empty when the file does not say on which node they are.
        """
        if one.numa_node is None or other.numa_node is None:
            return ""
        if one.numa_node != other.numa_node:
            return "SYS"
        if not one.bridges or not other.bridges or one.bridges[0] != other.bridges[0]:
            return "PHB"
        return "PIX" if one.bridges == other.bridges else "PXB"

    def nearest_nics(self, gpu: TopoDevice) -> tuple[TopoDevice, ...]:
        """The NICs that share most bridges with a GPU; all of the node when none shares one."""
        shared = {nic: _shared(gpu.bridges, nic.bridges) for nic in self.nics}
        best = max(shared.values(), default=0)
        same = [nic for nic in self.nics if nic.numa_node == gpu.numa_node]
        return tuple(nic for nic in (self.nics if best else same) if shared[nic] == best)


def _shared(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


def parse(text: str) -> NcclTopology:
    """GPUs and NICs with their places.

    Raises NotUnderstoodError when the text is not well-formed, or not such a file, or names a
    device without a valid PCI address.
    """
    root = xml_document(clean(text))
    if root.tag != "system":
        raise NotUnderstoodError(f"'<system>' was expected, not '<{root.tag[:40]}>'.")
    devices: list[TopoDevice] = []
    nodes: list[int] = []
    cpus = root.all("cpu")
    for cpu in cpus:
        node = _integer(cpu.attributes.get("numaid", ""))
        if node is not None:
            nodes.append(node)
        devices.extend(_devices(cpu, node, ()))
    # A topology may have GPUs outside any CPU element when NCCL could not tell the NUMA node.
    devices.extend(_devices(root, None, ()))
    if not cpus and not devices:
        raise NotUnderstoodError("The topology has neither a '<cpu>' nor a device.")
    return NcclTopology(
        version=root.attributes.get("version", ""),
        numa_nodes=tuple(nodes),
        gpus=tuple(device for device in devices if device.kind == "gpu"),
        nics=tuple(device for device in devices if device.kind == "nic"),
    )


def _devices(parent: Element, node: int | None, bridges: tuple[str, ...]) -> Iterator[TopoDevice]:
    for pci in parent.all("pci"):
        address = pci_address(pci.attributes.get("busid", ""))
        kind = _kind(pci)
        if kind:
            yield _device(pci, kind, address, node, bridges)
        yield from _devices(pci, node, bridges if kind else (*bridges, address))
    for nic in parent.all("nic"):
        if parent.tag == "cpu" and nic.children:
            yield TopoDevice("nic", "", node, bridges, nets=_nets(nic))


def _kind(pci: Element) -> str:
    if pci.find("gpu") is not None:
        return "gpu"
    if pci.find("nic") is not None:
        return "nic"
    code = pci.attributes.get("class", "").lower()
    if code.startswith(_CLASS_GPU):
        return "gpu"
    return "nic" if code.startswith(_CLASS_NIC) else ""


def _device(
    pci: Element, kind: str, address: str, node: int | None, bridges: tuple[str, ...]
) -> TopoDevice:
    gpu = pci.find("gpu") or Element("gpu")
    nic = pci.find("nic") or Element("nic")
    speed = _SPEED.match(pci.attributes.get("link_speed", ""))
    return TopoDevice(
        kind=kind,
        pci_address=address,
        numa_node=node,
        bridges=bridges,
        link_speed_gts=float(speed.group(1)) if speed else None,
        link_width=_integer(pci.attributes.get("link_width", "")) or None,
        vendor_id=pci.attributes.get("vendor", ""),
        device_id=pci.attributes.get("device", ""),
        gpu_index=_integer(gpu.attributes.get("dev", "")),
        sm=_integer(gpu.attributes.get("sm", "")),
        gpu_direct=_flag(gpu.attributes.get("gdr", "")),
        nvlinks=tuple(
            NvlinkTo(
                pci_address(link.attributes.get("target", "")),
                _integer(link.attributes.get("count", "")),
                link.attributes.get("tclass", ""),
            )
            for link in gpu.all("nvlink")
        ),
        nets=_nets(nic),
    )


def _nets(nic: Element) -> tuple[TopoNet, ...]:
    return tuple(
        TopoNet(
            name=net.attributes.get("name", ""),
            device=_integer(net.attributes.get("dev", "")),
            speed_mbits=_integer(net.attributes.get("speed", "")),
            port=_integer(net.attributes.get("port", "")),
            guid=net.attributes.get("guid", ""),
            gpu_direct=_flag(net.attributes.get("gdr", "")),
        )
        for net in nic.all("net")
    )


def _integer(text: str) -> int | None:
    text = text.strip()
    negative = text.startswith("-")
    digits = text[1:] if negative else text
    if not (digits.isascii() and digits.isdigit()):
        return None
    return -int(digits[:18]) if negative else int(digits[:18])


def _flag(text: str) -> bool | None:
    return {"0": False, "1": True}.get(text.strip())
