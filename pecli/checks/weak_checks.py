"""Known mistakes that a check would have passed as well: what a pass does not prove."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from pecli.compare.comparison import Comparison, compare_arrays
from pecli.compare.tolerance import DRIFT, FREQ_RTOL, Tolerance, is_relative
from pecli.engine.arrays import Array, Indices, widened
from pecli.engine.edits import Layout, Parameter
from pecli.engine.schemes.scheme import Scheme, holds_several, named_tensors
from pecli.engine.table import Table
from pecli.errors import PecliError, counted

MAX_WAVE = 2.0  #: largest value of cosines and sines, attention factors included
MAX_PROBED = 256  #: rows that are looked at for waves
MAX_WIDTH = 1 << 14  #: columns of a positional table; weights may have a million
MAX_ROWS = 1 << 20  #: rows of the longest table that is tried, if this one does not show a mistake
MAX_ELEMENTS = 1 << 22  #: elements in one row of all heads of a longer table
PROBES = 16  #: rows of the second half of a table, which show most mistakes
WAVES = ("cos", "sin", "cos_sin")

Tables = Mapping[Scheme, Mapping[str, Array]]
"""The tables that were found, by the expected scheme and by its name for them."""


def weak_checks(tables: Tables, tolerance: Tolerance) -> tuple[str, ...]:
    """Return a sentence for each known mistake that would have passed.

    One reads «2 rows cannot tell llama3 scaling from none: compare 4,000 or more».
    """
    sentences: list[str] = []
    for scheme, found in tables.items():
        sentences += _undetected_mistakes(scheme, found, tolerance)
    sentences += _unequal_lengths(tables)
    names = {name for found in tables.values() for name in found}
    for scheme, found in tables.items():
        sentences += _undetectable(scheme, found, names)
    return tuple(dict.fromkeys(sentences))


def _unequal_lengths(tables: Tables) -> Iterator[str]:
    lengths: dict[str, int] = {}
    for scheme, found in tables.items():
        for name in found:
            lengths[name] = scheme.value_of("seq_len", 0)
    is_pair = len(tables) == 2 and {*lengths} == {"cos", "sin"}
    if is_pair and lengths["cos"] != lengths["sin"]:
        yield f"cos has {lengths['cos']:,} rows, and sin has {lengths['sin']:,}"


def _undetectable(scheme: Scheme, found: Iterable[str], names: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each mistake that no number of such rows shows.

    Args:
        scheme: The expected scheme.
        found: Its tables that were compared.
        names: The tables of all schemes that were compared.
    """
    has_waves = any(name in WAVES for name in found)
    if has_waves and scheme.applied_as == "rotation" and _is_only_position_0(scheme):
        yield "position 0 alone cannot detect a missing rotation: compare others"
    if {*names} == {"inv_freq"}:
        if scheme.attention_factor_value() != 1:
            yield "inv_freq cannot tell the attention factor from none: compare cos or sin, too"
    elif _has_unused_sections(scheme):
        same = "positions that are the same on all axes"
        yield f"{same} cannot tell M-RoPE sections: compare some of an image"


def _is_only_position_0(scheme: Scheme) -> bool:
    positions = scheme.value_of("positions")
    if positions:
        return {*positions} == {0}
    return scheme.value_of("seq_len") == 1 and scheme.first_position == 0


def _has_unused_sections(scheme: Scheme) -> bool:
    """Return True if a scheme has M-RoPE sections, and one position for all of them."""
    if scheme.value_of("mrope_section") is None or scheme.value_of("grid") is not None:
        return False
    positions = scheme.value_of("positions")
    return positions is None or len(positions.axes) < 2


def _undetected_mistakes(
    scheme: Scheme, names: Iterable[str], tolerance: Tolerance
) -> Iterator[str]:
    from pecli.explain.known_mistakes import neighbours

    if holds_several(scheme):
        return
    tables = named_tensors(scheme)
    compared = [name for name in names if name in tables]
    if not compared:
        return
    rows = ", ".join(compared)
    for name in compared:
        if len(tables[name].shape) > 1:
            rows = counted(tables[name].shape[-2], "row")
            break
    for neighbour in neighbours(scheme):
        advice = _advice(scheme, neighbour.scheme, compared, tolerance)
        if advice is not None:
            mistakes = " and ".join(_contrast(edit) for edit in neighbour.edits)
            yield f"{rows} cannot tell {mistakes}{advice}"


