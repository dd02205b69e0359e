"""Cases of stored runs: traces, outcomes, error classes, pages and shadings, each read when it is asked for."""

from __future__ import annotations

import base64
import hashlib
import io
import json
from collections.abc import Collection, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TypeVar

import numpy as np

from medvrag_core.corpus.showing import PagePicture
from medvrag_core.errors import InputError, MedvragError, NotBuiltError
from medvrag_core.evaluation.endings import Ending
from medvrag_core.evaluation.errors.taxonomy import classify_error, gold_of
from medvrag_core.evaluation.outcomes import read_asked_endings
from medvrag_core.evaluation.scoring import score
from medvrag_core.index.similarity_maps import score_parts
from medvrag_core.reasoning.sameness import page_of
from medvrag_core.records import Trace
from medvrag_core.systems.answering import each_trace, systems_with_traces
from medvrag_core.systems.base import catalog
from medvrag_core.systems.resources import Resources
from medvrag_core.systems.stepping import explored
from medvrag_core.views.encoder_view import query_shadings
from medvrag_core.views.error_view import ERROR_LABELS
from medvrag_core.views.inspector.prompts import filter_exchanges, has_filter_exchanges, stored_prompts
from medvrag_core.views.inspector.records import (
    ArmEntry,
    ArmRows,
    Case,
    CaseRow,
    Catalog,
    FilterExchanges,
    PageCard,
    PageShadings,
    PageSheet,
    QueryMaps,
    Shading,
)
from medvrag_core.views.inspector.source import CaseSource, filters_address
from medvrag_core.views.page_maps import PageMap
from medvrag_core.views.pages import page_thumbnail
from medvrag_core.views.steps_view import STEP_LABELS

THUMBNAIL_WIDTH = 240
_DEPTHS = 15
_FRACTIONS = 10_000
_QUALITY = 60
T = TypeVar("T")


