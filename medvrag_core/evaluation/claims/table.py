"""Every table, figure and quoted number of the paper as data: what it says, and what this project did about it.

The rows lie in ``book/claims.yml``, outside of the package; :mod:`medvrag_core.evaluation.claims.checks` compares what
they state with a run and with the audit.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from medvrag_core.errors import InputError
from medvrag_core.evaluation.audit.finding import Verdict
from medvrag_core.records import Record, describe_validation_error
from medvrag_core.runs.workspace import project_root
from medvrag_core.strict_yaml import strict_yaml

ClaimStatus = Literal["reproduced", "differs", "scaled down", "audited", "not run"]
STATUSES: dict[ClaimStatus, str] = {
    "reproduced": "measured at the paper's scale, within the tolerance of what was expected",
    "differs": "measured at the paper's scale, outside of the tolerance",
    "scaled down": "the same quantity, measured by the embedded models on the demo corpus; no verdict on the paper",
    "audited": "not measured; a check of the audit covers it, with the outcome that the row states",
    "not run": "needs a GPU, people or data that were not at hand",
}
Needs = Literal["gpu", "people", "data"]

METRIC_PATH = re.compile(r"(?P<source>[\w-]+|trace/[\w-]+/[^\s:]+): (?P<path>\S.*)")
"""``stage: path`` into the record of a stage, or ``trace/system/question: path`` into a stored trace."""


class Claim(Record):
    """One number, group of numbers, or picture of the paper.

    ``paper`` holds its numbers in ``unit``, by name; they are what is expected of a run at the paper's scale, within
    ``tolerance``. ``measured`` tells for each name where a run keeps the number (see :data:`METRIC_PATH`), ``at_scale``
    the same for numbers that only a run on the paper's question sets has; ``factor`` turns what is kept into ``unit``.
    ``audit`` maps checks of the audit to their outcome.
    """

    id: str
    where: str
    also: tuple[str, ...] = Field((), description="further places of the paper where these numbers stand")
    what: str
    paper: dict[str, float] = Field(min_length=1)
    approximate: bool = Field(False, description="the paper marks the numbers with a ~")
    unit: str = ""
    tolerance: float | None = Field(None, ge=0)
    chapter: str
    command: str
    measured: dict[str, str] = Field(default_factory=dict)
    at_scale: dict[str, str] = Field(default_factory=dict)
    factor: float = 1.0
    audit: dict[str, Verdict] = Field(default_factory=dict)
    needs: Needs | None = None
    status: ClaimStatus
    note: str = ""

    @field_validator("measured", "at_scale")
    @classmethod
    def _paths_are_paths(cls, paths: dict[str, str]) -> dict[str, str]:
        for path in paths.values():
            if not METRIC_PATH.fullmatch(path):
                raise ValueError(f"'{path}' is no 'stage: path'")
        return paths

    @model_validator(mode="after")
    def _status_has_its_grounds(self) -> Self:
        measured = self.status in ("reproduced", "differs", "scaled down")
        if measured != bool(self.measured):
            raise ValueError(f"status '{self.status}' {'needs' if measured else 'goes with no'} 'measured'")
        if measured and self.tolerance is None:
            raise ValueError("what is measured needs a tolerance")
        if measured and self.measured.keys() | self.at_scale.keys() != self.paper.keys():
            raise ValueError("'measured' and 'at_scale' must name the numbers of 'paper', no less and no more")
        if self.status == "audited" and not self.audit:
            raise ValueError("status 'audited' needs the checks that cover it")
        if (self.status == "not run") != (self.needs is not None):
            raise ValueError("'needs' goes with status 'not run', and with no other")
        return self


class Ignored(Record):
    """Numbers of the paper that claim nothing."""

    where: str
    numbers: tuple[float, ...]
    reason: str


class Claims(Record):
    """All rows, and what is left out."""

    source: str
    rows: tuple[Claim, ...]
    ignored: tuple[Ignored, ...] = ()


def load_claims(path: Path | None = None) -> Claims:
    """Read ``book/claims.yml`` of this checkout, or another file of the same form.

    Raises :class:`InputError` naming the file, the claim and the field; ids must not repeat.
    """
    path = project_root() / "book" / "claims.yml" if path is None else path
    if not path.is_file():
        raise InputError(f"{path}: no such file", way_out="name the file of claims")
    data = strict_yaml(path.read_bytes(), str(path))
    try:
        claims = Claims.model_validate({**data, "source": path.name} if isinstance(data, dict) else data)
    except ValidationError as error:
        raise InputError(f"{path}: {describe_validation_error(error)} (rows count from 0)") from None
    repeated = [i for i, count in Counter(claim.id for claim in claims.rows).items() if count > 1]
    if repeated:
        raise InputError(f"{path}: claim '{repeated[0]}' stands twice")
    return claims
