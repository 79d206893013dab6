"""Results of real workloads, told by whoever ran them: a JSON file in, measurements out.

A training run or an inference service is measured like anything else: with its conditions, so that
the next one can be compared with it.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hfprov.errors import UsageError
from hfprov.record.model import Measurement

_Name = Annotated[str, Field(min_length=1, max_length=200)]
_MOST_BYTES = 4 << 20


class Metric(BaseModel):
    """One figure of a workload: samples/s, p99 latency, peak memory, share of communication."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    name: _Name
    unit: _Name
    samples: tuple[float, ...] = Field(min_length=1, max_length=100_000)
    higher_is_better: bool = True


class Workload(BaseModel):
    """One run of a workload on some hosts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    workload: _Name
    """What ran: ``llama-70b training``."""
    kind: Literal["training", "inference", "other"]
    hosts: tuple[_Name, ...] = Field(min_length=1, max_length=100_000)
    metrics: tuple[Metric, ...] = Field(min_length=1, max_length=1000)
    conditions: Mapping[str, str | int | float | bool | None] = {}
    """Whatever else must be the same for a comparison: image, batch size, precision, code."""


def read_workload(path: Path) -> Workload:
    """A workload's file. Raises UsageError with every problem of it."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise UsageError(f"'{path}' has more than {_MOST_BYTES} bytes.")
        text = path.read_text("utf-8")
        return Workload.model_validate(json.loads(text))
    except OSError as error:
        raise UsageError(f"'{path}' cannot be read: {error.strerror}.") from error
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise UsageError(f"'{path}' is no JSON: {error}.") from error
    except ValidationError as error:
        problems = "\n".join(
            f"  {'.'.join(str(part) for part in one['loc']) or 'the file'}: {one['msg']}"
            for one in error.errors()
        )
        raise UsageError(
            f"'{path}' is no result of a workload:\n{problems}",
            hint="Its form is in docs/measurements.md.",
        ) from None


def measurements(found: Workload) -> list[Measurement]:
    """One measurement per host and metric; the other hosts are a condition."""
    return [
        Measurement(
            host,
            f"workload {found.workload} {metric.name}",
            statistics.median(metric.samples),
            metric.unit,
            parameters={"kind": found.kind, "higher_is_better": metric.higher_is_better},
            samples=metric.samples,
            conditions={**found.conditions, "hosts": list(found.hosts)},
        )
        for host in found.hosts
        for metric in found.metrics
    ]
