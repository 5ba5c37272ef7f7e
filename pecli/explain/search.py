"""Reasons for tensors that differ from those of a scheme: the best explanation of each group of tensors."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from pecli.compare.forms import from_integers
from pecli.engine.arrays import Array, dtype_name, numpy_dtype
from pecli.engine.edits import Bits, Dtype, Edit, Incomplete, Parameter, Recipe, Runtime
from pecli.engine.schemes.scheme import Scheme, named_tensors
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.errors import ParameterError
from pecli.explain.array_transforms import MAX_COMPARED, explain_pair
from pecli.explain.explanation import Explanation, merged
from pecli.explain.first_choice import explain_by_first
from pecli.explain.hypotheses import CHEAP, MAX_MISTAKES
from pecli.explain.storage import SIGNIFICANT_BITS, half_ulp
from pecli.explain.tables import explain_tables
from pecli.explain.time_limit import limited
from pecli.explain.unfinished import completions

BITS = {
    "bfloat16": ("uint16", "int16"),
    "float16": ("uint16", "int16"),
    "float32": ("uint32", "int32"),
    "swapped": ("float32", "float64"),
}
"""Dtypes that a file may claim for the bits of other numbers; «swapped» are bytes in the other order."""


Tensors = Mapping[str, Array]


class WayToRead(NamedTuple):
    """Numbers that the arrays of a file may stand for, and the edits that name this way of reading.

    The uint16 numbers of a dump may be the bits of bfloat16: `tensors` then holds the bfloat16 numbers, and
    `edits` says that the file has their bits.
    """

    tensors: Tensors
    edits: tuple[Edit, ...] = ()
    most_mistakes: int = MAX_MISTAKES
    """Mistakes that are looked for beside it: several would complete a table that never was incomplete."""
    tolerance: float = 0.0


def explain(scheme: Scheme, tensors: Tensors, atol: float = 0.0) -> list[Explanation]:
    """Return why tensors differ from those that a scheme makes: «base is 10000 (the spec says 500000)».

    Cosines and sines are explained together if one mistake explains both, other tensors one by one. A
    model with several types of layers has a scheme of several parts, each of which is explained apart.

    Args:
        scheme: What should have made the tensors.
        tensors: Arrays by the scheme's names for them.
        atol: The tolerance of the check, granted if nothing explains the tensors more closely.
    """
    explanations: list[Explanation] = []
    for part, scheme_of_part in scheme.by_layer_type():
        # The tensor `cos` of a part is «sliding_attention.cos»; a single scheme has no name.
        prefix = f"{part}." if part else ""
        for explanation in _explain_part(scheme_of_part, _tensors_of_part(prefix, tensors), atol):
            explanations.append(explanation.renamed(prefix + name for name in explanation.tensors))
    return explanations


def _tensors_of_part(prefix: str, tensors: Tensors) -> Tensors:
    """Return the real tensors whose names begin with a prefix, under the rest of their names.

    Empty tensors, and those of complex numbers, are left out.
    """
    found = {}
    for name, array in tensors.items():
        is_real = array.size > 0 and array.dtype.kind != "c"
        if is_real and name.startswith(prefix):
            found[name.removeprefix(prefix)] = array
    return found


def _explain_part(scheme: Scheme, tensors: Tensors, atol: float) -> list[Explanation]:
    """Return the best explanation of each tensor, or of those that belong together, unless they are right."""
    explanations: list[Explanation] = []
    with limited():
        for explanation in _explanations(scheme, tensors, atol):
            if _names_a_difference(explanation, scheme):
                explanations.append(explanation)
    return merged(explanations)


def _explanations(scheme: Scheme, tensors: Tensors, atol: float) -> Iterator[Explanation]:
    """Yield the best explanation of `cos` and `sin` together, and of each other tensor.

    If `cos` and `sin` differ in shape, they are explained one by one as well.
    """
    are_both_there = {"cos", "sin"} <= tensors.keys()
    if are_both_there and tensors["cos"].shape == tensors["sin"].shape:
        cos_and_sin = {"cos": tensors["cos"], "sin": tensors["sin"]}
        yield from _explain_cos_and_sin(scheme, cos_and_sin, atol)
        tensors = {name: array for name, array in tensors.items() if name not in cos_and_sin}
    yield from _explain_each(scheme, tensors, atol, MAX_MISTAKES)


def _explain_each(
    scheme: Scheme, tensors: Tensors, atol: float, most_mistakes: int
) -> Iterator[Explanation]:
    """Yield the best explanation of each tensor on its own; nothing for one that has none.

    Args:
        scheme: What should have made the tensors.
        tensors: Arrays by the scheme's names for them.
        atol: The tolerance of the check.
        most_mistakes: The number of mistakes that are supposed at once. With 0, only tensors that
            are right are explained.
    """
    for name, array in tensors.items():
        yield from (
            _shortest_explanation(scheme, {name: array}, atol, most_mistakes)
            or _explain_as_arrays(scheme, name, array, atol)
        )


def _explain_as_arrays(
    scheme: Scheme, name: str, array: Array, atol: float
) -> Sequence[Explanation]:
    """Return how a bias, or a table of integers, was transposed, negated, scaled or reordered.

    Integers, such as buckets of distances, have no computation in which mistakes could be planted, nor
    have biases that a learned table has for them. So the two tables are compared as arrays. Nothing is
    returned for other tensors, and for those that are too large or have another shape than expected.
    """
    table = named_tensors(scheme).get(name)
    if table is None or table.shape != array.shape:
        return []
    is_integer = table.dtype not in SIGNIFICANT_BITS
    if not is_integer and name != "bias":
        return []
    if array.size > MAX_COMPARED:  # Its table would be made for nothing.
        return []
    return explain_pair(name, table.array(), array, atol)


def _explain_cos_and_sin(scheme: Scheme, waves: Tensors, atol: float) -> Sequence[Explanation]:
    """Return the explanations of `cos` and `sin`: one for both, or else one for each.

    If one of the two is right, a cheap mistake, such as «sin is negated», is first looked for in both
    together: it leaves the cosines right. Any other mistake is one of the wrong table only. If both are
    wrong, another base, say, is wrong in both together. If nothing explains both, each has one mistake
    of its own: more are not looked for, since several would explain nearly any table.

    Args:
        scheme: What should have made the tables.
        waves: The tables `cos` and `sin`, of one shape.
        atol: The tolerance of the check.
    """
    # An explanation without a mistake is found only for a table that is right.
    is_one_right = any(_explain_each(scheme, waves, atol, most_mistakes=0))
    if not is_one_right:
        in_both = _shortest_explanation(scheme, waves, atol, MAX_MISTAKES)
        return in_both or [*_explain_each(scheme, waves, atol, most_mistakes=1)]
    in_both = _shortest_explanation(scheme, waves, atol, most_mistakes=1)
    cheap = [explanation for explanation in in_both if explanation.cost <= CHEAP]
    return cheap or [*_explain_each(scheme, waves, atol, MAX_MISTAKES)]


def _shortest_explanation(
    scheme: Scheme, tensors: Tensors, atol: float, most_mistakes: int
) -> list[Explanation]:
    """Return the shortest explanation of why tensors differ from a scheme's; an empty list if none is found.

    An explanation is a list of differences, such as «base is 10000». The arrays of a file may stand for
    other numbers: uint16 may hold the bits of bfloat16. So several ways to read them are tried, until one
    leads to an explanation.

    Args:
        scheme: What should have made the tensors.
        tensors: Arrays by the scheme's names for them.
        atol: The tolerance of the check.
        most_mistakes: The number of mistakes that are supposed at once.
    """
    # A sinusoidal table may be given where a rotary one is expected. This is tried first, since some
    # mistakes together may turn one into the other.
    sinusoidal = _explain_sinusoidal_for_rotary(scheme, tensors, atol)
    if sinusoidal:
        return sinusoidal
    explain_numbers = partial(
        _explain_numbers, scheme=scheme, atol=atol, most_mistakes=most_mistakes
    )
    shortest_first = explain_by_first(_ways_to_read(tensors), explain_numbers)
    # If the scheme has the dtype bfloat16, «stored in bfloat16» is no difference from it.
    differences_first = sorted(
        shortest_first, key=lambda explanation: not _names_a_difference(explanation, scheme)
    )
    return [_with_names_in_file(explanation, tensors) for explanation in differences_first[:1]]


def _with_names_in_file(explanation: Explanation, tensors: Tensors) -> Explanation:
    """Return an explanation with the names that its tensors have in a file.

    Cosines and sines that are stacked in one tensor, `cos_sin`, are explained as two, `cos` and `sin`.
    """
    return explanation.renamed(tensors) if "cos_sin" in tensors else explanation


def _explain_numbers(
    way_to_read: WayToRead, scheme: Scheme, atol: float, most_mistakes: int
) -> list[Explanation]:
    """Return why numbers differ from the tensors of a scheme, the shortest explanation first.

    They are the numbers for which the arrays of a file are taken. If uint16 is read as the bits of
    bfloat16, they are the bfloat16 numbers, and every explanation begins with «the bits of bfloat16».

    Args:
        way_to_read: The numbers, and the edits that name this way to read the arrays.
        scheme: What should have made the numbers.
        atol: The tolerance of the check; a way to read may have a larger one.
        most_mistakes: The most mistakes that one explanation may have; a way to read may allow fewer.
    """
    return explain_tables(
        scheme,
        _with_cos_and_sin_apart(way_to_read.tensors),
        tolerance=max(atol, way_to_read.tolerance),
        known_edits=way_to_read.edits,
        most_mistakes=min(most_mistakes, way_to_read.most_mistakes),
    )


def _explain_sinusoidal_for_rotary(
    scheme: Scheme, tensors: Tensors, atol: float
) -> list[Explanation]:
    """Return the explanation that a table is sinusoidal although a rotary one was expected.

    Both may have cosines and sines side by side in one matrix, so that a user may give the wrong file.
    To report that is more useful than the edits that would turn one table into the other. Nothing is
    returned unless a rotary matrix «cos_sin» is expected, and the matrix is sinusoidal.
    """
    table = tensors.get("cos_sin")
    if table is None or table.ndim != 2 or scheme.applied_as != "rotation":
        return []
    rows, columns = table.shape
    try:
        sinusoidal = Sinusoidal(seq_len=rows, dim=columns, dtype=scheme.dtype)
    except ParameterError:  # A scheme refuses too many columns, as logits (512, 262144) have.
        return []
    is_sinusoidal = Parameter("scheme", scheme.name, "sinusoidal")
    explanations = explain_tables(
        sinusoidal, {"pe": table}, atol, (is_sinusoidal,), most_mistakes=1
    )
    return [explanation.renamed(["cos_sin"]) for explanation in explanations[:1]]


def _ways_to_read(tensors: Tensors) -> Iterator[WayToRead]:
    """Yield the numbers that tensors may stand for, the most special way first.

    1. They may be the bits of other numbers: a dump of uint16 may hold bfloat16.
    2. Tables may be unfinished: half of the columns are zeros, or they hold angles instead of cosines.
    3. Integers may have a scale. All other numbers are taken as they are.
    """
    yield from _from_bits(tensors)
    for missing, tables in completions(tensors):
        yield WayToRead(tables, (Incomplete(missing),), most_mistakes=1)
    yield WayToRead(from_integers(tensors) or tensors)


def _from_bits(tensors: Tensors) -> Iterator[WayToRead]:
    """Yield the numbers whose bits a file may hold under another dtype.

    The uint16 number 16256 has the bits of 1.0 in bfloat16 (0x3F80); a big-endian file that is read as
    a little-endian one holds float32 numbers with their bytes swapped.
    """
    for name, claimed_dtypes in BITS.items():
        if any(dtype_name(array.dtype) not in claimed_dtypes for array in tensors.values()):
            continue
        values = {tensor: _read_bits(array, name) for tensor, array in tensors.items()}
        # Any numbers can be taken for the bits of others, so these have to be right.
        yield WayToRead(values, (Bits(name),), most_mistakes=0, tolerance=_last_place(values))


def _read_bits(array: Array, name: str) -> Array:
    """Return the numbers whose bits an array holds.

    Args:
        array: Numbers of any dtype.
        name: The dtype of the returned numbers, or «swapped» for the array's own with its bytes in
            the other order.
    """
    if name == "swapped":
        return array.view(array.dtype.newbyteorder())
    return np.ascontiguousarray(array).view(numpy_dtype(name))


def _last_place(tensors: Tensors) -> float:
    """Return the last place of 1 in the dtype of the first tensor: 2^−7 in bfloat16.

    Bits that were cut off instead of rounded are off by as much.
    """
    first, *_ = tensors.values()
    (half_last_place,) = half_ulp(np.ones(1), dtype_name(first.dtype))
    return float(2 * half_last_place)


def _with_cos_and_sin_apart(tensors: Tensors) -> Tensors:
    """Return tensors with cosines and sines as two of them, if they are stacked in one, (2, rows, columns)."""
    stacked = tensors.get("cos_sin")
    if stacked is not None and stacked.ndim == 3 and len(stacked) == 2:
        return {"cos": stacked[0], "sin": stacked[1]}
    return tensors


def _names_a_difference(explanation: Explanation, scheme: Scheme) -> bool:
    """Return True unless the tensors are right, or only computed and rounded as those of the scheme are.

    «Stored in bfloat16» is no difference if the scheme has this dtype.
    """
    specified_recipe = Recipe(scheme.value_of("recipe", "exact"))
    specified = (Dtype(scheme.dtype), specified_recipe)
    differences = [edit for edit in explanation.edits if edit not in specified]
    if specified_recipe not in explanation.edits:
        return bool(differences)
    # The tensors were computed by the scheme's recipe. A runtime that has this recipe as well is no
    # difference, unless there are causes for which it reads the parameters differently.
    return any(not isinstance(edit, Runtime) or edit.causes for edit in differences)
