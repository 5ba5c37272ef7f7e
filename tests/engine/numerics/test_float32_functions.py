"""Functions below the recipes: cosines and sines in float64 and in 106 bits, and correctly rounded
float32 functions.

A recipe computes a table as some project does, in float32 for example; it needs sin, cos, powers
and logarithms that are the same on every machine. Expected values are those of Arb (python-flint),
rounded once by tests/oracle.py, closed forms, or PyTorch's own powers in torch_powers.npz, which
make_data.py wrote.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from flint import arb, ctx

from pecli.engine.numerics import DoubleDouble, float32_waves, geometric, phases
from pecli.engine.numerics.float32_functions import (
    log_single,
    power,
    round_single,
    torch_powers,
)
from pecli.engine.schemes.sinusoidal import Sinusoidal
from tests import oracle
from tests.oracle import bits, rational, rounded

POSITIONS = [1, 2, 3, 255, 65535, 10**6, 2**32 - 1, 2**32, 2**32 + 1, 2**39 + 12345, 2**40 - 1]
BASES = [2.0, 100.0, 10000.0, 500000.0, 1e20, 1e300, 0.5, 1.0]


class FarAngles(NamedTuple):
    """Angles position · base^(-index/16), one per element of the arrays."""

    frequency_digits: np.ndarray  #: In turns per position, digits of 32 bits: (digits, angles).
    indices: np.ndarray
    positions: np.ndarray


def far_angles(base: float) -> FarAngles:
    """Return the angles of 16 frequencies at all POSITIONS."""
    waves = phases.ExactWaves.from_frequencies(geometric(base, oracle.Fraction(16), 16))
    indices, positions = (
        grid.ravel() for grid in np.meshgrid(np.arange(16), np.array(POSITIONS, np.uint64))
    )
    return FarAngles(waves.digits[:, indices], indices, positions)


class LargestErrors(NamedTuple):
    """The largest errors of some cosines and sines."""

    absolute: float
    relative: float


def largest_errors(
    base: float, angles: FarAngles, cosines: DoubleDouble, sines: DoubleDouble
) -> LargestErrors:
    """Return the largest errors of cosines and sines against Arb's values with 1,500 bits."""
    absolute, relative = 0.0, 0.0
    places = zip(angles.indices.tolist(), angles.positions.tolist(), strict=True)
    with ctx.workprec(1500):
        for k, (index, position) in enumerate(places):
            true_sine, true_cosine = (arb(base) ** (arb(-index) / 16) * position).sin_cos()
            for found, true in ((sines, true_sine), (cosines, true_cosine)):
                error = abs(arb(float(found.hi[k])) + arb(float(found.lo[k])) - true)
                absolute = max(absolute, float(error.upper()))
                relative = max(relative, float((error / abs(true)).upper()))
    return LargestErrors(absolute, relative)


def errors_in_float64(base: float) -> LargestErrors:
    """Return the errors of the package's cosines and sines in float64, at POSITIONS."""
    angles = far_angles(base)
    cosines, sines = phases.cos_sin(angles.frequency_digits, angles.positions)
    return largest_errors(base, angles, DoubleDouble.plain(cosines), DoubleDouble.plain(sines))


@pytest.mark.parametrize("base", BASES)
def test_cosines_and_sines_in_float64_are_off_by_little_more_than_one_rounding(base):
    """Rounding a number below 1 to float64 is off by at most 0.5 · 2^-53; 0.1 · 2^-53 more is allowed
    for what comes before. Arb computes the true values, at positions up to 2^40.
    """
    assert errors_in_float64(base).absolute <= (0.5 + 0.1) * 2.0**-53


@pytest.mark.parametrize("base", BASES)
def test_small_cosines_and_sines_in_float64_keep_51_bits(base):
    """An analysis of the rounding errors gives at most 2^-51.5 of a value, however small it is. The
    package relies on FLOAT64_ERROR = 2^-50 where it looks for roundings in doubt. Arb computes the
    true values, at positions up to 2^40.
    """
    assert errors_in_float64(base).relative <= phases.FLOAT64_ERROR / 2**1.5


@pytest.mark.parametrize("base", BASES)
def test_small_cosines_and_sines_in_two_floats_keep_98_bits(base):
    """Each is a sum of two float64 numbers. An analysis of the rounding errors gives at most 2^-98 of
    a value. The package relies on PRODUCT_ERROR = 2^-91 where it looks for roundings in doubt. Arb
    computes the true values, at positions up to 2^40.
    """
    angles = far_angles(base)
    cosines, sines = phases.cos_sin_double_double(angles.frequency_digits, angles.positions)
    errors = largest_errors(base, angles, cosines, sines)

    assert errors.relative <= phases.PRODUCT_ERROR / 2**7


def test_sines_next_to_a_whole_turn_are_correctly_rounded():
    """scale = 2π / position in float64 makes position · scale a whole turn, except for the rounding of
    the scale: the sine is below 1e-15, and no digit of the angle may be lost. At 85 of these 120
    positions (any would do), the angle is just below a turn, at the others above. Arb gives the bits.
    """
    for position in range(1_373_000, 1_373_120):
        scale = 2 * math.pi / position
        (sine,) = Sinusoidal(1, 1, scale=scale, offset=position).tables()["pe"]
        expected = oracle.sinusoidal_bits(np.array([position]), np.array([0]), dim=1, scale=scale)
        assert bits(sine) == expected, f"position {position}"


