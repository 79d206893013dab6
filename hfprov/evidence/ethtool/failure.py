"""What ethtool says instead of an answer. Each sentence is evidence, and is kept word for word."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from hfprov.regex import regex


class Reason(StrEnum):
    """Why ethtool could not answer."""

    NOT_SUPPORTED = "not supported"
    NO_SUCH_DEVICE = "no such device"
    NOT_PERMITTED = "not permitted"
    NO_DATA = "no data"
    OTHER = "other"


class EthtoolFailure(Struct, frozen=True):
    """A request that ethtool or the driver refused. Never a value, never a pass by itself."""

    what: str
    """What was asked for, in ethtool's words (``device ring settings``); may be empty."""
    reason: Reason
    sentence: str
    interface: str | None = None


_REASONS = (
    ("not supported", Reason.NOT_SUPPORTED),
    ("no such device", Reason.NO_SUCH_DEVICE),
    ("not permitted", Reason.NOT_PERMITTED),
    ("permission denied", Reason.NOT_PERMITTED),
    ("no data available", Reason.NO_DATA),
    ("no stats available", Reason.NO_DATA),
    ("no private flags", Reason.NO_DATA),
    ("info available", Reason.NO_DATA),
)
_SENTENCE = regex(
    r"(?:ethtool: )?(?:[Cc]annot |[Cc]ould not |[Cc]an't )(?:get|open|read) (?P<what>.*)"
    r"|netlink error: (?P<netlink>.*)"
    r"|(?P<none>[Nn]o (?:stats|data|offload info|feature info|[a-z ]*info) available"
    r"|No private flags defined"
    r"|(?:Operation not supported|No such device|No data available|Permission denied))"
)


def _reason(sentence: str) -> Reason:
    lowered = sentence.lower()
    for words, reason in _REASONS:
        if words in lowered:
            return reason
    return Reason.OTHER


def failure_in(line: str) -> EthtoolFailure | None:
    """The failure that a line reports, or None when the line is no such sentence."""
    sentence = line.strip()
    match = _SENTENCE.fullmatch(sentence)
    if match is None:
        return None
    what = (match["what"] or "").partition(":")[0].strip()
    return EthtoolFailure(what=what, reason=_reason(sentence), sentence=sentence)


def join_split_sentences(lines: list[str]) -> list[str]:
    """Lines with ``: Operation not supported`` put back behind what it belongs to.

    ethtool prints the reason on a line of its own after ``Cannot get device channel parameters``.
    """
    joined: list[str] = []
    for line in lines:
        if line.startswith(": ") and joined and failure_in(joined[-1]) is not None:
            joined[-1] += line
        else:
            joined.append(line)
    return joined
