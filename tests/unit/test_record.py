"""The record as its users see it: what is told is there, in order, and nothing secret is."""

from __future__ import annotations

import json
import sqlite3
import threading
from datetime import UTC, datetime, timedelta

import pytest

from hfprov.baseline import Baseline, Value
from hfprov.errors import HostBusyError, RecordError
from hfprov.record import model
from hfprov.record.model import Certificate, Change, HostState, Measurement, RunStatus
from hfprov.record.redaction import MASK, TEXT_LIMIT, Redactor, redact, storable
from hfprov.record.store import Record
from hfprov.verdict import (
    Finding,
    NotApplicable,
    Outcome,
    Verdict,
    failed,
    not_applicable,
    passed,
    unknown,
)

CHECK = "limits.memlock"
GOOD = Verdict(CHECK, passed("sshd", observed="unlimited", expected="unlimited"))
BAD = Verdict(
    CHECK, failed("sshd", observed="65536", expected="unlimited", reason="The limit is low.")
)
LOST = Verdict(CHECK, unknown(reason="No route to host."))


def baselines(*names):
    values = {"limits_memlock": Value("unlimited", "roles/limits/defaults/main.yml:4")}
    return {name: Baseline(name, ("limits",), values) for name in names}


@pytest.fixture
def record(tmp_path):
    with Record.open(tmp_path / "record.db") as opened:
        yield opened


def one_run(record, verdicts, *, phase="before", host="n1"):
    with record.start_run("check", ["hfprov", "check"], baselines(host)) as log:
        log.observed(host, phase, b"{}", verdicts)
        log.finish(0)
    return log.id


class TestRun:
    def test_what_was_told_is_there(self, record):
        with record.start_run("provision", ["hfprov", "provision"], baselines("n2", "n1")) as log:
            log.observed("n1", "before", b'{"a": 1}', [BAD], facts={"os": {"name": "Debian"}})
            log.state("n1", HostState.CONVERGING)
            log.change("n1", Change("limits", "Set limits", "template", "/etc/x", "-1\n+2"))
            log.observed("n1", "after", b'{"a": 2}', [GOOD], state=HostState.VERIFIED)
            log.not_observed("n2", "before", "No route to host.", [LOST])
            log.event("note", "Something happened.", "n1", {"count": 3})
            log.finish(3)

        run = record.run("last")
        assert (run.info.command, run.info.argv) == ("provision", ("hfprov", "provision"))
        assert (run.info.status, run.info.exit_code) == (RunStatus.COMPLETE, 3)
        assert run.info.ended_at >= run.info.started_at
        assert run.states() == {HostState.VERIFIED: 1, HostState.UNREACHABLE: 1}

        n1, n2 = run.hosts()
        assert (n1.host, n1.state, list(n1.judged)) == (
            "n1",
            HostState.VERIFIED,
            ["before", "after"],
        )
        assert n1.judged["before"].verdicts == (BAD,)
        assert n1.judged["before"].summary.failed == 1
        assert n1.latest.verdicts == (GOOD,)
        assert n1.latest.summary.outcome is Outcome.PASS
        assert (n2.state, n2.reason) == (HostState.UNREACHABLE, "No route to host.")
        assert n2.latest.verdicts == (LOST,)
        assert n2.latest.evidence_id is None
        assert run.host("n1") == n1

        ((host, change),) = run.changes()
        assert (host, change.role, change.diff) == ("n1", "limits", "-1\n+2")
        (event,) = run.events("n1")
        assert (event.kind, event.host, event.data) == ("note", "n1", {"count": 3})
        assert record.evidence("last", "n1", "before") == b'{"a": 1}'
        assert record.evidence("last", "n1") == b'{"a": 2}'
        assert record.facts("n1", "os") == {"name": "Debian"}
        assert record.facts("n1", "nothing") is None
        assert record.baseline(n1.baseline_digest)["values"]["limits_memlock"] == {
            "value": "unlimited",
            "origin": "roles/limits/defaults/main.yml:4",
        }

    def test_verdicts_keep_every_field_and_their_order(self, record):
        told = [
            BAD,
            Verdict("z", not_applicable(NotApplicable.CONTAINER, "A container.", "eth0")),
            Verdict("a", Finding(Outcome.WARN, "x", "1", "2", "Because.")),
            BAD,
        ]
        one_run(record, told)
        assert list(record.last_verdicts("n1").verdicts) == told

    def test_no_verdict_at_all_is_unknown(self, record):
        one_run(record, [])
        judged = record.last_verdicts("n1")
        assert (judged.verdicts, judged.summary.outcome) == ((), Outcome.UNKNOWN)

    def test_is_found_by_parts_of_its_id(self, record):
        first, second = one_run(record, [GOOD]), one_run(record, [BAD])
        assert record.run().id == second
        assert record.run(first).id == first
        assert record.run(first.rpartition("-")[2]).id == first
        with pytest.raises(RecordError, match="may be several runs"):
            record.run(first[:4])
        with pytest.raises(RecordError, match="no run '%'"):
            record.run("%")
        with pytest.raises(RecordError, match="no run ''"):
            record.run("")

    def test_without_a_run(self, record):
        assert record.runs() == []
        with pytest.raises(RecordError, match="no run yet"):
            record.run("last")

    def test_order_survives_a_clock_that_goes_back(self, record, monkeypatch):
        first = one_run(record, [BAD])
        early = datetime(2001, 1, 1, tzinfo=UTC)
        monkeypatch.setattr(model, "datetime", _Clock(early))
        second = one_run(record, [GOOD])
        assert second.startswith("2001")
        assert [run.id for run in record.runs()] == [second, first]
        assert record.run("last").id == second
        assert record.last_verdicts("n1").verdicts == (GOOD,)
        assert record.since("n1", CHECK, "sshd").first_bad is None

    def test_a_host_outside_of_the_run_is_refused(self, record):
        log = record.start_run("check", [], baselines("n1"))
        with pytest.raises(RecordError, match="'n2' is not part of run"):
            log.observed("n2", "before", b"{}", [GOOD])

    def test_no_host_at_all(self, record):
        with record.start_run("check", [], {}) as log:
            log.finish(4)
        assert list(record.run().hosts()) == []
        assert record.run().info.exit_code == 4


