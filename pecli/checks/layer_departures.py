"""The first layer in which the dumps of two runs differ, and what explains the rotation there.

The quotient of queries or keys `after` and `before` (`post` and `pre`) a rotation is its table, compared as tables are.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from pecli.compare.comparison import Comparison
from pecli.compare.forms import DOUBLED_LAYOUTS
from pecli.engine.arrays import Array
from pecli.errors import listed
from pecli.explain.rotated_heads import ConvertedHeads, RotaryChannels, RotatedHeads
from pecli.files.tensor_roles import layer_number

SIDES = (("before", "after"), ("pre", "post"))
"""Words in names that distinguish tensors before a rotation from those after it."""
MAX_RESIDUAL = 1e-2  #: share of the values that a quotient may leave if all heads are rotated alike
TABLE_ATOL = 1e-4  #: tolerance for tables that were computed from rotated queries
MAX_TENSORS_NAMED = 4  #: tensors of a layer that a line names

Dump = Mapping[str, Array]


class Explained(Protocol):
    """A difference of two dumps, as `diff` returns it."""

    @property
    def diagnosis(self) -> tuple[str, ...]: ...


class Compare(Protocol):
    """Compares two dumps, as `diff` does."""

    def __call__(self, a: Dump, b: Dump, *, atol: float) -> Explained: ...


class LayerDeparture(NamedTuple):
    """Sentences on the first layer that departs; none if the files are not dumps of runs."""

    sentences: list[str]
    is_explained: bool = False  #: True if a sentence states how the rotation differs


def describe_first_departing_layer(
    a: Dump, b: Dump, tensors: Sequence[Comparison], compare: Compare | None
) -> LayerDeparture:
    """Return the first layer in which two runs of a model differ, and what explains the rotation there.

    Files are dumps of runs if they have several layers, and queries or keys from before and after
    the rotation. Later layers differ in any case, since they compute with the results of the first
    that differs: only that one shows the mistake.

    Args:
        a: The tensors of one run.
        b: The tensors of the other.
        tensors: Their comparisons.
        compare: Compares the tables of two rotations; None if no reasons are searched for.
    """
    layers = _group_by_layer(tensors)
    are_dumps_of_runs = len(layers) > 1 and _has_both_sides(tensors)
    if not are_dumps_of_runs:
        return LayerDeparture([])
    first_layer = _find_first_departing(layers)
    if first_layer is None:  # All layers agree.
        return LayerDeparture([])
    if compare is None:
        return LayerDeparture([first_layer.sentence])
    reasons = [*_explain_rotations(a, b, first_layer, compare)]
    return LayerDeparture([first_layer.sentence, *reasons], is_explained=bool(reasons))


class _Layer(NamedTuple):
    """The names of the tensors of a layer that differ, and of those that agree."""

    number: int
    wrong: list[str]
    right: list[str]

    @property
    def sentence(self) -> str:
        sentence = f"layer {self.number} is the first that departs, by {listed(self.wrong, MAX_TENSORS_NAMED)}"
        if not self.right:
            return sentence
        verb = "agrees" if len(self.right) == 1 else "agree"
        return f"{sentence}; {listed(self.right, MAX_TENSORS_NAMED)} {verb}"


def _find_first_departing(layers: Mapping[int, Sequence[Comparison]]) -> _Layer | None:
    """Return the first layer with a tensor that differs; None if all tensors agree.

    Args:
        layers: The comparisons of each layer, by its number, in order.
    """
    for number, tensors in layers.items():
        layer = _Layer(number=number, wrong=[], right=[])
        for tensor in tensors:
            names_alike = layer.right if tensor.passed else layer.wrong
            names_alike.append(tensor.name)
        if layer.wrong:
            return layer
    return None


def _group_by_layer(tensors: Sequence[Comparison]) -> dict[int, list[Comparison]]:
    """Return the tensors of each layer, by its number, in order."""
    layers: dict[int, list[Comparison]] = {}
    for tensor in tensors:
        number = layer_number(tensor.name)
        if number is not None:
            layers.setdefault(number, []).append(tensor)
    return dict(sorted(layers.items()))


def _has_both_sides(tensors: Sequence[Comparison]) -> bool:
    """Return True if names distinguish tensors before a rotation from those after it.

    `layers.0.q_before` with `layers.0.q_after` do, and so do `pre` and `post`.
    """
    names = "\n".join(tensor.name for tensor in tensors)
    return any(before in names and after in names for before, after in SIDES)


def _explain_rotations(a: Dump, b: Dump, layer: _Layer, compare: Compare) -> Iterator[str]:
    """Yield a sentence for each tensor of a layer that two runs rotate differently.

    Args:
        a: The tensors of one run.
        b: The tensors of the other.
        layer: The layer, with the tensors of it that differ and those that agree.
        compare: Compares two sets of tables.
    """
    for before, after in _find_rotated_pairs(layer.wrong, layer.right):
        statements = _compare_rotations(a, b, before, after, compare)
        if statements:
            yield f"the rotation of {after}, as tables: {'; '.join(statements)}"


def _find_rotated_pairs(wrong: Sequence[str], right: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the names of tensors before and after a rotation, of which only the latter differ.

    Then the rotation is what makes them differ.

    >>> [*_find_rotated_pairs(["layers.0.q_after", "layers.0.out"], ["layers.0.q_before"])]
    [('layers.0.q_before', 'layers.0.q_after')]
    """
    for after in wrong:
        for word_before, word_after in SIDES:
            before = after.replace(word_after, word_before)
            if before in right:
                yield before, after


