"""Names for annotations of values by name, whose types depend on the name."""

from collections.abc import Mapping
from typing import Any

NamedValues = Mapping[str, Any]
"""Parameters of a scheme, options of a command, or keys of a configuration."""

JsonObject = dict[str, Any]
"""An object as JSON and TOML have it: texts, numbers, lists and objects by name."""

MutableValues = dict[str, Any]
"""Named values that a function collects, or changes for another."""
