"""Rotated queries and keys: known mistakes are rendered; else the quotient of pairs is explained as a table."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import product
from typing import Any, NamedTuple, cast

import numpy as np

from pecli.compare.forms import Form, halved, joined
from pecli.engine.arrays import Complex, Floats, Indices, round_to, widened
from pecli.explain import edits as kinds
from pecli.explain import frequency_laws, sinusoid_search, time_limit
from pecli.explain.acceptance import MAX_SIGMAS, Judge, Located, out_of_tolerance, rounding_mode
from pecli.explain.edits import Edit, Errors, Explanation, best
from pecli.explain.known_mistakes import neighbours
from pecli.explain.sample import UNITS, Sample, grain, precision, rms
from pecli.explain.sinusoid_readings import Reading

MAX_RESIDUAL = (
    0.05  # of the values after: a quotient that is further off is no rotation of these pairs
)
EXPLAINED = 1e-3  # of the error, the residual of a known mistake
NEARER = 0.7  # of the error, what a mistake may leave that is no more than rounding
MAX_HEADS, MAX_ROWS = 16, 96  # of queries or keys that tell mistakes apart
FEW, FEW_ROWS, MAX_READINGS = 48, 8, 4
MAX_WRONG = 0.9  # of some rows, and of some heads: where more are wrong, they are no part
UNKNOWN = -(1 << 62)  # stands for the position of a row that no position explains
MAX_MISMATCH = (
    0.12  # mean distance of directions from those of a position, in units of the largest frequency
)
LAYOUTS = ("halves", "interleaved")

Pair = tuple[Floats, Floats]
Formula = Callable[[Floats, Floats, Floats, Floats], Pair]
Render = Callable[
    [Floats, Indices], Floats
]  #: What makes x (…, positions, channels), at some rows, what it is after


def _rotated(a: Floats, b: Floats, cos: Floats, sin: Floats) -> Pair:
    return a * cos - b * sin, b * cos + a * sin


def _in_arithmetic(dtype: str, a: Floats, b: Floats, cos: Floats, sin: Floats) -> Pair:
    """As a model in 16 bits rotates: tables, products and sums are rounded, each."""

    def rounded(values: Floats) -> Floats:
        return widened(round_to(values, dtype))

    cos, sin = rounded(cos), rounded(sin)
    one, two = rounded(a * cos) - rounded(b * sin), rounded(b * cos) + rounded(a * sin)
    return rounded(one), rounded(two)


FORMULAS: Mapping[Edit, Formula] = {
    kinds.Negated("sin"): lambda a, b, cos, sin: _rotated(a, b, cos, -sin),
    kinds.Swapped(): lambda a, b, cos, sin: _rotated(a, b, sin, cos),
    kinds.Rotation("no minus"): lambda a, b, cos, sin: (a * cos + b * sin, b * cos + a * sin),
    kinds.Rotation("two minuses"): lambda a, b, cos, sin: (a * cos - b * sin, b * cos - a * sin),
    kinds.Rotation("in place"): lambda a, b, cos, sin: (
        first := a * cos - b * sin,
        b * cos + first * sin,
    ),
    kinds.Rotation("first half"): lambda a, b, cos, sin: (a * cos - b * sin, b),
    kinds.Rotation("second half"): lambda a, b, cos, sin: (a, b * cos + a * sin),
}
"""Formulas of known mistakes: the pair (a, b) after the rotation."""


@dataclass(frozen=True)
class HeadRotation:
    """How queries or keys are rotated: by which scheme, how pairs lie before and after, which channels of a head."""

    rope: Any
    layouts: tuple[str, str] = ("halves", "halves")
    trailing: bool = False
    axis: int = -2  # the axis of positions; here it is moved before the last
    places: Indices | None = field(
        default=None, compare=False
    )  # (axes, positions), where they are no range

    def channels(self, width: int) -> slice:
        dim = self.rope.rotary_dim
        return slice(width - dim, width) if self.trailing else slice(0, dim)

    def frequencies(self) -> Floats:
        known = np.array(self.rope.frequencies().floats())
        return np.pad(known, (0, self.rope.rotary_dim // 2 - len(known)))

    def waves(self, rows: Indices) -> Pair:
        """Cosines and sines of rows, times the attention factor."""
        own = (
            rows[:, None] + self.rope.offset
            if self.places is None
            else self.places[self.rope.pair_axes][:, rows].T
        )
        angles = own * self.frequencies()
        amplitude = self.rope.attention_factor_value()
        return amplitude * np.cos(angles), amplitude * np.sin(angles)

    def rotated(self, x: Floats, waves: Pair, formula: Formula = _rotated) -> Floats:
        out, channels = x.copy(), self.channels(x.shape[-1])
        a, b = halved(x[..., channels], self.layouts[0])
        with np.errstate(invalid="ignore"):  # infinities times zero
            out[..., channels] = joined(formula(a, b, *waves), self.layouts[1])
        return out

    def render(self, formula: Formula = _rotated, step: int = 1) -> Render:
        """What rotates x, at some rows: each a step further, or all at the offset."""
        return lambda x, rows: self.rotated(x, self.waves(step * rows), formula)

    def at(self, offset: int) -> "HeadRotation":
        return replace(self, rope=replace(self.rope, offset=offset), places=None)


class Mistake(NamedTuple):
    """A known mistake, and how it rotates."""

    edits: tuple[Edit, ...]
    render: Render
    scheme: Any = None  # the scheme that rotates so, where another one does


def mistakes(plan: HeadRotation, shape: tuple[int, ...]) -> Iterator[Mistake]:
    """Known mistakes of rotating x of that shape: other formulas, layouts, channels and axes; then the scheme's."""
    yield Mistake((kinds.Rotation("none"),), lambda x, rows: x)
    yield Mistake((kinds.Rows("constant", 0),), plan.at(0).render(step=0))
    yield from (Mistake((edit,), plan.render(formula)) for edit, formula in FORMULAS.items())
    for layouts in product(LAYOUTS, LAYOUTS):
        if layouts != plan.layouts:
            edits = (kinds.Layout(_named(plan.layouts), _named(layouts)),)
            yield Mistake(edits, replace(plan, layouts=layouts).render(), plan.rope)
    for rotating, table in (LAYOUTS, LAYOUTS[::-1]):
        layout = kinds.Layout(
            _named(plan.layouts), f"{rotating}, with cos and sin doubled as {table}"
        )
        mixed = replace(plan, layouts=(rotating, rotating))
        yield Mistake((layout,), mixed.render(partial(_mixed, rotating, table)))
    if len(shape) > 2:
        other = kinds.Parameter("position_axis", plan.axis, -3 if plan.axis == -2 else -2)
        turned = partial(np.swapaxes, axis1=-3, axis2=-2)
        yield Mistake(
            (other,),
            lambda x, _: turned(plan.render()(turned(x), np.arange(x.shape[-3]))),
            plan.rope,
        )
    if plan.rope.rotary_dim < shape[-1]:
        end = kinds.Rotation("first channels" if plan.trailing else "last channels")
        yield Mistake((end,), replace(plan, trailing=not plan.trailing).render())
    usual = {"attention_factor": plan.rope.attention_factor_value()}  # by the scaling's own rule
    for known in neighbours(plan.rope):
        scheme: Any = known.scheme
        same_dim = scheme.rotary_dim == plan.rope.rotary_dim
        parameters = [edit for edit in known.edits if isinstance(edit, kinds.Parameter)]
        has_layout = len(parameters) < len(known.edits)
        moved = plan.places is not None and any(edit.name == "offset" for edit in parameters)
        if not same_dim or not known.edits or has_layout or moved:
            continue
        completed = []
        for edit in parameters:
            if edit.expected is None:
                edit = replace(edit, expected=usual.get(edit.name))
            completed.append(edit)
        yield Mistake(tuple(completed), replace(plan, rope=scheme).render(), scheme)


