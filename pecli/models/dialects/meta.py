"""Meta's and Mistral's own params.json: `dim`, `n_heads`, pairs interleaved."""

from __future__ import annotations

from pecli.models.dialects.dialect import Dialect, base_of, head_width, rotary
from pecli.models.encoding import Encoding
from pecli.models.families import INTERLEAVED
from pecli.models.values import Keys, Value

LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
"""What `use_scaled_rope` stands for in Meta's code; the factor may be given."""
LAYOUT = (INTERLEAVED, "as in the code that params.json is for")


def llama3_scaling(keys: Keys, **names: tuple[str, ...]) -> dict[str, Value]:
    """Llama 3.1's scaling where `use_scaled_rope` asks for it; `names` are keys that replace its numbers."""
    scaled = keys.flag("use_scaled_rope")
    if scaled is None or not scaled.value:
        return {}
    found = {name: Value(value, "use_scaled_rope") for name, value in LLAMA3.items()}
    given = {name: keys.number(*spellings) for name, spellings in names.items()}
    return {"scaling": Value("llama3", scaled.source), **found, **{name: each for name, each in given.items() if each}}


def _yarn(keys: Keys) -> dict[str, Value | None]:
    """Mistral's `yarn`, whose alpha and beta are the slow and the fast limit."""
    own = keys.section("yarn")
    if own is None:
        return {}
    factor = own.needed(own.number("factor"), "factor")
    applies = own.flag("apply_scale")
    plain = applies is not None and not applies.value
    return {
        "scaling": Value("yarn", "yarn"),
        "factor": factor,
        "original_max_position_embeddings": own.needed(own.whole("original_max_position_embeddings"), "original"),
        "beta_fast": own.number("beta") or Value(32.0, "default"),
        "beta_slow": own.number("alpha") or Value(1.0, "default"),
        "attention_factor": Value(1.0, f"{own.prefix}apply_scale is false") if plain else None,
    }


def _read(keys: Keys, warnings: list[str]) -> list[Encoding]:
    latent = keys.whole("qk_rope_head_dim", low=0)
    head = head_width(keys, "dim", "n_heads", "head_dim")
    latent = latent if latent is not None and latent.value else None
    if latent is not None:
        nope = keys.whole("qk_nope_head_dim", low=0) or Value(0, "default")
        head = Value(latent.value + nope.value, f"{nope.source} + {latent.source}")
    extra: dict[str, Value] = {}
    tuned = keys.section("llama_4_scaling")
    if tuned is not None and (beta := tuned.number("beta")):
        extra["llama_4_scaling_beta"] = beta
        length = tuned.needed(tuned.whole("original_max_position_embeddings"), "original_max_position_embeddings")
        warnings.append(
            f"queries are multiplied by 1 + {beta.value:g}·ln(1 + ⌊p/{length.value}⌋) at position p, outside the table"
        )
    scaling = _yarn(keys) or llama3_scaling(keys, factor=("rope_scale_factor", "rope_scaling_factor"))
    base = base_of(keys, "rope_theta")
    found = [rotary(keys, head, base, LAYOUT, scaling, dim=latent, extra=extra)]
    if (step := keys.whole("nope_layer_interval")) and (layers := keys.whole("n_layers")):
        numbers = [*range(step.value - 1, min(layers.value, 4096), step.value)]
        warnings.append(f"layers {', '.join(map(str, numbers[:32]))} have no rope: {step.source} is {step.value}")
        found = [each.with_extra({"nope_layers": Value(numbers, step.source)}) for each in found]
    return found


def _recognises(keys: Keys) -> bool:
    return "model_type" not in keys and "dim" in keys and "n_heads" in keys and "hidden_size" not in keys


DIALECT = Dialect(
    "Meta's or Mistral's params.json", _recognises, _read, lengths=("max_seq_len", "max_seqlen"), is_general=True
)
