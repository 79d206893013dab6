"""The declared container runtime of a node: programs, service and settings.

Which engine is looked at depends on the variable ``container_runtime_engine``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any

from hfprov.baseline import Baseline
from hfprov.errors import NotUnderstoodError
from hfprov.evidence import docker
from hfprov.evidence.container_node import CONFIG_TOML, DAEMON_JSON
from hfprov.evidence.docker import DockerInfo
from hfprov.evidence.failures import ToolFailure
from hfprov.evidence.systemd import Properties
from hfprov.evidence.systemd_units import ShowUnits, shown_units, units
from hfprov.evidence.text import clean, excerpt
from hfprov.reading import Observation, Read, Result, Source, command, complete_text, file, glob

ENGINE = "container_runtime_engine"
DAEMON_PATH = "/etc/docker/daemon.json"
TOML_PATH = "/etc/containerd/config.toml"
TOML_DROP_IN = "/etc/containerd/conf.d/99-zz-hfprov.toml"
PODMAN_DROP_IN = "/etc/containers/containers.conf.d/90-hfprov.conf"
PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "docker": ("dockerd", "docker", "runc"),
    "containerd": ("containerd", "ctr", "runc"),
    "podman": ("podman",),
}
STARTED: Mapping[str, str] = {
    "docker": "/run/docker.pid",
    "containerd": "/run/containerd/containerd.sock",
}
"""Written at each start of the daemon, after it has read its settings."""
SETTINGS: Mapping[str, tuple[str, ...]] = {
    "docker": (DAEMON_PATH,),
    "containerd": (TOML_PATH, TOML_DROP_IN),
    "podman": (PODMAN_DROP_IN,),
}

_DROP_INS = glob("/etc/containerd/conf.d/*.toml", limit=256 * 1024)
_PODMAN_FILES = (
    file("/usr/share/containers/containers.conf"),
    file("/etc/containers/containers.conf"),
    glob("/etc/containers/containers.conf.d/*.conf", limit=64 * 1024),
)
_DOCKER_OPTIONS = file("/etc/default/docker")
_INFO = command("docker", "info", "--format", "{{json .}}")
_DUMP = command("containerd", "config", "dump")


def engine_of(baseline: Baseline) -> str:
    """``docker``, ``containerd``, ``podman`` or ``none``."""
    name = str(baseline.get(ENGINE, "none"))
    return name if name in PROGRAMS else "none"


# Programs


def _version_reads(baseline: Baseline) -> tuple[Read, ...]:
    names = PROGRAMS.get(engine_of(baseline), ())
    return tuple(command(name, "--version", limit=4096) for name in names)


def _parse_versions(seen: Observation, baseline: Baseline) -> Mapping[str, str]:
    """What each program says of its version; "" of one that is not there or does not run."""
    found = {}
    names = PROGRAMS.get(engine_of(baseline), ())
    for name, read in zip(names, _version_reads(baseline), strict=True):
        result = seen.one(read)
        whole = result.ok and result.code == 0 and result.text.strip()
        found[name] = clean(result.text).strip() if whole else ""
    return found


VERSIONS: Source[Mapping[str, str]] = Source(
    "versions of the container runtime", _version_reads, _parse_versions
)


def numbers(text: str) -> tuple[int, ...]:
    """``24, 0, 7`` of what a program says of its version. Raises NotUnderstoodError."""
    found = re.search(r"([0-9]{1,6})\.([0-9]{1,6})(?:\.([0-9]{1,6}))?", text)
    if found is None:
        raise NotUnderstoodError(f"'{excerpt(text)}' tells no version.")
    return tuple(int(one) for one in found.groups() if one is not None)


# The service


BELOW_DOCKER = "containerd.service"
"""What dockerd hands its containers to, where its command line names that one's socket."""


def _service_read(baseline: Baseline) -> ShowUnits:
    engine = engine_of(baseline)
    names = (f"{engine}.service",) if engine in STARTED else ()
    if engine == "docker":
        names = (*names, BELOW_DOCKER)
    return units(*names, properties=("ActiveState", "UnitFileState", "ExecStart"))


def _service_reads(baseline: Baseline) -> tuple[Read, ...]:
    return (_service_read(baseline),) if engine_of(baseline) in STARTED else ()


