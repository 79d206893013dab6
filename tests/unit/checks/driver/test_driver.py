"""The driver's packages, holds and what runs: each way in which they go wrong is found by name."""

from __future__ import annotations

import json

import pytest

from hfprov.catalogue.drivers import drivers, module_flavour
from hfprov.checks.driver import judge_loaded
from hfprov.evidence.driver_node import plain_version
from hfprov.judge import find_check
from hfprov.verdict import Impact, NotApplicable, Outcome

FAIL, UNKNOWN, PASS = Outcome.FAIL, Outcome.UNKNOWN, Outcome.PASS
PACKAGED = ("driver.files", "driver.packages", "driver.hold", "driver.updates")
DPKG = "run dpkg-query -W"
PIN = "/etc/apt/preferences.d/90-hfprov-accelerator.pref"
BANS = "/etc/modprobe.d/hfprov-accelerator.conf"
MISMATCH = (
    "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.183\n"
)
ALL = (
    *("driver.vendor", "driver.loaded", "driver.installer", "driver.firmware"),
    *(
        "driver.target_kernel",
        "driver.nouveau",
        "driver.initramfs",
        "driver.units",
        "driver.gpudirect",
    ),
    *PACKAGED,
)


@pytest.mark.parametrize("check_id", ALL)
def test_a_node_at_its_baseline_has_nothing_bad(node, check_id):
    assert node.outcomes(check_id) == {}


@pytest.mark.parametrize("check_id", ["driver.vendor", *PACKAGED, "driver.units"])
def test_a_node_at_its_baseline_passes(node, check_id):
    assert PASS in {one.outcome for one in node.findings(check_id)}


# Who is declared


def test_a_node_that_nobody_declared_cannot_pass(node):
    node.values["node_sku"] = ""
    finding = node.only("driver.vendor")
    assert finding.outcome is UNKNOWN
    assert "node_sku" in finding.reason
    others = {one.outcome for check in ALL[1:] for one in node.findings(check)}
    assert PASS not in others


def test_a_machine_that_the_catalogue_does_not_have_is_unknown(node):
    node.values["node_sku"] = "hgx-h100-9"
    assert "hgx-h100-9" in node.only("driver.vendor").reason
    assert node.outcomes("driver.vendor") == {"": UNKNOWN}


def test_a_machine_of_ones_own_is_declared_by_its_vendor(node):
    node.values |= {"node_sku": "", "accelerator_vendor": "nvidia"}
    assert node.only("driver.vendor").outcome is PASS
    assert node.outcomes("driver.packages") == {}


def test_a_vendor_that_contradicts_the_machine_fails(node):
    node.values["accelerator_vendor"] = "amd"
    assert node.outcomes("driver.vendor") == {"": FAIL}
    node.values["accelerator_vendor"] = "none"
    assert node.outcomes("driver.vendor") == {"": FAIL}


def test_a_node_without_accelerators_needs_no_driver_and_no_file_of_the_role(node):
    node.values["node_sku"] = "none"
    assert node.only("driver.vendor").not_applicable is NotApplicable.NO_SUCH_HARDWARE
    assert set(node.outcomes("driver.files")) >= {PIN, BANS}
    drop_in = "/etc/systemd/system/nvidia-persistenced.service.d/90-hfprov-accelerator.conf"
    assert node.outcomes("driver.units") == {drop_in: FAIL}
    for path in (PIN, BANS, "/etc/apt/apt.conf.d/91hfprov-accelerator", drop_in,
                 "/etc/modules-load.d/hfprov-accelerator.conf"):  # fmt: skip
        node.put(f"file {path}", status="absent", text="")
    assert node.only("driver.files").not_applicable is NotApplicable.NO_SUCH_HARDWARE


def test_without_a_declared_version_nothing_can_be_compared(node):
    node.values["accelerator_driver_version"] = ""
    for check in ("driver.packages", "driver.hold", "driver.target_kernel", "driver.files"):
        assert node.outcomes(check) == {"": UNKNOWN}, check
        assert "accelerator_driver_version" in node.only(check).reason


