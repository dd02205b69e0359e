"""The only kind of process that opens PDF files: ``python -m medvrag_core.corpus.child``, one file after another.

Reads one :class:`~medvrag_core.corpus.job.Job` a line as JSON from standard input, sets its own limits with the first,
writes page files into the job's folder and one JSON line a page to standard output, and ends with its input. Whatever a
hostile file does here (hang, exhaust memory, abort), the parent lives and goes on. Scripts and
attachments inside a PDF are never touched.
"""

from __future__ import annotations

import errno
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from medvrag_core.corpus import mupdf, pdfium
from medvrag_core.corpus.job import Job, Message, Note
from medvrag_core.corpus.opened import OpenedDocument, RefusedError
from medvrag_core.corpus.page_reader import Engines, PageReader, words_of_error

_MAX_FILE = 512 << 20


def main() -> int:
    """Serve jobs; the exit code is 0 whenever the story of each file was told to its end."""
    out = _private_stdout()
    engines = Engines()
    for number, line in enumerate(sys.stdin.buffer):
        job = Job.from_json(line, source="job")
        if number == 0:
            _limit_process(job.settings.memory_mb)
            _library(job).prepare()
            _say(out, Message(event="ready"))
        _limit_cpu(job.settings.seconds_per_page)
        try:
            _render_file(job, out, engines)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            _say(out, Message(event="disk"))
    return 0


def _library(job: Job) -> Any:
    return pdfium if job.settings.renderer == "pypdfium2" else mupdf


def _render_file(job: Job, out: TextIO, engines: Engines) -> None:
    document = _open(job, out)
    if document is None:
        return
    pages = document.page_count
    notes = [Note(state="changed", reason="repaired", detail="damaged file, read after repair")]
    _say(out, Message(event="opened", pages=pages, notes=tuple(notes) if document.is_repaired else ()))
    reader = PageReader(job, partial(_say, out), engines)
    for number in range(job.first_page, min(pages, job.settings.max_pages) + 1):
        _limit_cpu(job.settings.seconds_per_page)
        _say(out, reader.read(document, number))
    document.close()
    _say(out, Message(event="done", memory_mb=_address_space()))


def _open(job: Job, out: TextIO) -> OpenedDocument | None:
    """The opened document, or None after a ``refused`` message."""

    def refuse(reason: str, detail: str) -> None:
        _say(out, Message(event="refused", notes=(Note(state="dropped", reason=reason, detail=detail),)))

    with Path(job.path).open("rb") as handle:
        head = handle.read(1024)
    if b"%PDF-" not in head:
        what = "an HTML page" if b"<html" in head.lower() or b"<!doctype html" in head.lower() else "no PDF header"
        refuse("not_a_pdf", "the file is empty" if not head else f"{what} in the first 1,024 bytes")
        return None
    try:
        document: OpenedDocument = _library(job).open_document(Path(job.path))
        return document
    except RefusedError as error:
        refuse(error.reason, error.detail)
    except MemoryError:
        refuse("memory_limit", f"opening needs more than {job.settings.memory_mb} MB")
    except OSError:
        raise
    except Exception as error:
        refuse("damaged", words_of_error(error))
    return None


def _private_stdout() -> TextIO:
    """Keep the real standard output for messages; libraries that print reach nothing."""
    own = os.fdopen(os.dup(1), "w", encoding="utf-8")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
    return own


def _say(out: TextIO, message: Message) -> None:
    out.write(message.to_json() + "\n")
    out.flush()


def _limit_process(memory_mb: int) -> None:
    """Address space, core and file size, where the system knows them."""
    try:
        import resource
    except ImportError:
        return
    for name, value in (("RLIMIT_AS", memory_mb << 20), ("RLIMIT_CORE", 0), ("RLIMIT_FSIZE", _MAX_FILE)):
        try:
            resource.setrlimit(getattr(resource, name), (value, value))
        except (AttributeError, ValueError, OSError):
            continue  # macOS knows the names but refuses some values


def _address_space() -> int:
    """Taken by this process, in MB; its largest resident size where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE") >> 20
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 20


def _limit_cpu(seconds: float) -> None:
    """Let processor time run out some time after the parent's watchdog, in case the parent is gone."""
    try:
        import resource

        used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        resource.setrlimit(resource.RLIMIT_CPU, (int(used + 8 * seconds + 60), hard))
    except (ImportError, ValueError, OSError):
        return


if __name__ == "__main__":
    sys.exit(main())
