"""docs/parsers.md says what the parsers cover, and is kept up to date."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from hfprov.evidence.tools import TOOLS

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def parser_docs():
    spec = importlib.util.spec_from_file_location("parser_docs", ROOT / "scripts/parser_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date(parser_docs):
    assert parser_docs.main(["--check"]) == 0, "run 'python scripts/parser_docs.py'"


def test_the_page_has_every_tool(parser_docs):
    page = parser_docs.page()
    assert [f"| `{tool.name}` |" for tool in TOOLS if f"| `{tool.name}` |" not in page] == []


def test_a_change_makes_it_out_of_date(parser_docs, tmp_path, monkeypatch):
    stale = tmp_path / "parsers.md"
    stale.write_text(parser_docs.page() + "more", encoding="utf-8")
    monkeypatch.setattr(parser_docs, "PAGE", stale)
    assert parser_docs.main(["--check"]) == 1
    assert parser_docs.main([]) == 0
    assert parser_docs.main(["--check"]) == 0


@pytest.mark.parametrize(
    ("expected", "without_facts"),
    [
        ({"refused": "no SMBIOS"}, True),
        ({"not_understood": "line 2"}, True),
        ({"is": "ToolFailure", "kind": "not_ready"}, True),
        ({"kind": "EthtoolFailure"}, True),
        ({"is": "DockerInfo", "kind": "x"}, False),
        ({"facts": {"memory_mib": 3}}, False),
    ],
)
def test_what_counts_as_without_facts(parser_docs, expected, without_facts):
    assert parser_docs.is_refused(expected) is without_facts
