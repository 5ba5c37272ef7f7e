"""diff of two files or runs: every mistake made on purpose is named, right pairs pass, and noise is
explained by nothing.

Tables are NumPy's cosines and sines (200 positions, 32 channels, base 10000), changed by NumPy; an
edit is a difference as an object, such as Layout("interleaved", "halves"). A dump of a run has
queries and keys of each layer before and after the rotation; the first layer that departs is named.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pecli
from pecli.checks.diff import Difference
from pecli.engine import edits
from tests.checks.waves import LLAMA3, cos_and_sin_tables, interleaved_columns, inverse_frequencies
from tests.oracle import turned

LENGTH, DIM = 200, 32


def joined(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.concatenate([first, second], axis=1)


def diff_of(a: Any, b: Any, **tolerance: Any) -> Any:
    return pecli.diff(a, b, pecli.Tolerance(**tolerance))


COS, SIN = cos_and_sin_tables(LENGTH, inverse_frequencies(10000.0, DIM)).values()
INTERLEAVED_TABLE = interleaved_columns(SIN, COS)
SHUFFLED = np.random.default_rng(5).permutation(DIM)
ROWS = np.random.default_rng(6).permutation(len(INTERLEAVED_TABLE))
RANDOM_TABLE = np.random.default_rng(7).standard_normal((40, DIM))


def assert_only_explanation(a: np.ndarray, b: np.ndarray, edit: edits.Edit) -> None:
    """Assert that `diff` fails, and that this edit of A is its only explanation of B.

    The residual, the largest difference that the edit leaves, must be rounding: 1e-7 of the largest
    value in float32, and 3e-4 in float16.
    """
    result = diff_of(a, b)
    rounding = 3e-4 if b.dtype == np.float16 else 1e-7

    assert not result.passed

    (found,) = result.explanations
    assert found.edits == (edit,)
    assert found.residual <= rounding * np.abs(b.astype(complex)).max()
    assert result.as_json()["explanations"][0]["text"] in result.diagnosis


@pytest.mark.parametrize(
    ("a", "b", "edit"),
    [
        pytest.param(
            INTERLEAVED_TABLE,
            joined(SIN, COS),
            edits.Layout("interleaved", "halves"),
            id="interleaved read as halves",
        ),
        pytest.param(
            joined(SIN, COS),
            INTERLEAVED_TABLE,
            edits.Layout("halves", "interleaved"),
            id="halves read as interleaved",
        ),
        pytest.param(
            INTERLEAVED_TABLE,
            np.concatenate([INTERLEAVED_TABLE, INTERLEAVED_TABLE]),
            edits.Repeated(0, 2),
            id="repeated",
        ),
    ],
)
def test_another_layout_of_a_table_is_named(a: np.ndarray, b: np.ndarray, edit: edits.Edit) -> None:
    """INTERLEAVED_TABLE is s0 c0 s1 c1 …, and `joined` has sines beside cosines. B has the numbers
    of A in the other layout, or twice.
    """
    assert_only_explanation(a, b, edit)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        pytest.param(joined(SIN, COS), joined(COS, SIN), id="halves s0 s1 … c0 c1 …"),
        pytest.param(INTERLEAVED_TABLE, interleaved_columns(COS, SIN), id="pairs s0 c0 s1 c1 …"),
        # 15 columns are odd in number, so that no row of the stack can be read as pairs.
        pytest.param(
            np.stack([SIN, COS])[..., :15],
            np.stack([COS, SIN])[..., :15],
            id="a table above the other",
        ),
    ],
)
def test_cosines_and_sines_of_one_array_that_are_exchanged_are_named(
    a: np.ndarray, b: np.ndarray
) -> None:
    """A has the sines first and the cosines second; B has them the other way round."""
    assert_only_explanation(a, b, edits.Swapped())


@pytest.mark.parametrize(
    ("a", "b", "negated"),
    [
        pytest.param(joined(SIN, COS), joined(SIN, -COS), "second", id="cosines, the second half"),
        pytest.param(
            INTERLEAVED_TABLE,
            interleaved_columns(-SIN, COS),
            "first",
            id="sines, the first of each pair s0 c0",
        ),
        pytest.param(
            COS + 1j * SIN, COS - 1j * SIN, "second", id="sines, the imaginary part of cos + i sin"
        ),
        pytest.param(INTERLEAVED_TABLE, -INTERLEAVED_TABLE, "all", id="both"),
    ],
)
def test_cosines_or_sines_of_one_array_with_the_other_sign_are_named(
    a: np.ndarray, b: np.ndarray, negated: str
) -> None:
    """B has the sines, the cosines, or both of A with the other sign. An array has no names for its
    two functions, so `diff` calls them the first and the second, in the order in which A has them.
    """
    assert_only_explanation(a, b, edits.Negated(negated))


@pytest.mark.parametrize(
    ("a", "b", "edit"),
    [
        pytest.param(
            INTERLEAVED_TABLE, INTERLEAVED_TABLE.T, edits.Transposed((1, 0)), id="transposed"
        ),
        pytest.param(
            INTERLEAVED_TABLE[:DIM],
            INTERLEAVED_TABLE[:DIM].T,
            edits.Transposed((1, 0)),
            id="a square, transposed",
        ),
        pytest.param(
            INTERLEAVED_TABLE,
            INTERLEAVED_TABLE[:, SHUFFLED],
            edits.Channels(tuple(SHUFFLED.tolist())),
            id="permuted",
        ),
        pytest.param(
            INTERLEAVED_TABLE, INTERLEAVED_TABLE[:, ::-1], edits.Channels("reversed"), id="reversed"
        ),
    ],
)
def test_columns_of_a_table_in_another_order_are_named(
    a: np.ndarray, b: np.ndarray, edit: edits.Edit
) -> None:
    """B is A transposed, with its columns in reverse order, or shuffled (SHUFFLED)."""
    assert_only_explanation(a, b, edit)


@pytest.mark.parametrize(
    ("a", "b", "edit"),
    [
        pytest.param(
            INTERLEAVED_TABLE, INTERLEAVED_TABLE[::-1], edits.Rows("reversed"), id="rows reversed"
        ),
        pytest.param(
            INTERLEAVED_TABLE, INTERLEAVED_TABLE[ROWS], edits.Rows("permuted"), id="rows shuffled"
        ),
        pytest.param(
            INTERLEAVED_TABLE[:-2],
            INTERLEAVED_TABLE[2:],
            edits.Parameter("offset", 0, 2),
            id="two rows early",
        ),
        pytest.param(
            INTERLEAVED_TABLE, INTERLEAVED_TABLE[:150], edits.Rows("cut", 150), id="shorter"
        ),
        pytest.param(
            INTERLEAVED_TABLE,
            INTERLEAVED_TABLE[np.arange(LENGTH) % 60],
            edits.Rows("wrapped", 60),
            id="wrapped",
        ),
        pytest.param(
            INTERLEAVED_TABLE,
            np.where(np.arange(LENGTH)[:, None] == 5, np.float32(3), INTERLEAVED_TABLE),
            edits.RowsWrong((5,)),
            id="rows wrong",
        ),
    ],
)
def test_rows_of_a_table_that_are_wrong_or_in_another_order_are_named(
    a: np.ndarray, b: np.ndarray, edit: edits.Edit
) -> None:
    """B has the rows of A in reverse order or shuffled (ROWS), from another position on, fewer of
    them, again and again from row 60 on, or other numbers in row 5.
    """
    assert_only_explanation(a, b, edit)


def test_the_rows_of_a_that_b_has_in_another_order_are_listed_if_some_are_left_out() -> None:
    """A has rows 0 to 39, and B only 30 of them: 39, 38, …, 10. «In reverse order» would hold for all
    40 rows, so that the explanation lists the rows instead.
    """
    rows_39_to_10 = (*range(39, 9, -1),)
    b = RANDOM_TABLE[[*rows_39_to_10]]

    assert_only_explanation(RANDOM_TABLE, b, edits.SomeRows(rows_39_to_10))


@pytest.mark.parametrize(
    ("a", "b", "edit"),
    [
        pytest.param(
            np.arange(1.0, 9), np.arange(1.0, 9) / 4, edits.Scaled(0.25), id="factor of a vector"
        ),
        pytest.param(
            INTERLEAVED_TABLE,
            INTERLEAVED_TABLE.astype(np.float16),
            edits.Dtype("float16"),
            id="another dtype",
        ),
    ],
)
def test_another_factor_or_dtype_of_a_table_is_named(
    a: np.ndarray, b: np.ndarray, edit: edits.Edit
) -> None:
    """B is a quarter of A, or A in float16."""
    assert_only_explanation(a, b, edit)


def test_rows_that_are_one_late_have_a_single_explanation() -> None:
    """A has rows 1 to 199 of a table, and B rows 0 to 198: either another first position, or rows
    that were moved, which would be the same. `diff` gives one of them, not both, and it leaves
    nothing but float32 rounding, below 1e-7.
    """
    (found,) = diff_of(INTERLEAVED_TABLE[1:], INTERLEAVED_TABLE[:-1]).explanations
    assert found.residual <= 1e-7


def test_columns_doubled_as_halves_in_a_and_as_neighbours_in_b_are_named() -> None:
    """Every frequency has two columns, in A as c0 c1 … c0 c1 …, in B as c0 c0 c1 c1 …."""
    halves = np.concatenate([COS, COS], axis=1)
    neighbours = np.repeat(COS, 2, axis=1)
    (found,) = diff_of({"cos": halves}, {"cos": neighbours}).explanations

    assert found.edits == (edits.Layout("halves", "interleaved"),)


ROW_OF_ZEROS = np.zeros((1, DIM))


def test_a_cycle_of_rows_with_zeros_between_is_not_explained_as_a_cycle() -> None:
    """Rows 0 to 7 of A five times are explained by positions that wrap at row 8. With a row of zeros,
    which A does not have, before each run of rows 0 to 6, that would be false.
    """
    cycle = np.concatenate([RANDOM_TABLE[0:8]] * 5)
    zeros_between = np.concatenate([ROW_OF_ZEROS, RANDOM_TABLE[0:7]] * 5)

    assert_only_explanation(RANDOM_TABLE, cycle, edits.Rows("wrapped", 8))
    assert not diff_of(RANDOM_TABLE, zeros_between).passed
    assert diff_of(RANDOM_TABLE, zeros_between).explanations == ()


def test_a_reversal_with_a_row_of_zeros_behind_is_not_explained_as_a_reversal() -> None:
    """The 40 rows of A in reverse order are explained as such. With one row more, of zeros, which A
    does not have, that would be false.
    """
    reversal = RANDOM_TABLE[::-1]
    zeros_behind = np.concatenate([reversal, ROW_OF_ZEROS])

    assert_only_explanation(RANDOM_TABLE, reversal, edits.Rows("reversed"))
    assert not diff_of(RANDOM_TABLE, zeros_behind).passed
    assert diff_of(RANDOM_TABLE, zeros_behind).explanations == ()


@pytest.mark.parametrize(
    ("b", "second"),
    [(joined(COS, SIN), edits.Swapped()), (-joined(SIN, COS), edits.Negated("all"))],
    ids=["swapped", "negated"],
)
def test_a_change_of_layout_and_a_second_change_are_both_named(
    b: np.ndarray, second: edits.Edit
) -> None:
    """A holds s0 c0 s1 c1 …; B holds halves in which also cosines come first, or all signs are
    reversed. Both changes together leave float32 rounding only, below 1e-7.
    """
    (found,) = diff_of(INTERLEAVED_TABLE, b).explanations

    assert {*found.edits} == {edits.Layout("interleaved", "halves"), second}
    assert found.residual <= 1e-7


def test_the_residual_of_a_reason_is_the_noise_that_it_leaves() -> None:
    """B has another layout and, added to it, a ripple of up to 1e-4, within the tolerance of 1e-3:
    the layout is named, and leaves 1e-4.
    """
    count = np.arange(INTERLEAVED_TABLE.size, dtype=np.float32)
    ripple = 1e-4 * np.sin(count).reshape(INTERLEAVED_TABLE.shape)
    (found,) = diff_of(INTERLEAVED_TABLE, joined(SIN, COS) + ripple, atol=1e-3).explanations

    assert found.edits == (edits.Layout("interleaved", "halves"),)
    assert found.residual == pytest.approx(1e-4, rel=1e-2)


@pytest.mark.parametrize(
    ("edit", "table"),
    [
        (edits.Dtype("float16"), INTERLEAVED_TABLE.astype(np.float16).astype(np.float32)),
        (edits.Decimals(3), INTERLEAVED_TABLE.round(3)),
    ],
    ids=["float16", "three decimals"],
)
def test_the_rounding_of_values_is_named(edit: edits.Edit, table: np.ndarray) -> None:
    """B holds, in float32, the numbers of A rounded to float16, or to 3 decimals as in print."""
    (found,) = diff_of(INTERLEAVED_TABLE, table).explanations

    assert found.edits == (edit,)
    assert found.residual <= 1e-7


def test_tensors_of_cosines_and_sines_that_are_exchanged_are_named() -> None:
    """The tensor «cos» of B holds the sines, and «sin» the cosines."""
    result = diff_of({"cos": COS, "sin": SIN}, {"cos": SIN, "sin": COS})
    (found,) = result.explanations

    assert found.edits == (edits.Swapped(),)
    assert found.tensors == ("cos", "sin")


SLOPES = 2.0 ** -np.arange(1, 5, dtype=np.float32)[:, None, None]
"""ALiBi's slopes of 4 heads: 1/2, 1/4, 1/8 and 1/16."""
QUERY, KEY = np.mgrid[:40, :40].astype(np.float32)
BIAS_BY_KEY = SLOPES * KEY[:1]
BIAS_BY_DISTANCE = -SLOPES * np.abs(QUERY - KEY)


