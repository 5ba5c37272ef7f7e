"""Rotary settings of configurations: layer types, heads, scalings, sections, and the warnings about
them.

Most configurations are SMALL_CONFIG, a rotary model of no known family with heads of 64 / 4 = 16
channels and base 10000, to which keys are added. The rules are those of the classes of
transformers, or of the models' own code, that the docstrings name; «latent attention» is
DeepSeek's, whose heads have rotary and other channels (qk_rope_head_dim, qk_nope_head_dim).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from pecli.errors import PecliError
from pecli.models.encoding import Encoding
from pecli.models.find import load_config, load_model
from pecli.models.presets import find
from tests.models.configs import (
    DYNAMIC_SCALING,
    LINEAR_SCALING,
    LLAMA_CONFIG,
    LONGROPE_SCALING,
    SMALL_CONFIG,
    UNSCALED,
    YARN_SCALING,
    Config,
)


def small_encoding(**keys: Any) -> Encoding:
    return load_config({**SMALL_CONFIG, **keys}).one()


@pytest.mark.parametrize(
    ("keys", "context"),
    [
        pytest.param({"max_position_embeddings": 1}, 1, id="the shortest"),
        pytest.param({"max_position_embeddings": 0, "n_ctx": 7}, 7, id="0 and another key"),
    ],
)
def test_the_context_is_the_first_key_of_a_length_above_0(keys: Config, context: int) -> None:
    """1 is the shortest context; 0 counts as missing, and the next key (n_ctx) is read."""
    assert load_config({**SMALL_CONFIG, **keys}).context == context


# ---------------------------------------------------------------- alpha


def encoding_with_alpha(alpha: object, **keys: Any) -> Encoding:
    return small_encoding(
        **keys, max_position_embeddings=32, rope_scaling={**DYNAMIC_SCALING, "alpha": alpha}
    )


@pytest.mark.parametrize(
    ("keys", "scaling", "ignored_alpha"),
    [
        pytest.param({}, "ntk", None, id="unknown class"),
        pytest.param({"model_type": "llama"}, "dynamic", 8.0, id="Llama"),
        pytest.param({"model_type": "hunyuan_v1_dense"}, "ntk", None, id="HunYuan"),
    ],
)
def test_an_alpha_is_the_factor_of_ntk_unless_the_familys_code_ignores_it(
    keys: Config, scaling: str, ignored_alpha: float | None
) -> None:
    """The settings are dynamic scaling by 2 with alpha 8. HunYuan's code reads this as NTK by the
    factor alpha, as pecli does for an unknown class ({}); Llama's class ignores alpha, which is kept
    for runtimes that do not (`ignored_alpha`).
    """
    encoding = encoding_with_alpha(8.0, **keys)
    assert encoding.parameters["scaling"] == scaling
    assert encoding.alpha == ignored_alpha


@pytest.mark.parametrize(
    ("alpha", "kept"),
    [
        pytest.param(1, 1, id="1"),
        pytest.param(0.5, None, id="below 1"),
        pytest.param(2**64 - 1, 2**64 - 1, id="the largest"),
        pytest.param(2**64, None, id="beyond the largest"),
        pytest.param("x", None, id="text"),
        pytest.param(None, None, id="none"),
    ],
)
def test_an_ignored_alpha_is_kept_if_a_runtime_could_use_it(alpha: object, kept: object) -> None:
    """Llama's class ignores alpha; runtimes that take it require a number from 1 to 2^64 − 1."""
    assert encoding_with_alpha(alpha, model_type="llama").alpha == kept


def test_an_alpha_of_0_counts_as_missing() -> None:
    """With a key alpha, dynamic scaling is a fixed NTK scaling of the base, as in Hunyuan. An alpha
    of 0 would make the base 0, so it counts as missing: the scaling stays dynamic.
    """
    assert encoding_with_alpha(0).parameters["scaling"] == "dynamic"


# ---------------------------------------------------------------- order of frequencies


class PairsByAxis(NamedTuple):
    """The pairs of a head that rotate by each axis."""

    by_row: Sequence[int]
    by_column: Sequence[int]
    by_time: Sequence[int]


