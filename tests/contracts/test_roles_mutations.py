"""Each effect of each role, broken by hand on a practice node, is found; and the role repairs it.

Needs a converged practice rack of its own: HFPROV_TEST_RACK names its directory.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
import yaml
from hfprov import probe
from hfprov.baseline import Baseline, Value
from hfprov.judge import judge, reads_for
from hfprov.reading import Observation
from hfprov.verdict import Outcome

ROOT = Path(__file__).parents[2]
RACK = Path(os.environ.get("HFPROV_TEST_RACK", "/nonexistent"))
MUTATIONS = yaml.safe_load(Path(__file__).with_name("roles_mutations.yml").read_text())
BAD = {Outcome.FAIL, Outcome.UNKNOWN}
GROUPS = {"limits": "limits.", "jumbo_mtu": "mtu.", "time_sync": "time."}
CASES = [
    pytest.param(role, mutation, id=f"{role}-{mutation['what'].replace(' ', '_')}")
    for role, mutations in MUTATIONS.items()
    for mutation in mutations
]
pytestmark = [
    pytest.mark.lab,
    pytest.mark.slow,
    pytest.mark.skipif(not RACK.is_dir(), reason="HFPROV_TEST_RACK names no practice rack"),
]


def on_node(node: str, *argv: str, stdin: str = "") -> str:
    done = subprocess.run(
        ["ssh", "-F", RACK / "ssh" / "config", node, *argv],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def node_with(stack: str) -> str:
    """The first node whose data interface is configured by this stack."""
    for index in (1, 2):
        node = f"node{index:02}"
        found = on_node(node, "ls /etc/network/interfaces.d/eth1 2>/dev/null || true").strip()
        if bool(found) == (stack == "ifupdown"):
            return node
    pytest.fail(f"The rack has no node with '{stack}'.")


def baseline() -> Baseline:
    values = {}
    for role in GROUPS:
        values |= yaml.safe_load((ROOT / "roles" / role / "defaults" / "main.yml").read_text())
    values |= yaml.safe_load((RACK / "inventory/group_vars/accelerators.yml").read_text())
    return Baseline("node", tuple(GROUPS), {name: Value(v, "") for name, v in values.items()})


def bad_checks(node: str, role: str) -> set[str]:
    """Ids of the role's checks that do not pass on a node, seen and judged now."""
    base, nonce = baseline(), secrets.token_hex(4)
    reads = [{"id": read.id, **read.request} for read in reads_for(base)]
    plan = {"nonce": nonce, "deadline": 60, "budget": 16 << 20, "reads": reads}
    argument = base64.b64encode(zlib.compress(json.dumps(plan).encode())).decode()
    out = on_node(node, "python3", "-IS", "-", argument, stdin=Path(probe.__file__).read_text())
    body = out.split(f"hfprov-begin {nonce}\n")[1].split("\n")[0]
    seen = Observation.from_json(json.loads(zlib.decompress(base64.b64decode(body))))
    verdicts = [one for one in judge(seen, base) if one.check.startswith(GROUPS[role])]
    assert verdicts
    return {one.check for one in verdicts if one.outcome in BAD}


def converge(node: str, role: str, *options: str) -> int:
    """Run one role on one node; how many tasks changed it."""
    done = subprocess.run(
        [Path(sys.executable).with_name("ansible-playbook"), ROOT / "playbooks/provision.yml"]
        + ["-i", RACK / "inventory", "--limit", node, "--tags", role, *options],
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    recap = done.stdout.split("PLAY RECAP")[1]
    return int(recap.split("changed=")[1].split()[0])


@pytest.mark.parametrize(("role", "mutation"), CASES)
def test_mutation_is_found_and_repaired(role, mutation):
    node = node_with(mutation.get("stack", "networkd"))
    assert bad_checks(node, role) == set(), "not converged before the mutation"
    on_node(node, mutation["how"])
    assert mutation["seen_by"] in bad_checks(node, role)
    repaired = mutation.get("repaired", True)
    if repaired is True:
        assert converge(node, role, "--check") > 0, "'--check' does not agree with the checks"
        assert converge(node, role) > 0
    else:
        on_node(node, repaired)
    assert bad_checks(node, role) == set(), "not repaired"
    assert repaired is not True or converge(node, role, "--check") == 0, "not idempotent"


def test_every_check_of_the_roles_is_provoked():
    """A check that no mutation makes fail may be unable to fail."""
    from hfprov.checks.registry import all_checks

    provoked = {one["seen_by"] for mutations in MUTATIONS.values() for one in mutations}
    ours = {one.id for one in all_checks() if one.role in GROUPS}
    # These depend on what a practice node must not do: leave its network, wait for minutes.
    assert ours - provoked == {"mtu.management", "time.offset"}
