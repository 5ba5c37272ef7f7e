"""Identification of ALiBi's biases: slopes are measured, a rule supposed, and the bias made again."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from pecli.engine.arrays import Array, Floats, dtype_name, widened
from pecli.engine.edits import Edit, Repeated, Transposed
from pecli.engine.schemes.alibi import Alibi
from pecli.errors import ParameterError
from pecli.explain.bias_computation import BiasComputation, multiples_of
from pecli.explain.catalogue.biases import (
    BiasMistake,
    NegatedBias,
    OtherMask,
    RoundedSlopes,
    Unmasked,
    near_max_bias,
)
from pecli.explain.explanation import Explanation
from pecli.explain.hypotheses import accepted, explain_cases
from pecli.explain.hypothesis import Case
from pecli.explain.numbers import digits
from pecli.explain.observations import Observations
from pecli.explain.storage import SIGNIFICANT_BITS
from pecli.explain.tables import observed_dtype
from pecli.explain.time_limit import check_time

FORMS_OF_MATRICES = ("causal", "symmetric")
FORMS_OF_ROWS = ("key", "key-last")
"""Forms of a bias with one row per query, and with one row for all queries."""

RULES = ("paper", "naive")

MIN_HEADS = 3
"""Heads of a bias: two slopes follow some rule by chance."""

MAX_HEADS = 512
"""Heads of a bias: slopes of more differ by less than they are rounded by."""

HEADS_AT_ONCE = 16
"""Heads that are looked at together: copies of 65,536 keys take 8 MB each."""

MAX_DIGITS = 3
"""Digits of a max_bias that somebody wrote."""

MAX_LEFT = 0.05
"""Share of the largest bias that a form may leave: bfloat16 rounds to a tenth of this."""

FAR = 1e4
"""Biases beyond this are masks: no slope times a distance in use is as large."""


class HeadBias(NamedTuple):
    """A bias of all heads, (heads, queries, keys), and how it lies in the file."""

    values: Array
    arranged: tuple[Edit, ...] = ()


def recognise_bias(tensors: Mapping[str, Array]) -> Iterator[Explanation]:
    """Yield the ALiBi scheme of an attention bias (heads, queries, keys), or of a vector of slopes.

    Nothing is known of the tensor: every axis that may be the heads is tried, then every form of
    the distances, then every rule for the slopes. The first scheme that makes the numbers is
    yielded.
    """
    (array,) = tensors.values()
    if array.dtype.kind == "c":
        return
    shape = [size for size in array.shape if size != 1]
    if len(shape) == 1:
        yield from _first_by_rule("slopes", HeadBias(array.reshape(-1, 1, 1)), "symmetric")
        return
    for bias in _as_heads(array.reshape(shape)):
        if not MIN_HEADS <= len(bias.values) <= MAX_HEADS:
            continue  # A table of 65,536 rows is not a bias, and would be copied ten times below.
        for form in _possible_forms(bias.values):
            check_time()
            explanations = [*_first_by_rule("bias", bias, form)]
            if explanations:
                yield from explanations
                return


def _as_heads(array: Array) -> Iterator[HeadBias]:
    """Yield an array as a bias (heads, queries, keys), for every axis that may be the heads.

    A matrix is (heads, keys) for one query, or the reverse. Of four axes, the first two are batch
    and heads.
    """
    match array.ndim:
        case 2:
            yield _without_copies(HeadBias(array[:, None]))
            yield HeadBias(array.T[:, None], (Transposed((1, 0)),))
        case 3:
            yield from _with_axes_as_heads(array)
        case 4:
            yield from _with_axes_as_heads(array.reshape(-1, *array.shape[2:]))


def _with_axes_as_heads(array: Array) -> Iterator[HeadBias]:
    """Yield an array of three axes as a bias (heads, queries, keys).

    A query sees at least itself, so that there are at least as many keys as queries. Axes in another
    order are supposed only if there are as many queries as keys, as there are while a prompt is read.

    The edit is the inverse of the transposition here: it says how (heads, queries, keys) came to lie
    as in the file.
    """
    first, second, third = array.shape
    if second <= third:
        yield _without_copies(HeadBias(array))
    if first == second:  # (queries, keys, heads)
        yield HeadBias(array.transpose(2, 0, 1), (Transposed((1, 2, 0)),))
    if second == third:  # (heads, keys, queries); this exchange is its own inverse.
        yield HeadBias(array.transpose(0, 2, 1), (Transposed((0, 2, 1)),))


def _without_copies(bias: HeadBias) -> HeadBias:
    """Return the heads once if they repeat, as in BLOOM's (batch · heads, 1, keys).

    24 heads of which the 8 first are there three times become 8 heads, with the edit «repeated».
    """
    values = bias.values
    for heads in range(MIN_HEADS, len(values) // 2 + 1):
        if len(values) % heads:
            continue
        first_copy = values[:heads]
        # Slopes differ from head to head: most wrong periods fail in the head after the first copy.
        if not np.array_equal(values[heads], first_copy[0]):
            continue
        copies = values.reshape(-1, *first_copy.shape)
        if all(np.array_equal(first_copy, copy) for copy in copies):
            return HeadBias(first_copy, (Repeated(axis=0, times=len(copies)), *bias.arranged))
    return bias


def _possible_forms(values: Array) -> Iterator[str]:
    """Yield the forms of ALiBi, such as causal, that the last query of every head agrees with.

    In its row each bias is a slope times a distance. So the best slope is fitted to each head, and
    a form is possible if it leaves at most MAX_LEFT of the largest bias.

    Args:
        values: The bias, (heads, queries, keys).
    """
    heads, queries, keys = values.shape
    starts = range(0, heads, HEADS_AT_ONCE)
    last_queries = [values[start : start + HEADS_AT_ONCE, -1] for start in starts]
    largest = max(_largest(_biases(block)) for block in last_queries)
    if keys < 2 or not largest:
        return
    forms = FORMS_OF_MATRICES if queries > 1 else FORMS_OF_ROWS
    for form in forms:
        distances = multiples_of(form, 1, keys).values[0]
        if all(_left(_biases(block), distances) <= MAX_LEFT * largest for block in last_queries):
            yield form


def _left(biases: Floats, multiples: Floats) -> float:
    """Return the largest bias that the best slopes of some heads leave."""
    slopes = _slopes(biases, multiples)
    return _largest(biases - np.multiply.outer(slopes, multiples))


def _largest(values: Floats) -> float:
    return float(np.nanmax(np.abs(values), initial=0.0))


def _biases(values: Array) -> Floats:
    """Return the biases of one query as float64, with NaN for masks."""
    numbers = widened(values)
    return np.where(np.abs(numbers) < FAR, numbers, np.nan)


def _slopes(last: Floats, multiples: Floats) -> Floats:
    """Return the slope of each head by least squares over the keys of one query."""
    known = np.where(np.isnan(last), 0.0, multiples)
    power = (known**2).sum(axis=1)
    return np.asarray(np.nansum(known * last, axis=1) / np.maximum(power, 1e-300))


def _first_by_rule(name: str, bias: HeadBias, form: str) -> Iterator[Explanation]:
    """Yield the explanation by the first rule and max_bias that make a bias."""
    for rule in RULES:
        for scheme in _schemes_of_rule(rule, name, bias.values, form):
            for explanation in _explained(name, bias, scheme):
                yield explanation.made_by(scheme)
                return


def _schemes_of_rule(rule: str, name: str, values: Array, form: str) -> Iterator[Alibi]:
    """Yield ALiBi with the usual max_bias of 8, and with the one that follows from measured slopes.

    The slopes of 8 heads are 1/2, 1/4, … 1/256 = 2^−8. If the last one is 2^−16, max_bias is 16.

    Args:
        rule: The rule for numbers of heads that are no powers of two: paper or naive.
        name: The kind of tensor: bias or slopes.
        values: The tensor, (heads, queries, keys).
        form: The form of the distances, such as causal; slopes have none.
    """
    heads = len(values)
    if not MIN_HEADS <= heads <= MAX_HEADS:
        return
    try:
        usual = Alibi(heads, rule=rule, **_options_of(name, values, form))
    except ParameterError:
        return
    yield usual
    for max_bias in near_max_bias(np.abs(_measured_slopes(name, values, form)), rule):
        is_plain = max_bias >= 1 and digits(max_bias) <= MAX_DIGITS
        if is_plain and max_bias != usual.max_bias:
            yield replace(usual, max_bias=max_bias)


def _options_of(name: str, values: Array, form: str) -> dict[str, Any]:
    """Return the parameters of ALiBi that follow from the kind, the shape and the dtype of a tensor."""
    _, _, keys = values.shape
    options: dict[str, Any] = {"slopes": True}
    if name == "bias":
        options = {"seq_len": keys, "form": form}
    dtype = dtype_name(values.dtype)
    if dtype in SIGNIFICANT_BITS:
        options["dtype"] = dtype
    return options


def _measured_slopes(name: str, values: Array, form: str) -> Floats:
    """Return the slope of each head: of a bias, from the row of its last query."""
    _, _, keys = values.shape
    distances = np.ones(1)
    if name == "bias":
        distances = multiples_of(form, queries=1, keys=keys).values[0]
    return _slopes(_biases(values[:, -1]), distances)


def _explained(name: str, bias: HeadBias, scheme: Alibi) -> Iterator[Explanation]:
    """Yield explanations of a bias by a scheme: as it is, then with known mistakes in it.

    Those are the wrong sign, another mask or none, and slopes that were rounded to 16 bits.

    Args:
        name: The kind of tensor: bias or slopes.
        bias: The tensor, (heads, queries, keys), and how it lies in the file.
        scheme: The scheme that is supposed to have made it.
    """
    computation = BiasComputation.of(scheme, name)
    matrix = bias.values.reshape(-1, bias.values.shape[-1])  # (heads · queries, keys)
    observations = Observations({name: matrix}, observed_dtype({name: matrix}))
    if computation.rows != len(matrix):
        return  # (6, 63, 64) lacks a query, and (6, 64, 64) is expected of 64 keys.
    case = Case.of(scheme, computation, observations, bias.arranged)
    yield from explain_cases([case], 0.0, most_mistakes=0)
    if name == "bias":
        yield from accepted(_cases_with_mistakes(case, bias.values[0], computation))


def _cases_with_mistakes(
    case: Case, first_head: Array, computation: BiasComputation
) -> Iterator[Case]:
    """Yield a bias with each mistake that it may have: in the mask, the sign, both, or the slopes."""
    masks = [*_masks(widened(first_head), computation)]
    yield from map(case.supposing, masks)
    negated = case.supposing(NegatedBias())
    yield negated
    yield from map(negated.supposing, masks)
    for dtype in ("bfloat16", "float16"):
        yield case.supposing(RoundedSlopes(dtype))


def _masks(values: Floats, computation: BiasComputation) -> Iterator[BiasMistake]:
    """Yield another number for the mask, other places of it, and a bias without one."""
    above = computation.masked
    if not above.any():
        return
    numbers = np.unique(values[above])
    if len(numbers) == 1:
        yield OtherMask(float(numbers[0]), above)
    yield Unmasked()
