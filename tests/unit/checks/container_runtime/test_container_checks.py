"""Checks of the declared runtime: what passes, what fails, and what is not known."""

from __future__ import annotations

import json

import pytest

from hfprov.evidence.container_engine import numbers, parse_flags
from hfprov.evidence.container_proof import sha256
from hfprov.verdict import Outcome

FAIL, UNKNOWN = Outcome.FAIL, Outcome.UNKNOWN
CHECKS = tuple(f"container_runtime.{one}" for one in ["installed", "settings", "live", "proof"])
DAEMON = "file /etc/docker/daemon.json"
STAMP = "file /var/lib/hfprov/container_runtime.json"
INFO = "run docker info --format '{{json .}}'"
DUMP = "run containerd config dump"


@pytest.mark.parametrize("check", CHECKS)
def test_healthy_nodes_pass(docker, containerd, check):
    assert docker.bad(check) == {}
    assert containerd.bad(check) == {}


@pytest.mark.parametrize("check", [*CHECKS, "container_runtime.toolkit"])
def test_none_is_valid_and_says_so(docker, check):
    docker.values["container_runtime_engine"] = "none"
    [finding] = docker.findings(check)
    assert finding.outcome is Outcome.NOT_APPLICABLE
    assert "'none'" in finding.reason


@pytest.mark.parametrize("check", CHECKS)
def test_no_evidence_never_passes(docker, check):
    for read in docker.results:
        docker.results[read] = [
            {"name": one["name"], "status": "timeout"} for one in docker.results[read]
        ]
    assert UNKNOWN in docker.bad(check).values() or FAIL in docker.bad(check).values()
    assert Outcome.PASS not in {one.outcome for one in docker.findings(check)}


def test_a_missing_program_and_a_disabled_daemon_fail(docker):
    docker.put("run docker --version", status="absent", text="")
    docker.replace("units of systemd", "UnitFileState=enabled", "UnitFileState=disabled")
    assert docker.bad(CHECKS[0]) == {"docker": FAIL, "docker.service": FAIL}


@pytest.mark.parametrize(
    ("variable", "value", "subject"),
    [
        ("memlock_kib", "unlimited", "default-ulimits memlock"),
        ("nofile", 1024, "default-ulimits nofile"),
        ("nproc", "unlimited", "default-ulimits nproc"),
        ("stack_kib", 64, "default-ulimits stack"),
        ("shm_mib", 64, "default-shm-size"),
        ("cgroup_driver", "cgroupfs", "cgroup driver"),
        ("live_restore", False, "live-restore"),
        ("docker_settings", {"log-opts": {"max-size": "10m"}}, "log-opts"),
    ],
)
def test_each_declared_setting_is_held_against_the_file(docker, variable, value, subject):
    docker.values[f"container_runtime_{variable}"] = value
    assert docker.bad(CHECKS[1]) == {subject: FAIL}


def test_a_file_that_was_wiped_fails_and_one_that_is_no_json_is_unknown(docker):
    docker.put(DAEMON, text="{}")
    assert len(docker.bad(CHECKS[1])) == 7
    docker.put(DAEMON, text='{"a": }')
    assert docker.bad(CHECKS[1])["daemon.json"] is UNKNOWN


def test_an_option_on_the_command_line_too_is_found(docker):
    text = 'DOCKER_OPTS="--live-restore"\n'
    docker.put("file /etc/default/docker", status="ok", text=text)
    assert docker.bad(CHECKS[1]) == {"command line": FAIL}


@pytest.mark.parametrize(
    ("exec_start", "options", "expected"),
    [
        ("{ argv[]=/usr/bin/dockerd -H fd:// ; x }", "", "hosts"),
        ("{ argv[]=dockerd --exec-opt native.cgroupdriver=x ; }", "", "exec-opts"),
        ("", "# --debug\nDOCKER_OPTS='--default-shm-size=1g'", "default-shm-size"),
        ("", "OTHER=--live-restore", ""),
    ],
)
def test_options_of_dockerd_are_known_by_their_keys(exec_start, options, expected):
    found = parse_flags(exec_start, options)
    assert (expected in found) if expected else (found == frozenset())


