"""Which models are asked, where they run, and how calls are made."""

from __future__ import annotations

from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from medvrag_core.settings.base import StageSettings, looks_like_a_key


class ModelSettings(StageSettings):
    """One language model behind an OpenAI-compatible server.

    Where it runs (:data:`WHERE_FIELDS`) is no part of what it replies: a run goes on when only those fields change.
    """

    base_url: str = Field("", description="empty: a server started by the profile on loopback")
    more_urls: tuple[str, ...] = Field(
        (), exclude_if=lambda urls: not urls, description="further servers of the same model; calls are spread over all"
    )
    server: Literal["vllm", "llama.cpp", "hosted"] = Field(
        "vllm", description="hosted: sends only fields that every OpenAI-compatible service takes"
    )
    model: str = ""
    revision: str = Field("", description="commit of the weights; servers cannot tell it, `medvrag serve` pins it")
    reported_as: str = Field("", description="model name in the server's replies, where it is not `model`")
    key_env: str = Field("OPENAI_API_KEY", description="environment variable that holds the key; never the key itself")
    temperature: float = 0.1
    top_p: float = 0.001
    repetition_penalty: float = Field(1.0, gt=0, description="vLLM and llama.cpp only; 1.0 is not sent")
    max_tokens: int = Field(2_048, ge=1, description="longest reply")
    seed: int = 42
    context_tokens: int = Field(32_768, ge=256, description="prompt and reply together, images included")
    tokenizer: str = Field(
        "auto",
        description="who counts tokens: server (its /tokenize), estimate (from characters), auto (the server, or the "
        "estimate where it counts none), or the path of a tokenizer.json",
    )
    max_images: int = Field(10, ge=0, description="images the server takes in one message")
    min_pixels: int = Field(3_136, ge=784, description="smaller images are enlarged by the model's processor")
    max_pixels: int = Field(1_003_520, ge=784, description="cap on one page image sent to the model")
    thinking: bool = False
    json_schema: bool = Field(True, description="ask for replies under a JSON schema where a reply is JSON")
    usage: bool = Field(True, description="refuse replies without token counts")
    timeout_s: float = Field(300.0, gt=0, description="longest silence of the server, also before the first token")
    wall_s: float = Field(900.0, gt=0, description="time budget of one call with all its tries and pauses")

    @field_validator("base_url")
    @classmethod
    def _no_secret_in_the_address(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.username or parts.password or parts.query:
            raise ValueError("an address must not hold a user, a password or a query; keys come from the environment")
        return value

    @field_validator("more_urls")
    @classmethod
    def _no_secret_in_an_address(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(cls._no_secret_in_the_address(value) for value in values)

    @field_validator("key_env")
    @classmethod
    def _a_name_and_no_key(cls, value: str) -> str:
        if not value.isidentifier() or looks_like_a_key(value):
            raise ValueError("names an environment variable, it does not hold the key")
        return value


WHERE_FIELDS = ("base_url", "more_urls", "key_env", "timeout_s", "wall_s")
"""Fields of :class:`ModelSettings` that cannot change a reply."""


class CallSettings(StageSettings):
    """How model calls are made and kept; nothing here can change a reply."""

    policy: Literal["always", "never", "only-missing", "only-cache"] = Field(
        "only-missing",
        description="always: ask anew; never: whatever is stored stands, even a failure of the server; "
        "only-missing: ask what has no reply yet; only-cache: ask nothing",
    )
    questions_at_once: int = Field(1, ge=1, le=1_024, description="questions answered side by side")
    in_flight: int = Field(16, ge=1, le=1_024, description="calls at the servers at one time")
    image_mb: int = Field(512, ge=1, description="page images in flight, counted at 3 bytes a pixel")
    attempts: int = Field(4, ge=1, description="tries of one call; only passing faults are tried again")
    pause_s: float = Field(1.0, ge=0, description="first pause between tries, doubled each time, with jitter")
    give_up_after: int = Field(8, ge=1, description="calls that fail one after another before the run stops")
    drain_s: float = Field(30.0, ge=0, description="after Ctrl-C, time for calls in flight to finish")
    accept_changed_prompts: bool = Field(False, description="pay again for calls that a changed prompt made worthless")


class ServeSettings(StageSettings):
    """Which GPUs `medvrag serve` gives to which model; but for ``summary_model`` nothing here can change a reply."""

    gpu_gib: float = Field(79.0, gt=0, description="memory of one GPU as its driver reports it")
    workspace_gib: float = Field(4.0, ge=0, description="kept free of weights and cache on each GPU; an estimate")
    filter_gpus: tuple[int, ...] = Field((0,), min_length=1, description="the model is split over them")
    reader_gpus: tuple[int, ...] = Field((0,), min_length=1, description="the model is split over them")
    summary_gpus: tuple[int, ...] = Field((0,), min_length=1, description="each holds the whole model")
    filter_share: float = Field(0.85, gt=0, lt=1, description="part of a GPU's memory that this server takes")
    reader_share: float = Field(0.9, gt=0, lt=1)
    summary_share: float = Field(0.9, gt=0, lt=1)
    summary_model: ModelSettings = Field(
        ModelSettings(), description="describes pages offline, see text.page_text; empty: none"
    )
