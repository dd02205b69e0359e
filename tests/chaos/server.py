"""A model server that misbehaves on order: cuts, delays, repeats, lies and dies. Standard library only.

    python server.py [--port 0] [--chaos SEED]

Prints its port. Replies follow from the request alone, so a run against it has one right outcome whatever happens on
the way. ``POST /control`` sets what happens next: {"faults": [...]} for the next requests in order, {"chaos": seed}
for faults drawn from each request's content, in two tries of a request at most, so that every call gets through.
``GET /log`` tells how often each request was answered in full.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PASSING = ["cut", "cut_before_usage", "abort", "error200", "sse_error", "503", "429", "close", "html", "half_json"]


class State:
    def __init__(self, chaos: int | None) -> None:
        self.lock = threading.Lock()
        self.faults: list[str] = []
        self.chaos = chaos
        self.delay = 0.0
        self.started: Counter[str] = Counter()
        self.finished: Counter[str] = Counter()
        self.requests: list[dict[str, Any]] = []
        self.images_allowed = 10
        self.at_once = 0
        self.most_at_once = 0

    def fault_for(self, key: str) -> str:
        with self.lock:
            self.started[key] += 1
            if self.faults:
                return self.faults.pop(0)
            if self.chaos is None or self.started[key] > 2:
                return ""
            draw = random.Random(f"{self.chaos}/{key}/{self.started[key]}")
            return draw.choice(PASSING) if draw.random() < 0.3 else ""


def identity(body: dict[str, Any]) -> str:
    """Digest of roles, texts and numbers of images, which a call store can tell too."""
    told = []
    for message in body["messages"]:
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        text = "".join(part["text"] for part in parts if part["type"] == "text")
        told.append([message["role"], text, sum(part["type"] == "image_url" for part in parts)])
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def reply_for(body: dict[str, Any], key: str) -> str:
    """A ranking under a filter schema, else an answer or a query; nothing but the request decides."""
    draw = random.Random(key)
    held = (body.get("response_format") or {}).get("json_schema", {})
    listed = held.get("schema", {}).get("properties", {}).get("ranking")
    if listed:
        most = listed["items"].get("maximum", 3)
        return json.dumps({"ranking": draw.sample(range(1, most + 1), min(most, listed.get("maxItems", most)))})
    prompt = json.dumps(body["messages"])
    if "<query_update>" in prompt and draw.random() < 0.5:
        notes = {"findings": [f"fact {key[:6]}"], "note": "more is needed"}
        return f"<query_update>query {key[:8]} of dose</query_update><notes>{json.dumps(notes)}</notes>"
    return f"<answer>{draw.choice('ABCD')}</answer>"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state: State

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            self._json({"object": "list", "data": [{"id": "chaos", "object": "model", "max_model_len": 32768}]})
        elif self.path == "/log":
            state = self.state
            with state.lock:
                told = {
                    "started": dict(state.started),
                    "finished": dict(state.finished),
                    "requests": state.requests[-20:],
                    "most_at_once": state.most_at_once,
                }
            self._json(told)
        else:
            self._json({"status": "ok"})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        body = json.loads(raw)
        if self.path == "/control":
            for name, value in body.items():
                setattr(self.state, name, value)
            self._json({"ok": True})
        elif self.path == "/tokenize":
            text = body.get("prompt", body.get("content", ""))
            self._json({"count": len(text.split()) * 2, "tokens": [], "max_model_len": 32768})
        else:
            with self.state.lock:
                self.state.at_once += 1
                self.state.most_at_once = max(self.state.most_at_once, self.state.at_once)
            try:
                self._chat(body, identity(body))
            finally:
                with self.state.lock:
                    self.state.at_once -= 1

    def _chat(self, body: dict[str, Any], key: str) -> None:
        state = self.state
        with state.lock:
            state.requests.append({"body": body, "authorization": self.headers.get("authorization", "")})
            del state.requests[:-20]
        fault = state.fault_for(key)
        time.sleep(state.delay)
        text, finish, message, model = reply_for(body, key), "stop", {}, body["model"]
        usage: Any = {"prompt_tokens": 5_000, "completion_tokens": max(1, min(len(text) // 4, body["max_tokens"]))}
        usage["total_tokens"] = sum(usage.values())
        images = json.dumps(body["messages"]).count('"image_url": {')
        if images > state.images_allowed:
            error = f"At most {state.images_allowed} image(s) may be provided in one prompt."
            return self._json({"error": {"message": error, "code": 400}}, 400)
        if fault.isdigit():
            said = {"error": {"message": f"fault {fault} for {self.headers.get('authorization', '')}"}}
            return self._json(said, int(fault), {"Retry-After": "0"} if fault in {"429", "503"} else {})
        if fault == "die":
            os._exit(1)
        if fault == "hang":
            time.sleep(60)
        if fault == "close":
            self.close_connection = True
            self.connection.close()
            return None
        if fault == "html":
            return self._send(b"<html>log in</html>", "text/html")
        if fault == "half_json":
            return self._send(b'{"choices": [{"message": {"content": "<answer>A', "application/json")
        if fault == "error200":
            return self._json({"error": {"message": f"engine died for {self.headers['authorization']}", "code": 500}})
        if fault == "parrot":
            text += f" {self.headers['authorization']}"
        if fault in {"abort", "length", "content_filter", "tool_calls"}:
            finish = fault
        elif fault == "null":
            text = None
        elif fault == "unparsed":
            text = "It depends on the dose."
        elif fault == "blank":
            text = " \n"
        elif fault == "reasoning":
            message, text = {"reasoning_content": text}, None
        elif fault == "refusal":
            message = {"refusal": "no"}
        elif fault == "wrong_model":
            model = "another-model"
        elif fault == "no_usage":
            usage = None
        elif fault == "bad_usage":
            usage = {"prompt_tokens": 0, "completion_tokens": 0}
        elif fault == "too_many_tokens":
            usage = {"prompt_tokens": 9, "completion_tokens": 10**6}
        elif fault == "huge":
            text = "x" * 5_000_000
        elif fault == "whole" or not body.get("stream", True):
            choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
            choice |= self._logprobs(body, fault, text)
            with state.lock:
                state.finished[key] += 1
            return self._json({"id": "1", "model": model, "choices": [choice], "usage": usage})
        self._stream(key, fault, text, finish, message, model, usage, self._logprobs(body, fault, text))
        return None

    def _logprobs(self, body: dict[str, Any], fault: str, text: Any) -> dict[str, Any]:
        """Tokens of four characters where they were asked for; the last one has the probability 1 / e."""
        if not body.get("logprobs") or fault == "no_logprobs" or not isinstance(text, str):
            return {"logprobs": None}
        steps = [{"token": text[n : n + 4], "logprob": -0.25} for n in range(0, len(text), 4)]
        steps[-1]["logprob"] = {"nan_logprob": float("nan"), "minus_infinity": -float("inf")}.get(fault, -1.0)
        return {"logprobs": {"content": steps}}

    def _stream(
        self, key: str, fault: str, text: Any, finish: str, message: Any, model: str, usage: Any, told: dict[str, Any]
    ) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        if fault == "drip":
            for _ in range(600):
                self._chunk(": still here\n\n")
                time.sleep(0.1)
            return
        if fault == "sse_400":
            said = f"the JSON schema is not supported for {self.headers['authorization']}"
            self._event({"error": {"message": said, "code": 400}})
            self._chunk("data: [DONE]\n\n")
            return
        if fault == "sse_error":
            self._event({"error": {"message": f"engine died on {self.headers['authorization']}", "code": 500}})
            return
        if fault == "no_choices":
            self._event({"id": "1", "model": model, "usage": usage})
            self._chunk("data: [DONE]\n\n")
            return
        pieces = [text] if not isinstance(text, str) else [text[: len(text) // 2], text[len(text) // 2 :]]
        for number, piece in enumerate(pieces):
            delta = {"role": "assistant", "content": piece} | (message if number == 0 else {})
            listed = (told["logprobs"] or {}).get("content", [])
            half = {"content": listed[: len(listed) // 2] if number == 0 else listed[len(listed) // 2 :]}
            choice = {"index": 0, "delta": delta, "logprobs": half if listed else None}
            self._event({"id": "1", "model": model, "choices": [choice]})
            if fault == "cut":
                return
        self._event({"id": "1", "model": model, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        if fault == "cut_before_usage":
            return
        if usage is not None:
            self._event({"id": "1", "model": model, "choices": [], "usage": usage})
        if not fault or fault in {"reasoning", "unparsed"}:
            # Counted before the last bytes go out: from here on the call is paid for.
            with self.state.lock:
                self.state.finished[key] += 1
        self._chunk("data: [DONE]\n\n")

    def _event(self, data: dict[str, Any]) -> None:
        self._chunk(f"data: {json.dumps(data)}\n\n")

    def _chunk(self, text: str) -> None:
        self.wfile.write(text.encode())
        self.wfile.flush()

    def _json(self, data: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self._send(json.dumps(data).encode(), "application/json", status, headers)

    def _send(self, data: bytes, kind: str, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--chaos", type=int)
    options = parser.parse_args()
    Handler.state = State(options.chaos)
    ThreadingHTTPServer.daemon_threads = True
    ThreadingHTTPServer.request_queue_size = 256
    server = ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
    print(server.server_address[1], flush=True)
    # A broken pipe is what clients of this server do when they time out.
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    server.serve_forever()


if __name__ == "__main__":
    main()
