"""A practice node after the role, as observed, made a machine of its own with one RoCE adapter.

What the container could not have is made up from the kernel's ABI documentation and the sources of
iproute2 and mlnx-tools; the adapter has not the name that everybody expects.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from hfprov.baseline import Baseline, Value
from hfprov.judge import judge
from hfprov.reading import Observation
from hfprov.verdict import Finding, Outcome

HERE = Path(__file__).parent
DEFAULTS = yaml.safe_load((HERE.parents[3] / "roles/rdma/defaults/main.yml").read_text())
DECLARED = {
    "rdma_modules": ["ib_uverbs", "rdma_ucm", "ib_umad", "ib_ipoib"],
    "rdma_before_services": ["slurmd", "ssh"],
    "rdma_interfaces": ["eth1"],
    "rdma_roce_tos": "106",
    "rdma_qos_tool": "dcb",
    "rdma_dscp_priorities": {48: 6, 26: 3},
    "rdma_pfc_priorities": [3],
    "rdma_ecn_priorities": [3],
    "rdma_netns": "exclusive",
    "rdma_rxe_interfaces": ["eth1"],
    "rdma_devices": [{"pci": "0000:18:00.0", "rate_gbit_per_s": 400}],
    "rdma_max_read_request_bytes": "4096",
    "rdma_relaxed_ordering": "enabled",
}
DEVICE, SOFT = "rocep24s0", "rxe_eth1"
GUID = "a088:c203:00e5:1d3c"
IB = "/sys/class/infiniband"
V4_GID, LINK_GID = (
    "0000:0000:0000:0000:0000:ffff:0a0a:0105",
    "fe80:0000:0000:0000:a288:c2ff:fee5:1d3c",
)
FREE = "0000:0000:0000:0000:0000:0000:0000:0000"
PFC = "run dcb -j -N pfc show dev eth1 prio-pfc"
APP = "run dcb -j -N app show dev eth1 dscp-prio"
REGISTER = "run setpci -s 0000:18:00.0 CAP_EXP+8.w"


def one(text: str = "", name: str = "", **changes: Any) -> dict[str, Any]:
    return {"name": name, "status": "ok", "text": text, "mode": 0o644, "uid": 0, "gid": 0} | changes


class Node:
    """A node as it was observed, and as it is declared; both may be changed."""

    def __init__(self) -> None:
        recorded = json.loads((HERE / "node.json").read_text(encoding="utf-8"))
        self.results: dict[str, list[dict[str, Any]]] = copy.deepcopy(recorded["results"])
        self.values = DEFAULTS | copy.deepcopy(DECLARED)
        self.machine("")
        modules = [*self.values["rdma_modules"], "mlx5_ib"]
        self.results["file /proc/modules"] = [
            one("".join(f"{name} 16384 0 - Live 0x0\n" for name in modules))
        ]
        self.results["run rdma system show"] = [one("netns exclusive copy-on-fork on\n", code=0)]
        self._devices()
        self.results[PFC] = [one(json.dumps({"prio_pfc": [p == 3 for p in range(8)]}), code=0)]
        self.results[APP] = [one('{"dscp_prio":[[26,3],[48,6]]}', code=0)]
        self.results[REGISTER] = [one("5937\n", code=0)]
        self.results["glob /sys/class/net/*/ecn/roce_*/enable/*"] = [
            one("1\n", f"/sys/class/net/eth1/ecn/{side}/enable/{priority}")
            for side in ("roce_np", "roce_rp")
            for priority in range(8)
        ]

    def machine(self, virtualization: str) -> None:
        self.results["systemd itself"] = [one(f"Virtualization={virtualization}\n", code=0)]

    def _devices(self) -> None:
        port = f"{IB}/{DEVICE}/ports/1"
        files = {
            "state": "4: ACTIVE",
            "phys_state": "5: LinkUp",
            "rate": "400 Gb/sec (4X NDR)",
            "link_layer": "Ethernet",
        }
        for name, text in files.items():
            self.results[f"glob {IB}/*/ports/*/{name}"] = [one(text + "\n", f"{port}/{name}")]
        self.results[f"list {IB}/*/device"] = [
            one(name=f"{IB}/{DEVICE}/device", link="../../devices/pci0000:17/0000:18:00.0")
        ]
        self.results[f"glob {IB}/*/node_guid"] = [
            one(GUID + "\n", f"{IB}/{DEVICE}/node_guid"),
            one("5254:00ff:fe12:3456\n", f"{IB}/{SOFT}/node_guid"),
        ]
        self.results[f"glob {IB}/*/parent"] = [one("eth1\n", f"{IB}/{SOFT}/parent")]
        self.set_gids(
            (0, LINK_GID, "IB/RoCE v1", "eth1"),
            (1, LINK_GID, "RoCE v2", "eth1"),
            (2, V4_GID, "IB/RoCE v1", "eth1"),
            (3, V4_GID, "RoCE v2", "eth1"),
            (4, FREE, None, None),
        )
        for name, text in (("default_roce_mode", "RoCE v2"), ("default_roce_tos", "106")):
            path = f"/sys/kernel/config/rdma_cm/{DEVICE}/ports/1/{name}"
            read = f"glob /sys/kernel/config/rdma_cm/*/ports/*/{name}"
            self.results[read] = [one(text + "\n", path)]

    def set_gids(self, *rows: tuple[int, str, str | None, str | None]) -> None:
        """Index, GID, type, interface; None where the kernel refuses the read."""
        reads: dict[str, list[dict[str, Any]]] = {"gids": [], "types": [], "ndevs": []}
        for index, *values in rows:
            for kind, text in zip(reads, values, strict=True):
                folder = kind if kind == "gids" else f"gid_attrs/{kind}"
                path = f"{IB}/{DEVICE}/ports/1/{folder}/{index}"
                refused = {"status": "error", "stderr": "Invalid argument"}
                extra: dict[str, Any] = refused if text is None else {}
                reads[kind].append(one(f"{text or ''}\n", path, **extra))
        self.results[f"glob {IB}/*/ports/*/gids/*"] = reads["gids"]
        self.results[f"glob {IB}/*/ports/*/gid_attrs/types/*"] = reads["types"]
        self.results[f"glob {IB}/*/ports/*/gid_attrs/ndevs/*"] = reads["ndevs"]

    def read(self, words: str) -> str:
        """The one read whose id begins with these words."""
        found = [name for name in self.results if name.startswith(words)]
        assert len(found) == 1, (words, found)
        return found[0]

    def put(self, words: str, **changes: Any) -> None:
        (result,) = self.results[self.read(words)]
        result.update(changes)

    def replace(self, words: str, old: str, new: str) -> None:
        (result,) = self.results[self.read(words)]
        assert old in result["text"]
        result["text"] = result["text"].replace(old, new)

    def baseline(self) -> Baseline:
        values = {name: Value(value, "") for name, value in self.values.items()}
        return Baseline("node", ("rdma",), values)

    def findings(self, check_id: str) -> list[Finding]:
        seen = Observation.from_json({"results": self.results})
        found = [v.finding for v in judge(seen, self.baseline()) if v.check == check_id]
        assert found
        return found

    def bad(self, check_id: str) -> dict[str, Outcome]:
        """Outcome by subject of what does not pass."""
        return {
            f.subject: f.outcome for f in self.findings(check_id) if f.outcome is not Outcome.PASS
        }


@pytest.fixture
def node() -> Node:
    return Node()
