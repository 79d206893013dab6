"""Accelerators that are not there, down to what lspci and sysfs say about them."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from hfprov.lab.host import lab_dir
from hfprov.lab.image import build_once

HERE = Path(__file__).parent / "fake_accelerators"
pytestmark = pytest.mark.usefixtures("power_cut")  # of the second node, meanwhile
SYSFS = "/sys/bus/pci/devices/10000:00:0{}.0"
PARAMETERS = "/sys/module/fake_accelerators/parameters"


def module_for(release):
    """The module for a kernel release; built once, and then kept beside the images."""
    sources = b"".join(path.read_bytes() for path in sorted(HERE.iterdir()))
    name = f"fake-accelerators-{release}-{hashlib.sha256(sources).hexdigest()[:12]}"

    def build(out):
        tools = ("apt-get", "make", "gcc", "strip")
        if missing := [tool for tool in tools if shutil.which(tool) is None]:
            pytest.skip(f"building a kernel module needs {', '.join(missing)}")
        argv = ["sh", HERE / "build.sh", release, out]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr[-2000:]

    built = build_once(lab_dir() / "images", name, build)
    return (built / "fake_accelerators.ko").read_bytes()


@pytest.fixture
def accelerators(node):
    """Eight of them on the first node."""
    node.write_file("/run/fake.ko", module_for(node.kernel_release()))
    node.run(["insmod", "/run/fake.ko", "count=8", "numa=1"])
    yield node
    node.run(["rmmod", "fake_accelerators"])


def read(node, slot, *names):
    paths = [f"{SYSFS.format(slot)}/{name}" for name in names]
    return node.run(["cat", *paths]).splitlines()


def test_they_are_found_counted_and_their_links_can_fail_live(accelerators):
    shown = accelerators.run(["lspci", "-D", "-n", "-d", "10de:2330"]).splitlines()
    assert len(shown) == 8
    assert shown[0].startswith("10000:00:00.0 0302: 10de:2330")
    link = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")
    assert read(accelerators, 3, *link) == ["32.0 GT/s PCIe", "16", "32.0 GT/s PCIe", "16"]
    assert read(accelerators, 3, "numa_node") == ["1"]
    accelerators.run(["sh", "-c", f"echo 3 > {PARAMETERS}/degraded"])
    assert read(accelerators, 3, *link) == ["2.5 GT/s PCIe", "8", "32.0 GT/s PCIe", "16"]
    assert read(accelerators, 4, *link) == ["32.0 GT/s PCIe", "16", "32.0 GT/s PCIe", "16"]
