"""A report as Prometheus metrics, for the node exporter's textfile collector or a push gateway.

The text format wants all samples of a metric together and no series twice; hosts and verdicts are
therefore gone through once per metric. Only verdicts that are not good get a series of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TextIO

from hfprov.record.model import RunStatus
from hfprov.report.content import Content
from hfprov.report.inert import one_line
from hfprov.report.overview import OUTCOMES, Overview, Row, survey

Sample = tuple[Mapping[str, object], float]

_LABEL_LIMIT = 200


def write_prometheus(content: Content, out: TextIO) -> Overview:
    """Write the metrics of a run or of the fleet; says what they told. Raises RecordError."""
    found = survey(content)
    for name, text, samples in _metrics(content, found):
        out.write(f"# HELP {name} {text}\n# TYPE {name} gauge\n")
        seen: set[str] = set()
        for labels, value in samples:
            series = _labels(labels)
            # Two subjects may differ only in characters that are not shown.
            if series not in seen:
                seen.add(series)
                out.write(f"{name}{series} {value:.15g}\n")
    return found


def _metrics(content: Content, found: Overview) -> Iterator[tuple[str, str, Iterable[Sample]]]:
    rows = found.rows
    yield (
        "hfprov_report_timestamp_seconds",
        "When this was written.",
        [({}, content.made_at.timestamp())],
    )
    yield (
        "hfprov_hosts",
        "Hosts by outcome.",
        [({"outcome": outcome.value}, count) for outcome, count in found.counts.items()],
    )
    yield from _run(content)
    yield (
        "hfprov_host_outcome",
        "1 for the outcome of a host, 0 for the others.",
        (
            ({"host": row.host, "outcome": outcome.value}, float(row.outcome is outcome))
            for row in rows
            for outcome in OUTCOMES
        ),
    )
    yield (
        "hfprov_host_verdicts",
        "Verdicts on a host by outcome.",
        (
            ({"host": row.host, "outcome": outcome}, number)
            for row in rows
            for outcome, number in _summary(row)
        ),
    )
    yield (
        "hfprov_host_judged_timestamp_seconds",
        "When a host was judged last.",
        (({"host": row.host}, row.judged_at.timestamp()) for row in rows if row.judged_at),
    )
    yield (
        "hfprov_verdict_not_good",
        "1 for each verdict that warns, fails or is unknown.",
        (
            (
                {
                    "host": entry.host,
                    "check": verdict.check,
                    "subject": verdict.subject,
                    "outcome": verdict.outcome.value,
                },
                1.0,
            )
            for entry in content.hosts()
            for verdict in entry.problems
        ),
    )
    yield from _certificates(content, rows)


def _run(content: Content) -> Iterator[tuple[str, str, Iterable[Sample]]]:
    info = content.info
    if info is None:
        return
    labels = {
        "run": info.id,
        "command": info.command,
        "status": info.status.value,
        "version": info.version,
    }
    yield "hfprov_run_info", "The run that this tells of.", [(labels, 1.0)]
    complete = float(info.status is RunStatus.COMPLETE)
    yield "hfprov_run_complete", "1 when the run came to its end.", [({}, complete)]
    yield (
        "hfprov_run_started_timestamp_seconds",
        "When the run began.",
        [({}, info.started_at.timestamp())],
    )
    if info.ended_at is not None:
        yield (
            "hfprov_run_ended_timestamp_seconds",
            "When the run ended.",
            [({}, info.ended_at.timestamp())],
        )
    if info.exit_code is not None:
        yield "hfprov_run_exit_code", "The exit code of the run.", [({}, info.exit_code)]


def _summary(row: Row) -> list[tuple[str, int]]:
    if row.summary is None:
        return []
    return [
        ("pass", row.summary.passed),
        ("warn", row.summary.warned),
        ("fail", row.summary.failed),
        ("unknown", row.summary.unknown),
        ("not_applicable", row.summary.not_applicable),
    ]


def _certificates(content: Content, rows: list[Row]) -> Iterator[tuple[str, str, Iterable[Sample]]]:
    issued = [(row.host, row.certificate) for row in rows if row.certificate is not None]
    yield (
        "hfprov_host_certified",
        "1 while a host has a valid certificate.",
        (
            (
                {"host": row.host},
                float(row.certificate is not None and row.certificate.valid_at(content.made_at)),
            )
            for row in rows
        ),
    )
    yield (
        "hfprov_certificate_expires_timestamp_seconds",
        "Until when the newest one holds.",
        (
            (
                {
                    "host": host,
                    "profile": one.profile,
                    "revoked": str(one.revoked_at is not None).lower(),
                },
                one.expires_at.timestamp(),
            )
            for host, one in issued
        ),
    )


def _labels(labels: Mapping[str, object]) -> str:
    """Labels as the text format writes them: backslash, quote and newline are escaped."""
    if not labels:
        return ""
    pairs = (f'{name}="{_value(value)}"' for name, value in labels.items())
    return "{" + ",".join(pairs) + "}"


def _value(value: object) -> str:
    text = one_line(value, _LABEL_LIMIT)
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
