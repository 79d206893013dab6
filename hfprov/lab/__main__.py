"""``python -m hfprov.lab``: the practice rack by itself, for Molecule and tests."""

# ruff: noqa: T201 - a command line prints

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from hfprov.errors import ExitCode, LabError
from hfprov.lab.engines import ENGINES
from hfprov.lab.faults import faults
from hfprov.lab.image import SUITES
from hfprov.lab.rack import DEFAULT_NETWORK, Rack
from hfprov.lab.rack_status import RackStatus
from hfprov.lab.state import network_stacks


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        return _run(options)
    except LabError as error:
        print(f"error: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("Interrupted; 'down' removes what was made so far.", file=sys.stderr)
        return ExitCode.INTERRUPTED


def _run(options: argparse.Namespace) -> int:
    rack = Rack(options.dir, say=lambda text: print(text, file=sys.stderr, flush=True))
    match options.command:
        case "check":
            rack.check(options.engine)
        case "up":
            stacks = network_stacks(options.network)
            status = rack.up(
                options.nodes, engine=options.engine, suite=options.suite, stacks=stacks
            )
            _show(status, as_json=options.json)
        case "status":
            status = rack.status()
            _show(status, as_json=options.json)
            return ExitCode.GOOD if status.nodes else ExitCode.NOTHING
        case "down":
            print("The rack is gone." if rack.down() else "There was no rack.")
        case "reset":
            rack.reset(options.node)
        case "faults":
            for fault in faults():
                print(f"{fault.name:30} {fault.description} ({fault.trips})")
        case "break":
            print(rack.break_node(options.node, options.fault).description)
    return ExitCode.GOOD


def _show(status: RackStatus, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(asdict(status), indent=1, default=str))
        return
    for node in status.nodes:
        broken = f"  was broken by: {', '.join(node.faults)}" if node.faults else ""
        print(
            f"{node.name}  {node.address:15}  {node.data_address:15}  {node.network:8}  "
            f"{node.systemd}{broken}"
        )
    if status.nodes:
        print(f"inventory: {status.inventory}\nssh -F {status.ssh_config} {status.nodes[0].name}")
    else:
        print(f"There is no rack in '{status.directory}'.")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m hfprov.lab", description=__doc__)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--dir", help="the rack's directory (default: $HFPROV_LAB_DIR/rack)")
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name: str, text: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=text, description=text, parents=[common])

    check = command("check", "Say whether this machine can run a practice rack.")
    check.add_argument("--engine", choices=ENGINES, default="auto")
    up = command("up", "Bring up a rack, or what is missing of it.")
    up.add_argument("--nodes", type=int, default=3)
    up.add_argument("--engine", choices=ENGINES, default="auto")
    up.add_argument("--suite", choices=SUITES, default=SUITES[0])
    up.add_argument(
        "--network",
        default=",".join(DEFAULT_NETWORK),
        help="who configures the data NICs; a comma list repeats over the nodes (%(default)s)",
    )
    up.add_argument("--json", action="store_true")
    command("status", "Show the rack.").add_argument("--json", action="store_true")
    command("down", "Remove the rack.")
    command("reset", "Start nodes anew.").add_argument("node", nargs="+")
    command("faults", "List practice faults.")
    broken = command("break", "Break a node on purpose.")
    broken.add_argument("node")
    broken.add_argument("fault")
    return parser


if __name__ == "__main__":
    sys.exit(main())
