"""ALiBi: slopes by the rule of the paper, and biases in four forms, correctly rounded in every
dtype.

The slopes of n heads are 2^(-8/n), 2^(-16/n), … if n is a power of two; for other n the paper's
code (get_slopes, written again in tests/oracle.py as exact exponents) takes those of the next
smaller power, and every other one of the next larger. The naive rule is 2^(-8h/n) for any n. Powers
and products are computed by Arb (python-flint) and rounded once.
"""

from fractions import Fraction

import numpy as np
import pytest
from flint import arb

from pecli.engine.schemes.alibi import Alibi
from tests.oracle import DTYPES, bits, digits_of, get_slopes, rational, rounded, settled

ALL_DTYPES = tuple(DTYPES)
FORMS = ("symmetric", "causal", "key", "key-last")


def assert_slopes_are(heads: int, exponents: list[Fraction], **options) -> None:
    """In every dtype, from digits that are computed once."""
    digits = settled(lambda: digits_of([arb(2) ** rational(-exponent) for exponent in exponents]))
    for dtype in ALL_DTYPES:
        np.testing.assert_array_equal(
            bits(slopes(heads, dtype=dtype, **options)), digits.round(dtype)
        )


def slopes(heads: int, **options) -> np.ndarray:
    return Alibi(heads, **options).tables()["slopes"]


@pytest.mark.parametrize(
    "counts", [[*range(1, 34), 64, 71, 255], range(34, 257)], ids=["some", "all"]
)
@pytest.mark.sample("some")
def test_slopes_of_every_head_count_are_correctly_rounded(counts):
    """`get_slopes` returns the exponents e of the slopes 2^−e by the code of ALiBi's paper; by the naive
    rule e is 8(h + 1)/n for head h of n. `assert_slopes_are` computes the powers in Arb's arbitrary
    precision, rounded once.
    """
    for heads in counts:
        assert_slopes_are(heads, get_slopes(heads))
        assert_slopes_are(heads, [Fraction(8 * (h + 1), heads) for h in range(heads)], rule="naive")


@pytest.mark.parametrize("heads", [1, 6, 12])
@pytest.mark.parametrize("max_bias", [1.0, 16.0, 0.3, 256.0])
def test_slopes_of_another_maximum_are_powers_of_that(heads, max_bias):
    """max_bias replaces the 8 in the paper's slopes 2^(-8h/n). `get_slopes` has the exponents, and Arb
    computes the powers in arbitrary precision.
    """
    assert_slopes_are(heads, get_slopes(heads, Fraction(max_bias)), max_bias=max_bias)


def test_slopes_of_8_heads_are_the_published_powers_of_a_half():
    """ALiBi's paper: the slopes of 8 heads are 1/2, 1/4, …, 1/256."""
    assert slopes(8, dtype="float64").tolist() == [2.0**-k for k in range(1, 9)]


def test_slopes_of_6_heads_are_those_of_4_and_the_first_and_third_of_8():
    """The paper's rule: 2^(-2h) for the 4 heads of the next smaller power, then 2^-1 and 2^-3."""
    assert slopes(6, dtype="float64").tolist() == [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125]


def test_the_last_slopes_of_12_heads_are_every_other_one_of_16():
    """The paper's rule: 16 heads have 2^(-h/2), of which the 1st, 3rd, 5th and 7th follow."""
    last = [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5]
    assert slopes(12, dtype="float64")[8:].tolist() == pytest.approx(last, abs=6e-17)


def brute_force(form: str, exponents: list[Fraction], seq_len: int, dtype: str) -> np.ndarray:
    """Bits of the bias, element by element; −inf where a query looks ahead."""
    queries = range(1 if form.startswith("key") else seq_len)
    multiple = {
        "symmetric": lambda i, j: -abs(i - j),
        "causal": lambda i, j: j - i if j <= i else None,
        "key": lambda i, j: j,
        "key-last": lambda i, j: j - (seq_len - 1),
    }[form]
    infinity = int(bits(np.array([-np.inf]).astype(DTYPES[dtype]))[0])
    out = []
    for exponent in exponents:
        wanted = [multiple(i, j) for i in queries for j in range(seq_len)]
        found = rounded(
            lambda e=exponent, w=wanted: [arb(2) ** rational(-e) * (m or 0) for m in w], dtype
        )
        out.append([infinity if m is None else int(b) for m, b in zip(wanted, found, strict=True)])
    return np.array(out, found.dtype).reshape(len(exponents), len(queries), seq_len)


@pytest.mark.parametrize("dtype", ALL_DTYPES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("heads", "seq_len"), [(1, 1), (3, 1), (2, 2), (12, 17), (5, 9)])
@pytest.mark.sample(12)
def test_every_form_has_the_slopes_of_the_paper_times_distances(heads, seq_len, form, dtype):
    """For query i and key j the distance is −|i − j| if symmetric, j − i and −inf for later keys if
    causal, j in one row for all queries by key, and j − (n − 1) by key-last. Arb computes the
    products, which are rounded once.
    """
    found = Alibi(heads, seq_len, form=form, dtype=dtype).tables()["bias"]
    np.testing.assert_array_equal(bits(found), brute_force(form, get_slopes(heads), seq_len, dtype))


@pytest.mark.parametrize("dtype", ALL_DTYPES)
@pytest.mark.parametrize("form", ["key", "key-last"])
@pytest.mark.parametrize("rule", ["paper", "naive"])
def test_biases_of_large_distances_are_rounded_once_from_the_exact_product(form, rule, dtype):
    """Heads 9 and 10 of 11 have slopes that are no powers of two, and distances go to 100,000; Arb
    computes the products.
    """
    seq_len, heads = 100_001, 11
    table = Alibi(heads, seq_len, form=form, rule=rule, dtype=dtype).tensors()[0]
    exponents = (
        get_slopes(heads)
        if rule == "paper"
        else [Fraction(8 * (h + 1), heads) for h in range(heads)]
    )
    keys = np.random.default_rng(3).integers(0, seq_len, 300)
    for head in (9, 10):
        found = table.read(head, head + 1)[0][keys]
        distances = [int(key) - (seq_len - 1 if form == "key-last" else 0) for key in keys]
        true = rounded(
            lambda e=exponents[head], d=distances: [arb(2) ** rational(-e) * k for k in d], dtype
        )
        np.testing.assert_array_equal(bits(found), true)