class _Clock:
    """Stands for the class ``datetime`` with a clock that says what it is told."""

    def __init__(self, now):
        self._now = now

    def now(self, zone):
        return self._now.astimezone(zone)

    @staticmethod
    def fromisoformat(text):
        return datetime.fromisoformat(text)


class TestEnd:
    @pytest.mark.parametrize(
        ("error", "says", "code"),
        [
            (KeyboardInterrupt(), "Stopped by a person.", 130),
            (ValueError("odd"), "Stopped by ValueError: odd", None),
            (RecordError("The disk is gone."), "The disk is gone.", 2),
        ],
    )
    def test_an_error_interrupts_the_run(self, record, error, says, code):
        def work():
            with record.start_run("provision", [], baselines("a", "b", "c")) as log:
                log.acquire(["a", "b"])
                log.observed("a", "before", b"{}", [GOOD])
                log.state("b", HostState.CONVERGING)
                raise error

        with pytest.raises(type(error)):
            work()
        run = record.run()
        assert (run.info.status, run.info.exit_code) == (RunStatus.INTERRUPTED, code)
        assert {host.host: host.state for host in run.hosts()} == {
            "a": HostState.OBSERVED,
            "b": HostState.INTERRUPTED,
            "c": HostState.NOT_ATTEMPTED,
        }
        assert "its state is unknown" in run.host("b").reason
        assert [event.message for event in run.events()] == [says]
        assert record.busy() == []

    def test_a_run_without_a_result_is_not_complete(self, record):
        with record.start_run("check", [], baselines("a")):
            pass
        assert record.run().info.status is RunStatus.INTERRUPTED


