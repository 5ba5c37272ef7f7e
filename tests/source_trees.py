"""Syntax trees of source files, parsed once for all tests that look at them."""

import ast
from functools import cache
from pathlib import Path
from typing import TypeVar

Node = TypeVar("Node", bound=ast.AST)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def nodes_of(tree: ast.AST, *kinds: type[Node]) -> list[Node]:
    """Return a tree's nodes of some kinds: `nodes_of(tree, ast.For, ast.While)`."""
    by_kind = _nodes_by_kind(tree)
    nodes = []
    for kind in kinds:
        nodes += by_kind.get(kind, [])
    return nodes


@cache
def _nodes_by_kind(tree: ast.AST) -> dict[type[ast.AST], list[ast.AST]]:
    """Sort the nodes of a tree in one walk: walking takes longer than all that looks at them."""
    nodes: dict[type[ast.AST], list[ast.AST]] = {}
    for node in ast.walk(tree):
        nodes.setdefault(type(node), []).append(node)
    return nodes
