"""Forms of cosines and sines: ways of storing both functions in one array, recognised by shape and
values.

A form joins tables (of 7 positions and 3 frequencies here) as halves of the columns, interleaved,
stacked, pairs, complex numbers, rotation matrices or rows, with each column once or twice
(doubled), and splits them again; `padded` has a last column of zeros. Expected elements are NumPy's
cosines and sines, or small integers.
"""

import numpy as np
import pytest

from pecli.compare.doubled_columns import FormError
from pecli.compare.forms import (
    DOUBLINGS,
    READABLE,
    SEARCHED,
    Form,
    columns,
    find_integer_for_1,
    forms,
    from_integers,
    halved,
)

ANGLES = np.outer(np.arange(7), [1.0, 0.1, 0.01])
COS = np.cos(ANGLES)
SIN = np.sin(ANGLES)
SEARCHED_FORMS = [Form(arrangement, doubled) for arrangement in SEARCHED for doubled in DOUBLINGS]
PADDED_FORMS = [Form("halves", doubled, padded=True) for doubled in DOUBLINGS]
ONES = np.ones((57, 1))


def cosines_and_sines_in(form: Form) -> np.ndarray:
    return form.join(COS) if form.function_count == 1 else form.join(COS, SIN)


@pytest.mark.parametrize("form", SEARCHED_FORMS + PADDED_FORMS, ids=str)
def test_splitting_undoes_joining(form: Form) -> None:
    """A form is a way of storing cosines and sines in one array: as halves of the columns,
    interleaved, stacked, as 2 × 2 matrices and so on, each column once or twice; or of storing one
    function. What is split from a joined array is COS and SIN again, NumPy's tables of 7 × 3.
    """
    joined = cosines_and_sines_in(form)
    parts = form.split(joined)
    expected = [COS] if form.function_count == 1 else [COS, SIN]

    assert parts is not None
    for part, table in zip(parts, expected, strict=True):
        np.testing.assert_array_equal(part, table)


@pytest.mark.parametrize("form", SEARCHED_FORMS, ids=str)
def test_an_array_may_have_the_form_that_it_was_joined_in(form: Form) -> None:
    """A form is a way of storing cosines and sines in one array, such as halves of the columns.
    `forms` lists those that an array may have by its shape; the one that it has must be there.
    """
    assert form in forms(cosines_and_sines_in(form))


@pytest.mark.parametrize("form", PADDED_FORMS, ids=str)
def test_padded_forms_are_only_found_by_their_values(form: Form) -> None:
    """A padded form has columns of zeros at the end, which the shape does not show: `forms` of the
    shape alone must not list it.
    """
    assert form not in forms(cosines_and_sines_in(form))


@pytest.mark.parametrize(
    ("form", "index", "expected"),
    [
        (Form("interleaved"), (1, slice(2)), [COS[1, 0], SIN[1, 0]]),
        (Form("halves"), (1, slice(2, 4)), [COS[1, 2], SIN[1, 0]]),
        (Form("alone", "halves"), (1,), [*COS[1], *COS[1]]),
        (Form("alone", "interleaved"), (1, slice(2)), [COS[1, 0], COS[1, 0]]),
        (Form("halves", padded=True), (1, slice(-2, None)), [SIN[1, 2], 0.0]),
        (Form("pairs"), (1, 2), [COS[1, 2], SIN[1, 2]]),
        (Form("complex"), (3, 1), COS[3, 1] + 1j * SIN[3, 1]),
        (Form("stacked"), (1,), SIN.tolist()),
    ],
    ids=str,
)
def test_a_form_has_these_elements_at_an_index(form: Form, index: tuple, expected: object) -> None:
    """COS[p, i] and SIN[p, i] are NumPy's tables of 7 positions and 3 frequencies. An array that holds
    both in a form has `expected` at `index`: interleaved columns of row 1 begin with COS[1, 0] and
    SIN[1, 0], for example.
    """
    assert cosines_and_sines_in(form)[index].tolist() == expected


