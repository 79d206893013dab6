"""Drift told by causes: what is new, since when, what changed meanwhile, how it is repaired."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from msgspec import structs

from hfprov.converge import Plan, Report
from hfprov.errors import ExitCode, UsageError
from hfprov.operate import Operation, Policy
from hfprov.record.model import Change
from hfprov.report.drift import drift_of
from hfprov.report.drift_text import Streamed, cause_lines, host_names, print_drift
from hfprov.report.plan import not_repaired, plan_document, print_plan
from hfprov.report.repairs import print_not_repaired
from hfprov.report.textfile import require_writable, write_textfile
from hfprov.sweep import HostVerdicts
from hfprov.verdict import Impact, Verdict, Waived, failed, unknown, warned

NAMES = [f"node{number:02}" for number in range(1, 41)]
NOW = datetime.now(UTC)


def mtu(value="1500"):
    reason = "Large frames are dropped or split."
    finding = failed("eth1", observed=value, expected="9000", reason=reason)
    return Verdict("mtu.live", finding)


def spoilt(rack, *more):
    """A good host's verdicts with some in the place of its own."""
    keys = {one.key for one in more}
    return [*(one for one in rack.good() if one.key not in keys), *more]


def sweep(record, rack, verdicts, *, software=None, change=None, command="drift"):
    """One run over hosts; ``verdicts`` by host, or why it was not reached."""
    with record.start_run(command, [], rack.baselines(list(verdicts))) as log:
        for host, found in verdicts.items():
            if change:
                log.change(host, change)
            if isinstance(found, str):
                log.not_observed(host, "before", found, rack.unseen(found))
            else:
                log.observed(host, "before", b"{}", found, facts={"software": software or {}})
        log.finish(0)
    return log.id


def found_in(record, run):
    return drift_of(record, run, NOW)


def texts(found):
    return [
        line.plain.strip()
        for one in found.causes
        for line in cause_lines(one, found.hosts)
    ]  # fmt: skip


def test_who_answers_for_a_drift_is_said_with_it(record, rack):
    one = mtu()
    waiver = Waived("ops", "The switch is replaced.", NOW + timedelta(days=1))
    waived = structs.replace(one, finding=structs.replace(one.finding, waiver=waiver))
    run = sweep(record, rack, {"node01": spoilt(rack, waived), "node02": rack.good()})
    [told] = [line for line in texts(found_in(record, run)) if "The switch is replaced." in line]
    assert told.startswith("1 host waived until ")
    assert "by ops" in told


def test_many_hosts_one_cause_with_what_changed_meanwhile(record, rack):
    sweep(record, rack, dict.fromkeys(NAMES, rack.good()), software={"kernel": "6.1", "boot": "a"})
    bad = {name: spoilt(rack, mtu()) if name in NAMES[:37] else rack.good() for name in NAMES}
    installed = Change("kernel", "Install", "apt")
    run = sweep(
        record, rack, bad, software={"kernel": "6.12", "boot": "b"}, change=installed,
        command="provision",
    )  # fmt: skip
    found = found_in(record, run)
    (one,) = found.causes
    assert (one.cause.check, one.new, one.role, one.impact) == (
        "mtu.live", NAMES[:37], "jumbo_mtu", Impact.NONE,
    )  # fmt: skip
    assert one.trace.meanwhile == {
        "kernel 6.1 -> 6.12": 37, "a reboot": 37, f"'provision' {run} ran kernel": 37,
    }  # fmt: skip
    what, where, since, repair = texts(found)
    assert what == (
        "fail     mtu.live eth1: observed 1500, expected 9000 - Large frames are dropped or split."
    )
    assert where.startswith("37 of 40 hosts: node01, node02")
    assert where.endswith("and 31 more")
    assert "Since today" in since
    assert "Changed in between: kernel 6.1 -> 6.12; a reboot" in since
    assert repair == ("Role 'jumbo_mtu' repairs it ('--repair --only safe'); it disturbs nothing.")


def test_what_is_new_comes_first_and_what_is_cured_is_said(record, rack, capsys):
    full = Verdict("node.filesystems", warned("/", observed="9", expected="8", reason="Full."))
    sweep(record, rack, {"a": spoilt(rack, full), "b": spoilt(rack, mtu()), "c": rack.good()})
    run = sweep(record, rack, {"a": spoilt(rack, full), "b": rack.good(), "c": spoilt(rack, mtu())})
    found = found_in(record, run)
    assert [(one.cause.check, one.new) for one in found.causes] == [
        ("mtu.live", ["c"]),
        ("node.filesystems", []),
    ]
    assert found.cured == {("mtu.live", "eth1"): ["b"]}
    print_drift(found)
    out = capsys.readouterr().out
    assert (
        out.index("New since the sweep before") < out.index("As before") < out.index("Good again")
    )
    assert "mtu.live eth1 - 1 host: b" in out


