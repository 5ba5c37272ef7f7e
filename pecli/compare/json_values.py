"""Results as JSON has them."""

import math
from collections.abc import Mapping
from typing import Any


def plain(value: object) -> Any:
    """Return a result, or a field of one, as values that `json.dumps` accepts.

    Numbers that are not finite become null, because JSON has no NaN; complex numbers become pairs.

    >>> plain({"error": math.inf, "found": 1 + 2j})
    {'error': None, 'found': [1.0, 2.0]}
    """
    if hasattr(value, "as_json"):
        return value.as_json()
    match value:
        case Mapping():
            return {name: plain(item) for name, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case complex():
            return [plain(value.real), plain(value.imag)]
        case float() if not math.isfinite(value):
            return None
        case _:
            return value


def plain_fields(result: object, *names: str) -> dict[str, object]:
    """Return some fields of a result as JSON has them."""
    return {name: plain(getattr(result, name)) for name in names}
