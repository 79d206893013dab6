"""sshd and the firewall: a healthy node passes, a spoilt one fails by name, a gap never passes."""

from __future__ import annotations

import pytest

from hfprov.checks.hardening_firewalls import wanted_rules
from hfprov.errors import NotUnderstoodError
from hfprov.evidence.nftables import parse_rules
from hfprov.evidence.packet_filter import NFT
from hfprov.evidence.sshd import POLICY, POLICY_PATH, parse_effective, parse_keywords
from hfprov.verdict import Outcome

WARN, FAIL, UNKNOWN = Outcome.WARN, Outcome.FAIL, Outcome.UNKNOWN
CHECKS = (
    "hardening.ssh.file",
    "hardening.ssh.effective",
    "hardening.ssh.rivals",
    "hardening.ssh.stale",
    "hardening.guard",
    "hardening.firewall.live",
    "hardening.firewall.file",
)
DROP_INS = "glob /etc/ssh/sshd_config.d/*.conf"
MAIN = "file /etc/ssh/sshd_config"
OURS = "/etc/ssh/sshd_config.d/00-hfprov.conf"
EFFECTIVE = "run /usr/sbin/sshd -T"
WRITTEN = "run find /run/sshd.pid"
LIST = NFT.id
RULES = "/etc/hfprov/management.nft"
UNIT = "/etc/systemd/system/hfprov-firewall.service"
TABLE = "table inet hfprov_management"


@pytest.mark.parametrize("check_id", CHECKS)
def test_healthy_node_passes(node, check_id):
    assert node.outcomes(check_id) == {}


@pytest.mark.parametrize(
    ("check_id", "words", "old", "new", "subject"),
    [
        ("hardening.ssh.file", DROP_INS, "prohibit-password", "yes", OURS),
        ("hardening.ssh.file", DROP_INS, "UsePAM yes\n", "", OURS),
        ("hardening.ssh.file", DROP_INS, "UsePAM yes\n", "UsePAM yes\nMaxSessions 1\n", OURS),
        ("hardening.ssh.effective", EFFECTIVE, "passwordauthentication no",
         "passwordauthentication yes", "passwordauthentication"),
        ("hardening.ssh.effective", EFFECTIVE, "permitrootlogin without-password",
         "permitrootlogin yes", "permitrootlogin"),
        ("hardening.ssh.effective", EFFECTIVE, "usepam yes\n", "", "usepam"),
        ("hardening.ssh.stale", WRITTEN, "/run/sshd.pid", "/run/sshd_other", ""),
        ("hardening.firewall.live", LIST, "9100", "9101", TABLE),
        ("hardening.firewall.live", LIST, "\t\tdrop\n", "", TABLE),
        ("hardening.firewall.live", LIST, "\t\tdrop\n", "\t\taccept\n\t\tdrop\n", TABLE),
        ("hardening.firewall.live", LIST, 'iifname "eth0"', 'iifname "eth1"', TABLE),
        ("hardening.firewall.live", LIST, "10.0.0.0/8", "10.0.0.0/9", TABLE),
        ("hardening.firewall.file", f"file {RULES}", "9100", "9101", RULES),
        ("hardening.firewall.file", f"file {RULES}", f"delete {TABLE}\n", "", RULES),
        ("hardening.firewall.file", f"file {UNIT}", "sysinit", "multi-user", UNIT),
    ],
)  # fmt: skip
def test_spoilt_text_fails(node, check_id, words, old, new, subject):
    node.replace(words, old, new)
    assert node.outcomes(check_id)[subject] in (FAIL, UNKNOWN)


@pytest.mark.parametrize("line", ["MaxStartups 1:100:1", "MaxStartups 9", "maxsessions 1"])
def test_few_logins_at_once(node, line):
    node.replace(DROP_INS, "UsePAM yes\n", f"UsePAM yes\n{line}\n")
    assert set(node.outcomes("hardening.ssh.rivals").values()) == {WARN}


