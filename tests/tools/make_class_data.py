"""Write pecli/models/class_*.json (defaults, tables, parts, towers) from an installed transformers.

    python -m tests.tools.make_class_data [defaults] [tables] [parts] [towers]

Defaults: a configuration class is kept if its model_type is a family that pecli has a row for; of its fields, those
that pecli reads as sizes, and its rotary settings where they scale, or tell layer types apart that the family's row
does not. Then which keys its rotary module ignores: those that do not move its frequencies when they are given.

Tables: each model is made from the defaults of its configuration class, without memory for its weights. Of the tensors
whose names are about positions, those with as many rows as a key says (or as an image has patches), and a few more,
become a rule; the others are kept with their shape. Model types that pecli has a family for are left out, and so are
caches of cosines and sines, projections and norms. Tables of a model's parts are kept by shape.
"""

import contextlib
import copy
import dataclasses
import importlib
import inspect
import json
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pecli.models import families, key_names, non_rotary, table_rules
from pecli.models.data import plain_name, stored

FOLDER = Path(families.__file__).parent
_MORE = """
    embed_dim embedding_size global_head_dim swa_head_dim rotary_dim qk_rope_head_dim qk_nope_head_dim
    memory_attention_downsample_rate image_size patch_size num_patches num_frames tubelet_size
    num_position_embeddings max_target_positions max_speech_positions max_text_positions pad_token_id
    no_rope_layer_interval compress_rope_theta attn_temperature_tuning floor_scale attn_scale
    block_size
"""
KEYS = {
    *key_names.SIZES,
    *key_names.WIDTHS,
    *key_names.HEAD_COUNT_KEYS,
    *key_names.LENGTHS,
    *table_rules.ROWS,
    *_MORE.split(),
}
for table in (
    row for rows in stored("class_tables.json").values() for row in rows if len(row) == 4
):
    KEYS |= {table[1], table[3]}
KEYS -= {"", "embedding_dim"}  # which is that of what a class makes, and not its width
_GEMMAS = ("gemma4_text", "gemma4_unified_text", "diffusion_gemma_text", "embedding_gemma2_text")
NOT_FIELDS = {
    "zamba2": {"attention_head_dim": 160},
    **{name: {"global_head_dim": 512} for name in _GEMMAS},
}
NOT_FIELDS["clap_audio_model"] = {"window_size": 8}
NOT_FIELDS["mistral_large4_text"] = {"no_rope_layer_interval": 4, "num_hidden_layers": 72}
"""Defaults that a class has in its code."""
PARTIAL_SETTINGS = [
    "moonshine_streaming",
    "nemotron3_5_transcribe_asr_audio",
    "nemotron3_5_transcribe_word_timestamp",
]
"""Classes whose partial factor goes when other settings come in its place."""
WITH_DECODERS = ("vit_mae", "videomae")  #: Classes whose decoders have tables of their own
OTHER_BASES = ("muse_spark_text",)  #: Classes whose base does


def classes(kind: str) -> Iterator[Any]:
    import transformers.models

    for module in pkgutil.iter_modules(transformers.models.__path__):
        with contextlib.suppress(ImportError, RuntimeError):
            file = importlib.import_module(
                f"transformers.models.{module.name}.{kind}_{module.name}"
            )
            yield from (
                each
                for each in vars(file).values()
                if getattr(each, "__module__", "") == file.__name__
            )


def sizes(config: Any) -> dict[str, Any]:
    """The defaults of a class that pecli reads; the number of layers where some of them have no rope."""
    given = {each.name: each.default for each in dataclasses.fields(config)}
    keys = KEYS | ({"num_hidden_layers"} if "no_rope_layer_interval" in given else set())
    if config.model_type in WITH_DECODERS:
        keys = keys | {"decoder_hidden_size"}
    found = {
        name: value
        for name, value in given.items()
        if name in keys and isinstance(value, (int, float, tuple))
    }
    found |= settings(config) | NOT_FIELDS.get(config.model_type, {})
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in sorted(found.items())
    }


