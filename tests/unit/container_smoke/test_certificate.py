"""The smoke test as a condition of certificates: absent, old, bad or alone, it blocks."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from hfprov.baseline import Baseline, Value
from hfprov.catalogue.profiles import ContainerSmoke, Profile, profiles
from hfprov.certificate.blocking import blockers
from hfprov.certificate.case import Case, Diagnosed, Stage
from hfprov.certificate.configuration import Configuration
from hfprov.certificate.document import Issuer, certificate
from hfprov.certificate.revocation import bad_verdict
from hfprov.container_smoke.judge import CHECKS, IMAGE, MADE, NODES, RESULT
from hfprov.record.identity import Identity
from hfprov.record.model import Measurement
from hfprov.verdict import Finding, Outcome, Verdict, Waived, passed

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
IMAGE_NAME = "site/smoke@sha256:" + "1" * 64
WANTED = ContainerSmoke(max_age_hours=24)
PROFILE = Profile(title="t", require=("node.*",), validity_hours=2, container_smoke=WANTED)


def measured(test="container smoke nodes", **changes):
    good = {
        "parameters": {"image": IMAGE_NAME, "variant": "cpu"},
        "conditions": {"boot_id": "b1", "nodes": ["n1", "n2"], "image_id": "sha256:2"},
    }
    return Measurement("n1", test, 2.0, "nodes", at=NOW, **{**good, **changes})


def smoked(verdicts=None, **changes):
    good = tuple(Verdict(check, passed()) for check in CHECKS)
    done = Diagnosed("r1", NOW, good if verdicts is None else verdicts, (measured(),))
    return replace(done, **changes)


def case(done, engine="docker", **changes):
    values = {
        "node_sku": "none", "container_runtime_engine": engine,
        "node_container_smoke_image": IMAGE_NAME,
    }  # fmt: skip
    baseline = Baseline(
        "n1", ("container_runtime",), {name: Value(one, "") for name, one in values.items()}
    )
    return Case(
        "r2", baseline, Identity("0" * 31 + "1"), "ab" * 32, NOW, (Verdict("node.os", passed()),),
        Configuration(boot_id="b1"), smoked=done, together=("n1", "n2"), **changes,
    )  # fmt: skip


def without(check):
    return tuple(Verdict(one, passed()) for one in CHECKS if one != check)


def with_bad(check, outcome=Outcome.FAIL, **changes):
    return (*without(check), Verdict(check, Finding(outcome, reason="It is.", **changes)))


def test_a_good_test_lets_the_host_pass_and_is_in_the_certificate():
    assert blockers(case(smoked()), PROFILE, NOW) == []
    issued = certificate(case(smoked()), ("p", PROFILE), Issuer("0", "c", "s"), NOW)
    found = issued["container_smoke"]
    assert (found["required"], found["image"], found["image_id"], found["nodes"]) == (
        True, IMAGE_NAME, "sha256:2", ["n1", "n2"],
    )  # fmt: skip
    assert found["measurements"][0]["sha256"]


@pytest.mark.parametrize(
    "done",
    [
        None,
        smoked(finished=False),
        smoked(verdicts=()),
        *(smoked(without(check)) for check in CHECKS),
        *(smoked(with_bad(check)) for check in CHECKS),
        *(smoked(with_bad(check, Outcome.UNKNOWN)) for check in CHECKS),
        *(smoked(with_bad(check, Outcome.NOT_APPLICABLE)) for check in CHECKS),
        smoked((Verdict(MADE, Finding(Outcome.UNKNOWN)),)),
        smoked((Verdict(MADE, Finding(Outcome.NOT_APPLICABLE)),)),
        smoked(at=NOW - timedelta(hours=25)),
        smoked(at=NOW + timedelta(hours=1)),
        smoked(measurements=()),
        smoked(measurements=(measured(conditions={"boot_id": "b0", "nodes": ["n1", "n2"]}),)),
        smoked(measurements=(measured(parameters={"image": "another"}),)),
        smoked(measurements=(measured(conditions={"boot_id": "b1", "nodes": ["n1"]}),)),
        smoked(measurements=(measured(conditions={"boot_id": "b1", "nodes": "n1 n2"}),)),
    ],
)
def test_anything_less_blocks(done):
    found = blockers(case(done), PROFILE, NOW)
    assert found
    assert {one.stage for one in found} == {Stage.CONTAINERS}
    with pytest.raises(ValueError, match="not fit"):
        certificate(case(done), ("p", PROFILE), Issuer("0", "c", "s"), NOW)


@pytest.mark.parametrize("outcome", ["fail", "unknown"])
@pytest.mark.parametrize("check", CHECKS)
def test_what_was_seen_is_said_and_not_that_something_is_absent(check, outcome):
    lonely = (measured(conditions={"boot_id": "b1", "nodes": ["n1"]}),)
    done = smoked(with_bad(check, Outcome(outcome)), measurements=lonely)
    found = blockers(case(done), PROFILE, NOW)
    assert (check, outcome, "It is.") in {(one.check, one.outcome, one.reason) for one in found}


def test_a_warning_such_as_an_image_by_tag_does_not_block():
    assert blockers(case(smoked(with_bad(IMAGE, Outcome.WARN))), PROFILE, NOW) == []


def test_it_is_not_required_without_a_runtime_and_the_certificate_says_so():
    host = case(None, engine="none")
    assert blockers(host, PROFILE, NOW) == []
    issued = certificate(host, ("p", PROFILE), Issuer("0", "c", "s"), NOW)
    assert issued["container_smoke"]["required"] is False
    assert "no runtime declared" in issued["container_smoke"]["reason"]
    plain = PROFILE.model_copy(update={"container_smoke": None})
    issued = certificate(host, ("p", plain), Issuer("0", "c", "s"), NOW)
    assert issued["container_smoke"] is None


def test_waivers_lift_what_they_name_and_are_in_the_certificate():
    waiver = Waived("ops", "The vendor has no variant.", NOW + timedelta(hours=1))
    for done in (
        smoked(with_bad(RESULT, waiver=waiver)),
        smoked((Verdict(MADE, Finding(Outcome.UNKNOWN, waiver=waiver)),)),
        smoked(
            with_bad(NODES, waiver=waiver),
            measurements=(measured(conditions={"boot_id": "b1", "nodes": []}),),
        ),
    ):
        assert blockers(case(done), PROFILE, NOW) == []
        issued = certificate(case(done), ("p", PROFILE), Issuer("0", "c", "s"), NOW)
        assert issued["expires_at"] == waiver.expires.isoformat()
        assert [one["owner"] for one in issued["waivers"]] == ["ops"]


def test_a_failed_test_ends_a_certificate_and_one_that_was_not_made_does_not():
    said = bad_verdict({}, with_bad(NODES), NOW)
    assert "container_smoke.nodes" in said
    assert bad_verdict({}, [Verdict(MADE, Finding(Outcome.UNKNOWN))], NOW) == ""


def test_the_profiles_for_racks_require_it_of_nodes_with_a_runtime():
    for name in ("acceptance", "pre-benchmark"):
        found = blockers(case(None), profiles()[name], NOW)
        assert "container_smoke" in {one.check for one in found}, name
        found = blockers(case(None, engine="none"), profiles()[name], NOW)
        assert "container_smoke" not in {one.check for one in found}, name
