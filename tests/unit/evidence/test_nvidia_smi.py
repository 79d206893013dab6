"""nvidia-smi: failures stay visible, healthy GPUs beside them are still read, half is not whole."""

from __future__ import annotations

import pytest

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.nvidia_smi.field_names import FACTS
from hfprov.evidence.nvidia_smi.forms import parse
from hfprov.evidence.nvidia_smi.gpu_facts import gpu
from hfprov.evidence.nvidia_smi.model import Gpu, GpuReport, NvidiaSmiFailure
from hfprov.evidence.nvidia_smi.values import find_pci_address, pci_address

XML = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
	<timestamp>Tue Jul 14 17:43:23 2026</timestamp>
	<driver_version>580.65.06</driver_version>
	<cuda_version>13.0</cuda_version>
	<attached_gpus>{attached}</attached_gpus>
{gpus}
</nvidia_smi_log>
"""
XML_GPU = """	<gpu id="00000000:{bus}:00.0">
		<product_name>NVIDIA H100 80GB HBM3</product_name>
		<uuid>GPU-{bus}</uuid>
		<a_tag_of_the_future><deep>7 furlongs</deep></a_tag_of_the_future>
		<ecc_errors><volatile><dram_uncorrectable>{ecc}</dram_uncorrectable></volatile></ecc_errors>
		<remapped_rows>
			<remapped_row_corr>0</remapped_row_corr>
			<remapped_row_pending>{pending}</remapped_row_pending>
			<remapped_row_failure>No</remapped_row_failure>
		</remapped_rows>
		<temperature><gpu_temp>{temp}</gpu_temp></temperature>
		<gpu_recovery_action>{action}</gpu_recovery_action>
		<fabric><state>{fabric}</state><status>N/A</status></fabric>
		<processes></processes>
	</gpu>"""


def xml(*gpus: dict[str, str], attached: int | None = None) -> str:
    usual = {"ecc": "0", "pending": "No", "temp": "31 C", "action": "None", "fabric": "Completed"}
    parts = [XML_GPU.format(**{"bus": f"{n:02X}", **usual, **one}) for n, one in enumerate(gpus, 1)]
    return XML.format(attached=len(gpus) if attached is None else attached, gpus="\n".join(parts))


TABLE_HEAD = """\
Tue Jul 14 09:00:43 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.90.07              Driver Version: 550.90.07      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
"""
TABLE_GOOD = """\
|   {index}  NVIDIA H100 80GB HBM3          On  |   00000000:{bus}:00.0 Off |                    0 |
| N/A   27C    P0             72W /  700W |       1MiB /  81559MiB |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
"""
TABLE_CRASHED = """\
|   {index}  ERR!                           On  |   00000000:{bus}:00.0 ERR! |                ERR! |
|ERR!  ERR! ERR!             ERR! / ERR! |       0MiB /  81559MiB |    ERR!      Default |
|                                         |                        |                 ERR! |
+-----------------------------------------+------------------------+----------------------+
"""
TABLE_END = """
+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |
|=========================================================================================|
|  No running processes found                                                             |
+-----------------------------------------------------------------------------------------+
"""


def test_every_name_of_a_field_leads_to_a_fact_that_exists():
    for fact in FACTS:
        target = Gpu()
        for part in fact.split("."):
            target = getattr(target, part)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("No devices were found\n", "no_devices"),
        ("Failed to initialize NVML: Driver/library version mismatch\n", "version_mismatch"),
        (
            (
                "Failed to initialize NVML: Driver/library version mismatch\n"
                "NVML library version: 550.54\n"
            ),
            "version_mismatch",
        ),
        ("Failed to initialize NVML: Driver Not Loaded\n", "driver_not_loaded"),
        ("Failed to initialize NVML: Unknown Error\n", "nvml_unknown_error"),
        ("Failed to initialize NVML: Insufficient Permissions\n", "permission"),
        ("Failed to initialize NVML: GPU access blocked by the operating system\n", "permission"),
        (
            (
                "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA "
                "driver. Make "
                "sure that the latest NVIDIA driver is installed and running.\n\n"
            ),
            "driver_not_loaded",
        ),
        (
            (
                "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure "
                "that the NVIDIA Display Driver is properly installed and present in your system.\n"
                "Please also try adding directory that contains libnvidia-ml.so to "
                "your system PATH.\n"
            ),
            "nvml_missing",
        ),
        ('Field "remapped_rows.foo" is not a valid field to query.\n', "invalid_query"),
        ("bash: line 1: nvidia-smi: command not found\n", "tool_missing"),
        ("sh: 1: nvidia-smi: not found\n", "tool_missing"),
        (
            (
                "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is "
                "lost.  Reboot the "
                "system to recover this GPU\n"
            ),
            "gpu_lost",
        ),
        (
            "Unable to determine the device handle for GPU0000:46:00.0: Unknown Error\n",
            "gpu_unreachable",
        ),
    ],
)
def test_a_sentence_of_failure_is_a_fact(text, kind):
    facts = parse(text)
    assert isinstance(facts, NvidiaSmiFailure)
    assert facts.kind == kind
    assert facts.message


def test_a_lost_gpu_is_named_by_its_address():
    facts = parse("Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.\n")
    assert facts.pci_address == "0000:3b:00.0"


def test_the_version_mismatch_says_which_library():
    facts = parse(
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.54\n"
    )
    assert "550.54" in facts.message


@pytest.mark.parametrize("text", ["", " \n\t\n", "hello\n", "\x00\x01", "OK", "\x1b[2J"])
def test_nothing_and_nonsense_are_refused(text):
    with pytest.raises(NotUnderstoodError):
        parse(text)


def test_xml_of_healthy_gpus():
    report = parse(xml({}, {}))
    assert isinstance(report, GpuReport)
    assert (len(report.gpus), report.attached_gpus, report.incomplete) == (2, 2, "")
    first = report.gpus[0]
    assert first.pci_address == "0000:01:00.0"
    assert first.temperature.gpu_c == 31
    assert first.ecc.volatile.uncorrectable == 0
    assert first.remapped_rows.pending is False
    assert first.recovery_action == "None"
    assert first.unknown_fields["a_tag_of_the_future/deep"] == "7 furlongs"
    assert not first.errors


def test_xml_of_one_sick_gpu_among_healthy_ones():
    report = parse(
        xml(
            {},
            {"temp": "GPU is lost", "ecc": "Unknown Error", "fabric": "In Progress"},
            {"pending": "Yes", "action": "Reset", "ecc": "12"},
        )
    )
    healthy, lost, pending = report.gpus
    assert not healthy.errors
    assert {(error.field, error.text) for error in lost.errors} == {
        ("temperature.gpu_c", "GPU is lost"),
        ("ecc.volatile.dram_uncorrectable", "Unknown Error"),
    }
    assert lost.temperature.gpu_c is None
    assert lost.pci_address == "0000:02:00.0"
    assert lost.fabric.state == "In Progress"
    assert pending.remapped_rows.pending is True
    assert pending.recovery_action == "Reset"
    assert pending.ecc.volatile.uncorrectable == 12


def test_a_missing_gpu_is_not_overlooked():
    report = parse(xml({}, {}, {}, attached=4))
    assert "4 GPUs are attached but 3 are reported" in report.incomplete


@pytest.mark.parametrize("count", ["", "N/A", "four"])
def test_xml_without_a_count_is_flagged(count):
    text = xml({}).replace(
        "<attached_gpus>1</attached_gpus>", f"<attached_gpus>{count}</attached_gpus>"
    )
    assert "attached_gpus" in parse(text).incomplete


def test_lines_around_the_xml_are_kept():
    text = (
        "WARNING: infoROM is corrupted at gpu 0000:02:00.0\n"
        + xml({}, {})
        + "Some note of a wrapper\n"
    )
    report = parse(text)
    assert report.errors[0].kind == "inforom_corrupted"
    assert report.errors[0].pci_address == "0000:02:00.0"
    assert report.notices == ("Some note of a wrapper",)
    assert len(report.gpus) == 2


LOST = "Unable to determine the device handle for GPU3: 0000:5F:00.0: Unknown Error\n"


@pytest.mark.parametrize(
    "rest",
    [
        "0, 00000000:01:00.0, NVIDIA A40\n1, 00000000:02:00.0, NVIDIA A40\n",
        "pid, process_name, used_gpu_memory [MiB]\n",
        "retired_pages.address, retired_pages.cause\n",
        "gpu_uuid, pid, gpu_utilization [%]\n",
        "GPU 0: NVIDIA H100 (UUID: GPU-1)\n\t Link 0: 26.562 GB/s\n",
        "# gpu    pwr\n# Idx      W\n    0     97\n",
        "\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-1\t0\n\nLegend:\n  X    = Self\n",
        "index, uuid\n0, GPU-1\n",
        "GPU 0: NVIDIA H100 (UUID: GPU-1)\n",
    ],
)
@pytest.mark.parametrize("before", [True, False])
def test_a_gpu_that_does_not_answer_is_seen_in_every_form(rest, before):
    facts = parse(LOST + rest if before else rest + LOST)
    seen = [error.pci_address for error in getattr(facts, "errors", ())]
    assert "0000:5f:00.0" in seen or "GPU3: 0000:5F:00.0" in facts.incomplete


def test_a_gpu_that_cannot_be_opened_is_an_error_of_the_report():
    text = "Unable to determine the device handle for GPU 0000:02:00.0: Unknown Error\n" + xml({})
    report = parse(text)
    assert report.errors[0].kind == "unreachable"
    assert len(report.gpus) == 1


def test_stopping_early_is_incomplete():
    report = parse(xml({}) + "Terminating early due to previous errors.\n")
    assert "stopped early" in report.incomplete


@pytest.mark.parametrize(
    "attack",
    [
        (
            '<?xml version="1.0"?><!DOCTYPE nvidia_smi_log [<!ENTITY a "aaaa"><!ENTITY b "&a;">]>'
            "<nvidia_smi_log><attached_gpus>&b;</attached_gpus></nvidia_smi_log>"
        ),
        (
            '<?xml version="1.0"?><!DOCTYPE nvidia_smi_log [<!ENTITY x SYSTEM "file:///etc/motd">]>'
            "<nvidia_smi_log><driver_version>&x;</driver_version></nvidia_smi_log>"
        ),
        "<!DOCTYPE nvidia_smi_log [<!ELEMENT a ANY>]><nvidia_smi_log></nvidia_smi_log>",
        "<nvidia_smi_log>" + "<a>" * 200_000 + "</a>" * 200_000 + "</nvidia_smi_log>",
        "<nvidia_smi_log><gpu></nvidia_smi_log>",
        "<nvidia_smi_log>&undefined;</nvidia_smi_log>",
        "<?xml version='1.0'?><other></other><nvidia_smi_log></nvidia_smi_log>",
        "<nvidia_smi_log>\ud800</nvidia_smi_log>",
    ],
    ids=["bomb", "file", "subset", "deep", "open", "undefined", "two roots", "surrogate"],
)
def test_dangerous_and_broken_xml_is_refused(attack):
    with pytest.raises(NotUnderstoodError):
        parse(attack)


@pytest.mark.parametrize("size", [9 * 1024 * 1024, 40 * 1024 * 1024])
def test_output_that_no_nvidia_smi_prints_is_refused_for_its_size(size):
    with pytest.raises(NotUnderstoodError, match="characters long"):
        parse("a" * size)


def test_table_with_a_crashed_gpu_still_has_the_others():
    text = (
        TABLE_HEAD
        + TABLE_GOOD.format(index=0, bus="19")
        + TABLE_CRASHED.format(index=1, bus="3B")
        + TABLE_GOOD.format(index=2, bus="4C")
        + TABLE_END
    )
    report = parse(text)
    assert report.incomplete == ""
    assert [one.index for one in report.gpus] == [0, 1, 2]
    good, crashed, other = report.gpus
    assert not good.errors
    assert not other.errors
    assert other.temperature.gpu_c == 27
    assert crashed.pci_address == "0000:3b:00.0"
    fields = {error.field for error in crashed.errors}
    assert {"name", "temperature.gpu_c", "ecc.volatile.uncorrectable_total"} <= fields
    assert crashed.temperature.gpu_c is None


def test_table_with_a_warning_after_it_and_indented_by_someone():
    text = TABLE_HEAD + TABLE_GOOD.format(index=0, bus="19") + TABLE_END
    text += "WARNING: infoROM is corrupted at gpu 0000:19:00.0\n"
    for report in (parse(text), parse("\n".join("    " + line for line in text.split("\n")))):
        assert report.incomplete == ""
        assert report.errors[0].kind == "inforom_corrupted"
        assert report.errors[0].pci_address == "0000:19:00.0"
        assert not report.gpus[0].errors


def test_table_that_ends_after_a_gpu_is_incomplete():
    text = TABLE_HEAD + TABLE_GOOD.format(index=0, bus="19")
    assert "list of processes" in parse(text).incomplete


def test_table_with_a_gap_in_the_indexes_is_incomplete():
    text = (
        TABLE_HEAD
        + TABLE_GOOD.format(index=0, bus="19")
        + TABLE_GOOD.format(index=2, bus="4C")
        + TABLE_END
    )
    assert "index 1 is missing" in parse(text).incomplete


def test_csv_with_lost_gpus():
    report = parse(
        "count, index, pci.bus_id, temperature.gpu, memory.total [MiB], ecc.mode.current, name\n"
        "3, 0, 00000000:01:00.0, 40, 81559 MiB, Enabled, NVIDIA H100\n"
        "3, 1, 00000000:02:00.0, [GPU is lost], [Unknown Error], [GPU requires "
        "reset], NVIDIA H100\n"
        "3, 2, 00000000:03:00.0, [N/A], 81559 MiB, [Not Supported], NVIDIA H100\n"
    )
    assert report.incomplete == ""
    good, lost, quiet = report.gpus
    assert good.memory.total_mib == 81559
    assert [error.text for error in lost.errors] == [
        "[GPU is lost]",
        "[Unknown Error]",
        "[GPU requires reset]",
    ]
    assert lost.ecc.mode_current is None
    assert not quiet.errors
    assert quiet.ecc.mode_current is None


def test_whatever_csv_puts_in_brackets_is_an_error_unless_it_means_none():
    report = parse("index, name, uuid\n0, [Some Error of Tomorrow], [N/A]\n")
    assert [error.text for error in report.gpus[0].errors] == ["[Some Error of Tomorrow]"]


def test_csv_without_units_reads_the_same():
    head = "index, memory.total [MiB], power.draw [W], clocks_event_reasons.active\n"
    with_units = parse(head + "0, 81559 MiB, 71.50 W, 0x0000000000000048\n").gpus[0]
    without = parse(head + "0, 81559, 71.50, 0x0000000000000048\n").gpus[0]
    assert with_units == without
    assert without.power.draw_w == 71.5
    assert without.event_reasons == {"hw_slowdown", "hw_thermal_slowdown"}


def test_csv_counts_its_gpus():
    report = parse("count, index\n8, 0\n8, 1\n")
    assert "8 GPUs are attached but 2 are reported" in report.incomplete


def test_csv_without_rows_proves_nothing():
    assert parse("index, uuid, temperature.gpu\n").incomplete


def test_csv_row_that_is_cut_off_is_refused():
    with pytest.raises(NotUnderstoodError, match="2 values for 3 columns"):
        parse("index, uuid, temperature.gpu\n0, GPU-1, 30\n1, GPU-2\n")


def test_a_process_name_may_have_commas():
    listed = parse("pid, process_name, used_gpu_memory [MiB]\n7, python, -m a, b, 12 MiB\n")
    assert listed.processes[0].name == "python, -m a, b"
    assert listed.processes[0].used_memory_mib == 12


def test_csv_without_header_keeps_what_tells_itself():
    rows = parse(
        "0, 00000000:01:00.0, GPU-c31bde52-929e-11fc-f690-8bdf04808f67, 40\n"
        "1, 00000000:02:00.0, GPU-d9273083-f6d7-6e58-4201-68616f23a777, [GPU is lost]\n"
    )
    assert rows.pci_addresses == ("0000:01:00.0", "0000:02:00.0")
    assert rows.errors[0].text == "[GPU is lost]"
    assert rows.errors[0].field == "row 2, column 4"


def test_list_with_mig_devices_and_a_lost_gpu():
    listed = parse(
        "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-1)\n"
        "  MIG 3g.40gb     Device  0: (UUID: MIG-1)\n"
        "  MIG 1g.10gb     Device  1: (UUID: MIG-2)\n"
        "Unable to determine the device handle for gpu 0000:02:00.0: Unknown Error\n"
    )
    assert listed.gpus[0].mig_devices[0].profile == "3g.40gb"
    assert listed.gpus[0].mig_devices[1].uuid == "MIG-2"
    assert listed.errors[0].pci_address == "0000:02:00.0"


def test_list_that_is_cut_off_in_a_line_is_incomplete():
    assert "cut off" in parse("GPU 0: A (UUID: GPU-1)\nGPU 1: A (UUID: GP").incomplete


def test_nvlink_with_inactive_links():
    status = parse(
        "GPU 0: NVIDIA H100 (UUID: GPU-1)\n\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n"
        "GPU 1: NVIDIA H100 (UUID: GPU-2)\n\t Link 0: 26.562 GB/s\n\t Link 1: 26.562 GB/s\n"
    )
    assert [gpu_.active for gpu_ in status.gpus] == [1, 2]
    assert status.gpus[0].links[1].state == "inactive"
    assert status.gpus[0].links[1].speed_gbytes_s is None
    assert status.incomplete == ""


def test_nvlink_whose_last_gpu_lacks_links_is_incomplete():
    status = parse(
        "GPU 0: NVIDIA H100 (UUID: GPU-1)\n\t Link 0: 26.562 GB/s\n\t Link 1: 26.562 GB/s\n"
        "GPU 1: NVIDIA H100 (UUID: GPU-2)\n\t Link 0: 26.562 GB/s\n"
    )
    assert "different numbers of links" in status.incomplete


def test_nvlink_error_counters():
    status = parse(
        "GPU 0: NVIDIA H100 (UUID: GPU-1)\n\t Link 0: Replay Errors: 0\n\t Link 0: CRC Errors: 17\n"
    )
    assert status.gpus[0].counters == ((0, "Replay Errors", 0), (0, "CRC Errors", 17))
    assert status.incomplete == ""


TOPO = (
    "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV18\tPIX\t0-47,96-143\t0\t\tN/A\n"
    "GPU1\tNV18\t X \tSYS\t48-95,144-191\t1\t\tN/A\n"
    "NIC0\tPIX\tSYS\t X \t\t\t\t\n"
    "\nLegend:\n\n  X    = Self\n\nNIC Legend:\n\n  NIC0: mlx5_0\n\n"
)


def test_topology():
    topology = parse(TOPO)
    assert topology.incomplete == ""
    assert topology.relation("GPU0", "NIC0") == "PIX"
    assert topology.relation("NIC0", "GPU1") == "SYS"
    assert topology.relation("GPU0", "GPU7") is None
    assert topology.rows[1].cpu_affinity == "48-95,144-191"
    assert topology.rows[1].numa_affinity == "1"
    assert topology.rows[2].cpu_affinity is None
    assert topology.nic_names == {"NIC0": "mlx5_0"}


@pytest.mark.parametrize("lines", range(2, 12))
def test_topology_that_is_cut_off_is_incomplete(lines):
    assert parse("\n".join(TOPO.split("\n")[:lines])).incomplete


def test_topology_with_other_names_of_nics():
    text = TOPO.replace("NIC0", "rdmap16s27").replace("  rdmap16s27: mlx5_0\n", "")
    topology = parse(text)
    assert topology.columns == ("GPU0", "GPU1", "rdmap16s27")
    assert topology.relation("rdmap16s27", "GPU0") == "PIX"
    assert topology.incomplete == ""


def test_ecc_takes_the_worst_that_is_said():
    facts = gpu(
        {
            "ecc.errors.uncorrected.volatile.total": "0",
            "ecc.errors.uncorrected.volatile.sram.parity": "2",
            "ecc.errors.uncorrected.volatile.sram.secded": "1",
        }
    )
    assert facts.ecc.volatile.uncorrectable == 3
    assert facts.ecc.aggregate.uncorrectable is None


def test_either_name_of_a_pending_retirement_counts():
    for blacklist, retirement in (("Yes", "No"), ("No", "Yes")):
        facts = gpu(
            {
                "retired_pages/pending_blacklist": blacklist,
                "retired_pages/pending_retirement": retirement,
            }
        )
        assert facts.retired_pages.pending is True


def test_a_value_that_is_no_number_is_an_error_not_a_gap():
    facts = gpu({"temperature.gpu": "hot", "memory.total": "-5 MiB", "ecc.mode.current": "Maybe"})
    assert {error.field for error in facts.errors} == {
        "temperature.gpu_c",
        "memory.total_mib",
        "ecc.mode_current",
    }


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("00000000:8F:00.0", "0000:8f:00.0"),
        ("0000:04:00.1", "0000:04:00.1"),
        ("00010000:01:00.0", "10000:01:00.0"),
        ("8F:00.0", "0000:8f:00.0"),
    ],
)
def test_pci_addresses_are_those_of_sysfs(text, address):
    assert pci_address(text) == address


@pytest.mark.parametrize(
    ("sentence", "address"),
    [
        ("GPU at PCI:0000:9b:00: GPU-8eb8654a", "0000:9b:00.0"),
        ("at 16:24:18 it happened", ""),
        ("mac aa:bb:cc:dd:ee:ff", ""),
        ("device 3b:00.0 failed", "0000:3b:00.0"),
    ],
)
def test_addresses_are_found_in_sentences(sentence, address):
    assert find_pci_address(sentence) == address


def test_table_with_memory_that_is_not_available():
    row = TABLE_GOOD.format(index=0, bus="19")
    start = row.rindex("|", 0, row.index("MiB /")) + 1
    end = row.index("|", start)
    without = row[:start] + "N/A".rjust(end - start - 1) + " " + row[end:]
    gpu = parse(TABLE_HEAD + without + TABLE_END).gpus[0]
    assert (gpu.memory.used_mib, gpu.memory.total_mib) == (None, None)
    assert not gpu.errors


def test_topology_with_cells_that_lost_their_gap_has_no_affinity():
    topology = parse(
        "        GPU0    GPU1    NIC0    NIC1    CPU Affinity    NUMA Affinity\n"
        "GPU0     X      NV18    PIX     NODENODE    0-55    1\n"
        "GPU1    NV18     X      NODE    PIX         0-55    1\n"
        "NIC0    PIX     NODE     X      PIX\n"
        "NIC1    NODE    PIX     PIX      X\n"
    )
    glued, whole = topology.rows[:2]
    assert (glued.cpu_affinity, glued.numa_affinity) == (None, None)
    assert (whole.cpu_affinity, whole.numa_affinity) == ("0-55", "1")
    assert topology.relation("GPU0", "NIC1") is None
    assert "'GPU0'" in topology.incomplete


LOG = """\
==============NVSMI LOG==============

