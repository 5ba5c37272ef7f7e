"""Two dumps of a run, layer by layer: the first layer that departs, and whether its rotation does.

What is called `before` and `after`, or `pre` and `post`, of one layer are queries or keys around the rotation; their
quotient is the table of the run, and the tables of two runs are compared as tables are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from pecli.checks.compare import Comparison
from pecli.engine.arrays import Array, widened
from pecli.errors import listed
from pecli.explain.rotation import quotient

SIDES = (("before", "after"), ("pre", "post"))
MAX_RESIDUAL = 1e-2  #: of the values after, what the quotient of pairs may leave where all heads are rotated alike
LAYER = re.compile(r"(?:layers?|blocks?|blk|\bh|\bl)[._-]?(\d{1,6})", re.IGNORECASE)
MAX_NAMES = 4  #: tensors of a layer that a line names

Dump = Mapping[str, Array]


def _layer(tensor: Comparison) -> int:
    """Its number, or −1 for a tensor of no layer."""
    number = LAYER.search(tensor.name)
    return int(number.group(1)) if number else -1


def first_departure(a: Dump, b: Dump, tensors: Sequence[Comparison], explain: Callable[..., Any] | None) -> list[str]:
    """Which layer is the first that departs, if there are several, and what explains the rotation there."""
    layers = {number: [*of] for number, of in groupby(sorted(tensors, key=_layer), _layer)}
    departing = [number for number, of in layers.items() if number >= 0 and not all(each.passed for each in of)]
    around = {side for pair in SIDES for side in pair if any(side in each.name for each in tensors)}
    if len(layers.keys() - {-1}) < 2 or not departing or not any({*pair} <= around for pair in SIDES):
        return []
    first = departing[0]
    wrong = [each.name for each in layers[first] if not each.passed]
    right = [each.name for each in layers[first] if each.passed]
    alike = f"; {listed(right, MAX_NAMES)} agree{'s' * (len(right) == 1)}" if right else ""
    lines = [f"layer {first} is the first that departs, by {listed(wrong, MAX_NAMES)}{alike}"]
    sides = [(name.replace(after, before), name) for name in wrong for before, after in SIDES if after in name]
    for before, after in sides if explain else ():
        for layout in ("halves", "interleaved") if before in right else ():
            tables = [_rotation(dump[before], dump[after], layout) for dump in (a, b)]
            if explain and None not in tables:
                (why,) = explain(*tables).diagnosis[:1] or [""]
                return lines + [f"the rotation of layer {first}, as tables: {why}"] * bool(why)
    return lines


def _rotation(before: Array, after: Array, layout: str) -> dict[str, Array] | None:
    """The tables by which a run rotates queries or keys; None where it does not, in this layout."""
    if before.ndim < 2 or before.shape != after.shape or before.shape[-1] % 2 or not before.size:
        return None
    if not all(side.dtype.kind != "c" and np.isfinite(widened(side)).all() for side in (before, after)):
        return None
    table, residual = quotient(widened(before), widened(after), slice(None), (layout, layout))
    return {"cos": table.real.astype("f4"), "sin": table.imag.astype("f4")} if residual <= MAX_RESIDUAL else None
