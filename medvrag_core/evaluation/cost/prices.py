"""What calls and machines cost: a price table that the user fills in. The project ships no price."""

from __future__ import annotations

import datetime
from importlib import resources
from pathlib import Path
from typing import Literal, Self, get_args

from pydantic import Field, ValidationError, model_validator

from medvrag_core.errors import InputError
from medvrag_core.records import Record, describe_validation_error
from medvrag_core.strict_yaml import strict_yaml

Role = Literal["filter", "reader", "helper", "generator"]
_MILLION = 1_000_000
_WAY_OUT = "`medvrag cost --price-template` prints one to fill in"


class ModelPrices(Record):
    """Prices of one model's calls; what is left out is not charged."""

    prompt_per_million: float = Field(0.0, ge=0, allow_inf_nan=False, description="a million prompt tokens")
    completion_per_million: float = Field(0.0, ge=0, allow_inf_nan=False, description="a million tokens written")
    per_image: float = Field(
        0.0, ge=0, allow_inf_nan=False, description="an image sent, where it is charged beside its tokens"
    )


class PriceTable(Record):
    """Prices in one currency, with the day and the place they were read.

    Tokens and images are charged by role, since filter, reader, helper and generator are different models.
    ``gpu_hour`` is the price of one of ``gpus`` rented GPUs; they charge every second of a question, waiting for a
    model included.
    """

    currency: str = Field(min_length=1, max_length=12)
    date: datetime.date
    source: str = Field(min_length=1, description="where the prices were read")
    filter: ModelPrices = ModelPrices()
    reader: ModelPrices = ModelPrices()
    helper: ModelPrices = ModelPrices()
    generator: ModelPrices = ModelPrices()
    gpu_hour: float = Field(0.0, ge=0, allow_inf_nan=False)
    gpus: int = Field(1, ge=1)

    @model_validator(mode="after")
    def _charges_something(self) -> Self:
        of_roles = [price for role in get_args(Role) for price in getattr(self, role).model_dump().values()]
        if not any((self.gpu_hour, *of_roles)):
            raise ValueError("no price is given")
        return self

    def of_calls(self, role: Role, *, prompt_tokens: int, completion_tokens: int, images: int = 0) -> float:
        """Money for calls of one role.

        >>> table = PriceTable(currency="X", date="2026-01-01", source="s", filter={"prompt_per_million": 2.0})
        >>> table.of_calls("filter", prompt_tokens=500_000, completion_tokens=9)
        1.0
        """
        prices: ModelPrices = getattr(self, role)
        return (
            prompt_tokens * prices.prompt_per_million / _MILLION
            + completion_tokens * prices.completion_per_million / _MILLION
            + images * prices.per_image
        )

    def of_seconds(self, seconds: float) -> float:
        """Money for the GPUs."""
        return seconds * self.gpus * self.gpu_hour / 3600


def read_prices(path: Path) -> PriceTable:
    """Read a price table from YAML.

    Raises
    ------
    InputError
        No such file, not YAML, a key twice, an unknown or missing field, a price below zero, or no price at all.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file", way_out=_WAY_OUT)
    try:
        return PriceTable.model_validate(strict_yaml(path.read_bytes(), str(path), way_out=_WAY_OUT))
    except ValidationError as error:
        raise InputError(f"{path}: {describe_validation_error(error)}", way_out=_WAY_OUT) from None


def price_template() -> str:
    """A price table without prices, to fill in."""
    return (resources.files("medvrag_core.evaluation.cost") / "prices.yaml").read_text(encoding="utf-8")
