"""YAML that people write by hand: plain values only, every key once, faults told in one sentence."""

from __future__ import annotations

from typing import Any

import yaml

from medvrag_core.errors import InputError

LARGEST = 1_000_000
"""Bytes or characters; no file that a person writes is longer."""


def strict_yaml(text: str | bytes, source: str, *, way_out: str = "") -> Any:
    """The plain values of a YAML text.

    YAML itself keeps the last of two equal keys in silence, so that a reader could see another value than the program.

    Raises
    ------
    InputError : not YAML, a key stands twice, or too long; names ``source``

    >>> strict_yaml("a: [1, 2]", "here")
    {'a': [1, 2]}
    """
    if len(text) > LARGEST:
        raise InputError(f"{source}: larger than {LARGEST:,} bytes", way_out=way_out)
    try:
        # A subclass of SafeLoader: plain values only.
        return yaml.load(text, Loader=_OneKeyOnceLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{source}: not valid YAML ({' '.join(str(error).split())[:200]})", way_out=way_out) from None


class _OneKeyOnceLoader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        repeated = next((key for number, key in enumerate(keys) if key in keys[:number]), None)
        if repeated is not None:
            raise yaml.YAMLError(f"key '{repeated}' stands twice")
        return super().construct_mapping(node, deep)
