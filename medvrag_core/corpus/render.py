"""The parent's side of rendering: a child process reads the file, a watchdog, and a story for every outcome."""

from __future__ import annotations

import queue
import shutil
import signal
import threading
from dataclasses import dataclass, field
from pathlib import Path

from medvrag_core.corpus.job import (
    HURTFUL,
    ArticleOutcome,
    FrontMatter,
    Job,
    Message,
    Note,
    RenderedPage,
    RenderSettings,
)
from medvrag_core.corpus.renderers import GROWN_SHARE, Renderer, Renderers
from medvrag_core.corpus.source import SourceDocument
from medvrag_core.errors import InputError, MedvragError
from medvrag_core.records import Article, LedgerEntry
from medvrag_core.settings import CorpusSettings

_START_SECONDS = 120.0
_OCR_SECONDS = 60.0
_MOST_FAILURES = 5
_TOLD_AGAIN = HURTFUL | {"damaged"}
_LEAVES_MARKS = _TOLD_AGAIN | {"repaired", "no_pages"}


class StoppedError(MedvragError):
    """Rendering was stopped from outside; nothing of this article is published."""


@dataclass
class _Story:
    """What is known of a file while its child, or several children in turn, work on it."""

    started: bool = False
    pages: int | None = None
    notes: list[tuple[int, Note]] = field(default_factory=list)
    front: FrontMatter = field(default_factory=FrontMatter)
    finished: int = 0
    reading: int = 0
    refused: bool = False
    done: bool = False
    no_ocr: set[int] = field(default_factory=set)
    memory_mb: int = 0

    @property
    def whole(self) -> bool:
        """Whether it was told to its end."""
        return self.done or self.refused

    def tells_of(self, reasons: frozenset[str]) -> bool:
        """Whether one of ``reasons`` is in it."""
        return any(note.reason in reasons for _, note in self.notes)


def render_document(
    document: SourceDocument,
    folder: Path,
    settings: CorpusSettings,
    *,
    sha256: str,
    image_prefix: str,
    stop: threading.Event,
    renderers: Renderers,
) -> tuple[ArticleOutcome, list[RenderedPage]]:
    """Render one file into ``folder`` and tell what became of each of its pages.

    A child of ``renderers`` that has served other files is tried first. If anything goes wrong there, the file is begun
    again by a child of its own, so that no file pays for another and its story never depends on its neighbors.
    A page that hits a limit or kills the child costs that page; the next child goes on behind it.
    After five such pages the rest of the file is given up. Never raises for what a file does.

    Raises
    ------
    StoppedError : ``stop`` was set
    MedvragError : no space is left on the disk, or the renderer itself does not start
    """
    used = renderers.waiting()
    if used is not None:
        story = _Story(started=True)
        failure = _one_child(document, folder, settings, image_prefix, story, stop, renderers, used)
        if stop.is_set():
            raise StoppedError(f"{document.label}: stopped")
        if failure is None and not story.tells_of(_TOLD_AGAIN):
            return _told(document, folder, settings, sha256, story)
        shutil.rmtree(folder)
        folder.mkdir()
    story = _Story()
    failures = 0
    while not story.whole:
        failure = _one_child(document, folder, settings, image_prefix, story, stop, renderers, Renderer())
        if stop.is_set():
            raise StoppedError(f"{document.label}: stopped")
        if failure is None:
            continue
        failures += 1
        if not story.started:
            # Not the fault of this file: storing it as refused would hide a broken installation.
            raise MedvragError(
                f"the page renderer does not start ({failure.detail})",
                way_out='raise corpus.memory_mb, or see whether `python -c "import pymupdf"` works',
            )
        if story.pages is None:
            story.notes.append((0, failure))
            story.refused = True
        elif story.reading:
            # OCR is the costliest and least needed step of a page: try again without it first.
            story.no_ocr.add(story.reading)
            story.reading = 0
        else:
            story.finished += 1
            story.notes.append((story.finished, failure))
            if failures >= _MOST_FAILURES:
                left = f"pages after {story.finished} left out: {failures} pages of this file failed"
                story.notes.append((0, Note(state="dropped", reason=failure.reason, detail=left)))
                break
            story.done = story.finished >= min(story.pages, settings.max_pages)
    return _told(document, folder, settings, sha256, story)


