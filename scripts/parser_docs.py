"""Write docs/parsers.md: which tools' outputs are read, in which forms, proven on how many.

``python scripts/parser_docs.py`` writes; ``--check`` only says whether the page is out of date, and
ends with 1 if it is. Forms come from :mod:`hfprov.evidence.tools`, numbers from the tables of
expectations in ``tests/data/captures_*``.
"""

# ruff: noqa: INP001, T201 - a script, which prints

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

from hfprov.evidence.tools import TOOLS

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "parsers.md"
TABLES = ("captures_host", "captures_net", "captures_nvidia", "captures_other")
HEAD = """# Tools whose output hfprov reads

Written by `scripts/parser_docs.py` from `hfprov/evidence/tools.py` and the tables of expectations
in `tests/data`; run it after a change of either.

Every parser takes text and gives facts, or refuses with the reason; `hfprov parse TOOL FILE` prints
the facts. *Recordings* is the number of outputs of real tools that the tests compare with what can
be read in them (a row of a table; a few rows stand for several like files). *Without facts* are
those of them in which the tool failed, or that nobody can understand: they must be refused, or read
as the tool's failure, with the reason. A tool without recordings was written from its documentation
or sources, and is tested on texts of our own.

| Tool | Read forms | Recordings | Without facts |
|---|---|---:|---:|
"""


def expectations() -> dict[str, dict[str, Any]]:
    """What is expected of each recording, by tool. Raises ValueError for a table of no tool."""
    found: dict[str, dict[str, Any]] = {}
    for folder in TABLES:
        for path in sorted((ROOT / "tests" / "data" / folder).iterdir()):
            if path.suffix == ".json":
                found[path.stem] = json.loads(path.read_text(encoding="utf-8"))
            elif path.suffix == ".yml":
                found[path.stem] = yaml.safe_load(path.read_text(encoding="utf-8"))
    strays = set(found) - {tool.name for tool in TOOLS}
    if strays:
        raise ValueError(f"These tables belong to no tool: {', '.join(sorted(strays))}.")
    return found


def is_refused(expected: Any) -> bool:
    """Whether a recording holds no facts; each group of tables says it in its own words."""
    if not isinstance(expected, dict):
        return False
    found = str(expected.get("is", expected.get("kind", "")))
    return found.endswith("Failure") or bool({"refused", "not_understood"} & set(expected))


def page() -> str:
    """The whole page."""
    known = expectations()
    rows = []
    for tool in sorted(TOOLS, key=lambda tool: tool.name):
        table = known.get(tool.name, {})
        refused = sum(map(is_refused, table.values()))
        covers = tool.covers.replace("|", "\\|")
        rows.append(f"| `{tool.name}` | {covers} | {len(table) or 'none'} | {refused or ''} |")
    total = sum(map(len, known.values()))
    return HEAD + "\n".join(rows) + f"\n\n{len(TOOLS)} tools, {total} rows of recordings.\n"


def main(arguments: list[str]) -> int:
    new = page()
    old = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    if new == old:
        return 0
    if "--check" in arguments:
        print("docs/parsers.md is out of date: run 'python scripts/parser_docs.py'")
        return 1
    PAGE.write_text(new, encoding="utf-8")
    print("docs/parsers.md: written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
