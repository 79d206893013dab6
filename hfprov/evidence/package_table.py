"""The table of ``dpkg -l``.

Three letters begin each row: what is desired, what is there, and errors (dpkg-query(1)). The line
``+++-====-…`` gives the widths of the columns; text as wide as its column may have been cut off
there (dpkg does that when its output is a narrow terminal).
"""

from __future__ import annotations

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.host_values import bad_line, numbered_lines
from hfprov.evidence.package_facts import NOT_CLOSED, Manager, Package, PackageFacts, PackageState
from hfprov.evidence.text import excerpt
from hfprov.regex import regex

_RULE = regex(r"\+\+\+-(=+)-(=+)-(=+)(?:-(=+))?")
_ROW = regex(r"([uirph])([ncHUFWtihufw])([RX]?) +(\S+) +(\S+)(?: +(\S+))?(?: +(.*))?")
_COLUMNS = 4
STATES = {
    "n": PackageState.NOT_INSTALLED,
    "c": PackageState.CONFIG_FILES,
    "H": PackageState.BROKEN,
    "U": PackageState.BROKEN,
    "F": PackageState.BROKEN,
    "W": PackageState.TRIGGERS,
    "t": PackageState.TRIGGERS,
    "i": PackageState.INSTALLED,
}
"""State of a package by dpkg's second letter."""


def parse_dpkg_table(text: str) -> PackageFacts:
    """Facts from ``dpkg -l``."""
    widths: tuple[int, ...] = ()
    packages: list[Package] = []
    errors: list[str] = []
    for number, line in numbered_lines(text):
        if not line.strip() or line.startswith(("Desired=", "| Status=", "|/ Err?=", "||/ ")):
            continue
        rule = _RULE.fullmatch(line)
        if rule:
            # Before dpkg 1.16 there is no column for the architecture.
            widths = tuple(len(part) for part in rule.groups() if part)
        elif line.startswith(("dpkg-query:", "dpkg:")):
            errors.append(excerpt(line, 200))
        elif not widths:
            raise bad_line("dpkg -l", number, line, "the header of its table")
        else:
            packages.append(_package(number, line, widths))
    if not packages:
        raise NotUnderstoodError(
            f"dpkg lists no package: '{errors[0]}'." if errors else "dpkg lists no package."
        )
    whole = text.endswith("\n")
    notes = () if whole else (NOT_CLOSED,)
    return PackageFacts(Manager.DPKG, tuple(packages), tuple(errors), (), notes)


def _package(number: int, line: str, widths: tuple[int, ...]) -> Package:
    match = _ROW.fullmatch(line)
    has_architecture = len(widths) == _COLUMNS
    if match is None or (has_architecture and not match.group(6)):
        raise bad_line("dpkg -l", number, line, "'ii  name  version  architecture  description'")
    desired, state, error, name, version, architecture, _ = match.groups()
    cut = [
        column
        for column, value, width in zip(("name", "version"), (name, version), widths, strict=False)
        if len(value) >= width
    ]
    plain, _, qualifier = name.partition(":")
    return Package(
        name=plain,
        epoch=None,
        version=version,
        release=None,
        architecture=qualifier or (architecture if has_architecture else None),
        state=PackageState.BROKEN
        if error.strip()
        else STATES[state.upper() if state in "hufw" else state],
        codes=f"{desired}{state}{error}".strip(),
        cut=tuple(cut),
    )
