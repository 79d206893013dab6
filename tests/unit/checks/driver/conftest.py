"""A recorded practice node with the role 'accelerator' and stand-ins of NVIDIA's driver."""

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
KERNEL = "6.1.0-98-amd64"
VERSION = "535.161.08"


class Recorded:
    """A node as it was observed, and as it is declared; both may be changed."""

    def __init__(self, results: dict[str, Any]) -> None:
        self.results = copy.deepcopy(results)
        self.values = yaml.safe_load((ROOT / "roles/accelerator/defaults/main.yml").read_text())
        self.values |= {"node_sku": "l40s-8", "accelerator_driver_version": VERSION}

    def read(self, words: str) -> str:
        """The one read whose id is, or else begins with, these words."""
        found = [words] if words in self.results else []
        found = found or [name for name in self.results if name.startswith(words)]
        assert len(found) == 1, (words, found)
        return found[0]

    def put(self, words: str, **changes: Any) -> None:
        (result,) = self.results[self.read(words)]
        result.update(changes)

    def replace(self, words: str, old: str, new: str) -> None:
        found = [one for one in self.results[self.read(words)] if old in one.get("text", "")]
        assert found, f"nothing in '{words}' says '{old}'"
        for result in found:
            result["text"] = result["text"].replace(old, new)

    def baseline(self) -> Baseline:
        values = {name: Value(v, "") for name, v in self.values.items()}
        return Baseline("node", ("accelerator",), values)

    def findings(self, check_id: str) -> list[Finding]:
        seen = Observation.from_json({"results": self.results})
        found = [one.finding for one in judge(seen, self.baseline()) if one.check == check_id]
        assert found
        return found

    def outcomes(self, check_id: str) -> dict[str, Outcome]:
        """Outcome by subject of what is neither good nor out of place."""
        good = {Outcome.PASS, Outcome.NOT_APPLICABLE}
        return {
            one.subject: one.outcome for one in self.findings(check_id) if one.outcome not in good
        }

    def only(self, check_id: str) -> Finding:
        (finding,) = self.findings(check_id)
        return finding

    def reads_of(self, check_id: str) -> list[str]:
        found = find_check(check_id)
        assert found is not None
        reads = [read.id for source in found.sources for read in source.reads(self.baseline())]
        return [name for name in dict.fromkeys(reads) if self.results.get(name)]


def _load() -> Recorded:
    return Recorded(json.loads((HERE / "node.json").read_text(encoding="utf-8"))["results"])


@pytest.fixture
def node() -> Recorded:
    """A practice node at its baseline: packages, files and a build, and no kernel of its own."""
    return _load()


@pytest.fixture
def metal() -> Recorded:
    """The same as if it were no container: the driver is loaded, and a loader boots a kernel."""
    found = _load()
    found.put("systemd itself", text=found.results["systemd itself"][0]["text"].replace(
        "Virtualization=systemd-nspawn", "Virtualization="
    ))  # fmt: skip
    loaded = {"status": "ok", "stderr": ""}
    found.put("file /sys/module/nvidia/initstate", text="live\n", **loaded)
    found.put("file /sys/module/nvidia/version", text=f"{VERSION}\n", **loaded)
    found.put("file /sys/module/nvidia_peermem/initstate", text="live\n", **loaded)
    found.put("file /proc/modules", text="nvidia 1 1 - Live 0x0\n", **loaded)
    menu = (
        "set default=\"0\"\nmenuentry 'Debian' --class debian {\n"
        f"\tlinux /boot/vmlinuz-{KERNEL} root=/dev/sda1\n\tinitrd /boot/initrd.img-{KERNEL}\n}}\n"
    )
    found.put("file /boot/grub/grub.cfg", text=menu, **loaded)
    found.replace("units of systemd", "ActiveState=inactive", "ActiveState=active")
    return found
