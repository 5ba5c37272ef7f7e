"""diff of two files: which tensors belong together, and in which arrangement one is compared with
the other.

COS and SIN are NumPy's for 12 positions, 16 channels and base 500000; COSINES_THEN_SINES is [cos |
sin] as vLLM keeps it. `readings` state in words how a tensor was arranged.
"""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import DTypeLike

import pecli
from tests.checks.rope_dumps import COS, INV_FREQ, ROPE, SIN, cosines_and_sines
from tests.checks.waves import Array, doubled_as_halves, doubled_as_neighbours

COSINES_THEN_SINES = np.hstack([COS, SIN])


def test_a_tensor_that_only_one_file_has_is_named() -> None:
    """Both files have «cos», and one of them the tensor «x» besides."""
    cos_and_x = {"cos": COS, "x": SIN}
    cos_only = {"cos": COS}

    assert pecli.diff(cos_and_x, cos_only).diagnosis == ("x: only A has it, B does not",)
    assert pecli.diff(cos_only, cos_and_x).diagnosis == ("x: only B has it, A does not",)


def test_a_tensor_with_two_possible_partners_is_compared_with_neither() -> None:
    """Tensors of different names are compared if only they are cosines by their names: «a.cos» of A
    with «b.cos» of B. If B has «cos_cached» as well, either may be meant, and all three are named.
    """
    a = {"a.cos": COS, "sin": SIN}
    one_partner = {"b.cos": COS, "sin": SIN}
    two_partners = {"cos_cached": COS, "b.cos": COS, "sin": SIN}

    assert pecli.diff(a, one_partner).passed
    assert pecli.diff(a, two_partners).diagnosis == (
        "a.cos: only A has it, B does not",
        "cos_cached: only B has it, A does not",
        "b.cos: only B has it, A does not",
    )


def test_all_tensors_of_files_without_a_common_name_are_named() -> None:
    """No name is in both files, and «x», «y» and «z» state no function. So nothing is compared."""
    a = {"inv_freq": INV_FREQ, "x": COS}
    b = {"y": COS, "z": SIN}

    assert pecli.diff(a, b).diagnosis == (
        "inv_freq: only A has it, B does not",
        "x: only A has it, B does not",
        "y: only B has it, A does not",
        "z: only B has it, A does not",
    )


def test_frequencies_may_be_missing_in_a_file_that_has_cosines() -> None:
    """cos(position · frequency) determines the frequencies, so that nothing is lost without
    inv_freq. Frequencies do not state how many cosines there were: these must not be missing.
    """
    with_frequencies = {"cos": COS, "inv_freq": INV_FREQ}

    assert pecli.diff(with_frequencies, {"cos": COS}).diagnosis == ()
    assert pecli.diff(with_frequencies, {"inv_freq": INV_FREQ}).diagnosis == (
        "cos: only A has it, B does not",
    )


def test_cos_in_one_file_and_cos_cached_in_the_other_are_compared() -> None:
    """A has the tensors «cos» and «sin», B «cos_cached» and «sin_cached»: with the same numbers they
    pass; with cosines and sines exchanged in B, they differ.
    """
    a = {"cos": COS, "sin": SIN}
    exchanged = {"cos_cached": SIN, "sin_cached": COS}

    assert pecli.diff(a, {"cos_cached": COS, "sin_cached": SIN}).passed
    assert not pecli.diff(a, exchanged, reasons=False).passed


@pytest.mark.parametrize(
    ("table", "text"),
    [(COS, "<Difference passed>"), (SIN, "<Difference failed: cos differs>")],
    ids=["equal", "different"],
)
def test_the_repr_of_a_difference_states_the_verdict_and_what_differs(
    table: Array, text: str
) -> None:
    """Cosines are compared with themselves, and with sines under the name «cos»."""
    assert repr(pecli.diff({"cos": COS}, {"cos": table}, reasons=False)) == text


def test_cos_and_sin_of_a_are_joined_as_b_has_them_in_one_array() -> None:
    """A has cos and sin, B both in one array, [cos | sin]: `diff` joins those of A to the form of
    B.
    """
    readings = pecli.diff(cosines_and_sines(np.copy), COSINES_THEN_SINES).readings
    assert readings == {"cos_sin": "B: all cosines, then all sines"}


