"""amd-smi, rocm-smi, RVS and the RAS report: forms and faults that the captures do not show."""

from __future__ import annotations

from pathlib import Path

import pytest

from hfprov.errors import NotUnderstoodError
from hfprov.evidence import amd_smi, rccl_ras, rocm_smi, rvs
from hfprov.evidence.amd_smi_facts import PageState, PortState
from hfprov.evidence.failures import FailureKind, ToolFailure

SAMPLES = Path(__file__).parents[2] / "data" / "captures_other_samples"


def sample(name):
    return (SAMPLES / name).read_text()


def test_an_error_marker_stays_with_its_gpu_and_the_others_are_read():
    facts = amd_smi.parse(sample("amd-smi__metric.txt"))
    healthy, broken = facts.gpus
    assert healthy.errors == ()
    assert healthy.power.socket_w == 142
    assert healthy.temperature.hotspot_c == 41
    assert broken.power.socket_w is None
    assert {error.field for error in broken.errors} == {"usage.gfx_activity", "power.socket_power"}
    assert {error.text for error in broken.errors} == {"ERR!"}
    assert broken.temperature.hotspot_c == 40


def test_metric_counts_clocks_and_memory():
    healthy, broken = amd_smi.parse(sample("amd-smi__metric.txt")).gpus
    assert (healthy.ecc.correctable, healthy.ecc.uncorrectable) == (2, 1)
    assert healthy.ecc.blocks[0].uncorrectable == 1
    assert (broken.pcie.width, broken.pcie.speed_gt_s, broken.pcie.replay_count) == (8, 16, 7)
    gfx, memory = healthy.clocks
    assert (gfx.name, gfx.mhz, gfx.max_mhz, gfx.deep_sleep) == ("gfx_0", 132, 2100, True)
    assert memory.locked is None
    assert (healthy.vram.total_mib, healthy.vram.used_mib) == (196592, 284)


def test_warnings_before_the_answer_are_notes():
    facts = amd_smi.parse(sample("amd-smi__metric.txt"))
    assert facts.notes[0].startswith("WARNING: User is missing")
    assert facts.complete


def test_a_last_gpu_that_lacks_lines_makes_the_document_incomplete():
    lines = sample("amd-smi__metric.txt").splitlines(keepends=True)
    for cut in range(1, 25):
        try:
            facts = amd_smi.parse("".join(lines[:-cut]))
        except NotUnderstoodError:
            continue
        assert not facts.complete, f"{cut} lines fewer look whole"


def test_xgmi_ports_and_a_port_that_is_down():
    facts = amd_smi.parse(sample("amd-smi__xgmi.txt"))
    up, down, off = PortState.UP, PortState.DOWN, PortState.DISABLED
    assert facts.gpus[0].xgmi.ports == (off, up, up, down)
    assert facts.gpus[1].xgmi.ports == (up, off, up, up)
    assert facts.gpus[1].xgmi.max_bandwidth_gbit_s == 512


def test_xgmi_table_that_is_cut_is_refused():
    lines = sample("amd-smi__xgmi.txt").splitlines(keepends=True)
    for end in range(2, 8):
        with pytest.raises(NotUnderstoodError):
            amd_smi.parse("".join(lines[:end]))


def test_bad_pages():
    first, second, third = amd_smi.parse(sample("amd-smi__bad_pages.txt")).gpus
    assert first.bad_pages.available
    assert first.bad_pages.pages == ()
    assert [page.address for page in second.bad_pages.pages] == ["0x7f3a2000", "0x7f3a3000"]
    assert second.bad_pages.pages[0].state is PageState.RETIRED
    assert not third.bad_pages.available


@pytest.mark.parametrize(("said", "fact"), [("TRUE", True), ("False", False), ("N/A", None)])
def test_more_bad_pages_than_the_board_allows(said, fact):
    text = (
        "GPU: 0\n    BUS:\n        BDF: 0000:05:00.0\n"
        f"    RAS:\n        BAD_PAGE_THRESHOLD: 8\n        BAD_PAGE_THRESHOLD_EXCEEDED: {said}\n"
    )
    gpu = amd_smi.parse(text).gpus[0]
    assert gpu.ecc is not None
    assert gpu.ecc.too_many_bad_pages is fact
    assert gpu.errors == ()


def test_csv_is_read_like_text():
    first, second = amd_smi.parse(sample("amd-smi__metric.csv")).gpus
    assert first.power.socket_w == 142
    assert first.ecc.uncorrectable == 1
    assert first.clocks[0].max_mhz == 2100
    assert (second.index, second.pcie.width, second.temperature.memory_c) == (1, 16, 34)
    assert first.errors == second.errors == ()


