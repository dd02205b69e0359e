"""Other questions on the pages of a finished run, in a run of their own."""

from __future__ import annotations

import os

from medvrag_core.errors import InputError
from medvrag_core.index.manifest import read_manifest
from medvrag_core.runs.publish import write_text
from medvrag_core.runs.workspace import Workspace


def share_stages(workspace: Workspace, finished: Workspace) -> None:
    """Give a run the corpus, vectors and index of a finished one, by links, and its profile; none of it is built anew.

    So other questions are asked on the same pages without a trace of theirs among the traces of the finished run.

    Raises
    ------
    NotBuiltError : the other run has no index
    InputError : the run has stages of its own
    """
    read_manifest(finished.index)
    workspace.root.mkdir(parents=True, exist_ok=True)
    for own, theirs in (
        (workspace.corpus, finished.corpus),
        (workspace.vectors, finished.vectors),
        (workspace.index, finished.index),
    ):
        if own.is_symlink() and own.resolve() == theirs.resolve():
            continue
        if own.is_symlink() or own.exists():
            raise InputError(f"run '{workspace.root}' has stages of its own", way_out="choose another run")
        # A relative link survives when both runs are copied or moved together.
        own.symlink_to(os.path.relpath(theirs.resolve(), own.parent.resolve()), target_is_directory=True)
    write_text(workspace.profile, finished.profile.read_text(encoding="utf-8"))
