"""Sizes that a configuration leaves out: those of its class in transformers, named in the sources."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import pecli
from pecli.models import families, non_rotary
from pecli.models.find import load_config

CLIP = {"model_type": "clip", "text_config": {"hidden_size": 768}, "vision_config": {"patch_size": 16}}


def test_a_part_that_holds_only_what_differs() -> None:
    """OpenAI's ViT-B/16 of CLIP: 77 tokens, 14² patches and one for the class."""
    text, vision = load_config(CLIP).encodings
    assert (text.parameters["max_len"], text.parameters["dim"]) == (77, 768)
    assert text.sources["max_len"] == "class default of CLIPTextConfig.max_position_embeddings"
    assert text.sources["dim"] == "text_config.hidden_size"
    assert (vision.parameters["max_len"], vision.parameters["dim"]) == (197, 768)
    image = "class default of CLIPVisionConfig.image_size"
    assert vision.sources["max_len"] == f"({image} // vision_config.patch_size)² + 1"


@pytest.mark.parametrize("empty", [{}, {"initializer_factor": 1.0}])
def test_a_part_that_holds_nothing(empty: dict[str, Any]) -> None:
    """The class's own defaults are those of ViT-B/32."""
    text, vision = load_config({"model_type": "clip", "text_config": empty, "vision_config": empty}).encodings
    assert (text.parameters["max_len"], text.parameters["dim"]) == (77, 512)
    assert (vision.parameters["max_len"], vision.parameters["dim"]) == (50, 768)


@pytest.mark.parametrize("vision", [{}, {"vision_config": {"model_type": "sam2_vision_model"}}])
def test_sam2_video_without_sizes(vision: dict[str, Any]) -> None:
    """Its memory attention has one head of 256 channels, half of it for each axis."""
    encodings = load_config({"model_type": "sam2_video", **vision}).encodings
    assert [each.axis_dim for each in encodings] == [128]
    assert [(each.scheme, each.head_dim, each.rotary_dim) for each in encodings] == [("rope", 256, 256)]
    (halved,) = load_config({"model_type": "sam2_video", "memory_attention_downsample_rate": 2, **vision}).encodings
    assert halved.head_dim == 128
    assert halved.sources["head_dim"].startswith("class default of Sam2VideoConfig.memory_attention_hidden_size // ")


def test_a_key_wins_over_the_class_and_the_class_over_a_quotient() -> None:
    config = {"model_type": "qwen3", "hidden_size": 1024, "num_attention_heads": 16}
    assert load_config(config).one().head_dim == 128  # as Qwen3Config has it, not 1024 // 16
    assert load_config({**config, "head_dim": 64}).one().head_dim == 64


def test_an_unknown_class_has_no_defaults() -> None:
    with pytest.raises(pecli.FileError, match="has no head_dim"):
        load_config({"model_type": "wibble", "rope_theta": 1e4})


def test_every_class_belongs_to_a_family() -> None:
    path = Path(families.__file__).parent / "class_defaults.json"
    for name, (config, values, *_) in json.loads(path.read_text()).items():
        family = families.family_of(name, vision="vision" in name)
        assert family or name in non_rotary.FAMILIES or non_rotary.tables_of(name)
        assert config
        assert values