class TestAcrossRuns:
    def test_since_when(self, record):
        one_run(record, [GOOD])
        good = one_run(record, [GOOD])
        assert record.since("n1", CHECK, "sshd").first_bad is None
        bad = one_run(record, [BAD])
        one_run(record, [BAD])
        since = record.since("n1", CHECK, "sshd")
        assert (since.last_good.run, since.first_bad.run) == (good, bad)
        # Judged, and no word of it: that is not bad.
        assert record.since("n1", CHECK, "other").first_bad is None
        assert record.since("n1", "another.check", "sshd") == model.Since(None, None)

    def test_unknown_is_bad_and_not_applicable_is_neither(self, record):
        absent = Verdict(CHECK, not_applicable(NotApplicable.CONTAINER, "A container."))
        one_run(record, [absent])
        assert record.since("n1", CHECK) == model.Since(None, None)
        lost = one_run(record, [LOST])
        one_run(record, [absent])
        since = record.since("n1", CHECK)
        assert (since.last_good, since.first_bad.run) == (None, lost)

    def test_differences_are_those_to_the_judgement_before_the_run(self, record):
        other = Verdict("kernel.release", passed("", observed="6.1"))
        first = one_run(record, [GOOD, other])
        second = one_run(record, [BAD, other])
        third = one_run(record, [BAD, other])
        assert list(record.run(first).differences()) == []
        assert list(record.run(second).differences()) == [model.Difference("n1", GOOD, BAD)]
        assert list(record.run(third).differences()) == []

    def test_differences_pass_over_an_outage(self, record):
        seen = one_run(record, [BAD])
        with record.start_run("check", [], baselines("n1")) as lost:
            lost.not_observed("n1", "before", "No route.", [LOST])
            lost.finish(3)
        back = one_run(record, [BAD])
        assert model.Difference("n1", BAD, None) in record.run(lost.id).differences()
        assert list(record.run(back).differences()) == []
        assert [list(record.run(one).observed_again()) for one in (seen, lost.id, back)] == [
            [], [], ["n1"],
        ]  # fmt: skip
        assert record.last_verdicts("n1", back).run == lost.id
        assert record.last_verdicts("n1", back, observed=True).run == seen

    def test_differences_pass_over_a_check_that_could_not_judge(self, record):
        one_run(record, [BAD])
        one_run(record, [LOST])
        with record.start_run("diagnose", [], baselines("n1")) as log:
            log.observed("n1", "diagnose", b"{}", [GOOD])  # a part of the node
            log.finish(0)
        same = one_run(record, [BAD])
        one_run(record, [LOST])
        good = one_run(record, [GOOD])
        assert list(record.run(same).differences()) == []
        assert list(record.run(good).differences()) == [model.Difference("n1", BAD, GOOD)]

    def test_differences_look_at_the_last_phase(self, record):
        one_run(record, [GOOD])
        with record.start_run("provision", [], baselines("n1")) as log:
            log.observed("n1", "before", b"{}", [BAD])
            log.observed("n1", "after", b"{}", [GOOD])
            log.finish(0)
        assert list(record.run().differences()) == []
        assert record.last_verdicts("n1", before_run=log.id).verdicts == (GOOD,)

    def test_differences_name_what_appears_and_what_is_gone(self, record):
        one_run(record, [GOOD])
        one_run(record, [LOST])
        assert set(record.run().differences()) == {
            model.Difference("n1", GOOD, None),
            model.Difference("n1", None, LOST),
        }

    def test_last_verdicts(self, record):
        record.start_run("check", [], baselines("n1", "n2")).finish(0)
        assert record.last_verdicts("n1") is None
        one_run(record, [BAD])
        second = one_run(record, [GOOD])
        record.start_run("check", [], baselines("n1")).finish(0)
        assert record.last_verdicts("n1").verdicts == (GOOD,)
        assert record.last_verdicts("n1", before_run=second).verdicts == (BAD,)
        assert record.last_verdicts("n1", before_run="last").verdicts == (GOOD,)
        with pytest.raises(RecordError, match="no host 'n9'"):
            record.last_verdicts("n9")

    def test_history_is_newest_first_and_limited(self, record):
        ids = [one_run(record, [verdict]) for verdict in (GOOD, BAD, LOST)]
        entries = record.history("n1", limit=2)
        assert [entry.run for entry in entries] == [ids[2], ids[1]]
        assert [entry.phases["before"].outcome for entry in entries] == ["unknown", "fail"]

    def test_the_fleet_shows_the_newest_of_each_host(self, record):
        one_run(record, [BAD], host="a")
        one_run(record, [BAD], host="b")
        newest = one_run(record, [GOOD], host="a")
        record.start_run("check", [], baselines("never")).finish(0)
        shown = {judged.host: (judged.run, judged.summary.outcome) for judged in record.fleet()}
        assert shown["a"] == (newest, Outcome.PASS)
        assert shown["b"][1] is Outcome.FAIL
        assert set(shown) == {"a", "b"}
        assert [host.name for host in record.hosts()] == ["a", "b", "never"]

    def test_pages_lose_nobody(self, record):
        names = [f"n{number:03d}" for number in range(250)]
        with record.start_run("check", [], baselines(*names)) as log:
            for name in names:
                log.observed(name, "before", b"{}", [GOOD])
            log.finish(0)
        assert [view.host for view in record.run().hosts()] == names
        assert [judged.host for judged in record.fleet()] == names
        assert [host.name for host in record.hosts()] == names

    def test_equal_verdicts_are_stored_once(self, record, tmp_path):
        for name in ("a", "b", "a"):
            one_run(record, [GOOD, BAD], host=name)
        with sqlite3.connect(tmp_path / "record.db") as plain:
            assert plain.execute("SELECT count(*) FROM verdict").fetchone() == (2,)
            assert plain.execute("SELECT count(*) FROM judgement").fetchone() == (3,)


