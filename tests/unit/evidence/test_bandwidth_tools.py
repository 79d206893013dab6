"""Bandwidth tools: results that must not count stay visible or are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from hfprov.errors import NotUnderstoodError
from hfprov.evidence import (
    fio,
    nccl_tests,
    nvbandwidth,
    rocm_bandwidth_test,
    stream,
    superbench,
    transferbench,
)
from hfprov.evidence.failures import FailureKind, ToolFailure
from hfprov.evidence.nvbandwidth import Status

SAMPLES = Path(__file__).parents[2] / "data" / "captures_other_samples"


def sample(name):
    return (SAMPLES / name).read_text()


NCCL = sample("nccl-tests__two_nodes.txt")


def test_a_real_run_over_two_nodes():
    facts = nccl_tests.parse(NCCL)
    assert (facts.headers, facts.summaries, facts.distinct_ranks) == (1, 1, 2)
    assert facts.hosts == ("node01", "node02")
    assert (facts.collective, facts.parameters["validation"]) == ("all_reduce_perf", "1")
    assert facts.rows[1].in_place.busbw_gbs == 0.13
    assert facts.complete
    assert facts.ok


def test_a_build_without_mpi_poses_as_one_run():
    """Case: both processes run alone; every header, summary and rank 0 is there twice."""
    alone = NCCL.replace("#  Rank  1 Group  0 Pid   1002 on     node02 device  0 [0000:1b:00] "
                         "NVIDIA H100 80GB HBM3\n", "")  # fmt: skip
    one = alone.splitlines(keepends=True)
    two = alone.replace("Pid   1001 on     node01", "Pid   2001 on     node02").splitlines(
        keepends=True
    )
    mixed = "".join(line for pair in zip(one, two, strict=True) for line in pair)
    for text in (alone + "".join(two), mixed):
        facts = nccl_tests.parse(text)
        assert (facts.headers, facts.summaries) == (2, 2)
        assert facts.distinct_ranks == 1
        assert len(facts.ranks) == 2
        assert facts.hosts == ("node01", "node02")
        assert not facts.complete
        assert facts.average_busbw_gbs is None


def test_no_prefix_of_a_failed_run_looks_well():
    bad = NCCL.replace("0.12       0    16.02", "0.12      42    16.02").replace(
        "values : 0 OK", "values : 1 FAILED"
    )
    assert nccl_tests.parse(bad).ok is False
    lines = bad.splitlines(keepends=True)
    for end in range(len(lines)):
        try:
            facts = nccl_tests.parse("".join(lines[:end]))
        except NotUnderstoodError:
            continue
        if isinstance(facts, ToolFailure):
            continue
        assert not (facts.complete and facts.ok), f"the first {end} lines look well"


def test_a_row_that_is_cut_is_refused():
    cut = NCCL[: NCCL.index("0.12    0.12       0    16.02") + 8]
    with pytest.raises(NotUnderstoodError, match="measured columns"):
        nccl_tests.parse(cut)


PREFIXES = ("[1,0]<stdout>:", "[prterun-h-1@1,0]<stdout>: ", "0: ", " 12: ", "node01: ")


@pytest.mark.parametrize("prefix", PREFIXES)
def test_prefixes_of_launchers_change_nothing(prefix):
    prefixed = "".join(f"{prefix}{line}" for line in NCCL.splitlines(keepends=True))
    assert nccl_tests.parse(prefixed) == nccl_tests.parse(NCCL)


def test_errors_of_other_ranks_are_kept_and_make_it_incomplete():
    text = NCCL + "node02: Test NCCL failure common.cu:1005 'remote process exited / '\n"
    facts = nccl_tests.parse(text)
    assert len(facts.errors) == 1
    assert not facts.complete
    quiet = "node01:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB error: none\n"
    assert nccl_tests.parse(quiet + NCCL).errors == ()


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (("# nThread 1 nGpus 8 minBytes 8 maxBytes 8\n# Using devices\nh: Test CUDA failure "
         "common.cu:941 'system not yet initialized'"), FailureKind.NOT_READY),
        ("Invalid number of GPUs: 8 requested but only 7 were found.", FailureKind.NO_DEVICES),
        ("h: Test NCCL failure common.cu:1005 'unhandled system error'", FailureKind.DEVICE_ERROR),
        (("h: Test CUDA failure common.cu:892 'CUDA driver version is insufficient for CUDA "
          "runtime version'"), FailureKind.VERSION_MISMATCH),
        ("srun: error: node02: task 8: Exited with exit code 3", FailureKind.OTHER),
        ("./all_reduce_perf: error while loading shared libraries: libnccl.so.2: cannot open",
         FailureKind.TOOL_CRASHED),
    ],
)  # fmt: skip
def test_runs_without_a_result_are_typed_failures(said, kind):
    assert nccl_tests.parse(said).kind is kind


def test_a_header_with_unlike_halves_is_refused():
    with pytest.raises(NotUnderstoodError, match="the same columns"):
        nccl_tests.parse(NCCL.replace("busbw  #wrong     time", "busbw     time"))


def test_a_table_without_rows_is_refused():
    with pytest.raises(NotUnderstoodError, match="no row"):
        nccl_tests.parse(NCCL[: NCCL.index("        1024 ")])


def test_per_iteration_columns_and_timestamps():
    text = (
        "#       size         count      type   redop    root     time   algbw   busbw  #wrong"
        "   i_min   i_max   i_p99   i_cv%     time   algbw   busbw  #wrong   i_min   i_max"
        "   i_p99   i_cv%           timestamp\n"
        "        1024   256  float  sum  -1   16.6   0.06   0.06   0   1 2 3 4"
        "   15.4   0.07   0.07   N/A   1 2 3 4   2026-11-29 10:00:00\n"
        "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 0.065\n"
    )
    (row,) = nccl_tests.parse(text).rows
    assert (row.out_of_place.busbw_gbs, row.out_of_place.wrong) == (0.06, 0)
    assert (row.in_place.busbw_gbs, row.in_place.wrong) == (0.07, None)


def test_json_report():
    facts = nccl_tests.parse(sample("nccl-tests__report.json"))
    assert facts.hosts == ("node01", "node02")
    assert (facts.complete, facts.ok, facts.validated) == (True, True, True)
    (row,) = facts.rows
    assert (row.root, row.out_of_place.wrong, row.in_place.wrong) == (-1, 0, None)
    assert facts.collective == "all_reduce_perf"


@pytest.mark.parametrize(
    ("old", "new", "complete", "ok"),
    [
        ('"count":0,"okay":"true"', '"count":3,"okay":"false"', True, False),
        ('"okay":"unchecked"', '"okay":"false"', True, False),
        ('"count":0,"okay":"true"', '"count":0,"okay":"false"', True, False),
        ('"errors":[]', '"errors":["unhandled system error"]', False, True),
        (',"average_bus_bandwidth":{"bandwidth":0.065,"okay":"unchecked"}', "", False, None),
    ],
)
def test_json_report_that_is_not_well(old, new, complete, ok):
    text = sample("nccl-tests__report.json").replace("\n", "")
    assert old in text
    facts = nccl_tests.parse(text.replace(old, new))
    assert (facts.complete, facts.ok) == (complete, ok)


def test_nvbandwidth_text():
    facts = nvbandwidth.parse(sample("nvbandwidth__text.txt"))
    assert facts.complete
    copy, peer, waived = facts.tests
    assert copy.rows == ((55.36, 54.91),)
    assert (copy.unit, copy.total) == ("GB/s", 110.27)
    assert peer.rows == ((None, 390.36), (391.02, None))
    assert waived.name == "multinode_device_to_device_memcpy_read_ce"
    assert len(facts.devices) == 2


def test_nvbandwidth_text_without_its_end_is_incomplete_or_refused():
    lines = sample("nvbandwidth__text.txt").splitlines(keepends=True)
    for end in range(len(lines) - 2):
        try:
            facts = nvbandwidth.parse("".join(lines[:end]))
        except NotUnderstoodError:
            continue
        assert not facts.complete, f"the first {end} lines look whole"


def test_nvbandwidth_that_waives_in_the_words_of_its_second_release():
    facts = nvbandwidth.parse("nvbandwidth Version: v0.2\n\nWaiving a_b_c.\n")
    assert [(test.name, test.status) for test in facts.tests] == [
        ("a_b_c", nvbandwidth.Status.WAIVED)
    ]
    assert facts.passed == 0


def test_nvbandwidth_test_that_did_not_end_stays_running():
    text = sample("nvbandwidth__text.txt")
    facts = nvbandwidth.parse(text[: text.index("SUM device_to_device")])
    assert facts.tests[1].status is Status.RUNNING


def test_nvbandwidth_errors():
    text = sample("nvbandwidth__run.json")
    assert nvbandwidth.parse(text).complete
    stopped = text.replace(
        '"version" : "v0.8"', '"error" : "ASSERT in expression", "version" : "v0.8"'
    )
    facts = nvbandwidth.parse(stopped)
    assert (facts.complete, facts.error) == (False, "ASSERT in expression")
    for broken in ('"bandwidth_matrix" : [["ERR"]]', '"bandwidth_matrix" : []',
                   '"bandwidth_matrix" : [["1"],["1","2"]]'):  # fmt: skip
        with pytest.raises(NotUnderstoodError, match="host_to_device"):
            nvbandwidth.parse(text.replace('"bandwidth_matrix" : [["55.36"]]', broken))
    said = "[CUDA_ERROR_NO_DEVICE] no CUDA-capable device is detected in expression cuInit(0)"
    assert nvbandwidth.parse(said).kind is FailureKind.NO_DEVICES


def test_fio():
    facts = fio.parse(sample("fio__randread.json"))
    (job,) = facts.jobs
    assert (job.read.iops, job.read.bandwidth_bytes_s) == (100000.5, 409600000)
    assert job.read.completion.percentiles_ns == {50.0: 5, 99.0: 8}
    assert job.options == {"ioengine": "libaio", "direct": "1", "rw": "randread", "bs": "4k"}
    assert facts.messages[0].startswith("fio: this platform")
    assert not facts.failed


def test_fio_with_an_error_or_without_results():
    text = sample("fio__randread.json")
    assert fio.parse(text.replace('"error" : 0', '"error" : 5')).failed
    with pytest.raises(NotUnderstoodError, match="several JSON"):
        fio.parse(text + text)
    with pytest.raises(NotUnderstoodError, match="no job"):
        fio.parse('{\n"fio version" : "fio-3.36", "jobs" : []}')
    with pytest.raises(NotUnderstoodError, match=r"'bw_bytes'|'bw'"):
        fio.parse(text.replace('"bw_bytes" : 409600000, "bw" : 400000, ', ""))
    assert fio.parse("fio: engine libaio not loadable").kind is FailureKind.NOT_SUPPORTED


STREAM = sample("stream__run.txt")


def test_stream_with_wrong_results_is_not_validated():
    bad = STREAM.replace(
        "Solution Validates: avg error less", "Failed Validation on array a[], less"
    )
    assert stream.parse(STREAM).validated
    assert not stream.parse(bad).validated
    assert stream.parse(STREAM).triad.bandwidth_gbs == 363.2087


@pytest.mark.parametrize("gone", ["Copy:", "Triad:", "Solution", "Array size", "Function"])
def test_stream_without_a_line_that_it_needs_is_refused(gone):
    text = "".join(line for line in STREAM.splitlines(keepends=True) if not line.startswith(gone))
    with pytest.raises(NotUnderstoodError):
        stream.parse(text)


def test_stream_of_two_runs_is_refused():
    with pytest.raises(NotUnderstoodError, match="twice"):
        stream.parse(STREAM + STREAM)


def test_transferbench_forms():
    text = transferbench.parse(sample("transferbench__p2p.txt"))
    (matrix,) = text.matrices
    assert [cell.gbs for cell in matrix.cells][-1] is None
    assert matrix.averages["GPU->GPU"] == 65.55
    assert text.complete
    comma = transferbench.parse(sample("transferbench__p2p.csv"))
    assert [cell.gbs for cell in comma.matrices[0].cells] == [24.37, 17.32, 23.83, 108.95]
    assert not comma.complete  # no averages
    single = transferbench.parse(sample("transferbench__config.txt"))
    assert single.executors[0].transfers[0].path == "G0 -> GPU00:004 -> G1"
    assert (single.aggregate_gbs, single.complete) == ((44.001,), True)
    exchange = transferbench.parse(sample("transferbench__a2a.txt"))
    assert [cell.gbs for cell in exchange.matrices[0].cells] == [None, 45.1, 45.2, None]


def test_transferbench_that_is_cut_or_failed():
    text = sample("transferbench__p2p.txt")
    with pytest.raises(NotUnderstoodError, match="cut off"):
        transferbench.parse(text[: text.index("   GPU 01  ->")])
    with pytest.raises(NotUnderstoodError):
        transferbench.parse(text.replace("64.58\n", "\n"))
    assert not transferbench.parse(text + "[ERROR] Unexpected mismatch at index 0\n").complete
    said = "[ERROR] Schmoo benchmark requires at least 2 GPUs"
    assert transferbench.parse(said).kind is FailureKind.NO_DEVICES


def test_rocm_bandwidth_test_default_output():
    facts = rocm_bandwidth_test.parse(sample("rocm-bandwidth-test__default.txt"))
    cpu, gpu = facts.devices
    assert (cpu.type, gpu.type, gpu.bdf) == ("CPU", "GPU", "05:0.0")
    access, copies = facts.matrices
    assert access.title == "Inter-Device Access"
    assert copies.rows == ((None, 55.123), (56.002, 2091.443))


def test_rocm_bandwidth_test_matrix_that_is_cut_is_refused():
    text = sample("rocm-bandwidth-test__default.txt")
    with pytest.raises(NotUnderstoodError):
        rocm_bandwidth_test.parse(text[: text.rindex("          1         56.002")])


def test_superbench_summary():
    first, second = superbench.parse(sample("superbench__summary.jsonl")).nodes
    assert first.metrics["mem-bw/h2d_bw:0"] == 26.1
    assert first.failed == ()
    assert second.failed == ("gpu-copy-bw/return_code",)


@pytest.mark.parametrize(
    "text",
    ["", "\n\n", "{}", '{"node": "a"}', '{"node": "", "m": 1}', '{"m": 1}', "[1]", "null",
     '{"node": "a", "m": 1}\n{"node": "b", "m"', '{"node": "a", "m": 1}\n{"node": "a", "m": 1}',
     '{"node": "a", "m": NaN}', '{"node": "a", "m": 1, "m": 2}',
     '{"node": "a", "m": "1"}', '{"node": "a", "m": true}'],
)  # fmt: skip
def test_superbench_summary_that_is_empty_or_cut_is_refused(text):
    with pytest.raises(NotUnderstoodError):
        superbench.parse(text)


def test_fio_option_that_was_given_twice_and_a_result_that_comes_twice():
    text = sample("fio__randread.json")
    start = text.index('"job options" : {') + len('"job options" : {')
    twice = '"filename" : "/a", "filename" : "/b",'
    assert fio.parse(text[:start] + twice + text[start:]).jobs[0].options["filename"] == "/a, /b"
    with pytest.raises(NotUnderstoodError, match="comes twice"):
        fio.parse(text.replace('"error" : 0', '"error" : 0, "error" : 5'))


def test_fio_that_read_back_other_data():
    failure = fio.parse("md5: verify failed at file /data/f offset 4096, length 4096\n")
    assert failure.kind is FailureKind.OTHER


def test_nvbandwidth_devices_of_old_releases_have_no_address():
    text = (
        "nvbandwidth Version: v0.2\nBuilt from Git version: x\n\n"
        "CUDA Runtime Version: 12030\nCUDA Driver Version: 12030\nDriver Version: 545.1.2\n\n"
        "Device 0: NVIDIA L4\nDevice 1: NVIDIA L4\n\nRunning host_to_device_memcpy_ce.\n"
        "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n          0         1\n"
        "0     25.00     24.00\n\nSUM host_to_device_memcpy_ce 49.00\n"
    )
    facts = nvbandwidth.parse(text)
    assert [(one.index, one.name, one.bdf) for one in facts.devices] == [
        (0, "NVIDIA L4", ""), (1, "NVIDIA L4", ""),
    ]  # fmt: skip
