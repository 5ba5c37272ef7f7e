"""A small part that is wrong in a table that is right otherwise."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from pecli.engine import edits
from pecli.engine.arrays import Flags, Floats
from pecli.engine.edits import ColumnsWrong, Edit, ElementsWrong, HeadsWrong, RowsWrong
from pecli.engine.schemes.scheme import Scheme
from pecli.explain.bias_computation import BiasComputation
from pecli.explain.catalogue.needs import are_floats
from pecli.explain.computation import Computation, FrequencyComputation
from pecli.explain.hypothesis import Case, Mistake, Stage

MAX_SHARE = 0.25
"""Share of the rows, columns or elements that may be wrong: if more are, the rest is not «the
table».
"""

MAX_ELEMENTS = 8
"""Wrong elements that are named one by one."""

MIN_PARTS = 5
"""Rows, columns or heads of which one may be damaged in an example: it is less than `MAX_SHARE` of
them.
"""

HEADS, ROWS, COLUMNS = range(3)
"""Axes of the elements of one tensor, as `Computation.by_head` has them."""


def is_mostly_right(case: Case) -> bool:
    """Return True if a few rows have few wrong elements, or few wrong columns."""
    wrong = case.wrong_in_few_rows
    return bool(wrong.any(axis=1).mean() <= 0.5 or wrong.any(axis=0).mean() <= MAX_SHARE)


def has_wrong_elements(case: Case) -> bool:
    """Return True if any element is wrong."""
    return bool(case.wrong_elements.any())


def are_listed(case: Case) -> bool:
    """Return True if wrong elements are so few that they are named one by one, and fill no row."""
    wrong = case.wrong_elements
    by_tensor = case.observations.by_tensor(wrong).values()
    has_whole_row = any(flags.all(axis=1).any() for flags in by_tensor)
    return bool(np.count_nonzero(wrong) <= MAX_ELEMENTS) and not has_whole_row


def has_wrong_slices(case: Case) -> bool:
    """Return True if wrong elements have to be named as rows, columns or heads of a table."""
    return case.observations.rows > 1 and not are_listed(case)


@dataclass(frozen=True, eq=False)
class Damage(Mistake):
    """A small part that holds anything: elements, or all slices along one axis that have some."""

    damaged: Flags
    """Elements of all tensors, side by side (rows, columns), that are not compared."""
    wrong_elements: Flags
    """The wrong elements of one damaged tensor, (rows, columns)."""
    share: float
    """Share of the elements of a damaged tensor that are not compared."""
    tensors: tuple[str, ...] = ()
    """The names of the damaged tensors of a file; none in an example, which is of no file."""
    extent: ClassVar[tuple[int, ...]]
    """The axes along which a part extends: a row extends along heads and columns, an element along
    none.
    """
    stage = Stage.DAMAGE
    weight = 2.0

    def plant(self, computation: Computation) -> Computation:
        return replace(computation, damaged=self.damaged)

    @classmethod
    def proposals_for_case(cls, case: Case) -> Iterator[Self]:
        """Yield those rows, columns or heads as damaged that have wrong elements.

        If two elements of row 5 of `cos` are wrong, all of row 5 of `cos` is damaged. At most one
        proposal is yielded: there is none if more than MAX_SHARE of a tensor is damaged.
        """
        wrong_by_tensor = case.observations.by_tensor(case.wrong_elements)
        parts = np.array(
            [cls._damaged_part(case.specification, wrong) for wrong in wrong_by_tensor.values()]
        )  # (tensors, rows, columns)
        is_damaged = parts.any(axis=(1, 2))
        damage = parts[is_damaged][0]  # There is one, since some element is wrong.
        share = float(damage.mean())
        are_alike = bool((damage == parts[is_damaged]).all())
        if share <= MAX_SHARE and are_alike:
            damaged_tensors = np.array([*wrong_by_tensor])[is_damaged].tolist()
            yield cls(
                damaged=np.concatenate(parts, axis=1),
                tensors=tuple(damaged_tensors),
                # They show in which rows, say, all damaged tensors are damaged.
                wrong_elements=wrong_by_tensor[damaged_tensors[0]],
                share=share,
            )

    @classmethod
    def _damaged_part(cls, computation: Computation, wrong: Flags) -> Flags:
        """Return the whole rows, columns or heads of a tensor in which some element is wrong.

        If only the element in row 5 and column 3 is wrong, the part is all of row 5 for damaged rows,
        and all of column 3 for damaged columns. For damaged elements, it is this element. A tensor
        without a wrong element has no damaged part.

        Args:
            computation: The steps that make the tensor: they state which columns are which head's.
            wrong: The wrong elements of the tensor, (rows, columns).

        Returns:
            True for each element of the part, (rows, columns).
        """
        wrong_by_head = computation.by_head(wrong)  # (heads, rows, columns)
        is_part_wrong = wrong_by_head.any(axis=cls.extent, keepdims=True)
        damaged_by_head = np.broadcast_to(is_part_wrong, wrong_by_head.shape)
        return computation.from_heads(damaged_by_head)

    @classmethod
    def examples_for(cls, computation: Computation, scheme: Scheme) -> Iterator[Self]:
        """Yield one example: the row, column, head or element in the middle of every tensor is damaged.

        `cos` and `sin` of 8 rows are damaged in row 4 of each. Nothing is yielded if the part is not a
        small one of the tensors, as one row of two is.
        """
        columns_per_tensor = computation.column_count // computation.tensor_count
        no_elements = np.zeros((computation.rows, columns_per_tensor), bool)
        # The columns of rotated queries are those of several heads; a table is like one head.
        part_by_head = computation.by_head(no_elements)  # (heads, rows, columns)
        if not cls.is_small_part_of(part_by_head.shape):
            return
        part_by_head[cls._index_in_middle(part_by_head.shape)] = True
        part = computation.from_heads(part_by_head)
        yield cls(
            damaged=np.tile(part, computation.tensor_count),  # the same part of each, side by side
            wrong_elements=part,  # All elements of the part are overwritten.
            share=float(part.mean()),
        )

    @classmethod
    def _index_in_middle(cls, shape: tuple[int, ...]) -> tuple[int | slice, ...]:
        """Return the index of the part in the middle of a tensor (heads, rows, columns).

        Of one head with 8 rows and 18 columns, row 4 is [:, 4, :], and an element [0, 4, 9]. Edges
        would be poor examples: checks may leave them out, and the first row or column may hold zeros
        anyway.
        """
        index: list[int | slice] = [size // 2 for size in shape]
        for axis in cls.extent:
            index[axis] = slice(None)
        return tuple(index)

    @classmethod
    @abstractmethod
    def is_small_part_of(cls, shape: tuple[int, ...]) -> bool:
        """Return True if one part is a small one of a tensor (heads, rows, columns)."""

    @property
    def cost(self) -> float:
        """Of rows and columns that hold the same damage, the smaller part is named."""
        return self.weight + self.share

    def affected(self, case: Case) -> tuple[str, ...]:
        return self.tensors


class DamagedElements(Damage):
    """Some elements were overwritten."""

    summary = "some elements were overwritten"
    extent = ()
    data_needs = (is_mostly_right, has_wrong_elements, are_listed)

    @classmethod
    def is_small_part_of(cls, shape: tuple[int, ...]) -> bool:
        return shape[ROWS] * shape[COLUMNS] > MAX_ELEMENTS

    def edits(self, case: Case) -> tuple[Edit, ...]:
        """Return the edit that lists the wrong elements by their index: 5 in a vector, (3, 5) in a table."""
        is_vector = len(self.wrong_elements) == 1
        if is_vector:
            columns = np.flatnonzero(self.wrong_elements[0])
            return (ElementsWrong(tuple(columns.tolist())),)
        indices = _indices_of_elements(self.wrong_elements, case.specification)
        return (ElementsWrong(tuple(indices)),)


def _indices_of_elements(elements: Flags, computation: Computation) -> Iterator[tuple[int, ...]]:
    """Yield the index that each element has in the array of a file.

    It is (3, 5) for row 3 and column 5 of a table. Rotated queries have the columns of all heads side
    by side here: in an array (sequences, heads, rows, columns), the index may be (0, 2, 3, 5).

    Args:
        elements: True for each element that is meant, (rows, columns).
        computation: The steps that make the tensor: they state which columns are which head's.
    """
    for head, row, column in np.argwhere(computation.by_head(elements)).tolist():
        yield computation.element_index(head, row, column)


class DamagedSlices(Damage):
    """Rows, columns or heads that were overwritten: whole slices along one axis."""

    axis: ClassVar[int]
    """The axis along which they are counted."""
    data_needs = (is_mostly_right, has_wrong_elements, has_wrong_slices)

    @classmethod
    def is_small_part_of(cls, shape: tuple[int, ...]) -> bool:
        return shape[cls.axis] >= MIN_PARTS and shape[ROWS] > 1

    def edits(self, case: Case) -> tuple[Edit, ...]:
        by_head = case.specification.by_head(self.wrong_elements)
        slices = np.flatnonzero(by_head.any(axis=self.extent)).tolist()
        return (self.edit_of_slices(slices, case.specification),)

    @abstractmethod
    def edit_of_slices(self, slices: list[int], computation: Computation) -> Edit:
        """Return the edit that names some rows, columns or heads."""


class DamagedRows(DamagedSlices):
    """Some rows were overwritten, or are another sequence's."""

    summary = "some rows were overwritten, or belong to another sequence"
    axis = ROWS
    extent = (HEADS, COLUMNS)

    def edit_of_slices(self, slices: list[int], computation: Computation) -> Edit:
        return RowsWrong(tuple(map(computation.row_number, slices)))