def test_as_many_logins_at_once_as_benchmarks_allow(node):
    more = "UsePAM yes\nMaxStartups 10:30:60\nMaxSessions 10\nMaxStartups 1\n"
    node.replace(DROP_INS, "UsePAM yes\n", more)
    assert node.outcomes("hardening.ssh.rivals") == {}


def test_older_name_of_a_value_is_the_same(node):
    node.replace(EFFECTIVE, "without-password", "prohibit-password")
    assert node.outcomes("hardening.ssh.effective") == {}


@pytest.mark.parametrize(
    ("name", "text", "good"),
    [
        ("00-a.conf", "PasswordAuthentication yes\n", False),
        ("00-a.conf", "passwordauthentication=yes\n", False),
        ("00-a.conf", "PasswordAuthentication no\n", True),
        ("00-a.conf", "# PasswordAuthentication yes\nMaxSessions 5\n", True),
        ("50-site.conf", "PasswordAuthentication yes\n", True),
        ("50-site.conf", "Match User alice\n  PasswordAuthentication yes\n", False),
        ("50-site.conf", "Match User alice\nMatch all\nPasswordAuthentication yes\n", True),
        ("50-site.conf", "Match Group x\n\tX11Forwarding Yes\n", False),
    ],
)
def test_other_files_of_sshd(node, name, text, good):
    """A later file does no harm; an earlier one, or one that is for some logins, does."""
    path = f"/etc/ssh/sshd_config.d/{name}"
    node.add(DROP_INS, path, text)
    found = node.outcomes("hardening.ssh.rivals")
    assert (found == {}) is good
    assert all(subject.startswith(f"{path}:") for subject in found)


@pytest.mark.parametrize(
    ("link", "good"),
    [
        ("", True),
        ("/etc/crypto-policies/x.conf", True),
        ("/usr/share/x.conf", True),
        ("/home/alice/sshd.conf", False),
        ("/run/x.conf", False),
        ("/etcetera/x.conf", False),
        ("/srv/\x1b[31m<b>" + "x" * 9000, False),
    ],
)
def test_file_of_sshd_that_leads_elsewhere(node, link, good):
    path = "/etc/ssh/sshd_config.d/50-site.conf"
    node.add(DROP_INS, path, "MaxSessions 5\n", link=link)
    assert node.outcomes("hardening.ssh.rivals") == ({} if good else {path: FAIL})


FORBID = "DisableForwarding yes\n"


def test_keyword_that_forbids_what_others_allow(node):
    """It is in no file of the role, so that it holds from wherever it stands."""
    node.add(DROP_INS, "/etc/ssh/sshd_config.d/90-site.conf", FORBID)
    node.replace(EFFECTIVE, "disableforwarding no", "disableforwarding yes")
    assert node.outcomes("hardening.ssh.effective") == {"disableforwarding": FAIL}
    assert node.outcomes("hardening.ssh.rivals") == {"/etc/ssh/sshd_config.d/90-site.conf:1": FAIL}
    node.values["hardening_ssh_allow_tcp_forwarding"] = False
    assert "disableforwarding" not in node.outcomes("hardening.ssh.effective")
    assert node.outcomes("hardening.ssh.rivals") == {}


def test_older_sshd_does_not_know_that_keyword(node):
    node.replace(EFFECTIVE, "disableforwarding no\n", "")
    assert node.outcomes("hardening.ssh.effective") == {}


LISTENER = "sshd: /usr/sbin/sshd -D {} [listener] 0 of 10-100 startups\0"


@pytest.mark.parametrize(
    ("options", "good"),
    [
        ("-e -p 2222", True),
        ("-f /etc/ssh/sshd_config", True),
        ("-o PasswordAuthentication=yes", False),
        ("-oPermitRootLogin=yes", False),
        ("-f /srv/sshd_config", False),
    ],
)
def test_options_that_sshd_is_started_with(node, options, good):
    """They win over all files, and 'sshd -T' does not know of them."""
    node.put("glob /proc/[0-9]*/cmdline", text=LISTENER.format(options))
    assert node.outcomes("hardening.ssh.rivals") == ({} if good else {"running sshd": FAIL})
    node.put("glob /proc/[0-9]*/cmdline", text=LISTENER.format(""))
    node.put("glob /etc/default/ssh", text=f"# x\nSSHD_OPTS='{options}'\n")
    assert node.outcomes("hardening.ssh.rivals") == ({} if good else {"/etc/default/ssh": FAIL})


