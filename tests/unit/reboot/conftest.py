"""Boots to compare, and nodes that follow a script instead of rebooting."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hfprov.errors import NoEvidenceError, NotUnderstoodError, RemoteError
from hfprov.evidence.system import Kernel
from hfprov.observe import Answer
from hfprov.reading import Observation
from hfprov.reboot import node
from hfprov.reboot.boot import Boot
from hfprov.remote import Output

OLD = Boot(
    Kernel("6.1.0-1", "a" * 36, "quiet"),
    "running",
    {"3D controllers": 8, "Ethernet controllers": 4, "CPUs": 64},
    1007.5,
    {"nvidia": "535.1", "mlx5_core": "5.8"},
)
NEW = replace(OLD, kernel=Kernel("6.12.1", "b" * 36, "quiet"))
STARTING = replace(NEW, state="starting")
GONE = RemoteError("No route to host.")
_RAISED = (RemoteError, NoEvidenceError, NotUnderstoodError)


class Script:
    """What looks at a node see, one after the other; the last one stays."""

    def __init__(self) -> None:
        self.looks = [OLD]
        self.workloads: list[tuple[str, ...]] = [()]
        self.order = Output(b"", "", 0)
        self.rebooted: list[str] = []
        self.after_order: dict[str, list[object]] = {}

    def next_look(self, host: str):
        looks = self.looks
        if host in self.rebooted:
            looks = self.after_order.setdefault(host, [NEW])
        seen = looks.pop(0) if len(looks) > 1 else looks[0]
        if isinstance(seen, _RAISED):
            raise seen
        return seen


@pytest.fixture
def script(monkeypatch):
    """Nodes without a network; only what is read of them and the order to reboot are replaced."""
    following = Script()
    monkeypatch.setattr(
        node, "observe", lambda connection, *_, **__: Answer(connection.host, Observation({}))
    )
    monkeypatch.setattr(node, "boot_of", lambda _, baseline: following.next_look(baseline.host))
    work = following.workloads

    class Work:
        workloads = property(lambda _: work.pop(0) if len(work) > 1 else work[0])

    monkeypatch.setattr(
        node,
        "PROCESSES",
        type("Source", (), {"reads": lambda *_: (), "parse": lambda *_: Work()})(),
    )

    def run(connection, argv, **_):
        assert argv == ["systemctl", "reboot"]
        following.rebooted.append(connection.host)
        if isinstance(following.order, Exception):
            raise following.order
        return following.order

    monkeypatch.setattr(node, "run", run)
    return following
