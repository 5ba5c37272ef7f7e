"""Indices of relative positions (T5, DeBERTa, Swin) that are transposed, negated, reversed, or have
other parameters.

An index holds the bucket, or the row of a table of biases, of each query and key. The wrong ones
are made from the right index by NumPy; DeBERTa's buckets are also held against the formula of
transformers.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pecli
from pecli.engine.schemes.relative_patterns import deberta_buckets

SCHEMES = {
    "t5": pecli.Relative(style="t5", seq_len=150),
    "deberta": pecli.Relative(style="deberta", seq_len=600),
    "swin": pecli.Relative(style="swin", grid=(6, 9)),
}


def verify_index(index: np.ndarray, spec: pecli.Scheme) -> Any:
    return pecli.verify({"index": index.astype(np.int32)}, spec)


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.sample("swin", "t5")
def test_a_transposed_index_is_named(name: str) -> None:
    """An index holds the bucket of each query and key; here queries and keys are exchanged. The
    cases are T5's index of 150 positions, DeBERTa's of 600, and Swin's of a window of 6 × 9.
    """
    index = SCHEMES[name].tables()["index"]
    result = verify_index(index.T, SCHEMES[name])

    assert "the table is transposed; exact" in result.diagnosis[0]


@pytest.mark.parametrize("name", ["t5", "swin"])
@pytest.mark.sample("swin")
def test_a_negated_index_is_named(name: str) -> None:
    """Each bucket of the right index has the opposite sign. (DeBERTa's negated index is also its
    transposed one, and has a test of its own.)
    """
    index = SCHEMES[name].tables()["index"]
    assert "the sign is flipped; exact" in verify_index(-index, SCHEMES[name]).diagnosis[0]


def test_a_negated_index_of_deberta_is_named_as_transposed() -> None:
    """DeBERTa's index is antisymmetric, index[j, i] = −index[i, j], so that the negated and the
    transposed one are the same table.
    """
    index = SCHEMES["deberta"].tables()["index"]
    np.testing.assert_array_equal(-index, index.T)

    result = verify_index(-index, SCHEMES["deberta"])
    assert "the table is transposed; exact" in result.diagnosis[0]


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.sample("swin")
def test_a_wrong_index_is_not_excused_by_softmax(name: str) -> None:
    """Softmax ignores a constant that is added to a row of scores, and the diagnosis of a bias says
    so. The numbers of an index are no scores: with its rows in reverse order, they may seem shifted
    by a constant per row, but nothing ignores that.
    """
    index = SCHEMES[name].tables()["index"]
    result = verify_index(index[::-1], SCHEMES[name])

    assert not any("softmax" in line for line in result.diagnosis)


@pytest.mark.parametrize("max_distance", [40, 64, 96, 256])
@pytest.mark.sample(2)
def test_another_max_distance_of_t5_is_named(max_distance: int) -> None:
    """The index is T5's of 150 positions with `max_distance`; the spec has T5's default, 128."""
    found = pecli.Relative(style="t5", seq_len=150, max_distance=max_distance)
    result = verify_index(found.tables()["index"], SCHEMES["t5"])

    assert f"max_distance is {max_distance} (the spec says 128); exact" in result.diagnosis[0]


@pytest.mark.parametrize(("buckets", "max_distance"), [(8, 16), (256, 512), (32, 18), (64, 400)])
def test_buckets_of_deberta_are_those_of_its_own_formula(buckets: int, max_distance: int) -> None:
    """The expected buckets are `make_log_bucket_position` of transformers, in NumPy: a distance up
    to the middle is its own bucket, and farther ones share buckets by their logarithm. Where this
    is a whole number within 1e-9, float32 may round either way, so it is not compared.
    """
    middle = buckets // 2
    distances = np.arange(1, 500)
    logs = np.log(distances / middle) / np.log((max_distance - 1) / middle) * (middle - 1)
    expected = np.where(distances <= middle, distances, np.ceil(logs) + middle)
    may_round_either_way = np.abs(logs - np.rint(logs)) < 1e-9
    found = deberta_buckets(500, buckets, max_distance)[1:]

    np.testing.assert_array_equal(found[~may_round_either_way], expected[~may_round_either_way])


def test_a_short_index_leaves_the_last_distance_open() -> None:
    """T5 has 32 buckets for both directions, so that distances below 8 have a bucket each, and only
    farther ones depend on max_distance. Of 8 keys, no two are 8 apart: any max_distance makes this
    index. The default, 128, is reported, with a doubt.
    """
    index = pecli.Relative(style="t5", seq_len=8).tables()["index"]
    (match, *_) = pecli.identify(index.astype(np.int32)).matches

    assert match.scheme == pecli.Relative(style="t5", seq_len=8, buckets=32, max_distance=128)
    assert any(doubt.startswith("max_distance may also be 256") for doubt in match.undetermined)


@pytest.mark.parametrize(
    ("found", "expected", "words"),
    [
        (
            pecli.Relative("t5", 80, max_distance=65),
            pecli.Relative("t5", 80, max_distance=64),
            "max_distance is 65 (the spec says 64)",
        ),
        (
            pecli.Relative("t5", 24, causal=True),
            pecli.Relative("t5", 24),
            "causal is true (the spec says false)",
        ),
        (
            pecli.Relative("t5", 24, buckets=16),
            pecli.Relative("t5", 24),
            "buckets is 16 (the spec says 32)",
        ),
        (
            pecli.Relative("swin", grid=(4, 3)),
            pecli.Relative("swin", grid=(3, 4)),
            "grid is 4x3 (the spec says 3x4)",
        ),
    ],
    ids=["one off", "a flag", "half", "exchanged"],
)
def test_another_value_of_a_parameter_is_named(
    found: pecli.Relative, expected: pecli.Relative, words: str
) -> None:
    """The index is made with one parameter of the spec changed: max_distance by one, causal, half as
    many buckets, or the sides of Swin's window exchanged. A command follows the reason.
    """
    (sentence, _) = pecli.verify(found.tables(), expected).diagnosis
    assert sentence == f"index: {words}; exact"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda bias: bias.transpose(0, 2, 1), "bias: the table is transposed; exact"),
        (lambda bias: bias / 8, "bias: values are scaled by 0.125; exact"),
    ],
    ids=["query minus key", "divided by the root of 64"],
)
def test_a_wrong_bias_of_learned_weights_is_named(
    change: Callable[[np.ndarray], np.ndarray], words: str
) -> None:
    """Key − query of T5 is exchanged for query − key, which transposes the bias of each head; or a
    kernel scales the bias like the scores. Heads have 32 random weights each; with 40 positions,
    distances up to 39 fall into buckets by the formula of T5's paper.
    """
    distance = np.subtract.outer(np.arange(40), np.arange(40))  # query − key
    steps = np.log(np.maximum(np.abs(distance), 1) / 8) / np.log(128 / 8) * 8
    far = np.minimum(8 + steps.astype(int), 15)
    buckets = np.where(np.abs(distance) < 8, np.abs(distance), far) + 16 * (distance < 0)
    weights = np.random.default_rng(5).normal(size=(32, 4)).astype(np.float32)
    bias = weights[buckets].transpose(2, 0, 1)
    spec = pecli.Relative("t5", 40, weights=weights)

    assert pecli.verify({"bias": bias}, spec).passed
    result = pecli.verify({"bias": np.ascontiguousarray(change(bias))}, spec)
    assert result.diagnosis[0] == words
