"""DeepSeek's own inference configurations: YaRN by default, once the context exceeds the original one.

Its code defaults to 16,384 positions from 4,096, with a factor of 40; cos and sin are not multiplied by anything, the
softmax scale is.
"""

from __future__ import annotations

import math

from pecli.models.dialects.dialect import UNSCALED, Dialect, base_of, rotary
from pecli.models.encoding import Encoding
from pecli.models.families import INTERLEAVED
from pecli.models.values import Keys, Value

DEFAULTS = {"max_seq_len": 16384, "original_seq_len": 4096, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128}
_SIGNS = ("inter_dim", "moe_inter_dim", "n_dense_layers", "n_activated_experts", "n_routed_experts")


def _whole(keys: Keys, name: str) -> Value:
    return keys.whole(name, low=0) or Value(DEFAULTS[name], "default of DeepSeek's ModelArgs")


def _read(keys: Keys, warnings: list[str]) -> list[Encoding]:
    dim, nope = _whole(keys, "qk_rope_head_dim"), _whole(keys, "qk_nope_head_dim")
    length, original = _whole(keys, "max_seq_len"), _whole(keys, "original_seq_len")
    head = Value(dim.value + nope.value, f"{nope.source} + {dim.source}")
    base = base_of(keys, "rope_theta")
    scaling: dict[str, Value | None] = dict(UNSCALED)
    if length.value > original.value:
        source = f"{length.source}: {length.value} exceeds {original.value} ({original.source})"
        factor = keys.number("rope_factor") or Value(40.0, "default of DeepSeek's ModelArgs")
        scaling = {
            "scaling": Value("yarn", source),
            "factor": factor,
            "original_max_position_embeddings": original,
            "beta_fast": keys.number("beta_fast") or Value(32.0, "default"),
            "beta_slow": keys.number("beta_slow") or Value(1.0, "default"),
            "attention_factor": Value(1.0, "DeepSeek's code leaves cos and sin as they are"),
        }
        mscale = keys.number("mscale") or Value(1.0, "default")
        g = 0.1 * mscale.value * math.log(factor.value) + 1 if factor.value > 0 else 1.0
        warnings.append(f"the softmax scale is multiplied by {g * g:.7g} (= {g:.7g}²) outside the table, for mscale")
    if keys.any("index_n_heads", "index_head_dim"):
        warnings.append("queries and keys of the indexer rotate halves, not pairs, by the same frequencies")
    layout = (INTERLEAVED, "as in DeepSeek's inference code")
    return [rotary(keys, head, base, layout, scaling, dim=dim)]


def _recognises(keys: Keys) -> bool:
    return (
        "model_type" not in keys
        and "dim" in keys
        and "yarn" not in keys
        and (keys.any("qk_rope_head_dim", "kv_lora_rank", "q_lora_rank") and keys.any(*_SIGNS))
    )


DIALECT = Dialect("DeepSeek's inference configuration", _recognises, _read, lengths=("max_seq_len",))