@pytest.mark.parametrize(
    ("pairs", "section", "expected"),
    [
        pytest.param(
            24,
            None,
            PairsByAxis(by_row=[0, 2], by_column=[1, 3], by_time=range(4, 24)),
            id="24 pairs: the last 20 are for time",
        ),
        pytest.param(
            8,
            None,
            PairsByAxis(by_row=[0, 2, 4, 6], by_column=[1, 3, 5, 7], by_time=[]),
            id="8 pairs, too few for 20 of time",
        ),
        pytest.param(
            8,
            [],
            PairsByAxis(by_row=[0, 2, 4, 6], by_column=[1, 3, 5, 7], by_time=[]),
            id="an empty section is none",
        ),
        pytest.param(
            8,
            [3, 3, 2],
            PairsByAxis(by_row=[0, 2, 4], by_column=[1, 3, 5], by_time=[6, 7]),
            id="sections with 2 pairs of time",
        ),
        pytest.param(
            8,
            [0, 0, 8],
            PairsByAxis(by_row=[], by_column=[], by_time=range(8)),
            id="sections with only time",
        ),
    ],
)
def test_ernie_stores_frequencies_of_rows_then_of_columns_then_of_time(
    pairs: int, section: list[int] | None, expected: PairsByAxis
) -> None:
    """By ernie4_5_vl_moe of transformers, the last pairs of a head rotate by time: as many as the third
    number of mrope_section, or 20. Of the others, even pairs rotate by rows and odd ones by columns.
    inv_freq has the frequencies axis by axis, and `order` the pair of each.
    """
    settings = {"type": "default", "mrope_section": section}
    encoding = small_encoding(
        model_type="ernie4_5_vl_moe", head_dim=2 * pairs, rope_scaling=settings
    )
    assert encoding.order == (*expected.by_row, *expected.by_column, *expected.by_time)


# ---------------------------------------------------------------- layer types


@pytest.mark.parametrize("settings", [LINEAR_SCALING, {"full_attention": LINEAR_SCALING}])
def test_equal_settings_in_rope_scaling_and_rope_parameters_have_no_warning(
    settings: Config,
) -> None:
    """rope_scaling is the key of transformers 4, rope_parameters that of 5. Some files have both, with
    the same settings for the model or for each layer type.
    """
    config = {
        **SMALL_CONFIG,
        "model_type": "llama",
        "rope_scaling": settings,
        "rope_parameters": settings,
    }
    assert load_config(config).warnings == ()


def test_rope_scaling_wins_over_rope_parameters_that_differ_with_a_warning() -> None:
    """Linear scaling by 2 in rope_scaling, and by 4 in rope_parameters."""
    config = {
        **SMALL_CONFIG,
        "model_type": "llama",
        "rope_scaling": {"rope_type": "linear", "factor": 2.0},
        "rope_parameters": {"rope_type": "linear", "factor": 4.0},
    }
    encodings = load_config(config)

    assert encodings.one().parameters["factor"] == 2.0
    assert encodings.warnings[0] == (
        "rope_scaling and rope_parameters are both given and differ; rope_scaling wins"
    )


def test_a_config_may_have_settings_for_64_layer_types() -> None:
    """64 is pecli's limit, far above the two or three types of published models."""
    settings = {f"type_{k}": UNSCALED for k in range(64)}
    assert len(load_config({**SMALL_CONFIG, "rope_parameters": settings})) == 64


def test_a_family_with_two_bases_has_no_sliding_layers_if_layer_types_has_none() -> None:
    """Gemma 3's class has a base for sliding layers, but this model lists only full ones."""
    config = {
        "model_type": "gemma3_text",
        "layer_types": ["full_attention"],
        "rope_parameters": {"full_attention": UNSCALED},
    }
    assert [encoding.layer_type for encoding in load_config(config)] == ["full_attention"]


@pytest.mark.parametrize(
    ("keys", "dims"),
    [
        pytest.param({}, [8, 8], id="rotary_dim only"),
        pytest.param({"swa_rotary_dim": 4}, [8, 4], id="swa_rotary_dim"),
    ],
)
def test_sliding_layers_may_rotate_fewer_channels(keys: Config, dims: list[int]) -> None:
    """`dims` are the rotary dimensions of full and of sliding layers. rotary_dim, 8 here, holds for
    both unless swa_rotary_dim (sliding-window attention) states another.
    """
    settings = {"full_attention": UNSCALED, "sliding_attention": UNSCALED}
    config = {**SMALL_CONFIG, "rotary_dim": 8, "rope_parameters": settings, **keys}

    assert [encoding.parameters["dim"] for encoding in load_config(config)] == dims