class TestLocks:
    def test_all_or_none(self, record):
        first = record.start_run("provision", [], baselines("a", "b"))
        second = record.start_run("repair", [], baselines("a", "b"))
        assert first.acquire(["a"]).hosts == ("a",)
        with pytest.raises(HostBusyError, match=f"'a' is in use: run '{first.id}' .provision"):
            second.acquire(["b", "a"])
        assert [holder.host for holder in record.busy()] == ["a"]

    def test_partial_takes_what_is_free(self, record):
        first = record.start_run("provision", [], baselines("a", "b"))
        second = record.start_run("repair", [], baselines("a", "b"))
        first.acquire(["a"])
        acquired = second.acquire(["a", "b"], partial=True)
        assert acquired.hosts == ("b",)
        assert [(holder.host, holder.run) for holder in acquired.busy] == [("a", first.id)]

    def test_again_by_the_same_run(self, record):
        log = record.start_run("provision", [], baselines("a", "b"))
        log.acquire(["a"])
        assert log.acquire(["a", "b"]).hosts == ("a", "b")

    def test_release_and_finish_free_hosts(self, record):
        log = record.start_run("provision", [], baselines("a", "b"))
        log.acquire(["a", "b"])
        log.release(["a"])
        assert [holder.host for holder in record.busy()] == ["b"]
        log.finish(0)
        assert record.busy() == []

    def test_one_run_does_not_release_the_hosts_of_another(self, record):
        first = record.start_run("provision", [], baselines("a"))
        second = record.start_run("repair", [], baselines("a"))
        first.acquire(["a"])
        second.release(["a"])
        second.finish(0)
        assert [holder.run for holder in record.busy()] == [first.id]

    def test_a_person_breaks_a_lock(self, record):
        log = record.start_run("provision", [], baselines("a"))
        log.acquire(["a"])
        assert record.break_lock("a", "The controller burned down.").run == log.id
        assert record.break_lock("a", "Again.") is None
        (event,) = record.events("a")
        assert event.kind == "lock_broken"
        assert "burned down" in event.message


class TestSecrets:
    def test_none_reaches_the_files(self, record, tmp_path):
        secret = 'pass"word\nsecond line'
        with record.start_run(
            "check", ["hfprov", f"--password={secret}"], baselines("n1"), secrets=[secret, ""]
        ) as log:
            log.observed(
                "n1",
                "before",
                json.dumps({"text": f"x {secret} y"}).encode(),
                [Verdict(CHECK, passed(observed=secret, expected=f"a {secret}"))],
                facts={"env": {secret: [secret]}},
            )
            log.not_observed("n1", "later", f"said {secret}", [])
            log.state("n1", HostState.FAILED, secret)
            log.change("n1", Change("r", "t", "a", item=secret, diff=f"+{secret}"))
            log.event("e", f"said {secret}", data={"deep": [{"er": secret}]})
            log.measured(Measurement("n1", "bw", 1.0, "GB/s", raw=secret.encode()))
            log.finish(0)
        assert record.run().info.argv == ("hfprov", f"--password={MASK}")
        assert json.loads(record.evidence("last", "n1")) == {"text": f"x {MASK} y"}
        for judged in record.run().host("n1").judged.values():
            assert "word" not in str(judged)
        stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
        assert b"hfprov" in stored
        assert b"pass" + b'"word' not in stored
        assert b"second line" not in stored
        assert next(record.measurements()).raw == MASK.encode()

    @pytest.mark.parametrize(
        ("text", "secrets", "expected"),
        [
            ("--pw=hunter2!", ["hunter2!"], f"--pw={MASK}"),
            ("https://u:p%40ss%2F1@h", ["p@ss/1"], f"https://u:{MASK}@h"),
            ("aHVudGVyMg==", ["hunter2"], MASK),
            ("abcdefgh", ["cdef", "abcdefgh"], MASK),
            ("a cat", ["a"], "a cat"),
            ("a", ["a"], MASK),
            ("nothing", [""], "nothing"),
        ],
    )
    def test_forms(self, text, secrets, expected):
        assert redact([text], secrets) == [expected]

    def test_data_keeps_its_shape(self):
        data = {"a": [1, 2.5, None, True, "secret1"], "b": {"secret1": ("x",)}}
        assert Redactor(["secret1"]).data(data) == {
            "a": [1, 2.5, None, True, MASK],
            "b": {MASK: ["x"]},
        }


