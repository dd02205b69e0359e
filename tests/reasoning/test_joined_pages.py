"""Pages side by side in one image: sizes, pixels, names, limits; and the trace still names every page."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from medvrag_core.errors import InputError
from medvrag_core.reasoning.composition import Pipeline, RoundState
from medvrag_core.reasoning.evidence_reader import EvidenceReader
from medvrag_core.reasoning.exhibit import Exhibit
from medvrag_core.reasoning.joined_pages import MAX_PIXELS, JoinPages, join_images, row_sizes
from medvrag_core.reasoning.loop import run_rounds
from medvrag_core.reasoning.stages import KeepBest, Present, Read, Retrieve
from medvrag_core.reasoning.vlm_reader import VlmReader
from medvrag_core.records import EvidenceItem, Question
from medvrag_core.settings import LoopSettings, ReaderSettings

QUESTION = Question(id="q", question="Which dose?", options={"A": "5 mg", "B": "10 mg"}, answer="B")
LOOP = LoopSettings(max_rounds=1)
MANY = 1_000_000


@pytest.fixture
def drawn(tmp_path: Path) -> list[Path]:
    """Three pages with other sizes and modes: a red one, a gray one half as high, a green one with a palette."""
    pages = [
        Image.new("RGB", (30, 40), (255, 0, 0)),
        Image.new("L", (10, 20), 128),
        Image.new("RGB", (50, 40), (0, 153, 0)).convert("P"),
    ]
    paths = [tmp_path / f"{n}.png" for n in range(3)]
    for page, path in zip(pages, paths, strict=True):
        page.save(path)
    return paths


def test_pages_stand_from_left_to_right_at_one_height(drawn: list[Path]) -> None:
    row = join_images(drawn, MAX_PIXELS)
    assert (row.mode, row.size) == ("RGB", (30 + 20 + 50, 40))
    pixels = np.asarray(row)
    assert (pixels[:, :30] == (255, 0, 0)).all()
    assert (pixels[:, 30:50] == 128).all(), "half as high, so twice as large"
    assert (pixels[:, 50:] == (0, 153, 0)).all()


def test_a_page_of_the_height_of_the_row_is_copied_to_the_pixel(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (40, 30, 3), dtype=np.uint8)
    paths = [tmp_path / "a.png", tmp_path / "b.png"]
    Image.fromarray(noise).save(paths[0])
    Image.fromarray(noise[::-1]).save(paths[1])
    assert (np.asarray(join_images(paths, MAX_PIXELS)) == np.hstack([noise, noise[::-1]])).all()


SIZES = st.lists(st.tuples(st.integers(1, 4_000), st.integers(1, 4_000)), min_size=1, max_size=6)


@given(SIZES, st.integers(10_000, MAX_PIXELS))
def test_a_row_keeps_its_bound_and_the_shape_of_its_pages(sizes: list[tuple[int, int]], most: int) -> None:
    made = row_sizes(sizes, most)
    height = made[0][1]
    assert {high for _, high in made} == {height}
    assert height <= max(high for _, high in sizes)
    narrow = sum(wide < 2 for wide, _ in made)
    assert sum(wide for wide, _ in made) * height <= most + narrow * height
    for (wide, high), (new_wide, _) in zip(sizes, made, strict=True):
        assert new_wide == max(1, int(wide / high * height))
    if sum(wide / high for wide, high in sizes) * max(high for _, high in sizes) ** 2 <= most:
        assert height == max(high for _, high in sizes), "made smaller only where it must be"


def test_the_cap_holds_before_memory_is_taken(drawn: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[tuple[int, int]] = []
    new = Image.new
    monkeypatch.setattr(Image, "new", lambda mode, size, *rest: taken.append(size) or new(mode, size, *rest))
    assert join_images(drawn, max_pixels=1_000).size == (50, 20)
    assert taken == [(50, 20)]


def exhibit(paths: list[Path | str], texts: list[str] | None = None) -> RoundState:
    items = tuple(
        EvidenceItem(evidence_id=f"d#p{n}", page_id=f"d#p{n}", text=(texts or ["t"] * 9)[n - 1], image=str(path))
        for n, path in enumerate(paths, 1)
    )
    shown = Exhibit(evidence=items, summaries=(), flags=("f",))
    return RoundState(question=QUESTION, number=1, must_answer=True, query="?", exhibit=shown)


def joined(stage: JoinPages, *pages: Path | str) -> Exhibit:
    made = stage.run(exhibit(list(pages))).exhibit
    assert made is not None and made.flags == ("f",)
    return made


def test_the_item_is_named_after_its_pages_and_holds_their_texts(drawn: list[Path], tmp_path: Path) -> None:
    made = JoinPages(tmp_path / "joined", MANY).run(exhibit([*drawn], ["one", "two", "three"])).exhibit
    assert made is not None
    (item,) = made.evidence
    assert item.evidence_id == item.page_id == "d#p1 + d#p2 + d#p3"
    assert item.stands_for == ("d#p1", "d#p2", "d#p3") and item.text == "one\n\ntwo\n\nthree"
    with Image.open(item.image) as image:
        assert (image.format, image.mode, image.size) == ("PNG", "RGB", (100, 40))


def test_the_name_follows_content_and_order_alone(drawn: list[Path], tmp_path: Path) -> None:
    here, there = JoinPages(tmp_path / "here", MANY), JoinPages(tmp_path / "there", MANY)
    first, second = (Path(joined(stage, *drawn).evidence[0].image) for stage in (here, there))
    assert first.name == second.name and first.read_bytes() == second.read_bytes()
    assert Path(joined(here, *reversed(drawn)).evidence[0].image).name != first.name
    copy = tmp_path / "copy.png"
    copy.write_bytes(drawn[0].read_bytes())
    assert joined(here, copy, *drawn[1:]).evidence[0].image == str(first), "the place of a page is no part of it"
    assert sorted(path.suffix for path in (tmp_path / "here").iterdir()) == [".png", ".png"], "nothing half written"


def test_an_image_is_made_once_also_by_threads(
    drawn: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    save = Image.Image.save
    monkeypatch.setattr(Image.Image, "save", lambda self, *a, **k: (made.append(1), save(self, *a, **k))[1])
    stage = JoinPages(tmp_path / "joined", MANY)
    threads = [threading.Thread(target=joined, args=(stage, *drawn)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1 and len(list((tmp_path / "joined").iterdir())) == 1


def test_one_page_is_left_as_it_is_and_texts_make_no_image(drawn: list[Path], tmp_path: Path) -> None:
    stage = JoinPages(tmp_path / "joined", MANY)
    assert joined(stage, drawn[0]) == exhibit([drawn[0]]).exhibit
    assert joined(stage).evidence == ()
    assert joined(stage, "", "").evidence[0].image == joined(stage, drawn[0], "").evidence[0].image == ""
    blind = joined(JoinPages(tmp_path / "joined", None), *drawn).evidence[0]
    assert blind.image == "" and len(blind.stands_for) == 3, "no image for a reader that looks at none"
    assert not (tmp_path / "joined").exists()


def test_an_image_has_four_times_the_pixels_that_the_model_gets(drawn: list[Path], tmp_path: Path) -> None:
    def size(model_pixels: int) -> tuple[int, int]:
        with Image.open(joined(JoinPages(tmp_path / "joined", model_pixels), *drawn).evidence[0].image) as image:
            return image.size

    assert size(250) == (50, 20) and size(1_000) == (100, 40) and size(9_000_000) == (100, 40)
    assert len(list((tmp_path / "joined").iterdir())) == 3, "each size has a name of its own"


def test_a_missing_or_broken_page_is_named_and_leaves_nothing(drawn: list[Path], tmp_path: Path) -> None:
    stage = JoinPages(tmp_path / "joined", MANY)
    with pytest.raises(InputError, match=r"gone\.png: page image not found; build the corpus"):
        joined(stage, drawn[0], tmp_path / "gone.png")
    broken = tmp_path / "broken.png"
    for content in (b"no image", drawn[0].read_bytes()[:-20]):
        broken.write_bytes(content)
        with pytest.raises(InputError, match=r"broken\.png: not a readable image"):
            joined(stage, drawn[0], broken)
    assert not list((tmp_path / "joined").glob("*"))


def test_a_model_gets_one_image_and_the_trace_names_all_pages(
    fake_chat: Any, pages: Any, page_images: Path, tmp_path: Path
) -> None:
    said = '<answer>B</answer><notes>{"findings": ["10 mg (page d#p2)"], "note": ""}</notes>'
    model = fake_chat(lambda request: said)
    source = pages({f"d#p{n}": f"text {n}" for n in (1, 2, 3)}, images=page_images)
    stages = Pipeline(
        Retrieve(source),
        KeepBest(3),
        Present(source, 3),
        JoinPages(tmp_path / "joined", MANY),
        Read(VlmReader(model), LOOP),
    )
    (done,) = run_rounds(QUESTION, stages, LOOP)
    (message,) = [message for message in model.requests[0].messages if message.images]
    (image,) = message.images
    assert abs(image.width / image.height - 3 * 560 / 700) < 0.1
    assert image.width * image.height <= model.settings.max_pixels
    assert "1. page d#p1 + d#p2 + d#p3" in message.text
    assert done.shown == ("d#p1", "d#p2", "d#p3") and done.parsed.label == "B"
    assert done.flags == (), "a page within the image is no foreign one"
    assert [page.page_id for page in done.reply.seen] == ["d#p1 + d#p2 + d#p3"]


def test_an_image_that_does_not_fit_was_not_shown(
    fake_chat: Any, pages: Any, page_images: Path, tmp_path: Path
) -> None:
    model = fake_chat(lambda request: "<answer>B</answer>", context_tokens=1_400, max_tokens=100)
    source = pages({f"d#p{n}": "" for n in (1, 2, 3)}, images=page_images)
    stages = Pipeline(
        Retrieve(source),
        KeepBest(3),
        Present(source, 3),
        JoinPages(tmp_path / "joined", MANY),
        Read(VlmReader(model), LOOP),
    )
    with pytest.raises(Exception, match="not even the first of 1 page images fits"):
        run_rounds(QUESTION, stages, LOOP)


def test_a_reader_of_text_reads_the_joined_text(pages: Any, tmp_path: Path) -> None:
    source = pages({"d#p1": "Nothing.", "d#p2": "The dose is 10 mg daily."})
    reader = EvidenceReader(ReaderSettings())
    stages = Pipeline(
        Retrieve(source), KeepBest(2), Present(source, 2), JoinPages(tmp_path / "joined", None), Read(reader, LOOP)
    )
    (done,) = run_rounds(QUESTION, stages, LOOP)
    assert done.parsed.label == "B" and "10 mg daily" in done.reply.text and done.shown == ("d#p1", "d#p2")
