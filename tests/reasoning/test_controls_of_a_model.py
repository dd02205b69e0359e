"""What a vision-language model is sent under the controls: the same prompt, with one thing changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from paper_rounds import paper_rounds

from medvrag_core.reasoning.vlm_reader import VlmReader
from medvrag_core.records import Question, Round
from medvrag_core.settings import LoopSettings
from medvrag_core.systems.page_controls import BlankPages

QUESTION = Question(id="q", question="Which test?", options={"A": "Fundoscopy", "B": "Spirometry"}, answer="A")


@pytest.fixture
def ask(pages: Any, keep_all: Any, fake_chat: Any, page_images: Path) -> Any:
    def go(show: Any = None, text: bool = False, **values: object) -> tuple[str, Round]:
        """The prompt of a single round, and the round."""
        model = fake_chat(lambda request: "<answer>A</answer>")
        reader = VlmReader(model, pages="text" if text else "images")
        loop = LoopSettings.model_validate({"pages_shown": 2, "summaries_shown": 3, "max_rounds": 1} | values)
        summaries = {f"d#p{n}": f"summary {n}" for n in range(1, 13)}
        source = pages(images=page_images, summaries=summaries)
        more = () if show is None else (show,)
        (done,) = paper_rounds(QUESTION, source, keep_all(), reader, loop, *more)
        (request,) = model.requests
        assert len(request.messages[-1].images) == sum(page.width > 0 for page in done.reply.seen)
        return request.messages[-1].text, done

    return go


def test_blank_pages_are_sent_in_number_and_size_of_the_pages_found(ask: Any, tmp_path: Path) -> None:
    _, plain = ask()
    prompt, blank = ask(BlankPages(tmp_path / "made"))
    assert [page.page_id for page in blank.reply.seen] == ["blank#p1", "blank#p2"] == list(blank.shown)
    assert [(p.width, p.height, p.tokens) for p in blank.reply.seen] == [
        (p.width, p.height, p.tokens) for p in plain.reply.seen
    ]
    assert "d#p" not in prompt and "summary 1" not in prompt


def test_summaries_alone_come_without_an_image(ask: Any) -> None:
    prompt, done = ask(pages_shown=0)
    assert done.reply.seen == () and done.shown == ()
    assert all(f"summary {n}" in prompt for n in (1, 2, 3))


def test_pages_alone_come_without_a_summary(ask: Any) -> None:
    prompt, done = ask(summaries_shown=0)
    assert (
        len(done.reply.seen) == 2 and "summary" not in prompt.partition("<summaries>")[2].partition("</summaries>")[0]
    )


def test_the_text_of_the_same_pages_comes_in_the_place_of_their_images(ask: Any) -> None:
    _, images = ask()
    prompt, text = ask(text=True)
    assert text.shown == images.shown
    assert all(f"text of {page}" in prompt for page in text.shown)
    assert all(page.width == 0 for page in text.reply.seen)
