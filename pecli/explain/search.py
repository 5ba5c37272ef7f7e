"""The search itself: tensors and a prior in, explanations out, the best first.

The prior is all that differs between commands: a scheme (`explain`), another table (`explain_pair`), or none
(`recognise`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, combinations, islice
from typing import Any

import numpy as np

from pecli.engine.arrays import Array, dtype_name, holds, numpy_dtype
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.explain.acceptance import accepted
from pecli.explain.alibi_slopes import explain_bias, recognise_bias
from pecli.explain.array_transforms import transform
from pecli.explain.edits import (
    Bits,
    Edit,
    Errors,
    Explanation,
    Incomplete,
    Layout,
    Parameter,
    Recipe,
    RowRange,
    Rows,
    Swapped,
    best,
    merged,
    parameter,
    parameter_edits,
)
from pecli.explain.forms import halved, joined
from pecli.explain.frequency_fit import explain_frequencies, recognise_frequencies
from pecli.explain.locate import Located, explain_part, located
from pecli.explain.position_recovery import recognise_grid, recognise_positions
from pecli.explain.recipe_search import (
    NOWHERE,
    distance,
    explain_computed,
    explain_parameter,
    recognise_narrow,
    scheme_errors,
    tables_of,
)
from pecli.explain.sample import Sample, precision, sample, wide
from pecli.explain.sinusoid_schemes import wave_scheme
from pecli.explain.sinusoid_search import explain_waves
from pecli.explain.time_limit import check_time, limited

WAVES = ("cos", "sin", "cos_sin", "pe")
MAX_TRANSFORMED = 1 << 22
"""Elements of an expected table that is made whole."""
MAX_COMPARED = 1 << 24
"""Elements of two tables that are compared with each other."""
MAX_VECTOR = 1 << 14
"""Elements of a vector that may be frequencies or slopes."""
MIN_RANGE = 16
"""Rows that are right, and rows that are a table of their own, where both are in one."""
MIN_ANGLE = 2.0
"""The largest of a table that may be angles: cosines and sines, even times an attention factor, are smaller."""
UNITS = 4
"""Of the last place, by which an explanation may be off values of order one."""

Samples = Mapping[str, Sample]
Searches = Sequence[tuple[Callable[[Any, Samples, float], Explanation | None], Callable[[Samples], list[Samples]]]]


def explain(prior: Scheme, found: Mapping[str, Array], atol: float = 0.0) -> list[Explanation]:
    """Why tables of a scheme, by its names for them, are not what it makes: for each group of them the best reason."""
    if prior.holds_several:
        return _by_part(prior, found, atol)
    out: list[Explanation] = []
    found = {name: array for name, array in found.items() if array.size}
    with limited():
        if (bits := _by_bits(prior, found, atol)) is not None:
            return [bits]
        samples = {name: sample(name, array) for name, array in found.items()}
        samples = {name: one for name, one in samples.items() if np.isfinite(one.values).any() or name == "inv_freq"}
        out.extend(_completed(prior, samples, found, atol))  # those before the time is up stay
        samples = {name: one for name, one in samples.items() if not any(name in each.tensors for each in out)}
        out.extend(_explained(prior, samples, found, atol))
    return merged(out)


def _completed(prior: Scheme, samples: Samples, arrays: Mapping[str, Array], atol: float) -> Iterator[Explanation]:
    """Of tables that were written before they were complete: that, and what else is wrong with them."""
    for edit in (Incomplete("halves"), Incomplete("interleaved"), Incomplete("angles")):
        waves = {name: _finished(edit.found, one) for name, one in samples.items() if name in ("cos", "sin")}
        done = {name: one for name, one in waves.items() if one is not None}
        if not done or len(done) < len(waves):
            continue
        whole = {name: _finished(edit.found, sample(name, arrays[name], whole=True)) for name in done}
        finished = {name: one.values for name, one in whole.items() if one is not None}
        if len(finished) < len(done):
            continue
        size = max(1.0, *(float(np.abs(samples[name].values).max()) for name in done))  # of angles, say
        limit = max(atol, size * UNITS * max(precision(one.dtype) for one in done.values()))
        alone = Explanation((edit,), prior, 0.0, 0.0, tuple(done), errors=scheme_errors(prior))
        if (right := accepted(alone, done, finished, limit, prior.dtype)) is not None:
            yield right
            return
        others = _explained(prior, done, finished, limit)
        yield from (replace(each, edits=(edit, *each.edits)) for each in others)


def _finished(step: str, one: Sample) -> Sample | None:
    """The table after the step that is missing; None where that is not what it lacks."""
    values = one.values
    if values.ndim < 2 or np.iscomplexobj(values) or not np.isfinite(values).all():
        return None
    if step == "angles":
        rows, size = (one.rows - one.rows[0])[:, None], np.abs(values).max()
        bent = values - values[..., :1, :] - rows * ((values[..., -1:, :] - values[..., :1, :]) / max(1, rows[-1, 0]))
        steady = size > MIN_ANGLE and len(rows) > 2 and np.abs(bent).max() <= UNITS * precision(one.dtype) * size
        return replace(one, values=(np.cos if one.name == "cos" else np.sin)(values)) if steady else None
    first, second = halved(values, step)
    return replace(one, values=joined([first, first], step)) if first.any() and not second.any() else None


def _by_part(prior: Any, found: Mapping[str, Array], atol: float) -> list[Explanation]:
    """The same of several schemes in one, each by its own part of the names."""
    out: list[Explanation] = []
    for part, scheme in prior.parts:
        own = {name.removeprefix(f"{part}."): table for name, table in found.items() if name.startswith(f"{part}.")}
        found_here = explain(scheme, own, atol)
        out += [replace(each, tensors=tuple(f"{part}.{name}" for name in each.tensors)) for each in found_here]
    return out


def _explained(
    prior: Scheme, samples: Samples, arrays: Mapping[str, Array], atol: float, searches: Searches | None = None
) -> Iterator[Explanation]:
    """By the first search that explains a group of tensors."""
    unexplained = dict(samples)
    for search, groups in searches or SEARCHES:
        for group in groups(unexplained):
            found = search(prior, group, atol) if group else None
            right = accepted(found, group, arrays, atol, prior.dtype) if found is not None else None
            if right is not None:
                yield right
                unexplained = {name: one for name, one in unexplained.items() if name not in group}


def _together(samples: Samples) -> list[Samples]:
    return [samples]


def _each(samples: Samples) -> list[Samples]:
    return [{name: one} for name, one in samples.items()]


def _waves(samples: Samples) -> list[Samples]:
    """Tables of waves: together, where they are of one shape."""
    waves = {name: samples[name] for name in WAVES if name in samples}
    return [waves] if len({one.shape for one in waves.values()}) == 1 else _each(waves)


BITS = {"bfloat16": "uint16 int16", "float16": "uint16 int16", "float32": "uint32 int32", "swapped": "float32 float64"}
"""What numbers of a dtype may be the bits of."""


def _by_bits(prior: Scheme, arrays: Mapping[str, Array], atol: float) -> Explanation | None:
    """Numbers of the prior's, of which the file has the bits."""
    for found, dtypes in BITS.items():
        if arrays and all(dtype_name(array.dtype) in dtypes.split() for array in arrays.values()):
            samples = {name: sample(name, _reread(array, found)) for name, array in arrays.items()}
            off, limit = distance(prior, samples), max(atol, UNITS * precision(found))
            some = any((np.abs(one.values) > limit).any() for one in samples.values())  # most bits are those of zero
            if some and off.largest <= limit:
                return Explanation((Bits(found),), prior, off.largest, off.root_mean_square, tuple(arrays))
    return None


