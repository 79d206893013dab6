"""The inventory is read in another process: what arrives, and what happens when it does not."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import time
from pathlib import Path
from types import MappingProxyType

import pytest

from hfprov.baseline import Baseline, Value
from hfprov.cli.declared import Declared, read_beside
from hfprov.errors import InventoryError

VALUES = MappingProxyType({"node_sku": Value("none", "all.yml:1", secret=True)})
HERE = os.getpid()


def declared() -> Declared:
    hosts = {name: Baseline(name, ("kernel",), VALUES) for name in ("b", "a")}
    return Declared(hosts, {}, Path("site.yml"), (str(os.getpid()),), ("s3cret",))


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """As in a process that has just started."""
    monkeypatch.delitem(sys.modules, "ansible", raising=False)
    monkeypatch.setattr(threading, "active_count", lambda: 1)


def test_what_is_declared_arrives_whole_from_another_process():
    loaded = []
    found = read_beside(declared, lambda: loaded.append(os.getpid()))
    assert found.warnings != (str(HERE),)
    assert loaded == [HERE]
    assert (found.playbook, found.secrets) == (Path("site.yml"), ("s3cret",))
    assert [(name, one.host, one.roles) for name, one in found.baselines.items()] == [
        ("b", "b", ("kernel",)),
        ("a", "a", ("kernel",)),
    ]
    assert found.baselines["a"].values == VALUES


def test_hosts_that_share_their_values_still_do():
    found = read_beside(declared, lambda: None)
    assert found.baselines["a"].values is found.baselines["b"].values


def test_a_problem_is_raised_here_as_it_is():
    def reading():
        raise InventoryError("Two hosts are one.", hint="Remove one.")

    with pytest.raises(InventoryError, match="Two hosts are one") as caught:
        read_beside(reading, lambda: None)
    assert caught.value.hint == "Remove one."


def test_a_process_that_is_killed_leaves_the_work_to_this_one():
    def reading():
        if os.getpid() != HERE:
            os.kill(os.getpid(), signal.SIGKILL)
        return declared()

    assert read_beside(reading, lambda: None).warnings == (str(HERE),)


def test_the_other_process_does_not_outlive_an_interrupted_one(tmp_path):
    def reading():
        (tmp_path / "pid").write_text(str(os.getpid()))
        time.sleep(60)
        return declared()

    def interrupted():
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            time.sleep(0.01)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read_beside(reading, interrupted)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@pytest.mark.parametrize("reason", ["threads", "ansible"])
def test_without_need_there_is_no_other_process(monkeypatch, reason):
    if reason == "threads":
        monkeypatch.setattr(threading, "active_count", lambda: 2)
    else:
        monkeypatch.setitem(sys.modules, "ansible", object())
    assert read_beside(declared, pytest.fail).warnings == (str(HERE),)


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


def test_where_no_further_process_is_allowed_this_one_reads(monkeypatch):
    def refused():
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, "fork", refused)
    before = open_files()
    assert read_beside(declared, lambda: None).warnings == (str(HERE),)
    assert open_files() == before


def test_what_is_declared_can_be_used_before_all_is_loaded():
    known, loaded = [], threading.Event()

    def once_known(found):
        known.append((list(found.baselines), loaded.is_set()))
        used.set()

    def load():
        assert used.wait(timeout=20)
        loaded.set()

    used = threading.Event()
    found = read_beside(declared, load, once_known)
    assert known == [(["b", "a"], False)]
    assert found.warnings != (str(HERE),)


@pytest.mark.parametrize("told", [b"", b"\x80\x05\x95", b"nonsense"])
def test_a_process_that_ends_amid_its_answer_leaves_the_work_to_this_one(monkeypatch, told):
    monkeypatch.setattr("hfprov.cli.declared._pickled", lambda _: told)
    assert read_beside(declared, lambda: None, pytest.fail).warnings == (str(HERE),)
