"""Accounts that are root, accounts without a password, and files of sudo."""

from __future__ import annotations

import pytest

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts
from hfprov.evidence.accounts import OPEN, ROOTS
from hfprov.evidence.grep import heading
from hfprov.evidence.sudoers import SUDOERS, is_for_everybody, is_understood
from hfprov.judge import find_check, findings_of
from hfprov.reading import Observation
from hfprov.verdict import Outcome

PASS, WARN, FAIL = Outcome.PASS, Outcome.WARN, Outcome.FAIL
UNKNOWN, NOT = Outcome.UNKNOWN, Outcome.NOT_APPLICABLE
BASELINE = Baseline("n1", (), {})
ROOT_LINE = "/etc/passwd\x001:root:x:0:0:root:/root:/bin/bash\n"


def judged(check_id, results):
    seen = Observation.from_json({"results": results})
    found = findings_of(find_check(check_id), Facts(seen, BASELINE), BASELINE)
    return {one.subject: one.outcome for one in found}


def account(check_id, found, **more):
    (read,) = (ROOTS if check_id == "accounts.root" else OPEN).reads(BASELINE)
    told = {"name": "", "status": "ok", "code": 0, "text": heading(read) + found} | more
    return judged(check_id, {read.id: [told]})


def test_root_alone_is_root():
    assert account("accounts.root", ROOT_LINE) == {"": PASS}
    other = "/etc/passwd\x009:bob:x:1000:0::/:/bin/sh\n"
    assert account("accounts.root", ROOT_LINE + other) == {"": PASS}


@pytest.mark.parametrize("line", ["toor:x:0:0::/root:/bin/bash", "toor::00:0::/root:/bin/bash"])
def test_another_account_that_is_root(line):
    found = account("accounts.root", f"{ROOT_LINE}/etc/passwd\x007:{line}\n")
    assert found == {"/etc/passwd:7 toor": FAIL}


def test_account_with_an_empty_password():
    assert account("accounts.passwords", "") == {"": PASS}
    assert account("accounts.passwords", ROOT_LINE) == {"": PASS}
    old = "/etc/passwd\x004:bob::1000:1000::/:/bin/sh\n"
    assert account("accounts.passwords", old) == {"/etc/passwd:4 bob": FAIL}


@pytest.mark.parametrize("check_id", ["accounts.root", "accounts.passwords"])
@pytest.mark.parametrize("more", [{"status": "timeout"}, {"truncated": True}, {"text": "x"}])
def test_accounts_that_nobody_looked_at_never_pass(check_id, more):
    assert account(check_id, ROOT_LINE, **more) == {"": UNKNOWN}


def test_without_a_line_for_root_nothing_is_known():
    assert account("accounts.root", "") == {"root": UNKNOWN}
    denied = {"code": 2, "stderr": "grep: /etc/passwd: Permission denied"}
    assert account("accounts.passwords", "", **denied) == {"": UNKNOWN}


MAIN = """\
# This file MUST be edited with the 'visudo' command as root.
Defaults\tenv_reset
Defaults:%sudo env_keep += "EDITOR"
Host_Alias\tNODES = 10.0.0.0/8
%domain\\ admins ALL=(ALL) ALL
"%domain users" ALL=(ALL) /bin/ls
User_Alias ADMINS = alice, \\
    bob
root\tALL=(ALL:ALL) ALL
%sudo\tALL = (ALL:ALL) ALL
#1000 ALL=(root) NOPASSWD: /usr/bin/id, /bin/cat /etc/a\\=b # why
alice, bob ALL, !NODES=(operator) /bin/ls : ALL=(root) sudoedit /etc/motd
@includedir /etc/sudoers.d
"""


def file_of(text, path, mode=0o440, uid=0, gid=0, **more):
    found = {"name": path, "status": "ok", "text": text, "mode": mode, "uid": uid, "gid": gid}
    return found | more


