"""Where the role's script puts interrupts, and what it makes of what the kernel answers."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hfprov.evidence.cpulist import parse_cpulist, parse_cpumask
from hfprov.evidence.irq_node import queue_of
from hfprov.verdict import Outcome
from tests.unit.checks.irq.conftest import (
    CONFIG,
    FILES,
    Kernel,
    Machine,
    Memory,
    Nic,
    Seen,
    act,
    mlx5,
    plan,
)

SET = "/proc/irq/{}/smp_affinity_list"
STATE = "/run/hfprov-irq-affinity.json"


def placed(node, **config):
    """CPU by number of the interrupt, as planned."""
    return {irq: row["cpu"] for irq, row in plan.Survey(node, CONFIG | config).plan.items()}


# Masks and lists: CPUs 0, 63, 64, 255


@pytest.mark.parametrize(
    ("cpus", "mask"),
    [
        ([], "00000000"),
        ([0], "00000001"),
        ([31], "80000000"),
        ([32], "00000001,00000000"),
        ([63], "80000000,00000000"),
        ([64], "00000001,00000000,00000000"),
        ([100], "00000010,00000000,00000000,00000000"),
        ([255], "80000000" + ",00000000" * 7),
        ([0, 63, 64, 255], "80000000" + ",00000000" * 4 + ",00000001,80000000,00000001"),
    ],
)
def test_masks_have_whole_groups_of_32_bits(cpus, mask):
    assert plan.format_mask(cpus) == mask
    assert plan.parse_mask(mask) == cpus
    assert list(parse_cpumask(mask)) == cpus, "the checks' own reader says otherwise"


@given(st.sets(st.integers(0, 1023), max_size=64))
def test_masks_are_read_as_they_are_written(cpus):
    mask = plan.format_mask(cpus)
    assert plan.parse_mask(mask) == sorted(cpus)
    assert set(parse_cpumask(mask)) == cpus
    assert all(len(group) == 8 for group in mask.split(","))


@given(st.text(alphabet="0123456789,-x ", max_size=12))
def test_lists_are_read_as_the_checks_read_them(text):
    try:
        found = plan.parse_list(text)
    except ValueError:
        return
    assert tuple(found) == parse_cpulist(text)


@pytest.mark.parametrize("text", ["0-99999999", "3-1", "a", "1,,2", "-1", "0-", "1 2"])
def test_lists_that_are_none_are_refused(text):
    with pytest.raises(ValueError, match=r"list|invalid"):
        plan.parse_list(text)


# Names of interrupts


NAMES = {
    "mlx5_comp10@pci:0000:81:00.0": 10,
    "mlx5_async0@pci:0000:81:00.0": None,
    "mlx5_pages_eq@pci:0000:81:00.0": None,
    "mlx4-7@0000:04:00.0": 7,
    "mlx4-async@pci:0000:04:00.0": None,
    "ens3": None,
    "eth0": None,
    "ens3-0": 0,
    "ens3-TxRx-12": 12,
    "ens3-rx-1": 1,
    "ens3-Tx-Rx-3": 3,
    "ens3-fp-2": 2,
    "ens3-q5": 5,
    "i40e-ens3-TxRx-63": 63,
    "i40e-0000:19:00.0:misc": None,
    "ice-ens3-TxRx-8": 8,
    "ice-0000:19:00.0:ctrl": None,
    "bnxt_en-ens3-TxRx-4": 4,
    "hns3-0000:7d:00.0-TxRx-6": 6,
    "virtio2-config": None,
    "virtio2-input.3": 3,
    "virtio2-output.3": 3,
    "ena-mgmnt@pci:0000:00:05.0": None,
    "mana_q9@pci:7870:00:00.0": 9,
    "gve-ntfy-blk5@pci:0000:00:04.0": 5,
}


@pytest.mark.parametrize(("name", "queue"), NAMES.items())
def test_queues_are_told_from_the_rest(name, queue):
    assert plan.queue_number(name, "ens3", alone=False) == queue
    assert queue_of(name, "ens3") == queue, "the checks say otherwise"
    assert plan.queue_number(name, "ens3", alone=True) is not None


def test_interrupts_are_found_though_the_interface_is_not_in_their_name(two_sockets):
    assert placed(Memory(two_sockets)) == {41: 4, 42: 5, 43: 6}


def test_an_interrupt_of_the_bridge_above_is_not_the_adapters(two_sockets):
    assert 7 not in placed(Memory(two_sockets))


def test_a_virtio_adapter_has_the_interrupts_of_the_device_around_it():
    rows = [(30, "virtio2-config"), (31, "virtio2-input.0"), (32, "virtio2-output.0")]
    rows += [(33, "virtio2-input.1"), (34, "virtio2-output.1")]
    machine = Machine({0: [(0,), (1,), (2,)]}, [Nic("ens3", rows, virtio=True)])
    assert placed(Memory(machine)) == {31: 0, 32: 0, 33: 1, 34: 1}


def test_an_adapter_that_is_up_without_interrupts_is_a_problem():
    machine = Machine({0: [(0,), (1,)]}, [Nic("ens3", [(40, "somebody@pci:0000:81:00.0")] * 1)])
    machine.nics[0].interrupts = [(40, "ens3-misc"), (41, "ens3-admin")]
    survey = plan.Survey(Memory(machine), CONFIG)
    assert survey.problems == ["'ens3' is up, and no interrupt of a queue was found."]
    machine.nics[0].up = False
    assert plan.Survey(Memory(machine), CONFIG).problems == []


def test_vectors_that_nobody_has_asked_for_are_passed_over():
    nic = mlx5("ens3", 40, 2, up=False, down=(60, 61))
    assert placed(Memory(Machine({0: [(0,), (1,)]}, [nic]))) == {41: 0, 42: 1}


# Cores


@pytest.mark.parametrize(
    ("changes", "cpus"),
    [
        ({}, [4, 5, 6]),
        ({"isolated": "4-5,12-13"}, [6, 7, 6]),
        ({"nohz_full": "4"}, [5, 6, 7]),
        ({"isolated": "12"}, [5, 6, 7]),
        ({"offline": (4, 12)}, [5, 6, 7]),
        ({"offline": (4,)}, [5, 6, 7]),
    ],
)
def test_only_free_cores_of_the_near_node_are_used(two_sockets, changes, cpus):
    for name, value in changes.items():
        setattr(two_sockets, name, value)
    found = list(placed(Memory(two_sockets)).values())
    # A core whose first thread is off line is used by its second, CPU 12, which comes last.
    assert found == cpus


def test_reserved_cpus_keep_their_whole_core_free(two_sockets):
    assert list(placed(Memory(two_sockets), reserved_cpus="13").values()) == [4, 6, 7]


@pytest.mark.parametrize("node", [-1, None, 9])
def test_where_the_node_is_not_known_every_core_is_used(two_sockets, node):
    two_sockets.nics = [mlx5("ens3", 40, 8, node=node)]
    assert sorted(placed(Memory(two_sockets)).values()) == list(range(8))


def test_a_node_without_cpus_stands_for_the_nearest_with_some(two_sockets):
    two_sockets.nodes = {**two_sockets.nodes, 2: []}
    two_sockets.distances = {2: "40 20 10"}
    two_sockets.nics = [mlx5("ens3", 40, 2, node=2)]
    assert list(placed(Memory(two_sockets)).values()) == [4, 5]


def test_second_threads_come_after_every_core(two_sockets):
    two_sockets.nics = [mlx5("ens3", 40, 6, node=1)]
    assert list(placed(Memory(two_sockets)).values()) == [4, 5, 6, 7, 4, 5]
    assert list(placed(Memory(two_sockets), smt="threads").values()) == [4, 5, 6, 7, 12, 13]


def test_two_adapters_of_one_node_do_not_start_on_the_same_core(two_sockets):
    two_sockets.nics = [
        mlx5("ens3", 40, 2, node=1),
        mlx5("ens4", 60, 2, node=1, address="0000:82:00.0"),
    ]
    found = placed(Memory(two_sockets), interfaces=["ens3", "ens4"])
    assert sorted(found.values()) == [4, 5, 6, 7]


@pytest.mark.parametrize(
    ("config", "refusal"),
    [
        ({"reserved_cpus": "300"}, "no CPU 300"),
        ({"reserved_cpus": "0-15"}, "none is left"),
        ({"interfaces": ["ens9"]}, "no interface 'ens9'; there are: ens3"),
    ],
)
def test_what_this_node_cannot_have_is_refused(two_sockets, config, refusal):
    answer = plan.status(Memory(two_sockets), CONFIG | config, "machine")
    assert refusal in " ".join(answer["refusals"])


@pytest.mark.parametrize(
    "config",
    [
        {"reserved_cpus": "0-x"},
        {"channels": "many"},
        {"channels": "0"},
        {"ring_rx": "-1"},
        {"interfaces": []},
        {"interfaces": ["a b"]},
        {"interfaces": ["../../etc"]},
    ],
)
def test_what_has_no_meaning_is_refused_in_containers_too(two_sockets, config):
    answer = plan.status(Memory(two_sockets), CONFIG | config, "container")
    assert len(answer["refusals"]) == 1
    assert plan.status(Memory(two_sockets), CONFIG, "container")["refusals"] == []


# Any machine


@st.composite
def machines(draw):
    smt = draw(st.sampled_from([1, 2, 4]))
    nodes = draw(st.integers(1, 8))
    per_node = draw(st.integers(1, max(1, min(64, 512 // smt // nodes))))
    cores = nodes * per_node
    topology = {
        node: [
            tuple(node * per_node + core + thread * cores for thread in range(smt))
            for core in range(per_node)
        ]
        for node in range(nodes)
    }
    cpus = cores * smt
    some = st.sets(st.integers(0, cpus - 1), max_size=cpus // 2)
    offline = draw(some) - {0}
    isolated = draw(some)
    nics, first = [], 40
    for at in range(draw(st.integers(1, 4))):
        queues = draw(st.integers(1, 70))
        node = draw(st.integers(-1, nodes - 1))
        nics.append(mlx5(f"ens{at}", first, queues, node=node, address=f"0000:{at:02x}:00.0"))
        first += queues + 1
    listed = ",".join(str(cpu) for cpu in sorted(isolated))
    return Machine(topology, nics, offline=tuple(offline), isolated=listed)


@settings(max_examples=40, deadline=None)
@given(machines(), st.sampled_from(["cores", "threads"]))
def test_on_any_machine_queues_are_near_spread_and_on_cpus_that_run(machine, smt):
    names = [nic.name for nic in machine.nics]
    survey = plan.Survey(Memory(machine), CONFIG | {"smt": smt, "interfaces": names})
    isolated = set(parse_cpulist(machine.isolated))
    core_of = {cpu: core for cores in machine.nodes.values() for core in cores for cpu in core}
    load = Counter(core_of[row["cpu"]] for row in survey.plan.values())
    for nic in machine.nics:
        cores = [
            core for node, ones in machine.nodes.items() if nic.node in (-1, node) for core in ones
        ]
        if nic.node != -1 and not any(set(core) - set(machine.offline) for core in cores):
            continue  # its node has no running CPU: the nearest one's, tested above
        free = [
            core
            for core in cores
            if (running := set(core) - set(machine.offline)) and not running & isolated
        ]
        mine = [row["cpu"] for row in survey.plan.values() if row["interface"] == nic.name]
        assert len(mine) == (nic.queues if free else 0)
        assert bool(free) or any(f"'{nic.name}'" in one for one in survey.problems)
        assert all(core_of[cpu] in free and cpu not in machine.offline for cpu in mine)
        least = min((load[core] for core in free), default=0)
        assert all(load[core_of[cpu]] - least <= 1 for cpu in mine)
        if smt == "cores":
            assert all(cpu == min(set(core_of[cpu]) - set(machine.offline)) for cpu in mine)


@settings(max_examples=12, deadline=None)
@given(machines(), st.sampled_from(["cores", "threads"]))
def test_on_any_machine_the_checks_agree_with_the_plan(machine, smt):
    """They share no code: what one calls right must not be wrong to the other."""
    seen = Seen(machine, irq_affinity_smt=smt)
    survey = plan.Survey(Memory(machine), seen.config())
    if survey.refusals or survey.problems:
        return
    before = set(seen.outcomes("irq.affinity").values())
    seen.apply()
    after = seen.outcomes("irq.affinity")
    assert set(after.values()) == {Outcome.PASS}, seen.findings("irq.affinity")
    assert Outcome.FAIL in before or len(machine.cpus) - len(machine.offline) == 1
    assert set(seen.outcomes("irq.landing").values()) == {Outcome.PASS}


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
