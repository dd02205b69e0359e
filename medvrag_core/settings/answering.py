"""How questions are answered and answers judged."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from medvrag_core.settings.base import StageSettings


class ReaderSettings(StageSettings):
    """Who answers."""

    name: Literal["evidence", "likelihood", "vlm"] = "evidence"
    pages: Literal["images", "text"] = Field(
        "images", description="what a reader model gets of a page; text lets a model without eyes read the same pages"
    )
    margin: float = Field(0.15, description="lead the best option needs before an embedded reader answers early")


class LoopSettings(StageSettings):
    """The iterative loop (paper sections 3.4 and 3.5)."""

    max_rounds: int = Field(3, ge=1, le=10)
    min_rounds: int = Field(1, ge=1, le=10, description="rounds before this one must ask, even where they could answer")
    pages_shown: int = Field(10, ge=0, description="0: the reader gets summaries alone")
    summaries_shown: int = Field(20, ge=0)
    memory: Literal["bank", "history", "none"] = Field(
        "bank",
        description="what a round is told of earlier ones: findings and notes; the plain text of queries and replies, "
        "cut to the length of the bank; or nothing",
    )
    refinement: Literal["with_options", "option_blind"] = Field(
        "with_options", description="option_blind: queries and notes are written without seeing the options"
    )
    overflow: Literal["drop_pages", "scale_pages", "refuse"] = Field(
        "drop_pages",
        description="when images do not fit the context: leave out the lowest-ranked, make all smaller, or fail",
    )

    @field_validator("memory", mode="before")
    @classmethod
    def _as_runs_of_old_wrote_it(cls, value: Any) -> Any:
        return ("bank" if value else "none") if isinstance(value, bool) else value

    @model_validator(mode="after")
    def _rounds_in_order(self) -> Self:
        if self.min_rounds > self.max_rounds:
            raise ValueError(f"min_rounds ({self.min_rounds}) is above max_rounds ({self.max_rounds})")
        return self


class ControlSettings(StageSettings):
    """What a control arm changes between the stages; the defaults change nothing.

    ``iterated_in`` and ``cited_in`` name an arm of the same run, whose stored answers say which questions are asked
    and which pages are left out.
    """

    iterated_in: str = Field("", description="ask only the questions on which this arm took more than one round")
    options: Literal["given", "shuffled"] = Field("given", description="shuffled: the option texts change labels")
    pages: Literal["found", "gold", "blank", "random", "other_question", "cited_removed", "uncited_removed"] = Field(
        "found", description="what stands in the place of the pages that a reader would get, or is left out of them"
    )
    cited_in: str = Field("", description="arm whose answers cite the pages that cited_removed leaves out")
    seed: int = Field(42, description="of the shuffle and of every draw of pages")

    @model_validator(mode="after")
    def _removal_has_its_arm(self) -> Self:
        if self.pages.endswith("_removed") != bool(self.cited_in):
            raise ValueError("cited_in goes with pages: cited_removed or uncited_removed, and only with them")
        if self.iterated_in and self.cited_in and self.iterated_in != self.cited_in:
            raise ValueError("iterated_in and cited_in must name the same arm")
        return self

    @property
    def reference(self) -> str:
        """The arm whose stored answers this control leans on; empty for none."""
        return self.iterated_in or self.cited_in


class EvaluationSettings(StageSettings):
    """Scoring and statistics."""

    bootstrap_samples: int = 10_000
    confidence: float = 0.95
    seed: int = 42
