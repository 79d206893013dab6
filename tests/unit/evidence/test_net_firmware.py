"""Firmware tools of NVIDIA and AMD NICs: what is stored, what runs, what waits for a reset."""

from __future__ import annotations

import json

import pytest

from hfprov.errors import NotUnderstoodError
from hfprov.evidence import flint, mlxconfig, mlxfwmanager, mst, nicctl

FLINT = """\
Image type:            FS4
FW Version:            10.16.1200
FW Version(Running):   10.16.1020
FW Release Date:       7.11.2024
Product Version:       10.16.1200
Description:           UID                GuidsNumber
Base GUID:             e09d7303002dca74        16
PSID:                  MT_0000001244
Security Attributes:   secure-fw, dev
"""


def test_flashed_but_old_firmware_runs():
    firmware = flint.parse(FLINT)
    assert (firmware.stored_version, firmware.running_version) == ("10.16.1200", "10.16.1020")
    assert firmware.reset_pending is True
    assert firmware.security == ("secure-fw", "dev")


def test_connectx_3_prints_its_guids_in_a_table():
    text = (
        "Image type:            FS2\nFW Version:            2.42.5000\n"
        "FW Version(Running):   2.40.5032\nDevice ID:             4103\n"
        "Description:           Node             Port1            Port2            Sys image\n"
        "GUIDs:                 ffffffffffffffff ffffffffffffffff\n"
        "MACs:                                       e41d2d1f28c0     e41d2d1f28c1\n"
        "VSD:\nPSID:                  MT_1090111019\n"
    )
    firmware = flint.parse(text)
    assert (firmware.psid, firmware.reset_pending) == ("MT_1090111019", True)
    assert firmware.description is None


def test_an_excerpt_of_versions():
    text = "FW Version:             32.43.3608\nFW Version(Running):    32.43.3608\n"
    assert flint.parse(text).reset_pending is False


def test_a_whole_query_without_a_running_version_runs_what_is_stored():
    text = "".join(line for line in FLINT.splitlines(keepends=True) if "Running" not in line)
    assert flint.parse(text).reset_pending is False


def test_a_query_that_was_cut_off_does_not_say_what_runs():
    assert flint.parse(FLINT[: FLINT.index("FW Version(Running)")]).reset_pending is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-E- Cannot open Device: /dev/mst/x. No such file or directory\n",
        "Image type:  FS4\n",
        FLINT.replace("10.16.1200", "N/A", 1),
        FLINT.replace("Product Version:", "Product Version"),
    ],
)
def test_flint_refuses_what_is_no_query(text):
    with pytest.raises(NotUnderstoodError):
        flint.parse(text)


FWMANAGER = """\
Querying Mellanox devices firmware ...

Device #1:
----------

  Device Type:      ConnectX7
  Part Number:      MCX715105AS-WEAT_Ax
  PSID:             MT_0000001244
  PCI Device Name:  0000:0d:00.0
  Base MAC:         e09d730df5c4
  Versions:         Current        Available
     FW             28.43.1014     28.43.1014
     FW (Running)   28.42.1000     N/A
     PXE            3.7.0500       N/A

  Status:           Up to date
"""


def test_up_to_date_is_not_running():
    report = mlxfwmanager.parse(FWMANAGER)
    (device,) = report.devices
    assert device.status == "Up to date"
    assert (device.stored_version, device.running_version) == ("28.43.1014", "28.42.1000")
    assert report.reset_pending == (1,)


def test_an_update_waits_for_a_reset():
    text = FWMANAGER.replace("     FW (Running)   28.42.1000     N/A\n", "") + (
        "---------\nPerform FW update? [y/N]: y\nDevice #1: Updating FW ...\nDone\n\n"
        "Restart needed for updates to take effect.\n"
    )
    report = mlxfwmanager.parse(text)
    assert report.restart_needed
    assert report.reset_pending == (1,)


def test_a_failed_update_is_a_failure():
    text = FWMANAGER + "Device #1: Updating FW ...\n-E- Burning FW image failed: Unsupported FW\n"
    report = mlxfwmanager.parse(text)
    assert report.updated == ()
    assert report.failures == ("-E- Burning FW image failed: Unsupported FW",)


def test_an_image_that_does_not_match():
    text = FWMANAGER.replace("Up to date", "No matching image found")
    assert mlxfwmanager.parse(text).devices[0].status == "No matching image found"


def test_a_device_without_status_is_cut_off():
    for end in ("  Status:", "     FW  "):
        with pytest.raises(NotUnderstoodError, match="device #1 ends before"):
            mlxfwmanager.parse(FWMANAGER[: FWMANAGER.index(end)])


