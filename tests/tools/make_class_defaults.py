"""Write pecli/models/class_defaults.json from the configuration classes of an installed transformers.

    python tests/tools/make_class_defaults.py

A class is kept if its model_type is a family that pecli has a row for; of its fields, those that pecli reads as sizes,
and its rotary settings where they scale, or tell layer types apart that the family's row does not.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pecli.models import families, layer_types, non_rotary
from pecli.models.rope import LENGTHS

_MORE = """
    embed_dim embedding_size global_head_dim swa_head_dim rotary_dim qk_rope_head_dim qk_nope_head_dim
    memory_attention_downsample_rate image_size patch_size num_patches num_frames tubelet_size
    num_position_embeddings max_target_positions max_speech_positions max_text_positions pad_token_id
    no_rope_layer_interval attn_temperature_tuning floor_scale attn_scale
"""
KEYS = {
    *layer_types.SIZES,
    *layer_types.WIDTHS,
    *layer_types.HEADS,
    *LENGTHS,
    *non_rotary.ROWS,
    *_MORE.split(),
}


_GEMMAS = ("gemma4_text", "gemma4_unified_text", "diffusion_gemma_text", "embedding_gemma2_text")
NOT_FIELDS = {name: {"global_head_dim": 512} for name in _GEMMAS}
"""Defaults that a class has in its code."""


def classes() -> Iterator[Any]:
    """Every configuration class with a model_type."""
    import transformers.models
    from transformers import PretrainedConfig

    for module in pkgutil.iter_modules(transformers.models.__path__):
        try:
            file = importlib.import_module(f"transformers.models.{module.name}.configuration_{module.name}")
        except ImportError:
            continue
        for each in vars(file).values():
            if inspect.isclass(each) and issubclass(each, PretrainedConfig) and each.__module__ == file.__name__:
                yield each


def sizes(config: Any) -> dict[str, Any]:
    """The defaults of a class that pecli reads; the number of layers where some of them have no rope."""
    given = {each.name: each.default for each in dataclasses.fields(config)}
    keys = KEYS | ({"num_hidden_layers"} if "no_rope_layer_interval" in given else set())
    found = {name: value for name, value in given.items() if name in keys and isinstance(value, (int, float, tuple))}
    found |= settings(config) | NOT_FIELDS.get(config.model_type, {})
    return {name: list(value) if isinstance(value, tuple) else value for name, value in sorted(found.items())}


def settings(config: Any) -> dict[str, Any]:
    """The rotary settings that a class fills in."""
    try:
        found = getattr(config(), "rope_parameters", None)
    except (AttributeError, TypeError, ValueError):  # of classes that need arguments
        return {}
    family = families.family_of(config.model_type) or families.Family()
    is_nested = any(isinstance(value, dict) for value in (found or {}).values())
    has_row = family.local_theta is not None or family.scales_full_layers
    if not found or (has_row if is_nested else found.get("rope_type") in ("default", "axial")):
        return {}
    return {"rope_parameters": found}


def main() -> None:
    """Write the file, one class per line."""
    found: dict[str, str] = {}
    for config in classes():
        name = families.plain_name(config.model_type)
        known = families.family_of(name, vision="vision" in name) or name in non_rotary.FAMILIES
        if name and known and name not in found and set(values := sizes(config)) - {"pad_token_id"}:
            found[name] = f"{json.dumps(name)}: {json.dumps([config.__name__, values])}"
    path = Path(families.__file__).parent / "class_defaults.json"
    path.write_text("{\n" + ",\n".join(found[name] for name in sorted(found)) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
