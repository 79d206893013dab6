"""What the role writes keeps what was there; what it cannot merge it refuses, changing nothing."""

from __future__ import annotations

import importlib.util
import json
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

FILES = Path(__file__).parents[4] / "roles/container_runtime/files"
V2 = "io.containerd.grpc.v1.cri"
V3 = "io.containerd.cri.v1.runtime"
PATTERN = "/etc/containerd/conf.d/*.toml"
ASKED = {
    "docker_settings": {},
    "live_restore": True,
    "shm_mib": 2048,
    "pids_limit": 4096,
    "ulimits": {"memlock": (-1, -1), "stack": (8388608, -1)},
    "cgroup_driver": "systemd",
    "runtime": None,
}


def load(name, monkeypatch):
    spec = importlib.util.spec_from_file_location(name, FILES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def settings(monkeypatch):
    return load("merge_settings", monkeypatch)


@pytest.fixture
def observe(monkeypatch):
    for name in ("merge_settings", "runtime_facts", "prove_runtime"):
        load(name, monkeypatch)
    return load("observe_runtime", monkeypatch)


# Docker: case A13


def test_every_key_that_was_there_is_kept(settings):
    old = {
        "exec-opts": ["isolation=default", "native.cgroupdriver=cgroupfs"],
        "log-opts": {"max-size": "10m"},
        "storage-driver": "overlay2",
        "runtimes": {"habana": {"path": "/usr/bin/habana-container-runtime"}},
        "default-ulimits": {"core": {"Name": "core", "Soft": 0, "Hard": 0}},
        "features": {"containerd-snapshotter": True},
    }
    new = json.loads(settings.merged_daemon_json(json.dumps(old), ASKED, (28, 3)))
    assert new["exec-opts"] == ["isolation=default", "native.cgroupdriver=systemd"]
    assert new["features"] == {"containerd-snapshotter": True, "cdi": True}
    assert new["default-ulimits"]["core"] == {"Name": "core", "Soft": 0, "Hard": 0}
    assert new["default-ulimits"]["memlock"] == {"Name": "memlock", "Soft": -1, "Hard": -1}
    assert (new["live-restore"], new["default-shm-size"]) == (True, "2048m")
    for key in ("log-opts", "storage-driver", "runtimes"):
        assert new[key] == old[key]


def test_a_second_merge_changes_no_byte(settings):
    once = settings.merged_daemon_json('{"log-driver":"local"}', ASKED, (28, 3))
    # However it is laid out: what says the same is left as a person wrote it.
    compact = json.dumps(json.loads(once))
    assert settings.merged_daemon_json(once, ASKED, (28, 3)) == once
    assert settings.merged_daemon_json(compact, ASKED, (28, 3)) == compact


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_file_is_as_none(settings, text):
    assert json.loads(settings.merged_daemon_json(text, ASKED, (28, 3)))["live-restore"] is True


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": }', "not valid JSON"),
        ('{"a": 1,}', "not valid JSON"),
        ('{"a": 1, "a": 2}', "twice"),
        ('{"a": NaN}', "NaN"),
        ("[]", "no object"),
        ('{"exec-opts": "x"}', "no list"),
    ],
)
def test_what_cannot_be_merged_is_refused_in_a_sentence(settings, text, reason):
    with pytest.raises(settings.RefusedError, match=reason) as error:
        settings.merged_daemon_json(text, ASKED, (28, 3))
    assert "/etc/docker/daemon.json" in str(error.value)


def test_keys_of_other_variables_are_refused(settings):
    asked = ASKED | {"docker_settings": {"live-restore": False}}
    with pytest.raises(settings.RefusedError, match="container_runtime_live_restore"):
        settings.merged_daemon_json("{}", asked, (28, 3))


def test_old_docker_is_not_told_of_cdi(settings):
    assert "features" not in json.loads(settings.merged_daemon_json("{}", ASKED, (20, 10, 24)))


