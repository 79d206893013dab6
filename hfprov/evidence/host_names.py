"""The host name that the kernel has now, and the one that the next boot gives: hostname(5)."""

from __future__ import annotations

from fnmatch import fnmatchcase

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NotUnderstoodError
from hfprov.evidence.text import excerpt
from hfprov.reading import KIB, Observation, Source, file
from hfprov.regex import regex

LIVE = file("/proc/sys/kernel/hostname", limit=KIB)
WRITTEN = file("/etc/hostname", limit=4 * KIB)
_NAME = regex(r"[A-Za-z0-9_?.-]{1,255}")
_NONE = ("", "(none)", "localhost")
"""Names that say nothing; short ones."""


class HostNames(Struct, frozen=True):
    """Both names without their domains, in small letters."""

    live: str
    written: str
    """"" where the file names none, or is not there. A ``?`` stands for a digit of systemd's."""

    @property
    def agree(self) -> bool:
        return fnmatchcase(self.live, self.written)


def parse_live(text: str) -> str:
    """The kernel's name. Raises NotUnderstoodError."""
    # As it stands: a name with an escape sequence in it is another name.
    name = text.strip()
    return "(none)" if name in _NONE[:2] else _short(name, "The kernel's host name")


def parse_written(text: str) -> str:
    """The first line that is no comment, "" where that says nothing. Raises NotUnderstoodError."""
    lines = (line.strip() for line in text.splitlines())
    name = next((line for line in lines if line and not line.startswith("#")), "")
    short = _short(name, "'/etc/hostname'") if name not in _NONE else ""
    return "" if short in _NONE else short


def _short(name: str, what: str) -> str:
    if not _NAME.fullmatch(name):
        raise NotUnderstoodError(f"{what} is '{excerpt(name)}', which is no host name.")
    return name.partition(".")[0].lower()


def _parse(seen: Observation, _: Baseline) -> HostNames:
    written = parse_written(seen.text(WRITTEN)) if seen.exists(WRITTEN) else ""
    return HostNames(parse_live(seen.text(LIVE)), written)


HOST_NAMES: Source[HostNames] = Source("host names", lambda _: (LIVE, WRITTEN), _parse)
