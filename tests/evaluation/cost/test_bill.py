"""Costs against sums made by hand over random traces, over recorded calls, and over a real run on loopback."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.errors import InputError, MedvragError
from medvrag_core.evaluation.cost.bill import QUANTITIES, arm_cost, cost_report, paper_means, question_cost
from medvrag_core.evaluation.cost.latency import PAPER_STEPS
from medvrag_core.evaluation.cost.prices import PriceTable, price_template, read_prices
from medvrag_core.evaluation.outcomes import read_asked_endings
from medvrag_core.records import (
    FilterDecision,
    MemoryBank,
    ParsedReply,
    Question,
    ReaderReply,
    Round,
    SeenPage,
    ShardDecision,
    StageTime,
    Trace,
)
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import read_traces
from medvrag_core.systems.archive import archived_traces

REPO = Path(__file__).resolve().parents[3]
PRICES = PriceTable(
    currency="X",
    date="2026-01-01",  # type: ignore[arg-type]
    source="made up for a test",
    filter={"prompt_per_million": 2.0, "completion_per_million": 8.0},  # type: ignore[arg-type]
    reader={"prompt_per_million": 5.0, "completion_per_million": 15.0, "per_image": 0.25},  # type: ignore[arg-type]
    gpu_hour=9.0,
    gpus=4,
)
tokens = st.integers(0, 40_000)
steps = st.sampled_from(["encode_query", "ann", "coarse", "exact", "bm25", "filter", "read", "refine"])


@st.composite
def replies(draw: st.DrawFn) -> ReaderReply:
    seen = draw(st.lists(st.tuples(st.sampled_from([0, 800]), st.integers(0, 1_500)), max_size=4))
    return ReaderReply(
        text="",
        prompt_tokens=draw(tokens),
        completion_tokens=draw(tokens),
        call=draw(st.sampled_from(["", "k"])),
        attempts=draw(st.integers(1, 3)),
        seen=tuple(SeenPage(page_id=f"p{i}", width=w, height=w, tokens=t) for i, (w, t) in enumerate(seen)),
    )


@st.composite
def shards(draw: st.DrawFn) -> ShardDecision:
    return ShardDecision(
        phase=draw(st.sampled_from(["map", "reduce"])),
        shown=(),
        kept=(),
        call=draw(st.sampled_from(["", "k"])),
        prompt_tokens=draw(tokens),
        completion_tokens=draw(tokens),
        fallback=draw(st.booleans()),
    )


@st.composite
def rounds_(draw: st.DrawFn) -> Round:
    times = draw(st.lists(st.tuples(steps, st.floats(0, 100)), max_size=8))
    return Round(
        number=1,
        query="q",
        stage1=(),
        filter=FilterDecision(kept=(), calls=tuple(draw(st.lists(shards(), max_size=4)))),
        shown=(),
        bank_before=MemoryBank(),
        reply=draw(replies()),
        parsed=ParsedReply(),
        refinement=draw(st.none() | replies()),
        times=tuple(StageTime(step=step, seconds=seconds) for step, seconds in times),
    )


def trace_of(number: int, rounds: tuple[Round, ...], rest: float, *, error: bool = False) -> Trace:
    return Trace(
        system="medvrag",
        profile="test",
        fingerprint="f",
        question=Question(id=f"q{number}", question="?", options={"A": "x", "B": "y"}),
        rounds=rounds,
        outcome="error" if error else "unparsed",
        label=None,
        seconds=sum(time.seconds for r in rounds for time in r.times) + rest,
    )


many = st.lists(
    st.tuples(st.lists(rounds_(), max_size=3), st.floats(0, 50), st.booleans()), min_size=1, max_size=5
).map(lambda given: [trace_of(i, tuple(r), rest, error=error) for i, (r, rest, error) in enumerate(given)])


@settings(deadline=None, max_examples=40)
@given(many, st.sampled_from([None, PRICES]))
def test_stages_and_questions_add_up_to_the_totals(traces: list[Trace], prices: PriceTable | None) -> None:
    report = cost_report(traces, prices=prices)
    for quantity in QUANTITIES:
        by_stage = sum(row.total for row in report.rows if row.quantity == quantity and row.stage != "total")
        whole = report.row("total", quantity)
        assert by_stage == pytest.approx(whole.total if whole else 0.0)
        per_question = [getattr(question.total, quantity) or 0 for question in report.questions]
        assert sum(per_question) == pytest.approx(by_stage)
        if whole:
            assert whole.max == pytest.approx(max(per_question)) and whole.mean == pytest.approx(np.mean(per_question))
            assert min(per_question) <= whole.median <= whole.p90 <= whole.p95 <= whole.max
    assert [question.total.seconds for question in report.questions] == pytest.approx([t.seconds for t in traces])
    assert (report.n, report.errors) == (len(traces), sum(t.outcome == "error" for t in traces))
    assert prices is not None or report.row("total", "money") is None


@settings(deadline=None, max_examples=40)
@given(many)
def test_tokens_images_and_calls_against_a_count_by_hand(traces: list[Trace]) -> None:
    raw = json.loads(json.dumps([trace.model_dump(mode="json") for trace in traces]))
    filters = [call for trace in raw for r in trace["rounds"] for call in r["filter"]["calls"]]
    readers = [r["reply"] for trace in raw for r in trace["rounds"]]
    readers += [r["refinement"] for trace in raw for r in trace["rounds"] if r["refinement"]]
    report = cost_report(traces)

    def total(quantity: str) -> float:
        row = report.row("total", quantity)
        return row.total if row else 0

    assert total("prompt_tokens") == sum(call["prompt_tokens"] for call in filters + readers)
    assert total("completion_tokens") == sum(call["completion_tokens"] for call in filters + readers)
    pages = [page for reply in readers for page in reply["seen"] if page["width"]]
    assert (total("images"), total("visual_tokens")) == (len(pages), sum(page["tokens"] for page in pages))
    replied = [c for c in filters + readers if c["call"] or c["prompt_tokens"] or c["completion_tokens"]]
    assert total("calls") == len(replied)
    assert report.uncounted_calls == sum(not call["prompt_tokens"] for call in replied)
    assert report.failed_calls == sum(call["fallback"] and call not in replied for call in filters)
    assert report.retries == sum(reply["attempts"] - 1 for reply in readers)


@settings(deadline=None, max_examples=40)
@given(many)
def test_money_is_linear_in_the_prices(traces: list[Trace]) -> None:
    """Each price alone, added up, is the whole table; and machine hours are the seconds of the traces."""
    whole = [q.total.money for q in cost_report(traces, prices=PRICES).questions]
    singles = []
    for role, field in [("filter", f) for f in PRICES.filter.model_dump()] + [
        ("reader", f) for f in PRICES.reader.model_dump()
    ]:
        if price := getattr(getattr(PRICES, role), field):
            singles.append({role: {field: price}})
    singles.append({"gpu_hour": 9.0, "gpus": 4})
    head = {"currency": "X", "date": "2026-01-01", "source": "s"}
    parts = [
        [q.total.money or 0.0 for q in cost_report(traces, prices=PriceTable.model_validate(head | one)).questions]
        for one in singles
    ]
    assert np.sum(parts, axis=0) == pytest.approx(np.array(whole, dtype=float))
    assert parts[-1] == pytest.approx([trace.seconds / 100 for trace in traces])
    filters = sum(c.prompt_tokens for t in traces for r in t.rounds for c in r.filter.calls)
    assert sum(parts[0]) == pytest.approx(2.0 * filters / 1e6)


def test_a_question_in_error_costs_what_it_took(make_trace: Callable[..., Trace]) -> None:
    good = make_trace("good", times={"read": 1.0}, seconds=2.0)
    lost = make_trace("lost", None, outcome="error", rounds=(), seconds=90.0)
    report = cost_report([good, lost])
    total = report.row("total", "seconds")
    assert total is not None and total.total == 92.0
    assert [row.n for row in report.rounds] == [1]
    assert any("1 questions ended in an error" in note for note in report.notes)


def test_a_trace_whose_steps_outlast_it_is_refused(make_trace: Callable[..., Trace]) -> None:
    with pytest.raises(MedvragError, match=r"question 'q1' .* its steps took 4 s more than the whole"):
        question_cost(make_trace("q1", times={"read": 5.0}, seconds=1.0))


def test_rounds_and_expectation(make_trace: Callable[..., Trace]) -> None:
    """Shares times means are the mean; at the paper's shares, the paper's shares times means."""
    empty = ((), (), ())
    lengths = [1, 1, 1, 2, 3, 3]
    traces = [
        make_trace(f"q{i}", rounds=[empty] * k, times={"read": 1.0}, seconds=k + i / 10) for i, k in enumerate(lengths)
    ]
    report = cost_report(traces)
    assert [(r.rounds, r.n, r.paper_share) for r in report.rounds] == [(1, 3, 0.614), (2, 1, 0.248), (3, 2, 0.138)]
    one_round = sum(seconds or 0 for _, seconds in PAPER_STEPS.values())
    assert [r.paper_seconds for r in report.rounds] == pytest.approx([one_round, 2 * one_round, 3 * one_round])
    row = next(e for e in report.expected if e.quantity == "seconds")
    assert row.measured == pytest.approx(np.mean([t.seconds for t in traces]))
    assert row.at_paper_shares == pytest.approx(0.614 * 1.1 + 0.248 * 2.3 + 0.138 * 3.45)
    assert row.paper == pytest.approx(1.524 * one_round)
    assert next(e for e in cost_report(traces[:3]).expected if e.quantity == "seconds").at_paper_shares is None


def test_the_papers_own_budget() -> None:
    """The planning figures for one arm of 7,045 questions: calls, images, filter tokens, serial hours."""
    arm = {name: 7_045 * value for name, value in paper_means().items()}
    assert arm["images"] == pytest.approx(107_000, rel=0.01)
    assert arm["calls"] == pytest.approx(10_737 + 96_600, rel=0.001)
    assert arm["filter_prompt_tokens"] == pytest.approx(2.83e9, rel=0.01)
    assert arm["seconds"] / 3600 == pytest.approx(47.5, rel=0.001)


def test_recorded_calls_of_a_real_model() -> None:
    traces = [
        t for t in archived_traces(REPO / "data/demo/recorded/calls.jsonl.xz") if t.system == "medvrag_option_blind"
    ]
    report = cost_report(traces)
    rows = {(row.stage, row.quantity): row.total for row in report.rows}
    for stage, replies_ in (
        ("read", [r.reply for t in traces for r in t.rounds]),
        ("refine", [r.refinement for t in traces for r in t.rounds if r.refinement]),
    ):
        assert replies_
        assert rows[stage, "calls"] == len(replies_)  # type: ignore[index]
        assert rows[stage, "completion_tokens"] == sum(r.completion_tokens for r in replies_)  # type: ignore[index]
    assert ("total", "images") not in rows, "this model read the pages as text"
    assert report.uncounted_calls == report.failed_calls == 0


def test_a_run_on_a_real_server(paid_run: Workspace) -> None:
    report = cost_report(read_traces(paid_run, "medvrag", made_by="the fixture"), prices=PRICES, questions_at_once=4)
    for stage in ("filter_map", "filter_reduce", "read"):
        row = report.row(stage, "calls")  # type: ignore[arg-type]
        assert row is not None and row.total > 0
    images, money = report.row("total", "images"), report.row("total", "money")
    assert images is not None and images.total > 0
    assert money is not None and money.total > 0.25 * images.total
    assert "up to 4 questions were under way" in " ".join(report.notes)


def test_stored_traces_are_read_one_by_one_for_the_questions_asked(paid_run: Workspace) -> None:
    endings, _ = read_asked_endings(paid_run, "medvrag", made_by="the fixture")
    traces = read_traces(paid_run, "medvrag", made_by="the fixture")
    assert arm_cost(paid_run, endings, prices=PRICES) == cost_report(traces, prices=PRICES)
    assert arm_cost(paid_run, endings[:1]).n == 1


def test_questions_one_by_one_need_no_caveat(make_trace: Callable[..., Trace]) -> None:
    alone = " ".join(cost_report([make_trace()], questions_at_once=1).notes)
    assert "under way" not in alone
    assert "unknown number" in " ".join(cost_report([make_trace()]).notes)


# --- prices -----------------------------------------------------------------------------

GOOD = "currency: EUR\ndate: 2026-11-30\nsource: an invoice\ngpu_hour: 1.5\n"


def test_a_price_table_is_read(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(GOOD)
    table = read_prices(tmp_path / "p.yaml")
    assert (table.currency, str(table.date), table.of_seconds(7_200)) == ("EUR", "2026-11-30", 3.0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GOOD + "reader: {prompt_per_milion: 1}\n", r"unknown field 'reader\.prompt_per_milion'"),
        (GOOD + "total: 3\n", "unknown field 'total'"),
        (GOOD.replace("date: 2026-11-30\n", ""), "field 'date' is missing"),
        (GOOD.replace("an invoice", "''"), "field 'source'"),
        (GOOD.replace("1.5", "-1"), "field 'gpu_hour'"),
        (GOOD.replace("1.5", ".inf"), "field 'gpu_hour'"),
        (GOOD.replace("1.5", "0"), "no price is given"),
        ("- 1\n", "whole record"),
        ("{", "not valid YAML"),
        ("date: !!python/object/apply:os.getcwd []\n", "not valid YAML"),
    ],
)
def test_faulty_price_tables_are_refused(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(text)
    with pytest.raises(InputError, match=words) as told:
        read_prices(tmp_path / "p.yaml")
    assert "p.yaml" in str(told.value) and "--price-template" in str(told.value)


def test_the_template_holds_no_price_and_is_no_table_until_filled_in(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(price_template())
    assert not any(character.isdigit() for character in price_template())
    with pytest.raises(InputError, match="field 'currency'"):
        read_prices(path)
    filled = price_template().replace("currency:", "currency: X").replace("date:", "date: 2026-01-01")
    filled = filled.replace("source:", "source: s").replace("gpu_hour:", "gpu_hour: 2").replace("gpus:", "gpus: 3")
    filled = filled.replace("prompt_per_million:", "prompt_per_million: 1").replace(
        "completion_per_million:", "completion_per_million: 1"
    )
    path.write_text(filled.replace("per_image:", "per_image: 0"))
    assert read_prices(path).of_seconds(3600) == 6
