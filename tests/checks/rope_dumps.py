"""A rotary table of 12 positions in the shapes that programs dump it in, right and wrong."""

from collections.abc import Callable

import ml_dtypes
import numpy as np

import pecli
from tests.checks.waves import Array, halves, interleaved, powers, waves, woven

LENGTH = 12
DIM = 16
BASE = 500000.0
CONFIG = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "rope_theta": BASE}
ROPE = pecli.Rope(seq_len=LENGTH, dim=DIM, theta=BASE)
ROTATED = pecli.Rope(seq_len=LENGTH, dim=DIM, theta=BASE, layout="halves")
ATOL = 1e-3
INV_FREQ = powers(BASE, DIM)
COS, SIN = waves(LENGTH, INV_FREQ).values()


def both(change: Callable[[Array], Array], cos: Array = COS, sin: Array = SIN) -> dict[str, Array]:
    return {"cos": change(cos), "sin": change(sin)}


def spoilt(table: Array, *place: int) -> Array:
    changed = table.copy()
    changed[place] += 0.01
    return changed


OTHERS = tuple(waves(LENGTH, powers(10000.0, DIM)).values())
POSITION_0 = np.ones_like(COS), np.zeros_like(SIN)


def matrices(cos: Array, sin: Array) -> Array:
    return np.stack([cos, -sin, sin, cos], -1).reshape(*cos.shape, 2, 2)


def fixed_point(table: Array, one: int, dtype: str) -> Array:
    return np.rint(table.astype(np.float64) * one).astype(dtype)


def cache(array: Array) -> dict[str, Array]:
    return {"cos_sin_cache": array}


DUMPS: dict[str, tuple[dict[str, Array], bool]] = {
    "one column per frequency": (both(np.copy), True),
    "halves": (both(halves), True),
    "big-endian complex": (cache((COS + 1j * SIN).astype(">c8")), True),
    "interleaved, where the model rotates halves": (both(interleaved), False),
    "transformers": (both(lambda x: halves(x)[None]), True),
    "a batch axis and a head axis": (both(lambda x: x[None, None]), True),
    "megatron": (both(lambda x: halves(x)[:, None, None]), True),
    "a batch of two": (both(lambda x: np.stack([x, x])), True),
    "a batch of three, doubled": (both(lambda x: np.stack([halves(x)] * 3)), True),
    "expanded heads": (both(lambda x: np.broadcast_to(x[None, None], (1, 4, LENGTH, DIM // 2)).copy()), True),
    "a batch and heads, doubled": (both(lambda x: np.tile(halves(x), (2, 4, 1, 1))), True),
    "a batch and heads, doubled otherwise": (both(lambda x: np.tile(interleaved(x), (2, 4, 1, 1))), False),
    "heads after positions": (both(lambda x: np.repeat(x[:, None], 4, 1)), True),
    "float64": (both(lambda x: x.astype(np.float64)), True),
    "float16": (both(lambda x: x.astype(np.float16)), True),
    "float16, doubled": (both(lambda x: halves(x).astype(np.float16)[None]), True),
    "int16": (both(lambda x: fixed_point(x, 32767, "int16")), True),
    "int16, doubled": (both(lambda x: fixed_point(halves(x), 32768 // 2, "int16")), True),
    "int8 is coarser than the tolerance": (both(lambda x: fixed_point(OTHERS[0], 127, "int8")), False),
    "within the tolerance": (both(lambda x: x + np.float32(5e-4)), True),
    "with frequencies": ({**both(halves), "inv_freq": INV_FREQ.astype(np.float32)}, True),
    "frequencies of float32 arithmetic": ({**both(halves), "inv_freq": (INV_FREQ * (1 + 4e-6)).astype("f4")}, True),
    "flat": (both(np.ravel), True),
    "flat, doubled": (both(lambda x: halves(x).ravel()), True),
    "transposed": (both(lambda x: x.T), True),
    "vLLM: cosines, then sines": (cache(np.concatenate([COS, SIN], -1)), True),
    "vLLM, flat": (cache(np.concatenate([COS, SIN], -1).ravel()), True),
    "SGLang: both, then both, doubled": (cache(np.concatenate([halves(COS), halves(SIN)], -1)), True),
    "pairs": (cache(np.stack([COS, SIN], -1)), True),
    "pairs, interleaved": (cache(woven(COS, SIN)), True),
    "pairs with axes of torchtune": (cache(np.stack([COS, SIN], -1)[None, :, None]), True),
    "complex": ({"freqs_cis": (COS + 1j * SIN).astype(np.complex64)}, True),
    "rotation matrices": (cache(matrices(COS, SIN)), True),
    "rotation matrices of a batch": (cache(np.stack([matrices(COS, SIN)] * 2)), True),
    "rotation matrices, transposed": (cache(matrices(COS, -SIN)), False),
    "stacked": (cache(np.stack([COS, SIN])), True),
    "stacked, doubled": (cache(np.stack([halves(COS), halves(SIN)])), True),
    "stacked, doubled otherwise": (cache(np.stack([interleaved(COS), interleaved(SIN)])), False),
    "rows of cosines, then rows of sines": (cache(np.concatenate([COS, SIN])), True),
    "sines first under a name of cosines": (cache(np.concatenate([SIN, COS], -1)), False),
    "all rows at position 0": (both(np.copy, *POSITION_0), False),
    "all rows at position 0, stacked": (cache(np.stack(POSITION_0)), False),
    "all rows at position 0, doubled, a batch": (both(lambda x: np.stack([halves(x)] * 2), *POSITION_0), False),
    "all rows at position 0, cosines, then sines": (cache(np.concatenate(POSITION_0, -1)), False),
    "flat, another base": (both(np.ravel, *OTHERS), False),
    "flat, an element missing": (both(lambda x: x.ravel()[:-1]), False),
    "other names": ({"cos_cached": halves(COS), "sin_cached": halves(SIN)}, True),
    "frequencies with axes": ({**both(halves), "inv_freq": INV_FREQ.astype(np.float32)[None, :, None]}, True),
    "frequencies off by 8": ({**both(halves), "inv_freq": (INV_FREQ / np.r_[np.ones(5), [8] * 3]).astype("f4")}, False),
    "frequencies off by 1e-4": ({**both(np.copy), "inv_freq": (INV_FREQ * (1 + 1e-4)).astype("f4")}, False),
    "frequencies in bfloat16": ({**both(np.copy), "inv_freq": INV_FREQ.astype(ml_dtypes.bfloat16)}, False),
    "frequencies in float16": ({**both(np.copy), "inv_freq": INV_FREQ.astype(np.float16)}, False),
    "another base": (both(np.copy, *OTHERS), False),
    "another base, doubled": (both(lambda x: halves(x)[None], *OTHERS), False),
    "another base, pairs": (cache(np.stack(OTHERS, -1)), False),
    "cos and sin exchanged": (both(halves, SIN, COS), False),
    "doubled with the sign changed": (both(lambda x: np.concatenate([x, -x], -1)), False),
    "an element of the second copy": (both(lambda x: np.stack([x, spoilt(x, 3, 2)])), False),
    "an element of the second half": (both(lambda x: spoilt(halves(x), 3, 13)), False),
    "an element of a matrix": (cache(spoilt(matrices(COS, SIN), 3, 2, 0, 1)), False),
    "a batch of other positions": (both(lambda x: np.stack([x, np.roll(x, 1, 0)])), False),
    "not a number": (both(lambda x: np.where(np.arange(DIM // 2) == 3, np.float32(np.nan), x)), False),
}  # fmt: skip
