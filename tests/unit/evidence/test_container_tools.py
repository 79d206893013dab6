"""Docker, containerd and CDI: what runs, what was asked for, and what is unusable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hfprov.errors import NotUnderstoodError
from hfprov.evidence import cdi, containerd, docker
from hfprov.evidence.docker_daemon import DaemonConfig
from hfprov.evidence.failures import FailureKind, ToolFailure

SAMPLES = Path(__file__).parents[2] / "data" / "captures_other_samples"
DAEMON = (SAMPLES / "docker__daemon.json").read_text()
SPEC = (SAMPLES / "cdi__spec.yaml").read_text()


def test_docker_info_of_a_gpu_node():
    facts = docker.parse((SAMPLES / "docker__info.txt").read_text())
    assert (facts.server_version, facts.client_version) == ("29.0.1", "29.0.1")
    assert (facts.cgroup_driver, facts.cgroup_version) == ("systemd", "2")
    assert facts.runtimes == ("io.containerd.runc.v2", "nvidia", "runc")
    assert facts.default_runtime == "nvidia"
    assert facts.discovered_devices == ("nvidia.com/gpu=0", "nvidia.com/gpu=all")
    assert facts.live_restore is True
    assert facts.containers_running == 1
    assert facts.memory_total_bytes == 2.95 * 1024**4
    assert facts.warnings == ("WARNING: bridge-nf-call-iptables is disabled",)


def test_daemon_json_keeps_every_key_for_the_proof_of_a_merge():
    facts = docker.parse(DAEMON)
    assert isinstance(facts, DaemonConfig)
    assert facts.values == json.loads(DAEMON)
    assert (facts.default_runtime, facts.cgroup_driver) == ("nvidia", "systemd")
    assert facts.cdi_enabled is True
    assert facts.ulimits == {"memlock": (-1, -1)}
    assert facts.runtimes[0].path == "nvidia-container-runtime"
    assert docker.parse("{}").runtimes == ()


@pytest.mark.parametrize(
    "broken",
    ['{"runtimes": []}', '{"exec-opts": {}}', '{"default-ulimits": {"memlock": {"Soft": -1}}}',
     DAEMON[:-3], DAEMON + "}", "[1]"],
)  # fmt: skip
def test_daemon_json_that_is_wrong_is_refused(broken):
    with pytest.raises(NotUnderstoodError):
        docker.parse(broken)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (("Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker "
          "daemon running?"), FailureKind.DAEMON_DOWN),
        ("permission denied while trying to connect to the Docker daemon socket at unix:///x",
         FailureKind.PERMISSION),
        (("Client: Docker Engine - Community\n Version:    29.0.1\n\nServer:\nERROR: Cannot "
          "connect to the Docker daemon at unix:///x. Is the docker daemon running?\n"
         "errors pretty printing info"), FailureKind.DAEMON_DOWN),
        ('{"ServerErrors":["Cannot connect to the Docker daemon"],"ClientInfo":{}}',
         FailureKind.DAEMON_DOWN),
        ('{"ClientInfo":{"Version":"24.0.0"}}', FailureKind.OTHER),
        ("bash: docker: command not found", FailureKind.TOOL_MISSING),
    ],
)  # fmt: skip
def test_docker_without_a_server_is_a_failure(said, kind):
    failure = docker.parse(said)
    assert isinstance(failure, ToolFailure)
    assert failure.kind is kind


def test_docker_info_cut_before_the_runtimes_says_none():
    text = (SAMPLES / "docker__info.txt").read_text()
    facts = docker.parse(text[: text.index(" Runtimes:")])
    assert facts.runtimes is None
    assert facts.default_runtime is None


def test_containerd_version_3():
    facts = containerd.parse((SAMPLES / "containerd__v3.toml").read_text())
    assert (facts.version, facts.default_runtime, facts.cdi_enabled) == (3, "nvidia", True)
    assert facts.cdi_spec_dirs == ("/etc/cdi", "/var/run/cdi")
    assert facts.imports == ("/etc/containerd/conf.d/*.toml",)
    (runtime,) = facts.runtimes
    assert (runtime.binary, runtime.systemd_cgroup) == ("/usr/bin/nvidia-container-runtime", True)


def test_containerd_of_dockers_package_has_cri_switched_off():
    facts = containerd.parse('#comment\ndisabled_plugins = ["cri"]\n')
    assert facts.disabled_plugins == ("cri",)
    assert facts.runtimes == ()


@pytest.mark.parametrize(
    "broken",
    ["version = 9\n", "version = true\n", "a = \n", "[plugins\n", "plugins = 3\n",
     'version = 2\n[plugins."io.containerd.grpc.v1.cri"]\nenable_cdi = "yes"\n'],
)  # fmt: skip
def test_containerd_configuration_that_is_wrong_is_refused(broken):
    with pytest.raises(NotUnderstoodError):
        containerd.parse(broken)


def test_containerd_failure():
    said = "containerd: failed to load TOML: /etc/containerd/config.toml: (1, 5): unexpected token"
    assert containerd.parse(said).kind is FailureKind.OTHER


def test_cdi_names_are_text_and_host_paths_default_to_container_paths():
    facts = cdi.parse(SPEC)
    assert [device.name for device in facts.devices] == ["0", "all"]
    node = facts.devices[0].edits.device_nodes[0]
    assert (node.path, node.host_path) == ("/dev/dri/renderD128", "/dev/dri/renderD128")
    assert facts.edits.environment == {"A": "b=c"}
    assert facts.edits.hooks[0].arguments == ("hook", "update-ldcache")
    assert cdi.parse((SAMPLES / "cdi__spec.json").read_text()).kind == "nvidia.com/gpu"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("kind: amd.com/gpu", "kind:", "'kind' is missing"),
        ("devices:\n", "devicez:\n", "'devices'"),
        ("  containerEdits:\n    deviceNodes:\n    - path: /dev/kfd\ncontainerEdits",
         "  containerEdits:\ncontainerEdits", "'containerEdits' of device 'all'"),
        ("- path: /dev/kfd\n      hostPath", "- other: /dev/kfd\n      hostPath",
         "'path' is missing"),
        ("kind: amd.com/gpu", "kind: &a amd.com/gpu\nx: *a", "aliases"),
    ],
)  # fmt: skip
def test_cdi_specification_that_is_unusable_is_refused(old, new, reason):
    assert old in SPEC
    with pytest.raises(NotUnderstoodError, match=reason):
        cdi.parse(SPEC.replace(old, new, 1))


def test_cdi_list_must_have_what_it_announces():
    text = (SAMPLES / "cdi__list.txt").read_text()
    assert cdi.parse(text).devices == ("nvidia.com/gpu=0", "nvidia.com/gpu=all")
    with pytest.raises(NotUnderstoodError, match="announces 2 devices and lists 1"):
        cdi.parse(text.replace("nvidia.com/gpu=all\n", ""))
    assert cdi.parse("INFO[0000] Found 0 CDI devices").devices == ()
    assert isinstance(cdi.parse("ERRO[0000] failed to get CDI registry"), ToolFailure)
