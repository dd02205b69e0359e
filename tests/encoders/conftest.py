"""Tests of encoders can import the makers of tiny models in ``tests/gpu_path``, and the made-up pages beside them."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "gpu_path"), str(HERE)]
