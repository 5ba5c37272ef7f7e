"""Dumps and questions like those in bug reports, right and wrong ones, with the answer that is true
of each.

All arrays are made here with NumPy, by the formulas of the papers and of the projects that are
named; none of them is made with the code under test. A function yields the cases of one rule, and
the test of the rule follows it. A case has one dump, whether it is right, and words that the answer
must or must not have, written by hand.
"""

import contextlib
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
from tests.exit_codes import CHECK_FAILED, FILE_ERROR, SUCCESS, USAGE_ERROR
from tests.models.facts import write_gguf

RNG = np.random.default_rng(20)
BFLOAT16 = ml_dtypes.bfloat16


class Case(NamedTuple):
    """A question about a dump, and what is true of its answer.

    Attributes:
        name: The id of the case.
        answer: Calls `verify`, `diff` or `identify`, and returns the answer.
        passed: True if the dump is right, two dumps are equal, or a table can be identified.
        states: Words that the printed answer has.
        does_not_state: Words that it does not have, since they would be wrong or misleading.
        is_thorough: True if the case is slow, or differs only in a number from a case in every run.
    """

    name: str
    answer: Callable[[], Answer]
    passed: bool
    states: str = ""
    does_not_state: str = ""
    is_thorough: bool = False


def cases_of(rule: Callable[[], Iterator[Case]]) -> pytest.MarkDecorator:
    """Return the mark that gives a test its `case`, one after the other."""
    marks = {True: [pytest.mark.thorough], False: []}
    rows = [pytest.param(case, id=case.name, marks=marks[case.is_thorough]) for case in rule()]
    return pytest.mark.parametrize("case", rows)


def assert_answer(case: Case) -> None:
    """Assert that the answer of a case passes or fails, and that its text has the words of the case."""
    answer = case.answer()
    text = str(answer)

    assert answer.passed == case.passed, text
    assert case.states in text
    if case.does_not_state:
        assert case.does_not_state not in text


def tables(rows: Any, frequencies: Array, prefix: str = "") -> dict[str, Array]:
    """Return cosines and sines (rows, channels), with the columns of each frequency twice, as halves."""
    return {
        prefix + name: doubled_as_halves(table)
        for name, table in cos_and_sin_tables(rows, frequencies).items()
    }


def queries(*shape: int) -> Array:
    """Return random queries (heads, rows, channels)."""
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
    """Return the call that verifies tables by a model or a scheme."""
    return partial(pecli.verify, found, model, **options)


def rotated(
    model: Any, name: str, before: Array, after: Array, **options: Any
) -> Callable[[], Answer]:
    """Return the call that verifies queries by those before the rotation, within 1e-4 by default."""
    return partial(
        pecli.verify, {name: after}, model, before={name: before}, **{"atol": 1e-4, **options}
    )


def differ(a: Any, b: Any, **tolerance: float) -> Callable[[], Answer]:
    """Return the call that compares two dumps."""
    return partial(pecli.diff, a, b, **tolerance)


def identified(array: Any) -> Callable[[], Answer]:
    """Return the call that identifies the scheme and the parameters of a table."""
    return partial(pecli.identify, array)


def layers_without_rope() -> Iterator[Case]:
    x = queries(2, 12, 128)
    halves_by_1e6 = turned_by(x, angles_of(12, inverse_frequencies(1e6, 128)))
    pairs_by_5e5 = turned_by(x, angles_of(12, inverse_frequencies(500000.0, 128)), "interleaved")
    rotations = {
        ("exaone-4.0-32b", "blk.63.q"): halves_by_1e6,
        ("llama-4-maverick", "Kcur-7"): pairs_by_5e5,
    }
    for (model, name), after in rotations.items():
        left_alone = rotated(model, name, x, x)
        yield Case(f"{name} of {model} as before", left_alone, passed=True, states="without rope")
        no_rope = "no rope in this layer, but it is rotated"
        yield Case(
            f"{name} of {model} rotated",
            rotated(model, name, x, after),
            passed=False,
            states=no_rope,
        )


@cases_of(layers_without_rope)
def test_queries_of_a_layer_without_rope_pass_only_as_they_were(case: Case) -> None:
    """Some models rotate nothing in some layers: EXAONE 4.0 32B in 3, 7, …, 63, and Llama 4 in
    3, 7, …, 47. Queries pass there if they are the same as before, and fail if NumPy rotated them.
    """
    assert_answer(case)


def layer_types() -> Iterator[Case]:
    x = queries(2, 14, 64)
    local = turned_by(x, angles_of(14, inverse_frequencies(1e4, 64)))
    full = turned_by(x, angles_of(14, inverse_frequencies(160000.0, 64)))
    name = "modernbert-base"
    for layer in ("k_3", "layers[6].attn.q", "Qcur-9"):
        yield Case(
            f"{layer} of modernbert by the base of full layers",
            rotated(name, layer, x, full),
            passed=True,
            does_not_state="weak",
        )
        yield Case(
            f"{layer} of modernbert by the local base", rotated(name, layer, x, local), passed=False
        )
    yield Case(
        "layer 4 of modernbert by the local base",
        rotated(name, "blk.4.q", x, local),
        passed=True,
        does_not_state="weak",
    )
    yield Case(
        "queries of modernbert without a layer",
        rotated(name, "query_states", x, local),
        passed=True,
        states="weak: ",
    )


@cases_of(layer_types)
def test_queries_are_checked_by_the_base_of_their_layer(case: Case) -> None:
    """ModernBERT has full attention in layers 0, 3, 6, … with base 160,000; the others have 10,000. The
    number in a tensor's name decides, and a name without a number is a weak pass: either base may do.
    """
    assert_answer(case)


def one_table_for_both_layer_types() -> Iterator[Case]:
    local_tables = cos_and_sin_tables(24, inverse_frequencies(1e4, 256))
    both = {
        f"{module}.{key}": doubled_as_halves(table)
        for module in ("model.rotary_emb", "model.rotary_emb_local")
        for key, table in local_tables.items()
    }
    yield Case(
        "gemma-3-12b with one table for both kinds",
        verified(both, "gemma-3-12b", atol=1e-5),
        passed=False,
        states="right for sliding_attention layers",
    )


@cases_of(one_table_for_both_layer_types)
def test_one_table_for_two_layer_types_is_right_for_one_of_them(case: Case) -> None:
    """Gemma 3 has base 10,000 in layers with a sliding window, and 1,000,000 in the others. The file has
    the tables of the first, by NumPy, under the names of both modules.
    """
    assert_answer(case)


def square_tables() -> Iterator[Case]:
    cos, sin = cos_and_sin_tables(32, inverse_frequencies(1e4, 64)).values()
    rope = pecli.Rope(32, 64)
    angles = np.outer(np.arange(48), inverse_frequencies(1e4, 48))
    pe = interleaved_columns(np.sin(angles), np.cos(angles)).astype(np.float32)
    yield Case(
        "cosines transposed, sines not",
        verified({"cos": cos.T, "sin": sin}, rope, atol=1e-5),
        passed=False,
        states="the table is transposed",
    )
    yield Case(
        "cosines and sines transposed",
        verified({"cos": cos.T, "sin": sin.T}, rope, atol=1e-5),
        passed=True,
        states="transposed",
    )
    yield Case(
        "a square sinusoidal table transposed",
        verified({"pe": pe.T.copy()}, pecli.Sinusoidal(48, 48), atol=1e-5),
        passed=False,
        states="the table is transposed",
    )
    yield Case(
        "cosines and their transposed ones",
        differ({"cos": cos}, {"cos": cos.T}, atol=1e-5),
        passed=False,
        states="the table is transposed",
    )


