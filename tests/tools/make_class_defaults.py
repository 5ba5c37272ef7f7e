"""Write pecli/models/class_defaults.json from the configuration classes of an installed transformers.

    python tests/tools/make_class_defaults.py

A class is kept if its model_type is a family that pecli has a row for; of its fields, those that pecli reads as sizes,
and its rotary settings where they scale, or tell layer types apart that the family's row does not. Then which keys its
rotary module ignores: those that do not move its frequencies when they are given.
"""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import json
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pecli.models import families, layer_types, non_rotary, table_kinds
from pecli.models.keys import plain_name
from pecli.models.rope import LENGTHS

_MORE = """
    embed_dim embedding_size global_head_dim swa_head_dim rotary_dim qk_rope_head_dim qk_nope_head_dim
    memory_attention_downsample_rate image_size patch_size num_patches num_frames tubelet_size
    num_position_embeddings max_target_positions max_speech_positions max_text_positions pad_token_id
    no_rope_layer_interval compress_rope_theta attn_temperature_tuning floor_scale attn_scale
"""
KEYS = {
    *layer_types.SIZES,
    *layer_types.WIDTHS,
    *layer_types.HEADS,
    *LENGTHS,
    *table_kinds.ROWS,
    *_MORE.split(),
    *(key for rows in non_rotary.class_tables().values() for row in rows if len(row) == 4 for key in (row[1], row[3])),
} - {""}


_GEMMAS = ("gemma4_text", "gemma4_unified_text", "diffusion_gemma_text", "embedding_gemma2_text")
NOT_FIELDS: dict[str, dict[str, Any]] = {name: {"global_head_dim": 512} for name in _GEMMAS}
NOT_FIELDS["zamba2"] = {"attention_head_dim": 160}
"""Defaults that a class has in its code."""


PARTIAL_SETTINGS = ("moonshine_streaming", "nemotron3_5_transcribe_asr_audio")
"""Classes whose partial factor goes when other settings come in its place."""


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
    except (AttributeError, ImportError, TypeError, ValueError):  # of classes that need arguments, or other packages
        return {}
    family = families.family_of(config.model_type) or families.Family()
    is_nested = any(isinstance(value, dict) for value in (found or {}).values())
    has_row = family.local_theta is not None or family.scales_full_layers
    is_plain = found and found.get("rope_type") in ("default", "axial")
    if is_plain and family.partial is None and found.get("partial_rotary_factor", 1.0) != 1.0:
        return {"rope_parameters": found} if config.model_type in PARTIAL_SETTINGS else {}
    if not found or (has_row if is_nested else is_plain):
        return {}
    return {"rope_parameters": found}


THETA = {"rope_theta": 54321.0}
SCALED = {"rope_type": "linear", "factor": 3.0}
GIVEN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "rope_theta": ({}, THETA),
    "head_dim": ({}, {"head_dim": 48}),
    "rotary_dim": ({}, {"rotary_dim": 16}),
    "rope_scaling": (THETA, {**THETA, "rope_scaling": {**SCALED, **THETA}}),
    "rope_parameters": ({}, {"rope_parameters": {**SCALED, **THETA}}),
    "partial_rotary_factor": ({}, {"partial_rotary_factor": 0.75}),
    "rope_parameters.partial_rotary_factor": (
        {"rope_parameters": {"rope_type": "default", **THETA}},
        {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.75, **THETA}},
    ),
}
"""Keys, with two configurations that differ by them alone."""


def rotary_modules() -> dict[str, Any]:
    """The rotary modules of all models, by the name of the configuration class that their constructor takes."""
    import transformers.models

    found = {}
    for module in pkgutil.iter_modules(transformers.models.__path__):
        try:
            file = importlib.import_module(f"transformers.models.{module.name}.modeling_{module.name}")
        except (ImportError, RuntimeError):
            continue
        for name, each in vars(file).items():
            if inspect.isclass(each) and name.endswith("RotaryEmbedding") and each.__module__ == file.__name__:
                kind = inspect.signature(each.__init__).parameters.get("config")
                said = getattr(kind and kind.annotation, "__name__", str(kind and kind.annotation))
                found.setdefault(said.strip("'"), each)
    return found


def frequencies(config: Any, module: Any, given: dict[str, Any]) -> list[list[float]] | None:
    """The frequencies of a module; None where it cannot be made."""
    try:
        made = module(config=config.from_dict({"model_type": config.model_type, **copy.deepcopy(given)}))
    except Exception:  # whatever a class has against it
        return None
    return [values.flatten().tolist() for name, values in made.named_buffers() if name.endswith("inv_freq")]


def ignored(config: Any, module: Any) -> list[str]:
    """The keys that do not move the frequencies."""
    found = []
    for name, (without, given) in GIVEN.items():
        plain, other = (frequencies(config, module, each) for each in (without, given))
        if plain and plain == other:
            found.append(name)
    return found


def main() -> None:
    """Write the file, one class per line."""
    found: dict[str, str] = {}
    modules = rotary_modules()
    for config in classes():
        name = plain_name(config.model_type)
        known = (
            families.family_of(name, vision="vision" in name)
            or name in non_rotary.FAMILIES
            or non_rotary.tables_of(name)
        )
        if name and known and name not in found and set(values := sizes(config)) - {"pad_token_id"}:
            row: list[Any] = [config.__name__, values]
            if config.__name__ in modules and (keys := ignored(config, modules[config.__name__])):
                row.append(keys)
            found[name] = f"{json.dumps(name)}: {json.dumps(row)}"
    path = Path(families.__file__).parent / "class_defaults.json"
    before = json.loads(path.read_text(encoding="utf-8"))  # classes that need packages that are not there stay
    found = {name: f"{json.dumps(name)}: {json.dumps(row)}" for name, row in before.items()} | found
    path.write_text("{\n" + ",\n".join(found[name] for name in sorted(found)) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
