"""Mistakes in ALiBi's biases and slopes."""

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self, cast

import numpy as np

from pecli.engine.arrays import Flags, Floats
from pecli.engine.edits import Edit, Heads, Mask, Negated, Parameter, Scaled
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.bias_parts import HeadSlice
from pecli.engine.schemes.scheme import Scheme
from pecli.explain.bias_computation import MASKED, BiasComputation, distances, multiples_of
from pecli.explain.catalogue.needs import (
    has_a_shard_of_heads,
    has_all_heads,
    has_distances,
    has_several_heads,
    has_several_queries,
    is_masked,
)
from pecli.explain.changed_schemes import with_parameters
from pecli.explain.computation import Computation
from pecli.explain.hypothesis import COST_PER_DIGIT, Case, Mistake, Stage
from pecli.explain.numbers import numbers_near, plain_numbers
from pecli.explain.storage import rounded_to

USUAL_MAX_BIAS = (8.0, 16.0, 4.0, 10.0, 32.0, 2.0)
SLOPE_ERROR = 1e-3
"""Relative error of a slope that is measured in coarsely stored biases."""

MAX_BIAS_RTOL = 0.01
"""Relative error of a max_bias, which is the logarithm of such slopes."""

WRITTEN_MAX_BIAS_ATOL = 0.01
"""Absolute error of a max_bias that is rounded to a plain number: 8.2 for 8.203."""

LARGEST_MAX_BIAS = 256
"""Largest max_bias that is considered: the last slope is 2^−256, which no dtype in use holds."""


@dataclass(frozen=True, eq=False)
class BiasMistake(Mistake):
    """A mistake in making a bias."""

    stage = Stage.PARAMETERS
    computation_type = BiasComputation

    def plant(self, computation: Computation) -> Computation:
        return self.plant_in_bias(_bias(computation))

    @abstractmethod
    def plant_in_bias(self, bias: BiasComputation) -> BiasComputation:
        """Return the bias with this mistake in it."""

    @classmethod
    def proposals_for_case(cls, case: Case) -> Iterator[Self]:
        yield from cls.proposals_for_bias(case, _bias(case.computation))

    @classmethod
    def proposals_for_bias(cls, case: Case, bias: BiasComputation) -> Iterator[Self]:
        """Yield the instances worth testing; by default the typical ones."""
        yield from cls.examples_for_bias(bias, alibi_of(case.scheme))

    @classmethod
    def examples_for(cls, computation: Computation, scheme: Scheme) -> Iterator[Self]:
        yield from cls.examples_for_bias(_bias(computation), alibi_of(scheme))

    @classmethod
    def examples_for_bias(cls, bias: BiasComputation, scheme: Alibi) -> Iterator[Self]:
        """Yield typical instances of this mistake, without data.

        Args:
            bias: The right bias, in which they can be planted.
            scheme: The scheme whose bias it is.
        """
        yield from ()


def _bias(computation: Computation) -> BiasComputation:
    """Return a computation as one of a bias, in which alone the mistakes of this file are possible."""
    assert isinstance(computation, BiasComputation)
    return computation


def alibi_of(scheme: Scheme) -> Alibi:
    """Return a scheme as ALiBi, which the mistakes of this file are proposed for."""
    return cast(Alibi, scheme)


def slopes_of(heads: int, rule: str, max_bias: float) -> Floats:
    """Return the slopes of a rule in float64."""
    return np.array(Alibi(heads, rule=rule, max_bias=max_bias, dtype="float64").slope_values())


