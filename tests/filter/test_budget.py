"""Shards by token budget: nothing lost, nothing twice, nothing over the budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.errors import SettingsError
from medvrag_core.filter.base import Candidate
from medvrag_core.filter.budget import SUMMARY_CUT, Budget, shards_in_budget
from medvrag_core.filter.llm_ranker import LlmRanker, ranking_prompt
from medvrag_core.models.outcomes import CallError

Pool = Callable[..., list[Candidate]]
CHAT_TEMPLATE = 64
"""Tokens that must stay free for what the server puts around the prompt."""
SUMMARIES = st.lists(st.text(max_size=60), max_size=40)


def made(summaries: list[str]) -> list[Candidate]:
    return [Candidate(f"p{i}#p1", text, rank=i, score=0.0) for i, text in enumerate(summaries, 1)]


@settings(deadline=None)
@given(SUMMARIES, st.integers(1, 12), st.integers(8, 120), st.integers(0, 3), st.integers(1, 5))
def test_shards_hold_each_candidate_once_in_order_and_within_the_budget(
    summaries: list[str], size: int, room: int, a_number: int, keep: int
) -> None:
    budget = Budget(room=room, line=lambda text: len(text) + 1, reply=lambda n: 3 + a_number * min(n, keep))
    ordered = made(summaries)
    shards = shards_in_budget(ordered, size, budget)
    inside = [c for shard in shards for c in shard.candidates]
    assert [c.page_id for c in inside] == [c.page_id for c in ordered]
    for shard in shards:
        spent = sum(budget.line(c.summary) for c in shard.candidates)
        assert 1 <= len(shard.candidates) <= size
        assert spent + budget.reply(len(shard.candidates)) <= room
        changed = [c for c in shard.candidates if c not in ordered]
        assert (SUMMARY_CUT in shard.flags) == bool(changed)
    for before, after in zip(ordered, inside, strict=True):
        assert replace(after, summary=before.summary) == before


@settings(deadline=None)
@given(SUMMARIES, st.integers(1, 12), st.integers(20, 120))
def test_no_shard_is_closed_before_it_must_be(summaries: list[str], size: int, room: int) -> None:
    budget = Budget(room=room, line=lambda text: len(text) + 1, reply=lambda n: 2)
    shards = shards_in_budget(made(summaries), size, budget)
    for shard, following in pairwise(shards):
        both = [*shard.candidates, following.candidates[0]]
        assert len(both) > size or sum(budget.line(c.summary) for c in both) + 2 > room


@settings(deadline=None, max_examples=40)
@given(
    summaries=st.lists(st.text(alphabet="ab c<>/.$19µ\n", max_size=400), min_size=1, max_size=30),
    query=st.text(max_size=30),  # 4 tokens a character at most, for which the smallest context has room
    keep=st.integers(1, 40),
    context=st.integers(640, 1_200),
)
def test_every_prompt_and_its_reply_fit_the_context(
    fake_chat: Any, summaries: list[str], query: str, keep: int, context: int
) -> None:
    model = fake_chat(fake_chat.by_digest, context_tokens=context)
    ranker = LlmRanker(model)
    shards = ranker.shards(query, made(summaries), 16, keep)
    assert [c.page_id for s in shards for c in s.candidates] == [f"p{i}#p1" for i in range(1, len(summaries) + 1)]
    for shard in shards:
        prompt = ranking_prompt(query, shard.candidates, keep)
        most = ranker.reply_tokens(min(keep, len(shard.candidates)))
        assert model.count_tokens(prompt) + most + CHAT_TEMPLATE <= context


@pytest.fixture(scope="module")
def trained() -> Any:
    """A byte-level BPE trained on the demo articles, with digits apart and line ends kept with signs, as Qwen's has."""
    from pathlib import Path

    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    pattern = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    tokenizer = Tokenizer(models.BPE())
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    articles = Path(__file__).resolve().parents[2] / "data" / "demo" / "articles"
    trainer = trainers.BpeTrainer(
        vocab_size=3_000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train([str(path) for path in sorted(articles.glob("*.md"))], trainer)
    return lambda text: len(tokenizer.encode(text).ids)


@settings(deadline=None, max_examples=60)
@given(
    summaries=st.lists(st.text(max_size=120) | st.from_regex(r"[a-z .,;()%\d-]{0,120}"), min_size=1, max_size=20),
    query=st.text(max_size=60),
)
def test_lines_counted_one_by_one_bound_the_prompt_of_a_real_tokenizer(
    fake_chat: Any, trained: Callable[[str], int], summaries: list[str], query: str
) -> None:
    model = fake_chat(fake_chat.by_digest, context_tokens=700)
    model.count_tokens = trained
    ranker = LlmRanker(model)
    for shard in ranker.shards(query, made(summaries), 256, 25):
        prompt = ranking_prompt(query, shard.candidates, 25)
        assert trained(prompt) + ranker.reply_tokens(min(25, len(shard.candidates))) + CHAT_TEMPLATE <= 700


@pytest.mark.parametrize("at_once", [1, 8])
def test_a_summary_is_counted_once_for_all_questions(fake_chat: Any, pool: Pool, at_once: int) -> None:
    model = fake_chat(fake_chat.by_digest)
    ranker = LlmRanker(model, side_by_side=at_once)
    for query in ("first", "second", "third"):
        shards = ranker.shards(query, pool(50), 16, 4)
        assert shards == LlmRanker(fake_chat(fake_chat.by_digest)).shards(query, pool(50), 16, 4)
    lines = [text for text in model.counted if "about page" in text]
    assert len(lines) == 50 == len(set(lines))


def test_the_papers_sizes_fill_eight_map_calls_and_longer_summaries_need_more(fake_chat: Any, pool: Pool) -> None:
    model = fake_chat(fake_chat.by_digest)
    model.count_tokens = lambda text: len(text.split()) + 1
    short, long = " ".join(["word"] * 115) + " {0}", " ".join(["word"] * 200) + " {0}"
    ranker = LlmRanker(model)
    assert [len(s.candidates) for s in ranker.shards("q", pool(2_000, short), 256, 25)] == [256] * 7 + [208]
    more = [len(s.candidates) for s in ranker.shards("q", pool(2_000, long), 256, 25)]
    assert max(more) < 256 and sum(more) == 2_000


def test_a_long_summary_is_cut_and_flagged(fake_chat: Any, pool: Pool) -> None:
    ordered = pool(5)
    ordered[2] = replace(ordered[2], summary="dose " * 5_000)
    shards = LlmRanker(fake_chat(fake_chat.by_digest, context_tokens=1_024)).shards("q", ordered, 16, 4)
    assert [s.flags for s in shards if any(c.page_id == "p3#p1" for c in s.candidates)] == [(SUMMARY_CUT,)]
    assert sum(bool(s.flags) for s in shards) == 1
    cut = next(c for s in shards for c in s.candidates if c.page_id == "p3#p1")
    assert cut.summary.startswith("dose dose") and cut.summary.endswith("…") and len(cut.summary) > 500


def test_a_context_without_room_is_a_fault_of_the_settings(fake_chat: Any, pool: Pool) -> None:
    with pytest.raises(SettingsError, match="context_tokens"):
        LlmRanker(fake_chat(fake_chat.by_digest, context_tokens=256)).shards("q", pool(3), 16, 4)


def test_a_query_that_fills_the_context_fails_the_call_and_not_the_run(fake_chat: Any, pool: Pool) -> None:
    with pytest.raises(CallError) as caught:
        LlmRanker(fake_chat(fake_chat.by_digest, context_tokens=1_024)).shards("q " * 2_000, pool(3), 16, 4)
    assert caught.value.kind == "rejected"


def test_a_server_that_counts_no_tokens_is_a_fault_of_the_settings(fake_chat: Any, pool: Pool) -> None:
    def refuse(text: str) -> int:
        raise CallError("rejected", "the server counts no tokens", way_out="set 'tokenizer: estimate'")

    model = fake_chat(fake_chat.by_digest)
    model.count_tokens = refuse
    with pytest.raises(SettingsError, match="tokenizer: estimate"):
        LlmRanker(model).shards("q", pool(3), 16, 4)
