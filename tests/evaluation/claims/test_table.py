"""No claim of the paper lacks a row, and no row states what is not so."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
import typer.main
import yaml

from medvrag_core.cli.app import app
from medvrag_core.errors import InputError
from medvrag_core.evaluation.audit.paper import load_paper
from medvrag_core.evaluation.claims.checks import ClaimsReport, below_scale, check_claims, measured_value
from medvrag_core.evaluation.claims.table import STATUSES, Claim, Claims, load_claims
from medvrag_core.evaluation.cost.bill import cost_report
from medvrag_core.evaluation.cost.latency import STAGE_1, latency_report
from medvrag_core.evaluation.retrieval.exact_overlap import ExactOverlap, SearchedWay, search_ways
from medvrag_core.evaluation.retrieval.report import stage_report
from medvrag_core.evaluation.statistics.contrasts import compare_arms, steps
from medvrag_core.evaluation.stopping.rounds import rounds_report
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import StageTime, Trace
from medvrag_core.runs.stage import begin_stage
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import trace_path
from medvrag_core.views.publishing.staging import chapters_of

REPO = Path(__file__).resolve().parents[3]
MakeTrace = Callable[..., Trace]
ARMS = ("no_rag", "text_rag", "page_single", "iterative_no_memory", "medvrag")
PLACES = re.compile(r"Abstract|Table [12]|Figure [123]|Section \d(\.\d)?")


@pytest.fixture(scope="module")
def claims() -> Claims:
    return load_claims()


# --- no claim lacks a row ---------------------------------------------------------------

# Digits that are part of a name or a reference: citations, sections, models, indices of symbols.
NO_NUMBERS = (
    r"https?://\S+",
    r"\([^()]*\b(?:19|20)\d\d[a-z]?(?:;[^()]*)?\)",
    r"\b(?:Sections?|Tables?|Figures?|Appendi(?:x|ces)|Algorithm)\s+[A-Z\d.]+(?:\s+and\s+[A-Z\d.]+)*",
    r"\b(?:Rounds?|Stage)[ -]\d",
    r"\(\d\)",
    r"Med-PaLM 2",
    r"_\{\\?\w+\}|_\d",
    r"\b[A-Za-z][A-Za-z+]*[-.]?\w*\d[\w.-]*",
)
MARKUP = (
    (r"\\sim|∼", " ~"), (r"\\times|\\to", " "), (r"\\%", "%"), (r"\{([,=+])\}", r"\1"), (r"\btop-", "top "),
    (r"\$K", "K"), (r"†", " "),
)  # fmt: skip
NUMBER = re.compile(r"(?<![\w.])(\d+(?:,\d{3})*(?:\.\d+)?)\s?(K\b)?")


def numbers(text: str) -> list[float]:
    for pattern, instead in MARKUP:
        text = re.sub(pattern, instead, text)
    for pattern in NO_NUMBERS:
        text = re.sub(pattern, " ", text)
    return [float(digits.replace(",", "")) * (1_000 if kilo else 1) for digits, kilo in NUMBER.findall(text)]


def lines_by_place(paper: str) -> dict[str, list[str]]:
    """The paper's lines by section or table, from the abstract to the conclusion."""
    body = paper.split("\n## Abstract\n", 1)[1].split("\n## Data and Code", 1)[0]
    found: dict[str, list[str]] = {}
    section, table = "Abstract", ""
    for line in body.splitlines():
        if heading := re.match(r"#{2,3} (\d(?:\.\d)?) ", line):
            section, table = f"Section {heading[1]}", ""
            continue
        if caption := re.match(r"Table (\d):", line):
            table = f"Table {caption[1]}"
        elif line and not line.startswith("|"):
            table = ""
        found.setdefault(table or section, []).append(line)
    return found


