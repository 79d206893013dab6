"""Each thing that goes wrong with a host is found, for the right subject, and never cut away."""

# ruff: noqa: E501 - one row for each fault

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hfprov.evidence import (
    bmc_node,
    container_node,
    memory_node,
    nic_node,
    pci_devices,
    pcie_node,
    rdma_node,
    storage_node,
)
from hfprov.verdict import Outcome, worst

PASS, WARN, FAIL, UNKNOWN = Outcome.PASS, Outcome.WARN, Outcome.FAIL, Outcome.UNKNOWN
NIC, ADDRESS = "ens1f0np0", "0000:81:00.0"
PORT = "0000:80:01.0"
SUBJECT = f"{NIC} ({ADDRESS})"
WIDTH, SPEED = (pci_devices.LINK_READS[f"current_link_{what}"] for what in ("width", "speed"))
MAX_WIDTH = pci_devices.LINK_READS["max_link_width"]
CE_COUNT, DIMM_COUNT, _ = memory_node.EDAC_READS
STATE, PHYSICAL, RATE = rdma_node.PORT_READS[:3]
DRIVE_STATE = storage_node.CONTROLLERS[3]
FIRMWARE_REV = storage_node.CONTROLLERS[2]


def dimm_error(kind, count):
    return lambda m, _: m.change(DIMM_COUNT, f"dimm_{kind}_count", f"{count}\n")


def aer(kind, text, where=f"{ADDRESS}/"):
    read = pci_devices.AER_READS[kind]
    return lambda m, _: m.change(read, f"{where}aer_dev_{kind}", text)


def log(**changes):
    return lambda m, _: m.smart_log("nvme1", **changes)


def disk(**changes):
    document = {
        "smartctl": {"version": [7, 3], "exit_status": 0},
        "smart_status": {"passed": True},
        **changes,
    }
    return lambda m, _: m.change(storage_node.SMART, "sda", json.dumps(document))


def pending_sectors(count):
    table = {"table": [{"id": 197, "name": "Current_Pending_Sector", "raw": {"value": count}}]}
    return disk(ata_smart_attributes=table)


def replace(read, old, new):
    return lambda m, _: m.replace(read, old, new)


def change(read, name, text, **changes):
    return lambda m, _: m.change(read, name, text, **changes)


def declare(**values):
    return lambda m, _: m.values.update(values)


def flags(*words, **details):
    up = ["BROADCAST", "UP", "LOWER_UP"]

    def spoil(machine, _):
        machine.set_links({NIC: list(words), "ens2f0np0": up}, **{NIC: details})

    return spoil


def bond(text):
    return lambda m, _: m.files(nic_node.BONDS, {"/proc/net/bonding/bond0": text})


BOND_DOWN = """Ethernet Channel Bonding Driver: v6.8.0

Bonding Mode: fault-tolerance (active-backup)
Currently Active Slave: ens1f0np0
MII Status: up

Slave Interface: ens1f0np0
MII Status: up
Speed: 400000 Mbps
Duplex: full
Permanent HW addr: a0:88:c2:00:00:01

Slave Interface: ens2f0np0
MII Status: down
Speed: Unknown
Duplex: Unknown
Permanent HW addr: a0:88:c2:00:00:02
"""
EVENT = "   3 | 11/28/2025 | 09:00:00 | Memory DIMM_A1 | Uncorrectable ECC | Asserted\n"
OLD_EVENT = EVENT.replace("11/28/2025", "01/02/2024")
OVER = EVENT + EVENT.replace("   3 ", "   4 ").replace("Asserted", "Deasserted")
PROBLEM = "Memory DIMM_A1: Uncorrectable ECC"


def events(text):
    return lambda m, _: m.text(bmc_node.EVENTS, text)


def sensors(text):
    return lambda m, _: m.text(bmc_node.SENSORS, text)


def dmidecode(**shape):
    return lambda m, tools: m.text(memory_node.DMIDECODE, tools["dmi"](**shape))


