"""What every login and job gets: variables, preloaded libraries, and whether users get in."""

from __future__ import annotations

import pytest

from hfprov.baseline import Baseline
from hfprov.catalogue.job_variables import JOB_VARIABLES, job_variables
from hfprov.checks.registry import Facts
from hfprov.evidence.access import ACCESS
from hfprov.evidence.assignments import Assignments, is_read
from hfprov.evidence.grep import heading
from hfprov.evidence.job_environment import CLOSED, PRELOADED, VARIABLES
from hfprov.judge import find_check, findings_of
from hfprov.reading import Observation
from hfprov.verdict import Outcome

PASS, WARN, FAIL, UNKNOWN = Outcome.PASS, Outcome.WARN, Outcome.FAIL, Outcome.UNKNOWN
BASELINE = Baseline("n1", (), {})
(GREP,) = VARIABLES.reads(BASELINE)
(PRELOAD,) = PRELOADED.reads(BASELINE)
ABSENT = [{"name": "", "status": "absent"}]


def judged(check_id, results):
    seen = Observation.from_json({"results": results})
    found = findings_of(find_check(check_id), Facts(seen, BASELINE), BASELINE)
    return {one.subject: one.outcome for one in found}


def set_by(text, **answer):
    told = {"name": "", "status": "ok", "code": 0, "text": heading(GREP) + text} | answer
    return judged("environment.variables", {GREP.id: [told]})


@pytest.mark.parametrize(
    ("line", "name", "outcome"),
    [
        ("CUDA_VISIBLE_DEVICES=0", "CUDA_VISIBLE_DEVICES", FAIL),
        ("CUDA_VISIBLE_DEVICES=", "CUDA_VISIBLE_DEVICES", FAIL),
        ("export CUDA_LAUNCH_BLOCKING=1", "CUDA_LAUNCH_BLOCKING", FAIL),
        ("setenv ROCR_VISIBLE_DEVICES 0,1", "ROCR_VISIBLE_DEVICES", FAIL),
        ("set -gx HIP_VISIBLE_DEVICES 0", "HIP_VISIBLE_DEVICES", FAIL),
        ("DefaultEnvironment=A=b CUDA_VISIBLE_DEVICES=1", "CUDA_VISIBLE_DEVICES", FAIL),
        ("SetEnv HSA_CU_MASK=0:0", "HSA_CU_MASK", FAIL),
        ("AMD_SERIALIZE_KERNEL DEFAULT=3", "AMD_SERIALIZE_KERNEL", FAIL),
        ("export OMP_NUM_THREADS=1", "OMP_NUM_THREADS", WARN),
        ("LD_PRELOAD=/opt/x.so", "LD_PRELOAD", WARN),
    ],
)
def test_variable_of_a_job_that_is_set_for_all(line, name, outcome):
    assert set_by(f"/etc/environment\x003:{line}\n") == {f"/etc/environment:3 {name}": outcome}


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("/etc/environment", "# CUDA_VISIBLE_DEVICES=0"),
        ("/etc/environment", "CUDA_LAUNCH_BLOCKING=0"),
        ("/etc/environment", "MY_CUDA_VISIBLE_DEVICES=0"),
        ("/etc/profile.d/a.sh", "unset CUDA_VISIBLE_DEVICES"),
        ("/etc/profile.d/a.sh", 'echo "$CUDA_VISIBLE_DEVICES"'),
        ("/etc/profile.d/a.sh~", "export CUDA_VISIBLE_DEVICES=0"),
        ("/etc/systemd/system/job.service", "Environment=CUDA_VISIBLE_DEVICES=0"),
    ],
)
def test_what_sets_nothing_for_all_is_not_told(path, line):
    assert set_by(f"{path}\x003:{line}\n") == {"": PASS}


@pytest.mark.parametrize("answer", [{"code": 2}, {"truncated": True}, {"status": "timeout"}])
def test_files_that_were_not_searched_never_pass(answer):
    assert set_by("", **answer) == {"": UNKNOWN}


def test_every_name_that_is_asked_for_is_in_the_catalogue():
    rows = job_variables().variables
    assert tuple(row.name for row in rows) == JOB_VARIABLES
    assert {row.source for row in rows} == set(job_variables().sources)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {"": PASS}),
        ("# nothing\n\n", {"": PASS}),
        (
            "/a.so /b.so\n/c.so:/d.so # why\n",
            {f"/{one}.so": WARN for one in "abcd"},
        ),
    ],
)
def test_preloaded_libraries(text, expected):
    results = {PRELOAD.id: [{"name": "", "status": "ok", "text": text}]}
    assert judged("environment.preload", results) == expected