@pytest.mark.parametrize("keys", [{"no_rope_layer_interval": 4}, {"num_hidden_layers": 4}])
def test_the_interval_of_layers_without_rope_needs_the_number_of_layers(keys: Config) -> None:
    """Which layers have no RoPE follows from no_rope_layer_interval and num_hidden_layers together:
    with one of the two keys it is not known (None).
    """
    assert small_encoding(**keys).unrotated.nope_layers is None


def test_a_layer_with_base_0_has_no_rope() -> None:
    """layer_rope_theta has one base per layer; layer 1 has 0, which stands for no rotation."""
    assert small_encoding(layer_rope_theta=[1e4, 0, 1e4]).unrotated.nope_layers == (1,)


LLAMA4_TEMPERATURE: Config = {
    "no_rope_layers": [1, 0],
    "attn_temperature_tuning": True,
    "attn_scale": 0.1,
    "floor_scale": 8,
}


def test_queries_of_layers_without_rope_have_a_temperature() -> None:
    """Layer 1 has no rope. Llama 4's code multiplies its queries at position p by
    1 + 0.1 · ln(1 + ⌊(p + 1) / 8⌋), where 0.1 is the key attn_scale and 8 floor_scale.
    """
    keys = {"attn_temperature_tuning": True, "attn_scale": 0.1, "floor_scale": 8}
    encoding = small_encoding(no_rope_layers=[1, 0], **keys)
    assert encoding.unrotated.described() == {
        "nope_layers": (1,),
        "attn_scale": 0.1,
        "floor_scale": 8,
    }


@pytest.mark.parametrize(
    "keys",
    [
        {"attn_scale": None},
        {"floor_scale": None},
        {"attn_temperature_tuning": False},
        {"attn_temperature_tuning": None},
    ],
)
def test_the_temperature_needs_all_three_keys(keys: Config) -> None:
    """Llama 4 multiplies queries in layers without rope by a factor, if attn_temperature_tuning,
    attn_scale and floor_scale state it. In each row one of them is missing or false, so only the
    layers without rope are described.
    """
    assert small_encoding(**{**LLAMA4_TEMPERATURE, **keys}).unrotated.described() == {
        "nope_layers": (1,)
    }


# ---------------------------------------------------------------- heads


@pytest.mark.parametrize(
    ("keys", "dim"),
    [
        pytest.param({"rotary_dim": 8}, 8, id="rotary_dim"),
        pytest.param({"rotary_dim": 0}, 16, id="rotary_dim 0"),
        pytest.param({"qk_rope_head_dim": 0}, 16, id="qk_rope_head_dim 0"),
        pytest.param({"model_type": "minimax_m3", "rotary_dim": 8}, 16, id="MiniMax-M3"),
        pytest.param(
            {"model_type": "efficientloftr", "partial_rotary_factor": 2.0}, 32, id="EfficientLoFTR"
        ),
    ],
)
def test_the_rotary_dimension_follows_from_the_key_that_the_class_reads(
    keys: Config, dim: int
) -> None:
    """Heads have 16 channels. By the classes of transformers: zero counts as missing; MiniMax-M3's
    ignores rotary_dim; EfficientLoFTR's factor may exceed 1 (16 · 2 = 32).
    """
    assert small_encoding(**keys).parameters["dim"] == dim


@pytest.mark.parametrize("keys", [{}, {"qk_rope_head_dim": 8}])
def test_a_partial_rotary_factor_of_1_is_no_parameter_of_the_scheme(keys: Config) -> None:
    """1 means that all channels rotate, which needs no parameter: those of a whole head ({}), or the
    rotary ones of a latent head (qk_rope_head_dim).
    """
    encoding = small_encoding(**keys, partial_rotary_factor=1.0)
    assert "partial_rotary_factor" not in encoding.parameters


@pytest.mark.parametrize(
    ("keys", "layout"),
    [
        pytest.param({"kv_lora_rank": 512}, "halves", id="only kv_lora_rank"),
        pytest.param({"qk_rope_head_dim": 8}, "halves", id="only qk_rope_head_dim"),
        pytest.param({"kv_lora_rank": 512, "qk_rope_head_dim": 8}, "deepseek", id="both"),
    ],
)
def test_latent_attention_is_recognised_by_two_keys_together(keys: Config, layout: str) -> None:
    """DeepSeek's latent attention has the layout «deepseek», which reads interleaved pairs and writes
    halves. Configs of other attention may have kv_lora_rank or qk_rope_head_dim, but not both.
    """
    assert small_encoding(**keys).layout == layout


