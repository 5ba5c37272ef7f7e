"""The search itself: tensors and a prior in, explanations out, the best first.

The prior is all that differs between commands: a scheme (`explain`), or none (`recognise`). A search takes it and the
judge of some tensors, and yields what the judge accepts.
"""

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, cast

import numpy as np

from pecli.compare import forms
from pecli.engine.arrays import AnyArray, Array, dtype_name, numpy_dtype, widest
from pecli.engine.scalings import PARAMETERS
from pecli.engine.schemes.scheme import Scheme, holds_several, named_tensors
from pecli.errors import ParameterError
from pecli.explain import alibi_slopes, frequency_fit, sinusoid_readings, sinusoid_search
from pecli.explain import edits as kinds
from pecli.explain import recipe_search as recipes
from pecli.explain.acceptance import MAX_SHARE, Judge, Located, out_of_tolerance, rounding_mode
from pecli.explain.array_transforms import transform
from pecli.explain.edits import Edit, Errors, Explanation, best, merged, parameter, parameter_edits
from pecli.explain.frequency_laws import law_edits, wave_law, wave_scheme
from pecli.explain.known_mistakes import Neighbour, neighbour, neighbours
from pecli.explain.position_recovery import (
    other_positions,
    recognise_grid,
    recognise_positions,
    tolerance,
)
from pecli.explain.recipe_search import distance, scheme_errors
from pecli.explain.sample import (
    UNITS,
    Sample,
    Samples,
    precision,
    rounding,
    rounding_units,
    sample,
    samples_of,
)
from pecli.explain.time_limit import check_time, limited
from pecli.explain.wave_tables import wave_table

MAX_TRANSFORMED = 1 << 22  # elements of an expected table that is made whole
MAX_WRONG_ROWS = (
    0.98  # of the rows of a sample, where the whole is looked at for a part that is wrong
)
MAX_LOCATED = 1 << 23  # elements of such a table: more take longer than other reasons may wait
MAX_VECTOR = 1 << 14  # elements of a vector that may be frequencies or slopes
MIN_RANGE = 16  # rows that are right, and rows that are a table of their own, where both are in one
NINE_DIGITS = (
    5e-9  # of a value: what is lost where float32 is written with as many digits as tell it
)
FREQUENCY_RTOL = (
    1e-5  # what frequencies and slopes of other programs are off by at most, relatively
)
BITS = {
    "bfloat16": "uint16 int16",
    "float16": "uint16 int16",
    "float32": "uint32 int32",
    "swapped": "float32 float64",
}
"""What numbers of a dtype may be the bits of."""

Searches = Sequence[
    tuple[Callable[[Any, Judge], Iterable[Explanation]], Callable[[Samples], list[Samples]]]
]


def explain(prior: Scheme, found: Mapping[str, Array], atol: float = 0.0) -> list[Explanation]:
    """Why tables of a scheme, by its names for them, are not what it makes: for each group of them the best reason."""
    out: list[Explanation] = []
    if holds_several(prior):
        for part, scheme in cast(Any, prior).parts:
            own = {
                name.removeprefix(f"{part}."): found[name]
                for name in found
                if name.startswith(f"{part}.")
            }
            reasons = explain(scheme, own, atol)
            out += [
                replace(each, tensors=tuple(f"{part}.{name}" for name in each.tensors))
                for each in reasons
            ]
        return out
    found = {name: array for name, array in found.items() if array.size}
    with limited():
        if bits := next(_by_bits(prior, found, atol), None):
            return [bits]
        found = forms.from_integers(found) or found
        samples = samples_of(found)
        samples = {
            name: one
            for name, one in samples.items()
            if np.isfinite(one.values).any() or name == "inv_freq"
        }
        judge = Judge(samples, atol, prior.dtype, found)
        out.extend(_completed(prior, judge))  # those before the time is up stay
        samples = {
            name: one
            for name, one in samples.items()
            if not any(name in each.tensors for each in out)
        }
        out.extend(_explained(prior, replace(judge, samples=samples)))
    return merged(out)


