"""Rotary settings: what is left out, layers without rope, names with two meanings, positions that are no integers."""

from __future__ import annotations

import math
from typing import Any

import pytest

import pecli
from pecli.models.find import load_config

LLAMA = {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "max_position_embeddings": 8192}
SCOUT = {
    "model_type": "llama4_text", "hidden_size": 5120, "num_attention_heads": 40, "head_dim": 128, "rope_theta": 5e5,
    "num_hidden_layers": 48,
    "rope_scaling": {"rope_type": "llama3", "factor": 16.0, "low_freq_factor": 1.0, "high_freq_factor": 1.0,
                     "original_max_position_embeddings": 8192},
}  # fmt: skip
EVERY_FOURTH = [*range(3, 48, 4)]


def test_llama_4_scout_scales_by_a_step() -> None:
    found = load_config({"model_type": "llama4", "text_config": SCOUT}).one()
    plain = [5e5 ** (-i / 64) for i in range(64)]
    expected = [value / 16 if 2 * math.pi / value > 8192 else value for value in plain]
    assert found.inverse_frequencies() == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("flags", [None, [], [int((k + 1) % 4 != 0) for k in range(48)]], ids=["none", "empty", "list"])
def test_llama_4_names_its_layers_without_rope(flags: list[int] | None) -> None:
    model = load_config({**SCOUT, "no_rope_layers": flags})
    assert model.one().extra["nope_layers"] == EVERY_FOURTH
    layers, temperature = model.warnings
    assert layers.startswith("layers 3, 7, 11, 15, 19, 23, 27, 31, 35, 39, 43, 47 have no rope: ")
    assert "1 + 0.1·ln(1 + ⌊(p + 1)/8192⌋)" in temperature


def test_llama_4_without_layers_or_temperature() -> None:
    model = load_config({**SCOUT, "no_rope_layers": [1] * 48})
    assert (model.warnings, model.one().extra) == ((), {})
    (warning,) = load_config({**SCOUT, "attn_temperature_tuning": False, "num_hidden_layers": 4}).warnings
    assert warning.startswith("layers 3 have no rope")


def test_smollm3_by_its_interval() -> None:
    model = load_config({"model_type": "smollm3", "num_hidden_layers": 8, "no_rope_layer_interval": 2})
    assert model.one().extra["nope_layers"] == [1, 3, 5, 7]
    assert model.one().sources["nope_layers"] == "one layer in 2 (no_rope_layer_interval)"


def test_ministral_3_multiplies_its_queries() -> None:
    settings = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 16.0, "original_max_position_embeddings": 16384}
    config = {**LLAMA, "model_type": "ministral3", "rope_parameters": {**settings, "llama_4_scaling_beta": 0.1}}
    model = load_config(config)
    assert model.one().extra["llama_4_scaling_beta"] == 0.1
    assert any("1 + 0.1·ln(1 + ⌊p/16384⌋)" in warning for warning in model.warnings)
    assert not any("⌊p/" in warning for warning in load_config({**config, "rope_parameters": settings}).warnings)


@pytest.mark.parametrize("name", ["gte", "new"])
def test_ntk_as_gte_means_it(name: str) -> None:
    scaling = {"type": "ntk", "factor": 8.0}
    model = load_config({"model_type": name, "head_dim": 64, "rope_theta": 2e4, "rope_scaling": scaling})
    found = model.one()
    expected = [(2e4 * 8) ** (-2 * i / 64) / 8 ** (2 / 64) for i in range(32)]
    assert found.inverse_frequencies() == pytest.approx(expected, rel=1e-14)
    assert found.sources["scaling"] == f"rope_scaling.type (ntk means ntk-fixed in {name})"
    assert model.warnings == ()


def test_ntk_elsewhere_has_two_meanings() -> None:
    model = load_config({**LLAMA, "rope_scaling": {"type": "ntk", "factor": 8.0}})
    assert model.one().inverse_frequencies() == pytest.approx(
        [(1e4 * 8 ** (128 / 126)) ** (-i / 64) for i in range(64)], rel=1e-14
    )
    (warning,) = model.warnings
    assert "ntk-fixed" in warning


