"""Rates between two moments, and what they mean for the size of frames."""

from __future__ import annotations

import json
import time

import pytest

from hfprov import probe
from hfprov.errors import NotUnderstoodError
from hfprov.measure.traffic import TRAFFIC_READS, Counters, Flow, advice, between, counters
from hfprov.reading import Observation


def moment(at, packets, size, *, drops=0, again=0, cpu0=0, mtu=1500):
    interface = {
        "rx_packets": packets,
        "rx_bytes": packets * size,
        "tx_packets": 0,
        "tx_bytes": 0,
        "rx_dropped": drops,
    }
    return Counters(at, {"eth1": interface, "lo": interface}, {"eth1": mtu}, again, {0: cpu0, 1: 0})


def test_rates_are_per_second_and_the_loopback_is_none_of_them():
    found = between(moment(100, 1000, 100), moment(110, 6000, 100, again=3, cpu0=50))
    [flow] = found.flows
    assert (flow.interface, flow.received_packets, flow.received_bytes) == ("eth1", 500, 50_000)
    assert found.retransmitted == 3
    assert found.interrupts == {0: 5.0, 1: 0.0}


def test_what_went_wrong_meanwhile_is_counted():
    [flow] = between(moment(0, 1, 9), moment(1, 2, 9, drops=7)).flows
    assert flow.trouble == {"rx_dropped": 7}


def test_a_counter_that_began_anew_is_no_negative_rate():
    [flow] = between(moment(0, 1000, 9), moment(1, 10, 9)).flows
    assert flow.received_packets == 0


@pytest.mark.parametrize("later", [100.0, 99.0])
def test_a_clock_that_stands_still_or_goes_back_tells_nothing(later):
    with pytest.raises(NotUnderstoodError, match="clock"):
        between(moment(100.0, 1, 1), moment(later, 2, 1))


def flow(size, packets=100_000.0, mtu=1500, acks=0.0):
    return Flow("eth1", mtu, packets, packets * size, acks, acks * 60, {})


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (flow(1480), "bigger frames could help"),
        (flow(1480, acks=100_000), "bigger frames could help"),
        (flow(200), "would not help"),
        (flow(1480, packets=50), "would save little"),
        (flow(8900, mtu=9000), "uses the bigger frames"),
        (flow(300, mtu=9000), "would not help"),
        (flow(0, packets=0), "nothing can be said"),
        (flow(1480, mtu=None), "nothing can be said"),
    ],
)
def test_advice_is_about_the_packets_that_there_are(seen, said):
    assert said in advice(seen)


def test_this_machine_is_read_as_a_node_is():
    plan = {"reads": [{"id": one.id, **one.request} for one in TRAFFIC_READS], "deadline": 20}

    def look():
        return counters(Observation.from_json(json.loads(json.dumps(probe.observe(plan)))))

    before = look()
    time.sleep(0.05)
    found = between(before, look())
    assert "lo" in before.interfaces
    assert found.seconds > 0
    assert before.retransmitted is not None
    assert found.interrupts
