"""Time: a healthy node passes, a spoilt one fails by name, a hostile one never passes."""

from __future__ import annotations

import pytest

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.chrony import parse, parse_directives, parse_tracking
from hfprov.verdict import Outcome
from tests.unit.checks.conftest import NOT_WHOLE

FAIL, UNKNOWN = Outcome.FAIL, Outcome.UNKNOWN
CHECKS = (
    "time.daemon",
    "time.rivals",
    "time.files",
    "time.config",
    "time.clock",
    "time.stale",
    "time.sources",
    "time.offset",
)
OURS = "/etc/chrony/conf.d/90-hfprov.conf"
MAIN = "file /etc/chrony/chrony.conf"
CONF_D = "glob /etc/chrony/conf.d"
OPTIONS = "file /etc/default/chrony"
DROP_IN = "/etc/systemd/system/chrony.service.d/90-hfprov-clock.conf"
UNITS = "units of systemd"
CHRONYC = "run chronyc -c -N -m sources tracking"
UNIT = "chrony.service"
SERVER = "10.144.10.2"


@pytest.mark.parametrize("check_id", CHECKS)
def test_healthy_node_passes(ifupdown, check_id):
    assert ifupdown.bad(check_id) == {}


@pytest.mark.parametrize(
    ("check_id", "words", "old", "new", "subject"),
    [
        ("time.daemon", UNITS, "State=active", "State=failed", f"{UNIT} ActiveState"),
        ("time.daemon", UNITS, "State=enabled", "State=disabled", f"{UNIT} UnitFileState"),
        ("time.daemon", UNITS, "Reload=no", "Reload=yes", f"{UNIT} NeedDaemonReload"),
        ("time.files", CONF_D, "iburst", "iburst prefer", OURS),
        ("time.files", CONF_D, "rtcsync", "rtcsync\nlog tracking", OURS),
        ("time.config", CONF_D, f"server {SERVER} iburst\n", "", SERVER),
        ("time.config", CONF_D, "makestep 1.0 3", "makestep 1.0 -1", "makestep"),
        ("time.config", CONF_D, "rtcsync", "", "rtcsync"),
        ("time.config", MAIN, "# pool 2.debian", "pool 2.debian", f"{MAIN[5:]}:8"),
        ("time.clock", OPTIONS, "-F 1 -x", "-F 1", "/etc/default/chrony"),
        ("time.sources", CHRONYC, "^,*", "^,?", "selected"),
        ("time.sources", CHRONYC, SERVER, "192.0.2.9", SERVER),
        ("time.sources", CHRONYC, SERVER, "192.0.2.9", "192.0.2.9"),
        ("time.offset", CHRONYC, "Normal", "Not synchronised", ""),
    ],
)  # fmt: skip
def test_spoilt_text_fails(ifupdown, check_id, words, old, new, subject):
    ifupdown.replace(words, old, new)
    assert ifupdown.bad(check_id)[subject] is FAIL


def test_unreachable_server_fails_though_it_is_selected(ifupdown):
    fields = ifupdown.results[ifupdown.read(CHRONYC)][0]["text"].split(",")
    fields[5] = "0"
    ifupdown.put(CHRONYC, text=",".join(fields))
    finding = next(one for one in ifupdown.findings("time.sources") if one.outcome is FAIL)
    assert (finding.subject, finding.observed) == (SERVER, "unreachable")


@pytest.mark.parametrize(
    ("offset", "good"), [("0.009", True), ("-0.009", True), ("0.011", False), ("-7200", False)]
)
def test_offset_counts_both_ways(ifupdown, offset, good):
    text = f"0A900A02,{SERVER},9,1.0,{offset},0,0,0,0,0,0,0,2.0,Normal\n"
    ifupdown.put(CHRONYC, text=text)
    assert (ifupdown.bad("time.offset") == {}) is good


