"""Identification of ALiBi's biases: slopes are measured, a rule supposed, and the bias made again."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
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
from pecli.explain.computation import TINY
from pecli.explain.explanation import Explanation
from pecli.explain.first_choice import explain_by_first
from pecli.explain.hypotheses import accepted, explain_cases
from pecli.explain.hypothesis import Case
from pecli.explain.numbers import digits
from pecli.explain.observations import Observations
from pecli.explain.storage import SIGNIFICANT_BITS
from pecli.explain.tables import observed_dtype

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

MAX_WRITTEN_DIGITS = 3
"""Digits of a max_bias that somebody wrote, as in 12.5."""

MAX_MISS_OF_FORM = 0.05
"""Share of the largest bias by which a form may miss a bias: bfloat16 rounds to a tenth of this."""

FAR = 1e4
"""Biases beyond this are masks: no slope times a distance in use is as large."""


class HeadBias(NamedTuple):
    """A bias of all heads, (heads, queries, keys), or their slopes, (heads, 1, 1)."""

    values: Array
    shape_edits: tuple[Edit, ...] = ()
    """Edits that say how it lies in the file, such as transposed."""
    form: str = "symmetric"
    """The distances by which slopes are multiplied, such as causal; slopes alone have none."""

    @property
    def queries(self) -> int:
        return int(self.values.shape[1])

    @property
    def keys(self) -> int:
        return int(self.values.shape[2])

    @property
    def name(self) -> str:
        """The scheme's name for the tensor."""
        return "bias" if self.keys > 1 else "slopes"

    def measured_slopes(self) -> Floats:
        """Return the slope of each head: of a bias, from the row of its last query."""
        distances = np.ones(1)
        if self.name == "bias":
            distances = multiples_of(self.form, queries=1, keys=self.keys).values[0]
        last_query = self.values[:, -1]
        return _fit_slopes(_biases(last_query), distances)


def recognise_bias(tensors: Mapping[str, Array]) -> list[Explanation]:
    """Return the ALiBi scheme of an attention bias (heads, queries, keys), or of a vector of slopes.

    A bias is slope · distance, with a slope per head. Nothing is known of the tensor, so that all are
    tried in turn: every axis that may be the heads, every form of the distances (−2 −1 0 or 0 1 2,
    say), and every rule for the slopes. The first scheme that makes the numbers is the answer.
    """
    (array,) = tensors.values()
    if array.dtype.kind == "c":
        return []
    shape = [size for size in array.shape if size != 1]
    if len(shape) == 1:
        return _explain_by_rules(HeadBias(array.reshape(-1, 1, 1)))
    return explain_by_first(_with_forms(_as_heads(array.reshape(shape))), _explain_by_rules)


def _with_forms(biases: Iterable[HeadBias]) -> Iterator[HeadBias]:
    """Yield biases with each form of ALiBi that they may have, such as causal."""
    for bias in biases:
        if not MIN_HEADS <= len(bias.values) <= MAX_HEADS:
            continue  # A table of 65,536 rows is not a bias, and would be copied ten times below.
        for form in _possible_forms(bias.values):
            yield bias._replace(form=form)


def _explain_by_rules(bias: HeadBias) -> list[Explanation]:
    """Return the explanation by the first rule and max_bias that make a bias."""
    schemes = chain.from_iterable(_schemes_of_rule(rule, bias) for rule in RULES)
    return explain_by_first(schemes, partial(_explain_by_scheme, bias), most=1)


