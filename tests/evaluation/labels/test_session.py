from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.errors import InputError
from medvrag_core.evaluation.labels.agreement import agreement
from medvrag_core.evaluation.labels.relevance import GRADES, read_labels
from medvrag_core.evaluation.labels.sample import draw_sample
from medvrag_core.evaluation.labels.session import LabelSession, rater_path
from medvrag_core.settings import EvaluationSettings

TASKS = draw_sample({("q1", f"a#p{n}"): f"stratum {n % 2}" for n in range(7)}, 3)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([*GRADES, "back", "reopen"]), max_size=25))
def test_whatever_a_rater_does_the_file_holds_the_last_label_of_every_page(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("raters")
    session = LabelSession(folder, "ann", TASKS)
    kept: dict[tuple[str, str], str] = {}
    for step in steps:
        task = session.task
        if step == "back":
            session.back()
        elif step == "reopen":
            session.close()
            session = LabelSession(folder, "ann", TASKS)
            unlabeled = [t for t in session.tasks if (t.question_id, t.page_id) not in kept]
            assert session.task == (unlabeled[0] if unlabeled else None)
        elif task is None:
            with pytest.raises(InputError, match="every page has a label"):
                session.label(step)  # type: ignore[arg-type]
        else:
            session.label(step)  # type: ignore[arg-type]
            kept[task.question_id, task.page_id] = step
            # On to a page without a label, wherever it is; the end only when there is none.
            assert (session.task is None) == (len(kept) == len(TASKS))
            assert session.said is None
        assert session.done == len(kept)
        assert session.said == (session.task and kept.get((session.task.question_id, session.task.page_id)))
    session.close()
    if kept:
        found = read_labels(rater_path(folder, "ann"))
        assert {label.pair: label.label for label in found} == kept
        chances = {(t.question_id, t.page_id): (t.stratum, t.probability) for t in TASKS}
        assert all((label.stratum, label.probability) == chances[label.pair] for label in found)


def test_two_raters_work_at_once_and_can_be_compared(tmp_path: Path) -> None:
    ann, bob = (LabelSession(tmp_path, name, TASKS) for name in (" ann ", "bob"))
    with pytest.raises(InputError, match="open elsewhere"):
        LabelSession(tmp_path, "ann", TASKS)
    for session in (ann, bob):
        while session.task is not None:
            relevant = session.task.page_id in {"a#p1", "a#p2"} or (session is bob and session.task.page_id == "a#p0")
            session.label("relevant" if relevant else "not_relevant", reason=" seen ")
        session.close()
    assert [t.page_id for t in ann.tasks] != [t.page_id for t in bob.tasks]
    a, b = (read_labels(rater_path(tmp_path, name)) for name in ("ann", "bob"))
    assert {label.reason for label in a} == {"seen"}
    found = agreement(a, b, EvaluationSettings(bootstrap_samples=50))
    assert found.pages == len(TASKS) and found.only_a == 0


@pytest.mark.parametrize("name", ["../../evil", "..", "a/b", "c:\\d", "Ann\u202eB", "é" * 30])
def test_no_name_leaves_the_folder(tmp_path: Path, name: str) -> None:
    path = rater_path(tmp_path, name)
    assert path.parent == tmp_path and path.name.isascii()
    LabelSession(tmp_path, name, TASKS).close()
    assert path.is_file()


def test_names_and_samples_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    for name in ("", "  ", "x" * 61):
        with pytest.raises(InputError, match="1 to 60 characters"):
            LabelSession(tmp_path, name, TASKS)
    with pytest.raises(InputError, match="draw a sample"):
        LabelSession(tmp_path, "ann", ())
    assert list(tmp_path.iterdir()) == []
