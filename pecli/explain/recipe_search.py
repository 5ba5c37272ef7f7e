"""Tables of the very scheme that was asked for: as a runtime or a recipe computes it, or with one parameter changed.

Nothing here knows what a parameter means: schemes make their tables, and those are compared.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np

from pecli.engine.arrays import AnyArray, Indices, holds, round_to, widened
from pecli.engine.runtimes import EMULATED
from pecli.engine.schemes.parameters import Choice, Flag, Real, Whole
from pecli.engine.schemes.recipes import STORED
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import (
    Scheme,
    default_of,
    named_tensors,
    runtime_names,
)
from pecli.errors import ParameterError
from pecli.explain import acceptance, time_limit
from pecli.explain.edits import Edit, Errors, Explanation, Parameter, Recipe, Runtime
from pecli.explain.frequency_laws import NO_SCALING, WaveScheme, wave_scheme
from pecli.explain.sample import BASES, UNITS, Sample, Samples, plainest, precision, rms, rounding
from pecli.explain.sinusoid_readings import Reading

BLOCKS, BLOCK_ROWS = 16, 16
FEW_ROWS = 16
PHASE_UNITS = 16  # of the last place of float32, that powers and exponentials of other libraries lose of a phase
ANGLE_SLACK = 1e-6  # the relative error of an angle that is read off float32 cosines and sines
MAX_TIES = 1e-4  # of the elements: phases halfway between two numbers of 16 bits that were rounded the other way
MIN_GAIN = 0.2  # of the columns that the scheme does not make, those that a recipe has to make
MIN_SHARE = 0.5  # of the squared error, that another table has to explain: errors of one library go together


class Distance(NamedTuple):
    """How far tables are from a scheme's."""

    root_mean_square: float
    largest: float
    elements: int = 1
    beyond_drift: float = math.inf  # the largest, float32 errors of phases taken off
    columns: tuple[float, ...] = ()  # the largest of each column

    def exceeds(self, other: "Distance") -> bool:
        """Whether another table is nearer: by most of the squared error, and by more than one element may lose."""
        more = self.root_mean_square**2 - other.root_mean_square**2
        loss = UNITS * precision("float32")
        return more >= MIN_SHARE * self.root_mean_square**2 and self.elements * more > loss**2

    def explained(self, allowed: float) -> float:
        """The share of columns that are within a limit."""
        return sum(off <= allowed for off in self.columns) / max(1, len(self.columns))


NOWHERE = Distance(math.inf, math.inf)


def distance(scheme: Scheme, samples: Samples, rows_from_start: int = 0) -> Distance:
    """How far tables are from a scheme's, by its names for them; frequencies relatively. Rows are taken from the whole
    table in blocks, since rows that follow each other are made at once; or so many from its beginning."""

    def some(one: Sample) -> Indices:
        count = len(one.rows)
        starts = np.linspace(0, max(0, count - BLOCK_ROWS), BLOCKS).astype(np.intp)
        return np.unique(np.minimum(starts[:, None] + np.arange(BLOCK_ROWS), count - 1))[
            : rows_from_start or None
        ]

    errors = list[Errors]()
    with suppress(ParameterError):  # a runtime may not have it
        errors = _errors_by_tensor(scheme, samples, some)
    if not errors or not all(each.left.size and np.isfinite(each.left).all() for each in errors):
        return NOWHERE
    off = np.concatenate([np.abs(each.left).reshape(-1) for each in errors])
    columns = np.concatenate(
        [np.abs(each.left).reshape(-1, each.left.shape[-1]).max(axis=0) for each in errors]
    )
    beyond = max(float((np.abs(each.left) - each.drift).max()) for each in errors)
    return Distance(rms(off), float(off.max()), off.size, beyond, tuple(columns.tolist()))