def test_csv_row_with_a_column_missing_is_refused():
    text = sample("amd-smi__metric.csv").replace(",34,16", ",16")
    with pytest.raises(NotUnderstoodError, match="Line 3"):
        amd_smi.parse(text)


def test_a_default_screen_of_a_gpu_without_partitions_and_sensors():
    text = sample("amd-smi__screen.txt").replace("     SPX/NPS1", "          N/A")
    text = text.replace("136/750 W", "N/A/750 W").replace("   284/196592 MB", "   N/A/196592 MB")
    gpu = amd_smi.parse(text).gpus[0]
    assert gpu.partition is None
    assert (gpu.power is None or gpu.power.socket_w is None, gpu.vram.total_mib) == (True, 196592.0)
    assert gpu.vram.used_mib is None
    assert gpu.errors == ()


def test_monitor_of_a_gpu_that_tells_no_memory():
    table = "GPU  POWER   GPU_T   GFX%   VRAM_USAGE\n  0   30 W    40 C    0 %   {}\n"
    (gpu,) = amd_smi.parse(table.format("N/A")).gpus
    assert (gpu.vram, gpu.errors) == (None, ())
    (gpu,) = amd_smi.parse(table.format("0.5/ 64.0 GB")).gpus
    assert (gpu.vram.used_mib, gpu.vram.total_mib) == (512.0, 65536.0)


def test_default_screen():
    facts = amd_smi.parse(sample("amd-smi__screen.txt"))
    assert facts.versions.driver == "6.14.5"
    assert facts.versions.rocm == "7.0.0"
    first, second = facts.gpus
    assert (first.identity.bdf, first.power.socket_w, first.vram.used_mib) == (
        "0000:05:00.0", 136, 284,
    )  # fmt: skip
    assert second.ecc.uncorrectable == 3
    assert second.partition.memory == "NPS1"
    assert facts.complete


def test_monitor_of_rocm_64():
    first, second = amd_smi.parse(sample("amd-smi__monitor.txt")).gpus
    assert first.vram.total_mib == 192 * 1024
    assert second.vram.used_mib == 12.5 * 1024
    assert second.usage.gfx_percent == 97
    assert second.temperature.hotspot_c == 40


def test_json_of_rocm_7():
    (gpu,) = amd_smi.parse(sample("amd-smi__static.json")).gpus
    assert gpu.software.vbios_version == "022.040.003.042.000001"
    assert gpu.limits.max_power_w == 750
    assert gpu.partition.compute == "SPX"
    assert gpu.pcie.max_speed_gt_s == 32
    assert gpu.ecc.blocks[0].state == "ENABLED"
    assert gpu.processes == ()
    assert [each.name for each in gpu.firmware] == ["CP_MEC1", "RLC"]
    (violation,) = gpu.violations
    assert (violation.accumulated, violation.active, violation.activity_percent) == (3, True, 12)
    assert gpu.errors == ()


def test_firmware_text_and_version_line():
    (gpu,) = amd_smi.parse(sample("amd-smi__firmware.txt")).gpus
    assert [(each.name, each.version) for each in gpu.firmware] == [
        ("CP_MEC1", "166"),
        ("RLC", None),
    ]
    facts = amd_smi.parse(
        "AMDSMI Tool: 24.7.1+0012a68 | AMDSMI Library version: 24.7.1.0 | ROCm version: 6.3.1\n"
    )
    assert (facts.versions.tool, facts.versions.rocm) == ("24.7.1+0012a68", "6.3.1")
    assert facts.gpus == ()


def test_partition_table():
    first, second = amd_smi.parse(sample("amd-smi__partition.txt")).gpus
    assert (first.partition.compute, first.partition.memory) == ("SPX", "NPS1")
    assert (second.partition.compute, second.partition.memory) == ("CPX", "NPS4")
    assert (first.identity.partition_id, second.identity.partition_id) == (0, None)
    assert first.errors == second.errors == ()


@pytest.mark.parametrize(
    ("line", "processes"),
    [("PROCESS_INFO: No running processes detected", ()), ("PROCESS_INFO: N/A", None)],
)
def test_no_processes_and_no_answer_are_not_the_same(line, processes):
    (gpu,) = amd_smi.parse(f"GPU: 0\n    {line}\n").gpus
    assert gpu.processes == processes


