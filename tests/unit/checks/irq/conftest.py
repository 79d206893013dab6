"""A made-up machine: /sys and /proc as files, a driver behind them, and what the probe sees of it.

Files are made from the kernel's documentation and from QEMU machines with virtio and igb adapters.
What the real kernel refuses is refused here by :class:`Kernel`, which stands for the scripts' node.
"""

from __future__ import annotations

import fnmatch
import importlib.util
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from hfprov.baseline import Baseline, Value
from hfprov.judge import find_check, judge
from hfprov.reading import Observation, Read, once
from hfprov.verdict import Finding, Outcome

ROOT = Path(__file__).parents[4]
FILES = ROOT / "roles/irq_affinity/files"
BOOT = "0d8f21b4-9f0c-4c5b-9a3e-0a5e9c1f7d11"


def load(name: str) -> Any:
    """A script of the role, as a module; ``irq_affinity`` imports ``irq_plan`` from beside it."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, FILES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


plan = load("irq_plan")
act = load("irq_affinity")


def cpulist(cpus: Sequence[int]) -> str:
    return ",".join(str(cpu) for cpu in sorted(cpus))


@dataclass
class Nic:
    """An adapter: its NUMA node, and (number, name) of its interrupts."""

    name: str
    interrupts: Sequence[tuple[int, str]]
    node: int | None = -1
    address: str = "0000:81:00.0"
    virtio: bool = False
    up: bool = True
    down: Sequence[int] = ()
    """Interrupts that are listed and that nobody has asked for."""
    queues: int = 0


@dataclass
class Machine:
    """CPUs and adapters. ``nodes``: cores of each NUMA node, each a tuple of its threads."""

    nodes: Mapping[int, Sequence[tuple[int, ...]]]
    nics: Sequence[Nic]
    offline: Sequence[int] = ()
    isolated: str = ""
    nohz_full: str = "(null)"
    distances: Mapping[int, str] = field(default_factory=dict)

    @property
    def cpus(self) -> list[int]:
        return sorted(cpu for cores in self.nodes.values() for core in cores for cpu in core)

    def files(self) -> dict[str, str]:
        """Text by path; a target that begins with ``->`` is a link."""
        online = [cpu for cpu in self.cpus if cpu not in self.offline]
        cpu = "/sys/devices/system/cpu/"
        found = {
            cpu + "online": cpulist(online),
            cpu + "possible": f"0-{max(self.cpus)}" if max(self.cpus) else "0",
            cpu + "isolated": self.isolated,
            cpu + "nohz_full": self.nohz_full,
            "/proc/sys/kernel/random/boot_id": BOOT,
        }
        for number, cores in self.nodes.items():
            place = f"/sys/devices/system/node/node{number}/"
            here = [one for core in cores for one in core if one in online]
            found[place + "cpulist"] = cpulist(here)
            found[place + "distance"] = self.distances.get(
                number, " ".join("10" for _ in self.nodes)
            )
            for core in cores:
                left = [one for one in core if one in online]
                for one in left:
                    found[f"{cpu}cpu{one}/topology/thread_siblings_list"] = cpulist(left)
        for nic in self.nics:
            found |= self._adapter(nic, online)
        return found

    def _adapter(self, nic: Nic, online: list[int]) -> dict[str, str]:
        device = f"/sys/devices/pci0000:80/0000:80:01.0/{nic.address}"
        inner = f"{device}/virtio2" if nic.virtio else device
        place = f"{inner}/net/{nic.name}"
        found = {
            f"/sys/class/net/{nic.name}": f"->{place}",
            f"{place}/device": f"->{inner}",
            f"{place}/flags": "0x1003" if nic.up else "0x1002",
            f"{place}/ifindex": "3",
            f"{device}/vendor": "0x15b3",
            # A bridge has an interrupt of its own, which is none of the adapter's.
            "/sys/devices/pci0000:80/0000:80:01.0/msi_irqs/7": "msi",
        }
        if nic.node is not None:
            found[f"{device}/numa_node"] = str(nic.node)
        for number in (*(number for number, _ in nic.interrupts), *nic.down):
            found[f"{device}/msi_irqs/{number}"] = "msix"
        for number, name in nic.interrupts:
            found[f"/proc/irq/{number}/smp_affinity_list"] = cpulist(online)
            found[f"/proc/irq/{number}/effective_affinity_list"] = str(online[0])
            found[f"/sys/kernel/irq/{number}/actions"] = name
            found[f"/sys/kernel/irq/{number}/per_cpu_count"] = ",".join(
                "0" for _ in range(max(self.cpus) + 1)
            )
        for queue in range(nic.queues):
            found[f"{place}/queues/rx-{queue}/rps_cpus"] = "0"
            found[f"{place}/queues/tx-{queue}/xps_cpus"] = "0"
        return found

    def make(self, root: Path) -> Path:
        for path, text in self.files().items():
            target = root / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            if text.startswith("->"):
                there = (root / text[2:].lstrip("/")).resolve()
                there.mkdir(parents=True, exist_ok=True)
                target.symlink_to(os.path.relpath(there, target.parent.resolve()))
            else:
                target.write_text(text + "\n", encoding="ascii")
        (root / "run").mkdir(exist_ok=True)
        return root


CONFIG = {
    "channels": "auto",
    "coalescing": {},
    "interfaces": ["ens3"],
    "reserved_cpus": "",
    "ring_rx": "leave",
    "ring_tx": "leave",
    "rps": "off",
    "smt": "cores",
    "xps": "match",
}


class Memory(plan.Node):
    """The same files without a disk: for thousands of made-up machines."""

    def __init__(self, machine: Machine) -> None:
        super().__init__("/")
        self.texts = machine.files()
        self.links = {path: to[2:] for path, to in self.texts.items() if to.startswith("->")}
        self.folders: dict[str, set[str]] = {}
        for path in self.texts:
            parts = path.split("/")[1:]
            for depth, name in enumerate(parts):
                self.folders.setdefault("/" + "/".join(parts[:depth]), set()).add(name)

    def place(self, path: str) -> str:
        path = path.rstrip("/")
        for link, target in self.links.items():
            if path == link or path.startswith(link + "/"):
                return self.place(target + path[len(link) :])
        return path

    def real(self, path: str) -> str:
        return self.place(path)

    def read(self, path: str, missing: str = "") -> str:
        return self.texts.get(self.place(path), missing)

    def names(self, path: str) -> list[str]:
        return sorted(self.folders.get(self.place(path), ()))

    def exists(self, path: str) -> bool:
        return self.place(path) in self.texts or self.place(path) in self.folders

    def ethtool(self, *_: str) -> tuple[int, str, str]:
        return 76, "", "netlink error: Operation not supported"


class Kernel(plan.Node):
    """A node whose kernel and driver answer as they are told to."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self.refuses: dict[str, int] = {}
        """errno by path."""
        self.forgets: set[str] = set()
        """Paths where a write does not stick."""
        self.written: list[tuple[str, str]] = []
        self.calls: list[tuple[str, ...]] = []
        self.channels = {"most": 0, "now": 0}
        self.rings = {"most": 8192, "now": 1024, "step": 1}
        self.usecs = 8

    def write(self, path: str, text: str) -> None:
        if path in self.refuses:
            raise OSError(self.refuses[path], os.strerror(self.refuses[path]))
        self.written.append((path, text))
        if path not in self.forgets:
            super().write(path, text)
            if path.endswith("smp_affinity_list"):
                # A shorter text leaves the rest of a file, which the kernel's files do not.
                Path(self.path(path)).write_text(text + "\n", encoding="ascii")

    def ethtool(self, option: str, name: str, *words: str) -> tuple[int, str, str]:
        self.calls.append((option, name, *words))
        if option == "-l" and self.channels["most"]:
            return 0, sizes("Channel", name, "combined", self.channels), ""
        if option == "-g":
            return 0, sizes("Ring", name, "rx", self.rings), ""
        if option == "-c":
            return (
                0,
                f"Coalesce parameters for {name}:\nAdaptive RX: on  TX: n/a\nrx-usecs:\t8\n",
                "",
            )
        if option == "-L":
            self.channels["now"] = int(words[1])
            return 0, "", ""
        if option == "-G":
            self.rings["now"] = int(words[1]) // self.rings["step"] * self.rings["step"]
            return 0, "", ""
        return 76, "", "netlink error: Operation not supported"


