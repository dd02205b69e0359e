"""Registry and faults of question sets as plain text, for the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from medvrag_core.evaluation.benchmarks.faults import MEANING, SUSPECT, QuestionFaults
from medvrag_core.evaluation.benchmarks.registry import Benchmark
from medvrag_core.views.trace_text import plain

_SHOWN = 5


def registry_text(registry: Sequence[Benchmark]) -> str:
    """What can be fetched: name, files, bytes, questions by set, origin and licence."""
    lines = []
    for benchmark in registry:
        sets = ", ".join(f"{name} {count:,}" for name, count in benchmark.sets.items())
        files = f"{len(benchmark.files)} file{'s' if len(benchmark.files) > 1 else ''}, {benchmark.size:,} bytes"
        lines += [
            f"{benchmark.name}: {benchmark.title}",
            f"    {files}; questions: {sets}",
            f"    licence: {benchmark.licence}",
            f"    from {benchmark.origin}",
        ]
    return "\n".join(map(plain, lines))


def faults_text(found: QuestionFaults, *, every: bool = False) -> str:
    """Facts by set, then the faults by kind, ``_SHOWN`` examples each, or ``every`` one."""
    lines = []
    for facts in found.sets:
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in facts.option_kinds.items())
        gold = ", ".join(f"{label} {count:,}" for label, count in facts.gold.items()) or "none"
        lines.append(f"{facts.dataset or '(no set named)'}: {facts.questions:,} questions; {kinds}")
        lines.append(f"    gold {gold}; always one label is right in {facts.always_one_label:.1%}")
        if facts.with_context:
            lines.append(f"    {facts.with_context:,} bring a context, which is read and never searched with")
    count = Counter(fault.kind for fault in found.faults)
    lines += [""] if count else ["", "no fault found"]
    for kind, meaning in MEANING.items():
        if not count[kind]:
            continue
        faults = found.of(kind)
        across = sum(fault.across_sets for fault in faults)
        more = f", {across} of them across sets" if across else ""
        suspect = " [gold suspect]" if kind in SUSPECT else ""
        lines.append(f"{kind}: {count[kind]}{more}{suspect} ({meaning})")
        for fault in faults if every else faults[:_SHOWN]:
            # A suspect id is there to be copied, so it stands whole.
            lines.append(f"    {', '.join(fault.ids)}: {_short(fault.detail)}")
        if not every and len(faults) > _SHOWN:
            lines.append(f"    and {len(faults) - _SHOWN} more (--all)")
    return "\n".join(map(plain, lines))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 160 else line[:159] + "…"
