"""Configuration that is a link into memory works until the next boot, and is seen before."""

from __future__ import annotations

import pytest

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts
from hfprov.evidence.volatile_links import VOLATILE
from hfprov.judge import find_check, findings_of
from hfprov.reading import Observation
from hfprov.verdict import Outcome

PASS, FAIL, UNKNOWN = Outcome.PASS, Outcome.FAIL, Outcome.UNKNOWN
BASELINE = Baseline("n1", ())
DROP_INS = "glob /etc/systemd/network/*.network.d/*.conf"


def judged(**results):
    reads = {read.id: [] for read in VOLATILE.reads(BASELINE)}
    seen = Observation.from_json({"results": {**reads, **results}})
    found = findings_of(find_check("boot.volatile"), Facts(seen, BASELINE), BASELINE)
    return {one.subject: one.outcome for one in found}


@pytest.mark.parametrize(
    ("link", "outcome"),
    [
        ("/run/site/90.conf", FAIL),
        ("/tmp/90.conf", FAIL),
        ("/dev/shm/90.conf", FAIL),
        ("/run/\x1b[31m<b>" + "x" * 5000, FAIL),
        ("", PASS),
        ("/dev/null", PASS),
        ("/srv/site/90.conf", PASS),
        ("/var/tmp/90.conf", PASS),
        ("/running/90.conf", PASS),
        ("/etc/run/90.conf", PASS),
    ],
)  # fmt: skip
def test_where_a_link_leads(link, outcome):
    path = "/etc/systemd/network/20-eth1.network.d/90-hfprov-mtu.conf"
    found = judged(**{DROP_INS: [{"name": path, "status": "ok", "link": link}]})
    assert found == {path if outcome is FAIL else "": outcome}


@pytest.mark.parametrize("status", ["absent", "denied"])
def test_a_link_that_leads_nowhere_any_more_is_told(status):
    one = {"name": "/etc/ssh/sshd_config", "status": status, "link": "/run/ssh/config"}
    assert judged(**{"file /etc/ssh/sshd_config": [one]}) == {"/etc/ssh/sshd_config": FAIL}


def test_a_folder_that_is_a_link():
    one = {"name": "/etc/sysctl.d", "status": "ok", "type": "dir", "link": "/run/sysctl.d"}
    assert judged(**{"file /etc/sysctl.d": [one]}) == {"/etc/sysctl.d": FAIL}


def test_what_was_not_seen_is_unknown():
    skipped = {"name": "", "status": "skipped", "stderr": "The host's deadline had passed."}
    assert judged(**{DROP_INS: [skipped]}) == {"": UNKNOWN}
    results = {read.id: [] for read in VOLATILE.reads(BASELINE) if read.id != DROP_INS}
    facts = Facts(Observation.from_json({"results": results}), BASELINE)
    (finding,) = findings_of(find_check("boot.volatile"), facts, BASELINE)
    assert finding.outcome is UNKNOWN
