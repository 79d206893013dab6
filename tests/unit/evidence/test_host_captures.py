"""Every real output of the host tools is read as what it says, or refused in so many words."""

from __future__ import annotations

import fnmatch
import json
from pathlib import Path
from typing import Any

import pytest

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.tools import find_tool

ROOT = Path(__file__).parents[3]
CAPTURES = ROOT.parent / "shared" / "captures"
EXPECTATIONS = ROOT / "tests" / "data" / "captures_host"
TOOLS = sorted(path.stem for path in EXPECTATIONS.glob("*.json"))
HOST_TOOLS = [
    "dmidecode",
    "ipmi",
    "limits",
    "lscpu",
    "lspci",
    "network-config",
    "numactl",
    "nvme-cli",
    "os-release",
    "packages",
    "proc",
    "proc-interrupts",
    "redfish",
    "slurm",
    "sysctl",
    "sysfs",
]


def captures(tool: str) -> list[str]:
    folder = CAPTURES / tool
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def expectation(tool: str, name: str) -> dict[str, Any] | None:
    """The entry with that very name, else the first glob that matches it."""
    entries = json.loads((EXPECTATIONS / f"{tool}.json").read_text("utf-8"))
    if name in entries:
        return entries[name]
    return next((entries[key] for key in entries if fnmatch.fnmatchcase(name, key)), None)


def read(tool: str, name: str) -> str:
    path = CAPTURES / tool / name
    return path.read_bytes().decode("utf-8", errors="backslashreplace")


def lookup(facts: Any, path: str) -> Any:
    """The value at a path; see the README beside the expectations."""
    value = facts
    for step in path.split(">"):
        if step == "#":
            value = len(value)
        elif step == "@":
            value = type(value).__name__
        elif isinstance(value, (set, frozenset)):
            value = step in value
        elif isinstance(value, dict):
            value = value[step] if step in value else value[int(step)]
        elif isinstance(value, tuple) and "=" in step:
            field, _, wanted = step.partition("=")
            value = next(item for item in value if str(getattr(item, field)) == wanted)
        elif isinstance(value, tuple):
            value = value[int(step)]
        else:
            value = getattr(value, step)
    return value


def comparable(value: Any) -> Any:
    if isinstance(value, tuple):
        return [comparable(item) for item in value]
    return value


needs_captures = pytest.mark.skipif(
    not CAPTURES.is_dir(), reason="the captured outputs are not beside the project"
)
CASES = [(tool, name) for tool in TOOLS if CAPTURES.is_dir() for name in captures(tool)]


@needs_captures
@pytest.mark.parametrize(("tool", "name"), CASES, ids=str)
def test_capture(tool: str, name: str) -> None:
    expected = expectation(tool, name)
    assert expected is not None, f"no expectation for {tool}/{name}"
    text = read(tool, name)
    if "refused" in expected:
        with pytest.raises(NotUnderstoodError) as refusal:
            find_tool(tool).parse(text)
        assert expected["refused"] in refusal.value.message
        return
    facts = find_tool(tool).parse(text)
    assert expected["facts"], "an expectation without a value proves nothing"
    for path, wanted in expected["facts"].items():
        meant = {"<content>": text.strip, "<number>": lambda: int(text)}.get(str(wanted))
        assert comparable(lookup(facts, path)) == (wanted if meant is None else meant()), path


@needs_captures
@pytest.mark.parametrize("tool", HOST_TOOLS)
def test_every_capture_has_an_expectation_and_no_expectation_is_left_over(tool: str) -> None:
    names = captures(tool)
    assert names
    assert not [name for name in names if expectation(tool, name) is None]
    entries = json.loads((EXPECTATIONS / f"{tool}.json").read_text("utf-8"))
    assert not [key for key in entries if not fnmatch.filter(names, key) and key not in names]


def test_expectations_cover_the_host_tools() -> None:
    assert set(TOOLS) == set(HOST_TOOLS)
