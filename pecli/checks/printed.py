"""Numbers that were printed as text: how closely they can be compared."""

import math

from pecli.compare.tolerance import Tolerance
from pecli.notes import note

COARSE_ATOL = 1e-3  #: a tolerance that hides mistakes which are small, such as another recipe
MORE_DIGITS = "print 6 decimals or more (%.6f) for a closer check"


def widen_for_printed(label: str, tolerance: Tolerance, rounding: float) -> Tolerance:
    """Return the tolerance for numbers that were read from text, where 0.54030231 may be 0.5403.

    Numbers with four decimals cannot equal a table exactly. If no tolerance was given, half a unit
    of the last decimal is allowed, and a note states it. A tolerance that is finer than the digits
    stays, and a note advises to print more of them.

    Args:
        label: The file, as it was given.
        tolerance: The tolerance that was given.
        rounding: The largest error that printing made; 0 if the numbers have all their digits.
    """
    if _is_finer_than_digits(tolerance, rounding):
        _advise_on_decimals(label, tolerance.atol, rounding)
    allowed = tolerance.for_printed(rounding)
    if allowed != tolerance:
        _note_wider_tolerance(label, allowed.atol)
    return allowed


def _is_finer_than_digits(tolerance: Tolerance, rounding: float) -> bool:
    """Return True if a tolerance allows smaller errors than printing made: 1e-6 for 0.5403.

    An error relative to the value, or in ULPs, may be larger than `atol`, so that nothing is known.
    """
    has_only_atol = not tolerance.rtol and not tolerance.max_ulp
    return has_only_atol and 0 < tolerance.atol < rounding


def _note_wider_tolerance(label: str, atol: float) -> None:
    """Print the note that printed numbers are compared within an absolute error that was not given."""
    bound = f"compared within {atol:.2g}, as exactly as they were printed"
    advice = MORE_DIGITS if atol > COARSE_ATOL else "--atol states another tolerance"
    note(f"{label}: numbers are {bound}; {advice}")


def _advise_on_decimals(label: str, atol: float, rounding: float) -> None:
    """Print the note that a tolerance is finer than printed numbers, and the decimals that it takes."""
    decimals = decimals_for(atol)
    problem = f"printing rounded numbers by up to {rounding:.1g}, more than --atol"
    note(f"{label}: {problem}; print {decimals} decimals (%.{decimals}f), or leave --atol out")


def decimals_for(atol: float) -> int:
    """Return how many decimals show errors of a size: 4 for 1e-3, and for 2e-3.

    The last decimal is rounded, before and after a rotation, which is up to 1.2 of its units.
    """
    return math.ceil(-math.log10(atol)) + 1
