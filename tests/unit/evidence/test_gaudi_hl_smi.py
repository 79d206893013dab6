"""hl-smi: tables, -q, CSV and ports; what is cut off or broken stays visible."""

from __future__ import annotations

from pathlib import Path

import pytest

from hfprov.errors import NotUnderstoodError
from hfprov.evidence import hl_smi
from hfprov.evidence.failures import FailureKind

SAMPLES = Path(__file__).parents[2] / "data" / "captures_other_samples"
TABLE = (SAMPLES / "hl-smi__table.txt").read_text()
QUERY = (SAMPLES / "hl-smi__query.txt").read_text()


def test_table_of_gaudi_3_with_an_aip_that_is_lost():
    facts = hl_smi.parse(TABLE)
    assert facts.version == "hl-1.19.0-fw-57.2.2.0"
    assert facts.nic_driver_version == "1.19.0-e4fe12d"
    good, bad = facts.aips
    assert (good.name, good.power_w, good.power_cap_w) == ("HL-325L", 236, 900)
    assert (good.memory_used_mib, good.memory_total_mib) == (672, 131072)
    assert (bad.temperature_c, bad.memory_total_mib, bad.uncorrectable_ecc) == (None, None, 2)
    assert bad.errors[0].text == "ERR"
    assert [(each.pid, each.name) for each in facts.processes] == [(4711, "python3 train.py")]
    assert facts.complete


def test_no_prefix_of_the_table_looks_whole():
    lines = TABLE.splitlines(keepends=True)
    for end in range(len(lines) - 1):
        try:
            facts = hl_smi.parse("".join(lines[:end]))
        except NotUnderstoodError:
            continue
        assert not facts.complete, f"the first {end} lines look whole"


def test_query_finds_the_link_that_is_slow_and_the_old_firmware():
    facts = hl_smi.parse(QUERY)
    first, second = facts.aips
    assert facts.driver_version == "1.19.0-f8e1b4a"
    assert (first.pcie_generation, first.pcie_width) == ("Gen5", "16x")
    assert (second.pcie_generation, second.pcie_width) == ("Gen4", "8x")
    assert second.pcie_max_width == "16x"
    assert (second.module_id, second.serial, second.bdf) == (1, "AN37000002", "0000:34:00.0")
    assert "1.18.0" in second.firmware_version
    assert second.memory_total_mib == 131072
    assert facts.complete


def test_query_with_fewer_aips_than_it_announces_is_incomplete():
    assert not hl_smi.parse(QUERY[: QUERY.index("[1] AIP")]).complete
    assert not hl_smi.parse(
        QUERY[: QUERY.index("        Temperature", QUERY.index("[1] AIP"))]
    ).complete


def test_csv_with_its_header():
    facts = hl_smi.parse((SAMPLES / "hl-smi__query.csv").read_text())
    first, second = facts.aips
    assert (first.index, first.module_id, first.power_w) == (0, 3, 236)
    assert second.temperature_c is None
    assert second.errors[0].text == "ERR"


def test_csv_without_its_header_is_refused():
    with pytest.raises(NotUnderstoodError):
        hl_smi.parse("0, 3, 0000:33:00.0, 672 MiB\n1, 1, 0000:34:00.0, 672 MiB\n")


def test_ports():
    facts = hl_smi.parse((SAMPLES / "hl-smi__ports.txt").read_text())
    assert [(port.number, port.up) for port in facts.ports] == [(0, True), (1, False), (22, True)]


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("habanalabs driver is not loaded or no AIPs available, aborting...",
         FailureKind.DRIVER_NOT_LOADED),
        ("No devices were found", FailureKind.NO_DEVICES),
        ("sh: 1: hl-smi: not found", FailureKind.TOOL_MISSING),
    ],
)  # fmt: skip
def test_failures_are_typed(said, kind):
    assert hl_smi.parse(said).kind is kind
