"""The flags of one vLLM server, each with its reason.

Flags are those of vLLM 0.32: names and values were put through its own parser, what they do was read in its source.
Nothing of this was run on a GPU.
"""

from __future__ import annotations

import json
import re
from typing import Literal
from urllib.parse import urlsplit

from medvrag_core.errors import SettingsError
from medvrag_core.models.serving.memory import ARCHITECTURES, Architecture
from medvrag_core.records import Record
from medvrag_core.settings import ModelSettings, Profile

Role = Literal["summary", "filter", "reader", "helper", "generator", "judge"]
Phase = Literal["summaries", "questions"]

VLLM = "0.32"
NO_DOMAIN = "none.invalid"
"""A name that no computer can have (RFC 2606)."""
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_MEDIA_URL_ALLOW_REDIRECTS": "0",
}
"""No hub once the weights are here, no usage statistics, no way around through a redirect."""

_LOOPBACK = {"127.0.0.1": "127.0.0.1", "localhost": "127.0.0.1", "::1": "::1"}


class Option(Record):
    """One flag of a command and why it is there; a switch has no value."""

    flag: str
    value: str = ""
    reason: str


class Place(Record):
    """A model of a profile and the GPUs that it gets.

    ``settings`` is the field of the profile, for messages. The GPUs of the summary model hold a copy each, those of
    the others share one.
    """

    role: Role
    settings: str
    model: ModelSettings
    gpus: tuple[int, ...]
    share: float

    @property
    def phase(self) -> Phase:
        """Summaries are written before there are questions; filter and reader answer together."""
        return "summaries" if self.role == "summary" else "questions"

    @property
    def sizes(self) -> Architecture | None:
        """Sizes of the model, where they are known."""
        return ARCHITECTURES.get(self.model.model)

    @property
    def copies(self) -> int:
        """Whole models."""
        return len(self.gpus) if self.role == "summary" else 1

    @property
    def split(self) -> int:
        """GPUs that hold one copy."""
        return len(self.gpus) // self.copies

    @property
    def images(self) -> bool:
        """Whether the model sees pages; a model of unknown sizes is believed to do what its role needs."""
        return self.role != "filter" if self.sizes is None else self.sizes.vision_intermediate > 0


def places(profile: Profile) -> tuple[Place, ...]:
    """The language models that a profile uses, in the order in which a run needs them."""
    serve = profile.serve
    every = (
        (
            bool(serve.summary_model.model),
            Place(
                role="summary",
                settings="serve.summary_model",
                model=serve.summary_model,
                gpus=serve.summary_gpus,
                share=serve.summary_share,
            ),
        ),
        (
            profile.filter.ranker == "llm",
            Place(
                role="filter",
                settings="filter_model",
                model=profile.filter_model,
                gpus=serve.filter_gpus,
                share=serve.filter_share,
            ),
        ),
        (
            profile.reader.name == "vlm",
            Place(
                role="reader",
                settings="reader_model",
                model=profile.reader_model,
                gpus=serve.reader_gpus,
                share=serve.reader_share,
            ),
        ),
    )
    return tuple(place for used, place in every if used)


def address(place: Place) -> tuple[str, int]:
    """Host and port to listen on.

    Raises SettingsError unless ``base_url`` is ``http://<loopback>:<port>/v1``.
    """
    for name in ("base_url", "model"):
        if not getattr(place.model, name):
            raise SettingsError(f"'{place.settings}.{name}' is empty", way_out="set it in the profile")
    url = place.model.base_url
    parts = urlsplit(url)
    host = _LOOPBACK.get(parts.hostname or "")
    if host is None or parts.scheme != "http" or parts.port is None or parts.path.rstrip("/") != "/v1":
        raise SettingsError(
            f"'{place.settings}.base_url': {url} is not a server that can be started here",
            way_out="use http://127.0.0.1:PORT/v1 (an SSH tunnel brings a distant server there), "
            f"or set {place.settings}.server=hosted",
        )
    return host, parts.port


