"""A certificate needs every required check to have passed; nothing else can make one."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfprov.baseline import Baseline
from hfprov.catalogue.profiles import Profile, profiles
from hfprov.certify import Basis, blockers, certificate
from hfprov.record.identity import Identity
from hfprov.verdict import Finding, Outcome, Verdict

PROFILE = Profile(title="t", require=("node.*", "limits.*"), validity_hours=2)
NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
MACHINE = Identity(machine_id="09933b4f262757e6c658880ed9e935ff")

verdicts = st.lists(
    st.builds(
        Verdict,
        st.sampled_from(["node.os", "node.units", "limits.session", "mtu.live"]),
        st.builds(Finding, st.sampled_from(list(Outcome)), st.sampled_from(["", "eth0"])),
    )
)


def basis(some, identity=MACHINE, evidence="ab" * 32):
    return Basis("r1", Baseline("n1", ("limits",)), identity, evidence, tuple(some))


def good():
    return [
        Verdict("node.os", Finding(Outcome.PASS)),
        Verdict("limits.session", Finding(Outcome.PASS)),
    ]


@given(verdicts)
def test_no_set_with_a_required_non_pass_yields_a_certificate(some):
    required = [one for one in some if one.check.startswith(("node.", "limits."))]
    bad = [one for one in required if one.outcome in (Outcome.FAIL, Outcome.UNKNOWN)]
    proven = {
        one.check.split(".")[0] for one in required if one.outcome in (Outcome.PASS, Outcome.WARN)
    }
    if bad or proven != {"node", "limits"}:
        assert blockers(some, PROFILE)
        with pytest.raises(ValueError, match="not fit"):
            certificate(basis(some), "p", PROFILE, NOW)
    else:
        assert certificate(basis(some), "p", PROFILE, NOW)["host"] == "n1"


@pytest.mark.parametrize("some", [[], [Verdict("node.os", Finding(Outcome.NOT_APPLICABLE))]])
def test_nothing_judged_is_not_certified(some):
    assert {one.outcome for one in blockers(some, PROFILE)} == {"absent"}


@pytest.mark.parametrize("short", [{"identity": None}, {"evidence": ""}])
def test_without_identity_or_evidence_there_is_no_certificate(short):
    with pytest.raises(ValueError, match="not fit"):
        certificate(basis(good(), **short), "p", PROFILE, NOW)


def test_a_certificate_says_who_what_and_until_when():
    document = certificate(basis(good()), "quick", PROFILE, NOW)
    assert document["identity"]["machine_id"] == MACHINE.machine_id
    assert document["issued_at"] == "2026-11-29T12:00:00+00:00"
    assert document["expires_at"] == "2026-11-29T14:00:00+00:00"
    assert document["verdicts"] == {
        "pass": 2, "warn": 0, "fail": 0, "unknown": 0, "not_applicable": 0
    }  # fmt: skip


def test_unknown_blocks_before_fail_and_comes_with_a_remedy():
    some = [
        *good(),
        Verdict("node.units", Finding(Outcome.FAIL, "a.service", reason="failed")),
        Verdict("node.os", Finding(Outcome.UNKNOWN, reason="no answer")),
    ]
    found = blockers(some, PROFILE)
    assert [one.outcome for one in found] == ["unknown", "fail"]
    assert all(one.remedy for one in found)


@pytest.mark.parametrize("name", sorted(profiles()))
def test_every_shipped_profile_asks_for_something_that_exists(name):
    assert profiles()[name].require
