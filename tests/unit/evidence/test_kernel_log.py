"""The kernel log: every form of line, every kind of event, windows in time, and no false alarms."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.kernel_log.log import parse, since
from hfprov.evidence.xid import Severity, find_xids, sxid_catalogue, xid_catalogue

XID = "NVRM: Xid (PCI:0000:9b:00): 79, pid=7, name=python, GPU has fallen off the bus."
MOMENT = datetime(2025, 2, 23, 16, 24, 18, tzinfo=UTC)
FORMS = {
    "bare": XID,
    "dmesg": f"[   12.345678] {XID}",
    "dmesg with thread": f"[   12.345678] [   T1234] {XID}".replace("] [", "]["),
    "dmesg -T": f"[Sun Feb 23 16:24:18 2025] {XID}",
    "dmesg -r": f"<3>[   12.345678] {XID}",
    "dmesg iso": f"2025-02-23T16:24:18,000000+00:00 {XID}",
    "dmesg -x": f"kern  :err   : [   12.345678] {XID}",
    "dmesg -x iso": f"kern  :warn  : 2025-02-23T16:24:18,000000+00:00 {XID}",
    "kmsg": f"4,1234,12345678,-;{XID}",
    "syslog": f"Feb 23 16:24:18 node01 kernel: {XID}",
    "syslog of a Japanese or Chinese system": f"2月 23 16:24:18 node01 kernel: {XID}",
    "syslog of a French system": f"févr. 23 16:24:18 node01 kernel: {XID}",
    "syslog with boot time": f"Feb 23 16:24:18 node01 kernel: [   12.345678] {XID}",
    "syslog iso": f"2025-02-23T16:24:18.000000+00:00 node01 kernel: {XID}",
    "journal short-iso": f"2025-02-23T16:24:18+0000 node01 kernel: {XID}",
    "journal short-full": f"Sun 2025-02-23 16:24:18 UTC node01 kernel: {XID}",
    "journal short-unix": f"1740327858.000000 node01 kernel: {XID}",
    "journal short-monotonic": f"[   12.345678] node01 kernel: {XID}",
    "journal json": '{"__REALTIME_TIMESTAMP":"1740327858000000","PRIORITY":"3",'
    f'"SYSLOG_IDENTIFIER":"kernel","MESSAGE":"{XID}"}}',
}
ABSOLUTE = {
    "dmesg iso",
    "dmesg -x iso",
    "syslog iso",
    "journal short-iso",
    "journal short-full",
    "journal short-unix",
    "journal json",
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_line(form):
    event = parse(FORMS[form] + "\n").events[0]
    assert event.category == "xid"
    assert event.device == "0000:9b:00.0"
    assert event.severity is Severity.FATAL
    assert (event.xid.code, event.xid.pid, event.xid.process) == (79, 7, "python")
    assert event.xid.message == "GPU has fallen off the bus."
    assert (event.time == MOMENT) == (form in ABSOLUTE)
    if form != "bare":
        assert event.time_text


@pytest.mark.parametrize(
    ("message", "code", "device", "severity"),
    [
        ("NVRM: Xid (0000:01:00): 13, 0005 00000000", 13, "0000:01:00.0", Severity.WARN),
        ("NVRM: Xid (PCI:0000:01:00): 62, 0096(1c54) 0000", 62, "0000:01:00.0", Severity.FATAL),
        ("NVRM: Xid (PCI:0000:01:00): 999, new", 999, "0000:01:00.0", Severity.UNKNOWN),
        (
            "NVRM: Xid (PCI:0000:01:00): 149, NETIR_LINK_EVT  Non-fatal   XC0",
            149,
            "0000:01:00.0",
            Severity.WARN,
        ),
        (
            (
                "NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x1 "
                "(GPU Reset Required) to 0x0 (None)"
            ),
            154,
            "0000:01:00.0",
            Severity.INFO,
        ),
        ("NVRM: Xid (PCI:0000:01:00): 48, pid=9, DBE", 48, "0000:01:00.0", Severity.FATAL),
    ],
)
def test_xids(message, code, device, severity):
    event = parse(message).events[0]
    assert (event.xid.code, event.device, event.severity) == (code, device, severity)


def test_xids_glued_together_are_all_read():
    assert [xid.code for xid in find_xids(XID + XID.replace("79", "48"))] == [79, 48]


def test_an_xid_with_a_garbled_code_is_still_an_event():
    event = parse("[ 1.0] NVRM: Xid (PCI:0000:9b:00): \\xff\\xfe").events[0]
    assert (event.category, event.severity) == ("xid", Severity.UNKNOWN)
    assert event.device == "0000:9b:00.0"


@pytest.mark.parametrize("month", ["Feb", "2月", "févr.", "Mär"])
def test_a_program_of_a_system_in_another_language_cannot_write_an_xid(month):
    assert parse(f"{month} 23 16:24:18 node01 logger[7]: {XID}\n").events == ()


def test_a_program_cannot_write_an_xid():
    log = parse(
        f"Feb 23 16:24:18 node01 sshd[9]: {XID}\n"
        f"user  :notice: 2025-02-23T16:24:18,000000+00:00 {XID}\n12,5,9,-;{XID}\n"
    )
    assert log.lines == 3
    assert log.events == ()


@pytest.mark.parametrize(
    ("message", "category", "severity"),
    [
        (
            "nvidia-nvswitch3: SXid (PCI:0000:c5:00.0): 19084, Non-fatal, Link 10 AN1 Heartbeat",
            "sxid",
            Severity.WARN,
        ),
        (
            "nvidia-nvswitch0: SXid (PCI:0000:c2:00.0): 20034, Fatal, Link 28 LTSSM Fault Up",
            "sxid",
            Severity.FATAL,
        ),
        (
            "NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x62:0x40:2393)",
            "nvidia_driver",
            Severity.FATAL,
        ),
        (
            "NVRM: API mismatch: the client has the version 550.54.14, but",
            "nvidia_driver",
            Severity.FATAL,
        ),
        ("NVRM: GPU at PCI:0000:3b:00 has fallen off the bus.", "gpu_lost", Severity.FATAL),
        (
            (
                "amdgpu 0000:0c:00.0: amdgpu: socket: 4, die: 0 3 uncorrectable "
                "hardware errors detected "
                "in gfx block"
            ),
            "amdgpu_ras",
            Severity.FATAL,
        ),
        (
            "amdgpu 0000:0c:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=1",
            "amdgpu_driver",
            Severity.FATAL,
        ),
        (
            "amdgpu 0000:0c:00.0: amdgpu: MES might be in unrecoverable state, do something",
            "amdgpu_driver",
            Severity.FATAL,
        ),
        ("NVRM: GPU3 f: GSP RM heartbeat timed out", "nvidia_driver", Severity.WARN),
        (
            "habanalabs 0000:0c:00.0: Failed to initialize accel4. Device is NOT usable !",
            "habanalabs_driver",
            Severity.FATAL,
        ),
        (
            "habanalabs hl4: Failed to communicate with Device CPU (CPU-CP timeout)",
            "habanalabs_driver",
            Severity.FATAL,
        ),
        (
            "accel accel4: Device heartbeat failed! PCI link is broken",
            "habanalabs_driver",
            Severity.FATAL,
        ),
        ("habanalabs hl4: failed to read a sensor", "habanalabs_driver", Severity.WARN),
        (
            "xe 0000:0c:00.0: [drm] *ERROR* Xe has declared device 0000:0c:00.0 as wedged.",
            "intel_gpu_driver",
            Severity.FATAL,
        ),
        (
            "i915 0000:0c:00.0: [drm] *ERROR* GT1: Failed to initialize GPU, declaring it wedged!",
            "intel_gpu_driver",
            Severity.FATAL,
        ),
        (
            "xe 0000:0c:00.0: [drm] *ERROR* Tile1: GT1: reset failed (-ETIMEDOUT)",
            "intel_gpu_driver",
            Severity.WARN,
        ),
        (
            "i915 0000:0c:00.0: [drm] GPU HANG: ecode 12:1:00000000, in train [7]",
            "intel_gpu_driver",
            Severity.WARN,
        ),
        ("EDAC MC0: 1 UE memory read error on CPU_SrcID#0", "edac", Severity.FATAL),
        ("EDAC MC0: 3 CE memory read error on CPU_SrcID#0", "edac", Severity.WARN),
        ("mce: [Hardware Error]: Machine check events logged", "mce", Severity.WARN),
        (
            "mlx5_core 0000:5e:00.0: poll_health:822:(pid 0): Fatal error 1 detected",
            "nic_firmware",
            Severity.FATAL,
        ),
        ("mlx5_core 0000:5e:00.0 ens1f0np0: Link down", "nic_link", Severity.WARN),
        ("nvme nvme0: controller is down; will reset: CSTS=0xffffffff", "nvme", Severity.FATAL),
        ("Out of memory: Killed process 123 (python) total-vm:1kB", "oom", Severity.WARN),
        (
            "INFO: task nvidia-smi:77 blocked for more than 120 seconds.",
            "hung_task",
            Severity.FATAL,
        ),
        ("BUG: unable to handle page fault for address: 0", "kernel_bug", Severity.FATAL),
        ("DMAR: [DMA Read] Request device [3b:00.0] fault addr 0", "iommu_fault", Severity.WARN),
    ],
)
def test_kinds_of_events(message, category, severity):
    event = parse(f"[  100.000000] {message}\n").events[0]
    assert (event.category, event.severity) == (category, severity)


F, W = Severity.FATAL, Severity.WARN
MORE_KINDS = (
    ("amdgpu 0000:0c:00.0: {7}uncorrectable hardware error(ERREVENT_X) detected!", "amdgpu_ras", F),
    ("amdgpu 0000:0c:00.0: amdgpu: RAS controller interrupt triggered by a bus", "amdgpu_ras", W),
    ("amdgpu 0000:0c:00.0: amdgpu: GPU reset(3) failed", "amdgpu_driver", F),
    ("amdgpu 0000:0c:00.0: probe with driver amdgpu failed with error -5", "amdgpu_driver", F),
    ("amdgpu: probe of 0000:0c:00.0 failed with error -5", "amdgpu_driver", F),
    ("[drm:amdgpu_x [amdgpu]] *ERROR* hw_init of IP block <a> failed -5", "amdgpu_driver", F),
    (
        "NVRM: GPU5 g: (the GPU is likely in a bad state and may need to be reset)",
        "nvidia_driver",
        F,
    ),
    ("NVRM: GPU5 RmInitAdapter: Cannot initialize GSP firmware RM", "nvidia_driver", F),
    ("NVRM: f: *** Cannot attach gpu", "nvidia_driver", F),
    ("nvidia: probe of 0000:0c:00.0 failed with error -1", "nvidia_driver", F),
    ("NVRM: f_IMPL: Timed out waiting for a queue to be empty.", "nvidia_driver", W),
    ("NVRM: f: Check failed: Out of luck [NV_ERR_X] (0x1) returned from g", "nvidia_driver", W),
    ("NVRM: knvlinkF_IMPL: Failed to update a mask!", "nvlink", W),
    ("NVRM: knvlinkF_GH100: Getting peer5's mask failed!", "nvlink", W),
    ("habanalabs hl4: Going to reset device", "habanalabs_driver", W),
    ("xe 0000:0c:00.0: In Survivability Mode", "intel_gpu_driver", F),
    ("i915 0000:0c:00.0: probe with driver i915 failed with error -5", "intel_gpu_driver", F),
    ("xe 0000:0c:00.0: [drm] *ERROR* GT1: GuC load failed", "intel_gpu_driver", W),
    ("mlx5_core 0000:0c:00.0: mlx5_load_one failed with error code -5", "nic_firmware", F),
    ("mlx5_core 0000:0c:00.0: probe with driver mlx5_core failed with error -5", "nic_firmware", F),
    (
        "mlx5_core 0000:0c:00.0: f:1:(pid 0): Health issue observed, x, severity(3) ERROR:",
        "nic_firmware",
        F,
    ),
    (
        "mlx5_core 0000:0c:00.0: f:1:(pid 0): Health issue observed, x, severity(4) WARNING:",
        "nic_firmware",
        W,
    ),
    ("mlx5_core 0000:0c:00.0 eth5: TX timeout detected", "nic_firmware", F),
    (
        "mlx5_core 0000:0c:00.0: f:1:(pid 5): A(0x5) timeout. Will cause a leak of a command",
        "nic_firmware",
        W,
    ),
    ("NETDEV WATCHDOG: eth5 (bnxt_en): transmit queue 5 timed out", "nic_firmware", F),
    ("bnxt_en 0000:0c:00.0 eth5: Firmware fatal exception, will do", "nic_firmware", F),
    ("bnxt_en 0000:0c:00.0: Error (timeout: 5) msg {0x1 0x2} len:0", "nic_firmware", W),
    ("ice 0000:0c:00.0: No package. Entering Safe Mode", "nic_firmware", W),
    ("bond5: (slave eth5): link status definitely down, disabling slave", "nic_link", W),
    ("Memory failure: 0x5abc: recovery action for a page: Recovered", "mce", F),
    ("[Hardware Error]: Uncorrected, software restartable error.", "hardware_error", F),
    ("[Hardware Error]: Corrected error, no action required.", "hardware_error", W),
    ("[Hardware Error]: CPU:5 (19:1:1) MC5_STATUS[-|UE|MiscV]: 0x5", "hardware_error", F),
    ("mce: [Hardware Error]: CPU 5: Machine Check Exception: 5 Bank 5: 5", "hardware_error", F),
    ("mce: [Hardware Error]: CPU 5: Machine Check: 0 Bank 5: 5", "hardware_error", W),
    ("nvme: probe of 0000:0c:00.0 failed with error -5", "nvme", F),
    ("nvme5n1: I/O Cmd(0x2) @ LBA 5, 5 blocks, I/O Error (sct 0x3 / sc 0x71)", "nvme", W),
    ("md/raid1:md5: Disk failure on nvme5n1p5, disabling device.", "io_error", F),
    ("ata5.00: exception Emask 0x0 SAct 0x0 SErr 0x0 action 0x6 frozen", "io_error", W),
    ("BTRFS error (device sde5): bdev /dev/sde5 errs: wr 5, rd 0", "filesystem", F),
    ("NVRM: f_IMPL: RC watchdog: GPU is probably locked!  Notify Timeout", "nvidia_driver", F),
    ("NVRM: None of the NVIDIA devices were initialized.", "nvidia_driver", F),
    ("NVRM: installed in this system is not supported by the", "nvidia_driver", F),
    ("NVRM: f: unexpected WPR2 already up, cannot proceed", "nvidia_driver", F),
    ("amdgpu 0000:0c:00.0: amdgpu: RAS poison consumption, unmap queue", "amdgpu_ras", F),
    ("amdgpu 0000:0c:00.0: amdgpu: PSP load kdb failed!", "amdgpu_driver", F),
    ("amdgpu: The cp might be in an unrecoverable state due to x", "amdgpu_driver", F),
    ("amdgpu: Queue preemption failed for queue with doorbell_id: 5", "amdgpu_driver", F),
    (
        "amdgpu 0000:0c:00.0: amdgpu: ERROR: GPU over temperature range(SW CTF) detected!",
        "amdgpu_driver",
        F,
    ),
    (
        "amdgpu 0000:0c:00.0: amdgpu: [gfxhub0] no-retry page fault (src_id:0)",
        "amdgpu_driver",
        W,
    ),
    ("xe 0000:0c:00.0: [drm] GT0: Engine reset: engine_class=ccs", "intel_gpu_driver", W),
    ("pcieport 0000:0c:00.0: AER: device recovery failed", "pcie_link", F),
    ("vfio-pci 0000:0c:00.0: not ready 65535ms after FLR; giving up", "pcie_link", F),
    (
        "nvidia 0000:0c:00.0: Unable to change power state from D3cold to D0, device inaccessible",
        "pcie_link",
        F,
    ),
    ("pci 0000:0c:00.0: unknown header type 7f, ignoring device", "pcie_link", F),
    (
        "mlx5_core 0000:0c:00.0: mlx5_health_try_recover:5:(pid 5): health recovery flow aborted",
        "nic_firmware",
        F,
    ),
    ("mlx5_core 0000:0c:00.0 eth5: Error cqe on cqn 0x5, ci 0x1", "nic_firmware", W),
    (
        "bnxt_en 0000:0c:00.0 eth5: Chip temperature has gone above the critical threshold!",
        "nic_firmware",
        W,
    ),
    ("mlx4_core 0000:0c:00.0: Internal error detected:", "nic_firmware", F),
    ("ixgbe 0000:0c:00.0 eth5: Detected Tx Unit Hang", "nic_firmware", F),
    ("tg3 0000:0c:00.0 eth5: transmit timed out, resetting", "nic_firmware", F),
    ("BUG: kernel NULL pointer dereference, address: 0000000000000005", "kernel_bug", F),
    ("kernel BUG at mm/slub.c:5!", "kernel_bug", F),
    ("Unable to handle kernel paging request at virtual address 5", "kernel_bug", F),
    ("Oops: 0000 [#1] SMP NOPTI", "kernel_bug", F),
    ('irq 5: nobody cared (try booting with the "irqpoll" option)', "kernel_bug", W),
    (
        "mce: CPU5: Core temperature is above threshold, cpu clock is throttled (total events = 5)",
        "thermal",
        W,
    ),
    ("CPU5: Package temperature above threshold, cpu clock throttled", "thermal", W),
    ("thermal thermal_zone5: acpitz: critical temperature reached", "thermal", F),
    ("AMD-Vi: Completion-Wait loop timed out", "iommu_fault", W),
    ("DMAR: VT-d detected Invalidation Time-out Error: SID 5", "iommu_fault", W),
    ("nvme nvme5: Identify namespace failed (-5)", "nvme", W),
    ("blk_update_request: critical medium error, dev sde, sector 5", "io_error", F),
    ("sd 5:0:0:0: [sde] tag#5 Add. Sense: Unrecovered read error", "io_error", F),
    ("mpt3sas_cm5: fault_state(0x2622)!", "io_error", F),
    ("sd 5:0:0:0: [sde] tag#5 Sense Key : Medium Error [current]", "io_error", F),
    ("nfs: server 10.5.0.5 not responding, still trying", "filesystem", W),
    ("megaraid_sas 0000:0c:00.0: Found FW in FAULT state, will reset adapter", "io_error", F),
)


@pytest.mark.parametrize(("message", "category", "severity"), MORE_KINDS)
def test_more_kinds_of_events(message, category, severity):
    event = parse(f"[  100.000000] {message}\n").events[0]
    assert (event.category, event.severity) == (category, severity)


@pytest.mark.parametrize(
    "message",
    [
        "EDAC MC0: Giving out device to module i10nm_edac controller Intel_10nm Socket#0",
        "mlx5_core 0000:3c:00.0: 504.112 Gb/s available PCIe bandwidth (32.0 GT/s PCIe x16 link)",
        "nvidia-nvswitch0: open (major=510)",
        "nvidia-nvlink: Nvlink Core is being initialized, major device number 511",
        "mce: CPU supports 9 MCE banks",
        "RAS: Correctable Errors collector initialized.",
        "nvme nvme0: 64/0/0 default/read/poll queues",
        "habanalabs hl4: Successfully loaded firmware to device",
        "xe 0000:0c:00.0: [drm] Tile1: GT1: Using GuC firmware from xe/a.bin version 70.1.2",
        "i915 0000:0c:00.0: [drm] Finished loading DMC firmware i915/a.bin (v2.20)",
        "amdgpu 0000:0c:00.0: amdgpu: VRAM: 196592M 0x0000008000000000",
        "systemd[1]: Starting Out-of-band thing",
        "tpm_tis MSFT0101:00: probe with driver tpm_tis failed with error -1",
        "mlx5_core 0000:0c:00.0: Rate limit: 127 rates are supported, range: 0Mbps to 97656Mbps",
        "mlx5_core 0000:0c:00.0: wait_fw_init:1:(pid 5): Waiting for FW initialization",
        "mce: CPU5: Package temperature/speed normal",
        "BUGS: none here",
        "sd 5:0:0:0: [sde] tag#5 Sense Key : Unit Attention [current]",
        "nfs: server 10.5.0.5 OK",
        "tpm: Oops: no number",
        "mlx5_core 0000:0c:00.0: Port module event: module 0, Cable plugged",
    ],
)
def test_harmless_messages_are_no_events(message):
    log = parse(f"[  100.000000] {message}\n")
    assert log.lines == 1
    assert log.events == ()


def test_an_unknown_message_of_level_err_is_kept():
    event = parse("kern  :err   : [  1.0] something nobody knows\n").events[0]
    assert event.category == "unclassified"


@pytest.mark.parametrize("text", ["", "\n \n", "hello\nworld\n", "\x00\x00", "{}", "\xff\xfe\n"])
def test_no_log_is_no_evidence(text):
    with pytest.raises(NotUnderstoodError):
        parse(text)


def test_an_empty_journal_says_so():
    log = parse("-- No entries --\n-- cursor: s=1;i=2\n")
    assert log.events == ()
    assert log.lines == 0
    assert log.cursor == "s=1;i=2"


def test_the_beginning_of_the_boot_is_recognised():
    assert parse("[    0.000000] Linux version 6.8.0-45-generic\n[    1.0] x\n").from_boot
    assert not parse("[  500.000000] x\n").from_boot


def test_very_long_lines_are_counted():
    assert parse("[ 1.0] " + "a" * 5000 + "\n").too_long == 1


LOG = parse(
    f"[Sun Feb 23 16:00:00 2025] {XID}\n"
    f"2025-02-23T16:30:00+00:00 node01 kernel: {XID}\n"
    f"Feb 23 16:10:00 node01 kernel: {XID}\n"
    f"[  10.0] {XID}\n"
    f"4,100,20000000,-;{XID}\n"
    f"4,101,30000000,-;{XID}\n"
)


def lines(**window: object) -> list[int]:
    return [event.line for event in since(LOG, **window)]


def test_window_by_time_keeps_what_may_be_later():
    assert lines(moment=MOMENT) == [2, 3, 4, 5, 6]
    # In a zone two hours west of UTC, 16:00 local time is after 16:24 UTC.
    west = timezone(timedelta(hours=-2))
    assert lines(moment=MOMENT, zone=west) == [1, 2, 3, 4, 5, 6]


def test_window_by_uptime_and_by_sequence():
    assert lines(uptime_s=15) == [1, 2, 3, 5, 6]
    assert lines(sequence=100) == [1, 2, 3, 4, 6]
    assert lines() == [1, 2, 3, 4, 5, 6]


def test_catalogue_is_whole():
    xids, sxids = xid_catalogue(), sxid_catalogue()
    assert len(xids) == 172
    assert {48, 56, 57, 58, 62, 63, 64, 65, 68, 69, 73, 74, 79, 80, 81, 92, 119, 120} == {
        code for code, entry in xids.items() if entry.azure_gate
    }
    for entry in (*xids.values(), *sxids.values()):
        assert entry.name
        assert entry.meaning
        assert entry.source
        assert entry.checked_on == "2026-11-29"
        assert entry.severity is not Severity.UNKNOWN
    assert all(entry.action for entry in xids.values() if entry.verified)
    reset = {code for code, entry in xids.items() if entry.action in ("RESET_GPU", "RESTART_BM")}
    assert all(xids[code].severity is Severity.FATAL for code in reset)


def pretty(message: str) -> str:
    return (
        '{\n\t"_TRANSPORT" : "kernel",\n\t"PRIORITY" : "3",\n'
        f'\t"MESSAGE" : "{message}",\n\t"__REALTIME_TIMESTAMP" : "1744147628921412"\n}}\n'
    )


def test_pretty_journal_entries():
    log = parse(pretty("hello") + pretty("NVRM: Xid (PCI:0000:19:00): 79, GPU has fallen off."))
    (event,) = log.of("xid")
    assert (log.lines, event.line, event.level) == (2, 7, "err")
    assert event.time is not None
    cut = parse(pretty("hello") + pretty("NVRM: Xid (PCI:0000:19:00): 79, gone")[:-40])
    assert cut.lines > 1


@pytest.mark.parametrize(
    "front",
    [
        "[  +6.010643] ",
        "[Feb27 16:08] ",
        "[    5.123456 <    0.000012>] ",
        "[<    0.000012>] ",
        "[    5.123456][  T123] ",
    ],
)
def test_fronts_of_dmesg_that_tell_a_difference(front):
    log = parse(f"{front}NVRM: Xid (PCI:0000:19:00): 79, pid=7, name=x, gone\n")
    (event,) = log.events
    assert event.message.startswith("NVRM: Xid")
    assert event.time_text


def test_an_xid_of_a_mig_instance_is_read():
    message = "NVRM: Xid (PCI:0000:19:00 GPU-I:05): 94, pid=7, Contained: CE User Channel (0x9)."
    (event,) = parse(message + "\nNVRM: other\n").of("xid")
    assert event.xid is not None
    assert (event.xid.code, event.xid.pid, event.device) == (94, 7, "0000:19:00.0")


@pytest.mark.parametrize("said", ["name=python3, errorString X", "pid=12, name=python3"])
def test_the_process_of_an_xid(said):
    (event,) = parse(f"NVRM: Xid (PCI:0000:19:00): 109, {said}\nNVRM: other\n").of("xid")
    assert event.xid is not None
    assert event.xid.process == "python3"
