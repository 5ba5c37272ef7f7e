"""How an array is read: the arrangement of an expected table that its shape allows and its values
confirm, and the note that states it.

The expected table is COS, NumPy's cosines of 12 positions and 8 frequencies, or a bias of 4 heads
and 6 × 6 elements. A folding brings an array to the expected axes; a candidate is an expected table
with the forms that it may have.
"""

import numpy as np
import pytest

from pecli.compare.arrangement import find_arrangements
from pecli.compare.best_reading import find_best_reading
from pecli.compare.candidate import CandidateTable, MadeTables, candidate_of
from pecli.compare.factors import Axis
from pecli.compare.forms import Form
from pecli.compare.reading_conflicts import Doubling, find_doubling_problems
from pecli.compare.reading_notes import describe_arrangement
from pecli.compare.tolerance import EXACT
from pecli.compare.waves import find_row_widths, separate_tables
from tests.checks.rope_dumps import COS, SIN
from tests.checks.waves import doubled_as_halves, doubled_as_neighbours

BIAS = np.arange(4 * 6 * 6, dtype=float).reshape(4, 6, 6)
COSINES_TO_READ = candidate_of({"cos": COS}, has_frequencies=True, transposable=True)


def no_tables(rows: int) -> MadeTables:
    return MadeTables(None, {})


def notes_on_readings(
    shape: tuple[int, ...], candidate: CandidateTable, is_text: bool = False
) -> list[str]:
    plain = find_arrangements(shape, candidate, Form("alone"), is_text=is_text)
    guessed = find_arrangements(shape, candidate, Form("alone"), is_text=is_text, guesses=True)
    return [arrangement.folding.note for arrangement in (*plain, *guessed)]


def test_the_doubling_that_the_model_rotates_is_tried_first() -> None:
    """A table of cosines may have each column once, or twice: as halves or interleaved. The model
    rotates interleaved pairs, so that this doubling is tried before halves.
    """
    candidate = CandidateTable(
        ("cos",), (3, 4), no_tables, has_frequencies=True, layout="interleaved"
    )
    assert [form.doubled for form in candidate.forms()] == ["", "interleaved", "halves"]


def test_halves_are_tried_first_if_either_doubling_will_do() -> None:
    """A table of two columns per frequency is expected in no particular layout: c0 c1 … c0 c1 …
    (halves) is more usual than c0 c0 c1 c1 ….
    """
    candidate = CandidateTable(("cos",), (3, 4), no_tables, has_frequencies=True)
    assert [form.doubled for form in candidate.forms()] == ["", "halves", "interleaved"]


def test_a_table_without_frequencies_has_one_form() -> None:
    """Columns of cosines may stand twice in an array. A bias has no columns that belong to a frequency,
    so that none can be doubled: it is alone and as it is.
    """
    bias = CandidateTable(("bias",), (3, 4), no_tables)
    assert bias.forms() == [Form("alone")]


def test_cosines_and_sines_in_one_array_may_have_any_form_of_two_functions() -> None:
    """A CandidateTable is a table that an array may hold, here one of cosines and sines. Its forms are
    all ways to hold two functions in one array, except complex numbers, which are known by their
    dtype.
    """
    candidate = CandidateTable(("cos", "sin"), (3, 4), no_tables, has_frequencies=True)
    names = {form.arrangement for form in candidate.forms()}

    assert names == {"halves", "interleaved", "matrices", "pairs", "rows", "stacked"}


@pytest.mark.parametrize(
    ("shape", "is_text", "expected"),
    [
        pytest.param((12, 8), False, [""], id="as expected"),
        pytest.param((1, 12, 1, 8), False, ["", ""], id="axes of length 1, kept or dropped"),
        pytest.param((96,), False, ["read as (12, 8)"], id="a flat array"),
        pytest.param((96, 1), True, ["read as (12, 8)"], id="a column of text"),
        pytest.param((96, 1), False, [], id="a column of another format"),
        pytest.param((95,), False, [], id="another size"),
        pytest.param((8, 12), False, ["transposed"], id="transposed"),
        pytest.param((3, 12, 8), False, [""], id="3 copies before"),
        pytest.param((12, 3, 8), False, [""], id="3 copies between"),
        pytest.param(
            (12, 32), False, ["4 heads of 8 folded into columns"], id="4 heads beside each other"
        ),
        pytest.param((3, 4, 8), False, ["a grid of 3 × 4, row by row"], id="a grid"),
        pytest.param((5, 3, 4, 8), False, ["a grid of 3 × 4, row by row"], id="5 copies of a grid"),
        pytest.param(
            (3, 2, 2, 8), False, ["a grid of 3 × 2 × 2, row by row"], id="a grid of three axes"
        ),
    ],
)
def test_an_array_may_be_a_table_of_waves_in_these_foldings(
    shape: tuple[int, ...], is_text: bool, expected: list[str]
) -> None:
    """The expected table has 12 positions and 8 channels; each shape is one that programs dump it in,
    such as 96 numbers, or 8 × 12. `expected` has a note for each way to read the shape as the table:
    "" if all its axes stand as expected beside copies, and no note at all if there is no way.
    """
    assert notes_on_readings(shape, COSINES_TO_READ, is_text) == expected


