"""The ``medvrag`` command: few verbs, each a thin call into the package.

Exit codes: 0 done; 1 a replay differed, a chapter failed, or a claim states what is not so; 2 the input, a setting or
the state of the run is at fault; 3 a model failed, or questions of a run ended in an error (run again to ask only
those); 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import logging
import os
import signal
import sys

import typer

from medvrag_core.cli import (
    audit,
    benchmarks,
    best,
    book,
    calibration,
    calls,
    claims,
    compare,
    corpus,
    cost,
    data,
    errors,
    index,
    listings,
    plan,
    retrieval,
    run,
    score,
    servers,
)
from medvrag_core.errors import MedvragError
from medvrag_core.views.trace_text import plain

VERBS = {
    "Runs": (
        *(plan.plan, run.embed, run.run, run.ask, run.report, run.retrieve),
        *(listings.systems, listings.profiles),
    ),
    "Questions": (run.convert,),
    "Evaluation": (
        *(score.score, compare.compare, compare.power, best.best, retrieval.retrieval, retrieval.judge),
        *(retrieval.agreement, errors.errors, calibration.calibration, cost.cost, calls.diff),
    ),
    "The paper": (audit.audit, claims.claims),
    "Models": (servers.serve, servers.doctor, calls.replay),
}
"""Single verbs by the heading that ``--help`` shows them under."""

GROUPS = {
    "Runs": {"corpus": corpus.corpus, "index": index.index},
    "Questions": {"benchmarks": benchmarks.benchmarks, "data": data.data},
    "Models": {"calls": calls.calls},
    "The paper": {"book": book.book},
}
"""Verbs that have verbs of their own."""

_STOPPED = 130
"""Exit code of what Ctrl-C or SIGTERM ended."""

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help=__doc__)
for heading, verbs in VERBS.items():
    for verb in verbs:
        app.command(rich_help_panel=heading)(verb)
for heading, groups in GROUPS.items():
    for name, group in groups.items():
        app.add_typer(group, name=name, rich_help_panel=heading)


def main() -> None:
    """Entry point of the console script: errors become one sentence and an exit code."""
    # Not by way of SIGINT, which a shell has its background jobs ignore.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    logging.basicConfig(level=os.environ.get("MEDVRAG_LOG", "WARNING"), format="%(name)s: %(message)s")
    try:
        code = app(standalone_mode=False)
        if code == _STOPPED:
            raise KeyboardInterrupt  # Typer made this of it.
    except MedvragError as error:
        # Errors quote files and servers, which must not steer the terminal.
        typer.echo(plain(f"medvrag: {error}"), err=True)
        code = error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        typer.echo("medvrag: stopped; finished work is kept, the same command goes on from here", err=True)
        code = _STOPPED
    except BrokenPipeError:
        code = 0
    except Exception as error:
        # A usage error: typer shows it itself, but does not export the class.
        if not hasattr(error, "show"):
            raise
        error.show()
        code = 2
    sys.exit(code or 0)