def near_max_bias(slopes: Floats, rule: str) -> Iterator[float]:
    """Yield values of max_bias that may have led to measured slopes, usual ones first.

    If the slopes show 8.003, somebody most likely wrote 8, and may have written 8.003.

    Args:
        slopes: The measured slope of each head.
        rule: The rule for numbers of heads that are no powers of two: paper or naive.
    """
    fitted = _fitted_max_bias(slopes, rule)
    usual = numbers_near(USUAL_MAX_BIAS, fitted, error=MAX_BIAS_RTOL * abs(fitted))
    plain = plain_numbers(fitted, error=WRITTEN_MAX_BIAS_ATOL)
    for max_bias in dict.fromkeys((*usual, *plain)):
        if 0 < max_bias <= LARGEST_MAX_BIAS:
            yield max_bias


def _fitted_max_bias(slopes: Floats, rule: str) -> float:
    """Return the max_bias whose slopes come nearest to measured ones; NaN if no slope is positive.

    The slopes of 8 heads are 2^(−m·1/8), 2^(−m·2/8), … 2^(−m·8/8) for a max_bias of m. So each measured
    exponent y = −log2(slope) should be m times the exponent x for a max_bias of 1. By least squares, m
    is Σ x·y / Σ x².

    Args:
        slopes: The measured slope of each head.
        rule: The rule for numbers of heads that are no powers of two: paper or naive.
    """
    exponents_for_one = -np.log2(slopes_of(len(slopes), rule, max_bias=1.0))
    is_usable = np.isfinite(slopes) & (slopes > 0) & (exponents_for_one > 0)
    x = exponents_for_one[is_usable]
    y = -np.log2(slopes[is_usable])
    with np.errstate(invalid="ignore"):  # Without a usable slope, it is 0/0.
        return float((y @ x) / (x @ x))


def measured_slopes(case: Case, bias: BiasComputation) -> Floats:
    """Return the slope of each head that is measured in the data; NaN for a head that has none."""
    return bias.measured_slopes(case.observations.matrix(slice(None)))


def has_unusual_head_count(bias: BiasComputation) -> bool:
    """Return True if the number of heads is no power of two; else the rules of slopes agree."""
    return len(bias.slopes).bit_count() > 1


@dataclass(frozen=True)
class OtherRule(BiasMistake):
    """Slopes by the other rule, or the first of those of the next power of two."""

    rule: str
    heads: int  # whose first slopes these are
    max_bias: float
    summary = "slopes of the naive rule for head counts that are not powers of two, or the other way round"
    seen_in = ("early ALiBi ports with 12 or 20 heads",)
    computation_needs = (has_unusual_head_count,)
    scheme_needs = (has_all_heads,)

    def plant_in_bias(self, bias: BiasComputation) -> BiasComputation:
        slopes = slopes_of(self.heads, self.rule, self.max_bias)[: len(bias.slopes)]
        return replace(bias, slopes=slopes)

    @classmethod
    def examples_for_bias(cls, bias: BiasComputation, scheme: Alibi) -> Iterator[Self]:
        """Yield the slopes of the other rule, and the first ones of the next power of two.

        The naive rule has 2^(−8/12), 2^(−16/12), … for 12 heads; the paper's has those of 8 heads,
        then every second one of 16.
        """
        count = len(bias.slopes)
        other_rule = "naive" if scheme.rule == "paper" else "paper"
        yield cls(rule=other_rule, heads=count, max_bias=scheme.max_bias)
        next_power_of_two = 1 << count.bit_length()
        yield cls(rule="paper", heads=next_power_of_two, max_bias=scheme.max_bias)

    def edits(self, case: Case) -> tuple[Edit, ...]:
        alibi = alibi_of(case.scheme)
        if self.heads != alibi.heads:
            return (Parameter("slopes of heads", alibi.heads, self.heads),)
        return (Parameter("rule", alibi.rule, self.rule),)

    def scheme_after(self, scheme: Scheme) -> Scheme | None:
        if self.heads != alibi_of(scheme).heads:
            return None
        return with_parameters(scheme, rule=self.rule)


