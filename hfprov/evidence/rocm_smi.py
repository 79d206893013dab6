"""AMD GPUs as ``rocm-smi`` reports them (deprecated by amd-smi, still on many nodes).

Read forms: ``--json`` and ``--csv`` (ROCm 3.9 to 6.2, keys renamed on the way), the concise table,
``GPU[0] : key: value`` text, ``--showrasinfo`` blocks, and the list of ``/opt/rocm/.info`` files.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.failures import FailureKind, ToolFailure, failure_table, find_failure
from hfprov.evidence.fields import (
    FieldError,
    integer,
    json_value,
    looks_like_json,
    mapping,
    not_understood,
)
from hfprov.evidence.rocm_smi_card import (
    BadPage,
    Card,
    RasBlock,
    card_from_concise,
    card_from_keys,
)
from hfprov.evidence.rocm_smi_topology import Link, matrix_links
from hfprov.evidence.text import clean, excerpt
from hfprov.regex import regex

TOOL = "rocm-smi"


class RocmSmi(Struct, frozen=True):
    cards: tuple[Card, ...] = ()
    driver_version: str | None = None
    links: tuple[Link, ...] = ()
    process_ids: tuple[int, ...] = ()
    package_versions: Mapping[str, str] | None = None
    """Component to version, from the files in ``/opt/rocm/.info``."""
    complete: bool = True
    """False when the text has no ``End of ROCm SMI Log``."""


_FAILURES = failure_table(
    {
        FailureKind.DRIVER_NOT_LOADED: (
            "driver not initialized",
            "amdgpu not found in modules",
            "amdgpu/initstate: no such file",
            "RSMI_STATUS_INIT_ERROR",
        ),
        FailureKind.NO_DEVICES: ("no (?:amd )?gpus? (?:specified|detected|found)", "no JSON data"),
        FailureKind.PERMISSION: ("RSMI_STATUS_PERMISSION",),
        FailureKind.OTHER: ("rsmi_init", "unable to (?:load|get)", r"^error\b", "exception caught"),
    }
)

_CARD = regex(r"card([0-9]{1,4})$")
_KEYED = regex(r"GPU\[([0-9]{1,4})\]\s*:\s*(\S[^:]*?)\s*:{1,2}\s*(.*)$")
_KEYED_TROUBLE = regex(r"(?:ERROR: )?GPU\[([0-9]{1,4})\]\s*:\s*(\S.*)$")
_RAS_ROW = regex(
    r"\s*(?P<name>[A-Z][A-Z0-9_]*)\s+(?P<status>ENABLED|DISABLED|ERROR)"
    r"(?:\s+(?:correctable=)?(?P<ce>\d{1,18}|N/A)\s+(?:uncorrectable=)?(?P<ue>\d{1,18}|N/A))?\s*$"
)
_RAS_CARD = regex(r"GPU\[([0-9]{1,4})\]\s*:?\s*(?:RAS INFO.*|[A-Z]+ PAGES INFO)?$")
_PAGE_ROW = regex(
    r"\s*(?P<address>0x[0-9a-fA-F]{1,16})\s+0x[0-9a-fA-F]{1,16}"
    r"\s+(?P<status>reserved|pending|unreservable)\s*$"
)
_INFO_FILE = regex(r"(\S*/\.info/\S+):([0-9]\S*)$")
_BETWEEN = regex(
    r"\(topology\) (weight|hops|link type) between drm devices ([0-9]{1,4}) and ([0-9]{1,4})$"
)
_PID = regex(r"pid([0-9]{1,12})$")
_END = "End of ROCm SMI Log"


def parse(text: str) -> RocmSmi | ToolFailure:
    """Facts of one rocm-smi output. Raises NotUnderstoodError when it is in no known form."""
    text = clean(text)
    if not text.strip():
        raise NotUnderstoodError(f"The output of '{TOOL}' is empty.")
    if looks_like_json(text):
        return _from_json(text)
    for read in (_from_csv, _from_concise, _from_lines):
        facts = read(text)
        if facts is not None:
            return facts
    failure = find_failure(text, _FAILURES)
    if failure is None:
        raise NotUnderstoodError(
            f"The output of '{TOOL}' is in no known form; it begins '{excerpt(text)}'."
        )
    return failure


def _from_json(text: str) -> RocmSmi | ToolFailure:
    document = mapping(json_value(text), f"The JSON of '{TOOL}'")
    cards = []
    system: Mapping[str, Any] = {}
    for name, values in document.items():
        if match := _CARD.match(name):
            cards.append(card_from_keys(int(match[1]), mapping(values, f"'{name}' of '{TOOL}'")))
        elif name == "system":
            system = mapping(values, f"'system' of '{TOOL}'")
        else:
            raise NotUnderstoodError(f"'{excerpt(name)}' in the JSON of '{TOOL}' is no card.")
    if not cards and not system:
        return ToolFailure(FailureKind.NO_DEVICES, f"The JSON of '{TOOL}' has no card.")
    return _with_system(cards, system)


def _with_system(cards: list[Card], system: Mapping[str, Any]) -> RocmSmi:
    links: dict[tuple[int, int], dict[str, Any]] = {}
    pids = []
    fields = {"weight": "weight", "hops": "hops", "link type": "type"}
    lowered = {name.lower(): value for name, value in system.items()}
    for name, value in lowered.items():
        if match := _BETWEEN.match(name):
            pair = links.setdefault((int(match[2]), int(match[3])), {})
            pair[fields[match[1]]] = str(value) if match[1] == "link type" else integer(str(value))
        elif match := _PID.match(name):
            pids.append(int(match[1]))
    driver = lowered.get("driver version")
    return RocmSmi(
        cards=tuple(cards),
        driver_version=None if driver is None else str(driver),
        links=tuple(Link(a, b, **values) for (a, b), values in links.items()),
        process_ids=tuple(pids),
    )


def _from_csv(text: str) -> RocmSmi | None:
    lines = text.split("\n")
    start = next((n for n, line in enumerate(lines) if line.startswith("device,")), None)
    if start is None:
        return None
    end = next((n for n in range(start, len(lines)) if not lines[n].strip()), len(lines))
    try:
        header, *rows = list(csv.reader(io.StringIO("\n".join(lines[start:end])), strict=True))
    except csv.Error as error:
        raise NotUnderstoodError(f"The CSV of '{TOOL}' is not valid: {error}.") from error
    cards = []
    for number, row in enumerate(rows, start=start + 2):
        match = _CARD.match(row[0]) if row else None
        if match is None or len(row) != len(header):
            raise not_understood(
                TOOL, number, ",".join(row), f"'cardN' and {len(header) - 1} columns"
            )
        cards.append(card_from_keys(int(match[1]), dict(zip(header[1:], row[1:], strict=True))))
    if not cards:
        raise NotUnderstoodError(f"The CSV of '{TOOL}' has a header and no rows.")
    return RocmSmi(tuple(cards))


def _from_lines(text: str) -> RocmSmi | None:
    """Text with one ``GPU[0] : key: value`` per line, RAS rows, or version files."""
    values: dict[int, dict[str, Any]] = {}
    ras: dict[int, list[RasBlock]] = {}
    trouble: dict[int, list[FieldError]] = {}
    versions: dict[str, str] = {}
    system: dict[str, str] = {}
    current = 0
    for line in text.split("\n"):
        if match := _RAS_CARD.match(line):
            current = int(match[1])
            values.setdefault(current, {})
        elif match := _KEYED.match(line):
            current = int(match[1])
            values.setdefault(current, {})[match[2]] = match[3]
        elif match := _KEYED_TROUBLE.match(line):
            if error := _trouble(match[2]):
                trouble.setdefault(int(match[1]), []).append(error)
            values.setdefault(int(match[1]), {})
        elif match := _RAS_ROW.match(line):
            ras.setdefault(current, []).append(_ras_block(match))
        elif match := _INFO_FILE.match(line.strip()):
            versions[match[1].rpartition("/")[2].removeprefix("version-")] = match[2]
        elif line.startswith("Driver version:"):
            system["driver version"] = line.partition(":")[2].strip()
    links, pages = matrix_links(text), _bad_pages(text)
    if not values and not ras and not links:
        return RocmSmi(package_versions=versions) if versions else None
    cards = [
        replace(
            _with_trouble(
                card_from_keys(n, values.get(n, {}), tuple(ras.get(n, ()))), trouble.get(n, [])
            ),
            bad_pages=tuple(pages.get(n, ())),
        )
        for n in sorted({*values, *ras})
    ]
    framed = "ROCm System Management Interface" in text or "=====" in text
    facts = _with_system(cards, system)
    whole = not framed or _END in text
    return RocmSmi(facts.cards, facts.driver_version, links=links, complete=whole)


def _bad_pages(text: str) -> dict[int, list[BadPage]]:
    """Pages of each GPU, which stand below its heading."""
    pages: dict[int, list[BadPage]] = {}
    current = 0
    for line in text.split("\n"):
        if match := _RAS_CARD.match(line):
            current = int(match[1])
        elif match := _PAGE_ROW.match(line):
            pages.setdefault(current, []).append(BadPage(match["address"], match["status"]))
    return pages


def _trouble(said: str) -> FieldError | None:
    """What a line about a GPU complains of; unsupported and what was set are no complaints."""
    harmless = re.search(r"not supported|unsupported|^Successfully ", said, re.IGNORECASE)
    return None if harmless else FieldError(TOOL, excerpt(said, 100))


def _with_trouble(card: Card, trouble: list[FieldError]) -> Card:
    return replace(card, errors=(*card.errors, *trouble))


def _ras_block(match: re.Match[str]) -> RasBlock:
    def count(text: str | None) -> int | None:
        return None if text in (None, "N/A") else integer(str(text))

    return RasBlock(match["name"], match["status"], count(match["ce"]), count(match["ue"]))


_CONCISE_HEADER = regex(r"^(?:GPU|Device)\s.*\bGPU%\s*$", re.MULTILINE)
_TWO_LINES = "[Model : Revision]"
_NO_ROW = ("WARNING", "Name (", "Exception caught", "ERROR:")
_SENSOR = regex(r"\((Die ?Edge|Edge|Junction)\)", re.IGNORECASE)
"""Which temperature it is stands in the heading, or (5.7 on) in a second line of it."""
_LOST_ESCAPE = regex(r"^\[[0-9]{1,2}m\s*")
"""What is left of an escape sequence when a paste loses its first character."""
_WIDE_GAP = regex(r"\s{2,}")
_COMMA_GAP = regex(r",\s+")


def _from_concise(text: str) -> RocmSmi | None:
    """The table that ``rocm-smi`` prints without options, with the complaints that stand in it.

    Releases 5.7 and 6.0 give a GPU two lines; the second one, indented, begins its name.
    """
    header = _CONCISE_HEADER.search(text)
    if header is None:
        return None
    names = _WIDE_GAP.split(header.group().strip())
    sensor = _SENSOR.search(text, header.start())
    junction = sensor is not None and sensor.group(1).lower() == "junction"
    first = text.count("\n", 0, header.end()) + 2
    trouble = [match for match in map(_KEYED_TROUBLE.match, text.split("\n")) if match]
    cards: list[Card] = []
    for number, line in enumerate(text[header.end() :].split("\n")[1:], start=first):
        row = _LOST_ESCAPE.sub("", line.strip())
        if not row or row[0] in "=(" or row.startswith(_NO_ROW) or _KEYED_TROUBLE.match(row):
            continue
        cells = _WIDE_GAP.split(_COMMA_GAP.sub(",", row))
        if len(cells) == 1 and line[0].isspace() and cards and _TWO_LINES in names:
            cards[-1] = replace(cards[-1], name=cells[0])
            continue
        if len(cells) != len(names):
            raise not_understood(TOOL, number, row, f"{len(names)} columns as in the header")
        values = dict(zip(names, cells, strict=True))
        cards.append(card_from_concise(values, junction=junction))
    if not cards:
        raise NotUnderstoodError(f"The table of '{TOOL}' has no rows.")
    of_card = [
        [
            error
            for match in trouble
            if int(match[1]) == card.index and (error := _trouble(match[2]))
        ]
        for card in cards
    ]
    whole = map(_with_trouble, cards, of_card)
    return RocmSmi(tuple(whole), complete=_END in text)
