from __future__ import annotations

from medvrag_core.evaluation.claims.checks import check_claims
from medvrag_core.evaluation.claims.table import load_claims
from medvrag_core.views.claims_view import claims_table, claims_text, expected_text, paper_text

HOSTILE = "<b>\x1b[31m"


def test_every_claim_is_a_row_of_the_table_and_a_line_of_the_text() -> None:
    claims = load_claims()
    html, text = claims_table(claims).html, claims_text(check_claims(claims))
    assert html.count("<tr>") == len(claims.rows) + 1
    assert "<code>medvrag book run --profile cpu</code>" in html
    for claim in claims.rows:
        assert paper_text(claim) in text and claim.id in text
    assert "no run named" in text and "every row is true of the audit" in text


def test_what_is_expected_in_words() -> None:
    rows = {claim.id: claim for claim in load_claims().rows}
    assert expected_text(rows["resolution"]) == "the paper's, exactly"
    assert expected_text(rows["figure2"]).startswith("the paper's, within 3 %; audit round-shares: holds")
    assert expected_text(rows["table1-gpt35"]) == "audit source-GPT-3.5: fails"


def test_text_of_claims_cannot_steer_page_or_terminal() -> None:
    claims = load_claims()
    hostile = claims.rows[0].model_copy(update={"what": HOSTILE, "where": HOSTILE, "unit": HOSTILE})
    claims = claims.model_copy(update={"rows": (hostile,)})
    assert "<b>" not in claims_table(claims).html
    assert "\x1b" not in claims_text(check_claims(claims))
