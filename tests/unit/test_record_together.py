"""Hosts that are recorded in one transaction: each as if it were alone."""

import zlib

import pytest

from hfprov.baseline import Baseline
from hfprov.record.errors import HostIdentityError
from hfprov.record.evidence import Seen
from hfprov.record.identity import Identity
from hfprov.record.model import HostState
from hfprov.record.store import Record
from hfprov.verdict import Verdict, passed

RAW = b'{"results":{},"text":"' + b"x" * 500 + b'"}'
ONE, TWO = (Identity(f"{number:032x}", "", "") for number in (0xABC, 0xABD))


@pytest.fixture
def record(tmp_path):
    with Record.open(tmp_path / "record.db") as opened:
        yield opened


def start(record, secrets=()):
    names = ("n1", "n2", "n3")
    baselines = {name: Baseline(name, (), {}) for name in names}
    return record.start_run("drift", ["drift"], baselines, secrets=secrets)


def seen(host, identity, raw=RAW, **more):
    return Seen(host, "before", raw, [Verdict("a.b", passed("", observed=host))], identity, **more)


def test_each_host_has_its_own_evidence_and_verdicts(record):
    with start(record) as log:
        kept = log.observed_all([seen("n1", ONE), seen("n2", TWO, b'{"two":2}')])
        log.finish(0)
    assert len(set(kept)) == 2
    assert record.evidence(log.id, "n2") == b'{"two":2}'
    assert record.run(log.id).host("n1").latest.verdicts[0].finding.observed == "n1"


def test_a_machine_under_a_second_name_concerns_no_other_host(record):
    with start(record) as log:
        kept = log.observed_all([seen("n1", ONE), seen("n2", ONE), seen("n3", TWO)])
        log.finish(0)
    assert isinstance(kept[1], HostIdentityError)
    states = {host.host: host.state for host in record.run(log.id).hosts()}
    assert states["n1"] is states["n3"] is HostState.OBSERVED
    assert states["n2"] is not HostState.OBSERVED
    assert [one.kind for one in record.events("n2")] == ["identity_refused"]


def test_evidence_is_kept_as_it_was_packed_unless_something_in_it_is_secret(record):
    packed = zlib.compress(RAW, 9)
    with start(record, secrets=["secret-token"]) as log:
        log.observed_all([seen("n1", ONE, packed=packed)])
        told = RAW.replace(b"xxx", b"secret-token", 1)
        log.observed_all([seen("n2", TWO, told, packed=zlib.compress(told))])
        log.finish(0)
    assert record.evidence(log.id, "n1") == RAW
    assert b"secret-token" not in record.evidence(log.id, "n2")


def test_what_is_no_packing_at_all_is_packed_again(record):
    padded = zlib.compress(RAW, 0) + b"\0" * 1000
    with start(record) as log:
        log.observed_all([seen("n1", ONE, packed=padded)])
        log.finish(0)
    assert record.evidence(log.id, "n1") == RAW
    with record._database.read() as connection:
        size = connection.exec_driver_sql("SELECT length(content) FROM evidence").scalar()
    assert size < len(RAW)