@pytest.mark.parametrize(
    ("a", "b", "edit"),
    [
        pytest.param(
            BIAS_BY_KEY, BIAS_BY_KEY - SLOPES * 39, edits.RowShift(), id="a constant per row"
        ),
        pytest.param(
            np.where(KEY > QUERY, np.float32(-np.inf), BIAS_BY_DISTANCE),
            np.where(KEY > QUERY, np.float32(-1e9), BIAS_BY_DISTANCE),
            edits.Mask("-1e+09"),
            id="another number for −∞",
        ),
        pytest.param(BIAS_BY_DISTANCE, -BIAS_BY_DISTANCE, edits.Negated("all"), id="another sign"),
    ],
)
def test_a_change_of_the_bias_of_alibi_is_named(
    a: np.ndarray, b: np.ndarray, edit: edits.Edit
) -> None:
    """ALiBi's bias of 40 positions is −slope · distance, or the slope times the number of the key;
    B has one change, which explains every element (residual 0). Softmax ignores a constant per row
    and hides keys with −∞ or −10^9 alike, but another sign changes the attention.
    """
    (found,) = diff_of(a, b).explanations
    assert found.edits == (edit,)
    assert found.residual == 0


@settings(max_examples=8)
@given(
    seed=st.integers(0, 2**32),
    rows=st.integers(4, 40),
    columns=st.integers(2, 12),
    is_unrelated=st.booleans(),
)
def test_noise_is_explained_by_nothing(
    seed: int, rows: int, columns: int, is_unrelated: bool
) -> None:
    """A holds random numbers; B holds unrelated ones, or A plus noise of 1e-3. A reason that fits
    noise would be a false diagnosis.
    """
    draw = np.random.default_rng(seed)
    a = draw.standard_normal((rows, columns)).astype(np.float32)
    noise = draw.standard_normal((rows, columns)).astype(np.float32)
    b = noise if is_unrelated else a + np.float32(1e-3) * noise
    result = diff_of(a, b)

    assert not result.passed
    assert result.explanations == ()
    assert diff_of(a, a).passed


