"""``hfprov report``: files are replaced when they are whole, and wrong usage ends in a sentence."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from hfprov.cli.commands import build
from hfprov.errors import ExitCode, RecordError, UsageError
from hfprov.report import html_page
from hfprov.verdict import Finding, Outcome, Verdict


@pytest.fixture
def hfprov(record):
    def run(*arguments):
        found = CliRunner().invoke(
            build(), ["report", *arguments, "--db", record.where], standalone_mode=False
        )
        if found.exception:
            raise found.exception
        return found

    return run


@pytest.mark.parametrize(
    ("name", "begin"),
    [
        ("r.html", "<!doctype html>"),
        ("r.md", "# "),
        ("r.xml", "<?xml "),
        ("r.csv", "run,run_status,host"),
        ("r.prom", "# HELP "),
    ],
)
def test_the_format_follows_from_the_name(rack, hfprov, tmp_path, name, begin):
    rack.run("n1", rack.drifted(), code=1)
    assert hfprov("-o", str(tmp_path / name)).return_value == 0
    text = (tmp_path / name).read_text("utf-8")
    assert text.startswith(begin)
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".")] == []


def test_stdout_is_the_default_and_nothing_else_is_on_it(rack, hfprov):
    rack.run("n1", rack.good())
    assert hfprov("--format", "csv").stdout.startswith("run,run_status")


def test_an_older_run_by_its_id(rack, hfprov):
    first = rack.run("n1", rack.drifted(), code=1)
    rack.run("n1", rack.good())
    assert "is not as declared" in hfprov(first, "-f", "markdown").stdout
    assert "The host is as declared" in hfprov("-f", "markdown").stdout
    assert "when last judged" in hfprov("--fleet", "-f", "markdown").stdout


def test_no_host_is_not_a_success(record, hfprov):
    with record.start_run("drift", ["hfprov"], {}) as log:
        log.finish(4)
    assert hfprov("-f", "markdown").return_value == ExitCode.NOTHING


def test_a_report_that_cannot_be_finished_leaves_the_old_one(rack, hfprov, tmp_path, monkeypatch):
    rack.run("n1", rack.good())
    target = tmp_path / "r.html"
    target.write_text("the old one")

    def broken(_content, out):
        out.write("<half")
        raise RecordError("The record is gone.")

    monkeypatch.setattr(html_page, "write_html", broken)
    with pytest.raises(RecordError):
        hfprov("-o", str(target))
    assert target.read_text() == "the old one"
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".")] == []


def test_a_device_is_written_to_and_not_replaced(rack, hfprov):
    rack.run("n1", rack.good())
    assert hfprov("-f", "html", "-o", os.devnull).return_value == 0
    assert not Path(os.devnull).is_file()


def test_a_link_keeps_pointing(rack, hfprov, tmp_path):
    rack.run("n1", rack.good())
    (tmp_path / "r.html").symlink_to(tmp_path / "real.html")
    hfprov("-o", str(tmp_path / "r.html"))
    assert (tmp_path / "r.html").is_symlink()
    assert (tmp_path / "real.html").stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("-o", "/nowhere/r.html"), "cannot be written"),
        (("-o", "r.foo"), "does not follow"),
        (("abc", "--fleet"), "two different reports"),
    ],
)
def test_wrong_usage_is_one_sentence(rack, hfprov, arguments, says):
    rack.run("n1", rack.good())
    with pytest.raises(UsageError, match=says):
        hfprov(*arguments)


def test_a_thousand_hosts_fit_in_five_megabytes(record, rack, hfprov, tmp_path):
    """A tenth of them not reached, a third with five problems each of their own."""
    names = [f"node{number:04d}" for number in range(1000)]
    reason = "The host did not answer within 90 seconds."
    with record.start_run("drift", ["hfprov"], rack.baselines(names)) as log:
        for number, name in enumerate(names):
            if number % 10 == 0:
                log.not_observed(name, "before", reason, rack.unseen(reason))
            elif number % 3 == 0:
                own = [
                    Verdict(
                        "limits.units",
                        Finding(Outcome.FAIL, f"u{n}", f"{name} has 64", "8192", "It is too low."),
                    )
                    for n in range(5)
                ]
                log.observed(name, "before", b"{}", [*rack.good(), *own])
            else:
                log.observed(name, "before", b"{}", rack.good())
        log.finish(3)
    target = tmp_path / "r.html"
    hfprov("-o", str(target))
    assert target.stat().st_size < 5_000_000
    text = target.read_text("utf-8")
    assert text.count("has 64</code>") >= 300 * 5
    assert text.count('class="tile ') == 1000


def test_a_thousand_hosts_with_thirty_faults_each_still_fit(record, rack, hfprov, tmp_path):
    names = [f"node{number:04d}" for number in range(1000)]
    low = Finding(Outcome.FAIL, observed="64", expected="8192", reason="It is too low.")
    bad = [Verdict("limits.units", replace(low, subject=f"unit{n}")) for n in range(30)]
    with record.start_run("drift", ["hfprov"], rack.baselines(names)) as log:
        for name in names:
            log.observed(name, "before", b"{}", [*rack.good(), *bad])
        log.finish(1)
    target = tmp_path / "r.html"
    hfprov("-o", str(target))
    assert target.stat().st_size < 5_000_000
    text = target.read_text("utf-8")
    assert text.count(">unit29</a>") == 1000  # each host names all of its faults
    cause = re.search(
        r'<article class="card fail" id="c(\d+)">(?:(?!</article>).)*>unit29<', text, re.DOTALL
    )
    assert f'<a href="#c{cause.group(1)}">unit29</a>' in text
