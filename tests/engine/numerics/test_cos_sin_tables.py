"""Tables of cosines and sines: every element is correctly rounded, in whatever part, tile or block
it is made.

A table is made from products of a few exact values; elements that such a product leaves in doubt (a
tie between two floats lies within its error) are computed again with more digits. Expected bits are
those of Arb, arbitrary-precision balls of python-flint, rounded once (tests/oracle.py), or the
bytes of the same row made alone. A `filled_table` holds the part "sin", "cos" or both in turn, from
position `first` on, at base 10000.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pecli.engine.numerics import correct_rounding, cos_sin_tables, geometric, phases, tiles
from pecli.engine.numerics.cos_sin_tables import ExactFiller
from pecli.engine.numerics.phases import ExactWaves
from pecli.engine.schemes.sinusoidal import Sinusoidal
from tests import oracle
from tests.engine.strategies import dtypes

ALL_DTYPES = ("float32", "float16", "bfloat16", "float64")


def exact_filler(
    width: int, count: int, base: float = 10000.0, amplitude: float = 1.0
) -> ExactFiller:
    """Return what makes tables of the frequencies base^(-i/width), i = 0 … width − 1.

    `count` is about how many positions are needed: it decides how long the small tables are whose
    products are the elements.
    """
    return ExactFiller(
        lambda: ExactWaves.from_frequencies(
            geometric(base, oracle.Fraction(width), width), amplitude=amplitude
        ),
        count,
    )


def filled_table(
    made: ExactFiller, part: str, first: int, rows: int, columns: int, dtype: str
) -> np.ndarray:
    """Return the rows of the positions first, first + 1, … of a table of sines or cosines, or both."""
    out = np.empty((rows, columns), oracle.DTYPES[dtype])
    made.fill(part, first, out, dtype)
    return out


@pytest.mark.parametrize("dtype", ALL_DTYPES)
@pytest.mark.parametrize("first", [0, 777, 2**40 - 300])
@pytest.mark.parametrize("amplitude", [1.0, 0.3, 5.0])
@pytest.mark.sample(8)
def test_every_element_of_a_table_is_correctly_rounded(first, dtype, amplitude):
    """All 300 positions × 12 frequencies of base 10000, near 0 and near 2^40; the oracle computes
    amplitude · sin and cos in the arbitrary precision of Arb (python-flint) and rounds once.
    """
    filler = exact_filler(12, 300, amplitude=amplitude)
    row, wave = (grid.ravel() for grid in np.indices((300, 12)))
    sines, cosines = oracle.waves(
        10000.0, 12, (row + first).tolist(), wave.tolist(), amplitude=amplitude
    )
    for part, exact in (("sin", sines), ("cos", cosines)):
        table = filled_table(filler, part, first, 300, 12, dtype)
        np.testing.assert_array_equal(oracle.bits(table).ravel(), exact.round(dtype))


@pytest.mark.parametrize("dtype", ALL_DTYPES)
@pytest.mark.parametrize("width", [1, 5, 512, 513, 1100])
@pytest.mark.sample(10)
def test_a_table_of_sines_and_cosines_in_turn_has_the_bytes_of_the_two_single_tables(width, dtype):
    """Columns s0 c0 s1 c1 … hold the bytes of the tables s0 s1 … and c0 c1 …; a table of odd width
    lacks the last column. Tables are made in tiles of 512 columns, hence the width 513.
    """
    made = exact_filler(width, 40)
    sine, cosine = (filled_table(made, part, 12345, 40, width, dtype) for part in ("sin", "cos"))

    for part, first, second in (("sin,cos", sine, cosine), ("cos,sin", cosine, sine)):
        pairs = filled_table(made, part, 12345, 40, 2 * width, dtype)
        assert pairs[:, 0::2].tobytes() == first.tobytes()
        assert pairs[:, 1::2].tobytes() == second.tobytes()
        short = filled_table(made, part, 12345, 40, 2 * width - 1, dtype)
        assert short.tobytes() == pairs[:, :-1].tobytes()


@given(
    st.integers(1, 700),
    st.integers(1, 5000),
    st.integers(0, 2**40 - 50),
    st.integers(0, 49),
    dtypes,
)
def test_rows_do_not_depend_on_the_table_they_are_in(width, count, first, row, dtype):
    """A row that is made by itself has the bytes of the same row in a table of 50, whatever number of
    rows (`count`) the filler was prepared for.
    """
    whole = filled_table(exact_filler(width, 50), "cos", first, 50, width, dtype)
    by_itself = filled_table(exact_filler(width, count), "cos", first + row, 1, width, dtype)

    assert by_itself.tobytes() == whole[row : row + 1].tobytes()


def rows_per_segment(filler: ExactFiller, width: int, part: str) -> int:
    """Return how many rows of a float32 table share one starting angle."""
    factors = tiles.Factors(filler.waves, slice(0, width), part, filler._count)
    return factors.sizes.rows_per_segment


@pytest.mark.parametrize("dtype", ALL_DTYPES)
@pytest.mark.parametrize("part", ["cos", "sin", "cos,sin", "sin,cos"])
@pytest.mark.parametrize("elements_per_tile", [1 << 15, 1 << 16])
@pytest.mark.sample(5)
def test_rows_do_not_depend_on_the_segments_of_their_table(
    monkeypatch, elements_per_tile, part, dtype
):
    """A segment is a run of positions whose angles are sums with one starting angle. A table of 2,600
    rows lies on both sides of position 2^33, at which a segment begins; some of its rows are held
    against the same rows made alone, which another test compares with Arb.
    """
    monkeypatch.setattr(phases, "TILE", elements_per_tile)
    width, first, rows = 300, 2**33 - 700, 2600
    columns = width * len(part.split(","))
    filler = exact_filler(width, count=4000)
    filler_of_one_row = exact_filler(width, count=1)

    # float64 has segments of its own, of 4,096 rows.
    if dtype != "float64":
        assert rows_per_segment(filler, width, part) < rows // 2  # There are at least three.

    table = filled_table(filler, part, first, rows, columns, dtype)
    for row in (0, 1, *range(150, rows, 197), rows - 1):
        alone = filled_table(filler_of_one_row, part, first + row, 1, columns, dtype)
        assert table[row].tobytes() == alone.tobytes(), f"row {row}"


def unrounded_tiles(
    filler: ExactFiller, width: int, part: str, position: int
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the first position and the values (rows, columns), before they are rounded to float32,
    of all tiles of the segment after a position.

    An anchor is a position whose cosines and sines are kept: those of the rows after it are products
    with them. Values are scaled by a power of two, which is undone here.
    """
    factors = tiles.Factors(filler.waves, slice(0, width), part, filler._count)
    sizes = factors.sizes
    segment = position // sizes.rows_per_segment + 1
    start = factors.starts(range(segment, segment + 1))[0]
    tile = tiles.Tile(factors, columns=width * len(part.split(",")), dtype="float32")
    tile._compute_anchors(segment, start)

    anchors_per_tile = sizes.rows_per_tile // sizes.rows_per_anchor
    for anchor in range(0, sizes.anchors_per_segment, anchors_per_tile):
        tile._multiply_anchors(anchor, anchors_per_tile)
        first = segment * sizes.rows_per_segment + anchor * sizes.rows_per_anchor
        yield first, tile._values / factors.test_scale


