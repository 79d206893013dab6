"""Whether logins go through pam_limits: as distributions ship it, spoilt, and hostile."""

from __future__ import annotations

import pytest

from hfprov.evidence.pam_stack import PAM_FILES, rules
from hfprov.evidence.sshd import FILES
from hfprov.verdict import Outcome

FAIL, UNKNOWN, WARN = Outcome.FAIL, Outcome.UNKNOWN, Outcome.WARN
STACK = "limits.pam.stack"
MAIN, DROP_INS = "file /etc/ssh/sshd_config", "glob /etc/ssh/sshd_config.d/*.conf"
DEBIAN = {
    "sshd": "@include common-auth\nsession required pam_loginuid.so\n@include common-session\n"
    "session    required     pam_limits.so\n",
    "login": "auth optional pam_faildelay.so delay=3000000\nsession required pam_limits.so\n"
    "@include common-session\n",
    "common-auth": "auth [success=1 default=ignore] pam_unix.so nullok # as usual\n",
    "common-session": "session [default=1] pam_permit.so\nsession required pam_unix.so\n",
}
RED_HAT = {
    "sshd": "auth substack password-auth\naccount include password-auth\n"
    "session required pam_loginuid.so\nsession include password-auth\n"
    "session include postlogin\n",
    "login": "auth substack system-auth\nsession include system-auth\n",
    "system-auth": "session optional pam_keyinit.so revoke\nsession required pam_limits.so\n",
    "password-auth": "auth required pam_env.so\nsession required /lib64/security/pam_limits.so\n",
    "postlogin": "session optional pam_lastlog.so silent noupdate showfailed\n",
}


def one(text, name="x", **changes):
    return {"name": name, "status": "ok", "text": text} | changes


def has(node, files, folder="/etc/pam.d"):
    """Give the node these files of PAM; a read of the glob that a name belongs to finds it."""
    for name, text in files.items():
        stem = name.partition("-")[0]
        pattern = {"common": "common-*", "system": "system-*", "password": "password-auth*"}.get(
            stem, "postlogin*" if stem == "postlogin" else name
        )
        found = node.results[f"glob {folder}/{pattern}"]
        found[:] = [entry for entry in found if not entry["name"].endswith(f"/{name}")]
        found.append(one(text, f"{folder}/{name}"))


@pytest.fixture
def node(ifupdown):
    """A node of Debian, whose sshd uses PAM."""
    for source in (PAM_FILES, FILES):
        for read in source.reads(ifupdown.baseline()):
            ifupdown.results.setdefault(read.id, [])
    ifupdown.results[MAIN] = [
        one("Include /etc/ssh/sshd_config.d/*.conf\nUsePAM yes\n", "/etc/ssh/sshd_config")
    ]
    has(ifupdown, DEBIAN)
    return ifupdown


def test_no_process_is_started_for_it(node):
    reads = [read for source in (PAM_FILES, FILES) for read in source.reads(node.baseline())]
    assert {read.request["kind"] for read in reads} == {"file", "glob"}


@pytest.mark.parametrize("files", [DEBIAN, RED_HAT], ids=["debian", "red_hat"])
def test_what_distributions_ship_passes(node, files):
    has(node, files)
    assert node.bad(STACK) == {}


@pytest.mark.parametrize(
    ("line", "bad"),
    [
        ("", True),
        ("# session required pam_limits.so", True),
        ("session required pam_env.so # pam_limits.so", True),
        ("auth required pam_limits.so", True),
        ("session required pam_limits.so.off", True),
        ("session required pam_limits.so conf=/etc/site.conf", True),
        ("session required pam_limits.so conf=/etc/security/limits.conf", False),
        ("session required pam_limits.so set_all", False),
        ("-session\toptional\tpam_limits.so", False),
        ("SESSION [success=ok default=bad] pam_limits.so", False),
        ("session required \\\n  pam_limits.so", False),
    ],
)
def test_the_line_of_sshd(node, line, bad):
    has(node, {"sshd": f"@include common-session\n{line}\n"})
    assert node.bad(STACK) == ({"PAM of sshd": FAIL} if bad else {})


def test_another_file_of_limits_is_told_with_its_line(node):
    line = "session required pam_limits.so conf=/etc/site.conf"
    has(node, {"sshd": f"\n{line}\n"})
    (found,) = [one for one in node.findings(STACK) if one.outcome is FAIL]
    assert "'/etc/pam.d/sshd:2'" in found.reason
    assert found.observed == "pam_limits.so conf=/etc/site.conf"


