"""linuxptp: whether phc2sys or ptp4l sets the system's clock, as chronyd does.

phc2sys copies one clock to another: to the system's unless told otherwise, and with ``-a`` only if
``-r`` is given, too. Handed to chronyd as a source (``-E ntpshm``) it sets nothing. ptp4l sets the
system's clock only where it stamps packets in software. Sources: phc2sys(8), ptp4l(8).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError
from hfprov.evidence.system import COMMAND_LINES
from hfprov.evidence.text import clean, excerpt
from hfprov.reading import Observation, Source

_WITH_WORD = {"phc2sys": "cdfsltuznEPISFRNOLMi", "ptp4l": "fipl"}
"""Options that a word follows, behind the letter or next to it."""
_SYSTEM = "CLOCK_REALTIME"
_AS_SOURCE = ("ntpshm", "refclock_sock")


def _options(words: Iterable[str], with_word: str) -> Mapping[str, str]:
    """Last value by letter, of options as getopt(3) reads them; "" of those without one."""
    found: dict[str, str] = {}
    ahead = iter(words)
    for word in ahead:
        letters = word[1:] if word.startswith("-") and not word.startswith("--") else ""
        for at, letter in enumerate(letters):
            if letter in with_word:
                found[letter] = letters[at + 1 :] or next(ahead, "")
                break
            found[letter] = ""
    return found


def sets_clock(words: tuple[str, ...]) -> bool:
    """Whether a process, by its command line, is one of linuxptp that sets the system's clock."""
    name = words[0].rpartition("/")[2] if words else ""
    if name not in _WITH_WORD:
        return False
    options = _options(words[1:], _WITH_WORD[name])
    if name == "ptp4l":
        return "S" in options
    if options.get("E") in _AS_SOURCE or options.get("c", _SYSTEM) != _SYSTEM:
        return False
    return "r" in options if "a" in options else options.get("s") != _SYSTEM


def _parse(seen: Observation, _: Baseline) -> tuple[str, ...]:
    results = [result for result in seen.each(COMMAND_LINES) if result.ok]
    if not results:
        raise NoEvidenceError("The node's processes could not be listed.")
    lines = (tuple(result.text.rstrip("\0").split("\0")) for result in results)
    found = {excerpt(clean(" ".join(words))) for words in lines if sets_clock(words)}
    return tuple(sorted(found))


SETTING_CLOCK: Source[tuple[str, ...]] = Source(
    "linuxptp that sets the clock", lambda _: (COMMAND_LINES,), _parse
)
"""Command lines."""
