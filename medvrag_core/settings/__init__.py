"""Configuration as data: one settings record a stage, unknown keys refused; :mod:`.profiles.load` reads YAML profiles.

A profile file lists only what differs from the defaults of these classes (or from the profile it
``extends``). The resolved settings are saved beside every artefact and compared field by
field before stored work is used again.
"""

from medvrag_core.settings.answering import ControlSettings, EvaluationSettings, LoopSettings, ReaderSettings
from medvrag_core.settings.base import StageSettings, cores, looks_like_a_key
from medvrag_core.settings.cluster import RaySettings
from medvrag_core.settings.exclusion import ExclusionSettings
from medvrag_core.settings.models import WHERE_FIELDS, CallSettings, ModelSettings, ServeSettings
from medvrag_core.settings.pages import LOADER_FIELDS, CorpusSettings, EncoderSettings, Storage
from medvrag_core.settings.pmc import PmcSettings
from medvrag_core.settings.profile import RESULT_BLIND, Profile, answering_settings, differences, fingerprint
from medvrag_core.settings.search import (
    MACHINE_FIELDS,
    FilterSettings,
    IndexSettings,
    LayoutPolicy,
    PageTextPolicy,
    TextSettings,
)
from medvrag_core.settings.systems import (
    HelperSettings,
    IMedRagSettings,
    MedRagSettings,
    MedRgagSettings,
    VisRagSettings,
)

__all__ = [
    "LOADER_FIELDS",
    "MACHINE_FIELDS",
    "RESULT_BLIND",
    "WHERE_FIELDS",
    "CallSettings",
    "ControlSettings",
    "CorpusSettings",
    "EncoderSettings",
    "EvaluationSettings",
    "ExclusionSettings",
    "FilterSettings",
    "HelperSettings",
    "IMedRagSettings",
    "IndexSettings",
    "LayoutPolicy",
    "LoopSettings",
    "MedRagSettings",
    "MedRgagSettings",
    "ModelSettings",
    "PageTextPolicy",
    "PmcSettings",
    "Profile",
    "RaySettings",
    "ReaderSettings",
    "ServeSettings",
    "StageSettings",
    "Storage",
    "TextSettings",
    "VisRagSettings",
    "answering_settings",
    "cores",
    "differences",
    "fingerprint",
    "looks_like_a_key",
]
