"""The torch kernel on tensors of the CPU, and on tensors without contents that torch takes for those of a GPU."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.encoders.shards import starts
from medvrag_core.errors import InputError, MedvragError, SettingsError
from medvrag_core.index.maxsim import gather_pages, row_weights, score_pages, two_way_score
from medvrag_core.index.torch_scan import SIMILARITY_BYTES, TorchPages, padded, scan_cost, torch_device

gpu_path = pytest.mark.gpu_path
DIM = 16
HALF_STEP = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
"""Largest relative error of rounding one number to this type."""


def unit_rows(rng: np.random.Generator, n: int, d: int = DIM) -> np.ndarray:
    rows = rng.normal(size=(n, d)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def on_cpu(lengths: Any, vectors: np.ndarray, **options: Any) -> TorchPages:
    return TorchPages(np.asarray(lengths), [vectors], vectors.shape[1], device="cpu", **options)


def tolerance(query: np.ndarray, dtype: str, backward: float, dim: int = DIM) -> float:
    """Bound of |S - S'| for unit page rows.

    Both sides of a similarity of unit vectors are rounded with relative error e, so it is off by at most 2e + e^2
    (Cauchy-Schwarz); numbers that float16 holds as subnormal ones add 2^-25 each, sqrt(dim) of it in all, on both
    sides; sums of float32 in any order add dim 2^-24. Maxima and means make no error larger, and weights scale it.
    """
    e = HALF_STEP[dtype]
    each = 2 * e + e * e + 2 * np.sqrt(dim) * 2.0**-25 + 2 * (dim + 4) * 2.0**-24
    return float(each * (row_weights(query).mean() + backward))


# --- agreement with the reference --------------------------------------------------------


@gpu_path
@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    m=st.integers(1, 7),
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=30),
    backward=st.sampled_from([0.0, 0.5, 1.0]),
    dtype=st.sampled_from(["float32", "float16", "bfloat16"]),
    weighted=st.booleans(),
    negative=st.booleans(),
    budget=st.sampled_from([1, 5_000, SIMILARITY_BYTES]),
    source=st.sampled_from([np.float32, np.float16]),
)
def test_scores_equal_the_reference(
    torch: ModuleType,
    seed: int,
    m: int,
    lengths: list[int],
    backward: float,
    dtype: str,
    weighted: bool,
    negative: bool,
    budget: int,
    source: type,
) -> None:
    rng = np.random.default_rng(seed)
    query, vectors, offsets = unit_rows(rng, m), unit_rows(rng, sum(lengths)), starts(lengths)
    if negative:  # no similarity above zero
        query, vectors = np.abs(query), -np.abs(vectors)
    if weighted:
        query *= rng.choice(np.array([0.0, 0.3, 1.0, 7.0], dtype=np.float32), size=(m, 1))
    vectors = vectors.astype(source)
    scanned = on_cpu(lengths, vectors, dtype=dtype, similarity_bytes=budget)
    vectors = vectors.astype(np.float32)
    expected = score_pages(query, vectors, offsets, backward=backward)
    plain = [two_way_score(query, vectors[a:b], backward=backward) for a, b in itertools.pairwise(offsets)]
    off = tolerance(query, dtype, backward) * 1.001  # rows in float16 are not quite of length 1
    got = scanned.scores(query, backward=backward)
    assert got.dtype == np.float32
    assert np.abs(got - expected).max() <= off
    assert np.abs(got - plain).max() <= off
    pages = rng.integers(0, len(lengths), size=rng.integers(0, 2 * len(lengths)))
    chosen = scanned.scores(query, backward=backward, pages=pages)
    assert chosen.shape == pages.shape
    assert np.allclose(chosen, got[pages], rtol=0, atol=tolerance(query, "float32", backward))
    if len(pages):
        again = score_pages(query, *gather_pages(vectors, offsets, pages), backward=backward)
        assert np.abs(chosen - again).max() <= off


@gpu_path
def test_bc23_negative_similarities_are_not_lifted_to_zero(torch: ModuleType) -> None:
    query = np.array([[1.0, 0.0]], dtype=np.float32)
    # 17 rows are held as 18, so that this page has padding of its own.
    page = np.tile(np.array([[-0.6, 0.8]], dtype=np.float32), (17, 1))
    scanned = on_cpu([17, 1, 2], np.concatenate([page, page[:1], [[0.0, 1.0], [0.0, -1.0]]]).astype(np.float32))
    assert scanned.scores(query) == pytest.approx([-1.2, -1.2, 0.0])


@gpu_path
def test_backward_counts_true_rows_alone(torch: ModuleType) -> None:
    # One row of 17 has similarity 1. Where it is the last one, padding repeats it.
    page = np.tile(np.array([[0.0, 1.0]], dtype=np.float32), (17, 1))
    page[-1] = [1.0, 0.0]
    query = np.array([[1.0, 0.0]], dtype=np.float32)
    assert on_cpu([17], page).scores(query) == pytest.approx([1 + 1 / 17])


@gpu_path
def test_what_padding_repeats_never_matters(torch: ModuleType) -> None:
    rng = np.random.default_rng(3)
    lengths = rng.integers(1, 80, size=50)
    query, vectors, offsets = unit_rows(rng, 5), unit_rows(rng, int(lengths.sum())), starts(lengths)
    scanned = on_cpu(lengths, vectors)
    before, padding = scanned.scores(query), 0
    rows = scanned._rows.numpy()  # the same memory
    begins = starts(padded(lengths)[scanned._page_of_slot])
    for slot, page in enumerate(scanned._page_of_slot):
        own = vectors[offsets[page] : offsets[page + 1]]
        held = rows[begins[slot] : begins[slot + 1]]
        assert np.array_equal(held[: len(own)], own)
        assert (held[len(own) :] == own[-1]).all()
        held[len(own) :] = own[rng.integers(0, len(own), size=len(held) - len(own))]
        padding += len(held) - len(own)
    assert padding > 50
    assert np.array_equal(scanned.scores(query), before)


@gpu_path
def test_one_way_scores_equal_those_of_colpali_engine(torch: ModuleType) -> None:
    import tiny_models

    tiny_models.need("colpali_engine")
    from colpali_engine.utils.processing_utils import BaseVisualRetrieverProcessor

    rng = np.random.default_rng(4)
    lengths = [3, 40, 1, 17, 3]
    query, vectors = unit_rows(rng, 6), unit_rows(rng, sum(lengths))
    pages = [torch.from_numpy(page) for page in np.split(vectors, np.cumsum(lengths)[:-1])]
    # One page a batch: in batches, theirs pads pages with zeros.
    sums = BaseVisualRetrieverProcessor.score_multi_vector([torch.from_numpy(query)], pages, batch_size=1, device="cpu")
    got = on_cpu(lengths, vectors).scores(query, backward=0)
    assert np.allclose(got, sums.numpy()[0] / len(query), atol=1e-6)


# --- order and repeatability -------------------------------------------------------------


@gpu_path
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), dtype=st.sampled_from(["float32", "float16"]))
def test_neither_the_order_of_pages_nor_blocks_matter(torch: ModuleType, seed: int, dtype: Any) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 30, size=25)
    query, vectors, offsets = unit_rows(rng, 4), unit_rows(rng, int(lengths.sum())), starts(lengths)
    whole = on_cpu(lengths, vectors, dtype=dtype).scores(query)
    cuts = offsets[np.sort(rng.integers(0, 26, size=3))]
    blocks = np.split(vectors, cuts)
    parted = TorchPages(lengths, iter(blocks), DIM, device="cpu", dtype=dtype)
    assert np.array_equal(parted.scores(query), whole)
    assert np.array_equal(parted.scores(query), whole)
    order = rng.permutation(25)
    mixed, _ = gather_pages(vectors, offsets, order)
    assert np.allclose(on_cpu(lengths[order], mixed, dtype=dtype).scores(query), whole[order], rtol=0, atol=3e-6)


@gpu_path
def test_equal_pages_get_equal_scores_wherever_they_lie(torch: ModuleType) -> None:
    rng = np.random.default_rng(5)
    page = unit_rows(rng, 23)
    lengths = rng.integers(15, 30, size=400)
    lengths[::7] = 23
    vectors, offsets = unit_rows(rng, int(lengths.sum())), starts(lengths)
    for place in range(0, 400, 7):
        vectors[offsets[place] : offsets[place + 1]] = page
    for dtype, budget in itertools.product(("float32", "float16"), (9_000, 70_000, SIMILARITY_BYTES)):
        scanned = on_cpu(lengths, vectors, dtype=dtype, similarity_bytes=budget)
        assert len(set(scanned.scores(unit_rows(rng, 6))[::7].tolist())) == 1


@gpu_path
def test_memory_maps_are_read_and_no_page_is_no_score(torch: ModuleType, tmp_path: Any) -> None:
    vectors = unit_rows(np.random.default_rng(6), 5).astype(np.float16)
    np.save(tmp_path / "v.npy", vectors)
    mapped = np.load(tmp_path / "v.npy", mmap_mode="r", allow_pickle=False)
    assert np.array_equal(
        on_cpu([2, 3], mapped).scores(vectors[:1].astype(np.float32)),
        on_cpu([2, 3], vectors).scores(vectors[:1].astype(np.float32)),
    )
    query = unit_rows(np.random.default_rng(7), 2)
    assert TorchPages(np.array([], dtype=np.int64), [], DIM, device="cpu").scores(query).shape == (0,)
    assert on_cpu([5], vectors).scores(query, pages=np.array([], dtype=np.int64)).shape == (0,)


# --- work and memory ---------------------------------------------------------------------


def operations(torch: ModuleType, scanned: TorchPages, query: np.ndarray, **options: Any) -> list[tuple[str, int]]:
    """Names of the operations that torch ran for one query, with the bytes of what each made anew."""
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: list[tuple[str, int]] = []

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = function(*args, **(kwargs or {}))
            made = [result] if isinstance(result, torch.Tensor) else []
            held = {given.untyped_storage().data_ptr() for given in args if isinstance(given, torch.Tensor)}
            sizes = [new.untyped_storage().nbytes() for new in made if new.untyped_storage().data_ptr() not in held]
            seen.append((function.overloadpacket.__name__, sum(sizes)))
            return result

    with Recorder():
        scanned.scores(query, **options)
    return seen


@gpu_path
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_long_queries_stay_within_the_budget(torch: ModuleType, dtype: Any) -> None:
    rng = np.random.default_rng(8)
    lengths = np.full(600, 11)
    scanned = on_cpu(lengths, unit_rows(rng, int(lengths.sum())), dtype=dtype, similarity_bytes=400_000)
    query = unit_rows(rng, 160)
    for options in ({}, {"pages": np.tile(np.arange(400), 2)}):
        made = operations(torch, scanned, query, **options)
        assert max(size for name, size in made if name == "mm") > 200_000
        assert max(size for _, size in made) <= 400_000
        # Of a short query, copies of rows are what takes memory.
        assert max(size for _, size in operations(torch, scanned, query[:1], **options)) <= 400_000


@gpu_path
def test_work_in_python_does_not_grow_with_the_pages(torch: ModuleType) -> None:
    rng = np.random.default_rng(9)
    query, counts = unit_rows(rng, 4), []
    for repeats in (1, 40):
        lengths = np.tile(np.arange(1, 20), repeats)
        counts.append(len(operations(torch, on_cpu(lengths, unit_rows(rng, int(lengths.sum()))), query)))
    assert counts[0] == counts[1]


@gpu_path
def test_without_the_backward_half_its_work_is_left_out(torch: ModuleType) -> None:
    rng = np.random.default_rng(10)
    scanned = on_cpu([4, 4], unit_rows(rng, 8))
    both, one = (operations(torch, scanned, unit_rows(rng, 3), backward=b) for b in (1, 0))
    assert [sum(name == "amax" for name, _ in made) for made in (both, one)] == [2, 1]


@gpu_path
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("pages", [None, np.array([3, 1, 1, 7])])
def test_a_gpu_is_never_waited_for_during_a_scan(
    torch: ModuleType, monkeypatch: pytest.MonkeyPatch, dtype: Any, pages: np.ndarray | None
) -> None:
    """torch refuses whatever needs the contents of these tensors, and to mix those of two devices."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    rng = np.random.default_rng(11)
    lengths = np.array([3, 17, 40, 3, 1, 2, 17, 18])
    scanned = on_cpu(lengths, unit_rows(rng, int(lengths.sum())), dtype=dtype, similarity_bytes=2_000)
    mode, given, products = FakeTensorMode(), torch.from_numpy, []
    real = torch.mm

    def mm(*arguments: Any, **options: Any) -> Any:
        products.append(options)
        return real(*arguments, **options)

    def fetched(tensor: Any) -> None:
        assert (tensor.device.type, tensor.dtype) == ("cuda", torch.float32)
        raise InterruptedError(tensor.shape)

    with mode:
        for name in ("_rows", "_length_of_slot"):
            setattr(scanned, name, mode.from_tensor(getattr(scanned, name)).to("cuda:0"))
        scanned.device = "cuda:0"
        monkeypatch.setattr(torch, "from_numpy", lambda array: mode.from_tensor(given(array)))
        monkeypatch.setattr(torch, "mm", mm)
        monkeypatch.setattr(torch.Tensor, "cpu", fetched)
        with pytest.raises(InterruptedError) as reached:
            scanned.scores(unit_rows(rng, 5), pages=pages)
    assert reached.value.args == (torch.Size([8 if pages is None else 4]),)
    wanted = {} if dtype == "float32" else {"out_dtype": torch.float32}
    assert len(products) >= 2  # at least one for each width
    assert all(options == wanted for options in products)


