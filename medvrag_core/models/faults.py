"""Every error of the client as one :class:`CallError`: its kind, what the server said, and the setting to change."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from medvrag_core.models.outcomes import CallError
from medvrag_core.models.secrets import without_keys
from medvrag_core.records import CallOutcome

if TYPE_CHECKING:
    import openai

_UNAVAILABLE = frozenset({408, 409, 425, 429})
_DENIED = frozenset({401, 402, 403, 404})
_WAYS_OUT = (
    (re.compile(r"at most \d+ image", re.I), "lower 'max_images', or start the server with a higher image limit"),
    (
        # vLLM says "must be at least 1, got 0" of max_tokens when the prompt alone fills the context.
        re.compile(
            r"context (?:length|size)|maximum model length|max_model_len|too many tokens|must be at least 1, got 0",
            re.I,
        ),
        "lower 'context_tokens' to what the server has, or start it with a longer context",
    ),
    (re.compile(r"response_format|json.schema|grammar|guided|structured", re.I), "set 'json_schema: false'"),
    (re.compile(r"unrecognized|unsupported|unknown (?:field|parameter)|extra inputs", re.I), "set 'server: hosted'"),
)
_WAY_BY_STATUS = {
    401: "set the environment variable named by 'key_env'",
    403: "set the environment variable named by 'key_env'",
    404: "correct 'base_url' (it ends in /v1) or 'model'",
}


@contextmanager
def call_errors(where: str, key_env: str = "OPENAI_API_KEY") -> Iterator[None]:
    """Turn every error of the client, and every timeout, into a :class:`CallError` that names the server ``where``."""
    import httpx2
    import openai

    try:
        yield
    except CallError as error:
        error.problem = without_keys(error.problem, key_env)
        error.args = (without_keys(str(error), key_env),)
        raise
    except openai.APITimeoutError:
        raise CallError("timeout", f"{where}: silent for too long", way_out="raise 'timeout_s'") from None
    except openai.APIStatusError as error:
        found = _by_status(where, error.status_code, error, key_env)
        found.retry_after_s = retry_after(error.response.headers.get("retry-after"))
        raise found from None
    except (openai.APIConnectionError, httpx2.TransportError) as error:
        if isinstance(error, httpx2.TimeoutException):
            raise CallError("timeout", f"{where}: silent for too long", way_out="raise 'timeout_s'") from None
        never_there = isinstance(error.__cause__ or error, httpx2.ConnectError)
        raise CallError(
            "transport",
            f"{where}: {'cannot be reached' if never_there else 'the connection broke off'}",
            way_out="start the server or correct 'base_url'" if never_there else "look at the server's log",
        ) from None
    except openai.APIError as error:
        # An error inside a stream whose status was 200; vLLM refuses some requests this way, and says so by a code.
        code = _number(error.code) or _number(error.body.get("code") if isinstance(error.body, dict) else None)
        if code is None:
            raise CallError("malformed", f"{where}: {_short(error.message, key_env)}") from None
        raise _by_status(where, code, error, key_env) from None
    except (openai.OpenAIError, ValueError, UnicodeError) as error:
        raise CallError("malformed", f"{where}: {_short(str(error), key_env)}") from None


def _by_status(where: str, status: int, error: openai.APIError, key_env: str) -> CallError:
    said = _short(error.message, key_env)
    kind: CallOutcome = "rejected"
    if status in _UNAVAILABLE or status >= 500:
        # A used-up quota comes as 429 and does not pass by waiting.
        kind = "denied" if error.code == "insufficient_quota" else "unavailable"
    elif status in _DENIED or 300 <= status < 400:
        kind = "denied"
    way_out = next((way for pattern, way in _WAYS_OUT if kind == "rejected" and pattern.search(said)), "")
    return CallError(kind, f"{where}: status {status}, {said}", way_out=way_out or _WAY_BY_STATUS.get(status, ""))


def _number(code: Any) -> int | None:
    return int(code) if isinstance(code, int | str) and str(code).isdecimal() and len(str(code)) == 3 else None


def retry_after(value: str | None, *, now: datetime | None = None) -> float:
    """Seconds that a server asks to wait; 0 when it asks nothing that can be read.

    >>> retry_after("7"), retry_after(None), retry_after("soon")
    (7.0, 0.0, 0.0)
    """
    if not value:
        return 0.0
    try:
        return min(max(0.0, float(value)), 86_400.0)
    except ValueError:
        pass
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return 0.0
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - (now or datetime.now(UTC))).total_seconds())


def _short(text: str, key_env: str) -> str:
    # Keys go before the text is cut: a cut key is still half a key, and no longer found.
    plain = without_keys(" ".join(text[:100_000].split()), key_env)
    return re.sub(r"^Error code: \d+ - ", "", plain)[:300]
