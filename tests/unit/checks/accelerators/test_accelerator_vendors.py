"""The other vendors: the same checks, from their own tools' words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hfprov.verdict import Outcome

FAIL, WARN, UNKNOWN = Outcome.FAIL, Outcome.WARN, Outcome.UNKNOWN


def amd_static(index: int, **changes: Any) -> dict[str, Any]:
    return {
        "gpu": index,
        "asic": {
            "market_name": "AMD Instinct MI300X",
            "vendor_id": "0x1002",
            "device_id": "0x74a1",
            "asic_serial": f"0x{index:016x}",
        },
        "bus": {
            "bdf": f"0000:{0x10 + index:02x}:00.0",
            "max_pcie_width": 16,
            "max_pcie_speed": {"value": 32, "unit": "GT/s"},
        },
        "vbios": {"name": "x", "version": "022.040.003.041.000001"},
        "driver": {"name": "amdgpu", "version": "6.14.14"},
        "vram": {"type": "HBM3", "size": {"value": 196592, "unit": "MB"}},
        "limit": {
            "slowdown_hotspot_temperature": {"value": 100, "unit": "C"},
            "slowdown_vram_temperature": {"value": 105, "unit": "C"},
        },
        "partition": {"compute_partition": "SPX", "memory_partition": "NPS1"},
        **changes,
    }


def amd_metric(index: int, **changes: Any) -> dict[str, Any]:
    return {
        "gpu": index,
        "usage": {"gfx_activity": {"value": 0, "unit": "%"}},
        "power": {"socket_power": {"value": 140, "unit": "W"}},
        "temperature": {
            "edge": "N/A",
            "hotspot": {"value": 41, "unit": "C"},
            "mem": {"value": 33, "unit": "C"},
        },
        "pcie": {
            "width": 16,
            "speed": {"value": 32, "unit": "GT/s"},
            "replay_count": 0,
            "replay_roll_over_count": 0,
        },
        "ecc": {
            "total_correctable_count": 0,
            "total_uncorrectable_count": 0,
            "total_deferred_count": 0,
        },
        "mem_usage": {
            "total_vram": {"value": 196592, "unit": "MB"},
            "used_vram": {"value": 283, "unit": "MB"},
        },
        **changes,
    }


def mi300x(bare: Any, **metric: Any) -> Any:
    node = bare(node_sku="mi300x-8")
    node.command("amd-smi static --json", json.dumps([amd_static(n) for n in range(8)]))
    rows = [amd_metric(n, **(metric if n == 3 else {})) for n in range(8)]
    node.command("amd-smi metric --json", json.dumps(rows))
    node.module("amdgpu", "6.14.14")
    node.put("file /proc/meminfo", f"MemTotal:       {3000 * 1024**2} kB\n")
    for n in range(8):
        node.bus(f"0000:{0x10 + n:02x}:00.0", "1002:74a1", "120000", driver="amdgpu")
    return node


def expected_of(check: str, outcome: Outcome) -> dict[tuple[str, str], Outcome]:
    return {(f"accelerator.{check}", "0000:13:00.0"): outcome}


ALWAYS = {"accelerator.interconnect", "accelerator.compatibility", "accelerator.sockets"}
"""xGMI is not told here, and amdgpu of ROCm 7 is tolerated only."""


def rest(node: Any) -> dict[tuple[str, str], Outcome]:
    return {key: outcome for key, outcome in node.bad().items() if key[0] not in ALWAYS}


def test_a_sound_mi300x_node(bare):
    node = mi300x(bare)
    assert rest(node) == {}
    assert node.bad()[("accelerator.compatibility", "amd amd-rocm-7")] is WARN
    assert node.bad()[("accelerator.interconnect", "0000:10:00.0")] is UNKNOWN


@pytest.mark.parametrize(
    ("metric", "check", "outcome"),
    [
        ({"ecc": {"total_uncorrectable_count": 4}}, "ecc_errors", FAIL),
        ({"ecc": {"total_uncorrectable_count": 0, "total_deferred_count": 1}}, "ecc_errors", FAIL),
        ({"temperature": {"hotspot": {"value": 104, "unit": "C"}}}, "temperature", FAIL),
        ({"temperature": {"hotspot": "ERROR"}}, "answers", FAIL),
        ({"pcie": {"replay_count": 7, "replay_roll_over_count": 1}}, "pcie_replays", FAIL),
        ({"power": {"throttle_status": "THROTTLED"}}, "throttling", FAIL),
    ],
)  # fmt: skip
def test_one_sick_mi300x_is_found(bare, metric, check, outcome):
    assert expected_of(check, outcome).items() <= rest(mi300x(bare, **metric)).items()


@pytest.mark.parametrize(("exceeded", "found"), [("True", True), (True, True), ("False", False)])
def test_more_bad_pages_than_the_board_allows(bare, exceeded, found):
    node = mi300x(bare)
    rows = [amd_static(n) for n in range(8)]
    rows[3]["ras"] = {"bad_page_threshold": 8, "bad_page_threshold_exceeded": exceeded}
    node.command("amd-smi static --json", json.dumps(rows))
    assert rest(node) == (expected_of("ecc_errors", FAIL) if found else {})


@pytest.mark.parametrize(
    ("on", "found"),
    [("GFX SDMA MMHUB", False), ("GFX SDMA MMHUB ATHUB HDP", True), ("UMC DF", False)],
)
def test_memory_that_the_host_protects_is_not_called_unprotected(bare, on, found):
    node = mi300x(bare)
    names = ("UMC", "SDMA", "GFX", "MMHUB", "ATHUB", "HDP", "DF")
    states = {name: "ENABLED" if name in on.split() else "DISABLED" for name in names}
    rows = [amd_static(n) for n in range(8)]
    rows[3]["ras"] = {"ecc_block_state": states}
    node.command("amd-smi static --json", json.dumps(rows))
    assert rest(node) == (expected_of("ecc_mode", FAIL) if found else {})


def test_the_kernel_that_rocm_does_not_support_is_refused(bare):
    node = mi300x(bare)
    node.put("file /etc/os-release", 'ID=ubuntu\nVERSION_ID="22.04"\n')
    key = ("accelerator.compatibility", "amd amd-ubuntu-2204-hwe-mi300x")
    assert node.bad()[key] is FAIL
    node.put("file /proc/sys/kernel/osrelease", "5.15.0-160-generic\n")
    assert key not in node.bad()


def test_firmware_of_one_card_that_is_older_is_the_odd_one(bare):
    node = mi300x(bare)
    rows = [amd_static(n) for n in range(8)]
    rows[5]["vbios"]["version"] = "022.040.003.001.000001"
    node.command("amd-smi static --json", json.dumps(rows))
    assert rest(node) == {("accelerator.firmware_same", "0000:15:00.0"): FAIL}


def test_rocm_smi_helps_out_where_there_is_no_amd_smi(bare):
    node = mi300x(bare)
    for name in [name for name in node.results if name.startswith("run amd-smi")]:
        node.put(name, "", status="absent")
    card = {"PCI Bus": "0000:10:00.0", "Temperature (Sensor junction) (C)": "45.0"}
    node.command("rocm-smi -a --json", json.dumps({"card0": card}))
    bad = node.bad()
    assert bad[("accelerator.count", "amd")] is FAIL
    assert bad[("accelerator.answers", "0000:11:00.0")] is FAIL


NPU_TABLE = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 25.3.0                   Version: 25.3.0                                               |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B3               | {health:<13} | 96.7        {heat:<17} 0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          3400 / 65536         |
+===========================+===============+====================================================+
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| No running processes found in NPU 0                                                            |
+===========================+===============+====================================================+
"""
BOARD = """\
        NPU ID                         : 0
        Serial Number                  : X1
        Software Version               : 25.3.0
        Firmware Version               : 7.8.0.5.216
        Compatibility                  : {fit}
        PCIe Bus Info                  : 0000:C1:00.0
        Chip Count                     : 1
"""
ECC = """\
        NPU ID                         : 0
        Chip Count                     : 1
        HBM Single Bit Error Count     : 0
        HBM Double Bit Error Count     : {errors}
        HBM Double Bit Isolated Pages Count : 0
"""