def test_a_cause_that_spreads_names_the_new_hosts(record, rack):
    sweep(record, rack, {"a": spoilt(rack, mtu()), "b": rack.good()})
    found = found_in(record, sweep(record, rack, dict.fromkeys("ab", spoilt(rack, mtu()))))
    assert [(one.new, list(one.cause.hosts.values())) for one in found.causes] == [
        (["b"], ["a", "b"])
    ]
    assert "2 of 2 hosts: a, b; new on b" in texts(found)[1]
    assert "On 1 host the record never saw it good." in texts(found)[2]


def test_the_first_sweep_calls_nothing_new(record, rack, capsys):
    found = found_in(record, sweep(record, rack, {"a": spoilt(rack, mtu())}))
    assert [one.new for one in found.causes] == [[]]
    assert "the record never saw it good" in texts(found)[2]
    print_drift(found)
    assert capsys.readouterr().out.startswith("Found:")


def test_a_host_that_is_not_reached_is_one_cause(record, rack):
    sweep(record, rack, dict.fromkeys("ab", rack.good()))
    found = found_in(
        record, sweep(record, rack, {"a": "No route to 'a'.", "b": "No route to 'b'."})
    )
    (one,) = found.causes
    assert (one.cause.subject, one.new, one.level) == ("No route to the host.", ["a", "b"], "")
    assert "; reached until today" in texts(found)[2]
    assert texts(found)[3] == "hfprov cannot repair what it does not reach."


def test_what_a_node_says_cannot_rewrite_the_terminal(record, rack, capsys):
    evil = mtu("\x1b[2J\u202eok")
    print_drift(found_in(record, sweep(record, rack, {"a": spoilt(rack, evil)})))
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\u202e" not in out


def test_causes_are_streamed_once(rack, capsys):
    shown = Streamed(40)
    for name in NAMES:
        shown.on_host(HostVerdicts(name, tuple(spoilt(rack, mtu())), reachable=True))
    err = capsys.readouterr().err
    assert err.count("mtu.live eth1: observed 1500") == 1
    many = [
        Verdict("mtu.live", failed(f"eth{n}", observed="1", expected="2", reason="x"))
        for n in range(90)
    ]
    shown.on_host(HostVerdicts("odd", tuple(many), reachable=True))
    assert capsys.readouterr().err.count("expected 2") == 19
    shown.on_host(HostVerdicts("lost", (), reachable=False, reason="No route."))


def plan_of(rack):
    manual = Verdict(
        "node.units", failed("x.service", observed="failed", expected="up", reason="-")
    )
    session = Verdict(
        "limits.session", failed("memlock", observed="64", expected="8192", reason="Low.")
    )
    views = {
        "a": HostVerdicts("a", tuple(spoilt(rack, mtu(), session)), reachable=True),
        "b": HostVerdicts("b", tuple(spoilt(rack, mtu(), manual)), reachable=True),
        "c": HostVerdicts(
            "c", tuple(rack.unseen("No route.")), reachable=False, reason="No route."
        ),
    }
    withheld = {"b": {"node.units": "no role repairs it"}}
    plan = Plan(
        {"a": ("limits", "jumbo_mtu"), "b": ("jumbo_mtu",)}, (("a",), ("b",)), ("c",), withheld
    )
    return Operation("r1", views, ExitCode.UNKNOWN, plan)


def test_the_plan_says_why_each_role_runs_and_what_it_costs(rack, capsys):
    done = plan_of(rack)
    document = plan_document("drift", done, Policy(("1",), "50%", allowed="safe"))
    assert document["max_failures"] == 1
    first, second = document["hosts"]
    assert [(one["role"], one["needs"]) for one in first["roles"]] == [
        ("limits", "restart"),
        ("jumbo_mtu", "safe"),
    ]
    assert first["roles"][1]["because"] == [
        {"check": "mtu.live", "subject": "eth1", "outcome": "fail"}
    ]
    assert second["withheld"] == [{"what": "node.units", "why": "no role repairs it"}]
    print_plan(done.plan, done.views)
    err = capsys.readouterr().err
    assert "wave 1: 1 host\n  a: limits, jumbo_mtu" in err
    assert "not reached: c" in err
    assert "b: node.units is not repaired: no role repairs it" in err


def test_what_a_repair_left_is_said_with_its_reason(rack, capsys):
    done = plan_of(rack)
    done = replace(done, report=Report(not_attempted=("b",), stopped="Too many failed."))
    found = {(row["check"], row["why"]): row["hosts"] for row in not_repaired(done)}
    assert found == {
        ("mtu.live", "its role ran and left it so"): ["a"],
        ("limits.session", "its role ran and left it so"): ["a"],
        ("mtu.live", "the rollout stopped before it came to this host"): ["b"],
        ("node.units", "the rollout stopped before it came to this host"): ["b"],
        ("", "It is not reached: No route."): ["c"],
    }
    print_not_repaired(done)
    assert "the host on c: It is not reached" in capsys.readouterr().err
    assert not_repaired(plan_of(rack)) == []


