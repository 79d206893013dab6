"""``hfprov schedule install | show | remove``: look for drift by a timer of systemd."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from hfprov.cli.drift import TextfileOption
from hfprov.cli.options import (
    DbOption,
    InventoryOption,
    JsonOption,
    LimitOption,
    Selection,
    VaultOption,
    default_db,
    selection,
)
from hfprov.errors import ExitCode, UsageError

app = typer.Typer(help="Look for drift by a timer of systemd.", no_args_is_help=True)


def register(commands: typer.Typer) -> None:
    commands.add_typer(app, name="schedule")


UserOption = Annotated[
    bool | None,
    typer.Option(
        "--user/--system", help="Units of this user, or of the machine. Default: machine for root."
    ),
]


def _is_user(user: bool | None) -> bool:
    return os.geteuid() != 0 if user is None else user


@app.command()
def install(
    at: Annotated[
        str, typer.Option("--at", help="When, as systemd.time(7) writes it.")
    ] = "*-*-* 02:30:00",
    inventory: InventoryOption = None,
    limit: LimitOption = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Repair what costs nobody anything, too.")
    ] = False,
    textfile: TextfileOption = None,
    on_failure: Annotated[
        str, typer.Option("--on-failure", help="Unit to start when something has drifted.")
    ] = "",
    db: DbOption = None,
    vault_password_file: VaultOption = None,
    user: UserOption = None,
    show_only: Annotated[
        bool, typer.Option("--print", help="Print the units; install nothing.")
    ] = False,
) -> None:
    """Install a timer that runs 'hfprov drift'. Every night, unless told otherwise."""
    from hfprov.report.textfile import require_writable
    from hfprov.schedule import Job, Systemd, check_calendar, units

    chosen = selection(inventory, limit, vault_password_file)
    if textfile is not None:
        require_writable(textfile)
    argv = _drift(chosen, db)
    if textfile is not None:
        argv += ["--textfile", str(textfile.absolute())]
    if repair:
        argv += ["--repair", "--only", "safe"]
    job = Job(tuple(argv), at, on_failure=on_failure)
    if show_only:
        if shutil.which("systemd-analyze"):  # it may be for another machine
            check_calendar(at)
        for name, text in units(job, user=_is_user(user)).items():
            typer.echo(f"# {name}\n{text}")
        return
    for written in Systemd(user=_is_user(user)).install(job):
        typer.echo(f"Written: {written}")
    typer.echo("'hfprov schedule show' says when it runs next, and how it went.")


def _drift(chosen: Selection, db: str | None) -> list[str]:
    """The command line of 'hfprov drift', which must hold from any folder."""
    argv = [sys.executable, "-m", "hfprov", "drift"]
    for path in chosen.inventory:
        argv += ["-i", str(_existing(path))]
    if chosen.limit is not None:
        argv += ["--limit", chosen.limit]
    argv += ["--db", _database(db)]
    for path in chosen.vault_password_files:
        argv += ["--vault-password-file", str(_existing(path))]
    return argv


def _existing(path: Path) -> Path:
    if not path.exists():
        raise UsageError(f"There is no '{path}'.", hint="Check the path.")
    return path.absolute()


def _database(db: str | None) -> str:
    where = db or str(default_db())
    if "://" not in where:
        return str(Path(where).expanduser().absolute())
    from sqlalchemy.engine import make_url

    if make_url(where).password:
        raise UsageError(
            "The record's URL holds a password, and everybody may read the units of systemd.",
            hint="Leave it out of the URL and put it into ~/.pgpass.",
        )
    return where


@app.command()
def show(user: UserOption = None, as_json: JsonOption = False) -> int:
    """Show what is installed, when it runs next, and how it went last."""
    from hfprov.report.terminal import print_json
    from hfprov.schedule import Systemd

    found = Systemd(user=_is_user(user)).status()
    # A service that never ran is shown by systemd as a success.
    last = found.service.get("ExecMainStartTimestamp") or None
    document = {
        "schema": "hfprov.schedule/1",
        "installed": bool(found.files),
        "next": found.timer.get("NextElapseUSecRealtime") or None,
        "last": last,
        "active": found.timer.get("ActiveState") == "active",
        "result": (found.service.get("Result") or None) if last else None,
        "exit_code": int(found.service.get("ExecMainStatus") or 0) if last else None,
        "units": dict(found.files),
    }
    if as_json:
        print_json(document)
    elif not found.files:
        typer.echo("Nothing is scheduled. 'hfprov schedule install' does that.")
    else:
        for path, text in found.files.items():
            typer.echo(f"# {path}\n{text}")
        active = "active" if document["active"] else "not active"
        typer.echo(f"timer: {active}; next {document['next'] or 'never'}")
        how = f"{last}; exit code {document['exit_code']} ({document['result']})"
        typer.echo(f"last run: {how if last else 'never'}")
    return int(ExitCode.GOOD if found.files else ExitCode.NOTHING)


@app.command()
def remove(user: UserOption = None) -> None:
    """Stop the timer and remove its units. The record stays."""
    from hfprov.schedule import Systemd

    gone = Systemd(user=_is_user(user)).remove()
    typer.echo("The schedule is gone." if gone else "Nothing was scheduled.")
