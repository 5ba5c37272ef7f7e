"""Configurations of projects other than Hugging Face's: what their own code computes from them.

MaxText, GPT-NeoX, DeepSeek's inference code, diffusers, FunASR, V-JEPA, SAM 2, audiocraft and
others: each rule was read from the project's source, which the docstring of its test names if the
rule is not its configuration's own. MAXTEXT_CONFIG has heads of 128 channels.
"""

import math

import pytest

from pecli.models.dialects import read_object
from pecli.models.dialects.translation import yarn_magnitude
from pecli.models.find import load_config
from pecli.models.keys import Setting
from tests.models.configs import MAXTEXT_CONFIG, Config


@pytest.mark.parametrize(("file", "scaling"), [("llama3.1-8b", "llama3"), ("llama2-7b", "none")])
def test_a_config_of_maxtext_is_scaled_if_its_file_is_called_llama3_1(
    file: str, scaling: str
) -> None:
    """MaxText scales by Llama 3.1's rule if the name of the model contains «llama3.1»; no key of the
    file states it.
    """
    encoding = read_object(MAXTEXT_CONFIG, f"models/{file}.yml").one()
    assert encoding.parameters["scaling"] == scaling


@pytest.mark.parametrize(
    ("block", "scalings"),
    [
        pytest.param("gemma3", ["linear", "none"], id="Gemma 3"),
        pytest.param("llama2", ["linear", "linear"], id="another block"),
    ],
)
def test_only_gemma_3_leaves_sliding_layers_unscaled_in_maxtext(
    block: str, scalings: list[str]
) -> None:
    """The scalings are those of full, then of sliding layers. By its source, MaxText passes
    rope_linear_scaling_factor to sliding layers of every decoder block except Gemma 3's.
    """
    config = {
        **MAXTEXT_CONFIG,
        "decoder_block": block,
        "local_rope_max_timescale": 10000,
        "rope_linear_scaling_factor": 8.0,
    }
    assert [encoding.parameters["scaling"] for encoding in load_config(config)] == scalings


@pytest.mark.parametrize(
    ("block", "layout"), [("deepseek4", "interleaved"), ("deepseek", "halves")]
)
def test_only_deepseek_v4_interleaves_pairs_without_yarn_in_maxtext(
    block: str, layout: str
) -> None:
    """By MaxText's source, which has a decoder block for each family; rope_type «default» means no
    YaRN.
    """
    config = {**MAXTEXT_CONFIG, "decoder_block": block, "rope_type": "default"}
    assert load_config(config).one().layout == layout


@pytest.mark.parametrize(
    ("interleave", "layout"),
    [
        pytest.param(True, "deepseek", id="true"),
        pytest.param(False, "halves", id="false"),
        pytest.param(None, "deepseek", id="no key"),
    ],
)
def test_yarn_of_maxtext_interleaves_as_deepseek_does(interleave: bool | None, layout: str) -> None:
    """rope_interleave is true by default (None: no key) in MaxText's base.yml; the layout «deepseek»
    reads interleaved pairs and writes halves.
    """
    config = {**MAXTEXT_CONFIG, "rope_type": "yarn", "rope_interleave": interleave}
    assert load_config(config).one().layout == layout


@pytest.mark.parametrize(
    ("use", "expected"),
    [(True, {"mrope_section": [16, 24, 24], "mrope_interleaved": True}), (False, {})],
)
def test_sections_of_maxtext_count_only_if_they_are_used(
    use: bool, expected: dict[str, object]
) -> None:
    """base.yml has both keys, and use_mrope is false there. MaxText interleaves the sections."""
    config = {**MAXTEXT_CONFIG, "use_mrope": use, "mrope_section": [16, 24, 24]}
    described = load_config(config).one().described()

    assert {name: value for name, value in described.items() if "mrope" in name} == expected


@pytest.mark.parametrize(
    ("word", "rows"),
    [
        pytest.param("learned", 2048 + 2, id="learned"),
        pytest.param("sinusoidal", None, id="sinusoidal"),
    ],
)
def test_opt_pos_emb_offset_of_gpt_neox_adds_rows_to_a_learned_table_only(
    word: str, rows: int | None
) -> None:
    """GPT-NeoX trains models like OPT, whose table has 2 rows before that of position 0. A sinusoidal
    table has no number of learned rows (max_len).
    """
    config = {
        "hidden_size": 768,
        "num_attention_heads": 12,
        "max_position_embeddings": 2048,
        "pipe_parallel_size": 1,
        "opt_pos_emb_offset": 2,
        "pos_emb": word,
    }
    assert load_config(config).one().parameters.get("max_len") == rows


