"""Checks of what a server says of itself: its models, their version and context, its tokenizer."""

from __future__ import annotations

from typing import Any

from medvrag_core.errors import MedvragError
from medvrag_core.models.checks.base import Finding, Role, names
from medvrag_core.models.outcomes import CallError
from medvrag_core.models.server_tokens import make_counter

SCORING_TOKENS = 1_024
"""What the likelihood reader needs: 2,100 characters of evidence, the question and one option."""

_NAMES_SHOWN = 5
_CANARY = "Allopurinol is started at 100 mg daily."


def check_server(role: Role) -> Finding:
    """Whether the server answers, and serves the model under its name."""
    settings = role.settings
    try:
        served = [name for entry in role.models for name in names(entry)]
    except CallError as error:
        if "status 404" in error.problem or error.kind == "malformed":
            # Not every service lists its models, and a wrong path looks the same; the first call will tell.
            return Finding("unknown", f"{error.problem}, so nothing tells whether it serves {settings.model}")
        if role.name == "judge_model" and error.kind in {"timeout", "transport"}:
            found = f"{error.problem}; only `medvrag judge` needs it, so it may be started later"
            return Finding("unknown", found, error.way_out, stops=True)
        return Finding("failed", error.problem, error.way_out, stops=True)
    if settings.model in served:
        return Finding("ok", f"{settings.base_url} serves {settings.model}")
    listed = ", ".join(f"'{name[:120]}'" for name in served[:_NAMES_SHOWN])
    more = f" and {len(served) - _NAMES_SHOWN} more" if len(served) > _NAMES_SHOWN else ""
    return Finding(
        "failed",
        f"{settings.base_url} does not serve '{settings.model}', it serves {listed}{more}",
        f"correct '{role.name}.model', or start vLLM with --served-model-name (llama.cpp: --alias) {settings.model}",
    )


def check_revision(role: Role) -> Finding:
    """Which weights are loaded; no server tells, unless its model lies in a folder that is named by the commit."""
    settings = role.settings
    version = role.look("/version").get("version")
    program = f"vLLM {version[:40]}" if isinstance(version, str) else "the server"
    if not settings.revision:
        return Finding(
            "unknown",
            f"the run is not pinned: '{role.name}.revision' is empty, and {program} does not tell which weights it has",
            f"set '{role.name}.revision' to the commit of the weights, and start the server with `medvrag serve`",
        )
    if settings.revision in str(role.entry.get("root") or ""):
        return Finding("ok", f"{program} has its weights from a folder of revision {settings.revision}")
    return Finding(
        "unknown",
        f"{program} does not tell whether its weights are of revision {settings.revision}",
        f"start it with `medvrag serve`, or vLLM with --revision {settings.revision}",
    )


def check_context(role: Role) -> Finding:
    """Whether the server's context is as long as the profile thinks."""
    wanted = SCORING_TOKENS if role.scores_only else role.settings.context_tokens
    has = server_context(role)
    if has is None:
        return Finding("unknown", f"the server does not tell its context; the profile counts on {wanted:,} tokens")
    if has >= wanted:
        return Finding("ok", f"the server's context of {has:,} tokens holds the {wanted:,} that are counted on")
    lower = "" if role.scores_only else f"lower '{role.name}.context_tokens' to {has}, or "
    return Finding(
        "failed",
        f"the server's context has {has:,} tokens, the profile counts on {wanted:,}",
        f"{lower}start the server with a longer one (vLLM: --max-model-len {wanted}; llama.cpp: --ctx-size {wanted})",
    )


def server_context(role: Role) -> int | None:
    """Tokens of prompt and reply together, as vLLM, hosted services and llama.cpp tell it; None if they do not."""
    meta = role.entry.get("meta")
    props = role.look("/props").get("default_generation_settings")
    told: list[Any] = [
        role.entry.get("max_model_len"),
        role.entry.get("context_length"),
        # Of one slot; the model's own n_ctx_train says nothing of this server.
        props.get("n_ctx") if isinstance(props, dict) else None,
        meta.get("n_ctx") if isinstance(meta, dict) else None,
    ]
    return next((value for value in told if isinstance(value, int) and value > 0), None)


def check_tokens(role: Role) -> Finding:
    """Whether tokens can be counted as the profile says."""
    change = f"set '{role.name}.tokenizer' to estimate, or to the path of the model's tokenizer.json"
    try:
        counter = make_counter(role.settings, role.post)
        count = counter.count(_CANARY)
    except MedvragError as error:
        return Finding("failed", error.problem, change)
    if count <= 0:
        return Finding("failed", f"{counter.name} counts {count} tokens in {len(_CANARY)} characters", change)
    return Finding("ok", f"{counter.name} counts {count} tokens in {len(_CANARY)} characters")
