"""Where drift and check mode of Ansible disagree: measure it on practice nodes, write the table.

    python scripts/agreement.py measure RACK [--missing] [--limit NODES] [--role ROLE]   # root
    python scripts/agreement.py [--check]                                                # the page

``measure`` breaks one effect of a role at a time (``tests/contracts/roles_mutations.yml``) on a
node at its baseline, asks both, and undoes it. RACK is the directory of a converged practice rack
with a node of each network configuration; more nodes are used at the same time. The role
'container_runtime' is measured where the rack declares an engine, and 'kernel' after the nodes have
been given small kernels and a boot menu. Results are kept after each mutation, so that a run may be
ended at any time; those of mutations that are gone are dropped. Why they disagree is written by
hand, in ``agreement_reasons.yml``.
"""

# ruff: noqa: INP001, T201 - a script, not a package; a command line prints

from __future__ import annotations

import argparse
import fcntl
import importlib.util
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import yaml

from hfprov.checks.registry import Facts
from hfprov.cli.options import selection
from hfprov.cli.site import Site, open_site
from hfprov.errors import HfprovError
from hfprov.judge import find_check, judge_facts, reads_for
from hfprov.observe import observe
from hfprov.play import PlayRequest, PlayStatus, TaskResult, run_play
from hfprov.verdict import Outcome

ROOT = Path(__file__).resolve().parent.parent
CONTRACTS = ROOT / "tests" / "contracts"
MUTATIONS = CONTRACTS / "roles_mutations.yml"
RESULTS = CONTRACTS / "agreement_results.yml"
REASONS = CONTRACTS / "agreement_reasons.yml"
PAGE = ROOT / "docs" / "agreement.md"
HEAD = """\
# Drift and check mode

`hfprov drift` says what differs; `ansible-playbook --check` says what a role would change. Each row
below is one effect of a role, broken by hand on a node at its baseline, with what both then said.
Measured by `scripts/agreement.py measure`; the reasons are in
`tests/contracts/agreement_reasons.yml`, and a test fails when a disagreement has none. The
measurement is of practice nodes, which are containers: `container_runtime` with a Docker that runs
in them, `kernel` with small packages and a boot menu that stand for Debian's. What is set in the
running kernel, in interrupts and in adapters is the host's, so no mutation of it can be made there:
of `irq_affinity`, `rdma` and `kernel` this is what they leave on disk, and in systemd. The role
`accelerator` is not in it, because its driver needs devices; its mutations are in
`tests/lab/accelerator_mutations.yml`.

"""
Result = dict[str, Any]
Task = tuple[str, Mapping[str, str]]
"""A role and a mutation of it."""
STACKS = ("networkd", "ifupdown")


def disagrees(result: Mapping[str, Any]) -> bool:
    """Whether only one of the two saw the mutation."""
    return bool(result["drift"]) != bool(result["check_mode"])


def load(path: Path) -> dict[str, dict[str, Any]]:
    """A file of mappings by role and mutation; empty when there is none."""
    return (yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}) or {}


def store(results: Mapping[str, Mapping[str, Result]]) -> None:
    RESULTS.write_text(yaml.safe_dump(results, sort_keys=True, width=100), encoding="utf-8")


def keep(role: str, what: str, found: Result) -> None:
    """Add one result to those there are now: two runs may measure on nodes of their own."""
    with MUTATIONS.open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        results = load(RESULTS)
        results.setdefault(role, {})[what] = found
        store(results)