def test_drop_in_that_starts_sshd_otherwise(node):
    path = "/etc/systemd/system/ssh.service.d/zz.conf"
    text = "[Service]\nExecStart=\nExecStart=/usr/sbin/sshd -D -f /srv/x\n"
    node.add("glob /etc/systemd/system/*.service.d/*.conf", path, text)
    assert node.outcomes("hardening.ssh.rivals") == {f"ssh.service {path}:3": FAIL}


def test_file_that_is_included_from_elsewhere_is_not_known(node):
    node.add(DROP_INS, "/etc/ssh/sshd_config.d/50-x.conf", "Include /srv/site/*.conf\n")
    path = "/etc/ssh/sshd_config.d/50-x.conf:1"
    assert node.outcomes("hardening.ssh.rivals") == {path: UNKNOWN}


def test_policy_that_el_9_includes_is_read(node):
    """As its 50-redhat.conf says it; elsewhere there is no such file."""
    node.add(DROP_INS, "/etc/ssh/sshd_config.d/50-redhat.conf", f"Include {POLICY_PATH}\n")
    assert node.outcomes("hardening.ssh.rivals") == {}
    node.add(POLICY.id, POLICY_PATH, "Ciphers aes256-gcm@openssh.com\nMACs hmac-sha2-256\n")
    assert node.outcomes("hardening.ssh.rivals") == {}
    node.add(POLICY.id, POLICY_PATH, "Match User root\nX11Forwarding yes\n", mode=0o666)
    assert node.outcomes("hardening.ssh.rivals") == {f"{POLICY_PATH}:2": FAIL, POLICY_PATH: FAIL}


def test_keyword_of_the_main_file_after_the_include_does_no_harm(node):
    node.replace(MAIN, "X11Forwarding yes", "X11Forwarding yes\nPermitRootLogin yes")
    assert node.outcomes("hardening.ssh.rivals") == {}


@pytest.mark.parametrize(("mode", "uid"), [(0o666, 0), (0o644, 1000), (0o600, 0)])
def test_rights_of_the_file_of_sshd(node, mode, uid):
    result = next(one for one in node.results[DROP_INS] if one["name"] == OURS)
    result.update(mode=mode, uid=uid)
    assert node.outcomes("hardening.ssh.file") == {OURS: FAIL}


def test_missing_file_of_sshd(node):
    node.results[DROP_INS].clear()
    assert node.outcomes("hardening.ssh.file") == {OURS: FAIL}


def test_file_written_after_sshd_was_started(node):
    text = f"1000.5 /run/sshd.pid\n1000.4 /etc/ssh/sshd_config\n1000.6 {OURS}\n"
    node.put(WRITTEN, text=text)
    assert node.outcomes("hardening.ssh.stale") == {OURS: FAIL}


@pytest.mark.parametrize("text", ["", "1000.5 /run/sshd.pid\n", "1000.4 /etc/ssh/sshd_config\n"])
def test_start_that_is_not_known_is_unknown(node, text):
    node.put(WRITTEN, text=text, code=1)
    assert node.outcomes("hardening.ssh.stale") == {"": UNKNOWN}


def test_unconfirmed_change(node):
    guard = "run systemctl show --property=ActiveState -- hfprov-guard.timer"
    node.put(guard, text="ActiveState=active\n")
    assert node.outcomes("hardening.guard") == {"hfprov-guard.timer": FAIL}


NO_TABLE = "hfprov-tables\n"


def test_firewall_that_is_not_loaded(node):
    node.put(LIST, text=NO_TABLE)
    assert node.outcomes("hardening.firewall.live") == {TABLE: FAIL}
    node.put(LIST, status="absent", text="", stderr="No such file or directory: 'nft'")
    assert node.outcomes("hardening.firewall.live") == {TABLE: FAIL}


