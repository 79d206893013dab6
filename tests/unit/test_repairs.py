"""Which roles run on which host: what repairs a failing check, and disturbs nothing at work."""

import pytest

from hfprov import rollout
from hfprov.checks.registry import Check
from hfprov.rollout import LEFTOVER_WORK, reboot_needed, repair_for
from hfprov.verdict import Finding, Impact, Outcome, Verdict

CHECKS = {
    "a.safe": ("limits", Impact.NONE),
    "a.restart": ("limits", Impact.RESTART),
    "a.drain": ("limits", Impact.DRAIN),
    "k.reboot": ("kernel", Impact.REBOOT),
    "k.default": ("kernel", Impact.NONE),
    "m.manual": ("limits", Impact.MANUAL),
    "n.none": (None, Impact.MANUAL),
    "t.safe": ("time_sync", Impact.NONE),
}
ROLES = ("time_sync", "limits", "kernel")


@pytest.fixture(autouse=True)
def checks(monkeypatch):
    known = {
        name: Check(name, lambda _f, _b: (), (), role, impact, ())
        for name, (role, impact) in CHECKS.items()
    }
    monkeypatch.setattr(rollout, "find_check", known.get)


def failing(*names, outcome=Outcome.FAIL):
    return [Verdict(name, Finding(outcome)) for name in names]


def test_a_good_host_needs_nothing():
    some = failing("a.safe", outcome=Outcome.PASS) + failing("t.safe", outcome=Outcome.WARN)
    assert repair_for(some, ROLES) == rollout.Repair((), {})


def test_roles_come_in_the_order_of_the_playbook():
    assert repair_for(failing("k.reboot", "a.safe", "t.safe"), ROLES).roles == ROLES


def test_what_is_not_known_to_be_right_is_made_right():
    assert repair_for(failing("a.safe", outcome=Outcome.UNKNOWN), ROLES).roles == ("limits",)


@pytest.mark.parametrize(
    ("allowed", "roles"),
    [("safe", ("time_sync",)), ("restart", ("time_sync", "limits")), ("reboot", ROLES)],
)
def test_a_role_runs_only_when_all_its_repairs_are_allowed(allowed, roles):
    repair = repair_for(
        failing("a.safe", "a.restart", "k.reboot", "t.safe"), ROLES, allowed=allowed
    )
    assert repair.roles == roles
    assert set(repair.withheld) == set(ROLES) - set(roles)


@pytest.mark.parametrize(
    ("workloads", "said"),
    [(("1: containerd-shim",), "1 container or job is at work;"), (None, "not known")],
)
def test_what_would_disturb_work_is_withheld_with_the_reason(workloads, said):
    repair = repair_for(failing("a.drain", "t.safe"), ROLES, workloads=workloads)
    assert repair.roles == ("time_sync",)
    assert said in repair.withheld["limits"]


def test_on_an_idle_node_a_drain_costs_nothing():
    assert repair_for(failing("a.drain"), ROLES, allowed="restart").roles == ("limits",)


def test_what_only_a_person_repairs_is_said_and_blocks_no_role():
    repair = repair_for(failing("m.manual", "n.none", "t.safe"), ROLES)
    assert repair.roles == ("time_sync",)
    assert set(repair.withheld) == {"m.manual", "n.none"}


def test_what_a_role_that_runs_anyway_may_settle_is_not_said_to_be_left():
    repair = repair_for(failing("m.manual", "a.safe"), ROLES)
    assert repair == rollout.Repair(("limits",), {})
    withheld = repair_for(failing("m.manual", "a.restart"), ROLES, allowed="safe")
    assert set(withheld.withheld) == {"limits", "m.manual"}


def test_a_role_that_the_host_does_not_have_is_not_run():
    assert repair_for(failing("k.reboot"), ("limits",)).roles == ()


def test_no_role_runs_beside_modules_that_another_run_left_at_work(monkeypatch):
    leftover = Check(LEFTOVER_WORK, lambda _f, _b: (), (), None, Impact.MANUAL, ())
    known = rollout.find_check
    monkeypatch.setattr(
        rollout, "find_check", lambda name: leftover if name == LEFTOVER_WORK else known(name)
    )
    repair = repair_for(failing("a.safe", LEFTOVER_WORK), ROLES)
    assert repair.roles == ()
    assert "still at work" in repair.withheld["limits"]
    free = repair_for(failing("a.safe") + failing(LEFTOVER_WORK, outcome=Outcome.PASS), ROLES)
    assert free.roles == ("limits",)


def test_a_reboot_is_needed_where_nothing_else_is_left_to_do():
    assert "k.reboot" in reboot_needed(failing("a.safe", "k.reboot"))
    assert reboot_needed(failing("a.safe")) == ""
    assert reboot_needed(failing("k.reboot", outcome=Outcome.UNKNOWN)) == ""


def test_a_reboot_that_would_not_bring_what_is_wanted_is_not_needed():
    assert reboot_needed(failing("k.reboot", "k.default")) == ""
