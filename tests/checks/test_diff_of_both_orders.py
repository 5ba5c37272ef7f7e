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


def seeds_of_disagreeing_pairs(seeds: range) -> list[int]:
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


def test_diff_of_random_pairs_has_one_verdict_and_count_in_both_orders() -> None:
    """For each of 50 seeds, `random_pair` draws an array and a changed copy of it (noise,
    transposed, masked, another dtype, NaN, …) and a tolerance. diff(a, b) and diff(b, a) must both
    pass or both fail, with the same number of mismatched elements per tensor; if one raises a
    PecliError, the other must raise one of the same class.
    """
    assert seeds_of_disagreeing_pairs(range(50)) == []


@pytest.mark.parametrize(("coarse", "fine"), [("float32", "float64"), ("complex64", "complex128")])
def test_numbers_that_one_file_has_more_precisely_differ_in_both_orders(
    coarse: str, fine: str
) -> None:
    """0.1 is no number of float32: the nearest one is off by 1.5e-9, and the file with 53 bits shows that
    whichever file comes first. No error is allowed.
    """
    a = {"pe": np.full((6, 6), 0.1, coarse)}
    b = {"pe": np.full((6, 6), 0.1, fine)}
    first = pecli.diff(a, b, reasons=False).tensors[0]
    second = pecli.diff(b, a, reasons=False).tensors[0]
    assert first.mismatched == 36
    assert second.mismatched == 36


@pytest.mark.thorough
@pytest.mark.parametrize("first", range(0, 10_000, 1000))
def test_diff_of_many_random_pairs_has_one_verdict_and_count_in_both_orders(first: int) -> None:
    """For each of 1000 seeds from `first` on, `random_pair` draws an array and a changed copy of it
    (noise, transposed, masked, another dtype, NaN, …) and a tolerance. diff(a, b) and diff(b, a)
    must both pass or both fail, with the same number of mismatched elements per tensor; if one
    raises a PecliError, the other must raise one of the same class.
    """
    assert seeds_of_disagreeing_pairs(range(first, first + 1000)) == []


def test_random_pairs_are_neither_nearly_all_equal_nor_nearly_all_different() -> None:
    """Of the 60 pairs that seeds 0 to 59 draw, more than 10 pass `diff` and more than 10 differ. The
    tests above, in which both orders must agree, would prove little if all pairs differed, or none
    did.
    """
    verdicts = [verdict_of(random_pair(seed), backwards=False) for seed in range(60)]
    differences = [verdict for verdict in verdicts if isinstance(verdict, Difference)]
    passed = sum(difference.passed for difference in differences)

    assert passed > 10
    assert len(differences) - passed > 10


def test_frequencies_with_other_imaginary_parts_differ() -> None:
    """A has f + i in complex128, B has f − i in complex64, for the frequencies f: only the real
    parts are equal.
    """
    frequencies = inverse_frequencies(base=1e4, dim=32)
    a = {"inv_freq": frequencies + 1j}
    b = {"inv_freq": (frequencies - 1j).astype(np.complex64)}

    assert not pecli.diff(a, b, max_ulp=4, reasons=False).passed


@pytest.mark.parametrize("atol", [None, 1e-3])
def test_searching_for_reasons_does_not_change_the_verdict_in_either_order(
    atol: float | None,
) -> None:
    """Tables of base 10000 and of base 500000 differ in either order, whether `diff` searches for
    the reason or not.
    """
    base_10000 = cos_and_sin_tables(12, inverse_frequencies(1e4, 16))
    base_500000 = cos_and_sin_tables(12, inverse_frequencies(5e5, 16))

    for a, b in ((base_10000, base_500000), (base_500000, base_10000)):
        assert not pecli.diff(a, b, atol=atol, reasons=True).passed
        assert not pecli.diff(a, b, atol=atol, reasons=False).passed
