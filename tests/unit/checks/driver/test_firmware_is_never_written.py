"""Field case A20: firmware that was written and does not run waits for a reset, not a burn."""

from __future__ import annotations

import re
from pathlib import Path

from hfprov.catalogue.explanations import explanations
from hfprov.checks.nic_firmware import judge_firmware
from hfprov.judge import find_check
from hfprov.verdict import Impact, Outcome

ROOT = Path(__file__).parents[4]
WRITERS = re.compile(
    r"(mstflint|flint)\b[^\n]*\s(b|burn)\b|mlxfwmanager\b[^\n]*(-u\b|--update)"
    r"|devlink[^\n]*\bflash\b|nvflash\b|amdvbflash\b|fwupdmgr\s+(update|install)|\bflashrom\b"
    r"|SimpleUpdate|ethtool\s+(-f|--flash)\b|hl-fw-loader\b|npu-firmware"
)


def test_written_and_not_running_is_a_pending_reset_and_no_second_burn():
    finding = judge_firmware("eth0", {"fw.version": "16.26.4012"}, {"fw.version": "16.27.2008"})
    assert finding.outcome is Outcome.WARN
    assert (finding.observed, finding.expected) == (
        "fw.version 16.26.4012",
        "fw.version 16.27.2008",
    )
    assert "waits for a reset" in finding.reason
    assert any("second time" in step for step in explanations()["nic_firmware.pending"].remedy)
    assert judge_firmware("eth0", {"fw": "1"}, {"fw": "1"}).outcome is Outcome.PASS


def test_no_role_and_no_command_writes_firmware():
    files = [
        path
        for folder in ("roles", "playbooks", "hfprov")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".yml", ".sh", ".py", ".j2") and "explain" not in path.parts
    ]
    assert len(files) > 100
    found = {
        str(path.relative_to(ROOT)): match[0]
        for path in files
        if (match := WRITERS.search(path.read_text(encoding="utf-8")))
    }
    assert found == {}


def test_the_search_finds_what_would_write():
    for line in (
        "mstflint -d 3b:00.0 -i fw.bin burn",
        "devlink dev flash pci/0000:3b:00.0 file fw.bin",
        "mlxfwmanager --update -y",
        "ethtool --flash eth0 fw.bin",
    ):
        assert WRITERS.search(line), line


def test_repairs_of_firmware_are_nobodys():
    for name in ("accelerator.firmware_same", "accelerator.firmware_state", "driver.firmware"):
        check = find_check(name)
        assert check is not None
        assert check.impact is Impact.MANUAL
