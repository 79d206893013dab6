"""What the checks of interrupts find on a made-up machine, healthy and spoilt bit by bit."""

from __future__ import annotations

import hashlib
import json
import re

import pytest

from hfprov.checks import irq_keeping
from hfprov.evidence.irq_files import (
    CONFIG,
    DROP_IN,
    IRQBALANCE,
    POLICY,
    RULES,
    SCRIPTS,
    TIMER,
    UNIT,
)
from hfprov.judge import find_check
from hfprov.verdict import NotApplicable, Outcome
from tests.unit.checks.irq.conftest import BOOT, FILES, Machine, Nic, Seen, mlx5, sizes

PASS, WARN, FAIL, UNKNOWN = Outcome.PASS, Outcome.WARN, Outcome.FAIL, Outcome.UNKNOWN
NA = Outcome.NOT_APPLICABLE
ALLOWED, EFFECTIVE = "/proc/irq/{}/smp_affinity_list", "/proc/irq/{}/effective_affinity_list"
LIVE = ("irq.affinity", "irq.landing", "irq.queues", "irq.steering")
KEPT = ("irq.files", "irq.units", "irq.irqbalance")
TEMPLATES = FILES.parent / "templates"
DEVICE = "/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0"


@pytest.fixture
def seen(two_sockets):
    """A node where everything is in its place, as the role leaves it."""
    found = Seen(two_sockets)
    found.apply()
    found.answers = {
        ("-l", "ens3"): sizes("Channel", "ens3", "combined", {"most": 63, "now": 4}),
        ("-g", "ens3"): sizes("Ring", "ens3", "rx", {"most": 8192, "now": 1024}),
        ("-c", "ens3"): "Coalesce parameters for ens3:\nAdaptive RX: on  TX: off\nrx-usecs:\t8\n",
    }
    for path, text, mode in written(found):
        found.written[path] = {
            "name": path, "status": "ok", "text": text, "mode": mode, "uid": 0, "gid": 0,
        }  # fmt: skip
    for path in irq_keeping.DIRECTORIES:
        found.written[path] = {
            "name": path, "status": "ok", "type": "dir", "mode": 0o755, "uid": 0, "gid": 0,
        }  # fmt: skip
    found.written["/usr/sbin/ethtool"] = {"name": "/usr/sbin/ethtool", "status": "ok"}
    return found


def rendered(name, **words):
    """A template of the role; those that are used here have nothing but plain words in them."""
    text = (TEMPLATES / name).read_text(encoding="utf-8")
    return re.sub(r"\{\{ (.*?) \}\}", lambda match: words[match[1]], text)


def written(found):
    words = {
        "__irq_affinity_library": "/usr/local/lib/hfprov",
        "__irq_affinity_unit": UNIT,
        "__irq_affinity_policy": POLICY,
        "__irq_affinity_config.interfaces | join(' ')": "ens3",
    }
    yield CONFIG, json.dumps(found.config(), indent=4), 0o644
    for path in SCRIPTS:
        yield path, (FILES / path.rpartition("/")[2]).read_text(encoding="utf-8"), 0o644
    for path, template, mode in (
        (POLICY, "irqbalance_policy.sh.j2", 0o755),
        (RULES, "90-hfprov-irq-affinity.rules.j2", 0o644),
        (DROP_IN, "irqbalance.conf.j2", 0o644),
        (f"/etc/systemd/system/{UNIT}", f"{UNIT}.j2", 0o644),
        (f"/etc/systemd/system/{TIMER}", f"{TIMER}.j2", 0o644),
    ):
        yield path, rendered(template, **words), mode


def bad(seen, check_id):
    return {key: one for key, one in seen.outcomes(check_id).items() if one not in (PASS, NA)}


# All of them


@pytest.mark.parametrize("check_id", [*LIVE, *KEPT])
def test_a_node_in_order_passes(seen, check_id):
    assert set(seen.outcomes(check_id).values()) == {PASS}, seen.findings(check_id)


