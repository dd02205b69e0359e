"""The start-up check of model servers: what would end a run, or spoil it without a word, is found in a few calls.

Wrong names, short contexts, image limits, shrunken pages, schemas that nobody enforces: each has its own check, and
each failure names the setting to change. One failure does not hide the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from medvrag_core.errors import MedvragError
from medvrag_core.models.checks.base import Finding, Role, RoleName, State
from medvrag_core.models.checks.configured import check_room, check_settings
from medvrag_core.models.checks.pages import check_images, check_pixels
from medvrag_core.models.checks.replies import check_likelihood, check_reply, check_schema, check_thinking
from medvrag_core.models.checks.served import check_context, check_revision, check_server, check_tokens
from medvrag_core.models.reply_text import neutral
from medvrag_core.models.secrets import without_keys
from medvrag_core.models.serving.options import Phase
from medvrag_core.records import Record
from medvrag_core.settings import Profile

Examine = Callable[[Role], Finding]

_SERVED: dict[str, Examine] = {"server": check_server, "revision": check_revision, "context": check_context}
_CALLED: dict[str, Examine] = {"tokens": check_tokens, "reply": check_reply}
_SETTINGS: dict[str, Examine] = {"settings": check_settings, "room": check_room}
_LONGEST = 600


class Check(Record):
    """One check of one model.

    Attributes
    ----------
    role : ``index``, or field of the profile: ``filter_model``, ``reader_model``, ``helper_model``,
        ``generator_model``, ``judge_model``, ``serve.summary_model``; with the server where there are several
    state : ``unknown`` where the server does not tell, ``skipped`` where the check has no object
    found : one sentence
    change : setting, or flag of the server, that mends a failure or settles what is unknown; else empty
    """

    role: str
    name: str
    state: State
    found: str
    change: str = ""


class DoctorReport(Record):
    """All checks of a profile; ``ok`` when none failed, also for a profile without model servers."""

    profile: str
    ok: bool
    checks: tuple[Check, ...]


def report_of(profile: Profile, checks: Iterable[Check]) -> DoctorReport:
    """Sum up checks."""
    done = tuple(checks)
    return DoctorReport(profile=profile.name, ok=all(check.state != "failed" for check in done), checks=done)


def roles_of(profile: Profile, phase: Phase = "questions") -> tuple[RoleName, ...]:
    """Models of a profile that stand behind servers while questions are answered, or while pages are summarized.

    >>> from medvrag_core.profiles.load import load_profile
    >>> roles_of(load_profile("a100"), "summaries")
    ('serve.summary_model',)
    >>> roles_of(load_profile("a100")), roles_of(load_profile("cpu"))
    (('filter_model', 'reader_model', 'helper_model', 'generator_model', 'judge_model'), ())
    """
    if phase == "summaries":
        captions = bool(profile.serve.summary_model.model) and profile.text.page_text == "captions"
        return ("serve.summary_model",) if captions or profile.corpus.summarizer == "model" else ()
    # The likelihood reader starts a server of its own where no address is given.
    scored = profile.reader.name == "likelihood" and bool(profile.reader_model.base_url)
    used: list[RoleName] = ["filter_model"] if profile.filter.ranker == "llm" else []
    if scored or profile.reader.name == "vlm":
        used.append("reader_model")
    if profile.helper.name == "llm":
        used.append("helper_model")
    if profile.helper.generator == "llm":
        used.append("generator_model")
    return (*used, "judge_model") if profile.judge_model.model else tuple(used)


def run_checks(profile: Profile, phase: Phase = "questions") -> Iterator[Check]:
    """Examine every server of every model that a phase of a profile needs, the cheapest checks first.

    Each check is told once it is done.

    No error of a server ends this: it is what the checks are about. No text of it holds a key.
    """
    for name in roles_of(profile, phase):
        for server in range(Role(name, profile).servers):
            role = Role(name, profile, server)
            try:
                yield from _examined(role)
            finally:
                role.close()


def _examined(role: Role) -> Iterator[Check]:
    stopped = ""
    for name, examine in _checks_of(role).items():
        if stopped:
            yield Check(role=role.label, name=name, state="skipped", found=f"not tried after '{stopped}' failed")
            continue
        try:
            finding = examine(role)
        except MedvragError as error:
            finding = Finding("failed", error.problem, error.way_out)
        stopped = name if finding.stops else ""
        yield Check(
            role=role.label,
            name=name,
            state=finding.state,
            found=_shown(role, finding.found),
            change=_shown(role, role.qualified(finding.change)),
        )


def _checks_of(role: Role) -> dict[str, Examine]:
    if role.scores_only:
        return {"settings": check_settings} | _SERVED | {"likelihood": check_likelihood}
    if role.name == "generator_model":
        return _SETTINGS | _SERVED | _CALLED | {"thinking": check_thinking}
    if role.name not in ("reader_model", "serve.summary_model"):
        return _SETTINGS | _SERVED | _CALLED | {"schema": check_schema, "thinking": check_thinking}
    return _SETTINGS | _SERVED | _CALLED | {"images": check_images, "pixels": check_pixels}


def _shown(role: Role, text: str) -> str:
    """Text that a server may have written, made fit for a terminal."""
    return neutral(without_keys(text, role.settings.key_env), _LONGEST)
