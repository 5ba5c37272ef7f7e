"""Indices of relative positions (T5, DeBERTa, Swin) that are transposed, negated, reversed, or have
other parameters.

An index holds the bucket, or the row of a table of biases, of each query and key. The wrong ones
are made from the right index by NumPy; DeBERTa's buckets are also held against the formula of
transformers.
"""

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
    """Queries and keys of the index are exchanged: T5's of 150 positions, DeBERTa's of 600, and
    Swin's window of 6 × 9.
    """
    index = SCHEMES[name].tables()["index"]
    result = verify_index(index.T, SCHEMES[name])

    assert "the table is transposed; exact" in result.diagnosis[0]


@pytest.mark.parametrize("name", ["t5", "swin"])
@pytest.mark.sample("swin")
def test_a_negated_index_is_named(name: str) -> None:
    """Each bucket with the other sign; DeBERTa, where that is the transposed index, has a test of
    its own.
    """
    index = SCHEMES[name].tables()["index"]
    assert "the sign is flipped; exact" in verify_index(-index, SCHEMES[name]).diagnosis[0]


def test_a_negated_index_of_deberta_is_named_as_transposed() -> None:
    """Its index is antisymmetric, so that both are the same table."""
    index = SCHEMES["deberta"].tables()["index"]
    assert "the table is transposed; exact" in verify_index(-index, SCHEMES["deberta"]).diagnosis[0]


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.sample("swin")
def test_no_softmax_is_said_to_ignore_shifted_indices(name: str) -> None:
    """Softmax ignores a constant added to a row of scores, but not one added to indices of a table.
    The rows are in reverse order here.
    """
    result = verify_index(SCHEMES[name].tables()["index"][::-1], SCHEMES[name])
    assert not any("softmax" in line for line in result.diagnosis)


@pytest.mark.parametrize("max_distance", [40, 64, 96, 256])
@pytest.mark.sample(2)
def test_another_max_distance_of_t5_is_named(max_distance: int) -> None:
    """The index of buckets has another max_distance; the spec has T5's default, 128."""
    found = pecli.Relative(style="t5", seq_len=150, max_distance=max_distance)
    result = verify_index(found.tables()["index"], SCHEMES["t5"])

    assert f"max_distance is {max_distance} (the spec says 128); exact" in result.diagnosis[0]


@pytest.mark.parametrize(("buckets", "max_distance"), [(8, 16), (256, 512), (32, 18), (64, 400)])
def test_buckets_of_deberta_are_those_of_its_own_formula(buckets: int, max_distance: int) -> None:
    """`make_log_bucket_position` of transformers, in NumPy. Its float32 logarithms agree unless a
    quotient is a whole number, within 1e-9, where they may round either way.
    """
    middle = buckets // 2
    distances = np.arange(1, 500)
    logs = np.log(distances / middle) / np.log((max_distance - 1) / middle) * (middle - 1)
    expected = np.where(distances <= middle, distances, np.ceil(logs) + middle)
    is_open = np.abs(logs - np.rint(logs)) < 1e-9
    found = deberta_buckets(500, buckets, max_distance)[1:]

    np.testing.assert_array_equal(found[~is_open], expected[~is_open])


def test_a_short_index_leaves_the_last_distance_open() -> None:
    """With 32 buckets both ways, single distances end at 8; no two of 8 keys are as far apart.

    So all maximum distances make the same index, those included that other numbers of buckets
    could not have.
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
    (sentence, _) = pecli.verify(found.tables(), expected).diagnosis
    assert sentence == f"index: {words}; exact"
