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
WAVES = ("cos", "sin", "cos_sin")  #: names of tables of cosines, sines or both
INEXACT_KINDS = "fcV"
"""NumPy's kinds of dtypes that hold waves: floats, complex numbers, and V for bfloat16."""


def find_weaknesses(tables: Tables, tolerance: Tolerance) -> list[Doubt]:
    """Return a doubt for each known mistake that would have passed.

    One reads «2 rows cannot tell llama3 scaling from none: compare 4,000 or more».
    """
    doubts: list[Doubt] = []
    for scheme, found in tables.items():
        doubts += _find_undetected_mistakes(scheme, found, tolerance)
    doubts += _find_unequal_lengths(tables)
    all_names = set[str]().union(*tables.values())
    for scheme, found in tables.items():
        doubts += _find_mistakes_without_trace(scheme, found, all_names)
    return doubts


def _find_unequal_lengths(tables: Tables) -> Iterator[Doubt]:
    """Yield a doubt if the cosines have another number of rows than the sines: 4,096 and 2,048.

    Then each is a table of a scheme of its own, so that there are two schemes.
    """
    lengths: dict[str, int] = {}
    for scheme, found in tables.items():
        lengths |= dict.fromkeys(found, scheme.value_of("seq_len", 0))
    is_pair = len(tables) == 2 and {*lengths} == {"cos", "sin"}
    if is_pair and lengths["cos"] != lengths["sin"]:
        yield UnequalLengths(lengths["cos"], lengths["sin"])


def _find_mistakes_without_trace(
    scheme: Scheme, compared: Iterable[str], all_compared: Collection[str]
) -> Iterator[Doubt]:
    """Yield a doubt for each mistake that leaves no trace in such tables, however many rows they have.

    Args:
        scheme: The expected scheme.
        compared: Its tables that were compared: `inv_freq`, `cos`.
        all_compared: The tables of all schemes that were compared.
    """
    has_cosines = any(name in WAVES for name in compared)
    is_rotation = has_cosines and scheme.applied_as == "rotation"
    # At position 0 all angles are 0, so that any rotation looks like none.
    if is_rotation and _is_only_position_0(scheme):
        yield OnlyPosition0()
    has_only_frequencies = {*all_compared} == {"inv_freq"}
    if not has_only_frequencies:
        # M-RoPE's sections choose among time, row and column, which are the same for text.
        if _has_unused_sections(scheme):
            yield SectionsUnseen()
    elif scheme.attention_factor_value() != 1:
        # YaRN's attention factor multiplies cosines and sines, not frequencies.
        yield AttentionFactorUnseen()


def _is_only_position_0(scheme: Scheme) -> bool:
    """Return True if a table has no row but that of position 0, or several of it."""
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


def _find_undetected_mistakes(
    scheme: Scheme, names: Iterable[str], tolerance: Tolerance
) -> Iterator[Doubt]:
    """Yield a doubt for each known mistake with which the same tables would have passed.

    Only the first ones are named, and the number of the others: two rows rule out few of the known mistakes.

    Args:
        scheme: The expected scheme.
        names: The tables that passed, by the scheme's names.
        tolerance: The errors that passed.
    """
    from pecli.checks.undetected import find_undetected_mistakes

    if holds_several(scheme):
        return  # Mistakes are planted in one scheme, not in a bundle of them.
    tables = named_tensors(scheme)
    compared = tuple(name for name in names if name in tables)
    subject = _describe_subject(tables, compared)
    is_at_given_positions = scheme.value_of("positions") is not None
    doubts = [
        UndetectedMistake(
            subject=subject,
            edits=edits,
            length=length,
            is_at_given_positions=is_at_given_positions,
        )
        for edits, length in find_undetected_mistakes(scheme, compared, tolerance)
    ]
    # A scaling that is applied twice is an example of two mistakes of the catalogue.
    different_doubts = [*dict.fromkeys(doubts)]
    yield from different_doubts[:MAX_DOUBTS]
    unnamed_count = len(different_doubts) - MAX_DOUBTS
    if unnamed_count > 0:
        yield MoreMistakes(subject, unnamed_count)


def _describe_subject(tables: Mapping[str, Table], compared: Sequence[str]) -> str:
    """Return what was compared: «2 rows», or names of vectors."""
    for name in compared:
        if len(tables[name].shape) > 1:
            return counted(tables[name].shape[-2], "row")
    return ", ".join(compared)


def looks_like_table(array: Array) -> bool:
    """Return True if an array without a telling name may be a table of cosines or sines.

    A file may hold `buffer_3` beside the tables that were compared. It may be another table if its
    columns are waves over its rows, and no value is larger than a cosine times an attention factor.
    Weights of a layer, which most tensors of a file are, fail one of these at once.
    """
    has_rows = array.ndim > 1 and array.size > 0
    may_hold_waves = array.dtype.kind in INEXACT_KINDS
    if not has_rows or not may_hold_waves or array.shape[-1] > MAX_WIDTH:
        return False
    real_parts = array.real  # the cosines, if complex numbers are cos + i·sin
    first_table = first_along(real_parts, array.ndim - 2)  # of a batch, or of heads
    rows = widened(first_table[:MAX_PROBED_ROWS])
    varying_columns = rows[:, np.ptp(rows, axis=0) > 0]  # The slowest cosines are 1 in all rows.
    if not varying_columns.size:
        return False
    is_small = bool(np.abs(varying_columns).max() <= MAX_WAVE)  # False for NaN
    return is_small and has_waves(varying_columns)
