"""Entries of the Boot Loader Specification, as GRUB of Enterprise Linux reads them.

One file per entry below ``/boot/loader/entries``. GRUB sorts them by the name of the file as rpm
compares versions, the newest first, and not by the version within: so an entry that a cloned
image brought along, with another machine's id in its name, may come before the new kernel.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.grub_config import Entry, expand, split_words
from hfprov.evidence.text import clean, excerpt
from hfprov.regex import regex

_KEY = regex(r"([a-z][a-z0-9_-]*)[ \t]+(.*)")
_SEGMENT = regex(r"\d+|[A-Za-z]+|~|\^")


def parse_bls(name: str, text: str, environment: Mapping[str, str]) -> Entry:
    """One entry; ``name`` is the file's, without ``.conf``. Variables come from the environment.

    Raises NotUnderstoodError for a file that names no kernel.
    """
    fields: dict[str, list[str]] = {}
    for raw in clean(text).splitlines():
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        match = _KEY.fullmatch(line)
        if match is None:
            raise NotUnderstoodError(f"'{excerpt(line)}' of entry '{name}' is not understood.")
        fields.setdefault(match[1], []).append(match[2].strip())
    kernel = fields.get("linux", [""])[-1]
    if not kernel:
        raise NotUnderstoodError(f"Entry '{name}' of the boot loader names no kernel.")
    options = expand(" ".join(fields.get("options", [])), environment)
    initrds = expand(" ".join(fields.get("initrd", [])), environment)
    title = fields.get("title", [name])[-1]
    words = tuple(split_words(options))
    return Entry(title, name, name, (0,), (title,), kernel, words, tuple(initrds.split()))


def sort_bls(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """In the order of GRUB's menu, with their numbers."""
    ordered = sorted(
        entries,
        key=lambda one: _RPM_KEY(one.id),
        reverse=True,
    )
    return tuple(replace(one, numbers=(index,)) for index, one in enumerate(ordered))


def compare_rpm(left: str, right: str) -> int:
    """-1, 0 or 1, as rpm compares versions: digits as numbers, and above letters; ``~`` lowest."""
    ours, theirs = _SEGMENT.findall(left), _SEGMENT.findall(right)
    for one, other in zip(ours, theirs, strict=False):
        if one == other:
            continue
        if "~" in (one, other):
            return -1 if one == "~" else 1
        if one.isdigit() and other.isdigit():
            if int(one) != int(other):
                return 1 if int(one) > int(other) else -1
            continue
        if one.isdigit() != other.isdigit():
            return 1 if one.isdigit() else -1
        return 1 if one > other else -1
    if len(ours) == len(theirs):
        return 0
    longer, sign = (ours, 1) if len(ours) > len(theirs) else (theirs, -1)
    return -sign if longer[min(len(ours), len(theirs))] == "~" else sign


_RPM_KEY = functools.cmp_to_key(compare_rpm)
