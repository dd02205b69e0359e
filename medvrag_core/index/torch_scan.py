"""All page vectors on one device, and S(q, p) of all or chosen pages for one query with torch.

**Never run on a GPU.** Tests run it on tensors of the CPU against :mod:`.maxsim`, and on tensors without contents that
torch takes for those of a GPU, which shows that it never waits for the device between its first and last operation.

How it is made for a GPU:

- Rows of the query are scaled to length 1 before they meet the pages, and their weights multiply the maxima, in
  float64. One product of matrices thus serves both halves of S, and no length of a query row overflows float16.
- Products of float16 (or bfloat16) rows come out as float32 (``torch.mm(..., out_dtype=)``; on the CPU the rows are
  widened first). float16 ends at 65,504: pages that hold more are refused, never cut.
- Pages of about one length lie together, padded to one width by repeats of their last row. A repeat wins no maximum
  that the row would not win itself; the mean over patches counts true rows alone.
- Similarities exist for as many pages at once as ``similarity_bytes`` allow. The default fits in the second-level cache
  of an A100 (40 MB), so that both maxima may find them there.

What one query over 350,000 pages of 103 vectors, 128 wide, in float16 must move and compute. This is arithmetic
(:func:`scan_cost`) over the data sheet of an A100 with 80 GB (2,039 GB/s, 312 TFLOP/s dense float16); it was never run
on a GPU.

====================================================  ========  =========
rows of the query                                     m = 20    m = 160
====================================================  ========  =========
page vectors with padding, read once                  9.3 GB    9.3 GB
similarities, written once, read twice                2.9 GB    23.3 GB
operations                                            0.19 T    1.49 T
floor: similarities never leave the cache             4.6 ms    4.8 ms
floor: similarities go through memory three times     8.9 ms    38.8 ms
====================================================  ========  =========

What stays the same: asked again, the same object gives the same bits (seen on the CPU; nothing here scatters or adds
atomically). All products of one width have one shape, so that equal pages get equal scores wherever they lie, as far as
the library gives equal columns of a product equal bits (seen on the CPU). Other pages in the collection, chosen pages
instead of all, another budget, number of threads or device change the shape of a product and may pick another routine:
scores then agree to rounding of float32.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from medvrag_core.encoders.extra import gpu_packages
from medvrag_core.encoders.shards import starts
from medvrag_core.errors import InputError, MedvragError, SettingsError
from medvrag_core.index.maxsim import row_weights

SIMILARITY_BYTES = 32 * 2**20
ITEM_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}
Dtype = Literal["auto", "float16", "bfloat16", "float32"]


@dataclass(frozen=True)
class ScanCost:
    """What scoring all pages with one query takes, beside what does not grow with the pages.

    Attributes
    ----------
    stored_bytes : padded page vectors, read once
    similarity_bytes : float32 similarities of all pages, written once and read once for each half of S
    operations : multiplications and additions of the product
    """

    stored_bytes: int
    similarity_bytes: int
    operations: int


def scan_cost(lengths: NDArray[np.int64], dim: int, tokens: int, dtype: str) -> ScanCost:
    """Of pages with these numbers of rows, ``dim`` wide and held as ``dtype``, and a query of ``tokens`` rows.

    >>> for m in (20, 160):
    ...     cost = scan_cost(np.full(350_000, 103), 128, m, "float16")
    ...     at_least = max(cost.stored_bytes / 2.039e12, cost.operations / 312e12)
    ...     through_memory = (cost.stored_bytes + 3 * cost.similarity_bytes) / 2.039e12
    ...     print(cost, f"{1e3 * at_least:.1f} to {1e3 * through_memory:.1f} ms")
    ScanCost(stored_bytes=9318400000, similarity_bytes=2912000000, operations=186368000000) 4.6 to 8.9 ms
    ScanCost(stored_bytes=9318400000, similarity_bytes=23296000000, operations=1490944000000) 4.8 to 38.8 ms
    """
    rows = int(padded(lengths).sum())
    return ScanCost(rows * dim * ITEM_BYTES[dtype], rows * tokens * 4, 2 * rows * dim * tokens)


def padded(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows that pages of these lengths take: eight widths from each power of two to the next, all widths up to 16.

    At most an eighth is padding, and the widths are few: 64 of them reach 1,024 rows.

    >>> padded(np.array([1, 16, 17, 103, 129])).tolist()
    [1, 16, 18, 104, 144]
    """
    bits = np.frexp(np.maximum(lengths, 1) - 1)[1]
    step = 1 << np.maximum(bits.astype(np.int64) - 4, 0)
    widths: NDArray[np.int64] = -(-lengths // step) * step
    return widths


def torch_device(asked: str) -> str:
    """``cpu`` or ``cuda:N`` for ``index.device``; ``auto`` is the first GPU that torch sees, else the CPU.

    Raises
    ------
    SettingsError : the GPU that was asked for is not there
    MedvragError : torch is not installed
    """
    with gpu_packages(f"'index.device': {asked}"):
        import torch
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if asked == "cpu" or (asked == "auto" and not gpus):
        return "cpu"
    number = 0 if asked == "auto" else int(asked.partition(":")[2] or 0)
    if number >= gpus:
        raise SettingsError(
            f"'index.device': {asked} cannot be used; torch {torch.__version__} sees {gpus} GPUs",
            way_out="set index.device=cpu, or auto",
        )
    return f"cuda:{number}"


@dataclass(frozen=True)
class _Bucket:
    """Pages of one width: their slots, and where their rows begin on the device."""

    first: int
    last: int
    width: int
    first_row: int


class TorchPages:
    """Vectors of N pages on a device, in buckets of one width, and S(q, p) as :mod:`.maxsim` defines it.

    Parameters
    ----------
    lengths : int64, shape (N,), rows of each page, none 0; known before any vector is read, so that a device that is
        too small is refused at once
    blocks : vectors of the pages one after another, float32 or float16, shape (rows, dim), whole pages in each block.
        One block is held at a time, with a copy, on the host and on the device.
    dim : width of a vector
    device : as ``index.device`` says it
    dtype : of the vectors on the device; ``auto`` is float16 on a GPU and float32 on the CPU
    similarity_bytes : most bytes of a similarity matrix and of rows copied for it, or those of one page if that is more

    Raises
    ------
    SettingsError : the device is not there
    InputError : a page holds a number that is not finite in ``dtype``
    MedvragError : torch is not installed, or the device has no room
    ValueError : a page without rows, or blocks that do not fit ``lengths``
    """

    def __init__(
        self,
        lengths: NDArray[np.int64],
        blocks: Iterable[NDArray[np.floating]],
        dim: int,
        *,
        device: str = "auto",
        dtype: Dtype = "auto",
        similarity_bytes: int = SIMILARITY_BYTES,
    ) -> None:
        if len(lengths) and lengths.min() < 1:
            raise ValueError(
                f"page {int(lengths.argmin())} has no vector; empty pages are refused when an index is built"
            )
        self.device = torch_device(device)
        self.dtype: str = dtype if dtype != "auto" else "float32" if self.device == "cpu" else "float16"
        self.dim = dim
        self._similarity_bytes = similarity_bytes
        self._lengths = np.asarray(lengths, dtype=np.int64)
        widths = padded(self._lengths)
        # A slot is a page's place on the device. Pages of a bucket keep their order.
        self._page_of_slot = np.argsort(widths, kind="stable")
        self._slot_of_page = np.argsort(self._page_of_slot, kind="stable")
        self._first_row = starts(widths[self._page_of_slot])
        self._widths = widths
        each, first, count = np.unique(widths[self._page_of_slot], return_index=True, return_counts=True)
        self._buckets = [
            _Bucket(int(f), int(f + c), int(w), int(self._first_row[f]))
            for w, f, c in zip(each, first, count, strict=True)
        ]
        self.stored_bytes = int(self._first_row[-1]) * dim * ITEM_BYTES[self.dtype]
        self._load(blocks)

    def _load(self, blocks: Iterable[NDArray[np.floating]]) -> None:
        import torch

        self._refuse_if_too_small()
        offsets, page, pages = starts(self._lengths), 0, len(self._lengths)
        with torch.inference_mode(), self._full_is_told():
            self._rows = torch.empty(
                (int(self._first_row[-1]), self.dim), dtype=getattr(torch, self.dtype), device=self.device
            )
            self._length_of_slot = torch.from_numpy(self._lengths[self._page_of_slot]).to(self.device)
            for block in blocks:
                last = int(np.searchsorted(offsets, offsets[page] + len(block)))
                if block.shape[1:] != (self.dim,) or last > pages or offsets[last] != offsets[page] + len(block):
                    raise ValueError(
                        f"the block that begins with page {page} has shape {block.shape}; whole pages of width "
                        f"{self.dim} are wanted"
                    )
                self._put(block, page, last, offsets)
                page = last
        if page != pages:
            raise ValueError(f"vectors of {page} pages came, of {pages}")

    def _put(self, block: NDArray[np.floating], first: int, last: int, offsets: NDArray[np.int64]) -> None:
        """Rows of the pages ``first`` up to ``last`` into their slots, with their padding."""
        import torch

        widths, pages = self._widths[first:last], slice(first, last)
        inner = starts(widths)
        turn = np.arange(inner[-1]) - np.repeat(inner[:-1], widths)
        source = np.repeat(offsets[pages] - offsets[first], widths)
        source += np.minimum(turn, np.repeat(self._lengths[pages] - 1, widths))
        target = np.repeat(self._first_row[self._slot_of_page[pages]], widths) + turn
        rows = torch.from_numpy(np.asarray(block[source])).to(device=self.device, dtype=self._rows.dtype)
        finite = rows.isfinite().all(dim=1)
        if not finite.all():
            row = int((~finite).nonzero()[0])
            page = first + int(np.searchsorted(inner, row, side="right")) - 1
            wider = "; numbers beyond 65,504 need bfloat16 or float32" if self.dtype == "float16" else ""
            raise InputError(
                f"page {page} holds a number that is not finite as {self.dtype}",
                way_out=f"page vectors have length 1: encode it again{wider}",
            )
        self._rows.index_copy_(0, torch.from_numpy(target).to(self.device), rows)

    def scores(
        self, query: NDArray[np.float32], *, backward: float = 1.0, pages: NDArray[np.int64] | None = None
    ) -> NDArray[np.float32]:
        """S(q, p) of all pages in their order, or of the chosen ones in the order asked for.

        Parameters
        ----------
        query : shape (m, dim), m >= 1; the length of a row is its weight in the forward half
        backward : weight of the second half of S; 0 leaves its work out
        pages : int64, shape (P,), page numbers, which may repeat

        Returns
        -------
        float32, shape (N,) or (P,)

        Raises
        ------
        MedvragError : the device has no room
        ValueError : a query of another width, or without rows
        IndexError : a page number that is not there, such as FAISS's -1
        """
        import torch

        if query.ndim != 2 or not len(query) or query.shape[1] != self.dim:
            raise ValueError(f"the query has shape {query.shape}, pages have vectors of width {self.dim}")
        order, slots = self._page_of_slot, None
        if pages is not None:
            if len(pages) and not 0 <= pages.min() <= pages.max() < len(self._lengths):
                raise IndexError(f"pages {pages.min()} to {pages.max()} were asked for, of {len(self._lengths)}")
            slots = self._slot_of_page[pages]
            order = np.argsort(slots, kind="stable")
            slots = slots[order]
        weights = row_weights(query)
        with torch.inference_mode(), self._full_is_told():
            found: NDArray[np.float32] = (
                self._scan(
                    torch.from_numpy((query / weights[:, None]).astype(np.float32)).to(self._rows),
                    torch.from_numpy(weights / np.float64(len(query))).to(self._rows.device),
                    backward,
                    slots,
                )
                .cpu()
                .numpy()
            )
        scores = np.empty_like(found)
        scores[order] = found
        return scores

    def _scan(self, unit: Any, weights: Any, backward: float, slots: NDArray[np.int64] | None) -> Any:
        """Scores of these slots, which are sorted, or of all: float32 on the device, which is never waited for."""
        import torch

        chosen = None if slots is None else torch.from_numpy(slots).to(self._rows.device)
        found = [torch.empty(0, dtype=torch.float32, device=self._rows.device)]
        for bucket in self._buckets:
            first, last = bucket.first, bucket.last
            if slots is not None:
                first, last = map(int, np.searchsorted(slots, [first, last]))
            pages = bucket.last - bucket.first
            table = self._rows.narrow(0, bucket.first_row, pages * bucket.width).view(pages, bucket.width, self.dim)
            lengths = self._length_of_slot.narrow(0, bucket.first, pages)
            done = first
            for begin, size in self._parts(first, last, bucket.width, len(unit), copied=slots is not None):
                if chosen is None:
                    part = table.narrow(0, begin - first, size), lengths.narrow(0, begin - first, size)
                else:
                    at = chosen.narrow(0, begin, size) - bucket.first
                    part = table.index_select(0, at), lengths.index_select(0, at)
                scores = _page_scores(unit, weights, backward, *part)
                found.append(scores.narrow(0, done - begin, begin + size - done))
                done = begin + size
        return torch.cat(found)

    def _parts(self, first: int, last: int, width: int, tokens: int, *, copied: bool) -> list[tuple[int, int]]:
        """Parts of one size (first slot, size), within the budget, up to ``last``; the last may repeat some pages."""
        if first == last:
            return []
        widened = not self._rows.is_cuda and self.dtype != "float32"
        row = 4 * tokens + self.dim * (4 * widened + ITEM_BYTES[self.dtype] * copied)
        most = max(1, self._similarity_bytes // (row * width))
        parts = -(-(last - first) // most)
        size = -(-(last - first) // parts)
        return [(min(first + k * size, last - size), size) for k in range(parts)]

    def _refuse_if_too_small(self) -> None:
        if self.device == "cpu":
            return
        free = _free_bytes(self.device)
        if self.stored_bytes + self._similarity_bytes > free:
            raise self._no_room(free)

    @contextmanager
    def _full_is_told(self) -> Generator[None, None, None]:
        import torch

        try:
            yield
        except torch.OutOfMemoryError:
            raise self._no_room(_free_bytes(self.device)) from None

    def _no_room(self, free: int) -> MedvragError:
        smaller = "a smaller dtype (float16 takes half), " if self.dtype == "float32" else ""
        return MedvragError(
            f"'index.device': {len(self._lengths):,} pages as {self.dtype} take {self.stored_bytes:,} bytes, and up to "
            f"{self._similarity_bytes:,} while they are scored; {self.device} has {free:,} free",
            way_out=f"use {smaller}a GPU with more memory, or index.device=cpu",
        )


def _page_scores(unit: Any, weights: Any, backward: float, pages: Any, lengths: Any) -> Any:
    """Scores of pages of one width: ``pages`` of shape (P, width, dim), ``weights`` divided by m already."""
    import torch

    count, width, dim = pages.shape
    similarity = _product(unit, pages.reshape(count * width, dim)).view(len(unit), count, width)
    scores = (similarity.amax(dim=2).double() * weights.unsqueeze(1)).sum(dim=0)
    if backward:
        true = torch.arange(width, device=lengths.device) < lengths.unsqueeze(1)
        best = torch.where(true, similarity.amax(dim=0), 0.0)
        scores += backward * best.sum(dim=1, dtype=torch.float64) / lengths
    return scores.float()


def _product(unit: Any, rows: Any) -> Any:
    """Similarities in float32, shape (m, rows)."""
    import torch

    if rows.is_cuda and rows.dtype != torch.float32:
        return torch.mm(unit, rows.T, out_dtype=torch.float32)
    return torch.mm(unit.float(), rows.float().T)


def _free_bytes(device: str) -> int:
    """Bytes that are free on a GPU once torch gives back what it no longer uses."""
    import torch

    torch.cuda.empty_cache()
    return int(torch.cuda.mem_get_info(device)[0])
