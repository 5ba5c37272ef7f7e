"""Numbers that were printed as text: how closely they can be compared."""

from pecli.compare.tolerance import Tolerance
from pecli.notes import note


def printed_tolerance(label: str, tolerance: Tolerance, rounding: float) -> Tolerance:
    """Return the tolerance for printed numbers, and note it if it is not the one that was given.

    Args:
        label: The file, as it was given.
        tolerance: The tolerance that was given.
        rounding: The largest error that printing made; 0 if the numbers have all their digits.
    """
    allowed = tolerance.for_printed(rounding)
    if allowed != tolerance:
        bound = f"compared within {allowed.atol:.2g}, as exactly as they were printed"
        note(f"{label}: numbers are {bound}; --atol states another tolerance")
    return allowed
