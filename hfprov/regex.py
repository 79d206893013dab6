"""Regular expressions that are compiled when they are first used.

To compile all that the parsers have takes a fifth of the start of a command; most are of tools that
no given node has.
"""

from __future__ import annotations

import re
from typing import Any, cast

_METHODS = ("fullmatch", "match", "search", "finditer", "findall", "sub", "subn", "split")


class Uncompiled:
    """Stands for a pattern, and has its methods from the first use on."""

    def __init__(self, text: str, flags: int) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        compiled = re.compile(self._text, self._flags)
        # From now on they are found here, without a detour.
        for method in _METHODS:
            self.__dict__[method] = getattr(compiled, method)
        return getattr(compiled, name)


def regex(text: str, flags: int = 0) -> re.Pattern[str]:
    """As ``re.compile``, and as good as its result; a mistake in it shows when it is first used."""
    return cast("re.Pattern[str]", Uncompiled(text, flags))
