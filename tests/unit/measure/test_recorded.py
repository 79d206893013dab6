"""Recorded outputs of real tools give the figures, or the refusals, that a senior operator would.

The recordings lie beside the project and are not part of it; without them these tests are skipped.
What is expected, is data: ``tests/data/verdicts_measure.yml``.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from hfprov.baseline import Baseline, Value
from hfprov.errors import NotUnderstoodError
from hfprov.measure.judges import nominal
from hfprov.measure.judging import bound_of
from hfprov.measure.tool import End, Group, GroupTool, HostTool, Settings
from hfprov.measure.tools import TOOLS

ROOT = Path(__file__).resolve().parents[3]
CAPTURES = ROOT.parent / "shared" / "captures"
TABLE = yaml.safe_load((ROOT / "tests" / "data" / "verdicts_measure.yml").read_text("utf-8"))
OF_FOLDER = {
    "nvbandwidth": "nvbandwidth",
    "transferbench": "TransferBench",
    "rvs": "rvs",
    "stream": "stream",
    "iperf": "iperf3",
    "perftest": "ib_write_bw",
    "nccl-tests": "all_reduce_perf",
    "fio": "fio",
}
needs_captures = pytest.mark.skipif(
    not CAPTURES.is_dir(), reason=f"the recorded outputs are not at {CAPTURES}"
)


def figures(name, row):
    """By test without the tool's name, the figure."""
    text = (CAPTURES / name).read_text("utf-8", "backslashreplace")
    nodes, accelerators = row.get("nodes", 1), row.get("accelerators", 0)
    wanted = row.get("as", OF_FOLDER[name.partition("/")[0]])
    [tool] = [
        one for one in TOOLS if one.name == wanted and isinstance(one, GroupTool) is (nodes > 1)
    ]
    if isinstance(tool, GroupTool):
        ends = tuple(End(f"n{number}", "eth1", f"10.0.0.{number}") for number in range(nodes))
        found = tool.read(text, Group(ends, accelerators))
    elif isinstance(tool, HostTool):
        found = tool.read(text, Settings(accelerators=accelerators))
    else:
        found = tool.read(text)
    return {one.test.partition(" ")[2]: one for one in found}


@needs_captures
@pytest.mark.parametrize("name", TABLE)
def test_a_recorded_output_is_taken_as_an_operator_would(name):
    row = TABLE[name]
    assert ("figures" in row) != ("refused" in row)
    if "refused" in row:
        with pytest.raises(NotUnderstoodError, match=re.escape(row["refused"])):
            figures(name, row)
        return
    found = figures(name, row)
    for test, value in row["figures"].items():
        assert found[test].values[0] == pytest.approx(value, rel=0.001), test
    assert all(value > 0 for one in found.values() for value in one.values)


@needs_captures
@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if "verdicts" in row])
def test_the_machine_s_nominal_value_says_of_it_what_an_operator_would(name):
    row = TABLE[name]
    baseline = Baseline("n1", (), {"node_sku": Value(row["sku"], "inventory")})
    found = figures(name, row)
    said = {
        test: nominal(
            found[test].values[0],
            bound_of(baseline, found[test].test),
            higher_is_better=found[test].higher_is_better,
        ).outcome.value
        for test in row["verdicts"]
    }
    assert said == row["verdicts"]


@needs_captures
def test_every_recording_of_a_tool_that_measures_is_in_the_table():
    there = {
        f"{folder}/{path.name}" for folder in OF_FOLDER for path in (CAPTURES / folder).iterdir()
    }
    assert there == set(TABLE)
