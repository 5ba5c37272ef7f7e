"""Headers of GGUF files, llama.cpp's format, are read as llama.cpp reads them, with the divisors of
frequencies in their tensors.

`write_gguf` writes a header from a mapping, whose keys are llama.cpp's without the name of the
architecture: rope.freq_base is the base, rope_freqs.weight divides the frequencies, attn_factor
multiplies cos and sin. Expected values are base^(−2i/d), divided or scaled by hand, and rules of
llama.cpp's source.
"""

import contextlib
import json
import math
import os
import struct
from pathlib import Path
from typing import Any

import pytest

import pecli
from pecli.models.find import load_model
from tests.exit_codes import CHECK_FAILED, FILE_ERROR, SUCCESS, USAGE_ERROR
from tests.models.facts import facts_by_layer_type, has_facts, only_encoding, stored, write_gguf

QWEN2_HEADER = {"context_length": 131072, "embedding_length": 3584, "attention.head_count": 28, "rope.freq_base": 1e6,
        "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
        "rope.scaling.original_context_length": 32768}  # fmt: skip
PHI3_HEADER = {"rope.dimension_count": 4, "rope.scaling.type": "longrope", "rope.scaling.original_context_length": 4096,
       "rope.scaling.attn_factor": 1.25}  # fmt: skip
LLAMA_3_1_HEADER = {"context_length": 131072, "embedding_length": 4096, "attention.head_count": 32,
             "rope.dimension_count": 128, "rope.freq_base": 500000.0}  # fmt: skip
SIZES = {"embedding_length": 512, "attention.head_count": 8, "context_length": 2048}
LONG_FACTORS = "rope_factors_long.weight"
SHORT_FACTORS = "rope_factors_short.weight"
ROPE_FREQS = "rope_freqs.weight"


@pytest.mark.parametrize("version", [2, 3])
def test_a_header_of_gguf_is_read_as_the_config_it_was_made_from(
    tmp_path: Path, version: int
) -> None:
    """QWEN2_HEADER is Qwen2.5's: 28 heads in 3584 channels, base 1e6, YaRN by 4 from 32768 to 131072
    positions. The config states the same in Hugging Face's keys, so both have the same frequencies.
    """
    model = load_model(write_gguf(tmp_path / "m.gguf", "qwen2", QWEN2_HEADER, version=version))
    scaling = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    sizes = {"hidden_size": 3584, "num_attention_heads": 28, "rope_theta": 1e6}
    by_config = only_encoding({"model_type": "qwen2", "rope_scaling": scaling, **sizes})
    by_header = model.one()

    assert model.model_type == "qwen2"
    assert model.context == 131072
    assert by_header.inverse_frequencies() == by_config.inverse_frequencies()
    assert by_header.attention_factor() == by_config.attention_factor()
    assert by_header.layout == "halves"


def test_the_sources_of_values_are_the_keys_of_the_gguf_header(tmp_path: Path) -> None:
    """Reports show them. The width of a head has no key in Qwen2's headers: it is a quotient."""
    encoding = only_encoding(write_gguf(tmp_path / "m.gguf", "qwen2", QWEN2_HEADER))
    assert encoding.sources["base"] == "qwen2.rope.freq_base"
    assert encoding.sources["dim"] == "qwen2.embedding_length // qwen2.attention.head_count"


def test_gemma_4_divides_by_1e30_where_nothing_rotates(tmp_path: Path) -> None:
    """Gemma 4 rotates some pairs of a head only. Its files have 1e30 in rope_freqs.weight, the
    divisors of frequencies, for the pairs that stay: here the last two of four.
    """
    values = {**LLAMA_3_1_HEADER, "rope.dimension_count": 8}
    path = write_gguf(tmp_path / "m.gguf", "gemma4", values, {ROPE_FREQS: [1.0, 1.0, 1e30, 1e30]})
    frequencies = load_model(path).encodings[0].inverse_frequencies() or []

    assert frequencies[0] == 1.0
    assert frequencies[-1] < 1e-29


