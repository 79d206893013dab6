"""Docker's ``daemon.json``: the settings that were asked for, not those that run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.fields import Fields, mapping, sequence
from hfprov.evidence.text import excerpt


class DaemonRuntime(Struct, frozen=True):
    name: str
    path: str | None
    arguments: tuple[str, ...] = ()


class DaemonConfig(Struct, frozen=True):
    """``/etc/docker/daemon.json``, which is what was asked for, not what runs."""

    runtimes: tuple[DaemonRuntime, ...]
    default_runtime: str | None
    cgroup_driver: str | None
    """From ``exec-opts``."""
    cdi_enabled: bool | None
    """``features.cdi``; None leaves the daemon's default (on since 28.3)."""
    cdi_spec_dirs: tuple[str, ...]
    live_restore: bool | None
    storage_driver: str | None
    log_driver: str | None
    data_root: str | None
    default_shm_size: str | None
    ulimits: Mapping[str, tuple[int, int]]
    """Name to soft and hard limit; -1 is unlimited."""
    values: Mapping[str, Any]
    """The whole document, to prove that a merge kept every key."""


def strings(values: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    """A list of texts by name; None when it is absent."""
    value = values.get(name)
    if value is None:
        return None
    return tuple(str(each) for each in sequence(value, f"'{name}' of 'docker'"))


_CGROUP_OPTION = "native.cgroupdriver="


def daemon_config(document: Mapping[str, Any]) -> DaemonConfig:
    """Facts of ``daemon.json``. Raises NotUnderstoodError when a key has the wrong type."""
    read = Fields(document)
    options = strings(document, "exec-opts") or ()
    drivers = [each.removeprefix(_CGROUP_OPTION) for each in options if _CGROUP_OPTION in each]
    features = _object(document, "features")
    runtimes = _object(document, "runtimes")
    ulimits = _object(document, "default-ulimits")
    live = document.get("live-restore")
    cdi = features.get("cdi")
    return DaemonConfig(
        runtimes=tuple(_runtime(name, each) for name, each in runtimes.items()),
        default_runtime=read.text("default-runtime"),
        cgroup_driver=drivers[-1] if drivers else None,
        cdi_enabled=cdi if isinstance(cdi, bool) else None,
        cdi_spec_dirs=strings(document, "cdi-spec-dirs") or (),
        live_restore=live if isinstance(live, bool) else None,
        storage_driver=read.text("storage-driver"),
        log_driver=read.text("log-driver"),
        data_root=read.text("data-root", "graph"),
        default_shm_size=read.text("default-shm-size"),
        ulimits={name: _ulimit(name, each) for name, each in ulimits.items()},
        values=document,
    )


def _object(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = document.get(name)
    return {} if value is None else mapping(value, f"'{name}' of 'daemon.json'")


def _runtime(name: str, value: Any) -> DaemonRuntime:
    what = f"Runtime '{excerpt(name)}' of 'daemon.json'"
    values = mapping(value, what)
    arguments = tuple(
        str(each) for each in sequence(values.get("runtimeArgs") or [], f"'runtimeArgs' of {what}")
    )
    return DaemonRuntime(name, Fields(values).text("path", "runtimeType"), arguments)


def _ulimit(name: str, value: Any) -> tuple[int, int]:
    read = Fields(mapping(value, f"ulimit '{excerpt(name)}' of 'daemon.json'"))
    soft, hard = read.count("Soft", "soft"), read.count("Hard", "hard")
    if soft is None or hard is None:
        raise NotUnderstoodError(f"The ulimit '{excerpt(name)}' of 'daemon.json' has no numbers.")
    return soft, hard