@pytest.mark.thorough
def test_a_layout_that_leaves_more_than_rounding_is_no_reason_without_a_tolerance() -> None:
    """Another layout explains B except for a ripple of 1e-4, far more than float32 rounds: the
    files differ by something else as well, so that «another layout» would be wrong.
    """
    count = np.arange(INTERLEAVED_TABLE.size, dtype=np.float32)
    ripple = 1e-4 * np.sin(count).reshape(INTERLEAVED_TABLE.shape)

    assert diff_of(INTERLEAVED_TABLE, joined(SIN, COS) + ripple).explanations == ()


OTHER_COS, OTHER_SIN = cos_and_sin_tables(LENGTH, inverse_frequencies(500000.0, DIM)).values()


def test_another_base_of_a_sinusoidal_table_is_named_without_a_spec() -> None:
    """A has base 10000 and B base 500000; neither array states it."""
    table_of_base_500000 = interleaved_columns(OTHER_SIN, OTHER_COS)
    (found,) = diff_of(INTERLEAVED_TABLE, table_of_base_500000).explanations

    assert found.edits == (edits.Parameter("base", 10000.0, 500000.0),)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (COS, OTHER_COS),
        (SIN, OTHER_SIN),
        ({"cos": np.tile(COS, 2)}, {"cos": np.tile(OTHER_COS, 2)}),
        ({"sin": np.tile(SIN, 2)}, {"sin": np.tile(OTHER_SIN, 2)}),
    ],
    ids=["cosines", "sines", "doubled cosines", "doubled sines"],
)
@pytest.mark.sample(2)
def test_another_base_of_one_function_is_named_without_a_spec(a: Any, b: Any) -> None:
    """A has base 10000 and B base 500000; cosines or sines only, once or with columns doubled as
    halves.
    """
    explanation, *_ = diff_of(a, b, atol=1e-3).explanations
    assert explanation.edits == (edits.Parameter("base", 10000.0, 500000.0),)