@pytest.mark.parametrize(
    ("active", "enabled", "good"),
    [
        ("active", "disabled", False),
        ("inactive", "enabled", False),
        ("activating", "", False),
        ("inactive", "enabled-runtime", False),
        ("inactive", "disabled", True),
        ("inactive", "masked", True),
    ],
)
def test_second_daemon(ifupdown, active, enabled, good):
    block = "Id=ntp.service\nNames=ntp.service\nLoadState={}\nActiveState={}\n"
    ifupdown.replace(
        UNITS,
        "Id=ntp.service\nNames=ntp.service\nLoadState=not-found\nActiveState=inactive\n",
        block.format("loaded", active),
    )
    text = ifupdown.results[ifupdown.read(UNITS)][0]["text"]
    head, _, tail = text.partition("Id=ntp.service")
    tail = tail.replace("UnitFileState=\n", f"UnitFileState={enabled}\n", 1)
    ifupdown.put(UNITS, text=head + "Id=ntp.service" + tail)
    assert ifupdown.bad("time.rivals") == ({} if good else {"ntp.service": FAIL})


def test_server_in_a_file_of_sources_is_a_stray(ifupdown):
    path = "/etc/chrony/sources.d/site.sources"
    ifupdown.add("glob /etc/chrony/sources.d", path, "# site\nserver 192.0.2.1\n")
    assert ifupdown.bad("time.config") == {f"{path}:2": FAIL}


def test_stray_server_may_be_left_to_a_person(ifupdown):
    ifupdown.values["time_sync_rivals"] = "report"
    path = "/etc/chrony/sources.d/site.sources"
    ifupdown.add("glob /etc/chrony/sources.d", path, "server 192.0.2.1\n")
    (finding,) = [one for one in ifupdown.findings("time.config") if one.outcome is FAIL]
    assert "'time_sync_rivals' is 'report'" in finding.reason


def test_later_step_wins_and_is_named(ifupdown):
    # Debian 12 reads its directory first, so that a line of the main file comes later.
    ifupdown.replace(MAIN, "# makestep 1 3", "makestep 60 1")
    finding = next(one for one in ifupdown.findings("time.config") if one.outcome is FAIL)
    assert finding.observed == "makestep 60.0 1"
    assert "/etc/chrony/chrony.conf:42" in finding.reason


def test_directory_that_was_not_read_is_unknown(ifupdown):
    ifupdown.put(MAIN, text="confdir /etc/elsewhere\n")
    assert set(ifupdown.bad("time.config").values()) == {UNKNOWN}


def test_drop_in_and_running_daemon_must_agree_with_the_declaration(ifupdown):
    ifupdown.values["time_sync_control_clock"] = True
    assert ifupdown.bad("time.clock") == {
        "/etc/default/chrony": FAIL,
        DROP_IN: FAIL,
        "running": FAIL,
    }


def test_missing_drop_in_fails(ifupdown):
    ifupdown.remove("90-hfprov-clock.conf", DROP_IN)
    assert ifupdown.bad("time.clock") == {DROP_IN: FAIL}


PROCESSES = "glob /proc/[0-9]*/cmdline"
RUNNING_CHECKS = ("time.clock", "time.stale", "time.sources", "time.offset")


def stop(node, state):
    """As it looks when the daemon does not run: no process, and chronyc finds nobody."""
    head = f"Id={UNIT}\nNames={UNIT} chronyd.service\nLoadState=loaded\nActiveState="
    node.replace(UNITS, f"{head}active", f"{head}{state}")
    processes = node.results[node.read(PROCESSES)]
    processes[:] = [one for one in processes if "chronyd" not in one.get("text", "")]
    node.put(CHRONYC, text="", stderr="506 Cannot talk to daemon", code=1)


@pytest.mark.parametrize("state", ["inactive", "failed"])
@pytest.mark.parametrize("check_id", RUNNING_CHECKS)
def test_daemon_that_does_not_run_fails(ifupdown, check_id, state):
    stop(ifupdown, state)
    assert set(ifupdown.bad(check_id).values()) == {FAIL}
    reasons = [one.reason for one in ifupdown.findings(check_id) if one.outcome is FAIL]
    assert reasons == [f"chronyd does not run: systemd says '{state}'."]


@pytest.mark.parametrize("check_id", ["time.sources", "time.offset"])
def test_daemon_that_runs_and_does_not_answer_is_unknown(ifupdown, check_id):
    ifupdown.put(CHRONYC, text="", stderr="506 Cannot talk to daemon", code=1)
    assert set(ifupdown.bad(check_id).values()) == {UNKNOWN}


