"""Rotated tensors: correctly rounded, the same after turning them back, and the same however they
are cut.

Exact rotations are computed by Arb, which bounds every number by a ball of arbitrary precision, and
rounded once. Layouts say which channels pair: halves (i, i + d/2), interleaved (2i, 2i + 1), and
deepseek, which reads interleaved pairs and writes halves.
"""

from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from hypothesis import given
from hypothesis import strategies as st

from pecli.engine.schemes.rope import Rope
from pecli.tensors.inputs import Input
from pecli.tensors.row_positions import RowPositions
from pecli.tensors.row_rotation import RowRotation
from tests import oracle
from tests.oracle import DTYPES, bits, rational, rounded
from tests.tensors.test_apply import random_normal

LAYOUTS = ("halves", "interleaved", "deepseek")


def rotated_by(x: np.ndarray, rope: Rope, offset: int = 0, ids=None, **options) -> np.ndarray:
    rows = RowPositions(offset, None if ids is None else np.asarray(ids, np.int64))
    return RowRotation(rope, rows, **options).apply(Input(x, "x of a test"))


def channels(pair: int, dim: int, layout: str) -> tuple[int, int]:
    return (pair, pair + dim // 2) if layout == "halves" else (2 * pair, 2 * pair + 1)


def exact_bits(
    x: np.ndarray, positions, layout: str, dtype: str, base: float = 10000.0
) -> np.ndarray:
    """Every element as a ball of exact arithmetic, rounded once."""
    dim = x.shape[1]
    exact = [[rational(Fraction(float(value))) for value in row] for row in x]

    def make() -> list[arb]:
        out = [[arb(0)] * dim for _ in x]
        for row, position in enumerate(positions):
            for pair in range(dim // 2):
                a, b = channels(pair, dim, "interleaved" if layout == "deepseek" else layout)
                angle = arb(base) ** rational(Fraction(-2 * pair, dim)) * int(position)
                c, s = (angle.cos(), angle.sin()) if position else (arb(1), arb(0))
                first, second = channels(pair, dim, "halves" if layout == "deepseek" else layout)
                out[row][first] = exact[row][a] * c - exact[row][b] * s
                out[row][second] = exact[row][b] * c + exact[row][a] * s
        return [value for row in out for value in row]

    return rounded(make, dtype).reshape(x.shape)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.sample(6)
def test_every_rotated_element_is_the_true_value_rounded_once(dtype, layout):
    """`exact_bits` rotates in Arb's arbitrary precision and rounds once to the dtype; no bit may
    differ. Offsets go up to the last positions that there are, 2^40.
    """
    for offset in (0, 5000, 2**40 - 30):
        x = random_normal(24, 32, dtype=DTYPES[dtype], seed=offset % 1000)
        rotated = rotated_by(x, Rope(24, 32), offset, layout=layout)
        expected = exact_bits(x, range(offset, offset + 24), layout, dtype)
        np.testing.assert_array_equal(bits(rotated), expected)


def test_a_rotation_in_float64_is_within_three_roundings_of_the_true_value():
    """Arb computes the true values; an error of 2^-53 of a pair's length is one rounding, and two
    products and a sum are three.
    """
    x = random_normal(40, 32, dtype=np.float64)
    rotated = rotated_by(x, Rope(40, 32), 10**6, layout="interleaved")
    true = exact_bits(x, range(10**6, 10**6 + 40), "interleaved", "float64").view(np.float64)
    lengths_of_pairs = np.repeat(np.hypot(x[:, 0::2], x[:, 1::2]), 2, axis=1)

    assert (np.abs(rotated - true) / lengths_of_pairs).max() < 3 * 2**-53


def ulps_of_pairs(found: np.ndarray, x: np.ndarray, layout: str) -> float:
    """The largest error in units of the last place of a pair's length."""
    half = x.shape[-1] // 2
    a, b = (
        (x[..., 0::2], x[..., 1::2]) if layout == "interleaved" else (x[..., :half], x[..., half:])
    )
    length = np.hypot(a.astype(np.float64), b.astype(np.float64)).astype(np.float32)
    unit = np.spacing(length).astype(np.float64)
    unit = (
        np.repeat(unit, 2, axis=-1)
        if layout == "interleaved"
        else np.concatenate([unit, unit], axis=-1)
    )
    return float((np.abs(found.astype(np.float64) - x) / unit).max())


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
def test_a_rotation_and_its_inverse_give_x_back_within_a_unit_and_a_quarter(layout):
    """Each of the two rotations rounds both channels of a pair to float32, by up to half a unit in
    the last place of the pair's length: √½ (two halves at right angles, turned back) and a half are
    at most 1.21.
    """
    x = random_normal(8, 2000, 64)
    rope = Rope(2000, 64)
    there = rotated_by(x, rope, 777, layout=layout)
    back = rotated_by(there, rope, 777, layout=layout, inverse=True)

    assert ulps_of_pairs(back, x, layout) <= 1.25


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
def test_two_opposite_shifts_give_x_back_within_a_unit_and_a_quarter(layout):
    """Each of the two rotations rounds both channels of a pair to float32, by up to half a unit in
    the last place of the pair's length: √½ (two halves at right angles, turned back) and a half are
    at most 1.21.
    """
    x = random_normal(8, 2000, 64)
    rope = Rope(2000, 64)
    shifted = rotated_by(x, rope, layout=layout, shift=12345)
    back = rotated_by(shifted, rope, layout=layout, shift=-12345)

    assert ulps_of_pairs(back, x, layout) <= 1.25


ERROR_OF_A_SHIFT = 0.71 + 0.5 + 0.5
"""The largest difference of a shifted row from one that is rotated to the same position, in units in
the last place of a pair's length. Each rotation rounds both channels by up to 0.5:

- 0.71, which is √½, of the row before the shift, if the errors of both channels fall on one of them
  when they are turned;
- 0.5 of the shift;
- 0.5 of the row with which it is compared.
"""


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
def test_a_shift_moves_rotated_rows_to_another_offset(layout):
    """Rows rotated from position 100 on and then shifted by −60 are rows rotated from 40 on."""
    x = random_normal(3, 50, 32)
    rope = Rope(50, 32)
    at_100 = rotated_by(x, rope, offset=100, layout=layout)
    shifted = rotated_by(at_100, rope, layout=layout, shift=-60)
    at_40 = rotated_by(x, rope, offset=40, layout=layout)

    assert ulps_of_pairs(shifted, at_40, layout) <= ERROR_OF_A_SHIFT


def test_a_shift_in_the_layout_deepseek_reads_and_writes_halves():
    """DeepSeek's rotation reads interleaved pairs and writes halves. A shift turns rows that were
    rotated before, which are in halves already.
    """
    x = random_normal(3, 50, 32)
    rope = Rope(50, 32)
    at_100_in_halves = rotated_by(x, rope, offset=100, layout="deepseek")
    shifted = rotated_by(at_100_in_halves, rope, layout="deepseek", shift=-60)
    at_40_in_halves = rotated_by(x, rope, offset=40, layout="deepseek")

    assert ulps_of_pairs(shifted, at_40_in_halves, "halves") <= ERROR_OF_A_SHIFT


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("trailing", [False, True])
def test_an_inverse_undoes_the_attention_factor_and_leaves_other_channels(layout, trailing):
    """YaRN by 4 multiplies by the attention factor 1 + 0.1 ln 4, so that rows become longer; the
    inverse divides by it. 24 of 40 channels rotate, the last ones if `trailing`. 4e-15 are some
    roundings of numbers up to 4 in float64.
    """
    rope = Rope(50, 24, scaling="yarn", factor=4, original_max_position_embeddings=1024)
    x = random_normal(3, 50, 40, dtype=np.float64)
    there = rotated_by(x, rope, 9, layout=layout, trailing=trailing)
    back = rotated_by(there, rope, 9, layout=layout, trailing=trailing, inverse=True)
    unrotated = slice(0, 16) if trailing else slice(24, 40)

    np.testing.assert_array_equal(there[..., unrotated], x[..., unrotated])
    assert (np.linalg.norm(there, axis=-1) > np.linalg.norm(x, axis=-1)).all()
    np.testing.assert_allclose(back, x, rtol=0, atol=4e-15)


@given(
    st.integers(0, 2**39),
    st.integers(-(2**20), 2**30),
    st.integers(0, 1000),
    st.sampled_from(LAYOUTS),
)
def test_a_rotation_keeps_lengths_and_scores_depend_on_distances_only(start, shift, seed, layout):
    """The definition of RoPE (Su et al. 2021): moving all queries and keys by the same shift
    changes no product q·k. 1e-13 and 1e-14 are roundings of float64.
    """
    rope = Rope(6, 16)
    q = random_normal(6, 16, dtype=np.float64, seed=seed)
    k = random_normal(6, 16, dtype=np.float64, seed=seed + 1)
    q_here = rotated_by(q, rope, start, layout=layout)
    k_here = rotated_by(k, rope, start, layout=layout)
    q_there = rotated_by(q, rope, max(0, start + shift), layout=layout)
    k_there = rotated_by(k, rope, max(0, start + shift), layout=layout)

    np.testing.assert_allclose(q_here @ k_here.T, q_there @ k_there.T, rtol=0, atol=1e-13)
    lengths_before = np.linalg.norm(q, axis=1)
    np.testing.assert_allclose(np.linalg.norm(q_here, axis=1), lengths_before, rtol=1e-14)


def test_ids_give_each_row_of_each_prompt_a_position():
    """`x` is (prompts, heads, rows, channels), and ids are (prompts, rows). Every row must be as if it
    were rotated by itself, with its id as the offset.
    """
    x = random_normal(2, 3, 4, 8)
    rope = Rope(100, 8)
    ids = np.array([[3, 1, 4, 1], [99, 2, 6, 5]])
    rotated = rotated_by(x, rope, ids=ids)
    for prompt in range(2):
        for row in range(4):
            by_itself = rotated_by(x[prompt, :, row : row + 1], rope, int(ids[prompt, row]))
            np.testing.assert_array_equal(rotated[prompt, :, row], by_itself[:, 0])


def test_ids_without_an_axis_of_prompts_are_the_ids_of_every_prompt():
    """`x` is (prompts, heads, rows, channels). The ids 3, 1, 4, 1 are given once, and then in full,
    as one row of ids for each of the two prompts: both must rotate to the same bits.
    """
    x = random_normal(2, 3, 4, 8)
    rope = Rope(100, 8)
    ids = [3, 1, 4, 1]
    by_ids_given_once = rotated_by(x, rope, ids=ids)
    by_ids_of_each_prompt = rotated_by(x, rope, ids=[ids, ids])

    np.testing.assert_array_equal(by_ids_given_once, by_ids_of_each_prompt)


@pytest.mark.parametrize("batch", [1, 2])
def test_sections_of_mrope_take_their_positions_from_their_axis(batch):
    """As in Qwen2-VL, of 8 frequencies 10000^(−2i/16) the first 2 follow time, 3 height and 3 width,
    as the sections (2, 3, 3) state. Ids are (axes, prompts, rows), or (axes, rows) for one prompt;
    `oracle.turned` turns pairs by angles in float64.
    """
    rope = Rope(100, 16, mrope_section=(2, 3, 3))
    x = random_normal(2, 1, 5, 16, dtype=np.float64)
    ids = np.random.default_rng(0).integers(0, 100, (3, batch, 5))
    rotated = rotated_by(x, rope, ids=ids if batch > 1 else ids[:, 0])

    axis_of_pair = [0, 0, 1, 1, 1, 2, 2, 2]
    angles_of_pairs = np.array(
        [ids[axis] * 10000.0 ** (-2 * i / 16) for i, axis in enumerate(axis_of_pair)]
    )  # (8, batch, 5)
    expected = oracle.turned(x, np.moveaxis(angles_of_pairs, 0, -1)[:, None])
    np.testing.assert_allclose(rotated, expected, rtol=0, atol=1e-13)
