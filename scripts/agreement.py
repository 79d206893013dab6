"""Where drift and check mode of Ansible disagree: measure it on practice nodes, write the table.

    python scripts/agreement.py measure RACK [--role ROLE]   # root; writes the results
    python scripts/agreement.py [--check]                    # writes docs/agreement.md

``measure`` breaks one effect of a role at a time (``tests/contracts/roles_mutations.yml``) on a
node at its baseline, asks both, and undoes it. RACK is the directory of a converged practice rack
with a node of each network configuration. Results are kept after each mutation; those of mutations
that are gone are dropped. Why they disagree is written by hand, in ``agreement_reasons.yml``.
"""

# ruff: noqa: INP001, T201 - a script, not a package; a command line prints

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import yaml

from hfprov.checks.registry import Facts
from hfprov.cli.options import Site, open_site, selection
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
measurement is of containers: what needs a kernel or devices of its own is not in it.

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


class Bench:
    """Breaks a node in one way after the other, and asks both."""

    def __init__(self, rack: Path, work: Mapping[str, SimpleQueue[Task]]) -> None:
        os.environ["HFPROV_TEST_RACK"] = str(rack)
        spec = importlib.util.spec_from_file_location(
            "mutations", CONTRACTS / "test_roles_mutations.py"
        )
        if spec is None or spec.loader is None:
            raise SystemExit("The mutations' test cannot be read.")
        self.lab = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.lab)
        self.site: Site = open_site(selection([rack / "inventory"], None))
        self.results = load(RESULTS)
        self._work = work
        self._writing = threading.Lock()

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
            with self._writing:
                self.results.setdefault(role, {})[mutation["what"]] = found
                RESULTS.write_text(
                    yaml.safe_dump(self.results, sort_keys=True, width=100), encoding="utf-8"
                )
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


def measure(rack: Path, wanted: str | None) -> None:
    """Ask both of every mutation, on both nodes at once."""
    mutations: dict[str, list[dict[str, str]]] = yaml.safe_load(MUTATIONS.read_text("utf-8"))
    work: dict[str, SimpleQueue[Task]] = {stack: SimpleQueue() for stack in ("", *STACKS)}
    bench = Bench(rack, work)
    for role, some in mutations.items():
        known = bench.results.get(role, {})
        names = {one["what"] for one in some}
        bench.results[role] = {what: one for what, one in known.items() if what in names}
        for one in some if wanted in (None, role) else ():
            work[one.get("stack", "")].put((role, one))
    threads = [
        threading.Thread(target=bench.serve, args=(bench.lab.node_with(stack), stack))
        for stack in STACKS
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def page(results: Mapping[str, Mapping[str, Result]], reasons: Mapping[str, Any]) -> str:
    """The page as Markdown: the disagreements with their reasons, then all that agrees."""
    total = sum(len(some) for some in results.values())
    odd = [
        (role, what, one)
        for role, some in sorted(results.items())
        for what, one in sorted(some.items())
        if disagrees(one)
    ]
    lines = [
        f"Of {total} mutations, both or neither saw {total - len(odd)}; one saw {len(odd)}.\n",
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
    return HEAD + "\n".join(lines) + "\n"


def _said(what: list[str]) -> str:
    return "<br>".join(one.replace("|", "\\|") for one in what) or "nothing"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="Only say whether it is up to date.")
    commands = parser.add_subparsers(dest="command")
    run = commands.add_parser("measure")
    run.add_argument("rack", type=Path)
    run.add_argument("--role")
    chosen = parser.parse_args(arguments)
    if chosen.command == "measure":
        measure(chosen.rack.absolute(), chosen.role)
        return 0
    new = page(load(RESULTS), load(REASONS))
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
