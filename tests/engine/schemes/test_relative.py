"""Relative positions: the bucket of every query and key, and the learned bias that is looked up by
it.

T5 and DeBERTa put distances into buckets, which grow logarithmically. Their formulas are written
again below in Arb's balls (python-flint), which decide exactly whether a logarithm reaches an
integer. Expected biases are NumPy's lookup, weights[index].
"""

import math
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flint import arb

from pecli.engine.schemes.relative import Relative
from pecli.engine.schemes.scheme import Scheme
from tests.exit_codes import SUCCESS


def rounded_down(value: arb) -> int:
    """Return the integer at or below a ball that Arb has computed; a ball around an integer is it."""
    nearest = round(float(value.mid()))
    return nearest if value.contains(nearest) else math.floor(float(value.mid()))


def t5(r: int, buckets: int, limit: int, causal: bool) -> int:
    """Return T5's bucket of the distance r = key − query, one of `buckets` numbers from 0 on.

    Half of the buckets are for later keys, unless it is causal. Of the n buckets of one direction, the
    first e = n/2 are for one distance each, and distance d from e on has bucket
    e + ⌊ln(d/e) / ln(limit/e) · (n − e)⌋, at most n − 1.
    """
    n = buckets if causal else buckets // 2
    first = 0 if causal or r <= 0 else n
    distance = max(-r, 0) if causal else abs(r)
    e = n // 2
    if distance < e:
        return first + distance
    steps = (arb(distance) / e).log() / (arb(limit) / e).log() * (n - e)
    return first + min(e + rounded_down(steps), n - 1)


def deberta(r: int, buckets: int, limit: int) -> int:
    """Return DeBERTa's bucket of the distance r = query − key, which has the sign of r.

    With m = buckets/2, distances up to m are their own buckets, and a larger distance d has bucket
    m + ⌈ln(d/m) / ln((limit − 1)/m) · (m − 1)⌉.
    """
    m, distance = buckets // 2, abs(r)
    if distance <= m:
        return r
    steps = (arb(distance) / m).log() / (arb(limit - 1) / m).log() * (m - 1)
    bucket = m - rounded_down(-steps)  # −⌊−x⌋ is ⌈x⌉
    return bucket if r > 0 else -bucket


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("buckets", "limit"), [(32, 128), (32, 129), (64, 100), (10, 1000), (12, 81)]
)
def test_buckets_of_relative_distances_are_those_of_t5s_formula(
    buckets: int, limit: int, causal: bool
) -> None:
    """T5 maps the distance r = key − query to one of `buckets` numbers, up to the distance `limit`.
    `t5` is its formula in Arb's arbitrary precision, for which the first row (r = j) and column
    (r = −i) are compared; all other elements must depend on r only.
    """
    index = Relative("t5", 300, buckets, limit, causal).tables()["index"]
    assert index.dtype == np.int32
    assert index[0].tolist() == [t5(j, buckets, limit, causal) for j in range(300)]
    assert index[:, 0].tolist() == [t5(-i, buckets, limit, causal) for i in range(300)]
    assert np.array_equal(index[1:, 1:], index[:-1, :-1])


@pytest.mark.parametrize(("buckets", "limit"), [(32, 64), (256, 512), (16, 65), (6, 1000)])
def test_buckets_of_relative_distances_are_those_of_debertas_formula(
    buckets: int, limit: int
) -> None:
    """Distances r = query − key up to buckets/2 are their own buckets; larger ones share buckets that
    grow with their logarithm, and have the sign of r. `deberta` is the formula of the project in Arb's
    arbitrary precision. In column 0 of the table r is the row, and in row 0 minus the column.
    """
    index = Relative("deberta", 700, buckets, limit).tables()["index"]
    assert index[:, 0].tolist() == [deberta(i, buckets, limit) for i in range(700)]
    assert index[0].tolist() == [deberta(-j, buckets, limit) for j in range(700)]


@pytest.mark.parametrize(
    ("distance", "bucket"),
    [(16, 16), (17, 17), (20, 19), (63, 31), (-20, -19)],
)
def test_buckets_of_deberta_with_32_buckets_up_to_distance_64(distance: int, bucket: int) -> None:
    """By hand, with m = 32/2 = 16: distance 17 has bucket 16 + ⌈ln(17/16) / ln(63/16) · 15⌉ =
    16 + ⌈0.66⌉, distance 20 has 16 + ⌈2.44⌉, and 63, the last one, 16 + 15.
    """
    index = Relative("deberta", 64, 32, 64).tables()["index"]
    query, key = (distance, 0) if distance > 0 else (0, -distance)
    assert index[query, key] == bucket


