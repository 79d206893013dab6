"""A node of which nothing is required is told with the reason; one without a result is unknown."""

from __future__ import annotations

from hfprov.errors import ExitCode
from hfprov.operate import exit_code_for
from hfprov.report.tested import print_tested, required
from hfprov.sweep import HostVerdicts
from hfprov.verdict import NotApplicable, Verdict, failed, not_applicable, passed, unknown

NO_CARD = "The node has no accelerators, and none are declared."


def view(host, *findings, reachable=True, reason=""):
    verdicts = tuple(Verdict("diagnose", one) for one in findings)
    return HostVerdicts(host, verdicts, reachable=reachable, reason=reason)


SPARED = not_applicable(NotApplicable.NO_SUCH_HARDWARE, NO_CARD)


def told(capsys, *views):
    some = {one.host: one for one in views}
    print_tested(some)
    return capsys.readouterr().out.splitlines(), exit_code_for(required(some))


def test_where_nothing_is_required_the_reason_is_told_and_nothing_was_tested(capsys):
    said, code = told(capsys, view("n1", SPARED))
    assert said == ["n1 not applicable", f"  {NO_CARD}", "Nothing was tested."]
    assert code is ExitCode.NOTHING


def test_a_spared_node_does_not_spoil_what_the_others_came_to(capsys):
    said, code = told(capsys, view("n1", SPARED), view("n2", passed("gpu0")))
    assert said[:3] == ["n1 not applicable", f"  {NO_CARD}", "n2 pass"]
    assert "unknown: 0" in said[-1]
    assert code is ExitCode.GOOD


def test_a_node_without_a_result_is_unknown_and_not_spared(capsys):
    silent = view("n3", unknown(reason="No route."), reachable=False, reason="No route.")
    for one in (silent, view("n4"), view("n5", SPARED, unknown(reason="It may be in use."))):
        said, code = told(capsys, one, view("n2", passed("gpu0")))
        assert said[0] == f"{one.host} unknown"
        assert code is ExitCode.UNKNOWN


def test_what_failed_beside_what_is_not_required_has_failed(capsys):
    bad = failed("gpu1", observed="off", expected="on", reason="It is off.")
    said, code = told(capsys, view("n1", SPARED, bad))
    assert said[0] == "n1 fail"
    assert code is ExitCode.BAD
