"""PCI devices and links: unseen forms, faults, and texts that were cut off.

Every text here was written for the test, after the documentation named in the parsers.
"""

from __future__ import annotations

import json

import pytest

from hfprov.errors import NotUnderstoodError
from hfprov.evidence import cpufreq, edac, lspci, sysfs, sysfs_attributes
from hfprov.evidence.pcie import normal_address, parse_speed, parse_width

GPU = """\
19:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)
\tSubsystem: NVIDIA Corporation Device [10de:16c1]
\tPhysical Slot: 4
\tNUMA node: 1
\tIOMMU group: 27
\tCapabilities: [60] Express (v2) Endpoint, IntMsgNum 0
\t\tDevCap:\tMaxPayload 256 bytes, PhantFunc 0
\t\tDevCtl:\tCorrErr+ NonFatalErr+ FatalErr+ UnsupReq+
\t\t\tRlxdOrd+ ExtTag+ PhantFunc- AuxPwr- NoSnoop- FLReset-
\t\t\tMaxPayload 256 bytes, MaxReadReq 512 bytes
\t\tDevSta:\tCorrErr- NonFatalErr- FatalErr- UnsupReq- AuxPwr- TransPend-
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM L1
\t\tLnkSta:\tSpeed 16GT/s (downgraded), Width x8 (downgraded)
\tCapabilities: [100 v2] Advanced Error Reporting
\t\tUESta:\tDLP- SDES- TLP- FCP- CmpltTO+ CmpltAbrt- UnxCmplt- RxOF- MalfTLP-
\t\t\tECRC- UnsupReq- ACSViol- UncorrIntErr- BlockedTLP- AtomicOpBlocked- TLPBlockedErr-
\t\t\tPoisonTLPBlocked- DMWrReqBlocked- IDECheck- MisIDETLP- PCRC_CHECK- TLPXlatBlocked-
\t\tUEMsk:\tDLP- SDES- TLP- FCP- CmpltTO- CmpltAbrt- UnxCmplt- RxOF- MalfTLP-
\t\tCESta:\tRxErr- BadTLP+ BadDLLP- Rollover- Timeout- AdvNonFatalErr- CorrIntErr- HeaderOF-
\t\tRootSta: CERcvd+ MultCERcvd- UERcvd- MultUERcvd-
\tKernel driver in use: nvidia
\tKernel modules: nouveau, nvidia

"""


