"""Frequencies measured in the rows of a table, and a schedule of frequencies with another value of
one parameter.

A frequency is fitted to how cos + i·sin turns from row to row, with an estimate of its error. The
rows are NumPy's cosines and sines of three frequencies (1, 0.1, 0.01), rounded to float16.
"""

from dataclasses import replace

import numpy as np
import pytest

import pecli
from pecli.engine.scalings.llama3 import Llama3
from pecli.explain import wave_measurement
from pecli.explain.frequency_schedule import FrequencySchedule
from pecli.explain.measure import MeasuredFrequencies, fit_number, frequencies_of
from pecli.explain.observations import Observations
from pecli.explain.subject import computation_of

FREQUENCIES = np.array([1.0, 0.1, 0.01])
RUN = range(40)
LENGTH = "original_max_position_embeddings"
LLAMA3 = Llama3(
    factor=8.0, original_max_position_embeddings=8192, low_freq_factor=1.0, high_freq_factor=4.0
)
SCHEDULE = FrequencySchedule(pairs=8, denominator=8.0, base=10000.0, scaling=LLAMA3)


def measured_at(*positions: int) -> MeasuredFrequencies:
    """Return what is measured in rows of cosines and sines in float16."""
    angles = np.outer(positions, FREQUENCIES)
    cos = np.cos(angles).astype(np.float16).astype(np.float64)
    sin = np.sin(angles).astype(np.float16).astype(np.float64)
    found = frequencies_of(cos + 1j * sin, np.array(positions, np.float64))
    assert found is not None
    return found


def test_far_rows_make_the_error_of_a_slow_frequency_five_times_smaller() -> None:
    """The frequencies 1, 0.1 and 0.01 are measured at positions 0 to 39, and with 100 and 700 added.
    An angle is known equally well in each row; over a distance 700 instead of 39, its rate is known
    better. `errors[-1]` is the estimate for 0.01.
    """
    near = measured_at(*RUN)
    far = measured_at(*RUN, 100, 700)

    assert far.errors[-1] < near.errors[-1] / 5


def test_rows_after_a_break_are_not_measured() -> None:
    """Positions 0 to 39 and then 5: the break may be the beginning of another table, so that
    neither 5 nor 700 after it changes what is measured.
    """
    without_rows_after_it = measured_at(*RUN)
    with_rows_after_it = measured_at(*RUN, 5, 700)

    np.testing.assert_array_equal(with_rows_after_it.values, without_rows_after_it.values)


def test_columns_of_zeros_have_no_frequency() -> None:
    """Nothing turns in 40 rows of zeros: a wave of amplitude 0 may have any frequency."""
    cos_and_i_sin = np.zeros((40, 3), complex)
    assert frequencies_of(cos_and_i_sin, np.arange(40.0)) is None


def test_the_phase_of_cosines_without_sines_is_measured() -> None:
    """The columns are cos(f·p + 0.5) at rows p, for f = 1 and 0.1. At the middle row m the phase is
    f·m + 0.5, less whole turns.
    """
    rows = np.arange(100.0)
    frequencies = np.array([1.0, 0.1])
    waves = wave_measurement.measure(np.cos(np.outer(rows, frequencies) + 0.5), rows)
    assert waves is not None
    errors = wave_measurement.wrap(waves.phase - (frequencies * waves.centre + 0.5))

    np.testing.assert_allclose(errors, 0, atol=1e-6)


def test_a_length_that_is_whole_stays_an_integer() -> None:
    """A fit returns 4096.0 for Llama 3's original_max_position_embeddings (LENGTH), which is an
    integer in its config. `having` returns a schedule of frequencies with this value.
    """
    assert type(SCHEDULE.having(LENGTH, 4096.0).value(LENGTH)) is int


@pytest.mark.parametrize("length", [4096.25, 4096.75])
def test_a_length_between_two_integers_is_not_rounded(length: float) -> None:
    """A length was fitted as 4096.25, or 4096.75; neither must be reported as 4096 or 4097. LENGTH
    is the parameter original_max_position_embeddings, and `having` gives it a value.
    """
    assert SCHEDULE.having(LENGTH, length).value(LENGTH) == length


