"""The best of several arms as plain text for the terminal."""

from __future__ import annotations

from medvrag_core.evaluation.statistics.best_arm import BestArm
from medvrag_core.views.contrast_text import contrast_text
from medvrag_core.views.trace_text import plain


def best_arm_text(found: BestArm) -> str:
    """The candidates on the half that chose, then the contrast on the other half."""
    mean = found.estimand.replace("_", "-")
    return "\n".join(
        [
            f"chosen on {found.n_choosing:,} questions by {mean} accuracy, as their ids fell: {plain(found.chosen)}",
            *(f"  {plain(score.arm):34}{100 * score.accuracy:8.2f}" for score in found.choosing),
            "these accuracies chose the arm, so they flatter it; what follows is from the other half alone",
            contrast_text(found.contrast),
        ]
    )
