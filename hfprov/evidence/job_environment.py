"""What every login and every job gets on a node: variables, libraries before all others, the door.

Sources: environment(7), pam_env.conf(5), environment.d(5), systemd-system.conf(5), sshd_config(5),
ld.so(8), pam_nologin(8).
"""

from __future__ import annotations

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.catalogue.job_variables import JOB_VARIABLES
from hfprov.errors import NoEvidenceError
from hfprov.evidence.assignments import Assignments, is_read
from hfprov.evidence.grep import grep, lines
from hfprov.evidence.text import clean, excerpt
from hfprov.reading import Observation, Source, file

_PLACES = (
    *("/etc/environment", "/etc/environment.d/*"),
    *("/etc/security/pam_env.conf", "/etc/profile", "/etc/profile.d/*", "/etc/bash.bashrc"),
    *("/etc/bashrc", "/etc/zsh", "/etc/zshenv", "/etc/fish", "/etc/csh.login", "/etc/csh.cshrc"),
    *("/etc/ssh/sshd_config", "/etc/ssh/sshd_config.d"),
    *("/etc/systemd/system.conf", "/etc/systemd/system.conf.d"),
    *("/etc/systemd/user.conf", "/etc/systemd/user.conf.d"),
)
"""Where it is set for all. A unit's own environment is its own affair."""
_READ = grep(f"({'|'.join(JOB_VARIABLES)})", *_PLACES)
_assignments = Assignments("|".join(JOB_VARIABLES))


class JobVariable(Struct, frozen=True):
    """A variable that is set for all."""

    name: str
    value: str
    where: str
    """Path and line."""


def _parse_variables(seen: Observation, _: Baseline) -> tuple[JobVariable, ...]:
    return tuple(
        JobVariable(name, excerpt(value), line.where)
        for line in lines(seen, _READ)
        if is_read(line.path)
        for name, value in _assignments(line.text)
    )


VARIABLES: Source[tuple[JobVariable, ...]] = Source(
    "variables of all jobs", lambda _: (_READ,), _parse_variables
)

_PRELOAD = file("/etc/ld.so.preload")


def _parse_preload(seen: Observation, _: Baseline) -> tuple[str, ...]:
    if not seen.exists(_PRELOAD):
        return ()
    # Separated by white space or colons; a hash begins a comment.
    rows = (line.partition("#")[0] for line in clean(seen.text(_PRELOAD)).splitlines())
    return tuple(excerpt(word) for row in rows for word in row.replace(":", " ").split())


PRELOADED: Source[tuple[str, ...]] = Source(
    "preloaded libraries", lambda _: (_PRELOAD,), _parse_preload
)
"""Libraries that every program loads before its own."""

_CLOSED = tuple(file(path) for path in ("/etc/nologin", "/run/nologin"))


def _parse_closed(seen: Observation, _: Baseline) -> tuple[str, ...]:
    for read in _CLOSED:
        if seen.one(read).status == "denied":
            raise NoEvidenceError(f"Whether there is '{read.request['path']}' is not known.")
    return tuple(read.request["path"] for read in _CLOSED if seen.exists(read))


CLOSED: Source[tuple[str, ...]] = Source("closed to users", lambda _: _CLOSED, _parse_closed)
"""Files whose presence lets nobody but root log in."""
