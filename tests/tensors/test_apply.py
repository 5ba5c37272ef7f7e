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
from flint import arb

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
    half = x.shape[-1] // 2
    return turned(
        x, np.multiply.outer(np.asarray(positions, float), base ** (-np.arange(half) / half))
    )


@pytest.mark.parametrize(
    "rope", [pecli.Rope(6, 128), "llama-2-7b", pecli.load_model("llama-2-7b")], ids=repr
)
def test_apply_rotates_queries_backwards_by_shifts_and_at_positions(rope: Any) -> None:
    """The expected rotations are the textbook formula in float64; float32 holds 24 bits, so values
    of up to about 4 are off by up to 3e-7 after one rounding, twice that after two.
    """
    found = pecli.apply(QUERIES, rope, offset=3)
    assert found.dtype == np.float32
    assert np.abs(found - rotated(QUERIES, range(3, 9))).max() < 3e-7
    assert np.abs(pecli.apply(found, rope, offset=3, inverse=True) - QUERIES).max() < 6e-7
    assert np.abs(pecli.apply(found, rope, shift=-3) - rotated(QUERIES, range(6))).max() < 6e-7

    ids = np.array([[5, 4, 3, 2, 1, 0], [0, 0, 1, 1, 2, 2]])
    assert (
        np.abs(pecli.apply(QUERIES, rope, positions=ids) - rotated(QUERIES, ids[:, None])).max()
        < 3e-7
    )

    other = pecli.apply(QUERIES.swapaxes(1, 2), rope, seq_axis=-3)
    assert np.array_equal(other.swapaxes(1, 2), pecli.apply(QUERIES, rope))


def test_interleaved_pairs_and_the_last_channels_rotate_as_halves_do() -> None:
    """Interleaved pairs are the channels of halves in another order, so the results are too, bit by
    bit. Rope(6, 32) rotates the last 32 of 128 channels (trailing), and leaves the others.
    """
    pairs = (
        np.arange(128).reshape(2, 64).T.ravel()
    )  # interleaved: channels of halves, in another order
    found = pecli.apply(QUERIES[..., pairs], pecli.Rope(6, 128), layout="interleaved")

    assert np.array_equal(found, pecli.apply(QUERIES, pecli.Rope(6, 128))[..., pairs])

    own = pecli.Rope(6, 128, layout="interleaved")
    assert np.array_equal(found, pecli.apply(QUERIES[..., pairs], own))
    assert np.array_equal(found, own.applied_to(QUERIES[..., pairs]))
    assert np.array_equal(found, pecli.Rope(6, 128).applied_to(QUERIES)[..., pairs])

    some = pecli.apply(QUERIES, pecli.Rope(6, 32, offset=2), trailing=True)
    assert np.array_equal(some[..., :96], QUERIES[..., :96])
    assert np.abs(some[..., 96:] - rotated(QUERIES[..., 96:], range(2, 8))).max() < 3e-7


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
    """By ALiBi's rule, 2 heads have the slopes 2^-4 = 0.0625 and 2^-8 = 0.00390625. The 3 queries
    are the last of 5 positions; a bias is −slope · distance.
    """
    scores = np.zeros((2, 3, 5))
    expected = -np.array([[[0.0625]], [[0.00390625]]]) * abs(
        np.arange(5) - np.arange(2, 5)[:, None]
    )
    assert np.array_equal(pecli.apply(scores, pecli.Alibi(2)), expected)


def test_an_axis_of_heads_is_refused_as_positions_and_a_recipe_changes_angles() -> None:
    """An axis of 32 beside Llama 2's 32 heads is probably heads, unless the user names the axis or
    the place does not matter. A recipe is the way in which a runtime computes: float32 angles at
    position 10^6 are off by up to 2^-24 of it, 0.06.
    """
    heads = np.zeros((1, 6, 32, 128), np.float32)
    with pytest.raises(ValueError, match="32 is a number of heads of llama-2-7b"):
        pecli.apply(heads, "llama-2-7b")
    assert (
        pecli.apply(heads, "llama-2-7b", seq_axis=-2).shape == heads.shape
    )  # who says so means it
    assert (
        pecli.apply(heads, "llama-2-7b", shift=3).shape == heads.shape
    )  # the same at all positions

    # Angles rounded to float32 are off by up to 2**-24 of the position.
    far = {"offset": 10**6}
    exact, rounded = (
        pecli.apply(QUERIES, pecli.Rope(6, 128, recipe=recipe), **far)
        for recipe in ("exact", "float32")
    )
    assert 1e-4 < np.abs(exact - rounded).max() < 1


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
    """From row 3 on; blocks of 8 numbers instead of 2^16 must change nothing."""
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
    """The slopes of four heads are 2^-2, 2^-4, 2^-6 and 2^-8; biases are computed element by
    element.
    """
    scores = random_normal(2, 4, queries, keys, dtype=dtype)
    found = apply(scores, Alibi(4, form=form))
    expected = scores.astype(np.float64) + biases_by_hand(
        [0.25, 0.0625, 2**-6, 2**-8], queries, keys, form
    )
    expected = expected.astype(np.float32) if dtype == ml_dtypes.bfloat16 else expected

    np.testing.assert_array_equal(found, expected.astype(dtype))


