"""Real slurmctld and slurmd follow the gate, and what somebody else drained stays drained.

The daemons come from Debian's packages, unpacked into a folder, and talk on loopback only.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SYNC = ROOT / "examples" / "slurm" / "hfprov-slurm-sync"
PROLOG = ROOT / "examples" / "slurm" / "prolog-slurmctld"
NODES = ("node01", "node02", "node03")
PACKAGES = ("slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "libhwloc15")

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.long]

CONF = """
ClusterName=lab
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
PluginDir={lib}/slurm-wlm
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool-%n
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
PrologSlurmctld={home}/prolog
PartitionName=all Nodes=ALL Default=YES State=UP MaxTime=INFINITE
"""
NODE = "NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs=1\n"


class Slurm:
    """A cluster of one controller and three node daemons, all on this machine."""

    def __init__(self, home, database):
        self.home = home
        lib = home / "root" / "usr" / "lib" / "x86_64-linux-gnu"
        ports = free_ports(1 + len(NODES))
        nodes = "".join(
            NODE.format(name=name, port=port) for name, port in zip(NODES, ports[1:], strict=True)
        )
        (home / "state").mkdir()
        conf = home / "slurm.conf"
        conf.write_text(CONF.format(home=home, lib=lib, port=ports[0]) + nodes, "utf-8")
        bin_ = home / "bin"
        bin_.mkdir()
        for name in ("scontrol", "sbatch", "squeue", "scancel"):
            (bin_ / name).symlink_to(home / "root" / "usr" / "bin" / name)
        (bin_ / "hfprov").symlink_to(Path(sys.executable).with_name("hfprov"))
        self.environment = {
            **os.environ,
            "PATH": f"{bin_}:{os.environ['PATH']}",
            "LD_LIBRARY_PATH": f"{lib}/slurm-wlm:{lib}",
            "SLURM_CONF": str(conf),
            "HFPROV_DB": str(database),
        }
        kept = ("PATH", "LD_LIBRARY_PATH", "SLURM_CONF", "HFPROV_DB")
        exports = "".join(f"export {name}='{self.environment[name]}'\n" for name in kept)
        prolog = home / "prolog"
        prolog.write_text(f"#!/bin/sh\n{exports}exec {PROLOG}\n", "utf-8")
        prolog.chmod(0o755)
        sbin = home / "root" / "usr" / "sbin"
        # Slurm tells by its name whether it is the controller; under Debian's own name for the
        # file, which its alternatives hide, it runs no PrologSlurmctld.
        for name in ("slurmctld", "slurmd"):
            (sbin / name).symlink_to(f"{name}-wlm")
        self._daemons = [self._start("slurmctld", sbin / "slurmctld", "-D", "-i")]
        for name in NODES:
            stepd = sbin / "slurmstepd-wlm"
            argv = (sbin / "slurmd", "-D", "-d", stepd, "-N", name)
            self._daemons.append(self._start(name, *argv))

    def _start(self, label, *argv):
        with (self.home / f"{label}.log").open("w", encoding="utf-8") as log:
            return subprocess.Popen(
                [*map(str, argv)], env=self.environment, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log,
            )  # fmt: skip

    def stop(self):
        for one in reversed(self._daemons):
            one.terminate()
        for one in self._daemons:
            with contextlib.suppress(subprocess.TimeoutExpired):
                one.wait(timeout=15)
            if one.poll() is None:
                one.kill()
                one.wait(timeout=15)

    def run(self, *argv):
        return subprocess.run(
            [*map(str, argv)], env=self.environment, capture_output=True, text=True, timeout=60,
            check=False, cwd=self.home,
        )  # fmt: skip

    def node(self, name):
        """State and reason of a node."""
        said = self.run("scontrol", "show", "node", name, "--oneliner").stdout
        state = re.search(r"\bState=(\S+)", said)
        reason = re.search(r"\bReason=(.*)", said)
        return (state[1] if state else "", reason[1].strip() if reason else "")

    def controller_log(self):
        return (self.home / "slurmctld.log").read_text("utf-8", "replace")

    def states(self):
        return [self.node(name)[0] for name in NODES]

    def update(self, name, *words):
        done = self.run("scontrol", "update", f"NodeName={name}", *words)
        assert done.returncode == 0, done.stderr

    def sync(self, *words):
        done = self.run(SYNC, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.2)


@pytest.fixture
def site(quick_site):
    """A rack that takes seconds to bring to its baseline, with a fresh record."""
    return quick_site


@pytest.fixture
def slurm(site):
    home = Path(tempfile.mkdtemp(prefix="hfprov-slurm-", dir="/var/tmp"))
    try:
        done = subprocess.run(
            ["apt-get", "download", "-q", *PACKAGES], cwd=home, capture_output=True, text=True,
            timeout=120, check=False,
        )  # fmt: skip
        if done.returncode:
            # They come from a mirror, not from this project: without a network there is no Slurm.
            pytest.skip(f"Slurm's packages cannot be had: {done.stderr.strip()[-300:]}")
        for deb in home.glob("*.deb"):
            subprocess.run(["dpkg", "-x", str(deb), str(home / "root")], check=True, timeout=60)
        cluster = Slurm(home, site.db)
        try:
            until(lambda: cluster.states() == ["IDLE"] * 3)
            yield cluster
        finally:
            cluster.stop()
    finally:
        shutil.rmtree(home, ignore_errors=True)


def test_drained_by_us_resumed_by_us_and_by_nobody_else(site, slurm):
    assert slurm.run(SYNC).returncode == 3  # no index: nothing can be told, nothing is done
    assert site.hfprov("certify", "--limit", "node01,node02").code == 0
    assert slurm.sync() == ""  # the third one was never certified: it is not ours
    slurm.update("node03", "State=DRAIN", "Reason=bad fan")
    site.rack.break_node("node02", "mtu-runtime")
    try:
        assert site.hfprov("drift").code == 1
        assert slurm.sync().startswith("node02: DRAIN hfprov gate: its certificate was revoked")
        state, reason = slurm.node("node02")
        assert state == "IDLE+DRAIN"
        assert reason.startswith("hfprov gate: its certificate was revoked")
        assert "mtu.live" in reason
        assert slurm.node("node01") == ("IDLE", "")
        assert slurm.sync() == ""  # once is enough
    finally:
        site.hfprov("drift", "--repair")
    assert slurm.sync() == ""  # repaired is not certified
    assert slurm.node("node02")[0] == "IDLE+DRAIN"
    assert site.hfprov("certify").code == 0
    assert slurm.sync() == "node02: UNDRAIN\n"
    assert slurm.node("node02") == ("IDLE", "")
    state, reason = slurm.node("node03")
    assert state == "IDLE+DRAIN"
    assert reason.startswith("bad fan")

    # Ours at first, then somebody's: theirs now.
    [issued] = [
        one["id"]
        for one in site.hfprov("certificates", "node01", "-n", "1", "--json").document[
            "certificates"
        ]
    ]
    site.hfprov("revoke", issued, "--reason", "Under test.")
    slurm.sync()
    assert slurm.node("node01")[1].startswith("hfprov gate: ")
    slurm.update("node01", "State=DRAIN", "Reason=I look at it")
    assert site.hfprov("certify").code == 0
    assert slurm.sync() == ""
    assert slurm.node("node01")[1].startswith("I look at it")


def test_no_job_begins_on_a_node_without_a_certificate(site, slurm):
    assert site.hfprov("certify").code == 0
    ended = slurm.home / "ran"
    argv = ("sbatch", "-w", "node02", "-o", "/dev/null", "--wrap", f"touch {ended}")
    done = slurm.run(*argv)
    assert done.returncode == 0, done.stderr
    until(ended.exists)
    ended.unlink()
    [issued] = site.hfprov("certificates", "node02", "-n", "1", "--json").document["certificates"]
    site.hfprov("revoke", issued["id"], "--reason", "Under test.")
    job = slurm.run(*argv).stdout.split()[-1]
    until(lambda: f"prolog_slurmctld JobId={job} prolog exit status 1" in slurm.controller_log())
    shown = slurm.run("scontrol", "show", "job", job).stdout
    assert "JobState=RUNNING" not in shown, shown
    assert not ended.exists()
    slurm.run("scancel", job)
