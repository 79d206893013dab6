"""Where drift and check mode of Ansible disagree, somebody has written down why."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "agreement.py"


@pytest.fixture(scope="module")
def agreement():
    spec = importlib.util.spec_from_file_location("agreement", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def odd(agreement):
    results = agreement.load(agreement.RESULTS)
    return {
        (role, what)
        for role, some in results.items()
        for what, one in some.items()
        if agreement.disagrees(one)
    }


def test_every_disagreement_has_a_reason_and_every_reason_a_disagreement(agreement, odd):
    reasons = {
        (role, what): why
        for role, some in agreement.load(agreement.REASONS).items()
        for what, why in some.items()
    }
    assert sorted(odd - set(reasons)) == []
    assert sorted(set(reasons) - odd) == []
    assert all(len(why) > 40 for why in reasons.values())


def test_drift_sees_whatever_check_mode_sees(agreement):
    """The other way round there are reasons; this way there is none that we would accept."""
    results = agreement.load(agreement.RESULTS)
    blind = [
        (role, what)
        for role, some in results.items()
        for what, one in some.items()
        if one["check_mode"] and not one["drift"]
    ]
    assert blind == []
    assert sum(len(some) for some in results.values()) >= 250


def test_results_are_of_mutations_that_there_are(agreement):
    mutations = yaml.safe_load(agreement.MUTATIONS.read_text("utf-8"))
    known = {role: {one["what"] for one in some} for role, some in mutations.items()}
    for role, some in agreement.load(agreement.RESULTS).items():
        assert set(some) <= known[role], role


def test_the_page_is_up_to_date():
    done = subprocess.run(
        [sys.executable, SCRIPT, "--check"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=ROOT,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_disagreement_without_a_reason_is_seen_on_the_page(agreement):
    one = {"limits": {"x": {"drift": ["limits.session"], "check_mode": []}}}
    assert "**no reason given**" in agreement.page(one, {}, {})
    assert "nothing" in agreement.page(one, {"limits": {"x": "because"}}, {})


def test_what_nobody_measured_is_on_the_page(agreement):
    one = {"limits": {"x": {"drift": ["limits.session"], "check_mode": ["write"]}}}
    mutations = {"limits": [{"what": "x"}, {"what": "y"}], "rdma": [{"what": "z"}]}
    page = agreement.page(one, {}, mutations)
    assert "Not measured yet: 2." in page
    assert "| `limits` | y |\n| `rdma` | z |" in page
    assert "| `limits` | x |\n" not in page


def test_a_run_that_ends_early_has_something_of_each_role(agreement):
    tasks = [("a", {"what": "1"}), ("a", {"what": "2"}), ("b", {"what": "3"})]
    assert [one["what"] for _, one in agreement._by_turns(tasks)] == ["1", "3", "2"]
