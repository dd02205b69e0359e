"""One function of LLVM's language, written line by line: variables, loops, loads, and vectors of 16 lanes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

LANES = 16
"""Page rows, or pages, that are scored side by side."""
INTS, FLOATS, BYTES = f"<{LANES} x i32>", f"<{LANES} x float>", f"<{4 * LANES} x i8>"


class Function:
    """The text of one function; every method appends to it. Values are names, such as ``%v7``."""

    def __init__(self) -> None:
        self._variables: list[str] = []
        self._lines: list[str] = []
        self._names = 0

    def text(self, name: str, parameters: str) -> str:
        """All of it."""
        lines = "\n".join([*self._variables, "  br label %begin", "begin:", *self._lines, "  ret void"])
        return f"define void @{name}({parameters}) {{\nentry:\n{lines}\n}}\n"

    def emit(self, instruction: str) -> str:
        """An instruction; its result."""
        name = self._name()
        self._lines.append(f"  {name} = {instruction}")
        return name

    def variable(self, kind: str, value: str) -> str:
        """A variable that begins as ``value``, to :meth:`get` and :meth:`put`; LLVM keeps it in a register."""
        name = self._name()
        self._variables.append(f"  {name} = alloca {kind}")
        self.put(name, kind, value)
        return name

    def get(self, variable: str, kind: str) -> str:
        """What a variable holds."""
        return self.emit(f"load {kind}, ptr {variable}")

    def put(self, variable: str, kind: str, value: str) -> None:
        """Give a variable another value."""
        self._lines.append(f"  store {kind} {value}, ptr {variable}")

    @contextmanager
    def loop(self, first: str, end: str) -> Iterator[str]:
        """Do the body for each i64 from ``first`` up to ``end``, which is left out; yields the number."""
        place = self.variable("i64", first)
        label = self._name()[1:]
        self._lines += [f"  br label %{label}.test", f"{label}.test:"]
        now = self.get(place, "i64")
        more = self.emit(f"icmp slt i64 {now}, {end}")
        self._lines += [f"  br i1 {more}, label %{label}.body, label %{label}.end", f"{label}.body:"]
        yield now
        self.put(place, "i64", self.add(now, "1"))
        self._lines += [f"  br label %{label}.test", f"{label}.end:"]

    def at(self, base: str, place: str, kind: str) -> str:
        """Address of element ``place`` of an array."""
        return self.emit(f"getelementptr inbounds {kind}, ptr {base}, i64 {place}")

    def load(self, base: str, place: str, kind: str, *, align: int = 4) -> str:
        """Element ``place`` of an array, which may begin at any multiple of ``align`` bytes."""
        return self.emit(f"load {kind}, ptr {self.at(base, place, kind)}, align {align}")

    def store(self, base: str, place: str, kind: str, value: str) -> None:
        """Write element ``place`` of an array."""
        self._lines.append(f"  store {kind} {value}, ptr {self.at(base, place, kind)}, align 4")

    def add(self, a: str, b: str) -> str:
        """Sum of two i64."""
        return self.emit(f"add i64 {a}, {b}")

    def times(self, a: str, b: str) -> str:
        """Product of two i64."""
        return self.emit(f"mul i64 {a}, {b}")

    def splat(self, value: str, kind: str, lanes: int = LANES) -> str:
        """One value in all lanes."""
        one = self.emit(f"insertelement <{lanes} x {kind}> poison, {kind} {value}, i64 0")
        return self.emit(
            f"shufflevector <{lanes} x {kind}> {one}, <{lanes} x {kind}> poison, <{lanes} x i32> zeroinitializer"
        )

    def shuffle(self, a: str, b: str, kind: str, width: int, lanes: list[int]) -> str:
        """Lanes of two vectors put one after another; numbers from ``width`` on are of ``b``."""
        mask = ", ".join(f"i32 {lane}" for lane in lanes)
        return self.emit(f"shufflevector <{width} x {kind}> {a}, <{width} x {kind}> {b}, <{len(lanes)} x i32> <{mask}>")

    def largest(self, a: str, b: str) -> str:
        """The larger one, lane by lane, of whole numbers."""
        return self.emit(f"call {INTS} @llvm.smax.v{LANES}i32({INTS} {a}, {INTS} {b})")

    def floats(self, a: str) -> str:
        """Whole numbers as floating ones."""
        return self.emit(f"sitofp {INTS} {a} to {FLOATS}")

    def fadd(self, a: str, b: str) -> str:
        """Sum, lane by lane."""
        return self.emit(f"fadd {FLOATS} {a}, {b}")

    def fmul(self, a: str, b: str) -> str:
        """Product, lane by lane."""
        return self.emit(f"fmul {FLOATS} {a}, {b}")

    def larger(self, a: str, b: str) -> str:
        """The larger one, lane by lane, of floating numbers."""
        return self.emit(f"call {FLOATS} @llvm.maxnum.v{LANES}f32({FLOATS} {a}, {FLOATS} {b})")

    def largest_lanes(self, vectors: list[str]) -> str:
        """Of 16 vectors of whole numbers the largest lane of each; lane k of the result belongs to vector k."""
        return self._folded(vectors, "i32", self.largest)

    def lane_sums(self, vectors: list[str]) -> str:
        """Of 16 vectors of floating numbers the sum of the lanes of each; lane k belongs to vector k."""
        return self._folded(vectors, "float", self.fadd)

    def sum_of_lanes(self, vector: str) -> str:
        """Sum of the lanes of floating numbers."""
        return self._one(vector, self.fadd)

    def largest_lane(self, vector: str) -> str:
        """The largest lane of floating numbers."""
        return self._one(vector, self.larger)

    def _folded(self, vectors: list[str], kind: str, join: Callable[[str, str], str]) -> str:
        """Two vectors joined to one, for all pairs, until one is left; the order is always the same."""
        step = 1
        while len(vectors) > 1:
            low = [lane if not lane & step else lane - step + LANES for lane in range(LANES)]
            high = [lane + step if not lane & step else lane + LANES for lane in range(LANES)]
            vectors = [
                join(self.shuffle(a, b, kind, LANES, low), self.shuffle(a, b, kind, LANES, high))
                for a, b in zip(vectors[::2], vectors[1::2], strict=True)
            ]
            step *= 2
        return vectors[0]

    def _one(self, vector: str, join: Callable[[str, str], str]) -> str:
        step = LANES // 2
        while step:
            turned = [(lane + step) % LANES for lane in range(LANES)]
            vector = join(vector, self.shuffle(vector, "poison", "float", LANES, turned))
            step //= 2
        return self.emit(f"extractelement {FLOATS} {vector}, i64 0")

    def _name(self) -> str:
        self._names += 1
        return f"%v{self._names}"
