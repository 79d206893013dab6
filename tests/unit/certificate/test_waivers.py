"""Who answers for what: the file, what a waiver covers, and what it never covers."""

from datetime import UTC, datetime, timedelta

import pytest

from hfprov.baseline import Baseline
from hfprov.certificate.waivers import load_waivers
from hfprov.errors import UsageError
from hfprov.record.store import Record
from hfprov.report.terminal import verdict_line
from hfprov.verdict import Finding, Outcome, Verdict

LATER = (datetime.now(UTC) + timedelta(days=3)).isoformat()
ENTRY = """
  - node: n1
    check: {check}
    reason: The cable is ordered.
    owner: ops@example.org
    expires: {expires}
    {more}
"""


def waivers(tmp_path, *entries, **parts):
    path = tmp_path / "waivers.yml"
    text = "".join(
        ENTRY.format(**({"check": "mtu.live", "expires": LATER, "more": ""} | parts | one))
        for one in entries
    )
    path.write_text(f"waivers:{text}", "utf-8")
    return load_waivers(path)


def annotated(found, check="mtu.live", outcome=Outcome.FAIL, *, subject="eth1", host="n1"):
    [one] = found.annotate(host, [Verdict(check, Finding(outcome, subject))])
    assert one.outcome is outcome
    return one.finding.waiver


def test_a_failure_is_covered_and_stays_a_failure(tmp_path):
    found = annotated(waivers(tmp_path, {}))
    assert (found.owner, found.holds(datetime.now(UTC))) == ("ops@example.org", True)


@pytest.mark.parametrize(
    ("entry", "asked"),
    [
        ({}, {"host": "n2"}),
        ({}, {"outcome": Outcome.UNKNOWN}),
        ({}, {"check": "mtu.files"}),
        ({"more": "subject: eth2"}, {}),
        ({"check": "accelerator.*"}, {"check": "accelerator.count"}),
        ({"check": "accelerator.*"}, {"check": "accelerator.sku"}),
        ({"check": "node.*"}, {"check": "node.identity"}),
        ({"more": "covers: [unknown]"}, {}),
        ({}, {"outcome": Outcome.PASS}),
        ({"more": "covers: [fail, unknown]"}, {"outcome": Outcome.NOT_APPLICABLE}),
    ],
)
def test_what_it_does_not_name_it_does_not_cover(tmp_path, entry, asked):
    assert annotated(waivers(tmp_path, entry), **asked) is None


@pytest.mark.parametrize(
    ("entry", "asked"),
    [
        ({"more": "subject: eth1"}, {}),
        ({"check": "mtu.*"}, {}),
        ({"check": "accelerator.count"}, {"check": "accelerator.count"}),
        ({"more": "covers: [unknown]"}, {"outcome": Outcome.UNKNOWN}),
    ],
)
def test_what_it_names_it_covers(tmp_path, entry, asked):
    assert annotated(waivers(tmp_path, entry), **asked) is not None


def test_a_day_counts_until_its_end_in_utc(tmp_path):
    found = annotated(waivers(tmp_path, {"expires": "2026-11-30"}))
    assert found.expires == datetime(2026, 12, 1, tzinfo=UTC)


def test_an_expired_one_says_so(tmp_path):
    found = annotated(waivers(tmp_path, {"expires": "2020-01-01"}))
    now = datetime.now(UTC)
    assert not found.holds(now)
    assert "expired 2020-01-02" in found.words(now)


def test_every_problem_is_told_at_once(tmp_path):
    path = tmp_path / "waivers.yml"
    path.write_text(
        "waivers:\n"
        "  - {node: 'n*', check: '*', reason: short, owner: '', expires: 2026-12-01T10:00:00}\n"
        "  - {node: n1, check: mtu.lvie, reason: The cable is ordered., owner: o, expires: soon}\n"
        "  - {node: n1, check: node.identity, reason: The cable is ordered., owner: o,\n"
        "     expires: 2026-12-01, until: never}\n",
        "utf-8",
    )
    with pytest.raises(UsageError) as caught:
        load_waivers(path)
    for said in (
        "waivers.0.node: it names one host in full",
        "waivers.0.check: it names a check",
        "waivers.0.reason",
        "waivers.0.owner",
        "waivers.0.expires: the time has no zone",
        "waivers.1.check: there is no such check",
        "waivers.1.expires",
        "waivers.2.check: the identity of a machine cannot be waived",
        "waivers.2.until",
    ):
        assert said in caught.value.message, said


@pytest.mark.parametrize("text", ["", "[]", "a: [", "waivers: 3", "\x00", "waivers: [[[]]]"])
def test_what_is_no_file_of_waivers_is_refused(tmp_path, text):
    path = tmp_path / "waivers.yml"
    path.write_text(text, "utf-8")
    with pytest.raises(UsageError, match=r"waivers\.yml"):
        load_waivers(path)


def test_it_is_recorded_beside_its_finding_and_shown(tmp_path):
    found = waivers(tmp_path, {})
    verdicts = found.annotate("n1", [Verdict("mtu.live", Finding(Outcome.FAIL, "eth1"))])
    with (
        Record.open(tmp_path / "record.db") as record,
        record.start_run("drift", [], {"n1": Baseline("n1", ())}) as log,
    ):
        log.observed("n1", "before", b"{}", verdicts)
        log.finish(1)
        kept = record.run().host("n1").latest.verdicts
    assert list(kept) == verdicts
    assert "by ops@example.org: The cable is ordered." in verdict_line(kept[0]).plain
