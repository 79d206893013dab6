"""Parts of /sys: a dump of files, or the text of one file.

A dump is a JSON object ``{path: content}``, or a ttar archive (plain text, ``Path:``, ``Lines:``).
``parse`` gives every file of it, and typed facts on PCI functions, network interfaces and RDMA
ports. Anything else is taken for the content of one file. What is wrong with one device is a
problem of that device; the others are still known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.host_values import (
    failure_line,
    json_value,
    kind,
    mapping,
    natural,
    unknown_form,
)
from hfprov.evidence.sysfs_devices import (
    NetInterface,
    PciFunction,
    RdmaPort,
    net_interfaces,
    pci_functions,
    rdma_ports,
)
from hfprov.evidence.text import clean, excerpt
from hfprov.regex import regex

_RULE = regex(r"# ttar(?: -)+\s*")
_ENTRY = regex(r"[A-Za-z_][A-Za-z0-9_]*(?:=.*| [0-9]{1,20})")
_MODE = regex(r"Mode: [0-7]{3,4}")
_MAX_ATTRIBUTE = 4096
"""Bytes of a sysfs attribute: it is at most one page."""


class SysfsFile(Struct, frozen=True):
    """The text of one sysfs file. ``number`` is its value where it is a number."""

    text: str
    number: int | None


class SysfsTree(Struct, frozen=True):
    """A dump of files, with what could be understood of it."""

    files: Mapping[str, str]
    """Content by absolute path, without the newline at the end."""
    links: Mapping[str, str]
    """Target by path of a symbolic link."""
    pci: tuple[PciFunction, ...]
    net: tuple[NetInterface, ...]
    rdma: tuple[RdmaPort, ...]


def parse(text: str) -> SysfsTree | SysfsFile:
    """A dump of files, or the content of one file."""
    plain = clean(text)
    start = plain.lstrip()
    if start.startswith("{"):
        return _tree(_from_json(plain), {})
    if start.startswith(("Directory: ", "Path: ", "# ttar")):
        # Not cleaned as a whole: carriage returns inside binary files are not line ends.
        return _tree(*_from_ttar(text.replace("\r\n", "\n")))
    return _one_file(plain)


def _one_file(text: str) -> SysfsFile:
    value = text.strip()
    if not value:
        raise unknown_form("sysfs", value, "the content of a file")
    failed = failure_line(value)
    if failed is not None and failed.startswith(("cat:", "ls:", "bash:", "sh:", "find:", "grep:")):
        raise NotUnderstoodError(f"sysfs was not read: '{failed}'.")
    lines = value.split("\n")
    if (
        len(value) > _MAX_ATTRIBUTE
        or (len(lines) > 1 and not all(_ENTRY.fullmatch(line.strip()) for line in lines))
        or not all(line.isprintable() for line in lines)
    ):
        raise NotUnderstoodError(
            f"This is neither a dump of sysfs files nor the content of one: '{excerpt(value)}'."
        )
    number = None
    if re.fullmatch(r"-?[0-9]{1,39}", value):
        number = int(value)
    elif re.fullmatch(r"0[xX][0-9a-fA-F]{1,32}", value):
        number = int(value, 16)
    return SysfsFile(value, number)


def _from_json(text: str) -> dict[str, str]:
    document = mapping(json_value(text, "sysfs"), "A dump of sysfs files")
    if not document:
        raise NotUnderstoodError("The dump of sysfs files is empty: nothing was read.")
    files: dict[str, str] = {}
    for path, content in document.items():
        if not path.startswith("/"):
            raise NotUnderstoodError(
                f"'{excerpt(path, 40)}' is not a path: this JSON document is not a dump of sysfs "
                "files."
            )
        if not isinstance(content, str):
            raise NotUnderstoodError(
                f"The content of '{excerpt(path)}' should be a text, but is {kind(content)}."
            )
        files[path] = content.strip("\n")
    return files


def _from_ttar(text: str) -> tuple[dict[str, str], dict[str, str]]:
    files: dict[str, str] = {}
    links: dict[str, str] = {}
    lines = text.split("\n")
    position = 0
    path = ""
    while position < len(lines):
        line = lines[position]
        position += 1
        key, _, value = line.partition(": ")
        if key == "Path":
            path = _absolute(clean(value))
        elif key == "Lines":
            if path in files:
                raise NotUnderstoodError(f"'{excerpt(path)}' is in the dump twice.")
            files[path], position = _content(lines, position, value, path)
        elif key == "SymlinkTo":
            links[path] = clean(value)
        elif line and key not in ("Directory", "Mode") and not _RULE.fullmatch(line):
            raise NotUnderstoodError(
                f"Line {position} of the dump is not understood: '{excerpt(line)}'."
            )
    if path and path not in files and path not in links:
        raise NotUnderstoodError(f"The dump ends before '{excerpt(path)}': it is cut off.")
    if not files:
        raise NotUnderstoodError("The dump of sysfs files holds no file.")
    return files, links


def _content(lines: list[str], begin: int, count: str, path: str) -> tuple[str, int]:
    """The content of one file of an archive, and the position behind it."""
    end = begin + natural(count, f"The number of lines of '{excerpt(path)}'")
    # A reader that turns carriage returns into line ends makes binary files longer.
    while end < len(lines) and not _MODE.fullmatch(lines[end]):
        end += 1
    if end >= len(lines):
        raise NotUnderstoodError(f"The dump ends inside '{excerpt(path)}': it is cut off.")
    content = clean("\n".join(lines[begin:end]))
    return content.removesuffix("EOF").replace("NULLBYTE", ""), end


def _absolute(path: str) -> str:
    """The path on the node: archives begin with ``fixtures/sys/…``."""
    for root in ("sys/", "proc/"):
        before, found, _ = path.partition(root)
        if found and (not before or before.endswith("/")):
            return "/" + path[len(before) :]
    return path


def _tree(files: dict[str, str], links: dict[str, str]) -> SysfsTree:
    return SysfsTree(
        files=files,
        links=links,
        pci=pci_functions(files, links),
        net=net_interfaces(files),
        rdma=rdma_ports(files),
    )
