"""What all records have in common."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from medvrag_core.errors import InputError

SCHEMA_VERSION = 1


class Record(BaseModel):
    """Base of all JSON records: frozen, unknown fields refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def to_json(self) -> str:
        """One line of JSON; :meth:`from_json` reads it back to an equal record."""
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str | bytes, *, source: str = "JSON text") -> Self:
        """Read a record; raises :class:`InputError` naming ``source`` and the field."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise InputError(f"{source}: {describe_validation_error(error)}") from None


def describe_validation_error(error: ValidationError) -> str:
    """The first fault of a pydantic error in plain words, with the path of the field."""
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"unknown field '{field}'"
    if first["type"] == "missing":
        return f"field '{field}' is missing"
    mapping = first["type"] in ("model_type", "model_attributes_type")
    said = "must be a mapping of fields" if mapping else first["msg"].removeprefix("Value error, ").lower()
    return f"field '{field}': {said}" if field else f"the whole record: {said}"
