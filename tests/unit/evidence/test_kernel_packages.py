"""Packages of kernels by dpkg and rpm, preferences, and the initial file systems."""

from __future__ import annotations

import pytest

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.apt_preferences import statements
from hfprov.evidence.initramfs import parse_files
from hfprov.evidence.kernel_packages import is_locked, parse_dpkg, parse_rpm

DPKG = "".join(
    "\t".join(fields) + "\n"
    for fields in (
        ("ii ", "dpkg", "1.21.23", "amd64", "tar (>= 1.28-1)"),
        ("hi ", "linux-image-6.1.0-42-amd64", "6.1.159-1", "amd64", "kmod, linux-base"),
        ("iF ", "linux-image-6.1.0-44-amd64", "6.1.164-1", "amd64", "kmod"),
        ("iHR", "linux-headers-6.1.0-44-amd64", "6.1.164-1", "amd64", ""),
        ("rc ", "linux-image-6.1.0-37-amd64", "6.1.140-1", "amd64", ""),
        ("un ", "linux-image-generic", "", "", ""),
        ("ii ", "linux-image-6.1.0-42-amd64-dbg", "6.1.159-1", "amd64", ""),
        (
            "ii ",
            "linux-image-amd64",
            "6.1.159-1",
            "amd64",
            "linux-image-6.1.0-42-amd64 (= 6.1.159-1)",
        ),
        (
            *("ii ", "linux-image-generic-hwe-24.04", "6.17.0-8.8", "amd64"),
            "linux-image-unsigned-6.17.0-8-generic | linux-image-6.17.0-8-generic, linux-firmware",
        ),
    )
)


def test_what_dpkg_says():
    found = parse_dpkg(DPKG)
    assert found.architecture == "amd64"
    assert found.releases() == ("6.1.0-42-amd64", "6.1.0-44-amd64")
    assert found.get("linux-image-6.1.0-42-amd64").is_held
    assert not found.get("linux-image-amd64").is_held
    assert not found.get("linux-image-6.1.0-44-amd64").is_whole
    assert not found.get("linux-headers-6.1.0-44-amd64").is_whole
    assert found.get("linux-image-6.1.0-37-amd64") is None
    assert found.get("linux-image-generic") is None


def test_the_release_is_what_the_package_depends_on():
    found = parse_dpkg(DPKG)
    assert found.get("linux-image-amd64").release("linux-image-") == "6.1.0-42-amd64"
    hwe = found.get("linux-image-generic-hwe-24.04")
    assert hwe.release("linux-image-") == "6.17.0-8-generic"
    assert found.get("linux-image-6.1.0-42-amd64").release("linux-image-") is None


@pytest.mark.parametrize(
    "text", ["", "garbage\n", "ii \tlinux-image-amd64\t6.1\n", DPKG.replace("dpkg\t", "dpkgx\t")]
)
def test_what_is_no_list_of_dpkg_is_refused(text):
    with pytest.raises(NotUnderstoodError):
        parse_dpkg(text)


RPM = (
    "kernel-core\t5.14.0-427.el9\tx86_64\nkernel-core\t5.14.0-503.el9\tx86_64\n"
    "kernel\t5.14.0-503.el9\tx86_64\npackage kernel-devel is not installed\n"
)


def test_what_rpm_says():
    found = parse_rpm(RPM, "# list\nkernel-core-0:5.14.0-503.el9.*\n")
    assert found.releases() == ("5.14.0-427.el9.x86_64", "5.14.0-503.el9.x86_64")
    assert [one.is_held for one in found.packages["kernel-core"]] == [False, True]
    assert found.get("kernel-devel") is None
    with pytest.raises(NotUnderstoodError):
        parse_rpm("error: rpmdb open failed\n", "")


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("kernel-0:5.14.0-503.el9.*", True),
        ("kernel-5.14.0-503.el9", True),
        ("kernel-0:5.14.0-503.el9_5.*", False),
        ("kernel-core-0:5.14.0-503.el9.*", False),
        ("# kernel-0:5.14.0-503.el9.*", False),
        ("!kernel-0:5.14.0-503.el9.*", False),
    ],
)
def test_locks_of_dnf(entry, expected):
    assert is_locked("kernel", "5.14.0-503.el9", entry + "\n") is expected


def test_statements_of_preferences():
    assert statements("# x\nPackage:  a b\n\nPin: version 6*\n") == (
        "Package: a b",
        "Pin: version 6*",
    )


def test_lines_of_find():
    (found,) = parse_files("1795991930.65 4096 /boot/initrd.img-6.1 x\n")
    assert (found.path, found.size) == ("/boot/initrd.img-6.1 x", 4096)
    assert parse_files("") == ()
    with pytest.raises(NotUnderstoodError):
        parse_files("find: '/boot': Permission denied\n")
