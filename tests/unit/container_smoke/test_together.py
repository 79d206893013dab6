"""Who is blamed when nodes do not find each other; the containers' answers are made up."""

from __future__ import annotations

import json

import pytest

from hfprov.baseline import Baseline, Value
from hfprov.container_smoke import together
from hfprov.container_smoke.answers import Launched
from hfprov.container_smoke.declared import Wanted
from hfprov.container_smoke.known import sum_digest
from hfprov.container_smoke.launch import Heard
from hfprov.observe import Answer
from hfprov.pairs.ends import ADDRESSES
from hfprov.reading import Observation, Result
from hfprov.sweep import Fleet

TOKEN = "ab" * 16
WANTED = Wanted("docker", "i", "cpu", None, "python3")
TIMES = together.Times(1, 2)


def answer(host, address, interface="eth1"):
    links = [
        {
            "ifname": interface, "mtu": 9000, "flags": ["UP"], "operstate": "UP",
            "addr_info": [{"family": "inet", "local": address, "prefixlen": 24}],
        }
    ]  # fmt: skip
    result = Result(ADDRESSES.id, "ok", json.dumps(links), code=0)
    return Answer(host, Observation({ADDRESSES.id: (result,)}))


@pytest.fixture
def meet(monkeypatch):
    """Have nodes meet of which some cannot be reached; outcomes, reasons, and who was the root."""

    def run(names, *, unreachable=(), broken=(), able=None, addresses=None):
        roots = []

        def launch(_connection, _wanted, question, _seconds):
            me, root, all_of = question["name"], question["root"], question["names"]
            roots.append(root)
            if me in broken:
                return Heard(TOKEN, Launched(status="late", cpus=1))
            reach = [one for one in question["awaited"] if one not in (*unreachable, *broken)]
            members = reach if me in reach and root in reach else [me] if me == root else []
            told = {
                "mode": "nodes", "variant": "cpu", "error": "" if members else "timed out",
                "members": members, "library": "sockets",
                "digest": sum_digest(all_of, members, question["salt"]) if members else "",
            }  # fmt: skip
            text = f"hfprov-smoke {TOKEN} {json.dumps(told)}\n"
            return Heard(TOKEN, Launched(status="ran", cpus=1, code=0, stdout=text))

        monkeypatch.setattr(together, "launch", launch)
        values = {
            "jumbo_mtu_interfaces": Value(["eth1"], ""), "jumbo_mtu_bytes": Value(9000, ""),
        }  # fmt: skip
        fleet = Fleet(
            {name: Baseline(name, ("jumbo_mtu",), values) for name in names},
            dict.fromkeys(names),
        )
        where = {name: f"10.1.0.{place}" for place, name in enumerate(names, 1)} | (addresses or {})
        answers = {name: answer(name, where[name]) for name in names}
        chosen = dict.fromkeys(names if able is None else able, WANTED)
        seats = together.gather(fleet, tuple(names), chosen, answers, TIMES)
        outcomes = {name: seats[name].finding.outcome.value for name in names}
        return outcomes, {name: seats[name].finding.reason for name in names}, set(roots)

    return run


def test_all_that_find_each_other_pass(meet):
    outcomes, _, roots = meet(["a", "b", "c"])
    assert (set(outcomes.values()), roots) == ({"pass"}, {"a"})


def test_one_that_is_not_found_fails_and_the_others_only_warn(meet):
    outcomes, reasons, roots = meet(["a", "b", "c"], unreachable=["c"])
    assert (outcomes, roots) == ({"a": "warn", "b": "warn", "c": "fail"}, {"a"})
    assert "Not found were: c" in reasons["a"]


@pytest.mark.parametrize("how", ["unreachable", "broken"])
def test_a_root_that_nobody_finds_does_not_make_all_the_others_look_bad(meet, how):
    outcomes, _, roots = meet(["a", "b", "c"], **{how: ["a"]})
    assert roots == {"a", "b"}
    bad = "fail" if how == "unreachable" else "unknown"
    assert outcomes == {"a": bad, "b": "warn", "c": "warn"}


def test_of_two_that_do_not_find_each_other_neither_passes(meet):
    outcomes, _, roots = meet(["a", "b"], unreachable=["b"])
    assert (outcomes, roots) == ({"a": "fail", "b": "fail"}, {"a"})


def test_who_could_start_no_container_is_unknown_and_missing_for_the_others(meet):
    outcomes, reasons, _ = meet(["a", "b"], able=["a"])
    assert outcomes == {"a": "warn", "b": "unknown"}
    assert "Not found were: b" in reasons["a"]


def test_one_node_alone_meets_itself(meet):
    assert meet(["a"])[0] == {"a": "pass"}


def test_who_has_no_address_or_another_network_fails(meet):
    outcomes, reasons, _ = meet(["a", "b", "c"], addresses={"c": "169.254.1.1"})
    assert outcomes == {"a": "warn", "b": "warn", "c": "fail"}
    assert "no address" in reasons["c"]
    outcomes, reasons, _ = meet(["a", "b", "c", "d"], addresses={"d": "10.9.0.1"})
    assert outcomes["d"] == "fail"
    assert "no address in the network" in reasons["d"]


def test_nobody_who_can_try_proves_nothing(meet):
    assert meet(["a", "b"], able=[])[0] == {"a": "unknown", "b": "unknown"}


def test_without_a_declared_interface_it_is_unknown():
    fleet = Fleet({"a": Baseline("a", (), {})}, {})
    seats = together.gather(fleet, ("a",), {"a": WANTED}, {"a": answer("a", "10.1.0.1")}, TIMES)
    assert seats["a"].finding.outcome == "unknown"
    assert "not declared" in seats["a"].finding.reason
