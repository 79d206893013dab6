"""What the gate costs: the whole process, from start to exit code, against its parts.

    python tests/bench/bench_gate.py [NODES]

Printed as ratios to the start of a bare Python, which say the same on any machine, and as seconds.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hfprov.baseline import Baseline
from hfprov.catalogue.profiles import find_profile
from hfprov.certificate import signing
from hfprov.certificate.case import Case
from hfprov.certificate.document import Issuer, certificate, text_of
from hfprov.certificate.index import write_index
from hfprov.certificate.places import home_of
from hfprov.record.identity import Identity
from hfprov.record.model import Certificate
from hfprov.record.store import Record
from hfprov.verdict import Finding, Outcome, Verdict

HFPROV = Path(sys.executable).with_name("hfprov")
RUNS = 15


def main() -> None:
    nodes = [f"node{number:05}" for number in range(int(sys.argv[1]) if sys.argv[1:] else 1000)]
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder, "record.db")
        seconds = _certified(where, nodes)
        print(f"{len(nodes)} certificates signed by one process: {seconds[0]:.2f} s")
        print(f"stored: {seconds[1]:.2f} s; index signed and written: {seconds[2]:.3f} s")
        index = home_of(str(where)) / "index.json"
        print(f"index: {index.stat().st_size / len(nodes):.0f} bytes for each node\n")
        gate = [str(HFPROV), "gate", "--db", str(where)]
        bare = _time([sys.executable, "-c", "pass"])
        rows = {
            "a bare Python": bare,
            "hfprov version (all commands loaded)": _time([str(HFPROV), "version"]),
            "gate, 1 node": _time([*gate, nodes[0]]),
            f"gate, {len(nodes)} nodes": _time([*gate, *nodes]),
            f"gate, {len(nodes)} nodes and one without": _time([*gate, *nodes, "x"], code=1),
        }
    for name, (median, cpu) in rows.items():
        print(f"{name:<40} {median / bare[0]:6.1f} x  {median:.3f} s, CPU {cpu:.3f} s")


def _certified(where: Path, nodes: list[str]) -> tuple[float, float, float]:
    """A record with a certificate for each node; seconds to sign, to store, to write the index."""
    now = datetime.now(UTC) - timedelta(seconds=1)
    home = home_of(str(where))
    signing.ensure_key(home / "signing_key", home / "allowed_signers")
    baselines = {node: Baseline(node, ("limits",)) for node in nodes}
    profile = ("quick", find_profile("quick"))
    issuer = Issuer("0", "bench", signing.default_principal())
    passes = tuple(
        Verdict(name, Finding(Outcome.PASS)) for name in ("node.identity", "node.os", "mtu.live")
    )
    documents = [
        certificate(
            Case("r1", baselines[node], Identity(f"{number + 17:032x}"), "ab" * 32, now, passes),
            profile, issuer, now,
        )
        for number, node in enumerate(nodes)
    ]  # fmt: skip
    texts = [text_of(one) for one in documents]
    begin = time.perf_counter()
    signatures = signing.sign(texts, home / "signing_key")
    signed = time.perf_counter()
    with (
        Record.open(where) as record,
        record.start_run("certify", ["bench"], baselines) as log,
    ):
        for document, text, signature in zip(documents, texts, signatures, strict=True):
            log.certified(
                Certificate(
                    id=document["id"],
                    host=document["host"],
                    profile="quick",
                    issued_at=datetime.fromisoformat(document["issued_at"]),
                    expires_at=datetime.fromisoformat(document["expires_at"]),
                    baseline_digest=document["baseline"],
                    document=text,
                    signature=signature,
                )
            )
        log.finish(0)
        stored = time.perf_counter()
        write_index(record, home / "signing_key")
    return signed - begin, stored - signed, time.perf_counter() - stored


def _time(argv: list[str], *, code: int = 0) -> tuple[float, float]:
    """Median of seconds, and of CPU seconds with those of children, of some runs."""
    taken = []
    for _ in range(RUNS):
        before, begin = _children(), time.perf_counter()
        done = subprocess.run(argv, capture_output=True, check=False, timeout=60)
        seconds = time.perf_counter() - begin
        if done.returncode != code:
            raise SystemExit(f"{argv[:4]} ended with {done.returncode}: {done.stderr!r}")
        taken.append((seconds, _children() - before))
    return statistics.median(one for one, _ in taken), statistics.median(one for _, one in taken)


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
