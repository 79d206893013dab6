"""What it costs the controller to judge and record thousands of hosts: CPU, memory, and where to.

    python tests/bench/bench_fleet.py [--hosts 10000] [--drifted 10] [--sweeps 2]

Hosts are simulated: each answers with one observation (of this machine, or that of ``--evidence``)
with a machine-id, boot and clock of its own; in the second sweep every tenth has drifted. SSH is
left out (see bench_observe.py). The second sweep is what every night costs: it compares with the
first one.
Prints figures and asserts nothing: machines differ. The aim is below 60 s of CPU and 500 MB for
10,000 hosts.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import json
import pstats
import resource
import tempfile
import time
import zlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from hfprov import probe
from hfprov.baseline import Baseline, Value
from hfprov.judge import reads_for
from hfprov.observe import Answer, parse_answer
from hfprov.record.store import Record
from hfprov.report.drift import drift_of
from hfprov.sweep import Fleet, judge_answers
from hfprov.verdict import Outcome

ROOT = Path(__file__).parents[2]
TOGETHER = 8
"""Answers that wait for the controller at the same time; 64 hosts are observed at once."""


def template(evidence: Path | None) -> tuple[dict[str, Any], Baseline]:
    """A node's answer to every read of every check, and what the node was declared to be."""
    if evidence is not None:
        document = json.loads(evidence.read_text(encoding="utf-8"))
        declared = document["baseline"]
        values = {name: Value(one["value"], "bench") for name, one in declared["values"].items()}
        return document["observation"], Baseline("bench", tuple(declared["roles"]), values)
    roles = [path.name for path in sorted((ROOT / "roles").iterdir())]
    found: dict[str, Any] = {}
    for role in roles:
        path = ROOT / "roles" / role / "defaults" / "main.yml"
        found |= yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    values = {name: Value(value, "bench") for name, value in found.items()}
    baseline = Baseline("bench", tuple(roles), values)
    reads = [{"id": read.id, **read.request} for read in reads_for(baseline)]
    return probe.observe({"reads": reads, "deadline": 60}), baseline


def marked(recorded: Mapping[str, Any]) -> str:
    """The answer as JSON with marks where hosts differ."""
    rows = {
        "file /etc/machine-id": "MACHINE-ID\n",
        "file /proc/sys/kernel/random/boot_id": "BOOT-ID\n",
        "file /etc/os-release": "ID=DISTRIBUTION\nVERSION_ID=12\n",
    }
    for name, text in rows.items():
        recorded["results"][name] = [{"name": name[5:], "status": "ok", "text": text}]
    return json.dumps({**recorded, "now": 0.0}, separators=(",", ":"))


def answers(text: str, hosts: int, sweep: int, every: int) -> Iterator[list[Answer]]:
    """One answer per host, made when it is asked for, like those of real nodes.

    So many come together, as while the controller is busy with others. What a node does by itself
    (it packs its answer) is not counted.
    """
    group: list[Answer] = []
    started = time.time() + 86_400 * sweep
    for number in range(hosts):
        drifted = sweep and every and number % every == 0
        mine = text.replace('"now":0.0', f'"now":{started + number / 100:.3f}')
        mine = mine.replace("MACHINE-ID", f"{number + 0xABC:032x}")
        mine = mine.replace("BOOT-ID", f"{number:08x}-0000-4000-8000-000000000000")
        raw = mine.replace("DISTRIBUTION", "plan9" if drifted else "debian").encode()
        packed = at_the_node(raw)
        group.append(Answer(f"node{number:05d}", parse_answer(raw), raw, packed))
        if len(group) == TOGETHER or number == hosts - 1:
            yield group
            group = []


NODES = {"cpu": 0.0}
"""CPU seconds of what the nodes would do by themselves."""


def at_the_node(raw: bytes) -> bytes:
    """The answer as it would travel."""
    begun = time.thread_time()
    packed = zlib.compress(raw, 1)
    NODES["cpu"] += time.thread_time() - begun
    return packed


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime - NODES["cpu"]


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def one_sweep(record: Record, fleet: Fleet, text: str, sweep: int, every: int) -> None:
    names = list(fleet.baselines)
    begun, wall = cpu(), time.monotonic()
    with record.start_run("drift", ["bench"], fleet.baselines) as log:
        told_by = answers(text, len(names), sweep, every)
        views = judge_answers(fleet, told_by, log, phase="before")
        log.finish(0)
    done = cpu()
    found = drift_of(record, log.id, datetime.now(UTC))
    told = cpu()
    bad = sum(view.outcome is not Outcome.PASS for view in views.values())
    verdicts = sum(len(view.verdicts) for view in views.values()) // len(views)
    print(
        f"sweep {sweep + 1}: judged and recorded {len(names)} hosts in {done - begun:.1f} CPU s "
        f"({1000 * (done - begun) / len(names):.2f} ms each; {time.monotonic() - wall:.1f} s on "
        f"the clock), {verdicts} verdicts each, {bad} hosts not good; told by "
        f"{len(found.causes)} causes in {told - done:.1f} CPU s; peak memory {peak():.0f} MiB",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, default in (("hosts", 10_000), ("drifted", 10), ("sweeps", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--evidence", type=Path, help="A file of 'hfprov evidence'.")
    parser.add_argument("--profile", action="store_true")
    chosen = parser.parse_args()
    recorded, like = template(chosen.evidence)
    gc.set_threshold(100_000)  # as the command line does
    gc.freeze()
    text = marked(recorded)
    names = [f"node{number:05d}" for number in range(chosen.hosts)]
    fleet = Fleet({name: Baseline(name, like.roles, like.values) for name in names}, {})
    print(f"{len(text) / 1024:.0f} KiB of evidence per host; {peak():.0f} MiB to start with")
    profile = cProfile.Profile()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        with Record.open(Path(folder) / "record.db") as record:
            for sweep in range(chosen.sweeps):
                if chosen.profile and sweep:
                    profile.enable()
                one_sweep(record, fleet, text, sweep, chosen.drifted)
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
        print(f"{size / 1e6:.0f} MB on disk")
    if chosen.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(30)


if __name__ == "__main__":
    main()
