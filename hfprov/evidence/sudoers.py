"""Who may become root by sudo, and whether sudo understands its files.

Only as much of the grammar is known as tells a line that sudo cannot read from one that it can, and
one that is for everybody from others. Source: sudoers(5).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError
from hfprov.evidence.text import clean, excerpt
from hfprov.reading import Observation, Read, Result, Source, file, glob, listing
from hfprov.regex import regex

MAIN, DROP_INS = "/etc/sudoers", "/etc/sudoers.d"
_MAIN = file(MAIN)
_OF_DISTRIBUTION = file("/usr/etc/sudoers")
"""Read where there is none in /etc; openSUSE."""
_DROP_INS = glob(f"{DROP_INS}/*", limit=64 * 1024)
_SUDO = listing("/usr/bin/sudo")
_READS = (_MAIN, _OF_DISTRIBUTION, _DROP_INS, _SUDO)

_INCLUDE = regex(r"[@#](include|includedir)[ \t]+(.+)")
_ALIAS = regex(r"(?:User|Runas|Host|Cmnd|Cmd)_Alias[ \t]+[A-Z]\w*[ \t]*=[ \t]*\S.*")
_DEFAULTS = regex(r"Defaults(?:[@:!>]\S*)?[ \t]+\S.*")
_WORD = r'(?:"[^"]*"|\\.|[^\s,="\\])+'
_LIST = rf"{_WORD}(?:[ \t]*,[ \t]*{_WORD})*"
# Users, hosts, and after the sign what may be run: '(' opens those as whom.
_FOR_USERS = regex(rf"({_LIST})[ \t]+{_LIST}[ \t]*=[ \t]*(?!\([^)]*$)(\S.*)")
_AS_WHOM = regex(r"\(([^)]*)\)")
_TAGS = regex(r"\b([A-Z_]+):[ \t]*")
_OTHER_PASSWORD = regex(r"Defaults(?:[ \t]+|.*,[ \t]*)(?:targetpw|rootpw)\b")


class SudoLine(Struct, frozen=True):
    """One line, continuations joined."""

    path: str
    number: int
    text: str

    @property
    def where(self) -> str:
        return f"{self.path}:{self.number}"


class Sudoers(Struct, frozen=True):
    """The files that sudo reads."""

    is_installed: bool
    files: Mapping[str, Result]
    """By path; those in the folder only where the main file includes it."""
    unreadable: tuple[SudoLine, ...]
    """What sudo cannot understand: it leaves out the line, or, before 1.9.3, refuses to work."""
    for_everybody: tuple[SudoLine, ...]
    """What lets every user run everything as root, with his own password or none."""
    elsewhere: tuple[SudoLine, ...]
    """What includes files that are not read here."""


def logical_lines(text: str, path: str) -> Iterator[SudoLine]:
    """Lines that say something, without comments; a backslash at the end continues one."""
    kept, begun = "", 0
    for number, line in enumerate(clean(text).splitlines(), start=1):
        begun = begun if kept else number
        kept += line
        if kept.endswith("\\"):
            kept = kept[:-1] + " "
            continue
        plain = _without_comment(kept)
        if plain:
            yield SudoLine(excerpt(path, 200), begun, plain)
        kept = ""
    if kept.strip():
        yield SudoLine(excerpt(path, 200), begun, kept.strip())


def _without_comment(line: str) -> str:
    if _INCLUDE.match(line.strip()):
        return line.strip()
    # A number behind the sign is that of a user; behind a backslash it is a character.
    return re.split(r"(?<!\\)#(?!-?[0-9])", line, maxsplit=1)[0].strip()


def is_understood(line: str) -> bool:
    """Whether sudo can read a line."""
    return any(form.fullmatch(line) for form in (_INCLUDE, _ALIAS, _DEFAULTS, _FOR_USERS))


def is_for_everybody(line: str, *, asks_other_password: bool = False) -> bool:
    """Whether a line lets every user run everything as root.

    ``asks_other_password``: sudo asks for root's password, which the user does not have.
    """
    if any(form.fullmatch(line) for form in (_INCLUDE, _ALIAS, _DEFAULTS)):
        return False
    found = _FOR_USERS.fullmatch(line)
    if found is None or "ALL" not in re.split(r"[ \t,]+", found[1]):
        return False
    as_whom = _AS_WHOM.match(found[2])
    whom = re.split(r"[ \t,]+", as_whom[1].partition(":")[0].strip()) if as_whom else ["root"]
    what = found[2][as_whom.end() :] if as_whom else found[2]
    tags = _TAGS.findall(what)
    commands = re.split(r"[ \t]*,[ \t]*", _TAGS.sub("", what).strip())
    is_free = "NOPASSWD" in tags or not asks_other_password
    return is_free and "ALL" in commands and not {"ALL", "root", "#0"}.isdisjoint(whom)


def _is_read(path: str) -> bool:
    """Sudo passes over names with a dot or a tilde at the end: those of editors and packages."""
    name = path.rpartition("/")[2]
    return "." not in name and not name.endswith("~")


def _text(read: Read, result: Result) -> str:
    if not result.ok or result.truncated:
        raise NoEvidenceError(f"'{read}' could not be read: {result.stderr or 'it is too long'}.")
    return result.text


def _parse(seen: Observation, _: Baseline) -> Sudoers:
    read = _MAIN if seen.exists(_MAIN) else _OF_DISTRIBUTION
    files: dict[str, Result] = {}
    if seen.exists(read):
        files[str(read.request["path"])] = seen.one(read)
    lines = [line for path, one in files.items() for line in logical_lines(_text(read, one), path)]
    includes = [found for line in lines if (found := _INCLUDE.fullmatch(line.text))]
    if any(one[2].strip('"').rstrip("/") == DROP_INS for one in includes):
        for result in seen.each(_DROP_INS):
            if result.status != "absent" and result.type == "file" and _is_read(result.name):
                files[result.name] = result
                lines += logical_lines(_text(_DROP_INS, result), result.name)
    other = any(_OTHER_PASSWORD.match(line.text) for line in lines)
    return Sudoers(
        any(one.status != "absent" for one in seen.each(_SUDO)),
        files,
        tuple(line for line in lines if not is_understood(line.text)),
        tuple(line for line in lines if is_for_everybody(line.text, asks_other_password=other)),
        tuple(line for line in lines if _leads_elsewhere(line.text)),
    )


def _leads_elsewhere(line: str) -> bool:
    found = _INCLUDE.fullmatch(line)
    return found is not None and found[2].strip('"').rstrip("/") != DROP_INS


SUDOERS: Source[Sudoers] = Source("files of sudo", lambda _: _READS, _parse)