@pytest.mark.parametrize("part", ["cos", "sin", "cos,sin", "sin,cos"])
def test_elements_before_rounding_are_within_the_proven_bound(part):
    """Elements are products in float64, off by at most tiles.ERROR = 1.7e-15, as its comment proves;
    those nearer than that to a tie are computed again. 0.8 keeps a fifth of it in reserve. Expected
    values are the float64 table of 4,096 positions from 2^39 on, which another test compares with Arb.
    """
    width = 40
    filler = exact_filler(width, count=4096)

    for first, found in unrounded_tiles(filler, width, part, position=2**39):
        rows, columns = found.shape
        expected = filled_table(filler, part, first, rows, columns, "float64")
        assert np.abs(found - expected).max() <= 0.8 * tiles.ERROR


HARD_CASES = json.loads(Path(__file__).with_name("hard_cases.json").read_text())
"""Elements amplitude · sin or cos(position · base^(-2·wave/dim)) that lie next to the middle between
two numbers of the dtype. Each is a dictionary with these six names, and `part` ("sin" or "cos").

Those of amplitude 1 are the hardest of 1.1e10 elements, with well-known bases and dims and positions
below 2^40; some come within 1e-10 ULP of a tie. The others have the best of 60,000 amplitudes.
"""
NARROW_DTYPES = ("float32", "float16", "bfloat16")


