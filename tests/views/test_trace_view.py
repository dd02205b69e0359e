from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from medvrag_core.records import (
    EvidenceItem,
    FilterDecision,
    Hit,
    MemoryBank,
    ParsedReply,
    Question,
    ReaderReply,
    Round,
    ShardDecision,
    StageTime,
    Step,
    Trace,
)
from medvrag_core.views.markup import escape
from medvrag_core.views.trace_text import trace_text
from medvrag_core.views.trace_view import TraceView

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PAYLOADS = [
    "<script>boom()</script>",
    "<img src=x onerror=boom()>",
    "</style><svg onload=boom()>",
    "</pre></article><iframe src=javascript:boom()>",
    '"><a href="javascript:boom()">x</a>',
    "' autofocus onfocus=boom() x='",
    "[x](javascript:boom())",
    "<!--<plaintext>",
    "{{7*7}} ${7*7} $$\\href{javascript:boom()}{x}$$",
    "dose \u202e001 gm\u2066",
]


def trace_of(text: str, *, rounds: int = 2, id: str = "q1") -> Trace:
    """A trace that shows ``text`` wherever text from files, pages and models can stand."""
    bank = MemoryBank(iteration=1, key_findings=(text,), reasoning_history=(text,))
    question = Question(
        id=id, question=text, options={"A": text, "B": "y"}, answer="B", gold_pages=("g#p1", text), context=text
    )
    call = ShardDecision(phase="map", shown=(text,), kept=(text,), fallback=True)
    step = Step(kind="select", about=text, text=text, names=(text,), made_by=text, reason=text, flags=(text,))
    document = EvidenceItem(evidence_id=text, page_id=text, text=text, written_by=text)
    made = tuple(
        Round(
            number=number,
            query=text,
            stage1=(Hit(page_id=text, score=1.5, rank=1), Hit(page_id="g#p1", score=1.0, rank=2)),
            filter=FilterDecision(kept=(text, "g#p1"), calls=(call,)),
            shown=(text, "g#p1"),
            bank_before=bank if number > 1 else MemoryBank(),
            reply=ReaderReply(text=text, finish_reason=text, model=text),
            parsed=ParsedReply(
                label="A" if number == rounds else None, query_update=text, findings=(text,), notes=text
            ),
            times=(StageTime(step=text, seconds=0.25),),
            flags=(text,),
            steps=(step,),
            written=(document,),
        )
        for number in range(1, rounds + 1)
    )
    return Trace(
        system=text, profile=text, fingerprint="f", question=question, rounds=made,
        outcome="answered", label="A", correct=False, seconds=2.5,
    )  # fmt: skip


