"""Resource limits: ``/proc/PID/limits``, and the files that pam_limits reads.

Amounts are in bytes where the kernel counts bytes, otherwise in things; ``math.inf`` is unlimited.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NotUnderstoodError
from hfprov.evidence.systemd import property_of
from hfprov.evidence.systemd_units import ShowUnits, shown_units, units
from hfprov.evidence.text import clean, excerpt
from hfprov.reading import Observation, Result, Source, complete_text, file, glob

SESSION_FILE = file("/proc/self/limits", limit=16 * 1024)
PAM_FILE = file("/etc/security/limits.conf")
PAM_DIRECTORY = glob("/etc/security/limits.d/*.conf")


class Resource(Struct, frozen=True):
    """A limit that we care for, with its names in the places where it is set and shown."""

    name: str
    """In pam_limits, limits.conf(5)."""
    proc: str
    """In /proc/PID/limits, proc(5)."""
    systemd: str
    """After ``Limit`` and ``DefaultLimit``, systemd.exec(5)."""
    unit: int = 1
    """Bytes (or things) in one unit of pam_limits."""

    def show(self, amount: float) -> str:
        """An amount for people, in the unit of pam_limits."""
        if math.isinf(amount):
            return "unlimited"
        return f"{amount / self.unit:g} KiB" if self.unit == 1024 else f"{amount:.0f}"


MEMLOCK = Resource("memlock", "Max locked memory", "MEMLOCK", 1024)
NOFILE = Resource("nofile", "Max open files", "NOFILE")
NPROC = Resource("nproc", "Max processes", "NPROC")
STACK = Resource("stack", "Max stack size", "STACK", 1024)
RESOURCES = (MEMLOCK, NOFILE, NPROC, STACK)


class Limit(Struct, frozen=True):
    """What a process has (soft), and to what it may raise that (hard)."""

    soft: float
    hard: float


Limits = Mapping[str, Limit]
"""By :attr:`Resource.name`."""


def amount(text: str, unit: int = 1) -> float:
    """An amount as tools write it, times ``unit``. Raises NotUnderstoodError."""
    # Older systemd prints infinity as the largest 64-bit number; pam takes -1 for it.
    if text in ("unlimited", "infinity", "-1", "18446744073709551615"):
        return math.inf
    if not re.fullmatch(r"[0-9]{1,20}", text):
        raise NotUnderstoodError(f"'{excerpt(text)}' is not an amount.")
    return int(text) * unit


_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def systemd_limit(text: str) -> Limit:
    """A ``SOFT[:HARD]`` of systemd.exec(5), sizes with a suffix. Raises NotUnderstoodError."""
    soft, _, hard = text.partition(":")
    return Limit(_systemd_amount(soft), _systemd_amount(hard or soft))


def _systemd_amount(text: str) -> float:
    match = re.fullmatch(r"([0-9]{1,20})([KMGT]?)", text)
    return int(match[1]) * _SIZES[match[2]] if match else amount(text)


def parse(text: str) -> Limits:
    """The limits that we care for, of one ``/proc/PID/limits``. All must be there."""
    found: dict[str, Limit] = {}
    for line in clean(text).splitlines():
        for resource in RESOURCES:
            if line.startswith(resource.proc):
                words = line[len(resource.proc) :].split()
                if len(words) < 2:
                    raise NotUnderstoodError(f"'{excerpt(line)}' has no soft and hard limit.")
                found[resource.name] = Limit(amount(words[0]), amount(words[1]))
    missing = [resource.proc for resource in RESOURCES if resource.name not in found]
    if missing:
        raise NotUnderstoodError(f"The limits do not tell of {', '.join(missing)}.")
    return found


SESSION: Source[Limits] = Source(
    "limits of the session",
    lambda _: (SESSION_FILE,),
    lambda seen, _: parse(seen.text(SESSION_FILE)),
)


class PamLine(Struct, frozen=True):
    """One line that pam_limits obeys."""

    path: str
    line: int
    domain: str
    kind: str
    """``soft``, ``hard`` or ``-`` for both."""
    item: str
    value: str

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}"

    @property
    def statement(self) -> str:
        return f"{self.domain} {self.kind} {self.item} {self.value}"

    @property
    def sides(self) -> tuple[str, ...]:
        return ("soft", "hard") if self.kind == "-" else (self.kind,)


def parse_pam(text: str, path: str) -> tuple[tuple[PamLine, ...], tuple[str, ...]]:
    """Lines of a limits.conf(5) in order, and what pam_limits would pass over."""
    lines, strange = [], []
    for number, raw in enumerate(clean(text).splitlines(), start=1):
        words = raw.split("#", 1)[0].split()
        if not words:
            continue
        if len(words) == 2 and words[1] == "-":
            # No limits at all for this domain.
            words += ["", "unlimited"]
        if len(words) < 4 or words[1].lower() not in ("soft", "hard", "-"):
            strange.append(raw.strip())
            continue
        domain, kind, item, value = words[:4]
        if len(words) > 4:  # pam_limits obeys the first four
            strange.append(" ".join(words[4:]))
        lines.append(PamLine(path, number, domain, kind.lower(), item.lower(), value))
    return tuple(lines), tuple(strange)


class PamFiles(Struct, frozen=True):
    """All files of pam_limits, in the order in which it reads them: the last line wins."""

    lines: tuple[PamLine, ...]
    results: Mapping[str, Result]
    """What was read, by path; also files that could not be parsed."""


def _parse_pam_files(seen: Observation, _: Baseline) -> PamFiles:
    main = seen.one(PAM_FILE)
    drop_ins = sorted(seen.each(PAM_DIRECTORY), key=lambda result: result.name.encode())
    lines: list[PamLine] = []
    results = {result.name: result for result in (main, *drop_ins)}
    for result in (main, *drop_ins):
        if result.status == "absent" or result.type != "file":
            continue
        read = PAM_FILE if result is main else PAM_DIRECTORY
        lines.extend(parse_pam(complete_text(read, result), result.name)[0])
    return PamFiles(tuple(lines), results)


PAM: Source[PamFiles] = Source(
    "files of pam_limits", lambda _: (PAM_FILE, PAM_DIRECTORY), _parse_pam_files
)


def limits_of_services(name: str, services: str) -> Source[Mapping[str, Limits]]:
    """Limits of the main process of each running service that the variable ``services`` lists.

    An alias beside its unit is left out: they are one.
    """

    def read(baseline: Baseline) -> ShowUnits:
        names = (f"{service}.service" for service in baseline.get(services, ()))
        return units(*names, properties=("MainPID",), of_main_process=("limits",))

    def parse_running(seen: Observation, baseline: Baseline) -> Mapping[str, Limits]:
        shown, found = shown_units(seen, read(baseline))
        return {
            service: parse(shown.main_process_file(unit, "limits"))
            for service, unit in found.items()
            if property_of(unit, "MainPID") != "0"
            and (service == property_of(unit, "Id") or property_of(unit, "Id") not in found)
        }

    return Source(name, lambda baseline: (read(baseline),), parse_running)
