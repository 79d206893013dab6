"""ARP on data interfaces: neighbours set by hand, and what the node answers."""

from __future__ import annotations

import json

import pytest

from hfprov.baseline import Baseline, Value
from hfprov.checks.registry import Facts
from hfprov.evidence.arp import ARP_SETTINGS, PERMANENT
from hfprov.evidence.grep import heading
from hfprov.evidence.managed_links import LINKS
from hfprov.judge import find_check, findings_of
from hfprov.reading import Observation
from hfprov.verdict import Outcome

PASS, WARN, FAIL = Outcome.PASS, Outcome.WARN, Outcome.FAIL
UNKNOWN, NOT = Outcome.UNKNOWN, Outcome.NOT_APPLICABLE
BASELINE = Baseline("n1", (), {"jumbo_mtu_interfaces": Value(["eth1"], "")})
(LINK,) = LINKS.reads(BASELINE)
(GREP,) = PERMANENT.reads(BASELINE)
FLAGS = ["BROADCAST", "MULTICAST", "UP", "LOWER_UP"]
ROW = "10.1.1.9         0x1         0x6         02:00:00:00:00:09     *        "


def link(name, **more):
    return {"ifname": name, "mtu": 9000, "flags": FLAGS, "link_type": "ether"} | more


def settings(**changes):
    """Values of ``arp_ignore`` and ``proxy_arp``, by name of the interface."""
    found = {}
    for read in ARP_SETTINGS.reads(BASELINE):
        name, setting = read.request["path"].split("/")[-2:]
        text = str(changes.get(f"{name}_{setting}", 0)) + "\n"
        found[read.id] = [{"name": read.request["path"], "status": "ok", "text": text}]
    return found


def judged(*rows, told=None, links=None, baseline=BASELINE, **changes):
    found = "".join(f"/proc/net/arp\x00{at}:{row}\n" for at, row in enumerate(rows, 2))
    results = {
        LINK.id: [
            {"name": "", "status": "ok", "code": 0, "text": json.dumps(links or [link("eth1")])}
        ],
        GREP.id: [
            {"name": "", "status": "ok", "code": 0 if rows else 1, "text": heading(GREP) + found}
        ],
        **settings(**changes),
    }
    seen = Observation.from_json({"results": results | (told or {})})
    return {
        one.subject: one.outcome
        for one in findings_of(find_check("nic.arp"), Facts(seen, baseline), baseline)
    }


def test_neighbours_that_are_learned():
    assert judged() == {"eth1": PASS}
    assert judged(ROW + "eth0") == {"eth1": PASS}
    assert judged(eth1_arp_ignore=1, all_arp_ignore=2) == {"eth1": PASS}


def test_neighbour_set_by_hand():
    assert judged(ROW + "eth1") == {"eth1 10.1.1.9": WARN}
    many = judged(*(ROW.replace(".9 ", f".{at} ") + "eth1" for at in range(20, 60)))
    assert len(many) == 8


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"eth1_arp_ignore": 8}, {"eth1 arp_ignore": FAIL}),
        ({"all_arp_ignore": 3}, {"eth1 arp_ignore": FAIL}),
        ({"eth1_proxy_arp": 1}, {"eth1 proxy_arp": WARN}),
        ({"all_proxy_arp": 1}, {"eth1 proxy_arp": WARN}),
    ],
)
def test_answers_of_the_node(changes, expected):
    assert judged(**changes) == expected


def test_arp_that_nobody_told_never_passes():
    assert judged(told={GREP.id: [{"name": "", "status": "timeout"}]}) == {"": UNKNOWN}
    assert judged("rubbish") == {"": UNKNOWN}
    assert judged(eth1_arp_ignore="x") == {"": UNKNOWN}
    absent = {read.id: [{"name": "", "status": "absent"}] for read in ARP_SETTINGS.reads(BASELINE)}
    assert judged(told=absent) == {"eth1 arp_ignore": UNKNOWN}
    assert judged(links=[link("eth9")]) == {"eth1": UNKNOWN}
    assert judged(baseline=Baseline("n1", (), {})) == {"": NOT}
