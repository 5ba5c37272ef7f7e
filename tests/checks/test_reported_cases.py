"""Dumps and questions like those in bug reports, right and wrong ones, with the answer that is true
of each.

All arrays are made here with NumPy, by the formulas of the papers and of the projects that are
named; none of them is made with the code under test. A case has one dump, whether it is right, and
words that the answer must or must not have, written by hand.
"""

import json
import math
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import pecli
from pecli.checks import Answer
from tests.checks.waves import (
    Array,
    cos_and_sin_tables,
    doubled_as_halves,
    doubled_as_neighbours,
    interleaved_columns,
    inverse_frequencies,
)
from tests.exit_codes import SUCCESS
from tests.models.facts import write_gguf

RNG = np.random.default_rng(20)
BFLOAT16 = ml_dtypes.bfloat16


class Case(NamedTuple):
    """A dump, whether it is right, and words that the printed answer has or does not have."""

    name: str
    answer: Callable[[], Answer]
    passed: bool
    words: str = ""
    without: str = ""
    is_slow: bool = False


def tables(rows: Any, frequencies: Array, prefix: str = "") -> dict[str, Array]:
    """Return cosines and sines, with the columns of each frequency twice, as halves."""
    return {
        prefix + name: doubled_as_halves(table)
        for name, table in cos_and_sin_tables(rows, frequencies).items()
    }


def queries(*shape: int) -> Array:
    return RNG.normal(size=shape).astype(np.float32)


def turned_by(x: Array, angles: Array, layout: str = "halves", first: int = 0) -> Array:
    """Return heads (…, rows, channels) whose channels from `first` on are rotated by angles (rows, pairs)."""
    pairs = angles.shape[-1]
    part = x[..., first : first + 2 * pairs].astype(np.float64)
    left = part[..., :pairs] if layout == "halves" else part[..., 0::2]
    right = part[..., pairs:] if layout == "halves" else part[..., 1::2]
    cos = np.cos(angles)
    sin = np.sin(angles)
    rotated = (left * cos - right * sin, right * cos + left * sin)
    out = x.copy()
    joined = np.concatenate(rotated, -1) if layout == "halves" else interleaved_columns(*rotated)
    out[..., first : first + 2 * pairs] = joined
    return out


def angles_of(rows: Any, frequencies: Array) -> Array:
    """Return angles at so many positions, or at these."""
    positions = np.arange(rows) if isinstance(rows, int) else np.asarray(rows)
    return np.multiply.outer(positions, frequencies)


def verified(found: Any, model: Any, **options: Any) -> Callable[[], Answer]:
    return partial(pecli.verify, found, model, **options)


def rotated(
    model: Any, name: str, before: Array, after: Array, **options: Any
) -> Callable[[], Answer]:
    return partial(
        pecli.verify, {name: after}, model, before={name: before}, **{"atol": 1e-4, **options}
    )


def differ(a: Any, b: Any, **tolerance: float) -> Callable[[], Answer]:
    return partial(pecli.diff, a, b, **tolerance)


def identified(array: Any) -> Callable[[], Answer]:
    return partial(pecli.identify, array)


def layers_without_rope() -> Iterator[Case]:
    """EXAONE 4.0 32B has no rope in layers 3, 7, …, 63, and Llama 4 in 3, 7, …, 47."""
    x = queries(2, 12, 128)
    halves_by_1e6 = turned_by(x, angles_of(12, inverse_frequencies(1e6, 128)))
    pairs_by_5e5 = turned_by(x, angles_of(12, inverse_frequencies(500000.0, 128)), "interleaved")
    rotations = {
        ("exaone-4.0-32b", "blk.63.q"): halves_by_1e6,
        ("llama-4-maverick", "Kcur-7"): pairs_by_5e5,
    }
    for (model, name), after in rotations.items():
        left_alone = rotated(model, name, x, x)
        yield Case(f"{name} of {model} as before", left_alone, True, "without rope")
        no_rope = "no rope in this layer, but it is rotated"
        yield Case(f"{name} of {model} rotated", rotated(model, name, x, after), False, no_rope)


def layer_types() -> Iterator[Case]:
    """ModernBERT has full attention in layers 0, 3, 6, … with base 160,000; the others have 10,000."""
    x = queries(2, 14, 64)
    local = turned_by(x, angles_of(14, inverse_frequencies(1e4, 64)))
    full = turned_by(x, angles_of(14, inverse_frequencies(160000.0, 64)))
    name = "modernbert-base"
    for layer in ("k_3", "layers[6].attn.q", "Qcur-9"):
        yield Case(
            f"{layer} of modernbert by the base of full layers",
            rotated(name, layer, x, full),
            True,
            without="weak",
        )
        yield Case(
            f"{layer} of modernbert by the local base", rotated(name, layer, x, local), False
        )
    yield Case(
        "layer 4 of modernbert by the local base",
        rotated(name, "blk.4.q", x, local),
        True,
        without="weak",
    )
    yield Case(
        "queries of modernbert without a layer",
        rotated(name, "query_states", x, local),
        True,
        "weak: ",
    )
    local_tables = cos_and_sin_tables(24, inverse_frequencies(1e4, 256))
    both = {
        f"{module}.{key}": doubled_as_halves(table)
        for module in ("model.rotary_emb", "model.rotary_emb_local")
        for key, table in local_tables.items()
    }
    yield Case(
        "gemma-3-12b with one table for both kinds",
        verified(both, "gemma-3-12b", atol=1e-5),
        False,
        "right for sliding_attention layers",
    )


def square_tables() -> Iterator[Case]:
    """32 positions of 64 channels make square tables."""
    cos, sin = cos_and_sin_tables(32, inverse_frequencies(1e4, 64)).values()
    rope = pecli.Rope(32, 64)
    angles = np.outer(np.arange(48), inverse_frequencies(1e4, 48))
    pe = interleaved_columns(np.sin(angles), np.cos(angles)).astype(np.float32)
    yield Case(
        "cosines transposed, sines not",
        verified({"cos": cos.T, "sin": sin}, rope, atol=1e-5),
        False,
        "the table is transposed",
    )
    yield Case(
        "cosines and sines transposed",
        verified({"cos": cos.T, "sin": sin.T}, rope, atol=1e-5),
        True,
        "transposed",
    )
    yield Case(
        "a square sinusoidal table transposed",
        verified({"pe": pe.T.copy()}, pecli.Sinusoidal(48, 48), atol=1e-5),
        False,
        "the table is transposed",
    )
    yield Case(
        "cosines and their transposed ones",
        differ({"cos": cos}, {"cos": cos.T}, atol=1e-5),
        False,
        "the table is transposed",
    )


