"""What `apply` does to tensors: it rotates queries and keys, adds tables, and adds biases to
attention scores.

Expected values are the textbook formulas in NumPy (float64), sums by Arb's arbitrary precision
rounded once, and queries that transformers' own models rotated. A shift rotates all positions by
the same distance, as for a cache that moves; `seq_axis` is the axis of positions.
"""

import json
import math
import sys
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from flint import arb, ctx

import pecli
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.tensors.apply import add_learned, apply
from pecli.tensors.inputs import Input
from tests.exit_codes import SUCCESS
from tests.oracle import bits, rational, rounded, turned
from tests.tools.make_data import queries

RNG = np.random.default_rng(0)
QUERIES = RNG.normal(size=(2, 4, 6, 128)).astype(np.float32)
INPUTS = RNG.normal(size=(2, 7, 16)).astype(np.float32)


def rotated(x: np.ndarray, positions: Any, base: float = 10000.0) -> np.ndarray:
    """Return `x` rotated in halves at the positions by the textbook formula, in float64."""
    half = x.shape[-1] // 2
    return turned(
        x, np.multiply.outer(np.asarray(positions, float), base ** (-np.arange(half) / half))
    )


def largest_difference(first: np.ndarray, second: np.ndarray) -> float:
    return float(np.abs(first - second).max())


@pytest.mark.parametrize(
    "rope", [pecli.Rope(6, 128), "llama-2-7b", pecli.load_model("llama-2-7b")], ids=repr
)
def test_apply_rotates_queries_from_an_offset_on(rope: Any) -> None:
    """Six queries have the positions 3 to 8. `rotated` is the textbook formula in float64; float32
    holds 24 bits, so values of up to about 4 are off by up to 3e-7.
    """
    result = pecli.apply(QUERIES, rope, offset=3)
    assert result.dtype == np.float32
    assert largest_difference(result, rotated(QUERIES, positions=range(3, 9))) < 3e-7


@pytest.mark.parametrize(
    "rope", [pecli.Rope(6, 128), "llama-2-7b", pecli.load_model("llama-2-7b")], ids=repr
)
def test_an_inverse_rotation_gives_the_queries_back(rope: Any) -> None:
    """Each of the two rotations is off by up to 3e-7, as float32 holds 24 bits."""
    there = pecli.apply(QUERIES, rope, offset=3)
    back = pecli.apply(there, rope, offset=3, inverse=True)
    assert largest_difference(back, QUERIES) < 2 * 3e-7


@pytest.mark.parametrize(
    "rope", [pecli.Rope(6, 128), "llama-2-7b", pecli.load_model("llama-2-7b")], ids=repr
)
def test_a_shift_moves_rotated_queries_by_so_many_positions(rope: Any) -> None:
    """From the positions 3 to 8, a shift of −3 leads to 0 to 5, as for a cache that moves. `rotated`
    is the textbook formula in float64; each of two rotations in float32 is off by up to 3e-7.
    """
    at_3_to_8 = pecli.apply(QUERIES, rope, offset=3)
    shifted = pecli.apply(at_3_to_8, rope, shift=-3)
    assert largest_difference(shifted, rotated(QUERIES, positions=range(6))) < 2 * 3e-7


@pytest.mark.parametrize(
    "rope", [pecli.Rope(6, 128), "llama-2-7b", pecli.load_model("llama-2-7b")], ids=repr
)
def test_apply_rotates_the_queries_of_each_prompt_at_its_position_ids(rope: Any) -> None:
    """The ids of two prompts with six tokens each; `rotated` is the textbook formula in float64."""
    ids = np.array([[5, 4, 3, 2, 1, 0], [0, 0, 1, 1, 2, 2]])
    expected = rotated(QUERIES, positions=ids[:, None])
    assert largest_difference(pecli.apply(QUERIES, rope, positions=ids), expected) < 3e-7


