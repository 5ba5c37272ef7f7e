"""How far a table may be off and still pass, and how far its elements are apart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.checks.tensor_roles import role_of
from pecli.engine.arrays import SIGNIFICAND_BITS, Array, Flags, Floats, Indices, dtype_name, round_to, widened
from pecli.engine.schemes import Real, Whole
from pecli.errors import KindError, ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Value = float | complex

MAX_ULP = Whole(help="units of the last place", low=0, high=2**63)
ERROR = Real(help="an error", at_least=0)
DRIFT = 1e-3  #: the absolute error that an audit lets a context have, unless it is asked for another
FREQ_RTOL = 1e-5  #: the relative error of a frequency that float32 arithmetic stays within; mistakes are larger by far
RELATIVE = ("inv_freq", "slopes")  #: tensors of such small values that an absolute error says nothing of them


@dataclass(frozen=True)
class Tolerance:
    """An element passes if it is within `max_ulp` units of the last place, or within atol + rtol·|expected|.

    Frequencies and slopes (`inv_freq`, `slopes`) are judged relatively: `atol` does not apply to them. Where any
    tolerance is given they pass within `freq_rtol`, which is `rtol` or else 1e-5.
    """

    max_ulp: int = 0
    atol: float = 0.0
    rtol: float = 0.0
    freq_rtol: float | None = None

    def __post_init__(self) -> None:
        rules = {"max_ulp": MAX_ULP, "atol": ERROR, "rtol": ERROR, "freq_rtol": ERROR}
        for name, rule in rules.items():
            if name != "freq_rtol" or self.freq_rtol is not None:
                object.__setattr__(self, name, rule.check(name, getattr(self, name)))

    def against_model(self) -> Tolerance:
        """The same where a model is the spec: its runtime computes frequencies in float32."""
        return self if self.freq_rtol is not None else replace(self, freq_rtol=self.rtol or FREQ_RTOL)

    def for_tensor(self, *names: str) -> Tolerance:
        """What applies to a tensor that goes by these names.

        >>> Tolerance(atol=1e-3).for_tensor("rotary_emb.inv_freq")
        Tolerance(max_ulp=0, atol=0.0, rtol=1e-05, freq_rtol=None)
        """
        if not is_relative(*names):
            return self
        rtol = self.freq_rtol
        if rtol is None:
            rtol = self.rtol or (FREQ_RTOL if self.max_ulp or self.atol else 0.0)
        return Tolerance(self.max_ulp, 0.0, rtol)


EXACT = Tolerance()  #: no error at all


def is_relative(*names: str) -> bool:
    """Whether a tensor that goes by these names is judged relatively."""
    return any(role_of(name) in RELATIVE for name in names)


def tolerance_of(tolerance: Tolerance | None, max_ulp: int | None, atol: float | None, rtol: float | None) -> Tolerance:
    """The tolerance that a Python function was given: one object, or by keywords."""
    given = {"max_ulp": max_ulp, "atol": atol, "rtol": rtol}
    given = {name: value for name, value in given.items() if value is not None}
    if tolerance is None:
        return Tolerance(**given)  # type: ignore[arg-type]
    if not isinstance(tolerance, Tolerance):
        raise KindError("tolerance", repr(tolerance), "it must be a Tolerance", "such as Tolerance(atol=1e-6)")
    if given:
        raise ParameterError(next(iter(given)), "given beside tolerance", "they say the same", "leave one out")
    return tolerance


def differing_elements(ours: Array, theirs: Array) -> Indices:
    """The elements whose bits differ (no NaN is unlike itself); all of them where the dtypes do."""
    if ours.dtype != theirs.dtype:
        return np.arange(ours.size)
    word = np.dtype(f"u{min(8, ours.itemsize)}")
    differ = ours.view(word) != theirs.view(word)
    return np.flatnonzero(differ.reshape(ours.size, -1).any(axis=1) if differ.size > ours.size else differ)


def element_errors(ours: Array, theirs: Array) -> tuple[Flags, Floats, NDArray[Any] | None]:
    """Which elements are alike, their absolute errors, and the units of the last place between them, for floats."""
    if ours.dtype == theirs.dtype and ours.dtype.kind in "iub":
        a, b = (each.view(np.uint8) if each.dtype.kind == "b" else each for each in (ours, theirs))
        unsigned = f"u{a.dtype.itemsize}"
        apart = np.maximum(a, b).view(unsigned) - np.minimum(a, b).view(unsigned)
        return np.asarray(a == b), apart.astype(np.float64), None
    alike, error = absolute_errors(ours, theirs)
    if theirs.dtype.kind in "iub" or (ours.dtype.kind == "c" != theirs.dtype.kind):
        return alike, error, None
    if theirs.dtype.kind == "c":
        ours = ours.astype(theirs.dtype)
        parts = [(one.copy(), other.copy()) for one, other in ((ours.real, theirs.real), (ours.imag, theirs.imag))]
        units = np.maximum(ulps_apart(*parts[0]), ulps_apart(*parts[1]))
    else:
        name = dtype_name(theirs.dtype)
        if ours.dtype != theirs.dtype:
            ours = round_to(widened(ours), name) if name in SIGNIFICAND_BITS else widened(ours).astype(theirs.dtype)
        units = ulps_apart(ours, theirs)
    units[alike] = 0
    return alike, error, units


def absolute_errors(ours: Array, theirs: Array) -> tuple[Flags, Floats]:
    """Which elements are alike, and absolute errors: infinite where only one side is finite, or is a number."""
    expected, found = widest(ours), widest(theirs)
    alike = np.asarray((expected == found) | (np.isnan(expected) & np.isnan(found)))  # one NaN is as good as another
    with np.errstate(invalid="ignore", over="ignore"):
        error: Floats = np.abs(expected - found)
    error[alike] = 0
    error[np.isnan(error)] = np.inf
    return alike, error


def ulps_apart(a: Array, b: Array) -> NDArray[Any]:
    """The distance of two arrays in floats of their dtype, element by element; the two zeros are one.

    >>> ulps_apart(np.array([1, -0.0], np.float16), np.array([1 + 2**-10, 0.0], np.float16)).tolist()
    [1, 0]
    """
    first, second = _ordinals(a), _ordinals(b)
    unsigned = f"u{a.dtype.itemsize}"  # the difference has one bit more than its signed parts
    return np.asarray(np.maximum(first, second).view(unsigned) - np.minimum(first, second).view(unsigned))


def _ordinals(a: Array) -> NDArray[Any]:
    """Floats numbered from zero, negative below; without branches, which random signs would make slow."""
    bits = a.view(f"i{a.dtype.itemsize}")
    below = bits >> (8 * a.dtype.itemsize - 1)  # −1 where negative, or else 0
    return np.asarray(((bits & np.iinfo(bits.dtype).max) ^ below) - below)


def widest(values: Array) -> NDArray[Any]:
    """Numbers as float64, or as complex128."""
    return values.astype(np.complex128) if values.dtype.kind == "c" else widened(values)


def value_of(element: Any) -> Value:
    """An element as a Python number."""
    kind = element.dtype.kind
    return int(element) if kind in "iub" else complex(element) if kind == "c" else float(element)