class Shape(HTMLParser):
    """Tags and attributes of a page, and whether every tag is closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, tuple[str, ...]]] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, tuple(name for name, _ in attrs)))
        if tag not in ("img", "input", "br", "image", "rect"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, tuple(name for name, _ in attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


PLAIN = Shape(TraceView(trace_of("plain")).html).tags
ALL_TEXTS = "".join(Shape(TraceView(trace_of("<dose>")).html).text).count("<dose>")
"""Places of the page in which text from files, pages and models stands."""


@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_text_changes_the_shape_of_the_page(payload: str) -> None:
    shape = Shape(TraceView(trace_of(payload)).html)
    assert shape.tags == PLAIN
    assert (
        "".join(shape.text).count(re.sub("[\u202e\u2066]", lambda c: f"[U+{ord(c[0]):04X}]", payload))
        == ALL_TEXTS
        >= 48
    )


@given(st.text(min_size=1, max_size=60))
def test_any_text_is_shown_as_text(text: str) -> None:
    assert Shape(f'<p title="{escape(text)}">{escape(text)}</p>').tags == [("p", ("title",))]
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b\x00]", escape(text))


def test_nothing_is_loaded_and_nothing_runs() -> None:
    html = TraceView(trace_of("plain")).html
    assert not re.search(r"<script|<link|<iframe|https?:|url\(|@import|\son\w+=", html)


def test_rounds_are_reachable_and_named() -> None:
    html = TraceView(trace_of("plain", rounds=3)).html
    assert html.count('type="radio"') == html.count('<section class="round"') == 3
    assert html.count(" checked>") == 1
    assert 'aria-label="Round 3 of 3"' in html
    assert "Round 3 – answer" in html
    assert not re.search(r'\s(id|for)="', html)  # several traces on one page cannot collide


def test_gold_wrong_and_new_findings_are_marked() -> None:
    html = TraceView(trace_of("plain")).html
    assert "wrong: A, gold B" in html
    assert html.count("gold page</span>") >= 2
    assert '<li dir="auto" class=is-new>plain</li>' in html
    assert '<td class="n">2</td><td class="n">2</td><td class="n">2</td>' in html  # g#p1: Stage 1, filter, shown


def test_no_option_is_wrong_where_nobody_knows_the_right_one() -> None:
    trace = trace_of("plain")
    unknown = trace.model_copy(update={"question": trace.question.model_copy(update={"answer": None}), "correct": None})
    assert "is-wrong" in TraceView(trace).html.split("</style>")[1]
    assert "is-wrong" not in TraceView(unknown).html.split("</style>")[1]


def test_outcomes_without_rounds_or_answer() -> None:
    failed = trace_of("plain").model_copy(update={"rounds": (), "outcome": "error", "label": None, "reason": "<down>"})
    html = TraceView(failed).html
    assert "No round was finished" in html
    assert "error (&lt;down&gt;)" in html


def test_page_images_are_embedded_small_and_missing_ones_are_said(tmp_path: Path) -> None:
    Image.effect_noise((1200, 1600), 90).convert("RGB").save(tmp_path / "g.jpg")
    view = TraceView(trace_of("x#p9"), lambda page: tmp_path / f"{page[0]}.jpg")
    assert view.html == view._repr_html_() == TraceView(trace_of("x#p9"), lambda p: tmp_path / f"{p[0]}.jpg").html
    uris = re.findall(r'src="(data:image/jpeg;base64,[^"]+)"', view.html)
    assert len(uris) == 2
    assert all(len(uri) <= 14_000 for uri in uris)
    assert view.html.count('aria-label="no image"') == 2


@pytest.mark.browser
def test_in_a_browser_rounds_switch_and_payloads_stay_text(chromium: Browser, tmp_path: Path) -> None:
    views = "".join(TraceView(trace_of(p)).html for p in PAYLOADS)
    (tmp_path / "t.html").write_text(
        f"<!doctype html><meta charset=utf-8><script>boom=()=>{{window.hit=1}}</script>{views}", encoding="utf-8"
    )
    page = chromium.new_page()
    seen: list[str] = []
    page.on("request", lambda r: seen.append(r.url))
    page.on("console", lambda m: seen.append(m.text))
    page.goto((tmp_path / "t.html").as_uri())
    shown = "[...document.querySelectorAll('.round')].map(e => getComputedStyle(e).display != 'none')"
    assert page.evaluate(shown) == [True, False] * len(PAYLOADS)
    page.locator("article").nth(1).locator("label").nth(1).click()
    assert page.evaluate(shown)[:4] == [True, False, False, True]
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    assert page.evaluate(shown) == [True, False] * len(PAYLOADS)
    assert page.evaluate("window.hit") is None
    assert [url for url in seen if not url.startswith("file:")] == []
    page.close()


def test_what_came_with_the_question_is_shown_and_cut_where_long() -> None:
    trace = trace_of("dose")
    assert TraceView(trace).html.count("Given with the question") == 1
    bare = trace.model_copy(update={"question": trace.question.model_copy(update={"context": ""})})
    assert "Given with the question" not in TraceView(bare).html and "given:" not in trace_text(bare)
    long = trace.model_copy(update={"question": trace.question.model_copy(update={"context": "<" + "x" * 5_000})})
    html = TraceView(long).html
    assert "&lt;" + "x" * 1_999 + "</p>" in html and "3,001 characters more" in html
    told = trace_text(
        long.model_copy(update={"question": long.question.model_copy(update={"context": "a\x1b b " * 999})})
    )
    (line,) = [line for line in told.splitlines() if line.startswith("  given: a")]
    assert len(line) < 420 and "\x1b" not in told
