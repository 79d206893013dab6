"""Virtual machines of the practice rack: what is decided without QEMU and without root."""

import io
import json
import socket
import tarfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from hfprov.errors import LabError
from hfprov.lab import access, monitor, qemu, registry, vm, vm_power, vm_template
from hfprov.lab.engine import NodeFile
from hfprov.lab.image import Recipe
from hfprov.lab.qemu import Accelerator, Machine, Place
from hfprov.lab.rack import Rack
from hfprov.lab.state import NetworkStack, NodeSpec, RackPaths, RackState, save_state
from hfprov.lab.vm import VmEngine
from hfprov.lab.vm_image import VmRecipe, ensure_vm_image

TCG = Machine(Accelerator.TCG, "10.0.2", "igb")
KVM = Machine(Accelerator.KVM, "10.0.2", "igb")
OLD = Machine(Accelerator.TCG, "7.2.1", "virtio-net-pci")


def place(index=1, home="/rack/nodes/node01"):
    return Place(Path(home), Path("/run/hfprov-lab/vm-abc123"), index)


def option(argv, name):
    """Every value of an option."""
    return [argv[at + 1] for at, word in enumerate(argv) if word == name]


# The command line.


def test_restoring_is_the_same_machine_with_a_snapshot():
    cold, warm = (qemu.arguments(TCG, place(), restore=restore) for restore in (False, True))
    assert warm == [*cold, "-loadvm", "booted"]


@pytest.mark.parametrize("nic", ["id=mgmt", "id=data"])
def test_two_nodes_share_no_address(nic):
    def value(index):
        argv = qemu.arguments(TCG, place(index), restore=False)
        [device] = [word for word in option(argv, "-device") if nic in word]
        return next(part for part in device.split(",") if part.startswith("mac="))

    assert value(1) != value(2)


@pytest.mark.parametrize("name", ["-uuid", "-smbios", "-qmp"])
def test_two_nodes_are_two_machines(name):
    one, two = (qemu.arguments(TCG, place(index), restore=False) for index in (1, 2))
    assert option(one, name) != option(two, name)


def test_management_comes_before_data_on_the_bus_and_becomes_eth0():
    for machine in (TCG, OLD):
        devices = option(qemu.arguments(machine, place(), restore=False), "-device")
        nics = [word for word in devices if "netdev=" in word]
        assert [part for word in nics for part in word.split(",") if part.startswith("id=")] == [
            "id=mgmt",
            "id=data",
        ]


def test_the_data_nic_has_its_numa_node_only_where_qemu_can_show_it():
    new = " ".join(qemu.arguments(TCG, place(), restore=False))
    old = " ".join(qemu.arguments(OLD, place(), restore=False))
    assert "pxb-pcie,id=socket1,bus_nr=0x80,bus=pcie.0,numa_node=1" in new
    assert "igb,id=data" in new
    assert "igb" not in old
    assert "virtio-net-pci,id=data" in old
    assert "mq=on" in old


def test_numa_nodes_make_up_the_whole_machine():
    argv = qemu.arguments(TCG, place(), restore=False)
    sizes = [word.split("size=")[1] for word in option(argv, "-object")]
    assert sizes == ["512M", "512M"]
    assert option(argv, "-m") == ["1024"]
    assert [word.split(",")[2] for word in option(argv, "-numa")] == ["cpus=0-1", "cpus=2-3"]


def test_every_queue_of_a_tap_is_asked_for():
    argv = qemu.arguments(TCG, place(), restore=False)
    assert [("queues=4" in word) for word in option(argv, "-netdev")] == [False, True]


def test_a_comma_in_a_path_ends_no_option():
    argv = qemu.arguments(TCG, place(home="/a,b"), restore=False)
    [drive] = option(argv, "-drive")
    assert "file=/a,,b/disk.qcow2," in drive


def test_accelerators_are_two_command_lines():
    kvm = qemu.arguments(KVM, place(), restore=False)
    tcg = qemu.arguments(TCG, place(), restore=False)
    assert (option(kvm, "-accel"), option(kvm, "-cpu")) == (["kvm"], ["host"])
    assert option(tcg, "-accel")[0].startswith("tcg,")


def test_a_snapshot_of_another_qemu_or_accelerator_is_another_one():
    assert len({TCG.name, KVM.name, OLD.name, Machine(Accelerator.TCG, "9", "igb").name}) == 4


def test_socket_paths_are_short_enough_for_the_kernel():
    longest = Place(Path("/x" * 300), registry.socket_directory("abcdef"), 40)
    assert max(len(str(path)) for path in (longest.monitor, longest.agent)) < 100


