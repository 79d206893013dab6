"""The site that a command works on: declared hosts, and what works on them."""

from __future__ import annotations

import gc
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import typer

from hfprov import paths
from hfprov.cli.options import Selection
from hfprov.errors import NoHostsError

if TYPE_CHECKING:
    from hfprov.ahead import Ahead
    from hfprov.cli.declared import Declared
    from hfprov.converge import Tools
    from hfprov.sweep import Fleet

_GARBAGE = 100_000
"""Objects made and not yet freed that Python looks for garbage after, once all is loaded."""


@dataclass(frozen=True, slots=True)
class Site:
    """An inventory, resolved and validated: hosts, baselines, connections."""

    fleet: Fleet
    tools: Tools
    secrets: tuple[str, ...] = field(default=(), repr=False)


def open_site(
    chosen: Selection, *, at_once: int = 64, deadline: float = 90.0, observing: bool = False
) -> Site:
    """Read the inventory and resolve every baseline; raises on any problem.

    Contacts nothing, unless it is for a command that is ``observing`` next: then that has begun.
    """
    from functools import partial

    from hfprov.cli.declared import read, read_beside

    loading = _Loading(
        observing=observing and chosen.become_password is None,
        at_once=at_once,
        deadline=deadline,
    )
    reading = partial(read, chosen.inventory, chosen.limit, chosen.vault_password_files)
    try:
        declared = read_beside(reading, loading.load, loading.once_declared)
    except BaseException:
        loading.give_up()
        raise
    if not declared.baselines:
        raise NoHostsError("The inventory has no hosts.", hint="Add hosts to it.")
    for warning in declared.warnings:
        typer.echo(f"warning: {warning}", err=True)
    return _site(chosen, declared, at_once, deadline, loading.ahead)


class _Loading:
    """Loads what a command that contacts nodes needs besides its inventory: most of all there is.

    Hosts are logged in to as soon as they are known, and asked as soon as all checks are loaded.
    """

    def __init__(self, *, observing: bool, at_once: int, deadline: float) -> None:
        self._observing = observing
        self._at_once = at_once
        self._deadline = deadline
        self._has_checks = threading.Event()
        self.ahead: Ahead | None = None

    def load(self) -> None:
        import hfprov.ahead
        from hfprov.checks.registry import all_checks

        all_checks()
        self._has_checks.set()
        import hfprov.operate
        import hfprov.report.drift_text  # noqa: F401 - for whoever imports it next

        # All this stays: looking through it for garbage would take a tenth of a second each time.
        gc.freeze()
        gc.set_threshold(_GARBAGE)

    def once_declared(self, declared: Declared) -> None:
        """Called in a thread of its own, while this one loads."""
        if not self._observing:
            return
        from hfprov.ahead import Ahead

        ahead = Ahead(declared.connections, at_once=self._at_once, deadline=self._deadline)
        self.ahead = ahead
        self._has_checks.wait()

        if not self._observing:
            ahead.close()
            return
        from hfprov.judge import wanted_reads

        ahead.ask(wanted_reads(declared.baselines))

    def give_up(self) -> None:
        """Ask nobody: there will be no command."""
        self._observing = False
        self._has_checks.set()


def _site(
    chosen: Selection, declared: Declared, at_once: int, deadline: float, ahead: Ahead | None
) -> Site:
    from dataclasses import replace

    from hfprov.certificate.waivers import NO_WAIVERS, load_waivers
    from hfprov.converge import Tools
    from hfprov.sweep import Fleet

    connections, secrets = declared.connections, declared.secrets
    if chosen.become_password is not None:
        connections = {
            name: replace(one, become_password=chosen.become_password)
            for name, one in connections.items()
        }
        secrets += (chosen.become_password,)
    waivers = load_waivers(chosen.waivers) if chosen.waivers else NO_WAIVERS
    fleet = Fleet(declared.baselines, connections, at_once, deadline, waivers, ahead)
    tools = Tools(
        inventory=chosen.inventory,
        playbook=declared.playbook,
        config=paths.ansible_config(),
        roles_path=paths.roles_dir(),
        vault_password_files=chosen.vault_password_files,
        become_password=chosen.become_password,
    )
    return Site(fleet, tools, secrets)
