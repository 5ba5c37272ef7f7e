"""The scalings of rotary frequencies by name, one file each, imported when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from pecli.engine.scalings.scaling import Scaling

_CLASSES = {
    "none": "scaling.Scaling",
    "linear": "linear.Linear",
    "ntk": "ntk.Ntk",
    "dynamic": "dynamic.Dynamic",
    "yarn": "yarn.Yarn",
    "longrope": "longrope.LongRope",
    "llama3": "llama3.Llama3",
    "proportional": "proportional.Proportional",
    "ntk-fixed": "ntk_fixed.NtkFixed",
}

PARAMETERS: tuple[str, ...]
"""Every parameter that belongs to some scaling."""


class _Scalings(Mapping[str, type[Scaling]]):
    def __getitem__(self, name: str) -> type[Scaling]:
        module, _, attribute = _CLASSES[name].partition(".")
        found: type[Scaling] = getattr(import_module(f"pecli.engine.scalings.{module}"), attribute)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(_CLASSES)

    def __len__(self) -> int:
        return len(_CLASSES)


SCALINGS = _Scalings()


def name_of(scaling: Scaling) -> str:
    """The name of a scaling.

    >>> name_of(Scaling())
    'none'
    """
    module, kind = type(scaling).__module__.rpartition(".")[2], type(scaling).__name__
    return next(name for name, path in _CLASSES.items() if path == f"{module}.{kind}")


def __getattr__(name: str) -> Any:
    if name != "PARAMETERS":
        raise AttributeError(f"module 'pecli.engine.scalings' has no attribute {name!r}")
    names = (name for each in SCALINGS.values() for name in (*each.required(), *each.optional()))
    globals()[name] = tuple(dict.fromkeys(names))
    return globals()[name]
