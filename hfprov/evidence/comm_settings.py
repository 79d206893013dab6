"""Where variables of NCCL, RCCL and UCX are set on a node, and the devices that they name.

Sources: NVIDIA/nccl and ROCm/rccl, src/misc/param.cc (the file in the home directory before that in
/etc, and the first value of a name counts); openucx/ucx, src/ucs/config/parser.c (the last counts).
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.evidence.assignments import Assignments, is_read
from hfprov.evidence.grep import Grep, grep, lines
from hfprov.evidence.text import clean, excerpt
from hfprov.reading import Observation, Read, Result, Source, file, listing

NCCL_FILES = ("/etc/nccl.conf", "/etc/rccl.conf")
"""NCCL's and RCCL's, which read the same variables."""
UCX_DIRECTORY = "/etc/ucx"
UCX_FILE = f"{UCX_DIRECTORY}/ucx.conf"
_FILES = tuple(file(path) for path in (*NCCL_FILES, UCX_FILE, UCX_DIRECTORY))
FILES: Source[Mapping[str, Result]] = Source(
    "files of communication libraries",
    lambda _: _FILES,
    lambda seen, _: {read.request["path"]: seen.one(read) for read in _FILES},
)
"""By path, whatever their status; the directory of UCX too."""

BEGIN = "# BEGIN of what the role 'comm_library' writes; see its README"
END = "# END of what the role 'comm_library' writes; see its README"


class Block(Struct, frozen=True):
    """The role's lines in a file that others may write to as well."""

    lines: tuple[str, ...]
    first: int
    """Number of the line with the first marker; 0 when there is no whole block."""
    last: int


def block_of(text: str) -> Block:
    """The role's block in a file's text; empty when its markers are not both there, once each."""
    lines = clean(text).splitlines()
    if lines.count(BEGIN) != 1 or lines.count(END) != 1 or lines.index(BEGIN) > lines.index(END):
        return Block((), 0, 0)
    first, last = lines.index(BEGIN), lines.index(END)
    return Block(tuple(lines[first + 1 : last]), first + 1, last + 1)


PLACES = (
    *NCCL_FILES,
    UCX_DIRECTORY,
    "/etc/environment",
    "/etc/environment.d/*",
    "/usr/lib/environment.d/*",
    "/etc/security/pam_env.conf",
    "/etc/profile",
    "/etc/profile.d/*",
    "/etc/zsh",
    "/etc/zshenv",
    "/etc/fish",
    "/etc/bash.bashrc",
    "/etc/bashrc",
    "/etc/csh.login",
    "/etc/csh.cshrc",
    "/etc/default",
    "/etc/sysconfig",
    "/etc/ssh/sshd_config",
    "/etc/ssh/sshd_config.d",
    "/etc/containers",
    "/etc/enroot",
    "/etc/openmpi",
    "/etc/slurm",
    "/etc/systemd",
    "/run/systemd/system",
    "/usr/local/lib/systemd",
    "/usr/lib/systemd/system",
)
"""Files and trees from which a login, a service or a job takes its environment.

Within a tree grep follows no link; with a star each file is named to it, links too.
"""
_IN_HOMES = (
    ".nccl.conf",
    ".rccl.conf",
    "ucx.conf",
    ".bashrc",
    ".bash_profile",
    ".profile",
)
_NAMES = "NCCL|RCCL|UCX"


class Set(Struct, frozen=True):
    """One place where a variable gets a value."""

    name: str
    value: str
    path: str
    line: int

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}"


def _lines(baseline: Baseline) -> Grep:
    homes = baseline.get("comm_library_home_directories", ())
    places = [
        *PLACES,
        *(f"{home}/{name}" for home in homes for name in _IN_HOMES),
        *baseline.get("comm_library_modulefile_directories", ()),
    ]
    return grep(f"({_NAMES})_[A-Z0-9_]+", *places)


assignments = Assignments(f"(?:{_NAMES})_[A-Z0-9_]+")


def _parse_settings(seen: Observation, baseline: Baseline) -> tuple[Set, ...]:
    return tuple(
        Set(name, excerpt(value), excerpt(line.path, 200), line.number)
        for line in lines(seen, _lines(baseline))
        if is_read(line.path)
        for name, value in assignments(line.text)
    )


SETTINGS: Source[tuple[Set, ...]] = Source(
    "communication settings", lambda baseline: (_lines(baseline),), _parse_settings
)

_INTERFACES = listing("/sys/class/net/*")
_RDMA = listing("/sys/class/infiniband/*")


def _names(seen: Observation, read: Read) -> frozenset[str]:
    return frozenset(result.name.rpartition("/")[2] for result in seen.each(read) if result.ok)


INTERFACES: Source[frozenset[str]] = Source(
    "interface names", lambda _: (_INTERFACES,), lambda seen, _: _names(seen, _INTERFACES)
)
RDMA_DEVICES: Source[frozenset[str]] = Source(
    "RDMA device names", lambda _: (_RDMA,), lambda seen, _: _names(seen, _RDMA)
)
