"""Syntax trees of source files, parsed once for all tests that look at them."""

import ast
from functools import cache
from pathlib import Path


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes_of(tree: ast.AST) -> list[ast.AST]:
    """Return a tree's nodes in the order of `ast.walk`, which takes longer than all that looks at them."""
    return [*ast.walk(tree)]
