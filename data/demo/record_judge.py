"""Record the judge labels that chapter 03 shows: ``python data/demo/record_judge.py --weights FILE.gguf``.

A small model (the one of ``record_calls.py``) judges the first three candidates of one question an article by their
summaries. ``recorded/judge_labels.jsonl`` keeps what it said, ``judge_report.json`` the counts and the version of the
prompt. Needs the extra ``local`` and some minutes of one CPU core; a stopped recording goes on. Run it again when the
judge's prompt changed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from record_calls import SHA256

from medvrag_core.errors import InputError
from medvrag_core.evaluation.labels.judge import judge_pages, judge_tasks, judging_pool
from medvrag_core.evaluation.labels.relevance import write_labels
from medvrag_core.evaluation.questions import read_questions
from medvrag_core.models.local_server import LocalServer
from medvrag_core.profiles.load import load_profile
from medvrag_core.runs.lock import only_writer
from medvrag_core.runs.publish import sha256_of, write_text
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import answer_all
from medvrag_core.systems.prepare import prepare
from medvrag_core.systems.resources import Resources

HERE = Path(__file__).resolve().parent
NAME = "Qwen2.5-Coder-1.5B-Instruct-Q4_K_M"
DEPTH = 3


def main() -> None:
    """Judge, or go on judging, and write the labels."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, required=True, help="GGUF file of the model")
    parser.add_argument("--run", type=Path, default=Path("runs/judging"), help="scratch run, resumed if it exists")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    if sha256_of(options.weights) != SHA256:
        raise InputError(f"{options.weights}: is not the recorded model", way_out="fetch that one, see record_calls.py")
    # The first question of every article, chosen before any page was judged.
    asked = [q for q in read_questions(HERE / "built" / "questions.jsonl") if q.id.endswith("-01")]
    workspace = Workspace(options.run)
    with (
        only_writer(workspace.root),
        LocalServer(context=2_048, threads=options.threads, weights=options.weights, name=NAME) as server,
    ):
        profile = load_profile(
            "cpu",
            {
                "judge_model.model": NAME,
                "judge_model.server": "llama.cpp",
                "judge_model.base_url": server.base_url,
                "judge_model.temperature": 0.0,
                "judge_model.top_p": 1.0,
                "judge_model.context_tokens": 2_048,
            },
        )
        prepare(workspace, HERE / "built" / "pdf", profile)
        resources = Resources(workspace, profile)
        try:
            traces = answer_all("page_single", resources, asked)
            tasks = judge_tasks(asked, judging_pool(traces, "stage1", DEPTH), resources.store, show="summary")
            labels, report = judge_pages(resources.chat(profile.judge_model), tasks)
        finally:
            resources.close()
    write_labels(HERE / "recorded" / "judge_labels.jsonl", labels)
    write_text(HERE / "recorded" / "judge_report.json", report.model_dump_json(indent=1) + "\n")
    print(f"{report.pairs} pages judged, {report.relevant} relevant, replies without a label {report.unread}")


if __name__ == "__main__":
    main()