def masks() -> Iterator[Case]:
    visible = np.tri(9, dtype=bool)
    infinite = np.where(visible, 0.5, -np.inf)
    half = np.where(visible, 0.5, -65504.0).astype(np.float16)
    yield Case("-65504 for -inf, exactly", differ(infinite.astype(np.float16), half), False)
    yield Case(
        "-65504 for -inf, within a tolerance",
        differ(infinite.astype(np.float16), half, atol=1e-3),
        True,
        "stands for",
    )
    least = float(ml_dtypes.finfo(BFLOAT16).min)
    brain = np.where(visible, 0.5, least).astype(BFLOAT16)
    yield Case(
        "the least bfloat16 for -inf, exactly", differ(brain, infinite.astype(BFLOAT16)), False
    )
    yield Case(
        "the least bfloat16 for -inf, within a tolerance",
        differ(brain, infinite.astype(BFLOAT16), atol=1e-3),
        True,
        "stands for",
    )
    yield Case("-1e4 is no mask", differ(infinite, np.where(visible, 0.5, -1e4), atol=1e-3), False)


def integers() -> Iterator[Case]:
    numbers = np.array([[0, 1, 4], [5, 2, 3]])
    for dtype in ("int64", "uint16"):
        found = numbers.astype(dtype)
        yield Case(
            f"{dtype} of the same values, exactly",
            differ(found, numbers.astype("f8")),
            False,
            "the values themselves are equal",
            "scale",
        )
        yield Case(
            f"{dtype} of the same values",
            differ(numbers.astype("f4"), found, atol=0.1),
            True,
            "equal",
            "scale",
        )
        yield Case(f"{dtype} of other values", differ(found, numbers + 0.5, atol=0.1), False)


def float8() -> Iterator[Case]:
    table = cos_and_sin_tables(24, inverse_frequencies(1e6, 128))
    for dtype, atol in ((ml_dtypes.float8_e5m2, 0.13), (ml_dtypes.float8_e4m3fnuz, 0.07)):
        name = np.dtype(dtype).name
        stored = {key: doubled_as_halves(array).astype(dtype) for key, array in table.items()}
        yield Case(f"{name} tables of qwen3-8b", verified(stored, "qwen3-8b", atol=atol), True)
        yield Case(
            f"{name} tables of another base", verified(stored, "llama-2-7b", atol=atol), False
        )


def fixed_point() -> Iterator[Case]:
    rope = pecli.Rope(24, 64)
    table = cos_and_sin_tables(24, inverse_frequencies(1e4, 64), np.float64)
    for dtype, one in (("int8", 64), ("int16", 32767)):
        rounded = {key: np.rint(array * one).astype(dtype) for key, array in table.items()}
        floored = {key: np.floor(array * one).astype(dtype) for key, array in table.items()}
        for steps in (0.55, 0.95):
            yield Case(
                f"{dtype} within {steps} steps",
                verified(rounded, rope, atol=steps / one),
                True,
                f"1/{one}",
            )
        yield Case(
            f"{dtype} rounded down, within 0.9 steps",
            verified(floored, rope, atol=0.9 / one),
            False,
            "--atol",
        )


