"""What the kernel does that slows a whole node."""

from __future__ import annotations

import pytest

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts
from hfprov.evidence import system
from hfprov.evidence.kernel_state import KERNEL_STATE
from hfprov.judge import find_check, findings_of
from hfprov.reading import Observation
from hfprov.verdict import Outcome

PASS, WARN, UNKNOWN, NOT = Outcome.PASS, Outcome.WARN, Outcome.UNKNOWN, Outcome.NOT_APPLICABLE
BASELINE = Baseline("n1", (), {})
USUAL = (
    "tsc\n",
    "[default] performance powersave powersupersave\n",
    "always defer [madvise]\n",
    "0\n",
)
NAMES = ("clock source", "ASPM", "THP defrag", "KSM")


def judged(*texts, virtualization="", **more):
    """Judged with the usual text where None is given."""
    results = {
        system.VIRTUALIZATION.id: [
            {"name": "", "status": "ok", "code": 0, "text": f"Virtualization={virtualization}\n"}
        ]
    }
    texts = (*texts, *[None] * (4 - len(texts)))
    for read, text, usual in zip(KERNEL_STATE.reads(BASELINE), texts, USUAL, strict=True):
        results[read.id] = [
            {"name": "", "status": "ok", "text": usual if text is None else text} | more
        ]
    seen = Observation.from_json({"results": results})
    found = findings_of(find_check("node.kernel_state"), Facts(seen, BASELINE), BASELINE)
    return {one.subject: one.outcome for one in found}


def test_as_kernels_come():
    assert judged() == dict.fromkeys(NAMES, PASS)
    assert judged("arch_sys_counter\n", "default [performance] powersave\n")["ASPM"] is PASS
    assert judged(None, None, "always [defer+madvise] never")["THP defrag"] is PASS


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("clock source", ("hpet\n",)),
        ("clock source", ("acpi_pm\n",)),
        ("ASPM", (None, "default performance [powersave] powersupersave\n")),
        ("THP defrag", (None, None, "[always] defer madvise never\n")),
        ("KSM", (None, None, None, "1\n")),
    ],
)
def test_what_slows_the_node(name, texts):
    assert judged(*texts) == dict.fromkeys(NAMES, PASS) | {name: WARN}


def test_a_container_has_the_kernel_of_its_host():
    assert judged("hpet\n", virtualization="systemd-nspawn") == {"": NOT}


@pytest.mark.parametrize(
    "more", [{"status": "absent"}, {"status": "denied"}, {"text": ""}, {"text": "a b [c] [d]"}]
)
def test_what_nobody_told_never_passes(more):
    assert judged(**more) == {"": UNKNOWN}


def test_other_values_do_not_stand_for_the_clock():
    results = {
        read.id: [{"name": "", "status": "ok", "text": text}]
        for read, text in zip(KERNEL_STATE.reads(BASELINE), USUAL, strict=True)
    }
    results[KERNEL_STATE.reads(BASELINE)[0].id] = [{"name": "", "status": "absent"}]
    virtual = {"name": "", "status": "ok", "code": 0, "text": "Virtualization=\n"}
    results[system.VIRTUALIZATION.id] = [virtual]
    seen = Observation.from_json({"results": results})
    (found,) = findings_of(find_check("node.kernel_state"), Facts(seen, BASELINE), BASELINE)
    assert found.outcome is UNKNOWN
