"""``hfprov diagnose`` on practice nodes, with stand-ins for dcgmi and nvidia-smi on their PATH."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hfprov.lab.rack import Rack
from hfprov.lab.state import load_state
from hfprov.record.store import Record

pytestmark = [pytest.mark.lab, pytest.mark.slow]

GPU = """<gpu id="00000000:{bus}:00.0"><product_name>NVIDIA H100 80GB HBM3</product_name>
<uuid>GPU-{bus}</uuid><pci><pci_device_id>233010DE</pci_device_id></pci>
<utilization><gpu_util>0 %</gpu_util></utilization><processes>{processes}</processes></gpu>"""
PROCESS = (
    "<process_info><pid>4711</pid><type>C</type><process_name>train</process_name>"
    "<used_memory>9 MiB</used_memory></process_info>"
)


def smi(*, busy: bool = False) -> str:
    gpus = "".join(GPU.format(bus=bus, processes=PROCESS if busy else "") for bus in ("19", "29"))
    return (
        "<?xml version='1.0'?><nvidia_smi_log><driver_version>580.95.05</driver_version>"
        f"<attached_gpus>2</attached_gpus>{gpus}</nvidia_smi_log>"
    )


def diag(*statuses: str) -> str:
    results = [
        {"entity_group": "GPU", "entity_group_id": 1, "entity_id": n, "status": status}
        for n, status in enumerate(statuses)
    ]
    tests = [{"name": "memory", "results": results, "test_summary": {"status": "Pass"}}]
    categories = [{"category": "Hardware", "tests": tests}]
    return json.dumps({"DCGM Diagnostic": {"test_categories": categories}})


def printing(text: str, code: int = 0) -> str:
    return f"#!/bin/sh\ncat <<'END'\n{text}\nEND\nexit {code}\n"


@pytest.fixture(scope="module")
def rack(tmp_path_factory, able_machine):  # noqa: ARG001 - skips first
    rack = Rack(tmp_path_factory.mktemp("diagnose") / "rack")
    try:
        rack.up(1)
        variables = rack.paths.inventory / "host_vars"
        variables.mkdir()
        declared = "node_sku: hgx-h100-8\nnode_accelerator_count: 2\n"
        (variables / "node01.yml").write_text(declared, encoding="utf-8")
        yield rack
    finally:
        rack.down()


@pytest.fixture
def node(rack):
    """A fresh node; call it with the scripts that stand in for tools."""
    rack.reset(["node01"])
    state = load_state(rack.paths)
    [one] = [node for node in state.nodes if node.name == "node01"]

    def put(**scripts: str) -> None:
        for name, text in scripts.items():
            path = f"/usr/local/bin/{name.replace('_', '-')}"
            script = f"cat > {path} && chmod 755 {path}"
            argv = ["ssh", "-F", str(rack.paths.ssh_config), one.name, script]
            subprocess.run(argv, input=text, text=True, check=True, timeout=30)

    return put


def diagnose(rack: Rack, tmp_path: Path, *options: str) -> tuple[int, dict[str, str], float]:
    """Exit code, outcome by ``check subject``, and seconds."""
    argv = [sys.executable, "-m", "hfprov", "diagnose", "--json"]
    argv += ["-i", str(rack.paths.inventory), "--db", str(tmp_path / "record.db"), *options]
    started = time.monotonic()
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=120, check=False, env=dict(os.environ)
    )
    assert done.stdout, done.stderr
    [view] = json.loads(done.stdout)["hosts"]
    found = {f"{one['check']} {one['subject']}".strip(): one for one in view["verdicts"]}
    return done.returncode, found, time.monotonic() - started


def outcomes(found) -> dict[str, str]:
    return {name: one["outcome"] for name, one in found.items()}


def test_a_sound_node_passes_and_its_raw_output_is_kept(rack, node, tmp_path):
    node(dcgmi=printing(diag("Pass", "Pass")), nvidia_smi=printing(smi()))
    code, found, _ = diagnose(rack, tmp_path)
    assert (code, set(outcomes(found).values())) == (0, {"pass"})
    with Record.open(str(tmp_path / "record.db")) as record:
        [measured] = record.measurements("node01")
        assert json.loads(measured.raw)["DCGM Diagnostic"]
        assert (measured.test, measured.value) == ("dcgmi level 1", 0.0)
        assert measured.parameters["argv"] == ["dcgmi", "diag", "-r", "1", "-j"]
        assert record.run("last").host("node01").judged["diagnose"].summary.passed == 2


def test_one_gpu_that_fails_fails_the_node(rack, node, tmp_path):
    node(dcgmi=printing(diag("Pass", "Fail"), 226), nvidia_smi=printing(smi()))
    code, found, _ = diagnose(rack, tmp_path, "--level", "2")
    assert (code, outcomes(found)["diagnose.dcgmi memory GPU 1"]) == (1, "fail")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (printing(diag("Skip", "Skip")), "judged nothing"),
        (printing(""), "Exit code 0"),
        (printing("Error: Unable to connect to host engine localhost.", 255), "host engine"),
        (printing(diag("Pass")), "Only 1 of 2"),
    ],
)
def test_nothing_judged_is_unknown(rack, node, tmp_path, script, said):
    node(dcgmi=script, nvidia_smi=printing(smi()))
    code, found, _ = diagnose(rack, tmp_path)
    assert code == 3
    reasons = [one["reason"] for one in found.values() if one["outcome"] == "unknown"]
    assert any(said in reason for reason in reasons), reasons


def test_without_the_tool_the_role_is_named(rack, node, tmp_path):
    node(nvidia_smi=printing(smi()))
    code, found, _ = diagnose(rack, tmp_path)
    assert (code, outcomes(found)) == (3, {"diagnose.dcgmi": "unknown"})
    assert "diagnostics_tools" in found["diagnose.dcgmi"]["reason"]
    assert "datacenter-gpu-manager-4" in found["diagnose.dcgmi"]["reason"]


def test_a_node_in_use_is_refused_and_the_tool_is_not_run(rack, node, tmp_path):
    node(
        dcgmi='#!/bin/sh\n[ "$1" = diag ] && touch /root/ran\n', nvidia_smi=printing(smi(busy=True))
    )
    code, found, _ = diagnose(rack, tmp_path)
    assert (code, list(outcomes(found).values())) == (3, ["unknown"])
    assert "4711 train" in next(iter(found.values()))["reason"]
    argv = ["ssh", "-F", str(rack.paths.ssh_config), "node01", "test ! -e /root/ran"]
    assert subprocess.run(argv, timeout=30, check=False).returncode == 0


def test_a_tool_that_never_ends_is_stopped_and_unknown(rack, node, tmp_path, monkeypatch):
    # It ignores the polite signal, and its child holds the pipe open.
    script = "#!/bin/sh\n[ \"$1\" = diag ] || exit 0\ntrap '' TERM\nsleep 60 & wait; sleep 60\n"
    node(dcgmi=script, nvidia_smi=printing(smi()))
    program = (
        "import sys; from hfprov import diagnose, diagnosis\n"
        "diagnose.GRACE = 2.0\n"
        "for tool in diagnosis.TOOLS: tool.seconds.update(dict.fromkeys(tool.seconds, 2.0))\n"
        "from hfprov.cli.app import main; main()"
    )
    monkeypatch.setattr(sys, "executable", str(_python(tmp_path, program)))
    code, found, seconds = diagnose(rack, tmp_path)
    assert (code, outcomes(found)) == (3, {"diagnose.dcgmi": "unknown"})
    assert seconds < 30


def _python(tmp_path: Path, program: str) -> Path:
    """An interpreter that runs hfprov with short deadlines when told to run ``-m hfprov``."""
    path = tmp_path / "python"
    quoted = program.replace("'", "'\\''")
    path.write_text(f"#!/bin/sh\nshift 2\nexec '{sys.executable}' -c '{quoted}' \"$@\"\n")
    path.chmod(0o755)
    return path
