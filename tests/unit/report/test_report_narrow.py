"""Narrow terminals: prose is wrapped below its beginning, and no name is ever broken."""

from __future__ import annotations

import contextlib
import io
import re
from datetime import UTC, datetime

import pytest
from rich.text import Text

from hfprov.report.drift import drift_of
from hfprov.report.drift_text import print_drift
from hfprov.report.terminal import console, print_history, print_runs, print_table, print_views
from hfprov.sweep import HostVerdicts
from hfprov.verdict import Verdict, failed

HOSTS = [f"rack17-leaf03-accelerator-training-node{number:02}" for number in range(2)]
FILE = "/etc/systemd/system/hfprov-irq-affinity.service.d"
CHECK = "hardening.updates.effective"
_STYLE = re.compile(r"\x1b\[[0-9;]*m")
LOST = Verdict(
    CHECK,
    failed(FILE, observed="absent", expected="written by the role", reason="It is not there. " * 5),
)


class Terminal(io.StringIO):
    """Text that says of itself that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(params=[60, 80, 120])
def width(request, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(request.param))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    return request.param


def lines_of(width, act, *names):
    """What a terminal shows: nothing sticks out, and all these names are whole."""
    shown = Terminal()
    with contextlib.redirect_stdout(shown):
        act()
    # Rich pads the last column of a table.
    found = [line.rstrip() for line in _STYLE.sub("", shown.getvalue()).splitlines()]
    assert max(map(len, found)) <= width, shown.getvalue()
    for name in names:
        assert any(name in line for line in found)
    return found


def test_a_verdict_goes_on_below_its_check(width):
    views = {HOSTS[0]: HostVerdicts(HOSTS[0], (LOST,), reachable=True)}
    found = lines_of(width, lambda: print_views(views), HOSTS[0], CHECK, FILE)
    assert found[1].startswith(f"  fail     {CHECK}")
    assert found[-2][:10].isspace()
    assert found[-2][11] != " "


def test_a_drift_names_each_host_whole(width, record, rack):
    with record.start_run("drift", [], rack.baselines(HOSTS)) as log:
        for host in HOSTS:
            log.observed(host, "before", b"{}", [LOST])
        log.finish(1)
    found = drift_of(record, log.id, datetime.now(UTC))
    lines_of(width, lambda: print_drift(found), *HOSTS, CHECK, FILE)


def test_a_table_wraps_prose_and_no_names(width):
    rows = [(host, CHECK, "What it means, in many words. " * 4) for host in HOSTS]
    columns = ("host", "check", "about")
    assert len(lines_of(width, lambda: print_table(columns, rows), *HOSTS, CHECK)) > len(HOSTS) + 1


def test_a_table_that_fits_nowhere_is_stacked(width):
    columns, row = ("host", "peer", "third", "empty"), (HOSTS[0], HOSTS[1], "words", "")
    found = lines_of(width, lambda: print_table(columns, [row]), *HOSTS)
    if width < 100:
        assert found == [HOSTS[0], f"  peer   {HOSTS[1]}", "  third  words"]
    else:
        assert len(found) == 2
        assert found[0].split() == ["host", "peer", "third", "empty"]


def test_lists_of_the_record(width, record, rack):
    run = rack.run(HOSTS[0], [LOST])
    lines_of(width, lambda: print_runs(record.runs()), run)
    lines_of(width, lambda: print_history(record.history(HOSTS[0])), run)


def test_only_a_word_that_is_longer_than_a_line_sticks_out(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    shown = Terminal()
    long = "x" * 30
    console(shown).print(Text(f"  fail     {long} and then some more"), Text("words"))
    assert _STYLE.sub("", shown.getvalue()).splitlines() == [
        "  fail", long, "and then some more", "words",
    ]  # fmt: skip


def test_a_pipe_gets_a_row_in_a_line(capsys):
    print_views({HOSTS[0]: HostVerdicts(HOSTS[0], (LOST,), reachable=True)})
    print_table(("host", "about"), [(HOSTS[0], "Many words. " * 30)])
    found = capsys.readouterr().out.splitlines()
    assert len(found) == 5
    assert max(map(len, found)) > 200
