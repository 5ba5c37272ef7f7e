"""Phases, exact and in float32, and the functions that recipes compute them by."""

import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

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


def some_waves(base: float) -> tuple[phases.ExactWaves, np.ndarray, np.ndarray]:
    wanted = phases.ExactWaves.of(geometric(base, oracle.Fraction(16), 16))
    column, position = (
        grid.ravel() for grid in np.meshgrid(np.arange(16), np.array(POSITIONS, np.uint64))
    )
    return wanted, column, position


@pytest.mark.parametrize("base", BASES)
def test_cos_sin_in_float64(base):
    """What the tables are built on (an absolute error), and what the second look relies on (a relative one)."""
    wanted, column, position = some_waves(base)
    cosines, sines = phases.cos_sin(wanted.limbs[:, column], position)
    absolute, relative = _errors(
        base, column, position, DoubleDouble.plain(cosines), DoubleDouble.plain(sines)
    )

    assert absolute <= 0.6 * 2.0**-53
    assert relative <= phases.FLOAT64_ERROR / 2


@pytest.mark.parametrize("base", BASES)
def test_cos_sin_in_106_bits(base):
    """Arb computes the true values at 1500 bits."""
    wanted, column, position = some_waves(base)
    _, relative = _errors(
        base, column, position, *phases.cos_sin_double_double(wanted.limbs[:, column], position)
    )

    assert relative <= phases.PRODUCT_ERROR / 8  # there is a margin


def _errors(
    base: float,
    column: np.ndarray,
    position: np.ndarray,
    cosines: DoubleDouble,
    sines: DoubleDouble,
) -> tuple[float, float]:
    absolute, relative = 0.0, 0.0
    with ctx.workprec(1500):
        for k, (i, p) in enumerate(zip(column.tolist(), position.tolist(), strict=True)):
            sine, cosine = (arb(base) ** (arb(-i) / 16) * p).sin_cos()
            for found, true in ((sines, sine), (cosines, cosine)):
                error = abs(arb(float(found.hi[k])) + arb(float(found.lo[k])) - true)
                absolute = max(absolute, float(error.upper()))
                relative = max(relative, float((error / abs(true)).upper()))
    return absolute, relative


def test_angles_just_below_a_sector_keep_their_digits():
    """p·θ a hair below a whole number of turns: the highest digit says −1, all others together almost 1."""
    for position in range(1_373_000, 1_373_120):
        scale = 2 * math.pi / position
        found = Sinusoidal(1, 1, scale=scale, offset=position).tables()["pe"]
        assert bits(found)[0] == oracle.sinusoidal_bits(
            np.array([position]), np.array([0]), dim=1, scale=scale
        )


f32 = np.float32
POWERS_BY_TORCH = np.load(Path(__file__).with_name("torch_powers.npz"))
"""Powers of PyTorch (make_data.py)."""


