from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvrag_core.corpus.licences import (
    agreed_licence,
    credit_line,
    licence_passages,
    parsed_licence,
    settled_article,
    stated_licence,
    stored_text,
    why_hidden,
)
from medvrag_core.corpus.source import FolderSource
from medvrag_core.errors import InputError, SettingsError
from medvrag_core.records import Article

CODES = ("CC BY", "CC BY-SA", "CC BY-ND", "CC BY-NC", "CC BY-NC-SA", "CC BY-NC-ND")
NAMES = {"NC": "NonCommercial", "SA": "ShareAlike", "ND": "NoDerivatives"}
ARTICLE = Article(article_id="a", file="a.pdf", sha256="0", pages=1, title="Gout", doi="10.1/x")
OPEN = "This is an open access article distributed under the terms of the"


def written(code: str, version: str, form: str) -> str:
    elements = code.removeprefix("CC BY").strip("-").split("-") if code != "CC BY" else []
    return {
        "code": f"{code} {version}",
        "dashes": f"{code} {version}".replace(" ", "-"),
        "small": f"{code} {version}".lower(),
        "link": f"https://creativecommons.org/licenses/{code[3:].lower()}/{version}/",
        "broken link": f"http://creativecommons. org/licenses/ {code[3:].lower()}/{version}",
        "name": f"Creative Commons Attribution{''.join('-' + NAMES[e] for e in elements)} {version} International",
        "spaced name": f"Creative Commons Attribution {' '.join(NAMES[e] for e in elements)} {version}",
    }[form]


@given(
    code=st.sampled_from(CODES),
    version=st.sampled_from(["2.0", "2.5", "3.0", "4.0"]),
    form=st.sampled_from(["code", "dashes", "small", "link", "broken link", "name", "spaced name"]),
)
def test_every_way_to_write_a_licence_gives_one_form(code: str, version: str, form: str) -> None:
    text = written(code, version, form)
    for found in (
        parsed_licence(text),
        stated_licence(f"{OPEN} {text}, which permits use."),
        agreed_licence(code, text),
    ):
        assert (found.code, found.version) == (code, version)
        assert found.use == ("non-commercial" if "NC" in code else "commercial")
        assert parsed_licence(stored_text(found)) == found
        assert parsed_licence(found.link) == found


@given(tag=st.sampled_from(CODES), other=st.sampled_from(CODES))
def test_tag_and_sentence_agree_or_conflict(tag: str, other: str) -> None:
    found = agreed_licence(tag, f"{OPEN} {other} license.")
    assert found.code == (tag if tag == other else "conflict")
    assert agreed_licence("", f"{OPEN} {other} license.").code == other
    assert agreed_licence(tag, "") == parsed_licence(tag)


@pytest.mark.parametrize(
    "sentence",
    [
        "No commercial exploitation is permitted.",
        "It may not be used for commercial purposes.",
        "Free for non-commercial use.",
        "For commercial re-use, please contact the journal.",
        "Commercial use is not allowed.",
    ],
)
def test_bc36_words_against_the_tag_are_a_conflict(sentence: str) -> None:
    found = agreed_licence("CC BY", sentence)
    assert (found.code, found.use) == ("conflict", "none")
    assert "CC BY" in found.detail
    assert parsed_licence(stored_text(found)) == found
    assert why_hidden(found).startswith("its licence contradicts itself (CC BY against")
    assert agreed_licence("CC BY-NC 4.0", sentence).label == "CC BY-NC 4.0"
    article, entries = settled_article(ARTICLE.model_copy(update={"licence": "CC BY"}), f"{OPEN} license. {sentence}")
    assert [(e.file, e.state, e.reason) for e in entries] == [("a.pdf", "changed", "licence_conflict")]
    assert article.licence.startswith("conflict: CC BY against")


@pytest.mark.parametrize(
    "text",
    [
        "The authors declare no commercial interest.",
        "Licensed for commercial and non-commercial purposes alike.",
        "We compared licensed drugs by non-commercial sponsors.",
        "It permits use in any medium, even commercially.",
        "The software is free for non-commercial use.",
    ],
)
def test_what_is_no_limit_makes_no_conflict(text: str) -> None:
    assert agreed_licence("CC BY", licence_passages(text)).code == "CC BY"


@pytest.mark.parametrize(
    "text", ["", "MIT", "NO-CC CODE", "CC", "CC BY-ND-SA", "Attribution", "by", "all rights reserved"]
)
def test_what_is_no_licence_is_unknown_and_hidden(text: str) -> None:
    found = parsed_licence(text)
    assert (found.code, found.use, stored_text(found), found.link) == ("", "none", "", "")
    assert why_hidden(found) == "its licence is not known"


