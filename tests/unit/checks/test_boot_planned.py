"""Reboots that are planned: ordered, or in crontabs and units."""

from __future__ import annotations

import pytest

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts
from hfprov.evidence.grep import heading
from hfprov.evidence.planned_reboots import PLANNED_REBOOTS, reboots
from hfprov.judge import find_check, findings_of
from hfprov.reading import Observation
from hfprov.verdict import Outcome

PASS, WARN, UNKNOWN = Outcome.PASS, Outcome.WARN, Outcome.UNKNOWN
BASELINE = Baseline("n1", (), {})
ORDERED, GREP = PLANNED_REBOOTS.reads(BASELINE)
ABSENT = {"name": "", "status": "absent"}


def judged(lines="", ordered=ABSENT, **more):
    told = {"name": "", "status": "ok", "code": 0, "text": heading(GREP) + lines} | more
    seen = Observation.from_json({"results": {ORDERED.id: [ordered], GREP.id: [told]}})
    found = findings_of(find_check("boot.planned"), Facts(seen, BASELINE), BASELINE)
    return {one.subject: one.outcome for one in found}


def test_nothing_is_planned():
    assert judged() == {"": PASS}


def test_ordered_reboot():
    scheduled = {"name": "", "status": "ok", "text": "USEC=1\nWARN_WALL=1\nMODE=reboot\n"}
    assert judged(ordered=scheduled) == {"/run/systemd/shutdown/scheduled": WARN}
    empty = {"name": "", "status": "ok", "text": ""}
    assert judged(ordered=empty) == {"/run/systemd/shutdown/scheduled": WARN}


def test_reboot_of_a_crontab():
    line = "/etc/cron.d/nightly\x003:0 3 * * * root /sbin/reboot\n"
    assert judged(line) == {"/etc/cron.d/nightly:3": WARN}


@pytest.mark.parametrize(
    "line",
    [
        "0 3 * * * root /sbin/reboot",
        "0 3 * * sun reboot",
        "@weekly root systemctl reboot",
        "0 3 * * * /usr/bin/systemctl --force reboot",
        "0 3 * * * root sleep 60 && shutdown -r now",
        "5 4 1 */2 * root test -e /run/x && /sbin/shutdown -h +1",
        "ExecStart=/sbin/reboot",
        "ExecStart=-/usr/bin/systemctl poweroff",
        "if ! ping -c 1 10.0.0.1; then reboot; fi",
        "  sudo -n /sbin/reboot",
        "shutdown -P now # at night",
    ],
)
def test_line_that_reboots(line):
    assert reboots(line)


@pytest.mark.parametrize(
    "line",
    [
        "@reboot root /usr/local/sbin/tune",
        "# 0 3 * * * root /sbin/reboot",
        "0 3 * * * root logger reboot planned",
        "0 3 * * * root echo reboot",
        "[ ! -e /run/reboot-required ] || mail root",
        "if [ -f /var/run/reboot-required ]; then cat /var/run/reboot-required; fi",
        "Conflicts=reboot.target shutdown.target",
        "Before=shutdown.target",
        "Description=Clean up at shutdown",
        "shutdown -c",
        "last reboot | head",
        "0 3 * * * root /opt/halt --check",
        "halt=no",
        "",
    ],
)
def test_line_that_reboots_nothing(line):
    assert reboots(line) == ""


@pytest.mark.parametrize("more", [{"status": "timeout"}, {"truncated": True}, {"code": 2}])
def test_what_nobody_looked_at_never_passes(more):
    assert judged(**more) == {"": UNKNOWN}
    assert judged(ordered=ABSENT | {"status": "denied"}) == {"": UNKNOWN}
