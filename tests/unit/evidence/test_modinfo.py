"""``modinfo`` of several modules in one process: joined for the node, taken apart again."""

from __future__ import annotations

import subprocess

import pytest

from hfprov.errors import NoEvidenceError
from hfprov.evidence.modinfo import module_field
from hfprov.reading import Observation, Result, once

VERSION, LICENSE = module_field("version", "nvidia"), module_field("license", "nvidia")
XE, BUILT_IN = module_field("version", "xe"), module_field("version", "i2c-dev")
[JOINED] = once([VERSION, LICENSE, XE, BUILT_IN])
TEXT = """\
name:           i2c_dev
filename:       (builtin)
license:        GPL
filename:       /lib/modules/6.1.0-42-amd64/updates/dkms/nvidia.ko.xz
version:        570.86.15
license:        Dual MIT/GPL
name:           nvidia
modinfo: ERROR: Module xe not found.
"""


def seen(text: str, **more) -> Observation:
    return Observation({JOINED.id: (Result("", "ok", text, **more),)})


def test_all_modules_are_asked_for_once():
    assert JOINED.request["argv"][3:] == ["sh", "i2c-dev", "nvidia", "xe"]


def test_each_is_told_its_own_field():
    found = seen(TEXT, code=0)
    assert found.text(VERSION) == "570.86.15\n"
    assert found.text(LICENSE) == "Dual MIT/GPL\n"
    assert found.text(BUILT_IN) == ""
    assert (found.one(XE).code, found.one(XE).stderr) == (
        1,
        "modinfo: ERROR: Module xe not found.\n",
    )


def test_a_module_of_an_old_kernel_has_the_name_of_its_file():
    found = seen(TEXT.replace("name:           nvidia\n", ""), code=0)
    assert found.text(VERSION) == "570.86.15\n"


@pytest.mark.parametrize(
    "text", ["", "sh: 1: modinfo: not found\n", "filename: /lib/modules/x/nvidia-uvm.ko\n"]
)
def test_a_module_that_is_not_told_of_is_neither_there_nor_missing(text):
    result = seen(text, code=1).one(VERSION)
    assert (result.status, result.code) == ("error", None)


def test_half_an_answer_is_none():
    with pytest.raises(NoEvidenceError, match="cut off"):
        seen(TEXT, code=0, truncated=True).text(VERSION)


def test_evidence_that_was_read_one_by_one_is_understood():
    alone = Observation({VERSION.id: (Result("", "ok", "1.2\n", code=0),)})
    assert alone.text(VERSION) == "1.2\n"


def test_the_script_keeps_the_fields_and_what_is_missing(tmp_path):
    fake = tmp_path / "modinfo"
    fake.write_text(
        "#!/bin/sh\necho 'filename: /a.ko'; echo 'alias: pci:x'; echo 'version: 1'\n"
        'echo "modinfo: ERROR: Module $2 not found." >&2\n'
    )
    fake.chmod(0o755)
    done = subprocess.run(
        JOINED.request["argv"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.stdout == (
        "filename: /a.ko\nversion: 1\nmodinfo: ERROR: Module nvidia not found.\n"
    )
