"""Who writes follow-up queries and who answers them (i-MedRAG, arXiv 2408.00727), each without a model and with one.

The wording of the prompts is ours, see ``prompts/helper_ask.md`` and ``helper_follow_up.md``. The released code
(github.com/Teddy-XiongGZ/MedRAG, ``i_medrag_answer``) takes a second call to turn the queries that a model wrote into a
list, and runs the list as Python; here one call replies in JSON, which is parsed strictly and never evaluated.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from medvrag_core.models.base import ChatModel
from medvrag_core.models.outcomes import CallError
from medvrag_core.models.reply_text import first_json, neutral
from medvrag_core.reasoning.evidence_reader import quoted
from medvrag_core.reasoning.helper_calls import ask_helper
from medvrag_core.reasoning.judge import content_words, judge, missing_words
from medvrag_core.reasoning.knowledge.base import NOTHING_FOUND, UNREADABLE
from medvrag_core.reasoning.next_query import queries_in
from medvrag_core.reasoning.passages import history_passages, split_text
from medvrag_core.reasoning.prompts import options_text, template
from medvrag_core.reasoning.replies import MAX_NOTE, MAX_QUERY
from medvrag_core.reasoning.sameness import folded
from medvrag_core.reasoning.support import PassageIndex, best_passages
from medvrag_core.records import EvidenceItem, Question, ReaderInput, Step

VERSION = "follow-ups-1"
"""Raised whenever what is done without a model would do another thing with the same input."""
NO_QUERY = "no_query"
"""Reason of an ``ask`` step that wants nothing more, or has nothing new to want."""
ASK_TOKENS, ANSWER_TOKENS = 768, 512
"""Longest replies."""
MAX_ANSWER = 1_500
"""Most characters of an answer, so that twelve of them leave a reader room."""

_TEMPLATE_TOKENS = 32
_KEY_TERMS, _KEY_PASSAGES, _QUOTED, _EXTRACT_CHARACTERS = 6, 3, 3, 1_200
_NOT_FOUND = folded("NOT FOUND")
_PLACEHOLDERS = frozenset({"query", "first query", "second query"})


class QueryWriter(ABC):
    """Says what to look up next."""

    @abstractmethod
    def ask(self, question: Question, history: str, most: int) -> Step:
        """Step ``ask``; ``names`` are the queries, ``most`` at most, the most important first.

        Parameters
        ----------
        question : without options where the writer must not see them
        history : queries and answers so far, see :func:`~medvrag_core.reasoning.follow_ups.history_of`

        Raises
        ------
        CallError : the call failed
        """


class FollowUpAnswerer(ABC):
    """Answers one follow-up query; of the question behind it, it knows nothing."""

    @abstractmethod
    def answer(self, query: str, snippets: Sequence[EvidenceItem]) -> Step:
        """Step ``follow_up`` about the query; ``text`` is the answer, ``names`` the snippets that it was given.

        ``reason`` is set where there is no answer.

        Raises
        ------
        CallError : the call failed, or not a single snippet fits into it
        """


class WordQueries(QueryWriter):
    """Queries out of words: those of the question, with what is missing, what tells options apart, what answers named.

    They are, in this order and without those that were asked before: the question; its words with those in front that
    no answer holds so far; with those of each option, the best supported first; with key words of the best passages of
    the answers.
    """

    def ask(self, question: Question, history: str, most: int) -> Step:
        """See :class:`QueryWriter`; deterministic, with no model."""
        given = ReaderInput(question=question, round=1, must_answer=False, evidence=(), history=history)
        # What comes with a question is read, never searched with: no key word is taken from it.
        index, words = PassageIndex(history_passages(history)), content_words(question.question)
        missing = missing_words(index, question.question)
        written = [question.question, *([_joined(missing, words)] if len(missing) < len(words) else [])]
        ranking = judge(given).ranking if question.options else ()
        written += [_joined(words, content_words(question.options[label])) for label in ranking]
        for passage in best_passages(index, question.question, {}, _EXTRACT_CHARACTERS)[:_KEY_PASSAGES]:
            new = [word for word in content_words(passage.text) if word not in words]
            written.append(_joined(words, new[:_KEY_TERMS]))
        known = {"", *map(folded, queries_in(history))}
        fresh: dict[str, str] = {}
        for query in (neutral(text, MAX_QUERY) for text in written):
            if folded(query) not in known:
                fresh.setdefault(folded(query), query)
        names = tuple(fresh.values())[:most]
        return Step(kind="ask", names=names, made_by=VERSION, reason="" if names else NO_QUERY)


class ExtractedAnswers(FollowUpAnswerer):
    """The passages that hold most of the query, each with its page; no more than the snippets say."""

    def answer(self, query: str, snippets: Sequence[EvidenceItem]) -> Step:
        """See :class:`FollowUpAnswerer`; deterministic, with no model."""
        index = PassageIndex([passage for item in snippets for passage in split_text(item.text, item.page_id)])
        best = dict.fromkeys(map(quoted, best_passages(index, query, {}, _EXTRACT_CHARACTERS)))
        text = "\n".join(list(best)[:_QUOTED])
        return Step(
            kind="follow_up",
            about=query,
            text=text,
            names=tuple(item.evidence_id for item in snippets),
            made_by=VERSION,
            reason="" if text else NOTHING_FOUND,
        )


class PromptedQueries(QueryWriter):
    """One call; its analysis is the ``text`` of the step, and queries over the number are dropped and counted.

    Parameters
    ----------
    model : the door to the model
    """

    def __init__(self, model: ChatModel) -> None:
        self.model = model

    def ask(self, question: Question, history: str, most: int) -> Step:
        """See :class:`QueryWriter`."""
        step = ask_helper(
            self.model,
            "ask",
            max_tokens=ASK_TOKENS,
            reply_schema=_queries_schema(most),
            question=f"{question.question}\n{question.context}".strip(),
            options=options_text(question) or "(not shown)",
            history=history or "(nothing was asked so far)",
            most=str(most),
        )
        return step if step.reason else step.model_copy(update=_queries(step.text, most))


class PromptedAnswers(FollowUpAnswerer):
    """One call a query. Snippets that do not fit the context are left out, the lowest ranked first, and flagged.

    Parameters
    ----------
    model : the door to the model
    """

    def __init__(self, model: ChatModel) -> None:
        self.model = model

    def answer(self, query: str, snippets: Sequence[EvidenceItem]) -> Step:
        """See :class:`FollowUpAnswerer`; without snippets no model is asked."""
        if not snippets:
            return Step(kind="follow_up", about=query, made_by=self.model.settings.model, reason=NOTHING_FOUND)
        lines = [f"page {neutral(item.page_id)}: {neutral(item.text)}" for item in snippets]
        sent = self._that_fit(query, lines)
        step = ask_helper(
            self.model,
            "follow_up",
            about=query,
            max_tokens=ANSWER_TOKENS,
            query=query,
            snippets="\n".join(lines[:sent]),
        )
        text = neutral(step.text, MAX_ANSWER)
        found = bool(text) and folded(text) != _NOT_FOUND
        dropped = ("pages_dropped",) if sent < len(lines) else ()
        return step.model_copy(
            update={
                "text": text if found else "",
                "names": tuple(item.evidence_id for item in snippets[:sent]),
                "reason": step.reason or ("" if found else NOTHING_FOUND),
                "flags": (*step.flags, *dropped),
            }
        )

    def _that_fit(self, query: str, lines: Sequence[str]) -> int:
        """How many of the first lines there is room for, at least one."""
        settings, count = self.model.settings, self.model.count_tokens
        frame = count(template("helper_follow_up")) + count(query) + _TEMPLATE_TOKENS
        room = settings.context_tokens - min(ANSWER_TOKENS, settings.max_tokens) - frame
        for number, line in enumerate(lines):
            # The end of a line is counted with it, so that the sum is no less than the whole.
            room -= count(f"{line}\n")
            if room < 0:
                if number == 0:
                    raise CallError(
                        "rejected",
                        f"not one snippet fits into a context of {settings.context_tokens} tokens",
                        way_out="raise 'helper_model.context_tokens' or lower 'text.chunk_tokens'; text is never cut",
                    )
                return number
        return len(lines)


def _joined(*parts: Sequence[str]) -> str:
    return " ".join(dict.fromkeys(word for part in parts for word in part))


def _queries(text: str, most: int) -> dict[str, Any]:
    """What a reply asks for.

    >>> _queries('{"analysis": "?", "queries": ["Dose in children?", "dose in CHILDREN", "Half-life?"]}', 3)["names"]
    ('Dose in children?', 'Half-life?')
    >>> _queries('{"queries": "Dose in children?"}', 3)
    {'reason': 'unreadable'}
    """
    # A mark such as [1] before the object is no reply.
    value = first_json(text[max(0, text.find("{")) :])
    listed = value.get("queries") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(listed, list) or not all(isinstance(q, str) for q in listed):
        return {"reason": UNREADABLE}
    queries: dict[str, str] = {}
    for query in (neutral(entry, MAX_QUERY) for entry in listed):
        if folded(query) and folded(query) not in _PLACEHOLDERS:
            queries.setdefault(folded(query), query)
    names = tuple(queries.values())
    analysis = value.get("analysis")
    return {
        "text": neutral(analysis, MAX_NOTE) if isinstance(analysis, str) else "",
        "names": names[:most],
        "reason": "" if names else NO_QUERY,
        "flags": (f"beyond={len(names) - most}",) if len(names) > most else (),
    }


def _queries_schema(most: int) -> dict[str, Any]:
    text = {"type": "string"}
    return {
        "type": "object",
        "properties": {"analysis": text, "queries": {"type": "array", "items": text, "maxItems": most}},
        "required": ["analysis", "queries"],
        "additionalProperties": False,
    }
