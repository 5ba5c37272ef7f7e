"""diff(A, B) and diff(B, A) have the same verdict and count the same elements.

Random pairs (random_pairs.py) have any dtypes and shapes, masks, infinities and NaN; the order is
exchanged, so no expected number is needed.
"""

import numpy as np
import pytest

import pecli
from pecli.checks.diff import Difference
from tests.checks.random_pairs import Pair, random_pair, random_pairs
from tests.checks.waves import cos_and_sin_tables, inverse_frequencies


def verdict_of(pair: Pair, *, backwards: bool) -> Difference | str:
    """Return the answer in one order, or the kind of the error."""
    a, b = (pair.b, pair.a) if backwards else (pair.a, pair.b)
    try:
        return pecli.diff(a, b, reasons=False, **pair.tolerance)
    except pecli.PecliError as error:
        return type(error).__name__


def disagreements(seeds: range) -> list[int]:
    """Return the seeds of pairs whose verdict or counts depend on the order."""
    seeds_found = []
    for seed, pair in random_pairs(seeds):
        forwards = verdict_of(pair, backwards=False)
        backwards = verdict_of(pair, backwards=True)
        if isinstance(forwards, str) or isinstance(backwards, str):
            agree = forwards == backwards
        else:
            counts = [tensor.mismatched for tensor in forwards.tensors]
            agree = forwards.passed == backwards.passed
            agree = agree and counts == [tensor.mismatched for tensor in backwards.tensors]
        if not agree:
            seeds_found.append(seed)
    return seeds_found


def test_random_pairs_agree_in_both_orders() -> None:
    """50 pairs; an error must be of the same kind in both orders."""
    assert disagreements(range(50)) == []


@pytest.mark.thorough
@pytest.mark.parametrize("first", range(0, 10_000, 1000))
def test_many_random_pairs_agree_in_both_orders(first: int) -> None:
    """1000 pairs each; an error must be of the same kind in both orders."""
    assert disagreements(range(first, first + 1000)) == []


def test_a_sixth_of_random_pairs_at_least_pass_and_a_sixth_fail() -> None:
    """The property says little about pairs that all differ."""
    passed = [bool(verdict_of(random_pair(seed), backwards=False)) for seed in range(60)]
    assert 10 < sum(passed) < 50


def test_frequencies_with_other_imaginary_parts_differ() -> None:
    """f + i against f − i, in complex128 and complex64: the real parts are equal."""
    frequencies = inverse_frequencies(1e4, 32)
    a = {"inv_freq": frequencies + 1j}
    b = {"inv_freq": (frequencies - 1j).astype(np.complex64)}

    assert not pecli.diff(a, b, max_ulp=4, reasons=False).passed


@pytest.mark.parametrize("atol", [None, 1e-3])
def test_reasons_do_not_change_the_verdict(atol: float | None) -> None:
    """Base 10000 against 500000, in both orders, with and without a search for reasons."""
    right = cos_and_sin_tables(12, inverse_frequencies(1e4, 16))
    other = cos_and_sin_tables(12, inverse_frequencies(5e5, 16))

    for a, b in ((right, other), (other, right)):
        assert not pecli.diff(a, b, atol=atol).passed
        assert not pecli.diff(a, b, atol=atol, reasons=False).passed
