"""Cases that are made up: as many as wanted, and with texts that would run if any of them were taken for markup."""

from __future__ import annotations

import io
from functools import lru_cache

from PIL import Image, ImageDraw

from medvrag_core.records import (
    EvidenceItem,
    FilterDecision,
    Hit,
    MemoryBank,
    ParsedReply,
    Question,
    ReaderReply,
    Round,
    SeenPage,
    ShardDecision,
    StageTime,
    Step,
    Trace,
)
from medvrag_core.views.inspector.records import (
    ArmEntry,
    ArmRows,
    Case,
    CaseRow,
    Catalog,
    FilterExchanges,
    PageCard,
    PageShadings,
    PageSheet,
    PromptMessage,
    QueryMaps,
    Shading,
    StoredExchange,
    StoredPrompt,
)
from medvrag_core.views.inspector.source import CaseSource

HOSTILE = "</script><img src=x onerror=\"document.title='hit'\"><svg onload=alert(1)>{{7*7}}`${document.title='hit'}`"
REORDERED = "dose \u202e01\u202c mg"
PAGES = 24
SIDE = 3
QUERIES = (
    "allopurinol starting dose kidney",
    "allopurinol starting dose reduced kidney function",
    "allopurinol dose reduced kidney function colchicine",
)


class MadeCases(CaseSource):
    """Three arms over ``count`` questions, the last without gold options; every case has up to three rounds.

    Parameters
    ----------
    candidates : pages that stage 1 finds in a round
    hostile : every text that people or models write is markup
    """

    def __init__(self, count: int, *, candidates: int = PAGES, hostile: bool = False) -> None:
        self.count, self.candidates, self.hostile = count, candidates, hostile
        self._rows = lru_cache(maxsize=None)(self._make_rows)

    def text(self, plain: str) -> str:
        return f"{plain} {HOSTILE}" if self.hostile else plain

    def catalog(self) -> Catalog:
        right = sum(bool(row.correct) for row in self.rows(0).rows)
        arms = [("one", "medvrag"), ("one", "page_single"), ("two", "medvrag")]
        return Catalog(
            arms=tuple(
                ArmEntry(run=run, arm=arm, summary=self.text("an arm"), profile="test", cases=self.count, right=right)
                for run, arm in arms
            ),
            error_labels={"misread": "Misread: shown, answer still wrong", "filter_miss": "Filter miss: dropped"},
            step_labels={"generate": "Document written"},
        )

    def rows(self, arm: int) -> ArmRows:
        return self._rows(arm)

    def _make_rows(self, arm: int) -> ArmRows:
        return ArmRows(rows=tuple(self._row(arm, number) for number in range(self.count)))

    def _row(self, arm: int, number: int) -> CaseRow:
        trace = self.trace(arm, number)
        return CaseRow(
            question_id=trace.question.id,
            question=trace.question.question,
            dataset=trace.question.dataset,
            outcome=trace.outcome,
            label=trace.label,
            gold=trace.question.answer,
            correct=trace.correct,
            error_class="" if trace.correct is not False else ("misread" if number % 2 else "filter_miss"),
            rounds=len(trace.rounds),
            seconds=trace.seconds,
        )

    def trace(self, arm: int, number: int) -> Trace:
        question = Question(
            id=f"q-{number:05d}" + (HOSTILE if self.hostile and number == 0 else ""),
            question=self.text(f"Question {number}: at which dose is allopurinol started, {REORDERED}?"),
            options={"A": self.text("25 mg"), "B": "100 mg", "__proto__": "300 mg"},
            answer=None if arm == 2 else "B",
            gold_pages=("page#p3",),
            dataset="medqa" if number % 3 else "pubmedqa",
            context=self.text("A context"),
        )
        last = 1 + (number + arm) % 3
        label = ("A", "B", "B")[(number + arm) % 3]
        rounds = tuple(self._round(k, last, label) for k in range(1, last + 1))
        return Trace(
            system=("medvrag", "page_single", "medvrag")[arm],
            profile="test",
            fingerprint="f",
            question=question,
            rounds=rounds,
            outcome="answered",
            label=label,
            correct=None if arm == 2 else label == "B",
            seconds=1.5,
        )

    def _round(self, k: int, last: int, label: str) -> Round:
        found = tuple(Hit(page_id=f"page#p{n}", score=1 / n, rank=n) for n in range(1, self.candidates + 1))
        ids = [hit.page_id for hit in found]
        mapped = tuple(ids[: len(ids) - 4])
        kept = (ids[2], ids[0], ids[1], *mapped[3:-2])
        ended = k == last
        said = self.text("Allopurinol is started low")
        return Round(
            number=k,
            query=QUERIES[k - 1],
            stage1=found,
            filter=FilterDecision(
                kept=kept,
                calls=(
                    ShardDecision(
                        phase="map", shown=tuple(ids), kept=mapped, prompt_tokens=9, completion_tokens=2, call=f"map{k}"
                    ),
                    ShardDecision(phase="reduce", shown=mapped, kept=kept),
                ),
            ),
            shown=kept[:10],
            bank_before=MemoryBank(
                iteration=k - 1,
                key_findings=tuple(f"[Round {n}] {said} {n}" for n in range(1, k)),
                reasoning_history=tuple(f"{said}, asks for: {QUERIES[n]}" for n in range(1, k)),
            ),
            reply=ReaderReply(
                text=f"<answer>{label}</answer> {said}",
                model="m",
                prompt_tokens=1200,
                completion_tokens=30,
                call="c" * 64,
                seen=(SeenPage(page_id=kept[0], width=700, height=990, tokens=800),),
                option_scores={"A": 0.2, "B": 0.7, "__proto__": 0.1},
            ),
            parsed=ParsedReply(label=label, notes=said)
            if ended
            else ParsedReply(query_update=QUERIES[k], findings=(said,), notes=said),
            times=(StageTime(step="search", seconds=0.2), StageTime(step="read", seconds=0.4)),
            flags=("query_stalled",) if k == 3 else (),
            steps=(Step(kind="generate", about=said, text=said, made_by="w"),),
            written=(EvidenceItem(evidence_id="w1", page_id="w1", text=said, written_by=self.text("writer")),),
        )

    def case(self, arm: int, number: int) -> Case:
        trace = self.trace(arm, number)
        shown = {page for round_ in trace.rounds for page in round_.shown}
        return Case(
            trace=trace,
            error_class=self.rows(arm).rows[number].error_class,
            cards=tuple(self._card(int(page.rpartition("p")[2])) for page in sorted(shown)),
            maps=tuple(f"maps/{k:016x}" for k in range(len(trace.rounds))),
            prompts=(
                StoredPrompt(
                    call="c" * 64, model="m", messages=(PromptMessage(role="user", text=self.text("Ask"), images=10),)
                ),
            ),
            filters=f"filters/{arm}-{number}",
        )

    def filters(self, arm: int, number: int) -> FilterExchanges:
        rounds = len(self.trace(arm, number).rounds)
        return FilterExchanges(
            exchanges=tuple(
                StoredExchange(
                    prompt=StoredPrompt(
                        call=f"map{k}",
                        model="f",
                        messages=(PromptMessage(role="user", text=self.text(f"Rank these {k}"), images=0),),
                    ),
                    outcome="complete",
                    reply=self.text('{"ranking": [2, 1]}'),
                )
                for k in range(1, rounds + 1)
            )
        )

    def _card(self, number: int) -> PageCard:
        if number == 4:
            return PageCard(
                page_id="page#p4", title="t", credit="", hidden="its license", width=600, height=800, image_width=600
            )
        return PageCard(
            page_id=f"page#p{number}",
            title=self.text("A title"),
            credit=self.text("Somebody. Licence: CC BY 4.0."),
            hidden="",
            width=600,
            height=800,
            image_width=300,
            thumbnail=f"thumbs/{number}.jpg",
            image=f"images/{number}.jpg",
            sheet=f"sheets/{number}",
        )

    def maps(self, key: str) -> QueryMaps:
        names = ["the score S", "whatever fits best", *QUERIES[int(key, 16)].split()]
        shadings = tuple(
            Shading(
                name=self.text(name) if place == 2 else name,
                note="told" if place < 2 else "",
                share="10.0%",
                clear=0.1,
                full=0.9,
                levels="".join(f"{(place + patch) % 16:x}" for patch in range(SIDE * SIDE)),
                best=(place % (SIDE * SIDE),),
            )
            for place, name in enumerate(names)
        )
        pages = tuple(PageShadings(page_id=f"page#p{n}", shadings=shadings) for n in range(1, PAGES + 1))
        return QueryMaps(query=QUERIES[int(key, 16)], encoder="made", pages=pages)

    def sheet(self, page: int) -> PageSheet:
        step = 10_000 // SIDE
        boxes = [(x * step, y * step, (x + 1) * step, (y + 1) * step) for y in range(SIDE) for x in range(SIDE)]
        return PageSheet(
            page_id=f"page#p{page}",
            words=(self.text("Allopurinol"), "dose"),
            word_boxes=(1000, 1000, 3000, 1500, 4000, 1000, 6000, 1500),
            patch_boxes=tuple(number for box in boxes for number in box),
        )

    def thumbnail(self, page: int) -> bytes:
        return self._picture(page, 60)

    def image(self, page: int) -> bytes:
        return self._picture(page, 300)

    def _picture(self, page: int, width: int) -> bytes:
        image = Image.new("RGB", (width, width * 4 // 3), "white")
        ImageDraw.Draw(image).text((5, 5), str(page), fill="black")
        buffer = io.BytesIO()
        image.save(buffer, "JPEG")
        return buffer.getvalue()