class TestHostileText:
    @pytest.mark.parametrize(
        ("text", "stored"),
        [
            ("plain", "plain"),
            ("Grüße ✓", "Grüße ✓"),
            ("a\0b", "a\\x00b"),
            ("\ud800", "\\ud800"),
            ("\x1b[31m", "\x1b[31m"),
        ],
    )
    def test_is_stored_as_data(self, record, text, stored):
        assert storable(text) == stored
        one_run(record, [Verdict(CHECK, passed(text, observed=text))])
        (verdict,) = record.last_verdicts("n1").verdicts
        assert (verdict.subject, verdict.finding.observed) == (stored, stored)

    def test_is_bounded(self):
        assert len(storable("x" * 1_000_000)) < TEXT_LIMIT + 50
        assert storable("x" * TEXT_LIMIT) == "x" * TEXT_LIMIT

    def test_cannot_reach_the_database_as_sql(self, record):
        name = "x'; DROP TABLE host; --"
        one_run(record, [GOOD], host=name)
        assert [host.name for host in record.hosts()] == [name]
        assert record.last_verdicts(name).verdicts == (GOOD,)


class TestEvidence:
    def test_damage_is_noticed(self, record, tmp_path):
        one_run(record, [GOOD])
        with sqlite3.connect(tmp_path / "record.db") as plain:
            plain.execute("UPDATE evidence SET sha256 = 'ab'")
        with pytest.raises(RecordError, match="damaged: its SHA-256"):
            record.evidence("last", "n1")
        with sqlite3.connect(tmp_path / "record.db") as plain:
            plain.execute("UPDATE evidence SET content = X'00'")
        with pytest.raises(RecordError, match="is damaged"):
            record.evidence("last", "n1")

    def test_absent_is_an_error(self, record):
        record.start_run("check", [], baselines("n1")).finish(0)
        with pytest.raises(RecordError, match="no evidence of host 'n1' in phase 'after'"):
            record.evidence("last", "n1", "after")

    def test_old_content_is_let_go_and_the_rest_stays(self, record):
        one_run(record, [GOOD])
        assert record.let_go_evidence(datetime.now(UTC) - timedelta(days=1)) == 0
        assert record.let_go_evidence(datetime.now(UTC) + timedelta(days=1)) == 1
        with pytest.raises(RecordError, match="was let go; its SHA-256 was 44136fa3"):
            record.evidence("last", "n1")
        assert record.last_verdicts("n1").verdicts == (GOOD,)


