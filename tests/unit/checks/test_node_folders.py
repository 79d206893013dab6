"""File systems with their inodes, and the folders of root: healthy, bad, and hostile nodes."""

from __future__ import annotations

import pytest

from hfprov.baseline import Baseline
from hfprov.errors import NotUnderstoodError
from hfprov.evidence.filesystems import DISK_FREE, Room, parse_df
from hfprov.evidence.folders import FOLDERS, PLACES
from hfprov.evidence.system import MOUNTS
from hfprov.judge import judge
from hfprov.reading import Observation
from hfprov.verdict import Outcome

PASS, WARN, FAIL, UNKNOWN = Outcome.PASS, Outcome.WARN, Outcome.FAIL, Outcome.UNKNOWN
BASELINE = Baseline("node", ())
HEADING = "1K-blocks    Avail   Inodes    IFree Mounted on\n"
OLD_DF = "run df -P -k / /var /tmp /boot"
OLD_HEADING = "Filesystem     1024-blocks      Used Available Capacity Mounted on\n"
MOUNTED = "/dev/sda1 / ext4 rw,relatime 0 0\ntmpfs /tmp tmpfs rw,nosuid 0 0\n"


def findings(check_id, results):
    seen = Observation.from_json({"results": results})
    return {
        one.finding.subject: one.finding for one in judge(seen, BASELINE) if one.check == check_id
    }


def outcomes(check_id, results):
    return {subject: one.outcome for subject, one in findings(check_id, results).items()}


def disks(text, *, mounts=MOUNTED, read=DISK_FREE.id, **changes):
    said = {"name": "df", "status": "ok", "text": text, "code": 0} | changes
    return {read: [said], MOUNTS.id: [{"name": "mounts", "status": "ok", "text": mounts}]}


def test_a_file_system_without_free_inodes_fails_however_much_room_it_has():
    text = HEADING + "100 90 1000 10 /\n100 90 1000 900 /tmp\n"
    found = findings("node.filesystems", disks(text))
    assert found["/ inodes"].outcome is FAIL
    assert found["/ inodes"].observed == "99 % of inodes used"
    assert {name for name, one in found.items() if one.outcome is PASS} == {
        "/", "/tmp", "/tmp inodes",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("free", "outcome"), [(150, PASS), (149, WARN), (50, WARN), (49, FAIL), (0, FAIL)]
)
def test_inodes_are_judged_as_room_is(free, outcome):
    by_inodes = outcomes("node.filesystems", disks(f"{HEADING}100 90 1000 {free} /\n"))
    by_room = outcomes("node.filesystems", disks(f"{HEADING}1000 {free} 100 90 /\n"))
    assert by_inodes == {"/": PASS, "/ inodes": outcome}
    assert by_room == {"/": outcome, "/ inodes": PASS}


@pytest.mark.parametrize("numbers", ["0 0", "- -"])
def test_a_file_system_that_makes_inodes_as_it_needs_them_is_judged_by_its_room(numbers):
    text = f"{HEADING}100 90 {numbers} /\n"
    assert outcomes("node.filesystems", disks(text)) == {"/": PASS}


def test_a_mount_with_blanks_in_its_name_is_one_mount():
    assert parse_df(HEADING + " 10 5 4 2 /my disk\n") == {"/my disk": Room(10, 5, 4, 2)}


def test_evidence_of_earlier_versions_is_judged_by_what_it_has():
    text = OLD_HEADING + "/dev/sda1 100 97 3 97% /\n"
    assert outcomes("node.filesystems", disks(text, read=OLD_DF)) == {"/": FAIL}


def test_evidence_without_memory_is_judged_by_its_disks():
    older = "run df -k --output=size,avail,itotal,iavail,target / /var /tmp /boot"
    text = f"{HEADING}100 3 1000 900 /\n"
    assert outcomes("node.filesystems", disks(text, read=older)) == {"/": FAIL, "/ inodes": PASS}


@pytest.mark.parametrize(("free", "outcome"), [(15, PASS), (14, WARN), (0, WARN)])
def test_shared_memory_that_is_full_may_be_a_jobs(free, outcome):
    text = f"{HEADING}100 90 0 0 /\n100 {free} 1000 900 /dev/shm\n"
    expected = {"/": PASS, "/dev/shm": outcome, "/dev/shm inodes": PASS}
    assert outcomes("node.filesystems", disks(text)) == expected


def test_a_read_only_file_system_fails_in_either_evidence():
    mounts = MOUNTED.replace("rw,relatime", "ro,relatime")
    new = disks(HEADING + "100 90 1000 900 /\n", mounts=mounts)
    old = disks(OLD_HEADING + "/dev/sda1 100 10 90 10% /\n", mounts=mounts, read=OLD_DF)
    assert outcomes("node.filesystems", new) == {"/": FAIL, "/ inodes": PASS}
    assert outcomes("node.filesystems", old) == {"/": FAIL}


