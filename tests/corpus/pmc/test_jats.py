from __future__ import annotations

import gzip
import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvrag_core.corpus.pmc.jats import LARGEST, JatsHead, attribution, printable_line, read_jats
from medvrag_core.corpus.pmc.licence import licence_of
from medvrag_core.corpus.pmc.refusal import RefusedError

HEAD = "<article><front><article-meta>{}</article-meta></front></article>"


def head(inside: str, prolog: str = "") -> JatsHead:
    return read_jats((prolog + HEAD.format(inside)).encode())


def test_real_files_tell_what_a_person_read_in_them(shared_data: Path) -> None:
    """All 60 JATS files of real articles, beside the facts that were taken from them by other means."""
    folder = shared_data / "articles"
    facts = {}
    for line in (folder / "articles.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record["jats"]:
            facts[Path(record["jats"]).name] = record
    files = sorted((folder / "jats").iterdir())
    conflicts = set()
    for path in files:
        found = read_jats(gzip.decompress(path.read_bytes()))
        assert found.title and found.journal and found.article_type and found.published[:2] in ("19", "20"), path.name
        assert not found.retracted
        licence = licence_of("", found.licence_link, found.licence_sentence)
        if licence.code == "conflict":
            conflicts.add(path.name)
        if (told := facts.get(path.name)) is None:
            continue
        assert found.pmcid == told["pmcid"]
        assert (found.title, found.journal) == (told["title"], told["journal"])
        assert found.doi == (told["doi"] or found.doi).lower()
        assert told["pmid"] in (None, found.pmid)
        if licence.code != "conflict":
            assert licence.label.startswith(told["licence"])
    assert len(files) == 60 and len(facts) == 51
    assert conflicts == {"PMC4911752.nxml.gz", "PMC5758638.nxml.gz"}, "their tag says CC BY, their sentence NC"


def test_a_title_loses_notes_and_what_steers_a_terminal() -> None:
    found = head(
        "<title-group><article-title>Gout: <italic>a</italic>\n  review<break/>of<xref>1</xref><fn><p>note</p></fn>"
        "\u202e ten&#x200b;</article-title></title-group>"
    )
    assert found.title == "Gout: a review of ten"


@pytest.mark.parametrize(
    ("dates", "published"),
    [
        ('<pub-date pub-type="ppub"><year>2019</year></pub-date><pub-date pub-type="epub"><day>9</day><month>12</month>'
         "<year>2018</year></pub-date>", "2018-12-09"),
        ('<pub-date date-type="pub" publication-format="electronic"><month>02</month><year>2020</year></pub-date>',
         "2020-02"),
        ("<pub-date><month>13</month><year>2020</year></pub-date>", "2020"),
        ("<pub-date><month>Feb</month><day>3</day><year>2020</year></pub-date>", "2020"),
        ('<pub-date pub-type="epub"><year>soon</year></pub-date><pub-date pub-type="x"><year>2001</year></pub-date>',
         "2001"),
        ("<pub-date><string-date>May 2001</string-date></pub-date>", ""),
    ],
)  # fmt: skip
def test_the_date_of_publication(dates: str, published: str) -> None:
    assert head(dates).published == published


def test_authors_under_all_names_of_a_name() -> None:
    name = "<surname>Ng</surname><given-names>Mei-Lin</given-names>"
    people = (
        f"<name>{name}</name>", f"<name-alternatives><name>{name}</name></name-alternatives>",
        f"<string-name>{name}</string-name>", "<name><surname>Plato</surname></name>", "<collab>The Group</collab>", "",
    )  # fmt: skip
    contributors = "".join(f'<contrib contrib-type="author">{person}</contrib>' for person in people)
    editor = f'<contrib contrib-type="editor"><name>{name}</name></contrib>'
    found = head(f"<contrib-group>{contributors}{editor}</contrib-group>")
    assert found.authors == ("Ng ML", "Ng ML", "Ng ML", "Plato", "The Group")


def test_ids_in_old_and_new_form() -> None:
    ids = '<article-id pub-id-type="{}">{}</article-id>'
    assert head(ids.format("pmc", "0012")).pmcid == head(ids.format("pmcid", "PMC12")).pmcid == "PMC12"
    odd = head(ids.format("pmid", "12x") + ids.format("pmc", "x") + ids.format("doi", "10.1000/A"))
    assert (odd.pmid, odd.pmcid, odd.doi) == ("", "", "10.1000/a")


def test_a_licence_with_its_addresses_wherever_they_stand() -> None:
    link = "http://creativecommons.org/licenses/by/3.0/"
    xlink = 'xmlns:xlink="http://www.w3.org/1999/xlink"'
    ali = 'xmlns:ali="http://www.niso.org/schemas/ali/1.0/"'
    for licence in (
        f'<license {xlink} xlink:href="{link}"><license-p>Free.</license-p></license>',
        f"<license {ali}><ali:license_ref>{link}</ali:license_ref><license-p>Free.</license-p></license>",
    ):
        found = head(f"<permissions>{licence}</permissions>")
        assert (found.licence_link, found.licence_sentence) == (link, "Free.")
    inside = f'<license {xlink}><license-p>See <ext-link xlink:href="{link}"/>.</license-p></license>'
    found = head(f"<permissions>{inside}</permissions>")
    assert (found.licence_link, licence_of("", "", f"licensed: {found.licence_sentence}").label) == ("", "CC BY 3.0")


def test_a_namespace_of_the_standard_changes_nothing() -> None:
    text = HEAD.format("<title-group><article-title>T</article-title></title-group>")
    assert read_jats(text.replace("<article>", '<article xmlns="https://jats.nlm.nih.gov/x">').encode()).title == "T"


def test_entities_and_outside_files_are_refused(tmp_path: Path) -> None:
    canary = tmp_path / "canary.txt"
    canary.write_text("the secret")
    laughs = "".join(f'<!ENTITY l{n + 1} "{f"&l{n};" * 10}">' for n in range(8))
    for declared, used in (
        (f'<!ENTITY x SYSTEM "{canary.as_uri()}">', "&x;"),
        (f'<!ENTITY l0 "ha">{laughs}', "&l8;"),
        (f'<!ENTITY % x SYSTEM "{canary.as_uri()}"> %x;', ""),
    ):
        with pytest.raises(RefusedError, match=r"refused|no XML") as refused:
            head(
                f"<title-group><article-title>{used}</article-title></title-group>", f"<!DOCTYPE article [{declared}]>"
            )
        assert refused.value.reason == "damaged_jats"
        assert "secret" not in refused.value.detail


@pytest.mark.parametrize(
    "data",
    [b"", b"<a>", b"no xml", b"<html><body/></html>", b"<article><body/></article>", b"\x1f\x8b\x08\x00", b"\xff" * 50,
     b'<?xml version="1.0" encoding="nonsense"?><article/>', b"<article><front/></article>"],
)  # fmt: skip
def test_what_is_no_jats_is_refused(data: bytes) -> None:
    with pytest.raises(RefusedError) as refused:
        read_jats(data)
    assert refused.value.reason == "damaged_jats"


def test_the_size_is_capped_and_depth_does_no_harm() -> None:
    with pytest.raises(RefusedError, match="larger than 64 MiB"):
        read_jats(b" " * (LARGEST + 1))
    deep = 50_000
    inside = "<title-group><article-title>" + "<b>" * deep + "deep" + "</b>" * deep + "</article-title></title-group>"
    assert head(inside).title == "deep"


def test_reading_stops_behind_the_front() -> None:
    data = HEAD.format("").replace("</article>", "<body>").encode() + b"\n" * 200_000 + b"<unclosed"
    assert read_jats(data) == JatsHead()


def test_a_retracted_article_names_the_notice() -> None:
    assert head('<related-article related-article-type="retraction-forward"/>').retracted
    assert not head('<related-article related-article-type="retracted-article"/>').retracted, (
        "that is the notice itself"
    )


@given(st.text(max_size=200))
def test_a_printed_line_is_one_line_without_controls(text: str) -> None:
    line = printable_line(text)
    assert len(line.splitlines()) <= 1
    bidi = {"RLO", "LRO", "RLE", "LRE", "PDF", "RLI", "LRI", "FSI", "PDI"}
    assert not any(unicodedata.category(c) == "Cc" or unicodedata.bidirectional(c) in bidi for c in line)


def test_an_attribution_names_three_authors_and_the_place() -> None:
    found = JatsHead(title="T.", journal="J", published="2018-01-02", doi="10.1000/x", authors=("A", "B", "C", "D"))
    assert (
        attribution(found, "https://e.org/") == "A, B, C, et al. T. J, 2018. https://doi.org/10.1000/x. https://e.org/"
    )
    assert attribution(JatsHead(), "https://e.org/") == "https://e.org/"
