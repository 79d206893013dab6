"""No report is better than the record: what is bad, unknown or unfinished is in each format."""

from __future__ import annotations

import csv
import html
import io
import re
from dataclasses import replace
from datetime import timedelta
from xml.etree import ElementTree as ET

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hfprov.record.model import HostState, RunStatus
from hfprov.report.csv_export import write_csv
from hfprov.report.html_page import certificate_status, write_html
from hfprov.report.junit import write_junit
from hfprov.report.markdown import write_markdown
from hfprov.report.overview import survey
from hfprov.report.prometheus import write_prometheus
from hfprov.report.standing import ending, standing
from hfprov.verdict import Finding, Outcome, Verdict

WRITERS = (write_html, write_markdown, write_junit, write_csv, write_prometheus)


def written(writer, content):
    out = io.StringIO()
    writer(content, out)
    return out.getvalue()


def headline(content):
    return survey(content).headline


class TestRuns:
    def test_one_drifted_host_among_good_ones(self, rack, content):
        rack.write([f"node{i:02d}" for i in range(1, 9)])
        page = written(write_html, content())
        assert "<h1>" in page
        assert "1 of 8 hosts is not as declared" in page
        assert 'class="tile fail"' in page
        assert page.count('class="tile pass"') == 7
        assert "soft 64 KiB, hard 64 KiB" in page
        assert "Run the role &#39;limits&#39;" in page  # the remedy
        assert 'id="x-limits.session"' in page  # the whole explanation
        assert "3 pass → fail" in page  # what is different

    def test_interrupted_run_says_so_first(self, rack, record, content):
        with record.start_run("drift", ["hfprov"], rack.baselines(["n1", "n2"])) as log:
            log.observed("n1", "before", b"{}", rack.good())
            log.interrupt("Stopped by a person.", 130)
        for writer in (write_html, write_markdown):
            assert "Interrupted: 1 of 2 hosts is in an unknown state" in written(writer, content())
        assert "hfprov_run_complete 0" in written(write_prometheus, content())
        assert {row["run_status"] for row in csv_rows(content())} == {"interrupted"}
        assert errors(content())

    def test_a_run_cut_off_after_all_hosts_were_good_is_not_good(self, rack, record, content):
        with record.start_run("drift", ["hfprov"], rack.baselines(["n1"])) as log:
            log.observed("n1", "before", b"{}", rack.good())
            log.interrupt("Stopped by a person.", 130)
        found = survey(content())
        assert found.headline == "Interrupted: the host is as declared"
        assert found.outcome is Outcome.UNKNOWN
        assert found.alarm

    def test_running_run_is_not_over(self, rack, record, content):
        log = record.start_run("drift", ["hfprov"], rack.baselines(["n1"]))
        log.observed("n1", "before", b"{}", rack.good())
        assert headline(content()).startswith("Not ended yet: ")
        log.finish(0)
        assert headline(content()) == "The host is as declared"

    def test_good_hosts_of_a_run_that_failed(self, rack, record, content):
        with record.start_run("certify", ["hfprov"], rack.baselines(["n1"])) as log:
            log.observed("n1", "certify", b"{}", rack.good())
            log.finish(1)
        found = survey(content())
        assert found.headline == "The host is as declared, but the run did not end well"
        assert "exit code 1" in found.alarm
        assert found.outcome is Outcome.FAIL

    def test_no_host(self, record, content):
        with record.start_run("drift", ["hfprov"], {}) as log:
            log.finish(4)
        assert headline(content()) == "No host was checked"
        page = written(write_html, content())
        assert "Nothing was checked" in page
        assert "is as declared" not in page
        assert errors(content())

    def test_empty_fleet(self, content):
        assert headline(content("fleet")) == "No host was checked"
        assert errors(content("fleet"))

    def test_failed_role_on_a_host_whose_checks_pass(self, rack, record, content):
        with record.start_run("provision", ["hfprov"], rack.baselines(["n1"])) as log:
            log.observed("n1", "before", b"{}", rack.good())
            log.state("n1", HostState.FAILED, "The task 'Install' failed.")
            log.finish(1)
        assert headline(content()) == "1 of 1 host is not as declared"
        for writer in (write_html, write_markdown, write_junit, write_csv):
            assert "Install" in written(writer, content())

    def test_a_later_run_that_never_came_to_a_host_says_nothing_of_it(self, rack, record, content):
        rack.run("n1", rack.good())
        with record.start_run("trial", ["hfprov"], rack.baselines(["n1"])) as log:
            log.interrupt("Stopped by a person.", 130)
        (entry,) = content("fleet").hosts()
        assert (entry.state, entry.reason) == (HostState.OBSERVED, "")
        assert (entry.outcome, entry.note) == (Outcome.PASS, "")

    def test_a_host_that_no_run_came_to_has_a_line_of_its_own(self, rack, record, content):
        with record.start_run("drift", ["hfprov"], rack.baselines(["n1"])) as log:
            log.interrupt("Stopped by a person.", 130)
        (row,) = csv_rows(content())
        assert (row["host"], row["host_outcome"], row["check"]) == ("n1", "unknown", "")
        assert 'hfprov_host_outcome{host="n1",outcome="unknown"} 1' in written(
            write_prometheus, content()
        )

    def test_unreachable_host_is_told_of_once_and_its_checks_are_named(self, rack, record, content):
        reason = "No route to host."
        with record.start_run("drift", ["hfprov"], rack.baselines(["n1"])) as log:
            log.not_observed("n1", "before", reason, rack.unseen(reason))
            log.finish(3)
        page = written(write_html, content())
        assert "1 host not reached" in page
        assert page.count(f"<div>{reason}</div>") == 0  # not at each of its checks
        assert "13 checks could not be judged" in page
        assert "<code>time.offset</code>" in page
        assert 'id="x-' not in page  # what a check means does not help with the road to the host


