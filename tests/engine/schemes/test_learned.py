"""Learned tables before learning: the first weights by distribution and seed.

A weight is a uniform number from the generator Philox 4×64, put through the inverse distribution
function. Both are written again in tests/oracle.py: Philox in Python's integers (`share` below),
quantiles by Arb (python-flint).
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


def share(seed: int, element: int) -> Fraction:
    """The uniform number behind an element, from Philox in plain integers: 52 bits and a half."""
    word = philox(seed, element // 4 + 1)[element % 4]
    return Fraction(((word >> 12) + 0.5) * 2.0**-52)


@pytest.mark.parametrize("seed", [0, 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("init", ["normal", "trunc-normal", "uniform", "xavier-uniform"])
def test_weights_are_quantiles_of_philox_numbers(seed, init):
    """normal: std · Φ^-1(u); trunc-normal: the same between −2 and 2 std; uniform: ±√3 std;
    xavier-uniform: ±√(6 / (10 + 6)) by Glorot, whatever the std. The std is 0.02. u is Philox in
    plain integers, Φ^-1 Arb's.
    """
    true = []
    with ctx.workprec(150):
        cut = arb(2).sqrt().erfc() / 2
        for u in (share(seed, element) for element in range(60)):
            if init.endswith("uniform"):  # with that std, or with Glorot's bound, whatever the std
                value = rational(2 * u - 1) * (
                    arb(3).sqrt() if init == "uniform" else (arb(6) / 16).sqrt() / 0.02
                )
            elif init == "normal":
                value = normal_quantile(u)
            else:
                value = -arb(2).sqrt() * (2 * (cut + rational(u) * (1 - 2 * cut))).erfcinv()
            true.append(float(value * arb(0.02)))
    found = weights_of(10, 6, init=init, seed=seed, dtype="float64").ravel()

    np.testing.assert_allclose(found, true, rtol=2e-15, atol=1e-17)
    assert (
        ulps(weights_of(10, 6, init=init, seed=seed).ravel(), np.array(true, np.float32)).max() <= 1
    )


def test_a_row_far_down_is_made_without_the_rows_before_it():
    """Philox, the random generator, counts elements, so that row 2^40 − 1 needs no row before it. The
    expected weight is 0.02 times the normal quantile of its uniform number (`share`), by Arb.
    """
    (table,) = LearnedInit(2**40, 65536, seed=3, dtype="float64").tensors()
    row = 2**40 - 1
    true = float(normal_quantile(share(3, row * 65536 + 5)) * 0.02)

    assert table.read(row, row + 1)[0, 5] == pytest.approx(true, rel=1e-14)


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
        assert found.tolist() == [float(share(seed, k)) for k in range(start, start + 9)]
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