def _reread(array: Array, found: str) -> Array:
    """The bits read as another dtype, or the bytes in reverse order."""
    return array.byteswap() if found == "swapped" else np.ascontiguousarray(array).view(numpy_dtype(found))


def _by_neighbour(prior: Any, waves: Samples, atol: float) -> Explanation | None:
    """A known mistake in where the rows are, of a scheme whose rows do not follow each other."""
    if getattr(prior, "is_range", True):
        return None
    known = list(prior.neighbours())
    if prior.positions is not None:
        edit = {"edit": "parameter", "name": "positions", "expected": "those given", "found": "0, 1, 2, …"}
        known.append(((edit,), replace(prior, positions=None, seq_len=next(iter(waves.values())).shape[-2])))
    every = ((distance(scheme, waves), edits, scheme) for edits, scheme in known)
    off, edits, scheme = min(every, key=lambda each: each[0].root_mean_square, default=(NOWHERE, (), prior))
    other = _other_scheme(prior, waves, atol)
    if other is not None and other.residual < off.largest:
        return other
    named = tuple(_edit(**edit) for edit in edits)
    return Explanation(named, scheme, off.largest, 0.0, tuple(waves), errors=scheme_errors(scheme)) if named else None


def _edit(edit: str, expected: Any, found: Any, name: str = "") -> Edit:
    return Layout(expected, found) if edit == "layout" else parameter(name, expected, found)


