"""Channels, or rows, in another order: which of one table is which of the other, by their content."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.checks.diff.values import distance
from pecli.engine.arrays import Indices
from pecli.engine.text import begun

if TYPE_CHECKING:
    from numpy.typing import NDArray


FEWEST = 8
"""Rows by which channels are told apart."""
SHOWN = 8
ANOTHER_ORDER = "s in another order"


def permutation(a: NDArray[Any], b: NDArray[Any], kind: str = "channel") -> tuple[str, float] | None:
    """The order of channels that makes the second table of the first, in words, and what it leaves; None if the
    tables do not lend themselves to it. Rows are the channels of transposed tables.
    """
    if a.shape != b.shape or a.ndim < 2 or a.shape[-1] < 2 or np.iscomplexobj(a):
        return None
    ours, theirs = a.reshape(-1, a.shape[-1]), b.reshape(-1, b.shape[-1])
    if len(ours) < FEWEST or not (np.isfinite(ours).all() and np.isfinite(theirs).all()):
        return None
    order = _partners(ours, theirs)
    if np.array_equal(order, np.arange(len(order))):
        return None
    return _words(order, kind), distance(ours[:, order], theirs)


def _partners(ours: NDArray[Any], theirs: NDArray[Any]) -> Indices:
    """For each channel of the second the one of the first; each is taken once. Channels are put in the order of a sum
    with weights that have no pattern, in which equal ones come together and others hardly ever do.
    """
    weights = np.sin(np.arange(1.0, len(ours) + 1) ** 2)
    first, second = (np.argsort(weights @ side, kind="stable") for side in (ours, theirs))
    order = np.empty(len(first), np.intp)
    order[second] = first
    return order


def _words(order: Indices, kind: str) -> str:
    width = len(order)
    if np.array_equal(order, np.arange(width)[::-1]):
        return f"{kind}s in reverse order"
    step = int(order[0])
    if np.array_equal(order, np.roll(np.arange(width), -step)):
        return f"{kind}s rolled by {step} ({kind} i of B is {kind} i + {step} of A)"
    some = begun([str(place) for place in order.tolist()], SHOWN)
    return f"{kind}{ANOTHER_ORDER} (those of B are {some} of A)"
