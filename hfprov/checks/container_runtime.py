"""The declared container runtime is there, is set up as declared, and has taken that up.

Repairs that restart Docker are ``DRAIN``: without live-restore they end every container.
``container_host`` judges what holds for any runtime: that its files can be read, and that there is
a way to the accelerators.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hfprov.baseline import Baseline
from hfprov.checks.container_settings import (
    LIMITS,
    judge_containerd,
    judge_docker,
    judge_podman,
)
from hfprov.checks.container_vendor import VENDOR, vendor_for
from hfprov.checks.registry import Facts, check, require
from hfprov.checks.unit_overrides import DROP_INS, judge_overrides
from hfprov.checks.unit_state import why_not_enabled
from hfprov.checks.written_file import judge_rights
from hfprov.evidence.container_engine import (
    BELOW_DOCKER,
    DAEMON_PATH,
    DUMP,
    ENGINE,
    FILES,
    FLAGS,
    INFO,
    SERVICE,
    STARTED,
    VERSIONS,
    engine_of,
    numbers,
)
from hfprov.evidence.container_node import RUNTIMES
from hfprov.evidence.container_proof import TIMES
from hfprov.evidence.docker import DockerInfo
from hfprov.evidence.pci_devices import PCI_DEVICES
from hfprov.evidence.system import MACHINE
from hfprov.verdict import (
    Finding,
    Impact,
    NotApplicable,
    compared,
    failed,
    not_applicable,
    passed,
    unknown,
)

ROLE = "container_runtime"


def undeclared() -> Finding:
    """What every check says where no runtime is declared."""
    reason = "No container runtime is declared: 'container_runtime_engine' is 'none'."
    return not_applicable(NotApplicable.NOT_REQUESTED, reason)


@check(
    "container_runtime.installed",
    reads=[VERSIONS, SERVICE, DROP_INS],
    role=ROLE,
    impact=Impact.RESTART,
    judges=[ENGINE, "container_runtime_packages"],
)
def installed(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Its programs run, and its daemon runs now and after a reboot."""
    if engine_of(baseline) == "none":
        yield undeclared()
    for name, version in facts.get(VERSIONS).items():
        reason = "The program is not there, or does not run: no container can be started."
        if version:
            yield passed(name, observed=version[:80], expected="runs")
        else:
            yield failed(name, observed="does not run", expected="runs", reason=reason)
    for name, unit in facts.get(SERVICE).items():
        state = unit.get("ActiveState", "")
        if name == BELOW_DOCKER:  # Docker's unit starts it
            reason = "Docker hands its containers to it: none can be started."
            yield compared(name, observed=state, expected="active", reason=reason)
            continue
        file_state = unit.get("UnitFileState", "")
        reason = "The daemon does not run, or would not after a reboot."
        yield compared(
            name,
            observed=f"{state}, {file_state or 'absent'}",
            expected="active, enabled",
            reason=why_not_enabled(file_state, reason),
        )
        yield from judge_overrides(facts.get(DROP_INS), name, conditions_only=True)


@check(
    "container_runtime.settings",
    reads=[VERSIONS, FILES, FLAGS, DUMP, RUNTIMES, MACHINE, PCI_DEVICES],
    role=ROLE,
    impact=Impact.DRAIN,
    judges=[
        ENGINE,
        *LIMITS.values(),
        "container_runtime_shm_mib",
        "container_runtime_pids_limit",
        "container_runtime_cgroup_driver",
        "container_runtime_live_restore",
        "container_runtime_docker_settings",
        VENDOR,
    ],
)
def settings(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """What the runtime reads when it is started next, merged as it merges its files."""
    engine = engine_of(baseline)
    if engine == "none":
        yield undeclared()
        return
    files = facts.get(FILES)
    versions = facts.get(VERSIONS)
    told = next(iter(versions.values()), "")
    require(told, f"'{engine}' does not run, so that its version is not known.")
    version, vendor = numbers(told), vendor_for(facts, baseline)
    if engine == "docker":
        yield from judge_docker(facts.get(RUNTIMES).docker, version, vendor, baseline)
        yield from _options(facts)
        if DAEMON_PATH in files:
            yield judge_rights("owner and mode", files[DAEMON_PATH])
    elif engine == "containerd":
        dump = facts.get(DUMP)
        yield from judge_containerd(dump, files, version, vendor, baseline)
    else:
        yield from judge_podman(files, baseline)


def _options(facts: Facts) -> Iterator[Finding]:
    """Dockerd does not start with an option that is in its file too."""
    found = facts.get(RUNTIMES).docker
    keys = set(getattr(found, "values", {}))
    flags = facts.get(FLAGS)
    if "config-file" in flags:
        reason = "dockerd reads another file of settings than the one that is judged here."
        yield failed("config-file", observed="given", expected=DAEMON_PATH, reason=reason)
    twice = sorted(keys & flags)
    reason = "dockerd will not start with an option that is in its file and on its command line."
    expected = "no option of the file"
    observed = ", ".join(twice) or expected
    yield compared("command line", observed=observed, expected=expected, reason=reason)


@check(
    "container_runtime.live",
    reads=[INFO, TIMES],
    role=ROLE,
    impact=Impact.DRAIN,
    judges=[
        ENGINE,
        "container_runtime_cgroup_driver",
        "container_runtime_live_restore",
        "container_runtime_restart",
    ],
)
def live(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The running daemon has taken up its settings."""
    engine = engine_of(baseline)
    if engine == "none":
        yield undeclared()
    elif engine == "podman":
        yield passed(observed="read at the start of each container", expected="read")
    else:
        yield from _taken_up(facts.get(TIMES), STARTED[engine], baseline)
    if engine == "docker":
        yield from _of_daemon(facts, baseline)


def _taken_up(times: Mapping[str, float], marker: str, baseline: Baseline) -> Iterator[Finding]:
    require(marker in times, f"There is no '{marker}': when the daemon was started is not known.")
    allowed = baseline["container_runtime_restart"] == "always"
    reason = "The daemon was started before this file was last written" + (
        "."
        if allowed
        else ", and the role restarts it only where this ends no container: see "
        "'container_runtime_restart'."
    )
    for path, at in sorted(times.items()):
        if path != marker:
            observed = "written later" if at > times[marker] else "read"
            yield compared(path, observed=observed, expected="read", reason=reason)


def _of_daemon(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    info = facts.get(INFO)
    if not isinstance(info, DockerInfo):
        yield unknown("dockerd", reason=f"It does not answer: {getattr(info, 'sentence', '')}")
        return
    reason = "dockerd runs with another setting than the declared one."
    for subject, observed, variable in (
        ("cgroup driver", info.cgroup_driver, "container_runtime_cgroup_driver"),
        ("live-restore", info.live_restore, "container_runtime_live_restore"),
    ):
        expected = str(baseline[variable])
        yield compared(subject, observed=str(observed), expected=expected, reason=reason)
