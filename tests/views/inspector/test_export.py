from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_cases import HOSTILE, MadeCases

from medvrag_core.corpus.showing import AUDIENCE, PUBLIC
from medvrag_core.records import Trace
from medvrag_core.systems.resources import Resources
from medvrag_core.views.inspector.export import DATA, REPORT, ExportReport, evenly, export_cases
from medvrag_core.views.inspector.records import ArmRows, Case, Catalog
from medvrag_core.views.inspector.run_cases import RunCases
from medvrag_core.views.inspector.source import case_address, fetch, rows_address


@pytest.fixture(scope="module")
def source() -> MadeCases:
    return MadeCases(4, hostile=True)


@pytest.fixture(scope="module")
def folder(source: MadeCases, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "inspector"
    report = export_cases(source, folder)
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file() and path.name != REPORT]
    assert (report.arms, report.cases, report.restricted) == (3, 12, 0)
    assert (report.files, report.bytes, report.largest) == (len(sizes), sum(sizes), max(sizes))
    assert ExportReport.from_json((folder / REPORT).read_bytes()) == report
    assert f"{report.cases} cases of 3 arms" in report.told
    return folder


def handed_over(path: Path) -> str:
    """The string that a data file hands to the page."""
    found = re.fullmatch(rf"{DATA}\((\".*\")\);\n", path.read_text("ascii"))
    assert found, path.name
    return str(json.loads(found[1]))


def test_a_file_hands_over_the_record_as_one_string(source: MadeCases, folder: Path) -> None:
    catalog = Catalog.from_json(handed_over(folder / "catalog.js"))
    assert catalog == source.catalog()
    for arm, entry in enumerate(catalog.arms):
        rows = ArmRows.from_json(handed_over(folder / f"{rows_address(arm)}.js"))
        assert rows == source.rows(arm)
        for number in range(entry.cases):
            case = Case.from_json(handed_over(folder / f"{case_address(arm, number)}.js"))
            assert case == source.case(arm, number)
            assert HOSTILE in case.trace.question.question
            assert Trace.from_json(case.trace.to_json()) == source.trace(arm, number)


def test_every_address_of_a_case_is_a_file(source: MadeCases, folder: Path) -> None:
    for path in folder.glob("cases/*.js"):
        case = Case.from_json(handed_over(path))
        for address in (*case.maps, *(card.sheet for card in case.cards)):
            assert not address or handed_over(folder / f"{address}.js") == fetch(source, address).to_json()  # type: ignore[union-attr]
        for card in case.cards:
            for address in filter(None, (card.thumbnail, card.image)):
                assert (folder / address).read_bytes() == fetch(source, address)


def test_an_export_takes_the_place_of_the_one_before_or_leaves_it(tmp_path: Path) -> None:
    export_cases(MadeCases(3), tmp_path / "cases")
    export_cases(MadeCases(1), tmp_path / "cases")
    assert sorted(p.name for p in tmp_path.glob("cases/cases/*")) == ["0-0.js", "1-0.js", "2-0.js"]

    class Broken(MadeCases):
        def image(self, page: int) -> bytes:
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        export_cases(Broken(2), tmp_path / "cases")
    assert sorted(p.name for p in tmp_path.glob("cases/cases/*")) == ["0-0.js", "1-0.js", "2-0.js"]
    assert [p.name for p in tmp_path.iterdir()] == ["cases"]


@given(st.lists(st.text("abcdef", min_size=1), unique=True), st.integers(0, 12), st.data())
def test_evenly_takes_that_many_and_what_is_to_be_kept(ids: list[str], most: int, data: st.DataObject) -> None:
    keep = data.draw(st.lists(st.sampled_from(ids), max_size=2)) if ids else []
    chosen = evenly(ids, most, keep=keep)
    assert chosen == sorted(set(chosen) & set(ids))
    if not most or most >= len(ids):
        assert chosen == sorted(ids)
    else:
        assert most <= len(chosen) <= most + len(set(keep))
        assert set(keep) <= set(chosen)
        places = [sorted(ids).index(one) for one in evenly(ids, most)]
        gaps = {b - a for a, b in pairwise(places)}
        assert not gaps or max(gaps) - min(gaps) <= 1


def test_pages_for_a_reader_alone_are_counted(
    answered: Resources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = export_cases(RunCases([answered], arms=["medvrag"]), tmp_path / "alone")
    assert alone.restricted == alone.pages > 0
    monkeypatch.setenv(AUDIENCE, PUBLIC)
    published = export_cases(RunCases([answered], arms=["medvrag"]), tmp_path / "published")
    assert (published.restricted, published.pages) == (0, 0)
    assert not list(tmp_path.glob("published/images/*"))
