"""Shared memory of processes: ``/dev/shm`` has room for what NCCL and data loaders put there."""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts, check
from hfprov.evidence.shared_memory import PLACE, SHARED_MEMORY, SharedMemory
from hfprov.evidence.system import MACHINE, Machine
from hfprov.verdict import Finding, Impact, failed, passed, warned

LITTLE_MIB = 1024
"""Less than a few ranks of NCCL and the workers of one data loader use together."""
SMALL_NODE_MIB = 4 * 1024
"""The half of such a node's memory is not much more than that."""
SMALL_SHARE = 0.25
"""Of the memory. The kernel's default is half; tmpfs(5)."""


@check("node.shared_memory", reads=[SHARED_MEMORY, MACHINE], impact=Impact.MANUAL)
def shared_memory(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """Now, and after the next boot."""
    found = facts.get(SHARED_MEMORY)
    # A container's is made by what started it, as a part of the memory that it may have.
    share = 0.0 if facts.get(MACHINE) is Machine.CONTAINER else SMALL_SHARE
    if found.live is None:
        reason = "No file system is mounted there: shared memory of processes has no place."
        yield failed(PLACE, observed="not mounted", expected="a tmpfs", reason=reason)
    for one in (found.live, *found.written):
        if one is not None:
            yield judge_size(one, found.memory_mib, share)


def judge_size(one: SharedMemory, memory_mib: float, small_share: float = SMALL_SHARE) -> Finding:
    """``memory_mib`` is that of the kernel, ``small_share`` the part of it that it should have."""
    expected = f"half of the memory, {_gib(memory_mib / 2)}"
    if one.kind != "tmpfs":
        reason = "What processes share there goes to another file system than memory."
        return warned(one.where, observed=one.kind, expected="tmpfs", reason=reason)
    if one.is_read_only:
        reason = "No process can make shared memory there."
        return failed(one.where, observed="read-only", expected="writable", reason=reason)
    if one.mib is None:
        return passed(one.where, observed="no bound", expected=expected)
    observed = _gib(one.mib)
    if one.mib < LITTLE_MIB and memory_mib > SMALL_NODE_MIB:
        reason = "NCCL and data loaders fail with bus errors when it is full."
        return failed(one.where, observed=observed, expected=expected, reason=reason)
    if one.mib < memory_mib * small_share:
        reason = "It is much smaller than the kernel makes it: NCCL and data loaders may fill it."
        return warned(one.where, observed=observed, expected=expected, reason=reason)
    return passed(one.where, observed="large enough", expected=expected)


def _gib(mib: float) -> str:
    return f"{mib / 1024:.1f} GiB" if mib >= LITTLE_MIB else f"{mib:.0f} MiB"
