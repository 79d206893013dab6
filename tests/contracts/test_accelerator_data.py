"""What the role 'accelerator' knows of machines and packages is what the catalogue has."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from hfprov.catalogue.accelerators import accelerators
from hfprov.catalogue.drivers import drivers, module_flavour
from hfprov.catalogue.skus import skus
from hfprov.evidence.accelerators.model import Vendor

VARS = Path(__file__).parents[2] / "roles/accelerator/vars"
FILES = {
    "debian 12": "Debian_12",
    "debian 13": "Debian_13",
    "ubuntu 22.04": "Ubuntu_22",
    "ubuntu 24.04": "Ubuntu_24",
    "el 9": "RedHat_9",
}
KINDS = ("nvidia_proprietary", "nvidia_open", "fabric_manager", "amd", "gaudi")


def load(name):
    return yaml.safe_load((VARS / f"{name}.yml").read_text(encoding="utf-8"))


def test_machines():
    known = {}
    for sku in skus().skus:
        model = accelerators().by_id(sku.accelerator)
        known[sku.id] = {
            "vendor": model.vendor,
            "module": module_flavour(model.id),
            "fabric_manager": sku.fabric_manager,
        }
    assert load("skus")["__accelerator_skus"] == known


def test_packages_of_vendors():
    known = {
        name: {
            part: list(getattr(one, part))
            for part in ("modules", "builds", "held", "others", "same")
        }
        for name, one in drivers().vendors.items()
    }
    assert load("main")["__accelerator_vendors"] == known
    assert set(known) < {vendor.value for vendor in Vendor}


@pytest.mark.parametrize("row", drivers().distributions, ids=lambda row: row.os)
def test_packages_of_distributions(row):
    names = load(FILES[row.os])["__accelerator_names"]
    assert names == {kind: list(getattr(row, kind)) for kind in KINDS}


@pytest.mark.parametrize("row", drivers().distributions, ids=lambda row: row.os)
def test_packages_that_are_installed_are_held_too(row):
    """A package that is installed and not held is what an upgrade would replace."""
    for kind in KINDS:
        vendor = drivers().vendors["nvidia" if kind not in drivers().vendors else kind]
        names = [name.replace("{branch}", "580") for name in getattr(row, kind)]
        assert names != []
        assert [name for name in names if not vendor.owns(name)] == []
        if kind != "amd":
            own = {"nvidia-persistenced"}
            assert {name for name in names if not vendor.moves_with_driver(name)} <= own


def test_names_that_move_with_the_driver_belong_to_it():
    for vendor in drivers().vendors.values():
        assert [one for one in vendor.same if not vendor.owns(one)] == []
        assert [one for one in vendor.others if not one.startswith(vendor.held)] == []
