"""Files held against models: caches as other programs make them, in every layout, right and wrong."""

from __future__ import annotations

import json
import math
import struct

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

import pecli
from pecli.checks.tolerance import Tolerance
from pecli.checks.verify.against_model import verify_model
from pecli.errors import FileError, ParameterError
from pecli.explain.edits import Parameter, Swapped

NEAR = Tolerance(atol=2e-6)
LENGTH, DIM = 24, 16
LLAMA = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "rope_theta": 5e5}
GEMMA = {"model_type": "gemma3_text", "hidden_size": 64, "num_attention_heads": 4, "head_dim": DIM,
         "rope_theta": 1e6, "rope_local_base_freq": 1e4}  # fmt: skip


def waves(base: float = 5e5, length: int = LENGTH, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """cos and sin as transformers makes them: everything in float32."""
    inv_freq = (1.0 / (base ** (np.arange(0, DIM, 2, dtype=np.float32) / np.float32(DIM)))).astype(np.float32)
    angles = np.arange(first, first + length, dtype=np.float32)[:, None] * inv_freq
    return np.cos(angles), np.sin(angles)


COS, SIN = waves()
FORMS = {
    "cos": (COS, "cos", "one column per frequency"),
    "sin": (SIN, "sin", "one column per frequency"),
    "transformers": (np.concatenate([COS, COS], 1), "cos", "two columns per frequency (c0 c1 … c0 c1 …)"),
    "transformers, batch and head": (
        np.concatenate([SIN, SIN], 1)[None, None],
        "sin",
        "two columns per frequency (c0 c1 … c0 c1 …), axes of length 1 dropped",
    ),
    "interleaved": (
        np.repeat(COS, 2, 1),
        "cos",
        "two columns per frequency (c0 c0 c1 c1 …)",
    ),
    "megatron": (
        np.concatenate([COS, COS], 1)[:, None, None],
        "cos",
        "two columns per frequency (c0 c1 … c0 c1 …), axes of length 1 dropped",
    ),
    "vllm": (np.concatenate([COS, SIN], 1), "cos_sin", "all cosines, then all sines"),
    "gptj": (np.concatenate([SIN, COS], 1), "cos_sin", "all sines, then all cosines"),
    "in turn": (np.stack([COS, SIN], -1).reshape(LENGTH, -1), "cos_sin", "cosines and sines interleaved"),
    "stacked": (np.stack([COS, SIN]), "cos_sin", "the cosines, then the sines"),
    "stacked, doubled": (
        np.stack([np.repeat(COS, 2, 1), np.repeat(SIN, 2, 1)]),
        "cos_sin",
        "the cosines, then the sines, two columns per frequency (c0 c0 c1 c1 …)",
    ),
    "torchtune": (np.stack([COS, SIN], -1), "cos_sin", "pairs of cosines and sines"),
    "meta": ((COS + 1j * SIN).astype(np.complex64), "cos_sin", "complex numbers"),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_nameless_array_in_any_layout(tmp_path, form) -> None:
    array, name, words = FORMS[form]
    np.save(tmp_path / "dump.npy", array)
    layout = {"layout": "interleaved"} if "c0 c0 c1 c1" in words else {}
    result = verify_model(tmp_path / "dump.npy", pecli.load_config(LLAMA), NEAR, **layout)
    assert result.passed
    assert result.scheme == "rope"
    assert result.readings == {name: words}
    (tensor,) = result.tensors
    assert tensor.name == name
    assert tensor.size == array.size * (2 if array.dtype.kind == "c" else 1)
    assert 0 < tensor.max_abs_error < 2e-6  # float32 phases are not exact, and that is seen
    shifted = verify_model(tmp_path / "dump.npy", pecli.load_config(LLAMA), NEAR, offset=1)
    assert (shifted.passed, shifted.readings) == (False, {name: words})  # whatever the values are
    assert {edit for each in shifted.explanations for edit in each.mistakes} == {Parameter("offset", 1, 0)}


@pytest.mark.parametrize(
    ("dtype", "rounded"),
    [("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16), ("float64", np.float64)],
)
def test_the_expected_table_has_the_files_dtype(tmp_path, dtype, rounded) -> None:
    angles = [[position * math.pow(5e5, -2 * i / DIM) for i in range(DIM // 2)] for position in range(LENGTH)]
    cos = np.array([[math.cos(angle) for angle in row] for row in angles]).astype(rounded)
    save_file({"cos_cached": np.concatenate([cos, cos], 1)}, tmp_path / "c.safetensors")
    tolerance = Tolerance(max_ulp=64) if dtype == "float64" else Tolerance()
    result = verify_model(tmp_path / "c.safetensors", pecli.load_config(LLAMA), tolerance)
    assert result.passed
    assert result.readings == {"cos_cached": "two columns per frequency (c0 c1 … c0 c1 …)"}


@pytest.mark.parametrize("shape", [(8,), (1, 8), (1, 8, 1), (8, 1)])
def test_inverse_frequencies_in_float32(tmp_path, shape) -> None:
    values = np.array([math.pow(5e5, -2 * i / DIM) for i in range(DIM // 2)])
    save_file({"rotary_emb.inv_freq": values.astype(np.float32).reshape(shape)}, tmp_path / "f.safetensors")
    assert verify_model(tmp_path / "f.safetensors", pecli.load_config(LLAMA)).passed
    np.save(tmp_path / "f.npy", values.astype(np.float32).reshape(shape) * np.float32(1.001))
    result = verify_model(tmp_path / "f.npy", pecli.load_config(LLAMA), NEAR)
    assert not result.passed
    assert result.tensors[0].name == "inv_freq"


def test_offset_and_length(tmp_path) -> None:
    cos, _ = waves(first=7)
    np.save(tmp_path / "dump.npy", cos)
    model = pecli.load_config(LLAMA)
    assert verify_model(tmp_path / "dump.npy", model, NEAR, offset=7).passed
    assert not verify_model(tmp_path / "dump.npy", model, NEAR).passed
    grown = {**LLAMA, "max_position_embeddings": 8, "rope_scaling": {"type": "dynamic", "factor": 2.0}}
    base = 5e5 * ((2.0 * 32 / 8) - 1) ** (DIM / (DIM - 2))
    np.save(tmp_path / "dump.npy", waves(base)[0])
    assert verify_model(tmp_path / "dump.npy", pecli.load_config(grown), NEAR, length=32).passed
    assert not verify_model(tmp_path / "dump.npy", pecli.load_config(grown), NEAR).passed  # the table ends at 24


DYNAMIC = {**LLAMA, "max_position_embeddings": 8, "rope_scaling": {"type": "dynamic", "factor": 2.0}}
LONGROPE = {"type": "longrope", "short_factor": [1.0] * 8, "long_factor": [4.0] * 8}
LONG = {**LLAMA, "original_max_position_embeddings": 8, "rope_scaling": {**LONGROPE, "factor": 2.0}}


@pytest.mark.parametrize("config", [DYNAMIC, LONG], ids=["dynamic", "longrope"])
def test_frequencies_beside_a_table_are_read_where_it_ends_or_before_any_call(tmp_path, config) -> None:
    model, path = pecli.load_config(config), tmp_path / "rope.safetensors"
    base, divisor = (5e5 * (2.0 * LENGTH / 8 - 1) ** (DIM / (DIM - 2)), 1) if config is DYNAMIC else (5e5, 4)
    pecli.save(path, model.one().rope(LENGTH))
    found = verify_model(path, model)
    assert found.passed
    assert found.readings["inv_freq"] == f"at length {LENGTH}"
    inv_freq = {"grown": base ** (-np.arange(0, DIM, 2) / DIM) / divisor, "plain": 5e5 ** (-np.arange(0, DIM, 2) / DIM)}
    table = {"cos": pecli.load(path)["cos"]}
    for values in inv_freq.values():
        save_file({**table, "inv_freq": values}, path)
        assert verify_model(path, model, Tolerance(rtol=1e-14)).passed
    save_file({**table, "inv_freq": inv_freq["grown"]}, path)
    assert not verify_model(path, model, Tolerance(rtol=1e-14), length=8).passed
    save_file({"inv_freq": inv_freq["grown"]}, path)
    assert not verify_model(path, model, Tolerance(rtol=1e-14)).passed


def test_frequencies_axis_by_axis_or_as_tables_have_them(tmp_path) -> None:
    config = {"model_type": "ernie4_5_vl_moe_text", "hidden_size": 64, "num_attention_heads": 4}
    model = pecli.load_config({**config, "rope_parameters": {"rope_theta": 5e5, "mrope_section": [3, 3, 2]}})
    plain = 5e5 ** (-np.arange(0, DIM, 2) / DIM)
    for words, order in (("axis by axis", [0, 2, 4, 1, 3, 5, 6, 7]), ("interleaved", range(8))):
        save_file({"inv_freq": plain[list(order)]}, tmp_path / "f.safetensors")
        found = verify_model(tmp_path / "f.safetensors", model, Tolerance(rtol=1e-14))
        assert (found.passed, found.readings["inv_freq"]) == (True, words)


def test_a_name_counts_more_than_the_content(tmp_path) -> None:
    save_file({"cos_cached": SIN, "sin_cached": COS}, tmp_path / "swapped.safetensors")
    result = verify_model(tmp_path / "swapped.safetensors", pecli.load_config(LLAMA), NEAR)
    assert [tensor.passed for tensor in result.tensors] == [False, False]
    np.save(tmp_path / "sin.npy", COS)  # the name of the file, where the array has none
    assert not verify_model(tmp_path / "sin.npy", pecli.load_config(LLAMA), NEAR).passed


def test_names_that_say_nothing_leave_it_to_the_content(tmp_path) -> None:
    noise = np.random.default_rng(0).normal(size=(LENGTH, DIM)).astype(np.float32)
    np.savez(tmp_path / "all.npz", SIN, COS, noise)
    result = verify_model(tmp_path / "all.npz", pecli.load_config(LLAMA), NEAR)
    assert result.passed
    assert result.readings == {"arr_0": "sin, one column per frequency", "arr_1": "cos, one column per frequency"}


def test_layer_types_by_name_and_by_fit(tmp_path) -> None:
    full, sliding = waves(1e6), waves(1e4)
    tensors = {
        "full_attention.cos": full[0],
        "sliding_attention.cos": full[0],
        "layers.0.rotary_emb.sin_cached": sliding[1],
        "layers.5.rotary_emb.sin_cached": full[1],
    }
    save_file(tensors, tmp_path / "g.safetensors")
    result = verify_model(tmp_path / "g.safetensors", pecli.load_config(GEMMA), NEAR)
    assert {tensor.name: tensor.passed for tensor in result.tensors} == {
        "full_attention.cos": True,
        "sliding_attention.cos": False,
        "layers.0.rotary_emb.sin_cached": True,
        "layers.5.rotary_emb.sin_cached": True,
    }
    assert result.readings["layers.0.rotary_emb.sin_cached"].startswith("sliding_attention layers, which it fits best")
    assert result.readings["full_attention.cos"].startswith("full_attention layers, one column per frequency")
    path = f"{tmp_path / 'g.safetensors'}:layers.0.rotary_emb.sin_cached"
    assert not verify_model(path, pecli.load_config(GEMMA), NEAR, layer_type="full_attention").passed
    with pytest.raises(ParameterError, match="layer_type"):
        verify_model(path, pecli.load_config(GEMMA), NEAR, layer_type="other")


def test_cosines_and_sines_in_two_layouts_do_not_pass(tmp_path) -> None:
    save_file({"cos": np.concatenate([COS, COS], 1), "sin": np.repeat(SIN, 2, 1)}, tmp_path / "t.safetensors")
    result = verify_model(tmp_path / "t.safetensors", pecli.load_config(LLAMA), NEAR)
    assert not result.passed
    assert result.problems[0] == "cos is doubled as c0 c1 … c0 c1 …, sin as c0 c0 c1 c1 …: no rotation takes both"


def test_tables_of_other_layers_are_called_so(tmp_path) -> None:
    """Gemma's two bases the wrong way round, under the names that other projects give their layers."""
    (far, _), (near, _) = waves(1e6), waves(1e4)
    save_file({"cos_local": far, "cos_global": near}, tmp_path / "g.safetensors")
    result = verify_model(tmp_path / "g.safetensors", pecli.load_config(GEMMA), NEAR)
    assert set(result.diagnosis) == {
        "cos_local: right for full_attention layers",
        "cos_global: right for sliding_attention layers",
    }


def test_each_kind_of_layer_has_its_own_sentence(tmp_path) -> None:
    dumped = {"full_attention": waves(5e5), "sliding_attention": waves(1e4, first=1)}
    tables = {
        f"{kind}.{name}": part for kind, pair in dumped.items() for name, part in zip(("cos", "sin"), pair, strict=True)
    }
    save_file(tables, tmp_path / "g.safetensors")
    result = verify_model(tmp_path / "g.safetensors", pecli.load_config(GEMMA), NEAR)
    assert {sentence.partition(";")[0] for sentence in result.diagnosis if " says " in sentence} == {
        "full_attention cos, sin: base is 500000 (the spec says 1000000)",
        "sliding_attention cos, sin: positions start at 1 (the spec says 0)",
    }
    commands = [line.partition("pecli")[0] for line in result.diagnosis if "pecli" in line]
    assert commands == ["full_attention: reproduce with ", "sliding_attention: reproduce with "]


def test_tables_of_parts_that_the_configuration_does_not_know_are_left_alone(tmp_path) -> None:
    tensors = {"visual.rotary_pos_emb.inv_freq": COS[3], "model.rotary_emb.cos_cached": COS}
    save_file(tensors, tmp_path / "v.safetensors")
    result = verify_model(tmp_path / "v.safetensors", pecli.load_config(LLAMA), NEAR)
    assert result.passed
    assert [tensor.name for tensor in result.tensors] == ["model.rotary_emb.cos_cached"]


def sparse_checkpoint(path, tensors: dict[str, np.ndarray], others: int) -> None:
    """A .safetensors file whose other tensors are holes of a megabyte, which take no room on the disk."""
    header, place, hole = {}, 0, 1 << 20
    for k in range(others):
        name = f"model.layers.{k // 7}.mlp.experts.{k % 7}.down_proj.weight"
        header[name] = {"dtype": "F32", "shape": [512, 512], "data_offsets": [place, place + hole]}
        place += hole
    starts = {}
    for name, array in tensors.items():
        starts[name] = place
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [place, place + array.nbytes]}
        place += array.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        begin = file.tell()
        for name, array in tensors.items():
            file.seek(begin + starts[name])
            file.write(array.tobytes())
        file.truncate(begin + place)


def test_tables_of_a_large_checkpoint_are_found(tmp_path) -> None:
    tensors = {"model.rotary_emb.cos_cached": COS, "model.rotary_emb.sin_cached": SIN}
    sparse_checkpoint(tmp_path / "model.safetensors", tensors, 5000)
    result = verify_model(tmp_path / "model.safetensors", pecli.load_config(LLAMA), NEAR)
    assert result.passed
    assert [tensor.name for tensor in result.tensors] == list(tensors)


def test_a_checkpoint_without_tables_says_how_to_name_one(tmp_path) -> None:
    sparse_checkpoint(tmp_path / "model.safetensors", {"lm_head": COS}, 20)
    with pytest.raises(FileError, match=r"no positional tables of rope \(21 tensors: .*FILE:NAME"):
        verify_model(tmp_path / "model.safetensors", pecli.load_config(LLAMA))
    result = verify_model(f"{tmp_path / 'model.safetensors'}:lm_head", pecli.load_config(LLAMA), NEAR)
    assert result.passed
    assert result.readings == {"lm_head": "cos, one column per frequency"}


@pytest.mark.parametrize("array", [np.zeros((5, 7), np.float32), np.zeros((0, 8), np.float32), np.float32(1)])
def test_shapes_that_no_table_has(tmp_path, array) -> None:
    np.save(tmp_path / "dump.npy", array)
    result = verify_model(tmp_path / "dump.npy", pecli.load_config(LLAMA))
    assert not result.passed
    assert "(positions, 8) or (positions, 16)" in result.problems[0]
    assert json.loads(json.dumps(result.as_json(), allow_nan=False))["diagnosis"][0] == result.problems[0]


@pytest.mark.parametrize("array", [np.zeros((5, 8), np.int32), np.full((5, 8), np.nan, np.float32)])
def test_values_that_are_no_table(tmp_path, array) -> None:
    np.save(tmp_path / "dump.npy", array)
    assert not verify_model(tmp_path / "dump.npy", pecli.load_config(LLAMA), NEAR).passed


def test_learned_tables_are_checked_for_their_shape(tmp_path) -> None:
    config = {"model_type": "gpt2", "n_positions": 12, "n_embd": 6, "n_head": 2}
    weights = np.random.default_rng(0).normal(size=(12, 6)).astype(np.float32)
    save_file({"wpe.weight": weights, "wte.weight": weights}, tmp_path / "m.safetensors")
    result = verify_model(tmp_path / "m.safetensors", pecli.load_config(config))
    assert result.passed
    assert result.readings == {"wpe.weight": "values are learned; the shape is right"}
    assert result.as_json()["tensors"][0]["max_abs_error"] is None
    save_file({"wpe.weight": weights[1:].copy()}, tmp_path / "m.safetensors")
    result = verify_model(tmp_path / "m.safetensors", pecli.load_config(config))
    assert result.problems == ("wpe.weight: its shape is (11, 6) where (12, 6) is expected",)


def test_sinusoidal_and_learned_side_by_side(tmp_path) -> None:
    config = {"model_type": "whisper", "d_model": 8, "max_source_positions": 10, "max_target_positions": 5}
    steps = np.exp(-np.arange(4) * math.log(10000) / 3)
    angles = np.arange(10)[:, None] * steps
    pe = np.concatenate([np.sin(angles), np.cos(angles)], 1).astype(np.float32)
    tensors = {"model.encoder.embed_positions.weight": pe, "model.decoder.embed_positions.weight": pe[:5] * 2}
    save_file(tensors, tmp_path / "w.safetensors")
    result = verify_model(tmp_path / "w.safetensors", pecli.load_config(config), NEAR)
    assert result.passed
    assert result.scheme == "learned, sinusoidal"
    assert result.readings["model.encoder.embed_positions.weight"] == "encoder layers, as in whisper"
    save_file({**tensors, "model.encoder.embed_positions.weight": pe[:, ::-1].copy()}, tmp_path / "w.safetensors")
    assert not verify_model(tmp_path / "w.safetensors", pecli.load_config(config), NEAR).passed
    decoder = verify_model(tmp_path / "w.safetensors", pecli.load_config(config), NEAR, layer_type="decoder")
    assert decoder.passed
    assert [tensor.name for tensor in decoder.tensors] == ["model.decoder.embed_positions.weight"]


def test_a_fairseq_table_begins_at_position_zero(tmp_path) -> None:
    config = {"model_type": "m2m_100", "d_model": 8, "max_position_embeddings": 10, "pad_token_id": 1}
    angles = np.arange(12)[:, None] * np.exp(-np.arange(4) * math.log(10000) / 3)
    pe = np.concatenate([np.sin(angles), np.cos(angles)], 1).astype(np.float32)
    pe[1] = 0
    save_file({"embed_positions.weights": pe}, tmp_path / "m.safetensors")
    result = verify_model(tmp_path / "m.safetensors", pecli.load_config(config), NEAR)
    assert result.passed
    assert result.readings == {"embed_positions.weights": "as in m2m100, from position 0"}
    save_file({"embed_positions.weights": pe[2:].copy()}, tmp_path / "m.safetensors")
    assert verify_model(tmp_path / "m.safetensors", pecli.load_config(config), NEAR).passed


SLOPES = np.array([0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125], np.float32)  # six heads, by the paper's rule
DISTANCES = np.abs(np.arange(9)[:, None] - np.arange(9)).astype(np.float32)
ALIBI = {
    "slopes": (SLOPES, "slopes", None),
    "slopes with axes": (SLOPES[:, None, None], "slopes", "axes of length 1 dropped"),
    "bloom": (SLOPES[:, None, None] * np.arange(9, dtype=np.float32), "bias", "in the key form"),
    "mpt": (SLOPES[:, None, None] * np.arange(-8, 1, dtype=np.float32), "bias", "in the key-last form"),
    "symmetric": (-SLOPES[:, None, None] * DISTANCES, "bias", "in the symmetric form"),
    "batch": ((-SLOPES[:, None, None] * DISTANCES)[None], "bias", "in the symmetric form, axes of length 1 dropped"),
    "batch × heads, as transformers has it": (
        np.tile(SLOPES[:, None, None] * np.arange(9, dtype=np.float32), (2, 1, 1)),
        "bias",
        "in the key form, 2 × 6 heads along axis 0",
    ),
    "causal": (
        np.where(np.tri(9, dtype=bool), -SLOPES[:, None, None] * DISTANCES, np.float32(-np.inf)),
        "bias",
        "in the causal form",
    ),
}


@pytest.mark.parametrize("case", ALIBI)
def test_alibi_in_every_form(tmp_path, case) -> None:
    array, name, words = ALIBI[case]
    np.save(tmp_path / "a.npy", array)
    model = pecli.load_config({"model_type": "bloom", "n_head": 6, "hidden_size": 48})
    result = verify_model(tmp_path / "a.npy", model)
    assert result.passed
    assert result.readings.get(name) == words
    wrong = array.copy()
    wrong[-1] *= np.float32(0.5)
    for other in (wrong, array * np.float32(0.5)):
        np.save(tmp_path / "a.npy", other)
        assert not verify_model(tmp_path / "a.npy", model).passed


def test_a_model_without_encodings_is_refused(tmp_path) -> None:
    np.save(tmp_path / "a.npy", COS)
    with pytest.raises(ParameterError, match="no positional encoding"):
        verify_model(tmp_path / "a.npy", pecli.load_config({"model_type": "mamba"}))


def test_a_table_that_takes_several_blocks(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("pecli.engine.table.BLOCK_BYTES", 1 << 9)
    monkeypatch.setattr("pecli.checks.compare.READ_BYTES", 1 << 7)
    monkeypatch.setattr("pecli.checks.verify.verification._explanations", lambda *_: ())  # nothing explains one element
    for form, (array, name, words) in FORMS.items():
        wrong = array.copy()
        wrong.reshape(-1)[-3] += 1
        np.save(tmp_path / "dump.npy", wrong)
        result = verify_model(tmp_path / "dump.npy", pecli.load_config(LLAMA), NEAR)
        assert result.readings == {name: words}, form
        (tensor,) = result.tensors
        assert tensor.mismatched == 1
        place = np.unravel_index(wrong.size - 3, wrong.shape)
        assert tensor.worst_index[: len(place)] == tuple(map(int, place))


def test_a_recipe_is_part_of_what_is_expected(tmp_path) -> None:
    inv_freq = (1 / np.float32(5e5) ** (np.arange(0, DIM, 2).astype(np.float32) / np.float32(DIM))).astype(np.float32)
    angles = np.arange(5000, 5000 + LENGTH, dtype=np.float32)[:, None] * inv_freq
    np.save(tmp_path / "cos.npy", np.cos(angles.astype(np.float64)).astype(np.float32))
    model = pecli.load_config(LLAMA)
    assert not verify_model(tmp_path / "cos.npy", model, NEAR, offset=5000).passed
    assert verify_model(tmp_path / "cos.npy", model, NEAR, offset=5000, recipe="float32").passed


def test_a_single_frequency_without_an_axis(tmp_path) -> None:
    np.save(tmp_path / "inv_freq.npy", np.float32(1))
    assert verify_model(tmp_path / "inv_freq.npy", pecli.load_config({**LLAMA, "head_dim": 2})).passed


@pytest.mark.parametrize("function", ["cos", "sin"])
def test_the_name_of_a_file_tells_even_where_its_shape_is_wrong(tmp_path, function) -> None:
    inv_freq = 10000.0 ** -(np.arange(4) / 4)
    table = getattr(np, function)(np.arange(64)[:, None] * inv_freq).astype(np.float32)
    np.save(tmp_path / f"{function}_cached.npy", table)
    result = verify_model(tmp_path / f"{function}_cached.npy", pecli.load_config(LLAMA), NEAR)
    edits = result.explanations[0].mistakes
    assert {getattr(edit, "name", "layout") for edit in edits} <= {"dim", "base", "exponent_dim", "layout"}
    assert Parameter("dim", DIM, 8) in edits


def test_a_layout_is_seen_whatever_the_values_are(tmp_path) -> None:
    """cos and sin exchanged, in halves as the model has them: nothing is said of another layout."""
    doubled = {"cos": np.concatenate([SIN, SIN], 1), "sin": np.concatenate([COS, COS], 1)}
    np.savez(tmp_path / "swapped.npz", **doubled)
    result = verify_model(tmp_path / "swapped.npz", pecli.load_config(LLAMA), NEAR)
    assert set(result.readings.values()) == {"two columns per frequency (c0 c1 … c0 c1 …)"}
    assert result.explanations[0].mistakes == (Swapped(),)


@pytest.mark.parametrize("doubled", [False, True])
def test_both_functions_in_lines_of_text(tmp_path, doubled) -> None:
    lines = np.concatenate([COS, SIN])
    lines = np.concatenate([lines, lines], 1) if doubled else lines
    np.savetxt(tmp_path / "both.csv", lines, delimiter=",")
    found = verify_model(tmp_path / "both.csv", pecli.load_config(LLAMA), NEAR)
    assert found.passed
    assert found.tensors[0].shape == lines.shape
    np.savetxt(tmp_path / "cos.csv", COS, delimiter=",")
    assert verify_model(tmp_path / "cos.csv", pecli.load_config(LLAMA), NEAR).tensors[0].shape == COS.shape


def test_a_bias_in_lines_of_text(tmp_path) -> None:
    slopes = 2.0 ** (-8 * np.arange(1, 5) / 4)
    bias = -slopes[:, None, None] * np.abs(np.arange(6)[:, None] - np.arange(6))
    np.savetxt(tmp_path / "alibi.csv", bias.reshape(24, 6), delimiter=",")
    found = verify_model(tmp_path / "alibi.csv", pecli.load_config({"model_type": "bloom", "n_head": 4}), NEAR)
    assert (found.passed, found.tensors[0].shape) == (True, (24, 6))


@pytest.mark.parametrize("size", [DIM // 2, DIM])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_vectors_of_zeros_or_ones_are_no_table_of_one_row(value: float, size: int) -> None:
    """Where sines of position 0 are zeros, and cosines ones; frequencies that nobody set are zeros as well."""
    assert not pecli.verify(np.full(size, value, np.float32), LLAMA).passed


@pytest.mark.parametrize("times", [2, 4])
def test_frequencies_of_a_larger_head_are_no_flat_table(times: int) -> None:
    inv_freq = 5e5 ** (-np.arange(times * DIM // 2) / (times * DIM // 2))
    shape, dim, _ = pecli.verify({"inv_freq": inv_freq}, LLAMA).sentences
    assert shape.startswith(f"inv_freq: its shape is ({times * DIM // 2}) where ({DIM // 2}), ")
    assert dim.startswith(f"inv_freq: rotary dimension is {times * DIM} (the spec says {DIM})")
