"""The one place that says whether edits explain tensors: with all of them applied, next to nothing may be left.

What is left of every element is compared with the tolerance, or with the rounding that the storage of the values makes:
their dtype, their decimals, their steps; or noise, where what is left has no structure. Elements that are off by more,
though by no more than float32 phases drift, are counted, and not explained. Where a small part is wrong and the rest is
exact, that part is the answer: no edit of the whole table is invented for it.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pecli.engine.arrays import AnyArray, Array, Flags, widest
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import results_in_order
from pecli.explain import edits as kinds
from pecli.explain.edits import Edit, Errors, Explanation
from pecli.explain.sample import (
    UNITS,
    Sample,
    Samples,
    grain,
    precision,
    quantised_storage,
    rms,
    rounding_by,
)
from pecli.explain.time_limit import OutOfTimeError, check_time
from pecli.explain.words import grid_words

ROUNDED = 1.15  # times half a step: what rounding makes, where the number was rounded before, to eight times as many
TRUNCATED = 2.05  # times half a step: what cutting off decimals makes
MIN_BEYOND, MIN_DIRECTED = (
    0.2,
    0.98,
)  # of values not rounded to nearest: those over half a unit off, those off one way
MAX_STEP = 0.11  # of the largest value: the error of one decimal that was cut off; coarser ones explain anything
BLOCK_ELEMENTS = (
    1 << 18
)  # elements of a large tensor that are compared at once, so that they stay in the cache
MAX_SIGMAS = (
    7.5  # standard deviations of the largest of some million elements, where they are noise
)
EXTREME_SIGMAS = 2.0  # standard deviations that the largest of n may be beyond √(2·ln n)
MAX_UNEVENNESS = (
    2.0  # times the standard deviation of noise: that of one row or column, or the other way round
)
MAX_NOISE = (
    0.05  # of the values, root mean square by root mean square: more would explain any numbers
)
MIN_NOISY = 512  # elements that may have as much: a few numbers show no lack of structure
MAX_CORRELATION = 0.15  # of neighbours, where what is left is noise
MIN_LINE = 16  # elements of a row or column whose standard deviation says something
MAX_ELEMENTS = 8  # wrong elements that are named one by one
MAX_SHARE = (
    0.25  # of the rows, columns or heads, that may be wrong in a table that is right otherwise
)
MAX_LISTED = 1 << 14  # wrong rows, columns or heads: all are named, or no part is
MASKED, MASK_SHARE = (
    -1e4,
    0.05,
)  # a value below the one that makes up more than such a share of all is a mask


@dataclass(frozen=True)
class Judge:
    """Accepts explanations of some tensors, within a tolerance, that were expected in a dtype."""

    samples: Samples
    atol: float
    dtype: str
    arrays: Mapping[str, Array] = field(
        default_factory=dict
    )  # the same tensors whole, where samples are not
    max_noise: float = MAX_NOISE
    located: "dict[str, Located | None]" = field(
        default_factory=dict
    )  # by tensor, where it was found to be wrong

    def accepted(self, proposals: Iterable[Explanation]) -> Iterator[Explanation]:
        return filter(None, map(self, proposals))

    def __call__(self, found: Explanation, atol: float | None = None) -> Explanation | None:
        """The explanation with its residual on all elements, and with how values were stored; None where it is none.
        Without any edits the tensors are what they should be, or what the scheme makes."""
        if found.errors is None:
            return found
        atol = self.atol if atol is None else atol
        own = {name: self.samples[name] for name in found.tensors if name in self.samples}
        one = next(iter(own.values()))
        if 0 < max(_largest(each.values) for each in own.values()) <= self.atol:
            return None  # as near to nothing as to anything
        errors = found.errors(own) if callable(found.errors) else found.errors
        shown = replace(one, values=_unmasked(one.values))
        storage = self._storage(errors, shown, found.edits, atol)
        if storage is None:
            return None
        edits = (*found.edits, *storage)
        found = replace(
            found, edits=edits, residual=_largest(errors.left), noise=_noise(errors.left)
        )
        atol = max(
            [atol, *(MAX_SIGMAS * edit.size for edit in edits if isinstance(edit, kinds.Noise))]
        )
        out = out_of_tolerance(shown.values, one.dtype, atol, edits)
        if one.whole or not callable(found.errors):
            return replace(found, beyond=_beyond(own, errors, out))
        return self._on_all_rows(found, one, out)

    def _storage(
        self, errors: Errors, one: Sample, edits: Sequence[Edit], atol: float
    ) -> tuple[Edit, ...] | None:
        """The edits that say how values were stored, such that no more is left than that; None where more is left."""
        largest, noise = _largest(errors.left), _noise(errors.left)
        if not math.isfinite(largest):
            return None
        storage = quantised_storage(one.values, one.dtype, noise, self.dtype)
        if mode := rounding_mode(errors, one.values):
            storage = mode
        elif any(edit.storage for edit in edits):
            storage = tuple(
                edit for edit in storage if not isinstance(edit, kinds.Noise) and edit not in edits
            )
        if storage and isinstance(storage[0], kinds.Noise):
            share = self.max_noise * min(1.0, errors.left.size / MIN_NOISY)
            if noise <= share * _noise(errors.values) and _is_noise(errors.left, largest):
                return storage
            storage = ()
        return (
            None
            if out_of_tolerance(one.values, one.dtype, atol, storage)(errors).any()
            else storage
        )

    def _on_all_rows(
        self, found: Explanation, one: Sample, out: Callable[[Errors], Flags]
    ) -> Explanation | None:
        """The same with the residual of all rows, as far as there is time for them."""
        measured = found.errors
        assert callable(measured)
        largest, beyond, done, length = found.residual, 0, 0, one.shape[-2]
        step = max(1, BLOCK_ELEMENTS * length // math.prod(one.shape))

        def starts() -> Iterator[int]:
            for start in range(0, length, step):
                check_time()
                yield start

        def compared(start: int) -> tuple[int, float, int, bool]:
            rows = np.arange(start, min(start + step, length))
            parts = {
                name: widest(self.arrays[name][..., start : start + step, :])
                for name in found.tensors
            }
            samples = {
                name: replace(one, name=name, values=values, rows=rows)
                for name, values in parts.items()
            }
            with np.errstate(all="ignore"):
                errors = measured(samples)
                return (
                    len(rows),
                    _largest(errors.left),
                    _beyond(samples, errors, out),
                    bool(out(errors).any()),
                )

        try:
            for rows, left, further, wrong in results_in_order(compared, starts()):
                largest, beyond, done = max(largest, left), beyond + further, done + rows
                if wrong:
                    return None
        except OutOfTimeError:
            padded = any(
                isinstance(edit, kinds.Rows) and edit.order.startswith("padded")
                for edit in found.edits
            )
            rest_is_right = any(
                isinstance(edit, (kinds.RowsWrong, kinds.Recipe)) for edit in found.edits
            )
            if not done or padded or rest_is_right:  # of which only all rows tell
                return None
            found = replace(found, compared=kinds.ComparedRows(done, length))
        return replace(found, residual=largest, beyond=beyond)


def _unmasked(values: AnyArray) -> AnyArray:
    """The values without those of a mask, which are no numbers, or the most negative one many times over."""
    finite = values[np.isfinite(values)]
    least = finite.real.min(initial=0.0)
    masked = least <= MASKED and np.count_nonzero(finite == least) > MASK_SHARE * finite.size
    return finite[finite != least] if masked else finite


def _sizes(left: AnyArray) -> AnyArray:
    """Of complex numbers, those of the larger part."""
    return (
        np.maximum(np.abs(left.real), np.abs(left.imag)) if np.iscomplexobj(left) else np.abs(left)
    )


def _largest(left: AnyArray) -> float:
    return float(_sizes(left).max(initial=0.0))


def _beyond(samples: Samples, errors: Errors, out: Callable[[Errors], Flags]) -> int:
    """How many elements are accepted for their drift alone: both parts of complex numbers, all copies of columns."""
    parts = (
        (errors.left.real, errors.left.imag)[: 1 + np.iscomplexobj(errors.left)]
        if np.any(errors.drift)
        else ()
    )
    copies = round(
        sum(one.values.size for one in samples.values()) / max(1, len(parts) * errors.left.size)
    )
    return max(1, copies) * sum(
        int(out(errors._replace(left=part, drift=0.0)).sum()) for part in parts
    )


def out_of_tolerance(
    values: Array, dtype: str, atol: float, edits: Sequence[Edit] = ()
) -> Callable[[Errors], Flags]:
    """Says which elements are off by more than the tolerance, and by more than rounding may have changed them: the
    rounding that some stored values show, twice as much where a mode of rounding is among the edits."""
    how = grain(values)
    relative, step = rounding_by(how, values)
    if any(isinstance(edit, kinds.RoundingMode) for edit in edits):
        relative, step = 2 * relative, 2 * step
    step *= TRUNCATED if isinstance(how, kinds.Decimals) else ROUNDED
    unit = UNITS * max(precision("float32"), 0.0 if relative else precision(dtype))

    def out(errors: Errors) -> Flags:
        with np.errstate(
            all="ignore"
        ):  # wrong numbers may be large: rounding is that of the smaller of the two
            sizes = np.minimum(np.abs(errors.values), np.abs(errors.values - errors.left))
        sizes = np.where(
            np.isfinite(sizes), sizes, 0.0
        )  # those of a row that is no numbers, and named as wrong
        size = float(np.max(sizes, initial=1.0))
        allowed = np.maximum(
            atol, unit * size + min(step, MAX_STEP * size) + ROUNDED * relative * sizes
        )
        return np.asarray(~(_sizes(errors.left) <= allowed + errors.drift + errors.rounding))

    return out


def rounding_mode(errors: Errors, values: AnyArray) -> tuple[kinds.RoundingMode, ...]:
    """Whether values were rounded toward zero, or down, and to what: by up to a unit, and half of one on average."""
    how = grain(values)
    if how is None:
        return ()
    left, found = np.asarray(errors.left), np.asarray(errors.values)
    if np.iscomplexobj(left):
        left, found = (np.stack([each.real, each.imag]) for each in (left, found))
    relative, step = rounding_by(how, values)
    half_unit = step + np.ldexp(relative, np.frexp(found)[1] - 1)
    slack = (
        errors.drift + errors.rounding + UNITS * precision("float32") * max(1.0, _largest(found))
    )
    for mode, signs in (("toward zero", np.sign(found)), ("down", 1.0)):
        off = -left * signs
        is_mode = np.mean((off >= -slack) & (off <= 2 * half_unit + slack)) > MIN_DIRECTED
        if is_mode and np.mean(off > half_unit + slack) > MIN_BEYOND:
            return (kinds.RoundingMode(mode, grid_words(how)),)
    return ()


def _noise(left: AnyArray) -> float:
    """The root mean square, of complex numbers that of their parts."""
    return rms(left) / math.sqrt(1 + np.iscomplexobj(left))


def _is_noise(left: AnyArray, largest: float) -> bool:
    """Whether what is left has no structure: nothing sticks out, neighbours have nothing to do with each other."""
    noise = rms(left)
    if largest > (math.sqrt(2 * math.log(left.size)) + EXTREME_SIGMAS) * noise:
        return False
    table = left.reshape(-1, left.shape[-1]) if left.ndim > 1 else left[:0, None]
    for lines in (table, table.T):
        if len(lines) < MIN_LINE:
            continue
        neighbours = lines[1:] * lines[:-1].conj()
        slack = MAX_SIGMAS / math.sqrt(max(1, neighbours.size))
        share, doubt = (
            np.sqrt(np.mean(np.abs(lines) ** 2, axis=0)) / noise,
            4 / math.sqrt(len(lines)),
        )
        is_uneven = (
            share.max() > MAX_UNEVENNESS * (1 + doubt) or share.min() < (1 - doubt) / MAX_UNEVENNESS
        )
        if is_uneven or abs(neighbours.real.mean()) > (MAX_CORRELATION + slack) * noise**2:
            return False
    return True


@dataclass(frozen=True)
class Located:
    """The elements of one tensor that are not what a scheme makes."""

    one: Sample
    errors: Errors
    wrong: Flags

    def along(self, *axes: int) -> Flags:
        """Which places along some axes, counted from the last, have a wrong element; others are of length 1."""
        return np.asarray(
            self.wrong.any(axis=tuple({*range(-self.wrong.ndim, 0)} - {*axes}), keepdims=True)
        )

    @property
    def rows(self) -> Flags:
        return self.along(-2).reshape(-1)

    @property
    def first_wrong_row(self) -> int | None:
        """The row from which on all are wrong, where all before are right, or the other way round."""
        changes = np.flatnonzero(np.diff(self.rows[1:])) + 2  # row 0 is the same at any frequency
        return int(changes[0]) if len(changes) == 1 else None

    def explanations(self, scheme: Scheme | None = None) -> Iterator[Explanation]:
        """The smallest part that is wrong: elements, where they are few; else rows, columns or heads."""
        count = self.wrong.ndim
        whole_rows = count > 1 and self.wrong.shape[-1] > 1 and self.wrong.all(axis=-1).any()
        axes_of: dict[Callable[..., Edit], tuple[int, ...]] = {}
        if (
            np.count_nonzero(self.wrong) <= min(MAX_ELEMENTS, MAX_SHARE * self.wrong.size)
            and not whole_rows
        ):
            axes_of = {kinds.ElementsWrong: tuple(range(-count, 0))}
        elif count > 1:
            axes_of = {
                kinds.RowsWrong: (-2,),
                kinds.ColumnsWrong: (-1,),
                kinds.HeadsWrong: tuple(range(-count, -2)),
            }
        parts = {kind: self.along(*axes) for kind, axes in axes_of.items() if axes}
        most = {kind: min(MAX_LISTED, MAX_SHARE * flags.size) for kind, flags in parts.items()}
        small = [kind for kind, flags in parts.items() if 0 < np.count_nonzero(flags) <= most[kind]]
        for kind in sorted(small, key=lambda kind: float(parts[kind].mean()))[:1]:
            places = np.argwhere(parts[kind])[:, axes_of[kind]].tolist()
            which = [
                place[0] if kind in (kinds.RowsWrong, kinds.ColumnsWrong) else tuple(place)
                for place in places
            ]
            errors = self.errors._replace(left=np.where(parts[kind], 0.0, self.errors.left))
            yield Explanation((kind(tuple(which)),), scheme, (self.one.name,), errors)

    def is_no_scheme(self, edit: Edit) -> bool:
        """Whether no parameter makes the part wrong: not whole columns, heads, padding, another beginning or end."""
        if isinstance(edit, kinds.ColumnsWrong):  # another frequency would be wrong to the end
            return not self.wrong[..., -(self.wrong.shape[-2] // 4) :, :].any()
        if not isinstance(edit, kinds.RowsWrong):
            return isinstance(edit, kinds.ElementsWrong) and self.wrong.ndim > 1
        rows = self.rows
        at_an_end = (rows[0] or rows[-1]) and np.count_nonzero(rows) > 1
        return not at_an_end and bool(np.moveaxis(self.one.values, -2, 0)[rows].any())