class Bench:
    """Breaks a node in one way after the other, and asks both."""

    def __init__(
        self, rack: Path, limit: str | None, work: Mapping[str, SimpleQueue[Task]]
    ) -> None:
        os.environ["HFPROV_TEST_RACK"] = str(rack)
        spec = importlib.util.spec_from_file_location(
            "mutations", CONTRACTS / "test_roles_mutations.py"
        )
        if spec is None or spec.loader is None:
            raise SystemExit("The mutations' test cannot be read.")
        self.lab = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.lab)
        self._chosen = selection([rack / "inventory"], limit)
        self.site: Site = open_site(self._chosen)
        self._work = work

    def prepare(self, roles: Collection[str]) -> set[str]:
        """What roles need of the nodes; the roles that this rack cannot measure."""
        lacking = set()
        if "container_runtime" in roles and self.lab.engine() != "docker":
            print("container_runtime: not measured: the rack declares no engine 'docker'")
            lacking.add("container_runtime")
        if "kernel" in roles:
            self.lab.prepare_for_kernels(tuple(self.nodes()))
        # Only now: preparing declares more than the rack did.
        self.site = open_site(self._chosen)
        return lacking

    def nodes(self) -> dict[str, str]:
        """The stack of each node."""
        return {node: self.lab.stack_of(node) for node in sorted(self.site.fleet.baselines)}

    def serve(self, node: str, stack: str) -> None:
        """Take mutations that only this node can have, then those of any node."""
        while True:
            try:
                role, mutation = self._next(stack)
            except Empty:
                return
            try:
                found = self.measure(node, role, mutation)
            except (RuntimeError, AssertionError, HfprovError, subprocess.SubprocessError) as error:
                print(f"{node} {role}: {mutation['what']}: not measured: {error}", flush=True)
                continue
            keep(role, mutation["what"], found)
            both = f"drift {found['drift'] or 'nothing'}, check mode {found['check_mode']}"
            print(f"{node} {role}: {mutation['what']}: {both}", flush=True)

    def _next(self, stack: str) -> Task:
        try:
            return self._work[stack].get_nowait()
        except Empty:
            return self._work[""].get_nowait()

    def measure(self, node: str, role: str, mutation: Mapping[str, str]) -> Result:
        """What drift and check mode say of one mutation."""
        self.lab.on_node(node, self.lab.SNAPSHOT)
        try:
            self.require_clean(node, role)
            self.lab.on_node(node, mutation["how"])
            return {"drift": self.drift(node, role), "check_mode": self.check_mode(node, role)}
        finally:
            restore = self.lab.STOP_RIVALS + self.lab.RESTORE_FILES + self.lab.RESTORE[role]
            self.lab.on_node(node, restore)

    def require_clean(self, node: str, role: str) -> None:
        """What an earlier mutation left is made good; what cannot be is an error."""
        if self.drift(node, role):
            self.play(node, role, check=False)
            left = self.drift(node, role)
            if left:
                raise RuntimeError(f"'{node}' is not at its baseline: {left}")

    def drift(self, node: str, role: str) -> list[str]:
        """Checks of the role that are not good, as ``hfprov drift`` judges them."""
        baseline = self.site.fleet.baselines[node]
        answer = observe(self.site.fleet.connections[node], reads_for(baseline))
        if answer.observation is None:
            raise RuntimeError(f"'{node}' was not observed: {answer.error}")
        verdicts = judge_facts(Facts(answer.observation, baseline), baseline)
        bad = {one.check for one in verdicts if one.outcome in (Outcome.FAIL, Outcome.UNKNOWN)}
        return sorted(one for one in bad if (check := find_check(one)) and check.role == role)

    def check_mode(self, node: str, role: str) -> list[str]:
        """Tasks that would change something, or that refuse."""
        return self.play(node, role, check=True)

    def play(self, node: str, role: str, *, check: bool) -> list[str]:
        said: list[str] = []

        def on_task(task: TaskResult) -> None:
            if task.changed or task.failed:
                said.append(f"{task.task} (fails)" if task.failed else task.task)

        tools = self.site.tools
        request = PlayRequest(
            playbook=tools.playbook,
            inventory=tools.inventory,
            hosts=(node,),
            config=tools.config,
            roles_path=tools.roles_path,
            tags=(role,),
            extra_vars={"hfprov_hosts": "all"},
            check=check,
        )
        outcome = run_play(request, on_task)
        if outcome.status is not PlayStatus.FINISHED:
            raise RuntimeError(f"The play on '{node}' did not finish: {outcome.message}")
        return said