@pytest.mark.parametrize("check_id", LIVE)
def test_a_container_has_no_nics_to_judge(seen, check_id):
    seen.virtualization = "systemd-nspawn"
    (found,) = seen.findings(check_id)
    assert found.not_applicable is NotApplicable.CONTAINER


@pytest.mark.parametrize("check_id", LIVE)
def test_a_virtual_machine_is_judged(seen, check_id):
    seen.virtualization = "kvm"
    assert set(seen.outcomes(check_id).values()) == {PASS}


@pytest.mark.parametrize("check_id", [*LIVE, "irq.files", "irq.irqbalance"])
def test_without_a_declared_interface_it_is_unknown(seen, check_id):
    seen.values["jumbo_mtu_interfaces"] = []
    assert UNKNOWN in seen.outcomes(check_id).values()
    assert "jumbo_mtu_interfaces" in " ".join(one.reason for one in seen.findings(check_id))


def test_its_own_list_wins_over_that_of_jumbo_frames(seen):
    seen.values |= {"jumbo_mtu_interfaces": ["eth7"], "irq_affinity_interfaces": ["ens3"]}
    assert set(seen.outcomes("irq.affinity").values()) == {PASS}


@pytest.mark.parametrize("check_id", LIVE)
def test_an_interface_that_is_not_there_fails(seen, check_id):
    seen.values["jumbo_mtu_interfaces"] = ["ens3", "ens9"]
    assert bad(seen, check_id) == {"ens9": FAIL}


@pytest.mark.parametrize("check_id", [*LIVE, *KEPT])
@pytest.mark.parametrize(
    "spoilt",
    [
        [],
        [{"name": "", "status": "timeout"}],
        [{"name": "", "status": "error", "stderr": "Input/output error"}],
        [{"name": "", "status": "ok", "code": 0, "text": ""}],
        [{"name": "", "status": "ok", "code": 0, "text": "\x1b[31m<b>garbage</b>\x00\n" * 9}],
        [{"name": "", "status": "ok", "code": 1, "text": "x", "truncated": True}],
    ],
    ids=["nothing", "timeout", "error", "empty", "garbled", "cut"],
)
def test_no_read_that_went_wrong_makes_a_wrong_node_pass(seen, check_id, spoilt):
    """Of commands and of the kernel's files that are always there; all else is in order."""
    always = re.compile(r"run |units of|systemd itself|file /sys|file /proc/sys")
    for read in seen.reads_of(check_id):
        if always.match(read.id) and "/isolated" not in read.id and "/nohz_full" not in read.id:
            found = seen.findings(check_id, **{read.id: spoilt})
            assert not all(one.outcome is PASS for one in found) or read.id == OTHERS, read.id
            assert not any("check itself failed" in one.reason for one in found), (read.id, found)


OTHERS = "file /proc/sys/kernel/osrelease"
"""Read by the source that tells the boot, and always there; its text is of no interest here."""


# Where they may come


@pytest.mark.parametrize(
    ("number", "cpus", "words"),
    [
        (41, "0", "on CPU 0"),
        (41, "4-7", "on CPU 4-7"),
        (41, "12", "on CPU 12"),
        (42, "0-15", "on CPU 0-15"),
    ],
)
def test_a_queue_that_may_come_elsewhere_fails(seen, number, cpus, words):
    seen.files[ALLOWED.format(number)] = cpus
    seen.files[EFFECTIVE.format(number)] = cpus.partition("-")[0]
    found = {one.subject: one for one in seen.findings("irq.affinity")}
    assert found["ens3"].outcome is FAIL
    assert words in found["ens3"].observed
    assert "of CPU 4-7" in found["ens3"].expected


def test_second_threads_are_right_where_they_are_declared(seen):
    seen.values["irq_affinity_smt"] = "threads"
    seen.files[ALLOWED.format(43)] = seen.files[EFFECTIVE.format(43)] = "15"
    assert bad(seen, "irq.affinity") == {}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/sys/devices/system/cpu/isolated", "5,13"),
        ("/sys/devices/system/cpu/isolated", "13"),
        ("/sys/devices/system/cpu/nohz_full", "5"),
    ],
)
def test_a_queue_on_a_core_that_is_isolated_fails(seen, path, text):
    seen.files[path] = text
    assert bad(seen, "irq.affinity") == {"ens3": FAIL}


