"""What one page, one vector, one call costs, and how that is known; ``unit_costs.yaml`` holds the values."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from medvrag_core.errors import InputError
from medvrag_core.records import Record, describe_validation_error
from medvrag_core.strict_yaml import strict_yaml

Kind = Literal["measured", "paper", "assumed"]
KINDS: tuple[Kind, ...] = ("measured", "paper", "assumed")
"""From the firmest to the weakest."""


class UnitCost(Record):
    """One number with its unit, and how it is known.

    Attributes
    ----------
    kind : ``measured`` here, printed in the ``paper``, or ``assumed``
    source : the command that measured it and on what, the place in the paper, or why it is assumed
    """

    value: float = Field(ge=0, allow_inf_nan=False)
    unit: str = Field(min_length=1)
    kind: Kind
    source: str = Field(min_length=1)


UnitCosts = Mapping[str, UnitCost]


def shipped_costs() -> dict[str, UnitCost]:
    """The values that come with the package."""
    file = shipped_file()
    return _parsed(file.read_text(encoding="utf-8"), str(file))


def shipped_file() -> Path:
    """Where they are kept."""
    return Path(str(resources.files("medvrag_core.evaluation.cost").joinpath("unit_costs.yaml")))


def read_costs(path: Path) -> dict[str, UnitCost]:
    """The shipped values with those of a file of the same form in their place, for another machine.

    Raises
    ------
    InputError : the file is missing, not of that form, or names a cost that no plan asks for
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    shipped, given = shipped_costs(), _parsed(text, str(path))
    strangers = sorted(given.keys() - shipped.keys())
    if strangers:
        raise InputError(
            f"{path}: no plan asks for '{strangers[0]}'", way_out=f"known are {', '.join(sorted(shipped))}"
        )
    return shipped | given


def weakest(costs: UnitCosts, names: tuple[str, ...]) -> Kind:
    """How the least firm of some costs is known.

    >>> cost = dict(value=1, unit="s", source="x")
    >>> weakest({"a": UnitCost(kind="paper", **cost), "b": UnitCost(kind="measured", **cost)}, ("a", "b"))
    'paper'
    """
    return max((costs[name].kind for name in names), key=KINDS.index, default="measured")


def _parsed(text: str, source: str) -> dict[str, UnitCost]:
    entries: Any = strict_yaml(text, source)
    if not isinstance(entries, dict):
        raise InputError(f"{source}: is no table of unit costs")
    try:
        return {str(name): UnitCost.model_validate(entry) for name, entry in entries.items()}
    except ValidationError as error:
        raise InputError(f"{source}: {describe_validation_error(error)}") from None
