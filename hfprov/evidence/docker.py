"""What Docker says about itself: ``docker info`` (text, JSON, its stderr) and ``daemon.json``.

A document without a server is a :class:`ToolFailure`: the client alone proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.docker_daemon import DaemonConfig, daemon_config, strings
from hfprov.evidence.failures import FailureKind, ToolFailure, failure_table, find_failure
from hfprov.evidence.fields import (
    FieldError,
    Fields,
    json_value,
    looks_like_json,
    mapping,
    numbered_lines,
    sequence,
)
from hfprov.evidence.text import clean, excerpt
from hfprov.regex import regex

TOOL = "docker"


class DockerInfo(Struct, frozen=True):
    """The daemon as it runs. None: not printed by this release."""

    server_version: str | None = None
    client_version: str | None = None
    cgroup_driver: str | None = None
    cgroup_version: str | None = None
    storage_driver: str | None = None
    logging_driver: str | None = None
    runtimes: tuple[str, ...] | None = None
    default_runtime: str | None = None
    cdi_spec_dirs: tuple[str, ...] | None = None
    discovered_devices: tuple[str, ...] | None = None
    """CDI devices that the daemon found (``nvidia.com/gpu=0``), since 28.2."""
    root_dir: str | None = None
    live_restore: bool | None = None
    kernel_version: str | None = None
    operating_system: str | None = None
    cpus: int | None = None
    memory_total_bytes: float | None = None
    """Text rounds it to four digits."""
    containers: int | None = None
    containers_running: int | None = None
    swarm: str | None = None
    warnings: tuple[str, ...] = ()
    errors: tuple[FieldError, ...] = ()


_FAILURES = failure_table(
    {
        FailureKind.PERMISSION: ("permission denied while trying to connect",),
        FailureKind.DAEMON_DOWN: (
            "cannot connect to the docker daemon",
            "is the docker daemon running",
            "error during connect",
            "connection refused",
            "docker.sock: connect",
        ),
        FailureKind.OTHER: ("^error:", "^errors pretty printing", "^error response from daemon"),
    }
)
_SIZES = {
    "GiB": 1024.0**3, "MiB": 1024.0**2, "TiB": 1024.0**4, "KiB": 1024.0, "kiB": 1024.0,
    "GB": 1e9, "MB": 1e6, "B": 1.0,
}  # fmt: skip


def parse(text: str) -> DockerInfo | DaemonConfig | ToolFailure:
    """Facts of ``docker info`` or ``daemon.json``; NotUnderstoodError when it is neither."""
    text = clean(text)
    if not text.strip():
        raise NotUnderstoodError(f"The output of '{TOOL}' is empty.")
    if looks_like_json(text):
        return _from_json(text)
    values, warnings = _read_text(text)
    server = _server_of(values)
    if server:
        return _info_from_text(server, values, warnings)
    failure = find_failure(text, _FAILURES)
    if failure is not None:
        return failure
    if "server" in values and not any(path.startswith("server.") for path in values):
        return ToolFailure(FailureKind.OTHER, "The 'Server' section of 'docker info' is empty.")
    if warnings:
        return DockerInfo(warnings=tuple(warnings))
    raise NotUnderstoodError(
        f"The output of '{TOOL}' is in no known form; it begins '{excerpt(text)}'."
    )


_ENTRY = regex(r"(?P<indent> *)(?P<key>[A-Za-z][^:]{0,60}):(?: (?P<value>.*))?$")
_DEEPEST = 8


def _read_text(text: str) -> tuple[dict[str, list[str]], list[str]]:
    """Values by dotted lower-case path (several lines give several values), and warnings."""
    values: dict[str, list[str]] = {}
    warnings: list[str] = []
    stack: list[tuple[int, str]] = []
    for _, line in numbered_lines(text, TOOL):
        stripped = line.strip()
        if stripped.startswith(("WARNING:", "DEPRECATED:")):
            warnings.append(excerpt(stripped, 300))
            continue
        if not stripped:
            continue
        indent = len(line) - len(line.lstrip())
        while stack and stack[-1][0] >= indent:
            stack.pop()
        parent = stack[-1][1] if stack else ""
        match = _ENTRY.match(line)
        if match is None:
            values.setdefault(parent, []).append(stripped)
        elif len(stack) < _DEEPEST:
            path = f"{parent}.{match['key'].strip().lower()}".lstrip(".")
            stack.append((indent, path))
            said = (match["value"] or "").strip()
            values.setdefault(path, []).extend([said] if said else [])
    return values, warnings


def _server_of(values: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """The server's part: under ``Server:`` since 18.09, at the top before."""
    new = {
        path.removeprefix("server."): each
        for path, each in values.items()
        if path.startswith("server.")
    }
    server = new or dict(values)
    return server if "server version" in server else {}


