"""Kyutai's configurations of Moshi and its relatives: `positional_embedding` with `max_period` as the base."""

from __future__ import annotations

from dataclasses import replace

from pecli.errors import FileError
from pecli.models.dialects.dialect import Dialect, base_of, head_width, rotary, sinusoidal
from pecli.models.encoding import Encoding
from pecli.models.families import HALVES, INTERLEAVED
from pecli.models.values import Keys, Value

KINDS = ("rope", "sin_rope", "rope_concat", "sin", "none")


def _part(keys: Keys, kind: Value, prefix: str, warnings: list[str]) -> list[Encoding]:
    """The encodings of the model, or of its depth transformer, whose keys have a prefix."""
    if kind.value not in KINDS:
        raise FileError(keys.path, f"{kind.source} is {kind.value[:40]!r}", f"known are {', '.join(KINDS)}")
    if kind.value == "none":
        return []
    name = prefix.rstrip("_")
    base = base_of(keys, f"{prefix}max_period")
    found = []
    if "rope" in kind.value:
        head = head_width(keys, f"{prefix}dim", f"{prefix}num_heads")
        layout = HALVES if kind.value == "rope_concat" else INTERLEAVED
        found.append(rotary(keys, head, base, (layout, kind.source), layer_type=name))
    if kind.value.startswith("sin"):
        scale = keys.number("positional_scale")
        more = {"cos_first": Value(True, "moshi"), **({"amplitude": scale} if scale else {})}
        dim = keys.needed(keys.whole(f"{prefix}dim"), f"{prefix}dim")
        rows = keys.whole(f"{prefix}context", "context") or Value(3000, "default")
        found.append(sinusoidal("tensor2tensor", rows, dim, base, name, **more))
    return [replace(each, part=name) for each in found]


def _read(keys: Keys, warnings: list[str]) -> list[Encoding]:
    kind = keys.word("positional_embedding") or Value("sin", "default of moshi's transformer")
    found = _part(keys, kind, "", warnings)
    inner = keys.word("depformer_pos_emb", "depformer_positional_embedding")
    if inner is not None:
        found += _part(keys, inner, "depformer_", warnings)
        keys.mark("depformer_max_period")
    if not found:
        warnings.append(f"{kind.source} is {kind.value}: the model has no positional encoding")
    return found


def _recognises(keys: Keys) -> bool:
    return "dim" in keys and "num_heads" in keys and keys.any("positional_embedding", "depformer_dim", "max_period")


DIALECT = Dialect("a configuration of Moshi", _recognises, _read, lengths=("context",), names_model=True)
