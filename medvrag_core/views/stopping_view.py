"""Rounds, policies and the learned stop rule: tables, a figure, and sentences that follow from the verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from medvrag_core.evaluation.statistics.contrasts import Effect
from medvrag_core.evaluation.stopping.choices import GO, OWN, STOP
from medvrag_core.evaluation.stopping.policies import PolicyRow, PolicyStep
from medvrag_core.evaluation.stopping.rounds import IterationGain
from medvrag_core.evaluation.stopping.rule import HINDSIGHT, LEARNED, FeatureWeight, StopRuleReport
from medvrag_core.views.contrast_text import MEAN_OVER, VERDICTS, means
from medvrag_core.views.markup import escape
from medvrag_core.views.tables import HtmlTable, Number, Unbroken, p_text, seconds
from medvrag_core.views.theme import BLUE, GRAY, GREEN, ORANGE, PURPLE, VERMILION, titled

if TYPE_CHECKING:
    import plotly.graph_objects as go

_COLORS = {STOP: GRAY, GO: PURPLE, OWN: ORANGE, LEARNED: BLUE, HINDSIGHT: GREEN}


def gains_table(gain: IterationGain, *, caption: str = "") -> HtmlTable:
    """What later rounds recover and lose against a forced single round, all together and by rounds used."""
    rows = [["all that iterated", *_gain_cells(gain.iterated)]] if gain.iterated else []
    rows += [["all that iterated, mean over sets", *_gain_cells(gain.over_sets)]] if gain.over_sets else []
    rows += [[effect.name, *_gain_cells(effect)] for effect in gain.by_rounds]
    columns = [
        "questions with",
        "n",
        "recovered / lost",
        "points",
        "interval",
        "adjusted p",
        "reading",
        "right (%)",
        "p",
    ]
    notes = [
        caption,
        f"{gain.answered_at_once} of {gain.n} questions were answered in round 1",
        f"on {gain.differing_at_once} of these the two arms differ",
        "exact McNemar tests; rows by rounds adjusted for one another (Holm)",
        "the mean over sets by sign flips within sets" if gain.over_sets else "",
    ]
    return HtmlTable(columns, rows, caption="; ".join(filter(None, notes)))


def gain_sentence(gain: IterationGain) -> str:
    """What the table says, from its verdict."""
    effect = gain.iterated
    if effect is None:
        return f"All {gain.n} questions were answered in round 1, so no later round could recover or lose anything."
    reading = {
        "difference": f"later rounds {'help' if effect.difference > 0 else 'hurt'}",
        "small_difference": "later rounds make a difference that is smaller than the margin",
        "equivalent": "later rounds make no difference that matters",
        "inconclusive": "it is not shown that later rounds help or hurt",
    }[effect.verdict]
    return (
        f"On the {effect.n} of {gain.n} questions that went into a later round, iterating recovers {effect.won} and "
        f"loses {effect.lost} against a forced single round ({effect.difference:+.1f} points, interval "
        f"{effect.low:+.1f} to {effect.high:+.1f}, exact p {p_text(effect.p_value)}): {reading}."
    )


def policies_table(policies: Sequence[PolicyRow], *, caption: str = "") -> HtmlTable:
    """Right answers, rounds and seconds of each policy."""
    rows = [
        [
            p.name,
            Number(f"{p.correct} of {p.n}"),
            Number(f"{100 * p.accuracy:.1f}%"),
            Number(f"[{100 * p.low:.1f}%, {100 * p.high:.1f}%]"),
            Number(f"{p.mean_rounds:.2f}"),
            Number(seconds(p.mean_seconds)),
            Number(seconds(p.median_seconds)),
        ]
        for p in policies
    ]
    columns = ["policy", "right", "accuracy", "interval", "rounds", "time a question, mean", "median"]
    return HtmlTable(columns, rows, caption=caption)


def steps_table(steps: Sequence[PolicyStep], *, caption: str = "") -> HtmlTable:
    """What the time of one policy beyond that of another buys; times are means over questions, whatever the sets."""
    rows = [
        [
            f"{s.contrast.b} over {s.contrast.a}",
            MEAN_OVER[effect.name],
            Number(str(effect.n)),
            Number(f"{effect.won} / {effect.lost}"),
            Number(f"{effect.difference:+.1f}"),
            Number(f"[{effect.low:+.1f}, {effect.high:+.1f}]"),
            Number(p_text(effect.p_adjusted)),
            Unbroken(VERDICTS[effect.verdict]),
            *map(Number, _time_cells(s) if effect.name == "question_weighted" else ["–"] * 5),
        ]
        for s in steps
        for effect in means(s.contrast)
    ]
    columns = [
        "policy",
        "mean over",
        "n",
        "won / lost",
        "points",
        "interval",
        "adjusted p",
        "reading",
        "right answers more in 1,000 questions",
        "time more a question",
        "interval",
        "right answers a second more",
        "interval",
    ]
    return HtmlTable(columns, rows, caption=caption)


def stop_rule_sentence(report: StopRuleReport) -> str:
    """What the learned rule brings over the loop's own, from the verdict of their contrast."""
    step = next(s for s in report.steps if s.contrast.a == OWN)
    effect = _weighted(step)
    better = effect.difference > 0
    reading = {
        "difference": f"the learned rule is right {'more' if better else 'less'} often than the loop's own",
        "small_difference": "the two rules differ in right answers, but by less than the margin",
        "equivalent": "the two rules are right equally often, within the margin",
        "inconclusive": "no gain in right answers is shown, nor a loss",
    }[effect.verdict]
    low, high = step.seconds_low, step.seconds_high
    if high is not None and high < 0:
        time = f"it takes {seconds(-step.extra_seconds)} less a question"
    elif low is not None and low > 0:
        time = f"it takes {seconds(step.extra_seconds)} more a question"
    else:
        time = "a difference in time is not shown"
    power = (
        "So few questions differ that no true difference would be found with 80% power."
        if effect.detectable is None
        else f"A true difference of {effect.detectable:.1f} points would be found with 80% power."
    )
    return (
        f"Another round turned wrong into right on {report.recovered} and right into wrong on {report.lost} of "
        f"{report.open} questions with a choice: all that a rule can learn from. On held-out questions {reading} (won "
        f"{effect.won}, lost {effect.lost}, {effect.difference:+.1f} points, interval {effect.low:+.1f} to "
        f"{effect.high:+.1f}, adjusted p {p_text(effect.p_adjusted)}); {time} (interval {_signed(low)} to "
        f"{_signed(high)}). {power}"
    )


