"""Where the role's script puts interrupts."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hfprov.evidence.cpulist import parse_cpulist, parse_cpumask
from hfprov.evidence.irq_node import queue_of
from hfprov.verdict import Outcome
from tests.unit.checks.irq.conftest import (
    CONFIG,
    Machine,
    Memory,
    Nic,
    Seen,
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
