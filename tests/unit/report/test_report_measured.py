"""Measurements in the report: a matrix of pairs, values with what judges say, curves; all inert."""

from __future__ import annotations

import io
from datetime import UTC, datetime

import pytest

from hfprov.baseline import Baseline
from hfprov.record.model import Measurement
from hfprov.record.store import Record
from hfprov.report.content import FLEET, Content
from hfprov.report.html_page import write_html
from hfprov.report.measured_views import measured_views
from hfprov.verdict import Outcome

HOSTS = ("n1", "n2", "n3")


def one(host, peer="", value=9.5, outcome="pass", test="iperf3 tcp", reason="", **parameters):
    return Measurement(
        host, test, value, "Gbit/s", peer=peer,
        parameters={"rail": "10.0.0.0/24" if peer else "", **parameters},
        samples=(value,) * 5 if value else (),
        conditions={"outcome": outcome, "opinions": [["nominal", outcome, reason or "Declared."]]},
    )  # fmt: skip


def pairs(**changes):
    return [one(a, b, **changes) for a in HOSTS for b in HOSTS if a != b]


def test_pairs_are_a_matrix_and_hosts_are_rows():
    found = measured_views([*pairs(), one("n1", test="fio read")])
    [matrix] = found.matrices
    assert matrix.hosts == HOSTS
    assert len(matrix.cells) == 6
    assert [(row.host, row.test) for row in found.rows] == [("n1", "fio read")]


def test_a_latency_says_that_less_is_better_and_shows_its_percentiles_and_cautions():
    told = Measurement(
        "n1", "ping round trip", 50.0, "us", peer="n2",
        parameters={"rail": "r", "higher_is_better": False, "details": {"min": 41.0, "p99.9": 90.5},
                    "curve": [[64, 50.0], [512, 52.0], [4096, 60.0]]},
        samples=(50.0,) * 5,
        conditions={"outcome": "pass", "opinions": [["nominal", "pass", "Declared."]],
                    "cautions": ["It has 9 MiB in swap."]},
    )  # fmt: skip
    found = measured_views([told, *pairs()])
    units = {matrix.test: matrix.unit for matrix in found.matrices}
    assert units == {"ping round trip": "us, less is better", "iperf3 tcp": "Gbit/s"}
    [latency] = [one for one in found.matrices if one.test == "ping round trip"]
    says = latency.cells["n1", "n2"].says
    assert says == "min 41, p99.9 90.5 us. It has 9 MiB in swap. nominal: Declared."
    [curve] = found.curves
    assert curve.unit == "us, less is better"


@pytest.mark.parametrize("details", [None, [], "x", {"min": "<b>"}, {"min": None}])
def test_strange_details_are_not_shown(details):
    found = measured_views([one("n1", details=details)])
    assert found.rows[0].cell.says == "nominal: Declared."


def test_the_newest_of_a_pair_counts():
    found = measured_views([*pairs(value=1.0), *pairs(value=2.0)])
    assert {cell.text for cell in found.matrices[0].cells.values()} == {"2"}


def test_what_gave_no_figure_is_a_row_and_comes_before_what_is_good():
    bad = one("n2", "n1", value=None, outcome="unknown", reason="It failed.")
    found = measured_views([one("n1", test="fio read"), bad])
    assert [row.cell.text for row in found.rows] == ["no figure", "9.5"]
    assert found.rows[0].cell.says == "nominal: It failed."


def test_what_was_not_judged_is_not_shown():
    told = Measurement("n1", "traffic", 3.0, "packets/s")
    assert not measured_views([told])


@pytest.mark.parametrize(
    "curve",
    [None, "x", [], [[1, 2]], [[1, 2], [2, 3]], [[0, 1], [-1, 2], [1, "x"], [2, None]]],
)
def test_what_is_no_curve_draws_none(curve):
    assert measured_views([one("n1", curve=curve)]).curves == ()


def test_a_curve_is_drawn_within_its_frame():
    [curve] = measured_views([one("n1", curve=[[8, 1.0], [64, 20.0], [1024, 40.0]])]).curves
    points = [tuple(map(float, point.split(","))) for point in curve.points.split()]
    assert points[0][0] == 0
    assert points[-1] == (260.0, 0.0)
    assert all(0 <= x <= 260 and 0 <= y <= 90 for x, y in points)


def test_a_large_rail_is_rows_and_what_is_bad_is_never_left_out():
    many = [one(f"h{n}", f"h{n + 1}") for n in range(600)] + [one("x", "y", outcome="fail")]
    found = measured_views(many)
    assert found.matrices == ()
    assert found.rows[0].cell.outcome is Outcome.FAIL
    assert found.left_out == 201


def test_the_page_shows_them_and_nothing_of_a_node_s_is_markup(tmp_path):
    evil = "<script>alert(1)</script>{{ 7*7 }}\x1b[31m"
    with Record.open(tmp_path / "record.db") as record:
        names = {host: Baseline(host, ()) for host in HOSTS}
        with record.start_run("measure", ["hfprov"], names) as log:
            for each in (*pairs(reason=evil), one("n1", test=evil, curve=[[1, 1], [2, 2], [4, 3]])):
                log.measured(each)
            log.finish(0)
        for wanted in (log.id, FLEET):
            out = io.StringIO()
            write_html(Content(record, wanted, datetime.now(UTC)), out)
            page = out.getvalue()
            assert 'class="matrix"' in page
            assert "<polyline" in page
            assert "<script>alert" not in page
            assert "\x1b" not in page
            assert "{{ 7*7 }}" in page
