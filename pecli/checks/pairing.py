"""Which tensors of two files belong together, and how the one is read as the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from pecli.checks.compare import Comparison, Part, compare, compare_arrays, numbered
from pecli.checks.reading import PLURALS, Making, Reading, Target, always, best_reading, fixed, misaligned, readings
from pecli.checks.tensor_roles import ANYTHING, role_of
from pecli.checks.tolerance import Tolerance
from pecli.engine.arrays import SIGNIFICAND_BITS, AnyArray, Array, dtype_name
from pecli.files import LoadedFile

MATCHED_ROLES = ("cos", "sin", "inv_freq", "slopes", "bias")
"""What tensors hold that belong together under unlike names."""
WAVE_ROLES = ("cos", "sin", "both", ANYTHING, None)
"""What tensors hold whose columns may belong to frequencies."""
MASK = -6e4
"""What only a mask is below; the most negative number of float16 is −65504."""

Pair = tuple[str, Array, Array]
"""A name, and one table as A and as B have it."""


def with_dtypes(a: LoadedFile, b: LoadedFile) -> tuple[LoadedFile, LoadedFile]:
    """Two files, one that has no dtypes (.csv) read with those of the other."""
    kinds = [[dtype_name(array.dtype) for array in file.tensors.values()] for file in (a, b)]
    one, other = (next((kind for kind in some if kind in SIGNIFICAND_BITS), "float64") for some in kinds)
    return a.read_as(other), b.read_as(one)


@dataclass(frozen=True)
class Fit:
    """Two tensors, or more, that belong together, and how the one is read as the other, if it can be."""

    name: str
    ours: Sequence[str]
    theirs: Sequence[str]
    """The names that they have in A and in B."""
    arrays: tuple[Array, Array]
    reading: Reading | None = None
    reads_a: bool = False
    """Whether it is A that was read as B has it."""

    @property
    def parts(self) -> Sequence[Part]:
        one, other = self.arrays
        if self.reading is not None:
            return self.reading.parts
        if one.shape != other.shape:
            return ()
        return (Part(one, other, numbered(other.shape), masked=_is_masked(one) and _is_masked(other)),)

    @property
    def note(self) -> str:
        words = self.reading.words if self.reading else ""
        return f"{'A' if self.reads_a else 'B'}: {words}" if words else ""

    def compared(self, tolerance: Tolerance, *, any_dtype: bool) -> Comparison:
        if self.reading is None and not self.parts:
            return compare_arrays(*self.arrays, tolerance, name=self.name, any_dtype=any_dtype)
        if self.reading is None:
            return compare(self.parts, self.arrays[1].shape, tolerance, name=self.name, any_dtype=any_dtype)
        shape = self.reading.array.shape
        role = self.reading.name
        result = compare(self.reading.parts, shape, tolerance, name=self.name, role=role, any_dtype=any_dtype)
        if self.reading.is_misaligned and not result.problem:
            result.problem = misaligned(self.reading)
        if self.reads_a:
            result.expected, result.found = result.found, result.expected
            result.expected_dtype, result.dtype = result.dtype, result.expected_dtype
            result.strange_expected, result.strange_found = result.strange_found, result.strange_expected
        return result

    def searched(self) -> list[Pair]:
        """What is searched for reasons: without copies and doubled columns."""
        if self.reading is None:
            return [(self.name, *self.arrays)]
        found: dict[str, Pair] = {}
        for number, part in zip(self.reading.numbers, self.reading.parts, strict=True):
            name = self.reading.target.names[number] if len(self.reading.target.names) > 1 else self.name
            pair = np.asarray(part.expected), part.found[(0,) * len(part.copies)]
            found.setdefault(name, (name, *(pair[::-1] if self.reads_a else pair)))
        return [*found.values()]


def fits_of(a: LoadedFile, b: LoadedFile) -> list[Fit]:
    """The tensors that belong together: the only ones; cos and sin with both in one array, as files of one array have
    them; or those of one name, and of the others those that alone hold the same by their names.
    """
    lines = "csv" in (a.format, b.format)
    ours, theirs = a.tensors, b.tensors
    if len(ours) == len(theirs) == 1:
        (one,), (other,) = ours, theirs
        return [_fit(one, other, ours[one], theirs[other], lines)]
    for whole, parts, reads_a in ((theirs, ours, False), (ours, theirs, True)):
        if (fit := _as_both(whole, parts, lines, reads_a)) is not None:
            return [fit]
    pairs: list[tuple[str, str]] = []
    for key in (lambda name: name, _role):
        taken = [{pair[side] for pair in pairs} for side in (0, 1)]
        one_side, other_side = _by_key(ours, key, taken[0]), _by_key(theirs, key, taken[1])
        pairs += [(one_side[name], other_side[name]) for name in one_side if name in other_side]
    return [_fit(one, other, ours[one], theirs[other], lines) for one, other in pairs]


def _as_both(whole: Mapping[str, Array], parts: Mapping[str, Array], lines: bool, reads_a: bool) -> Fit | None:
    """One array that holds the cosines and sines which the other file has apart."""
    tables = {role: name for name in parts if (role := role_of(name)) in PLURALS}
    if len(whole) != 1 or len(tables) != 2 or len({parts[name].shape for name in tables.values()}) > 1:
        return None
    ((name, array),) = whole.items()
    named = {role: parts[tables[role]] for role in PLURALS}
    reading = best_reading(array, _both(named), lines=lines)
    if reading is None:
        return None
    sides = ([name], list(parts))
    ours, theirs = sides if reads_a else sides[::-1]
    return Fit("cos_sin", ours, theirs, (array, array), reading, reads_a)


def _both(parts: Mapping[str, Array]) -> Iterator[Target]:
    """Cosines and sines in one array, each column once."""
    for doubled in ("", "halves", "interleaved"):
        single = {name: _undoubled(array, doubled) for name, array in parts.items()}
        if all(array is not None for array in single.values()):
            tables: Any = single
            yield Target(
                (*parts,), tables["cos"].shape, always(None, tables), waves=True, layout=doubled, quantised=True
            )


def _undoubled(array: AnyArray, doubled: str) -> AnyArray | None:
    """One of the two columns of each frequency; None where they are not the same."""
    if not doubled or array.ndim < 1 or array.shape[-1] % 2:
        return None if doubled else array
    half = array.shape[-1] // 2
    pairs = (array[..., :half], array[..., half:]) if doubled == "halves" else (array[..., ::2], array[..., 1::2])
    return pairs[0] if np.array_equal(*pairs, equal_nan=True) else None


def _role(name: str) -> str | None:
    role = role_of(name)
    return role if role in MATCHED_ROLES else None


def _by_key(names: Mapping[str, Array], key: Callable[[str], str | None], taken: set[str]) -> dict[str, str]:
    """The tensors beside those known that are the only ones of their file with such a key."""
    others = [(found, name) for name in names if name not in taken and (found := key(name))]
    counts = Counter(found for found, _ in others)
    return {found: name for found, name in others if counts[found] == 1}


def _fit(one: str, other: str, ours: Array, theirs: Array, lines: bool) -> Fit:
    """Two tensors as one table, whichever has more axes; as they are where their shapes do not allow it."""
    fit = Fit(one, [one], [other], (ours, theirs))
    waves = role_of(one) in WAVE_ROLES and role_of(other) in WAVE_ROLES
    if ours.shape == theirs.shape and (not waves or (ours.dtype.kind in "iu") == (theirs.dtype.kind in "iu")):
        return fit
    sides = [(False, ours, theirs), (True, theirs, ours)]
    for reads_a, expected, found in sorted(sides, key=lambda side: side[1].dtype.kind in "iu"):
        targets = [replace(each, masked=_is_masked(expected)) for each in _targets(one, expected, waves, lines)]
        if (reading := best_reading(found, targets, lines=lines)) is not None:
            return replace(fit, reading=reading, reads_a=reads_a)
    if waves and (reading := _arranged(ours, theirs, lines)) is not None:
        return replace(fit, reading=reading)
    return fit


def _targets(name: str, expected: AnyArray, waves: bool, lines: bool) -> Iterator[Target]:
    """An array as it is, without axes of length 1, and with one of two columns per frequency."""
    rotary = waves and role_of(name) in MATCHED_ROLES
    for shape in dict.fromkeys([expected.shape, _squeezed(expected.shape, lines)]):
        table = expected.reshape(shape)
        common: dict[str, Any] = {"waves": waves and table.ndim > 1, "transposable": rotary, "quantised": waves}
        yield fixed(name, table, **common)
        for doubled in ("halves", "interleaved") if waves and table.ndim > 1 else ():
            if (single := _undoubled(table, doubled)) is not None:
                yield fixed(name, single, layout=doubled, **common)


def _squeezed(shape: tuple[int, ...], lines: bool) -> tuple[int, ...]:
    """Without axes of length 1; but one row stays a row, unless it is a line of text."""
    plain = tuple(length for length in shape if length != 1)
    return plain if len(plain) > 1 or (lines and shape[-1:] == (1,) and plain) else shape


def _is_masked(array: AnyArray) -> bool:
    """Whether the last key is hidden from the first query: by −∞, or by a dtype's most negative number."""
    is_square = array.ndim > 1 and array.shape[-1] == array.shape[-2] > 1 and array.size > 0
    return is_square and array.dtype.kind in "fV" and bool(array[(0,) * (array.ndim - 1)][-1] <= MASK)


def _arranged(ours: AnyArray, theirs: AnyArray, lines: bool) -> Reading | None:
    """The second array as cosines and sines that the first holds, both in one array each, however arranged."""
    widths = {size // times for size in ours.shape[-3:] for times in (1, 2, 4) if size and not size % times}
    for width in sorted(widths, reverse=True):
        for found in readings(ours, Target((*PLURALS,), (None, width), partial(_zeros, width), waves=True)):
            parts = {name: part.found for name, part in zip(PLURALS, found.parts, strict=False) if not part.copies}
            if len(parts) == 2 and not found.is_near and found.is_plausible:
                reading = best_reading(theirs, _both(parts), lines=lines)
                if reading is not None and reading.is_near:
                    return reading
    return None


def _zeros(width: int, rows: int) -> Making:
    """Tables of so many rows, whatever their values."""
    return None, dict.fromkeys(PLURALS, np.broadcast_to(np.zeros(()), (rows, width)))
