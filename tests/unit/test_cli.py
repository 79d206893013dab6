"""The command line as a user meets it: every bad input ends in one sentence and its exit code."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hfprov.baseline import Baseline
from hfprov.cli.commands import MODULES, build
from hfprov.cli.options import command_line
from hfprov.errors import UsageError
from hfprov.record.store import Record
from hfprov.rollout import DEFAULT_BUDGET, DEFAULT_WAVES

HFPROV = Path(sys.executable).with_name("hfprov")
ON_NODES = ("provision", "drift", "certify")
OF_THE_RECORD = (
    ("runs",),
    ("show",),
    ("history", "n1"),
    ("evidence", "last", "n1"),
    ("forget", "n1"),
    ("unlock", "n1", "--reason", "sure"),
)
GROUP_VARS = """
jumbo_mtu_interfaces: [eth1]
time_sync_servers: [ntp.example]
node_sku: none
"""


def hfprov(*words, env=None, **kwargs):
    kwargs.setdefault("stdout", subprocess.PIPE)
    return subprocess.run(
        [str(HFPROV), *map(str, words)], stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
        text=True, timeout=120, check=False, env={**os.environ, **(env or {})}, **kwargs,
    )  # fmt: skip


def refused(done, code, *said):
    """It ended with this exit code and a sentence: on standard error, and without a traceback."""
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert "[WARNING]" not in done.stderr
    for text in said:
        assert text in done.stderr
    return True


@pytest.fixture
def rack(tmp_path):
    """An inventory with one host that refuses connections, and a record beside it."""
    folder = tmp_path / "inventory"
    (folder / "group_vars").mkdir(parents=True)
    (folder / "group_vars" / "accelerators.yml").write_text(GROUP_VARS)
    hosts_file(folder, 1)
    return folder


def hosts_file(folder, port):
    text = f"accelerators:\n  hosts: {{n1: {{ansible_host: 127.0.0.1, ansible_port: {port}}}}}\n"
    (folder / "hosts.yml").write_text(text)


@pytest.fixture
def db(tmp_path):
    return tmp_path / "record.db"


@pytest.fixture(scope="module")
def small_record(tmp_path_factory):
    """A record with one run of one host."""
    path = tmp_path_factory.mktemp("record") / "record.db"
    with Record.open(path) as record:
        record.start_run("drift", [], {"n1": Baseline("n1", ())}).finish(0)
    return path


@pytest.mark.parametrize("command", ON_NODES)
def test_a_host_that_cannot_be_reached_is_unknown_never_good(rack, db, command):
    done = hfprov(command, "-i", rack, "--db", db, "--json")
    assert done.returncode == 3
    document = json.loads(done.stdout)  # one document, and nothing beside it
    assert document["exit_code"] == 3
    assert document["hosts"][0]["reason"].endswith("cannot be reached: Connection refused.")
    shown = json.loads(hfprov("show", "--db", db, "--json").stdout)
    assert (shown["command"], shown["status"], shown["exit_code"]) == (command, "complete", 3)


@pytest.mark.parametrize("command", ["drift", "certify", "diagnose", "reboot", "container-smoke"])
def test_progress_is_told_beside_a_document(rack, db, command):
    done = hfprov(command, "-i", rack, "--db", db, "--json")
    assert json.loads(done.stdout)["run"]
    assert "observed 1/1: n1 unknown" in done.stderr


@pytest.mark.parametrize(
    ("words", "does"),
    [
        (("trial", "limits", "--before", "limits_nofile=1024"), "measure.trial.trial"),
        (("measure", "network"), "measure.run.measure"),
        (("path-mtu",), "path_mtu.run.path_mtu"),
        (("container-smoke",), "container_smoke.run.container_smoke"),
    ],
)
def test_what_a_test_is_at_is_told_beside_a_document(rack, db, monkeypatch, words, does):
    def begin(*given, say=None, **_):
        (say or given[-1])("It has \x1b[2Jbegun.")
        raise UsageError("That is enough.")

    monkeypatch.setattr(f"hfprov.{does}", begin)
    done = CliRunner().invoke(build(), [*words, "-i", str(rack), "--db", str(db), "--json"])
    assert isinstance(done.exception, UsageError)
    assert done.stderr.splitlines()[-1] == "It has begun."


def test_a_trial_of_what_no_host_has_is_no_run(rack, db):
    words = ("trial", "nope", "--before", "x=1", "-i", rack, "--db", db)
    assert refused(hfprov(*words), 2, "'n1' has no role 'nope'")
    assert not db.exists()


@pytest.mark.parametrize("command", ON_NODES)
def test_hosts_that_the_inventory_does_not_have_are_refused(rack, db, command):
    assert refused(hfprov(command, "-i", rack, "--db", db, "-l", "node99"), 2, "'node99'")
    assert refused(hfprov(command, "-i", rack, "--db", db, "-l", "n1:!n1"), 4)
    assert not db.exists()


def test_the_baseline_of_an_unknown_host_is_refused(rack):
    assert refused(hfprov("baseline", "node99", "-i", rack), 2, "'node99'")


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("{", 2, "not valid YAML"),
        ("", 2, "empty"),
        ("all: {}", 4, "no hosts"),
        ("all: {hosts: [n1, n2]}", 2, "hosts"),
        ("\x00\x01\x02", 2, "inventory"),
    ],
)
def test_an_inventory_that_is_none_is_refused(tmp_path, db, text, code, said):
    path = tmp_path / "hosts.yml"
    path.write_text(text)
    assert refused(hfprov("drift", "--db", db, "-i", path), code, said)
    assert not db.exists()


@pytest.mark.parametrize("words", [("provision",), ("certify",), ("baseline", "n1")])
def test_every_command_refuses_it(tmp_path, words):
    path = tmp_path / "hosts.yml"
    path.write_text("{")
    assert refused(hfprov(*words, "-i", path), 2, "not valid YAML")


@pytest.mark.parametrize("command", ON_NODES)
def test_no_inventory_at_all_is_refused(tmp_path, command):
    assert refused(hfprov(command, env={"HFPROV_INVENTORY": ""}), 2, "No inventory was given", "-i")
    missing = tmp_path / "nothing"
    assert refused(hfprov(command, "-i", missing), 2, f"There is no inventory '{missing}'")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("jumbo_mtu_bites: 9000", "jumbo_mtu_bytes"),
        ("limits_nofile: many", "limits_nofile"),
        ("jumbo_mtu_bytes: [9000]", "jumbo_mtu_bytes"),
        ("time_sync_servers: {a: 1}", "time_sync_servers"),
        ("limits_nofile: '{{ nothing_of_this_name }}'", "nothing_of_this_name"),
    ],
)
def test_a_wrong_variable_is_named_before_any_host_is_contacted(rack, db, line, said):
    name = line.partition(":")[0]
    kept = [one for one in GROUP_VARS.splitlines() if not one.startswith(f"{name}:")]
    (rack / "group_vars" / "accelerators.yml").write_text("\n".join([*kept, line]))
    done = hfprov("drift", "-i", rack, "--db", db)
    assert refused(done, 2, said, "No host was contacted")
    assert not db.exists()


@pytest.mark.parametrize("words", OF_THE_RECORD, ids=lambda words: words[0])
def test_without_a_record_its_readers_say_so_and_make_none(db, words):
    assert refused(hfprov(*words, "--db", db), 2, f"There is no record at '{db}'")
    assert not db.exists()


@pytest.mark.parametrize("words", OF_THE_RECORD, ids=lambda words: words[0])
def test_a_file_that_is_no_record_is_left_alone(db, words):
    db.write_text("precious\n" * 200)
    assert refused(hfprov(*words, "--db", db), 2, f"'{db}'")
    assert db.read_text() == "precious\n" * 200


@pytest.mark.parametrize(
    "words",
    [
        ("show", "20990101-000000-none"),
        ("history", "node99"),
        ("evidence", "last", "node99"),
        ("evidence", "nothing", "n1"),
        ("forget", "node99"),
        ("unlock", "node99", "--reason", "sure"),
    ],
    ids=" ".join,
)
def test_what_the_record_does_not_have_is_named(small_record, words):
    named = next(word for word in words[1:] if word != "last")
    assert refused(hfprov(*words, "--db", small_record), 2, f"'{named}'")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("drift", "--only", "everything"), "'everything' is no kind of repair"),
        (("drift", "--only", "safe"), "'--only' is about a repair, and none was asked for"),
        (("drift", "--waves", "1"), "'--waves' is about a repair, and none was asked for"),
        (("drift", "--max-failures", "1"), "'--max-failures' is about a repair"),
        (("provision", "--waves", "1,many"), "'many' is neither"),
        (("provision", "--waves", ""), "'' is neither"),
        (("provision", "--max-failures", "most"), "'most' is neither"),
        (("certify", "--profile", "nightly"), "no certification profile 'nightly'"),
        (("drift", "--deadline", "0"), "--deadline"),
        (("drift", "--at-once", "0"), "--at-once"),
        (("drift", "--vault-password-file", "/nonexistent"), "/nonexistent"),
        (("runs", "--db", "postgresql://a\udcff@h/x"), "The record's URL cannot be understood"),
        (("verify", ""), "'.' cannot be read: Is a directory"),
        (("explain", "no.such.check"), "There is no check 'no.such.check'"),
        (("parse", "no-such-tool", "/dev/null"), "no-such-tool"),
        (("parse", "nvidia-smi", "/nonexistent"), "'/nonexistent' cannot be read"),
        (("judge", "--evidence", "/nonexistent"), "'/nonexistent' cannot be read"),
        (("judge", "--evidence", "/dev/null"), "not a JSON document"),
        (("report", "--format", "text"), "'--format' / '-f': 'text' is not one of 'html'"),
        (("no-such-command",), "No such command"),
        (("drift", "--no-such-option"), "No such option"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_wrong_word_is_named(rack, db, words, said):
    more = ["-i", rack, "--db", db] if words[0] in ON_NODES else []
    done = hfprov(*words, *more)
    assert refused(done, 2, said)


def test_the_list_of_commands_fits_a_terminal_and_no_python_is_in_it():
    for words in ((), ("schedule",), ("lab",)):
        text = hfprov(*words, "--help", env={"COLUMNS": "80"}).stdout
        assert "Commands:" in text
        listed = text.partition("Commands:")[2]
        assert "..." not in listed
    text = hfprov("drift", "--help", env={"COLUMNS": "80"}).stdout
    assert "--inventory PATH" in text
    assert "<list" not in text
    assert " range>" not in text


def test_what_goes_in_waves_describes_them_alike_and_with_the_true_defaults():
    described = set()
    for command in ("drift", "provision", "reboot"):
        text = hfprov(command, "--help").stdout
        about = re.search(r"--waves.*?--max-failures.*?(?=\n +-)", text, re.DOTALL)
        assert about, text
        described.add(" ".join(about[0].split()))
    [told] = described
    assert f"Default: {','.join(DEFAULT_WAVES)}." in told
    assert f"Default: {DEFAULT_BUDGET}." in told


@pytest.mark.parametrize(
    "told", [{}, {"COMP_WORDS": "hfprov d"}, {"COMP_WORDS": "hfprov d", "COMP_CWORD": "x"}]
)
def test_a_completion_of_nothing_is_refused(told):
    done = hfprov(env={"_HFPROV_COMPLETE": "complete_bash", **told})
    refused(done, 2, "do not say what for")


def test_a_shell_that_completes_is_told_words_only():
    asked = {"_HFPROV_COMPLETE": "complete_bash", "COMP_CWORD": "2"}
    for line, words in (
        ("hfprov --version dr", ["drift"]),
        ("hfprov drift --wav", ["--waves"]),
        ("hfprov schedule ", ["install", "show", "remove"]),
    ):
        assert hfprov(env={**asked, "COMP_WORDS": line}).stdout.split() == words


@pytest.mark.parametrize("text", ["[]", "3", '{"schema": "hfprov.evidence/2"}', "[" * 100_000])
def test_what_is_no_evidence_is_refused(tmp_path, text):
    file = tmp_path / "evidence.json"
    file.write_text(text)
    assert refused(hfprov("judge", "--evidence", file), 2)


@pytest.mark.parametrize(
    ("words", "code"), [(("drift",), 3), (("drift", "--json"), 3), (("explain",), 0)]
)
def test_a_reader_that_leaves_changes_no_exit_code(rack, db, words, code):
    more = ["-i", rack, "--db", db] if words[0] == "drift" else []
    read, write = os.pipe()
    os.close(read)
    done = hfprov(*words, *more, stdout=write)
    os.close(write)
    assert done.returncode == code
    assert "Traceback" not in done.stderr


def test_output_that_cannot_be_written_is_an_error(rack, db):
    with Path("/dev/full").open("w") as full:
        done = hfprov("drift", "-i", rack, "--db", db, stdout=full)
    assert done.returncode == 2
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr


def test_closed_standard_streams_do_not_end_in_the_record(rack, db):
    script = 'exec "$@" >&- 2>&- <&-'
    argv = ["sh", "-c", script, "sh", HFPROV, "drift", "-i", rack, "--db", db]
    assert subprocess.run(argv, timeout=120, check=False).returncode == 3
    assert json.loads(hfprov("runs", "--db", db, "--json").stdout)["runs"][0]["exit_code"] == 3


def test_letters_that_the_terminal_lacks_are_no_error():
    done = hfprov("explain", "node.os", env={"PYTHONIOENCODING": "ascii", "LC_ALL": "C"})
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


def test_all_explanations_are_one_document():
    told = json.loads(hfprov("explain", "--json").stdout)["checks"]
    names = {one["check"]: one["role"] for one in told}
    assert (names["limits.session"], names["container_smoke.result"]) == ("limits", None)
    assert len(names) == len(told)


def test_the_version_is_an_option_too():
    assert hfprov("--version").stdout == hfprov("version").stdout


def test_results_of_tests_that_are_no_checks_are_explained_too():
    assert "Likely causes" in hfprov("explain", "container_smoke.result").stdout
    assert "container_smoke.result" in hfprov("explain").stdout


@pytest.mark.parametrize("words", [("drift", "-v"), ("provision",), ("certify",)])
def test_pipes_carry_no_colour_and_no_control_characters(rack, db, words):
    done = hfprov(*words, "-i", rack, "--db", db, env={"FORCE_COLOR": "", "TERM": "xterm-256color"})
    assert "\x1b" not in done.stdout + done.stderr
    assert "\r" not in done.stdout + done.stderr
    assert "n1" in done.stdout


def test_a_server_that_hangs_up_prints_no_traceback(rack, db):
    server = socket.create_server(("127.0.0.1", 0))
    hosts_file(rack, server.getsockname()[1])

    def hang_up():
        while True:
            try:
                server.accept()[0].close()
            except OSError:
                return

    threading.Thread(target=hang_up, daemon=True).start()
    done = hfprov("drift", "-i", rack, "--db", db)
    server.close()
    assert done.returncode == 3
    assert "SSH to the host failed" in done.stdout
    assert "n1" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_password_in_the_url_of_the_record_is_not_recorded(monkeypatch):
    url = "postgresql://hfprov:s3cr3t@db.example/record"
    monkeypatch.setattr(sys, "argv", ["/usr/bin/hfprov", "drift", "--db", url, f"--db={url}"])
    typed = command_line()
    assert "s3cr3t" not in " ".join(typed)
    assert typed[:2] == ["hfprov", "drift"]
    assert typed[3] == "postgresql://hfprov:********@db.example/record"


@pytest.mark.parametrize("module", MODULES)
def test_a_module_registers_the_commands_that_the_table_says(module):
    names = MODULES[module]
    built = build([names[0]])
    found = [
        one.name or one.callback.__name__.replace("_", "-") for one in built.registered_commands
    ]
    assert (*found, *(one.name for one in built.registered_groups)) == names


def test_a_word_that_is_no_command_is_answered_with_all_of_them():
    done = hfprov("dirft")
    assert done.returncode == 2
    assert "No such command 'dirft'" in done.stderr
    assert "drift" in done.stderr
    everything = hfprov("--help").stdout
    assert all(name in everything for names in MODULES.values() for name in names)
