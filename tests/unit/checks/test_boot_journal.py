"""Whether the journal keeps the kernel's messages."""

from __future__ import annotations

import pytest

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts
from hfprov.evidence.grep import heading
from hfprov.evidence.journal_settings import JOURNAL_SETTINGS, JOURNAL_UNIT, UNIT
from hfprov.judge import find_check, findings_of
from hfprov.reading import Observation
from hfprov.verdict import Outcome

PASS, WARN, FAIL, UNKNOWN = Outcome.PASS, Outcome.WARN, Outcome.FAIL, Outcome.UNKNOWN
BASELINE = Baseline("n1", (), {})
(GREP,) = JOURNAL_SETTINGS.reads(BASELINE)
(SHOW,) = JOURNAL_UNIT.reads(BASELINE)
MAIN = "/etc/systemd/journald.conf"
FOLDER = "systemd/journald.conf.d"


def judged(*lines, active="active", load="loaded", grep=None):
    rows = "".join(f"{path}\0{number}:{line}\n" for number, (path, line) in enumerate(lines, 1))
    told = {"name": "", "status": "ok", "code": 0, "text": heading(GREP) + rows} | (grep or {})
    shown = f"Id={UNIT}\nNames={UNIT}\nLoadState={load}\nActiveState={active}\n"
    results = {GREP.id: [told], SHOW.id: [{"name": "", "status": "ok", "code": 0, "text": shown}]}
    seen = Observation.from_json({"results": results})
    found = findings_of(find_check("boot.journal"), Facts(seen, BASELINE), BASELINE)
    return {one.subject: one.outcome for one in found}


def bad(*lines, **more):
    return {subject: one for subject, one in judged(*lines, **more).items() if one is not PASS}


def test_a_journal_that_nobody_changed():
    assert judged() == {UNIT: PASS, "": PASS}


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ("Storage=none", FAIL),
        ("  Storage = NONE ", FAIL),
        ("Storage=volatile", WARN),
        ("ReadKMsg=no", FAIL),
        ("ReadKMsg=off", FAIL),
        ("MaxLevelStore=err", FAIL),
        ("MaxLevelStore=2", FAIL),
        ("MaxLevelStore=notice", WARN),
        ("Storage=persistent", None),
        ("Storage=auto", None),
        ("ReadKMsg=yes", None),
        ("MaxLevelStore=debug", None),
        ("MaxLevelStore=info", None),
        ("#Storage=none", None),
        ("XStorage=none", None),
        ("export Storage", None),
    ],
)
def test_what_is_set(line, outcome):
    name = line.strip().partition("=")[0].strip()
    assert bad((MAIN, line)) == ({f"{MAIN}:1 {name}": outcome} if outcome else {})


def test_the_last_one_in_the_order_of_the_files_holds():
    a, b = f"/etc/{FOLDER}/a.conf", f"/run/{FOLDER}/b.conf"
    assert bad((a, "Storage=none"), (b, "Storage=auto")) == {}
    assert bad((a, "Storage=auto"), (b, "Storage=none")) == {f"{b}:2 Storage": FAIL}
    assert bad((MAIN, "Storage=none"), (a, "Storage=auto")) == {}
    assert bad((a, "Storage=none"), (MAIN, "Storage=auto")) == {f"{a}:1 Storage": FAIL}
    assert bad((a, "Storage=none"), (b, "Storage=")) == {}


def test_a_file_hides_one_of_its_name_in_a_lower_folder():
    etc, usr = f"/etc/{FOLDER}/a.conf", f"/usr/lib/{FOLDER}/a.conf"
    assert bad((usr, "Storage=none"), (etc, "Storage=auto")) == {}
    assert bad((etc, "Storage=none"), (usr, "Storage=auto")) == {f"{etc}:1 Storage": FAIL}
    assert bad((usr, "ReadKMsg=no"), (etc, "Storage=auto")) == {}


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({"active": "inactive"}, FAIL),
        ({"active": "failed"}, FAIL),
        ({"load": "masked"}, FAIL),
        ({"active": "reloading"}, None),
    ],
)
def test_a_journal_that_is_not_at_work(changes, outcome):
    assert bad(**changes) == ({UNIT: outcome} if outcome else {})


@pytest.mark.parametrize(
    "grep", [{"status": "timeout"}, {"truncated": True}, {"text": ""}, {"code": 2, "stderr": ""}]
)
def test_files_that_were_not_searched_never_pass(grep):
    assert UNKNOWN in judged(grep=grep).values()


def test_evidence_of_before_there_was_this_check_is_unknown():
    found = findings_of(find_check("boot.journal"), Facts(Observation({}), BASELINE), BASELINE)
    assert [one.outcome for one in found] == [UNKNOWN]
