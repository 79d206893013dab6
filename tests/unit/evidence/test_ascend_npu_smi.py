"""npu-smi: chips that are not well, boards that do not fit, outputs that are cut off."""

from __future__ import annotations

from pathlib import Path

import pytest

from hfprov.errors import NotUnderstoodError
from hfprov.evidence import npu_smi
from hfprov.evidence.failures import FailureKind, ToolFailure
from hfprov.evidence.npu_smi_details import Compatibility, Health

SAMPLES = Path(__file__).parents[2] / "data" / "captures_other_samples"
INFO = (SAMPLES / "npu-smi__info.txt").read_text()
BORDER = INFO.splitlines(keepends=True)[2]
BOARD = (SAMPLES / "npu-smi__board.txt").read_text()


def test_two_chips_of_one_npu_and_an_alarm():
    facts = npu_smi.parse(INFO)
    good, bad = facts.chips
    assert (good.npu, good.chip, good.health) == (0, 0, Health.OK)
    assert (bad.npu, bad.chip, bad.health, bad.health_text) == (0, 1, Health.ALARM, "Alarm")
    assert (bad.power_w, bad.temperature_c, bad.aicore_percent, bad.hbm_total_mib) == (None,) * 4
    assert [(error.field, error.text) for error in bad.errors] == [("aicore", "ERR")]
    assert facts.processes == ()
    assert facts.complete


@pytest.mark.parametrize(
    ("word", "health"),
    [("OK", Health.OK), ("Warning", Health.WARNING), ("Critical", Health.CRITICAL),
     ("Offline", Health.UNKNOWN), ("", Health.UNKNOWN)],
)  # fmt: skip
def test_health_words(word, health):
    text = INFO.replace("| Alarm         |", f"| {word:13} |")
    assert npu_smi.parse(text).chips[1].health is health


def test_no_prefix_of_a_node_with_an_alarm_looks_whole_and_well():
    lines = INFO.splitlines(keepends=True)
    whole_and_well = []
    for end in range(len(lines) + 1):
        try:
            facts = npu_smi.parse("".join(lines[:end]))
        except NotUnderstoodError:
            continue
        if facts.complete and all(chip.health is Health.OK for chip in facts.chips):
            whole_and_well.append(end)
    assert whole_and_well == []


def test_an_npu_that_the_process_table_does_not_name_leaves_processes_unknown():
    idle = "| No running processes found in NPU 0 "
    assert idle in INFO
    other = npu_smi.parse(INFO.replace(idle, "| No running processes found in NPU 1 "))
    assert other.processes is None
    assert not other.complete
    (line,) = [line for line in INFO.splitlines() if line.startswith(idle)]
    row = "| 0       1                 | 4711          | python3                  | 512 |"
    busy = npu_smi.parse(INFO.replace(line, row))
    assert [(process.chip, process.pid) for process in busy.processes] == [(1, 4711)]


def test_an_old_release_without_a_process_table_is_whole():
    table = INFO[: INFO.index("| NPU     Chip ")].removesuffix(BORDER)
    assert not npu_smi.parse(table).complete
    assert npu_smi.parse(table.replace("24.1.0 ", "21.0.2 ")).complete


def test_a_chip_row_without_its_second_row_is_refused():
    cut = INFO[: INFO.index("| 1     1 ")]
    with pytest.raises(NotUnderstoodError, match="cut off"):
        npu_smi.parse(cut)


def test_boards_and_their_compatibility():
    first, second = npu_smi.parse(BOARD).details
    assert (first.npu, first.compatibility, first.bdf) == (0, Compatibility.OK, "0000:C1:00.0")
    assert (second.npu, second.compatibility) == (1, Compatibility.NOK)
    assert second.firmware_version == "6.4.0.4.220"
    assert second.values["Product Name"] == "IT21DMDA"


def test_an_unknown_compatibility_is_an_error_and_an_absent_one_is_none():
    odd = npu_smi.parse(BOARD.replace(": NOK", ": MAYBE")).details[1]
    assert odd.compatibility is Compatibility.UNKNOWN
    assert odd.errors[0].text == "MAYBE"
    cut = npu_smi.parse(BOARD[: BOARD.index("\tCompatibility                  : NOK")])
    assert cut.details[1].compatibility is None


