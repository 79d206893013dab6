"""What ``hfprov verify`` says against a certificate, and nothing against a good one."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from hfprov.baseline import Baseline
from hfprov.catalogue.profiles import Diagnosis, Gate, Profile, Required
from hfprov.certificate import issue, signing
from hfprov.certificate.blocking import newest
from hfprov.certificate.issue import diagnosed
from hfprov.certificate.verification import Shown, verify_file
from hfprov.errors import UsageError
from hfprov.record.identity import Identity
from hfprov.record.model import HostState, Measurement
from hfprov.sweep import Fleet
from hfprov.verdict import Finding, Outcome, Verdict

ME = Identity(f"{1:032x}")


@pytest.fixture
def shown(bench, monkeypatch, tmp_path):
    """Certified hosts, and their certificates as files."""
    done = bench.certify(monkeypatch, group="rack")
    for name, signed in {**done.certificates, "rack": done.group.signed}.items():
        path = tmp_path / f"{name}.json"
        path.write_text(signed.text, "utf-8")
        Path(f"{path}.sig").write_text(signed.signature, "utf-8")
    return bench


def problems(bench, path, now=None, whom=Shown(), *, signers=None, record=False):  # noqa: B008 - frozen
    found = verify_file(
        path, Path(f"{path}.sig"), signers or bench.home / "allowed_signers",
        now or datetime.now(UTC), whom, bench.record if record else None,
    )  # fmt: skip
    assert found.holds is (not found.problems)
    return list(found.problems)


def test_a_good_one_holds(shown, tmp_path):
    for name in ("n1", "n2", "n3", "rack"):
        assert problems(shown, tmp_path / f"{name}.json", record=True) == []
    assert problems(shown, tmp_path / "n1.json", whom=Shown("n1", ME)) == []


def test_a_changed_one_is_not_read_any_further(shown, tmp_path):
    path = tmp_path / "n1.json"
    path.write_text(path.read_text("utf-8").replace('"n1"', '"n2"'), "utf-8")
    assert problems(shown, path, record=True) == ["It was changed after it was signed."]


def test_the_signature_of_a_sibling_is_none(shown, tmp_path):
    (tmp_path / "n1.json.sig").write_bytes((tmp_path / "n2.json.sig").read_bytes())
    assert problems(shown, tmp_path / "n1.json") == ["It was changed after it was signed."]


@pytest.mark.parametrize("text", ["", "garbage", "-----BEGIN SSH SIGNATURE-----\nAAAA\n"])
def test_without_a_good_signature_it_is_nothing(shown, tmp_path, text):
    (tmp_path / "n1.json.sig").write_text(text, "utf-8")
    assert problems(shown, tmp_path / "n1.json")
    (tmp_path / "n1.json.sig").unlink()
    assert problems(shown, tmp_path / "n1.json") == ["It is not signed."]


def test_a_key_that_nobody_trusts_is_refused(shown, tmp_path):
    signing.ensure_key(tmp_path / "other", tmp_path / "signers")
    [said] = problems(shown, tmp_path / "n1.json", signers=tmp_path / "signers")
    assert "does not allow" in said
    with pytest.raises(UsageError, match="allowed signers"):
        problems(shown, tmp_path / "n1.json", signers=tmp_path / "nobody")


def test_a_signature_for_another_purpose_is_refused(shown, tmp_path):
    text = (tmp_path / "n1.json").read_text("utf-8")
    [signature] = signing.sign([text], shown.home / "signing_key", "file")
    (tmp_path / "n1.json.sig").write_text(signature, "utf-8")
    assert problems(shown, tmp_path / "n1.json")


def test_it_expires_and_does_not_begin_early(shown, tmp_path, later):
    assert "It expired" in problems(shown, tmp_path / "n1.json", later)[0]
    [said] = problems(shown, tmp_path / "n1.json", datetime.now(UTC) - timedelta(hours=1))
    assert "set back" in said


def test_the_certificate_of_a_sibling_is_refused(shown, tmp_path):
    path = tmp_path / "n2.json"
    assert problems(shown, path, whom=Shown("n1")) == [
        "It is the certificate of 'n2', not of 'n1'."
    ]
    [said] = problems(shown, path, whom=Shown(identity=ME))
    assert "another machine" in said
    [said] = problems(shown, path, whom=Shown(identity=Identity()))
    assert "cannot be told" in said


def test_a_group_names_its_members_and_no_machine(shown, tmp_path):
    path = tmp_path / "rack.json"
    assert problems(shown, path, whom=Shown("n1")) == []
    assert problems(shown, path, whom=Shown("n9"))
    assert problems(shown, path, whom=Shown("n1", ME))


@pytest.mark.parametrize("text", ["{}", "[]", '{"schema": "hfprov.certificate/1"}', "x"])
def test_what_is_signed_and_no_certificate_is_refused(shown, tmp_path, text):
    path = tmp_path / "x.json"
    path.write_text(text, "utf-8")
    [signature] = signing.sign([text], shown.home / "signing_key")
    Path(f"{path}.sig").write_text(signature, "utf-8")
    assert "It is no certificate" in problems(shown, path)[0]


def test_a_clock_behind_the_record_is_noticed(shown, tmp_path):
    said = problems(
        shown, tmp_path / "n1.json", datetime.now(UTC) - timedelta(hours=1), record=True
    )
    assert any("The record is of" in one for one in said)


def test_revoked_it_holds_no_longer_and_neither_does_its_group(shown, tmp_path):
    document = json.loads((tmp_path / "n1.json").read_text("utf-8"))
    shown.record.revoke_certificate(document["id"], "It drifted.")
    assert "It drifted." in problems(shown, tmp_path / "n1.json", record=True)[0]
    assert "It drifted." in problems(shown, tmp_path / "rack.json", record=True)[0]
    assert problems(shown, tmp_path / "n2.json", record=True) == []


TAMPERED = {
    "evidence": "UPDATE evidence SET content = x'00', sha256 = '00'",
    "evidence replaced": "UPDATE evidence SET content = (SELECT content FROM evidence WHERE id = 2)"
    ", sha256 = (SELECT sha256 FROM evidence WHERE id = 2) WHERE id = 1",
    "evidence gone": "DELETE FROM judgement; DELETE FROM evidence",
    "verdict": "UPDATE verdict SET observed = 'something else'",
    "document": "UPDATE certificate SET document = replace(document, 'quick', 'acceptance')",
    "certificate gone": "DELETE FROM certificate",
    "identity": "UPDATE host SET machine_id = 'abcdabcdabcdabcdabcdabcdabcdabc1'",
}


@pytest.mark.parametrize("statement", TAMPERED.values(), ids=TAMPERED)
def test_a_record_that_was_tampered_with_is_noticed(shown, tmp_path, statement):
    with sqlite3.connect(shown.record.where) as connection:
        connection.executescript(statement)
    connection.close()
    shown.record._sets._sets._values.clear()
    assert problems(shown, tmp_path / "n1.json", record=True)


def test_hosts_that_are_not_alike_are_named_and_not_certified_together(bench, monkeypatch):
    odd = bench.views["n2"]
    bench.views["n2"] = replace(odd, configuration=replace(odd.configuration, kernel="6.2.0"))
    done = bench.certify(monkeypatch, group="rack")
    assert set(done.certificates) == {"n1", "n2", "n3"}
    assert (int(done.code), done.group.signed) == (1, None)
    [one] = done.group.odd
    assert (one.host, one.name, one.value, one.usual) == ("n2", "kernel", "6.2.0", "6.1.0")
    assert bench.record.group_certificates() == []


def test_two_hosts_that_differ_are_not_alike_either(bench, monkeypatch):
    del bench.views["n3"]
    odd = bench.views["n2"]
    bench.views["n2"] = replace(odd, configuration=replace(odd.configuration, topology={}))
    assert bench.certify(monkeypatch, group="rack").group.odd


def test_a_clock_behind_the_record_issues_nothing(bench, monkeypatch):
    ahead = datetime.now(UTC) + timedelta(hours=1)
    monkeypatch.setattr(type(bench.record), "newest_moment", lambda _: ahead)
    done = bench.certify(monkeypatch)
    assert (done.certificates, int(done.code)) == ({}, 3)
    assert {one[0].check for one in done.blockers.values()} == {"clock"}


def test_a_crash_before_the_index_is_written_leaves_nodes_refused(bench, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(issue, "write_index", killed)
    with pytest.raises(KeyboardInterrupt):
        bench.certify(monkeypatch)
    assert bench.record.certificates("n1")
    assert not (bench.home / "index.json").exists()


def test_of_each_kind_of_measurement_the_newest_is_looked_at(bench):
    def measured(value, test="tcp", **parameters):
        return Measurement("n1", test, value, "GB/s", parameters=parameters)

    with bench.record.start_run("measure", ["hfprov"], {"n1": Baseline("n1", ())}) as log:
        for one in (measured(1.0, size=8), measured(2.0), measured(3.0, size=8), measured(4.0)):
            log.measured(one)
        log.measured(measured(5.0, "other"))
        log.finish(0)
    gate = Gate(sku="*", at_least=1, source="a page", checked_on=date(2026, 11, 29))
    wanted = tuple(
        Required(test="tcp", unit="GB/s", max_age_hours=1, gates=(gate,), parameters=parameters)
        for parameters in ({"size": 8}, {}, {"size": 9})
    )
    profile = Profile(title="t", require=("node.*",), validity_hours=2, measurements=wanted)
    found = issue.wanted_measurements(bench.record, "n1", profile)
    assert [one.value for one in found] == [3.0, 4.0]
    picked = [newest(found, one) for one in wanted]
    assert [one and one.value for one in picked] == [3.0, 4.0, None]


def test_a_crash_between_measurement_and_judgement_certifies_nothing(bench):
    fleet = Fleet({"n1": Baseline("n1", ())}, {})
    for finished in (True, False):
        with bench.record.start_run("diagnose", [], fleet.baselines) as log:
            log.states(["n1"], HostState.MEASURING)
            log.measured(Measurement("n1", "dcgmi", 0.0, "failed tests", parameters={"level": 3}))
            if finished:
                verdict = Verdict("diagnose.dcgmi", Finding(Outcome.PASS))
                log.observed("n1", "diagnose", b"{}", [verdict])
                log.finish(0)
            else:
                log.interrupt("Killed.")
        found = diagnosed(bench.record, fleet, "n1")
        assert found.finished is finished
    profile = Profile(
        title="t", require=("node.*",), validity_hours=1,
        diagnosis=Diagnosis(level=1, max_age_hours=1, same_boot=False),
    )  # fmt: skip
    one = issue.Case("r", fleet.baselines["n1"], ME, "ab", datetime.now(UTC), (), diagnosed=found)
    assert any(
        "did not come to a judgement" in b.reason
        for b in issue.blockers(one, profile, datetime.now(UTC))
    )