def test_cos_and_sin_of_b_are_joined_as_a_has_them_in_one_array() -> None:
    """A has [cos | sin] in one array, B cos and sin: `diff` joins those of B to the form of A."""
    readings = pecli.diff(COSINES_THEN_SINES, cosines_and_sines(np.copy)).readings
    assert readings == {"cos_sin": "A: all cosines, then all sines"}


def test_cosines_and_sines_of_different_lengths_are_not_joined() -> None:
    """12 rows of cosines and 5 of sines cannot stand side by side, so no reading of A as [cos |
    sin] is noted.
    """
    assert pecli.diff({"cos": COS, "sin": SIN[:5]}, COSINES_THEN_SINES).readings == {}


def test_two_doubled_tables_equal_one_of_cosines_then_sines() -> None:
    """A has c0 c1 … c0 c1 … and s0 s1 … s0 s1 … in two tensors, B [cos | sin]."""
    assert pecli.diff(cosines_and_sines(doubled_as_halves), COSINES_THEN_SINES).passed


@pytest.mark.parametrize(
    ("a", "b", "side"),
    [(doubled_as_halves(COS), COS, "A"), (COS, doubled_as_halves(COS), "B")],
    ids=["doubled in A", "doubled in B"],
)
def test_the_reading_names_the_file_whose_columns_are_doubled(
    a: Array, b: Array, side: str
) -> None:
    """One file has a column per frequency, the other has two. They are equal, and the reading
    states which file is doubled, and how.
    """
    reading = f"{side}: two columns per frequency (c0 c1 … c0 c1 …)"
    assert pecli.diff(a, b).readings == {"array": reading}


@pytest.mark.parametrize(("name", "passed"), [("slopes", False), ("x", True)])
def test_doubled_cosines_equal_a_tensor_whose_name_has_no_meaning_but_no_slopes(
    name: str, passed: bool
) -> None:
    """A has cosines with two columns per frequency, B one tensor with a column per frequency. If
    that is called «x», it may be anything and is compared as cosines; «slopes» are ALiBi's.
    """
    assert pecli.diff({"cos": doubled_as_halves(COS)}, {name: COS}).passed == passed


@pytest.mark.parametrize(
    ("a", "b"),
    [
        pytest.param(np.zeros((2, 3), np.float32), np.ones((4, 2, 3)), id="four copies in B"),
        pytest.param(np.ones((4, 2, 3)), np.zeros((2, 3), np.float32), id="four copies in A"),
    ],
)
def test_expected_values_and_dtypes_are_those_of_a_and_found_ones_those_of_b(
    a: Array, b: Array
) -> None:
    """One array holds zeros in float32, the other ones in float64, four times as many: whichever is
    read as copies of the other, A is what was expected.
    """
    (tensor,) = pecli.diff(a, b, atol=1e-3, reasons=False).tensors

    assert tensor.expected == a.flat[0]
    assert tensor.found == b.flat[0]
    assert tensor.expected_dtype == a.dtype.name
    assert tensor.dtype == b.dtype.name


def test_another_dtype_is_a_difference() -> None:
    """Equal numbers in float32 and float64; without a tolerance, `diff` compares bit for bit."""
    diagnosis = pecli.diff({"cos": COS}, {"cos": COS.astype(float)}).diagnosis
    assert diagnosis == ("cos: its dtype is float64 where float32 is expected",)


def test_another_dtype_is_no_difference_within_a_tolerance() -> None:
    """Equal numbers in float32 and float64: with a tolerance, `diff` compares values only."""
    assert pecli.diff({"cos": COS}, {"cos": COS.astype(float)}, atol=1e-9).passed


def test_a_table_that_was_rounded_is_named() -> None:
    """A has cosines in float32, B the same in float16: after the line about the dtype, the
    diagnosis names the rounding.
    """
    diagnosis = pecli.diff({"cos": COS}, {"cos": COS.astype(np.float16)}).diagnosis
    assert diagnosis[1].startswith("cos: in B, rounded to float16;")


