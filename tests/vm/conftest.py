"""A session's rack of two virtual machines. Every test in this directory is marked ``vm``.

    sh scripts/test.sh vm        or, while writing tests, on a rack that stays up:
    hfprov lab up --engine vm --nodes 2 --dir /var/tmp/my/rack
    HFPROV_TEST_VM_RACK=/var/tmp/my/rack pytest -n 0 -m vm tests/vm/test_....py

An emulated node takes a minute to start and minutes for a play, so the two nodes live one life:
new ones first; then ``provision`` of both at the same time; then reboots, of which the first node's
succeeds. ``STAGES`` is that order; a file that is run alone makes what it needs.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from hfprov import paths
from hfprov.errors import LabError
from hfprov.lab import host
from hfprov.lab.rack import Rack
from hfprov.lab.vm import VmEngine
from hfprov.lab.vm_node import VmNode, vm_nodes
from tests.vm.on_node import places
from tests.vm.provisioning import CONFIRM, let_it_be_cut_off, provision
from tests.vm.reboots import cut_power, reboot_for_good, reboot_into, reboot_slowly

HERE = Path(__file__).parent
HFPROV = Path(sys.executable).with_name("hfprov")
STAGES = (
    "test_vm_rack.py",
    "test_vm_fake_accelerators.py",
    "test_vm_power.py",
    "test_provision.py",
    "test_mtu_guard.py",
    "test_rdma.py",
    "test_kernel_and_reboot.py",
    "test_irq_affinity.py",
    "test_failed_reboots.py",
    "test_after_reboots.py",
)
SERIES = "6.12"
ROLES = ("kernel", "limits", "jumbo_mtu", "irq_affinity", "rdma")
SECOND = ("kernel", "jumbo_mtu", "rdma")
"""Roles of the second node: what RDMA takes at both ends, and a kernel that does not boot."""
DECLARED = {
    "kernel_stream": "backports",
    "kernel_version": SERIES,
    "kernel_headers": False,
    "kernel_parameters": ["iommu=pt", "transparent_hugepage=never"],
    "jumbo_mtu_confirm_seconds": 900,
    "rdma_interfaces": ["eth1"],
    "rdma_rxe_interfaces": ["eth1"],
    "rdma_roce_tos": "106",
    "rdma_netns": "shared",
}
SEEN = pytest.StashKey[list[str]]()


def pytest_collection_modifyitems(items):
    """Whatever is in this directory needs virtual machines, in their order and with their time."""
    mine = [item for item in items if HERE in item.path.parents]
    for item in mine:
        item.add_marker(pytest.mark.vm)
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(3600))
    others = [item for item in items if item not in mine]
    items[:] = others + sorted(mine, key=lambda item: STAGES.index(item.path.name))


def pytest_configure(config):
    config.stash[SEEN] = []


def pytest_terminal_summary(terminalreporter, config):
    """What the nodes showed, for whoever reads the log and not the tests."""
    if lines := config.stash[SEEN]:
        terminalreporter.section("seen on the virtual machines")
        for line in lines:
            terminalreporter.line(line)


@pytest.fixture(scope="session")
def note(request):
    """A function that keeps a line for the end of the log."""
    return request.config.stash[SEEN].append


@dataclass(frozen=True)
class VmRack:
    """Two virtual machines, and hfprov as an operator runs it on them."""

    rack: Rack
    db: Path
    stays: bool
    """It was there before, and is there afterwards."""

    @property
    def inventory(self) -> Path:
        return self.rack.paths.inventory

    @property
    def nodes(self) -> tuple[VmNode, ...]:
        return vm_nodes(self.rack.paths)

    def reset(self, *nodes: VmNode) -> None:
        """Throw nodes away and start them anew."""
        self.rack.reset([node.name for node in nodes])

    @contextmanager
    def declaring(self, *roles, **variables):
        """Within the block these roles only are wanted of the nodes, with these variables."""
        with self._declared("group_vars/practice_rack.yml", roles, variables):
            yield self

    @contextmanager
    def wanting(self, node, *roles, **variables):
        """The same for one node, which others may be at work beside."""
        with self._declared(f"host_vars/{node.name}.yml", roles, variables):
            yield self

    @contextmanager
    def _declared(self, name, roles, variables):
        [play] = yaml.safe_load(paths.playbook().read_text(encoding="utf-8"))
        others = [one["role"] for one in play["roles"] if one["role"] not in roles]
        declared = self.inventory / name
        declared.parent.mkdir(exist_ok=True)
        # At once: another run may be reading it.
        new = self.db.with_name(declared.name)
        new.write_text(yaml.safe_dump({"hfprov_skip_roles": others, **variables}), encoding="utf-8")
        shutil.move(new, declared)
        try:
            yield
        finally:
            declared.unlink()

    def argv(self, command, *options):
        """``hfprov COMMAND -i INVENTORY --db DB OPTIONS``."""
        argv = [HFPROV, command, "-i", self.inventory, "--db", self.db, *options]
        return [str(word) for word in argv]

    def hfprov(self, command, *options, timeout=600):
        """Run such a command to its end."""
        done = subprocess.run(
            self.argv(command, *options), capture_output=True, text=True, timeout=timeout,
            check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def document(self, command, *options, timeout=600):
        """The JSON document of such a command, whatever its exit code."""
        return json.loads(self.hfprov(command, *options, "--json", timeout=timeout).stdout)

    def patient(self, command, *options):
        """The same where emulated nodes take minutes for what others do in a second."""
        return self.document(command, *options, "--deadline", "900", timeout=3000)

    def recorded(self, run):
        """A run as the record has it."""
        return self._of_record("show", run)

    def last_run(self, node):
        """The last run that has a node; others may have begun since."""
        [run] = self._of_record("runs", "--last", "1", "--limit", node.name)["runs"]
        return run["run"]

    def _of_record(self, *words):
        argv = [str(word) for word in (HFPROV, *words, "--db", self.db, "--json")]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True)
        return json.loads(done.stdout)


@pytest.fixture(scope="session")
def vm_machine():
    """A machine that can have virtual machines; anywhere else these tests are skipped."""
    try:
        host.require_root()
        VmEngine(host.lab_dir(), Rack().paths).require_host()
    except LabError as error:
        pytest.skip(f"{error.message} {error.hint or ''}")


@pytest.fixture(scope="session")
def vm_rack(vm_machine):  # noqa: ARG001 - skips first
    """A rack of two virtual machines as the factory made them: kernel 6.1, data NICs at 1500."""
    given = os.environ.get("HFPROV_TEST_VM_RACK")
    # Not below pytest's folders, which pytest deletes while nodes may still run from there.
    home = Path(tempfile.mkdtemp(prefix="hfprov-vm-tests-", dir="/var/tmp"))
    rack = Rack(given or home / "rack", say=lambda text: print(text, file=sys.stderr))
    try:
        rack.up(2, engine="vm")
        yield VmRack(rack, home / "record.db", stays=bool(given))
    finally:
        if not given:
            rack.down()
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def node(vm_rack) -> VmNode:
    """The first node."""
    return vm_rack.nodes[0]


@pytest.fixture(scope="session")
def meanwhile():
    """Starts what one node does while a test is about the other one."""
    with ThreadPoolExecutor() as pool:
        yield pool.submit


@pytest.fixture(scope="session")
def power_cut(vm_rack, meanwhile):
    """The second node, cut off its power and switched on again: what was seen, once it is back."""
    return meanwhile(cut_power, vm_rack.nodes[1])


@pytest.fixture(scope="session")
def fresh(vm_rack):
    """The rack when nothing has been provisioned yet. Asked for by what changes nodes for good."""
    yield vm_rack
    if vm_rack.stays:
        vm_rack.reset(*vm_rack.nodes)


@pytest.fixture(scope="session")
def declared(fresh):
    """What the site wants, for the rest of the session."""
    with fresh.declaring(*ROLES, **DECLARED):
        yield fresh


@pytest.fixture(scope="session")
def second(declared, meanwhile):
    """The second node: cut off by its new MTU, and provisioned after it has helped itself.

    Goes on while the first one is provisioned; ``result()`` gives (CutOff, Provisioned).
    """

    def go(wants):
        node = declared.nodes[1]
        with declared.wanting(node, "jumbo_mtu", jumbo_mtu_confirm_seconds=CONFIRM):
            cut = let_it_be_cut_off(declared, node)
        wants.enter_context(declared.wanting(node, *SECOND))
        return cut, provision(declared, node)

    with ExitStack() as wants:
        yield meanwhile(go, wants)


@pytest.fixture(scope="session")
def provisioned(declared, second, note):
    """Both nodes as ``provision`` leaves them, by name."""
    one, two = declared.nodes
    note(f"interrupts of {one.name} before: {places(one)}")
    found = {one.name: provision(declared, one), two.name: second.result()[1]}
    note(f"interrupts of {one.name} after provision: {places(one)}")
    return found


@pytest.fixture(scope="session")
def wrong(provisioned, declared, meanwhile):
    """The second node's reboot into the old kernel. Goes on while the first one reboots."""
    node = declared.nodes[1]
    return meanwhile(reboot_into, declared, node, provisioned[node.name].kernel)


@pytest.fixture(scope="session")
def rebooted(provisioned, declared, wrong, note):  # noqa: ARG001 - meanwhile
    """The first node in the new kernel by ``reboot``, after a slow shutdown."""
    done = reboot_slowly(declared, declared.nodes[0])
    for name, boots in done.document["rebooted"].items():
        note(f"kernel of {name}: {' -> '.join(boots['kernel'])}")
    return done


@pytest.fixture(scope="session")
def away(rebooted, declared, wrong):  # noqa: ARG001 - before it
    """The first node, off where it should have come back, and switched on again."""
    wrong.result()  # the rollout has the second node as well
    return reboot_for_good(declared)
