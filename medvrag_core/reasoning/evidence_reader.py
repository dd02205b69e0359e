"""A reader without a language model: the classic information-retrieval solver, a baseline and labelled so.

It scores each option by the passages of the pages shown (see :mod:`medvrag_core.reasoning.support`), answers when
one option is well ahead, and otherwise asks for what is missing in the reply format that a model would use.
"""

from __future__ import annotations

import hashlib
import json

from medvrag_core.models.reply_text import neutral
from medvrag_core.reasoning.judge import Judgement, judge, missing_words
from medvrag_core.reasoning.next_query import ASKS_FOR, blind_query, refined_query
from medvrag_core.reasoning.passages import Passage, evidence_passages
from medvrag_core.reasoning.reader import Reader
from medvrag_core.reasoning.replies import MAX_FINDING
from medvrag_core.reasoning.support import PassageIndex, best_passages
from medvrag_core.records import ReaderInput, ReaderReply
from medvrag_core.settings import ReaderSettings

VERSION = "evidence-2"


class EvidenceReader(Reader):
    """Answers from passages alone.

    Parameters
    ----------
    settings : ``margin`` is the lead in probability that the best option needs before the last round
    """

    name = "evidence"

    def __init__(self, settings: ReaderSettings) -> None:
        self.settings = settings

    @property
    def fingerprint(self) -> str:
        """Digest of the solver's version and the margin."""
        return hashlib.sha256(f"{VERSION}|{self.settings.margin}".encode()).hexdigest()[:16]

    def read(self, given: ReaderInput) -> ReaderReply:
        """Answer or ask; deterministic, with no model and no network."""
        judgement = judge(given)
        text = reply_text(given, judgement, self.settings.margin)
        return ReaderReply(text=text, model=VERSION, option_scores=dict(judgement.probability))

    def refine(self, given: ReaderInput) -> ReaderReply:
        """Ask with the question's own words; deterministic, with no model and no network."""
        return ReaderReply(text=refinement_text(given), model=VERSION)


def reply_text(given: ReaderInput, judgement: Judgement, margin: float) -> str:
    """The reply of one round in the production format.

    Early rounds answer when the lead reaches ``margin``, or when no new query is left to ask.
    """
    best, second = judgement.ranking[0], judgement.ranking[min(1, len(judgement.ranking) - 1)]
    lead = judgement.probability[best] - (judgement.probability[second] if second != best else 0.0)
    query = None if given.must_answer or lead >= margin else refined_query(given, judgement)
    if query is None:
        return f"{_reason(judgement, best)}\n<answer>{best}</answer>"
    share = judgement.probability
    note = f"undecided between {best} ({share[best]:.2f}) and {second} ({share[second]:.2f})"
    return _asking(query, _findings(judgement), note, judgement.missing)


def refinement_text(given: ReaderInput) -> str:
    """Query and notes in the production format, without a look at the options.

    The findings are the passages that hold most of the question, the query is made of its own words.
    """
    index = PassageIndex(evidence_passages(given))
    missing = missing_words(index, given.question.question)
    best = best_passages(index, given.question.question, {}, 2 * MAX_FINDING)
    findings = [quoted(passage) for passage in best if passage.kind != "finding"]
    return _asking(blind_query(given, missing), list(dict.fromkeys(findings))[:2], "undecided", missing)


def _asking(query: str, findings: list[str], note: str, missing: tuple[str, ...]) -> str:
    if missing:
        note += "; not found so far: " + ", ".join(missing[:8])
    notes = {"findings": findings, "note": neutral(f"{note}; {ASKS_FOR}{query}")}
    return f"<query_update>{query}</query_update>\n<notes>{json.dumps(notes, ensure_ascii=False)}</notes>"


def _reason(judgement: Judgement, label: str) -> str:
    passage = judgement.passage[label]
    if passage is None:
        return f"No page shown supports an option; {label} is {judgement.basis}."
    return f"{label} ({judgement.probability[label]:.2f}, {judgement.basis}): {quoted(passage)}"


def _findings(judgement: Judgement) -> list[str]:
    """Best passages of the two leading options, once each; what is in the bank already is not repeated."""
    passages = [judgement.passage[label] for label in judgement.ranking[:2]]
    return list(dict.fromkeys(quoted(p) for p in passages if p is not None and p.kind != "finding"))


def quoted(passage: Passage) -> str:
    """A passage as a finding: caption first where it has one, page id last."""
    source = f" (page {passage.page_id})"
    room = MAX_FINDING - len(source)
    text = neutral(passage.text, room)
    if passage.context and len(text) < room - 60:
        text = f"[{neutral(passage.context, min(120, room - len(text) - 3))}] {text}"
    return text + source
