"""The kernel's log: what happened is found, and "nothing" counts only for the whole boot."""

from __future__ import annotations

import pytest

from hfprov.evidence.kernel_events import LINES, with_gap
from hfprov.evidence.kernel_log.log import KernelLog
from hfprov.verdict import Outcome

FAIL, WARN, UNKNOWN = Outcome.FAIL, Outcome.WARN, Outcome.UNKNOWN
AER = (
    "pcieport 0000:00:01.0: AER: PCIe Bus Error: severity=Uncorrected (Fatal), "
    "type=Transaction Layer, (Requester ID)"
)
XID = "NVRM: Xid (PCI:0000:19:00): {}, pid=1234, name=python3, something"


@pytest.mark.parametrize(
    ("message", "check", "subject", "outcome"),
    [
        (XID.format(79), "xid", "0000:19:00.0 Xid 79", FAIL),
        (XID.format(13), "xid", "0000:19:00.0 Xid 13", WARN),
        (XID.format(99999), "xid", "0000:19:00.0 Xid 99999", UNKNOWN),
        (
            "nvidia-nvswitch0: SXid (PCI:0000:a0:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
            "sxid",
            "0000:a0:00.0 SXid 20034",
            FAIL,
        ),
        (
            "NVRM: GPU 0000:19:00.0: GPU has fallen off the bus.",
            "accelerator_lost",
            "0000:19:00.0",
            FAIL,
        ),
        (
            "habanalabs 0000:19:00.0: Failed to initialize hl4. Device is NOT usable !",
            "accelerator_driver",
            "0000:19:00.0",
            FAIL,
        ),
        (
            "xe 0000:19:00.0: [drm] *ERROR* Xe has declared device 0000:19:00.0 as wedged.",
            "accelerator_driver",
            "0000:19:00.0",
            FAIL,
        ),
        (
            AER,
            "pcie",
            "0000:00:01.0",
            FAIL,
        ),
        ("Out of memory: Killed process 4711 (python3)", "out_of_memory", "", WARN),
        ("watchdog: BUG: soft lockup - CPU#7 stuck for 22s! [x:1]", "hangs", "", FAIL),
        ("EDAC MC0: 1 UE memory read error on CPU_SrcID#0", "memory", "", FAIL),
        ("nvme nvme3: I/O 12 QID 4 timeout, reset controller", "storage", "nvme3", WARN),
        ("blk_update_request: I/O error, dev nvme2n1, sector 8", "storage", "nvme2n1", FAIL),
    ],
)
def test_an_event_is_judged_by_its_kind_and_device(h100, message, check, subject, outcome):
    h100.kernel_log(message)
    assert h100.bad() == {(f"kernel_events.{check}", subject): outcome}


def test_the_same_event_many_times_is_one_finding(h100):
    h100.kernel_log(*[XID.format(13)] * 50)
    finding = h100.verdicts()[("kernel_events.xid", "0000:19:00.0 Xid 13")]
    assert finding.observed.startswith("50 since boot")


def test_a_program_that_writes_xid_is_no_gpu_error(h100):
    [read] = [name for name in h100.results if name.startswith("run journalctl -k")]
    line = "2026-11-29T01:00:09.123456+00:00 gpu-a01 evil[99]: NVRM: Xid (PCI:0000:19:00): 79\n"
    h100.results[read][0]["text"] += line
    assert h100.bad() == {}


@pytest.mark.parametrize(("from_boot", "truncated"), [(False, False), (True, True)])
def test_nothing_in_a_part_of_the_log_is_unknown(h100, from_boot, truncated):
    h100.kernel_log("eth0: up", from_boot=from_boot, truncated=truncated)
    bad = h100.bad()
    assert set(bad.values()) == {UNKNOWN}
    assert len(bad) == 12


@pytest.mark.parametrize("truncated", [False, True])
def test_a_failure_in_a_part_of_the_log_is_a_failure(h100, truncated):
    h100.kernel_log(XID.format(79), from_boot=False, truncated=truncated)
    assert h100.bad()[("kernel_events.xid", "0000:19:00.0 Xid 79")] is FAIL


def test_a_log_of_as_many_lines_as_are_read_may_be_longer():
    log = KernelLog((), lines=LINES, from_boot=True)
    assert str(LINES) in with_gap(log).gap
    assert with_gap(KernelLog((), lines=LINES - 1, from_boot=True)).gap == ""


def test_the_kernels_own_buffer_helps_out_where_there_is_no_journal(h100):
    [read] = [name for name in h100.results if name.startswith("run journalctl -k")]
    h100.put(read, "-- No entries --\n", code=0)
    h100.command("dmesg", f"[    0.000000] Linux version 6.8.0\n[   99.000000] {XID.format(79)}\n")
    assert h100.bad() == {("kernel_events.xid", "0000:19:00.0 Xid 79"): FAIL}


def test_without_any_log_nothing_is_known(h100):
    [read] = [name for name in h100.results if name.startswith("run journalctl -k")]
    h100.put(read, "", status="denied", stderr="Permission denied")
    bad = {key for key, outcome in h100.bad().items() if outcome is UNKNOWN}
    assert len(bad) == 12


def test_a_log_that_names_more_devices_than_a_machine_has_is_bounded(h100):
    h100.kernel_log(*[f"NVRM: Xid (PCI:0000:{n // 32:02x}:{n % 32:02x}): 79" for n in range(500)])
    found = [key for key in h100.bad() if key[0] == "kernel_events.xid"]
    assert len(found) == 65
    assert h100.bad()[("kernel_events.xid", "and more")] is FAIL


def test_counts_of_a_suspended_amd_gpu_are_no_errors(h100):
    h100.kernel_log(
        "amdgpu 0000:0b:00.0: 1048560 uncorrectable hardware errors detected in umc block"
    )
    assert h100.bad() == {("kernel_events.ras", "0000:0b:00.0"): UNKNOWN}
    h100.kernel_log("amdgpu 0000:0b:00.0: 1 uncorrectable hardware errors detected in umc block")
    assert h100.bad() == {("kernel_events.ras", "0000:0b:00.0"): FAIL}
