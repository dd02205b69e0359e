from __future__ import annotations

import json

import pytest

from medvrag_core.evaluation.cost.latency import LatencyRow
from medvrag_core.evaluation.errors.taxonomy import ERROR_CLASSES, ErrorRow, ErrorTaxonomy
from medvrag_core.evaluation.retrieval.metrics import RetrievalReport
from medvrag_core.evaluation.stopping.rounds import RoundsRow
from medvrag_core.records import Page
from medvrag_core.views import figures
from medvrag_core.views.theme import profile_caption, template

NAME = "<b>arm</b>"
ROWS = [
    LatencyRow(step="ann", label="ANN", n=3, median=0.002, p10=0.001, p25=0.001, p75=0.003, p90=0.004, paper=0.0019),
    LatencyRow(step="read", label=NAME, n=0, paper=12.1),
]  # fmt: skip
TAXONOMY = ErrorTaxonomy(
    system=NAME, profile="cpu", n=10, wrong=4, need="any",
    rows=tuple(ErrorRow(error_class=c, count=4 * (c == "misread"), share=float(c == "misread"), low=0.0, high=1.0)
               for c in ERROR_CLASSES),
)  # fmt: skip
RETRIEVAL = RetrievalReport(
    n=50, unranked=0, recall={10: 0.6, 100: 0.9}, any_gold={10: 0.6}, ndcg_at_10=0.5, mrr=0.4, mrr_at_10=0.4
)
PAGE = Page(
    page_id="a#p1", article_id="a", number=1, width_pt=1, height_pt=1, image="", image_width=1, image_height=1, dpi=1,
    text_source="ocr", text="three plain words",
)  # fmt: skip
ROUNDS = [RoundsRow(rounds=1, n=8, share=0.8, correct=6, accuracy=0.75, low=0.4, high=0.9)]

FIGURES = {
    "rounds_distribution": lambda c: figures.rounds_distribution(ROUNDS, caption=c),
    "latency_bars": lambda c: figures.latency_bars(ROWS, caption=c),
    "recall_curve": lambda c: figures.recall_curve({NAME: RETRIEVAL}, caption=c),
    "corpus_overview": lambda c: figures.corpus_overview([PAGE], caption=c),
    "index_sizes": lambda c: figures.index_sizes({NAME: 2_000_000}, caption=c),
    "score_scatter": lambda c: figures.score_scatter([1.0, 2.0], [1.0, 3.0], [NAME, "g"], gold=["g"], caption=c),
}


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_names_its_axes_and_its_profile_and_escapes_names(name: str) -> None:
    figure = FIGURES[name](profile_caption("cpu"))
    data = json.loads(figure.to_json())
    layout = data["layout"]
    assert layout["title"]["text"]
    assert "machinery" in layout["title"]["subtitle"]["text"]
    axes = [key for key in layout if key.startswith(("xaxis", "yaxis"))]
    categories = [key for key in axes if layout[key].get("type") == "category"]
    assert all(layout[key].get("title", {}).get("text") for key in axes if key not in categories or key.startswith("x"))
    assert data["data"]
    assert "<b>arm" not in json.dumps(data, ensure_ascii=False)


@pytest.mark.parametrize("make", [f for n, f in FIGURES.items() if n not in ("rounds_distribution",)])
def test_figures_are_deterministic(make) -> None:
    assert make("").to_json() == make("").to_json()


def test_values_are_drawn_as_they_were_measured() -> None:
    ours, paper = figures.latency_bars(ROWS).data
    assert (list(ours.x), list(paper.x)) == ([0.002], [0.0019])  # a step never timed draws nothing
    assert [trace.name for trace in figures.score_scatter([1.0], [1.0], ["g"], gold=["g"]).data] == ["gold page"]


@pytest.mark.parametrize("dark", [False, True])
def test_text_stands_out_from_the_background(dark: bool) -> None:
    layout = template(dark=dark).layout

    def luminance(color: str) -> float:
        channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for ink in (layout.font.color, layout.xaxis.title.font.color):
        bright, faint = sorted((luminance(ink), luminance(layout.paper_bgcolor)), reverse=True)
        assert (bright + 0.05) / (faint + 0.05) >= 4.5
