"""Families of late-interaction encoders in colpali-engine, by the name that ``encoder.name`` gives them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from medvrag_core.encoders.extra import gpu_packages
from medvrag_core.encoders.grids import TokenBoxes, merged_boxes, square_boxes, tiled_boxes
from medvrag_core.errors import MedvragError, SettingsError


@dataclass(frozen=True)
class Family:
    """One architecture; any weights of it are named by ``encoder.model``.

    Attributes
    ----------
    model, processor : names of classes in ``colpali_engine.models``
    boxes : where its image tokens look
    query_prefix : what its published weights were trained with, where that is known (None: it is not)
    """

    model: str
    processor: str
    boxes: TokenBoxes
    query_prefix: str | None = None


FAMILIES = {
    "colpali": Family("ColPali", "ColPaliProcessor", square_boxes, "Query: "),
    "colqwen2": Family("ColQwen2", "ColQwen2Processor", merged_boxes, "Query: "),
    "colqwen2.5": Family("ColQwen2_5", "ColQwen2_5_Processor", merged_boxes, "Query: "),
    "colqwen3": Family("ColQwen3", "ColQwen3Processor", merged_boxes),
    "colqwen3.5": Family("ColQwen3_5", "ColQwen3_5Processor", merged_boxes),
    "colsmol": Family("ColIdefics3", "ColIdefics3Processor", tiled_boxes, "Query: "),
    "colmodernvbert": Family("ColModernVBert", "ColModernVBertProcessor", tiled_boxes),
}
"""ColNomic is a ColQwen2.5 or ColQwen2 by its weights. Prefixes: mteb's wrappers (its pull request 5207).

ColGemma3 and ColQwen2.5-Omni are left out: in colpali-engine 0.3.18 their processors do not tell which tokens are those
of the image, and neither lets the number of visual tokens be capped.
"""


def family_classes(name: str) -> tuple[Any, Any]:
    """Model and processor class of a family.

    Raises
    ------
    SettingsError : there is no such family
    MedvragError : a package is missing, or the installed colpali-engine does not have the family
    """
    family = FAMILIES.get(name)
    if family is None:
        raise SettingsError(
            f"encoder.name: '{name}' is no family of colpali-engine", way_out=f"use one of {', '.join(FAMILIES)}"
        )
    with gpu_packages(f"encoder '{name}'"):
        import peft  # noqa: F401  (transformers opens adapters with it)
        from colpali_engine import models
    for wanted in (family.model, family.processor):
        if not hasattr(models, wanted):
            raise MedvragError(
                f"encoder '{name}': the installed colpali-engine has no {wanted}",
                way_out="install the release that requirements and environment.yml name",
            )
    return getattr(models, family.model), getattr(models, family.processor)