def test_truncated_json_is_refused():
    text = sample("amd-smi__static.json")
    for end in range(0, len(text) - 3, 97):
        with pytest.raises(NotUnderstoodError):
            amd_smi.parse(text[:end])


def test_the_last_element_of_a_cut_list_is_not_the_document():
    gpus = ",\n".join(f'{{\n"gpu": {n},\n"power": {{\n"socket_power": 1\n}}\n}}' for n in range(3))
    lines = f"[\n{gpus}\n]\n".splitlines(keepends=True)
    assert len(amd_smi.parse("".join(lines)).gpus) == 3
    for end in range(1, len(lines)):
        with pytest.raises(NotUnderstoodError):
            amd_smi.parse("".join(lines[:end]))


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (("ERROR:root:Unable to detect any GPU devices, check amdgpu version and module status "
         "(sudo modprobe amdgpu)"), FailureKind.NO_DEVICES),
        ("No AMD GPUs detected", FailureKind.NO_DEVICES),
        ("ERROR:root:Driver not initialized (amdgpu not found in modules)",
         FailureKind.DRIVER_NOT_LOADED),
        (("amdsmi.amdsmi_exception.AmdSmiLibraryException: Error code:\n\t34 | "
         "AMDSMI_STATUS_DRIVER_NOT_LOADED"), FailureKind.DRIVER_NOT_LOADED),
        ("Can not find a device: GPU '9' Error code: -3", FailureKind.NO_DEVICES),
        ('{"error": "Can not find a device: GPU \'9\'", "code": -3}', FailureKind.NO_DEVICES),
        ("error,code\nCommand 'x' is invalid. Run '--help' for more info., -1", FailureKind.OTHER),
        ("[]", FailureKind.NO_DEVICES),
        ("bash: amd-smi: command not found", FailureKind.TOOL_MISSING),
        ('Traceback (most recent call last):\n  File "x", line 1', FailureKind.TOOL_CRASHED),
    ],
)  # fmt: skip
def test_amd_smi_failures_are_typed(said, kind):
    failure = amd_smi.parse(said)
    assert isinstance(failure, ToolFailure)
    assert failure.kind is kind


def test_a_line_that_is_not_understood_is_named():
    with pytest.raises(NotUnderstoodError, match=r"Line 3 .* 'KEY: value'"):
        amd_smi.parse("GPU: 0\n    ASIC:\n    ??? garbled\n")


def test_rocm_smi_lines_ras_and_trouble():
    facts = rocm_smi.parse(sample("rocm-smi__all.txt"))
    assert facts.driver_version == "6.3.6"
    assert facts.complete
    first, second = facts.cards
    assert (first.edge_c, first.junction_c, first.bdf) == (31, 34, "0000:1E:00.0")
    assert [(b.name, b.correctable, b.uncorrectable) for b in first.ras] == [
        ("UMC", 0, 0), ("SDMA", None, None),
    ]  # fmt: skip
    assert second.ras[0].uncorrectable == 2
    assert second.errors[0].text == "get_temp, Unknown error"
    assert second.edge_c == 30


def test_rocm_smi_bad_pages():
    text = (
        "=== ROCm System Management Interface ===\n\nGPU[0]: \tALL PAGES INFO\n"
        "    Page address     Page size        Status\n"
        "         0x5abc1        0x1000      reserved\n         0x5abc2        0x1000  pending\n"
        "\nGPU[3]: \tPENDING PAGES INFO\n         0x5abc3        0x1000  pending\n"
        "=== End of ROCm SMI Log ===\n"
    )
    first, second = rocm_smi.parse(text).cards
    assert [(page.address, page.status) for page in first.bad_pages] == [
        ("0x5abc1", "reserved"),
        ("0x5abc2", "pending"),
    ]
    assert (second.index, len(second.bad_pages), second.errors) == (3, 1, ())


def test_rocm_smi_without_its_end_is_incomplete():
    text = sample("rocm-smi__all.txt")
    assert not rocm_smi.parse(text[: text.index("Driver version")]).complete


def test_rocm_smi_concise_table_with_an_error_marker():
    facts = rocm_smi.parse(sample("rocm-smi__concise.txt"))
    first, second = facts.cards
    assert (first.junction_c, first.average_power_w, first.max_power_w) == (37, 133, 750)
    assert (first.memory_partition, first.compute_partition) == ("NPS1", "SPX")
    assert second.junction_c is None
    assert second.errors[0].text == "ERR"
    assert second.average_power_w == 131
    assert facts.complete
    text = sample("rocm-smi__concise.txt")
    assert not rocm_smi.parse(text[: text.rindex("===== End")]).complete


