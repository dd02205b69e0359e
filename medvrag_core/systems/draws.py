"""Draws that depend on a seed and on what is drawn for, and on nothing else: not on order, threads or earlier draws."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def drawn_order(items: Iterable[str], *key: object) -> list[str]:
    """Items in an order that looks random; the same items and key give the same order, however they come in.

    >>> drawn_order("abcd", 42, "q1") == drawn_order("dbca", 42, "q1") != drawn_order("abcd", 42, "q2")
    True
    """
    head = "\0".join(map(str, key))
    return sorted(items, key=lambda item: (hashlib.sha256(f"{head}\0{item}".encode()).digest(), item))
