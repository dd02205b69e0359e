from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvrag_core.corpus.pmc.ids import ArticleId, parse_id, parse_ids, pmcid, read_ids
from medvrag_core.corpus.pmc.refusal import RefusedError
from medvrag_core.errors import InputError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PMC7000001", "PMC7000001"), (" pmc7000001 ", "PMC7000001"), ("PMCID: PMC7000001", "PMC7000001"),
        ("PMC0000012", "PMC12"), ("PMC12.3", "PMC12.3"), ("PMC12.10", "PMC12.10"),
        ("https://pmc.ncbi.nlm.nih.gov/articles/PMC12/", "PMC12"),
        ("https://www.ncbi.nlm.nih.gov/pmc/articles/PMC12.2", "PMC12.2"),
        ("PMID:19000001", "PMID:19000001"), ("pmid: 0019000001", "PMID:19000001"),
        ("https://pubmed.ncbi.nlm.nih.gov/19000001/", "PMID:19000001"),
        ("10.1016/S0140-6736(05)67889-0", "10.1016/s0140-6736(05)67889-0"), ("doi: 10.1000/AbC", "10.1000/abc"),
        ("http://dx.doi.org/10.1000/a%3Cb", "10.1000/a<b"),
        ("10.1002/(SICI)1097-0258(19980815/30)17:15/16<1661::AID-SIM968>3.0.CO;2-2",
         "10.1002/(sici)1097-0258(19980815/30)17:15/16<1661::aid-sim968>3.0.co;2-2"),
    ],
)  # fmt: skip
def test_ids_as_people_write_them(text: str, expected: str) -> None:
    assert str(parse_id(text)) == expected


@pytest.mark.parametrize(
    ("text", "reason", "said"),
    [
        ("19000001", "looks_like_pmid", "write PMID:19000001 or PMC19000001"),
        ("7", "looks_like_pmid", "PMID:7"),
        *((text, "not_an_id", "no PMCID") for text in (
            "PMC", "PMC0", "PMC12.0", "PMC12.", "PMC-12", "PMC12 PMC13", "PMID:", "PMID:0", "PMID:abc", "1234567890123",
            "10.1000", "10.12/abc", "doi.org/10.1000/x", "gout", "PMC１２", "PMID:١٢", "12.5", "-5",
        )),
        ("10.1000/a,b", "not_an_id", "comma"),
    ],
)  # fmt: skip
def test_what_is_no_id_is_refused_and_a_bare_number_is_not_guessed(text: str, reason: str, said: str) -> None:
    with pytest.raises(RefusedError, match=said) as refused:
        parse_id(text)
    assert refused.value.reason == reason


@given(st.text(max_size=30))
def test_any_text_is_an_id_or_refused_and_ids_read_back(text: str) -> None:
    try:
        found = parse_id(text)
    except RefusedError:
        return
    assert parse_id(str(found)) == found


@given(st.integers(1, 10**9 - 1), st.integers(0, 9_999))
def test_pmcids_read_back(number: int, version: int) -> None:
    assert parse_id(str(pmcid(number, version))) == ArticleId("pmcid", f"PMC{number}", version)


def test_a_mixed_file_keeps_its_order_and_tells_what_is_wrong_with_which_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_bytes(
        b"\xef\xbb\xbf# my list\nPMC2\n\nPMID:5   # the trial\n10.1000/a#b\n19000001\npmc02\nPMID:05\nb\x1bad\n"
    )
    ids, entries = read_ids(path)
    assert [str(x) for x in ids] == ["PMC2", "PMID:5", "10.1000/a#b"]
    assert [(entry.file, entry.reason) for entry in entries] == [
        ("19000001", "looks_like_pmid"), ("pmc02", "duplicate_id"), ("PMID:05", "duplicate_id"), ("b_ad", "not_an_id"),
    ]  # fmt: skip
    assert all(entry.state == "dropped" for entry in entries)
    assert entries[0].detail.startswith("mine.txt line 6: 19000001 looks like a PMID")
    assert entries[1].detail == "mine.txt line 7: the same as line 2"


def test_other_versions_of_one_article_are_not_the_same_id() -> None:
    ids, entries = parse_ids(["PMC1", "PMC1.2"], "list")
    assert (len(ids), entries) == (2, ())


def test_files_that_are_no_lists(tmp_path: Path) -> None:
    path = tmp_path / "ids.txt"
    with pytest.raises(InputError, match="cannot be read"):
        read_ids(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="no UTF-8"):
        read_ids(path)
    path.write_text("19000001\n")
    with pytest.raises(InputError, match=r"no usable id.*looks like a PMID"):
        read_ids(path)
