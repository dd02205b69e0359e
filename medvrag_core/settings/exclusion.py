"""What a corpus must not hold, or must tell: articles and texts of the benchmarks that it is used for."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from medvrag_core.settings.base import StageSettings


class ExclusionSettings(StageSettings):
    """Sources and questions of benchmarks (paper section 3.1)."""

    ids: tuple[str, ...] = Field(
        (), description="files of articles to leave out, one id a line: PMID:123, PMC123 or a DOI"
    )
    questions: tuple[str, ...] = Field(
        (), description="question files: articles among their `sources` are left out, their text is sought in pages"
    )
    near: float = Field(
        0.8, gt=0, le=1, description="share of a question's runs of eight words from which a page nearly holds it"
    )
    suspect_pages: Literal["report", "leave_out"] = Field(
        "report", description="what becomes of pages that hold the text of a question"
    )