@pytest.mark.parametrize("style", ["t5", "deberta"])
def test_the_index_of_a_short_table_is_the_corner_of_a_long_one(style: str) -> None:
    """A bucket depends only on the distance of query and key, so the index of n positions is the
    corner of that of 50.
    """
    whole = Relative(style, 50, 16, 40).tables()["index"]
    for length in range(1, 50):
        part = Relative(style, length, 16, 40).tables()["index"]
        assert np.array_equal(part, whole[:length, :length])


@pytest.mark.parametrize("scheme", [Relative("t5", 50), Relative("swin", grid=(4, 7))], ids=str)
def test_rows_of_an_index_can_be_read_alone(scheme: Relative) -> None:
    """`read(11, 17)` computes rows 11 to 16 only; they must be those of the whole index."""
    whole = scheme.tables()["index"]
    assert np.array_equal(scheme.tensors()[0].read(11, 17), whole[11:17])


@pytest.mark.parametrize(
    "scheme",
    [Relative("t5", 5, causal=True), Relative("swin", grid=(3, 4)), Relative("deberta", 9)],
    ids=str,
)
def test_a_spec_of_relative_positions_makes_the_same_scheme(scheme: Relative) -> None:
    """The schemes are causal, on a grid, or without options; `spec` describes each as plain data,
    from which it is made again.
    """
    assert Scheme.from_spec(scheme.spec()) == scheme


@pytest.mark.parametrize(
    ("parameters", "buckets"),
    [({"style": "t5", "seq_len": 20}, 32), ({"style": "swin", "grid": (3, 4)}, 5 * 7)],
)
def test_the_bias_is_looked_up_in_the_weights_by_the_index(
    parameters: dict[str, Any], buckets: int
) -> None:
    """As the layers of transformers do: weights[index], with the 3 heads moved to the front. T5 has
    32 buckets; a 3 × 4 window of Swin has 5 · 7 differences of rows and columns.
    """
    weights = np.random.default_rng(2).normal(size=(buckets, 3)).astype(np.float32)
    bias = np.moveaxis(weights[Relative(**parameters).tables()["index"]], -1, 0)
    scheme = Relative(**parameters, weights=weights)

    np.testing.assert_array_equal(scheme.tables()["bias"], bias)
    np.testing.assert_array_equal(
        np.concatenate([*scheme.blocks(rows=5)]).reshape(bias.shape), bias
    )

    scores = np.ones((2, *bias.shape))
    np.testing.assert_array_equal(scheme.applied_to(scores), scores + bias)


@pytest.fixture
def words_with_weights(tmp_path: Path) -> tuple[object, ...]:
    """Return the command for T5's biases of eight buckets, whose weights are in a file."""
    weights = -np.arange(8, dtype=np.float32).reshape(8, 1) / 8
    np.savez(tmp_path / "w.npz", table=weights, other=weights[0])
    file = f"{tmp_path / 'w.npz'}:table"
    words = "relative --style t5 --seq-len 9 --buckets 8 --weights"
    return (*words.split(), file)


@pytest.mark.parametrize("file", ["bias.npz", "bias.npy"])
def test_a_file_of_biases_passes_with_its_weights(
    run_pecli, tmp_path: Path, words_with_weights: tuple[object, ...], file: str
) -> None:
    """T5's bias is made from learned weights, which are in another file. The same options make the
    bias and, with --verify, check it.
    """
    assert run_pecli(*words_with_weights, "-q", "-o", tmp_path / file).exit_code == SUCCESS
    assert run_pecli(*words_with_weights, "--verify", tmp_path / file).exit_code == SUCCESS


def test_a_file_of_biases_is_verified_by_the_weights_that_it_holds(
    run_pecli, tmp_path: Path, words_with_weights: tuple[object, ...]
) -> None:
    """`words_with_weights` is the command `pecli relative` with T5's learned weights in a file. The
    .npz file that it writes carries its spec, and the weights in it, so that `verify` needs no other
    file.
    """
    run_pecli(*words_with_weights, "-q", "-o", tmp_path / "bias.npz")
    assert run_pecli("verify", tmp_path / "bias.npz").exit_code == SUCCESS


def test_the_command_that_reproduces_wrong_biases_has_the_weights(
    run_pecli, tmp_path: Path, words_with_weights: tuple[object, ...]
) -> None:
    """The file is not causal, and the command that verifies it is. The diagnosis has a line
    «reproduce with pecli …», whose command must have the file of learned weights, so that the biases
    pass with it.
    """
    words = words_with_weights
    run_pecli(*words, "-q", "-o", tmp_path / "bias.npy")
    failed = run_pecli(*words, "--causal", "--verify", tmp_path / "bias.npy", "--json")
    (line,) = [line for line in failed.json["diagnosis"] if line.startswith("reproduce with ")]
    command = shlex.split(line)[3:]

    assert run_pecli(*command, "--verify", tmp_path / "bias.npy").exit_code == SUCCESS
