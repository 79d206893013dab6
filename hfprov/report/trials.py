"""Trials and traffic for people and for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.text import Text

from hfprov.measure.traffic import advice, busiest
from hfprov.measure.trial import SettingEffect, Trial, sentence
from hfprov.measure.watch import Watched
from hfprov.report.inert import one_line
from hfprov.report.measured import result_document
from hfprov.report.terminal import console, print_table

_CPUS = 8
"""Busiest CPUs that are shown."""
_MEGA = 1e6


def print_trial(done: Trial) -> None:
    """What a setting did, per test."""
    out = console()
    styles = {True: "green", False: "red", None: ""}
    for one in done.effects:
        out.print(Text(one_line(sentence(one)), style=styles[one.better]))
    for host, reason in done.failed.items():
        out.print(Text(f"{host} failed: {one_line(reason)}", style="red"))
    for measured in (done.first, done.second):
        for what, reason in (measured.unfit if measured else {}).items():
            out.print(Text(f"{one_line(what)}: not measured: {one_line(reason)}", style="magenta"))
    if not done.effects:
        out.print(Text("Nothing can be said of the effect.", style="magenta"))
    out.print(Text("What was tried is in place." if done.kept else "What was tried is undone."))


def trial_document(done: Trial) -> dict[str, Any]:
    """``hfprov trial --json``; described in docs/schemas/trial-1.json."""
    return {
        "schema": "hfprov.trial/1",
        "run": done.run,
        "exit_code": int(done.code),
        "kept": done.kept,
        "effects": [_effect(one) for one in done.effects],
        "failed": dict(done.failed),
        "before": [result_document(one) for one in (done.first.results if done.first else ())],
        "after": [result_document(one) for one in (done.second.results if done.second else ())],
    }


def _effect(one: SettingEffect) -> dict[str, Any]:
    known = one.effect
    return {
        "test": one.test,
        "pairs": one.pairs,
        "size": known.size if known else None,
        "low": known.low if known else None,
        "high": known.high if known else None,
        "confidence": known.confidence if known else None,
        "better": one.better,
        "says": sentence(one),
    }


def print_traffic(done: Watched) -> None:
    """Per host and interface, the busiest first, with what it means."""
    out = console()
    for host, seen in done.traffic.items():
        sent_again = "not known" if seen.retransmitted is None else seen.retransmitted
        out.print(
            Text(host, style="bold"),
            Text(f"{seen.seconds:.1f} s, TCP segments sent again: {sent_again}"),
        )
        flows = busiest(seen.flows)
        print_table(
            ("", "MTU", "packets/s", "bytes/packet", "Mbit/s in", "Mbit/s out", "trouble"),
            [
                (
                    flow.interface,
                    flow.mtu or "?",
                    f"{flow.packets:.0f}",
                    f"{flow.mean_bytes:.0f}",
                    f"{flow.received_bytes * 8 / _MEGA:.1f}",
                    f"{flow.sent_bytes * 8 / _MEGA:.1f}",
                    ", ".join(f"{name} {count}" for name, count in flow.trouble.items()) or "none",
                )
                for flow in flows
            ],
        )
        for flow in flows:
            if flow.packets:
                out.print(Text(f"{flow.interface}: {one_line(advice(flow))}"))
        top = sorted(seen.interrupts.items(), key=lambda item: -item[1])[:_CPUS]
        shown = ", ".join(f"{cpu}: {rate:.0f}" for cpu, rate in top)
        out.print(Text(f"interrupts/s by CPU, the busiest: {shown or 'not known'}", style="dim"))
    for host, reason in done.unknown.items():
        out.print(Text(f"{host}: not known: {one_line(reason)}", style="magenta"))


def traffic_document(done: Watched) -> dict[str, Any]:
    """``hfprov traffic --json``; described in docs/schemas/traffic-1.json."""
    return {
        "schema": "hfprov.traffic/1",
        "run": done.run,
        "exit_code": int(done.code),
        "hosts": [
            {
                "host": host,
                "seconds": seen.seconds,
                "retransmitted": seen.retransmitted,
                "interrupts": {str(cpu): rate for cpu, rate in seen.interrupts.items()},
                "interfaces": [
                    {**asdict(flow), "mean_bytes": flow.mean_bytes, "says": advice(flow)}
                    for flow in busiest(seen.flows)
                ],
            }
            for host, seen in done.traffic.items()
        ],
        "unknown": dict(done.unknown),
    }