@pytest.mark.parametrize(
    ("head_dim", "count_of_warnings"),
    [
        pytest.param(64, 0, id="the rotary dimension"),
        pytest.param(128 + 64, 1, id="the whole head"),
    ],
)
def test_a_head_dim_that_is_not_the_rotary_dimension_of_deepseek_is_reported(
    head_dim: int, count_of_warnings: int
) -> None:
    """DeepSeek-V3's published config has no head_dim; some converters write 192 = 128 + 64."""
    config = {"model_type": "deepseek_v3", "qk_rope_head_dim": 64, "head_dim": head_dim}
    assert len(load_config(config).warnings) == count_of_warnings


def test_the_warning_about_deepseeks_head_dim_names_both_dimensions() -> None:
    """192 = 128 + 64 is the whole head; only the 64 rotary channels have frequencies."""
    config = {"model_type": "deepseek_v3", "qk_rope_head_dim": 64, "head_dim": 192}
    (warning,) = load_config(config).warnings

    assert warning == (
        "head_dim is 192, for which transformers computes frequencies: they do not fit the"
        " 64 channels of qk_rope_head_dim, which other runtimes go by"
    )


def test_a_partial_factor_above_1_is_refused() -> None:
    """More than all channels of a head cannot rotate."""
    config = {
        "model_type": "gpt_neox_japanese",
        "hidden_size": 64,
        "num_attention_heads": 4,
        "rotary_pct": 2.0,
    }

    with pytest.raises(PecliError) as caught:
        load_config(config)
    assert str(caught.value) == (
        "config: rotary_pct is 2; it must be a finite number above 0, up to 1"
    )


# ---------------------------------------------------------------- base and scaling


def test_a_base_below_1_is_read() -> None:
    """Frequencies 0.5^(-2i/dim) grow with i, which no rule of transformers forbids."""
    assert small_encoding(rope_theta=0.5).parameters["base"] == 0.5


def test_a_base_of_0_is_refused() -> None:
    """Frequencies are powers of the base, and those of 0 are 0 or infinite."""
    with pytest.raises(PecliError) as caught:
        small_encoding(rope_theta=0)
    assert str(caught.value) == "config: rope_theta is 0; a base must be above 0"


@pytest.mark.parametrize(
    ("keys", "mscales"),
    [
        pytest.param({}, None, id="neither"),  # no keys beyond those of longrope
        pytest.param({"short_mscale": 1.25}, None, id="only short_mscale"),
        pytest.param({"long_mscale": 1.5}, None, id="only long_mscale"),
        pytest.param({"short_mscale": 1.25, "long_mscale": 1.5}, (1.25, 1.5), id="both"),
        pytest.param(
            {"short_mscale": 1.25, "long_mscale": 1.5, "attention_factor": 1.0},
            None,
            id="both and attention_factor",
        ),
    ],
)
def test_longrope_has_two_attention_factors_if_both_are_given(
    keys: Config, mscales: tuple[float, float] | None
) -> None:
    """`mscales` are the attention factors for prompts up to the original length and beyond it, as
    Phi-3.5-MoE states them (short_mscale, long_mscale). One alone counts for nothing, and a given
    attention_factor wins over both.
    """
    assert small_encoding(rope_scaling={**LONGROPE_SCALING, **keys}).mscales == mscales


def test_only_longrope_has_two_attention_factors() -> None:
    """short_mscale and long_mscale are keys of Phi-3.5-MoE's longrope; beside YaRN they are not read."""
    settings = {
        "type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 32,
        "short_mscale": 1.25,
        "long_mscale": 1.5,
    }
    assert small_encoding(rope_scaling=settings).mscales is None


def test_the_softmax_scale_of_latent_attention_is_in_one_warning() -> None:
    """DeepSeek multiplies the softmax scale by the square of YaRN's magnitude, which no table shows."""
    keys = {"model_type": "deepseek_v3", "qk_rope_head_dim": 8, "rope_scaling": YARN_SCALING}
    warnings = load_config({**SMALL_CONFIG, **keys}).warnings
    assert len([warning for warning in warnings if "softmax" in warning]) == 1