def test_the_textfile_takes_the_place_of_the_last_one(record, rack, tmp_path):
    sweep(record, rack, {"a": spoilt(rack, mtu())})
    target = write_textfile(record, tmp_path)
    assert target == tmp_path / "hfprov.prom"
    text = target.read_text()
    assert 'hfprov_host_outcome{host="a",outcome="fail"} 1' in text
    assert target.stat().st_mode & 0o777 == 0o644
    sweep(record, rack, {"a": rack.good()})
    write_textfile(record, target)
    assert 'hfprov_host_outcome{host="a",outcome="fail"} 0' in target.read_text()
    assert not list(tmp_path.glob(".hfprov.prom.*"))


def test_a_textfile_that_cannot_be_written_is_said_first(tmp_path):
    with pytest.raises(UsageError, match="no folder that can be written"):
        require_writable(tmp_path / "gone" / "x.prom")


def test_names_are_cut():
    assert host_names(["a", "b"]) == "a, b"
    assert host_names(list("abcdefgh"), most=2) == "a, b and 6 more"


def test_unknown_is_new_when_it_was_known(record, rack):
    sweep(record, rack, {"a": rack.good()})
    lost = Verdict("mtu.live", unknown("eth1", reason="It timed out."))
    found = found_in(record, sweep(record, rack, {"a": spoilt(rack, lost)}))
    assert [(one.cause.check, one.new) for one in found.causes] == [("mtu.live", ["a"])]


TIMED_OUT = Verdict("mtu.live", unknown(reason="'ip' timed out."))
"""In the place of all interfaces."""


def timed_out(rack):
    return [*(one for one in rack.good() if one.check != "mtu.live"), TIMED_OUT]


@pytest.mark.parametrize("times", [1, 3])
def test_what_was_bad_before_a_tool_timed_out_is_not_new_afterwards(record, rack, times):
    sweep(record, rack, {"a": spoilt(rack, mtu()), "b": rack.good()})
    for _ in range(times):
        run = sweep(record, rack, dict.fromkeys("ab", timed_out(rack)))
    # The same tool that times out again is no news either.
    assert [one.new for one in found_in(record, run).causes] == [["a", "b"] if times == 1 else []]
    found = found_in(record, sweep(record, rack, dict.fromkeys("ab", spoilt(rack, mtu()))))
    assert [(one.cause.subject, one.new) for one in found.causes] == [("eth1", ["b"])]
    assert found.cured == {}
    assert "2 of 2 hosts: a, b; new on b" in texts(found)[1]


def test_what_is_good_after_a_tool_timed_out_is_good_again_where_it_was_bad(record, rack):
    sweep(record, rack, {"a": spoilt(rack, mtu()), "b": rack.good()})
    sweep(record, rack, dict.fromkeys("ab", timed_out(rack)))
    found = found_in(record, sweep(record, rack, dict.fromkeys("ab", rack.good())))
    assert (found.causes, found.cured) == ([], {("mtu.live", "eth1"): ["a"]})


def test_another_kind_of_finding_than_before_the_time_out_is_new(record, rack):
    warn = Verdict("mtu.live", warned("eth1", observed="9000", expected="9000", reason="Odd."))
    sweep(record, rack, {"a": spoilt(rack, warn)})
    sweep(record, rack, {"a": timed_out(rack)})
    found = found_in(record, sweep(record, rack, {"a": spoilt(rack, mtu())}))
    assert [one.new for one in found.causes] == [["a"]]


def test_a_subject_that_alone_was_unknown_is_compared_with_what_it_was_before(record, rack):
    def two(first, second):
        return spoilt(rack, first, structs.replace(second, finding=structs.replace(
            second.finding, subject="eth2")))  # fmt: skip

    lost = Verdict("mtu.live", unknown("eth2", reason="It timed out."))
    fine = next(one for one in rack.good() if one.check == "mtu.live")
    sweep(record, rack, {"a": two(mtu(), mtu())})
    sweep(record, rack, {"a": two(fine, lost)})
    found = found_in(record, sweep(record, rack, {"a": two(mtu(), mtu())}))
    # The first one was good in between, and is bad anew; of the second nothing else was known.
    assert [(one.cause.subject, one.new) for one in found.causes] == [("eth1", ["a"]), ("eth2", [])]


def test_what_a_check_can_judge_for_the_first_time_is_new(record, rack):
    sweep(record, rack, {"a": timed_out(rack)})
    found = found_in(record, sweep(record, rack, {"a": spoilt(rack, mtu())}))
    assert [one.new for one in found.causes] == [["a"]]