class DamagedColumns(DamagedSlices):
    """Some columns were overwritten, or have a frequency of their own."""

    summary = "some columns were overwritten, or have a frequency of their own"
    axis = COLUMNS
    extent = (HEADS, ROWS)

    def edit_of_slices(self, slices: list[int], computation: Computation) -> Edit:
        return ColumnsWrong(tuple(slices))


class DamagedHeads(DamagedSlices):
    """Some heads were overwritten, or are rotated differently."""

    summary = "some heads were overwritten, or are rotated differently"
    axis = HEADS
    extent = (ROWS, COLUMNS)

    def edit_of_slices(self, slices: list[int], computation: Computation) -> Edit:
        indices = map(computation.head_index, slices)
        return HeadsWrong(tuple(map(_plain_index, indices)))


def _plain_index(index: tuple[int, ...]) -> int | tuple[int, ...]:
    """Return an index along one axis as a number: 3 for (3,), but (0, 3) for head 3 of sequence 0."""
    if len(index) > 1:
        return index
    (number,) = index
    return number


GARBAGE_SHARE = 0.05
"""Share of values that are not numbers, or far beyond those of any table, in memory that was never
written.
"""

MAX_FADING = 0.25
"""Small values per tiny one: waves that fade away pass all sizes, but memory holds bits of integers
and pointers.
"""

