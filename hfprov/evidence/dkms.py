"""Modules that are built outside of the kernel: whether one is there for a certain kernel.

``dkms status`` says what DKMS believes; the files below ``/lib/modules/RELEASE`` and their line in
``modules.dep`` are what modprobe will find. A build for the running kernel says nothing of the one
that boots next, nor the other way round (NVIDIA/ansible-role-nvidia-driver, report 18), so that
every question here names the release.

Lines of ``dkms status`` (dkms(8), and its sources of 2.8 and 3.0 to 3.2)::

    nvidia, 460.91.03, 5.10.0-8-amd64, x86_64: installed          2.x
    nvidia/580.95.05, 6.1.0-42-amd64, x86_64: installed           3.x
    nvidia/580.95.05: added
    kmod/1, 5.14.0-503.el9.x86_64, x86_64: installed-weak from 5.14.0-427.el9.x86_64
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence.text import clean, excerpt
from hfprov.reading import Observation, Read, Source, command, listing
from hfprov.regex import regex

STATUS = command("dkms", "status", timeout=30)
# The parts of modules.dep that are of interest: a whole one is half a megabyte per kernel.
_INTERESTING = r"^(updates|extra|weak-updates|misc|kernel/nvidia[^/]*)/[^:]*:"
INDEX = command(
    *("grep", "-oE", _INTERESTING, "/lib/modules/{name}/modules.dep"), each="/lib/modules/*"
)
FILES = tuple(
    listing(f"/lib/modules/*/{folder}/*.ko*", most=4096)
    for folder in ("updates/dkms", "updates", "extra", "weak-updates", "kernel/nvidia*")
)
"""DKMS installs into ``updates/dkms`` on Debian and Ubuntu and into ``extra`` on EL; Ubuntu's
prebuilt modules of NVIDIA are in ``kernel/nvidia-BRANCH``."""
_LINE = regex(
    r"(?P<module>[^\s,/:]+)(?:/|, )(?P<version>[^\s,:/]+)"
    r"(?:, (?P<kernel>[^\s,:]+))?(?:, (?P<arch>[^\s,:]+))?"
    r": (?P<state>added|built|installed-weak|installed|broken)(?P<rest>.*)"
)
_COMPLAINT = regex(
    r"(?:Error!|Warning|WARNING|Deprecated feature|dkms\.conf|Your |Consult )", re.IGNORECASE
)
_MODULE_FILE = regex(r"(?P<name>[A-Za-z0-9_-]+)\.ko(?:\.(?:xz|zst|gz))?")


class BuildState(StrEnum):
    """How far DKMS got with a module; only the installed ones can be loaded."""

    ADDED = "added"
    BUILT = "built"
    INSTALLED = "installed"
    INSTALLED_WEAK = "installed-weak"
    """A link to the build of another kernel with the same interface, on EL."""
    BROKEN = "broken"


class Build(Struct, frozen=True):
    """One line of ``dkms status``. A module that was only added has no kernel."""

    module: str
    """DKMS's name of the package of modules, e.g. ``nvidia-current``; not a module's own name."""
    version: str
    kernel: str | None
    architecture: str | None
    state: BuildState
    notes: str
    """What DKMS adds: ``(WARNING! Diff between built and installed module!)``."""

    @property
    def is_installed(self) -> bool:
        return self.state in (BuildState.INSTALLED, BuildState.INSTALLED_WEAK)


class DkmsStatus(Struct, frozen=True):
    """What DKMS says."""

    builds: tuple[Build, ...]
    complaints: tuple[str, ...]

    def of(self, module: str, release: str) -> tuple[Build, ...]:
        """Builds of one of DKMS's modules for one kernel, of whatever version."""
        return tuple(one for one in self.builds if (one.module, one.kernel) == (module, release))


def parse_status(text: str) -> DkmsStatus:
    """Facts from ``dkms status``; nothing at all is what it says when no module was added.

    Raises NotUnderstoodError for a line that is neither a module nor a complaint.
    """
    builds, complaints = [], []
    for raw in clean(text).splitlines():
        line = raw.strip()
        match = _LINE.fullmatch(line)
        if match:
            builds.append(
                Build(
                    match["module"],
                    match["version"],
                    match["kernel"],
                    match["arch"],
                    BuildState(match["state"]),
                    match["rest"].strip(),
                )
            )
        elif _COMPLAINT.match(line):
            complaints.append(excerpt(line, 160))
        elif line:
            raise NotUnderstoodError(f"'{excerpt(line)}' is not a line of 'dkms status'.")
    return DkmsStatus(tuple(builds), tuple(complaints))


