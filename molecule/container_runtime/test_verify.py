"""Containers get what is declared, and nothing of the site's was lost.

Shares no code with the role or the checks.
"""

import json

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
    name = "practice.hfprov/null=all"
    if is_docker(host):
        # Docker 20.10 of Debian 12 knows no CDI. Should this ever succeed, the scenario must give
        # Docker the device as well.
        host.check_output(MAKE)
        assert host.run(f"docker run --rm --network none --device {name} verify true").failed
        return
    shown = in_container(host, "--device", name, command="/bin/busybox ls /dev")
    assert "practice0" in shown.split()
    assert "practice0" not in in_container(host, command="/bin/busybox ls /dev").split()
    # It may be opened, too.
    in_container(host, "--device", name, command=": < /dev/practice0")


def test_settings_of_the_site_are_still_there(host):
    settings = json.loads(host.check_output("cat /etc/docker/daemon.json"))
    if not is_docker(host):
        # Podman is the engine here: Docker's file is the site's alone, untouched and not backed up.
        assert settings == {"log-opts": {"max-size": "10m"}, "exec-opts": ["isolation=default"]}
        assert host.run("ls /etc/docker/daemon.json.*~").failed
        return
    assert settings["log-opts"] == {"max-size": "10m"}
    assert settings["exec-opts"] == ["isolation=default", "native.cgroupdriver=systemd"]
    [before] = host.check_output("ls /etc/docker/daemon.json.*~").split()
    assert json.loads(host.check_output(f"cat {before}")) == {
        "log-opts": {"max-size": "10m"},
        "exec-opts": ["isolation=default"],
    }


def test_a_running_container_outlives_a_restart_of_its_engine(host):
    in_container(host)
    engine, image = ("docker", "verify") if is_docker(host) else ("podman", f"--rootfs {BUSYBOX}")
    host.check_output(
        f"{engine} run -d --network none --name verify {image} /bin/busybox sleep 300"
    )
    ask = f"{engine} container inspect -f '{{{{.State.Pid}}}}' verify"
    pid = host.check_output(ask)
    # Podman has no daemon: what could cut its containers is systemd reading its files again.
    host.check_output("systemctl restart docker" if is_docker(host) else "systemctl daemon-reload")
    assert host.check_output(ask) == pid
    assert host.run(f"kill -0 {pid}").succeeded
    host.check_output(f"{engine} rm -f verify")


def test_no_image_and_no_container_is_left_over(host):
    if is_docker(host):
        assert "hfprov-proof" not in host.check_output("docker images --all; docker ps --all")
    else:
        assert "hfprov-proof" not in host.check_output("podman ps --all")
