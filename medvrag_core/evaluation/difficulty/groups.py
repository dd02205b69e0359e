"""Questions by what they need, and arms compared within such groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from medvrag_core.errors import InputError
from medvrag_core.evaluation.statistics.contrasts import Contrast, contrast_family, require_arms, rules_of
from medvrag_core.evaluation.statistics.estimands import arm_of
from medvrag_core.reasoning.support import article_of
from medvrag_core.records import Question, Record, Trace
from medvrag_core.settings import EvaluationSettings

GROUPS: dict[str, Callable[[Question], bool]] = {
    "all": lambda question: True,
    "one page": lambda question: len(set(question.gold_pages)) == 1,
    "pages of two articles": lambda question: len(set(map(article_of, question.gold_pages))) > 1,
    "text or table": lambda question: question.evidence in ("text", "table"),
    "figure or layout": lambda question: question.evidence in ("figure", "layout"),
}
"""Which questions belong to a group; a question belongs to several."""


class GroupContrast(Record):
    """Two arms on the questions of one group."""

    group: str
    contrast: Contrast


class Composition(Record):
    """Questions of a set by one of their properties."""

    property: str
    value: str
    count: int


def composition(questions: Sequence[Question]) -> list[Composition]:
    """How many questions have which kind of evidence, number of gold pages, and difficulty, in this order.

    >>> one = Question(id="q", question="?", options={"A": "x", "B": "y"}, gold_pages=("a#p1", "b#p2"))
    >>> [(row.property, row.value, row.count) for row in composition([one])]
    [('evidence', 'not said', 1), ('pages', 'two, of different articles', 1), ('difficulty', 'not said', 1)]
    """
    properties: dict[str, Callable[[Question], str]] = {
        "evidence": lambda question: question.evidence or "not said",
        "pages": _pages,
        "difficulty": lambda question: question.difficulty or "not said",
    }
    rows = []
    for name, of in properties.items():
        counts = Counter(map(of, questions))
        rows += [Composition(property=name, value=value, count=counts[value]) for value in sorted(counts)]
    return rows


def _pages(question: Question) -> str:
    if not question.gold_pages:
        return "none"
    if GROUPS["one page"](question):
        return "one"
    return "two, of different articles" if GROUPS["pages of two articles"](question) else "two, of one article"


def group_contrasts(
    arms: Mapping[str, Sequence[Trace]],
    pairs: Mapping[tuple[str, str], Sequence[str]],
    settings: EvaluationSettings,
    *,
    family: str,
) -> list[GroupContrast]:
    """Every pair of arms on the questions of its groups; p-values are adjusted over all of them.

    Parameters
    ----------
    arms : traces by name of the arm
    pairs : arms ``(a, b)`` of a comparison to the names of its groups, see :data:`GROUPS`

    Raises
    ------
    InputError : an arm or a group is not known, or a group has no question
    """
    require_arms({"/".join(pair): pair for pair in pairs}, arms)
    made, asked = {}, {}
    for (a, b), groups in pairs.items():
        for group in groups:
            if group not in GROUPS:
                raise InputError(f"no group '{group}'", way_out=f"choose among {', '.join(GROUPS)}")
            keys = tuple(f"{name}, {group}" for name in (a, b))
            for name, key in zip((a, b), keys, strict=True):
                own = [trace for trace in arms[name] if GROUPS[group](trace.question)]
                if not own:
                    raise InputError(f"'{name}' was asked no question of the group '{group}'")
                made[key] = arm_of([own])
            asked[f"{b} over {a}, {group}"] = (group, (keys[0], keys[1]))
    found = contrast_family(made, {name: pair for name, (_, pair) in asked.items()}, rules_of(settings), family=family)
    return [GroupContrast(group=group, contrast=found[name]) for name, (group, _) in asked.items()]