@given(st.lists(st.integers(1, 1_024), min_size=1))
def test_widths_are_few_and_waste_little(lengths: list[int]) -> None:
    found = padded(np.array(lengths))
    assert (found >= lengths).all()
    assert (8 * found <= 9 * np.array(lengths)).all()
    assert len(np.unique(padded(np.arange(1, 1_025)))) == 64


@gpu_path
def test_the_cost_told_is_that_of_the_rows_held(torch: ModuleType) -> None:
    lengths = np.array([1, 17, 103])
    scanned = on_cpu(lengths, unit_rows(np.random.default_rng(0), 121), dtype="bfloat16")
    held = scanned._rows.numel() * scanned._rows.element_size()
    assert held == scanned.stored_bytes == scan_cost(lengths, DIM, 9, "bfloat16").stored_bytes
    assert scan_cost(lengths, DIM, 9, "float32").similarity_bytes == 4 * 9 * (1 + 18 + 104)


# --- refusals ----------------------------------------------------------------------------


@gpu_path
def test_a_page_without_vectors_is_refused(torch: ModuleType) -> None:
    with pytest.raises(ValueError, match="page 1 has no vector"):
        on_cpu([2, 0, 1], np.ones((3, DIM), dtype=np.float32))


@gpu_path
@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ([(2, DIM), (4, DIM)], r"page 1 has shape \(4, 16\); whole pages of width 16"),
        ([(3, DIM), (3, DIM)], "begins with page 0"),
        ([(5, DIM), (1, DIM)], "begins with page 2"),
        ([(5, DIM - 1)], "begins with page 0"),
        ([(2, DIM)], "vectors of 1 pages came, of 2"),
    ],
)
def test_blocks_that_do_not_fit_are_refused(torch: ModuleType, shapes: list[tuple[int, int]], words: str) -> None:
    blocks = (np.ones(shape, dtype=np.float32) for shape in shapes)
    with pytest.raises(ValueError, match=words):
        TorchPages(np.array([2, 3]), blocks, DIM, device="cpu")


