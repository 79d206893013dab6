"""Recorded outputs of vendors' tools, judged: the sick fail for the right reason, no others do.

The recordings lie beside the project and are not part of it; without them these tests are skipped.
What a senior operator would say of each is data, in ``tests/data/verdicts_accelerator.yml``: for
each file the checks, with their subjects, that ``fail``, ``warn`` or are ``unknown``; all others
pass or do not apply. ``said`` has words that the reason or observation of a check must have.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from hfprov.verdict import Outcome

ROOT = Path(__file__).resolve().parents[4]
CAPTURES = ROOT.parent / "shared" / "captures"
TABLE = yaml.safe_load((ROOT / "tests/data/verdicts_accelerator.yml").read_text("utf-8"))
READS = {
    "nvidia-smi": "nvidia-smi -q -x",
    "nvlink": "nvidia-smi nvlink -s",
    "topo": "nvidia-smi topo -m",
    "amd-smi": "amd-smi static --json",
    "rocm-smi": "rocm-smi -a --json",
    "npu-smi": "npu-smi info",
    "hl-smi": "hl-smi",
    "xpu-smi": "xpu-smi discovery -j",
    "xpu-health": "xpu-smi health -d -1",
    "fabricmanager": "tail -c 262144 /var/log/fabricmanager.log",
}
needs_captures = pytest.mark.skipif(
    not CAPTURES.is_dir(), reason=f"the recorded outputs are not at {CAPTURES}"
)
FABRIC = (
    "systemctl show --property=Id,LoadState,ActiveState,SubState,UnitFileState "
    "nvidia-fabricmanager.service"
)
SILENT_ABOUT = (
    "accelerator.aer",
    "accelerator.sku",
    "accelerator.count",
    "accelerator.driver",
    "accelerator.compatibility",
    "accelerator.host_memory",
)
"""Checks that need more of a node than one tool's output; they have tests of their own."""


def furnished(node: Any, name: str, row: dict[str, Any]) -> Any:
    """The node with the capture as the output of the tool it is from."""
    text = (CAPTURES / name).read_text("utf-8")
    tool = row.get("as") or name.split("/", 1)[0]
    for number, pci_id in enumerate(row.get("bus", ())):
        node.bus(f"0000:{number + 1:02x}:00.0", pci_id)
    if tool == "kernel-log":
        node.kernel_log()
        [read] = [one for one in node.results if one.startswith("run journalctl -k")]
        node.put(read, text, code=0)
        return node
    node.command(READS[tool], text)
    if tool == "nvlink":
        node.command(READS["nvidia-smi"], text)
    if tool == "fabricmanager":
        node.bus("0000:a0:00.0", "10de:22a3", "68000", driver="nvidia-nvswitch")
        node.bus("0000:01:00.0", "10de:2330")
        node.module("nvidia", "550.127.05")
        node.command(FABRIC, "LoadState=loaded\nActiveState=active\nSubState=running\n"
                     "UnitFileState=enabled\n")  # fmt: skip
        node.command("nv-fabricmanager --version", "Fabric Manager version is : 550.127.05\n")
    if tool == "xpu-health":
        node.command("xpu-smi discovery -j", '{"device_list": [{"device_id": 0}]}')
    if tool == "amd-smi":
        node.command("amd-smi metric --json", text)
    if tool == "topo":
        node.files("list /sys/class/infiniband/*", **{"/sys/class/infiniband/mlx5_0": ""})
        node.bus("0000:01:00.0", "10de:2330")
    return node


def found(node: Any, row: dict[str, Any]) -> dict[str, list[str]]:
    """``check subject`` of what is not a pass, by outcome.

    An excerpt of a kernel log never shows the whole boot, so that each check of it that finds
    nothing is unknown; that is tested once, and left out here.
    """
    only = tuple(row.get("only", ("accelerator.", "kernel_events.")))
    bad: dict[str, list[str]] = {}
    for (check, subject), outcome in sorted(node.bad().items()):
        cut = check.startswith("kernel_events.") and outcome is Outcome.UNKNOWN and not subject
        if check.startswith(only) and check not in SILENT_ABOUT and not cut:
            bad.setdefault(outcome.value, []).append(f"{check} {subject}".strip())
    return bad


@needs_captures
@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if not row.get("skip")])
def test_recorded_output_is_judged_as_an_operator_would(bare, name):
    row = TABLE[name]
    node = furnished(bare(**row.get("values", {})), name, row)
    bad = found(node, row)
    assert bad == {word: row[word] for word in ("fail", "warn", "unknown") if word in row}
    verdicts = node.verdicts()
    for check, words in row.get("said", {}).items():
        texts = [f"{one.observed} {one.reason}" for key, one in verdicts.items() if key[0] == check]
        assert any(words in text for text in texts), (check, texts)


@needs_captures
def test_every_recorded_output_with_health_in_it_is_judged():
    tools = ("nvidia-smi", "dcgmi", "amd-smi", "rocm-smi", "npu-smi", "hl-smi", "xpu-smi")
    tools += ("kernel-log", "fabricmanager")
    recorded = {f"{tool}/{path.name}" for tool in tools for path in (CAPTURES / tool).iterdir()}
    diagnosed = yaml.safe_load((ROOT / "tests/data/verdicts_diagnose.yml").read_text("utf-8"))
    assert recorded == set(TABLE) | set(diagnosed)


def test_the_table_knows_failures_and_clean_outputs():
    rows = [row for row in TABLE.values() if not row.get("skip")]
    assert sum("fail" in row for row in rows) > 20
    assert sum("fail" not in row for row in rows) > 20
