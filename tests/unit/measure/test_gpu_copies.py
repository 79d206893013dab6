"""Copies of accelerators: the slowest device is the figure, and all of them must be there."""

from __future__ import annotations

import json

import pytest

from hfprov.errors import NotUnderstoodError
from hfprov.measure.tool import Settings
from hfprov.measure.tools_gpu import read_nvbandwidth, read_rvs, read_transferbench

NAMED = "host_to_device_memcpy_ce"


def nvbandwidth(rows, status="passed", unit="GB/s", devices=2):
    test = {
        "name": NAMED,
        "status": status,
        "bandwidth_description": f"memcpy CE CPU(row) -> GPU(column) bandwidth ({unit})",
        "bandwidth_matrix": rows,
    }
    return json.dumps(
        {
            "nvbandwidth": {
                "version": "v0.8",
                "GPU Device list": [f"{n}: NVIDIA X (00000000:0{n}:00)" for n in range(devices)],
                "testcases": [test],
            }
        }
    )


def test_the_slowest_device_is_the_figure():
    [found] = read_nvbandwidth(nvbandwidth([["55.1", "N/A", "9.5"]]), Settings())
    assert (found.values, found.unit, found.higher_is_better) == ((9.5,), "GB/s", True)


def test_of_a_latency_the_slowest_device_is_the_highest():
    [found] = read_nvbandwidth(nvbandwidth([["650", "900"]], unit="ns"), Settings())
    assert (found.values, found.higher_is_better) == ((900.0,), False)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (nvbandwidth([["55.1"]], devices=7), "7 devices, and the node has 8"),
        (nvbandwidth([], status="waived", devices=8), "every test was waived"),
        (nvbandwidth([["55.1"]], status="running", devices=8), "did not end"),
        (nvbandwidth([["N/A"]], devices=8), "no figure"),
        (
            "Invalid value when checking the pattern at 0x7\n" + nvbandwidth([["9"]], devices=8),
            "checking the pattern",
        ),
    ],
    ids=["a device short", "waived", "aborted", "nothing but N/A", "corrupt"],
)
def test_what_is_no_whole_right_run_of_nvbandwidth_is_refused(text, reason):
    with pytest.raises(NotUnderstoodError, match=reason):
        read_nvbandwidth(text, Settings(accelerators=8))


TRANSFERBENCH = """TransferBench v1.50
Bytes Per Direction 67108864
Unidirectional copy peak bandwidth GB/s [Local read / Remote write] (GPU-Executor: GFX)
   SRC+EXE\\DST    CPU 00    CPU 01       GPU 00    GPU 01
   CPU 00  ->     24.37     25.62        17.32     7.97
   CPU 01  ->     18.83     19.62        5.84     15.47

   GPU 00  ->     23.83     3.40       108.95     64.58
   GPU 01  ->     4.05     21.93        6.52    109.18
                              CPU->CPU  CPU->GPU  GPU->CPU  GPU->GPU
   Averages (During UniDir):     22.23     16.35     23.77     37.74
"""


def test_each_gpu_is_measured_against_its_own_side_of_the_host():
    found = {one.test: one.values for one in read_transferbench(TRANSFERBENCH, Settings())}
    assert found == {
        "transferbench cpu to gpu": (15.47,),
        "transferbench gpu to cpu": (21.93,),
        "transferbench gpu to gpu": (6.52,),
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (TRANSFERBENCH, "2 devices, and the node has 8"),
        (TRANSFERBENCH.replace("64.58", "N/A"), "did not copy from GPU 00 to GPU 01"),
        (TRANSFERBENCH[: TRANSFERBENCH.index("   GPU 01  ->")], "cut off"),
        (TRANSFERBENCH[: TRANSFERBENCH.index("   Averages")], "did not end"),
        (TRANSFERBENCH + "[ERROR] Unexpected mismatch at index 0\n", "mismatch"),
        ("", "no result"),
    ],
)
def test_what_is_no_whole_right_run_of_transferbench_is_refused(text, reason):
    count = 8 if "has 8" in reason else 2
    with pytest.raises(NotUnderstoodError, match=reason):
        read_transferbench(text, Settings(accelerators=count))


RVS = """[RESULT] [1148200.536604] Action name :action_1
[RESULT] [1148200.576371] Module name :pbqt
[RESULT] [1148200.576498] [action_1] p2p 1 2 peers:true distance:72 PCIe:72
[INFO  ] [1148201.576498] [action_1] p2p-bandwidth  [1/2] 1 2  bidirectional: false  9.5 GBps
[RESULT] [1148205.576740] [action_1] p2p-bandwidth  [1/2] 1 2  bidirectional: false  46.5 GBps  duration: 0.1 sec
[RESULT] [1148205.576740] [action_1] p2p-bandwidth  [2/2] 2 1  bidirectional: false  45.5 GBps  duration: 0.1 sec
"""  # noqa: E501 - as the tool prints it


def test_rvs_counts_by_its_results_and_not_by_what_it_says_on_the_way():
    [found] = read_rvs(RVS, Settings())
    assert (found.test, found.values, found.unit) == ("rvs pbqt", (45.5,), "GB/s")


def test_both_ways_at_once_are_a_test_of_their_own():
    both = RVS.replace("action_1", "action_2").replace("false", "true").replace("45.5", "80.5")
    found = {one.test: one.values for one in read_rvs(RVS + both, Settings())}
    assert found == {"rvs pbqt": (45.5,), "rvs pbqt both ways": (46.5,)}


@pytest.mark.parametrize(
    "text",
    [
        "",
        RVS.replace("46.5 GBps", "0.0 GBps"),
        RVS.replace("[RESULT] [1148205", "[INFO  ] [1148205"),
        RVS + "[ERROR ] [1148206.1] [action_1] no peer access\n",
        "[RESULT] [1.0] Action name :action_1\n[RESULT] [1.1] Module name :gst\n",
    ],
    ids=["empty", "zero", "no result", "error", "no bandwidth"],
)
def test_a_log_of_rvs_without_a_bandwidth_is_refused(text):
    with pytest.raises(NotUnderstoodError):
        read_rvs(text, Settings())