@dataclass(frozen=True)
class OtherMaxBias(BiasMistake):
    """Slopes that end at another power of two."""

    value: float
    rule: str
    summary = "another max_bias: the smallest slope is not 2^−8"
    fitted = ("value",)
    scheme_needs = (has_all_heads,)

    def plant_in_bias(self, bias: BiasComputation) -> BiasComputation:
        return replace(bias, slopes=slopes_of(len(bias.slopes), self.rule, self.value))

    @classmethod
    def proposals_for_bias(cls, case: Case, bias: BiasComputation) -> Iterator[Self]:
        """Measure the slopes, and yield the plain values of max_bias that come near to them."""
        alibi = alibi_of(case.scheme)
        for value in near_max_bias(measured_slopes(case, bias), alibi.rule):
            if value != alibi.max_bias:
                yield cls(value=value, rule=alibi.rule)

    @classmethod
    def examples_for_bias(cls, bias: BiasComputation, scheme: Alibi) -> Iterator[Self]:
        value = next(usual for usual in USUAL_MAX_BIAS if usual != scheme.max_bias)
        yield cls(value=value, rule=scheme.rule)

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Parameter("max_bias", alibi_of(case.scheme).max_bias, self.value),)

    def scheme_after(self, scheme: Scheme) -> Scheme:
        return with_parameters(scheme, max_bias=self.value)

    @property
    def numbers(self) -> tuple[float, ...]:
        return () if self.value in USUAL_MAX_BIAS else (self.value,)


@dataclass(frozen=True)
class OtherShard(BiasMistake):
    """Slopes of another shard of heads, or of a model that has as many heads as the shard."""

    first_head: int
    """The head of the model whose slope the first head of the shard gets."""
    model_heads: int
    """The number of heads for which slopes are computed."""
    rule: str
    max_bias: float
    summary = "slopes of another shard of heads, or counted from the shard's own first head"
    seen_in = ("tensor-parallel servers that compute slopes from the heads of one rank",)
    scheme_needs = (has_a_shard_of_heads,)

    def plant_in_bias(self, bias: BiasComputation) -> BiasComputation:
        """Return the bias with the slopes of as many heads of the model, from `first_head` on."""
        slopes_of_model = slopes_of(self.model_heads, self.rule, self.max_bias)
        end = self.first_head + len(bias.slopes)
        return replace(bias, slopes=slopes_of_model[self.first_head : end])

    @classmethod
    def examples_for_bias(cls, bias: BiasComputation, scheme: Alibi) -> Iterator[Self]:
        """Yield each mistake by which a shard, the heads of one GPU, gets slopes of other heads.

        The second GPU of two has heads 8 to 15 of 16. A program that counts only these 8 heads gives
        them the slopes of a model of 8 heads. One that mixes up the GPUs gives them the slopes of
        heads 0 to 7 of 16.

        Args:
            bias: Not needed here, since the scheme states the shard.
            scheme: The scheme of the shard.
        """
        shard = scheme.head_range
        assert shard is not None  # It is what this mistake needs.
        yield cls(first_head=0, model_heads=shard.size, rule=scheme.rule, max_bias=scheme.max_bias)
        start_of_last_shard = scheme.heads - shard.size
        for first_head in range(0, start_of_last_shard + 1, shard.size):
            if first_head != shard.start:
                yield cls(
                    first_head=first_head,
                    model_heads=scheme.heads,
                    rule=scheme.rule,
                    max_bias=scheme.max_bias,
                )

    def edits(self, case: Case) -> tuple[Edit, ...]:
        alibi = alibi_of(case.scheme)
        if self.model_heads != alibi.heads:
            return (Parameter("heads", alibi.heads, self.model_heads),)
        return (Parameter("head_range", alibi.head_range, self._shard(alibi)),)

    def _shard(self, scheme: Alibi) -> HeadSlice:
        return HeadSlice(self.first_head, self.first_head + scheme.shard_heads)

    def scheme_after(self, scheme: Scheme) -> Scheme:
        alibi = alibi_of(scheme)
        shard = self._shard(alibi) if self.model_heads == alibi.heads else None
        return with_parameters(alibi, heads=self.model_heads, head_range=shard)