@pytest.fixture(params=["0", "1"], ids=["NumPy", "compiled"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute waves with NumPy, and by a compiled loop."""
    if request.param == "1":
        pytest.importorskip("numba", reason="compiled loops need numba")
    monkeypatch.setenv("PECLI_KERNELS", request.param)


def waves_of(angles: np.ndarray, functions: Sequence[str]) -> np.ndarray:
    """Return one array per function."""
    return np.moveaxis(float32_waves.waves_of(angles, functions), -1, 0)


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
    """Arb computes and rounds the true values."""
    rng = np.random.default_rng(exponent + 200)
    assert_correctly_rounded(np.ldexp(rng.uniform(1, 2, 300), exponent).astype(np.float32))


@pytest.mark.usefixtures("either_way")
def test_waves_near_their_zeros_are_correctly_rounded():
    """Floats next to multiples of π/2, where a result has far fewer digits than its argument."""
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
def test_phases_whose_waves_are_nearest_to_ties(first):
    """Of 300 positions times 64 frequencies, as float64 tells them."""
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
    """The circle is divided into 8192 sectors, each with its own table entry."""
    edges = ((np.arange(1, 8193) - 0.5) * (math.tau / 8192)).astype(np.float32)
    assert_correctly_rounded(np.concatenate([edges, edges[::16] + np.float32(math.tau)]))


@pytest.mark.usefixtures("either_way")
def test_waves_of_more_angles_than_are_computed_at_once():
    angles = np.arange(40_000, dtype=np.float32)
    (together,) = waves_of(angles, ["sin"])
    (later,) = waves_of(angles[30_000:], ["sin"])

    assert together[30_000:].tolist() == later.tolist()


@pytest.mark.usefixtures("either_way")
def test_the_largest_angles_below_2_to_the_18():
    """Larger ones are computed in another way."""
    largest = np.nextafter(np.float32(2**18), np.float32(0))
    assert_correctly_rounded(largest - np.arange(300, dtype=np.float32))


def test_an_infinite_angle_does_not_change_the_others():
    angles = np.array([1.5, np.inf, np.nan, 3.0], np.float32)
    with np.errstate(invalid="ignore"):
        (cosines,) = waves_of(angles, ["cos"])
    (finite,) = waves_of(angles[[0, 3]], ["cos"])

    assert cosines[[0, 3]].tolist() == finite.tolist()
    assert np.isnan(cosines[1:3]).all()


def test_waves_of_zero_are_0_and_1():
    sines, cosines = waves_of(np.zeros((2, 3), np.float32), ("sin", "cos"))
    assert sines.tolist() == [[0.0] * 3] * 2
    assert cosines.tolist() == [[1.0] * 3] * 2


def test_no_angles_have_no_waves():
    assert waves_of(np.zeros((0, 3), np.float32), ["cos"])[0].shape == (0, 3)


def test_angles_of_two_dimensions_keep_their_shape():
    angles = np.array([[1, 2**30], [2**23, 3]], np.float32)
    (square,) = waves_of(angles, ["sin"])
    (line,) = waves_of(angles.reshape(-1), ["sin"])

    assert square.reshape(-1).tolist() == line.tolist()


@pytest.mark.parametrize("base", [10000.0, 500000.0, 1e6, 0.5, 1.0, 3e38, 2.0**-126, 9999.9])
def test_powers_are_correctly_rounded(base):
    """Arb computes base^exponent and rounds it once to float32."""
    base = round_single(base)
    exponents = [float(np.float32(i) / np.float32(64)) for i in range(64)] + [
        float(np.float32(-2 / 96)),
        0.7,
        -0.1,
    ]
    exponents = [
        round_single(exponent) for exponent in exponents if exponent not in (0.25, 0.5, 0.75)
    ]
    true = rounded(lambda: [arb(base) ** rational(exponent) for exponent in exponents], "float32")
    found = np.array([power(base, exponent) for exponent in exponents], np.float32)

    np.testing.assert_array_equal(bits(found), true)


def test_powers_that_are_floats_or_too_large():
    assert [power(10000.0, exponent) for exponent in (0.25, 0.5, 0.75, -0.25)] == [
        10.0,
        100.0,
        1000.0,
        float(f32(0.1)),
    ]
    assert power(1e30, 3.0) == math.inf
    assert power(2.0, 130.0) == math.inf
    assert power(2.0, 127.0) == 2.0**127


@pytest.mark.usefixtures("either_way")
def test_a_cosine_next_to_a_tie_of_float32():
    """It lies 2^-49 from the tie, nearer to the number of smaller magnitude (by Arb)."""
    angle = np.array([2.5878591537475586], np.float32)
    assert waves_of(angle, ["cos"])[0].tolist() == [-0.850567102432251]


def test_a_power_next_to_a_tie_of_float32():
    """As close to the tie as the cosine above, nearer to the larger number (by Arb)."""
    assert power(10000.0, 0.8086530566215515) == 1716.375244140625


@pytest.mark.parametrize("name", POWERS_BY_TORCH.files)
@pytest.mark.sample(8)
def test_powers_are_those_of_pytorch(name: str) -> None:
    """torch_powers.npz holds PyTorch's float32 powers (make_data.py writes it)."""
    base, dim = (float(part) for part in name.split(","))
    exponents = np.arange(0, dim, 2, dtype=f32) / f32(dim)

    np.testing.assert_array_equal(torch_powers(base, exponents), POWERS_BY_TORCH[name])


@pytest.mark.parametrize("value", [0.25, 1.0, 3.0, 150000.0])
def test_logarithms_are_rounded_once(value: float) -> None:
    assert log_single(value) == f32(np.log(value))
