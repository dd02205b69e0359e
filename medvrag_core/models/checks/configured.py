"""Checks of the settings alone, before any server is asked: address and key, and whether a prompt fits the context."""

from __future__ import annotations

import ipaddress
import os
from urllib.parse import urlsplit

from medvrag_core.models.budget import FLOOR_PIXELS
from medvrag_core.models.checks.base import Finding, Role
from medvrag_core.models.image_tokens import MARKS, TILE

TOKENS_PER_WORD = 1.5
"""Estimate for English medical text; summaries are measured in words."""

FILTER_TEXT_TOKENS = 500
READER_TEXT_TOKENS = 2_000
"""Estimates for instructions, question and, for the reader, options and memory bank."""

_REPLY_TOKENS_AROUND = 128
_REPLY_TOKENS_PER_PAGE = 6
"""As the filter's ranker sets its longest reply (a test compares them; rooms forbid to import it)."""

_FEW_SUMMARIES = 8

HELPER_REPLY_TOKENS, DOCUMENT_TOKENS, SHOWN_CHARACTERS = 768, 512, 6_000
"""Longest reply of a task beside the reader's, longest document that is written, most that is shown of one (a test
compares them)."""

JUDGE_CHARACTERS = 12_000
JUDGE_REPLY_TOKENS = 200
"""As the judge cuts a page and its own reply (a test compares them; rooms forbid to import them)."""

CHARACTERS_PER_TOKEN = 4
"""Estimate for English medical text."""


def check_settings(role: Role) -> Finding:
    """Address, model and key; only whether the key is set is told."""
    settings, name = role.settings, role.name
    missing = [field for field in ("base_url", "model") if not getattr(settings, field)]
    if missing:
        fields = " and ".join(f"'{name}.{field}'" for field in missing)
        return Finding("failed", f"{fields} {'is' if len(missing) == 1 else 'are'} empty", f"set {fields}", stops=True)
    if not is_address(settings.base_url):
        change = "correct 'base_url', as in http://127.0.0.1:8000/v1"
        return Finding("failed", f"'{settings.base_url}' is no address of a server", change, stops=True)
    if os.environ.get(settings.key_env):
        return Finding("ok", f"{settings.model} at {settings.base_url}, with the key in {settings.key_env}")
    if on_this_computer(settings.base_url):
        return Finding("ok", f"{settings.model} at {settings.base_url}, on this computer, without a key")
    found = f"{settings.base_url} is not on this computer, and no key is in {settings.key_env}"
    change = f"set the environment variable {settings.key_env}, or name another one in '{name}.key_env'"
    # A server in the house often takes requests without a key; a hosted service never does.
    return Finding("failed" if settings.server == "hosted" else "unknown", found, change)


def check_room(role: Role) -> Finding:
    """Whether ``context_tokens`` holds what the profile wants to send; text lengths are estimates and said to be."""
    rooms = {
        "filter_model": _filter_room,
        "reader_model": _reader_room,
        "helper_model": _helper_room,
        "generator_model": _generator_room,
        "judge_model": _judge_room,
        "serve.summary_model": _summary_room,
    }
    return rooms[role.name](role)


def reply_tokens(role: Role) -> int:
    """Longest reply of a map call."""
    wanted = _REPLY_TOKENS_AROUND + _REPLY_TOKENS_PER_PAGE * role.profile.filter.map_keep
    return min(wanted, role.settings.max_tokens)


def summary_tokens(role: Role) -> int:
    """Estimated tokens of one summary with its number."""
    return round(role.profile.corpus.summary_tokens * TOKENS_PER_WORD) + 6


def is_address(base_url: str) -> bool:
    """Whether a text is an address that a client can ask.

    >>> [is_address(text) for text in ("http://[::1]:8000/v1", "localhost:8000", "http://gpu:99999/v1")]
    [True, False, False]
    """
    try:
        parts = urlsplit(base_url)
        # Reading the port raises ValueError when it is none.
        usable = parts.scheme in {"http", "https"} and parts.port != 0 and 0 < len(parts.hostname or "") < 254
    except ValueError:
        return False
    return usable and base_url.isprintable() and " " not in base_url