def test_only_free_licences_are_shown() -> None:
    shown = {code for code in (*CODES, "CC0", "public domain", "TDM", "") if not why_hidden(parsed_licence(code))}
    assert shown == {"CC0", "public domain", "CC BY", "CC BY-SA"}
    assert "text mining" in why_hidden(parsed_licence("TDM"))
    assert "no part or change" in why_hidden(parsed_licence("CC BY-ND 4.0"))


def test_data_under_cc0_does_not_free_the_article() -> None:
    link = written("CC BY", "4.0", "link")
    text = f"{OPEN} {link}. The waiver (http://creativecommons.org/publicdomain/zero/1.0/) applies"
    assert stated_licence(text).label == "CC BY 4.0"


def test_the_default_fills_in_for_articles_that_state_none() -> None:
    assert settled_article(ARTICLE, "", "cc-by 4.0")[0].licence == "CC BY 4.0"
    assert settled_article(ARTICLE, f"{OPEN} CC BY-NC 4.0 license", "CC BY")[0].licence == "CC BY-NC 4.0"
    assert settled_article(ARTICLE, "", "") == (ARTICLE, ())
    with pytest.raises(SettingsError, match=r"corpus\.licence: 'free'"):
        settled_article(ARTICLE, "", "free")


def test_pages_are_not_asked_where_the_source_brought_an_attribution() -> None:
    known = ARTICLE.model_copy(update={"licence": "CC BY 4.0", "attribution": "A. Author. Gout."})
    assert settled_article(known, f"{OPEN} CC BY-NC license; figure 2 is under CC BY-ND")[0].licence == "CC BY 4.0"


def test_the_credit_names_whose_it_is_and_the_licence() -> None:
    licensed = ARTICLE.model_copy(update={"licence": "CC BY 4.0"})
    link = "https://creativecommons.org/licenses/by/4.0/"
    assert credit_line(licensed) == f"Gout. doi:10.1/x. Licence: CC BY 4.0 ({link})."
    assert credit_line(licensed.model_copy(update={"attribution": "A. Author. Gout."})).startswith(
        "A. Author. Gout. Lic"
    )
    assert credit_line(ARTICLE.model_copy(update={"title": "", "doi": ""})) == "a. Licence: unknown."


@pytest.mark.slow
def test_real_articles_are_never_taken_for_freer_than_they_are(shared_data: Path) -> None:
    import pymupdf

    told = [json.loads(line) for line in (shared_data / "articles" / "articles.jsonl").read_text().splitlines()]
    found = {}
    for article in told:
        with pymupdf.open(shared_data / article["file"]) as document:
            ends = sorted({0, 1, len(document) - 2, len(document) - 1} & set(range(len(document))))
            text = " ".join(" ".join(document[n].get_text() for n in ends).split())
        found[article["id"]] = (
            parsed_licence(article["licence"] or "").code,
            stated_licence(licence_passages(text)).code,
        )
    right = sum(true == read for true, read in found.values())
    freer = {name: pair for name, pair in found.items() if pair[1] not in (pair[0], "", "conflict", "TDM")}
    assert not freer
    assert right >= 50


def folder_with(path: Path, text: str) -> FolderSource:
    (path / "a.pdf").write_bytes(b"%PDF-")
    (path / "licence.yaml").write_text(text)
    return FolderSource(path)


def test_a_folder_may_state_the_licence_of_what_is_in_it(tmp_path: Path) -> None:
    (document,) = folder_with(tmp_path, "licence: CC BY 4.0\njournal: Reviews\n").documents()
    article, entries = settled_article(document.described(ARTICLE), "", "CC0")
    assert (article.licence, article.journal, entries) == ("CC BY 4.0", "Reviews", ())
    assert credit_line(article).startswith("Gout. Reviews. doi:10.1/x. Licence: CC BY 4.0 (")
    against = settled_article(document.described(ARTICLE), f"{OPEN} CC BY-NC 4.0 license")[0]
    assert against.licence == "conflict: CC BY 4.0 against CC BY-NC 4.0"


@pytest.mark.parametrize(
    ("text", "fault"),
    [("licence: free", "'free' is no licence"), ("journal: x", "licence"), ("licence: CC0\nx: 1", "x"), ("[", "YAML")],
)
def test_a_faulty_statement_is_named(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(InputError, match=f"licence.yaml.*{fault}"):
        list(folder_with(tmp_path, text).documents())