class TestFleet:
    def test_never_judged_hosts_are_unknown(self, rack, record, content):
        with record.start_run("drift", ["hfprov"], rack.baselines(["n1", "n2"])) as log:
            log.observed("n1", "before", b"{}", rack.good())
            log.finish(0)
        rows = {row.host: row.outcome for row in survey(content("fleet")).rows}
        assert rows == {"n1": Outcome.PASS, "n2": Outcome.UNKNOWN}

    def test_a_host_that_a_later_run_was_changing_is_unknown(self, rack, record, content):
        rack.run("n1", rack.good())
        assert headline(content("fleet")) == "The host was as declared when last judged"
        with record.start_run("provision", ["hfprov"], rack.baselines(["n1"])) as log:
            log.state("n1", HostState.CONVERGING)
            log.interrupt("Killed.")
        assert headline(content("fleet")) == "1 of 1 host is in an unknown state"

    def test_a_later_run_that_never_came_to_it_changes_nothing(self, rack, record, content):
        rack.run("n1", rack.good())
        with record.start_run("drift", ["hfprov"], rack.baselines(["n1"])) as log:
            log.interrupt("Killed.")
        assert headline(content("fleet")) == "The host was as declared when last judged"


verdicts = st.lists(
    st.builds(
        Verdict,
        st.sampled_from(["node.os", "limits.session", "mtu.live", "a.check.of.another.version"]),
        st.builds(
            Finding,
            st.sampled_from(list(Outcome)),
            st.sampled_from(["", "eth0", "/", "a|b`c<d>"]),
            st.sampled_from(["", "1500", "=1+1", "`x`"]),
            st.sampled_from(["", "9000"]),
            st.sampled_from(["", "Because of <it>.", "It is | so."]),
        ),
    ),
    max_size=8,
)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(verdicts, min_size=1, max_size=3), st.sampled_from(list(HostState)))
def test_every_verdict_that_is_not_good_is_in_every_format(rack, record, content, several, state):
    names = [f"n{number}" for number in range(len(several))]
    with record.start_run("drift", ["hfprov"], rack.baselines(names)) as log:
        for name, some in zip(names, several, strict=True):
            log.observed(name, "before", b"{}", some, state=state)
        log.finish(0)
    bad = {
        (name, one.check, one.subject, one.outcome)
        for name, some in zip(names, several, strict=True)
        for one in some
        if one.outcome in {Outcome.WARN, Outcome.FAIL, Outcome.UNKNOWN}
    }
    assert bad <= html_verdicts(content())
    assert bad <= markdown_verdicts(content())
    assert bad <= prometheus_verdicts(content())
    assert bad <= {
        (row["host"], row["check"], row["subject"], Outcome(row["outcome"]))
        for row in csv_rows(content())
        if row["check"]
    }
    cases = ET.fromstring(written(write_junit, content())).iter("testcase")
    told = {(case.get("classname").split(".")[0], case.get("name")) for case in cases if len(case)}
    assert {(host, f"{check} {subject}".strip()) for host, check, subject, _ in bad} <= told
    rows = {row.host: row for row in survey(content()).rows}
    for host, _, _, outcome in bad:
        assert rows[host].outcome in {outcome, *_worse(outcome)}
    for name, some in zip(names, several, strict=True):
        if not some:
            assert rows[name].outcome is Outcome.UNKNOWN


