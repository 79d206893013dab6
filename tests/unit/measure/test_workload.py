"""A workload's result: every problem of the file at once, and a measurement per host and metric."""

from __future__ import annotations

import json

import pytest

from hfprov.cli.records import show
from hfprov.cli.trials import record_workload
from hfprov.errors import UsageError
from hfprov.measure.workload import measurements, read_workload
from hfprov.record.model import HostState
from hfprov.record.store import Record

GOOD = {
    "workload": "llama training",
    "kind": "training",
    "hosts": ["n1", "n2"],
    "metrics": [{"name": "throughput", "unit": "samples/s", "samples": [10, 12, 11]}],
    "conditions": {"image": "sha256:1", "batch": 32},
}


@pytest.fixture
def file(tmp_path):
    def write(content):
        path = tmp_path / "result.json"
        path.write_bytes(
            content if isinstance(content, bytes) else json.dumps(content).encode("utf-8")
        )
        return path

    return write


def test_each_host_gets_each_metric_with_the_conditions(file):
    found = measurements(read_workload(file(GOOD)))
    assert [(one.host, one.test, one.value, one.unit) for one in found] == [
        ("n1", "workload llama training throughput", 11, "samples/s"),
        ("n2", "workload llama training throughput", 11, "samples/s"),
    ]
    assert found[0].conditions == {"image": "sha256:1", "batch": 32, "hosts": ["n1", "n2"]}
    assert found[0].samples == (10, 12, 11)


def test_every_problem_of_a_file_is_told_at_once(file):
    bad = {**GOOD, "kind": "other?", "metrics": [{"name": "", "unit": "s", "samples": []}], "x": 1}
    with pytest.raises(UsageError) as caught:
        read_workload(file(bad))
    for word in ("kind", "metrics.0.name", "metrics.0.samples", "x"):
        assert f"  {word}: " in caught.value.message


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff\xfe", b"[]", b"[" * 100_000, b'{"workload": NaN}', b"null"],
    ids=["empty", "cut", "bytes", "list", "deep", "nan", "null"],
)
def test_what_is_no_result_is_refused_in_a_sentence(file, content):
    with pytest.raises(UsageError, match="result"):
        read_workload(file(content))


def test_a_figure_that_is_no_number_is_refused(file):
    bad = json.dumps(GOOD).replace("[10, 12, 11]", "[NaN]").encode()
    with pytest.raises(UsageError, match="metrics"):
        read_workload(file(bad))


def test_a_file_that_is_not_there_is_said(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        read_workload(tmp_path / "none.json")


INVENTORY = """
accelerators:
  vars: {jumbo_mtu_interfaces: [eth1], time_sync_servers: [ntp.example], node_sku: none}
  hosts:
    n1: {ansible_host: 192.0.2.1}
    n2: {ansible_host: 192.0.2.2}
"""


def test_a_recorded_workload_is_shown_with_its_figures_and_no_host_was_left_out(
    file, tmp_path, capsys
):
    inventory, db = tmp_path / "hosts.yml", str(tmp_path / "record.db")
    inventory.write_text(INVENTORY, encoding="utf-8")
    assert record_workload(file(GOOD), inventory=[inventory], db=db) == 0
    capsys.readouterr()
    with Record.open(db) as record:
        assert record.run("last").states() == {HostState.OBSERVED: 2}
    show(db=db)
    said = capsys.readouterr().out
    assert "n1 observed" in said
    assert "n2 workload llama training throughput 11 samples/s (3 samples)" in said
    show(db=db, limit="n1")
    said = capsys.readouterr().out
    assert "n1 workload" in said
    assert "n2 workload" not in said


def test_a_document_of_a_run_has_its_figures(file, tmp_path, capsys):
    inventory, db = tmp_path / "hosts.yml", str(tmp_path / "record.db")
    inventory.write_text(INVENTORY, encoding="utf-8")
    record_workload(file(GOOD), inventory=[inventory], db=db)
    capsys.readouterr()
    show(db=db, limit="n2", as_json=True)
    told = json.loads(capsys.readouterr().out)["measurements"]
    assert {one["host"] for one in told} == {"n2"}
    (one,) = (one for one in told if one["test"].endswith("training throughput"))
    assert one.pop("at")
    assert one == {
        "host": "n2", "peer": None, "test": "workload llama training throughput", "value": 11,
        "unit": "samples/s", "samples": [10, 12, 11], "outcome": None, "reason": "",
    }  # fmt: skip
