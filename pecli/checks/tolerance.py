"""How far a table may be off and still pass."""

from __future__ import annotations

from dataclasses import dataclass

from pecli.engine.schemes.parameters import Real, Whole
from pecli.errors import KindError

MAX_ULP = Whole(help="units of the last place", low=0, high=2**63)
ERROR = Real(help="an error", at_least=0)
DRIFT = 1e-3
"""The absolute error that an audit lets a context have, unless it is asked for another."""


@dataclass(frozen=True)
class Tolerance:
    """An element passes if it is within `max_ulp` units of the last place, or within atol + rtol·|expected|."""

    max_ulp: int = 0
    atol: float = 0.0
    rtol: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_ulp", MAX_ULP.check("max_ulp", self.max_ulp))
        for name in ("atol", "rtol"):
            object.__setattr__(self, name, ERROR.check(name, getattr(self, name)))


EXACT = Tolerance()
"""No error at all."""


def check_tolerance(given: object) -> None:
    """Refuse what is no tolerance."""
    if not isinstance(given, Tolerance):
        raise KindError("tolerance", repr(given), "it must be a Tolerance", "such as Tolerance(atol=1e-6)")
