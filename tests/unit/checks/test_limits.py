"""Limits: a healthy node passes, a spoilt one fails by name, a hostile one never passes."""

from __future__ import annotations

import math
import re

import pytest

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.limits import MEMLOCK, Limit, parse, parse_pam
from hfprov.evidence.systemd import parse as parse_show
from hfprov.evidence.systemd import parse_settings
from hfprov.verdict import Outcome

FAIL, UNKNOWN = Outcome.FAIL, Outcome.UNKNOWN
CHECKS = (
    "limits.session",
    "limits.pam.file",
    "limits.pam.rivals",
    "limits.shells",
    "limits.systemd.files",
    "limits.systemd.rivals",
    "limits.systemd.defaults",
    "limits.units",
    "limits.running",
    "limits.ipc.file",
    "limits.ipc.live",
)
PAM = "/etc/security/limits.d/90-hfprov.conf"
LIMITS_D = "glob /etc/security/limits.d"
SYSTEM = "/etc/systemd/system.conf.d/90-hfprov-limits.conf"
SYSTEM_D = "glob /etc/systemd/system.conf.d"
SERVICE_D = "glob /etc/systemd/system/*.service.d/90-hfprov-limits.conf"
LOGIND_D = "glob /etc/systemd/logind.conf.d"
UNITS = "units of systemd"
DEFAULTS = "systemd itself"
LOGIND = "/etc/systemd/logind.conf.d/90-hfprov-limits.conf"
SSH_DROP_IN = "/etc/systemd/system/ssh.service.d/90-hfprov-limits.conf"
USER_DROP_IN = "/etc/systemd/system/user@.service.d/90-hfprov-limits.conf"
STACK = "LimitSTACKSoft="
RUNNING_FILES = ":Max open files            16384"
LESS_FILES = ":Max open files            1024 "


@pytest.mark.parametrize("check_id", CHECKS)
def test_healthy_node_passes(ifupdown, check_id):
    assert ifupdown.bad(check_id) == {}


@pytest.mark.parametrize(
    ("check_id", "words", "old", "new", "subject"),
    [
        ("limits.session", "file /proc/self/limits", "16384", "1024 ", "nofile"),
        ("limits.session", "file /proc/self/limits", "8388608   ", "unlimited ", "stack"),
        ("limits.pam.file", LIMITS_D, "root - nofile 16384", "root - nofile 1024", PAM),
        ("limits.pam.file", LIMITS_D, "root soft stack 8192", "garbage", PAM),
        ("limits.pam.file", LIMITS_D, "* - nproc 65536\n", "", PAM),
        ("limits.systemd.files", SYSTEM_D, "NOFILE=16384", "NOFILE=16384:16384", SYSTEM),
        ("limits.systemd.files", SYSTEM_D, "[Manager]", "[Service]", SYSTEM),
        ("limits.systemd.defaults", DEFAULTS, "16384", "1024", "nofile"),
        ("limits.units", UNITS, "NeedDaemonReload=no", "NeedDaemonReload=yes", "ssh.service files"),
        ("limits.units", UNITS, f"{STACK}8388608", f"{STACK}infinity", "ssh.service stack"),
        ("limits.running", UNITS, RUNNING_FILES, LESS_FILES, "ssh.service nofile"),
        ("limits.ipc.file", LOGIND_D, "RemoveIPC=no", "RemoveIPC=yes", LOGIND),
        ("limits.ipc.live", "run busctl", "false", "true", ""),
    ],
)  # fmt: skip
def test_spoilt_text_fails(ifupdown, check_id, words, old, new, subject):
    ifupdown.replace(words, old, new)
    assert ifupdown.bad(check_id)[subject] is FAIL


def test_hard_limit_counts_as_the_soft_one_does(ifupdown):
    line = "Max open files            16384                16384 "
    ifupdown.replace("file /proc/self/limits", line, "Max open files 16384 524288 ")
    assert ifupdown.bad("limits.session") == {"nofile": FAIL}


