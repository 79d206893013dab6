"""Names that a person may have meant."""

from __future__ import annotations

import pytest

from hfprov.report.nearest import MOST, nearest

NAMES = (
    "mtu.live", "mtu.persistent", "mtu.rivals", "limits.session", "limits.systemd.files",
    "limits.systemd.defaults", "time.offset", "hardening.ssh.file", "accelerator.ecc_mode",
)  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "first"),
    [
        ("mtu-live", "mtu.live"),
        ("live.mtu", "mtu.live"),
        ("mtu.liev", "mtu.live"),
        ("offset", "time.offset"),
        ("MTU.LIVE", "mtu.live"),
        ("limits.sesion", "limits.session"),
        ("ecc", "accelerator.ecc_mode"),
        ("sshd", "hardening.ssh.file"),
        ("limits.systemd.default", "limits.systemd.defaults"),
    ],
)
def test_the_name_that_was_meant_comes_first(wanted, first):
    assert nearest(wanted, NAMES)[0] == first


def test_a_part_names_all_that_have_it():
    assert set(nearest("mtu", NAMES)) == {"mtu.live", "mtu.persistent", "mtu.rivals"}
    assert len(nearest("a", [f"a.x{n}" for n in range(9)])) == MOST


@pytest.mark.parametrize("wanted", ["", "...", "zebra", "qqqq.wwww"])
def test_what_is_like_nothing_has_no_neighbour(wanted):
    assert nearest(wanted, NAMES) == []