def test_a_table_that_was_rounded_is_named_within_a_tolerance() -> None:
    """float16 moves cosines by up to 2.4e-4, which exceeds the tolerance: rounding is the reason, and
    nothing else is supposed, such as a constant added to each row.
    """
    rounded = {"cos": COS.astype(np.float16)}
    diagnosis = pecli.diff({"cos": COS}, rounded, atol=1e-4).diagnosis
    assert diagnosis[0].startswith("cos: in B, rounded to float16;")


def test_the_rounding_of_a_is_not_named_as_one_of_b() -> None:
    """A has cosines in float32, B those of the same angles in float64, by NumPy: it is A that is
    rounded.
    """
    exact = np.cos(np.outer(np.arange(64), 10000.0 ** (-np.arange(8) / 8)))
    diagnosis = pecli.diff({"cos": exact.astype(np.float32)}, {"cos": exact}).diagnosis
    assert diagnosis[1] == "cos: in B, not rounded (in A to float32); exact"


def test_float64_numbers_are_named_as_rounded_to_float32_only_in_the_file_that_has_such() -> None:
    """Numbers of float32 from 0.5 to 1 are 2^-24 apart. One file has such numbers, the other has them
    plus a third of 2^-24, and both are of float64. The first are the second rounded to float32: this
    is named if the first are in B. In A, they are what is expected, and B is not rounded.
    """
    drawn = np.random.default_rng(3).uniform(0.5, 1.0, (64, 8))
    numbers_of_float32 = drawn.astype(np.float32).astype(np.float64)
    numbers_between = numbers_of_float32 + 2.0**-24 / 3

    rounded_in_b = pecli.diff({"weight": numbers_between}, {"weight": numbers_of_float32})
    rounded_in_a = pecli.diff({"weight": numbers_of_float32}, {"weight": numbers_between})

    assert rounded_in_b.diagnosis == ("weight: in B, rounded to float32; exact",)
    assert rounded_in_a.diagnosis == ("weight: in B, not rounded (in A to float32); exact",)


DRAWN = np.random.default_rng(3).uniform(0.5, 1.0, (64, 8))
"""Numbers of float64, none of which a dtype with fewer bits has."""


@pytest.mark.parametrize("held", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("rounded", "name"), [(np.float16, "float16"), (ml_dtypes.bfloat16, "bfloat16")]
)
def test_the_rounding_of_a_is_named_if_a_holds_it_in_a_finer_dtype(
    rounded: DTypeLike, name: str, held: DTypeLike
) -> None:
    """NumPy, with ml_dtypes for bfloat16, rounds B to 16 bits for A, where the numbers are then held
    in the dtype of B.
    """
    b = DRAWN.astype(held)
    a = b.astype(rounded).astype(held)

    assert pecli.diff({"weight": a}, {"weight": b}).diagnosis == (
        f"weight: in B, not rounded (in A to {name}); exact",
    )


def test_the_rounding_of_a_is_named_if_it_is_to_fewer_bits_than_those_of_the_dtype_of_a() -> None:
    """A holds numbers of float16 in float32, and B the numbers before rounding in float64."""
    a = DRAWN.astype(np.float16).astype(np.float32)

    assert pecli.diff({"weight": a}, {"weight": DRAWN}).diagnosis == (
        "weight: its dtype is float64 where float32 is expected",
        "weight: in B, not rounded (in A to float16); exact",
    )


def test_a_single_number_that_is_changed_by_less_than_rounding_is_not_called_unrounded() -> None:
    """A holds numbers of float16 in float32. B has one of them plus 2^-13, a quarter of the step of
    float16 from 0.5 to 1: all others are as rounded as in A.
    """
    a = DRAWN.astype(np.float16).astype(np.float32)
    b = a.copy()
    b[3, 2] += 2.0**-13

    assert pecli.diff({"weight": a}, {"weight": b}).diagnosis == (
        "weight: in B, only element [3, 2] differs; all others are exact",
    )


def test_numbers_that_all_differ_by_far_less_than_rounding_are_not_called_unrounded() -> None:
    """A holds numbers of float16, and B the same plus up to 2^-15, an eighth of what rounding to
    float16 may change: B does not have the numbers from which A was rounded.
    """
    a = DRAWN.astype(np.float16).astype(np.float32)
    changes = np.random.default_rng(4).uniform(-(2.0**-15), 2.0**-15, a.shape)

    assert pecli.diff({"weight": a}, {"weight": (a + changes).astype("f4")}).explanations == ()


