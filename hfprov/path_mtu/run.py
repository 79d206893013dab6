"""Test the paths between hosts: addresses first, then every path, then why some failed."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hfprov.errors import ExitCode, NoEvidenceError, NotUnderstoodError
from hfprov.observe import Answer, observe_many
from hfprov.pairs.ends import (
    ADDRESSES,
    ROLE,
    Endpoint,
    Rail,
    declared,
    endpoints,
    interfaces_of,
    rails,
)
from hfprov.pairs.explain import Cause, explain
from hfprov.path_mtu.paths import Path, paths
from hfprov.path_mtu.trial import SMALLER, Trial, ping_read, trial_of
from hfprov.reading import Read
from hfprov.record.log import RunLog
from hfprov.record.model import HostState, Measurement
from hfprov.sweep import Fleet
from hfprov.words import plural

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RailResult:
    """What was found in one rail."""

    rail: Rail
    trials: tuple[Trial, ...]
    """Every path at its full size, the failed ones at smaller sizes as well."""
    causes: tuple[Cause, ...]

    @property
    def full(self) -> tuple[Trial, ...]:
        """The trials at full size."""
        return tuple(one for one in self.trials if one.bytes == one.path.bytes)


@dataclass(frozen=True, slots=True)
class PathMtu:
    """What was found between all hosts."""

    run: str
    rails: tuple[RailResult, ...]
    untested: Mapping[str, str]
    """``host`` or ``host interface``: why it could not be tested."""
    code: ExitCode


def path_mtu(fleet: Fleet, log: RunLog, say: Say = lambda _: None) -> PathMtu:
    """Test the data interfaces of every host against those of the others; record what was found.

    Sends a few packets per path and changes nothing.
    """
    hosts = tuple(fleet.baselines)
    log.states(hosts, HostState.MEASURING)
    ends, untested = _ends(fleet)
    found, alone = rails(ends)
    untested |= {
        f"{end.host} {end.interface} {end.address}": "Nobody is in its network, to test it against."
        for end in alone
    }
    tested = []
    for rail in found:
        say(f"rail {rail.name}: {plural(len(rail.ends), 'host')}")
        tested.append(_test(fleet, rail, untested))
    results = tuple(tested)
    _record(log, results, hosts)
    return PathMtu(log.id, results, untested, _exit_code(results, untested))


def _ends(fleet: Fleet) -> tuple[list[Endpoint], dict[str, str]]:
    found: dict[str, list[Endpoint]] = {}
    untested: dict[str, str] = {}
    asked = dict.fromkeys(fleet.baselines, (ADDRESSES,))
    for answer in _observe(fleet, asked):
        names, wanted = declared(fleet.baselines[answer.host])
        try:
            seen = interfaces_of(answer)
        except (NoEvidenceError, NotUnderstoodError) as error:
            untested[answer.host] = error.message
            continue
        if not names:
            untested[answer.host] = f"It has no role '{ROLE}' with interfaces."
            continue
        found[answer.host], without = endpoints(answer.host, names, wanted, seen)
        untested |= {f"{answer.host} {name}": reason for name, reason in without.items()}
    ends = [end for host in fleet.baselines for end in found.get(host, ())]
    return ends, untested


def _observe(fleet: Fleet, reads: Mapping[str, Sequence[Read]]) -> Iterator[Answer]:
    return observe_many(reads, fleet.connections, at_once=fleet.at_once, deadline=fleet.deadline)


def _test(fleet: Fleet, rail: Rail, untested: dict[str, str]) -> RailResult:
    wanted = [(path, path.bytes) for path in paths(rail)]
    full = _try(fleet, wanted, untested)
    failed = [one.path for one in full if one.passed is False]
    smaller = [(path, size) for path in failed for size in SMALLER if size < path.bytes]
    more = _try(fleet, smaller, untested)
    known = {
        (one.path.source.host, one.path.target.host): one.passed
        for one in full
        if one.passed is not None
    }
    return RailResult(rail, (*full, *more), explain(known))


def _try(fleet: Fleet, wanted: Iterable[tuple[Path, int]], untested: dict[str, str]) -> list[Trial]:
    by_source: dict[str, list[tuple[Path, int]]] = defaultdict(list)
    for path, size in wanted:
        by_source[path.source.host].append((path, size))
    reads = {host: [ping_read(*one) for one in mine] for host, mine in by_source.items()}
    trials: list[Trial] = []
    for answer in _observe(fleet, reads):
        mine = by_source[answer.host]
        if answer.observation is None:
            untested[answer.host] = answer.error
            trials += [Trial(path, size, None, answer.error) for path, size in mine]
            continue
        for path, size in mine:
            try:
                trials.append(trial_of(path, size, answer.observation))
            except NoEvidenceError as error:
                trials.append(Trial(path, size, None, error.message))
    return trials


def _record(log: RunLog, results: Sequence[RailResult], hosts: Sequence[str]) -> None:
    """One measurement per host and rail: how many of its paths fail, and each of them."""
    for result in results:
        for end in result.rail.ends:
            mine = [one for one in result.trials if one.path.source == end]
            full = [one for one in mine if one.bytes == one.path.bytes]
            known = [one for one in full if one.passed is not None]
            trials = [
                [one.path.target.host, one.path.target.address, one.bytes, one.passed, one.reason]
                for one in mine
            ]
            log.measured(
                Measurement(
                    end.host,
                    "path mtu",
                    float(sum(not one.passed for one in known)) if known else None,
                    "failed paths",
                    parameters={
                        "interface": end.interface,
                        "address": end.address,
                        "rail": result.rail.name,
                        "bytes": end.wanted,
                    },
                    conditions={"paths": len(full), "known": len(known), "live_mtu": end.live},
                    raw=json.dumps(trials).encode(),
                )
            )
    log.states(hosts, HostState.OBSERVED)


def _exit_code(results: Sequence[RailResult], untested: Mapping[str, str]) -> ExitCode:
    full = [one for result in results for one in result.full]
    if untested or any(one.passed is None for one in full):
        return ExitCode.UNKNOWN
    if not full:
        return ExitCode.NOTHING
    return ExitCode.GOOD if all(one.passed for one in full) else ExitCode.BAD