def test_another_base_of_several_tables_is_one_reason() -> None:
    """Three tensors of A hold the first 32 or 64 rows of one table of base 10000; those of B have
    base 500000. One explanation is given for all three.
    """
    rows = {"a": 32, "b": 64, "c": 32}
    table_of_base_500000 = interleaved_columns(OTHER_SIN, OTHER_COS)
    a = {name: INTERLEAVED_TABLE[:count] for name, count in rows.items()}
    b = {name: table_of_base_500000[:count] for name, count in rows.items()}
    (found,) = diff_of(a, b).explanations

    assert found.edits == (edits.Parameter("base", 10000.0, 500000.0),)
    assert found.tensors == ("a", "b", "c")


def test_another_base_is_named_only_for_the_tables_that_differ() -> None:
    """x.cos and x.sin have base 10000 in A and 500000 in B; the tensor y is equal in both files, so
    the explanation must not mention it.
    """
    a = {"x.cos": COS, "x.sin": SIN, "y": COS[:9]}
    b = {"x.cos": OTHER_COS, "x.sin": OTHER_SIN, "y": COS[:9]}
    (found,) = diff_of(a, b).explanations

    assert found.edits == (edits.Parameter("base", 10000.0, 500000.0),)
    assert found.tensors == ("x.cos", "x.sin")


@pytest.mark.thorough
def test_a_table_of_zeros_is_not_explained_as_a_factor_of_0() -> None:
    """A factor of 0 would turn any table into zeros, and explains nothing."""
    assert diff_of(INTERLEAVED_TABLE, np.zeros_like(INTERLEAVED_TABLE)).explanations == ()


def test_channels_that_occur_twice_are_no_permutation() -> None:
    """B has channels 0 to 7 of A twice, so no permutation of A's 16 channels makes it: `diff` finds
    no explanation.
    """
    noise = np.random.default_rng(0).normal(size=(40, 16)).astype(np.float32)
    first_half_twice = noise[:, [*range(8), *range(8)]]

    assert diff_of(noise, first_half_twice).explanations == ()


def test_tensors_that_one_file_lacks_fail_a_diff() -> None:
    """A has cos and sin, B has cos and extra. The common tensor is equal, but a diff that leaves
    tensors out must not pass.
    """
    result = diff_of({"cos": COS, "sin": SIN}, {"cos": COS, "extra": SIN})
    assert [tensor.name for tensor in result.tensors] == ["cos"]
    assert result.diagnosis == (
        "sin: only A has it, B does not",
        "extra: only B has it, A does not",
    )
    assert not result.passed


def test_the_only_tensors_of_two_files_are_compared_whatever_their_names() -> None:
    """A has one tensor, «pe», and B one, «weight», with the same numbers: they must be meant."""
    assert diff_of({"pe": INTERLEAVED_TABLE}, {"weight": INTERLEAVED_TABLE}).passed


def test_the_diagnosis_names_all_tensors_of_files_without_a_common_name() -> None:
    """No tensor of A has a partner in B, neither by name nor by shape: the diagnosis has a line
    about each of the four.
    """
    a = {"inv_freq": np.ones(4), "slopes": np.ones(3)}
    b = {"weight": np.ones(5), "bias": np.ones(6)}
    diagnosis = diff_of(a, b).diagnosis

    names = {line.split(":")[0] for line in diagnosis}
    assert names == {"inv_freq", "slopes", "weight", "bias"}


def test_a_transposed_square_table_differs() -> None:
    """16 rows of 16 cosines have the same shape when they are transposed, but other numbers."""
    square = COS[:16, :16]
    assert not diff_of({"cos": square}, {"cos": square.T}).passed


def test_a_difference_within_atol_passes_without_a_reason() -> None:
    """B is a table plus 1e-6, which is more than the rounding of float32, and less than 2e-6: the
    same pair fails without a tolerance and passes within 2e-6.
    """
    near = INTERLEAVED_TABLE + np.float32(1e-6)
    assert not diff_of(INTERLEAVED_TABLE, near).passed

    result = diff_of(INTERLEAVED_TABLE, near, atol=2e-6)
    assert result.passed
    assert result.explanations == ()
    assert result.diagnosis == ()


def test_tables_without_elements_of_different_shapes_have_no_reason() -> None:
    """0 rows of 4 columns equal themselves, and differ from 4 rows of 0 columns."""
    no_rows = np.zeros((0, 4))
    no_columns = np.zeros((4, 0))

    assert diff_of(no_rows, no_rows).passed
    assert diff_of(no_rows, no_columns).explanations == ()


def test_equal_scalars_pass() -> None:
    """A tensor without an axis, such as a factor, is a number: 1 equals 1."""
    assert diff_of({"cos": np.float32(1)}, {"cos": np.float32(1)}).passed


@pytest.mark.parametrize(
    ("a", "b"),
    [
        pytest.param(np.float32(1), np.float32(2), id="one number"),
        pytest.param(np.array([1, 2]), np.array([2, 1]), id="two numbers"),
    ],
)
def test_a_difference_of_one_or_two_numbers_has_no_reason(a: Any, b: Any) -> None:
    """Two numbers that are exchanged may be in reverse order, or simply others: they are too few to
    show a reason.
    """
    assert diff_of(a, b).explanations == ()


