"""OLMo's own configurations (config.yaml, or JSON): `rope: true`, `alibi: true`, else a learned table."""

from __future__ import annotations

from pecli.models.dialects.dialect import Dialect, base_of, head_width, rotary
from pecli.models.encoding import Encoding
from pecli.models.families import HALVES
from pecli.models.values import Keys, Value

_SIGNS = ("rope", "alibi", "block_type", "layer_norm_type", "mlp_ratio", "mlp_hidden_size")


def _settings(keys: Keys) -> Keys:
    """The model's own keys, which the configuration of a training run has in `model`."""
    return keys if "d_model" in keys else keys.part("model") or keys


def _read(keys: Keys, warnings: list[str]) -> list[Encoding]:
    own = _settings(keys)
    rope, alibi = own.flag("rope"), own.flag("alibi")
    if rope is not None and rope.value:
        head = head_width(own, "d_model", "n_heads")
        return [rotary(own, head, base_of(own, "rope_theta"), (HALVES, "as in OLMo's code"))]
    if alibi is not None and alibi.value:
        heads = own.needed(own.whole("n_heads"), "n_heads")
        found = {
            "heads": heads,
            "rule": Value("naive", "as in OLMo's code"),
            "max_bias": own.number("alibi_bias_max") or Value(8.0, "default"),
            "form": Value("symmetric", "as in OLMo's code"),
        }
        return [Encoding.of("alibi", found)]
    rows = own.whole("max_sequence_length") or Value(1024, "default of OLMo's ModelConfig")
    dim = own.needed(own.whole("d_model"), "d_model")
    warnings.append("neither rope nor alibi is true: OLMo's code then adds a learned table")
    return [Encoding.of("learned", {"max_len": rows, "dim": dim})]


def _recognises(keys: Keys) -> bool:
    own = _settings(keys)
    known = keys.data.get("model_type") in (None, "olmo", "hf_olmo", "llada", "mmada")
    return known and own.any("d_model") and own.any("n_heads") and own.any(*_SIGNS) and "rope_parameters" not in own


DIALECT = Dialect(
    "a configuration of OLMo's own code",
    _recognises,
    _read,
    lengths=("max_sequence_length",),
    harmless=frozenset(("rope_full_precision",)),
    names_model=True,
)