LATENT: Config = {
    "dim": 2048,
    "n_heads": 16,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "kv_lora_rank": 512,
}


@pytest.mark.parametrize(
    ("keys", "scaling"),
    [
        pytest.param({"max_seq_len": 16384}, "yarn", id="16384 positions"),
        pytest.param({"max_seq_len": 4096}, "none", id="4096 positions"),
        pytest.param(
            {"max_seq_len": 16384, "hidden_dim": 4096, "norm_eps": 1e-5},
            "none",
            id="keys of another project",
        ),
    ],
)
def test_deepseeks_own_code_scales_beyond_4096_positions(keys: Config, scaling: str) -> None:
    """model.py of DeepSeek-V3 applies YaRN if max_seq_len is above 4096. LATENT has the keys of its
    configs; the last row also has hidden_dim and norm_eps, which are keys of another project.
    """
    assert load_config({**LATENT, **keys}).one().parameters["scaling"] == scaling


@pytest.mark.parametrize(
    ("factor", "is_warned_about"), [(40.0, True), (1.0, False)], ids=["factor 40", "factor 1"]
)
def test_a_multiplied_softmax_scale_is_warned_about(factor: float, is_warned_about: bool) -> None:
    """model.py of DeepSeek-V3 multiplies the softmax scale by (0.1 ln(factor) + 1)² if max_seq_len is
    above 4096, which no table shows. This is 1.873854 for a factor of 40, and 1 for a factor of 1.
    LATENT has the other keys of its configs.
    """
    config = {**LATENT, "max_seq_len": 4097, "rope_factor": factor}
    warnings = " ".join(load_config(config).warnings)

    assert ("the softmax scale is multiplied by 1.873854" in warnings) == is_warned_about
    assert ("softmax" in warnings) == is_warned_about


@pytest.mark.parametrize(
    ("factor", "mscale", "magnitude"),
    [
        pytest.param(4.0, 1.0, 1 + 0.1 * math.log(4), id="the paper: mscale 1"),
        pytest.param(4.0, 0.5, 1 + 0.1 * 0.5 * math.log(4), id="mscale 0.5"),
        pytest.param(1.0, 1.0, 1.0, id="no stretching: ln(1) = 0"),
        pytest.param(None, 1.0, 1.0, id="no factor"),
        pytest.param(4.0, None, 1.0, id="no mscale"),
    ],
)
def test_the_magnitude_of_yarn_is_that_of_deepseeks_code(
    factor: float | None, mscale: float | None, magnitude: float
) -> None:
    """By `yarn_get_mscale` of DeepSeek-V3's model code, it is 1 + 0.1 · mscale · ln(factor), which is
    that of YaRN's paper for mscale 1. Without a factor or an mscale the code does not call it, and
    nothing is multiplied.
    """
    source = "model.py"
    stated_factor = None if factor is None else Setting(factor, source)
    stated_mscale = None if mscale is None else Setting(mscale, source)

    assert yarn_magnitude(stated_factor, stated_mscale) == pytest.approx(magnitude)


# ---------------------------------------------------------------- diffusers


@pytest.mark.parametrize(
    ("name", "keys", "style"),
    [
        pytest.param("FluxTransformer2DModel", {}, "flux", id="flux"),
        pytest.param("WanTransformer3DModel", {}, "wan", id="wan"),
        pytest.param("OvisImageTransformer2DModel", {}, None, id="ovis"),
        pytest.param("HunyuanImageTransformer2DModel", {}, "hunyuan-image", id="hunyuan image"),
        pytest.param(
            "HunyuanImageTransformer2DModel",
            {"rope_axes_dim": [16, 56, 56]},
            "hunyuan-video",
            id="hunyuan image with axes",
        ),
    ],
)
def test_the_style_of_a_diffusers_class_follows_from_its_name_and_keys(
    name: str, keys: Config, style: str | None
) -> None:
    """A style is the way in which a model numbers the points of its grid; None is the general one.
    HunyuanImage was published with two orders of axes, which rope_axes_dim distinguishes.
    """
    assert load_config({"_class_name": name, **keys}).one().grid.style == style


def test_the_axes_of_flux_rotate_16_56_and_56_channels_of_a_head() -> None:
    """These are the default of axes_dims_rope in diffusers' class."""
    encoding = load_config({"_class_name": "FluxTransformer2DModel"}).one()
    assert encoding.rotary_dim == 16 + 56 + 56


