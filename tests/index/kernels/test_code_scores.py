"""The compiled kernels against the plain reference, on every kind of instructions that this machine has."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_index import made_rows

from medvrag_core.index.kernels.code_scores import Kernels, source
from medvrag_core.index.kernels.codes import PageCodes, PlacedCodes, page_codes, tile_codes
from medvrag_core.index.kernels.instructions import KINDS, Instructions, of_this_machine
from medvrag_core.index.kernels.machine_code import assembly
from medvrag_core.index.maxsim import score_pages

HERE = [of_this_machine(), KINDS["plain"]]


def available() -> list[Instructions]:
    """All kinds that run here; a processor with the wide instruction has the narrow one too."""
    if of_this_machine().name == "avx512-vnni":
        import llvmlite.binding as llvm

        if llvm.get_host_cpu_features().get("avxvnni"):
            return [*HERE, KINDS["avx-vnni"]]
    return HERE


def asked(seed: int, rows: int, dim: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    query = rng.normal(size=(rows, dim))
    query *= rng.uniform(0.2, 2, size=(rows, 1)) / np.linalg.norm(query, axis=1, keepdims=True)
    return query.astype(np.float32)


def scores(kernels: Kernels, query: np.ndarray, pages: PageCodes, backward: float, chosen: list[int]) -> np.ndarray:
    out = np.full(len(chosen), np.nan, dtype=np.float32)
    kernels.pages(kernels.query(query), PlacedCodes.of([pages]), np.array(chosen, dtype=np.int64), backward, out)
    return out


LENGTHS = st.lists(st.integers(1, 50), min_size=1, max_size=6)


@settings(max_examples=40, deadline=None)  # the first example compiles
@given(
    st.integers(0, 999), LENGTHS, st.integers(1, 60), st.sampled_from([3, 16, 130]), st.sampled_from([0.0, 0.3, 1.0])
)
def test_pages_score_as_the_reference_and_the_same_bits_on_all_instructions(
    seed: int, lengths: list[int], rows: int, dim: int, backward: float
) -> None:
    vectors, offsets = made_rows(seed, lengths, dim)
    query, pages = asked(seed + 1, rows, dim), page_codes(vectors, offsets)
    every = list(range(len(lengths)))
    found = [scores(Kernels(kind), query, pages, backward, every) for kind in available()]
    assert np.allclose(found[0], score_pages(query, vectors, offsets, backward=backward), atol=0.03)
    for other in found[1:]:
        assert np.array_equal(found[0], other)


@settings(max_examples=30, deadline=None)  # the first example compiles
@given(
    st.integers(0, 999), st.integers(1, 40), st.sampled_from([1, 4]), st.integers(1, 50), st.sampled_from([0.0, 1.0])
)
def test_tiles_score_as_the_reference_and_the_same_bits_on_all_instructions(
    seed: int, count: int, most: int, rows: int, backward: float
) -> None:
    lengths = np.random.default_rng(seed).integers(1, most + 1, size=count).tolist()
    vectors, offsets = made_rows(seed, lengths, 20)
    query = asked(seed + 1, rows, 20)
    shares = np.repeat(1 / np.diff(offsets), lengths).astype(np.float32)
    tiles = tile_codes(vectors, offsets, shares, most)
    found = []
    for kind in available():
        kernels, out = Kernels(kind), np.full(tiles.scales.shape, np.nan, dtype=np.float32)
        kernels.tiles(kernels.query(query), tiles, 0, len(out), backward, out)
        found.append(out.ravel()[:count])
    assert np.allclose(found[0], score_pages(query, vectors, offsets, backward=backward), atol=0.03)
    for other in found[1:]:
        assert np.array_equal(found[0], other)


def test_some_tiles_alone_score_as_among_all() -> None:
    vectors, offsets = made_rows(2, [4] * 70, 8)
    tiles = tile_codes(vectors, offsets, np.full(280, 0.25, dtype=np.float32), 4)
    kernels = Kernels()
    query = kernels.query(asked(3, 5, 8))
    every = np.empty((5, 16), dtype=np.float32)
    kernels.tiles(query, tiles, 0, 5, 1.0, every)
    some = np.full((4, 16), np.nan, dtype=np.float32)
    kernels.tiles(query, tiles, 2, 4, 1.0, some[1:3])
    assert np.array_equal(some[1:3], every[2:4])
    assert np.isnan(some[[0, 3]]).all()


@settings(max_examples=20, deadline=None)  # the first example compiles
@given(st.integers(0, 999), LENGTHS, st.integers(1, 40), st.sampled_from([0.0, 1.0]))
def test_vectors_that_codes_hold_without_loss_get_the_score_of_the_reference(
    seed: int, lengths: list[int], rows: int, backward: float
) -> None:
    """Entries of -1, 0 and 1 with one scale: nothing is rounded but the sums."""
    rng = np.random.default_rng(seed)
    vectors = rng.integers(-1, 2, size=(sum(lengths), 16)).astype(np.float32)
    vectors[:, 0] = 1
    query = np.where(rng.random((rows, 16)) < 0.5, -0.25, 0.25).astype(np.float32)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    found = scores(Kernels(), query, page_codes(vectors, offsets), backward, list(range(len(lengths))))
    assert np.allclose(found, score_pages(query, vectors, offsets, backward=backward), atol=1e-5)


@pytest.mark.parametrize("kind", available(), ids=lambda kind: kind.name)
def test_bc23_no_padding_wins_where_all_similarities_are_negative(kind: Instructions) -> None:
    pages = page_codes(np.array([[-0.6, 0.8]], dtype=np.float32), np.array([0, 1]))
    query = np.array([[1.0, 0.0]], dtype=np.float32)
    assert scores(Kernels(kind), query, pages, 1.0, [0])[0] == pytest.approx(-1.2, abs=0.01)
    tiles = tile_codes(np.array([[-0.6, 0.8]], dtype=np.float32), np.array([0, 1]), np.ones(1, dtype=np.float32), 4)
    kernels, out = Kernels(kind), np.empty((1, 16), dtype=np.float32)
    kernels.tiles(kernels.query(query), tiles, 0, 1, 1.0, out)
    assert out[0, 0] == pytest.approx(-1.2, abs=0.01)


def test_chosen_pages_are_scored_in_the_order_given_and_again() -> None:
    vectors, offsets = made_rows(3, [5, 17, 40, 1], 16)
    query, pages = asked(4, 7, 16), page_codes(vectors, offsets)
    every = scores(Kernels(), query, pages, 1.0, [0, 1, 2, 3])
    assert np.array_equal(scores(Kernels(), query, pages, 1.0, [3, 1, 1]), every[[3, 1, 1]])


def test_a_page_scores_the_same_beside_any_other() -> None:
    vectors, offsets = made_rows(5, [5, 17, 40], 16)
    query = asked(6, 9, 16)
    alone = page_codes(vectors[5:22], np.array([0, 17]))
    together = page_codes(vectors, offsets)
    assert scores(Kernels(), query, alone, 1.0, [0])[0] == scores(Kernels(), query, together, 1.0, [1])[0]


def test_pages_of_several_parts_are_numbered_through() -> None:
    vectors, offsets = made_rows(8, [5, 17, 40, 1, 33, 16], 16)
    query, kernels = asked(9, 7, 16), Kernels()
    whole = scores(kernels, query, page_codes(vectors, offsets), 1.0, [0, 3, 4, 5])
    parts = [
        page_codes(vectors[offsets[a] : offsets[b]], offsets[a : b + 1] - offsets[a])
        for a, b in ((0, 2), (2, 3), (3, 6))
    ]
    out = np.empty(4, dtype=np.float32)
    kernels.pages(kernels.query(query), PlacedCodes.of(parts), np.array([0, 3, 4, 5]), 1.0, out)
    assert np.array_equal(out, whole)


@pytest.mark.parametrize(
    ("kind", "triple", "cpu", "wanted"),
    [
        ("avx512-vnni", "x86_64-unknown-linux-gnu", "cascadelake", "vpdpbusd"),
        ("avx-vnni", "x86_64-unknown-linux-gnu", "alderlake", "vpdpbusd"),
        ("neon-dotprod", "aarch64-unknown-linux-gnu", "neoverse-n1", "sdot"),
        ("neon-dotprod", "arm64-apple-macosx", "apple-m1", "sdot"),
    ],
)
@pytest.mark.parametrize("kernel", ["page_scores", "tile_scores"])
def test_other_processors_get_their_instruction(kind: str, triple: str, cpu: str, wanted: str, kernel: str) -> None:
    """Compiled for them, not run on them: only the text of the machine code is looked at."""
    text = assembly(source(KINDS[kind], kernel, 3), triple=triple, cpu=cpu)
    assert text.count(wanted) >= 3


def test_a_processor_without_such_an_instruction_gets_none() -> None:
    text = assembly(source(KINDS["plain"], "page_scores", 2), triple="x86_64-unknown-linux-gnu", cpu="haswell")
    assert "vpdpbusd" not in text
    assert "zmm" not in text


def test_many_threads_at_once_get_what_one_gets() -> None:
    """Each brings its own scratch memory, and nothing that a kernel reads is given back before it has read it."""
    vectors, offsets = made_rows(7, [60] * 400, 64)
    pages = PlacedCodes.of([page_codes(vectors, offsets)])
    tiles = tile_codes(vectors[:1600], np.arange(0, 1601, 4), np.full(1600, 0.25, dtype=np.float32), 4)
    queries = [asked(seed, 7 + seed % 20, 64) for seed in range(24)]
    kernels = Kernels()

    def both(query: np.ndarray) -> bytes:
        coded, junk = kernels.query(query), []
        out, beside = np.empty(400, dtype=np.float32), np.empty((25, 16), dtype=np.float32)
        kernels.pages(coded, pages, np.arange(400), 1.0, out)
        junk += [np.random.default_rng(0).integers(-9, 9, size=coded.begin_at.shape) for _ in range(9)]
        kernels.tiles(coded, tiles, 0, 25, 1.0, beside)
        return out.tobytes() + beside.tobytes()

    alone = [both(query) for query in queries]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(10):
            assert list(pool.map(both, queries)) == alone
