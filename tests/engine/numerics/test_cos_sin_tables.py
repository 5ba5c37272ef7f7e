"""Tables made by rotation: every part, start, width and length gives the same elements; the hardest are settled."""

import json
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
    return ExactFiller(
        lambda: ExactWaves.of(geometric(base, oracle.Fraction(width), width), amplitude=amplitude),
        count,
    )


def filled_table(
    made: ExactFiller, part: str, first: int, rows: int, columns: int, dtype: str
) -> np.ndarray:
    out = np.empty((rows, columns), oracle.DTYPES[dtype])
    made.fill(part, first, out, dtype)
    return out


@pytest.mark.parametrize("dtype", ALL_DTYPES)
@pytest.mark.parametrize("first", [0, 777, 2**40 - 300])
@pytest.mark.parametrize("amplitude", [1.0, 0.3, 5.0])
@pytest.mark.sample(8)
def test_every_element_of_a_table_is_correctly_rounded(first, dtype, amplitude):
    """The oracle computes with Arb's balls of arbitrary precision and rounds once."""
    made = exact_filler(12, 300, amplitude=amplitude)
    row, wave = (grid.ravel() for grid in np.indices((300, 12)))
    sines, cosines = oracle.waves(
        10000.0, 12, (row + first).tolist(), wave.tolist(), amplitude=amplitude
    )
    for part, digits in (("sin", sines), ("cos", cosines)):
        found = filled_table(made, part, first, 300, 12, dtype)
        np.testing.assert_array_equal(oracle.bits(found).ravel(), digits.round(dtype))


@pytest.mark.parametrize("dtype", ALL_DTYPES)
@pytest.mark.parametrize("width", [1, 5, 512, 513, 1100])
def test_pairs_are_the_single_parts_side_by_side(width, dtype):
    """Columns s0 c0 s1 c1 … hold the bytes of the tables s0 s1 … and c0 c1 …; an odd width ends early."""
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
    """Nor on how long the table was said to be."""
    whole = filled_table(exact_filler(width, 50), "cos", first, 50, width, dtype)
    alone = filled_table(exact_filler(width, count), "cos", first + row, 1, width, dtype)

    assert alone.tobytes() == whole[row : row + 1].tobytes()


@pytest.mark.parametrize("dtype", ALL_DTYPES)
@pytest.mark.parametrize("part", ["cos", "sin", "cos,sin", "sin,cos"])
@pytest.mark.parametrize("size", [1 << 15, 1 << 16])
@pytest.mark.sample(8)
def test_whole_leaps_and_what_lies_beside_them(monkeypatch, size, part, dtype):
    """A table that begins and ends within a leap, held against rows that were made one by one."""
    monkeypatch.setattr(phases, "TILE", size)
    width, first, rows = 300, 2**33 - 700, 2600
    columns = width * len(part.split(","))
    made, alone = exact_filler(width, 4000), exact_filler(width, 1)

    assert (
        dtype == "float64"
        or tiles.Factors(made.waves, slice(0, width), part, 4000).leap < rows // 2
    )

    whole = filled_table(made, part, first, rows, columns, dtype)
    for row in (0, 1, *range(150, rows, 197), rows - 1):
        assert (
            whole[row].tobytes()
            == filled_table(alone, part, first + row, 1, columns, dtype).tobytes()
        )