class TestLspci:
    def test_flags_over_several_lines_of_new_versions(self) -> None:
        facts = lspci.parse(GPU)
        device = facts.devices[0]
        assert facts.complete
        assert device.errors is not None
        assert device.errors.uncorrectable == ("CmpltTO",)
        assert device.errors.correctable == ("BadTLP",)
        assert device.errors.root == ("CERcvd",)
        assert (device.iommu_group, device.numa_node, device.physical_slot) == (27, 1, "4")
        assert device.express is not None
        assert device.express.is_downgraded is True
        assert device.subsystem_device_id == "16c1"

    def test_old_versions_have_no_marks(self) -> None:
        text = GPU.replace(" (downgraded)", "").replace("Width x8", "Width x8, TrErr- Train-")
        express = lspci.parse(text).devices[0].express
        assert express is not None
        assert (express.speed_mark, express.is_downgraded) == ("", True)

    def test_a_healthy_link_is_not_downgraded(self) -> None:
        text = GPU.replace("16GT/s (downgraded), Width x8 (downgraded)", "32GT/s, Width x16")
        express = lspci.parse(text).devices[0].express
        assert express is not None
        assert express.is_downgraded is False

    def test_the_mark_of_lspci_counts_without_the_capability(self) -> None:
        (express,) = lspci.parse("LnkSta: Speed 16GT/s (downgraded), Width x16 (ok)\n").excerpts
        assert express.capable is None
        assert express.is_downgraded is True

    def test_a_device_that_fell_off_the_bus(self) -> None:
        text = "19:00.0 3D controller: NVIDIA Corporation Device 2330 (rev ff) (prog-if ff)\n"
        text += "\t!!! Unknown header type 7f\n\tKernel driver in use: nvidia\n\n"
        device = lspci.parse(text).devices[0]
        assert device.express is None
        assert len(device.problems) == 2
        assert "does not answer" in device.problems[0]

    def test_without_root_the_capabilities_are_missing_and_say_so(self) -> None:
        text = "19:00.0 3D controller: NVIDIA X (rev a1)\n\tCapabilities: <access denied>\n\n"
        device = lspci.parse(text).devices[0]
        assert device.express is None
        assert device.errors is None
        assert "access denied" in device.problems[0]

    def test_a_link_that_reads_as_all_ones_is_refused(self) -> None:
        text = GPU.replace("Width x8 (downgraded)", "Width x63 (overdriven)")
        with pytest.raises(NotUnderstoodError, match="every bit reads as one"):
            lspci.parse(text)

    @pytest.mark.parametrize("end", range(40, len(GPU), 7))
    def test_cutting_it_off_never_hides_the_downgrade(self, end: int) -> None:
        try:
            facts = lspci.parse(GPU[:end])
        except NotUnderstoodError:
            return
        assert not facts.complete
        express = facts.devices[0].express
        assert express is None or express.is_downgraded in (None, True)
        errors = facts.devices[0].errors
        assert errors is None or errors.uncorrectable == ("CmpltTO",)

    def test_numeric_and_domain_forms(self) -> None:
        facts = lspci.parse(
            "10000:e1:00.0 0108: 8086:0b60\n0000:19:00.0 0302: 10de:2330 (rev a1)\n"
        )
        assert [device.address for device in facts.devices] == ["10000:e1:00.0", "0000:19:00.0"]
        assert facts.devices[1].class_id == "0302"
        assert facts.devices[1].revision == "a1"

    def test_the_quoted_form(self) -> None:
        text = '19:00.0 "3D controller [0302]" "NVIDIA Corporation [10de]" "Device [2330]" -ra1 '
        text += '"NVIDIA Corporation [10de]" "Device [16c1]"\n1a:00.0 "X" "Y" "Z" -rff "" ""\n'
        gpu, lost = lspci.parse(text).devices
        assert (gpu.class_id, gpu.device_id, gpu.revision) == ("0302", "2330", "a1")
        assert gpu.subsystem_device_id == "16c1"
        assert "does not answer" in lost.problems[0]
        with pytest.raises(NotUnderstoodError):
            lspci.parse(text[: text.index("16c1")])

    def test_two_runs_in_one_text_are_refused(self) -> None:
        line = "19:00.0 3D controller: NVIDIA X (rev a1)\n"
        with pytest.raises(NotUnderstoodError, match="listed twice"):
            lspci.parse(line + line)

    def test_warnings_of_its_libraries_are_kept(self) -> None:
        text = "pcilib: Error reading /sys/x/label: Operation not permitted\n" + GPU
        assert lspci.parse(text).warnings == (
            "pcilib: Error reading /sys/x/label: Operation not permitted",
        )

    def test_a_tree_with_bridges(self) -> None:
        text = (
            "-+-[0000:17]-+-00.0  Intel Corporation Device 09a2\n"
            " |           \\-01.0-[18-1a]--+-00.0-[19]----00.0  NVIDIA Corporation GH100\n"
            " |                           \\-01.0-[1a]----00.0  Mellanox Technologies MT2910\n"
            " \\-[0000:00]-+-00.0  Intel Corporation Device 09a2\n"
        )
        addresses = [device.address for device in lspci.parse(text).devices]
        assert addresses == [
            "0000:17:00.0",
            "0000:17:01.0",
            "0000:18:00.0",
            "0000:19:00.0",
            "0000:18:01.0",
            "0000:1a:00.0",
            "0000:00:00.0",
        ]

    def test_an_excerpt_with_two_readings_is_refused(self) -> None:
        text = "LnkSta: Speed 32GT/s (ok), Width x16 (ok)\n" * 2
        with pytest.raises(NotUnderstoodError, match="no address"):
            lspci.parse(text)