LARGEST = 1e6
"""Size of values beyond those of any table."""

LARGEST_FLOAT16 = 1e4
"""The same in float16, whose largest number is 65504."""

LONGEST = 1e15
"""Size of values beyond those of wavelengths, which vectors may hold: a base of 1e12 has some of
6e12.
"""

LARGEST_FLOAT32_MASK = 3e38
"""Size of the most negative number of float32 and bfloat16, −3.4e38, which masks."""

SMALL = 1e-15
"""Size of values below those of any table, zeros apart."""

LARGEST_POINTER = 1e-30
"""Size of integers and pointers if their bits are taken for floating-point numbers, at most."""


def is_no_bias(computation: Computation) -> bool:
    """Return False for biases: their masks are as large as what memory holds."""
    return not isinstance(computation, BiasComputation)


@dataclass(frozen=True)
class Uninitialised(Mistake):
    """Memory that was allocated and never written: NaN, zeros, denormals, 1e26."""

    rows: tuple[int, ...] = ()
    """The rows that were never written; none if all of the tensor was not."""

    summary = "memory that was never written: NaN, denormals, 1e26, random bits"
    seen_in = ("non-persistent buffers after from_pretrained on the meta device",)
    stage = Stage.DAMAGE
    shows_in_few_values = True
    weight = 0.5
    computation_needs = (is_no_bias,)
    data_needs = (are_floats,)

    def plant(self, computation: Computation) -> Computation:
        damaged = np.zeros((computation.rows, computation.column_count), bool)
        never_written = list(self.rows) or slice(None)  # An empty list stands for all rows.
        damaged[never_written] = True
        return replace(computation, damaged=damaged, filler=np.nan)

    @classmethod
    def examples_for(cls, computation: Computation, scheme: Scheme) -> Iterator[Self]:
        yield cls()

    @classmethod
    def proposals_for_case(cls, case: Case) -> Iterator[Self]:
        """Yield memory that was never written: all rows of a tensor, or those that are wrong.

        Such memory holds old bits, which no table has: NaN, 1e26, 4e-39.
        """
        if isinstance(case.specification, FrequencyComputation):
            if _is_garbage_vector(np.abs(case.observations.sample)):
                yield cls()
            return
        yield from cls._of_table(case)

    @classmethod
    def _of_table(cls, case: Case) -> Iterator[Self]:
        """Yield all rows as never written if each of a few holds garbage, or else the wrong rows.

        Garbage is many numbers that no table has, such as NaN, 1e26 or 4e-39.
        """
        observed = case.observations
        expected = case.specification.rendered(observed.tested_rows)
        if np.isnan(expected).any():  # Such as elements that neither of two logs has.
            return
        largest = LARGEST_FLOAT16 if observed.held_dtype == "float16" else LARGEST
        tested_rows = np.abs(observed.tested)  # a few rows of the table
        is_all_garbage = all(_is_garbage(row, largest) for row in tested_rows)
        if is_all_garbage:
            yield cls()
        elif is_mostly_right(case) or _is_garbage(tested_rows, largest):
            yield from cls._of_wrong_rows(case, largest)

    @classmethod
    def _of_wrong_rows(cls, case: Case, largest: float) -> Iterator[Self]:
        """Yield the wrong rows, if they are not all rows and hold what no table holds."""
        wrong_rows = np.flatnonzero(case.wrong_elements.any(axis=1))
        has_right_rows = 0 < len(wrong_rows) < case.observations.rows
        if has_right_rows and _are_garbage(np.abs(case.observations.matrix(wrong_rows)), largest):
            yield cls(tuple(wrong_rows.tolist()))

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (edits.UninitialisedValues(self.rows),)


