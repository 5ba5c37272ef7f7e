"""The schemes by name."""

from __future__ import annotations

from importlib import import_module

from pecli.engine.schemes.scheme import Scheme
from pecli.errors import ParameterError

SCHEMES = {
    "sinusoidal": ("pecli.engine.schemes.sinusoidal", "Sinusoidal"),
    "rope": ("pecli.engine.schemes.rope", "Rope"),
    "alibi": ("pecli.engine.schemes.alibi", "Alibi"),
    "learned-init": ("pecli.engine.schemes.learned", "LearnedInit"),
}
"""Where each scheme lives; a command imports only its own."""

_BUNDLE = {"layers": ("pecli.engine.schemes.bundle", "Bundle")}


def scheme_named(name: object) -> type[Scheme]:
    """The class of that name."""
    known = SCHEMES | _BUNDLE
    if not isinstance(name, str) or name not in known:
        raise ParameterError("scheme", repr(name), f"it must be one of {', '.join(SCHEMES)}")
    module, attribute = known[name]
    found: type[Scheme] = getattr(import_module(module), attribute)
    return found
