"""A tensor of a file, compared with what it should be."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from pecli.checks.doubts import Doubt, SinesFirst
from pecli.compare.comparison import Comparison
from pecli.compare.problems import CopiesDiffer, LearnedConstant, LearnedNotFinite, Problem
from pecli.compare.reading import Reading
from pecli.compare.reading_notes import note_on
from pecli.compare.tolerance import Tolerance
from pecli.engine.arrays import Array, widened
from pecli.engine.schemes.scheme import Scheme
from pecli.files.tensor_roles import function_order

MAX_COPY_ERROR = 1e-5  #: error by which copies of a table may differ that have one reason
COMPARED_ELEMENTS = 1 << 22  #: elements of a learned table that are looked at at once
SINES_FIRST = ("sin", "cos")

Tables = Mapping[Scheme, Mapping[str, Array]]
"""The tables that were found, by the expected scheme and by its name for them."""


@dataclass(frozen=True)
class CheckedTensor:
    """A tensor of a file that was compared with what it should be.

    Attributes:
        tensor: Its name in the file.
        result: The comparison.
        scheme: The scheme that makes the expected tables; None if they are learned.
        found_tables: One copy of what was found, by the scheme's names.
        note: How it was read.
        layers: The layer type that it belongs to, if there are several.
        right_for: Another layer type whose table it is.
        doubt: Why a pass proves less than it seems to.
        has_length: False if the scheme's number of rows is a guess at the one in the file, since a
            model does not state it.
    """

    tensor: str
    result: Comparison
    scheme: Scheme | None = None
    found_tables: Mapping[str, Array] = field(default_factory=dict)
    note: str = ""
    layers: str = ""
    right_for: str = ""
    doubt: Doubt | None = None
    has_length: bool = True

    @classmethod
    def from_reading(
        cls,
        tensor: str,
        label: str,
        reading: Reading,
        tolerance: Tolerance,
        *,
        any_dtype: bool = True,
        stated: str = "",
    ) -> "CheckedTensor":
        """Compare a tensor with the tables that it was read as.

        Args:
            tensor: Its name in the file.
            label: Its name in the result.
            reading: How its axes and columns were matched with the expected tables.
            tolerance: The errors that pass.
            any_dtype: True if another dtype is not a finding.
            stated: The name that may state the order of cosines and sines, by default the label.
        """
        to_explain = reading.take_tables_to_explain()
        return cls(
            tensor=tensor,
            result=compare_reading(label, reading, tolerance, any_dtype=any_dtype),
            scheme=to_explain.scheme,
            found_tables=to_explain.tables,
            note=note_on(reading),
            doubt=_find_doubt_about_order(label, stated or label, reading),
        )

    @property
    def is_to_explain(self) -> bool:
        """True if values differ, and copies of the table do not differ from each other."""
        return self.result.mismatched != 0 and not isinstance(self.result.finding, CopiesDiffer)


def _find_doubt_about_order(label: str, stated: str, reading: Reading) -> Doubt | None:
    """Return a doubt if sines come before cosines, and the name of the tensor does not state it."""
    if reading.candidate.names == SINES_FIRST and function_order(stated) != SINES_FIRST:
        return SinesFirst(label)
    return None


def compare_reading(
    label: str, reading: Reading, tolerance: Tolerance, *, any_dtype: bool = True
) -> Comparison:
    """Compare a tensor with the tables that it was read as.

    No scheme makes a learned table: its values pass unless training cannot have left them so. A
    tensor whose copies differ, as of the sequences of a batch, is marked so that no single reason is
    looked for.

    Args:
        label: Its name in the result.
        reading: How its axes and columns were matched with the expected table.
        tolerance: The errors that pass.
        any_dtype: True if another dtype is not a finding.
    """
    if reading.is_learned:
        problem = _find_problem_of_learned(reading.array)
        return Comparison.learned(label, reading.array.shape, problem)
    result = reading.compare(tolerance, name=label, any_dtype=any_dtype)
    has_only_wrong_values = bool(result.mismatched) and result.finding is None
    if not has_only_wrong_values:
        return result
    # Both columns of a frequency are explained together, so that they may differ.
    limit = max(tolerance.atol, MAX_COPY_ERROR)
    if not reading.has_equal_copies(limit, columns_may_differ=True):
        return replace(result, finding=CopiesDiffer())
    return result


def _find_problem_of_learned(values: Array) -> Problem | None:
    """Return why a learned table cannot be the result of training; None if it can.

    It cannot hold infinities or NaN, nor one number only, as memory that was never written does. A
    table of a large model is read in blocks, since its float64 copy would not fit into memory.
    """
    low = np.inf
    high = -np.inf
    for rows in np.array_split(values, max(1, values.size // COMPARED_ELEMENTS)):
        wide = widened(rows)
        if not np.isfinite(wide).all():
            return LearnedNotFinite()
        low = min(low, float(wide.min()))
        high = max(high, float(wide.max()))
    return LearnedConstant(low) if low == high else None


def tables_by_scheme(checked: Iterable[CheckedTensor]) -> Tables:
    """Return the tables that were found, by the expected scheme: {Rope(64, 128): {"cos": …, "sin": …}}.

    If 32 layers have tables of one scheme, those of the first layer stand for all. Learned tables,
    which no scheme makes, are left out.
    """
    tables: dict[Scheme, dict[str, Array]] = {}
    for tensor in checked:
        if tensor.scheme is None:
            continue
        by_name = tables.setdefault(tensor.scheme, {})
        for name, table in tensor.found_tables.items():
            by_name.setdefault(name, table)
    return tables