@pytest.mark.parametrize(
    "wrong",
    [np.array(2j), np.array([2.5])],
    ids=["the complex number 2i", "a vector of one number, 2.5"],
)
def test_one_number_that_differs_has_no_reason_also_beside_an_equal_table(
    wrong: np.ndarray,
) -> None:
    """The tensor «a» is the number 1 in A, and another in B. «Scaled by 2.5» would fit any number, so
    it is no reason: neither for a file of one number, nor if another tensor, the table «z», is
    equal in both files. Eight numbers that are scaled have this reason.
    """
    one_number = diff_of({"a": np.array(1), "z": COS}, {"a": wrong, "z": COS})
    eight = np.arange(1.0, 9)
    eight_numbers = diff_of({"a": eight, "z": COS}, {"a": 2.5 * eight, "z": COS})

    assert not one_number.passed
    assert one_number.explanations == ()
    assert eight_numbers.explanations[0].edits == (edits.Scaled(2.5),)


def dump_of_two_layers(queries: np.ndarray) -> dict[str, np.ndarray]:
    """Return equal queries of layers 0 and 1, before and after the rotation."""
    names = ("layers.0.q.before", "layers.0.q.after", "layers.1.q.before", "layers.1.q.after")
    return dict.fromkeys(names, queries)


LAYER_1_DEPARTS = "layer 1 is the first that departs, by layers.1.q.after; layers.1.q.before agrees"
FLOAT32_OR_INTEGERS = pytest.mark.parametrize("dtype", [np.float32, np.uint64])
"""The dtype of wrong queries in B. NumPy computes float16 with float32 in float32, and with uint64
in float64.
"""


@FLOAT32_OR_INTEGERS
def test_queries_near_the_largest_float16_are_compared(dtype: type) -> None:
    """The queries of A are 60000 in float16, which ends at 65504: a sum or product of two of them
    would be infinite in float16, with a warning of NumPy, which fails a test. In B, those of layer 1
    after the rotation are 0, 1, 2, …, 63.
    """
    a = dump_of_two_layers(np.full((16, 4), 60000, np.float16))
    wrong = np.arange(64).reshape(16, 4).astype(dtype)
    result = diff_of(a, {**a, "layers.1.q.after": wrong})

    assert not result.passed
    assert result.diagnosis[-1] == LAYER_1_DEPARTS


@FLOAT32_OR_INTEGERS
def test_queries_of_two_channels_are_compared(dtype: type) -> None:
    """Two channels are the fewest that rotate, a single pair. In B, the queries of layer 1 after the
    rotation are 0, 1, 2, …, 31 instead of 60000.
    """
    a = dump_of_two_layers(np.full((16, 2), 60000, np.float16))
    wrong = np.arange(32).reshape(16, 2).astype(dtype)
    result = diff_of(a, {**a, "layers.1.q.after": wrong})

    assert not result.passed
    assert result.diagnosis[-1] == LAYER_1_DEPARTS


def test_rounding_is_named_for_cosines_and_sines_that_one_file_has_in_one_array() -> None:
    """A has both in one array of float32, B in two tensors of float64: it is named for each of the
    two that A is rounded, and B is not.
    """
    tables = pecli.Rope(64, 16, dtype="float64").tables()
    in_one_array = np.stack([tables["cos"], tables["sin"]]).astype(np.float32)
    in_two_tensors = {"cos": tables["cos"], "sin": tables["sin"]}
    explanations = diff_of({"cos_sin": in_one_array}, in_two_tensors).explanations

    assert [explanation.tensors for explanation in explanations] == [("cos",), ("sin",)]
    for explanation in explanations:
        (edit,) = explanation.edits
        assert edit.as_json() == {"edit": "expected_dtype", "expected": "float32"}


def test_the_order_of_tensors_is_no_difference() -> None:
    """Both dictionaries have «x» and «y»; the names count, and not their order."""
    x = np.sin(np.arange(40.0))
    y = np.cos(np.arange(40.0))
    assert pecli.diff({"x": x, "y": y}, {"y": y, "x": x}).passed


def test_an_array_and_its_file_are_equal(tmp_path: Path) -> None:
    """`pecli.diff` takes an array in memory and the path of a .npy file that holds it."""
    np.save(tmp_path / "x.npy", COS)
    assert pecli.diff(COS, tmp_path / "x.npy").passed


def test_an_array_has_no_file_name_in_a_diff() -> None:
    """The names of A and B are those of files; for arrays in memory they are empty."""
    result = pecli.diff(COS, COS.copy())
    assert result.passed
    assert result.a == ""
    assert result.b == ""


def test_a_difference_from_an_array_is_explained_as_that_from_its_file(tmp_path: Path) -> None:
    """B has the 8 columns of A as halves: 0, 2, 4, 6, 1, 3, 5, 7. The explanation names the two
    layouts, whether B is an array or a .npy file.
    """
    a = np.sin(np.arange(40)[:, None] * 100.0 ** (-np.arange(8) / 8))
    b = np.concatenate([a[:, 0::2], a[:, 1::2]], axis=1)
    np.save(tmp_path / "b.npy", b)
    (from_array,) = pecli.diff(a, b).explanations
    (from_file,) = pecli.diff(a, tmp_path / "b.npy").explanations

    assert from_array.edits == (edits.Layout("interleaved", "halves"),)
    assert from_file == from_array


def test_another_base_is_named_if_one_file_states_its_spec(tmp_path: Path) -> None:
    """pecli's file states base 500000, the dump of cosines and sines has 10000 and states nothing;
    either file may come first.
    """
    golden = tmp_path / "golden.npz"
    pecli.save(golden, pecli.Rope(300, 64, base=500_000.0))
    dump = cos_and_sin_tables(300, inverse_frequencies(1e4, 64))

    for a, b, bases in ((golden, dump, (5e5, 1e4)), (dump, golden, (1e4, 5e5))):
        edit = edits.Parameter("base", *bases)
        (found,) = pecli.diff(a, b, pecli.Tolerance(atol=1e-6)).explanations
        assert found.edits == (edit,)
        assert found.tensors == ("cos", "sin")