@pytest.fixture(scope="module")
def paper() -> dict[str, list[str]]:
    path = REPO.parent / "shared" / "papers" / "medvrag.md"
    if not path.is_file():
        pytest.skip(f"the text of the paper is not found at {path}")
    return lines_by_place(path.read_text(encoding="utf-8"))


def covered(claims: Claims, place: str) -> set[float]:
    rows = {n for row in claims.rows if place in (row.where, *row.also) for n in row.paper.values()}
    return rows | {n for left in claims.ignored if left.where == place for n in left.numbers}


def test_numbers_are_told_from_names() -> None:
    text = (
        "Qwen2.5-VL-32B (Bai et al., 2025) at $\\sim$350K pages, top-2,000 of $N_{1}{=}2{,}000$, GPT-4, Round 2, 1.5s"
    )
    assert numbers(text) == [350_000, 2_000, 2_000, 1.5]
    assert numbers("$+1.0$ on Table 1 (2 of Section 4.6), 240$K tokens, 7.6/(7.6{+}2.5)") == [
        1,
        2,
        240_000,
        7.6,
        7.6,
        2.5,
    ]


def test_every_number_of_the_text_has_a_row(claims: Claims, paper: dict[str, list[str]]) -> None:
    found = {place: set(numbers("\n".join(lines))) for place, lines in paper.items()}
    assert sum(map(len, found.values())) > 150, "the text of the paper was not understood"
    lacking = {place: sorted(seen - covered(claims, place)) for place, seen in found.items()}
    assert not {place: missing for place, missing in lacking.items() if missing}


def test_no_row_claims_a_number_for_a_place_where_it_does_not_stand(
    claims: Claims, paper: dict[str, list[str]]
) -> None:
    for row in claims.rows:
        if not row.where.startswith("Figure"):
            own = set(numbers("\n".join(paper[row.where])))
            assert set(row.paper.values()) <= own, f"{row.id}: not all in {row.where}"
        for place in row.also:
            assert set(row.paper.values()) & set(numbers("\n".join(paper[place]))), f"{row.id}: none in {place}"
    for left in claims.ignored:
        assert set(left.numbers) <= set(numbers("\n".join(paper[left.where]))) and left.reason


def test_every_row_of_the_tables_is_one_claim_with_all_its_cells(claims: Claims, paper: dict[str, list[str]]) -> None:
    for place in ("Table 1", "Table 2"):
        rows = [line.strip("|").split("|") for line in paper[place] if line.startswith("|")]
        cells = [[n for cell in row[1:] for n in numbers(cell)] for row in rows]
        printed = [row for row in cells if row]
        assert len(printed) == {"Table 1": 16, "Table 2": 7}[place]
        stated = [list(claim.paper.values()) for claim in claims.rows if claim.where == place]
        assert [row for row in printed if row not in stated] == []


def test_every_table_and_figure_has_a_row_and_places_exist(claims: Claims) -> None:
    places = {place for row in claims.rows for place in (row.where, *row.also)}
    assert {"Table 1", "Table 2", "Figure 1", "Figure 2", "Figure 3"} <= places
    assert [place for place in places if not PLACES.fullmatch(place)] == []


def test_every_number_that_the_audit_reads_has_a_row(claims: Claims) -> None:
    """Without the paper at hand: the audit's own copy of the printed numbers."""
    paper = load_paper()
    stated = {n for row in claims.rows for n in row.paper.values()} | {n for i in claims.ignored for n in i.numbers}
    read = {name: float(paper.number(name).value) for name in paper.numbers}
    assert {name: value for name, value in read.items() if value not in stated} == {}
    for row in paper.table.rows:
        texts = [*row.cells.values(), *([row.average] if row.average else [])]
        assert any([float(text.strip("~")) for text in texts] == list(claim.paper.values()) for claim in claims.rows), (
            row.arm
        )


# --- no status lies ---------------------------------------------------------------------