def name_of(case: dict) -> str:
    """Return a test id such as `float32-500000-128-548383-19cos`."""
    return (
        f"{case['dtype']}-{case['base']:g}-{case['dim']}-{case['position']}-"
        f"{case['wave']}{case['part']}"
    )


def arb_bits(case: dict) -> int:
    """Return the bits of a hard case, computed by Arb and rounded once."""
    return int(
        oracle.wave_bits(
            case["dtype"],
            np.array([case["part"] == "sin"]),
            case["base"],
            oracle.Fraction(case["dim"], 2),
            [case["position"]],
            [case["wave"]],
            amplitude=case["amplitude"],
        )[0]
    )


@pytest.mark.parametrize("rows_before", [0, 1, 70])
@pytest.mark.parametrize("case", HARD_CASES, ids=name_of)
@pytest.mark.sample(10)
def test_the_elements_nearest_to_ties_are_correctly_rounded(case, rows_before):
    """Each of HARD_CASES is made as the last row of a table that begins 0, 1 or 70 rows before it
    (or at position 0); the expected bits are those of Arb (python-flint).
    """
    rows_before = min(rows_before, case["position"])
    scheme = Sinusoidal(
        rows_before + 1,
        case["dim"],
        offset=case["position"] - rows_before,
        base=case["base"],
        amplitude=case["amplitude"],
        dtype=case["dtype"],
    )
    # The columns are sin 0, cos 0, sin 1, cos 1, ….
    column = 2 * case["wave"] + (case["part"] == "cos")

    last_row = scheme.tables()["pe"][-1]
    assert oracle.bits(last_row)[column] == arb_bits(case)


SINES_OF_ZERO = 9
"""Of the 400 elements of `scattered_elements`, those that are sines at position 0."""


