"""Scalings of rotary frequencies by name."""

from pecli.engine.scalings.linear import Linear, Proportional
from pecli.engine.scalings.llama3 import Llama3
from pecli.engine.scalings.longrope import LongRope
from pecli.engine.scalings.ntk import Dynamic, Ntk, NtkFixed
from pecli.engine.scalings.scaling import NewParameter, Scaling
from pecli.engine.scalings.yarn import Yarn

SCALINGS: dict[str, type[Scaling]] = {
    "none": Scaling,
    "linear": Linear,
    "ntk": Ntk,
    "dynamic": Dynamic,
    "yarn": Yarn,
    "longrope": LongRope,
    "llama3": Llama3,
    "proportional": Proportional,
    "ntk-fixed": NtkFixed,
}


def _parameter_names() -> tuple[str, ...]:
    """Return the names of the parameters of all scalings, each once, in order."""
    names: dict[str, None] = {}
    for kind in SCALINGS.values():
        names.update(dict.fromkeys(kind.names()))
    return tuple(names)


PARAMETERS = _parameter_names()
"""The parameters of all scalings."""


def new_parameters() -> dict[str, NewParameter]:
    """Return the parameters that `Rope` has only because scalings declare them."""
    declarations: dict[str, NewParameter] = {}
    for kind in SCALINGS.values():
        declarations.update(kind.new_parameters())
    return declarations


def name_of(scaling: Scaling) -> str:
    """Return the name of a scaling.

    >>> name_of(Scaling())
    'none'
    """
    return next(name for name, kind in SCALINGS.items() if kind is type(scaling))