@gpu_path
@pytest.mark.parametrize("number", [70_000, np.nan, np.inf])
@pytest.mark.parametrize(("row", "page"), [(0, 4), (16, 4), (17, 5), (20, 5)])
def test_what_float16_cannot_hold_is_refused_with_its_page(
    torch: ModuleType, number: float, row: int, page: int
) -> None:
    lengths, dim = np.array([2, 1, 1, 1, 17, 4]), 768
    first, second = unit_rows(np.random.default_rng(1), 5, dim), unit_rows(np.random.default_rng(2), 21, dim)
    second[row, 5] = number
    with pytest.raises(InputError, match=rf"page {page} .* not finite as float16.*65,504 need bfloat16 or float32"):
        TorchPages(lengths, [first, second], dim, device="cpu", dtype="float16")
    if number != 70_000:
        with pytest.raises(InputError, match=rf"page {page} .* not finite as float32; .* encode it again$"):
            TorchPages(lengths, [first, second], dim, device="cpu")
    if number == 70_000:
        vectors, query = np.concatenate([first, second]), unit_rows(np.random.default_rng(3), 4, dim)
        for dtype in ("bfloat16", "float32"):
            got = TorchPages(lengths, [first, second], dim, device="cpu", dtype=dtype).scores(query)
            expected = score_pages(query, vectors, starts(lengths))
            assert np.isfinite(got).all()
            assert np.abs(got - expected).max() <= 70_001 * tolerance(query, dtype, 1.0, dim)


