"""Checks of rounds, latency, token budgets and sizes (sections 3 and 4.4, Table 2)."""

from __future__ import annotations

import math

from medvrag_core.evaluation.audit.finding import Finding, compare, decide, derive
from medvrag_core.evaluation.audit.paper import Paper
from medvrag_core.evaluation.audit.rounded import exact, total
from medvrag_core.evaluation.audit.table import plain_mean, question_mean

MARGIN = 0.10
"""Share of a window that a budget by averages should leave free; less is called open, since lengths vary."""


def round_checks(paper: Paper) -> list[Finding]:
    """Shares of rounds, and whether the accuracies by round give back an average of the full system."""
    shares = [paper.number(f"rounds_{k}_share") for k in (1, 2, 3)]
    accuracies = [paper.number(f"rounds_{k}_accuracy") for k in (1, 2, 3)]
    shown = [paper.shown(f"rounds_{k}_share") for k in (1, 2, 3)]
    where = paper.where("rounds_1_share", "more_rounds_share")
    found = [
        compare(
            "round-shares", "rounds", where, "shares of one, two and three rounds are all questions",
            claimed=exact(100), computed=total(shares), arithmetic=" + ".join(shown),
            wording="The shares do not add up to all questions.",
        ),
        compare(
            "more-rounds", "rounds", where, f"more than one round: {paper.shown('more_rounds_share')}%",
            claimed=paper.number("more_rounds_share"), computed=shares[1] + shares[2], arithmetic=" + ".join(shown[1:]),
            wording="The share of questions with more than one round is not that of two and three rounds.",
        ),
    ]  # fmt: skip
    rounds = total([share * k for k, share in enumerate(shares, start=1)]) / 100
    found.append(
        derive(
            "mean-rounds", "rounds", where, f"({shown[0]} + 2 x {shown[1]} + 3 x {shown[2]}) / 100",
            f"{rounds.show(3)} rounds a question", "The mean number of rounds, for planning cost.",
        )
    )  # fmt: skip
    mixed = total([share * accuracy for share, accuracy in zip(shares, accuracies, strict=True)]) / 100
    full = paper.sequence[-1]
    by_question, by_set = question_mean(paper.table, full), plain_mean(paper.table, full)
    averages = [average for average in (by_question, by_set) if average is not None]
    parts = " + ".join(f"{s} x {paper.shown(f'rounds_{k}_accuracy')}" for k, s in enumerate(shown, start=1))
    found.append(
        decide(
            "round-mix", "rounds", f"{paper.where('rounds_1_share')}, {paper.table.name}",
            f"accuracy by round of {full}, over all sets",
            ok=any(mixed.agrees(average) for average in averages),
            arithmetic=f"({parts}) / 100 = {mixed.show(2)} ({mixed.range()} with rounding)",
            result=f"{mixed.show(2)}, beside {' and '.join(a.show(2) for a in averages)} (by question, by set)",
            severity="A",
            wording="The shares and accuracies by round do not give back either average of the full system. If they "
            "are shares of questions, as the text says, the average by question must come out.",
            alternatives=(
                "shares and accuracies were each averaged over sets, for which the identity need not hold",
                "the figures by round come from another run, or from some of the sets",
            ),
        )
    )  # fmt: skip
    return [*found, *_recovery(paper)]


def _recovery(paper: Paper) -> list[Finding]:
    """Errors recovered by rounds 2 and 3 on MedQA against the steps of Table 1."""
    by2, by3 = paper.number("recovered_by_2") / 100, paper.number("recovered_by_3") / 100
    added, chained = by2 + by3, exact(1) - (exact(1) - by2) * (exact(1) - by3)
    where = paper.where("recovered_by_2", "recovered_share")
    single, *later = (paper.table.cell(arm, "MedQA") for arm in paper.sequence[2:])
    shown2, shown3 = paper.shown("recovered_by_2"), paper.shown("recovered_by_3")
    found = []
    if single is not None:
        ways = [((arm - single) / (exact(100) - single)) * 100 for arm in later if arm is not None]
        stated = [added * 100, chained * 100]
        names = paper.sequence[3:]
        found.append(
            decide(
                "recovered-errors", "rounds", f"{where}, {paper.table.name}",
                f"rounds 2 and 3 recover {shown2}% and {shown3}% of the errors after round 1 (MedQA)",
                ok=any(way.agrees(s) for way in ways for s in stated),
                arithmetic=f"added {stated[0].show()}%, chained {stated[1].show()}%; Table 1, from {single.show()}: "
                + ", ".join(f"{w.show()}% to {n}" for w, n in zip(ways, names, strict=False)),
                result=f"{stated[1].show()} to {stated[0].show()}% stated, "
                + " or ".join(f"{way.show()}%" for way in ways) + " by the rows of Table 1",
                severity="B",
                wording="The recovered share matches no pair of rows of Table 1. What an error after round 1 is needs "
                "a definition, since a system that asks again has not answered yet.",
                alternatives=(
                    "errors after round 1 were counted inside the full system, by the answer it would have given",
                    "questions lost again in later rounds were not taken off",
                ),
            )
        )  # fmt: skip
    simple = by2 / added * 100
    rest = by2 / chained * 100
    claimed = paper.number("recovered_share")
    found.append(
        decide(
            "recovered-share", "rounds", paper.where("recovered_share"),
            f"stopping after round 2 keeps {paper.shown('recovered_share')}% of what is recovered",
            ok=claimed.agrees(exact(simple.value)) and claimed.agrees(exact(rest.value)),
            arithmetic=f"same base: {shown2} / ({shown2} + {shown3}) = {simple.show()}%; each of the errors then left: "
            f"{rest.show()}%",
            result=f"{simple.show()}% or {rest.show()}%, by what the second percentage is a share of",
            severity="C",
            wording="The figure holds if both percentages share a base; if round 3's is a share of the errors then "
            "left, it is slightly higher. The conclusion is the same.",
            alternatives=("both are shares of the errors after round 1",),
        )
    )  # fmt: skip
    return found


