"""Types of values by name, which depend on the name, and of values that cannot be missing."""

from collections.abc import Mapping
from typing import Any, TypeVar

NamedValues = Mapping[str, Any]
"""Parameters of a scheme, options of a command, or keys of a configuration."""

JsonObject = dict[str, Any]
"""An object as JSON and TOML have it: texts, numbers, lists and objects by name."""

MutableValues = dict[str, Any]
"""Named values that a function collects, or changes for another."""

_Value = TypeVar("_Value")


def without_none(values: NamedValues) -> MutableValues:
    """Return the values that are stated: all except None.

    >>> without_none({"heads": 32, "head_dim": None, "trailing": False})
    {'heads': 32, 'trailing': False}
    """
    return {name: value for name, value in values.items() if value is not None}


def required(value: _Value | None) -> _Value:
    """Return a value that its type allows to be None, although it cannot be None here.

    A style of relative positions, for example, has either a grid or a length: `Relative` checks
    that when it is made, and nothing that is computed later has to check it again.
    """
    assert value is not None
    return value
