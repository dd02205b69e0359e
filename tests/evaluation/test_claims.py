from __future__ import annotations

from pathlib import Path

import pytest

from medvrag_core.errors import InputError
from medvrag_core.evaluation.claims import load_claims

REPO = Path(__file__).resolve().parents[2]


def test_every_table_and_figure_of_the_paper_is_mapped() -> None:
    claims = load_claims()
    places = {claim.where for claim in claims}
    assert {"Table 1", "Table 2", "Figure 1", "Figure 2", "Figure 3", "Section 4.5", "Section 4.6"} <= places
    counts = {place: sum(c.where == place for c in claims) for place in places}
    assert counts["Table 1"] == 16  # rows of the table
    assert counts["Table 2"] == 7 + 1  # rows, and query encoding, which the paper leaves out


def test_chapters_named_exist() -> None:
    notebooks = {path.stem for path in (REPO / "notebooks").glob("0*.ipynb")}
    if not notebooks:
        pytest.skip("no notebook in this checkout")
    missing = {claim.chapter for claim in load_claims()} - notebooks
    assert not missing


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- {id: a}", "field '0.where' is missing"),
        ("- {id: a, where: w, what: x, paper: p, chapter: 09_none, command: c, status: audit}", "chapter"),
        ("- {id: a, where: w, what: x, paper: p, chapter: 03_filter, command: c, status: done}", "status"),
        ("- &a {id: a, where: w, what: x, paper: p, chapter: 03_filter, command: c, status: audit}\n- *a", "twice"),
        ("{", "not valid YAML"),
    ],
)
def test_faulty_claims_are_refused(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "claims.yaml").write_text(text)
    with pytest.raises(InputError, match=words):
        load_claims(tmp_path / "claims.yaml")
