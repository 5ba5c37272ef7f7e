"""A rotary table of 12 positions in the shapes that programs dump it in, right and wrong."""

from collections.abc import Callable

import ml_dtypes
import numpy as np

import pecli
from tests.checks.waves import (
    Array,
    cos_and_sin_tables,
    doubled_as_halves,
    doubled_as_neighbours,
    interleaved_columns,
    inverse_frequencies,
)

LENGTH = 12
DIM = 16
BASE = 500000.0
CONFIG = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "rope_theta": BASE}
ROPE = pecli.Rope(seq_len=LENGTH, dim=DIM, theta=BASE)
ROTATED = pecli.Rope(seq_len=LENGTH, dim=DIM, theta=BASE, layout="halves")
ATOL = 1e-3
INV_FREQ = inverse_frequencies(BASE, DIM)
COS, SIN = cos_and_sin_tables(LENGTH, INV_FREQ).values()
"""cos and sin of position · 500000^(−2i/16), by NumPy in float64, rounded to float32."""


def cosines_and_sines(
    change: Callable[[Array], Array], cos: Array = COS, sin: Array = SIN
) -> dict[str, Array]:
    """Return COS and SIN, or other tables, after a change such as `doubled_as_halves`."""
    return {"cos": change(cos), "sin": change(sin)}


def with_wrong_element(table: Array, *place: int) -> Array:
    """Return a copy in which one element is 0.01 more, ten times what ATOL allows."""
    changed = table.copy()
    changed[place] += 0.01
    return changed


OTHERS = tuple(cos_and_sin_tables(LENGTH, inverse_frequencies(10000.0, DIM)).values())
"""Cosines and sines of base 10000 instead of 500000."""

POSITION_0 = np.ones_like(COS), np.zeros_like(SIN)
"""Cosines and sines of tables whose rows are all at position 0."""


def matrices(cos: Array, sin: Array) -> Array:
    """Return the rotation ((cos, −sin), (sin, cos)) of each position and frequency."""
    return np.stack([cos, -sin, sin, cos], -1).reshape(*cos.shape, 2, 2)


def fixed_point(table: Array, one: int, dtype: str) -> Array:
    """Return a table in integers, of which `one` stands for 1."""
    return np.rint(table.astype(np.float64) * one).astype(dtype)


def as_cos_sin_cache(array: Array) -> dict[str, Array]:
    return {"cos_sin_cache": array}


