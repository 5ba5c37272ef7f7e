"""The search itself: tensors and a prior in, explanations out, the best first.

The prior is all that differs between commands: a scheme (`explain`), another table (`explain_pair`), or none
(`recognise`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import wraps
from itertools import chain
from typing import Any, ParamSpec, TypeVar

import numpy as np

from pecli.engine.arrays import AnyArray
from pecli.engine.numerics.dtypes import SIGNIFICAND_BITS
from pecli.engine.numerics.rounding import holds
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import Table
from pecli.engine.text import spelled
from pecli.explain.biases import explain_bias, recognise_index
from pecli.explain.computed_tables import explain_arithmetic, explain_computed, explain_parameter, recognise_narrow
from pecli.explain.draws import explain_draws
from pecli.explain.edits import (
    Arithmetic,
    Dtype,
    Explanation,
    Heads,
    Layout,
    Noise,
    Parameter,
    Recipe,
    Rows,
    Scaled,
    Swapped,
    best,
)
from pecli.explain.law_search import explain_frequencies, recognise_frequencies
from pecli.explain.laws import Law
from pecli.explain.row_positions import recognise_grid, recognise_positions
from pecli.explain.sample import Sample, digits, kept, precision, sample
from pecli.explain.transforms import transform
from pecli.explain.wave_schemes import scheme_of, wave_scheme
from pecli.explain.wave_search import explain_waves

P = ParamSpec("P")
R = TypeVar("R")

WAVES = ("cos", "sin", "cos_sin", "pe")
MAX_TRANSFORMED = 1 << 22
"""Elements of an expected table that is made whole."""
MAX_HEADS = 512
UNITS = 4
"""Of the last place, that an explanation may leave of values of order one."""


def _or_nothing(nothing: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A search that finds nothing where its arithmetic fails on hostile numbers: no verdict depends on it.

    With PECLI_DEBUG the failure is seen.
    """

    def guard(search: Callable[P, R]) -> Callable[P, R]:
        @wraps(search)
        def guarded(*args: P.args, **options: P.kwargs) -> R:
            try:
                return search(*args, **options)
            except (ArithmeticError, IndexError, ValueError):
                if os.environ.get("PECLI_DEBUG"):
                    raise
                return nothing  # type: ignore[no-any-return]

        return guarded

    return guard


@_or_nothing([])
def explain(prior: Scheme, found: Mapping[str, Table], atol: float = 0.0) -> list[Explanation]:
    """Why tables of a scheme, by its names for them, are not what it makes: for each group of them the best reason."""
    if prior.holds_several:
        return _by_part(prior, found, atol)
    samples = {name: replace(sample(table), name=name) for name, table in found.items() if table.size}
    samples = {name: one for name, one in samples.items() if np.isfinite(one.values).any() or name == "inv_freq"}
    with np.errstate(all="ignore"):
        out = [_with_storage(each, samples, prior) for each in _explained(prior, samples, atol)]
    return merged(each for each in out if each.edits)


def _by_part(prior: Any, found: Mapping[str, Table], atol: float) -> list[Explanation]:
    """The same of several schemes in one, each by its own part of the names."""
    out: list[Explanation] = []
    for part, scheme in prior.parts:
        own = {name.removeprefix(f"{part}."): table for name, table in found.items() if name.startswith(f"{part}.")}
        found_here = explain(scheme, own, atol) if own else []
        out += [replace(each, tensors=tuple(f"{part}.{name}" for name in each.tensors)) for each in found_here]
    return out