def test_cosines_and_sines_that_are_doubled_in_two_ways_are_named() -> None:
    """A has one column per frequency. In B the cosines are doubled as halves (c0 c1 … c0 c1 …), the
    sines as neighbours (s0 s0 s1 s1 …): no layout of pairs fits both.
    """
    dump = {"cos": doubled_as_halves(COS), "sin": doubled_as_neighbours(SIN)}
    reason = "cos and sin are doubled in two ways: no rotation takes both"

    assert pecli.diff(cosines_and_sines(np.copy), dump).diagnosis == (reason,)


def test_an_empty_table_is_not_equal_to_numbers() -> None:
    """A has the shape (0, 3, 4), so no elements, and B 12 ones: no element of A differs, but the
    files do.
    """
    assert not pecli.diff(np.zeros((0, 3, 4)), np.ones(12), reasons=False).passed


def test_a_tolerance_in_which_everything_passes_is_weak(tmp_path: Path) -> None:
    """Cosines are from −1 to 1 and differ by at most 2, so that a tolerance of 3 accepts any table:
    `weak` states that not even another first position could be seen. The file has 12 rows.
    """
    file = str(tmp_path / "t.npz")
    pecli.save(file, ROPE)
    weaknesses = pecli.diff(file, ROPE.tables(), atol=3).weak

    assert weaknesses[0] == (
        "12 rows cannot tell offset 0 from 1 within this tolerance, and no number of rows would"
    )


def test_a_difference_of_arrays_has_no_file_names() -> None:
    """Arrays in memory have none: the title calls both sides «arrays»."""
    difference = pecli.diff(np.zeros((2, 3)), np.ones((2, 3)), reasons=False)
    assert difference.a == ""
    assert str(difference).splitlines()[0] == "DIFFERENT  A: arrays  B: arrays"


@pytest.mark.parametrize(
    ("rows", "passed"),
    [((1, 1, 1), True), ((1, 1, 2), False)],
    ids=["three copies", "another row"],
)
def test_a_vector_in_text_equals_copies_of_it_only(
    tmp_path: Path, rows: tuple[int, ...], passed: bool
) -> None:
    """A CSV file has no axes that could state copies, so that a row, and a file of three rows equal
    to it, are the same vector. `rows` are rows of a table that the second file has.
    """
    vector = tmp_path / "vector.csv"
    np.savetxt(vector, COS[1], delimiter=",", fmt="%s")
    copies = tmp_path / "copies.csv"
    np.savetxt(copies, COS[[*rows]], delimiter=",", fmt="%s")

    assert pecli.diff(str(vector), str(copies)).passed == passed


@pytest.mark.parametrize("name", ["x", "wpe", "bias"])
def test_only_cosines_and_sines_are_read_transposed(name: str) -> None:
    """Of other tables nothing tells that rows are frequencies: (8, 12) is not (12, 8)."""
    difference = pecli.diff({name: COS}, {name: COS.T})

    assert difference.tensors[0].problem == "its shape is (8, 12) where (12, 8) is expected"
    assert pecli.diff({"cos": COS}, {"cos": COS.T}).passed


def test_columns_doubled_in_another_way_differ() -> None:
    """c0 c1 … c0 c1 … in A and c0 c0 c1 c1 … in B have the same shape, and rotate other pairs."""
    in_halves = cosines_and_sines(doubled_as_halves)
    interleaved = cosines_and_sines(doubled_as_neighbours)
    difference = pecli.diff(in_halves, interleaved)

    assert difference.diagnosis == ("cos, sin: in B, layout is interleaved (in A halves); exact",)


def test_another_base_is_named_beside_an_attention_factor() -> None:
    """Both tables are multiplied by 1.1386, as LongRoPE's are."""
    factor = np.float32(1.1386)
    other_base = pecli.Rope(12, 16, theta=10000.0).tables()
    a = {"cos": COS * factor, "sin": SIN * factor}
    b = {"cos": other_base["cos"] * factor, "sin": other_base["sin"] * factor}
    sentence, *_ = pecli.diff(a, b).diagnosis

    assert sentence.startswith("cos, sin: in B, base is 10000 (in A 500000); ")
