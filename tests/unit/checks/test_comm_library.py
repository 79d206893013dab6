"""Communication libraries: strays in every language, devices, hostile output."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from hfprov.baseline import Baseline, Value
from hfprov.catalogue.comm_variables import Category, Variable, comm_variables
from hfprov.checks.comm_library import declared
from hfprov.evidence import comm_settings
from hfprov.evidence.comm_settings import BEGIN, END, assignments, block_of
from hfprov.evidence.grep import heading
from hfprov.judge import judge
from hfprov.reading import Observation
from hfprov.verdict import Finding, NotApplicable, Outcome
from tests.unit.checks.conftest import observation

PASS, WARN, FAIL, UNKNOWN = Outcome.PASS, Outcome.WARN, Outcome.FAIL, Outcome.UNKNOWN
NA = Outcome.NOT_APPLICABLE
ROLE = Path(__file__).parents[3] / "roles/comm_library"
DEFAULTS = yaml.safe_load((ROLE / "defaults/main.yml").read_text())
CHECKS = ("comm_library.nccl", "comm_library.ucx", "comm_library.strays", "comm_library.devices")
NCCL_LINES = ("NCCL_DEBUG=WARN", "NCCL_IB_HCA==mlx5_0:1,mlx5_1", "NCCL_SOCKET_IFNAME==eth0")
NCCL_TEXT = "\n".join((BEGIN, *NCCL_LINES, END)) + "\n"
UCX_TEXT = f"{BEGIN}\nUCX_NET_DEVICES=mlx5_0:1,eth0\n{END}\n"
PROFILE = "/etc/profile.d/site.sh"


def one(text: str, name: str = "", **changes: Any) -> dict[str, Any]:
    return {"name": name, "status": "ok", "text": text, "mode": 0o644, "uid": 0, "gid": 0} | changes


class Node:
    """A healthy bare-metal node; to be spoilt one thing at a time."""

    def __init__(self) -> None:
        self.values = DEFAULTS | {
            "comm_library_socket_interfaces": ["eth0"],
            "comm_library_ib_devices": ["mlx5_0:1", "mlx5_1"],
            "comm_library_ucx_devices": ["mlx5_0:1", "eth0"],
        }
        (self.grep,) = comm_settings.SETTINGS.reads(self.baseline())
        self.results: dict[str, list[dict[str, Any]]] = {
            "file /etc/nccl.conf": [one(NCCL_TEXT)],
            "file /etc/rccl.conf": [one(NCCL_TEXT)],
            "file /etc/ucx/ucx.conf": [one(UCX_TEXT)],
            "file /etc/ucx": [one("", type="dir", mode=0o755)],
            "systemd itself": [one("Virtualization=\n", code=0)],
            "list /sys/class/net/*": [one("", f"/sys/class/net/{name}") for name in ("eth0", "lo")],
            "list /sys/class/infiniband/*": [
                one("", f"/sys/class/infiniband/mlx5_{number}") for number in (0, 1, 10)
            ],
            self.grep.id: [one("", code=0)],
        }
        for path, text in (("/etc/nccl.conf", NCCL_TEXT), ("/etc/ucx/ucx.conf", UCX_TEXT)):
            for number, line in enumerate(text.splitlines(), start=1):
                if "=" in line:
                    self.found(path, number, line)

    def found(self, path: str, number: int, line: str) -> None:
        self.results[self.grep.id][0]["text"] += f"{path}\0{number}:{line}\n"

    def baseline(self) -> Baseline:
        values = {name: Value(value, "") for name, value in self.values.items()}
        return Baseline("node", ("comm_library",), values)

    def findings(self, check_id: str) -> list[Finding]:
        seen = observation(self.results, self.baseline())
        found = [v.finding for v in judge(seen, self.baseline()) if v.check == check_id]
        assert found
        return found

    def bad(self, check_id: str) -> dict[str, Outcome]:
        return {f.subject: f.outcome for f in self.findings(check_id) if f.outcome is not PASS}


@pytest.fixture
def node() -> Node:
    return Node()


@pytest.mark.parametrize("check_id", CHECKS)
def test_healthy_node_passes(node, check_id):
    assert node.bad(check_id) == {}


@pytest.mark.parametrize(
    ("path", "line", "outcome"),
    [
        (PROFILE, "export NCCL_ALGO=Ring", FAIL),
        (PROFILE, "export NCCL_PROTO='Simple' FOO=1", FAIL),
        (PROFILE, "NCCL_IB_GID_INDEX=3; export NCCL_IB_GID_INDEX", FAIL),
        (PROFILE, "export NCCL_IB_HCA=mlx5", FAIL),  # contradicts: all adapters of this name
        (PROFILE, "export NCCL_IB_HCA==mlx5_0:1,mlx5_1", WARN),  # says the same, elsewhere
        (PROFILE, "export NCCL_IB_SL=1", WARN),
        (PROFILE, "export NCCL_DEBUG=INFO", WARN),
        (PROFILE, "export NCCL_NOBODY_KNOWS=1", WARN),
        (PROFILE, "export UCX_TLS=rc,cuda_copy", FAIL),
        (PROFILE, "export UCX_NET_DEVICES=mlx5_9:1", FAIL),
        ("/root/.nccl.conf", "NCCL_NET_GDR_LEVEL=SYS", FAIL),
        ("/home/alice/.rccl.conf", "NCCL_BUFFSIZE=8388608", FAIL),
        ("/etc/nccl.conf", "NCCL_MIN_NCHANNELS=32", FAIL),
        ("/etc/nccl.conf", "NCCL_SOCKET_IFNAME=eth", FAIL),
    ],
)
def test_stray_is_judged_by_its_category(node, path, line, outcome):
    node.found(path, 77, line)
    (found,) = node.bad("comm_library.strays").items()
    assert found[0].startswith(f"{path}:77 ")
    assert found[1] is outcome


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("export NCCL_ALGO=Ring", [("NCCL_ALGO", "Ring")]),
        ('  NCCL_ALGO="a b" # NCCL_PROTO=x', [("NCCL_ALGO", "a b")]),
        ("declare -x NCCL_ALGO='Tree'", [("NCCL_ALGO", "Tree")]),
        ("setenv NCCL_ALGO Ring", [("NCCL_ALGO", "Ring")]),
        ("export NCCL_ALGO+=Ring", [("NCCL_ALGO", "Ring")]),
        ("set -gx NCCL_ALGO Ring", [("NCCL_ALGO", "Ring")]),
        ('env = ["NCCL_ALGO=Ring"]', [("NCCL_ALGO", "Ring")]),
        ("echo export NCCL_ALGO=Ring", [("NCCL_ALGO", "Ring")]),
        ("NCCL_ALGO DEFAULT=Ring", [("NCCL_ALGO", "Ring")]),
        ("NCCL_ALGO\tDEFAULT=Tree OVERRIDE=Ring", [("NCCL_ALGO", "Ring")]),
        ('setenv("NCCL_ALGO", "Ring")', [("NCCL_ALGO", "Ring")]),
        ("pushenv('UCX_TLS', 'rc')", [("UCX_TLS", "rc")]),
        ('DefaultEnvironment="A=1" "NCCL_ALGO=Ring"', [("NCCL_ALGO", "Ring")]),
        ("Environment=NCCL_ALGO=Ring UCX_TLS=rc", [("NCCL_ALGO", "Ring"), ("UCX_TLS", "rc")]),
        (": ${NCCL_ALGO:=Ring}", [("NCCL_ALGO", "Ring")]),
        ("NCCL_IB_HCA==mlx5_0", [("NCCL_IB_HCA", "=mlx5_0")]),
        ("NCCL_ALGO=", [("NCCL_ALGO", "")]),
        ("# export NCCL_ALGO=Ring", []),
        ("-- setenv('NCCL_ALGO', 'Ring')", []),
        ("unset NCCL_ALGO", []),
        ("unsetenv NCCL_ALGO", []),
        ('echo "$NCCL_ALGO"', []),
        ('[ -z "$NCCL_ALGO" ] || exit', []),
        ("MY_NCCL_ALGO=Ring", []),
    ],
)
def test_every_way_of_writing_an_assignment(line, expected):
    assert list(assignments(line)) == expected


@pytest.mark.parametrize(
    "path", [f"{PROFILE}~", f"{PROFILE}.bak", "/etc/default/x.dpkg-old", "/etc/sysconfig/x.rpmsave"]
)
def test_copies_that_nothing_reads_are_passed_over(node, path):
    node.found(path, 1, "export NCCL_ALGO=Ring")
    assert node.bad("comm_library.strays") == {}


def test_role_s_own_lines_are_no_strays_unless_they_may_not_be_declared(node):
    node.values["comm_library_extra"] = {"NCCL_ALGO": "Ring"}
    node.results["file /etc/nccl.conf"][0]["text"] = f"{BEGIN}\nNCCL_ALGO=Ring\n{END}\n"
    node.results[node.grep.id][0]["text"] = "/etc/nccl.conf\x002:NCCL_ALGO=Ring\n"
    assert node.bad("comm_library.strays") == {"/etc/nccl.conf:2 NCCL_ALGO": FAIL}


@pytest.mark.parametrize(
    ("text", "good"),
    [
        (NCCL_TEXT, True),
        (NCCL_TEXT + "# site\nNCCL_IB_SL=3\n", True),
        ("# site\n" + NCCL_TEXT, False),
        (NCCL_TEXT.replace("WARN", "INFO"), False),
        (NCCL_TEXT.replace(NCCL_LINES[0] + "\n", ""), False),
        (NCCL_TEXT.replace(END, "# END"), False),
        (NCCL_TEXT * 2, False),
        (f"{END}\n" + "\n".join(NCCL_LINES) + f"\n{BEGIN}\n", False),
        ("\n".join(NCCL_LINES), False),
        ("", False),
    ],
)
def test_role_s_lines_come_first_and_whole(node, text, good):
    node.results["file /etc/rccl.conf"][0]["text"] = text
    assert node.bad("comm_library.nccl") == ({} if good else {"/etc/rccl.conf": FAIL})


@pytest.mark.parametrize("change", [{"mode": 0o600}, {"uid": 1000}, {"link": "/shared/nccl.conf"}])
def test_owner_mode_and_kind_count(node, change):
    node.results["file /etc/nccl.conf"][0].update(change)
    assert node.bad("comm_library.nccl") == {"/etc/nccl.conf": FAIL}


def test_ucx_when_nothing_is_declared(node):
    node.values["comm_library_ucx_devices"] = []
    assert node.bad("comm_library.ucx") == {"/etc/ucx/ucx.conf": FAIL}
    node.results["file /etc/ucx/ucx.conf"] = [one("UCX_LOG_LEVEL=warn\n", mode=0o600, uid=7)]
    assert node.bad("comm_library.ucx") == {}
    node.results["file /etc/ucx/ucx.conf"] = [{"name": "", "status": "absent"}]
    assert node.bad("comm_library.ucx") == {}


def test_directory_of_ucx_that_users_cannot_enter(node):
    node.results["file /etc/ucx"][0]["mode"] = 0o700
    assert node.bad("comm_library.ucx") == {"/etc/ucx": FAIL}


def test_device_that_was_renamed(node):
    rdma = node.results["list /sys/class/infiniband/*"]
    rdma[:] = [entry for entry in rdma if not entry["name"].endswith("mlx5_1")]
    assert node.bad("comm_library.devices") == {"mlx5_1": FAIL}


def test_interface_is_not_taken_for_an_adapter(node):
    node.values["comm_library_ib_devices"] = ["eth0"]
    assert node.bad("comm_library.devices") == {"eth0": FAIL}


def test_adapters_are_the_hosts_in_a_container(node):
    node.results["systemd itself"] = [one("Virtualization=docker\n", code=0)]
    node.values["comm_library_socket_interfaces"] = ["eth0", "eth9"]
    node.values["comm_library_ib_devices"] = ["mlx5_0:1"]
    node.values["comm_library_ucx_devices"] = []
    assert node.bad("comm_library.devices") == {"eth9": FAIL, "mlx5_0:1": NA}


def test_no_device_declared(node):
    for name in ("socket_interfaces", "ib_devices", "ucx_devices"):
        node.values[f"comm_library_{name}"] = []
    (finding,) = node.findings("comm_library.devices")
    assert finding.not_applicable is NotApplicable.NOT_REQUESTED


@pytest.mark.parametrize(
    ("check_id", "read"),
    [
        ("comm_library.nccl", "file /etc/nccl.conf"),
        ("comm_library.nccl", "file /etc/rccl.conf"),
        ("comm_library.ucx", "file /etc/ucx/ucx.conf"),
        ("comm_library.strays", "grep"),
        ("comm_library.devices", "systemd itself"),
    ],
)
@pytest.mark.parametrize(
    "hostile",
    [{"status": "timeout", "text": ""}, {"status": "denied", "text": ""}, {"truncated": True}],
    ids=lambda change: next(iter(change)),
)
def test_without_whole_evidence_nothing_passes(node, check_id, read, hostile):
    node.results[node.grep.id if read == "grep" else read][0].update(hostile)
    assert UNKNOWN in node.bad(check_id).values()


@pytest.mark.parametrize("status", ["timeout", "denied", "error"])
def test_directory_that_could_not_be_looked_at_is_unknown(node, status):
    node.results["file /etc/ucx"][0]["status"] = status
    assert UNKNOWN in node.bad("comm_library.ucx").values()


def test_search_that_could_not_look_is_unknown(node):
    node.results[node.grep.id][0].update(code=2, text="")
    assert set(node.bad("comm_library.strays").values()) == {UNKNOWN}


def settings_of(text, baseline):
    (read,) = comm_settings.SETTINGS.reads(baseline)
    seen = Observation.from_json({"results": {read.id: [one(text, code=0)]}})
    return comm_settings.SETTINGS.parse(seen, baseline)


def test_hostile_path_and_value_are_made_harmless(node):
    line = "/home/\x1b[2Jeve/.nccl.conf\0001:NCCL_ALGO=\x1b]0;x\x07R" + "i" * 500 + "\n"
    (asked,) = comm_settings.SETTINGS.reads(node.baseline())
    (found,) = settings_of(heading(asked) + line, node.baseline())
    assert "\x1b" not in found.path + found.value
    assert len(found.value) < 100


def test_script_looks_where_it_is_told(tmp_path):
    """The command itself, on real files: patterns, spaces in names, absent places, binaries."""
    (tmp_path / "alice").mkdir()
    (tmp_path / "alice/.nccl.conf").write_text("x\nNCCL_ALGO=Ring\n")
    (tmp_path / "with space").mkdir()
    (tmp_path / "with space/.nccl.conf").write_text("NCCL_PROTO=LL\n")
    (tmp_path / "tree/deep").mkdir(parents=True)
    (tmp_path / "tree/deep/1.0").write_text("setenv UCX_TLS rc\n")
    (tmp_path / "tree/binary").write_bytes(b"\0\1NCCL_ALGO=1\n")
    (tmp_path / "tree/after_a_crash").write_bytes(b"NCCL_SHM_DISABLE=1\n\0\0\0")
    baseline = Baseline(
        "node",
        ("comm_library",),
        {
            "comm_library_home_directories": Value(
                [f"{tmp_path}/al*", f"{tmp_path}/with space"], ""
            ),
            "comm_library_modulefile_directories": Value([f"{tmp_path}/tree", "/nowhere"], ""),
        },
    )
    argv = comm_settings.SETTINGS.reads(baseline)[0].request["argv"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0
    found = settings_of(done.stdout, baseline)
    ours = [one for one in found if one.path.startswith(str(tmp_path))]
    assert {(one.name, one.value, one.line) for one in ours} == {
        ("NCCL_ALGO", "Ring", 2),
        ("NCCL_PROTO", "LL", 1),
        ("UCX_TLS", "rc", 1),
        ("NCCL_SHM_DISABLE", "1", 1),
    }


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("NCCL_IB_GID_INDEX", Category.UNSET),
        ("NCCL_IB_HCA", Category.SYSTEM),
        ("NCCL_IB_TC", Category.SYSTEM),
        ("NCCL_IB_SL", Category.SYSTEM),
        ("NCCL_SOCKET_NTHREADS", Category.SYSTEM),
        ("NCCL_CROSS_NIC", Category.SYSTEM),
        ("NCCL_DEBUG", Category.LAUNCHER),
        ("NCCL_DEBUG_SUBSYS", Category.LAUNCHER),
        ("NCCL_ALGO", Category.DEBUG),
        ("NCCL_PROTO", Category.DEBUG),
        ("NCCL_P2P_LEVEL", Category.DEBUG),
        ("NCCL_IB_DISABLE", Category.DEBUG),
        ("NCCL_NET_GDR_LEVEL", Category.DEBUG),
        ("NCCL_BUFFSIZE", Category.DEBUG),
        ("NCCL_MIN_CTAS", Category.DEBUG),
        ("NCCL_TREE_THRESHOLD", Category.DEBUG),
        ("NCCL_NVLS_ENABLE", Category.DEBUG),
        ("UCX_NET_DEVICES", Category.SYSTEM),
        ("UCX_TLS", Category.DEBUG),
        ("UCX_RNDV_THRESH", Category.DEBUG),
        ("UCX_LOG_LEVEL", Category.LAUNCHER),
    ],
)
def test_catalogue(name, category):
    assert comm_variables().find(name).category is category


def test_rows_name_sources_that_there_are_and_patterns_that_compile():
    assert {row.source for row in comm_variables().variables} == set(comm_variables().sources)
    assert comm_variables().find("NCCL_NOBODY_KNOWS") is None
    with pytest.raises(ValidationError):
        Variable(match="(", category=Category.DEBUG, advice="x", source="y")


NAMES = sorted(
    set(re.findall(r"\b(?:NCCL|UCX)_[A-Z0-9_]+", Path(__file__).read_text()))
    | {"NCCL_IB_TIMEOUT", "NCCL_TOPO_FILE", "NCCL_OOB_NET_IFNAME", "NCCL_SOCKET_FAMILY"}
)


@pytest.mark.parametrize("name", [name for name in NAMES if not name.endswith("_")])
def test_role_allows_what_the_catalogue_calls_system(name):
    """The role works without the catalogue; the two must not drift apart."""
    allowed = yaml.safe_load((ROLE / "vars/main.yml").read_text())["__comm_library_allowed"]
    row = comm_variables().find(name)
    is_nccl_s = name.startswith("NCCL_") and row is not None
    assert (re.match(allowed.strip(), name) is not None) == (
        is_nccl_s and row.category is Category.SYSTEM
    )


def observe(asked: dict[str, Any]) -> dict[str, Any]:
    """What the role's own script answers on this machine."""
    spec = importlib.util.spec_from_file_location("o", ROLE / "files/observe_comm_library.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    question = {"nccl": {}, "ucx": {}, "refused": [], "interfaces": [], "rdma_devices": []}
    question |= {"ucx_devices": [], "nccl_files": [], "ucx_file": "/nonexistent/ucx.conf"}
    return json.loads(json.dumps(script.main(question | asked)))


@pytest.mark.parametrize(
    ("old", "others"),
    [
        ("", ""),
        ("# site\nNCCL_IB_SL=3\n", "# site\nNCCL_IB_SL=3\n"),
        ("no newline at the end", "no newline at the end\n"),
        (f"a\n{NCCL_TEXT}b\n", "a\nb\n"),
        (f"{BEGIN}\nNCCL_DEBUG=INFO\n", "NCCL_DEBUG=INFO\n"),
        (f"{END}\nb\n{BEGIN}\nc\n", "b\nc\n"),
        (NCCL_TEXT * 2, ""),
    ],
)
def test_role_writes_its_lines_first_and_keeps_those_of_others(tmp_path, node, old, others):
    path = tmp_path / "nccl.conf"
    path.write_text(old)
    nccl = dict(declared(node.baseline()))
    for _ in range(2):  # and says the same of what it has written
        (file,) = observe({"nccl": nccl, "nccl_files": [str(path)]})["files"]
        assert file["text"] == NCCL_TEXT + others
        path.write_text(file["text"])
    assert block_of(file["text"]).lines == NCCL_LINES


def test_role_leaves_a_file_alone_when_it_has_nothing_to_say(tmp_path):
    path = tmp_path / "ucx.conf"
    path.write_text("UCX_LOG_LEVEL=warn\n")
    assert observe({"ucx_file": str(path)})["files"] == []
    path.write_text(UCX_TEXT + "UCX_LOG_LEVEL=warn\n")
    (file,) = observe({"ucx_file": str(path)})["files"]
    assert file["text"] == "UCX_LOG_LEVEL=warn\n"


@pytest.mark.parametrize(
    "asked",
    [
        {"nccl": {"NCCL_IB_TC": "106 # DSCP 26"}},
        {"nccl": {"NCCL_X\nNCCL_Y": "1"}},
        {"nccl": {"LD_PRELOAD": "/x"}},
        {"refused": ["NCCL_ALGO"]},
        {"interfaces": ["no-such-interface"]},
        {"interfaces": ["=lo"]},
        {"rdma_devices": ["^mlx5_0"]},
    ],
)
def test_role_refuses_what_would_break_jobs(asked):
    assert observe(asked)["problems"]
    assert observe({"interfaces": ["lo"], "nccl": {"NCCL_IB_TC": "106"}})["problems"] == []


def test_pipe_in_a_file_s_place_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "nccl.conf")
    spec = importlib.util.spec_from_file_location("o", ROLE / "files/observe_comm_library.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    signal.alarm(10)  # instead of hanging
    try:
        found = script.text_with(str(tmp_path / "nccl.conf"), {"NCCL_DEBUG": "WARN"})
    finally:
        signal.alarm(0)
    assert "NCCL_DEBUG=WARN" in found
