"""A healthy bare-metal machine, written by hand in the forms of the real tools, to be spoilt.

Two processors, four memory modules, two ConnectX adapters with RDMA, a management port, two NVMe
drives, a disk, one GPU, a BMC, docker and containerd.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from hfprov.baseline import Baseline, Value
from hfprov.checks.registry import Facts
from hfprov.evidence import (
    bmc_node,
    container_node,
    memory_node,
    nic_node,
    pci_devices,
    pcie_node,
    rdma_node,
    storage_node,
    system,
)
from hfprov.evidence.arp import ARP_SETTINGS, PERMANENT
from hfprov.evidence.grep import Grep, heading
from hfprov.evidence.ip_rules import IP_RULES
from hfprov.evidence.local_addresses import LOCAL_ADDRESSES
from hfprov.evidence.managed_links import LINKS
from hfprov.evidence.offload_files import OFFLOAD_LINES
from hfprov.evidence.packet_filter import PACKET_FILTER
from hfprov.evidence.unwritable import OFFLOADS
from hfprov.judge import find_check, findings_of
from hfprov.reading import Observation, Read, once
from hfprov.verdict import Finding, Outcome

NICS = {"ens1f0np0": ("0000:81:00.0", "mlx5_0"), "ens2f0np0": ("0000:c1:00.0", "mlx5_1")}
MANAGEMENT = ("eno1", "0000:02:00.0")
DRIVES = {"nvme0": "0000:41:00.0", "nvme1": "0000:42:00.0"}
GPU = "0000:91:00.0"
NOW = 1_764_446_400.0
"""2025-11-29 20:00 UTC."""


def _structure(handle: int, kind: int, title: str, fields: dict[str, str]) -> str:
    lines = [f"\t{name}: {value}" for name, value in fields.items()]
    return "\n".join([f"Handle 0x{handle:04X}, DMI type {kind}, 40 bytes", title, *lines, ""])


def dmi(*, dimms: int = 4, slots: int = 4, size: str = "32 GB", mts: str = "4800 MT/s") -> str:
    """The output of dmidecode."""
    cpus = [{"Socket Designation": f"CPU{n}", "Status": "Populated, Enabled"} for n in (0, 1)]
    bios = {"Vendor": "AMI", "Version": "2.14", "Release Date": "05/01/2025"}
    structures = [
        _structure(0, 0, "BIOS Information", bios),
        *(_structure(4 + n, 4, "Processor Information", cpu) for n, cpu in enumerate(cpus)),
    ]
    for number in range(slots):
        there = number < dimms
        values = {"Size": size, "Speed": mts, "Configured Memory Speed": mts, "Type": "DDR5"}
        values = values if there else {"Size": "No Module Installed"}
        locator = {"Locator": f"DIMM_{'AB'[number % 2]}{number // 2 + 1}"}
        structures.append(_structure(16 + number, 17, "Memory Device", values | locator))
    for number in (1, 2):
        power = {"Location": f"PSU{number}", "Status": "Present, OK", "Plugged": "Yes"}
        structures.append(_structure(64 + number, 39, "System Power Supply", power))
    structures.append(_structure(127, 127, "End Of Table", {}))
    head = (
        "# dmidecode 3.4\nGetting SMBIOS data from sysfs.\nSMBIOS 3.5.0 present.\n"
        f"{len(structures)} structures occupying 4000 bytes.\nTable at 0x000E0000.\n\n"
    )
    return head + "\n".join(structures)


def _smart_log(**changes: Any) -> str:
    log = {
        "critical_warning": 0,
        "temperature": 310,
        "avail_spare": 100,
        "spare_thresh": 10,
        "percent_used": 2,
        "media_errors": 0,
        "num_err_log_entries": 3,
        "power_on_hours": 1000,
        "unsafe_shutdowns": 4,
        "warning_temp_time": 0,
        "critical_comp_time": 0,
    }
    return json.dumps({**log, **changes})


def _settings(name: str, speed: int = 400_000) -> str:
    return (
        f"Settings for {name}:\n"
        "\tSupported ports: [ FIBRE ]\n"
        "\tSupported link modes:   100000baseCR4/Full\n"
        "\t                        400000baseCR4/Full\n"
        f"\tSpeed: {speed}Mb/s\n\tDuplex: Full\n\tAuto-negotiation: on\n\tLink detected: yes\n"
    )


STATISTICS = """NIC statistics:
     rx_packets: 100000000
     rx_packets_phy: 1000000000
     tx_packets_phy: 1000000000
     rx_crc_errors_phy: 0
     rx_symbol_err_phy: 0
     rx_discards_phy: 0
     rx_out_of_buffer: 12
     rx_steer_missed_packets: 5000000
     tx_pause_ctrl_phy: 20
     rx_err_lane_0_phy: 90000
     link_down_events_phy: 1
