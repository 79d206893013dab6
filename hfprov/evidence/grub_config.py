"""GRUB's menu as ``grub.cfg`` has it, its environment block, and the entry that would boot.

Only what grub-mkconfig(8) writes is understood: ``menuentry`` and ``submenu`` blocks, ``set
default=``, and the lines ``linux`` and ``initrd`` in them. The rules of the default entry are those
of GRUB's manual ("default", "next_entry", "saved_entry") and of grub-core/normal/menu.c: steps of
submenus are separated by ``>``; a step is a number, or else an id or a title; what is not found is
the first entry.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.text import clean, excerpt
from hfprov.regex import regex

_BLOCK = regex(r"(menuentry|submenu)\s+(.*)\{$")
_DEFAULT = regex(r"""set default=(?:"([^"]*)"|'([^']*)'|(\S*))$""")
_KERNEL = regex(r"(?:linux|linux16|linuxefi)\s+(\S+)\s*(.*)$")
_INITRD = regex(r"(?:initrd|initrd16|initrdefi)\s+(.+)$")
_VARIABLE = regex(r"\$\{?(\w+)\}?")
_RELEASE = regex(r"vmlinu[xz]-(\S+)$")
_MOST_ENTRIES = 500


class Entry(Struct, frozen=True):
    """One entry of the menu that boots a kernel, or something else (memtest, firmware setup)."""

    title: str
    id: str
    """``gnulinux-6.1.0-42-amd64-advanced-UUID``; of a BLS entry its file's name; '' without."""
    path: str
    """Ids (titles where there is none) from the top, joined by ``>``: what GRUB_DEFAULT may be."""
    numbers: tuple[int, ...]
    """Position on each level, from 0."""
    titles: tuple[str, ...]
    """Titles from the top, the entry's own the last."""
    kernel: str = ""
    """Path as GRUB sees it, such as ``/boot/vmlinuz-6.1.0-42-amd64``; '' when it boots no Linux."""
    arguments: tuple[str, ...] = ()
    initrds: tuple[str, ...] = ()

    @property
    def release(self) -> str:
        """The kernel's release by its file's name; '' when it tells none."""
        match = _RELEASE.search(self.kernel)
        return match[1] if match else ""


class Menu(Struct, frozen=True):
    """All entries in order, those of submenus after their submenu's place."""

    entries: tuple[Entry, ...]
    default: str
    """What ``set default=`` says where no single boot was asked for; ``0`` when nothing does."""
    uses_bls: bool
    """Entries come from files of the Boot Loader Specification (``blscfg``)."""


class _Open(Struct):
    kind: str
    """``menuentry``, ``submenu``, or ``other`` for a function."""
    title: str = ""
    id: str = ""
    children: int = 0
    number: int = 0


def _steps(title: str, step_id: str) -> str:
    return (step_id or title).replace(">", ">>")


class _Reader:
    """Follows the blocks of a grub.cfg line by line."""

    __slots__ = ("bls", "default", "entries", "stack")

    def __init__(self) -> None:
        self.stack = [_Open("submenu")]
        self.entries: list[Entry] = []
        self.default = "0"
        self.bls = False

    def feed(self, line: str) -> None:
        block = _BLOCK.match(line)
        if block:
            self._open(_heading(block[1], block[2]))
        elif line.endswith("{"):
            self.stack.append(_Open("other"))
        elif line == "}":
            if len(self.stack) == 1:
                raise NotUnderstoodError("A block of 'grub.cfg' ends that did not begin.")
            self.stack.pop()
        elif self.stack[-1].kind == "menuentry":
            self._inside(line)
        elif match := _DEFAULT.match(line):
            value = next(one for one in (*match.groups(), "") if one is not None)
            if "next_entry" not in value:
                self.default = value
        elif line.split(" ", 1)[0] == "blscfg":
            self.bls = True

    def _open(self, opened: _Open) -> None:
        parent = next((one for one in reversed(self.stack) if one.kind == "submenu"), self.stack[0])
        opened.number = parent.children
        parent.children += 1
        self.stack.append(opened)
        if opened.kind == "menuentry":
            if len(self.entries) >= _MOST_ENTRIES:
                raise NotUnderstoodError(f"'grub.cfg' has more than {_MOST_ENTRIES} entries.")
            chain = [one for one in self.stack[1:] if one.kind != "other"]
            path = ">".join(_steps(one.title, one.id) for one in chain)
            numbers = tuple(one.number for one in chain)
            titles = tuple(one.title for one in chain)
            self.entries.append(Entry(opened.title, opened.id, path, numbers, titles))

    def _inside(self, line: str) -> None:
        if match := _KERNEL.match(line):
            words = tuple(split_words(match[2]))
            self.entries[-1] = replace(self.entries[-1], kernel=match[1], arguments=words)
        elif match := _INITRD.match(line):
            initrds = (*self.entries[-1].initrds, *match[1].split())
            self.entries[-1] = replace(self.entries[-1], initrds=initrds)


