"""Build the demo corpus: typeset every article to PDF and resolve every question to its gold pages.

``python data/demo/build.py [--source data/demo] [--out data/demo/built]`` writes ``pdf/<article id>.pdf``,
``questions.jsonl`` (records of :class:`medvrag_core.records.Question` that have an answer), the same by split in
``dev.jsonl`` and ``test.jsonl``, ``unanswerable.jsonl``, ``manifest.json``, ``composition.md`` (what was built,
counted), and a few faulty files for the gallery of chapter 01 under ``odd``. A second run with unchanged sources does
nothing. With ``--datasheet``, the counts go into ``DATASHEET.md`` too.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from composition import Contents, composition, contents_of
from odd_files import write_odd_files
from typeset.fonts import font_files
from typeset.layout import Layout, lay_out_article
from typeset.parse import read_article
from typeset.questions import read_all, resolve
from typeset.write import CANARY, write_pdf

from medvrag_core.errors import InputError, MedvragError
from medvrag_core.records import Question, Record
from medvrag_core.runs.publish import sha256_of, write_bytes, write_text

HERE = Path(__file__).resolve().parent
_LIBRARIES = ("reportlab", "pymupdf", "pillow")
COMPOSITION = "composition.md"
DATASHEET = HERE / "DATASHEET.md"
_COUNTED = re.compile(r"(?<=<!-- counted by build.py -->\n).*?(?=<!-- end -->)", re.DOTALL)
_LICENCE = "licence: CC BY 4.0\njournal: MedVRAG Teaching Reviews\n"


class BuiltArticle(Record):
    """One typeset article; ``source`` is the digest of all that decides it, ``anchors`` maps anchor to page number."""

    file: str
    source: str
    sha256: str
    pages: int
    anchors: dict[str, int]
    contents: Contents


class QuestionFile(Record):
    """One file of questions."""

    questions: int
    sha256: str


class Manifest(Record):
    """What a build wrote; ``sources`` is the digest of everything the result depends on."""

    canary: str
    sources: str
    questions: dict[str, QuestionFile]
    articles: dict[str, BuiltArticle]


def build(out: Path, *, source: Path = HERE) -> Manifest:
    """Typeset ``source/articles`` and resolve ``source/questions`` into ``out``.

    An article that has not changed since the last build is not typeset again. Everything is laid out and validated
    before the first file is published, and the manifest is published last. Raises :class:`InputError` naming the file
    and the field at fault.
    """
    article_files, question_files = sources_of(source)
    builder = _digest_of_builder()
    digest = _digest(builder, [*article_files, *question_files])
    before = _read_manifest(out)
    if before and before.sources == digest and _is_whole(out, before):
        return before
    kept, fresh = _lay_out(article_files, builder, before, out)
    anchors = {name: article.anchors for name, article in kept.items()}
    anchors |= {name: article.layout.anchors for name, article in fresh.items()}
    asked = read_all(question_files)
    questions = [resolve(question, anchors, file) for file, question in asked]
    articles = kept | {name: _publish(article, out) for name, article in fresh.items()}
    files = _publish_questions(questions, out)
    counted = composition(
        [(article.pages, article.contents) for article in articles.values()], [question for _, question in asked]
    )
    write_text(out / COMPOSITION, counted)
    for name in set(before.articles if before else ()) - set(articles):
        (out / "pdf" / f"{name}.pdf").unlink(missing_ok=True)
    write_text(out / "pdf" / "licence.yaml", _LICENCE)
    write_odd_files(out / "odd", (out / min(article.file for article in articles.values())).read_bytes())
    articles = {name: articles[name] for name in sorted(articles)}
    manifest = Manifest(canary=CANARY, sources=digest, questions=files, articles=articles)
    write_text(out / "manifest.json", manifest.model_dump_json(indent=1) + "\n")
    return manifest


def sources_of(source: Path) -> tuple[list[Path], list[Path]]:
    """Files of articles and of questions; raises :class:`InputError` when there is no article."""
    articles = sorted((source / "articles").glob("*.md"))
    if not articles:
        raise InputError(f"{source}/articles holds no article", way_out="add one as AUTHORING.md describes")
    return articles, sorted((source / "questions").glob("*.yaml"))


@dataclass(frozen=True)
class _Fresh:
    """An article that was laid out anew; ``source`` is the digest of all that decides it."""

    layout: Layout
    source: str
    contents: Contents


def _lay_out(
    files: list[Path], builder: str, before: Manifest | None, out: Path
) -> tuple[dict[str, BuiltArticle], dict[str, _Fresh]]:
    """Articles that stay as they were built, and the others laid out."""
    kept: dict[str, BuiltArticle] = {}
    fresh: dict[str, _Fresh] = {}
    for path in files:
        state = _digest(builder, [path])
        built = before.articles.get(path.stem) if before else None
        if built and built.source == state and _has(out / built.file, built.sha256):
            kept[path.stem] = built
        else:
            article = read_article(path)
            fresh[path.stem] = _Fresh(lay_out_article(article), state, contents_of(article))
    return kept, fresh


def _digest_of_builder() -> str:
    """Digest of this builder, the fonts and the libraries that draw."""
    builders = [
        Path(__file__),
        HERE / "odd_files.py",
        HERE / "composition.py",
        *sorted((HERE / "typeset").glob("*.py")),
    ]
    return _digest("".join(f"{name} {version(name)}\n" for name in _LIBRARIES), [*builders, *font_files()])


def _digest(seed: str, files: list[Path]) -> str:
    digest = hashlib.sha256(seed.encode())
    for path in files:
        digest.update(f"{path.name} {sha256_of(path)}\n".encode())
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


def _has(path: Path, sha256: str) -> bool:
    return path.is_file() and sha256_of(path) == sha256


def _is_whole(out: Path, manifest: Manifest) -> bool:
    wanted = {out / article.file: article.sha256 for article in manifest.articles.values()}
    wanted |= {out / name: file.sha256 for name, file in manifest.questions.items()}
    wanted[out / "pdf" / "licence.yaml"] = hashlib.sha256(_LICENCE.encode()).hexdigest()
    whole = all(_has(path, sha256) for path, sha256 in wanted.items())
    return whole and (out / "odd").is_dir() and (out / COMPOSITION).is_file()


def _publish(article: _Fresh, out: Path) -> BuiltArticle:
    layout = article.layout
    name = f"pdf/{layout.head.id}.pdf"
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / "article.pdf"
        write_pdf(layout, draft)
        write_bytes(out / name, draft.read_bytes())
    return BuiltArticle(
        file=name,
        source=article.source,
        sha256=sha256_of(out / name),
        pages=layout.pages,
        anchors=layout.anchors,
        contents=article.contents,
    )


def _publish_questions(questions: list[Question], out: Path) -> dict[str, QuestionFile]:
    """Write the questions that have an answer, all and by split, and those that have none."""
    answerable = [question for question in questions if not question.unanswerable]
    files: dict[str, QuestionFile] = {}
    for name, chosen in {
        "questions.jsonl": answerable,
        "dev.jsonl": [question for question in answerable if question.split == "dev"],
        "test.jsonl": [question for question in answerable if question.split == "test"],
        "unanswerable.jsonl": [question for question in questions if question.unanswerable],
    }.items():
        write_text(out / name, "".join(question.to_json() + "\n" for question in chosen))
        files[name] = QuestionFile(questions=len(chosen), sha256=sha256_of(out / name))
    return files


def with_counts(datasheet: str, table: Path) -> str:
    """A datasheet with the counts of ``table`` in their place; raises :class:`InputError` when that is not marked."""
    counts = table.read_text(encoding="utf-8")
    sheet, places = _COUNTED.subn(lambda _: counts, datasheet)
    if places != 1:
        raise InputError(
            f"{DATASHEET.name}: the place of the counts is not marked",
            way_out="write <!-- counted by build.py --> and <!-- end --> once, on lines of their own",
        )
    return sheet


def main(arguments: list[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(description="Build the demo corpus.")
    parser.add_argument("--source", type=Path, default=HERE, help="folder of articles and questions (%(default)s)")
    parser.add_argument("--out", type=Path, default=HERE / "built", help="output folder (default: %(default)s)")
    parser.add_argument("--datasheet", action="store_true", help="write the counts into DATASHEET.md as well")
    options = parser.parse_args(arguments)
    try:
        manifest = build(options.out, source=options.source)
        if options.datasheet:
            write_text(DATASHEET, with_counts(DATASHEET.read_text(encoding="utf-8"), options.out / COMPOSITION))
    except MedvragError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    pages = sum(article.pages for article in manifest.articles.values())
    counts = ", ".join(f"{file.questions} in {name}" for name, file in manifest.questions.items())
    print(f"{len(manifest.articles)} articles, {pages} pages in {options.out}; questions: {counts}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