ROCM_END = "=== End of ROCm SMI Log ==="


def test_rocm_smi_complaints_before_the_concise_table_do_not_hide_it():
    facts = rocm_smi.parse(
        "=== Concise Info ===\n"
        "GPU[0]\t\t: get_power_avg, Not supported on the given system\n"
        "Exception caught: map::at\n"
        "ERROR: GPU[0]\t: sclk clock is unsupported\n"
        "GPU[0]\t\t: something broke\n"
        "GPU  Temp (DieEdge)  AvgPwr  SCLK  MCLK    Fan  Perf  PwrCap       VRAM%  GPU%\n"
        f"0    51.0c           N/A     None  900Mhz  0%   auto  Unsupported   7%   3%\n{ROCM_END}\n"
    )
    (card,) = facts.cards
    assert (card.edge_c, card.gfx_percent, card.memory_clock_mhz) == (51.0, 3.0, 900.0)
    assert (card.max_power_w, card.average_power_w) == (None, None)
    assert [error.text for error in card.errors] == ["something broke"]


@pytest.mark.parametrize(
    ("sensor", "edge", "junction"), [("Edge", 44.0, None), ("Junction", None, 44.0)]
)
def test_rocm_smi_concise_table_of_two_lines_a_gpu(sensor, edge, junction):
    facts = rocm_smi.parse(
        "Device  [Model : Revision]    Temp    Power     Partitions  GPU%\n"
        f"        Name (20 chars)       ({sensor})  (Socket)  (Mem, Compute)\n"
        "=========\n"
        "0       [0x74a1 : 0x00]       44.0°C  90.0W     NPS1, SPX   1%\n"
        "        Some Accelerator [Ac\n"
        "1       [0x74a1 : 0x00]       44.0°C  91.0W     N/A, N/A    2%\n"
        f"        Some Accelerator [Ac\n=========\n{ROCM_END}\n"
    )
    assert [(card.index, card.gfx_percent) for card in facts.cards] == [(0, 1.0), (1, 2.0)]
    first, second = facts.cards
    assert (first.edge_c, first.junction_c) == (edge, junction)
    assert (first.device_id, first.name) == ("0x74a1", "Some Accelerator [Ac")
    assert (first.memory_partition, first.compute_partition) == ("NPS1", "SPX")
    assert (second.memory_partition, second.compute_partition) == (None, None)


def test_rocm_smi_what_was_set_is_no_error():
    facts = rocm_smi.parse(f"=====\nGPU[0]\t: Successfully set max sclk\n{ROCM_END}\n")
    assert facts.cards[0].errors == ()


def test_rocm_smi_csv():
    first, second = rocm_smi.parse(sample("rocm-smi__temp.csv")).cards
    assert (first.edge_c, second.edge_c, second.bdf) == (31, None, "0000:22:00.0")


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("ERROR:root:Driver not initialized (amdgpu not found in modules)",
         FailureKind.DRIVER_NOT_LOADED),
        ("cat: /sys/module/amdgpu/initstate: No such file or directory",
         FailureKind.DRIVER_NOT_LOADED),
        ("WARNING: No JSON data to report", FailureKind.NO_DEVICES),
        ("{}", FailureKind.NO_DEVICES),
    ],
)  # fmt: skip
def test_rocm_smi_failures_are_typed(said, kind):
    assert rocm_smi.parse(said).kind is kind


def test_rvs_verdicts_and_summary():
    facts = rvs.parse(sample("rvs__summary.txt"))
    stress, copies = facts.actions
    assert [(each.gpu, each.passed) for each in stress.outcomes] == [
        ("42583", True), ("36479", False),
    ]  # fmt: skip
    assert stress.passed is False
    assert copies.bandwidths[0].gbs == 61.370
    assert copies.passed is None
    assert [(row.action, row.result) for row in facts.summary] == [
        ("iet-stress-750W", "FAIL"), ("xgmi_d2d", "PASS"),
    ]  # fmt: skip


def test_rvs_gpu_without_a_verdict_is_unfinished_and_nothing_passed():
    text = sample("rvs__summary.txt")
    before_verdicts = text[: text.index("[RESULT] [302347.727817]")]
    (action,) = rvs.parse(before_verdicts).actions
    assert action.unfinished_gpus == ("36479",)
    assert action.passed is None


