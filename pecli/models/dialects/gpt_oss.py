"""OpenAI's own config.json of gpt-oss: YaRN with its limits unrounded, from `initial_context_length`."""

from __future__ import annotations

from pecli.models.dialects.dialect import Dialect, base_of, head_width, rotary
from pecli.models.encoding import Encoding
from pecli.models.families import HALVES
from pecli.models.values import Keys, Value

SOURCE = "default of gpt-oss's ModelConfig"


def _read(keys: Keys, warnings: list[str]) -> list[Encoding]:
    head = head_width(keys, "hidden_size", "num_attention_heads", "head_dim")
    factor = keys.number("rope_scaling_factor") or Value(32.0, SOURCE)
    scaling: dict[str, Value | None] = {}
    if factor.value > 1:
        scaling = {
            "scaling": Value("yarn", factor.source),
            "factor": factor,
            "original_max_position_embeddings": keys.whole("initial_context_length") or Value(4096, SOURCE),
            "beta_fast": keys.number("rope_ntk_beta") or Value(32.0, SOURCE),
            "beta_slow": keys.number("rope_ntk_alpha") or Value(1.0, SOURCE),
            "truncate": Value(False, "as in gpt-oss's code"),
        }
    base = base_of(keys, "rope_theta", default=150000.0)
    return [rotary(keys, head, base, (HALVES, "as in gpt-oss's code"), scaling)]


def _recognises(keys: Keys) -> bool:
    return "model_type" not in keys and keys.any("initial_context_length", "rope_ntk_alpha", "rope_ntk_beta")


DIALECT = Dialect("OpenAI's own configuration of gpt-oss", _recognises, _read, lengths=("initial_context_length",))
