"""What is configured below /etc is still there after a reboot."""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts, check
from hfprov.evidence.text import excerpt
from hfprov.evidence.volatile_links import VOLATILE
from hfprov.verdict import Finding, Impact, failed, passed


@check("boot.volatile", reads=[VOLATILE], impact=Impact.MANUAL)
def volatile(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """No configuration of the network, sshd, limits or the kernel is a link into memory."""
    found = facts.get(VOLATILE)
    for path, target in sorted(found.items()):
        reason = "A reboot empties that place: whatever this says now is gone then."
        expected = "a file on a disk"
        yield failed(path, observed=excerpt(target), expected=expected, reason=reason)
    if not found:
        yield passed(observed="none", expected="no link into memory")
