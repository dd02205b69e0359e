from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from medvrag_core.corpus.ocr import TesseractEngine, lines_of_tsv
from medvrag_core.corpus.text_pages import TextPageSettings
from medvrag_core.corpus.typeset import typeset
from medvrag_core.errors import MedvragError

HEAD = "level page_num block_num par_num line_num word_num left top width height conf text".replace(" ", "\t")


def table(*rows: str) -> str:
    return "\n".join([HEAD, *(row.replace(" ", "\t") for row in rows)]) + "\n"


@pytest.fixture
def tesseract() -> TesseractEngine:
    if shutil.which("tesseract") is None:
        pytest.skip("no program 'tesseract' on PATH (Debian: apt install tesseract-ocr)")
    return TesseractEngine()


def test_words_of_a_table_become_lines_of_their_page() -> None:
    rows = (
        "1 1 0 0 0 0 0 0 80 90 -1 ",
        "5 1 1 1 1 1 10 20 30 8 96 Gout",
        "5 1 1 1 1 2 45 18 20 12 91 5%",
        "5 1 1 1 1 3 70 18 20 12 31 smear",
        "5 1 1 2 1 1 10 40 30 8 96 Then",
        "1 2 0 0 0 0 0 0 80 90 -1 ",
        "1 3 0 0 0 0 0 0 80 90 -1 ",
        '5 3 1 1 1 1 5 5 30 8 96 "quoted',
    )
    first, second, third = lines_of_tsv(table(*rows), 3)
    assert [(line.text, line.box, line.size) for line in first] == [
        ("Gout 5%", (10, 18, 65, 30), 12),
        ("Then", (10, 40, 40, 48), 8),
    ]
    assert first[0].words == (("Gout", (10, 20, 40, 28)), ("5%", (45, 18, 65, 30)))
    assert first[0].block != first[1].block, "another paragraph"
    assert second == [] and [line.text for line in third] == ['"quoted']


def test_the_cells_of_a_row_are_lines_of_their_own() -> None:
    rows = (
        "5 1 1 1 1 1 10 20 30 10 96 Drug",
        "5 1 1 1 1 2 45 20 20 10 91 name",
        "5 1 1 1 1 3 86 20 20 10 91 100",
        "5 1 1 1 1 4 124 20 20 10 91 mg",
    )
    [cells] = lines_of_tsv(table(*rows))
    assert [(line.text, line.box) for line in cells] == [
        ("Drug name", (10, 20, 65, 30)),
        ("100 mg", (86, 20, 144, 30)),
    ]
    assert cells[0].block == cells[1].block


def test_many_images_are_read_as_each_alone(
    tmp_path: Path, tesseract: TesseractEngine, as_printed: TextPageSettings
) -> None:
    texts = ["Lithium needs a blood level.", "", "Gout is treated with allopurinol 100 mg."]
    paths = [tmp_path / f"{number}.png" for number in range(3)]
    for text, path in zip(texts, paths, strict=True):
        typeset([text], as_printed).image.save(path)
    together = tesseract.read_files(paths)
    assert [" ".join(line.text for line in lines) for lines in together] == texts
    alone = tesseract.read(np.asarray(Image.open(paths[2]).convert("RGB")))
    assert [line.words for line in alone] == [line.words for line in together[2]]


def test_a_program_that_fails_is_told_with_what_it_said(tmp_path: Path, tesseract: TesseractEngine) -> None:
    (tmp_path / "page.png").write_bytes(b"\x89PNG\r\n\x1a\nbroken")
    with pytest.raises(MedvragError, match=r"tesseract failed .*page\.png"):
        tesseract.read_files([tmp_path / "page.png"])
