"""What the role's scripts do on a machine, as programs too, and what irqbalance is told."""

from __future__ import annotations

import errno
import json
import subprocess
import sys

import pytest

from tests.unit.checks.irq.conftest import (
    CONFIG,
    FILES,
    Kernel,
    Machine,
    Nic,
    act,
    mlx5,
    plan,
)

SET = "/proc/irq/{}/smp_affinity_list"
STATE = "/run/hfprov-irq-affinity.json"


# Doing it


@pytest.fixture
def kernel(two_sockets, tmp_path):
    return Kernel(two_sockets.make(tmp_path))


def test_interrupts_are_moved_once_and_read_back(kernel):
    report = act.apply(kernel, CONFIG)
    assert [kernel.read(SET.format(irq)) for irq in (40, 41, 42, 43)][1:] == ["4", "5", "6"]
    assert kernel.read(SET.format(40)) == "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15"
    assert report["problems"] == []
    assert report["changed"] is True
    kernel.written.clear()
    assert act.apply(kernel, CONFIG)["changed"] is False
    assert kernel.written == []


@pytest.mark.parametrize("error", [errno.EIO, errno.EPERM])
def test_managed_interrupts_are_reported_and_no_failure(kernel, error):
    kernel.refuses[SET.format(42)] = error
    report = act.apply(kernel, CONFIG)
    assert report["problems"] == []
    assert report["interrupts"]["42"]["result"] == "managed"
    assert kernel.read(SET.format(43)) == "6"
    answer = plan.status(kernel, CONFIG, "machine")
    assert answer["managed"] == [42]
    assert answer["stale"] == []


@pytest.mark.parametrize("error", [errno.ERANGE, errno.EINVAL, errno.ENOSPC, errno.EROFS])
def test_what_the_kernel_refuses_is_a_problem_and_the_others_are_moved(kernel, error):
    kernel.refuses[SET.format(41)] = error
    report = act.apply(kernel, CONFIG)
    assert len(report["problems"]) == 1
    assert "Interrupt 41 (mlx5_comp0@pci:0000:81:00.0) cannot be moved" in report["problems"][0]
    assert kernel.read(SET.format(42)) == "5"


def test_a_write_that_does_not_stick_is_a_problem(kernel):
    kernel.forgets.add(SET.format(43))
    report = act.apply(kernel, CONFIG)
    assert "and is on 0,1,2" in report["problems"][0]
    assert report["interrupts"]["43"]["result"] == "refused"


def test_an_interrupt_that_vanishes_meanwhile_is_no_failure(kernel):
    kernel.refuses[SET.format(41)] = errno.ENOENT
    report = act.apply(kernel, CONFIG)
    assert report["problems"] == []
    assert report["interrupts"]["41"]["result"] == "vanished"


def test_counts_before_the_move_are_kept_until_the_next_move(kernel):
    counted = kernel.path("/sys/kernel/irq/41/per_cpu_count")
    write = lambda text: open(counted, "w", encoding="ascii").write(text)  # noqa: E731, SIM115, PTH123
    write("5,0,7")
    assert act.apply(kernel, CONFIG)["interrupts"]["41"]["before"] == {"0": 5, "2": 7}
    write("5,0,7,0,90")
    assert act.apply(kernel, CONFIG)["interrupts"]["41"]["before"] == {"0": 5, "2": 7}
    kernel.write(SET.format(41), "0")
    assert act.apply(kernel, CONFIG)["interrupts"]["41"]["before"] == {"0": 5, "2": 7, "4": 90}
    write("1,0,0")
    assert act.apply(kernel, CONFIG)["interrupts"]["41"]["before"] == {"0": 1}


def test_after_a_driver_reload_the_new_interrupts_are_moved(two_sockets, tmp_path):
    kernel = Kernel(two_sockets.make(tmp_path / "before"))
    act.apply(kernel, CONFIG)
    state = kernel.read(STATE)
    two_sockets.nics = [mlx5("ens3", 50, 3, node=1)]
    anew = Kernel(two_sockets.make(tmp_path / "after"))
    (tmp_path / "after" / STATE[1:]).write_text(state)
    report = act.apply(anew, CONFIG)
    assert sorted(report["interrupts"]) == ["51", "52", "53"]
    assert [anew.read(SET.format(irq)) for irq in (51, 52, 53)] == ["4", "5", "6"]