# Files


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"status": "absent", "text": ""}, "absent"),
        ({"mode": 0o666}, "0666"),
        ({"uid": 1000}, "1000:0"),
        ({"text": "blacklist nouveau\n"}, "options nouveau modeset=0"),
        ({"text": "blacklist nouveau\noptions nouveau modeset=0\noptions x y=1\n"}, "options x"),
    ],
)
def test_a_file_that_is_not_as_written(node, changes, said):
    node.put(f"file {BANS}", **changes)
    (finding,) = [one for one in node.findings("driver.files") if one.outcome is FAIL]
    assert finding.subject == BANS
    assert said in finding.observed


def test_the_pin_names_the_declared_version(node):
    node.values["accelerator_driver_version"] = "535.183.01"
    assert node.outcomes("driver.files") == {PIN: FAIL}


def test_the_open_module_needs_no_list_of_modules(node):
    node.values["accelerator_kernel_module"] = "open"
    left = "/etc/modules-load.d/hfprov-accelerator.conf"
    assert node.outcomes("driver.files") == {left: FAIL}


def test_a_repository_is_judged_with_its_key(node):
    key = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQ\n-----END PGP PUBLIC KEY BLOCK-----\n"
    node.values |= {
        "accelerator_site_repository": "https://mirror.example.com/gpu",
        "accelerator_site_suite": "bookworm main contrib",
        "accelerator_site_key": key,
    }
    path = "/etc/apt/sources.list.d/hfprov-accelerator.sources"
    assert node.outcomes("driver.files") == {path: FAIL}
    text = (
        "# x\nTypes: deb\nURIs: https://mirror.example.com/gpu\nSuites: bookworm\n"
        "Components: main contrib\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mQ\n"
        " -----END PGP PUBLIC KEY BLOCK-----\n"
    )
    node.put(f"file {path}", status="ok", text=text, mode=0o644, uid=0, gid=0)
    assert node.outcomes("driver.files") == {}
    node.values["accelerator_site_key"] = key.replace("mQ", "mR")
    assert node.outcomes("driver.files") == {path: FAIL}


# Packages


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("535.161.08-1", "535.183.01-1", "535.183.01-1"),
        ("hi \tlibcuda1", "hU \tlibcuda1", "half"),
        ("hi \tlibcuda1", "hc \tlibcuda1", "not installed"),
    ],
)
def test_a_package_that_is_not_as_declared(node, old, new, said):
    lines = node.results[node.read(DPKG)][0]["text"].splitlines(keepends=True)
    changed = [one.replace(old, new) if "\tlibcuda1\t" in one else one for one in lines]
    node.put(DPKG, text="".join(changed))
    (finding,) = [one for one in node.findings("driver.packages") if one.outcome is FAIL]
    assert finding.subject == "libcuda1"
    assert said in finding.observed


def test_a_package_that_nobody_declared_must_be_of_the_same_version(node):
    node.put(DPKG, text=node.results[node.read(DPKG)][0]["text"]
             + "hi \tlibnvidia-ptxjitcompiler1\t470.1-1\tamd64\t\n")  # fmt: skip
    assert node.outcomes("driver.packages") == {"libnvidia-ptxjitcompiler1": FAIL}


def test_the_container_toolkit_is_not_part_of_the_driver(node):
    node.put(DPKG, text=node.results[node.read(DPKG)][0]["text"]
             + "ii \tlibnvidia-container1\t1.18.0-1\tamd64\t\n")  # fmt: skip
    assert node.outcomes("driver.packages") == {}
    assert node.outcomes("driver.hold") == {}


def test_the_fabric_manager_comes_with_the_machine(node):
    node.values["node_sku"] = "hgx-h100-8"
    assert node.outcomes("driver.packages") == {"nvidia-fabricmanager-535": FAIL}
    node.values["accelerator_fabric_manager"] = "disabled"
    assert node.outcomes("driver.packages") == {}


def test_blackwell_gets_the_open_module_whatever_the_branch(node):
    node.values |= {"node_sku": "gb200-nvl72-tray"}
    assert node.outcomes("driver.packages") == {"nvidia-open-kernel-dkms": FAIL}