def test_what_is_missing_or_added_is_quoted(ifupdown):
    ifupdown.replace(LIMITS_D, "root - nofile 16384", "root - core 0")
    finding = next(one for one in ifupdown.findings("limits.pam.file") if one.outcome is FAIL)
    assert "Missing: 'root - nofile 16384'." in finding.observed
    assert "Unexpected: 'root - core 0'." in finding.observed


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"mode": 0o666}, "mode is 0666"),
        ({"uid": 65534}, "belongs to 65534:0"),
        ({"gid": 100}, "belongs to 0:100"),
        ({"link": "/tmp/elsewhere"}, "link to '/tmp/elsewhere'"),
        ({"type": "dir", "text": ""}, "not a regular file"),
    ],
)
def test_file_of_logins_must_be_plain_and_roots(ifupdown, change, words):
    ifupdown.named(LIMITS_D, PAM).update(change)
    finding = next(one for one in ifupdown.findings("limits.pam.file") if one.outcome is FAIL)
    assert words in finding.observed


@pytest.mark.parametrize(
    ("check_id", "words", "path"),
    [
        ("limits.pam.file", LIMITS_D, PAM),
        ("limits.systemd.files", SYSTEM_D, SYSTEM),
        ("limits.systemd.files", SERVICE_D, SSH_DROP_IN),
        ("limits.systemd.files", SERVICE_D, USER_DROP_IN),
        ("limits.ipc.file", LOGIND_D, LOGIND),
    ],
)  # fmt: skip
def test_missing_file_fails(ifupdown, check_id, words, path):
    ifupdown.remove(words, path)
    assert ifupdown.bad(check_id) == {path: FAIL}


@pytest.mark.parametrize(
    ("line", "wins"),
    [
        ("* - nofile 1024", True),
        ("root soft nofile 1024", True),
        ("alice hard memlock 64", True),
        ("@gpu - nproc 100", True),
        ("bob -", True),
        ("* soft stack unlimited", True),
        ("* - nofile 16384", False),
        ("* hard stack unlimited", False),
        ("* - core unlimited", False),
    ],
)
def test_later_lines_that_win_are_rivals(ifupdown, line, wins):
    ifupdown.add(LIMITS_D, "/etc/security/limits.d/99-site.conf", f"# site\n{line}\n")
    expected = {"/etc/security/limits.d/99-site.conf:2": FAIL} if wins else {}
    assert ifupdown.bad("limits.pam.rivals") == expected


def test_earlier_lines_for_everybody_do_not_win(ifupdown):
    ifupdown.add(LIMITS_D, "/etc/security/limits.d/10-site.conf", "* - nofile 1024\n")
    assert ifupdown.bad("limits.pam.rivals") == {}


def test_earlier_lines_for_one_user_do(ifupdown):
    ifupdown.add(LIMITS_D, "/etc/security/limits.d/10-site.conf", "alice - nofile 1024\n")
    assert ifupdown.bad("limits.pam.rivals")


@pytest.mark.parametrize(
    ("line", "differs"),
    [
        ("ulimit -n 100", True),
        ("ulimit -S -l 64", True),
        ("  [ -t 0 ] && ulimit -Sn 4096; true", True),
        ("if true; then ulimit -u 10 -s 8192; fi", True),
        ("ulimit -n $FILES", True),
        ("# ulimit -n 100", False),
        ("ulimit -n", False),
        ("ulimit -a", False),
        ("ulimit -c 0", False),
        ("ulimit -n hard", False),
        ("echo set ulimit -n 100", False),
    ],
)
def test_login_shells_that_set_a_limit_again_are_rivals(ifupdown, line, differs):
    path = "/etc/profile.d/site.sh"
    ifupdown.say(path, f"# site\n{line}\n")
    assert set(ifupdown.bad("limits.shells")) == ({f"{path}:2"} if differs else set())


def test_a_shell_may_say_what_is_declared(ifupdown):
    line = f"ulimit -n {ifupdown.values['limits_nofile']}\n"
    ifupdown.say("/etc/profile.d/site.sh", line)
    assert ifupdown.bad("limits.shells") == {}


