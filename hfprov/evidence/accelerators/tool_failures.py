"""A tool's own sentence of failure as a vendor-neutral one."""

from __future__ import annotations

from hfprov.evidence.accelerators.model import Failure, Report, Vendor
from hfprov.evidence.failures import FailureKind, ToolFailure

_KINDS = {
    FailureKind.NO_DEVICES: Failure.NO_DEVICES,
    FailureKind.DRIVER_NOT_LOADED: Failure.DRIVER,
    FailureKind.VERSION_MISMATCH: Failure.MISMATCH,
    FailureKind.DEVICE_ERROR: Failure.DEVICE,
    FailureKind.NOT_READY: Failure.DEVICE,
    FailureKind.TOOL_MISSING: Failure.MISSING,
}


def failed_report(vendor: Vendor, said: ToolFailure) -> Report:
    """The report of a tool that says that it cannot answer."""
    return Report(vendor, failure=_KINDS.get(said.kind, Failure.OTHER), message=said.sentence)
