"""One tensor in two forms of a model: which differences are rounding, and how many elements are
wrong.

`compare_pair` counts the elements (`mismatched`) beyond the rounding of the stored type, or beyond
a tolerance. The tensor of 4 × 2 has the values 1, 1.125, …, 1.875; the block of Q8_0 has 32
elements in steps of 0.5, of which the largest is 127 steps. Expected counts follow from these
numbers.
"""

from typing import Any

import numpy as np
import pytest

import pecli
from pecli.checks.model_forms.pair import Pair
from pecli.checks.model_forms.stored import StoredTensor
from pecli.compare.comparison import Comparison

FLOAT32_4_BY_2 = 1 + np.arange(8, dtype=np.float32).reshape(4, 2) / 8
EIGHT_BITS = (4 * np.arange(32) + 3).astype(np.int8)
SCALE = np.array([0.5], np.float16)
Q8_0 = StoredTensor(
    "Q8_0", (1, 32), np.concatenate([SCALE.view(np.uint8), EIGHT_BITS.view(np.uint8)])[None]
)
"""One block in steps of 0.5, whose largest element is 127 steps."""
Q8_0_VALUES = EIGHT_BITS[None] / np.float32(2)
AT_INDEX_3 = np.arange(32) == 3


def compare_pair(
    reference: Any, checked: Any, order: Any = None, added: int = 0, **tolerance: Any
) -> Comparison:
    sides = [
        side if isinstance(side, StoredTensor) else StoredTensor.of(side)
        for side in (reference, checked)
    ]
    return Pair("t", *sides, order, added).compare(pecli.Tolerance(**tolerance))


@pytest.mark.parametrize(("error", "mismatched"), [(0, 0), (1e-3, 2)])
def test_a_wrong_row_of_the_same_dtype_is_counted(error: float, mismatched: int) -> None:
    """Both tensors are float32, in 4 rows of 2. Both elements of the second row are off by `error`,
    0 or 0.001, which is more than rounding.
    """
    checked = FLOAT32_4_BY_2.copy()
    checked[1] += np.float32(error)

    assert compare_pair(FLOAT32_4_BY_2, checked).mismatched == mismatched


def test_the_comparison_of_a_pair_has_both_dtypes() -> None:
    """`compare_pair` compares a tensor with its converted form, here float32 with float16. The
    numbers are multiples of 1/8, which are exact in float16, so nothing differs.
    """
    result = compare_pair(FLOAT32_4_BY_2, FLOAT32_4_BY_2.astype(np.float16))
    assert result.expected_dtype == "float32"
    assert result.dtype == "float16"
    assert result.shape == (4, 2)
    assert result.mismatched == 0
    assert result.max_abs_error == 0


@pytest.mark.parametrize(
    ("steps", "mismatched"),
    [
        pytest.param(0, 0, id="equal"),
        pytest.param(1, 0, id="one step"),
        pytest.param(2, 8, id="two steps"),
        pytest.param(4, 8, id="four steps"),
    ],
)
def test_an_element_in_float16_may_be_off_by_one_step(steps: int, mismatched: int) -> None:
    """float16 has 11 bits: between 1 and 2, where all 4 × 2 = 8 elements are, its numbers are steps of
    2^-10 apart. A converter that rounds twice, by up to half a step each, may be off by one. Here
    all elements are off by so many steps.
    """
    checked = (FLOAT32_4_BY_2 + steps * 2**-10).astype(np.float16)
    assert compare_pair(FLOAT32_4_BY_2, checked).mismatched == mismatched


@pytest.mark.parametrize(
    ("tolerance", "mismatched"),
    [
        pytest.param({}, 8, id="no tolerance"),
        pytest.param({"atol": 2**-8}, 0, id="absolute"),
        pytest.param({"rtol": 2**-8}, 0, id="relative"),
        pytest.param({"rtol": 2**-12}, 8, id="too small"),
    ],
)
def test_a_tolerance_allows_more_than_rounding(
    tolerance: dict[str, float], mismatched: int
) -> None:
    """All 4 × 2 = 8 elements, between 1 and 2, are off by 2^-9: within 2^-8, absolute or relative,
    and beyond 2^-12 or the rounding of float32.
    """
    checked = FLOAT32_4_BY_2 + np.float32(2.0**-9)
    assert compare_pair(FLOAT32_4_BY_2, checked, **tolerance).mismatched == mismatched


def test_rows_are_compared_in_the_expected_order() -> None:
    """llama.cpp permutes rows of queries and keys. B has the rows of A in `order`: all 4 × 2 = 8
    elements differ, unless `compare_pair` is given that order.
    """
    order = np.array([1, 0, 3, 2])
    assert compare_pair(FLOAT32_4_BY_2, FLOAT32_4_BY_2[order]).mismatched == 8
    assert compare_pair(FLOAT32_4_BY_2, FLOAT32_4_BY_2[order], order).mismatched == 0


def test_norms_may_have_one_added() -> None:
    """GGUF stores Gemma's norms as 1 + weight: all 4 × 2 = 8 elements differ, unless `compare_pair`
    is told that 1 was added.
    """
    assert compare_pair(FLOAT32_4_BY_2, FLOAT32_4_BY_2 + 1).mismatched == 8
    assert compare_pair(FLOAT32_4_BY_2, FLOAT32_4_BY_2 + 1, added=1).mismatched == 0


