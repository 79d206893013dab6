"""Bring fresh nodes to their baseline: hfprov beside ansible-playbook, in one run, as ratios.

    python tests/bench/bench_converge.py [--nodes 4] [--repeats 1]

Needs root, for a practice rack of its own; every run begins with nodes that were thrown away and
started anew. Compared, in turn:

* ``ansible-playbook playbooks/provision.yml`` with the project's ansible.cfg;
* ``hfprov provision --waves 100%``: observed, converged in one wave, observed again, recorded;
* ``hfprov provision``: the same, with its usual waves (one node, a tenth, the rest), which cost
  time and save racks.

The aim is that the second is no slower than the first. Prints figures and asserts nothing.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from hfprov.lab.rack import Rack

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
DEADLINE = 3600.0
PLAIN, AT_ONCE, IN_WAVES = "ansible-playbook", "hfprov, one wave", "hfprov, its usual waves"
LEFT_OPEN = (0, 1)
"""hfprov's exit codes after which nodes are as far as one run brings them: 1 is what waits, such as
an MTU that has to be confirmed."""


def contenders(inventory: Path, work: Path) -> dict[str, list[str | Path]]:
    hfprov: list[str | Path] = [BIN / "hfprov", "provision", "--json", "-i", inventory]
    hfprov += ["--db", work / "record.db"]
    return {
        PLAIN: [BIN / "ansible-playbook", "-i", inventory, ROOT / "playbooks" / "provision.yml"],
        AT_ONCE: [*hfprov, "--waves", "100%"],
        IN_WAVES: [*hfprov],
    }


def seconds(argv: Sequence[str | Path], codes: Sequence[int], work: Path) -> float:
    """How long a command takes. Ends the bench when it does not come to what is compared."""
    env = {
        **os.environ,
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_ROLES_PATH": str(ROOT / "roles"),
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(work / "compiled"),
    }
    started = time.monotonic()
    done = subprocess.run(
        [str(part) for part in argv],
        env=env,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    if done.returncode not in codes:
        sys.exit(f"{argv[0]} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr}")
    return time.monotonic() - started


def measured(rack: Rack, nodes: int, repeats: int, work: Path) -> dict[str, list[float]]:
    status = rack.up(nodes)
    names = [node.name for node in status.nodes if node.name != "timeserver"]
    found: dict[str, list[float]] = {}
    for _ in range(repeats):
        for name, argv in contenders(status.inventory, work).items():
            rack.reset(names)
            # A fresh node still starts its services: that is nobody's converge.
            time.sleep(10)
            taken = seconds(argv, (0,) if name == PLAIN else LEFT_OPEN, work)
            print(f"{name}: {taken:.1f} s", file=sys.stderr)
            found.setdefault(name, []).append(taken)
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    options.add_argument("--nodes", type=int, default=4)
    options.add_argument("--repeats", type=int, default=1)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="hfprov-bench-", dir="/var/tmp") as folder:
        work = Path(folder)
        rack = Rack(work / "rack", say=lambda text: print(text, file=sys.stderr))
        try:
            found = measured(rack, chosen.nodes, chosen.repeats, work)
        finally:
            rack.down()
    plain = statistics.median(found[PLAIN])
    print(f"{chosen.nodes} fresh nodes; {os.cpu_count()} cores for the controller and all nodes")
    for name, every in found.items():
        taken = statistics.median(every)
        print(f"  {name:28} {taken:7.1f} s {taken / plain:6.2f} x ansible-playbook")
    print(f"  aim: '{AT_ONCE}' at most 1.00 x")


if __name__ == "__main__":
    main()
