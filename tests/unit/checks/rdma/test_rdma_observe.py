"""What the role finds on a machine with adapters of its own, in made-up trees and answers."""

from __future__ import annotations

import copy
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import DECLARED, DEFAULTS, DEVICE, GUID, SOFT, V4_GID
from .test_rdma_live import mlnx_qos

SCRIPT = Path(__file__).parents[4] / "roles/rdma/files/observe_rdma.py"
PCI = "0000:18:00.0"
INBOX = ["rdma-core 44.0-2 installed", "libibverbs1 44.0-2 installed"]
NAMES = {
    "stack": "rdma_stack",
    "modules": "rdma_modules",
    "before_services": "rdma_before_services",
    "devices": "rdma_devices",
    "interfaces": "rdma_interfaces",
    "roce_mode": "rdma_roce_mode",
    "roce_tos": "rdma_roce_tos",
    "qos_tool": "rdma_qos_tool",
    "dscp": "rdma_dscp_priorities",
    "pfc": "rdma_pfc_priorities",
    "ecn": "rdma_ecn_priorities",
    "netns": "rdma_netns",
    "rxe": "rdma_rxe_interfaces",
    "max_read_request": "rdma_max_read_request_bytes",
    "relaxed_ordering": "rdma_relaxed_ordering",
    "acs_off": "rdma_acs_off_bridges",
}
UNIT = "LoadState=loaded\nUnitFileState=enabled\nNeedDaemonReload=no\nResult=success\n"


