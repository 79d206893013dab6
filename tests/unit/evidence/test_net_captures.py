"""Recorded outputs of real tools: each file is parsed and compared with what can be read in it.

The recordings lie beside the project and are not part of it; without them these tests are skipped.
What each file says is data, in ``tests/data/captures_net/TOOL.yml``.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.tools import find_tool, plain

ROOT = Path(__file__).resolve().parents[3]
CAPTURES = ROOT.parent / "shared" / "captures"
EXPECTATIONS = ROOT / "tests" / "data" / "captures_net"
TOOLS = sorted(path.stem for path in EXPECTATIONS.glob("*.yml"))

needs_captures = pytest.mark.skipif(
    not CAPTURES.is_dir(), reason=f"the recorded outputs are not at {CAPTURES}"
)


def expectations(tool: str) -> dict[str, dict[str, Any]]:
    return yaml.safe_load((EXPECTATIONS / f"{tool}.yml").read_text("utf-8"))


CASES = [(tool, name) for tool in TOOLS for name in expectations(tool)]


def walk(facts: Any, path: str) -> Any:
    """The value at ``a/b/0`` in facts; ``#`` is the length of what it stands in."""
    value = facts
    rest = path
    while rest:
        if rest == "#":
            return len(value)
        # A key may hold a slash or spaces of its own, so the longest one that exists is taken.
        parts = rest.split("/")
        for size in range(len(parts), 0, -1):
            key: Any = "/".join(parts[:size])
            if isinstance(value, Struct) and hasattr(value, key):
                value = getattr(value, key)
                break
            if isinstance(value, (tuple, list)) and key.isdecimal():
                value = value[int(key)]
                break
            if isinstance(value, dict) and (
                key in value or (key.isdecimal() and int(key) in value)
            ):
                value = value[key] if key in value else value[int(key)]
                break
        else:
            pytest.fail(f"there is no '{rest}' in {str(value)[:200]}")
        rest = "/".join(parts[size:])
    return value.value if isinstance(value, Enum) else value


@needs_captures
@pytest.mark.parametrize(("tool", "name"), CASES, ids=[f"{tool}-{name}" for tool, name in CASES])
def test_recorded_output_says_what_is_in_it(tool, name):
    expected = dict(expectations(tool)[name])
    text = (CAPTURES / tool / name).read_text("utf-8")
    if "not_understood" in expected:
        with pytest.raises(NotUnderstoodError) as caught:
            find_tool(tool).parse(text)
        assert expected["not_understood"] in caught.value.message
        return
    facts = find_tool(tool).parse(text)
    assert type(facts).__name__ == expected.pop("kind", type(facts).__name__)
    for path, wanted in expected.items():
        found = walk(facts, path)
        if isinstance(wanted, float):
            assert found == pytest.approx(wanted, rel=1e-9), path
        else:
            assert found == wanted, path
            assert type(found) is type(wanted), path
    plain(facts)


@needs_captures
@pytest.mark.parametrize("tool", TOOLS)
def test_every_recorded_output_has_an_expectation(tool):
    recorded = {path.name for path in (CAPTURES / tool).iterdir() if path.is_file()}
    assert recorded == set(expectations(tool))
