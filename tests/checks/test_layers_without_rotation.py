"""Queries and keys of layers without rotary encoding (NoPE) must be as they were before.

Which layers have none is read from transformers' classes: SmolLM3 leaves it out in layers 3, 7, 11,
…, for example. Queries are random, and rotated by this package or not.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pecli
from pecli.checks.verification import Verification

RNG = np.random.default_rng(0)
LAYERS_WITHOUT_ROPE = [
    ("smollm3-3b", "model.layers.7.self_attn.q"),
    ("smollm3-3b", "k_3"),
    ("llama-4-scout", "Qcur-11"),
    ("llama-4-maverick", "layers[3].k"),
    ("command-r7b", "blk.7.q"),
    ("command-a", "q_L3"),
    ("exaone-4.0-32b", "q.15"),
]
"""Layers of models that have no rope there, by transformers' classes."""


def verify_queries(model: Any, name: str, *, rotated: bool, **options: Any) -> Verification:
    """Verify a tensor of this name that a layer has rotated, or left as it is."""
    before = RNG.normal(size=(2, 12, 128)).astype("f4")
    after = pecli.apply(before, model) if rotated else before
    return pecli.verify({name: after}, model, before={name: before}, atol=1e-5, **options)


@pytest.mark.parametrize(("model", "name"), LAYERS_WITHOUT_ROPE)
def test_queries_of_a_layer_without_rope_pass_unrotated(model: str, name: str) -> None:
    """LAYERS_WITHOUT_ROPE are models and names of tensors, such as layer 7 of SmolLM3 or «k_3».
    transformers' classes of these models leave RoPE out of every fourth layer or of full attention,
    to which the named layers belong: queries and keys must be as they were before.
    """
    result = verify_queries(model, name, rotated=False)
    assert result.passed
    assert not result.weak
    assert "without rope" in result.readings[name]


@pytest.mark.parametrize(("model", "name"), LAYERS_WITHOUT_ROPE)
def test_a_layer_that_is_rotated_although_it_has_no_rope_fails(model: str, name: str) -> None:
    """LAYERS_WITHOUT_ROPE are models and names of tensors, such as layer 7 of SmolLM3 or «k_3»,
    which transformers' classes leave without RoPE. Here they are rotated by the model's
    frequencies.
    """
    result = verify_queries(model, name, rotated=True)
    assert not result.passed
    assert any("but it is rotated" in line for line in result.diagnosis)


@pytest.mark.parametrize(
    ("model", "name"),
    [("smollm3-3b", "q_4"), ("llama-4-scout", "blk.0.q"), ("exaone-4.0-32b", "q5")],
)
def test_queries_of_layers_with_rope_pass_rotated_and_fail_unrotated(model: str, name: str) -> None:
    """SmolLM3, Llama 4 and EXAONE 4 leave some layers unrotated; by transformers' classes, layers
    4, 0 and 5 of them are rotated.
    """
    assert verify_queries(model, name, rotated=True).passed
    assert not verify_queries(model, name, rotated=False).passed


@pytest.mark.parametrize("model", ["smollm3-3b", "command-r7b"])
def test_rotated_queries_without_a_layer_number_pass_weakly(model: str) -> None:
    """Some layers of these models have no RoPE. «q» may be of one of them, where a rotation would
    be wrong.
    """
    result = verify_queries(model, "q", rotated=True)
    assert result.passed
    assert any("no name states its layer" in line for line in result.weak)


@pytest.mark.parametrize("model", ["smollm3-3b", "command-r7b"])
def test_unrotated_queries_without_a_layer_number_fail_with_the_layers_that_they_fit(
    model: str,
) -> None:
    """Some layers of these models have no RoPE. Unrotated queries called «q» would be right there,
    and the diagnosis states it.
    """
    result = verify_queries(model, "q", rotated=False, reasons=False)
    assert not result.passed
    assert any("right for a layer without rope" in line for line in result.diagnosis)


SIZES = {"hidden_size": 256, "num_attention_heads": 2, "head_dim": 128, "num_hidden_layers": 8}


@pytest.mark.parametrize(
    ("config", "unrotated"),
    [
        pytest.param(
            {"model_type": "cohere2", "sliding_window_pattern": 2},
            [1, 3, 5, 7],
            id="every 2nd layer is full",
        ),
        pytest.param(
            {"model_type": "cohere2", "layer_types": ["full_attention", "sliding_attention"] * 4},
            [0, 2, 4, 6],
            id="full layers are listed",
        ),
        pytest.param(
            {"model_type": "afmoe", "global_attn_every_n_layers": 3},
            [2, 5],
            id="every 3rd layer is full",
        ),
        pytest.param({"model_type": "exaone4"}, [3, 7], id="every 4th layer is full by default"),
        pytest.param(
            {"model_type": "exaone4", "sliding_window": None},
            [],
            id="full layers rotate in an EXAONE 4 without a sliding window",
        ),
        pytest.param({"model_type": "kolibri1"}, [4], id="every 5th layer is full by default"),
    ],
)
def test_layers_of_full_attention_are_unrotated_in_models_whose_other_layers_slide(
    config: dict[str, Any], unrotated: list[int]
) -> None:
    """These models have RoPE in layers of sliding attention only. Expected are the layers, of 8, for
    which transformers 5.23 puts «full_attention» into `layer_types`, built from these keys.
    """
    assert unrotated_layers(config) == unrotated


