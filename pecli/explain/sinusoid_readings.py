"""Ways to read tensors as cosines and sines of positions × frequencies: axes, copies, layout and rows undone.

The cheapest comes first. One is right where cos² + sin² is constant and doubled columns are equal, at any parameters.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from pecli.compare.forms import DOUBLINGS, EMPTY, MAX_SIGMAS, MAX_WRONG, Form, forms, halved, joined
from pecli.engine.arrays import COMPLEX, AnyArray, Array, Complex, Flags, Floats, Indices
from pecli.engine.schemes.scheme import Scheme
from pecli.explain.edits import (
    Channels,
    Edit,
    Negated,
    Parameter,
    Repeated,
    Rows,
    RowsWrong,
    Swapped,
    Transposed,
)
from pecli.explain.sample import UNITS, Sample, Samples, chosen, precision, rms
from pecli.explain.wave_measurement import Place

SAME = 0.05  # root mean square of a difference, relative to the values, below which noisy copies are the same
DOUBLED = (
    "alone",
    "stacked",
    "pairs",
)  # arrangements of rotary tables, whose columns may be doubled
MIN_WRAPPED = 12  # rows of a table that is looked at for positions that start again
SOME_ROWS = 512  # of a table, that tell whether parts go together
CONSTANT = 0.12  # how far the sum of squares of a pair may be from constant, relative to it
TRANSPOSES = {
    1: (),
    2: ((1, 0),),
    3: ((0, 2, 1), (1, 0, 2)),
}  # other orders of axes, by their number
REVERSED = Channels("reversed")
MIN_ANGLE = 2.0  # the largest of a table of angles: cosines and sines, times an attention factor, are smaller
_SIGNS: dict[tuple[int, int], tuple[Edit, ...]] = {
    (1, 0): (),
    (1, 2): (Negated("all"),),
    (-1, 0): (Negated("sin"),),
    (-1, 2): (Negated("cos"),),
    (-1, 1): (Swapped(),),
    (-1, 3): (Swapped(), Negated("all")),
    (1, 1): (Swapped(), Negated("cos")),
    (1, 3): (Swapped(), Negated("sin")),
}
"""What turning the other way, and quarter turns, mean."""
_ALONE: tuple[tuple[Edit, ...], ...] = (
    (),
    (Swapped(), Negated("all")),
    (Negated("all"),),
    (Swapped(),),
)
"""What quarter turns of one function mean."""
SignsAndOrder = tuple[
    tuple[Edit, ...], int, tuple[Edit, ...]
]  # signs, position of the first row, order of rows


@dataclass(frozen=True)
class Reading:
    """Parts of shape (rows, channels): one function, or both in the order that the tensors have them."""

    parts: tuple[Floats, ...]
    rows: Indices  # which rows these are, undone edits of rows included
    length: int
    form: Form
    edits: tuple[Edit, ...]
    tensors: tuple[str, ...]
    dtype: str  # of a scheme that makes them
    width: int = 0  # columns of the tensor that both functions were read from

    @property
    def channels(self) -> int:
        return int(self.parts[0].shape[1])

    @property
    def is_sinusoidal(self) -> bool:
        """Whether one tensor has both functions side by side."""
        return self.form.arrangement in ("interleaved", "halves") and len(self.tensors) == 1

    def values(self, cos_first: bool) -> Complex | Floats:
        """cos + i·sin, or the only function."""
        if len(self.parts) == 1:
            return self.parts[0]
        cos, sin = self.parts if cos_first else self.parts[::-1]
        return np.asarray(cos + 1j * sin)

    @property
    def last(self) -> int:
        """The last row that is not empty."""
        return self.length - 1 - int(np.argmin(empty_rows(self.parts)[::-1]))

    def picked(self, most: int, wrong: Indices) -> "Reading":
        """Fewer rows: the longest run that is not empty, of numbers and not known to be wrong, and some others."""
        bad = ~_good_rows(self.parts) | np.isin(np.arange(len(self.rows)), wrong)
        starts = np.flatnonzero(~bad & np.r_[True, bad[:-1]])
        runs = [int(np.argmax(np.r_[bad[start:], True])) for start in starts] if bad.any() else [0]
        first = int(starts[int(np.argmax(runs))]) if len(starts) else 0
        some = chosen(len(self.rows), self.channels * len(self.parts), first)
        some = some[~bad[some]][: most or None]
        some = some[
            np.unique(self.rows[some], return_index=True)[1]
        ]  # positions that start again are there once
        return replace(self, parts=tuple(part[some] for part in self.parts), rows=self.rows[some])

    def reversed(self) -> "Reading":
        """With the channels in reverse order."""
        return replace(
            self, parts=tuple(part[:, ::-1] for part in self.parts), edits=(*self.edits, REVERSED)
        )


def empty_rows(parts: Sequence[Floats]) -> Flags:
    """Rows of zeros, but for noise."""
    size = np.fmax.reduce([np.fmax.reduce(np.abs(part), axis=1) for part in parts])
    return np.asarray(size <= EMPTY * float(np.fmax.reduce(size, initial=0.0)))


def _good_rows(parts: Sequence[Floats]) -> Flags:
    """Rows of numbers that are not empty."""
    return np.asarray(~empty_rows(parts) & np.isfinite(parts).all(axis=(0, 2)))


def _arrays(one: Sample) -> Iterator[tuple[AnyArray, tuple[Edit, ...]]]:
    """The tensor with two axes (three where functions are stacked or paired), straight and transposed."""
    values, edits = _without_copies(one)
    if values.ndim in TRANSPOSES:
        yield values, edits
        for axes in TRANSPOSES[values.ndim] if one.whole else ():
            yield values.transpose(axes), (*edits, Transposed(axes))


def _without_copies(one: Sample) -> tuple[AnyArray, tuple[Edit, ...]]:
    """Without axes of length 1, and without axes along which everything is the same."""
    values, edits = one.values, list[Edit]()
    axes = [axis for axis, size in enumerate(values.shape) if size != 1]
    values = values.reshape([values.shape[axis] for axis in axes] or [1])
    while values.ndim > 2:
        copied = next(
            (k for k in range(values.ndim) if _same(values, values.take([0], axis=k))), None
        )
        if copied is None:
            break
        edits.append(Repeated(axes.pop(copied), values.shape[copied]))
        values = values.take(0, axis=copied)
    return values, tuple(edits)


def _same(one: AnyArray, other: AnyArray) -> bool:
    """Whether two arrays are equal but for noise, which no element sticks out of; one may stand for several copies."""
    size = float(np.abs(one).mean()) + float(np.abs(other).mean())
    off = np.abs(one - other)
    noise = rms(off)
    same = noise < SAME * size / 2 and off.max(initial=0.0) <= max(EMPTY * size, MAX_SIGMAS * noise)
    return bool(same) or not off.any()


def readings(found: Samples, first: Form | None = None) -> Iterator[Reading]:
    """Every reading of one tensor, or of cosines and sines, whose parts go together; a given form is tried first."""
    samples = list(found.values())
    one = samples[0]
    dtype = COMPLEX.get(one.dtype, one.float_dtype)
    for each in zip(*(list(_arrays(one)) for one in samples), strict=False):
        values, edits = (
            [np.where(np.isfinite(array), array, np.nan) for array, _ in each],
            each[0][1],
        )
        if values[0].size < 8 or any(np.isnan(array).mean() > MAX_WRONG for array in values):
            continue
        for form, parts in _split(values, first):
            rows = one.rows if len(one.rows) == len(parts[0]) else np.arange(len(parts[0]))
            length = len(parts[0]) if one.whole else one.shape[-2]
            yield Reading(
                tuple(parts), rows, length, form, edits, tuple(found), dtype, values[0].shape[-1]
            )


def same_reading(reading: Reading, found: Samples) -> Reading | None:
    """The reading of other rows of the same tensors; None where they cannot be read so."""
    arrays = [_without_copies(one)[0] for one in found.values()]
    split = [reading.form.split(array, SAME) for array in arrays if array.ndim in TRANSPOSES]
    parts = tuple(np.asarray(part, np.float64) for each in split for part in each or ())
    rows = next(iter(found.values())).rows
    for edit in reading.edits:
        rows = rows % edit.at if isinstance(edit, Rows) and edit.at else rows  # which start again
    if len(parts) != len(reading.parts) or len(parts[0]) != len(rows):
        return None
    same = replace(reading, parts=parts, rows=rows)
    return same.reversed() if REVERSED in reading.edits else same


def _split(values: Sequence[AnyArray], first: Form | None) -> Iterator[tuple[Form, list[Floats]]]:
    """The forms whose parts go together, best first, with the parts."""
    found: list[tuple[bool, float, int, Form, list[Floats]]] = []
    possible = [Form("alone", doubled) for doubled in DOUBLINGS]
    if (
        len(values) == 1
    ):  # columns beside each other are nearly the same in wide tables of both functions
        possible = [
            form for form in forms(values[0]) if not form.doubled or form.arrangement in DOUBLED
        ]
        possible.append(Form("halves", padded=True))
    for rank, form in enumerate(dict.fromkeys([*([first] if first else []), *possible])):
        split = [form.split(array, SAME) for array in values]
        parts = [np.asarray(part, np.float64) for each in split for part in each or ()]
        if None in split or min(parts[0].shape) < 1 or len(parts[0]) < 2:
            continue
        off = 0.0
        if len(parts) == 2:
            full = _good_rows(parts)
            power = parts[0][full] ** 2 + parts[1][full] ** 2
            power = power[:: max(1, len(power) // SOME_ROWS), power.any(axis=0)]
            apart = np.abs(power / np.median(power, axis=0) - 1) if power.size else np.ones((1, 1))
            off = float(
                np.quantile(np.minimum(apart, 1).mean(axis=0), 0.9)
            )  # a few rows may be wrong
        if off <= CONSTANT:
            found.append((len(parts) == 1, round(off, 2), rank, form, parts))
    doubled = [
        each for each in found if each[3].doubled
    ]  # beside those, no other reading means anything
    yield from (each[3:] for each in sorted(doubled or found, key=lambda each: each[:3]))


def _wrapped(reading: Reading, table: Floats) -> Iterator[Reading]:
    """The same with positions that start again."""
    gaps = np.append(
        np.flatnonzero(np.diff(reading.rows) != 1) + 1, len(table)
    )  # between rows that follow each other
    again = np.sqrt(np.mean((table - table[0]) ** 2, axis=1)) < SAME * (rms(table) or 1.0)
    again[1:] &= ~again[:-1]  # slow waves stay near
    for index in (np.flatnonzero(again[4:]) + 4).tolist()[:8]:
        at = int(reading.rows[index])
        count = min(at, int(gaps[0]), int(gaps[gaps > index][0]) - index)
        apart = np.sqrt(np.mean((table[index : index + count] - table[:count]) ** 2, axis=1))
        if count >= 2 and np.median(apart) < SAME * rms(table):  # a few may be wrong
            yield replace(
                reading, rows=reading.rows % at, edits=(*reading.edits, Rows("wrapped", at))
            )
            return


def all_readings(found: Samples, expected: Form | None, channels: int = 0) -> Iterator[Reading]:
    """Rows that wrap show at once, and come first. Readings with the expected channels before others."""
    if not any(np.ptp(one.values) for one in found.values()):
        return  # a constant is no wave
    plain = list(readings(found, expected))
    plain.sort(key=lambda reading: bool(channels) and reading.channels != channels)
    for reading in plain[:1]:
        table = np.nan_to_num(np.concatenate(reading.parts, axis=1))
        if len(table) >= MIN_WRAPPED:
            yield from _wrapped(reading, table)
        speeds = np.abs(np.diff(reading.parts[0][:MIN_WRAPPED], axis=0)).mean(axis=0)
        half = (reading.channels + 1) // 2
        if np.median(speeds[:half]) < np.median(speeds[-half:]) / 2:
            yield reading.reversed()
    yield from plain


def groups(tensors: Mapping[str, Array]) -> list[dict[str, Array]]:
    """Cosines with the sines that have their name, shape and dtype; every other tensor alone."""
    left, found = dict(tensors), []
    for pair in combinations(tensors, 2):
        cos, sin = pair if "cos" in pair[0].lower() else pair[::-1]
        if sin.lower() != cos.lower().replace("cos", "sin") or not {*pair} <= left.keys():
            continue
        if (left[cos].shape, left[cos].dtype) == (left[sin].shape, left[sin].dtype):
            found.append({cos: left.pop(cos), sin: left.pop(sin)})
    return found + [{name: array} for name, array in left.items()]


def order_of_rows(
    whole: Reading, scheme: Scheme | None, offset: int, start: int, wrong: Indices, *, reverse: bool
) -> tuple[list[Edit] | None, int]:
    """What rows that no scheme explains are: padding, which moves the start; zeros; errors; None where too many are."""
    padding_idx = None if scheme is None else scheme.value_of("padding_idx")
    count, length = len(wrong), len(whole.rows)
    if not count:
        lost = padding_idx is not None and padding_idx - start in whole.rows
        return [Parameter("padding_idx", padding_idx, None)] if lost else [], start
    empty = bool(empty_rows(whole.parts)[wrong].all())
    front = offset - start
    if wrong[-1] < front <= 2 * count and not reverse:
        return [Rows("padded", front)], offset
    if empty and count > 1 and wrong[0] == length - count:
        return [Rows("padded at the end", count)], start
    if empty and count == 1 and scheme is not None and "padding_idx" in scheme.parameters():
        found = int(whole.rows[wrong[0]]) + start
        return [Parameter("padding_idx", padding_idx, found)] if found != padding_idx else [], start
    if count > MAX_WRONG * length:
        return None, start
    names = (
        wrong if length == whole.length else whole.rows[wrong]
    )  # rows that wrap have other numbers
    return [RowsWrong(tuple(names.tolist()))], start


def signs_and_order(place: Place, both: bool, last: int, expected_quarter: int) -> SignsAndOrder:
    """What a place means for a table whose last row is `last`."""
    direction, quarter, start = place.direction, place.quarter, place.start
    rows: tuple[Edit, ...] = ()
    if start < 0 and -start - last >= 0 and (direction < 0 or not both):
        rows, start = (Rows("reversed"),), -start - last
        direction, quarter = (1, quarter) if direction < 0 else (1, -quarter % 4)
    if both:
        return _SIGNS[direction, quarter], start, rows
    turn = (direction * quarter - expected_quarter) % 4
    return (
        _ALONE[-turn % 4 if expected_quarter == 3 else turn],
        start,
        rows,
    )  # a quarter after sines are cosines


def finished(step: str, one: Sample) -> Iterator[Sample]:
    """The table after the step that is missing, if that is what it lacks."""
    values = one.values
    if values.ndim < 2 or np.iscomplexobj(values) or not np.isfinite(values).all():
        return
    if step == "angles":
        rows, size = (one.rows - one.rows[0])[:, None], np.abs(values).max()
        bent = (
            values
            - values[..., :1, :]
            - rows * ((values[..., -1:, :] - values[..., :1, :]) / max(1, rows[-1, 0]))
        )
        if (
            size > MIN_ANGLE
            and len(rows) > 2
            and np.abs(bent).max() <= UNITS * precision(one.dtype) * size
        ):
            yield replace(one, values=(np.cos if one.name == "cos" else np.sin)(values))
        return
    first, second = halved(values, step)
    if first.any() and not second.any():
        yield replace(one, values=joined([first, first], step))
