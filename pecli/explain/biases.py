"""Tables by query and key: ALiBi's slopes, measured head by head in every form and explained by a rule; integers, by
whose buckets or which window they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from pecli.engine.arrays import Flags, Floats, Indices
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.relative import Relative
from pecli.errors import ParameterError
from pecli.explain.edits import Edit, Explanation, Heads, Mask, Negated, Repeated, Scaled, Transposed, parameter_edits
from pecli.explain.sample import Sample, digits, plainest, rounding
from pecli.explain.waves import FEW_STEPS, QUANTUM

MAX_HEADS, MAX_SURE_HEADS = 4096, 512
MASKED = -1e4
"""Values below this are masks."""
MAX_NOISE = 0.05
"""Of the values: beyond it nothing is a bias of this kind."""
MIN_EXPLAINED = 0.99
"""Of the values, by slopes: with less, the noise is beyond MAX_NOISE, and need not be measured."""
USUAL = (8.0, 16.0, 4.0, 10.0, 32.0, 2.0)
"""Values of max_bias."""
SIGMAS = 5.0
TRIED_HEADS = 16
"""Looked at first, where nothing is known: a table none of whose forms comes near in these is no bias."""


@dataclass(frozen=True)
class Bias:
    """Slopes in a form, with their errors, and what is left of the values."""

    slopes: Floats
    errors: Floats
    form: str
    edits: tuple[Edit, ...]
    noise: float
    residual: float
    length: int | None
    known: Flags


@dataclass(frozen=True)
class Rule:
    """Slopes by a rule, the edits that make them those at hand, and how far-fetched that is."""

    rule: str
    max_bias: float
    edits: tuple[Edit, ...]
    cost: float
    left: float
    """The largest difference of a slope."""


def explain_bias(one: Sample, prior: Alibi | None, name: str) -> list[Explanation]:
    """Explanations of a bias, or of slopes alone."""
    found: list[Explanation] = []
    alone = {"slopes", "form", "seq_len"} if name == "slopes" else {"slopes"}
    for bias in map(_without_batch, _slopes_alone(one) if name == "slopes" else _biases(one, prior)):
        for rule in _rules(bias, prior):
            scheme = _scheme(one, bias, rule)
            differences = parameter_edits(prior, scheme, alone) if prior is not None and scheme is not None else ()
            extra = rule.cost + 0.3 * (prior is None and bias.form == "")
            left = rule.left if name == "slopes" else bias.residual
            edits = (*bias.edits, *differences, *rule.edits)
            found.append(Explanation(edits, scheme, left, bias.noise, (one.name,), (), extra))
        if found:
            break
    return sorted(found, key=lambda each: each.cost)[:4]


def recognise_bias(one: Sample, name: str) -> Iterator[Explanation]:
    """Those that are sure with nothing known before: enough heads in their order, a plain max_bias."""
    for each in explain_bias(one, None, name):
        scheme: Any = each.scheme
        loose = any(isinstance(edit, (Scaled, Heads)) for edit in each.edits)
        if scheme is None or loose or not 3 <= scheme.heads <= MAX_SURE_HEADS:
            continue
        if scheme.max_bias >= 1 and digits(scheme.max_bias) <= 3:
            yield each


def _without_batch(bias: Bias) -> Bias:
    """Heads once, where a batch has them several times over."""
    heads, slopes = len(bias.slopes), bias.slopes
    for times in (each for each in range(heads // 2, 1, -1) if heads % each == 0):
        parts = slopes.reshape(times, -1)
        if parts.shape[1] > 2 and (np.abs(parts - parts[0]) <= SIGMAS * bias.errors.reshape(times, -1)).all():
            part = slice(0, heads // times)
            kept = replace(bias, slopes=slopes[part], errors=bias.errors[part], known=bias.known[part])
            return replace(kept, edits=(Repeated(0, times), *bias.edits))
    return bias


def _scheme(one: Sample, bias: Bias, rule: Rule) -> Alibi | None:
    dtype = one.dtype if one.dtype in ("float64", "float32", "float16", "bfloat16") else "float32"
    try:
        alone = bias.length is None
        more = {"slopes": True} if alone else {"form": bias.form, "seq_len": bias.length}
        return Alibi(len(bias.slopes), rule=rule.rule, max_bias=rule.max_bias, dtype=dtype, **more)
    except ParameterError:
        return None


def _slopes_alone(one: Sample) -> Iterator[Bias]:
    """Slopes as they are; with more and more noise, since a vector does not show how much there is."""
    values = one.values.reshape(-1)
    if not np.isfinite(values).all() or len(values) < 2 or not values.any():
        return
    sign: tuple[Edit, ...] = (Negated("all"),) if values.sum() < 0 else ()
    size = -values if sign else values
    relative = _relative(values)
    for noise in (1e-8, 4e-7, 3e-5, 2e-4, 3e-3 * float(size.max())):
        errors = np.hypot(noise, relative * np.abs(size))
        if (size > -3 * errors).all():
            yield Bias(size, errors, "", sign, noise, noise, None, size > 3 * errors)


def _relative(values: Floats) -> float:
    """The relative error of values in the dtype that has them all."""
    return 0.8 * rounding(values)[0] or 1e-6


def _biases(one: Sample, prior: Alibi | None) -> Iterator[Bias]:
    """The bias in the forms that come near, the nearest first."""
    for values, queries, edits in _arrays(one, prior):
        some = values[:: max(1, len(values) // TRIED_HEADS)]
        if prior is None and not any(any(_forms(sign * some, queries, edits)) for sign in (1, -1)):
            continue
        found = [
            each
            for sign in (1, -1)
            for each in _forms(sign * values, queries, edits if sign > 0 else (*edits, Negated("all")))
        ]
        found = [bias for bias in found if math.isfinite(bias.noise)]
        if found:
            found.sort(key=lambda bias: (round(math.log2(bias.noise + 1e-12)), sum(edit.cost for edit in bias.edits)))
            yield from (bias for bias in found if bias.noise < 4 * found[0].noise + 1e-9)


def _arrays(one: Sample, prior: Alibi | None) -> Iterator[tuple[Floats, Indices, tuple[Edit, ...]]]:
    """(heads, queries, keys), whatever axes of length 1 there are, whichever axis the heads are, copies taken away."""
    values, rows = one.values, one.rows
    shape = [size for size in values.shape if size != 1]
    values = values.reshape(shape) if shape else values.reshape(1, 1)
    edits: tuple[Edit, ...] = ()
    if values.ndim == 4 and all(np.array_equal(values[0], each, equal_nan=True) for each in values[1:]):
        edits, values = (Repeated(0, len(values)),), values[0]
    heads = prior.heads if prior else None
    if values.ndim == 2 and heads == 1:
        yield values[None], rows, edits
    elif values.ndim == 2:
        yield values[:, None, :], np.array([values.shape[1] - 1]), edits
        if prior is None or values.shape[1] == heads:
            yield values.T[:, None, :], np.array([values.shape[0] - 1]), (*edits, Transposed((1, 0)))
    elif values.ndim == 3:
        if values.shape[1] <= values.shape[2]:
            yield values, rows, edits
        if one.whole and values.shape[0] == values.shape[1] != values.shape[2]:
            yield values.transpose(2, 0, 1), np.arange(len(values)), (*edits, Transposed((1, 2, 0)))


def _forms(values: Floats, queries: Indices, edits: tuple[Edit, ...]) -> Iterator[Bias]:
    """Slopes by least squares, in every form that the places of the mask allow."""
    if len(queries) != values.shape[1]:
        return
    keys, finite = np.arange(values.shape[2]), np.isfinite(values)
    if not finite.all() and (values[~finite] != -np.inf).any():
        return
    masked = values <= MASKED
    if (masked != masked[:1]).any():
        return
    distance = np.subtract.outer(queries, keys).astype(np.float64)
    for mask, region, more in _regions(values, masked[0], distance):
        here = ~region
        kept = values[:, here]
        size = float(np.linalg.norm(kept)) / math.sqrt(max(1, kept.size))
        for form, steps, extra in _steps(distance, keys, values.shape[2], mask):
            if len(queries) == 1 and form in ("symmetric", "causal"):
                continue
            steps = steps[here]
            power, count = float(steps @ steps), np.count_nonzero(steps)
            if not power or count < 4:
                continue
            slopes = kept @ steps / power
            explained = float(np.linalg.norm(slopes)) * math.sqrt(power / kept.size)
            if np.median(slopes) <= 0 or explained < MIN_EXPLAINED * size:
                continue
            left = kept - np.multiply.outer(slopes, steps)
            noise = float(np.sqrt(np.mean(left**2)))
            if slopes.min() <= -4 * noise / math.sqrt(power) or noise > MAX_NOISE * size:
                continue
            relative = _relative(values)
            each = np.sqrt(np.mean(left**2, axis=1))
            floor = np.maximum(each, noise if noise > 1e-3 * size and relative < 1e-5 else 0)
            repeats = math.sqrt(count / len(np.unique(steps[steps != 0])))  # rounding is the same along a diagonal
            errors = repeats * floor / math.sqrt(power) + relative * np.abs(slopes)
            reach = float(np.abs(steps).max())
            few = np.abs(slopes) * reach < FEW_STEPS * QUANTUM * floor  # a step of rounding is all that is known then
            errors = errors + np.where(few, 1.0, 0.4) * QUANTUM * floor / reach
            yield Bias(
                slopes,
                errors,
                form,
                (*edits, *more, *extra),
                noise,
                float(np.abs(left).max()),
                values.shape[2],
                slopes > 2 * errors,
            )


def _regions(values: Floats, masked: Flags, distance: Floats) -> Iterator[tuple[str, Flags, tuple[Edit, ...]]]:
    """Where the mask is, as a word for the form it makes; and what is unusual about it."""
    above, below, diagonal = distance < 0, distance > 0, distance <= 0
    if masked.any():
        value = float(values[0][masked][0])
        other: tuple[Edit, ...] = () if value == -np.inf else (Mask(f"{value:.2g}"),)
        if np.array_equal(masked, above):
            yield "causal", above, other
        elif np.array_equal(masked, diagonal):
            yield "causal", diagonal, (*other, Mask("the diagonal, too"))
        elif np.array_equal(masked, below):
            yield "causal", below, (*other, Transposed((0, 2, 1)))
        else:
            yield "other", masked, (*other, Mask("at other places"))
        return
    if len(distance) > 1 and not values[:, above].any() and values[:, below].any():
        yield "causal", above, (Mask("0"),)
    yield "", np.zeros(distance.shape, bool), ()


def _steps(distance: Floats, keys: Indices, length: int, mask: str) -> Iterator[tuple[str, Floats, tuple[Edit, ...]]]:
    """What slopes are multiplied by in each form."""
    every = np.broadcast_to(keys.astype(np.float64), distance.shape)
    if mask != "":
        yield "causal", -np.abs(distance), ()
        yield "key", every, (Mask("causal"),)
        return
    yield "symmetric", -np.abs(distance), ()
    yield "key", every, ()
    yield "key-last", every - (length - 1), ()
    if len(distance) > 1:
        yield "causal", -distance, (Mask("m·(j−i) above the diagonal"),)


def _exponents(heads: int, rule: str) -> Floats:
    """Slopes are 2^(−max_bias · these)."""
    return np.asarray(-np.log2(np.array(Alibi(heads, rule=rule, max_bias=1.0, dtype="float64").slope_values())))


def _rules(bias: Bias, prior: Alibi | None) -> Iterator[Rule]:
    """The rules that give the slopes: the prior's first, in order, in another order, times a factor."""
    heads = len(bias.slopes)
    if heads > MAX_HEADS:
        return
    first = prior.rule if prior else "paper"
    for permuted in (False, True):
        for scaled in (False, True):
            found = [
                each
                for rule in dict.fromkeys((first, "paper", "naive"))
                for each in _rule(bias, prior, rule, _exponents(heads, rule), permuted=permuted, scaled=scaled)
            ]
            if found:
                yield from sorted(found, key=lambda each: each.cost)[:2]
                return