def write_gguf_with_divisors(path: Path, divisors: list[float], dtype: str) -> Path:
    """Write the header of a Llama with base 500000 and 8 rotary channels, and its rope_freqs.weight."""
    header = {**LLAMA_3_1_HEADER, "rope.dimension_count": 8}
    return write_gguf(path, "llama", header, {ROPE_FREQS: divisors}, dtype=dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_a_tensor_of_any_float_type_divides_the_frequencies(tmp_path: Path, dtype: str) -> None:
    """llama.cpp divides the frequencies base^(−2i/dim) by the numbers of rope_freqs.weight. 8 rotary
    channels are 4 pairs; the divisors are exact in every type.
    """
    path = write_gguf_with_divisors(tmp_path / "m.gguf", [1.0, 1.5, 4.0, 8.0], dtype)
    frequencies = only_encoding(path).inverse_frequencies()

    unscaled = [500000.0 ** (-2 * i / 8) for i in range(4)]
    expected = [unscaled[0], unscaled[1] / 1.5, unscaled[2] / 4.0, unscaled[3] / 8.0]
    assert frequencies == pytest.approx(expected, rel=1e-14)


def test_a_tensor_that_divides_the_frequencies_changes_nothing_else(tmp_path: Path) -> None:
    """Cosines and sines have amplitude 1, and llama.cpp interleaves pairs of a Llama, as without
    rope_freqs.weight.
    """
    path = write_gguf_with_divisors(tmp_path / "m.gguf", [1.0, 1.5, 4.0, 8.0], "float32")
    encoding = only_encoding(path)

    assert encoding.attention_factor() == 1.0
    assert encoding.layout == "interleaved"


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_a_file_whose_tensor_divides_the_frequencies_passes_against_itself(
    tmp_path: Path, dtype: str
) -> None:
    """The file is verified as a checkpoint, and is also the model that it is verified against."""
    path = write_gguf_with_divisors(tmp_path / "m.gguf", [1.0, 1.5, 4.0, 8.0], dtype)
    assert pecli.verify(path, path).passed


@pytest.mark.parametrize(
    ("value", "window"),
    [
        pytest.param(4096, 4096, id="4096"),
        pytest.param(1, 1, id="the smallest window"),
        pytest.param(0, None, id="0"),
        pytest.param("4096", None, id="a text"),
        pytest.param([4096, 0], None, id="a list"),
    ],
)
def test_a_window_that_is_no_positive_whole_number_counts_as_none(
    tmp_path: Path, value: object, window: int | None
) -> None:
    """attention.sliding_window is 0, a text or a list in files of some writers."""
    header = {**SIZES, "attention.sliding_window": value}
    assert load_model(write_gguf(tmp_path / "m.gguf", "llama", header)).window == window


def test_longrope_has_its_divisors_in_tensors(tmp_path: Path) -> None:
    """PHI3_HEADER has 4 rotary channels, so its frequencies are 1 and 10000^(−2/4) = 0.01. Up to the
    original 4096 positions the short factors divide them, beyond it the long ones; its attn_factor
    is 1.25.
    """
    tensors = {LONG_FACTORS: [2.0, 4.0], SHORT_FACTORS: [1.0, 1.5]}
    encoding = only_encoding(write_gguf(tmp_path / "m.gguf", "phi3", PHI3_HEADER, tensors))

    assert encoding.inverse_frequencies(4096) == pytest.approx([1 / 1.0, 0.01 / 1.5], rel=1e-15)
    assert encoding.inverse_frequencies(4097) == pytest.approx([1 / 2.0, 0.01 / 4.0], rel=1e-15)
    assert encoding.attention_factor() == 1.25
    assert encoding.sources["long_factor"] == "rope_factors_long.weight"
    assert encoding.sources["short_factor"] == "rope_factors_short.weight"


@pytest.mark.parametrize(
    "tensors",
    [{}, {SHORT_FACTORS: [1.0, 1.5]}, {LONG_FACTORS: [2.0, 4.0]}],
    ids=["neither", "short factors only", "long factors only"],
)
@pytest.mark.parametrize(
    ("scaling", "rule"),
    [("longrope", "it needs the tensors rope_factors_"), ("su", "known are")],
    ids=["longrope", "su"],
)
def test_longrope_without_both_tensors_and_unknown_scalings_are_refused(
    tmp_path: Path, scaling: str, rule: str, tensors: dict[str, list[float]]
) -> None:
    """longrope needs the tensors of long and short factors; «su» is its name in older configs,
    which llama.cpp never writes.
    """
    header = {**PHI3_HEADER, "rope.scaling.type": scaling}
    path = write_gguf(tmp_path / "m.gguf", "phi3", header, tensors)
    with pytest.raises(pecli.FileError, match=f"phi3.rope.scaling.type is '{scaling}'; {rule}"):
        load_model(path)


def test_the_parameters_of_yarn_are_read_from_a_gguf_header(tmp_path: Path) -> None:
    """QWEN2_HEADER has YaRN by 4. yarn_log_multiplier is what Hugging Face calls mscale_all_dim, and
    llama.cpp multiplies YaRN's 1 + 0.1 ln(factor) by attn_factor.
    """
    parameters = {
        "rope.scaling.yarn_beta_fast": 16.0,
        "rope.scaling.yarn_beta_slow": 2.0,
        "rope.scaling.yarn_log_multiplier": 0.5,
        "rope.scaling.attn_factor": 0.5,
    }
    path = write_gguf(tmp_path / "m.gguf", "qwen2", {**QWEN2_HEADER, **parameters})
    encoding = only_encoding(path)

    assert has_facts(
        encoding, {"beta_fast": 16.0, "beta_slow": 2.0, "mscale_all_dim": 0.5, "mscale": 1.0}
    )
    assert encoding.attention_factor() == pytest.approx(0.5 * (1 + 0.1 * math.log(4)), rel=1e-15)


def test_yarn_with_a_factor_of_0_is_refused_as_without_one(tmp_path: Path) -> None:
    """0 stands for a missing factor in GGUF, and YaRN needs one."""
    without_factor = {"rope.scaling.factor": 0.0, "rope.scaling.attn_factor": 0.5}
    path = write_gguf(tmp_path / "m.gguf", "qwen2", {**QWEN2_HEADER, **without_factor})
    with pytest.raises(pecli.ParameterError, match="factor is missing; yarn scaling needs it"):
        only_encoding(path)


def test_the_scaling_none_of_a_gguf_header_is_read_as_unscaled(tmp_path: Path) -> None:
    """QWEN2_HEADER, with the type «none» in place of «yarn», still has a factor of 4, which then counts
    for nothing.
    """
    header = {**QWEN2_HEADER, "rope.scaling.type": "none"}
    encoding = only_encoding(write_gguf(tmp_path / "m.gguf", "qwen2", header))
    assert encoding.parameters["scaling"] == "none"
    assert encoding.sources["scaling"] == "qwen2.rope.scaling.type"


def test_linear_scaling_of_a_gguf_header_divides_all_frequencies_by_its_factor(
    tmp_path: Path,
) -> None:
    """QWEN2_HEADER has base 1e6, heads of 3584 / 28 = 128 channels, and the factor 4."""
    header = {**QWEN2_HEADER, "rope.scaling.type": "linear"}
    encoding = only_encoding(write_gguf(tmp_path / "m.gguf", "qwen2", header))
    expected = [1e6 ** (-2 * i / 128) / 4 for i in range(64)]
    assert encoding.inverse_frequencies() == pytest.approx(expected, rel=1e-14)


LAYERS = stored("tables.json")["gguf"]
"""Of an architecture: a header that leaves something out, and by layer type what llama.cpp's source then has."""


@pytest.mark.parametrize("name", LAYERS)
def test_what_a_gguf_header_leaves_out_is_what_llama_cpp_has_for_the_architecture(
    tmp_path: Path, name: str
) -> None:
    """Each row of tables.json has a header, and by layer type the rotary dim, base, scaling and
    layout that were read by hand from llama.cpp's source for this architecture. Row names begin with
    the architecture. ALiBi has the header's max_alibi_bias, or 8 by default.
    """
    header, expected_layers = LAYERS[name]
    architecture = name.partition(" ")[0].rstrip(",")
    path = write_gguf(tmp_path / "m.gguf", architecture, header)
    layers = {layer: [*facts] for layer, facts in facts_by_layer_type(path).items()}
    max_biases = {
        each.parameters["max_bias"] for each in load_model(path) if each.scheme == "alibi"
    }

    assert layers == expected_layers
    assert max_biases <= {header.get("attention.max_alibi_bias") or 8.0}


SLIDING_PATTERN = "attention.sliding_window_pattern"


@pytest.mark.parametrize(
    ("architecture", "values", "unrotated"),
    [
        ("llama4", {}, [3, 7]),
        ("llama4", {"attention.sliding_window": 0}, []),
        ("smollm3", {}, [3, 7]),
        ("smollm3", {"nextn_predict_layers": 1}, [3]),
        ("cohere2", {}, [3, 7]),
        ("cohere2", {SLIDING_PATTERN: 2}, [1, 3, 5, 7]),
        ("cohere2", {SLIDING_PATTERN: 0}, [3, 7]),
        ("cohere2", {SLIDING_PATTERN: [True, False] * 4}, [1, 3, 5, 7]),
        ("cohere2", {SLIDING_PATTERN: [True, False]}, [3, 7]),
        ("cohere2moe", {}, [0, 4]),
        ("cohere2moe", {"leading_dense_block_count": 2}, [4]),
        ("smallthinker", {}, []),
        ("smallthinker", {"attention.sliding_window": 64}, [0, 4]),
        ("exaone-moe", {}, [3, 7]),
        ("exaone4", {}, []),
        ("exaone4", {"block_count": 64}, [3, 7]),
        ("llama", {}, []),
    ],
)
def test_layers_without_rotation_follow_from_the_architecture(
    tmp_path: Path, architecture: str, values: dict[str, Any], unrotated: list[int]
) -> None:
    """The patterns are `set_swa_pattern` and `n_no_rope_layer_step` in llama.cpp's source: every
    fourth layer, or those with full attention, of which a period or a flag per layer is stored.
    A pattern of 0, or shorter than the 8 layers, is none; the last layers may predict further
    tokens. Of EXAONE 4.0, only the model of 64 layers has a window.
    """
    header = {**SIZES, "block_count": 8, **values}
    model = load_model(write_gguf(tmp_path / "m.gguf", architecture, header))

    assert [k for k in range(8) if model.is_unrotated(f"layers.{k}.q")] == unrotated


@pytest.mark.parametrize(
    ("arch", "is_interleaved"), [("qwen2vl", False), ("qwen3vl", True), ("glm4", False)]
)
def test_the_three_sections_of_mrope_are_read_without_the_zero_that_pads_them(
    tmp_path: Path, arch: str, is_interleaved: bool
) -> None:
    """rope.dimension_sections of GGUF has four numbers; M-RoPE has sections for time, rows and
    columns. ggml's rope type of the architecture tells whether they are interleaved.
    """
    header = {"rope.dimension_count": 128, "rope.dimension_sections": [16, 24, 24, 0]}
    encoding = only_encoding(write_gguf(tmp_path / "m.gguf", arch, header))

    assert has_facts(
        encoding,
        {
            "mrope_section": [16, 24, 24],
            "mrope_interleaved": is_interleaved,
            "layout": "halves",
        },
    )
    assert encoding.rope(8).mrope_section == (16, 24, 24)


@pytest.mark.parametrize(
    "sections", [{}, {"rope.dimension_sections": [0, 0, 0, 0]}], ids=["no key", "four zeros"]
)
@pytest.mark.parametrize(
    ("arch", "layout"), [("qwen2vl", "halves"), ("qwen3vl", "halves"), ("glm4", "interleaved")]
)
def test_four_zeros_stand_for_a_model_without_sections_of_mrope(
    tmp_path: Path, arch: str, layout: str, sections: dict[str, list[int]]
) -> None:
    """GLM-4 has one architecture for its text models, which rotate interleaved pairs, and for the
    models with images, which have sections and rotate halves.
    """
    header = {"rope.dimension_count": 128, **sections}
    encoding = only_encoding(write_gguf(tmp_path / "m.gguf", arch, header))
    assert has_facts(encoding, {"mrope_section": None, "layout": layout})


def test_an_unread_key_and_a_missing_base_of_a_long_context_are_warned_about(
    tmp_path: Path,
) -> None:
    """No project has rope.wibble. llama.cpp takes base 10000 if a header has none, which is
    improbable from 16384 positions on. rope.scaling.finetuned is known to change nothing.
    """
    values = {**SIZES, "context_length": 16384, "rope.wibble": 3, "rope.scaling.finetuned": 1}
    unread, base = load_model(write_gguf(tmp_path / "m.gguf", "llama", values)).warnings

    assert unread == "llama has rope.wibble (3), which nothing here reads"
    assert base.endswith("rope.freq_base is missing: llama.cpp then takes 10000")


@pytest.mark.parametrize(
    "header",
    [
        {**SIZES, "context_length": 16383},
        {key: value for key, value in QWEN2_HEADER.items() if key != "rope.freq_base"},
    ],
    ids=["a shorter context", "a context that YaRN stretched"],
)
def test_a_missing_base_of_a_short_or_scaled_context_is_not_warned_about(
    tmp_path: Path, header: dict[str, Any]
) -> None:
    """llama.cpp then takes base 10000, which is probable up to 16383 positions, or if a scaling
    explains the length: QWEN2_HEADER has 131072 positions by YaRN.
    """
    assert load_model(write_gguf(tmp_path / "m.gguf", "llama", header)).warnings == ()


def test_a_llama_3_1_without_its_divisors_is_warned_about(tmp_path: Path) -> None:
    """llama.cpp's converter puts the llama3 scaling into the tensor rope_freqs.weight; this file has
    Llama 3.1's base 500000 and 131072 positions, but not the tensor.
    """
    (warning,) = load_model(write_gguf(tmp_path / "m.gguf", "llama", LLAMA_3_1_HEADER)).warnings
    assert "are those of Llama 3.1, but its scaling (llama3, factor 8) is not given" in warning
    assert warning.endswith("rope_freqs.weight may have been lost")


def test_a_factor_that_does_not_make_the_context_of_the_header_is_warned_about(
    tmp_path: Path,
) -> None:
    """QWEN2_HEADER has YaRN by 4 from 32768 positions, which makes 131072."""
    header = {**QWEN2_HEADER, "context_length": 32768}
    (warning,) = load_model(write_gguf(tmp_path / "m.gguf", "qwen2", header)).warnings
    assert "32768 positions make 131072, but the model says 32768 (context_length)" in warning


@pytest.mark.parametrize(
    "arch", ["llama", "qwen2", "phi3", "gemma2", "gemma3", "gpt-oss", "falcon", "olmo2", "glm4moe"]
)
def test_the_layout_of_an_architecture_is_its_rope_type_in_ggml(tmp_path: Path, arch: str) -> None:
    """llama_model_rope_type of llama.cpp knows these architectures; SIZES has only sizes."""
    model = load_model(write_gguf(tmp_path / "m.gguf", arch, SIZES))
    assert model.warnings == ()
    layout_source = model.encodings[0].sources["layout"]
    assert layout_source == f"family default (ggml's rope type of {arch})"


@pytest.mark.parametrize("arch", ["gptj", "foobar"])
def test_an_architecture_without_a_rope_type_in_ggml_is_warned_about(
    tmp_path: Path, arch: str
) -> None:
    """llama_model_rope_type of llama.cpp does not know these architectures."""
    model = load_model(write_gguf(tmp_path / "m.gguf", arch, SIZES))
    assert model.warnings == (
        f"architecture '{arch}' is unknown: read by the general rules; check layout and defaults",
    )
    layout_source = model.encodings[0].sources["layout"]
    assert layout_source == "family default (of no known architecture)"


@pytest.mark.parametrize(
    ("scaling", "stretch"),
    [
        pytest.param(
            {"rope.scaling.type": "linear", "rope.scaling.factor": 8.0}, 8.0, id="linear by 8"
        ),
        pytest.param({"rope.scaling.factor": 8.0}, 8.0, id="a factor without a type"),
        pytest.param({"rope.scale_linear": 8.0}, 8.0, id="the older key"),
        pytest.param({"rope.scaling.type": "linear"}, 1.0, id="linear without a factor"),
        pytest.param(
            {"rope.scaling.type": "none", "rope.scaling.factor": 8.0}, 1.0, id="the type none"
        ),
        pytest.param({"rope.scaling.type": "yarn"}, 1.0, id="YaRN without a factor"),
        pytest.param(
            {"rope.scaling.type": "yarn", "rope.scaling.factor": 1.0}, 1.0, id="YaRN by 1"
        ),
    ],
)
def test_a_factor_beside_divisors_in_a_tensor_divides_all_frequencies_as_well(
    tmp_path: Path, scaling: dict[str, Any], stretch: float
) -> None:
    """llama.cpp's rope_freq_scale is 1 / rope.scaling.factor for any type but none, and multiplies
    the angles that ggml has divided by the numbers of the tensor, here 1, 1.5, 4 and 8. 8 rotary
    channels of base 500000 are 4 pairs.
    """
    header = {**LLAMA_3_1_HEADER, "rope.dimension_count": 8, **scaling}
    divisors = [1.0, 1.5, 4.0, 8.0]
    path = write_gguf(tmp_path / "m.gguf", "llama", header, {ROPE_FREQS: divisors})

    frequencies = only_encoding(path).inverse_frequencies()
    expected = [500000.0 ** (-2 * i / 8) / divisors[i] / stretch for i in range(4)]
    assert frequencies == pytest.approx(expected, rel=1e-14)


def test_a_factor_beside_the_tensors_of_longrope_divides_all_frequencies_as_well(
    tmp_path: Path,
) -> None:
    """PHI3_HEADER has the frequencies 1 and 0.01, which the short factors 1 and 1.5 divide up to
    4096 positions, and the long ones 2 and 4 beyond it; the factor 8 divides all of them.
    """
    tensors = {LONG_FACTORS: [2.0, 4.0], SHORT_FACTORS: [1.0, 1.5]}
    header = {**PHI3_HEADER, "rope.scaling.factor": 8.0}
    encoding = only_encoding(write_gguf(tmp_path / "m.gguf", "phi3", header, tensors))

    assert encoding.inverse_frequencies(4096) == pytest.approx([1 / 8, 0.01 / 12], rel=1e-15)
    assert encoding.inverse_frequencies(4097) == pytest.approx([1 / 16, 0.01 / 32], rel=1e-15)


def write_twice_scaled_llama(path: Path, scaling_type: str = "linear") -> Path:
    """Write a Llama 3.1 with its rope_freqs.weight, and with a scaling by 8 in the metadata."""
    scaling = {"rope.scaling.type": scaling_type, "rope.scaling.factor": 8.0}
    header = {**LLAMA_3_1_HEADER, **scaling}
    return write_gguf(path, "llama", header, {ROPE_FREQS: llama3_factors(8.0)})


def test_a_file_that_scales_twice_is_warned_about(tmp_path: Path) -> None:
    """The factor may have been added by hand, for a scaling that the tensor holds already."""
    (warning,) = load_model(write_twice_scaled_llama(tmp_path / "m.gguf")).warnings
    assert warning == (
        "llama.cpp scales twice: it divides frequencies by the tensor rope_freqs.weight,"
        " and positions by llama.rope.scaling.factor 8"
    )


def test_a_gguf_that_scales_twice_fails_against_its_model(tmp_path: Path, run_pecli) -> None:
    """The file divides by Llama 3.1's tensor rope_freqs.weight, and once more by the factor 8 in its
    metadata: its frequencies are an eighth of the model's.
    """
    path = write_twice_scaled_llama(tmp_path / "m.gguf")
    outcome = run_pecli("verify", path, "--model", "llama-3.1-8b")

    assert outcome.exit_code == CHECK_FAILED
    assert "positions are multiplied by 0.125 (the spec says 1)" in outcome.out


def test_a_gguf_that_scales_twice_passes_against_itself(tmp_path: Path) -> None:
    """The file is the checkpoint and also the model: both are read with the tensor rope_freqs.weight
    and the factor 8 in the metadata, as llama.cpp reads them.
    """
    path = write_twice_scaled_llama(tmp_path / "m.gguf")
    assert pecli.verify(path, path).passed


def test_yarn_beside_divisors_in_a_tensor_is_refused(tmp_path: Path) -> None:
    """The file has the tensor rope_freqs.weight and the scaling type yarn. llama.cpp applies YaRN to
    the divided frequencies; no scaling of pecli does that.
    """
    path = write_twice_scaled_llama(tmp_path / "m.gguf", scaling_type="yarn")
    with pytest.raises(
        pecli.FileError, match=r"llama\.rope\.scaling\.type is 'yarn', and a tensor"
    ):
        load_model(path)


def test_flags_of_a_gguf_that_scales_twice_are_refused(tmp_path: Path) -> None:
    """The file has a tensor rope_freqs.weight and a factor in its metadata. --rope-scale would replace
    the factor and keep the tensor.
    """
    path = write_twice_scaled_llama(tmp_path / "m.gguf")
    with pytest.raises(pecli.ParameterError, match="the file scales twice, by rope_freqs"):
        load_model(path, flags="llama-server --rope-scale 4")


def test_a_factor_beside_the_divisors_of_pairs_that_stay_is_read(tmp_path: Path) -> None:
    """Gemma 4's pairs that do not rotate have the divisor 1e30, and stay with 8 times that."""
    header = {**LLAMA_3_1_HEADER, "rope.dimension_count": 8, "rope.scaling.factor": 8.0}
    tensors = {ROPE_FREQS: [1.0, 1.0, 1e30, 1e30]}
    path = write_gguf(tmp_path / "m.gguf", "gemma4", header, tensors)
    frequencies = load_model(path).encodings[0].inverse_frequencies() or []

    assert frequencies[0] == 1 / 8
    assert frequencies[-1] < 1e-29


def llama3_factors(factor: float) -> list[float]:
    """What divides frequencies, by the rule of Meta's code: nothing for short waves, all for those
    beyond 8192.
    """
    waves = [2 * math.pi * 500000.0 ** (i / 64) for i in range(64)]
    smooth = [min(max((8192 / wave - 1) / 3, 0.0), 1.0) for wave in waves]
    return [1 / ((1 - share) / factor + share) for share in smooth]


def test_the_published_factors_of_llama_3_1_pass_against_its_preset(
    tmp_path: Path, run_pecli
) -> None:
    """`llama3_factors` computes the numbers of rope_freqs.weight by Meta's rule, here with factor 8,
    which is Llama 3.1's.
    """
    tensors = {ROPE_FREQS: llama3_factors(8.0), "token_embd.weight": [0.5]}
    path = write_gguf(tmp_path / "m.gguf", "llama", LLAMA_3_1_HEADER, tensors)

    whole_file = run_pecli("verify", path, "--config", "llama-3.1-8b")
    assert whole_file.exit_code == SUCCESS

    one_tensor = run_pecli("verify", f"{path}:{ROPE_FREQS}", "--model", "llama-3.1-8b")
    assert one_tensor.exit_code == SUCCESS


def test_factors_of_llama_3_1_by_32_instead_of_8_fail_with_that_reason(
    tmp_path: Path, run_pecli
) -> None:
    """`llama3_factors` computes the numbers of rope_freqs.weight by Meta's rule, whose factor is 8
    in Llama 3.1 and 32 in Llama 3.2.
    """
    tensors = {ROPE_FREQS: llama3_factors(32.0)}
    path = write_gguf(tmp_path / "m.gguf", "llama", LLAMA_3_1_HEADER, tensors)
    outcome = run_pecli("verify", path, "--config", "llama-3.1-8b")

    assert outcome.exit_code == CHECK_FAILED
    assert "factor is 32 (the spec says 8)" in outcome.out


@pytest.mark.parametrize("argument", ["m.gguf", "."], ids=["file", "folder"])
def test_factors_that_are_verified_against_their_own_header_prove_little(
    tmp_path: Path, run_pecli, argument: str
) -> None:
    """Without --config or --model the file is compared with itself: its tensor divides what its
    header states, so any factors would pass, and the answer states this weakness.
    """
    tensors = {ROPE_FREQS: llama3_factors(8.0), "token_embd.weight": [0.5]}
    write_gguf(tmp_path / "m.gguf", "llama", LLAMA_3_1_HEADER, tensors)
    answer = run_pecli("verify", tmp_path / argument, "--json").json

    assert answer["passed"] is True
    assert answer["tensors"][0]["name"] == "rope_freqs.weight/inv_freq"
    assert "cannot tell these factors from others" in answer["weak"][-1]


@pytest.mark.parametrize(
    ("factors", "code", "problem"),
    [
        (
            llama3_factors(8.0)[:32],
            USAGE_ERROR,
            f"{ROPE_FREQS} is 32 numbers; there must be one for each of 64 frequencies",
        ),
        ([math.nan] * 64, FILE_ERROR, f"{ROPE_FREQS} is [nan, "),
        ([0.0] * 64, USAGE_ERROR, f"{ROPE_FREQS}[0] is 0; it must be a finite number"),
    ],
    ids=["32 of 64", "not a number", "zero"],
)
def test_divisors_of_a_wrong_count_or_that_are_nan_or_0_are_refused(
    tmp_path: Path, run_pecli, factors: list[float], code: int, problem: str
) -> None:
    """A Llama with heads of 128 channels has 64 frequencies. NaN is no content of a file, other
    numbers are wrong values; against a given config each file fails the check.
    """
    path = write_gguf(tmp_path / "x.gguf", "llama", LLAMA_3_1_HEADER, {ROPE_FREQS: factors})
    outcome = run_pecli("verify", path)

    assert outcome.exit_code == code
    assert problem in outcome.err
    assert run_pecli("verify", path, "--config", "llama-3.1-8b").exit_code == CHECK_FAILED


@pytest.mark.parametrize("is_exchanged", [False, True])
def test_long_and_short_factors_pass_and_fail_with_that_reason_if_they_are_exchanged(
    tmp_path: Path, run_pecli, is_exchanged: bool
) -> None:
    """The config and the .gguf are the same Phi-3 with 8 / 2 = 4 pairs per head, so that both have
    four factors of each kind; a converter that writes one list under the name of the other is found.
    """
    long = [1.0, 2.0, 8.0, 40.0]
    short = [1.0, 1.0, 1.5, 2.0]
    scaling = {"type": "longrope", "long_factor": long, "short_factor": short}
    lengths = {"max_position_embeddings": 131072, "original_max_position_embeddings": 4096}
    config = {
        "model_type": "phi3",
        "hidden_size": 64,
        "num_attention_heads": 8,
        "rope_scaling": scaling,
        **lengths,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    sizes = {"embedding_length": 64, "attention.head_count": 8, "rope.dimension_count": 8}
    tensors = {LONG_FACTORS: long, SHORT_FACTORS: short}
    if is_exchanged:
        tensors = {LONG_FACTORS: short, SHORT_FACTORS: long}
    path = write_gguf(tmp_path / "m.gguf", "phi3", {**PHI3_HEADER, **sizes}, tensors)
    outcome = run_pecli("verify", path, "--config", tmp_path / "config.json")

    assert outcome.exit_code == (CHECK_FAILED if is_exchanged else SUCCESS)
    reason = "short_factor is used where long_factor belongs"
    assert (reason in outcome.out) is is_exchanged


START = b"GGUF" + struct.pack("<I", 3)
TEXTS = struct.pack("<QQQ", 0, 1, 1) + b"t" + struct.pack("<IIQ", 9, 8, 1 << 26)
KEY = struct.pack("<Q", 4) + b"%04d" + struct.pack("<I", 8) + struct.pack("<Q", 1 << 20)
LIST = struct.pack("<Q", 4) + b"%04d" + struct.pack("<IIQ", 9, 0, 4096)
SPARSE: list[tuple[list[bytes], int, str]] = [
    ([START + struct.pack("<QQ", 1 << 20, 0)], 1 << 26, "tensors"),
    ([START + TEXTS], 1 << 30, "more than 16 MB"),
    (
        [START + struct.pack("<QQQ", 0, 1, 17) + b"general.alignment" + struct.pack("<II", 4, 0)],
        0,
        "alignment 0",
    ),
    ([START + struct.pack("<QQ", 0, 1000), *[KEY] * 1000], 1 << 20, "more than 16 MB"),
    ([START + struct.pack("<QQ", 0, 1000), *[LIST] * 1000], 4096, "more than 16 MB"),
]


@pytest.mark.parametrize(
    ("pieces", "gap", "problem"),
    SPARSE,
    ids=["2^20 tensors", "2^26 texts", "alignment 0", "1000 long texts", "1000 long lists"],
)
def test_a_header_that_claims_more_than_16_mb_or_an_alignment_of_0_is_refused(
    tmp_path: Path, run_pecli, pieces: list[bytes], gap: int, problem: str
) -> None:
    """A broken or hostile header can claim gigabytes of keys, texts or tensors in a sparse file,
    whose gaps take no room on the disk. It must be refused before anything is allocated.

    The file has these pieces, each but the first followed by a gap of so many bytes; %04d in a
    piece is its number, so that keys differ.
    """
    path = tmp_path / "m.gguf"
    with path.open("wb") as file:
        file.write(pieces[0])
        for number, piece in enumerate(pieces[1:]):
            file.write(piece.replace(b"%04d", b"%04d" % number))
            file.seek(gap, os.SEEK_CUR)
        file.truncate(max(file.tell(), gap))
    outcome = run_pecli("config", path)

    assert outcome.exit_code == FILE_ERROR
    assert problem in outcome.err


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (struct.pack("<If", 6, 32.0), "has the alignment 32.0"),
        (struct.pack("<IQ", 8, 2) + b"32", "has the alignment '32'"),
        (struct.pack("<Ii", 5, -32), "has the alignment -32"),
    ],
    ids=["float", "text", "negative"],
)
def test_an_alignment_that_is_no_positive_integer_is_refused(
    tmp_path: Path, value: bytes, problem: str
) -> None:
    """Types 6, 8 and 5 of GGUF are float32, text and int32; general.alignment must be an unsigned
    number.
    """
    key = struct.pack("<QQQ", 0, 1, 17) + b"general.alignment"
    path = tmp_path / "m.gguf"
    path.write_bytes(START + key + value)

    with pytest.raises(pecli.FileError, match=problem):
        pecli.load(path)


