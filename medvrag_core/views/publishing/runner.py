"""Run the chapters in order with papermill, judge each one, and run again only what changed."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

from medvrag_core.corpus.showing import AUDIENCE, PUBLIC
from medvrag_core.errors import InputError
from medvrag_core.profiles.load import load_profile
from medvrag_core.runs.publish import write_text
from medvrag_core.runs.workspace import Workspace
from medvrag_core.settings import Profile
from medvrag_core.views.publishing.chapters import (
    Chapter,
    chapter_key,
    check_parameters,
    digest_of,
    find_chapters,
    flow_key,
    package_hash,
)
from medvrag_core.views.publishing.errors import ChapterFailed
from medvrag_core.views.publishing.notebook import read_notebook
from medvrag_core.views.publishing.verdict import require_complete, require_record

_KERNEL_ENVIRONMENT = {"TQDM_DISABLE": "1", "JUPYTER_PREFER_ENV_PATH": "1", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}


def run_chapters(
    notebooks: Path,
    run: Path,
    *,
    profile: str = "cpu",
    parameters: Mapping[str, Any] | None = None,
    only: Sequence[str] | None = None,
    force: bool = False,
    private: bool = False,
    progress: Callable[[str], None] = print,
) -> list[str]:
    """Bring the executed chapters of a run up to date; returns the names of all that stand.

    A chapter is skipped when its source, its parameters, the resolved profile, the package, the files its
    parameters name and the code of every chapter before it are those of the stored run.

    Parameters
    ----------
    notebooks : folder of chapters, run in order of their numbers with its parent as working directory
    run : run folder; executed notebooks go to ``run/notebooks``
    profile : profile name or path
    parameters : values by name, given to every chapter that has the name
    only : names of chapters (``03_filter``); the others are left as they are
    force : run also what is up to date
    private : show pages whatever their licence, for a book that nobody else gets
    progress : receives one line a chapter

    Raises
    ------
    SettingsError : a parameter that no chapter has, or a faulty profile
    ChapterFailed : a chapter is malformed or did not pass; what it left lies in ``<chapter>.failed.ipynb``
    """
    values = dict(parameters or {})
    chapters = find_chapters(notebooks)
    check_parameters(chapters, values)
    unknown = sorted(set(only or ()) - {chapter.name for chapter in chapters})
    if unknown:
        raise InputError(f"no chapter '{unknown[0]}' in {notebooks}", way_out=_names(chapters))
    root = notebooks.resolve().parent
    if run.resolve().parent != root / "runs":
        raise InputError(
            f"{run}: chapters find their run by its name under {root / 'runs'}", way_out="give --run runs/NAME"
        )
    job = _Job(root, run, load_profile(profile), profile, values, private)
    done: list[str] = []
    flow = ""
    for chapter in chapters:
        given = job.parameters_of(chapter)
        key = digest_of(flow, job.key(chapter, given))
        if only and chapter.name not in only:
            flow = job.stored(chapter).get("flow", "never run")
            continue
        if not force and job.is_up_to_date(chapter, key):
            progress(f"{chapter.name}: up to date")
        else:
            clock = perf_counter()
            job.execute(chapter, given)
            progress(f"{chapter.name}: passed in {perf_counter() - clock:.1f} s")
        flow = digest_of(flow, job.flow(chapter, given))
        job.store(chapter, {"key": key, "flow": flow, "audience": "private" if private else PUBLIC})
        done.append(chapter.name)
    return done


def is_private(run: Path, name: str) -> bool:
    """Whether a chapter was last run with pages shown whatever their licence."""
    return _stored(Workspace(run).notebooks, name).get("audience") == "private"


class _Job:
    """What stays the same for all chapters of one call."""

    def __init__(
        self,
        root: Path,
        run: Path,
        profile: Profile,
        profile_name: str,
        values: dict[str, Any],
        private: bool,
    ) -> None:
        self.root, self.run, self.values = root, run, values
        self.environment = _KERNEL_ENVIRONMENT | ({} if private else {AUDIENCE: PUBLIC})
        self.folder = Workspace(run).notebooks
        self.profile_name = profile_name
        self.settings = {
            **profile.model_dump(mode="json"),
            "package": package_hash(),
            **({"private": True} if private else {}),
        }

    def parameters_of(self, chapter: Chapter) -> dict[str, Any]:
        chosen = {name: value for name, value in self.values.items() if name in chapter.defaults}
        return {**chosen, "profile": self.profile_name, "run_id": self.run.name}

    def key(self, chapter: Chapter, given: Mapping[str, Any]) -> str:
        return chapter_key(chapter, {**chapter.defaults, **given}, self.settings, self.root)

    def flow(self, chapter: Chapter, given: Mapping[str, Any]) -> str:
        return flow_key(chapter, {**chapter.defaults, **given}, self.settings, self.root)

    def stored(self, chapter: Chapter) -> dict[str, str]:
        return _stored(self.folder, chapter.name)

    def store(self, chapter: Chapter, keys: dict[str, str]) -> None:
        write_text(self.folder / f"{chapter.name}.key.json", json.dumps(keys, indent=1))

    def is_up_to_date(self, chapter: Chapter, key: str) -> bool:
        executed = self.folder / f"{chapter.name}.ipynb"
        if self.stored(chapter).get("key") != key or not executed.is_file():
            return False
        try:
            require_complete(read_notebook(executed), chapter.name)
            require_record(self.run, chapter.name, chapter.stage)
        except ChapterFailed:
            return False
        return True

    def execute(self, chapter: Chapter, given: dict[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / f"{chapter.name}.key.json").unlink(missing_ok=True)
        partial = self.folder / f".{chapter.name}.part.ipynb"
        failed = self.folder / f"{chapter.name}.failed.ipynb"
        began = datetime.now(UTC)
        try:
            raised = _papermill(chapter.path, partial, given, self.root, self.environment)
            if not partial.is_file():
                raise ChapterFailed(f"chapter {chapter.name}: did not start ({_first_line(raised)})")
            require_complete(read_notebook(partial), chapter.name, raised)
            require_record(self.run, chapter.name, chapter.stage, began)
            partial.replace(self.folder / f"{chapter.name}.ipynb")
            failed.unlink(missing_ok=True)
        except ChapterFailed as error:
            if not partial.is_file():
                raise
            partial.replace(failed)
            raise ChapterFailed(error.problem, way_out=f"what it left lies in {failed}") from None
        finally:
            partial.unlink(missing_ok=True)


def _stored(folder: Path, name: str) -> dict[str, str]:
    try:
        return dict(json.loads((folder / f"{name}.key.json").read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def _papermill(
    source: Path, target: Path, parameters: dict[str, Any], root: Path, environment: Mapping[str, str]
) -> Exception | None:
    """Execute one notebook; what papermill raised is returned as one more witness for the verdict."""
    import papermill

    for name in ("papermill", "traitlets", "nbclient"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with _environment(environment):
        try:
            papermill.execute_notebook(
                str(source),
                str(target),
                parameters=parameters,
                kernel_name="python3",
                language="python",
                cwd=str(root),
                progress_bar=False,
                log_output=False,
                start_timeout=120,
                extra_arguments=["--IPKernelApp.log_level=40"],
            )
        except Exception as error:  # papermill, nbclient and jupyter_client have no common base
            return error
    return None


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _first_line(error: Exception | None) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _names(chapters: Sequence[Chapter]) -> str:
    return f"choose from {', '.join(chapter.name for chapter in chapters)}"
