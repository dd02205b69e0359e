"""Every table, figure and quoted number of the paper: where the book meets it and how far it got."""

from __future__ import annotations

from collections import Counter
from importlib import resources
from pathlib import Path
from typing import Literal

import yaml
from pydantic import TypeAdapter, ValidationError

from medvrag_core.errors import InputError
from medvrag_core.records import Record, describe_validation_error

Chapter = Literal[
    "01_corpus_build",
    "02_indexing",
    "03_filter",
    "04_reasoning_loop",
    "05_ablations",
    "06_latency",
    "07_error_analysis",
]
ClaimStatus = Literal["reproduced", "scaled down", "needs A100, not run", "not run", "audit"]


class Claim(Record):
    """One number or picture of the paper.

    ``status`` says what the book did with it: ``reproduced`` (same quantity at the paper's scale),
    ``scaled down`` (same quantity, embedded models and a small corpus), ``needs A100, not run`` (code
    is here, the hardware was not), ``not run`` (needs people or data that were not at hand), ``audit``
    (copied by the paper from elsewhere or derived from its own numbers; checked on paper).
    """

    id: str
    where: str
    what: str
    paper: str
    chapter: Chapter
    command: str
    status: ClaimStatus
    note: str = ""


def load_claims(path: Path | None = None) -> list[Claim]:
    """Read the claims that ship with the package, or another file of the same form.

    Raises :class:`InputError` naming the file, the claim and the field; ids must not repeat.
    """
    name = "claims.yaml" if path is None else str(path)
    if path is None:
        text = (resources.files("medvrag_core.evaluation") / "claims.yaml").read_text(encoding="utf-8")
    elif path.is_file():
        text = path.read_text(encoding="utf-8")
    else:
        raise InputError(f"{path}: no such file")
    try:
        claims = TypeAdapter(list[Claim]).validate_python(yaml.safe_load(text))
    except yaml.YAMLError as error:
        raise InputError(f"{name}: not valid YAML ({str(error).splitlines()[0]})") from None
    except ValidationError as error:
        raise InputError(f"{name}: {describe_validation_error(error)} (claims count from 0)") from None
    repeated = [i for i, count in Counter(claim.id for claim in claims).items() if count > 1]
    if repeated:
        raise InputError(f"{name}: claim '{repeated[0]}' stands twice")
    return claims
