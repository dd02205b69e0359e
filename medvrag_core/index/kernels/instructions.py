"""The one instruction that differs between processors: four products of bytes, added to a 32-bit sum.

All else of the kernels is the same text for all of them. All instructions compute the same whole numbers, and what is
floating is done in one order, so scores are the same on every machine, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from medvrag_core.index.kernels.text import BYTES, INTS, LANES, Function


@dataclass(frozen=True)
class Instructions:
    """How one kind of processor multiplies bytes.

    Attributes
    ----------
    name : as it is recorded with measurements
    cpu, features : for LLVM; ``native`` is the machine that compiles
    declaration : of the function of LLVM that it uses
    signed : codes are turned into -128..127 before they are multiplied; else sums begin with what makes up for 128
    sums_at_once : sums of 16 lanes that fit into the registers
    prepare : (function, 64 codes) -> operands, once a load
    add_products : (function, sums, operands, 4 bytes of a query row as i32) -> new sums
    """

    name: str
    declaration: str
    signed: bool
    sums_at_once: int
    prepare: Callable[[Function, str], list[str]]
    add_products: Callable[[Function, str, list[str], str], str]


def _signed(f: Function, codes: str) -> str:
    return f.emit(f"xor {BYTES} {codes}, splat (i8 -128)")


def _native(name: str, called: str, lanes: int, *, words: bool, signed: bool, sums_at_once: int) -> Instructions:
    """An instruction that does ``lanes`` sums at once; LLVM names its operands as ``words`` of 4 bytes, or as bytes."""
    ints, octets = f"<{lanes} x i32>", f"<{4 * lanes} x i8>"
    operand = ints if words else octets

    def prepare(f: Function, codes: str) -> list[str]:
        whole = _signed(f, codes) if signed else codes
        firsts = range(0, 4 * LANES, 4 * lanes)
        parts = [f.shuffle(whole, "poison", "i8", 4 * LANES, list(range(k, k + 4 * lanes))) for k in firsts]
        return [f.emit(f"bitcast {octets} {part} to {operand}") for part in parts]

    def add_products(f: Function, sums: str, operands: list[str], word: str) -> str:
        row = f.emit(f"bitcast {ints} {f.splat(word, 'i32', lanes)} to {operand}")
        parts = [f.shuffle(sums, "poison", "i32", LANES, list(range(k, k + lanes))) for k in range(0, LANES, lanes)]
        parts = [
            f.emit(f"call {ints} {called}({ints} {part}, {operand} {codes}, {operand} {row})")
            for part, codes in zip(parts, operands, strict=True)
        ]
        width = lanes
        while len(parts) > 1:
            both = list(range(2 * width))
            parts = [f.shuffle(a, b, "i32", width, both) for a, b in zip(parts[::2], parts[1::2], strict=True)]
            width *= 2
        return parts[0]

    declaration = f"declare {ints} {called}({ints}, {operand}, {operand})"
    return Instructions(name, declaration, signed, sums_at_once, prepare, add_products)


def _plain() -> Instructions:
    """What every processor can do: bytes widened, multiplied and added."""

    def prepare(f: Function, codes: str) -> list[str]:
        whole = _signed(f, codes)
        quarters = [f.shuffle(whole, "poison", "i8", 4 * LANES, list(range(k, 4 * LANES, 4))) for k in range(4)]
        return [f.emit(f"sext <{LANES} x i8> {quarter} to {INTS}") for quarter in quarters]

    def add_products(f: Function, sums: str, operands: list[str], word: str) -> str:
        for place, codes in enumerate(operands):
            number = f.emit(f"ashr i32 {f.emit(f'shl i32 {word}, {24 - 8 * place}')}, 24")
            product = f.emit(f"mul nsw {INTS} {codes}, {f.splat(number, 'i32')}")
            sums = f.emit(f"add nsw {INTS} {sums}, {product}")
        return sums

    return Instructions("plain", "", True, 4, prepare, add_products)


_VPDPBUSD, _SDOT = "@llvm.x86.avx512.vpdpbusd", "@llvm.aarch64.neon.sdot"
KINDS = {
    kind.name: kind
    for kind in (
        _native("avx512-vnni", f"{_VPDPBUSD}.512", 16, words=True, signed=False, sums_at_once=24),
        _native("avx-vnni", f"{_VPDPBUSD}.256", 8, words=True, signed=False, sums_at_once=6),
        _native("neon-dotprod", f"{_SDOT}.v4i32.v16i8", 4, words=False, signed=True, sums_at_once=6),
        _plain(),
    )
}


@lru_cache(maxsize=1)
def of_this_machine() -> Instructions:
    """The best that this processor has."""
    import llvmlite.binding as llvm

    triple, features = llvm.get_process_triple(), llvm.get_host_cpu_features()
    if triple.startswith(("aarch64", "arm64")):
        # Every 64-bit Apple chip has it; elsewhere the features tell.
        return KINDS["neon-dotprod" if "apple" in triple or features.get("dotprod") else "plain"]
    if features.get("avx512vnni"):
        return KINDS["avx512-vnni"]
    return KINDS["avx-vnni" if features.get("avxvnni") else "plain"]