def _as_heads(array: Array) -> Iterator[HeadBias]:
    """Yield an array as a bias (heads, queries, keys), for every axis that may be the heads.

    A matrix (8, 64) is 8 heads of one query with 64 keys, or the transpose. Of four axes
    (2, 8, 64, 64), the first two are batch and heads, which become 16 heads.
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

    (8, 64, 64) is 8 heads, and (64, 64, 8) has its heads last. A query sees at least itself, so that
    there are at least as many keys as queries. Axes in another order are supposed only if there are
    as many queries as keys, as there are while a prompt is read.

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
    all_heads = len(bias.values)
    possible_numbers = range(MIN_HEADS, all_heads // 2 + 1)
    for heads in possible_numbers:
        if _repeats_after(heads, bias.values):
            repeated = Repeated(axis=0, times=all_heads // heads)
            return HeadBias(bias.values[:heads], (repeated, *bias.shape_edits))
    return bias


def _repeats_after(heads: int, values: Array) -> bool:
    """Return True if a bias (heads, queries, keys) is whole copies of its first few heads."""
    if len(values) % heads:
        return False
    # Slopes differ from head to head: most wrong numbers fail in the head after the first copy.
    if not np.array_equal(values[heads], values[0]):
        return False
    copies = values.reshape(-1, heads, *values.shape[1:])  # (copies, heads, queries, keys)
    return bool((copies == values[:heads]).all())


class _LastQuery(NamedTuple):
    """The biases of the last query, which sees all keys: −3/2, −1, −1/2, 0 for a slope of 1/2 and four keys."""

    blocks_of_heads: list[Array]
    """The biases (heads, keys) of HEADS_AT_ONCE heads each."""
    largest: float
    """The largest absolute bias of all heads; 0 if there is none."""

    @classmethod
    def of(cls, values: Array) -> "_LastQuery":
        """Return the last query of a bias (heads, queries, keys)."""
        starts = range(0, len(values), HEADS_AT_ONCE)
        blocks = [values[start : start + HEADS_AT_ONCE, -1] for start in starts]
        return cls(blocks, largest=max(_largest(_biases(block)) for block in blocks))

    @property
    def keys(self) -> int:
        return int(self.blocks_of_heads[0].shape[1])

    @property
    def distinguishes_forms(self) -> bool:
        """True if there are two distances, and a slope: one key or only zeros agree with any form."""
        return self.keys > 1 and self.largest > 0

    def agrees_with(self, form: str) -> bool:
        """Return True if the biases of every head are nearly a slope times the distances of a form.

        Of 2.9, 2, 1.1, 0 the best slope for the distances 3, 2, 1, 0 is 0.99, which misses a bias by
        0.11 at most. That is less than MAX_MISS_OF_FORM of the largest bias, 0.05 · 2.9 = 0.145.
        """
        distances = multiples_of(form, queries=1, keys=self.keys).values[0]
        limit = MAX_MISS_OF_FORM * self.largest
        return all(
            _largest_residual(_biases(block), distances) <= limit for block in self.blocks_of_heads
        )


def _possible_forms(values: Array) -> Iterator[str]:
    """Yield the forms of ALiBi that agree with the last query of every head.

    ALiBi adds slope · distance to the scores of attention, with a slope per head. Its forms differ in
    the distance: «causal» and «key-last» count back from the query, −3 −2 −1 0 for four keys, and
    «key» counts on from the first key, 0 1 2 3.

    Args:
        values: The bias, (heads, queries, keys).
    """
    last_query = _LastQuery.of(values)
    if not last_query.distinguishes_forms:
        return  # Any form would agree, so that none can be recognised.
    queries = values.shape[1]
    forms = FORMS_OF_MATRICES if queries > 1 else FORMS_OF_ROWS
    yield from filter(last_query.agrees_with, forms)


def _largest_residual(biases: Floats, distances: Floats) -> float:
    """Return by how much a bias differs at most from the best slope of its head times the distance."""
    slopes = _fit_slopes(biases, distances)
    return _largest(biases - np.multiply.outer(slopes, distances))


def _largest(values: Floats) -> float:
    """Return the largest absolute value of numbers that may be NaN; 0 if all are."""
    return float(np.nanmax(np.abs(values), initial=0.0))


def _biases(values: Array) -> Floats:
    """Return the biases of one query as float64, with NaN for masks."""
    numbers = widened(values)
    return np.where(np.abs(numbers) < FAR, numbers, np.nan)


def _fit_slopes(biases: Floats, distances: Floats) -> Floats:
    """Return the slope of each head by least squares over the keys of one query.

    It is Σ distance·bias / Σ distance²: (0.5 + 2) / (1 + 4) = 0.5 for the biases −0.5 and −1 at the
    distances −1 and −2.

    Args:
        biases: The biases of one query, (heads, keys); NaN for masked keys, which do not count.
        distances: By key, the number by which the slope is multiplied.
    """
    unmasked_distances = np.where(np.isnan(biases), 0.0, distances)
    power = (unmasked_distances**2).sum(axis=1)
    return np.asarray(np.nansum(unmasked_distances * biases, axis=1) / np.maximum(power, TINY))


def _schemes_of_rule(rule: str, bias: HeadBias) -> Iterator[Alibi]:
    """Yield ALiBi schemes that may have made a bias: with the usual max_bias of 8, then with others.

    The slopes of 8 heads are 1/2, 1/4, … 1/256 = 2^−8. If the last one is 2^−16, max_bias is 16.

    Args:
        rule: The rule for numbers of heads that are no powers of two: paper or naive.
        bias: The tensor, (heads, queries, keys).
    """
    usual = _usual_scheme(rule, bias)
    if usual is None:
        return
    yield usual
    slopes = np.abs(bias.measured_slopes())
    for max_bias in near_max_bias(slopes, rule):
        if max_bias != usual.max_bias and _may_be_written(max_bias):
            yield replace(usual, max_bias=max_bias)


def _usual_scheme(rule: str, bias: HeadBias) -> Alibi | None:
    """Return ALiBi as nearly all models have it, with the shape and dtype of a bias; None if it cannot have these.

    The last of its slopes is 2^−8, as its max_bias of 8 states.

    Args:
        rule: The rule for numbers of heads that are no powers of two: paper or naive.
        bias: The tensor, (heads, queries, keys).
    """
    heads = len(bias.values)
    if not MIN_HEADS <= heads <= MAX_HEADS:
        return None
    try:
        return Alibi(heads, rule=rule, **_options_of(bias))
    except ParameterError:
        return None


def _may_be_written(max_bias: float) -> bool:
    """Return True if somebody may have chosen a max_bias, such as 10 or 12.5.

    Slopes of any other origin also have a max_bias that fits best, but it has more digits, as 9.8731.
    """
    return max_bias >= 1 and digits(max_bias) <= MAX_WRITTEN_DIGITS


def _options_of(bias: HeadBias) -> dict[str, Any]:
    """Return the parameters of ALiBi that follow from the kind, the shape and the dtype of a tensor.

    A bias (8, 64, 64) has 64 keys: `seq_len` is 64. A vector of slopes has none.
    """
    options: dict[str, Any] = {"slopes": True}
    if bias.name == "bias":
        options = {"seq_len": bias.keys, "form": bias.form}
    dtype = dtype_name(bias.values.dtype)
    if dtype in SIGNIFICANT_BITS:
        options["dtype"] = dtype
    return options


def _explain_by_scheme(bias: HeadBias, scheme: Alibi) -> Iterator[Explanation]:
    """Yield explanations of an attention bias by an ALiBi scheme: without a mistake, then with one.

    The mistakes are the wrong sign, another mask or none, and slopes that were rounded to 16 bits.
    Nothing is yielded for a bias (6, 63, 64) if each of the 6 heads of the scheme has 64 queries.

    Args:
        bias: The tensor, (heads, queries, keys), and how it lies in the file.
        scheme: The scheme that is supposed to have made it.
    """
    right_bias = BiasComputation.of(scheme, bias.name)
    if bias.queries != right_bias.queries:
        return
    rows_of_all_heads = bias.values.reshape(-1, bias.keys)  # (heads · queries, keys)
    tensors = {bias.name: rows_of_all_heads}
    observations = Observations(tensors, observed_dtype(tensors))
    case = Case.of(scheme, right_bias, observations, bias.shape_edits)
    without_mistake = explain_cases([case], tolerance=0.0, most_mistakes=0)
    # Only mistakes with which every number of the bias is made again are accepted.
    with_one_mistake = accepted(_cases_with_mistakes(case, bias, right_bias))
    for explanation in chain(without_mistake, with_one_mistake):
        # The command of the answer makes the right bias; a mistake is named beside it.
        yield explanation.with_scheme_of_command(scheme)


def _cases_with_mistakes(case: Case, bias: HeadBias, right_bias: BiasComputation) -> Iterator[Case]:
    """Yield the comparison of a file with a wrong bias, for each known mistake that may be in it.

    A right bias is slope · distance, such as 0.5 · −3 for a key three tokens back, and −∞ for masked
    keys. The mistakes are another mask (−65504 instead of −∞), the wrong sign (0.5 · 3), both of these,
    and slopes that were rounded to 16 bits.

    Args:
        case: The comparison of the file with the right bias.
        bias: The bias of the file.
        right_bias: The steps that make a right bias.
    """
    if bias.name == "slopes":
        return  # A vector of slopes has no mask and no distances that could be wrong.
    first_head = widened(bias.values[0])  # All heads have the same mask.
    other_masks = [*_mask_mistakes(first_head, right_bias)]
    for other_mask in other_masks:
        yield case.supposing(other_mask)
    with_wrong_sign = case.supposing(NegatedBias())
    yield with_wrong_sign
    for other_mask in other_masks:
        yield with_wrong_sign.supposing(other_mask)
    # Rounding explains small differences, so that it is supposed without another mistake.
    for dtype in ("bfloat16", "float16"):
        yield case.supposing(RoundedSlopes(dtype))


def _mask_mistakes(values: Floats, computation: BiasComputation) -> Iterator[BiasMistake]:
    """Yield the mistakes of another number for the mask, and of no mask at all.

    The mask is above the diagonal: if −1e9 is everywhere there, it may be the number.

    Args:
        values: The bias of one head, (queries, keys).
        computation: How a right bias is made, with its mask.
    """
    above = computation.masked
    if not above.any():
        return
    numbers = np.unique(values[above])
    if len(numbers) == 1:
        yield OtherMask(float(numbers[0]), above)
    yield Unmasked()
