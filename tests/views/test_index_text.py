"""The curve of a mode as text."""

from __future__ import annotations

from typing import Any

from medvrag_core.index.tune import TunedPoint, Tuning
from medvrag_core.settings import IndexSettings
from medvrag_core.views.index_text import tuning_text

POINTS = (
    TunedPoint(changed={"ann_neighbors": 50, "shortlist": 1_200}, recall=0.91, lowest=0.5, seconds=0.0021),
    TunedPoint(changed={"ann_neighbors": 900, "shortlist": 1_200}, recall=0.9912, lowest=0.87, seconds=0.0134),
    TunedPoint(changed={"ann_neighbors": 900, "shortlist": 4_000}, recall=1.0, lowest=1.0, seconds=1.25),
)


def tuning(**changed: Any) -> Tuning:
    values: dict[str, Any] = {
        "mode": "paper",
        "at": 100,
        "wanted": 0.99,
        "queries": 50,
        "query_vectors": 19.6,
        "pages": 350_000,
        "segments": "0123456789abcdef",
        "exact_seconds": 1.5,
        "points": POINTS,
        "chosen": 1,
    }
    return Tuning.model_validate(values | changed)


def test_every_setting_has_a_line_and_the_chosen_one_is_told_as_options() -> None:
    first, head, *rows, last = tuning_text(tuning()).split("\n")
    assert first == (
        "mode paper: 50 queries of 20 vectors, 350,000 pages, recall of the best 100 of exact search (1,500.0 ms)"
    )
    assert head.split() == ["ms", "recall", "lowest", "settings"]
    assert [row.split(maxsplit=3)[:3] for row in rows] == [
        ["2.10", "0.9100", "0.5000"],
        ["13.40", "0.9912", "0.8700"],
        ["1250.00", "1.0000", "1.0000"],
    ]
    assert [row.endswith("<- chosen") for row in rows] == [False, True, False]
    assert "ann_neighbors 900, shortlist 1,200" in rows[1]
    assert last == "use: --set index.mode=paper --set index.ann_neighbors=900 --set index.shortlist=1200"


def test_the_fastest_of_all_can_be_the_chosen_one() -> None:
    text = tuning_text(tuning(chosen=0, wanted=0.9))
    assert text.endswith("--set index.ann_neighbors=50 --set index.shortlist=1200")
    assert text.split("\n")[2].endswith("<- chosen")


def test_what_it_says_to_use_are_settings() -> None:
    options = tuning_text(tuning()).rpartition("use: ")[2].split("--set ")[1:]
    pairs = dict(option.strip().split("=") for option in options)
    given = {name.removeprefix("index."): value for name, value in pairs.items()}
    assert all(name.startswith("index.") for name in pairs)
    made = IndexSettings.model_validate(given, strict=False)
    assert (made.mode, made.ann_neighbors, made.shortlist) == ("paper", 900, 1_200)


def test_where_no_setting_reaches_the_recall_it_says_so() -> None:
    text = tuning_text(tuning(points=POINTS[:2], wanted=0.995, chosen=None))
    assert "chosen" not in text
    assert "use:" not in text
    assert text.endswith("no setting reaches 0.995; the highest is 0.9912. Mode exact finds all.")
