"""``/proc/cmdline``, ``meminfo``, ``cpuinfo``, ``modules`` and ``version``."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.host_values import bad_line, natural, numbered_lines, unknown_form, whole
from hfprov.evidence.text import clean, excerpt
from hfprov.regex import regex

_MEMORY = regex(r"([A-Za-z0-9_()]+):\s+([0-9]{1,20})( kB)?")
_MODULE = regex(
    r"(\w+) ([0-9]{1,20}) (-?[0-9]{1,9}|-) (\S+) (Live|Loading|Unloading)"
    r"(?: (0x[0-9a-f]+))?(?: \(([A-Z]+)\))?"
)
_LSMOD = regex(r"(\w+) +([0-9]{1,20}) +(-?[0-9]{1,9})(?: +(\S+))?")
_VERSION = regex(r"Linux version (\S+) \((.*?)\) ?(.*)")
_WORD = regex(r'(?:[^\s"]|"[^"]*")+')


class CmdlineFacts(Struct, frozen=True):
    """What the running kernel was started with."""

    words: tuple[str, ...]
    """Each parameter as given, in order; one may be given several times."""

    def values(self, name: str) -> tuple[str, ...]:
        """All values of ``name=…``; the kernel takes ``-`` and ``_`` in names for the same.

        A parameter without a value (``quiet``) has the value ''.
        """
        wanted = name.replace("-", "_")
        found = []
        for word in self.words:
            key, _, value = word.partition("=")
            if key.replace("-", "_") == wanted:
                found.append(value.strip('"'))
        return tuple(found)


class MeminfoFacts(Struct, frozen=True):
    """Memory of the machine. Sizes in KiB (the kernel writes kB and means KiB)."""

    kib: Mapping[str, int]
    counts: Mapping[str, int]
    """Numbers of huge pages: rows without a unit."""

    @property
    def total_kib(self) -> int:
        return self.kib["MemTotal"]

    @property
    def available_kib(self) -> int | None:
        """None on kernels before 3.14."""
        return self.kib.get("MemAvailable")


class CpuinfoFacts(Struct, frozen=True):
    """One mapping for each logical CPU, and the fields behind them (arm, powerpc)."""

    cpus: tuple[Mapping[str, str], ...]
    machine: Mapping[str, str]

    @property
    def model_names(self) -> tuple[str, ...]:
        """Different model names, in the order of their appearance."""
        return tuple(dict.fromkeys(c["model name"] for c in self.cpus if "model name" in c))

    @property
    def sockets(self) -> int | None:
        ids = {cpu.get("physical id") for cpu in self.cpus}
        return None if None in ids else len(ids)

    @property
    def microcodes(self) -> tuple[str, ...]:
        """Different microcode versions; more than one is a fault."""
        return tuple(dict.fromkeys(c["microcode"] for c in self.cpus if "microcode" in c))


class Module(Struct, frozen=True):
    """One loaded kernel module."""

    name: str
    size_bytes: int
    references: int | None
    """None where the kernel does not count (``-``)."""
    used_by: tuple[str, ...]
    state: str
    """``Live``, ``Loading`` or ``Unloading``; empty where lsmod was asked, which does not say."""
    taints: str
    """``O`` out of tree, ``P`` proprietary, ``E`` unsigned, …"""


class ModulesFacts(Struct, frozen=True):
    """Loaded kernel modules by name."""

    modules: Mapping[str, Module]


class VersionFacts(Struct, frozen=True):
    """The running kernel."""

    release: str
    """As ``uname -r`` says."""
    builder: str
    build: str
    """Compiler, number of the build, flags and date."""


def parse_cmdline(text: str) -> CmdlineFacts:
    """``/proc/cmdline``. Raises NotUnderstoodError when it is empty or longer than a line."""
    plain = clean(text).strip()
    if not plain:
        raise unknown_form("/proc/cmdline", plain, "kernel parameters")
    if "\n" in plain:
        raise NotUnderstoodError(
            f"/proc/cmdline should be one line, but goes on after '{excerpt(plain)}'."
        )
    if plain.count('"') % 2:
        raise NotUnderstoodError("A quote in /proc/cmdline is not closed: it is cut off.")
    return CmdlineFacts(tuple(_WORD.findall(plain)))


def parse_meminfo(text: str) -> MeminfoFacts:
    """``/proc/meminfo``. Raises NotUnderstoodError without MemTotal and MemFree."""
    kib: dict[str, int] = {}
    counts: dict[str, int] = {}
    for number, line in numbered_lines(clean(text)):
        if not line.strip():
            continue
        match = _MEMORY.fullmatch(line.strip())
        if match is None:
            raise bad_line("/proc/meminfo", number, line, "'Name: number kB'")
        name, value, unit = match.groups()
        if name in kib or name in counts:
            raise bad_line("/proc/meminfo", number, line, f"'{name}' only once")
        if not unit and not name.startswith("HugePages_"):
            raise bad_line("/proc/meminfo", number, line, "the unit kB")
        (kib if unit else counts)[name] = int(value)
    missing = [name for name in ("MemTotal", "MemFree") if name not in kib]
    if missing:
        raise NotUnderstoodError(f"/proc/meminfo has no '{missing[0]}': it is cut off.")
    return MeminfoFacts(kib, counts)


def parse_cpuinfo(text: str) -> CpuinfoFacts:
    """``/proc/cpuinfo`` of x86, arm64 and powerpc."""
    cpus: list[dict[str, str]] = []
    machine: dict[str, str] = {}
    current: dict[str, str] | None = None
    for number, line in numbered_lines(clean(text)):
        if not line.strip():
            current = None
            continue
        key, colon, value = line.partition(":")
        if not colon:
            raise bad_line("/proc/cpuinfo", number, line, "'name : value'")
        name = key.strip()
        if name == "processor":
            natural(value, "'processor' in /proc/cpuinfo")
            current = {}
            cpus.append(current)
        target = machine if current is None else current
        target[name] = value.strip()
    if not cpus:
        raise unknown_form("/proc/cpuinfo", clean(text), "'processor : 0'")
    if len({cpu["processor"] for cpu in cpus}) != len(cpus):
        raise NotUnderstoodError("/proc/cpuinfo lists a processor twice.")
    if len(cpus[-1]) < len(cpus[0]):
        raise NotUnderstoodError("The last processor in /proc/cpuinfo is cut off.")
    return CpuinfoFacts(tuple(cpus), machine)


def parse_modules(text: str) -> ModulesFacts:
    """``/proc/modules``. Raises NotUnderstoodError when it is empty."""
    modules: dict[str, Module] = {}
    for number, line in numbered_lines(clean(text)):
        if not line.strip():
            continue
        match = _MODULE.fullmatch(line.strip())
        if match is None:
            raise bad_line("/proc/modules", number, line, "'name size uses users state address'")
        name, size, references, users, state, _, taints = match.groups()
        modules[name] = Module(
            name=name,
            size_bytes=int(size),
            references=None if references == "-" else whole(references, "A use count"),
            used_by=tuple(user for user in users.split(",") if user not in ("", "-")),
            state=state,
            taints=taints or "",
        )
    if not modules:
        raise unknown_form("/proc/modules", text, "loaded modules")
    return ModulesFacts(modules)


def parse_lsmod(text: str) -> ModulesFacts:
    """``lsmod``. Raises NotUnderstoodError when there is nothing below its header."""
    modules: dict[str, Module] = {}
    for number, line in numbered_lines(clean(text)):
        if not line.strip() or line.startswith("Module "):
            continue
        match = _LSMOD.fullmatch(line.strip())
        if match is None:
            raise bad_line("lsmod", number, line, "'name size uses users'")
        name, size, references, users = match.groups()
        used_by = tuple(user for user in (users or "").split(",") if user not in ("", "-"))
        count = whole(references, "A use count")
        modules[name] = Module(name, int(size), None if count < 0 else count, used_by, "", "")
    if not modules:
        raise unknown_form("lsmod", text, "loaded modules")
    return ModulesFacts(modules)


def parse_version(text: str) -> VersionFacts:
    """``/proc/version``."""
    plain = clean(text).strip()
    match = _VERSION.fullmatch(plain)
    if match is None or not match.group(3):
        raise unknown_form("/proc/version", plain, "'Linux version 6.1.0 (…) (…) #1 …'")
    return VersionFacts(match.group(1), match.group(2), match.group(3))
