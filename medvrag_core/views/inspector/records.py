"""What the browser is given: lists of cases, whole cases, pages, and shadings of pages."""

from __future__ import annotations

from medvrag_core.records import CallOutcome, Record, Trace


class ArmEntry(Record):
    """One arm of one run; ``right`` counts of the ``cases`` those that ended in the gold option."""

    run: str
    arm: str
    summary: str
    profile: str
    cases: int
    right: int


class Catalog(Record):
    """All that can be chosen, with the names that people know error classes and steps by."""

    arms: tuple[ArmEntry, ...]
    error_labels: dict[str, str]
    step_labels: dict[str, str]


class CaseRow(Record):
    """One line of the list. ``error_class`` is empty for right answers and where the gold option is not known."""

    question_id: str
    question: str
    dataset: str
    outcome: str
    label: str | None
    gold: str | None
    correct: bool | None
    error_class: str
    rounds: int
    seconds: float


class ArmRows(Record):
    """The cases of one arm, by question id."""

    rows: tuple[CaseRow, ...]


class PageCard(Record):
    """A page that a case shows.

    ``thumbnail``, ``image`` and ``sheet`` are addresses, empty where the page may not be shown, and ``hidden`` says
    why; ``restricted`` says of a page that is shown why a published book may not show it. ``width`` and ``height`` are
    the pixels of the stored image; ``image_width`` those of the one handed out.
    """

    page_id: str
    title: str
    credit: str
    hidden: str
    restricted: str = ""
    width: int
    height: int
    image_width: int
    thumbnail: str = ""
    image: str = ""
    sheet: str = ""


class PromptMessage(Record):
    """One message of a stored call; of its images only their number."""

    role: str
    text: str
    images: int


class StoredPrompt(Record):
    """What a model was sent, by the key of the call."""

    call: str
    model: str
    messages: tuple[PromptMessage, ...]


class StoredExchange(Record):
    """One call as it was sent and what came back, whatever its outcome."""

    prompt: StoredPrompt
    outcome: CallOutcome
    reply: str


class FilterExchanges(Record):
    """All calls of the filter of one case; they hold the summaries of all candidates, so they are looked up apart."""

    exchanges: tuple[StoredExchange, ...]


class Case(Record):
    """One question in one arm: its trace as it is stored, and what is needed to show it.

    ``maps`` holds for each round the address of its shadings, ``filters`` that of the calls of the filter; empty where
    no model was asked, or the call store is gone.
    """

    trace: Trace
    error_class: str
    cards: tuple[PageCard, ...]
    maps: tuple[str, ...]
    prompts: tuple[StoredPrompt, ...]
    filters: str = ""


class PageSheet(Record):
    """Words of a page with their boxes, and the boxes of its patches.

    Boxes are flat: four whole numbers each, ten-thousandths of the page (``x0, y0, x1, y1``, origin top left).
    """

    page_id: str
    words: tuple[str, ...]
    word_boxes: tuple[int, ...]
    patch_boxes: tuple[int, ...]


class Shading(Record):
    """One shading of the patches of a page.

    ``levels`` has a hexadecimal digit for each patch: 0 is ``clear`` or less, f is ``full``. ``best`` are patches with
    an outline, ``share`` is the part of the score that a word brings, as text, and ``note`` is empty for words.
    """

    name: str
    note: str
    share: str
    clear: float
    full: float
    levels: str
    best: tuple[int, ...]


class PageShadings(Record):
    """The shadings of one page under one query; the first is the whole query, then what fits best, then each word."""

    page_id: str
    shadings: tuple[Shading, ...]


class QueryMaps(Record):
    """Shadings of all pages that were shown for one query; ``problem`` says why there are none."""

    query: str
    encoder: str
    pages: tuple[PageShadings, ...]
    problem: str = ""
