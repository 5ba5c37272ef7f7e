"""ALiBi: slopes measured head by head, in every form of a bias, and the rule that gives them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from pecli.engine.arrays import Flags, Floats, Indices, round_to, widened
from pecli.engine.schemes.alibi import Alibi
from pecli.explain import acceptance, recipe_search, time_limit
from pecli.explain import edits as kinds
from pecli.explain.edits import Edit, Errors, Explanation, parameter_edits
from pecli.explain.sample import Sample, Samples, digits, plainest, rms, rounding
from pecli.explain.wave_measurement import FEW_STEPS, QUANTUM

MAX_HEADS, MAX_SURE_HEADS = 4096, 512
MASKED, NEGATED_MASK = -1e4, 1e8  # values below and above these are masks
MASKS = {
    kinds.Mask("-3.4e+38"),
    kinds.Mask("-6.6e+04"),
}  # the most negative numbers of dtypes, which every check takes
MAX_NOISE = 0.05  # of the values: beyond it nothing is a bias of this kind
MIN_EXPLAINED = 0.99  # of the values, by slopes: with less, the noise is beyond MAX_NOISE, and need not be measured
USUAL = (8.0, 16.0, 4.0, 10.0, 32.0, 2.0)  # values of max_bias
MIN_FACTOR = 1e-6  # of slopes that are a power of √2 times those of a rule
MIN_BIAS, MAX_BIAS = 0.01, 256.0  # beyond them, slopes are all the same, or nearly all zero
SIGMAS = 5.0
MAX_ROUNDED = 2.0**-9  # of max_bias: what it seems to be off by where slopes are rounded to 16 bits
TRIED_HEADS = 16  # looked at first, where nothing is known: a table none of whose forms comes near in these is no bias


@dataclass(frozen=True)
class Bias:
    """Slopes in a form, with their errors and the residual of the values; slopes alone have no form and no length."""

    slopes: Floats
    errors: Floats
    edits: tuple[Edit, ...]
    noise: float
    values: Floats  # (heads, elements) that are not masked; slopes alone are of one element
    multiples: Floats  # what a slope is multiplied by at each element
    form: str = ""
    length: int | None = None

    def once(self) -> "Bias":
        """Heads once, where a batch has them several times over."""
        heads = len(self.slopes)
        for times in (each for each in range(heads // 3, 1, -1) if heads % each == 0):
            parts, errors = (each.reshape(times, -1) for each in (self.slopes, self.errors))
            if (np.abs(parts - parts[0]) <= SIGMAS * errors).all():
                return replace(
                    self,
                    slopes=parts[0],
                    errors=errors[0],
                    edits=(kinds.Repeated(0, times), *self.edits),
                )
        return self


def explain_bias(judge: acceptance.Judge, prior: Alibi | None, name: str) -> list[Explanation]:
    """Explanations of a bias, or of slopes alone: by the prior's rule or another, times a factor, in another order."""
    (one,) = judge.samples.values()
    if np.iscomplexobj(one.values):
        return []
    rules = tuple(dict.fromkeys((prior.rule if prior else "paper", "paper", "naive")))
    for bias in _slopes_alone(one) if name == "slopes" else _biases(one, prior):
        bias = bias.once()
        sloping = np.count_nonzero(bias.slopes > 2 * bias.errors)
        if len(bias.slopes) > MAX_HEADS or sloping < (2 if prior is None else 1):
            continue
        time_limit.check_time()
        first, second = (Alibi(len(bias.slopes), rule=rule).slope_values() for rule in rules)
        alike = (
            first == second and not one.whole
        )  # as those of 32 heads are: all rows are compared once
        for permuted, scaled in ((False, False), (False, True), (True, False), (True, True)):
            by_rule = partial(_by_rule, one, bias, prior, permuted=permuted, scaled=scaled)
            every = (
                next(judge.accepted(by_rule(rule)), None)
                for rule in (rules[:1] if alike else rules)
            )
            if found := sorted(filter(None, every), key=lambda each: each.cost):
                return found[:2]
    return []