def test_a_rack_that_goes_takes_its_sockets_along(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "RUN_DIRECTORY", tmp_path)
    for rack in ("abc123", "def456"):
        registry.socket_directory(rack).mkdir()
        (registry.socket_directory(rack) / "01.qmp").touch()
    registry.release_identity("abc123")
    assert [path.name for path in tmp_path.iterdir()] == ["vm-def456"]


# Which accelerator.


def test_an_unknown_accelerator_is_refused(monkeypatch):
    monkeypatch.setenv("HFPROV_LAB_ACCEL", "hvf")
    with pytest.raises(LabError, match="hvf") as caught:
        qemu.wanted_accelerator()
    assert "auto, kvm, tcg" in caught.value.hint


def test_kvm_is_refused_where_it_cannot_be_opened(monkeypatch, tmp_path):
    monkeypatch.setenv("HFPROV_LAB_ACCEL", "kvm")
    monkeypatch.setattr(qemu, "KVM", tmp_path / "kvm")
    with pytest.raises(LabError, match="cannot be opened") as caught:
        qemu.wanted_accelerator()
    assert "HFPROV_LAB_ACCEL=tcg" in caught.value.hint


@pytest.mark.parametrize(("word", "wanted"), [("", None), ("auto", None), ("tcg", "tcg")])
def test_what_the_variable_says(monkeypatch, word, wanted):
    monkeypatch.setenv("HFPROV_LAB_ACCEL", word)
    assert qemu.wanted_accelerator() == wanted


@pytest.fixture
def kvm_here(monkeypatch):
    """A machine with KVM; its templates are asked for in a list, and made unless ``broken``."""
    monkeypatch.delenv("HFPROV_LAB_ACCEL", raising=False)
    monkeypatch.setattr(vm_template, "kvm_opens", lambda: True)
    monkeypatch.setattr(vm_template, "describe_machine", lambda a: Machine(a, "10", "igb"))
    asked = []

    def ensure(_image, machine, index, _say):
        asked.append((machine.accelerator, index))
        if broken:
            raise LabError("The virtual machine did not start within 90 s.")

    broken = []
    monkeypatch.setattr(vm_template, "ensure_template", ensure)
    return asked, broken


def test_kvm_is_taken_when_it_boots(kvm_here, tmp_path):
    chosen = vm_template.choose_machine(tmp_path, lambda _: None)
    assert (chosen.accelerator, kvm_here[0]) == ("kvm", [("kvm", 1)])


def test_kvm_that_does_not_boot_is_tried_once_and_said(kvm_here, tmp_path):
    asked, broken = kvm_here
    broken.append(True)
    said = []
    for _ in range(2):
        assert vm_template.choose_machine(tmp_path, said.append).accelerator == "tcg"
    assert asked == [("kvm", 1)]
    assert "did not start within 90 s" in said[0]


def test_kvm_is_tried_again_under_another_kernel(kvm_here, tmp_path, monkeypatch):
    asked, broken = kvm_here
    broken.append(True)
    vm_template.choose_machine(tmp_path, lambda _: None)
    monkeypatch.setattr(vm_template.platform, "release", lambda: "7.0-other")
    broken.clear()
    assert vm_template.choose_machine(tmp_path, lambda _: None).accelerator == "kvm"
    assert len(asked) == 2


def test_qemus_version_and_nic_are_read_from_qemu(monkeypatch):
    said = {"-version": "QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)\n",
            "-device": 'name "igb", bus PCI\n'}  # fmt: skip
    monkeypatch.setattr(qemu, "run", lambda argv, timeout: said[argv[1]])  # noqa: ARG005
    assert qemu.describe_machine(Accelerator.TCG) == Machine(
        Accelerator.TCG, "Debian 1:10.0.2+ds-2", "igb"
    )
    said["-device"] = 'name "e1000e", bus PCI\n'
    assert qemu.describe_machine(Accelerator.TCG).data_nic == "virtio-net-pci"
    said["-version"] = "what?"
    with pytest.raises(LabError, match="does not say a version"):
        qemu.describe_machine(Accelerator.TCG)


# What is refused.


def test_missing_tools_are_named_with_their_packages(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabError, match="qemu-system-x86_64") as caught:
        VmEngine(tmp_path, RackPaths(tmp_path / "rack")).require_host()
    assert "qemu-system-x86" in caught.value.hint
    assert "fdisk" in caught.value.hint


def test_a_suite_without_virtual_machines_is_refused_before_anything_is_built(tmp_path):
    with pytest.raises(LabError, match="trixie"):
        ensure_vm_image(tmp_path, VmRecipe(Recipe("trixie")), lambda _: None)
    assert not list(tmp_path.iterdir())