def _is_garbage_vector(sizes: Floats) -> bool:
    """Return True if the sizes of a vector's numbers are those of no frequencies or wavelengths.

    The fastest pair of every model has a frequency of about 1, so that not all numbers are tiny.
    """
    return bool(sizes.max() < SMALL) or _is_garbage(sizes, LONGEST)


def _are_garbage(rows: Floats, largest: float) -> bool:
    """Return True if rows look like memory that was never written: each holds values of no table.

    Such values are NaN, 1e30 or 1e-310. Rows of NaN only were computed from infinities, or masked:
    memory holds other numbers as well.

    Args:
        rows: Absolute values, (rows, columns).
        largest: The size beyond which numbers are of no table.
    """
    is_tiny = (rows < LARGEST_POINTER) & (rows > 0)
    is_strange = is_tiny | (rows > largest) | np.isnan(rows)
    is_memory = bool(is_strange.any(axis=1).all()) and not np.isnan(rows).all()
    return is_memory and _is_garbage(rows, largest)


def _is_garbage(sizes: Floats, largest: float) -> bool:
    """Return True if more than 5 % of some numbers are those of no table: NaN, huge or tiny.

    A mask, which is infinite or one large number among zeros, is no garbage. Nor are waves that fade away: these pass
    numbers of all sizes, such as 1e-20. Integers read as floats are numbers such as 4e-39, with nothing
    between these and the usual ones.

    Args:
        sizes: Absolute values of numbers.
        largest: The size beyond which numbers are of no table.
    """
    is_tiny = (sizes > 0) & (sizes < LARGEST_POINTER)
    is_huge = (sizes > largest) & np.isfinite(sizes)
    is_nan_or_huge = np.isnan(sizes) | is_huge
    if is_nan_or_huge.mean() > GARBAGE_SHARE:
        is_mask = not is_tiny.any() and _is_mask(sizes[is_huge], sizes[~is_nan_or_huge])
        return not is_mask
    is_fading = (sizes >= LARGEST_POINTER) & (sizes < SMALL)
    are_fading_waves = is_fading.sum() > MAX_FADING * is_tiny.sum()
    return bool(is_tiny.mean() > GARBAGE_SHARE and not are_fading_waves)


def _is_mask(large: Floats, others: Floats) -> bool:
    """Return True if large values are one number, which stands among zeros or is a usual mask: 1e9, 3.4e38."""
    distinct = np.unique(large)
    is_among_zeros = others.size > 0 and not others.any()
    exponents = np.log10(distinct)
    is_power_of_ten = np.allclose(exponents, np.rint(exponents), rtol=0, atol=1e-6)
    is_usual = is_power_of_ten | (distinct > LARGEST_FLOAT32_MASK).all()
    return len(distinct) == 1 and bool(is_among_zeros or is_usual)
