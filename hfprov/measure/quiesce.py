"""Keep a node quiet while it is measured, and give it back as it was, whatever happens.

Only what starts by itself is stopped: timers that update, scan and index. Before one is stopped,
the node is told to start it again by itself after a while: if we die, nothing is left off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hfprov.declare.connection import Connection
from hfprov.errors import RemoteError
from hfprov.evidence.text import clean
from hfprov.remote import run

TIMERS = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dnf-automatic.timer",
    "dnf-makecache.timer",
    "e2scrub_all.timer",
    "fstrim.timer",
    "logrotate.timer",
    "man-db.timer",
    "mdcheck_start.timer",
    "mlocate-updatedb.timer",
    "plocate-updatedb.timer",
    "sysstat-collect.timer",
    "ua-timer.timer",
    "unattended-upgrades.timer",
)
"""Timers of Debian, Ubuntu and EL whose jobs read disks or take CPUs for a while."""
_UNIT = "hfprov-unquiesce"
_DEADLINE = 60.0

_QUIET = """\
set -eu
unit=$1 seconds=$2
shift 2
# A run that died has left its promise behind: kept now, before a new one is made.
if systemctl is-active --quiet "$unit.timer"; then
  systemctl start "$unit.service"
  systemctl stop "$unit.timer"
fi
active=
for timer in "$@"; do
  if systemctl is-active --quiet "$timer"; then active="$active $timer"; fi
done
[ -n "$active" ] || exit 0
systemd-run --quiet --collect --unit="$unit" --on-active="${seconds}s" systemctl start $active
systemctl stop $active
printf '%s\\n' $active"""
_LOUD = """\
set -eu
unit=$1
shift
systemctl start "$@"
systemctl stop "$unit.timer" 2>/dev/null || true"""


@dataclass(frozen=True, slots=True)
class Quiet:
    """What was stopped on a node, to be started again."""

    host: str
    timers: tuple[str, ...]


def quiesce(connection: Connection, seconds: float) -> Quiet:
    """Stop what would disturb, for ``seconds`` at most. Raises RemoteError when that fails."""
    told = run(
        connection,
        ["sh", "-c", _QUIET, "sh", _UNIT, str(int(seconds)), *TIMERS],
        deadline=_DEADLINE,
    )
    if told.code != 0:
        raise RemoteError(
            f"'{connection.host}' cannot be kept quiet: {told.stderr.strip() or told.code}"
        )
    names = clean(told.stdout.decode("utf-8", "backslashreplace")).split()
    return Quiet(connection.host, tuple(name for name in names if name in TIMERS))


def restore(connection: Connection, quiet: Quiet) -> str:
    """Start again what was stopped. Why that failed, or ``""``; the node then does it by itself."""
    if not quiet.timers:
        return ""
    argv: Sequence[str] = ["sh", "-c", _LOUD, "sh", _UNIT, *quiet.timers]
    try:
        told = run(connection, argv, deadline=_DEADLINE)
    except RemoteError as error:
        return error.message
    return "" if told.code == 0 else told.stderr.strip() or f"exit code {told.code}"
