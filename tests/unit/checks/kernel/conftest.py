"""A practice node with the small kernels of molecule/kernel, as if it were bare metal.

Recorded on one; only its kind of machine, the running kernel and its command line are made up.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from hfprov.baseline import Baseline, Value
from hfprov.judge import find_check, judge
from hfprov.reading import Observation
from hfprov.verdict import Finding, Outcome

HERE = Path(__file__).parent
ROOT = HERE.parents[3]
DEFAULTS = yaml.safe_load((ROOT / "roles/kernel/defaults/main.yml").read_text())


class Node:
    """A node as it was observed, and as it is declared; both may be changed."""

    def __init__(self) -> None:
        self.results = json.loads((HERE / "node.json").read_text(encoding="utf-8"))["results"]
        self.values: dict[str, Any] = {
            **copy.deepcopy(DEFAULTS),
            "kernel_version": "6.1.153-1",
            "kernel_parameters": ["iommu=pt", "pci=realloc=off"],
        }

    def key(self, words: str) -> str:
        (found,) = [name for name in self.results if name.startswith(words)]
        return found

    def one(self, words: str) -> dict[str, Any]:
        (result,) = self.results[self.key(words)]
        return result

    def put(self, words: str, text: str, **changes: Any) -> None:
        result = {"name": "", "status": "ok", "text": text, "code": 0, "mode": 0o644, "uid": 0}
        if words.startswith("file"):
            result |= {"name": words.split(" ")[1], "code": None}
        self.results[self.key(words)] = [result | {"gid": 0} | changes]

    def add(self, words: str, path: str, text: str = "", **changes: Any) -> None:
        result = {"name": path, "status": "ok", "text": text, "mode": 0o644, "uid": 0, "gid": 0}
        self.results[self.key(words)].append(result | changes)

    def replace(self, words: str, old: str, new: str) -> None:
        found = [one for one in self.results[self.key(words)] if old in one.get("text", "")]
        assert found, f"nothing in '{words}' says '{old}'"
        for result in found:
            result["text"] = result["text"].replace(old, new)

    def baseline(self) -> Baseline:
        return Baseline("node", ("kernel",), {n: Value(v, "") for n, v in self.values.items()})

    def findings(self, check_id: str) -> list[Finding]:
        """What one check finds, through the judge as in real life."""
        seen = Observation.from_json({"results": self.results})
        found = [one.finding for one in judge(seen, self.baseline()) if one.check == check_id]
        assert found
        return found

    def outcomes(self, check_id: str) -> set[Outcome]:
        return {one.outcome for one in self.findings(check_id)}

    def bad(self, check_id: str) -> dict[str, Outcome]:
        """Outcome by subject of what does not pass."""
        return {
            one.subject: one.outcome
            for one in self.findings(check_id)
            if one.outcome is not Outcome.PASS
        }

    def reason(self, check_id: str) -> str:
        return " ".join(one.reason for one in self.findings(check_id))

    def reads_of(self, check_id: str) -> list[str]:
        found = find_check(check_id)
        assert found is not None
        reads = [read.id for source in found.sources for read in source.reads(self.baseline())]
        return [name for name in dict.fromkeys(reads) if self.results[name]]


@pytest.fixture
def node() -> Node:
    return Node()
