"""The errors that a table may have and still pass."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pecli.engine.named_values import without_none
from pecli.engine.schemes.parameters import ParameterRule, Real, Whole
from pecli.errors import KindError, ParameterError, quoted
from pecli.files.tensor_roles import role_of

if TYPE_CHECKING:  # Options of the commands are checked without NumPy.
    from pecli.engine.arrays import AnyArray

MAX_ULP = Whole(help="units of the last place", low=0, high=2**63)
ERROR = Real(help="an error", at_least=0)
DRIFT = 1e-3  #: absolute error that an audit allows by default
FREQ_RTOL = 1e-5
"""Relative error of a frequency within which float32 arithmetic stays; mistakes are far larger."""
SINGLE_ROUNDING = 2.0**-23
"""Error of order-one numbers that are rounded to float32, as numbers from text are."""
RELATIVE = ("inv_freq", "slopes")
"""Tensors of such small values that an absolute error means nothing."""


@dataclass(frozen=True)
class Tolerance:
    """The errors that pass: within `max_ulp` ULPs, or within atol + rtol·|expected|.

    Frequencies and slopes (`inv_freq`, `slopes`) are judged relatively: `atol` does not apply to them. If any
    tolerance is given, they pass within `freq_rtol`, by default `rtol`, or else 1e-5.

    Args:
        max_ulp: The largest error in ULPs.
        atol: The largest absolute error, for values of order one.
        rtol: The largest error relative to the expected value.
        freq_rtol: The largest relative error of frequencies and slopes.

    Raises:
        ParameterError: If a number is negative, or not finite.

    >>> Tolerance(atol=1e-6)
    Tolerance(max_ulp=0, atol=1e-06, rtol=0.0, freq_rtol=None)
    """

    max_ulp: int = 0
    atol: float = 0.0
    rtol: float = 0.0
    freq_rtol: float | None = None

    def __post_init__(self) -> None:
        """Check all numbers, and keep them as int or float: an `rtol` of 1 becomes 1.0."""
        rules: dict[str, ParameterRule] = {"max_ulp": MAX_ULP, "atol": ERROR, "rtol": ERROR}
        if self.freq_rtol is not None:
            rules["freq_rtol"] = ERROR
        for name, rule in rules.items():
            checked = rule.check(name, getattr(self, name))
            object.__setattr__(self, name, checked)  # The dataclass is frozen for everybody else.

    def against_model(self) -> "Tolerance":
        """Return the tolerance for a model's tables: its runtime computes frequencies in float32."""
        if self.freq_rtol is not None:
            return self
        return replace(self, freq_rtol=self.rtol or FREQ_RTOL)

    def for_printed(self, rounding: float) -> "Tolerance":
        """Return the tolerance for numbers that printing changed by up to `rounding`.

        A tolerance that somebody chose stays as it is. Instead of exact numbers, those are accepted
        whose digits are exact as far as they were printed. PyTorch prints frequencies with four
        decimals after the leading digit, 4.2170e-01, so that the rounding is relative to their size.

        >>> EXACT.for_printed(5e-5).atol > 5e-5, Tolerance(max_ulp=1).for_printed(5e-5).atol
        (True, 0.0)
        """
        if not rounding or self != EXACT:
            return self
        allowed = rounding + SINGLE_ROUNDING
        return replace(self, atol=allowed, freq_rtol=max(allowed, FREQ_RTOL))

    def or_absolute(self, atol: float) -> "Tolerance":
        """Return this tolerance, or an absolute error that passes instead if it is exact.

        >>> EXACT.or_absolute(1e-6).atol, Tolerance(atol=1e-3).or_absolute(1e-6).atol
        (1e-06, 0.001)
        """
        return Tolerance(atol=atol) if self == EXACT else self

    def for_tensor(self, *names: str) -> "Tolerance":
        """Return the tolerance that applies to a tensor with one of these names.

        For frequencies and slopes, this is a relative error: `freq_rtol`, or else `rtol`, or else 1e-5.
        If the tolerance is exact, frequencies have to be exact as well.

        >>> Tolerance(atol=1e-3).for_tensor("rotary_emb.inv_freq")
        Tolerance(max_ulp=0, atol=0.0, rtol=1e-05, freq_rtol=None)
        """
        if not is_relative(*names):
            return self
        allows_errors = bool(self.max_ulp or self.atol)
        stated = self.against_model() if allows_errors else self
        rtol = stated.rtol if stated.freq_rtol is None else stated.freq_rtol
        return replace(self, atol=0.0, rtol=rtol, freq_rtol=None)

    def sizes(self, expected: "AnyArray", found: "AnyArray") -> "AnyArray":
        """Return the absolute values that `rtol` is a share of: those of the expected values.

        Args:
            expected: The absolute values of what is expected.
            found: What was found.
        """
        return expected

    def for_either_order(self) -> "SymmetricTolerance":
        """Return the tolerance for two files of which neither is the expected one."""
        return SymmetricTolerance(
            max_ulp=self.max_ulp, atol=self.atol, rtol=self.rtol, freq_rtol=self.freq_rtol
        )


@dataclass(frozen=True)
class SymmetricTolerance(Tolerance):
    """A tolerance whose `rtol` is a share of the larger of two values.

    1.0 and 1.1 differ by 0.1, which is 10 % of the one and 9.1 % of the other. Within an rtol of
    0.095, `diff(a, b)` and `diff(b, a)` have to agree.
    """

    def sizes(self, expected: "AnyArray", found: "AnyArray") -> "AnyArray":
        import numpy as np

        larger: AnyArray = np.maximum(expected, np.abs(found).astype(expected.dtype))
        return larger


EXACT = Tolerance()  #: no error at all


def is_relative(*names: str) -> bool:
    """Return True if a tensor with one of these names is judged relatively."""
    return any(role_of(name) in RELATIVE for name in names)


def tolerance_of(
    tolerance: Tolerance | None, max_ulp: int | None, atol: float | None, rtol: float | None
) -> Tolerance:
    """Return the tolerance of a call such as `diff(a, b, atol=1e-6)` or `diff(a, b, Tolerance(…))`.

    Raises:
        KindError: If `tolerance` is not a Tolerance.
        ParameterError: If both are given.
    """
    stated_limits = without_none({"max_ulp": max_ulp, "atol": atol, "rtol": rtol})
    if tolerance is None:
        return Tolerance(**stated_limits)
    if not isinstance(tolerance, Tolerance):
        raise KindError(
            "tolerance", quoted(tolerance), "it must be a Tolerance", "such as Tolerance(atol=1e-6)"
        )
    if stated_limits:
        first_name = next(iter(stated_limits))
        raise ParameterError(
            first_name, "given beside tolerance", "they say the same", "leave one out"
        )
    return tolerance
