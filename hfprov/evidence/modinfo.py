"""``modinfo`` of several kernel modules: one process for all who ask, taken apart again.

Most nodes have the driver of one vendor at most; to start a process for each of the others costs
more than they have to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from msgspec import structs

from hfprov.evidence.text import clean
from hfprov.reading import Read, Result, command
from hfprov.regex import regex

FIELDS = ("filename", "name", "version", "license")
"""What is kept of a module: some have thousands of lines of aliases."""

_SCRIPT = f'modinfo "$@" 2>&1 | grep -E "^({"|".join(FIELDS)}):|^modinfo: "'
_LINE = regex(r"([a-z]+): +(.*)")
_ENDING = regex(r"\.ko(\.[a-z0-9]+)?$")


@dataclass(frozen=True, slots=True)
class ShowModules(Read):
    """The fields of some modules."""

    modules: frozenset[str] = field(default=frozenset(), compare=False)

    def merged(self, other: Read) -> Read:
        if not isinstance(other, ShowModules):
            raise TypeError(f"'{other}' does not ask for modules.")
        return _show(self.modules | other.modules)


def _show(modules: frozenset[str]) -> ShowModules:
    read = command("sh", "-c", _SCRIPT, "sh", *sorted(modules), limit=64 * 1024)
    return ShowModules("modinfo of modules", read.request, modules)


@dataclass(frozen=True, slots=True)
class ModuleField(Read):
    """A ``modinfo -F FIELD MODULE``, sent within the one for all. Made by :func:`module_field`.

    Evidence that has its answer by itself is read as well.
    """

    name: str = field(default="", compare=False)
    module: str = field(default="", compare=False)

    def sent_as(self) -> Read:
        return _show(frozenset({self.module}))

    def answered_by(self, results: Mapping[str, tuple[Result, ...]]) -> tuple[Result, ...] | None:
        found = results.get(self.sent_as().id)
        if found is None or len(found) != 1 or not found[0].ok or found[0].truncated:
            return found
        said = clean(found[0].text)
        for section in _sections(said):
            if _name(section) == self.module.replace("-", "_"):
                text = f"{section[self.name]}\n" if self.name in section else ""
                return (structs.replace(found[0], text=text, code=0),)
        missing = f"modinfo: ERROR: Module {self.module} not found."
        if missing in said.splitlines():
            return (structs.replace(found[0], text="", stderr=f"{missing}\n", code=1),)
        stderr = f"'modinfo' did not tell of '{self.module}'."
        return (structs.replace(found[0], status="error", text="", stderr=stderr, code=None),)


def module_field(name: str, module: str) -> ModuleField:
    """The read of a field (one of :data:`FIELDS`) of a module for the running kernel."""
    read = command("modinfo", "-F", name, module, limit=4096)
    return ModuleField(read.id, read.request, name, module)


def _sections(text: str) -> Iterator[Mapping[str, str]]:
    """The fields of each module. ``filename`` comes first, of a built-in module ``name``."""
    section: dict[str, str] = {}
    for match in filter(None, map(_LINE.fullmatch, text.splitlines())):
        if match[1] in section and match[1] in {"filename", "name"}:
            yield section
            section = {}
        section.setdefault(match[1], match[2])
    if section:
        yield section


def _name(section: Mapping[str, str]) -> str:
    path = section.get("filename", "")
    name = section.get("name") or _ENDING.sub("", path.rpartition("/")[2])
    return name.replace("-", "_")
