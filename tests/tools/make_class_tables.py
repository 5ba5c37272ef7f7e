"""Write pecli/models/class_tables.json: the tables of positions of all model types of an installed transformers.

    python -m tests.tools.make_class_tables

Each model is made from the defaults of its configuration class, without memory for its weights. Of the tensors whose
names are about positions, those with as many rows as a key says (or as an image has patches), and a few more, become a
rule; the others are kept with their shape. Model types that pecli has a family for are left out, and so are caches of
cosines and sines, projections and norms. Tables of a model's parts are kept by shape: their configurations say more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pecli.models import families, non_rotary
from pecli.models.keys import plain_name

NAMED = re.compile(r"pos_emb|position|rel_pos|relative|embed_positions|time_embed|shared_(image_)?embedding")
OTHERS = re.compile(
    r"position_ids|\.bias$|relative_position_index|layer_?norm|norm\d?\.|pos_conv|relative_coords|token_type|rotary"
    r"|_proj\b|proj\.|\.gate$|no_memory|mlp|attn\.embed_positions|order_head|out_point|projection_layer|positional_encoder\.projector"
)
PARTS = re.compile(r"(text|vision|language|audio)_(model|tower|backbone)\.|visual\.|backbone\.|model\.")
ROWS = """
    max_position_embeddings n_positions max_seq_len max_sequence_length max_source_positions max_target_positions
    max_encoder_position_embeddings max_decoder_position_embeddings num_position_embeddings block_size context_length
"""
DIMS = (
    "hidden_size d_model embed_dim embedding_size input_embedding_size n_embd emb_dim encoder_embed_dim hidden_dim dim"
)
MAX_MORE, MAX_TABLES = 5, 6


def models() -> Iterator[tuple[str, Any]]:
    """Every model that can be made from class defaults, with its model_type."""
    import torch
    import transformers
    from transformers.models.auto import configuration_auto, modeling_auto

    maps = [value for name, value in vars(modeling_auto).items() if re.fullmatch(r"MODEL_.*MAPPING_NAMES", name)]
    for name in configuration_auto.CONFIG_MAPPING_NAMES:
        known = [each.get(name) for each in (modeling_auto.MODEL_MAPPING_NAMES, *maps)]
        for kind in dict.fromkeys(each if isinstance(each, str) else each[0] for each in known if each):
            try:
                with torch.device("meta"):
                    yield name, getattr(transformers, kind)(transformers.AutoConfig.for_model(name))
            except Exception:  # whatever a class has against its own defaults
                continue
            break


def rule(shape: list[int], config: Any) -> list[Any] | None:
    """Which keys say how many rows and columns a table has."""
    rows, columns = shape
    given = {name: getattr(config, name, None) for name in (*ROWS.split(), *DIMS.split())}
    dim = next((name for name in DIMS.split() if given[name] == columns), None)
    for name in ROWS.split():
        if dim and isinstance(given[name], int) and 0 <= rows - given[name] <= 2:
            return [name, rows - given[name], dim]
    image, patch = getattr(config, "image_size", None), getattr(config, "patch_size", None)
    (height, width), (tall, wide) = (
        each if isinstance(each, (list, tuple)) else (each, each) for each in (image, patch)
    )
    if dim is None or not all(isinstance(each, int) and each for each in (height, width, tall, wide)):
        return None
    more = rows - (height // tall) * (width // wide)
    extra = (getattr(config, "num_detection_tokens", None) or 0) + MAX_MORE
    return ["", more, dim] if 0 <= more <= extra else None


def tables(model: Any) -> list[list[Any]]:
    """The rows of a model."""
    found: dict[str, Any] = {}
    for name, each in (*model.named_parameters(), *model.named_buffers()):
        found.setdefault(re.sub(r"\.\d+\.", ".N.", name), each)  # the first layer stands for all
    kept = {name: each for name, each in found.items() if NAMED.search(name) and not OTHERS.search(name.lower())}
    is_whole = not any(PARTS.match(name) for name in kept)
    rows: list[list[Any]] = []
    for name, tensor in kept.items():
        shape = [size for size in tensor.shape if size != 1]
        label = re.sub(r"\.weights?$|(?<=embeddings)\.positional_embedding$", "", name)
        is_plain = is_whole and len(shape) == 2 and ".N." not in name and not re.search("rel|bias", name)
        by_keys = rule(shape, model.config) if is_plain else None
        if by_keys or len(shape) > 1:
            rows.append([label, *by_keys] if by_keys else [label, " × ".join(map(str, shape))])
    return rows[:MAX_TABLES]


def main() -> None:
    """Write the file, one model_type per line."""
    found = {}
    for model_type, model in models():
        name = plain_name(model_type)
        known = {"roformer", *non_rotary.FAMILIES, *non_rotary.BESIDE}  # the first one's table is that of its rotation
        if name not in known and (rows := tables(model)):
            found[name] = f"{json.dumps(name)}: {json.dumps(rows, ensure_ascii=False)}"
    path = Path(families.__file__).parent / "class_tables.json"
    path.write_text("{\n" + ",\n".join(found[name] for name in sorted(found)) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
