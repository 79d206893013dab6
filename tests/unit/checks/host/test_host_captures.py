"""Recorded outputs of real machines get the verdicts that a senior operator would give.

The recordings lie beside the project and are not part of it; without them these tests are skipped.
Which verdicts, is data: ``tests/data/verdicts_host.yml``. Each recording takes the place of the
same evidence of the healthy machine, and passes through the judge as in real life.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from hfprov.evidence import (
    bmc_node,
    container_node,
    flint,
    ibstat,
    lspci,
    memory_node,
    mlxfwmanager,
    nic_node,
    pci_devices,
    pcie_node,
    rdma_node,
    storage_node,
    sysfs,
)
from hfprov.evidence.managed_links import LINKS

ROOT = Path(__file__).resolve().parents[4]
CAPTURES = ROOT.parent / "shared" / "captures"
TABLE: dict[str, dict[str, Any]] = yaml.safe_load(
    (ROOT / "tests" / "data" / "verdicts_host.yml").read_text("utf-8")
)
CASES = [(name, check) for name, row in TABLE.items() for check in row if check != "declare"]
NIC = "eth1"
SPEC = "/var/run/cdi/nvidia.yaml"

needs_captures = pytest.mark.skipif(
    not CAPTURES.is_dir(), reason=f"the recorded outputs are not at {CAPTURES}"
)


def only_nic(machine):
    machine.values["jumbo_mtu_interfaces"] = [NIC]
    machine.set_links({NIC: ["UP", "LOWER_UP"]})


def from_dmidecode(machine, text):
    machine.text(memory_node.DMIDECODE, text)


def from_bonding(machine, text):
    machine.files(nic_node.BONDS, {"/proc/net/bonding/bond0": text})


def rdma_files(machine, files: dict[str, str]):
    """Ports of RDMA devices, all of them of declared interfaces; no others."""
    root = "/sys/class/infiniband"
    for read in rdma_node.PORT_READS:
        pattern = re.compile(read.request["pattern"].replace("*", "[^/]+"))
        found = {path: text for path, text in files.items() if pattern.fullmatch(path)}
        machine.files(read, found)
    devices = sorted({path.split("/")[4] for path in files})
    machine.values["jumbo_mtu_interfaces"] = [f"net_{device}" for device in devices]
    machine.set_links({f"net_{device}": ["UP", "LOWER_UP"] for device in devices})
    places = {f"{root}/{device}/device/net/net_{device}": "" for device in devices}
    machine.links(rdma_node.INTERFACES, places)


STATES = {"active": "4: ACTIVE", "down": "1: DOWN", "init": "2: INIT", "armed": "3: ARMED"}
PHYSICAL = {"linkup": "5: LinkUp", "polling": "2: Polling", "disabled": "3: Disabled"}


def from_ibstat(machine, text):
    files = {}
    for adapter in ibstat.parse(text).adapters:
        place = f"/sys/class/infiniband/{adapter.name}"
        files[f"{place}/hca_type"] = adapter.type or ""
        for port in adapter.ports:
            files |= {
                f"{place}/ports/{port.number}/state": STATES[port.state],
                f"{place}/ports/{port.number}/phys_state": PHYSICAL[port.physical_state],
                f"{place}/ports/{port.number}/rate": f"{port.rate_gbps:g} Gb/sec (4X)",
                f"{place}/ports/{port.number}/link_layer": port.link_layer,
            }
    rdma_files(machine, files)


def from_sysfs(machine, text):
    files = {}
    for path, content in sysfs.parse(text).files.items():
        _, found, rest = path.partition("/infiniband/")
        if found and "/counters/" not in path:
            files[f"/sys/class/infiniband/{rest}"] = content
    rdma_files(machine, files)


def from_ethtool(machine, text):
    only_nic(machine)
    # ethtool's complaints come on standard error.
    words = {"text": "", "code": 1, "stderr": text} if text.startswith("Cannot") else {"text": text}
    for read in (nic_node.SETTINGS, nic_node.STATISTICS, nic_node.MODULE):
        machine.results[read.id] = [{"name": NIC, "status": "ok", "code": 0} | words]
    speed = re.search(r"Speed: (\d+)Mb/s", text)
    machine.files(nic_node.SPEEDS, {f"/sys/class/net/{NIC}/speed": speed[1] if speed else "-1"})


def from_ip_link(machine, text):
    machine.text(LINKS.reads(machine.baseline())[0], text)


CLASSES = {
    "Ethernet controller": 0x0200,
    "Infiniband controller": 0x0207,
    "Non-Volatile memory controller": 0x0108,
    "PCI bridge": 0x0604,
    "3D controller": 0x0302,
}


def from_lspci(machine, text):
    facts = lspci.parse(text)
    blocks = text.split("\n\n")
    secondary = {}
    for block in blocks:
        bus = re.search(r"secondary=([0-9a-f]{2})", block)
        if bus:
            secondary[f"0000:{bus[1]}"] = f"0000:{block[:7]}"
    root = "/sys/bus/pci/devices"
    uevents, places = {}, {}
    links: dict[str, dict[str, str]] = {name: {} for name in pci_devices.LINK_READS}
    for device in facts.devices:
        kind = CLASSES.get(device.class_name, 0xFF00)
        uevents[f"{root}/{device.address}/uevent"] = f"PCI_CLASS={kind:x}00\nPCI_ID=10DE:2330\n"
        above = secondary.get(device.address[:7], "")
        places[f"/sys/class/net/{device.address}/device"] = f"/sys/{above}/{device.address}"
        if device.express and device.express.capable and device.express.status:
            for which, link in (
                ("current", device.express.status),
                ("max", device.express.capable),
            ):
                path = f"{root}/{device.address}/{which}_link"
                speed = "Unknown" if link.speed_gts is None else f"{link.speed_gts} GT/s PCIe"
                links[f"{which}_link_speed"][f"{path}_speed"] = speed
                links[f"{which}_link_width"][f"{path}_width"] = str(link.width or 0)
    machine.files(pci_devices.UEVENT, uevents)
    for name, read in pci_devices.LINK_READS.items():
        machine.files(read, links[name])
    machine.links(pcie_node.NETS, places)
    machine.links(pcie_node.DRIVES, {})
    machine.links(pcie_node.RDMA, {})
    ethernet, infiniband = pcie_node.ADAPTER_DETAILS.reads(machine.baseline())
    (bridges,) = pcie_node.BRIDGE_DETAILS.reads(machine.baseline())
    for read, kinds in (
        (ethernet, ("Ethernet controller",)),
        (infiniband, ("Infiniband controller",)),
        (bridges, ("PCI bridge",)),
    ):
        mine = [block for block in blocks if any(f" {kind}" in block[:60] for kind in kinds)]
        machine.text(read, "".join(f"{block}\n\n" for block in mine))


def from_nvme(machine, text):
    machine.files(storage_node.SMART_LOG, {"nvme0": text, "nvme1": text})
    for read in storage_node.CONTROLLERS:
        machine.remove(read, "nvme1")


def from_ipmi(machine, text):
    machine.text(bmc_node.SENSORS, text)
    machine.text(bmc_node.EVENTS, text)
    machine.now = 1_712_000_000.0  # April 2024, a week after the newest of the recordings


def from_firmware(machine, text):
    """What flint tells, in the words of devlink."""
    found = mlxfwmanager.parse(text) if "Resetting" in text else flint.parse(text)
    firmware = getattr(found, "firmware", found)
    stored = firmware.stored_version
    machine.set_firmware({
        "0000:81:00.0": (firmware.running_version or stored, stored),
        "0000:c1:00.0": (stored, stored),
    })  # fmt: skip


def from_lldp(machine, text):
    machine.text(nic_node.LLDP, text)
    names = machine.values["jumbo_mtu_interfaces"]
    machine.set_links({name: ["UP", "LOWER_UP"] for name in names})


def from_containerd(machine, text):
    machine.text(container_node.CONFIG_TOML, text)


def from_cdi(machine, text):
    machine.files(container_node.CDI_SPECS[1], {SPEC: text})


ADAPT: dict[str, Callable[[Any, str], None]] = {
    "dmidecode": from_dmidecode,
    "proc-net-bonding": from_bonding,
    "ibstat": from_ibstat,
    "sysfs": from_sysfs,
    "ethtool": from_ethtool,
    "ip-link": from_ip_link,
    "lspci": from_lspci,
    "nvme-cli": from_nvme,
    "ipmi": from_ipmi,
    "flint": from_firmware,
    "mlxfwmanager": from_firmware,
    "lldp": from_lldp,
    "containerd": from_containerd,
    "cdi": from_cdi,
}


@needs_captures
@pytest.mark.parametrize(("name", "check"), CASES, ids=[f"{name}-{check}" for name, check in CASES])
def test_a_recording_gets_the_verdict_of_an_operator(machine, name, check):
    row = TABLE[name]
    machine.values.update(row.get("declare", {}))
    ADAPT[name.partition("/")[0]](machine, (CAPTURES / name).read_text("utf-8"))
    wanted = dict(row[check])
    found = {subject: outcome.value for subject, outcome in machine.bad(check).items()}
    assert found == wanted, machine.findings(check)


@needs_captures
def test_the_table_names_no_recording_twice_and_none_that_is_not_there():
    assert all((CAPTURES / name).is_file() for name in TABLE)
    text = (ROOT / "tests" / "data" / "verdicts_host.yml").read_text("utf-8")
    heads = re.findall(r"^(\S+/\S+):", text, re.MULTILINE)
    assert len(heads) == len(set(heads)) == len(TABLE)


def test_a_table_of_verdicts_knows_good_and_bad():
    outcomes = [
        set(row[check].values()) for row in TABLE.values() for check in row if check != "declare"
    ]
    assert sum(not found for found in outcomes) > 20
    assert sum("fail" in found for found in outcomes) > 12
