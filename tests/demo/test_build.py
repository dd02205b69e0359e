"""The demo corpus: real built pages, anchors, questions, and what an author is told about mistakes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pymupdf
import pytest
from build import COMPOSITION, DATASHEET, Manifest, build, main, with_counts
from hypothesis import given, settings
from hypothesis import strategies as st
from typeset.axes import ticks
from typeset.draw import text_width, wrap
from typeset.figure_kinds import Flowchart
from typeset.markup import plain
from typeset.paper import NOTICE
from typeset.parse import Paragraph, TableBlock, load_yaml, read_article
from typeset.write import CANARY

from medvrag_core.errors import InputError
from medvrag_core.records import Question

DEMO = Path(__file__).resolve().parents[2] / "data" / "demo"

FILLER = "\n\n".join(f"Paragraph {number} " + "holds words that only fill the page. " * 12 for number in range(24))
ARTICLE = f"""---
id: sample
title: A Title: with a Colon
running: Sample
abstract: Short.
keywords: [one, two]
---

## First

[#start] The opening paragraph gives a dose of ≥ 5 µg/kg at 37 °C × 2 – α *and β*.

```figure
anchor: fig-hidden
caption: What the picture shows.
kind: panels
raster: true
panels:
  - {{title: Zebrawood, lines: [Quetzal]}}
  - {{title: Second, lines: [Other]}}
```

```figure
anchor: fig-open
caption: A drawn figure.
kind: flowchart
nodes: {{a: Kumquat, b: Lychee, c: Medlar}}
edges: [[a, b, yes], [b, c], [c, a, again]]
```

{FILLER}

```table
anchor: table-late
caption: A late table.
columns: [Drug, Dose]
rows:
  - [Alpha, No]
  - [Beta, 12:30]
```
"""
QUESTION = """
- id: s-1
  question: What is asked here: a dose?
  options: {A: one, B: two, C: three, D: four}
  answer: B
  gold: [sample#start]
  evidence: text
  hops: 1
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder with one small article and one question."""
    folder = tmp_path / "source"
    (folder / "articles").mkdir(parents=True)
    (folder / "questions").mkdir()
    (folder / "articles" / "sample.md").write_text(ARTICLE, encoding="utf-8")
    (folder / "questions" / "sample.yaml").write_text(QUESTION, encoding="utf-8")
    return folder


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


def _pages(pdf: Path) -> list[str]:
    with pymupdf.open(pdf) as document:
        return [page.get_text() for page in document]


def _drawn(built: Path) -> list[Path]:
    """PDFs that have a text layer."""
    articles = sorted((DEMO / "articles").glob("*.md"))
    return [built / "pdf" / f"{path.stem}.pdf" for path in articles if not read_article(path).head.scanned]


def _edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


# --- the real corpus --------------------------------------------------------------------


def test_the_corpus_is_as_large_as_promised(built: Path) -> None:
    pages = [len(_pages(pdf)) for pdf in sorted((built / "pdf").glob("*.pdf"))]
    questions = [Question.from_json(line) for line in (built / "questions.jsonl").read_text("utf-8").splitlines()]
    assert len(pages) >= 12
    assert sum(pages) >= 50
    assert len(questions) >= 36
    assert sum((question.hops or 0) >= 2 for question in questions) * 3 >= len(questions)
    assert {question.evidence for question in questions} >= {"text", "table", "figure"}


def test_every_question_is_valid_and_names_pages_that_exist(built: Path) -> None:
    manifest = Manifest.from_json((built / "manifest.json").read_bytes())
    lines = (built / "questions.jsonl").read_text("utf-8").splitlines()
    questions = [Question.from_json(line) for line in lines]
    assert (
        len({question.id for question in questions})
        == len(questions)
        == manifest.questions["questions.jsonl"].questions
    )
    for question in questions:
        assert question.answer in question.options, question.id
        assert len(set(question.options.values())) == len(question.options), question.id
        assert len(question.gold_pages) == question.hops, question.id
        for page_id in question.gold_pages:
            article, _, page = page_id.partition("#p")
            assert 1 <= int(page) <= manifest.articles[article].pages, question.id


def test_right_answers_are_spread_over_the_letters(built: Path) -> None:
    answers = [Question.from_json(line).answer for line in (built / "questions.jsonl").read_text("utf-8").splitlines()]
    for letter in "ABCD":
        assert 0.15 <= answers.count(letter) / len(answers) <= 0.35


def test_the_case_of_the_paper_needs_two_pages(built: Path) -> None:
    questions = [Question.from_json(line) for line in (built / "questions.jsonl").read_text("utf-8").splitlines()]
    (case,) = [question for question in questions if "45-year-old woman" in question.question]
    assert case.answer is not None
    assert "retinal" in case.options[case.answer].lower()
    assert len(case.gold_pages) == 2
    texts = _pages(built / "pdf" / "hydroxychloroquine.pdf")
    on_gold = [texts[int(page.partition("#p")[2]) - 1] for page in case.gold_pages]
    assert any("SD-OCT" in text for text in on_gold)


def test_anchors_lie_on_the_page_that_prints_their_block(built: Path) -> None:
    manifest = Manifest.from_json((built / "manifest.json").read_bytes())
    for path in sorted((DEMO / "articles").glob("*.md")):
        pages = [_squeezed(text) for text in _pages(built / "pdf" / f"{path.stem}.pdf")]
        article = read_article(path)
        if article.head.scanned:
            continue
        anchored = [block for block in article.blocks if block.anchor]
        assert set(manifest.articles[path.stem].anchors) == {block.anchor for block in anchored}
        for block in anchored:
            page = pages[manifest.articles[path.stem].anchors[block.anchor] - 1]
            text = plain(block.text if isinstance(block, Paragraph) else block.caption)
            first, *_, last = re.split(r"\s*\^\[[^]]*\]", text) if "^[" in text else (text, text)
            # Beginning and end: an anchored paragraph is never cut by a page break.
            assert _squeezed("".join(first.split()[:5])) in page, f"{path.name} {block.anchor}"
            assert _squeezed("".join(last.split()[-4:])) in page, f"{path.name} {block.anchor}"


def test_every_page_carries_the_notice_and_ink_stays_on_the_page(built: Path) -> None:
    for pdf in _drawn(built):
        with pymupdf.open(pdf) as document:
            for page in document:
                assert NOTICE in page.get_text(), f"{pdf.name} {page.number + 1}"
                for x0, y0, x1, y1, *_ in page.get_text("words"):
                    inside = x0 >= 30 and y0 >= 20 and x1 <= page.rect.width - 30 and y1 <= page.rect.height - 20
                    assert inside, f"{pdf.name} {page.number + 1}"


def test_no_word_is_printed_over_another(built: Path) -> None:
    for pdf in _drawn(built):
        with pymupdf.open(pdf) as document:
            for page in document:
                # Turned words stand high; those of turned tables are looked at below, on a page of their own.
                words = [word for word in page.get_text("words") if word[3] - word[1] < 20 and word[2] - word[0] > 1.5]
                x0, y0, x1, y1 = np.array([word[:4] for word in words]).T
                # Boxes of neighboring lines overlap by design; the middle of the height is where the ink is.
                top, bottom = y0 + (y1 - y0) * 0.35, y1 - (y1 - y0) * 0.35
                across = np.minimum.outer(x1, x1) - np.maximum.outer(x0, x0) > 1.0
                down = np.minimum.outer(bottom, bottom) > np.maximum.outer(top, top)
                first, second = np.nonzero(np.triu(across & down, 1))
                pairs = [(words[a][4], words[b][4]) for a, b in zip(first, second, strict=True)]
                assert not pairs, f"{pdf.name} page {page.number + 1}"


def test_words_of_raster_figures_are_not_in_the_text_layer(built: Path) -> None:
    seen = 0
    for path in sorted((DEMO / "articles").glob("*.md")):
        text = "".join(_squeezed(page) for page in _pages(built / "pdf" / f"{path.stem}.pdf"))
        for block in read_article(path).blocks:
            if isinstance(block, Flowchart) and block.raster:
                long = [label for label in block.nodes.values() if len(label) > 20]
                seen += len(long)
                assert not [label for label in long if _squeezed(label) in text], path.name
    assert seen > 10


def test_every_article_has_a_figure_that_is_only_an_image(built: Path) -> None:
    for path in sorted((DEMO / "articles").glob("*.md")):
        article = read_article(path)
        if article.head.scanned:
            continue
        blocks = article.blocks
        raster = [block for block in blocks if not isinstance(block, Paragraph | TableBlock) and block.raster]
        assert raster, path.name
        with pymupdf.open(built / "pdf" / f"{path.stem}.pdf") as document:
            images = sum(len(page.get_images()) for page in document)
        assert images == len(raster), path.name


@pytest.mark.slow
def test_two_builds_give_the_same_bytes(built: Path, tmp_path: Path) -> None:
    again = build(tmp_path / "again")
    assert again == Manifest.from_json((built / "manifest.json").read_bytes())


# --- a small corpus ---------------------------------------------------------------------


def test_text_layer_of_a_small_article(source: Path, tmp_path: Path) -> None:
    manifest = build(tmp_path / "out", source=source)
    pages = _pages(tmp_path / "out" / "pdf" / "sample.pdf")
    text = " ".join(" ".join(pages).split())
    assert "dose of ≥ 5 µg/kg at 37 °C × 2 – α and β." in text
    assert "A Title: with a Colon" in text
    assert "Kumquat" in text and "again" in text
    assert "Zebrawood" not in text and "Quetzal" not in text
    # What YAML 1.1 would turn into a truth value or a number of minutes is printed as written.
    assert "No" in text and "12:30" in text
    assert manifest.articles["sample"].anchors["start"] == 1
    late = manifest.articles["sample"].anchors["table-late"]
    assert late > 1 and "A late table." in " ".join(pages[late - 1].split())


def test_unchanged_sources_are_not_built_again(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    build(out, source=source)
    pdf = out / "pdf" / "sample.pdf"
    first = pdf.stat().st_mtime_ns
    build(out, source=source)
    assert pdf.stat().st_mtime_ns == first
    pdf.write_bytes(b"damaged")
    build(out, source=source)
    assert pdf.read_bytes().startswith(b"%PDF")


def test_a_removed_article_takes_its_pdf_along(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    other = ARTICLE.replace("id: sample", "id: other")
    (source / "articles" / "other.md").write_text(other, encoding="utf-8")
    build(out, source=source)
    (out / "pdf" / "kept.pdf").write_bytes(b"not ours")
    (source / "articles" / "other.md").unlink()
    build(out, source=source)
    assert sorted(path.name for path in (out / "pdf").iterdir()) == ["kept.pdf", "licence.yaml", "sample.pdf"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("sample#start", "sample#nowhere", r"sample\.yaml, question s-1, field 'gold'.*'nowhere'"),
        ("sample#start", "missing#start", r"field 'gold': there is no article 'missing'"),
        ("answer: B", "answer: E", r"sample\.yaml, question s-1, field 'answer'"),
        ("hops: 1", "hops: 2", r"question s-1, field 'hops': is 2, but its anchors lie on 1 page"),
        ("hops: 1", "hops: many", r"question s-1: field 'hops'"),
        ("evidence: text", "evidence: smell", r"question s-1: field 'evidence'"),
        ("B: two", "E: two", r"field 'options': labels"),
        ("  hops: 1", "  hops: 1\n  color: red", r"question s-1: unknown field 'color'"),
        ("[sample#start]", "[sample#start", r"sample\.yaml.*not valid YAML"),
    ],
)
def test_faults_of_a_question(source: Path, tmp_path: Path, old: str, new: str, said: str) -> None:
    _edit(source / "questions" / "sample.yaml", old, new)
    with pytest.raises(InputError, match=said):
        build(tmp_path / "out", source=source)
    assert not (tmp_path / "out").exists()


def test_two_anchors_on_one_page_are_not_two_hops(source: Path, tmp_path: Path) -> None:
    path = source / "questions" / "sample.yaml"
    _edit(path, "[sample#start]", "[sample#start, sample#fig-hidden]")
    _edit(path, "hops: 1", "hops: 2")
    with pytest.raises(InputError, match=r"field 'hops'.*same page sample#p1"):
        build(tmp_path / "out", source=source)
    _edit(path, "hops: 2", "hops: 1")
    build(tmp_path / "out", source=source)
    question = Question.from_json((tmp_path / "out" / "questions.jsonl").read_text("utf-8"))
    assert question.gold_pages == ("sample#p1",)


def test_a_question_id_is_used_once_in_all_files(source: Path, tmp_path: Path) -> None:
    (source / "questions" / "tail.yaml").write_text(QUESTION, encoding="utf-8")
    with pytest.raises(InputError, match=r"tail\.yaml, question s-1, field 'id': already used in sample\.yaml"):
        build(tmp_path / "out", source=source)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("id: sample", "id: simple", r"sample\.md, front matter: field 'id'"),
        ("abstract: Short.", "", r"sample\.md, front matter: field 'abstract' is missing"),
        ("[Alpha, No]", "[Alpha, No, 3]", r"sample\.md, table 1, field 'rows': row 1 has 3 cells"),
        ("[b, c]", "[b, x]", r"sample\.md, figure 2, field 'edges': node 'x'"),
        ("kind: panels", "kind: pie", r"sample\.md, figure 1"),
        ("fig-open", "fig-hidden", r"sample\.md: anchor 'fig-hidden' is used twice"),
        ("```table", "```tabel", r"sample\.md: unknown block ```tabel"),
        ("37 °C", "37 \u4e2d", r"sample\.md: character '\u4e2d' \(U\+4E2D\)"),
        ("Kumquat", "W" * 60, r"sample\.md: figure 'fig-open', field 'nodes': 'a' does not fit"),
        ("[Drug, Dose]", f"[Drug, {'W' * 60}]", r"sample\.md, table 'table-late': the longest words"),
    ],
)
def test_faults_of_an_article(source: Path, tmp_path: Path, old: str, new: str, said: str) -> None:
    _edit(source / "articles" / "sample.md", old, new)
    with pytest.raises(InputError, match=said):
        build(tmp_path / "out", source=source)
    assert not (tmp_path / "out").exists()


def test_the_command_line_says_what_was_built(tmp_path: Path, source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--source", str(source), "--out", str(tmp_path / "out")]) == 0
    assert "1 articles" in capsys.readouterr().out
    _edit(source / "questions" / "sample.yaml", "answer: B", "answer: E")
    assert main(["--source", str(source), "--out", str(tmp_path / "out")]) == 2
    assert "field 'answer'" in capsys.readouterr().err


# --- helpers ----------------------------------------------------------------------------


@given(st.lists(st.text("abcdefgh", min_size=1, max_size=12), min_size=1, max_size=20), st.floats(70, 200))
def test_wrapped_lines_keep_every_word_and_fit(words: list[str], width: float) -> None:
    lines = wrap(" ".join(words), width)
    assert " ".join(lines).split() == words
    assert all(text_width(line) <= width for line in lines)


@settings(max_examples=200)
@given(st.floats(0, 1e4), st.floats(0.01, 1e4))
def test_ticks_enclose_the_values(low: float, span: float) -> None:
    marks = ticks(low, low + span)
    slack = span * 1e-6 + 1e-6
    assert marks[0] <= low + slack and marks[-1] >= low + span - slack
    assert 2 <= len(marks) <= 13
    assert marks == sorted(set(marks))


def test_prose_with_a_colon_is_read_as_it_stands() -> None:
    assert load_yaml("title: One: two  # remark\nn: 1.0", "x") == {"title": "One: two", "n": "1.0"}
    continued = load_yaml("question: >-\n  One: two\n  three", "x")
    assert continued == {"question": "One: two three"}


def test_the_datasheet_counts_what_the_build_counts(built: Path) -> None:
    sheet = DATASHEET.read_text(encoding="utf-8")
    assert with_counts(sheet, built / COMPOSITION) == sheet, "run: python data/demo/build.py --datasheet"
    assert CANARY in sheet


def test_a_datasheet_without_the_place_for_counts_is_refused(built: Path) -> None:
    with pytest.raises(InputError, match="the place of the counts is not marked"):
        with_counts("# A datasheet", built / COMPOSITION)
    filled = with_counts("a\n<!-- counted by build.py -->\n<!-- end -->\nb", built / COMPOSITION)
    assert with_counts(filled, built / COMPOSITION) == filled and "| articles |" in filled
