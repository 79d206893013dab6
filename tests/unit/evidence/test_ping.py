"""Forms of ping's output: what came back, and what stood in the way."""

from __future__ import annotations

import pytest

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.ping import Ping, parse

HEAD = "PING 10.0.0.2 (10.0.0.2) from 10.0.0.1 eth1: 8972(9000) bytes of data.\n"
LOST = HEAD + (
    "\n--- 10.0.0.2 ping statistics ---\n3 packets transmitted, {} received,{} 100% packet loss, "
    "time 40ms\n"
)


def test_packets_that_came_back():
    text = HEAD + (
        "8980 bytes from 10.0.0.2: icmp_seq=1 ttl=64 time=0.060 ms\n\n"
        "--- 10.0.0.2 ping statistics ---\n"
        "3 packets transmitted, 3 received, 0% packet loss, time 40ms\n"
        "rtt min/avg/max/mdev = 0.049/0.054/0.060/0.004 ms\n"
    )
    assert parse(text) == Ping(3, 3)


@pytest.mark.parametrize(
    "said",
    [
        "ping: local error: message too long, mtu=1500",
        "ping: local error: Message too long, mtu=1500",
        "ping: local error: message too long, mtu: 1500",
    ],
)
@pytest.mark.parametrize("on_stderr", [True, False])
def test_the_sender_s_own_limit(said, on_stderr):
    lost = LOST.format(0, " +3 errors,")
    found = parse(lost, said) if on_stderr else parse(said + "\n" + lost)
    assert found == Ping(3, 0, local_mtu=1500)


@pytest.mark.parametrize(
    "said",
    [
        "From 10.0.9.1 icmp_seq=1 Frag needed and DF set (mtu = 1500)",
        "From 10.0.9.1: icmp_seq=1 Packet too big: mtu=1500",
        "From 10.0.9.1 icmp_seq=1 Packet too big: mtu=1500",
    ],
)
def test_a_router_s_limit(said):
    found = parse(said + "\n" + LOST.format(0, " +1 errors,"))
    assert (found.limit_mtu, found.limit_by.rstrip(":")) == (1500, "10.0.9.1")
    assert found.received == 0


def test_a_neighbour_that_is_not_there():
    text = "From 10.0.0.1 icmp_seq=1 Destination Host Unreachable\n" + LOST.format(0, " +3 errors,")
    assert parse(text).unreachable == "Destination Host Unreachable"


def test_packets_that_were_lost_without_a_word():
    assert parse(LOST.format(0, "")) == Ping(3, 0)


def test_packets_that_could_not_even_be_sent():
    text = HEAD + "\n--- 10.0.0.2 ping statistics ---\n0 packets transmitted, 0 received\n\n"
    assert parse(text) == Ping(0, 0)


@pytest.mark.parametrize(
    ("text", "stderr"),
    [
        ("", "ping: connect: Network is unreachable"),
        ("", "ping: SO_BINDTODEVICE eth9: No such device"),
        ("3 packets transmitted, 3 packets received", ""),  # cut off
        ("BusyBox v1.36.1 multi-call binary.", ""),
        ("\x1b[31m3 packets", "\0"),
    ],
)
def test_what_has_no_summary_is_refused(text, stderr):
    with pytest.raises(NotUnderstoodError, match="no summary of ping"):
        parse(text, stderr)