def explain_computed(prior: Scheme, samples: Samples) -> Explanation | None:
    """The runtimes and the recipe that make these tables of the prior's parameters, where its own are not they."""
    if "recipe" not in prior.parameters():
        return None
    allowed = max(_allowed(one.values) for one in samples.values())
    names = (*runtime_names(type(prior)), *prior.recipe_names())
    made = {name: scheme for name in names for scheme in constructed(prior.computed_as, way=name)}
    runtimes = [name for name in runtime_names(type(prior)) if name in made]
    runtimes = [name for name in runtimes if name in EMULATED or _reads_otherwise(made[name])]
    own = distance(prior, samples)
    found = {name: own for name in made if name in (*runtimes, *prior.recipe_names())}
    for rows in (FEW_ROWS, 0):  # a few rows rule most of them out
        far = {name: distance(made[name], samples, rows) for name in found}
        errors = {
            name: off.largest if name in runtimes else off.beyond_drift for name, off in far.items()
        }
        found = {name: off for name, off in far.items() if errors[name] <= allowed}
    explained = max((off.explained(allowed) for off in found.values()), default=0.0)
    found = {name: off for name, off in found.items() if off.explained(allowed) == explained}
    nearest = min(found.values(), key=lambda off: off.root_mean_square, default=NOWHERE)
    near = [name for name, off in found.items() if not off.exceeds(nearest)]
    gain, missing = explained - own.explained(allowed), 1 - own.explained(allowed)
    telling = nearest.largest == 0 or {*runtimes} & {
        *near
    }  # a recipe may make errors of the last place, as sines do
    nearer = gain >= MIN_GAIN * missing and (gain > 0 or (telling and own.exceeds(nearest)))
    if not nearer or {*STORED} & {*near}:  # which says no more than the dtype does
        return None
    scheme = made[near[0]]
    recipes = [Recipe(name) for name in near if name not in runtimes]
    same = [name for name in near if name in runtimes]
    by = [Runtime(same[0], tuple(same[1:]), scheme.runtime_reading.causes)] if same else []
    left, largest = scheme_errors(scheme, drifts=bool(recipes)), found[near[0]].largest
    return Explanation((*by, *recipes[:1]), scheme, tuple(samples), left, residual=largest)


def _reads_otherwise(scheme: Any) -> bool:
    """Whether its runtime takes another scaling; where it takes none, that it is missing says as much."""
    return bool(scheme.runtime_reading.causes) and scheme.runtime_reading.scaling != NO_SCALING


def explain_reading(scheme: Any, reading: Reading, prior: WaveScheme | None) -> Explanation | None:
    """The recipe, other than the prior's, that computes a reading by a scheme's parameters."""
    if scheme is None or reading.rows.max() >= scheme.seq_len:
        return None
    if scheme.applied_as == "rotation":
        scheme = replace(scheme, layout="compact")
    own = prior.scheme.value_of("recipe", "exact") if prior else "exact"
    dtype = "float32" if scheme.dtype == "float64" else scheme.dtype
    found = explain_computed(
        replace(scheme, dtype=dtype, recipe=own), reading_samples(reading, prior, scheme)
    )
    recipes = tuple(edit for edit in found.edits if isinstance(edit, Recipe)) if found else ()
    return replace(found, edits=recipes) if found and recipes else None


def reading_samples(reading: Reading, prior: WaveScheme | None, scheme: Any) -> dict[str, Sample]:
    """A reading as tensors of a scheme."""
    arrays: dict[str, AnyArray] = {"pe": reading.form.join(*reading.parts)}
    if scheme.applied_as == "rotation":
        arrays = dict(
            zip(
                (prior.one,) if prior and prior.one else ("cos", "sin"), reading.parts, strict=False
            )
        )
    return {
        name: Sample(name, reading.dtype, (scheme.seq_len, array.shape[1]), array, reading.rows)
        for name, array in arrays.items()
    }


def recognise_narrow(judge: acceptance.Judge) -> Iterator[Explanation]:
    """Rotary tables from position 0 on whose angles were rounded to bfloat16: no law has such frequencies, and the base
    is the plainest number within the error of the slowest."""
    samples = judge.samples
    if {*samples} != {"cos", "sin"} or len({one.shape for one in samples.values()}) != 1:
        return
    cos, sin = (samples[name].values for name in ("cos", "sin"))
    if (
        cos.ndim != 2
        or len(cos) < FEW_ROWS
        or cos.shape[1] < 2
        or np.iscomplexobj(cos)
        or not (cos[0] == 1).all()
    ):
        return
    angles, dim = np.arctan2(sin[1], cos[1]), 2 * cos.shape[1]
    slowest = float(angles[-1])
    stored = np.abs(widened(round_to(angles, "bfloat16")) - angles) <= ANGLE_SLACK * np.abs(angles)
    if 1e-12 < slowest < 1 and (stored.all() or holds("bfloat16", sin)):
        base = slowest ** (-dim / (dim - 2))
        found = explain_computed(Rope(len(cos), dim, plainest(base, base * 2.0**-7)), samples)
        if found and any(
            isinstance(edit, Recipe) and "bfloat16" in edit.found for edit in found.edits
        ):
            yield from judge.accepted([found])


def constructed(kind: Callable[..., Scheme], **parameters: Any) -> Iterator[Any]:
    """The scheme with these parameters, those that are None left out, if there is one."""
    with suppress(ParameterError):
        yield kind(**{name: value for name, value in parameters.items() if value is not None})