def sudo(main=MAIN, *, installed=True, drop_ins=(), **more):
    absent = {"name": "", "status": "absent"}
    results = {
        "file /etc/sudoers": [absent if main is None else file_of(main, "/etc/sudoers", **more)],
        "file /usr/etc/sudoers": [absent],
        "glob /etc/sudoers.d/*": list(drop_ins),
        "list /usr/bin/sudo": [{"name": "/usr/bin/sudo", "status": "ok"}] if installed else [],
    }
    assert set(results) == {read.id for read in SUDOERS.reads(BASELINE)}
    return judged("accounts.sudo", results)


def drop_in(text, name="site", **more):
    return sudo(drop_ins=[file_of(text, f"/etc/sudoers.d/{name}", **more)])


def test_usual_files_of_sudo():
    assert sudo() == {"": PASS}
    assert drop_in("ubuntu ALL=(ALL) NOPASSWD:ALL\n") == {"": PASS}
    assert drop_in("garbage\n", "README.md") == {"": PASS}
    assert drop_in("garbage\n", "site~") == {"": PASS}
    assert sudo(mode=0o644) == {"": PASS}
    assert sudo(main=None, installed=False) == {"": NOT}


@pytest.mark.parametrize(
    "line", ["garbage line here", "bob ALL", "bob ALL=(ALL ALL", "Defaults", "=ALL"]
)
def test_line_that_sudo_cannot_read(line):
    assert drop_in(f"# site\n{line}\n") == {"/etc/sudoers.d/site:2": FAIL}
    assert not is_understood(line)


@pytest.mark.parametrize(
    "line",
    [
        "ALL ALL=(ALL) NOPASSWD: ALL",
        "ALL ALL=(ALL:ALL) ALL",
        "bob, ALL ALL = NOPASSWD: SETENV: /bin/ls, ALL",
        "ALL ALL=(root) ALL",
    ],
)
def test_line_that_makes_everybody_root(line):
    assert drop_in(f"{line}\n") == {"/etc/sudoers.d/site:1": FAIL}


@pytest.mark.parametrize(
    "line",
    [
        "ALL ALL=(root) NOPASSWD: /usr/bin/nvidia-smi",
        "ALL ALL=(slurm) ALL",
        "%wheel ALL=(ALL) ALL",
        "Cmnd_Alias ALL_OF = ALL",
        "Defaults:ALL !authenticate",
    ],
)
def test_line_that_makes_only_some_root(line):
    assert drop_in(f"{line}\n") == {"": PASS}


def test_everybody_who_knows_the_password_of_root_is_usual_on_suse():
    assert sudo("Defaults targetpw\nALL ALL=(ALL) ALL\n") == {"": PASS}
    free = "Defaults targetpw\nALL ALL=(ALL) NOPASSWD: ALL\n"
    assert sudo(free) == {"/etc/sudoers:2": FAIL}
    assert not is_for_everybody("ALL ALL=(ALL) ALL", asks_other_password=True)


def test_files_in_the_folder_count_only_where_it_is_included():
    everybody = file_of("ALL ALL=ALL\n", "/etc/sudoers.d/site")
    assert sudo("root ALL=ALL\n", drop_ins=[everybody]) == {"": PASS}
    assert sudo("#includedir /etc/sudoers.d\n", drop_ins=[everybody]) == {
        "/etc/sudoers.d/site:1": FAIL
    }
    assert sudo("@include /srv/sudoers\n") == {"/etc/sudoers:1": WARN}


@pytest.mark.parametrize(
    ("rights", "outcome"),
    [
        ({"mode": 0o666}, {"/etc/sudoers.d/site": FAIL}),
        ({"mode": 0o660, "gid": 100}, {"/etc/sudoers.d/site": FAIL}),
        ({"mode": 0o660}, {"": PASS}),
        ({"uid": 1000}, {"/etc/sudoers.d/site": FAIL}),
    ],
)
def test_rights_for_which_sudo_refuses_a_file(rights, outcome):
    assert drop_in("# nothing\n", **rights) == outcome


def test_sudo_without_evidence_never_passes():
    assert sudo(main=None) == {"/etc/sudoers": FAIL}
    assert sudo(status="denied", stderr="no") == {"": UNKNOWN}
    assert sudo(truncated=True) == {"": UNKNOWN}
    assert judged("accounts.sudo", {}) == {"": UNKNOWN}
    assert drop_in("x", status="denied") == {"": UNKNOWN}
