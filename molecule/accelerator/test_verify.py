"""The driver is installed in one version, stays there, and is there for the kernel to boot.

Shares no code with the role or the checks.
"""

VERSION, KERNEL = "535.161.08", "6.1.0-98-amd64"
PACKAGES = {
    "libcuda1",
    "libnvidia-ml1",
    "nvidia-kernel-dkms",
    "nvidia-kernel-support",
    "nvidia-smi",
}


def test_packages_have_the_version_and_are_held(host):
    held = set(host.check_output("apt-mark showhold").split())
    assert held >= PACKAGES | {"nvidia-persistenced"}
    for name in PACKAGES:
        assert host.package(name).version == f"{VERSION}-1", name


def test_apt_would_take_no_other_version(host):
    for name in PACKAGES:
        policy = host.check_output(f"apt-cache policy {name}")
        assert f"Candidate: {VERSION}-1" in policy, name
        assert "535.183.01-1" in policy, "there is no newer one that it could take"
    asked = host.check_output("apt-get -s dist-upgrade")
    assert "libcuda1" not in asked


def test_module_is_there_for_the_kernel_that_boots(host):
    assert host.check_output("uname -r") != KERNEL
    assert host.file(f"/lib/modules/{KERNEL}/updates/dkms/nvidia-current.ko").is_file
    assert host.check_output(f"modinfo -k {KERNEL} -F version nvidia-current") == VERSION


def test_nouveau_may_not_be_loaded(host):
    assert "blacklist nouveau" in host.check_output("modprobe --showconfig").splitlines()


def test_peermem_is_loaded_at_boot(host):
    shown = host.check_output("systemd-analyze cat-config modules-load.d/hfprov-accelerator.conf")
    assert shown.splitlines()[-1] == "nvidia-peermem"


def test_persistence_daemon_starts_at_boot_before_the_scheduler(host):
    assert host.check_output("systemctl is-enabled nvidia-persistenced") == "enabled"
    before = host.check_output("systemctl show -p Before --value nvidia-persistenced").split()
    assert {"slurmd.service", "kubelet.service"} <= set(before)
