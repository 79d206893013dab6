"""Commands by which a line of a shell's file sets limits, in the languages of the usual shells.

Sources: bash(1) and zshbuiltins(1), ``ulimit``; zshbuiltins(1) and tcsh(1), ``limit``; fish's
``ulimit``; prlimit(1), which counts in bytes where the others count in KiB.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from hfprov.evidence.limits import MEMLOCK, NOFILE, NPROC, STACK, Resource
from hfprov.regex import regex

_LETTERS = {"l": MEMLOCK, "n": NOFILE, "u": NPROC, "s": STACK}
_OF_FISH = {
    "--lock-size": MEMLOCK,
    "--file-descriptor-count": NOFILE,
    "--process-count": NPROC,
    "--stack-size": STACK,
}
_OF_CSH = {
    "memorylocked": MEMLOCK,
    "memlock": MEMLOCK,
    "descriptors": NOFILE,
    "openfiles": NOFILE,
    "maxproc": NPROC,
    "stacksize": STACK,
}
_OF_PRLIMIT = {f"--{one.name}": one for one in (MEMLOCK, NOFILE, NPROC, STACK)}
_SHORTEST = 4
"""Characters of a name of csh that are looked at; tcsh takes what is unique."""
_COMMAND = regex(
    r"(?:^|[;&|{(!]|\b(?:then|do|else|if|elif|and|or|not|begin)\b)\s*"
    r"(?:(?:builtin|command|sudo|/usr/bin/|/bin/)\s*)*"
    r"(ulimit|unlimit|limit|prlimit)(?=\s|$)([^;&|#})]*)"
)
_TO_WHAT_IS_THERE = ("hard", "soft")
"""Values of ``ulimit`` that give nothing but what pam_limits gave."""
_OPTION = regex(r"-([A-Za-z]*?)(?:(?<=[lnus])([0-9]+|unlimited|hard|soft))?")
_SIZE = regex(r"([0-9]{1,20})(k|kb|kbytes|m|mb|megabytes|g|gb|gigabytes)?", re.IGNORECASE)
_POWER = {"": 1, "k": 1, "m": 1 << 10, "g": 1 << 20}
"""KiB in a unit of csh; without one it counts in KiB, too."""


class Command(Struct, frozen=True):
    """One limit that a command sets."""

    resource: Resource
    value: str
    """``unlimited``, a number in the unit of pam_limits, or what only the shell can tell."""
    hard: bool
    """Whether the hard limit is set as well."""


def commands(line: str) -> Iterator[Command]:
    """What each command of a line sets.

    >>> [(one.resource.name, one.value, one.hard) for one in commands("ulimit -S -n 100")]
    [('nofile', '100', False)]
    """
    if line.lstrip().startswith("#"):
        return
    for found in _COMMAND.finditer(line):
        words = [word.strip("\"'") for word in found[2].split()]
        yield from _READERS[found[1]](words)


def _ulimit(words: list[str]) -> Iterator[Command]:
    sides = ""
    asked: Resource | None = None
    for word in words:
        name, _, value = word.partition("=")
        option = _OPTION.fullmatch(word)
        if word.startswith("--"):
            sides += {"--hard": "H", "--soft": "S"}.get(word, "")
            asked = _OF_FISH.get(name, asked)
        elif option:
            sides += option[1]
            asked, value = _LETTERS.get(option[1][-1:], asked), option[2] or ""
        elif ">" not in word and "<" not in word:
            value = word
        if asked is not None and value:
            if value not in _TO_WHAT_IS_THERE:
                yield Command(asked, value, _is_hard(sides))
            asked = None


def _is_hard(sides: str) -> bool:
    return "S" not in sides or "H" in sides


def _limit(words: list[str]) -> Iterator[Command]:
    hard = any(word.startswith("-") and "h" in word for word in words)
    names = [word for word in words if not word.startswith("-")]
    if len(names) >= 2 and (resource := _csh_resource(names[0])):
        yield Command(resource, _csh_value(names[1:3], resource), hard)


def _unlimit(words: list[str]) -> Iterator[Command]:
    names = [word for word in words if not word.startswith("-")]
    for name in names:
        if resource := _csh_resource(name):
            yield Command(resource, "unlimited", hard=any("h" in word for word in words[:1]))


def _csh_resource(name: str) -> Resource | None:
    """A name may be cut short."""
    for whole, resource in _OF_CSH.items():
        if len(name) >= _SHORTEST and whole.startswith(name):
            return resource
    return None


def _csh_value(words: list[str], resource: Resource) -> str:
    size = _SIZE.fullmatch("".join(words)) or _SIZE.fullmatch(words[0])
    if size is None or resource.unit == 1:
        return words[0]
    return str(int(size[1]) * _POWER[(size[2] or "").lower()[:1]])


def _prlimit(words: list[str]) -> Iterator[Command]:
    """Of a process that runs, such as the shell itself; before a command it is that one's alone."""
    if not any(word.startswith(("-p", "--pid")) for word in words):
        return
    asked: Resource | None = None
    for word in words:
        name, equals, value = word.partition("=")
        short = re.fullmatch(r"-([lnus])=?(.*)", word)
        if name in _OF_PRLIMIT and equals:
            yield _of_bytes(_OF_PRLIMIT[name], value)
        elif short and short[2]:
            yield _of_bytes(_LETTERS[short[1]], short[2])
        elif short:
            asked = _LETTERS[short[1]]
            continue
        elif asked is not None and re.match(r"[0-9:u]", word):
            yield _of_bytes(asked, word)
        asked = None


def _of_bytes(resource: Resource, value: str) -> Command:
    soft, colon, hard = value.partition(":")
    shown = soft or hard
    if re.fullmatch(r"[0-9]{1,20}", shown):
        shown = str(int(shown) // resource.unit)
    return Command(resource, shown, hard=not colon or bool(hard))


_READERS: Mapping[str, Callable[[list[str]], Iterator[Command]]] = {
    "ulimit": _ulimit,
    "limit": _limit,
    "unlimit": _unlimit,
    "prlimit": _prlimit,
}