@pytest.mark.parametrize(
    ("shape", "is_text", "expected"),
    [
        pytest.param((4, 6, 6), False, [""], id="as expected"),
        pytest.param((8, 6, 6), False, ["2 × 4 heads along axis 0"], id="a batch of two"),
        pytest.param((6, 6, 6), False, [], id="6 heads"),
        pytest.param((24, 6), True, [""], id="lines of text"),
        pytest.param((24, 6), False, [], id="24 × 6 in another format"),
        pytest.param((144,), False, ["read as (4, 6, 6)"], id="a flat array"),
    ],
)
def test_biases_are_read_with_their_batch_or_flattened(
    shape: tuple[int, ...], is_text: bool, expected: list[str]
) -> None:
    """The expected bias has 4 heads of 6 × 6. `expected` has the note of each way to read the shape as
    that, "" if nothing is remarkable: text (.csv) has only lines and columns, so that 4 · 6 lines of 6
    are the usual form. 8 heads are a batch of two; 6 are no multiple of 4.
    """
    assert notes_on_readings(shape, candidate_of({"bias": BIAS}), is_text) == expected


@pytest.mark.parametrize(
    ("heads", "expected"),
    [
        pytest.param(4, ["2 × 4 heads along axis 0"], id="4 heads expected"),
        pytest.param(None, [""], id="any number of heads expected"),
    ],
)
def test_8_heads_are_a_batch_of_two_only_if_4_are_expected(
    heads: int | None, expected: list[str]
) -> None:
    """The array (8, 6, 6) is read as a bias of (heads, 6, 6), where None is any number: then 8 may be
    all heads of one sequence, which needs no note (""). `expected` has one note per reading.
    """
    bias = CandidateTable(("bias",), (heads, 6, 6), no_tables)
    assert notes_on_readings((8, 6, 6), bias) == expected


WORDS_FOR_AXES = {Axis.COPY: "copy", Axis.ROW: "row", Axis.FREQUENCY: "frequency"}


def axes_in_words(shape: tuple[int, ...], candidate: CandidateTable) -> list[str]:
    """Return what the axes count in each way to read an array of this shape, in order of trial.

    An array (3, 12, 8) that holds 3 copies of 12 rows gives ["copy 3, row 12, frequency 8"].
    """
    return [
        ", ".join(f"{WORDS_FOR_AXES[factor.axis]} {factor.size}" for factor in arrangement.factors)
        for arrangement in find_arrangements(shape, candidate, Form("alone"))
    ]


def axes_of_copies(shape: tuple[int, ...], candidate: CandidateTable) -> list[tuple[int, ...]]:
    """Return the axes along which the table is repeated, for each way to read an array of this shape.

    An array (3, 12, 8) in which a table of 12 rows is repeated along axis 0 gives [(0,)].
    """
    arrangements = find_arrangements(shape, candidate, Form("alone"))
    return [arrangement.copy_axes for arrangement in arrangements]


COSINES_OF_ANY_LENGTH = CandidateTable(("cos",), (None, 8), no_tables, has_frequencies=True)
"""An expected table of 8 frequencies and any number of positions."""


def test_the_axis_before_the_frequencies_is_tried_first_for_positions() -> None:
    """An array (2, 12, 8) has 8 frequencies. It is read as 2 copies of 12 rows, one per position (a
    batch), and then as 2 rows with 12 copies each (heads).
    """
    assert axes_in_words((2, 12, 8), COSINES_OF_ANY_LENGTH) == [
        "copy 2, row 12, frequency 8",
        "row 2, copy 12, frequency 8",
    ]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        pytest.param((12, 8), ["row 12, frequency 8"], id="no axis of length 1"),
        pytest.param(
            (1, 12, 8),
            ["copy 1, row 12, frequency 8", "row 12, frequency 8"],
            id="one axis of rows",
        ),
        pytest.param(
            (4, 1, 12, 8),
            [
                "copy 4, copy 1, row 12, frequency 8",
                "row 4, copy 1, copy 12, frequency 8",
                "copy 4, row 12, frequency 8",
                "row 4, copy 12, frequency 8",
            ],
            id="two axes that may be rows",
        ),
    ],
)
def test_an_array_with_an_axis_of_length_1_is_read_with_and_without_that_axis(
    shape: tuple[int, ...], expected: list[str]
) -> None:
    """8 frequencies and any number of rows, one per position, are expected. `expected` has what the
    axes count in each reading. An axis of length 1 counts one copy, not a single row.
    """
    assert axes_in_words(shape, COSINES_OF_ANY_LENGTH) == expected