def _by_bits(prior: Scheme, arrays: Mapping[str, Array], atol: float) -> Iterator[Explanation]:
    """Numbers of the prior's, of which the file has the bits."""
    for found, dtypes in BITS.items():
        if not arrays or any(
            dtype_name(array.dtype) not in dtypes.split() for array in arrays.values()
        ):
            continue
        reread = {name: array.view(array.dtype.newbyteorder()) for name, array in arrays.items()}
        if found != "swapped":
            reread = {
                name: np.ascontiguousarray(array).view(numpy_dtype(found))
                for name, array in arrays.items()
            }
        judge = Judge(samples_of(reread), max(atol, UNITS * precision(found)), prior.dtype, reread)
        some = any(
            (np.abs(one.values) > judge.atol).any() for one in judge.samples.values()
        )  # most bits are of zero
        if some and distance(prior, judge.samples, recipes.FEW_ROWS).largest <= judge.atol:
            yield from judge.accepted([recipes.by_scheme([kinds.Bits(found)], prior, arrays)])


def _completed(prior: Scheme, judge: Judge) -> Iterator[Explanation]:
    """Of tables that were written before they were complete: that, and what else is wrong with them."""
    waves = [judge.samples[name] for name in ("cos", "sin") if name in judge.samples]
    for edit in map(kinds.Incomplete, kinds.INCOMPLETE if waves else ()):
        done = {
            one.name: one for wave in waves for one in sinusoid_readings.finished(edit.found, wave)
        }
        whole = (sample(name, judge.arrays[name], whole=True) for name in done)
        tables = {
            one.name: one.values
            for wave in whole
            for one in sinusoid_readings.finished(edit.found, wave)
        }
        if len(tables) < len(waves):
            continue
        size = max(1.0, *(float(np.abs(one.values).max()) for one in waves))  # of angles, say
        limit = max(judge.atol, size * UNITS * max(precision(one.dtype) for one in waves))
        own = Judge(done, limit, prior.dtype, tables)
        with_others = (replace(each, edits=(edit, *each.edits)) for each in _explained(prior, own))
        if found := [*own.accepted([recipes.by_scheme([edit], prior, done)])] or [*with_others]:
            yield from found
            return


def _explained(
    prior: Scheme, judge: Judge, searches: Searches | None = None
) -> Iterator[Explanation]:
    """By the first search that explains a group of tensors."""
    unexplained = dict(judge.samples)
    for search, groups in searches or SEARCHES:
        for group in groups(unexplained):
            found = (
                next(iter(search(prior, replace(judge, samples=group))), None) if group else None
            )
            if found is not None and found.edits:
                yield found
                unexplained = {name: one for name, one in unexplained.items() if name not in group}


def _each(samples: Samples) -> list[Samples]:
    return [{name: one} for name, one in samples.items()]


def _waves(samples: Samples) -> list[Samples]:
    """Tables of waves: together, where they are of one shape."""
    waves = {name: samples[name] for name in ("cos", "sin", "cos_sin", "pe") if name in samples}
    return [waves] if len({one.shape for one in waves.values()}) == 1 else _each(waves)


def _edit(edit: kinds.Parameter | kinds.Layout) -> Edit:
    """Return an edit whose lists are spelled as a command line has them."""
    if isinstance(edit, kinds.Layout):
        return edit
    return parameter(edit.name, edit.expected, edit.found)


def _computed(prior: Scheme, judge: Judge) -> Iterator[Explanation]:
    """As a recipe or a runtime computes them, unless that leaves as many elements out of tolerance as there are."""
    for found in judge.accepted(filter(None, [recipes.explain_computed(prior, judge.samples)])):
        own = Explanation((), prior, found.tensors, scheme_errors(prior, drifts=True))
        if not found.beyond or (other := judge(own)) is None or other.beyond > found.beyond:
            yield found


def _stored(prior: Scheme, judge: Judge) -> Iterator[Explanation]:
    if any(any(rounding(one.values)) or one.dtype == "float64" for one in judge.samples.values()):
        found = judge.accepted([recipes.by_scheme((), prior, judge.samples)])
        yield from (
            each for each in found if each.edits and not isinstance(each.edits[0], kinds.Noise)
        )


