"""The tests that docs/cases.md names exist: a renamed test must not leave a case uncovered."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = [
    line.split("|")[1:-1]
    for line in (ROOT / "docs" / "cases.md").read_text(encoding="utf-8").splitlines()
    if re.match(r"\| A\d+ ", line)
]


def names_in(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].split()[0])
def test_every_case_names_tests_that_exist(row):
    named = re.findall(r"`(tests/[^:`]+\.py)::(test_\w+)`", row[3])
    assert named != []
    assert row[3].count("`") == 2 * len(named)
    assert [(file, test) for file, test in named if test not in names_in(ROOT / file)] == []


def test_the_table_was_read():
    assert len(ROWS) >= 8
    assert len({row[0] for row in ROWS}) == len(ROWS)