def test_nan_in_one_tensor_of_a_pair_is_an_infinite_error() -> None:
    """In B, all 4 × 2 = 8 elements are NaN: each is a mismatch, and the largest error is infinite."""
    result = compare_pair(FLOAT32_4_BY_2, np.full_like(FLOAT32_4_BY_2, np.nan))
    assert result.max_abs_error == np.inf
    assert result.mismatched == 8


def test_the_same_bytes_are_equal_unless_something_is_added() -> None:
    """`compare_pair` counts no difference if both tensors have the same bytes, NaN included. If B
    should have 1 added, the same bytes are two wrong elements.
    """
    array = np.array([[1.0, np.nan]], np.float32)
    assert compare_pair(array, array).mismatched == 0
    assert compare_pair(array, array, added=1).mismatched == 2


@pytest.mark.parametrize(
    ("width", "dtype"), [(3, np.float16), (1, np.uint8), (4, np.float64), (5, np.float32)]
)
def test_rows_of_equal_bytes_are_equal_whatever_their_width(width: int, dtype: Any) -> None:
    """`compare_pair` compares bytes first, in words of several bytes where the width of a row
    allows it. Two rows of 1 to 32 bytes hold ones: compared with ones nothing differs, with twos
    every element does.
    """
    ones = StoredTensor("float32", (2, width), np.ones((2, width), dtype))
    twos = StoredTensor("float32", (2, width), np.full((2, width), 2, dtype))

    assert compare_pair(ones, ones).mismatched == 0
    assert compare_pair(ones, twos).mismatched == 2 * width


def test_float64_is_compared_in_float64() -> None:
    """The 4 × 2 = 8 elements are off by 1e-12, which counts if both tensors are float64. If one of
    them is float32, it is less than the rounding.
    """
    doubles = FLOAT32_4_BY_2.astype(np.float64)

    assert compare_pair(doubles, FLOAT32_4_BY_2).mismatched == 0
    assert compare_pair(doubles + 1e-12, FLOAT32_4_BY_2).mismatched == 0
    assert compare_pair(doubles, doubles + 1e-12).mismatched == 8


@pytest.mark.parametrize(
    ("off", "mismatched"),
    [(0, 0), (0.5, 0), (0.55, 32)],
    ids=["equal", "one step", "more than a step"],
)
def test_a_row_of_q8_0_may_be_off_by_one_step_per_element(off: float, mismatched: int) -> None:
    """The row is one block of 32 elements in steps of 0.5. If all are off by up to one step, that is
    rounding; beyond it, all 32 count.
    """
    assert compare_pair(Q8_0_VALUES + np.float32(off), Q8_0).mismatched == mismatched


@pytest.mark.parametrize(("off", "mismatched"), [(2.0, 0), (2.01, 32)])
def test_an_element_of_a_block_of_32_in_q8_0_may_be_off_by_four_steps(
    off: float, mismatched: int
) -> None:
    """The row is one block of 32 elements in steps of 0.5. Element 3 may be off by four steps, 4 ·
    0.5 = 2; beyond them the whole block of 32 counts as wrong.
    """
    assert compare_pair(Q8_0_VALUES + np.float32(off) * AT_INDEX_3, Q8_0).mismatched == mismatched


def test_the_largest_error_of_a_q8_0_row_that_fails_is_exact() -> None:
    """The row is one block of 32 elements in steps of 0.5. Element 3 of the reference is 2.5 more than
    the block has, five steps, where four are allowed.
    """
    reference = Q8_0_VALUES + np.float32(2.5) * AT_INDEX_3
    result = compare_pair(reference=reference, checked=Q8_0)

    assert result.max_abs_error == 2.5
    assert result.mismatched == 32  # A row that fails counts with all of its elements.


@pytest.mark.parametrize("kernels", ["0", "1"], ids=["NumPy", "compiled loops"])
@pytest.mark.parametrize(
    ("scale", "largest_error"),
    [(0.5, 1.0), (-0.5, 127.0), (np.inf, np.inf), (np.nan, np.inf)],
    ids=["the same scale", "a negated scale", "an infinite scale", "a scale that is NaN"],
)
def test_two_rows_in_q8_0_are_compared_by_their_values(
    scale: float, largest_error: float, kernels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second row holds 5 instead of 3 in its first place, and the other elements 7, 11, …, 127
    unchanged. With the scale 0.5 that is an error of (5 − 3) · 0.5 = 1. Negated, the last element is
    off most: 127 · 0.5 − 127 · (−0.5) = 127. Values that are infinite or NaN are an infinite error.
    PECLI_KERNELS chooses between NumPy (0) and compiled loops (1), which must agree.
    """
    monkeypatch.setenv("PECLI_KERNELS", kernels)
    elements = EIGHT_BITS.copy()
    elements[0] = 5
    stored_scale = np.array([scale], np.float16)
    block = np.concatenate([stored_scale.view(np.uint8), elements.view(np.uint8)])
    first_rows = StoredTensor("Q8_0", (2, 32), np.concatenate([Q8_0.values, Q8_0.values]))
    second_rows = StoredTensor("Q8_0", (2, 32), np.stack([Q8_0.values[0], block]))

    result = compare_pair(first_rows, second_rows)

    assert result.max_abs_error == largest_error
    assert result.mismatched == 32  # Blocks differ as a whole: the 32 elements of the second row.