@pytest.mark.parametrize("part", ["cos", "sin", "cos,sin", "sin,cos"])
def test_products_stay_within_the_bound(part):
    """Before rounding, no element is off by more than ERROR: the doubt test rests on it."""
    made, width = exact_filler(40, 4096), 40
    columns = width * len(part.split(","))
    factors = tiles.Factors(made.waves, slice(0, width), part, 4096)
    tile, leap = tiles.Tile(factors, columns, "float32"), 2**39 // factors.leap + 1
    tile._enter_leap(leap, factors.starts(range(leap, leap + 1))[0])
    together = factors.height // factors.fine

    for k in range(factors.anchors // together):
        tile._multiply_anchors(k * together, together)
        found = tile._values / factors.unit
        first = leap * factors.leap + k * factors.height
        exact = filled_table(
            made, part, first, factors.height, columns, "float64"
        )  # held against the oracle above
        assert np.abs(found - exact).max() <= tiles.ERROR * 0.8


HARD_CASES = json.loads(Path(__file__).with_name("hard_cases.json").read_text())
"""The hardest of 1.1e10 elements of tables with well-known bases and dims, positions to 2^20 and below 2^40: made in
float64 from products of two small tables of flint's, those that look like ties of a dtype computed again as balls (some
come within 1e-10 ulp of a tie). And of 60,000 amplitudes for each dtype that bring an element close to a tie, the best.
"""
NARROW_DTYPES = ("float32", "float16", "bfloat16")


def name_of(case: dict) -> str:
    return f"{case['dtype']}-{case['base']:g}-{case['dim']}-{case['position']}-{case['wave']}{case['part']}"


def truth(case: dict) -> int:
    sine = np.array([case["part"] == "sin"])
    place = (case["base"], oracle.Fraction(case["dim"], 2), [case["position"]], [case["wave"]])
    return int(oracle.wave_bits(case["dtype"], sine, *place, amplitude=case["amplitude"])[0])


@pytest.mark.parametrize("before", [0, 1, 70])
@pytest.mark.parametrize("case", HARD_CASES, ids=name_of)
@pytest.mark.sample(10)
def test_the_elements_nearest_to_ties_are_correctly_rounded(case, before):
    """Alone, and as part of a table that begins before it; the oracle is Arb."""
    before = min(before, case["position"])
    numbers = {name: case[name] for name in ("base", "amplitude", "dtype")}
    scheme = Sinusoidal(before + 1, case["dim"], offset=case["position"] - before, **numbers)
    column = 2 * case["wave"] + (case["part"] == "cos")

    assert oracle.bits(scheme.tables()["pe"][before])[column] == truth(case)


def every_element(dtype: str, amplitude: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Elements settled one by one, and the oracle's."""
    rng = np.random.default_rng(8)
    count = 400
    position, column = rng.integers(0, 2**40, count), rng.integers(0, 24, count)
    position[:40] = rng.integers(0, 3, 40)
    sine = rng.random(count) < 0.5

    def some() -> ExactWaves:
        return phases.ExactWaves.of(
            geometric(10000.0, oracle.Fraction(24), 24), amplitude=amplitude
        )

    found = correct_rounding.round_waves(
        some(), some, position.astype(np.uint64), column, sine, dtype
    )
    true = oracle.wave_bits(
        dtype, sine, 10000.0, 24, position.tolist(), column.tolist(), amplitude=amplitude
    )
    return oracle.bits(found), true


@pytest.fixture
def by_integers(monkeypatch):
    elements = []
    compute = correct_rounding._round_by_integers

    def counted(waves, element, dtype):
        elements.append(element)
        return compute(waves, element, dtype)

    monkeypatch.setattr(correct_rounding, "_round_by_integers", counted)
    return elements


@pytest.mark.parametrize("dtype", [*NARROW_DTYPES, "float64"])
@pytest.mark.parametrize("amplitude", [1.0, 0.3])
def test_floats_and_integers_are_right(monkeypatch, by_integers, dtype, amplitude):
    """Floats settle nearly all; with a coarse error bound, integers do."""
    np.testing.assert_array_equal(*every_element(dtype, amplitude))
    assert len(by_integers) < 20

    monkeypatch.setattr(phases, "PRODUCT_ERROR" if dtype == "float64" else "FLOAT64_ERROR", 0.5)
    np.testing.assert_array_equal(*every_element(dtype, amplitude))
    assert len(by_integers) > 350


def test_what_no_number_of_bits_decides_is_no_silent_guess():
    """An amplitude that is a tie, as far as its digits tell."""
    one = phases.ExactWaves((1 << 190,), 192, (1 << 200) + (1 << 192), 200, 4)
    places = np.zeros(1, np.uint64), np.zeros(1, np.intp), np.zeros(1, bool)

    with pytest.raises(
        ArithmeticError, match="more bits do not decide how position 0 of wave 0 rounds"
    ):
        correct_rounding.round_waves(one, lambda: one, *places, "bfloat16")


@pytest.mark.parametrize("dtype", NARROW_DTYPES)
@pytest.mark.parametrize("amplitude", [1.0, 0.3])
def test_a_table_settled_throughout_is_the_same(monkeypatch, dtype, amplitude):
    """With a coarser unit every element is in doubt; the bytes do not change."""
    scheme = Sinusoidal(90, 14, offset=999_000, amplitude=amplitude, dtype=dtype)
    usual = scheme.tables()["pe"].tobytes()
    seen = []
    monkeypatch.setattr(tiles, "_UNITS", 2.0**6)
    settle = correct_rounding.round_waves
    monkeypatch.setattr(
        cos_sin_tables, "round_waves", lambda *args: seen.append(len(args[2])) or settle(*args)
    )

    assert scheme.tables()["pe"].tobytes() == usual
    assert sum(seen) > 90 * 14 * 0.9


@pytest.mark.parametrize(
    ("dtype", "significand"), [("float32", 24), ("float16", 11), ("bfloat16", 8)]
)
def test_ties_at_position_zero_go_to_even(by_integers, dtype, significand):
    """amplitude · cos 0 is exact, so it may be a tie; all ways see that, and the last one says so."""
    for odd in (0, 1):
        amplitude = 1 + odd * 2.0 ** (1 - significand) + 2.0**-significand
        cosine = Sinusoidal(1, 2, amplitude=amplitude, dtype=dtype).tables()["pe"][0, 1]
        assert float(cosine) == 1 + odd * 2.0 ** (2 - significand)
    assert len(by_integers) == 2


@pytest.mark.parametrize(("number", "expected"), [(0, 1), (1, 1), (2, 2), (3, 4), (4, 4), (5, 8)])
def test_powers_of_two_that_are_not_less(number, expected):
    assert tiles.power_of_two(number) == expected