@cases_of(square_tables)
def test_a_transposed_square_table_is_named_although_its_shape_fits(case: Case) -> None:
    """32 positions of 64 channels make square tables of cosines, 32 × 32, which are transposed here by
    NumPy; only cosines and sines that are both transposed are an arrangement that passes.
    """
    assert_answer(case)


def masks() -> Iterator[Case]:
    visible = np.tri(9, dtype=bool)
    infinite = np.where(visible, 0.5, -np.inf)
    half = np.where(visible, 0.5, -65504.0).astype(np.float16)
    yield Case("-65504 for -inf, exactly", differ(infinite.astype(np.float16), half), passed=False)
    yield Case(
        "-65504 for -inf, within a tolerance",
        differ(infinite.astype(np.float16), half, atol=1e-3),
        passed=True,
        states="stands for",
    )
    least = float(ml_dtypes.finfo(BFLOAT16).min)
    brain = np.where(visible, 0.5, least).astype(BFLOAT16)
    yield Case(
        "the least bfloat16 for -inf, exactly",
        differ(brain, infinite.astype(BFLOAT16)),
        passed=False,
    )
    yield Case(
        "the least bfloat16 for -inf, within a tolerance",
        differ(brain, infinite.astype(BFLOAT16), atol=1e-3),
        passed=True,
        states="stands for",
    )
    yield Case(
        "-1e4 is no mask", differ(infinite, np.where(visible, 0.5, -1e4), atol=1e-3), passed=False
    )


@cases_of(masks)
def test_only_the_least_number_of_a_dtype_stands_for_minus_infinity_in_a_mask(case: Case) -> None:
    """Programs write −65504, the least float16, or the least bfloat16 instead of −inf where attention is
    masked. That is the same mask within a tolerance, but not exactly; −10,000 is another number.
    """
    assert_answer(case)


def integers() -> Iterator[Case]:
    numbers = np.array([[0, 1, 4], [5, 2, 3]])
    for dtype in ("int64", "uint16"):
        found = numbers.astype(dtype)
        yield Case(
            f"{dtype} of the same values, exactly",
            differ(found, numbers.astype("f8")),
            passed=False,
            states="the values themselves are equal",
            does_not_state="scale",
        )
        yield Case(
            f"{dtype} of the same values",
            differ(numbers.astype("f4"), found, atol=0.1),
            passed=True,
            states="equal",
            does_not_state="scale",
        )
        yield Case(f"{dtype} of other values", differ(found, numbers + 0.5, atol=0.1), passed=False)


@cases_of(integers)
def test_integers_are_compared_by_value_with_floating_point_numbers(case: Case) -> None:
    """The dtype counts in an exact comparison, and the values within a tolerance. Equal values must never
    be explained by a scale.
    """
    assert_answer(case)


def float8() -> Iterator[Case]:
    table = cos_and_sin_tables(24, inverse_frequencies(1e6, 128))
    for dtype, atol in ((ml_dtypes.float8_e5m2, 0.13), (ml_dtypes.float8_e4m3fnuz, 0.07)):
        name = np.dtype(dtype).name
        stored = {key: doubled_as_halves(array).astype(dtype) for key, array in table.items()}
        yield Case(
            f"{name} tables of qwen3-8b", verified(stored, "qwen3-8b", atol=atol), passed=True
        )
        yield Case(
            f"{name} tables of another base",
            verified(stored, "llama-2-7b", atol=atol),
            passed=False,
            is_thorough=name == "float8_e5m2",
        )


@cases_of(float8)
def test_tables_in_float8_are_checked_within_their_rounding_errors(case: Case) -> None:
    """Below 1, float8_e5m2 is off by 1/16 at most and float8_e4m3fnuz by 1/32; the tolerances are about
    twice that. NumPy's tables of base 1,000,000 are right for Qwen3, and wrong for Llama 2 (10,000).
    """
    assert_answer(case)


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
                passed=True,
                states=f"1/{one}",
            )
        yield Case(
            f"{dtype} rounded down, within 0.9 steps",
            verified(floored, rope, atol=0.9 / one),
            passed=False,
            states="--atol",
        )


@cases_of(fixed_point)
def test_integers_that_store_multiples_of_a_step_are_read_as_fixed_point(case: Case) -> None:
    """int8 stores cosines as multiples of 1/64, and int16 of 1/32767. Rounded to nearest they are off by
    half a step, and pass within 0.55; rounded down by up to one, and fail within 0.9.
    """
    assert_answer(case)


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
        passed=True,
        states="decoder",
    )
    yield Case(
        "a decoder of the encoder's width",
        verified(
            {"decoder.decoder_pos_embed": with_cls[None]},
            {**config, "decoder_hidden_size": 96},
            atol=1e-5,
        ),
        passed=False,
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
        passed=True,
        states="decoder",
    )


@cases_of(decoders)
def test_the_decoder_of_a_masked_autoencoder_has_a_table_of_its_own_width(case: Case) -> None:
    """`decoder_hidden_size` states the channels of a decoder's table: ViT-MAE has one for a grid (3 × 5
    here) after a row of zeros, VideoMAE a plain one for 8 · 2 · 2 patches, both by NumPy.
    """
    assert_answer(case)


def order_of_functions() -> Iterator[Case]:
    cos, sin = cos_and_sin_tables(24, inverse_frequencies(1e4, 64)).values()
    rope = pecli.Rope(24, 64)
    for name in ("sincos_cached", "rope_sin_cos_emb"):
        yield Case(
            f"{name} with cosines first",
            verified({name: np.stack([cos, sin])}, rope, atol=1e-5),
            passed=False,
            states="sin and cos are swapped",
        )
        yield Case(
            f"{name} with sines first",
            verified({name: np.stack([sin, cos])}, rope, atol=1e-5),
            passed=True,
        )
    yield Case(
        "pairs of a table that is called sin_cos",
        verified({"sin_cos": np.stack([cos, sin], -1)}, rope, atol=1e-5),
        passed=False,
        states="sin and cos are swapped",
    )


@cases_of(order_of_functions)
def test_the_name_of_a_tensor_states_whether_sines_or_cosines_come_first(case: Case) -> None:
    """`sincos_cached` and similar names have sines first, and cosines in front of them are swapped."""
    assert_answer(case)


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
        passed=True,
    )
    transposed = table.reshape(4, 6, 64).swapaxes(0, 1)
    yield Case(
        "ViT-MAE as (W, H, D)",
        verified({"pos_embed": transposed.copy()}, config, atol=1e-5),
        passed=False,
        is_thorough=True,
    )
    rope = pecli.Rope(grid=(3, 7), dim=64, style="eva")
    grid = on_grid((3, 7), (32, 32), 10000.0)
    folded = {name: array.reshape(3, 7, 32) for name, array in grid.items()}
    yield Case("2-D rope as (H, W, D)", verified(folded, rope, atol=1e-5), passed=True)


@cases_of(tables_with_two_axes_of_positions)
def test_a_table_of_a_grid_may_have_an_axis_for_rows_and_one_for_columns(case: Case) -> None:
    """The grids are 4 × 6 and 3 × 7: (rows, columns, channels) passes, and (columns, rows, channels)
    fails.
    """
    assert_answer(case)


