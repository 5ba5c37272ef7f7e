"""identify finds ALiBi in biases and slopes, and the scheme of an index of relative positions.

Biases are −slope · distance, with the slopes of 4 heads 1/4, 1/16, 1/64 and 1/256 by ALiBi's paper,
made here by NumPy; rounded slopes, masks and signs are planted. Indices are those of
`pecli.Relative`, which tests/engine/schemes holds against the projects' own.
"""

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pecli
from pecli.checks.identify import Match

HEADS, KEYS = 4, 8
SLOPES = 2.0 ** -np.arange(2.0, 9, 2)
DISTANCES = np.arange(KEYS)[:, None] - np.arange(KEYS)
SYMMETRIC = (-SLOPES[:, None, None] * np.abs(DISTANCES)).astype(np.float32)
CAUSAL = np.where(DISTANCES < 0, -np.inf, SYMMETRIC).astype(np.float32)
IS_MASKED = np.isinf(CAUSAL)
BY_KEY = (SLOPES[:, None] * np.arange(KEYS)).astype(np.float32)
"""The slope times the number of the key, as BLOOM has it: for one query."""
SYMMETRIC_SCHEME = pecli.Alibi(HEADS, KEYS, form="symmetric")
CAUSAL_SCHEME = pecli.Alibi(HEADS, KEYS, form="causal")


def matches(array: Any) -> tuple[Match, ...]:
    return tuple(pecli.identify(array).matches)


BIASES: dict[str, tuple[Any, pecli.Alibi, str]] = {
    "causal": (CAUSAL, CAUSAL_SCHEME, ""),
    "symmetric": (SYMMETRIC, SYMMETRIC_SCHEME, ""),
    "negated": (-SYMMETRIC, SYMMETRIC_SCHEME, "the sign is flipped"),
    "a finite mask": (
        np.where(IS_MASKED, np.float32(-1e9), CAUSAL), CAUSAL_SCHEME, "mask differs: -1e+09"
    ),
    "negated with a finite mask": (
        np.where(IS_MASKED, np.float32(-1e9), -CAUSAL),
        CAUSAL_SCHEME,
        "the sign is flipped, mask differs: -1e+09",
    ),
    "zeros for a mask": (np.where(IS_MASKED, 0, CAUSAL), CAUSAL_SCHEME, "mask differs: 0"),
    "heads last": (SYMMETRIC.transpose(1, 2, 0), SYMMETRIC_SCHEME, "the table is transposed"),
    "keys before queries": (
        CAUSAL.transpose(0, 2, 1), CAUSAL_SCHEME, "the table is transposed"
    ),
    "three copies": (np.concatenate([SYMMETRIC] * 3), SYMMETRIC_SCHEME, "repeated 3× along axis 0"),
    "two copies": (np.concatenate([SYMMETRIC] * 2), SYMMETRIC_SCHEME, "repeated 2× along axis 0"),
    "a batch": (np.stack([SYMMETRIC] * 2), SYMMETRIC_SCHEME, "repeated 2× along axis 0"),
    "one query": (BY_KEY, pecli.Alibi(HEADS, KEYS, form="key"), ""),
    "one query, heads last": (
        BY_KEY.T, pecli.Alibi(HEADS, KEYS, form="key"), "the table is transposed"
    ),
    "one query, from the last key on": (
        BY_KEY - BY_KEY[:, -1:], pecli.Alibi(HEADS, KEYS, form="key-last"), ""
    ),
    "in float16": (
        SYMMETRIC.astype(np.float16), pecli.Alibi(HEADS, KEYS, form="symmetric", dtype="float16"), ""
    ),
    "slopes": (SLOPES.astype(np.float32), pecli.Alibi(HEADS, slopes=True, dtype="float32"), ""),
    "three slopes": (
        np.float32([1 / 16, 1 / 256, 1 / 4]), pecli.Alibi(3, slopes=True, dtype="float32"), ""
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BIASES)
def test_a_bias_is_identified_whatever_its_sign_mask_and_axes(name: str) -> None:
    """The match has the scheme, and the departure in sign, mask or axes as a sentence."""
    array, scheme, form = BIASES[name]
    (match,) = matches(array)

    assert match.scheme == scheme
    assert match.form == form


def test_a_bias_with_more_keys_than_any_table_has_columns_is_identified() -> None:
    """Rows of 32,800 numbers are too wide for cosines, and are the biases of 64 heads for one query.
    By the paper, the slopes of 64 heads are 2^(−1/8), 2^(−2/8), …, 2^(−8).
    """
    slopes = 2.0 ** (-np.arange(1, 65) / 8)
    by_key = (slopes[:, None] * np.arange(32_800)).astype(np.float32)
    (match,) = matches(by_key)
    assert match.scheme == pecli.Alibi(64, 32_800, form="key")


@pytest.mark.parametrize("max_bias", [1.0, 4.0, 12.5, 16.0])
def test_another_max_bias_is_measured(max_bias: float) -> None:
    """Slopes of 8 heads are powers of 2^(−max_bias/8)."""
    slopes = 2.0 ** (-max_bias * np.arange(1, 9) / 8)
    bias = -slopes[:, None, None] * np.abs(DISTANCES)
    for array in (bias, slopes):
        (match,) = matches(array)
        assert match.scheme.value_of("max_bias") == max_bias


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_slopes_that_were_rounded_before_the_product_are_named(dtype: str) -> None:
    """By the naive rule, slopes of 12 heads are powers of 2^(−8/12), which 16 bits cannot hold."""
    slopes = 2.0 ** (-8 * np.arange(1, 13) / 12)
    kind = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16}[dtype]
    rounded = slopes.astype(kind).astype(np.float32)
    distances = np.abs(np.arange(64)[:, None] - np.arange(64)).astype(np.float32)
    (match,) = matches(-rounded[:, None, None] * distances)

    assert match.form == f"slopes are rounded to {dtype} before they are multiplied"