def test_the_vendors_runtime_is_set_up_beside_others(settings):
    asked = ASKED | {"runtime": {"name": "habana", "path": "/usr/bin/x"}}
    text = settings.merged_daemon_json('{"runtimes": {"kata": {"path": "k"}}}', asked, (28, 3))
    assert json.loads(text)["runtimes"] == {"kata": {"path": "k"}, "habana": {"path": "/usr/bin/x"}}


# containerd

CONFIG = f"""\
# of the site
version = 2
oom_score = -999

[plugins."{V2}".registry]
  config_path = "/etc/containerd/certs.d" # mirrors
[plugins."{V2}".containerd]
  snapshotter = "native"
"""


def test_one_line_is_added_to_the_main_file_and_no_comment_lost(settings):
    new = settings.with_import(CONFIG, PATTERN)
    assert set(CONFIG.splitlines()) <= set(new.splitlines())
    assert tomllib.loads(new) == tomllib.loads(CONFIG) | {"imports": [PATTERN]}
    assert settings.with_import(new, PATTERN) == new


@pytest.mark.parametrize("imports", ['["/a/*.toml"]', '[\n  "/a/*.toml", # ours\n]', "[]"])
def test_an_import_is_added_to_others(settings, imports):
    text = f"version = 2\nimports = {imports}\n"
    found = tomllib.loads(settings.with_import(text, PATTERN))["imports"]
    assert set(found) == {PATTERN, *tomllib.loads(text)["imports"]}


def test_containerd_before_2_gets_all_that_the_files_before_say(settings):
    files = [("main", CONFIG), ("10.toml", f'version = 2\n[plugins."{V2}"]\nsandbox_image = "p"\n')]
    alone = tomllib.loads(settings.toml_drop_in(files[:1], ASKED, (1, 7, 24)))["plugins"][V2]
    assert alone["registry"] == {"config_path": "/etc/containerd/certs.d"}
    assert alone["containerd"]["snapshotter"] == "native"
    assert alone["containerd"]["runtimes"]["runc"]["options"] == {"SystemdCgroup": True}
    assert alone["enable_cdi"] is True
    # The drop-in before ours has hidden what the main file says already.
    both = tomllib.loads(settings.toml_drop_in(files, ASKED, (1, 7, 24)))["plugins"][V2]
    assert both["sandbox_image"] == "p"
    assert "registry" not in both


def test_containerd_2_merges_by_itself(settings):
    files = [("main", CONFIG.replace("version = 2", "version = 3").replace(V2, V3))]
    found = tomllib.loads(settings.toml_drop_in(files, ASKED, (2, 1)))
    assert found["version"] == 3
    assert set(found["plugins"]) == {V3}
    assert "registry" not in found["plugins"][V3]


def test_containerd_1_6_is_not_told_of_cdi(settings):
    files = [("main", "version = 2\n")]
    assert "enable_cdi" not in settings.toml_drop_in(files, ASKED, (1, 6, 20))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("version = [", "not valid TOML"),
        ("oom_score = 0\n", "version 1"),
        ('version = 2\ndisabled_plugins = ["cri"]\n', "disables the plugin 'cri'"),
    ],
)
def test_containerd_files_that_cannot_be_merged_are_refused(settings, text, reason):
    with pytest.raises(settings.RefusedError, match=reason):
        settings.toml_drop_in([("main", text)], ASKED, (1, 7))


def test_without_a_reader_of_toml_nothing_is_written(settings, monkeypatch):
    monkeypatch.setattr(settings, "toml", None)
    with pytest.raises(settings.RefusedError, match="python3-tomli"):
        settings.with_import(CONFIG, PATTERN)


@pytest.mark.parametrize(
    "document",
    [
        {"a": 'q"\\\n\t\x7f', "b": [1, "x", {"y": True}], "c": 1.5},
        {"t": {"u.v": {"w": {}}, "x": -1}, "e": {}},
        {"plugins": {V2: {"a b": {"c": False}}}},
    ],
)
def test_what_is_written_reads_the_same(settings, document):
    assert tomllib.loads(settings.to_toml(document)) == document


def test_podman_gets_sizes_in_bytes(settings):
    found = tomllib.loads(settings.podman_drop_in(ASKED))
    assert found["containers"]["shm_size"] == str(2048 * 1024 * 1024)
    assert found["containers"]["default_ulimits"] == ["memlock=-1:-1", "stack=8388608:-1"]


