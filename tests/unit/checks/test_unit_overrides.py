"""Drop-ins that keep a unit from starting are seen wherever they are, for each unit that counts."""

from __future__ import annotations

import pytest

from hfprov.evidence.systemd import parse_settings
from hfprov.evidence.unit_overrides import deciding
from hfprov.verdict import Outcome

FAIL = Outcome.FAIL
CONDITION = "[Unit]\nConditionPathExists=/nonexistent\n"
SYSTEM = "/etc/systemd/system"


def decided(unit, **files):
    found = {path: parse_settings(text, path)[0] for path, text in files.items()}
    return [one.statement for one in deciding(found, unit)]


@pytest.mark.parametrize(
    ("path", "applies"),
    [
        (f"{SYSTEM}/hfprov-firewall.service.d/a.conf", True),
        (f"{SYSTEM}/hfprov-.service.d/a.conf", True),
        ("/run/systemd/system/service.d/a.conf", True),
        (f"{SYSTEM}/chrony.service.d/a.conf", False),
        (f"{SYSTEM}/timer.d/a.conf", False),
    ],
)
def test_folders_of_a_unit(path, applies):
    found = decided("hfprov-firewall.service", **{path: CONDITION})
    assert found == (["[Unit] ConditionPathExists=/nonexistent"] if applies else [])


@pytest.mark.parametrize(
    ("text", "decides"),
    [
        ("[Service]\nExecStart=\nExecStart=/bin/true\n", ["[Service] ExecStart=/bin/true"]),
        ("[Service]\nExecStart=\n", ["[Service] ExecStart="]),
        ("[Unit]\nAssertHost=other\n", ["[Unit] AssertHost=other"]),
        ("[Timer]\nOnCalendar=\n", ["[Timer] OnCalendar="]),
        ("[Unit]\nConditionCapability=\n", []),
        ("[Service]\nLimitNOFILE=1024\nNice=5\n", []),
    ],
)
def test_what_decides(text, decides):
    assert decided("chrony.service", **{f"{SYSTEM}/chrony.service.d/a.conf": text}) == decides


def test_file_of_the_same_name_in_a_higher_place_hides_it():
    below = {"/usr/lib/systemd/system/chrony.service.d/a.conf": CONDITION}
    assert decided("chrony.service", **{f"{SYSTEM}/chrony.service.d/a.conf": ""}, **below) == []
    assert decided("chrony.service", **{f"{SYSTEM}/chrony.service.d/b.conf": ""}, **below) != []


@pytest.mark.parametrize(
    ("unit", "check_id"),
    [("chrony.service", "time.daemon"), ("systemd-networkd.service", "mtu.rivals")],
)
def test_unit_that_would_not_start_is_not_good(networkd, unit, check_id):
    path = f"{SYSTEM}/{unit}.d/site.conf"
    networkd.add(f"glob {SYSTEM}/*.service.d/*.conf", path, CONDITION)
    assert networkd.bad(check_id) == {f"{unit} {path}:2": FAIL}


def test_link_to_nowhere_hides(networkd):
    below = "/usr/lib/systemd/system"
    networkd.add(f"glob {below}/*.service.d/*.conf", f"{below}/chrony.service.d/a.conf", CONDITION)
    assert networkd.bad("time.daemon") != {}
    path = f"{SYSTEM}/chrony.service.d/a.conf"
    networkd.add(f"glob {SYSTEM}/*.service.d/*.conf", path, "", type="other", link="/dev/null")
    assert networkd.bad("time.daemon") == {}


@pytest.mark.parametrize(
    ("unit", "check_id"),
    [("chrony.service", "time.daemon"), ("systemd-networkd.service", "mtu.rivals")],
)
def test_copy_of_a_whole_unit_is_not_the_package_s(networkd, unit, check_id):
    networkd.add(f"list {SYSTEM}/*.service", f"{SYSTEM}/{unit}", "")
    assert networkd.bad(check_id) == {f"{unit} {SYSTEM}/{unit}": FAIL}


@pytest.mark.parametrize(
    "change",
    [
        {"link": "/usr/lib/systemd/system/chrony.service"},
        {"type": "other", "link": "/dev/null"},
    ],
    ids=["alias", "mask"],
)
def test_alias_and_mask_are_no_copies(networkd, change):
    networkd.add(f"list {SYSTEM}/*.service", f"{SYSTEM}/chrony.service", "", **change)
    assert networkd.bad("time.daemon") == {}


def test_unit_linked_from_elsewhere_is_not_the_package_s(networkd):
    path = f"{SYSTEM}/chrony.service"
    networkd.add(f"list {SYSTEM}/*.service", path, "", link="/srv/chrony.service")
    assert networkd.bad("time.daemon") == {f"chrony.service {path}": FAIL}