@pytest.mark.parametrize(
    "rope", [pecli.Rope(6, 128), "llama-2-7b", pecli.load_model("llama-2-7b")], ids=repr
)
def test_queries_with_positions_before_heads_rotate_alike(rope: Any) -> None:
    """QUERIES are (batch, heads, positions, channels). Here the middle axes are exchanged, and
    seq_axis −3 states that positions are the third axis from the end.
    """
    positions_before_heads = QUERIES.swapaxes(1, 2)
    result = pecli.apply(positions_before_heads, rope, seq_axis=-3)
    assert np.array_equal(result.swapaxes(1, 2), pecli.apply(QUERIES, rope))


def test_interleaved_pairs_rotate_as_halves_do() -> None:
    """Interleaved pairs (2i, 2i + 1) are the channels of halves (i, i + 64) in another order, so the
    results are too, bit by bit, whether `apply` or the scheme states the layout.
    """
    order = np.arange(128).reshape(2, 64).T.ravel()  # 0, 64, 1, 65, …
    in_halves = pecli.apply(QUERIES, pecli.Rope(6, 128))
    stated_by_apply = pecli.apply(QUERIES[..., order], pecli.Rope(6, 128), layout="interleaved")
    interleaved = pecli.Rope(6, 128, layout="interleaved")

    assert np.array_equal(stated_by_apply, in_halves[..., order])
    assert np.array_equal(pecli.apply(QUERIES[..., order], interleaved), in_halves[..., order])
    assert np.array_equal(interleaved.applied_to(QUERIES[..., order]), in_halves[..., order])
    assert np.array_equal(pecli.Rope(6, 128).applied_to(QUERIES), in_halves)


def test_a_trailing_rotation_moves_the_last_channels_only() -> None:
    """Rope(6, 32) rotates the last 32 of 128 channels, here at the positions 2 to 7; `rotated` is the
    textbook formula in float64.
    """
    result = pecli.apply(QUERIES, pecli.Rope(6, 32, offset=2), trailing=True)
    assert np.array_equal(result[..., :96], QUERIES[..., :96])

    expected = rotated(QUERIES[..., 96:], positions=range(2, 8))
    assert largest_difference(result[..., 96:], expected) < 3e-7


def test_apply_adds_the_rows_of_a_given_table_from_the_offset_on() -> None:
    """The 7 inputs in float32 get rows 4 to 10 of a table of 20; the expected sum is NumPy's in
    float64, rounded once.
    """
    table = RNG.normal(size=(20, 16)).astype(np.float32)
    assert np.array_equal(
        pecli.apply(INPUTS, table, offset=4),
        (INPUTS.astype(float) + table[4:11]).astype(np.float32),
    )


def test_apply_adds_a_sinusoidal_table_in_float64() -> None:
    """The expected sum has the table in float64, and is rounded once to the inputs' float32."""
    exact = pecli.Sinusoidal(7, 16, dtype="float64").tables()["pe"]
    assert np.array_equal(
        pecli.apply(INPUTS, pecli.Sinusoidal(7, 16)), (INPUTS + exact).astype(np.float32)
    )


def test_apply_adds_the_bias_of_alibi_to_scores() -> None:
    """By ALiBi's rule, 2 heads have the slopes 2^-4 and 2^-8. The 3 queries are the last of 5
    positions; a bias is −slope · distance.
    """
    slopes = np.array([2.0**-4, 2.0**-8])
    keys = np.arange(5)
    queries = np.arange(2, 5)
    expected = -slopes[:, None, None] * abs(keys - queries[:, None])

    assert np.array_equal(pecli.apply(np.zeros((2, 3, 5)), pecli.Alibi(2)), expected)


def test_an_axis_as_long_as_the_number_of_heads_is_refused_as_positions() -> None:
    """`apply` takes the second axis from the end for positions. Llama 2 has 32 heads, so an axis of
    32 is probably one of heads, and rotating along it would be silently wrong.
    """
    positions_before_heads = np.zeros((1, 6, 32, 128), np.float32)
    with pytest.raises(ValueError, match="32 is a number of heads of llama-2-7b"):
        pecli.apply(positions_before_heads, "llama-2-7b")