def latency_checks(paper: Paper) -> list[Finding]:
    """Sums of Table 2, and the times of two and three rounds."""
    stage1 = total([paper.number(name) for name in ("ann_ms", "coarse_ms", "fine_ms")])
    one = stage1 / 1000 + paper.number("filter_s") + paper.number("vlm_s")
    s1, f, v = stage1.show(), paper.shown("filter_s"), paper.shown("vlm_s")
    three = paper.number("three_rounds_s")
    claimed, twice, two = paper.number("two_rounds_s"), paper.number("one_round_s") * 2, three * 2 / 3
    routes = [claimed.agrees(twice), claimed.agrees(two)]
    names = ("two_rounds_s", "three_rounds_s")
    return [
        decide(
            "stage1-time", "latency", paper.where("ann_ms", "stage1_limit_ms"),
            f"stage 1 stays under {paper.shown('stage1_limit_ms')} ms",
            ok=stage1.high < paper.number("stage1_limit_ms").value,
            arithmetic=f"{paper.shown('ann_ms')} + {paper.shown('coarse_ms')} + {paper.shown('fine_ms')} = {s1} ms",
            result=f"{s1} ms; encoding the query is no row of the table",
            severity="B", wording="The steps of stage 1 add up to more than the stated limit.",
        ),
        compare(
            "one-round-time", "latency", paper.where("one_round_s"), f"one round: {paper.shown('one_round_s')} s",
            claimed=paper.number("one_round_s"), computed=one, arithmetic=f"{s1} ms + {f} s + {v} s",
            wording="One round is not the sum of its steps.",
        ),
        compare(
            "three-round-time", "latency", paper.where("three_rounds_s"),
            f"three rounds: {paper.shown('three_rounds_s')} s", claimed=three, computed=one * 3,
            arithmetic=f"3 x ({s1} ms + {f} s + {v} s)", wording="Three rounds are not three times one round.",
        ),
        decide(
            "two-round-time", "latency", paper.where(*names), f"two rounds: {paper.shown('two_rounds_s')} s",
            ok=all(routes),
            arithmetic=f"2 x {paper.shown('one_round_s')} s = {twice.show()} ({twice.range()}); "
            f"2 / 3 x {paper.shown('three_rounds_s')} s = {two.show()} ({two.range()})",
            result=f"printed {claimed.show()}, computed {twice.show()} or {two.show()}",
            severity="C" if any(routes) else "B",
            wording="Two rounds are a little shorter than two thirds of three rounds; nothing hangs on the difference.",
            alternatives=("measured on its own rather than computed", "a slip in the last digit"),
        ),
        compare(
            "two-round-share", "latency", paper.where(*names),
            f"two rounds take {paper.shown('two_of_three_share')}% of three",
            claimed=paper.number("two_of_three_share"), computed=claimed / three * 100,
            arithmetic=f"{paper.shown('two_rounds_s')} / {paper.shown('three_rounds_s')} x 100",
            wording="The share fits two of three equal rounds, not the two times printed beside it.",
            alternatives=("2 / 3 was rounded, not the quotient of the printed times",),
        ),
    ]  # fmt: skip