def test_packages_of_a_site_may_have_versions_of_their_own(node):
    node.values["accelerator_packages"] = ["nvidia-smi", "nvidia-persistenced=535.183.00-1"]
    assert node.outcomes("driver.packages") == {}
    node.values["accelerator_packages"] = ["nvidia-persistenced=535.171.04-1"]
    assert node.outcomes("driver.packages") == {"nvidia-persistenced": FAIL}


def test_packages_of_a_distribution_that_is_not_known_are_unknown(node):
    node.put("file /etc/os-release", text='ID=alpine\nVERSION_ID="3.22"\n')
    assert node.outcomes("driver.packages") == {"": UNKNOWN}


def test_a_package_that_is_not_held(node):
    node.replace(DPKG, "hi \tlibnvidia-ml1", "ii \tlibnvidia-ml1")
    finding = node.only("driver.hold")
    assert finding.outcome is FAIL
    assert "libnvidia-ml1" in finding.observed


def test_no_package_at_all_is_no_hold(node):
    node.put(DPKG, text="ii \tdpkg\t1.21.22\tamd64\t\n")
    assert node.outcomes("driver.hold") == {"": FAIL}


def test_a_later_file_of_apt_that_clears_the_exclusion(node):
    lines = node.results["run apt-config dump"][0]["text"].splitlines(keepends=True)
    kept = [one for one in lines if not one.startswith("Unattended-Upgrade::Package-Blacklist:: ")]
    assert len(kept) < len(lines)
    node.put("run apt-config dump", text="".join(kept))
    assert list(node.outcomes("driver.updates").values()) == [FAIL]


def test_versions_lose_epoch_and_revision():
    assert plain_version("1:535.161.08-2~deb12u1") == "535.161.08"
    assert plain_version("535.161.08") == "535.161.08"
    assert plain_version("6.16.13.30300000-2238411.22.04") == "6.16.13.30300000"


# What runs


def test_what_runs_is_what_is_installed(metal):
    assert metal.only("driver.loaded").outcome is PASS


def test_libraries_that_were_replaced_under_the_loaded_module_ask_for_a_reboot(metal):
    """Field case A2: an unattended upgrade; the accelerators are there, and a reboot is missing."""
    metal.replace(DPKG, "535.161.08-1", "535.183.01-1")
    metal.put("run nvidia-smi -q -x", text=MISMATCH, code=18)
    metal.put("run nvidia-smi -q", text=MISMATCH, code=18)
    finding = metal.only("driver.loaded")
    assert finding.outcome is FAIL
    assert finding.observed.startswith("loaded 535.161.08, packages 535.183.01")
    assert "NVML" in finding.observed
    assert "reboot is needed" in finding.reason
    assert "reload of the module" in finding.reason
    assert "not missing" in finding.reason
    check = find_check("driver.loaded")
    assert check is not None
    assert check.impact is Impact.REBOOT


def test_the_mismatch_alone_is_enough(metal):
    metal.put("run nvidia-smi -q -x", text=MISMATCH, code=18)
    metal.put("run nvidia-smi -q", text=MISMATCH, code=18)
    assert "reboot is needed" in metal.only("driver.loaded").reason


def test_half_of_the_packages_replaced(metal):
    lines = metal.results[metal.read(DPKG)][0]["text"].splitlines(keepends=True)
    new = [one.replace("161.08", "183.01") if "libcuda1" in one else one for one in lines]
    metal.put(DPKG, text="".join(new))
    assert "535.161.08 and 535.183.01" in metal.only("driver.loaded").observed


@pytest.mark.parametrize(
    ("versions", "mismatch", "outcome"),
    [
        ({"loaded": "535.161.08", "packages": "535.161.08"}, False, PASS),
        ({"loaded": "535.161.08", "packages": "535.161.08"}, True, FAIL),
        ({"loaded": "535.161.08", "packages": "535.183.01"}, False, FAIL),
        ({"loaded": "535.183.01", "packages": "535.183.01"}, False, FAIL),
        ({"loaded": "", "packages": "535.161.08"}, False, Outcome.WARN),
        ({"loaded": "", "packages": ""}, False, Outcome.WARN),
    ],
)
def test_versions_of_module_and_packages(versions, mismatch, outcome):
    assert judge_loaded(versions, "535.161.08", mismatch=mismatch).outcome is outcome


