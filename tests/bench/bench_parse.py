"""How long one core takes to parse and judge the evidence of many nodes with eight GPUs.

    python tests/bench/bench_parse.py [NODES]

The evidence is that of a sound HGX H100 node: nvidia-smi's report, links and topology, 256 PCI
functions with their links and error counters, and a boot's kernel log of 2,500 lines. Every node is
decoded from its JSON anew, as it arrives. Prints CPU seconds, and where they went on one node. Only
the checks of accelerators and of the kernel's log are counted.
"""

from __future__ import annotations

import cProfile
import importlib.util
import json
import pstats
import resource
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from hfprov.checks import registry
from hfprov.judge import judge
from hfprov.observe import parse_answer
from hfprov.verdict import Outcome

NODES = Path(__file__).parents[1] / "unit" / "checks" / "accelerators" / "conftest.py"
GOAL_SECONDS, GOAL_NODES = 60, 1000
FUNCTIONS, LINES = 256, 2500
CLOCKS, FIELDS = 225, 180
"""With these a GPU's part of the report has as many elements as a real one of an H200."""


def builder() -> ModuleType:
    """The hand-written nodes of the unit tests."""
    spec = importlib.util.spec_from_file_location("accelerator_nodes", NODES)
    if spec is None or spec.loader is None:
        raise SystemExit(f"'{NODES}' cannot be read.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def evidence() -> tuple[bytes, Any]:
    """One node's answer as the probe would send it, and its baseline."""
    node = builder().h100_node()
    clocks = "".join(
        f"<supported_graphics_clock>{n} MHz</supported_graphics_clock>" for n in range(CLOCKS)
    )
    fields = "".join(f"<setting_{n}>{n} MHz</setting_{n}>" for n in range(FIELDS))
    more = f"<supported_clocks>{clocks}</supported_clocks><more>{fields}</more></gpu>"
    node.replace("run nvidia-smi -q -x", "</gpu>", more)
    for n in range(FUNCTIONS - 20):
        node.bus(f"0001:{n // 8:02x}:{n % 8:02x}.0", "8086:352a", "60400", driver="pcieport")
    node.kernel_log(*[f"pci 0001:00:{n % 32:02x}.0: BAR {n}: assigned" for n in range(LINES)])
    raw = json.dumps({"probe": 1, "results": node.results}).encode()
    return raw, node.baseline()


def main() -> None:
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else GOAL_NODES
    raw, baseline = evidence()
    ours = tuple(
        one
        for one in registry.all_checks()
        if one.id.startswith(("accelerator.", "kernel_events."))
    )
    registry.all_checks = lambda: ours  # type: ignore[assignment] # a cached function, replaced here

    def once() -> int:
        verdicts = judge(parse_answer(raw), baseline)
        bad = [one for one in verdicts if one.outcome in (Outcome.FAIL, Outcome.UNKNOWN)]
        if bad or not verdicts:
            raise SystemExit(f"The result is wrong, the figures mean nothing: {bad[:3]}")
        return len(verdicts)

    count = once()
    started, wall = time.process_time(), time.monotonic()
    for _ in range(nodes):
        once()
    cpu, wall = time.process_time() - started, time.monotonic() - wall
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"evidence per node   {len(raw) / 1024:8.0f} KiB of JSON, {count} verdicts")
    print(f"{nodes} nodes          {cpu:8.1f} CPU s ({wall:.1f} s on the clock)")
    print(f"per node            {1000 * cpu / nodes:8.1f} ms")
    print(f"goal                {1000 * GOAL_SECONDS / GOAL_NODES:8.1f} ms")
    print(f"peak memory         {peak:8.0f} MiB")
    profile = cProfile.Profile()
    profile.runcall(once)
    pstats.Stats(profile).sort_stats("cumulative").print_stats(22)


if __name__ == "__main__":
    main()
