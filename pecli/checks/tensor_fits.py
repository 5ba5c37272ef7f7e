"""The tensors of two files that belong together, and how one of them is read as the other."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pecli.compare.comparison import Comparison
from pecli.compare.forms import columns, halved
from pecli.compare.reading import Reading, best_reading, lone_transposes
from pecli.compare.target import PLURALS, Target, fixed
from pecli.compare.tolerance import Tolerance
from pecli.compare.waves import wave_readings
from pecli.engine.arrays import SIGNIFICAND_BITS, AnyArray, Array, dtype_name
from pecli.engine.named_values import NamedValues
from pecli.errors import bracketed
from pecli.files.contents import LoadedFile
from pecli.files.tensor_roles import ANYTHING, role_of

MATCHED_ROLES = ("cos", "sin", "inv_freq", "slopes", "bias")
"""Roles of tensors that belong together under other names."""
WAVE_ROLES = ("cos", "sin", "both", ANYTHING, None)
"""Roles of tensors whose columns may belong to frequencies."""
DOUBLED_LAYOUTS = ("halves", "interleaved")
MASK = (
    -6e4
)  #: value below which there are only masks; the most negative number of float16 is −65504

Tensors = Mapping[str, Array]


class TablePair(NamedTuple):
    """One table as A and as B have it."""

    name: str
    a: AnyArray
    b: AnyArray


@dataclass(frozen=True)
class Fit:
    """Tensors that belong together, and how one is read as the other.

    Attributes:
        name: The name for both.
        names_in_a: Their names in A.
        names_in_b: Their names in B.
        arrays: Both as they are.
        reading: How one is read as the other; None if it cannot be.
        reads_a: True if it is A that was read as B has it.
    """

    name: str
    names_in_a: Sequence[str]
    names_in_b: Sequence[str]
    arrays: tuple[Array, Array]
    reading: Reading | None = None
    reads_a: bool = False

    @property
    def note(self) -> str:
        """How the axes of both were read; empty if as they are."""
        if self.reading is None:
            return ""
        other = ""
        if self.reading.target.layout and not self.reading.form.doubled:
            other = columns(self.reading.target.layout)
        sides = ("A", "B") if self.reads_a else ("B", "A")
        notes = zip(sides, (self.reading.note, other), strict=True)
        return "; ".join(f"{side}: {note}" for side, note in notes if note)

    def compared(self, tolerance: Tolerance, *, any_dtype: bool) -> Comparison:
        """Compare B with A."""
        a, b = self.arrays
        if self.reading is None:
            return Comparison.of_shape(self.name, b.shape, bracketed(a.shape))
        result = self.reading.compared(tolerance, name=self.name, any_dtype=any_dtype)
        return result.swapped() if self.reads_a else result

    def pairs(self) -> list[TablePair]:
        """Return the tables without copies and doubled columns, for a search for reasons."""
        if self.reading is None:
            return [TablePair(self.name, *self.arrays)]
        pairs = []
        for name, (expected, found) in self.reading.pairs().items():
            table = np.asarray(expected)
            pairs.append(
                TablePair(name, found, table) if self.reads_a else TablePair(name, table, found)
            )
        return pairs


def find_fits(a: LoadedFile, b: LoadedFile) -> list[Fit]:
    """Return the tensors that belong together.

    They are the only ones of both files; or cosines and sines with both in one array; or those of one name, and of the
    others those whose names have the same role.
    """
    in_a = a.read_as(_float_dtype(b)).tensors  # A .csv file has no dtypes of its own.
    in_b = b.read_as(_float_dtype(a)).tensors
    is_text = "csv" in (a.format, b.format)
    if len(in_a) == len(in_b) == 1:
        ((name, ours),) = in_a.items()
        ((other_name, theirs),) = in_b.items()
        only = _fit(name, other_name, ours, theirs, is_text)
        return _without_lone_transposes([only], is_text)
    both = _fit_both(in_b, in_a, is_text, reads_a=False) or _fit_both(
        in_a, in_b, is_text, reads_a=True
    )
    if both is not None:
        return [both]
    names = _matched_names(in_a, in_b)
    fits = [_fit(name, names[name], in_a[name], in_b[names[name]], is_text) for name in names]
    return _without_lone_transposes(fits, is_text)


def _without_lone_transposes(fits: Sequence[Fit], is_text: bool) -> list[Fit]:
    """Compare tables as they stand if they only fit transposed, and the table beside them does not."""
    lone = lone_transposes({fit.name: fit.reading for fit in fits if fit.reading is not None})
    settled = []
    for fit in fits:
        if fit.name in lone:
            names = (fit.names_in_a[0], fit.names_in_b[0])
            settled.append(_fit(*names, *fit.arrays, is_text, upright=True))
        else:
            settled.append(fit)
    return settled


def _float_dtype(file: LoadedFile) -> str:
    """Return the first floating dtype of a file's tensors."""
    for array in file.tensors.values():
        dtype = dtype_name(array.dtype)
        if dtype in SIGNIFICAND_BITS:
            return dtype
    return "float64"