def _computed(plan: HeadRotation, length: int) -> Iterator[Mistake]:
    for dtype in ("bfloat16", "float16"):
        yield Mistake((kinds.Rotation(f"in {dtype}"),), plan.render(partial(_in_arithmetic, dtype)))
    for name in (
        plan.rope.recipe_names()
        if plan.places is None and plan.rope.is_range and length >= FEW_ROWS
        else ()
    ):
        tables = replace(plan.rope, seq_len=length, layout="compact").computed_as(name).tables()
        cos, sin = (widened(tables[part]) for part in ("cos", "sin"))
        yield Mistake((kinds.Recipe(name),), partial(_by_table, plan, cos, sin))


def _by_table(plan: HeadRotation, cos: Floats, sin: Floats, x: Floats, rows: Indices) -> Floats:
    return plan.rotated(x, (cos[rows], sin[rows]))


def _mixed(rotating: str, table: str, a: Floats, b: Floats, cos: Floats, sin: Floats) -> Pair:
    """Pairs of one layout, with columns of cos and sin that are doubled as in the other."""
    (cos_a, cos_b), (sin_a, sin_b) = (
        halved(joined((each, each), table), rotating) for each in (cos, sin)
    )
    return a * cos_a - b * sin_a, b * cos_b + a * sin_b


