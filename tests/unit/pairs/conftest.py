"""Racks of made-up hosts whose links are known."""

from __future__ import annotations

from itertools import permutations

import pytest


@pytest.fixture
def rack():
    """Which directed pairs of hosts pass, given what is broken."""

    def test_all(hosts, broken):
        return {(a, b): not broken(a, b) for a, b in permutations(hosts, 2)}

    return test_all
