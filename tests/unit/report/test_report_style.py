"""Everybody can read the page: contrast of 4.5 to 1 at least (WCAG 2.2, 1.4.3), both themes."""

from __future__ import annotations

import re
from importlib import resources

import pytest

CSS = resources.files("hfprov.report").joinpath("templates/report.css").read_text("utf-8")
PAIRS = [
    ("ink", "page"), ("ink", "card"), ("ink", "code"), ("soft", "page"), ("soft", "card"),
    ("link", "page"), ("link", "card"),
    *((name, under) for name in ("pass", "warn", "fail", "unknown", "none")
      for under in (f"{name}-bg", "card")),
    *(("ink", f"{name}-bg") for name in ("pass", "warn", "fail", "unknown")),
]  # fmt: skip


def colours(block):
    return dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block))


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize(("text", "under"), PAIRS)
@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_contrast(theme, text, under):
    found = colours(re.findall(r":root \{.*?\n *\}", CSS, re.DOTALL)[theme])
    dark, light = sorted((luminance(found[text]), luminance(found[under])))
    assert (light + 0.05) / (dark + 0.05) >= 4.5


def test_the_style_loads_nothing():
    assert not re.search(r"url\(|@import|@font-face|expression", CSS)


def test_print_has_no_dark_theme():
    assert "@media screen and (prefers-color-scheme: dark)" in CSS
    assert CSS.count("prefers-color-scheme") == 1