def wrong_channels() -> Iterator[Case]:
    x = queries(3, 16, 80)
    y = queries(3, 16, 128)
    last = "the last channels of a head are rotated, not the first"
    other_base = turned_by(x, angles_of(16, inverse_frequencies(250000.0, 32)), first=48)
    yield Case(
        "the last channels of phi-2 by another base",
        rotated("phi-2", "q", x, other_base),
        passed=False,
        states=f"base is 250000 (the spec says 10000), and {last}",
        is_thorough=True,
    )
    pairs = turned_by(y, angles_of(16, inverse_frequencies(1e6, 64)), "interleaved", first=64)
    yield Case(
        "the last channels of glm-4.5 as pairs",
        rotated("glm-4.5", "q", y, pairs),
        passed=False,
        states=f"layout is interleaved (the spec says halves), and {last}",
        is_thorough=True,
    )
    yield Case(
        "the right channels of glm-4.5",
        rotated("glm-4.5", "q", y, turned_by(y, angles_of(16, inverse_frequencies(1e6, 64)))),
        passed=True,
    )


@cases_of(wrong_channels)
def test_rotation_of_the_last_channels_instead_of_the_first_is_named(case: Case) -> None:
    """Phi-2 rotates the first 32 of 80 channels, GLM-4.5 the first 64 of 128; NumPy rotates the last ones
    here, by another base or in another layout as well. The last case rotates the right ones.
    """
    assert_answer(case)


def zero_rows() -> Iterator[Case]:
    x = queries(2, 3, 20, 128)
    after = turned_by(x, angles_of(20, inverse_frequencies(1e6, 128)))
    after[..., 13:, :] = 0
    yield Case(
        "zeros after the prompt in a batch",
        rotated("qwen3-8b", "k", x, after),
        passed=False,
        states="rows 13–19 are zero after the rotation",
    )
    both = x.copy()
    both[..., 13:, :] = 0
    yield Case("zeros before and after", rotated("qwen3-8b", "k", both, after), passed=True)
    other = turned_by(x[0], angles_of(20, inverse_frequencies(1e4, 128)))
    other[:, 17:] = 0
    yield Case(
        "zeros after the prompt, and another base",
        rotated("qwen3-8b", "k", x[0], other),
        passed=False,
        states="base is 10000 (the spec says 1000000), and rows 17–19 are zero",
        is_thorough=True,
    )


@cases_of(zero_rows)
def test_rows_that_became_zero_are_named_unless_they_were_zero_before(case: Case) -> None:
    """A cache has more rows than the prompt had tokens: NumPy clears the last 7 or 3 of 20 rows after the
    rotation. Rows of zeros before it are zeros after it as well, and right.
    """
    assert_answer(case)


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
            passed=False,
            states="128 of its values in padding are infinite or not numbers",
        )
    other = after.copy()
    other[1, :, :4] = 7
    yield Case(
        "other numbers in padding",
        rotated("llama-3-8b", "q", x, other, attention_mask=mask),
        passed=True,
    )


@cases_of(padding)
def test_padding_may_have_any_finite_values(case: Case) -> None:
    """Four tokens of the second sequence are padding. Attention multiplies their values by 0, which infinity
    and NaN survive: 128 channels of one head are that here. The number 7 passes.
    """
    assert_answer(case)


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
            passed=False,
            does_not_state="position",
            is_thorough=sigma == 0.004,
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
        passed=False,
        does_not_state="multiplied",
    )


@cases_of(noise)
def test_noise_in_queries_fails_without_an_invented_reason(case: Case) -> None:
    """Keys with random noise, or rounded to multiples of 1/7 as by four bits, are rotated correctly. They
    fail, but not for wrong positions or a factor, which a search for reasons might fit to the noise.
    """
    assert_answer(case)


def permuted_weights() -> Iterator[Case]:
    x = queries(3, 16, 128)
    pairs = turned_by(x, angles_of(16, inverse_frequencies(1e4, 128)), "interleaved")
    plain = turned_by(x, angles_of(16, inverse_frequencies(1e6, 128)))
    runtime = {"runtime": "llama.cpp"}
    yield Case(
        "mistral in llama.cpp",
        rotated("mistral-7b-v0.1", "Qcur-0", x, pairs, **runtime),
        passed=True,
        states="as llama.cpp permutes the weights",
    )
    yield Case(
        "mistral as Hugging Face has it",
        rotated("mistral-7b-v0.1", "Qcur-0", x, pairs),
        passed=False,
        states="layout is interleaved",
    )
    yield Case(
        "qwen2.5 in llama.cpp",
        rotated("qwen2.5-7b", "Qcur-0", x, plain, **runtime),
        passed=True,
        does_not_state="permutes",
    )


@cases_of(permuted_weights)
def test_queries_of_llama_cpp_are_compared_in_the_order_of_its_weights(case: Case) -> None:
    """llama.cpp permutes the weights of Mistral, so that neighbouring channels rotate: right with its
    runtime, and another layout without. It does not permute those of Qwen2.5.
    """
    assert_answer(case)


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
            passed=False,
            states="sin: rows 11–17 were never initialised",
        )


@cases_of(uninitialised_memory)
def test_rows_of_tables_that_were_never_written_are_named(case: Case) -> None:
    """Memory that was never written holds what was there before: denormals, huge values or random bits,
    which NumPy writes to rows 11 to 17.
    """
    assert_answer(case)


def uninitialised_rows_elsewhere() -> Iterator[Case]:
    table = cos_and_sin_tables(40, inverse_frequencies(1e4, 64))
    x = queries(3, 16, 128)
    after = turned_by(x, angles_of(16, inverse_frequencies(1e4, 128)))
    after[:, 9:] = -7e26
    yield Case(
        "queries with huge values in some rows",
        rotated("llama-2-7b", "q", x, after),
        passed=False,
        states="rows 9–15 were never initialised",
    )
    yield Case(
        "two files, one with huge values",
        differ(
            table["cos"], np.where(np.arange(40)[:, None] == 6, np.float32(-7e26), table["cos"])
        ),
        passed=False,
        states="row 6 was never initialised",
    )


@cases_of(uninitialised_rows_elsewhere)
def test_rows_of_queries_or_of_a_file_that_were_never_written_are_named(case: Case) -> None:
    """−7e26 is no number of attention; NumPy writes it to rows 9 to 15 of rotated queries, and to row 6 of
    one of two files.
    """
    assert_answer(case)


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
        passed=False,
        states="float16-table",
    )
    brain = narrow_rotation(x.astype(BFLOAT16), angles, BFLOAT16, BFLOAT16)
    yield Case(
        "everything in bfloat16",
        rotated("qwen3-8b", "q", x.astype(BFLOAT16), brain, atol=1e-3),
        passed=False,
        states="rotated in bfloat16",
    )
    other = narrow_rotation(x, angles_of(48, inverse_frequencies(1e4, 128)), BFLOAT16, np.float32)
    yield Case(
        "bfloat16 tables of another base",
        rotated("qwen3-8b", "q", x, other, atol=1e-3),
        passed=False,
        states="base is 10000 (the spec says 1000000); computed by the recipe bfloat16-table",
        is_thorough=True,  # The search takes most of its 2 s.
    )


