"""Waivers: somebody answers, by name and for a time, for what is not as declared.

A waiver never changes an outcome. It is shown beside the finding, and certification does not count
that finding as a blocker while the waiver holds. What it can never cover:

- ``node.identity``: a certificate names a machine;
- what is absent: nobody can answer for what was not looked at;
- ``unknown``, unless it says ``covers: [unknown]``;
- the number and kind of accelerators, unless it names the check in full.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from hfprov.checks.registry import all_checks
from hfprov.container_smoke.judge import CHECKS, MADE
from hfprov.diagnosis import TOOLS
from hfprov.errors import Problem, UsageError
from hfprov.regex import regex
from hfprov.verdict import Outcome, Verdict, Waived

NEVER = frozenset({"node.identity"})
BY_FULL_NAME = frozenset({"accelerator.count", "accelerator.sku", "accelerator.model"})
_COVERABLE = {"fail": Outcome.FAIL, "unknown": Outcome.UNKNOWN}
_PATTERN = regex(r"[a-z_]+\.[a-z_.*?\[\]-]+")
_WILD = regex(r"[*?\[]")


def _end(value: Any) -> Any:
    """A day counts until its end, in UTC; a time must say its zone."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime.combine(value, time(), UTC) + timedelta(days=1)
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d{2}-\d{2}", value):
        return _end(date.fromisoformat(value))
    return value


def _with_zone(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError("the time has no zone; write it with 'Z' or '+02:00', or only the day")
    return value.astimezone(UTC)


def _one_host(value: str) -> str:
    if _WILD.search(value):
        raise ValueError("it names one host in full; write a waiver for each host")
    return value


def _some_check(value: str) -> str:
    if value in NEVER:
        raise ValueError("the identity of a machine cannot be waived")
    if not _PATTERN.fullmatch(value):
        raise ValueError("it names a check, such as 'mtu.live', or those of one part: 'mtu.*'")
    known = [one.id for one in all_checks()] + [one.check for one in TOOLS] + [MADE, *CHECKS]
    if not any(fnmatch.fnmatchcase(one, value) for one in known):
        raise ValueError("there is no such check; 'hfprov explain' lists them")
    return value


Text = Annotated[str, Field(min_length=1, max_length=500)]


class Waiver(BaseModel):
    """One entry of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)

    node: Annotated[Text, AfterValidator(_one_host)]
    check: Annotated[Text, AfterValidator(_some_check)]
    subject: str = ""
    """The interface, device or service; empty covers every subject of the check."""
    covers: tuple[Literal["fail", "unknown"], ...] = Field(default=("fail",), min_length=1)
    reason: Annotated[str, Field(min_length=10, max_length=500)]
    owner: Text
    expires: Annotated[datetime, BeforeValidator(_end), AfterValidator(_with_zone)]

    def matches(self, host: str, verdict: Verdict) -> bool:
        """Whether it is about this finding, expired or not."""
        name = verdict.check
        if host != self.node or name in NEVER or not fnmatch.fnmatchcase(name, self.check):
            return False
        if name in BY_FULL_NAME and name != self.check:
            return False
        if self.subject not in ("", verdict.subject):
            return False
        return verdict.outcome in {_COVERABLE[one] for one in self.covers}


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    waivers: tuple[Waiver, ...]


@dataclass(frozen=True, slots=True)
class Waivers:
    """All waivers that a command was given."""

    entries: Sequence[Waiver] = ()

    def annotate(self, host: str, verdicts: Iterable[Verdict]) -> list[Verdict]:
        """The same verdicts; those that somebody answers for, or did, say so."""
        mine = [one for one in self.entries if one.node == host]
        return [self._annotated(host, one, mine) for one in verdicts] if mine else list(verdicts)

    @staticmethod
    def _annotated(host: str, verdict: Verdict, mine: Iterable[Waiver]) -> Verdict:
        found = [one for one in mine if one.matches(host, verdict)]
        if not found:
            return verdict
        last = max(found, key=lambda one: one.expires)
        waived = Waived(last.owner, last.reason, last.expires)
        return verdict.waived_by(waived)


NO_WAIVERS = Waivers()


def load_waivers(path: Path) -> Waivers:
    """The waivers in a YAML file. Raises UsageError with every problem of the file."""
    try:
        content = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"'{path}' cannot be read: {error.strerror}.") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        said = " ".join(str(error).split())
        raise UsageError(f"'{path}' is not YAML: {said}.") from error
    try:
        return Waivers(_File.model_validate(content).waivers)
    except ValidationError as error:
        raise UsageError(problems_text(path, error), hint="No host was contacted.") from error


def problems_text(path: Path | str, error: ValidationError) -> str:
    """Every problem that pydantic found in a file of the user's, one in a line."""
    problems = [
        Problem(".".join(map(str, one["loc"])) or "the file", f"{_plain(one['msg'])}.")
        for one in error.errors()
    ]
    noun = "problem" if len(problems) == 1 else "problems"
    lines = "\n".join(f"  {problem}" for problem in problems)
    return f"'{path}' has {len(problems)} {noun}:\n{lines}"


def _plain(message: str) -> str:
    return message.removeprefix("Value error, ").rstrip(".")
