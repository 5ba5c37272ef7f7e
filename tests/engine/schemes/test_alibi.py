"""ALiBi: slopes by the rule of the paper, and biases in four forms, correctly rounded in every
dtype.

The slopes of n heads are 2^(-8/n), 2^(-16/n), … if n is a power of two; for other n the paper takes
those of the next smaller power, and every other one of the next larger. The naive rule is 2^(-8h/n)
for any n. Powers and products are computed by Arb (python-flint) and rounded once.
"""

from fractions import Fraction

import numpy as np
import pytest
from flint import arb

from pecli.engine.schemes.alibi import Alibi
from tests.oracle import DTYPES, bits, digits_of, rational, rounded, settled

ALL_DTYPES = tuple(DTYPES)
FORMS = ("symmetric", "causal", "key", "key-last")


def paper_exponents(heads: int, max_bias: Fraction = Fraction(8)) -> list[Fraction]:
    """Return e for every head's slope 2^-e, by the rule of ALiBi's paper (its `get_slopes`).

    Of n = 4 heads and max_bias 8, e is 2, 4, 6, 8: multiples of max_bias / n. If n is no power of
    two, as 6, these are followed by every other one of 2·4 = 8 heads, 1 and 3.
    """
    power_of_two = 2 ** (heads.bit_length() - 1)  # the largest that is not above `heads`
    exponents = [max_bias / power_of_two * (h + 1) for h in range(power_of_two)]
    exponents_of_twice = [max_bias / (2 * power_of_two) * (h + 1) for h in range(2 * power_of_two)]
    return exponents + exponents_of_twice[0::2][: heads - power_of_two]


def naive_exponents(heads: int) -> list[Fraction]:
    """Return e for every head's slope 2^-e, by the rule 8(h + 1)/n for any number n of heads."""
    return [Fraction(8 * (h + 1), heads) for h in range(heads)]


def assert_slopes_are(heads: int, exponents: list[Fraction], **options) -> None:
    """Assert that slopes have the bits of 2^-e in every dtype; Arb computes the powers."""
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
    """A slope is 2^-e, with the exponents e of ALiBi's paper, or 8(h + 1)/n for head h of n by the
    naive rule. `assert_slopes_are` computes the powers in Arb's arbitrary precision, rounded once.
    """
    for heads in counts:
        assert_slopes_are(heads, paper_exponents(heads))
        assert_slopes_are(heads, naive_exponents(heads), rule="naive")


@pytest.mark.parametrize("heads", [1, 6, 12])
@pytest.mark.parametrize("max_bias", [1.0, 16.0, 0.3, 256.0])
def test_max_bias_replaces_the_8_in_the_exponents_of_slopes(heads, max_bias):
    """The slopes of n heads are 2^(-max_bias·(h + 1)/n) if n is a power of two. 6 heads have those of
    4 and every other one of 8, 12 heads those of 8 and every other one of 16 (`paper_exponents`). Arb
    computes the powers.
    """
    assert_slopes_are(heads, paper_exponents(heads, Fraction(max_bias)), max_bias=max_bias)


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


def distance(form: str, query: int, key: int, seq_len: int) -> int | None:
    """Return the factor of the slope in the bias of a key, None if the query must not see the key."""
    if form == "symmetric":
        return -abs(query - key)
    if form == "causal":
        return key - query if key <= query else None
    if form == "key":
        return key
    return key - (seq_len - 1)  # key-last


def bias_row(exponent: Fraction, distances: list[int | None], dtype: str) -> list[int]:
    """Return the bits of 2^-exponent · distance, by Arb and rounded once; of −inf for None."""
    minus_infinity = int(bits(np.array([-np.inf]).astype(DTYPES[dtype]))[0])
    products = rounded(
        lambda: [arb(2) ** rational(-exponent) * (factor or 0) for factor in distances], dtype
    )
    pairs = zip(distances, products.tolist(), strict=True)
    return [minus_infinity if factor is None else product for factor, product in pairs]


@pytest.mark.parametrize("dtype", ALL_DTYPES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("heads", "seq_len"), [(1, 1), (3, 1), (2, 2), (12, 17), (5, 9)])
@pytest.mark.sample(12)
def test_every_form_has_the_slopes_of_the_paper_times_distances(heads, seq_len, form, dtype):
    """For query i and key j the distance is −|i − j| if symmetric, j − i and −inf for later keys if
    causal; one row serves all queries, with distances j by key and j − (seq_len − 1) by key-last. Arb
    computes the products slope · distance, which are rounded once.
    """
    queries = [0] if form in ("key", "key-last") else range(seq_len)
    expected = [
        [
            bias_row(exponent, [distance(form, i, j, seq_len) for j in range(seq_len)], dtype)
            for i in queries
        ]
        for exponent in paper_exponents(heads)
    ]

    found = Alibi(heads, seq_len, form=form, dtype=dtype).tables()["bias"]
    np.testing.assert_array_equal(bits(found), expected)


@pytest.mark.parametrize("dtype", ALL_DTYPES)
@pytest.mark.parametrize("form", ["key", "key-last"])
@pytest.mark.parametrize(
    ("rule", "exponents_of"),
    [("paper", paper_exponents), ("naive", naive_exponents)],
    ids=["paper", "naive"],
)
@pytest.mark.parametrize("head", [9, 10])
def test_biases_of_large_distances_are_rounded_once_from_the_exact_product(
    head, rule, exponents_of, form, dtype
):
    """The last two of 11 heads have irrational slopes, 2^-1.5 for example. The bias of key j is the
    slope times j, or by key-last times j − 100,000, the distance from the last key. Arb computes the
    products for 300 random keys.
    """
    heads, seq_len = 11, 100_001
    keys = np.random.default_rng(3).integers(0, seq_len, 300)
    bias = Alibi(heads, seq_len, form=form, rule=rule, dtype=dtype).tensors()[0]
    (row_of_head,) = bias.read(head, head + 1)

    distances = [distance(form, 0, int(key), seq_len) for key in keys]
    expected = bias_row(exponents_of(heads)[head], distances, dtype)
    np.testing.assert_array_equal(bits(row_of_head[keys]), expected)