def unrotated_layers(config: dict[str, Any]) -> list[int]:
    """Return which of layers 0 to 7 have no rotation by a model's config.json, completed by SIZES."""
    model = pecli.load_config({**SIZES, **config})
    return [layer for layer in range(8) if model.is_unrotated(f"layers.{layer}.q")]


@pytest.mark.parametrize(
    ("config", "unrotated"),
    [
        pytest.param(
            {"model_type": "smollm3", "no_rope_layers": [0, 1, 1, 1, 1, 1, 1, 0]},
            [0, 7],
            id="SmolLM3: no_rope_layers has 0 for no rotation",
        ),
        pytest.param(
            {"model_type": "minimax", "layer_types": ["linear_attention", "full_attention"] * 4},
            [0, 2, 4, 6],
            id="MiniMax: linear attention has no positions",
        ),
        pytest.param(
            {"model_type": "muse_glimmer_text"},
            [3, 7],
            id="Muse Glimmer: every 4th of 8 layers, counted back from the last",
        ),
        pytest.param(
            {"model_type": "muse_glimmer_text", "num_hidden_layers": 6},
            [1, 5],
            id="Muse Glimmer: every 4th of 6 layers, counted back from the last",
        ),
        pytest.param({"model_type": "llama"}, [], id="Llama: all layers rotate"),
    ],
)
def test_a_configuration_states_which_layers_are_unrotated(
    config: dict[str, Any], unrotated: list[int]
) -> None:
    """Expected are the layers that the model classes of transformers 5.23 leave without RoPE, of 8
    layers unless num_hidden_layers states otherwise.
    """
    assert unrotated_layers(config) == unrotated


@pytest.mark.parametrize(
    ("model_type", "unrotated_type", "other_type"),
    [
        ("cohere2", "full_attention", "sliding_attention"),
        ("minimax", "linear_attention", "full_attention"),
    ],
)
def test_layers_beyond_a_list_of_layer_types_count_as_rotated(
    model_type: str, unrotated_type: str, other_type: str
) -> None:
    """`layer_types` has two entries for 8 layers, and is not repeated: of layers 2 to 7 nothing is
    known, so that they rotate as in most models.
    """
    layer_types = [unrotated_type, other_type]
    assert unrotated_layers({"model_type": model_type, "layer_types": layer_types}) == [0]


@pytest.mark.parametrize("part", ["vision_tower.", "visual.", "audio_tower."])
def test_layers_of_towers_are_not_those_that_the_language_model_leaves_unrotated(part: str) -> None:
    """Layer 3 of SmolLM3 has no rotation; a tower counts its layers from 0 again."""
    model = pecli.load_model("smollm3-3b")
    assert model.is_unrotated("model.layers.3.q")
    assert not model.is_unrotated(f"{part}layers.3.q")


@pytest.mark.parametrize("stem", ["layer3_q", "q_L3"])
def test_the_name_of_a_file_states_the_layer_of_its_array(tmp_path: Path, stem: str) -> None:
    """Layer 3 of SmolLM3 has no rotation: the queries after are those before."""
    queries = RNG.normal(size=(2, 12, 128)).astype("f4")
    file = tmp_path / f"{stem}.npy"
    np.save(file, queries)

    assert pecli.verify(file, "smollm3-3b", before=queries)


@pytest.mark.parametrize("position", [8191, 20000])
def test_unrotated_queries_of_llama_4_are_scaled_by_position_and_keys_are_not(
    position: int,
) -> None:
    """In layers without rotation such as 3, Llama 4 multiplies queries by transformers'
    `log1p(floor((p + 1) / floor_scale)) * attn_scale + 1`, with 8192 and 0.1. Keys stay as they
    are: those that are multiplied fail.
    """
    before = RNG.normal(size=(2, 4, 128)).astype("f4")
    places = position + np.arange(4)
    factors = np.log1p(np.floor((places + 1) / 8192)) * 0.1 + 1
    after = (before * factors[:, None]).astype("f4")
    options = {"before": {"q_3": before}, "offset": position, "atol": 1e-5}

    assert pecli.verify({"q_3": after}, "llama-4-scout", **options)

    keys = {"before": {"k_3": before}, "offset": position, "atol": 1e-5}
    assert not pecli.verify({"k_3": after}, "llama-4-scout", **keys, reasons=False)


def test_padding_of_an_unrotated_layer_is_not_compared() -> None:
    """Layer 3 of SmolLM3 leaves queries as they are. The first 4 of 12 tokens of the second
    sequence are padding and may hold 7; in the fifth, a token, 7 is wrong.
    """
    before = RNG.normal(size=(2, 3, 12, 128)).astype("f4")
    mask = np.ones((2, 12), int)
    mask[1, :4] = 0
    after = before.copy()
    after[1, :, :4] = 7
    options = {"before": {"q_3": before}, "attention_mask": mask}

    assert pecli.verify({"q_3": after}, "smollm3-3b", **options)

    after[1, :, 4] = 7
    assert not pecli.verify({"q_3": after}, "smollm3-3b", **options, reasons=False)
