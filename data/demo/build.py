"""Build the demo corpus: typeset every article to PDF and resolve every question to its gold pages.

``python data/demo/build.py [--out data/demo/built]`` writes ``pdf/<article id>.pdf``,
``questions.jsonl`` (records of :class:`medvrag_core.records.Question`), ``manifest.json``, and a few faulty files for
the gallery of chapter 01 under ``odd``.
A second run with unchanged sources does nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from odd_files import write_odd_files
from typeset.fonts import font_files
from typeset.layout import Layout, lay_out_article, write_pdf
from typeset.parse import read_article
from typeset.questions import resolve_all

from medvrag_core.errors import InputError, MedvragError
from medvrag_core.records import Record
from medvrag_core.runs.publish import sha256_of, write_bytes, write_text

HERE = Path(__file__).resolve().parent
_LIBRARIES = ("reportlab", "pymupdf", "pillow")
_LICENCE = "licence: CC BY 4.0\njournal: MedVRAG Teaching Reviews\n"


class BuiltArticle(Record):
    """One typeset article; ``anchors`` maps anchor to page number."""

    file: str
    sha256: str
    pages: int
    anchors: dict[str, int]


class Manifest(Record):
    """What a build wrote; ``sources`` is the digest of everything the result depends on."""

    sources: str
    questions: int
    questions_sha256: str
    articles: dict[str, BuiltArticle]


def build(out: Path, *, source: Path = HERE) -> Manifest:
    """Typeset ``source/articles`` and resolve ``source/questions`` into ``out``.

    Everything is laid out and validated before the first file is published, and the manifest
    is published last. Raises :class:`InputError` naming the file and the field at fault.
    """
    article_files = sorted((source / "articles").glob("*.md"))
    question_files = sorted((source / "questions").glob("*.yaml"))
    if not article_files:
        raise InputError(f"{source.name}/articles holds no article", way_out="add one as AUTHORING.md describes")
    digest = _digest([*article_files, *question_files])
    before = _read_manifest(out)
    if before and before.sources == digest and _is_whole(out, before):
        return before
    layouts = [lay_out_article(read_article(path)) for path in article_files]
    anchors = {layout.source.head.id: layout.anchors for layout in layouts}
    questions = resolve_all(question_files, anchors)
    articles = {layout.source.head.id: _publish(layout, out) for layout in layouts}
    write_text(out / "questions.jsonl", "".join(question.to_json() + "\n" for question in questions))
    for name in set(before.articles if before else ()) - set(articles):
        (out / "pdf" / f"{name}.pdf").unlink(missing_ok=True)
    write_text(out / "pdf" / "licence.yaml", _LICENCE)
    write_odd_files(out / "odd", (out / min(article.file for article in articles.values())).read_bytes())
    manifest = Manifest(
        sources=digest,
        questions=len(questions),
        questions_sha256=sha256_of(out / "questions.jsonl"),
        articles=articles,
    )
    write_text(out / "manifest.json", manifest.model_dump_json(indent=1) + "\n")
    return manifest


def _digest(sources: list[Path]) -> str:
    """Digest of articles, questions, this builder, the fonts and the libraries that draw."""
    digest = hashlib.sha256()
    builders = [Path(__file__), HERE / "odd_files.py", *sorted((HERE / "typeset").glob("*.py"))]
    for path in [*sources, *builders, *font_files()]:
        digest.update(f"{path.name} {sha256_of(path)}\n".encode())
    for library in _LIBRARIES:
        digest.update(f"{library} {version(library)}\n".encode())
    return digest.hexdigest()


def _read_manifest(out: Path) -> Manifest | None:
    path = out / "manifest.json"
    if not path.is_file():
        return None
    try:
        return Manifest.from_json(path.read_bytes(), source=str(path))
    except InputError:
        # Written by another version of this builder: build again.
        return None


def _is_whole(out: Path, manifest: Manifest) -> bool:
    wanted = {out / article.file: article.sha256 for article in manifest.articles.values()}
    wanted[out / "questions.jsonl"] = manifest.questions_sha256
    wanted[out / "pdf" / "licence.yaml"] = hashlib.sha256(_LICENCE.encode()).hexdigest()
    whole = all(path.is_file() and sha256_of(path) == sha256 for path, sha256 in wanted.items())
    return whole and (out / "odd").is_dir()


def _publish(layout: Layout, out: Path) -> BuiltArticle:
    name = f"pdf/{layout.source.head.id}.pdf"
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / "article.pdf"
        write_pdf(layout, draft)
        write_bytes(out / name, draft.read_bytes())
    return BuiltArticle(file=name, sha256=sha256_of(out / name), pages=layout.pages, anchors=layout.anchors)


def main(arguments: list[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(description="Build the demo corpus.")
    parser.add_argument("--out", type=Path, default=HERE / "built", help="output folder (default: %(default)s)")
    options = parser.parse_args(arguments)
    try:
        manifest = build(options.out)
    except MedvragError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    pages = sum(article.pages for article in manifest.articles.values())
    print(f"{len(manifest.articles)} articles, {pages} pages, {manifest.questions} questions in {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