@pytest.mark.parametrize("options", [{"seq_axis": -2}, {"shift": 3}], ids=["seq_axis", "shift"])
def test_an_axis_as_long_as_the_number_of_heads_is_accepted_if_it_is_named_or_does_not_matter(
    options: dict[str, int],
) -> None:
    """Llama 2 has 32 heads, so that the axis of 32, second from the end, would be refused as positions.
    It is accepted if seq_axis names it, or if all positions are moved by the same shift.
    """
    x = np.zeros((1, 6, 32, 128), np.float32)
    assert pecli.apply(x, "llama-2-7b", **options).shape == x.shape


def test_angles_of_the_recipe_float32_are_off_far_from_position_0() -> None:
    """A recipe is the way in which a runtime computes. Angles rounded to float32 at position 10^6 are
    off by up to 2^-24 of it, 0.06 radians, which shows in values of about 1.
    """
    exact = pecli.apply(QUERIES, pecli.Rope(6, 128, recipe="exact"), offset=10**6)
    by_float32 = pecli.apply(QUERIES, pecli.Rope(6, 128, recipe="float32"), offset=10**6)
    assert 1e-4 < largest_difference(exact, by_float32) < 1


DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def as_input(array: np.ndarray, name: str = "x") -> Input:
    return Input(array, f"{name} of a test", name)


