"""Write pecli/models/class_defaults.json from the configuration classes of an installed transformers.

    python tests/models/make_class_defaults.py

A class is kept if its model_type is a family that pecli has a row for; of its fields, those that pecli reads as sizes.
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

from pecli.models import families, heads, non_rotary
from pecli.models.rope import LENGTHS

_MORE = """
    embed_dim embedding_size global_head_dim swa_head_dim rotary_dim qk_rope_head_dim qk_nope_head_dim
    memory_attention_downsample_rate image_size patch_size num_patches num_frames tubelet_size
    num_position_embeddings max_target_positions max_speech_positions max_text_positions pad_token_id
    no_rope_layer_interval attn_temperature_tuning floor_scale attn_scale
"""
KEYS = {
    *heads.SIZES,
    *heads.WIDTHS,
    *heads.HEADS,
    *LENGTHS,
    *non_rotary.ROWS,
    *_MORE.split(),
}


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
    return {name: list(value) if isinstance(value, tuple) else value for name, value in sorted(found.items())}


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
