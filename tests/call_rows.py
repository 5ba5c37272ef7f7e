"""Rows of calls: a call written as text in a table of data, with literal arguments.

Only what tables need is understood: names from a given namespace, their attributes and items, calls,
literals, lists, tuples and dicts, and arithmetic of numbers.
"""

import ast
import builtins
import operator
from collections.abc import Callable, Mapping
from typing import Any

OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.USub: operator.neg,
}


def result_of(text: str, names: Mapping[str, Any]) -> Any:
    """Return the value of an expression.

    >>> result_of("dict(a=-1, **more)['a'] - 2**3", {"more": {"b": 2}})
    -9
    """
    return _value(ast.parse(text, mode="eval").body, names)


def _value(node: ast.AST | None, names: Mapping[str, Any]) -> Any:
    match node:
        case None:  # the end of a slice that has none
            return None
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return names[name] if name in names else getattr(builtins, name)
        case ast.Attribute(value=owner, attr=name):
            return getattr(_value(owner, names), name)
        case ast.Call(func=function, args=arguments, keywords=keywords):
            return _value(function, names)(*_items(arguments, names), **_pairs(keywords, names))
        case ast.List(elts=elements):
            return _items(elements, names)
        case ast.Tuple(elts=elements):
            return tuple(_items(elements, names))
        case ast.Dict(keys=keys, values=values):
            return _dict(keys, values, names)
        case ast.UnaryOp(op=sign, operand=operand):
            return OPERATORS[type(sign)](_value(operand, names))
        case ast.BinOp(left=left, op=sign, right=right):
            return OPERATORS[type(sign)](_value(left, names), _value(right, names))
        case ast.Subscript(value=owner, slice=index):
            return _value(owner, names)[_value(index, names)]
        case ast.Slice(lower=lower, upper=upper, step=step):
            return slice(_value(lower, names), _value(upper, names), _value(step, names))
    raise SyntaxError(f"a table has no {type(node).__name__}")


def _dict(
    keys: list[ast.expr | None], values: list[ast.expr], names: Mapping[str, Any]
) -> dict[Any, Any]:
    entries: dict[Any, Any] = {}
    for key, value in zip(keys, values, strict=True):
        if key is None:  # **value
            entries.update(_value(value, names))
        else:
            entries[_value(key, names)] = _value(value, names)
    return entries


def _items(elements: list[ast.expr], names: Mapping[str, Any]) -> list[Any]:
    items: list[Any] = []
    for element in elements:
        if isinstance(element, ast.Starred):
            items.extend(_value(element.value, names))
        else:
            items.append(_value(element, names))
    return items


def _pairs(keywords: list[ast.keyword], names: Mapping[str, Any]) -> dict[str, Any]:
    pairs: dict[str, Any] = {}
    for keyword in keywords:
        value = _value(keyword.value, names)
        if keyword.arg is None:  # **value
            pairs.update(value)
        else:
            pairs[keyword.arg] = value
    return pairs