def test_the_softmax_scale_of_a_llama_with_yarn_has_no_warning() -> None:
    """YARN_SCALING has DeepSeek's mscale, but Llama has no latent attention, and its class leaves the
    softmax scale as it is.
    """
    keys = {"model_type": "llama", "rope_scaling": YARN_SCALING}
    assert load_config({**SMALL_CONFIG, **keys}).warnings == ()


# ---------------------------------------------------------------- consistency


@pytest.mark.parametrize(
    ("changes", "count_of_warnings"),
    [
        pytest.param({}, 1, id="all three"),
        pytest.param({"rope_theta": 1e6}, 0, id="another base"),
        pytest.param({"max_position_embeddings": 8192}, 0, id="another length"),
        pytest.param({"model_type": "mistral"}, 0, id="another type"),
        pytest.param({"rope_scaling": LINEAR_SCALING}, 0, id="a scaling"),
    ],
)
def test_a_llama_3_1_without_its_scaling_is_recognised_by_three_marks_together(
    changes: Config, count_of_warnings: int
) -> None:
    """Model type llama, base 500000 and 131072 positions without a scaling are a Llama 3.1 that lost
    it. If one of these is changed, there is no warning.
    """
    llama_3_1 = {"model_type": "llama", "rope_theta": 5e5, "max_position_embeddings": 131072}
    model = load_config({**SMALL_CONFIG, **llama_3_1, **changes})
    assert len(model.warnings) == count_of_warnings


def test_the_lost_scaling_of_llama_3_1_8b_is_reported() -> None:
    """The published config is that of the preset; its rope_scaling is removed, as some converters do."""
    preset = find("llama-3.1-8b")
    assert preset is not None

    model = load_config({**preset.config, "rope_scaling": None})
    assert "rope_scaling may have been lost" in model.warnings[0]


@pytest.mark.parametrize(
    ("keys", "count_of_warnings"),
    [
        ({}, 0),
        ({"rope_scaling": YARN_SCALING}, 1),
        ({"audio_config": {**SMALL_CONFIG, "rope_scaling": YARN_SCALING}}, 0),
    ],
    ids=["no scaling", "a scaling of the text", "a scaling of the part for sound"],
)
def test_a_context_that_the_factor_does_not_make_is_reported(
    keys: Config, count_of_warnings: int
) -> None:
    """YARN_SCALING stretches 32 positions by 4, which makes 128, not 999; the scaling of another part
    does not concern the context of the text.
    """
    model = load_config({**SMALL_CONFIG, "max_position_embeddings": 999, **keys})
    doubts = [warning for warning in model.warnings if "which of them is meant" in warning]

    assert len(doubts) == count_of_warnings


def test_the_width_of_a_head_is_hidden_size_by_heads() -> None:
    """LLAMA_CONFIG has 4096 channels and 32 heads."""
    assert load_config(LLAMA_CONFIG).one().head_dim == 4096 // 32


def test_the_base_of_sliding_layers_of_gemma_3_is_its_rope_local_base_freq() -> None:
    """rope_local_base_freq of the published config is 10000."""
    assert load_model("gemma-3-1b").one("sliding_attention").parameters["base"] == 10000.0


@pytest.mark.parametrize(("beside", "is_reported"), [(0.5, False), (0.25, True)])
def test_a_partial_factor_beside_rope_parameters_is_reported_if_it_differs(
    beside: float, is_reported: bool
) -> None:
    """rope_parameters has 0.5; the same value beside it is harmless, 0.25 contradicts it."""
    config = {
        "model_type": "glm4",
        "hidden_size": 256,
        "num_attention_heads": 4,
        "rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5},
        "partial_rotary_factor": beside,
    }
    warnings = load_config(config).warnings

    assert any("partial_rotary_factor" in warning for warning in warnings) is is_reported


def test_a_partial_factor_shortens_the_order_of_ernies_frequencies() -> None:
    """Ernie stores its frequencies in an order of its own: half of a head's 128 channels are 32 pairs,
    and the order must be one of these 32.
    """
    scaling = {"rope_type": "linear", "factor": 3.0, "partial_rotary_factor": 0.5}
    encoding = load_config({"model_type": "ernie4_5_vl_moe_text", "rope_scaling": scaling}).one()

    assert encoding.head_dim == 128
    assert encoding.order is not None
    assert sorted(encoding.order) == list(range(32))
    assert len(encoding.inverse_frequencies() or []) == 32