@dataclass(frozen=True)
class OtherForm(BiasMistake):
    """The bias in another form: symmetric for causal, one row of keys for a matrix."""

    form: str
    summary = "the bias in another form: symmetric for causal, counted from the first key"
    seen_in = ("BLOOM counts keys from the first token",)
    stage = Stage.FORM
    computation_needs = (has_distances,)

    def plant_in_bias(self, bias: BiasComputation) -> BiasComputation:
        """Return the bias with the distances and the mask of another form, repeated for each query.

        In the form «key», all queries have the distances 0 1 2 of three keys, and no mask.
        """
        queries, keys = bias.multiples.shape
        in_other_form = multiples_of(self.form, queries, keys)
        return replace(
            bias,
            multiples=np.broadcast_to(in_other_form.values, (queries, keys)),
            masked=np.broadcast_to(in_other_form.masked, (queries, keys)),
        )

    @classmethod
    def examples_for_bias(cls, bias: BiasComputation, scheme: Alibi) -> Iterator[Self]:
        """Yield all forms that a bias of as many queries can have."""
        if bias.queries > 1:
            yield cls("symmetric")
            yield cls("causal")
        yield cls("key")
        yield cls("key-last")

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Parameter("form", alibi_of(case.scheme).form, self.form),)

    def scheme_after(self, scheme: Scheme) -> Scheme:
        return with_parameters(scheme, form=self.form)


@dataclass(frozen=True)
class DistanceOffByOne(BiasMistake):
    """Distances one too large or too small."""

    by: int
    summary = "distances off by one: i − j + 1 for i − j"
    stage = Stage.POSITIONS
    computation_needs = (has_several_queries,)

    def plant_in_bias(self, bias: BiasComputation) -> BiasComputation:
        return replace(bias, multiples=bias.multiples - self.by)

    @classmethod
    def examples_for_bias(cls, bias: BiasComputation, scheme: Alibi) -> Iterator[Self]:
        yield cls(1)
        yield cls(-1)

    def edits(self, case: Case) -> tuple[Edit, ...]:
        sign = "+" if self.by > 0 else "−"
        return (Parameter("distance", "i − j", f"i − j {sign} 1"),)


@dataclass(frozen=True)
class ReorderedHeads(BiasMistake):
    """Heads in another order."""

    order: tuple[int, ...]
    summary = "heads in another order"
    seen_in = ("tensor-parallel checkpoints that are joined in the wrong order",)
    stage = Stage.FORM
    computation_needs = (has_several_heads,)

    def plant_in_bias(self, bias: BiasComputation) -> BiasComputation:
        return replace(bias, slopes=bias.slopes[list(self.order)])

    @classmethod
    def proposals_for_bias(cls, case: Case, bias: BiasComputation) -> Iterator[Self]:
        """Yield heads in reverse order, then in the order that their measured slopes show.

        Expected slopes of 1/2, 1/4, 1/8 and measured ones of 1/8, 1/2, 1/4 show the order 2 0 1.
        Nothing is yielded if a slope is NaN or infinite, as no slope of a right bias is.
        """
        slopes = measured_slopes(case, bias)
        if not np.isfinite(slopes).all():
            return
        right_order = tuple(range(len(slopes)))
        # The usual mistake is always tried. Coarse rounding may make measured slopes show another order.
        yield cls(tuple(reversed(right_order)))
        order = _order_of_slopes(slopes, bias.slopes)
        if order != right_order:
            yield cls(order)

    @classmethod
    def examples_for_bias(cls, bias: BiasComputation, scheme: Alibi) -> Iterator[Self]:
        """Yield heads in reverse order, and the first two exchanged."""
        count = len(bias.slopes)
        yield cls(tuple(reversed(range(count))))
        yield cls((1, 0, *range(2, count)))

    def edits(self, case: Case) -> tuple[Edit, ...]:
        is_reversed = self.order == tuple(reversed(range(len(self.order))))
        return (Heads("reversed" if is_reversed else self.order),)


