"""The declared kernel: packages, headers, holds, old ones, modules, initramfs, and rivals."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import yaml

from hfprov.catalogue.systems import systems
from hfprov.checks.kernel_declared import STREAMS, fits
from hfprov.checks.registry import all_checks
from hfprov.verdict import NotApplicable, Outcome

FAIL, UNKNOWN, PASS = Outcome.FAIL, Outcome.UNKNOWN, Outcome.PASS
ROOT = Path(__file__).parents[4]
OUR = "6.1.0-40-amd64"
PACKAGES = "run dpkg-query"
SETTINGS = "glob /etc/default/grub.d/*.cfg"
PREFERENCES = "glob /etc/apt/preferences.d/*"
INDEX = "run grep"
DKMS_FILES = "list /lib/modules/*/updates/dkms/*.ko*"
CHECKS = [one.id for one in all_checks() if one.role == "kernel"]


@pytest.mark.parametrize("check_id", CHECKS)
def test_a_node_at_its_baseline_has_nothing_bad(node, check_id):
    assert node.outcomes(check_id) <= {PASS, Outcome.NOT_APPLICABLE}


NEEDED = {
    "systemd itself": CHECKS,
    "file /etc/os-release": [one for one in CHECKS if one != "kernel.cmdline"],
    PACKAGES: [one for one in CHECKS if one != "kernel.cmdline"],
    "file /boot/grub/grub.cfg": [
        *("kernel.old", "kernel.initramfs", "kernel.settings", "kernel.default"),
        *("kernel.next_boot", "kernel.menu", "kernel.cmdline", "kernel.rivals"),
    ],
    "file /proc/sys/kernel/osrelease": ["kernel.old", "kernel.running", "kernel.cmdline"],
    "file /proc/cmdline": ["kernel.cmdline"],
    "run find -L /boot": ["kernel.initramfs"],
    "run find /etc/modprobe.d": ["kernel.initramfs"],
    "run dkms status": ["kernel.modules"],
    "run grep": ["kernel.modules"],
}
"""Checks that cannot be judged without a read."""


@pytest.mark.parametrize(("read", "check_id"), [(k, one) for k, v in NEEDED.items() for one in v])
@pytest.mark.parametrize("how", ["garbled", "empty", "timeout", "denied"])
def test_without_evidence_nothing_passes_that_needs_it(node, read, check_id, how):
    key = node.key(read)
    assert key in node.reads_of(check_id)
    if how == "empty" and read in ("run find /etc/modprobe.d", "run dkms status", "run grep"):
        return  # nothing found is an answer
    if how == "empty" and read == "systemd itself":
        return  # bare metal
    for result in node.results[key]:
        if how in ("garbled", "empty"):
            text = "\x1b[31m<b>\x00garbage" if how == "garbled" else ""
            result |= {"text": "Virtualization=<b>\n" if "systemd" in key and text else text}
        else:
            result |= {"status": how, "text": "", "stderr": "lost"}
    bad = set(node.bad(check_id).values())
    # An empty list of files, and another command line, are answers: bad ones.
    is_answer = read == "file /proc/cmdline" or (read == "run find -L /boot" and how == "empty")
    assert bad & ({UNKNOWN, FAIL} if is_answer else {UNKNOWN})


def test_the_kernel_of_a_container_is_its_hosts(node):
    node.put("systemd itself", "Virtualization=systemd-nspawn\n")
    for check_id in CHECKS:
        (finding,) = node.findings(check_id)
        assert finding.not_applicable is NotApplicable.CONTAINER


def test_another_version_than_the_pinned_one(node):
    node.values["kernel_version"] = "6.1.159-1"
    assert node.bad("kernel.packages") == {"linux-image-amd64": FAIL}
    assert "6.1.153-1" in node.reason("kernel.packages")
    # What depends on the release cannot be judged, and does not pass.
    for check_id in ("kernel.headers", "kernel.hold", "kernel.default", "kernel.running"):
        assert set(node.bad(check_id).values()) == {UNKNOWN}


@pytest.mark.parametrize(
    ("version", "pin", "expected"),
    [
        ("6.1.153-1", "", True),
        ("6.1.153-1", "6.1", True),
        ("6.12.57-1", "6.1", False),
        ("6.1.153-1", "6.1.153", True),
        ("6.1.153-1", "6.1.15", False),
        ("6.1.153-1", "6.1.153-1", True),
        ("6.1.153-10", "6.1.153-1", False),
        ("6.12.57-1~bpo12+1", "6.12.57-1", True),
        ("5.14.0-503.21.1.el9_5", "5.14.0-503", True),
        ("6.8.0-60.63", "6.8.0-60", True),
        ("6.8.0-601.63", "6.8.0-60", False),
        ("6.1.153-1", "6.1.1*", False),
    ],
)
def test_a_pin_ends_at_the_end_of_a_number(version, pin, expected):
    assert fits(version, pin) is expected
    assert script().matches(version, pin) is expected


def script():
    """What the role runs on the node."""
    path = ROOT / "roles/kernel/files/observe_kernel.py"
    spec = importlib.util.spec_from_file_location("observe_kernel", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_stream_counts_not_only_the_version(node):
    node.values |= {"kernel_version": "", "kernel_stream": "backports"}
    assert node.bad("kernel.packages") == {"linux-image-amd64": FAIL}
    node.values["kernel_stream"] = "hwe"
    assert set(node.bad("kernel.packages").values()) == {UNKNOWN}


def test_checks_and_role_know_the_same_streams():
    names = {"debian": "Debian", "ubuntu": "Ubuntu", "el": "RedHat"}
    for (system, major), streams in STREAMS.items():
        path = ROOT / f"roles/kernel/vars/{names[system]}_{major}.yml"
        theirs = yaml.safe_load(path.read_text())["__kernel_streams"]
        ours = {
            name: {
                "image": one.image,
                "headers": one.headers,
                **({"parents": list(one.parents)} if one.parents else {}),
                **({"backport": True} if one.is_backport else {}),
            }
            for name, one in streams.items()
        }
        assert ours == theirs
    listed = {(one.id, one.version.split(".")[0]) for one in systems().systems}
    assert {("el" if one in ("rhel", "rocky") else one, major) for one, major in listed} == set(
        STREAMS
    )


def test_a_kernel_that_is_not_whole(node):
    node.replace(PACKAGES, f"hi \tlinux-image-{OUR}", f"hU \tlinux-image-{OUR}")
    assert node.bad("kernel.packages") == {f"linux-image-{OUR}": FAIL}


def test_an_interrupted_dpkg(node):
    node.add("glob /var/lib/dpkg/updates", "/var/lib/dpkg/updates/0001")
    assert node.bad("kernel.packages") == {"dpkg": FAIL}


def test_headers_of_another_kernel_do_not_count(node):
    """A7: headers are those of the kernel that boots, whichever runs or is newest."""
    node.replace(PACKAGES, f"linux-headers-{OUR}", "linux-headers-6.1.0-42-amd64")
    assert node.bad("kernel.headers") == {f"linux-headers-{OUR}": FAIL}
    node.values["kernel_headers"] = False
    assert node.findings("kernel.headers")[0].not_applicable is NotApplicable.NOT_REQUESTED


@pytest.mark.parametrize("name", ["linux-image-amd64", f"linux-image-{OUR}"])
def test_both_kinds_of_packages_are_held(node, name):
    node.replace(PACKAGES, f"hi \t{name}\t", f"ii \t{name}\t")
    assert node.bad("kernel.hold") == {name: FAIL}


def test_a_hold_that_is_not_declared(node):
    node.values["kernel_hold"] = False
    assert len(node.bad("kernel.hold")) == 4
    assert node.bad("kernel.preferences")
    node.results[node.key(PREFERENCES)] = []
    assert not node.bad("kernel.preferences")


def test_a_preference_for_another_version(node):
    node.replace(PREFERENCES, "version 6.1.153-1", "version 6.12*")
    assert set(node.bad("kernel.preferences").values()) == {FAIL}


def test_old_kernels_above_the_number(node):
    line = "ii \tlinux-image-6.1.0-42-amd64\t6.1.159-1\tamd64\t\n"
    text = node.one(PACKAGES)["text"]
    node.put(PACKAGES, text + line)
    assert node.bad("kernel.old") == {"": FAIL}
    node.values["kernel_old_kept"] = 2
    assert not node.bad("kernel.old")


def test_the_running_kernel_may_always_stay(node):
    node.values["kernel_old_kept"] = 0
    assert node.bad("kernel.old") == {"": FAIL}
    node.put("file /proc/sys/kernel/osrelease", "6.1.0-38-amd64\n")
    assert not node.bad("kernel.old")


def with_dkms(node, *releases: str) -> None:
    """DKMS has a module, installed for these kernels."""
    lines = [f"nvidia/580.95.05, {one}, x86_64: installed" for one in releases]
    node.put("run dkms status", "\n".join(lines or ["nvidia/580.95.05: added"]) + "\n")
    for one in releases:
        node.add(DKMS_FILES, f"/lib/modules/{one}/updates/dkms/nvidia.ko.xz")
        for result in node.results[node.key(INDEX)]:
            if result["name"] == one:
                result |= {"text": "updates/dkms/nvidia.ko.xz:\n", "code": 0}


def test_a_module_that_is_only_there_for_the_running_kernel(node):
    """A7: the running kernel is the old one, and its driver says nothing of the next boot."""
    node.put("file /proc/sys/kernel/osrelease", "6.1.0-38-amd64\n")
    node.values["kernel_required_modules"] = ["nvidia"]
    with_dkms(node, "6.1.0-38-amd64")
    assert node.bad("kernel.modules") == {"nvidia": FAIL, "dkms nvidia": FAIL}
    assert "6.1.0-38-amd64" in node.reason("kernel.modules")
    with_dkms(node, "6.1.0-38-amd64", OUR)
    assert not node.bad("kernel.modules")


def test_a_module_that_was_added_and_never_built(node):
    with_dkms(node)
    assert node.bad("kernel.modules") == {"dkms nvidia": FAIL}


IMAGES = "run find -L /boot"
INPUTS = "run find /etc/modprobe.d"


def test_an_initramfs_that_is_missing_empty_or_outdated(node):
    text = node.one(IMAGES)["text"]
    image = next(line for line in text.splitlines() if line.endswith(f"initrd.img-{OUR}"))
    node.put(IMAGES, text.replace(image + "\n", ""))
    assert node.bad("kernel.initramfs") == {"initramfs": FAIL}
    node.put(IMAGES, text.replace(image, image.replace(" 4096 ", " 12 ")))
    assert node.bad("kernel.initramfs") == {"initramfs": FAIL}
    node.put(IMAGES, text)
    node.put(INPUTS, "9999999999.5 10 /etc/initramfs-tools/modules\n", code=1)
    assert node.bad("kernel.initramfs") == {"initramfs": FAIL}
    node.put(INPUTS, "9999999999.5 10 /etc/modprobe.d/nouveau.conf\n", code=1)
    assert node.bad("kernel.initramfs") == {"initramfs": Outcome.WARN}
    node.put(INPUTS, "1.5 10 /etc/modprobe.d/nouveau.conf\n", code=1)
    assert not node.bad("kernel.initramfs")


def test_a_kernel_that_is_lost_in_boot(node):
    text = node.one(IMAGES)["text"]
    node.put(
        IMAGES, "".join(line for line in text.splitlines(keepends=True) if "vmlinuz-" not in line)
    )
    assert f"vmlinuz-{OUR}" in node.bad("kernel.initramfs")


@pytest.mark.parametrize(
    ("text", "is_bad"),
    [
        ('GRUB_CMDLINE_LINUX_DEFAULT="quiet"\n', True),
        ('GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT iommu=off"\n', True),
        ('GRUB_CMDLINE_LINUX_DEFAULT="${GRUB_CMDLINE_LINUX_DEFAULT} nosmt"\n', False),
        ("GRUB_DEFAULT=saved\n", True),
        ("GRUB_TIMEOUT=1\n# GRUB_DEFAULT=saved\n", False),
    ],
)
def test_settings_that_are_read_later(node, text, is_bad):
    node.add(SETTINGS, "/etc/default/grub.d/zzz-site.cfg", text)
    assert bool(node.bad("kernel.rivals")) is is_bad
    node.results[node.key(SETTINGS)][-1]["name"] = "/etc/default/grub.d/50-cloudimg.cfg"
    assert not node.bad("kernel.rivals")


def test_a_preference_of_others(node):
    node.add(PREFERENCES, "/etc/apt/preferences.d/x", "Package: linux-image-amd64\nPin: version 6*")
    assert node.bad("kernel.rivals") == {"/etc/apt/preferences.d/x": FAIL}
