"""Tables as other programs dump them, checked against a model's config: right ones pass in every
layout, wrong ones fail.

The dumps are made here in NumPy by the formulas of each program, in float32 as transformers
computes them (`float32_tables`: 24 positions, 16 channels, base 500000), so that they are off by
less than 2e-6 from exact. `readings` say in words how a tensor was understood, for example «cos,
one column per frequency».
"""

import json
import math
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

import pecli
from pecli.compare.tolerance import Tolerance
from pecli.engine.edits import Parameter, Swapped
from pecli.errors import FileError, ParameterError
from tests.checks.waves import (
    cos_and_sin_tables,
    doubled_as_halves,
    doubled_as_neighbours,
    interleaved_columns,
    inverse_frequencies,
)

WITHIN_2E_6 = Tolerance(atol=2e-6)
LENGTH, DIM = 24, 16
LLAMA_OF_BASE_500000 = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "rope_theta": 5e5,
}
GEMMA = {"model_type": "gemma3_text", "hidden_size": 64, "num_attention_heads": 4, "head_dim": DIM,
         "rope_theta": 1e6, "rope_local_base_freq": 1e4}  # fmt: skip


def float32_tables(base: float = 5e5, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """cos and sin as transformers makes them: everything in float32."""
    inv_freq = (1.0 / (base ** (np.arange(0, DIM, 2, dtype=np.float32) / np.float32(DIM)))).astype(
        np.float32
    )
    angles = np.arange(first, first + LENGTH, dtype=np.float32)[:, None] * inv_freq
    return np.cos(angles), np.sin(angles)


def verify_with_config(tensors, config, tolerance=WITHIN_2E_6, **options):
    return pecli.verify(tensors, pecli.load_config(config), tolerance, **options)


def verify_with_llama(tensors, tolerance=WITHIN_2E_6, **options):
    """Verify the tables of a Llama with base 500000 and heads of 16 channels."""
    return verify_with_config(tensors, LLAMA_OF_BASE_500000, tolerance, **options)


LLAMA_COS, LLAMA_SIN = float32_tables()
ONE_COLUMN_PER_FREQUENCY = "one column per frequency"
TWO_COLUMNS_AS_HALVES = "two columns per frequency (c0 c1 … c0 c1 …)"
TWO_COLUMNS_AS_NEIGHBOURS = "c0 c0 c1 c1 …"
FORMS = {
    "cos": (LLAMA_COS, "cos", ONE_COLUMN_PER_FREQUENCY),
    "sin": (LLAMA_SIN, "sin", ONE_COLUMN_PER_FREQUENCY),
    "transformers": (doubled_as_halves(LLAMA_COS), "cos", TWO_COLUMNS_AS_HALVES),
    "transformers, batch and head": (doubled_as_halves(LLAMA_SIN)[None, None], "sin", f"{TWO_COLUMNS_AS_HALVES}, axes of length 1 dropped"),
    "interleaved": (doubled_as_neighbours(LLAMA_COS), "cos", f"two columns per frequency ({TWO_COLUMNS_AS_NEIGHBOURS})"),
    "megatron": (doubled_as_halves(LLAMA_COS)[:, None, None], "cos", f"{TWO_COLUMNS_AS_HALVES}, axes of length 1 dropped"),
    "vllm": (np.concatenate([LLAMA_COS, LLAMA_SIN], 1), "cos_sin", "all cosines, then all sines"),
    "gptj": (np.concatenate([LLAMA_SIN, LLAMA_COS], 1), "cos_sin", "all sines, then all cosines"),
    "in turn": (interleaved_columns(LLAMA_COS, LLAMA_SIN), "cos_sin", "cosines and sines interleaved"),
    "stacked": (np.stack([LLAMA_COS, LLAMA_SIN]), "cos_sin", "the cosines, then the sines"),
    "stacked, doubled": (doubled_as_neighbours(np.stack([LLAMA_COS, LLAMA_SIN])), "cos_sin",
                         f"the cosines, then the sines, two columns per frequency ({TWO_COLUMNS_AS_NEIGHBOURS})"),
    "torchtune": (np.stack([LLAMA_COS, LLAMA_SIN], -1), "cos_sin", "pairs of cosines and sines"),
    "meta": ((LLAMA_COS + 1j * LLAMA_SIN).astype(np.complex64), "cos_sin", "complex numbers"),
}  # fmt: skip
"""Right tables of the Llama as one program keeps them, what verify calls the array («cos_sin» is
both in one array), and in which words it describes the layout.
"""
FORMS_FOR_NEIGHBOURS = ["interleaved", "stacked, doubled"]
"""Those with columns c0 c0 c1 c1 …, which a rotation of neighbouring channels multiplies. A Llama
rotates halves, so that they are right only if layout="interleaved" is given.
"""


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.sample(4)
def test_a_nameless_array_passes_in_any_layout(tmp_path, form) -> None:
    """An array of an .npy file has no name. Each of FORMS is a right table of the Llama as one program
    keeps it, computed in NumPy; a layout for rotations of neighbouring channels needs an option.
    """
    array, name, words = FORMS[form]
    options = {"layout": "interleaved"} if form in FORMS_FOR_NEIGHBOURS else {}
    np.save(tmp_path / "dump.npy", array)
    result = verify_with_llama(tmp_path / "dump.npy", **options)

    assert result.passed
    assert result.scheme == "rope"
    assert result.readings == {name: words}


@pytest.mark.parametrize("form", FORMS_FOR_NEIGHBOURS)
def test_columns_as_neighbours_fail_without_an_option(form) -> None:
    """A Llama multiplies columns c0 c1 … c0 c1 …. The values of the table are right, but in columns
    c0 c0 c1 c1 … they belong to other channels, unless layout="interleaved" is given.
    """
    array, name, _ = FORMS[form]
    result = verify_with_llama(array, reasons=False)

    assert not result.passed
    assert result.problems[0].startswith(f"{name}: its columns are doubled as c0 c0 c1 c1 …;")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.sample(4)
def test_all_elements_of_a_table_are_compared_in_any_layout(form) -> None:
    """Each of FORMS is a right table as one program keeps it, with angles in float32: its largest
    error is not 0, and less than 2e-6. A complex number has two elements, cosine and sine.
    """
    array, name, _ = FORMS[form]
    (tensor,) = verify_with_llama(array).tensors

    assert tensor.name == name
    assert tensor.size == array.size * (2 if np.iscomplexobj(array) else 1)
    assert 0 < tensor.max_abs_error < 2e-6


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.sample("sin", "megatron", "stacked")
def test_another_first_position_is_named_in_any_layout(form) -> None:
    """Each of FORMS is a table as one program keeps it, such as vLLM's [cos | sin]. With offset=1,
    position 1 is expected in the first row, and the table begins at 0.
    """
    array, name, words = FORMS[form]
    shifted = verify_with_llama(array.copy(), offset=1)

    assert not shifted.passed
    assert shifted.readings == {name: words}
    mistakes = {mistake for each in shifted.explanations for mistake in each.mistakes}
    assert mistakes == {Parameter("offset", expected=1, found=0)}


def with_one_wrong_element(array: np.ndarray) -> np.ndarray:
    """Return a copy whose third element from the end is too large by 1."""
    spoilt = np.ascontiguousarray(array).copy()
    spoilt.flat[-3] += 1
    return spoilt


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.sample(4)
def test_one_wrong_element_has_its_index_in_any_layout(monkeypatch, form) -> None:
    """The index is that in the array as it was dumped, whatever its layout (FORMS). A complex number
    is a pair (cosine, sine), so that its index ends with 0 for the cosine, or 1 for the sine.

    The expected index is that of the third element from the end, by NumPy.
    """
    # An element must keep its index if a table is compared in many blocks of a few rows.
    monkeypatch.setattr("pecli.engine.table.BLOCK_BYTES", 512)
    monkeypatch.setattr("pecli.compare.comparison.READ_BYTES", 128)
    array, _, _ = FORMS[form]
    result = verify_with_llama(with_one_wrong_element(array), reasons=False)

    index = tuple(map(int, np.unravel_index(array.size - 3, array.shape)))
    if np.iscomplexobj(array):
        index += (0,)
    assert result.tensors[0].worst_index == index
    assert result.tensors[0].mismatched == 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.sample(4)
def test_a_layout_is_recognised_although_an_element_is_wrong(form) -> None:
    """Each of FORMS is a table as one program keeps it, and the words for its layout. One element is
    too large by 1.
    """
    array, name, words = FORMS[form]
    result = verify_with_llama(with_one_wrong_element(array), reasons=False)

    assert result.readings == {name: words}


SHAPES_OF_8_FREQUENCIES = [(8,), (1, 8), (1, 8, 1), (8, 1)]
FREQUENCIES_OF_LLAMA = inverse_frequencies(5e5, DIM).astype(np.float32)
"""500000^(-2i/16) in NumPy: 16 channels, so 8 pairs."""


@pytest.mark.parametrize("shape", SHAPES_OF_8_FREQUENCIES)
def test_inverse_frequencies_in_float32_pass_with_axes_of_length_1(shape) -> None:
    """By the default tolerance, FREQUENCIES_OF_LLAMA are those of the config."""
    tensors = {"rotary_emb.inv_freq": FREQUENCIES_OF_LLAMA.reshape(shape)}
    assert verify_with_llama(tensors, tolerance=Tolerance()).passed


@pytest.mark.parametrize("shape", SHAPES_OF_8_FREQUENCIES)
def test_an_array_of_a_frequency_per_pair_is_taken_for_inv_freq(shape) -> None:
    """The array has no name, and the shape of 8 frequencies. They are a thousandth too large, which
    fails; reasons=False spares the search for an explanation.
    """
    values = FREQUENCIES_OF_LLAMA.reshape(shape) * np.float32(1.001)
    result = verify_with_llama(values, reasons=False)
    assert result.tensors[0].name == "inv_freq"
    assert not result.passed


def test_a_single_inverse_frequency_needs_no_axis(tmp_path) -> None:
    """A head of 2 channels has one frequency, base^0 = 1, here in an array without axes."""
    np.save(tmp_path / "inv_freq.npy", np.float32(1))
    assert verify_with_config(
        tmp_path / "inv_freq.npy", {**LLAMA_OF_BASE_500000, "head_dim": 2}
    ).passed


DYNAMIC_LLAMA = {
    **LLAMA_OF_BASE_500000,
    "max_position_embeddings": 8,
    "rope_scaling": {"type": "dynamic", "factor": 2.0},
}
LONGROPE = {"type": "longrope", "short_factor": [1.0] * 8, "long_factor": [4.0] * 8}
LONGROPE_LLAMA = {
    **LLAMA_OF_BASE_500000,
    "original_max_position_embeddings": 8,
    "rope_scaling": {**LONGROPE, "factor": 2.0},
}


def test_an_offset_chooses_the_expected_rows() -> None:
    """The dump has the rows of the 24 positions 7 to 30; it passes with offset=7, and fails
    without, as position 0 is expected first.
    """
    assert verify_with_llama(float32_tables(first=7)[0], offset=7).passed
    assert not verify_with_llama(float32_tables(first=7)[0], reasons=False).passed


def test_a_length_chooses_the_base_of_dynamic_scaling() -> None:
    """DYNAMIC_LLAMA has base 500000, heads of 16 channels, factor 2 and an original length of 8. At
    length 32, dynamic NTK has the base 5e5 · (2 · 32 / 8 − 1)^(16/14). Without a length, that of
    the table counts, which is 24.
    """
    grown = float32_tables(5e5 * ((2.0 * 32 / 8) - 1) ** (DIM / (DIM - 2)))[0]

    assert verify_with_config(grown, DYNAMIC_LLAMA, length=32).passed
    assert not verify_with_config(grown, DYNAMIC_LLAMA, reasons=False).passed


FREQUENCIES_AT_THE_START = inverse_frequencies(5e5, DIM)
"""Those of DYNAMIC_LLAMA and LONGROPE_LLAMA up to their original length of 8 positions."""
FREQUENCIES_AT_LENGTH_24 = {
    "dynamic": inverse_frequencies(5e5 * (2.0 * 24 / 8 - 1) ** (DIM / (DIM - 2)), DIM),
    "longrope": inverse_frequencies(5e5, DIM) / 4,
}
"""By the formula of dynamic NTK with factor 2, and divided by the long factor, 4."""
SCALED_BY_LENGTH = [
    pytest.param(DYNAMIC_LLAMA, FREQUENCIES_AT_LENGTH_24["dynamic"], id="dynamic"),
    pytest.param(LONGROPE_LLAMA, FREQUENCIES_AT_LENGTH_24["longrope"], id="longrope"),
]
TO_1E_14 = Tolerance(rtol=1e-14)


def cosines_of_24_rows(config: dict[str, Any]) -> np.ndarray:
    return pecli.load_config(config).one().rope(24).tables()["cos"]


@pytest.mark.parametrize("config", [DYNAMIC_LLAMA, LONGROPE_LLAMA], ids=["dynamic", "longrope"])
def test_frequencies_beside_a_table_are_read_at_its_length(config: dict[str, Any]) -> None:
    """pecli's own tables of 24 rows have inv_freq at length 24: the reading states this length."""
    dump = pecli.load_config(config).one().rope(24).tables()
    result = verify_with_config(dump, config, Tolerance())

    assert result.passed
    assert result.readings["inv_freq"] == "at length 24"


@pytest.mark.parametrize(("config", "frequencies_at_24"), SCALED_BY_LENGTH)
def test_frequencies_beside_a_table_may_be_those_of_the_start(
    config: dict[str, Any], frequencies_at_24: np.ndarray
) -> None:
    """Some modules recompute inv_freq at the length of the prompt, others keep that of the start:
    beside cosines of 24 rows, either passes.
    """
    cosines = cosines_of_24_rows(config)

    for inv_freq in (frequencies_at_24, FREQUENCIES_AT_THE_START):
        dump = {"cos": cosines, "inv_freq": inv_freq}
        assert verify_with_config(dump, config, TO_1E_14).passed


@pytest.mark.parametrize(("config", "frequencies_at_24"), SCALED_BY_LENGTH)
def test_frequencies_must_be_those_of_the_length_that_the_user_states(
    config: dict[str, Any], frequencies_at_24: np.ndarray
) -> None:
    """`length=8` is the original length, at which nothing is scaled. The cosines are right for it;
    inv_freq is right at length 24, which FREQUENCIES_AT_LENGTH_24 has by formula, and fails.
    """
    at_length_8 = pecli.load_config(config).one().rope(24, length=8)
    dump = {"cos": at_length_8.tables()["cos"], "inv_freq": frequencies_at_24}
    result = verify_with_config(dump, config, TO_1E_14, length=8, reasons=False)

    assert {tensor.name: tensor.passed for tensor in result.tensors} == {
        "cos": True,
        "inv_freq": False,
    }


@pytest.mark.parametrize(("config", "frequencies_at_24"), SCALED_BY_LENGTH)
def test_frequencies_without_a_table_and_without_a_length_must_be_the_unscaled_ones(
    config: dict[str, Any], frequencies_at_24: np.ndarray
) -> None:
    """A module begins with the frequencies of short prompts, and scales them if a prompt is longer
    than 8. A dump of inv_freq only does not show a length, so that the scaled ones fail.

    FREQUENCIES_AT_THE_START and FREQUENCIES_AT_LENGTH_24 are formulas in NumPy.
    """
    unscaled = {"inv_freq": FREQUENCIES_AT_THE_START}
    scaled = {"inv_freq": frequencies_at_24}

    assert verify_with_config(unscaled, config, TO_1E_14).passed
    assert not verify_with_config(scaled, config, TO_1E_14, reasons=False).passed


@pytest.mark.parametrize(
    ("order", "words"),
    [([0, 2, 4, 1, 3, 5, 6, 7], "axis by axis"), ([*range(8)], "interleaved")],
    ids=["axis by axis", "interleaved"],
)
def test_frequencies_of_ernie_pass_axis_by_axis_or_interleaved(
    order: list[int], words: str
) -> None:
    """Ernie has 3 + 3 + 2 = 8 frequencies for rows, columns and time. Its module stores those of
    rows (0, 2, 4), then of columns (1, 3, 5), then of time (6, 7); its tables have them in turn.
    Expected are powers of the base 500000, in NumPy, in either order.
    """
    config = {"model_type": "ernie4_5_vl_moe_text", "hidden_size": 64, "num_attention_heads": 4}
    config["rope_parameters"] = {"rope_theta": 5e5, "mrope_section": [3, 3, 2]}
    frequencies = inverse_frequencies(5e5, DIM)[order]
    found = verify_with_config({"inv_freq": frequencies}, config, Tolerance(rtol=1e-14))

    assert found.passed
    assert found.readings["inv_freq"] == words


def test_the_name_of_a_tensor_counts_more_than_its_content() -> None:
    """cos_cached holds sines, and sin_cached cosines: both fail, and the reason is that they are
    swapped.
    """
    result = verify_with_llama(
        {"cos_cached": doubled_as_halves(LLAMA_SIN), "sin_cached": doubled_as_halves(LLAMA_COS)}
    )
    assert [tensor.passed for tensor in result.tensors] == [False, False]
    assert {*result.readings.values()} == {TWO_COLUMNS_AS_HALVES}
    assert result.explanations[0].mistakes == (Swapped(),)


def test_the_name_of_a_file_counts_if_the_array_has_none(tmp_path) -> None:
    """sin.npy holds cosines. An array without any name would pass as such, but the file's name
    promises sines.
    """
    np.save(tmp_path / "sin.npy", LLAMA_COS)
    assert not verify_with_llama(tmp_path / "sin.npy", reasons=False).passed


def test_tables_without_telling_names_are_found_by_their_content(tmp_path) -> None:
    """np.savez calls them arr_0, arr_1 and arr_2; the third is noise, which is left out."""
    noise = np.random.default_rng(0).normal(size=(LENGTH, DIM)).astype(np.float32)
    np.savez(tmp_path / "all.npz", LLAMA_SIN, LLAMA_COS, noise)
    result = verify_with_llama(tmp_path / "all.npz")

    assert result.passed
    assert result.readings == {
        "arr_0": f"sin, {ONE_COLUMN_PER_FREQUENCY}",
        "arr_1": f"cos, {ONE_COLUMN_PER_FREQUENCY}",
    }


COS_OF_FULL_ATTENTION, SIN_OF_FULL_ATTENTION = float32_tables(base=1e6)
COS_OF_SLIDING_ATTENTION, SIN_OF_SLIDING_ATTENTION = float32_tables(base=1e4)
"""The layer types of GEMMA (Gemma 3) have two bases. Of six layers, 0 to 5, the last is of full
attention, the others are of sliding attention.
"""


def passed_by_name(result: Any) -> dict[str, bool]:
    return {tensor.name: tensor.passed for tensor in result.tensors}


def test_a_table_belongs_to_the_layer_type_in_its_name() -> None:
    """Both tables have base 1e6. In Gemma 3 this is right for full attention only."""
    dump = {
        "full_attention.cos": COS_OF_FULL_ATTENTION,
        "sliding_attention.cos": COS_OF_FULL_ATTENTION,
    }
    result = verify_with_config(dump, GEMMA, reasons=False)

    assert passed_by_name(result) == {"full_attention.cos": True, "sliding_attention.cos": False}
    reading = result.readings["full_attention.cos"]
    assert reading == f"full_attention layers, {ONE_COLUMN_PER_FREQUENCY}"


def test_a_table_belongs_to_the_layer_type_of_the_layer_number_in_its_name() -> None:
    """Both tables have base 1e6, that of full attention. In Gemma 3, layer 5 is of full attention,
    and layer 0 of sliding attention.
    """
    dump = {
        "layers.0.rotary_emb.sin_cached": SIN_OF_FULL_ATTENTION,
        "layers.5.rotary_emb.sin_cached": SIN_OF_FULL_ATTENTION,
    }
    result = verify_with_config(dump, GEMMA, reasons=False)

    assert passed_by_name(result) == {
        "layers.0.rotary_emb.sin_cached": False,
        "layers.5.rotary_emb.sin_cached": True,
    }


def test_a_table_whose_name_has_no_layer_belongs_to_the_layer_type_that_it_fits_best() -> None:
    """The table has base 1e4, which is that of sliding attention in Gemma 3."""
    result = verify_with_config({"rope.sin_cached": SIN_OF_SLIDING_ATTENTION}, GEMMA)

    assert result.passed
    reading = result.readings["rope.sin_cached"]
    assert reading.startswith("sliding_attention layers, which it fits best")


@pytest.mark.parametrize(
    ("layer_type", "passed"), [("sliding_attention", True), ("full_attention", False)]
)
def test_a_layer_type_that_is_given_counts_more_than_the_layer_number(
    layer_type: str, passed: bool
) -> None:
    """Layer 0 of Gemma 3 is of sliding attention, and the table has its base, 1e4. It fails if it is
    compared with full attention, which has base 1e6.
    """
    dump = {"layers.0.rotary_emb.sin_cached": SIN_OF_SLIDING_ATTENTION}
    result = verify_with_config(dump, GEMMA, layer_type=layer_type, reasons=False)

    assert result.passed == passed


def test_cosines_and_sines_in_two_layouts_do_not_pass() -> None:
    """The cosines are in columns c0 c1 … c0 c1 …, and the sines in s0 s0 s1 s1 …; each would pass
    by itself.
    """
    result = verify_with_llama(
        {"cos": doubled_as_halves(LLAMA_COS), "sin": doubled_as_neighbours(LLAMA_SIN)}
    )
    assert not result.passed
    assert result.problems[0] == "cos and sin are doubled in two ways: no rotation takes both"


def test_tables_that_are_right_for_another_layer_type_are_named() -> None:
    """In Gemma, full attention has base 1e6 and sliding attention 1e4. The dump has them the wrong
    way round, under the names global (full) and local (sliding) that other projects give these
    layers.
    """
    swapped = verify_with_config(
        {"cos_local": float32_tables(1e6)[0], "cos_global": float32_tables(1e4)[0]}, GEMMA
    )
    right_for = {
        "cos_local: right for full_attention layers",
        "cos_global: right for sliding_attention layers",
    }

    assert {*swapped.diagnosis} == right_for


def test_each_layer_type_has_its_own_reason_and_command() -> None:
    """In Gemma, full attention has base 1e6 and sliding attention 1e4. In the dump, full attention
    has base 500000, and sliding attention begins at position 1.
    """
    full_cos, full_sin = float32_tables(base=5e5)
    sliding_cos, sliding_sin = float32_tables(base=1e4, first=1)
    dump = {
        "full_attention.cos": full_cos,
        "full_attention.sin": full_sin,
        "sliding_attention.cos": sliding_cos,
        "sliding_attention.sin": sliding_sin,
    }
    reason_of_full, command_of_full, reason_of_sliding, command_of_sliding = verify_with_config(
        dump, GEMMA
    ).diagnosis

    sentence = "full_attention cos, sin: base is 500000 (the spec says 1000000); "
    assert reason_of_full.startswith(sentence)
    command = "pecli rope --seq-len 24 --dim 16 --theta 500000"
    assert command_of_full == f"full_attention: reproduce with {command}"

    sentence = "sliding_attention cos, sin: positions start at 1 (the spec says 0); "
    assert reason_of_sliding.startswith(sentence)
    command = "pecli rope --seq-len 24 --dim 16 --offset 1"
    assert command_of_sliding == f"sliding_attention: reproduce with {command}"


def test_tables_of_a_vision_tower_that_the_configuration_does_not_have_are_left_out() -> None:
    """The config is of a text model. «visual» is the name of a vision tower, whose frequencies it
    does not define; they are wrong here, and are not compared.
    """
    result = verify_with_llama(
        {"visual.rotary_pos_emb.inv_freq": LLAMA_COS[3], "model.rotary_emb.cos_cached": LLAMA_COS}
    )
    assert result.passed
    assert [tensor.name for tensor in result.tensors] == ["model.rotary_emb.cos_cached"]


CHECKPOINT = {
    f"model.layers.{k}.mlp.down_proj.weight": np.zeros((4, 4), np.float32) for k in range(20)
}
"""Weights of 20 layers, none of which is a table."""


def test_tables_among_the_weights_of_a_checkpoint_are_found_by_name() -> None:
    """CHECKPOINT has the weights of 20 layers; cos_cached and sin_cached are beside them."""
    dump = {"model.rotary_emb.cos_cached": LLAMA_COS, "model.rotary_emb.sin_cached": LLAMA_SIN}
    result = verify_with_llama({**CHECKPOINT, **dump})

    assert result.passed
    assert [tensor.name for tensor in result.tensors] == list(dump)


def test_a_table_in_a_checkpoint_without_a_telling_name_has_to_be_named(tmp_path) -> None:
    """Cosines are under the name lm_head, among the weights of 20 layers (CHECKPOINT). The error
    states that a tensor is named after a colon, FILE:NAME.
    """
    save_file({**CHECKPOINT, "lm_head": LLAMA_COS}, tmp_path / "model.safetensors")
    with pytest.raises(FileError, match=r"no positional tables of rope \(21 tensors: .*FILE:NAME"):
        verify_with_llama(tmp_path / "model.safetensors")

    result = verify_with_llama(f"{tmp_path / 'model.safetensors'}:lm_head")
    assert result.passed
    assert result.readings == {"lm_head": f"cos, {ONE_COLUMN_PER_FREQUENCY}"}


@pytest.mark.parametrize(
    "array",
    [np.zeros((5, 7), np.float32), np.zeros((0, 8), np.float32), np.float32(1)],
    ids=["7 columns", "no rows", "a scalar"],
)
def test_an_array_whose_shape_no_table_has_fails_with_the_expected_shapes(array) -> None:
    """Heads of 16 channels have 8 frequencies, in one column or two columns each; the problem is in
    the JSON as well.
    """
    result = verify_with_llama(np.asarray(array))
    assert not result.passed
    assert "(positions, 8) or (positions, 16)" in result.problems[0]

    as_json = json.loads(json.dumps(result.as_json(), allow_nan=False))
    assert as_json["diagnosis"][0] == result.problems[0]


@pytest.mark.parametrize("size", [DIM // 2, DIM])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_vectors_of_zeros_or_ones_do_not_pass_as_the_row_of_position_0(
    value: float, size: int
) -> None:
    """The sines of position 0 are zeros, and its cosines ones. But memory that nobody has written
    is zeros or ones as well, such as frequencies that were never computed.
    """
    assert not verify_with_llama(np.full(size, value, np.float32), reasons=False).passed


@pytest.mark.parametrize("dim_of_file", [32, 64])
def test_frequencies_of_a_larger_head_are_not_taken_for_a_flat_table(dim_of_file: int) -> None:
    """The model has heads of 64 / 4 = 16 channels, and so 8 frequencies; those of 32 or 64 channels
    are 16 or 32. These are multiples of 8, and could be 2 or 4 rows of 8 cosines in one line.
    """
    frequencies = inverse_frequencies(LLAMA_OF_BASE_500000["rope_theta"], dim_of_file)
    dim, _, shape = pecli.verify({"inv_freq": frequencies}, LLAMA_OF_BASE_500000).diagnosis

    assert dim.startswith(f"inv_freq: rotary dimension is {dim_of_file} (the spec says 16)")
    assert shape.startswith(f"inv_freq: its shape is ({dim_of_file // 2}) where (8), ")


def test_a_learned_table_of_the_right_shape_passes_whatever_its_values() -> None:
    """GPT-2's table of positions is called wpe, here of 12 positions and 6 channels. Its wte is the
    embedding of tokens, which is not checked. Learned values have no error.
    """
    config = {"model_type": "gpt2", "n_positions": 12, "n_embd": 6, "n_head": 2}
    weights = np.random.default_rng(0).normal(size=(12, 6)).astype(np.float32)
    result = verify_with_config({"wpe.weight": weights, "wte.weight": weights}, config)

    assert result.passed
    assert result.readings == {"wpe.weight": "values are learned; the shape is right"}
    assert result.as_json()["tensors"][0]["max_abs_error"] is None


def test_a_learned_table_that_lacks_a_row_fails() -> None:
    """A GPT-2 with n_positions 12 and n_embd 6; the dump lacks the first of 12 rows."""
    config = {"model_type": "gpt2", "n_positions": 12, "n_embd": 6, "n_head": 2}
    weights = np.random.default_rng(0).normal(size=(12, 6)).astype(np.float32)
    result = verify_with_config({"wpe.weight": weights[1:]}, config)
    assert result.problems == ("wpe.weight: its shape is (11, 6) where (12, 6) is expected",)


def sinusoids(rows: int) -> np.ndarray:
    """Return tensor2tensor's table of 8 channels: sines, then cosines, of exponents i / 3."""
    angles = np.arange(rows)[:, None] * np.exp(-np.arange(4) * math.log(10000) / 3)
    return np.concatenate([np.sin(angles), np.cos(angles)], 1).astype(np.float32)


@pytest.mark.parametrize(
    ("config", "name", "shape"),
    [
        (
            {"model_type": "t5", "d_model": 64},
            "encoder.block.0.layer.0.SelfAttention.relative_attention_bias",
            (32, 8),
        ),
        (
            {"model_type": "swin", "window_size": 7},
            "layers.0.attention.self.relative_position_bias_table",
            (169, 4),
        ),
    ],
    ids=["t5", "swin"],
)
def test_biases_by_relative_position_are_checked_for_their_rows(config, name, shape) -> None:
    """T5 has a row for each of 32 buckets, Swin for each of (2 · 7 − 1)² = 169 offsets in a window
    of 7; columns are heads. A missing row or a NaN fails.
    """
    values = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    others = {"shared.weight": np.ones((4, 4), np.float32)}

    assert pecli.verify({name: values, **others}, config)
    for wrong in (values[1:], np.where(values > 1, np.nan, values)):
        assert not pecli.verify({name: wrong, **others}, config, reasons=False)


WHISPER = {
    "model_type": "whisper",
    "d_model": 8,
    "max_source_positions": 10,
    "max_target_positions": 5,
}
ENCODER_TABLE = "model.encoder.embed_positions.weight"
DECODER_TABLE = "model.decoder.embed_positions.weight"


def test_whisper_has_a_sinusoidal_table_beside_a_learned_one() -> None:
    """The encoder has sinusoids by tensor2tensor's formula (`sinusoids`, in NumPy), the decoder any
    learned values.
    """
    pe = sinusoids(10)
    result = verify_with_config({ENCODER_TABLE: pe, DECODER_TABLE: pe[:5] * 2}, WHISPER)

    assert result.passed
    assert result.scheme == "learned, sinusoidal"
    assert result.readings[ENCODER_TABLE] == "encoder layers, as in whisper"


def test_the_scheme_of_a_result_is_that_of_the_tables_that_are_there() -> None:
    """Whisper has sinusoids in the encoder, and learned rows in the decoder. Only those of the
    encoder are given, by tensor2tensor's formula (`sinusoids`, in NumPy).
    """
    assert verify_with_config({ENCODER_TABLE: sinusoids(10)}, WHISPER).scheme == "sinusoidal"


def test_a_part_of_a_sinusoidal_table_is_checked_from_an_offset_on() -> None:
    """The dump has rows 3 to 9 of the table of Whisper's encoder, by tensor2tensor's formula
    (`sinusoids`, in NumPy); the reading states the offset.
    """
    rows = {ENCODER_TABLE: sinusoids(10)[3:]}
    result = verify_with_config(rows, WHISPER, layer_type="encoder", offset=3)

    assert ", from position 3" in result.readings[ENCODER_TABLE]


def test_a_layer_type_leaves_the_tables_of_other_layers_out() -> None:
    """Whisper has a sinusoidal table in the encoder and a learned one in the decoder. The encoder's
    channels are reversed, which is wrong; the decoder's table may be anything, so
    layer_type="decoder" passes.
    """
    pe = sinusoids(10)
    wrong = {ENCODER_TABLE: pe[:, ::-1], DECODER_TABLE: pe[:5] * 2}
    assert not verify_with_config(wrong, WHISPER, reasons=False).passed

    found = verify_with_config(wrong, WHISPER, layer_type="decoder")
    assert found.passed
    assert [tensor.name for tensor in found.tensors] == [DECODER_TABLE]


def test_a_fairseq_table_begins_at_position_zero() -> None:
    """fairseq puts the row of padding, zeros, at index 1, and tokens from index 2 on: a table with
    these two rows begins at position 0, and one without them, at position 2, passes as well.
    `sinusoids` is the formula in NumPy.
    """
    config = {
        "model_type": "m2m_100",
        "d_model": 8,
        "max_position_embeddings": 10,
        "pad_token_id": 1,
    }
    pe = sinusoids(12)
    pe[1] = 0
    result = verify_with_config({"embed_positions.weights": pe}, config)

    assert result.passed
    assert result.readings == {"embed_positions.weights": "as in m2m100, from position 0"}
    assert verify_with_config({"embed_positions.weights": pe[2:]}, config).passed


SLOPES = np.array([0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125], np.float32)[:, None, None]
"""ALiBi's slopes of six heads, by the paper's rule."""
BIAS = -SLOPES * np.abs(np.arange(9)[:, None] - np.arange(9)).astype(np.float32)
"""The paper's −slope · |query − key| of 6 heads, 9 queries and 9 keys."""
KEYS = SLOPES * np.arange(9, dtype=np.float32)
"""slope · key of 6 heads and 9 keys, which softmax cannot distinguish from the paper's bias, as they
differ by a constant per query.
"""
KEYS_FROM_THE_LAST = SLOPES * np.arange(-8, 1, dtype=np.float32)
"""slope · (key − last key): −8 · slope, −7 · slope, … 0."""
NO_KEYS_AFTER_THE_QUERY = np.where(np.tri(9, dtype=bool), BIAS, np.float32(-np.inf))
"""BIAS with −inf for the keys that causal attention does not see."""
ALIBI = {
    "slopes": (SLOPES.ravel(), "slopes", None),
    "slopes with axes": (SLOPES, "slopes", "axes of length 1 dropped"),
    "bloom": (KEYS, "bias", "in the key form"),
    "mpt": (KEYS_FROM_THE_LAST, "bias", "in the key-last form"),
    "symmetric": (BIAS, "bias", "in the symmetric form"),
    "batch": (BIAS[None], "bias", "in the symmetric form, axes of length 1 dropped"),
    "batch × heads": (
        np.tile(KEYS, (2, 1, 1)),
        "bias",
        "in the key form, 2 × 6 heads along axis 0",
    ),
    "causal": (NO_KEYS_AFTER_THE_QUERY, "bias", "in the causal form"),
}
"""ALiBi of 6 heads as one program keeps it, what verify calls the array, and in which words it
describes its form.
"""
BLOOM_OF_6_HEADS = {"model_type": "bloom", "n_head": 6, "hidden_size": 48}


@pytest.mark.parametrize("case", ALIBI)
@pytest.mark.sample(3)
def test_alibi_passes_in_the_form_of_every_program(case) -> None:
    """Each case of ALIBI has 6 heads by the paper's rule, computed in NumPy: slopes, slope · key
    («key»), slope · (key − last key) («key-last»), or −slope · |query − key| («symmetric»; «causal»
    with −inf for later keys).
    """
    array, name, words = ALIBI[case]
    result = verify_with_config(array, BLOOM_OF_6_HEADS, Tolerance())

    assert result.passed
    assert result.readings.get(name) == words


@pytest.mark.parametrize("case", ALIBI)
@pytest.mark.sample(3)
def test_alibi_fails_in_any_form_if_it_is_halved(case) -> None:
    """ALIBI has right slopes and biases of 6 heads in the forms of several programs."""
    half = ALIBI[case][0] * np.float32(0.5)
    assert not verify_with_config(half, BLOOM_OF_6_HEADS, Tolerance(), reasons=False).passed


@pytest.mark.parametrize("case", ALIBI)
@pytest.mark.sample(3)
def test_alibi_fails_in_any_form_if_its_last_head_is_halved(case) -> None:
    """ALIBI has right slopes and biases of 6 heads in the forms of several programs. Heads are the
    first axis, except after that of a batch.
    """
    wrong = ALIBI[case][0].copy()
    last_head = (0, -1) if case == "batch" else -1
    wrong[last_head] *= np.float32(0.5)

    assert not verify_with_config(wrong, BLOOM_OF_6_HEADS, Tolerance(), reasons=False).passed


def test_float32_angles_far_from_position_0_pass_only_with_their_recipe() -> None:
    """Angles are products in float32, as in transformers, which are off by more than 2e-6 at
    position 5000; recipe="float32" expects just that.
    """
    inv_freq = (
        1 / np.float32(5e5) ** (np.arange(0, DIM, 2).astype(np.float32) / np.float32(DIM))
    ).astype(np.float32)
    angles = np.arange(5000, 5000 + LENGTH, dtype=np.float32)[:, None] * inv_freq
    cos = np.cos(angles.astype(np.float64)).astype(np.float32)

    assert not verify_with_llama(cos, offset=5000, reasons=False).passed
    assert verify_with_llama(cos, offset=5000, recipe="float32").passed


@pytest.mark.parametrize("function", ["cos", "sin"])
@pytest.mark.sample(1)
def test_the_channels_and_base_of_a_table_of_a_smaller_head_are_named(tmp_path, function) -> None:
    """The model has heads of 16 channels and base 500000. The file, named cos_cached or sin_cached,
    has 64 positions of a head of 8 channels with base 10000: cos or sin of
    position · 10000^(−2i/8), in NumPy.
    """
    table = cos_and_sin_tables(64, inverse_frequencies(base=10000.0, dim=8))[function]
    file = tmp_path / f"{function}_cached.npy"
    np.save(file, table)
    (explanation,) = verify_with_llama(file).explanations

    assert explanation.mistakes == (
        Parameter("dim", expected=16, found=8),
        Parameter("base", expected=500000.0, found=10000.0),
    )


@pytest.mark.parametrize(
    ("lines", "config"),
    [
        (np.concatenate([LLAMA_COS, LLAMA_SIN]), LLAMA_OF_BASE_500000),
        (doubled_as_halves(np.concatenate([LLAMA_COS, LLAMA_SIN])), LLAMA_OF_BASE_500000),
        (LLAMA_COS, LLAMA_OF_BASE_500000),
        (BIAS.reshape(6 * 9, 9), {"model_type": "bloom", "n_head": 6}),
    ],
    ids=["cosines above sines", "both doubled", "cosines", "head after head of a bias"],
)
def test_a_table_in_lines_of_text_passes(
    tmp_path: Path, lines: np.ndarray, config: dict[str, Any]
) -> None:
    """A CSV file has two axes at most, and neither a dtype nor a name. LLAMA_COS and LLAMA_SIN are
    tables of the Llama, BIAS is 6 heads of 9 × 9 by ALiBi's rule.
    """
    np.savetxt(tmp_path / "t.csv", lines, delimiter=",")
    found = verify_with_config(tmp_path / "t.csv", config)

    assert found.passed
    assert found.tensors[0].shape == lines.shape


def bfloat16(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float32)


FALCON = {"model_type": "falcon", "hidden_size": 768, "num_attention_heads": 12, "alibi": True}
SLOPES_OF_12_HEADS = np.array([*(2.0 ** -np.arange(1, 9)), *(2.0 ** -(np.arange(4) + 0.5))])
BIAS_ROUNDED_TO_BFLOAT16 = bfloat16(
    bfloat16(SLOPES_OF_12_HEADS)[:, None] * bfloat16(np.arange(300))[None]
)
"""As `build_alibi_tensor` of transformers' Falcon computes it: slopes, positions and products in bfloat16."""
PRODUCTS = "in the key form, slopes and products rounded to bfloat16"


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("slopes", SLOPES_OF_12_HEADS.astype(np.float32), None),
        ("slopes", bfloat16(SLOPES_OF_12_HEADS), "rounded to bfloat16"),
        ("bias", BIAS_ROUNDED_TO_BFLOAT16, PRODUCTS),
        ("bias", BIAS_ROUNDED_TO_BFLOAT16[:, None], PRODUCTS),
        ("bias", BIAS_ROUNDED_TO_BFLOAT16 / np.float32(8), f"{PRODUCTS}, divided by √head_dim"),
        (
            "bias",
            (SLOPES_OF_12_HEADS[:, None] * np.arange(300) / 8).astype(np.float32),
            "in the key form, divided by √head_dim",
        ),
    ],
    ids=["exact", "rounded", "bias", "three axes", "divided", "exact, divided"],
)
@pytest.mark.sample("exact", "rounded", "three axes", "exact, divided")
def test_slopes_and_biases_of_falcon_pass_as_transformers_computes_them(
    name: str, values: np.ndarray, words: str | None
) -> None:
    """`build_alibi_tensor` of transformers' Falcon multiplies bfloat16 slopes and positions and
    rounds the products, and its attention divides by √head_dim = √(768 / 12) = 8; exact ones pass
    too.

    By the paper, the slopes of 12 heads are those of 8, 2^−1 … 2^−8, and every other one of 16,
    2^−0.5, 2^−1.5, ….
    """
    found = verify_with_config({name: values}, FALCON, Tolerance())
    assert found.passed
    assert found.readings.get(name) == words