def _by_waves(prior: Scheme, waves: Samples, atol: float) -> Explanation | None:
    """The waves of other parameters or another layout."""
    expected = wave_scheme(prior, tuple(waves))
    return next(iter(best(explain_waves(waves, expected, atol))), None) if expected is not None else None


def _other_scheme(prior: Scheme, waves: Samples, atol: float) -> Explanation | None:
    """The scheme that the tables are, where it is of the same kind: its parameters are the difference."""
    found = next(chain(recognise_grid(waves), recognise_positions(waves)), None)
    scheme: Any = found and found.scheme
    if found is None or scheme is None or scheme.name != prior.name:
        return None
    is_range = getattr(prior, "is_range", True)
    places = {*(scheme.positions or ())}
    if is_range and (len(places) == 1 or places == {*range(next(iter(waves.values())).shape[-2])}):
        return None  # one row of a range, or all in another order
    edits = parameter_edits(prior, scheme, ("seq_len", "offset") if is_range else ())
    named = [Parameter(each.name, each.expected, "others") if each.name == "positions" else each for each in edits]
    return replace(found, edits=tuple(named), tensors=tuple(waves)) if named else None


def _by_kind(prior: Any, alone: Samples, atol: float) -> Explanation | None:
    """By what a tensor of that name is: frequencies, slopes."""
    ((name, one),) = alone.items()
    found: list[Explanation] = []
    if name == "inv_freq" and (expected := wave_scheme(prior, ("inv_freq",))) is not None:
        found = explain_frequencies(one, expected)
    elif name in ("slopes", "bias") and "max_bias" in prior.parameters():
        found = explain_bias(one, prior, name, atol)
    return next(iter(found), None)


def _by_parameter(prior: Scheme, samples: Samples, atol: float) -> Explanation | None:
    """One other parameter, in schemes of which no more is known."""
    if {"max_bias", "seed"} & {*prior.parameters()} or wave_scheme(prior, tuple(samples)) is not None:
        return None
    return explain_parameter(prior, samples, atol)


def _transformed(prior: Scheme, alone: Samples, atol: float) -> Explanation | None:
    """A transform of the expected table."""
    ((name, one),) = alone.items()
    table = tables_of(prior.in_dtype("float64")).get(name)
    if table is None or not one.whole or table.size > max(MAX_TRANSFORMED, one.values.size):
        return None
    found = transform(table.array().astype(np.float64), one.values, max(atol, _units(one)), (name,))
    return found and replace(found, edits=tuple(_at_position(prior, edit) for edit in found.edits))


def _at_position(prior: Scheme, edit: Edit) -> Edit:
    """An edit that says a position, of one that says a row."""
    if isinstance(edit, Rows) and edit.order == "constant":
        return Rows("constant", (edit.at or 0) + prior.first_position)
    return edit


def _by_range(prior: Any, waves: Samples, atol: float) -> Explanation | None:
    """Rows up to one, or from one on, as a table of their own, where all others are right."""
    every = [located(prior, one, 0.0) for one in waves.values()] if getattr(prior, "is_range", False) else [None]
    cuts = {found.first_wrong_row if found is not None else None for found in every}
    cut = cuts.pop() if len(cuts) == 1 else None
    if cut is None or every[0] is None:
        return None
    length, after = prior.seq_len, bool(every[0].along((-2,))[-1])
    if not MIN_RANGE <= cut <= length - MIN_RANGE:
        return None
    first, last = (cut, length - 1) if after else (0, cut - 1)
    part = replace(prior, offset=prior.offset + first, seq_len=last - first + 1)
    arrays = {name: one.values[..., first : last + 1, :].astype(one.dtype) for name, one in waves.items()}
    samples = {name: sample(name, array) for name, array in arrays.items()}
    found = next(_explained(part, samples, arrays, atol, SEARCHES[3:]), None)
    if found is None or {*found.tensors} != {*waves}:
        return None
    if any(isinstance(edit, Rows) or getattr(edit, "name", "") == "offset" for edit in found.edits):
        return None  # an order of rows, which is one of the whole table
    edits = (*found.edits, RowRange(first, last))
    return replace(found, edits=edits, scheme=None, errors=None, residual=found.residual)


SEARCHES: Searches = (
    (lambda prior, samples, atol: explain_computed(prior, samples), _together),
    (partial(explain_part, surely=True), _each),
    (_by_range, _waves),
    (_by_neighbour, _waves),
    (_by_waves, _waves),
    (_other_scheme, _waves),
    (_by_kind, _each),
    (_by_parameter, _together),
    (_transformed, _each),
    (partial(explain_part, surely=False), _each),
)
"""Each with the tensors that it explains at once."""