def on_this_computer(base_url: str) -> bool:
    """Whether an address is on loopback.

    >>> on_this_computer("http://localhost:8000/v1"), on_this_computer("https://api.example.org/v1")
    (True, False)
    """
    host = urlsplit(base_url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _filter_room(role: Role) -> Finding:
    settings, wanted = role.settings, role.profile.filter.shard_size
    reply, each = reply_tokens(role), summary_tokens(role)
    free = settings.context_tokens - FILTER_TEXT_TOKENS - reply
    fits = max(0, free // each)
    sum_ = (
        f"context {settings.context_tokens:,} - reply {reply:,} - instructions and question about"
        f" {FILTER_TEXT_TOKENS:,} = {free:,}, about {fits:,} summaries of {each:,} tokens"
    )
    if fits < min(_FEW_SUMMARIES, wanted):
        return Finding("failed", sum_, f"raise '{role.name}.context_tokens'")
    if fits < wanted:
        sum_ += f"; a call takes fewer than the {wanted:,} of 'filter.shard_size', so there are more calls"
    return Finding("ok", sum_)


def _reader_room(role: Role) -> Finding:
    settings, profile, pages = role.settings, role.profile, role.pages_sent
    each = settings.max_pixels // TILE**2 + MARKS
    summaries = round(profile.loop.summaries_shown * profile.corpus.summary_tokens * TOKENS_PER_WORD)
    text = READER_TEXT_TOKENS + summaries
    wanted = pages * each + text + settings.max_tokens
    sum_ = (
        f"{pages} pages x {each:,} + text about {text:,} + reply {settings.max_tokens:,} = {wanted:,} tokens"
        f" of {settings.context_tokens:,}"
    )
    if wanted <= settings.context_tokens:
        return Finding("ok", sum_)
    least = wanted - pages * (each - min(each, FLOOR_PIXELS // TILE**2 + MARKS))
    if profile.loop.overflow == "scale_pages" and least <= settings.context_tokens:
        return Finding("ok", f"{sum_}; pages are made smaller ('loop.overflow' is scale_pages)")
    policy = {
        "drop_pages": "the lowest-ranked pages would be left out",
        "scale_pages": "even the smallest pages would not all fit",
        "refuse": "such calls would be refused",
    }[profile.loop.overflow]
    return Finding(
        "failed",
        f"{sum_}; {policy} ('loop.overflow' is {profile.loop.overflow})",
        f"raise '{role.name}.context_tokens', or lower '{role.name}.max_pixels', 'loop.pages_shown' or"
        f" '{role.name}.max_images'",
    )


def _helper_room(role: Role) -> Finding:
    """The longest prompts: a choice among documents (medrgag, medrgag_pages), an answer from snippets (i_medrag)."""
    settings, profile, chunk = role.settings, role.profile, role.profile.text.chunk_tokens
    pages = profile.loop.pages_shown * SHOWN_CHARACTERS // CHARACTERS_PER_TOKEN
    documents = max(profile.medrgag.retrieved * chunk, pages) + profile.medrgag.generated * DOCUMENT_TOKENS
    snippets = profile.i_medrag.snippets * chunk
    reply = min(HELPER_REPLY_TOKENS, settings.max_tokens)
    wanted = max(documents, snippets) + READER_TEXT_TOKENS + reply
    sum_ = (
        f"documents and pages to choose from {documents:,} or snippets {snippets:,} + text about {READER_TEXT_TOKENS:,}"
        f" + reply {reply:,} = {wanted:,} tokens of {settings.context_tokens:,}"
    )
    if wanted <= settings.context_tokens:
        return Finding("ok", sum_)
    change = (
        f"raise '{role.name}.context_tokens', or lower 'loop.pages_shown', 'i_medrag.snippets' or 'text.chunk_tokens'"
    )
    # Not every system sends as much.
    return Finding("unknown", f"{sum_}; a longer call is refused, or loses its last snippets", change)


def _generator_room(role: Role) -> Finding:
    settings = role.settings
    wanted = READER_TEXT_TOKENS + min(DOCUMENT_TOKENS, settings.max_tokens)
    sum_ = f"text about {READER_TEXT_TOKENS:,} + document {wanted - READER_TEXT_TOKENS:,} = {wanted:,} tokens"
    sum_ += f" of {settings.context_tokens:,}"
    if settings.max_tokens < DOCUMENT_TOKENS:
        change = f"raise '{role.name}.max_tokens' to {DOCUMENT_TOKENS}"
        return Finding("unknown", f"{sum_}; longer documents would be cut, and left out", change)
    if wanted <= settings.context_tokens:
        return Finding("ok", sum_)
    return Finding("unknown", f"{sum_}; short questions may fit", f"raise '{role.name}.context_tokens'")


def _summary_room(role: Role) -> Finding:
    settings = role.settings
    page = role.pages_sent * (settings.max_pixels // TILE**2 + MARKS)
    wanted = page + FILTER_TEXT_TOKENS + settings.max_tokens
    sum_ = (
        f"a page {page:,} + instructions about {FILTER_TEXT_TOKENS:,} + reply {settings.max_tokens:,} = {wanted:,}"
        f" tokens of {settings.context_tokens:,}"
    )
    if wanted <= settings.context_tokens:
        return Finding("ok", sum_)
    change = f"raise '{role.name}.context_tokens', or lower '{role.name}.max_pixels' or '{role.name}.max_tokens'"
    return Finding("failed", f"{sum_}; such calls would be refused", change)


def _judge_room(role: Role) -> Finding:
    settings = role.settings
    page, reply = JUDGE_CHARACTERS // CHARACTERS_PER_TOKEN, min(JUDGE_REPLY_TOKENS, settings.max_tokens)
    wanted = page + FILTER_TEXT_TOKENS + reply
    sum_ = (
        f"a long page about {page:,} + instructions, question and options about {FILTER_TEXT_TOKENS:,}"
        f" + reply {reply:,} = {wanted:,} tokens of {settings.context_tokens:,}"
    )
    if wanted <= settings.context_tokens:
        return Finding("ok", sum_)
    change = f"raise '{role.name}.context_tokens', or let it judge summaries (`medvrag judge --show summary`)"
    return Finding("unknown", f"{sum_}; short pages and summaries may fit", change)