def test_a_reset_that_failed_did_not_load_the_firmware():
    text = (
        "The reset level for device, 0d:00.0 is:\n\n3: Driver restart and PCI reset\n"
        "-I- Sending Reset Command To Fw             -Done\n-I- Stopping Driver   -Failed\n"
        "-E- Failed to stop driver\n"
    )
    report = mlxfwmanager.parse(text)
    assert (report.loaded, report.level, report.device) == (False, 3, "0d:00.0")
    assert report.steps["Stopping Driver"] == "Failed"
    assert report.failures == ("-E- Failed to stop driver",)


@pytest.mark.parametrize("text", ["", "nothing\n", "Error: 3 failed\n"])
def test_mlxfwmanager_refuses_other_text(text):
    with pytest.raises(NotUnderstoodError):
        mlxfwmanager.parse(text)


CONFIG = """\

Device #1:
----------

Device type:        ConnectX7
Device:             0d:00.0

Configurations:                 Default         Current         Next Boot
*       NUM_OF_VFS              0               8               16
        SRIOV_EN                False(0)        True(1)         True(1)
        LINK_TYPE_P1            ETH(2)          ETH(2)          ETH(2)
The '*' shows parameters with next value different from default/current value.

Device #2:
----------

Device type:        ConnectX7
Device:             37:00.0

Configurations:                 Default         Current         Next Boot
        NUM_OF_VFS              0               0               0
"""


def test_mlxconfig_shows_what_waits_for_a_reset():
    first, second = mlxconfig.parse(CONFIG)
    assert first.settings["NUM_OF_VFS"].pending is True
    assert first.settings["NUM_OF_VFS"].marked
    assert first.settings["SRIOV_EN"].pending is False
    assert first.get("LINK_TYPE_P1") == "ETH(2)"
    assert first.get("ABSENT") is None
    assert second.device == "37:00.0"


def test_mlxconfig_excerpt_without_a_heading():
    (config,) = mlxconfig.parse("Device #1:\n-----------\n  SRIOV_EN      True(1)\n")
    assert config.get("SRIOV_EN") == "True(1)"
    assert not config.whole


def test_mlxconfig_keeps_an_error():
    (config,) = mlxconfig.parse("-E- Failed to open device: /dev/mst/x. Cannot open Device\n")
    assert config.settings == {}
    assert config.messages[0].startswith("-E-")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Device #1:\n----------\nDevice: 0d:00.0\n",
        CONFIG.replace("8               16", "8"),
        CONFIG.replace("Next Boot", "Next"),
        "Configurations:   Next Boot\n        1NUM  3\n",
    ],
)
def test_mlxconfig_refuses_half_a_table(text):
    with pytest.raises(NotUnderstoodError):
        mlxconfig.parse(text)


def test_nicctl_keeps_both_interfaces_of_a_merged_object():
    text = (
        '\n{"nic":[{"id":"n","lif":[{"spec":{"id":"a"},"queue_pair":"",'
        '"spec":{"id":"b"},"queue_pair":""}]}]}'
    )
    (nic,) = nicctl.parse(text)
    assert [interface.id for interface in nic.interfaces] == ["a", "b"]


def test_nicctl_keeps_properties_of_other_commands():
    (nic,) = nicctl.parse('{"nic":[{"id":"n","card":{"fw":"1.110.0","temps":["40","41"]}}]}')
    assert nic.properties == {"card.fw": "1.110.0", "card.temps.0": "40", "card.temps.1": "41"}


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"nic": []},
        {"nic": [{}]},
        {"nic": "x"},
        {"nic": [{"id": "n", "port": [{}]}]},
        {"nic": [{"id": "n", "port": [{"spec": {"id": "p", "port_speed": "fast"}}]}]},
        {"nic": [{"id": "n", "port": [{"spec": {"id": "p"}, "statistics": {"rx_bps": "3 foo"}}]}]},
        {"nic": [{"id": "n", "lif": [{"spec": {"id": "p"}, "statistics": {"rx": "many"}}]}]},
        {"nic": [{"id": "n", "lif": [{"spec": {"id": "p", "rdma_mtu": "4K"}}]}]},
    ],
)
def test_nicctl_refuses_other_documents(document):
    with pytest.raises(NotUnderstoodError):
        nicctl.parse(json.dumps(document))


def test_mst_that_was_not_started_lists_bare_addresses():
    head = "MST modules:\n------------\n    MST PCI module is not loaded\n\nPCI Devices:\n---\n\n"
    status = mst.parse(head + "0d:00.0\n0000:5d:00.1\n")
    assert [one.pci_address for one in status.devices] == ["0d:00.0", "0000:5d:00.1"]
    assert status.modules == {"MST PCI": False}
    none = mst.parse(head + "\tNo MST devices were found or MST modules are not loaded.\n")
    assert none.devices == ()