class RunCases(CaseSource):
    """Cases of one or several runs.

    Lists of arms come from the runs' compact outcomes; of the traces only wrong ones are read for a list (they decide
    the error class), and one when its case is opened.

    Parameters
    ----------
    runs : opened runs, each with the profile whose encoder made its vectors; their folders must have different names
    arms : which arms, in this order; None: every arm that answered something, and what was stepped through by hand
    questions : ids of the questions, others are left out; None: all that were asked last
    shrink : the stored page images are handed out as they are (1), or at a half, a quarter or an eighth, as WebP

    Raises
    ------
    InputError : two runs have one name, or ``shrink`` is another number
    NotBuiltError : no run has answers of such an arm
    """

    def __init__(
        self,
        runs: Sequence[Resources],
        *,
        arms: Sequence[str] | None = None,
        questions: Collection[str] | None = None,
        shrink: int = 1,
    ) -> None:
        if shrink not in (1, 2, 4, 8):
            raise InputError(f"pages cannot be shrunk to 1/{shrink}", way_out="choose 1, 2, 4 or 8")
        names = [run.workspace.root.name for run in runs]
        if len(set(names)) < len(names):
            raise InputError(f"runs of one name: {', '.join(names)}", way_out="rename a run folder")
        self._arms = [
            (run, home, name)
            for run in runs
            for home in (run.workspace, explored(run.workspace))
            for there in [systems_with_traces(home)]
            for name in (there if arms is None else arms)
            if name in there
        ]
        if not self._arms:
            raise NotBuiltError(f"no answers of {', '.join(arms or ['any arm'])} in {', '.join(names)}",
                                way_out="run `medvrag run` or chapter 04 first")  # fmt: skip
        self._questions, self._shrink = questions, shrink
        self._pages = [(run, page.page_id) for run in runs for page in run.store.pages]
        self._page_number = {(id(run), page_id): number for number, (run, page_id) in enumerate(self._pages)}
        self._titles = {(id(run), a.article_id): a.title for run in runs for a in run.store.articles}
        self._asked_maps: dict[str, tuple[Resources, str, tuple[str, ...]]] = {}
        self._endings = lru_cache(maxsize=None)(self._read_endings)
        self._rows = lru_cache(maxsize=None)(self._read_rows)

    def catalog(self) -> Catalog:
        """See :class:`CaseSource`."""
        return self._catalog

    @cached_property
    def _catalog(self) -> Catalog:
        known = catalog()
        entries = []
        for number, (run, _, name) in enumerate(self._arms):
            endings = self._endings(number)
            entry = ArmEntry(
                run=run.workspace.root.name,
                arm=name,
                summary=known[name].summary if name in known else "stepped through by hand",
                profile=endings[0].profile if endings else "",
                cases=len(endings),
                right=sum(bool(_right(ending)) for ending in endings),
            )
            entries.append(entry)
        return Catalog(
            arms=tuple(entries),
            error_labels={str(name): label for name, label in ERROR_LABELS.items()},
            step_labels={str(name): label for name, label in STEP_LABELS.items()},
        )

    def rows(self, arm: int) -> ArmRows:
        """See :class:`CaseSource`."""
        return self._rows(arm)

    def _read_rows(self, arm: int) -> ArmRows:
        _, home, name = _at(self._arms, arm, "arm")
        endings = self._endings(arm)
        wrong = [ending.question.id for ending in endings if _right(ending) is False]
        classes = {t.question.id: _error_class(t) for t in each_trace(home, name, wrong)}
        return ArmRows(rows=tuple(_row(ending, classes.get(ending.question.id, "")) for ending in endings))

    def case(self, arm: int, number: int) -> Case:
        """See :class:`CaseSource`."""
        run, home, name = _at(self._arms, arm, "arm")
        ending = _at(self._endings(arm), number, "case")
        (trace,) = each_trace(home, name, [ending.question.id])
        shown = [[page_of(name) for name in round_.shown] for round_ in trace.rounds]
        pages = dict.fromkeys([*(page for pages in shown for page in pages), *trace.question.gold_pages])
        there = [page for page in pages if (id(run), page) in self._page_number]
        return Case(
            trace=trace,
            error_class=_error_class(trace),
            cards=tuple(self._card(run, page) for page in there),
            maps=tuple(
                self._maps_address(run, round_.query, pages) for round_, pages in zip(trace.rounds, shown, strict=True)
            ),
            prompts=stored_prompts(run, trace),
            filters=filters_address(arm, number) if self._may_show_filters(run, trace) else "",
        )

    def filters(self, arm: int, number: int) -> FilterExchanges:
        """See :class:`CaseSource`."""
        run, home, name = _at(self._arms, arm, "arm")
        ending = _at(self._endings(arm), number, "case")
        (trace,) = each_trace(home, name, [ending.question.id])
        if not self._may_show_filters(run, trace):
            raise InputError(f"case '{trace.question.id}' has no calls of the filter to show")
        return filter_exchanges(run, trace)

    def maps(self, key: str) -> QueryMaps:
        """See :class:`CaseSource`."""
        if key not in self._asked_maps:
            raise InputError(f"no case that was opened has shadings '{key}'", way_out="open the case first")
        run, query, pages = self._asked_maps[key]
        try:
            encoded, words = run.encoder.encode_query(query), run.encoder.query_words(query)
            shaded = tuple(self._shadings(run, page, encoded, words) for page in pages)
        except (MedvragError, ImportError, OSError) as error:
            return QueryMaps(query=query, encoder=run.profile.encoder.name, pages=(), problem=str(error))
        return QueryMaps(query=query, encoder=run.profile.encoder.name, pages=shaded)

    def sheet(self, page: int) -> PageSheet:
        """See :class:`CaseSource`."""
        run, page_id, _ = self._open_page(page)
        layout = run.store.layout(page_id)
        try:
            patches = run.vectors.page(page_id).boxes
        except MedvragError:
            patches = np.zeros((0, 4), dtype=np.float32)
        return PageSheet(
            page_id=page_id,
            words=tuple(word.text for word in layout.words),
            word_boxes=_flat(np.array([word.box for word in layout.words]).reshape(-1, 4)),
            patch_boxes=_flat(patches),
        )

    def thumbnail(self, page: int) -> bytes:
        """See :class:`CaseSource`."""
        _, _, picture = self._open_page(page)
        # The one maker of small pictures writes them as text for pages without files beside them.
        return base64.b64decode(page_thumbnail(picture, width=THUMBNAIL_WIDTH, max_kb=20).partition(",")[2])

    def image(self, page: int) -> bytes:
        """See :class:`CaseSource`."""
        _, _, picture = self._open_page(page)
        return picture.path.read_bytes() if self._shrink == 1 else _shrunk(picture.path, self._shrink)

    def _read_endings(self, arm: int) -> list[Ending]:
        _, home, name = self._arms[arm]
        endings, _ = read_asked_endings(home, name, made_by=f"`medvrag run --system {name}`")
        return [ending for ending in endings if self._questions is None or ending.question.id in self._questions]

    def _maps_address(self, run: Resources, query: str, pages: Sequence[str]) -> str:
        """One address for one query on the same pages, whatever arms and rounds have it."""
        wanted = tuple(page for page in dict.fromkeys(pages) if self._may_show(run, page))
        if not wanted:
            return ""
        text = json.dumps([run.workspace.root.name, query, wanted])
        key = hashlib.sha256(text.encode()).hexdigest()[:16]
        self._asked_maps[key] = (run, query, wanted)
        return f"maps/{key}"

    def _may_show(self, run: Resources, page: str) -> bool:
        return (id(run), page) in self._page_number and not run.store.picture(page).hidden

    def _may_show_filters(self, run: Resources, trace: Trace) -> bool:
        """Prompts of the filter quote all candidates, so all of these must be fit to be shown."""
        read = (page_of(name) for round_ in trace.rounds for call in round_.filter.calls for name in call.shown)
        return has_filter_exchanges(run, trace) and all(self._may_show(run, page) for page in dict.fromkeys(read))

    def _shadings(
        self,
        run: Resources,
        page_id: str,
        query: np.ndarray[tuple[int, int], np.dtype[np.float32]],
        words: Sequence[str],
    ) -> PageShadings:
        parts = score_parts(query, run.vectors.page(page_id), backward_weight=run.profile.index.backward_weight)
        shaded = query_shadings(parts, words)
        made = tuple(_shading(one, told=place < 2) for place, one in enumerate(shaded))
        return PageShadings(page_id=page_id, shadings=made)

    def _card(self, run: Resources, page_id: str) -> PageCard:
        number = self._page_number[id(run), page_id]
        page, picture = run.store.page(page_id), run.store.picture(page_id)
        suffix = Path(page.image).suffix if self._shrink == 1 else ".webp"
        return PageCard(
            page_id=page_id,
            title=self._titles[id(run), page.article_id],
            credit=picture.credit,
            hidden=picture.hidden,
            restricted="" if picture.hidden else picture.restricted,
            width=page.image_width,
            height=page.image_height,
            image_width=-(-page.image_width // self._shrink),
            thumbnail="" if picture.hidden else f"thumbs/{number}.jpg",
            image="" if picture.hidden else f"images/{number}{suffix}",
            sheet="" if picture.hidden else f"sheets/{number}",
        )

    def _open_page(self, number: int) -> tuple[Resources, str, PagePicture]:
        """A page that may be shown; what may not, is not handed out by its address either."""
        run, page_id = _at(self._pages, number, "page")
        picture = run.store.picture(page_id)
        if picture.hidden:
            raise InputError(f"page '{page_id}' is not shown: {picture.hidden}", way_out="see `corpus.licence`")
        return run, page_id, picture


def _at(things: Sequence[T], number: int, what: str) -> T:
    if number >= len(things):
        raise InputError(f"there is no {what} {number}, there are {len(things)}", way_out="make the cases anew")
    return things[number]


def _right(answered: Ending | Trace) -> bool | None:
    return None if answered.question.answer is None else score(answered)


def _error_class(trace: Trace) -> str:
    return classify_error(trace, gold_of(trace, None)) if _right(trace) is False else ""


def _row(ending: Ending, error_class: str) -> CaseRow:
    question = ending.question
    return CaseRow(
        question_id=question.id,
        question=question.question,
        dataset=question.dataset,
        outcome=ending.outcome,
        label=ending.label,
        gold=question.answer,
        correct=_right(ending),
        error_class=error_class,
        rounds=ending.rounds_used,
        seconds=ending.seconds,
    )


def _shading(shown: PageMap, *, told: bool) -> Shading:
    clear, full = shown.scale
    span = full - clear if full > clear else 1.0
    depths = np.rint(_DEPTHS * np.clip((shown.values - clear) / span, 0, 1)).astype(int)
    return Shading(
        name=shown.name,
        note=shown.note if told else "",
        share=shown.cells[-1],
        clear=round(clear, 4),
        full=round(full, 4),
        levels="".join(f"{depth:x}" for depth in depths),
        best=shown.best,
    )


def _flat(boxes: np.ndarray[tuple[int, int], np.dtype[np.floating]]) -> tuple[int, ...]:
    return tuple(np.rint(np.clip(boxes, 0, 1) * _FRACTIONS).astype(int).ravel().tolist())


def _shrunk(path: Path, by: int) -> bytes:
    from PIL import Image

    with Image.open(path, formats=("JPEG", "PNG", "WEBP")) as opened:
        size = (-(-opened.width // by), -(-opened.height // by))
        # A JPEG is decoded at a half, a quarter or an eighth as it is read, which is what makes this quick.
        opened.draft("RGB", size)
        page = opened.convert("RGB")
    buffer = io.BytesIO()
    (page if page.size == size else page.resize(size)).save(buffer, "WEBP", quality=_QUALITY, method=0)
    return buffer.getvalue()
