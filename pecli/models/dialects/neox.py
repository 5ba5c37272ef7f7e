"""GPT-NeoX's own configurations (YAML): `pos_emb`, with hyphens or underscores in all names."""

from __future__ import annotations

from pecli.errors import FileError
from pecli.models.dialects.dialect import Dialect, base_of, head_width, rotary, sinusoidal
from pecli.models.encoding import Encoding
from pecli.models.families import HALVES
from pecli.models.values import Keys, Value

KINDS = ("learned", "rotary", "sinusoidal", "rpe", "alibi", "none")
_SIGNS = ("pos_emb", "pipe_parallel_size", "model_parallel_size", "rotary_pct", "no_weight_tying", "gpt_j_residual")


def _underscored(keys: Keys) -> Keys:
    """The same keys, all spelled with underscores."""
    plain = {name.replace("-", "_"): value for name, value in keys.data.items()}
    return keys.replaced(plain, {name.replace("-", "_"): name for name in keys.data})


def _read(keys: Keys, warnings: list[str]) -> list[Encoding]:
    keys = _underscored(keys)
    kind = keys.word("pos_emb") or Value("learned", "default of GPT-NeoX")
    if kind.value not in KINDS:
        raise FileError(keys.path, f"{kind.source} is {kind.value[:40]!r}", f"known are {', '.join(KINDS)}")
    width, rows = keys.whole("hidden_size"), keys.whole("max_position_embeddings", "seq_length")
    if kind.value == "rotary":
        head, partial = head_width(keys, "hidden_size", "num_attention_heads"), keys.number("rotary_pct")
        return [rotary(keys, head, base_of(keys, "rotary_emb_base"), (HALVES, "as in GPT-NeoX"), partial=partial)]
    if kind.value == "alibi":
        heads = keys.needed(keys.whole("num_attention_heads"), "num_attention_heads")
        default = {"rule": Value("paper", "GPT-NeoX"), "max_bias": Value(8.0, "default")}
        return [Encoding.of("alibi", {"heads": heads, **default, "form": Value("causal", "GPT-NeoX")})]
    if kind.value == "rpe":
        found = {
            "style": Value("t5", kind.source),
            "seq_len": keys.needed(rows, "max_position_embeddings"),
            "buckets": keys.whole("rpe_num_buckets") or Value(32, "default"),
            "max_distance": keys.whole("rpe_max_distance") or Value(128, "default"),
            "causal": Value(True, "GPT-NeoX"),
        }
        return [Encoding.of("relative", found)]
    if kind.value == "none":
        warnings.append(f"{kind.source} is none: the model has no positional encoding")
        return []
    rows, width = keys.needed(rows, "max_position_embeddings"), keys.needed(width, "hidden_size")
    if kind.value == "sinusoidal":
        return [sinusoidal("roformer", rows, width, Value(10000.0, "default"))]
    if "pos_emb" not in keys:
        warnings.append("pos_emb is not given: GPT-NeoX then adds a learned table")
    more = keys.whole("opt_pos_emb_offset", low=0)
    if more is not None and more.value:
        rows = Value(rows.value + more.value, f"{rows.source} + {more.source}")
    return [Encoding.of("learned", {"max_len": rows, "dim": width}, {"offset": more} if more and more.value else {})]


def _recognises(keys: Keys) -> bool:
    plain = _underscored(keys)
    sizes = "hidden_size" in plain and "num_attention_heads" in plain and "model_type" not in plain
    return sizes and "architectures" not in plain and plain.any(*_SIGNS)


DIALECT = Dialect(
    "a configuration of GPT-NeoX",
    _recognises,
    _read,
    lengths=("seq_length", "seq-length", "max-position-embeddings"),
    harmless=frozenset(("rope_fusion", "rope-fusion", "rotary_save_freqs_buffer")),
)
