"""Packages that dpkg has not finished with, of all that it knows.

dpkg's database is looked through for their states, dpkg(1); the line of a state does not name its
package, so that names are known only of those that somebody asks dpkg for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence.dpkg_query import at_hand
from hfprov.evidence.grep import grep, lines
from hfprov.evidence.kernel_packages import JOURNAL
from hfprov.evidence.system import COMMAND_LINES
from hfprov.evidence.text import clean, excerpt
from hfprov.reading import Observation, Source
from hfprov.regex import regex

DATABASE = "/var/lib/dpkg/status"
REINSTALL = "to be installed anew"
TRIGGERS = ("triggers-awaited", "triggers-pending")
"""The package itself is whole; something else has to be told of it."""
_STATES = ("half-installed", "unpacked", "half-configured", *TRIGGERS)
_OF_LETTER = dict(zip("HUFWt", _STATES, strict=True))
# dpkg's own entry tells that the database was there, and was read.
_OWN = "Package: dpkg"
_PATTERN = f"^({_OWN}|Status: [a-z]+ (reinstreq [a-z-]+|[a-z]+ ({'|'.join(_STATES)})))[[:space:]]*$"
_STATUS = regex(r"Status: [a-z]+ ([a-z]+) ([a-z-]+)")
_READ = grep(_PATTERN, DATABASE)
_DAEMONS = ("chrony", "irqbalance", "nftables", "openssh-server", "slurmd", "systemd", "tuned")
"""Nobody else asks for these, and a node is hardly worth its name without them."""
_NAMES = at_hand(r"${db:Status-Abbrev}\t${Package}\n", "dpkg", *_DAEMONS)


class Unfinished(Struct, frozen=True):
    """What dpkg has left undone."""

    states: tuple[str, ...]
    """Of each package that is not whole, :data:`REINSTALL` among them, in order of the database."""
    names: tuple[tuple[str, str], ...]
    """State and name of those that are known by name."""
    is_interrupted: bool
    """dpkg was killed, and has to be told to go on before anything else."""


def states_in(found: Iterable[str]) -> tuple[str, ...]:
    """States of the lines of the database. Raises NoEvidenceError where dpkg is not in it."""
    states, has_dpkg = [], False
    for line in found:
        text = line.strip()
        has_dpkg = has_dpkg or text == _OWN
        match = _STATUS.fullmatch(text)
        if match and match[1] == "reinstreq":
            states.append(REINSTALL)
        elif match and match[2] in _STATES:
            states.append(match[2])
    if not has_dpkg:
        raise NoEvidenceError(f"'{DATABASE}' does not list dpkg itself: it is not whole.")
    return tuple(states)


def names_in(text: str) -> Iterator[tuple[str, str]]:
    """State and name from ``dpkg-query``. Raises NotUnderstoodError."""
    for line in clean(text).splitlines():
        codes, tab, name = line.partition("\t")
        if not tab or len(codes) < len("ii"):
            raise NotUnderstoodError(f"'{excerpt(line)}' is not a line of 'dpkg-query'.")
        state = REINSTALL if codes[2:3] == "R" else _OF_LETTER.get(codes[1], "")
        if state:
            yield state, excerpt(name, 80)


def _parse(seen: Observation, _: Baseline) -> Unfinished | None:
    if not seen.exists(_NAMES):
        return None
    journal = any(one.status != "absent" for one in seen.each(JOURNAL))
    states = states_in(line.text for line in lines(seen, _READ))
    return Unfinished(states, tuple(sorted(names_in(seen.text(_NAMES, codes=(0, 1))))), journal)


UNFINISHED: Source[Unfinished | None] = Source(
    "unfinished packages", lambda _: (_READ, _NAMES, JOURNAL), _parse
)
"""None: the node has no dpkg."""


def _parse_at_work(seen: Observation, _: Baseline) -> bool:
    programs = (one.text.partition("\0")[0] for one in seen.each(COMMAND_LINES) if one.ok)
    return any(program.rpartition("/")[2] == "dpkg" for program in programs)


DPKG_AT_WORK: Source[bool] = Source("dpkg at work", lambda _: (COMMAND_LINES,), _parse_at_work)
"""Whether dpkg runs now: what it has not finished with yet may be what it is at."""
