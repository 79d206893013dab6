"""The record in PostgreSQL: what only a server with several writers can show.

HFPROV_TEST_POSTGRESQL is the URL of a server's database in which others may be made, such as
postgresql://me@127.0.0.1/postgres; the package 'psycopg' must be there.
"""

from __future__ import annotations

import multiprocessing
import os
import secrets

import pytest

from hfprov.baseline import Baseline
from hfprov.errors import HostBusyError, RecordError
from hfprov.record.store import Record
from hfprov.verdict import Verdict, passed

SERVER = os.environ.get("HFPROV_TEST_POSTGRESQL", "")
CONTROLLERS, RUNS, SUBJECTS = 4, 10, 20

pytestmark = pytest.mark.skipif(
    not SERVER, reason="HFPROV_TEST_POSTGRESQL names no server: the record is tested in SQLite only"
)


@pytest.fixture
def url():
    psycopg = pytest.importorskip("psycopg", reason="without 'psycopg' nothing is in PostgreSQL")
    name = f"hfprov_test_{secrets.token_hex(6)}"
    with psycopg.connect(SERVER, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
        yield f"{SERVER.rpartition('/')[0]}/{name}"
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def verdicts(number):
    return [Verdict("node.os", passed(f"s{n}", observed=str(number))) for n in range(SUBJECTS)]


def controller(url, name):
    with Record.open(url) as record:
        for number in range(RUNS):
            hosts = {f"{name}-{number}": Baseline(f"{name}-{number}", ())}
            with record.start_run("drift", [], hosts) as log:
                log.acquire(hosts)
                for host in hosts:
                    log.observed(host, "before", b"{}", verdicts(number))
                log.finish(0)


def test_controllers_that_tell_the_same_at_the_same_time_do_not_collide(url):
    Record.open(url).close()
    start = multiprocessing.get_context("spawn").Process
    ours = [start(target=controller, args=(url, f"c{n}")) for n in range(CONTROLLERS)]
    for one in ours:
        one.start()
    for one in ours:
        one.join(120)
    assert [one.exitcode for one in ours] == [0] * CONTROLLERS
    with Record.open(url) as record:
        runs = record.runs(limit=1000)
        assert len(runs) == CONTROLLERS * RUNS
        for run in runs:
            [host] = record.run(run.id).hosts()
            assert len(host.judged["before"].verdicts) == SUBJECTS


def test_a_host_belongs_to_one_run_at_a_time(url):
    hosts = {"n1": Baseline("n1", ())}
    with Record.open(url) as one, Record.open(url) as other:
        first = one.start_run("provision", [], hosts)
        first.acquire(hosts)
        with other.start_run("provision", [], hosts) as second:
            with pytest.raises(HostBusyError, match=first.id):
                second.acquire(hosts)
            first.finish(0)
            second.acquire(hosts)
            second.finish(0)


def test_a_server_that_is_not_there_is_said_in_a_sentence(url):
    with pytest.raises(RecordError, match="cannot be used"):
        Record.open(url.rpartition("/")[0] + "/no_such_database")
