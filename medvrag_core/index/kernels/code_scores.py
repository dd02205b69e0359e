"""The kernels of S(q, p) on codes, written as text and compiled by LLVM when first used; needs no compiler.

A query meets 16 vectors at a time, one a lane. Every vector needs its best query row, every query row its best vector:
both maxima are taken in registers, on whole numbers; only sums over a page are floating.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from medvrag_core.index.kernels.codes import ZERO, PlacedCodes, QueryCodes, TileCodes, addresses, query_codes
from medvrag_core.index.kernels.instructions import KINDS, Instructions, of_this_machine
from medvrag_core.index.kernels.machine_code import function
from medvrag_core.index.kernels.text import BYTES, FLOATS, INTS, LANES, Function

_LEAST = "splat (i32 -2147483648)"
_QUERY = "ptr %query, ptr %begin_at, ptr %weights, i64 %tiles, i64 %sixteens, i64 %groups, float %backward"
_PAGES = f"ptr %begins, ptr %rows, ptr %scales, ptr %pages, i64 %count, {_QUERY}, ptr %best, ptr %out"
_TILES = f"ptr %codes, ptr %scales, ptr %shares, i64 %count, i64 %vectors, {_QUERY}, ptr %best, ptr %out"


def _nearest(f: Function, kind: Instructions, rows: int, codes: str) -> str:
    """Of each of 16 vectors the product with its best query row; ``%best`` of every query row takes note of all 16.

    Of each group of 4 dimensions, the words of the query rows of a tile lie side by side.
    """
    nearest = f.variable(INTS, _LEAST)
    with f.loop("0", "%tiles") as tile:
        row0 = f.times(tile, str(rows))
        begin = [f.splat(f.load("%begin_at", f.add(row0, str(i)), "i32"), "i32") for i in range(rows)]
        sums = [f.variable(INTS, value) for value in begin]
        query = f.at("%query", f.times(row0, "%groups"), "i32")
        with f.loop("0", "%groups") as group:
            operand = kind.prepare(f, f.load(codes, group, BYTES))
            words = f.at(query, f.times(group, str(rows)), "i32")
            for i, total in enumerate(sums):
                f.put(total, INTS, kind.add_products(f, f.get(total, INTS), operand, f.load(words, str(i), "i32")))
        for i, total in enumerate(sums):
            here, product = f.add(row0, str(i)), f.get(total, INTS)
            f.store("%best", here, INTS, f.largest(f.load("%best", here, INTS), product))
            f.put(nearest, INTS, f.largest(f.get(nearest, INTS), product))
    return f.get(nearest, INTS)


def page_scores(kind: Instructions, rows: int) -> str:
    """Text of the kernel that scores chosen pages, each of any number of blocks; see :class:`Kernels`."""
    f = Function()
    with f.loop("0", "%count") as place:
        page = f.load("%pages", place, "i64")
        begin = f.emit(f"inttoptr i64 {f.load('%begins', page, 'i64')} to ptr")
        length = f.load("%rows", page, "i32")
        blocks = f.emit(f"udiv i64 {f.add(f.emit(f'zext i32 {length} to i64'), str(LANES - 1))}, {LANES}")
        with f.loop("0", f.times("%sixteens", str(LANES))) as row:
            f.store("%best", row, INTS, _LEAST)
        answered = f.variable(FLOATS, "zeroinitializer")
        with f.loop("0", blocks) as block:
            found = f.floats(_nearest(f, kind, rows, f.at(begin, f.times(block, "%groups"), BYTES)))
            # The last block repeats the last vector of the page; it counts once.
            left = f.emit(f"sub i32 {length}, {f.emit(f'trunc i64 {f.times(block, str(LANES))} to i32')}")
            lane_numbers = f"<{', '.join(f'i32 {lane}' for lane in range(LANES))}>"
            real = f.emit(f"icmp slt {INTS} {lane_numbers}, {f.splat(left, 'i32')}")
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


def tile_scores(kind: Instructions, rows: int) -> str:
    """Text of the kernel that scores 16 pages side by side, each of as many vectors; see :class:`Kernels`."""
    f = Function()
    with f.loop("0", "%count") as sixteen:
        first = f.times(sixteen, "%vectors")
        with f.loop("0", f.times("%sixteens", str(LANES))) as row:
            f.store("%best", row, INTS, _LEAST)
        total = f.variable(FLOATS, "zeroinitializer")
        with f.loop("0", "%vectors") as vector:
            here = f.add(first, vector)
            found = f.floats(_nearest(f, kind, rows, f.at("%codes", f.times(here, "%groups"), BYTES)))
            share = f.fmul(f.load("%shares", here, FLOATS), f.splat("%backward", "float"))
            f.put(total, FLOATS, f.fadd(f.get(total, FLOATS), f.fmul(found, share)))
        with f.loop("0", f.times("%tiles", str(rows))) as row:
            weight = f.splat(f.load("%weights", row, "float"), "float")
            best = f.floats(f.load("%best", row, INTS))
            f.put(total, FLOATS, f.fadd(f.get(total, FLOATS), f.fmul(best, weight)))
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
        """A query as :meth:`pages` and :meth:`tiles` take it."""
        return query_codes(query, self.kind.sums_at_once, zero=0 if self.kind.signed else ZERO)

    def pages(
        self,
        query: QueryCodes,
        coded: PlacedCodes,
        chosen: NDArray[np.int64],
        backward: float,
        out: NDArray[np.float32],
    ) -> None:
        """Scores of the ``chosen`` pages into ``out``, both of shape (n,); out is contiguous float32."""
        tiles, groups, rows, _ = query.codes.shape
        best = np.empty((len(query.weights), LANES), dtype=np.int32)
        call = _compiled(self.kind.name, "page_scores", rows)
        call(
            *(*coded.at, chosen.ctypes.data, len(chosen)),
            *(*query.at, tiles, len(query.weights) // LANES, groups, backward * query.scale),
            *addresses(best, out),
        )

    def tiles(
        self, query: QueryCodes, coded: TileCodes, first: int, end: int, backward: float, out: NDArray[np.float32]
    ) -> None:
        """Scores of the pages of tiles ``first`` up to ``end`` into ``out``, shape (end - first, 16), contiguous."""
        tiles, groups, rows, _ = query.codes.shape
        best = np.empty((len(query.weights), LANES), dtype=np.int32)
        call = _compiled(self.kind.name, "tile_scores", rows)
        call(
            *addresses(coded.codes[first:end], coded.scales[first:end], coded.shares[first:end]),
            *(end - first, coded.codes.shape[1]),
            *(*query.at, tiles, len(query.weights) // LANES, groups, backward * query.scale),
            *addresses(best, out),
        )


@cache
def _compiled(kind: str, kernel: Literal["page_scores", "tile_scores"], rows: int) -> Any:
    return function(source(KINDS[kind], kernel, rows))


def source(kind: Instructions, kernel: Literal["page_scores", "tile_scores"], rows: int) -> str:
    """Text of one kernel, for query tiles of so many rows, and of what it calls."""
    text = page_scores(kind, rows) if kernel == "page_scores" else tile_scores(kind, rows)
    return f"{kind.declaration}\n{text}"
