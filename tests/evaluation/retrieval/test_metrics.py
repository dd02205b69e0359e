from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvrag_core.errors import InputError
from medvrag_core.evaluation.retrieval.metrics import read_qrels, retrieval_report, write_trec
from medvrag_core.records import Hit


def hits(*scored: tuple[str, float]) -> tuple[Hit, ...]:
    return tuple(Hit(page_id=p, score=s, rank=r) for r, (p, s) in enumerate(scored, start=1))


PAGES = [f"PMC1#p{n}" for n in range(1, 13)]
rankings = st.lists(st.sampled_from(PAGES), unique=True, max_size=12)
golds = st.sets(st.sampled_from(PAGES), min_size=1, max_size=4)


@given(st.lists(st.tuples(rankings, golds), min_size=1, max_size=4))
def test_metrics_equal_their_definitions(cases: list[tuple[list[str], set[str]]]) -> None:
    gold = {f"q{i}": dict.fromkeys(pages, 1) for i, (_, pages) in enumerate(cases)}
    report = retrieval_report({f"q{i}": ranking for i, (ranking, _) in enumerate(cases)}, gold, ks=(1, 5))
    n = len(cases)
    for k in (1, 5):
        assert report.recall[k] == pytest.approx(sum(len(g & set(r[:k])) / len(g) for r, g in cases) / n)
        assert report.any_gold[k] == pytest.approx(sum(bool(g & set(r[:k])) for r, g in cases) / n)
    first = [next((i for i, page in enumerate(r, start=1) if page in g), None) for r, g in cases]
    assert report.mrr == pytest.approx(sum(1 / i for i in first if i) / n)
    assert report.mrr_at_10 == pytest.approx(sum(1 / i for i in first if i and i <= 10) / n)
    assert report.unranked == sum(not r for r, _ in cases)


def test_mrr_at_10_ends_with_the_tenth_page() -> None:
    tenth, eleventh = [*PAGES[:9], "x#p1"], [*PAGES[:10], "x#p1"]
    report = retrieval_report({"a": tenth, "b": eleventh}, {"a": {"x#p1": 1}, "b": {"x#p1": 1}})
    assert report.mrr_at_10 == 0.1 / 2 and report.mrr == pytest.approx((1 / 10 + 1 / 11) / 2)


@given(st.lists(st.tuples(rankings.filter(bool), golds), min_size=1, max_size=3))
def test_visrags_two_metrics_are_those_of_trec_eval(cases: list[tuple[list[str], set[str]]]) -> None:
    """trec_eval has no cut-off for reciprocal rank, so it gets rankings that end there."""
    import pytrec_eval

    qrels = {f"q{i}": dict.fromkeys(sorted(pages), 1) for i, (_, pages) in enumerate(cases)}
    ranked = {f"q{i}": ranking for i, (ranking, _) in enumerate(cases)}
    run = {q: {page: -float(place) for place, page in enumerate(pages[:10])} for q, pages in ranked.items()}
    found = pytrec_eval.RelevanceEvaluator(qrels, {"recip_rank", "recall.10"}).evaluate(run).values()
    report = retrieval_report(ranked, qrels)
    assert report.mrr_at_10 == pytest.approx(sum(one["recip_rank"] for one in found) / len(cases))
    assert report.recall[10] == pytest.approx(sum(one["recall_10"] for one in found) / len(cases))


@given(ranking=rankings.filter(bool), gold=golds, data=st.data())
def test_a_trec_file_scores_as_the_ranking_does_even_with_ties(
    ranking: list[str], gold: set[str], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    import ir_measures
    from ir_measures import R, nDCG

    scores = data.draw(
        st.lists(st.floats(-1e3, 1e3), min_size=len(ranking), max_size=len(ranking)).map(
            lambda s: sorted(s, reverse=True)
        )
    )
    if data.draw(st.booleans()):
        scores = [1.0] * len(ranking)
    path = tmp_path_factory.mktemp("t") / "run.trec"
    write_trec(path, {"q": hits(*zip(ranking, scores, strict=True))}, "mine")
    lines = [line.split(" ") for line in path.read_text().splitlines()]
    assert [(x[0], x[1], x[2], int(x[3]), x[5]) for x in lines] == [
        ("q", "Q0", page, place, "mine") for place, page in enumerate(ranking, start=1)
    ]
    qrels = {"q": dict.fromkeys(gold, 1)}
    read = ir_measures.calc_aggregate([nDCG @ 10, R @ 3], qrels, list(ir_measures.read_trec_run(str(path))))
    report = retrieval_report({"q": ranking}, qrels, ks=(3,))
    assert (read[nDCG @ 10], read[R @ 3]) == pytest.approx((report.ndcg_at_10, report.recall[3]))


def test_a_question_without_ranking_counts_as_nothing_found() -> None:
    gold = {"a": {"x#p1": 1}, "b": {"x#p2": 1}, "unlabeled": {"x#p9": 0}}
    report = retrieval_report({"a": ["x#p1"], "stranger": ["x#p1"]}, gold, ks=(10,))
    assert (report.n, report.unranked, report.recall[10], report.ndcg_at_10) == (2, 1, 0.5, 0.5)
    assert retrieval_report({}, gold, ks=(10,)).mrr == 0


def test_graded_judgments_weigh_in_ndcg_only() -> None:
    gold = {"q": {"a#p1": 2, "a#p2": 1}}
    best = retrieval_report({"q": ["a#p1", "a#p2"]}, gold)
    worse = retrieval_report({"q": ["a#p2", "a#p1"]}, gold)
    assert best.ndcg_at_10 == pytest.approx(1.0)
    assert worse.ndcg_at_10 < 1.0
    assert best.recall == worse.recall == {10: 1.0, 100: 1.0}


def test_what_cannot_be_scored_or_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no question has a gold page"):
        retrieval_report({"q": ["a#p1"]}, {"q": {"a#p1": 0}})
    with pytest.raises(InputError, match="'a#p1' stands twice"):
        retrieval_report({"q": ["a#p1", "a#p1"]}, {"q": {"a#p1": 1}})
    out = tmp_path / "run.trec"
    for run, tag, words in (
        ({"q": hits(("my file#p1", 1.0))}, "t", "page id 'my file#p1'"),
        ({"q 1": hits(("a#p1", 1.0))}, "t", "question id 'q 1'"),
        ({"q": hits(("a#p1", 1.0))}, "", "tag"),
        ({"q": hits(("a#p1", float("nan")))}, "t", "score of page 'a#p1'"),
    ):
        with pytest.raises(InputError, match=words):
            write_trec(out, run, tag)
    assert not out.exists()


def test_qrels_of_the_article_pages(shared_data: Path) -> None:
    gold = read_qrels(shared_data / "retrieval/article_pages/qrels/questions.tsv")
    assert len(gold) == 50
    assert gold["pq001"] == {"PMC5502154#p2": 2}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("query-id\tcorpus-id\tscore\n", "holds no judgment"),
        ("q a#p1 1\n", ":1: 1 columns"),
        ("q\ta#p1\tmuch\n", "'much' is no whole number"),
        ("q\ta#p1\t1\nq\ta#p1\t2\n", ":2: .* judged twice"),
    ],
)
def test_bad_qrels(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "q.tsv").write_text(text)
    with pytest.raises(InputError, match=words):
        read_qrels(tmp_path / "q.tsv")
