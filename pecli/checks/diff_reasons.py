"""Why two files differ: another dtype, a transform, other parameters; of dumps of runs, the first layer that departs.

The quotient of queries or keys `after` and `before` (`post` and `pre`) a rotation is its table, compared as tables are.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

from pecli.compare.comparison import Comparison
from pecli.compare.target import PLURALS
from pecli.compare.tolerance import Tolerance
from pecli.engine.arrays import Array, widened
from pecli.engine.schemes.scheme import Scheme, holds_several
from pecli.errors import listed
from pecli.explain import array_transforms, rotation, search, sinusoid_readings, time_limit
from pecli.explain.edits import ColumnsWrong, Dtype, Explanation, Layout, Scaled, merged
from pecli.files.tensor_roles import LAYER, role_of

MAX_EXPLAINED = 16  #: tensors of one file whose differences are explained
MIN_ELEMENTS = 8  #: of a tensor whose scheme is searched for
MAX_NOISE_ULP = 8  #: units of the last place that no transform would leave
ALONE = {Layout("cos and sin", f"{function} alone"): function for function in PLURALS}
SIDES = (("before", "after"), ("pre", "post"))
MAX_RESIDUAL = 1e-2  #: of the values after, what the quotient of pairs may leave where all heads are rotated alike
TABLE_ATOL = 1e-4  #: within which tables that were computed from rotated queries are compared
MAX_NAMES = 4  #: tensors of a layer that a line names

Pair = tuple[str, Array, Array]  #: a name, and one table as A and as B have it
Dump = Mapping[str, Array]


def reasons(
    changed: Sequence[tuple[Comparison, Callable[[], list[Pair]]]],
    scheme: Scheme | None,
    tolerance: Tolerance,
) -> list[Explanation]:
    """What makes B of A: another dtype, a transform, other parameters of A's scheme; last places have no reason."""
    found: list[Explanation] = []
    pairs: list[Pair] = []
    for result, pairs_of in changed:
        units = result.max_ulp_error
        if (
            result.problem and result.mismatched == 0 and result.max_abs_error
        ):  # only rounded to another dtype
            rounded, largest = (Dtype(result.dtype),), result.max_abs_error
            found.append(Explanation(rounded, None, (result.name,), residual=largest))
        elif result.problem or units is None or units > MAX_NOISE_ULP:
            pairs += pairs_of()
    pairs = pairs[:MAX_EXPLAINED]
    with time_limit.time_limit():
        swapped = array_transforms.explain_swapped(
            {name: (one, other) for name, one, other in pairs}, tolerance.atol
        )
        found += swapped
        known = {name for each in swapped for name in each.tensors}
        unknown = []
        for pair in (pair for pair in pairs if pair[0] not in known):
            why = array_transforms.explain_pair(*pair, tolerance.atol)
            if why is None or any(isinstance(edit, (Scaled, ColumnsWrong)) for edit in why.edits):
                unknown.append((pair, why))
            else:
                found.append(why)
        better = _by_parameters([pair for pair, _ in unknown], scheme, tolerance)
    known = {name for each in better for name in each.tensors}
    return [
        *found,
        *better,
        *(why for pair, why in unknown if why is not None and pair[0] not in known),
    ]


def _by_parameters(
    pairs: Sequence[Pair], scheme: Scheme | None, tolerance: Tolerance
) -> list[Explanation]:
    """Other parameters of A's scheme; where A carries none, of what cosines with their sines, or one tensor, are."""
    large = {
        name: (one, other)
        for name, one, other in pairs
        if min(one.size, other.size) >= MIN_ELEMENTS
    }
    ours = {name: one for name, (one, _) in large.items()}
    found: list[Explanation] = []
    for group in sinusoid_readings.groups(ours) if scheme is None else [ours]:
        own, alone = _recognised(group) if scheme is None else (scheme, "")
        if own is None or holds_several(own) or not group:
            continue
        single, known = own.single_array().name, {table.name for table in own.tensors()}
        named = {
            next((key for key in (alone, name, role_of(name)) if key in known), single): name
            for name in group
        }
        why = search.explain(
            own, {key: large[name][1] for key, name in named.items()}, tolerance.atol
        )
        found += [replace(each, tensors=tuple(named[key] for key in each.tensors)) for each in why]
    return merged(found)


def _recognised(group: Mapping[str, Array]) -> tuple[Scheme | None, str]:
    """What makes tables that have no mistakes, and where they are cosines or sines alone, which."""
    for found in search.recognise(group):
        alone = [ALONE[edit] for edit in found.mistakes if edit in ALONE]
        if len(alone) == len(found.mistakes):
            return found.scheme, "".join(alone)
    return None, ""


def _layer(tensor: Comparison) -> int:
    """Its number, or −1 for a tensor of no layer."""
    number = LAYER.search(tensor.name)
    return int(number.group(1)) if number else -1


def first_departure(
    a: Dump, b: Dump, tensors: Sequence[Comparison], compare: Callable[..., Any] | None
) -> list[str]:
    """Which layer is the first that departs, if there are several, and what explains the rotation there."""
    layers = {number: [*of] for number, of in groupby(sorted(tensors, key=_layer), _layer)}
    departing = [
        number
        for number, of in layers.items()
        if number >= 0 and not all(each.passed for each in of)
    ]
    around = {side for pair in SIDES for side in pair if any(side in each.name for each in tensors)}
    if (
        len(layers.keys() - {-1}) < 2
        or not departing
        or not any({*pair} <= around for pair in SIDES)
    ):
        return []
    first = departing[0]
    wrong = [each.name for each in layers[first] if not each.passed]
    right = [each.name for each in layers[first] if each.passed]
    alike = f"; {listed(right, MAX_NAMES)} agree{'s' * (len(right) == 1)}" if right else ""
    lines = [f"layer {first} is the first that departs, by {listed(wrong, MAX_NAMES)}{alike}"]
    sides = [
        (name.replace(after, before), name)
        for name in wrong
        for before, after in SIDES
        if after in name
    ]
    by_reason: dict[str, tuple[str, list[str]]] = {}  # by what is said before the numbers
    for before, after in sides if compare else ():
        for layout in ("halves", "interleaved") if before in right else ():  # one row fits either
            tables = [_rotation(dump[before], dump[after], layout) for dump in (a, b)]
            if (
                compare
                and None not in tables
                and (why := compare(*tables, atol=TABLE_ATOL).diagnosis)
            ):
                by_reason.setdefault(why[0].partition(";")[0], (why[0], []))[1].append(after)
                break
    return lines + [
        f"the rotation of {listed(of, MAX_NAMES)}, as tables: {why}"
        for why, of in by_reason.values()
    ]


def _rotation(before: Array, after: Array, layout: str) -> dict[str, Array] | None:
    """The tables by which a run rotates queries or keys; None where it does not, in this layout."""
    if before.ndim < 2 or before.shape != after.shape or before.shape[-1] % 2 or not before.size:
        return None
    if not all(
        side.dtype.kind != "c" and np.isfinite(widened(side)).all() for side in (before, after)
    ):
        return None
    table, residual = rotation.quotient(
        widened(before), widened(after), slice(None), (layout, layout)
    )
    return (
        {"cos": table.real.astype("f4"), "sin": table.imag.astype("f4")}
        if residual <= MAX_RESIDUAL
        else None
    )