class TestProofs:
    NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)

    def certificate(self, name="c1", host="n1"):
        return Certificate(
            id=name,
            host=host,
            profile="training",
            issued_at=self.NOW,
            expires_at=self.NOW + timedelta(days=7),
            baseline_digest="abc",
            document='{"é": 1}\n',
            signature="-----BEGIN SSH SIGNATURE-----",
        )

    def test_certificates_are_kept_to_the_byte(self, record):
        with record.start_run("certify", [], baselines("n1", "n2")) as log:
            log.certified(self.certificate())
            log.certified(self.certificate("c2", "n2"))
            log.finish(0)
        found = record.certificate("c1")
        assert (found.document, found.run, found.revoked_at) == ('{"é": 1}\n', log.id, None)
        assert [one.id for one in record.certificates()] == ["c2", "c1"]
        assert [one.id for one in record.certificates("n1")] == ["c1"]
        with pytest.raises(RecordError, match="no certificate 'c3'"):
            record.certificate("c3")

    def test_an_id_is_used_once(self, record):
        with record.start_run("certify", [], baselines("n1")) as log:
            log.certified(self.certificate())
            with pytest.raises(RecordError, match="another certificate 'c1'"):
                log.certified(self.certificate())
            log.finish(0)

    def test_validity(self, record):
        with record.start_run("certify", [], baselines("n1")) as log:
            log.certified(self.certificate())
            log.finish(0)

        def valid(days):
            when = self.NOW + timedelta(days=days)
            listed = [one.id for one in record.certificates("n1", valid_at=when)]
            assert bool(listed) is record.certificate("c1").valid_at(when)
            return listed

        assert (valid(-1), valid(0), valid(6), valid(7)) == ([], ["c1"], ["c1"], [])
        revoked = record.revoke_certificate("c1", "The card was replaced.")
        assert revoked.revoke_reason == "The card was replaced."
        assert valid(0) == []
        assert record.revoke_certificate("c1", "Again.") == revoked
        assert [event.kind for event in record.events("n1")] == ["certificate_revoked"]

    def test_measurements(self, record):
        told = Measurement(
            "n1",
            "ib_write_bw",
            value=48.5,
            unit="GB/s",
            peer="n2",
            parameters={"size": 65536},
            samples=(48.4, 48.6),
            conditions={"kernel": "6.1"},
            raw=b"\x00raw",
        )
        with record.start_run("measure", [], baselines("n1", "n2")) as log:
            log.measured(told)
            log.measured(Measurement("n2", "ib_write_bw", value=None, unit="GB/s"))
            log.finish(0)
        (one,) = record.measurements("n1", "ib_write_bw", "last")
        assert (one.peer, one.parameters, one.samples) == ("n2", {"size": 65536}, (48.4, 48.6))
        assert (one.conditions, one.raw, one.run) == ({"kernel": "6.1"}, b"\x00raw", log.id)
        assert [one.value for one in record.measurements(test="ib_write_bw")] == [48.5, None]

    @pytest.mark.parametrize("page", [1, 2, 5, 50])
    def test_measurements_with_a_peer_and_from_the_end(self, record, monkeypatch, page):
        monkeypatch.setattr("hfprov.record.store._LARGE", page)
        with record.start_run("measure", [], baselines("n1")) as log:
            for number in range(5):
                peer = "n2" if number % 2 else "n3"
                log.measured(Measurement("n1", "tcp", float(number), "Gbit/s", peer=peer))
            log.finish(0)
        assert [one.value for one in record.measurements("n1")] == [0, 1, 2, 3, 4]
        assert [one.value for one in record.measurements("n1", newest_first=True)] == [
            4,
            3,
            2,
            1,
            0,
        ]
        assert [one.value for one in record.measurements("n1", "tcp", peer="n2")] == [1, 3]
        back = record.measurements("n1", "tcp", peer="n3", newest_first=True)
        assert [one.value for one in back] == [4, 2, 0]

    def test_a_time_without_a_zone_is_refused(self):
        with pytest.raises(ValueError, match="no time zone"):
            model.stamp(datetime(2026, 1, 1))  # noqa: DTZ001 - what the test is about


def test_threads_share_one_run(record):
    names = [f"n{number}" for number in range(40)]
    log = record.start_run("check", [], baselines(*names))

    def work(some):
        for name in some:
            log.observed(name, "before", b"{}", [GOOD])
            log.change(name, Change("r", "t", "a"))

    threads = [threading.Thread(target=work, args=(names[start::4],)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.finish(0)
    assert record.run().states() == {HostState.OBSERVED: 40}
    assert len(list(record.run().changes())) == 40


def test_reading_goes_on_while_the_run_writes(record):
    with record.start_run("check", [], baselines("n1", "n2")) as log:
        log.observed("n1", "before", b"{}", [GOOD])
        views = record.run().hosts()
        assert next(views).latest.verdicts == (GOOD,)
        log.observed("n2", "before", b"{}", [BAD])
        assert record.run().states() == {HostState.OBSERVED: 2}
        assert next(views).host == "n2"
        log.finish(0)
