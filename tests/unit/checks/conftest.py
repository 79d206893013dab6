"""Recorded observations of healthy practice nodes, to be spoilt one thing at a time."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from hfprov.baseline import Baseline, Value
from hfprov.evidence.grep import Grep, grep, heading
from hfprov.evidence.network_profiles import NETPLAN_FILES, NETPLAN_OURS, PROFILES
from hfprov.evidence.networkd import SHUT_FOLDERS
from hfprov.evidence.unit_overrides import DROP_INS
from hfprov.judge import find_check, judge, reads_for
from hfprov.reading import Observation
from hfprov.verdict import Finding, Outcome

HERE = Path(__file__).parent
BASELINE = {
    "limits_memlock_kib": "8192",
    "limits_nofile": 16384,
    "limits_nproc": "65536",
    "limits_stack_kib": 8192,
    "limits_services": ["ssh", "sshd", "containerd", "docker", "slurmd", "kubelet"],
    "limits_restart_services": ["ssh", "sshd"],
    "limits_remove_ipc": False,
    "limits_rivals": "disable",
    "jumbo_mtu_interfaces": ["eth1"],
    "jumbo_mtu_bytes": 9000,
    "jumbo_mtu_confirm_seconds": 120,
    "time_sync_servers": ["10.144.10.2"],
    "time_sync_control_clock": False,
    "time_sync_step_threshold_seconds": 1.0,
    "time_sync_step_updates": 3,
    "time_sync_max_offset_seconds": 0.01,
    "time_sync_rivals": "disable",
}
WITHOUT_PROFILES = [
    read.id for read in NETPLAN_FILES.reads(Baseline("node", ())) if read.id.startswith("run sed")
]
NOT_THERE = [
    read.id for source in (NETPLAN_OURS, PROFILES) for read in source.reads(Baseline("node", ()))
]
"""The recorded nodes have neither netplan nor NetworkManager; a test adds what it is about."""
NOTHING_MATCHES = [
    read.id for source in (DROP_INS, SHUT_FOLDERS) for read in source.reads(Baseline("node", ()))
]
"""The recorded nodes have no drop-in that a test has not added."""
NOT_WHOLE: dict[str, dict[str, Any]] = {
    "timeout": {"status": "timeout", "text": ""},
    "denied": {"status": "denied", "text": ""},
    "truncated": {"truncated": True},
}
"""What becomes of a read that is not read, or not whole."""
LINES = grep("").id
UNITS_NOT_THERE = ("NetworkManager.service", "hfprov-mtu-guard.timer")
NOT_FOUND = """Id={unit}
Names={unit}
LoadState=not-found
ActiveState=inactive
UnitFileState=

