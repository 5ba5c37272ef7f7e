"""Why tensors are not what they should be: a known mistake, a matter of rounding, or another table altogether."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pecli.checks.compare import Comparison
from pecli.checks.tolerance import Tolerance

if TYPE_CHECKING:
    from pecli.engine.schemes.scheme import Scheme
    from pecli.engine.table import Table

    Suspect = tuple[Scheme, str, Table]
    """A table that failed, with the scheme it was held against and its name there."""

FEW_UNITS = 4
"""Units of the last place that other programs' sines and powers lose, where all else is right."""


def reasons(suspects: Iterable[Suspect], results: Sequence[Comparison], tolerance: Tolerance) -> tuple[str, ...]:
    """Sentences about tensors that failed; none where nothing is known of them."""
    by_scheme: dict[Scheme, dict[str, Table]] = {}
    for scheme, name, table in suspects:
        by_scheme.setdefault(scheme, {}).setdefault(name, table)
    if not by_scheme:
        return ()
    from pecli.checks.diagnose import explain
    from pecli.checks.verify.identify_instead import another

    sentences = [each for scheme, found in by_scheme.items() for each in explain(scheme, found, tolerance)]
    if not sentences:
        failed = [result for result in results if not result.passed]
        sentences = _rounding(failed, by_scheme) or [
            each for held, found in by_scheme.items() for each in another(held, found)
        ]
    return tuple(dict.fromkeys(sentences))


def _rounding(failed: Sequence[Comparison], schemes: Iterable[Scheme]) -> list[str]:
    """Nothing but last places."""
    units = [result.max_ulp_error or 0 for result in failed if not result.problem]
    if len(units) < len(failed) or not units or not 0 < max(units) <= FEW_UNITS:
        return []
    allow = f"allow --max-ulp {max(units)}"
    if any(getattr(scheme, "recipe", "exact") != "exact" for scheme in schemes):
        return [f"the last place differs, as sines and powers of other libraries do; {allow}"]
    return [
        f"the last place differs, as where angles are computed in float32; {allow}, or verify with --recipe float32"
    ]
