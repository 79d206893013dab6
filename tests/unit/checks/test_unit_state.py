"""A mask below /run is gone after a reboot: nobody is told that the unit will not start then."""

from __future__ import annotations

import pytest

from hfprov.checks.unit_state import why_not_enabled

CHRONY = "chrony.service UnitFileState"


@pytest.mark.parametrize(
    "state", ["disabled", "masked", "", "static", "indirect", "wanted by nothing"]
)
def test_what_lasts_is_told_as_before(state):
    assert why_not_enabled(state, "It is not started.") == "It is not started."


@pytest.mark.parametrize("state", ["masked-runtime", "enabled-runtime", "linked-runtime"])
def test_what_the_next_boot_takes_away_is_told_so(state):
    assert "boot" in why_not_enabled(state, "")


def reasons(node, check_id):
    return {one.subject: one.reason for one in node.findings(check_id) if one.outcome != "pass"}


@pytest.mark.parametrize(
    ("state", "reason"),
    [("disabled", "not started at boot"), ("masked-runtime", "masked until the next boot")],
)
def test_reasons_of_checks(networkd, state, reason):
    shown = networkd.results["units of systemd"][0]
    shown["text"] = "\n\n".join(
        block.replace("UnitFileState=enabled", f"UnitFileState={state}")
        if "systemd-networkd.service" in block or "chrony.service" in block
        else block
        for block in shown["text"].split("\n\n")
    )
    assert reason in reasons(networkd, "mtu.rivals")["eth1"]
    assert reason in reasons(networkd, "time.daemon")[CHRONY]