def _order_of_slopes(measured: Floats, expected: Floats) -> tuple[int, ...]:
    """Return for each measured slope the index of the expected one that has the same rank by size.

    The largest is matched with the largest, and so on down to the smallest. Measured slopes of 1/8,
    1/2, 1/4 for expected ones of 1/2, 1/4, 1/8 give the order 2 0 1.
    """
    order = np.empty(len(measured), np.intp)
    order[np.argsort(-measured, kind="stable")] = np.argsort(-expected, kind="stable")
    return tuple(order.tolist())


@dataclass(frozen=True)
class NegatedBias(BiasMistake):
    """The bias is added with the wrong sign."""

    summary = "the bias has the wrong sign: far keys are favoured"
    stage = Stage.FORM

    def plant_in_bias(self, bias: BiasComputation) -> BiasComputation:
        return replace(bias, multiples=-bias.multiples, mask=-bias.mask)

    @classmethod
    def examples_for_bias(cls, bias: BiasComputation, scheme: Alibi) -> Iterator[Self]:
        yield cls()

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Negated("all"),)


@dataclass(frozen=True)
class ScaledBias(BiasMistake):
    """All slopes multiplied by a number, such as 1/√d."""

    by: float
    summary = "all slopes multiplied by a number, such as 1/√d"
    stage = Stage.FREQUENCIES
    fitted = ("by",)
    weight = 1.2

    def plant_in_bias(self, bias: BiasComputation) -> BiasComputation:
        return replace(bias, slopes=self.by * bias.slopes)

    @classmethod
    def proposals_for_bias(cls, case: Case, bias: BiasComputation) -> Iterator[Self]:
        """Yield the mistake with each factor by which the slopes of the data may have been multiplied.

        The factor is measured, and the numbers near it that programs are likely to have are yielded.
        """
        slopes = measured_slopes(case, bias)
        if not np.isfinite(slopes).all():
            return
        # Least squares: of slopes 1, 1/2 for 1/2, 1/4, it is (1/2 + 1/8) / (1/4 + 1/16) = 2.
        measured_factor = float(slopes @ bias.slopes / (bias.slopes @ bias.slopes))
        for factor in _likely_factors(measured_factor):
            if factor != 1:
                yield cls(factor)

    @classmethod
    def examples_for_bias(cls, bias: BiasComputation, scheme: Alibi) -> Iterator[Self]:
        yield cls(0.125)  # 1/√64, for heads of 64 channels

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Scaled(self.by),)

    @property
    def cost(self) -> float:
        """The weight, and the digits of the factor, of which a power of √2 counts as one."""
        is_likely = abs(self.by) == _nearest_power_of_root_two(self.by)
        return self.weight + COST_PER_DIGIT if is_likely else super().cost


def _likely_factors(measured: float) -> list[float]:
    """Return the numbers near a measured factor of slopes that programs are likely to have, likeliest first.

    Attention scores of d channels per head are divided by √d, and the bias by mistake as well. If d
    is a power of two, 1/√d is a power of √2: (√2)^−7 = 0.08839 for 128 channels. This has too many
    digits to be found among plain numbers such as 0.0884, which come after it.
    """
    if measured == 0:
        return []
    error = SLOPE_ERROR * abs(measured)
    power = math.copysign(_nearest_power_of_root_two(measured), measured)
    without_duplicates = dict.fromkeys((power, *plain_numbers(measured, error)))
    return numbers_near(without_duplicates, measured, error)


def _nearest_power_of_root_two(factor: float) -> float:
    """Return the power of √2 that is nearest to the size of a factor: (√2)^−7 = 0.08839 for −0.0884."""
    exponent = round(2 * math.log2(abs(factor)))
    power: float = 2.0 ** (exponent / 2)
    return power


