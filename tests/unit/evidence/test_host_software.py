"""Software and its settings: unseen forms, faults, and texts that were cut off.

Every text here was written for the test, after the documentation named in the parsers.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from hfprov.errors import NotUnderstoodError
from hfprov.evidence import (
    ifcfg,
    limits_files,
    netplan,
    nmcli,
    os_release,
    packages,
    proc,
    slurm,
    sysctl,
)


class TestSoftware:
    def test_os_release_cut_off_in_a_quote(self) -> None:
        with pytest.raises(NotUnderstoodError, match="closing quote"):
            os_release.parse('ID=ubuntu\nVERSION_ID="22.0')
        with pytest.raises(NotUnderstoodError, match="no ID"):
            os_release.parse('NAME="Ubuntu"\n')

    @pytest.mark.parametrize(
        ("line", "version"),
        [
            ("glibc\t0\t2.17\t106.el7_2.6\t1463486666\tx86_64", ("0", "2.17", "106.el7_2.6")),
            ("glibc (none) 2.34 100.el9 x86_64", (None, "2.34", "100.el9")),
            ("glibc 2.34 100.el9 x86_64", (None, "2.34", "100.el9")),
            ("release 7 2.1511.el7 noarch", (None, "7", "2.1511.el7")),
            ("kernel 3 7 x86_64", (None, "3", "7")),
        ],
    )
    def test_columns_of_rpm(self, line: str, version: tuple[str | None, str, str]) -> None:
        facts = packages.parse(line + "\n")
        (package,) = facts.packages
        assert facts.manager is packages.Manager.RPM
        assert (package.epoch, package.version, package.release) == version

    def test_columns_of_dpkg_stay_columns_of_dpkg(self) -> None:
        facts = packages.parse("libc6\t2.19-18+deb8u3\tamd64\tinstalled\n")
        assert facts.manager is packages.Manager.DPKG
        assert facts.packages[0].version == "2.19-18+deb8u3"

    def test_packages_that_are_not_installed(self) -> None:
        facts = packages.parse(
            "package nvidia-driver is not installed\nkernel-6.6.0-1.el9.x86_64\n"
        )
        assert facts.packages[0].state == packages.PackageState.NOT_INSTALLED
        assert facts.versions("kernel")[0].release == "1.el9"

    def test_dpkg_query_with_states(self) -> None:
        text = (
            "linux-image-6.1.0-18-amd64\t6.1.76-1\tinstall ok installed\n"
            "nvidia-driver:amd64\t550.54.14-1\thold ok installed\n"
            "nvidia-old\t470.1-1\tdeinstall ok config-files\n"
            "docker-ce\t5:24.0.7-1\tinstall reinstreq half-installed\n"
            "dpkg\t1.21.22\tinstall ok installed\n"
        )
        facts = packages.parse(text)
        assert facts.is_whole
        states = [package.state.value for package in facts.packages]
        assert states == ["installed", "installed", "config-files", "broken", "installed"]
        assert [package.is_held for package in facts.packages] == [False, True, False, False, False]

    @pytest.mark.parametrize(
        "text",
        [
            "error: cannot open Packages database in /var/lib/rpm\n",
            "dpkg-query: no packages found matching x\n",
            "bash: rpm: command not found\n",
        ],
    )
    def test_a_package_manager_that_fails_is_not_an_empty_list(self, text: str) -> None:
        with pytest.raises(NotUnderstoodError, match=r"cannot open|no packages found|not found"):
            packages.parse(text)

    def test_dpkg_query_with_letters(self) -> None:
        facts = packages.parse("ii  bash 5.2-1\nhi  nvidia-driver 550.1\niUR docker-ce 5:24.0\n")
        assert [package.codes for package in facts.packages] == ["ii", "hi", "iUR"]
        assert facts.packages[2].state == packages.PackageState.BROKEN
        assert packages.parse("iiR bash 5.2-1\n").packages[0].state == packages.PackageState.BROKEN

    def test_rpm_with_a_query_format(self) -> None:
        facts = packages.parse("kernel 5.14.0-427.el9\nbash 5.1.8-9.el9\n")
        assert (facts.manager, facts.packages[0].version) == ("rpm", "5.14.0-427.el9")

    def test_sysctl_complaints(self) -> None:
        text = (
            "vm.nr_hugepages = 0\n"
            "sysctl: permission denied on key 'net.ipv6.conf.all.stable_secret'\n"
            "sysctl: cannot stat /proc/sys/net/foo: No such file or directory\n"
        )
        facts = sysctl.parse(text)
        assert facts.values == {"vm.nr_hugepages": "0"}
        assert set(facts.unreadable) == {"net.ipv6.conf.all.stable_secret", "net.foo"}
        with pytest.raises(NotUnderstoodError, match="cannot stat"):
            sysctl.parse("sysctl: cannot stat /proc/sys/net/foo: No such file or directory\n")

    def test_limits_of_a_process_cut_off(self) -> None:
        text = "Limit Soft Limit Hard Limit Units\nMax open files  1024  4096  files\n"
        with pytest.raises(NotUnderstoodError, match="Max locked memory"):
            limits_files.parse(text)

    def test_limits_conf(self) -> None:
        facts = limits_files.parse(
            "* - memlock unlimited # all\nroot hard nofile 131072\nslurm -\n"
        )
        assert isinstance(facts, limits_files.LimitsConfFacts)
        assert [limit.value for limit in facts.limits] == [limits_files.UNLIMITED, 131072, None]

    def test_cmdline_parameters_by_either_spelling(self) -> None:
        facts = proc.parse(
            'BOOT_IMAGE=/vmlinuz ro iommu=pt pci=realloc=off intel-iommu=on dyndbg="a b"\n'
        )
        assert isinstance(facts, proc.CmdlineFacts)
        assert facts.values("intel_iommu") == ("on",)
        assert facts.values("pci") == ("realloc=off",)
        assert facts.values("dyndbg") == ("a b",)
        assert facts.values("ro") == ("",)
        assert facts.values("quiet") == ()

    def test_meminfo_cut_off(self) -> None:
        with pytest.raises(NotUnderstoodError):
            proc.parse("MemTotal:        8009912 kB\n")
        with pytest.raises(NotUnderstoodError):
            proc.parse("MemTotal:        8009912 kB\nMemFree:          538")


class TestNetwork:
    def test_netplan_key_twice(self) -> None:
        text = "network:\n  ethernets:\n    eth0:\n      mtu: 9000\n      mtu: 1500\n"
        with pytest.raises(NotUnderstoodError, match="'mtu' comes twice, at line 5"):
            netplan.parse(text)

    @pytest.mark.parametrize("mtu", ["jumbo", "-9000", "[9000]", "9000.0"])
    def test_netplan_mtu_that_is_none(self, mtu: str) -> None:
        with pytest.raises(NotUnderstoodError):
            netplan.parse(f"network:\n  ethernets:\n    eth0:\n      mtu: {mtu}\n")

    def test_netplan_with_anchors_that_explode(self) -> None:
        names = ["a", *(f"k{number}" for number in range(60))]
        lines = (f"{new}: &{new} [*{old}, *{old}]\n" for old, new in pairwise(names))
        bomb = "a: &a [x]\n" + "".join(lines)
        with pytest.raises(NotUnderstoodError):
            netplan.parse(bomb)

    def test_ifcfg(self) -> None:
        facts = ifcfg.parse(
            'DEVICE=eth2\nMTU="9000"\nMASTER=bond0\nSLAVE=yes\nONBOOT=no\n'
            'BONDING_OPTS="mode=4 miimon=100"\n'
        )
        assert (facts.mtu_bytes, facts.master, facts.on_boot) == (9000, "bond0", False)
        assert facts.bonding["mode"] == "802.3ad"

    def test_nmcli_connection_with_an_mtu(self) -> None:
        text = (
            "connection.id: ib0\nconnection.type: infiniband\nconnection.autoconnect: no\n"
            "connection.controller: bond0\ninfiniband.mtu: 4092\n"
            "802-11-wireless-security.psk: secret\n"
        )
        connection = nmcli.parse(text).connections[0]
        assert (connection.mtu_bytes, connection.controller, connection.autoconnect) == (
            4092,
            "bond0",
            False,
        )
        assert "secret" not in str(connection)


class TestSlurm:
    def test_a_key_with_an_underscore_is_a_key(self) -> None:
        facts = slurm.parse("NodeName=gpu1 State=IDLE Owner=N/A MCS_label=team5\n")
        assert isinstance(facts, slurm.SlurmNodesFacts)
        values = facts.nodes[0].values
        assert (values["Owner"], values["MCS_label"]) == ("N/A", "team5")

    def test_scontrol(self) -> None:
        text = (
            "NodeName=gpu1 Arch=x86_64 CoresPerSocket=56\n   CPUAlloc=0 CPUTot=224 CPULoad=0.01\n"
            "   Gres=gpu:h100:8(S:0-1)\n   RealMemory=2000000 State=IDLE+DRAIN ThreadsPerCore=2\n"
            "   Reason=hfprov:kernel [root@2026-01-01T00:00:00]\n\n"
            "NodeName=gpu2 CPUTot=224 Gres=(null) State=DOWN*+DRAIN Version=24.05.1\n"
        )
        facts = slurm.parse(text)
        assert isinstance(facts, slurm.SlurmNodesFacts)
        one, two = facts.nodes
        assert (one.gpus, one.is_draining, one.is_responding) == (8, True, True)
        assert one.reason == "hfprov:kernel [root@2026-01-01T00:00:00]"
        assert (two.gpus, two.is_responding, two.version) == (0, False, "24.05.1")

    def test_default_sinfo_and_squeue(self) -> None:
        nodes = slurm.parse(
            "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\nall* up infinite 2 idle gpu[1-2]\n"
        )
        assert isinstance(nodes, slurm.SlurmNodesFacts)
        assert nodes.nodes[0].state == "idle"
        jobs = slurm.parse(
            " JOBID PARTITION NAME USER ST TIME NODES NODELIST(REASON)\n 7 all run me PD "
            "0:00 2 (Resources)\n"
        )
        assert isinstance(jobs, slurm.SlurmJobsFacts)
        assert jobs.states == {"PD": 1}

    def test_cut_off(self) -> None:
        with pytest.raises(NotUnderstoodError, match="no state"):
            slurm.parse("NodeName=gpu1 CPUTot=224\n")

    def test_sinfo_long_has_a_date_and_reasons_of_several_words(self) -> None:
        facts = slurm.parse(
            "Tue Mar 03 10:00:00 2026\n"
            "NODELIST   NODES PARTITION       STATE CPUS MEMORY REASON\n"
            "gpu1           1      gpu*     drained 224  515000 Kill task failed\n"
            "gpu2           1      gpu*       down* 224  515000 Not responding\n"
            "gpu3           1      gpu*        idle 224  515000 none\n"
        )
        assert isinstance(facts, slurm.SlurmNodesFacts)
        rows = [(node.name, node.state, node.reason, node.memory_mib) for node in facts.nodes]
        assert rows == [
            ("gpu1", "drained", "Kill task failed", 515000),
            ("gpu2", "down*", "Not responding", 515000),
            ("gpu3", "idle", None, 515000),
        ]

    def test_sinfo_cells_may_be_empty(self) -> None:
        facts = slurm.parse(
            "PARTITION AVAIL  NODES       STATE RESERVATION NODELIST\n"
            "gpu*         up      2        drng             gpu[1-2]\n"
            "gpu*         up      1       inval      train1 gpu3\n"
            "none         up      0         n/a             \n"
        )
        assert isinstance(facts, slurm.SlurmNodesFacts)
        assert [node.name for node in facts.nodes] == ["gpu[1-2]", "gpu3"]
        assert [node.is_draining for node in facts.nodes] == [True, False]
        assert [node.is_responding for node in facts.nodes] == [True, False]
        assert [node.values["RESERVATION"] for node in facts.nodes] == ["", "train1"]

    def test_squeue_names_of_several_words(self) -> None:
        facts = slurm.parse(
            "Tue Mar  3 10:00:00 2026\n"
            "JOBID PARTITION     NAME     USER    STATE  NODES NODELIST(REASON)\n"
            "   12       gpu  a b c d    alice COMPLETI      1 gpu1\n"
            "   13       gpu    train      bob  PENDING      1 (launch failed requeued held)\n"
        )
        assert isinstance(facts, slurm.SlurmJobsFacts)
        assert facts.states == {"COMPLETI": 1, "PENDING": 1}
        assert facts.jobs[0][2:4] == ("a b c d", "alice")
        assert facts.jobs[1][-1] == "(launch failed requeued held)"

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("REASON  USER  NODELIST\nKill task failed  root  gpu1\n", "no column STATE"),
            ("NODELIST STATE CPUS\ngpu1     idle 224 more\n", "Line 2"),
            ("NODELIST STATE CPUS\ngpu1 idle\n", "Line 2"),
            ("JOBID NAME USER ST NODES NODELIST\n1 a b alice R 1\n", "state of a job"),
            ("JOBID NAME ST| NODELIST\n1 a R| gpu1\n", "a column ST or STATE"),
        ],
    )
    def test_rows_that_do_not_fit_are_refused(self, text: str, said: str) -> None:
        with pytest.raises(NotUnderstoodError, match=said):
            slurm.parse(text)
