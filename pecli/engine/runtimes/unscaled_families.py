"""Families of models whose `rope_scaling` a runtime does not read."""

from pecli.engine.named_values import MutableValues
from pecli.engine.runtimes.runtime import UNCHANGED, Adaptation, ModelRope
from pecli.engine.scalings import SCALINGS


def without_scaling(encoding: ModelRope, families: tuple[str, ...]) -> Adaptation:
    """Remove the scaling of a model of these families."""
    scaling = encoding.parameters["scaling"]
    if scaling == "none" or encoding.family not in families:
        return UNCHANGED
    parameters: MutableValues = dict.fromkeys(SCALINGS[scaling].names())
    parameters["scaling"] = "none"
    return Adaptation(parameters, f"ignores the rope_scaling of {encoding.family}")
