"""Mistakes that are planted in tables of other shapes, sizes and roundings than usual."""

from typing import NamedTuple

import numpy as np
import pytest

import pecli
from pecli.engine.schemes.relative import Relative
from tests.checks.waves import Array

ALIBI = pecli.Alibi(4, 6)
WRONG_BIAS = pecli.Alibi(4, 6, max_bias=16.0).tables()["bias"]
ALIBI_OF_TWO = pecli.Alibi(2, 2)
SHARD = pecli.Alibi(12, 8, head_range=(6, 9))
ROPE = pecli.Rope(32, 16)
FREQUENCIES = np.array(ROPE.inverse_frequencies())
WRONG_ROPE = pecli.Rope(32, 16, base=500.0).tables()
SINUSOIDAL = pecli.Sinusoidal(64, 32)
VALUES = SINUSOIDAL.tables()["pe"].astype(np.float64)


class Planted(NamedTuple):
    """Tensors with a mistake in them, the right scheme, and the sentence that names the mistake."""

    tensors: dict[str, Array]
    scheme: pecli.Scheme
    reason: str


PLANTED_MISTAKES = {
    "a larger index": Planted(
        Relative(style="t5", seq_len=6, buckets=8).tables(),
        Relative(style="t5", seq_len=4, buckets=8),
        "index: seq_len is 6 (the spec says 4); exact",
    ),
    "a bias for each sequence of a batch": Planted(
        {"bias": np.stack([WRONG_BIAS, WRONG_BIAS])},
        ALIBI,
        "bias: max_bias is 16 (the spec says 8); exact",
    ),
    "a bias with heads last": Planted(
        {"bias": WRONG_BIAS.transpose(1, 2, 0)},
        ALIBI,
        "bias: the table is transposed, and max_bias is 16 (the spec says 8); exact",
    ),
    "a bias of one head": Planted(
        {"bias": pecli.Alibi(1, 6, max_bias=4.0).tables()["bias"][0]},
        pecli.Alibi(1, 6),
        "bias: max_bias is 4 (the spec says 8); exact",
    ),
    "two heads of two queries": Planted(
        {"bias": ALIBI_OF_TWO.tables()["bias"][::-1]},
        ALIBI_OF_TWO,
        "bias: heads are in reverse order; exact",
    ),
    "a shard that counts its own heads": Planted(
        pecli.Alibi(3, 8).tables(), SHARD, "bias, slopes: heads is 3 (the spec says 12); exact"
    ),
    "another shard": Planted(
        pecli.Alibi(12, 8, head_range=(0, 3)).tables(),
        SHARD,
        "bias, slopes: head_range is 0:3 (the spec says 6:9); exact",
    ),
    "cosines above sines": Planted(
        {"cos_sin": np.stack([WRONG_ROPE["cos"], WRONG_ROPE["sin"]])},
        ROPE,
        "cos, sin: base is 500 (the spec says 10000); exact",
    ),
    "two wrong frequencies": Planted(
        {"inv_freq": np.where(np.isin(np.arange(8), (3, 5)), 0.9, FREQUENCIES)},
        ROPE,
        "inv_freq: only elements 3, 5 differ; all others are exact",
    ),
    "four decimals, the rest cut off": Planted(
        {"pe": np.trunc(VALUES * 1e4) / 1e4},
        SINUSOIDAL,
        "pe: rounded toward zero to 4 decimals, not to nearest; explains every element (to 1.6e-8)",
    ),
}


@pytest.mark.parametrize("name", PLANTED_MISTAKES)
def test_a_mistake_is_named_in_tables_of_any_shape(name: str) -> None:
    planted = PLANTED_MISTAKES[name]
    assert pecli.verify(planted.tensors, planted.scheme).diagnosis[0] == planted.reason


def test_wrong_rows_are_named_beside_errors_within_the_tolerance() -> None:
    noise = np.random.default_rng(0).uniform(-1e-4, 1e-4, VALUES.shape)
    table = VALUES + noise
    table[5:7] = 0.25
    result = pecli.verify({"pe": table}, SINUSOIDAL, atol=1e-3)

    assert result.diagnosis[0].startswith("pe: only rows 5, 6 differ; explains every element")
