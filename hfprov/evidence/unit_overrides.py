"""What decides whether, when or how a unit starts: drop-ins, and files in place of a package's.

A unit that is enabled, loaded and runs now may still do nothing at the next boot: a drop-in with a
condition, or with another command, is enough, and ``systemctl show`` tells of neither beforehand.
So is a copy of the whole unit, as ``systemctl edit --full`` makes it; systemd.unit(5).
"""

from __future__ import annotations

from collections.abc import Mapping

from hfprov.baseline import Baseline
from hfprov.evidence.systemd import PLACES, Setting, parse_settings
from hfprov.reading import Observation, Source, complete_text, glob, listing

_READS = tuple(
    glob(f"{place}/system/{folder}/*.conf")
    for folder in ("*.service.d", "service.d", "*.timer.d", "timer.d")
    for place in PLACES
)
_FILES = tuple(
    listing(f"{place}/system/*.{kind}") for kind in ("service", "timer") for place in PLACES[:-1]
)
_PACKAGES = ("/usr/lib/systemd/", "/lib/systemd/")
Settings = Mapping[str, tuple[Setting, ...]]
"""What each drop-in says, by its path; those of a higher place come first.

Of a whole unit that is not in the packages' folder there is the path alone.
"""
_COMMANDS = ("ExecStart", "ExecStartPre", "ExecCondition")


def _parse(seen: Observation, _: Baseline) -> Settings:
    found = {}
    for read in _READS:
        for result in seen.each(read):
            if result.status == "absent":
                continue
            # A link to /dev/null hides a file of that name; it is not a regular file.
            text = complete_text(read, result) if result.type == "file" else ""
            found[result.name] = parse_settings(text, result.name)[0]
    for read in _FILES:
        for one in seen.each(read):
            # An alias is a link into the packages' folder, and a mask is one to a device.
            if one.ok and one.type == "file" and not (one.link or "").startswith(_PACKAGES):
                found[one.name] = ()
    return found


DROP_INS: Source[Settings] = Source("drop-ins of units", lambda _: (*_READS, *_FILES), _parse)
"""Of all services and timers, wherever they are; and whole units in place of packages'."""


def replacing(found: Settings, unit: str) -> str:
    """Path of the file that systemd takes instead of a package's; "" where there is none."""
    return next((path for path in found if path.endswith(f"/system/{unit}")), "")


def deciding(found: Settings, unit: str) -> tuple[Setting, ...]:
    """What decides whether, when or how ``unit`` starts: of each key the one that holds."""
    stem, _, kind = unit.rpartition(".")
    prefix = f"{stem.rpartition('-')[0]}-.{kind}.d"
    files: dict[str, tuple[Setting, ...]] = {}
    for folder in (f"{unit}.d", prefix, f"{kind}.d"):
        for path, settings in found.items():
            if path.split("/")[-2] == folder:
                files.setdefault(path.rpartition("/")[2], settings)
    holding = {
        (one.section, one.key): one
        for name in sorted(files)
        for one in files[name]
        if _decides(one)
    }
    return tuple(holding.values())


def _decides(setting: Setting) -> bool:
    if setting.section == "Unit":
        # An empty condition takes back those of the unit: it starts all the more.
        return setting.key.startswith(("Condition", "Assert")) and bool(setting.value)
    return setting.section == "Timer" or setting.key in _COMMANDS
