"""How well the page encoder of a run ranks its pages, beside BM25 over the same pages, in one go.

    python benchmarks/encoder_quality.py --run runs/articles --data DIR

``--run`` is a run folder with a corpus and page vectors (``medvrag run`` or notebooks 01 and 02 make one); ``--data``
is a retrieval set over them, of real pages or in BEIR layout (``retrieval_sets.py`` says which files). ``exact`` is
late interaction over every page. Halves are for choosing settings on one and reporting on the other; say on which
queries settings were chosen wherever a number is quoted.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from retrieval_sets import query_sets
from side_by_side import show_cost, show_rankings

from medvrag_core.errors import MedvragError
from medvrag_core.profiles.load import load_profile
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.resources import Resources


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True, help="run folder with corpus and page vectors")
    parser.add_argument("--data", type=Path, required=True, help="folder of the retrieval set")
    parser.add_argument("--split", default="test", help="of a set in BEIR layout")
    parser.add_argument("--retriever", action="append", default=[], help="one more, as in `medvrag retrieve`")
    options = parser.parse_args()
    workspace = Workspace(options.run)
    try:
        resources = Resources(workspace, load_profile(str(workspace.profile)))
        show_rankings(resources, query_sets(options.data, options.split), ["exact", *options.retriever])
        show_cost(resources)
    except MedvragError as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
