"""Updates that never come although declared, and upgrades that come although they are not."""

from __future__ import annotations

import pytest

from hfprov.evidence.update_sources import Archive, parse_archive, parse_pins
from hfprov.evidence.upgrades_by_others import upgrades
from hfprov.verdict import NotApplicable, Outcome

FAIL, UNKNOWN = Outcome.FAIL, Outcome.UNKNOWN
COME, OTHERS = "hardening.updates.come", "hardening.updates.others"
DUMP = "run apt-config dump"
LISTS = "glob /var/lib/apt/lists/*Release"
PACKAGES = "list /var/lib/apt/lists/*_Packages*"
PREFERENCES = "glob /etc/apt/preferences.d/*"
GREP = "lines of files"
MAIN = "Origin: Debian\nLabel: Debian\nSuite: oldstable\nCodename: bookworm\n"
SECURITY = (
    "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\nOrigin: Debian\nLabel: Debian-Security\n"
    "Suite: oldstable-security\nCodename: bookworm-security\nDate: Sat, 28 Nov 2026 02:53:00 UTC\n"
)
SECURITY_LIST = "/var/lib/apt/lists/security.debian.org_debian-security_dists_x_InRelease"


@pytest.fixture
def debian(node):
    """As it is on most nodes: the archive of the release, and that of security updates."""
    node.add(LISTS, "/var/lib/apt/lists/deb.debian.org_debian_dists_x_InRelease", MAIN)
    # Cut off, as the whole files are long.
    node.add(LISTS, SECURITY_LIST, SECURITY, truncated=True)
    return node


def configure(node, line):
    node.put(DUMP, text=f"{node.results[DUMP][0]['text']}{line}\n")


@pytest.mark.parametrize("check_id", [COME, OTHERS])
def test_healthy_node_passes(node, debian, check_id):
    assert node.outcomes(check_id) == {}
    assert debian.outcomes(check_id) == {}


@pytest.mark.parametrize(
    ("pattern", "bad"),
    [
        (".*", True),
        ("^.*$", True),
        ("", True),
        (".", True),
        ("[a-z]*", True),
        ("^nvidia", False),
        ("lib.*", False),
        ("[0-9]foo", False),
    ],
)
def test_every_package_excluded(debian, pattern, bad):
    configure(debian, f'Unattended-Upgrade::Package-Blacklist:: "{pattern}";')
    expected = {"Unattended-Upgrade::Package-Blacklist": FAIL} if bad else {}
    assert debian.outcomes(COME) == expected


@pytest.mark.parametrize(
    ("line", "subject"),
    [
        ('Unattended-Upgrade::Package-Whitelist:: "tzdata";', "Package-Whitelist"),
        ('Unattended-Upgrade::InstallOnShutdown "True";', "InstallOnShutdown"),
        ('Unattended-Upgrade::InstallOnShutdown "false";', None),
        ('Unattended-Upgrade::Package-Whitelist "";', None),
    ],
)
def test_settings_that_leave_nothing_to_install(debian, line, subject):
    configure(debian, line)
    expected = {f"Unattended-Upgrade::{subject}": FAIL} if subject else {}
    assert debian.outcomes(COME) == expected


def test_no_archive_of_security_updates(debian):
    debian.results[LISTS].pop()
    assert debian.outcomes(COME) == {"security archive": FAIL}
    debian.replace(LISTS, "Origin: Debian", "Origin: Our mirror")
    assert debian.outcomes(COME) == {}, "a site's own mirror may hold all under one name"


def test_archive_that_is_not_allowed(debian):
    dump = debian.results[DUMP][0]["text"]
    debian.put(DUMP, text=dump.replace("label=Debian-Security", "label=Debian"))
    assert debian.outcomes(COME) == {"security archive": FAIL}
    configure(debian, 'Unattended-Upgrade::Allowed-Origins:: "Debian:bookworm-security";')
    assert debian.outcomes(COME) == {"security archive": FAIL}, "its suite is 'oldstable-security'"
    configure(debian, 'Unattended-Upgrade::Allowed-Origins:: "${distro_id}:oldstable-security";')
    assert debian.outcomes(COME) == {}


def record(pin, priority, package="*"):
    return f"Explanation: x\nPackage: {package}\nPin: {pin}\nPin-Priority: {priority}\n"


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        (record("release l=Debian-Security", -1), True),
        (record("release a=oldstable-security", 50), True),
        (record("release n=bookworm-security", -10), True),
        (record("release bookworm-security", 1), True),
        (record("release o=Debian", -1), True),
        (record("release o=Debian,n=bookworm", -1), False),
        (record("release l=Debian-Security", 500), False),
        (record("release l=Debian-Security", -1, "nginx"), False),
        (record("origin security.debian.org", -1), True),
        (record('origin "security.debian.org"', -1), True),
        (record('origin ""', -1), False),
        (record("version *", -1), True),
        (record("version 1.*", -1), False),
        (record("release c=non-free", -1), False),
        (record("release c=main", -1), True),
        (record("release *", -1), True),
        (record("release v=12", -1), False),
        (record("release l=Debian-Security", "much"), False),
        ("# " + record("release l=Debian-Security", -1).replace("\n", "\n# "), False),
        (f"{record('release o=Debian', 500)}\n{record('release l=Debian-Security', -1)}", False),
        (f"{record('release n=trixie', -1)}\n{record('release l=Debian-Security', -1)}", True),
    ],
)
def test_pins(debian, text, bad):
    path = "/etc/apt/preferences.d/site"
    debian.add(PREFERENCES, path, text)
    assert debian.outcomes(COME) == ({path: FAIL} if bad else {})