def test_a_queue_on_a_core_that_is_reserved_fails(seen):
    seen.values["irq_affinity_reserved_cpus"] = "14"
    assert bad(seen, "irq.affinity") == {"ens3": FAIL}


def test_a_list_of_reserved_cpus_that_is_none_is_unknown(seen):
    seen.values["irq_affinity_reserved_cpus"] = "0-x"
    (found,) = seen.findings("irq.affinity")
    assert found.outcome is UNKNOWN
    assert "'irq_affinity_reserved_cpus'" in found.reason


def test_two_queues_on_one_core_while_another_is_free_fail(seen):
    seen.files[ALLOWED.format(42)] = seen.files[EFFECTIVE.format(42)] = "4"
    assert bad(seen, "irq.affinity") == {"spread": FAIL}


def test_receive_and_send_of_a_queue_belong_together():
    rows = [(31, "virtio2-input.0"), (32, "virtio2-output.0")]
    seen = Seen(Machine({0: [(0,), (1,)]}, [Nic("ens3", rows, virtio=True)]))
    seen.apply()
    assert bad(seen, "irq.affinity") == {}
    seen.files[ALLOWED.format(32)] = seen.files[EFFECTIVE.format(32)] = "1"
    assert bad(seen, "irq.affinity") == {"ens3": FAIL}


def test_another_placement_that_keeps_the_rules_is_right_too(seen):
    for number, cpu in ((41, "7"), (42, "6"), (43, "4")):
        seen.files[ALLOWED.format(number)] = seen.files[EFFECTIVE.format(number)] = cpu
    assert bad(seen, "irq.affinity") == {}


def test_a_move_that_is_not_in_effect_fails_once_the_interrupt_has_come(seen):
    seen.files[EFFECTIVE.format(41)] = "0"
    assert bad(seen, "irq.affinity") == {"ens3": FAIL}
    seen.note(41, before={"4": 1000})
    found = seen.findings("irq.affinity")[0]
    assert found.outcome is PASS
    assert "1 interrupts from the next one on" in found.observed


def test_a_kernel_that_does_not_say_what_is_in_effect_is_unknown(seen):
    del seen.files[EFFECTIVE.format(42)]
    assert UNKNOWN in seen.outcomes("irq.affinity").values()


def test_managed_interrupts_are_named_and_are_no_failure(seen):
    seen.files[ALLOWED.format(43)] = seen.files[EFFECTIVE.format(43)] = "0"
    assert bad(seen, "irq.affinity") == {"ens3": FAIL}
    seen.note(43, result="managed")
    assert bad(seen, "irq.affinity") == {"ens3 managed": WARN}
    # Notes of another interrupt, or of another boot, excuse nothing.
    seen.note(43, name="mlx5_comp9@pci:0000:81:00.0")
    assert bad(seen, "irq.affinity") == {"ens3": FAIL}
    seen.note(43, name="mlx5_comp2@pci:0000:81:00.0")
    seen.state = seen.state.replace(BOOT, BOOT[::-1].replace("-", "0")[:8] + BOOT[8:])
    assert bad(seen, "irq.affinity") == {"ens3": FAIL}


@pytest.mark.parametrize(
    "names", [["mlx5_async0@pci:0000:81:00.0", "mlx5_pages_eq@pci:0000:81:00.0"], []]
)
def test_a_nic_that_is_up_without_queues_fails(two_sockets, names):
    two_sockets.nics[0].interrupts = [(40 + at, name) for at, name in enumerate(names)]
    seen = Seen(two_sockets)
    assert seen.outcomes("irq.affinity") == {"ens3": FAIL}
    assert seen.outcomes("irq.landing") == {"ens3": FAIL}


def test_a_nic_that_is_down_is_unknown(two_sockets):
    two_sockets.nics = [Nic("ens3", [], down=(40, 41), up=False)]
    assert Seen(two_sockets).outcomes("irq.affinity") == {"ens3": UNKNOWN}


