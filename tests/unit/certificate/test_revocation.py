"""What is recorded after a certificate was issued, and contradicts it, ends it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from msgspec import structs

from hfprov.baseline import Baseline
from hfprov.certificate.revocation import Revoker, catch_up
from hfprov.cli.certificates import revoke as revoke_command
from hfprov.record.identity import Identity
from hfprov.verdict import Finding, Outcome, Verdict, Waived


def seen(bench, **parts):
    return replace(bench.views["n1"], **parts)


def other(bench, **parts):
    return seen(bench, configuration=replace(bench.views["n1"].configuration, **parts))


def gpu(bench, **parts):
    [one] = bench.views["n1"].configuration.devices
    return other(bench, devices=(replace(one, **parts),))


FAIL = Verdict("mtu.live", Finding(Outcome.FAIL, "eth1", reason="Too small."))
ODD = {
    "drift": (lambda b: seen(b, verdicts=(FAIL,)), "'mtu.live' of 'eth1' failed: Too small"),
    "unknown": (
        lambda b: seen(b, verdicts=(Verdict("node.os", Finding(Outcome.UNKNOWN)),)),
        "'node.os' could not be judged",
    ),
    "unreachable": (lambda b: seen(b, reachable=False, reason="No route."), "No route."),
    "identity": (lambda b: seen(b, identity=Identity("e1" * 16)), "its machine-id changed"),
    "kernel": (lambda b: other(b, kernel="6.2.0"), "its kernel is '6.2.0' and was '6.1.0'"),
    "driver": (
        lambda b: gpu(b, versions={"driver": "590.1", "vbios": "96.00"}),
        "the driver of '0000:19:00.0' is '590.1' and was '580.95'",
    ),
    "firmware": (lambda b: gpu(b, versions={"driver": "580.95"}), "the vbios"),
    "accelerator gone": (lambda b: other(b, devices=()), "(GPU-1) is gone"),
    "accelerator replaced": (lambda b: gpu(b, uuid="GPU-2"), "(GPU-1) is gone"),
}


@pytest.mark.parametrize(("make", "why"), ODD.values(), ids=ODD)
def test_it_ends_with(bench, monkeypatch, make, why):
    bench.certify(monkeypatch)
    bench.drift(n1=make(bench))
    [ended] = bench.record.certificates("n1")
    assert ended.revoked_at is not None
    assert why in ended.revoke_reason
    kinds = [one.kind for one in bench.record.events("n1")]
    assert "certificate_revoked" in kinds
    assert all(one.revoked_at is None for one in bench.record.certificates("n2"))


def test_what_was_issued_since_a_run_began_ends_too(bench, monkeypatch):
    with bench.record.start_run("drift", ["hfprov"], {"n1": Baseline("n1", ())}) as log:
        revoker = Revoker(bench.record, log)
        bench.certify(monkeypatch)
        revoker.seen(seen(bench, verdicts=(FAIL,)))
        log.finish(1)
    [ended] = bench.record.certificates("n1")
    assert ended.revoked_at is not None


def test_a_host_as_it_was_keeps_it_also_after_a_reboot_into_the_same_kernel(bench, monkeypatch):
    bench.certify(monkeypatch)
    bench.drift(n1=other(bench, boot_id="boot-2"))
    assert bench.record.certificates("n1")[0].revoked_at is None


def test_a_diagnosis_that_was_refused_says_nothing_against_a_node(bench, monkeypatch):
    bench.certify(monkeypatch)
    busy = Verdict("diagnose.idle", Finding(Outcome.UNKNOWN, reason="A job runs."))
    bench.drift(n1=seen(bench, verdicts=(busy,), configuration=None))
    assert bench.record.certificates("n1")[0].revoked_at is None


def waived(hours):
    until = datetime.now(UTC) + timedelta(hours=hours)
    return structs.replace(
        FAIL, finding=structs.replace(FAIL.finding, waiver=Waived("ops", "Ordered.", until))
    )


def test_what_was_waived_when_it_was_issued_does_not_end_it(bench, monkeypatch):
    good = bench.views["n1"]
    bench.views["n1"] = replace(good, verdicts=(*good.verdicts, waived(1)))
    bench.certify(monkeypatch)
    bench.drift(n1=seen(bench, verdicts=(*good.verdicts, FAIL)))
    assert bench.record.certificates("n1")[0].revoked_at is None
    elsewhere = structs.replace(FAIL, finding=structs.replace(FAIL.finding, subject="eth2"))
    bench.drift(n1=seen(bench, verdicts=(*good.verdicts, elsewhere)))
    assert bench.record.certificates("n1")[0].revoked_at is not None


def test_what_was_waived_ends_it_once_the_waiver_has_expired(bench, monkeypatch):
    good = bench.views["n1"]
    bench.views["n1"] = replace(good, verdicts=(*good.verdicts, waived(1)))
    bench.certify(monkeypatch)
    bench.drift(n1=seen(bench, verdicts=(*good.verdicts, waived(-1))))
    assert bench.record.certificates("n1")[0].revoked_at is not None


def test_a_host_that_is_refused_keeps_no_earlier_one_either(bench, monkeypatch):
    good = bench.views["n1"]
    until = datetime.now(UTC) + timedelta(hours=1)
    bad = Finding(Outcome.FAIL, "x", reason="Down.", waiver=Waived("ops", "Ordered.", until))
    bench.views["n1"] = replace(good, verdicts=(*good.verdicts, Verdict("node.units", bad)))
    assert "n1" in bench.certify(monkeypatch).certificates
    withdrawn = Verdict("node.units", structs.replace(bad, waiver=None))
    bench.views["n1"] = replace(good, verdicts=(*good.verdicts, withdrawn))
    assert "n1" not in bench.certify(monkeypatch).certificates
    [earlier] = bench.record.certificates("n1")
    assert "refused another one: node.units: Down." in earlier.revoke_reason


def test_an_expired_waiver_ends_it(bench, monkeypatch):
    bench.certify(monkeypatch)
    bench.drift(n1=seen(bench, verdicts=(waived(-1),)))
    assert bench.record.certificates("n1")[0].revoked_at is not None


def test_what_a_killed_run_recorded_is_caught_up_with(bench, monkeypatch):
    bench.certify(monkeypatch)
    with bench.record.start_run("drift", [], {"n1": Baseline("n1", ())}) as log:
        log.observed("n1", "before", b"{}", [FAIL])
        log.interrupt("Killed.")
    assert bench.record.certificates("n1")[0].revoked_at is None
    assert len(catch_up(bench.record)) == 1
    assert "'mtu.live'" in bench.record.certificates("n1")[0].revoke_reason
    assert catch_up(bench.record) == []


def test_what_a_host_still_holds_is_told_when_one_is_revoked(bench, monkeypatch, capsys):
    bench.certify(monkeypatch)
    bench.certify(monkeypatch, profile_name="other")
    newer, older = bench.record.certificates("n1")
    revoke_command(newer.id, "Under test.", str(bench.record.where))
    assert capsys.readouterr().out.splitlines() == [
        f"Certificate '{newer.id}' of 'n1' is revoked: Under test.",
        f"The host still holds '{older.id}' of the profile 'quick'.",
    ]
    revoke_command(older.id, "Under test.", str(bench.record.where))
    assert "still holds" not in capsys.readouterr().out