Timestamp                                 : Tue Jul 14 17:43:23 2026
Driver Version                            : 580.65.06
CUDA Version                              : Not Found
vGPU Driver Capability
        Heterogenous Multi-vGPU           : Supported
        Another One                       : Not Supported

Attached GPUs                             : 1
GPU 00000000:3B:00.0
    Performance State                     : P8
"""


def test_a_section_of_the_host_in_front_of_the_gpus():
    report = parse(LOG)
    assert isinstance(report, GpuReport)
    assert (report.driver_version, report.cuda_version) == ("580.65.06", "")
    assert (report.attached_gpus, report.gpus[0].pci_address) == (1, "0000:3b:00.0")
    assert report.gpus[0].performance_state == "P8"


@pytest.mark.parametrize(
    ("said", "instead"),
    [
        ("        Another One                       : Not Supported", "    nonsense"),
        ("vGPU Driver Capability\n", ""),
        ("        Heterogenous Multi-vGPU           : Supported\n", "Some Words\n"),
        ("Attached GPUs                             : 1", "Attached GPUs"),
    ],
)
def test_other_lines_in_front_of_the_gpus_are_refused(said, instead):
    with pytest.raises(NotUnderstoodError, match="before the first GPU"):
        parse(LOG.replace(said, instead))


@pytest.mark.parametrize("said", ["N/A   ", "ERR!  "])
def test_words_in_the_place_of_a_version_are_none(said):
    report = parse(TABLE_HEAD.replace("12.4  ", said) + TABLE_GOOD.format(index=0, bus="19"))
    assert isinstance(report, GpuReport)
    assert report.cuda_version == ""
