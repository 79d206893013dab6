"""One thing wrong with a sound node: the right check fails, for the right device, and no other."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hfprov.verdict import NotApplicable, Outcome

FAIL, WARN, UNKNOWN = Outcome.FAIL, Outcome.WARN, Outcome.UNKNOWN
SMI = "run nvidia-smi -q -x"
NVLINK = "run nvidia-smi nvlink -s"
FIRST, SECOND = "0000:19:00.0", "0000:29:00.0"
FABRIC = (
    "run systemctl show --property=Id,LoadState,ActiveState,SubState,UnitFileState "
    "nvidia-fabricmanager.service"
)


def test_a_sound_node_passes(h100):
    assert h100.bad() == {}
    passes = [key for key, one in h100.verdicts().items() if one.outcome is Outcome.PASS]
    assert len(passes) > 100


SPOILT = [
    ("ecc_mode", "<current_ecc>Enabled", "<current_ecc>Disabled", FAIL),
    ("ecc_mode", "<pending_ecc>Enabled", "<pending_ecc>Disabled", FAIL),
    ("ecc_errors", "<dram_uncorrectable>0", "<dram_uncorrectable>2", FAIL),
    ("ecc_errors", "<sram_threshold_exceeded>No", "<sram_threshold_exceeded>Yes", FAIL),
    ("memory_repair", "<remapped_row_pending>No", "<remapped_row_pending>Yes", WARN),
    ("memory_repair", "<remapped_row_failure>No", "<remapped_row_failure>Yes", FAIL),
    ("recovery", "<gpu_recovery_action>None", "<gpu_recovery_action>Reset", FAIL),
    ("recovery", "<gpu_recovery_action>None", "<gpu_recovery_action>Sacrifice a goat", FAIL),
    ("throttling", "hw_slowdown>Not Active", "hw_slowdown>Active", FAIL),
    ("throttling", "sw_thermal_slowdown>Not Active", "sw_thermal_slowdown>Active", FAIL),
    ("temperature", "<gpu_temp_tlimit>56 C", "<gpu_temp_tlimit>-3 C", FAIL),
    ("persistence", "<persistence_mode>Enabled", "<persistence_mode>Disabled", FAIL),
    ("partitions", "<current_mig>Disabled", "<current_mig>Enabled", FAIL),
    ("partitions", "<compute_mode>Default", "<compute_mode>Prohibited", FAIL),
    ("pcie_replays", "<replay_counter>0", "<replay_counter>5000", WARN),
    ("pcie_replays", "<replay_rollover_counter>0", "<replay_rollover_counter>1", FAIL),
    ("pcie_speed", "<max_link_gen>5", "<max_link_gen>5", None),
    ("firmware_same", "<vbios_version>96.00.74.00.0D", "<vbios_version>96.00.68.00.01", FAIL),
    ("fabric_manager", "<state>Completed", "<state>In Progress", FAIL),
    ("answers", "<gpu_temp>31 C", "<gpu_temp>ERR!", FAIL),
    ("answers", "<gpu_util>0 %", "<gpu_util>[Unknown Error]", FAIL),
    ("answers", "<addressing_mode>None", "<addressing_mode>Unknown Error", WARN),
    ("answers", "<sm_clock>345 MHz", "<sm_clock>brisk", UNKNOWN),
    ("processes", "<used>1 MiB", "<used>40000 MiB", WARN),
]


@pytest.mark.parametrize(
    ("check", "old", "new", "outcome"), SPOILT, ids=[f"{c}-{n}" for c, _, n, _ in SPOILT]
)
def test_one_spoilt_value_is_found_at_its_device_only(h100, check, old, new, outcome):
    h100.replace(SMI, old, new, count=1)
    wanted = {} if outcome is None else {(f"accelerator.{check}", FIRST): outcome}
    assert h100.bad() == wanted


def test_three_of_four_on_the_bus_is_found_although_every_tool_agrees(h100, addresses):
    h100.off_the_bus(addresses[7])
    h100.replace(SMI, "<attached_gpus>8", "<attached_gpus>7")
    [result] = h100.results[SMI]
    start = result["text"].rindex("<gpu id=")
    result["text"] = result["text"][:start] + "</nvidia_smi_log>\n"
    bad = h100.bad()
    assert bad[("accelerator.count", "bus")] is FAIL
    assert h100.verdicts()[("accelerator.count", "nvidia")].outcome is Outcome.PASS
    assert [key for key, outcome in bad.items() if outcome is FAIL] == [
        ("accelerator.count", "bus")
    ]


def test_a_gpu_that_the_driver_does_not_have_fails_by_its_address(h100, addresses):
    h100.replace(SMI, "<attached_gpus>8", "<attached_gpus>7")
    [result] = h100.results[SMI]
    start = result["text"].rindex("<gpu id=")
    result["text"] = result["text"][:start] + "</nvidia_smi_log>\n"
    bad = h100.bad()
    assert bad[("accelerator.answers", addresses[7])] is FAIL
    assert bad[("accelerator.count", "nvidia")] is FAIL


def test_a_node_that_nobody_declared_cannot_pass(h100):
    h100.values["node_sku"] = ""
    assert h100.bad()[("accelerator.sku", "")] is UNKNOWN
    assert "node_sku" in h100.verdicts()[("accelerator.sku", "")].reason


def test_none_declared_and_gpus_there_fails(h100):
    h100.values["node_sku"] = "none"
    assert h100.bad()[("accelerator.sku", "")] is FAIL


def test_a_sku_that_nobody_knows_is_unknown_everywhere(h100):
    h100.values["node_sku"] = "hgx-h100-9"
    outcomes = {k: v for k, v in h100.bad().items() if k[0].startswith("accelerator.")}
    assert set(outcomes.values()) == {UNKNOWN}
    assert "hgx-h100-8" in h100.verdicts()[("accelerator.sku", "")].reason


def test_a_known_gap_is_declared_on_the_host(h100, addresses):
    h100.off_the_bus(addresses[7])
    h100.values["node_accelerator_count"] = 7
    assert h100.verdicts()[("accelerator.count", "bus")].outcome is Outcome.PASS


def test_a_wrong_model_is_named(h100, addresses):
    h100.on_bus("uevent", addresses[3])["text"] = "PCI_CLASS=30200\nPCI_ID=10DE:2331\n"
    finding = h100.verdicts()[("accelerator.model", addresses[3])]
    assert (finding.outcome, finding.observed) == (FAIL, "H100 PCIe")


def test_a_missing_switch_is_found(h100):
    h100.off_the_bus("0000:a2:00.0")
    assert h100.bad() == {("accelerator.count", "switches"): FAIL}


def test_libraries_replaced_under_the_module_mean_a_reboot_not_no_gpu(h100):
    sentence = "Failed to initialize NVML: Driver/library version mismatch\n"
    h100.command("nvidia-smi -q -x", sentence, code=18)
    h100.command("nvidia-smi nvlink -s", sentence, code=18)
    h100.command("nvidia-smi topo -m", sentence, code=18)
    h100.results["list /usr/lib/*/libnvidia-ml.so.[0-9]*"] = []
    library = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.105.08"
    h100.files("list /usr/lib/*/libnvidia-ml.so.[0-9]*", **{library: ""})
    finding = h100.verdicts()[("accelerator.driver", "nvidia")]
    assert finding.outcome is FAIL
    assert "rebooted" in finding.reason
    assert "580.105.08" in finding.observed
    assert h100.verdicts()[("accelerator.count", "bus")].outcome is Outcome.PASS
    assert h100.bad()[("accelerator.ecc_errors", "nvidia")] is UNKNOWN
    assert [k for k, v in h100.bad().items() if v is FAIL] == [("accelerator.driver", "nvidia")]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"status": "timeout", "ms": 30000}, "deadline"),
        ({"text": ""}, "printed nothing"),
        ({"text": "garbage"}, "nvidia-smi"),
        ({"truncated": True}, "cut off"),
        ({"code": -9}, "-9"),
    ],
)
def test_a_tool_without_an_answer_is_unknown_everywhere(h100, change, words):
    h100.results[SMI][0].update(change)
    bad = h100.bad()
    assert bad[("accelerator.answers", "nvidia")] is UNKNOWN
    assert bad[("accelerator.ecc_errors", "nvidia")] is UNKNOWN
    assert FAIL not in bad.values()
    assert words in h100.verdicts()[("accelerator.answers", "nvidia")].reason


def test_text_helps_out_where_the_xml_cannot_be_read(h100):
    h100.results[SMI][0]["text"] = "<?xml version='1.0'?><nvidia_smi_log><broken"
    h100.command("nvidia-smi -q", "No devices were found\n", code=6)
    bad = h100.bad()
    assert bad[("accelerator.answers", "nvidia")] is FAIL
    assert bad[("accelerator.count", "nvidia")] is FAIL


def test_a_lost_gpu_named_in_a_sentence_fails_by_its_address(h100, addresses):
    sentence = (
        f"Unable to determine the device handle for GPU0000{addresses[2]}: GPU is lost.  "
        "Reboot the system to recover this GPU\n"
    )
    h100.command("nvidia-smi -q -x", sentence, code=15)
    assert h100.bad()[("accelerator.answers", addresses[2])] is FAIL


@pytest.mark.parametrize(
    ("name", "text", "check", "outcome"),
    [
        ("current_link_width", "8\n", "pcie_width", FAIL),
        ("current_link_width", "255\n", "answers", FAIL),
        ("aer_dev_fatal", "Undefined 0\nSDES 2\nTOTAL_ERR_FATAL 2\n", "aer", FAIL),
        ("aer_dev_nonfatal", "UnsupReq 3\nTOTAL_ERR_NONFATAL 3\n", "aer", None),
        ("aer_dev_nonfatal", "CmpltTO 1\nTOTAL_ERR_NONFATAL 1\n", "aer", FAIL),
    ],
)
def test_the_bus_itself_is_judged(h100, addresses, name, text, check, outcome):
    h100.on_bus(name, addresses[0])["text"] = text
    found = h100.verdicts()[(f"accelerator.{check}", addresses[0])].outcome
    assert found is (outcome or Outcome.PASS)


def test_a_slow_link_is_a_warning_when_idle_and_a_failure_under_load(h100, addresses):
    h100.on_bus("current_link_speed", addresses[0])["text"] = "2.5 GT/s PCIe\n"
    assert h100.bad() == {("accelerator.pcie_speed", addresses[0]): WARN}
    h100.replace(SMI, "<gpu_util>0 %", "<gpu_util>97 %", count=1)
    assert h100.bad() == {("accelerator.pcie_speed", addresses[0]): FAIL}


def test_a_slot_that_cannot_be_fast_fails_whatever_the_load(h100, addresses):
    h100.on_bus("current_link_speed", addresses[0])["text"] = "16.0 GT/s PCIe\n"
    h100.replace(SMI, "<max_link_gen>5", "<max_link_gen>4", count=1)
    assert h100.bad() == {("accelerator.pcie_speed", addresses[0]): FAIL}


@pytest.mark.parametrize(
    ("old", "new"),
    [("Link 7: 26.562 GB/s", "Link 7: <inactive>"), ("Link 7: 26.562 GB/s", "Link 7: 13.281 GB/s")],
)
def test_a_link_that_is_down_or_slow_fails(h100, old, new):
    h100.replace(NVLINK, old, new, count=1)
    assert h100.bad() == {("accelerator.interconnect", FIRST): FAIL}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ActiveState=active\nSubState=running", "ActiveState=failed\nSubState=failed"),
        ("LoadState=loaded", "LoadState=not-found"),
    ],
)
def test_a_fabric_manager_that_does_not_run_fails(h100, old, new):
    h100.replace(FABRIC, old, new)
    assert h100.bad() == {("accelerator.fabric_manager", "service"): FAIL}


def test_a_fabric_manager_of_another_version_fails_twice(h100):
    h100.command("nv-fabricmanager --version", "Fabric Manager version is : 580.82.07\n")
    assert h100.bad() == {
        ("accelerator.fabric_manager", "service"): FAIL,
        ("accelerator.compatibility", "nvidia nvidia-fabric-manager"): FAIL,
    }


def test_a_driver_that_nobody_vouches_for_is_unknown(h100):
    for read in (SMI, "file /sys/module/nvidia/version", "run modinfo -F version nvidia"):
        h100.replace(read, "580.95.05", "999.1.2")
    assert h100.bad()[("accelerator.compatibility", "nvidia")] is UNKNOWN


def test_a_far_nic_is_a_warning(h100):
    h100.replace("run nvidia-smi topo -m", "PXB", "NODE")
    bad = h100.bad()
    assert len(bad) == 8
    assert set(bad.values()) == {WARN}
    assert {check for check, _ in bad} == {"accelerator.nic_distance"}


def test_without_a_direct_way_data_goes_through_the_host(h100):
    h100.command("modinfo -F license nvidia", "NVIDIA\n")
    assert h100.bad() == {("accelerator.direct_rdma", ""): FAIL}
    h100.put("file /sys/module/nvidia_peermem/initstate", "live\n")
    assert h100.bad() == {}


def test_too_little_host_memory_is_a_warning(h100):
    h100.put("file /proc/meminfo", f"MemTotal:       {512 * 1024**2} kB\n")
    assert h100.bad() == {("accelerator.host_memory", ""): WARN}


def test_a_processor_that_does_not_show_is_missed(h100):
    h100.values["node_sku"] = "dgx-h100"
    assert h100.bad() == {}
    read = "glob /sys/devices/system/cpu/cpu[0-9]*/topology/physical_package_id"
    for result in h100.results[read]:
        result["text"] = "0\n"
    assert h100.bad() == {("accelerator.sockets", ""): FAIL}


def test_formats_are_judged_where_they_are_asked_for(h100, addresses):
    h100.values["node_required_formats"] = ["bf16", "fp4"]
    bad = h100.bad()
    assert bad == {("accelerator.formats", one): FAIL for one in addresses}


def test_in_a_container_the_bus_and_the_kernel_are_the_hosts(bare):
    node = bare(node_sku="none")
    node.put("systemd itself", "Virtualization=systemd-nspawn\n", code=0)
    node.bus(FIRST, "10de:2330")
    verdicts = node.verdicts()
    assert node.bad() == {}
    assert verdicts[("kernel_events.xid", "")].not_applicable is NotApplicable.CONTAINER
    hardware = verdicts[("accelerator.count", "")]
    assert hardware.not_applicable is NotApplicable.NO_SUCH_HARDWARE


def test_graphics_of_a_bmc_or_a_cpu_are_no_accelerators(bare):
    node = bare(node_sku="none")
    node.bus("0000:03:00.0", "1a03:2000", "30000", driver="ast")
    node.bus("0000:04:00.0", "19e5:1711", "30000", driver="hibmc-drm")
    node.bus("0000:05:00.0", "1002:13c0", "30000", driver="amdgpu")
    node.bus("0000:06:00.0", "8086:4944", "120000", driver="4xxx")
    assert node.bad() == {}


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_cut_never_turns_a_failure_into_a_pass(h100, data):
    """Any output of the node, cut anywhere: what failed fails or is unknown, never passes."""
    spoilt = data.draw(st.sampled_from([row for row in SPOILT if row[3] is FAIL]))
    check, old, new, _ = spoilt
    [result] = h100.results[SMI]
    whole = result["text"]
    try:
        spoiled = whole.replace(old, new, 1)
        result["text"] = spoiled[: data.draw(st.integers(0, len(spoiled) - 1))]
        found = {k: v for k, v in h100.verdicts().items() if k[0] == f"accelerator.{check}"}
        outcomes = {one.outcome for one in found.values()}
        assert outcomes & {FAIL, UNKNOWN}, (check, found)
    finally:
        result["text"] = whole


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(noise=st.text(max_size=300), at=st.integers(0, 10_000))
def test_hostile_text_never_makes_a_check_fail_itself(h100, noise, at):
    results: dict[str, Any] = h100.results
    for read in (SMI, NVLINK, "run nvidia-smi topo -m", FABRIC):
        [result] = results[read]
        whole = result["text"]
        place = at % len(whole)
        result["text"] = whole[:place] + noise + whole[place:]
        try:
            for one in h100.verdicts().values():
                assert "The check itself failed" not in one.reason
        finally:
            result["text"] = whole


def test_lists_of_clocks_are_passed_over_and_a_cut_inside_one_still_shows(h100):
    clocks = "<supported_clocks><supported_mem_clock/></supported_clocks>"
    h100.replace(SMI, "</gpu>", f"{clocks}</gpu>")
    assert h100.bad() == {}
    [result] = h100.results[SMI]
    result["text"] = result["text"][: result["text"].rindex("</supported_clocks>")]
    assert h100.bad()[("accelerator.answers", "nvidia")] is UNKNOWN
