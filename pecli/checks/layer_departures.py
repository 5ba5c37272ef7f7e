"""The first layer in which the dumps of two runs differ, and what explains the rotation there.

The quotient of queries or keys `after` and `before` (`post` and `pre`) a rotation is its table, compared as tables are.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from pecli.compare.comparison import Comparison
from pecli.engine.arrays import Array, widened
from pecli.errors import listed
from pecli.explain import rotation
from pecli.explain.edits import Explanation
from pecli.files.tensor_roles import layer_number

SIDES = (("before", "after"), ("pre", "post"))
"""Words in names that distinguish tensors before a rotation from those after it."""
MAX_RESIDUAL = 1e-2  #: share of the values that a quotient may leave if all heads are rotated alike
TABLE_ATOL = 1e-4  #: tolerance for tables that were computed from rotated queries
MAX_NAMES = 4  #: tensors of a layer that a line names
LAYOUTS = ("halves", "interleaved")

Dump = Mapping[str, Array]


class Explained(Protocol):
    """A difference of two dumps, as `diff` returns it."""

    @property
    def diagnosis(self) -> tuple[str, ...]: ...

    @property
    def explanations(self) -> tuple[Explanation, ...]: ...


class Compare(Protocol):
    """Compares two dumps, as `diff` does."""

    def __call__(self, a: Dump, b: Dump, *, atol: float) -> Explained: ...


class Departure(NamedTuple):
    """Sentences on the first layer that departs; none if the files are not dumps of runs."""

    sentences: list[str]
    is_explained: bool = False  #: True if a sentence states how the rotation differs


def first_departure(
    a: Dump, b: Dump, tensors: Sequence[Comparison], compare: Compare | None
) -> Departure:
    """Return the first layer that departs, if there are several, and what explains the rotation there.

    Args:
        a: The tensors of one run.
        b: The tensors of the other.
        tensors: Their comparisons.
        compare: Compares the tables of two rotations; None if no reasons are searched for.
    """
    layers = _by_layer(tensors)
    departing = [number for number, layer in layers.items() if not all(_passed(layer))]
    has_several = len(layers) > 1
    if not has_several or not departing or not _has_both_sides(tensors):
        return Departure([])
    first = departing[0]
    wrong = [tensor.name for tensor in layers[first] if not tensor.passed]
    right = [tensor.name for tensor in layers[first] if tensor.passed]
    sentence = f"layer {first} is the first that departs, by {listed(wrong, MAX_NAMES)}"
    if right:
        verb = "agrees" if len(right) == 1 else "agree"
        sentence = f"{sentence}; {listed(right, MAX_NAMES)} {verb}"
    if compare is None:
        return Departure([sentence])
    reasons = _rotations_explained(a, b, wrong, right, compare)
    return Departure([sentence, *reasons], is_explained=bool(reasons))


def _by_layer(tensors: Sequence[Comparison]) -> dict[int, list[Comparison]]:
    """Return the tensors of each layer, by its number, in order."""
    layers: dict[int, list[Comparison]] = {}
    for tensor in tensors:
        number = layer_number(tensor.name)
        if number is not None:
            layers.setdefault(number, []).append(tensor)
    return dict(sorted(layers.items()))


def _passed(layer: Sequence[Comparison]) -> list[bool]:
    return [tensor.passed for tensor in layer]


def _has_both_sides(tensors: Sequence[Comparison]) -> bool:
    """Return True if names tell tensors before a rotation from those after it."""
    for before, after in SIDES:
        has_before = any(before in tensor.name for tensor in tensors)
        has_after = any(after in tensor.name for tensor in tensors)
        if has_before and has_after:
            return True
    return False


def _rotations_explained(
    a: Dump, b: Dump, wrong: Sequence[str], right: Sequence[str], compare: Compare
) -> list[str]:
    """Return a sentence for each reason for which tensors of a layer are rotated differently."""
    names: dict[object, list[str]] = {}
    sentences: dict[object, str] = {}
    for after in wrong:
        for side_before, side_after in SIDES:
            before = after.replace(side_after, side_before)
            if side_after not in after or before not in right:
                continue
            difference = _rotation_difference(a, b, before, after, compare)
            if difference is None:
                continue
            reason = _reason(difference)
            names.setdefault(reason, []).append(after)
            sentences.setdefault(reason, difference.diagnosis[0])
    return [
        f"the rotation of {listed(names[reason], MAX_NAMES)}, as tables: {sentences[reason]}"
        for reason in names
    ]


def _reason(difference: Explained) -> object:
    """Return what makes two differences the same: their mistakes, or else their sentences."""
    if difference.explanations:
        explanation = difference.explanations[0]
        return (explanation.tensors, explanation.mistakes)
    return difference.diagnosis[0]


def _rotation_difference(
    a: Dump, b: Dump, before: str, after: str, compare: Compare
) -> Explained | None:
    """Compare the tables by which two runs rotate a tensor; None if they do not rotate it, or alike."""
    for layout in LAYOUTS:  # A single row fits either.
        table_a = rotation_tables(a[before], a[after], layout)
        table_b = rotation_tables(b[before], b[after], layout)
        if table_a is None or table_b is None:
            continue
        difference = compare(table_a, table_b, atol=TABLE_ATOL)
        if difference.diagnosis:
            return difference
    return None


def rotation_tables(before: Array, after: Array, layout: str) -> dict[str, Array] | None:
    """Return the tables by which a run rotates queries or keys; None if it does not, in this layout."""
    if before.ndim < 2 or before.shape != after.shape or before.shape[-1] % 2 or not before.size:
        return None
    for side in (before, after):
        if side.dtype.kind == "c" or not np.isfinite(widened(side)).all():
            return None
    layouts = (layout, layout)
    table, residual = rotation.quotient(widened(before), widened(after), slice(None), layouts)
    is_rotation = residual <= MAX_RESIDUAL  # False for NaN
    if not is_rotation:
        return None
    return {"cos": table.real.astype("f4"), "sin": table.imag.astype("f4")}
