"""The schemes by name: classes in files of their own, imported when they are first used."""

from importlib import import_module
from typing import Any

from pecli.errors import ParameterError, quoted

SCHEMES: dict[str, tuple[str, str] | type[Any]] = {
    "sinusoidal": ("pecli.engine.schemes.sinusoidal", "Sinusoidal"),
    "rope": ("pecli.engine.schemes.rope", "Rope"),
    "alibi": ("pecli.engine.schemes.alibi", "Alibi"),
    "relative": ("pecli.engine.schemes.relative", "Relative"),
    "learned-init": ("pecli.engine.schemes.learned", "LearnedInit"),
}
"""The class of each scheme, or its module and name: a command imports only its own scheme."""

_BUNDLE = ("pecli.engine.schemes.bundle", "Bundle")


def scheme_named(name: object) -> Any:
    """Return the class of that name, a subclass of `Scheme`.

    `layers` is not in the list of schemes: it holds several of them, one per type of layers.

    Raises:
        ParameterError: there is no such scheme.
    """
    if name == "layers":
        return _load(_BUNDLE)
    if not isinstance(name, str) or name not in SCHEMES:
        raise ParameterError("scheme", quoted(name), f"it must be one of {', '.join(SCHEMES)}")
    return _load(SCHEMES[name])


def _load(entry: tuple[str, str] | type[object]) -> object:
    """Return the class of a registry row: it is imported if the row is a module and a name."""
    if isinstance(entry, tuple):
        module, name = entry
        return getattr(import_module(module), name)
    return entry