def settings(config: Any) -> dict[str, Any]:
    try:
        found = getattr(config(), "rope_parameters", None) or {}
    except (
        AttributeError,
        ImportError,
        TypeError,
        ValueError,
    ):  # of classes that need arguments, or other packages
        return {}
    family = families.family_of(config.model_type)
    is_plain = found.get("rope_type") in ("default", "axial")
    if any(isinstance(value, dict) for value in found.values()):
        kept = family.local_theta is None
    elif is_plain and family.partial is None and found.get("partial_rotary_factor", 1.0) != 1.0:
        kept = config.model_type in PARTIAL_SETTINGS
    else:
        kept = not is_plain or config.model_type in OTHER_BASES
    return {"rope_parameters": found} if found and kept else {}


THETA = {"rope_theta": 54321.0}
SCALED = {"rope_type": "linear", "factor": 3.0}
GIVEN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "rope_theta alone": ({}, THETA),
    "rope_theta": ({"rope_scaling": SCALED}, {"rope_scaling": SCALED, **THETA}),
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
    found: dict[str, Any] = {}
    for each in classes("modeling"):
        if inspect.isclass(each) and each.__name__.endswith("RotaryEmbedding"):
            kind = inspect.signature(each.__init__).parameters.get("config")
            said = getattr(kind and kind.annotation, "__name__", str(kind and kind.annotation))
            found.setdefault(said.strip("'"), each)
    return found


def frequencies(config: Any, module: Any, given: dict[str, Any]) -> list[list[float]] | None:
    try:
        made = module(
            config=config.from_dict({"model_type": config.model_type, **copy.deepcopy(given)})
        )
    except Exception:  # whatever a class has against it
        return None
    return [
        values.flatten().tolist()
        for name, values in made.named_buffers()
        if name.endswith("inv_freq")
    ]


def ignored(config: Any, module: Any) -> list[str]:
    """The keys that do not move the frequencies."""
    made = {
        name: [frequencies(config, module, each) for each in pair] for name, pair in GIVEN.items()
    }
    return [name for name, (plain, other) in made.items() if plain and plain == other]


def beside(config: Any, rotary: dict[str, Any]) -> Any:
    """A rotary module that lies in the file of the same models, and takes that configuration, too; None for none."""
    folder = config.__module__.rpartition(".")[0]
    near = [module for module in rotary.values() if module.__module__.rpartition(".")[0] == folder]
    return next((module for module in near if frequencies(config, module, {})), None)


def defaults() -> dict[str, list[Any]]:
    """The rows of all classes; those that need packages that are not there stay as they were."""
    from transformers import PretrainedConfig

    found: dict[str, list[Any]] = {}
    rotary = rotary_modules()
    rotary["IQuestCoderConfig"] = rotary["LlamaConfig"]  # whose models it has
    for config in classes("configuration"):
        if not (inspect.isclass(config) and issubclass(config, PretrainedConfig)):
            continue
        name = plain_name(config.model_type)
        known = (
            families.family_of(name, vision="vision" in name).is_known
            or name in non_rotary.FAMILIES
        )
        known = known or non_rotary.rule_of_class_tables(name)
        if name and known and name not in found and set(values := sizes(config)) - {"pad_token_id"}:
            found[name] = [config.__name__, values]
            if (module := rotary.get(config.__name__) or beside(config, rotary)) and (
                keys := ignored(config, module)
            ):
                found[name].append(keys)
    return json.loads((FOLDER / "class_defaults.json").read_text(encoding="utf-8")) | found


NAMED = re.compile(
    r"pos_emb|position|rel_pos|relative|embed_positions|time_embed|shared_(image_)?embedding"
)
OTHERS = re.compile(
    r"position_ids|\.bias$|relative_position_index|layer_?norm|norm\d?\.|pos_conv|relative_coords|token_type|rotary"
    r"|rope\.|reparam_conv|_proj\b|proj\.|\.gate$|no_memory|mlp|attn\.embed_positions|order_head|out_point|projection_layer|positional_encoder\.projector"
)
PARTS = re.compile(
    r"(text|vision|language|audio)_(model|tower|backbone)\.|visual\.|backbone\.|model\."
)
ROWS = """
    max_position_embeddings n_positions max_seq_len max_sequence_length max_source_positions max_target_positions
    max_encoder_position_embeddings max_decoder_position_embeddings num_position_embeddings block_size context_length
"""
DIMS = "hidden_size d_model embed_dim embedding_size input_embedding_size n_embd emb_dim encoder_embed_dim hidden_dim dim"
MAX_MORE, MAX_TABLES = 5, 6


