"""Fabric manager's log, NCCL's topology and OCI's health checks: own small texts."""

from __future__ import annotations

import pytest

from hfprov.errors import NotUnderstoodError
from hfprov.evidence import fabricmanager, healthcheck, nccl_topo

FM = """\
[Dec 19 2024 19:17:49] [ERROR] [tid 1] detected NVSwitch fatal error 20034 on fid 0 on NVSwitch \
pci bus id 00000000:83:00.0 physical id 0 port 34
Fabric Manager Log initializing at: 12/19/2024 22:08:53.808
[Dec 19 2024 22:08:53] [INFO] [tid 1570] Fabric Manager version 535.161.08 is running with the \
following configuration options
[Dec 19 2024 22:08:53] [INFO] [tid 1570] Fabric Mode = 0
[Dec 19 2024 22:08:54] [ERROR] [tid 1570] failed to initialize NVSwitch 0000:84:00.0
[Dec 19 2024 22:08:55] [WARNING] [tid 1570] something odd
"""


def test_fabric_manager_keeps_starts_apart():
    log = fabricmanager.parse(FM)
    assert len(log.runs) == 2
    assert log.version == "535.161.08"
    old, present = log.runs
    assert (old.events[0].kind, old.events[0].code, old.events[0].port) == (
        "nvswitch_fatal",
        20034,
        34,
    )
    assert old.events[0].pci_address == "0000:83:00.0"
    assert [event.kind for event in present.events] == ["error", "warning"]
    assert present.events[0].pci_address == "0000:84:00.0"
    assert present.options == (("Fabric Mode", "0"),)
    assert not present.configured


@pytest.mark.parametrize("text", ["", "\n", "hello\n", "[x] [INFO] no\n"])
def test_no_log_of_the_fabric_manager(text):
    with pytest.raises(NotUnderstoodError):
        fabricmanager.parse(text)


JOURNAL = """\
Jan 02 03:04:05 gpu-7 systemd[1]: Starting NVIDIA fabric manager service...
Jan 02 03:04:06 gpu-7 nv-fabricmanager[77]: Connected to 1 node.
Jan 02 03:04:07 gpu-7 nv-fabricmanager[77]: Successfully configured all the available NVSwitches to
Jan 02 03:04:07 gpu-7 systemd[1]: Started NVIDIA fabric manager service.
Jan 02 03:04:08 gpu-7 systemd[1]: another.service: Failed with result 'exit-code'.
Jan 03 03:04:05 gpu-7 systemd[1]: Starting NVIDIA fabric manager service...
Jan 03 03:04:06 gpu-7 nv-fabricmanager[88]: fabric manager NVIDIA GPU driver interface version \
550.1.2 don't match with driver version 550.1.3. Please update it.
Jan 03 03:04:06 gpu-7 systemd[1]: nvidia-fabricmanager.service: Failed with result 'exit-code'.
"""


def test_the_journal_of_the_fabric_manager():
    first, last = fabricmanager.parse(JOURNAL).runs
    assert (first.configured, first.started_at, first.events) == (True, "Jan 02 03:04:05", ())
    assert (last.configured, last.version, last.entries) == (False, "550.1.2", 2)
    assert [(event.kind, event.line) for event in last.events] == [("error", 7), ("error", 8)]
    assert last.events[0].time_text == "Jan 03 03:04:06"


@pytest.mark.parametrize("month", ["2月", "févr.", "Mär"])
def test_the_journal_of_a_system_in_another_language(month):
    log = fabricmanager.parse(
        f"{month} 02 03:04:05 gpu-7 systemd[1]: Starting NVIDIA fabric manager service...\n"
        f"{month} 02 03:04:06 gpu-7 nv-fabricmanager[9]: a request failed with error: a\n"
    )
    assert [event.kind for event in log.runs[-1].events] == ["error"]


def test_one_line_of_the_fabric_manager_without_a_date():
    log = fabricmanager.parse("nv-fabricmanager[9]: request to the driver failed with error: a")
    assert [event.kind for event in log.events] == ["error"]


def test_a_journal_without_the_fabric_manager_is_not_its_log():
    with pytest.raises(NotUnderstoodError):
        fabricmanager.parse("Jan 02 03:04:08 gpu-7 systemd[1]: a.service: Failed with result 'b'.")