@pytest.mark.parametrize("place", ["/etc/systemd", "/run/systemd", "/usr/lib/systemd"])
def test_later_drop_ins_of_systemd_are_rivals_wherever_they_are(ifupdown, place):
    path = f"{place}/system.conf.d/99-site.conf"
    text = "[Manager]\nDefaultLimitNOFILE=1024:524288\n"
    ifupdown.add(f"glob {place}/system.conf.d", path, text)
    assert ifupdown.bad("limits.systemd.rivals") == {f"{path}:2": FAIL}


def test_drop_in_hidden_by_one_of_the_same_name_is_no_rival(ifupdown):
    text = "[Manager]\nDefaultLimitNOFILE=1024\n"
    name = "system.conf.d/99-site.conf"
    ifupdown.add("glob /usr/lib/systemd/system.conf.d", f"/usr/lib/systemd/{name}", text)
    ifupdown.add(SYSTEM_D, f"/etc/systemd/{name}", "", type="other", link="/dev/null")
    assert ifupdown.bad("limits.systemd.rivals") == {}


def test_empty_assignment_takes_the_limit_back(ifupdown):
    path = "/etc/systemd/system.conf.d/99-site.conf"
    ifupdown.add(SYSTEM_D, path, "[Manager]\nDefaultLimitNOFILE=\n")
    assert ifupdown.bad("limits.systemd.rivals") == {f"{path}:2": FAIL}


@pytest.mark.parametrize("value", ["MEMLOCK=8M", "MEMLOCK=8388608:8M", "STACK=8M", "NPROC=65536"])
def test_later_setting_that_says_the_same_is_no_rival(ifupdown, value):
    text = f"[Manager]\nDefaultLimit{value}\n"
    ifupdown.add(SYSTEM_D, "/etc/systemd/system.conf.d/99-site.conf", text)
    assert ifupdown.bad("limits.systemd.rivals") == {}


LATER = "ssh.service.d/99-site.conf"


@pytest.mark.parametrize(
    ("rivals", "place", "words"),
    [
        ("disable", "/etc/systemd/system", f"'/etc/systemd/system/{LATER}'."),
        ("disable", "/usr/lib/systemd/system", "Roles change nothing outside '/etc'"),
        ("report", "/etc/systemd/system", "'limits_rivals' is 'report': a person"),
    ],
)
def test_rivals_say_who_repairs_them(ifupdown, rivals, place, words):
    ifupdown.values["limits_rivals"] = rivals
    ifupdown.replace(UNITS, "LimitNOFILE=16384", "LimitNOFILE=1024")
    ifupdown.replace(UNITS, SSH_DROP_IN, f"{SSH_DROP_IN} {place}/{LATER}")
    reasons = [one.reason for one in ifupdown.findings("limits.units") if "ssh" in one.subject]
    assert any(words in reason for reason in reasons)


def test_rivals_behind_a_link_are_where_it_leads(ifupdown):
    path = "/etc/security/limits.d/99-site.conf"
    ifupdown.add(LIMITS_D, path, "* - nofile 1\n", link="/usr/share/site/limits.conf")
    (finding,) = ifupdown.findings("limits.pam.rivals")
    assert (finding.outcome, "outside '/etc'" in finding.reason) == (FAIL, True)


def test_services_that_may_not_be_restarted_are_named_as_such(ifupdown):
    ifupdown.values["limits_restart_services"] = []
    ifupdown.replace(UNITS, RUNNING_FILES, LESS_FILES)
    finding = next(one for one in ifupdown.findings("limits.running") if one.outcome is FAIL)
    assert "limits_restart_services" in finding.reason


def test_no_service_running_is_not_a_pass(ifupdown):
    text = ifupdown.results[ifupdown.read(UNITS)][0]["text"]
    ifupdown.put(UNITS, text=re.sub("MainPID=.*", "MainPID=0", text))
    assert set(ifupdown.bad("limits.running").values()) == {Outcome.NOT_APPLICABLE}


def test_unlimited_is_declared_and_met(ifupdown):
    ifupdown.values["limits_memlock_kib"] = "unlimited"
    assert ifupdown.bad("limits.session") == {"memlock": FAIL}
    line = "Max locked memory         8388608              8388608 "
    ifupdown.replace("file /proc/self/limits", line, "Max locked memory unlimited unlimited ")
    assert ifupdown.bad("limits.session") == {}


