"""A tensor of a file, compared with what it should be."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from pecli.checks.doubts import Doubt, SameFunctionTwice, SinesFirst
from pecli.compare.candidate import PLURALS
from pecli.compare.comparison import Comparison
from pecli.compare.problems import CopiesDiffer, LearnedConstant, LearnedNotFinite, Problem
from pecli.compare.reading import Reading
from pecli.compare.reading_notes import describe_arrangement
from pecli.compare.tolerance import Tolerance
from pecli.engine.arrays import Array, widened
from pecli.engine.schemes.scheme import Scheme
from pecli.files.tensor_roles import function_order, role_of

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
        layer_type: The layer type that it belongs to; empty if the model has only one.
        right_for: Another layer type whose table it is.
        doubts: Why a pass proves less than it seems to.
        has_length: False if the scheme's number of rows is a guess at the one in the file, since a
            model does not state it.
    """

    tensor: str
    result: Comparison
    scheme: Scheme | None = None
    found_tables: Mapping[str, Array] = field(default_factory=dict)
    note: str = ""
    layer_type: str = ""
    right_for: str = ""
    doubts: tuple[Doubt, ...] = ()
    has_length: bool = True

    @classmethod
    def from_reading(
        cls,
        tensor: str,
        label: str,
        reading: Reading,
        tolerance: Tolerance,
        *,
        descriptive_name: str,
        any_dtype: bool = True,
    ) -> "CheckedTensor":
        """Compare a tensor with its expected tables, and return the result with notes for a report.

        Args:
            tensor: Its name in the file.
            label: Its name in the report.
            reading: The tensor, the tables that it should hold, and how their axes match: (2, 64, 128)
                as two copies of cosines (64, 128), for example.
            tolerance: The errors that pass.
            descriptive_name: The name that may state which functions the tensor holds, and their order,
                such as `cos` or `sin_cos`; empty for an array without a name.
            any_dtype: True if another dtype is not a problem.
        """
        # If the comparison fails, other code looks for the parameter that is wrong. It needs the tables
        # that were found, and the scheme that should have made them.
        found = reading.take_found_tables_and_scheme()
        return cls(
            tensor=tensor,
            result=compare_reading(label, reading, tolerance, any_dtype=any_dtype),
            scheme=found.scheme,
            found_tables=found.tables,
            note=describe_arrangement(reading),
            doubts=tuple(_find_doubts_about_functions(label, descriptive_name, reading)),
        )

    @property
    def is_to_explain(self) -> bool:
        """True if values differ, and copies of the table do not differ from each other."""
        return self.result.mismatched != 0 and not isinstance(self.result.finding, CopiesDiffer)


def _find_doubts_about_functions(
    label: str, descriptive_name: str, reading: Reading
) -> Iterator[Doubt]:
    """Yield a doubt if a tensor may hold other functions than it was read as, for all that its name states.

    Sines before cosines may be a mistake in the order, and twice the same cosines one in the sines.
    """
    if reading.candidate.names == SINES_FIRST and function_order(descriptive_name) != SINES_FIRST:
        yield SinesFirst(label)
    function = role_of(reading.name) or ""
    may_hold_both = function in PLURALS and role_of(descriptive_name) != function
    if may_hold_both and reading.arrangement.begins_with_two_copies:
        yield SameFunctionTwice(label, function)


def compare_reading(
    label: str, reading: Reading, tolerance: Tolerance, *, any_dtype: bool = True
) -> Comparison:
    """Compare a tensor with the tables that it should hold.

    A learned table has no expected values. It fails only if it is damaged: if it holds infinities or
    NaN, or the same number everywhere.

    A tensor may hold several copies of a table, such as one per sequence of a batch. If their values
    are wrong, and one copy differs from another, the result has the finding `CopiesDiffer`: no
    single mistake explains all copies, so that callers search for none.

    Args:
        label: Its name in the result.
        reading: The tensor beside the expected tables, and how its axes and columns are matched with
            them.
        tolerance: The errors that pass.
        any_dtype: True if another dtype is not a finding.
    """
    if reading.is_learned:
        problem = _find_problem_of_learned(reading.array)
        return Comparison.learned(label, reading.array.shape, problem)
    result = reading.compare(tolerance, name=label, any_dtype=any_dtype)
    # A result has one finding, and one such as another dtype is already an explanation.
    are_only_values_wrong = bool(result.mismatched) and result.finding is None
    if are_only_values_wrong and not _are_copies_alike(reading, tolerance):
        return replace(result, finding=CopiesDiffer())
    return result


def _are_copies_alike(reading: Reading, tolerance: Tolerance) -> bool:
    """Return True if all copies of a table in a tensor agree, so that one mistake may explain all.

    Of a batch of 3 tables, all three have to agree. The two columns of a frequency in c0 c1 c0 c1 may
    differ if the search for a mistake takes both of them. If it takes one, they must agree, since a
    reason would leave the other one out.
    """
    allowed_difference = max(tolerance.atol, MAX_COPY_ERROR)
    return reading.has_equal_copies(
        allowed_difference, columns_may_differ=reading.explains_both_columns
    )


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


def tables_of_part(layer_type: str, tables: Mapping[str, Array]) -> dict[str, Array]:
    """Return the tables of one type of layers, by the names that its own scheme has for them.

    `sliding_attention.cos` is `cos` of the scheme of the type `sliding_attention`. If there is only
    one type, its name is empty, and the tables are returned as they are.
    """
    prefix = f"{layer_type}." if layer_type else ""
    of_part = {}
    for name, table in tables.items():
        if name.startswith(prefix):
            of_part[name.removeprefix(prefix)] = table
    return of_part
