"""A node's output is hostile: a parser answers, or says precisely that it does not understand.

Cutting an output off at any line must not make anything look better: what is still read is the
beginning of what was there.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.tools import find_tool, plain

ROOT = Path(__file__).resolve().parents[3]
CAPTURES = ROOT.parent / "shared" / "captures"
NAMES = [path.stem for path in sorted((ROOT / "tests/data/captures_net").glob("*.yml"))]
TOOLS = [*NAMES, "dcb", "devlink"]

SEEDS = yaml.safe_load((ROOT / "tests/data/captures_net_seeds.yaml").read_text("utf-8"))
"""One short output per tool, written by hand, from which broken ones are made."""

HOSTILE = [
    "",
    "\n" * 50_000,
    " " * 200_000,
    "\x00" * 1000,
    "\x1b[31m" * 1000,
    "\ufeff",
    "[" * 50_000,
    '{"a":' * 5_000,
    "[1e999]",
    "[NaN]",
    "9" * 50_000,
    "[" + "9" * 5_000 + "]",
    "null",
    "{}",
    "[]",
    "[{}]",
    "[null]",
    "[[]]",
    '"text"',
    ":" * 50_000,
    "- " * 50_000,
    "a:1\n" * 20_000,
    (" " * 2_000 + "\n") * 50,
    "#bytes " * 5_000,
    ("1 " * 30 + "\n") * 1_000,
    "x" * 40_000_000,
]


def understood(tool, text):
    """Facts, or None when the parser refuses. Anything else that is raised fails the test."""
    try:
        facts = find_tool(tool).parse(text)
    except NotUnderstoodError:
        return None
    plain(facts)
    return facts


def test_every_tool_has_a_seed_that_it_understands():
    assert sorted(SEEDS) == sorted(TOOLS)
    for tool, text in SEEDS.items():
        assert understood(tool, text) is not None, tool


@pytest.mark.parametrize("tool", TOOLS)
def test_hostile_text(tool):
    for text in HOSTILE:
        understood(tool, text)


@pytest.mark.parametrize("tool", TOOLS)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_broken_output(tool, data):
    text = SEEDS[tool]
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        piece = data.draw(
            st.one_of(
                st.text(max_size=8),
                st.sampled_from(["\x00", "\x1b[2J", "\r\n", "N/A", "-1", "9" * 5000, "1e999", "٣"]),
            )
        )
        text = text[:at] + piece + text[at + data.draw(st.integers(0, 6)) :]
    understood(tool, text)


@pytest.mark.parametrize("tool", TOOLS)
@settings(max_examples=30, deadline=None)
@given(raw=st.binary(max_size=300))
def test_random_bytes(tool, raw):
    understood(tool, raw.decode("utf-8", "backslashreplace"))
    understood(tool, raw.decode("latin-1"))


@pytest.mark.parametrize("tool", TOOLS)
def test_windows_line_ends_and_escape_sequences_change_nothing(tool):
    text = SEEDS[tool]
    expected = understood(tool, text)
    assert understood(tool, text.replace("\n", "\r\n")) == expected
    assert understood(tool, "\x1b[0m" + text.replace("\n", "\x1b[0m\n")) == expected


def collection(facts):
    """The list that an output consists of: devices, ports, rows."""
    if isinstance(facts, tuple):
        return facts
    for name in ("adapters", "devices", "interfaces", "links", "gids", "neighbours", "ports"):
        if hasattr(facts, name):
            return getattr(facts, name)
    return None


PREFIX_TOOLS = ["ibstat", "ibv_devinfo", "ibdev2netdev", "show_gids", "rdma", "mlxfwmanager", "mst"]


@pytest.mark.skipif(not CAPTURES.is_dir(), reason=f"no recorded outputs at {CAPTURES}")
@pytest.mark.parametrize("tool", PREFIX_TOOLS)
def test_an_output_that_was_cut_off_never_looks_better(tool):
    compared = 0
    for path in sorted((CAPTURES / tool).iterdir()):
        text = path.read_text("utf-8")
        whole = collection(understood(tool, text))
        if whole is None:
            continue
        lines = text.splitlines()
        for end in random.Random(1).sample(range(len(lines)), min(len(lines), 40)):
            facts = understood(tool, "\n".join(lines[:end]))
            part = collection(facts) if facts is not None else None
            if part:
                # The last one may lack what a longer output would have added, but not differ.
                assert part[:-1] == whole[: len(part) - 1], f"{path.name}, line {end}"
                assert len(part) <= len(whole)
                compared += 1
    assert compared