class ExternalModules(Struct, frozen=True):
    """The modules from outside of the kernel that one installed kernel has."""

    files: frozenset[str]
    """Paths below the kernel's directory, such as ``updates/dkms/nvidia.ko.xz``."""
    indexed: frozenset[str] | None
    """Those that ``modules.dep`` names, which modprobe can find; None where there is no index."""


class Dkms(Struct, frozen=True):
    """DKMS's view, and what is really there by release of the kernel."""

    status: DkmsStatus | None
    """None where DKMS is not installed."""
    kernels: Mapping[str, ExternalModules]


def module_name(path: str) -> str | None:
    """The module that a file is, with ``_``, or None: ``updates/dkms/nvidia-uvm.ko.xz``."""
    match = _MODULE_FILE.fullmatch(path.rpartition("/")[2])
    return match["name"].replace("-", "_") if match else None


def _parse_dkms(seen: Observation, _: Baseline) -> Dkms:
    status = parse_status(seen.text(STATUS)) if seen.exists(STATUS) else None
    kernels: dict[str, ExternalModules] = {}
    for result in seen.each(INDEX):
        if result.status != "ok" or result.code not in (0, 1, 2) or result.truncated:
            problem = result.stderr or result.status
            raise NoEvidenceError(f"The modules of kernel '{result.name}' were not read: {problem}")
        # grep ends with 1 where nothing matches, and with 2 where there is no file.
        lines = clean(result.text).splitlines() if result.code != 2 else None
        for line in lines or ():
            if not re.fullmatch(r"[^\s:]+:", line):
                raise NotUnderstoodError(
                    f"'{excerpt(line)}' is not the start of a line of an index."
                )
        indexed = None if lines is None else frozenset(line.rstrip(":") for line in lines)
        kernels[result.name] = ExternalModules(_files_of(seen, result.name), indexed)
    return Dkms(status, kernels)


def _files_of(seen: Observation, release: str) -> frozenset[str]:
    start = f"/lib/modules/{release}/"
    return frozenset(
        one.name.removeprefix(start)
        for read in FILES
        for one in seen.each(read)
        # A link whose target is gone is "absent", and is no module.
        if one.ok and one.type == "file" and one.name.startswith(start)
    )


DKMS: Source[Dkms] = Source("modules of dkms", lambda _: (STATUS, INDEX, *FILES), _parse_dkms)


class Proof(Struct, frozen=True):
    """Whether modprobe will find a module once a certain kernel runs, and why not."""

    path: str
    """The file that would be loaded; '' where there is none."""
    problem: str
    """A sentence; '' where the module is there and indexed."""

    @property
    def holds(self) -> bool:
        return not self.problem


def proof(found: Dkms, module: str, release: str) -> Proof:
    """Whether ``module`` (``nvidia``, ``amdgpu``) from outside of the kernel is there for it.

    Says nothing of modules that the kernel itself brings.
    """
    kernel = found.kernels.get(release)
    if kernel is None:
        return Proof("", f"Kernel '{release}' has no directory below '/lib/modules'.")
    name = module.replace("-", "_")
    # modprobe takes 'updates' before everything else, see depmod.d(5).
    files = sorted(path for path in kernel.files if module_name(path) == name)
    files.sort(key=lambda path: not path.startswith("updates/"))
    if not files:
        others = [
            other
            for other, modules in found.kernels.items()
            if other != release and any(module_name(path) == name for path in modules.files)
        ]
        there = f"; it is there for '{', '.join(sorted(others)[:3])}'" if others else ""
        return Proof("", f"Module '{module}' was not built for kernel '{release}'{there}.")
    if kernel.indexed is None or files[0] not in kernel.indexed:
        return Proof(
            files[0], f"'{files[0]}' is not in 'modules.dep' of '{release}': depmod did not run."
        )
    return Proof(files[0], "")


def vermagic_read(module: str, release: str) -> Read:
    """The read of the kernel that a module says to be built for; see :func:`parse_vermagic`."""
    return command("modinfo", "-k", release, "-F", "vermagic", module)


def parse_vermagic(text: str) -> str:
    """The release at the start of ``6.1.0-42-amd64 SMP preempt mod_unload modversions``."""
    words = clean(text).split()
    if not words or not re.match(r"\d+\.\d+", words[0]):
        raise NotUnderstoodError(f"'{excerpt(text)}' is not a module's version magic.")
    return words[0]
