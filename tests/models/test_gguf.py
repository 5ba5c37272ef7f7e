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
    """QWEN2_HEADER has YaRN; these three keys are beside it. yarn_log_multiplier is what Hugging Face
    calls mscale_all_dim. No key of GGUF has mscale, which is the constant 1 in llama.cpp's source.
    """
    parameters = {
        "rope.scaling.yarn_beta_fast": 16.0,
        "rope.scaling.yarn_beta_slow": 2.0,
        "rope.scaling.yarn_log_multiplier": 0.5,
    }
    path = write_gguf(tmp_path / "m.gguf", "qwen2", {**QWEN2_HEADER, **parameters})
    yarn = only_encoding(path).parameters

    assert yarn["beta_fast"] == 16.0
    assert yarn["beta_slow"] == 2.0
    assert yarn["mscale_all_dim"] == 0.5
    assert yarn["mscale"] == 1.0


def test_the_attention_factor_of_a_gguf_with_a_log_multiplier_is_a_quotient(
    tmp_path: Path,
) -> None:
    """llama.cpp multiplies cos and sin by g(1) / g(yarn_log_multiplier), where g(m) is
    1 + 0.1 m ln(factor). The factor of QWEN2_HEADER is 4.
    """
    header = {**QWEN2_HEADER, "rope.scaling.yarn_log_multiplier": 0.5}
    encoding = only_encoding(write_gguf(tmp_path / "m.gguf", "qwen2", header))

    expected = (1 + 0.1 * math.log(4)) / (1 + 0.1 * 0.5 * math.log(4))
    assert encoding.attention_factor() == pytest.approx(expected, rel=1e-15)


def test_the_attn_factor_of_a_gguf_multiplies_the_attention_factor_of_yarn(
    tmp_path: Path,
) -> None:
    """YaRN multiplies cos and sin by 1 + 0.1 ln(factor), and llama.cpp multiplies that by attn_factor.
    The factor of QWEN2_HEADER is 4.
    """
    header = {**QWEN2_HEADER, "rope.scaling.attn_factor": 0.5}
    encoding = only_encoding(write_gguf(tmp_path / "m.gguf", "qwen2", header))

    expected = 0.5 * (1 + 0.1 * math.log(4))
    assert encoding.attention_factor() == pytest.approx(expected, rel=1e-15)


def test_the_attn_factor_of_a_gguf_multiplies_the_quotient_of_a_log_multiplier(
    tmp_path: Path,
) -> None:
    """llama.cpp multiplies cos and sin by attn_factor · g(1) / g(yarn_log_multiplier), where g(m) is
    1 + 0.1 m ln(factor). The factor of QWEN2_HEADER is 4.
    """
    keys = {"rope.scaling.yarn_log_multiplier": 0.5, "rope.scaling.attn_factor": 0.5}
    encoding = only_encoding(write_gguf(tmp_path / "m.gguf", "qwen2", {**QWEN2_HEADER, **keys}))

    quotient = (1 + 0.1 * math.log(4)) / (1 + 0.1 * 0.5 * math.log(4))
    assert encoding.attention_factor() == pytest.approx(0.5 * quotient, rel=1e-15)


@pytest.mark.parametrize(
    "other_keys",
    [
        pytest.param({}, id="no attn_factor"),
        pytest.param({"rope.scaling.attn_factor": 0.5}, id="an attn_factor"),
    ],
)
def test_yarn_with_a_factor_of_0_is_refused_as_without_one(
    tmp_path: Path, other_keys: dict[str, float]
) -> None:
    """0 stands for a missing factor in GGUF, and YaRN needs one. An attn_factor multiplies cos and sin,
    and is no substitute for it.
    """
    header = {**QWEN2_HEADER, "rope.scaling.factor": 0.0, **other_keys}
    path = write_gguf(tmp_path / "m.gguf", "qwen2", header)
    with pytest.raises(pecli.ParameterError, match="factor is missing; the scaling needs it"):
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


