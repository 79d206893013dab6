"""Host name, packages and shared memory of a node: healthy, bad, and hostile ones."""

from __future__ import annotations

import pytest

from hfprov.baseline import Baseline
from hfprov.evidence.grep import Grep, heading
from hfprov.evidence.host_names import LIVE, WRITTEN
from hfprov.evidence.kernel_packages import JOURNAL
from hfprov.evidence.system import COMMAND_LINES
from hfprov.evidence.unfinished_packages import DATABASE
from hfprov.judge import judge, reads_for
from hfprov.reading import Observation
from hfprov.verdict import Outcome

PASS, WARN, FAIL, UNKNOWN = Outcome.PASS, Outcome.WARN, Outcome.FAIL, Outcome.UNKNOWN
NOT_APPLICABLE = Outcome.NOT_APPLICABLE
BASELINE = Baseline("node", ())
READS = {read.id: read for read in reads_for(BASELINE)}


def findings(check_id, results):
    seen = Observation.from_json({"results": results})
    return {
        one.finding.subject: one.finding for one in judge(seen, BASELINE) if one.check == check_id
    }


def outcomes(check_id, results):
    return {subject: one.outcome for subject, one in findings(check_id, results).items()}


def ok(text, **more):
    return [{"name": "", "status": "ok", "text": text} | more]


# Host names


def named(live, written, **more):
    return {LIVE.id: ok(live), WRITTEN.id: ok(written, **more)}


@pytest.mark.parametrize(
    ("live", "written", "outcome"),
    [
        ("gpu01\n", "gpu01\n", PASS),
        ("gpu01.rack.example.org\n", "gpu01\n", PASS),
        ("GPU01\n", "# of rack 7\n\n gpu01.example.org \n", PASS),
        ("gpu01-3f\n", "gpu01-??\n", PASS),
        ("gpu02\n", "gpu01\n", FAIL),
        ("gpu01\n", "gpu01a\n", FAIL),
        ("localhost\n", "gpu01\n", FAIL),
        ("(none)\n", "gpu01\n", FAIL),
        ("\n", "gpu01\n", FAIL),
        ("gpu01\n", "", NOT_APPLICABLE),
        ("gpu01\n", "# none\n", NOT_APPLICABLE),
        ("gpu01\n", "localhost\n", NOT_APPLICABLE),
        ("gpu01\n", "localhost.localdomain\n", NOT_APPLICABLE),
        ("\x1b[31mgpu01\n", "gpu01\n", UNKNOWN),
        ("gpu01\n", "<b>*</b>\n", UNKNOWN),
        ("gpu01\n", "gpu*\n", UNKNOWN),
        ("gpu01\n", "x" * 256, UNKNOWN),
        ("gpu\u0661\n", "gpu1\n", UNKNOWN),
    ],
)
def test_host_names(live, written, outcome):
    assert outcomes("node.host_name", named(live, written)) == {"": outcome}


def test_host_names_that_could_not_be_read():
    assert outcomes("node.host_name", {}) == {"": UNKNOWN}
    assert outcomes("node.host_name", named("a\n", "", status="denied")) == {"": UNKNOWN}
    assert outcomes("node.host_name", named("a\n", "a", truncated=True)) == {"": UNKNOWN}
    absent = named("a\n", "", status="absent")
    assert outcomes("node.host_name", absent) == {"": NOT_APPLICABLE}
    assert outcomes("node.host_name", absent | {LIVE.id: ok("a", status="error")}) == (
        {"": UNKNOWN}
    )


# Packages

(GREP,) = (read for read in READS.values() if isinstance(read, Grep))
DPKG = "packages of dpkg"
OWN = "Package: dpkg"
ROW = "{name}\t1\tamd64\t{codes}\tx\t\n"


def packages(*database, rows=(("dpkg", "ii "), ("chrony", "ii ")), journal=(), running="sshd"):
    said = "".join(f"{DATABASE}\0{number}:{line}\n" for number, line in enumerate(database, 1))
    rows = "".join(ROW.format(name=name, codes=codes) for name, codes in rows)
    return {
        GREP.id: ok(heading(GREP) + said, code=0),
        DPKG: ok(rows, code=1),
        JOURNAL.id: [{"name": f"/var/lib/dpkg/updates/{one}", "status": "ok"} for one in journal],
        COMMAND_LINES.id: [{"name": "/proc/7/cmdline", "status": "ok", "text": running}],
    }