@dataclass(frozen=True)
class RoundedSlopes(BiasMistake):
    """Slopes rounded to 16 bits before they are multiplied."""

    dtype: str
    summary = "slopes rounded to bfloat16 or float16 before they are multiplied"
    stage = Stage.ARITHMETIC
    computation_needs = (has_distances,)

    def plant_in_bias(self, bias: BiasComputation) -> BiasComputation:
        return replace(bias, slopes=rounded_to(bias.slopes, self.dtype))

    @classmethod
    def examples_for_bias(cls, bias: BiasComputation, scheme: Alibi) -> Iterator[Self]:
        yield cls("bfloat16")
        yield cls("float16")

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Parameter("slopes", "exact", self.dtype),)


@dataclass(frozen=True, eq=False)
class OtherMask(BiasMistake):
    """Another number for the mask, no mask, or a mask at other places."""

    value: float
    masked: Flags
    summary = "another mask: −1e9 for −∞, zeros above the diagonal, the diagonal masked as well"
    stage = Stage.FORM
    example_needs = (is_masked,)

    def plant_in_bias(self, bias: BiasComputation) -> BiasComputation:
        if bias.masked.shape != self.masked.shape:
            return bias  # Slopes beside a masked bias have no mask.
        return replace(bias, masked=self.masked, mask=self.value)

    @classmethod
    def proposals_for_bias(cls, case: Case, bias: BiasComputation) -> Iterator[Self]:
        """Yield the mask that the data have, if it differs from the expected one; and zeros in its place.

        A port may mask with −1e9 instead of −∞, mask the diagonal as well, or leave zeros above it.
        All heads have one mask, so that only the first one is looked at.
        """
        every_row = slice(None)
        first_head = case.observations.matrix(every_row)[: bias.queries]  # (queries, keys)
        is_masked = first_head <= MASKED
        for value in np.unique(first_head[is_masked])[:1].tolist():
            # If several numbers mask, the comparison of all elements rejects this one.
            if value != bias.mask or not np.array_equal(is_masked, bias.masked):
                yield cls(value=value, masked=is_masked)
        yield cls(value=0.0, masked=bias.masked)

    @classmethod
    def examples_for_bias(cls, bias: BiasComputation, scheme: Alibi) -> Iterator[Self]:
        """Yield zeros for minus infinity, and one key too many masked for each query."""
        yield cls(value=0.0, masked=bias.masked)
        yield cls(value=bias.mask, masked=distances(*bias.masked.shape) >= 0)

    def edits(self, case: Case) -> tuple[Edit, ...]:
        expected = case.specification
        assert isinstance(expected, BiasComputation)
        if not np.array_equal(self.masked, expected.masked):
            return (Mask("at other places"),)
        return (Mask(f"{self.value:.2g}"),)


@dataclass(frozen=True)
class Unmasked(BiasMistake):
    """A causal bias without its mask: the line of each query goes on above the diagonal."""

    summary = "a causal bias without its mask, which goes on rising above the diagonal"
    stage = Stage.FORM
    computation_needs = (is_masked,)

    def plant_in_bias(self, bias: BiasComputation) -> BiasComputation:
        """Return a bias that goes on rising, or falling if it was negated, to the right of the diagonal.

        A row −2 −1 0 −∞ −∞ becomes −2 −1 0 1 2.
        """
        if not is_masked(bias):
            return bias  # Slopes beside a masked bias have no mask.
        distance = distances(*bias.multiples.shape)
        sign = -1.0 if (bias.multiples > 0).any() else 1.0
        return replace(
            bias, multiples=np.asarray(sign * distance), masked=np.zeros(bias.masked.shape, bool)
        )

    @classmethod
    def examples_for_bias(cls, bias: BiasComputation, scheme: Alibi) -> Iterator[Self]:
        yield cls()

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Mask("m·(j−i) above the diagonal"),)