def _parse_service(seen: Observation, baseline: Baseline) -> Mapping[str, Properties]:
    if engine_of(baseline) not in STARTED:
        return {}
    found = shown_units(seen, _service_read(baseline))[1]
    docker = found.get("docker.service")
    if docker is None or "containerd.sock" in docker.get("ExecStart", ""):
        return found
    # It starts a containerd of its own.
    return {name: unit for name, unit in found.items() if name != BELOW_DOCKER}


SERVICE: Source[Mapping[str, Properties]] = Source(
    "service of the container runtime", _service_reads, _parse_service
)
"""By name; empty for podman, which has no daemon. With Docker, containerd as well."""


def _flag_reads(baseline: Baseline) -> tuple[Read, ...]:
    is_docker = engine_of(baseline) == "docker"
    return (*_service_reads(baseline), _DOCKER_OPTIONS) if is_docker else ()


def _parse_flags(seen: Observation, baseline: Baseline) -> frozenset[str]:
    if engine_of(baseline) != "docker":
        return frozenset()
    service = _parse_service(seen, baseline)["docker.service"]
    result = seen.one(_DOCKER_OPTIONS)
    text = "" if result.status == "absent" else complete_text(_DOCKER_OPTIONS, result)
    return parse_flags(service.get("ExecStart", ""), text)


def parse_flags(exec_start: str, options: str) -> frozenset[str]:
    """Keys of ``daemon.json`` that the command line of dockerd sets too: it would not start."""
    words = re.findall(r"argv\[\]=([^;]*);", exec_start)
    for line in clean(options).splitlines():
        name, _, value = line.strip().partition("=")
        if name in ("DOCKER_OPTS", "OPTIONS"):
            words.append(value.strip("\"' "))
    found: set[str] = set()
    for flag in re.findall(r"(?:^|\s)--?([A-Za-z][\w-]*)", " ".join(words)):
        name = "hosts" if flag in ("H", "host") else flag
        found |= {name, f"{name}s"}
    return frozenset(found)


FLAGS: Source[frozenset[str]] = Source("options of dockerd", _flag_reads, _parse_flags)


# Files


def _file_reads(baseline: Baseline) -> tuple[Read, ...]:
    reads: Mapping[str, tuple[Read, ...]] = {
        "docker": (DAEMON_JSON,),
        "containerd": (CONFIG_TOML, _DROP_INS),
        "podman": _PODMAN_FILES,
    }
    return reads.get(engine_of(baseline), ())


def _parse_files(seen: Observation, baseline: Baseline) -> Mapping[str, Result]:
    """Files of the engine that are there and whole, in the order in which it reads them."""
    found = {}
    for read in _file_reads(baseline):
        for result in sorted(seen.each(read), key=lambda one: one.name):
            if result.status != "absent":
                complete_text(read, result)
                found[result.name] = result
    return found


FILES: Source[Mapping[str, Result]] = Source("files of the runtime", _file_reads, _parse_files)


def toml_of(text: str, path: str) -> dict[str, Any]:
    """Raises NotUnderstoodError when it is not TOML."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotUnderstoodError(f"'{path}' is no TOML: {excerpt(str(error))}.") from error


def _parse_dump(seen: Observation, baseline: Baseline) -> dict[str, Any]:
    if engine_of(baseline) != "containerd":
        return {}
    return toml_of(seen.text(_DUMP), "containerd config dump")


DUMP: Source[dict[str, Any]] = Source(
    "what containerd's files come to",
    lambda baseline: (_DUMP,) if engine_of(baseline) == "containerd" else (),
    _parse_dump,
)


def _parse_info(seen: Observation, baseline: Baseline) -> DockerInfo | ToolFailure | None:
    if engine_of(baseline) != "docker":
        return None
    found = docker.parse(seen.text(_INFO))
    if not isinstance(found, DockerInfo | ToolFailure):
        raise NotUnderstoodError("'docker info' did not tell of the daemon.")
    return found


INFO: Source[DockerInfo | ToolFailure | None] = Source(
    "docker info",
    lambda baseline: (_INFO,) if engine_of(baseline) == "docker" else (),
    _parse_info,
)