FAULTS = [
    # --- memory
    ("memory.modules", dmidecode(dimms=3), {"": WARN}),
    ("memory.modules", dmidecode(dimms=7, slots=8), {"": WARN}),
    ("memory.modules", replace(memory_node.DMIDECODE, "32 GB\n\tSpeed: 4800 MT/s\n\tConfigured Memory Speed: 4800 MT/s\n\tType: DDR5\n\tLocator: DIMM_A1", "Unknown\n\tLocator: DIMM_A1"), {"DIMM_A1": FAIL}),
    ("memory.alike", replace(memory_node.DMIDECODE, "32 GB\n\tSpeed: 4800 MT/s\n\tConfigured Memory Speed: 4800 MT/s\n\tType: DDR5\n\tLocator: DIMM_A2", "16 GB\n\tSpeed: 4800 MT/s\n\tConfigured Memory Speed: 4800 MT/s\n\tType: DDR5\n\tLocator: DIMM_A2"), {"": WARN}),
    ("memory.speed", replace(memory_node.DMIDECODE, "Configured Memory Speed: 4800", "Configured Memory Speed: 3600"), {"": WARN}),
    ("memory.speed", replace(memory_node.DMIDECODE, "Configured Memory Speed: 4800 MT/s\n\tType: DDR5\n\tLocator: DIMM_B1", "Configured Memory Speed: 4000 MT/s\n\tType: DDR5\n\tLocator: DIMM_B1"), {"DIMM_B1": FAIL}),
    ("memory.speed", declare(node_memory_mts=5600), {f"DIMM_{name}": FAIL for name in ("A1", "A2", "B1", "B2")}),
    ("memory.speed", replace(memory_node.DMIDECODE, "Configured Memory Speed: 4800", "Configured Memory Speed: Unknown"), {"": UNKNOWN}),
    ("memory.total", replace(memory_node.MEMINFO, "MemTotal: 131533373", "MemTotal: 100000000"), {"": FAIL}),
    ("memory.total", replace(memory_node.MEMINFO, "MemTotal: 131533373", "MemTotal: 124000000"), {"": WARN}),
    ("memory.total", declare(node_memory_gib=256), {"": FAIL}),
    ("memory.total", declare(node_memory_gib="plenty"), {"": UNKNOWN}),
    ("memory.errors", dimm_error("ue", 1), {"mc0 DIMM_A1": FAIL}),
    ("memory.errors", dimm_error("ce", 5000), {"mc0 DIMM_A1": WARN}),
    ("memory.errors", change(CE_COUNT, "ue_count", "2\n"), {"mc0": FAIL}),
    ("memory.errors", lambda m, _: [m.files(read, {}) for read in memory_node.EDAC_READS], {"": UNKNOWN}),
    # --- storage
    ("storage.nvme", declare(node_nvme=4), {"": FAIL}),
    ("storage.nvme", change(DRIVE_STATE, "nvme0/state", "dead\n"), {"nvme0": FAIL}),
    ("storage.nvme", change(FIRMWARE_REV, "nvme0/firmware_rev", "GDC9\n"), {"nvme0 firmware": WARN, "nvme1 firmware": WARN}),
    ("storage.health", log(critical_warning=4), {"nvme1": FAIL}),
    ("storage.health", log(critical_warning={"value": 8, "ro": 1}), {"nvme1": FAIL}),
    ("storage.health", log(avail_spare=5), {"nvme1": FAIL}),
    ("storage.health", log(media_errors=7), {"nvme1": WARN}),
    ("storage.health", log(percent_used=97), {"nvme1": WARN}),
    ("storage.health", log(percent_used=130), {"nvme1": WARN}),
    ("storage.health", log(temperature=360), {"nvme1": WARN}),
    ("storage.health", change(storage_node.SMART_LOG, "nvme1", "", status="timeout"), {"nvme1": UNKNOWN}),
    ("storage.health", lambda m, _: m.remove(storage_node.SMART_LOG, "nvme1"), {"nvme1": UNKNOWN}),
    ("storage.disks", disk(smart_status={"passed": False}), {"sda": FAIL}),
    ("storage.disks", pending_sectors(8), {"sda": WARN}),
    ("storage.disks", disk(scsi_error_counter_log={"read": {"total_uncorrected_errors": 3}}), {"sda": WARN}),
    ("storage.disks", change(storage_node.SMART, "sda", '{"smartctl": {"exit_status": 2}}', code=2), {"sda": UNKNOWN}),
    # --- pcie
    ("pcie.links", change(WIDTH, f"{ADDRESS}/current_link_width", "8\n"), {SUBJECT: FAIL}),
    ("pcie.links", change(SPEED, f"{ADDRESS}/current_link_speed", "16.0 GT/s PCIe\n"), {SUBJECT: WARN}),
    ("pcie.links", change(WIDTH, "0000:41:00.0/current_link_width", "2\n"), {"nvme0 (0000:41:00.0)": FAIL}),
    ("pcie.links", change(WIDTH, f"{ADDRESS}/current_link_width", "63\n"), {SUBJECT: FAIL}),
    ("pcie.links", change(WIDTH, f"{ADDRESS}/current_link_width", "0\n"), {SUBJECT: UNKNOWN}),
    ("pcie.links", lambda m, _: (m.change(MAX_WIDTH, f"{PORT}/max_link_width", "8\n"), m.change(WIDTH, f"{ADDRESS}/current_link_width", "8\n")), {SUBJECT: WARN}),
    ("pcie.errors", aer("fatal", "DLP 1\nTOTAL_ERR_FATAL 1\n"), {SUBJECT: FAIL}),
    ("pcie.errors", aer("nonfatal", "UnsupReq 0\nCmpltTO 2\nTOTAL_ERR_NONFATAL 2\n"), {SUBJECT: FAIL}),
    ("pcie.errors", aer("nonfatal", "UnsupReq 3\nTOTAL_ERR_NONFATAL 3\n"), {SUBJECT: WARN}),
    ("pcie.errors", aer("correctable", "RxErr 90000\nTOTAL_ERR_COR 90000\n"), {SUBJECT: WARN}),
    ("pcie.errors", aer("correctable", "RxErr 5\nTOTAL_ERR_COR 5\n"), {}),
    ("pcie.errors", aer("fatal", "DLP 1\nTOTAL_ERR_FATAL 1\n", f"{PORT}/"), {f"port {PORT} above {NIC}": FAIL}),
    ("pcie.errors", lambda m, _: [m.files(read, {}) for read in pci_devices.AER_READS.values()], {"": UNKNOWN}),
    ("pcie.iommu", change(pcie_node.IOMMU, f"{NIC}/device/iommu_group/type", "DMA-FQ\n"), {NIC: WARN}),
    ("pcie.iommu", lambda m, _: m.files(pcie_node.IOMMU, {}), {}),
    ("pcie.acs", lambda m, _: m.replace(pcie_node.BRIDGE_DETAILS.reads(m.baseline())[0], "SrcValid- TransBlk- ReqRedir-", "SrcValid+ TransBlk- ReqRedir+"), {"": WARN}),
    ("pcie.read_request", lambda m, _: m.text(pcie_node.ADAPTER_DETAILS.reads(m.baseline())[0], m.results[pcie_node.ADAPTER_DETAILS.reads(m.baseline())[0].id][0]["text"].replace("4096", "512", 1)), {ADDRESS: WARN, "0000:c1:00.0": WARN}),
    # --- nic
    ("nic.shaping", flags("UP", "LOWER_UP", qdisc="netem"), {NIC: FAIL}),
    ("nic.shaping", flags("UP", "LOWER_UP", qdisc=None), {NIC: UNKNOWN}),
    ("nic.link", flags("BROADCAST"), {NIC: FAIL}),
    ("nic.link", flags("BROADCAST", "UP"), {NIC: FAIL}),
    ("nic.link", flags("BROADCAST", "UP", "LOWER_UP", operstate="DORMANT"), {NIC: FAIL}),
    ("nic.link", lambda m, _: m.set_links({"ens2f0np0": ["UP", "LOWER_UP"]}), {NIC: FAIL}),
    ("nic.link", flags(), {NIC: UNKNOWN}),
    ("nic.count", declare(node_nics=4), {"": FAIL}),
    ("nic.count", declare(node_nics=3, node_nic_gbps=400), {"": FAIL}),
    ("nic.count", declare(node_nics=2, node_nic_gbps=400), {}),
    ("nic.speed", change(nic_node.SPEEDS, f"{NIC}/speed", "200000\n"), {NIC: WARN}),
    ("nic.speed", lambda m, _: (declare(node_nic_gbps=400)(m, _), m.change(nic_node.SPEEDS, f"{NIC}/speed", "200000\n")), {NIC: FAIL}),
    ("nic.speed", declare(node_nic_gbps=800), {NIC: FAIL, "ens2f0np0": FAIL}),
    ("nic.speed", replace(nic_node.SETTINGS, "Duplex: Full", "Duplex: Half"), {NIC: FAIL, "ens2f0np0": FAIL}),
    ("nic.speed", change(nic_node.SPEEDS, f"{NIC}/speed", "", status="error"), {NIC: UNKNOWN}),
    ("nic.speed", lambda m, _: (m.change(nic_node.SPEEDS, f"{NIC}/speed", "-1\n"), m.replace(nic_node.SETTINGS, "Link detected: yes", "Link detected: no (No cable)")), {NIC: FAIL}),
    ("nic.speed", change(nic_node.SETTINGS, NIC, "", status="absent"), {NIC: UNKNOWN}),
    ("nic.bonds", bond(BOND_DOWN), {"bond0": FAIL}),
    ("nic.bonds", bond("Ethernet Channel Bonding"), {"bond0": UNKNOWN}),
    ("nic.neighbours", lambda m, _: m.text(nic_node.LLDP, '{"lldp": {}}'), {NIC: WARN, "ens2f0np0": WARN}),
    ("nic_health.counters", replace(nic_node.STATISTICS, "rx_crc_errors_phy: 0", "rx_crc_errors_phy: 20000"), {NIC: FAIL, "ens2f0np0": FAIL}),
    ("nic_health.counters", replace(nic_node.STATISTICS, "rx_crc_errors_phy: 0", "rx_crc_errors_phy: 3"), {NIC: WARN, "ens2f0np0": WARN}),
    ("nic_health.counters", replace(nic_node.STATISTICS, "rx_discards_phy: 0", "rx_discards_phy: 90000000"), {NIC: WARN, "ens2f0np0": WARN}),
    ("nic_health.counters", replace(nic_node.STATISTICS, "tx_pause_ctrl_phy: 20", "tx_pause_storm_error_events: 1"), {NIC: WARN, "ens2f0np0": WARN}),
    ("nic_health.counters", replace(nic_node.STATISTICS, "tx_pause_ctrl_phy: 20", "tx_pause_ctrl_phy: 900000000"), {NIC: WARN, "ens2f0np0": WARN}),
    ("nic_health.counters", change(nic_node.STATISTICS, NIC, "", code=1, stderr="sh: 1: ethtool: not found"), {NIC: UNKNOWN}),
    ("nic_health.counters", change(nic_node.STATISTICS, NIC, "", code=1, stderr="no stats available"), {NIC: UNKNOWN}),
    ("nic_health.module", replace(nic_node.MODULE, "temperature high alarm             : Off", "temperature high alarm             : On"), {NIC: FAIL, "ens2f0np0": FAIL}),
    ("nic_health.module", replace(nic_node.MODULE, "low warning  (Channel 1)   : Off", "low warning  (Channel 1)   : On"), {NIC: WARN, "ens2f0np0": WARN}),
    ("nic_health.module", change(nic_node.MODULE, NIC, "", status="timeout"), {NIC: UNKNOWN}),
    ("nic_health.module", change(nic_node.MODULE, NIC, "", code=1, stderr="netlink error: Input/output error"), {NIC: UNKNOWN}),
    ("nic_health.module", change(nic_node.MODULE, NIC, "", code=1, stderr="netlink error: Operation not supported"), {NIC: Outcome.NOT_APPLICABLE}),
    # --- firmware and rdma
    ("nic_firmware.pending", lambda m, _: m.set_firmware({ADDRESS: ("28.42.1000", "28.43.1014"), "0000:c1:00.0": ("28.43.1014", "28.43.1014")}), {SUBJECT: WARN}),
    ("nic_firmware.pending", lambda m, _: m.set_firmware({"0000:c1:00.0": ("28.43.1014", "28.43.1014")}), {SUBJECT: UNKNOWN}),
    ("nic_firmware.alike", lambda m, _: m.set_firmware({ADDRESS: ("28.42.1000", "28.42.1000"), "0000:c1:00.0": ("28.43.1014", "28.43.1014")}), {f"{SUBJECT} firmware": WARN, "ens2f0np0 (0000:c1:00.0) firmware": WARN}),
    ("nic_firmware.alike", change(nic_node.SPEEDS, f"{NIC}/speed", "200000\n"), {f"{SUBJECT} speed": WARN, "ens2f0np0 (0000:c1:00.0) speed": WARN}),
    ("rdma_port.devices", lambda m, _: m.remove(rdma_node.INTERFACES, f"net/{NIC}"), {NIC: FAIL}),
    ("rdma_port.state", lambda m, _: (m.change(STATE, "mlx5_0/ports/1/state", "1: DOWN\n"), m.change(PHYSICAL, "mlx5_0/ports/1/phys_state", "2: Polling\n")), {"mlx5_0/1": FAIL}),
    ("rdma_port.state", change(STATE, "mlx5_0/ports/1/state", "2: INIT\n"), {"mlx5_0/1": FAIL}),
    ("rdma_port.state", change(STATE, "mlx5_0/ports/1/state", "nonsense\n"), {"mlx5_0/1": UNKNOWN}),
    ("rdma_port.state", change(RATE, "mlx5_0/ports/1/rate", "200 Gb/sec (2X NDR)\n"), {"mlx5_0/1 rate": FAIL, "mlx5_1/1 rate": FAIL}),
    ("rdma_port.state", lambda m, _: (declare(node_unused_ports=["mlx5_0"])(m, _), m.change(STATE, "mlx5_0/ports/1/state", "1: DOWN\n")), {}),
    ("rdma_port.counters", change(rdma_node.PORT_COUNTERS, "mlx5_0/ports/1/counters/symbol_error", "65535\n"), {"mlx5_0/1": WARN}),
    # --- host and containers
    ("host.bios", replace(memory_node.DMIDECODE, "Version: 2.14", "Version: Not Specified"), {"": UNKNOWN}),
    ("host.power", replace(memory_node.DMIDECODE, "Location: PSU1\n\tStatus: Present, OK\n\tPlugged: Yes", "Location: PSU1\n\tStatus: Present, OK\n\tPlugged: No"), {"PSU1": FAIL}),
    ("host.power", replace(memory_node.DMIDECODE, "Location: PSU1\n\tStatus: Present, OK", "Location: PSU1\n\tStatus: Present, Critical"), {"PSU1": FAIL}),
    ("host.power", replace(memory_node.DMIDECODE, "Location: PSU1\n\tStatus: Present, OK", "Location: PSU1\n\tStatus: Not Present"), {"PSU1": WARN}),
    ("host.bmc_events", events(EVENT), {PROBLEM: FAIL}),
    ("host.bmc_events", events(OLD_EVENT), {PROBLEM: WARN}),
    ("host.bmc_events", events(OVER), {PROBLEM: WARN}),
    ("host.bmc_events", events(EVENT.replace("11/28/2025", "28.11.2025")), {PROBLEM: FAIL}),
    ("host.bmc_events", lambda m, _: m.text(bmc_node.EVENTS, "", stderr="SEL has no entries"), {}),
    ("host.bmc_events", lambda m, _: m.text(bmc_node.EVENTS, "", code=1, stderr="Could not open device at /dev/ipmi0"), {"": UNKNOWN}),
    ("host.bmc_events", lambda m, _: m.links(bmc_node.DEVICE, {}), {"": UNKNOWN}),
    ("host.bmc_sensors", sensors("PS1 Status | 77h | ok  | 10.1 | Presence detected, Failure detected\n"), {"PS1 Status": FAIL}),
    ("host.bmc_sensors", sensors("Fan1 RPM | 30h | lcr | 7.1 | 0 RPM\nFan2 RPM | 31h | ok | 7.1 | 5000 RPM\n"), {"Fan1 RPM": FAIL}),
    ("host.bmc_sensors", sensors("Inlet Temp | 04h | unc | 7.1 | 45 degrees C\n"), {"Inlet Temp": WARN}),
    ("host.bmc_sensors", sensors("Fan1 RPM | 30h | ns | 7.1 | No Reading\n"), {"": UNKNOWN}),
    ("container_host.config", lambda m, _: m.text(container_node.DAEMON_JSON, '{"features": '), {"/etc/docker/daemon.json": FAIL}),
    ("container_host.config", lambda m, _: m.text(container_node.DAEMON_JSON, ""), {"/etc/docker/daemon.json": FAIL}),
    ("container_host.config", lambda m, _: m.text(container_node.DAEMON_JSON, '{"runtimes": []}'), {"/etc/docker/daemon.json": FAIL}),
    ("container_host.config", lambda m, _: m.text(container_node.CONFIG_TOML, "version = \n"), {"/etc/containerd/config.toml": FAIL}),
    ("container_host.config", lambda m, _: m.absent(container_node.DAEMON_JSON), {}),
    ("container_host.devices", lambda m, _: m.files(container_node.CDI_SPECS[1], {}), {"": FAIL}),
    ("container_host.devices", lambda m, _: m.change(container_node.CDI_SPECS[1], "nvidia.json", "{"), {"": FAIL, "/var/run/cdi/nvidia.json": FAIL}),
    ("container_host.devices", lambda m, _: (m.files(container_node.CDI_SPECS[1], {}), m.text(container_node.DAEMON_JSON, '{"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}')), {}),
]  # fmt: skip
IDS = [f"{number}-{check}" for number, (check, _, _) in enumerate(FAULTS)]


