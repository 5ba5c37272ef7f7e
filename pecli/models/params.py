"""params.json of Meta's own releases: `dim`, `n_heads`, `rope_theta`, `use_scaled_rope`; pairs are interleaved."""

from __future__ import annotations

from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.families import INTERLEAVED
from pecli.models.values import Keys, Value

SCALED = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
"""What `use_scaled_rope` stands for in Meta's code; the factor may be given."""


def looks_like(keys: Keys) -> bool:
    """Whether the keys are those of a params.json."""
    return "model_type" not in keys and keys.any("dim") and keys.any("n_heads") and "hidden_size" not in keys


def read(keys: Keys) -> ModelEncodings:
    """The one encoding of such a model."""
    width, heads = keys.whole("dim"), keys.whole("n_heads")
    assert width is not None
    assert heads is not None
    size = keys.whole("head_dim") or Value(width.value // heads.value, f"{width.source} // {heads.source}")
    found = {"dim": size, "base": keys.number("rope_theta") or Value(10000.0, "default")}
    scaled = keys.flag("use_scaled_rope")
    if scaled is not None and scaled.value:
        found["scaling"] = Value("llama3", scaled.source)
        for name, value in SCALED.items():
            found[name] = Value(value, "use_scaled_rope")
        found["factor"] = keys.number("rope_scale_factor", "rope_scaling_factor") or found["factor"]
    else:
        found["scaling"] = Value("none", "default: no scaling is asked for")
    encoding = Encoding.of(
        "rope",
        found,
        sources={"head_dim": size.source, "layout": "as in Meta's code"},
        layout=INTERLEAVED,
        head_dim=size.value,
    )
    encoding.check()
    return ModelEncodings(keys.path, None, (encoding,))
