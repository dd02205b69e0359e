"""Check articles and questions before they are built: ``python data/demo/check.py [--source DIR]``.

The same as ``medvrag data check``. Prints every fault with file, question and field; any makes it fail. Nothing is
written.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from build import sources_of
from printed import Printed, holds, print_article, words
from typeset.questions import QuestionSource, page_of, read_questions, resolve
from typeset.write import CANARY

from medvrag_core.errors import InputError, MedvragError
from medvrag_core.strict_json import read_text

HERE = Path(__file__).resolve().parent
LARGEST_SHARE = 0.35
"""Of answers with one letter, and of right options that are longer than all others."""
SMALLEST_SET = 20
"""Sets of fewer questions have no shares worth judging."""
RUN = 6
"""Words in a row that a question shares with a page before it counts as taken from there."""


@dataclass(frozen=True)
class Fault:
    """What is wrong with a file, and where."""

    where: str
    what: str

    def __str__(self) -> str:
        """One line for the terminal."""
        return f"refused: {self.where}: {self.what}"


@dataclass(frozen=True)
class Corpus:
    """Printed articles by id and questions with the names of their files."""

    articles: Mapping[str, Printed]
    questions: Sequence[tuple[str, QuestionSource]]

    @property
    def anchors(self) -> dict[str, Mapping[str, int]]:
        """Article id to anchor to page number."""
        return {name: article.anchors for name, article in self.articles.items()}

    def text(self, page_id: str) -> str:
        """The normalized words of a page."""
        article, _, page = page_id.partition("#p")
        return self.articles[article].pages[int(page)]


def check(source: Path) -> list[Fault]:
    """All faults of the articles and questions below ``source``.

    Raises :class:`InputError` when there is no article at all.
    """
    faults: list[Fault] = []
    article_files, question_files = sources_of(source)
    articles: dict[str, Printed] = {}
    for path in article_files:
        try:
            articles[path.stem] = print_article(path)
        except InputError as error:
            faults.append(_told(error, path.name))
    questions: list[tuple[str, QuestionSource]] = []
    for path in question_files:
        try:
            if not read_text(path).startswith(f"# {CANARY}\n"):
                faults.append(Fault(path.name, f"the first line is not '# {CANARY}'"))
            questions += [(path.name, question) for question in read_questions(path)]
        except InputError as error:
            faults.append(_told(error, path.name))
    corpus = Corpus(articles, questions)
    faults += _check_each(corpus)
    faults += _check_all(corpus)
    return faults


def _told(error: MedvragError, where: str) -> Fault:
    text = str(error).removeprefix(where).lstrip(",: ")
    return Fault(where, text)


def _check_each(corpus: Corpus) -> Iterator[Fault]:
    runs = _runs_of_pages(corpus)
    for file, question in corpus.questions:
        where = f"{file}, question {question.id}"
        yield from _check_fields(question, where)
        try:
            pages = resolve(question, corpus.anchors, file).gold_pages
        except InputError as error:
            yield _told(error, where)
            continue
        yield from _check_support(question, corpus, where)
        yield from _check_bridge(question, corpus, pages, where)
        yield from _check_copied(question, corpus, runs, where)


def _check_fields(question: QuestionSource, where: str) -> Iterator[Fault]:
    wanted = ["difficulty", "rationale", "split", "tempting" if question.unanswerable else "support"]
    for name in wanted:
        if not getattr(question, name):
            yield Fault(f"{where}, field '{name}'", "is missing")
    if question.unanswerable:
        return
    wrong = [label for label in question.options if label != question.answer]
    for label in wrong:
        if not question.distractors.get(label, "").strip():
            yield Fault(f"{where}, field 'distractors'", f"no reason why {label} is wrong")
    for label in question.distractors:
        if label not in wrong:
            yield Fault(f"{where}, field 'distractors'", f"'{label}' is no wrong option")
    if question.difficulty == "easy" and question.hops != 1:
        yield Fault(f"{where}, field 'difficulty'", "easy is for look-ups on a single page")


def _check_support(question: QuestionSource, corpus: Corpus, where: str) -> Iterator[Fault]:
    where = f"{where}, field 'support'"
    if not question.support:
        return
    if len(question.support) != len(question.gold):
        yield Fault(where, f"{len(question.support)} strings for {len(question.gold)} gold anchors; give one for each")
        return
    for text, anchor in zip(question.support, question.gold, strict=True):
        page = page_of(anchor, corpus.anchors, where)
        if not holds(corpus.text(page), text):
            article = page.partition("#p")[0]
            others = [number for number, words in corpus.articles[article].pages.items() if holds(words, text)]
            elsewhere = f"it is on page {others[0]}" if others else "nor is it on another page of the article"
            yield Fault(where, f"'{text}' is not printed on {page}, where {anchor} stands; {elsewhere}")


def _check_bridge(question: QuestionSource, corpus: Corpus, pages: Sequence[str], where: str) -> Iterator[Fault]:
    where = f"{where}, field 'bridge'"
    articles = {page.partition("#p")[0] for page in pages}
    if not question.bridge:
        if len(articles) > 1:
            yield Fault(where, "is missing; pages of two articles are joined by a word that only the first one gives")
        return
    if len(pages) < 2:
        yield Fault(where, "is given, but there is one gold page only")
    bridge = question.bridge.casefold()
    for name, text in {"question": question.question, **question.options}.items():
        if holds(text.casefold(), bridge):
            yield Fault(where, f"'{question.bridge}' stands in {name if name == 'question' else f'option {name}'}")
    for page in pages:
        # A plural or a compound of the word is found by the same search.
        if bridge not in corpus.text(page).casefold():
            yield Fault(where, f"'{question.bridge}' is not printed on {page}")


def _runs_of_pages(corpus: Corpus) -> dict[tuple[str, ...], set[str]]:
    runs: dict[tuple[str, ...], set[str]] = {}
    for name, article in corpus.articles.items():
        for number, text in article.pages.items():
            for run in _runs(words(text)):
                runs.setdefault(run, set()).add(f"{name}#p{number}")
    return runs


def _runs(said: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return (tuple(said[start : start + RUN]) for start in range(len(said) - RUN + 1))


def _check_copied(
    question: QuestionSource, corpus: Corpus, runs: Mapping[tuple[str, ...], set[str]], where: str
) -> Iterator[Fault]:
    """A run of the question's words on a page that also prints the right option is a look-up.

    A bare number is no option that a search for its text would find.
    """
    right = question.options.get(question.answer, "").casefold()
    if question.difficulty == "easy" or not any(character.isalpha() for character in right):
        return
    for run in _runs(words(question.question)):
        for page in sorted(runs.get(run, ())):
            if holds(corpus.text(page).casefold(), right):
                yield Fault(
                    f"{where}, field 'question'",
                    f"'{' '.join(run)}' and the right option both stand on {page}; say it in other words, or mark the "
                    "question easy",
                )
                return


def _check_all(corpus: Corpus) -> Iterator[Fault]:
    yield from _check_repeats(corpus)
    answerable = [question for _, question in corpus.questions if not question.unanswerable]
    for name, chosen in {
        "all questions": answerable,
        "split dev": [question for question in answerable if question.split != "test"],
        "split test": [question for question in answerable if question.split == "test"],
    }.items():
        if len(chosen) < SMALLEST_SET:
            continue
        letter, count = Counter(question.answer for question in chosen).most_common(1)[0]
        if count > LARGEST_SHARE * len(chosen):
            yield Fault(name, f"{count} of {len(chosen)} answers are {letter}; at most {LARGEST_SHARE:.0%} may be")
        longest = sum(_stands_out(question) for question in chosen)
        if longest > LARGEST_SHARE * len(chosen):
            yield Fault(
                name,
                f"in {longest} of {len(chosen)} the right option is the longest; at most {LARGEST_SHARE:.0%} may be",
            )


def _stands_out(question: QuestionSource) -> bool:
    right = len(question.options[question.answer])
    return all(len(text) < right for label, text in question.options.items() if label != question.answer)


def _check_repeats(corpus: Corpus) -> Iterator[Fault]:
    seen_ids: dict[str, str] = {}
    seen_texts: dict[tuple[str, ...], str] = {}
    for file, question in corpus.questions:
        where = f"{file}, question {question.id}"
        if question.id in seen_ids:
            yield Fault(f"{where}, field 'id'", f"already used in {seen_ids[question.id]}")
        seen_ids.setdefault(question.id, file)
        text = tuple(words(question.question))
        if text in seen_texts:
            yield Fault(f"{where}, field 'question'", f"the same as {seen_texts[text]}")
        seen_texts.setdefault(text, where)


def report(faults: Sequence[Fault]) -> str:
    """The faults a line each, and how many there are."""
    return "\n".join([*map(str, faults), f"{len(faults)} refused"])


def main(arguments: list[str] | None = None) -> int:
    """Command line; returns the exit status: 2 when anything is refused."""
    parser = argparse.ArgumentParser(description="Check the articles and questions of the demo corpus.")
    parser.add_argument("--source", type=Path, default=HERE, help="folder of articles and questions (%(default)s)")
    options = parser.parse_args(arguments)
    try:
        faults = check(options.source)
    except MedvragError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(report(faults))
    return InputError.exit_code if faults else 0


if __name__ == "__main__":
    sys.exit(main())
