from __future__ import annotations

import gzip
import importlib.util
import json
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

TEXTS = {
    "d1": ("Gout", "Allopurinol is started at 100 mg daily. It lowers urate."),
    "d2": ("Bipolar disorder", "Lithium needs a blood level twice a year, for it harms the kidney."),
    "d3": ("Asthma", "A spacer helps children to inhale salbutamol."),
    "d4": ("Anemia", "Iron is better taken every second day than daily."),
}
QUERIES = {"q1": ("dose of allopurinol", "d1"), "q2": ("kidney and lithium", "d2")}


def plain_distance(a: list[str], b: list[str]) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, start=1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]


@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abcd"), max_size=12))
@settings(deadline=None)
def test_word_errors_are_the_edit_distance(true: list[str], found: list[str]) -> None:
    from rendered_text import word_errors

    assert word_errors(true, found) == plain_distance(true, found)


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    """A small collection in BEIR layout, and a font that every checkout has under the name of the paper's."""
    home = tmp_path / "tiny"
    (home / "qrels").mkdir(parents=True)
    rows = [{"_id": name, "title": title, "text": text} for name, (title, text) in TEXTS.items()]
    asked = [{"_id": name, "text": text} for name, (text, _) in QUERIES.items()]
    for name, lines in (("corpus", rows), ("queries", asked)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (home / f"{name}.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    judged = "".join(f"{query}\t{gold}\t1\n" for query, (_, gold) in QUERIES.items())
    (home / "qrels" / "dev.tsv.gz").write_bytes(gzip.compress(f"query-id\tcorpus-id\tscore\n{judged}".encode()))
    spec = importlib.util.find_spec("font_source_sans_pro")
    assert spec is not None and spec.submodule_search_locations
    shutil.copy(Path(next(iter(spec.submodule_search_locations))) / "files" / "SourceSansPro-Regular.ttf", home)
    (home / "SourceSansPro-Regular.ttf").rename(home / "DejaVuSans.ttf")
    return home


def test_a_collection_is_ranked_and_the_run_serves_the_other_benchmark(
    collection: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import encoder_quality
    import rendered_text

    given = ["--data", str(collection), "--run", str(tmp_path / "run"), "--split", "dev"]
    reading = [] if shutil.which("tesseract") else ["--text"]
    monkeypatch.setattr("sys.argv", ["x", *given, *reading, "--font-folder", str(collection)])
    rendered_text.main()
    told = capsys.readouterr().out
    assert "tiny, dev: 2 queries, 4 pages" in told
    assert reading or re.search(r"word error rate of OCR: \d\.\d\d% \(\d of 44 words on 4 pages\)", told), told
    for name in ("bm25", "exact"):
        assert re.search(rf"tiny, dev +{name} +2 +1\.000 +1\.00 +1\.00 +1\.000", told), told
    assert re.search(r"exact +nDCG@10 +0 +0 +\+0\.000 ", told)
    assert re.search(
        r"4 pages, \d+ vectors a page, \d+ wide, [\d.]+ kB a page on disk, [\d.]+ pages/s over 4 pages", told
    )

    monkeypatch.setattr("sys.argv", ["x", *given])
    encoder_quality.main()
    again = capsys.readouterr().out
    assert re.search(r"tiny, dev +exact +2 +1\.000", again)

    monkeypatch.setattr("sys.argv", ["x", *given, "--split", "test"])
    with pytest.raises(SystemExit, match=r"error: .*test\.tsv\.gz: no such file"):
        rendered_text.main()
