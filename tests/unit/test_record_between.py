"""Across runs: the observation before, what changed in between, and looks that do not count."""

from __future__ import annotations

import pytest

from hfprov.baseline import Baseline
from hfprov.errors import RecordError
from hfprov.record.model import Change
from hfprov.record.store import Record
from hfprov.verdict import Verdict, failed, passed

GOOD = [Verdict("mtu.live", passed("eth1", observed="9000", expected="9000"))]
BAD = [Verdict("mtu.live", failed("eth1", observed="1500", expected="9000", reason="Small."))]


@pytest.fixture
def record(tmp_path):
    with Record.open(tmp_path / "record.db") as opened:
        yield opened


def observe(record, verdicts, raw, *, phase="before", command="drift", change=None, **software):
    with record.start_run(command, [], {"n1": Baseline("n1", ())}) as log:
        if change:
            log.change("n1", change)
        earlier = log.earlier_evidence("n1")
        log.observed("n1", phase, raw, verdicts, facts={"software": software})
        log.finish(0)
    return log.id, earlier


def test_the_observation_before_is_of_an_earlier_run_of_the_whole_node(record):
    assert observe(record, GOOD, b"{1}")[1] is None
    observe(record, GOOD, b"{2}", phase="diagnose")
    assert observe(record, GOOD, b"{3}")[1] == b"{1}"
    assert observe(record, GOOD, b"{4}")[1] == b"{3}"


def test_evidence_that_was_let_go_is_none_and_a_damaged_one_is_said(record):
    observe(record, GOOD, b"{1}")
    with record._database.write() as connection:
        connection.exec_driver_sql("UPDATE evidence SET content = x'00'")
    with pytest.raises(RecordError, match="earlier evidence is damaged"):
        observe(record, GOOD, b"{2}")
    with record._database.write() as connection:
        connection.exec_driver_sql("UPDATE evidence SET content = NULL")
    assert observe(record, GOOD, b"{3}")[1] is None


def test_what_changed_between_two_sightings(record):
    observe(record, GOOD, b"{1}", kernel="6.1.0-28", boot="a", only_then="x")
    changed = Change("kernel", "Install", "apt")
    observe(record, GOOD, b"{2}", kernel="6.1.0-28", boot="a")
    run, _ = observe(
        record, BAD, b"{3}", command="provision", change=changed, kernel="6.1.0-30", boot="b"
    )
    since = record.since("n1", "mtu.live", "eth1")
    found = record.between("n1", "software", since.last_good, since.first_bad)
    assert found.changed == {"kernel": ("6.1.0-28", "6.1.0-30"), "boot": ("a", "b")}
    assert [(one.run, one.command, one.role) for one in found.work] == [
        (run, "provision", "kernel")
    ]


def test_a_diagnosis_is_not_how_a_host_stands(record):
    observe(record, BAD, b"{1}")
    observe(record, [Verdict("diagnose", passed())], b"{2}", phase="diagnose")
    assert [one.verdicts for one in record.fleet()] == [tuple(BAD)]
    assert record.last_verdicts("n1").verdicts == tuple(BAD)
    observe(record, GOOD, b"{3}")
    (difference,) = record.run().differences()
    assert (difference.before, difference.after) == (BAD[0], GOOD[0])