def sizes(what: str, name: str, key: str, numbers: Mapping[str, int]) -> str:
    """What ``ethtool -l`` and ``-g`` print of an adapter with one kind of size."""
    lines = [f"{what} parameters for {name}:"]
    for heading, which in (("Pre-set maximums", "most"), ("Current hardware settings", "now")):
        shown = key.upper() if key == "rx" else key.capitalize()
        lines += [f"{heading}:", f"{shown}:\t\t{numbers[which]}", "TX:\t\tn/a"]
    return "\n".join(lines) + "\n"


# What the probe would see of it


def in_sysfs(machine: Machine, files: Mapping[str, str]) -> dict[str, str]:
    """The same files by the paths that lead through an adapter's links."""
    found = dict(files)
    for nic in machine.nics:
        place = files[f"/sys/class/net/{nic.name}"][2:]
        device = files[f"{place}/device"][2:]
        above = device.rpartition("/")[0]
        shown = f"/sys/class/net/{nic.name}"
        for path, text in files.items():
            for real, alias in (
                (place, shown),
                (device, f"{shown}/device"),
                (above, f"{shown}/device/.."),
            ):
                if path.startswith(real + "/") and not text.startswith("->"):
                    found[alias + path[len(real) :]] = text
        found[f"{shown}/device"] = f"->{device}"
    return found