def test_chapters_stand_in_the_table_of_contents_and_commands_in_the_command_line(claims: Claims) -> None:
    chapters = chapters_of(REPO / "book")
    root = typer.main.get_command(app)
    for row in claims.rows:
        assert row.chapter in chapters, row.id
        name, *words = row.command.split()
        assert name == "medvrag", row.id
        command: Any = root
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        assert command is not root and not hasattr(command, "commands"), f"{row.id}: `{row.command}` is no command"
        options = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("-")} <= options, row.id
        if "--profile" in words:
            load_profile(words[words.index("--profile") + 1])


# A run as the chapters leave it: real reports over made-up traces, so that every path of every claim can be followed.


def write_records(
    root: Path, make_trace: MakeTrace, *, profile: str, pages: int, articles: int, questions: int
) -> Path:
    """Records of all stages that claims point at; ten questions a set stand for the number that is recorded."""
    settings = load_profile(profile)
    sizes = dict.fromkeys(("medqa", "medmcqa", "pubmedqa", "mmlu"), 10)
    arms: dict[str, list[Trace]] = {}
    for place, system in enumerate(ARMS):
        traces = []
        for name, size in sizes.items():
            for number in range(size):
                rounds = [(("p",), ("p",), ("p",) * 10)] * (1 + number % 3 if place > 2 else 1)
                label = "A" if number % 10 < 4 + place else "B"
                times = {
                    "encode_query": 0.01,
                    "ann": 0.002,
                    "coarse": 0.004,
                    "exact": 0.02,
                    "filter": 4.0,
                    "read": 12.0,
                }
                trace = make_trace(f"{name}-{number}", label, system=system, rounds=rounds, times=times, seconds=50.0)
                question = trace.question.model_copy(update={"dataset": name, "gold_pages": ("p",)})
                traces.append(trace.model_copy(update={"question": question}))
        arms[system] = traces
    evaluation = settings.evaluation.model_copy(update={"bootstrap_samples": 100})
    contrasts = compare_arms(arms, steps(arms), evaluation, family="sequence")
    case = make_trace("hcq-01", rounds=[((), (), ("p",) * 10)])
    path = trace_path(Workspace(root), "medvrag", "hcq-01")
    path.parent.mkdir(parents=True)
    path.write_text(case.to_json(), encoding="utf-8")

    def dumped(rows: Any) -> list[Any]:
        return [row.model_dump(mode="json") for row in rows]

    steps_of = {"exact": (0.3,), "fast": (0.03, 0.02), "paper": (0.002, 0.004, 0.02)}
    overlap = ExactOverlap(
        queries=questions,
        pages=pages,
        backward_weight=1.0,
        searched=tuple(
            SearchedWay(
                **way.model_dump(),
                own=way in search_ways(settings.index),
                whole=False,
                seconds=sum(steps_of[way.mode]),
                steps=tuple(
                    StageTime(step=step, seconds=seconds)
                    for step, seconds in zip(STAGE_1[-len(steps_of[way.mode]) :], steps_of[way.mode], strict=True)
                ),
                rows=(),
            )
            for way in search_ways(settings.index, rescores=(10,), shortlists=(10,), ann_neighbors=(5,))
        ),
    )
    taxonomy = [{"error_class": c, "share": 0.2} for c in ("retrieval_miss", "filter_miss", "misread", "round_drift")]
    metrics: dict[str, dict[str, Any]] = {
        "corpus_build": {"pages": pages, "articles": articles},
        "indexing": {"vectors_per_page": 103.0, "dim": 128, "overlap": overlap.model_dump(mode="json")},
        "filter": {"stages": stage_report(arms["page_single"], settings).model_dump(mode="json")},
        "reasoning_loop": {"n": questions},
        "ablations": {"contrasts": dumped(contrasts)},
        "latency": {
            "rows": dumped(latency_report(arms["medvrag"])),
            "cost": {"medvrag": cost_report(arms["medvrag"]).model_dump(mode="json")},
            "accuracy_by_rounds": dumped(rounds_report(arms["medvrag"])),
        },
        "error_analysis": {"taxonomy": {"rows": taxonomy}},
    }
    for stage, values in metrics.items():
        draft = begin_stage(root, stage, settings)
        draft.measure(**values)
        draft.finish()
    return root


