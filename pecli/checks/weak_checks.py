"""Doubts about tables that passed: mistakes of the catalogue, and others that such data cannot show."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from pecli.checks.checked_tensor import Tables
from pecli.checks.doubts import (
    AttentionFactorUnseen,
    Doubt,
    MoreMistakes,
    OnlyPosition0,
    SectionsUnseen,
    UndetectedMistake,
    UnequalLengths,
)
from pecli.checks.wave_columns import has_waves
from pecli.compare.factors import first_along
from pecli.compare.tolerance import Tolerance
from pecli.engine.arrays import Array, widened
from pecli.engine.schemes.scheme import Scheme, holds_several, named_tensors
from pecli.engine.table import Table
from pecli.errors import counted

MAX_WAVE = 2.0  #: largest value of cosines and sines; attention factors of models are below 2
MAX_PROBED_ROWS = 256  #: rows that are looked at for waves
MAX_WIDTH = 1 << 14  #: columns of a positional table; weights may have a million
MAX_DOUBTS = 5  #: known mistakes that are named of those that would have passed
COSINE_TABLES = {"cos", "sin", "cos_sin"}  #: names of tables of cosines, sines or both
INEXACT_KINDS = "fcV"
"""NumPy's kinds of dtypes that hold waves: floats, complex numbers, and V for bfloat16."""


def find_weaknesses(tables: Tables, tolerance: Tolerance) -> list[Doubt]:
    """Return what the comparison of tables that passed does not prove, a doubt for each known mistake.

    One reads «2 rows cannot tell llama3 scaling from none: compare 4,000 or more».

    Args:
        tables: The tables that passed, by the scheme that they were compared with.
        tolerance: The errors that passed.
    """
    doubts: list[Doubt] = []
    for scheme, found in tables.items():
        doubts += _find_undetected_mistakes(scheme, found, tolerance)
    doubts += _find_unequal_lengths(tables)
    all_names = set[str]().union(*tables.values())
    for scheme, found in tables.items():
        doubts += _find_invisible_mistakes(scheme, found, all_names)
    return doubts


def _find_unequal_lengths(tables: Tables) -> Iterator[Doubt]:
    """Yield a doubt if the cosines have another number of rows than the sines: 4,096 and 2,048.

    A scheme has one length, so that each of them is then compared with a scheme of its own.
    """
    length_by_name: dict[str, int] = {}
    for scheme, found in tables.items():
        length_by_name |= dict.fromkeys(found, scheme.value_of("seq_len", 0))
    has_scheme_for_each = len(tables) == 2 and length_by_name.keys() == {"cos", "sin"}
    if has_scheme_for_each and length_by_name["cos"] != length_by_name["sin"]:
        yield UnequalLengths(length_by_name["cos"], length_by_name["sin"])


def _find_invisible_mistakes(
    scheme: Scheme, names: Iterable[str], names_in_file: Collection[str]
) -> Iterator[Doubt]:
    """Yield a doubt for each part of a scheme that makes no difference to any compared number.

    Such a part may be wrong in the program that made the file, although all numbers are right:

    - the base, if all rows are at position 0: cos(0 · frequency) = 1, whatever the base is;
    - the attention factor, which multiplies cosines, if only frequencies were compared;
    - M-RoPE sections, if tokens have one position for all axes, as text has.

    Args:
        scheme: The expected scheme.
        names: Its tables that were compared: `inv_freq`, `cos`.
        names_in_file: The tables that were compared, of this scheme and of others in the file.
    """
    if _are_unrotated_cosines(scheme, names):
        yield OnlyPosition0()
    has_only_frequencies = {*names_in_file} == {"inv_freq"}
    if has_only_frequencies and _has_attention_factor(scheme):
        yield AttentionFactorUnseen()
    if _has_unused_sections(scheme) and not has_only_frequencies:
        yield SectionsUnseen()


def _are_unrotated_cosines(scheme: Scheme, names: Iterable[str]) -> bool:
    """Return True if compared cosines are those of position 0 only, where all angles are 0."""
    has_cosines = not COSINE_TABLES.isdisjoint(names)
    is_rotation = has_cosines and scheme.applied_as == "rotation"
    return is_rotation and _is_only_position_0(scheme)


def _is_only_position_0(scheme: Scheme) -> bool:
    """Return True if a table has no row but that of position 0, or several of it."""
    positions = scheme.value_of("positions")
    if positions:
        return {*positions} == {0}
    return scheme.value_of("seq_len") == 1 and scheme.first_position == 0


