"""Forms of articles: paper, columns, footnotes, references, tables that break or are turned, and scanned pages."""

from __future__ import annotations

import doctest
import importlib
import itertools
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pymupdf
import pytest
from build import BuiltArticle, Manifest, build
from reportlab.platypus import Paragraph as Text
from typeset import layout
from typeset.parse import read_article
from typeset.scan import angle_of
from typeset.write import CANARY

from medvrag_core.errors import InputError
from medvrag_core.evaluation.questions import read_questions
from medvrag_core.records import Question

Make = Callable[..., Path]
DEMO = Path(__file__).resolve().parents[2] / "data" / "demo"
FILLER = "Words that only fill the page. "
ROWS = 90
LONG_TABLE = "\n".join(
    [
        "```table\nanchor: table-long\ncaption: A long table.\nbreaks: true\ncolumns: [Name, Dose]\nrows:",
        *(f"  - [Row {number}, {number * 3} mg]" for number in range(ROWS)),
        "note: The end.\n```",
    ]
)
TURNED_TABLE = """```table
anchor: table-turned
caption: A turned table.
rotate: true
columns: [Name, Dose]
rows:
  - [Quetzal, 5 mg]
note: Read from the right.
```"""


def article(make: Make, tmp_path: Path, body: str, **head: str) -> tuple[BuiltArticle, pymupdf.Document]:
    manifest = build(tmp_path / "out", source=make(body, **head))
    return manifest.articles["sample"], pymupdf.open(tmp_path / "out" / "pdf" / "sample.pdf")


def text_of(page: pymupdf.Page) -> str:
    return " ".join(page.get_text().split())


@pytest.mark.parametrize(("paper", "size"), [("journal", (482, 680)), ("a4", (595, 842)), ("letter", (612, 792))])
@pytest.mark.parametrize("columns", ["1", "2"])
def test_paper_and_columns(make_article: Make, tmp_path: Path, paper: str, size: tuple[int, int], columns: str) -> None:
    _, document = article(make_article, tmp_path, "\n\n".join([FILLER * 30] * 6), paper=paper, columns=columns)
    page = document[0]
    assert (round(page.rect.width), round(page.rect.height)) == size
    middle = page.rect.width / 2
    lines = [line for block in page.get_text("dict")["blocks"] for line in block["lines"] if line["bbox"][3] < 600]
    crossing = [line for line in lines[8:] if line["bbox"][0] < middle - 20 and line["bbox"][2] > middle + 20]
    assert bool(crossing) == (columns == "1")


def test_form_year_and_references_are_printed(make_article: Make, tmp_path: Path) -> None:
    references = '["World Health Organization. A: guideline. 2020.", "A society. A book. 2019."]'
    _, document = article(make_article, tmp_path, FILLER, form="guideline", year="2021", references=references)
    text = text_of(document[0])
    assert "MedVRAG Teaching Reviews 2021" in text
    assert text.index("GUIDELINE SUMMARY") < text.index("A title") < text.index(FILLER.strip())
    assert re.search(r"References 1\. World Health Organization\. A: guideline\. 2020\. 2\. A society", text)


@pytest.mark.parametrize("before", [0, 5, 11, 14, 17, 20, 23, 29])
def test_a_footnote_stands_at_the_foot_of_the_page_with_its_mark(
    make_article: Make, tmp_path: Path, before: int
) -> None:
    body = f"{FILLER * before}\n\n{FILLER * 20} Zebra^[Quagga one.] {FILLER * 30} okapi^[Quagga two.] {FILLER * 6}"
    body += f"\n\n- a bullet^[Quagga three.]\n\n{FILLER * 60}"
    _, document = article(make_article, tmp_path, body)
    found = 0
    for page in document:
        words = page.get_text("words")
        half = page.rect.width / 2
        for mark, note in (("Zebra", "one."), ("okapi", "two."), ("bullet", "three.")):
            at = [word for word in words if word[4].rstrip("123") == mark]
            notes = [word for word in words if word[4] == note]
            assert len(at) == len(notes)
            for word, foot in zip(at, notes, strict=True):
                found += 1
                assert (word[0] < half) == (foot[0] < half), "the note stands in the column of its mark"
                column = [w for w in words if (w[0] < half) == (foot[0] < half) and w[4] in ("Words", "page.")]
                assert max(w[3] for w in column) <= foot[1] + 1
    assert found == 3