def test_interrupts_not_named_after_the_interface_are_found_by_its_device(seen):
    """Case A15: a search for 'ens3' in /proc/interrupts finds none of them."""
    assert "ens3" not in seen.answer(INTERRUPTS(seen))[0]["text"]
    assert "3 queues in place" in seen.findings("irq.affinity")[0].observed


def INTERRUPTS(seen):  # noqa: N802 - one read, looked up
    return next(read for read in seen.reads_of("irq.affinity") if "/proc/interrupts" in read.id)


def test_cpus_beyond_63_are_judged_like_any_other():
    """Case A24: a node of 128 cores, a NIC at CPUs 64 to 127."""
    nodes = {node: [(64 * node + core,) for core in range(64)] for node in (0, 1)}
    seen = Seen(Machine(nodes, [mlx5("ens3", 40, 64, node=1)]))
    seen.apply()
    assert seen.files[ALLOWED.format(104)] == "127"
    assert bad(seen, "irq.affinity") == bad(seen, "irq.steering") == {}
    xps = f"{DEVICE}/net/ens3/queues/tx-63/xps_cpus"
    assert seen.files[xps] == "80000000,00000000,00000000,00000000"
    seen.files[xps] = "80000000,00000000"
    assert bad(seen, "irq.steering") == {"ens3 XPS": FAIL}
    seen.files[ALLOWED.format(104)] = seen.files[EFFECTIVE.format(104)] = "63"
    assert bad(seen, "irq.affinity") == {"ens3": FAIL}


def test_members_of_a_bond_are_judged_in_its_place(seen):
    seen.values["jumbo_mtu_interfaces"] = ["bond0"]
    seen.links[0]["master"] = "bond0"
    bond = {"ifindex": 9, "ifname": "bond0", "flags": ["UP"], "mtu": 9000}
    seen.links.append(bond | {"linkinfo": {"info_kind": "bond"}})
    assert set(seen.outcomes("irq.affinity")) == {"ens3", "spread"}
    seen.links[0].pop("master")
    assert bad(seen, "irq.affinity") == {"bond0": FAIL}


# Where they came


def test_interrupts_that_come_elsewhere_fail(seen):
    seen.counts[42] = {5: 900, 0: 100}
    (found,) = seen.findings("irq.landing")
    assert found.outcome is FAIL
    assert "100 of 1000 of mlx5_comp1@pci:0000:81:00.0 on CPU 0" in found.observed


def test_what_came_before_the_move_does_not_count(seen):
    seen.counts[42] = {5: 900, 0: 100}
    seen.note(42, before={"0": 95})
    assert bad(seen, "irq.landing") == {}


def test_without_any_interrupt_it_only_warns(seen):
    seen.counts = {number: {} for number in seen.counts}
    assert bad(seen, "irq.landing") == {"ens3": WARN}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda seen: setattr(seen, "state", None),
        lambda seen: setattr(seen, "state", "{"),
        lambda seen: setattr(seen, "state", "[]"),
        lambda seen: setattr(seen, "state", seen.state.replace(BOOT, "f" + BOOT[1:])),
        lambda seen: seen.note(42, name="ens3-TxRx-1"),
        lambda seen: seen.note(42, before={"5": 2000}),
        lambda seen: seen.note(42, before={"9": 1}),
        lambda seen: seen.note(42, before={"x": 1}),
    ],
)
def test_without_counts_from_before_it_is_unknown(seen, spoil):
    spoil(seen)
    assert set(seen.outcomes("irq.landing").values()) == {UNKNOWN}