class Machine:
    """A bare-metal node where all is as declared; to be spoilt one thing at a time."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        spec = importlib.util.spec_from_file_location("observe_rdma", SCRIPT)
        assert spec is not None
        assert spec.loader is not None
        self.script: Any = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.script)
        values = DEFAULTS | copy.deepcopy(DECLARED)
        self.asked: dict[str, Any] = {short: values[name] for short, name in NAMES.items()}
        self.asked["roce_mode"] = "RoCE v2"
        self.asked |= {"packages": ["rdma-core"], "units": ["hfprov-rdma.service"]}
        self.installed = list(INBOX)
        self.answers: dict[str, tuple[int, str]] = {
            "systemd-detect-virt": (1, "none\n"),
            "rdma": (0, "netns exclusive copy-on-fork on\n"),
            "dcb pfc": (0, json.dumps({"prio_pfc": [p == 3 for p in range(8)]})),
            "dcb app": (0, '{"dscp_prio":[[26,3],[48,6]]}'),
            "mlnx_qos": (0, mlnx_qos()),
            "setpci": (0, "5937\n"),
            "systemctl": (0, UNIT),
            "modinfo": (1, ""),
        }
        for name in (*self.asked["modules"], "rdma_rxe"):
            (root / f"sys/module/{name}").mkdir(parents=True)
        self._devices()
        self._patch(monkeypatch)

    def _devices(self) -> None:
        device = f"sys/class/infiniband/{DEVICE}"
        self.write(f"{device}/node_guid", GUID)
        for index, text in enumerate(("eth1", "eth1")):
            self.write(f"{device}/ports/1/gid_attrs/ndevs/{index}", text)
        self.write(f"{device}/ports/1/gids/0", V4_GID)
        (self.root / f"sys/devices/{PCI}").mkdir(parents=True)
        (self.root / device / "device").symlink_to(self.root / f"sys/devices/{PCI}")
        self.write(f"sys/class/infiniband/{SOFT}/parent", "eth1")
        (self.root / "sys/class/net/eth1").mkdir(parents=True)
        self.configfs = f"sys/kernel/config/rdma_cm/{DEVICE}/ports/1"
        self.write(f"{self.configfs}/default_roce_mode", "RoCE v2")
        self.write(f"{self.configfs}/default_roce_tos", "106")
        for side in ("roce_np", "roce_rp"):
            self.write(f"sys/class/net/eth1/ecn/{side}/enable/3", "1")

    def _patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        script, root, inside = self.script, self.root, str(self.root)
        text_of: Callable[[str], str | None] = script.text_of
        monkeypatch.setattr(script, "text_of", lambda path: text_of(inside + path))
        monkeypatch.setattr(script, "run", self.run)

        class Glob:
            @staticmethod
            def glob(pattern: str) -> list[str]:
                found = root.glob(pattern.lstrip("/"))
                return [str(path).removeprefix(inside) for path in found]

        class Paths:
            basename = staticmethod(script.os.path.basename)

            @staticmethod
            def exists(path: str) -> bool:
                return Path(inside + path).exists()

            @staticmethod
            def realpath(path: str) -> str:
                return str(Path(inside + path).resolve())

        class System:
            path, uname = Paths, staticmethod(script.os.uname)

        monkeypatch.setattr(script, "glob", Glob)
        monkeypatch.setattr(script, "os", System)

    def run(self, *argv: str) -> tuple[int, str]:
        if argv[0] == "dpkg-query":
            return 0, "\n".join(self.installed)
        answer = self.answers.get(" ".join(argv).split(" -j -N ")[0])
        words = " ".join(word for word in argv if not word.startswith("-"))
        found = [self.answers[key] for key in self.answers if words.startswith(key)]
        return answer or found[0]

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n", encoding="utf-8")

    def seen(self) -> dict[str, Any]:
        found: dict[str, Any] = self.script.main(self.asked)
        return found


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_where_all_is_as_declared_nothing_is_to_be_done(machine):
    seen = machine.seen()
    assert seen["machine"] == "bare_metal"
    due = {name for name, value in seen.items() if value and name not in ("machine", "namespaces")}
    assert due == set()


@pytest.mark.parametrize(
    ("path", "text", "problem"),
    [
        ("default_roce_mode", "IB/RoCE v1", f"default_roce_mode of {DEVICE}"),
        ("default_roce_tos", "0", f"default_roce_tos of {DEVICE}"),
    ],
)
def test_roce_settings_that_were_lost_are_seen(machine, path, text, problem):
    machine.write(f"{machine.configfs}/{path}", text)
    assert machine.seen()["stale_interfaces"] == {"eth1": [problem]}
    (machine.root / machine.configfs / path).unlink()
    assert machine.seen()["stale_interfaces"] == {"eth1": [problem]}


def test_interface_without_a_device_is_seen(machine):
    for index in (0, 1):
        machine.write(f"sys/class/infiniband/{DEVICE}/ports/1/gid_attrs/ndevs/{index}", "eth11")
    assert machine.seen()["stale_interfaces"] == {"eth1": ["no RDMA device has it"]}


@pytest.mark.parametrize(
    ("command", "answer", "problem"),
    [
        ("dcb pfc", (0, '{"prio_pfc":[true]}'), "priority flow control"),
        ("dcb app", (0, '{"dscp_prio":[[26,4],[48,6]]}'), "priorities of DSCP"),
        ("dcb app", (0, "{}"), "priorities of DSCP"),
        ("dcb app", (0, ""), "priorities of DSCP"),
        ("dcb pfc", (1, ""), "'dcb' does not tell its priorities"),
    ],
)
def test_priorities_of_dcb_that_differ_are_seen(machine, command, answer, problem):
    machine.answers[command] = answer
    assert machine.seen()["stale_interfaces"] == {"eth1": [problem]}


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        (mlnx_qos(), []),
        (mlnx_qos(three=0), ["priority flow control"]),
        (mlnx_qos().replace("state: dscp", "state: pcp"), ["priorities of DSCP"]),
        ("", ["'mlnx_qos' does not tell its priorities"]),
    ],
)
def test_priorities_of_mlnx_qos_that_differ_are_seen(machine, text, problems):
    machine.asked["qos_tool"] = "mlnx_qos"
    machine.answers["mlnx_qos"] = (0, text)
    assert machine.seen()["stale_interfaces"] == ({"eth1": problems} if problems else {})


def test_congestion_notification_that_is_off_is_seen(machine):
    machine.write("sys/class/net/eth1/ecn/roce_rp/enable/3", "0")
    assert machine.seen()["stale_interfaces"] == {"eth1": ["ECN of priority 3"]}


def test_modules_and_devices_that_are_missing_are_named(machine):
    (machine.root / "sys/module/ib_umad").rmdir()
    machine.answers["modinfo"] = (0, "/lib/modules/ib_umad.ko\n")
    machine.asked["devices"] = [{"pci": "0000:99:00.0"}, {"guid": "a088:c203:00e5:0000"}]
    (machine.root / f"sys/class/infiniband/{SOFT}/parent").unlink()
    seen = machine.seen()
    assert seen["missing_modules"] == ["ib_umad"]
    assert seen["missing_devices"] == ["0000:99:00.0", "a088:c203:00e5:0000"]
    assert seen["missing_rxe"] == ["eth1"]


@pytest.mark.parametrize(
    ("register", "due"),
    [("5937", 0), ("2937", 1), ("5927", 1), ("2927", 2), ("", 2)],
)
def test_pci_registers_that_differ_are_seen(machine, register, due):
    machine.answers["setpci"] = (0, register)
    assert len(machine.seen()["stale_pci"]) == due


def test_access_control_of_a_bridge(machine):
    machine.asked |= {"acs_off": ["0000:17:01.0"], "relaxed_ordering": "leave"}
    machine.asked["max_read_request"] = "leave"
    (machine.root / "sys/bus/pci/devices/0000:17:01.0").mkdir(parents=True)
    for control, due in (("0000", []), ("001d", ["0000:17:01.0 ECAP_ACS+6.w"])):
        machine.answers["setpci"] = (0, control)
        assert machine.seen()["stale_pci"] == due


@pytest.mark.parametrize(
    ("answer", "stale"),
    [((0, "netns exclusive\n"), False), ((0, "netns shared\n"), True), ((1, ""), True)],
)
def test_mode_of_namespaces(machine, answer, stale):
    machine.answers["rdma"] = answer
    assert machine.seen()["namespaces_stale"] is stale


def test_containers_leave_it_to_their_host(machine):
    machine.answers["systemd-detect-virt"] = (0, "systemd-nspawn\n")
    machine.answers |= {"dcb pfc": (1, ""), "rdma": (1, ""), "setpci": (1, "")}
    for path in (machine.root / "sys/module").iterdir():
        path.rmdir()
    seen = machine.seen()
    due = {name for name, value in seen.items() if value and name != "machine"}
    assert due == set()


@pytest.mark.parametrize(
    ("installed", "stack", "words"),
    [
        ([*INBOX, "mlnx-ofed-kernel-modules 24.10 installed"], "inbox", "half of each"),
        ([*INBOX, "mlnx-ofed-kernel-modules 24.10 installed"], "vendor", "half of each"),
        ([*INBOX, "kmod-mlnx-ofa_kernel 24.10 installed"], "leave", "half of each"),
        (["rdma-core 44.0-2 installed", "libibverbs1 58mlnx43-1 installed"], "inbox", "half of"),
        (["rdma-core 58mlnx43-1.58203 installed"], "inbox", "the other RDMA stack"),
        (INBOX, "vendor", "the other RDMA stack"),
    ],
)
def test_two_stacks_or_the_other_one_are_refused(machine, installed, stack, words):
    machine.installed = installed
    machine.asked["stack"] = stack
    (problem,) = machine.seen()["problems"]
    assert words in problem
    assert "by hand" in problem


def test_libraries_that_programs_brought_do_not_keep_the_vendors_stack_out(machine):
    machine.installed = ["libibverbs1 44.0-2 installed", "ibverbs-providers 44.0-2 installed"]
    machine.asked["stack"] = "vendor"
    assert machine.seen()["problems"] == []


def test_loaded_modules_of_the_vendor_are_refused(machine):
    (machine.root / "sys/module/mlx_compat").mkdir()
    (problem,) = machine.seen()["problems"]
    assert "the loaded module mlx_compat" in problem


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"devices": [{"rate_gbit_per_s": 400}]}, "needs 'pci' or 'guid'"),
        ({"devices": [{"pci": "mlx5_0"}]}, "is no PCI address"),
        ({"devices": [{"pci": PCI, "rate": 400}]}, "has 'rate', which nothing reads"),
        ({"devices": [{"pci": PCI}, {"guid": "123"}]}, "is no GUID"),
        ({"devices": []}, "no entry of 'rdma_devices' has 'pci'"),
        ({"interfaces": ["eth9"], "rxe": []}, "no interface 'eth9'"),
        ({"rxe": ["a-b"]}, "rename the interface"),
        ({"roce_tos": "256"}, "'rdma_roce_tos' must be"),
        ({"pfc": [8]}, "'rdma_pfc_priorities'"),
        ({"ecn": [-1]}, "'rdma_ecn_priorities'"),
        ({"dscp": {"64": 1}}, "maps '64' to '1'"),
        ({"dscp": {"26": 9}}, "maps '26' to '9'"),
        ({"qos_tool": "leave"}, "nobody would set them"),
        ({"max_read_request": "300"}, "cannot be '300'"),
        ({"modules": []}, "'rdma_modules' is empty"),
        ({"modules": ["ib_uverbs", "no_such"]}, "has no module 'no_such'"),
        ({"modules": ["ib_uverbs; reboot"]}, "no name of a module"),
        ({"acs_off": ["0000:99:00.0"]}, "no PCI bridge '0000:99:00.0'"),
    ],
)
def test_what_makes_no_sense_is_refused(machine, change, words):
    machine.asked |= change
    assert any(words in problem for problem in machine.seen()["problems"])


def test_bridges_are_changed_on_bare_metal_only(machine):
    machine.answers["systemd-detect-virt"] = (0, "kvm\n")
    machine.asked["acs_off"] = ["0000:17:01.0"]
    assert machine.seen()["problems"] == [
        "Access control of PCI bridges is taken away on bare metal only."
    ]


def test_soft_device_of_a_unit_that_is_left_over_is_named(machine):
    machine.asked |= {"rxe": [], "interfaces": []}
    machine.asked["qos_tool"], machine.asked["pfc"], machine.asked["dscp"] = "leave", [], {}
    assert machine.seen()["surplus_rxe"] == [], "somebody else made it"
    machine.write("etc/systemd/system/multi-user.target.wants/hfprov-rxe@eth1.service", "")
    seen = machine.seen()
    assert seen["leftovers"] == ["hfprov-rxe@eth1.service"]
    assert seen["surplus_rxe"] == [SOFT]