@pytest.mark.parametrize(
    "results",
    [
        {},
        disks(""),
        disks(HEADING),
        disks(HEADING + "many 90 1000 900 /\n"),
        disks(HEADING + "100 90 1000 /\n"),
        disks(HEADING + f"{'9' * 5000} 90 1000 900 /\n"),
        disks(HEADING + "-1 90 1000 900 /\n"),
        disks(HEADING + "\x1b[2J<script> / / / /\n"),
        disks(OLD_HEADING + "/dev/sda1 ¹ 1 1 1% /\n", read=OLD_DF),
        disks("df: cannot read table of mounted file systems\n", code=1),
        disks(HEADING + "100 90 1000 900 /\n", status="timeout"),
        disks(HEADING + "100 90 1000 900 /\n", truncated=True),
        disks(HEADING + "100 90 1000 900 /\n", mounts="garbage"),
        {DISK_FREE.id: [{"name": "df", "status": "absent"}]},
    ],
)
def test_what_is_not_understood_of_disks_never_passes(results):
    assert outcomes("node.filesystems", results) == {"": UNKNOWN}


def test_numbers_of_df_are_bounded():
    with pytest.raises(NotUnderstoodError, match="not a line of 'df'"):
        parse_df(HEADING + "1 1 1 111111111111111111111 /\n")


# Folders


def folder(path, *, mode=0o755, uid=0, gid=0, **changes):
    return {"name": path, "status": "ok", "type": "dir", "mode": mode, "uid": uid, "gid": gid} | (
        changes
    )


def node(*others, groups="root:x:0:\nstaff:x:50:\n"):
    """A node with all folders as they should be, but for ``others``."""
    results = {read.id: [] for read in FOLDERS.reads(BASELINE)}
    results["file /etc/group"] = [{"name": "/etc/group", "status": "ok", "text": groups}]
    for path in PLACES:
        results[f"list {path}"] = [folder(path)]
    for one in others:
        results[f"list {one['name']}"] = [one]
    return results


def test_roots_own_folders_pass():
    assert outcomes("node.folders", node()) == {"": PASS}


@pytest.mark.parametrize("path", PLACES)
@pytest.mark.parametrize(
    "change", [{"mode": 0o777}, {"mode": 0o775}, {"mode": 0o1777}, {"uid": 1000}, {"mode": 0o757}]
)
def test_a_folder_that_others_may_write_fails_by_name(path, change):
    assert outcomes("node.folders", node(folder(path, **change))) == {path: FAIL}


def test_owner_and_mode_are_shown_with_what_is_expected():
    found = findings("node.folders", node(folder("/etc/hfprov", mode=0o2775, uid=7, gid=8)))
    assert found["/etc/hfprov"].observed == "2775 7:8"


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o755, 0o555])
def test_a_narrower_mode_passes(mode):
    assert outcomes("node.folders", node(folder("/etc/ssh", mode=mode))) == {"": PASS}


@pytest.mark.parametrize(
    ("groups", "gid", "outcome"),
    [
        ("staff:x:50:\n", 50, PASS),
        ("root:x:0:\nstaff:x:50:alice\n", 50, FAIL),
        ("staff:x:51:\n", 51, FAIL),
        ("other:x:50:\n", 50, FAIL),
        ("", 50, FAIL),
        ("staff:x:50:\n", 1000, FAIL),
    ],
)
def test_debians_group_of_usr_local_passes_while_nobody_is_in_it(groups, gid, outcome):
    open_one = folder("/usr/local/lib", mode=0o2775, gid=gid)
    subject = "" if outcome is PASS else "/usr/local/lib"
    assert outcomes("node.folders", node(open_one, groups=groups)) == {subject: outcome}


def test_without_its_groups_no_group_is_taken_for_empty():
    results = node(folder("/usr/local/bin", mode=0o2775, gid=50))
    results["file /etc/group"] = [{"name": "/etc/group", "status": "denied"}]
    assert outcomes("node.folders", results) == {"/usr/local/bin": FAIL}


def test_folders_that_a_node_does_not_have_are_not_missed():
    results = node()
    for path in ("/etc/hfprov", "/etc/apt/apt.conf.d", "/etc/systemd/network"):
        results[f"list {path}"] = []
    assert outcomes("node.folders", results) == {"": PASS}


@pytest.mark.parametrize(
    "results",
    [
        {},
        {name: [] for name in node()} | {"file /etc/group": node()["file /etc/group"]},
        node(folder("/etc/ssh", status="denied", mode=None, uid=None, gid=None)),
        node({"name": "/etc/ssh", "status": "ok"}),
        node(folder("/etc/ssh", status="skipped")),
    ],
)
def test_folders_that_could_not_be_looked_at_never_pass(results):
    assert outcomes("node.folders", results) == {"": UNKNOWN}
