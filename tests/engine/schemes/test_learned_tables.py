"""Random numbers, against plain-integer generators and the true distribution functions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx

from pecli.engine.schemes import learned_tables
from tests.oracle import normal_quantile, philox, rational

PHI_2 = "0.0227501319481792072002826371714"


def words(seed: int, start: int, count: int) -> list[int]:
    """The 64-bit draws of a Philox stream; NumPy counts from one."""
    return [philox(seed, k // 4 + 1)[k % 4] for k in range(start, start + count)]


def test_philox_known_answers():
    """From the kat_vectors file of Random123, for philox4x64-10: this checks the oracle itself."""
    assert philox(0, 0) == [0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B]
    ones = (1 << 256) - 1
    assert philox((1 << 128) - 1, ones) == [
        0x87B092C3013FE90B,
        0x438C3C67BE8D0224,
        0x9CC7D7C69CD777B6,
        0xA09CAEBF594F0BA0,
    ]


@pytest.mark.parametrize("seed", [0, 1, 12345, 2**32, 2**63, 2**64 - 1])
@pytest.mark.parametrize("start", [0, 1, 3, 4, 1001, 2**40 + 2, 2**56 - 9])
def test_uniform_is_philox(seed, start):
    expected = [(word >> 12) / 2**52 + 2.0**-53 for word in words(seed, start, 9)]
    found = learned_tables.uniform(seed, start, 9)
    assert found.tolist() == [float(value) for value in expected]
    assert found.min() > 0
    assert found.max() < 1


def test_truncated_stays_between_the_cuts():
    ends = learned_tables.truncated(np.array([0.0, 0.5, 1.0]))
    ctx_bits, ctx.prec = ctx.prec, 100
    assert ends[0] == pytest.approx(float(arb(PHI_2)), rel=1e-16)
    ctx.prec = ctx_bits
    assert ends[1] == 0.5
    assert ends[2] == pytest.approx(1 - float(arb(PHI_2)), rel=1e-16)


def quantile_grid() -> np.ndarray:
    """The middle, the places where the approximation changes, and both tails down to what 53 bits can hold."""
    tail = 2.0 ** -np.arange(2.0, 54.5, 0.25)
    seams = [0.075, 0.925, np.exp(-25.0), np.nextafter(0.075, 0), np.nextafter(0.925, 1)]
    return np.concatenate([np.linspace(0.001, 0.999, 999), tail, 1 - tail[tail > 2.0**-50], seams, [0.5, 2.0**-54]])


def test_normal_is_the_inverse_distribution_function():
    u = quantile_grid()
    before, ctx.prec = ctx.prec, 200
    true = [normal_quantile(Fraction(float(x))) for x in u]
    errors = [float(abs(arb(float(x)) - t).upper()) for x, t in zip(learned_tables.normal(u), true, strict=True)]
    ctx.prec = before
    assert max(e / max(abs(float(t)), 1e-3) for e, t in zip(errors, true, strict=True)) <= 1e-15


def test_normal_is_odd_and_increasing():
    u = np.sort(quantile_grid())
    assert (np.diff(learned_tables.normal(np.linspace(0.0005, 0.9995, 5000))) > 0).all()
    coarse = u[(u > 2.0**-20) & (u < 1 - 2.0**-20)]
    coarse = np.rint(coarse * 2**30) / 2**30  # so that 1 − u is exact
    assert learned_tables.normal(coarse).tolist() == (-learned_tables.normal(1 - coarse)).tolist()


def test_log():
    x = np.concatenate(
        [np.linspace(0.001, 4, 4000), 2.0 ** -np.arange(1, 60), [0.7071067811865475, 0.7071067811865477]]
    )
    before, ctx.prec = ctx.prec, 150
    for value, found in zip(x, learned_tables.log(x), strict=True):
        true = rational(float(value)).log()
        limit = max(1e-16, 2 * np.spacing(abs(float(true))))
        assert float(abs(arb(float(found)) - true).upper()) <= limit
    ctx.prec = before


def test_cos_sin_are_good_to_float32():
    angle = np.linspace(0, 2 * np.pi, 4001)
    cosine, sine = learned_tables.cos_sin(angle)
    before, ctx.prec = ctx.prec, 120
    for x, c, s in zip(angle, cosine, sine, strict=True):
        true_sine, true_cosine = arb(float(x)).sin_cos()
        assert float(abs(arb(float(c)) - true_cosine).upper()) <= 1e-15
        assert float(abs(arb(float(s)) - true_sine).upper()) <= 1e-15
    ctx.prec = before


def mersenne(seed: int, count: int) -> list[int]:
    """MT19937 with Knuth's initialisation, in plain integers (Matsumoto & Nishimura, 1998)."""
    state = [seed & 0xFFFFFFFF]
    for k in range(1, 624):
        state.append((1812433253 * (state[-1] ^ state[-1] >> 30) + k) & 0xFFFFFFFF)
    out = []
    for k in range(count):
        if k % 624 == 0:
            for j in range(624):
                y = state[j] & 0x80000000 | state[(j + 1) % 624] & 0x7FFFFFFF
                state[j] = state[(j + 397) % 624] ^ y >> 1 ^ (0x9908B0DF if y & 1 else 0)
        y = state[k % 624]
        y ^= y >> 11
        y ^= y << 7 & 0x9D2C5680
        y ^= y << 15 & 0xEFC60000
        out.append(y ^ y >> 18)
    return out


@pytest.mark.parametrize("seed", [0, 1, 5489, 2**32 - 1, 2**32 + 5, 2**64 - 1])
def test_mersenne(seed):
    draws = learned_tables.Mersenne(seed)
    assert draws.draw(700).tolist() + draws.draw(3).tolist() == mersenne(seed, 703)


def test_mersenne_known_answer():
    """The 10,000th output for the default seed 5489, from the C++ standard: this checks the oracle itself."""
    assert mersenne(5489, 10000)[-1] == 4123659995


def test_uniform_floats_have_24_bits():
    found = learned_tables.Mersenne(3).uniform(100)
    assert found.dtype == np.float32
    assert found.tolist() == [(x & 0xFFFFFF) / 2**24 for x in mersenne(3, 100)]
