"""Cosines and sines at positions that are fractions: each is correctly rounded.

Positions may be float64 numbers, decimals that were typed (0.1 means 1/10), and coordinates of
grids. Expected bits come from Arb (python-flint), which computes amplitude · sin or cos(position ·
10000^(-2i/40)) as balls and rounds once; `table_bits` are those of the package, `exact_bits` the
expected ones.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from flint import arb

from pecli.engine import numerics
from pecli.engine.numerics.axis_tables import AxisFiller, Coordinates, listed_coordinates
from pecli.engine.numerics.phases import ExactWaves
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.sinusoidal import Sinusoidal
from tests.oracle import bits, digits_of, frequencies, rational, rounded, settled

DTYPES = ("float32", "float16", "bfloat16", "float64")
DIM, BASE = 40, 10000.0


def rotation(
    positions: Sequence[int | Fraction], *, in_turns: bool = False, amplitude: float = 1.0
) -> AxisFiller:
    frequencies = numerics.geometric(BASE, Fraction(DIM, 2), DIM // 2)

    def make(unit: Fraction) -> ExactWaves:
        return ExactWaves.from_frequencies(
            frequencies, scale=unit, amplitude=amplitude, in_turns=in_turns
        )

    return AxisFiller(make, [0] * (DIM // 2), listed_coordinates([positions]))


def exact_bits(
    positions: Sequence[int | Fraction], dtype: str, part: str, *, amplitude: float = 1.0
) -> np.ndarray:
    def row(position: int | Fraction) -> np.ndarray:
        def compute() -> np.ndarray:
            angle = rational(position)
            angles = [
                angle * arb(BASE) ** rational(Fraction(-2 * i, DIM)) if i else angle
                for i in range(DIM // 2)
            ]
            values = [each.sin() if part == "sin" else each.cos() for each in angles]
            return digits_of([value * arb(amplitude) for value in values]).round(dtype)

        return settled(compute)

    return np.stack([row(position) for position in positions])


def table_bits(
    positions: Sequence[int | Fraction], dtype: str, part: str, **options: float
) -> np.ndarray:
    found = rotation(positions, **options)
    return bits(found.table(part, positions, np.arange(DIM // 2), dtype))


def magnitudes(count: int) -> list[Fraction]:
    """float64 numbers of both signs, from 2^-60 to 2^40."""
    rng = np.random.default_rng(11)
    values = rng.uniform(-1, 1, count) * 2.0 ** rng.integers(-60, 41, count)
    return [Fraction(float(value)) for value in values]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("part", ["cos", "sin"])
def test_positions_that_are_floats_of_any_size_are_correctly_rounded(dtype: str, part: str) -> None:
    """0 and 40 random float64 positions of both signs between 2^-60 and 2^40; the expected bits are
    Arb's.
    """
    positions = [Fraction(0), *magnitudes(40)]
    np.testing.assert_array_equal(
        table_bits(positions, dtype, part), exact_bits(positions, dtype, part)
    )


def distances_to_ties(cosines: np.ndarray) -> np.ndarray:
    """Return how far numbers are from the middle between their two neighbours in float32: 0 to 0.5, in
    units of the distance between the neighbours.
    """
    nearest = cosines.astype(np.float32)
    # Below a power of two, neighbours are half as far apart as above: take the smaller distance.
    spacings = np.spacing(np.nextafter(np.abs(nearest), np.float32(0))).astype(np.float64)
    return np.abs(np.abs(cosines - nearest) / spacings - 0.5)


@pytest.mark.parametrize("count", [100, pytest.param(2000, marks=pytest.mark.thorough)])
def test_random_timesteps_and_those_nearest_to_ties_are_correctly_rounded(count: int) -> None:
    """Diffusion models have times between 0 and 1000 as positions. Of 50,000 random ones, these are the
    first `count`, and count / 4 of which a cosine comes nearest to a tie, the middle between two
    float32 numbers (within 1/1000 of their distance). The expected bits are Arb's.
    """
    times = np.random.default_rng(5).uniform(0, 1000, 50_000)
    frequencies_in_float64 = BASE ** (-np.arange(DIM // 2) / (DIM // 2))
    cosines = np.cos(times[:, None] * frequencies_in_float64)
    distance_of_time = distances_to_ties(cosines).min(axis=1)
    hardest = np.argsort(distance_of_time)[: count // 4]

    assert distance_of_time[hardest].max() < 1e-3

    positions = [Fraction(float(time)) for time in (*times[hardest], *times[:count])]
    for part in ("cos", "sin"):
        np.testing.assert_array_equal(
            table_bits(positions, "float32", part), exact_bits(positions, "float32", part)
        )


@pytest.mark.parametrize("amplitude", [1.0, 0.3])
def test_positions_that_were_typed_as_decimals_are_exact_fractions(amplitude: float) -> None:
    """0.1 as a text is the fraction 1/10, and not the float64 number nearest to it; the expected
    bits are Arb's, at the fractions.
    """
    positions = [
        Fraction(text)
        for text in ("0.1", "-0.1", "999.999", "1/3", "123456.000000000000000001", "1e-30")
    ]
    for part in ("cos", "sin"):
        found = table_bits(positions, "float64", part, amplitude=amplitude)
        true = exact_bits(positions, "float64", part, amplitude=amplitude)
        np.testing.assert_array_equal(found, true)

    assert Fraction(0.1) != Fraction("0.1")


RATIONAL_COSINES = {
    Fraction(0): 1.0,
    Fraction(1, 6): 0.5,
    Fraction(1, 4): 0.0,
    Fraction(1, 3): -0.5,
    Fraction(1, 2): -1.0,
    Fraction(2, 3): -0.5,
    Fraction(3, 4): 0.0,
    Fraction(5, 6): 0.5,
}
"""All rational cosines of rational parts of a turn, by Niven's theorem."""