NARROW = {"float32": np.float32, "float16-table": np.float16, "bfloat16-table": ml_dtypes.bfloat16}


@pytest.mark.parametrize("form", ["symmetric", "causal", "key", "key-last"])
@pytest.mark.parametrize("recipe", NARROW)
def test_biases_are_rounded_as_a_recipe_rounds_them(recipe, form):
    """A table of another dtype holds the products rounded to it, not products of rounded slopes;
    the «naive» rule gives six heads the slopes 2^(−8j/6).
    """
    dtype = NARROW[recipe]
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


def name(case: dict) -> str:
    kind = case["config"].get("rope_parameters", {}).get("rope_type", "default")
    return f"{case['config']['model_type']}-{kind}"


@pytest.mark.parametrize("case", ROTATED_BY_TRANSFORMERS, ids=name)
def test_a_configuration_rotates_as_its_model_does(case, run_pecli, tmp_path):
    """rotated.jsonl holds queries that transformers' own models rotated, in float32; the tolerance
    is that of their phases.
    """
    (tmp_path / "config.json").write_text(json.dumps(case["config"]))
    np.save(tmp_path / "ids.npy", case["positions"])
    np.save(tmp_path / "q.npy", np.array([queries(*case["shape"][1:])], np.float32))
    words = [
        "--config",
        tmp_path / "config.json",
        "--positions",
        tmp_path / "ids.npy",
        "-o",
        tmp_path / "y.npy",
    ]
    outcome = run_pecli("apply", "rope", tmp_path / "q.npy", *words)

    assert outcome.exit_code == SUCCESS, outcome.err

    found = pecli.load(tmp_path / "y.npy")["array"]
    expected = np.array(case["rotated"]).reshape(case["shape"])
    # Their phases are float32: the frequency and the product are off by 2**-24 of the angle each.
    tolerance = np.array(case["positions"])[:, None] * 2.0**-23 + 1e-6

    assert (np.abs(found - expected) <= 3 * tolerance).all()


def test_numpy_arrays_stay_numpy_arrays_beside_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for torch is imported, whose Tensor is another class."""
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(Tensor=str))
    assert isinstance(pecli.apply(np.ones((2, 4)), pecli.Rope(2, 4)), np.ndarray)


def test_an_offset_selects_the_rows_of_a_learned_table() -> None:
    """The table holds its row numbers; two rows from 2 on are 2 and 3."""
    table = np.arange(4.0)[:, None]
    assert pecli.apply(np.zeros((2, 1)), table, offset=2).tolist() == [[2.0], [3.0]]


def test_position_2_to_the_40_can_be_rotated() -> None:
    """2^40 is pecli's limit of positions."""
    assert pecli.apply(np.ones((1, 2)), pecli.Rope(1, 2), offset=2**40).shape == (1, 2)


def test_rows_may_be_as_many_as_heads_if_there_is_no_other_axis() -> None:
    """Four rows and four heads: a tensor of two axes has no axis of heads."""
    config = {"model_type": "llama", "hidden_size": 32, "num_attention_heads": 4}
    assert pecli.apply(np.ones((4, 8)), config).shape == (4, 8)


def test_one_row_of_ids_is_that_of_all_axes() -> None:
    """mrope has three axes of positions; id 0 along all of them rotates nothing."""
    rope = pecli.Rope(4, 16, mrope_section=[2, 3, 3])
    x = np.ones((4, 16))

    assert pecli.apply(x, rope, positions=np.zeros((1, 4), int)).tolist() == x.tolist()


def test_nan_spoils_its_pair_only() -> None:
    """Element 10 is row 1, channel 2, whose partner in halves of 4 is channel 6."""
    x = np.where(np.arange(24).reshape(3, 8) == 10, np.nan, 1.0)
    spoiled = np.isnan(pecli.apply(x, pecli.Rope(3, 8)))

    assert np.argwhere(spoiled).tolist() == [[1, 2], [1, 6]]


def test_the_offset_of_a_scheme_is_where_rows_begin() -> None:
    """A head of two channels is one pair with frequency 1, so that (1, 1) at position 1 is rotated
    by one radian: (cos 1 − sin 1, cos 1 + sin 1).
    """
    rotated = pecli.apply(np.ones((1, 2)), pecli.Rope(1, 2, offset=1))[0]
    cos, sin = math.cos(1), math.sin(1)

    assert rotated.tolist() == pytest.approx([cos - sin, cos + sin], rel=1e-15)