def fits(path: str, pattern: str) -> bool:
    here, wanted = path.split("/"), pattern.split("/")
    return len(here) == len(wanted) and all(map(fnmatch.fnmatchcase, here, wanted))


def result(path: str, text: str, **more: Any) -> dict[str, Any]:
    if text.startswith("->"):
        return {"name": path, "status": "ok", "link": text[2:], "type": "dir"} | more
    return {"name": path, "status": "ok", "text": text + "\n"} | more


def proc_interrupts(machine: Machine, counts: Mapping[int, Mapping[int, int]]) -> str:
    """Columns of running CPUs, rows of the adapters' interrupts, as the node filters them."""
    online = [cpu for cpu in machine.cpus if cpu not in machine.offline]
    lines = ["      " + " ".join(f"CPU{cpu}" for cpu in online)]
    for nic in machine.nics:
        for at, (number, name) in enumerate(nic.interrupts):
            row = " ".join(str(counts.get(number, {}).get(cpu, 0)) for cpu in online)
            lines.append(f" {number}: {row} IR-PCI-MSIX-{nic.address} {at}-edge {name}")
    return "\n".join(lines) + "\n"


UNITS = {
    "hfprov-irq-affinity.service": {"LoadState": "loaded", "UnitFileState": "enabled"},
    "hfprov-irq-affinity.timer": {
        "LoadState": "loaded", "UnitFileState": "enabled", "ActiveState": "active",
    },
    "irqbalance.service": {"LoadState": "not-found", "UnitFileState": ""},
}  # fmt: skip
DEFAULTS = {
    "ActiveState": "inactive", "NeedDaemonReload": "no", "Result": "success", "DropInPaths": "",
    "MainPID": "0", "ExecMainStatus": "0", "ExecStart": "",
}  # fmt: skip


