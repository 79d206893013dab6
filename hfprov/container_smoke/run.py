"""Run the smoke test on a fleet: each node by itself, then all that can by name together.

Observing changes nothing; this starts two containers on each node, for seconds, and removes them.
"""

from __future__ import annotations

import functools
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hfprov.baseline import Baseline
from hfprov.checks.accelerator_scope import SOURCES, look
from hfprov.checks.registry import Facts
from hfprov.container_smoke.answers import DevicesTold, read_devices
from hfprov.container_smoke.declared import CPU, Wanted, wanted_of
from hfprov.container_smoke.judge import (
    DEVICES,
    IMAGE,
    MADE,
    NODES,
    RESULT,
    START,
    judge_devices,
    judge_image,
    judge_start,
)
from hfprov.container_smoke.known import size_for
from hfprov.container_smoke.launch import Heard, launch
from hfprov.container_smoke.together import Seat, Times, gather
from hfprov.declare.connection import Connection
from hfprov.diagnose import BUSY, refused
from hfprov.diagnosis import TOOLS
from hfprov.errors import ExitCode, HfprovError, NotUnderstoodError
from hfprov.evidence.identity import IDENTITY
from hfprov.evidence.system import BOOT_ID, PROCESSES
from hfprov.observe import Answer, in_parallel, observe
from hfprov.pairs.ends import ADDRESSES
from hfprov.reading import Read, once
from hfprov.record.errors import HostIdentityError
from hfprov.record.log import RunLog
from hfprov.record.model import HostState, Measurement
from hfprov.sweep import Fleet, HostVerdicts, known
from hfprov.verdict import Outcome, Verdict, unknown

PHASE = "container_smoke"
TEST_DEVICES = "container smoke devices"
TEST_NODES = "container smoke nodes"
WAIT = 60.0
"""Seconds that nodes wait for each other, unless told otherwise."""
_SECONDS = {CPU: 120.0}
_LOADING = 300.0
"""Seconds for a container whose image has to load torch from a cold disk."""
_MOST_SALT = 1_000_000
_NAMED = 8

OnHost = Callable[[HostVerdicts], None]
Say = Callable[[str], None]


@dataclass(slots=True)
class Tested:
    """One host on its way through the test."""

    host: str
    answer: Answer
    wanted: Wanted | None = None
    verdicts: list[Verdict] = field(default_factory=list)
    salt: int = 0
    heard: Heard | None = None
    told: DevicesTold | None = None
    seat: Seat | None = None


def container_smoke(
    fleet: Fleet,
    log: RunLog,
    *,
    wait: float = WAIT,
    on_host: OnHost = lambda _: None,
    say: Say = lambda _: None,
) -> dict[str, HostVerdicts]:
    """Test every host of the fleet; each is recorded. ``wait``: seconds for finding each other.

    Raises HostBusyError when another run works on a host.
    """
    hosts = tuple(fleet.baselines)
    log.acquire(hosts)
    log.states(hosts, HostState.MEASURING)
    say(f"containers by themselves on: {', '.join(hosts[:_NAMED])}{' ...' * (len(hosts) > _NAMED)}")
    jobs = [
        functools.partial(_alone, fleet.connections[host], baseline, fleet.deadline)
        for host, baseline in fleet.baselines.items()
    ]
    done = {one.host: one for one in in_parallel(jobs, at_once=fleet.at_once)}
    tested = [done[host] for host in hosts]
    _together(fleet, tested, wait, say)
    views = {}
    for one in tested:
        view = _recorded(fleet, one, log)
        views[one.host] = view
        on_host(view)
    log.release(hosts)
    return views


def exit_code(views: dict[str, HostVerdicts]) -> ExitCode:
    """As of any command; hosts of which nothing is required do not count."""
    tested = [
        view.outcome
        for view in views.values()
        if any(one.outcome is not Outcome.NOT_APPLICABLE for one in view.verdicts)
    ]
    if not tested:
        return ExitCode.NOTHING
    if Outcome.UNKNOWN in tested:
        return ExitCode.UNKNOWN
    return ExitCode.BAD if Outcome.FAIL in tested else ExitCode.GOOD


# -- each node by itself --------------------------------------------------------------------------


def _reads(baseline: Baseline) -> tuple[Read, ...]:
    reads = [BOOT_ID, ADDRESSES, *(tool.presence for tool in TOOLS)]
    for source in (IDENTITY, PROCESSES, *SOURCES):
        reads += source.reads(baseline)
    return once(reads)


def _alone(connection: Connection, baseline: Baseline, deadline: float) -> Tested:
    answer = observe(connection, _reads(baseline), deadline=deadline)
    tested = Tested(baseline.host, answer)
    if answer.observation is None:
        tested.verdicts.append(Verdict(MADE, unknown(reason=answer.error)))
        return tested
    wanted = wanted_of(baseline)
    if not isinstance(wanted, Wanted):
        tested.verdicts.append(Verdict(MADE, wanted))
        return tested
    try:
        busy = _busy(answer, baseline, wanted)
    except HfprovError as error:
        busy = Verdict(MADE, unknown(reason=error.message))
    if busy is not None:
        tested.verdicts.append(busy)
        return tested
    tested.wanted = wanted
    tested.salt = secrets.randbelow(_MOST_SALT)
    question = {"mode": "devices", "size": size_for(wanted.variant), "salt": tested.salt}
    seconds = _SECONDS.get(wanted.variant, _LOADING)
    tested.heard = launch(connection, wanted, question, seconds)
    _judge_alone(tested, tested.heard, wanted)
    return tested


