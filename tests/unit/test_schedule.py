"""The timer that looks for drift: its units, what is refused, and that only ours is touched."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess

import pytest
from typer.testing import CliRunner

from hfprov import schedule
from hfprov.cli.commands import build
from hfprov.errors import UsageError
from hfprov.schedule import SERVICE, TIMER, Job, Systemd, quoted, units


@pytest.fixture
def said(monkeypatch):
    """What systemctl was told; it answers with properties, and refuses nothing."""
    calls = []

    def output(*argv):
        calls.append(argv[1:] if argv[0] == "systemctl" else argv)
        if "show" in argv:
            return "ActiveState=active\nNextElapseUSecRealtime=Mon 02:30\nExecMainStatus=1\n"
        if argv[-1] == "no time":
            raise UsageError("no")
        return ""

    monkeypatch.setattr(schedule, "_output", output)
    monkeypatch.setattr(schedule.shutil, "which", lambda name: f"/usr/bin/{name}")
    return calls


JOB = Job(("/v/python", "-m", "hfprov", "drift", "-i", "/a rack/100%$x"), "02:30")


def test_units_say_when_and_what():
    texts = units(JOB)
    assert 'ExecStart=/v/python -m hfprov drift -i "/a rack/100%%$$x"\n' in texts[SERVICE]
    assert "OnCalendar=02:30\n" in texts[TIMER]
    assert "Persistent=true" in texts[TIMER]
    assert "OnFailure" not in texts[SERVICE]
    failing = units(Job(JOB.argv, "02:30", on_failure="mail@drift.service"), user=True)
    assert "OnFailure=mail@drift.service\n" in failing[SERVICE]
    assert "network-online" not in failing[SERVICE]


@pytest.mark.parametrize("word", ["a b", 'q"uote', "back\\slash", "per%cent", "$HOME", "é", ""])
def test_quoting_survives_a_shell_like_reader(word):
    plain = quoted(word).replace("%%", "%").replace("$$", "$")
    assert shlex.split(plain) == [word]


def test_a_line_break_cannot_add_a_setting():
    with pytest.raises(UsageError, match="cannot be written into a unit"):
        units(Job(("a\nExecStart=/bin/evil",), "02:30"))
    with pytest.raises(UsageError, match="cannot be written into a unit"):
        units(Job(("a",), "02:30\nUnit=evil.service"))


def test_install_starts_the_timer_and_remove_takes_both_away(said, tmp_path):
    systemd = Systemd(user=False, folder=tmp_path / "units")
    assert [path.name for path in systemd.install(JOB)] == [SERVICE, TIMER]
    assert said[1:] == [("daemon-reload",), ("enable", "--now", TIMER), ("restart", TIMER)]
    assert (tmp_path / "units" / TIMER).stat().st_mode & 0o777 == 0o644
    systemd.install(JOB)
    found = systemd.status()
    assert (found.timer["ActiveState"], found.service["ExecMainStatus"]) == ("active", "1")
    assert systemd.remove()
    assert list((tmp_path / "units").iterdir()) == []
    assert not systemd.remove()
    assert systemd.status().files == {}


@pytest.fixture
def deaf(said, monkeypatch):
    """A systemd that cannot be reached, as for a user without a session."""
    told = schedule._output

    def output(*argv):
        if argv[0] == "systemctl":
            raise UsageError("Failed to connect to bus.")
        return told(*argv)

    monkeypatch.setattr(schedule, "_output", output)
    return said


@pytest.mark.usefixtures("deaf")
def test_what_systemd_did_not_take_is_not_left_behind(tmp_path):
    systemd = Systemd(user=True, folder=tmp_path)
    with pytest.raises(UsageError, match="connect to bus"):
        systemd.install(JOB)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("said")
def test_units_are_removed_also_when_systemd_cannot_be_told(tmp_path, request):
    systemd = Systemd(user=True, folder=tmp_path)
    systemd.install(JOB)
    (tmp_path / "timers.target.wants").mkdir()
    (tmp_path / "timers.target.wants" / TIMER).symlink_to(tmp_path / TIMER)
    request.getfixturevalue("deaf")
    with pytest.raises(UsageError, match="could not be told: Failed to connect"):
        systemd.remove()
    assert [path for path in tmp_path.rglob("*") if not path.is_dir()] == []


@pytest.mark.usefixtures("said")
def test_a_unit_of_somebody_else_is_left_alone(tmp_path):
    theirs = tmp_path / TIMER
    theirs.write_text("[Timer]\n")
    systemd = Systemd(user=True, folder=tmp_path)
    for act in (lambda: systemd.install(JOB), systemd.remove):
        with pytest.raises(UsageError, match="was not written by"):
            act()
    assert theirs.read_text() == "[Timer]\n"


@pytest.mark.usefixtures("said")
def test_a_time_that_is_none_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(UsageError, match="no time that systemd understands"):
        Systemd(user=True, folder=tmp_path).install(Job(JOB.argv, "no time"))
    assert list(tmp_path.iterdir()) == []


def invoke(*argv, **env):
    return CliRunner().invoke(build(), ["schedule", *argv], env=env)


def test_print_installs_nothing(said, tmp_path):
    done = invoke("install", "--print", "-i", str(tmp_path), "--db", "x.db", "--repair")
    assert done.exit_code == 0, done.output
    assert f"-m hfprov drift -i {tmp_path} --db " in done.stdout
    assert "x.db --repair --only safe" in done.stdout
    assert [words[0] for words in said] == ["systemd-analyze"]


@pytest.mark.usefixtures("said")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-i", "/gone"), "There is no '/gone'"),
        (("-i", "/", "--db", "postgresql://me:secret@host/x"), "holds a password"),
        (("-i", "/", "--textfile", "/gone/x/y.prom"), "no folder that can be written"),
        ((), "No inventory was given"),
    ],
)
def test_what_would_fail_every_night_is_refused_now(words, message):
    done = invoke("install", "--print", *words)
    assert isinstance(done.exception, UsageError)
    assert message in done.exception.message


@pytest.mark.usefixtures("said")
def test_show_without_a_schedule(tmp_path):
    done = invoke("show", "--user", "--json", XDG_CONFIG_HOME=str(tmp_path))
    assert json.loads(done.stdout)["installed"] is False


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
def test_systemd_reads_the_units(tmp_path):
    for name, text in units(Job(("/bin/true", "a b", "100%", "$x"), "*-*-* 02:30:00")).items():
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", tmp_path / SERVICE, tmp_path / TIMER],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "hfprov-drift" not in done.stderr


@pytest.mark.parametrize(
    ("started", "last", "code"),
    [("", None, None), ("Mon 2026-11-30 02:31:07 UTC", "Mon 2026-11-30 02:31:07 UTC", 0)],
)
def test_a_service_that_never_ran_has_not_ended_well(monkeypatch, started, last, code):
    """Systemd shows Result=success and ExecMainStatus=0 of it, and when the timer was installed."""
    service = f"Result=success\nExecMainStatus=0\nExecMainStartTimestamp={started}\n"
    found = schedule.Status(
        {"ActiveState": "active", "LastTriggerUSec": "Mon 2026-11-30 01:00:00 UTC"},
        dict(line.split("=", 1) for line in service.splitlines()),
        {"/a.timer": "text"},
    )
    monkeypatch.setattr(schedule.Systemd, "status", lambda _: found)
    shown = CliRunner().invoke(build(), ["schedule", "show", "--json"])
    document = json.loads(shown.stdout)
    assert (document["last"], document["exit_code"]) == (last, code)
    assert (document["result"] == "success") is (last is not None)