def test_a_heading_stands_with_the_text_that_it_heads(make_article: Make) -> None:
    cells = "\n".join(f"  - [Row {number}, dose]" for number in range(34))
    table = f"```table\nanchor: t\ncaption: C.\nspan: page\ncolumns: [A, B]\nrows:\n{cells}\n```"
    for before in (105, 114, 123):
        body = f"{table}\n\n{FILLER * before}\n\n## Alone\n\n[#whole] Quagga {FILLER * 24}\n\n{FILLER * 99}"
        source = make_article(body)
        laid = layout.lay_out_article(read_article(source / "articles" / "sample.md"))
        paragraphs = [item for item in laid.placed if isinstance(item.flowable, Text)]
        heading = next(at for at, item in enumerate(paragraphs) if item.flowable.getPlainText() == "Alone")
        first, follower = paragraphs[heading], paragraphs[heading + 1]
        assert (first.page, first.x) == (follower.page, follower.x), f"{before} sentences before"
        assert follower.y < first.y


def test_a_table_breaks_with_its_header_repeated_and_every_row_once(make_article: Make, tmp_path: Path) -> None:
    body = f"{FILLER * 10}\n\n{LONG_TABLE}\n\n{FILLER * 10}"
    built, document = article(make_article, tmp_path, body, columns="1", paper="a4")
    texts = [text_of(page) for page in document]
    assert built.anchors["table-long"] == 1 and "Table 1. A long table." in texts[0]
    assert "Table 1. (continued)" not in texts[0] and "Table 1. (continued) Name Dose" in texts[1]
    assert sum(text.count("Name Dose") for text in texts) == len(document) >= 2
    rows = [int(row) for row in re.findall(r"Row (\d+)", " ".join(texts))]
    assert rows == list(range(ROWS))
    assert sum("The end." in text for text in texts) == 1 and "The end." in texts[-1]


def test_a_wide_table_breaks_over_pages_too_and_one_that_may_not_is_refused(make_article: Make, tmp_path: Path) -> None:
    wide = LONG_TABLE.replace("breaks: true", "breaks: true\nspan: page")
    built, document = article(make_article, tmp_path, f"{FILLER * 10}\n\n{wide}")
    text = " ".join(text_of(page) for page in document)
    assert [int(row) for row in re.findall(r"Row (\d+)", text)] == list(range(ROWS))
    assert "Table 1. A long table. Name Dose Row 0 0 mg" in text_of(document[built.anchors["table-long"] - 1])
    with pytest.raises(InputError, match=r"sample\.md, 'table-long': \d+ points high, there is room for \d+; .*breaks"):
        article(make_article, tmp_path, LONG_TABLE.replace("breaks: true\n", ""))


def test_a_turned_table_has_a_page_of_its_own_and_its_text_is_turned(make_article: Make, tmp_path: Path) -> None:
    body = f"{FILLER * 20}\n\n{TURNED_TABLE}\n\n{FILLER * 200}"
    built, document = article(make_article, tmp_path, body)
    assert built.anchors["table-turned"] == 2
    page = document[1]
    lines = [line for block in page.get_text("dict")["blocks"] for line in block["lines"]]
    turned = {"".join(span["text"] for span in line["spans"]).strip() for line in lines if line["dir"] == (0.0, -1.0)}
    assert {"Quetzal", "5 mg", "Read from the right."} <= turned
    assert "Words" not in text_of(page)
    for x0, y0, x1, y1, *_ in page.get_text("words"):
        assert x0 > 30 and y0 > 20 and x1 < page.rect.width - 30 and y1 < page.rect.height - 20
    # Read with the page turned by a quarter, the caption stands above the rows.
    caption = next(word for word in page.get_text("words") if word[4] == "turned")
    row = next(word for word in page.get_text("words") if word[4] == "Quetzal")
    assert caption[0] < row[0]


def test_a_long_turned_table_goes_on_over_the_page(make_article: Make, tmp_path: Path) -> None:
    both = LONG_TABLE.replace("breaks: true", "breaks: true\nrotate: true")
    built, document = article(make_article, tmp_path, f"{FILLER}\n\n{both}")
    rows = [int(row) for page in document for row in re.findall(r"Row (\d+)", text_of(page))]
    assert rows == list(range(ROWS))
    assert built.anchors["table-long"] == 2 and built.pages >= 4
    with pytest.raises(InputError, match="write breaks: true"):
        article(make_article, tmp_path, both.replace("breaks: true\n", ""))


