"""What the record costs: CPU per host written, and the time of every question the CLI asks.

    python tests/bench/bench_record.py [--hosts 10000] [--checks 40] [--subjects 2] [--kilobytes 40]

Prints figures and asserts nothing: machines differ. The aim is below 3 ms CPU per host written.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hfprov.baseline import Baseline, Value
from hfprov.record.identity import Identity
from hfprov.record.store import Record
from hfprov.verdict import Verdict, failed, passed


def verdicts_of(
    number: int, args: argparse.Namespace, *, bad: bool, volatile: str
) -> list[Verdict]:
    """Verdicts of one host. Every tenth host differs from its neighbours."""
    own = f" on unit {number}" if number % 10 == 0 else ""
    found = [
        Verdict(
            f"subsystem{check % 10}.setting_{check}",
            passed(f"device{subject}", observed=f"value {check}{own}", expected=f"value {check}"),
        )
        for check in range(args.checks)
        for subject in range(args.subjects)
    ]
    if volatile:
        found[1] = Verdict("time.offset", passed("", observed=volatile, expected="below 1 ms"))
    if bad:
        reason = "The value was overwritten at boot."
        finding = failed("device0", observed="wrong", expected="value 0", reason=reason)
        found[0] = Verdict("subsystem0.setting_0", finding)
    return found


def observation_of(number: int, kilobytes: int, words: list[str]) -> bytes:
    """JSON of about the size and entropy of a node's answer."""
    pick = random.Random(number)
    lines = (
        f"{pick.choice(words)} {pick.randrange(1 << 20)} {pick.choice(words)}"
        for _ in range(kilobytes * 1024 // 43)
    )
    text = "\n".join(lines)
    return json.dumps({"host": number, "results": {"run sysctl -a": [{"text": text}]}}).encode()


class Stopwatch:
    """Adds up what happens inside of its ``with`` blocks."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.wall += time.perf_counter() - wall
        self.cpu += time.process_time() - cpu

    def report(self, label: str, *, per: int = 0) -> None:
        each = f"   {1000 * self.cpu / per:6.2f} ms CPU per host" if per else ""
        figures = f"{self.wall:8.3f} s wall {self.cpu:8.3f} s CPU"
        print(f"{label:<58} {figures}{each}", flush=True)


@contextmanager
def measured(label: str, *, per: int = 0) -> Iterator[None]:
    watch = Stopwatch()
    with watch.running():
        yield
    watch.report(label, per=per)


def write_run(
    record: Record, args: argparse.Namespace, label: str, *, bad_every: int, volatile: bool
) -> None:
    baselines = {
        f"node{number:05d}": Baseline(
            f"node{number:05d}", ("limits",), {"limits_nofile": Value(1 << 20, "defaults:1")}
        )
        for number in range(args.hosts)
    }
    words = [f"word{number}.of_kernel" for number in range(400)]
    pool = [observation_of(number, args.kilobytes, words) for number in range(50)]
    with measured(f"{label}: start_run", per=args.hosts):
        log = record.start_run("check", ["hfprov", "check"], baselines)
    watch = Stopwatch()
    for number, name in enumerate(baselines):
        bad = bool(bad_every) and number % bad_every == 0
        text = f"{log.id} {number}" if volatile else ""
        verdicts = verdicts_of(number, args, bad=bad, volatile=text)
        uuid = f"4c4c4544-0042-{number:04x}-8052-b8c04f4d4c32"
        identity = Identity(f"{number + 0xABC:032x}", uuid)
        with watch.running():
            log.observed(name, "before", pool[number % 50], verdicts, identity=identity)
    watch.report(f"{label}: observed", per=args.hosts)
    with measured(f"{label}: finish"):
        log.finish(0)


def ask(label: str, question: Callable[[], object]) -> None:
    with measured(label):
        question()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("hosts", 10_000), ("checks", 40), ("subjects", 2), ("kilobytes", 40)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record.db"
        record = Record.open(path)
        write_run(record, args, "new fleet", bad_every=0, volatile=False)
        write_run(record, args, "a tenth drifted", bad_every=10, volatile=False)
        write_run(record, args, "every set new (a volatile text)", bad_every=10, volatile=True)
        record.close()
        ask("open", lambda: Record.open(path).close())
        record = Record.open(path)
        host = f"node{args.hosts // 2:05d}"
        ask("runs", record.runs)
        ask("one host of the last run", lambda: record.run().host(host))
        ask("history of one host", lambda: record.history(host))
        ask("since", lambda: record.since(host, "subsystem0.setting_0", "device0"))
        ask("last verdicts before a run", lambda: record.last_verdicts(host, record.run().id))
        ask("evidence of one host", lambda: record.evidence("last", host))
        first = record.runs()[1].id
        ask("all hosts of a run", lambda: sum(1 for _ in record.run(first).hosts()))
        ask("all hosts of the run of new sets", lambda: sum(1 for _ in record.run().hosts()))
        ask("differences of a run", lambda: sum(1 for _ in record.run(first).differences()))
        ask("differences, every set new", lambda: sum(1 for _ in record.run().differences()))
        ask("newest judgement of all hosts", lambda: sum(1 for _ in record.fleet()))
        record.close()
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(f"{size / 1e6:.0f} MB on disk for 3 runs; {most} MB of memory at most")


if __name__ == "__main__":
    main()
