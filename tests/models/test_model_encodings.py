"""The encodings of a model as an object: layer types, JSON, representation, and the schemes that
they make.

An encoding is one way in which a part of a model uses positions; layers of one type share it. Gemma
3 has two, for full and for sliding attention. Sizes are those of published configs; SMALL_CONFIG is
a rotary model with heads of 16 channels.
"""

import pytest

from pecli.errors import ParameterError
from pecli.models.find import load_config, load_model
from tests.models.configs import DYNAMIC_SCALING, LLAMA_CONFIG, SMALL_CONFIG, UNSCALED, Config


def test_a_model_is_a_sequence_of_its_encodings() -> None:
    """Gemma 3 1B has two types of layers, each with an encoding: full attention and sliding
    attention.
    """
    model = load_model("gemma-3-1b")
    assert len(model) == 2
    assert [encoding.layer_type for encoding in model] == ["full_attention", "sliding_attention"]


def test_the_method_ropes_returns_the_rotary_encodings_of_the_language_model() -> None:
    """Gemma 3 1B has a text model only, with one rotary encoding per type of layers."""
    types = [encoding.layer_type for encoding in load_model("gemma-3-1b").ropes()]
    assert types == ["full_attention", "sliding_attention"]


def test_a_model_without_encodings_is_false_like_an_empty_list() -> None:
    """Mamba, a state space model, has no positional encoding."""
    assert not load_config({"model_type": "mamba", "hidden_size": 512})


def test_the_representation_lists_the_layer_types() -> None:
    """Gemma 3 1B has full and sliding layers; each type is followed by the scheme of its encoding."""
    expected = "<ModelEncodings of gemma-3-1b: full_attention rope, sliding_attention rope>"
    assert repr(load_model("gemma-3-1b")) == expected


def test_the_representation_of_a_model_without_encodings_ends_in_none() -> None:
    """A configuration that was given as a mapping is called «config»."""
    assert repr(load_config({"hidden_size": 3})) == "<ModelEncodings of config: none>"


@pytest.mark.parametrize(
    ("model_type", "layout", "tables_in_halves"),
    [("llama", "halves", False), ("cohere", "interleaved", False), ("glm", "interleaved", True)],
)
def test_the_layout_of_pairs_is_that_of_the_family(
    model_type: str, layout: str, tables_in_halves: bool
) -> None:
    """By the families' code in transformers, Llama rotates halves (channel i with i + d/2), and
    Cohere interleaved pairs (2i with 2i + 1). GLM rotates interleaved pairs too, but its tables of
    cos and sin hold every frequency at columns i and i + d/2 (`tables_in_halves`).
    """
    encoding = load_config({**LLAMA_CONFIG, "model_type": model_type}).one()
    assert encoding.layout == layout
    assert encoding.tables_in_halves is tables_in_halves


@pytest.mark.parametrize(
    ("preset", "rotates_last_channels"),
    [("gpt2", False), ("llama-3-8b", False), ("deepseek-v3", True)],
)
def test_only_latent_attention_rotates_the_last_channels(
    preset: str, rotates_last_channels: bool
) -> None:
    """DeepSeek-V3's heads have 128 channels without rotation before 64 rotary ones (`trailing`), and
    Llama rotates whole heads; GPT-2 rotates nothing.
    """
    assert load_model(preset).one().trailing is rotates_last_channels


@pytest.mark.parametrize("preset", ["gpt2", "llama-3-8b", "deepseek-v3"])
def test_columns_of_tables_are_in_the_order_of_the_layout_in_most_models(preset: str) -> None:
    """`tables_in_halves` is for models such as GLM, which rotate interleaved pairs, but store tables
    with each frequency at columns i and i + d/2. GPT-2, Llama and DeepSeek do not.
    """
    assert load_model(preset).one().tables_in_halves is False