def weights_table(weights: Sequence[FeatureWeight], *, caption: str = "") -> HtmlTable:
    """What the rule looks at, the strongest first; for one standard deviation of each feature."""
    ordered = sorted(weights, key=lambda w: -abs(w.recovers - w.loses))
    rows = [[w.feature, Number(f"{w.recovers:+.2f}"), Number(f"{w.loses:+.2f}")] for w in ordered]
    return HtmlTable(["round 1", "log-odds of recovering", "log-odds of losing"], rows, caption=caption)


def frontier_figure(report: StopRuleReport, *, caption: str = "") -> go.Figure:
    """Right answers against time: the policies, the rule at every strictness, and going on at random between."""
    import plotly.graph_objects as go

    ends = (report.frontier[0], report.frontier[-1])
    figure = go.Figure()
    figure.add_scatter(
        x=[p.mean_seconds for p in ends],
        y=[100 * p.accuracy for p in ends],
        mode="lines",
        name="going on at random",
        line={"dash": "dot", "color": GRAY},
        hoverinfo="skip",
    )
    figure.add_scatter(
        x=[p.mean_seconds for p in report.frontier],
        y=[100 * p.accuracy for p in report.frontier],
        mode="lines",
        name="learned rule, from strict to lax",
        line={"color": BLUE},
        customdata=[100 * p.share for p in report.frontier],
        hovertemplate="goes on with %{customdata:.0f}%: %{y:.1f}% right, %{x:.3g} s<extra></extra>",
    )
    for policy in report.policies:
        figure.add_scatter(
            x=[policy.mean_seconds],
            y=[100 * policy.accuracy],
            mode="markers",
            name=f"{escape(policy.name)} ({policy.correct} of {policy.n})",
            marker={
                "size": 12,
                "color": _COLORS.get(policy.name, VERMILION),
                "symbol": "star" if policy.name == HINDSIGHT else "circle",
                "line": {"width": 1, "color": "white"},
            },
            hovertemplate="%{y:.1f}% right, %{x:.3g} s<extra>%{fullData.name}</extra>",
        )
    figure.update_xaxes(title="mean time a question (s)", rangemode="tozero")
    figure.update_yaxes(title="right (% of questions)", rangemode="tozero")
    return titled(figure, "When to stop: right answers and time", caption, height=460)


def _weighted(step: PolicyStep) -> Effect:
    """The mean over questions, as times are."""
    return next(e for e in step.contrast.estimates if e.name == "question_weighted")


def _time_cells(s: PolicyStep) -> list[str]:
    return [
        f"{s.extra_right:+.0f}",
        _signed(s.extra_seconds),
        f"[{_signed(s.seconds_low)}, {_signed(s.seconds_high)}]",
        _rate(s.right_per_second),
        "–" if s.rate_low is None else f"[{_rate(s.rate_low)}, {_rate(s.rate_high)}]",
    ]


def _gain_cells(e: Effect) -> list[object]:
    decides = (
        str(e.n),
        f"{e.won} / {e.lost}",
        f"{e.difference:+.1f}",
        f"[{e.low:+.1f}, {e.high:+.1f}]",
        p_text(e.p_adjusted),
    )
    more = (f"{100 * e.accuracy_a:.1f} → {100 * e.accuracy_b:.1f}", p_text(e.p_value))
    return [*map(Number, decides), Unbroken(VERDICTS[e.verdict]), *map(Number, more)]


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{'-' if value < 0 else '+'}{seconds(abs(value))}"


def _rate(value: float | None) -> str:
    return "–" if value is None else f"{value:+.3g}"
