"""What must be the same after a reboot, and what must not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hfprov import probe
from hfprov.baseline import Baseline
from hfprov.evidence.system import Kernel
from hfprov.reading import Observation
from hfprov.reboot.boot import boot_of, boot_reads, differences
from tests.unit.reboot.conftest import NEW, OLD

BASELINE = Baseline("n1", ())


def test_a_new_boot_with_all_devices_has_no_differences():
    assert list(differences(OLD, NEW)) == []
    assert list(differences(OLD, NEW, release="6.12.1")) == []


@pytest.mark.parametrize(
    ("after", "release", "said"),
    [
        (OLD, "", "not rebooted"),
        (NEW, "6.12.2", "kernel '6.12.1' and not '6.12.2'"),
        (
            replace(NEW, devices={**OLD.devices, "3D controllers": 7}),
            "",
            "8 3D controllers and has 7",
        ),
        (replace(NEW, devices={"CPUs": 64}), "", "had 4 Ethernet controllers and has 0"),
        (replace(NEW, devices={**OLD.devices, "CPUs": 62}), "", "had 64 CPUs and has 62"),
        (replace(NEW, memory_gib=975.0), "", "1007.5 GiB of memory and has 975.0"),
        (replace(NEW, drivers={"mlx5_core": "5.8"}), "", "'nvidia' was loaded"),
    ],
)
def test_what_is_missing_after_a_reboot_is_named(after, release, said):
    assert said in " ".join(differences(OLD, after, release=release))


def test_more_memory_a_newer_driver_and_more_devices_are_no_fault():
    grown = replace(
        NEW,
        memory_gib=1008.0,
        drivers={**OLD.drivers, "nvidia": "550.2", "ice": "1"},
        devices={**OLD.devices, "3D controllers": 9},
    )
    assert list(differences(OLD, grown)) == []


@pytest.mark.parametrize(
    ("state", "up"),
    [("running", True), ("degraded", True), ("starting", False), ("stopping", False)],
)
def test_a_boot_is_up_when_systemd_has_started_all(state, up):
    assert replace(NEW, state=state).up is up


def test_this_machine_is_read_as_a_node_is():
    plan = {
        "reads": [{"id": read.id, **read.request} for read in boot_reads(BASELINE)],
        "deadline": 20,
    }
    answer = json.loads(json.dumps(probe.observe(plan)))
    # Whether systemd runs here does not matter: its answer is replaced by a node's.
    for name, results in answer["results"].items():
        if "systemd" in name:
            results[0].update(status="ok", code=0, text="NFailedUnits=0\nSystemState=running\n")
    seen = boot_of(Observation.from_json(answer), BASELINE)
    assert seen.kernel.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert isinstance(seen.kernel, Kernel)
    assert seen.devices["CPUs"] >= 1
    assert seen.memory_gib > 0