"""


def observation(results: dict[str, Any], baseline: Baseline) -> Observation:
    """What was recorded, with the answer of grep as of a node that was asked for all lines."""
    (asked,) = (read for read in reads_for(baseline) if isinstance(read, Grep))
    told = [one | {"text": heading(asked) + one.get("text", "")} for one in results[asked.id]]
    return Observation.from_json({"results": results | {asked.id: told}})


class Node:
    """A node as it was observed, and as it is declared; both may be changed."""

    def __init__(self, recorded: dict[str, Any]) -> None:
        self.results = copy.deepcopy(recorded["results"])
        for name in WITHOUT_PROFILES:
            self.results.setdefault(name, [])
        for name in NOT_THERE:
            self.results.setdefault(name, [{"name": name, "status": "absent"}])
        self.results.setdefault(LINES, [{"name": "sh", "status": "ok", "code": 1, "text": ""}])
        for name in NOTHING_MATCHES:
            self.results.setdefault(name, [])
        shown = self.results["units of systemd"][0]
        for unit in UNITS_NOT_THERE:
            shown["text"] = NOT_FOUND.format(unit=unit) + shown["text"]
        self.values = dict(BASELINE)

    def read(self, words: str) -> str:
        """The one read whose id is, or else begins with, or else contains these words."""
        if words in self.results:
            return words
        found = [name for name in self.results if name.startswith(words)]
        found = found or [name for name in self.results if words in name]
        assert len(found) == 1, (words, found)
        return found[0]

    def put(self, words: str, **changes: Any) -> None:
        """Change the only result of a read."""
        (result,) = self.results[self.read(words)]
        result.update(changes)

    def replace(self, words: str, old: str, new: str) -> None:
        """Change the text of whichever results of a read have it."""
        found = [one for one in self.results[self.read(words)] if old in one.get("text", "")]
        assert found, f"nothing in '{words}' says '{old}'"
        for result in found:
            result["text"] = result["text"].replace(old, new)

    def add(self, words: str, path: str, text: str, **changes: Any) -> None:
        """Add a file to what a glob found."""
        result = {"name": path, "status": "ok", "text": text, "mode": 0o644, "uid": 0, "gid": 0}
        self.results[self.read(words)].append(result | changes)
        self.results[self.read(words)].sort(key=lambda one: one["name"])

    def say(self, path: str, text: str) -> None:
        """Add what grep finds in a file; it is told of every line."""
        (found,) = self.results[LINES]
        rows = enumerate(text.splitlines(), start=1)
        found["text"] += "".join(f"{path}\0{number}:{line}\n" for number, line in rows)
        found["code"] = 0

    def named(self, words: str, path: str) -> dict[str, Any]:
        """The result of one file of a glob."""
        return next(one for one in self.results[self.read(words)] if one["name"] == path)

    def remove(self, words: str, path: str) -> None:
        """Take a file away from what a glob found."""
        self.results[self.read(words)].remove(self.named(words, path))

    def findings(self, check_id: str) -> list[Finding]:
        """What one check finds, through the judge as in real life."""
        baseline = self.baseline()
        seen = observation(self.results, baseline)
        found = [one.finding for one in judge(seen, baseline) if one.check == check_id]
        assert found
        return found

    def baseline(self) -> Baseline:
        roles = ("time_sync", "limits", "jumbo_mtu")
        return Baseline("node", roles, {name: Value(v, "") for name, v in self.values.items()})

    def bad(self, check_id: str) -> dict[str, Outcome]:
        """Outcome by subject of what does not pass."""
        return {
            one.subject: one.outcome
            for one in self.findings(check_id)
            if one.outcome is not Outcome.PASS
        }

    def reads_of(self, check_id: str) -> list[str]:
        """Ids of what a check reads and this node has."""
        found = find_check(check_id)
        assert found is not None
        reads = [read.id for source in found.sources for read in source.reads(self.baseline())]
        return [name for name in dict.fromkeys(reads) if self.results[name]]

    def judged_without_whole(self, check_id: str, spoilt: str, but: str = "\0") -> list[str]:
        """Reads of a check that spoilt, each by itself, leave it without an *unknown*.

        ``spoilt`` is one of ``NOT_WHOLE``. Left alone is what is absent anyway, and reads whose ids
        begin with ``but``.
        """
        tried, judged = 0, []
        for name in self.reads_of(check_id):
            if name.startswith(but) or self.results[name][0]["status"] == "absent":
                continue
            tried += 1
            node = copy.deepcopy(self)
            for result in node.results[name]:
                result.update(NOT_WHOLE[spoilt])
            if Outcome.UNKNOWN not in node.bad(check_id).values():
                judged.append(name)
        assert tried
        return judged


def load(name: str) -> Node:
    return Node(json.loads((HERE / name).read_text(encoding="utf-8")))


@pytest.fixture
def networkd() -> Node:
    """A healthy node whose data interface is systemd-networkd's."""
    return load("node_networkd.json")


@pytest.fixture
def ifupdown() -> Node:
    """A healthy node whose data interface is ifupdown's."""
    return load("node_ifupdown.json")
