"""What it costs the controller to observe, judge and record thousands of hosts: CPU and memory.

    python tests/bench/bench_fleet.py [--hosts 10000] [--drifted 10] [--sweeps 2]
    python tests/bench/bench_fleet.py --ssh [--hosts 20 300 1000 3000]

Hosts are simulated: each answers with one observation (of this machine, or that of ``--evidence``)
with a machine-id, boot and clock of its own; in the second sweep every tenth has drifted. The
second sweep is what every night costs: it compares with the first one.

Without ``--ssh`` answers are handed over as if they had arrived. With it each host is an address of
this machine, and answers over a real OpenSSH server (see ssh_nodes.py); what the server and the
hosts do is not counted, but takes most of the time on the clock. Beside it stands the floor: ``ssh
HOST true`` on the same hosts, as many at once.
Prints figures and asserts nothing: machines differ. The aim is below 15 ms of CPU per host and
sweep, SSH included, whether there are 20 hosts or 10,000; and below 500 MB for 10,000 hosts.
"""

from __future__ import annotations

import argparse
import cProfile
import functools
import gc
import json
import os
import pstats
import resource
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from ssh_nodes import SshNodes, ssh_nodes

from hfprov import probe
from hfprov.baseline import Baseline, Value
from hfprov.declare.connection import Connection
from hfprov.judge import reads_for, wanted_reads
from hfprov.observe import AT_ONCE as OBSERVED_AT_ONCE
from hfprov.observe import Answer, observe_groups, parse_answer
from hfprov.record.store import Record
from hfprov.report.drift import drift_of
from hfprov.sweep import Fleet, judge_answers
from hfprov.verdict import Outcome

ROOT = Path(__file__).parents[2]
STARTED = time.time()
SIZES = (20, 300, 1000, 3000)
"""Fleets that are swept over SSH, unless told otherwise; 10,000 take a quarter of an hour."""
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


def answer(text: str, number: int, sweep: int, every: int) -> bytes:
    """What one host says in one sweep."""
    drifted = sweep and every and number % every == 0
    now = STARTED + 86_400 * sweep + number / 100
    mine = text.replace('"now":0.0', f'"now":{now:.3f}')
    mine = mine.replace("MACHINE-ID", f"{number + 0xABC:032x}")
    mine = mine.replace("BOOT-ID", f"{number:08x}-0000-4000-8000-000000000000")
    return mine.replace("DISTRIBUTION", "plan9" if drifted else "debian").encode()


def answers(text: str, every: int, hosts: int, sweep: int) -> Iterator[list[Answer]]:
    """One answer per host, made when it is asked for, like those of real nodes.

    So many come together, as while the controller is busy with others. What a node does by itself
    (it packs its answer) is not counted.
    """
    group: list[Answer] = []
    for number in range(hosts):
        raw = answer(text, number, sweep, every)
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


def one_sweep(
    record: Record, fleet: Fleet, told_by: Iterable[Sequence[Answer]], sweep: int
) -> None:
    names = list(fleet.baselines)
    begun, own, wall = cpu(), time.thread_time() - NODES["cpu"], time.monotonic()
    with record.start_run("drift", ["bench"], fleet.baselines) as log:
        views = judge_answers(fleet, told_by, log, phase="before")
        log.finish(0)
    each = 1000 * (cpu() - begun) / len(names)
    # The main thread judges and records; whatever else runs waits for, reads and decodes answers.
    judged = 1000 * (time.thread_time() - NODES["cpu"] - own) / len(names)
    seconds = time.monotonic() - wall
    done = cpu()
    found = drift_of(record, log.id, datetime.now(UTC))
    told = cpu()
    silent = [view for view in views.values() if not view.reachable]
    bad = sum(view.outcome is not Outcome.PASS for view in views.values()) - len(silent)
    verdicts = sum(len(view.verdicts) for view in views.values()) // len(views)
    parts = f" (SSH and decoding {each - judged:.2f}, judging and recording {judged:.2f})"
    print(
        f"{len(names):6} hosts, sweep {sweep + 1}: {each:.2f} ms of CPU each"
        f"{parts if fleet.connections else ''}; {seconds:.1f} s on the clock, load "
        f"{os.getloadavg()[0]:.1f}; {verdicts} verdicts each, {bad} hosts not good, {len(silent)} "
        f"not reached; told by {len(found.causes)} causes in {told - done:.1f} CPU s; peak memory "
        f"{peak():.0f} MiB",
        flush=True,
    )
    if silent:
        print(f"         {silent[0].host}: {silent[0].reason}", flush=True)


