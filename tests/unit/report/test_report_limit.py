"""Views of some hosts of the record only."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

from hfprov.cli.commands import build
from hfprov.cli.options import wanted_hosts
from hfprov.errors import UsageError
from hfprov.report.content import FLEET, Content

NAMES = ["node01", "node02", "other07", "other08"]


@pytest.fixture
def views(rack, tmp_path, monkeypatch):
    monkeypatch.delenv("HFPROV_INVENTORY", raising=False)
    rack.write(NAMES)
    rack.run("other08", rack.drifted(), code=1)

    def ask(*words):
        return CliRunner().invoke(build(), [*words, "--db", str(tmp_path / "record.db")])

    return ask


def test_without_an_inventory_a_limit_is_names_with_wildcards(monkeypatch):
    monkeypatch.delenv("HFPROV_INVENTORY", raising=False)
    assert wanted_hosts(None, None) is None
    wanted = wanted_hosts(None, "node*, other08")
    assert [name for name in NAMES if wanted(name)] == ["node01", "node02", "other08"]


def test_with_an_inventory_it_is_an_ansible_pattern(tmp_path, monkeypatch):
    monkeypatch.delenv("HFPROV_INVENTORY", raising=False)
    path = tmp_path / "hosts.yml"
    path.write_text("rack:\n  hosts: {node01: , node02: }\nelse:\n  hosts: {other07: }\n")
    assert [name for name in NAMES if wanted_hosts([path], "rack:!node01")(name)] == ["node02"]
    assert [name for name in NAMES if wanted_hosts([path], None)(name)] == NAMES[:3]
    monkeypatch.setenv("HFPROV_INVENTORY", str(path))
    assert wanted_hosts(None, None) is None
    assert [name for name in NAMES if wanted_hosts(None, "else")(name)] == ["other07"]


def test_runs_of_some_hosts(views):
    assert len(json.loads(views("runs", "--json").stdout)["runs"]) == 3
    assert len(json.loads(views("runs", "--json", "--limit", "node*").stdout)["runs"]) == 2
    assert json.loads(views("runs", "--json", "--limit", "nobody").stdout)["runs"] == []


def test_show_tells_of_these_hosts_only(views):
    second = json.loads(views("runs", "--json").stdout)["runs"][1]["run"]
    document = json.loads(views("show", second, "--json", "--limit", "other*").stdout)
    assert [one["host"] for one in document["hosts"]] == ["other07", "other08"]
    first = json.loads(views("runs", "--json").stdout)["runs"][2]["run"]
    document = json.loads(views("show", first, "--json", "--limit", "node01").stdout)
    assert {one["host"] for one in document["changes"]} == {"node01"}


def test_history_of_several_hosts(views):
    text = views("history", "--limit", "node*").stdout
    assert text.index("node01:") < text.index("node02:")
    assert json.loads(views("history", "node01", "--json").stdout)["host"] == "node01"
    refusal = views("history", "--limit", "node*", "--json").exception
    assert isinstance(refusal, UsageError)
    assert "not of 2" in refusal.message
    assert "No host was given" in views("history").exception.message
    assert "none of these" in views("history", "--limit", "nobody").exception.message


@pytest.mark.parametrize("wanted", [FLEET, "last"])
def test_a_report_of_some_hosts(record, views, wanted):
    assert views("runs").exit_code == 0
    content = Content(record, wanted, datetime.now(UTC), lambda name: name.startswith("other"))
    names = [one.host for one in content.hosts()]
    assert names == (["other07", "other08"] if wanted == FLEET else ["other08"])
    assert [host for host, _ in content.differences()] == ([] if wanted == FLEET else ["other08"])


def test_the_report_command_takes_a_limit(views):
    done = views("report", "--fleet", "--format", "csv", "--limit", "node01")
    assert done.exit_code == 0
    assert "node01" in done.stdout
    assert "other07" not in done.stdout
