"""What a node's systemd says over D-Bus is what systemctl and busctl say on the node."""

from __future__ import annotations

import shlex

import pytest

from hfprov.evidence.systemd import parse
from hfprov.evidence.systemd_units import manager, shown_manager, shown_units, units
from hfprov.evidence.unit_limits import REMOVE_IPC
from hfprov.inventory import load
from hfprov.observe import observe

pytestmark = pytest.mark.lab

STATES = ("Id", "LoadState", "ActiveState", "SubState")
ITSELF = ("DefaultTasksMax", "DefaultLimitSTACK", "NFailedUnits", "SystemState", "Virtualization")
GONE = "there-is-none.service"
FAILING = "hfprov-test-fails.service"


@pytest.fixture
def node(light):
    """A node with a unit that fails, an alias and a masked unit."""
    mask = "mask --runtime cron.timer"
    light.inside("node01", f"systemd-run --no-block --unit={FAILING} false; systemctl {mask}")
    state = f"systemctl show -p ActiveState {FAILING}"
    light.until(lambda: "failed" in light.inside("node01", state))
    yield light
    light.inside("node01", f"systemctl reset-failed {FAILING}; systemctl un{mask}")


def seen(node, *reads):
    (host,) = load((node.inventory,), limit="node01").hosts
    answer = observe(host.connection, reads)
    assert answer.observation is not None, answer.error
    return answer.observation


def test_units_are_in_the_state_that_systemctl_shows(node):
    listed = node.inside("node01", "systemctl list-unit-files --plain --no-legend").splitlines()
    names = [name for name in (line.split()[0] for line in listed) if "@" not in name]
    names += [GONE, FAILING, "user@0.service", "cron.timer"]
    assert {"ssh.service", "sshd.service"} < set(names)
    read = units(*names, properties=["ActiveState"])
    _, found = shown_units(seen(node, read), read)
    asked = f"systemctl show -p {','.join(STATES)} -- {shlex.join(found)}"
    for name, shown in zip(found, parse(node.inside("node01", asked)), strict=True):
        assert {key: found[name][key] for key in STATES} == dict(shown), name
    assert found[GONE]["LoadState"] == "not-found"
    assert found[FAILING]["ActiveState"] == "failed"
    # None of them had to be shown.
    assert "MainPID" not in seen(node, read).text(read)


def test_a_unit_with_two_names_is_shown_under_both(node):
    read = units("ssh.service", "sshd.service", properties=["LimitNOFILE", "UnitFileState"])
    _, found = shown_units(seen(node, read), read)
    wanted = node.inside("node01", "systemctl show -p LimitNOFILE --value ssh.service").strip()
    assert {one["LimitNOFILE"] for one in found.values()} == {wanted}
    assert list(found) == ["ssh.service", "sshd.service"]


def test_systemd_says_of_itself_what_systemctl_shows(node):
    read = manager(ITSELF)
    observation = seen(node, read)
    found, failed = shown_manager(observation, read)
    shown = parse(node.inside("node01", f"systemctl show -p {','.join(ITSELF)}"))[0]
    assert dict(found) == dict(shown)
    assert FAILING in failed.split()
    # systemctl has an order of its own: this was not its answer.
    assert observation.text(read).startswith("DefaultLimitSTACK=1844674407")


def test_logind_is_asked_over_the_bus_of_all(node):
    (read,) = REMOVE_IPC.reads(None)
    observation = seen(node, read)
    assert observation.text(read).startswith("RemoveIPC=")
    assert (
        REMOVE_IPC.parse(observation, None)
        == node.inside("node01", f"{' '.join(read.request['argv'])}").strip()
    )