def _info_from_text(
    server: Mapping[str, list[str]], values: Mapping[str, list[str]], warnings: list[str]
) -> DockerInfo:
    read = Fields({path: each[0] for path, each in server.items() if each})
    devices = server.get("discovered devices.cdi")
    runtimes = read.text("runtimes")
    live = read.text("live restore enabled")
    client = values.get("client.version")
    return DockerInfo(
        server_version=read.text("server version"),
        client_version=client[0] if client else None,
        cgroup_driver=read.text("cgroup driver"),
        cgroup_version=read.text("cgroup version"),
        storage_driver=read.text("storage driver"),
        logging_driver=read.text("logging driver"),
        runtimes=None if runtimes is None else tuple(runtimes.split()),
        default_runtime=read.text("default runtime"),
        cdi_spec_dirs=_directories(server, "cdi spec directories"),
        discovered_devices=None if devices is None else tuple(devices),
        root_dir=read.text("docker root dir"),
        live_restore=None if live is None else live.lower() == "true",
        kernel_version=read.text("kernel version"),
        operating_system=read.text("operating system"),
        cpus=read.count("cpus"),
        memory_total_bytes=read.scaled("total memory", units=_SIZES),
        containers=read.count("containers"),
        containers_running=read.count("containers.running"),
        swarm=read.text("swarm"),
        warnings=tuple(warnings),
        errors=tuple(read.errors),
    )


def _directories(server: Mapping[str, list[str]], path: str) -> tuple[str, ...] | None:
    lines = server.get(path)
    return None if lines is None else tuple(line for line in lines if line.startswith("/"))


def _from_json(text: str) -> DockerInfo | DaemonConfig | ToolFailure:
    document = mapping(json_value(text), f"The JSON of '{TOOL}'")
    errors = [
        str(each)
        for name in ("ServerErrors", "ClientErrors")
        for each in sequence(document.get(name) or [], f"'{name}' of '{TOOL}'")
    ]
    if errors:
        sentence = excerpt(errors[0], 200)
        return find_failure(sentence, _FAILURES) or ToolFailure(FailureKind.OTHER, sentence)
    if "ServerVersion" in document:
        return _info_from_json(document)
    if "ClientInfo" in document:
        return ToolFailure(FailureKind.OTHER, "The JSON of 'docker info' has no server.")
    return daemon_config(document)


def _info_from_json(document: Mapping[str, Any]) -> DockerInfo:
    read = Fields(document)
    client = mapping(document.get("ClientInfo") or {}, f"'ClientInfo' of '{TOOL}'")
    swarm = mapping(document.get("Swarm") or {}, f"'Swarm' of '{TOOL}'")
    runtimes = mapping(document.get("Runtimes") or {}, f"'Runtimes' of '{TOOL}'")
    devices = document.get("DiscoveredDevices")
    live = document.get("LiveRestoreEnabled")
    return DockerInfo(
        server_version=read.text("ServerVersion"),
        client_version=Fields(client).text("Version"),
        cgroup_driver=read.text("CgroupDriver"),
        cgroup_version=read.text("CgroupVersion"),
        storage_driver=read.text("Driver"),
        logging_driver=read.text("LoggingDriver"),
        runtimes=tuple(runtimes) if "Runtimes" in document else None,
        default_runtime=read.text("DefaultRuntime"),
        cdi_spec_dirs=strings(document, "CDISpecDirs"),
        discovered_devices=None if devices is None else _devices(devices),
        root_dir=read.text("DockerRootDir"),
        live_restore=live if isinstance(live, bool) else None,
        kernel_version=read.text("KernelVersion"),
        operating_system=read.text("OperatingSystem"),
        cpus=read.count("NCPU"),
        memory_total_bytes=read.number("MemTotal"),
        containers=read.count("Containers"),
        containers_running=read.count("ContainersRunning"),
        swarm=Fields(swarm).text("LocalNodeState"),
        warnings=strings(document, "Warnings") or (),
        errors=tuple(read.errors),
    )


def _devices(value: Any) -> tuple[str, ...]:
    entries = sequence(value, f"'DiscoveredDevices' of '{TOOL}'")
    return tuple(str(mapping(each, "A discovered device").get("ID", "")) for each in entries)