def _explained(prior: Scheme, samples: Mapping[str, Sample], atol: float) -> Iterator[Explanation]:
    """Waves together, frequencies, biases and draws each alone; what none of those explains, by transforms."""
    if (computed := explain_computed(prior, samples)) is not None:
        yield computed
        return
    left = dict(samples)
    if (near := _by_neighbour(prior, samples, atol)) is not None:
        yield near
        left = {name: one for name, one in left.items() if name not in near.tensors}
    waves = {name: samples[name] for name in WAVES if name in samples}
    seen = wave_scheme(prior, tuple(waves) or ("inv_freq",))
    if waves and seen is not None:
        groups = (
            [waves] if len({one.shape for one in waves.values()}) == 1 else [{name: one} for name, one in waves.items()]
        )
        for group in groups:
            by_scheme = _at_one_position(prior, group) or explain_arithmetic(replace(seen, **_alone(group)), group)
            if by_scheme is not None:
                yield by_scheme
                left = {name: one for name, one in left.items() if name not in group}
            elif found := best(explain_waves(group, replace(seen, **_alone(group)), atol)):
                yield found[0]
                left = {name: one for name, one in left.items() if name not in group}
            elif (other := _other_scheme(prior, group)) is not None and other.edits:
                yield other
                left = {name: one for name, one in left.items() if name not in group}
    unknown: dict[str, Sample] = {}
    for name, one in list(left.items()):
        if kind := _of_kind(prior, name, one):
            yield kind[0]
            del left[name]
        elif kind is None and seen is None:
            unknown[name] = one
    if unknown and (parameter := explain_parameter(prior, unknown, atol)) is not None:
        yield parameter
        left = {name: one for name, one in left.items() if name not in unknown}
    for name, one in left.items():
        if (other := _transformed(prior, name, one, atol)) is not None:
            yield other


def _by_neighbour(prior: Scheme, samples: Mapping[str, Sample], atol: float) -> Explanation | None:
    """A known mistake in where the rows are, of a scheme whose rows do not follow each other."""
    if getattr(prior, "is_range", True):
        return None
    waves = {name: one for name, one in samples.items() if name in WAVES}
    found = [each for each in _neighbours(prior, waves) if each.residual <= max(atol, *map(_units, waves.values()))]
    other = _other_scheme(prior, waves)
    return min((*found, *([other] if other else [])), key=lambda each: each.residual, default=None)


def _neighbours(prior: Any, waves: Mapping[str, Sample]) -> Iterator[Explanation]:
    """The known mistakes of a scheme, and what each leaves."""
    known = list(prior.neighbours()) if waves else []
    if waves and getattr(prior, "positions", None) is not None:
        length = next(iter(waves.values())).shape[-2]
        edit = {"edit": "parameter", "name": "positions", "expected": "those given", "found": "0, 1, 2, …"}
        known.append(((edit,), replace(prior, positions=None, seq_len=length)))
    for edits, scheme in known:
        made = {table.name: table for table in (scheme.single_array(), *scheme.tensors())}
        if any(name not in made or made[name].shape != one.shape for name, one in waves.items()):
            continue
        left = max(float(np.abs(sample(made[name]).values - one.values).max()) for name, one in waves.items())
        words = tuple(
            Layout(edit["expected"], edit["found"])
            if edit["edit"] == "layout"
            else Parameter(edit["name"], _plain(edit["expected"]), _plain(edit["found"]))
            for edit in edits
        )
        yield Explanation(words, scheme, left, left, tuple(waves))


def _other_scheme(prior: Scheme, waves: Mapping[str, Sample]) -> Explanation | None:
    """The scheme that the tables are, where it is of the same kind: its parameters are the difference."""
    found = next(chain(recognise_grid(waves), recognise_positions(waves)), None) if waves else None
    if found is None or found.scheme is None or found.scheme.name != prior.name:
        return None
    skipped = {*(prior.inert_parameters & found.scheme.inert_parameters), "dtype", "recipe"}
    if getattr(prior, "is_range", True):
        if {*(getattr(found.scheme, "positions", None) or ())} == {*range(next(iter(waves.values())).shape[-2])}:
            return None  # the rows of a range in another order
        skipped |= {"seq_len", "offset"}
    names = [name for name in prior.parameters() if name not in skipped]
    edits = tuple(
        Parameter(name, _plain(ours), "others" if name == "positions" else _plain(theirs))
        for name, ours, theirs in ((name, getattr(prior, name), getattr(found.scheme, name)) for name in names)
        if ours != theirs
    )
    return replace(found, edits=edits, tensors=tuple(waves))


def _at_one_position(prior: Scheme, waves: Mapping[str, Sample]) -> Explanation | None:
    """Tables whose rows are all the same, of one position of the prior's."""
    made = {table.name: table for table in (prior.single_array(), *prior.tensors())}
    every = []
    for name, one in waves.items():
        rows = one.values
        if name not in made or made[name].shape != one.shape or rows.ndim != 2 or np.ptp(rows, axis=0).max() > 0:
            return None
        every.append(np.abs(sample(made[name]).values - rows[0]).max(axis=1))
    left = np.max(every, axis=0)
    at = int(np.argmin(left))
    if len(left) < 2 or left[at] > max(map(_units, waves.values())):
        return None
    position = int(next(iter(waves.values())).rows[at]) + int(getattr(prior, "offset", 0))
    return Explanation((Rows("constant", position),), prior, float(left[at]), 0.0, tuple(waves))