@cases_of(arithmetic)
def test_a_rotation_in_too_small_a_dtype_is_named(case: Case) -> None:
    """NumPy rotates queries of Qwen3 with tables, or with everything, in 16 bits. The answer names the
    recipe: what was rounded to which dtype.
    """
    assert_answer(case)


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
        text = ",".join(map(str, sections))
        yield Case(
            f"sections {text}",
            rotated(model, "q", x, after, positions=positions),
            passed=False,
            states=f"mrope_section is {text} (the spec says 16,24,24)",
            is_thorough=sections == (8, 28, 28),
        )
    right = turned_by(x, by_sections(positions, frequencies, (16, 24, 24)))
    yield Case("sections 16,24,24", rotated(model, "q", x, right, positions=positions), passed=True)


@cases_of(multimodal_positions)
def test_wrong_sections_of_m_rope_are_named(case: Case) -> None:
    """Qwen2.5-VL divides its 64 frequencies into 16 for time, 24 for height and 24 for width. NumPy rotates
    with other divisions, which fail, and with this one, which passes.
    """
    assert_answer(case)


def shifted_caches() -> Iterator[Case]:
    positions = image_positions()
    x = queries(3, positions.shape[1], 128)
    frequencies = inverse_frequencies(1e6, 128)
    model = "qwen2.5-vl-3b"
    yield Case(
        "a cache that was not moved",
        rotated(model, "k", x, x, shift=-3),
        passed=False,
        states="it was not moved",
        does_not_state="M-RoPE",
    )
    moved = turned_by(x, np.full((len(positions.T), 1), 3.0) * frequencies)
    yield Case(
        "a cache that was moved back",
        rotated(model, "k", x, moved, shift=-3),
        passed=False,
        does_not_state="M-RoPE",
    )


@cases_of(shifted_caches)
def test_a_cache_that_was_shifted_wrongly_is_not_explained_by_m_rope(case: Case) -> None:
    """A shift by −3 rotates all keys by the angles of −3. The cache here was not rotated, or rotated by +3
    instead: errors of a plain angle, which is the same on M-RoPE's three axes.
    """
    assert_answer(case)


def grids() -> Iterator[Case]:
    two = pecli.Rope(grid=(7, 9), dim=96, axes=(32, 64))
    for base in (300.0, 2000.0):
        yield Case(
            f"axes 32,64 with base {base:g}",
            verified(on_grid((7, 9), (32, 64), base), two, atol=1e-5),
            passed=False,
            states=f"base is {base:g} (the spec says 10000)",
            is_thorough=base == 300.0,
        )
    yield Case(
        "axes 64,32 with base 300",
        verified(on_grid((7, 9), (64, 32), 300.0), two, atol=1e-5),
        passed=False,
        states="axes is 64,32 (the spec says 32,64), and base is 300 (the spec says 10000)",
        is_thorough=True,
    )


@cases_of(grids)
def test_the_base_and_the_axes_of_a_grid_are_found_together(case: Case) -> None:
    """Expected is a 7 × 9 grid with base 10,000, whose rows have 32 of 96 channels and whose columns have
    64. NumPy's tables have another base, or 64 and 32 channels.
    """
    assert_answer(case)


def grids_of_three_axes() -> Iterator[Case]:
    three = pecli.Rope(grid=(3, 4, 6), dim=80, axes=(16, 32, 32))
    yield Case(
        "axes 32,32,16",
        verified(on_grid((3, 4, 6), (32, 32, 16), 10000.0), three, atol=1e-5),
        passed=False,
        states="axes is 32,32,16 (the spec says 16,32,32)",
    )
    yield Case(
        "axes 16,32,32 with base 256",
        verified(on_grid((3, 4, 6), (16, 32, 32), 256.0), three, atol=1e-5),
        passed=False,
        states="base is 256 (the spec says 10000)",
        does_not_state="style",
        is_thorough=True,
    )


@cases_of(grids_of_three_axes)
def test_the_base_and_the_axes_of_three_dimensions_are_found(case: Case) -> None:
    """Expected is a 3 × 4 × 6 grid with base 10,000, whose axes have 16, 32 and 32 of 80 channels. NumPy's
    tables have 32, 32 and 16 channels, or base 256.
    """
    assert_answer(case)


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
        passed=False,
        states=words,
    )
    three = pecli.Rope(grid=(2, 4, 5), dim=128, style="flux")
    yield Case(
        "three axes that share frequencies",
        verified(sectioned((2, 4, 5), (8, 28, 28)), three, atol=1e-5),
        passed=False,
        states=words,
        is_thorough=True,
    )


@cases_of(sections_on_grids)
def test_axes_that_share_the_frequencies_of_one_another_are_named(case: Case) -> None:
    """Each axis of EVA and Flux has all frequencies, for its own channels. NumPy's tables divide one row of
    frequencies among the axes instead, as M-RoPE does.
    """
    assert_answer(case)


def linear_scaling() -> Iterator[Case]:
    found = tables(40, inverse_frequencies(1e6, 128) / 4)
    command = "--scaling linear --factor 4"
    yield Case(
        "linear scaling in tables of qwen3-8b",
        verified(found, "qwen3-8b", atol=1e-4),
        passed=False,
        states="scaling is linear (the spec says none), and factor is 4",
    )
    yield Case(
        "a command for tables with linear scaling",
        verified(found, "qwen3-8b", atol=1e-4),
        passed=False,
        states=command,
    )
    x = queries(3, 40, 128)
    after = turned_by(x, angles_of(40, inverse_frequencies(1e4, 128) / 2))
    yield Case(
        "linear scaling in queries of mistral",
        rotated("mistral-7b-v0.1", "q", x, after),
        passed=False,
        states="scaling is linear (the spec says none), and factor is 2",
    )


@cases_of(linear_scaling)
def test_linear_scaling_that_the_model_does_not_have_is_named(case: Case) -> None:
    """Linear scaling divides all frequencies by a factor, as NumPy does here with those of Qwen3 (4) and
    Mistral (2), which have no scaling. The command that makes such tables is printed as well.
    """
    assert_answer(case)


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


def pairs_across_the_head() -> Iterator[Case]:
    across = "channels are paired across the whole head"
    for model, channels, rotary in (("gpt-neox-20b", 96, 24), ("phi-2", 80, 32)):
        x = queries(3, 12, channels)
        after = across_head(x, angles_of(12, inverse_frequencies(1e4, rotary)))
        yield Case(
            f"pairs across the head of {model}",
            rotated(model, "q", x, after),
            passed=False,
            states=across,
        )


@cases_of(pairs_across_the_head)
def test_pairs_across_the_whole_head_are_named(case: Case) -> None:
    """GPT-NeoX rotates 24 of 96 channels and Phi-2 32 of 80, in halves of these 24 or 32. NumPy pairs
    channel i with i + 48 or i + 40 instead, half of the whole head.
    """
    assert_answer(case)


def stuck_positions() -> Iterator[Case]:
    y = queries(3, 14, 128)
    stuck = np.r_[np.arange(9), np.zeros(5)]
    yield Case(
        "decoding at position 0",
        rotated("qwen3-8b", "q", y, turned_by(y, angles_of(stuck, inverse_frequencies(1e6, 128)))),
        passed=False,
        states="from row 9 on, every row is at position 0",
        does_not_state="packed",
    )


@cases_of(stuck_positions)
def test_a_position_that_no_longer_increases_is_named(case: Case) -> None:
    """Nine rows of a prompt have positions 0 to 8, and the five decoded ones after it position 0. They are
    not called packed sequences, which would begin at 0 and count on.
    """
    assert_answer(case)