def vit_mae(height: int, width: int, dim: int) -> Array:
    """Return the table of Hugging Face's ViT-MAE: rows first, sines before cosines."""
    frequencies = 10000.0 ** (-np.arange(dim // 4) / (dim // 4))
    places = np.mgrid[:height, :width].reshape(2, -1)
    parts = []
    for axis in places:
        angles = np.outer(axis, frequencies)
        parts += [np.sin(angles), np.cos(angles)]
    return np.concatenate(parts, 1).astype(np.float32)


def decoders() -> Iterator[Case]:
    config = {
        "model_type": "vit_mae",
        "hidden_size": 96,
        "image_size": [48, 80],
        "patch_size": 16,
        "num_attention_heads": 4,
    }
    with_cls = np.concatenate([np.zeros((1, 64), np.float32), vit_mae(3, 5, 64)])
    right = {**config, "decoder_hidden_size": 64}
    yield Case(
        "a decoder of 64 channels",
        verified({"decoder.decoder_pos_embed": with_cls[None]}, right, atol=1e-5),
        True,
        "decoder",
    )
    yield Case(
        "a decoder of the encoder's width",
        verified(
            {"decoder.decoder_pos_embed": with_cls[None]},
            {**config, "decoder_hidden_size": 96},
            atol=1e-5,
        ),
        False,
    )
    angles = np.outer(np.arange(8 * 2 * 2), inverse_frequencies(1e4, 32))
    video = {
        "model_type": "videomae",
        "hidden_size": 64,
        "image_size": 32,
        "patch_size": 16,
        "num_frames": 16,
        "tubelet_size": 2,
        "decoder_hidden_size": 32,
    }
    table = interleaved_columns(np.sin(angles), np.cos(angles)).astype(np.float32)
    yield Case(
        "videomae's decoder of 32 channels",
        verified({"decoder.position_embeddings": table[None]}, video, atol=1e-5),
        True,
        "decoder",
    )


def order_of_functions() -> Iterator[Case]:
    cos, sin = cos_and_sin_tables(24, inverse_frequencies(1e4, 64)).values()
    rope = pecli.Rope(24, 64)
    for name in ("sincos_cached", "rope_sin_cos_emb"):
        yield Case(
            f"{name} with cosines first",
            verified({name: np.stack([cos, sin])}, rope, atol=1e-5),
            False,
            "sin and cos are swapped",
        )
        yield Case(
            f"{name} with sines first",
            verified({name: np.stack([sin, cos])}, rope, atol=1e-5),
            True,
        )
    yield Case(
        "pairs of a table that is called sin_cos",
        verified({"sin_cos": np.stack([cos, sin], -1)}, rope, atol=1e-5),
        False,
        "sin and cos are swapped",
    )


def on_grid(grid: tuple[int, ...], axes: tuple[int, ...], base: float) -> dict[str, Array]:
    """Return tables on a grid, in which each axis has channels of its own, one axis after the other."""
    places = np.indices(grid).reshape(len(grid), -1)
    parts = [
        np.outer(place, inverse_frequencies(base, dim))
        for place, dim in zip(places, axes, strict=True)
    ]
    angles = np.concatenate(parts, 1)
    return {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}


def tables_with_two_axes_of_positions() -> Iterator[Case]:
    config = {"model_type": "vit_mae", "hidden_size": 64, "image_size": [64, 96], "patch_size": 16}
    table = vit_mae(4, 6, 64)
    yield Case(
        "ViT-MAE as (H, W, D)",
        verified({"pos_embed": table.reshape(4, 6, 64)}, config, atol=1e-5),
        True,
    )
    transposed = table.reshape(4, 6, 64).swapaxes(0, 1)
    yield Case(
        "ViT-MAE as (W, H, D)",
        verified({"pos_embed": transposed.copy()}, config, atol=1e-5),
        False,
        is_slow=True,
    )
    rope = pecli.Rope(grid=(3, 7), dim=64, style="eva")
    grid = on_grid((3, 7), (32, 32), 10000.0)
    folded = {name: array.reshape(3, 7, 32) for name, array in grid.items()}
    yield Case("2-D rope as (H, W, D)", verified(folded, rope, atol=1e-5), True)


def wrong_channels() -> Iterator[Case]:
    """Phi-2 rotates the first 32 of 80 channels, GLM-4.5 the first 64 of 128."""
    x = queries(3, 16, 80)
    y = queries(3, 16, 128)
    last = "the last channels of a head are rotated, not the first"
    other_base = turned_by(x, angles_of(16, inverse_frequencies(250000.0, 32)), first=48)
    yield Case(
        "the last channels of phi-2 by another base",
        rotated("phi-2", "q", x, other_base),
        False,
        f"base is 250000 (the spec says 10000), and {last}",
        is_slow=True,
    )
    pairs = turned_by(y, angles_of(16, inverse_frequencies(1e6, 64)), "interleaved", first=64)
    yield Case(
        "the last channels of glm-4.5 as pairs",
        rotated("glm-4.5", "q", y, pairs),
        False,
        f"layout is interleaved (the spec says halves), and {last}",
        is_slow=True,
    )
    yield Case(
        "the right channels of glm-4.5",
        rotated("glm-4.5", "q", y, turned_by(y, angles_of(16, inverse_frequencies(1e6, 64)))),
        True,
    )


def zero_rows() -> Iterator[Case]:
    x = queries(2, 3, 20, 128)
    after = turned_by(x, angles_of(20, inverse_frequencies(1e6, 128)))
    after[..., 13:, :] = 0
    yield Case(
        "zeros after the prompt in a batch",
        rotated("qwen3-8b", "k", x, after),
        False,
        "rows 13–19 are zero after the rotation",
    )
    both = x.copy()
    both[..., 13:, :] = 0
    yield Case("zeros before and after", rotated("qwen3-8b", "k", both, after), True)
    other = turned_by(x[0], angles_of(20, inverse_frequencies(1e4, 128)))
    other[:, 17:] = 0
    yield Case(
        "zeros after the prompt, and another base",
        rotated("qwen3-8b", "k", x[0], other),
        False,
        "base is 10000 (the spec says 1000000), and rows 17–19 are zero",
        is_slow=True,
    )


def padding() -> Iterator[Case]:
    x = queries(2, 3, 12, 128)
    mask = np.ones((2, 12), int)
    mask[1, :4] = 0
    positions = np.maximum(np.cumsum(mask, 1) - 1, 0)
    after = turned_by(x, positions[:, None, :, None] * inverse_frequencies(500000.0, 128))
    for value in (np.inf, np.nan):
        strange = after.copy()
        strange[1, 2, 1] = value
        yield Case(
            f"{value} in one head of padding",
            rotated("llama-3-8b", "q", x, strange, attention_mask=mask),
            False,
            "128 of its values in padding are infinite or not numbers",
        )
    other = after.copy()
    other[1, :, :4] = 7
    yield Case(
        "other numbers in padding", rotated("llama-3-8b", "q", x, other, attention_mask=mask), True
    )


def noise() -> Iterator[Case]:
    keys = queries(4, 24, 128)
    for sigma in (0.004, 0.03):
        found = keys + sigma * queries(4, 24, 128)
        yield Case(
            f"noise of {sigma} in rotated keys",
            rotated(
                "mistral-7b-v0.1",
                "k",
                keys,
                turned_by(found, angles_of(24, inverse_frequencies(1e4, 128))),
            ),
            False,
            without="position",
        )
    steps = np.rint(keys * 7) / 7
    yield Case(
        "keys of four bits",
        rotated(
            "mistral-7b-v0.1",
            "k",
            keys,
            turned_by(steps.astype(np.float32), angles_of(24, inverse_frequencies(1e4, 128))),
        ),
        False,
        without="multiplied",
    )


def permuted_weights() -> Iterator[Case]:
    x = queries(3, 16, 128)
    pairs = turned_by(x, angles_of(16, inverse_frequencies(1e4, 128)), "interleaved")
    plain = turned_by(x, angles_of(16, inverse_frequencies(1e6, 128)))
    runtime = {"runtime": "llama.cpp"}
    yield Case(
        "mistral in llama.cpp",
        rotated("mistral-7b-v0.1", "Qcur-0", x, pairs, **runtime),
        True,
        "as llama.cpp permutes the weights",
    )
    yield Case(
        "mistral as Hugging Face has it",
        rotated("mistral-7b-v0.1", "Qcur-0", x, pairs),
        False,
        "layout is interleaved",
    )
    yield Case(
        "qwen2.5 in llama.cpp",
        rotated("qwen2.5-7b", "Qcur-0", x, plain, **runtime),
        True,
        without="permutes",
    )


def uninitialised_memory() -> Iterator[Case]:
    table = cos_and_sin_tables(40, inverse_frequencies(1e4, 64))
    rope = pecli.Rope(40, 64)
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, (7, 32), dtype=np.uint32).view(np.float32)
    for name, garbage in {
        "denormals": np.full((7, 32), 3.1e-41),
        "huge values": -2e28 * rng.normal(size=(7, 32)),
        "random bits": bits,
    }.items():
        sin = table["sin"].copy()
        sin[11:18] = garbage
        yield Case(
            f"{name} in some rows",
            verified({"cos": table["cos"], "sin": sin}, rope, atol=1e-5),
            False,
            "sin: rows 11–17 were never initialised",
        )
    x = queries(3, 16, 128)
    after = turned_by(x, angles_of(16, inverse_frequencies(1e4, 128)))
    after[:, 9:] = -7e26
    yield Case(
        "queries with huge values in some rows",
        rotated("llama-2-7b", "q", x, after),
        False,
        "rows 9–15 were never initialised",
    )
    yield Case(
        "two files, one with huge values",
        differ(
            table["cos"], np.where(np.arange(40)[:, None] == 6, np.float32(-7e26), table["cos"])
        ),
        False,
        "row 6 was never initialised",
    )


def narrow_rotation(x: Array, angles: Array, tables: Any, products: Any) -> Array:
    """Return rotated heads with cosines and sines in one dtype, and products and sums in another."""
    cos = np.cos(angles).astype(tables).astype(products)
    sin = np.sin(angles).astype(tables).astype(products)
    left, right = np.split(x.astype(products), 2, -1)
    return np.concatenate([left * cos - right * sin, right * cos + left * sin], -1)


def arithmetic() -> Iterator[Case]:
    x = queries(3, 48, 128)
    angles = angles_of(48, inverse_frequencies(1e6, 128))
    half = narrow_rotation(x, angles, np.float16, np.float32)
    yield Case(
        "float16 tables in a float32 rotation",
        rotated("qwen3-8b", "q", x, half, atol=1e-5),
        False,
        "float16-table",
    )
    brain = narrow_rotation(x.astype(BFLOAT16), angles, BFLOAT16, BFLOAT16)
    yield Case(
        "everything in bfloat16",
        rotated("qwen3-8b", "q", x.astype(BFLOAT16), brain, atol=1e-3),
        False,
        "rotated in bfloat16",
    )
    other = narrow_rotation(x, angles_of(48, inverse_frequencies(1e4, 128)), BFLOAT16, np.float32)
    yield Case(
        "bfloat16 tables of another base",
        rotated("qwen3-8b", "q", x, other, atol=1e-3),
        False,
        "base is 10000 (the spec says 1000000); computed by the recipe bfloat16-table",
        is_slow=True,  # The search takes most of its 2 s.
    )


def image_positions() -> Array:
    """Return time, height and width of 3 tokens of text, an image of 3 × 4, and 2 more tokens."""
    image = np.indices((1, 3, 4)).reshape(3, -1) + 3
    after = np.tile(np.arange(2) + 7, (3, 1))
    return np.concatenate([np.tile(np.arange(3), (3, 1)), image, after], 1)


def by_sections(positions: Array, frequencies: Array, sections: tuple[int, ...]) -> Array:
    """Return the angles of M-RoPE with blocks of frequencies for time, height and width."""
    axes = np.repeat(np.arange(3), sections)
    return np.asarray(positions[axes].T * frequencies)


def multimodal_positions() -> Iterator[Case]:
    positions = image_positions()
    x = queries(3, positions.shape[1], 128)
    frequencies = inverse_frequencies(1e6, 128)
    model = "qwen2.5-vl-3b"
    for sections in ((20, 22, 22), (8, 28, 28)):
        after = turned_by(x, by_sections(positions, frequencies, sections))
        said = ",".join(map(str, sections))
        yield Case(
            f"sections {said}",
            rotated(model, "q", x, after, positions=positions),
            False,
            f"mrope_section is {said} (the spec says 16,24,24)",
        )
    right = turned_by(x, by_sections(positions, frequencies, (16, 24, 24)))
    yield Case("sections 16,24,24", rotated(model, "q", x, right, positions=positions), True)
    yield Case(
        "a cache that was not moved",
        rotated(model, "k", x, x, shift=-3),
        False,
        "it was not moved",
        "M-RoPE",
    )
    moved = turned_by(x, np.full((len(positions.T), 1), 3.0) * frequencies)
    yield Case(
        "a cache that was moved back",
        rotated(model, "k", x, moved, shift=-3),
        False,
        without="M-RoPE",
    )


def grids() -> Iterator[Case]:
    two = pecli.Rope(grid=(7, 9), dim=96, axes=(32, 64))
    for base in (300.0, 2000.0):
        yield Case(
            f"axes 32,64 with base {base:g}",
            verified(on_grid((7, 9), (32, 64), base), two, atol=1e-5),
            False,
            f"base is {base:g} (the spec says 10000)",
        )
    yield Case(
        "axes 64,32 with base 300",
        verified(on_grid((7, 9), (64, 32), 300.0), two, atol=1e-5),
        False,
        "axes is 64,32 (the spec says 32,64), and base is 300 (the spec says 10000)",
        is_slow=True,
    )
    three = pecli.Rope(grid=(3, 4, 6), dim=80, axes=(16, 32, 32))
    yield Case(
        "axes 32,32,16",
        verified(on_grid((3, 4, 6), (32, 32, 16), 10000.0), three, atol=1e-5),
        False,
        "axes is 32,32,16 (the spec says 16,32,32)",
    )
    yield Case(
        "axes 16,32,32 with base 256",
        verified(on_grid((3, 4, 6), (16, 32, 32), 256.0), three, atol=1e-5),
        False,
        "base is 256 (the spec says 10000)",
        "style",
        is_slow=True,
    )


def sectioned(grid: tuple[int, ...], sections: tuple[int, ...]) -> dict[str, Array]:
    """Return tables on a grid whose axes share the frequencies of the whole dim, block by block."""
    frequencies = inverse_frequencies(1e4, 2 * sum(sections))
    parts = np.split(frequencies, np.cumsum(sections)[:-1])
    places = np.indices(grid).reshape(len(grid), -1)
    columns = [np.outer(place, part) for place, part in zip(places, parts, strict=True)]
    angles = np.concatenate(columns, 1)
    return {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}


def sections_on_grids() -> Iterator[Case]:
    words = "axes share the frequencies of the whole dim in sections"
    two = pecli.Rope(grid=(5, 7), dim=64, style="eva")
    yield Case(
        "two axes that share frequencies",
        verified(sectioned((5, 7), (16, 16)), two, atol=1e-5),
        False,
        words,
    )
    three = pecli.Rope(grid=(2, 4, 5), dim=128, style="flux")
    yield Case(
        "three axes that share frequencies",
        verified(sectioned((2, 4, 5), (8, 28, 28)), three, atol=1e-5),
        False,
        words,
        is_slow=True,
    )


def linear_scaling() -> Iterator[Case]:
    found = tables(40, inverse_frequencies(1e6, 128) / 4)
    command = "--scaling linear --factor 4"
    yield Case(
        "linear scaling in tables of qwen3-8b",
        verified(found, "qwen3-8b", atol=1e-4),
        False,
        "scaling is linear (the spec says none), and factor is 4",
    )
    yield Case(
        "a command for tables with linear scaling",
        verified(found, "qwen3-8b", atol=1e-4),
        False,
        command,
    )
    x = queries(3, 40, 128)
    after = turned_by(x, angles_of(40, inverse_frequencies(1e4, 128) / 2))
    yield Case(
        "linear scaling in queries of mistral",
        rotated("mistral-7b-v0.1", "q", x, after),
        False,
        "scaling is linear (the spec says none), and factor is 2",
    )


def across_head(x: Array, angles: Array) -> Array:
    """Return heads in which channel i is paired with channel i + head/2."""
    pairs = angles.shape[-1]
    middle = x.shape[-1] // 2
    left = x[..., :pairs].astype(np.float64)
    right = x[..., middle : middle + pairs].astype(np.float64)
    out = x.copy()
    out[..., :pairs] = left * np.cos(angles) - right * np.sin(angles)
    out[..., middle : middle + pairs] = right * np.cos(angles) + left * np.sin(angles)
    return out


def plain_reasons() -> Iterator[Case]:
    across = "channels are paired across the whole head"
    for model, channels, rotary in (("gpt-neox-20b", 96, 24), ("phi-2", 80, 32)):
        x = queries(3, 12, channels)
        after = across_head(x, angles_of(12, inverse_frequencies(1e4, rotary)))
        yield Case(
            f"pairs across the head of {model}", rotated(model, "q", x, after), False, across
        )
    y = queries(3, 14, 128)
    stuck = np.r_[np.arange(9), np.zeros(5)]
    yield Case(
        "decoding at position 0",
        rotated("qwen3-8b", "q", y, turned_by(y, angles_of(stuck, inverse_frequencies(1e6, 128)))),
        False,
        "from row 9 on, every row is at position 0",
        "packed",
    )
    two = y[:, :2]
    zero = turned_by(two, angles_of(2, inverse_frequencies(1e6, 128)))
    zero[:, 1] = 0
    yield Case(
        "two rows, the last one zero",
        rotated("qwen3-8b", "q", two, zero),
        False,
        "row 1 is zero after the rotation",
        "base",
    )


def t5_index(length: int, buckets: int, max_distance: int, *, causal: bool = False) -> Array:
    """Return `_relative_position_bucket` of T5 for queries and keys at 0, 1, 2, …"""
    relative = np.arange(length)[None] - np.arange(length)[:, None]
    offset = np.zeros_like(relative)
    distance = -np.minimum(relative, 0)
    if not causal:
        buckets //= 2
        offset = (relative > 0) * buckets
        distance = np.abs(relative)
    exact = buckets // 2
    logs = np.log(np.maximum(distance, 1) / exact) / math.log(max_distance / exact)
    large = np.minimum(exact + (logs * (buckets - exact)).astype(int), buckets - 1)
    return np.asarray(offset + np.where(distance < exact, distance, large), np.int32)


def deberta_index(length: int) -> Array:
    """Return `make_log_bucket_position` of DeBERTa with 256 buckets and 512 positions."""
    relative = np.arange(length)[:, None] - np.arange(length)[None]
    distance = np.abs(relative)
    logs = np.log(np.maximum(distance, 1) / 128) / math.log(511 / 128) * 127
    return np.where(distance <= 128, relative, np.sign(relative) * (np.ceil(logs) + 128)).astype(
        np.int32
    )


def swin_index(rows: int, columns: int) -> Array:
    """Return the `relative_position_index` of a window of Swin."""
    places = np.indices((rows, columns)).reshape(2, -1)
    offsets = places[:, :, None] - places[:, None]
    return np.asarray(
        (offsets[0] + rows - 1) * (2 * columns - 1) + offsets[1] + columns - 1, np.int32
    )


def relative_indices() -> Iterator[Case]:
    spec = pecli.Relative("t5", 90, buckets=64)
    for distance in (100, 512):
        yield Case(
            f"T5's max_distance of {distance}",
            verified({"index": t5_index(90, 64, distance)}, spec),
            False,
            f"max_distance is {distance} (the spec says 128)",
        )
    deberta = pecli.Relative("deberta", 400)
    yield Case("DeBERTa's index", verified({"index": deberta_index(400)}, deberta), True)
    yield Case(
        "DeBERTa's index negated",
        verified({"index": -deberta_index(400)}, deberta),
        False,
        "the table is transposed",
        is_slow=True,
    )
    yield Case(
        "identify T5's decoder",
        identified(t5_index(70, 32, 128, causal=True)),
        True,
        "pecli relative --style t5 --seq-len 70 --buckets 32 --max-distance 128 --causal",
    )
    yield Case(
        "identify DeBERTa's index",
        identified(deberta_index(560)),
        True,
        "pecli relative --style deberta --seq-len 560 --buckets 256 --max-distance 512",
    )
    yield Case(
        "identify a window of Swin",
        identified(swin_index(5, 9)),
        True,
        "pecli relative --style swin --grid 5x9",
    )
    yield Case(
        "random integers are no index",
        identified(RNG.integers(0, 32, (40, 40))),
        False,
        "not identified",
    )


def alibi(slopes: Array, length: int) -> Array:
    """Return the symmetric bias −slope · |i − j| of some heads."""
    distance = np.abs(np.subtract.outer(np.arange(length), np.arange(length)))
    return (-slopes[:, None, None] * distance).astype(np.float32)


def alibi_slopes(heads: int) -> Array:
    """Return the slopes of the paper, of a power of two and of other numbers of heads."""
    power = 2 ** int(math.log2(heads))
    slopes = 2.0 ** (-8 * np.arange(1, power + 1) / power)
    between = 2.0 ** (-4 * np.arange(1, 2 * power + 1, 2) / power)
    return np.concatenate([slopes, between[: heads - power]])


def detr(height: int, width: int, dim: int) -> Array:
    """Return DETR's table without `normalize`: positions from 1 on, sines and cosines in turn."""
    frequencies = 10000.0 ** (-2 * np.arange(dim // 4) / (dim // 2))
    parts = []
    for axis in np.indices((height, width)).reshape(2, -1) + 1:
        angles = np.outer(axis, frequencies)
        parts.append(interleaved_columns(np.sin(angles), np.cos(angles)))
    return np.concatenate(parts, 1).astype(np.float32)


def biases_and_grids_of_projects() -> Iterator[Case]:
    for first, last in ((0, 4), (6, 12)):
        part = alibi(alibi_slopes(12)[first:last], 10)
        yield Case(
            f"heads {first} to {last - 1} of 12",
            verified({"bias": part}, pecli.Alibi(12, 10), atol=1e-5),
            True,
            f"heads {first}–{last - 1} of 12",
        )
    yield Case(
        "no bias of 8 heads",
        verified({"bias": np.zeros((8, 10, 10), "f4")}, pecli.Alibi(8, 10), atol=1e-5),
        False,
        "there is no bias",
    )
    yield Case(
        "no slopes of 6 heads",
        verified({"slopes": np.zeros(6, "f4")}, pecli.Alibi(6), atol=1e-5),
        False,
        "there is no bias",
    )
    for height, width in ((5, 7), (9, 4)):
        scheme = pecli.Sinusoidal(grid=(height, width), dim=64, style="detr")
        yield Case(
            f"DETR on {height}x{width} without normalize",
            verified({"pe": detr(height, width, 64)}, scheme, atol=1e-5),
            False,
            "normalize is false (the spec says true)",
        )
    for rows, columns in ((4, 6), (9, 5)):
        window = pecli.Relative("swin", grid=(columns, rows))
        yield Case(
            f"Swin's {rows}x{columns}",
            verified({"index": swin_index(rows, columns)}, window),
            False,
            f"grid is {rows}x{columns} (the spec says {columns}x{rows})",
        )
    for grid, dim in (((2, 3, 5), 48), ((3, 2, 4), 72)):
        yield Case(
            f"LTX of {dim} channels without its scale",
            verified(
                ltx_unscaled(grid, dim), pecli.Rope(grid=grid, dim=dim, style="ltx"), atol=1e-3
            ),
            False,
            "grid_scale is 1,1,1",
        )


def ltx_unscaled(grid: tuple[int, int, int], dim: int) -> dict[str, Array]:
    """Return the tables of LTX-Video in diffusers, without `rope_interpolation_scale`."""
    places = np.indices(grid).reshape(3, -1).T.astype(np.float64)
    frequencies = 10000.0 ** np.linspace(0, 1, dim // 6) * math.pi / 2
    angles = (2 * places[:, None] - 1) * frequencies[:, None]  # time, height and width in turn
    angles = angles.reshape(len(places), -1)
    still = np.zeros((len(places), dim // 2 - angles.shape[1]))
    angles = np.concatenate([still, angles], 1)
    return {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}


def identified_by_plain_numbers() -> Iterator[Case]:
    for base, dim in ((10000.0, 96), (2000.0, 48)):
        frequencies = base ** (-np.arange(dim // 2) / (dim // 2 - 1))
        angles = angles_of(70, frequencies)
        table = np.concatenate([np.sin(angles), np.cos(angles)], 1).astype(np.float32)
        yield Case(
            f"freq_shift 1 with base {base:g}",
            identified(table),
            True,
            f"base={base:g}  layout=halves  cos_first=false  freq_shift=1 ",
        )
    for factor in (2, 8):
        cos, sin = cos_and_sin_tables(200, inverse_frequencies(1e4, 64) / factor).values()
        cache = {"cos_sin_cache": np.concatenate([cos, sin], 1)}
        yield Case(
            f"vLLM's cache with a factor of {factor}",
            identified(cache),
            True,
            f"cos_sin_cache: rope, recipe exact, max error 0\n  seq_len=200  dim=64  base=10000  offset=0  layout=compact  scaling=linear  factor={factor} ",
        )
    for base, dim in ((1e6, 96), (150000.0, 64)):
        stored = inverse_frequencies(base, dim).astype(BFLOAT16)
        yield Case(
            f"bfloat16 frequencies of base {base:g}",
            identified({"inv_freq": stored}),
            True,
            f"base={base:.0f} ",
        )
    yield Case(
        "only frequencies",
        verified({"inv_freq": inverse_frequencies(1e6, 128).astype("f4")}, "qwen3-8b"),
        True,
    )
    yield Case(
        "only frequencies of another base",
        verified({"inv_freq": inverse_frequencies(1e4, 128).astype("f4")}, "qwen3-8b"),
        False,
        "base is 10000 (the spec says 1000000)",
    )


def indexers() -> Iterator[Case]:
    """GLM-5's indexer rotates neighbours; DeepSeek-V3.2's rotates halves, the first 64 of 128 channels."""
    frequencies = inverse_frequencies(1e6, 64)
    glm = {
        "model_type": "glm_moe_dsa", "hidden_size": 512, "num_attention_heads": 4, "qk_nope_head_dim": 192,
        "qk_rope_head_dim": 64, "kv_lora_rank": 128, "index_head_dim": 128, "rope_theta": 1e6,
    }  # fmt: skip
    x = queries(3, 16, 128)
    first = turned_by(x, angles_of(16, frequencies))
    pairs = turned_by(x, angles_of(16, frequencies), "interleaved")
    yield Case("an indexer of halves", rotated(glm, "layers.2.indexer.q", x, first), True)
    yield Case(
        "pairs in an indexer of halves",
        rotated(glm, "layers.2.indexer.q", x, pairs),
        False,
        "layout is interleaved (the spec says halves)",
    )
    yield Case(
        "an indexer of pairs",
        rotated({**glm, "indexer_rope_interleave": True}, "indexer_k", x, pairs),
        True,
    )
    last = turned_by(x, angles_of(16, frequencies), first=64)
    yield Case(
        "the last channels of an indexer",
        rotated(glm, "indexer.k", x, last),
        False,
        "the last channels of a head are rotated, not the first",
    )


def arrangements() -> Iterator[Case]:
    cos, sin = cos_and_sin_tables(24, inverse_frequencies(1e4, 64)).values()
    folded = {"cos": doubled_as_neighbours(cos), "sin": interleaved_columns(-sin, sin)}
    yield Case(
        "the sign folded into interleaved sines",
        verified(folded, "gpt-j-6b", atol=1e-5),
        True,
        "the sign of the rotation is folded in",
    )
    stacked = {"cos": doubled_as_halves(cos)[None], "sin": np.concatenate([-sin, sin], 1)[None]}
    yield Case(
        "the sign folded into halves of a batch",
        verified(stacked, pecli.Rope(24, 64, layout="halves"), atol=1e-5),
        True,
        "the sign of the rotation is folded in",
    )
    wrong = {"cos": doubled_as_neighbours(cos), "sin": interleaved_columns(sin, -sin)}
    yield Case(
        "the other sign folded in",
        verified(wrong, "gpt-j-6b", atol=1e-5),
        False,
        "the sign is flipped",
    )
    for heads, length in ((8, 9), (12, 7)):
        keys = (alibi_slopes(heads)[:, None] * np.arange(length)).astype(np.float32)
        repeated = np.broadcast_to(keys[:, None], (heads, length, length)).copy()
        yield Case(
            f"keys of {heads} heads for every query",
            verified({"bias": repeated}, pecli.Alibi(heads, length, form="key"), atol=1e-5),
            True,
            "repeated for every query",
        )
    for some, heads in ((6, 8), (12, 20)):
        slopes = np.r_[alibi_slopes(some), np.zeros(heads - some)].astype("f4")
        yield Case(
            f"slopes of {some} of {heads} heads",
            verified({"slopes": slopes}, pecli.Alibi(some), atol=1e-5),
            True,
            f"zeros for {heads - some} more heads",
        )


def claims() -> Iterator[Case]:
    """Claims that were not true, or that were missing."""
    table = queries(30, 16)
    yield Case(
        "some rows of a file",
        differ(table, table[[2, 3, 4, 11, 29]]),
        False,
        "only rows 2–4, 11, 29 are there",
        "order",
    )
    yield Case(
        "every fifth row of a file",
        differ(table, table[1::5]),
        False,
        "only every 5th row is there, from row 1 on",
        "order",
    )
    yield Case(
        "rows between those of a file",
        differ(table[::3], table),
        False,
        "rows 1, 2, 4, 5, 7, 8, 10, 11 … are added",
    )
    right = cos_and_sin_tables(24, inverse_frequencies(1e4, 32))
    other = cos_and_sin_tables(24, inverse_frequencies(500000.0, 32))
    other["cos"][7, 3] = np.nan
    yield Case(
        "a NaN, and another base",
        differ(right, other),
        False,
        "base is 500000 (in A 10000)",
        is_slow=True,
    )
    x = queries(3, 16, 128)
    after = turned_by(x, angles_of(16, inverse_frequencies(1e6, 128)))
    after[1, 4, 60] = np.nan
    yield Case(
        "a NaN in queries of another base",
        rotated("mistral-7b-v0.1", "q", x, after),
        False,
        "base is 1000000 (the spec says 10000), and only row 4 differs",
    )
    wide = tables(48, inverse_frequencies(1e4, 96))
    yield Case(
        "a table of too many channels",
        verified(wide, "gpt-neox-20b", atol=1e-5),
        False,
        "rotary dimension is 96 (the spec says 24)",
        "seq_len is",
    )
    yield Case(
        "queries without those before",
        verified(
            {"q": turned_by(x, angles_of(16, inverse_frequencies(1e4, 128)))}, "mistral-7b-v0.1"
        ),
        False,
        "give --before FILE",
    )


SUBJECTS = (
    layers_without_rope, layer_types, square_tables, masks, integers, float8, fixed_point, decoders, order_of_functions,
    tables_with_two_axes_of_positions, wrong_channels, zero_rows, padding, noise, permuted_weights, uninitialised_memory,
    arithmetic, multimodal_positions, grids, sections_on_grids, linear_scaling, plain_reasons, relative_indices, biases_and_grids_of_projects,
    identified_by_plain_numbers, indexers, arrangements, claims,
)  # fmt: skip
REPORTED_CASES = [case for subject in SUBJECTS for case in subject()]


SLOW = {True: [pytest.mark.thorough], False: []}
TWINS = {
    "keys of 12 heads for every query",
    "noise of 0.004 in rotated keys",
    "sections 8,28,28",
    "LTX of 48 channels without its scale",
    "axes 32,64 with base 300",
    "DETR on 9x4 without normalize",
    "float8_e5m2 tables of another base",
    "T5's max_distance of 512",
}
"""Cases that differ only in a number from a case in the default run."""


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=SLOW[case.is_slow or case.name in TWINS])
        for case in REPORTED_CASES
    ],
)
def test_the_answer_about_a_reported_dump_is_true(case: Case) -> None:
    """REPORTED_CASES are dumps as in bug reports, made by NumPy from the formula of a model or of a
    project. Each states the call (verify, diff or identify), whether it must pass, and words that
    the printed answer must have (`words`) or not have (`without`). For example, layer 63 of EXAONE
    4.0 has no rotation: queries that are rotated there must fail with «no rope in this layer, but
    it is rotated».
    """
    answer = case.answer()
    text = str(answer)

    assert answer.passed == case.passed, text
    assert case.words in text
    if case.without:
        assert case.without not in text


class Command(NamedTuple):
    """A command line, the files that it reads, its exit code, and words that it prints or does not print."""

    name: str
    line: str
    files: Mapping[str, Any]
    code: int
    words: str = ""
    without: str = ""
    is_slow: bool = False


def config(model_type: str, **keys: Any) -> dict[str, Any]:
    return {"model_type": model_type, "hidden_size": 256, "num_attention_heads": 4, **keys}


def ignored_keys() -> Iterator[Command]:
    """Keys that the classes of transformers do not read leave the base at its default, 10,000."""
    for model_type, key in (
        ("mistral", "rope_base"),
        ("gemma2", "rotary_emb_base"),
        ("olmo2", "rope_freq_base"),
    ):
        files = {"config.json": config(model_type, **{key: 250000.0})}
        yield Command(
            f"{key} of {model_type}",
            "config config.json",
            files,
            0,
            f"{key} is 250000.0, which the code of",
            "base               250000",
        )
    files = {"config.json": config("gpt_neox", rotary_emb_base=250000)}
    yield Command(
        "rotary_emb_base of gpt_neox", "config config.json", files, 0, "250000", "ignores"
    )


def stretched_contexts() -> Iterator[Command]:
    """Qwen3's model card has YaRN with an original length of 32,768."""
    yield Command(
        "qwen3-14b to 65536",
        "extend qwen3-14b --to 65536",
        {},
        0,
        '"factor": 2.0, "original_max_position_embeddings": 32768',
        is_slow=True,
    )
    yield Command(
        "qwen3-32b to 98304",
        "extend qwen3-32b --to 98304",
        {},
        0,
        '"factor": 3.0, "original_max_position_embeddings": 32768',
        is_slow=True,
    )
    yield Command(
        "a model of 2507 to 128k",
        "extend qwen3-30b-a3b-2507 --to 128k",
        {},
        0,
        "nothing needs to change",
        "32768",
        is_slow=True,
    )
    yield Command(
        "a model of 2507 to 1M",
        "extend qwen3-235b-a22b-2507 --to 1M",
        {},
        0,
        '"factor": 4.0, "original_max_position_embeddings": 262144',
        "32768",
        is_slow=True,
    )
    yield Command(
        "a factor that is given",
        "extend qwen3-14b --to 65536 --factor 3 --original-len 24576",
        {},
        0,
        '"factor": 3.0, "original_max_position_embeddings": 24576',
        is_slow=True,
    )


def plain_words() -> Iterator[Command]:
    x = queries(1, 128)
    half = queries(3, 10, 128).astype(np.float16)
    after = turned_by(half.astype(np.float64), angles_of(10, inverse_frequencies(1e6, 128))).astype(
        np.float16
    )
    row = turned_by(x, angles_of([7], inverse_frequencies(1e4, 128)))[0]
    yield Command(
        "a text without numbers",
        "identify notes.txt",
        {"notes.txt": "no table here, only words"},
        3,
        "holds no numbers",
        "blank",
    )
    yield Command(
        "a file of empty lines",
        "verify log.txt --model llama-2-7b",
        {"log.txt": "\n\n\n"},
        3,
        "holds no numbers",
    )
    yield Command(
        "one row before and after",
        "verify a.npy --before b.npy --model llama-2-7b --offset 7 --atol 1e-5",
        {"a.npy": row, "b.npy": x[0]},
        0,
        "a single row",
        "alike",
    )
    yield Command(
        "rows of different lengths",
        "verify a.npy --before b.npy --model llama-2-7b",
        {"a.npy": x[0, :96], "b.npy": x[0]},
        2,
        "they must be alike",
    )
    yield Command(
        "a misspelt --model",
        "verify a.npy --model qwen3-8bb",
        {"a.npy": x},
        2,
        "--model is 'qwen3-8bb'",
        "--config",
    )
    yield Command(
        "a misspelt --config",
        "rope --config qwen3-8bb --seq-len 4",
        {},
        2,
        "--config is 'qwen3-8bb'",
        "--model is",
    )
    for name, other in (("up", 100), ("down", -100)):
        moved = np.nextafter(after, np.float16(other))
        yield Command(
            f"float16 queries one place {name}",
            "verify a.npy --before b.npy --model qwen3-8b",
            {"a.npy": moved, "b.npy": half},
            1,
            "allow --max-ulp 1",
        )


def other_readers() -> Iterator[Command]:
    text = {"hidden_size": 256, "num_attention_heads": 4, "head_dim": 64, "rope_theta": 250000}
    for sections in ([8, 12, 12], [12, 10, 10]):
        scaling = {"rope_type": "default", "mrope_section": sections}
        thinker = {"text_config": {**text, "rope_scaling": scaling}}
        files = {"config.json": {"model_type": "qwen3_asr", "thinker_config": thinker}}
        yield Command(
            f"a thinker with sections {sections}",
            "config config.json",
            files,
            0,
            "thinker: rope",
            "all layers: rope",
        )
    for model_type in ("qwen2", "phi3"):
        files = {"config.json": config(model_type, rope_traditional=True)}
        yield Command(
            f"rope_traditional of {model_type}",
            "config config.json",
            files,
            0,
            "mlx-lm rotates neighbouring channels",
        )
    x = queries(3, 10, 64)
    pairs = turned_by(x, angles_of(10, inverse_frequencies(1e4, 64)), "interleaved")
    files = {"config.json": config("llama", rope_traditional=True), "a.npy": pairs, "b.npy": x}
    line = "verify a.npy --before b.npy --config config.json --atol 1e-4"
    yield Command(
        "neighbours that mlx-lm rotates",
        f"{line} --runtime mlx-lm",
        files,
        0,
        "as mlx-lm reads rope_traditional",
    )
    yield Command(
        "neighbours that transformers does not rotate",
        f"{line} --runtime transformers",
        files,
        1,
        "layout is interleaved",
    )
    yield Command(
        "the indexer of deepseek-v3.2",
        "config deepseek-v3.2",
        {},
        0,
        "the indexer rotates the first 64 of 128 channels, as halves",
    )


COMMANDS = [
    command
    for subject in (ignored_keys, stretched_contexts, plain_words, other_readers)
    for command in subject()
]


@pytest.mark.parametrize(
    "command",
    [pytest.param(row, id=row.name, marks=SLOW[row.is_slow]) for row in COMMANDS],
)
def test_a_command_answers_a_reported_question(
    command: Command, run_pecli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """COMMANDS are questions as in bug reports. Each has a command line, the files that it reads,
    its exit code, and words that it must print (`words`) or not print (`without`). For example,
    `config config.json` of a Mistral with the key rope_base, which transformers does not read, must
    state that the key is ignored, and not print its value as the base.
    """
    monkeypatch.chdir(tmp_path)
    for name, content in command.files.items():
        write(Path(name), content)
    outcome = run_pecli(*command.line.split())
    printed = outcome.out + outcome.err

    assert outcome.exit_code == command.code, printed
    assert command.words in printed
    if command.without:
        assert command.without not in printed


def write(path: Path, content: Any) -> None:
    """Write an array, a configuration or a text."""
    if isinstance(content, np.ndarray):
        np.save(path, content)
    elif isinstance(content, dict):
        path.write_text(json.dumps(content))
    else:
        path.write_text(content)


@pytest.mark.parametrize(
    ("architecture", "keys", "unrotated"),
    [
        pytest.param("smollm3", {}, [3, 7, 11], id="smollm3"),
        pytest.param("llama4", {}, [3, 7, 11], id="llama4"),
        pytest.param(
            "llama4", {"attention.sliding_window": 0}, [], id="llama4 without a sliding window"
        ),
        pytest.param("afmoe", {"attention.sliding_window": 2048}, [3, 7, 11], id="afmoe"),
        pytest.param("cohere2", {"attention.sliding_window": 4096}, [3, 7, 11], id="cohere2"),
        pytest.param(
            "cohere2",
            {"attention.sliding_window": 4096, "attention.sliding_window_pattern": 3},
            [2, 5, 8, 11],
            id="cohere2, every 3rd",
        ),
        pytest.param(
            "cohere2",
            {"attention.sliding_window_pattern": [True, False] * 6},
            [1, 3, 5, 7, 9, 11],
            id="cohere2, listed",
        ),
        pytest.param(
            "cohere2moe",
            {"leading_dense_block_count": 2},
            [4, 8],
            id="cohere2moe after 2 dense layers",
        ),
        pytest.param(
            "smallthinker", {"attention.sliding_window": 4096}, [0, 4, 8], id="smallthinker"
        ),
        pytest.param("smallthinker", {}, [], id="smallthinker without a sliding window"),
        pytest.param("exaone4", {}, [], id="exaone4 of 12 layers"),
        pytest.param("exaone4", {"block_count": 64}, [*range(3, 64, 4)], id="exaone4 of 64 layers"),
        pytest.param(
            "muse-glimmer", {"attention.sliding_window": 512}, [3, 7, 11], id="muse-glimmer"
        ),
        pytest.param("llama", {}, [], id="llama"),
    ],
)
def test_a_gguf_file_states_which_layers_llama_cpp_leaves_unrotated(
    architecture: str, keys: dict[str, Any], unrotated: list[int], tmp_path: Path
) -> None:
    """Expected are the layers that src/models of llama.cpp does not rotate, as read from its source,
    for an architecture and keys of a .gguf file. It has 12 layers unless the keys state another
    block_count.
    """
    values = {
        "context_length": 2048,
        "embedding_length": 256,
        "attention.head_count": 2,
        "block_count": 12,
    }
    path = write_gguf(tmp_path / "m.gguf", architecture, {**values, **keys})
    model = pecli.load_model(path)
    layers = range({**values, **keys}["block_count"])

    assert [layer for layer in layers if model.is_unrotated(f"blk.{layer}.q")] == unrotated


@pytest.mark.parametrize(
    ("name", "is_rotated", "passed"),
    [
        pytest.param("Qcur-7", False, True, id="layer 7 as it was"),
        pytest.param("Qcur-7", True, False, id="layer 7 rotated"),
        pytest.param("Qcur-6", True, True, id="layer 6 rotated"),
        pytest.param("Qcur-6", False, False, id="layer 6 as it was"),
    ],
)
def test_queries_of_a_gguf_file_are_rotated_except_in_layers_without_rope(
    name: str, is_rotated: bool, passed: bool, tmp_path: Path
) -> None:
    """SmolLM3 leaves every fourth layer (3, 7, 11) unrotated. Queries of layer 7 (in llama.cpp's
    names, Qcur-7) pass only as they were before, and those of layer 6 only if neighbouring channels
    are rotated, as of a .gguf file, by NumPy's formula.
    """
    values = {
        "context_length": 2048,
        "embedding_length": 256,
        "attention.head_count": 2,
        "block_count": 12,
    }
    path = write_gguf(tmp_path / "m.gguf", "smollm3", values)
    x = queries(2, 10, 128)
    after = x
    if is_rotated:
        after = turned_by(x, angles_of(10, inverse_frequencies(1e4, 128)), "interleaved")
    result = pecli.verify({name: after}, path, before={name: x}, atol=1e-5, reasons=False)

    assert result.passed == passed


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
@pytest.mark.parametrize(
    ("first_command", "second_command"),
    [
        pytest.param(
            "rope --seq-len 2 --dim 4 -o one.h",
            "rope --seq-len 2 --dim 4 --theta 500 -o two.h",
            id="tables of two bases",
        ),
        pytest.param(
            "golden phi-2 --format h -o first",
            "golden qwen2.5-7b --format h -o second",
            id="golden vectors of two models",
        ),
        pytest.param(
            "alibi --heads 2 --slopes -o x.h",
            "alibi --heads 2 --slopes --prefix other -o y/x.h",
            id="one name in two folders",
        ),
    ],
)
def test_two_headers_compile_together(
    first_command: str,
    second_command: str,
    run_pecli: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two commands write a C header each. A program includes both, so the names of their arrays
    must differ; the C compiler accepts them with -Wall and -Werror.
    """
    monkeypatch.chdir(tmp_path)
    Path("y").mkdir()

    for command in (first_command, second_command):
        assert run_pecli(*command.split()).exit_code == SUCCESS

    headers = sorted(str(path) for path in Path().rglob("*.h"))
    source = "".join(f'#include "{header}"\n' for header in headers)
    names = re.findall(
        r"static const \w+ (\w+)\[", "".join(Path(path).read_text() for path in headers)
    )

    assert len(names) == len(set(names))

    Path("both.c").write_text(f"{source}int main(void) {{ return 0; }}\n")
    options = [
        "-Wall",
        "-Wno-unused-const-variable",
        "-Wno-unused-variable",
        "-Werror",
        "-fsyntax-only",
    ]
    compiled = subprocess.run(
        ["cc", *options, "both.c"], check=False, capture_output=True, text=True
    )

    assert compiled.returncode == SUCCESS, compiled.stderr
