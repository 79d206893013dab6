"""Processors, memory and interrupts: unseen forms, faults, and texts that were cut off.

Every text here was written for the test, after the documentation named in the parsers.
"""

from __future__ import annotations

import json

import pytest

from hfprov.errors import NotUnderstoodError
from hfprov.evidence import dmidecode, interrupts, lscpu, numactl, proc
from hfprov.evidence.cpulist import parse_cpulist, parse_cpumask
from hfprov.evidence.proc_system import ModulesFacts


class TestCpulist:
    @pytest.mark.parametrize(
        ("text", "cpus"),
        [
            ("0-3,8,10-11", (0, 1, 2, 3, 8, 10, 11)),
            ("0-6:2", (0, 2, 4, 6)),
            ("0-15:2/8", (0, 1, 8, 9)),
            ("5", (5,)),
            ("", ()),
            ("0,64\n", (0, 64)),
        ],
    )
    def test_lists(self, text: str, cpus: tuple[int, ...]) -> None:
        assert parse_cpulist(text) == cpus

    @pytest.mark.parametrize(
        "text",
        [
            "0-99999999999",
            "0-999999999",
            "70000",
            "3-1",
            "a",
            "0-3:0",
            "1,,2",
            "-1",
            "0-65536",
            "\u0661",
            "0x",
        ],
    )
    def test_nonsense_is_refused(self, text: str) -> None:
        with pytest.raises(NotUnderstoodError):
            parse_cpulist(text)

    @pytest.mark.parametrize(
        ("text", "cpus"),
        [
            ("ff", tuple(range(8))),
            ("00000010,00000000,00000000,00000000", (100,)),
            ("1,00000001", (0, 32)),
            ("0x3", (0, 1)),
            ("0", ()),
        ],
    )
    def test_masks(self, text: str, cpus: tuple[int, ...]) -> None:
        assert parse_cpumask(text) == cpus

    @pytest.mark.parametrize("text", ["00080000,,,,0", "zz", "", "0x", "1,000000001"])
    def test_broken_masks_are_refused(self, text: str) -> None:
        with pytest.raises(NotUnderstoodError):
            parse_cpumask(text)


