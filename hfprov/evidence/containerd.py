"""Container runtimes as the configuration of containerd (versions 1, 2, 3) or CRI-O has them.

Read ``containerd config dump`` rather than the file: only the dump has the drop-ins and defaults.
TOML that was cut at the end of a line is still TOML, so an absent runtime may also have been cut.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.failures import FailureKind, ToolFailure, failure_table, find_failure
from hfprov.evidence.fields import mapping
from hfprov.evidence.text import clean, excerpt
from hfprov.regex import regex

TOOL = "containerd"
_LARGEST = 1024 * 1024


class Runtime(Struct, frozen=True):
    name: str
    type: str | None
    """``io.containerd.runc.v2`` and the like."""
    binary: str | None
    systemd_cgroup: bool | None
    """None: not set, which means cgroupfs."""
    privileged_without_host_devices: bool | None = None


class ContainerdConfig(Struct, frozen=True):
    engine: str
    """``containerd`` or ``cri-o``."""
    version: int
    """Version of the configuration format; 1 when the file names none."""
    runtimes: tuple[Runtime, ...]
    default_runtime: str | None
    cdi_enabled: bool | None
    """None: not set; the default is off in containerd 1.7 and on in 2."""
    cdi_spec_dirs: tuple[str, ...] | None
    imports: tuple[str, ...] = ()
    disabled_plugins: tuple[str, ...] = ()
    """Docker's package ships ``cri`` here, which leaves Kubernetes without a runtime."""
    systemd_cgroup: bool | None = None
    """The global setting of configuration version 1."""


_FAILURES = failure_table(
    {
        FailureKind.OTHER: (
            "failed to load toml",
            "^containerd: ",
            "^error",
            'level=(?:fatal|error) msg="',
        ),
    }
)
# Python's TOML reader takes quadratic time for a key of thousands of dotted parts.
_MANY_DOTS = regex(r"(?<![\w-])(?:(?:[\w-]+|\"[^\"\n]*\"|'[^'\n]*')[ \t]*\.[ \t]*){32}")
_PLUGINS = ("io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri", "cri")


def parse(text: str) -> ContainerdConfig | ToolFailure:
    """Facts of one configuration. Raises NotUnderstoodError when it is not TOML, or too large."""
    text = clean(text)
    if not text.strip():
        raise NotUnderstoodError(f"The configuration of '{TOOL}' is empty.")
    if len(text) > _LARGEST:
        raise NotUnderstoodError(
            f"The configuration of '{TOOL}' is {len(text)} characters long; at most {_LARGEST}."
        )
    if _MANY_DOTS.search(text):
        raise NotUnderstoodError(f"The configuration of '{TOOL}' has a key of too many parts.")
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError, MemoryError) as error:
        failure = find_failure(text, _FAILURES)
        if failure is not None:
            return failure
        raise NotUnderstoodError(
            f"The configuration of '{TOOL}' is not valid TOML: {excerpt(str(error), 200)}."
        ) from error
    if "crio" in document:
        return _crio(_table(document, "crio"))
    return _containerd(document)


def _table(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = values.get(name)
    return {} if value is None else mapping(value, f"'{name}' in the configuration of '{TOOL}'")


def _text(values: Mapping[str, Any], *names: str) -> str | None:
    for name in names:
        value = values.get(name)
        if value is not None and value != "":
            if not isinstance(value, str):
                raise NotUnderstoodError(f"'{name}' in the configuration of '{TOOL}' is no text.")
            return value
    return None


def _truth(values: Mapping[str, Any], name: str) -> bool | None:
    value = values.get(name)
    if value is not None and not isinstance(value, bool):
        raise NotUnderstoodError(f"'{name}' in the configuration of '{TOOL}' is no truth value.")
    return value


def _texts(values: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    value = values.get(name)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise NotUnderstoodError(f"'{name}' in the configuration of '{TOOL}' is no list of texts.")
    return tuple(value)


def _containerd(document: Mapping[str, Any]) -> ContainerdConfig:
    version = document.get("version", 1)
    if isinstance(version, bool) or version not in (1, 2, 3, 4):
        raise NotUnderstoodError(
            f"The configuration of '{TOOL}' has version {excerpt(str(version))}; known are 1 to 4."
        )
    plugins = _table(document, "plugins")
    name = next((each for each in _PLUGINS if each in plugins), "cri")
    cri = _table(plugins, name)
    inner = _table(cri, "containerd")
    cdi = _truth(cri, "enable_cdi")
    return ContainerdConfig(
        engine="containerd",
        version=int(version),
        runtimes=_runtimes(inner),
        default_runtime=_text(inner, "default_runtime_name"),
        cdi_enabled=cdi if cdi is not None else _truth(inner, "enable_cdi"),
        cdi_spec_dirs=_texts(cri, "cdi_spec_dirs"),
        imports=_texts(document, "imports") or (),
        disabled_plugins=_texts(document, "disabled_plugins") or (),
        systemd_cgroup=_truth(cri, "systemd_cgroup"),
    )


def _runtimes(inner: Mapping[str, Any]) -> tuple[Runtime, ...]:
    """Named runtimes, and the two unnamed ones of version 1 when they are set."""
    found = {name: _table(_table(inner, "runtimes"), name) for name in _table(inner, "runtimes")}
    for name in ("default_runtime", "untrusted_workload_runtime"):
        values = _table(inner, name)
        if _text(values, "runtime_type", "runtime_engine"):
            found.setdefault(name, values)
    return tuple(_runtime(name, values) for name, values in found.items())


def _runtime(name: str, values: Mapping[str, Any]) -> Runtime:
    options = _table(values, "options")
    return Runtime(
        name=name,
        type=_text(values, "runtime_type"),
        binary=_text(options, "BinaryName", "Runtime") or _text(values, "runtime_engine"),
        systemd_cgroup=_truth(options, "SystemdCgroup"),
        privileged_without_host_devices=_truth(values, "privileged_without_host_devices"),
    )


def _crio(crio: Mapping[str, Any]) -> ContainerdConfig:
    runtime = _table(crio, "runtime")
    tables = _table(runtime, "runtimes")
    manager = _text(runtime, "cgroup_manager")
    return ContainerdConfig(
        engine="cri-o",
        version=1,
        runtimes=tuple(
            Runtime(
                name=name,
                type=_text(_table(tables, name), "runtime_type"),
                binary=_text(_table(tables, name), "runtime_path"),
                systemd_cgroup=None if manager is None else manager == "systemd",
            )
            for name in tables
        ),
        default_runtime=_text(runtime, "default_runtime"),
        cdi_enabled=None,
        cdi_spec_dirs=_texts(runtime, "cdi_spec_dirs"),
    )