def test_a_gguf_header_with_overwritten_bytes_raises_nothing_but_pecli_errors(
    tmp_path: Path,
) -> None:
    """Eight bytes of 0xff at every seventh place damage lengths, types and counts. The header may
    still be readable; any exception but PecliError, such as MemoryError, fails the test.
    """
    whole = write_gguf(tmp_path / "m.gguf", "qwen2", QWEN2_HEADER).read_bytes()
    path = tmp_path / "damaged.gguf"
    for start in range(8, len(whole) - 40, 7):
        path.write_bytes(whole[:start] + b"\xff" * 8 + whole[start + 8 :])
        with contextlib.suppress(pecli.PecliError):
            pecli.load_config(path).as_json()


def test_a_json_file_called_gguf_is_refused(tmp_path: Path) -> None:
    """A GGUF file begins with the letters GGUF."""
    path = tmp_path / "m.gguf"
    path.write_bytes(b"{}")
    with pytest.raises(pecli.FileError, match="is not a GGUF file"):
        pecli.load_config(path)


MISSING = stored("tables.json")["gguf without"]


@pytest.mark.parametrize(
    ("arch", "values", "problem"), MISSING, ids=[problem for *_, problem in MISSING]
)
def test_a_header_without_a_needed_key_is_refused_by_its_name(
    tmp_path: Path, arch: str, values: dict[str, Any], problem: str
) -> None:
    """tables.json has headers of architectures with one key too few, such as the number of heads,
    and the part of the message that names it.
    """
    with pytest.raises(pecli.FileError, match=problem):
        load_model(write_gguf(tmp_path / "m.gguf", arch, values))