def recognise_bias(judge: acceptance.Judge) -> Iterator[Explanation]:
    """What is sure with nothing known before: enough heads in their order, a plain max_bias; slopes as they are."""
    (one,) = judge.samples.values()
    for each in explain_bias(judge, None, "slopes" if one.is_vector else "bias"):
        scheme: Any = each.scheme
        loose = any(
            one.is_vector or isinstance(edit, (kinds.Scaled, kinds.Heads)) for edit in each.mistakes
        )
        plain = scheme.max_bias >= 1 and digits(scheme.max_bias) <= 3
        if plain and not loose and 3 <= scheme.heads <= MAX_SURE_HEADS:
            yield each


def _slopes_alone(one: Sample) -> Iterator[Bias]:
    """Slopes as they are; with more and more noise, since a vector does not show how much there is."""
    values = one.values.reshape(-1)
    if not np.isfinite(values).all() or len(values) < 2 or not values.any():
        return
    sign: tuple[Edit, ...] = (kinds.Negated("all"),) if values.sum() < 0 else ()
    slopes = -values if sign else values
    for noise in (1e-8, 4e-7, 3e-5, 2e-4, 3e-3 * float(slopes.max())):
        errors = np.hypot(noise, _relative(values) * np.abs(slopes))
        if (slopes > -3 * errors).all():
            yield Bias(
                slopes, errors, sign, noise, values[:, None], np.full(1, -1.0 if sign else 1.0)
            )


def _relative(values: Floats) -> float:
    """The relative error of values in the dtype that has them all."""
    return 0.8 * rounding(values)[0] or 1e-6


