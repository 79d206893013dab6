"""Real outputs of accelerator, container and bandwidth tools, compared with what they say.

What a file says was read in the file and written down in ``tests/data/captures_other``, one YAML
per tool: paths into the facts (``gpus/0/power/socket_w``; ``len`` is a length) and their values.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.tools import find_tool

ROOT = Path(__file__).parents[3]
CAPTURES = ROOT.parent / "shared" / "captures"
EXPECTED = ROOT / "tests" / "data" / "captures_other"
TOOLS = (
    "amd-smi", "rocm-smi", "rvs", "rccl-ras", "npu-smi", "hl-smi", "xpu-smi", "docker",
    "containerd", "cdi", "nvbandwidth", "nccl-tests", "fio", "stream", "transferbench",
    "rocm-bandwidth-test",
)  # fmt: skip


def expectations(tool):
    return yaml.safe_load((EXPECTED / f"{tool}.yml").read_text())


CASES = [(tool, name, said) for tool in TOOLS for name, said in expectations(tool).items()]


def step(value, part):
    if part == "len":
        return len(value)
    if isinstance(value, Mapping):
        for key in (part, *([float(part)] if part.replace(".", "", 1).isdigit() else [])):
            if key in value:
                return value[key]
        raise KeyError(part)
    return value[int(part)] if isinstance(value, tuple) else getattr(value, part)


def at(facts, path):
    for part in path.split("/"):
        facts = step(facts, part)
    return list(facts) if isinstance(facts, tuple) else facts


@pytest.mark.parametrize(("tool", "name", "said"), CASES, ids=[f"{t}/{n}" for t, n, _ in CASES])
def test_capture_gives_what_the_file_says(tool, name, said):
    capture = CAPTURES / tool / name
    if not capture.exists():
        # Recorded outputs of others' machines are not ours to copy; they lie beside the checkout.
        pytest.skip(f"the capture '{tool}/{name}' is not beside this checkout")
    text = capture.read_text(errors="backslashreplace")
    if said["is"] == "refused":
        with pytest.raises(NotUnderstoodError):
            find_tool(tool).parse(text)
        return
    facts = find_tool(tool).parse(text)
    assert type(facts).__name__ == said["is"]
    wrong = {}
    for path, value in said.items():
        if path == "is":
            continue
        found = at(facts, path)
        exact = not isinstance(value, float) or value is True
        if found != value if exact else found != pytest.approx(value, rel=1e-9):
            wrong[path] = (found, value)
    assert wrong == {}


@pytest.mark.parametrize("tool", TOOLS)
def test_every_capture_has_an_expectation(tool):
    folder = CAPTURES / tool
    if not folder.is_dir():
        # As above: without the recorded outputs there is nothing to hold the expectations against.
        pytest.skip(f"the captures of '{tool}' are not beside this checkout")
    present = {path.name for path in folder.iterdir()}
    assert present, f"the folder of captures of '{tool}' is empty"
    assert present - expectations(tool).keys() == set()


def test_every_expectation_checks_something():
    empty = [
        f"{tool}/{name}"
        for tool, name, said in CASES
        if len(said) < 2 and said["is"] not in ("refused", "ToolFailure")
    ]
    assert empty == []
