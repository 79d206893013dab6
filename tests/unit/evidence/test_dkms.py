"""DKMS: its own view, and the proof that a module is there for a kernel that is named."""

from __future__ import annotations

from typing import Any

import pytest

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence.dkms import (
    DKMS,
    FILES,
    INDEX,
    STATUS,
    BuildState,
    Dkms,
    module_name,
    parse_status,
    parse_vermagic,
    proof,
)
from hfprov.reading import Observation

OLD, NEW = "6.1.0-40-amd64", "6.1.0-42-amd64"
DEBIAN, EL = FILES[0].id, FILES[2].id


def line(name: str, text: str = "", **changes: Any) -> dict[str, Any]:
    return {"name": name, "status": "ok", "text": text, **changes}


def seen(status: dict[str, Any], index: list[dict[str, Any]], **files: list[str]) -> Dkms:
    results = {STATUS.id: [status], INDEX.id: index, **{read.id: [] for read in FILES}}
    for read_id, paths in files.items():
        results[{"debian": DEBIAN, "el": EL}[read_id]] = [line(path) for path in paths]
    observation = Observation.from_json({"results": results})
    return DKMS.parse(observation, Baseline("node", (), {}))


def debian(*built: str, indexed: tuple[str, ...] = (), status: str = "") -> Dkms:
    """Two kernels; ``built`` and ``indexed`` name those that have the module."""
    index = [
        line(one, "updates/dkms/nvidia.ko.xz:\n" if one in indexed else "", code=one not in indexed)
        for one in (OLD, NEW)
    ]
    files = [f"/lib/modules/{one}/updates/dkms/nvidia.ko.xz" for one in built]
    return seen(line("", status, code=0), index, debian=files)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "nvidia, 460.91.03, 5.10.0-8-amd64, x86_64: installed",
            ("nvidia", "460.91.03", "5.10.0-8-amd64", "x86_64", BuildState.INSTALLED, ""),
        ),
        (
            "nvidia-current/535.261.03, 6.1.0-42-amd64, x86_64: installed (original_module exists)",
            (
                *("nvidia-current", "535.261.03", "6.1.0-42-amd64", "x86_64"),
                *(BuildState.INSTALLED, "(original_module exists)"),
            ),
        ),
        (
            "nvidia/580.95.05: added",
            ("nvidia", "580.95.05", None, None, BuildState.ADDED, ""),
        ),
        (
            "kmod/1, 5.14.0-503.el9.x86_64, x86_64: installed-weak from 5.14.0-427.el9.x86_64",
            (
                *("kmod", "1", "5.14.0-503.el9.x86_64", "x86_64"),
                *(BuildState.INSTALLED_WEAK, "from 5.14.0-427.el9.x86_64"),
            ),
        ),
        ("amdgpu/6.12.12-2187269.24.04: broken", ("amdgpu", "6.12.12-2187269.24.04", None, None)),
    ],
)
def test_lines_of_all_versions_of_dkms(text, expected):
    (build,) = parse_status(text + "\n").builds
    found = (build.module, build.version, build.kernel, build.architecture, build.state)
    assert (*found, build.notes)[: len(expected)] == expected


def test_only_installed_builds_can_be_loaded():
    states = {"added", "built", "installed", "broken", "installed-weak"}
    builds = [parse_status(f"a/1, 6.1, x86_64: {state}").builds[0] for state in sorted(states)]
    assert {one.state for one in builds if one.is_installed} == {"installed", "installed-weak"}


def test_a_complaint_is_kept_and_anything_else_refused():
    said = "Error! Could not locate dkms.conf file.\nFile: /var/lib/dkms/x does not exist.\n"
    assert parse_status(said.splitlines()[0]).complaints == (said.splitlines()[0],)
    with pytest.raises(NotUnderstoodError, match="'File: "):
        parse_status(said)
    with pytest.raises(NotUnderstoodError):
        parse_status("\x1b[31mnvidia installed\x1b[0m")


def test_a_module_of_another_kernel_proves_nothing():
    """A7: the module was built for a kernel that is not the one that will run."""
    found = debian(OLD, indexed=(OLD,), status=f"nvidia/580.1, {OLD}, x86_64: installed\n")
    assert proof(found, "nvidia", OLD).holds
    missing = proof(found, "nvidia", NEW)
    assert not missing.holds
    assert NEW in missing.problem
    assert OLD in missing.problem
    assert found.status is not None
    assert found.status.of("nvidia", NEW) == ()


def test_what_dkms_says_is_not_enough():
    claimed = debian(status=f"nvidia/580.1, {NEW}, x86_64: installed\n")
    assert not proof(claimed, "nvidia", NEW).holds


def test_a_file_that_is_not_indexed_is_not_found_by_modprobe():
    result = proof(debian(NEW), "nvidia", NEW)
    assert result.path == "updates/dkms/nvidia.ko.xz"
    assert "depmod" in result.problem


def test_a_kernel_that_is_not_there_has_no_module():
    assert "no directory" in proof(debian(NEW, indexed=(NEW,)), "nvidia", "6.12.1").problem


def test_el_and_names_with_a_hyphen():
    release = "5.14.0-503.el9.x86_64"
    index = [line(release, "extra/nvidia-uvm.ko.xz:\n", code=0)]
    absent = {"name": "", "status": "absent", "stderr": "no such file"}
    found = seen(absent, index, el=[f"/lib/modules/{release}/extra/nvidia-uvm.ko.xz"])
    assert found.status is None
    assert proof(found, "nvidia_uvm", release).holds
    assert not proof(found, "nvidia", release).holds


def test_no_index_is_not_an_empty_one():
    index = [line(NEW, code=2, stderr="grep: …: No such file or directory")]
    found = seen(line("", code=0), index, debian=[f"/lib/modules/{NEW}/updates/dkms/nvidia.ko"])
    assert found.kernels[NEW].indexed is None
    assert not proof(found, "nvidia", NEW).holds


@pytest.mark.parametrize("status", ["timeout", "denied", "error"])
def test_without_whole_evidence_nothing_is_said(status):
    with pytest.raises(NoEvidenceError):
        seen(line("", code=0), [{"name": NEW, "status": status}])
    with pytest.raises(NoEvidenceError):
        seen({"name": "", "status": status}, [])
    with pytest.raises(NoEvidenceError):
        seen(line("", "Error! root needed\n", code=4), [])


def test_names_of_modules():
    assert module_name("updates/dkms/nvidia-drm.ko.zst") == "nvidia_drm"
    assert module_name("updates/dkms/readme.txt") is None


def test_version_magic():
    assert parse_vermagic(f"{NEW} SMP preempt mod_unload modversions \n") == NEW
    with pytest.raises(NotUnderstoodError):
        parse_vermagic("modinfo: ERROR: Module nvidia not found.")