def _heading(kind: str, text: str) -> _Open:
    """``'Debian' --class debian $menuentry_id_option 'gnulinux-simple-UUID'``."""
    try:
        words = shlex.split(text)
    except ValueError:
        raise NotUnderstoodError(f"'{excerpt(text)}' is not the heading of an entry.") from None
    if not words:
        raise NotUnderstoodError("An entry of 'grub.cfg' has no title.")
    marks = ("$menuentry_id_option", "${menuentry_id_option}", "--id")
    ids = [after for word, after in itertools.pairwise(words) if word in marks]
    return _Open(kind, words[0], ids[0] if ids else "")


def split_words(text: str) -> list[str]:
    """Words of a kernel's command line; quotes stay within a word as the kernel takes them."""
    words = re.findall(r"""(?:[^\s"']|"[^"]*"|'[^']*')+""", text)
    return [word.replace("'", "") if word.count("'") else word for word in words]


def parse_grub_cfg(text: str) -> Menu:
    """The menu of a ``grub.cfg``. Raises NotUnderstoodError when it is cut off, or is none."""
    reader = _Reader()
    for raw in clean(text).splitlines():
        line = " ".join(raw.split())
        if line and not line.startswith("#"):
            reader.feed(line)
    if len(reader.stack) > 1:
        raise NotUnderstoodError("A block of 'grub.cfg' does not end: it is cut off.")
    if not reader.entries and not reader.bls:
        raise NotUnderstoodError("'grub.cfg' has no entry.")
    return Menu(tuple(reader.entries), reader.default, reader.bls)


def parse_environment(text: str) -> Mapping[str, str]:
    """Variables of a GRUB environment block; ``#`` fills it up to its 1024 bytes."""
    plain = clean(text)
    if not plain.startswith("# GRUB Environment Block"):
        raise NotUnderstoodError(f"'{excerpt(plain, 40)}' begins no GRUB environment block.")
    found = {}
    for line in plain.splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found[name] = value
    return found


def expand(text: str, environment: Mapping[str, str]) -> str:
    """GRUB's variables replaced; one that is not set is empty."""
    return _VARIABLE.sub(lambda match: environment.get(match[1], ""), text)


class Choice(Struct, frozen=True):
    """The entry that boots, and by which word."""

    entry: Entry
    wanted: str
    """The value of GRUB's ``default``, with its variables replaced."""
    by: str
    """``set default``, ``saved_entry`` or ``next_entry``."""
    is_found: bool
    """False: there is no such entry, and GRUB takes the first."""

    @property
    def words(self) -> str:
        """Which entry won, and why, for a person."""
        name = self.entry.path or self.entry.title
        why = f"{self.by} is '{self.wanted}'"
        if not self.is_found:
            why += ", which is not in the menu, so that the first entry boots"
        return f"'{name}' ({why})"


def default_choice(menu: Menu, environment: Mapping[str, str], *, once: bool = False) -> Choice:
    """The entry that boots by default; with ``once``, next time, where that was asked for.

    Raises NotUnderstoodError for a menu without entries.
    """
    if not menu.entries:
        raise NotUnderstoodError("GRUB's menu has no entry.")
    wanted, by = expand(menu.default, environment), "set default"
    if "saved_entry" in menu.default:
        by = "saved_entry"
    if once and environment.get("next_entry"):
        wanted, by = environment["next_entry"], "next_entry"
    found = find_entry(menu.entries, wanted or "0")
    return Choice(found or menu.entries[0], wanted or "0", by, found is not None)


def find_entry(entries: tuple[Entry, ...], wanted: str) -> Entry | None:
    """The first entry that a value of ``default`` names; of a submenu alone, its first."""
    steps = [one.replace("\0", ">") for one in wanted.replace(">>", "\0").split(">")]
    for entry in entries:
        names = [one.replace("\0", ">") for one in entry.path.replace(">>", "\0").split(">")]
        if len(steps) > len(names):
            continue
        levels = zip(steps, names, entry.titles, entry.numbers, strict=False)
        if all(
            step in (name, title) or (step.isdigit() and int(step) == number)
            for step, name, title, number in levels
        ):
            return entry
    return None