# Queues and steering


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("irq_affinity_channels", "8", "combined channels 8"),
        ("irq_affinity_ring_rx", "max", "rx ring 8192"),
        ("irq_affinity_ring_rx", "2048", "rx ring 2048"),
        ("irq_affinity_ring_tx", "max", "tx ring max"),
        ("irq_affinity_smt", "threads", "combined channels 8"),
        ("irq_affinity_reserved_cpus", "4", "combined channels 3"),
        ("irq_affinity_coalescing", {"adaptive-rx": False}, "adaptive-rx off"),
        ("irq_affinity_coalescing", {"adaptive-tx": "on"}, "adaptive-tx on"),
        ("irq_affinity_coalescing", {"rx-usecs": 16}, "rx-usecs 16"),
        ("irq_affinity_coalescing", {"tx-usecs": 16}, "tx-usecs 16"),
    ],
)
def test_queues_other_than_declared_fail(seen, variable, value, expected):
    seen.values[variable] = value
    (found,) = seen.findings("irq.queues")
    assert (found.outcome, found.expected) == (FAIL, expected)


def test_queues_as_declared_pass(seen):
    seen.values |= {
        "irq_affinity_channels": "4",
        "irq_affinity_ring_rx": "1024",
        "irq_affinity_coalescing": {"adaptive-rx": True, "rx-usecs": 8},
    }
    (found,) = seen.findings("irq.queues")
    assert found.outcome is PASS
    assert found.observed == "combined channels 4, rx ring 1024, adaptive-rx on, rx-usecs 8"


def test_a_driver_without_channels_has_nothing_to_set(seen):
    seen.answers = {}
    (found,) = seen.findings("irq.queues")
    assert found.outcome is NA
    seen.values["irq_affinity_channels"] = "4"
    assert bad(seen, "irq.queues") == {"ens3": FAIL}


@pytest.mark.parametrize(
    "said", ["netlink error: No such device\n", "", "Ring parameters for ens3:\n"]
)
def test_an_answer_that_is_none_is_unknown(seen, said):
    seen.answers["-l", "ens3"] = said
    assert bad(seen, "irq.queues") == {"ens3": UNKNOWN}


def test_steering_of_received_packets_fails(seen):
    seen.files[f"{DEVICE}/net/ens3/queues/rx-2/rps_cpus"] = "ff"
    assert bad(seen, "irq.steering") == {"ens3 RPS": FAIL}
    seen.values["irq_affinity_rps"] = "leave"
    assert seen.outcomes("irq.steering")["ens3 RPS"] is NA


def test_transmit_queues_of_other_cores_fail(seen):
    seen.files[f"{DEVICE}/net/ens3/queues/tx-2/xps_cpus"] = "1"
    assert bad(seen, "irq.steering") == {"ens3 XPS": FAIL}
    seen.values["irq_affinity_xps"] = "leave"
    assert seen.outcomes("irq.steering")["ens3 XPS"] is NA


# What keeps them there


def test_digests_are_those_of_the_roles_own_scripts():
    for name, expected in irq_keeping.DIGESTS.items():
        if name.endswith(".py"):
            found = hashlib.sha256((FILES / name).read_bytes()).hexdigest()
        else:
            text = (TEMPLATES / f"{name}.j2").read_text(encoding="utf-8")
            lines = [line if not line.startswith("data=") else "" for line in text.split("\n")]
            found = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        assert expected == found, f"{name} has changed"


@pytest.mark.parametrize("path", [CONFIG, RULES, DROP_IN, POLICY, *SCRIPTS])
@pytest.mark.parametrize(
    "changes",
    [
        {"status": "absent"},
        {"mode": 0o666},
        {"uid": 65534},
        {"text": "[]"},
        {"text": "{"},
        {"type": "other", "text": ""},
        {"link": "/tmp/x"},
    ],
    ids=str,
)
def test_files_other_than_written_fail(seen, path, changes):
    seen.written[path] |= changes
    check_id = "irq.irqbalance" if path in (DROP_IN, POLICY) else "irq.files"
    assert bad(seen, check_id) == {path: FAIL}


@pytest.mark.parametrize("path", [CONFIG, RULES, DROP_IN, POLICY, *SCRIPTS])
@pytest.mark.parametrize(
    "changes", [{"status": "denied"}, {"status": "error"}, {"truncated": True}], ids=str
)
def test_files_that_could_not_be_read_are_unknown(seen, path, changes):
    seen.written[path] |= changes
    check_id = "irq.irqbalance" if path in (DROP_IN, POLICY) else "irq.files"
    assert UNKNOWN in seen.outcomes(check_id).values()


