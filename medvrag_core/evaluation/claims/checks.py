"""Whether the states of the claims are true: derived anew from a run and from the audit, never taken on trust."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medvrag_core.errors import InputError, MedvragError
from medvrag_core.evaluation.audit.paper import load_paper
from medvrag_core.evaluation.audit.report import audit_paper
from medvrag_core.evaluation.benchmarks.load import MIRAGE_SIZES
from medvrag_core.evaluation.claims.table import METRIC_PATH, Claim, Claims, ClaimStatus
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import Record, RunRecord, Trace
from medvrag_core.runs.stage import read_stage
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import trace_path

_MODELS = {
    "encoder": ("name", "model"),
    "filter": ("ranker",),
    "filter_model": ("model",),
    "reader": ("name",),
    "reader_model": ("model",),
}
"""Settings that make a profile one of the paper's models; the profile ``a100`` holds their values."""
_PAGES_ENOUGH = 0.9
_STEP = re.compile(r"\.?([^.\[\]]+)|\[([^\[\]]+)\]")


class ClaimCheck(Record):
    """What a run and the audit say about one claim.

    ``status`` is derived from them (null where nothing could be derived), ``stated`` is what the row says, and
    ``problems`` tell why the row is not true.
    """

    claim: Claim
    values: dict[str, float]
    status: ClaimStatus | None
    problems: tuple[str, ...]

    @property
    def stated(self) -> ClaimStatus:
        """The status that the row states."""
        return self.claim.status


class ClaimsReport(Record):
    """All checks; ``below_scale`` says what the run lacks to be one of the paper's scale."""

    source: str
    run: str | None
    below_scale: tuple[str, ...]
    checks: tuple[ClaimCheck, ...]

    @property
    def true(self) -> bool:
        """Whether every row states what is so."""
        return not any(check.problems for check in self.checks)


def check_claims(claims: Claims, run: Path | None = None) -> ClaimsReport:
    """Check every row against the audit and, where a run is given, against its records and traces.

    Without a run, rows that state a measurement are left without values, and only their grounds are checked.
    """
    verdicts = {finding.id: str(finding.verdict) for finding in audit_paper().findings}
    below = below_scale(run) if run is not None else ("no run is named",)
    return ClaimsReport(
        source=claims.source,
        run=run.name if run is not None else None,
        below_scale=below,
        checks=tuple(_checked(claim, run, below, verdicts) for claim in claims.rows),
    )


def below_scale(run: Path) -> tuple[str, ...]:
    """What keeps a run from the paper's scale: other models, fewer pages, fewer questions; empty at the scale."""
    try:
        loop = read_stage(run, "reasoning_loop", made_by="notebook 04_reasoning_loop")
        corpus = read_stage(run, "corpus_build", made_by="notebook 01_corpus_build")
    except MedvragError as error:
        return (str(error),)
    wanted = load_profile("a100").model_dump(mode="json")
    told = []
    for section, fields in _MODELS.items():
        for field in fields:
            used, asked = loop.settings.get(section, {}).get(field), wanted[section][field]
            if used != asked:
                told.append(f"{section}.{field} is '{used}', not '{asked}'")
    pages, questions = corpus.metrics.get("pages", 0), loop.metrics.get("n", 0)
    if pages < _PAGES_ENOUGH * float(load_paper().number("pages").value):
        told.append(f"{pages:,} pages, the paper has {load_paper().shown('pages')}")
    if questions < sum(MIRAGE_SIZES.values()):
        told.append(f"{questions:,} questions, the paper has {sum(MIRAGE_SIZES.values()):,}")
    return tuple(told)


def measured_value(run: Path, path: str) -> float:
    """The number that a run keeps under ``source: path``.

    ``a.b`` goes into objects, ``[key=value,...]`` picks the one element of a list that has these values, and
    ``length`` counts a list. Of a stage record the path starts in its metrics, or at ``settings``.

    Raises
    ------
    InputError : no record or trace, no such entry, several elements fit, or it is no number
    """
    found = METRIC_PATH.fullmatch(path)
    if found is None:
        raise InputError(f"'{path}' is no 'stage: path'")
    value: Any = _source(run, found["source"])
    for name, selector in _STEP.findall(found["path"]):
        value = _selected(value, selector, path) if selector else _entry(value, name, path)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{path}: is no number, but {json.dumps(value)[:60]}")
    return float(value)


def _source(run: Path, source: str) -> Any:
    kind, _, rest = source.partition("/")
    if rest:
        system, _, question = rest.partition("/")
        file = trace_path(Workspace(run), system, question)
        if not file.is_file():
            raise InputError(f"run '{run.name}' has no trace of question '{question}' by system '{system}'")
        return Trace.from_json(file.read_bytes(), source=str(file)).model_dump(mode="json")
    record: RunRecord = read_stage(run, kind, made_by="the chapter of the claim")
    return {**record.metrics, "settings": record.settings}


def _entry(value: Any, name: str, path: str) -> Any:
    if isinstance(value, Mapping) and name in value:
        return value[name]
    if isinstance(value, list) and name == "length":
        return len(value)
    raise InputError(f"{path}: there is no '{name}'")


def _selected(value: Any, selector: str, path: str) -> Any:
    wanted = dict(part.split("=", 1) for part in selector.split(",") if "=" in part)
    fits = [
        item
        for item in (value if isinstance(value, list) else [])
        if isinstance(item, Mapping) and all(str(item.get(k)) == v for k, v in wanted.items())
    ]
    if len(fits) != 1 or not wanted:
        raise InputError(f"{path}: {len(fits)} elements fit [{selector}], one is needed")
    return fits[0]


def _checked(claim: Claim, run: Path | None, below: tuple[str, ...], verdicts: Mapping[str, str]) -> ClaimCheck:
    problems = []
    for check, stated in claim.audit.items():
        if verdicts.get(check) != stated:
            problems.append(f"check '{check}' of the audit {verdicts.get(check, 'does not exist')}, stated: {stated}")
    values: dict[str, float] = {}
    status: ClaimStatus | None = claim.status
    if claim.measured:
        status = None
        if run is not None:
            values, faults = _values(claim, run, at_scale=not below)
            problems += faults
            status = None if faults else _derived(claim, values, at_scale=not below)
            if status is not None and status != claim.status:
                problems.append(f"stated '{claim.status}', the run says '{status}'")
    return ClaimCheck(claim=claim, values=values, status=status, problems=tuple(problems))


def _values(claim: Claim, run: Path, *, at_scale: bool) -> tuple[dict[str, float], list[str]]:
    values, faults = {}, []
    for name, path in {**claim.measured, **(claim.at_scale if at_scale else {})}.items():
        try:
            values[name] = claim.factor * measured_value(run, path)
        except MedvragError as error:
            faults.append(str(error))
    return values, faults


def _derived(claim: Claim, values: Mapping[str, float], *, at_scale: bool) -> ClaimStatus:
    """Only a run of the paper's scale is compared."""
    if not at_scale or claim.tolerance is None:
        return "scaled down"
    off = max(abs(values[name] - expected) for name, expected in claim.paper.items())
    return "reproduced" if off <= claim.tolerance else "differs"