def test_whole_packages_pass():
    assert outcomes("node.packages", packages(OWN)) == {"": PASS}
    others = packages(OWN, "Description: sysctl half-installed", "Status: install ok installed")
    assert outcomes("node.packages", others) == {"": PASS}


@pytest.mark.parametrize(
    ("status", "codes", "outcome", "state"),
    [
        ("install ok half-configured", "iF ", FAIL, "half-configured"),
        ("install ok half-installed", "iH ", FAIL, "half-installed"),
        ("install ok unpacked", "iU ", FAIL, "unpacked"),
        ("hold ok unpacked  ", "hU ", FAIL, "unpacked"),
        ("install reinstreq half-installed", "iHR", FAIL, "to be installed anew"),
        ("install reinstreq installed", "iiR", FAIL, "to be installed anew"),
        ("install ok triggers-awaited", "iW ", WARN, "triggers-awaited"),
        ("install ok triggers-pending", "it ", WARN, "triggers-pending"),
    ],
)
def test_packages_that_are_not_whole(status, codes, outcome, state):
    rows = (("dpkg", "ii "), ("chrony", codes))
    (finding,) = findings("node.packages", packages(OWN, f"Status: {status}", rows=rows)).values()
    assert finding.outcome is outcome
    assert finding.observed == f"1 {state} (chrony)"
    assert "'dpkg --audit'" in finding.reason


def test_packages_that_nobody_asks_for_are_counted():
    database = (OWN, *["Status: install ok unpacked"] * 3, "Status: install ok triggers-pending")
    (finding,) = findings("node.packages", packages(*database)).values()
    assert (finding.outcome, finding.observed) == (FAIL, "1 triggers-pending, 3 unpacked")
    assert "4 packages" in finding.reason


def test_many_names_are_cut():
    rows = [("dpkg", "ii "), *((f"p{number:02}", "iF ") for number in range(12))]
    database = (OWN, *["Status: install ok half-configured"] * 12)
    (finding,) = findings("node.packages", packages(*database, rows=rows)).values()
    assert "p07 and 4 more)" in finding.observed
    assert "p08" not in finding.observed


def test_interrupted_dpkg():
    found = outcomes("node.packages", packages(OWN, journal=["0001"]))
    assert found == {"/var/lib/dpkg/updates": FAIL}


@pytest.mark.parametrize(
    ("running", "outcome"),
    [
        ("/usr/bin/dpkg\0--status-fd\x009\0--configure\0-a", UNKNOWN),
        ("dpkg\0-i", UNKNOWN),
        ("dpkg-query\0-l", FAIL),
        ("vim\0/usr/bin/dpkg", FAIL),
    ],
)
def test_dpkg_that_is_at_work_is_not_taken_for_one_that_failed(running, outcome):
    broken = packages(OWN, "Status: install ok unpacked", running=running)
    assert outcomes("node.packages", broken) == {"": outcome}
    assert outcomes("node.packages", packages(OWN, running=running)) == {"": PASS}


def test_without_dpkg_packages_are_not_judged():
    other = packages(OWN) | {DPKG: [{"name": "dpkg-query", "status": "absent"}]}
    assert outcomes("node.packages", other) == {"": NOT_APPLICABLE}


@pytest.mark.parametrize(
    "results",
    [
        {},
        packages(),
        packages("Status: install ok installed"),
        packages(OWN) | {GREP.id: ok(f"{DATABASE}\x001:{OWN}\n", code=0)},
        packages(OWN) | {GREP.id: ok(heading(GREP), code=1, status="timeout")},
        packages(OWN) | {DPKG: ok("\x1b[2J<script>\n", code=0)},
        packages(OWN) | {DPKG: ok("", status="denied")},
        packages(OWN) | {JOURNAL.id: ok("", status="skipped")},
        {name: one for name, one in packages(OWN).items() if name != JOURNAL.id},
        {name: one for name, one in packages(OWN).items() if name != DPKG},
    ],
)
def test_packages_of_which_not_all_is_known_never_pass(results):
    assert outcomes("node.packages", results) == {"": UNKNOWN}


def test_names_of_packages_are_bounded():
    rows = (("dpkg", "ii "), ("x" * 5000, "iF "))
    database = (OWN, "Status: install ok half-configured")
    (finding,) = findings("node.packages", packages(*database, rows=rows)).values()
    assert len(finding.observed) < 200


# Shared memory