def explain_rotation(
    before: Floats, after: Floats, plan: HeadRotation, atol: float, dtype: str
) -> list[Explanation]:
    """Why queries or keys (…, positions, channels) are not rotated as a scheme says."""
    prior = frequency_laws.wave_scheme(plan.rope, ("cos", "sin"))
    finite = all(np.isfinite(each).all() for each in (before, after))
    if (
        before.shape != after.shape
        or before.ndim < 2
        or prior is None
        or not before.size
        or not finite
    ):
        return []
    with time_limit.limited():
        both = Rotated(before, after, plan, atol, dtype, np.arange(before.shape[-2]))
        if (found := next(both.by_mistake(), None)) is not None:
            return [found] if found.edits else []
        part = next(both.in_part(), None)
        if part is not None and not isinstance(part.edits[0], kinds.HeadsWrong):
            return [part]
        found = both.by_quotient(prior)
        if found is not None and any(
            isinstance(edit, kinds.Recipe) or not edit.storage for edit in found.edits
        ):
            return [found]
        return [part] if part is not None else []
    return []


@dataclass(frozen=True)
class Rotated:
    """Queries or keys before and after, and the rotation that should be between them."""

    before: Floats
    after: Floats
    plan: HeadRotation
    atol: float
    dtype: str
    rows: Indices

    @cached_property
    def rounding(self) -> Floats:
        """The errors that a rotation in the coarsest dtype of all values makes."""
        stored = grain(self.after)
        half_unit = precision(stored.found if isinstance(stored, kinds.Dtype) else "float32")
        return np.asarray(UNITS * half_unit * np.abs(self.after).max(axis=-1, keepdims=True))

    def errors(self, made: Floats) -> Errors:
        return Errors(self.after - made, self.after, rounding=self.rounding)

    @cached_property
    def expected(self) -> Errors:
        return self.errors(self.plan.rotated(self.before, self.plan.waves(self.rows)))

    @cached_property
    def judge(self) -> Judge:
        """Of random numbers, what a wrong rotation leaves has no structure: little of it may be left."""
        one = Sample("after", self.dtype, self.after.shape, self.after, self.rows)
        noise = EXPLAINED * rms(self.few.expected.left) / (rms(self.few.after) or 1.0)
        return Judge({"after": one}, self.atol, self.dtype, max_noise=noise)

    @cached_property
    def few(self) -> "Rotated":
        """Some rows and heads of a tensor that may be large."""
        rows = np.unique(np.linspace(0, len(self.rows) - 1, MAX_ROWS).astype(np.intp))
        which = (..., slice(MAX_HEADS), rows, slice(None)) if self.before.ndim > 2 else (rows,)
        return replace(
            self, before=self.before[which], after=self.after[which], rows=self.rows[rows]
        )

    def by_mistake(self) -> Iterator[Explanation]:
        """Known mistakes, the nearest by some rows and heads first; else how the values were stored, if that is all."""
        x, y, rows = self.few.before, self.few.after, self.few.rows
        right = y - self.few.expected.left
        if rounding_mode(self.few.expected._replace(rounding=0.0), y):
            yield from self.judge.accepted(
                [Explanation((), None, ("after",), self.expected._replace(rounding=0.0))]
            )
        error, rounded = rms(y - right), rms(self.few.rounding) + self.atol
        limit = min(NEARER * error, max(EXPLAINED * error, rounded))
        factor = float(
            f"{float((y * right).sum()) / max(float((right**2).sum()), 1e-300):.7g}"
        )  # such as 1/√d
        scaled = Mistake(
            (kinds.Scaled(factor),), lambda x, rows: factor * self.plan.render()(x, rows)
        )
        every = [
            *mistakes(self.plan, self.before.shape),
            scaled,
            *_other_positions(x, y, self.plan, rows),
        ]
        every += _computed(self.plan, len(self.rows))
        left = [rms(y - each.render(x, rows)) for each in every]
        for off, each in sorted(
            zip(left, every, strict=True), key=lambda pair: float(f"{pair[0]:.0e}")
        ):
            if off <= limit:
                errors = self.errors(each.render(self.before, self.rows))
                yield from self.judge.accepted(
                    [Explanation(each.edits, each.scheme, ("after",), errors)]
                )
        if any(self.few.judge.accepted([Explanation((), None, ("after",), self.few.expected)])):
            yield from self.judge.accepted([Explanation((), None, ("after",), self.expected)])

    def in_part(self) -> Iterator[Explanation]:
        """Elements, rows or heads that are wrong, where all others are right."""
        few, whole = (
            out_of_tolerance(each.after, self.dtype, self.atol) for each in (self.few, self)
        )
        wrong = few(self.few.expected).any(axis=-1)
        axes = {*range(wrong.ndim)}
        if all(np.any(wrong, axis=tuple(axes - {axis})).mean() > MAX_WRONG for axis in axes):
            return
        part = Located(self.judge.samples["after"], self.expected, whole(self.expected))
        for found in part.explanations():
            if part.is_no_scheme(found.edits[0]) or isinstance(found.edits[0], kinds.HeadsWrong):
                yield from self.judge.accepted([found])

    def by_quotient(self, prior: frequency_laws.WaveScheme) -> Explanation | None:
        stored, plan = grain(self.after), self.plan
        # angles that are smaller than half a unit are lost in all heads alike
        atol = (
            max(self.atol, precision(stored.found))
            if isinstance(stored, kinds.Dtype)
            else self.atol
        )
        form = Form("alone")
        expected = replace(prior, form=form, length=len(self.rows))
        for channels, layouts in self._ways():
            ratio, _ = quotient(self.before, self.after, channels, layouts)
            edits = (
                (kinds.Layout(_named(plan.layouts), _named(layouts)),)
                if layouts != plan.layouts
                else ()
            )
            judge = Judge(
                {"after": Sample("after", "float32", ratio.shape, ratio, self.rows)},
                atol,
                "float32",
            )
            reading = Reading(
                (ratio.real, ratio.imag), self.rows, len(ratio), form, edits, ("after",), "float32"
            )
            for found in best(sinusoid_search.explain_readings([reading], expected, judge)):
                named = [
                    row
                    for edit in found.edits
                    if isinstance(edit, kinds.RowsWrong)
                    for row in edit.which
                ]
                right, measured = (
                    ~np.isin(self.rows, named),
                    cast(Callable[[Any], Errors], found.errors),
                )
                left = measured(judge.samples).left
                left = (
                    left
                    if np.iscomplexobj(left)
                    else left[:, : ratio.shape[1]] + 1j * left[:, ratio.shape[1] :]
                )
                turned, after = ratio[right] - left, self.after[..., right, channels]
                pairs = halved(self.before[..., right, channels], layouts[0])
                made: Any = joined(_rotated(*pairs, turned.real, turned.imag), layouts[1])
                errors = Errors(
                    after - made, after, rounding=self.rounding[..., right, :]
                )  # of every head
                noise = (
                    MAX_SIGMAS
                    * rms(errors.left)
                    * any(isinstance(edit, kinds.Noise) for edit in found.edits)
                )
                out = out_of_tolerance(self.after, self.dtype, max(self.atol, noise), found.edits)(
                    errors
                )
                return replace(
                    found,
                    residual=float(np.abs(errors.left).max(initial=0.0)),
                    beyond=int(out.sum()),
                )
        return None

    def _ways(self) -> list[tuple[slice, tuple[str, str]]]:
        """Channels and layouts of pairs whose quotient leaves little in a few rows and heads, the likeliest first."""
        few = (..., slice(FEW), slice(FEW), slice(None))[-self.before.ndim :]
        spans = self._spans()
        ways = [*product(spans, dict.fromkeys((self.plan.layouts, *product(LAYOUTS, LAYOUTS))))]
        errors = {
            way: quotient(self.before[few], self.after[few], spans[way[0]], way[1])[1]
            for way in ways
        }
        least = min(errors.values(), default=0.0)
        good = [way for way in ways if errors[way] < MAX_RESIDUAL]
        good.sort(
            key=lambda way: (
                errors[way] > 3 * least + 1e-6,
                [*spans].index(way[0]),
                round(errors[way], 3),
            )
        )
        return [(spans[span], layouts) for span, layouts in good[:MAX_READINGS]]

    def _spans(self) -> dict[int, slice]:
        """Channels that may be rotated, by their number: as expected, as many as changed, all."""
        width, expected, plan = self.before.shape[-1], self.plan.rope.rotary_dim, self.plan
        changed = np.flatnonzero(
            np.abs(self.after - self.before).reshape(-1, width).max(axis=0) > 0
        )
        if plan.trailing and (not len(changed) or changed[0] >= plan.channels(width).start):
            return {expected: plan.channels(width)}
        last = int(changed.max(initial=-1)) + 1
        changes = last + last % 2
        first = (
            (changes, expected) if changes <= 0.75 * expected else (expected, changes)
        )  # slow pairs may not show
        return {
            dim: slice(0, dim)
            for dim in (*first, width - width % 2)
            if max(2, last - 1) <= dim <= width
        }


