"""Services of the boot: masked, gone, stopped, in a container."""

from __future__ import annotations

import pytest

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts
from hfprov.evidence import system
from hfprov.evidence.boot_services import BOOT_SERVICES, DEVICES, SERVICES
from hfprov.judge import find_check, findings_of
from hfprov.reading import Observation
from hfprov.verdict import Outcome

PASS, FAIL, UNKNOWN = Outcome.PASS, Outcome.FAIL, Outcome.UNKNOWN
BASELINE = Baseline("n1", ())
(SHOW,) = BOOT_SERVICES.reads(BASELINE)
CHECK = find_check("boot.services")
MODULES = "systemd-modules-load.service"


def judged(states=None, machine="", more=""):
    blocks = []
    for name in SERVICES:
        load, active = (states or {}).get(name, ("loaded", "active"))
        blocks.append(f"Id={name}\nNames={name}\nLoadState={load}\nActiveState={active}\n")
    answers = {SHOW.id: "\n".join(blocks) + more}
    answers |= dict.fromkeys((read.id for read in system.MACHINE.reads(BASELINE)), "")
    answers[system.VIRTUALIZATION.id] = f"Virtualization={machine}\n"
    results = {
        read: [{"name": "", "status": "ok", "code": 0, "text": text}]
        for read, text in answers.items()
    }
    found = findings_of(
        CHECK, Facts(Observation.from_json({"results": results}), BASELINE), BASELINE
    )
    return {one.subject: one.outcome for one in found if one.outcome is not PASS}


def test_a_node_that_boots_as_it_should():
    assert judged() == {}


@pytest.mark.parametrize("name", list(SERVICES))
def test_one_that_is_masked(name):
    assert judged({name: ("masked", "inactive")}) == {name: FAIL}
    assert judged({name: ("masked", "active")}) == {name: FAIL}


def test_a_mask_that_systemd_has_not_read():
    link = "\nLink=/etc/systemd/system/a.wants/b.service\n"
    assert judged(more=f"{link}Mask=/etc/systemd/system/{MODULES}\n") == {MODULES: FAIL}


def test_udev_must_run_on_a_machine():
    stopped = {DEVICES: ("loaded", "inactive")}
    assert judged(stopped) == {DEVICES: FAIL}
    assert judged(stopped, machine="systemd-nspawn") == {}
    assert judged({DEVICES: ("loaded", "activating")}) == {}


def test_others_may_have_ended():
    assert judged({MODULES: ("loaded", "inactive")}) == {}
    assert judged({MODULES: ("not-found", "inactive")}) == {}


def test_evidence_of_before_there_was_this_check_is_unknown():
    (found,) = findings_of(CHECK, Facts(Observation({}), BASELINE), BASELINE)
    assert found.outcome is UNKNOWN