def test_ltx_rotates_all_heads_together() -> None:
    """LTX-Video has 32 heads of 64 channels by default, and rotates them as one head of 32 · 64
    channels.
    """
    encoding = load_config({"_class_name": "LTXVideoTransformer3DModel"}).one()
    assert encoding.rope(grid=(1, 2, 2)).dim == 32 * 64


def test_the_scales_of_cogvideox_are_those_of_its_keys_for_time_and_space() -> None:
    """grid_scale has the order time, height, width."""
    config = {
        "_class_name": "CogVideoXTransformer3DModel",
        "temporal_interpolation_scale": 2.0,
        "spatial_interpolation_scale": 3.0,
    }
    assert load_config(config).encodings[0].parameters["grid_scale"] == (2.0, 3.0, 3.0)


def test_cogvideox_compresses_48_frames_to_12() -> None:
    """Its VAE compresses time by 4, so 48 frames of a video are 48 / 4 = 12 on the grid."""
    config = {"_class_name": "CogVideoXTransformer3DModel", "sample_frames": 48}
    assert load_config(config).encodings[0].parameters["grid"][0] == 48 // 4


def test_interpolation_scale_replaces_the_default_scale_of_pixarts_grid() -> None:
    """The default of PixArt's class is 2 for its 64 x 64 points."""
    config = {"_class_name": "PixArtTransformer2DModel", "interpolation_scale": 3.0}
    assert load_config(config).encodings[0].parameters["grid_scale"] == (3.0,)


FUNASR: Config = {
    "model": "Conformer",
    "model_conf": {"ctc_weight": 0.3},
    "encoder": "ConformerEncoder",
    "decoder": "TransformerDecoder",
    "decoder_conf": {"attention_heads": 4},
    "frontend": "WavFrontend",
}


@pytest.mark.parametrize(
    ("encoder", "relative"),
    [
        pytest.param(
            {"pos_enc_layer_type": "rel_pos", "rel_pos_type": "latest"}, True, id="both keys"
        ),
        pytest.param({"pos_enc_layer_type": "rel_pos"}, None, id="one key"),
        pytest.param({"pos_enc_layer_type": "abs_pos"}, None, id="absolute"),
    ],
)
def test_encoders_of_funasr_have_a_relative_table_only_with_both_of_its_keys(
    encoder: Config, relative: bool | None
) -> None:
    """FunASR's transformer/embedding.py has tables for 5000 positions; its RelPositionalEncoding is
    relative (2 · 5000 − 1 rows), its legacy class and its absolute one are not (None). The decoder
    has an absolute table as wide as the encoder's output.
    """
    model = load_config({**FUNASR, "encoder_conf": {"output_size": 512, **encoder}})
    table = model.one("encoder")

    assert table.parameters["dim"] == 512
    assert table.parameters["seq_len"] == 5000
    assert table.parameters.get("relative") is relative
    assert model.one("decoder").parameters["dim"] == 512


def test_the_order_of_a_legacy_table_of_funasr_is_reported() -> None:
    """Without rel_pos_type, FunASR takes its legacy class, whose table begins with the last position."""
    (warning,) = load_config({**FUNASR, "encoder_conf": {"output_size": 512}}).warnings
    assert "from the last position to the first" in warning


def test_the_encoding_of_sanm_encoders_of_funasr_is_named_in_a_warning() -> None:
    """SANM encoders add FunASR's SinusoidalPositionEncoder, which pecli does not make."""
    config = {**FUNASR, "encoder": "SANMEncoder", "encoder_conf": {"output_size": 512}}
    assert "SinusoidalPositionEncoder" in load_config(config).warnings[0]


