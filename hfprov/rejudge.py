"""Judge recorded evidence again, offline: the same evidence and baseline give the same verdicts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from hfprov.baseline import Baseline, Value
from hfprov.checks.registry import Facts
from hfprov.errors import UsageError
from hfprov.evidence.identity import IDENTITY
from hfprov.judge import judge_facts
from hfprov.observe import parse_answer
from hfprov.record.store import Record
from hfprov.sweep import HostVerdicts, known

SCHEMA = "hfprov.evidence/1"


class _Recorded(BaseModel):
    model_config = ConfigDict(extra="ignore")

    value: Any
    origin: str = ""
    secret: bool = False


class _Declared(BaseModel):
    model_config = ConfigDict(extra="ignore")

    roles: tuple[str, ...]
    values: dict[str, _Recorded]


class Bundle(BaseModel):
    """An evidence file: what one host answered, and the baseline that it was held against."""

    model_config = ConfigDict(extra="ignore")

    schema_: str
    host: str
    run: str
    phase: str
    baseline: _Declared
    observation: dict[str, Any]


def evidence_document(record: Record, run: str, host: str) -> dict[str, Any]:
    """The newest evidence of a host in a run, as a document that :func:`rejudge` takes.

    Raises RecordError without such a run or evidence, UsageError if the host was not in it.
    """
    view = record.run(run)
    try:
        found = view.host(host)
    except KeyError:
        raise UsageError(f"Host '{host}' was not part of run '{view.id}'.") from None
    phase = found.latest.phase if found.latest else ""
    raw = record.evidence(view.id, host, phase or None)
    return {
        "schema": SCHEMA,
        "host": host,
        "run": view.id,
        "phase": phase,
        "baseline": record.baseline(found.baseline_digest),
        "observation": json.loads(raw),
    }


def rejudge(document: Mapping[str, Any]) -> HostVerdicts:
    """Verdicts from an evidence document. Raises UsageError or RemoteError when it is not one."""
    if document.get("schema") != SCHEMA:
        raise UsageError(
            f"The evidence is of schema '{document.get('schema')}', not '{SCHEMA}'.",
            hint="Write one with 'hfprov evidence RUN HOST'.",
        )
    try:
        bundle = Bundle.model_validate({**document, "schema_": SCHEMA})
    except ValidationError as error:
        where = "; ".join(".".join(map(str, one["loc"])) for one in error.errors()[:5])
        raise UsageError(f"The evidence document is incomplete or wrong at: {where}.") from error
    values = {
        name: Value(one.value, one.origin, one.secret)
        for name, one in bundle.baseline.values.items()
    }
    baseline = Baseline(bundle.host, bundle.baseline.roles, values)
    facts = Facts(parse_answer(json.dumps(bundle.observation).encode()), baseline)
    return HostVerdicts(
        bundle.host,
        tuple(judge_facts(facts, baseline)),
        reachable=True,
        identity=known(facts, IDENTITY),
    )