def _has_attention_factor(scheme: Scheme) -> bool:
    """Return True if a scheme, such as YaRN, multiplies cosines and sines by a factor other than 1."""
    return scheme.attention_factor_value() != 1


def _has_unused_sections(scheme: Scheme) -> bool:
    """Return True if a scheme has M-RoPE sections, and one position for all of them.

    Sections choose among the time, the row and the column of a token, which are equal in text.
    """
    has_sections = scheme.value_of("mrope_section") is not None
    return has_sections and not _has_several_axes(scheme)


def _has_several_axes(scheme: Scheme) -> bool:
    """Return True if the positions of a scheme are listed for several axes, such as (time, row, column)."""
    positions = scheme.value_of("positions")
    return positions is not None and len(positions.axes) > 1


def _find_undetected_mistakes(
    scheme: Scheme, names: Iterable[str], tolerance: Tolerance
) -> Iterator[Doubt]:
    """Yield the known mistakes that a file may have although its tables passed.

    Two rows of cosines hardly show whether a scaling is missing: that is a doubt about the result. A
    few of these mistakes are yielded one by one, and the number of the others at the end.

    Args:
        scheme: The expected scheme.
        names: The tables that passed, by the scheme's names.
        tolerance: The errors that passed.
    """
    # Known mistakes are those of one scheme, not of one per layer type.
    if holds_several(scheme):
        return
    tables = named_tensors(scheme)
    compared = tuple(name for name in names if name in tables)
    what_passed = _describe_subject(tables, compared)
    doubts = _make_doubt_per_mistake(what_passed, scheme, compared, tolerance)
    yield from doubts[:MAX_DOUBTS]
    unnamed_count = len(doubts) - MAX_DOUBTS
    if unnamed_count > 0:
        yield MoreMistakes(what_passed, unnamed_count)


def _make_doubt_per_mistake(
    what_passed: str, scheme: Scheme, compared: tuple[str, ...], tolerance: Tolerance
) -> list[UndetectedMistake]:
    """Return the known mistakes with which compared tables would have passed as well.

    Args:
        what_passed: The tables in words, such as «2 rows».
        scheme: The expected scheme.
        compared: The names of the tables.
        tolerance: The errors that passed.
    """
    from pecli.checks.undetected import find_undetected_mistakes

    is_at_given_positions = scheme.value_of("positions") is not None
    doubts = []
    for mistake in find_undetected_mistakes(scheme, compared, tolerance):
        doubt = UndetectedMistake(
            subject=what_passed,
            edits=mistake.edits,
            length=mistake.length,
            is_at_given_positions=is_at_given_positions,
        )
        doubts.append(doubt)
    # Two kinds of mistakes may have an example in common, such as a scaling that is applied twice.
    return [*dict.fromkeys(doubts)]


def _describe_subject(tables: Mapping[str, Table], compared: Sequence[str]) -> str:
    """Return what was compared: «2 rows», or names of vectors."""
    for name in compared:
        if len(tables[name].shape) > 1:
            return counted(tables[name].shape[-2], "row")
    return ", ".join(compared)


def _may_be_table(array: Array) -> bool:
    """Return True if an array has rows of inexact numbers, no longer than those of positional tables."""
    has_rows = array.ndim > 1 and array.size > 0
    return has_rows and array.dtype.kind in INEXACT_KINDS and array.shape[-1] <= MAX_WIDTH


def looks_like_table(array: Array) -> bool:
    """Return True if an array without a telling name may be a table of cosines or sines.

    A file may hold `buffer_3` beside the tables that were compared. It may be another table if its
    columns are waves over its rows, and no value is larger than a cosine times an attention factor.
    Weights of a layer, which most tensors of a file are, fail one of these at once.
    """
    if not _may_be_table(array):
        return False
    real_parts = array.real  # the cosines, if complex numbers are cos + i·sin
    first_table = first_along(real_parts, array.ndim - 2)  # of a batch, or of heads
    rows = widened(first_table[:MAX_PROBED_ROWS])
    varying_columns = rows[:, np.ptp(rows, axis=0) > 0]  # The slowest cosines are 1 in all rows.
    is_small = bool(np.abs(varying_columns).max(initial=0.0) <= MAX_WAVE)  # False for NaN
    return is_small and has_waves(varying_columns)