def _matched_names(in_a: Tensors, in_b: Tensors) -> dict[str, str]:
    """Return the names in B of tensors in A: the same, or the only one with the same role."""
    names = {name: name for name in in_a if name in in_b}
    roles_in_a = _by_role([name for name in in_a if name not in names])
    roles_in_b = _by_role([name for name in in_b if name not in names])
    for role, name in roles_in_a.items():
        if role in roles_in_b:
            names[name] = roles_in_b[role]
    return names


def _by_role(names: Sequence[str]) -> dict[str, str]:
    """Return the tensors that are the only ones with their role."""
    roles = {}
    for name in names:
        role = role_of(name)
        if role in MATCHED_ROLES:
            roles[name] = role
    counts = Counter(roles.values())
    return {role: name for name, role in roles.items() if role and counts[role] == 1}


def _fit_both(whole: Tensors, parts: Tensors, is_text: bool, *, reads_a: bool) -> Fit | None:
    """Fit one array that holds the cosines and sines which the other file has apart."""
    tables: dict[str, Array] = {}
    for name, array in parts.items():
        role = role_of(name)
        if role is not None and role in PLURALS:
            tables[role] = array
    if len(whole) != 1 or len(tables) != 2:
        return None
    if tables["cos"].shape != tables["sin"].shape:
        return None
    ((name, array),) = whole.items()
    reading = best_reading(array, _targets_of_both(tables), is_text=is_text)
    if reading is None:
        return None
    whole_names = [name]
    part_names = [*parts]
    if reads_a:
        return Fit("cos_sin", whole_names, part_names, (array, array), reading, reads_a)
    return Fit("cos_sin", part_names, whole_names, (array, array), reading, reads_a)


def _targets_of_both(tables: Tensors) -> Iterator[Target]:
    """Yield cosines and sines in one array, with columns as they are, and once if they are doubled."""
    cos = _single_columns(tables["cos"])
    sin = _single_columns(tables["sin"])
    for doubled in cos:
        if doubled in sin:
            both = {"cos": cos[doubled], "sin": sin[doubled]}
            yield fixed(both, waves=True, layout=doubled, quantised=True)


def _single_columns(array: AnyArray) -> dict[str, AnyArray]:
    """Return an array as it is, and, by the way columns are doubled, with one of two columns per frequency."""
    tables = {"": array}
    if not array.ndim or array.shape[-1] % 2:
        return tables
    for doubled in DOUBLED_LAYOUTS:
        first, second = halved(array, doubled)
        if np.array_equal(first, second, equal_nan=True):
            tables[doubled] = first
    return tables