# What a restart would do


INFO = {"CgroupDriver": "systemd", "DockerRootDir": "/var/lib/docker", "Driver": "overlay2"}


@pytest.mark.parametrize(
    ("asked", "document", "expected"),
    [
        ({}, {}, True),
        ({"live_restore": False}, {}, False),
        ({"cgroup_driver": "cgroupfs"}, {}, False),
        ({}, {"data-root": "/srv"}, False),
        ({}, {"storage-driver": "vfs"}, False),
        ({}, {"data-root": "/var/lib/docker"}, True),
    ],
)
def test_containers_that_a_restart_would_cut_are_known(observe, asked, document, expected):
    assert observe.survives(INFO, ASKED | asked, document) is expected


@pytest.mark.parametrize(
    ("command", "state", "off"),
    [
        (
            "/usr/sbin/dockerd -H fd:// --containerd=/run/containerd/containerd.sock",
            "inactive",
            True,
        ),
        ("/usr/sbin/dockerd --containerd=/run/containerd/containerd.sock", "failed", True),
        ("/usr/sbin/dockerd --containerd=/run/containerd/containerd.sock", "active", False),
        ("/usr/sbin/dockerd --containerd=/run/containerd/containerd.sock", None, True),
        ("/usr/bin/dockerd -H fd://", "inactive", False),
        (None, "inactive", False),
    ],
)
def test_a_stopped_containerd_below_docker_is_known(observe, monkeypatch, command, state, off):
    def properties(unit):
        assert unit == "containerd.service"
        return {"ActiveState": state} if state else {}

    monkeypatch.setattr(observe.facts, "properties", properties)
    docker = {"ExecStart": command} if command else {}
    assert observe.is_below_off(docker) is off


def test_containerd_is_started_before_docker():
    tasks = yaml.safe_load((FILES.parent / "tasks/apply.yml").read_text())
    module = "ansible.builtin.systemd_service"
    started = [one[module]["name"] for one in tasks if one.get(module, {}).get("state")]
    assert started == ["containerd.service", "{{ item }}.service"]
    # Whether it starts at boot is left to Docker's unit, which asks for it.
    assert "enabled" not in tasks[0][module]


def test_invalid_settings_stop_the_role_before_anything_else(observe, monkeypatch, tmp_path):
    file = tmp_path / "daemon.json"
    file.write_text('{"log-driver": }')
    monkeypatch.setattr(observe, "DAEMON_JSON", str(file))
    limits = dict.fromkeys(("memlock", "nofile", "nproc", "stack"), "unlimited")
    asked = ASKED | {
        "engine": "docker", "vendor": "none", "vendors": {}, "limits": limits, "devices": [],
        "programs": {"docker": []}, "packages": {"docker": ["docker.io"]}, "site_packages": [],
        "proof_programs": [],
    }  # fmt: skip
    found = observe.main(asked)
    assert len(found["problems"]) == 1
    assert "not valid JSON" in found["problems"][0]
    assert found["missing_packages"] == []
    assert file.read_text() == '{"log-driver": }'


def test_none_is_answered_like_any_other(observe):
    found = observe.main({"engine": "none"})
    assert found == {"problems": [], "missing_packages": []}


def test_an_answer_is_never_replaced_by_that_of_a_skipped_task():
    """Ansible registers a skipped task too: the answer before it would be lost."""
    tasks = [
        task
        for path in (FILES.parent / "tasks").glob("*.yml")
        for task in yaml.safe_load(path.read_text(encoding="utf-8"))
        if task.get("register") == "__container_runtime_answer"
    ]
    assert len(tasks) == 2
    assert all("when" not in task for task in tasks)


# systemd is never reloaded: case A14


def test_the_role_never_has_systemd_reload():
    role = FILES.parent
    for path in [*role.glob("*/*.yml"), *role.glob("files/*.*")]:
        text = path.read_text(encoding="utf-8")
        assert "daemon_reload" not in text, path
        assert "daemon-reload" not in text, path