def ascend(
    bare: Any, *, health: str = "OK", heat: str = "41", fit: str = "OK", errors: int = 0
) -> Any:
    node = bare(node_sku="atlas-800t-a2", node_accelerator_count=1)
    node.command("npu-smi info", NPU_TABLE.format(health=health, heat=heat))
    for name in node.results:
        if "npu-smi info -t" in name:
            topic = {"board": BOARD.format(fit=fit), "ecc": ECC.format(errors=errors)}
            text = next((text for word, text in topic.items() if f"sh {word} " in name), "")
            node.results[name] = [
                {"name": "davinci0", "status": "ok", "text": text, "code": 0}
            ]  # fmt: skip
    node.module("drv_davinci_intf_host")
    node.bus(
        "0000:c1:00.0", "19e5:d802", "120000", driver="devdrv_device_driver", speed="16.0 GT/s PCIe"
    )
    return node


def test_a_sound_ascend_node_has_no_failure(bare):
    assert FAIL not in ascend(bare).bad().values()


@pytest.mark.parametrize(
    ("changes", "check", "outcome"),
    [
        ({"health": "Alarm"}, "health", FAIL),
        ({"health": "Warning"}, "health", WARN),
        ({"health": "Unknown"}, "health", UNKNOWN),
        ({"fit": "NOK"}, "firmware_state", FAIL),
        ({"errors": 3}, "ecc_errors", FAIL),
        ({"heat": "99"}, "temperature", WARN),
    ],
)
def test_one_fault_of_an_ascend_card(bare, changes, check, outcome):
    assert ascend(bare, **changes).bad()[(f"accelerator.{check}", "0000:c1:00.0")] is outcome