def _plain(value: Any) -> Any:
    return spelled(value) if isinstance(value, tuple) else value


def _alone(group: Mapping[str, Sample]) -> dict[str, Any]:
    name = next(iter(group))
    return {"one": name} if len(group) == 1 and name in ("cos", "sin") else {}


def _of_kind(prior: Scheme, name: str, one: Sample) -> list[Explanation] | None:
    """By what a tensor of that name is: frequencies, slopes, draws; None where it is something else."""
    if name == "inv_freq" and (seen := wave_scheme(prior, ("inv_freq",))) is not None:
        return explain_frequencies(one, seen)
    if name in ("slopes", "bias") and "max_bias" in prior.parameters():
        return explain_bias(one, prior, name)  # type: ignore[arg-type]
    if name == "weight" and "seed" in prior.parameters():
        return [each for each in explain_draws(one, prior) if each.edits]  # type: ignore[arg-type]
    return None


def _transformed(prior: Scheme, name: str, one: Sample, atol: float) -> Explanation | None:
    """A transform of the expected table."""
    expected = {table.name: table for table in (prior.single_array(), *prior.in_dtype("float64").tensors())}
    if name not in expected:
        return None
    table = expected[name]
    if table.size > max(MAX_TRANSFORMED, one.values.size):
        return None
    return (
        transform(table.array().astype(np.float64), one.values, max(atol, _units(one)), (name,)) if one.whole else None
    )


def _units(one: Sample) -> float:
    size = np.abs(one.values[np.isfinite(one.values)])
    return UNITS * precision(one.dtype) * (float(np.quantile(size, 0.9)) if size.size else 1.0)


def _with_storage(found: Explanation, samples: Mapping[str, Sample], prior: Scheme) -> Explanation:
    return _stored(found, samples[found.tensors[0]], prior.dtype)


def _stored(found: Explanation, one: Sample, expected_dtype: str) -> Explanation:
    how = kept(one.values, one.dtype, found.noise, expected_dtype)
    if any(isinstance(edit, (Arithmetic, Recipe)) for edit in found.edits):
        how = tuple(edit for edit in how if not isinstance(edit, Noise))
    if one.dtype in SIGNIFICAND_BITS:  # its own dtype is no news
        how = tuple(edit for edit in how if edit != Dtype(one.dtype))
    return replace(found, edits=(*found.edits, *how))


def _length(scheme: Scheme | None) -> int:
    return getattr(scheme, "seq_len", None) or 0


def merged(found: Iterable[Explanation]) -> list[Explanation]:
    """Explanations of other tensors by the same edits made into one."""
    out: list[Explanation] = []
    for each in found:
        for k, other in enumerate(out):
            if each.mistakes == other.mistakes and each.mistakes:
                tensors = (*other.tensors, *each.tensors)
                edits = other.edits if len(other.edits) >= len(each.edits) else each.edits
                longest = max(other.scheme, each.scheme, key=_length)  # a vector of frequencies has no length
                out[k] = replace(
                    other, scheme=longest, tensors=tensors, residual=max(other.residual, each.residual), edits=edits
                )
                break
        else:
            out.append(each)
    return out


@_or_nothing(None)
def explain_pair(one: Table, other: Table, atol: float = 0.0) -> Explanation | None:
    """What makes the second table of the first."""
    if max(one.size, other.size) > 1 << 24 or not one.size or not other.size:
        return None
    ours, theirs = _comparable(one, other)
    limit = max(atol, _units(theirs), UNITS * precision(one.dtype) * _size(ours))
    with np.errstate(all="ignore"):
        return transform(ours, theirs.values, limit, (one.name,))


def _size(values: AnyArray) -> float:
    size = np.abs(values[np.isfinite(values)])
    return float(np.quantile(size, 0.9)) if size.size else 1.0


def _comparable(one: Table, other: Table) -> tuple[AnyArray, Sample]:
    """Both as samples of the same rows."""
    theirs = sample(other)
    if theirs.whole:
        return _wide(one), theirs
    return sample(one).values, theirs