@pytest.mark.parametrize(("check_id", "spoil", "expected"), FAULTS, ids=IDS)
def test_each_fault_is_found(machine, tools, check_id, spoil, expected):
    spoil(machine, tools)
    assert machine.bad(check_id) == expected, machine.findings(check_id)


FAILING = [fault for fault in FAULTS if FAIL in fault[2].values()]


@pytest.mark.parametrize(("check_id", "spoil"), [fault[:2] for fault in FAULTS], ids=IDS)
def test_findings_explain_themselves(machine, tools, check_id, spoil):
    spoil(machine, tools)
    for finding in machine.findings(check_id):
        if finding.outcome is not PASS:
            assert finding.reason.strip(), finding
            assert finding.outcome is not FAIL or (finding.observed and finding.expected), finding
            assert all(part.isprintable() for part in (finding.observed, finding.reason)), finding


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_evidence_that_was_cut_never_turns_a_fault_into_a_pass(machine, tools, data):
    """As the probe cuts: at a limit (marked) or at a deadline, in any of the check's reads."""
    check_id, spoil, _ = data.draw(st.sampled_from(FAILING))
    broken = machine.copy()
    spoil(broken, tools)
    before = {one.subject for one in broken.findings(check_id) if one.outcome is FAIL}
    read = data.draw(st.sampled_from(broken.reads_of(check_id)))
    cut = [one for one in broken.results[read] if one.get("text")]
    for result in cut:
        end = data.draw(st.integers(0, len(result["text"])))
        how = data.draw(st.sampled_from([{"truncated": True}, {"status": "timeout"}]))
        result.update(text=result["text"][:end], **how)
    after = broken.findings(check_id)
    if cut:
        assert worst(one.outcome for one in after) in (FAIL, UNKNOWN), (before, after)


WHOLE_OR_NOTHING = [
    memory_node.DMIDECODE,
    nic_node.DEVLINK,
    nic_node.LLDP,
    storage_node.SMART_LOG,
    storage_node.SMART,
    container_node.DAEMON_JSON,
    container_node.CDI_SPECS[1],
]


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_a_document_that_ends_early_is_noticed_without_a_mark(machine, tools, data):
    """Somebody else's cut, without a word from the probe: forms with an end show it."""
    reads = {read.id for read in WHOLE_OR_NOTHING}
    faults = [fault for fault in FAILING if reads & set(machine.reads_of(fault[0]))]
    check_id, spoil, _ = data.draw(st.sampled_from(faults))
    broken = machine.copy()
    spoil(broken, tools)
    for read in reads & set(broken.reads_of(check_id)):
        for result in broken.results[read]:
            text = result["text"]
            end = data.draw(st.integers(0, max(0, len(text.rstrip()) - 1)))
            result["text"] = text[:end]
    assert worst(one.outcome for one in broken.findings(check_id)) in (FAIL, UNKNOWN)