def random_normal(*shape: int, dtype=np.float32, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_sinusoidal_sum_is_the_true_one_rounded_once(dtype):
    """`apply` adds a table from position 1000 on to random inputs. Arb (python-flint) computes x +
    sin or cos in arbitrary precision; the result must be that, rounded once to the dtype.
    """
    x = random_normal(2, 20, 8, dtype=DTYPES[dtype])
    offset = 1000
    dim = 8
    found = apply(x, Sinusoidal(20, dim, offset=offset))

    def make() -> list[arb]:
        out = []
        for batch in x:
            for row, values in enumerate(batch):
                for channel, value in enumerate(values):
                    angle = arb(10000) ** rational(Fraction(-(channel // 2), dim // 2)) * (
                        offset + row
                    )
                    wave = angle.cos() if channel % 2 else angle.sin()
                    out.append(rational(Fraction(float(value))) + wave)
        return out

    np.testing.assert_array_equal(bits(found).reshape(-1), rounded(make, dtype))


@pytest.mark.parametrize("shape", [(3, 5, 4), (5, 4), (2, 2, 1, 4), (7, 5, 4)])
@pytest.mark.parametrize("block", [1 << 16, 8])
def test_rows_of_a_learned_table_are_added_in_float64(shape, block, monkeypatch):
    """A table of 9 rows is added from row 3 on; the expected sum is NumPy's in float64, rounded once
    to the input's float32. Large inputs are added in blocks of 2^16 numbers; blocks of 8 must change
    nothing.
    """
    monkeypatch.setattr("pecli.engine.application._BLOCK_NUMBERS", block)
    x = random_normal(*shape)
    weight = random_normal(9, 4, seed=1, dtype=np.float64)
    expected = (x.astype(np.float64) + weight[3 : 3 + shape[-2]]).astype(np.float32)

    np.testing.assert_array_equal(add_learned(as_input(x), as_input(weight, "w"), 3), expected)


def biases_by_hand(heads: list[float], queries: int, keys: int, form: str) -> np.ndarray:
    """The biases by the words of the papers."""
    out = np.empty((len(heads), queries, keys))
    for h, slope in enumerate(heads):
        for i in range(queries):
            for j in range(keys):
                distance = (keys - queries + i) - j
                bias = {"key": slope * j, "key-last": slope * (j - keys + 1)}.get(
                    form, -slope * abs(distance)
                )
                out[h, i, j] = -math.inf if form == "causal" and distance < 0 else bias
    return out


@pytest.mark.parametrize("form", ["symmetric", "causal", "key", "key-last"])
@pytest.mark.parametrize(("queries", "keys"), [(5, 5), (2, 7), (1, 6)])
@pytest.mark.parametrize("dtype", [*DTYPES.values(), np.float64])
@pytest.mark.sample(10)
def test_alibi_adds_slopes_times_distances_to_scores(form, queries, keys, dtype):
    """By ALiBi's paper, the slopes of four heads are 2^-2, 2^-4, 2^-6 and 2^-8. `biases_by_hand`
    computes each element: −slope · distance (symmetric), −∞ for later keys (causal), or slope times
    the index of the key, from the first one on (key) or back from the last (key-last). The sum is
    made in float64, and rounded to the scores' dtype, for bfloat16 by way of float32.
    """
    scores = random_normal(2, 4, queries, keys, dtype=dtype)
    slopes = [2**-2, 2**-4, 2**-6, 2**-8]
    expected = scores.astype(np.float64) + biases_by_hand(slopes, queries, keys, form)
    if dtype == ml_dtypes.bfloat16:
        expected = expected.astype(np.float32)

    np.testing.assert_array_equal(apply(scores, Alibi(4, form=form)), expected.astype(dtype))


@pytest.mark.parametrize("form", ["symmetric", "causal", "key", "key-last"])
@pytest.mark.parametrize(
    ("recipe", "dtype"),
    [
        ("float32", np.float32),
        ("float16-table", np.float16),
        ("bfloat16-table", ml_dtypes.bfloat16),
    ],
)
def test_biases_are_rounded_as_a_recipe_rounds_them(recipe, dtype, form):
    """A recipe is the way in which a runtime computes: «float32» rounds slopes and products; a table
    of another dtype holds products that were rounded once. `biases_by_hand` computes slope times
    distance in float64; the «naive» rule gives six heads the slopes 2^(−8j/6).
    """
    slopes = [2.0 ** (-8 * j / 6) for j in (1, 2, 3, 4, 5, 6)]
    if recipe == "float32":
        slopes = [float(np.float32(slope)) for slope in slopes]
    found = apply(np.zeros((6, 40, 50)), Alibi(6, rule="naive", form=form, recipe=recipe))

    np.testing.assert_array_equal(
        found, biases_by_hand(slopes, 40, 50, form).astype(dtype).astype(np.float64)
    )


ROTATED_BY_TRANSFORMERS = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "rotated.jsonl").read_text().splitlines()
]


LONGEST_PAIR = 3.0
"""A bound of the length of a pair of rotated channels: they are up to 50/32 before (`queries`), so
that a pair is up to √2 · 50/32 = 2.21 long, and the attention factor of YaRN for a factor of 32 is
1 + 0.1 ln 32 = 1.35.
"""
ROUNDING = 2.0**-24
"""Half a unit in the last place of a float32 number near 1."""


def name(case: dict) -> str:
    kind = case["config"].get("rope_parameters", {}).get("rope_type", "default")
    return f"{case['config']['model_type']}-{kind}"


@pytest.mark.parametrize("case", ROTATED_BY_TRANSFORMERS, ids=name)
def test_pecli_apply_rotates_queries_as_the_model_of_a_config_does(case, run_pecli, tmp_path):
    """rotated.jsonl has configs, position ids, and queries that transformers' own models rotated in
    float32. Their angles, of up to the position, are rounded twice (the frequency, its product with
    the position); cosines, sines, products and sums of both sides are at most ten roundings more.
    """
    (tmp_path / "config.json").write_text(json.dumps(case["config"]))
    np.save(tmp_path / "ids.npy", case["positions"])
    np.save(tmp_path / "q.npy", np.array([queries(*case["shape"][1:])], np.float32))
    words = ["--config", tmp_path / "config.json", "--positions", tmp_path / "ids.npy"]
    outcome = run_pecli("apply", "rope", tmp_path / "q.npy", *words, "-o", tmp_path / "y.npy")

    assert outcome.exit_code == SUCCESS, outcome.err

    by_pecli = pecli.load(tmp_path / "y.npy")["array"]
    by_transformers = np.array(case["rotated"]).reshape(case["shape"])
    angle_errors = 2 * ROUNDING * np.array(case["positions"])[:, None]
    value_errors = 10 * ROUNDING

    errors = np.abs(by_pecli - by_transformers)
    assert (errors <= LONGEST_PAIR * (angle_errors + value_errors)).all()


def test_numpy_arrays_stay_numpy_arrays_if_torch_is_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`apply` returns tensors of torch for tensors of torch. Here torch is a stand-in whose Tensor is
    another class than NumPy's.
    """
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(Tensor=str))
    assert isinstance(pecli.apply(np.ones((2, 4)), pecli.Rope(2, 4)), np.ndarray)


def test_an_offset_selects_the_rows_of_a_learned_table() -> None:
    """The rows of the table hold their numbers 0, 1, 2, 3; two inputs of 0 from row 2 on become 2
    and 3.
    """
    table = np.arange(4.0)[:, None]
    assert pecli.apply(np.zeros((2, 1)), table, offset=2).tolist() == [[2.0], [3.0]]


def test_position_2_to_the_40_can_be_rotated() -> None:
    """2^40 is pecli's limit of positions, and not refused itself."""
    assert pecli.apply(np.ones((1, 2)), pecli.Rope(1, 2), offset=2**40).shape == (1, 2)


def test_a_tensor_of_two_axes_may_have_as_many_rows_as_the_model_has_heads() -> None:
    """Four rows and four heads of 32 / 4 = 8 channels: in more axes, an axis of 4 would be refused as
    one of heads; a tensor of two axes has none.
    """
    config = {"model_type": "llama", "hidden_size": 32, "num_attention_heads": 4}
    assert pecli.apply(np.ones((4, 8)), config).shape == (4, 8)


def test_ids_of_one_row_hold_for_all_three_axes_of_mrope() -> None:
    """M-RoPE has ids for time, rows and columns; id 0 along all of them rotates nothing."""
    rope = pecli.Rope(4, 16, mrope_section=[2, 3, 3])
    x = np.ones((4, 16))
    ids = np.zeros((1, 4), int)

    assert pecli.apply(x, rope, positions=ids).tolist() == x.tolist()


def test_a_rotation_spreads_nan_to_the_other_channel_of_its_pair_only() -> None:
    """Heads of 8 channels in halves pair channel 2 with 2 + 4."""
    x = np.ones((3, 8))
    x[1, 2] = np.nan
    is_nan = np.isnan(pecli.apply(x, pecli.Rope(3, 8)))

    assert np.argwhere(is_nan).tolist() == [[1, 2], [1, 2 + 4]]


def test_pairs_of_float64_are_rotated_by_the_nearest_cosines_and_sines() -> None:
    """The pair (1, 0) becomes (cos, sin) of position · 10000^(−i/2), which Arb (python-flint)
    computes. They are off by 0.6 · 2^−53 at most: half a unit in the last place of numbers below 1,
    which is 2^−53, and little more.
    """
    ones_and_zeros = np.tile([1.0, 0.0], (1000, 2))
    rows = pecli.apply(ones_and_zeros, pecli.Rope(1000, 4, layout="interleaved"))

    errors = []
    with ctx.workprec(200):
        for position, row in enumerate(rows.tolist()):
            for pair in range(2):
                sine, cosine = (arb(position) / arb(100) ** pair).sin_cos()
                errors += [abs(cosine - row[2 * pair]), abs(sine - row[2 * pair + 1])]
        largest = float(max(errors).upper())
    assert largest <= 0.6 * 2.0**-53


def test_the_offset_of_a_rope_is_the_position_of_the_first_row() -> None:
    """A head of two channels is one pair with frequency 1, so that (1, 1) at position 1 is rotated
    by one radian: (cos 1 − sin 1, cos 1 + sin 1).
    """
    rotated_pair = pecli.apply(np.ones((1, 2)), pecli.Rope(1, 2, offset=1))[0]
    expected = [math.cos(1) - math.sin(1), math.cos(1) + math.sin(1)]

    assert rotated_pair.tolist() == pytest.approx(expected, rel=1e-15)