def commit(place: Place) -> str:
    """The commit of the weights, or nothing; raises SettingsError for a branch or tag, which can move."""
    revision = place.model.revision
    if revision and not re.fullmatch(r"[0-9a-f]{40}", revision):
        raise SettingsError(
            f"'{place.settings}.revision': '{revision}' is no commit, and a branch or tag can move",
            way_out="give the 40 hex digits of the commit, or leave it empty",
        )
    return revision


def server_options(profile: Profile, place: Place) -> tuple[Option, ...]:
    """All flags of a server."""
    host, port = address(place)
    return (
        Option(flag="--host", value=host, reason="only this computer; by itself vLLM listens on every interface"),
        Option(flag="--port", value=str(port), reason="the port of base_url"),
        Option(
            flag="--allowed-media-domains",
            value=NO_DOMAIN,
            reason="none at all: unset, vLLM fetches any address a request names; pages travel as data",
        ),
        *_weight_options(place),
        *_size_options(profile, place),
        *(_image_options(place) if place.images else ()),
        *_reply_options(place),
    )


def _weight_options(place: Place) -> tuple[Option, ...]:
    pin = commit(place)
    reason = "revision: these weights and no newer ones"
    return (
        *(Option(flag=flag, value=pin, reason=reason) for flag in ("--revision", "--tokenizer-revision") if pin),
        Option(flag="--dtype", value="bfloat16", reason="as the weights are published"),
        Option(
            flag="--seed", value=str(place.model.seed), reason="for requests without one; no promise of equal replies"
        ),
    )


def _size_options(profile: Profile, place: Place) -> tuple[Option, ...]:
    several = Option(
        flag="--data-parallel-size", value=str(place.copies), reason="offline work: a whole copy on each GPU"
    )
    return (
        Option(
            flag="--max-model-len",
            value=str(place.model.context_tokens),
            reason="context_tokens: prompt and reply; the client keeps to the same number",
        ),
        Option(
            flag="--max-num-seqs",
            value=str(profile.calls.in_flight),
            reason="calls.in_flight: never more calls at one time, so buffers for more are lost memory",
        ),
        Option(flag="--tensor-parallel-size", value=str(place.split), reason="GPUs that share one copy of the model"),
        *((several,) if place.copies > 1 else ()),
        Option(
            flag="--gpu-memory-utilization",
            value=f"{place.share:.2f}",
            reason="of each GPU, weights and cache together; the rest is for what runs beside it",
        ),
        Option(flag="--enable-prefix-caching", reason="rounds and retries begin alike; said, since defaults move"),
    )


def _image_options(place: Place) -> tuple[Option, ...]:
    model = place.model
    apart = Option(
        flag="--mm-encoder-tp-mode",
        value="data",
        reason="the image part is small: each GPU reads whole pages, instead of all a part of each",
    )
    return (
        Option(
            flag="--limit-mm-per-prompt",
            value=json.dumps({"image": model.max_images, "video": 0}),
            reason="max_images; it bounds what is set aside at start, and videos are never sent",
        ),
        Option(
            flag="--mm-processor-kwargs",
            value=json.dumps({"min_pixels": model.min_pixels, "max_pixels": model.max_pixels}),
            reason="the bounds of the client, so that both count the same tokens a page",
        ),
        *((apart,) if place.split > 1 else ()),
    )


def _reply_options(place: Place) -> tuple[Option, ...]:
    made = [
        Option(
            flag="--generation-config",
            value="vllm",
            reason="no sampling defaults out of the model's folder; the profile alone decides",
        ),
        Option(
            flag="--structured-outputs-config",
            value=json.dumps({"backend": "xgrammar", "disable_any_whitespace": True}),
            reason="JSON without white space, which a model can otherwise write until its limit",
        ),
        Option(flag="--disable-fastapi-docs", reason="no web pages beside the interface"),
    ]
    parser = place.sizes.reasoning_parser if place.sizes is not None else ""
    if parser:
        made.append(
            Option(
                flag="--default-chat-template-kwargs",
                value=json.dumps({"enable_thinking": place.model.thinking}),
                reason="thinking; our requests say it too, this is for those made by hand",
            )
        )
    if parser and place.model.thinking:
        made.append(
            Option(
                flag="--reasoning-parser",
                value=parser,
                reason="thinking is on: it gets a field of its own, and a schema holds for what follows it",
            )
        )
    return tuple(made)
