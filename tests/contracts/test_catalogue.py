"""The catalogue's files: every row has a source that exists, and means one thing."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from hfprov.catalogue.accelerators import Accelerators, accelerators
from hfprov.catalogue.bandwidths import bandwidth_for
from hfprov.catalogue.compatibility import Installed, Row, Status, compatibility, matches
from hfprov.catalogue.explanations import explanations
from hfprov.catalogue.profiles import profiles
from hfprov.catalogue.skus import Sku, find_sku, skus
from hfprov.catalogue.versions import in_range, version_key
from hfprov.checks.registry import all_checks
from hfprov.errors import NotUnderstoodError
from hfprov.evidence.accelerators.model import Vendor

TODAY = datetime.now(UTC).date()
MODELS = accelerators().accelerators
ROWS = compatibility().rows


@pytest.mark.parametrize("model", MODELS, ids=lambda one: one.id)
def test_a_model_has_a_vendor_and_a_source(model):
    assert model.vendor in set(Vendor)
    assert model.source in accelerators().sources
    assert model.checked_on <= TODAY
    assert all(pci.split(":", 1)[0] == MODELS_PCI[model.vendor] for pci in model.pci)


MODELS_PCI = {"nvidia": "10de", "amd": "1002", "ascend": "19e5", "gaudi": "1da3", "intel": "8086"}


WELL_KNOWN = [
    "v100-sxm2",
    "p100-pcie",
    "t4",
    "a10",
    "a100-sxm-40gb",
    "a100-sxm-80gb",
    "a100-pcie-80gb",
    "a30",
    "a40",
    "l4",
    "l40",
    "l40s",
    "h100-sxm",
    "h100-pcie",
    "h100-nvl",
    "h200-sxm",
    "b200",
    "gb200",
    "mi210",
    "mi250x",
    "mi300x",
    "mi308x",
    "mi325x",
    "ascend-910b",
    "ascend-310p",
    "gaudi2",
    "gaudi3",
    "intel-max-1550",
    "intel-arc-pro-b60",
]


@pytest.mark.parametrize("name", WELL_KNOWN)
def test_well_known_models_are_there(name):
    assert accelerators().by_id(name) is not None


@pytest.mark.parametrize("sku", skus().skus, ids=lambda one: one.id)
def test_a_sku_is_made_of_something_known(sku):
    assert sku.source in skus().sources
    assert sku.checked_on <= TODAY
    assert find_sku(sku.id) is sku


def test_names_of_rows_are_unique():
    for rows in (MODELS, skus().skus, ROWS):
        ids = [row.id for row in rows]
        assert len(ids) == len(set(ids))


@pytest.mark.parametrize("row", ROWS, ids=lambda one: one.id)
def test_a_row_of_the_matrix_can_be_read(row):
    assert row.source in compatibility().sources
    assert row.checked_on <= TODAY
    others = {"driver": "580.95.05"}
    for key, wanted in (*row.when.items(), *row.require.items()):
        if key in ("driver", "kernel", "cuda", "fabric_manager"):
            assert in_range("580.95.05", str(wanted), others) in (True, False)
        if key == "accelerator":
            assert all(accelerators().by_id(one) is not None for one in wanted)
    assert row.status is Status.FORBIDDEN or row.about != "driver" or "driver" in row.when


def test_a_mistake_in_a_row_is_refused():
    row = ROWS[0].model_dump()
    with pytest.raises(ValidationError, match="unknown condition"):
        Row.model_validate({**row, "when": {"vendr": "nvidia"}})
    with pytest.raises(ValidationError, match="is no row"):
        Sku.model_validate({**skus().skus[0].model_dump(), "accelerator": "h1000"})
    document = accelerators().model_dump()
    twice = {**document["accelerators"][0], "id": "copy"}
    with pytest.raises(ValidationError, match="is 'p100-pcie' and 'copy'"):
        Accelerators.model_validate(
            {**document, "accelerators": [*document["accelerators"], twice]}
        )


def installed(driver: str, **changes: object) -> Installed:
    words = {"vendor": "nvidia", "os": "ubuntu 24.04", "kernel_flavour": "6.8.0-60-generic"}
    versions = {"driver": driver, "kernel": "6.8.0-60-generic", "cuda": "", "fabric_manager": ""}
    return Installed(**{"versions": versions, "words": words, **changes})


@pytest.mark.parametrize(
    ("driver", "accelerator", "ids"),
    [
        ("580.95.05", "h100-sxm", ["nvidia-r580"]),
        ("590.48.01", "h100-sxm", ["nvidia-r590"]),
        (
            "590.48.01",
            "v100-sxm2",
            ["nvidia-r590", "nvidia-volta-after-580", "nvidia-before-turing-module"],
        ),
        ("999.1", "h100-sxm", []),
        ("", "h100-sxm", []),
    ],
)
def test_rows_apply_by_number_and_by_model(driver, accelerator, ids):
    found = matches(compatibility(), installed(driver, accelerators=frozenset({accelerator})))
    assert [one.row.id for one in found] == ids


def test_a_requirement_that_does_not_hold_or_is_not_known_is_named():
    blackwell = {"accelerators": frozenset({"b200"})}
    closed = installed("580.95.05", open_module=False, **blackwell)
    [match] = [
        one for one in matches(compatibility(), closed) if one.row.id.endswith("blackwell-driver")
    ]
    assert match.violated == ("open_module True",)
    nobody = installed("580.95.05", **blackwell)
    [match] = [
        one for one in matches(compatibility(), nobody) if one.row.id.endswith("blackwell-driver")
    ]
    assert (match.violated, match.open) == ((), ("open_module True",))


@pytest.mark.parametrize(
    ("version", "wanted", "holds"),
    [
        ("570.9", ">=570.133.20", False),
        ("570.133.20", ">=570.133.20", True),
        ("1.10.0", ">=1.9", True),
        ("535.0", "==535", True),
        ("6.8.0-60-generic", ">=6.8,<6.9", True),
        ("6.11.0", "<6.9", False),
    ],
)
def test_versions_compare_as_numbers(version, wanted, holds):
    assert in_range(version, wanted) is holds


def test_what_is_no_version_or_no_range_is_said():
    with pytest.raises(NotUnderstoodError):
        version_key("N/A")
    with pytest.raises(ValueError, match="not a condition"):
        in_range("1.0", "about 1")
    with pytest.raises(ValueError, match="not known"):
        in_range("1.0", "==driver")


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=6))
def test_a_version_equals_itself_and_is_less_than_the_next(parts):
    text = ".".join(map(str, parts))
    greater = ".".join(map(str, [*parts[:-1], parts[-1] + 1]))
    assert in_range(text, f"=={text}")
    assert in_range(greater, f">{text}")


def test_every_check_is_explained():
    assert [one.id for one in all_checks() if one.id not in explanations()] == []


def test_gates_of_profiles_are_those_of_the_catalogue_of_bandwidths():
    """One machine must not be good enough to measure and too slow to certify."""
    compared = 0
    for profile in profiles().values():
        for wanted in profile.measurements:
            for sku in skus().skus:
                gate, row = wanted.gate_for(sku.id), bandwidth_for(wanted.test, sku.id)
                if gate is not None and row is not None:
                    compared += 1
                    assert gate.at_least == row.gate, (wanted.test, sku.id)
    assert compared > 5
