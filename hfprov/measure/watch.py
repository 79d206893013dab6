"""Watch the traffic of nodes for some seconds. Changes nothing, and may be done while they work."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from hfprov.errors import ExitCode, NoEvidenceError, NotUnderstoodError
from hfprov.measure.traffic import TRAFFIC_READS, Counters, Traffic, between, counters
from hfprov.observe import observe_many
from hfprov.record.log import RunLog
from hfprov.record.model import HostState, Measurement
from hfprov.sweep import Fleet


@dataclass(frozen=True, slots=True)
class Watched:
    """What was seen of every host."""

    run: str
    traffic: Mapping[str, Traffic]
    unknown: Mapping[str, str]
    """By host: why nothing is known of it."""
    code: ExitCode


def watch(fleet: Fleet, log: RunLog, seconds: float) -> Watched:
    """Look twice, ``seconds`` apart, and record what went over each interface in between."""
    log.states(fleet.baselines, HostState.OBSERVING)
    unknown: dict[str, str] = {}
    before = _look(fleet, unknown)
    time.sleep(seconds)
    after = _look(fleet.only(before), unknown)
    traffic: dict[str, Traffic] = {}
    for host in fleet.baselines:
        if host in before and host in after:
            try:
                traffic[host] = between(before[host], after[host])
            except (NoEvidenceError, NotUnderstoodError) as error:
                unknown[host] = error.message
    for host, seen in traffic.items():
        _record(log, host, seen)
    log.states(fleet.baselines, HostState.OBSERVED)
    code = ExitCode.UNKNOWN if unknown else ExitCode.GOOD if traffic else ExitCode.NOTHING
    return Watched(log.id, traffic, unknown, code)


def _look(fleet: Fleet, unknown: dict[str, str]) -> dict[str, Counters]:
    found: dict[str, Counters] = {}
    reads = dict.fromkeys(fleet.baselines, TRAFFIC_READS)
    for answer in observe_many(
        reads, fleet.connections, at_once=fleet.at_once, deadline=fleet.deadline
    ):
        if answer.observation is None:
            unknown[answer.host] = answer.error
            continue
        try:
            found[answer.host] = counters(answer.observation)
        except NoEvidenceError as error:
            unknown[answer.host] = error.message
    return found


def _record(log: RunLog, host: str, seen: Traffic) -> None:
    for flow in seen.flows:
        log.measured(
            Measurement(
                host,
                "traffic",
                flow.packets,
                "packets/s",
                parameters={"interface": flow.interface, "seconds": round(seen.seconds, 1)},
                conditions={"mtu": flow.mtu, "retransmitted": seen.retransmitted},
                raw=json.dumps(asdict(flow)).encode(),
            )
        )