def test_rvs_error_line_fails_its_action():
    log = (
        "[RESULT] [1.0] Action name :mem\n[RESULT] [1.1] Module name :mem\n"
        "[RESULT] [1.2] [mem] mem Test 1 : PASS\n[ERROR ] [1.3] [mem] mem 3254 found 4 errors\n"
    )
    (action,) = rvs.parse(log).actions
    assert action.passed is False
    assert action.errors == ("[mem] mem 3254 found 4 errors",)


def test_rvs_open_summary_is_no_summary():
    text = sample("rvs__summary.txt").rstrip()
    assert rvs.parse(text).summary is not None
    assert rvs.parse(text[: text.rindex("+----")]).summary is None


def test_rvs_summary_alone_is_read_and_an_open_one_is_refused():
    text = sample("rvs__summary.txt").rstrip()
    table = text[text.index("+==") :]
    facts = rvs.parse(table)
    assert facts.actions == ()
    assert [row.result for row in facts.summary] == ["FAIL", "PASS"]
    with pytest.raises(NotUnderstoodError, match="no whole summary"):
        rvs.parse(table[: table.rindex("+----")])


@pytest.mark.parametrize(
    ("line", "passed"),
    [
        ("[a] gst 3254 Gflops target met: TRUE", True),
        ("[a] gst 3254 Gflops target met :FALSE", False),
        ("[a] smqt 3254 pass: false", False),
        ("[a] peqt true", True),
        ("[a] [GPU:: 42583] GFLOPS 10 Target GFLOPS: 0 met: TRUE", True),
        ("[a] mem Test 3 : FAIL", False),
        ("[a] gm 57875 temp violations 0", True),
        ("[a] gm 57875 temp violations 3", False),
    ],
)
def test_rvs_verdict_lines_of_each_module(line, passed):
    (action,) = rvs.parse(f"[RESULT] [1.0] Action name :a\n[RESULT] [2.0] {line}\n").actions
    assert [outcome.passed for outcome in action.outcomes] == [passed]


def test_ras_report_cut_before_its_errors_is_refused():
    text = sample("rccl-ras__text.txt")
    assert rccl_ras.parse(text).problems == ()
    with pytest.raises(NotUnderstoodError, match="'Warnings'"):
        rccl_ras.parse(text[: text.index("Warnings")])
    with pytest.raises(NotUnderstoodError, match="'Errors'"):
        rccl_ras.parse(text[: text.index("Errors\n=====")])


def test_ras_json_counts_what_is_missing():
    text = sample("rccl-ras__json.json")
    assert rccl_ras.parse(text).problems == ()
    assert rccl_ras.parse(text).nodes == 2
    (problem,) = rccl_ras.parse(text.replace('"size": 2', '"size": 3')).problems
    assert problem == "Communicator 0x1 lists 2 of 3 ranks."
    assert rccl_ras.parse('{"nccl_version": "2.28.9", "communicators": []}').problems


def test_csv_with_a_list_that_is_not_quoted():
    facts = amd_smi.parse(
        "gpu,gfx_usage,mm_usage_list,mem_usage,fb_total,fb_used\n"
        "0,98,[0, 0],7,1000,10\n1,97,N/A,8,1000,20\n"
    )
    first, second = facts.gpus
    assert (first.usage.gfx_percent, first.usage.memory_percent) == (98.0, 7.0)
    assert (second.usage.gfx_percent, second.vram.total_mib, second.vram.used_mib) == (97, 1000, 20)


TOPO = (
    "=== Weight between two GPUs ===\n"
    "       GPU0         GPU1         \nGPU0   0            15\nGPU1   15           0\n"
    "=== Link Type between two GPUs ===\n"
    "ERROR: GPU[1]   : Cannot read Link Type\n"
    "       GPU0         GPU1\nGPU0   0            XXXX\nGPU1   XXXX         0\n"
    "=== Numa Nodes ===\nGPU[0]          : (Topology) Numa Node: 0\n"
)


def test_rocm_smi_matrices_of_the_topology():
    facts = rocm_smi.parse(f"{TOPO}{ROCM_END}\n")
    assert facts.links == (rocm_smi.Link(0, 1, weight=15),)
    assert facts.cards[0].numa_node == 0


def test_rocm_smi_matrix_that_is_cut_is_refused():
    with pytest.raises(NotUnderstoodError, match="2 rows of the matrix"):
        rocm_smi.parse(TOPO[: TOPO.index("GPU1   XXXX")])
    with pytest.raises(NotUnderstoodError, match="a row of 2 cells"):
        rocm_smi.parse(TOPO.replace("GPU1   XXXX         0", "GPU1   XXXX"))
