"""The kernels of S(q, p) on codes, written as text and compiled by LLVM when first used; needs no compiler.

A query meets 16 vectors at a time, one a lane. Every vector needs its best query row, every query row its best vector:
both maxima are taken in registers, on whole numbers; only sums over a page are floating.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from medvrag_core.index.kernels.codes import PageCodes, QueryCodes, TileCodes, query_codes
from medvrag_core.index.kernels.instructions import KINDS, Instructions, of_this_machine
from medvrag_core.index.kernels.machine_code import function
from medvrag_core.index.kernels.text import BYTES, FLOATS, INTS, LANES, Function

_LEAST = "splat (i32 -2147483648)"
_QUERY = "ptr %query, ptr %begin_at, ptr %weights, i64 %tiles, i64 %sixteens, i64 %groups, float %backward"
_PAGES = f"ptr %codes, ptr %starts, ptr %rows, ptr %scales, ptr %pages, i64 %count, {_QUERY}, ptr %best, ptr %out"
_TILES = f"ptr %codes, ptr %scales, ptr %shares, i64 %count, {_QUERY}, ptr %out"


def _sums(f: Function, kind: Instructions, blocks: int, rows: int, codes: str, tile: str) -> list[list[str]]:
    """Products of ``rows`` query rows of a tile with ``blocks`` blocks of 16 vectors, summed over all dimensions.

    Of each group of 4 dimensions, the 64 bytes of the blocks lie side by side, and so do the words of the query rows.
    """
    row0 = f.times(tile, str(rows))
    sums = [
        [f.variable(INTS, f.splat(f.load("%begin_at", f.add(row0, str(i)), "i32"), "i32")) for i in range(rows)]
        for _ in range(blocks)
    ]
    query = f.at("%query", f.times(row0, "%groups"), "i32")
    with f.loop("0", "%groups") as group:
        there = f.times(group, str(blocks))
        operands = [kind.prepare(f, f.load(codes, f.add(there, str(b)), BYTES)) for b in range(blocks)]
        words = f.at(query, f.times(group, str(rows)), "i32")
        for i in range(rows):
            word = f.load(words, str(i), "i32")
            for block, operand in zip(sums, operands, strict=True):
                f.put(block[i], INTS, kind.add_products(f, f.get(block[i], INTS), operand, word))
    return [[f.get(total, INTS) for total in block] for block in sums]


def page_scores(kind: Instructions, rows: int) -> str:
    """Text of the kernel that scores chosen pages, each of any number of blocks; see :class:`Kernels`."""
    f = Function()
    with f.loop("0", "%count") as place:
        page = f.load("%pages", place, "i64")
        start = f.load("%starts", page, "i64")
        blocks = f.emit(f"sub i64 {f.load('%starts', f.add(page, '1'), 'i64')}, {start}")
        length = f.load("%rows", page, "i32")
        with f.loop("0", f.times("%sixteens", str(LANES))) as row:
            f.store("%best", row, INTS, _LEAST)
        answered = f.variable(FLOATS, "zeroinitializer")
        with f.loop("0", blocks) as block:
            codes = f.at("%codes", f.times(f.add(start, block), "%groups"), BYTES)
            nearest = f.variable(INTS, _LEAST)
            with f.loop("0", "%tiles") as tile:
                for i, total in enumerate(_sums(f, kind, 1, rows, codes, tile)[0]):
                    here = f.add(f.times(tile, str(rows)), str(i))
                    f.store("%best", here, INTS, f.largest(f.load("%best", here, INTS), total))
                    f.put(nearest, INTS, f.largest(f.get(nearest, INTS), total))
            # The last block repeats the last vector of the page; it counts once.
            left = f.emit(f"sub i32 {length}, {f.emit(f'trunc i64 {f.times(block, str(LANES))} to i32')}")
            lane_numbers = f"<{', '.join(f'i32 {lane}' for lane in range(LANES))}>"
            real = f.emit(f"icmp slt {INTS} {lane_numbers}, {f.splat(left, 'i32')}")
            found = f.floats(f.get(nearest, INTS))
            counted = f.emit(f"select <{LANES} x i1> {real}, {FLOATS} {found}, {FLOATS} zeroinitializer")
            f.put(answered, FLOATS, f.fadd(f.get(answered, FLOATS), counted))
        asked = f.variable(FLOATS, "zeroinitializer")
        # Rows are summed up by sixteens, whatever the tiles, so that the sum is the same for all instructions.
        with f.loop("0", "%sixteens") as sixteen:
            best = f.at("%best", f.times(sixteen, str(LANES)), INTS)
            vectors = f.largest_lanes([f.load(best, str(i), INTS) for i in range(LANES)])
            weighted = f.fmul(f.floats(vectors), f.load("%weights", sixteen, FLOATS))
            f.put(asked, FLOATS, f.fadd(f.get(asked, FLOATS), weighted))
        mean = f.emit(
            f"fdiv float {f.sum_of_lanes(f.get(answered, FLOATS))}, {f.emit(f'sitofp i32 {length} to float')}"
        )
        both = f.emit(f"fadd float {f.sum_of_lanes(f.get(asked, FLOATS))}, {f.emit(f'fmul float {mean}, %backward')}")
        f.store("%out", place, "float", f.emit(f"fmul float {both}, {f.load('%scales', page, 'float')}"))
    return f.text("page_scores", _PAGES)


def tile_scores(kind: Instructions, blocks: int, rows: int) -> str:
    """Text of the kernel that scores 16 pages side by side, each of ``blocks`` vectors; see :class:`Kernels`."""
    f = Function()
    with f.loop("0", "%count") as sixteen:
        codes = f.at("%codes", f.times(f.times(sixteen, "%groups"), str(blocks)), BYTES)
        nearest = [f.variable(INTS, _LEAST) for _ in range(blocks)]
        total = f.variable(FLOATS, "zeroinitializer")
        with f.loop("0", "%tiles") as tile:
            weights = f.at("%weights", f.times(tile, str(rows)), "float")
            sums = _sums(f, kind, blocks, rows, codes, tile)
            for i in range(rows):
                best = sums[0][i]
                for block in sums[1:]:
                    best = f.largest(best, block[i])
                weight = f.splat(f.load(weights, str(i), "float"), "float")
                f.put(total, FLOATS, f.fadd(f.get(total, FLOATS), f.fmul(f.floats(best), weight)))
                for near, block in zip(nearest, sums, strict=True):
                    f.put(near, INTS, f.largest(f.get(near, INTS), block[i]))
        shares = f.at("%shares", f.times(sixteen, str(blocks)), FLOATS)
        for b, near in enumerate(nearest):
            share = f.fmul(f.load(shares, str(b), FLOATS), f.splat("%backward", "float"))
            f.put(total, FLOATS, f.fadd(f.get(total, FLOATS), f.fmul(f.floats(f.get(near, INTS)), share)))
        f.store("%out", sixteen, FLOATS, f.fmul(f.get(total, FLOATS), f.load("%scales", sixteen, FLOATS)))
    return f.text("tile_scores", _TILES)


class Kernels:
    """The compiled kernels of one kind of instructions.

    Scores are S(q, p) of the coded vectors. A call lets other threads run, and threads may share this object.

    Parameters
    ----------
    kind : default: the best that this processor has
    """

    def __init__(self, kind: Instructions | None = None) -> None:
        self.kind = of_this_machine() if kind is None else kind

    def query(self, query: NDArray[np.float32]) -> QueryCodes:
        """A query as :meth:`pages` takes it."""
        return query_codes(query, self.kind.sums_at_once)

    def pages(
        self, query: QueryCodes, coded: PageCodes, chosen: NDArray[np.int64], backward: float, out: NDArray[np.float32]
    ) -> None:
        """Scores of the ``chosen`` pages into ``out``, both of shape (n,); out is contiguous float32."""
        tiles, groups, rows, _ = query.codes.shape
        best = np.empty((len(query.weights), LANES), dtype=np.int32)
        call = _compiled(self.kind.name, "page_scores", 1, rows)
        call(
            *_at(coded.codes, coded.starts, coded.rows, coded.scales, chosen),
            len(chosen),
            *_at(query.codes, self._begin_at(query), query.weights),
            *(tiles, len(query.weights) // LANES, groups, backward * query.scale),
            *_at(best, out),
        )

    def tiles(
        self, query: QueryCodes, coded: TileCodes, first: int, end: int, backward: float, out: NDArray[np.float32]
    ) -> None:
        """Scores of the pages of tiles ``first`` up to ``end`` into ``out``, shape (end - first, 16), contiguous."""
        tiles, groups, rows, _ = query.codes.shape
        call = _compiled(self.kind.name, "tile_scores", coded.codes.shape[2], rows)
        call(
            *_at(coded.codes[first:end], coded.scales[first:end], coded.shares[first:end]),
            end - first,
            *_at(query.codes, self._begin_at(query), query.weights),
            *(tiles, len(query.weights) // LANES, groups, backward * query.scale),
            *_at(out),
        )

    def tile_query(self, query: NDArray[np.float32], vectors: int) -> QueryCodes:
        """A query as :meth:`tiles` takes it for pages of ``vectors`` vectors."""
        return query_codes(query, max(1, self.kind.sums_at_once // vectors))

    def _begin_at(self, query: QueryCodes) -> NDArray[np.int32]:
        """What a sum begins at: codes of pages are 128 more than what they stand for unless they are signed."""
        return np.zeros_like(query.sums) if self.kind.signed else -128 * query.sums


@cache
def _compiled(kind: str, kernel: Literal["page_scores", "tile_scores"], blocks: int, rows: int) -> Any:
    return function(source(KINDS[kind], kernel, blocks, rows))


def source(kind: Instructions, kernel: Literal["page_scores", "tile_scores"], blocks: int, rows: int) -> str:
    """Text of one kernel and of what it calls."""
    text = page_scores(kind, rows) if kernel == "page_scores" else tile_scores(kind, blocks, rows)
    return f"{kind.declaration}\n{text}"


def _at(*arrays: NDArray[Any]) -> list[int]:
    return [array.ctypes.data for array in arrays]