@pytest.mark.parametrize("path", irq_keeping.DIRECTORIES)
@pytest.mark.parametrize(
    "changes", [{"status": "absent"}, {"mode": 0o777}, {"gid": 7}, {"link": "/tmp"}], ids=str
)
def test_directories_open_to_others_fail(seen, path, changes):
    seen.written[path] |= changes
    if changes == {"status": "absent"}:
        del seen.written[path]
    assert bad(seen, "irq.files") == {path: FAIL}


def test_ethtool_must_be_there(seen):
    del seen.written["/usr/sbin/ethtool"]
    assert bad(seen, "irq.files") == {"ethtool": FAIL}


def test_a_change_of_the_declaration_is_found_in_the_configuration(seen):
    seen.values["irq_affinity_xps"] = "leave"
    assert bad(seen, "irq.files") == {CONFIG: FAIL}


@pytest.mark.parametrize(
    ("unit", "key", "value"),
    [
        (UNIT, "UnitFileState", "disabled"),
        (UNIT, "UnitFileState", "masked"),
        (UNIT, "NeedDaemonReload", "yes"),
        (UNIT, "Result", "exit-code"),
        (UNIT, "DropInPaths", "/etc/systemd/system/x.conf"),
        (TIMER, "UnitFileState", "disabled"),
        (TIMER, "ActiveState", "inactive"),
        (TIMER, "NeedDaemonReload", "yes"),
    ],
)
def test_units_other_than_they_should_be_fail(seen, unit, key, value):
    seen.units[unit][key] = value
    assert bad(seen, "irq.units") == {f"{unit} {key}": FAIL}


def test_a_timer_does_not_run_in_a_container(seen):
    seen.virtualization = "systemd-nspawn"
    seen.units[TIMER]["ActiveState"] = "inactive"
    assert bad(seen, "irq.units") == {}


OURS = f"/usr/sbin/irqbalance --foreground --policyscript={POLICY}"


@pytest.fixture
def balanced(seen):
    """The daemon is installed, and runs as the drop-in says."""
    argv = f"{{ path=/usr/sbin/irqbalance ; argv[]={OURS} ; ignore_errors=no }}"
    state = {"LoadState": "loaded", "ActiveState": "active", "MainPID": "77", "ExecStart": argv}
    seen.units[IRQBALANCE] |= state
    seen.command_lines["/proc/77/cmdline"] = OURS.replace(" ", "\0") + "\0"
    return seen


def test_irqbalance_that_asks_us_passes(balanced):
    assert bad(balanced, "irq.irqbalance") == {}


@pytest.mark.parametrize(
    "command",
    ["/usr/sbin/irqbalance --foreground", f"{OURS} -l /etc/x", f"{OURS} --policyscript=/etc/x"],
)
def test_irqbalance_that_runs_without_our_policy_fails(balanced, command):
    balanced.command_lines["/proc/77/cmdline"] = command.replace(" ", "\0") + "\0"
    assert bad(balanced, "irq.irqbalance") == {"irqbalance, running": FAIL}


def test_irqbalance_that_will_run_without_our_policy_fails(balanced):
    balanced.units[IRQBALANCE]["ExecStart"] = "{ argv[]=/usr/sbin/irqbalance ; }"
    balanced.units[IRQBALANCE]["NeedDaemonReload"] = "yes"
    found = bad(balanced, "irq.irqbalance")
    assert found == {IRQBALANCE: FAIL, f"{IRQBALANCE} NeedDaemonReload": FAIL}


def test_irqbalance_that_ended_meanwhile_is_unknown(balanced):
    balanced.command_lines.clear()
    assert UNKNOWN in balanced.outcomes("irq.irqbalance").values()


@pytest.mark.parametrize("check_id", [*LIVE, *KEPT])
def test_checks_belong_to_the_role(check_id):
    assert find_check(check_id).role == "irq_affinity"
