"""Why tensors are not what they should be: the explanations of those that failed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pecli.checks.compare import Comparison
from pecli.checks.tolerance import Tolerance
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import Table
from pecli.explain.edits import ColumnsWrong, Recipe, RowsWrong
from pecli.explain.words import command_of, sentence

if TYPE_CHECKING:
    from pecli.explain.edits import Explanation

Suspect = tuple[Scheme, str, Table]
"""A table that failed, with the scheme it was compared with and its name there."""
_IN_PART = (RowsWrong, ColumnsWrong)
FEW_UNITS = 4
"""Units of the last place that other programs' sines and powers lose, where all else is right."""


def explanations(suspects: Iterable[Suspect], tolerance: Tolerance) -> tuple[Explanation, ...]:
    """The reasons of all that failed, scheme by scheme."""
    by_scheme: dict[Scheme, dict[str, Table]] = {}
    for scheme, name, table in suspects:
        by_scheme.setdefault(scheme, {}).setdefault(name, table)
    if not by_scheme:
        return ()
    from pecli.explain.search import explain, merged

    every = [each for scheme, found in by_scheme.items() for each in explain(scheme, found, tolerance.atol)]
    return tuple(merged(every))


def diagnosis(
    found: Sequence[Explanation], results: Sequence[Comparison], schemes: Iterable[Scheme]
) -> tuple[str, ...]:
    """Explanations in sentences, each with the command that makes such a table; without any, what rounding says."""
    lines: list[str] = []
    for each in found:
        lines.append(sentence(each))
        lines += [f"verify with --recipe {edit.found}" for edit in each.edits if isinstance(edit, Recipe)]
        if each.scheme is not None and any(not isinstance(edit, _IN_PART) for edit in each.mistakes):
            lines.append(f"reproduce with {command_of(each.scheme, output=False)}")
    return tuple(dict.fromkeys(lines)) if lines else tuple(_rounding(results, schemes))


def _rounding(results: Sequence[Comparison], schemes: Iterable[Scheme]) -> list[str]:
    """Nothing but last places."""
    failed = [result for result in results if not result.passed]
    units = [result.max_ulp_error or 0 for result in failed if not result.problem]
    if len(units) < len(failed) or not units or not 0 < max(units) <= FEW_UNITS:
        return []
    allow = f"allow --max-ulp {max(units)}"
    if any(getattr(scheme, "recipe", "exact") != "exact" for scheme in schemes):
        return [f"the last place differs, as sines and powers of other libraries do; {allow}"]
    return [
        f"the last place differs, as where angles are computed in float32; {allow}, or verify with --recipe float32"
    ]
