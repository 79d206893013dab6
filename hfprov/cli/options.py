"""Options that several commands share, and what they open: inventory, baselines, record."""

from __future__ import annotations

import contextlib
import fnmatch
import getpass
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from hfprov.errors import UsageError

if TYPE_CHECKING:
    from hfprov.cli.site import Site
    from hfprov.record.log import RunLog
    from hfprov.record.store import Record

_URL_PASSWORD = re.compile(r"(://[^/@\s]*?:)[^/\s]*(@)")

InventoryOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--inventory",
        "-i",
        envvar="HFPROV_INVENTORY",
        metavar="PATH",
        help="Ansible inventory; may be repeated.",
    ),
]
ViewInventoryOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--inventory",
        "-i",
        metavar="PATH",
        help="Only hosts of this Ansible inventory; for '--limit' also $HFPROV_INVENTORY.",
    ),
]
LimitOption = Annotated[
    str | None,
    typer.Option(
        "--limit", "-l", metavar="PATTERN", help="Only these hosts or groups (Ansible pattern)."
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON document instead of text.")
]
DbOption = Annotated[
    str | None,
    typer.Option(
        "--db",
        envvar="HFPROV_DB",
        metavar="PLACE",
        help="The record: a file, or a PostgreSQL URL. Default: $XDG_STATE_HOME/hfprov/record.db.",
    ),
]
VaultOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--vault-password-file",
        metavar="PATH",
        help="File with a vault password; may be repeated.",
    ),
]
AskBecomeOption = Annotated[
    bool, typer.Option("--ask-become-pass", "-K", help="Ask for the sudo password.")
]
AtOnceOption = Annotated[
    int,
    typer.Option(
        "--at-once", min=1, max=1000, metavar="NUMBER", help="Hosts observed at the same time."
    ),
]
DeadlineOption = Annotated[
    float,
    typer.Option(
        "--deadline", min=1, metavar="SECONDS", help="Seconds for observing one host, in all."
    ),
]
WavesOption = Annotated[
    str | None,
    typer.Option(
        "--waves",
        metavar="SIZES",
        help="Sizes of the waves; the last one repeats. Default: 1,10%,100%.",
    ),
]
MaxFailuresOption = Annotated[
    str | None,
    typer.Option(
        "--max-failures",
        metavar="HOSTS",
        help="Hosts that may fail before it stops, a number or a share. Default: 10%.",
    ),
]


class Rollout(NamedTuple):
    """How hosts are changed one after the other, as the command line says it."""

    sizes: tuple[str, ...]
    budget: str


def rollout(waves: str | None, max_failures: str | None) -> Rollout:
    """What was given, and the usual where nothing was. Raises UsageError for what is no size."""
    from hfprov.rollout import DEFAULT_BUDGET, DEFAULT_WAVES, require_sizes

    sizes = DEFAULT_WAVES if waves is None else tuple(waves.split(","))
    budget = DEFAULT_BUDGET if max_failures is None else max_failures
    require_sizes(sizes, budget)
    return Rollout(sizes, budget)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which hosts a command is about, as the command line says it."""

    inventory: tuple[Path, ...]
    limit: str | None = None
    vault_password_files: tuple[Path, ...] = ()
    become_password: str | None = field(default=None, repr=False)
    waivers: Path | None = field(default_factory=lambda: _path_in("HFPROV_WAIVERS"))
    """Who answers for which findings; every command that judges shows it."""


def _path_in(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return Path(value) if value else None


def selection(
    inventory: list[Path] | None,
    limit: str | None,
    vault: list[Path] | None = None,
    *,
    ask_become_pass: bool = False,
) -> Selection:
    if not inventory:
        raise UsageError(
            "No inventory was given.",
            hint="Give one with '-i PATH', or set HFPROV_INVENTORY.",
        )
    password = None
    if ask_become_pass:
        password = _asked("sudo password")
    return Selection(tuple(inventory), limit, tuple(vault or ()), password)


def _asked(what: str) -> str:
    """A secret from the terminal. Raises UsageError where there is none to ask on."""
    with warnings.catch_warnings():
        # Without a terminal it would warn, and read from what may be a file.
        warnings.simplefilter("error", getpass.GetPassWarning)
        try:
            return str(typer.prompt(what, hide_input=True, err=True))
        except getpass.GetPassWarning as error:
            raise UsageError(
                f"There is no terminal to ask for the {what} on.",
                hint="Put it into a vault, as 'ansible_become_password'.",
            ) from error


def wanted_hosts(inventory: list[Path] | None, limit: str | None) -> Callable[[str], bool] | None:
    """Which hosts a view of the record is about; None: all of them.

    With an inventory the limit is an Ansible pattern, of hosts and groups as they are now. Without
    one it is a comma list of names with wildcards: the record remembers hosts, not groups.
    """
    if limit is None and not inventory:
        return None
    from_environment = os.environ.get("HFPROV_INVENTORY")
    if limit is None or inventory or from_environment:
        from hfprov.inventory import load

        paths = tuple(inventory or (Path(str(from_environment)),))
        names = frozenset(host.name for host in load(paths, limit=limit).hosts)
        return names.__contains__
    patterns = [one.strip() for one in limit.split(",") if one.strip()]
    return lambda name: any(fnmatch.fnmatchcase(name, one) for one in patterns)


def default_db() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "hfprov" / "record.db"


@contextlib.contextmanager
def open_record(db: str | None, *, create: bool = True) -> Iterator[Record]:
    """The record, opened; upgraded first if an older version wrote it."""
    from hfprov.record.store import Record

    where = db or str(default_db())
    if create and "://" not in where:
        folder = Path(where).expanduser().parent
        # A folder that was named is made, and no tree: a typo would begin a second history.
        with contextlib.suppress(FileNotFoundError):
            folder.mkdir(parents=db is None, exist_ok=True)
        if not folder.is_dir():
            raise UsageError(f"There is no folder '{folder}' for the record.", hint="Make it.")
    with Record.open(where, create=create) as record:
        yield record


@contextlib.contextmanager
def started(command: str, site: Site, db: str | None) -> Iterator[tuple[Record, RunLog]]:
    """The record, and a run of a command that contacts all hosts of a site, just begun."""
    with (
        open_record(db) as record,
        record.start_run(
            command, command_line(), site.fleet.baselines, secrets=site.secrets
        ) as log,
    ):
        yield record, log


def command_line() -> list[str]:
    """What was typed, for the record. Only the record's URL may carry a password; it is masked."""
    typed = [Path(sys.argv[0]).name, *sys.argv[1:]]
    return [_URL_PASSWORD.sub(r"\1********\2", word) for word in typed]
