"""What keeps interrupts in their place: the role's files and units, its state, and irqbalance."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence.system import COMMAND_LINES
from hfprov.evidence.systemd import Properties, property_of
from hfprov.evidence.systemd_units import shown_units, units
from hfprov.evidence.text import clean, json_document
from hfprov.reading import Observation, Result, Source, file, listing

UNIT = "hfprov-irq-affinity.service"
TIMER = "hfprov-irq-affinity.timer"
IRQBALANCE = "irqbalance.service"
LIBRARY = "/usr/local/lib/hfprov"
POLICY = f"{LIBRARY}/irqbalance_policy.sh"
CONFIG = "/etc/hfprov/irq-affinity.json"
RULES = "/etc/udev/rules.d/90-hfprov-irq-affinity.rules"
DROP_IN = f"/etc/systemd/system/{IRQBALANCE}.d/90-hfprov.conf"
SCRIPTS = (f"{LIBRARY}/irq_plan.py", f"{LIBRARY}/irq_affinity.py")
PATHS = (
    *(*SCRIPTS, POLICY, CONFIG, RULES, DROP_IN),
    *(f"/etc/systemd/system/{name}" for name in (UNIT, TIMER)),
)
DIRECTORIES = (LIBRARY, "/etc/hfprov", DROP_IN.rpartition("/")[0])
ETHTOOL = "/usr/sbin/ethtool"

_FILES = {path: file(path) for path in PATHS}
_PLACES = {path: listing(path) for path in (*DIRECTORIES, ETHTOOL)}


def _parse_files(seen: Observation, _: Baseline) -> Mapping[str, Result]:
    found = {path: seen.one(read) for path, read in _FILES.items()}
    for path, read in _PLACES.items():
        results = seen.each(read)
        found[path] = results[0] if results else Result(path, "absent")
    return found


FILES: Source[Mapping[str, Result]] = Source(
    "files of irq_affinity",
    lambda _: (*_FILES.values(), *_PLACES.values()),
    _parse_files,
)
"""By path; directories and ethtool without content."""


def digest(text: str) -> str:
    """SHA-256 of a text in hexadecimal. What is not UTF-8 is not what the role has written."""
    return hashlib.sha256(text.encode()).hexdigest()


_UNITS = units(
    *(UNIT, TIMER, IRQBALANCE),
    properties=(
        *("ActiveState", "UnitFileState", "NeedDaemonReload", "Result", "DropInPaths", "MainPID"),
        *("ExecMainStatus", "ExecStart"),
    ),
)

UNITS: Source[Mapping[str, Properties]] = Source(
    "units of irq_affinity", lambda _: (_UNITS,), lambda seen, _: shown_units(seen, _UNITS)[1]
)


def _parse_balancer(seen: Observation, _: Baseline) -> tuple[str, ...] | None:
    unit = shown_units(seen, _UNITS)[1][IRQBALANCE]
    if property_of(unit, "ActiveState") not in ("active", "reloading"):
        return None
    path = f"/proc/{property_of(unit, 'MainPID')}/cmdline"
    for result in seen.each(COMMAND_LINES):
        if result.name == path and result.ok and not result.truncated:
            return tuple(clean(word) for word in result.text.rstrip("\0").split("\0"))
    raise NoEvidenceError("The command line of irqbalance could not be read: it may have ended.")


BALANCER: Source[tuple[str, ...] | None] = Source(
    "process of irqbalance", lambda _: (_UNITS, COMMAND_LINES), _parse_balancer
)
"""Its command line; None where it does not run."""


class Placed(Struct, frozen=True):
    """What was written down about an interrupt when it was last moved."""

    name: str
    managed: bool
    """The kernel refused to move it: its affinity is the kernel's own."""
    before: Mapping[int, int]
    """How often it had come by then, by CPU."""


class State(Struct, frozen=True):
    """The notes of the last run of the role's script."""

    boot_id: str
    interrupts: Mapping[int, Placed]


_STATE = file("/run/hfprov-irq-affinity.json", limit=8 << 20)


def parse_state(text: str) -> State:
    """Raises NotUnderstoodError for anything but what the script writes."""
    document = json_document(text)
    try:
        rows = {
            int(number): Placed(
                str(row["name"]),
                row["result"] == "managed",
                {int(cpu): int(count) for cpu, count in row["before"].items()},
            )
            for number, row in document["interrupts"].items()
        }
        boot_id = str(document["boot_id"])
    except (AttributeError, KeyError, TypeError, ValueError):
        raise NotUnderstoodError("The notes on moved interrupts have another form.") from None
    if not re.fullmatch(r"[0-9a-f-]{36}", boot_id):
        raise NotUnderstoodError("The notes on moved interrupts name no boot.")
    return State(boot_id, rows)


def _parse_state(seen: Observation, _: Baseline) -> State | None:
    return parse_state(seen.text(_STATE)) if seen.exists(_STATE) else None


STATE: Source[State | None] = Source("notes on interrupts", lambda _: (_STATE,), _parse_state)
"""None where the script has not run since boot."""
