"""One wave of reboots: its hosts at the same time, then the proof that each came back right."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hfprov.converge import Progress
from hfprov.errors import HfprovError
from hfprov.observe import in_parallel
from hfprov.operate import Policy
from hfprov.reboot.boot import Boot, differences
from hfprov.reboot.hooks import Hook
from hfprov.reboot.node import Node, Patience
from hfprov.record.log import RunLog
from hfprov.record.model import HostState
from hfprov.rollout import reboot_needed
from hfprov.sweep import Fleet, HostVerdicts, sweep
from hfprov.verdict import GOOD_ENOUGH, Outcome

PHASE = "after reboot"


@dataclass(frozen=True, slots=True)
class Orders:
    """How every host is rebooted."""

    policy: Policy
    """Waves and budget; ``everything``: also hosts that no check wants rebooted."""
    only_plan: bool = False
    """Say who would be rebooted, and reboot nobody."""
    drain: Hook | None = None
    release: Hook | None = None
    patience: Patience = field(default_factory=Patience)
    kernel: str = ""
    """The kernel that must run afterwards; empty: the one that the baseline asks for, if any."""
    settle: float = 180.0
    """Seconds after a boot in which checks may become good: a clock is not set at once."""


@dataclass(slots=True)
class RebootReport:
    """What came of it."""

    rebooted: dict[str, tuple[Boot, Boot]] = field(default_factory=dict)
    """By host: the boots before and after, whether or not the second is good."""
    after: dict[str, HostVerdicts] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    drained: dict[str, str] = field(default_factory=dict)
    """Hosts that were drained and not released, and why: a person must look at them."""
    not_attempted: tuple[str, ...] = ()
    stopped: str = ""


class Wave:
    """One wave: its hosts are rebooted at the same time, and proven together."""

    def __init__(
        self,
        fleet: Fleet,
        before: Mapping[str, HostVerdicts],
        orders: Orders,
        log: RunLog,
        report: RebootReport,
        progress: Progress,
    ) -> None:
        self._fleet = fleet
        self._before = before
        self._orders = orders
        self._log = log
        self._report = report
        self._progress = progress
        self._stop = threading.Event()

    def run(self, hosts: Sequence[str]) -> None:
        jobs = [functools.partial(self._reboot_one, host) for host in hosts]
        back = []
        try:
            for host, boots, problem in in_parallel(jobs, at_once=self._fleet.at_once):
                if boots is not None:
                    self._report.rebooted[host] = boots
                    back.append(host)
                else:
                    self._report.failed[host] = problem
        finally:
            # Threads that still wait must not reboot anybody after an interrupt.
            self._stop.set()
        self._observe([host for host in hosts if host not in back])
        self._prove([host for host in hosts if host in back])

    def _reboot_one(self, host: str) -> tuple[str, tuple[Boot, Boot] | None, str]:
        """In a thread of its own. Whatever goes wrong is told, never raised."""
        node = Node(
            self._fleet.connections[host],
            self._fleet.baselines[host],
            self._orders.patience,
            self._stop,
        )
        try:
            before = node.boot()
            self._drain(node)
            if self._stop.is_set():
                return host, None, "Stopped before it was rebooted."
            self._log.state(host, HostState.REBOOTING, f"boot {before.kernel.boot_id}")
            node.order()
            after = node.wait_for_new_boot(before)
        except HfprovError as error:
            return host, None, error.message
        self._log.event(
            "rebooted",
            f"'{host}' runs kernel '{after.kernel.release}' (before: '{before.kernel.release}').",
            host=host,
            data={
                "boot_id": [before.kernel.boot_id, after.kernel.boot_id],
                "kernel": [before.kernel.release, after.kernel.release],
                "cmdline": [before.kernel.cmdline, after.kernel.cmdline],
                "drivers": [dict(before.drivers), dict(after.drivers)],
                "devices": [dict(before.devices), dict(after.devices)],
            },
        )
        return host, (before, after), ""

    def _drain(self, node: Node) -> None:
        host = node.host
        if self._orders.drain is not None:
            # Told before it is done: a drain that a crash has cut off may have taken effect.
            self._log.event("drain", "The drain hook is run.", host=host)
            self._report.drained[host] = "It was not released."
            self._orders.drain.run(host, self._log.id)
        node.wait_until_idle()

    def _observe(self, hosts: Sequence[str]) -> None:
        """See hosts as they are now; those that did not come back are recorded as such."""
        seen = sweep(
            self._fleet.only(hosts),
            self._log,
            phase=PHASE,
            state=HostState.VERIFIED,
            on_host=self._progress.on_host,
        )
        self._report.after.update(seen)
        for host in hosts:
            if host in self._report.failed:
                self._fail(host, self._report.failed[host])

    # -- proof ----------------------------------------------------------------------------------

    def _prove(self, hosts: Sequence[str]) -> None:
        end = time.monotonic() + self._orders.settle
        waiting = list(hosts)
        while waiting:
            self._observe(waiting)
            if time.monotonic() > end:
                break
            waiting = [host for host in waiting if self._worse(host)]
            if waiting:
                time.sleep(self._orders.patience.poll)
        for host in hosts:
            problems = [*self._problems(host)]
            if problems:
                self._fail(host, " ".join(problems))
            else:
                self._give_back(host)

    def _problems(self, host: str) -> Iterator[str]:
        before, after = self._report.rebooted[host]
        yield from differences(before, after, release=self._orders.kernel)
        view = self._report.after[host]
        if not view.reachable:
            yield view.reason
            return
        if waiting := reboot_needed(view.verdicts):
            yield f"The reboot did not help, and there will be no second one: {waiting}"
        elif worse := self._worse(host):
            yield worse

    def _worse(self, host: str) -> str:
        """The first thing that is wrong after the reboot and was not before it."""
        view = self._report.after[host]
        if not view.reachable:
            return view.reason
        good = {
            (one.check, one.finding.subject)
            for one in self._before[host].verdicts
            if one.outcome in GOOD_ENOUGH or one.outcome is Outcome.NOT_APPLICABLE
        }
        for one in view.verdicts:
            wrong = one.outcome in (Outcome.FAIL, Outcome.UNKNOWN)
            if wrong and (one.check, one.finding.subject) in good:
                what = f"{one.check} {one.finding.subject}".strip()
                return f"{what} was good before the reboot: {one.finding.reason}"
        return ""

    def _give_back(self, host: str) -> None:
        if self._orders.release is None:
            return
        try:
            self._orders.release.run(host, self._log.id)
        except HfprovError as error:
            self._fail(host, error.message)
            return
        self._report.drained.pop(host, None)
        self._log.event("released", "The release hook has been run.", host=host)

    def _fail(self, host: str, problem: str) -> None:
        self._report.failed[host] = problem
        if host in self._report.drained:
            self._report.drained[host] = problem
        reachable = self._report.after[host].reachable
        self._log.state(host, HostState.FAILED if reachable else HostState.UNREACHABLE, problem)
