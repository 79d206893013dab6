"""One question to systemd for all sources: merged, asked by the probe, taken apart again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hfprov import probe, probe_commands, probe_systemd
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence import system
from hfprov.evidence.systemd_units import (
    manager,
    parse,
    shown_manager,
    shown_units,
    together,
    units,
)
from hfprov.reading import Observation, Result, command, file, once

SSH = units("ssh.service", properties=["LimitNOFILE"], of_main_process=["limits"])
TIME = units("chrony.service", "ssh.service", properties=["ActiveState"])
TEXT = """\
MainPID=12
Id=ssh.service
Names=ssh.service sshd.service
LoadState=loaded

MainPID=0
Id=gone.service
Names=gone.service
LoadState=not-found

/proc/12/limits:Limit  Soft
/proc/12/limits:Max open files  1024
"""


def seen(read, text, **result):
    return Observation({read.id: (Result(name="", status="ok", text=text, code=0, **result),)})


def test_reads_of_units_become_one_that_asks_for_all():
    first, (one,) = file("/a"), once([SSH, TIME])
    assert once([first, SSH, first, TIME]) == (first, one)
    *_, properties, end = one.request["argv"]
    assert set(properties.partition("=")[2].split(",")) == {
        *("Id", "Names", "LoadState", "MainPID", "LimitNOFILE", "ActiveState"),
    }
    assert (one.request["files"], end) == (["limits"], "--")
    assert one.request["units"] == ["chrony.service", "ssh.service"]
    assert one.request["light"] == ["chrony.service"]  # more is asked of the other


def test_more_that_is_asked_of_a_unit_by_anybody_has_it_shown():
    (one,) = once([TIME, units("chrony.service", properties=["TasksMax"])])
    assert one.request["light"] == ["ssh.service"]


def test_other_reads_are_asked_once_as_they_are():
    first, again = command("a", timeout=1), command("a", timeout=1)
    assert once([first, again, file("/a")]) == (first, file("/a"))


@pytest.mark.parametrize("name", ["a b.service", "-a", "ssh", "$(x).service", "a.service/b", ""])
def test_a_name_that_is_none_is_not_asked_for_and_spoils_no_other(name):
    read = units(name, "gone.service", properties=[])
    assert read.request["units"] == ["gone.service"]
    with pytest.raises(NotUnderstoodError):
        shown_units(seen(read, TEXT), read)


def test_units_are_found_by_any_of_their_names():
    read = units("sshd.service", "gone.service", properties=[], of_main_process=["limits"])
    shown, found = shown_units(seen(read, TEXT), read)
    assert list(found) == ["gone.service", "sshd.service"]
    assert found["sshd.service"]["Id"] == "ssh.service"
    text = shown.main_process_file(found["sshd.service"], "limits")
    assert text == "Limit  Soft\nMax open files  1024"


WANTS = "Link=/etc/systemd/system/multi-user.target.wants/"


@pytest.mark.parametrize(
    ("remembered", "linked", "true"),
    [
        ("enabled", "ssh.service", "enabled"),
        ("enabled", "sshd.service", "enabled"),
        ("enabled", "other.service", "wanted by nothing"),
        ("disabled", "ssh.service", "enabled"),
        ("disabled", "other.service", "disabled"),
        ("generated", "ssh.service", "enabled"),
        ("generated", "other.service", "generated"),
        ("static", "ssh.service", "static"),
        ("masked", "ssh.service", "enabled"),
        ("masked", "other.service", "disabled"),
    ],
)
def test_what_starts_at_boot_is_told_by_links_not_by_what_systemd_remembers(
    remembered, linked, true
):
    block = f"Id=ssh.service\nNames=ssh.service sshd.service\nUnitFileState={remembered}\n"
    for name in ("ssh.service", "sshd.service"):
        found = parse(f"{block}\n{WANTS}{linked}\n").units[name]
        assert found["UnitFileState"] == true


@pytest.mark.parametrize("remembered", ["enabled", "static", "masked"])
def test_a_mask_holds_though_systemd_has_not_read_it(remembered):
    block = f"Id=ssh.service\nNames=ssh.service\nLoadState=loaded\nUnitFileState={remembered}\n"
    text = f"{block}\n{WANTS}ssh.service\nMask=/etc/systemd/system/ssh.service\n"
    found = parse(text).units["ssh.service"]
    assert (found["LoadState"], found["UnitFileState"]) == ("masked", "masked")


def test_without_links_there_is_only_what_systemd_remembers():
    block = "Id=ssh.service\nNames=ssh.service\nLoadState=masked\nUnitFileState=masked\n"
    assert parse(block).units["ssh.service"]["UnitFileState"] == "masked"


@pytest.mark.parametrize(("pid", "name"), [("12", "status"), ("13", "limits")])
def test_a_process_that_ended_meanwhile_is_no_evidence(pid, name):
    with pytest.raises(NoEvidenceError):
        parse(TEXT).main_process_file({"Id": "ssh.service", "MainPID": pid}, name)


@pytest.mark.parametrize(
    "text", ["", "nonsense", "Id=a.service\n", "Id=a.service\nNames=a.service"]
)
def test_units_that_are_not_told_of_are_not_understood(text):
    with pytest.raises(NotUnderstoodError):
        shown_units(seen(SSH, text), SSH)


SYSTEMCTL = """#!/bin/sh
echo "$*" >> "$ASKED"
case " $* " in
*" list-units "*) echo "a.service loaded failed failed A"; exit "$LIST" ;;
*" -- "*) printf 'MainPID=1\\nId=x\\n\\nMainPID=0\\nId=*\\n\\nMainPID=999999999\\nId=y\\n' ;;
*) printf 'NFailedUnits=%s\\nSystemState=degraded\\n' "$FAILED" ;;
esac
exit "$CODE"
"""


def state(name, load, active, sub, description=""):
    """A unit as systemd lists it."""
    return [name, description, load, active, sub, "", f"/org/{name}", 0, "", "/"]


HERE = state("ssh.service", "loaded", "active", "running")
GONE = state("chrony.service", "not-found", "inactive", "dead")
IDLE = state("chrony.service", "loaded", "inactive", "dead", "The time\nId=ssh.service")


@pytest.fixture
def run(tmp_path, monkeypatch):
    """What the probe answers: of units as they are listed, or None for no bus."""
    fake = tmp_path / "systemctl"
    fake.write_text(SYSTEMCTL)
    fake.chmod(0o755)
    monkeypatch.setattr(probe_commands, "SAFE_PATH", f"{tmp_path}:/usr/bin:/bin")

    def run(read, *, code=0, failed=0, listed=0, states=None, properties=None):
        class Bus:
            def __init__(self, _):
                if states is None and properties is None:
                    raise OSError("There is no bus.")

            def call(self, *_):
                return [states]

            def properties(self, _service, _path, _interface, names):
                return [properties[name] for name in names]

        monkeypatch.setattr(probe_systemd, "Bus", Bus)
        environment = {
            "PATH": f"{tmp_path}:/usr/bin:/bin",
            "CODE": str(code),
            "FAILED": str(failed),
            "LIST": str(listed),
            "ASKED": str(tmp_path / "asked"),
        }
        monkeypatch.setattr(probe_commands, "ENVIRONMENT", environment)
        (result,) = probe.observe({"reads": [{"id": read.id, **read.request}]})["results"][read.id]
        return result

    return run


def test_files_of_main_processes_are_read_in_the_same_call(run):
    done = run(SSH)
    assert done["code"] == 0
    units_told, _, files = done["text"].partition("/proc/")
    assert units_told.startswith("MainPID=1\nId=x\n\nMainPID=0\nId=*\n\n")
    assert files.startswith("1/limits:Limit ")
    assert "999999999" not in files


def asked(tmp_path):
    told = tmp_path / "asked"
    return [line.partition(" -- ")[2] for line in told.read_text().splitlines()]


def test_units_that_systemd_does_not_have_are_not_asked_for_once_more(run):
    done = run(TIME, states=[GONE, HERE])
    assert done["text"].startswith(
        "Id=chrony.service\nNames=chrony.service\nLoadState=not-found\nActiveState=inactive\n"
        "SubState=dead\n\n"
    )
    assert "\nMainPID=1\n" not in done["text"]  # the list is enough for the other one, too


def test_without_any_of_the_units_systemd_is_not_asked_for_itself(run, tmp_path):
    read = units("chrony.service", properties=["ActiveState"])
    done = run(read, states=[GONE])
    assert done["code"] == 0
    assert not (tmp_path / "asked").exists()
    unit = shown_units(seen(read, done["text"]), read)[1]["chrony.service"]
    assert (unit["LoadState"], unit["ActiveState"], unit["MainPID"]) == (
        "not-found",
        "inactive",
        "0",
    )


@pytest.mark.parametrize(
    ("loaded", "links", "at_boot"),
    [
        ("loaded", f"{WANTS}chrony.service", "enabled"),
        ("loaded", f"{WANTS}other.service", "disabled"),
        ("masked", f"{WANTS}chrony.service", "masked-runtime"),
        ("masked", f"{WANTS}x.service\nMask=/etc/systemd/system/chrony.service", "masked"),
    ],
)
def test_a_unit_is_told_by_the_list_and_by_links(run, loaded, links, at_boot):
    read = units("chrony.service", properties=["ActiveState", "UnitFileState"])
    done = run(read, states=[[*IDLE[:2], loaded, *IDLE[3:]]])
    unit = parse(f"{done['text'].partition('Link=')[0]}{links}\n").units["chrony.service"]
    assert unit["LoadState"] == loaded
    assert (unit["ActiveState"], unit["UnitFileState"]) == ("inactive", at_boot)


def test_a_unit_at_work_is_told_by_the_list_too(run, tmp_path):
    read = units("chrony.service", properties=["ActiveState", "UnitFileState"])
    done = run(read, states=[state("chrony.service", "loaded", "active", "running")])
    unit = parse(done["text"]).units["chrony.service"]
    assert (unit["LoadState"], unit["ActiveState"], unit["SubState"]) == (
        "loaded",
        "active",
        "running",
    )
    assert not (tmp_path / "asked").exists()


def test_a_listed_unit_has_no_state_at_boot_where_links_are_not_told():
    told = "Id=a.service\nNames=a.service\nLoadState=loaded\nActiveState=inactive\nSubState=dead\n"
    assert "UnitFileState" not in parse(told).units["a.service"]


def test_a_unit_of_which_more_is_asked_is_shown_though_it_does_nothing(run, tmp_path):
    read = units("chrony.service", properties=["ActiveState", "TasksMax"])
    run(read, states=[IDLE])
    assert asked(tmp_path) == ["chrony.service"]


@pytest.mark.parametrize(
    "states",
    [
        None,
        [],
        [HERE],  # fewer than were asked for: which one is told of is not known
        [["chrony.service"], ["ssh.service"]],
        [
            state("chrony.service", "error", "inactive", "dead"),
            [*HERE[:2], "bad-setting", *HERE[3:]],
        ],
        # The units' files are gone, but their processes are not.
        [[*GONE[:3], "active", "running", *GONE[5:]], [*HERE[:2], "not-found", *HERE[3:]]],
    ],
)
def test_all_units_are_shown_that_systemd_does_not_say_are_gone(run, tmp_path, states):
    run(TIME, states=states)
    assert asked(tmp_path) == ["chrony.service ssh.service"]


def test_a_unit_with_two_names_is_shown_once(run, tmp_path):
    read = units("ssh.service", "sshd.service", properties=["TasksMax"])
    done = run(read, states=[HERE, HERE])
    assert asked(tmp_path) == ["ssh.service"]
    told, _, links = done["text"].partition("MainPID=")
    told += "Id=ssh.service\nNames=ssh.service\nTasksMax=7\n"
    assert "Link=" in links
    found = shown_units(seen(read, told), read)[1]
    assert [found[name]["TasksMax"] for name in ("ssh.service", "sshd.service")] == ["7", "7"]


def test_a_listed_unit_has_the_name_that_was_asked_for(run):
    read = units("sshd.service", properties=["ActiveState"])
    found = shown_units(seen(read, run(read, states=[HERE])["text"]), read)[1]
    assert (found["sshd.service"]["Id"], found["sshd.service"]["ActiveState"]) == (
        "ssh.service",
        "active",
    )


def test_a_link_with_a_name_that_is_no_text_spoils_nothing(run, tmp_path, monkeypatch):
    Path(tmp_path, os.fsdecode(b"\xff\nMask=.wants")).symlink_to("ssh.service")
    monkeypatch.setattr(probe_systemd, "STARTING", (f"{tmp_path}/*.wants",))
    done = run(units("ssh.service", properties=["ActiveState"]), states=[HERE])
    assert "Id=ssh.service\n" in done["text"]
    assert f"Link={tmp_path}/\\xff?Mask=.wants\n" in done["text"]
    assert done["garbled"]


def test_what_is_shown_in_part_only_is_not_added_to(run):
    read = units("ssh.service", properties=["TasksMax"])
    small = type(read)(read.id, {**read.request, "limit": 10})
    assert run(small, states=[HERE])["text"] == "MainPID=1\n"


@pytest.mark.parametrize("read", [SSH, TIME, manager(["SystemState"])], ids=str)
def test_a_systemctl_that_fails_is_seen(run, read):
    assert run(read, code=1)["code"] == 1


@pytest.mark.parametrize(("failed", "names"), [(0, ()), (1, ("a.service",)), (10, ("a.service",))])
def test_failed_units_are_listed_only_when_there_are_any(run, failed, names):
    done = run(system.STATE, failed=failed)
    found = system.UNITS.parse(seen(system.STATE, done["text"]), None)
    assert (found.state, found.failed) == ("degraded", names)


def test_a_list_of_failed_units_that_cannot_be_had_is_seen(run):
    assert run(system.STATE, failed=1, listed=1)["code"] == 1


FAILED = state("a.service", "loaded", "failed", "failed", "A\nNFailedUnits=0")


@pytest.mark.parametrize("states", [[], [FAILED]])
def test_systemd_tells_of_itself_and_of_failed_units(run, tmp_path, states):
    told = {"SystemState": "degraded", "NFailedUnits": len(states)}
    done = run(system.STATE, states=states, properties=told)
    found = system.UNITS.parse(seen(system.STATE, done["text"]), None)
    assert (found.state, found.failed) == ("degraded", tuple(one[0] for one in states))
    assert not (tmp_path / "asked").exists()


def test_what_has_no_bound_is_called_as_systemctl_calls_it(run):
    read = manager(["DefaultTasksMax", "DefaultLimitNOFILE"])
    told = {"DefaultTasksMax": 2**64 - 1, "DefaultLimitNOFILE": 1024}
    found, _ = shown_manager(seen(read, run(read, states=[], properties=told)["text"]), read)
    assert found == {"DefaultTasksMax": "infinity", "DefaultLimitNOFILE": "1024"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "NFailedUnits=2\nSystemState=degraded\n",
        "NFailedUnits=0\nSystemState=dreaming\n",
        "SystemState=running\n",
    ],
)
def test_a_state_of_systemd_that_is_not_whole(text):
    with pytest.raises(NotUnderstoodError):
        system.UNITS.parse(seen(system.STATE, text), None)


@pytest.mark.parametrize(
    ("name", "machine"),
    [
        ("", system.Machine.BARE_METAL),
        ("kvm", system.Machine.VIRTUAL),
        ("vm-other", system.Machine.VIRTUAL),
        ("systemd-nspawn", system.Machine.CONTAINER),
        ("container-other", system.Machine.CONTAINER),
    ],
)
def test_the_kind_of_machine_is_what_systemd_found(name, machine):
    shown = seen(system.VIRTUALIZATION, f"SystemState=running\nVirtualization={name}\n")
    assert system.MACHINE.parse(shown, None) is machine


@pytest.mark.parametrize("text", ["", "SystemState=running\n", "Virtualization=\x1b[0m?\n"])
def test_a_kind_of_machine_that_is_not_told_is_not_understood(text):
    with pytest.raises(NotUnderstoodError):
        system.MACHINE.parse(seen(system.VIRTUALIZATION, text), None)


def test_properties_of_systemd_are_asked_together():
    (one,) = once([manager(["A"]), manager(["B"])])
    assert one.request["argv"][-1] == "A,B"
    assert shown_manager(seen(one, "A=1\nB=\n"), manager(["B"]))[0]["B"] == ""
    with pytest.raises(NotUnderstoodError):
        shown_manager(seen(one, "A=1\n"), manager(["B"]))


def test_shows_of_single_sources_are_sent_as_one_and_answered_from_it():
    alone = together(command("systemctl", "show", "--property=Id,ActiveState", "--", "a.service"))
    other = together(command("systemctl", "show", "--property=LoadState", "auditd"))
    (sent,) = once([alone, other])
    assert {"a.service", "auditd.service"} <= set(sent.request["units"])
    text = (
        "Id=a.service\nNames=a.service\nLoadState=loaded\nActiveState=active\n\n"
        "Id=auditd.service\nNames=auditd.service\nLoadState=not-found\nActiveState=inactive\n"
    )
    results = {sent.id: [{"name": "", "status": "ok", "code": 0, "text": text}]}
    seen = Observation.from_json({"results": results})
    assert seen.text(alone) == "Id=a.service\nActiveState=active\n"
    assert seen.text(other) == "LoadState=not-found\n"
    missing = together(command("systemctl", "show", "--property=Id", "--", "gone.service"))
    with pytest.raises(NoEvidenceError, match=r"did not tell of 'gone\.service'"):
        seen.text(missing)


@pytest.mark.parametrize(
    "change", [{"status": "timeout"}, {"status": "absent"}, {"code": 1}, {"truncated": True}]
)
def test_an_answer_to_all_that_is_none_is_none_to_each(change):
    alone = together(command("systemctl", "show", "--property=Id", "--", "a.service"))
    row = {"name": "", "status": "ok", "code": 0, "text": "Id=a.service\nNames=a.service\n"}
    seen = Observation.from_json({"results": {alone.sent_as().id: [row | change]}})
    with pytest.raises(NoEvidenceError):
        seen.text(alone)


def test_an_answer_of_its_own_in_old_evidence_counts():
    alone = together(command("systemctl", "show", "--property=Id", "--", "a.service"))
    row = {"name": "", "status": "ok", "code": 0, "text": "Id=a.service\n"}
    assert Observation.from_json({"results": {alone.id: [row]}}).text(alone) == "Id=a.service\n"
    with pytest.raises(NoEvidenceError, match="was not observed"):
        Observation.from_json({"results": {}}).text(alone)
