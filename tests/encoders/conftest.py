"""The makers of tiny models in ``tests/gpu_path`` can be imported by the tests of encoders."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gpu_path"))
