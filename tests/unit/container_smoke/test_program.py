"""The program as it runs in a container, here as a process of its own: real sums, real sockets."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hfprov.container_smoke import known, program
from hfprov.container_smoke.answers import read_devices, read_nodes

TOKEN = "ab" * 16
NAMES = ["a", "b", "c"]
SOURCE = Path(program.__file__).read_text(encoding="utf-8")


def start(**question):
    asked = {"token": TOKEN, "variant": "cpu", "seconds": 60, **question}
    return subprocess.Popen(
        [sys.executable, "-c", question.pop("source", SOURCE), json.dumps(asked)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def said(process):
    out, err = process.communicate(timeout=60)
    assert "Traceback" not in err, err
    return out


@pytest.fixture
def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def reach(port):
    """A connection to who will listen at a port."""
    deadline = time.monotonic() + 20
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=5)
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.02)


def meeting(port, name, **changes):
    return {
        "mode": "nodes", "name": name, "names": NAMES, "awaited": NAMES, "root": "a",
        "root_address": "127.0.0.1", "address": "127.0.0.1", "interface": "lo", "port": port,
        "wait": 20, "salt": 5, "secret": "s", **changes,
    }  # fmt: skip


@pytest.mark.parametrize("salt", [0, 987_654])
def test_each_cpu_gives_the_product_that_the_controller_knows(salt):
    told = read_devices(said(start(mode="devices", size=known.CPU_SIZE, salt=salt)), TOKEN)
    assert told.error == ""
    assert [one.digest for one in told.devices] == [
        known.product_digest(known.CPU_SIZE, salt + one.index) for one in told.devices
    ]
    assert len({one.digest for one in told.devices}) == len(told.devices) > 0


def test_a_program_that_computes_otherwise_has_another_digest():
    wrong = SOURCE.replace("sum(a * b", "sum(a * b * 1.0000001").replace(
        'find_spec("numpy")', 'find_spec("no_numpy")'
    )
    told = read_devices(
        said(start(mode="devices", size=known.CPU_SIZE, salt=3, source=wrong)), TOKEN
    )
    assert told.devices[0].digest != known.product_digest(known.CPU_SIZE, 3)


def test_three_ranks_find_each_other_and_have_the_sum_that_the_controller_knows(port):
    ranks = {name: start(**meeting(port, name)) for name in NAMES}
    for rank in ranks.values():
        told = read_nodes(said(rank), TOKEN)
        assert (list(told.members), told.error) == (NAMES, "")
        assert told.digest == known.sum_digest(NAMES, NAMES, 5)


def test_who_does_not_come_is_missing_and_the_others_still_have_their_sum(port):
    ranks = [start(**meeting(port, name, wait=3)) for name in ("a", "b")]
    for rank in ranks:
        told = read_nodes(said(rank), TOKEN)
        assert list(told.members) == ["a", "b"]
        assert told.digest == known.sum_digest(NAMES, ["a", "b"], 5)


def test_who_cannot_reach_the_root_says_so_within_its_time(port):
    told = read_nodes(said(start(**meeting(port, "b", wait=1))), TOKEN)
    assert told.members == ()
    assert f"'a' at 127.0.0.1 port {port} was not found: " in told.error


@pytest.mark.parametrize(
    "change", [{"secret": "guessed"}, {"name": "stranger", "names": [*NAMES, "stranger"]}]
)
def test_strangers_are_not_counted(port, change):
    root = start(**meeting(port, "a", wait=4))
    stranger = start(**meeting(port, **({"name": "b", "wait": 2} | change)))
    assert list(read_nodes(said(root), TOKEN).members) == ["a"]
    assert read_nodes(said(stranger), TOKEN).members == ()


def test_noise_and_silence_at_the_port_do_not_keep_the_others_from_meeting(port):
    root = start(**meeting(port, "a", awaited=["a", "b"]))
    noisy, silent = reach(port), reach(port)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        noisy.sendall(b"[" * 70_000)
    other = start(**meeting(port, "b"))
    assert list(read_nodes(said(root), TOKEN).members) == ["a", "b"]
    assert list(read_nodes(said(other), TOKEN).members) == ["a", "b"]
    noisy.close()
    silent.close()


def test_without_torch_a_gpu_variant_says_why_and_proves_nothing():
    told = read_devices(said(start(mode="devices", variant="cuda", size=4, salt=0)), TOKEN)
    assert "torch" in told.error
    assert told.devices == ()


def test_it_ends_itself_when_nobody_ends_it(port):
    process = start(**meeting(port, "a", wait=600, seconds=1))
    assert process.wait(30) == 124
    assert process.communicate()[0] == ""