def _rule(
    bias: Bias, prior: Alibi | None, rule: str, exponents: Floats, *, permuted: bool, scaled: bool
) -> Iterator[Rule]:
    slopes, errors, known = bias.slopes, bias.errors, bias.known
    edits: tuple[Edit, ...] = ()
    if permuted:
        order = np.empty(len(slopes), np.intp)
        order[np.argsort(-slopes, kind="stable")] = np.argsort(exponents, kind="stable")
        back = np.arange(len(order))[::-1]
        if (np.abs(slopes[order] - slopes[back]) <= SIGMAS * (errors[order] + errors[back])).all():
            order = back  # heads of nearly the same slope may have changed places
        if np.array_equal(order, back[::-1]):
            return
        exponents = exponents[order]
        edits = (Heads("reversed" if np.array_equal(order, back) else tuple(order.tolist())),)
    if known.sum() < 2:
        return
    logs, weights = -np.log2(np.maximum(slopes[known], 1e-300)), (slopes[known] / errors[known]) ** 2
    inside = exponents[known]
    design = np.stack([inside, np.ones_like(inside)] if scaled else [inside])
    covariance = np.linalg.pinv((design * weights) @ design.T)
    value = float((covariance @ (design * weights) @ logs)[0])
    error = SIGMAS * 1.5 * math.sqrt(covariance[0, 0])
    own = (prior.max_bias,) if prior else ()
    for candidate in dict.fromkeys((*own, *USUAL, plainest(value, error + 1e-9))):
        if abs(candidate - value) > error + 1e-6 * value or not 0 < candidate <= 256:
            continue
        factor = 2.0 ** -float(np.average(logs - candidate * inside, weights=weights))
        by = plainest(factor, factor * 5 / math.sqrt(weights.sum()) + 1e-9) if scaled else 1.0
        off = np.abs(slopes - by * 2.0 ** (-candidate * exponents))
        if (off <= SIGMAS * errors + 1e-12).all():
            cost = 0.0 if candidate in (*own, 8.0) else 0.1 * digits(candidate)
            cost += 0.3 * (rule == "naive" and prior is None)
            yield Rule(rule, candidate, (*edits, Scaled(by)) if scaled else edits, cost, float(off.max()))
            return