@pytest.mark.parametrize("power", [0, 2], ids=["left out", "applied twice"])
@pytest.mark.sample(1)
def test_another_attention_factor_is_named_as_the_parameter_of_the_spec(
    tmp_path: Path, power: int
) -> None:
    """YaRN multiplies cosines and sines by its attention factor, 0.1 · ln(32) + 1 for a factor of
    32. A is a file that states this spec; B's tables have the attention factor to the power 0 or 2.
    """
    golden = tmp_path / "golden.npz"
    scheme = pecli.Rope(
        seq_len=300,
        dim=64,
        base=150000.0,
        scaling="yarn",
        factor=32.0,
        original_max_position_embeddings=4096,
    )
    pecli.save(golden, scheme)
    right = 0.1 * math.log(32) + 1
    tables = {
        name: (scheme.tables()[name] * right ** (power - 1)).astype(np.float32)
        for name in ("cos", "sin")
    }
    (found,) = pecli.diff(golden, tables).explanations
    (edit,) = found.edits

    assert edit.name == "attention_factor"
    assert edit.expected == pytest.approx(right)
    assert edit.found == pytest.approx(right**power)


def test_a_dump_may_lack_inv_freq_but_not_sines(tmp_path: Path) -> None:
    """pecli's golden file holds cos, sin and inv_freq. Frequencies follow from the tables, so that
    a dump without them passes; sines do not.
    """
    golden = tmp_path / "golden.npz"
    scheme = pecli.Rope(300, 64)
    pecli.save(golden, scheme)
    tables = scheme.tables()

    assert pecli.diff(golden, {name: tables[name] for name in ("cos", "sin")}).passed

    without_sines = pecli.diff(golden, {"cos": tables["cos"]})
    assert without_sines.diagnosis == ("sin: only A has it, B does not",)


@pytest.fixture
def diff_of_llama3_and_no_scaling(tmp_path: Path) -> Callable[[int], Difference]:
    """Return a function that compares so many rows with and without Llama 3.1's scaling, base
    500000, within 1e-3: pecli's file with it, and NumPy's cosines and sines without it.
    """

    def call(rows: int) -> Difference:
        file = tmp_path / f"{rows}_rows.safetensors"
        pecli.save(file, pecli.Rope(rows, 128, base=500000.0, scaling="llama3", **LLAMA3))
        unscaled = cos_and_sin_tables(rows, inverse_frequencies(500000.0, 128))
        return pecli.diff(file, unscaled, atol=1e-3)

    return call


def test_a_pass_of_two_rows_that_cannot_show_a_scaling_is_weak(
    diff_of_llama3_and_no_scaling: Callable[[int], Difference],
) -> None:
    """Llama 3's scaling divides low frequencies only: position p of some pair is off by 0.0009 · p.
    So rows 0 and 1 pass without it within 1e-3, which proves little. The advice names the first of
    the doubled lengths 4, 8, 16, … that fails; 4 rows do, being off by 0.0027.
    """
    two_rows = diff_of_llama3_and_no_scaling(2)
    four_rows = diff_of_llama3_and_no_scaling(4)

    assert two_rows.passed
    assert two_rows.as_json()["weak"][0] == (
        "2 rows cannot tell llama3 scaling from none: compare 4 or more"
    )
    assert not four_rows.passed


def test_a_pass_of_two_rows_that_are_equal_bit_for_bit_is_not_weak(tmp_path: Path) -> None:
    """Without a tolerance, the least difference fails, also in two rows: nothing is left unseen."""
    file = tmp_path / "a.safetensors"
    pecli.save(file, pecli.Rope(2, 128, base=500000.0, scaling="llama3", **LLAMA3))
    result = pecli.diff(file, file)

    assert result.passed
    assert not result.weak


def test_nan_in_cosines_and_sines_is_not_taken_for_a_swap() -> None:
    """Both tensors hold one NaN, so that distances between them are NaN as well, and prove nothing."""
    right = pecli.Rope(seq_len=32, dim=16).tables()
    wrong = {name: table.copy() for name, table in right.items()}
    wrong["cos"][3, 3] = np.nan
    wrong["sin"][5, 5] = np.nan
    found = pecli.diff(wrong, right)

    assert not found.passed
    assert not any("swapped" in line for line in found.diagnosis)


def test_complex_numbers_are_not_equal_to_quantised_cosines() -> None:
    """cos + i·sin against 127 · cos in int8 differ in both orders; against cos + i·sin in complex64
    they pass.
    """
    cos, sin = cos_and_sin_tables(64, inverse_frequencies(10000.0, 16)).values()
    turns = cos + 1j * sin
    steps = np.rint(cos * 127).astype(np.int8)

    assert not pecli.diff({"freqs": turns}, {"freqs": steps}, atol=1e-3, reasons=False)
    assert not pecli.diff({"freqs": steps}, {"freqs": turns}, atol=1e-3, reasons=False)
    assert pecli.diff(turns.astype(np.complex64), turns, atol=1e-6)


def test_cosines_and_sines_that_are_doubled_in_two_ways_differ_from_any_table() -> None:
    """c0 c1 … c0 c1 … beside s0 s0 s1 s1 …: no rotation takes both. The numbers are right, but
    `diff` and `verify` fail.
    """
    cos, sin = cos_and_sin_tables(64, inverse_frequencies(10000.0, 16)).values()
    mixed = {"cos": np.concatenate([cos, cos], -1), "sin": np.repeat(sin, 2, -1)}
    assert not pecli.diff(mixed, {"cos": cos, "sin": sin}, atol=1e-3, reasons=False)
    assert "doubled in two ways" in pecli.verify(mixed, pecli.Rope(64, 16), atol=1e-3).problems[0]


