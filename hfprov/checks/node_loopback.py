"""The loopback works: programs of one node talk to each other by it."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts, check, require
from hfprov.evidence.local_addresses import LOCAL_ADDRESSES
from hfprov.evidence.managed_links import LINKS
from hfprov.verdict import Finding, Impact, failed, passed

_NAME, _ADDRESS = "lo", IPv4Address("127.0.0.1")
_LEAST_MTU = 16_384
"""Bytes; the kernel has 65536."""


@check("node.loopback", reads=[LINKS, LOCAL_ADDRESSES], impact=Impact.MANUAL)
def loopback(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """It is up, has its address, and is as wide as the kernel makes it."""
    link = facts.get(LINKS).find(_NAME)
    if link is None:
        reason = "Nothing can be reached at 'localhost'."
        yield failed(_NAME, observed="absent", expected="up", reason=reason)
        return
    require(link.flags and link.mtu_bytes, "'ip link' did not tell the state of the loopback.")
    problems = []
    if "UP" not in link.flags:
        problems.append("down")
    elif not any(one.ip == _ADDRESS and one.device == _NAME for one in facts.get(LOCAL_ADDRESSES)):
        problems.append(f"without {_ADDRESS}")
    if (link.mtu_bytes or 0) < _LEAST_MTU:
        problems.append(f"MTU {link.mtu_bytes}")
    expected = f"up, with {_ADDRESS}, MTU 65536"
    if problems:
        reason = "Daemons of GPUs, MPI and PyTorch talk to themselves by it: jobs do not start."
        yield failed(_NAME, observed=", ".join(problems), expected=expected, reason=reason)
    else:
        yield passed(_NAME, observed=expected, expected=expected)
