"""Whom a node asks for names."""

from __future__ import annotations

import pytest

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts
from hfprov.evidence.resolver import RESOLVED, RESOLVER
from hfprov.judge import find_check, findings_of
from hfprov.reading import Observation
from hfprov.verdict import Outcome

PASS, WARN, FAIL, UNKNOWN = Outcome.PASS, Outcome.WARN, Outcome.FAIL, Outcome.UNKNOWN
BASELINE = Baseline("n1", (), {})
FILE, UNIT = RESOLVER.reads(BASELINE)
PATH = "/etc/resolv.conf"


def judged(text="", state="inactive", **more):
    unit = f"Id={RESOLVED}\nNames={RESOLVED}\nLoadState=loaded\nActiveState={state}\n"
    results = {
        FILE.id: [{"name": PATH, "status": "ok", "text": text} | more],
        UNIT.id: [{"name": "", "status": "ok", "code": 0, "text": unit}],
    }
    seen = Observation.from_json({"results": results})
    found = findings_of(find_check("node.resolver"), Facts(seen, BASELINE), BASELINE)
    return {one.subject: one.outcome for one in found}


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("", "inactive"),
        ("search example.org\nnameserver 10.0.0.1\n", "inactive"),
        ("nameserver 127.0.0.1\n", "inactive"),
        ("nameserver 127.0.0.53\noptions edns0\n", "active"),
        ("nameserver 127.0.0.53\nnameserver 10.0.0.1\n", "inactive"),
        ("# nameserver 127.0.0.53\n", "inactive"),
    ],
)
def test_somebody_is_asked(text, state):
    assert judged(text, state) == {PATH: PASS}


def test_nobody_listens():
    assert judged("nameserver 127.0.0.53\n") == {PATH: FAIL}
    assert judged("nameserver\t127.0.0.54\n", "failed") == {PATH: FAIL}


def test_file_that_is_not_there():
    assert judged(status="absent") == {PATH: WARN}
    assert judged(status="absent", link="/run/systemd/resolve/stub-resolv.conf") == {PATH: FAIL}


@pytest.mark.parametrize("more", [{"status": "denied"}, {"truncated": True}, {"status": "error"}])
def test_what_nobody_read_never_passes(more):
    assert judged("nameserver 10.0.0.1\n", **more) == {"": UNKNOWN}