def test_axes_of_copies_are_numbered_as_in_the_array() -> None:
    """In (4, 1, 12, 8), the 4 is axis 0 and the 12 is axis 2, also in readings without the axis of
    length 1. That axis repeats nothing, so that it is never one of copies.
    """
    assert axes_of_copies((4, 1, 12, 8), COSINES_OF_ANY_LENGTH) == [
        (0,),  # copy 4, copy 1, row 12, frequency 8
        (2,),  # row 4, copy 1, copy 12, frequency 8
        (0,),  # copy 4, row 12, frequency 8
        (2,),  # row 4, copy 12, frequency 8
    ]


@pytest.mark.parametrize(
    ("shape", "axis_of_3"),
    [
        pytest.param((3, 12, 8), 0, id="before the rows"),
        pytest.param((12, 3, 8), 1, id="between rows and columns"),
    ],
)
def test_an_axis_that_is_not_as_long_as_the_table_has_rows_holds_copies_of_it(
    shape: tuple[int, ...], axis_of_3: int
) -> None:
    """The expected table has 12 rows and 8 columns. The axis of length 3 cannot be its rows, so that
    the array has one reading: 3 copies of the table along that axis.
    """
    assert axes_of_copies(shape, COSINES_TO_READ) == [(axis_of_3,)]


def test_an_axis_of_length_1_may_be_missing() -> None:
    """The expected bias is (4 heads, 1, 6 keys). An array (4, 6) has one reading as that, with no
    axes of copies; (3, 6) has none.
    """
    bias_of_keys = candidate_of({"bias": np.zeros((4, 1, 6))})

    assert axes_of_copies((4, 6), bias_of_keys) == [()]
    assert axes_of_copies((3, 6), bias_of_keys) == []


KEY_BIAS = np.arange(24.0).reshape(4, 1, 6)


@pytest.mark.parametrize("bias", [KEY_BIAS, KEY_BIAS[:, 0]], ids=["three axes", "two axes"])
def test_a_bias_of_keys_is_read_with_its_axis_of_length_1_and_without(bias: np.ndarray) -> None:
    """The expected bias is (4 heads, 1, 6 keys); the array has this shape, or (4, 6). Both are read
    as the bias, at distance 0: all elements agree.
    """
    reading = find_best_reading(bias, [candidate_of({"bias": KEY_BIAS})])
    assert reading is not None
    assert reading.distance == 0.0


def test_an_array_of_another_shape_has_no_reading() -> None:
    """5 × 5 ones, where cosines of 12 × 8 are expected: no arrangement of the array fits."""
    assert find_best_reading(np.ones((5, 5)), [COSINES_TO_READ]) is None


@pytest.mark.parametrize(
    ("table", "distance"),
    [
        pytest.param(COS, 0.0, id="equal"),
        pytest.param(COS + 0.5, 0.5, id="off by 0.5"),
        pytest.param(np.full_like(COS, np.nan), 2.0, id="NaN"),
        pytest.param(COS + 9, 2.0, id="off by 9"),
    ],
)
def test_the_distance_of_a_table_is_its_mean_error_and_at_most_2(
    table: np.ndarray, distance: float
) -> None:
    """COS is expected. Cosines differ by at most 2, so that NaN and errors of 9 count as that."""
    reading = find_best_reading(table, [COSINES_TO_READ])
    assert reading is not None
    assert reading.distance == pytest.approx(distance, abs=1e-6)


@pytest.mark.parametrize(
    ("error", "is_near"),
    [pytest.param(0.09, True, id="less than 0.1"), pytest.param(0.11, False, id="more than 0.1")],
)
def test_a_reading_is_near_if_its_mean_error_is_at_most_a_tenth(
    error: float, is_near: bool
) -> None:
    """All cosines are too large by `error`, so that this is their mean error. Mistakes are searched
    only in readings that are near the expected table.
    """
    reading = find_best_reading(COS + error, [COSINES_TO_READ])
    assert reading is not None
    assert reading.is_near == is_near


