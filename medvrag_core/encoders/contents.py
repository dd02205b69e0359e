"""Which pages a whole vector store has, and how many rows each, in one small file beside its shards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from medvrag_core.encoders.shards import Contents
from medvrag_core.runs.publish import whole_folder

FILE = "contents.npz"
_BETWEEN = "\0"
"""No page id has it, see :func:`~.shards.unfit`."""


def joined(parts: Sequence[Contents]) -> Contents:
    """Pages of several shards one after another; at least one part.

    >>> one = Contents(("a#p1",), np.array([3]))
    >>> joined([one, one]).page_ids
    ('a#p1', 'a#p1')
    """
    return Contents(
        tuple(page_id for part in parts for page_id in part.page_ids),
        np.concatenate([part.rows for part in parts]),
    )


def write_contents(folder: Path, contents: Contents) -> None:
    """Publish ``folder`` with the one file that :func:`read_contents` reads."""
    with whole_folder(folder) as fresh:
        np.savez(
            fresh / FILE,
            # One long text: an array of texts takes, for each of them, four bytes a letter of the longest.
            page_ids=np.frombuffer(_BETWEEN.join(contents.page_ids).encode(), dtype=np.uint8),
            rows=contents.rows.astype(np.uint32),
        )


def read_contents(folder: Path) -> Contents:
    """What :func:`write_contents` wrote; whoever reads it has checked its digest."""
    with np.load(folder / FILE, allow_pickle=False) as file:
        return Contents(
            tuple(file["page_ids"].tobytes().decode().split(_BETWEEN)),
            file["rows"].astype(np.int64),
        )