def models() -> Iterator[tuple[str, Any]]:
    """Every model that can be made from class defaults, with its model_type."""
    import torch
    import transformers
    from transformers.models.auto import configuration_auto, modeling_auto

    maps = [
        value
        for name, value in vars(modeling_auto).items()
        if re.fullmatch(r"MODEL_.*MAPPING_NAMES", name)
    ]
    for name in configuration_auto.CONFIG_MAPPING_NAMES:
        known = [each.get(name) for each in (modeling_auto.MODEL_MAPPING_NAMES, *maps)]
        for kind in dict.fromkeys(
            each if isinstance(each, str) else each[0] for each in known if each
        ):
            try:
                with torch.device("meta"):
                    yield name, getattr(transformers, kind)(transformers.AutoConfig.for_model(name))
            except Exception:  # whatever a class has against its own defaults
                continue
            break


def rule(shape: list[int], config: Any) -> list[Any] | None:
    rows, columns = shape
    names = [
        name for name in (*ROWS.split(), *DIMS.split()) if name not in config.attribute_map
    ]  # as files have them
    given = {name: getattr(config, name, None) for name in names}
    dim = next((name for name in DIMS.split() if given.get(name) == columns), None)
    for name in ROWS.split():
        if dim and isinstance(given.get(name), int) and 0 <= rows - given[name] <= 2:
            return [name, rows - given[name], dim]
    image, patch = getattr(config, "image_size", None), getattr(config, "patch_size", None)
    (height, width), (tall, wide) = (
        each if isinstance(each, (list, tuple)) else (each, each) for each in (image, patch)
    )
    if dim is None or not all(
        isinstance(each, int) and each for each in (height, width, tall, wide)
    ):
        return None
    more = rows - (height // tall) * (width // wide)
    extra = (getattr(config, "num_detection_tokens", None) or 0) + MAX_MORE
    return ["", more, dim] if 0 <= more <= extra else None


def tables(model: Any) -> list[list[Any]]:
    found: dict[str, Any] = {}
    for name, each in (*model.named_parameters(), *model.named_buffers()):
        found.setdefault(re.sub(r"\.\d+\.", ".N.", name), each)  # the first layer stands for all
    kept = {
        name: each
        for name, each in found.items()
        if NAMED.search(name) and not OTHERS.search(name.lower())
    }
    is_whole = not any(PARTS.match(name) for name in kept)
    rows: list[list[Any]] = []
    for name, tensor in kept.items():
        shape = [size for size in tensor.shape if size != 1]
        label = re.sub(r"\.weights?$|(?<=emb|ing|ngs)\.positional_embedding$", "", name)
        is_plain = (
            is_whole and len(shape) == 2 and ".N." not in name and not re.search("rel|bias", name)
        )
        by_keys = rule(shape, model.config) if is_plain else None
        if by_keys or len(shape) > 1:
            rows.append([label, *by_keys] if by_keys else [label, " × ".join(map(str, shape))])
    return rows[:MAX_TABLES]


def all_tables() -> dict[str, list[Any]]:
    known = {
        "roformer",
        *non_rotary.FAMILIES,
        *non_rotary.BESIDE,
    }  # the first one's table is that of its rotation
    named = {plain_name(model_type): tables(model) for model_type, model in models()}
    return {name: rows for name, rows in named.items() if rows and name not in known}


def parts() -> dict[str, list[Any]]:
    """The text models of larger ones whose configuration class has one: its model_type, what it has otherwise than its
    own class, and true if that fills in what a `text_config` leaves out. What their rotary modules make of them goes to
    tests/models/data/class_parts_made.json.
    """
    from transformers.models.auto import configuration_auto

    found, made, rotary = {}, {}, rotary_modules()
    for name in configuration_auto.CONFIG_MAPPING_NAMES:
        try:
            text = configuration_auto.CONFIG_MAPPING[name]().text_config
            plain = type(text)()
            module = (rotary.get(type(text).__name__) or beside(type(text), rotary))(config=text)
        except (
            Exception
        ):  # whatever a class has against its own defaults, or no text model that rotates
            continue
        own, other = plain.to_dict(), text.to_dict()
        share = other["hidden_size"] // other["num_attention_heads"]
        if not families.family_of(text.model_type).is_known or (
            not other.get("head_dim") and share % 2
        ):
            continue  # channels rotate in pairs
        values = {
            key: other[key] for key in sorted(KEYS & other.keys()) if own.get(key) != other[key]
        }
        if "hidden_size" in values and other.get("head_dim") not in (None, share):
            values["head_dim"] = other["head_dim"]
        thetas = [(each.get("rope_parameters") or {}).get("rope_theta") for each in (own, other)]
        if thetas[0] != thetas[1]:
            values["rope_theta"] = thetas[1]
        tables = {
            buffer.rpartition("inv_freq")[0].rstrip("_"): each
            for buffer, each in module.named_buffers()
        }
        found[plain_name(name)] = [text.model_type, values]
        with contextlib.suppress(Exception):  # of classes that take no empty text_config
            same = (
                configuration_auto.CONFIG_MAPPING[name](text_config={}).text_config.to_dict()
                == other
            )
            found[plain_name(name)] += [True] if values and same else []
        made[name] = {
            key: [len(each), each[1].item(), each[-1].item()]
            for key, each in tables.items()
            if "original" not in key
        }
    file = FOLDER.parent.parent / "tests" / "models" / "data" / "class_parts_made.json"
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(rows)}" for name, rows in made.items())
    file.write_text("{\n" + lines + "\n}\n", encoding="utf-8")
    return found