class TestPcie:
    def test_values(self) -> None:
        assert parse_speed("16.0 GT/s PCIe") == 16.0
        assert parse_speed("Unknown") is None
        assert parse_width("0") is None
        assert normal_address("00000000:3B:00.0") == "0000:3b:00.0"

    @pytest.mark.parametrize("text", ["63", "255", "3", "-1", "x", "16 lanes"])
    def test_no_width(self, text: str) -> None:
        with pytest.raises(NotUnderstoodError):
            parse_width(text)


class TestSysfs:
    def test_a_device_off_the_bus_does_not_hide_the_others(self) -> None:
        files = {
            "/sys/bus/pci/devices/0000:19:00.0/current_link_width": "63\n",
            "/sys/bus/pci/devices/0000:19:00.0/current_link_speed": "Unknown\n",
            "/sys/bus/pci/devices/0000:3b:00.0/current_link_width": "16\n",
        }
        tree = sysfs.parse(json.dumps(files))
        assert isinstance(tree, sysfs.SysfsTree)
        off, good = tree.pci
        assert off.current_width is None
        assert "every bit reads as one" in off.problems[0]
        assert (good.current_width, good.problems) == (16, ())

    def test_a_cut_off_archive_is_refused(self) -> None:
        whole = "Path: fixtures/sys/a\nLines: 2\nx\ny\nMode: 644\n"
        tree = sysfs.parse(whole)
        assert isinstance(tree, sysfs.SysfsTree)
        assert tree.files == {"/sys/a": "x\ny"}
        for end in (whole.index("Lines"), whole.index("y\n"), whole.index("Mode")):
            with pytest.raises(NotUnderstoodError, match="cut off"):
                sysfs.parse(whole[:end])

    def test_single_files(self) -> None:
        assert sysfs_attributes.parse_numa_node("-1\n") is None
        assert sysfs_attributes.parse_numa_node("1") == 1
        assert sysfs_attributes.parse_choice("always [madvise] never\n", "enabled") == "madvise"
        assert sysfs_attributes.parse_net_speed("-1") is None
        assert sysfs_attributes.parse_net_speed("400000") == 400000
        assert sysfs_attributes.parse_counter("N/A (no PMA)", "x") is None
        assert sysfs_attributes.parse_iommu_type("identity\n") == "identity"
        assert sysfs_attributes.parse_state("1: DOWN", "state").name == "DOWN"

    def test_aer_counters_without_their_last_line_are_cut_off(self) -> None:
        text = "RxErr 1\nBadTLP 0\nTOTAL_ERR_COR 1\n"
        assert sysfs_attributes.parse_aer(text, "aer").raised == {"RxErr": 1}
        with pytest.raises(NotUnderstoodError, match="cut off"):
            sysfs_attributes.parse_aer("RxErr 0\nBadTLP 0\n", "aer")

    def test_edac(self) -> None:
        root = "/sys/devices/system/edac/mc/mc0"
        files = {
            f"{root}/ce_count": "3\n",
            f"{root}/ue_count": "0\n",
            f"{root}/dimm2/dimm_ce_count": "3\n",
            f"{root}/dimm2/dimm_ue_count": "0\n",
            f"{root}/dimm2/dimm_label": "CPU0_DIMM_C1\n",
        }
        (controller,) = edac.parse_edac(files)
        assert (controller.corrected, controller.uncorrected) == (3, 0)
        assert controller.dimms[0].label == "CPU0_DIMM_C1"
        with pytest.raises(NotUnderstoodError, match="no ue_count"):
            edac.parse_edac({f"{root}/ce_count": "0"})
        with pytest.raises(NotUnderstoodError, match="no EDAC"):
            edac.parse_edac({})

    def test_cpufreq(self) -> None:
        scaling = cpufreq.parse_scaling(
            3, {"scaling_governor": "performance\n", "scaling_max_freq": "3800000"}
        )
        assert (scaling.governor, scaling.max_ghz, scaling.min_ghz) == ("performance", 3.8, None)
        with pytest.raises(NotUnderstoodError):
            cpufreq.parse_governor("")
