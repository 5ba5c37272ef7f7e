"""Learned tables before learning: the first weights by distribution and seed.

A weight is a uniform number from the generator Philox 4×64, put through the inverse distribution
function. Both are written again: Philox in Python's integers (`philox` in tests/oracle.py and
`uniform_number` below), quantiles by Arb (python-flint).
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx

from pecli.engine.schemes import learned
from pecli.engine.schemes.learned import LearnedInit
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.errors import ParameterError
from tests.oracle import bits, normal_quantile, philox, rational, ulps


def weights_of(*args, **options) -> np.ndarray:
    return LearnedInit(*args, **options).tables()["weight"]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_weights_may_begin_as_zeros_or_as_the_sinusoidal_table(dtype):
    """With init="zeros", all bits are 0. With init="sinusoidal", the weights are the bytes of
    Sinusoidal's table, which test_sinusoidal.py checks against arbitrary precision.
    """
    assert not bits(weights_of(7, 5, init="zeros", dtype=dtype)).any()

    sinusoidal = Sinusoidal(7, 5, dtype=dtype).tables()["pe"]
    assert weights_of(7, 5, init="sinusoidal", dtype=dtype).tobytes() == sinusoidal.tobytes()


def uniform_number(seed: int, element: int) -> Fraction:
    """Return the random number between 0 and 1 behind an element of a table: (n + 1/2) / 2^52.

    Philox makes four words of 64 bits at a time, in blocks that are counted from 1: element 5 has the
    second word of block 2. n is the upper 52 bits of the word; the half keeps 0 from occurring.
    """
    words = philox(seed, counter=element // 4 + 1)
    upper_bits = words[element % 4] >> 12
    return Fraction(2 * upper_bits + 1, 2**53)


def normal_weight(u: Fraction) -> arb:
    """Return std · Φ^-1(u), where Φ is the distribution function of the normal distribution."""
    return normal_quantile(u) * arb(0.02)


def truncated_normal_weight(u: Fraction) -> arb:
    """Return std times the quantile of a normal distribution that is cut at −2 and 2.

    The share Φ(−2) = erfc(√2)/2 is cut off at each end, so that u is in the rest between.
    """
    cut_off = arb(2).sqrt().erfc() / 2
    share = cut_off + rational(u) * (1 - 2 * cut_off)
    quantile = -arb(2).sqrt() * (2 * share).erfcinv()
    return quantile * arb(0.02)


def uniform_weight(u: Fraction) -> arb:
    """Return u from −√3 · std to √3 · std: such numbers have the standard deviation std."""
    return rational(2 * u - 1) * arb(3).sqrt() * arb(0.02)


def xavier_uniform_weight(u: Fraction) -> arb:
    """Return u between ±√(6 / (rows + columns)), by Glorot and Bengio, of a table of 10 × 6."""
    return rational(2 * u - 1) * (arb(6) / (10 + 6)).sqrt()


@pytest.mark.parametrize("seed", [0, 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize(
    ("init", "quantile"),
    [
        ("normal", normal_weight),
        ("trunc-normal", truncated_normal_weight),
        ("uniform", uniform_weight),
        ("xavier-uniform", xavier_uniform_weight),
    ],
    ids=["normal", "trunc-normal", "uniform", "xavier-uniform"],
)
def test_weights_are_quantiles_of_philox_numbers(seed, init, quantile):
    """Element k of a table is a quantile of the k-th uniform number of its seed, of a distribution with
    std = 0.02. `uniform_number` and the four quantiles above are written in Python's integers and in
    Arb. A few roundings of float64 are off by 2e-15, and float32 by one ULP at most.
    """
    with ctx.workprec(150):
        expected = [float(quantile(uniform_number(seed, element))) for element in range(10 * 6)]

    in_float64 = weights_of(10, 6, init=init, std=0.02, seed=seed, dtype="float64").ravel()
    np.testing.assert_allclose(in_float64, expected, rtol=2e-15, atol=1e-17)

    in_float32 = weights_of(10, 6, init=init, std=0.02, seed=seed).ravel()
    assert ulps(in_float32, np.array(expected, np.float32)).max() <= 1


def test_a_row_far_down_is_made_without_the_rows_before_it():
    """The random generator Philox makes any element from its number: the last of 2^40 rows is made at
    once. Column 5 is std = 0.02 times the normal quantile of that element's `uniform_number`, by Arb.
    """
    (table,) = LearnedInit(2**40, 65536, std=0.02, seed=3, dtype="float64").tensors()
    last_row = 2**40 - 1
    (found,) = table.read(last_row, last_row + 1)

    element = last_row * 65536 + 5
    expected = float(normal_weight(uniform_number(seed=3, element=element)))
    assert found[5] == pytest.approx(expected, rel=2e-15)  # a few roundings


def test_seeds_of_all_64_bits_give_different_tables():
    """The seeds lie at the ends of 32 and 64 bits; a generator that cut them off would give some
    table twice.
    """
    seeds = [0, 1, 2, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**64 - 1]
    assert len({weights_of(8, 8, seed=seed).tobytes() for seed in seeds}) == len(seeds)


def test_a_longer_table_begins_with_the_shorter_one():
    """The drawn numbers of a row depend on the seed and the row only: the first 20 of 50 rows are
    those of a table of 20.
    """
    assert weights_of(50, 8, seed=1)[:20].tobytes() == weights_of(20, 8, seed=1).tobytes()


def test_tables_of_neighbouring_seeds_are_uncorrelated():
    """The correlation of n independent pairs has the standard deviation 1/√n; four are allowed."""
    a = weights_of(500, 64, seed=7, dtype="float64")
    b = weights_of(500, 64, seed=8, dtype="float64")
    assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 4 / math.sqrt(a.size)


@pytest.mark.parametrize("seed", [0, 1, 12345, 2**32, 2**63, 2**64 - 1])
@pytest.mark.sample(3)
def test_the_stream_of_uniform_numbers_is_that_of_philox(seed):
    """Philox 4×64 in plain integers, written again in the oracle, gives the same uniform numbers
    from any start; 0 and 1 do not occur, whose quantiles are infinite.
    """
    for start in (0, 1, 3, 4, 1001, 2**40 + 2, 2**56 - 9):
        found = learned.uniform(seed, start, 9)
        assert found.tolist() == [float(uniform_number(seed, k)) for k in range(start, start + 9)]
        assert 0 < found.min() < found.max() < 1


def quantile_grid() -> np.ndarray:
    """The middle, the places where the approximation changes, and both tails down to what 53 bits can hold."""
    tail = 2.0 ** -np.arange(2.0, 54.5, 0.25)
    seams = [0.075, 0.925, np.exp(-25.0), np.nextafter(0.075, 0), np.nextafter(0.925, 1)]
    return np.concatenate(
        [np.linspace(0.001, 0.999, 333), tail, 1 - tail[tail > 2.0**-50], seams, [0.5, 2.0**-54]]
    )


def test_normal_quantiles_are_off_by_less_than_1e_15():
    """`learned.normal` computes the quantile Φ^-1(u) of uniform numbers. Errors are relative to the
    quantile, or to 1e-3 near the middle; Arb computes the true ones, from both tails to the places
    where the approximation changes.
    """
    u = quantile_grid()
    with ctx.workprec(200):
        true = [normal_quantile(Fraction(float(x))) for x in u]
        errors = [
            float(abs(arb(float(x)) - t).upper())
            for x, t in zip(learned.normal(u), true, strict=True)
        ]

    assert max(e / max(abs(float(t)), 1e-3) for e, t in zip(errors, true, strict=True)) <= 1e-15


def test_a_normal_quantile_does_not_depend_on_those_computed_with_it():
    """Each is computed alone, and all in one array, in which NumPy may use other instructions."""
    u = quantile_grid()
    alone = [learned.normal(u[k : k + 1]).item() for k in range(len(u))]

    assert alone == learned.normal(u).tolist()


def test_logarithms_for_normal_quantiles_are_within_two_units_of_float64():
    """`learned.log` is the same on every machine, unlike NumPy's. Arb computes the true logarithms; a
    unit is the distance to the next float64 number.
    """
    x = np.concatenate(
        [np.linspace(0.001, 4, 1000), 2.0 ** -np.arange(1, 60), np.sqrt(0.5) + np.array([0, 2e-16])]
    )
    with ctx.workprec(150):
        for value, found in zip(x, learned.log(x), strict=True):
            true = rational(float(value)).log()
            limit = max(1e-16, 2 * np.spacing(abs(float(true))))
            assert float(abs(arb(float(found)) - true).upper()) <= limit


def test_a_spec_that_names_the_generator_is_read():
    """Files of earlier versions have rng: pecli, the only generator that there is today."""
    spec = LearnedInit(4, 8, seed=3).spec()
    older = {**spec, "parameters": {**spec["parameters"], "rng": "pecli"}}

    assert Scheme.from_spec(older) == LearnedInit(4, 8, seed=3)


def test_a_spec_of_the_generator_of_torch_is_refused():
    """Earlier versions had rng: torch; without that generator its numbers cannot be made."""
    spec = LearnedInit(4, 8, seed=3).spec()
    older = {**spec, "parameters": {**spec["parameters"], "rng": "torch"}}

    with pytest.raises(ParameterError, match="rng"):
        Scheme.from_spec(older)