def test_slopes_rounded_to_bfloat16_fail_for_a_model_that_does_not_round_them() -> None:
    """BLOOM keeps the slopes of its 12 heads in float32. Those after the eighth, 2^−0.5, 2^−1.5, …,
    are not powers of two, and change when they are rounded to bfloat16.
    """
    rounded = {"slopes": bfloat16(SLOPES_OF_12_HEADS)}
    bloom = {"model_type": "bloom", "n_head": 12}

    assert not verify_with_config(rounded, bloom, Tolerance(), reasons=False).passed


DINOV3 = {"model_type": "dinov3_vit", "hidden_size": 768, "num_attention_heads": 12}
DINOV3_FREQUENCIES = inverse_frequencies(100.0, 32).astype(np.float32)
"""DINOv3 rotates by fractions of the image, with base 100 and 32 channels per axis."""


@pytest.mark.parametrize(
    ("dump", "passes"),
    [
        ({"inv_freq": DINOV3_FREQUENCIES}, True),
        ({"inv_freq": DINOV3_FREQUENCIES[::-1]}, False),
        ({"cos": np.ones((8, 64)), "inv_freq": DINOV3_FREQUENCIES}, False),
    ],
    ids=["right", "reversed", "beside cosines"],
)
def test_frequencies_of_dinov3_are_checked_although_it_has_no_table(
    dump: dict[str, np.ndarray], passes: bool
) -> None:
    """DINOv3 rotates by fractions of the image, with base 100 and 32 channels per axis: frequencies
    are 100^(−2i/32), in NumPy. There is no table over positions, so that cosines cannot be checked,
    and fail.
    """
    assert verify_with_config(dump, DINOV3, Tolerance()).passed is passes