def test_a_driver_that_is_not_loaded(metal):
    metal.put("file /sys/module/nvidia/initstate", status="absent", text="")
    assert metal.outcomes("driver.loaded") == {"": FAIL}


def test_a_container_says_nothing_of_its_hosts_driver(node):
    assert node.only("driver.loaded").not_applicable is NotApplicable.CONTAINER


# A vendor whose driver is no package


def ascend(node, driver="24.1.rc2", firmware="7.3.0.1.231"):
    node.values |= {
        "node_sku": "atlas-800t-a2",
        "accelerator_driver_version": "24.1.rc2",
        "accelerator_firmware_version": "7.3.0.1.231",
    }
    for part, version in (("driver", driver), ("firmware", firmware)):
        path = f"file /usr/local/Ascend/{part}/version.info"
        node.put(path, status="ok", text=f"Version={version}\nascendhal_version=7\n")


def test_an_installed_driver_and_its_firmware(node):
    ascend(node)
    assert node.only("driver.installer").outcome is PASS
    assert node.only("driver.firmware").outcome is PASS
    ascend(node, driver="23.0.3")
    assert node.outcomes("driver.installer") == {"": FAIL}
    ascend(node, firmware="7.1.0.5.220")
    assert node.outcomes("driver.firmware") == {"": FAIL}


def test_firmware_that_nobody_declared_cannot_pass(node):
    ascend(node)
    node.values["accelerator_firmware_version"] = ""
    assert node.outcomes("driver.firmware") == {"": UNKNOWN}


def test_no_installer_has_run(node):
    ascend(node)
    node.put("file /usr/local/Ascend/driver/version.info", status="absent", text="")
    assert node.only("driver.installer").observed == "not installed"
    assert node.outcomes("driver.installer") == {"": FAIL}


# Evidence


@pytest.mark.parametrize("changes", [
    {"status": "timeout", "text": "", "ms": 9},
    {"status": "denied", "text": "", "stderr": "Permission denied"},
    {"text": "", "truncated": True},
])  # fmt: skip
@pytest.mark.parametrize(
    ("check_id", "read"),
    [
        ("driver.packages", DPKG),
        ("driver.hold", DPKG),
        ("driver.updates", "run apt-config dump"),
        ("driver.target_kernel", "run dkms status"),
        ("driver.units", "units of systemd"),
        ("driver.initramfs", "run find -L /boot"),
    ],
)
def test_without_whole_evidence_it_is_unknown(node, check_id, read, changes):
    node.put(read, **changes)
    assert UNKNOWN in node.outcomes(check_id).values()


@pytest.mark.parametrize("check_id", [one for one in ALL if one != "driver.vendor"])
def test_what_was_not_asked_never_passes(metal, check_id):
    for name in metal.reads_of(check_id):
        del metal.results[name]
    assert PASS not in {one.outcome for one in metal.findings(check_id)}


@pytest.mark.parametrize("text", ["\x1b[31m\n", "ii nvidia\n", "a\tb\tc\td\te\n" * 3, "{}"])
def test_garbled_lists_of_packages_are_unknown(node, text):
    node.put(DPKG, text=text)
    assert node.outcomes("driver.hold") == {"": UNKNOWN}


# Data


def test_flavours_of_the_module_come_from_the_matrix():
    assert module_flavour("b200") == "open"
    assert module_flavour("v100-sxm2") == "proprietary"
    assert module_flavour("h100-sxm") == "either"


def test_distributions_that_are_like_el_share_its_names():
    assert drivers().distribution("rocky", "9.6") == drivers().distribution("rhel", "9.4")
    assert drivers().distribution("ubuntu", "24.04") is not None
    assert drivers().distribution("ubuntu", "24.10") is None


def test_the_recording_holds_no_secret(node):
    text = json.dumps(node.results)
    assert "ssh-" not in text
    assert "PRIVATE" not in text
