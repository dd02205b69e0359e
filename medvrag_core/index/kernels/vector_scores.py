"""S(q, p) of pages by their vectors, as they are stored: float32, float16, or bytes with a scale a vector.

What :func:`~medvrag_core.index.maxsim.score_pages` computes with a product of matrices, whose last bits depend on the
pages that are scored together; here a page gets the same bits in any company, on any number of threads.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medvrag_core.encoders.storage import Stored
from medvrag_core.index.kernels.codes import in_pairs
from medvrag_core.index.kernels.machine_code import function, reads_halves
from medvrag_core.index.kernels.text import FLOATS, LANES, Function
from medvrag_core.index.maxsim import row_weights

_LEAST = "splat (float 0xFFF0000000000000)"  # minus infinity
_TYPES = {"float32": "float", "float16": "half", "int8": "i8"}
_PARAMETERS = (
    "ptr %vectors, ptr %scales, ptr %offsets, i64 %count, ptr %query, ptr %weights, i64 %tiles, i64 %chunks, "
    "float %backward, ptr %best, ptr %out"
)


def vector_scores(
    query: NDArray[np.float32], stored: Stored, offsets: NDArray[np.int64], *, backward: float = 1.0
) -> NDArray[np.float32]:
    """S(q, p) of pages.

    Parameters
    ----------
    query : float32, shape (m, d), m >= 1; the length of a row is its weight in the first half of S
    stored : vectors of the pages, one after another, width d
    offsets : int64, shape (P + 1,), rows of page k are ``offsets[k]:offsets[k + 1]``, none empty
    backward : weight of the second half of S

    Returns
    -------
    float32, shape (P,)
    """
    if stored.vectors.dtype == np.float16 and not reads_halves():
        stored = Stored(stored.vectors.astype(np.float32))
    storage = str(stored.vectors.dtype)
    lengths = row_weights(query)
    count, width = query.shape
    rest = -width % LANES
    tiles = -(-count // LANES)
    rows = in_pairs(-(-count // tiles))
    places = np.minimum(np.arange(tiles * rows), count - 1)
    directions = np.pad((query / lengths[:, None])[places], ((0, 0), (0, rest)))
    laid = np.ascontiguousarray(directions.reshape(tiles, rows, -1, LANES).transpose(0, 2, 1, 3))
    weights = np.zeros((tiles, LANES), dtype=np.float32)
    weights[:, :rows] = np.where(np.arange(tiles * rows) < count, (lengths / np.float32(count))[places], 0).reshape(
        tiles, rows
    )
    vectors = np.ascontiguousarray(np.pad(stored.vectors, ((0, 0), (0, rest))) if rest else stored.vectors)
    scales = np.zeros(0, dtype=np.float32) if stored.scales is None else np.ascontiguousarray(stored.scales)
    best = np.empty((tiles, LANES), dtype=np.float32)
    out = np.empty(len(offsets) - 1, dtype=np.float32)
    at = [array.ctypes.data for array in (vectors, scales, offsets, laid, weights, best, out)]
    call = _compiled(storage, rows)
    call(*at[:3], len(out), *at[3:5], tiles, laid.shape[1], backward, *at[5:])
    return out


@cache
def _compiled(storage: str, rows: int) -> Any:
    return function(scores_text(storage, rows))


def scores_text(storage: str, rows: int) -> str:
    """Text of the kernel for vectors of a storage and query tiles of so many rows, at most 16."""
    f = Function()
    with f.loop("0", "%count") as page:
        first, end = f.load("%offsets", page, "i64"), f.load("%offsets", f.add(page, "1"), "i64")
        with f.loop("0", "%tiles") as tile:
            f.store("%best", tile, FLOATS, _LEAST)
        answered = f.variable("float", "0.0")
        with f.loop(first, end) as row:
            vector = f.at("%vectors", f.times(f.times(row, "%chunks"), str(LANES)), _TYPES[storage])
            nearest = f.variable(FLOATS, _LEAST)
            with f.loop("0", "%tiles") as tile:
                similarity = _similarities(f, storage, rows, vector, tile)
                if storage == "int8":
                    similarity = f.fmul(similarity, f.splat(f.load("%scales", row, "float"), "float"))
                f.store("%best", tile, FLOATS, f.larger(f.load("%best", tile, FLOATS), similarity))
                f.put(nearest, FLOATS, f.larger(f.get(nearest, FLOATS), similarity))
            total = f.emit(f"fadd float {f.get(answered, 'float')}, {f.largest_lane(f.get(nearest, FLOATS))}")
            f.put(answered, "float", total)
        asked = f.variable(FLOATS, "zeroinitializer")
        with f.loop("0", "%tiles") as tile:
            weighted = f.fmul(f.load("%best", tile, FLOATS), f.load("%weights", tile, FLOATS))
            f.put(asked, FLOATS, f.fadd(f.get(asked, FLOATS), weighted))
        length = f.emit(f"sitofp i64 {f.emit(f'sub i64 {end}, {first}')} to float")
        mean = f.emit(f"fdiv float {f.get(answered, 'float')}, {length}")
        second = f.emit(f"fmul float {mean}, %backward")
        f.store("%out", page, "float", f.emit(f"fadd float {f.sum_of_lanes(f.get(asked, FLOATS))}, {second}"))
    return f.text("vector_scores", _PARAMETERS)


def _similarities(f: Function, storage: str, rows: int, vector: str, tile: str) -> str:
    """Of one vector with the query rows of a tile; lanes beyond them repeat the last one."""
    sums = [f.variable(FLOATS, "zeroinitializer") for _ in range(rows)]
    query = f.at("%query", f.times(f.times(tile, "%chunks"), str(rows)), FLOATS)
    with f.loop("0", "%chunks") as chunk:
        part = f.load(vector, chunk, f"<{LANES} x {_TYPES[storage]}>", align=1)
        if storage == "float16":
            part = f.emit(f"fpext <{LANES} x half> {part} to {FLOATS}")
        elif storage == "int8":
            part = f.emit(f"sitofp <{LANES} x i8> {part} to {FLOATS}")
        words = f.at(query, f.times(chunk, str(rows)), FLOATS)
        for i, total in enumerate(sums):
            product = f.fmul(part, f.load(words, str(i), FLOATS))
            f.put(total, FLOATS, f.fadd(f.get(total, FLOATS), product))
    lanes = [f.get(total, FLOATS) for total in sums]
    return f.lane_sums(lanes + [lanes[-1]] * (LANES - rows))