def test_a_daemon_that_runs_with_other_settings_fails(docker):
    docker.replace(INFO, '"CgroupDriver":"systemd"', '"CgroupDriver":"cgroupfs"')
    docker.replace(INFO, '"LiveRestoreEnabled":true', '"LiveRestoreEnabled":false')
    assert docker.bad(CHECKS[2]) == {"cgroup driver": FAIL, "live-restore": FAIL}


def times_of(node):
    [read] = [name for name in node.results if name.startswith("run find /run/")]
    return read


def test_a_file_that_is_newer_than_the_daemon_fails_and_says_who_must_act(docker):
    [one] = docker.results[times_of(docker)]
    one["text"] = "100.5 /run/docker.pid\n100.6 /etc/docker/daemon.json\n"
    assert docker.bad(CHECKS[2]) == {"/etc/docker/daemon.json": FAIL}
    [finding] = [f for f in docker.findings(CHECKS[2]) if f.outcome is FAIL]
    assert "container_runtime_restart" in finding.reason
    one["text"] = "100.6 /etc/docker/daemon.json\n"
    assert docker.bad(CHECKS[2])[""] is UNKNOWN


# containerd


def test_what_containerd_makes_of_its_files_counts(containerd):
    containerd.replace(DUMP, "SystemdCgroup = true", "SystemdCgroup = false")
    assert "containerd.runtimes.runc.options.SystemdCgroup" in containerd.bad(CHECKS[1])


def test_settings_that_a_drop_in_hides_are_found(containerd):
    containerd.replace(
        "file /etc/containerd/config.toml", 'snapshotter = "native"', 'snapshotter = "zfs"'
    )
    assert containerd.bad(CHECKS[1])["settings of others"] is FAIL


def test_a_drop_in_that_is_not_imported_is_found(containerd):
    containerd.replace("file /etc/containerd/config.toml", "conf.d", "other.d")
    assert containerd.bad(CHECKS[1])["imports"] is FAIL


# The proof


def stamp_of(node):
    return json.loads(node.results[STAMP][0]["text"])


def keep(node, stamp):
    node.put(STAMP, text=json.dumps(stamp))


def test_no_proof_fails(docker):
    docker.put(STAMP, status="absent", text="")
    assert docker.bad(CHECKS[3]) == {STAMP[5:]: FAIL}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"seen": 1}', "x"])
def test_what_is_no_proof_is_unknown(docker, text):
    docker.put(STAMP, text=text)
    assert docker.bad(CHECKS[3]) == {"": UNKNOWN}


def test_a_proof_of_another_version_or_other_settings_does_not_count(docker):
    docker.replace("run dockerd --version", "20.10", "20.11")
    docker.put(DAEMON, text=docker.results[DAEMON][0]["text"] + "\n")
    assert docker.bad(CHECKS[3]) == {"version": FAIL, DAEMON[5:]: FAIL}


def test_what_the_container_got_is_held_against_the_declaration(docker):
    docker.values |= {"container_runtime_nofile": 1, "container_runtime_shm_mib": 1}
    assert docker.bad(CHECKS[3]) == {"nofile": FAIL, "/dev/shm": FAIL}


