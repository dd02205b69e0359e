from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvrag_core.index.lexical import Bm25Index, tokenize


@pytest.mark.parametrize("query", ["IL 6", "il-6", "HbA1c"])
def test_bc31_codes_are_found_by_their_parts(query: str) -> None:
    index = Bm25Index(["x#p1", "x#p2"], ["renal function was stable", "raised IL-6 and HbA1c"])
    assert index.search(query, 1)[0].page_id == "x#p2"
    assert index.search(query, 1)[0].score > 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("IL-6", "il 6 il6"),
        ("IL\u20116", "il 6 il6"),  # the hyphen at which no line breaks
        ("HbA1c", "hba1c"),
        ("COVID-19", "covid 19 covid19"),
        ("SpO2", "spo2"),
        ("SpO₂", "spo2"),
        ("C₁₂", "c12"),
        ("HLA-B*57:01", "hla b 57 01 hlab5701"),
        ("HLA-A*02:01", "hla 02 01 hlaa0201"),  # "a" alone is no word to look up, in a code it is
        ("CYP2C19*2", "cyp2c19 2 cyp2c192"),
        ("5-FU", "5 fu 5fu"),
        ("5FU", "5 fu 5fu"),
        ("5mg", "5 mg 5mg"),
        ("β-blocker", "beta blocker betablocker"),
        ("beta-blocker", "beta blocker betablocker"),
        ("TNF-α", "tnf alpha tnfalpha"),
        ("TNFΑ", "tnf alpha tnfalpha"),  # a capital alpha
        ("λ", "lambda"),
        ("πνεύμα", "πνεύμα"),  # a Greek word is a word
        ("µg", "mu g mug"),  # the micro sign, not the letter
        ("PD-L1™", "pd l1 pdl1"),
        ("well-known follow-up", "well known follow up"),
        ("treat-\nment", "treat ment treatment"),
        ("treat-\n\n   ment", "treat ment treatment"),
        ("2.5 mg", "2.5 mg"),
        ("2,5 mg", "2.5 mg"),
        ("1,000", "1000"),
        ("1,000, of 2,5, or 3", "1000 2.5 3"),
        ("1,234,567.5", "1234567.5"),
        ("[1,2,5]", "1 2 5"),
        ("p<0.05", "p 0.05"),
        ("p<.05", "p 0.05"),
        ("p = 0.001.", "p 0.001"),
        ("5–10", "5 10"),
        ("57:01", "57 01"),
        ("10⁹/L", "10^9 l"),
        ("10^9/L", "10^9 l"),
        ("4.5×10¹²", "4.5 10^12"),
        ("10⁻³", "10^-3"),
        ("kg/m²", "kg m m^2"),
        ("1½", "1 1 2"),
        ("aber\u00adrant", "aberrant"),
        ("ﬁbrosis", "fibrosis"),
        ("a---b __ ^ * :", "b"),
        ("", ""),
    ],
)
def test_codes_and_numbers_are_looked_up_as_they_are_meant(text: str, words: str) -> None:
    assert tokenize(text) == words.split()


@pytest.mark.parametrize(
    ("query", "finds", "misses"),
    [
        ("IL6", "raised IL-6", "raised IL-8"),
        ("2.5", "a dose of 2.5 mg", "2 to 5 days"),
        ("1000", "1,000 patients", "1 of 000"),
        ("109", "109 patients", "10⁹ cells"),
        ("TNF alpha", "TNFα", "IL-1β"),
        ("10^9/L", "platelets 10⁹/l", "109 patients"),
        ("SpO2", "SpO₂ below", "spo below"),
        ("0.05", "p<.05", "05"),
    ],
)
def test_one_writing_finds_the_other_and_no_other_number(query: str, finds: str, misses: str) -> None:
    right, wrong = Bm25Index(["r", "w"], [f"{finds} x", f"{misses} x"]).scores(query)
    assert right > 0 == wrong


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=60))
def test_what_stands_between_blanks_is_read_alone(text: str) -> None:
    """No rule reaches over white space but that of the hyphen at the end of a line; words hold no white space."""
    lines = text.replace("-", "x").split()
    assert [word for line in lines for word in tokenize(line)] == tokenize(" ".join(lines))
    assert all(word and not any(char.isspace() or char.isupper() for char in word) for word in tokenize(text))


def test_stemming_cuts_endings_of_words_and_leaves_codes() -> None:
    assert tokenize("infections treated with CYP2C19s and PBPKs", stemming=True) == [
        "infect", "treat", "cyp2c19s", "pbpks",
    ]  # fmt: skip
    pages = ["infected hips", "no such word"]
    assert Bm25Index(["a", "b"], pages).scores("hip infections").tolist() == [0, 0]
    stemmed = Bm25Index(["a", "b"], pages, stemming=True).scores("hip infections")
    assert stemmed[0] > 0 == stemmed[1]


def bm25_by_formula(texts: list[str], query: str, k1: float = 0.9, b: float = 0.4) -> list[float]:
    """BM25 as Lucene has it since version 8, which Pyserini and so MedRAG use, written down from its formula."""
    documents = [tokenize(text) for text in texts]
    mean = sum(map(len, documents)) / len(documents)
    scores = []
    for words in documents:
        score = 0.0
        for word in tokenize(query):
            holding = sum(word in other for other in documents)
            idf = math.log(1 + (len(documents) - holding + 0.5) / (holding + 0.5))
            count = words.count(word)
            score += idf * count / (count + k1 * (1 - b + b * len(words) / mean)) if count else 0.0
        scores.append(score)
    return scores


def test_bm25_by_hand() -> None:
    """Four pages of 4, 2, 2 and 0 words, two on average; gout stands in two pages, urate in one."""
    texts = ["gout gout urate dose", "gout attack", "asthma spray", ""]
    rare, common = math.log(1 + 3.5 / 1.5), math.log(1 + 2.5 / 2.5)
    long, plain = 0.9 * (0.6 + 0.4 * 4 / 2), 0.9
    by_hand = [common * 2 / (2 + long) + rare * 1 / (1 + long), common * 1 / (1 + plain), 0.0, 0.0]
    assert [round(score, 4) for score in by_hand] == [0.958, 0.3648, 0.0, 0.0]
    index = Bm25Index(["a", "b", "c", "d"], texts)
    assert index.scores("urate in gout") == pytest.approx(by_hand, rel=1e-6)
    assert bm25_by_formula(texts, "urate in gout") == pytest.approx(by_hand)


@given(
    st.lists(st.lists(st.sampled_from(["gout", "urate", "il-6", "2.5", "mg"]), max_size=8), min_size=1, max_size=6),
    st.lists(st.sampled_from(["gout", "urate", "il-6", "mg", "nowhere"]), max_size=4),
)
def test_bm25_is_lucene_s(pages: list[list[str]], query: list[str]) -> None:
    texts = [" ".join(words) for words in pages]
    if not any(map(tokenize, texts)):
        return
    scores = Bm25Index([str(n) for n in range(len(texts))], texts).scores(" ".join(query))
    assert scores == pytest.approx(bm25_by_formula(texts, " ".join(query)), rel=1e-5, abs=1e-6)


def test_pages_without_words_and_unknown_words_do_no_harm() -> None:
    assert [h.score for h in Bm25Index(["a#p1", "b#p1"], ["", ""]).search("dose", 5)] == [0.0, 0.0]
    assert Bm25Index(["a#p1"], ["dose"]).search("§ the", 5)[0].score == 0.0
