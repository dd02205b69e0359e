"""The case inspector: one browser module over stored cases, alive beside a kernel and still in the book."""
