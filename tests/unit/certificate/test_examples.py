"""The example scripts, with stand-ins for hfprov, scontrol and kubectl."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"
OURS = "hfprov gate: it expired [root@2026-11-29T23:00:00]"
FOREIGN = "bad fan [alice@2026-11-29T23:00:00]"


@pytest.fixture
def tools(tmp_path):
    """A PATH with stand-ins; call it with their scripts. What they are asked is in ``calls``."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "grep", "env", "cat"):
        (folder / name).symlink_to(shutil.which(name))
    (folder / "python3").symlink_to(sys.executable)

    def put(name, script):
        path = folder / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >> {tmp_path}/calls\n{script}\n', "utf-8")
        path.chmod(0o755)

    def run(script, *words, **environment):
        done = subprocess.run(
            [str(EXAMPLES / script), *words], capture_output=True, text=True, timeout=60,
            check=False, env={"PATH": str(folder), **environment},
        )  # fmt: skip
        calls = tmp_path / "calls"
        return done, calls.read_text("utf-8").splitlines() if calls.exists() else []

    return put, run


def gate(**nodes):
    answers = [
        {"node": name, "allowed": not why, "reason": why, "certificate": "ab"}
        for name, why in nodes.items()
    ]
    code = 1 if any(nodes.values()) else 0
    return f"cat <<'END'\n{json.dumps({'nodes': answers})}\nEND\nexit {code}"


def scontrol(**nodes):
    lines = "\n".join(
        f"NodeName={name} Arch=x86_64 State={state} Weight=1"
        + (f" Reason={reason}" if reason else "")
        for name, (state, reason) in nodes.items()
    )
    return f"[ $1 = show ] || exit 0\ncat <<'END'\n{lines}\nEND"


def updates(calls):
    return [one.removeprefix("scontrol update ") for one in calls if " update " in one]


@pytest.mark.parametrize(
    ("state", "reason", "why", "done"),
    [
        ("IDLE", "", "", []),
        ("IDLE", "", "it expired", ["NodeName=n1 State=DRAIN Reason=hfprov gate: it expired"]),
        ("IDLE+DRAIN", OURS, "", ["NodeName=n1 State=UNDRAIN"]),
        ("IDLE+DRAIN", OURS, "it expired", []),
        ("IDLE+DRAIN", FOREIGN, "", []),
        ("IDLE+DRAIN", FOREIGN, "it expired", []),
        ("IDLE+DRAIN", f"not {OURS}", "", []),
        ("ALLOCATED", OURS, "", []),
        ("MIXED*+DRAIN", OURS, "", ["NodeName=n1 State=UNDRAIN"]),
        (
            "IDLE", "", "it's \x1b[31m $(reboot) \"x\"\nReason=y",
            ["NodeName=n1 State=DRAIN Reason=hfprov gate: it s [31m (reboot) x Reason=y"],
        ),
    ],
)  # fmt: skip
def test_only_our_own_drain_is_cleared(tools, state, reason, why, done):
    put, run = tools
    put("hfprov", gate(n1=why))
    put("scontrol", scontrol(n1=(state, reason)))
    ended, calls = run("slurm/hfprov-slurm-sync")
    assert ended.returncode == 0, ended.stderr
    assert updates(calls) == done
    assert updates(run("slurm/hfprov-slurm-sync", "--dry-run")[1]) == done


@pytest.mark.parametrize("answer", ["exit 3", "exit 2", "echo x; exit 1", gate(n2="")])
def test_when_the_gate_cannot_tell_nothing_is_changed(tools, answer):
    put, run = tools
    put("hfprov", answer)
    put("scontrol", scontrol(n1=("IDLE", "")))
    ended, calls = run("slurm/hfprov-slurm-sync")
    assert (ended.returncode, updates(calls)) == (3, [])
    assert ended.stderr


def test_a_reason_that_changed_in_between_is_kept(tools, tmp_path):
    put, run = tools
    put("hfprov", gate(n1=""))
    once = f"[ -e {tmp_path}/once ] && R='{FOREIGN}' || R='{OURS}'; : > {tmp_path}/once"
    put("scontrol", f'{once}\necho "NodeName=n1 State=IDLE+DRAIN Reason=$R"')
    ended, calls = run("slurm/hfprov-slurm-sync")
    assert (ended.returncode, updates(calls)) == (0, [])


@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_the_prologs_end_as_the_gate_does(tools, code):
    put, run = tools
    put("hfprov", f"exit {code}")
    put("scontrol", "printf 'n1\\nn2\\n'")
    ended, calls = run("slurm/prolog-slurmctld", SLURM_JOB_NODELIST="n[1-2]", HFPROV_PROFILE="p")
    assert ended.returncode == code
    assert calls[-1] == "hfprov gate --quiet --profile p n1 n2"
    ended, calls = run("slurm/prolog", SLURMD_NODENAME="n1")
    assert ended.returncode == code
    assert "--here" in calls[-1]
    assert run("slurm/prolog-slurmctld")[0].returncode != 0


@pytest.mark.parametrize(
    ("code", "tainted", "ends", "asked"),
    [
        (0, "", 0, ["label --overwrite node n1 hfprov.io/certified=true", "get"]),
        (
            0, "other hfprov.io/uncertified", 0,
            ["label --overwrite node n1 hfprov.io/certified=true", "get",
             "taint node n1 hfprov.io/uncertified:NoSchedule-"],
        ),
        (
            1, "", 0,
            ["label --overwrite node n1 hfprov.io/certified=false",
             "taint --overwrite node n1 hfprov.io/uncertified=:NoSchedule"],
        ),
        (3, "", 3, []),
    ],
)  # fmt: skip
def test_a_taint_and_a_label_follow_the_gate(tools, code, tainted, ends, asked):
    put, run = tools
    put("hfprov", f"exit {code}")
    put("kubectl", f"[ $1 = get ] && echo '{tainted}' || :")
    ended, calls = run("kubernetes/hfprov-k8s-sync", "n1")
    assert ended.returncode == ends
    said = [one.removeprefix("kubectl ") for one in calls if one.startswith("kubectl")]
    assert [one if not one.startswith("get") else "get" for one in said] == asked


def test_they_parse():
    for path in EXAMPLES.rglob("*"):
        if path.is_file() and path.read_text("utf-8").startswith("#!/bin/sh"):
            subprocess.run(["sh", "-n", str(path)], check=True, timeout=10)
            assert os.access(path, os.X_OK)
