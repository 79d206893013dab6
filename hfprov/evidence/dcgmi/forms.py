"""Recognising which form of dcgmi's output a text is, and reading it."""

from __future__ import annotations

import re
from collections.abc import Callable

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.dcgmi.diag_json import ROOTS, diag_report
from hfprov.evidence.dcgmi.diag_table import (
    LOOKS_LIKE,
    SUMMARY,
    parse_diag_table,
    parse_summary,
)
from hfprov.evidence.dcgmi.model import (
    DcgmiFailure,
    DiagReport,
    Discovery,
    Health,
    HealthWatches,
    NvlinkStates,
)
from hfprov.evidence.dcgmi.other_forms import (
    health_report,
    parse_discovery,
    parse_health,
    parse_nvlink,
)
from hfprov.evidence.text import clean, excerpt, json_document
from hfprov.regex import regex

DcgmiFacts = DcgmiFailure | DiagReport | Discovery | Health | HealthWatches | NvlinkStates

_FAILURES: tuple[tuple[str, str], ...] = (
    ("no_connection", r"unable to (?:establish a connection|connect)|host ?engine connection"),
    ("no_connection", r"connection (?:not valid|invalid|refused|to the host engine)"),
    ("no_devices", r"no (?:gpus|devices|supported gpus)|group .* is empty|no data"),
    ("tool_missing", r"dcgmi: (?:command )?not found|no such file or directory"),
    ("not_run", r"unable to (?:run|complete|perform|execute) .*diag|diagnostic could not be run"),
    ("not_run", r"error when executing the diagnostic|diagnostic .*(?:timed out|aborted|already)"),
    ("invalid_argument", r"parse error|bad parameter|invalid (?:argument|parameter|option)"),
    ("other", r"\berror\b|\bunable to\b|\bfailed to\b"),
)

_MOST = 8 * 1024 * 1024
"""Characters; a full report of eight GPUs has a third of a million."""


def parse(text: str) -> DcgmiFacts:
    """Facts from ``dcgmi diag``, ``health``, ``discovery`` or ``nvlink``; a failure is a fact.

    Raises NotUnderstoodError when the text is no known form, or is one but not whole.
    """
    if len(text) > _MOST:
        raise NotUnderstoodError(
            f"The output of dcgmi is {len(text)} characters long; at most {_MOST} are read."
        )
    text = clean(text)
    if not text.strip():
        raise NotUnderstoodError("dcgmi printed nothing.")
    for mark, reader in _MARKS:
        if mark.search(text):
            return reader(text)
    failure = _failure(text)
    if failure is not None:
        return failure
    raise NotUnderstoodError(f"This is no form of dcgmi that is known: '{excerpt(text.strip())}'.")


def _json(text: str) -> DcgmiFacts:
    try:
        document = json_document("\n".join(line for line in text.split("\n") if line.strip()))
    except ValueError as error:  # a number of thousands of digits
        raise NotUnderstoodError(f"The JSON document is not valid: {error}.") from None
    if isinstance(document, dict) and "body" in document and not set(ROOTS) & set(document):
        return health_report(document)
    return diag_report(document)


_MARKS: tuple[tuple[re.Pattern[str], Callable[[str], DcgmiFacts]], ...] = (
    (regex(r"^[ \t]*\{", re.MULTILINE), _json),
    (regex(r"Overall Health|Health monitor systems report"), parse_health),
    (regex(r"^\d+ GPUs? found", re.MULTILINE), parse_discovery),
    (regex(r"^[ \t]*gpuId \d+:", re.MULTILINE), parse_nvlink),
    (LOOKS_LIKE, parse_diag_table),
    (SUMMARY, parse_summary),
)


def _failure(text: str) -> DcgmiFailure | None:
    for kind, pattern in _FAILURES:
        if re.search(pattern, text[:20_000], re.IGNORECASE):
            return DcgmiFailure(kind, " ".join(text.split())[:500])
    return None