class Seen:
    """What the probe saw of a machine, to be spoilt; and what is declared of it."""

    def __init__(self, machine: Machine, **declared: Any) -> None:
        self.machine = machine
        self.files = machine.files()
        self._known: dict[str, str] = {}
        self._paths: dict[str, str] = {}
        self.counts: dict[int, dict[int, int]] = {}
        self.virtualization = ""
        self.units = {name: {**DEFAULTS, **unit} for name, unit in UNITS.items()}
        self.answers: dict[tuple[str, str], str] = {}
        self.state: str | None = None
        self.written: dict[str, dict[str, Any]] = {}
        self.command_lines: dict[str, str] = {}
        self.links: list[dict[str, Any]] = [
            {"ifindex": 2 + at, "ifname": nic.name, "flags": ["UP"] if nic.up else [], "mtu": 9000}
            for at, nic in enumerate(machine.nics)
        ]
        values = yaml.safe_load((FILES.parent / "defaults/main.yml").read_text())
        values["jumbo_mtu_interfaces"] = [nic.name for nic in machine.nics]
        self.values: dict[str, Any] = values | declared

    def baseline(self) -> Baseline:
        values = {name: Value(value, "") for name, value in self.values.items()}
        return Baseline("node", ("irq_affinity",), values)

    def config(self) -> dict[str, Any]:
        """The scripts' configuration, as the role writes it."""
        own = {
            name.removeprefix("irq_affinity_"): value
            for name, value in self.values.items()
            if name.startswith("irq_affinity_")
        }
        own["interfaces"] = own["interfaces"] or self.values["jumbo_mtu_interfaces"]
        return own

    def apply(self) -> None:
        """Put everything where the role's own plan has it."""
        survey = plan.Survey(Memory(self.machine), self.config())
        rows = {}
        for number, row in survey.plan.items():
            self.files[f"/proc/irq/{number}/smp_affinity_list"] = str(row["cpu"])
            self.files[f"/proc/irq/{number}/effective_affinity_list"] = str(row["cpu"])
            rows[str(number)] = {"name": row["name"], "result": "moved", "before": {}}
            self.counts[number] = {row["cpu"]: 1000}
        for path, mask in survey.steering():
            nic = path.split("/")[4]
            self.files[self.files[f"/sys/class/net/{nic}"][2:] + path.split(nic, 1)[1]] = mask
        self.state = json.dumps({"boot_id": BOOT, "interrupts": rows})

    def note(self, number: int, **changes: Any) -> None:
        """Change what the script has noted of an interrupt."""
        state = json.loads(self.state or "{}")
        state["interrupts"][str(number)] |= changes
        self.state = json.dumps(state)

    def found(self) -> dict[str, str]:
        """All files, by every path that the probe may take. Kept until one of them changes."""
        more = {
            "/proc/sys/kernel/osrelease": "6.12.9-amd64",
            "/proc/cmdline": "root=/dev/sda1",
            **self.command_lines,
        }
        if self.state is not None:
            more["/run/hfprov-irq-affinity.json"] = self.state
        if self.files != self._known:
            self._known = dict(self.files)
            self._paths = in_sysfs(self.machine, self.files)
        return self._paths | more

    def answer(self, read: Read) -> list[dict[str, Any]]:
        """What the probe would give for one read."""
        request = read.request
        if request["kind"] in ("file", "glob"):
            found = self.found()
            pattern = request.get("pattern") or request["path"]
            rows = [result(path, found[path]) for path in sorted(found) if fits(path, pattern)]
            rows += [row for path, row in self.written.items() if fits(path, pattern)]
            if request["kind"] == "file" and not rows:
                rows = [{"name": pattern, "status": "absent"}]
            return rows
        text = self._said(read, " ".join(request["argv"]))
        return [{"name": "", "status": "ok", "code": 0, "text": text}]

    def _said(self, read: Read, words: str) -> str:
        if read.id == "units of systemd":
            return "\n".join(
                "".join(
                    f"{key}={value}\n" for key, value in {"Id": name, "Names": name, **unit}.items()
                )
                for name, unit in self.units.items()
            )
        if read.id == "systemd itself":
            return f"Virtualization={self.virtualization}\n"
        if "/proc/interrupts" in words:
            return proc_interrupts(self.machine, self.counts)
        if "ethtool" in words:
            return "".join(
                f"\nhfprov-asks {form} {nic.name}\n"
                + self.answers.get((form, nic.name), UNSUPPORTED)
                for nic in self.machine.nics
                for form in ("-l", "-g", "-c")
            )
        assert words.startswith("ip "), words
        return json.dumps(self.links)

    def findings(self, check_id: str, **instead: Sequence[dict[str, Any]]) -> list[Finding]:
        """What one check finds. ``instead`` of what was seen: nothing, for the id of a read."""
        baseline = self.baseline()
        one = find_check(check_id)
        assert one is not None
        reads = once(read for source in one.sources for read in source.reads(baseline))
        results = {read.id: self.answer(read) for read in reads} | instead
        seen = Observation.from_json({"results": results})
        found = [verdict.finding for verdict in judge(seen, baseline) if verdict.check == check_id]
        assert found
        return found

    def outcomes(self, check_id: str, **instead: Any) -> dict[str, Outcome]:
        return {one.subject: one.outcome for one in self.findings(check_id, **instead)}

    def reads_of(self, check_id: str) -> list[Read]:
        one = find_check(check_id)
        assert one is not None
        baseline = self.baseline()
        return list(once(read for source in one.sources for read in source.reads(baseline)))


UNSUPPORTED = "netlink error: Operation not supported\n"


def mlx5(name: str, first: int, queues: int, **more: Any) -> Nic:
    """An adapter whose interrupts are not named after its interface."""
    address = more.pop("address", "0000:81:00.0")
    rows = [(first, f"mlx5_async0@pci:{address}")]
    rows += [(first + 1 + at, f"mlx5_comp{at}@pci:{address}") for at in range(queues)]
    return Nic(name, rows, address=address, queues=queues, **more)


@pytest.fixture
def two_sockets() -> Machine:
    """Two NUMA nodes, four cores of two threads each; an adapter with three queues at node 1."""
    nodes = {node: [(4 * node + core, 4 * node + core + 8) for core in range(4)] for node in (0, 1)}
    return Machine(nodes, [mlx5("ens3", 40, 3, node=1)])