@pytest.mark.parametrize(
    ("table", "note"),
    [
        pytest.param(
            doubled_as_halves(COS),
            "two columns per frequency (c0 c1 … c0 c1 …)",
            id="columns twice",
        ),
        pytest.param(np.stack([COS] * 3), "repeated 3× along axis 0", id="three copies"),
        pytest.param(np.tile(COS, (1, 4)), "4 heads of 8 folded into columns", id="four heads"),
        pytest.param(COS.reshape(3, 4, 8), "a grid of 3 × 4, row by row", id="a grid"),
        pytest.param(
            np.rint(COS * 127).astype(np.int8), "integers with a scale of 1/127", id="integers"
        ),
        pytest.param(COS, "", id="as expected"),
    ],
)
def test_a_reading_is_stated_in_a_note(table: np.ndarray, note: str) -> None:
    """COS, 12 positions of 8 frequencies, is expected, and `table` has the same numbers in an
    arrangement that a program has: columns twice, three copies, heads beside each other, and so on.
    """
    candidate = candidate_of({"cos": COS}, has_frequencies=True, quantised=True)
    reading = find_best_reading(table, [candidate])

    assert reading is not None
    assert describe_arrangement(reading) == note


def test_the_wrong_element_of_a_folded_head_has_its_own_index() -> None:
    """A dump has 4 equal heads of 8 channels beside each other. Column 2 · 8 + 3 = 19 of row 5 is
    wrong: channel 3 of head 2.
    """
    table = np.tile(COS, (1, 4))
    table[5, 2 * 8 + 3] += 0.01
    reading = find_best_reading(table, [COSINES_TO_READ])

    assert reading is not None

    result = reading.compare(EXACT, name="cos", any_dtype=True)
    assert result.mismatched == 1
    assert result.worst_index == (5, 19)
    assert result.where == {"rows": [(5, 5)], "columns": [(19, 19)]}


def test_columns_that_differ_are_not_read_as_equal_heads() -> None:
    """COS of 12 × 8 is expected. 12 rows of 4 · 8 columns could be 4 heads with equal tables beside
    each other; but these are random numbers.
    """
    random_columns = np.random.default_rng(0).normal(size=(12, 32))
    assert find_best_reading(random_columns, [COSINES_TO_READ]) is None


@pytest.mark.parametrize("row", [1, 11])
def test_a_vector_is_read_as_a_table_of_one_row(row: int) -> None:
    """The array is a vector of the 8 cosines at one position, COS[row]. It is expected to be a table of
    8 columns and any number of rows that begins there.
    """
    candidate = CandidateTable(
        ("cos",), (None, 8), lambda rows: MadeTables(None, {"cos": COS[row:][:rows]})
    )
    reading = find_best_reading(COS[row], [candidate])

    assert reading is not None
    assert describe_arrangement(reading) == "a single row"


def test_a_constant_vector_is_not_taken_for_position_0() -> None:
    """The cosines of position 0 are all 1, and so are many other vectors: eight ones are not read as
    the first row of COS.
    """
    candidate = CandidateTable(
        ("cos",), (None, 8), lambda rows: MadeTables(None, {"cos": COS[:rows]})
    )
    assert find_best_reading(np.ones(8), [candidate]) is None


@pytest.mark.parametrize(
    ("ones", "zeros", "widths"),
    [
        pytest.param(9, 0, (), id="ones only"),
        pytest.param(2, 6, (), id="too few rows"),
        pytest.param(2, 14, (2,), id="8 rows of 2"),
        pytest.param(2, 30, (2, 4), id="8 rows of 4"),
        pytest.param(1, 31, (), id="a single one"),
    ],
)
def test_a_run_of_ones_suggests_the_width_of_a_flat_table(
    ones: int, zeros: int, widths: tuple[int, ...]
) -> None:
    """A flat table has lost its width. Cosines of position 0 are ones: a run of w ones at the
    beginning suggests rows of w (one function) or 2w, if the whole makes at least 8 rows of it;
    `widths` are those of that many ones, then zeros. Ones to the end have no second row, and a
    single one is no run: both suggest nothing.
    """
    assert find_row_widths(np.r_[np.ones(ones), np.zeros(zeros)]) == widths


def test_the_width_of_flattened_cosines_is_found() -> None:
    """COS has 12 rows of 8 columns: flattened, its width is found from the 8 ones of position 0. A
    table that is not flat has no width to find.
    """
    assert find_row_widths(COS.ravel()) == (8,)
    assert find_row_widths(COS) == ()


