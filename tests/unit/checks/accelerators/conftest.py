"""Nodes with accelerators, written by hand: healthy ones, to be spoilt one thing at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hfprov.baseline import Baseline, Value
from hfprov.checks import accelerator_scope
from hfprov.checks.registry import Facts
from hfprov.diagnosis import Tool
from hfprov.evidence.accelerators.driver import DRIVERS
from hfprov.evidence.nvidia_node import UNIT
from hfprov.judge import judge, reads_for
from hfprov.reading import Observation
from hfprov.verdict import Finding, Outcome

OURS = ("accelerator.", "kernel_events.")
KERNEL_LINE = "2026-11-29T0{hour}:00:0{second}.123456+00:00 gpu-a01 kernel: {message}\n"

GPU_XML = """
<gpu id="{long}">
 <product_name>NVIDIA H100 80GB HBM3</product_name>
 <product_architecture>Hopper</product_architecture>
 <persistence_mode>Enabled</persistence_mode>
 <addressing_mode>None</addressing_mode>
 <mig_mode><current_mig>Disabled</current_mig><pending_mig>Disabled</pending_mig></mig_mode>
 <mig_devices>None</mig_devices>
 <serial>165402300000{index}</serial>
 <uuid>GPU-00000000-0000-0000-0000-00000000000{index}</uuid>
 <vbios_version>96.00.74.00.0D</vbios_version>
 <inforom_version><img_version>G520.0200.00.05</img_version><oem_object>2.1</oem_object>
  <ecc_object>7.16</ecc_object><pwr_object>N/A</pwr_object></inforom_version>
 <gsp_firmware_version>580.95.05</gsp_firmware_version>
 <gpu_reset_status><reset_required>No</reset_required>
  <drain_and_reset_recommended>N/A</drain_and_reset_recommended></gpu_reset_status>
 <gpu_recovery_action>None</gpu_recovery_action>
 <pci><pci_bus_id>{long}</pci_bus_id><pci_device_id>233010DE</pci_device_id>
  <pci_gpu_link_info>
   <pcie_gen><max_link_gen>5</max_link_gen><current_link_gen>5</current_link_gen>
    <max_device_link_gen>5</max_device_link_gen><max_host_link_gen>5</max_host_link_gen></pcie_gen>
   <link_widths><max_link_width>16x</max_link_width><current_link_width>16x</current_link_width>
   </link_widths></pci_gpu_link_info>
  <replay_counter>0</replay_counter><replay_rollover_counter>0</replay_rollover_counter></pci>
 <performance_state>P0</performance_state>
 <clocks_event_reasons>
  <clocks_event_reason_gpu_idle>Active</clocks_event_reason_gpu_idle>
  <clocks_event_reason_sw_power_cap>Not Active</clocks_event_reason_sw_power_cap>
  <clocks_event_reason_hw_slowdown>Not Active</clocks_event_reason_hw_slowdown>
  <clocks_event_reason_hw_power_brake_slowdown>Not Active
  </clocks_event_reason_hw_power_brake_slowdown>
  <clocks_event_reason_sw_thermal_slowdown>Not Active</clocks_event_reason_sw_thermal_slowdown>
 </clocks_event_reasons>
 <fb_memory_usage><total>81559 MiB</total><reserved>551 MiB</reserved><used>1 MiB</used>
  <free>81007 MiB</free></fb_memory_usage>
 <compute_mode>Default</compute_mode>
 <utilization><gpu_util>0 %</gpu_util><memory_util>0 %</memory_util></utilization>
 <ecc_mode><current_ecc>Enabled</current_ecc><pending_ecc>Enabled</pending_ecc></ecc_mode>
 <ecc_errors>
  <volatile><sram_correctable>0</sram_correctable><sram_uncorrectable_parity>0</sram_uncorrectable_parity>
   <sram_uncorrectable_secded>0</sram_uncorrectable_secded><dram_correctable>0</dram_correctable>
   <dram_uncorrectable>0</dram_uncorrectable></volatile>
  <aggregate><sram_correctable>0</sram_correctable>
   <sram_uncorrectable_parity>0</sram_uncorrectable_parity>
   <sram_uncorrectable_secded>0</sram_uncorrectable_secded><dram_correctable>0</dram_correctable>
   <dram_uncorrectable>0</dram_uncorrectable>
   <sram_threshold_exceeded>No</sram_threshold_exceeded></aggregate>
 </ecc_errors>
 <remapped_rows><remapped_row_corr>0</remapped_row_corr><remapped_row_unc>0</remapped_row_unc>
  <remapped_row_pending>No</remapped_row_pending><remapped_row_failure>No</remapped_row_failure>
 </remapped_rows>
 <temperature><gpu_temp>31 C</gpu_temp><gpu_temp_tlimit>56 C</gpu_temp_tlimit>
  <gpu_temp_slow_tlimit_threshold>-2 C</gpu_temp_slow_tlimit_threshold>
  <memory_temp>41 C</memory_temp></temperature>
 <gpu_power_readings><instant_power_draw>70.00 W</instant_power_draw>
  <current_power_limit>700.00 W</current_power_limit>
  <default_power_limit>700.00 W</default_power_limit></gpu_power_readings>
 <clocks><graphics_clock>345 MHz</graphics_clock><sm_clock>345 MHz</sm_clock></clocks>
 <fabric><state>Completed</state><status>Success</status></fabric>
 <processes></processes>
