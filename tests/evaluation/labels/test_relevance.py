from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.errors import InputError
from medvrag_core.evaluation.labels.relevance import (
    GRADES,
    Grade,
    LabelFile,
    RelevanceLabel,
    as_gold,
    gold_as_labels,
    read_labels,
    write_labels,
)


def label(page: str = "a#p1", grade: Grade | None = "relevant", rater: str = "ann", **more: object) -> RelevanceLabel:
    values = {"question_id": "q1", "page_id": page, "rater": rater, "label": grade} | more
    return RelevanceLabel.model_validate(values)


@settings(deadline=None)
@given(st.text(max_size=40), st.sampled_from([*GRADES, None]))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, reason: str, grade: Grade | None) -> None:
    path = tmp_path_factory.mktemp("labels") / "l.jsonl"
    made = [label("a#p1", grade, reason=reason, stratum="s", probability=0.25), label("a#p2")]
    write_labels(path, made)
    assert read_labels(path) == made


def test_the_last_label_of_a_pair_counts(tmp_path: Path) -> None:
    with LabelFile(tmp_path / "l.jsonl", "ann") as file:
        for grade in ("relevant", "unsure", "not_relevant"):
            file.append(label(grade=grade))
        file.append(label("a#p2"))
        assert [x.label for x in file.labels.values()] == ["not_relevant", "relevant"]
    assert len((tmp_path / "l.jsonl").read_text().splitlines()) == 4
    assert [x.label for x in read_labels(tmp_path / "l.jsonl")] == ["not_relevant", "relevant"]


def test_a_file_cut_at_any_byte_keeps_every_whole_label_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    write_labels(path, [label("a#p1"), label("a#p2", reason="é")])
    raw = path.read_bytes()
    whole = raw.index(b"\n") + 1
    for end in range(len(raw)):
        path.write_bytes(raw[:end])
        with LabelFile(path, "ann") as file:
            assert len(file.labels) == (end >= whole)
            file.append(label("a#p3"))
        assert [x.page_id for x in read_labels(path)] == ["a#p1", "a#p3"][end < whole :]


def test_a_damaged_line_in_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    path.write_text('{"question_id": 1}\n' + label().to_json() + "\n")
    for opened in (lambda: read_labels(path), lambda: LabelFile(path, "ann")):
        with pytest.raises(InputError, match="line 1"):
            opened()
    path.write_text(label().to_json() + "\n")
    LabelFile(path, "ann").close()


def test_one_writer_and_one_rater_a_file(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    with LabelFile(path, "ann") as file:
        with pytest.raises(InputError, match="open elsewhere"):
            LabelFile(path, "ann")
        with pytest.raises(InputError, match="open for 'ann'"):
            file.append(label(rater="bob"))
        file.append(label())
    with pytest.raises(InputError, match="labels of 'ann'"):
        LabelFile(path, "bob")
    with pytest.raises(InputError, match="name of its rater"):
        LabelFile(path, "  ")
    LabelFile(path, "ann").close()


def test_labels_outlive_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    script = (
        "import os, signal, sys; from pathlib import Path\n"
        "from medvrag_core.evaluation.labels.relevance import LabelFile, RelevanceLabel\n"
        "file = LabelFile(Path(sys.argv[1]), 'ann')\n"
        "for n in range(3):\n"
        "    file.append(RelevanceLabel(question_id='q', page_id=f'a#p{n}', rater='ann', label='partly'))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], env=os.environ, check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(read_labels(path)) == 3
    LabelFile(path, "ann").close()


def test_a_label_that_the_disk_does_not_take_leaves_no_half_line(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    script = (
        "import resource, sys; from pathlib import Path\n"
        "from medvrag_core.evaluation.labels.relevance import LabelFile, RelevanceLabel\n"
        "label = RelevanceLabel(question_id='q', page_id='a#p1', rater='ann', label='partly')\n"
        "size = len(label.to_json()) + 1\n"
        "file = LabelFile(Path(sys.argv[1]), 'ann')\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (size + size // 2, resource.RLIM_INFINITY))\n"
        "file.append(label)\n"
        "for _ in range(2):\n"
        "    try:\n"
        "        file.append(label.model_copy(update={'page_id': 'a#p2'}))\n"
        "    except OSError:\n"
        "        assert len(file.labels) == 1\n"
        "    else:\n"
        "        raise SystemExit(7)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))\n"
        "file.append(label.model_copy(update={'page_id': 'a#p3'}))\n"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], env=os.environ, check=True)
    assert [x.page_id for x in read_labels(path)] == ["a#p1", "a#p3"]
    assert path.read_bytes().count(b"\n") == 2


def test_files_of_several_raters_need_a_name(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    write_labels(path, [label(), label(grade="unsure", rater="bob")])
    with pytest.raises(InputError, match="ann, bob"):
        read_labels(path)
    assert [x.label for x in read_labels(path, rater="bob")] == ["unsure"]
    with pytest.raises(InputError, match=r"no label of 'eve'.*ann, bob"):
        read_labels(path, rater="eve")
    with pytest.raises(InputError, match="no such file"):
        read_labels(tmp_path / "none.jsonl")


def test_gold_pages_can_be_compared_with_a_judge() -> None:
    made = gold_as_labels([("q1", "a#p1"), ("q1", "a#p2"), ("q2", "a#p1")], {"q1": ("a#p2",)}, "authors")
    assert [(x.pair, x.label) for x in made if x.label == "relevant"] == [(("q1", "a#p2"), "relevant")]
    assert {x.rater for x in made} == {"authors"} and len(made) == 3


def test_unclear_labels_are_no_gold() -> None:
    labels = [label(f"a#p{n}", grade) for n, grade in enumerate([*GRADES, None])]
    assert as_gold(labels) == {"q1": {"a#p0": 1, "a#p1": 0, "a#p2": 0}}
    assert as_gold(labels, partly=True) == {"q1": {"a#p0": 1, "a#p1": 1, "a#p2": 0}}