@pytest.mark.parametrize("check_id", RUNNING_CHECKS)
def test_daemon_whose_process_cannot_be_looked_for_is_unknown(ifupdown, check_id):
    stop(ifupdown, "inactive")
    ifupdown.results[ifupdown.read(PROCESSES)].clear()
    assert UNKNOWN in ifupdown.bad(check_id).values()


def test_daemon_that_somebody_started_without_systemd_is_asked(ifupdown):
    ifupdown.replace(UNITS, "ActiveState=active", "ActiveState=inactive")
    assert ifupdown.bad("time.sources") == {}
    assert ifupdown.bad("time.daemon") == {f"{UNIT} ActiveState": FAIL}


@pytest.mark.parametrize("check_id", ["time.sources", "time.offset"])
def test_missing_chronyc_fails(ifupdown, check_id):
    ifupdown.put(CHRONYC, status="absent", text="")
    assert set(ifupdown.bad(check_id).values()) == {FAIL}


def test_file_written_after_the_start_is_stale(ifupdown):
    ifupdown.put("run find", text="9999999999.5 /etc/chrony/chrony.conf\n")
    assert ifupdown.bad("time.stale") == {"/etc/chrony/chrony.conf": FAIL}


def test_mode_of_the_main_file(ifupdown):
    ifupdown.put(MAIN, mode=0o666)
    assert ifupdown.bad("time.files") == {"/etc/chrony/chrony.conf": FAIL}


def test_no_declared_server_is_unknown(ifupdown):
    ifupdown.values["time_sync_servers"] = []
    for check_id in ("time.files", "time.config", "time.sources"):
        assert UNKNOWN in ifupdown.bad(check_id).values()


@pytest.mark.parametrize("check_id", sorted(set(CHECKS) - {"time.rivals"}))
def test_without_chrony_all_fail(ifupdown, check_id):
    stop(ifupdown, "inactive")
    ifupdown.put(MAIN, status="absent", text="")
    ifupdown.put(OPTIONS, status="absent", text="")
    ifupdown.replace(UNITS, "LoadState=loaded", "LoadState=not-found")
    ifupdown.put(CHRONYC, status="absent", text="", code=None)
    (finding,) = ifupdown.findings(check_id)
    assert (finding.outcome, "not installed" in finding.reason) == (FAIL, True)


@pytest.mark.parametrize("check_id", CHECKS)
@pytest.mark.parametrize("spoilt", NOT_WHOLE)
def test_without_whole_evidence_nothing_passes(ifupdown, check_id, spoilt):
    # A command line that was cut off still tells its options.
    assert ifupdown.judged_without_whole(check_id, spoilt, but="glob /proc") == []


@pytest.mark.parametrize("check_id", ["time.sources", "time.offset", "time.daemon", "time.stale"])
@pytest.mark.parametrize("text", ["", "\0\x1b[2J", "506 Cannot talk to daemon", ",,,,,,,,,,\n"])
def test_output_that_is_not_understood_does_not_pass(ifupdown, check_id, text):
    ifupdown.put(ifupdown.reads_of(check_id)[0], text=text)
    assert not {Outcome.PASS} & {one.outcome for one in ifupdown.findings(check_id)}


def test_sources_are_read_with_octal_reach():
    (found,) = parse("^,*,ntp1,2,6,377,19,-0.000001961,0.000001871,0.000017169\n")
    assert (found.name, found.state, found.reach, found.stratum) == ("ntp1", "*", 255, 2)
    assert found.offset_seconds == pytest.approx(-1.961e-6)


@pytest.mark.parametrize(
    "text",
    ["nonsense", "^,*,a,b,6,377,1,0,0,0", "^,*,a,1,6,999,1,0,0,0", "^,*,a,1,6,377,1,nan,0,0"],
)
def test_sources_that_are_not_understood(text):
    with pytest.raises(NotUnderstoodError):
        parse(text)


@pytest.mark.parametrize("text", ["", "a,b", "x," * 13, "1,2,3,4,inf,6,7,8,9,10,11,12,13,Normal"])
def test_tracking_that_is_not_understood(text):
    with pytest.raises(NotUnderstoodError):
        parse_tracking(text)


def test_directives_pass_over_every_kind_of_comment():
    found = parse_directives("! a\n; b\n# c\n% d\n  Server x\n\n", "f")
    assert [(one.statement, one.line) for one in found] == [("server x", 5)]
