"""All stages together, and how two such sets of settings are compared."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from pydantic import BaseModel, Field

from medvrag_core.settings.answering import ControlSettings, EvaluationSettings, LoopSettings, ReaderSettings
from medvrag_core.settings.base import StageSettings, cores
from medvrag_core.settings.cluster import RaySettings
from medvrag_core.settings.models import WHERE_FIELDS, CallSettings, ModelSettings, ServeSettings
from medvrag_core.settings.pages import LOADER_FIELDS, CorpusSettings, EncoderSettings
from medvrag_core.settings.search import MACHINE_FIELDS, FilterSettings, IndexSettings, TextSettings
from medvrag_core.settings.systems import (
    HelperSettings,
    IMedRagSettings,
    MedRagSettings,
    MedRgagSettings,
    VisRagSettings,
)


def _later(made: StageSettings, description: str = "") -> Any:
    """A stage that is left out of files while it is the default: runs of old go on under their old fingerprints."""
    return Field(made, exclude_if=lambda settings: settings == made, description=description)


class Profile(StageSettings):
    """All stages together; what a YAML file under ``medvrag_core/profiles`` describes."""

    name: str
    note: str = ""
    seed: int = 42
    workers: int = Field(0, ge=0, description="processes for CPU work; 0: one a core")
    corpus: CorpusSettings = CorpusSettings()
    encoder: EncoderSettings = EncoderSettings()
    index: IndexSettings = IndexSettings()
    filter: FilterSettings = FilterSettings()
    filter_model: ModelSettings = ModelSettings()
    reader: ReaderSettings = ReaderSettings()
    reader_model: ModelSettings = ModelSettings()
    judge_model: ModelSettings = _later(
        ModelSettings(), "labels pages as relevant for `medvrag judge`; no part of any answer"
    )
    loop: LoopSettings = LoopSettings()
    control: ControlSettings = ControlSettings()
    calls: CallSettings = CallSettings()
    serve: ServeSettings = ServeSettings()
    text: TextSettings = TextSettings()
    helper: HelperSettings = _later(HelperSettings())
    helper_model: ModelSettings = _later(ModelSettings(), "of the tasks that `helper.name` tells")
    generator_model: ModelSettings = _later(ModelSettings(), "writes background documents")
    medrag: MedRagSettings = _later(MedRagSettings())
    i_medrag: IMedRagSettings = _later(IMedRagSettings())
    visrag: VisRagSettings = _later(VisRagSettings())
    medrgag: MedRgagSettings = _later(MedRgagSettings())
    evaluation: EvaluationSettings = EvaluationSettings()
    ray: RaySettings = _later(RaySettings())

    @property
    def processes(self) -> int:
        """How many processes do CPU work side by side on this machine."""
        return self.workers or cores()


RESULT_BLIND = ("note", "workers", "evaluation", "calls", "serve", "judge_model", "ray")
"""Fields of a profile, beside its name, that cannot change an answer."""


def answering_settings(profile: Profile) -> Profile:
    """The profile with the default in every field that cannot change an answer, for comparison and fingerprints.

    >>> here = Profile(name="a", reader_model=ModelSettings(base_url="http://127.0.0.1:1/v1"))
    >>> there = Profile(name="b", calls=CallSettings(in_flight=99))
    >>> answering_settings(here) == answering_settings(there)
    True
    """
    return profile.with_defaults(RESULT_BLIND).model_copy(
        update={
            "name": "",
            "corpus": profile.corpus.with_defaults(("licence", "pmc", "exclusion")),
            "encoder": profile.encoder.with_defaults(LOADER_FIELDS),
            "index": profile.index.with_defaults(MACHINE_FIELDS),
            "filter_model": profile.filter_model.with_defaults(WHERE_FIELDS),
            "reader_model": profile.reader_model.with_defaults(WHERE_FIELDS),
            "helper_model": profile.helper_model.with_defaults(WHERE_FIELDS),
            "generator_model": profile.generator_model.with_defaults(WHERE_FIELDS),
        }
    )


def fingerprint(settings: BaseModel) -> str:
    """Sixteen hex digits that change when any field changes.

    >>> fingerprint(LoopSettings()) == fingerprint(LoopSettings(max_rounds=2))
    False
    """
    text = json.dumps(settings.model_dump(mode="json"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def differences(stored: dict[str, Any], current: dict[str, Any], prefix: str = "") -> list[str]:
    """Fields that differ between two resolved settings, each as ``field: stored -> current``.

    >>> differences({"loop": {"max_rounds": 3}}, {"loop": {"max_rounds": 2}})
    ['loop.max_rounds: 3 -> 2']
    """
    found: list[str] = []
    for key in sorted(stored.keys() | current.keys()):
        path, a, b = prefix + key, stored.get(key), current.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            found += differences(a, b, path + ".")
        elif a != b:
            found.append(f"{path}: {a} -> {b}")
    return found
