"""What a pass proves: known mistakes of a scheme that the same data and tolerance would have let pass, too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pecli.checks.tolerance import Tolerance, is_relative
from pecli.checks.verify.explain_failures import Suspect
from pecli.engine.arrays import Floats
from pecli.engine.numerics.rounding import widened
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import Table
from pecli.errors import PecliError
from pecli.explain.sample import chosen
from pecli.explain.words import said

LONGER = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
"""Times as many rows, that are tried until a mistake shows."""
MAX_ROWS = 1 << 20


def weak_checks(passed: Sequence[Suspect], tolerance: Tolerance) -> tuple[str, ...]:
    """A sentence for each known mistake that would have passed: «2 rows cannot tell …: compare 4,000 or more»."""
    by_scheme: dict[Scheme, list[str]] = {}
    for scheme, name, _ in passed:
        by_scheme.setdefault(scheme, []).append(name)
    return tuple(dict.fromkeys(line for scheme, names in by_scheme.items() for line in _weak(scheme, names, tolerance)))


def _weak(scheme: Scheme, names: Sequence[str], tolerance: Tolerance) -> Iterator[str]:
    if scheme.holds_several:
        return
    tables = {table.name: table for table in (scheme.single_array(), *scheme.tensors())}
    looked = [name for name in names if name in tables]
    if not looked:
        return
    for neighbour in scheme.neighbours():
        others = {table.name: table for table in (neighbour.scheme.single_array(), *neighbour.scheme.tensors())}
        if any(_differs(tables[name], others.get(name), tolerance) for name in looked):
            continue
        words = " and ".join(_words(edit) for edit in neighbour.edits)
        enough = _enough(scheme, neighbour.scheme, looked, tolerance)
        if enough == 0:  # no number of rows shows it: it is no mistake at all
            continue
        count = next((tables[name].shape[-2] for name in looked if len(tables[name].shape) > 1), 0)
        rows = f"{count:,} row{'s' if count != 1 else ''}" if count else ", ".join(looked)
        advice = f": compare {enough:,} or more" if enough else ""
        yield f"{rows} cannot tell {words}{advice}"


def _words(edit: Mapping[str, Any]) -> str:
    """«llama3 scaling from none», «base 500000 from 10000»."""
    name, expected, found = edit.get("name", edit["edit"]), said(edit.get("expected")), said(edit.get("found"))
    return f"{expected} scaling from {found}" if name == "scaling" else f"{name} {expected} from {found}"


def _differs(one: Table, other: Table | None, tolerance: Tolerance) -> bool:
    """Whether some element of two tables is further apart than the tolerance lets pass."""
    if other is None or one.shape != other.shape:
        return True
    ours, theirs = _rows(one), _rows(other)
    with np.errstate(all="ignore"):
        allowed = tolerance.rtol * np.abs(ours) + (0.0 if is_relative(one.name) else tolerance.atol)
        allowed = np.maximum(
            allowed, tolerance.max_ulp * np.spacing(np.abs(ours).astype(np.float32)).astype(np.float64)
        )
        return bool((np.abs(ours - theirs) > allowed).any() or (np.isfinite(ours) != np.isfinite(theirs)).any())


def _rows(table: Table) -> Floats:
    if len(table.shape) < 2:
        return widened(table.array())
    return widened(table.pick(np.unique(np.r_[chosen(table.rows, table.width), table.rows - 1])))


def _enough(scheme: Scheme, other: Scheme, names: Sequence[str], tolerance: Tolerance) -> int | None:
    """How many rows would show a mistake; None where that is not known, 0 where none would."""
    length = getattr(scheme, "seq_len", None)
    if not isinstance(length, int) or "seq_len" not in scheme.parameters():
        return None
    for times in LONGER:
        if length * times > MAX_ROWS:
            return None
        try:
            changes: dict[str, Any] = {"seq_len": length * times}
            longer = [replace(each, **changes) for each in (scheme, other)]
            tables = [{table.name: table for table in (each.single_array(), *each.tensors())} for each in longer]
        except PecliError:
            return None
        if any(_differs(tables[0][name], tables[1].get(name), tolerance) for name in names if name in tables[0]):
            return length * times
    return 0
