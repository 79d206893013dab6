"""Whatever a node sends: only NotUnderstoodError is raised, and a cut never hides a failure.

A fault is put into the last device of recorded outputs, and the output is cut at every line. What
is left is refused, flagged as incomplete, or still shows every fault that was before the cut.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.dcgmi.model import DiagReport, DiagStatus
from hfprov.evidence.kernel_log.log import KernelLog
from hfprov.evidence.nvidia_smi.model import GpuReport
from hfprov.evidence.nvidia_smi.nvlink import NvlinkStatus
from hfprov.evidence.tools import find_tool, plain
from hfprov.evidence.xid import Severity

CAPTURES = Path(__file__).resolve().parents[3].parent / "shared" / "captures"
needs_captures = pytest.mark.skipif(
    not CAPTURES.is_dir(), reason=f"the recorded outputs are not at {CAPTURES}"
)
TOOLS = ("nvidia-smi", "dcgmi", "fabricmanager", "kernel-log", "nccl-topo", "healthcheck")


def read(tool: str, text: str) -> Any:
    """Facts, or None when the text was refused. Anything else that is raised fails the test."""
    try:
        facts = find_tool(tool).parse(text)
    except NotUnderstoodError:
        return None
    json.dumps(plain(facts), default=str)
    return facts


def last(text: str, old: str, new: str) -> str:
    head, found, tail = text.rpartition(old)
    assert found, old
    return head + new + tail


def sick_gpus(report: GpuReport) -> set[str]:
    return {
        str(gpu.pci_address)
        for gpu in report.gpus
        if gpu.errors
        or gpu.remapped_rows.failure
        or gpu.remapped_rows.pending
        or gpu.retired_pages.pending
        or gpu.ecc.volatile.uncorrectable
    }


def cuts(text: str) -> Iterator[str]:
    """The text up to each of its last lines, and up to some of those before."""
    lines = text.split("\n")
    for end in range(len(lines)):
        if len(lines) - end <= 150 or end % 43 == 0:
            yield "\n".join(lines[:end])


ROW_XML = "<remapped_row_failure>{}</remapped_row_failure>"
ROW_TEXT = "Remapping Failure Occurred        : {}"
SICK = {
    "xml": (
        "sparecores_upcloud_GPU-48xCPU-960GB-4xH100_q-x.xml",
        (ROW_XML.format("No"), ROW_XML.format("Yes")),
    ),
    "text of 8": (
        "q_8x4090_535.154.05_c.txt",
        (ROW_TEXT.format("No"), ROW_TEXT.format("Yes")),
    ),
    "text of 1": (
        "h200_590.48.01_load_q.txt",
        (": 52 C", ": GPU is lost"),
    ),
    "section": (
        "azurenhc_q-page-retirement_535.86.10_good.txt",
        ("Pending Page Blacklist            : No", "Pending Page Blacklist            : Yes"),
    ),
    "table": (
        "table_550.90.07_8xh100.txt",
        (
            "| N/A   23C    P0             72W /  700W |",
            "|ERR!  ERR! ERR!            ERR! / ERR!  |",
        ),
    ),
    "table of MIG": (
        "h100-mig_590.48.01_load_table.txt",
        (
            "| N/A   52C    P0            432W /  700W |",
            "|ERR!  ERR! ERR!            ERR! / ERR!  |",
        ),
    ),
}


@needs_captures
@pytest.mark.parametrize("case", SICK)
def test_a_cut_never_turns_a_sick_gpu_into_a_healthy_one(case):
    name, (old, new) = SICK[case]
    text = last((CAPTURES / "nvidia-smi" / name).read_text("utf-8"), old, new)
    whole = read("nvidia-smi", text)
    sick = sick_gpus(whole)
    assert sick
    assert not whole.incomplete
    judged_whole = 0
    for cut in cuts(text):
        facts = read("nvidia-smi", cut)
        if facts is None or facts.incomplete:
            continue
        judged_whole += 1
        assert len(facts.gpus) == len(whole.gpus)
        assert sick_gpus(facts) == sick
    # Only what comes after the last section may be missing unnoticed.
    assert judged_whole <= 24


@needs_captures
def test_a_cut_never_hides_an_inactive_link():
    text = (CAPTURES / "nvidia-smi" / "h200_590.48.01_nvlink-s.txt").read_text("utf-8")
    text = "".join(text.replace("GPU 0:", f"GPU {number}:") for number in range(4))
    text = last(text, "Link 17: 26.562 GB/s", "Link 17: <inactive>")
    for cut in cuts(text):
        facts = read("nvidia-smi", cut)
        if isinstance(facts, NvlinkStatus) and not facts.incomplete and len(facts.gpus) == 4:
            assert facts.gpus[3].active == 17


@needs_captures
@pytest.mark.parametrize("path", sorted((CAPTURES / "dcgmi").glob("*diag*")), ids=lambda p: p.name)
def test_a_cut_diagnostic_never_passes(path):
    text = path.read_text("utf-8").rstrip("\n")
    whole = read("dcgmi", text)
    for cut in cuts(text):
        facts = read("dcgmi", cut)
        if not isinstance(facts, DiagReport):
            continue
        if facts.form == "summary":
            assert facts.overall is not DiagStatus.PASS
        else:
            assert facts.incomplete
            assert facts.overall in (DiagStatus.FAIL, DiagStatus.UNKNOWN)
        assert {(one.test, one.entity_id) for one in facts.failed} <= {
            (one.test, one.entity_id) for one in whole.failed
        }


@needs_captures
@pytest.mark.parametrize(
    "name",
    [
        "gpud_dated-kernel-lines_mixed-faults.log",
        "dmesg_ctime_xid119-gsp-timeout.log",
        "aer_nvme-dpc_new-wording-Uncorrectable.log",
        "dmesg_time-format-iso.log",
    ],
)
def test_a_cut_kernel_log_shows_all_before_the_cut(name):
    text = (CAPTURES / "kernel-log" / name).read_text("utf-8")
    whole = read("kernel-log", text)
    lines = text.split("\n")
    for end in range(1, len(lines)):
        facts = read("kernel-log", "\n".join(lines[:end]))
        before = [(one.line, one.category) for one in whole.events if one.line <= end]
        found = [(one.line, one.category) for one in facts.events] if facts else []
        assert found == before


@needs_captures
@pytest.mark.parametrize("name", ["fabricmanager_older.log", "fabricmanager_nvswitch-fatal.log"])
def test_a_cut_fabric_manager_log_shows_all_before_the_cut(name):
    text = (CAPTURES / "fabricmanager" / name).read_text("utf-8")
    whole = read("fabricmanager", text)
    lines = text.split("\n")
    for end in range(1, len(lines), 7):
        facts = read("fabricmanager", "\n".join(lines[:end]))
        found = [event.line for event in facts.events] if facts else []
        assert found == [event.line for event in whole.events if event.line <= end]


@needs_captures
@pytest.mark.parametrize("tool", ["nccl-topo", "healthcheck"])
def test_other_outputs_that_are_cut_are_refused_or_flagged(tool):
    for path in sorted((CAPTURES / tool).iterdir()):
        text = path.read_text("utf-8").rstrip("\n")
        ends = "Finished" if "Finished" in text else "Test completed"
        if tool == "healthcheck":
            text = text[: text.rindex(ends)].rstrip("\n")
        for cut in cuts(text):
            facts = read(tool, cut)
            assert facts is None or facts.incomplete


def samples() -> list[tuple[str, str]]:
    """One recorded output of each form, shortened; own short ones where there are none."""
    chosen = [
        ("nvidia-smi", "sparecores_aws_g6.xlarge_q-x.xml"),
        ("nvidia-smi", "h100-mig_590.48.01_load_q.txt"),
        ("nvidia-smi", "h100-mig_590.48.01_load_table.txt"),
        ("nvidia-smi", "l40s_595.80_idle_query-gpu.csv"),
        ("nvidia-smi", "h200-mig_590.48.01_load_query-compute-apps.csv"),
        ("nvidia-smi", "topo-m_8xh100_custom-nic-names_partial.txt"),
        ("nvidia-smi", "h200_590.48.01_nvlink-s.txt"),
        ("nvidia-smi", "h200_590.48.01_load_pmon.txt"),
        ("nvidia-smi", "insights_nvidia_smi_l_input_1.txt"),
        ("dcgmi", "glimmer_diag_4.2.3_gb10-level2-partial-skip.json"),
        ("dcgmi", "diag_2.x-3.0_r4_table_persistence-fail_skips.txt"),
        ("dcgmi", "discovery-l_v100.txt"),
        ("dcgmi", "gcm_nvlink-status_some-down.txt"),
        ("fabricmanager", "fabricmanager_nvswitch-fatal.log"),
        ("kernel-log", "gpud_dated-kernel-lines_mixed-faults.log"),
        ("kernel-log", "xid79-154_history_a100.log"),
        ("nccl-topo", "azure_ncv4-topo.xml"),
        ("healthcheck", "oci_ncclscout.txt"),
        ("healthcheck", "oci_active_healthcheck.log"),
    ]
    found = [
        (tool, (CAPTURES / tool / name).read_text("utf-8")[:20_000])
        for tool, name in chosen
        if CAPTURES.is_dir()
    ]
    return found or [
        (tool, "GPU 0: A (UUID: GPU-1)\n[ 1.0] NVRM: Xid (PCI:1): 79\n") for tool in TOOLS
    ]


SAMPLES = samples()
POISON = st.sampled_from(
    [
        "\x00",
        "\x1b[31m",
        "\x1b]0;t\x07",
        "\r",
        "\ufeff",
        "\ud800",
        "é",
        "٣",
        "ERR!",
        "[GPU is lost]",
        "N/A",
        "-1",
        "1e999",
        "9" * 5000,
        "|",
        ":",
        ",",
        "<",
        ">",
        "&",
        "]]>",
        "{",
        "}",
        '"',
        "\n",
        "",
    ]
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@pytest.mark.parametrize("tool", TOOLS)
@given(
    text=st.one_of(st.text(max_size=400), st.binary(max_size=400).map(lambda b: b.decode("latin1")))
)
def test_random_text_is_refused_or_read(tool, text):
    read(tool, text)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@pytest.mark.parametrize("number", range(len(SAMPLES)))
@given(data=st.data())
def test_damaged_output_is_refused_or_read(number, data):
    tool, text = SAMPLES[number]
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(text)))
        size = data.draw(st.integers(0, 40))
        text = text[:at] + data.draw(POISON) + text[at + size :]
    read(tool, text)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@pytest.mark.parametrize("tool", TOOLS)
@given(data=st.data())
def test_another_tool_s_output_is_refused_or_read(tool, data):
    read(tool, data.draw(st.sampled_from(SAMPLES))[1])


REPEATED: dict[str, Callable[[int], str]] = {
    "blank lines": lambda size: "\n" * size,
    "spaces": lambda size: " " * size,
    "braces": lambda size: "{\n" * (size // 2),
    "brackets": lambda size: '{"DCGM Diagnostic": ' + "[" * size,
    "tags": lambda size: "<nvidia_smi_log>" + "<a>" * (size // 3),
    "declarations": lambda size: "<?xml" * (size // 5),
    "escapes": lambda size: "\x1b[" * (size // 2),
    "commas": lambda size: "," * size,
    "bars": lambda size: "| NVIDIA-SMI 1\n" + "|" * size,
    "aer": lambda size: (
        "PCIe Bus Error: severity=Corrected, type=X\n" + "  [ 0] RxErr\n" * (size // 12)
    ),
    "prompts": lambda size: "x: nvidia-smi: " * (size // 15),
}


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("shape", REPEATED)
def test_repetition_is_bearable(shape, tool):
    read(tool, REPEATED[shape](200_000))


def test_severity_of_a_log_survives_garbage_around_it():
    noise = "\x1b[31m\x00garbage \ud800 \n"
    facts = read("kernel-log", noise + "[ 1.0] NVRM: Xid (PCI:0000:9b:00): 79, x\n" + noise)
    assert isinstance(facts, KernelLog)
    assert facts.events[0].severity is Severity.FATAL