def dump_of_three_layers(
    *,
    layout: str = "halves",
    sides: tuple[str, str] = ("before", "after"),
    batch_and_heads: tuple[int, ...] = (2, 4),
    base: float = 10000.0,
    from_layer: int = 0,
) -> dict[str, np.ndarray]:
    """Return queries and keys of three layers before and after a rotation by formula; layers from
    `from_layer` on are rotated with `base`, those before them with 10000.

    Arrays have the axes `batch_and_heads`, 24 positions and 32 channels. Their names end with one
    of `sides`, before and after the rotation.
    """
    dump = {}
    for layer in range(3):
        for name in "qk":
            shape = (*batch_and_heads, 24, 32)
            x = np.random.default_rng([layer, ord(name)]).normal(size=shape)
            frequencies = inverse_frequencies(base if layer >= from_layer else 10000.0, 32)
            after = turned(x, np.outer(np.arange(24), frequencies), layout)
            for side, value in zip(sides, (x, after), strict=True):
                dump[f"model.layers.{layer}.{name}.{side}"] = value.astype(np.float32)
    return dump


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
@pytest.mark.parametrize(
    ("before", "after", "batch_and_heads"),
    [("before", "after", (2, 4)), ("pre", "post", ())],
    ids=["before and after", "pre and post, one head without an axis"],
)
@pytest.mark.sample("before and after-halves", "pre and post, one head without an axis-interleaved")
def test_the_first_layer_with_another_base_is_named(
    layout: str, before: str, after: str, batch_and_heads: tuple[int, ...]
) -> None:
    """In A, all three layers are rotated with base 10000; in B, layers 1 and 2 with 500000, so that
    layer 1 is the first. The diagnosis lists its tensors that differ, those after the rotation, and
    then those that agree.
    """

    def run(base: float) -> dict[str, np.ndarray]:
        """Return a dump whose layers 1 and 2 are rotated with this base."""
        return dump_of_three_layers(
            layout=layout,
            sides=(before, after),
            batch_and_heads=batch_and_heads,
            base=base,
            from_layer=1,
        )

    where, *reasons = pecli.diff(run(10000.0), run(500000.0), atol=1e-4).diagnosis

    assert where == (
        f"layer 1 is the first that departs, by model.layers.1.q.{after}, model.layers.1.k.{after}; "
        f"model.layers.1.q.{before}, model.layers.1.k.{before} agree"
    )
    assert len(reasons) == 2  # of queries and of keys
    assert all("base is 500000 (in A 10000)" in reason for reason in reasons)


def test_folders_of_arrays_are_compared_layer_by_layer(tmp_path: Path) -> None:
    """A folder of .npy files is a dump of a run. In B, layer 2 rotates with base 500000 instead of
    10000.
    """
    dumps = {
        "a": dump_of_three_layers(),
        "b": dump_of_three_layers(base=500000.0, from_layer=2),
    }
    for folder, dump in dumps.items():
        (tmp_path / folder).mkdir()
        for name, array in dump.items():
            np.save(tmp_path / folder / f"{name}.npy", array)
    result = pecli.diff(tmp_path / "a", tmp_path / "b", atol=1e-4)

    assert result.diagnosis[0].startswith("layer 2 is the first that departs")
    assert pecli.diff(tmp_path / "a", tmp_path / "a", atol=1e-4)


def test_noise_in_a_layer_is_not_explained_by_a_rotation() -> None:
    """Queries and keys of layer 1, before and after the rotation, have random noise of size 1 in B."""
    a = dump_of_three_layers()
    b = dict(a)
    for name, array in a.items():
        if "layers.1" in name:
            noise = np.random.default_rng(0).normal(size=array.shape)
            b[name] = array + noise.astype(np.float32)
    result = pecli.diff(a, b, atol=1e-4)

    assert result.diagnosis[0].startswith("layer 1 is the first that departs")
    assert "rotation" not in " ".join(result.diagnosis)


def test_tensors_that_are_not_before_and_after_are_no_dump_of_a_run() -> None:
    """Weights and biases are named by layers too, but no rotation lies between them: a bias of
    layer 1 that differs does not make it the first layer that departs.
    """
    a = dump_of_three_layers(sides=("weight", "bias"))
    b = {**a, "model.layers.1.q.bias": a["model.layers.1.q.bias"] + 1}

    assert "first that departs" not in " ".join(pecli.diff(a, b, atol=1e-4).diagnosis)


@pytest.mark.parametrize(
    "odd",
    [np.zeros((4, 0, 8)), np.full((4, 6), np.nan), np.ones((4, 6), complex)],
    ids=["empty", "NaN", "complex"],
)
def test_tensors_that_cannot_be_rotated_do_not_stop_the_search_for_the_first_layer(
    odd: np.ndarray,
) -> None:
    """Layer 1 has empty, undefined or complex queries, of which no rotation can be derived. B
    differs in layers 0 and 1: layer 0 is reported as the first all the same.
    """
    ones = np.ones((4, 6))
    a = {
        "layers.0.q.before": ones,
        "layers.0.q.after": ones,
        "layers.1.q.before": odd,
        "layers.1.q.after": odd,
    }
    b = {
        **a,
        "layers.0.q.after": np.zeros((4, 6)),
        "layers.1.q.after": odd.astype(np.complex128) + 1,
    }
    result = pecli.diff(a, b)

    assert any(line.startswith("layer 0 is the first") for line in result.diagnosis)


def test_a_layer_number_of_5000_digits_does_not_stop_the_search_for_the_first_layer() -> None:
    """Python's int() raises ValueError for a text of more than 4300 digits. Both files have a tensor
    whose name contains such a number; B differs in layer 0.
    """
    ones = np.ones((4, 6))
    a = {
        "layers.0.q.before": ones,
        "layers.0.q.after": ones,
        f"layers.{'9' * 5000}.q.before": ones,
    }
    b = {**a, "layers.0.q.after": np.zeros((4, 6))}
    result = pecli.diff(a, b)

    assert any(line.startswith("layer 0 is the first") for line in result.diagnosis)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize(("rtol", "mismatched"), [(0.095, 0), (0.09, 6)])