T5 = {"model_type": "t5", "d_model": 64, "num_heads": 4}


def t5_index(dtype: str) -> np.ndarray:
    """Return T5's buckets of 40 positions by its own formula.

    8 exact distances, then logarithms up to 128; keys after the query have the other 16 buckets.
    """
    distance = np.arange(40) - np.arange(40)[:, None]
    far = np.abs(distance)
    grown = 8 + np.floor(np.log(np.maximum(far, 1) / 8) / np.log(16) * 8 + 1e-9).astype(int)
    return (16 * (distance > 0) + np.where(far < 8, far, np.minimum(grown, 15))).astype(dtype)


@pytest.mark.parametrize("dtype", ["int64", "int16", "uint8"])
@pytest.mark.parametrize("spec", [T5, pecli.Relative("t5", 40)], ids=["model", "scheme"])
def test_buckets_of_t5_pass_in_integers_of_any_width(dtype: str, spec: Any) -> None:
    """`t5_index` is T5's own formula in NumPy: the buckets of 40 queries and 40 keys."""
    found = pecli.verify({"index": t5_index(dtype)}, spec)

    assert found.passed
    assert found.problems == ()


@pytest.mark.parametrize("dtype", ["int64", "int16", "uint8"])
def test_one_bucket_of_t5_that_is_off_by_one_fails(dtype: str) -> None:
    """`t5_index` has the bucket (an integer) of each of 40 queries and keys, by T5's formula in
    NumPy; that of query 3 and key 5 is one too large.
    """
    index = t5_index(dtype)
    index[3, 5] += 1

    assert not pecli.verify({"index": index}, T5, reasons=False).passed


