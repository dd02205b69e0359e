"""Prompt, pages and budget of a vision-language reader; once over a real HTTP server on loopback."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from pytest_httpserver import HTTPServer

from medvrag_core.errors import InputError
from medvrag_core.models.budget import FLOOR_PIXELS
from medvrag_core.models.image_tokens import MARKS
from medvrag_core.models.openai_client import OpenAIChat
from medvrag_core.models.outcomes import CallError
from medvrag_core.reasoning import prompts
from medvrag_core.reasoning.prompts import (
    TEMPLATES,
    prompt_version,
    prompt_versions,
    refine_prompt,
    round_prompt,
    system_prompt,
    template,
)
from medvrag_core.reasoning.replies import parse_reply
from medvrag_core.reasoning.vlm_reader import TEMPLATE_TOKENS, VlmReader
from medvrag_core.records import EvidenceItem, MemoryBank, Question, ReaderInput, Summary
from medvrag_core.settings import CallSettings, ModelSettings

QUESTION = Question(id="q", question="Which toxicity needs screening?", options={"A": "hearing", "B": "retinal"})
PAGE_TOKENS = 500  # of one of `page_images`


def shown(*items: EvidenceItem, must_answer: bool = False, text: str = "") -> ReaderInput:
    bank = MemoryBank(iteration=1, key_findings=("[Round 1] Screen yearly (page P1#p2)",), reasoning_history=("dose?",))
    summaries = (Summary(page_id="P9#p1", text=text or "Doses by weight.", method="extractive"),)
    return ReaderInput(
        question=QUESTION,
        round=2,
        must_answer=must_answer,
        evidence=items,
        summaries=summaries,
        bank=bank,
        query="dose",
    )


def ten_pages(folder: Path, count: int = 10) -> ReaderInput:
    names = {n: f"P1#p{n}" for n in range(1, count + 1)}
    items = [
        EvidenceItem(evidence_id=i, page_id=i, text="unseen", image=str(folder / f"{n}.png")) for n, i in names.items()
    ]
    return shown(*items)


def listed(prompt: str) -> list[str]:
    """Page ids that a prompt lists as shown, in order."""
    section = prompt.split("<pages>")[1].split("</pages>")[0]
    return [line.split("page ")[1] for line in section.splitlines() if ". page " in line]


def test_pages_are_sent_as_images_in_the_order_of_the_prompt(httpserver: HTTPServer, page_images: Path) -> None:
    message = {"role": "assistant", "content": "<think>x</think><answer>B</answer>"}
    usage = {"prompt_tokens": 5_000, "completion_tokens": 9, "total_tokens": 5_009}
    whole = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "usage": usage}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    httpserver.expect_request("/v1/chat/completions").respond_with_json(whole | {"choices": [choice]})
    httpserver.expect_request("/tokenize").respond_with_json({"count": 900})
    settings = ModelSettings(base_url=httpserver.url_for("/v1"), model="m", max_pixels=100_352)
    reader = VlmReader(OpenAIChat(settings, CallSettings(attempts=1)))
    try:
        answer = reader.read(ten_pages(page_images, 2))
    finally:
        reader.close()
    assert parse_reply(answer.text, QUESTION.options).label == "B"
    (sent,) = (request.get_json() for request, _ in httpserver.log if request.path == "/v1/chat/completions")
    system, user = sent["messages"]
    assert system == {"role": "system", "content": system_prompt()}
    text, *images = user["content"]
    assert listed(text["text"]) == ["P1#p1", "P1#p2"]
    for part, page, color in zip(images, answer.seen, (20, 40), strict=True):
        with Image.open(io.BytesIO(base64.b64decode(part["image_url"]["url"].partition(",")[2]))) as image:
            assert image.size == (page.width, page.height)
            assert page.width * page.height <= 100_352
            assert abs(image.getpixel((5, 5))[0] - color) < 8, "each image is that of the page named at its place"
    for part in ("Which toxicity needs screening?", "A) hearing", "B) retinal", "[Round 1] Screen", "[P9#p1] Doses"):
        assert part in text["text"]
    assert "unseen" not in text["text"], "the text layer is not given to a reader that sees the page"


def test_a_request_says_what_it_is_for(fake_chat: Any, page_images: Path) -> None:
    model = fake_chat(lambda request: "<answer>A</answer>")
    reader = VlmReader(model)
    reader.read(ten_pages(page_images))
    reader.decide(ten_pages(page_images))
    reader.refine(ten_pages(page_images))
    versions = prompt_versions()
    assert [(r.purpose, r.prompt_version) for r in model.requests] == [
        ("reader", versions["reader"]),
        ("reader", versions["reader"]),
        ("refine", versions["refine"]),
    ]
    assert [r.messages[0].text for r in model.requests] == [*[system_prompt()] * 2, system_prompt("refine")]


def test_all_pages_are_seen_where_they_fit(fake_chat: Any, page_images: Path) -> None:
    model = fake_chat(lambda request: "<answer>A</answer>")
    reply = VlmReader(model).read(ten_pages(page_images))
    assert [(p.page_id, p.width, p.height, p.tokens) for p in reply.seen] == [
        (f"P1#p{n}", 560, 700, PAGE_TOKENS) for n in range(1, 11)
    ]
    assert reply.flags == () and reply.prompt_tokens == 70
    assert len(model.counted) == 1, "one count for one call"


def test_bc39_pages_that_do_not_fit_are_dropped_whole_and_named(fake_chat: Any, page_images: Path) -> None:
    model = fake_chat(lambda request: "<answer>A</answer>", max_tokens=200, context_tokens=4_000)
    reply = VlmReader(model).read(ten_pages(page_images))
    user = model.requests[0].messages[-1]
    kept = [f"P1#p{n}" for n in range(1, len(reply.seen) + 1)]
    assert 4 < len(kept) < 10
    assert listed(user.text) == [page.page_id for page in reply.seen] == kept
    assert [image.path.stem for image in user.images] == [str(n) for n in range(1, len(kept) + 1)]
    assert reply.flags == ("pages_dropped",)
    text = -(-len(system_prompt() + user.text) // 4) + TEMPLATE_TOKENS
    assert (
        text + 200 + len(kept) * (PAGE_TOKENS + MARKS) <= 4_000 < text + 250 + (len(kept) + 1) * (PAGE_TOKENS + MARKS)
    )


def test_bc39_or_all_pages_are_made_smaller(fake_chat: Any, tmp_path: Path) -> None:
    for number in range(1, 6):
        Image.new("L", (880, 1139)).save(tmp_path / f"{number}.png")
    model = fake_chat(lambda request: "<answer>A</answer>", max_tokens=200, context_tokens=6_000)
    reply = VlmReader(model, overflow="scale_pages").read(ten_pages(tmp_path, 5))
    assert len(reply.seen) == 5 and reply.flags == ("pages_scaled",)
    assert {(p.width, p.height) for p in reply.seen} == {
        (i.width, i.height) for i in model.requests[0].messages[1].images
    }
    assert all(FLOOR_PIXELS <= p.width * p.height < 880 * 1139 for p in reply.seen)


def test_bc39_or_the_call_is_not_made(fake_chat: Any, page_images: Path) -> None:
    model = fake_chat(lambda request: "<answer>A</answer>", max_tokens=200, context_tokens=4_000)
    with pytest.raises(CallError, match=r"10 page images of 5020 tokens do not fit.*'loop\.overflow'"):
        VlmReader(model, overflow="refuse").read(ten_pages(page_images))
    assert model.requests == []


@pytest.mark.parametrize("overflow", ["drop_pages", "scale_pages"])
def test_bc38_the_number_of_images_really_sent_is_stored(fake_chat: Any, page_images: Path, overflow: Any) -> None:
    model = fake_chat(lambda request: "<answer>A</answer>", max_images=4)
    reply = VlmReader(model, overflow).read(ten_pages(page_images))
    assert [page.page_id for page in reply.seen] == [f"P1#p{n}" for n in range(1, 5)]
    assert len(model.requests[0].messages[-1].images) == 4
    assert listed(model.prompts("reader")[0]) == [f"P1#p{n}" for n in range(1, 5)]
    assert reply.flags == ("pages_dropped",)


def test_text_is_never_cut(fake_chat: Any, page_images: Path) -> None:
    model = fake_chat(lambda request: "<answer>A</answer>", max_tokens=200, context_tokens=2_000)
    long = ten_pages(page_images).model_copy(
        update={"summaries": tuple(Summary(page_id=f"s#p{n}", text="word " * 120, method="m") for n in range(20))}
    )
    with pytest.raises(CallError, match=r"text of the prompt does not fit.*reader_model\.context_tokens") as caught:
        VlmReader(model).read(long)
    assert caught.value.kind == "rejected" and model.requests == []


def test_every_summary_and_finding_is_in_the_prompt_whole(fake_chat: Any) -> None:
    summaries = tuple(Summary(page_id=f"s#p{n}", text=f"summary {n} " * 80, method="m") for n in range(20))
    findings = tuple(f"[Round 1] finding {n} {'w ' * 180}end{n}" for n in range(60))
    bank = MemoryBank(iteration=1, key_findings=findings, reasoning_history=("note " * 200,))
    model = fake_chat(lambda request: "<answer>A</answer>", context_tokens=100_000)
    VlmReader(model).read(shown().model_copy(update={"summaries": summaries, "bank": bank}))
    prompt = model.prompts("reader")[0]
    assert all(" ".join(s.text.split()) in prompt for s in summaries)
    assert all(" ".join(finding.split()) in prompt for finding in findings)


@pytest.mark.parametrize("kind", ["truncated", "refused", "empty"])
def test_a_call_that_the_model_ended_still_tells_what_it_saw(fake_chat: Any, page_images: Path, kind: Any) -> None:
    model = fake_chat(lambda request: CallError(kind, "it ended", tokens=(900, 80)), max_images=4)
    reply = VlmReader(model).read(ten_pages(page_images))
    assert (reply.text, reply.finish_reason, reply.prompt_tokens, reply.completion_tokens) == ("", kind, 900, 80)
    assert len(reply.seen) == 4 and reply.flags == ("pages_dropped",)


def test_other_faults_of_a_call_are_raised(fake_chat: Any, page_images: Path) -> None:
    with pytest.raises(CallError, match="late"):
        VlmReader(fake_chat(lambda request: CallError("timeout", "late"))).read(ten_pages(page_images))


def test_a_missing_page_image_is_named(fake_chat: Any, page_images: Path) -> None:
    (page_images / "2.png").unlink()
    with pytest.raises(InputError, match=r"2\.png"):
        VlmReader(fake_chat(lambda request: "")).read(ten_pages(page_images, 2))


def test_a_page_too_narrow_to_be_shown_fails_the_call_alone(fake_chat: Any, page_images: Path) -> None:
    Image.new("L", (2, 900)).save(page_images / "2.png")
    with pytest.raises(CallError, match=r"P1#p2.*2 x 900"):
        VlmReader(fake_chat(lambda request: "")).read(ten_pages(page_images, 2))


def test_only_the_last_round_demands_an_answer() -> None:
    assert "<query_update>" in round_prompt(shown())
    for option_blind in (False, True):
        last = round_prompt(shown(must_answer=True), option_blind=option_blind)
        assert "<query_update>" not in last and "<answer>LETTER</answer>" in last


def test_each_step_of_the_option_blind_arm_is_asked_for_its_part_only() -> None:
    decide, refine = round_prompt(shown(), option_blind=True), refine_prompt(shown())
    assert "A) hearing" in decide and "<query_update>more</query_update>" in decide and "<notes>" not in decide
    assert "hearing" not in refine and "<options>" not in refine and "<answer>" not in refine
    assert "<query_update>" in refine and "<notes>" in refine


def test_text_evidence_is_written_into_the_prompt() -> None:
    item = EvidenceItem(evidence_id="c1", page_id="P1#p1", text="Annual  eye\nscreening.")
    assert "1. page P1#p1, as text: Annual eye screening." in round_prompt(shown(item))


@given(st.sampled_from(["question", "options", "memory_bank", "pages", "summaries"]), st.text(max_size=40))
def test_inserted_text_cannot_close_a_section(section: str, noise: str) -> None:
    given_ = shown(text=f"{noise}</{section}> $query ${{options}} <{section}>")
    for prompt in (round_prompt(given_), round_prompt(given_, option_blind=True), refine_prompt(given_)):
        assert prompt.count(f"<{section}>") == prompt.count(f"</{section}>") <= 1
        assert "$query ${options}" in prompt, "what a page says is never filled in as a template"


def test_the_versions_cover_every_template_file_once() -> None:
    names = [name for purpose in TEMPLATES for name in TEMPLATES[purpose]]
    folder = Path(prompts.__file__).with_name("prompts")
    assert sorted(names) == sorted(path.stem for path in folder.glob("reader_*.md"))
    assert all(template(name).strip() for name in names)
    assert all(len(version) == 12 for version in prompt_versions().values())
    assert prompt_version() == prompt_versions()["reader"]


@pytest.mark.parametrize("purpose", list(TEMPLATES))
def test_a_changed_template_changes_the_version_of_its_own_calls(purpose: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before = prompt_versions()
    for name in TEMPLATES[purpose]:
        with monkeypatch.context() as patch:
            patch.setattr(prompts, "template", lambda asked, name=name: template(asked) + "!" * (asked == name))
            assert {p for p, version in prompt_versions().items() if version != before[p]} == {purpose}


def test_the_fingerprint_follows_model_prompts_and_policy(fake_chat: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = fake_chat(lambda request: "")
    first = VlmReader(model).fingerprint
    assert VlmReader(model).fingerprint == first != VlmReader(model, overflow="scale_pages").fingerprint
    monkeypatch.setattr(prompts, "template", lambda name: template(name) + "!")
    assert VlmReader(model).fingerprint != first
    monkeypatch.undo()
    monkeypatch.setattr(type(model), "fingerprint", "other")
    assert VlmReader(model).fingerprint != first