def _by_neighbour(prior: Any, judge: Judge) -> Iterator[Explanation]:
    """A known mistake of a scheme whose rows do not follow each other."""
    if prior.is_range:
        return
    waves = judge.samples
    known = list(neighbours(prior))
    if prior.positions is not None:
        edit = kinds.Parameter("positions", "those given", "0, 1, 2, …")
        with contextlib.suppress(ParameterError):  # some go with positions alone
            count = next(iter(waves.values())).shape[-2]
            known.append(Neighbour((edit,), replace(prior, positions=None, seq_len=count)))
        for by in (1, -1) if all(isinstance(place, int) for place in prior.positions) else ():
            shift = kinds.Parameter("all positions", 0, by)
            with contextlib.suppress(ParameterError):  # beyond the last
                moved = [place + by for place in prior.positions]
                known.append(Neighbour((shift,), replace(prior, positions=moved)))
    nearest = sorted(known, key=lambda each: distance(each[1], waves).root_mean_square)[:1]
    proposals = [recipes.by_scheme(map(_edit, edits), scheme, waves) for edits, scheme in nearest]
    every = [*judge.accepted(chain(proposals, _reversed(prior, waves)))]
    limit = max(map(tolerance, waves.values()))
    if not any(len(each.mistakes) == 1 and each.residual <= limit for each in every):
        with limited():  # what is known already stays
            every += _other_scheme(prior, judge)
    yield from sorted(every, key=lambda each: (len(each.edits), each.residual))


def _reversed(prior: Any, waves: Samples) -> Iterator[Explanation]:
    """The frequencies of each axis, or all of them, in reverse order."""
    pairs = [block.pairs for block in prior.axis_blocks] if prior.applied_as == "rotation" else []
    axis, count = np.repeat(np.arange(len(pairs)), pairs), sum(pairs)
    for words, key in (
        (("in reverse order along each axis", axis), ("reversed", 0 * axis)) if pairs else ()
    ):
        order = np.lexsort((-np.arange(count), key))
        twice = {
            "halves": np.r_[order, order + count],
            "interleaved": np.c_[2 * order, 2 * order + 1].reshape(-1),
        }
        columns = twice.get(prior.layout, order)

        def errors(samples: Samples, columns: AnyArray = columns) -> Errors:
            moved = {
                name: replace(one, values=one.values[..., columns]) for name, one in samples.items()
            }
            return scheme_errors(prior)(moved)

        if all(one.shape[-1] == len(columns) for one in waves.values()):
            yield Explanation((kinds.Channels(words),), prior, tuple(waves), errors)


def _exchanged(prior: Scheme, judge: Judge) -> Iterator[Explanation]:
    """Sines for cosines, which no table is too short for."""

    def errors(samples: Samples) -> Errors:
        pairs = (("cos", "sin"), ("sin", "cos"))
        return scheme_errors(prior)(
            {name: replace(samples[other], name=name) for name, other in pairs}
        )

    if {*judge.samples} == {"cos", "sin"}:
        yield from judge.accepted(
            [Explanation((kinds.Swapped(),), prior, tuple(judge.samples), errors)]
        )


def _by_places(prior: Scheme, judge: Judge) -> Iterable[Explanation]:
    """The waves of the prior at other positions, which takes little time."""
    expected, samples = wave_scheme(prior, tuple(judge.samples)), judge.samples
    if any(not one.whole and math.prod(one.shape) <= MAX_TRANSFORMED for one in samples.values()):
        samples = samples_of({name: judge.arrays[name] for name in samples}, whole=True)
    return (
        other_positions(expected, replace(judge, samples=samples), named=True) if expected else ()
    )


def _by_waves(prior: Scheme, judge: Judge) -> Iterable[Explanation]:
    """The waves of other parameters or another layout; then those of other positions."""
    expected = wave_scheme(prior, tuple(judge.samples))
    if expected is None:
        return ()
    return best(sinusoid_search.explain_waves(judge, expected)) or other_positions(expected, judge)


