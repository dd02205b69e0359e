"""Imports the package once and forks a child for each run it is told to do, so that a run can be killed many times.

Reads one JSON object a line: {"run": folder, "settings": {dotted: value}, "questions": n}. Prints the pid of the child,
then, when it is gone, its exit status (negative: the signal that ended it).
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from medvrag_core.errors import MedvragError
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import Question
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import answer_all
from medvrag_core.systems.resources import Resources


def preload() -> None:
    """What a child would import on its first question."""
    import faiss  # noqa: F401
    import onnxruntime  # noqa: F401
    import openai  # noqa: F401
    import PIL.Image  # noqa: F401
    import tokenizers  # noqa: F401

    import medvrag_core.filter.llm_ranker
    import medvrag_core.models.openai_client
    import medvrag_core.reasoning.vlm_reader  # noqa: F401


def questions(count: int) -> list[Question]:
    """Questions on the made PDFs; which option is right does not matter here."""
    topics = ("allopurinol", "ferritin", "budesonide", "serum urate", "candidiasis")
    return [
        Question(
            id=f"q{n:03}",
            question=f"Question {n}: what is said about {topics[n % len(topics)]}?",
            options={label: f"{label} of {n}" for label in "ABCD"},
            answer="ABCD"[n % 4],
        )
        for n in range(count)
    ]


def child(order: dict[str, object]) -> int:
    resources = Resources(Workspace(Path(str(order["run"]))), load_profile("test", order["settings"]))
    try:
        answer_all("medvrag", resources, questions(int(str(order["questions"]))), progress=False)
    except MedvragError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    finally:
        resources.close()
    return 0


def main() -> None:
    preload()
    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            code = 70
            try:
                code = child(order)
            finally:
                os._exit(code)
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
