"""Every tool whose output hfprov can read from a file: ``hfprov parse TOOL FILE`` and the API.

One row per tool. ``parse`` takes the whole text and returns facts: a frozen dataclass, or a tuple
of them. A tool that prints several forms (XML, table, CSV) recognises the form from the text.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hfprov.errors import UsageError


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that tells something about a node, and the parser of what it prints."""

    name: str
    module: str
    """Module in ``hfprov.evidence``, which has the function ``parse(text)``; imported on use."""
    covers: str
    """Which forms and versions, in words, for the coverage table."""

    def parse(self, text: str) -> Any:
        """Facts from the tool's output. Raises NotUnderstoodError when it cannot say."""
        module = importlib.import_module(f"hfprov.evidence.{self.module}")
        parse: Callable[[str], Any] = module.parse
        return parse(text)


TOOLS: tuple[Tool, ...] = ()


def find_tool(name: str) -> Tool:
    """The tool called ``name``. Raises UsageError with the names that exist."""
    for tool in TOOLS:
        if tool.name == name:
            return tool
    names = ", ".join(sorted(tool.name for tool in TOOLS))
    raise UsageError(f"There is no parser for a tool called '{name}'.", hint=f"Known: {names}.")


def plain(facts: Any) -> Any:
    """Facts as JSON-ready data: dataclasses as objects, enums as their values."""
    if dataclasses.is_dataclass(facts) and not isinstance(facts, type):
        return {
            field.name: plain(getattr(facts, field.name)) for field in dataclasses.fields(facts)
        }
    if isinstance(facts, dict):
        return {str(key): plain(value) for key, value in facts.items()}
    if isinstance(facts, (list, tuple, set, frozenset)):
        return [plain(item) for item in facts]
    return facts