@pytest.mark.parametrize(
    ("form", "name"),
    [
        (Form("alone"), "compact"),
        (Form("alone", "halves"), "halves"),
        (Form("pairs"), "pairs"),
        (Form("stacked", "halves"), "stacked, columns doubled: halves"),
    ],
    ids=str,
)
def test_a_form_is_named_in_reports_by_its_arrangement_and_doubling(form: Form, name: str) -> None:
    """A form has an arrangement («alone» is one function) and may double its columns; reports show
    `name`. «compact» is one function with one column per frequency.
    """
    assert form.name == name


@pytest.mark.parametrize(
    ("form", "axes"),
    [
        (Form("pairs"), (3, 2)),
        (Form("matrices"), (3, 2, 2)),
        (Form("alone", "halves"), (6,)),
        (Form("pairs", "halves"), (6, 2)),
    ],
    ids=str,
)
def test_a_form_of_3_frequencies_has_these_last_axes(form: Form, axes: tuple[int, ...]) -> None:
    """A form is a way of storing cosines and sines in an array. Of 3 frequencies, pairs (cos, sin) take
    2 numbers each, rotation matrices 2 × 2, and «halves», which has each column twice, 6 columns.
    """
    assert form.column_lengths(3) == axes


def test_a_matrix_holds_each_function_twice_and_one_sine_negated() -> None:
    """A rotation matrix is ((cos, −sin), (sin, cos)). `view_cosines_and_sines` returns four views of 5
    positions and 3 frequencies: twice the function 0 (cosine), and twice 1 (sine), once negated.
    """
    views = Form("matrices").view_cosines_and_sines(np.zeros((5, 3, 2, 2)))
    assert [view.function for view in views] == [0, 0, 1, 1]
    assert [view.negated for view in views] == [False, False, False, True]
    assert {view.view.values.shape for view in views} == {(5, 3)}


def test_an_element_of_a_view_has_its_index_in_the_whole_array() -> None:
    """A wrong element is reported by its index in the array that the user has: here 5 × 3 rotation
    matrices of 2 × 2, whose 60 elements are all different. A view has one function of them.
    """
    array = np.arange(60).reshape(5, 3, 2, 2)
    views = Form("matrices").view_cosines_and_sines(array)

    for _, _, view in views:
        for flat_index, value in enumerate(view.values.ravel()):
            assert array[view.index_of(flat_index)] == value


def test_the_second_half_of_the_rows_is_the_other_function() -> None:
    """In the form «rows», cosines stand above sines: of four rows that count from 0 to 11, the last
    two are the second function.
    """
    four_rows = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]])
    views = Form("rows").view_cosines_and_sines(four_rows)

    assert views[1].view.values.tolist() == [[6, 7, 8], [9, 10, 11]]


@pytest.mark.parametrize("shape", [(5, 3), (3,), (3, 4, 3)])
@pytest.mark.parametrize("arrangement", ["rows", "stacked"])
def test_an_odd_number_of_rows_does_not_hold_two_functions(
    arrangement: str, shape: tuple[int, ...]
) -> None:
    """«rows» has cosines above sines, and «stacked» an axis of 2 for them. Neither 5 nor 3 rows can
    be halved, so that there are no views of both functions.
    """
    with pytest.raises(FormError):
        Form(arrangement).view_cosines_and_sines(np.ones(shape))


def test_an_odd_column_is_left_out_of_interleaved_parts() -> None:
    """Interleaved columns belong to the first and the second function in turn. Of five columns, 1 and
    3 are the second one's, and column 4 has no partner.
    """
    two_rows = np.array([[0.0, 1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0, 9.0]])
    parts = Form("interleaved").split(two_rows)

    assert parts is not None
    assert parts[1].tolist() == [[1.0, 3.0], [6.0, 8.0]]