@pytest.mark.parametrize(
    ("name", "table", "note"),
    [
        pytest.param("cos", COS.T, "transposed", id="cos transposed"),
        pytest.param("cos", np.ones((3, 4)), "", id="cos of ones"),
        pytest.param("cos", COS, "", id="cos upright"),
        pytest.param("x", COS.T, "", id="another name"),
        pytest.param("cos", COS[:0], "", id="cos without rows"),
        pytest.param("cos", COS.ravel(), "read as (12, 8)", id="cos flat"),
        pytest.param("x", COS + 1j * SIN, "complex numbers", id="complex"),
    ],
)
def test_a_table_that_is_drawn_has_a_note_on_its_arrangement(
    name: str, table: np.ndarray, note: str
) -> None:
    """A picture needs positions along the first axis, so that cosines called «cos» are turned if they
    seem transposed; a table called «x» may be anything, and is not. Complex numbers are cosines and
    sines under any name. The note states what was done, "" if nothing.
    """
    assert separate_tables(name, table).note == note


def test_a_flat_table_of_both_functions_is_drawn_as_cosines_and_sines() -> None:
    """A vector «x» is 12 rows of 8 cosines and then 8 sines, flattened: COS and SIN come back."""
    tables, note = separate_tables("x", np.hstack([COS, SIN]).ravel())

    assert note == "all cosines, then all sines"
    np.testing.assert_array_equal(tables["cos"], COS)
    np.testing.assert_array_equal(tables["sin"], SIN)


@pytest.mark.parametrize(
    ("shape", "notes"),
    [
        pytest.param((8,), ["a single row"], id="a vector of 8"),
        pytest.param((1, 8), [""], id="a table of one row"),
        pytest.param((5, 9), [], id="9 columns"),
    ],
)
def test_a_vector_as_long_as_the_table_is_wide_is_noted_as_a_single_row(
    shape: tuple[int, ...], notes: list[str]
) -> None:
    """The expected table has 8 columns and any number of rows. `notes` has one note per way to read
    the shape as that, "" for an array that is as expected: 9 columns cannot be read.
    """
    assert notes_on_readings(shape, CandidateTable(("cos",), (None, 8), no_tables)) == notes


@pytest.mark.parametrize(
    ("upright", "is_transposed"),
    [
        pytest.param({}, True, id="rows may be anything"),
        pytest.param({"upright": True}, False, id="rows must be positions"),
    ],
)
def test_a_square_table_is_read_transposed_unless_its_rows_must_be_positions(
    upright: dict[str, bool], is_transposed: bool
) -> None:
    """The 8 × 8 cosines of 8 positions and 8 frequencies are given with the axes exchanged. `upright`
    states that rows must be positions.
    """
    candidate = candidate_of({"cos": COS[:8]}, has_frequencies=True, transposable=True)
    reading = find_best_reading(COS[:8].T.copy(), [candidate], **upright)

    assert reading is not None
    assert reading.transposed is is_transposed


def doubling_of(name: str, table: np.ndarray) -> Doubling:
    """Return how the columns of a table are doubled when it is read as COS under this name."""
    candidate = candidate_of({name: COS}, has_frequencies=True)
    reading = find_best_reading(table, [candidate])
    assert reading is not None
    return Doubling(layers="", reading=reading, doubled=reading.form.doubled)


@pytest.mark.parametrize(
    ("names", "problems"),
    [
        pytest.param(
            ("cos", "sin"),
            ["cos and sin are doubled in two ways: no rotation takes both"],
            id="cosines and sines",
        ),
        pytest.param(("bias", "slopes"), [], id="other tables"),
    ],
)
def test_cosines_and_sines_of_two_doublings_are_a_problem(
    names: tuple[str, str], problems: list[str]
) -> None:
    """One table has its columns doubled as c0 c1 … c0 c1 …, the other as c0 c0 c1 c1 …. A rotation
    multiplies each channel by one column of both tables; other tables have nothing to do with it.
    """
    in_halves = doubling_of(names[0], doubled_as_halves(COS))
    as_neighbours = doubling_of(names[1], doubled_as_neighbours(COS))

    assert in_halves.doubled == "halves"
    assert as_neighbours.doubled == "interleaved"
    assert find_doubling_problems([in_halves, as_neighbours]) == problems


def test_cosines_and_sines_of_one_doubling_are_no_problem() -> None:
    """Both have their columns as c0 c1 … c0 c1 …."""
    table = doubled_as_halves(COS)
    doublings = [doubling_of("cos", table), doubling_of("sin", table)]

    assert find_doubling_problems(doublings) == []