f32 = np.float32
POWERS_BY_TORCH = np.load(Path(__file__).with_name("torch_powers.npz"))
"""Powers of PyTorch (make_data.py)."""


@pytest.fixture(params=["0", "1"], ids=["NumPy", "compiled"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test twice: with sines and cosines of NumPy, and of a loop that numba compiled."""
    if request.param == "1":
        pytest.importorskip("numba", reason="compiled loops need numba")
    monkeypatch.setenv("PECLI_KERNELS", request.param)


def waves_of(angles: np.ndarray, functions: Sequence[str]) -> np.ndarray:
    """Return sines or cosines of float32 angles, one array per function."""
    waves = np.empty((*angles.shape, len(functions)), np.float32)
    float32_waves.write_waves(angles, functions, waves)
    return np.moveaxis(waves, -1, 0)


def assert_correctly_rounded(angles: np.ndarray) -> None:
    cosines, sines = waves_of(angles, ("cos", "sin"))
    assert cosines.dtype == sines.dtype == np.float32
    balls = [rational(Fraction(float(angle))) for angle in angles]
    np.testing.assert_array_equal(
        bits(cosines), rounded(lambda: [ball.cos() for ball in balls], "float32")
    )
    np.testing.assert_array_equal(
        bits(sines), rounded(lambda: [ball.sin() for ball in balls], "float32")
    )


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize(
    "exponent", [-149, -126, -60, -24, -12, -6, -1, 0, 1, 7, 14, 20, 21, 22, 30, 40, 64, 103]
)
def test_sines_and_cosines_of_any_magnitude_are_correctly_rounded(exponent):
    """300 random float32 angles between 2^exponent and twice that; Arb (python-flint) computes the
    true values and rounds them once.
    """
    rng = np.random.default_rng(exponent + 200)
    assert_correctly_rounded(np.ldexp(rng.uniform(1, 2, 300), exponent).astype(np.float32))


@pytest.mark.usefixtures("either_way")
def test_waves_near_their_zeros_are_correctly_rounded():
    """Floats next to multiples of π/2, where a result has far fewer digits than its argument; Arb
    rounds the true values.
    """
    turns = np.concatenate([np.arange(1, 150), np.geomspace(200, 2.6e6, 150).astype(int)])
    crossings = (turns * (math.pi / 2)).astype(np.float32)

    assert_correctly_rounded(
        np.concatenate(
            [
                crossings,
                np.nextafter(crossings, np.float32(0)),
                np.nextafter(crossings, np.float32(1e9)),
            ]
        )
    )


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("first", [0, 60_000, 2**20 - 77, 2**22 - 300])
def test_sines_and_cosines_nearest_to_ties_are_correctly_rounded(first):
    """Of 300 positions × 64 frequencies, the 100 whose float64 sine or cosine is nearest to the
    middle between two float32 numbers; Arb rounds the true values.
    """
    phases = (
        np.outer(np.arange(first, first + 300), np.geomspace(1, 3e-4, 64))
        .astype(np.float32)
        .reshape(-1)
    )
    for wave in (np.sin, np.cos):
        values = np.abs(wave(phases.astype(np.float64)))
        singles = values.astype(np.float32)
        closest = np.argsort(-np.abs(values - singles) / np.spacing(singles))[:100]
        assert_correctly_rounded(phases[closest])


@pytest.mark.usefixtures("either_way")
def test_sines_and_cosines_between_sectors_are_correctly_rounded():
    """The circle is divided into 8192 sectors, each with its own table entry; these are the angles
    at their edges. Arb rounds the true values.
    """
    edges = ((np.arange(1, 8193) - 0.5) * (math.tau / 8192)).astype(np.float32)
    assert_correctly_rounded(np.concatenate([edges, edges[::16] + np.float32(math.tau)]))


@pytest.mark.usefixtures("either_way")
def test_sines_do_not_depend_on_how_many_angles_are_computed_at_once():
    """NumPy, and a compiled loop (the fixture `either_way`), take blocks of 2^15 = 32,768 angles. In
    40,000 angles the last 10,000 are in two blocks; alone they are in one.
    """
    angles = np.arange(40_000, dtype=np.float32)
    (all_sines,) = waves_of(angles, ["sin"])
    (last_sines,) = waves_of(angles[30_000:], ["sin"])

    assert all_sines[30_000:].tolist() == last_sines.tolist()


@pytest.mark.usefixtures("either_way")
def test_sines_and_cosines_up_to_2_to_the_18_are_correctly_rounded():
    """From 2^18 on angles are reduced in another way; these are the largest below it. Arb rounds
    the true values.
    """
    largest = np.nextafter(np.float32(2**18), np.float32(0))
    assert_correctly_rounded(largest - np.arange(300, dtype=np.float32))


def test_an_infinite_angle_does_not_change_the_others():
    """Angles are computed together; the cosine of infinity and of NaN is NaN."""
    angles = np.array([1.5, np.inf, np.nan, 3.0], np.float32)
    with np.errstate(invalid="ignore"):
        (cosines,) = waves_of(angles, ["cos"])
    (finite,) = waves_of(angles[[0, 3]], ["cos"])

    assert cosines[[0, 3]].tolist() == finite.tolist()
    assert np.isnan(cosines[1:3]).all()


def test_sines_of_zero_are_exactly_0_and_cosines_1():
    """`waves_of` computes sines and cosines of float32 angles, here of an array of 2 × 3."""
    sines, cosines = waves_of(np.zeros((2, 3), np.float32), ("sin", "cos"))
    assert sines.tolist() == [[0.0] * 3] * 2
    assert cosines.tolist() == [[1.0] * 3] * 2


def test_an_empty_array_of_angles_has_empty_waves():
    """`waves_of` computes the cosines of no rows of 3 angles."""
    assert waves_of(np.zeros((0, 3), np.float32), ["cos"])[0].shape == (0, 3)


def test_angles_in_two_dimensions_have_the_waves_of_the_same_angles_in_a_row():
    """Small and large angles of float32, which take different paths."""
    angles = np.array([[1, 2**30], [2**23, 3]], np.float32)
    (square,) = waves_of(angles, ["sin"])
    (line,) = waves_of(angles.reshape(-1), ["sin"])

    assert square.reshape(-1).tolist() == line.tolist()


@pytest.mark.parametrize("base", [10000.0, 500000.0, 1e6, 0.5, 1.0, 3e38, 2.0**-126, 9999.9])
def test_powers_in_float32_are_correctly_rounded(base):
    """`power` has a float32 base and exponent. Arb computes base^exponent and rounds it once to
    float32. Quarters, halves and three quarters may be exact powers, which Arb cannot decide and
    another test has.
    """
    base = round_single(base)
    exponents = [float(np.float32(i) / np.float32(64)) for i in range(64)]
    exponents += [float(np.float32(-2 / 96)), 0.7, -0.1]
    exponents = [
        round_single(exponent) for exponent in exponents if exponent not in (0.25, 0.5, 0.75)
    ]
    true = rounded(lambda: [arb(base) ** rational(exponent) for exponent in exponents], "float32")
    powers = np.array([power(base, exponent) for exponent in exponents], np.float32)

    np.testing.assert_array_equal(bits(powers), true)


def test_powers_that_float32_holds_are_exact():
    """10000 = 10^4, so that its powers of 1/4, 1/2, 3/4 and −1/4 are 10, 100, 1000 and 1/10."""
    assert power(10000.0, 0.25) == 10.0
    assert power(10000.0, 0.5) == 100.0
    assert power(10000.0, 0.75) == 1000.0
    assert power(10000.0, -0.25) == float(f32(0.1))
    assert power(2.0, 127.0) == 2.0**127


def test_powers_beyond_float32_are_infinite():
    """float32 ends below 2^128, 3.4e38."""
    assert power(1e30, 3.0) == math.inf
    assert power(2.0, 130.0) == math.inf


@pytest.mark.usefixtures("either_way")
def test_a_cosine_next_to_a_tie_of_float32_goes_to_the_nearer_number():
    """The cosine of this float32 angle lies 2^-49 (of itself) from the middle between two float32
    numbers, nearer to the one of smaller magnitude, as computed by Arb.
    """
    angle = 2.5878591537475586
    (cosines,) = waves_of(np.array([angle], np.float32), ["cos"])

    np.testing.assert_array_equal(bits(cosines), rounded(lambda: [arb(angle).cos()], "float32"))
    assert cosines.tolist() == [-0.850567102432251]


def test_a_power_next_to_a_tie_of_float32_goes_to_the_nearer_number():
    """10000^0.8086… lies 2^-49 (of itself) from the middle between two float32 numbers, nearer to
    the larger one, as computed by Arb.
    """
    exponent = 0.8086530566215515
    expected = rounded(lambda: [arb(10000) ** arb(exponent)], "float32")

    np.testing.assert_array_equal(bits(np.array([power(10000.0, exponent)], np.float32)), expected)
    assert power(10000.0, exponent) == 1716.375244140625


@pytest.mark.parametrize("name", POWERS_BY_TORCH.files)
@pytest.mark.sample(8)
def test_powers_are_those_of_pytorch(name: str) -> None:
    """torch_powers.npz holds PyTorch's float32 powers base^(2i/dim), which make_data.py wrote; the
    name of each array is «base,dim».
    """
    base, dim = (float(part) for part in name.split(","))
    exponents = np.arange(0, dim, 2, dtype=f32) / f32(dim)

    np.testing.assert_array_equal(torch_powers(base, exponents), POWERS_BY_TORCH[name])


@pytest.mark.parametrize("value", [0.25, 1.0, 3.0, 150000.0])
def test_logarithms_in_float32_are_those_of_float64_rounded_once(value: float) -> None:
    """NumPy computes the logarithm in float64, which is then rounded to float32."""
    assert log_single(value) == f32(np.log(value))
