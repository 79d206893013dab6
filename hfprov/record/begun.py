"""Which run this process began last: what may be said of it when the process is interrupted.

Of its own, and with nothing to load: the command line asks also when nothing else was loaded yet.
"""

from __future__ import annotations

_runs: list[str] = []


def began(run_id: str) -> None:
    """Take note that a run is in the record, and will be there as interrupted."""
    _runs.append(run_id)


def latest() -> str:
    """Id of the run that was begun last by this process; "" when it has recorded nothing."""
    return _runs[-1] if _runs else ""
