"""Right rows in wrong places: reversed, shuffled, repeated, or of a batch that is padded on the left."""

from __future__ import annotations

import numpy as np

from pecli.checks.diagnose.beside import Beside, beside
from pecli.checks.diagnose.precision import places
from pecli.checks.diagnose.sample import few
from pecli.engine.arrays import Indices
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import Table

_PAIRS = 1 << 24
"""Pairs of rows that are compared."""
_TOGETHER = 1 << 20
"""Of these, at once."""
_COLUMNS = 48
_FEWEST = 4
"""Rows, and columns, that tell rows apart."""
_EXCEPT = 3
"""Rows that may be elsewhere where all others are in their places."""


def misplaced(scheme: Scheme, name: str, table: Table) -> str:
    """Where the rows of a table are that should be elsewhere; nothing unless every row is one of the right ones."""
    if isinstance(scheme, Alibi) or name in ("inv_freq", "cos_sin"):
        return ""
    for each in beside(scheme, name, table):
        rows, right = len(each.raw), len(each.own)
        if min(rows, right, each.own.shape[1]) < _FEWEST or rows * right > _PAIRS or not np.isfinite(each.found).all():
            continue
        if not _told_apart(each):
            continue
        where = _places(each)
        words = "" if where is None else _words(where, right)
        if words:
            return words + each.layout
    return ""


def _close(each: Beside) -> float:
    """How near a row must be to the right one: rows of narrow dtypes are off by a rounding."""
    return each.height * (1e-3 if places(each.dtype) >= places("float32") else 8e-3)


def _told_apart(each: Beside) -> bool:
    """Whether no row is as near to the next one as a row that was found may be to its own."""
    return bool(np.abs(np.diff(each.own, axis=0)).max(axis=1).min() > 4 * _close(each))


def _places(each: Beside) -> Indices | None:
    """Which of the right rows each row is; None where one is none of them."""
    found, close = each.found, _close(each)
    columns = few(found.shape[1], _COLUMNS)
    ours = each.own[:, columns]
    size, step = (ours * ours).sum(axis=1), max(1, _TOGETHER // len(ours))
    some = (found[start : start + step, columns] for start in range(0, len(found), step))
    where = np.concatenate([np.argmin(size - 2 * (theirs @ ours.T), axis=1) for theirs in some])
    if np.abs(found - each.own[where]).max() > close:
        return None
    if len(found) == len(each.own):
        stays = np.abs(found - each.own).max(axis=1) <= close
        where = np.where(stays, np.arange(len(found)), where)
    return where


def _words(where: Indices, right: int) -> str:
    """What to say of rows by which right ones they are."""
    rows = np.arange(len(where))
    away = np.flatnonzero(where != rows)
    if not away.size:
        return ""
    if len(where) == right and (where == rows[::-1]).all():
        return "the rows are in reverse order: row 0 is the last one"
    if away.size <= min(_EXCEPT, len(where) // 4):
        listed = ", ".join(f"row {row} is row {where[row]}" for row in away)
        return f"all rows are in their places but {away.size}: {listed}"
    return _at_the_beginning(where) or _repeated(where) or _ordered(where, right)


def _at_the_beginning(where: Indices) -> str:
    """Some rows that are all the same, then all that follow: positions of a batch that is padded on the left."""
    count = int(np.argmax(where != where[0])) if (where != where[0]).any() else 0
    first = count - 1 if where[0] == 0 and where[count] == 1 else count
    on = np.arange(len(where) - first)
    if not first or (where[first:] != on).any():
        return ""
    before = "row 0 is" if first == 1 else f"rows 0 … {first - 1} are all"
    return (
        f"the rows come {first} late: {before} row {where[0]}, and row {first} is row 0, and so on, "
        "as in a batch that is padded on the left"
    )


def _repeated(where: Indices) -> str:
    times = int(np.argmax(where != where[0]))
    if times < 2 or (where != np.arange(len(where)) // times).any():
        return ""
    return f"every row is there {times} times: rows {times} … {2 * times - 1} are all row 1, and so on"


def _ordered(where: Indices, right: int) -> str:
    """Another order of all rows, by its name if it has one."""
    count, steps = len(where), np.diff(where)
    if len(np.unique(where)) < count:
        begins_right = (where[:_FEWEST] == np.arange(_FEWEST)).all()
        more = "the rows are in another order, and some are there more than once"
        return "" if begins_right else f"{more}: {_beginning(where)}"
    if count == right and (np.roll(np.arange(count), -int(where[0])) == where).all():
        return f"the rows are rolled: row 0 is row {where[0]}, and the first ones come last"
    if (where == np.arange(count) ^ 1).all():
        return "every two rows have changed places: row 0 is row 1, row 1 is row 0, and so on"
    step = int(steps[0])
    if where[0] == 0 and step > 1 and count == right and count % (across := -(-count // step)) == 0:
        if (where == np.arange(count).reshape(across, -1).T.reshape(-1)).all():
            step = count // across
        if count % step == 0 and (where == np.arange(count).reshape(-1, step).T.reshape(-1)).all():
            return f"the rows are those of a transposed grid: row 1 is row {step}, row 2 is row {2 * step}, and so on"
    if (steps < 0).all() or (steps > 0).all():
        return ""
    return f"the rows are in another order: {_beginning(where)}"


def _beginning(where: Indices) -> str:
    return ", ".join(f"row {row} is row {where[row]}" for row in range(3)) + " …"