def test_a_relative_tolerance_is_relative_to_the_larger_number_in_both_orders(
    rtol: float, mismatched: int, dtype: str
) -> None:
    """1.1 differs from 1.0 by 0.1, which is 9.1 % of the larger number: `diff` passes with rtol
    0.095 and fails with 0.09, in all 2 · 3 elements and in both orders.
    """
    a = np.ones((2, 3), dtype)
    b = np.full((2, 3), 1.1, dtype)

    assert diff_of(a, b, rtol=rtol).tensors[0].mismatched == mismatched
    assert diff_of(b, a, rtol=rtol).tensors[0].mismatched == mismatched


@given(seed=st.integers(0, 2**32 - 1), rtol=st.floats(1e-4, 0.5))
def test_a_relative_tolerance_counts_the_same_errors_in_both_orders(seed: int, rtol: float) -> None:
    """It could be relative to A or to B; exchanging the files must not change the verdict. B is A
    times 1 + rtol · noise, so that some of the 35 elements are within the tolerance.
    """
    draw = np.random.default_rng(seed)
    a = draw.standard_normal((5, 7))
    b = a * (1 + rtol * draw.standard_normal(a.shape))
    forwards = pecli.diff(a, b, rtol=rtol, reasons=False)
    backwards = pecli.diff(b, a, rtol=rtol, reasons=False)

    assert forwards.passed == backwards.passed
    assert forwards.tensors[0].mismatched == backwards.tensors[0].mismatched


@pytest.mark.parametrize("side", ["before", "after"])
def test_no_layer_departs_if_only_one_side_of_the_rotation_is_dumped(side: str) -> None:
    """Two layers have only queries before the rotation, or only those after it, and in B those of
    layer 1 are doubled. Whether the layer or its input is wrong cannot be told, so the diagnosis
    names the tensor and no layer.
    """
    queries = np.random.default_rng(0).normal(size=(2, 4, 8)).astype(np.float32)
    a = {f"layers.0.q.{side}": queries, f"layers.1.q.{side}": queries}
    b = {**a, f"layers.1.q.{side}": 2 * queries}
    result = pecli.diff(a, b)

    assert result.diagnosis == (f"layers.1.q.{side}: in B, values are scaled by 2; exact",)


EXACT_COSINES_OF_64 = cos_and_sin_tables(2048, inverse_frequencies(10000.0, 64))["cos"]
"""2048 positions and 32 columns of frequencies 10000^(−i/32), computed in float64 and rounded once."""
EXACT_COSINES_OF_128 = cos_and_sin_tables(2048, inverse_frequencies(10000.0, 128))["cos"]
"""2048 positions and 64 columns of frequencies 10000^(−i/64); columns 0, 2, 4, … are those of
EXACT_COSINES_OF_64.
"""


def cosines_of_float32_angles(frequencies: np.ndarray) -> np.ndarray:
    """Return the cosines of 2048 positions, a column per frequency; angles are rounded to float32."""
    positions = np.arange(2048, dtype=np.float32)
    return np.cos(np.outer(positions, frequencies.astype(np.float32)))


def test_copies_of_a_table_have_the_reason_of_the_table() -> None:
    """B has each of the 32 cosines of A twice, c0 c0 c1 c1 …, with angles in float32."""
    cosines = cosines_of_float32_angles(inverse_frequencies(10000.0, 64))
    result = pecli.diff({"cos": EXACT_COSINES_OF_64}, {"cos": np.repeat(cosines, 2, axis=1)})

    assert result.readings == {"cos": "B: two columns per frequency (c0 c0 c1 c1 …)"}
    assert result.diagnosis == (
        "cos: in B, computed by the recipe float32; explains every element (to 6e-8)",
    )


def test_a_reason_for_every_second_column_is_no_reason_for_a_table() -> None:
    """A has 32 columns and B has 64, with angles in float32. Columns 0, 2, 4, … of B have the
    frequencies of A, those between them others: 10000^(−2i/64) is 10000^(−i/32).

    «Computed by the recipe float32», the reason in the test above, explains columns 0, 2, 4, … of B
    and not the others. So it must not be given.
    """
    cosines_of_64_frequencies = cosines_of_float32_angles(inverse_frequencies(10000.0, 128))
    result = pecli.diff({"cos": EXACT_COSINES_OF_64}, {"cos": cosines_of_64_frequencies})

    assert cosines_of_64_frequencies.shape[1] == 2 * EXACT_COSINES_OF_64.shape[1]
    assert not result.passed
    assert result.diagnosis == ()


def test_a_table_as_wide_as_a_doubled_one_is_said_to_have_no_equal_copies() -> None:
    """B has 64 columns for the 32 of A, and its columns 0, 2, 4, … equal those of A: it is compared
    as c0 c0 c1 c1 …, with two columns per frequency. But columns 1, 3, 5, … of B have frequencies
    of their own instead of repeating their left neighbours, which the reading states.
    """
    np.testing.assert_array_equal(EXACT_COSINES_OF_128[:, 0::2], EXACT_COSINES_OF_64)
    result = pecli.diff({"cos": EXACT_COSINES_OF_64}, {"cos": EXACT_COSINES_OF_128})

    assert not result.passed
    assert result.readings["cos"].endswith("(c0 c0 c1 c1 …), but its copies differ")


def test_two_sets_without_tensors_are_not_equal() -> None:
    """Nothing was compared, so that nothing is proved; two files without tensors differ as well."""
    result = pecli.diff({}, {})

    assert not result.passed
    assert result.diagnosis == ("there is nothing to compare: neither A nor B holds a tensor",)


def test_integers_beyond_2_to_the_24_are_compared_as_integers() -> None:
    """float32 has no number between 16777216 and 16777218, and int32 has."""
    a = np.array([2**24 + 1, 7], np.int32)
    b = np.array([2**24 + 2, 7], np.int32)
    (comparison,) = pecli.diff({"ids": a}, {"ids": b}).tensors

    assert comparison.max_abs_error == 1