def test_nonsense_in_the_baseline_is_unknown(ifupdown):
    ifupdown.values["limits_nofile"] = "many"
    assert set(ifupdown.bad("limits.session").values()) == {UNKNOWN}


HOSTILE = [
    {"status": "timeout", "text": ""},
    {"status": "denied", "text": ""},
    {"status": "error", "text": "", "stderr": "Input/output error"},
    {"truncated": True},
]


@pytest.mark.parametrize("check_id", CHECKS)
@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda change: next(iter(change)))
def test_without_whole_evidence_nothing_passes(ifupdown, check_id, hostile):
    for name in ifupdown.reads_of(check_id):
        if all(one["status"] == "absent" for one in ifupdown.results[name]):
            continue
        spoilt = type(ifupdown)({"results": ifupdown.results})
        for result in spoilt.results[name]:
            result.update(hostile)
        assert UNKNOWN in spoilt.bad(check_id).values(), name


def test_a_running_unit_with_two_names_is_one(ifupdown):
    ifupdown.values["limits_services"] = ["ssh", "sshd"]
    names = [one.subject for one in ifupdown.findings("limits.running")]
    assert len(names) == len(set(names))
    assert {name.partition(" ")[0] for name in names} == {"ssh.service"}
    ifupdown.values["limits_services"] = ["sshd"]
    assert ifupdown.findings("limits.running")[0].subject.startswith("sshd.service ")


@pytest.mark.parametrize(
    "check_id", ["limits.session", "limits.systemd.defaults", "limits.units", "limits.running"]
)
@pytest.mark.parametrize("text", ["", "\0\x1b[31m\ufffd", "{}", "Max open files", "a=b\n" * 5])
def test_output_that_is_not_understood_does_not_pass(ifupdown, check_id, text):
    ifupdown.put(ifupdown.reads_of(check_id)[0], text=text)
    assert not {Outcome.PASS} & {one.outcome for one in ifupdown.findings(check_id)}


def test_parse_keeps_units_and_infinity():
    text = (
        "Limit  Soft Limit Hard Limit Units\nMax stack size  8388608  unlimited  bytes\n"
        "Max processes  10  20  processes\nMax open files  1  2  files\n"
        "Max locked memory  65536  65536  bytes\n"
    )
    found = parse(text)
    assert found["stack"] == Limit(8388608, math.inf)
    assert found["nproc"] == Limit(10, 20)
    assert MEMLOCK.show(found["memlock"].soft) == "64 KiB"


@pytest.mark.parametrize("text", ["", "Max open files 1 2 files", "Max open files x y", "\x1b[0m"])
def test_limits_that_are_not_whole_are_refused(text):
    with pytest.raises(NotUnderstoodError):
        parse(text)


def test_lines_that_pam_passes_over_are_told_apart():
    lines, strange = parse_pam("# c\n* soft nofile 1 # why\nnonsense\n* middle x 1\n", "f")
    assert [line.statement for line in lines] == ["* soft nofile 1"]
    assert strange == ("nonsense", "* middle x 1")


def test_words_behind_the_fourth_do_not_keep_pam_from_obeying_a_line():
    (line,), strange = parse_pam("* - nofile 1024 see ticket 12\n", "f")
    assert (line.statement, strange) == ("* - nofile 1024", ("see ticket 12",))


def test_service_that_ended_meanwhile_is_unknown(ifupdown):
    text = ifupdown.results[ifupdown.read(UNITS)][0]["text"]
    ifupdown.put(UNITS, text=re.sub("/proc/.*\n", "", text))
    assert set(ifupdown.bad("limits.running").values()) == {UNKNOWN}


def test_settings_follow_systemd_syntax():
    text = "stray\n[A]\n# c\n; c\nK = a \\\n  b\nK=\nnonsense\n[B]\nK=c=d\n"
    settings, strange = parse_settings(text, "f")
    assert [one.statement for one in settings] == ["[A] K=a b", "[A] K=", "[B] K=c=d"]
    assert strange == ("stray", "nonsense")


@pytest.mark.parametrize("text", ["", "\n\n", "Failed to connect to bus"])
def test_show_that_is_not_understood(text):
    with pytest.raises(NotUnderstoodError):
        parse_show(text)