def budget_checks(paper: Paper) -> list[Finding]:
    """Tokens of the filter (section 3.3) against its window, for pages and for text chunks."""
    candidates, shard, shards = paper.count("candidates"), paper.count("shard_size"), paper.count("shards")
    tokens, window = paper.number("summary_tokens"), round(paper.count("window_tokens") * 1.024)
    where = paper.where("filter_tokens", "summary_tokens", "candidates")
    words, full = paper.shown("summary_tokens"), tokens * shard
    free = 1 - float(full) / window
    chunk = paper.count("chunk_tokens") * shard
    kept = shards * paper.count("shard_keeps")
    return [
        compare(
            "filter-tokens", "token budgets", where, f"all summaries: {paper.shown('filter_tokens')} tokens",
            claimed=paper.number("filter_tokens"), computed=tokens * candidates, arithmetic=f"{candidates} x {words}",
            wording="Candidates times mean length is not the stated number of tokens.", digits=0,
        ),
        compare(
            "shard-tokens", "token budgets", where, f"one shard: {paper.shown('shard_tokens')} tokens",
            claimed=paper.number("shard_tokens"), computed=full, arithmetic=f"{shard} x {words}",
            wording="Shard size times mean length is not the stated number of tokens.", digits=0,
        ),
        decide(
            "shard-count", "token budgets", where, f"{shards} shards of {shard} hold {candidates} candidates",
            ok=math.ceil(candidates / shard) == shards,
            arithmetic=f"{candidates} / {shard} = {candidates / shard:.2f}; {shards} x {shard} = {shards * shard}",
            result=f"{math.ceil(candidates / shard)} shards, the last with {candidates % shard or shard}",
            severity="B", wording="The stated shards do not hold the stated candidates.",
            alternatives=("shards of equal size",),
        ),
        decide(
            "shard-survivors", "token budgets", where, f"the reduce call ranks {paper.shown('survivors')}",
            ok=kept == paper.count("survivors"), arithmetic=f"{shards} x {paper.count('shard_keeps')} = {kept}",
            result=f"{kept}", severity="B", wording="Shards times survivors is not what the reduce call ranks.",
        ),
        decide(
            "shard-headroom", "token budgets", where,
            f"a shard fits a window of {paper.shown('window_tokens')} tokens",
            ok=free >= MARGIN,
            arithmetic=f"{window} - {shard} x {words} = {window - float(full):.0f} tokens ({free:.1%}) for "
            "instructions, question, page ids and reply",
            result=f"a shard overflows when its summaries are {100 * (window / float(full) - 1):.1f}% longer than the "
            "mean, before anything else is in the prompt",
            severity="C",
            wording="By averages a full shard fits, but with little room; how shards that are too long were treated is "
            "not said.",
            alternatives=("summaries have a hard limit near their mean", "shards were packed by tokens"),
        ),
        decide(
            "text-filter-window", "token budgets", paper.where("chunk_tokens", "shard_size", "window_tokens"),
            "text chunks pass the same filter as pages",
            ok=chunk <= window,
            arithmetic=f"{shard} x {paper.shown('chunk_tokens')} = {chunk} tokens a shard, window {window}",
            result=f"{chunk / window:.1f} windows a shard; one window holds at most "
            f"{window // paper.count('chunk_tokens')} chunks",
            severity="C",
            wording="Whole chunks in shards of the stated size do not fit the stated window. What the filter read in "
            "the text arm is not said in the main text, and matters for the comparison.",
            alternatives=("chunks were summarized first", "smaller shards, or fewer candidates", "a longer window",
                          "the appendix says it"),
        ),
    ]  # fmt: skip


def size_checks(paper: Paper) -> list[Finding]:
    """Sizes that follow from pages, vectors and dimensions; the paper prints none."""
    pages, articles = paper.number("pages"), paper.number("articles")
    vectors = pages * paper.number("vectors_per_page")
    values = vectors * paper.count("dimensions")
    where = paper.where("pages", "vectors_per_page", "dimensions")
    p, v, d = (paper.shown(name) for name in ("pages", "vectors_per_page", "dimensions"))
    seconds = paper.number("one_round_s")
    shares = [paper.number(f"rounds_{k}_share") for k in (1, 2, 3)]
    rounds = total([share * k for k, share in enumerate(shares, start=1)]) / 100
    questions = sum(paper.table.sizes.values())
    return [
        derive(
            "index-size", "sizes", where, f"{p} x {v} x {d} = {float(values) / 1e9:.2f} billion numbers",
            f"{float(values) * 4 / 1e9:.1f} GB at 32 bits, {float(values) * 2 / 1e9:.1f} GB at 16, "
            f"{float(values) / 1e9:.1f} GB at 8",
            "The page vectors alone; centroids and the ANN index come on top.",
        ),
        derive(
            "pages-per-article", "sizes", paper.where("pages", "articles"), f"{p} / {paper.shown('articles')}",
            f"{(pages / articles).show(1)} pages an article, after near-duplicates were dropped",
            "Worth a look at how the articles were chosen.",
        ),
        derive(
            "serial-hours", "sizes", f"{paper.where('one_round_s', 'rounds_1_share')}, {paper.table.name}",
            f"{questions} questions x {rounds.show(3)} rounds x {paper.shown('one_round_s')} s / 3600",
            f"{(rounds * seconds * questions / 3600).show(0)} hours for one arm, one question at a time",
            "What one arm costs on the paper's machine, by its own times.",
        ),
    ]  # fmt: skip