def test_an_index_of_t5_that_is_not_square_fails_with_the_expected_shape() -> None:
    """The dump has T5's buckets of 3 queries and 4 keys."""
    shape = pecli.verify({"index": t5_index("int64")[:3, :4]}, T5)
    assert shape.problems == (
        "index: its shape is (3, 4) where (positions, positions) is expected",
    )


PLACES = np.array([[0, 1, 2, 2, 2, 2, 4], [0, 1, 2, 2, 3, 3, 4], [0, 1, 2, 3, 2, 3, 4]])
"""Time, row and column of two tokens of text, an image of 2 × 2 patches, and one more token."""


def verify_tables_by_axis(
    batch: int, positions: np.ndarray, base: float = 1e6, *, reasons: bool = True
) -> Any:
    """Verify cos and sin of shape (3 axes, batch, 7 tokens, 128 channels), right for PLACES and base
    1e6, against Qwen2.5-VL at `positions`.

    transformers' Qwen2VLRotaryEmbedding returns such tables: every axis of positions is multiplied
    with all 64 frequencies. Only attention takes some frequencies of each axis, its section.
    """
    one_sequence = PLACES[:, None]  # (3, 1, 7)
    tables = cos_and_sin_tables(one_sequence, inverse_frequencies(base, 128), np.float64)
    dump = {}
    for name, table in tables.items():
        dump[name] = np.repeat(doubled_as_halves(table), batch, axis=1)
    return pecli.verify(dump, "qwen2.5-vl-7b", positions=positions, atol=1e-12, reasons=reasons)


