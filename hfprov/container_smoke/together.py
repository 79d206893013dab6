"""Nodes look for each other by name, over their data interfaces, out of containers."""

from __future__ import annotations

import functools
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from hfprov.container_smoke.answers import NodesTold, read_nodes
from hfprov.container_smoke.declared import Wanted
from hfprov.container_smoke.judge import Meeting, judge_nodes
from hfprov.container_smoke.launch import Heard, launch
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.observe import Answer, in_parallel
from hfprov.pairs.ends import ROLE, Endpoint, declared, endpoints, interfaces_of, rails
from hfprov.sweep import Fleet
from hfprov.verdict import Finding, failed, unknown

PORT = 29511
"""Of the roll call; the communication library has the next one."""
_ENOUGH_TO_TELL = 3
"""With fewer nodes nobody can tell whose fault it is that they do not find each other."""


@dataclass(frozen=True, slots=True)
class Times:
    """How long a meeting may take, in seconds."""

    wait: float
    """For all to be found."""
    whole: float
    """For a container, its start included."""


@dataclass(frozen=True, slots=True)
class Seat:
    """How one host fared in the meeting."""

    finding: Finding
    rail: str = ""
    heard: Heard | None = None
    told: NodesTold | None = None


@dataclass(frozen=True, slots=True)
class _Round:
    """What every host answered with one of them as the root."""

    meeting: Meeting
    heard: Mapping[str, Heard]
    told: Mapping[str, NodesTold]
    problems: Mapping[str, str]

    @property
    def present(self) -> tuple[str, ...]:
        """Whom the root found, by its own word."""
        root = self.told.get(self.meeting.root)
        return root.members if root is not None else ()

    @property
    def met(self) -> bool:
        return len(self.present) > 1


def gather(
    fleet: Fleet,
    names: tuple[str, ...],
    able: Mapping[str, Wanted],
    answers: Mapping[str, Answer],
    times: Times,
) -> dict[str, Seat]:
    """Have the hosts in ``able`` meet; a seat for each of ``names``.

    If the root finds nobody, a second one is tried: one bad node must not make all look bad.
    """
    seats: dict[str, Seat] = {}
    ends, without = _ends(fleet, able, answers)
    for host in names:
        if host not in able:
            reason = "No container of it answered, so that it could not look for the others."
            seats[host] = Seat(unknown(reason=reason))
        elif host not in ends:
            seats[host] = Seat(without[host])
    if not ends:
        return seats
    hosts = tuple(ends)
    best = None
    for root in hosts[: 2 if len(hosts) >= _ENOUGH_TO_TELL else 1]:
        salt, secret = secrets.randbelow(1_000_000), secrets.token_hex(16)
        meeting = Meeting(names, salt, root, hosts, secret)
        best = _round(fleet, meeting, {host: able[host] for host in hosts}, ends, times)
        if best.met:
            break
    if best is not None:
        seats |= {host: _seat(host, able[host], best, ends[host]) for host in hosts}
    return seats


def _ends(
    fleet: Fleet, able: Mapping[str, Wanted], answers: Mapping[str, Answer]
) -> tuple[dict[str, Endpoint], dict[str, Finding]]:
    """The address of each host in the network that most of them have, and why some have none."""
    found: dict[str, list[Endpoint]] = {}
    without: dict[str, Finding] = {}
    for host in able:
        interfaces, wanted = declared(fleet.baselines[host])
        if not interfaces:
            reason = f"Over which interface to look is not declared: the role '{ROLE}' names it."
            without[host] = unknown(reason=reason)
            continue
        try:
            mine, reasons = endpoints(host, interfaces, wanted, interfaces_of(answers[host]))
        except (NoEvidenceError, NotUnderstoodError) as error:
            without[host] = unknown(reason=error.message)
            continue
        if mine:
            found[host] = mine
        else:
            why = " ".join(f"'{name}': {reason}" for name, reason in reasons.items())
            without[host] = failed("", observed="no address", expected="an address", reason=why)
    if len(found) == 1:
        return {host: mine[0] for host, mine in found.items()}, without
    known, _ = rails([end for mine in found.values() for end in mine])
    largest = max(known, key=lambda rail: len(rail.ends), default=None)
    chosen = {end.host: end for end in largest.ends} if largest else {}
    for host in found.keys() - chosen.keys():
        reason = "It has no address in the network in which most of the named nodes are."
        without[host] = failed("", observed="alone", expected="a common network", reason=reason)
    return {host: chosen[host] for host in found if host in chosen}, without


def _round(
    fleet: Fleet,
    meeting: Meeting,
    hosts: Mapping[str, Wanted],
    ends: Mapping[str, Endpoint],
    times: Times,
) -> _Round:
    jobs = []
    for host, wanted in hosts.items():
        question = {
            "mode": "nodes",
            "name": host,
            "names": list(meeting.names),
            "awaited": list(meeting.awaited),
            "root": meeting.root,
            "root_address": ends[meeting.root].address,
            "address": ends[host].address,
            "interface": ends[host].interface,
            "port": PORT,
            "wait": times.wait,
            "salt": meeting.salt,
            "secret": meeting.secret,
        }
        jobs.append(functools.partial(_one, fleet, host, wanted, question, times.whole))
    heard: dict[str, Heard] = {}
    told: dict[str, NodesTold] = {}
    problems: dict[str, str] = {}
    # All at the same time, or they could not meet.
    for host, one in in_parallel(jobs, at_once=len(jobs)):
        heard[host] = one
        try:
            told[host] = _understood(one)
        except NotUnderstoodError as error:
            problems[host] = error.message
    return _Round(meeting, heard, told, problems)


def _one(
    fleet: Fleet, host: str, wanted: Wanted, question: Mapping[str, object], seconds: float
) -> tuple[str, Heard]:
    return host, launch(fleet.connections[host], wanted, question, seconds)


def _understood(heard: Heard) -> NodesTold:
    launched = heard.launched
    if launched is None:
        raise NotUnderstoodError(heard.problem)
    if launched.status != "ran" or launched.code:
        raise NotUnderstoodError(
            f"Its container did not come to its end ({launched.status}, exit code "
            f"{launched.code}): {launched.last_words}"
        )
    return read_nodes(launched.stdout, heard.token)


def _seat(host: str, wanted: Wanted, done: _Round, end: Endpoint) -> Seat:
    rail, heard = end.network, done.heard[host]
    told = done.told.get(host)
    if told is None:
        return Seat(unknown(reason=done.problems[host]), rail, heard)
    finding = judge_nodes(told, wanted, host, done.meeting, done.present)
    return Seat(finding, rail, heard, told)
