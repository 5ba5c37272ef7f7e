"""The ways in which a port may lay a table out otherwise: other halves, other order, other signs of the two parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import takewhile

import numpy as np

from pecli.explain.forms import Form, forms, without_ones
from pecli.explain.layout_words import ARRANGEMENTS, twice
from pecli.engine.arrays import Array


@dataclass(frozen=True)
class Rearranged:
    """A change of the first table that gives it the second's shape; `steps` are the changes in words."""

    steps: tuple[str, ...]
    array: Array


def layouts(a: Array, b: Array, most_steps: int = 2) -> Iterator[Rearranged]:
    """The first array changed by up to two steps of layout into one of the second's shape, itself not included."""
    if a.shape != b.shape and without_ones(a).shape == without_ones(b).shape:
        yield Rearranged(("axes of length 1 differ",), a.reshape(b.shape))
    a, shape = without_ones(a), b.shape
    b = without_ones(b)
    sources, targets = _forms(a), _forms(b)
    seen: set[tuple[str, ...]] = set()
    for source in sources:
        parts = source.split(a)
        for target in targets:
            if parts is None or (len(parts) == 2) == (target.arrangement == "alone"):
                continue
            for steps, changed in _changes(source, target, parts):
                if steps and len(steps) <= most_steps and steps not in seen:
                    joined = target.join(*changed)
                    if joined.shape == b.shape:
                        seen.add(steps)
                        yield Rearranged(steps, joined.reshape(shape))


def _forms(array: Array) -> list[Form]:
    """The forms an array may have; one whose columns are doubled first, since that is no chance."""
    straight = takewhile(lambda form: not form.transposed, forms(array))  # those come first
    return sorted(straight, key=lambda form: not form.doubled)


def _changes(source: Form, target: Form, parts: tuple[Array, ...]) -> Iterator[tuple[tuple[str, ...], list[Array]]]:
    """The parts as they are, exchanged, or with a sign changed."""
    step = _step(source, target)
    steps = (step,) if step else ()
    yield steps, list(parts)
    if len(parts) == 1:
        return
    first, second = parts
    names = ARRANGEMENTS[target.arrangement]
    swap = f"sin and cos are swapped ({names.short})"
    sign = [f"the sign of the {part} is flipped" for part in names.parts]
    yield (*steps, swap), [second, first]
    yield (*steps, sign[0]), [np.negative(first), second]
    yield (*steps, sign[1]), [first, np.negative(second)]
    yield (*steps, swap, sign[0]), [np.negative(second), first]
    yield (*steps, swap, sign[1]), [second, np.negative(first)]


def _step(source: Form, target: Form) -> str:
    """What changes from one form to the other, in words; empty if nothing does."""
    if source == target:
        return ""
    if replace(source, doubled=target.doubled) == target:
        if source.doubled and target.doubled:
            return f"A has {twice(source.doubled)}, B has {twice(target.doubled)}"
        side, doubled = ("A", source.doubled) if source.doubled else ("B", target.doubled)
        return f"{side} has {twice(doubled)}, {'B' if side == 'A' else 'A'} has it once"
    if replace(source, padded=target.padded) == target:
        return f"{'A' if source.padded else 'B'} has a column of zeros at the end"
    return f"A is {_words(source)}, B is {_words(target)}"


def _words(form: Form) -> str:
    extra = [twice(form.doubled) if form.doubled else "", "a column of zeros at the end" if form.padded else ""]
    return ", ".join(filter(None, [ARRANGEMENTS[form.arrangement].short, *extra]))