def _other_scheme(prior: Any, judge: Judge) -> Iterator[Explanation]:
    """The scheme that the tables are, where it is of the same kind: its parameters are the difference."""
    found = next(chain(recognise_grid(judge, prior), recognise_positions(judge)), None)
    scheme: Any = found and found.scheme
    if found is None or scheme is None or scheme.name != prior.name:
        return
    is_range, length = (
        prior.is_range,
        next(iter(judge.samples.values())).shape[-2],
    )
    places = {*(scheme.positions or ())}
    if is_range and (len(places) == 1 or places == {*range(length)}):
        return  # one row of a range, or all in another order
    if not is_range and prior.grid and not scheme.grid:
        if (
            scheme.base == prior.base and scheme.axis_blocks == prior.axis_blocks
        ):  # positions alone may be fitted
            yield replace(
                found,
                edits=(kinds.Parameter("positions", "those of the grid", "others"), *found.edits),
            )
        return
    if scheme.base != prior.base and (other := neighbour(prior, base=scheme.base)) is not None:
        proposal = recipes.by_scheme(map(_edit, other.edits), other.scheme, found.tensors)
        if same := [*judge.accepted([proposal])]:
            yield from same
            return
    skipped = ("seq_len", "offset")[: 1 + (scheme.positions is not None)] if is_range else ()
    of_none = [
        name for name in PARAMETERS if getattr(scheme, name, None) is None
    ]  # of a scaling that it lacks
    edits = parameter_edits(prior, scheme, (*skipped, *of_none))
    named = [replace(each, found="others") if each.name == "positions" else each for each in edits]
    if named:
        yield replace(found, edits=(*named, *found.edits))


def _by_kind(prior: Any, judge: Judge) -> Iterable[Explanation]:
    """By what a tensor of that name is: frequencies, slopes."""
    (name,) = judge.samples
    if (
        name == "inv_freq" and prior.value_of("positions") is not None
    ):  # of which frequencies know nothing
        with contextlib.suppress(ParameterError):
            prior = replace(prior, positions=None, seq_len=1)
    if name == "inv_freq" and (expected := wave_scheme(prior, ("inv_freq",))) is not None:
        return frequency_fit.explain_frequencies(judge, expected)
    if name in ("slopes", "bias") and "max_bias" in prior.parameters():
        return alibi_slopes.explain_bias(judge, prior, name)
    return ()


def _transformed(prior: Scheme, judge: Judge) -> Iterator[Explanation]:
    ((name, one),) = judge.samples.items()
    table = named_tensors(prior.in_dtype("float64")).get(name)
    if table is None or not one.whole or table.size > max(MAX_TRANSFORMED, one.values.size):
        return
    for found in transform(
        table.array().astype(np.float64), one, max(judge.atol, rounding_units(one)), judge
    ):
        rows = [
            edit
            for edit in found.edits
            if isinstance(edit, kinds.Rows) and edit.order == "constant"
        ]
        places: dict[Edit, Edit] = {
            edit: replace(edit, at=(edit.at or 0) + prior.first_position) for edit in rows
        }
        yield replace(found, edits=tuple(places.get(edit, edit) for edit in found.edits))


def _all_located(prior: Scheme, judge: Judge) -> list[Located | None]:
    """Where each tensor is not what the prior makes; several searches ask for that."""
    for name in judge.samples.keys() - judge.located.keys():
        one = judge.samples[name]
        found = _located(prior, one)
        if (
            found is not None and not one.whole
        ):  # a part may be wrong, and lie between the rows that were looked at
            array = judge.arrays.get(name)
            is_part = found.rows.mean() <= MAX_WRONG_ROWS or found.along(-1).mean() <= MAX_SHARE
            found = None
            if array is not None and is_part and array.size <= MAX_LOCATED:
                found = _located(prior, replace(sample(name, array, whole=True), dtype=one.dtype))
        judge.located[name] = found
    return [judge.located[name] for name in judge.samples]


def _located(prior: Scheme, one: Sample) -> Located | None:
    """Where a tensor is not what the prior makes, beyond rounding; None where shapes differ."""
    if np.iscomplexobj(one.values):
        return None
    errors = scheme_errors(prior, drifts=True)({one.name: one})
    if len(one.shape) == 1:
        return Located(one, errors, ~(np.abs(errors.left) <= FREQUENCY_RTOL))
    if errors.left.shape != one.values.shape:
        return None
    stored = rounding_mode(errors, one.values)
    return Located(one, errors, out_of_tolerance(one.values, one.dtype, 0.0, stored)(errors))