BUCKETS = (32, 256, 64, 128, 16, 512, 320, 8, 24, 48, 96, 192, 1024)
DISTANCES = (128, 512, 64, 256, 1024, 800, 2048, 32, 16, 20, 100, 200, 4096)
"""What models have, the likeliest first."""
MAX_LENGTH = 2048


def recognise_index(samples: Mapping[str, Sample]) -> Iterator[Explanation]:
    """The scheme of relative positions that makes a table."""
    one = next(iter(samples.values()))
    values = one.values
    if (
        len(samples) > 1
        or values.ndim != 2
        or values.shape[0] != values.shape[1]
        or not 3 <= len(values) <= MAX_LENGTH
        or not one.whole
    ):
        return
    if np.iscomplexobj(values) or not np.array_equal(values, np.rint(values)) or not values.any():
        return
    for scheme in _candidates(values.astype(np.intp)):
        if np.array_equal(scheme.rows(0, len(values)), values):
            yield Explanation((), scheme, 0.0, 0.0, tuple(samples))
            return


def _candidates(index: Indices) -> Iterator[Relative]:
    length = len(index)
    if np.array_equal(index[1:, 1:], index[:-1, :-1]):
        after, before = index[0], index[:, 0]
        style = {"style": "deberta"} if after[1] == -1 else {"style": "t5", "causal": not after.any()}
        counts = (2 * (int(after[1]) - 1),) if after[1] > 1 else BUCKETS
        for count, distance in product(counts, (*DISTANCES, *(range(3, 4 * length) if length <= 128 else ()))):
            scheme = _made(seq_len=length, buckets=count, max_distance=distance, **style)
            if scheme is None or not np.array_equal(scheme.rows(0, 1)[0], after):
                continue
            if np.array_equal(scheme.rows(length - 1, length)[0][::-1], before):
                yield scheme
    for height in (each for each in range(1, length + 1) if length % each == 0):
        if (scheme := _made(style="swin", grid=(height, length // height))) is not None:
            yield scheme


def _made(**parameters: Any) -> Relative | None:
    try:
        return Relative(**parameters)
    except ParameterError:
        return None
