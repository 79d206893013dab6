"""One self-contained HTML file: opens anywhere, loads nothing, runs no script.

The page is written piece by piece, so that memory does not grow with the fleet. Every value passes
:func:`hfprov.report.inert.one_line` and then Jinja2's escaping on its way out; a template cannot
forget either.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from importlib import resources
from typing import TextIO

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from hfprov.catalogue.explanations import Explanation, explanations
from hfprov.record.model import Certificate
from hfprov.report.causes import SHOWN
from hfprov.report.content import Content
from hfprov.report.html_hosts import Details
from hfprov.report.inert import one_line
from hfprov.report.measured_views import measured_views
from hfprov.report.overview import Overview, counts_text, survey
from hfprov.report.standing import STATE_WORDS
from hfprov.verdict import Outcome
from hfprov.words import plural

_SHOWN_EVENTS = 100
_PROSE = 4000
_NAMED_TILES = 300
"""Above this many hosts the tiles are smaller."""

OUTCOME_WORDS = {
    Outcome.PASS: "pass",
    Outcome.WARN: "warning",
    Outcome.FAIL: "fail",
    Outcome.UNKNOWN: "unknown",
    Outcome.NOT_APPLICABLE: "not applicable",
}

_EXIT_WORDS = {
    0: "all that was asked for is good",
    1: "something is drifted or failed",
    2: "wrong usage, configuration or inventory",
    3: "a host could not be reached or judged",
    4: "nothing was checked",
    130: "stopped by a person",
}


def write_html(content: Content, out: TextIO) -> Overview:
    """Write the page of a run or of the fleet; says what it told. Raises RecordError."""
    found = survey(content)
    out.writelines(_pieces(content, found))
    return found


def _pieces(content: Content, found: Overview) -> Iterator[str]:
    style = _style()
    details = Details(content, found)
    known = explanations()
    yield from (
        _environment()
        .get_template("report.html.j2")
        .generate(
            style=Markup(style),  # noqa: S704 - our own file
            style_hash=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
            content=content,
            info=content.info,
            found=found,
            causes=found.causes.ranked[:SHOWN],
            left_out_causes=max(0, len(found.causes.ranked) - SHOWN) + found.causes.left_out,
            details=details,
            dense=len(found.rows) > _NAMED_TILES,
            measured=measured_views(content.measurements()),
            events=_first_events(content),
            explained=[(check, known[check]) for check in sorted(found.checks) if check in known],
        )
    )
    yield "\n"  # Jinja2 leaves out the one at a template's end


def _first_events(content: Content) -> tuple[list[object], int]:
    """The first events, and how many more there are."""
    shown: list[object] = []
    more = 0
    for event in content.events():
        if len(shown) < _SHOWN_EVENTS:
            shown.append(event)
        else:
            more += 1
    return shown, more


@cache
def _style() -> str:
    """The style sheet as it stands between the tags: its hash is in the page's policy."""
    text = resources.files("hfprov.report").joinpath("templates/report.css").read_text("utf-8")
    return f"\n{text.strip()}\n"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("hfprov.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_inert,
    )
    environment.filters.update(
        when=_when,
        date=_date,
        outcome=OUTCOME_WORDS.__getitem__,
        state=STATE_WORDS.__getitem__,
        exit=lambda code: _EXIT_WORDS.get(code, "an exit code that hfprov does not know"),
        certificate=certificate_status,
        remedy=_first_remedy,
        explained=lambda check: check in explanations(),
        check_title=_title,
        counts=counts_text,
        plural=plural,
        prose=_prose,
        block=_block,
        short=lambda digest: digest[:12] or "none",
    )
    environment.globals.update(Outcome=Outcome)
    return environment


def _inert(value: object) -> object:
    return value if isinstance(value, (Markup, int)) else one_line(value)


def _when(moment: datetime | None) -> str:
    return "never" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _date(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M}"


def certificate_status(issued: Certificate | None, now: datetime) -> tuple[Outcome, str]:
    """How a certificate stands at a time: an outcome for its colour, and words."""
    if issued is None:
        return Outcome.NOT_APPLICABLE, "none"
    if issued.revoked_at is not None:
        return Outcome.FAIL, f"revoked {_date(issued.revoked_at)}"
    if now >= issued.expires_at:
        return Outcome.WARN, f"expired {_date(issued.expires_at)}"
    if not issued.valid_at(now):
        return Outcome.WARN, f"valid only from {_date(issued.issued_at)}"
    signed = "" if issued.signature else ", not signed"
    return Outcome.PASS, f"{issued.profile}, until {_date(issued.expires_at)}{signed}"


def _explanation(check: str) -> Explanation | None:
    return explanations().get(check)


def _first_remedy(check: str) -> str:
    found = _explanation(check)
    return found.remedy[0] if found and found.remedy else ""


def _title(check: str) -> str:
    found = _explanation(check)
    return found.title if found else ""


def _prose(text: str) -> Markup:
    """A paragraph of our own explanations, which are longer than what a node may say."""
    return escape(one_line(text, _PROSE))


def _block(shown: list[str]) -> Markup:
    """Lines that are inert already, as the content of a ``pre``."""
    return escape("\n".join(shown))
