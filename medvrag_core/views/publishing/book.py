"""Render the book: executed chapters that passed, the prose around them, one site that fetches nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from medvrag_core.errors import InputError
from medvrag_core.runs.publish import whole_folder, write_text
from medvrag_core.views.publishing.errors import BookError
from medvrag_core.views.publishing.offline import external_requests
from medvrag_core.views.publishing.online import card_picture, publish_online, site_address
from medvrag_core.views.publishing.sizes import BookSizes, book_sizes
from medvrag_core.views.publishing.staging import stage_book

SIZES = "sizes.json"
"""File beside the site that tells what each page weighs."""

# All that pages with TeX need of the 24 MB that sphinx-mathjax-offline copies.
_MATHJAX_KEPT = ("tex-chtml.js", "output/chtml/fonts")

# What these show ("Search Ctrl+K", "Show code cell source") is their name; who speaks to a browser cannot say another.
_OTHER_NAME = re.compile(
    r'(<button class="btn search-button-field[^>]*?) aria-label="Search"|(<summary) aria-label="Toggle hidden content"'
)

# docutils calls the bibliography a list whose entries are no list items.
_NO_LIST = '<div role="list" class="citation-list">'

# Sphinx writes the parameters of a long signature as definitions of nothing.
_SIGNATURE = re.compile(r"<dl>\n((?:<dd>(?:(?!</?d[lt]\b).)*?</dd>\n?)+)</dl>", re.S)

_FONT_PRELOAD = re.compile(r'<link rel="preload" as="font"[^>]*>\n?')


@dataclass(frozen=True)
class BuiltBook:
    """The first page of a site, and what its pages weigh."""

    index: Path
    sizes: BookSizes


def build_book(run: Path, book_source: Path, out: Path, *, address: str = "") -> BuiltBook:
    """Build the site of one run.

    The source folder is never written to: everything is staged in ``out/stage`` and stays there
    for reading after a failure. ``out/html`` is replaced as a whole, and only by a build that passed.
    ``out/sizes.json`` tells how much a browser loads for each of its pages.

    Parameters
    ----------
    run : run folder whose chapters are published
    book_source : folder with ``_config.yml`` and ``_toc.yml``
    out : products go here
    address : where the book will be published; empty for a book without canonical links, sitemap and card

    Raises
    ------
    InputError : the source is no book, or the address none
    NotBuiltError : a chapter was not run or did not pass
    BookError : Jupyter Book gave a warning or an error, or a page would fetch something at view time
    """
    if not (book_source / "_config.yml").is_file():
        raise InputError(f"{book_source}: holds no _config.yml", way_out="point --source at the folder 'book'")
    if address:
        site_address(address)  # refused before anything is built
    stage = out / "stage"
    stage_book(run, book_source, stage)
    _jupyter_book(stage)
    built = stage / "_build" / "html"
    _prune_mathjax(built)
    _mend_pages(built)
    if address:
        publish_online(built, address, card_picture(run))
    remote = external_requests(built)
    if remote:
        raise BookError(f"the book would fetch from elsewhere: {'; '.join(remote[:5])}", way_out="vendor these files")
    with whole_folder(out / "html") as target:
        shutil.copytree(built, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".buildinfo", ".doctrees"))
    sizes = book_sizes(out / "html")
    write_text(out / SIZES, sizes.model_dump_json(indent=1))
    return BuiltBook(out / "html" / "index.html", sizes)


def _jupyter_book(stage: Path) -> None:
    # Jupyter Book 1 has no module to run with -m, and its script need not be on PATH.
    start = "from jupyter_book.cli.main import main; main()"
    command = [sys.executable, "-c", start, "build", str(stage), "-n", "-W", "--keep-going", "-q"]
    plain = {**os.environ, "NO_COLOR": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=plain)
    if done.returncode != 0:
        lines = (done.stdout + done.stderr).replace(f"{stage}/", "").splitlines()
        faults = [line for line in lines if "WARNING" in line or "ERROR" in line] or lines[-15:]
        raise BookError("Jupyter Book: " + "\n".join(faults[:20]), way_out=f"the sources it read lie in {stage}")


def _prune_mathjax(site: Path) -> None:
    folder = site / "_static" / "mathjax"
    kept = [folder / name for name in _MATHJAX_KEPT]
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not any(path == keep or keep in path.parents for keep in kept):
            path.unlink()


def _mend_pages(site: Path) -> None:
    """Drop font preloads, which browsers refuse on ``file://`` with an error, and names and roles that do not fit."""
    for path in site.rglob("*.html"):
        text = _FONT_PRELOAD.sub("", path.read_text(encoding="utf-8"))
        text = _OTHER_NAME.sub(lambda found: found[1] or found[2], text)
        text = _SIGNATURE.sub(_parameters, text)
        path.write_text(text.replace(_NO_LIST, '<div class="citation-list">'), encoding="utf-8")


def _parameters(found: re.Match[str]) -> str:
    lines = found[1].replace("<dd>", "<span>").replace("</dd>", "</span>")
    return f'<span class="medvrag-parameters">{lines}</span>'