def _units(one: Sample) -> float:
    """The rounding error that a value may have."""
    size = np.abs(one.values[np.isfinite(one.values)])
    return UNITS * precision(one.dtype) * (float(np.quantile(size, 0.9)) if size.size else 1.0)


def explain_pair(name: str, one: Array, other: Array, atol: float = 0.0) -> Explanation | None:
    """What makes the second array of the first."""
    if max(one.size, other.size) > MAX_COMPARED or not one.size or not other.size:
        return None
    with limited():
        theirs = sample(name, other)
        ours = sample(name, one, whole=theirs.whole)
        limit = max(atol, _units(ours), _units(theirs))
        found = transform(ours.values, theirs.values, limit, (name,))
        if found is None and ours.shape == theirs.shape:
            left = np.where(ours.values == theirs.values, 0.0, theirs.values - ours.values)
            found = Located(theirs, Errors(left, theirs.values), ~(np.abs(left) <= limit)).explanation()
        return found and accepted(found, {name: theirs}, {name: other}, limit, theirs.float_dtype)
    return None


def explain_swapped(pairs: Mapping[str, tuple[Array, Array]], atol: float = 0.0) -> list[Explanation]:
    """Two tensors that changed places, of pairs of arrays by name."""
    for (name, (one, its)), (second, (two, others)) in combinations(pairs.items(), 2):
        if not one.shape == its.shape == two.shape == others.shape or one.size > MAX_COMPARED:
            continue
        ours, theirs = (np.stack([wide(array) for array in each]) for each in ((one, two), (its, others)))
        errors = Errors(theirs - ours[::-1], theirs)
        swapped = Explanation((Swapped(),), None, 0.0, 0.0, (name, second), errors=lambda _: errors)  # noqa: B023
        samples = {each: sample(each, its, whole=True) for each in (name, second)}
        if (right := accepted(swapped, samples, {}, atol, dtype_name(its.dtype))) is not None:
            return [right]
    return []


def recognise(arrays: Mapping[str, Array]) -> list[Explanation]:
    """What made arrays that belong together (cosines and sines, or one alone), the best first."""
    with limited():
        check_time()
        samples = {name: _as_made(sample(name, array)) for name, array in arrays.items()}
        one = next(iter(samples.values()))
        if one.is_vector and one.values.size > MAX_VECTOR:
            return []
        for search, alone in RECOGNISERS:
            every = best(search(one if alone else samples)) if not alone or len(samples) == 1 else []
            right = (_recognised(each, samples, arrays) for each in every)
            if found := list(islice(filter(None, right), 3)):
                return found
    return []


def _recognised(found: Explanation, samples: Samples, arrays: Mapping[str, Array]) -> Explanation | None:
    """The explanation, if it is accepted; that it needs no edits is no matter here."""
    own = found if found.edits else replace(found, edits=(Recipe("exact"),))
    right = accepted(own, samples, arrays, 0.0, next(iter(samples.values())).float_dtype)
    return right and replace(right, edits=tuple(edit for edit in right.edits if edit != Recipe("exact")))


def _as_made(one: Sample) -> Sample:
    """float32 numbers in a float64 file are what they are."""
    narrow = one.dtype == "float64" and np.isfinite(one.values).all() and holds("float32", one.values)
    return replace(one, dtype="float32") if narrow else one


def _recognise_waves(samples: Samples) -> Iterator[Explanation]:
    """Cosines, then sines in one array may be a cache of rotary tables as well."""
    two_axes = all(one.values.ndim >= 2 for one in samples.values())
    every = explain_waves(samples, None) if two_axes else []
    found = [each for each in every if each.scheme is not None]
    yield from found
    for each in found[:1]:
        scheme: Any = each.scheme
        usual = getattr(scheme, "cos_first", False) and (scheme.scale, scheme.amplitude, scheme.freq_shift) == (1, 1, 0)
        if usual:
            rope = Rope(scheme.seq_len, scheme.dim // 2 * 2, scheme.base, offset=scheme.offset, dtype=scheme.dtype)
            edits = (*each.edits, Layout("stacked", scheme.layout))
            yield replace(each, scheme=rope, edits=edits, extra=each.extra + 0.5)


RECOGNISERS: tuple[tuple[Callable[[Any], Iterable[Explanation]], bool], ...] = (
    (recognise_bias, True),
    (lambda one: recognise_frequencies(one) if one.is_vector else [], True),
    (recognise_narrow, False),
    (recognise_grid, False),
    (_recognise_waves, False),
    (recognise_positions, False),
)
"""Each with whether it looks at one tensor alone; the first that finds something counts: slopes before frequencies that
would do as well.
"""
