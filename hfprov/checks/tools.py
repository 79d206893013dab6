"""The tools that measurements need are there and run, and nothing that came with them stays on."""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts, check
from hfprov.checks.written_file import judge_written_file
from hfprov.evidence.diagnostic_tools import (
    KEY_FILE,
    REPOSITORY,
    REPOSITORY_FILES,
    SERVICES,
    SITE_PACKAGES,
    STREAM,
    STREAM_PROGRAM,
    STREAM_SOURCE,
    TOOLS,
)
from hfprov.evidence.systemd import Properties, property_of
from hfprov.reading import Result
from hfprov.verdict import (
    Finding,
    Impact,
    NotApplicable,
    compared,
    failed,
    not_applicable,
    passed,
)

SITE = ("diagnostics_tools_site_repository", "diagnostics_tools_site_suite")
STREAM_RIGHTS = {STREAM_SOURCE: "0644 0:0", STREAM_PROGRAM: "0755 0:0"}


@check(
    "tools.run",
    reads=[TOOLS],
    role="diagnostics_tools",
    impact=Impact.NONE,
    judges=["diagnostics_tools_wanted", "diagnostics_tools_site_tools"],
)
def run(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """Each tool starts; what it says of its version is what was observed."""
    found = facts.get(TOOLS)
    if not found:
        yield not_applicable(NotApplicable.NOT_REQUESTED, "No tool is declared.")
    for name, answer in found.items():
        observed = f"version {answer.version}" if answer.version else "runs, and tells no version"
        if answer.problem:
            observed, reason = answer.problem, "Measurements that need this tool cannot be made."
            yield failed(name, observed=observed, expected="runs", reason=reason)
        else:
            yield passed(name, observed=observed, expected="runs")


@check(
    "tools.services",
    reads=[SERVICES],
    role="diagnostics_tools",
    impact=Impact.NONE,
    judges=["diagnostics_tools_services_off"],
)
def services(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """What came with the tools neither runs nor starts at boot, nor lies there as failed."""
    found = facts.get(SERVICES)
    names = [f"{name}.service" for name in baseline["diagnostics_tools_services_off"]]
    if not names:
        yield not_applicable(NotApplicable.NOT_REQUESTED, "No service is declared to be off.")
    for name in names:
        observed = _state(found.get(name))
        reason = "It loads the node beside a measurement, or counts as a failed unit."
        if observed in ("not installed", "inactive, not started at boot"):
            yield passed(name, observed=observed, expected="off")
        else:
            yield failed(name, observed=observed, expected="off", reason=reason)


def _state(unit: Properties | None) -> str:
    if unit is None or property_of(unit, "LoadState") == "not-found":
        return "not installed"
    enabled = property_of(unit, "UnitFileState").startswith("enabled")
    return f"{property_of(unit, 'ActiveState')}, {'' if enabled else 'not '}started at boot"


@check(
    "tools.lldpd",
    reads=[SERVICES],
    role="diagnostics_tools",
    impact=Impact.NONE,
    judges=["diagnostics_tools_wanted"],
)
def lldpd(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The daemon runs where its client is declared: without the daemon it has nothing to tell."""
    if "lldpcli" not in baseline["diagnostics_tools_wanted"]:
        yield not_applicable(NotApplicable.NOT_REQUESTED, "'lldpcli' is not declared.")
        return
    yield compared(
        "lldpd.service",
        observed=_state(facts.get(SERVICES).get("lldpd.service")),
        expected="active, started at boot",
        reason="Which switch port the node is plugged into cannot be told.",
    )


@check(
    "tools.repository",
    reads=[REPOSITORY],
    role="diagnostics_tools",
    impact=Impact.NONE,
    judges=[*SITE, "diagnostics_tools_site_key"],
)
def repository(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The site's repository is set up as declared; without a declaration none is left over."""
    found = facts.get(REPOSITORY)
    apt, dnf = (read.request["path"] for read in REPOSITORY_FILES)
    if not baseline[SITE[0]]:
        for path in (apt, dnf):
            observed = "there" if path in found else "absent"
            reason = "A repository is left over that is not declared."
            yield compared(path, observed=observed, expected="absent", reason=reason)
        return
    if dnf in found:
        key = KEY_FILE.request["path"]
        yield _written(dnf, found.get(dnf), _for_dnf(baseline))
        yield _written(key, found.get(key), str(baseline["diagnostics_tools_site_key"]))
    else:
        yield _written(apt, found.get(apt), _for_apt(baseline))


def _written(path: str, result: Result | None, text: str) -> Finding:
    return judge_written_file(path, result, wanted=_lines(text), statements=_lines)


def _lines(text: str) -> list[str]:
    """Lines without comments; the empty lines of a key are kept by their full stop."""
    return [line.rstrip() for line in text.splitlines() if line.strip() and line[0] != "#"]


def _for_apt(baseline: Baseline) -> str:
    suite, *components = str(baseline[SITE[1]]).split() or ["./"]
    key = str(baseline["diagnostics_tools_site_key"]).strip().splitlines()
    lines = ["Types: deb", f"URIs: {baseline[SITE[0]]}", f"Suites: {suite}"]
    if baseline[SITE[1]]:
        lines.append(f"Components: {' '.join(components) or 'main'}")
    return "\n".join([*lines, "Signed-By:", *(f" {line.strip() or '.'}" for line in key)])


def _for_dnf(baseline: Baseline) -> str:
    return (
        f"[hfprov-site]\nname=Tools of this site\nbaseurl={baseline[SITE[0]]}\n"
        "enabled=1\ngpgcheck=1\ngpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-hfprov-site\n"
    )


@check(
    "tools.packages",
    reads=[SITE_PACKAGES],
    role="diagnostics_tools",
    impact=Impact.NONE,
    judges=["diagnostics_tools_site_packages"],
)
def packages(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The site's packages are installed."""
    names = baseline["diagnostics_tools_site_packages"]
    if not names:
        yield not_applicable(NotApplicable.NOT_REQUESTED, "No package of the site is declared.")
    found = facts.get(SITE_PACKAGES)
    for name in names:
        observed = found.get(str(name), "not installed")
        reason = "The package is not installed, or its installation did not end."
        yield compared(str(name), observed=observed, expected="installed", reason=reason)


@check(
    "tools.stream",
    reads=[STREAM],
    role="diagnostics_tools",
    impact=Impact.NONE,
    judges=["diagnostics_tools_stream_source", "diagnostics_tools_stream_elements"],
)
def stream(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """STREAM is there as it was built: of this source, for arrays of this size."""
    if not baseline["diagnostics_tools_stream_source"]:
        reason = "No source of STREAM is declared: memory bandwidth needs a package that has it."
        yield not_applicable(NotApplicable.NOT_REQUESTED, reason)
        return
    found = facts.get(STREAM)
    expected = (
        str(baseline["diagnostics_tools_stream_elements"]),
        *(found.digests.get(path, "absent") for path in STREAM_RIGHTS),
    )
    if found.stamp == expected and "absent" not in expected:
        yield passed("build", observed=f"{expected[0]} elements", expected="as declared")
    else:
        reason = "It was never built, or is not of this source, or of another size of arrays."
        observed = f"{found.stamp[0]} elements" if found.stamp else "not built"
        yield failed("build", observed=observed, expected=f"{expected[0]} elements", reason=reason)
    for path, rights in STREAM_RIGHTS.items():
        observed = found.rights.get(path, "absent")
        reason = "Owner or mode are not as the role sets them."
        yield compared(path, observed=observed, expected=rights, reason=reason)