def test_firewall_that_may_not_be_read_is_unknown(node):
    error = "netlink: Error: cache initialization failed: Operation not permitted"
    node.put(LIST, text="", code=1, stderr=error)
    assert node.outcomes("hardening.firewall.live") == {"": UNKNOWN}
    node.values["hardening_firewall"] = False
    assert node.outcomes("hardening.firewall.live") == {"": UNKNOWN}


def test_firewall_that_is_left_over(node):
    node.values["hardening_firewall"] = False
    assert node.outcomes("hardening.firewall.live") == {TABLE: FAIL}
    assert node.outcomes("hardening.firewall.file") == {RULES: FAIL, UNIT: FAIL}
    node.put(LIST, text=NO_TABLE)
    for path in (RULES, UNIT):
        node.put(f"file {path}", status="absent", text="")
    assert node.outcomes("hardening.firewall.live") == {}
    assert node.outcomes("hardening.firewall.file") == {}


@pytest.mark.parametrize(
    ("old", "new"),
    [("State=enabled", "State=disabled"), ("State=enabled", "State="), ("Reload=no", "Reload=yes")],
)
def test_unit_of_the_firewall(node, old, new):
    node.replace("run systemctl show --property=LoadState,UnitFileState,NeedDaemonR", old, new)
    assert list(node.outcomes("hardening.firewall.file").values()) == [FAIL]


def test_rules_in_any_order_of_a_set_are_the_same(node):
    node.replace(LIST, "{ 22, 9100 }", "{ 9100, 22 }")
    assert node.outcomes("hardening.firewall.live") == {}


def test_rules_for_all_sources_and_single_ports(node):
    node.values |= {
        "hardening_firewall_sources": [],
        "hardening_firewall_tcp_ports": [22],
        "hardening_firewall_udp_ports": [161],
    }
    rules = wanted_rules(node.baseline())
    assert rules[-5:] == ("tcp dport 22 accept", "udp dport 161 accept", "drop", "}", "}")


def test_rules_of_single_addresses():
    assert parse_rules("ip saddr { 10.0.0.1/32 } tcp dport { 22 } accept") == (
        "ip saddr 10.0.0.1 tcp dport 22 accept",
    )


def test_keywords_know_their_match_block():
    text = "Port 22\n#Port 23\nMatch User a\n  X11Forwarding yes\nMatch all\n UsePAM=yes\n"
    text += '"Match" User b\n "UsePAM" no\n'
    found = [(one.statement, one.match) for one in parse_keywords(text, "f")]
    assert found == [
        ("port 22", ""),
        ("match User a", "User a"),
        ("x11forwarding yes", "User a"),
        ("match all", ""),
        ("usepam yes", ""),
        ("match User b", "User b"),
        ("usepam no", "User b"),
    ]


@pytest.mark.parametrize("text", ["Bad configuration option: x", "a\n\n/etc: 1"])
def test_effective_settings_that_are_not_understood(text):
    with pytest.raises(NotUnderstoodError):
        parse_effective(text)


HOSTILE = [{"status": "timeout", "text": ""}, {"status": "denied", "text": ""}, {"truncated": True}]


@pytest.mark.parametrize("check_id", CHECKS)
@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda change: next(iter(change)))
def test_without_whole_evidence_nothing_passes(node, check_id, hostile):
    for name in node.reads_of(check_id):
        spoilt = type(node)(node.results)
        for result in spoilt.results[name]:
            result.update(hostile)
        assert UNKNOWN in spoilt.outcomes(check_id).values(), name


@pytest.mark.parametrize(("changed", "outcome"), [({"mode": 0o666}, FAIL), ({"uid": 1000}, FAIL)])
def test_file_of_sshd_that_others_may_write(node, changed, outcome):
    path = "/etc/ssh/sshd_config.d/99-site.conf"
    node.add("glob /etc/ssh/sshd_config.d/*.conf", path, "X11Forwarding no\n", **changed)
    assert node.outcomes("hardening.ssh.rivals") == {path: outcome}
