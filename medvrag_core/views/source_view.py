"""Parts of a Python file, shown as code by notebooks and the book."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from medvrag_core.errors import InputError


class SourceCode:
    """Python code that notebooks and the book highlight in their own colors, light or dark.

    >>> print(SourceCode("x = 1")._repr_markdown_())
    ```python
    x = 1
    ```
    """

    def __init__(self, code: str) -> None:
        self.code = code

    def _repr_markdown_(self) -> str:
        # A fence is longer than any run of backticks in what it holds, so that nothing in it can end it.
        fence = "`" * max(3, *(1 + len(run) for run in re.findall("`+", self.code) or [""]))
        return f"{fence}python\n{self.code}\n{fence}"

    def __str__(self) -> str:
        return self.code


def source_of(path: Path, *names: str) -> SourceCode:
    """Functions and classes of the top level of a file, with their decorators, in the order asked for.

    The file is parsed and not run.

    Raises
    ------
    InputError : the file is missing or no Python, or has nothing of this name
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    text = path.read_text(encoding="utf-8")
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise InputError(f"{path}, line {error.lineno}: {error.msg}") from None
    lines, parts = text.splitlines(), {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            parts[node.name] = "\n".join(lines[first - 1 : node.end_lineno])
    if unknown := [name for name in names if name not in parts]:
        raise InputError(f"{path}: has no '{unknown[0]}'", way_out=f"choose among {', '.join(parts)}")
    return SourceCode("\n\n\n".join(parts[name] for name in names))
