"""One provisioned practice rack for the tests that need one, and hfprov as a user runs it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import jsonschema
import pytest
import yaml

from hfprov import paths
from hfprov.errors import LabError
from hfprov.lab import host
from hfprov.lab.rack import Rack
from hfprov.lab.state import load_state

HFPROV = Path(sys.executable).with_name("hfprov")
SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
NODES = ("node01", "node02", "node03")
QUICK_ROLES = ("time_sync", "limits", "jumbo_mtu")
# What takes minutes to install and has tests of its own.
QUICK = """
diagnostics_tools_wanted: [ethtool]
diagnostics_tools_services_off: []
hardening_security_updates: false
"""


@dataclass(frozen=True)
class Done:
    """How one command ended."""

    code: int
    out: str
    err: str

    @property
    def document(self):
        """The one JSON document on standard output, held against its schema where there is one."""
        document = json.loads(self.out)
        schema = SCHEMAS / f"{document['schema'].removeprefix('hfprov.').replace('/', '-')}.json"
        if schema.exists():
            jsonschema.validate(document, json.loads(schema.read_text(encoding="utf-8")))
        return document

    def failing(self, name):
        """Checks of a host that are neither good nor beside the point."""
        [one] = [one for one in self.document["hosts"] if one["host"] == name]
        return {v["check"] for v in one["verdicts"] if v["outcome"] in ("fail", "unknown")}


class Site:
    """A rack with a record of its own: what an operator has."""

    nodes = NODES

    def __init__(self, rack, db):
        self.rack = rack
        self.db = db
        self.inventory = rack.paths.inventory

    def argv(self, command, *options):
        inventory = ("-i", str(self.inventory)) if command in NEEDS_INVENTORY else ()
        return [str(HFPROV), command, *inventory, "--db", str(self.db), *map(str, options)]

    def hfprov(self, command, *options, env=None, timeout=1200):
        done = subprocess.run(
            self.argv(command, *options), capture_output=True, text=True, timeout=timeout,
            check=False, stdin=subprocess.DEVNULL, env={**os.environ, **(env or {})},
        )  # fmt: skip
        assert "Traceback" not in done.stderr, done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    def judge(self, evidence):
        done = subprocess.run(
            [str(HFPROV), "judge", "--evidence", str(evidence), "--json"],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        return Done(done.returncode, done.stdout, done.stderr)

    def start(self, command, *options, env=None):
        """The same in the background, in a session of its own; standard error is a pipe."""
        return subprocess.Popen(
            self.argv(command, *options), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True, start_new_session=True,
            env={**os.environ, **(env or {})},
        )  # fmt: skip

    def inside(self, name, script, *, check=True, timeout=60):
        """Run a shell script in a node as root, without SSH."""
        state = load_state(self.rack.paths)
        node = next(node for node in state.nodes if node.name == name)
        done = self.rack._engine.execute(state, node, ["sh", "-euc", script], timeout=timeout)
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    @staticmethod
    def until(condition, *, seconds=60):
        """Wait for a condition; what it returned. Fails when it never comes true."""
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            assert time.monotonic() < deadline, "it never happened"
            time.sleep(0.02)
        return found

    def history(self, name):
        return self.hfprov("history", name, "--json").document["runs"]

    def run(self, wanted="last"):
        """A recorded run as a document."""
        return self.hfprov("show", wanted, "--json").document


PATIENCE = 1800
"""Seconds for one test: the first one provisions a rack, which takes its time on a busy machine."""


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(PATIENCE))


NEEDS_INVENTORY = (
    *("provision", "drift", "certify", "path-mtu", "reboot"),
    *("measure", "trial", "traffic", "container-smoke"),
)


@pytest.fixture(scope="session")
def able_machine():
    """A machine that can have practice nodes.

    Without root, tools or kernel support there is nothing to test on: that is a skip, which
    scripts/test.sh says as loudly. A rack that does not come up on an able machine is a failure.
    """
    try:
        host.require_root()
        host.require_tools()
        host.require_kernel()
    except LabError as error:
        # Only these three say that the machine cannot; 'rack.up' is not within this block.
        pytest.skip(error.message)


@pytest.fixture(scope="session")
def fresh(able_machine):  # noqa: ARG001 - skips first
    """A rack of three nodes as the factory made them.

    HFPROV_TEST_RACK names one that is up already and stays up: for writing tests.
    """
    given = os.environ.get("HFPROV_TEST_RACK")
    # Not below pytest's folders, which pytest deletes while nodes may still be mounted there.
    home = Path(tempfile.mkdtemp(prefix="hfprov-tests-", dir="/var/tmp"))
    rack = Rack(given or home / "rack")
    try:
        rack.up(len(NODES))
        variables = rack.paths.inventory / "group_vars" / "accelerators.yml"
        if QUICK not in (text := variables.read_text(encoding="utf-8")):
            variables.write_text(text + QUICK, encoding="utf-8")
        yield Site(rack, home / "record.db")
    finally:
        if not given:
            rack.down()
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def light(able_machine):  # noqa: ARG001 - skips first
    """A rack at a baseline of three quick roles, for tests of what comes after provisioning.

    HFPROV_TEST_LIGHT_RACK names one that is up already and stays up: for writing tests.
    """
    given = os.environ.get("HFPROV_TEST_LIGHT_RACK")
    home = Path(tempfile.mkdtemp(prefix="hfprov-light-", dir="/var/tmp"))
    rack = Rack(given or home / "rack")
    try:
        rack.up(len(NODES))
        variables = rack.paths.inventory / "group_vars" / "accelerators.yml"
        text = variables.read_text(encoding="utf-8")
        if "hfprov_skip_roles" not in text:
            [play] = yaml.safe_load(paths.playbook().read_text(encoding="utf-8"))
            names = [one if isinstance(one, str) else one["role"] for one in play["roles"]]
            skipped = [name for name in names if name not in QUICK_ROLES]
            variables.write_text(f"{text}\nhfprov_skip_roles: {skipped}\n", encoding="utf-8")
        site = Site(rack, home / "record.db")
        done = site.hfprov("provision", "--waves", "100%")
        assert done.code == 0, done.out + done.err
        yield site
    finally:
        if not given:
            rack.down()
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def quick_site(light):
    """The rack of quick roles at its baseline, with a fresh record."""
    home = Path(tempfile.mkdtemp(prefix="hfprov-record-", dir="/var/tmp"))
    try:
        yield Site(light.rack, home / "record.db")
    finally:
        shutil.rmtree(home, ignore_errors=True)


@dataclass(frozen=True)
class Story:
    """The first day of a rack: what was found, what was done, what was found then."""

    before: Done
    provision: Done
    after: Done


@pytest.fixture(scope="session")
def story(fresh):
    before = fresh.hfprov("drift", "--json")
    provision = fresh.hfprov("provision", "--json", "--waves", "1,100%")
    return Story(before, provision, fresh.hfprov("drift", "--json"))


@pytest.fixture(scope="session")
def provisioned(fresh, story):
    """The rack at its baseline. A test that breaks a node leaves it as it found it."""
    assert story.after.code == 0, story.after.out
    return fresh


@pytest.fixture
def site(provisioned):
    """The rack at its baseline, with a fresh record."""
    home = Path(tempfile.mkdtemp(prefix="hfprov-record-", dir="/var/tmp"))
    try:
        yield Site(provisioned.rack, home / "record.db")
    finally:
        shutil.rmtree(home, ignore_errors=True)
