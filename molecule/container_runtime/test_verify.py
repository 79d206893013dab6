"""Containers get what is declared, and nothing of the site's was lost.

Shares no code with the role or the checks.
"""

import json

import pytest

BUSYBOX = "/opt/verify-image"
MAKE = f"mkdir -p {BUSYBOX}/bin && cp $(which busybox) {BUSYBOX}/bin/"
LOOK = "/bin/busybox cat /proc/self/limits && /bin/busybox df -k /dev/shm"


def is_docker(host):
    return host.exists("docker")


def in_container(host, *options, command=LOOK):
    """What a container says, started as a user of the node would."""
    words = " ".join(options)
    host.check_output(MAKE)
    if is_docker(host):
        host.check_output(f"tar -C {BUSYBOX} -c . | docker import - verify >/dev/null")
        start = f"docker run --rm --network none {words} verify"
    else:
        start = f"podman run --rm --network none {words} --rootfs {BUSYBOX}"
    return host.check_output(f"{start} /bin/busybox sh -c '{command}'")


def test_a_container_gets_limits_and_shared_memory(host):
    text = " ".join(in_container(host).split())
    assert "Max locked memory 4194304 4194304 bytes" in text
    assert "Max open files 16384 16384 files" in text
    assert "Max processes 65536 65536 processes" in text
    assert "Max stack size 8388608 unlimited bytes" in text
    assert "shm 2097152 " in text


def test_a_container_sees_the_device_that_it_is_given(host):
    if is_docker(host):
        pytest.skip("Docker of Debian 12 knows no CDI")
    name = "practice.hfprov/null=all"
    shown = in_container(host, "--device", name, command="/bin/busybox ls /dev")
    assert "practice0" in shown.split()
    assert "practice0" not in in_container(host, command="/bin/busybox ls /dev").split()
    # It may be opened, too.
    in_container(host, "--device", name, command=": < /dev/practice0")


def test_settings_of_the_site_are_still_there(host):
    if not is_docker(host):
        pytest.skip("no Docker here")
    settings = json.loads(host.check_output("cat /etc/docker/daemon.json"))
    assert settings["log-opts"] == {"max-size": "10m"}
    assert settings["exec-opts"] == ["isolation=default", "native.cgroupdriver=systemd"]
    [before] = host.check_output("ls /etc/docker/daemon.json.*~").split()
    assert json.loads(host.check_output(f"cat {before}")) == {
        "log-opts": {"max-size": "10m"},
        "exec-opts": ["isolation=default"],
    }


def test_a_running_container_outlives_a_restart_of_docker(host):
    if not is_docker(host):
        pytest.skip("no Docker here")
    in_container(host)
    host.check_output("docker run -d --name verify verify /bin/busybox sleep 300")
    pid = host.check_output("docker container inspect -f '{{.State.Pid}}' verify")
    host.check_output("systemctl restart docker")
    assert host.check_output("docker container inspect -f '{{.State.Pid}}' verify") == pid
    host.check_output("docker rm -f verify")


def test_no_image_and_no_container_is_left_over(host):
    if is_docker(host):
        assert "hfprov-proof" not in host.check_output("docker images --all; docker ps --all")
    else:
        assert "hfprov-proof" not in host.check_output("podman ps --all")
