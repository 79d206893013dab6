"""Variables that a line sets, in any of the languages in which logins and services get theirs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hfprov.regex import regex

_VALUE = r"""(?:"([^"]*)"|'([^']*)'|([^\s;"'&|)}]*))"""
_COMMENT = ("#", ";", "--", "//")
_COPY = regex(r"(~|\.(bak|old|orig|rej|sw[a-p]|save|dpkg-[a-z]+|rpm(save|new|orig)))$")


def is_read(path: str) -> bool:
    """Whether something may read a file of this name: not an editor's or a package's copy."""
    return _COPY.search(path) is None


class Assignments:
    """Finds what lines set of the variables whose names match a regular expression.

    >>> list(Assignments("A|B")("export A=1; setenv B 'x y'"))
    [('A', '1'), ('B', 'x y')]
    """

    def __init__(self, name: str) -> None:
        one = f"((?:{name}))"
        self._forms = (
            re.compile(rf"(?<![\w$]){one}\+?={_VALUE}"),
            # Tcl and csh: setenv NAME value; Lua: setenv("NAME", "value"); fish: set -gx NAME value
            re.compile(
                rf"""\b(?:setenv|pushenv|set\s+-\w*x\w*)[\s(]+["']?{one}["']?[\s,]+{_VALUE}"""
            ),
            # pam_env.conf(5): NAME DEFAULT=value OVERRIDE=value
            re.compile(rf"^{one}\s+(?:.*\s)?(?:DEFAULT|OVERRIDE)={_VALUE}"),
            # Shell: ${NAME:=value} sets it, too.
            re.compile(rf"\$\{{{one}:?={_VALUE}"),
        )

    def __call__(self, text: str) -> Iterator[tuple[str, str]]:
        """Names and values of one line."""
        line = text.strip()
        if line.startswith(_COMMENT):
            return
        line = re.split(r"\s#", line, maxsplit=1)[0]
        for form in self._forms:
            for found in form.finditer(line):
                name, *values = found.groups()
                yield name, next((value for value in values if value), "")
