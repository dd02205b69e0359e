"""The parent's side of rendering: one child process a file, a watchdog, and a story for every outcome."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

from medvrag_core.corpus.job import HURTFUL, ArticleOutcome, FrontMatter, Job, Message, Note, RenderedPage
from medvrag_core.corpus.source import SourceDocument
from medvrag_core.errors import InputError, MedvragError
from medvrag_core.records import Article, LedgerEntry
from medvrag_core.settings import CorpusSettings

_START_SECONDS = 120.0
_OCR_SECONDS = 60.0
_MOST_FAILURES = 5


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


def render_document(
    document: SourceDocument,
    folder: Path,
    settings: CorpusSettings,
    *,
    sha256: str,
    image_prefix: str,
    stop: threading.Event,
) -> tuple[ArticleOutcome, list[RenderedPage]]:
    """Render one file into ``folder`` and tell what became of each of its pages.

    A page that hits a limit or kills the child costs that page; the next child goes on behind it.
    After five such pages the rest of the file is given up. Never raises for what a file does.

    Raises
    ------
    StoppedError : ``stop`` was set
    MedvragError : no space is left on the disk, or the renderer itself does not start
    """
    story = _Story()
    failures = 0
    while not (story.done or story.refused):
        failure = _one_child(document, folder, settings, image_prefix, story, stop)
        if stop.is_set():
            raise StoppedError(f"{document.label}: stopped")
        if failure is None:
            continue
        failures += 1
        if not story.started:
            # Not the fault of this file: storing it as refused would hide a broken installation.
            raise MedvragError(
                f"the page renderer does not start ({failure.detail})",
                way_out="raise corpus.memory_mb, or see what `python -m medvrag_core.corpus.child </dev/null` prints",
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
) -> Note | None:
    """Run one child to its end; None when it told the whole story, else why it did not."""
    job = Job(
        path=str(document.path.resolve()),
        folder=str(folder),
        article_id=document.article_id,
        image_prefix=image_prefix,
        settings=settings,
        first_page=story.finished + 1,
        no_ocr=tuple(sorted(story.no_ocr)),
    )
    child = subprocess.Popen(
        [sys.executable, "-m", "medvrag_core.corpus.child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"OMP_NUM_THREADS": "1", "OMP_THREAD_LIMIT": "1"},
        start_new_session=True,  # Ctrl-C reaches the parent alone, which then ends its children in order
    )
    lines: queue.Queue[bytes | None] = queue.Queue()
    reader = threading.Thread(target=_pump, args=(child, lines), daemon=True)
    reader.start()
    try:
        assert child.stdin is not None
        try:
            child.stdin.write(job.to_json().encode())
            child.stdin.close()
        except BrokenPipeError:
            return Note(state="dropped", reason="crashed", detail="the renderer could not be started")
        return _follow(child, lines, settings, story, stop)
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        reader.join()


def _follow(
    child: subprocess.Popen[bytes],
    lines: queue.Queue[bytes | None],
    settings: CorpusSettings,
    story: _Story,
    stop: threading.Event,
) -> Note | None:
    limit, waited = _START_SECONDS, 0.0
    while True:
        try:
            line = lines.get(timeout=0.25)
        except queue.Empty:
            waited += 0.25
            if stop.is_set():
                return None
            if waited >= limit:
                return Note(state="dropped", reason="time_limit", detail=f"no sign of life for {limit:g} s")
            continue
        if line is None:
            return None if story.done or story.refused else _death(child.wait(), settings)
        waited = 0.0
        message = Message.from_json(line, source="renderer")
        limit = settings.seconds_per_page + (_OCR_SECONDS if message.event == "ocr" else 0.0)
        _take(message, story)


def _take(message: Message, story: _Story) -> None:
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


def _pump(child: subprocess.Popen[bytes], lines: queue.Queue[bytes | None]) -> None:
    assert child.stdout is not None
    for line in child.stdout:
        lines.put(line)
    lines.put(None)


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
    )
    return outcome, rendered
