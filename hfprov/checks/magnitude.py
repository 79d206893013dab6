"""Counts in words that stay the same from run to run.

Verdicts of two runs are compared. A counter that goes on counting would make every run look
different, so findings show its order of magnitude; the exact number is in the evidence.
"""

from __future__ import annotations


def magnitude(count: int) -> str:
    """``0``, ``1 to 9``, ``10 or more``, ``100 or more``, … for a count that is not negative."""
    if count <= 0:
        return "0"
    zeros = len(str(count)) - 1
    return f"1{'0' * zeros} or more" if zeros else "1 to 9"


def percent(part: float, whole: float) -> str:
    """A share as whole percent, or ``under 1 %``."""
    share = 100 * part / whole if whole else 0.0
    return "under 1 %" if 0 < share < 1 else f"{share:.0f} %"
