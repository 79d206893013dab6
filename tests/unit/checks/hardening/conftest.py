"""A recorded practice node with the roles 'hardening' and 'diagnostics_tools', to be spoilt."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from hfprov.baseline import Baseline, Value
from hfprov.evidence.automatic_updates import TIMER_UNITS
from hfprov.evidence.other_firewalls import OTHER_FIREWALLS
from hfprov.evidence.packet_filter import NFT
from hfprov.evidence.sshd import POLICY
from hfprov.evidence.systemd_units import ShowUnits
from hfprov.evidence.unit_overrides import DROP_INS
from hfprov.evidence.update_sources import ARCHIVES, HAS_LISTS, PINS
from hfprov.evidence.upgrades_by_others import UPGRADES
from hfprov.judge import find_check, judge
from hfprov.reading import Read
from hfprov.verdict import Finding, Outcome
from tests.unit.checks.conftest import observation

HERE = Path(__file__).parent
ROOT = HERE.parents[3]
ROLES = ("diagnostics_tools", "hardening")
DECLARED = {
    "diagnostics_tools_wanted": [
        *("dmidecode", "ethtool", "fio", "ib_write_bw", "ibstat", "ibv_devinfo", "iperf3"),
        *("ipmitool", "lldpcli", "lshw", "lspci", "mstflint", "numactl", "nvme", "rdma-ndd"),
        *("smartctl", "stress-ng"),
    ],
    "diagnostics_tools_site_packages": ["nftables"],
    "hardening_auditd": True,
    "hardening_firewall": True,
    "hardening_management_interface": "eth0",
    "hardening_firewall_tcp_ports": [22, 9100],
    "hardening_firewall_sources": ["10.0.0.0/8", "fd00::/8"],
}
"""What was declared beside the roles' defaults when the node was recorded."""


WATCHES = (
    *(f"-w /etc/{name} -p wa -k hfprov-identity" for name in ("group", "passwd", "shadow")),
    "-w /etc/ssh -p wa -k hfprov-login",
    *(f"-w /etc/{name} -p wa -k hfprov-privilege" for name in ("sudoers", "sudoers.d")),
)


def declared() -> dict[str, Any]:
    values: dict[str, Any] = {}
    for role in ROLES:
        values |= yaml.safe_load((ROOT / f"roles/{role}/defaults/main.yml").read_text())
    return values | DECLARED


NOT_FOUND = """Id={0}
Names={0}
LoadState=not-found
ActiveState=inactive
UnitFileState=
"""


def without(results: dict[str, Any], *reads: Read) -> None:
    """Have a recorded node be asked, too, for what has come since; none of it is there."""
    for read in reads:
        if isinstance(read, ShowUnits):
            text = "\n".join(NOT_FOUND.format(unit) for unit in sorted(read.units))
            results.setdefault(read.id, [{"name": "", "status": "ok", "code": 0, "text": text}])
        elif read.request["kind"] == "command":
            results.setdefault(read.id, [{"name": "", "status": "ok", "code": 0, "text": ""}])
        elif read.request["kind"] == "file":
            results.setdefault(read.id, [{"name": read.request["path"], "status": "absent"}])
        else:
            results.setdefault(read.id, [])


def with_services(text: str) -> str:
    """The timers' properties, and those of what they start."""
    names = ("apt-daily", "apt-daily-upgrade", "dnf-automatic")
    blocks = (f"Id={name}.service\nLoadState=loaded\nActiveState=inactive" for name in names)
    return "\n\n".join((text.strip(), *blocks)) + "\n"


