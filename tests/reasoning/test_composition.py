"""A system that does not fit together is refused before it runs, with the stage, the field and the way out."""

from __future__ import annotations

from typing import ClassVar

import pytest

from medvrag_core.errors import CompositionError, ModelError
from medvrag_core.reasoning.composition import Pipeline, RoundState, Stage
from medvrag_core.reasoning.evidence_reader import EvidenceReader
from medvrag_core.reasoning.loop import RoundError, as_round, run_rounds
from medvrag_core.reasoning.source import NoSource
from medvrag_core.reasoning.stages import Filter, KeepBest, Present, PresentNothing, Read, Retrieve
from medvrag_core.records import EvidenceItem, Hit, Question, SearchResult, Step
from medvrag_core.settings import LoopSettings, ReaderSettings

QUESTION = Question(id="q", question="Which dose of amoxicillin?", options={"A": "500 mg", "B": "5 g"}, answer="A")
LOOP = LoopSettings(max_rounds=1)
READ = Read(EvidenceReader(ReaderSettings()), LOOP)


def start() -> RoundState:
    return RoundState(question=QUESTION, number=1, must_answer=True, query=QUESTION.question)


def test_a_stage_without_what_it_needs_is_named_with_what_is_missing_and_who_makes_it(keep_all: type) -> None:
    source = NoSource()
    with pytest.raises(CompositionError, match=r"stage Filter needs 'found'.*put one of .*Retrieve.* before it"):
        Pipeline(Filter(source, keep_all()), Present(source, 1), READ)
    with pytest.raises(CompositionError, match="stage Present needs 'decision'"):
        Pipeline(Retrieve(source), Present(source, 1), READ)
    with pytest.raises(CompositionError, match="stage Filter needs 'found'"):
        Pipeline(Filter(source, keep_all()), Retrieve(source), Present(source, 1), READ)


def test_a_pipeline_must_reply() -> None:
    with pytest.raises(CompositionError, match=r"the end of the pipeline needs 'given'.*put one of .*Read"):
        Pipeline(PresentNothing())


def test_stages_speak_of_fields_that_there_are() -> None:
    class Wrong(PresentNothing):
        needs: ClassVar = ("pages",)

    class Overwrites(PresentNothing):
        makes: ClassVar = ("question", "exhibit")

    with pytest.raises(CompositionError, match=r"Wrong speaks of 'pages'; fields are question, .*, exhibit"):
        Pipeline(Wrong(), READ)
    with pytest.raises(CompositionError, match="Overwrites makes 'question', which is there from the start"):
        Pipeline(Overwrites(), READ)


def test_a_stage_that_breaks_its_word_is_caught_while_it_runs() -> None:
    class Lazy(Stage):
        needs: ClassVar = ()
        makes: ClassVar = ("exhibit", "gaps")

        def run(self, state: RoundState) -> RoundState:
            return PresentNothing().run(state)

    class Meddler(Lazy):
        makes: ClassVar = ("exhibit",)

        def run(self, state: RoundState) -> RoundState:
            return PresentNothing().run(state).made(gaps=("dose",))

    with pytest.raises(CompositionError, match="stage Lazy did not make 'gaps'"):
        Pipeline(Lazy(), READ).run(start())
    with pytest.raises(CompositionError, match="stage Meddler changed 'gaps'; name it in 'makes'"):
        Pipeline(Meddler(), READ).run(start())


def test_stages_of_a_user_s_own_run_between_the_shipped_ones() -> None:
    class Write(Stage):
        needs: ClassVar = ("question", "exhibit")
        makes: ClassVar = ("exhibit",)

        def run(self, state: RoundState) -> RoundState:
            assert state.exhibit is not None
            text = "The usual dose of amoxicillin is 500 mg."
            item = EvidenceItem(evidence_id="note-1", page_id="note-1", text=text, written_by="me")
            exhibit = state.exhibit.model_copy(update={"evidence": (*state.exhibit.evidence, item)})
            return state.made(exhibit=exhibit, steps=[Step(kind="generate", text=text)], flags=["noted"])

    (done,) = run_rounds(QUESTION, Pipeline(PresentNothing(), Write(), READ), LOOP)
    assert done.parsed.label == "A"
    assert done.shown == () and [item.evidence_id for item in done.written] == ["note-1"]
    assert [step.kind for step in done.steps] == ["generate"] and done.flags == ("noted",)
    assert Pipeline(PresentNothing(), Write(), READ).described() == "PresentNothing > Write > Read"


def test_a_round_without_steps_is_written_as_before_there_were_steps() -> None:
    done = as_round(Pipeline(PresentNothing(), READ).run(start()))
    assert not {"steps", "written"} & done.model_dump().keys()
    assert not {"written_by"} & EvidenceItem(evidence_id="a", page_id="a", text="").model_dump().keys()


def test_the_best_are_kept_without_a_filter() -> None:
    hits = tuple(Hit(page_id=f"a#p{n}", score=1.0 / n, rank=n) for n in range(1, 6))
    state = KeepBest(2).run(start().made(found=SearchResult(hits=hits)))
    assert state.decision is not None and state.decision.kept == ("a#p1", "a#p2")


def test_a_model_that_fails_in_any_stage_ends_the_question_with_the_rounds_before() -> None:
    class Fails(PresentNothing):
        def run(self, state: RoundState) -> RoundState:
            raise ModelError("the server is gone")

    with pytest.raises(RoundError, match="the server is gone") as caught:
        run_rounds(QUESTION, Pipeline(Fails(), READ), LOOP)
    assert caught.value.rounds == ()