class TestTopology:
    def test_lscpu_with_fewer_cpus_than_it_announces(self) -> None:
        text = "Architecture: x86_64\nCPU(s): 128\nOn-line CPU(s) list: 0-63\nNUMA node(s): 2\n"
        text += "NUMA node0 CPU(s): 0-63\n"
        assert len(lscpu.parse(text).contradictions) == 2

    def test_lscpu_of_another_locale_is_refused(self) -> None:
        with pytest.raises(NotUnderstoodError):
            lscpu.parse("Architektur:   x86_64\nCPU-Modus: 32-bit, 64-bit\nBytereihenfolge: LE\n")

    def test_lscpu_masks_without_a_prefix(self) -> None:
        text = "CPU(s): 8\nOn-line CPU(s) mask: 3f\nOff-line CPU(s) mask: c0\nNUMA node(s): 2\n"
        text += "NUMA node0 CPU(s): 15\nNUMA node1 CPU(s): 2a\n"
        facts = lscpu.parse(text)
        assert (facts.online, facts.offline) == ((0, 1, 2, 3, 4, 5), (6, 7))
        assert facts.numa_cpus == {0: (0, 2, 4), 1: (1, 3, 5)}
        assert facts.contradictions == ()

    def test_lscpu_counts_of_nothing_are_no_counts(self) -> None:
        text = (
            "Architecture: x86_64\nCPU(s): 4\nOn-line CPU(s) list: 0,2\n"
            "Off-line CPU(s) list: 1,3\nThread(s) per core: 0\nCore(s) per socket: 4\n"
        )
        (model,) = lscpu.parse(text).models
        assert (model.threads_per_core, model.cores_per_socket) == (None, 4)

    def test_udevadm_property_on_a_line_of_its_own(self) -> None:
        text = "P: /devices/usb1/1-1\nE: HID_UNIQ=\nMODALIAS=hid:b0003\nE: SUBSYSTEM=hid\n"
        (device,) = proc.parse(text).devices
        assert device.properties == {"HID_UNIQ": "", "MODALIAS": "hid:b0003", "SUBSYSTEM": "hid"}
        for cut in (text + "nonsense\n", text.replace("E: HID_UNIQ=\n", "")):
            with pytest.raises(NotUnderstoodError):
                proc.parse(cut)

    def test_lscpu_nested_json(self) -> None:
        document = {
            "lscpu": [
                {
                    "field": "CPU(s):",
                    "data": "2",
                    "children": [{"field": "On-line CPU(s) list:", "data": "0-1"}],
                },
                {
                    "field": "Vendor ID:",
                    "data": "AuthenticAMD",
                    "children": [
                        {
                            "field": "Model name:",
                            "data": "EPYC",
                            "children": [{"field": "Socket(s):", "data": "2"}],
                        }
                    ],
                },
            ]
        }
        facts = lscpu.parse(json.dumps(document))
        assert facts.online == (0, 1)
        assert facts.models[0].sockets == 2
        assert facts.models[0].vendor == "AuthenticAMD"

    def test_lscpu_table_with_an_offline_cpu(self) -> None:
        text = "CPU NODE SOCKET CORE L1d:L1i:L2:L3 ONLINE\n0 0 0 0 0:0:0:0 yes\n1 - - - - no\n"
        rows = lscpu.parse(text).rows
        assert (rows[1].online, rows[1].node) == (False, None)

    NUMA = (
        "available: 2 nodes (0-1)\nnode 0 cpus: 0 1\nnode 0 size: 100 MB\nnode 0 free: 50 MB\n"
        "node 1 cpus:\nnode 1 size: 200 MB\nnode 1 free: 60 MB\nnode distances:\n"
        "node   0   1 \n  0:  10  20 \n  1:  20  10 \n"
    )

    def test_numactl_node_without_cpus(self) -> None:
        facts = numactl.parse(self.NUMA)
        assert facts.nodes[1].cpus == ()
        assert facts.contradictions == ()

    @pytest.mark.parametrize("lines", range(2, 11))
    def test_numactl_cut_off_at_any_line_is_noticed(self, lines: int) -> None:
        cut = "\n".join(self.NUMA.splitlines()[:lines])
        if lines == 11:
            return
        facts = numactl.parse(cut)
        assert facts.contradictions

    def test_interrupts_of_new_kernels_and_of_arm(self) -> None:
        text = (
            "           CPU0       CPU4\n"
            " 161:          5          0  IR-PCI-MSIX-0000:02:00.0  "
            "1-edge      mlx5_comp0@pci:0000:02:00.0\n"
            " 162:          0          7  ITS-MSI 524289 Edge      nvme0q1, nvme0q2\n"
            "  23:          1          1  GICv3  79 Level     arm-smmu-v3\n"
            "IPI0:          1          2  Rescheduling interrupts\n"
            " Err:          0\n"
        )
        facts = interrupts.parse(text)
        assert facts.cpus == (0, 4)
        comp, nvme_row, smmu = facts.interrupts[:3]
        assert comp.names == ("mlx5_comp0@pci:0000:02:00.0",)
        assert comp.pci_address == "0000:02:00.0"
        assert nvme_row.names == ("nvme0q1", "nvme0q2")
        assert smmu.names == ("arm-smmu-v3",)
        assert facts.complete
        assert facts.per_cpu("162") == {0: 0, 4: 7}

    def test_interrupts_of_hundreds_of_cpus(self) -> None:
        cpus = range(384)
        header = " ".join(f"CPU{cpu}" for cpu in cpus)
        rows = [
            f"{n}: {' '.join(str(n) for _ in cpus)} PCI-MSI 1-edge eth0-{n}" for n in range(500)
        ]
        facts = interrupts.parse("\n".join([header, *rows, "ERR: 0", ""]))
        assert facts.interrupts[499].total == 499 * 384

    def test_an_interrupt_row_that_was_cut_off_is_refused(self) -> None:
        with pytest.raises(NotUnderstoodError, match="2 counts"):
            interrupts.parse("  CPU0 CPU1\n 24: 17")