def test_notes_that_are_garbled_are_written_anew(kernel):
    kernel.write(STATE, "") if kernel.exists(STATE) else None
    with open(kernel.path(STATE), "w", encoding="ascii") as handle:  # noqa: PTH123
        handle.write('{"interrupts": {"41"')
    assert act.apply(kernel, CONFIG)["problems"] == []
    assert json.loads(kernel.read(STATE))["interrupts"].keys() == {"41", "42", "43"}


# Channels, rings, moderation, steering


def test_channels_are_set_to_the_cores_near_the_nic(kernel):
    kernel.channels = {"most": 63, "now": 63}
    act.apply(kernel, CONFIG)
    assert ("-L", "ens3", "combined", "4") in kernel.calls
    act.apply(kernel, CONFIG | {"smt": "threads"})
    assert ("-L", "ens3", "combined", "8") in kernel.calls


def test_a_nic_with_fewer_channels_than_cores_gets_all_it_has(kernel):
    kernel.channels = {"most": 2, "now": 1}
    act.apply(kernel, CONFIG)
    assert ("-L", "ens3", "combined", "2") in kernel.calls


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"channels": "64"}, "at most 63"),
        ({"ring_rx": "9000"}, "at most 8192"),
        ({"ring_tx": "max"}, "no choice"),
        ({"coalescing": {"tx-usecs": 4}}, "no setting 'tx-usecs'"),
    ],
)
def test_what_the_driver_cannot_have_is_said_and_not_asked_for(kernel, config, problem):
    kernel.channels = {"most": 63, "now": 4}
    report = act.apply(kernel, CONFIG | config)
    assert problem in " ".join(report["problems"])
    assert [call for call in kernel.calls if call[0].isupper()] == []


def test_a_size_that_the_driver_rounds_is_asked_for_once(kernel):
    kernel.rings["step"] = 1000
    config = CONFIG | {"ring_rx": "4096"}
    act.apply(kernel, config)
    again = act.apply(kernel, config)
    assert kernel.calls.count(("-G", "ens3", "rx", "4096")) == 1
    assert "did not take effect" in again["problems"][0]
    act.apply(kernel, CONFIG | {"ring_rx": "max"})
    assert kernel.calls.count(("-G", "ens3", "rx", "8192")) == 1


def test_a_change_that_took_effect_is_made_again_when_it_was_undone(kernel):
    config = CONFIG | {"ring_rx": "max"}
    assert act.apply(kernel, config)["problems"] == []
    kernel.rings["now"] = 512
    assert act.apply(kernel, config)["problems"] == []
    assert kernel.rings["now"] == 8192


def test_moderation_is_compared_in_the_words_of_ethtool(kernel):
    same = CONFIG | {"coalescing": {"adaptive-rx": "on", "rx-usecs": 8}}
    act.apply(kernel, same)
    assert [call for call in kernel.calls if call[0] == "-C"] == []
    act.apply(kernel, CONFIG | {"coalescing": {"adaptive-rx": False, "rx-usecs": 8}})
    assert ("-C", "ens3", "adaptive-rx", "off") in kernel.calls


def test_ethtool_that_does_not_run_is_a_problem(kernel):
    kernel.ethtool = lambda *_: (127, "", "No such file or directory: 'ethtool'")
    assert "No such file" in act.apply(kernel, CONFIG)["problems"][0]


def test_transmit_queues_are_used_by_the_core_of_their_interrupt(kernel):
    place = "/sys/class/net/ens3/queues/"
    kernel.write(place + "rx-1/rps_cpus", "ff")
    act.apply(kernel, CONFIG)
    assert plan.parse_mask(kernel.read(place + "tx-0/xps_cpus")) == [4, 12]
    assert plan.parse_mask(kernel.read(place + "tx-2/xps_cpus")) == [6, 14]
    assert plan.parse_mask(kernel.read(place + "rx-1/rps_cpus")) == []


