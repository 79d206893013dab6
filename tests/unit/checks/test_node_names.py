"""A node's own name, localhost, and whether /etc/hosts is asked at all."""

from __future__ import annotations

import json

import pytest

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts
from hfprov.evidence.local_addresses import LOCAL_ADDRESSES
from hfprov.evidence.name_resolution import NAMES, host_entries, parse_switch
from hfprov.judge import find_check, findings_of
from hfprov.reading import Observation
from hfprov.verdict import Outcome

PASS, WARN, FAIL, UNKNOWN = Outcome.PASS, Outcome.WARN, Outcome.FAIL, Outcome.UNKNOWN
NOT = Outcome.NOT_APPLICABLE
BASELINE = Baseline("n1", (), {})
LIVE, HOSTS, SWITCH = (read.id for read in NAMES.reads(BASELINE))
V4, V6 = (read.id for read in LOCAL_ADDRESSES.reads(BASELINE))
LOOPBACK = "127.0.0.1 localhost\n::1 localhost ip6-localhost\n"
GOOD = LOOPBACK + "10.1.0.11 node01.site node01\n10.1.0.12 node02\n"
ORDER = "/etc/nsswitch.conf hosts"


def text(said):
    return [{"name": "", "status": "ok", "text": said}]


def judged(hosts=GOOD, switch="hosts: files dns\n", live="node01\n", **answers):
    routes = [
        {"type": "local", "dst": address, "dev": "x", "table": "local"}
        for address in ("127.0.0.1", "10.1.0.11", "10.1.1.11")
    ]
    results = {LIVE: text(live), HOSTS: text(hosts), SWITCH: text(switch)}
    for read, told in ((V4, routes), (V6, [])):
        results[read] = [{"name": "", "status": "ok", "code": 0, "text": json.dumps(told)}]
    results |= {
        {"hosts_file": HOSTS, "switch_file": SWITCH, "routes": V4}[k]: answers[k] for k in answers
    }
    found = findings_of(
        find_check("node.names"),
        Facts(Observation.from_json({"results": results}), BASELINE),
        BASELINE,
    )
    return {one.subject: one.outcome for one in found}


def bad(*given, **more):
    return {key: one for key, one in judged(*given, **more).items() if one is not PASS}


def test_a_name_with_an_address_of_the_node():
    assert judged() == {"own name": PASS, "localhost": PASS, ORDER: PASS}
    assert bad(live="node01.site\n") == {}
    assert bad(LOOPBACK + "10.1.0.11 NODE01.\n10.1.1.11 node01\n") == {}


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ("10.1.0.12 node01", FAIL),
        ("10.1.0.12 other node01 # of node02", FAIL),
        ("fd00::9 node01", FAIL),
        ("127.0.1.1 node01.site node01", WARN),
        ("127.0.0.1 node01", WARN),
        ("::1 node01", WARN),
    ],
)
def test_a_name_that_leads_elsewhere_or_nowhere(line, outcome):
    assert set(bad(LOOPBACK + line).values()) == {outcome}
    assert set(bad(GOOD + line).values()) == {outcome}
    assert bad(LOOPBACK + f"10.1.0.12 node011\n# {line}\n") == {"own name": NOT}


def test_a_name_that_the_file_does_not_know_is_left_to_others():
    assert bad(LOOPBACK) == {"own name": NOT}
    assert bad(live="(none)\n") == {"own name": NOT}


@pytest.mark.parametrize(
    ("hosts", "switch", "is_right"),
    [
        ("10.1.0.11 node01\n", "hosts: files dns", False),
        ("10.1.0.11 node01\n", "hosts: files myhostname", True),
        ("10.1.0.11 node01 localhost\n", "hosts: files", False),
        (GOOD + "10.1.0.12 localhost\n", "hosts: files myhostname", False),
        ("127.0.0.1 LocalHost\n10.1.0.11 node01\n", "hosts: files", True),
    ],
)
def test_localhost(hosts, switch, is_right):
    assert bad(hosts, switch) == ({} if is_right else {"localhost": FAIL})


@pytest.mark.parametrize(
    ("switch", "is_right"),
    [
        ("hosts: files dns", True),
        ("# hosts: dns\nhosts:\tfiles mdns4_minimal [NOTFOUND=return] dns # x", True),
        ("hosts: mymachines resolve [!UNAVAIL=return] files myhostname dns", True),
        ("hosts: dns files", True),
        ("HOSTS: files", True),
        ("hosts: dns", False),
        ("hosts: dns [NOTFOUND=return] files", False),
        ("hosts: dns [!UNAVAIL=RETURN] files", False),
        ("hosts:", False),
        ("passwd: files", False),
        ("", False),
    ],
)
def test_whether_the_file_is_asked(switch, is_right):
    assert bad(switch=switch) == ({} if is_right else {ORDER: FAIL})


def test_a_file_with_nothing_in_it_need_not_be_asked():
    assert bad(LOOPBACK, "hosts: dns") == {"own name": NOT}
    assert bad(LOOPBACK + "10.1.0.12 node02\n", "hosts: dns") == {"own name": NOT, ORDER: FAIL}


ABSENT = [{"name": "", "status": "absent"}]


def test_files_that_are_not_there_are_empty():
    assert bad(hosts_file=ABSENT) == {"own name": NOT, "localhost": FAIL}
    assert bad(switch_file=ABSENT) == {ORDER: FAIL}


@pytest.mark.parametrize("which", ["hosts_file", "switch_file", "routes"])
@pytest.mark.parametrize(
    "told",
    [[], [{"name": "", "status": "denied"}], [{**text("x")[0], "truncated": True}]],
)
def test_what_was_not_seen_never_passes(which, told):
    assert judged(**{which: told}) == {"": UNKNOWN}


def test_hostile_files_end():
    strange = "\x1b[31m node01\n::::: node01\n" + "1.2.3.4 " + "x " * 9999 + "\n10.1.0.11 node01\n"
    assert bad(LOOPBACK + strange) == {}
    assert [name for name, _ in host_entries("fe80::1%eth0 A.\n300.1.1.1 b")] == ["a"]
    assert parse_switch("hosts: [[[ \x1b[0m files")[-1] == "files"
