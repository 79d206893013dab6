"""What is read while a provision goes on and after it failed: short, and the reason last."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from hfprov import operate
from hfprov.cli import drift, nodes
from hfprov.cli.site import Site
from hfprov.converge import STILL_WRONG, Plan, Report, Tools
from hfprov.errors import ExitCode
from hfprov.operate import Operation
from hfprov.play import TaskResult
from hfprov.report.progress import Shown
from hfprov.report.repairs import print_repair
from hfprov.sweep import Fleet, HostVerdicts
from hfprov.verdict import Verdict, failed

REASON = "'eth1' can have an MTU from 68 to 9216, not 900000."
STOPPED = f"The first wave failed on 'n1': {REASON}"


def bare(host, checks=("limits.session", "limits.units", "mtu.live", "mtu.persistent")):
    """A host that lacks everything, some of it many times."""
    some = [
        Verdict(check, failed(f"{check}-{n}", observed="no", expected="yes", reason="It is not."))
        for check in checks
        for n in range(20)
    ]
    return HostVerdicts(host, tuple(some), reachable=True)


def stopped(**views):
    views = views or {host: bare(host) for host in ("n1", "n2", "n3")}
    plan = Plan(dict.fromkeys(views, ("limits", "jumbo_mtu")), (("n1",), ("n2", "n3")), (), {})
    report = Report(failed={"n1": REASON}, not_attempted=("n2", "n3"), stopped=STOPPED)
    return Operation("r1", views, ExitCode.BAD, plan, report)


def written(capfd, done, **options):
    """Both streams in the order in which a terminal shows them."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("sys.stderr", sys.stdout)
        print_repair(done, **options)
    return capfd.readouterr().out


def test_a_rollout_that_stopped_is_short_and_says_why_once_and_last(capfd):
    text = written(capfd, stopped())
    assert len(text.splitlines()) < 20
    assert text.count(REASON) == 1
    assert text.splitlines()[-4:] == [
        "Not attempted, because the rollout stopped: n2, n3",
        "The rollout stopped. The first wave failed on 'n1'.",
        f"n1 failed: {REASON}",
        "pass: 0  warn: 0  fail: 3  unknown: 0",
    ]


def test_findings_of_one_check_are_one_line(capfd):
    lines = written(capfd, stopped()).splitlines()
    session = [line for line in lines if "fail     limits.session" in line]
    first = "  fail     limits.session limits.session-0: observed no, expected yes - It is not."
    more = "limits.session-1, limits.session-2, limits.session-3, limits.session-4 and 15 more"
    assert session == [f"{first} (and {more})"]
    assert lines.count("  not attempted; 80 findings, as before") == 2


def test_what_ended_early_is_counted_and_not_listed(capfd):
    text = written(capfd, stopped())
    assert "80 findings on n1: the play ended on this host before, or at, its role" in text
    assert "80 findings each on n2, n3: the rollout stopped before it came to this host" in text


def test_of_a_host_with_very_many_checks_the_rest_is_in_the_record(capfd):
    checks = [f"limits.some{n:02}" for n in range(30)]
    lines = written(capfd, stopped(n1=bare("n1", checks))).splitlines()
    assert "  20 more checks with findings: 'hfprov show r1' has all" in lines


def test_what_a_role_left_is_named(capfd):
    left = Operation(
        "r1",
        {"n1": bare("n1", ("mtu.live",))},
        ExitCode.BAD,
        Plan({"n1": ("jumbo_mtu",)}, (("n1",),), (), {}),
        Report(failed={"n1": f"{STILL_WRONG}: mtu.live: It is not."}),
    )
    text = written(capfd, left)
    assert "and 16 more on n1: its role ran and left it so" in text
    assert "The rollout stopped" not in text


def test_verbose_tells_every_finding(capfd):
    lines = written(capfd, stopped(), verbose=True).splitlines()
    assert sum("limits.session limits.session-" in line for line in lines) == 60


def task(**changes):
    plain = {
        "host": "n1", "role": "jumbo_mtu", "task": "preflight | Refuse", "action": "assert",
        "changed": False, "failed": False, "unreachable": False, "message": "",
    }  # fmt: skip
    return TaskResult(**{**plain, **changes})


def test_a_task_is_told_with_its_role(capfd):
    shown = Shown(1)
    shown.on_task(task(changed=True))
    shown.on_task(task(failed=True, message="No."))
    assert capfd.readouterr().err.splitlines() == [
        "n1: changed: jumbo_mtu: preflight | Refuse",
        "n1: failed: jumbo_mtu: preflight | Refuse: No.",
    ]


@pytest.mark.parametrize(
    ("command", "choices"),
    [
        (nodes.provision, {}),
        (drift.drift, {}),
        (drift.drift, {"repair": True}),
        (drift.drift, {"plan": True}),
    ],
)
def test_with_json_progress_is_on_stderr_and_stdout_is_one_document(
    rack, monkeypatch, tmp_path, capfd, command, choices
):
    site = Site(Fleet(rack.baselines(["n1"]), {}), Tools((), tmp_path, tmp_path, tmp_path))
    view = HostVerdicts("n1", tuple(rack.good()), reachable=True)

    def sweep(*_, on_host, **__):
        on_host(view)
        return {"n1": view}

    monkeypatch.setattr(operate, "sweep", sweep)
    for module in (nodes, drift):
        monkeypatch.setattr(module, "open_site", lambda *_, **__: site)
    db = str(tmp_path / "record.db")
    assert command([Path("rack")], db=db, as_json=True, **choices) == 0
    said = capfd.readouterr()
    assert json.loads(said.out)["run"]
    assert "observed 1/1: n1 pass" in said.err
