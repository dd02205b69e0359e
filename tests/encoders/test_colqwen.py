from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

from medvrag_core.encoders.colqwen import ColQwenEncoder, patch_boxes
from medvrag_core.errors import MedvragError
from medvrag_core.settings import EncoderSettings


@pytest.mark.skipif(find_spec("colpali_engine") is not None, reason="colpali-engine is installed")
def test_missing_packages_name_the_extra() -> None:
    with pytest.raises(MedvragError, match="install the extra 'gpu'"):
        ColQwenEncoder(EncoderSettings(name="colqwen2.5", model="vidore/colqwen2.5-v0.2"))


def test_the_patch_grid_tiles_the_page() -> None:
    boxes = patch_boxes(5, 3)
    assert boxes.shape == (15, 4)
    area = ((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])).sum()
    assert area == pytest.approx(1, abs=1e-5)
    assert np.allclose(boxes[3], [0, 0.2, 1 / 3, 0.4])