def slope_of_the_head_rule(page: pymupdf.Page) -> float:
    """Degrees by which the line under the running head rises to the right."""
    pixmap = page.get_pixmap(dpi=150, colorspace=pymupdf.csGRAY)
    gray = np.frombuffer(pixmap.samples, dtype=np.uint8).reshape(pixmap.height, pixmap.width).astype(float)
    places = []
    for share in (0.2, 0.8):
        across = int(share * pixmap.width)
        # The darkest row of a narrow band between the running head and the text.
        band = gray[70:108, across - 12 : across + 12].mean(axis=1)
        places.append((across, 70 + int(band.argmin())))
    (left, high), (right, low) = places
    return math.degrees(math.atan2(high - low, right - left))


def test_scanned_pages_are_pictures_without_text(make_article: Make, tmp_path: Path) -> None:
    body = f"{FILLER * 150}\n\n{TURNED_TABLE}"
    built, document = article(make_article, tmp_path, body, scanned="true")
    assert built.pages == len(document) >= 2 and built.anchors == {"table-turned": built.pages}
    for page in document:
        assert page.get_text().strip() == ""
        (image,) = page.get_images()
        assert len(document.xref_stream_raw(image[0])) < 250_000
        assert abs(image[2] - page.rect.width * 150 / 72) < 2
        gray = page.get_pixmap(dpi=40, colorspace=pymupdf.csGRAY)
        assert len(set(gray.samples)) > 20, "ink and grain"
        assert abs(slope_of_the_head_rule(page) - angle_of("sample", page.number + 1)) < 0.15
    angles = [angle_of("sample", page) for page in range(1, 20)]
    assert len(set(angles)) == 19 and all(0.2 <= abs(angle) <= 0.9 for angle in angles)
    assert min(angles) < 0 < max(angles)


def test_all_forms_give_the_same_bytes_twice(make_article: Make, tmp_path: Path) -> None:
    body = f"{FILLER * 9}^[A note.]\n\n{LONG_TABLE}\n\n{TURNED_TABLE}"
    make_article(body, name="drawn", paper="letter", references="[One.]")
    source = make_article(body, name="scanned", scanned="true", columns="1", paper="a4")
    assert build(tmp_path / "one", source=source) == build(tmp_path / "two", source=source)


