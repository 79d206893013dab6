"""Variables that belong to a job and not to a node: ``job_variables.yml``."""

from __future__ import annotations

from datetime import date
from enum import StrEnum
from functools import cache

from pydantic import BaseModel, ConfigDict, Field

from hfprov.catalogue.data import catalogue

JOB_VARIABLES = (
    *("CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING", "CUDA_CACHE_DISABLE"),
    *("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "NVIDIA_TF32_OVERRIDE"),
    *("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"),
    *("HSA_CU_MASK", "ROC_GLOBAL_CU_MASK", "HIP_LAUNCH_BLOCKING", "AMD_SERIALIZE_KERNEL"),
    "ASCEND_RT_VISIBLE_DEVICES",
    *("OMP_NUM_THREADS", "GOMP_CPU_AFFINITY", "LD_PRELOAD"),
)
"""The names of the file, which need not be read to ask a node for them."""


class Effect(StrEnum):
    """What it does to every job where nobody expects it."""

    TAKES_AWAY = "takes away"
    """Devices, or most of their speed."""
    CHANGES = "changes"
    """How fast it is, or how it is placed; some sites mean it."""


class JobVariable(BaseModel):
    """One row."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    effect: Effect
    advice: str = Field(min_length=1)
    source: str
    """A key of :attr:`JobVariables.sources`."""
    harmless: tuple[str, ...] = ()
    """Values that do nothing."""


class JobVariables(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sources: dict[str, str]
    checked_on: date
    variables: tuple[JobVariable, ...]

    def find(self, name: str) -> JobVariable | None:
        return next((one for one in self.variables if one.name == name), None)


@cache
def job_variables() -> JobVariables:
    """The catalogue. A mistake in it is a bug, and raises."""
    return JobVariables.model_validate(catalogue("job_variables.yml"))
