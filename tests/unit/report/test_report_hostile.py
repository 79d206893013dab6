"""What a node says comes out inert in every format: it is shown, and does nothing."""

from __future__ import annotations

import csv
import io
import re
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from hfprov.record.identity import Identity
from hfprov.record.model import Change, HostState
from hfprov.report.csv_export import cell, write_csv
from hfprov.report.html_page import write_html
from hfprov.report.inert import LIMIT, lines, one_line
from hfprov.report.junit import write_junit
from hfprov.report.markdown import code, escaped, write_markdown
from hfprov.report.prometheus import write_prometheus
from hfprov.verdict import Finding, Outcome, Verdict

HOSTILE = (
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>' onmouseover='alert(1)",
    "</style><style>*{display:none}</style>",
    "javascript:alert(1)",
    "[click](javascript:alert(1)) ![x](http://evil.example/x.png) <http://evil.example>",
    "http://evil.example/ www.evil.example @everyone #1 user@evil.example",
    "{{ 7 * 7 }} {% raw %} {# #} ${7*7}",
    "pass\u202e\u2066lian\u2069 \u200bx\u2028y\ufeff",
    "\x1b[2J\x1b[31mred\x1b]8;;http://evil.example\x07link\x1b]8;;\x07\x9b31m",
    "nul\x00bell\x07\ud800\ufffe\uffff",
    "`tick` ``two`` | pipe | \\| back\\slash\\",
    "- item\n# heading\n\n---\n> quote\n\n| a | b |\n|---|---|",
    "]]><!--&amp;&#x41;&lt;",
    '=HYPERLINK("http://evil.example","x")',
    "+1+cmd|'/c calc'!A0",
    "@SUM(1)",
    "-2+3",
    "\uff1d1+1",
    '"} 1\nhfprov_hosts{outcome="pass"} 99\n#',
    "x" * 100_000,
    "e" + "\u0301" * 500,
)
ALLOWED_CONTROLS = {"\n"}


def fill(record, rack, host="n1"):
    """A host whose every text is hostile."""
    some = [
        Verdict("mtu.live", Finding(Outcome.FAIL, f"{number} {text}", text, text, text))
        for number, text in enumerate(HOSTILE)
    ]
    some += [Verdict("mtu.live", Finding(Outcome.FAIL, text)) for text in ("x\x01", "x\x02")]
    some += [Verdict(text[:60], Finding(Outcome.UNKNOWN, text, text)) for text in HOSTILE]
    with record.start_run("drift", ["hfprov", *HOSTILE], rack.baselines([host, "n2"])) as log:
        identity = Identity(*HOSTILE[:2], HOSTILE[4])
        log.observed(host, "before", b"{}", some, identity=identity)
        for text in HOSTILE:
            log.change(host, Change(text, text, text, text, text))
            log.event("note", text, host)
        log.state(host, HostState.FAILED, HOSTILE[0])
        log.not_observed("n2", "before", HOSTILE[1], rack.unseen(HOSTILE[1]))
        log.finish(1)


@pytest.fixture
def hostile(record, rack, content):
    fill(record, rack)

    def write(writer):
        out = io.StringIO()
        writer(content(), out)
        text = out.getvalue()
        assert "evil.example" in text  # what is hostile is told, not dropped
        return text

    return write


class Page(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self):
        super().__init__()
        self.tags = set()
        self.attributes = set()
        self.targets = []
        self.ids = []
        self.declarations = []
        self.comments = []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name in {"href", "src", "action", "data", "xlink:href"}:
                self.targets.append(value)
            if name == "id":
                self.ids.append(value)

    def handle_comment(self, data):
        self.comments.append(data)


def assert_nothing_hidden(text):
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)
    assert not re.search(r"[\u200b-\u200f\u202a-\u202e\u2060-\u2069\u2028\u2029\ufeff]", text)
    text.encode()  # no lone surrogate


class TestHtml:
    def test_nothing_but_our_own_tags_and_links_inside_the_page(self, hostile):
        page = Page()
        text = hostile(write_html)
        page.feed(text)
        assert page.tags <= {
            "html", "head", "meta", "title", "style", "body", "header", "nav", "main", "section",
            "article", "footer", "h1", "h2", "h3", "h4", "p", "div", "span", "a", "b", "i", "br",
            "code", "pre", "ul", "ol", "li", "dl", "dt", "dd", "details", "summary",
            "table", "thead", "tbody", "tr", "th", "td", "svg", "symbol", "path", "use", "rect",
        }  # fmt: skip
        assert not [name for name in page.attributes if name.startswith("on") or name == "style"]
        assert all(target.startswith("#") for target in page.targets)
        assert page.comments == []
        assert text.count("<style>") == 1
        assert_nothing_hidden(text)

    def test_every_link_leads_somewhere_and_ids_are_unique(self, hostile):
        page = Page()
        page.feed(hostile(write_html))
        assert len(page.ids) == len(set(page.ids))
        assert {target[1:] for target in page.targets} <= set(page.ids)

    def test_policy_forbids_everything_but_our_style(self, hostile):
        text = hostile(write_html)
        policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text).group(1)
        assert re.fullmatch(
            r"default-src 'none'; style-src 'sha256-[A-Za-z0-9+/=]{44}'; "
            r"base-uri 'none'; form-action 'none'",
            policy,
        )
        assert text.index("Content-Security-Policy") < text.index("<style>")

    def test_direction_overrides_are_shown_as_what_they_are(self, hostile):
        assert "pass\\u202e\\u2066lian\\u2069" in hostile(write_html)

    def test_no_line_is_endless(self, hostile):
        assert "x" * (LIMIT + 1) not in hostile(write_html)


