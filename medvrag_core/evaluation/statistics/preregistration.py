"""What will be compared and how, written down before the first scored run; the SHA-256 of the file is the seal."""

from __future__ import annotations

import datetime
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Self

from pydantic import Field, ValidationError, model_validator

from medvrag_core.errors import InputError
from medvrag_core.evaluation.statistics.estimands import ESTIMANDS, Estimand
from medvrag_core.records import Record, describe_validation_error
from medvrag_core.strict_yaml import strict_yaml

_WAY_OUT = "`medvrag power --template` prints one to fill in"


class Preregistration(Record):
    """Arms, sets, families of contrasts, and the rules of decision.

    A family maps the name of a contrast to its two arms, ``[a, b]``: ``b`` is compared with ``a``. Holm's correction
    runs over each family, for every estimand apart, and over all contrasts times sets for the tests of single sets.
    """

    title: str
    registered: datetime.date
    sets: dict[str, int] = Field(description="questions of every set")
    arms: dict[str, str] = Field(description="system to what it is")
    families: dict[str, dict[str, tuple[str, str]]]
    primary: tuple[Estimand, ...] = ESTIMANDS
    alpha: float = Field(0.05, gt=0, lt=0.5)
    margin: float = Field(1.0, gt=0, description="points within which a difference does not matter")
    seeds: int = Field(1, ge=1, description="runs of every arm")
    resamples: int = Field(10_000, ge=100, description="of the bootstrap")
    permutations: int = Field(100_000, ge=1_000, description="of the sign-flip test")
    seed: int = Field(42, description="of the resampling")
    exclusions: str = Field(description="questions left out, and why")
    stopping: str = Field(description="when the runs end")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not self.families or not all(self.families.values()):
            raise ValueError("every family needs a contrast")
        if not self.sets or min(self.sets.values()) < 1:
            raise ValueError("every set needs questions")
        seen: set[frozenset[str]] = set()
        for family, contrasts in self.families.items():
            for name, pair in contrasts.items():
                unknown = [arm for arm in pair if arm not in self.arms]
                if unknown:
                    raise ValueError(f"contrast '{family}.{name}' names '{unknown[0]}', which is no arm")
                if pair[0] == pair[1]:
                    raise ValueError(f"contrast '{family}.{name}' compares an arm with itself")
                if frozenset(pair) in seen:
                    raise ValueError(f"contrast '{family}.{name}' stands twice")
                seen.add(frozenset(pair))
        return self

    def family_of(self, a: str, b: str) -> str | None:
        """The family that holds the contrast of two arms, in either direction."""
        return next((f for f, c in self.families.items() if any(set(pair) == {a, b} for pair in c.values())), None)


class Registered(Record):
    """A pre-registration with the SHA-256 of the bytes of its file."""

    sha256: str
    content: Preregistration


def read_preregistration(path: Path) -> Registered:
    """Read a pre-registration from YAML.

    Raises
    ------
    InputError : no such file, not YAML, a key stands twice, a field is missing or unusable
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file", way_out="give the YAML file of a pre-registration")
    raw = path.read_bytes()
    try:
        content = Preregistration.model_validate(strict_yaml(raw, str(path), way_out=_WAY_OUT))
    except ValidationError as error:
        raise InputError(f"{path}: {describe_validation_error(error)}", way_out=_WAY_OUT) from None
    return Registered(sha256=sha256(raw).hexdigest(), content=content)


def template() -> str:
    """A pre-registration of the paper's three components, to fill in."""
    return (resources.files("medvrag_core.evaluation.statistics") / "preregistration.yaml").read_text(encoding="utf-8")