def _fit(
    name: str, name_in_b: str, a: Array, b: Array, is_text: bool, *, upright: bool = False
) -> Fit:
    """Fit two tensors as one table, whichever has more axes; as they are if their shapes do not allow it.

    If `upright`, a table that fits only when transposed is not read so.
    """
    fit = Fit(name, [name], [name_in_b], (a, b))
    has_waves = role_of(name) in WAVE_ROLES and role_of(name_in_b) in WAVE_ROLES
    is_quantised = (a.dtype.kind in "iu") != (b.dtype.kind in "iu")
    if a.shape == b.shape and not (has_waves and is_quantised):
        return replace(fit, reading=_same_shape(name, a, b, has_waves, is_text, upright=upright))
    sides = [_Side(a, b, reads_a=False), _Side(b, a, reads_a=True)]
    for side in sorted(sides, key=lambda side: side.expected.dtype.kind in "iu"):
        targets = _targets(name, side.expected, has_waves, is_text, upright=upright)
        reading = best_reading(side.found, targets, is_text=is_text)
        if reading is not None:
            fit = replace(fit, reading=reading, reads_a=side.reads_a)
            break
    is_settled = fit.reading is not None and fit.reading.is_near
    if not has_waves or is_settled:
        return fit
    for side in sides:
        reading = _read_as_both(side.expected, side.found, is_text)
        if reading is not None:
            return replace(fit, reading=reading, reads_a=side.reads_a)
    return fit


class _Side(NamedTuple):
    """An array to be read as the other has it."""

    expected: Array
    found: Array
    reads_a: bool


def _same_shape(
    name: str, a: Array, b: Array, has_waves: bool, is_text: bool, *, upright: bool
) -> Reading:
    """Read an array as another of the same shape; a square table may be transposed."""
    found = np.asarray(b, order="C")
    masked = _is_masked(a) and _is_masked(found)
    straight = Reading.straight(name, a, found, masked=masked)
    if upright or role_of(name) not in PLURALS or a.ndim < 2 or straight.is_near:
        return straight
    turned = best_reading(found, _targets(name, a, has_waves, is_text), is_text=is_text)
    if turned is not None and turned.transposed and turned.is_near:
        return turned
    return straight


def _targets(
    name: str, expected: AnyArray, has_waves: bool, is_text: bool, *, upright: bool = False
) -> Iterator[Target]:
    """Yield an array as it is, without axes of length 1, and with one of two columns per frequency."""
    expected = np.atleast_1d(expected)
    options: NamedValues = {
        "quantised": has_waves,
        "masked": _is_masked(expected),
        "transposable": has_waves and role_of(name) in MATCHED_ROLES and not upright,
    }
    long_axes = tuple(length for length in expected.shape if length != 1)
    # One row stays a row, unless it is a column of text.
    is_column = is_text and expected.shape[-1] == 1 and bool(long_axes)
    shapes = [expected.shape]
    if len(long_axes) > 1 or is_column:
        shapes.append(long_axes)
    for shape in dict.fromkeys(shapes):
        table = expected.reshape(shape)
        if not has_waves or table.ndim < 2:
            yield fixed({name: table}, **options)
            continue
        for doubled, single in _single_columns(table).items():
            yield fixed({name: single}, waves=True, layout=doubled, **options)


def _is_masked(array: AnyArray) -> bool:
    """Return True if the last key is hidden from the first query: by −∞, or by a dtype's most negative number."""
    if array.ndim < 2 or array.dtype.kind not in "fV" or not array.size:
        return False
    if array.shape[-1] != array.shape[-2] or array.shape[-1] < 2:
        return False
    first_row = array[(0,) * (array.ndim - 1)]
    return bool(first_row[-1] <= MASK)


def _read_as_both(expected: AnyArray, array: AnyArray, is_text: bool) -> Reading | None:
    """Read an array as the cosines and sines that another holds, both in one array each."""
    for both in wave_readings(expected):
        if not both.has_equal_copies():
            continue
        tables: dict[str, Array] = {}
        for part in both.parts:
            if not part.negated:
                tables[part.name] = part.first_copy
        reading = best_reading(array, _targets_of_both(tables), is_text=is_text)
        if reading is not None and reading.is_near:
            return reading
    return None