def measure(rack: Path, limit: str | None, wanted: Collection[str], *, missing: bool) -> None:
    """Ask both of every mutation, or of those without a result, on all nodes at once."""
    mutations: dict[str, list[dict[str, str]]] = yaml.safe_load(MUTATIONS.read_text("utf-8"))
    work: dict[str, SimpleQueue[Task]] = {stack: SimpleQueue() for stack in ("", *STACKS)}
    bench = Bench(rack, limit, work)
    results = {
        role: {what: one for what, one in known.items() if what in names}
        for role, known in load(RESULTS).items()
        if (names := {one["what"] for one in mutations.get(role, [])})
    }
    store(results)
    tasks = []
    for role, some in mutations.items():
        known = results.get(role, {})
        asked = some if not wanted or role in wanted else []
        tasks += [(role, one) for one in asked if not (missing and one["what"] in known)]
    lacking = bench.prepare({role for role, _ in tasks})
    for role, one in _by_turns(tasks):
        if role not in lacking:
            work[one.get("stack", "")].put((role, one))
    threads = [threading.Thread(target=bench.serve, args=one) for one in bench.nodes().items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for stack in STACKS:
        while not work[stack].empty():
            role, one = work[stack].get()
            print(f"{role}: {one['what']}: not measured: no node has '{stack}'")


def _by_turns(tasks: Iterable[Task]) -> list[Task]:
    """The first of each role, then the second: a run that is ended early has something of all."""
    seen: Counter[str] = Counter()
    numbered = []
    for role, one in tasks:
        numbered.append((seen[role], role, one))
        seen[role] += 1
    return [(role, one) for _, role, one in sorted(numbered, key=lambda item: item[0])]


def page(
    results: Mapping[str, Mapping[str, Result]],
    reasons: Mapping[str, Any],
    mutations: Mapping[str, Iterable[Mapping[str, str]]],
) -> str:
    """The page as Markdown: disagreements with their reasons, what agrees, what nobody measured."""
    absent = [
        (role, one["what"])
        for role, some in sorted(mutations.items())
        for one in some
        if one["what"] not in results.get(role, {})
    ]
    total = sum(len(some) for some in results.values())
    odd = [
        (role, what, one)
        for role, some in sorted(results.items())
        for what, one in sorted(some.items())
        if disagrees(one)
    ]
    counts = f"Of {total} mutations, both or neither saw {total - len(odd)}; one saw {len(odd)}."
    lines = [
        f"{counts} Not measured yet: {len(absent)}.\n",
        "## Where they disagree\n",
        "| Role | Mutation | Drift | Check mode | Why |",
        "|---|---|---|---|---|",
    ]
    for role, what, one in odd:
        why = reasons.get(role, {}).get(what, "**no reason given**")
        lines.append(
            f"| `{role}` | {what} | {_said(one['drift'])} | {_said(one['check_mode'])} "
            f"| {' '.join(str(why).split())} |"
        )
    lines += [
        "\n## Where they agree\n",
        "| Role | Mutation | Drift | Check mode |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| `{role}` | {what} | {_said(one['drift'])} | {_said(one['check_mode'])} |"
        for role, some in sorted(results.items())
        for what, one in sorted(some.items())
        if not disagrees(one)
    ]
    if absent:
        lines += ["\n## Not measured yet\n", "| Role | Mutation |", "|---|---|"]
        lines += [f"| `{role}` | {what} |" for role, what in sorted(absent)]
    return HEAD + "\n".join(lines) + "\n"


def _said(what: list[str]) -> str:
    return "<br>".join(one.replace("|", "\\|") for one in what) or "nothing"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="Only say whether it is up to date.")
    commands = parser.add_subparsers(dest="command")
    run = commands.add_parser("measure")
    run.add_argument("rack", type=Path)
    run.add_argument("--role", action="append", default=[], help="Only this; may be repeated.")
    run.add_argument("--limit", help="Only these nodes (Ansible pattern).")
    run.add_argument("--missing", action="store_true", help="Only mutations without a result.")
    chosen = parser.parse_args(arguments)
    if chosen.command == "measure":
        measure(chosen.rack.absolute(), chosen.limit, chosen.role, missing=chosen.missing)
        return 0
    new = page(load(RESULTS), load(REASONS), yaml.safe_load(MUTATIONS.read_text("utf-8")))
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == new:
        return 0
    if chosen.check:
        print("docs/agreement.md: out of date, run 'python scripts/agreement.py'")
        return 1
    PAGE.write_text(new, encoding="utf-8")
    print("docs/agreement.md: written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