class TestMarkdown:
    def test_a_renderer_finds_only_what_we_wrote(self, hostile):
        text = hostile(write_markdown)
        tokens = MarkdownIt("commonmark").enable("table").parse(text)
        inline = [child for token in tokens for child in token.children or ()]
        assert not [one for one in (*tokens, *inline) if one.type.startswith("html")]
        assert {one.type for one in inline} <= {
            "text", "code_inline", "strong_open", "strong_close", "em_open", "em_close",
            "text_special", "softbreak",
        }  # fmt: skip
        assert {one.type for one in tokens if one.type.endswith("_open")} <= {
            "heading_open", "paragraph_open", "bullet_list_open", "list_item_open", "table_open",
            "thead_open", "tbody_open", "tr_open", "th_open", "td_open",
        }  # fmt: skip
        assert max(one.level for one in tokens if one.type == "bullet_list_open") == 0
        assert_nothing_hidden(text)

    @pytest.mark.parametrize(
        "text",
        ["see http://evil.example", "www.evil.example", "@all", "a@b.example", "mailto:x", "GH#12"],
    )
    def test_what_renderers_make_links_of_is_code(self, text):
        assert escaped(text) == f"`{text}`"

    @given(st.text(max_size=80))
    def test_a_code_span_holds_any_text(self, text):
        shown = one_line(text)
        (inline,) = (t for t in MarkdownIt("commonmark").parse(f"a {code(text)}") if t.children)
        spans = [child for child in inline.children if child.type == "code_inline"]
        assert len(spans) == (1 if shown else 0)
        if shown:
            assert spans[0].content.strip() == shown.strip()

    @given(st.text(st.sampled_from("`*_[]()<>#|~&;!\\-+.1 ab:/@w\n"), max_size=40))
    def test_escaped_text_reads_as_itself(self, text):
        tokens = MarkdownIt("commonmark").enable("strikethrough").parse(f"- {escaped(text)}")
        inline = [child for token in tokens for child in token.children or ()]
        assert {one.type for one in inline} <= {"text", "text_special", "code_inline"}
        assert "".join(one.content for one in inline).strip() == one_line(text)


class TestJunit:
    def test_it_is_xml_whatever_a_node_says(self, hostile):
        text = hostile(write_junit)
        suites = ET.fromstring(text.encode())
        assert {one.tag for one in suites.iter()} <= {
            "testsuites", "testsuite", "testcase", "failure", "error", "skipped", "system-out",
        }  # fmt: skip
        assert_nothing_hidden(text)

    def test_numbers_are_those_of_the_cases(self, hostile):
        for suite in ET.fromstring(hostile(write_junit)).iter("testsuite"):
            assert int(suite.get("tests")) == len(list(suite.iter("testcase")))
            assert int(suite.get("failures")) == len(list(suite.iter("failure")))
            assert int(suite.get("errors")) == len(list(suite.iter("error")))


class TestCsv:
    def test_no_cell_is_a_formula(self, hostile):
        text = hostile(write_csv)
        rows = list(csv.reader(io.StringIO(text)))
        assert {len(row) for row in rows} == {16}
        for one in (one for row in rows for one in row):
            assert not re.match(r"[=+\-@|%\uff1d\uff0b\uff0d\uff20]", one), one
        assert_nothing_hidden(text)

    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("=1", "'=1"),
            ("-1", "-1"),
            ("+1.5", "+1.5"),
            ("-1-1", "'-1-1"),
            (" @x", "'@x"),
            ("\x00=1", "'=1"),
            ("9000", "9000"),
        ],
    )
    def test_a_number_stays_a_number(self, text, shown):
        assert cell(text) == shown


class TestPrometheus:
    LINE = re.compile(r'hfprov_[a-z_]+(\{([a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)+\})? -?[0-9.e+]+')

    def test_every_line_is_of_the_text_format_and_no_series_comes_twice(self, hostile):
        text = hostile(write_prometheus)
        samples = [line for line in text.splitlines() if not line.startswith("# ")]
        assert samples
        for line in samples:
            assert self.LINE.fullmatch(line), line
        series = [line.rpartition(" ")[0] for line in samples]
        assert len(series) == len(set(series))
        assert 'hfprov_hosts{outcome="pass"} 0' in samples
        assert_nothing_hidden(text)

    def test_samples_of_a_metric_stand_together(self, hostile):
        names = re.findall(r"^([a-z_]+)[{ ]", hostile(write_prometheus), re.MULTILINE)
        groups = [name for i, name in enumerate(names) if i == 0 or names[i - 1] != name]
        assert len(groups) == len(set(groups))


@given(st.text())
def test_one_line_is_short_visible_and_stable(text):
    shown = one_line(text)
    assert len(shown) <= LIMIT + 1
    assert_nothing_hidden(shown)
    assert one_line(shown) == shown


def test_lines_keep_indentation_and_tell_what_is_left_out():
    assert lines("a\n\tb\x1b[1m\nc\nd", most=2) == ["a", "    b", "… and 2 more lines"]
