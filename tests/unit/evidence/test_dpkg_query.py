"""One dpkg-query for all who ask: each hears what dpkg would have told it alone."""

import pytest

from hfprov.errors import NoEvidenceError
from hfprov.evidence.dpkg_query import one_query
from hfprov.reading import Observation, Result, command, once

FORM = r"${db:Status-Abbrev}\t${Package}\t${Version}\n"
KERNELS = one_query(command("dpkg-query", "-W", f"--showformat={FORM}", "dpkg", "linux-*"))
SHORT = r"${Package} ${db:Status-Status}\n"
TOOLS = one_query(command("dpkg-query", "--show", f"--showformat={SHORT}", "--", "fio", "dpkg"))
ROWS = (
    "dpkg\t1.21\tamd64\tii \tinstalled\tlibc6 (>= 2)\n"
    "fio\t\t\tun \tnot-installed\t\n"
    "linux-image-6\t6.1\tamd64\thi \tinstalled\tkmod, x | y\n"
)


def seen(text=ROWS, **more):
    (sent,) = once((KERNELS, TOOLS))
    return Observation({sent.id: (Result("", "ok", text, **{"code": 1, **more}),)})


def test_one_process_asks_for_the_packages_of_all():
    (sent,) = once((KERNELS, TOOLS))
    assert sent.request["argv"][0] == "dpkg-query"
    assert sent.request["argv"][-4:] == ["--", "dpkg", "fio", "linux-*"]


def test_each_hears_of_its_own_packages_in_its_own_form():
    assert seen().text(KERNELS, codes=(0, 1)) == "ii \tdpkg\t1.21\nhi \tlinux-image-6\t6.1\n"
    assert seen().text(TOOLS, codes=(0, 1)) == "dpkg installed\nfio not-installed\n"


def test_what_an_answer_of_its_own_says_counts():
    alone = Observation({KERNELS.id: (Result("", "ok", "ii \tdpkg\t1\n", code=0),)})
    assert alone.text(KERNELS) == "ii \tdpkg\t1\n"


@pytest.mark.parametrize("text", ["dpkg\t1.21\n", "nonsense\n", ROWS + "half of a l"])
def test_rows_of_another_form_are_no_evidence(text):
    with pytest.raises(NoEvidenceError, match="unknown form"):
        seen(text).text(KERNELS, codes=(0, 1))


@pytest.mark.parametrize(
    "trouble",
    [
        {"status": "timeout"},
        {"status": "absent"},
        {"status": "skipped"},
        {"truncated": True},
        {"code": 2},
    ],
)
def test_a_query_that_failed_is_no_evidence_for_anybody(trouble):
    status = {"status": "ok", **trouble}.pop("status")
    rest = {name: value for name, value in trouble.items() if name != "status"}
    (sent,) = once((KERNELS, TOOLS))
    result = Result("", status, ROWS, **{"code": 1, **rest})
    for read in (KERNELS, TOOLS):
        with pytest.raises(NoEvidenceError):
            Observation({sent.id: (result,)}).text(read, codes=(0, 1))