TOPO = """<system version="2">
 <cpu numaid="0" affinity="ff" arch="x86_64">
  <pci busid="0000:01:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
   <pci busid="0000:02:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
    <gpu dev="0" sm="90" rank="0" gdr="1">
     <nvlink target="0000:09:00.0" count="18" tclass="0x068000"/>
    </gpu>
   </pci>
   <pci busid="0000:03:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="8">
    <nic><net name="mlx5_0" dev="0" speed="400000" port="1" guid="0x1" gdr="1"/></nic>
   </pci>
  </pci>
  <pci busid="0000:05:00.0" class="0x020000" link_speed="" link_width="0"/>
 </cpu>
 <cpu numaid="1">
  <pci busid="0000:81:00.0" class="0x030200" link_speed="16.0 GT/s" link_width="16"/>
 </cpu>
</system>
"""


def test_topology_and_distances():
    topology = nccl_topo.parse(TOPO)
    near, far = topology.gpus
    close, other = topology.nics
    assert near.nvlinks[0].to_switch
    assert near.nvlinks[0].count == 18
    assert close.link_width == 8
    assert other.link_width is None
    assert topology.distance(near, close) == "PIX"
    assert topology.distance(near, other) == "PHB"
    assert topology.distance(near, far) == "SYS"
    assert topology.nearest_nics(near) == (close,)
    assert topology.nearest_nics(far) == ()


@pytest.mark.parametrize("lines", range(len(TOPO.splitlines())))
def test_a_topology_that_is_cut_off_is_refused(lines):
    with pytest.raises(NotUnderstoodError):
        nccl_topo.parse("\n".join(TOPO.splitlines()[:lines]))


@pytest.mark.parametrize(
    "text",
    [
        "<other/>",
        "<system/>",
        '<system><cpu numaid="0"><pci busid="nonsense" class="0x030200"/></cpu></system>',
        '<system><cpu><pci class="0x030200"/></cpu></system>',
        '<!DOCTYPE system [<!ENTITY a "b">]><system><cpu numaid="0"/></system>',
    ],
)
def test_what_is_no_topology_is_refused(text):
    with pytest.raises(NotUnderstoodError):
        nccl_topo.parse(text)


HEAD = "2026-01-16 15:36:52,635 - INFO - Started GPU host setup check at: 2026-01-16-153652\n"
ENDS = "2026-01-16 15:37:02,158 - INFO - Finished GPU host setup check at: 2026-01-16-153652\n"


def entry(level: str, message: str) -> str:
    return f"2026-01-16 15:36:55,178 - {level} - {message}\n"


def test_health_check_with_a_failure():
    log = healthcheck.parse(
        HEAD
        + entry("INFO", "GPU ECC Test: Passed")
        + entry("ERROR", "GPU Row Remap Test: Failed - pending on GPU 3")
        + entry("ERROR", "GPU Count Test: Passed")
        + entry("WARNING", "node - NCCL Test Failed: Avg bus bandwidth is 12.5")
        + entry("INFO", "Bus Check Test: Skipped")
        + ENDS
    )
    assert [item.status for item in log.items] == ["pass", "fail", "fail", "fail", "skip"]
    assert log.items[1].message == "pending on GPU 3"
    assert log.items[3].bandwidth_gbytes_s == 12.5
    assert log.judged == 4
    assert log.incomplete == ""


def test_a_health_check_that_does_not_finish_is_incomplete():
    assert "Finished" in healthcheck.parse(HEAD + entry("INFO", "GPU ECC Test: Passed")).incomplete


def test_a_health_check_without_items_is_incomplete():
    log = healthcheck.parse(HEAD + ENDS)
    assert log.judged == 0
    assert "no result" in log.incomplete


@pytest.mark.parametrize("text", ["", "\n", "Passed\n", "all good"])
def test_what_is_no_health_check_is_refused(text):
    with pytest.raises(NotUnderstoodError):
        healthcheck.parse(text)


def test_scout_with_a_failed_pair():
    scout = healthcheck.parse(
        "Running NCCL test on 2 nodes from file...\n"
        "Testing node-1 <-> node-2... FAILED\n"
        "Good nodes (≥ 440.0 GB/s): 0\n"
        "Bad nodes (< 440.0 GB/s or failed): 2\n"
    )
    assert scout.pairs[0].bandwidth_gbytes_s is None
    assert scout.pairs[0].result == "FAILED"
    assert scout.counts["bad nodes"] == 2
    assert scout.incomplete