#: Parts that have no positions, or that other rules describe.
NOT_TOWERS = ("backbone_config", "vq_config", "attn_config", "ffn_config")


def towers() -> dict[str, Any]:
    """Return the parts of larger models by their keys: model_type, and what differs from its own class.

    A `text_config` is left out if `parts` has it, and so are parts of types that pecli does not know.
    Rows that were written by hand stay: parts within parts (sam3), and a part without a type (evolla).
    """
    from transformers.models.auto import configuration_auto

    rows = {}
    for model_type in configuration_auto.CONFIG_MAPPING_NAMES:
        try:
            config = configuration_auto.CONFIG_MAPPING[model_type]()
        except Exception:  # whatever a class has against its own defaults
            continue
        row = {}
        for key in config.sub_configs:
            has_part = key == "text_config" and plain_name(model_type) in stored("class_parts.json")
            part = getattr(config, key, None)
            if part is not None and not has_part and key not in NOT_TOWERS and is_known(key, part):
                row[key] = tower(part)
        if row:
            rows[plain_name(model_type)] = row
    written = stored("class_towers.json")
    return {name: {**written.get(name, {}), **rows.get(name, {})} for name in {*written, *rows}}


def is_known(key: str, part: Any) -> bool:
    name = plain_name(getattr(part, "model_type", ""))
    if not name:
        return False
    is_vision = "vision" in key or "vision" in name
    has_rule = name in non_rotary.FAMILIES or non_rotary.rule_of_class_tables(name) is not None
    return has_rule or families.family_of(name, vision=is_vision).is_known


def tower(part: Any) -> list[Any]:
    values = part.to_dict()
    try:
        defaults = type(part)().to_dict()
    except Exception:  # whatever a class has against its own defaults
        defaults = {}
    differing = {
        key: values[key]
        for key in sorted(KEYS & values.keys())
        if isinstance(values[key], (int, float, list)) and values[key] != defaults.get(key)
    }
    return [part.model_type, differing] if differing else [part.model_type]


def main() -> None:
    """Write the files, one model_type per line."""
    makers = {"defaults": defaults, "tables": all_tables, "parts": parts, "towers": towers}
    for name, make in makers.items():
        if name in (sys.argv[1:] or [name]):
            rows = [
                f"{json.dumps(key)}: {json.dumps(row, ensure_ascii=False)}"
                for key, row in sorted(make().items())
            ]
            (FOLDER / f"class_{name}.json").write_text(
                "{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8"
            )


if __name__ == "__main__":
    main()
