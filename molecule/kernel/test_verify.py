"""What a container can have of the kernel's role. Shares no code with the role or the checks."""

import re

import pytest

RELEASE = "6.1.0-40-amd64"
MENU = "/boot/grub/grub.cfg"


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("linux-image-amd64", "6.1.153-1"),
        ("linux-headers-amd64", "6.1.153-1"),
        (f"linux-image-{RELEASE}", "6.1.153-1"),
        (f"linux-headers-{RELEASE}", "6.1.153-1"),
    ],
)
def test_package_is_there_in_the_declared_version_and_held(host, name, version):
    shown = host.check_output(f"dpkg-query -W -f '${{Version}} ${{Status}}' {name}")
    assert shown == f"{version} hold ok installed"


def test_an_upgrade_changes_nothing(host):
    assert "0 upgraded, 0 newly installed" in host.check_output("apt-get -s dist-upgrade")
    host.check_output("apt-mark unhold linux-image-amd64 linux-headers-amd64")
    try:
        # The preference alone keeps the version, too.
        assert "0 upgraded, 0 newly installed" in host.check_output("apt-get -s dist-upgrade")
    finally:
        host.check_output("apt-mark hold linux-image-amd64 linux-headers-amd64")


def test_one_old_kernel_is_left(host):
    kernels = host.check_output("ls /boot").split()
    assert [one for one in kernels if one.startswith("vmlinuz-")] == [
        "vmlinuz-6.1.0-38-amd64",
        f"vmlinuz-{RELEASE}",
    ]


def entries(host):
    """Title and line of the kernel, of each entry of the menu."""
    text = host.check_output(f"cat {MENU}")
    return re.findall(r"menuentry '([^']+)'.*?\n\s*linux\s+(.*?)\n", text, re.DOTALL)


def test_menu_boots_the_declared_kernel_by_its_name(host):
    text = host.check_output(f"cat {MENU}")
    (default,) = re.findall(r'set default="(gnulinux[^"]*)"', text)
    assert default.split(">")[1].startswith(f"gnulinux-{RELEASE}-advanced-")
    assert f"menuentry_id_option '{default.split('>')[1]}'" in text


def test_parameters_are_added_to_those_of_the_site(host):
    normal = {line for title, line in entries(host) if "recovery" not in title}
    assert normal
    assert all(
        line.endswith("console=ttyS0,115200 quiet iommu=pt pci=realloc=off") for line in normal
    )
    recovery = [line for title, line in entries(host) if "recovery" in title]
    assert recovery
    assert not any("iommu=pt" in line for line in recovery)


def test_what_the_next_menu_is_made_of(host):
    made = host.check_output(
        "sh -c '. /etc/default/grub; for f in /etc/default/grub.d/*.cfg; do . $f; done; "
        'echo "$GRUB_CMDLINE_LINUX_DEFAULT"\''
    )
    assert made == "quiet iommu=pt pci=realloc=off"


def test_initramfs_is_there_and_loaded(host):
    assert host.file(f"/boot/initrd.img-{RELEASE}").size > 0
    assert f"initrd\t/boot/initrd.img-{RELEASE}" in host.check_output(f"cat {MENU}")