def zeros_in_a_short_prompt() -> Iterator[Case]:
    two = queries(3, 2, 128)
    zero = turned_by(two, angles_of(2, inverse_frequencies(1e6, 128)))
    zero[:, 1] = 0
    yield Case(
        "two rows, the last one zero",
        rotated("qwen3-8b", "q", two, zero),
        passed=False,
        states="row 1 is zero after the rotation",
        does_not_state="base",
    )


@cases_of(zeros_in_a_short_prompt)
def test_a_zero_row_is_not_explained_by_another_base(case: Case) -> None:
    """Of two rows, the first is at position 0, where every base gives the same; so with a second row of
    zeros, nothing hints at a base.
    """
    assert_answer(case)


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


def distances_of_t5() -> Iterator[Case]:
    spec = pecli.Relative("t5", 90, buckets=64)
    for distance in (100, 512):
        yield Case(
            f"T5's max_distance of {distance}",
            verified({"index": t5_index(90, 64, distance)}, spec),
            passed=False,
            states=f"max_distance is {distance} (the spec says 128)",
            is_thorough=distance == 512,
        )


@cases_of(distances_of_t5)
def test_another_max_distance_of_t5_is_named(case: Case) -> None:
    """The index is that of T5's `_relative_position_bucket` in NumPy with max_distance 100 or 512; the spec
    has 128, T5's default.
    """
    assert_answer(case)


def signs_of_relative_positions() -> Iterator[Case]:
    deberta = pecli.Relative("deberta", 400)
    yield Case("DeBERTa's index", verified({"index": deberta_index(400)}, deberta), passed=True)
    yield Case(
        "DeBERTa's index negated",
        verified({"index": -deberta_index(400)}, deberta),
        passed=False,
        states="the table is transposed",
        is_thorough=True,
    )


@cases_of(signs_of_relative_positions)
def test_deberta_index_passes_and_its_negative_is_transposed(case: Case) -> None:
    """The index is `make_log_bucket_position` of DeBERTa in NumPy, a function of query − key that changes
    its sign if they are exchanged.
    """
    assert_answer(case)


def identified_indices() -> Iterator[Case]:
    yield Case(
        "identify T5's decoder",
        identified(t5_index(70, 32, 128, causal=True)),
        passed=True,
        states="pecli relative --style t5 --seq-len 70 --buckets 32 --max-distance 128 --causal",
    )
    yield Case(
        "identify DeBERTa's index",
        identified(deberta_index(560)),
        passed=True,
        states="pecli relative --style deberta --seq-len 560 --buckets 256 --max-distance 512",
    )
    yield Case(
        "identify a window of Swin",
        identified(swin_index(5, 9)),
        passed=True,
        states="pecli relative --style swin --grid 5x9",
    )
    yield Case(
        "random integers are no index",
        identified(RNG.integers(0, 32, (40, 40))),
        passed=False,
        states="not identified",
    )


@cases_of(identified_indices)
def test_the_index_of_a_project_is_identified_by_the_command_that_makes_it(case: Case) -> None:
    """The indices are those of T5's decoder, DeBERTa and Swin, by their formulas in NumPy, and random
    integers, which are none.
    """
    assert_answer(case)


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


def shards_of_a_bias() -> Iterator[Case]:
    for first, last in ((0, 4), (6, 12)):
        part = alibi(alibi_slopes(12)[first:last], 10)
        yield Case(
            f"heads {first} to {last - 1} of 12",
            verified({"bias": part}, pecli.Alibi(12, 10), atol=1e-5),
            passed=True,
            states=f"heads {first}–{last - 1} of 12",
        )


@cases_of(shards_of_a_bias)
def test_a_shard_of_heads_passes_with_its_heads(case: Case) -> None:
    """Devices share the 12 heads of ALiBi's bias: heads 0 to 3, or 6 to 11, by the paper's slopes."""
    assert_answer(case)


def missing_biases() -> Iterator[Case]:
    yield Case(
        "no bias of 8 heads",
        verified({"bias": np.zeros((8, 10, 10), "f4")}, pecli.Alibi(8, 10), atol=1e-5),
        passed=False,
        states="there is no bias",
    )
    yield Case(
        "no slopes of 6 heads",
        verified({"slopes": np.zeros(6, "f4")}, pecli.Alibi(6), atol=1e-5),
        passed=False,
        states="there is no bias",
    )


@cases_of(missing_biases)
def test_zeros_in_the_place_of_a_bias_or_slopes_mean_no_bias(case: Case) -> None:
    """A program that forgets ALiBi has zeros: the 8 × 10 × 10 of a bias, or 6 slopes."""
    assert_answer(case)


def tables_without_normalize() -> Iterator[Case]:
    for height, width in ((5, 7), (9, 4)):
        scheme = pecli.Sinusoidal(grid=(height, width), dim=64, style="detr")
        yield Case(
            f"DETR on {height}x{width} without normalize",
            verified({"pe": detr(height, width, 64)}, scheme, atol=1e-5),
            passed=False,
            states="normalize is false (the spec says true)",
            is_thorough=height == 9,
        )


@cases_of(tables_without_normalize)
def test_a_table_of_detr_without_normalize_is_named(case: Case) -> None:
    """With `normalize`, DETR scales positions to 2π. NumPy's tables have plain positions from 1 on."""
    assert_answer(case)


def transposed_windows() -> Iterator[Case]:
    for rows, columns in ((4, 6), (9, 5)):
        window = pecli.Relative("swin", grid=(columns, rows))
        yield Case(
            f"Swin's {rows}x{columns}",
            verified({"index": swin_index(rows, columns)}, window),
            passed=False,
            states=f"grid is {rows}x{columns} (the spec says {columns}x{rows})",
        )


@cases_of(transposed_windows)
def test_a_window_with_rows_and_columns_exchanged_is_named(case: Case) -> None:
    """Swin's index of relative positions depends on rows and columns: 4 × 6 and 9 × 5 in NumPy's tables,
    exchanged in the spec.
    """
    assert_answer(case)


