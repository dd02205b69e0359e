"""What the check of articles and questions refuses, each by one edit of a corpus that passes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import check
import pytest
from check import Fault, main
from hypothesis import given
from hypothesis import strategies as st
from printed import Printed, holds, normal, print_article
from typeset.write import CANARY

Make = Callable[..., Path]
FILLER = "Words that only fill the page and say nothing about anything at hand. "
FIRST = f"""[#finding] A patient with the finding needs vexalomab^[Given by vein.] without delay.

```figure
anchor: fig-hidden
caption: What is seen.
kind: panels
raster: true
panels:
  - {{title: Zebrawood, lines: ["Ratio of 4.5"]}}
  - {{title: Other, lines: [Nothing]}}
```

{FILLER * 160}

[#late] Vexalomab is stopped after 14 days.
"""
SECOND = """```table
anchor: table-dose
caption: Doses.
columns: [Drug, Dose, Route]
rows:
  - [Vexalomab, "2,150 mg", vein]
  - [Durvitinib, "40 mg/kg", mouth]
```

Sessions of piperacillin-tazobactam last 30 minutes when the patient has been well for a whole day.
"""
QUESTIONS = f"""# {CANARY}
- id: one-1
  question: How much is given to somebody with this finding?
  options: {{A: "2,150 mg", B: "40 mg/kg", C: "30 minutes"}}
  answer: A
  gold: [first#finding, second#table-dose]
  support: [without delay, "2,150 mg"]
  evidence: table
  hops: 2
  difficulty: hard
  split: test
  distractors: {{B: The dose of another drug., C: A length of time.}}
  bridge: vexalomab
  tempting: [second#table-dose]
  rationale: Two pages.
- id: one-2
  question: Which ratio does the first box show?
  options: {{A: "14", B: "Ratio of 4.5"}}
  answer: B
  gold: [first#fig-hidden]
  support: [Ratio of 4.5]
  evidence: figure
  hops: 1
  difficulty: medium
  split: dev
  distractors: {{A: A number of days.}}
  rationale: One page.
- id: one-3
  question: What does a dose cost?
  options: {{A: a little, B: a lot}}
  unanswerable: No article names a price.
  tempting: [second#table-dose]
  difficulty: hard
  split: test
  rationale: Nothing says so.
"""


_SET: dict[str, Printed] = {}


def once(path: Path) -> Printed:
    """The articles stay the same from test to test: each is set once."""
    text = path.read_text(encoding="utf-8")
    if text not in _SET:
        _SET[text] = print_article(path)
    return _SET[text]


@pytest.fixture
def source(make_article: Make, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(check, "print_article", once)
    make_article(FIRST, name="first", scanned="true")
    folder = make_article(SECOND, name="second")
    (folder / "questions" / "first.yaml").write_text(QUESTIONS, encoding="utf-8")
    return folder


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_a_whole_corpus_passes(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check.check(source) == []
    assert main(["--source", str(source)]) == 0
    assert capsys.readouterr().out == "0 refused\n"


REFUSED = [
    ("first#finding, ", "first#nowhere, ", "one-1: field 'gold': article 'first' has no anchor 'nowhere'"),
    ("first#finding, ", "third#finding, ", "one-1: field 'gold': there is no article 'third'"),
    ("tempting: [second#table-dose]\n  rationale: Two", "tempting: [second#x]\n  rationale: Two", "field 'tempting'"),
    ("hops: 2", "hops: 1", "one-1: field 'hops': is 1, but its anchors lie on 2 pages"),
    ("support: [without delay, ", "support: [with delay, ", "'with delay' is not printed on first#p1"),
    ("support: [without delay, ", "support: [stopped after 14 days, ", "it is on page 3"),
    ('without delay, "2,150 mg"]', "without delay, 150 mg]", "'150 mg' is not printed on second#p1"),
    ('[without delay, "2,150 mg"]', "[without delay]", "field 'support': 1 strings for 2 gold anchors"),
    ("support: [Ratio of 4.5]", "support: [Ratio of 4]", "'Ratio of 4' is not printed on first#p1"),
    ("  support: [Ratio of 4.5]\n", "", "one-2, field 'support': is missing"),
    ("bridge: vexalomab", "bridge: durvitinib", "'durvitinib' is not printed on first#p1"),
    ("with this finding?", "on vexalomab?", "field 'bridge': 'vexalomab' stands in question"),
    ('C: "30 minutes"', 'C: "Vexalomab"', "field 'bridge': 'vexalomab' stands in option C"),
    ("  bridge: vexalomab\n", "", "one-1, field 'bridge': is missing"),
    (
        "  split: dev\n",
        "  split: dev\n  bridge: first\n",
        "one-2, field 'bridge': is given, but there is one gold page",
    ),
    (", C: A length of time.", "", "field 'distractors': no reason why C is wrong"),
    ("{A: A number", "{B: Wrong., A: A number", "field 'distractors': 'B' is no wrong option"),
    ("difficulty: hard", "difficulty: easy", "one-1, field 'difficulty': easy is for look-ups"),
    ("  difficulty: medium\n", "", "one-2, field 'difficulty': is missing"),
    ("  split: dev\n", "", "one-2, field 'split': is missing"),
    ("  rationale: One page.\n", "", "one-2, field 'rationale': is missing"),
    ("  tempting: [second#table-dose]\n  difficulty", "  difficulty", "one-3, field 'tempting': is missing"),
    (
        "  unanswerable:",
        "  gold: [first#finding]\n  unanswerable:",
        "question one-3, field 'gold': the question is unan",
    ),
    ("  unanswerable:", "  answer: B\n  unanswerable:", "question one-3, field 'answer': the question is unanswerable"),
    ('{A: "14", B: "Ratio of 4.5"}', '{A: "Ratio of 4.5"}', "question one-2: field 'options'"),
    ("  answer: B\n", "  answer: C\n", "question one-2, field 'answer': 'C' is not among the options"),
    ("  answer: A\n", "", "question one-1: field 'answer' is missing"),
    (
        "Which ratio does the first box show?",
        "how much is given to somebody, with this finding",
        "the same as first.yaml",
    ),
    ("id: one-2", "id: one-1", "question one-1, field 'id': already used in first.yaml"),
]


@pytest.mark.parametrize(("old", "new", "said"), REFUSED, ids=[said[:60] for _, _, said in REFUSED])
def test_what_is_refused(source: Path, old: str, new: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    edit(source / "questions" / "first.yaml", old, new)
    assert main(["--source", str(source)]) == 2
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("refused: first.yaml")]
    assert any(said in line for line in lines), lines


def test_a_sentence_of_the_page_with_the_answer_beside_it_is_a_look_up(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = source / "questions" / "first.yaml"
    edit(path, "Which ratio does the first box show?", "What is stopped after a patient has been well for a whole day?")
    edit(path, 'B: "Ratio of 4.5"', 'B: "30 Minutes"')
    edit(
        path,
        "gold: [first#fig-hidden]\n  support: [Ratio of 4.5]",
        "gold: [second#table-dose]\n  support: [30 minutes]",
    )
    assert main(["--source", str(source)]) == 2
    assert "'patient has been well for a' and the right option both stand on second#p1" in capsys.readouterr().out
    edit(path, "difficulty: medium", "difficulty: easy")
    assert main(["--source", str(source)]) == 0


@pytest.mark.slow
def test_the_corpus_itself_passes() -> None:
    faults = check.check(check.HERE)
    assert not faults, check.report(faults)


def test_a_file_without_the_canary_and_an_article_that_cannot_be_set_are_named(source: Path) -> None:
    edit(source / "questions" / "first.yaml", f"# {CANARY}\n", "")
    (source / "articles" / "broken.md").write_text("no front matter", encoding="utf-8")
    (source / "questions" / "other.yaml").write_bytes(b"- id: \xff")
    where = {fault.where: str(fault) for fault in check.check(source)}
    assert "canary" in where["first.yaml"] and "front matter is missing" in where["broken.md"]
    assert "not UTF-8" in where["other.yaml"]


def many(right: str, *, letters: str = "ABCD", answer: Callable[[int], str]) -> str:
    entries = []
    for number in range(20):
        letter = answer(number)
        options = {name: right if name == letter else "vein" for name in letters}
        entries.append(
            f"- {{id: q-{number}, question: Number {number} of them, options: {options}, answer: {letter}, "
            f"gold: [second#table-dose], support: [vein], evidence: table, hops: 1, difficulty: medium, split: dev, "
            f"distractors: {dict.fromkeys(set(letters) - {letter}, 'no')}, rationale: So.}}\n"
        )
    return f"# {CANARY}\n" + "".join(entries)


def test_answers_are_spread_over_the_letters(source: Path) -> None:
    path = source / "questions" / "second.yaml"
    path.write_text(many("oral", answer=lambda n: "A" if n < 6 else "BCD"[n % 3]), encoding="utf-8")
    (source / "questions" / "first.yaml").unlink()
    assert check.check(source) == []
    path.write_text(many("oral", answer=lambda n: "A" if n < 8 else "BCD"[n % 3]), encoding="utf-8")
    assert [str(fault) for fault in check.check(source)] == [
        "refused: all questions: 8 of 20 answers are A; at most 35% may be",
        "refused: split dev: 8 of 20 answers are A; at most 35% may be",
    ]


def test_the_right_option_is_not_the_longest_too_often(source: Path) -> None:
    path = source / "questions" / "second.yaml"
    (source / "questions" / "first.yaml").unlink()
    path.write_text(many("by mouth", answer=lambda n: "ABCD"[n % 4]), encoding="utf-8")
    assert "refused: all questions: in 20 of 20 the right option is the longest; at most 35% may be" in map(
        str, check.check(source)
    )


def test_refusals_come_first_and_are_counted() -> None:
    assert check.report([Fault("a", "b"), Fault("c", "d")]) == "refused: a: b\nrefused: c: d\n2 refused"


def test_words_of_scans_and_of_raster_figures_are_known_without_reading_pictures(source: Path) -> None:
    printed = print_article(source / "articles" / "first.md")
    assert printed.anchors == {"finding": 1, "fig-hidden": 1, "late": 3}
    assert holds(printed.pages[1], "Zebrawood") and holds(printed.pages[1], "Ratio of 4.5")
    # The mark of a footnote is no part of the word that it hangs on, and the note is on the page.
    assert holds(printed.pages[1], "needs vexalomab without delay") and holds(printed.pages[1], "Given by vein.")


NUMBERS = st.integers(0, 9999).map(str) | st.floats(0, 99, allow_nan=False).map(lambda value: f"{value:.1f}")


@given(NUMBERS, NUMBERS)
def test_a_number_is_found_only_as_a_whole(printed: str, wanted: str) -> None:
    assert holds(normal(f"give {printed} mg"), wanted) == (printed == wanted)


@given(st.lists(st.sampled_from(["alpha", "beta/gamma", "delta-epsilon", "5", "7.5", "mg."]), min_size=1, max_size=8))
def test_line_breaks_do_not_matter(words: list[str]) -> None:
    broken = "\n".join(words).replace("-", "-\n").replace("/", "/ ")
    assert holds(normal(f"x {broken} y"), " ".join(words))


def test_the_command_is_the_same_check(source: Path) -> None:
    edit(source / "questions" / "first.yaml", "hops: 2", "hops: 1")
    command = [sys.executable, "-m", "medvrag_core.cli", "data", "check", "--source", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "question one-1: field 'hops': is 1" in done.stdout and "1 refused" in done.stdout