def _errors_by_tensor(
    scheme: Scheme, samples: Samples, chosen: Callable[[Sample], Indices | slice]
) -> list[Errors]:
    """What a scheme leaves of some rows of each tensor; nothing where it makes none of that name and shape."""
    made, errors = named_tensors(scheme), list[Errors]()
    for name, one in samples.items():
        time_limit.check_time()
        if name not in made or made[name].shape != one.shape or np.iscomplexobj(one.values):
            return []
        if len(one.shape) == 1:
            expected = widened(made[name].array())
            off = (one.values / np.where(expected == 0, 1, expected) - 1) * (expected != 0)
            errors.append(Errors(off, np.ones_like(off)))
            continue
        picked = chosen(one)
        rows, found = one.rows[picked], one.values[..., picked, :]
        every = (np.arange(math.prod(one.shape[:-2]))[:, None] * one.shape[-2] + rows).reshape(-1)
        expected = widened(made[name].pick(every)).reshape(found.shape)
        drift: AnyArray | float = 0.0
        if scheme.applied_as in ("rotation", "rows"):  # by phases, which a bias has not
            steps = np.abs(np.diff(expected, axis=-2))
            steepest = steps.max(axis=-2, initial=0.0, where=np.diff(rows)[:, None] == 1)
            positions = rows[:, None] + abs(scheme.first_position)
            drift = PHASE_UNITS * precision("float32") * positions * steepest[..., None, :]
        with np.errstate(invalid="ignore"):  # masks that both have
            off = np.where(found == expected, 0.0, found - expected)
        errors.append(Errors(off, found, drift))
    return errors


def scheme_errors(scheme: Scheme, *, drifts: bool = False) -> Callable[[Samples], Errors]:
    """What a scheme leaves of all rows of samples; with the drift of float32 phases, if that is allowed. Numbers of 16
    bits are compared with those that were rounded: a last place of float32 may tip them either way."""
    scheme = scheme.in_dtype("float32") if scheme.dtype in ("float16", "bfloat16") else scheme

    def errors(samples: Samples) -> Errors:
        every = _errors_by_tensor(scheme, samples, lambda one: slice(None))
        if not every:
            return Errors(np.full(1, math.inf), np.zeros(1))
        together = len({each.left.shape for each in every}) == 1

        def joined(arrays: Sequence[AnyArray]) -> AnyArray:
            return np.concatenate(
                arrays if together else [each.reshape(-1) for each in arrays], axis=-1
            )

        left, values = (
            joined([each.left for each in every]),
            joined([each.values for each in every]),
        )
        drift = joined([np.broadcast_to(each.drift, each.left.shape) for each in every])
        recipe = scheme.value_of("recipe", "")
        if "16" in recipe and recipe not in STORED:  # those round exact numbers
            far = np.abs(left) > drift + UNITS * precision("float32")
            drift = np.where(far, np.abs(left), drift) if far.mean() <= MAX_TIES else drift
        return Errors(left, np.where(np.isfinite(values), values, 0.0), drift if drifts else 0.0)

    return errors


def by_scheme(edits: Iterable[Edit], scheme: Scheme, names: Iterable[str]) -> Explanation:
    """The proposal that a scheme makes tensors, which the edits tell."""
    return Explanation(tuple(edits), scheme, tuple(names), scheme_errors(scheme))


def _allowed(values: AnyArray) -> float:
    """The error that float32 arithmetic and the quantisation of the values may make."""
    size = max(1.0, float(np.abs(values).max(initial=0)))
    relative, absolute = rounding(values)
    return (UNITS * precision("float32") + relative) * size + absolute


def explain_parameter(prior: Scheme, judge: acceptance.Judge) -> Iterator[Explanation]:
    """One parameter with another value (default, option, usual number), in schemes of which no more is known."""
    samples = judge.samples
    allowed = max(judge.atol, *(_allowed(one.values) for one in samples.values()))
    is_known = {"max_bias", "seed"} & {*prior.parameters()} or wave_scheme(
        prior, tuple(samples)
    ) is not None
    if is_known or distance(prior, samples).largest <= allowed:
        return
    sizes = [size for one in samples.values() for size in one.shape]
    for name, parameter in prior.parameters().items():
        given, default = getattr(prior, name), default_of(type(prior), name)
        values: Iterable[Any] = ()
        if isinstance(parameter, Flag):
            values = (not given,)
        elif isinstance(parameter, Choice):
            values = parameter.options
        elif isinstance(parameter, (Whole, Real)) and given is not None:
            usual = default if isinstance(default, (int, float)) else given
            near = (usual, 2 * given, given / 2, given + 1, given - 1, 10 * given, given / 10)
            kind = int if isinstance(parameter, Whole) else float
            values = (
                kind(each)
                for each in dict.fromkeys((*near, *sizes, *range(33), *BASES))
                if kind(each) == each
            )
        for value in (
            values if name not in {"dtype", "recipe", "runtime", *prior.inert_parameters} else ()
        ):
            for scheme in (
                constructed(partial(replace, cast(Any, prior)), **{name: value})
                if value != given
                else ()
            ):
                if distance(scheme, samples, FEW_ROWS).largest <= allowed:
                    yield from judge.accepted(
                        [by_scheme([Parameter(name, given, value)], scheme, samples)]
                    )