@pytest.mark.parametrize(
    ("arrangement", "shape"),
    [
        pytest.param("halves", (2, 3, 4), id="halves of three axes"),
        pytest.param("stacked", (3, 4, 5), id="stacked along 3"),
        pytest.param("halves", (0, 4), id="no rows"),
        pytest.param("halves", (4, 1), id="one column"),
        pytest.param("complex", (2, 2), id="real numbers"),
    ],
)
def test_arrays_of_other_forms_are_not_split(arrangement: str, shape: tuple[int, ...]) -> None:
    """`split` returns None for an array of ones that cannot hold the form: halves are of two axes and
    two columns at least, «stacked» needs an axis of 2, and «complex» complex numbers.
    """
    assert Form(arrangement).split(np.ones(shape)) is None


def test_complex_numbers_are_not_pairs_of_reals() -> None:
    """The form «pairs» has (cos, sin) along a last axis of 2. A complex number holds both by itself,
    so that an axis of 2 has another meaning then, and `split` returns None.
    """
    assert Form("pairs").split(np.ones((3, 2), complex)) is None


def cosines_sines_and_a_last_column(last: float) -> np.ndarray:
    return np.concatenate([COS, SIN, np.full((7, 1), last)], axis=1)


@pytest.mark.parametrize(
    ("last", "is_padding"),
    [pytest.param(0.0, True, id="zeros"), pytest.param(1e-4, False, id="nearly zeros")],
)
def test_padding_is_exactly_zero_without_noise(last: float, is_padding: bool) -> None:
    """A table of odd width, cosines and then sines, ends with a column of zeros. A last column of
    1e-4 is data, unless noise is allowed.
    """
    parts = Form("halves", padded=True).split(cosines_sines_and_a_last_column(last))
    assert (parts is not None) == is_padding


@pytest.mark.parametrize(
    ("last", "is_padding"),
    [
        pytest.param(1e-3, True, id="at the limit"),
        pytest.param(1.01e-3, False, id="above the limit"),
        pytest.param(-1e-3, True, id="at the limit below 0"),
        pytest.param(-2e-3, False, id="beyond the limit below 0"),
        pytest.param(np.nan, False, id="NaN"),
    ],
)
def test_padding_is_nearly_zero_with_noise(last: float, is_padding: bool) -> None:
    """Cosines, sines and a last column. If noise is allowed, the last one is padding up to 1e-3 of the
    largest value, which is cos 0 = 1; NaN is none.
    """
    parts = Form("halves", padded=True).split(cosines_sines_and_a_last_column(last), noise=0.05)
    assert (parts is not None) == is_padding


@pytest.mark.parametrize("shape", [(4, 6), (2, 3, 5)])
def test_only_an_odd_number_of_columns_is_padded(shape: tuple[int, ...]) -> None:
    """A padded form has a last column of zeros beside two functions. An even number of columns holds
    two functions without any padding, and three axes are no table: `split` returns None.
    """
    assert Form("halves", padded=True).split(np.zeros(shape)) is None


def test_a_last_column_of_ones_is_not_padding() -> None:
    """A padded form has a column of zeros at the end; `split`, which would take it off, returns None
    for an array of ones.
    """
    ones = np.ones((4, 3))
    assert Form("alone", padded=True).split(ones) is None


@pytest.mark.parametrize(
    ("noise", "is_doubled"),
    [pytest.param(0.0, False, id="no noise"), pytest.param(0.05, True, id="noise of 0.05")],
)
def test_doubled_columns_may_differ_by_noise(noise: float, is_doubled: bool) -> None:
    """The columns should stand twice, as halves. The second copy of the cosines is off by 0.001: too
    much without noise, but less than a noise of 0.05.
    """
    nearly_doubled = np.concatenate([COS, COS + 1e-3], axis=1)
    parts = Form("alone", "halves").split(nearly_doubled, noise)

    assert (parts is not None) == is_doubled