@pytest.mark.parametrize(
    ("keys", "trailing"),
    [
        pytest.param({"rotary_dim": 8}, False, id="partial rotation"),
        pytest.param({"model_type": "my_vision"}, False, id="a tower for images"),
        pytest.param(
            {"qk_rope_head_dim": 8, "qk_nope_head_dim": 8}, True, id="half of a latent head"
        ),
        pytest.param(
            {"qk_rope_head_dim": 16, "qk_nope_head_dim": 0}, False, id="all of a latent head"
        ),
    ],
)
def test_the_rotary_channels_are_last_if_a_latent_head_has_others(
    keys: Config, trailing: bool
) -> None:
    """Heads have 16 channels. DeepSeek's latent heads have qk_nope_head_dim channels without a
    rotation, and the qk_rope_head_dim rotated ones after them (`trailing`); partial rotation
    (rotary_dim) rotates the first channels.
    """
    assert load_config({**SMALL_CONFIG, **keys}).one().trailing is trailing


@pytest.mark.parametrize(
    ("preset", "parameters"),
    [
        ("gpt2", [{"max_len": 1024, "dim": 768, "std": 0.02}]),
        (
            "whisper-tiny",
            [
                {
                    "seq_len": 1500,
                    "dim": 384,
                    "style": "whisper",
                    "base": 10000.0,
                    "layout": "halves",
                    "freq_shift": 1.0,
                },
                {"max_len": 448, "dim": 384},
            ],
        ),
        ("mpt-7b", [{"heads": 32, "rule": "paper", "max_bias": 8.0, "form": "key-last"}]),
    ],
)
def test_the_parameters_of_tables_and_biases_are_complete(
    preset: str, parameters: list[Config]
) -> None:
    """All parameters are listed, one mapping per encoding of the model. The sizes, GPT-2's std
    (initializer_range) and MPT's max_bias (alibi_bias_max) are those of the published configs;
    freq_shift 1 is OpenAI's `sinusoids` of Whisper, which divides by one less than the number of
    pairs. `described()` adds M-RoPE sections, grids and the like, which none of these models has.
    """
    assert [dict(encoding.parameters) for encoding in load_model(preset)] == parameters
    assert [encoding.described() for encoding in load_model(preset)] == parameters


def test_a_plain_rotary_model_is_described_by_its_parameters_only() -> None:
    """`described()` adds M-RoPE sections, grids and layers without rope to the parameters of the
    scheme; Llama 3 has none of these.
    """
    encoding = load_model("llama-3-8b").one()
    assert encoding.described() == encoding.parameters


@pytest.mark.parametrize("length", [None, 64])
def test_json_states_the_length_if_the_scaling_depends_on_it(length: int | None) -> None:
    """The base of dynamic NTK depends on the length of the prompt, so the JSON of an encoding
    states the length that it was made for.
    """
    config = {**SMALL_CONFIG, "max_position_embeddings": 32, "rope_scaling": DYNAMIC_SCALING}
    assert load_config(config).one().as_json(length)["parameters"].get("length") == length


def test_json_states_no_length_if_frequencies_are_the_same_at_every_length() -> None:
    """The Llama is unscaled, with 64 / 4 = 16 channels per head and base 10000: the length 64, for
    which JSON is made, is not in it.
    """
    encoding = load_config({**SMALL_CONFIG, "model_type": "llama"}).one()
    parameters = encoding.as_json(64)["parameters"]
    assert parameters == {"dim": 16, "base": 10000.0, "scaling": "none"}


def test_the_rope_of_a_runtime_has_the_length_that_is_given() -> None:
    """vLLM's tables depend on the length that the server was started with (`length`), which must reach
    the scheme. It may be longer than the table, which has `seq_len` rows.
    """
    encoding = load_config({**SMALL_CONFIG, "model_type": "llama"}).one()
    rope = encoding.rope(seq_len=4, length=64, runtime="vllm")
    assert rope.length == 64
    assert rope.seq_len == 4


def test_sections_that_do_not_fit_the_head_are_left_out_of_the_scheme() -> None:
    """Sections of 1 + 1 + 1 pairs do not add up to the 8 pairs of a head of 16 channels."""
    config = {**SMALL_CONFIG, "rope_scaling": {**UNSCALED, "mrope_section": [1, 1, 1]}}
    assert load_config(config).one().rope(4).mrope_section is None