@pytest.fixture(scope="module")
def small_run(tmp_path_factory: pytest.TempPathFactory, make_trace: MakeTrace) -> Path:
    root = tmp_path_factory.mktemp("small") / "demo"
    return write_records(root, make_trace, profile="cpu", pages=52, articles=13, questions=40)


@pytest.fixture(scope="module")
def large_run(tmp_path_factory: pytest.TempPathFactory, make_trace: MakeTrace) -> Path:
    """What a run of the paper's scale would leave; its numbers are made up."""
    root = tmp_path_factory.mktemp("large") / "a100"
    return write_records(root, make_trace, profile="a100", pages=350_000, articles=18_000, questions=7_045)


def problems(report: ClaimsReport) -> dict[str, tuple[str, ...]]:
    return {check.claim.id: check.problems for check in report.checks if check.problems}


def test_every_row_is_true_of_a_run_on_the_demo_corpus(claims: Claims, small_run: Path) -> None:
    report = check_claims(claims, small_run)
    assert problems(report) == {}
    assert report.true and {check.status for check in report.checks} == {"scaled down", "audited", "not run"}
    assert all(check.values.keys() == check.claim.measured.keys() for check in report.checks)
    assert "encoder.name is 'embedded', not 'colqwen2.5'" in report.below_scale


def test_values_are_those_of_the_records(claims: Claims, small_run: Path) -> None:
    """Read once more, in plain Python."""
    values = {check.claim.id: check.values for check in check_claims(claims, small_run).checks}
    records = {p.stem: json.loads(p.read_text()) for p in (small_run / "records").glob("*.json")}
    latency = {row["step"]: row for row in records["latency"]["metrics"]["rows"]}
    taken = [values[f"table2-{step}"] for step in STAGE_1]
    assert taken == [{"mean": pytest.approx(ms)} for ms in (2.0, 4.0, 20.0)]
    assert values["table2-read"] == {"mean": latency["read"]["mean"]}
    full = next(c for c in records["ablations"]["metrics"]["contrasts"] if (c["a"], c["b"]) == (ARMS[3], ARMS[4]))
    macro = next(e for e in full["estimates"] if e["name"] == "macro")
    assert values["table1-full"] == {"average": pytest.approx(100 * macro["accuracy_b"])}
    assert values["delta-memory"] == {"average": macro["difference"]}
    assert values["corpus-pages"] == {"pages": 52} and values["case-study"] == {"pages": 10}
    assert values["resolution"] == {"dpi": records["corpus_build"]["settings"]["corpus"]["dpi"]}


def test_only_a_run_of_the_papers_scale_is_compared(claims: Claims, large_run: Path) -> None:
    report = check_claims(claims, large_run)
    assert report.below_scale == ()
    derived = {check.claim.id: check for check in report.checks}
    for check in report.checks:
        if check.claim.measured:
            assert check.values.keys() == check.claim.paper.keys(), check.claim.id
            near = all(abs(check.values[n] - v) <= (check.claim.tolerance or 0) for n, v in check.claim.paper.items())
            assert check.status == ("reproduced" if near else "differs"), check.claim.id
            assert check.problems == (f"stated 'scaled down', the run says '{check.status}'",)
    assert derived["vectors-per-page"].status == "reproduced"
    assert derived["table1-full"].status == "differs"


