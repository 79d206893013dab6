"""Round-trip times of single packets, as ``ping`` of iputils prints them, in microseconds.

The summary of ping has no percentiles; its lines have every packet's time. What came back twice is
counted once. ``time<1 ms`` (other pings) is no figure and is not understood.
"""

from __future__ import annotations

import re

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence import ping
from hfprov.evidence.text import clean
from hfprov.regex import regex

_LINE = regex(
    r"^\d{1,6} bytes from [^\n]{1,300}? icmp_seq=(\d{1,9}) ttl=\d{1,3} time=([0-9.]{1,12}) ms"
    r"(?P<again> \(DUP!\))?$",
    re.MULTILINE,
)
_MICRO = 1000.0


class RoundTrips(Struct, frozen=True):
    """The packets of one run."""

    sent: int
    times_us: tuple[float, ...]
    """Of what came back, in the order in which it did."""

    @property
    def lost(self) -> int:
        return self.sent - len(self.times_us)


def parse(text: str) -> RoundTrips:
    """Facts of one run. Raises NotUnderstoodError when lines and summary do not fit together."""
    text = clean(text)
    told = ping.parse(text)
    times = [float(match[2]) * _MICRO for match in _LINE.finditer(text) if not match["again"]]
    if len(times) != told.received:
        raise NotUnderstoodError(
            f"ping says that {told.received} packets came back, and shows {len(times)}."
        )
    return RoundTrips(told.sent, tuple(times))