def test_an_edit_typesets_one_article_and_a_question_none(
    make_article: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_article(FILLER, name="first")
    source = make_article(FILLER, name="second")
    before = build(tmp_path / "out", source=source)
    done: list[str] = []

    def watched(article: Any) -> Any:
        done.append(article.head.id)
        return layout.lay_out_article(article)

    monkeypatch.setattr("build.lay_out_article", watched)
    make_article(FILLER * 2, name="second")
    after = build(tmp_path / "out", source=source)
    assert done == ["second"]
    assert before.articles["first"] == after.articles["first"] and before.articles["second"] != after.articles["second"]
    assert Manifest.from_json((tmp_path / "out" / "manifest.json").read_bytes()) == after
    assert list(after.articles) == ["first", "second"]
    (tmp_path / "out" / "pdf" / "first.pdf").write_bytes(b"damaged")
    build(tmp_path / "out", source=source)
    assert done == ["second", "first"]


QUESTIONS = """
- {id: q-1, question: "One?", options: {A: x, B: y}, answer: A, gold: [sample#start], evidence: text, hops: 1,
   split: test, difficulty: hard, support: [Words], distractors: {B: no}, rationale: Secret, tempting: [sample#start]}
- {id: q-2, question: "Two?", options: {A: x, B: y}, answer: B, gold: [sample#start], evidence: text, hops: 1}
- {id: q-3, question: "Three?", options: {A: x, B: y}, unanswerable: Nothing says so, split: test, difficulty: hard,
   rationale: Secret}
"""


def test_questions_go_to_the_files_of_their_split_and_keep_the_authors_words_back(
    make_article: Make, tmp_path: Path
) -> None:
    source = make_article(f"[#start] {FILLER}")
    (source / "questions" / "sample.yaml").write_text(QUESTIONS, encoding="utf-8")
    manifest = build(out := tmp_path / "out", source=source)
    asked = {name: read_questions(out / name) for name in ("questions.jsonl", "dev.jsonl", "test.jsonl")}
    assert {name: [q.id for q in questions] for name, questions in asked.items()} == {
        "questions.jsonl": ["q-1", "q-2"],
        "dev.jsonl": ["q-2"],
        "test.jsonl": ["q-1"],
    }
    assert (asked["test.jsonl"][0].difficulty, asked["test.jsonl"][0].split) == ("hard", "test")
    (lost,) = read_questions(out / "unanswerable.jsonl", require_answer=False)
    assert (lost.id, lost.answer, lost.gold_pages, lost.unanswerable, lost.split) == ("q-3", None, (), True, "test")
    assert {name: file.questions for name, file in manifest.questions.items()} == {
        "questions.jsonl": 2,
        "dev.jsonl": 1,
        "test.jsonl": 1,
        "unanswerable.jsonl": 1,
    }
    for path in out.glob("*.jsonl"):
        for word in ("Secret", "support", "distractors", "tempting", "rationale", "bridge", "Nothing says"):
            assert word not in path.read_text(encoding="utf-8"), (path.name, word)


def test_a_question_that_says_nothing_of_them_has_none_of_the_new_fields() -> None:
    plain = Question(id="q", question="What?", options={"A": "x", "B": "y"}, answer="A")
    assert not {"difficulty", "split", "unanswerable"} & json.loads(plain.to_json()).keys()
    told = plain.model_copy(update={"split": "dev", "unanswerable": True})
    assert Question.from_json(told.to_json()) == told


FORMS = sorted(
    path
    for path in (DEMO / "articles").glob("*.md")
    if re.search(r"^(rotate|breaks|scanned): true$|\^\[", path.read_text(encoding="utf-8"), re.MULTILINE)
)


@pytest.mark.parametrize("path", FORMS[:: max(len(FORMS) // 8, 1)], ids=lambda path: path.stem)
def test_nothing_is_set_over_anything_else_or_beyond_the_margins(path: Path) -> None:
    laid = layout.lay_out_article(read_article(path))
    paper = laid.paper
    for page in range(1, laid.pages + 1):
        boxes = []
        for item in laid.placed:
            if item.page == page:
                _, height = item.flowable.wrap(item.width, 10_000)
                boxes.append((item.x, item.y, item.x + item.width, item.y + height))
        assert boxes
        for left, bottom, right, top in boxes:
            assert left > paper.margin - 0.1 and right < paper.width - paper.margin + 0.1
            assert bottom > paper.bottom - 0.1 and top < paper.top + 0.1
        for a, b in itertools.combinations(boxes, 2):
            apart = (a[2] <= b[0], b[2] <= a[0], a[3] <= b[1] + 0.1, b[3] <= a[1] + 0.1)
            assert any(apart), f"page {page}"


def test_the_canary_is_in_the_manifest_and_the_metadata_and_on_no_page(make_article: Make, tmp_path: Path) -> None:
    _, document = article(make_article, tmp_path, FILLER)
    assert re.search(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}: benchmark data must not appear in training", CANARY)
    assert CANARY in document.metadata["keywords"]
    assert "canary" not in " ".join(text_of(page) for page in document)
    assert Manifest.from_json((tmp_path / "out" / "manifest.json").read_bytes()).canary == CANARY


@pytest.mark.parametrize(
    ("body", "head", "said"),
    [
        ("## Heading^[note]", {}, "a footnote"),
        ("A note without^[an end", {}, "a footnote"),
        (TURNED_TABLE.replace("A turned table.", "A caption^[note]"), {}, "a footnote"),
        ("Text.", {"abstract": "Words^[note]"}, "a footnote"),
        ("Text.", {"paper": "a5"}, "front matter: field 'paper'"),
        ("Text.", {"columns": "3"}, "front matter: field 'columns'"),
        ("Text.", {"form": "poem"}, "front matter: field 'form'"),
        ("Text.", {"year": "soon"}, "front matter: field 'year'"),
    ],
)
def test_faults_of_forms(make_article: Make, tmp_path: Path, body: str, head: dict[str, str], said: str) -> None:
    with pytest.raises(InputError, match=rf"^sample\.md.*{said}"):
        build(tmp_path / "out", source=make_article(body, **head))


@pytest.mark.parametrize("path", sorted([*(DEMO / "typeset").glob("*.py"), DEMO / "printed.py"]), ids=lambda p: p.stem)
def test_examples_in_docstrings_hold(path: Path) -> None:
    name = path.stem if path.parent == DEMO else f"typeset.{path.stem}"
    if path.stem != "__init__":
        assert doctest.testmod(importlib.import_module(name)).failed == 0