def test_no_preloaded_library_without_the_file():
    assert judged("environment.preload", {PRELOAD.id: ABSENT}) == {"": PASS}
    assert judged("environment.preload", {}) == {"": UNKNOWN}
    denied = [{"name": "", "status": "denied", "stderr": "no"}]
    assert judged("environment.preload", {PRELOAD.id: denied}) == {"": UNKNOWN}


@pytest.mark.parametrize(
    ("etc", "run", "expected"),
    [
        (ABSENT, ABSENT, {"": PASS}),
        ([{"name": "", "status": "ok"}], ABSENT, {"/etc/nologin": FAIL}),
        (ABSENT, [{"name": "", "status": "ok"}], {"/run/nologin": FAIL}),
        (ABSENT, [], {"": UNKNOWN}),
        ([{"name": "", "status": "error"}], ABSENT, {"": UNKNOWN}),
    ],
)
def test_users_may_log_in(etc, run, expected):
    reads = [read.id for read in CLOSED.reads(BASELINE)]
    assert judged("environment.logins", dict(zip(reads, (etc, run), strict=True))) == expected


def modes(**changes):
    """A good node's places, with another mode or owner where one is given."""
    results = {read.id: [] for read in ACCESS.reads(BASELINE)}
    good = {"/tmp": 0o1777, "/dev/null": 0o666, "/etc/passwd": 0o644, "/etc/shadow": 0o640}
    for path, mode in (good | changes).items():
        where = path if f"list {path}" in results else "/dev/nvidia[0-9]*"
        found = {"name": path, "status": "ok", "uid": 0}
        found |= {"mode": mode} if isinstance(mode, int) else mode
        results[f"list {where}"] = [found]
    return judged("environment.access", results)


def test_access_as_it_should_be():
    assert modes() == {"": PASS}
    assert modes(**{"/dev/nvidia0": 0o666, "/dev/infiniband/rdma_cm": 0o666}) == {"": PASS}
    assert modes(**{"/": 0o755, "/var": 0o755, "/bin/sh": 0o755}) == {"": PASS}
    assert [modes(**{"/usr/bin/sudo": mode}) for mode in (0o4111, 0o4755)] == [{"": PASS}] * 2


@pytest.mark.parametrize(
    ("path", "mode", "outcome"),
    [
        ("/tmp", 0o755, FAIL),
        ("/tmp", 0o777, FAIL),
        ("/dev/null", 0o600, FAIL),
        ("/etc/passwd", 0o666, FAIL),
        ("/etc/passwd", 0o600, FAIL),
        ("/etc/passwd", {"mode": 0o644, "uid": 1000}, FAIL),
        ("/etc/shadow", 0o644, FAIL),
        ("/dev/infiniband/rdma_cm", 0o600, FAIL),
        ("/", 0o777, FAIL),
        ("/etc", 0o700, FAIL),
        ("/usr/bin", {"mode": 0o755, "uid": 1000}, FAIL),
        ("/bin/bash", 0o4755, FAIL),
        ("/bin/sh", 0o644, FAIL),
        ("/usr/bin/sudo", 0o755, FAIL),
        ("/usr/bin/sudo", 0o4777, FAIL),
        ("/dev/nvidia0", 0o660, WARN),
        ("/dev/nvidia0", {"mode": 0o666, "uid": 1000}, FAIL),
    ],
)
def test_access_that_users_lack_or_should_lack(path, mode, outcome):
    assert modes(**{path: mode}) == {path: outcome}


def test_access_that_nobody_looked_at_is_unknown():
    assert judged("environment.access", {}) == {"": UNKNOWN}
    assert modes(**{"/tmp": {"status": "denied"}}) == {"": UNKNOWN}
    nothing = {read.id: [] for read in ACCESS.reads(BASELINE)}
    assert judged("environment.access", nothing) == {"": UNKNOWN}


def test_hostile_values_are_cleaned():
    line = "/etc/profile.d/a.sh\x001:LD_PRELOAD=\x1b]0;x\x07" + "y" * 999 + "\n"
    ((subject, outcome),) = set_by(line).items()
    assert outcome is WARN
    assert "\x1b" not in subject


def test_assignments_of_other_names_are_left_alone():
    assert list(Assignments("A|AB")("AB=1 A=2 XA=3 AX=4")) == [("AB", "1"), ("A", "2")]
    assert [is_read(name) for name in ("/a", "/a.bak", "/a.dpkg-old", "/a~")] == [
        True,
        *(False, False, False),
    ]
