"""What a container can have of RDMA: packages, files, units, their order; and what units would do.

Shares no code with the role or the checks.
"""

import re

UNITS = ("hfprov-rdma.service", "hfprov-rdma@eth1.service", "hfprov-rxe@eth1.service")
FAKES = "/run/hfprov-rdma-test"


def commands(host, unit):
    """Command lines of a unit as systemd understood them, its specifiers filled in."""
    shown = host.check_output(f"systemctl show -p ExecStart {unit}")
    return re.findall(r"argv\[\]=(.*?) ; ignore_errors=", shown, re.DOTALL)


def test_packages_are_the_distributions(host):
    shown = host.check_output("dpkg-query -W -f '${Version} ${db:Status-Status}\n' rdma-core")
    assert shown.split()[1] == "installed"
    assert "mlnx" not in shown
    # It ends with 255, which testinfra takes for a failure of ssh.
    assert host.check_output("sh -c 'ibv_devinfo --help; true'").startswith("Usage")


def test_systemd_would_load_the_modules(host):
    text = host.check_output("systemd-analyze cat-config modules-load.d")
    lines = text.splitlines()
    assert {"ib_uverbs", "rdma_ucm", "ib_umad", "ib_ipoib"} <= set(lines)


def test_modprobe_would_load_ib_core_so(host):
    assert "options ib_core netns_mode=0" in host.check_output("modprobe --showconfig")


def test_units_are_well_formed_and_started_at_boot(host):
    for unit in UNITS:
        shown = host.check_output(f"systemctl show -p LoadError,UnitFileState,LoadState {unit}")
        assert sorted(shown.split()) == ["LoadError=", "LoadState=loaded", "UnitFileState=enabled"]
    found = host.run(f"systemd-analyze verify {' '.join(UNITS)}")
    assert (found.rc, found.stderr) == (0, "")


def test_units_do_not_run_in_containers(host):
    for unit in UNITS:
        host.check_output(f"systemctl start {unit}")
        assert host.check_output(f"systemctl show -p ConditionResult --value {unit}") == "no"


def test_order_of_start(host):
    after = host.check_output("systemctl show -p After --value ssh.service").split()
    assert {"hfprov-rdma.service", "hfprov-rdma@eth1.service"} <= set(after)
    after = host.check_output("systemctl show -p After --value hfprov-rdma@eth1.service").split()
    assert {"hfprov-rdma.service", "hfprov-rxe@eth1.service"} <= set(after)
    after = host.check_output("systemctl show -p After --value hfprov-rdma.service").split()
    assert {"rdma-hw.target", "systemd-modules-load.service"} <= set(after)


def test_pci_registers_are_set_at_boot(host):
    assert commands(host, "hfprov-rdma.service")[1:] == [
        "setpci -s 0000:18:00.0 CAP_EXP+8.w=5000:7000",
        "setpci -s 0000:18:00.0 CAP_EXP+8.w=0010:0010",
    ]


def test_priorities_are_set_with_dcb(host):
    assert [line for line in commands(host, "hfprov-rdma@eth1.service") if "dcb" in line] == [
        "dcb app flush dev eth1 dscp-prio",
        "dcb app add dev eth1 dscp-prio 26:3 48:6",
        "dcb pfc set dev eth1 prio-pfc all:off 3:on",
    ]


def moved(host, unit, marker):
    """The unit's script that has a marker, to be run on made-up trees."""
    text = host.check_output(f"cat /etc/systemd/system/{unit}").replace("\\\n", " ")
    found = [line for line in text.splitlines() if marker in line]
    assert len(found) == 1
    script = re.fullmatch(r"ExecStart=/bin/sh -ec '(.*)' sh %I", found[0])[1]
    return script.replace("$$", "$").replace("/sys/", f"{FAKES}/sys/")


def run_script(host, script):
    # As root as ever, only below another directory.
    return host.run("sh -ec %s sh eth1", script)


def test_roce_mode_is_set_on_the_device_that_has_the_interface(host):
    """The device is found by its interface, whatever it is called; others are left alone."""
    tree = f"{FAKES}/sys"
    for device, interface in (("rocep24s0", "eth1"), ("mlx5_9", "eth7")):
        port = f"{tree}/class/infiniband/{device}/ports/1/gid_attrs/ndevs"
        host.check_output(f"mkdir -p {port} {tree}/kernel/config/rdma_cm/{device}/ports/1")
        host.check_output(f"sh -c 'echo {interface} > {port}/0'")
    done = run_script(host, moved(host, "hfprov-rdma@.service", "default_roce_mode"))
    assert done.rc == 0, done.stderr
    ports = f"{tree}/kernel/config/rdma_cm/*/ports/1/*"
    assert host.check_output(f"sh -c 'tail -n +1 {ports}'").splitlines() == [
        f"==> {tree}/kernel/config/rdma_cm/rocep24s0/ports/1/default_roce_mode <==",
        "RoCE v2",
        "",
        f"==> {tree}/kernel/config/rdma_cm/rocep24s0/ports/1/default_roce_tos <==",
        "106",
    ]
    host.check_output(f"rm -r {tree}/class/infiniband/rocep24s0")
    done = run_script(host, moved(host, "hfprov-rdma@.service", "default_roce_mode"))
    assert (done.rc, done.stderr.strip()) == (1, "No RDMA device has the interface eth1.")
    host.check_output(f"rm -r {FAKES}")


def test_ecn_is_switched_on_for_its_priority_only(host):
    sides = [f"{FAKES}/sys/class/net/eth1/ecn/{side}/enable" for side in ("roce_np", "roce_rp")]
    for side in sides:
        host.check_output(f"mkdir -p {side}")
        host.check_output(f"sh -c 'echo 0 | tee {side}/3 {side}/4'")
    assert run_script(host, moved(host, "hfprov-rdma@.service", "roce_np")).rc == 0
    values = host.check_output(f"cat {' '.join(f'{side}/3 {side}/4' for side in sides)}")
    assert values.split() == ["1", "0", "1", "0"]
    host.check_output(f"rm -r {FAKES}")


def test_rule_starts_the_unit_when_a_device_appears(host):
    text = host.check_output("cat /etc/udev/rules.d/90-hfprov-rdma.rules")
    rules = [line for line in text.splitlines() if line[:1] != "#"]
    assert ['SUBSYSTEM=="infiniband"' in rules[0], 'NAME=="eth1"' in rules[1]] == [True, True]
    assert all(rule.endswith('{SYSTEMD_WANTS}+="hfprov-rdma@eth1.service"') for rule in rules)