def test_steering_is_left_alone_when_it_is_left(kernel):
    act.apply(kernel, CONFIG | {"rps": "leave", "xps": "leave"})
    assert [path for path, _ in kernel.written if "queues" in path] == []


# As a program


def run(script, *words):
    return subprocess.run(
        [sys.executable, "-B", FILES / script, *words],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_the_program_moves_interrupts_below_a_root(two_sockets, tmp_path):
    root = two_sockets.make(tmp_path)
    options = ("--root", str(root), "--config", json.dumps(CONFIG))
    answer = json.loads(run("irq_affinity.py", "status", "--json", *options).stdout)
    assert len(answer["stale"]) >= 3
    planned = json.loads(run("irq_affinity.py", "plan", *options).stdout)
    assert [row["cpu"] for row in planned.values()] == [4, 5, 6]
    alone = json.loads(run("irq_plan.py", json.dumps(CONFIG), str(root)).stdout)
    assert alone == answer
    done = run("irq_affinity.py", "apply", *options)
    # No such NIC is there to be asked for its channels, which is said.
    assert done.returncode == 1
    assert "ethtool -l ens3" in done.stderr
    assert (root / "proc/irq/43/smp_affinity_list").read_text()[0] == "6"


def test_the_program_says_in_a_sentence_what_is_wrong_with_its_configuration(tmp_path):
    config = json.dumps(CONFIG | {"channels": "many"})
    done = run("irq_affinity.py", "apply", "--root", str(tmp_path), "--config", config)
    assert done.returncode == 1
    assert done.stderr == "'irq_affinity_channels' is 'leave', 'auto' or a number, not 'many'.\n"


# What irqbalance is told


@pytest.fixture
def policy(tmp_path):
    """What the policy script prints for an interrupt of a made-up node."""

    def ask(machine, number, interfaces="ens3", links=()):
        root = machine.make(tmp_path / f"node-{number}")
        for interface, upper in links:
            (root / f"sys/class/net/{upper}").mkdir(exist_ok=True)
            (root / f"sys/class/net/{interface}/upper_{upper}").symlink_to(
                root / f"sys/class/net/{upper}"
            )
        text = (FILES.parent / "templates/irqbalance_policy.sh.j2").read_text(encoding="utf-8")
        lines = [
            f"data=' {interfaces} '" if line.startswith("data=") else line
            for line in text.replace("/sys/", f"{root}/sys/").splitlines()
        ]
        script = tmp_path / "policy.sh"
        script.write_text("\n".join(lines), encoding="utf-8")
        done = subprocess.run(
            ["sh", script, "/sys/bus/pci/devices/0000:81:00.0", str(number)],
            capture_output=True, text=True, timeout=30, check=True,
        )  # fmt: skip
        assert done.stderr == ""
        return done.stdout

    return ask


@pytest.mark.parametrize(
    ("number", "interfaces", "links", "said"),
    [
        (41, "ens3", (), "ban=true\n"),
        (40, "ens1 ens3", (), "ban=true\n"),
        (7, "ens3", (), ""),
        (99, "ens3", (), ""),
        (4, "ens3", (), ""),
        (41, "ens4", (), ""),
        (41, "ens", (), ""),
        (41, "bond0", [("ens3", "bond0")], "ban=true\n"),
        (41, "bond0.7", [("ens3", "bond0"), ("bond0", "bond0.7")], "ban=true\n"),
        (41, "bond1", [("ens3", "bond0")], ""),
    ],
)
def test_irqbalance_is_told_of_the_data_nics_interrupts_only(
    policy, two_sockets, number, interfaces, links, said
):
    assert policy(two_sockets, number, interfaces, links) == said


def test_irqbalance_is_told_of_a_virtio_adapters_interrupts_too(policy):
    machine = Machine({0: [(0,)]}, [Nic("ens3", [(31, "virtio2-input.0")], virtio=True)])
    assert policy(machine, 31) == "ban=true\n"
    assert policy(machine, 7) == ""
