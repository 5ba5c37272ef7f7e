"""Forms of cosines and sines: ways of storing both functions in one array, recognised by shape and
values.

A form joins tables (of 7 positions and 3 frequencies here) as halves of the columns, interleaved,
stacked, pairs, complex numbers, rotation matrices or rows, with each column once or twice
(doubled), and splits them again; `padded` has a last column of zeros. Expected elements are NumPy's
cosines and sines, or small integers.
"""

import numpy as np
import pytest

from pecli.compare.forms import (
    DOUBLINGS,
    READABLE,
    SEARCHED,
    Form,
    columns,
    forms,
    from_integers,
    halved,
    stands_for_one,
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
    interleaved, stacked, as 2 × 2 matrices and so on, each column once or twice.
    """
    parts = form.split(cosines_and_sines_in(form))
    assert parts is not None
    assert len(parts) == form.function_count
    assert np.array_equal(parts[0], COS)
    assert np.array_equal(parts[-1], COS if form.function_count == 1 else SIN)


@pytest.mark.parametrize("form", SEARCHED_FORMS, ids=str)
def test_a_form_is_among_those_of_its_array(form: Form) -> None:
    """An array of that form must be recognised as one that may have it, from its shape alone."""
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
    """COS and SIN are tables of 7 positions and 3 frequencies; expected are elements of one row."""
    assert cosines_and_sines_in(form)[index].tolist() == expected


@pytest.mark.parametrize(
    ("form", "name"),
    [
        (Form("alone"), "compact"),
        (Form("alone", "halves"), "halves"),
        (Form("pairs"), "pairs"),
        (Form("stacked", "halves"), "stacked, columns doubled: halves"),
    ],
)
def test_the_name_of_a_form_is_that_of_notes_in_reports(form: Form, name: str) -> None:
    """«compact» is one function with one column per frequency."""
    assert form.name == name


@pytest.mark.parametrize(
    ("form", "axes"),
    [
        (Form("pairs"), (3, 2)),
        (Form("matrices"), (3, 2, 2)),
        (Form("alone", "halves"), (6,)),
        (Form("pairs", "halves"), (6, 2)),
    ],
)
def test_a_form_of_3_frequencies_has_these_last_axes(form: Form, axes: tuple[int, ...]) -> None:
    """3 frequencies: pairs (cos, sin) take 2 numbers each, rotation matrices 2 × 2, and doubled
    columns twice as many columns.
    """
    assert form.axes(3) == axes


def test_a_matrix_holds_each_function_twice_and_one_sine_negated() -> None:
    """A rotation matrix is ((cos, −sin), (sin, cos))."""
    views = Form("matrices").function_views(np.zeros((5, 3, 2, 2)))
    assert views is not None
    assert [each.function for each in views] == [0, 0, 1, 1]
    assert [each.negated for each in views] == [False, False, False, True]
    assert {each.view.values.shape for each in views} == {(5, 3)}


def test_views_know_the_indices_of_their_elements() -> None:
    """A wrong element is reported by its index in the array that the user has, not by that in a
    view.
    """
    array = np.arange(60).reshape(5, 3, 2, 2)
    for _, _, view in Form("matrices").function_views(array) or ():
        for place, value in enumerate(view.values.ravel()):
            assert array[view.index_of(place)] == value


def test_the_second_half_of_the_rows_is_the_other_function() -> None:
    """In the form «rows», cosines stand above sines: of four rows, the last two are the second
    function.
    """
    views = Form("rows").function_views(np.arange(12).reshape(4, 3))
    assert views is not None
    assert views[1].view.values.tolist() == [[6, 7, 8], [9, 10, 11]]


@pytest.mark.parametrize("shape", [(5, 3), (3,), (3, 4, 3)])
@pytest.mark.parametrize("arrangement", ["rows", "stacked"])
def test_an_odd_number_of_rows_does_not_hold_two_functions(
    arrangement: str, shape: tuple[int, ...]
) -> None:
    """«rows» has cosines above sines, and «stacked» an axis of 2 for them. Neither 5 nor 3 rows can
    be halved.
    """
    assert Form(arrangement).function_views(np.ones(shape)) is None


def test_an_odd_column_is_left_out_of_interleaved_parts() -> None:
    """Rows 0 … 4 and 5 … 9: the second function has the columns 1 and 3, and column 4 has no
    partner.
    """
    parts = Form("interleaved").split(np.arange(10.0).reshape(2, 5))
    assert parts is not None
    assert parts[1].tolist() == [[1.0, 3.0], [6.0, 8.0]]


@pytest.mark.parametrize(
    ("arrangement", "shape"),
    [
        ("halves", (2, 3, 4)),
        ("stacked", (3, 4, 5)),
        ("halves", (0, 4)),
        ("halves", (4, 1)),
        ("complex", (2, 2)),
    ],
)
def test_arrays_of_other_forms_are_not_split(arrangement: str, shape: tuple[int, ...]) -> None:
    """These shapes, or real numbers for «complex», cannot hold the form."""
    assert Form(arrangement).split(np.ones(shape)) is None


def test_complex_numbers_are_not_pairs_of_reals() -> None:
    """A complex number holds cosine and sine by itself, so that an axis of 2 has another meaning."""
    assert Form("pairs").split(np.ones((3, 2), complex)) is None


def cosines_sines_and_a_last_column(last: float) -> np.ndarray:
    return np.concatenate([COS, SIN, np.full((7, 1), last)], axis=1)


@pytest.mark.parametrize(("last", "is_padding"), [(0.0, True), (1e-4, False)])
def test_padding_is_exactly_zero_without_noise(last: float, is_padding: bool) -> None:
    """A table for an odd width ends with a column of zeros. One of 1e-4 is data, unless noise is
    allowed.
    """
    assert (
        Form("halves", padded=True).split(cosines_sines_and_a_last_column(last)) is not None
    ) == is_padding


@pytest.mark.parametrize(
    ("last", "is_padding"),
    [(1e-3, True), (1.01e-3, False), (-1e-3, True), (-2e-3, False), (np.nan, False)],
)
def test_padding_is_nearly_zero_with_noise(last: float, is_padding: bool) -> None:
    """The last column is padding if it is zero up to 0.02 of the noise: with noise of 0.05, up to
    1e-3.
    """
    assert (
        Form("halves", padded=True).split(cosines_sines_and_a_last_column(last), 0.05) is not None
    ) == is_padding


@pytest.mark.parametrize("shape", [(4, 6), (2, 3, 5)])
def test_only_an_odd_number_of_columns_is_padded(shape: tuple[int, ...]) -> None:
    """An even number of columns holds two functions without any padding."""
    assert Form("halves", padded=True).split(np.zeros(shape)) is None


def test_a_last_column_of_ones_is_not_padding() -> None:
    """A padded form has columns of zeros at the end; `split` returns None for ones."""
    assert Form("alone", padded=True).split(np.ones((4, 3))) is None


@pytest.mark.parametrize(("noise", "is_doubled"), [(0.0, False), (0.05, True)])
def test_doubled_columns_may_differ_by_noise(noise: float, is_doubled: bool) -> None:
    """The second copy of the cosines is off by 0.001, which is less than the noise 0.05."""
    nearly = np.concatenate([COS, COS + 1e-3], axis=1)
    assert (Form("alone", "halves").split(nearly, noise) is not None) == is_doubled


def test_cosines_beside_sines_are_not_doubled() -> None:
    """They differ by far more than the noise of 0.05 that is allowed."""
    assert Form("alone", "halves").split(np.concatenate([COS, SIN], axis=1), 0.05) is None


def split_doubled_halves(first: np.ndarray, second: np.ndarray, noise: float) -> np.ndarray | None:
    parts = Form("alone", "halves").split(np.concatenate([first, second], axis=1), noise)
    return None if parts is None else parts[0]


@pytest.mark.parametrize(("by", "is_doubled"), [(0.4, True), (0.5, False)])
def test_noise_is_root_mean_square(by: float, is_doubled: bool) -> None:
    """A copy that is off by 0.5 everywhere is just beyond noise of 0.5."""
    assert (split_doubled_halves(ONES, ONES - by, 0.5) is not None) == is_doubled


@pytest.mark.parametrize(("wrong", "is_doubled"), [(0, True), (11, True), (12, False)])
def test_a_fifth_of_the_rows_may_be_wrong(wrong: int, is_doubled: bool) -> None:
    """11 of 57 rows are less than a fifth; wrong rows become NaN."""
    damage = 0.2 * (np.arange(57) < wrong)[:, None]
    part = split_doubled_halves(ONES, ONES - damage, 0.05)

    assert (part is not None) == is_doubled
    if part is not None:
        assert np.flatnonzero(np.isnan(part)).tolist() == [*range(wrong)]


def test_a_value_that_is_not_a_number_is_wrong() -> None:
    """Of 57 equal rows, the one that holds NaN is told apart as wrong."""
    part = split_doubled_halves(ONES, np.where(np.arange(57)[:, None] == 3, np.nan, ONES), 0.05)
    assert part is not None
    assert np.flatnonzero(np.isnan(part)).tolist() == [3]


@pytest.mark.parametrize(
    ("first", "second", "is_doubled"),
    [
        ([[np.nan], [1.0]], [[np.nan], [1.0]], True),
        ([[0.0], [1.0]], [[2.0], [1.0]], False),
        ([[0.0], [1.0]], [[0.0], [2.0]], False),
    ],
)
def test_without_noise_every_row_counts(first: list, second: list, is_doubled: bool) -> None:
    """The halves of each row must be equal, NaN included, in the first row and in the last."""
    assert (split_doubled_halves(np.array(first), np.array(second), 0.0) is not None) == is_doubled


def test_zeros_are_doubled_zeros() -> None:
    """Noise is relative to the size of the values, which is 0 here."""
    part = split_doubled_halves(0 * ONES, 0 * ONES, 0.05)
    assert part is not None
    assert not part.any()


def test_the_middle_of_an_odd_axis_belongs_to_the_second_half() -> None:
    """Of channels 0 … 4, halves are (0, 1) and (2, 3, 4); interleaved, the second of each pair are
    1 and 3.
    """
    assert halved(np.arange(5), "halves")[1].tolist() == [2, 3, 4]
    assert halved(np.arange(5), "interleaved")[1].tolist() == [1, 3]


def test_columns_are_described_as_one_or_two_per_frequency() -> None:
    """`columns` describes a layout: compact (no name) or halves, with every frequency twice."""
    assert columns("") == "one column per frequency"
    assert columns("halves") == "two columns per frequency (c0 c1 … c0 c1 …)"


def test_readable_forms_are_in_the_order_of_their_likelihood() -> None:
    """If a constant table fits several forms, the first of this list is reported."""
    names = [form.arrangement for form in READABLE]
    assert [*dict.fromkeys(names)] == [
        "alone",
        "halves",
        "interleaved",
        "stacked",
        "rows",
        "pairs",
        "matrices",
    ]
    assert names.count("interleaved") == 1
    assert names.count("matrices") == 1


@pytest.mark.parametrize(
    ("dtype", "largest", "one"),
    [
        ("i1", 127, 127),
        ("i1", 126, 127),
        ("i1", 100, 0),
        ("i1", 64, 64),
        ("u1", 255, 255),
        ("i2", 32767, 32767),
        ("i2", 16384, 16384),
        ("i8", 127, 0),
        ("f4", 1, 0),
    ],
)
def test_the_integer_that_stands_for_one(dtype: str, largest: int, one: int) -> None:
    """Fixed-point tables scale by the largest integer (127) or by a power of two (64); 100 is
    neither.
    """
    assert stands_for_one(np.array([0, largest], dtype)) == one


def test_integers_of_two_scales_do_not_belong_together() -> None:
    """The same integer must stand for 1 in both tensors: in int8 that is 127, which 63 is not."""
    fine = np.array([0, 127], np.int8)
    assert from_integers({"cos": fine, "sin": fine})["sin"].tolist() == [0.0, 1.0]
    assert from_integers({"cos": fine, "sin": fine // 2}) == {}
