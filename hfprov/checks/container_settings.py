"""What the settings of each container runtime must come to, and how each one's files say it."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping
from typing import Any

from hfprov.baseline import Baseline
from hfprov.checks.container_vendor import RUNTIMES
from hfprov.checks.written_file import judge_rights
from hfprov.errors import NoEvidenceError
from hfprov.evidence.container_engine import PODMAN_DROP_IN, TOML_DROP_IN, TOML_PATH, toml_of
from hfprov.evidence.container_node import Invalid
from hfprov.evidence.docker_daemon import DaemonConfig
from hfprov.reading import Result
from hfprov.verdict import Finding, compared, failed, unknown

LIMITS = {
    "memlock": "container_runtime_memlock_kib",
    "nofile": "container_runtime_nofile",
    "nproc": "container_runtime_nproc",
    "stack": "container_runtime_stack_kib",
}
_UNITS = {"memlock": 1024, "stack": 1024}
_CDI_SINCE = {"docker": (25, 0), "containerd": (1, 7), "podman": (4, 1)}
_REASON = "The next container, or the next start of the daemon, does not get what is declared."
_CRI = {2: "io.containerd.grpc.v1.cri", 3: "io.containerd.cri.v1.runtime"}


def knows_cdi(engine: str, version: tuple[int, ...]) -> bool:
    """Whether an engine of this version can give CDI devices to containers."""
    return version >= _CDI_SINCE[engine]


def ulimits(baseline: Baseline) -> Mapping[str, tuple[int, int]]:
    """Declared soft and hard limits, in bytes where they are bytes; -1 is unlimited.

    Raises NoEvidenceError when one is declared as neither.
    """
    found = {}
    for name, variable in LIMITS.items():
        value = str(baseline[variable])
        if value != "unlimited" and not value.isdigit():
            raise NoEvidenceError(f"'{variable}' is '{value}', neither 'unlimited' nor a number.")
        soft = -1 if value == "unlimited" else int(value) * _UNITS.get(name, 1)
        found[name] = (soft, -1 if name == "stack" else soft)
    return found


def _same(subject: str, observed: object, expected: object) -> Finding:
    return compared(subject, observed=str(observed), expected=str(expected), reason=_REASON)


def contains(whole: Any, part: Any) -> bool:
    """Whether all of a table is in another one, table by table; other values must be equal."""
    if isinstance(whole, Mapping) and isinstance(part, Mapping):
        return all(key in whole and contains(whole[key], part[key]) for key in part)
    return bool(whole == part)


def judge_docker(
    found: DaemonConfig | Invalid | None,
    version: tuple[int, ...],
    vendor: str,
    baseline: Baseline,
) -> Iterator[Finding]:
    """One finding for each key of ``daemon.json`` that is declared."""
    if isinstance(found, Invalid):
        yield unknown("daemon.json", reason=f"It cannot be read: {found.reason}")
        return
    if found is None:
        yield failed("daemon.json", observed="absent", expected="written", reason=_REASON)
        return
    yield _same("cgroup driver", found.cgroup_driver, baseline["container_runtime_cgroup_driver"])
    yield _same("live-restore", found.live_restore, baseline["container_runtime_live_restore"])
    shm = f"{baseline['container_runtime_shm_mib']}m"
    yield _same("default-shm-size", found.default_shm_size, shm)
    for name, pair in ulimits(baseline).items():
        yield _same(f"default-ulimits {name}", found.ulimits.get(name), pair)
    if knows_cdi("docker", version):
        observed = "on" if found.cdi_enabled else "off"
        yield _same("features cdi", observed, "on")
    for key, value in dict(baseline["container_runtime_docker_settings"]).items():
        there = key in found.values and contains(found.values[key], value)
        yield _same(str(key), "as declared" if there else "not so", "as declared")
    if vendor in RUNTIMES:
        paths = {one.name: one.path for one in found.runtimes}
        yield _same(f"runtime {vendor}", paths.get(vendor), RUNTIMES[vendor])


def judge_podman(files: Mapping[str, Result], baseline: Baseline) -> Iterator[Finding]:
    """What containers.conf(5) and its drop-ins come to; the last one that says something holds."""
    if PODMAN_DROP_IN not in files:
        yield failed(PODMAN_DROP_IN, observed="absent", expected="written", reason=_REASON)
    else:
        yield judge_rights(PODMAN_DROP_IN, files[PODMAN_DROP_IN])
        yield _only(PODMAN_DROP_IN, files[PODMAN_DROP_IN].text, _podman_keys(baseline))
    for (table, key), value in _podman_keys(baseline).items():
        observed, last = None, ""
        for path, result in files.items():
            tables = toml_of(result.text, path)
            if key in tables.get(table, {}):
                observed, last = tables[table][key], path
        if last in ("", PODMAN_DROP_IN):
            yield _same(key, observed, value)
        else:
            reason = f"'{last}' is read later and wins; remove it there."
            yield compared(key, observed=str(observed), expected=str(value), reason=reason)


def _podman_keys(baseline: Baseline) -> Mapping[tuple[str, str], Any]:
    limits = [f"{name}={soft}:{hard}" for name, (soft, hard) in ulimits(baseline).items()]
    return {
        ("containers", "default_ulimits"): limits,
        ("containers", "shm_size"): str(int(baseline["container_runtime_shm_mib"]) << 20),
        ("containers", "pids_limit"): int(baseline["container_runtime_pids_limit"]),
        ("engine", "cgroup_manager"): str(baseline["container_runtime_cgroup_driver"]),
    }


def _only(path: str, text: str, wanted: Mapping[tuple[str, str], Any]) -> Finding:
    """Nothing was added to the role's own file."""
    tables = toml_of(text, path)
    keys = {
        (str(table), str(key))
        for table, values in tables.items()
        for key in (values if isinstance(values, Mapping) else [""])
    }
    added = sorted(" ".join(one) for one in keys - set(wanted))
    observed = ", ".join(added)[:200] or "as written"
    reason = "Something was added to the role's own file, which it will write again."
    return compared(f"{path} keys", observed=observed, expected="as written", reason=reason)


