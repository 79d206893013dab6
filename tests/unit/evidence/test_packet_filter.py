"""The one question to nft: which tables are listed, and what is said when it fails."""

from __future__ import annotations

import subprocess

import pytest

from hfprov.evidence.packet_filter import NFT, OWN_TABLE, nft_tables
from hfprov.reading import Observation, Result

CHAINS = """\
table ip nat {
	chain PREROUTING {
		type nat hook prerouting priority dstnat; policy accept;
	}
}
table inet guard {
	chain in {
		type filter hook input priority filter; policy accept;
	}
	chain out {
		type filter hook output priority filter; policy accept;
	}
}
table ip forwarded {
	chain FORWARD {
		type filter hook forward priority filter; policy drop;
	}
}
"""
LEFT_OVER = f"table inet {OWN_TABLE} {{\n}}\n"
FAKE = """#!/bin/sh
case "$*" in
  *"list chains") printf '%s' "$CHAINS"; exit "$CODE" ;;
  *"list table "*) echo "$*" ;;
esac
"""


@pytest.fixture
def run(tmp_path):
    def run(chains, *, tool="nft", code=0):
        fake = tmp_path / tool
        fake.write_text(FAKE)
        fake.chmod(0o755)
        env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "CHAINS": chains, "CODE": str(code)}
        return subprocess.run(
            NFT.request["argv"], env=env, capture_output=True, text=True, timeout=20, check=False
        )

    return run


def listed(done):
    seen = Observation({NFT.id: (Result("", "ok", text=done.stdout, code=done.returncode),)})
    return [line.partition(" list table ")[2] for line in nft_tables(seen).splitlines()]


def test_tables_that_filter_what_comes_in_or_goes_out_are_listed_once(run):
    assert listed(run(CHAINS)) == ["inet guard"]


@pytest.mark.parametrize("chains", [CHAINS + LEFT_OVER, LEFT_OVER + CHAINS])
def test_the_roles_table_is_listed_though_nothing_is_in_it(run, chains):
    assert sorted(listed(run(chains))) == ["inet guard", f"inet {OWN_TABLE}"]


def test_the_roles_table_is_listed_once_where_it_filters(run):
    own = CHAINS.replace("table inet guard", f"table inet {OWN_TABLE}")
    assert listed(run(own)) == [f"inet {OWN_TABLE}"]


def test_an_nft_that_fails_is_seen(run):
    assert run(CHAINS, code=1).returncode == 1
