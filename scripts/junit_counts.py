"""Print 'PASSED FAILED SKIPPED' of a JUnit file that pytest wrote; errors count as failed.

Usage: junit_counts.py FILE EXIT_CODE. Fails when the file is not there. A run that ended badly
without a failed test (nothing collected, a crash) counts as one failure.
"""

# ruff: noqa: INP001 - a script, not a package

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree as ET


def counts(report: Path, exit_code: int) -> tuple[int, int, int]:
    suites = ET.parse(report).getroot().iter("testsuite")  # noqa: S314 - pytest has just written it
    total = failed = skipped = 0
    for suite in suites:
        total += int(suite.get("tests", "0"))
        failed += int(suite.get("failures", "0")) + int(suite.get("errors", "0"))
        skipped += int(suite.get("skipped", "0"))
    passed = max(total - failed - skipped, 0)
    return passed, max(failed, int(exit_code != 0)), skipped


if __name__ == "__main__":
    print(*counts(Path(sys.argv[1]), int(sys.argv[2])))  # noqa: T201 - the shell reads it
