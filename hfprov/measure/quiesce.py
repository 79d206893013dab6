"""Keep a node quiet while it is measured, and give it back as it was, whatever happens.

Only what starts by itself is stopped: timers that update, scan and index. Before one is stopped,
the node is told to start it again by itself after a while: if we die, nothing is left off.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from hfprov.declare.connection import Connection
from hfprov.errors import RemoteError
from hfprov.evidence.text import clean
from hfprov.observe import in_parallel
from hfprov.remote import run
from hfprov.sweep import Fleet

TIMERS = (
    "anacron.timer",
    "apport-autoreport.timer",
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dnf-automatic.timer",
    "dnf-automatic-install.timer",
    "dnf-makecache.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "fstrim.timer",
    "fwupd-refresh.timer",
    "insights-client.timer",
    "logrotate.timer",
    "man-db.timer",
    "mdcheck_continue.timer",
    "mdcheck_start.timer",
    "mdmonitor-oneshot.timer",
    "mlocate-updatedb.timer",
    "motd-news.timer",
    "plocate-updatedb.timer",
    "raid-check.timer",
    "snapd.snap-repair.timer",
    "sysstat-collect.timer",
    "sysstat-summary.timer",
    "systemd-tmpfiles-clean.timer",
    "ua-timer.timer",
    "unattended-upgrades.timer",
    "update-notifier-download.timer",
    "update-notifier-motd.timer",
    "xfs_scrub_all.timer",
)
"""Timers of Debian, Ubuntu and EL whose jobs read disks or take CPUs for a while."""
UNIT = "hfprov-unquiesce"
"""The unit by which a node starts its timers again by itself."""
_DEADLINE = 60.0
_AT_WORK = 75
"""Exit code for a job of a timer that has begun: sysexits(3), try again later."""

_KEEP = """\
if systemctl is-active --quiet "$unit.timer"; then
  systemctl start "$unit.service"
  systemctl stop "$unit.timer"
fi"""
_QUIET = f"""\
set -eu
unit=$1 seconds=$2
shift 2
# A run that died has left its promise behind: kept now, before a new one is made.
{_KEEP}
active=
for timer in "$@"; do
  systemctl is-active --quiet "$timer" || continue
  active="$active $timer"
  case $(systemctl show --property=ActiveState --value "${{timer%.timer}}.service") in
    activating|reloading|active) echo "${{timer%.timer}}.service"; exit {_AT_WORK} ;;
  esac
done
[ -n "$active" ] || exit 0
systemd-run --quiet --collect --unit="$unit" --on-active="${{seconds}}s" systemctl start $active
systemctl stop $active
printf '%s\\n' $active"""
_LOUD = f"""\
set -eu
unit=$1
shift
[ $# = 0 ] || systemctl start "$@"
# The promise names all that was stopped, also where we were interrupted before we heard of it.
{_KEEP}"""


@dataclass(frozen=True, slots=True)
class Quiet:
    """What was stopped on a node, to be started again."""

    host: str
    timers: tuple[str, ...]


def quiesce(connection: Connection, seconds: float) -> Quiet:
    """Stop what would disturb, for ``seconds`` at most. Raises RemoteError when that fails."""
    told = run(
        connection,
        ["sh", "-c", _QUIET, "sh", UNIT, str(int(seconds)), *TIMERS],
        deadline=_DEADLINE,
    )
    if told.code == _AT_WORK:
        name = clean(told.stdout.decode("utf-8", "backslashreplace")).strip()[:80]
        raise RemoteError(f"'{name}' is at work on '{connection.host}': measure it later.")
    if told.code != 0:
        raise RemoteError(
            f"'{connection.host}' cannot be kept quiet: {told.stderr.strip() or told.code}"
        )
    names = clean(told.stdout.decode("utf-8", "backslashreplace")).split()
    return Quiet(connection.host, tuple(name for name in names if name in TIMERS))


def restore(connection: Connection, quiet: Quiet) -> str:
    """Start again what was stopped. Why that failed, or ``""``; the node then does it by itself."""
    argv: Sequence[str] = ["sh", "-c", _LOUD, "sh", UNIT, *quiet.timers]
    try:
        told = run(connection, argv, deadline=_DEADLINE)
    except RemoteError as error:
        return error.message
    return "" if told.code == 0 else told.stderr.strip() or f"exit code {told.code}"


@contextmanager
def quiet_nodes(
    fleet: Fleet, hosts: Sequence[str], seconds: float, say: Callable[[str], None]
) -> Iterator[dict[str, str]]:
    """Keep hosts quiet within the block. Gives, by host, why that was not possible.

    Afterwards, in every case, what was stopped is started again; a host that cannot be reached then
    does it by itself after ``seconds``.
    """
    begun: dict[str, Quiet] = {}

    def one(host: str) -> tuple[str, str]:
        begun[host] = Quiet(host, ())
        try:
            begun[host] = quiesce(fleet.connections[host], seconds)
        except RemoteError as error:
            return host, error.message
        return host, ""

    try:
        asked = in_parallel([functools.partial(one, host) for host in hosts], at_once=fleet.at_once)
        yield {host: reason for host, reason in asked if reason}
    finally:
        back = [functools.partial(_back, fleet.connections[host], begun[host]) for host in begun]
        for host, reason in in_parallel(back, at_once=fleet.at_once):
            if reason:
                say(f"{host}: timers are started again by the node itself, later: {reason}")


def _back(connection: Connection, quiet: Quiet) -> tuple[str, str]:
    return quiet.host, restore(connection, quiet)
