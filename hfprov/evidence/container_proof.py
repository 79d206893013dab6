"""The kept proof that a container gets what is declared, and what it depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NotUnderstoodError
from hfprov.evidence.container_engine import SETTINGS, STARTED, engine_of
from hfprov.evidence.container_node import CDI_SPECS
from hfprov.evidence.text import clean, number
from hfprov.reading import Observation, Read, Result, Source, command, complete_text, file

STAMP_PATH = "/var/lib/hfprov/container_runtime.json"
_STAMP = file(STAMP_PATH, limit=256 * 1024)


def _time_reads(baseline: Baseline) -> tuple[Read, ...]:
    engine = engine_of(baseline)
    if engine not in STARTED:
        return ()
    paths = (STARTED[engine], *SETTINGS[engine])
    return (command("find", *paths, "-maxdepth", "0", "-printf", "%T@ %p\\n"),)


def _parse_times(seen: Observation, baseline: Baseline) -> Mapping[str, float]:
    # find ends with 1 when one of the places is not there.
    return {
        path: number(seconds)
        for read in _time_reads(baseline)
        for line in clean(seen.text(read, codes=(0, 1))).splitlines()
        for seconds, _, path in [line.partition(" ")]
    }


TIMES: Source[Mapping[str, float]] = Source(
    "times of the runtime's files", _time_reads, _parse_times
)
"""When each file was last written, and when the daemon was started: seconds by path."""


class Proof(Struct, frozen=True):
    """What a container got, and with which settings; kept by the role."""

    result: Result
    engine: str
    version: str
    driver: str
    files: Mapping[str, str]
    """SHA-256 by path, as it was then; "" of a file that was not there."""
    specs: Mapping[str, str]
    ulimits: Mapping[str, tuple[int, int]]
    """Soft and hard, in bytes where they are bytes; -1 is unlimited."""
    shm_mib: int
    pids_max: str
    """Empty where the container could not see it."""
    given: Mapping[str, Mapping[str, bool]]
    """By CDI name or runtime, each device that came with it: whether it could be opened."""


def parse_proof(result: Result) -> Proof:
    """Raises NotUnderstoodError when it is not what the role writes."""
    try:
        found = json.loads(result.text)
        seen = found["seen"]
        limits = {str(name): (int(a), int(b)) for name, (a, b) in seen["ulimits"].items()}
        given = {
            str(name): {str(path): ok is True for path, ok in paths.items()}
            for name, paths in seen["given"].items()
        }
        return Proof(
            result,
            str(found["engine"]),
            str(found["version"]),
            str(found["driver"]),
            dict(found["files"]),
            dict(found["specs"]),
            limits,
            int(seen["shm_mib"]),
            str(seen["pids_max"]),
            given,
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NotUnderstoodError(f"'{STAMP_PATH}' is not as the role writes it.") from error


def _parse_stamp(seen: Observation, _: Baseline) -> Proof | None:
    result = seen.one(_STAMP)
    if result.status == "absent":
        return None
    complete_text(_STAMP, result)
    return parse_proof(result)


PROOF: Source[Proof | None] = Source("proof of the runtime", lambda _: (_STAMP,), _parse_stamp)


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _digests(seen: Observation) -> Iterator[tuple[str, str]]:
    for read in CDI_SPECS:
        for result in seen.each(read):
            if result.name.endswith((".json", ".yaml")):
                yield result.name, sha256(complete_text(read, result))


SPEC_DIGESTS: Source[Mapping[str, str]] = Source(
    "digests of CDI", lambda _: CDI_SPECS, lambda seen, _: dict(_digests(seen))
)

_DRIVERS = {
    "nvidia": file("/sys/module/nvidia/version", limit=4096),
    "amd": file("/sys/module/amdgpu/version", limit=4096),
}


def _parse_drivers(seen: Observation, _: Baseline) -> Mapping[str, str]:
    return {
        name: clean(complete_text(read, seen.one(read))).strip()
        for name, read in _DRIVERS.items()
        if seen.one(read).status != "absent"
    }


DRIVERS: Source[Mapping[str, str]] = Source(
    "loaded accelerator drivers", lambda _: tuple(_DRIVERS.values()), _parse_drivers
)
"""Version by vendor, of the drivers that are loaded and tell one."""