def test_a_module_removed_from_what_is_included_fails_for_those_that_include_it(node):
    has(node, RED_HAT)
    has(node, {"password-auth": "session required pam_unix.so\n"})
    assert node.bad(STACK) == {"PAM of sshd": FAIL}
    has(node, {"system-auth": "session required pam_unix.so\n"})
    assert node.bad(STACK) == {"PAM of sshd": FAIL, "PAM of login": FAIL}


def test_include_takes_only_lines_of_its_own_type(node):
    has(node, RED_HAT)
    has(node, {"sshd": "auth include password-auth\nsession include postlogin\n"})
    assert node.bad(STACK) == {"PAM of sshd": FAIL}


def test_a_node_without_logins_at_a_console_is_not_asked_for_them(node):
    node.results["glob /etc/pam.d/login"] = []
    assert [one.subject for one in node.findings(STACK)] == ["PAM of sshd", "UsePAM"]


def test_a_service_without_a_file_goes_through_that_of_other(node):
    node.results["glob /etc/pam.d/sshd"] = []
    assert node.bad(STACK) == {"PAM of sshd": FAIL}
    has(node, {"other": "session required pam_limits.so\n"})
    assert node.bad(STACK) == {}


def test_a_file_in_etc_hides_the_vendors(node):
    has(node, {"sshd": "session required pam_limits.so\n"}, "/usr/lib/pam.d")
    has(node, {"sshd": "session required pam_unix.so\n"})
    assert node.bad(STACK) == {"PAM of sshd": FAIL}
    node.results["glob /etc/pam.d/sshd"] = []
    assert node.bad(STACK) == {}


# Lines that lead past it

LIMITS = "session required pam_limits.so\n"


@pytest.mark.parametrize(
    ("before", "outcome"),
    [
        ("session [success=1 default=ignore] pam_permit.so", FAIL),
        ("session [default=1] pam_permit.so", FAIL),
        ("session [default=9] pam_unix.so", FAIL),
        ("session [default=1] pam_deny.so", FAIL),
        ("session sufficient pam_permit.so", FAIL),
        ("session [success=done default=ignore] pam_unix.so", FAIL),
        ("session sufficient pam_sss.so", WARN),
        ("session [success=1 default=ignore] pam_succeed_if.so uid >= 1000 quiet", WARN),
        ("session [success=ignore default=1] pam_succeed_if.so user ingroup gpu", WARN),
        ("session [success=ok user_unknown=1 default=bad] pam_localuser.so", WARN),
        ("session [success=1] pam_permit.so\nsession required pam_deny.so", None),
        ("session [success=2] pam_permit.so\nsession required pam_deny.so", FAIL),
        ("session [success=1] pam_permit.so\nsession sufficient pam_permit.so", None),
        ("session [success=ok new_authtok_reqd=1 default=bad] pam_unix.so", None),
        ("session sufficient pam_deny.so", None),
        ("session requisite pam_succeed_if.so uid >= 1000", None),
        ("auth [success=1 default=ignore] pam_unix.so", None),
        ("session optional pam_keyinit.so revoke", None),
    ],
)
def test_a_line_before_it_that_jumps_or_ends(node, before, outcome):
    has(node, {"sshd": f"{before}\n{LIMITS}session required pam_env.so\n"})
    assert node.bad(STACK) == ({"PAM of sshd": outcome} if outcome else {})


def test_a_jump_behind_it_is_nothing(node):
    has(node, {"sshd": f"{LIMITS}session [default=5] pam_permit.so\n"})
    assert node.bad(STACK) == {}


def test_a_jump_counts_what_is_included_but_a_substack_as_one(node):
    jump = "session [default=2] pam_permit.so\n"
    has(node, {"common-session": "session required pam_unix.so\nsession required pam_env.so\n"})
    for word, outcome in (("include", {}), ("substack", {"PAM of sshd": FAIL})):
        has(node, {"sshd": f"{jump}session {word} common-session\n{LIMITS}"})
        assert node.bad(STACK) == outcome
    has(node, {"sshd": f"{jump}@include common-session\n{LIMITS}"})
    assert node.bad(STACK) == {}


def test_what_is_done_in_a_substack_ends_that_one_alone(node):
    has(node, {"common-session": "session sufficient pam_permit.so\n"})
    has(node, {"sshd": f"session substack common-session\n{LIMITS}"})
    assert node.bad(STACK) == {}
    has(node, {"sshd": f"session include common-session\n{LIMITS}"})
    assert node.bad(STACK) == {"PAM of sshd": FAIL}


def test_it_may_be_missed_within_a_substack_and_before_it(node):
    has(node, {"sshd": "session substack common-session\n"})
    has(node, {"common-session": f"session [default=1] pam_permit.so\n{LIMITS}"})
    assert node.bad(STACK) == {"PAM of sshd": FAIL}
    has(node, {"common-session": LIMITS})
    assert "PAM of sshd" not in node.bad(STACK)
    has(node, {"sshd": "session [default=1] pam_permit.so\nsession substack common-session\n"})
    assert node.bad(STACK) == {"PAM of sshd": FAIL}