"""
MODULE = """	Identifier                                : 0x11 (QSFP28)
	Vendor name                               : NVIDIA
	Vendor PN                                 : MMA1Z00
	Optical diagnostics support               : Yes
	Alarm/warning flags implemented           : Yes
	Laser tx power high alarm   (Channel 1)   : Off
	Laser tx power low warning  (Channel 1)   : Off
	Module temperature high alarm             : Off
	Module temperature high alarm threshold   : 80.00 degrees C / 176.00 degrees F
"""
BOND = """Ethernet Channel Bonding Driver: v6.8.0

Bonding Mode: IEEE 802.3ad Dynamic link aggregation
Transmit Hash Policy: layer3+4 (1)
MII Status: up
MII Polling Interval (ms): 100

802.3ad info
LACP active: on
Aggregator ID: 1
Number of ports: 2
Partner Mac Address: 00:1c:73:aa:bb:cc

Slave Interface: ens1f0np0
MII Status: up
Speed: 400000 Mbps
Duplex: full
Link Failure Count: 0
Permanent HW addr: a0:88:c2:00:00:01
Aggregator ID: 1

Slave Interface: ens2f0np0
MII Status: up
Speed: 400000 Mbps
Duplex: full
Link Failure Count: 0
Permanent HW addr: a0:88:c2:00:00:02
Aggregator ID: 1
"""
SENSORS = """Inlet Temp       | 04h | ok  |  7.1 | 22 degrees C
Fan1 RPM         | 30h | ok  |  7.1 | 5400 RPM
PS1 Status       | 77h | ok  | 10.1 | Presence detected
PS2 Status       | 78h | ok  | 10.2 | Presence detected
"""
EVENTS = """   1 | 10/02/2025 | 08:00:00 | Event Logging SEL | Log area reset | Asserted
   2 | 10/02/2025 | 08:10:00 | System Boot Initiated | Initiated by power up | Asserted
