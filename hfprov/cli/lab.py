"""The practice rack: ``hfprov lab up | down | status | reset | break``."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hfprov.cli.options import JsonOption
from hfprov.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from hfprov.lab.rack import Rack

app = typer.Typer(
    help="Practice nodes on this machine: real systemd, real sshd.", no_args_is_help=True
)


def register(commands: typer.Typer) -> None:
    commands.add_typer(app, name="lab")


DirOption = Annotated[
    Path | None, typer.Option("--dir", help="The rack's directory. Default: $HFPROV_LAB_DIR/rack.")
]


def _rack(directory: Path | None) -> Rack:
    from hfprov.lab.rack import Rack

    return Rack(directory, say=lambda text: print(text, file=sys.stderr, flush=True))  # noqa: T201


@app.command()
def up(
    nodes: Annotated[
        int,
        typer.Option("--nodes", "-n", min=1, max=40, metavar="NUMBER", help="Nodes of the rack."),
    ] = 3,
    engine: Annotated[str, typer.Option("--engine", help="auto, container or vm.")] = "auto",
    suite: Annotated[
        str, typer.Option("--suite", help="Debian release of the nodes.")
    ] = "bookworm",
    network: Annotated[
        str,
        typer.Option("--network", help="Who configures the data NICs; repeats over the nodes."),
    ] = "networkd,networkd,ifupdown",
    directory: DirOption = None,
    as_json: JsonOption = False,
) -> int:
    """Bring up practice nodes, or what is missing of them."""
    from hfprov.lab.state import network_stacks

    status = _rack(directory).up(nodes, engine=engine, suite=suite, stacks=network_stacks(network))
    return _show(status, as_json=as_json)


@app.command()
def down(directory: DirOption = None) -> None:
    """Remove the rack and everything that was made for it."""
    typer.echo("The rack is gone." if _rack(directory).down() else "There was no rack.")


@app.command()
def status(directory: DirOption = None, as_json: JsonOption = False) -> int:
    """Show the nodes of the rack."""
    return _show(_rack(directory).status(), as_json=as_json)


@app.command()
def reset(
    node: Annotated[list[str], typer.Argument(help="Nodes to start anew, as if reinstalled.")],
    directory: DirOption = None,
) -> None:
    """Throw nodes away and start them anew."""
    _rack(directory).reset(node)
    names = ", ".join(dict.fromkeys(node))
    typer.echo(f"Started anew, as from the factory: {names}.")


@app.command("break")
def break_(
    node: Annotated[str | None, typer.Argument(help="The node to break.")] = None,
    fault: Annotated[str | None, typer.Argument(help="What to do to it.")] = None,
    list_faults: Annotated[bool, typer.Option("--list", help="Show the faults.")] = False,
    directory: DirOption = None,
) -> None:
    """Do to a node what goes wrong in real racks, to see it found."""
    from hfprov.lab.faults import faults
    from hfprov.report.terminal import print_table

    if list_faults:
        rows = [(one.name, one.description, one.trips) for one in faults()]
        print_table(("fault", "what it does", "trips"), rows)
        return
    if node is None or fault is None:
        raise UsageError("A node and a fault are needed.", hint="'--list' shows the faults.")
    typer.echo(_rack(directory).break_node(node, fault).description)


def _show(found: object, *, as_json: bool) -> int:
    from hfprov.lab.rack_status import RackStatus
    from hfprov.report.terminal import print_json, print_table

    assert isinstance(found, RackStatus)  # noqa: S101 - for the type checker
    if as_json:
        print_json({"schema": "hfprov.lab/1", **asdict(found)})
    elif not found.nodes:
        typer.echo(f"There is no rack in '{found.directory}'.")
    else:
        columns = ["node", "address", "data", "network", "state"]
        rows = [[n.name, n.address, n.data_address, n.network, n.systemd] for n in found.nodes]
        if any(n.faults for n in found.nodes):
            # What was done to a node is known; whether something repaired it, drift tells.
            columns.append("was broken by")
            for row, node in zip(rows, found.nodes, strict=True):
                row.append(", ".join(node.faults))
        print_table(columns, rows)
        typer.echo(f"inventory: {found.inventory}")
        typer.echo(f"log in:    ssh -F {found.ssh_config} {found.nodes[0].name}")
    return int(ExitCode.GOOD if found.nodes else ExitCode.NOTHING)
