"""What a terminal is told: times of its own clock, sentences with one full stop."""

from __future__ import annotations

import time
from datetime import timedelta, timezone

import pytest

from hfprov.certificate.case import Blocker
from hfprov.certificate.issue import Certified, GroupResult, Signed
from hfprov.errors import ExitCode
from hfprov.report.certified import print_certificates, print_certified
from hfprov.report.terminal import print_history, print_run, print_runs, verdict_line
from hfprov.sweep import HostVerdicts
from hfprov.verdict import Verdict, failed


@pytest.fixture
def tokyo(monkeypatch):
    """A machine whose clock is nine hours ahead of UTC."""
    monkeypatch.setenv("TZ", "JST-9")
    time.tzset()
    yield timezone(timedelta(hours=9))
    monkeypatch.undo()
    time.tzset()


def test_times_without_a_zone_are_those_of_the_clock(tokyo, record, rack, capsys):
    run = rack.write(["n1"])
    begun = record.run(run).info.started_at.astimezone(tokyo)
    certificates = record.certificates()
    until = certificates[0].expires_at.astimezone(tokyo)
    print_runs(record.runs())
    assert f"{begun:%Y-%m-%d %H:%M:%S}" in capsys.readouterr().out
    print_history(record.history("n1"))
    assert f"{begun:%Y-%m-%d %H:%M}" in capsys.readouterr().out
    print_certificates(certificates, certificates[0].issued_at)
    assert f"{until:%Y-%m-%d %H:%M}" in capsys.readouterr().out


def test_events_of_a_run_have_times_of_the_clock(tokyo, record, rack, capsys):
    with record.start_run("drift", [], rack.baselines(["n1"])) as log:
        log.event("note", "It was seen.", host="n1")
        log.finish(0)
    (at,) = [one.at for one in record.run(log.id).events() if one.message == "It was seen."]
    print_run(record.run(log.id), verbose=False)
    assert f"{at.astimezone(tokyo):%H:%M:%S} n1: It was seen." in capsys.readouterr().out


def test_what_was_observed_ends_no_sentence():
    finding = failed("f", observed="Missing: 'a'.", expected="as written", reason="It differs.")
    assert verdict_line(Verdict("c.d", finding)).plain.strip() == (
        "fail     c.d f: observed Missing: 'a', expected as written - It differs."
    )


def blocker(check, subject, remedy="Do it."):
    return Blocker(check, subject, "fail", f"{subject or 'It'} is wrong.", remedy)


def test_what_blocks_a_certificate_is_told_by_checks(rack, capsys):
    views = {"n1": HostVerdicts("n1", tuple(rack.drifted()), reachable=True)}
    found = [
        blocker("rdma.units", ""),
        *(
            blocker("tools.run", name)
            for name in ("fio", "ping", "lspci", "nvme", "lshw", "numactl")
        ),
        blocker("mtu.live", "eth1", "Look at it."),
    ]
    group = GroupResult("rack", None, (), ("n1",))
    print_certified(Certified("r1", views, ExitCode.BAD, {"n1": found}, {}, group))
    assert capsys.readouterr().out.splitlines() == [
        "n1 not certified",
        "  1. fail    rdma.units - It is wrong.",
        "     Do it.",
        "  2. fail    tools.run fio - fio is wrong. (and ping, lspci, nvme, lshw and 1 more)",
        "     Do it.",
        "  3. fail    mtu.live eth1 - eth1 is wrong.",
        "     Look at it.",
        "group rack not certified: n1 has no certificate",
    ]


def test_what_a_certificate_stands_on_is_below_its_host(rack, capsys):
    smoke = {"required": False, "reason": "No runtime is declared."}
    waiver = {
        "check": "mtu.live", "subject": "eth1", "expires_at": "soon", "owner": "ops", "reason": "-",
    }  # fmt: skip
    document = {
        "expires_at": "then", "profile": "quick", "id": "c1", "container_smoke": smoke,
        "waivers": [waiver],
    }  # fmt: skip
    views = {"n1": HostVerdicts("n1", tuple(rack.good()), reachable=True)}
    signed = {"n1": Signed(document, "", "")}
    group = GroupResult("", None, (), ())
    print_certified(Certified("r1", views, ExitCode.GOOD, {}, signed, group))
    assert capsys.readouterr().out.splitlines() == [
        "n1 certified until then (quick, c1)",
        "  containers  No runtime is declared.",
        "  waived  mtu.live eth1 until soon by ops: -",
    ]