in_batches_of_two_and_of_one = pytest.mark.parametrize(
    "batch", [2, pytest.param(1, marks=pytest.mark.thorough)]
)


@in_batches_of_two_and_of_one
@pytest.mark.parametrize("has_batch_axis", [False, True], ids=["shared", "per sequence"])
def test_a_table_for_each_axis_of_positions_passes_as_qwen2_vl_returns_it(
    batch: int, has_batch_axis: bool
) -> None:
    """`verify_tables_by_axis` makes the tables in NumPy, by the formula of transformers. The positions
    are PLACES, of shape (3, 7) for all sequences, or (3, batch, 7) with one row per sequence.

    Each axis has all frequencies, so that a pass cannot show whether the sections, which attention
    takes of the axes, are right: the reading states this.
    """
    positions = np.repeat(PLACES[:, None], batch, axis=1) if has_batch_axis else PLACES
    found = verify_tables_by_axis(batch, positions)

    assert found.passed, found.diagnosis
    assert found.readings["cos"].startswith(
        "one table per axis of positions: sections do not show, "
    )


@in_batches_of_two_and_of_one
def test_a_table_for_each_axis_fails_if_rows_and_columns_are_exchanged(batch: int) -> None:
    """PLACES are the positions of tokens by time, row and column, at which `verify_tables_by_axis`
    computes the tables. Those that are given to verify have the order time, column, row.
    """
    assert not verify_tables_by_axis(batch, PLACES[[0, 2, 1]], reasons=False).passed


@in_batches_of_two_and_of_one
def test_another_base_of_a_table_for_each_axis_is_named(batch: int) -> None:
    """`verify_tables_by_axis` verifies a table for each axis of positions (time, row, column), here
    of base 100000; Qwen2.5-VL has base 1000000.
    """
    found = verify_tables_by_axis(batch, PLACES, base=1e5)
    assert found.diagnosis[0].startswith("cos, sin: base is 100000 (the spec says 1000000); ")


def test_tables_by_axis_need_positions_that_all_sequences_share() -> None:
    """A table for each axis is compared for all sequences at once, so that a token has one position
    per axis. Here those of the second of two sequences are larger by 1.
    """
    shared = np.stack([PLACES, PLACES], axis=1)  # (3 axes, 2 sequences, 7 tokens)
    different = np.stack([PLACES, PLACES + 1], axis=1)

    assert verify_tables_by_axis(2, shared).passed
    with pytest.raises(ParameterError, match=r"positions is of shape \(3, 2, 7\); they must be"):
        verify_tables_by_axis(2, different)