def sweeps(fleet: Fleet, number: int, told_by: Callable[[int], Iterable[Sequence[Answer]]]) -> None:
    """So many sweeps over one fleet, in a record of its own."""
    with tempfile.TemporaryDirectory(prefix="hfprov-bench-", dir="/var/tmp") as folder:
        with Record.open(Path(folder) / "record.db") as record:
            for sweep in range(number):
                one_sweep(record, fleet, told_by(sweep), sweep)
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
        print(f"         {size / 1e6:.0f} MB on disk")


def fleet_of(hosts: int, like: Baseline, nodes: SshNodes | None = None) -> Fleet:
    names = [f"node{number:05d}" for number in range(hosts)]
    baselines = {name: Baseline(name, like.roles, like.values) for name in names}
    return Fleet(baselines, {} if nodes is None else nodes.connections(names))


def over_ssh(text: str, like: Baseline, chosen: argparse.Namespace) -> None:
    asked: dict[int, int] = {}

    def says(number: int) -> bytes:
        # Called in the process that answers for all hosts, which each sweep asks once.
        asked[number] = asked.get(number, -1) + 1
        return answer(text, number, asked[number], chosen.drifted)

    for hosts in chosen.hosts or SIZES:
        with (
            tempfile.TemporaryDirectory(prefix="hfprov-bench-", dir="/var/tmp") as folder,
            ssh_nodes(Path(folder), says) as nodes,
        ):
            fleet = fleet_of(hosts, like, nodes)
            floor(fleet, nodes)
            sweeps(fleet, chosen.sweeps, functools.partial(observed, fleet))


def floor(fleet: Fleet, nodes: SshNodes) -> None:
    """What it costs to log in to each host once, with OpenSSH's own client, and do nothing."""

    def login(connection: Connection) -> int:
        argv = nodes.bare(connection)
        return subprocess.run(argv, stdin=subprocess.DEVNULL, check=False).returncode

    hosts = len(fleet.connections)
    begun, wall = cpu_of_children(), time.monotonic()
    with ThreadPoolExecutor(OBSERVED_AT_ONCE) as pool:
        failed = sum(map(bool, pool.map(login, fleet.connections.values())))
    each, seconds = 1000 * (cpu_of_children() - begun) / hosts, time.monotonic() - wall
    print(
        f"{hosts:6} hosts, floor:   {each:.2f} ms of CPU each for 'ssh HOST true'; {seconds:.1f} s "
        f"on the clock; {failed} failed",
        flush=True,
    )


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def observed(fleet: Fleet, _: int) -> Iterator[Sequence[Answer]]:
    yield from observe_groups(wanted_reads(fleet.baselines), fleet.connections)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--hosts", type=int, nargs="+", help="One or more sizes of the fleet.")
    for name, default in (("drifted", 10), ("sweeps", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--ssh", action="store_true", help="Let answers come over real SSH.")
    parser.add_argument("--evidence", type=Path, help="A file of 'hfprov evidence'.")
    parser.add_argument(
        "--profile", action="store_true", help="The main thread's time, by function."
    )
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("Stopped."))  # the server is stopped as well
    recorded, like = template(chosen.evidence)
    gc.set_threshold(100_000)  # as the command line does
    gc.freeze()
    text = marked(recorded)
    print(f"{len(text) / 1024:.0f} KiB of evidence per host; {peak():.0f} MiB to start with")
    profile = cProfile.Profile()
    if chosen.profile:
        profile.enable()
    if chosen.ssh:
        over_ssh(text, like, chosen)
    else:
        for hosts in chosen.hosts or (10_000,):
            told_by = functools.partial(answers, text, chosen.drifted, hosts)
            sweeps(fleet_of(hosts, like), chosen.sweeps, told_by)
    if chosen.profile:
        profile.disable()
        pstats.Stats(profile).sort_stats("tottime").print_stats(30)


if __name__ == "__main__":
    main()