def unrotated_layers(tmp_path: Path, architecture: str, values: dict[str, Any]) -> list[int]:
    """Return the layers, of the first 8, that have no rope by a header with these values.

    A header has 8 layers (block_count) unless the values have another number.
    """
    header = {**SIZES, "block_count": 8, **values}
    model = load_model(write_gguf(tmp_path / "m.gguf", architecture, header))
    return [layer for layer in range(8) if model.is_unrotated(f"layers.{layer}.q")]


def test_every_layer_of_a_usual_architecture_rotates(tmp_path: Path) -> None:
    """Llama's layers all have rope."""
    assert unrotated_layers(tmp_path, "llama", {}) == []


@pytest.mark.parametrize("architecture", ["llama4", "smollm3"])
def test_every_fourth_layer_of_llama_4_and_smollm3_has_no_rope(
    tmp_path: Path, architecture: str
) -> None:
    """`n_no_rope_layer_step` is 4 in llama.cpp's source of these architectures; no key has it."""
    assert unrotated_layers(tmp_path, architecture, {}) == [3, 7]


def test_layers_that_predict_further_tokens_are_no_layers_of_the_pattern(tmp_path: Path) -> None:
    """One of SmolLM3's 8 layers here is for the prediction of further tokens, so that 7 are left, of
    which every fourth has no rope.
    """
    assert unrotated_layers(tmp_path, "smollm3", {"nextn_predict_layers": 1}) == [3]


SLIDING_PATTERN = "attention.sliding_window_pattern"
"""The key of a period, or of a flag per layer that is true if its attention slides."""


@pytest.mark.parametrize(
    ("architecture", "values", "layers_of_full_attention"),
    [
        pytest.param("cohere2", {}, [3, 7], id="no key: three layers slide, the fourth does not"),
        pytest.param("exaone-moe", {}, [3, 7], id="no key, EXAONE MoE"),
        pytest.param("cohere2", {SLIDING_PATTERN: 2}, [1, 3, 5, 7], id="a period of 2"),
        pytest.param("cohere2", {SLIDING_PATTERN: 0}, [3, 7], id="0 is no period"),
        pytest.param(
            "cohere2", {SLIDING_PATTERN: [True, False] * 4}, [1, 3, 5, 7], id="a flag per layer"
        ),
        pytest.param(
            "cohere2", {SLIDING_PATTERN: [True, False]}, [3, 7], id="2 flags for 8 layers are none"
        ),
        pytest.param("cohere2moe", {}, [0, 4], id="the first of four does not slide"),
        pytest.param(
            "cohere2moe",
            {"leading_dense_block_count": 2},
            [4],
            id="layers 0 and 1, without experts, rotate although they do not slide",
        ),
    ],
)
def test_layers_of_full_attention_have_no_rope_in_some_architectures(
    tmp_path: Path,
    architecture: str,
    values: dict[str, Any],
    layers_of_full_attention: list[int],
) -> None:
    """By llama.cpp's source, these architectures rotate only layers whose attention slides. Which ones
    do is the key's period or flags, or else the period in `set_swa_pattern` of the architecture.
    """
    unrotated = unrotated_layers(tmp_path, architecture, values)
    assert unrotated == layers_of_full_attention


@pytest.mark.parametrize(
    ("architecture", "values", "unrotated"),
    [
        pytest.param("llama4", {"attention.sliding_window": 0}, [], id="Llama 4, window 0"),
        pytest.param("llama4", {"attention.sliding_window": 64}, [3, 7], id="Llama 4, window 64"),
        pytest.param("smallthinker", {}, [], id="SmallThinker, no window"),
        pytest.param(
            "smallthinker", {"attention.sliding_window": 64}, [0, 4], id="SmallThinker, window 64"
        ),
        pytest.param("exaone4", {}, [], id="EXAONE 4.0 of 8 layers has no window"),
        pytest.param(
            "exaone4", {"block_count": 64}, [3, 7], id="EXAONE 4.0 32B, of 64 layers, has one"
        ),
    ],
)
def test_a_model_without_a_sliding_window_rotates_all_layers(
    tmp_path: Path, architecture: str, values: dict[str, Any], unrotated: list[int]
) -> None:
    """If no attention slides, llama.cpp rotates the layers of full attention as well. Its source has
    the first of every four of SmallThinker's layers as such, and the last of four in the others.
    """
    assert unrotated_layers(tmp_path, architecture, values) == unrotated


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