@pytest.mark.parametrize(
    ("name", "head_dim"),
    [
        ("vit_large", 1024 // 16),
        ("vit_huge", 1280 // 16),
        ("vit_giant_xformers", 1408 // 22),
        ("vit_gigantic", 1664 // 16),
    ],
)
@pytest.mark.parametrize("place", ["model", "model_kwargs"])
def test_heads_of_v_jepa_2_follow_from_the_name_of_the_model(
    name: str, head_dim: int, place: str
) -> None:
    """V-JEPA 2's vision_transformer.py has a width and heads for each name, and its modules.py rotates
    2 · (head_dim // 3 // 2) channels along each of time, rows and columns: 20 of 64, 26 of 80, 34 of
    104.
    """
    encoder: Config = {"model_name": name, "use_rope": True, "patch_size": 16}
    config: Config = {"model": encoder}
    if place == "model_kwargs":
        config = {"model_kwargs": {"pretrain_kwargs": {"encoder": encoder}}}
    encoding = load_config(config).one()

    assert encoding.axis_dim == 2 * (head_dim // 3 // 2)
    assert encoding.grid.axes == 3


def test_memory_attention_of_sam_2_rotates_interleaved_pairs_along_two_axes() -> None:
    """The keys are those of sam2.1_hiera_b+.yaml: one head of 256 channels. compute_axial_cis of
    SAM 2 computes dim // 4 = 64 frequencies for rows and as many for columns.
    """
    attention: Config = {
        "_target_": "sam2.modeling.sam.transformer.RoPEAttention",
        "rope_theta": 10000.0,
        "embedding_dim": 256,
        "num_heads": 1,
        "downsample_rate": 1,
    }
    layer: Config = {"layer": {"self_attention": attention}}
    encoding = load_config({"model": {"image_encoder": {}, "memory_attention": layer}}).one()

    assert encoding.grid.axes == 2
    assert len(encoding.inverse_frequencies() or []) == 256 // 4
    assert encoding.layout == "interleaved"


@pytest.mark.parametrize(
    ("word", "schemes"),
    [
        pytest.param("rope", ["rope"], id="rope"),
        pytest.param("sin", ["sinusoidal"], id="sin"),
        pytest.param(None, ["sinusoidal"], id="nothing"),
    ],
)
def test_transformers_of_audiocraft_add_sines_unless_rope_is_named(
    word: str | None, schemes: list[str]
) -> None:
    """positional_embedding is «sin» by default (None: no word) in StreamingTransformer of
    audiocraft's transformer.py.
    """
    keys: Config = {"dim": 1024, "num_heads": 16, "num_layers": 24, "positional_embedding": word}
    model = load_config({"transformer_lm": keys})

    assert [encoding.scheme for encoding in model] == schemes


@pytest.mark.parametrize(
    ("config", "warning"),
    [
        (
            {"d_model": 64, "block": {"attention": {"n_heads": 4}}},
            "the block of the model has no rope, and OLMo-core has no other positional encoding",
        ),
        (
            {"d_model": 64, "block": 5},
            "the block of the model has no rope, and OLMo-core has no other positional encoding",
        ),
        (
            {"_class_name": "FooTransformer2DModel"},
            "_class_name 'FooTransformer2DModel' is not known here:"
            " its code decides which encoding it has",
        ),
        (
            {"model": {"model_config": {"type": "Foo", "hidden_size": 64, "num_layers": 2}}},
            "no positional encoding was found: no key that is read here names one",
        ),
    ],
    ids=["OLMo-core", "OLMo-core without a block", "diffusers", "mindformers"],
)
def test_a_model_without_a_known_encoding_is_warned_of(config: Config, warning: str) -> None:
    """The reason depends on the project: OLMo-core has nothing but rope, a class of diffusers is
    unknown, and a configuration of mindformers has no key that names an encoding.
    """
    model = load_config(config)
    assert model.encodings == ()
    assert model.warnings == (warning,)


@pytest.mark.parametrize(
    ("keys", "layers"),
    [
        pytest.param({"layer_types": ["a", "b"]}, ("a", "b"), id="listed"),
        pytest.param(
            {"layer_types": [], "sliding_window_pattern": 2},
            ("sliding_attention", "full_attention"),
            id="an empty list and a pattern",
        ),
        pytest.param(
            {"sliding_window_pattern": 2},
            ("sliding_attention", "full_attention"),
            id="every 2nd is full",
        ),
        pytest.param(
            {"sliding_window_pattern": 1},
            ("full_attention", "full_attention"),
            id="every layer is full",
        ),
        pytest.param({"sliding_window_pattern": 0}, (), id="a pattern of 0"),
        pytest.param({"sliding_window_pattern": 10**6}, (), id="an absurd pattern"),
    ],
)
def test_layers_are_listed_or_follow_a_pattern(keys: Config, layers: tuple[str, ...]) -> None:
    """`layers` are the types of the first two layers. sliding_window_pattern n means that every n-th
    layer is full, as in Gemma; 0 and absurd numbers mean nothing, and an empty list counts as none.
    """
    model = load_config({"model_type": "llama", "head_dim": 64, **keys})
    assert model.layers[:2] == layers
