"""Two dumps of a run, layer by layer: the first layer that departs, and whether its rotation does.

What is called `before` and `after`, or `pre` and `post`, of one layer are queries or keys around the rotation; their
quotient is the table of the run, and the tables of two runs are compared as tables are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from pecli.checks.compare import Comparison
from pecli.engine.arrays import Array, Floats, widened
from pecli.errors import listed
from pecli.explain.forms import halved

SIDES = (("before", "after"), ("pre", "post"))
LAYOUTS = ("halves", "interleaved")
MAX_RESIDUAL = 1e-2  #: of the values after, what the quotient of pairs may leave where all heads are rotated alike


LAYER = re.compile(r"(?:layers?|blocks?|blk|\bh|\bl)[._-]?(\d{1,6})", re.IGNORECASE)
MAX_NAMES = 4  #: tensors of a layer that a line names


def _layer(tensor: Comparison) -> int:
    """Its number, or −1 for a tensor of no layer."""
    number = LAYER.search(tensor.name)
    return int(number.group(1)) if number else -1


def first_departure(
    a: Mapping[str, Array], b: Mapping[str, Array], tensors: Sequence[Comparison], explain: Callable[..., Any] | None
) -> list[str]:
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
    if explain is None:
        return lines
    for name in wrong:
        for before, after in SIDES:
            start = name.replace(after, before)
            if after not in name or start not in right:
                continue
            for tables in _rotations([(a[start], a[name]), (b[start], b[name])]):
                found = explain(
                    *({"cos": each.real.astype(np.float32), "sin": each.imag.astype(np.float32)} for each in tables)
                )
                lines += [f"the rotation of layer {first}, as tables: {line}" for line in found.diagnosis[:1]]
                return lines
    return lines


def _rotations(runs: Sequence[tuple[Array, Array]]) -> Iterator[list[Floats]]:
    """The tables by which both runs rotate queries or keys, for the layout by which both do."""
    for layout in LAYOUTS:
        tables = []
        for before, after in runs:
            if before.ndim < 2 or before.shape != after.shape or before.shape[-1] % 2 or not before.size:
                return
            if not all(side.dtype.kind != "c" and np.isfinite(widened(side)).all() for side in (before, after)):
                return
            x, y = (np.array(halved(widened(side), layout)) for side in (before, after))
            start, end = (side[0] + 1j * side[1] for side in (x, y))
            heads = tuple(range(start.ndim - 2))
            table = (end * start.conj()).sum(axis=heads) / np.maximum((np.abs(start) ** 2).sum(axis=heads), 1e-300)
            if np.abs(end - start * table).max() <= MAX_RESIDUAL * np.abs(end).max():
                tables.append(table)
        if len(tables) == len(runs):
            yield tables