def test_the_line_that_leads_past_it_is_told(node):
    has(node, {"sshd": f"\nsession [default=1] pam_permit.so\n{LIMITS}"})
    (found,) = [one for one in node.findings(STACK) if one.outcome is FAIL]
    assert "'/etc/pam.d/sshd:2'" in found.reason
    assert found.observed == "'[default=1] pam_permit.so' before it"


def test_files_that_include_each_other_before_it_are_unknown(node):
    has(node, {"sshd": f"@include common-a\n{LIMITS}", "common-a": "@include sshd\n"})
    assert node.bad(STACK) == {"PAM of sshd": UNKNOWN}


# sshd


@pytest.mark.parametrize(
    ("main", "drop_in", "outcome"),
    [
        ("UsePAM yes", "", None),
        ("UsePAM no", "", FAIL),
        ("UsePAM yes", "usepam no", FAIL),
        ("UsePAM no", "UsePAM=yes", None),
        ("Port 22", "", FAIL),
        ("Match User a\n UsePAM no\nMatch all\nUsePAM yes", "", None),
        ("Include /etc/site/*.conf", "", UNKNOWN),
    ],
)
def test_sshd_that_does_not_use_pam(node, main, drop_in, outcome):
    node.put(MAIN, text=f"{main}\n")
    if drop_in:
        node.add(DROP_INS, "/etc/ssh/sshd_config.d/00-site.conf", f"# site\n{drop_in}\n")
    assert node.bad(STACK) == ({"UsePAM": outcome} if outcome else {})


def test_where_pam_is_switched_off_is_told(node):
    node.add(DROP_INS, "/etc/ssh/sshd_config.d/00-site.conf", "UsePAM no\n")
    (found,) = [one for one in node.findings(STACK) if one.outcome is FAIL]
    assert "'/etc/ssh/sshd_config.d/00-site.conf:1'" in found.reason


@pytest.mark.parametrize("changes", [{"status": "absent"}, {"status": "denied"}])
def test_files_of_sshd_that_cannot_be_read_leave_pam_judged(node, changes):
    node.put(MAIN, **changes)
    assert node.bad(STACK) == {"UsePAM": UNKNOWN}
    has(node, {"sshd": ""})
    assert node.bad(STACK) == {"UsePAM": UNKNOWN, "PAM of sshd": FAIL}


# Unknown and hostile


def test_a_file_that_is_included_and_not_read_is_unknown(node):
    has(node, {"sshd": "@include site-session\n"})
    assert node.bad(STACK) == {"PAM of sshd": UNKNOWN}


@pytest.mark.parametrize("changes", [{"status": "denied"}, {"truncated": True}])
def test_a_file_that_is_not_whole_is_unknown(node, changes):
    node.put("glob /etc/pam.d/sshd", **changes)
    assert node.bad(STACK) == {"": UNKNOWN}


def test_files_that_include_each_other_end(node):
    has(node, {"sshd": "@include common-a\n", "common-a": "@include sshd\n"})
    assert node.bad(STACK) == {"PAM of sshd": FAIL}


def test_files_that_multiply_what_they_include_end(node):
    twice = "session include common-{0}\n" * 2
    chain = {f"common-{n}": twice.format(n + 1) for n in range(40)} | {"common-40": ""}
    has(node, {"sshd": "@include common-0\n", **chain})
    assert node.bad(STACK) == {"PAM of sshd": FAIL}


@pytest.mark.parametrize(
    "text", ["\x00\x1b[31m\n", "session\n", "[[[[\n" * 100, "@include\n", "session [ x y\n"]
)
def test_lines_that_are_none_are_no_module(node, text):
    has(node, {"sshd": text})
    assert node.bad(STACK) == {"PAM of sshd": FAIL}


def test_evidence_of_earlier_versions_is_unknown(ifupdown):
    assert ifupdown.bad(STACK) == {"": UNKNOWN}
    assert ifupdown.bad("limits.session") == {}


def test_rules_come_in_order_with_their_lines():
    files = {
        "a": ("/etc/pam.d/a", "session x first.so\n@include b\nsession \\\n x last.so two words\n"),
        "b": ("/etc/pam.d/b", "\nauth x middle.so\n"),
    }
    found = [(rule.module, rule.where, rule.arguments) for rule in rules(files, "a")]
    assert found == [
        ("first.so", "/etc/pam.d/a:1", ()),
        ("middle.so", "/etc/pam.d/b:2", ()),
        ("last.so", "/etc/pam.d/a:3", ("two", "words")),
    ]