def _wide(table: Table) -> AnyArray:
    with np.errstate(invalid="ignore"):
        return table.array().astype(np.complex128 if table.dtype.startswith("complex") else np.float64)


def explain_swapped(pairs: Iterable[tuple[Table, Table]], atol: float = 0.0) -> list[Explanation]:
    """Two tensors that changed places."""
    known = list(pairs)
    for k, (one, its) in enumerate(known):
        for two, others in known[k + 1 :]:
            if not one.shape == its.shape == two.shape == others.shape or one.size > 1 << 24:
                continue
            left = [_apart(one, others), _apart(two, its)]
            if max(left) <= max(atol, UNITS * precision(others.dtype), 0.01 * _apart(one, its)):
                return [Explanation((Swapped(),), None, max(left), 0.0, (one.name, two.name))]
    return []


def _apart(one: Table, other: Table) -> float:
    with np.errstate(all="ignore"):
        off = np.abs(sample(one).values - sample(other).values)
    return float(np.nan_to_num(off, nan=np.inf).max(initial=0.0))


@_or_nothing([])
def recognise(tables: Mapping[str, Table], *, draws: bool = True) -> list[Explanation]:
    """What made tables that belong together (cosines and sines, or one alone), the best first."""
    samples = {name: _as_made(sample(table)) for name, table in tables.items()}
    with np.errstate(all="ignore"):
        found = best(_recognised(samples, draws))
    out = []
    for each in found[:3]:
        one = samples[each.tensors[0]]
        out.append(_stored(each, one, one.dtype if one.dtype in SIGNIFICAND_BITS else "float32"))
    return out


def _as_made(one: Sample) -> Sample:
    """float32 numbers in a float64 file are what they are."""
    narrow = one.dtype == "float64" and np.isfinite(one.values).all() and holds("float32", one.values)
    return replace(one, dtype="float32") if narrow else one


def _recognised(samples: Mapping[str, Sample], draws: bool) -> Iterator[Explanation]:
    """Slopes come before frequencies that would do as well; draws last, since they take longest."""
    found: list[Explanation] = []
    one = next(iter(samples.values()))
    if len(samples) == 1 and not np.iscomplexobj(one.values):
        vector = max(one.shape, default=1) == one.values.size
        if vector and one.values.size >= 3:
            found += [each for each in explain_bias(one, None, "slopes") if _is_sure(each) and not each.edits]
            found += recognise_frequencies(one)
        elif one.values.ndim >= 2:
            found += [each for each in explain_bias(one, None, "bias") if _is_sure(each)]
    if not found and (narrow := recognise_narrow(samples)) is not None:
        found.append(narrow)
    if not found and len(samples) == 1 and one.values.ndim == 2:
        found += recognise_index(*next(iter(samples.items())))
    if not found and one.values.ndim >= 2:
        found += recognise_grid(samples)
    if not found and one.values.ndim >= 2:
        found += [each for each in explain_waves(samples, None) if each.scheme is not None]
        found += [other for each in found[:1] if (other := _as_rotary(each)) is not None]
    if not found and one.values.ndim >= 2:
        found += recognise_positions(samples)
    if draws and not found and len(samples) == 1:
        found += explain_draws(one, None)
    yield from found


def _is_sure(found: Explanation) -> bool:
    """Whether slopes are a scheme's, with nothing known before: enough heads, a plain max_bias, in their order."""
    scheme: Any = found.scheme
    loose = any(isinstance(edit, (Scaled, Heads)) for edit in found.edits)
    return (
        scheme is not None
        and not loose
        and 3 <= scheme.heads <= MAX_HEADS
        and digits(scheme.max_bias) <= 3
        and scheme.max_bias >= 1
    )


def _as_rotary(found: Explanation) -> Explanation | None:
    """Cosines, then sines in one array may be a cache of rotary tables as well."""
    scheme: Any = found.scheme
    if not getattr(scheme, "cos_first", False):
        return None
    if (scheme.scale, scheme.amplitude, scheme.freq_shift) != (1.0, 1.0, 0.0):
        return None
    law = Law(scheme.dim // 2, scheme.dim / 2, scheme.base)
    rope = scheme_of(law, scheme.offset, scheme.seq_len, 1.0, dtype=scheme.dtype)
    return replace(found, scheme=rope, edits=(*found.edits, Layout("stacked", scheme.layout)), extra=found.extra + 0.5)