@gpu_path
def test_unnormalized_rows_of_768_do_not_overflow_in_their_products(torch: ModuleType) -> None:
    rng = np.random.default_rng(12)
    query, vectors = 300 * unit_rows(rng, 3, 768), 60_000 * unit_rows(rng, 9, 768)
    vectors[0] = 200 * query[0]  # 60,000 x 300: far beyond float16
    got, expected = (
        on_cpu([4, 5], vectors, dtype="float16").scores(query),
        score_pages(query, vectors, np.array([0, 4, 9])),
    )
    assert expected.max() > 1e6
    assert np.abs(got - expected).max() <= 60_000 * tolerance(query, "float16", 1.0, 768)


@gpu_path
def test_queries_and_pages_that_do_not_fit_are_refused(torch: ModuleType) -> None:
    scanned = on_cpu([1, 1], np.eye(DIM, dtype=np.float32)[:2])
    for shape in ((0, DIM), (2, DIM + 1), (DIM,)):
        with pytest.raises(ValueError, match=r"the query has shape .* width 16"):
            scanned.scores(np.ones(shape, dtype=np.float32))
    for wrong in (-1, 2):
        with pytest.raises(IndexError, match=f"{wrong}.* were asked for, of 2"):
            scanned.scores(np.ones((1, DIM), dtype=np.float32), pages=np.array([0, wrong]))