def test_sections_of_an_option_take_precedence_over_those_of_the_model() -> None:
    """Qwen2-VL has the sections 16, 24, 24 for heads of 128 channels."""
    encoding = load_config({"model_type": "qwen2_vl", **SMALL_CONFIG, "head_dim": 128}).one()
    assert encoding.rope(8).mrope_section == (16, 24, 24)
    assert encoding.rope(8, mrope_section=(8, 8, 48)).mrope_section == (8, 8, 48)


def test_sections_of_an_option_that_do_not_fit_the_head_are_refused() -> None:
    """8 + 8 + 8 are not the 64 pairs of a head of 128 channels; the model's own do not replace them."""
    encoding = load_config({"model_type": "qwen2_vl", **SMALL_CONFIG, "head_dim": 128}).one()
    with pytest.raises(ParameterError, match="the sections must add up to 64"):
        encoding.rope(8, mrope_section=(8, 8, 8))


def test_sections_of_qwen2_vl_are_not_interleaved_which_is_the_default_of_rope() -> None:
    """Qwen2-VL's sections of time, rows and columns come one after the other. Rope's parameter
    `mrope_interleaved` is then None, its default, and not False.
    """
    encoding = load_config({"model_type": "qwen2_vl", **SMALL_CONFIG, "head_dim": 128}).one()
    rope = encoding.rope(seq_len=8)
    assert rope.mrope_section == (16, 24, 24)
    assert rope.mrope_interleaved is None


def test_sections_of_qwen3_vl_are_interleaved() -> None:
    """Qwen3-VL's code mixes the pairs of time, rows and columns; its published sections are 24, 20
    and 20 of 64 pairs.
    """
    encoding = load_config({"model_type": "qwen3_vl", **SMALL_CONFIG, "head_dim": 128}).one()
    rope = encoding.rope(seq_len=8)
    assert rope.mrope_section == (24, 20, 20)
    assert rope.mrope_interleaved is True


@pytest.mark.parametrize(("use_fope", "requested"), [(True, True), (False, False), (None, False)])
def test_a_config_that_requests_fourier_position_embeddings_is_marked(
    use_fope: bool | None, requested: bool
) -> None:
    """`use_fope` requests FoPE (Hua et al. 2024), which pecli has no scheme for and warns of."""
    config = {
        "model_type": "llama",
        **SMALL_CONFIG,
        "rope_scaling": {**UNSCALED, "use_fope": use_fope},
    }
    assert load_config(config).one().use_fope is requested


def test_a_learned_table_requests_no_fourier_position_embeddings() -> None:
    """FoPE (Fourier position embeddings) is a variant of RoPE, and GPT-2 has a learned table."""
    assert load_model("gpt2").one().use_fope is False


@pytest.mark.parametrize(
    ("tensor", "layer_type"),
    [
        ("model.layers.0.self_attn.q", "sliding_attention"),
        ("model.layers.1.self_attn.q", "full_attention"),
        ("model.layers.2.self_attn.q", None),
        ("vision.layers.1.self_attn.q", None),
        ("rotary_emb.inv_freq", "full_attention"),
        ("rotary_emb_local.inv_freq", "sliding_attention"),
    ],
)
def test_the_layer_type_of_a_tensor_follows_from_its_name(
    tensor: str, layer_type: str | None
) -> None:
    """`layer_types` gives layer 0 and layer 1 their types; there is no layer 2 (None), and layers of
    a tower for images are other layers. In transformers, Gemma 3 calls the tables of its sliding
    layers rotary_emb_local.
    """
    model = load_config(
        {
            "model_type": "gemma3_text",
            "hidden_size": 64,
            "num_attention_heads": 4,
            "head_dim": 16,
            "num_hidden_layers": 2,
            "layer_types": ["sliding_attention", "full_attention"],
        }
    )
    assert model.layer_named(tensor) == layer_type
