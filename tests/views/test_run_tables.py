from __future__ import annotations

from pathlib import Path

from medvrag_core.evaluation.retrieval.filter_loss import filter_loss
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import (
    Article,
    FilterDecision,
    Hit,
    LedgerEntry,
    MemoryBank,
    PageLayout,
    ParsedReply,
    Question,
    ReaderReply,
    Region,
    Round,
    ShardDecision,
    Summary,
    Trace,
    Word,
)
from medvrag_core.views.layout_view import page_layout_view
from medvrag_core.views.run_tables import (
    articles_table,
    filter_loss_table,
    filter_table,
    ledger_table,
    metrics_table,
    profile_table,
    summaries_table,
    traces_table,
)
from medvrag_core.views.trace_text import trace_text

EVIL = "<script>alert(1)</script>"


def evil_trace() -> Trace:
    bank = MemoryBank(iteration=1, key_findings=(f"[Round 1] {EVIL}\x1b[2J",), reasoning_history=("n",))
    round_ = Round(
        number=1, query=EVIL + "\x1b]0;x\x07", stage1=(), filter=FilterDecision(kept=()), shown=("a#p1",),
        bank_before=bank,
        reply=ReaderReply(text=EVIL), parsed=ParsedReply(label="A", findings=(EVIL,), notes=EVIL), times=(),
    )  # fmt: skip
    question = Question(id=EVIL, question=EVIL, options={"A": EVIL, "B": "x"}, answer="A", gold_pages=("a#p1",))
    return Trace(
        system="s", profile="p", fingerprint="f", question=question, rounds=(round_,), outcome="answered", label="A",
        correct=True, seconds=1.5,
    )  # fmt: skip


def test_s8_every_table_escapes_what_comes_from_outside() -> None:
    article = Article(article_id=EVIL, file=EVIL, sha256="0", pages=1, title=EVIL)
    entry = LedgerEntry(file=EVIL, state="dropped", reason=EVIL, detail=EVIL)
    summary = Summary(page_id=EVIL, text=EVIL, method=EVIL)
    call = ShardDecision(phase="map", shown=(EVIL,), kept=(EVIL,), fallback=True, reason=EVIL, flags=(EVIL,))
    for table in (
        articles_table([article]),
        ledger_table([entry]),
        summaries_table({EVIL: summary}),
        metrics_table({EVIL: EVIL, "nested": {EVIL: EVIL}}),
        filter_table(FilterDecision(kept=(EVIL,), calls=(call,)), gold=(EVIL,)),
        filter_loss_table(filter_loss([evil_trace()]), caption=EVIL),
        traces_table([evil_trace()]),
    ):
        assert "<script>" not in table.html
        assert "&lt;script&gt;" in table.html


def test_filter_calls_tell_why_they_fell_back_and_what_they_cost() -> None:
    call = ShardDecision(
        phase="map", shown=("a", "b"), kept=("a",), repeated=3, strangers=4, filled=1, fallback=True,
        reason="timeout", prompt_tokens=812, flags=("summary_cut",),
    )  # fmt: skip
    table = filter_table(FilterDecision(kept=("a",), calls=(call,)), gold=("b",))
    (row,) = table.rows
    assert row[4:] == ("b", "-", 3, 4, 1, "yes (timeout)", 812, "summary_cut")
    assert len(row) == len(table.columns)


def test_filter_loss_shows_every_fate_and_the_calls_behind_it() -> None:
    trace = evil_trace()
    calls = (
        ShardDecision(phase="map", shown=("a#p1", "b#p1"), kept=("b#p1",), fallback=True, reason="timeout"),
        ShardDecision(phase="reduce", shown=("b#p1",), kept=("b#p1",), prompt_tokens=90, flags=("summary_cut",)),
    )
    hits = tuple(Hit(page_id=page, score=1.0, rank=n) for n, page in enumerate(("b#p1", "a#p1"), 1))
    round_ = trace.rounds[0].model_copy(update={"stage1": hits, "filter": FilterDecision(kept=("b#p1",), calls=calls)})
    table = filter_loss_table(filter_loss([trace.model_copy(update={"rounds": (round_,)})]))
    shown = {str(row[0]): str(row[1]) for row in table.rows}
    assert shown["lost, the call fell back to Stage-1 order"] == "1 of 1" and shown["kept"] == "0 of 1"
    assert shown["never among the candidates"] == "0 of 1"
    assert "2 calls, fallbacks: timeout 1" in table.caption and "1 calls with a cut summary" in table.caption
    assert "median 90, most 90" in table.caption


def test_control_characters_never_reach_the_terminal() -> None:
    text = trace_text(evil_trace())
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "Answer: A" in text


def test_the_profile_table_shows_every_setting_of_every_stage() -> None:
    html = profile_table(load_profile("cpu")).html
    for field in ("centroids", "shard_size", "max_rounds", "vectors_per_page", "dpi"):
        assert field in html


def test_the_ledger_counts_what_it_does_not_show() -> None:
    entries = [LedgerEntry(file=f"{n}.pdf", state="dropped", reason="encrypted") for n in range(60)]
    table = ledger_table(entries, limit=10)
    assert table.html.count("<tr>") == 11
    assert "dropped: encrypted 60" in table.html
    assert "first 10 of 60" in table.html


def test_traces_count_the_gold_pages_that_were_read() -> None:
    assert "1 of 1" in traces_table([evil_trace()]).html


def test_the_layout_view_draws_one_box_a_region(tmp_path: Path) -> None:
    from PIL import Image

    Image.new("RGB", (200, 300), "white").save(tmp_path / "p.jpg")
    regions = (
        Region(kind="heading", box=(0.1, 0.1, 0.9, 0.2), text=EVIL),
        Region(kind="text", box=(0.1, 0.3, 0.9, 0.9), text="body"),
    )
    words = (Word(text="w", box=(0.1, 0.1, 0.2, 0.2)),)
    html = page_layout_view(tmp_path / "p.jpg", PageLayout(page_id="a#p1", words=words, regions=regions)).html
    assert html.count("<rect") == 2
    assert "<script>" not in html
    assert "1 words, 2 regions" in html