@gpu_path
def test_devices(torch: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert torch_device("cpu") == torch_device("auto") == "cpu"
    with pytest.raises(SettingsError, match=r"'index.device': cuda:1 cannot be used; torch \S+ sees 0 GPUs; .*=cpu"):
        TorchPages(np.array([1]), [], DIM, device="cuda:1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [torch_device(asked) for asked in ("cpu", "auto", "cuda", "cuda:1")] == ["cpu", "cuda:0", "cuda:0", "cuda:1"]
    with pytest.raises(SettingsError, match="sees 2 GPUs"):
        torch_device("cuda:2")


def test_without_torch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MedvragError, match=r"'index\.device': auto needs the package torch; install the extra 'gpu'"):
        TorchPages(np.array([1]), [], DIM)


@pytest.fixture
def small_gpu(torch: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (100_000, 200_000))


@gpu_path
def test_a_gpu_without_room_is_refused_before_vectors_are_read(small_gpu: None) -> None:
    def unread() -> Iterator[np.ndarray]:
        raise AssertionError("a block was read")
        yield

    lengths = np.full(2_000, 103)
    with pytest.raises(MedvragError) as refused:
        TorchPages(lengths, unread(), 128, device="cuda", dtype="float32")
    text = str(refused.value)
    for part in (
        "'index.device': 2,000 pages as float32 take 106,496,000 bytes",
        "33,554,432 while they are scored; cuda:0 has 100,000 free",
        "a smaller dtype (float16 takes half)",
        "index.device=cpu",
    ):
        assert part in text
    with pytest.raises(MedvragError, match="as float16 take 53,248,000 bytes") as refused:  # float16 by itself
        TorchPages(lengths, unread(), 128, device="cuda")
    assert "smaller dtype" not in str(refused.value)
    with pytest.raises(MedvragError, match="take 2,560 bytes, and up to 99,000 "):
        TorchPages(np.array([10]), unread(), 128, device="cuda", similarity_bytes=99_000)


@gpu_path
def test_a_gpu_that_fills_up_is_told(torch: ModuleType, small_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    scanned = on_cpu([1], np.eye(DIM, dtype=np.float32)[:1])

    def full(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")

    monkeypatch.setattr(torch, "empty", full)
    with pytest.raises(MedvragError, match="cuda:0 has 100,000 free"):
        TorchPages(np.array([1]), [], DIM, device="cuda", similarity_bytes=1_000)
    monkeypatch.setattr(scanned, "_scan", full)
    scanned.device = "cuda:0"
    with pytest.raises(MedvragError, match=r"1 pages as float32 take 64 bytes.*cuda:0 has 100,000 free"):
        scanned.scores(np.ones((1, DIM), dtype=np.float32))
