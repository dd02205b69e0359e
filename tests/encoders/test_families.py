from __future__ import annotations

from importlib.util import find_spec
from typing import get_args

import pytest

from medvrag_core.encoders.families import FAMILIES, family_classes
from medvrag_core.errors import MedvragError, SettingsError
from medvrag_core.profiles.load import load_profile
from medvrag_core.settings import EncoderSettings


def test_every_family_can_be_named_in_the_settings_and_is_that_of_the_paper_in_a100() -> None:
    assert set(FAMILIES) <= set(get_args(EncoderSettings.model_fields["name"].annotation))
    settings = load_profile("a100").encoder
    assert settings.query_prefix == FAMILIES[settings.name].query_prefix == "Query: "


def test_an_unknown_family_is_told_which_there_are() -> None:
    with pytest.raises(SettingsError, match=r"'colbert' is no family .* use one of colpali, colqwen2, "):
        family_classes("colbert")


@pytest.mark.skipif(find_spec("colpali_engine") is not None, reason="colpali-engine is installed")
def test_missing_packages_name_the_extra() -> None:
    with pytest.raises(MedvragError, match="install the extra 'gpu'"):
        family_classes("colqwen2.5")


@pytest.mark.gpu_path
def test_the_table_holds_what_the_installed_release_can_do() -> None:
    from tiny_models import need

    need("colpali_engine")
    from colpali_engine import models

    listed = set()
    for name, family in FAMILIES.items():
        model, processor = family_classes(name)
        assert (model.__name__, processor.__name__) == (family.model, family.processor)
        listed.add(family.model)
    left_out = {"ColGemma3": "ColGemmaProcessor3", "ColQwen2_5Omni": "ColQwen2_5OmniProcessor"}
    there = {name for name in dir(models) if name.startswith("Col") and "Processor" not in name}
    assert there - listed == set(left_out)
    assert not any(hasattr(getattr(models, processor), "get_image_mask") for processor in left_out.values())
