"""Mistakes that are planted in unusual tables: of other shapes, on grids, with lists of factors.

The wrong table is that of the same scheme with another parameter, or the right one changed by
NumPy; the sentence is written by hand. An explanation is «exact» if it makes every number.
"""

from typing import Any, NamedTuple

import numpy as np
import pytest

import pecli
from pecli.engine.schemes.relative import Relative
from tests.checks.waves import Array

ALIBI = pecli.Alibi(4, 6)
WRONG_BIAS = pecli.Alibi(4, 6, max_bias=16.0).tables()["bias"]
ONE_BY_ROOT_128 = 2.0**-3.5  # 0.08838835
ALIBI_OF_TWO = pecli.Alibi(2, 2)
SHARD = pecli.Alibi(12, 8, head_range=(6, 9))
ROPE = pecli.Rope(32, 16)
FREQUENCIES = np.array(ROPE.inverse_frequencies())
WRONG_ROPE = pecli.Rope(32, 16, base=500.0).tables()
SINUSOIDAL = pecli.Sinusoidal(64, 32)
VALUES = SINUSOIDAL.tables()["pe"].astype(np.float64)
LONG = tuple(np.linspace(1, 8, 8).tolist())
SHORT = tuple(np.linspace(1, 2, 8).tolist())
TIMES = [0, 1, 2, 2, 2, 2, 3]  # An image of 2 × 2 patches is at time 2 of a text.
HEIGHTS = [0, 1, 2, 2, 3, 3, 4]
WIDTHS = [0, 1, 2, 3, 2, 3, 4]


def rotary(seq_len: int | None = 64, dim: int = 16, **options: Any) -> dict[str, Array]:
    """Return cosines and sines."""
    tables = pecli.Rope(seq_len, dim, **options).tables()
    return {"cos": tables["cos"], "sin": tables["sin"]}


def longrope(length: int, long_factor: tuple[float, ...] = LONG) -> dict[str, Any]:
    """Return LongRoPE's options: its long factors belong to lengths beyond 32."""
    return {
        "scaling": "longrope",
        "long_factor": long_factor,
        "short_factor": SHORT,
        "original_max_position_embeddings": 32,
        "max_position_embeddings": 128,
        "length": length,
    }


def mrope(sections: tuple[int, int, int]) -> dict[str, Any]:
    positions = [TIMES, HEIGHTS, WIDTHS]
    return {"seq_len": None, "positions": positions, "mrope_section": sections}


def on_grid(grid: tuple[int, int], base: float) -> dict[str, Any]:
    return {"seq_len": None, "grid": grid, "base": base, "style": "pixtral"}


class Planted(NamedTuple):
    """Tensors with a mistake in them, the right scheme, and the sentence that names the mistake."""

    tensors: dict[str, Array]
    scheme: pecli.Scheme
    reason: str


PLANTED = {
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
    "a bias divided by the root of 128 channels": Planted(
        {"bias": ALIBI.in_dtype("float64").tables()["bias"] * ONE_BY_ROOT_128},
        ALIBI,
        "bias: values are scaled by 0.08838835; exact",
    ),
    "a bias divided by a negative root": Planted(
        {"bias": ALIBI.in_dtype("float64").tables()["bias"] * -ONE_BY_ROOT_128},
        ALIBI,
        "bias: values are scaled by -0.08838835; exact",
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

PLANTED |= {
    "a last row of zeros": Planted(
        {name: np.where(np.arange(64)[:, None] < 63, table, 0) for name, table in rotary().items()},
        pecli.Rope(64, 16),
        "cos, sin: the last row is padding; exact",
    ),
    "negative positions": Planted(
        {"cos": rotary()["cos"], "sin": -rotary()["sin"]},
        pecli.Rope(64, 16),
        "sin: the sign is flipped; exact",
    ),
    "short factors for a long context": Planted(
        rotary(**longrope(16)),
        pecli.Rope(64, 16, **longrope(128)),
        "cos, sin: short_factor is used where long_factor belongs; exact",
    ),
    "a reversed list of factors": Planted(
        rotary(**longrope(128, LONG[::-1])),
        pecli.Rope(64, 16, **longrope(128)),
        "cos, sin: long_factor is in reverse order; exact",
    ),
    "more pairs for time": Planted(
        rotary(**mrope((3, 2, 3))),
        pecli.Rope(dim=16, **mrope((2, 3, 3))),
        "cos, sin: mrope_section is 3,2,3 (the spec says 2,3,3); exact",
    ),
    "more pairs for time than anybody swaps": Planted(
        rotary(**mrope((4, 2, 2))),
        pecli.Rope(dim=16, **mrope((2, 3, 3))),
        "cos, sin: mrope_section is 4,2,2 (the spec says 2,3,3); exact",
    ),
    "rows for columns of a grid, and another base": Planted(
        rotary(**on_grid((6, 4), base=500.0)),
        pecli.Rope(dim=16, **on_grid((4, 6), base=10000.0)),
        "cos, sin: grid is 6x4 (the spec says 4x6), and base is 500 (the spec says 10000); exact",
    ),
    "other channels for the axes of a grid, and another base": Planted(
        rotary(None, 24, grid=(2, 4, 6), axes=(4, 8, 12), base=500.0),
        pecli.Rope(dim=24, grid=(2, 4, 6), axes=(8, 8, 8)),
        "cos, sin: axes is 4,8,12 (the spec says 8,8,8), and base is 500 (the spec says 10000); exact",
    ),
}


THOROUGH = "other channels for the axes of a grid, and another base"
"""Two mistakes in a grid take seconds to find; another case of them is in every run."""


@pytest.mark.parametrize("planted", PLANTED.values(), ids=PLANTED)
@pytest.mark.sample(*(name for name in PLANTED if name != THOROUGH))
def test_a_mistake_is_named_in_an_unusual_table(planted: Planted) -> None:
    """`planted` has tensors with a mistake, the right scheme, and the whole first sentence of the
    diagnosis, written by hand. For example, a bias with the heads last and max_bias 16: «bias: the
    table is transposed, and max_bias is 16 (the spec says 8); exact».
    """
    result = pecli.verify(planted.tensors, planted.scheme)
    assert result.diagnosis[0] == planted.reason


def test_wrong_rows_are_named_beside_errors_within_the_tolerance() -> None:
    """A sinusoidal table has noise up to 1e-4, a tenth of the tolerance, and 0.25 in rows 5 and 6."""
    noise = np.random.default_rng(0).uniform(-1e-4, 1e-4, VALUES.shape)
    table = VALUES + noise
    table[5:7] = 0.25
    result = pecli.verify({"pe": table}, SINUSOIDAL, atol=1e-3)

    assert result.diagnosis[0].startswith("pe: only rows 5, 6 differ; explains every element")


def test_waves_in_a_single_channel_of_padding_have_no_reason() -> None:
    """A table in halves has one channel per sine and one per cosine. Of one channel, neither is left:
    it is padding, and all zeros.
    """
    positions = np.arange(8, dtype=np.float32)
    result = pecli.verify(np.sin(positions + 1)[:, None], pecli.Sinusoidal(8, 1, layout="halves"))

    assert not result.passed
    assert result.explanations == ()