def _contrast(edit: Parameter | Layout) -> str:
    """Return an edit as the object of «cannot tell»: «llama3 scaling from none», «base 500000 from 10000»."""
    from pecli.explain.words import format_value

    expected = format_value(edit.expected)
    found = format_value(edit.found)
    if edit.subject == "scaling":
        return f"{expected} scaling from {found}"
    return f"{edit.subject} {expected} from {found}"


def _advice(
    scheme: Scheme, mistake: Scheme, names: Sequence[str], tolerance: Tolerance
) -> str | None:
    """Return what to do if tables of this length do not show a mistake; None if they do, or it does no harm."""
    error = 0.0
    for few in (True, False):
        error = _error(scheme, mistake, names, tolerance, few=few)
        if error == math.inf:
            return None
    is_given = scheme.value_of("positions") is not None
    for length, right, wrong in _longer(scheme, mistake, is_given):
        error = max(error, _error(right, wrong, names, tolerance, few=True))
        if error == math.inf:
            if is_given:
                return f": compare positions up to {length:,}"
            return f": compare {length:,} or more"
    if error > 1:
        return " within this tolerance, and no number of rows would"
    return None


def _longer(scheme: Any, mistake: Any, is_given: bool) -> Iterator[tuple[int, Scheme, Scheme]]:
    """Yield longer and longer tables of a scheme and of a mistake, with their lengths."""
    if is_given:
        with suppress(PecliError):  # Given positions may go with options that need them.
            right = replace(scheme, positions=None, seq_len=2)
            wrong = replace(mistake, positions=None, seq_len=2)
            scheme = right
            mistake = wrong
    length = scheme.value_of("seq_len") or 0
    if "seq_len" not in scheme.parameters() or not length:
        return
    while 2 * length <= MAX_ROWS:
        length *= 2
        try:
            right = replace(scheme, seq_len=length)
            wrong = replace(mistake, seq_len=length)
        except PecliError:  # A scaling may end here.
            return
        if not all(map(_is_affordable, right.tensors())):
            return
        yield length, right, wrong


def _is_affordable(table: Table) -> bool:
    if len(table.shape) < 2:
        return True
    return table.size // table.shape[-2] <= MAX_ELEMENTS


def _error(
    right: Scheme, wrong: Scheme, names: Sequence[str], tolerance: Tolerance, *, few: bool
) -> float:
    """Return the largest error of some tables, as a multiple of one that does no harm; infinite if it shows."""
    expected = named_tensors(right)
    mistaken = named_tensors(wrong)
    error = 0.0
    for name in names:
        table = mistaken.get(name)
        if table is None or table.shape != expected[name].shape:
            return math.inf
        result = _compared(name, expected[name], table, tolerance, few=few)
        if not result.passed:
            return math.inf
        if is_relative(name):
            error = max(error, (result.max_rel_error or 0.0) / FREQ_RTOL)
        else:
            error = max(error, (result.max_abs_error or 0.0) / DRIFT)
    return error


def _compared(
    name: str, expected: Table, mistaken: Table, tolerance: Tolerance, *, few: bool
) -> Comparison:
    """Compare a table of a mistake with the right one, by a few rows or by many."""
    if len(expected.shape) < 2:
        return compare_arrays(expected, mistaken.array(), tolerance, name=name)
    rows = _probed_rows(expected, few=few)
    return compare_arrays(expected.pick(rows), mistaken.pick(rows), tolerance, name=name)


def _probed_rows(table: Table, *, few: bool) -> Indices:
    """Return some rows of each head of a table."""
    from pecli.explain.sample import chosen

    count = table.shape[-2]
    if few:
        rows = np.linspace(count // 2, count - 1, PROBES)
    else:
        rows = np.append(chosen(count, table.width), count - 1)
    heads = np.arange(0, table.rows, count)
    return (heads[:, None] + np.unique(rows.astype(np.intp))).reshape(-1)


def looks_like_table(array: Array) -> bool:
    """Return True if an array that no name identifies holds waves, in three rows or more."""
    from pecli.checks.wave_columns import has_waves

    if array.dtype.kind not in "fcV" or array.ndim < 2 or not array.size:
        return False
    if array.shape[-1] > MAX_WIDTH:
        return False
    rows = widened(array.real[(0,) * (array.ndim - 2)][:MAX_PROBED])
    varying = rows[:, np.ptp(rows, axis=0) > 0]
    if not varying.size:
        return False
    is_small = bool(np.abs(varying).max() <= MAX_WAVE)  # False for NaN
    return is_small and has_waves(varying)