def test_ecc_counters():
    text = (
        "\tNPU ID                         : 3\n\tChip Count                     : 1\n\n"
        "\tHBM Single Bit Error Count     : 2\n\tHBM Double Bit Error Count     : 1\n"
        "\tHBM Double Bit Isolated Pages Count : 4\n\tChip ID                        : 0\n"
    )
    (details,) = npu_smi.parse(text).details
    assert details.npu == 3
    assert (details.hbm_single_bit_errors, details.hbm_double_bit_errors) == (2, 1)
    assert details.hbm_isolated_pages == 4


def test_memory_of_a_chip_without_its_npu():
    text = "\tDDR Capacity(MB)               : 0\n\tHBM Capacity(MB)               : 32768\n"
    (details,) = npu_smi.parse(text).details
    assert (details.npu, details.values["HBM Capacity(MB)"]) == (None, "32768")


def test_a_list_with_fewer_npus_than_its_total_is_not_complete():
    text = (
        "\tTotal Count                    : 2\n\n"
        "\tNPU ID                         : 4\n\tChip Count                     : 1\n\n"
        "\tNPU ID                         : 5\n\tChip Count                     : 1\n"
    )
    assert npu_smi.parse(text).complete
    assert not npu_smi.parse(text[: text.index("\tNPU ID                         : 5")]).complete


@pytest.mark.parametrize(
    ("header", "row", "logic_id"),
    [
        (
            "NPU ID   Chip ID   Chip Logic ID   Chip Phy-ID  Chip Name",
            "5        1         11              11           Ascend910",
            11,
        ),
        (
            "NPU ID   Slot ID   Chip ID   Chip Phy-ID  Chip Name",
            "5        0         1         11           Ascend910",
            None,
        ),
    ],
)
def test_chip_names_are_read_by_the_names_of_columns(header, row, logic_id):
    (name,) = npu_smi.parse(f"\t{header}\n\t{row}\n").names
    assert (name.npu, name.chip, name.logic_id, name.name) == (5, 1, logic_id, "Ascend910")
    with pytest.raises(NotUnderstoodError):
        npu_smi.parse(f"\t{header}\n\t{row[:30]}\n")


def test_chip_names():
    facts = npu_smi.parse((SAMPLES / "npu-smi__names.txt").read_text())
    assert [(row.npu, row.chip, row.logic_id, row.name) for row in facts.names] == [
        (0, 0, 0, "Ascend 910B3"), (0, 1, None, "Mcu"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (("DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)\n"
         "dcmi module initialize failed. ret is -8005"), FailureKind.DRIVER_NOT_LOADED),
        ("npu-smi: command not found", FailureKind.TOOL_MISSING),
        ("Error: the card does not exist", FailureKind.NO_DEVICES),
        ("This device does not support querying ecc.", FailureKind.NOT_SUPPORTED),
        (("npu-smi: error while loading shared libraries: libdrvdsmi_host.so: cannot open "
         "shared object file"), FailureKind.TOOL_CRASHED),
    ],
)  # fmt: skip
def test_failures_are_typed(said, kind):
    failure = npu_smi.parse(said)
    assert isinstance(failure, ToolFailure)
    assert failure.kind is kind


def test_a_table_without_its_version_is_not_whole():
    line = f"+{'-' * 27}+{'-' * 15}+{'-' * 52}+\n"
    rows = (
        ("NPU   Name", "Health", "Power(W)    Temp(C)           Hugepages-Usage(page)"),
        ("Chip  Phy-ID", "Bus-Id", "AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)"),
        ("5     Ascend910", "Alarm", "55.5        55                0    / 0"),
        ("0     5", "0000:5D:00.0", "5           0    / 0          5555 / 65536"),
    )
    table = [f"| {a:26}| {b:14}| {c:51}|\n" for a, b, c in rows]
    text = line + "".join(table[:2]) + line.replace("-", "=") + "".join(table[2:]) + line
    facts = npu_smi.parse(text)
    assert [(chip.npu, chip.health_text, chip.hbm_used_mib) for chip in facts.chips] == [
        (5, "Alarm", 5555)
    ]
    assert (facts.version, facts.complete) == (None, False)