def ltx_unscaled(grid: tuple[int, int, int], dim: int) -> dict[str, Array]:
    """Return the tables of LTX-Video in diffusers, without `rope_interpolation_scale`."""
    places = np.indices(grid).reshape(3, -1).T.astype(np.float64)
    frequencies = 10000.0 ** np.linspace(0, 1, dim // 6) * math.pi / 2
    angles = (2 * places[:, None] - 1) * frequencies[:, None]  # time, height and width in turn
    angles = angles.reshape(len(places), -1)
    still = np.zeros((len(places), dim // 2 - angles.shape[1]))
    angles = np.concatenate([still, angles], 1)
    return {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}


def tables_without_the_scale_of_the_grid() -> Iterator[Case]:
    for grid, dim in (((2, 3, 5), 48), ((3, 2, 4), 72)):
        yield Case(
            f"LTX of {dim} channels without its scale",
            verified(
                ltx_unscaled(grid, dim), pecli.Rope(grid=grid, dim=dim, style="ltx"), atol=1e-3
            ),
            passed=False,
            states="grid_scale is 1,1,1",
            is_thorough=dim == 48,
        )


@cases_of(tables_without_the_scale_of_the_grid)
def test_a_table_of_ltx_video_without_its_scale_is_named(case: Case) -> None:
    """LTX-Video multiplies positions by `rope_interpolation_scale`; NumPy's tables leave them as they are,
    which is a scale of 1 on all three axes.
    """
    assert_answer(case)


def identified_with_freq_shift() -> Iterator[Case]:
    for base, dim in ((10000.0, 96), (2000.0, 48)):
        frequencies = base ** (-np.arange(dim // 2) / (dim // 2 - 1))
        angles = angles_of(70, frequencies)
        table = np.concatenate([np.sin(angles), np.cos(angles)], 1).astype(np.float32)
        yield Case(
            f"freq_shift 1 with base {base:g}",
            identified(table),
            passed=True,
            states=f"base={base:g}  layout=halves  cos_first=false  freq_shift=1 ",
        )


@cases_of(identified_with_freq_shift)
def test_a_table_with_freq_shift_1_is_identified_with_its_base(case: Case) -> None:
    """freq_shift = 1 means base^(−i / (dim/2 − 1)), as in NumPy's tables: sines, then cosines."""
    assert_answer(case)


def identified_caches() -> Iterator[Case]:
    for factor in (2, 8):
        cos, sin = cos_and_sin_tables(200, inverse_frequencies(1e4, 64) / factor).values()
        cache = {"cos_sin_cache": np.concatenate([cos, sin], 1)}
        yield Case(
            f"vLLM's cache with a factor of {factor}",
            identified(cache),
            passed=True,
            states=f"cos_sin_cache: rope, recipe exact, max error 0\n  seq_len=200  dim=64  base=10000  offset=0  layout=compact  scaling=linear  factor={factor} ",
        )


@cases_of(identified_caches)
def test_vllms_cache_is_identified_with_its_linear_scaling(case: Case) -> None:
    """vLLM stores cosines and sines side by side. NumPy's have 200 rows, 64 channels, base 10,000, and
    frequencies divided by 2 or 8.
    """
    assert_answer(case)


def identified_frequencies() -> Iterator[Case]:
    for base, dim in ((1e6, 96), (150000.0, 64)):
        stored = inverse_frequencies(base, dim).astype(BFLOAT16)
        yield Case(
            f"bfloat16 frequencies of base {base:g}",
            identified({"inv_freq": stored}),
            passed=True,
            states=f"base={base:.0f} ",
        )


@cases_of(identified_frequencies)
def test_frequencies_in_bfloat16_are_identified_by_a_plain_base(case: Case) -> None:
    """bfloat16 rounds base^(−2i/dim) to 8 bits; the base is still found as 1,000,000 or 150,000 and not as
    some number beside it.
    """
    assert_answer(case)


def frequencies_without_tables() -> Iterator[Case]:
    yield Case(
        "only frequencies",
        verified({"inv_freq": inverse_frequencies(1e6, 128).astype("f4")}, "qwen3-8b"),
        passed=True,
    )
    yield Case(
        "only frequencies of another base",
        verified({"inv_freq": inverse_frequencies(1e4, 128).astype("f4")}, "qwen3-8b"),
        passed=False,
        states="base is 10000 (the spec says 1000000)",
    )


@cases_of(frequencies_without_tables)
def test_frequencies_without_tables_are_verified_by_their_base(case: Case) -> None:
    """Qwen3 has base 1,000,000. NumPy's 1,000,000^(−2i/128) pass, and those of 10,000 fail."""
    assert_answer(case)


def indexers() -> Iterator[Case]:
    frequencies = inverse_frequencies(1e6, 64)
    glm = {
        "model_type": "glm_moe_dsa", "hidden_size": 512, "num_attention_heads": 4, "qk_nope_head_dim": 192,
        "qk_rope_head_dim": 64, "kv_lora_rank": 128, "index_head_dim": 128, "rope_theta": 1e6,
    }  # fmt: skip
    x = queries(3, 16, 128)
    first = turned_by(x, angles_of(16, frequencies))
    pairs = turned_by(x, angles_of(16, frequencies), "interleaved")
    yield Case("an indexer of halves", rotated(glm, "layers.2.indexer.q", x, first), passed=True)
    yield Case(
        "pairs in an indexer of halves",
        rotated(glm, "layers.2.indexer.q", x, pairs),
        passed=False,
        states="layout is interleaved (the spec says halves)",
    )
    yield Case(
        "an indexer of pairs",
        rotated({**glm, "indexer_rope_interleave": True}, "indexer_k", x, pairs),
        passed=True,
    )
    last = turned_by(x, angles_of(16, frequencies), first=64)
    yield Case(
        "the last channels of an indexer",
        rotated(glm, "indexer.k", x, last),
        passed=False,
        states="the last channels of a head are rotated, not the first",
    )


@cases_of(indexers)
def test_queries_of_an_indexer_are_checked_by_the_layout_of_the_indexer(case: Case) -> None:
    """GLM-5's indexer rotates the first 64 of 128 channels, in halves unless the config states
    `indexer_rope_interleave`. NumPy rotates halves, neighbours, and the last channels.
    """
    assert_answer(case)


def folded_signs() -> Iterator[Case]:
    cos, sin = cos_and_sin_tables(24, inverse_frequencies(1e4, 64)).values()
    folded = {"cos": doubled_as_neighbours(cos), "sin": interleaved_columns(-sin, sin)}
    yield Case(
        "the sign folded into interleaved sines",
        verified(folded, "gpt-j-6b", atol=1e-5),
        passed=True,
        states="the sign of the rotation is folded in",
    )
    stacked = {"cos": doubled_as_halves(cos)[None], "sin": np.concatenate([-sin, sin], 1)[None]}
    yield Case(
        "the sign folded into halves of a batch",
        verified(stacked, pecli.Rope(24, 64, layout="halves"), atol=1e-5),
        passed=True,
        states="the sign of the rotation is folded in",
    )
    wrong = {"cos": doubled_as_neighbours(cos), "sin": interleaved_columns(sin, -sin)}
    yield Case(
        "the other sign folded in",
        verified(wrong, "gpt-j-6b", atol=1e-5),
        passed=False,
        states="the sign is flipped",
    )


@cases_of(folded_signs)
def test_sines_may_carry_the_sign_of_the_rotation(case: Case) -> None:
    """A rotation takes (a, b) to (a cos − b sin, b cos + a sin). Programs store −sin, sin to save the
    subtraction, by halves or neighbours; sin, −sin would be the rotation the other way.
    """
    assert_answer(case)


def repeated_biases() -> Iterator[Case]:
    for heads, length in ((8, 9), (12, 7)):
        keys = (alibi_slopes(heads)[:, None] * np.arange(length)).astype(np.float32)
        repeated = np.broadcast_to(keys[:, None], (heads, length, length)).copy()
        yield Case(
            f"keys of {heads} heads for every query",
            verified({"bias": repeated}, pecli.Alibi(heads, length, form="key"), atol=1e-5),
            passed=True,
            states="repeated for every query",
            is_thorough=heads == 12,
        )


@cases_of(repeated_biases)
def test_a_bias_of_keys_may_be_repeated_for_every_query(case: Case) -> None:
    """In the key form a bias is slope · key, one row for all queries; NumPy repeats it for each."""
    assert_answer(case)


def padded_slopes() -> Iterator[Case]:
    for some, heads in ((6, 8), (12, 20)):
        slopes = np.r_[alibi_slopes(some), np.zeros(heads - some)].astype("f4")
        yield Case(
            f"slopes of {some} of {heads} heads",
            verified({"slopes": slopes}, pecli.Alibi(some), atol=1e-5),
            passed=True,
            states=f"zeros for {heads - some} more heads",
        )


@cases_of(padded_slopes)
def test_zeros_after_the_slopes_are_heads_without_a_bias(case: Case) -> None:
    """6 of 8 heads, or 12 of 20, have the paper's slopes, and the others zeros."""
    assert_answer(case)


def rows_of_another_file() -> Iterator[Case]:
    table = queries(30, 16)
    yield Case(
        "some rows of a file",
        differ(table, table[[2, 3, 4, 11, 29]]),
        passed=False,
        states="only rows 2–4, 11, 29 are there",
        does_not_state="order",
    )
    yield Case(
        "every fifth row of a file",
        differ(table, table[1::5]),
        passed=False,
        states="only every 5th row is there, from row 1 on",
        does_not_state="order",
    )
    yield Case(
        "rows between those of a file",
        differ(table[::3], table),
        passed=False,
        states="rows 1, 2, 4, 5, 7, 8, 10, 11 … are added",
    )


@cases_of(rows_of_another_file)
def test_a_file_with_some_rows_of_another_is_reported_with_these_rows(case: Case) -> None:
    """NumPy takes rows 2, 3, 4, 11, 29, or every fifth from 1 on, or leaves out all but every third. The
    rows that are there keep their order, so no order is mentioned.
    """
    assert_answer(case)


def a_nan_beside_another_base() -> Iterator[Case]:
    right = cos_and_sin_tables(24, inverse_frequencies(1e4, 32))
    other = cos_and_sin_tables(24, inverse_frequencies(500000.0, 32))
    other["cos"][7, 3] = np.nan
    yield Case(
        "a NaN, and another base",
        differ(right, other),
        passed=False,
        states="base is 500000 (in A 10000)",
        is_thorough=True,
    )
    x = queries(3, 16, 128)
    after = turned_by(x, angles_of(16, inverse_frequencies(1e6, 128)))
    after[1, 4, 60] = np.nan
    yield Case(
        "a NaN in queries of another base",
        rotated("mistral-7b-v0.1", "q", x, after),
        passed=False,
        states="base is 1000000 (the spec says 10000), and only row 4 differs",
    )


@cases_of(a_nan_beside_another_base)
def test_a_nan_does_not_hide_another_base(case: Case) -> None:
    """One number of a table, or of rotated queries, is NaN; all others are right for another base."""
    assert_answer(case)


def tables_of_too_many_channels() -> Iterator[Case]:
    wide = tables(48, inverse_frequencies(1e4, 96))
    yield Case(
        "a table of too many channels",
        verified(wide, "gpt-neox-20b", atol=1e-5),
        passed=False,
        states="rotary dimension is 96 (the spec says 24)",
        does_not_state="seq_len is",
    )


@cases_of(tables_of_too_many_channels)
def test_a_rotary_dimension_that_differs_is_named_without_a_length(case: Case) -> None:
    """GPT-NeoX rotates 24 of its 96 channels, and the tables have columns for 96. They have 48 rows, and a
    model requires no number of rows.
    """
    assert_answer(case)


def queries_without_those_before() -> Iterator[Case]:
    x = queries(3, 16, 128)
    yield Case(
        "queries without those before",
        verified(
            {"q": turned_by(x, angles_of(16, inverse_frequencies(1e4, 128)))}, "mistral-7b-v0.1"
        ),
        passed=False,
        states="give --before FILE",
    )


@cases_of(queries_without_those_before)
def test_rotated_queries_need_those_before_the_rotation(case: Case) -> None:
    """A rotation can only be checked with what was rotated; the answer names the option for it."""
    assert_answer(case)


class Command(NamedTuple):
    """A command line, and what is true of its output.

    Attributes:
        name: The id of the case.
        line: The words after `pecli`.
        files: The arrays, configurations and texts that it reads, by name.
        exit_code: The exit code, as the reference lists them.
        states: Words that it prints.
        does_not_state: Words that it does not print.
        is_thorough: True if the case is slow.
    """

    name: str
    line: str
    files: Mapping[str, Any]
    exit_code: int
    states: str = ""
    does_not_state: str = ""
    is_thorough: bool = False


def commands_of(rule: Callable[[], Iterator[Command]]) -> pytest.MarkDecorator:
    """Return the mark that gives a test its `command`, one after the other."""
    marks = {True: [pytest.mark.thorough], False: []}
    rows = [
        pytest.param(command, id=command.name, marks=marks[command.is_thorough])
        for command in rule()
    ]
    return pytest.mark.parametrize("command", rows)


def assert_output(command: Command, run_pecli: Any, folder: Path) -> None:
    """Run a command in a folder with its files, and assert its exit code and the words it prints."""
    with contextlib.chdir(folder):
        for name, content in command.files.items():
            write(Path(name), content)
        outcome = run_pecli(*command.line.split())
    printed = outcome.out + outcome.err

    assert outcome.exit_code == command.exit_code, printed
    assert command.states in printed
    if command.does_not_state:
        assert command.does_not_state not in printed


def write(path: Path, content: Any) -> None:
    """Write an array, a configuration or a text."""
    if isinstance(content, np.ndarray):
        np.save(path, content)
    elif isinstance(content, dict):
        path.write_text(json.dumps(content))
    else:
        path.write_text(content)


def config(model_type: str, **keys: Any) -> dict[str, Any]:
    return {"model_type": model_type, "hidden_size": 256, "num_attention_heads": 4, **keys}


def ignored_keys() -> Iterator[Command]:
    for model_type, key in (
        ("mistral", "rope_base"),
        ("gemma2", "rotary_emb_base"),
        ("olmo2", "rope_freq_base"),
    ):
        files = {"config.json": config(model_type, **{key: 250000.0})}
        yield Command(
            f"{key} of {model_type}",
            "config config.json",
            files=files,
            exit_code=SUCCESS,
            states=f"{key} is 250000.0, which the code of",
            does_not_state="base               250000",
        )
    files = {"config.json": config("gpt_neox", rotary_emb_base=250000)}
    yield Command(
        "rotary_emb_base of gpt_neox",
        "config config.json",
        files=files,
        exit_code=SUCCESS,
        states="250000",
        does_not_state="ignores",
    )


@commands_of(ignored_keys)
def test_a_key_that_a_model_does_not_read_is_reported_and_not_taken_as_its_base(
    command: Command, run_pecli: Any, tmp_path: Path
) -> None:
    """Mistral, Gemma 2 and OLMo 2 in transformers read only `rope_theta`: the 250,000 under another
    project's key is reported, and their base stays 10,000. GPT-NeoX reads `rotary_emb_base`.
    """
    assert_output(command, run_pecli, tmp_path)


def stretched_contexts() -> Iterator[Command]:
    yield Command(
        "qwen3-14b to 65536",
        "extend qwen3-14b --to 65536",
        files={},
        exit_code=SUCCESS,
        states='"factor": 2.0, "original_max_position_embeddings": 32768',
        is_thorough=True,
    )
    yield Command(
        "qwen3-32b to 98304",
        "extend qwen3-32b --to 98304",
        files={},
        exit_code=SUCCESS,
        states='"factor": 3.0, "original_max_position_embeddings": 32768',
        is_thorough=True,
    )
    yield Command(
        "a model of 2507 to 128k",
        "extend qwen3-30b-a3b-2507 --to 128k",
        files={},
        exit_code=SUCCESS,
        states="nothing needs to change",
        does_not_state="32768",
        is_thorough=True,
    )
    yield Command(
        "a model of 2507 to 1M",
        "extend qwen3-235b-a22b-2507 --to 1M",
        files={},
        exit_code=SUCCESS,
        states='"factor": 4.0, "original_max_position_embeddings": 262144',
        does_not_state="32768",
        is_thorough=True,
    )
    yield Command(
        "a factor that is given",
        "extend qwen3-14b --to 65536 --factor 3 --original-len 24576",
        files={},
        exit_code=SUCCESS,
        states='"factor": 3.0, "original_max_position_embeddings": 24576',
        is_thorough=True,
    )


@commands_of(stretched_contexts)
def test_the_longer_context_of_qwen3_needs_yarn_by_its_model_card(
    command: Command, run_pecli: Any, tmp_path: Path
) -> None:
    """Its model cards have YaRN from the trained length, 32,768 or 262,144 in the models of 2507: factor 2
    for 65,536 tokens, 3 for 98,304, and 4 of 262,144 for 1M. What the user states comes first.
    """
    assert_output(command, run_pecli, tmp_path)


def files_without_numbers() -> Iterator[Command]:
    yield Command(
        "a text without numbers",
        "identify notes.txt",
        files={"notes.txt": "no table here, only words"},
        exit_code=FILE_ERROR,
        states="holds no numbers",
        does_not_state="blank",
    )
    yield Command(
        "a file of empty lines",
        "verify log.txt --model llama-2-7b",
        files={"log.txt": "\n\n\n"},
        exit_code=FILE_ERROR,
        states="holds no numbers",
    )


@commands_of(files_without_numbers)
def test_a_file_without_numbers_is_refused_as_such(
    command: Command, run_pecli: Any, tmp_path: Path
) -> None:
    """The one has only words, the other only empty lines, which `verify` would read as printed rows."""
    assert_output(command, run_pecli, tmp_path)


def single_rows() -> Iterator[Command]:
    x = queries(1, 128)
    row = turned_by(x, angles_of([7], inverse_frequencies(1e4, 128)))[0]
    yield Command(
        "one row before and after",
        "verify a.npy --before b.npy --model llama-2-7b --offset 7 --atol 1e-5",
        files={"a.npy": row, "b.npy": x[0]},
        exit_code=SUCCESS,
        states="a single row",
        does_not_state="alike",
    )
    yield Command(
        "rows of different lengths",
        "verify a.npy --before b.npy --model llama-2-7b",
        files={"a.npy": x[0, :96], "b.npy": x[0]},
        exit_code=USAGE_ERROR,
        states="they must be alike",
    )


@commands_of(single_rows)
def test_one_row_is_verified_if_it_is_as_wide_as_the_row_before(
    command: Command, run_pecli: Any, tmp_path: Path
) -> None:
    """The row is that of position 7, by NumPy with Llama 2's base 10,000. A row of 96 numbers cannot be
    the rotated one of 128.
    """
    assert_output(command, run_pecli, tmp_path)


def misspelt_models() -> Iterator[Command]:
    x = queries(1, 128)
    yield Command(
        "a misspelt --model",
        "verify a.npy --model qwen3-8bb",
        files={"a.npy": x},
        exit_code=USAGE_ERROR,
        states="--model is 'qwen3-8bb'",
        does_not_state="--config",
    )
    yield Command(
        "a misspelt --config",
        "rope --config qwen3-8bb --seq-len 4",
        files={},
        exit_code=USAGE_ERROR,
        states="--config is 'qwen3-8bb'",
        does_not_state="--model is",
    )


@commands_of(misspelt_models)
def test_a_misspelt_model_is_reported_under_the_option_of_the_command(
    command: Command, run_pecli: Any, tmp_path: Path
) -> None:
    """The model is given by --model in the first command, and by --config in the second; only this option
    is named.
    """
    assert_output(command, run_pecli, tmp_path)


def float16_beside_the_right_ones() -> Iterator[Command]:
    half = queries(3, 10, 128).astype(np.float16)
    angles = angles_of(10, inverse_frequencies(1e6, 128))
    after = turned_by(half.astype(np.float64), angles).astype(np.float16)
    for name, other in (("up", 100), ("down", -100)):
        moved = np.nextafter(after, np.float16(other))
        yield Command(
            f"float16 queries one place {name}",
            "verify a.npy --before b.npy --model qwen3-8b",
            files={"a.npy": moved, "b.npy": half},
            exit_code=CHECK_FAILED,
            states="allow --max-ulp 1",
        )


@commands_of(float16_beside_the_right_ones)
def test_queries_one_float16_beside_the_right_ones_fail_with_advice(
    command: Command, run_pecli: Any, tmp_path: Path
) -> None:
    """NumPy rounds queries to float16 and takes the next larger or smaller number of each. They fail, since
    everything is compared exactly by default, and pass with --max-ulp 1.
    """
    assert_output(command, run_pecli, tmp_path)


def parts_of_a_model() -> Iterator[Command]:
    text = {"hidden_size": 256, "num_attention_heads": 4, "head_dim": 64, "rope_theta": 250000}
    for sections in ([8, 12, 12], [12, 10, 10]):
        scaling = {"rope_type": "default", "mrope_section": sections}
        thinker = {"text_config": {**text, "rope_scaling": scaling}}
        files = {"config.json": {"model_type": "qwen3_asr", "thinker_config": thinker}}
        yield Command(
            f"a thinker with sections {sections}",
            "config config.json",
            files=files,
            exit_code=SUCCESS,
            states="thinker: rope",
            does_not_state="all layers: rope",
        )
    yield Command(
        "the indexer of deepseek-v3.2",
        "config deepseek-v3.2",
        files={},
        exit_code=SUCCESS,
        states="the indexer rotates the first 64 of 128 channels, as halves",
    )


@commands_of(parts_of_a_model)
def test_the_part_of_a_model_that_rotates_is_named(
    command: Command, run_pecli: Any, tmp_path: Path
) -> None:
    """The config of an audio model has its rope in `thinker_config`; DeepSeek-V3.2 has an indexer beside its
    attention, which rotates 64 of 128 channels, as its code on Hugging Face does.
    """
    assert_output(command, run_pecli, tmp_path)


def keys_of_mlx_lm() -> Iterator[Command]:
    for model_type in ("qwen2", "phi3"):
        files = {"config.json": config(model_type, rope_traditional=True)}
        yield Command(
            f"rope_traditional of {model_type}",
            "config config.json",
            files=files,
            exit_code=SUCCESS,
            states="mlx-lm rotates neighbouring channels",
        )
    x = queries(3, 10, 64)
    pairs = turned_by(x, angles_of(10, inverse_frequencies(1e4, 64)), "interleaved")
    files = {"config.json": config("llama", rope_traditional=True), "a.npy": pairs, "b.npy": x}
    line = "verify a.npy --before b.npy --config config.json --atol 1e-4"
    yield Command(
        "neighbours that mlx-lm rotates",
        f"{line} --runtime mlx-lm",
        files=files,
        exit_code=SUCCESS,
        states="as mlx-lm reads rope_traditional",
    )
    yield Command(
        "neighbours that transformers does not rotate",
        f"{line} --runtime transformers",
        files=files,
        exit_code=CHECK_FAILED,
        states="layout is interleaved",
    )


@commands_of(keys_of_mlx_lm)
def test_rope_traditional_counts_in_mlx_lm_only(
    command: Command, run_pecli: Any, tmp_path: Path
) -> None:
    """mlx-lm reads `rope_traditional: true` and rotates neighbouring channels; transformers does not know
    the key. Queries with neighbours rotated by NumPy pass with one runtime, and fail with the other.
    """
    assert_output(command, run_pecli, tmp_path)


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