def test_cosines_beside_sines_are_not_doubled() -> None:
    """The form is one function whose columns stand twice. Cosines and sines differ by far more than
    the noise of 0.05 that is allowed between the copies.
    """
    cosines_beside_sines = np.concatenate([COS, SIN], axis=1)
    assert Form("alone", "halves").split(cosines_beside_sines, noise=0.05) is None


def split_doubled_halves(first: np.ndarray, second: np.ndarray, noise: float) -> np.ndarray | None:
    parts = Form("alone", "halves").split(np.concatenate([first, second], axis=1), noise)
    return None if parts is None else parts[0]


@pytest.mark.parametrize(
    ("error", "is_doubled"),
    [pytest.param(0.4, True, id="less"), pytest.param(0.5, False, id="as much")],
)
def test_doubled_columns_may_differ_by_less_than_the_noise(error: float, is_doubled: bool) -> None:
    """One column of ones and a copy that is off by `error` in every row, so that this is also the
    root mean square: 0.5 is just beyond a noise of 0.5.
    """
    part = split_doubled_halves(ONES, ONES - error, noise=0.5)
    assert (part is not None) == is_doubled


@pytest.mark.parametrize(
    ("rows", "wrong_rows", "are_doubled"),
    [
        pytest.param(57, 0, True, id="none"),
        pytest.param(57, 11, True, id="less than a fifth"),
        pytest.param(55, 11, True, id="a fifth"),
        pytest.param(57, 12, False, id="more than a fifth"),
    ],
)
def test_at_most_a_fifth_of_doubled_rows_may_be_wrong(
    rows: int, wrong_rows: int, are_doubled: bool
) -> None:
    """A column of ones and a copy, of which the first rows are off by 0.2, more than the noise of
    0.05. 11 of 57 rows are less than a fifth, 11 of 55 a fifth, 12 of 57 more; wrong rows become NaN.
    """
    is_wrong = (np.arange(rows) < wrong_rows)[:, None]
    ones = np.ones((rows, 1))
    part = split_doubled_halves(ones, np.where(is_wrong, 0.8, 1.0), noise=0.05)

    assert (part is not None) == are_doubled
    if part is not None:
        assert np.flatnonzero(np.isnan(part)).tolist() == [*range(wrong_rows)]


def test_a_row_of_doubled_columns_that_holds_nan_is_wrong() -> None:
    """A column of 57 ones and a copy with NaN in row 3: this row becomes NaN, and no other."""
    copy = ONES.copy()
    copy[3] = np.nan
    part = split_doubled_halves(ONES, copy, noise=0.05)

    assert part is not None
    assert np.flatnonzero(np.isnan(part)).tolist() == [3]


@pytest.mark.parametrize(
    ("first", "second", "is_doubled"),
    [
        pytest.param([[np.nan], [1.0]], [[np.nan], [1.0]], True, id="equal"),
        pytest.param([[0.0], [1.0]], [[2.0], [1.0]], False, id="the first row differs"),
        pytest.param([[0.0], [1.0]], [[0.0], [2.0]], False, id="the last row differs"),
    ],
)
def test_without_noise_doubled_columns_are_equal_in_every_row(
    first: list, second: list, is_doubled: bool
) -> None:
    """`first` and `second` are two columns of two rows. They must be equal in the first row and in
    the last, and NaN equals NaN.
    """
    part = split_doubled_halves(np.array(first), np.array(second), noise=0.0)
    assert (part is not None) == is_doubled


def test_columns_of_zeros_count_as_doubled() -> None:
    """A column of 57 zeros stands beside its copy. The noise that is allowed between copies is relative
    to the size of the values; it is 0 here, by which nothing must be divided.
    """
    zeros = np.zeros((57, 1))
    part = split_doubled_halves(zeros, zeros, noise=0.05)

    assert part is not None
    assert not part.any()


