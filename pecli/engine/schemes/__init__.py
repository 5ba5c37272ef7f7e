"""The schemes, each in a file of its own, and here by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from pecli.errors import ParameterError

SCHEMES: dict[str, tuple[str, str] | type[Any]] = {
    "sinusoidal": ("pecli.engine.schemes.sinusoidal", "Sinusoidal"),
    "rope": ("pecli.engine.schemes.rope", "Rope"),
    "alibi": ("pecli.engine.schemes.alibi", "Alibi"),
    "relative": ("pecli.engine.schemes.relative", "Relative"),
    "learned-init": ("pecli.engine.schemes.learned", "LearnedInit"),
}
"""Each scheme's class, or the module and name of it: a command imports only its own."""

_BUNDLE = {"layers": ("pecli.engine.schemes.bundle", "Bundle")}


def scheme_named(name: object) -> Any:
    """The class of that name, a subclass of `Scheme`."""
    known = {**SCHEMES, **_BUNDLE}
    if not isinstance(name, str) or name not in known:
        raise ParameterError("scheme", repr(name), f"it must be one of {', '.join(SCHEMES)}")
    found = known[name]
    return getattr(import_module(found[0]), found[1]) if isinstance(found, tuple) else found


def register(kind: type[Any]) -> None:
    """Make a scheme known under its name, to commands and specs alike."""
    if kind.name in SCHEMES or kind.name in _BUNDLE:
        raise ParameterError("scheme", repr(kind.name), "a scheme of that name is registered already")
    SCHEMES[kind.name] = kind


@contextmanager
def registered(kind: type[Any]) -> Iterator[None]:
    """The same for the length of a `with` block."""
    register(kind)
    try:
        yield
    finally:
        del SCHEMES[kind.name]
