"""One find for all who ask when files were written; each gets what is its own."""

from __future__ import annotations

import os
import subprocess

import pytest

from hfprov.errors import NoEvidenceError
from hfprov.evidence.find import one_find
from hfprov.reading import Observation, command, once


@pytest.fixture
def tree(tmp_path):
    for number, name in enumerate(
        ("boot/a.img", "boot/b", "boot/grub/c.img", "etc/x.conf", "etc/d/y")
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x" * number)
        os.utime(path, (number, number))
    (tmp_path / "etc" / "link.conf").symlink_to(tmp_path / "boot" / "b")
    return tmp_path


def answered(*reads):
    (sent,) = once(reads)
    done = subprocess.run(
        sent.request["argv"], capture_output=True, text=True, timeout=20, check=False,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
    )  # fmt: skip
    row = {"name": "", "status": "ok", "code": done.returncode, "text": done.stdout}
    return Observation.from_json({"results": {sent.id: [{**row, "stderr": done.stderr}]}})


def names(text):
    return sorted(line.rpartition("/")[2] for line in text.splitlines())


def test_each_gets_the_files_of_its_own_places_and_names(tree):
    images = one_find(f"{tree}/boot", names=("*.img",), with_size=True, shallow=True)
    settings = one_find(f"{tree}/etc")
    seen = answered(images, settings)
    assert seen.text(images) == f"0.0000000000 0 {tree}/boot/a.img\n"
    assert names(seen.text(settings)) == ["link.conf", "x.conf", "y"]
    assert f"3.0000000000 {tree}/etc/x.conf" in seen.text(settings).splitlines()


def test_of_a_link_it_is_told_when_its_file_was_written(tree):
    settings = one_find(f"{tree}/etc", names=("link*",))
    assert answered(settings).text(settings) == f"1.0000000000 {tree}/etc/link.conf\n"


def test_a_place_whose_name_begins_alike_is_another_one(tree):
    (tree / "etc2").mkdir()
    (tree / "etc2" / "z").write_text("")
    first, second = one_find(f"{tree}/etc"), one_find(f"{tree}/etc2")
    seen = answered(first, second)
    assert names(seen.text(second)) == ["z"]
    assert "z" not in names(seen.text(first))


def test_only_a_place_of_its_own_that_is_missing_counts(tree):
    there, gone = one_find(f"{tree}/boot/b"), one_find(f"{tree}/none", f"{tree}/etc/x.conf")
    seen = answered(there, gone)
    assert (seen.one(there).code, seen.one(gone).code) == (0, 1)
    assert names(seen.text(gone, codes=(0, 1))) == ["x.conf"]
    with pytest.raises(NoEvidenceError):
        seen.text(gone)


@pytest.mark.parametrize(
    "change", [{"status": "timeout", "code": None}, {"status": "absent", "code": None}, {"code": 2},
               {"truncated": True}]
)  # fmt: skip
def test_an_answer_to_all_that_is_none_is_none_to_each(change):
    own = one_find("/etc/a")
    row = {"name": "", "status": "ok", "code": 0, "text": "1.0 1 /etc/a\n"}
    seen = Observation.from_json({"results": {own.sent_as().id: [row | change]}})
    with pytest.raises(NoEvidenceError):
        seen.text(own, codes=(0, 1))


def test_a_line_that_is_not_understood_is_left_to_who_asked():
    own = one_find("/etc/a")
    row = {"name": "", "status": "ok", "code": 0, "text": "nonsense\n1.0 1 /etc/b\n"}
    seen = Observation.from_json({"results": {own.sent_as().id: [row]}})
    assert seen.text(own) == "nonsense\n"


def test_an_answer_of_its_own_in_old_evidence_counts():
    own = one_find("/boot", names=("a*", "b"), with_size=True, shallow=True)
    assert own.id == command(*own.request["argv"]).id
    assert own.request["argv"][:5] == ["find", "-L", "/boot", "-maxdepth", "1"]
    row = {"name": "", "status": "ok", "code": 0, "text": "1.0 2 /boot/b\n"}
    assert Observation.from_json({"results": {own.id: [row]}}).text(own) == "1.0 2 /boot/b\n"
