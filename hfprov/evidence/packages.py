"""Installed packages: ``dpkg -l``, ``dpkg-query -W``, ``rpm -qa`` and ``rpm -qi``.

Forms: the dpkg table (also cut to 80 columns, where versions may have lost their end), lines
``name version …`` of dpkg-query, one ``name-version-release.arch`` for each line (with columns
behind it), JSON objects for each line, and the blocks of ``rpm -qi``. A damaged database answers
with errors beside some packages: the facts then say that the list is not whole.
"""

from __future__ import annotations

import json
import re

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.host_values import bad_line, numbered_lines, unknown_form
from hfprov.evidence.package_facts import (
    NOT_CLOSED,
    Manager,
    Package,
    PackageFacts,
    PackageState,
)
from hfprov.evidence.package_table import STATES, parse_dpkg_table
from hfprov.evidence.text import clean, excerpt
from hfprov.regex import regex

_EXPECTED = "a listing of dpkg or rpm"
_NEVRA = regex(
    r"([A-Za-z0-9_.+-]+)-(?:([0-9]{1,9}):)?([A-Za-z0-9_.+~^]+)-([A-Za-z0-9_.+~^]+)"
    r"\.(noarch|x86_64|aarch64|arm64|ppc64le|ppc64|s390x|i[3-6]86|armv7hl|riscv64|loongarch64|src"
    r"|\(none\)|none)"
)
_KEY_PACKAGE = regex(r"gpg-pubkey-[0-9a-f]+-[0-9a-f]+(?:\.\(none\))?")
_COMPLAINT = regex(r"(?:(?:error|warning|rpmdb|rpm|dpkg-query|dpkg): |COMMAND>).*", re.IGNORECASE)
_QUERY = regex(
    r"(?:([uirph][ncHUFWti]R?)\s+)?([a-z0-9][a-z0-9+.-]*(?::[a-z0-9]+)?)\s+([0-9][A-Za-z0-9.+:~-]*)"
)
_STATUS = regex(
    r"\b(install|hold|deinstall|purge|unknown) (ok|reinstreq) "
    r"(not-installed|config-files|half-installed|unpacked|half-configured|triggers-awaited"
    r"|triggers-pending|installed)\b"
)
_RPM_RELEASE = regex(r"\.(?:el|fc|oe|amzn|cm|mga|sles|lp)[0-9]")
_RPM_ARCHITECTURES = frozenset({"noarch", "x86_64", "aarch64", "ppc64le", "s390x", "i686"})
_RPM_NAME = regex(r"[A-Za-z0-9_.+-]+")
_EPOCH = regex(r"[0-9]{1,9}|\(none\)")
_NOT_INSTALLED = regex(r"package (\S+) is not installed")


class _Lines:
    """Sorts lines into packages, complaints and what is neither."""

    __slots__ = ("errors", "manager", "packages", "unread")

    def __init__(self) -> None:
        self.manager = Manager.RPM
        self.packages: list[Package] = []
        self.errors: list[str] = []
        self.unread: list[str] = []

    def feed(self, line: str) -> None:
        """Take one line that is not empty."""
        if _COMPLAINT.fullmatch(line) and not _NEVRA.fullmatch(line.split(maxsplit=1)[0]):
            if not re.match(r"warning|COMMAND>", line, re.IGNORECASE):
                self.errors.append(excerpt(line, 200))
            return
        package = _json_line(line) if line.startswith("{") else _rpm_line(line)
        package = package or _rpm_columns(line.split())
        if package is None and (match := _QUERY.match(line)):
            package = _debian(match.group(1) or "", match.group(2), match.group(3), line)
            if not _RPM_RELEASE.search(match.group(3)):
                self.manager = Manager.DPKG
        if package is None and (match := _NOT_INSTALLED.fullmatch(line)):
            absent = PackageState.NOT_INSTALLED
            package = Package(match.group(1), None, "", None, None, absent, "", ())
        if package is None:
            self.unread.append(excerpt(line, 120))
        else:
            self.packages.append(package)


def parse(text: str) -> PackageFacts:
    """Facts from any form. Raises NotUnderstoodError when nothing but errors was answered."""
    text = clean(text)
    start = text.lstrip()
    if start.startswith(("Desired=", "||/ Name")) or "\n+++-" in text:
        return parse_dpkg_table(text)
    if re.match(r"Name {2,}: ", start):
        return _rpm_blocks(text)
    lines = _Lines()
    for line in text.split("\n"):
        if line.strip():
            lines.feed(line.strip())
    if not lines.packages:
        said = "\n".join(lines.errors) or text
        raise unknown_form("the package manager", said, _EXPECTED)
    if len(lines.unread) > len(lines.packages):
        raise unknown_form("the package manager", lines.unread[0], _EXPECTED)
    notes = () if text.endswith("\n") else (NOT_CLOSED,)
    return PackageFacts(
        lines.manager, tuple(lines.packages), tuple(lines.errors), tuple(lines.unread), notes
    )