"""
_SMARTCTL = {
    "smartctl": {"version": [7, 3], "exit_status": 0},
    "device": {"name": "/dev/sda"},
    "model_name": "SAMSUNG MZ7L3480",
    "smart_status": {"passed": True},
}
_CDI = {
    "cdiVersion": "0.5.0",
    "kind": "nvidia.com/gpu",
    "devices": [{"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}}],
}
_AER_TEXT = {
    "correctable": "RxErr 0\nBadTLP 0\nTOTAL_ERR_COR 0\n",
    "nonfatal": "Undefined 0\nUnsupReq 0\nCmpltTO 0\nTOTAL_ERR_NONFATAL 0\n",
    "fatal": "Undefined 0\nDLP 0\nTOTAL_ERR_FATAL 0\n",
}


def _lspci(address: str, pci_class: str, *, acs: str = "") -> str:
    express = (
        "\tCapabilities: [60] Express (v2) Endpoint, MSI 00\n"
        "\t\tDevCap:\tMaxPayload 512 bytes, PhantFunc 0\n"
        "\t\tDevCtl:\tCorrErr+ NonFatalErr+ FatalErr+ UnsupReq+\n"
        "\t\t\tMaxPayload 512 bytes, MaxReadReq 4096 bytes\n"
        "\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM not supported\n"
        "\t\tLnkSta:\tSpeed 32GT/s, Width x16\n"
    )
    control = (
        f"\tCapabilities: [220 v1] Access Control Services\n\t\tACSCtl:\t{acs}\n" if acs else ""
    )
    return f"{address} {pci_class}: 15b3:1021\n{express}{control}\n"


ACS_OFF = "SrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-"


class Machine:
    """The machine as it was observed, and as it is declared; both may be changed."""

    def __init__(self) -> None:
        self.results: dict[str, list[dict[str, Any]]] = {}
        self.values: dict[str, Any] = {"jumbo_mtu_interfaces": list(NICS)}
        self.roles: tuple[str, ...] = ("jumbo_mtu",)
        self.now = NOW
        self._system()
        self._memory()
        self._bus()
        self._network()
        self._rdma()
        self._storage()
        self._software()

    # --- building -----------------------------------------------------------------------------

    def text(self, read: Read, text: str, **changes: Any) -> None:
        """What a file or a command says."""
        result = {"name": "", "status": "ok", "text": text, "code": 0}
        self.results[read.id] = [result | changes]

    def files(self, read: Read, contents: dict[str, str]) -> None:
        """What a glob finds, or what a command says of each match."""
        self.results[read.id] = [
            {"name": name, "status": "ok", "text": text, "code": 0}
            for name, text in contents.items()
        ]

    def links(self, read: Read, targets: dict[str, str]) -> None:
        """What a listing finds, with the targets of links."""
        self.results[read.id] = [
            {"name": name, "status": "ok", "link": target} for name, target in targets.items()
        ]

    def absent(self, read: Read) -> None:
        result = {"name": "", "status": "absent", "stderr": "No such file or directory"}
        self.results[read.id] = [result]

    def _system(self) -> None:
        self.text(system.VIRTUALIZATION, "Virtualization=\n")
        self.text(system.KERNEL_RELEASE, "6.8.0-60-generic\n")
        self.text(system.BOOT_ID, "6b9f8a3c-3a1e-4a55-9c55-0a0a0a0a0a0a\n")
        self.text(system.CMDLINE, "ro quiet iommu=pt\n")
        self.text(memory_node.UPTIME, "864000.00 1.00\n")

    def _memory(self) -> None:
        self.text(memory_node.DMIDECODE, dmi())
        total = int(128 * 1024 * 1024 * 0.98)
        self.text(memory_node.MEMINFO, f"MemTotal: {total} kB\nMemFree: 1000 kB\n")
        mc = "/sys/devices/system/edac/mc/mc0"
        counts = {f"{mc}/ce_count": "0\n", f"{mc}/ue_count": "0\n"}
        dimms = {f"{mc}/dimm0/dimm_ce_count": "0\n", f"{mc}/dimm0/dimm_ue_count": "0\n"}
        labels = {f"{mc}/dimm0/dimm_label": "DIMM_A1\n"}
        for read, contents in zip(memory_node.EDAC_READS, (counts, dimms, labels), strict=True):
            self.files(read, contents)

    def _bus(self) -> None:
        classes = {address: ("20000", "15B3:1021", "mlx5_core") for address, _ in NICS.values()}
        classes[MANAGEMENT[1]] = ("20000", "8086:1521", "igb")
        classes |= dict.fromkeys(DRIVES.values(), ("10802", "144D:A80A", "nvme"))
        classes[GPU] = ("30200", "10DE:2330", "nvidia")
        ports = {self.port(address): ("60400", "8086:352A", "pcieport") for address in classes}
        everything = classes | ports
        root = "/sys/bus/pci/devices"
        self.files(
            pci_devices.UEVENT,
            {
                f"{root}/{address}/uevent": (
                    f"DRIVER={driver}\nPCI_CLASS={kind}\nPCI_ID={ids}\nPCI_SLOT_NAME={address}\n"
                )
                for address, (kind, ids, driver) in everything.items()
            },
        )
        for name, read in pci_devices.LINK_READS.items():
            value = "32.0 GT/s PCIe\n" if name.endswith("speed") else "16\n"
            self.files(read, {f"{root}/{address}/{name}": value for address in everything})
        self.files(
            pci_devices.NUMA, {f"{root}/{address}/numa_node": "0\n" for address in everything}
        )
        for name, read in pci_devices.AER_READS.items():
            self.files(read, {f"{root}/{a}/aer_dev_{name}": _AER_TEXT[name] for a in everything})
        self.links(pci_devices.VIRTUAL, {})
        nets = {f"/sys/class/net/{name}/device": address for name, (address, _) in NICS.items()}
        nets[f"/sys/class/net/{MANAGEMENT[0]}/device"] = MANAGEMENT[1]
        rdma = {f"/sys/class/infiniband/{dev}/device": address for address, dev in NICS.values()}
        drives = {f"/sys/class/nvme/{name}/device": address for name, address in DRIVES.items()}
        for read, places in (
            (pcie_node.NETS, nets),
            (pcie_node.RDMA, rdma),
            (pcie_node.DRIVES, drives),
        ):
            self.links(read, {path: self.place(address) for path, address in places.items()})
        self.files(
            pcie_node.IOMMU,
            {f"/sys/class/net/{name}/device/iommu_group/type": "identity\n" for name in NICS},
        )
        ethernet, infiniband = pcie_node.ADAPTER_DETAILS.reads(self.baseline())
        (bridges,) = pcie_node.BRIDGE_DETAILS.reads(self.baseline())
        self.text(ethernet, "".join(_lspci(address, "0200") for address, _ in NICS.values()))
        self.text(infiniband, "")
        self.text(bridges, "".join(_lspci(port, "0604", acs=ACS_OFF) for port in ports))

    @staticmethod
    def port(address: str) -> str:
        """The address of the port above a device."""
        return f"0000:{int(address[5:7], 16) - 1:02x}:01.0"

    def place(self, address: str) -> str:
        return f"/sys/devices/pci{self.port(address)[:7]}/{self.port(address)}/{address}"

    def _network(self) -> None:
        self._routes()
        self._modes()
        self.set_links({name: ["MULTICAST", "UP", "LOWER_UP"] for name in (*NICS, MANAGEMENT[0])})
        self.files(
            nic_node.SPEEDS,
            {f"/sys/class/net/{name}/speed": "400000\n" for name in NICS}
            | {"/sys/class/net/eno1/speed": "1000\n"},
        )
        self.files(nic_node.SETTINGS, {name: _settings(name) for name in NICS})
        self.files(nic_node.STATISTICS, dict.fromkeys(NICS, STATISTICS))
        self.files(nic_node.MODULE, dict.fromkeys(NICS, MODULE))
        self.links(nic_node.BONDS, {})
        heard = {
            name: {
                "chassis": {"leaf1": {"id": {"type": "mac", "value": "00:1c:73:00:00:01"}}},
                "port": {"id": {"type": "ifname", "value": f"Ethernet{n}"}, "ttl": "120"},
            }
            for n, name in enumerate(NICS)
        }
        self.text(nic_node.LLDP, json.dumps({"lldp": {"interface": heard}}))
        self.set_firmware({address: ("28.43.1014", "28.43.1014") for address, _ in NICS.values()})

    def _routes(self) -> None:
        """A network for each data interface, with the kernel's own routes."""
        routes: list[dict[str, str]] = []
        for number, name in enumerate(NICS, start=1):
            network, of_local = f"10.1.{number}", {"dev": name, "table": "local"}
            routes += [
                {"dst": f"{network}.0/24", "dev": name},
                {"type": "local", "dst": f"{network}.11", **of_local},
                {"type": "broadcast", "dst": f"{network}.255", **of_local},
            ]
        v4, v6 = LOCAL_ADDRESSES.reads(self.baseline())
        self.text(v4, json.dumps(routes))
        self.text(v6, "[]")
        (rules,) = IP_RULES.reads(self.baseline())
        tables = [(0, "local"), (32766, "main"), (32767, "default")]
        told = [{"priority": number, "src": "all", "table": name} for number, name in tables]
        self.text(rules, json.dumps(told))
        nft, older = PACKET_FILTER.reads(self.baseline())
        self.text(nft, "hfprov-tables\n")
        self.text(older, "# Generated by iptables-save\n*filter\n:INPUT ACCEPT [0:0]\nCOMMIT\n")

    def _modes(self) -> None:
        (read,) = OFFLOADS.reads(self.baseline())
        features = "rx-checksumming: on\ntx-tcp-segmentation: on\ngeneric-receive-offload: on\n"
        told = "".join(f"Features for {name}:\n{features}" for name in NICS)
        self.text(read, f"hfprov-offloads\n{told}")
        (lines,) = once((*PERMANENT.reads(self.baseline()), *OFFLOAD_LINES.reads(self.baseline())))
        assert isinstance(lines, Grep)
        self.text(lines, heading(lines))
        for one in ARP_SETTINGS.reads(self.baseline()):
            self.text(one, "0\n")

    def set_links(self, flags: dict[str, list[str]], **details: dict[str, Any]) -> None:
        """Interfaces of ``ip -d -j link`` by name with their flags; more members by name."""
        (read,) = LINKS.reads(self.baseline())
        entries = [
            {
                "ifindex": number,
                "ifname": name,
                "flags": words,
                "mtu": 9000,
                "qdisc": "mq",
                "operstate": "UP" if "LOWER_UP" in words else "DOWN",
                "link_type": "ether",
                **details.get(name, {}),
            }
            for number, (name, words) in enumerate(flags.items(), start=2)
        ]
        self.text(read, json.dumps(entries))

    def set_firmware(self, versions: dict[str, tuple[str, str]]) -> None:
        """Running and stored firmware by PCI address, as devlink tells them."""
        info = {
            f"pci/{address}": {
                "driver": "mlx5_core",
                "versions": {
                    "fixed": {"fw.psid": "MT_0000001244"},
                    "running": {"fw.version": running},
                    "stored": {"fw.version": stored},
                },
            }
            for address, (running, stored) in versions.items()
        }
        info[f"pci/{MANAGEMENT[1]}"] = {"driver": "igb", "versions": {"running": {"fw": "1.63"}}}
        self.text(nic_node.DEVLINK, json.dumps({"info": info}))

    def _rdma(self) -> None:
        values = {
            "ports/1/state": "4: ACTIVE\n",
            "ports/1/phys_state": "5: LinkUp\n",
            "ports/1/rate": "400 Gb/sec (4X NDR)\n",
            "ports/1/link_layer": "Ethernet\n",
            "fw_ver": "28.43.1014\n",
            "board_id": "MT_0000001244\n",
            "hca_type": "MT4129\n",
        }
        devices = [device for _, device in NICS.values()]
        root = "/sys/class/infiniband"
        for read in rdma_node.PORT_READS:
            what = read.request["pattern"].removeprefix(f"{root}/*/").replace("*", "1")
            self.files(read, {f"{root}/{device}/{what}": values[what] for device in devices})
        counters = {"symbol_error": "0\n", "link_downed": "1\n", "port_rcv_packets": "500000000\n"}
        self.files(
            rdma_node.PORT_COUNTERS,
            {f"{root}/{d}/ports/1/counters/{k}": v for d in devices for k, v in counters.items()},
        )
        self.files(
            rdma_node.HARDWARE_COUNTERS,
            {f"{root}/{d}/ports/1/hw_counters/out_of_sequence": "3\n" for d in devices},
        )
        self.links(
            rdma_node.INTERFACES,
            {f"{root}/{dev}/device/net/{name}": "" for name, (_, dev) in NICS.items()},
        )

    def _storage(self) -> None:
        values = {
            "model": "SAMSUNG MZQL2960\n",
            "serial": "S1\n",
            "firmware_rev": "GDC5\n",
            "state": "live\n",
            "transport": "pcie\n",
        }
        for read in storage_node.CONTROLLERS:
            what = read.request["pattern"].rsplit("/", 1)[-1]
            self.files(read, {f"/sys/class/nvme/{name}/{what}": values[what] for name in DRIVES})
        self.files(storage_node.SMART_LOG, {name: _smart_log() for name in DRIVES})
        removable, size = storage_node.DISKS
        self.files(
            removable, {"/sys/block/sda/removable": "0\n", "/sys/block/sdb/removable": "1\n"}
        )
        self.files(size, {"/sys/block/sda/size": "900000\n", "/sys/block/sdb/size": "0\n"})
        self.files(storage_node.SMART, {"sda": json.dumps(_SMARTCTL), "sdb": ""})

    def smart_log(self, name: str, **changes: Any) -> None:
        self.change(storage_node.SMART_LOG, name, _smart_log(**changes))

    def _software(self) -> None:
        self.links(bmc_node.DEVICE, {"/dev/ipmi0": ""})
        self.text(bmc_node.EVENTS, EVENTS)
        self.text(bmc_node.SENSORS, SENSORS)
        for read in container_node.RUNTIMES.reads(self.baseline()):
            name = read.request.get("pattern", "")
            self.links(read, {name: ""} if name.startswith("/usr/bin") else {})
        self.text(container_node.DAEMON_JSON, '{"features": {"cdi": true}}')
        self.text(container_node.CONFIG_TOML, "version = 3\n")
        etc, run = container_node.CDI_SPECS
        self.files(etc, {})
        self.files(run, {"/var/run/cdi/nvidia.json": json.dumps(_CDI)})

    # --- spoiling -----------------------------------------------------------------------------

    def change(self, read: Read, name: str, text: str, **changes: Any) -> None:
        """Another text for one match of a glob or a command; ``name`` may be the end of it."""
        (result,) = [one for one in self.results[read.id] if one["name"].endswith(name)]
        result.update({"text": text, **changes})

    def replace(self, read: Read, old: str, new: str) -> None:
        """Change the text of whichever results of a read have it."""
        found = [one for one in self.results[read.id] if old in one["text"]]
        assert found, f"nothing in '{read}' says '{old}'"
        for result in found:
            result["text"] = result["text"].replace(old, new)

    def remove(self, read: Read, words: str) -> None:
        """Take away what a read found of some name."""
        before = self.results[read.id]
        self.results[read.id] = [one for one in before if words not in one["name"]]
        assert len(self.results[read.id]) < len(before)

    def copy(self) -> Machine:
        twin = copy.copy(self)
        twin.results, twin.values = copy.deepcopy(self.results), copy.deepcopy(self.values)
        return twin

    # --- asking -------------------------------------------------------------------------------

    def baseline(self) -> Baseline:
        return Baseline("node", self.roles, {name: Value(v, "") for name, v in self.values.items()})

    def observation(self) -> Observation:
        return Observation.from_json({"results": self.results, "now": self.now})

    def findings(self, check_id: str) -> list[Finding]:
        """What one check finds, through the judge as in real life, without the other checks."""
        check = find_check(check_id)
        assert check is not None
        facts = Facts(self.observation(), self.baseline())
        found = findings_of(check, facts, self.baseline())
        assert found
        return found

    def bad(self, check_id: str) -> dict[str, Outcome]:
        """Outcome by subject of what does not pass."""
        findings = self.findings(check_id)
        assert len({one.subject for one in findings}) == len(findings), "subjects are not unique"
        return {one.subject: one.outcome for one in findings if one.outcome is not Outcome.PASS}

    def reads_of(self, check_id: str) -> list[str]:
        """Ids of what a check reads."""
        found = find_check(check_id)
        assert found is not None
        return list(
            dict.fromkeys(
                read.id for source in found.sources for read in source.reads(self.baseline())
            )
        )


@pytest.fixture
def machine() -> Machine:
    """A healthy machine."""
    return Machine()


@pytest.fixture
def tools() -> dict[str, Callable[..., str]]:
    """Writers of tool outputs."""
    return {"dmi": dmi}
