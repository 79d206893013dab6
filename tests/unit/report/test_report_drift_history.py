"""Drift and the record: since when, new or not, one cause or several, and what comes first."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from hfprov.errors import ExitCode
from hfprov.judge import find_check
from hfprov.operate import Operation
from hfprov.report.causes import of_the_host
from hfprov.report.costs import who_repairs
from hfprov.report.drift import WHOLE_HOST, drift_document, drift_of
from hfprov.report.drift_text import Streamed, cause_lines, print_drift, print_hosts
from hfprov.sweep import HostVerdicts
from hfprov.verdict import Outcome, Verdict, failed, passed, unknown, warned

NAMES = [f"node{number:02}" for number in range(1, 41)]
RIVAL = Verdict(
    "limits.pam.rivals", failed("zz-site.conf:1", observed="64", expected="none", reason="Wins.")
)
NO_RIVAL = Verdict("limits.pam.rivals", passed("", observed="none", expected="none"))
LOST_RIVALS = Verdict("limits.pam.rivals", unknown(reason="It timed out."))
FILE, EFFECTIVE = (
    Verdict(f"hardening.updates.{name}", failed("apt", observed="no", expected="yes", reason="-"))
    for name in ("file", "effective")
)


def no_route(host, *, address="192.0.2.11"):
    return f"'{host}' ({address} port 22) cannot be reached: No route to host."


@pytest.fixture
def sweep(record, rack):
    """Records a sweep: verdicts by host, or why it was not reached. Gives what drift finds."""

    def run(**hosts):
        with record.start_run("drift", [], rack.baselines(list(hosts))) as log:
            for host, found in hosts.items():
                if isinstance(found, str):
                    log.not_observed(host, "before", found, rack.unseen(found))
                else:
                    log.observed(host, "before", b"{}", found)
            log.finish(0)
        return drift_of(record, log.id, datetime.now(UTC))

    return run


@pytest.fixture
def judged_at(record):
    """When a host was judged in the run of a drift."""
    return lambda found, host="a": record.run(found.run).host(host).latest.at


def below(one, hosts=2, hints=None):
    return [line.plain.strip() for line in cause_lines(one, hosts, hints)]


class TestSinceWhen:
    def test_a_host_was_good_when_it_was_reached_last(self, sweep, rack, judged_at):
        # Whatever one of its checks said then.
        bad = Verdict("node.identity", failed("", observed="1", expected="2", reason="Cloned."))
        sweep(a=[bad, *rack.good()])
        last = sweep(a=[bad, *rack.good()])
        lost = sweep(a=no_route("a"))
        (one,) = lost.causes
        assert (one.trace.last_good, one.trace.first_bad, one.trace.never_good) == (
            judged_at(last), judged_at(lost), 0,
        )  # fmt: skip
        assert "; reached until today" in below(one)[2]

    def test_a_host_that_never_answered(self, sweep):
        assert below(sweep(a=no_route("a")).causes[0])[2].endswith("never saw it reached.")

    def test_a_subject_that_is_there_only_while_it_is_bad(self, sweep, judged_at):
        sweep(a=[NO_RIVAL])
        last = sweep(a=[NO_RIVAL])
        bad = sweep(a=[RIVAL])
        (one,) = sweep(a=[RIVAL]).causes
        assert (one.trace.last_good, one.trace.first_bad) == (judged_at(last), judged_at(bad))
        assert "never saw" not in below(one)[2]

    def test_and_that_was_away_in_between(self, sweep, judged_at):
        sweep(a=[RIVAL])
        away = sweep(a=[NO_RIVAL])
        back = sweep(a=[RIVAL])
        (one,) = back.causes
        assert (one.trace.last_good, one.trace.first_bad) == (judged_at(away), judged_at(back))

    @pytest.mark.parametrize(
        "nothing",
        [no_route("a"), [LOST_RIVALS], []],
        ids=["not reached", "unknown", "not a word of it"],
    )
    def test_what_could_not_be_judged_was_not_good(self, sweep, nothing):
        sweep(a=nothing)
        (one,) = sweep(a=[RIVAL]).causes
        assert (one.trace.last_good, one.trace.never_good) == (None, 1)
        assert below(one)[2].endswith("the record never saw it good.")


class TestWhatHappenedMeanwhile:
    def test_it_is_read_once_for_all_that_became_bad_together(self, sweep, record, monkeypatch):
        asked, between = [], type(record).between

        def counted(self, host, *spans):
            asked.append(host)
            return between(self, host, *spans)

        monkeypatch.setattr(type(record), "between", counted)
        good = [NO_RIVAL, *(Verdict(one.check, passed("apt")) for one in (FILE, EFFECTIVE))]
        sweep(a=good, b=good)
        found = sweep(a=[RIVAL, FILE, EFFECTIVE], b=[RIVAL, FILE])
        assert len(found.causes) > 1
        assert sorted(asked) == ["a", "b"]
        asked.clear()
        sweep(a=[RIVAL, FILE, NO_RIVAL], b=good)
        assert asked == ["a"]


class TestWhatIsNew:
    def test_another_reason_is_another_failure(self, sweep, rack, judged_at):
        refused = "'a' refused the login: no key."
        good = sweep(a=rack.good(), b=rack.good())
        sweep(a=refused, b=rack.good())
        lost = sweep(a=no_route("a"), b=no_route("b"))
        (one,) = lost.causes
        assert one.new == ["a", "b"]
        assert one.trace.first_bad == judged_at(lost)
        assert one.trace.last_good == judged_at(good)
        (again,) = sweep(a=no_route("a"), b=no_route("b")).causes
        assert (again.new, again.trace.first_bad) == ([], judged_at(lost))

    def test_a_check_that_cannot_judge_for_another_reason(self, sweep):
        other = Verdict("limits.pam.rivals", unknown(reason="The file is a directory."))
        sweep(a=[LOST_RIVALS])
        assert [one.new for one in sweep(a=[other]).causes] == [["a"]]
        assert [one.new for one in sweep(a=[other]).causes] == [[]]

    def test_all_hosts_are_named_and_the_new_ones_said(self, sweep, rack):
        hosts = {"a": no_route("a"), "b": rack.good(), "c": rack.good()}
        sweep(**hosts)
        (one,) = sweep(**{name: no_route(name) for name in hosts}).causes
        assert below(one, 3)[1] == "3 of 3 hosts: a, b, c; new on b, c"


class TestOneCause:
    def test_hosts_behind_one_dead_switch(self, sweep, rack):
        sweep(**dict.fromkeys(NAMES, rack.good()))
        lost = {name: no_route(name, address=f"192.0.2.{n}") for n, name in enumerate(NAMES)}
        (one,) = sweep(**lost).causes
        assert list(one.cause.hosts.values()) == NAMES
        assert below(one)[0] == (
            "unknown  Not observed: The host cannot be reached: No route to host."
        )

    def test_is_streamed_once(self, capsys):
        shown = Streamed(40)
        for number, name in enumerate(NAMES):
            reason = no_route(name, address=f"192.0.2.{number}")
            shown.on_host(HostVerdicts(name, (), reachable=False, reason=reason))
        assert capsys.readouterr().err.count("No route to host") == 1

    def test_another_address_than_its_own_stays(self, sweep):
        through = "'a' (192.0.2.1) cannot be reached: The jump host '192.0.2.99' (x) is gone."
        (one,) = sweep(a=through).causes
        assert one.cause.subject == (
            "The host cannot be reached: The jump host '192.0.2.99' (x) is gone."
        )

    def test_its_hint_stands_below_it_and_nowhere_else(self, sweep, capsys):
        found = sweep(a="'a' refused.", b="'b' refused.", c=no_route("c"), d=[RIVAL])
        hint = "Check 'ansible_user'."
        hints = {"a": hint, "b": hint, "d": "Of no cause."}
        told = [below(one, 4, hints) for one in found.causes]
        assert [lines[4:] for lines in told] == [[hint], [], []]
        print_drift(found, hints)
        print_hosts({"a": HostVerdicts("a", (), reachable=False, reason="Refused.", hint=hint)})
        assert capsys.readouterr().out.count(hint) == 1

    def test_other_values_are_counted_in_words(self, sweep):
        def value(text):
            finding = failed("eth1", observed=text, expected="9000", reason="-")
            return [Verdict("mtu.live", finding)]

        assert (
            "1500 (and 1 other value)" in below(sweep(a=value("1500"), b=value("1")).causes[0])[0]
        )
        three = sweep(a=value("1500"), b=value("1"), c=value("2"))
        assert "1500 (and 2 other values)" in below(three.causes[0])[0]


class TestReachedAgain:
    def test_is_all_that_is_told_of_the_host(self, sweep, rack, capsys):
        mtu = Verdict("mtu.live", failed("eth1", observed="1", expected="9000", reason="-"))
        spoilt = [mtu if one.check == "mtu.live" else one for one in rack.good()]
        sweep(a=no_route("a"), b=no_route("b"), c=spoilt)
        found = sweep(a=rack.good(), b=spoilt, c=rack.good())
        assert found.cured == {WHOLE_HOST: ["a", "b"], ("mtu.live", "eth1"): ["c"]}
        print_drift(found)
        out = capsys.readouterr().out
        assert "Good again:\n  reached again: a, b\n  mtu.live eth1 - 1 host: c\n" in out

    def test_it_is_compared_with_when_it_was_observed_last(self, sweep, rack):
        mtu = Verdict("mtu.live", failed("eth1", observed="1", expected="9000", reason="-"))
        sweep(a=[*rack.good(), RIVAL, mtu])
        sweep(a=no_route("a"))
        sweep(a=no_route("a"))
        link = Verdict("nic.link", failed("eth9", observed="down", expected="up", reason="-"))
        good = [one for one in rack.good() if one.check == "mtu.live"]
        found = sweep(a=[*rack.good(), *good, RIVAL, link])
        assert {one.cause.check: one.new for one in found.causes} == {
            "limits.pam.rivals": [], "nic.link": ["a"],
        }  # fmt: skip
        assert found.cured == {WHOLE_HOST: ["a"], ("mtu.live", "eth1"): ["a"]}

    def test_nothing_is_new_on_a_host_that_was_never_observed(self, sweep, capsys):
        sweep(a=no_route("a"))
        found = sweep(a=[RIVAL])
        assert [one.new for one in found.causes] == [[]]
        assert found.cured == {WHOLE_HOST: ["a"]}
        print_drift(found)
        assert "Found:" in capsys.readouterr().out

    def test_not_of_a_host_on_which_all_was_unknown(self, sweep, rack):
        sweep(a=rack.unseen("The probe's user may not read it."))
        assert WHOLE_HOST not in sweep(a=rack.good()).cured


class TestWhoRepairs:
    def test_a_role_that_runs_for_something_else_may_settle_it(self, sweep):
        found = sweep(a=[FILE, EFFECTIVE], b=[FILE, EFFECTIVE])
        told = {one.cause.check: below(one)[-1] for one in found.causes}
        assert told == {
            "hardening.updates.file": (
                "Role 'hardening' repairs it ('--repair --only safe'); it disturbs nothing."
            ),
            "hardening.updates.effective": (
                "Role 'hardening' runs there for other causes; what it leaves of this a person "
                "repairs: 'hfprov explain hardening.updates.effective'."
            ),
        }

    def test_on_some_of_the_hosts_only(self, sweep):
        found = sweep(a=[FILE, EFFECTIVE], b=[EFFECTIVE])
        (one,) = (one for one in found.causes if one.cause.check == EFFECTIVE.check)
        assert "runs on 1 of 2 hosts for other causes" in below(one)[-1]

    def test_where_it_does_not_run_a_person_does(self, sweep):
        (one,) = sweep(a=[EFFECTIVE]).causes
        assert (
            below(one)[-1] == "A person repairs it: 'hfprov explain hardening.updates.effective'."
        )

    @pytest.mark.parametrize(
        ("check", "says"),
        [
            ("mtu.live", "The role 'jumbo_mtu' repairs it; it disturbs nothing."),
            ("hardening.ssh.effective", "The role 'hardening' repairs it; it restarts what"),
            ("hardening.updates.effective", "What the role 'hardening' does not put right"),
            ("nic.link", "A person repairs it."),
            ("no.check", "A person repairs it."),
        ],
    )
    def test_in_the_words_of_explain(self, check, says):
        text = who_repairs(find_check(check))
        assert says in text
        assert "manual" not in text


class TestWhatComesFirst:
    def test_worst_then_most_hosts_then_what_no_role_repairs(self, sweep):
        full = Verdict("node.filesystems", warned("/", observed="9", expected="8", reason="Full."))
        link = Verdict("nic.link", failed("eth9", observed="down", expected="up", reason="-"))
        cheap = Verdict("mtu.live", failed("eth1", observed="1", expected="9000", reason="-"))
        found = sweep(a=[full, cheap, link, RIVAL, LOST_RIVALS], b=[full, RIVAL], c=[full])
        ranked = [(one.cause.outcome, one.cause.check) for one in found.causes]
        assert ranked == [
            (Outcome.UNKNOWN, "limits.pam.rivals"),
            (Outcome.FAIL, "limits.pam.rivals"),
            (Outcome.FAIL, "nic.link"),
            (Outcome.FAIL, "mtu.live"),
            (Outcome.WARN, "node.filesystems"),
        ]

    def test_what_is_cut_is_counted_and_not_worse(self, sweep, capsys):
        full = [
            Verdict("a.check", warned(f"/{n}", observed="9", expected="8", reason="Full."))
            for n in range(9)
        ]
        low = [
            Verdict("z.check", failed(f"eth{n}", observed="1", expected="2", reason="-"))
            for n in range(52)
        ]
        print_drift(sweep(a=[*full, *low]))
        out = capsys.readouterr().out
        assert out.count("z.check eth") == 50
        assert "a.check" not in out
        assert "and 11 more causes, none of them worse (2 fail, 9 warn); '--json' has them" in out

    def test_the_stream_begins_with_the_worst_and_promises_no_more_than_the_end_keeps(self, capsys):
        full = [
            Verdict("a.check", warned(f"/{n}", observed="9", expected="8", reason="Full."))
            for n in range(30)
        ]
        Streamed(1).on_host(HostVerdicts("a", (*full, RIVAL), reachable=True))
        told = capsys.readouterr().err.splitlines()
        assert "limits.pam.rivals" in told[0]
        assert "More is found. The end tells up to 50 causes, worst first." in told


def test_the_document_tells_hosts_that_are_reached_again_as_a_whole(sweep, rack):
    sweep(a=no_route("a"))
    document = drift_document(Operation("r1", {}, ExitCode.NOTHING), sweep(a=rack.good()))
    assert document["cured"] == [{"check": "", "subject": "", "hosts": ["a"]}]


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("sudo on 'n1' needs a password.", "sudo on the host needs a password."),
        ("'n1' (192.0.2.1) did not answer.", "The host did not answer."),
        ("The host key of 'n1' is not known.", "The host key of the host is not known."),
    ],
)
def test_what_is_said_of_a_host_begins_as_it_is_written(reason, told):
    assert of_the_host("n1", reason) == told
