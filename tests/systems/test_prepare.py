from __future__ import annotations

import pytest

from medvrag_core.encoders.vectors import VectorStore
from medvrag_core.profiles.load import load_profile
from medvrag_core.runs.stage import read_stage
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.prepare import prepare_vectors


def test_the_record_of_embedding_tells_speed_and_size(made_run: Workspace) -> None:
    metrics = read_stage(made_run.root, "embedding", made_by="prepare_vectors").metrics
    store = VectorStore.open(made_run.vectors)
    assert metrics["pages"] == len(store)
    assert metrics["vectors"] == store.offsets[-1]
    assert metrics["pages_per_s"] == pytest.approx(len(store) / metrics["seconds"])
    assert metrics["bytes_per_page"] == store.bytes / len(store)


def test_finished_vectors_are_opened_and_their_speed_is_still_told(made_run: Workspace) -> None:
    before = read_stage(made_run.root, "embedding", made_by="prepare_vectors").metrics
    prepare_vectors(made_run, load_profile("test"), progress=False)
    assert read_stage(made_run.root, "embedding", made_by="prepare_vectors").metrics == before