def _compare_rotations(
    a: Dump, b: Dump, before: str, after: str, compare: Compare
) -> Sequence[str]:
    """Return how the cosines and sines differ by which two runs rotated the same queries or keys.

    They are computed back from the tensors before and after the rotation, so that a wrong base or
    scaling can be found without a table in the dump.

    Args:
        a: The tensors of one run.
        b: The tensors of the other.
        before: The name of the queries or keys before the rotation, in both runs.
        after: Their name after it.
        compare: Compares two sets of tables.

    Returns:
        Statements on the tables; none if the runs do not rotate the tensor, or rotate it alike.
    """
    # If several layouts of pairs are possible, the first that shows a difference is the one meant.
    for tables_a, tables_b in _compute_tables_of_runs(a, b, before, after):
        difference = compare(tables_a, tables_b, atol=TABLE_ATOL)
        if difference.diagnosis:
            return difference.diagnosis
    return ()


def _compute_tables_of_runs(
    a: Dump, b: Dump, before: str, after: str
) -> Iterator[tuple[dict[str, Array], dict[str, Array]]]:
    """Yield the cosines and sines of two runs, for each layout of pairs that both may have used.

    A dump does not state which channels make a pair: 0 and 1 (`interleaved`), or 0 and 64 of 128
    (`halves`). Usually the values are a rotation in one layout only. Those of a single vector are one
    in both, as any pair can be turned and stretched into any other.

    Args:
        a: The tensors of one run.
        b: The tensors of the other.
        before: The name of queries or keys before the rotation, in both runs.
        after: Their name after it.
    """
    for pair_layout in DOUBLED_LAYOUTS:
        tables_a = compute_rotation_tables(a[before], a[after], pair_layout)
        tables_b = compute_rotation_tables(b[before], b[after], pair_layout)
        if tables_a is not None and tables_b is not None:
            yield tables_a, tables_b


def compute_rotation_tables(before: Array, after: Array, layout: str) -> dict[str, Array] | None:
    """Return the cosines and sines by which a run rotated queries or keys.

    A pair of channels (a, b) is the complex number a + ib, and a rotation by θ multiplies it by the
    phasor cos θ + i·sin θ. So the phasor is the quotient of the pairs after and before: (3, 4) that
    became (−4, 3) was multiplied by i, which is a turn by 90°.

    Args:
        before: Queries or keys (…, positions, channels) before the rotation.
        after: The same after it.
        layout: Which channels make a pair, `halves` or `interleaved`.

    Returns:
        The tables, or None if the run does not rotate the tensor, or not in this layout.
    """
    if not _may_be_rotated(before, after):
        return None
    *_, positions, width = before.shape
    rows = np.arange(positions)
    channels = RotaryChannels(first=0, pairs=width // 2, layout_before=layout, layout_after=layout)
    heads_before = RotatedHeads(_convert_heads(before), channels)
    matrix_after = _convert_heads(after).matrix(rows)
    with np.errstate(invalid="ignore", over="ignore"):
        phasors = heads_before.phasors(matrix_after, rows)  # (positions, pairs), by least squares
        if phasors is None:
            return None
        residual = matrix_after - heads_before.matrix_of(phasors, rows)
        # Values that are not finite have no finite norm, or leave a residual that is not a number.
        limit = MAX_RESIDUAL * np.linalg.norm(matrix_after)
        is_rotation = np.linalg.norm(residual) <= limit < math.inf
    if not is_rotation:
        return None
    return {"cos": phasors.real.astype("f4"), "sin": phasors.imag.astype("f4")}


def _convert_heads(tensor: Array) -> ConvertedHeads:
    """Return a tensor (…, positions, channels) as (1, heads, positions, channels), in one batch."""
    return ConvertedHeads(tensor.reshape((1, -1, *tensor.shape[-2:])))


def _may_be_rotated(before: Array, after: Array) -> bool:
    """Return True if two arrays are real numbers of one shape with an even last axis."""
    is_complex = "c" in (before.dtype.kind, after.dtype.kind)
    have_same_axes = before.ndim > 1 and before.shape == after.shape
    if is_complex or not have_same_axes:
        return False
    return before.size > 0 and before.shape[-1] % 2 == 0