class Recorded:
    """A node as it was observed, and as it is declared; both may be changed."""

    def __init__(self, results: dict[str, Any]) -> None:
        self.results = copy.deepcopy(results)
        for read in DROP_INS.reads(Baseline("node", ())):
            self.results.setdefault(read.id, [])
        (timers,) = TIMER_UNITS.reads(Baseline("node", ()))
        before = [name for name in self.results if "-- apt-daily.timer" in name]
        if before != [timers.id]:  # recorded before the services of the timers were asked for
            (result,) = self.results.pop(before[0])
            self.results[timers.id] = [result | {"text": with_services(result["text"])}]
        title = "sshd: /usr/sbin/sshd -D [listener] 0 of 10-100 startups\0\0"
        listener = {"name": "/proc/77/cmdline", "status": "ok", "text": title}
        self.results.setdefault("glob /proc/[0-9]*/cmdline", [listener])
        options = {"name": "/etc/default/ssh", "status": "ok", "text": "SSHD_OPTS=\n"}
        self.results.setdefault("glob /etc/default/ssh", [options])
        self.results.setdefault("glob /etc/sysconfig/sshd", [])
        self.results.setdefault(POLICY.id, [])
        rules = [name for name in self.results if name.startswith("run nft ")]
        if rules:  # recorded before other tables were listed with that of the role
            (result,) = self.results.pop(rules[0])
            self.results[NFT.id] = [result | {"text": f"hfprov-tables\n{result['text']}"}]
        self.values = declared()
        for source in (OTHER_FIREWALLS, ARCHIVES, PINS, UPGRADES):
            without(self.results, *source.reads(self.baseline()))
        (lists,) = HAS_LISTS.reads(self.baseline())
        fetched = {"name": "/var/lib/apt/lists/mirror_dists_stable_main_Packages", "status": "ok"}
        self.results.setdefault(lists.id, [fetched])

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

    def add(self, words: str, path: str, text: str, **changes: Any) -> None:
        result = {"name": path, "status": "ok", "text": text, "mode": 0o644, "uid": 0, "gid": 0}
        self.results[self.read(words)].append(result | changes)

    def baseline(self) -> Baseline:
        return Baseline("node", ROLES, {name: Value(v, "") for name, v in self.values.items()})

    def findings(self, check_id: str) -> list[Finding]:
        seen = observation(self.results, self.baseline())
        found = [one.finding for one in judge(seen, self.baseline()) if one.check == check_id]
        assert found
        return found

    def outcomes(self, check_id: str) -> dict[str, Outcome]:
        """Outcome by subject of what is neither good nor out of place."""
        good = {Outcome.PASS, Outcome.NOT_APPLICABLE}
        return {
            one.subject: one.outcome for one in self.findings(check_id) if one.outcome not in good
        }

    def reads_of(self, check_id: str) -> list[str]:
        found = find_check(check_id)
        assert found is not None
        reads = [read.id for source in found.sources for read in source.reads(self.baseline())]
        return [name for name in dict.fromkeys(reads) if self.results[name]]


def _load() -> Recorded:
    return Recorded(json.loads((HERE / "node.json").read_text(encoding="utf-8"))["results"])


@pytest.fixture
def node() -> Recorded:
    """A healthy practice node with a firewall and an audit."""
    return _load()


@pytest.fixture
def metal() -> Recorded:
    """The same as if it were no container: its kernel is its own, and set as declared."""
    found = _load()
    found.put("systemd itself", text="Virtualization=\n")
    for name in ("dmesg_restrict", "kptr_restrict", "yama/ptrace_scope"):
        path = f"/proc/sys/kernel/{name}"
        found.results[f"glob {path}"] = [{"name": path, "status": "ok", "text": "1\n"}]
    found.put("file /proc/modules", status="ok", text="nvme 49152 1 - Live 0x0\n")
    rules = "".join(f"{rule}\n" for rule in WATCHES)
    found.add(
        "glob /etc/audit/rules.d/*.rules", "/etc/audit/rules.d/50-hfprov.rules", f"# x\n{rules}"
    )
    found.put("run auditctl -l", status="ok", code=0, text=rules)
    unit = "LoadState=loaded\nActiveState=active\nUnitFileState=enabled\n"
    found.put("run systemctl show --property=LoadState,ActiveState,UnitFileState auditd", text=unit)
    return found