def _one_child(
    document: SourceDocument,
    folder: Path,
    settings: CorpusSettings,
    image_prefix: str,
    story: _Story,
    stop: threading.Event,
    renderers: Renderers,
    renderer: Renderer,
) -> Note | None:
    """Have ``renderer`` read the rest of a file; None when it told the whole story, else why it did not."""
    job = Job(
        path=str(document.path.resolve()),
        folder=str(folder),
        article_id=document.article_id,
        image_prefix=image_prefix,
        settings=settings,
        first_page=story.finished + 1,
        no_ocr=tuple(sorted(story.no_ocr)),
    )
    unmarked = False
    try:
        if not renderer.send(job):
            return Note(state="dropped", reason="crashed", detail="the renderer could not be started")
        failure = _follow(renderer, settings, story, stop)
        grown = story.memory_mb > GROWN_SHARE * settings.memory_mb
        unmarked = story.whole and not grown and not story.tells_of(_LEAVES_MARKS)
        return failure
    finally:
        if unmarked:
            renderers.give_back(renderer)
        else:
            renderer.end()


def _follow(renderer: Renderer, settings: CorpusSettings, story: _Story, stop: threading.Event) -> Note | None:
    limit, waited = settings.seconds_per_page if story.started else _START_SECONDS, 0.0
    while not story.whole:
        try:
            line = renderer.line(timeout=0.25)
        except queue.Empty:
            waited += 0.25
            if stop.is_set():
                return None
            if waited >= limit:
                return Note(state="dropped", reason="time_limit", detail=f"no sign of life for {limit:g} s")
            continue
        if line is None:
            return _death(renderer.exit_code(), settings)
        waited = 0.0
        message = Message.from_json(line, source="renderer")
        limit = settings.seconds_per_page + (_OCR_SECONDS if message.event == "ocr" else 0.0)
        _take(message, story)
    return None


def _take(message: Message, story: _Story) -> None:
    story.memory_mb = message.memory_mb
    if message.event == "disk":
        raise MedvragError("no space left on the disk", way_out="free some space and run again; finished work is kept")
    if message.event == "ready":
        story.started = True
    elif message.event == "opened":
        if story.pages is None:
            story.notes += [(0, note) for note in message.notes]
        story.pages = message.pages
    elif message.event == "ocr":
        story.reading = message.number
    elif message.event == "page":
        story.finished, story.reading = message.number, 0
        story.notes += [(message.number, note) for note in message.notes]
        story.front = message.front or story.front
    elif message.event == "refused":
        story.refused = True
        story.notes += [(0, note) for note in message.notes]
    elif message.event == "done":
        story.done = True


def _death(code: int, settings: CorpusSettings) -> Note:
    if code == -getattr(signal, "SIGXCPU", 24):
        return Note(state="dropped", reason="time_limit", detail="processor time ran out")
    if code == -signal.SIGKILL:
        return Note(state="dropped", reason="memory_limit", detail=f"killed near {settings.memory_mb} MB")
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return Note(state="dropped", reason="crashed", detail=f"the renderer died with {how}")


def _told(
    document: SourceDocument, folder: Path, settings: CorpusSettings, sha256: str, story: _Story
) -> tuple[ArticleOutcome, list[RenderedPage]]:
    rendered = []
    for path in sorted(folder.glob("p*.json")):
        try:
            rendered.append(RenderedPage.from_json(path.read_bytes(), source=path.name))
        except InputError:
            number = int(path.stem[1:])
            story.notes.append((number, Note(state="dropped", reason="crashed", detail="page file was cut off")))
        path.unlink()
    # A child that died while it wrote a page leaves a file that no message spoke of.
    kept = {number for number, note in story.notes if note.state == "kept"}
    rendered = [page for page in rendered if page.page.number in kept]
    pages = story.pages or 0
    if pages > settings.max_pages:
        cut = f"only the first {settings.max_pages} of {pages} pages taken"
        story.notes.append((0, Note(state="changed", reason="page_limit", detail=cut)))
    entries = [
        LedgerEntry(
            file=document.label,
            page_id=f"{document.article_id}#p{number}" if number else "",
            state="quarantined" if note.state == "dropped" and note.reason in HURTFUL else note.state,
            reason=note.reason,
            detail=note.detail,
        )
        for number, note in story.notes
    ]
    article = None
    if rendered:
        article = Article(
            article_id=document.article_id,
            file=document.label,
            sha256=sha256,
            pages=len(rendered),
            **story.front.model_dump(),
        )
    elif not any(entry.state in ("dropped", "quarantined") and not entry.page_id for entry in entries):
        entries.append(LedgerEntry(file=document.label, state="dropped", reason="no_usable_page"))
    limited = any(note.reason in ("time_limit", "memory_limit") for _, note in story.notes)
    outcome = ArticleOutcome(
        article_id=document.article_id,
        sha256=sha256,
        article=article,
        entries=tuple(entries),
        limited=limited,
        seconds_per_page=settings.seconds_per_page,
        memory_mb=settings.memory_mb,
        renderer=RenderSettings.of(settings).renderer,
    )
    return outcome, rendered
