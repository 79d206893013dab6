"""Updates and the audit: what apt makes of all files counts, not the file that was written."""

from __future__ import annotations

import pytest

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.audit import is_blanket
from hfprov.evidence.automatic_updates import parse_dump
from hfprov.verdict import NotApplicable, Outcome

FAIL, UNKNOWN, WARN = Outcome.FAIL, Outcome.UNKNOWN, Outcome.WARN
CHECKS = (
    "hardening.updates.file",
    "hardening.updates.effective",
    "hardening.updates.timers",
    "hardening.audit.file",
    "hardening.audit.live",
)
APT = "file /etc/apt/apt.conf.d/90hfprov-updates"
DNF = "file /etc/dnf/automatic.conf"
DUMP = "run apt-config dump"
TIMERS = "run systemctl show --property=Id,LoadState,ActiveState,UnitFileState -- apt-daily.timer"
RULES_D = "glob /etc/audit/rules.d/*.rules"
RULES = "/etc/audit/rules.d/50-hfprov.rules"
AUDITD = "run systemctl show --property=LoadState,ActiveState,UnitFileState auditd"
BLACKLIST = "Unattended-Upgrade::Package-Blacklist"


@pytest.mark.parametrize("check_id", CHECKS)
def test_healthy_node_passes(node, metal, check_id):
    assert node.outcomes(check_id) == {}
    assert metal.outcomes(check_id) == {}


@pytest.mark.parametrize(
    ("check_id", "words", "old", "new", "subject"),
    [
        ("hardening.updates.file", APT, '  "^nvidia";\n', "", APT[5:]),
        ("hardening.updates.file", APT, 'Reboot "false"', 'Reboot "true"', APT[5:]),
        ("hardening.updates.effective", DUMP, f'{BLACKLIST}:: "^nvidia";\n', "", BLACKLIST),
        ("hardening.updates.effective", DUMP, 'Reboot "false"', 'Reboot "true"',
         "Unattended-Upgrade::Automatic-Reboot"),
        ("hardening.updates.effective", DUMP, 'Unattended-Upgrade "1"', 'Unattended-Upgrade "0"',
         "APT::Periodic::Unattended-Upgrade"),
        ("hardening.updates.timers", TIMERS, "ActiveState=active", "ActiveState=inactive",
         "apt-daily.timer"),
        ("hardening.updates.timers", TIMERS, "UnitFileState=enabled", "UnitFileState=masked",
         "apt-daily-upgrade.timer"),
    ],
)  # fmt: skip
def test_spoilt_text_fails(node, check_id, words, old, new, subject):
    node.replace(words, old, new)
    assert node.outcomes(check_id)[subject] is FAIL


def test_later_file_that_repeats_a_name_wins(node):
    """apt-config prints one line for each name; what it prints last is what holds."""
    text = node.results[DUMP][0]["text"]
    node.put(DUMP, text=f'{text}Unattended-Upgrade::Automatic-Reboot "true";\n')
    assert node.outcomes("hardening.updates.effective") == {
        "Unattended-Upgrade::Automatic-Reboot": FAIL
    }


def test_list_that_was_cleared(node):
    lines = node.results[DUMP][0]["text"].splitlines(keepends=True)
    node.put(DUMP, text="".join(line for line in lines if BLACKLIST not in line))
    assert node.outcomes("hardening.updates.effective") == {BLACKLIST: FAIL}


def test_updates_that_are_not_declared_still_exclude(node):
    node.values["hardening_security_updates"] = False
    assert node.outcomes("hardening.updates.file") == {APT[5:]: FAIL}
    assert set(node.outcomes("hardening.updates.effective")) == {
        "APT::Periodic::Update-Package-Lists",
        "APT::Periodic::Unattended-Upgrade",
    }
    (finding,) = node.findings("hardening.updates.timers")
    assert finding.not_applicable is NotApplicable.NOT_REQUESTED


def test_program_that_is_missing(node):
    node.put("file /usr/bin/unattended-upgrade", status="absent")
    assert node.outcomes("hardening.updates.timers") == {"program": FAIL}


@pytest.mark.parametrize("change", [{"mode": 0o644}, {"truncated": False}], ids=["mode", "empty"])
def test_program_that_cannot_be_run(node, change):
    node.put("file /usr/bin/unattended-upgrade", **change)
    assert node.outcomes("hardening.updates.timers") == {"program": FAIL}


def test_service_behind_a_timer_that_is_masked(node):
    service = "Id=apt-daily-upgrade.service\nLoadState="
    node.replace(TIMERS, f"{service}loaded", f"{service}masked")
    found = node.outcomes("hardening.updates.timers")
    assert found == {"apt-daily-upgrade.service": FAIL}


def test_updates_that_are_switched_off_as_a_whole(node):
    text = node.results[node.read(DUMP)][0]["text"]
    node.put(DUMP, text=text + 'APT::Periodic::Enable "0";\n')
    assert node.outcomes("hardening.updates.effective") == {"APT::Periodic::Enable": FAIL}
    node.values["hardening_security_updates"] = False
    assert "APT::Periodic::Enable" not in node.outcomes("hardening.updates.effective")


def test_updates_that_may_come_from_nowhere(node):
    lines = node.results[node.read(DUMP)][0]["text"].splitlines()
    node.put(DUMP, text="\n".join(line for line in lines if "Origins-Pattern::" not in line))
    assert node.outcomes("hardening.updates.effective") == {"allowed origins": FAIL}