def test_telechat_3_sharpens_less() -> None:
    scaling = {"factor": 8.0, "original_max_position_embeddings": 8192}
    found = load_config({**LLAMA, "rope_scaling": {"type": "telechat3-yarn", **scaling}})
    plain = load_config({**LLAMA, "rope_scaling": {"type": "yarn", **scaling}})
    assert found.one().attention_factor() == pytest.approx(1 + 0.07 * math.log(8), rel=1e-15)
    assert found.one().inverse_frequencies() == plain.one().inverse_frequencies()
    (warning,) = found.warnings
    assert "8 × 8192 positions make 65536, but the model says 8192" in warning
    derived = {"type": "telechat3-yarn", "original_max_position_embeddings": 3000}
    found = load_config({**LLAMA, "rope_scaling": derived})
    assert found.one().attention_factor() == pytest.approx(1 + 0.07 * math.log(8192 / 3000), rel=1e-15)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("dinov3_vit", "centres of patches"),
        ("sapiens2", "centres of patches"),
        ("vjepa2", "no pair rotates by one angle"),
    ],
)
def test_no_table_is_made_that_a_model_never_uses(name: str, reason: str) -> None:
    model = load_config({"model_type": name, "hidden_size": 768, "num_attention_heads": 12})
    (found,) = model.encodings
    assert any(reason in warning for warning in model.warnings)
    assert found.inverse_frequencies() is not None
    with pytest.raises(pecli.ParameterError, match=reason):
        found.rope(8)


KEYS: dict[str, Any] = {
    "dual_chunk_attention_config": {"chunk_size": 262144, "local_size": 8192},
    "rotary_scaling_factor": 2,
    "use_dynamic_ntk": True,
    "use_logn_attn": True,
}


@pytest.mark.parametrize("key", KEYS)
def test_keys_that_change_positions_are_told(key: str) -> None:
    (warning,) = load_config({**LLAMA, "rope_theta": 1e4, key: KEYS[key]}).warnings
    assert warning.startswith(f"{key} is given: ")
    assert load_config({**LLAMA, "rope_theta": 1e4, key: None if isinstance(KEYS[key], dict) else False}).warnings == ()


def test_mixed_ntk_is_told() -> None:
    scaling = {"type": "ntk", "factor": 8.0, "mixed_b": 0.5}
    warnings = load_config({"model_type": "gte", "head_dim": 64, "rope_scaling": scaling}).warnings
    assert any("mixed_b" in warning for warning in warnings)


SHORT = {"model_type": "llama", "hidden_size": 512, "num_attention_heads": 8, "max_position_embeddings": 4096}
ORIGINAL = "original_max_position_embeddings"


def of(scaling: dict[str, Any]) -> Any:
    return load_config({**SHORT, "rope_scaling": scaling}).one()


def test_the_betas_of_yarn_are_32_and_1_and_limits_are_rounded() -> None:
    found, said = (
        of({"type": "yarn", "factor": 4.0, ORIGINAL: 1024}),
        {"beta_fast": 32.0, "beta_slow": 1.0, "truncate": True},
    )
    assert {name: found.parameters[name] for name in said} == said
    assert {found.sources[name] for name in said} == {"default"}
    assert of({"type": "yarn", "factor": 4.0, ORIGINAL: 1024, **said}).parameters == found.parameters
    given = of({"type": "yarn", "factor": 4.0, ORIGINAL: 1024, "beta_fast": 16, "truncate": False})
    assert (given.parameters["beta_fast"], given.sources["beta_fast"]) == (16.0, "rope_scaling.beta_fast")
    assert given.parameters["truncate"] is False


@pytest.mark.parametrize("kind", ["yarn", "longrope"])
def test_a_factor_left_out_is_the_lengths_quotient(kind: str) -> None:
    lists = {"short_factor": [1.0] * 32, "long_factor": [2.0] * 32} if kind == "longrope" else {}
    found = of({"type": kind, ORIGINAL: 1024, **lists})
    assert found.parameters["factor"] == 4.0
    assert found.sources["factor"] == f"max_position_embeddings / rope_scaling.{ORIGINAL}"
    by_hand = 0.1 * math.log(4) + 1 if kind == "yarn" else math.sqrt(1 + math.log(4) / math.log(1024))
    assert found.attention_factor() == pytest.approx(by_hand, rel=1e-15)
    assert (
        found.inverse_frequencies() == of({"type": kind, ORIGINAL: 1024, "factor": 4.0, **lists}).inverse_frequencies()
    )


def test_a_quotient_that_is_no_whole_number_is_left_to_the_scheme() -> None:
    found = of({"type": "yarn", ORIGINAL: 3000})
    assert "factor" not in found.parameters
    assert found.attention_factor() == pytest.approx(0.1 * math.log(4096 / 3000) + 1, rel=1e-15)
