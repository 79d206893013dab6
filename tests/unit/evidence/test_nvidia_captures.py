"""Recorded outputs of NVIDIA's tools and of kernels, compared with what can be read in each file.

The recordings lie beside the project and are not part of it; without them these tests are skipped.
What each file says is data, in ``tests/data/captures_nvidia/TOOL.yml``.
"""

from __future__ import annotations

import collections
import json
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import Struct

from hfprov.evidence.tools import find_tool, plain

ROOT = Path(__file__).resolve().parents[3]
CAPTURES = ROOT.parent / "shared" / "captures"
EXPECTATIONS = ROOT / "tests" / "data" / "captures_nvidia"
TOOLS = sorted(path.stem for path in EXPECTATIONS.glob("*.yml"))
needs_captures = pytest.mark.skipif(
    not CAPTURES.is_dir(), reason=f"the recorded outputs are not at {CAPTURES}"
)


def expectations(tool: str) -> dict[str, dict[str, Any]]:
    return yaml.safe_load((EXPECTATIONS / f"{tool}.yml").read_text("utf-8"))


CASES = [(tool, name) for tool in TOOLS for name in expectations(tool)]


def value_at(facts: Any, path: str) -> Any:
    """The value at ``a/b/0`` in facts; ``#`` is the length of what it stands in."""
    value = facts
    for key in path.split("/"):
        if key == "#":
            value = len(value)
        elif isinstance(value, dict):
            value = value[key]
        elif isinstance(value, tuple):
            value = value[int(key)]
        else:
            assert isinstance(value, Struct), f"'{key}' of {value!r}"
            value = getattr(value, key)
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple):
        return [list(item) if isinstance(item, tuple) else item for item in value]
    return value.value if isinstance(value, Enum) else value


@needs_captures
@pytest.mark.parametrize(("tool", "name"), CASES, ids=[f"{tool}-{name}" for tool, name in CASES])
def test_recorded_output_says_what_is_in_it(tool, name):
    expected = dict(expectations(tool)[name])
    facts = find_tool(tool).parse((CAPTURES / tool / name).read_text("utf-8"))
    if "kind" in expected:
        assert type(facts).__name__ == expected.pop("kind")
    if "kind_" in expected:
        assert facts.kind == expected.pop("kind_")
    counts = expected.pop("count", None)
    if counts is not None:
        assert collections.Counter(event.category for event in facts.events) == counts
    flagged = expected.pop("incomplete", "")
    reason = getattr(facts, "incomplete", "")
    assert flagged in reason
    assert bool(flagged) == bool(reason), reason
    for path, wanted in expected.items():
        found = value_at(facts, path)
        if isinstance(wanted, float):
            assert found == pytest.approx(wanted, rel=1e-9), path
        else:
            assert found == wanted, path
            assert (found is None) == (wanted is None), path
    json.dumps(plain(facts), default=str)


@needs_captures
@pytest.mark.parametrize("tool", TOOLS)
def test_every_recorded_output_has_an_expectation(tool):
    recorded = {path.name for path in (CAPTURES / tool).iterdir() if path.is_file()}
    assert recorded == set(expectations(tool))


@needs_captures
@pytest.mark.parametrize("tool", TOOLS)
def test_line_ends_of_windows_do_not_change_the_facts(tool):
    parse = find_tool(tool).parse
    for name in expectations(tool):
        text = (CAPTURES / tool / name).read_text("utf-8")
        assert parse(text.replace("\n", "\r\n")) == parse(text), name
