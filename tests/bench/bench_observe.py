"""Observe practice nodes: hfprov beside Ansible and beside the floor, in one run, as ratios.

    python tests/bench/bench_observe.py [--nodes 20] [--repeats 3]

Needs root, for a practice rack of its own. What is compared, side by side on the same nodes:

* floor: ``ssh node python3 -c pass``, cold, on all nodes at once;
* hfprov: every check of every role observed, judged and recorded (``hfprov drift``, whole process);
* Ansible: one task that collects facts (``ansible.builtin.setup``), default and tuned ansible.cfg.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hfprov.lab.rack import Rack

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
DEADLINE = 1200.0
PLAYBOOK = """- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.setup:
"""


def quiet(argv: list[str | Path], codes: tuple[int, ...] = (0,), **env: str) -> None:
    done = subprocess.run(
        [str(one) for one in argv],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    if done.returncode not in codes:
        sys.exit(f"{argv[0]} ended with {done.returncode}:\n{done.stderr[-2000:]}")


def contenders(rack: Rack, names: list[str], work: Path) -> dict[str, Callable[[], None]]:
    """What is timed, by name. The floor comes first: everything is shown as a ratio to it."""
    status = rack.status()
    playbook = work / "facts.yml"
    playbook.write_text(PLAYBOOK)
    default = work / "default.cfg"
    default.write_text("[defaults]\n")

    def floor() -> None:
        def one(name: str) -> None:
            quiet(["ssh", "-F", status.ssh_config, name, "python3 -c pass"])

        with ThreadPoolExecutor(len(names)) as pool:
            list(pool.map(one, names))

    def observe() -> None:
        argv = [BIN / "hfprov", "drift", "--json", "-i", status.inventory]
        # 1 and 3: fresh nodes are not at their baseline; that is not what is measured here.
        quiet([*argv, "--db", work / "record.db"], codes=(0, 1, 3))

    def facts(config: Path) -> Callable[[], None]:
        argv = [BIN / "ansible-playbook", "-i", status.inventory, playbook]
        return lambda: quiet(argv, ANSIBLE_CONFIG=str(config))

    return {
        "ssh python3 -c pass (floor)": floor,
        "hfprov drift, all checks": observe,
        "ansible setup, tuned": facts(ROOT / "ansible.cfg"),
        "ansible setup, default": facts(default),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    options.add_argument("--nodes", type=int, default=20)
    options.add_argument("--repeats", type=int, default=3)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="hfprov-bench-", dir="/var/tmp") as folder:
        rack = Rack(Path(folder) / "rack", say=lambda text: print(text, file=sys.stderr))
        try:
            names = [node.name for node in rack.up(chosen.nodes).nodes]
            runs = contenders(rack, names, Path(folder))
            seconds: dict[str, list[float]] = {name: [] for name in runs}
            for _ in range(chosen.repeats):
                for name, run in runs.items():
                    started = time.monotonic()
                    run()
                    seconds[name].append(time.monotonic() - started)
        finally:
            rack.down()
    show(seconds, len(names))


def show(seconds: dict[str, list[float]], nodes: int) -> None:
    medians = {name: statistics.median(some) for name, some in seconds.items()}
    floor = next(iter(medians.values()))
    print(f"{nodes} nodes, median of {len(next(iter(seconds.values())))} runs, in turn:")
    for name, median in medians.items():
        spread = f"{min(seconds[name]):.1f}-{max(seconds[name]):.1f}"
        print(f"  {name:30} {median:7.2f} s ({spread})  {median / floor:6.2f} x floor")


if __name__ == "__main__":
    main()
