"""Memory rates of ``stress-ng --stream --metrics`` (0.14 to 0.18).

Per instance a line ``stress-ng: info: [1234] stream: memory rate: 5193.90 MB read/sec, 3462.60 MB
write/sec, ... (instance 0)``; releases before 0.14.03 print one rate, ``memory rate: 12345.67
MB/sec``. MB are 1024 * 1024 bytes (stress-stream.c of stress-ng).
"""

from __future__ import annotations

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.text import clean, excerpt
from hfprov.regex import regex

_RATE = regex(
    r"stream: memory rate: ([0-9.]{1,20}) MB(?: read/sec, ([0-9.]{1,20}) MB write)?/sec\b"
)
_DONE = regex(r"successful run completed")
_FAILED = regex(r"stress-ng: (?:error|fail): *\[\d+\] *(.+)")
_MIB_TO_GB = 1024**2 / 1e9


class StressStream(Struct, frozen=True):
    """Sum over all instances, in GB/s (1e9 bytes)."""

    instances: int
    memory_gb_s: float
    """Read and written together."""


def parse(text: str) -> StressStream:
    """Facts of one run. Raises NotUnderstoodError when it failed, or its rates are not whole."""
    text = clean(text)
    failure = _FAILED.search(text)
    if failure is not None:
        raise NotUnderstoodError(f"stress-ng failed: {excerpt(failure.group(1))}")
    rates = [float(match.group(1)) + float(match.group(2) or 0) for match in _RATE.finditer(text)]
    if not rates or not _DONE.search(text):
        raise NotUnderstoodError(
            f"There is no whole result of 'stress-ng --stream' in the output: '{excerpt(text)}'."
        )
    return StressStream(len(rates), sum(rates) * _MIB_TO_GB)