def test_a_base_that_is_whole_stays_a_real_number() -> None:
    """`having` replaces a parameter of a schedule of frequencies. Lengths become integers, but the
    base 500.0 must not become the integer 500.
    """
    assert type(SCHEDULE.having("base", 500.0).value("base")) is float


def test_setting_a_parameter_that_the_scaling_lacks_changes_nothing() -> None:
    """`beta_fast` is a parameter of YaRN; SCHEDULE has the scaling llama3. A search supposes several
    mistakes at once: one that replaces YaRN by llama3 leaves nothing to do for one in beta_fast.
    """
    assert SCHEDULE.scaling_name == "llama3"
    assert SCHEDULE.having("beta_fast", 16.0) == SCHEDULE


def test_every_row_of_a_table_of_640_rows_is_measured() -> None:
    """A sample has the first 512 rows and 128 of the later ones: 640 rows are no more than that."""
    observations = Observations({"cos": np.zeros((640, 8), np.float32)}, "float32")
    assert observations.sampled_rows.tolist() == [*range(640)]


def exact_waves(rows: int) -> MeasuredFrequencies:
    """Return what is measured in rows of exact cos + i·sin at positions 0, 1, 2, …"""
    positions = np.arange(float(rows))
    found = frequencies_of(np.exp(1j * np.outer(positions, FREQUENCIES)), positions)
    assert found is not None
    return found


@pytest.mark.parametrize(("rows", "are_shown"), [(7, False), (8, True)])
def test_eight_rows_in_a_run_show_that_columns_are_waves(rows: int, are_shown: bool) -> None:
    """`are_clean` is True if the columns were seen to be waves: what the fitted waves leave of them is
    small. Fewer than 8 rows do not show how much is left, even of these exact waves.
    """
    assert exact_waves(rows).are_clean is are_shown


@pytest.mark.parametrize("rows", [7, 8])
def test_frequencies_are_measured_also_in_too_few_rows_to_show_waves(rows: int) -> None:
    """The rows are exact waves of the frequencies 1, 0.1 and 0.01; 8 rows would show that they are."""
    np.testing.assert_allclose(exact_waves(rows).values, FREQUENCIES, atol=1e-5)


def test_a_number_below_1_is_fitted_from_starts_below_1() -> None:
    """Frequencies 0.5, 0.05 and 0.005 are measured of a schedule scale · (1, 0.1, 0.01): the scale is
    0.5. The fit works with the logarithm of the scale, and so skips the first guess 0.
    """
    measured = MeasuredFrequencies(
        values=np.array([0.5, 0.05, 0.005]),
        errors=np.array([1e-6, 1e-7, 1e-8]),
        amplitude=1.0,
        is_folded=False,  # Cosines and sines are there, so that signs are known.
    )

    def frequencies(scale: float) -> np.ndarray:
        return scale * np.array([1.0, 0.1, 0.01])

    fit = fit_number(frequencies, measured, starts=(0.0, 0.25, 1.0))

    assert fit is not None
    assert fit.value == pytest.approx(0.5, rel=1e-6)


@pytest.mark.parametrize("holds", ["frequencies", "wavelengths"])
def test_a_vector_of_doubled_frequencies_shows_the_frequencies_themselves(holds: str) -> None:
    """By mistake, all four frequencies 10000^(−i/4) are doubled. Their wavelengths are then halved."""
    frequencies = 10000.0 ** (-np.arange(4) / 4)
    numbers = {"frequencies": 2 * frequencies, "wavelengths": 2 * np.pi / (2 * frequencies)}
    computation = computation_of(pecli.Rope(16, 8), ("inv_freq",))
    doubled = replace(computation, holds=holds, amplitude=2.0)
    measured = doubled.measured_frequencies(numbers[holds][np.newaxis], np.array([0]))

    assert measured is not None
    np.testing.assert_allclose(measured.values, frequencies, rtol=1e-15)