def _busy(answer: Answer, baseline: Baseline, wanted: Wanted) -> Verdict | None:
    """Why accelerators must not be touched now; CPUs are only borrowed for a moment."""
    if wanted.variant == CPU or answer.observation is None:
        return None
    node = look(Facts(answer.observation, baseline), baseline)
    for tool in TOOLS:
        if tool.vendor in node.vendors:
            finding = refused(node, tool, answer.observation)
            if finding is not None:
                return Verdict(BUSY, finding)
    return None


def _judge_alone(tested: Tested, heard: Heard, wanted: Wanted) -> None:
    verdicts = tested.verdicts
    if heard.launched is None:
        verdicts.append(Verdict(START, unknown(wanted.engine, reason=heard.problem)))
        return
    verdicts.append(Verdict(START, judge_start(heard.launched, wanted)))
    image = judge_image(heard.launched, wanted)
    if image is not None:
        verdicts.append(Verdict(IMAGE, image))
    if heard.launched.status != "ran" or heard.launched.code:
        return
    try:
        tested.told = read_devices(heard.launched.stdout, heard.token)
    except NotUnderstoodError as error:
        reason = f"{error.message} It said: {heard.launched.last_words}"
        verdicts += [Verdict(one, unknown(reason=reason)) for one in (DEVICES, RESULT)]
        return
    verdicts += judge_devices(tested.told, heard.launched, wanted, tested.salt)


# -- the nodes together ---------------------------------------------------------------------------


def _together(fleet: Fleet, tested: Sequence[Tested], wait: float, say: Say) -> None:
    """Hosts of one variant meet; who could start no container is not waited for."""
    variants = {one.wanted.variant for one in tested if one.wanted is not None}
    for variant in sorted(variants):
        group = [one for one in tested if one.wanted is not None and one.wanted.variant == variant]
        able = {one.host: one.wanted for one in group if one.told is not None and one.wanted}
        names = tuple(one.host for one in group)
        say(f"looking for each other: {len(able)} of {len(names)} ({variant})")
        answers = {one.host: one.answer for one in group}
        times = Times(wait, wait + (60.0 if variant == CPU else _LOADING))
        seats = gather(fleet, names, able, answers, times)
        for one in group:
            one.seat = seats[one.host]
            one.verdicts.append(Verdict(NODES, one.seat.finding))


# -- the record -----------------------------------------------------------------------------------


def _measurements(one: Tested) -> list[Measurement]:
    """What the certificate refers to: how many devices were right, and which nodes were found."""
    if one.wanted is None or one.heard is None or one.answer.observation is None:
        return []
    launched = one.heard.launched
    conditions = {
        "engine": one.wanted.engine,
        "image_id": launched.image_id if launched else "",
        "image_digests": list(launched.image_digests) if launched else [],
        "boot_id": one.answer.observation.one(BOOT_ID).text.strip(),
    }
    parameters = {"image": one.wanted.image, "variant": one.wanted.variant}
    right = all(v.outcome is Outcome.PASS for v in one.verdicts if v.check in (DEVICES, RESULT))
    found = [
        Measurement(
            one.host,
            TEST_DEVICES,
            float(len(one.told.devices)) if one.told and right else None,
            "devices",
            parameters=parameters,
            conditions={**conditions, "versions": dict(one.told.versions) if one.told else {}},
            raw=one.heard.raw or one.heard.problem.encode(),
        )
    ]
    told = one.seat.told if one.seat is not None else None
    if one.seat is not None and one.seat.heard is not None:
        found.append(
            Measurement(
                one.host,
                TEST_NODES,
                float(len(told.members)) if told and told.digest else None,
                "nodes",
                parameters={**parameters, "rail": one.seat.rail},
                conditions={
                    **conditions,
                    "nodes": list(told.members) if told else [],
                    # NCCL, RCCL or what else carried the sum between the nodes.
                    "library": told.library if told else "",
                },
                raw=one.seat.heard.raw or one.seat.heard.problem.encode(),
            )
        )
    return found


def _recorded(fleet: Fleet, one: Tested, log: RunLog) -> HostVerdicts:
    host, answer = one.host, one.answer
    verdicts = tuple(fleet.waivers.annotate(host, one.verdicts))
    if answer.observation is None:
        log.not_observed(host, PHASE, answer.error, verdicts)
        return HostVerdicts(host, verdicts, reachable=False, reason=answer.error, hint=answer.hint)
    identity = known(Facts(answer.observation, fleet.baselines[host]), IDENTITY)
    for measured in _measurements(one):
        log.measured(measured)
    try:
        log.observed(host, PHASE, answer.raw, verdicts, identity=identity)
    except HostIdentityError as error:
        verdicts = tuple(Verdict(v.check, unknown(reason=error.message)) for v in verdicts)
        log.not_observed(host, PHASE, error.message, verdicts)
        return HostVerdicts(host, verdicts, reachable=False, reason=error.message, hint=error.hint)
    return HostVerdicts(
        host, verdicts, reachable=True, evidence_sha256=answer.digest, identity=identity
    )
