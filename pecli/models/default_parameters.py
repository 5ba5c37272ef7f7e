"""Values that a configuration leaves out, spelled out: what the scaling takes for them."""

from __future__ import annotations

from pecli.engine.scalings import yarn
from pecli.models.values import Value

LENGTH, ORIGINAL = "max_position_embeddings", "original_max_position_embeddings"


def filled(found: dict[str, Value]) -> dict[str, Value]:
    """The parameters of a rotary scheme, those included that count without being said."""
    scaling = found["scaling"].value
    more = {name: Value(value, "default") for name, value in yarn.DEFAULTS.items()} if scaling == "yarn" else {}
    if scaling in ("yarn", "longrope") and LENGTH in found and ORIGINAL in found and "attention_factor" not in found:
        ratio, rest = divmod(found[LENGTH].value, found[ORIGINAL].value)
        if ratio and not rest:  # else the scheme divides, without a rounding
            more["factor"] = Value(float(ratio), f"{found[LENGTH].source} / {found[ORIGINAL].source}")
    return {**found, **{name: value for name, value in more.items() if name not in found}}
