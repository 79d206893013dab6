"""What root cannot write."""

from __future__ import annotations

import pytest

from hfprov.baseline import Baseline, Value
from hfprov.checks.registry import Facts
from hfprov.evidence.unwritable import UNWRITABLE
from hfprov.judge import find_check, findings_of
from hfprov.reading import Observation
from hfprov.verdict import Outcome

PASS, FAIL, UNKNOWN = Outcome.PASS, Outcome.FAIL, Outcome.UNKNOWN
BASELINE = Baseline("n1", (), {})
(READ,) = UNWRITABLE.reads(BASELINE)
MARK = "hfprov-offloads\n"


def judged(text, uid=0, **more):
    told = {"name": "", "status": "ok", "code": 0, "text": text} | more
    seen = Observation.from_json({"results": {READ.id: [told]}, "uid": uid})
    found = findings_of(find_check("node.immutable"), Facts(seen, BASELINE), BASELINE)
    assert len({one.subject for one in found}) == len(found)
    return {one.subject: one.outcome for one in found}


def test_nothing_is_locked():
    assert judged(MARK) == {"": PASS}
    # That ethtool failed says nothing of files.
    assert judged(f"{MARK}Features for lo:\n", code=75) == {"": PASS}


def test_locked_files():
    locked = "/etc/sysctl.d/99-zz-hfprov.conf\0/etc/security/limits.d\0/etc/security/limits.d\0"
    assert judged(locked + MARK) == {
        "/etc/sysctl.d/99-zz-hfprov.conf": FAIL,
        "/etc/security/limits.d": FAIL,
    }
    # A path may hold line ends, which somebody may have thought of.
    assert judged(f"/etc/hfprov/{MARK}\0/etc/passwd\0{MARK}")["/etc/passwd"] is FAIL
    many = "".join(f"/etc/hfprov/{number}\0" for number in range(50))
    assert len(judged(many + MARK)) == 8


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("", {}),
        ("/etc/passwd\0", {}),
        (MARK, {"status": "timeout"}),
        (MARK, {"truncated": True}),
        (MARK, {"uid": 1000}),
    ],
)
def test_places_that_nobody_looked_at_never_pass(text, more):
    assert judged(text, **more) == {"": UNKNOWN}


def test_the_shell_is_asked_once_for_both():
    data = Baseline("n1", (), {"jumbo_mtu_interfaces": Value(["eth1"], "")})
    (with_offloads,) = UNWRITABLE.reads(data)
    assert with_offloads.request["argv"][4] == "offloads"
    assert READ.request["argv"][4] == ""