MOUNTS, FSTAB, MEMINFO = "file /proc/self/mounts", "file /etc/fstab", "file /proc/meminfo"
SYSTEMD = "systemd itself"
LIVE_SHM = "tmpfs /dev/shm tmpfs rw,nosuid,nodev{} 0 0\n"


def shm(options="", fstab="", *, mounts=None, gib=256, machine="", **more):
    live = LIVE_SHM.format(options) if mounts is None else mounts
    return {
        MOUNTS: ok("/dev/sda1 / ext4 rw 0 0\n" + live),
        FSTAB: ok(fstab, **more),
        MEMINFO: ok(f"MemTotal:       {gib * 1024**2} kB\nMemFree: 1 kB\n"),
        SYSTEMD: ok(f"Virtualization={machine}\n", code=0),
    }


@pytest.mark.parametrize(
    ("options", "gib", "machine", "outcome"),
    [
        ("", 256, "", PASS),
        (",size=67108864k,nr_inodes=1m", 256, "", PASS),
        (",size=67108863k", 256, "", WARN),
        (",size=1048576k", 256, "", WARN),
        (",size=1048575k", 256, "", FAIL),
        (",size=65536k", 256, "kvm", FAIL),
        (",size=0k", 256, "", PASS),
        (",size=1048576k", 4, "", PASS),
        (",size=1048575k", 4, "", WARN),
        (",size=1048575k", 5, "", FAIL),
        ("", 1, "", PASS),
        (",size=2468412k,nr_inodes=409600", 24, "systemd-nspawn", PASS),
        (",size=65536k", 256, "docker", FAIL),
        (",size=10%", 256, "", WARN),
        (",size=50%", 256, "", PASS),
        (",size=1G", 256, "", WARN),
        (",size=67108864", 256, "", FAIL),
        (",size=1T", 256, "", PASS),
        (",ro", 256, "", FAIL),
    ],
)
def test_sizes_of_shared_memory(options, gib, machine, outcome):
    found = outcomes("node.shared_memory", shm(options, gib=gib, machine=machine))
    assert found == {"/dev/shm": outcome}


@pytest.mark.parametrize(
    ("mounts", "outcome"),
    [
        ("", FAIL),
        ("tmpfs /dev/shm2 tmpfs rw 0 0\n", FAIL),
        ("/dev/sdb /dev/shm ext4 rw 0 0\n", WARN),
        (LIVE_SHM.format("") + LIVE_SHM.format(",size=64k"), FAIL),
        (LIVE_SHM.format(",size=64k") + LIVE_SHM.format(""), PASS),
    ],
)
def test_what_is_mounted_last_counts(mounts, outcome):
    assert outcomes("node.shared_memory", shm(mounts=mounts)) == {"/dev/shm": outcome}


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ("tmpfs /dev/shm tmpfs defaults 0 0", PASS),
        ("tmpfs /dev/shm/ tmpfs defaults,size=64m 0 0", FAIL),
        ("none /dev/shm tmpfs rw,nodev,size=8G", WARN),
        ("none /dev/shm tmpfs rw,size=1G,size=90%", PASS),
    ],
)
def test_lines_of_fstab(line, outcome):
    found = outcomes("node.shared_memory", shm(fstab=f"# x\n{line}\n/dev/sda1 / ext4 rw 0 1\n"))
    assert found == {"/dev/shm": PASS, "/etc/fstab": outcome}
    commented = shm(fstab=f"#{line}\n")
    assert outcomes("node.shared_memory", commented) == {"/dev/shm": PASS}


def test_without_fstab_the_live_size_is_judged():
    assert outcomes("node.shared_memory", shm(status="absent")) == {"/dev/shm": PASS}


@pytest.mark.parametrize(
    "results",
    [
        {},
        shm(",size=many"),
        shm(",size=-1"),
        shm(",size="),
        shm(",size=" + "9" * 400),
        shm(",size=\x1b[2J"),
        shm(",nr_blocks=100"),
        shm(mounts="garbage\n"),
        shm(fstab="tmpfs /dev/shm\n"),
        shm(status="denied"),
        shm(truncated=True),
        shm() | {MEMINFO: ok("MemFree: 1 kB\n")},
        {name: one for name, one in shm().items() if name != SYSTEMD},
        {name: one for name, one in shm().items() if name != MOUNTS},
    ],
)
def test_shared_memory_that_is_not_known_never_passes(results):
    assert outcomes("node.shared_memory", results) == {"": UNKNOWN}
