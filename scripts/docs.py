"""Write the generated parts of docs/, or say with --check that they are out of date.

A generated part stands between two comments, '<!-- generated: NAME -->' and '<!-- end: NAME -->'.
"""

# ruff: noqa: INP001 - a script, not a package

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from hfprov.lab.faults import faults

ROOT = Path(__file__).resolve().parent.parent


def fault_table() -> str:
    rows = [f"| `{fault.name}` | {fault.description} | {fault.trips} |" for fault in faults()]
    return "\n".join(["| Fault | What happens | Noticed by |", "|---|---|---|", *rows])


PARTS: Mapping[str, tuple[str, Callable[[], str]]] = {"faults": ("docs/lab.md", fault_table)}


def renewed(text: str, name: str, content: str) -> str:
    """The text with the named part replaced. Raises ``ValueError`` when it has no such part."""
    part = re.compile(f"(<!-- generated: {name} -->\n).*?(<!-- end: {name} -->)", re.DOTALL)
    if not part.search(text):
        raise ValueError(f"There is no part '{name}'.")
    return part.sub(lambda match: f"{match[1]}{content}\n{match[2]}", text)


def main(arguments: list[str]) -> int:
    stale = []
    for name, (file, content) in PARTS.items():
        path = ROOT / file
        text = path.read_text(encoding="utf-8")
        new = renewed(text, name, content())
        if new == text:
            continue
        stale.append(file)
        if "--check" not in arguments:
            path.write_text(new, encoding="utf-8")
    for file in stale:
        word = "out of date, run 'make docs'" if "--check" in arguments else "written"
        print(f"{file}: {word}")  # noqa: T201 - a command line prints
    return int(bool(stale) and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