NEOX_ARCHITECTURES = [
    "qwen2",
    "phi3",
    "gemma2",
    "gemma3",
    "gpt-oss",
    "falcon",
    "olmo2",
    "glm4moe",
]
"""Some that llama_model_rope_type of llama.cpp lists as LLAMA_ROPE_TYPE_NEOX."""


@pytest.mark.parametrize(
    ("arch", "layout"),
    [("llama", "interleaved"), *((arch, "halves") for arch in NEOX_ARCHITECTURES)],
)
def test_the_layout_of_an_architecture_is_its_rope_type_in_ggml(
    tmp_path: Path, arch: str, layout: str
) -> None:
    """A header has no key for the layout. llama_model_rope_type of llama.cpp has a type for each
    architecture: NORM rotates interleaved pairs, NEOX rotates halves.
    """
    model = load_model(write_gguf(tmp_path / "m.gguf", arch, SIZES))
    encoding = model.encodings[0]

    assert encoding.layout == layout
    assert encoding.sources["layout"] == f"family default (ggml's rope type of {arch})"
    assert model.warnings == ()


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


def test_a_factor_divides_pairs_that_rotate_and_leaves_the_others_still(tmp_path: Path) -> None:
    """Gemma 4's pairs that must not rotate have the divisor 1e30 in rope_freqs.weight, the last two of
    four here. The frequencies base^(−2i/8) of the others, with divisor 1, are divided by the factor,
    8; base is the 500000 of LLAMA_3_1_HEADER.
    """
    header = {**LLAMA_3_1_HEADER, "rope.dimension_count": 8, "rope.scaling.factor": 8.0}
    tensors = {ROPE_FREQS: [1.0, 1.0, 1e30, 1e30]}
    path = write_gguf(tmp_path / "m.gguf", "gemma4", header, tensors)
    frequencies = load_model(path).encodings[0].inverse_frequencies() or []

    rotating_pairs = frequencies[:2]
    still_pairs = frequencies[2:]
    assert rotating_pairs == pytest.approx([1 / 8, 500000.0 ** (-2 / 8) / 8], rel=1e-15)
    # At most 1, divided by at least float32's 1e30: no position turns such a pair visibly.
    assert len(still_pairs) == 2
    assert max(still_pairs) < 1.01e-30


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


IMPOSSIBLE_DIVISORS = {
    "32 divisors of 64": llama3_factors(8.0)[:32],
    "zeros": [0.0] * 64,
    "not a number": [math.nan] * 64,
}
"""Contents of rope_freqs.weight that a Llama with 64 frequencies cannot have."""


def write_llama_with_impossible_divisors(path: Path, name: str) -> Path:
    """Write LLAMA_3_1_HEADER, of heads of 128 channels, with a row of IMPOSSIBLE_DIVISORS."""
    return write_gguf(path, "llama", LLAMA_3_1_HEADER, {ROPE_FREQS: IMPOSSIBLE_DIVISORS[name]})


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (
            "32 divisors of 64",
            "rope_freqs.weight is 32 numbers; there must be one for each of 64 frequencies",
        ),
        ("zeros", "rope_freqs.weight[0] is 0; it must be a finite number"),
    ],
)
def test_divisors_of_a_wrong_count_or_of_0_are_refused_as_wrong_values(
    tmp_path: Path, run_pecli, name: str, problem: str
) -> None:
    """A file without --config is its own model: a Llama with heads of 128 channels has 64 frequencies,
    and nothing can be divided by 0. The exit code is that of a wrong value, 2.
    """
    path = write_llama_with_impossible_divisors(tmp_path / "x.gguf", name)
    outcome = run_pecli("verify", path)

    assert outcome.exit_code == USAGE_ERROR
    assert problem in outcome.err


