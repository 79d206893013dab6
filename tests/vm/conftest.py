"""A session's rack of two virtual machines. Every test in this directory is marked ``vm``.

    sh scripts/test.sh vm        or, while writing tests, on a rack that stays up:
    hfprov lab up --engine vm --nodes 2 --dir /var/tmp/my/rack
    HFPROV_TEST_VM_RACK=/var/tmp/my/rack pytest -n 0 -m vm tests/vm/test_....py

A test leaves the nodes on, started and reachable; ``vm_rack.reset(node)`` gives a new one.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
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

HERE = Path(__file__).parent
HFPROV = Path(sys.executable).with_name("hfprov")


def pytest_collection_modifyitems(items):
    """Whatever is in this directory needs virtual machines, and emulated ones need their time."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.vm)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(3600))


@dataclass(frozen=True)
class VmRack:
    """Two virtual machines, and hfprov as an operator runs it on them."""

    rack: Rack
    db: Path

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
        [play] = yaml.safe_load(paths.playbook().read_text(encoding="utf-8"))
        others = [one["role"] for one in play["roles"] if one["role"] not in roles]
        declared = self.inventory / "group_vars" / "practice_rack.yml"
        text = yaml.safe_dump({"hfprov_skip_roles": others, **variables})
        declared.write_text(text, encoding="utf-8")
        try:
            yield self
        finally:
            declared.unlink()

    def hfprov(self, command, *options, timeout=600):
        """Run ``hfprov COMMAND -i INVENTORY --db DB OPTIONS`` to its end."""
        argv = [HFPROV, command, "-i", self.inventory, "--db", self.db, *options]
        done = subprocess.run(
            [str(word) for word in argv], capture_output=True, text=True, timeout=timeout,
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
        yield VmRack(rack, home / "record.db")
    finally:
        if not given:
            rack.down()
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def node(vm_rack) -> VmNode:
    """The first node."""
    return vm_rack.nodes[0]


@pytest.fixture(scope="session")
def build_fake_accelerators():
    """A function from a kernel release to the module of that kernel, as bytes."""
    built = {}

    def build(release: str) -> bytes:
        if release not in built:
            with tempfile.TemporaryDirectory(prefix="hfprov-module-") as out:
                argv = ["sh", HERE / "fake_accelerators/build.sh", release, out]
                done = subprocess.run(
                    argv, capture_output=True, text=True, timeout=600, check=False
                )
                assert done.returncode == 0, done.stderr[-2000:]
                built[release] = (Path(out) / "fake_accelerators.ko").read_bytes()
        return built[release]

    missing = [tool for tool in ("apt-get", "make", "gcc", "strip") if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"building a kernel module needs {', '.join(missing)}")
    return build
