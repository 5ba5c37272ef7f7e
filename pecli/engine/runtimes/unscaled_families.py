"""Families of models whose `rope_scaling` a runtime does not read."""

from pecli.engine.named_values import MutableValues
from pecli.engine.runtimes.runtime import UNCHANGED, Adaptation, ModelRope
from pecli.engine.scalings import SCALINGS


def without_scaling(encoding: ModelRope, families: tuple[str, ...]) -> Adaptation:
    """Return parameters without scaling for models of some families, with the cause for users.

    A runtime ignores the `rope_scaling` of such a model. All parameters of the scaling become None.
    """
    scaling = encoding.parameters["scaling"]
    if scaling == "none" or encoding.family not in families:
        return UNCHANGED
    parameters: MutableValues = dict.fromkeys(SCALINGS[scaling].names())
    parameters["scaling"] = "none"
    return Adaptation(parameters, f"ignores the rope_scaling of {encoding.family}")
