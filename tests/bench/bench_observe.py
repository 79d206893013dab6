"""Observe practice nodes: hfprov beside Ansible, pyinfra and the floor, in one run, as ratios.

    python tests/bench/bench_observe.py [--nodes 20] [--good 2] [--repeats 3] [--full]
        [--rack DIR] [--pyinfra PROGRAM]

Needs root, for a practice rack of its own, or the rack of ``--rack`` (which is left as it is, but
for what ``provision`` does to its first nodes). Compared, in turn, on the same nodes:

* floor: ``ssh node python3 -c pass``, cold, on all nodes at once: with ssh as it comes, and with
  the key exchange of the rack's configuration, which is the one that hfprov has (Debian 12's ssh
  takes 25 ms at each end for the one that it prefers);
* ``hfprov drift``: every check of every role observed, judged and recorded, the whole process;
* ``pyinfra --dry`` of the same state, as far as pyinfra has operations for it
  (tests/bench/pyinfra_deploy.py, which needs PyYAML beside pyinfra), if there is a pyinfra;
* on the first ``--good`` nodes, which are provisioned before: ``hfprov provision``, and
  ``ansible-playbook`` of the same roles: ``--check`` with a default and with the project's
  ansible.cfg, and without ``--check``; with ``--full`` also ``hfprov provision --full``.

Ansible's time grows with every node, so it is measured on one node and on ``--good`` nodes, and
said for all of them by the straight line through both. Prints figures and asserts nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from hfprov.lab.rack import Rack

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
PLAYBOOK = ROOT / "playbooks" / "provision.yml"
DEPLOY = Path(__file__).with_name("pyinfra_deploy.py")
DEADLINE = 1200.0
DRIFT, PROVISION = "hfprov drift", "hfprov provision, good nodes"
CHECK, TUNED_CHECK = "ansible --check, default", "ansible --check, tuned"
APPLY, APPLY_GOOD = "ansible, all roles, tuned", "ansible, all roles, tuned, good nodes"
PYINFRA = "pyinfra --dry"
FLOOR, QUICK_FLOOR = "floor, ssh as it comes", "floor, hfprov's key exchange"
AS_IT_COMES = ("-o", "KexAlgorithms=+curve25519-sha256")
"""One that is among its defaults anyway; instead of those of a configuration."""
AIMS = (
    (DRIFT, CHECK, 100, "faster than 'ansible-playbook --check', default configuration"),
    (DRIFT, TUNED_CHECK, 60, "faster than 'ansible-playbook --check', the project's ansible.cfg"),
    (DRIFT, PYINFRA, 5, "faster than 'pyinfra --dry'"),
    (PROVISION, APPLY_GOOD, 30, "faster to provision good nodes than to run all roles on them"),
)


@dataclass(frozen=True, slots=True)
class Bench:
    """What is measured, and on what."""

    ssh_config: Path
    inventory: Path
    names: tuple[str, ...]
    good: tuple[str, ...]
    work: Path
    pyinfra: str | None
    repeats: int

    def quiet(self, argv: list[str | Path], codes: tuple[int, ...] = (0,), **env: str) -> int:
        done = subprocess.run(
            [str(one) for one in argv],
            env={**os.environ, **compiled(self.work), **env},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
        if done.returncode not in codes:
            said = (done.stdout[-1500:], done.stderr[-1500:])
            sys.exit(f"{argv[0]} ended with {done.returncode}:\n" + "\n".join(said))
        return done.returncode

    def median(self, run: Callable[[], object], repeats: int = 0) -> float:
        seconds = []
        for _ in range(repeats or self.repeats):
            started = time.monotonic()
            run()
            seconds.append(time.monotonic() - started)
        return statistics.median(seconds)

    def floor(self, *options: str) -> None:
        def one(name: str) -> None:
            self.quiet(["ssh", *options, "-F", self.ssh_config, name, "python3 -c pass"])

        with ThreadPoolExecutor(len(self.names)) as pool:
            list(pool.map(one, self.names))

    def hfprov(self, command: str, hosts: tuple[str, ...], *options: str) -> int:
        argv = [BIN / "hfprov", command, "--json", "-i", self.inventory, *options]
        argv += ["--limit", ",".join(hosts), "--db", self.work / "record.db"]
        # 1 and 3: fresh nodes are not at their baseline; that is not what is measured here.
        return self.quiet(argv, codes=(0, 1, 3))

    def ansible(self, config: Path, hosts: tuple[str, ...], *options: str) -> None:
        argv = [BIN / "ansible-playbook", "-i", self.inventory, PLAYBOOK, *options]
        # 2: a task failed on some host; in check mode that is how it is.
        codes = (0, 2) if "--check" in options else (0,)
        env = {"ANSIBLE_CONFIG": str(config), "ANSIBLE_ROLES_PATH": str(ROOT / "roles")}
        self.quiet([*argv, "--limit", ",".join(hosts)], codes, **env)

    def dry(self) -> None:
        inventory = self.work / "pyinfra_inventory.py"
        data = {"ssh_config_file": str(self.ssh_config), "ssh_user": "root"}
        inventory.write_text(f"nodes = [(name, {data!r}) for name in {list(self.names)!r}]\n")
        self.quiet([str(self.pyinfra), "--dry", inventory, DEPLOY])


def compiled(work: Path) -> dict[str, str]:
    """Compiled modules are kept, as where hfprov and Ansible are installed."""
    return {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(work / "compiled")}


def measured(bench: Bench, *, full: bool) -> Iterator[tuple[str, float, str]]:
    """Name, seconds for all nodes, and how that was found."""
    every, good, names = "on all nodes", f"on {len(bench.good)} nodes", bench.names
    default = bench.work / "default.cfg"
    default.write_text("[defaults]\n")
    make_good(bench)
    bench.hfprov("drift", names)  # once, so that all that is compiled is compiled
    yield FLOOR, bench.median(lambda: bench.floor(*AS_IT_COMES)), every
    yield QUICK_FLOOR, bench.median(bench.floor), every
    yield DRIFT, bench.median(lambda: bench.hfprov("drift", names)), every
    if bench.pyinfra:
        yield PYINFRA, bench.median(bench.dry), every
    yield PROVISION, bench.median(lambda: bench.hfprov("provision", bench.good)), good
    plays = {
        TUNED_CHECK: (ROOT / "ansible.cfg", "--check"),
        CHECK: (default, "--check"),
        APPLY: (ROOT / "ansible.cfg",),
    }
    for name, (config, *options) in plays.items():
        few, seconds, how = on_all(bench, config, options)
        yield name, seconds, how
        if name == APPLY:
            yield APPLY_GOOD, few, good
    if full:
        run = bench.median(lambda: bench.hfprov("provision", bench.good, "--full"), 1)
        yield "hfprov provision --full", run, good


def make_good(bench: Bench) -> None:
    """Provision the good nodes. Twice or more: a new MTU may have to be confirmed first."""
    for wait in (10, 60, 125, 0):
        if bench.hfprov("provision", bench.good, "--waves", "100%") == 0:
            return
        time.sleep(wait)
    sys.exit("The nodes could not be provisioned: see 'hfprov provision' by hand.")


def on_all(bench: Bench, config: Path, options: list[str]) -> tuple[float, float, str]:
    """Seconds of a playbook on the good nodes and on all, from one node and the good ones."""
    first = bench.median(lambda: bench.ansible(config, bench.good[:1], *options), 1)
    if len(bench.good) == 1:
        return first, first, "on one node, NOT scaled: '--good 2' or more scales"
    few = bench.median(lambda: bench.ansible(config, bench.good, *options), 1)
    each = max(0.0, (few - first) / (len(bench.good) - 1))
    seconds = few + each * (len(bench.names) - len(bench.good))
    return few, seconds, f"{first:.0f} s on 1 node, {few:.0f} s on {len(bench.good)}; scaled"


@contextlib.contextmanager
def the_rack(chosen: argparse.Namespace, work: Path) -> Iterator[Rack]:
    rack = Rack(chosen.rack or work / "rack", say=lambda text: print(text, file=sys.stderr))
    if chosen.rack:
        yield rack
        return
    try:
        rack.up(chosen.nodes)
        yield rack
    finally:
        rack.down()


def show(found: dict[str, tuple[float, str]], nodes: int, without: str) -> None:
    floor = found[FLOOR][0]
    print(f"{nodes} nodes; medians; {os.cpu_count()} cores for the controller and all nodes")
    for name, (seconds, how) in found.items():
        print(f"  {name:40} {seconds:8.2f} s {seconds / floor:8.1f} x floor  ({how})")
    print("aims:")
    for name in (FLOOR, QUICK_FLOOR):
        ratio = found[DRIFT][0] / found[name][0]
        print(f"  {ratio:6.1f} x (aim: at most 2)     the {name}")
    for ours, theirs, aim, words in AIMS:
        if theirs in found:
            ratio = found[theirs][0] / found[ours][0]
            print(f"  {ratio:6.1f} x (aim: at least {aim:3})  {words}")
        else:
            print(f"  not measured ({without})  {words}")


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    options.add_argument("--nodes", type=int, default=20)
    options.add_argument("--good", type=int, default=2, help="Nodes for the slow contenders.")
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--full", action="store_true")
    options.add_argument("--rack", type=Path, help="The directory of a rack that is up.")
    options.add_argument("--pyinfra", help="pyinfra's program, in an environment of its own.")
    chosen = options.parse_args()
    pyinfra = chosen.pyinfra or shutil.which("pyinfra")
    without = "" if pyinfra else "there is no pyinfra; name one with --pyinfra"
    with (
        tempfile.TemporaryDirectory(prefix="hfprov-bench-", dir="/var/tmp") as folder,
        the_rack(chosen, Path(folder)) as rack,
    ):
        status = rack.status()
        names = tuple(node.name for node in status.nodes if node.name != "timeserver")
        names = names[: chosen.nodes]
        good = names[: max(1, chosen.good)]
        places = status.ssh_config, status.inventory
        bench = Bench(*places, names, good, Path(folder), pyinfra, chosen.repeats)
        found = {}
        for name, seconds, how in measured(bench, full=chosen.full):
            print(f"{name}: {seconds:.2f} s", file=sys.stderr)
            found[name] = (seconds, how)
    show(found, len(names), without)


if __name__ == "__main__":
    main()
