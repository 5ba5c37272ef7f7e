"""Cosines and sines at positions that are fractions: each is correctly rounded.

Positions may be float64 numbers, decimals that were typed (0.1 means 1/10), and coordinates of
grids. Expected bits come from Arb (python-flint), which computes amplitude · sin or cos(position ·
10000^(-2i/40)) as balls and rounds once; `table_bits` are those of the package, `exact_bits` the
expected ones.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

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


@pytest.mark.parametrize("count", [100, pytest.param(2000, marks=pytest.mark.thorough)])
def test_random_timesteps_and_those_nearest_to_ties_are_correctly_rounded(count: int) -> None:
    """Of 50,000 random times between 0 and 1000, the first ones, and those of which a cosine comes
    nearest to the middle between two float32 numbers (within a thousandth of their distance). The
    expected bits are Arb's.
    """
    every = np.random.default_rng(5).uniform(0, 1000, 50_000)
    cosines = np.cos(every[:, None] * BASE ** (-np.arange(DIM // 2) / (DIM // 2)))
    units = np.spacing(np.abs(np.nextafter(cosines.astype(np.float32), np.float32(-2)))).astype(
        np.float64
    )
    to_tie = np.abs(np.abs(cosines - cosines.astype(np.float32)) / units - 0.5).min(axis=1)
    hard = np.argsort(to_tie)[: count // 4]

    assert to_tie[hard].max() < 1e-3

    positions = [Fraction(float(value)) for value in (*every[hard], *every[:count])]
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


def rational_cosine(turns: Fraction) -> float | None:
    """cos 2π·turns where that is rational (Niven): 0, ±1/2 and ±1."""
    if (turns * 4).denominator == 1:
        return (1.0, 0.0, -1.0, 0.0)[int(turns * 4) % 4]
    return (
        (1.0, 0.5, -0.5, -1.0, -0.5, 0.5)[int(turns * 6) % 6]
        if (turns * 6).denominator == 1
        else None
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("part", ["cos", "sin"])
def test_positions_in_turns_are_exact_where_cosines_are_rational(dtype: str, part: str) -> None:
    """Angles are 2π · position · 10000^(-2i/40), so that every fifth frequency is a power of 1/10.
    By Niven's theorem a rational cosine of a rational share of a turn is 0, ±1/2 or ±1; such
    elements must be exactly that (at least 40 occur), and others have Arb's bits.
    """
    positions = [Fraction(k, n) for n in (3, 5, 7, 12) for k in range(-n, n + 1)]
    found = rotation(positions, in_turns=True).table(part, positions, np.arange(DIM // 2), dtype)
    quarter, exact = Fraction(1, 4) if part == "sin" else 0, 0

    for row, position in enumerate(positions):
        for i in range(DIM // 2):
            known = None if i % 5 else rational_cosine(position / 10 ** (i // 5) - quarter)
            if known is not None:
                assert float(found[row, i]) == known
                exact += 1
            elif i % 5 == 0 or row % 7 == 0:
                assert bits(found)[row, i] == element(position, i, dtype, part)
    assert exact >= 40


def element(position: Fraction, i: int, dtype: str, part: str) -> int:
    def compute() -> int:
        angle = rational(position) * 2 * arb.pi() * arb(BASE) ** rational(Fraction(-2 * i, DIM))
        return int(digits_of([angle.sin() if part == "sin" else angle.cos()]).round(dtype)[0])

    return settled(compute)


def test_rows_of_a_grid_are_the_same_in_any_block_and_correctly_rounded() -> None:
    """A grid of 300 × 40 points, whose even waves follow the row of a point (in thirds) and odd
    ones its column. 777 rows that are made by themselves are those of the whole table; the sines of
    three rows have the bits of Arb's values (`exact_bits`).
    """
    frequencies = numerics.geometric(BASE, Fraction(DIM, 2), DIM // 2)
    rows = [Fraction(k, 3) for k in range(300)]
    columns = [*range(40)]

    def index(start: int, stop: int) -> np.ndarray:
        return np.array(np.divmod(np.arange(start, stop), 40))

    axes = [k % 2 for k in range(DIM // 2)]
    places = Coordinates((rows, columns), 12000, index)
    filler = AxisFiller(
        lambda unit: ExactWaves.from_frequencies(frequencies, scale=unit), axes, places
    )
    whole = np.empty((12000, DIM), np.float32)
    filler.fill("sin,cos", 0, whole, "float32")
    part = np.empty((777, DIM), np.float32)
    filler.fill("sin,cos", 5000, part, "float32")

    np.testing.assert_array_equal(part, whole[5000:5777])

    for k in (0, 41, 11999):
        for axis, position in ((0, rows[k // 40]), (1, columns[k % 40])):
            true = exact_bits([position], "float32", "sin")[0]
            np.testing.assert_array_equal(bits(whole[k, 0::2])[axis::2], true[axis::2])


YARN = {"scaling": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
LONGROPE = {"scaling": "longrope", "short_factor": (1.0, 1.0), "long_factor": (1.0, 1.0)}
SQUARE = {
    **LONGROPE,
    "original_max_position_embeddings": 2**12,
    "max_position_embeddings": 2**27,
}  # √(1 + 15/12) = 3/2
CLOSE_TO_TIES: list[tuple[type[Rope | Sinusoidal], dict[str, Any]]] = [
    (Sinusoidal, {"base": 2.0**246, "positions": [16777217]}),
    (Sinusoidal, {"base": 2.0**246, "positions": [16777217, 3, 2**40]}),
    (Rope, {"positions": [257 * 2.0**-120], "dtype": "bfloat16"}),
    (Rope, {"positions": [16777217 * 2.0**-125]}),
    (Rope, {"positions": [Fraction(2**53 + 1, 2**300)], "dtype": "float64"}),
    (Rope, {"base": 2.0**246, "seq_len": 1, "offset": 16777217}),
    (Rope, {"positions": [f"257/{3 * 2**120}"], "dtype": "bfloat16", **SQUARE}),
    (Rope, {"positions": [Fraction(16777217, 3 * 2**140), 1], **SQUARE}),
    (Rope, {"positions": [0, 1], "dtype": "bfloat16", "attention_factor": 1 + 3 * 2.0**-8, **YARN}),
    (Rope, {"seq_len": 2, "attention_factor": 1 + 3 * 2.0**-24, **YARN}),
    (Rope, {"positions": [6.63123685e-316, 9.113902524445497e-305, 1.6e-322], "dtype": "float64"}),
]
"""sin x = x − x³/6 + …, times an amplitude, at an x with one bit too many: what decides comes hundreds of bits later.
At position 0 an amplitude may be a tie itself. And float64 numbers too small for two of them to be one number."""


@pytest.mark.parametrize(("kind", "options"), CLOSE_TO_TIES)
def test_elements_close_to_ties_are_correctly_rounded(
    kind: type[Rope | Sinusoidal], options: dict[str, Any]
) -> None:
    """For tiny x, sin x = x − x³/6 lies just below x: if x is halfway between two floats, hundreds
    of bits decide. Arb computes them. At position 0 an amplitude may itself be a tie.
    """
    scheme = kind(dim=4, **options)
    first = options.get("offset", 0)
    positions = options.get("positions") or range(first, first + options["seq_len"])

    def values(position: Any, part: str) -> list[arb]:
        inverse, factor = frequencies({"dim": 4, "base": BASE, **options, "positions": [0]})
        factor = factor * arb(options.get("amplitude", 1.0))
        return [
            factor * getattr(frequency * rational(Fraction(position)), part)()
            for frequency in inverse
        ]

    tables = scheme.tables()
    if "pe" in tables:
        tables = {"sin": tables["pe"][:, ::2], "cos": tables["pe"][:, 1::2]}
    for part in ("sin", "cos"):
        for row, position in zip(tables[part], positions, strict=True):
            true = rounded(lambda: values(position, part), scheme.dtype)  # noqa: B023 - called at once
            np.testing.assert_array_equal(bits(row), true)