GAUDI = """\
+-----------------------------------------------------------------------------+
| HL-SMI Version:                              hl-1.23.0-fw-61.0.2.0          |
| Driver Version:                                     1.23.0-94aac46          |
|-------------------------------+----------------------+----------------------+
| AIP  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | AIP-Util  Compute M. |
|===============================+======================+======================|
|   0  HL-325              N/A  | 0000:b3:00.0     N/A | {ecc:>19}  |
| N/A   {heat}   N/A    82W / 900W |    768MiB /131072MiB |     0%           N/A |
|===============================+======================+======================+
| Compute Processes:                                               AIP Memory |
|  AIP       PID   Type   Process name                             Usage      |
|=============================================================================|
|   0        N/A   N/A    N/A                                      N/A        |
+=============================================================================+
"""


@pytest.mark.parametrize(
    ("ecc", "heat", "check", "outcome"),
    [
        ("0", "36C", "ecc_errors", None),
        ("5", "36C", "ecc_errors", FAIL),
        ("0", "95C", "temperature", WARN),
    ],
)
def test_a_gaudi_is_judged_from_its_table(bare, ecc, heat, check, outcome):
    node = bare(node_sku="gaudi3-8", node_accelerator_count=1)
    node.command("hl-smi", GAUDI.format(ecc=ecc, heat=heat))
    node.module("habanalabs", "1.23.0-94aac46")
    node.bus("0000:b3:00.0", "1da3:1060", "120000", driver="habanalabs")
    found = node.verdicts()[(f"accelerator.{check}", "0000:b3:00.0")].outcome
    assert found is (outcome or Outcome.PASS)
    assert node.verdicts()[("accelerator.count", "bus")].outcome is Outcome.PASS


def test_an_intel_gpu_is_judged_by_its_tools_health(bare):
    node = bare()
    device = {"device_id": 0, "device_name": "Max 1550", "pci_bdf_address": "0000:4d:00.0"}
    node.command("xpu-smi discovery -j", json.dumps({"device_list": [device]}))
    health = {"device_id": 0, "memory": {"status": "Critical", "description": "bad"}}
    node.command("xpu-smi health -d -1", json.dumps({"device_list": [health]}))
    node.bus("0000:4d:00.0", "8086:0bd5", "38000", driver="xe")
    assert node.bad()[("accelerator.health", "0000:4d:00.0")] is FAIL


def test_a_driver_that_is_not_loaded_is_named(bare):
    node = mi300x(bare)
    node.put("file /sys/module/amdgpu/initstate", "", status="absent")
    node.command(
        "amd-smi static --json", '{"error": "Driver not initialized (amdgpu not found in modules)"}'
    )
    bad = node.bad()
    assert bad[("accelerator.driver", "amd")] is FAIL
    assert bad[("accelerator.count", "amd")] is UNKNOWN
