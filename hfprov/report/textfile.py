"""Metrics of a run, put in the place of the last ones at once: node_exporter never reads half."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from hfprov.errors import UsageError
from hfprov.record.store import Record
from hfprov.report.content import Content
from hfprov.report.prometheus import write_prometheus

NAME = "hfprov.prom"
_MODE = 0o644
"""node_exporter runs as a user of its own."""


def require_writable(where: Path) -> None:
    """Raises UsageError now rather than after every host was observed."""
    folder = where if where.is_dir() else where.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise UsageError(
            f"Metrics cannot be written to '{where}': '{folder}' is no folder that can be written.",
            hint="Give node_exporter's '--collector.textfile.directory'.",
        )


def write_textfile(record: Record, where: Path, run: str = "last") -> Path:
    """Write the metrics of a run to a file, or as ``hfprov.prom`` into a folder; where it is.

    Raises UsageError when that cannot be written.
    """
    target = where / NAME if where.is_dir() else where
    with replacing(target, mode=_MODE) as out:
        write_prometheus(Content(record, run, datetime.now(UTC)), out)
    return target


@contextlib.contextmanager
def replacing(target: Path, *, mode: int | None = None) -> Iterator[TextIO]:
    """A file that takes the target's place when it is whole: nobody ever reads half a report.

    Raises UsageError when it cannot be written.
    """
    real = Path(os.path.realpath(target))
    beside = real.with_name(f".{real.name}.{secrets.token_hex(4)}")
    try:
        if real.exists() and not stat.S_ISREG(real.stat().st_mode):
            with real.open("w", encoding="utf-8", newline="") as out:  # a device or a pipe
                yield out
            return
        with beside.open("x", encoding="utf-8", newline="") as out:
            yield out
        if mode is not None:
            beside.chmod(mode)
        beside.replace(real)
    except OSError as error:
        raise UsageError(f"'{target}' cannot be written: {error.strerror}.") from error
    finally:
        beside.unlink(missing_ok=True)