def test_files_of_pins_that_apt_does_not_read(debian):
    text = record("release l=Debian-Security", -1)
    debian.add(PREFERENCES, "/etc/apt/preferences.d/site.disabled", text)
    assert debian.outcomes(COME) == {}
    debian.add(PREFERENCES, "/etc/apt/preferences.d/site.pref", text)
    assert debian.outcomes(COME) == {"/etc/apt/preferences.d/site.pref": FAIL}
    debian.put("file /etc/apt/preferences", status="ok", text=record("release o=Debian", 600))
    assert debian.outcomes(COME) == {}, "the main file comes first"


def test_what_is_not_declared_is_not_judged(debian):
    debian.values["hardening_security_updates"] = False
    debian.values["hardening_updates_excluded"] = []
    configure(debian, 'Unattended-Upgrade::Package-Blacklist:: ".*";')
    for check_id in (COME, OTHERS):
        (finding,) = debian.findings(check_id)
        assert finding.not_applicable is NotApplicable.NOT_REQUESTED


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("@daily root apt-get -qq -y dist-upgrade", "apt-get -qq -y dist-upgrade"),
        ("0 4 * * * root apt update; apt -y full-upgrade 2>&1 | logger", "apt -y full-upgrade 2"),
        ("ExecStart=/usr/bin/apt-get -o Dpkg::Options::=--force-confold upgrade -y",
         "apt-get -o Dpkg::Options::=--force-confold upgrade -y"),
        ("DEBIAN_FRONTEND=noninteractive apt-get -y upgrade", "apt-get -y upgrade"),
        ("sh -c 'aptitude safe-upgrade'", "aptitude safe-upgrade"),
        ("apt-get -y upgrade openssl", "apt-get -y upgrade openssl"),
        ("17 3 * * 0 root yum -y update", "yum -y update"),
        ("dnf -y upgrade --refresh > /dev/null", "dnf -y upgrade --refresh"),
        ("apt-get update", ""),
        ("apt-get -s upgrade", ""),
        ("apt-get upgrade --dry-run", ""),
        ("apt-get -y -d dist-upgrade", ""),
        ("apt-get install unattended-upgrades", ""),
        ("apt list --upgradable", ""),
        ("dnf -y upgrade openssl", ""),
        ("dnf check-update", ""),
        ("# apt-get dist-upgrade", ""),
        ("echo hello # apt-get dist-upgrade", ""),
        ("my-apt-get upgrade", ""),
        ("apt-mark hold linux-image-amd64", ""),
        ("apt " * 20_000 + " -y" * 20_000, ""),
        ("\x1b[31m\0", ""),
    ],
)  # fmt: skip
def test_commands_that_upgrade_all_packages(line, command):
    assert upgrades(line) == command


def test_apt_without_any_list_has_nothing_to_install(node):
    assert node.outcomes(COME) == {}
    node.results[PACKAGES] = []
    assert node.outcomes(COME) == {"lists": FAIL}


def test_upgrades_of_others(node):
    node.put(GREP, text="/etc/cron.d/site\0003:0 4 * * * root apt-get -y dist-upgrade\n")
    assert node.outcomes(OTHERS) == {"/etc/cron.d/site:3": FAIL}
    node.put(GREP, text="/etc/profile.d/x.sh\0003:alias up='apt-get upgrade'\n")
    assert node.outcomes(OTHERS) == {}, "another check asked for that file"
    configure(node, 'APT::Update::Post-Invoke:: "apt-get -y upgrade || true";')
    configure(node, 'DPkg::Post-Invoke:: "test -x /usr/bin/x";')
    assert node.outcomes(OTHERS) == {"APT::Update::Post-Invoke": FAIL}


def test_a_node_with_dnf_is_asked_for_upgrades_too(node):
    node.put(DUMP, status="absent", text="")
    (finding,) = node.findings(COME)
    assert finding.not_applicable is NotApplicable.NOT_REQUESTED
    node.put(GREP, text="/etc/cron.daily/patch\0002:yum -y update\n")
    assert node.outcomes(OTHERS) == {"/etc/cron.daily/patch:2": FAIL}


@pytest.mark.parametrize("text", ["", "\0", "Origin", "Origin:" * 500, "\x1b]0;x\x07Label: a\n"])
def test_head_of_an_archive_that_says_nothing(text):
    found = parse_archive("x_Release", text)
    assert found.site == "x"
    assert not found.is_security


@pytest.mark.parametrize("text", ["", "Package: *\n", "Pin-Priority: -1\n", "\0" * 99, ":\n\n:\n"])
def test_records_that_are_none(text):
    assert list(parse_pins(text, "f")) == []
    odd = f"Package: *\nPin: {text.strip() or 'x'}\nPin-Priority: -1\n"
    nobody = Archive("", "", "", "", "")
    assert not any(pin.takes(nobody) for pin in parse_pins(odd, "f"))


HOSTILE = [{"status": "timeout", "text": ""}, {"status": "denied", "text": ""}, {"truncated": True}]


@pytest.mark.parametrize("check_id", [COME, OTHERS])
@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda change: next(iter(change)))
def test_without_whole_evidence_nothing_passes(debian, check_id, hostile):
    debian.add(PREFERENCES, "/etc/apt/preferences.d/site", "")
    for name in debian.reads_of(check_id):
        spoilt = type(debian)(debian.results)
        absent = {one["status"] for one in spoilt.results[name]} == {"absent"}
        # Of an archive the head is enough, and of files of updates another check makes sure.
        if (
            absent
            or "pdates" in name
            or "unattended" in name
            or (name in (LISTS, PACKAGES) and "truncated" in hostile)
        ):
            continue
        for result in spoilt.results[name]:
            result.update(hostile)
        assert UNKNOWN in spoilt.outcomes(check_id).values(), name
