"""Programs that roles need, and the loopback."""

from __future__ import annotations

import json

import pytest

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts
from hfprov.evidence.local_addresses import LOCAL_ADDRESSES
from hfprov.evidence.managed_links import LINKS
from hfprov.evidence.programs import PROGRAMS
from hfprov.judge import find_check, findings_of
from hfprov.reading import Observation
from hfprov.verdict import Outcome

PASS, WARN, FAIL = Outcome.PASS, Outcome.WARN, Outcome.FAIL
UNKNOWN, NOT = Outcome.UNKNOWN, Outcome.NOT_APPLICABLE


def judged(check_id, results, roles=()):
    baseline = Baseline("n1", roles, {})
    seen = Observation.from_json({"results": results})
    found = findings_of(find_check(check_id), Facts(seen, baseline), baseline)
    return {one.subject: one.outcome for one in found}


def programs(*roles, installed=True, **changes):
    """Judged with the good programs of Debian, of which some are changed; by name."""
    results = {}
    for read in PROGRAMS.reads(Baseline("n1", roles, {})):
        path = read.request.get("path")
        if path is None:
            results[read.id] = [{"name": "/trace", "status": "ok"}] if installed else []
            continue
        folder, _, name = path.rpartition("/")
        found = {"name": path, "status": "absent"}
        if folder == "/usr/sbin":
            found = {"name": path, "status": "ok", "truncated": True, "mode": 0o755, "uid": 0}
            found |= {"link": "/usr/bin/kmod"} if name == "modprobe" else {}
            found |= changes.get(name, {})
        results[read.id] = [found]
    return judged("node.programs", results, roles)


def test_programs_as_installed():
    assert programs("time_sync", "performance") == {"chronyd": PASS, "sysctl": PASS}
    assert programs("rdma") == {"modprobe": PASS}
    assert programs("limits") == {"": NOT}


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        ({"status": "absent"}, FAIL),
        ({"mode": 0o644}, FAIL),
        ({"mode": 0o757}, FAIL),
        ({"uid": 1000}, FAIL),
        ({"truncated": False}, FAIL),
        ({"type": "dir"}, FAIL),
        ({"status": "denied"}, UNKNOWN),
    ],
)
def test_program_that_cannot_be_relied_on(change, outcome):
    subject = "" if outcome is UNKNOWN else "chronyd"
    assert programs("time_sync", chronyd=change) == {subject: outcome}


@pytest.mark.parametrize("link", ["", "/opt/wrapper"])
def test_something_in_place_of_modprobe(link):
    assert programs("rdma", modprobe={"link": link}) == {"modprobe": WARN}


def test_program_that_was_never_installed_is_the_roles_to_install():
    gone = {"status": "absent"}
    found = programs("time_sync", "hardening", installed=False, chronyd=gone, sshd=gone)
    assert found == {"chronyd": NOT, "sshd": FAIL, "sysctl": PASS}


def test_programs_that_nobody_looked_at_never_pass():
    assert judged("node.programs", {}, ("time_sync",)) == {"": UNKNOWN}


def loopback(address="127.0.0.1", **more):
    link = {"ifname": "lo", "mtu": 65536, "flags": ["LOOPBACK", "UP", "LOWER_UP"]} | more
    mine = {"type": "local", "dst": address, "dev": "lo", "table": "local"}
    baseline = Baseline("n1", (), {})
    (read,), (v4, v6) = LINKS.reads(baseline), LOCAL_ADDRESSES.reads(baseline)
    told = {read: [link], v4: [mine], v6: []}
    return judged(
        "node.loopback",
        {
            one.id: [{"name": "", "status": "ok", "code": 0, "text": json.dumps(text)}]
            for one, text in told.items()
        },
    )


def test_loopback():
    assert loopback() == {"lo": PASS}
    assert loopback(mtu=16436) == {"lo": PASS}
    assert loopback(flags=["LOOPBACK"]) == {"lo": FAIL}
    assert loopback("127.0.0.2") == {"lo": FAIL}
    assert loopback(mtu=1500) == {"lo": FAIL}
    assert loopback(ifname="dummy0") == {"lo": FAIL}


def test_loopback_that_nobody_looked_at_never_passes():
    assert loopback(flags=[]) == {"": UNKNOWN}
    assert judged("node.loopback", {}) == {"": UNKNOWN}