def _rpm_line(line: str) -> Package | None:
    words = line.split()
    match = _NEVRA.fullmatch(words[0])
    if match is None:
        if _KEY_PACKAGE.fullmatch(words[0]):
            name, version, release = words[0].removesuffix(".(none)").rsplit("-", 2)
            return Package(name, None, version, release, None, PackageState.INSTALLED, "", ())
        return None
    name, epoch, version, release, architecture = match.groups()
    return Package(name, epoch, version, release, architecture, PackageState.INSTALLED, "", ())


def _rpm_columns(words: list[str]) -> Package | None:
    """A row of ``rpm -qa --qf`` with name, perhaps epoch, version and release in columns."""
    name, *rest = words
    architecture = next((word for word in rest if word in _RPM_ARCHITECTURES), None)
    if architecture is None and not any(_RPM_RELEASE.search(word) for word in rest):
        return None
    rest = [word for word in rest if word != architecture]
    epoch = None
    if len(rest) > 2 and _EPOCH.fullmatch(rest[0]) and not _RPM_RELEASE.search(rest[1]):
        epoch, *rest = rest
    if len(rest) < 2 or not _RPM_NAME.fullmatch(name):
        return None
    installed = PackageState.INSTALLED
    known = None if epoch == "(none)" else epoch
    return Package(name, known, rest[0], rest[1], architecture, installed, "", ())


def _debian(codes: str, name: str, version: str, line: str) -> Package:
    """A row of ``dpkg-query -W``; its format may name the state in words or letters."""
    plain, _, architecture = name.partition(":")
    state = STATES[codes[1]] if codes else PackageState.INSTALLED
    status = _STATUS.search(line)
    if status:
        desired, error, word = status.groups()
        broken = error == "reinstreq" or word in ("half-installed", "unpacked", "half-configured")
        known = {
            "installed": PackageState.INSTALLED,
            "config-files": PackageState.CONFIG_FILES,
            "not-installed": PackageState.NOT_INSTALLED,
        }
        state = PackageState.BROKEN if broken else known.get(word, PackageState.TRIGGERS)
        codes = codes or f"{desired[0]}{word[0]}"
    if codes.endswith("R"):
        state = PackageState.BROKEN
    return Package(plain, None, version, None, architecture or None, state, codes, ())


def _json_line(line: str) -> Package | None:
    try:
        item = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(item, dict):
        return None
    values = [item.get(key) for key in ("name", "version", "release", "arch", "epoch")]
    if not all(isinstance(value, str) for value in values[:3]):
        return None
    name, version, release, architecture, epoch = (
        value if isinstance(value, str) and value != "(none)" else None for value in values
    )
    if name is None or version is None:
        return None
    return Package(name, epoch, version, release, architecture, PackageState.INSTALLED, "", ())


def _rpm_blocks(text: str) -> PackageFacts:
    """``rpm -qi``: a block for each package, which ends with a free description."""
    blocks: list[dict[str, str]] = []
    in_description = False
    for number, line in numbered_lines(text):
        match = re.fullmatch(r"([A-Z][A-Za-z -]*?)\s*: ?(.*)", line)
        if match and match.group(1) == "Name":
            blocks.append({})
            in_description = False
        if in_description or not line.strip():
            continue
        if match is None or not blocks:
            raise bad_line("rpm -qi", number, line, "'Name : value'")
        blocks[-1][match.group(1)] = match.group(2).strip()
        in_description = match.group(1) == "Description"
    packages = []
    for block in blocks:
        missing = [key for key in ("Version", "Release", "Architecture") if key not in block]
        if missing:
            raise NotUnderstoodError(
                f"'rpm -qi' of '{excerpt(block['Name'], 40)}' shows no '{missing[0]}': cut off."
            )
        epoch = block.get("Epoch")
        packages.append(
            Package(
                block["Name"],
                None if epoch in (None, "(none)") else epoch,
                block["Version"],
                block["Release"],
                block["Architecture"],
                PackageState.INSTALLED,
                "",
                (),
            )
        )
    return PackageFacts(Manager.RPM, tuple(packages), (), (), ())