@pytest.mark.parametrize(
    "array",
    [
        SYMMETRIC[:2],
        CAUSAL[:, 1:],
        0 * SYMMETRIC,
        SYMMETRIC + 0j,
        SYMMETRIC * np.float32(1.01),
        SYMMETRIC**2,
        -(2.0 ** (-0.5 * np.arange(1, 9) / 8))[:, None, None] * np.abs(DISTANCES),
        np.float32([1 / 16, 1 / 256]),
    ],
    ids=[
        "two heads", "a query is missing", "zeros", "complex", "a factor", "squares",
        "a max_bias below 1", "two slopes",
    ],
)  # fmt: skip
def test_numbers_that_are_no_bias_of_alibi_are_not_identified(array: Any) -> None:
    """Of two slopes, any law may be the reason."""
    assert matches(array) == ()


@pytest.mark.parametrize(
    "scheme",
    [
        pytest.param(
            pecli.Relative("t5", seq_len=160, max_distance=128), id="T5, keys beyond max_distance"
        ),
        pytest.param(
            pecli.Relative("t5", seq_len=12, max_distance=64), id="T5, two keys in far buckets"
        ),
        pytest.param(pecli.Relative("swin", grid=(6, 2)), id="Swin, which has no max_distance"),
    ],
)
def test_an_index_that_shows_all_parameters_is_identified_without_a_doubt(
    scheme: pecli.Relative,
) -> None:
    """Only one usual setting makes these integers. T5's distance d ≥ 8 is in bucket 8 +
    8 · ln(d/8) / ln(max_distance/8), rounded down: d = 11 is in 9 for 64, and in 8 for 128 and more.
    """
    (match,) = matches(scheme.tables()["index"][None])

    assert match.scheme == scheme
    assert match.undetermined == ()


FEW_T5_KEYS = pecli.Relative("t5", seq_len=12, buckets=32, max_distance=128)
"""T5's encoder: distances 0 to 7 have a bucket each, and d ≥ 8 is in bucket 8 + 8 · ln(d/8) /
ln(max_distance/8), rounded down."""


@pytest.mark.parametrize(
    ("scheme", "other_distances"),
    [
        # Distance 11 shares a bucket with 8 if max_distance > 8 · (11/8)^8 = 102.
        pytest.param(FEW_T5_KEYS, "256, 512, 1024, 800", id="T5, 12 keys"),
        # The decoder has 16 buckets of one distance each, so that 12 keys show no others.
        pytest.param(
            replace(FEW_T5_KEYS, causal=True),
            "256, 64, 512, 1024, 32, 40, 800",
            id="T5's decoder, 12 keys",
        ),
        pytest.param(
            replace(FEW_T5_KEYS, seq_len=4), "256, 64, 512, 1024, 32, 40, 800", id="T5, 4 keys"
        ),
        # 128 buckets have one distance each, so that max_distance may be anything above 128.
        pytest.param(
            pecli.Relative("deberta", seq_len=12, buckets=256, max_distance=512),
            "256, 1024",
            id="DeBERTa, 12 keys",
        ),
    ],
)
def test_distances_that_make_the_same_index_of_few_keys_are_listed(
    scheme: pecli.Relative, other_distances: str
) -> None:
    """Keys from `max_distance` on share the last bucket. Few keys do not show where it begins: beside
    the value of T5 or DeBERTa, all usual ones that make the same integers are listed. For T5 these
    are of 128, 256, 64, 512, 1024, 32, 40, 800, and for DeBERTa of 512, 256, 1024, 128, in the
    order in which they are tried.
    """
    (match,) = matches(scheme.tables()["index"][None])
    (doubt,) = match.undetermined

    assert match.scheme == scheme
    assert doubt == f"max_distance may also be {other_distances}: no key is so far away"


T5_INDEX = pecli.Relative("t5", 12).tables()["index"]


@pytest.mark.parametrize(
    "index",
    [
        T5_INDEX[:1, :1],
        T5_INDEX[:3, :3],
        T5_INDEX[:6],
        T5_INDEX.T,
        np.where(T5_INDEX == 3, 4, T5_INDEX),
    ],
    ids=["one key", "three keys", "not square", "transposed", "a wrong bucket"],
)
def test_integers_that_are_no_index_are_not_identified(index: Any) -> None:
    """T5_INDEX has the bucket of each query and key, by their distance. The tables are parts of it
    that are too small to show the rule, or not a matrix of as many queries as keys, or no longer
    follow it: `identify` finds nothing.
    """
    assert matches(index) == ()
