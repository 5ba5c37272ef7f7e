"""Numbers of identified tables are as sharp as the sharpest tensor of the file shows them."""

import math

import numpy as np
import pytest

import pecli
from pecli.explain.amplitude_priors import attention_factors
from pecli.explain.measure import MeasuredFrequencies, frequencies_of

NTK_BASE = 12345.0 * 4 ** (128 / 126)  # NTK scaling by 4 for 128 channels: 50478.633933
ODD_BASE = 2152976.2439535  # of no model


def waves(base: float, pairs: int, positions: np.ndarray) -> dict[str, np.ndarray]:
    """Return cosines and sines by the formula, in float64."""
    angles = np.multiply.outer(positions, base ** (-np.arange(pairs) / pairs))
    return {"cos": np.cos(angles), "sin": np.sin(angles)}


def in_dtype(tensors: dict[str, np.ndarray], dtype: str) -> dict[str, np.ndarray]:
    return {name: array.astype(dtype) for name, array in tensors.items()}


def test_a_base_of_far_rows_has_the_digits_that_float32_values_show() -> None:
    """The table is NumPy's of rows 1462 to 1561 and base 12345 · 4^(128/126) = 50478.633933 (NTK
    scaling by 4). With base 50478.6, rows around 1,500 would be off by 3e-5, as if phases were in
    float32; so all digits must be found, and the recipe is exact.
    """
    tables = in_dtype(waves(NTK_BASE, 64, np.arange(1462, 1562)), "float32")
    match = pecli.identify(tables).matches[0]
    assert match.scheme.value_of("base") == pytest.approx(NTK_BASE, rel=3e-9)
    assert match.recipe == "exact"
    assert match.max_abs_error < 2e-7


def test_four_digits_of_a_base_are_not_preferred_to_an_exact_base() -> None:
    """The table is NumPy's of base 3527004.77, in float32. 3527000 is the plainest number within the
    error of float32 powers, but these rows (4297 to 4696) show more digits.
    """
    base = 3527004.773826541
    tables = in_dtype(waves(base, 40, np.arange(4297, 4697)), "float32")
    match = pecli.identify(tables).matches[0]
    assert match.scheme.value_of("base") == pytest.approx(base, rel=3e-9)


def test_a_vector_in_float64_shows_fifteen_digits_of_a_base() -> None:
    """The vector is ODD_BASE^(-i/32) in float64, as inv_freq of 64 channels; ODD_BASE is 2152976.2…,
    which no model has. The base that `identify` finds has a relative error of at most 1e-13.
    """
    vector = ODD_BASE ** (-np.arange(32) / 32)
    match = pecli.identify({"inv_freq": vector}).matches[0]
    assert match.scheme.value_of("base") == pytest.approx(ODD_BASE, rel=1e-13)


def test_a_vector_of_a_usual_base_keeps_it_though_float32_powers_are_off() -> None:
    """The vector is computed in float32 as PyTorch code does, so its powers of 500000 have rounding
    errors. `identify` must find the usual base 500000 itself, not a number near it.
    """
    exponents = (np.arange(0, 64, 2, dtype=np.float32) / np.float32(64)).astype(np.float32)
    vector = np.float32(1) / np.power(np.float32(500000), exponents)
    match = pecli.identify({"inv_freq": vector.astype(np.float32)}).matches[0]
    assert match.scheme.value_of("base") == 500000.0


def test_coarse_tables_have_the_base_of_the_vector_beside_them() -> None:
    """A file has cosines and sines in bfloat16, and inv_freq = ODD_BASE^(-i/32) in float64. Cosines
    of 8 bits show four digits of a base, the vector 15; all three tensors are one match, with the
    digits of the vector and the first position (100) of the tables.
    """
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    tables = waves(ODD_BASE, 32, np.arange(100, 356))
    tensors: dict[str, np.ndarray] = {n: array.astype(bfloat16) for n, array in tables.items()}
    tensors["inv_freq"] = ODD_BASE ** (-np.arange(32) / 32)
    (match,) = pecli.identify(tensors).matches
    assert match.tensors == ("cos", "sin", "inv_freq")
    assert match.scheme.value_of("base") == pytest.approx(ODD_BASE, rel=1e-13)
    assert match.scheme.value_of("offset") == 100


@pytest.mark.parametrize(
    "amplitude",
    [
        pytest.param(math.sqrt(4 / 3), id="32 times 32,768"),
        pytest.param(math.sqrt(17 / 16), id="2 times 65,536"),
    ],
)
def test_attention_factors_of_longrope_are_usual_amplitudes(amplitude: float) -> None:
    """LongRoPE multiplies tables by √(1 + ln factor / ln length). For powers of two the logarithms
    cancel: 32 times 32,768 is √(1 + ln 2⁵ / ln 2¹⁵) = √(4/3), and 2 times 65,536 is √(1 + 1/16).
    `identify` must find all digits, although the table is in float32.
    """
    tables = {n: amplitude * a for n, a in waves(10000.0, 32, np.arange(200)).items()}
    match = pecli.identify(in_dtype(tables, "float32")).matches[0]
    found = match.scheme.value_of("attention_factor")
    assert found == pytest.approx(amplitude, rel=1e-15)