@pytest.mark.parametrize(
    ("profile", "pages", "questions", "words"),
    [
        ("a100", 350_000, 7_045, []),
        ("a100", 314_999, 7_045, ["314,999 pages, the paper has ~350K"]),
        ("a100", 350_000, 7_044, ["7,044 questions, the paper has 7,045"]),
        ("gpu1", 350_000, 7_045, ["filter_model.model is", "reader_model.model is"]),
        ("cpu", 52, 103, ["encoder.name", "encoder.model", "filter.ranker", "filter_model.model", "reader.name",
                          "reader_model.model", "52 pages", "103 questions"]),
    ],
)  # fmt: skip
def test_the_papers_scale_is_its_models_its_pages_and_its_questions(
    tmp_path: Path, profile: str, pages: int, questions: int, words: list[str]
) -> None:
    for stage, values in (("corpus_build", {"pages": pages}), ("reasoning_loop", {"n": questions})):
        draft = begin_stage(tmp_path, stage, load_profile(profile))
        draft.measure(**values)
        draft.finish()
    told = below_scale(tmp_path)
    assert len(told) == len(words)
    assert all(text.startswith(word) for text, word in zip(told, words, strict=True))


@pytest.mark.parametrize("status", ["reproduced", "differs"])
def test_a_status_that_only_the_papers_scale_allows_is_a_lie_elsewhere(
    claims: Claims, small_run: Path, status: str
) -> None:
    rows = [row.model_copy(update={"status": status}) for row in claims.rows if row.id == "dimensions"]
    report = check_claims(claims.model_copy(update={"rows": tuple(rows)}), small_run)
    assert problems(report) == {"dimensions": (f"stated '{status}', the run says 'scaled down'",)}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"measured": {"pages": "corpus_build: page"}}, "there is no 'page'"),
        ({"measured": {"pages": "corpus: pages"}}, "no finished stage 'corpus'"),
        ({"measured": {"pages": "corpus_build: settings"}}, "is no number"),
        ({"measured": {"pages": "corpus_build: settings.name"}}, "is no number"),
        ({"measured": {"pages": "latency: rows[n=40].mean"}}, "elements fit"),
        ({"measured": {"pages": "latency: rows[step=none].mean"}}, "0 elements fit"),
        ({"measured": {"pages": "trace/medvrag/none: rounds.length"}}, "has no trace of question 'none'"),
        ({"audit": {"more-rounds": "fails"}}, "'more-rounds' of the audit holds, stated: fails"),
        ({"audit": {"no-such-check": "holds"}}, "'no-such-check' of the audit does not exist"),
    ],
)
def test_what_is_not_there_is_told(claims: Claims, small_run: Path, change: dict[str, Any], words: str) -> None:
    rows = tuple(row.model_copy(update=change) for row in claims.rows if row.id == "corpus-pages")
    report = check_claims(claims.model_copy(update={"rows": rows}), small_run)
    assert not report.true and words in problems(report)["corpus-pages"][0]


def test_without_a_run_only_the_grounds_are_checked(claims: Claims) -> None:
    report = check_claims(claims)
    assert report.true and report.run is None
    assert all((check.status is None) == bool(check.claim.measured) for check in report.checks)


def test_paths(small_run: Path) -> None:
    assert measured_value(small_run, "trace/medvrag/hcq-01: rounds.length") == 1
    assert measured_value(small_run, "trace/medvrag/hcq-01: rounds[number=1].shown.length") == 10
    assert measured_value(small_run, "ablations: contrasts.length") == 5
    with pytest.raises(InputError, match="is no 'stage: path'"):
        measured_value(small_run, "pages")


# --- the file ---------------------------------------------------------------------------