def _worse(outcome):
    order = [Outcome.WARN, Outcome.FAIL, Outcome.UNKNOWN]
    return order[order.index(outcome) + 1 :]


def html_verdicts(content):
    page = written(write_html, content)
    found = set()
    for host in re.findall(
        r'<article class="card \w+" id="h\d+" aria.*?</article>', page, re.DOTALL
    ):
        name = html.unescape(re.search(r"<h3[^>]*>(\S+) <span", host).group(1))
        for outcome, group in re.findall(r'<div class="group (\w+)">(.*?)</ul>', host, re.DOTALL):
            check = re.search(r"<code>(.*?)</code>", group).group(1)
            for subject in re.findall(r'<span class="what">(.*?)</span>', group):
                plain = html.unescape(subject)
                found.add((name, check, "" if plain == "the host" else plain, Outcome(outcome)))
    return found


def markdown_verdicts(content):
    text = written(write_markdown, content)
    found = set()
    name = ""
    for line in text.splitlines():
        if line.startswith("## `"):
            name = line.split("`")[1]
        told = re.match(r"- \*\*(\w+)\*\* `([^`]+)`(?: (`+) ?(.*?) ?\3(?=:| -|$| \*))?", line)
        if told and told.group(1) in {"fail", "warn", "unknown"}:
            found.add((name, told.group(2), told.group(4) or "", Outcome(told.group(1))))
    return found


def prometheus_verdicts(content):
    line = re.compile(
        r'hfprov_verdict_not_good\{host="(.*)",check="(.*)",subject="(.*)",outcome="(.*)"\} 1'
    )
    found = line.findall(written(write_prometheus, content))
    return {(host, check, subject, Outcome(outcome)) for host, check, subject, outcome in found}


def csv_rows(content):
    return list(csv.DictReader(io.StringIO(written(write_csv, content))))


def errors(content):
    suites = ET.fromstring(written(write_junit, content))
    return [*suites.iter("error"), *suites.iter("failure")]


@pytest.mark.parametrize("state", list(HostState))
def test_nothing_judged_is_unknown_in_every_state(state):
    assert standing(state, None).outcome is Outcome.UNKNOWN


@pytest.mark.parametrize("state", list(HostState))
def test_good_verdicts_make_a_good_host_only_when_the_run_was_done_with_it(rack, record, state):
    with record.start_run("provision", ["hfprov"], rack.baselines(["n1"])) as log:
        log.observed("n1", "before", b"{}", rack.good(), state=state)
        log.finish(0)
    judged = record.last_verdicts("n1")
    found = standing(state, judged)
    if state in {HostState.OBSERVED, HostState.VERIFIED}:
        assert (found.outcome, found.note) == (Outcome.PASS, "")
    elif state in {HostState.FAILED, HostState.NOT_ATTEMPTED}:
        assert found.outcome is Outcome.FAIL
        assert found.note
    else:
        assert found.outcome is Outcome.UNKNOWN
        assert found.note


@pytest.mark.parametrize("status", list(RunStatus))
@pytest.mark.parametrize("code", [0, 1, 3, None])
def test_only_a_run_that_ended_well_is_good(rack, record, status, code):
    rack.run("n1", rack.good())
    found = ending(replace(record.run().info, status=status, exit_code=code))
    good = status is RunStatus.COMPLETE and code == 0
    assert (found.outcome is Outcome.PASS) == good
    assert bool(found.note) != good
    if status is not RunStatus.COMPLETE:
        assert found.outcome is Outcome.UNKNOWN
        assert "exit code" not in found.note


def test_certificates_are_as_of_the_report(rack):
    issued = rack.certificate("n1", "c1", hours=2)
    now = issued.issued_at + timedelta(minutes=1)
    assert certificate_status(issued, now)[0] is Outcome.PASS
    assert certificate_status(issued, issued.expires_at)[0] is Outcome.WARN
    assert certificate_status(None, now) == (Outcome.NOT_APPLICABLE, "none")
    assert certificate_status(replace(issued, revoked_at=now), now)[0] is Outcome.FAIL
    assert "not signed" in certificate_status(replace(issued, signature=""), now)[1]
