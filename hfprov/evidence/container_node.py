"""Container runtimes of a node: which are installed, their files, and CDI specifications."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence import cdi, containerd
from hfprov.evidence.cdi import CdiSpec
from hfprov.evidence.containerd import ContainerdConfig
from hfprov.evidence.docker_daemon import DaemonConfig, daemon_config
from hfprov.evidence.nic_node import Each
from hfprov.evidence.text import clean, json_document
from hfprov.reading import Observation, Read, Result, Source, complete_text, file, glob, listing

DOCKER, CONTAINERD = "docker", "containerd"
_DAEMONS: Mapping[str, tuple[Read, ...]] = {
    DOCKER: (listing("/usr/bin/dockerd"), listing("/usr/local/bin/dockerd")),
    CONTAINERD: (listing("/usr/bin/containerd"), listing("/usr/local/bin/containerd")),
}
DAEMON_JSON = file("/etc/docker/daemon.json", limit=256 * 1024)
CONFIG_TOML = file("/etc/containerd/config.toml", limit=256 * 1024)
CDI_SPECS = (
    glob("/etc/cdi/*", limit=512 * 1024, most=64),
    glob("/var/run/cdi/*", limit=512 * 1024, most=64),
)


class Invalid(Struct, frozen=True):
    """A file that the daemon will refuse as well, and why."""

    reason: str


class Runtimes(Struct, frozen=True):
    """What is installed, and its configuration; None where there is no file: the defaults hold."""

    installed: frozenset[str]
    docker: DaemonConfig | Invalid | None
    containerd: ContainerdConfig | Invalid | None


def _text(seen: Observation, read: Read) -> str | None:
    """The whole file; None when it is not there."""
    result = seen.one(read)
    return None if result.status == "absent" else complete_text(read, result)


def parse_daemon_json(text: str) -> DaemonConfig | Invalid:
    """``daemon.json``. What is no JSON object, or has keys of the wrong type, stops dockerd."""
    try:
        document = json_document(text)
        if not isinstance(document, dict):
            return Invalid("It is valid JSON, but no object.")
        return daemon_config(document)
    except NotUnderstoodError as error:
        return Invalid(error.message)


def parse_config_toml(text: str) -> ContainerdConfig | Invalid | None:
    """``config.toml``. An empty file is as none."""
    if not clean(text).strip():
        return None
    try:
        found = containerd.parse(text)
    except NotUnderstoodError as error:
        return Invalid(error.message)
    return found if isinstance(found, ContainerdConfig) else Invalid(found.sentence)


def _parse_runtimes(seen: Observation, _: Baseline) -> Runtimes:
    daemon, config = _text(seen, DAEMON_JSON), _text(seen, CONFIG_TOML)
    return Runtimes(
        frozenset(name for name, reads in _DAEMONS.items() if any(map(seen.each, reads))),
        None if daemon is None else parse_daemon_json(daemon),
        None if config is None else parse_config_toml(config),
    )


RUNTIMES: Source[Runtimes] = Source(
    "container runtimes",
    lambda _: (*_DAEMONS[DOCKER], *_DAEMONS[CONTAINERD], DAEMON_JSON, CONFIG_TOML),
    _parse_runtimes,
)


def _spec(read: Read, result: Result) -> CdiSpec:
    found = cdi.parse(complete_text(read, result))
    if not isinstance(found, CdiSpec):
        raise NotUnderstoodError(f"'{result.name}' is no CDI specification.")
    return found


def _parse_specs(seen: Observation, _: Baseline) -> Each[CdiSpec]:
    facts, reasons = {}, {}
    for read in CDI_SPECS:
        for result in seen.each(read):
            if not result.name.endswith((".json", ".yaml")):
                continue  # runtimes read these two only
            try:
                facts[clean(result.name)] = _spec(read, result)
            except (NoEvidenceError, NotUnderstoodError) as error:
                reasons[clean(result.name)] = error.message
    return Each(facts, reasons)


SPECIFICATIONS: Source[Each[CdiSpec]] = Source("cdi", lambda _: CDI_SPECS, _parse_specs)
"""By path. Empty where there is none."""
