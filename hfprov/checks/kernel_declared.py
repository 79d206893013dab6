"""What a baseline declares of the kernel, in the distribution's names. Helpers of kernel checks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts
from hfprov.errors import NoEvidenceError
from hfprov.evidence.kernel_packages import KERNEL_PACKAGES, KernelPackages, Manager, Package
from hfprov.evidence.system import MACHINE, OS, Machine
from hfprov.verdict import Finding, NotApplicable, not_applicable

ROLE = "kernel"
GRUB_FILE = "/etc/default/grub.d/zz-hfprov-kernel.cfg"
PREFERENCES_FILE = "/etc/apt/preferences.d/90-hfprov-kernel"
LOCKS_FILE = "/etc/dnf/plugins/versionlock.list"
STATE_FILE = "/etc/hfprov/kernel-parameters"


@dataclass(frozen=True, slots=True)
class Stream:
    """The packages that always need the newest kernel of a stream, and its headers."""

    image: str
    headers: str
    parents: tuple[str, ...] = ()
    """Packages that need both."""
    is_backport: bool = False


def _debian() -> Mapping[str, Stream]:
    names = ("linux-image-{arch}", "linux-headers-{arch}")
    return {"distribution": Stream(*names), "backports": Stream(*names, is_backport=True)}


def _ubuntu(release: str) -> Mapping[str, Stream]:
    found = {}
    for stream, flavour in (
        ("distribution", "generic"),
        ("hwe", f"generic-hwe-{release}"),
        ("nvidia", "nvidia"),
    ):
        names = (f"linux-image-{flavour}", f"linux-headers-{flavour}")
        found[stream] = Stream(*names, parents=(f"linux-{flavour}",))
    return found


STREAMS: Mapping[tuple[str, str], Mapping[str, Stream]] = {
    ("debian", "12"): _debian(),
    ("debian", "13"): _debian(),
    ("ubuntu", "22"): _ubuntu("22.04"),
    ("ubuntu", "24"): _ubuntu("24.04"),
    ("el", "9"): {"distribution": Stream("kernel", "kernel-devel")},
}
"""By distribution and major version. A test holds this against the role's ``vars``."""
_EL = frozenset({"rhel", "rocky", "almalinux", "centos", "ol"})


@dataclass(frozen=True, slots=True)
class Declared:
    """The declared kernel as far as it is installed."""

    image: str
    headers: str
    parents: tuple[str, ...]
    version: str
    """Of its package; '' where none is installed that fits."""
    release: str
    """Of the kernel, ``6.1.0-42-amd64``; '' as above."""
    problem: str
    """Why there is none, in a sentence."""
    packages: KernelPackages

    def required_release(self) -> str:
        """The release. Raises NoEvidenceError where the declared kernel is not installed."""
        if not self.release:
            raise NoEvidenceError(f"The declared kernel is not installed: {self.problem}")
        return self.release


def left_to_host(facts: Facts, baseline: Baseline) -> Finding | None:
    """The finding on a container, whose kernel is its host's; None where it is to be judged."""
    if facts.get(MACHINE) is Machine.CONTAINER and not baseline["kernel_in_containers"]:
        return not_applicable(NotApplicable.CONTAINER, _THE_HOSTS)
    return None


def runs_hosts_kernel(facts: Facts) -> Finding | None:
    """The finding on what a container cannot have even for practice: a kernel that runs."""
    if facts.get(MACHINE) is Machine.CONTAINER:
        return not_applicable(NotApplicable.CONTAINER, _THE_HOSTS)
    return None


_THE_HOSTS = "The kernel belongs to the container's host."


def declared(facts: Facts, baseline: Baseline) -> Declared:
    """The declared kernel. Raises NoEvidenceError for a stream that the distribution has not."""
    packages = facts.get(KERNEL_PACKAGES)
    stream = _stream(facts, baseline)
    image, headers = (
        name.replace("{arch}", packages.architecture) for name in (stream.image, stream.headers)
    )
    pin = str(baseline["kernel_version"])
    if packages.manager is Manager.RPM:
        return _of_rpm(packages, stream, pin)
    package = packages.get(image)
    problem, release = "", ""
    if package is None:
        problem = f"'{image}' is not installed."
    elif not fits(package.version, pin):
        problem = f"'{image}' is installed as {package.version}, and not as '{pin}'."
    elif stream.is_backport != ("~bpo" in package.version):
        name = str(baseline["kernel_stream"])
        problem = f"'{image}' {package.version} is not of the stream '{name}'."
    else:
        release = package.release("linux-image-") or ""
        problem = "" if release else f"'{image}' depends on no kernel."
    version = package.version if package and not problem else ""
    return Declared(image, headers, stream.parents, version, release, problem, packages)


def _stream(facts: Facts, baseline: Baseline) -> Stream:
    system, version = facts.get(OS)
    family = "el" if system in _EL else system
    streams = STREAMS.get((family, version.partition(".")[0]))
    name = str(baseline["kernel_stream"])
    if streams is None or name not in streams:
        raise NoEvidenceError(f"'{system} {version}' has no stream '{name}' of kernels.")
    return streams[name]


def _of_rpm(packages: KernelPackages, stream: Stream, pin: str) -> Declared:
    fitting = [one for one in packages.packages.get("kernel-core", ()) if fits(one.version, pin)]
    newest = max(fitting, key=lambda one: _numbers(one.version), default=None)
    version = newest.version if newest else ""
    release = f"{version}.{packages.architecture}" if version else ""
    problem = "" if newest else f"No 'kernel-core' of version '{pin or 'any'}' is installed."
    return Declared(stream.image, stream.headers, (), version, release, problem, packages)


def _numbers(version: str) -> list[tuple[int, int, str]]:
    parts = re.findall(r"\d+|[a-zA-Z]+", version)
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts]


def fits(version: str, pin: str) -> bool:
    """Whether a version is the pinned one, or begins with it up to the end of a number."""
    return not pin or version == pin or re.match(re.escape(pin) + r"[.~+\-]", version) is not None


def to_hold(found: Declared) -> tuple[Package, ...]:
    """Installed packages of the declared kernel, with and without it inside."""
    packages, release = found.packages, found.release
    if packages.manager is Manager.RPM:
        names = ("kernel", "kernel-core", "kernel-modules", "kernel-modules-core", "kernel-devel")
        every = (one for name in names for one in packages.packages.get(name, ()))
        return tuple(one for one in every if one.version == found.version)
    named = (
        *(found.image, found.headers, *found.parents),
        *(f"linux-image-{release}", f"linux-image-unsigned-{release}", f"linux-headers-{release}"),
    )
    return tuple(one for name in named if (one := packages.get(name)))


def parameters(baseline: Baseline) -> list[str]:
    return [str(one) for one in baseline["kernel_parameters"]]