</gpu>"""
TOPO_LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks

NIC Legend:

"""


class Node:
    """A node's evidence and its baseline; both may be changed before it is judged."""

    def __init__(self, **values: Any) -> None:
        self.values: dict[str, Any] = values
        self.results: dict[str, list[dict[str, Any]]] = {}
        # What is sent as part of another read may be spoilt by itself here.
        for read in (*reads_for(self.baseline()), UNIT, *DRIVERS.reads(self.baseline())):
            absent = {"name": "", "status": "absent", "stderr": "No such file or directory"}
            many = read.request["kind"] == "glob" or read.request.get("each")
            self.results[read.id] = [] if many else [absent]
        self.put("systemd itself", "Virtualization=\n", code=0)
        self.put("file /proc/sys/kernel/osrelease", "6.8.0-60-generic\n")
        self.put("file /proc/sys/kernel/random/boot_id", "3f1c3b1e-0000-4000-8000-000000000001\n")
        self.put("file /proc/cmdline", "ro quiet\n")
        self.put("file /etc/os-release", 'ID=ubuntu\nVERSION_ID="24.04"\n')
        self.put("file /proc/meminfo", f"MemTotal:       {2030 * 1024**2} kB\n")
        self.files("glob /proc/[0-9]*/cmdline", **{"/proc/1/cmdline": "/sbin/init\0"})
        self.kernel_log()

    def baseline(self) -> Baseline:
        values = {name: Value(value, "") for name, value in self.values.items()}
        return Baseline("gpu-a01", (), values)

    def put(self, read: str, text: str, **changes: Any) -> None:
        """The text of a file or the output of a command, by the read's whole id."""
        assert read in self.results, read
        self.results[read] = [{"name": "", "status": "ok", "text": text, **changes}]

    def command(self, command: str, text: str, *, code: int = 0, **changes: Any) -> None:
        self.put(f"run {command}", text, code=code, **changes)

    def replace(self, read: str, old: str, new: str, count: int = -1) -> None:
        """Change a text; with ``count`` only its first occurrences."""
        [result] = self.results[read]
        assert old in result["text"], old
        result["text"] = result["text"].replace(old, new, count)

    def files(self, pattern: str, **by_name: str) -> None:
        """Files of a glob: content by path."""
        self.results[pattern] += [
            {"name": name, "status": "ok", "text": text} for name, text in by_name.items()
        ]

    def kernel_log(self, *messages: str, from_boot: bool = True, **changes: Any) -> None:
        """The journal of the boot, with these messages of the kernel after a harmless start."""
        first = "Linux version 6.8.0-60-generic (buildd@host)" if from_boot else "eth0: link is up"
        lines = [first, "Command line: ro quiet", *messages]
        text = "".join(
            KERNEL_LINE.format(hour=n // 10 % 10, second=n % 10, message=line)
            for n, line in enumerate(lines)
        )
        [read] = [name for name in self.results if name.startswith("run journalctl -k")]
        self.results[read] = [{"name": "", "status": "ok", "text": text, "code": 0, **changes}]

    def bus(
        self,
        address: str,
        pci_id: str,
        pci_class: str = "30200",
        *,
        driver: str = "nvidia",
        width: str = "16",
        speed: str = "32.0 GT/s PCIe",
        aer: bool = True,
    ) -> None:
        """One function on the PCI bus, with its link and its error counters."""
        folder = f"/sys/bus/pci/devices/{address}"
        at = "glob /sys/bus/pci/devices/*"
        uevent = f"DRIVER={driver}\nPCI_CLASS={pci_class}\nPCI_ID={pci_id.upper()}\n"
        self.files(f"{at}/uevent", **{f"{folder}/uevent": uevent})
        for which in ("current", "max"):
            self.files(f"{at}/{which}_link_width", **{f"{folder}/{which}_link_width": f"{width}\n"})
            self.files(f"{at}/{which}_link_speed", **{f"{folder}/{which}_link_speed": f"{speed}\n"})
        self.files(f"{at}/numa_node", **{f"{folder}/numa_node": "0\n"})
        for kind in ("correctable", "nonfatal", "fatal") if aer else ():
            text = f"Undefined 0\nUnsupReq 0\nTOTAL_ERR_{kind.upper()} 0\n"
            name = f"aer_dev_{kind}"
            self.files(f"{at}/{name}", **{f"{folder}/{name}": text})

    def off_the_bus(self, address: str) -> None:
        for name, results in self.results.items():
            if name.startswith("glob /sys/bus/pci/devices"):
                self.results[name] = [one for one in results if f"/{address}/" not in one["name"]]

    def on_bus(self, name: str, address: str) -> dict[str, Any]:
        """The result of one sysfs file of a PCI device."""
        read = f"glob /sys/bus/pci/devices/*/{name}"
        return next(one for one in self.results[read] if f"/{address}/" in one["name"])

    def module(self, name: str, version: str = "", installed: str | None = None) -> None:
        """A loaded kernel module, and the one that is installed for the running kernel."""
        self.put(f"file /sys/module/{name}/initstate", "live\n")
        if version:
            self.put(f"file /sys/module/{name}/version", f"{version}\n")
        found = version if installed is None else installed
        self.command(f"modinfo -F version {name}", f"{found}\n" if found else "")

    def verdicts(self) -> dict[tuple[str, str], Finding]:
        """Our checks' findings by check and subject, through the judge as in real life."""
        seen = Observation.from_json({"results": self.results})
        found = [one for one in judge(seen, self.baseline()) if one.check.startswith(OURS)]
        assert found
        return {one.key: one.finding for one in found}

    def bad(self) -> dict[tuple[str, str], Outcome]:
        """What neither passes nor is without a meaning here."""
        fine = (Outcome.PASS, Outcome.NOT_APPLICABLE)
        return {k: one.outcome for k, one in self.verdicts().items() if one.outcome not in fine}


def address(index: int) -> str:
    return f"0000:{0x19 + 0x10 * index:02x}:00.0"


SMI = "run nvidia-smi -q -x"
FABRIC = (
    "systemctl show --property=Id,LoadState,ActiveState,SubState,UnitFileState "
    "nvidia-fabricmanager.service"
)


def h100_node(gpus: int = 8) -> Node:
    """A healthy machine with an HGX H100 board, drivers and fabric manager of R580."""
    node = Node(node_sku="hgx-h100-8")
    body = "".join(GPU_XML.format(long=f"0000{address(n)}".upper(), index=n) for n in range(gpus))
    node.command(
        "nvidia-smi -q -x",
        '<?xml version="1.0" ?>\n<nvidia_smi_log>\n'
        "<timestamp>Sun Nov 29 10:00:00 2026</timestamp>\n"
        "<driver_version>580.95.05</driver_version>\n<cuda_version>13.0</cuda_version>\n"
        f"<attached_gpus>{gpus}</attached_gpus>{body}\n</nvidia_smi_log>\n",
    )
    links = "".join(f"\t Link {n}: 26.562 GB/s\n" for n in range(18))
    node.command(
        "nvidia-smi nvlink -s",
        "".join(
            f"GPU {n}: NVIDIA H100 80GB HBM3 (UUID: GPU-00000000-0000-0000-0000-00000000000{n})\n"
            f"{links}"
            for n in range(gpus)
        ),
    )
    for n in range(gpus):
        node.bus(address(n), "10de:2330")
        node.bus(f"0000:{0x18 + 0x10 * n:02x}:00.0", "15b3:1021", "20700", driver="mlx5_core")
    for n in range(4):
        node.bus(f"0000:{0xA0 + n:02x}:00.0", "10de:22a3", "68000", driver="nvidia-nvswitch")
    node.module("nvidia", "580.95.05")
    node.put("file /proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for "
             "x86_64  580.95.05  Release Build\n")  # fmt: skip
    node.command("modinfo -F license nvidia", "Dual MIT/GPL\n")
    library = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.95.05"
    node.files("list /usr/lib/*/libnvidia-ml.so.[0-9]*", **{library: ""})
    node.command(
        FABRIC,
        "Id=nvidia-fabricmanager.service\nLoadState=loaded\nActiveState=active\nSubState=running\n"
        "UnitFileState=enabled\n",
    )
    node.command("nv-fabricmanager --version", "Fabric Manager version is : 580.95.05\n")
    nics = [f"/sys/class/infiniband/mlx5_{n}" for n in range(gpus)]
    node.files("list /sys/class/infiniband/*", **dict.fromkeys(nics, ""))
    node.command("nvidia-smi topo -m", topology(gpus))
    for cpu in range(4):
        name = f"/sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id"
        node.files(
            "glob /sys/devices/system/cpu/cpu[0-9]*/topology/physical_package_id",
            **{name: f"{cpu % 2}\n"},
        )
    return node


def topology(gpus: int) -> str:
    """``nvidia-smi topo -m`` of a machine in which every GPU has a NIC behind its switch."""
    names = [*(f"GPU{n}" for n in range(gpus)), *(f"NIC{n}" for n in range(gpus))]
    lines = ["\t" + "\t".join([*names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])]
    for row in names:
        cells = []
        for column in names:
            same = row[3:] == column[3:]
            both = row[:3] == column[:3] == "GPU"
            cells.append("X" if row == column else "NV18" if both else "PXB" if same else "SYS")
        tail = ["0-55", "0", "N/A"] if row.startswith("GPU") else []
        lines.append("\t".join([row, *cells, *tail]))
    legend = "".join(f"  NIC{n}: mlx5_{n}\n" for n in range(gpus))
    return "\n".join(lines) + "\n" + TOPO_LEGEND + legend


@pytest.fixture
def h100() -> Node:
    return h100_node()


@pytest.fixture
def bare() -> type[Node]:
    """Nodes without anything, to be furnished by the test."""
    return Node


@pytest.fixture
def addresses() -> list[str]:
    """PCI addresses of the GPUs of ``h100``."""
    return [address(n) for n in range(8)]


@pytest.fixture
def node_of() -> Callable[[Node, Tool], tuple[accelerator_scope.Node, Tool, Observation]]:
    """What ``diagnose`` looks at before it runs a tool."""

    def look(node: Node, tool: Tool) -> tuple[accelerator_scope.Node, Tool, Observation]:
        seen = Observation.from_json({"results": node.results})
        return accelerator_scope.look(Facts(seen, node.baseline()), node.baseline()), tool, seen

    return look