def test_divisors_that_are_not_a_number_are_refused_as_a_damaged_file(
    tmp_path: Path, run_pecli
) -> None:
    """No converter writes NaN, so the exit code is that of a damaged file, 3, and not that of a wrong
    value.
    """
    path = write_llama_with_impossible_divisors(tmp_path / "x.gguf", "not a number")
    outcome = run_pecli("verify", path)

    assert outcome.exit_code == FILE_ERROR
    assert "rope_freqs.weight is [nan, " in outcome.err


@pytest.mark.parametrize("name", IMPOSSIBLE_DIVISORS)
def test_impossible_divisors_fail_the_check_against_a_model_that_is_given(
    tmp_path: Path, run_pecli, name: str
) -> None:
    """With --config, the preset Llama 3.1 8B is the model, and the file is only what is checked: its
    divisors are wrong tensors, which fail (exit code 1) and are no error.
    """
    path = write_llama_with_impossible_divisors(tmp_path / "x.gguf", name)
    outcome = run_pecli("verify", path, "--config", "llama-3.1-8b")
    assert outcome.exit_code == CHECK_FAILED


LONG = [1.0, 2.0, 8.0, 40.0]
SHORT = [1.0, 1.0, 1.5, 2.0]
SMALL_PHI3_CONFIG = {
    "model_type": "phi3",
    "hidden_size": 64,
    "num_attention_heads": 8,
    "max_position_embeddings": 131072,
    "original_max_position_embeddings": 4096,
    "rope_scaling": {"type": "longrope", "long_factor": LONG, "short_factor": SHORT},
}
"""A Phi-3 with heads of 64 / 8 = 8 channels: four pairs, and so four factors of each kind."""
SMALL_PHI3_HEADER = {
    "embedding_length": 64,
    "attention.head_count": 8,
    "rope.dimension_count": 8,
    "rope.scaling.type": "longrope",
    "rope.scaling.original_context_length": 4096,
    "rope.scaling.attn_factor": math.sqrt(1 + math.log(131072 / 4096) / math.log(4096)),
}
"""The same model in llama.cpp's keys; Phi-3's code computes attn_factor so."""


def test_long_and_short_factors_of_a_gguf_pass_against_the_config_that_has_them(
    tmp_path: Path, run_pecli
) -> None:
    """SMALL_PHI3_HEADER and SMALL_PHI3_CONFIG describe one model, and a .gguf has the factors in two
    tensors.
    """
    tensors = {LONG_FACTORS: LONG, SHORT_FACTORS: SHORT}
    path = write_gguf(tmp_path / "m.gguf", "phi3", SMALL_PHI3_HEADER, tensors)
    (tmp_path / "config.json").write_text(json.dumps(SMALL_PHI3_CONFIG))
    outcome = run_pecli("verify", path, "--config", tmp_path / "config.json")

    assert outcome.exit_code == SUCCESS
    assert "is used where" not in outcome.out


def test_long_and_short_factors_of_a_gguf_fail_with_that_reason_if_they_are_exchanged(
    tmp_path: Path, run_pecli
) -> None:
    """A converter may write either list under the name of the other. SMALL_PHI3_HEADER and
    SMALL_PHI3_CONFIG describe one model.
    """
    tensors = {LONG_FACTORS: SHORT, SHORT_FACTORS: LONG}
    path = write_gguf(tmp_path / "m.gguf", "phi3", SMALL_PHI3_HEADER, tensors)
    (tmp_path / "config.json").write_text(json.dumps(SMALL_PHI3_CONFIG))
    outcome = run_pecli("verify", path, "--config", tmp_path / "config.json")

    assert outcome.exit_code == CHECK_FAILED
    assert "short_factor is used where long_factor belongs" in outcome.out


