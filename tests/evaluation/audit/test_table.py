from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvrag_core.errors import InputError
from medvrag_core.evaluation.audit.averages import average_rows, step, steps
from medvrag_core.evaluation.audit.table import AccuracyTable, ArmRow, plain_mean, question_mean, read_table

TEXT = 'arm,MedQA,PubMedQA,Avg.\nn,"1,273",500,\nbase†,71.4,73.7,72.6\n"text, ""old""",74.8,—,\n'


def written(folder: Path, text: str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_table_is_read_with_sizes_averages_and_gaps(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, "\ufeff" + TEXT))
    assert table.sets == ("MedQA", "PubMedQA")
    assert table.sizes == {"MedQA": 1273, "PubMedQA": 500}
    assert [row.arm for row in table.rows] == ["base†", 'text, "old"']
    assert [row.average for row in table.rows] == ["72.6", None]
    assert list(table.known('text, "old"')) == ["MedQA"]


def test_sizes_given_go_before_those_of_the_table_and_tabs_are_read(tmp_path: Path) -> None:
    path = written(tmp_path, "arm\tA\nn\t100\nx\t50\n", "t.tsv")
    assert read_table(path, {"A": 200}).sizes == {"A": 200}


def test_a_table_of_shares_is_read_in_points(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, "arm,A\nx,0.737\n"))
    cell = table.cell("x", "A")
    assert cell is not None
    assert cell.range() == "73.65 to 73.75"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", "is empty"),
        ("arm,A\n", "at least one row"),
        ("arm,A\nx,50,60\n", "row 2 has 3 cells"),
        ("arm,A\nx,50\nx,60\n", "arm 'x' stands twice"),
        ("arm,A,A\nx,50,60\n", "column 'A' stands twice"),
        ("arm,A\nx,82 ± 1\n", "x, A: '82 ± 1'"),
        ("arm,A\nx,182\n", "x, A: 182 is no accuracy"),
        ("arm,A\nx,-2\n", "no accuracy"),
        ("arm,A\nn,many\nx,50\n", "sizes, A: 'many'"),
        ("arm,A\nn,0\nx,50\n", "sizes, A: '0'"),
        ("arm,avg\nx,50\n", "one column a set"),
        ("arm,A\nx,—\n", "no cell holds a number"),
        ('arm,A\nx,"50\n', "not a CSV file"),
    ],
)
def test_faulty_tables_are_refused_by_name(tmp_path: Path, text: str, names: str) -> None:
    with pytest.raises(InputError, match=names):
        read_table(written(tmp_path, text))


def test_other_faults_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(InputError, match=r"has no set 'B'.*its sets are A"):
        read_table(written(tmp_path, "arm,A\nx,50\n"), {"B": 3})
    (tmp_path / "b.csv").write_bytes(b"arm,A\nx,\xff\n")
    with pytest.raises(InputError, match="UTF-8"):
        read_table(tmp_path / "b.csv")


accuracies = st.integers(0, 1000).map(lambda tenths: f"{tenths / 10:.1f}")


@given(st.lists(accuracies, min_size=2, max_size=5), st.data())
def test_means_are_those_of_the_counts_and_equal_for_equal_sizes(cells: list[str], data: st.DataObject) -> None:
    names = tuple("ABCDE"[: len(cells)])
    sizes = [data.draw(st.integers(1, 5000)) for _ in names]

    def table(counts: list[int]) -> AccuracyTable:
        row = ArmRow(arm="a", cells=dict(zip(names, cells, strict=True)))
        return AccuracyTable(name="t", sets=names, sizes=dict(zip(names, counts, strict=True)), rows=(row,))

    weighted = question_mean(table(sizes), "a")
    expected = sum(float(c) * n for c, n in zip(cells, sizes, strict=True)) / sum(sizes)
    assert weighted is not None
    assert float(weighted) == pytest.approx(expected)
    assert question_mean(table([7] * len(names)), "a") == plain_mean(table(sizes), "a")


def test_averages_say_which_mean_they_agree_with() -> None:
    rows = (
        ArmRow(arm="sets", cells={"A": "80", "B": "60"}, average="70"),
        ArmRow(arm="questions", cells={"A": "80", "B": "60"}, average="75"),
        ArmRow(arm="neither", cells={"A": "80", "B": "60"}, average="78"),
        ArmRow(arm="gap", cells={"A": "80"}, average="80"),
    )
    table = AccuracyTable(name="t", sets=("A", "B"), sizes={"A": 300, "B": 100}, rows=rows)
    told = {row.arm: (row.agrees_plain, row.agrees_weighted) for row in average_rows(table)}
    assert told == {
        "sets": (True, False), "questions": (False, True), "neither": (False, False), "gap": (None, None)
    }  # fmt: skip
    between = step(table, "gap", "sets")
    assert (between.by_set, between.net, between.plain) == ({"A": 0.0}, {"A": 0}, None)
    assert next((row.first, row.second) for row in steps(table)) == ("sets", "questions")