def _by_part(prior: Scheme, judge: Judge, *, surely: bool) -> Iterator[Explanation]:
    """The part that is wrong, as the whole answer; `surely` where no parameter or order of rows may be the reason."""
    (found,) = _all_located(prior, judge)
    for each in found.explanations(prior) if found is not None else ():
        by_rows = prior.is_range or not isinstance(each.edits[0], kinds.ColumnsWrong)
        if not surely or (found and by_rows and found.is_no_scheme(each.edits[0])):
            yield from judge.accepted([each])


def _by_range(prior: Any, judge: Judge) -> Iterator[Explanation]:
    """Rows up to one, or from one on, as a table of their own, where all others are right."""
    waves = judge.samples
    every = _all_located(prior, judge) if wave_table(prior) is not None else [None]
    cuts = {found.first_wrong_row if found is not None else None for found in every}
    cut = cuts.pop() if len(cuts) == 1 else None
    if cut is None or every[0] is None or not MIN_RANGE <= cut <= prior.seq_len - MIN_RANGE:
        return
    first, last = (cut, prior.seq_len - 1) if every[0].rows[-1] else (0, cut - 1)
    part = replace(prior, offset=prior.offset + first, seq_len=last - first + 1)
    arrays = {
        each.one.name: each.one.values[..., first : last + 1, :].astype(each.one.dtype)
        for each in every
        if each
    }
    later = SEARCHES[SEARCHES.index((_by_range, _waves)) + 1 :]
    samples, expected = samples_of(arrays), wave_scheme(prior, tuple(waves))
    part_waves = wave_table(part)
    alone: tuple[Edit, ...] = ()
    if expected and part_waves:  # A scaling may depend on the length.
        alone = law_edits(expected, wave_law(part_waves))
    proposals = [recipes.by_scheme(alone, part, waves)] if alone else []
    own = Judge(samples, judge.atol, prior.dtype, arrays)
    found = next(chain(own.accepted(proposals), _explained(part, own, later)), None)
    if found is None or {*found.tensors} != {*waves}:
        return
    if not any(
        isinstance(edit, kinds.Rows) or getattr(edit, "name", "") == "offset"
        for edit in found.edits
    ):
        edits = (*found.edits, kinds.RowRange(first, last))
        yield replace(found, edits=edits, scheme=None)  # which is none of the whole table


SEARCHES: Searches = (
    (_computed, lambda samples: [samples]),
    (_stored, _waves),
    (_stored, _each),
    (partial(_by_part, surely=True), _each),
    (_exchanged, _waves),
    (_by_places, _waves),
    (_by_range, _waves),
    (_by_neighbour, _waves),
    (_by_waves, _waves),
    (_other_scheme, _waves),
    (_by_kind, _each),
    (recipes.explain_parameter, lambda samples: [samples]),
    (_transformed, _each),
    (partial(_by_part, surely=False), _each),
    (
        _by_waves,
        lambda samples: [{name: samples[name]} for name in ("cos", "sin") if name in samples],
    ),
)
"""Each with the tensors that it explains at once."""


def recognise(arrays: Mapping[str, Array]) -> list[Explanation]:
    """What made arrays that belong together (cosines and sines, or one alone), the best first."""
    with limited():
        check_time()
        samples = samples_of(arrays)
        for (
            name,
            one,
        ) in (
            samples.items()
        ):  # float32 numbers in a float64 file, or with nine digits, are what they are
            single = (
                widest(one.values.astype(np.float32))
                if one.dtype == "float64"
                else np.full(1, math.inf)
            )
            if (np.abs(single - one.values) <= NINE_DIGITS * np.abs(one.values)).all():
                samples[name] = replace(one, dtype="float32", values=single)
        one = next(iter(samples.values()))
        if one.is_vector and one.values.size > MAX_VECTOR:
            return []
        judge = Judge(samples, 0.0, one.float_dtype, arrays)
        for search, alone in RECOGNISERS:
            found = best(search(judge)) if not alone or len(samples) == 1 else []
            if found:
                return found[:3]
    return []


RECOGNISERS: tuple[tuple[Callable[[Judge], Iterable[Explanation]], bool], ...] = (
    (alibi_slopes.recognise_bias, True),
    (frequency_fit.recognise_frequencies, True),
    (recipes.recognise_narrow, False),
    (sinusoid_search.recognise_waves, False),
    (recognise_grid, False),
    (recognise_positions, False),
)
"""Each with whether it looks at one tensor alone; the first that finds something counts."""