def test_the_image_follows_the_containers_recipe_and_its_own():
    base = Recipe()
    names = {
        VmRecipe(base).name,
        VmRecipe(Recipe(packages=("systemd",))).name,
        VmRecipe(base, kernel_arguments="quiet").name,
        VmRecipe(base, packages=()).name,
    }
    assert len(names) == 4
    assert VmRecipe(base).name == VmRecipe(Recipe()).name


def state(engine="vm"):
    nodes = (
        NodeSpec("timeserver", 0, NetworkStack.NETWORKD),
        NodeSpec("node01", 1, NetworkStack.NETWORKD),
    )
    return RackState("abc123", engine, "bookworm", "i", "10.144.0.0/24", "10.144.1.0/24", nodes)


@pytest.mark.parametrize(("have", "ask"), [("container", "vm"), ("vm", "container")])
def test_a_rack_keeps_the_engine_it_was_made_with(tmp_path, monkeypatch, have, ask):
    monkeypatch.setattr("hfprov.lab.rack.require_root", lambda: None)
    save_state(RackPaths(tmp_path), state(have))
    with pytest.raises(LabError, match=f"'{have}', not '{ask}'"):
        Rack(tmp_path).up(1, engine=ask)


def test_an_existing_rack_of_virtual_machines_is_driven_as_one(tmp_path, monkeypatch):
    monkeypatch.setattr("hfprov.lab.rack.systemd_state", lambda *_, **__: "running")
    monkeypatch.setattr("hfprov.lab.vm.VmEngine.is_running", lambda *_: True)
    save_state(RackPaths(tmp_path), state())
    rack = Rack(tmp_path)
    assert rack.status().engine == "vm"
    assert isinstance(rack._engine, VmEngine)


def test_virtual_machines_have_a_clock_limits_and_kernels_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setattr(access, "attainable_limits", lambda: {"limits_nofile": 1})
    paths = RackPaths(tmp_path)
    own = access._group_vars(state("vm"), paths)
    shared = access._group_vars(state("container"), paths)
    assert shared["time_sync_control_clock"] is False
    assert set(shared) - set(own) == {"time_sync_control_clock", "limits_nofile"}
    assert set(own) - set(shared) == {"kernel_headers"}


def test_what_an_old_qemu_does_not_show_is_said():
    assert "numa_node" in vm._shortcomings(OLD)
    assert "numa_node" not in vm._shortcomings(TCG)


def test_a_node_is_filled_with_the_modes_it_was_given():
    files = {"/etc/hostname": NodeFile("node01\n"), "/root/.ssh/k": NodeFile("\u00fc", 0o600)}
    with tarfile.open(fileobj=io.BytesIO(vm._archive(files))) as archive:
        found = {one.name: (oct(one.mode), one.uid) for one in archive.getmembers()}
        assert archive.extractfile("root/.ssh/k").read() == "\u00fc".encode()
    assert found == {"etc/hostname": ("0o644", 0), "root/.ssh/k": ("0o600", 0)}


def test_a_machine_is_remembered_as_it_was_started(tmp_path):
    (tmp_path / "machine.json").write_text(
        '{"accelerator": "kvm", "version": "10.0.2", "data_nic": "igb", "cpus": 4, "memory": 1024}',
        encoding="utf-8",
    )
    assert vm._remembered(place(home=str(tmp_path))) == KVM


def test_qemu_that_ends_at_once_is_quoted(tmp_path, monkeypatch):
    monkeypatch.setattr(vm_power, "arguments", lambda *_, **__: ["sh", "-c", "echo no KVM; exit 3"])
    with pytest.raises(LabError, match=r"exit code 3: .*no KVM"):
        vm_power.switch_on(
            TCG, Place(tmp_path, tmp_path / "s", 1), restore=False, wrap=(), groups=()
        )


# Monitor and agent.


@contextmanager
def server(path, *answers):
    """Say ``answers`` (bytes) one after another: the first at once, each other after a line."""
    heard = []

    def serve():
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as lines:
            for number, answer in enumerate(answers):
                if number:
                    heard.append(lines.readline())
                connection.sendall(answer)
            heard.extend(lines)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield heard
        thread.join(timeout=5)


GREETING = b'{"QMP": {}}\n'
DONE = b'{"return": {}}\n'


def test_a_command_is_answered_between_events(tmp_path):
    event = b'{"event": "RESUME"}\n'
    answers = (GREETING, DONE, event + b'{"return": {"running": true}}\n')
    with server(tmp_path / "q", *answers) as heard:
        assert monitor.monitor(tmp_path / "q", "query-status", timeout=5) == {"running": True}
    assert [json.loads(line)["execute"] for line in heard] == ["qmp_capabilities", "query-status"]