def test_the_middle_of_an_odd_axis_belongs_to_the_second_half() -> None:
    """`halved` returns two parts. Of channels 0 … 4, halves are (0, 1) and (2, 3, 4); interleaved,
    the second of each pair are 1 and 3.
    """
    assert halved(np.arange(5), "halves")[1].tolist() == [2, 3, 4]
    assert halved(np.arange(5), "interleaved")[1].tolist() == [1, 3]


def test_columns_are_described_as_one_or_two_per_frequency() -> None:
    """`columns` describes a layout in notes: "" is compact, and "halves" has every frequency (c0, c1,
    …) twice.
    """
    assert columns("") == "one column per frequency"
    assert columns("halves") == "two columns per frequency (c0 c1 … c0 c1 …)"


def test_arrangements_are_tried_in_the_order_of_their_likelihood() -> None:
    """READABLE lists the forms in which an array is read. If a constant table fits several, the first
    is reported: one function alone, then vLLM's all cosines, then all sines (halves), and so on.
    """
    arrangements = [form.arrangement for form in READABLE]
    without_repetitions = [*dict.fromkeys(arrangements)]

    assert without_repetitions == [
        "alone",
        "halves",
        "interleaved",
        "stacked",
        "rows",
        "pairs",
        "matrices",
    ]


@pytest.mark.parametrize(
    ("arrangement", "doublings"),
    [
        ("alone", ["", "halves", "interleaved"]),
        ("halves", ["", "halves", "interleaved"]),
        ("interleaved", [""]),
        ("stacked", ["", "halves", "interleaved"]),
        ("rows", ["", "halves", "interleaved"]),
        ("pairs", ["", "halves", "interleaved"]),
        ("matrices", [""]),
    ],
)
def test_columns_may_be_doubled_unless_functions_are_interleaved_or_in_matrices(
    arrangement: str, doublings: list[str]
) -> None:
    """Each column is there once (""), or twice as c0 c1 … c0 c1 … (halves) or c0 c0 c1 c1 …
    (interleaved). No program is known to double c0 s0 c1 s1 … or rotation matrices.
    """
    tried = [form.doubled for form in READABLE if form.arrangement == arrangement]
    assert tried == doublings


@pytest.mark.parametrize(
    ("dtype", "largest", "integer_for_1"),
    [
        pytest.param("int8", 127, 127, id="the largest int8"),
        pytest.param("int8", 126, 127, id="one less"),
        pytest.param("int8", 100, 0, id="neither the largest nor a power of two"),
        pytest.param("int8", 64, 64, id="a power of two"),
        pytest.param("uint8", 255, 255, id="the largest uint8"),
        pytest.param("int16", 32767, 32767, id="the largest int16"),
        pytest.param("int16", 16384, 16384, id="a power of two in int16"),
        pytest.param("int64", 127, 0, id="64 bits"),
        pytest.param("float32", 1, 0, id="floats"),
    ],
)
def test_the_largest_integer_of_a_dtype_or_a_power_of_two_stands_for_1(
    dtype: str, largest: int, integer_for_1: int
) -> None:
    """Fixed-point tables scale by the largest integer of the dtype (127 of int8) or by a power of two
    (64); rounding may leave one less, 126. `largest` is the largest number of a table; 0 means
    that none stands for 1, as 100 is neither, and neither floats nor 64 bits are such tables.
    """
    assert find_integer_for_1(np.array([0, largest], dtype)) == integer_for_1


def test_integers_of_two_scales_do_not_belong_together() -> None:
    """`from_integers` divides both tensors by the integer that stands for 1, in int8 127. It must be
    the same in both: if the sines reach 63 only, the result is empty.
    """
    up_to_127 = np.array([0, 127], np.int8)
    up_to_63 = np.array([0, 63], np.int8)

    assert from_integers({"cos": up_to_127, "sin": up_to_127})["sin"].tolist() == [0.0, 1.0]
    assert from_integers({"cos": up_to_127, "sin": up_to_63}) == {}
