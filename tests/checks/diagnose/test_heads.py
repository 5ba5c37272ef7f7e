"""ALiBi's heads in other orders and with others' slopes, and masks and distances that are one off."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pecli.engine.schemes.alibi import Alibi
from tests.checks.diagnose.conftest import Diagnosed
from tests.checks.diagnose.formulas import bias, paper_slopes

LENGTH = 40
QUERY, KEY = np.arange(LENGTH)[:, None], np.arange(LENGTH)[None]
SLOPES = paper_slopes(12)


def times(steps: Any, slopes: Any = SLOPES) -> Any:
    return (slopes[:, None, None] * steps).astype(np.float32)


@pytest.mark.parametrize(
    ("slopes", "words"),
    [
        (np.full(12, 0.5), "all heads have the slope of the first one"),
        (paper_slopes(16)[:12], "the slopes are the first 12 of those of 16 heads"),
        (
            np.concatenate([paper_slopes(8), paper_slopes(16)[1::2][:4]]),
            "the heads beyond 8 have the second, fourth, … slope of 16 heads, not the first, third, …",
        ),
        (
            SLOPES[[4, 11, 2, 0, 1, 3, 5, 7, 6, 9, 8, 10]],
            "the heads are in another order (head 0 is head 4, head 1 is head 11, head 2 is head 2 …)",
        ),
        (SLOPES[::-1], "the heads are in reverse order"),
    ],
    ids=["one", "of 16", "even ones", "shuffled", "reversed"],
)
def test_slopes_of_other_heads(diagnosed: Diagnosed, slopes: Any, words: str) -> None:
    text = diagnosed(Alibi(12, LENGTH), bias=bias(slopes, LENGTH).astype(np.float32))
    assert text.startswith(f"bias: matches if {words}; residual ")
    if np.ptp(slopes) == 0:  # which may as well be what memory held
        return
    text = diagnosed(Alibi(12, slopes=True), slopes=slopes.astype(np.float32))
    assert text.startswith(f"slopes: matches if {words}; residual ")


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (-np.abs(QUERY - KEY) - 1, "distances are counted from 1, not from 0"),
        (-np.abs(QUERY - KEY + 1), "every key is taken for the one earlier"),
        (-np.abs(QUERY - KEY - 1), "every key is taken for the one later"),
    ],
)
def test_distances_that_are_one_off(diagnosed: Diagnosed, steps: Any, words: str) -> None:
    text = diagnosed(Alibi(12, LENGTH), bias=times(steps))
    assert text.startswith(f"bias: matches if {words}; residual ")


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (KEY < QUERY, "the diagonal is masked, too"),
        (KEY >= QUERY, "the mask is below the diagonal, as if queries and keys were exchanged"),
    ],
)
def test_masks_elsewhere(diagnosed: Diagnosed, seen: Any, words: str) -> None:
    found = np.where(seen, times(-np.abs(QUERY - KEY)), -np.inf).astype(np.float32)
    text = diagnosed(Alibi(12, LENGTH, form="causal"), bias=found)
    assert text.startswith(f"bias: matches if {words}; residual ")
