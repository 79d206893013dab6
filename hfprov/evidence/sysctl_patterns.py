"""Kernel settings for every interface at once: names with a ``*``, as sysctl.d(5) has them.

In a file a whole name wins over a pattern, whatever the order; so a pattern may be undone by a line
for one interface in any other file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

from hfprov.baseline import Baseline
from hfprov.evidence.sysctl_files import Assignment, SysctlFiles
from hfprov.evidence.text import clean
from hfprov.reading import Observation, Read, Source, complete_text, glob


def _read_of(name: str) -> Read:
    return glob("/proc/sys/" + name.replace(".", "/"), limit=4096)


def live_values(
    name: str, names: Callable[[Baseline], Iterable[str]]
) -> Source[Mapping[str, Mapping[str, str]]]:
    """What holds now: by name or pattern, the value by path below ``/proc/sys``; {} for none."""

    def parse_live(seen: Observation, baseline: Baseline) -> Mapping[str, Mapping[str, str]]:
        return {
            one: {
                result.name.removeprefix("/proc/sys/"): " ".join(
                    clean(complete_text(_read_of(one), result)).split()
                )
                for result in seen.each(_read_of(one))
                # An interface may go while it is looked at.
                if result.status != "absent"
            }
            for one in names(baseline)
        }

    return Source(name, lambda base: tuple(_read_of(one) for one in names(base)), parse_live)


def written_out(settings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Names and values as the role writes them: ``all`` and ``default`` before each pattern."""
    for name, value in sorted(settings.items()):
        if "*" in name:
            yield name.replace("*", "all"), value
            yield name.replace("*", "default"), value
        yield name, value


def rivals(files: SysctlFiles, ours: str, settings: Mapping[str, str]) -> Iterator[Assignment]:
    """Lines of other files that win over ours with another value, at boot or later.

    ``ours`` is the path of the role's file.
    """
    written = dict(written_out(settings))
    own_name = ours.rpartition("/")[2]
    for line in (*files.at_boot, *files.later):
        if line.path == ours:
            continue
        is_later = line in files.later or line.path.rpartition("/")[2] >= own_name
        if line.name in written:
            wins, value = is_later, written[line.name]
        else:
            pattern = next((one for one in written if "*" in one and _meets(line.name, one)), None)
            if pattern is None:
                continue
            # Between patterns the order counts; a whole name always wins.
            wins, value = is_later or "*" not in line.name, written[pattern]
        if wins and line.value != value:
            yield line


def _meets(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) or fnmatchcase(pattern, name)
