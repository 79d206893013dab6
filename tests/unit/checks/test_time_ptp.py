"""A process of linuxptp that sets the clock beside chronyd is told; one that does not is not."""

from __future__ import annotations

import pytest

from hfprov.evidence.ptp import sets_clock
from hfprov.verdict import NotApplicable, Outcome

FAIL, UNKNOWN = Outcome.FAIL, Outcome.UNKNOWN
CHECK = "time.ptp"
LINES = "glob /proc/[0-9]*/cmdline"


@pytest.fixture
def node(networkd):
    networkd.values["time_sync_control_clock"] = True
    return networkd


@pytest.mark.parametrize(
    ("line", "bad"),
    [
        ("/usr/sbin/phc2sys -w -s eth0", True),
        ("phc2sys -a -r", True),
        ("phc2sys -arr", True),
        ("phc2sys -s eth0 -c CLOCK_REALTIME -w", True),
        ("phc2sys -a", False),
        ("phc2sys -a -r -E ntpshm -m", False),
        ("phc2sys -s eth0 -Erefclock_sock", False),
        ("phc2sys -s CLOCK_REALTIME -c eth0 -O 0", False),
        ("phc2sys -s CLOCK_REALTIME", False),
        ("phc2sys -c eth1 -s eth0", False),
        ("phc2sys -s", True),
        ("ptp4l -i eth0 -s", False),
        ("ptp4l -i eth0 -S -s", True),
        ("ptp4l -2Si eth0", True),
        ("ptp4l -iS0", False),
        ("chronyd -F 1 -S", False),
        ("vi phc2sys", False),
        ("", False),
    ],
)
def test_who_sets_the_clock(node, line, bad):
    assert sets_clock(tuple(line.split())) is bad
    node.add(LINES, "/proc/99/cmdline", line.replace(" ", "\0") + "\0")
    name = line.split(" ")[0].rpartition("/")[2]
    assert node.bad(CHECK) == ({name: FAIL} if bad else {})


@pytest.mark.parametrize("text", ["", "\0" * 400, "phc2sys\0-\x1b[31m\0<b>\0", "-" * 512])
def test_odd_command_lines(node, text):
    node.add(LINES, "/proc/99/cmdline", text)
    assert set(node.bad(CHECK).values()) <= {FAIL}


def test_where_chronyd_leaves_the_clock_alone_nothing_is_judged(networkd):
    networkd.add(LINES, "/proc/99/cmdline", "phc2sys\0-a\0-r\0")
    (finding,) = networkd.findings(CHECK)
    assert finding.not_applicable is NotApplicable.NOT_REQUESTED


@pytest.mark.parametrize("status", ["denied", "timeout", "absent"])
def test_without_a_list_of_processes_nothing_passes(node, status):
    for result in node.results[LINES]:
        result.update(status=status, text="")
    assert node.bad(CHECK) == {"": UNKNOWN}