SPEC = json.dumps(
    {
        "cdiVersion": "0.5.0", "kind": "site.example/nic", "containerEdits": {},
        "devices": [{"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/nic0"}]}}],
    }
)  # fmt: skip
NAME = "site.example/nic=0"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({NAME: {"/dev/nic0": True}}, {}),
        ({NAME: {"/dev/nic0": False}}, {NAME: FAIL}),
        ({NAME: {"/dev/nic1": True}}, {NAME: FAIL}),
        ({NAME: {}}, {NAME: FAIL}),
        ({}, {NAME: FAIL}),
    ],
)
def test_each_device_that_cdi_promises_must_have_opened(docker, given, expected):
    docker.values["container_runtime_devices"] = [NAME]
    docker.spec("/etc/cdi/site.json", SPEC)
    stamp = stamp_of(docker)
    stamp["seen"]["given"] = given
    stamp["specs"] = {"/etc/cdi/site.json": sha256(SPEC)}
    keep(docker, stamp)
    assert docker.bad(CHECKS[3]) == expected


def test_a_specification_that_changed_needs_a_new_proof(docker):
    docker.values["container_runtime_devices"] = [NAME]
    docker.spec("/etc/cdi/site.json", SPEC)
    assert docker.bad(CHECKS[3])["/etc/cdi/site.json"] is FAIL


@pytest.mark.parametrize(
    ("loaded", "written_for", "expected"),
    [("580.95", "580.95", {}), ("580.126", "580.95", {"driver": FAIL}), ("", "580.95", None)],
)
def test_the_specification_must_be_of_the_loaded_driver(docker, loaded, written_for, expected):
    docker.values["container_runtime_vendor"] = "nvidia"
    spec = SPEC.replace("site.example/nic", "nvidia.com/gpu")
    docker.spec("/etc/cdi/nvidia.yaml", spec)
    if loaded:
        docker.put("file /sys/module/nvidia/version", status="ok", text=f"{loaded}\n")
    keep(docker, stamp_of(docker) | {"driver": written_for})
    bad = docker.bad("container_runtime.toolkit")
    assert bad == ({"driver": UNKNOWN} if expected is None else expected)


def test_without_a_specification_the_toolkit_fails(docker):
    docker.values["container_runtime_vendor"] = "nvidia"
    assert docker.bad("container_runtime.toolkit")["/etc/cdi/nvidia.yaml"] is FAIL


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Docker version 28.3.1, build x", (28, 3, 1)),
        ("containerd github.com/containerd/containerd v2.1 abc", (2, 1)),
    ],
)
def test_versions(text, expected):
    assert numbers(text) == expected


def test_what_is_below_docker_must_run(docker):
    """Docker itself goes on, and starts no container any more."""
    docker.replace(
        "units of systemd",
        "\nActiveState=active\nUnitFileState=enabled\nExecStart={ path=/usr/bin/containerd",
        "\nActiveState=inactive\nUnitFileState=enabled\nExecStart={ path=/usr/bin/containerd",
    )
    assert docker.bad("container_runtime.installed") == {"containerd.service": Outcome.FAIL}
    docker.replace("units of systemd", "--containerd=/run/containerd/containerd.sock ", "")
    assert docker.bad("container_runtime.installed") == {}


def test_docker_without_a_runc_that_runs(docker):
    docker.put("run runc --version", status="absent", text="")
    assert docker.bad("container_runtime.installed") == {"runc": Outcome.FAIL}


def test_condition_of_a_drop_in_keeps_docker_from_starting_and_a_command_does_not(docker):
    path = "/etc/systemd/system/docker.service.d/site.conf"
    one = {"name": path, "status": "ok", "mode": 0o644, "uid": 0, "gid": 0}
    read = "glob /etc/systemd/system/*.service.d/*.conf"
    docker.results[read] = [one | {"text": "[Service]\nExecStart=\nExecStart=/x\n"}]
    assert docker.bad("container_runtime.installed") == {}
    docker.results[read] = [one | {"text": "[Unit]\nConditionHost=other\n"}]
    found = docker.bad("container_runtime.installed")
    assert found == {f"docker.service {path}:2": Outcome.FAIL}


def test_other_file_of_settings_on_the_command_line(docker):
    docker.replace("units of systemd", "dockerd -H fd://", "dockerd --config-file=/srv/x -H fd://")
    assert docker.bad("container_runtime.settings") == {"config-file": Outcome.FAIL}