def header_start(*, tensors: int, keys: int) -> bytes:
    """Return the first 24 bytes of a GGUF file of version 3, with the numbers of both that it claims."""
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, keys)


def name_of_key(name: str) -> bytes:
    return struct.pack("<Q", len(name)) + name.encode()


def key_of_a_text(name: str, length: int) -> bytes:
    """Return the key of a text (type 8) that claims so many bytes, which would follow."""
    return name_of_key(name) + struct.pack("<IQ", 8, length)


def key_of_a_list(name: str, element_type: int, count: int) -> bytes:
    """Return the key of a list (type 9) that claims so many elements, which would follow."""
    return name_of_key(name) + struct.pack("<IIQ", 9, element_type, count)


BYTE = 0
TEXT = 8
MB = 2**20


def write_sparse_file(path: Path, start: bytes, keys: list[bytes], gap: int) -> None:
    """Write the start of a header and its keys, each followed by a gap of so many bytes.

    A gap is read as zeros, and takes no room on the disk.
    """
    with path.open("wb") as file:
        file.write(start)
        for key in keys:
            file.write(key)
            file.seek(gap, os.SEEK_CUR)
        file.truncate(max(file.tell(), gap))


@pytest.mark.parametrize(
    ("keys", "gap"),
    [
        pytest.param([key_of_a_list("t", TEXT, 2**26)], 1024 * MB, id="a list of 2^26 texts"),
        pytest.param(
            [key_of_a_text(f"{number:04}", MB) for number in range(1000)],
            MB,
            id="1000 texts of 1 MB",
        ),
        pytest.param(
            [key_of_a_list(f"{number:04}", BYTE, 4096) for number in range(1000)],
            4096,
            id="1000 lists of 4096 numbers, of several bytes each in memory",
        ),
    ],
)
def test_a_header_that_would_take_more_than_16_mb_is_refused(
    tmp_path: Path, run_pecli, keys: list[bytes], gap: int
) -> None:
    """A broken or hostile header can claim gigabytes of texts and lists in a sparse file, whose gaps
    take no room on the disk. It must be refused before it fills the memory; real headers have at
    most a few MB.
    """
    path = tmp_path / "m.gguf"
    write_sparse_file(path, header_start(tensors=0, keys=len(keys)), keys, gap)
    outcome = run_pecli("config", path)

    assert outcome.exit_code == FILE_ERROR
    assert "has a header of more than 16 MB" in outcome.err


def test_a_header_that_claims_more_tensors_than_any_model_has_is_refused(
    tmp_path: Path, run_pecli
) -> None:
    """Models have thousands of tensors, and this broken or hostile header claims 2^20 = 1048576 in a
    file of 64 MB. It must be refused before entries for them are made.
    """
    path = tmp_path / "m.gguf"
    start = header_start(tensors=2**20, keys=0)
    write_sparse_file(path, start, keys=[], gap=64 * MB)
    outcome = run_pecli("config", path)

    assert outcome.exit_code == FILE_ERROR
    assert "claims 0 keys and 1048576 tensors" in outcome.err


def test_a_header_with_an_alignment_of_0_is_refused(tmp_path: Path, run_pecli) -> None:
    """Tensors begin at multiples of general.alignment, an unsigned number (type 4), and 0 has none."""
    alignment = name_of_key("general.alignment") + struct.pack("<II", 4, 0)
    path = tmp_path / "m.gguf"
    path.write_bytes(header_start(tensors=0, keys=1) + alignment)
    outcome = run_pecli("config", path)

    assert outcome.exit_code == FILE_ERROR
    assert "has the alignment 0" in outcome.err


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
    key = name_of_key("general.alignment")
    path = tmp_path / "m.gguf"
    path.write_bytes(header_start(tensors=0, keys=1) + key + value)

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
