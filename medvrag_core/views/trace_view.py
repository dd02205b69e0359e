"""One question, round by round, as static HTML: no kernel, no script, no request.

Rounds are radio buttons inside a form of their own. Radio groups end at their form, so any number
of traces stands on one page without ids, and arrow keys step through the rounds. A browser without
the CSS selector ``:has()`` shows all rounds one below the other, and so does print.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path

from medvrag_core.corpus.showing import PagePicture
from medvrag_core.errors import InputError
from medvrag_core.reasoning.sameness import page_of
from medvrag_core.records import MemoryBank, Question, ReaderReply, Round, SeenPage, ShardDecision, StageTime, Trace
from medvrag_core.views.markup import escape
from medvrag_core.views.pages import alt_text, credit_html, page_thumbnail
from medvrag_core.views.steps_view import steps_html, written_html
from medvrag_core.views.tables import seconds

_CONTEXT_CHARACTERS = 2_000
"""What is shown of a text that came with the question."""


class TraceView:
    """Shows a trace in a notebook or the book.

    Parameters
    ----------
    trace : the stored story of one question
    images : gives the picture of a page id (``store.picture``); ``None`` or a missing file shows the id alone
    thumbnail_width : pixels of the embedded page images; pointing at one doubles its size
    """

    def __init__(
        self, trace: Trace, images: Callable[[str], Path | PagePicture] | None = None, *, thumbnail_width: int = 240
    ) -> None:
        self.trace = trace
        self._images = images
        self._width = thumbnail_width
        self._thumbnails: dict[str, str] = {}

    def _repr_html_(self) -> str:
        return self.html

    @property
    def html(self) -> str:
        """The whole view; the same trace and images give the same text."""
        trace = self.trace
        count = len(trace.rounds)
        tabs = "".join(
            f'<label><input type="radio" name="round" value="{r.number}"{" checked" if place == 0 else ""}>'
            f"Round {r.number}{' – answer' if r.parsed.label is not None else ''}</label>"
            for place, r in enumerate(trace.rounds)
        )
        panels = "".join(
            f'<section class="round" aria-label="Round {r.number} of {count}">{self._round(place)}</section>'
            for place, r in enumerate(trace.rounds)
        )
        # A form of method "dialog" outside a dialog does nothing when Enter submits it.
        steps = (
            f'<form method="dialog"><fieldset class="tabs" role="radiogroup" aria-label="Round">{tabs}</fieldset>'
            f"{panels}</form>"
            if count
            else '<p class="meta">No round was finished.</p>'
        )
        return (
            f'<article class="mv-trace" aria-label="Trace of question {escape(trace.question.id)}">'
            f"<style>{_style(count)}</style>{_header(trace)}{_gold_table(trace)}{steps}</article>"
        )

    def _round(self, place: int) -> str:
        round_ = self.trace.rounds[place]
        after = self.trace.rounds[place + 1].bank_before if place + 1 < len(self.trace.rounds) else None
        flags = "".join(f' <span class="tag bad">{escape(flag)}</span>' for flag in round_.flags)
        candidates = f"{len(round_.stage1)} candidates, {len(round_.filter.kept)} kept, {len(round_.shown)} shown"
        return (
            f'<h5>Query</h5><blockquote class="query" dir="auto">{escape(round_.query)}</blockquote>'
            f'<p class="meta">{candidates}{flags}</p>'
            f"<h5>Pages shown to the reader</h5>{self._pages(round_)}"
            f"{written_html(round_.written)}{_filter_calls(round_.filter.calls)}{steps_html(round_.steps)}"
            f"<h5>Reply</h5>{_reply(round_)}"
            f"<h5>Memory bank</h5>{_history(round_)}{_banks(round_.bank_before, after)}"
            f"<h5>Time</h5>{_times(round_.times)}"
        )

    def _pages(self, round_: Round) -> str:
        if not round_.shown:
            return '<p class="meta">None: the reader got no page in this round.</p>'
        stage1 = {hit.page_id: hit for hit in round_.stage1}
        gold = set(self.trace.question.gold_pages)
        seen = {page.page_id: page for page in round_.reply.seen}
        cards = []
        for place, shown in enumerate(round_.shown, start=1):
            page = page_of(shown)
            hit = stage1.get(shown) or stage1.get(page)
            rank = f"<br>Stage 1: rank {hit.rank}, score {hit.score:.3f}" if hit else ""
            sent = f"<br>{_sent(seen[page])}" if page in seen else ""
            mark = '<br><span class="tag good">gold page</span>' if page in gold else ""
            cards.append(
                f'<figure class="page{" is-gold" if page in gold else ""}" tabindex="0">{self._image(page)}'
                f"<figcaption><b>{place}. {escape(shown)}</b>{rank}{sent}{mark}</figcaption></figure>"
            )
        return f'<div class="pages">{"".join(cards)}</div>'

    def _image(self, page_id: str) -> str:
        if page_id not in self._thumbnails:
            self._thumbnails[page_id] = self._load(page_id)
        return self._thumbnails[page_id]

    def _load(self, page_id: str) -> str:
        blank = '<div class="blank" role="img" aria-label="no image">no image</div>'
        if self._images is None:
            return blank
        try:
            image = self._images(page_id)
            uri = page_thumbnail(image, width=self._width)
        except (InputError, KeyError):
            return blank
        return f'<img src="{uri}" alt="{alt_text(image, f"Page {page_id}")}">{credit_html(image)}'


def _sent(page: SeenPage) -> str:
    """How a page reached the model: pixels and visual tokens of its image, or its text."""
    if not page.width:
        return f"sent as text, {page.tokens:,} tokens"
    return f"sent at {page.width} × {page.height}, {page.tokens:,} tokens"


def _style(rounds: int) -> str:
    css = (resources.files("medvrag_core.views") / "assets" / "trace.css").read_text(encoding="utf-8")
    chosen = ",".join(
        f".mv-trace form:has(.tabs label:nth-of-type({k}) input:checked)>section:nth-of-type({k})"
        for k in range(1, rounds + 1)
    )
    steps = f".mv-trace .round{{display:none}}{chosen}{{display:block}}" if rounds else ""
    return f"{css}@media screen{{@supports selector(:has(*)){{{steps}}}}}"


def _header(trace: Trace) -> str:
    question = trace.question
    if trace.outcome == "answered":
        if question.answer is None:
            verdict = f'<span class="tag">answered {escape(trace.label)}</span>'
        elif trace.label == question.answer:
            verdict = f'<span class="tag good">right: {escape(trace.label)}</span>'
        else:
            verdict = f'<span class="tag bad">wrong: {escape(trace.label)}, gold {escape(question.answer)}</span>'
    else:
        reason = f" ({escape(trace.reason)})" if trace.reason else ""
        verdict = f'<span class="tag bad">{escape(trace.outcome)}{reason}</span>'
    meta = (
        f"{escape(question.id)} · system {escape(trace.system)} · profile {escape(trace.profile)} · "
        f"{len(trace.rounds)} round{'s' * (len(trace.rounds) != 1)} · "
        f"{seconds(trace.seconds) if trace.seconds else 'not timed'}"
    )
    return (
        f'<p class="meta">{meta}</p><h4 class="question" dir="auto">{escape(question.question)}</h4>'
        f'{_context(question.context)}{_options(question, trace.label)}<p style="margin-top:10px">{verdict}</p>'
    )


def _context(context: str) -> str:
    if not context:
        return ""
    more = len(context) - _CONTEXT_CHARACTERS
    cut = f'<p class="meta">{more:,} characters more</p>' if more > 0 else ""
    return (
        f'<details><summary>Given with the question</summary><p dir="auto">{escape(context[:_CONTEXT_CHARACTERS])}</p>'
        f"{cut}</details>"
    )


def _options(question: Question, chosen: str | None) -> str:
    items = []
    for label, text in question.options.items():
        gold, picked = label == question.answer, label == chosen
        wrong = picked and not gold and question.answer is not None
        classes = ["is-gold"] * gold + ["is-chosen"] * picked + ["is-wrong"] * wrong
        notes = [name for name, true in (("gold", gold), ("answered", picked)) if true]
        note = f' <span class="meta">({", ".join(notes)})</span>' if notes else ""
        items.append(f'<li class="{" ".join(classes)}" dir="auto"><b>{escape(label)}</b> {escape(text)}{note}</li>')
    return f'<ul class="options">{"".join(items)}</ul>'


def _gold_table(trace: Trace) -> str:
    """Where each gold page stood in each round: rank among candidates, rank after the filter, shown or not."""
    gold = trace.question.gold_pages
    if not gold or not trace.rounds:
        return ""
    rows = []
    for page in gold:
        for r in trace.rounds:
            rows.append(
                f'<tr><td>{escape(page)}</td><td class="n">{r.number}</td>'
                f'<td class="n">{_rank([h.page_id for h in r.stage1], page)}</td>'
                f'<td class="n">{_rank(r.filter.kept, page)}</td>'
                f'<td class="n">{_rank(r.shown, page)}</td></tr>'
            )
    return (
        "<details><summary>Where the gold pages went</summary><table><thead><tr>"
        '<th scope="col">gold page</th><th scope="col" class="n">round</th><th scope="col" class="n">Stage 1 rank</th>'
        '<th scope="col" class="n">filter rank</th><th scope="col" class="n">place shown</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></details>"
    )


def _rank(ids: Sequence[str], page: str) -> str:
    return next((str(place) for place, i in enumerate(ids, start=1) if page_of(i) == page), "–")


def _filter_calls(calls: Sequence[ShardDecision]) -> str:
    if not calls:
        return ""
    rows = "".join(
        f'<tr><td>{escape(c.phase)}</td><td class="n">{len(c.shown)}</td><td class="n">{len(c.kept)}</td>'
        f'<td class="n">{c.dropped_ids}</td><td class="n">{c.filled}</td><td>{"yes" if c.fallback else "no"}</td></tr>'
        for c in calls
    )
    return (
        f"<details><summary>Filter: {len(calls)} call{'s' * (len(calls) != 1)}</summary><table><thead><tr>"
        '<th scope="col">phase</th><th scope="col" class="n">summaries</th><th scope="col" class="n">kept</th>'
        '<th scope="col" class="n">ids dropped</th><th scope="col" class="n">places filled</th>'
        f'<th scope="col">fell back</th></tr></thead><tbody>{rows}</tbody></table></details>'
    )


def _reply(round_: Round) -> str:
    parsed = round_.parsed
    if parsed.label is not None:
        read = f"answers <b>{escape(parsed.label)}</b>"
    elif parsed.query_update is not None:
        read = f'asks for: <b dir="auto">{escape(parsed.query_update)}</b>'
    else:
        read = f'<span class="tag bad">not readable: {escape(parsed.reason or "no reason stored")}</span>'
    notes = f'<p dir="auto">{escape(parsed.notes)}</p>' if parsed.notes else ""
    second = _as_written("Query written without the options", round_.refinement) if round_.refinement else ""
    written = _as_written("Reply as written", round_.reply)
    return f"<p>The reader {read}</p>{notes}{_list(parsed.findings)}{written}{second}"


def _as_written(title: str, reply: ReaderReply) -> str:
    model = f"{escape(reply.model)}, " if reply.model else ""
    meta = f"{model}{reply.prompt_tokens} + {reply.completion_tokens} tokens, finish {escape(reply.finish_reason)}"
    flags = "".join(f' <span class="tag bad">{escape(flag)}</span>' for flag in reply.flags)
    return (
        f'<details><summary>{escape(title)}</summary><p class="meta">{meta}{flags}</p>'
        f'<pre tabindex="0" dir="auto">{escape(reply.text)}</pre></details>'
    )


def _history(round_: Round) -> str:
    if not round_.history:
        return ""
    text = escape(round_.history)
    return f'<p>The reader got plain history in its place:</p><pre tabindex="0" dir="auto">{text}</pre>'


def _banks(before: MemoryBank, after: MemoryBank | None) -> str:
    if after is None:
        later = '<div><b>After this round</b><p class="meta">The last round writes nothing back.</p></div>'
    else:
        later = f"<div><b>After this round</b>{_bank(after, known=before)}</div>"
    return f'<div class="banks"><div><b>Before this round</b>{_bank(before, known=before)}</div>{later}</div>'


def _bank(bank: MemoryBank, *, known: MemoryBank) -> str:
    if not (bank.iteration or bank.key_findings or bank.reasoning_history):
        return '<p class="meta">empty</p>'
    return (
        f'<p class="meta">iteration {bank.iteration}</p>'
        f"<p>Key findings</p>{_list(bank.key_findings, known.key_findings)}"
        f"<p>Reasoning history</p>{_list(bank.reasoning_history, known.reasoning_history)}"
    )


def _list(texts: Sequence[str], known: Sequence[str] | None = None) -> str:
    if not texts:
        return "" if known is None else '<p class="meta">none</p>'
    items = "".join(
        f'<li dir="auto"{" class=is-new" if known is not None and text not in known else ""}>{escape(text)}</li>'
        for text in texts
    )
    return f'<ul class="plain">{items}</ul>'


def _times(times: Sequence[StageTime]) -> str:
    longest = max((t.seconds for t in times), default=0.0) or 1.0
    rows = "".join(
        f'<tr><td>{escape(t.step)}</td><td class="n">{seconds(t.seconds)}</td>'
        f'<td><span class="bar" style="width:{max(0.0, 120 * t.seconds / longest):.0f}px"></span></td></tr>'
        for t in times
    )
    return f"<table><tbody>{rows}</tbody></table>" if rows else '<p class="meta">not timed</p>'