def test_attention_factors_of_yarn_are_usual_amplitudes() -> None:
    """YaRN multiplies tables by 0.1 · ln(factor) + 1. `attention_factors` lists the amplitudes that
    are tried for a table; that of factor 4 must be one of them.
    """
    assert 0.1 * math.log(4) + 1 in attention_factors()


def test_the_normalisation_of_an_odd_width_is_recognised() -> None:
    """19 channels: 9 sines, 9 cosines and a zero, times √(2/19), which gives rows a length near 1.
    `identify` must find this amplitude exactly although the table is in float32.
    """
    angles = np.multiply.outer(np.arange(100), 1000.0 ** (-np.arange(9) / 9))
    odd_channel = np.zeros((100, 1))
    waves_of_amplitude_1 = np.hstack([np.sin(angles), np.cos(angles), odd_channel])
    pe = (math.sqrt(2 / 19) * waves_of_amplitude_1).astype(np.float32)
    match = pecli.identify({"pe": pe}).matches[0]
    assert match.scheme.value_of("amplitude") == math.sqrt(2 / 19)


def test_divisors_of_slow_pairs_have_two_decimals() -> None:
    """NumPy divides the frequencies 10000^(-i/40) by random divisors of two decimals, as LongRoPE
    does. Float16 shows the divisors to 0.01 only, where 1.7798 is as near as 1.78: the plain number
    must be found, except for the ten slowest pairs, which hardly turn.
    """
    divisors = np.round(1 + np.random.default_rng(5).random(40), 2)
    frequencies = 10000.0 ** (-np.arange(40) / 40) / divisors
    angles = np.multiply.outer(np.arange(128), frequencies)
    tables = {"cos": np.cos(angles), "sin": np.sin(angles)}
    match = pecli.identify(in_dtype(tables, "float16")).matches[0]
    fast = slice(0, 30)
    assert match.scheme.value_of("short_factor")[fast] == tuple(divisors[fast].tolist())


def measured_in_200_float32_rows(frequency: float) -> MeasuredFrequencies:
    """Return what is measured in cos + i·sin of one frequency at positions 0 … 199."""
    phasors = np.exp(1j * frequency * np.arange(200))[:, None].astype(np.complex64)
    measured = frequencies_of(phasors.astype(np.complex128), np.arange(200.0))
    assert measured is not None
    return measured


def test_200_rows_show_a_frequency_to_nine_digits() -> None:
    """Rounding to float32 is an error of about 2e-8 per row, so that the slope of a line through 200
    rows is known to 2e-8 · √12 / 200^1.5 = 2e-11. The bound 1e-9 is 50 times as much. `sharpened` has
    the error of this measurement as its estimate.
    """
    measured = measured_in_200_float32_rows(frequency=0.5)
    assert abs(measured.values[0] - 0.5) < 1e-9
    assert measured.sharpened.errors[0] < 1e-9


def test_the_error_of_a_frequency_allows_for_powers_in_float32() -> None:
    """Programs that compute base^(-2i/d) in float32 have frequencies that are off by 1e-6 of their
    size. `errors`, which decides what base may be meant, is this 1e-6 of 0.5, although the rows show
    more digits.
    """
    measured = measured_in_200_float32_rows(frequency=0.5)
    assert measured.errors[0] == pytest.approx(1e-6 * 0.5, rel=0.01)


def test_frequencies_without_a_sharper_error_stay_as_they_are() -> None:
    """Three frequencies of 1 are measured within 1e-6 each, and no sharper errors (`sharp_errors`)
    are known: `sharpened` is the same object.
    """
    measured = MeasuredFrequencies(np.ones(3), np.full(3, 1e-6), amplitude=1.0, is_folded=False)
    assert measured.sharpened is measured


def test_an_amplitude_is_no_scaling_that_another_file_lacks() -> None:
    """A has NumPy's tables times 1.1386, and B the same without. Such an amplitude could be LongRoPE
    with divisors of 1, which no model has: the difference is the attention factor, and not that a
    scaling is missing in B.
    """
    tables = waves(10000.0, 32, np.arange(64))
    in_a = {name: np.float32(1.1386) * array.astype(np.float32) for name, array in tables.items()}
    result = pecli.diff(in_a, in_dtype(tables, "float32"))
    (reason,) = result.diagnosis
    assert reason == "cos, sin: in B, attention factor is 1 (in A 1.1386); exact"