ROW = {
    "id": "a", "where": "Table 1", "what": "x", "paper": {"n": 1}, "chapter": "08_audit", "command": "medvrag audit",
    "status": "audited", "audit": {"more-rounds": "holds"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"where": None}, r"field 'rows\.0\.where'"),
        ({"status": "done"}, r"field 'rows\.0\.status'"),
        ({"paper": {}}, r"field 'rows\.0\.paper'"),
        ({"extra": 1}, r"unknown field 'rows\.0\.extra'"),
        ({"audit": {}}, "needs the checks that cover it"),
        ({"audit": {"more-rounds": "passes"}}, "more-rounds"),
        ({"status": "not run"}, "'needs' goes with"),
        ({"needs": "gpu"}, "'needs' goes with"),
        ({"status": "scaled down"}, "needs 'measured'"),
        ({"measured": {"n": "a: b"}}, "goes with no 'measured'"),
        ({"status": "scaled down", "measured": {"n": "a: b"}}, "needs a tolerance"),
        ({"status": "scaled down", "measured": {"m": "a: b"}, "tolerance": 1}, "must name the numbers of 'paper'"),
        ({"status": "scaled down", "measured": {"n": "b"}, "tolerance": 1}, "is no 'stage: path'"),
        ({"status": "scaled down", "measured": {"n": "a: b"}, "tolerance": -1}, "tolerance"),
    ],
)
def test_faulty_claims_are_refused(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    (tmp_path / "claims.yml").write_text(yaml.safe_dump({"rows": [ROW]}))
    assert load_claims(tmp_path / "claims.yml").rows[0] == Claim.model_validate(ROW)
    (tmp_path / "claims.yml").write_text(yaml.safe_dump({"rows": [ROW | change]}))
    with pytest.raises(InputError, match=words) as told:
        load_claims(tmp_path / "claims.yml")
    assert "claims.yml" in str(told.value)


@pytest.mark.parametrize(("text", "words"), [("{", "not valid YAML"), ("- 1", "whole record"), ("rows: 3", "rows")])
def test_a_file_that_is_no_list_of_claims_is_refused(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "claims.yml").write_text(text)
    with pytest.raises(InputError, match=words):
        load_claims(tmp_path / "claims.yml")


def test_a_row_that_stands_twice_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "claims.yml").write_text(yaml.safe_dump({"rows": [ROW, ROW]}))
    with pytest.raises(InputError, match="claim 'a' stands twice"):
        load_claims(tmp_path / "claims.yml")
    with pytest.raises(InputError, match=r"none\.yml: no such file"):
        load_claims(tmp_path / "none.yml")


def test_the_package_works_where_there_is_no_book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="not inside a checkout"):
        load_claims()
    assert set(STATUSES) == {"reproduced", "differs", "scaled down", "audited", "not run"}


# --- the real book ----------------------------------------------------------------------


def shown_numbers(notebook: Path) -> list[float]:
    """Every number in the tables and texts that a chapter displays, figures left out."""
    outputs = [o for cell in nbformat.read(notebook, as_version=4).cells for o in cell.get("outputs", [])]
    text = " ".join(str(output.get("data", {}).get("text/html", "")) for output in outputs)
    text = re.sub(r"<[^>]*>", " ", text)
    return [float(n.replace(",", "")) for n in re.findall(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?", text)]


def is_shown(value: float, unit: str, shown: list[float]) -> bool:
    """With one decimal or three digits; seconds may be shown as milliseconds."""
    forms = [abs(value), 1000 * abs(value)] if unit == "s" else [abs(value)]
    return any(abs(form - number) <= max(0.051, 0.005 * form) for form in forms for number in shown)


@pytest.mark.notebook
def test_the_real_run_bears_out_every_row_and_its_chapters_show_the_values(claims: Claims) -> None:
    run = Path(os.environ.get("MEDVRAG_BOOK_RUN", REPO / "runs" / "demo"))
    if not (run / "records" / "latency.json").is_file():
        pytest.skip(f"no executed run at {run}; run `python3 run.py book` first")
    report = check_claims(claims, run)
    assert problems(report) == {}
    for check in report.checks:
        if not check.values or all(": settings." in path for path in check.claim.measured.values()):
            continue
        shown = shown_numbers(run / "notebooks" / f"{check.claim.chapter}.ipynb")
        for name, value in check.values.items():
            assert is_shown(value, check.claim.unit, shown), (
                f"{check.claim.id}: chapter {check.claim.chapter} shows no {name} of {value}"
            )
