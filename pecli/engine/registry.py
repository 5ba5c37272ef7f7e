"""The schemes by name."""

from __future__ import annotations

from importlib import import_module

from pecli.engine.scheme import Scheme
from pecli.errors import ParameterError

SCHEMES = {
    "sinusoidal": ("pecli.engine.sinusoidal", "Sinusoidal"),
    "rope": ("pecli.engine.rope", "Rope"),
    "alibi": ("pecli.engine.alibi", "Alibi"),
    "learned-init": ("pecli.engine.learned", "LearnedInit"),
}
"""Where each scheme lives; a command imports only its own."""

_BUNDLE = {"layers": ("pecli.engine.bundle", "Bundle")}


def scheme_named(name: object) -> type[Scheme]:
    """The class of that name."""
    known = SCHEMES | _BUNDLE
    if not isinstance(name, str) or name not in known:
        raise ParameterError("scheme", repr(name), f"it must be one of {', '.join(SCHEMES)}")
    module, attribute = known[name]
    found: type[Scheme] = getattr(import_module(module), attribute)
    return found