class TestLsmod:
    def test_modules_and_who_uses_them(self) -> None:
        text = "Module                  Size  Used by\nib_uverbs  126976  2 rdma_ucm,mlx5_ib\n"
        facts = proc.parse(text + "mlx5_ib   393216  0\nwmi        32768 -2\n")
        assert isinstance(facts, ModulesFacts)
        assert facts.modules["ib_uverbs"].used_by == ("rdma_ucm", "mlx5_ib")
        assert [one.references for one in facts.modules.values()] == [2, 0, None]
        assert facts.modules["mlx5_ib"].state == ""

    @pytest.mark.parametrize("rows", ["", "ib_uverbs\n", "ib_uverbs many 2\n"])
    def test_what_shows_no_module_is_refused(self, rows: str) -> None:
        with pytest.raises(NotUnderstoodError):
            proc.parse("Module                  Size  Used by\n" + rows)


class TestDmidecode:
    SLOT = "Handle 0x0011, DMI type 17, 40 bytes\nMemory Device\n\tSize: {}\n\tLocator: A1\n"

    @pytest.mark.parametrize(
        ("size", "mib"),
        [("16384 MB", 16384), ("32 GB", 32768), ("1 TB", 1048576), ("64 GiB", 65536)],
    )
    def test_sizes(self, size: str, mib: int) -> None:
        assert dmidecode.parse(self.SLOT.format(size)).memory[0].size_mib == mib

    @pytest.mark.parametrize(
        ("speed", "mts"),
        [
            ("4800 MT/s", 4800),
            ("1333 MHz", 1333),
            ("1333 MHz (0.8 ns)", 1333),
            ("1 ns", None),
            ("Unknown", None),
        ],
    )
    def test_speeds_of_old_and_new_versions(self, speed: str, mts: int | None) -> None:
        text = self.SLOT.format("32 GB") + f"\tSpeed: {speed}\n"
        assert dmidecode.parse(text).memory[0].speed_mts == mts

    def test_a_version_that_is_too_old_is_called_so(self) -> None:
        text = "# dmidecode 2.2\nHandle 0x0000\n\tDMI type 0, 19 bytes.\n\tBIOS Information\n"
        with pytest.raises(NotUnderstoodError, match=r"dmidecode before 2\.8"):
            dmidecode.parse(text + "\t\tStatus: No errors detected\n")

    @pytest.mark.parametrize("size", ["32 G", "3", "many GB", "-1 GB"])
    def test_a_size_that_was_cut_off_is_refused(self, size: str) -> None:
        with pytest.raises(NotUnderstoodError):
            dmidecode.parse(self.SLOT.format(size))

    def test_a_structure_with_several_parts(self) -> None:
        text = (
            "Handle 0x0026, DMI type 40, 17 bytes\nAdditional Information 1\n\tValue: 0xaa\n"
            "Additional Information 2\n\tValue: 0x00\n\n" + self.SLOT.format("32 GB")
        )
        facts = dmidecode.parse(text)
        assert [item.title for item in facts.structures] == [
            "Additional Information 1",
            "Memory Device",
        ]
        assert facts.memory[0].size_mib == 32768

    def test_an_empty_slot_is_not_a_small_module(self) -> None:
        device = dmidecode.parse(self.SLOT.format("No Module Installed")).memory[0]
        assert (device.populated, device.size_mib) == (False, None)

    @pytest.mark.parametrize(
        "text",
        [
            "# dmidecode 3.3\n/dev/mem: Permission denied\n",
            "# dmidecode 3.3\nScanning /dev/mem\n/dev/mem: Operation not permitted\n",
            "/sys/firmware/dmi/tables/smbios_entry_point: Permission denied\n",
        ],
    )
    def test_denied(self, text: str) -> None:
        with pytest.raises(NotUnderstoodError, match=r"denied|not permitted"):
            dmidecode.parse(text)

    @pytest.mark.parametrize(
        "serial", ["To Be Filled By O.E.M.", "0000000000", "0123456789", "Default string", "N/A"]
    )
    def test_placeholders_identify_nothing(self, serial: str) -> None:
        text = (
            f"Handle 0x0001, DMI type 1, 27 bytes\nSystem Information\n\tSerial Number: {serial}\n"
        )
        system = dmidecode.parse(text).system
        assert system is not None
        assert system.serial is None
        assert system.placeholders == ("Serial Number",)

    def test_fewer_structures_than_announced(self) -> None:
        text = "# dmidecode 3.3\nSMBIOS 3.3 present.\n9 structures occupying 900 bytes.\n\n"
        assert dmidecode.parse(text + self.SLOT.format("32 GB")).complete is False