def _other_positions(x: Floats, y: Floats, plan: HeadRotation, rows: Indices) -> Iterator[Mistake]:
    """Few rows that begin elsewhere, or rows of one position."""
    ratio, _ = quotient(x, y, plan.channels(x.shape[-1]), plan.layouts)
    places = solve(ratio, plan.frequencies(), rows + plan.rope.offset)
    first = int(places[0])
    if first >= 0 and len(rows) > 1 and not np.ptp(places):
        yield Mistake((kinds.Rows("constant", first),), plan.at(first).render(step=0))
    elif 0 <= first != plan.rope.offset and len(rows) < FEW_ROWS and not np.ptp(places - rows):
        edit, moved = kinds.Parameter("offset", plan.rope.offset, first), plan.at(first)
        yield Mistake((edit,), moved.render(), moved.rope)


def solve(turned: Complex, frequencies: Floats, expected: Indices) -> Indices:
    """The position of each row of directions (rows, pairs), nearest to the expected where slow pairs do not tell."""
    size = np.abs(turned)
    weight = (size > 0) * np.abs(frequencies)  # fast pairs tell neighbours apart
    places = expected.astype(np.float64)
    for k in np.argsort(
        np.abs(frequencies)
    ):  # each pair turns a little faster, and tells the position more sharply
        left = np.angle(turned[:, k] * np.exp(-1j * places * frequencies[k]))
        places += np.where(weight[:, k] > 0, left, 0.0) / (frequencies[k] or 1.0)
    places = np.rint(places)
    off = turned / np.where(size > 0, size, 1.0) - np.exp(
        1j * np.multiply.outer(places, frequencies)
    )
    allowed = MAX_MISMATCH * np.minimum(weight.max(axis=1, initial=0.0), 1) * weight.sum(axis=1)
    fits = (np.abs(off) * weight).sum(axis=1) <= allowed
    return np.where(fits, places, UNKNOWN).astype(np.int64)


def quotient(
    before: Floats, after: Floats, channels: slice, layouts: tuple[str, str]
) -> tuple[Complex, float]:
    """Pairs after over those before (positions, pairs), by least squares over heads and batches; its relative error."""
    sides = [
        halved(each[..., channels], layout)
        for each, layout in zip((before, after), layouts, strict=True)
    ]
    x, y = (np.moveaxis(a + 1j * b, -2, 0) for a, b in sides)
    x, y = (each.reshape(len(each), -1, each.shape[-1]) for each in (x, y))
    ratio = (y * x.conj()).sum(axis=1) / np.maximum((np.abs(x) ** 2).sum(axis=1), 1e-300)
    return ratio, rms(y - ratio[:, None] * x) / (rms(y) or 1.0)


def _named(layouts: tuple[str, str]) -> str:
    return layouts[0] if layouts[0] == layouts[1] else f"{layouts[0]} before, {layouts[1]} after"