def scattered_elements(dtype: str, amplitude: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the bits of 400 elements of a table, computed one by one, and those of Arb.

    Elements are sines and cosines of any of 24 frequencies at positions up to 2^40; the first 40 are
    at the positions 0, 1 and 2.
    """
    rng = np.random.default_rng(8)
    count = 400
    positions = rng.integers(0, 2**40, count)
    columns = rng.integers(0, 24, count)
    positions[:40] = rng.integers(0, 3, 40)
    is_sine = rng.random(count) < 0.5

    assert np.count_nonzero(is_sine & (positions == 0)) == SINES_OF_ZERO

    def make_waves() -> ExactWaves:
        frequencies = geometric(10000.0, oracle.Fraction(24), 24)
        return ExactWaves.from_frequencies(frequencies, amplitude=amplitude)

    found = correct_rounding.rounded_elements(
        make_waves(),
        make_waves,  # called again for more bits
        positions=positions.astype(np.uint64),
        wave_indices=columns,
        is_sine=is_sine,
        dtype=dtype,
    )
    expected = oracle.wave_bits(
        dtype, is_sine, 10000.0, 24, positions.tolist(), columns.tolist(), amplitude=amplitude
    )
    return oracle.bits(found), expected


@pytest.fixture
def by_integers(monkeypatch):
    """Return a list that grows by every element that is rounded by integers of many bits."""
    elements = []
    compute = correct_rounding._round_by_integers

    def counted(waves, element, dtype):
        elements.append(element)
        return compute(waves, element, dtype)

    monkeypatch.setattr(correct_rounding, "_round_by_integers", counted)
    return elements


@pytest.mark.parametrize("dtype", [*NARROW_DTYPES, "float64"])
@pytest.mark.parametrize("amplitude", [1.0, 0.3])
def test_single_elements_are_correctly_rounded_without_integers_of_many_bits(
    by_integers, dtype, amplitude
):
    """The error of floats, 2^-50 of a value (2^-91 for float64), leaves one element in 2^25 in doubt;
    none of these 400 is. Arb gives the expected bits.
    """
    found, expected = scattered_elements(dtype, amplitude)

    np.testing.assert_array_equal(found, expected)
    assert by_integers == []


@pytest.mark.parametrize(
    ("dtype", "error_bound"),
    [
        ("float32", "FLOAT64_ERROR"),
        ("float16", "FLOAT64_ERROR"),
        ("bfloat16", "FLOAT64_ERROR"),
        ("float64", "PRODUCT_ERROR"),
    ],
)
@pytest.mark.parametrize("amplitude", [1.0, 0.3])
def test_single_elements_that_floats_leave_in_doubt_are_correctly_rounded_by_integers(
    monkeypatch, by_integers, dtype, error_bound, amplitude
):
    """`error_bound` is the relative error that floats claim for a dtype. If it is a half instead of
    2^-50, all of the 400 elements are in doubt except sines at position 0, which are exactly 0; then
    integers of many bits decide. Arb gives the expected bits.
    """
    monkeypatch.setattr(phases, error_bound, 0.5)
    found, expected = scattered_elements(dtype, amplitude)

    np.testing.assert_array_equal(found, expected)
    assert len(by_integers) == 400 - SINES_OF_ZERO


def test_an_element_that_no_number_of_bits_decides_is_an_error():
    """At position 0 the element is the amplitude, 1 + 2^-8, a tie of bfloat16, which is known with an
    error of 4 units of 2^-200 only: it lies above or below the tie, and more digits of the cosine
    do not help.
    """
    waves = phases.ExactWaves(
        turns=(1 << 190,),  # a quarter of a turn per position
        bits=192,
        amplitude=(1 << 200) + (1 << 192),
        amplitude_bits=200,
        amplitude_error=4,
    )

    with pytest.raises(
        ArithmeticError, match="more bits do not decide how position 0 of wave 0 rounds"
    ):
        correct_rounding.rounded_elements(
            waves,
            lambda: waves,
            positions=np.zeros(1, np.uint64),
            wave_indices=np.zeros(1, np.intp),
            is_sine=np.zeros(1, bool),
            dtype="bfloat16",
        )


@pytest.fixture
def elements_in_doubt(monkeypatch):
    """Return a list that grows by the indices of elements that a table computes again."""
    elements = []
    round_again = correct_rounding.rounded_elements

    def counted(waves, make_waves, positions, wave_indices, is_sine, dtype):
        elements.extend(wave_indices)
        return round_again(waves, make_waves, positions, wave_indices, is_sine, dtype)

    monkeypatch.setattr(cos_sin_tables, "rounded_elements", counted)
    return elements


@pytest.mark.parametrize("dtype", NARROW_DTYPES)
@pytest.mark.parametrize("amplitude", [1.0, 0.3])
def test_a_table_whose_elements_are_all_in_doubt_has_the_same_bytes(
    monkeypatch, elements_in_doubt, dtype, amplitude
):
    """Elements are multiplied by 2^47 and rounded to integers; one that ends in as many zeros as a tie
    of the dtype does is in doubt, and computed again. Multiplied by 2^6 instead, all are integers up
    to 64, which have no more digits than a tie, so that all 90 × 14 elements are in doubt.
    """
    scheme = Sinusoidal(90, 14, offset=999_000, amplitude=amplitude, dtype=dtype)
    expected = scheme.tables()["pe"]

    assert elements_in_doubt == []

    monkeypatch.setattr(tiles, "_TEST_SCALE", 2.0**6)
    elements_in_doubt.clear()
    found = scheme.tables()["pe"]

    assert found.tobytes() == expected.tobytes()
    assert len(elements_in_doubt) == 90 * 14


@pytest.mark.parametrize(
    ("dtype", "significand"), [("float32", 24), ("float16", 11), ("bfloat16", 8)]
)
def test_ties_at_position_zero_go_to_even(by_integers, dtype, significand):
    """amplitude · cos 0 is the amplitude: 1 + u/2 lies halfway between 1 and 1 + u (1 is even), and
    1 + 3u/2 between 1 + u and 1 + 2u (the even one), where u is the distance of the dtype's numbers
    above 1. Both are decided by the exact integers, the last resort.
    """
    for odd in (0, 1):
        amplitude = 1 + odd * 2.0 ** (1 - significand) + 2.0**-significand
        cosine = Sinusoidal(1, 2, amplitude=amplitude, dtype=dtype).tables()["pe"][0, 1]
        assert float(cosine) == 1 + odd * 2.0 ** (2 - significand)
    assert len(by_integers) == 2


@pytest.mark.parametrize(("number", "expected"), [(0, 1), (1, 1), (2, 2), (3, 4), (4, 4), (5, 8)])
def test_a_number_is_rounded_up_to_a_power_of_two(number, expected):
    """`power_of_two` returns the smallest power of two that is not below the number."""
    assert tiles.power_of_two(number) == expected
