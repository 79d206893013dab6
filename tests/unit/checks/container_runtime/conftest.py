"""Healthy practice nodes with Docker and with containerd, to be spoilt one thing at a time."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from hfprov.baseline import Baseline, Value
from hfprov.evidence.container_node import CDI_SPECS
from hfprov.evidence.unit_overrides import DROP_INS
from hfprov.judge import judge
from hfprov.reading import Observation
from hfprov.verdict import Outcome

HERE = Path(__file__).parent
DECLARED = {
    "container_runtime_packages": [],
    "container_runtime_vendor": "auto",
    "container_runtime_devices": [],
    "container_runtime_memlock_kib": "8192",
    "container_runtime_nofile": 20000,
    "container_runtime_nproc": "96365",
    "container_runtime_stack_kib": 8192,
    "container_runtime_shm_mib": 8192,
    "container_runtime_pids_limit": 0,
    "container_runtime_cgroup_driver": "systemd",
    "container_runtime_live_restore": True,
    "container_runtime_restart": "idle",
    "container_runtime_docker_settings": {},
}


CONTAINERD = """
Id=containerd.service
Names=containerd.service
LoadState=loaded
ActiveState=active
UnitFileState=enabled
ExecStart={ path=/usr/bin/containerd ; argv[]=/usr/bin/containerd ; }
"""


class Node:
    """A node as it was observed, and as it is declared; both may be changed."""

    def __init__(self, engine):
        recorded = json.loads((HERE / f"{engine}.json").read_text(encoding="utf-8"))
        self.results = copy.deepcopy(recorded["results"])
        for read in DROP_INS.reads(Baseline("node", ())):
            self.results.setdefault(read.id, [])
        if engine == "docker":  # recorded before these were asked for
            told = {"name": "", "status": "ok", "code": 0, "text": "runc version 1.1.5+ds1\n"}
            self.results.setdefault("run runc --version", [told])
            self.results["units of systemd"][0]["text"] += CONTAINERD
        self.values = DECLARED | {"container_runtime_engine": engine}

    def put(self, read, **changes):
        [one] = self.results[read]
        one.update(changes)

    def replace(self, read, old, new):
        found = [one for one in self.results[read] if old in one.get("text", "")]
        assert found, f"nothing in '{read}' says '{old}'"
        for one in found:
            one["text"] = one["text"].replace(old, new)

    def spec(self, path, text):
        read = next(one.id for one in CDI_SPECS if path.startswith(one.id[5:-1]))
        one = {"name": path, "status": "ok", "text": text, "mode": 0o644, "uid": 0, "gid": 0}
        self.results[read].append(one)

    def findings(self, check):
        roles = ("container_runtime",)
        baseline = Baseline("node", roles, {k: Value(v, "") for k, v in self.values.items()})
        seen = Observation.from_json({"results": self.results})
        found = [one.finding for one in judge(seen, baseline) if one.check == check]
        assert found
        return found

    def bad(self, check):
        """Outcome by subject of what neither passes nor does not apply."""
        good = (Outcome.PASS, Outcome.NOT_APPLICABLE)
        return {o.subject: o.outcome for o in self.findings(check) if o.outcome not in good}


@pytest.fixture
def docker():
    return Node("docker")


@pytest.fixture
def containerd():
    return Node("containerd")
