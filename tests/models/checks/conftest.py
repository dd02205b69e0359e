"""A scripted model server, and the doctor's checks run against it."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from PIL import Image
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from medvrag_core.models.doctor import Check, run_checks
from medvrag_core.models.image_tokens import MARKS, image_tokens
from medvrag_core.models.serving.options import Phase
from medvrag_core.profiles.load import load_profile
from medvrag_core.settings import ModelSettings, Profile

QWEN = "Qwen/Qwen2.5-VL-7B-Instruct"


class Checks(dict[str, Check]):
    """The checks of one model by name, in the order they were made."""

    def having(self, state: str) -> list[str]:
        return [name for name, check in self.items() if check.state == state]


@dataclass
class Script:
    """How the scripted server behaves; by default it is a vLLM that does all that is asked of it."""

    model: str = QWEN
    models: list[dict[str, Any]] | None = None
    entry: dict[str, Any] = field(default_factory=lambda: {"max_model_len": 32_768})
    images: int = 10
    max_pixels: int = 10**9
    images_seen: int = 10
    schema: str = "held"
    think: str = "off"
    status: dict[str, tuple[int, str]] = field(default_factory=dict)
    raw: dict[str, Any] = field(default_factory=dict)
    usage: bool = True
    reports: str = ""
    finish: str = "stop"

    def answer(self, request: Request) -> Response:
        if request.path in self.status:
            status, said = self.status[request.path]
            return as_json({"error": {"message": f"{said} {request.headers.get('authorization', '')}"}}, status)
        if request.path in self.raw:
            return as_json(self.raw[request.path])
        if request.path == "/v1/models":
            return as_json({"data": self.models or [{"id": self.model} | self.entry]})
        if request.path == "/tokenize":
            return as_json({"count": 9, "tokens": []})
        return self.complete(json.loads(request.data)) if request.path == "/v1/chat/completions" else Response("", 404)

    def complete(self, body: dict[str, Any]) -> Response:
        content = body["messages"][-1]["content"]
        urls = [part["image_url"]["url"] for part in content[1:]] if isinstance(content, list) else []
        if len(urls) > self.images:
            return as_json(
                {"error": {"message": f"At most {self.images} image(s) may be provided in one prompt."}}, 400
            )
        prompt = 20 + sum(self.tokens_of(url) for url in urls[: self.images_seen])
        message: dict[str, Any] = {"role": "assistant", "content": "ready"}
        finish = self.finish
        if "response_format" in body:
            if self.schema == "refused":
                return as_json({"error": {"message": "response_format of type json_schema is unknown"}}, 400)
            replies = {
                "held": '{"ranking": [2, 1]}',
                "ignored": "The sea is wide.",
                "blanks": '{"ranking":' + "\n" * 240,
                "cut": '{"ranking": [',
            }
            message["content"] = replies[self.schema]
            finish = "length" if self.schema in {"blanks", "cut"} else "stop"
        message |= {
            "off": {},
            "empty block": {"content": f"<think>\n\n</think>\n\n{message['content']}"},
            "tag": {"content": f"<think>He has three.</think>{message['content']}"},
            "field": {"reasoning": "He has three."},
            "only field": {"reasoning": message["content"], "content": None},
        }[self.think]
        reply = {
            "choices": [{"index": 0, "finish_reason": finish, "message": message}],
            "model": self.reports or body["model"],
        }
        usage = {"usage": {"prompt_tokens": prompt, "completion_tokens": 2, "total_tokens": prompt + 2}}
        return as_json(reply | (usage if self.usage else {}))

    def tokens_of(self, url: str) -> int:
        with Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))) as image:
            return image_tokens(*image.size, max_pixels=self.max_pixels) + MARKS


def as_json(value: Any, status: int = 200) -> Response:
    return Response(json.dumps(value), status, content_type="application/json")


@pytest.fixture(scope="session")
def profile_of() -> Callable[..., Profile]:
    """Makes a profile with one model behind a server; settings of the model by name, others as ``stage__field``."""

    def make(role: str, base_url: str, model: str = QWEN, **changes: Any) -> Profile:
        uses = {
            "filter_model": {"filter.ranker": "llm"},
            "reader_model": {"reader.name": "vlm"},
            "helper_model": {"helper.name": "llm"},
            "generator_model": {"helper.generator": "llm"},
            "judge_model": {},
            "serve.summary_model": {"corpus.summarizer": "model"},
        }
        use: dict[str, Any] = uses[role]
        own = {"base_url": base_url, "model": model, "timeout_s": 5.0, "wall_s": 10.0}
        own |= {name: value for name, value in changes.items() if name in ModelSettings.model_fields}
        rest = {name.replace("__", "."): value for name, value in changes.items() if "__" in name}
        return load_profile("cpu", use | {f"{role}.{name}": value for name, value in own.items()} | rest)

    return make


@pytest.fixture(scope="session")
def diagnosed() -> Callable[[Profile], Checks]:
    """Runs the doctor on a profile with one model."""

    def diagnosed(profile: Profile) -> Checks:
        phase: Phase = "summaries" if profile.corpus.summarizer == "model" else "questions"
        return Checks({check.name: check for check in run_checks(profile, phase)})

    return diagnosed


@pytest.fixture
def script(httpserver: HTTPServer) -> Script:
    """What the scripted server does; change it before it is asked."""
    made = Script()
    httpserver.expect_request(re.compile(".*")).respond_with_handler(lambda request: made.answer(request))
    return made


@pytest.fixture
def examined(
    script: Script,
    httpserver: HTTPServer,
    profile_of: Callable[..., Profile],
    diagnosed: Callable[[Profile], Checks],
) -> Callable[..., Checks]:
    """Runs the doctor on one model at the scripted server."""

    def run(role: str = "reader_model", **changes: Any) -> Checks:
        return diagnosed(profile_of(role, **{"base_url": httpserver.url_for("/v1")} | changes))

    return run
