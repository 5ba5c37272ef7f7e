"""How far a table may be off and still pass."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pecli.errors import ParameterError


@dataclass(frozen=True)
class Tolerance:
    """An element passes if it is within `max_ulp` units of the last place, or within atol + rtol·|expected|."""

    max_ulp: int = 0
    atol: float = 0.0
    rtol: float = 0.0

    def __post_init__(self) -> None:
        for name in ("max_ulp", "atol", "rtol"):
            value = getattr(self, name)
            if not value >= 0 or math.isinf(value):
                raise ParameterError(name, value, "it must be a finite number of at least 0")


EXACT = Tolerance()
"""No error at all."""