def with_dnf(node, text):
    node.put(DUMP, status="absent", text="")
    node.put(DNF, status="ok", text=text, mode=0o644, uid=0, gid=0, stderr="")
    node.put("file /usr/bin/dnf-automatic", status="ok", stderr="", mode=0o755, truncated=True)
    node.replace(TIMERS, "Id=dnf-automatic.timer\n", "Id=dnf-automatic.timer\n")
    text = node.results[node.read(TIMERS)][0]["text"]
    blocks = [
        "ActiveState=active\nUnitFileState=enabled\nId=dnf-automatic.timer"
        if "dnf-automatic.timer" in block
        else block
        for block in text.strip().split("\n\n")
    ]
    node.put(TIMERS, text="\n\n".join(blocks) + "\n")


def test_node_with_dnf(node):
    """Written for EL 9, and never run there by us: the file is judged by its text alone."""
    text = (
        "[commands]\nupgrade_type = security\ndownload_updates = yes\napply_updates = yes\n"
        "reboot = never\n[emitters]\nemit_via = stdio\n[base]\nexcludepkgs = kernel* nvidia*\n"
    )
    node.values["hardening_updates_excluded"] = ["kernel", "nvidia"]
    with_dnf(node, text)
    for check_id in CHECKS[:3]:
        assert node.outcomes(check_id) == {}, check_id
    with_dnf(node, text.replace("never", "when-needed"))
    assert node.outcomes("hardening.updates.file") == {DNF[5:]: FAIL}


def test_node_without_either_does_not_pass(node):
    node.put(DUMP, status="absent", text="")
    assert node.outcomes("hardening.updates.file") == {DNF[5:]: FAIL}
    assert FAIL in node.outcomes("hardening.updates.timers").values()


def test_audit_that_is_not_declared(metal):
    metal.values["hardening_auditd"] = False
    assert metal.outcomes("hardening.audit.file") == {RULES: FAIL}
    (finding,) = metal.findings("hardening.audit.live")
    assert finding.not_applicable is NotApplicable.NOT_REQUESTED


def test_audit_of_a_container_is_not_judged(node):
    for check_id in ("hardening.audit.file", "hardening.audit.live"):
        (finding,) = node.findings(check_id)
        assert finding.not_applicable is NotApplicable.CONTAINER


def test_rule_that_was_changed(metal):
    metal.replace(RULES_D, "-w /etc/shadow -p wa", "-w /etc/shadow -p r")
    assert metal.outcomes("hardening.audit.file") == {RULES: FAIL}
    metal.results[RULES_D].clear()
    assert metal.outcomes("hardening.audit.file") == {RULES: FAIL}


def test_audit_on_metal(metal):
    metal.replace("run auditctl -l", "-w /etc/shadow -p wa -k hfprov-identity\n", "")
    metal.replace(AUDITD, "ActiveState=active", "ActiveState=failed")
    assert metal.outcomes("hardening.audit.live") == {
        "-w /etc/shadow -p wa -k hfprov-identity": FAIL,
        "auditd.service": FAIL,
    }
    metal.put("run auditctl -l", code=1, text="", stderr="Operation not permitted")
    assert UNKNOWN in metal.outcomes("hardening.audit.live").values()


@pytest.mark.parametrize(
    ("rule", "blanket"),
    [
        ("-a always,exit -S all", True),
        ("-a always,exit -F arch=b64 -S openat -F exit=-EACCES", True),
        ("-a exit,always -F arch=b64 -S execve", True),
        ("-a always,exit -F arch=b64 -S chmod -F auid=1000", False),
        ("-a always,exit -F dir=/etc -F perm=wa", False),
        ("-a never,exit -S all", False),
        ("-w /etc/passwd -p wa -k x", False),
        ("-D", False),
    ],
)
def test_rules_that_cost_time_everywhere(node, rule, blanket):
    assert is_blanket(rule) is blanket
    node.add(RULES_D, "/etc/audit/rules.d/99-site.rules", f"# x\n{rule}\n")
    subject = f"/etc/audit/rules.d/99-site.rules: {rule}"
    assert node.outcomes("hardening.audit.file") == ({subject: WARN} if blanket else {})


@pytest.mark.parametrize("text", ["E: cannot read\n", 'A "b"\n', "\0A"])
def test_dump_that_is_not_understood(text):
    with pytest.raises(NotUnderstoodError):
        parse_dump(text)


HOSTILE = [{"status": "timeout", "text": ""}, {"status": "denied", "text": ""}, {"truncated": True}]


@pytest.mark.parametrize("check_id", CHECKS)
@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda change: next(iter(change)))
def test_without_whole_evidence_nothing_passes(metal, check_id, hostile):
    for name in metal.reads_of(check_id):
        spoilt = type(metal)(metal.results)
        absent = {one["status"] for one in spoilt.results[name]} == {"absent"}
        # That a program is there is seen without reading it; the file is one check's only.
        if absent or "/usr/bin/" in name or (name == APT and not check_id.endswith(".file")):
            continue
        for result in spoilt.results[name]:
            result.update(hostile)
        assert UNKNOWN in spoilt.outcomes(check_id).values(), name