def _biases(one: Sample, prior: Alibi | None) -> Iterator[Bias]:
    """The bias in the forms that come near, the nearest first."""
    for values, queries, edits in _arrays(one, prior):
        if prior is None and not any(
            _forms(values[:: max(1, len(values) // TRIED_HEADS)], queries, edits)
        ):
            continue
        found = list(_forms(values, queries, edits))
        found.sort(
            key=lambda bias: (
                round(math.log2(bias.noise + 1e-12)),
                sum(edit.cost for edit in bias.edits),
            )
        )
        yield from (bias for bias in found if bias.noise < 4 * found[0].noise + 1e-9)


def _arrays(one: Sample, prior: Alibi | None) -> Iterator[tuple[Floats, Indices, tuple[Edit, ...]]]:
    """(heads, queries, keys), whatever axes of length 1 there are, whichever axis the heads are."""
    shape = [size for size in one.values.shape if size != 1]
    values = one.values.reshape(
        [-1, *shape[2:]] if len(shape) == 4 else shape
    )  # a batch beside the heads
    if values.ndim == 2 and prior is not None and prior.heads == 1:
        yield values[None], one.rows, ()
    elif values.ndim == 2:
        yield values[:, None, :], np.array([values.shape[1] - 1]), ()
        if prior is None or values.shape[1] == prior.heads:
            yield values.T[:, None, :], np.array([values.shape[0] - 1]), (kinds.Transposed((1, 0)),)
    elif values.ndim == 3 and values.shape[1] <= values.shape[2]:
        yield values, one.rows, ()
    elif values.ndim == 3 and one.whole and values.shape[0] == values.shape[1]:
        yield values.transpose(2, 0, 1), np.arange(len(values)), (kinds.Transposed((1, 2, 0)),)


def _forms(values: Floats, queries: Indices, edits: tuple[Edit, ...]) -> Iterator[Bias]:
    """Slopes by least squares, in every form that the places of the mask allow."""
    masked = ~np.isfinite(values) | (values <= MASKED) | (values >= NEGATED_MASK)
    if len(queries) != values.shape[1] or np.isnan(values).any() or (masked != masked[:1]).any():
        return
    distance = np.subtract.outer(queries, np.arange(values.shape[2])).astype(np.float64)
    ends = [values[masked].min(), values[masked].max()] if masked.any() else []
    for mask, region, more in _regions(values, masked[0], distance):
        unmasked = values[:, ~region]
        size = rms(unmasked)
        for form, products, extra in _steps(distance, values.shape[2], mask):
            steps = products[~region]
            power, count = float(steps @ steps), np.count_nonzero(steps)
            if count < 4 or (len(queries) == 1 and form in ("symmetric", "causal")):
                continue
            slopes = unmasked @ steps / power
            if (
                float(np.linalg.norm(slopes)) * math.sqrt(power / unmasked.size)
                < MIN_EXPLAINED * size
            ):
                continue
            left = unmasked - np.multiply.outer(slopes, steps)
            noise = rms(left)
            sign: tuple[Edit, ...] = (kinds.Negated("all"),) if np.median(slopes) < 0 else ()
            sense = -1 if sign else 1
            slopes = sense * slopes
            if slopes.min() <= -4 * noise / math.sqrt(power) or not noise <= MAX_NOISE * size:
                continue
            relative = _relative(values)
            floor = np.maximum(
                np.sqrt(np.mean(left**2, axis=1)), rounding(unmasked)[1] / math.sqrt(3)
            )
            floor = np.maximum(floor, noise if noise > 1e-3 * size and relative < 1e-5 else 0)
            repeats = math.sqrt(
                count / len(np.unique(steps[steps != 0]))
            )  # rounding is the same along a diagonal
            reach = float(np.abs(steps).max())
            few = (
                np.abs(slopes) * reach < FEW_STEPS * QUANTUM * floor
            )  # a step of rounding is all that is known then
            errors = repeats * floor / math.sqrt(power) + relative * np.abs(slopes)
            errors = errors + np.where(few, 1.0, 0.4) * QUANTUM * floor / reach
            masks = sorted({f"{sense * value:.2g}" for value in ends} - {"-inf"})
            every = (*edits, *sign, *map(kinds.Mask, masks), *more, *extra)
            yield Bias(slopes, errors, every, noise, unmasked, sense * steps, form, values.shape[2])


def _regions(
    values: Floats, masked: Flags, distance: Floats
) -> Iterator[tuple[str, Flags, tuple[Edit, ...]]]:
    """Where the mask is, as a word for the form it makes; and what is unusual about it."""
    above, below = distance < 0, distance > 0
    if masked.any():
        places: tuple[tuple[Flags, tuple[Edit, ...]], ...] = (
            (above, ()),
            (~below, (kinds.Mask("the diagonal, too"),)),
            (below, (kinds.Transposed((0, 2, 1)),)),
            (masked, (kinds.Mask("at other places"),)),
        )
        yield (
            "causal",
            masked,
            next(words for place, words in places if np.array_equal(masked, place)),
        )
        return
    if len(distance) > 1 and not values[:, above].any() and values[:, below].any():
        yield "causal", above, (kinds.Mask("0"),)
    yield "", np.zeros(distance.shape, bool), ()


def _steps(
    distance: Floats, length: int, mask: str
) -> Iterator[tuple[str, Floats, tuple[Edit, ...]]]:
    """What slopes are multiplied by in each form."""
    keys = np.broadcast_to(np.arange(length, dtype=np.float64), distance.shape)
    for further, spelt in ((1, "i − j + 1"), (-1, "i − j − 1")):
        if len(distance) > 1:
            edit = kinds.Parameter("distance", "i − j", spelt)
            yield "causal" if mask else "symmetric", -(np.abs(distance) + further), (edit,)
    if mask:
        yield "causal", -np.abs(distance), ()
        yield "key", keys, (kinds.Mask("causal"),)
        return
    yield "symmetric", -np.abs(distance), ()
    yield "key", keys, ()
    yield "key-last", keys - (length - 1), ()
    if len(distance) > 1:
        yield "causal", -distance, (kinds.Mask("m·(j−i) above the diagonal"),)


def _by_rule(
    one: Sample, bias: Bias, prior: Alibi | None, rule: str, *, permuted: bool, scaled: bool
) -> Iterator[Explanation]:
    """Slopes as 2^(−max_bias · exponents of a rule)."""
    slopes, errors = bias.slopes, bias.errors
    exponents = -np.log2(
        np.array(Alibi(len(slopes), rule=rule, max_bias=1.0, dtype="float64").slope_values())
    )
    moved: tuple[Edit, ...] = ()
    order = np.arange(len(slopes))
    if permuted:
        order[np.argsort(-slopes, kind="stable")] = np.argsort(exponents, kind="stable")
        back = np.arange(len(order))[::-1]
        if (np.abs(slopes[order] - slopes[back]) <= SIGMAS * (errors[order] + errors[back])).all():
            order = back  # heads of nearly the same slope may have changed places
        if np.array_equal(order, back[::-1]):
            return
        exponents = exponents[order]
        moved = (kinds.Heads("reversed" if np.array_equal(order, back) else tuple(order.tolist())),)
    known = slopes > 2 * errors
    logs, weights, inside = (
        -np.log2(slopes[known]),
        (slopes[known] / errors[known]) ** 2,
        exponents[known],
    )
    design = np.stack([inside, np.ones_like(inside)] if scaled else [inside])
    covariance = np.linalg.pinv((design * weights) @ design.T)
    value = float((covariance @ (design * weights) @ logs)[0])
    error = SIGMAS * 1.5 * math.sqrt(max(0.0, covariance[0, 0]))
    own = (prior.max_bias,) if prior else ()
    for max_bias in dict.fromkeys((*own, *USUAL, plainest(value, error + 1e-9))):
        if (
            abs(max_bias - value) > error + MAX_ROUNDED * value
            or not MIN_BIAS <= max_bias <= MAX_BIAS
        ):
            continue
        factor = 2.0 ** -float(np.average(logs - max_bias * inside, weights=weights))
        doubt = factor * 5 / math.sqrt(weights.sum()) + 1e-9
        root = (
            2.0 ** (round(2 * math.log2(factor)) / 2)
            if MIN_FACTOR < factor < 1 / MIN_FACTOR
            else math.inf
        )
        by = (
            root if abs(root - factor) <= doubt else plainest(factor, doubt)
        )  # where exponents are off by some steps
        by = by if scaled else 1.0
        if scaled and by == 1:
            continue
        alone: dict[str, Any] = (
            {"form": bias.form, "seq_len": bias.length} if bias.form else {"slopes": True}
        )
        scheme = Alibi(len(slopes), rule=rule, max_bias=max_bias, dtype=one.float_dtype, **alone)
        skipped = ("slopes",) if bias.form else ("slopes", "form", "seq_len")
        named = (
            {edit.name: edit for edit in parameter_edits(prior, scheme, skipped)}
            if prior is not None
            else {}
        )
        heads = 1 << (len(slopes) - 1).bit_length()  # slopes may be the first of as many
        if {"rule", "max_bias"} <= {*named} and max_bias * heads == named[
            "max_bias"
        ].expected * len(slopes):
            named["rule"] = kinds.Parameter("slopes of heads", len(slopes), heads)
            del named["max_bias"]
        differences = tuple(named.values())
        own_edits = (
            bias.edits if prior is None else tuple(edit for edit in bias.edits if edit not in MASKS)
        )
        edits = (*own_edits, *differences, *moved, *((kinds.Scaled(by),) if scaled else ()))
        extra = 0.0 if max_bias in (*own, 8.0) else 0.1 * digits(max_bias)
        extra += 0.3 * (prior is None) * ((rule == "naive") + (not bias.form))
        exact = by * np.array(scheme.slope_values())[order]
        for dtype in ("float64", "bfloat16", "float16"):
            right = np.tile(widened(round_to(exact, dtype)), len(bias.values) // len(exact))
            leaves: Any = Errors(
                bias.values - np.multiply.outer(right, bias.multiples), bias.values
            )
            rounded = () if dtype == "float64" else (kinds.Parameter("slopes", "exact", dtype),)
            compared = None if one.whole else kinds.ComparedRows(len(one.rows), one.shape[-2])
            if (
                compared
                and (*edits, *rounded) == differences
                and scheme.single_array().shape == one.shape
            ):
                leaves, compared = partial(_bias_errors, scheme), None  # all rows are, then
            yield Explanation(
                (*edits, *rounded), scheme, (one.name,), leaves, extra, compared=compared
            )


def _bias_errors(scheme: Alibi, samples: Samples) -> Errors:
    (one,) = samples.values()
    return recipe_search.scheme_errors(scheme)({"bias": one})