DUMPS: dict[str, tuple[dict[str, Array], bool]] = {
    "one column per frequency": (cosines_and_sines(np.copy), True),
    "halves": (cosines_and_sines(doubled_as_halves), True),
    "big-endian complex": (as_cos_sin_cache((COS + 1j * SIN).astype(">c8")), True),
    "interleaved, where the model rotates halves": (cosines_and_sines(doubled_as_neighbours), False),
    "transformers": (cosines_and_sines(lambda x: doubled_as_halves(x)[None]), True),
    "a batch axis and a head axis": (cosines_and_sines(lambda x: x[None, None]), True),
    "megatron": (cosines_and_sines(lambda x: doubled_as_halves(x)[:, None, None]), True),
    "a batch of two": (cosines_and_sines(lambda x: np.stack([x, x])), True),
    "a batch of three, doubled": (cosines_and_sines(lambda x: np.stack([doubled_as_halves(x)] * 3)), True),
    "expanded heads": (cosines_and_sines(lambda x: np.broadcast_to(x[None, None], (1, 4, LENGTH, DIM // 2)).copy()), True),
    "a batch and heads, doubled": (cosines_and_sines(lambda x: np.tile(doubled_as_halves(x), (2, 4, 1, 1))), True),
    "a batch and heads, doubled otherwise": (cosines_and_sines(lambda x: np.tile(doubled_as_neighbours(x), (2, 4, 1, 1))), False),
    "heads after positions": (cosines_and_sines(lambda x: np.repeat(x[:, None], 4, 1)), True),
    "float64": (cosines_and_sines(lambda x: x.astype(np.float64)), True),
    "float16": (cosines_and_sines(lambda x: x.astype(np.float16)), True),
    "float16, doubled": (cosines_and_sines(lambda x: doubled_as_halves(x).astype(np.float16)[None]), True),
    "int16": (cosines_and_sines(lambda x: fixed_point(x, 32767, "int16")), True),
    "int16, doubled": (cosines_and_sines(lambda x: fixed_point(doubled_as_halves(x), 32768 // 2, "int16")), True),
    "int8 is coarser than the tolerance": (cosines_and_sines(lambda x: fixed_point(OTHERS[0], 127, "int8")), False),
    "within the tolerance": (cosines_and_sines(lambda x: x + np.float32(5e-4)), True),
    "with frequencies": ({**cosines_and_sines(doubled_as_halves), "inv_freq": INV_FREQ.astype(np.float32)}, True),
    "frequencies of float32 arithmetic": ({**cosines_and_sines(doubled_as_halves), "inv_freq": (INV_FREQ * (1 + 4e-6)).astype("f4")}, True),
    "flat": (cosines_and_sines(np.ravel), True),
    "flat, doubled": (cosines_and_sines(lambda x: doubled_as_halves(x).ravel()), True),
    "transposed": (cosines_and_sines(lambda x: x.T), True),
    "vLLM: cosines, then sines": (as_cos_sin_cache(np.concatenate([COS, SIN], -1)), True),
    "vLLM, flat": (as_cos_sin_cache(np.concatenate([COS, SIN], -1).ravel()), True),
    "SGLang: both, then both, doubled": (as_cos_sin_cache(np.concatenate([doubled_as_halves(COS), doubled_as_halves(SIN)], -1)), True),
    "pairs": (as_cos_sin_cache(np.stack([COS, SIN], -1)), True),
    "pairs, interleaved": (as_cos_sin_cache(interleaved_columns(COS, SIN)), True),
    "pairs with axes of torchtune": (as_cos_sin_cache(np.stack([COS, SIN], -1)[None, :, None]), True),
    "complex": ({"freqs_cis": (COS + 1j * SIN).astype(np.complex64)}, True),
    "rotation matrices": (as_cos_sin_cache(matrices(COS, SIN)), True),
    "rotation matrices of a batch": (as_cos_sin_cache(np.stack([matrices(COS, SIN)] * 2)), True),
    "rotation matrices, transposed": (as_cos_sin_cache(matrices(COS, -SIN)), False),
    "stacked": (as_cos_sin_cache(np.stack([COS, SIN])), True),
    "stacked, doubled": (as_cos_sin_cache(np.stack([doubled_as_halves(COS), doubled_as_halves(SIN)])), True),
    "stacked, doubled otherwise": (as_cos_sin_cache(np.stack([doubled_as_neighbours(COS), doubled_as_neighbours(SIN)])), False),
    "rows of cosines, then rows of sines": (as_cos_sin_cache(np.concatenate([COS, SIN])), True),
    "sines first under a name of cosines": (as_cos_sin_cache(np.concatenate([SIN, COS], -1)), False),
    "all rows at position 0": (cosines_and_sines(np.copy, *POSITION_0), False),
    "all rows at position 0, stacked": (as_cos_sin_cache(np.stack(POSITION_0)), False),
    "all rows at position 0, doubled, a batch": (cosines_and_sines(lambda x: np.stack([doubled_as_halves(x)] * 2), *POSITION_0), False),
    "all rows at position 0, cosines, then sines": (as_cos_sin_cache(np.concatenate(POSITION_0, -1)), False),
    "flat, another base": (cosines_and_sines(np.ravel, *OTHERS), False),
    "flat, an element missing": (cosines_and_sines(lambda x: x.ravel()[:-1]), False),
    "other names": ({"cos_cached": doubled_as_halves(COS), "sin_cached": doubled_as_halves(SIN)}, True),
    "frequencies with axes": ({**cosines_and_sines(doubled_as_halves), "inv_freq": INV_FREQ.astype(np.float32)[None, :, None]}, True),
    "frequencies off by 8": ({**cosines_and_sines(doubled_as_halves), "inv_freq": (INV_FREQ / np.r_[np.ones(5), [8] * 3]).astype("f4")}, False),
    "frequencies off by 1e-4": ({**cosines_and_sines(np.copy), "inv_freq": (INV_FREQ * (1 + 1e-4)).astype("f4")}, False),
    "frequencies in bfloat16": ({**cosines_and_sines(np.copy), "inv_freq": INV_FREQ.astype(ml_dtypes.bfloat16)}, False),
    "frequencies in float16": ({**cosines_and_sines(np.copy), "inv_freq": INV_FREQ.astype(np.float16)}, False),
    "another base": (cosines_and_sines(np.copy, *OTHERS), False),
    "another base, doubled": (cosines_and_sines(lambda x: doubled_as_halves(x)[None], *OTHERS), False),
    "another base, pairs": (as_cos_sin_cache(np.stack(OTHERS, -1)), False),
    "cos and sin exchanged": (cosines_and_sines(doubled_as_halves, SIN, COS), False),
    "doubled with the sign changed": (cosines_and_sines(lambda x: np.concatenate([x, -x], -1)), False),
    "an element of the second copy": (cosines_and_sines(lambda x: np.stack([x, with_wrong_element(x, 3, 2)])), False),
    "an element of the second half": (cosines_and_sines(lambda x: with_wrong_element(doubled_as_halves(x), 3, 13)), False),
    "an element of a matrix": (as_cos_sin_cache(with_wrong_element(matrices(COS, SIN), 3, 2, 0, 1)), False),
    "a batch of other positions": (cosines_and_sines(lambda x: np.stack([x, np.roll(x, 1, 0)])), False),
    "not a number": (cosines_and_sines(lambda x: np.where(np.arange(DIM // 2) == 3, np.float32(np.nan), x)), False),
}  # fmt: skip