def judge_containerd(
    dump: Mapping[str, Any],
    files: Mapping[str, Result],
    version: tuple[int, ...],
    vendor: str,
    baseline: Baseline,
) -> Iterator[Finding]:
    """What containerd's own merge comes to, and that it hides nothing of ``config.toml``."""
    for path in (TOML_PATH, TOML_DROP_IN):
        if path not in files:
            yield failed(path, observed="absent", expected="written", reason=_REASON)
        else:
            yield judge_rights(path, files[path])
    if TOML_PATH not in files:
        return
    main = toml_of(files[TOML_PATH].text, TOML_PATH)
    name = _CRI.get(main.get("version", 1), "")
    imported = any(fnmatch.fnmatchcase(TOML_DROP_IN, str(one)) for one in main.get("imports", []))
    yield _same("imports", "with the drop-in" if imported else "without", "with the drop-in")
    section = dump.get("plugins", {}).get(name, {})
    wanted = containerd_wanted(version, vendor, baseline)
    yield from _each(section, wanted)
    base = main.get("plugins", {}).get(name, {})
    for path, result in files.items():
        if path not in (TOML_PATH, TOML_DROP_IN) and path < TOML_DROP_IN:
            base = toml_of(result.text, path).get("plugins", {}).get(name, base)
    hidden = not contains(section, _without(base, wanted))
    reason = "containerd before 2.0 takes a plugin's settings from one file: what was set elsewhere"
    yield compared(
        "settings of others",
        observed="hidden" if hidden else "in effect",
        expected="in effect",
        reason=f"{reason} since is not in effect.",
    )
    if TOML_DROP_IN in files:
        ours = toml_of(files[TOML_DROP_IN].text, TOML_DROP_IN).get("plugins", {})
        allowed = merged(base if version < (2, 0) else {}, wanted)
        same = ours == {name: allowed}
        yield _same(f"{TOML_DROP_IN} keys", "as written" if same else "changed", "as written")


def containerd_wanted(version: tuple[int, ...], vendor: str, baseline: Baseline) -> dict[str, Any]:
    """The table of the CRI plugin that is declared."""
    options = {"SystemdCgroup": baseline["container_runtime_cgroup_driver"] == "systemd"}
    kind = "io.containerd.runc.v2"
    runtimes: dict[str, Any] = {"runc": {"runtime_type": kind, "options": options}}
    if vendor in RUNTIMES:
        own = {**options, "BinaryName": RUNTIMES[vendor]}
        runtimes[vendor] = {"runtime_type": kind, "options": own}
    wanted: dict[str, Any] = {"containerd": {"runtimes": runtimes}}
    if knows_cdi("containerd", version):
        wanted["enable_cdi"] = True
    return wanted


def merged(base: Any, wanted: Any) -> Any:
    """A table with the values of another one put over it."""
    if not (isinstance(base, Mapping) and isinstance(wanted, Mapping)):
        return wanted
    return {**base, **{key: merged(base.get(key), value) for key, value in wanted.items()}}


def _without(base: Any, wanted: Any) -> Any:
    """Of a table what is not declared."""
    if not (isinstance(base, Mapping) and isinstance(wanted, Mapping)):
        return base
    return {
        key: _without(value, wanted[key]) if key in wanted else value
        for key, value in base.items()
        if key not in wanted or isinstance(wanted[key], Mapping)
    }


def _each(section: Any, wanted: Any, path: str = "") -> Iterator[Finding]:
    for key, value in wanted.items():
        found = section.get(key) if isinstance(section, Mapping) else None
        name = f"{path}.{key}".removeprefix(".")
        if isinstance(value, Mapping):
            yield from _each(found, value, name)
        else:
            yield _same(name, found, value)