def test_a_refusal_is_quoted(tmp_path):
    with (
        server(tmp_path / "q", GREETING, DONE, b'{"error": {"desc": "Device not found"}}\n'),
        pytest.raises(LabError, match="refused 'set_link': Device not found"),
    ):
        monitor.monitor(tmp_path / "q", "set_link", timeout=5, name="x", up=True)


@pytest.mark.parametrize(
    ("answer", "what"),
    [(b"\xff\xfe\n", "no JSON"), (b"[]\n", "something else than an object"), (b"{", "hung up")],
)
def test_an_answer_that_is_none_is_an_error(tmp_path, answer, what):
    with server(tmp_path / "q", answer), pytest.raises(LabError, match=what):
        # The server hangs up when it hears the end of what we say: at our time-out at the latest.
        monitor.monitor(tmp_path / "q", "query-status", timeout=0.5) if what != "hung up" else (
            _hang_up(tmp_path / "q")
        )


def _hang_up(path):
    with monitor._connected(path, 5, "It") as line:
        line._connection.shutdown(socket.SHUT_WR)
        line.answer()


def test_silence_ends_in_time(tmp_path):
    with server(tmp_path / "q", b""), pytest.raises(LabError, match="did not answer in time"):
        monitor.monitor(tmp_path / "q", "query-status", timeout=0.2)


def test_an_endless_answer_is_cut_off(tmp_path, monkeypatch):
    monkeypatch.setattr(monitor, "_LARGEST_ANSWER", 1000)
    with server(tmp_path / "q", b"x" * 5000), pytest.raises(LabError, match="more than 1000 bytes"):
        monitor.monitor(tmp_path / "q", "query-status", timeout=5)


def test_no_socket_is_said(tmp_path):
    with pytest.raises(LabError, match="cannot be reached"):
        monitor.monitor(tmp_path / "none", "quit", timeout=1)
    assert not monitor.agent_answers(tmp_path / "none", timeout=1)


def test_what_was_left_over_from_an_earlier_talk_is_not_taken_for_an_answer(tmp_path, monkeypatch):
    monkeypatch.setattr(monitor, "_numbers", iter([7]))
    left_over = b'{"return": {"pid": 1}}\n'
    answers = (left_over, b'\xff{"return": 7}\n', b'{"return": {"pid": 2}}\n')
    with server(tmp_path / "a", *answers):
        assert monitor._agent(tmp_path / "a", "guest-exec", {}, 5) == {"pid": 2}


def test_an_agent_that_answers_somebody_else_is_not_believed(tmp_path, monkeypatch):
    monkeypatch.setattr(monitor, "_numbers", iter([7]))
    with (
        server(tmp_path / "a", b"", b'\xff{"return": 6}\n'),
        pytest.raises(LabError, match="somebody else"),
    ):
        monitor._agent(tmp_path / "a", "guest-ping", {}, 5)


def test_a_command_in_the_guest_that_does_not_end_is_given_up(tmp_path, monkeypatch):
    def agent(_path, command, _arguments, _timeout):
        return {"pid": 5} if command == "guest-exec" else {"exited": False}

    monkeypatch.setattr(monitor, "_agent", agent)
    started = time.monotonic()
    with pytest.raises(LabError, match=r"'sleep' did not end within 0\.2 s"):
        monitor.run_in_guest(tmp_path, ["sleep", "9"], timeout=0.2)
    assert time.monotonic() - started < 60


def test_output_and_exit_code_of_a_command_in_the_guest(tmp_path, monkeypatch):
    status = {"exited": True, "exitcode": 3, "out-data": "aGkK", "err-data": "//8="}

    def agent(_path, command, _arguments, _timeout):
        return {"pid": 5} if command == "guest-exec" else status

    monkeypatch.setattr(monitor, "_agent", agent)
    done = monitor.run_in_guest(tmp_path, ["x"], timeout=5)
    assert (done.returncode, done.stdout, done.stderr) == (3, "hi\n", "\ufffd\ufffd")
    del status["exitcode"]
    status["signal"] = 9
    assert monitor.run_in_guest(tmp_path, ["x"], timeout=5).returncode == 137


@pytest.mark.parametrize(("alive", "what"), [(True, "did not answer"), (False, "went off")])
def test_a_machine_whose_agent_is_silent_is_given_up(tmp_path, alive, what):
    with pytest.raises(LabError, match=what) as caught:
        vm_power.await_agent(Place(tmp_path, tmp_path, 1), lambda: alive, timeout=0.1)
    assert "console.log" in caught.value.hint