POSITIONS_IN_TURNS = [Fraction(k, n) for n in (3, 5, 7, 12) for k in range(-n, n + 1)]
"""Thirds, fifths, sevenths and twelfths from −1 to 1 turn."""


def table_in_turns(part: str, dtype: str) -> np.ndarray:
    """Return cos or sin of 2π · position · 10000^(-i/20) at POSITIONS_IN_TURNS, a column per i."""
    filler = rotation(POSITIONS_IN_TURNS, in_turns=True)
    return filler.table(part, POSITIONS_IN_TURNS, np.arange(DIM // 2), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("part", "count"), [("cos", 42), ("sin", 40)])
def test_rational_cosines_and_sines_are_exact(dtype: str, part: str, count: int) -> None:
    """Every fifth frequency is a power of 1/10, so that its angles are rational parts of a turn.
    RATIONAL_COSINES has those with rational cosines; sin is the cosine a quarter of a turn earlier.
    Counted by hand, 42 cosines of the table are rational: at frequency 1 those of 7 thirds, 3 fifths,
    3 sevenths and 17 twelfths, and 12 of angle 0 at the others; and 3 + 3 + 3 + 17 + 14 sines.
    """
    table = table_in_turns(part, dtype)
    quarter = Fraction(1, 4) if part == "sin" else 0
    rational_elements = 0

    for row, position in enumerate(POSITIONS_IN_TURNS):
        for power in range(4):  # The frequencies 0, 5, 10 and 15 are 1, 1/10, 1/100 and 1/1000.
            expected = RATIONAL_COSINES.get((position / 10**power - quarter) % 1)
            if expected is not None:
                assert float(table[row, 5 * power]) == expected
                rational_elements += 1
    assert rational_elements == count


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("part", ["cos", "sin"])
def test_positions_in_turns_are_correctly_rounded(dtype: str, part: str) -> None:
    """Angles are 2π · position · 10000^(-i/20). All elements of every fifth frequency, and every
    seventh row of the others, have the bits of Arb, except where cosines and sines are rational.
    """
    table = table_in_turns(part, dtype)
    quarter = Fraction(1, 4) if part == "sin" else 0

    for row, position in enumerate(POSITIONS_IN_TURNS):
        for i in range(DIM // 2):
            is_power_of_ten = i % 5 == 0
            if is_power_of_ten and (position / 10 ** (i // 5) - quarter) % 1 in RATIONAL_COSINES:
                continue  # Arb's balls do not decide how exact values round.
            if is_power_of_ten or row % 7 == 0:
                assert bits(table)[row, i] == arb_bits_in_turns(position, i, dtype, part)


def arb_bits_in_turns(position: Fraction, i: int, dtype: str, part: str) -> int:
    """Return the bits of cos or sin of 2π · position · 10000^(-i/20), by Arb."""

    def compute() -> int:
        angle = rational(position) * 2 * arb.pi() * arb(BASE) ** rational(Fraction(-2 * i, DIM))
        return int(digits_of([angle.sin() if part == "sin" else angle.cos()]).round(dtype)[0])

    return settled(compute)


GRID_ROWS = [Fraction(k, 3) for k in range(300)]
"""The coordinates of the 300 rows of a grid: thirds."""
GRID_COLUMNS = range(40)
"""The coordinates of the 40 columns of a grid."""


@cache
def grid_filler() -> AxisFiller:
    """Return the maker of a table with a row per point of a grid of 300 × 40.

    Even waves (frequencies) follow the row of a point, axis 0, and odd waves its column, axis 1.
    """
    frequencies = numerics.geometric(BASE, Fraction(DIM, 2), DIM // 2)

    def row_and_column(start: int, stop: int) -> np.ndarray:
        points = np.arange(start, stop)
        return np.array([points // 40, points % 40])

    return AxisFiller(
        lambda unit: ExactWaves.from_frequencies(frequencies, scale=unit),
        axis_of_wave=[0, 1] * (DIM // 4),
        coordinates=Coordinates((GRID_ROWS, GRID_COLUMNS), rows=12_000, index=row_and_column),
    )


def grid_table(first: int, count: int) -> np.ndarray:
    """Return some rows of the table: the columns are sin 0, cos 0, sin 1, cos 1, …."""
    table = np.empty((count, DIM), np.float32)
    grid_filler().fill("sin,cos", first, table, "float32")
    return table


def test_rows_of_a_grid_are_the_same_in_any_block() -> None:
    """777 rows that are made by themselves are those of the whole table, which has a row per point of
    a grid of 300 × 40.
    """
    whole = grid_table(0, 12_000)
    block = grid_table(5000, 777)

    np.testing.assert_array_equal(block, whole[5000:5777])


@pytest.mark.parametrize(
    ("point", "row", "column"),
    [(0, 0, 0), (41, 1, 1), (11_999, 299, 39)],
    ids=["first point", "second row", "last point"],
)
def test_rows_of_a_grid_are_correctly_rounded(point: int, row: int, column: int) -> None:
    """Point 41 of a grid with 40 columns is row 1, column 1. The sines of even waves are those of the
    row's coordinate, and of odd waves those of the column's. `exact_bits` are Arb's.
    """
    sines = bits(grid_table(0, 12_000)[point, 0::2])

    sines_of_row = exact_bits([GRID_ROWS[row]], "float32", "sin")[0]
    sines_of_column = exact_bits([GRID_COLUMNS[column]], "float32", "sin")[0]
    np.testing.assert_array_equal(sines[0::2], sines_of_row[0::2])
    np.testing.assert_array_equal(sines[1::2], sines_of_column[1::2])


YARN = {"scaling": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
LONGROPE = {
    "scaling": "longrope",
    "short_factor": (1.0, 1.0),
    "long_factor": (1.0, 1.0),
    "original_max_position_embeddings": 2**12,
    "max_position_embeddings": 2**27,
}
"""Multiplies cosines and sines by √(1 + log(2^27 / 2^12) / log(2^12)) = √(1 + 15/12) = 3/2."""


class CloseToTie(NamedTuple):
    """A scheme of dim 4 with an element next to the middle between two numbers of its dtype."""

    kind: type[Rope | Sinusoidal]
    options: dict[str, Any]
    positions: list[int | float | str | Fraction]


CLOSE_TO_TIES = {
    # float32 has 24 bits, so that 2^24 + 1 is a tie, and so is its product with base^(-1/2) = 2^-123.
    "sin of a tie of float32": CloseToTie(Sinusoidal, {"base": 2.0**246}, [2**24 + 1]),
    "the same among others": CloseToTie(Sinusoidal, {"base": 2.0**246}, [2**24 + 1, 3, 2**40]),
    "the same of a range": CloseToTie(
        Rope, {"base": 2.0**246, "seq_len": 1, "offset": 2**24 + 1}, [2**24 + 1]
    ),
    "sin of a tiny tie of float32": CloseToTie(Rope, {}, [(2**24 + 1) * 2.0**-125]),
    # bfloat16 has 8 bits, and float64 has 53.
    "of bfloat16": CloseToTie(Rope, {"dtype": "bfloat16"}, [(2**8 + 1) * 2.0**-120]),
    "of float64": CloseToTie(Rope, {"dtype": "float64"}, [Fraction(2**53 + 1, 2**300)]),
    # 3/2 · sin x, where 3/2 · x is a tie.
    "times 3/2, of bfloat16": CloseToTie(
        Rope, {"dtype": "bfloat16", **LONGROPE}, [f"{2**8 + 1}/{3 * 2**120}"]
    ),
    "times 3/2, of float32": CloseToTie(Rope, LONGROPE, [Fraction(2**24 + 1, 3 * 2**140), 1]),
    # The attention factor is a tie, and so is its product with cos 0 = 1.
    "attention factor, bfloat16": CloseToTie(
        Rope, {"dtype": "bfloat16", "attention_factor": 1 + 3 * 2.0**-8, **YARN}, [0, 1]
    ),
    "attention factor, float32": CloseToTie(
        Rope, {"seq_len": 2, "attention_factor": 1 + 3 * 2.0**-24, **YARN}, [0, 1]
    ),
    # A number of 106 bits is the sum of two of float64, of which the second would be below 2^-1074.
    "too small for sums of two numbers": CloseToTie(
        Rope, {"dtype": "float64"}, [6.63123685e-316, 9.113902524445497e-305, 1.6e-322]
    ),
}


def arb_rows(case: CloseToTie, part: str, dtype: str) -> np.ndarray:
    """Return the bits of attention factor · sin or cos(position · frequency), by Arb.

    A row per position, with the frequencies of the papers' formulas.
    """

    def row(position: int | float | str | Fraction) -> np.ndarray:
        def compute() -> list[arb]:
            # LongRoPE has other frequencies for long tables, but its factors are equal here.
            spec = {"dim": 4, "base": BASE, **case.options}
            inverse_frequencies, factor = frequencies(spec)
            angles = [frequency * rational(Fraction(position)) for frequency in inverse_frequencies]
            return [factor * (angle.sin() if part == "sin" else angle.cos()) for angle in angles]

        return rounded(compute, dtype)

    return np.stack([row(position) for position in case.positions])


@pytest.mark.parametrize("case", CLOSE_TO_TIES.values(), ids=CLOSE_TO_TIES)
def test_elements_close_to_ties_are_correctly_rounded(case: CloseToTie) -> None:
    """For tiny x, sin x = x − x³/6 lies just below x: if x is halfway between two floats, hundreds of
    bits decide. At position 0 the attention factor may itself be halfway. Arb computes the bits.
    """
    is_range = "seq_len" in case.options
    positions = {} if is_range else {"positions": case.positions}
    scheme = case.kind(dim=4, **positions, **case.options)

    tables = scheme.tables()
    if "pe" in tables:  # sin 0, cos 0, sin 1, cos 1
        tables = {"sin": tables["pe"][:, 0::2], "cos": tables["pe"][:, 1::2]}
    for part in ("sin", "cos"):
        np.testing.assert_array_equal(bits(tables[part]), arb_rows(case, part, scheme.dtype))
