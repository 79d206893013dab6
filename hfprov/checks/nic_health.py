"""Health of the adapters of data interfaces: damaged and lost frames, pause storms, modules.

Totals since the driver was loaded tell whether something was ever wrong; whether it is wrong now
is told by growth between two observations (:mod:`hfprov.checks.growth`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hfprov.baseline import Baseline
from hfprov.checks.hardware import judged_each
from hfprov.checks.magnitude import magnitude
from hfprov.checks.nic import VARIABLE, adapters, declared, not_requested, virtual
from hfprov.checks.registry import Facts, check
from hfprov.evidence.ethtool.failure import EthtoolFailure, Reason
from hfprov.evidence.ethtool.statistics import Statistics
from hfprov.evidence.ethtool.transceiver import Transceiver
from hfprov.evidence.managed_links import LINKS
from hfprov.evidence.net_counters import Family, meaning_of
from hfprov.evidence.nic_node import NIC_MODULES, NIC_STATISTICS
from hfprov.regex import regex
from hfprov.verdict import (
    Finding,
    Impact,
    NotApplicable,
    failed,
    not_applicable,
    passed,
    unknown,
    warned,
)

DAMAGED_SHARE = 1e-6
"""Damaged frames of all received above which a link is broken. A bit error rate of 1e-12, which
IEEE 802.3 allows a link at most, damages about 7 in 10^8 frames of 9000 bytes."""
LOST_SHARE = 1e-4
PAUSE_SHARE = 1e-2
FEW = 1000
"""A count below which nothing is said when nobody knows of how many frames."""

_RAW = regex(r"rx_err_lane_[0-9]+_phy|.*pci_signal_integrity|.*_cqe_.*")
"""Errors of lanes before correction; of the PCIe side; of requests that software made."""
_HARMLESS = regex(
    r"rx_steer_missed_packets|rx_nohandler|[rt]x_dropped|rx_if_down_packets|collisions|.*xdp.*"
)
"""Frames for somebody else: unknown protocols, addresses and VLANs, or an interface taken down."""
_DURATION = regex(r".*_(?:duration|transition)|port_xmit_wait")
_STORM = regex(r".*pause_storm.*")
_PORT_TOTALS = ("rx_packets_phy", "frames_rx_ok", "rx_packets", "rx_frames", "rx_total_packets")
_HOST_TOTALS = ("rx_packets", "rx_total_packets", *_PORT_TOTALS)
_HOST = regex(r"[rt]x_?[0-9]+_.*|.*(?:out_of_buffer|exhausted|alloc).*")
"""Counters of the queues of the host; RDMA passes them by."""


_DAMAGED = "Frames arrive damaged: a cable, a module, dirt on a connector, or the port."
_STORMS = "The adapter stopped the network for long: its host did not take what came."
_LOST = "Whole frames are thrown away: rings or buffers do not keep up."
_PAUSED = "Much of the traffic is pause frames: a receiver does not keep up."
_FEW_DAMAGED = "A few frames arrived damaged; watch whether there will be more."


@dataclass(frozen=True, slots=True)
class Trouble:
    """What the counters of one adapter tell, without those that say nothing of its health."""

    frames: int | None
    """Frames that the port received; None where no counter tells."""
    host_frames: int | None
    """Those of them that went through the kernel."""
    damaged: Mapping[str, int]
    lost: Mapping[str, int]
    paused: Mapping[str, int]
    storms: Mapping[str, int]

    def exceeds(self, counts: Mapping[str, int], limit: float) -> bool:
        """Whether one of some counters is more than a share of all that it could have counted.

        The largest one, not the sum: several count the same frames.
        """
        return any(self._exceeds(name, count, limit) for name, count in counts.items())

    def _exceeds(self, name: str, count: int, limit: float) -> bool:
        frames = self.host_frames if _HOST.fullmatch(name) else self.frames
        return count >= FEW if frames is None else count / (frames + count) > limit


def trouble(counters: Mapping[str, int]) -> Trouble:
    """Counters that rose, by what they mean."""
    risen = {name: count for name, count in counters.items() if count > 0}
    family = {name: meaning_of(name).family for name in risen}

    def of(wanted: Family) -> dict[str, int]:
        return {name: count for name, count in risen.items() if family[name] is wanted}

    pauses = {name: count for name, count in of(Family.PAUSE).items() if not _DURATION.match(name)}
    storms = {name: count for name, count in pauses.items() if _STORM.match(name)}
    return Trouble(
        frames=next((risen[name] for name in _PORT_TOTALS if name in risen), None),
        host_frames=next((risen[name] for name in _HOST_TOTALS if name in risen), None),
        damaged={k: v for k, v in of(Family.ERROR).items() if not _RAW.fullmatch(k)},
        lost={k: v for k, v in of(Family.DISCARD).items() if not _HARMLESS.fullmatch(k)},
        paused={name: count for name, count in pauses.items() if name not in storms},
        storms=storms,
    )


@check(
    "nic_health.counters", reads=[LINKS, NIC_STATISTICS], impact=Impact.MANUAL, judges=[VARIABLE]
)
def counters(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    names = declared(baseline)
    below = adapters(facts.get(LINKS), names)
    statistics = facts.get(NIC_STATISTICS) if below else None
    if statistics is None:
        yield virtual() if names else not_requested()
        return
    yield from judged_each(below, lambda name: judge_counters(name, statistics.of(name)))


def judge_counters(name: str, statistics: Statistics | EthtoolFailure) -> Finding:
    """Totals since the driver was loaded. The worst comes first."""
    expected = "no damaged, lost or paused frames of note"
    if isinstance(statistics, EthtoolFailure):
        return unknown(name, reason=f"ethtool: {statistics.sentence}", expected=expected)
    seen = trouble(statistics.counters)
    for applies, judged, counts, reason in (
        (seen.exceeds(seen.damaged, DAMAGED_SHARE), failed, seen.damaged, _DAMAGED),
        (bool(seen.storms), warned, seen.storms, _STORMS),
        (seen.exceeds(seen.lost, LOST_SHARE), warned, seen.lost, _LOST),
        (seen.exceeds(seen.paused, PAUSE_SHARE), warned, seen.paused, _PAUSED),
        (bool(seen.damaged), warned, seen.damaged, _FEW_DAMAGED),
    ):
        if applies:
            return judged(name, observed=_shown(counts), expected=expected, reason=reason)
    if not statistics.whole:
        return unknown(name, reason="Only some counters were shown.", expected=expected)
    return passed(name, observed="nothing of note", expected=expected)


def _shown(counts: Mapping[str, int]) -> str:
    most = sorted(counts.items(), key=lambda item: (-len(str(item[1])), item[0]))[:4]
    return ", ".join(f"{name}: {magnitude(count)}" for name, count in most)


@check("nic_health.module", reads=[LINKS, NIC_MODULES], impact=Impact.MANUAL, judges=[VARIABLE])
def module(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Light, heat and voltage of optical modules and active cables."""
    names = declared(baseline)
    below = adapters(facts.get(LINKS), names)
    modules = facts.get(NIC_MODULES) if below else None
    if modules is None:
        yield virtual() if names else not_requested()
        return
    yield from judged_each(below, lambda name: judge_module(name, modules.of(name)))


def judge_module(name: str, found: Transceiver | EthtoolFailure) -> Finding:
    if isinstance(found, EthtoolFailure) and found.reason is Reason.NOT_SUPPORTED:
        reason = "The port has no module that can be read."
        return not_applicable(NotApplicable.NO_SUCH_HARDWARE, reason, name)
    if isinstance(found, EthtoolFailure) or found.failures:
        refused = found if isinstance(found, EthtoolFailure) else found.failures[0]
        return unknown(name, reason=f"ethtool: {refused.sentence}")
    # Copper has nothing to measure; optics without diagnostics say nothing, good or bad.
    flags = ("without diagnostics",) if found.alarms is None else found.alarms or ("no alarm",)
    kind = " ".join(part for part in (found.identifier, found.vendor, found.part_number) if part)
    observed = f"{kind}: {', '.join(flags[:4])}"
    if not found.alarms:
        return passed(name, observed=observed, expected="no alarm")
    if any(flag.lower().endswith("alarm") for flag in found.alarms):
        reason = "The module is out of the range in which it works: replace or clean it."
        return failed(name, observed=observed, expected="no alarm", reason=reason)
    reason = "The module is near the end of the range in which it works."
    return warned(name, observed=observed, expected="no alarm", reason=reason)
