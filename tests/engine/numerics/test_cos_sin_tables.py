"""Tables of cosines and sines: every element is correctly rounded, in whatever part, tile or block
it is made.

A table is made from products of a few exact values; elements that such a product leaves in doubt (a
tie between two floats lies within its error) are computed again with more digits. Expected bits are
those of Arb, arbitrary-precision balls of python-flint, rounded once (tests/oracle.py), or the
bytes of the same row made alone. A `filled_table` holds the part "sin", "cos" or both in turn, from
position `first` on, at base 10000.
"""

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
        lambda: ExactWaves.from_frequencies(
            geometric(base, oracle.Fraction(width), width), amplitude=amplitude
        ),
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


@pytest.mark.parametrize("dtype", ALL_DTYPES)
@pytest.mark.parametrize("part", ["cos", "sin", "cos,sin", "sin,cos"])
@pytest.mark.parametrize("size", [1 << 15, 1 << 16])
@pytest.mark.sample(5)
def test_a_table_across_several_segments_has_the_rows_that_are_made_one_by_one(
    monkeypatch, size, part, dtype
):
    """A segment is a run of positions that share one starting angle. With tiles this small a segment is
    shorter than half the table, which begins and ends within one. The rows made one by one are held
    against Arb above.
    """
    monkeypatch.setattr(phases, "TILE", size)
    width, first, rows = 300, 2**33 - 700, 2600
    columns = width * len(part.split(","))
    made = exact_filler(width, 4000)
    alone = exact_filler(width, 1)

    assert (
        dtype == "float64"
        or tiles.Factors(made.waves, slice(0, width), part, 4000).sizes.rows_per_segment < rows // 2
    )

    whole = filled_table(made, part, first, rows, columns, dtype)
    for row in (0, 1, *range(150, rows, 197), rows - 1):
        assert (
            whole[row].tobytes()
            == filled_table(alone, part, first + row, 1, columns, dtype).tobytes()
        )


@pytest.mark.parametrize("part", ["cos", "sin", "cos,sin", "sin,cos"])
def test_products_are_off_by_at_most_four_fifths_of_the_proven_bound(part):
    """A table is a product of factors for segments (runs of positions that share a starting angle) and
    for rows within them. Before rounding, an element may be off by ERROR = 1.7e-15, which was
    proven and on which the search for doubtful elements rests. The exact values are float64 tables,
    which another test compares with Arb; the segment is at position 2^39.
    """
    made, width = exact_filler(40, 4096), 40
    columns = width * len(part.split(","))
    factors = tiles.Factors(made.waves, slice(0, width), part, 4096)
    tile = tiles.Tile(factors, columns, "float32")
    segment = 2**39 // factors.sizes.rows_per_segment + 1
    tile._compute_anchors(segment, factors.starts(range(segment, segment + 1))[0])
    together = factors.sizes.rows_per_tile // factors.sizes.rows_per_anchor

    for k in range(factors.sizes.anchors_per_segment // together):
        tile._multiply_anchors(k * together, together)
        found = tile._values / factors.test_scale
        first = segment * factors.sizes.rows_per_segment + k * factors.sizes.rows_per_tile
        exact = filled_table(made, part, first, factors.sizes.rows_per_tile, columns, "float64")
        assert np.abs(found - exact).max() <= tiles.ERROR * 0.8


HARD_CASES = json.loads(Path(__file__).with_name("hard_cases.json").read_text())
"""The hardest of 1.1e10 elements of tables with well-known bases and dims, positions to 2^20 and below 2^40: made in
float64 from products of two small tables of flint's, those that look like ties of a dtype computed
again as balls (some come within 1e-10 ulp of a tie). And of 60,000 amplitudes for each dtype that
bring an element close to a tie, the best.
"""
NARROW_DTYPES = ("float32", "float16", "bfloat16")


def name_of(case: dict) -> str:
    return
    f"{case['dtype']}-{case['base']:g}-{case['dim']}-{case['position']}-{case['wave']}{case['part']}"


def truth(case: dict) -> int:
    sine = np.array([case["part"] == "sin"])
    place = (case["base"], oracle.Fraction(case["dim"], 2), [case["position"]], [case["wave"]])
    return int(oracle.wave_bits(case["dtype"], sine, *place, amplitude=case["amplitude"])[0])


@pytest.mark.parametrize("before", [0, 1, 70])
@pytest.mark.parametrize("case", HARD_CASES, ids=name_of)
@pytest.mark.sample(10)
def test_the_elements_nearest_to_ties_are_correctly_rounded(case, before):
    """hard_cases.json lists elements of well-known tables whose true values come nearest to the
    middle between two floats, some within 1e-10 ulp. Each is made alone, and in a table that begins
    1 or 70 rows before it; the oracle is Arb.
    """
    before = min(before, case["position"])
    numbers = {name: case[name] for name in ("base", "amplitude", "dtype")}
    scheme = Sinusoidal(before + 1, case["dim"], offset=case["position"] - before, **numbers)
    column = 2 * case["wave"] + (case["part"] == "cos")

    assert oracle.bits(scheme.tables()["pe"][before])[column] == truth(case)


def every_element(dtype: str, amplitude: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Elements settled one by one, and the oracle's."""
    rng = np.random.default_rng(8)
    count = 400
    position = rng.integers(0, 2**40, count)
    column = rng.integers(0, 24, count)
    position[:40] = rng.integers(0, 3, 40)
    sine = rng.random(count) < 0.5

    def some() -> ExactWaves:
        return phases.ExactWaves.from_frequencies(
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
def test_elements_one_by_one_are_decided_in_floats_and_correctly_rounded(
    by_integers, dtype, amplitude
):
    """`every_element` computes 400 elements up to position 2^40 one by one, with Arb's bits beside
    them. Fewer than 20 need the slower integers of more digits, which `by_integers` lists.
    """
    found, expected = every_element(dtype, amplitude)

    np.testing.assert_array_equal(found, expected)
    assert len(by_integers) < 20


@pytest.mark.parametrize("dtype", [*NARROW_DTYPES, "float64"])
@pytest.mark.parametrize("amplitude", [1.0, 0.3])
def test_elements_that_floats_leave_in_doubt_are_correctly_rounded_by_integers(
    monkeypatch, by_integers, dtype, amplitude
):
    """If floats claim a relative error of a half, they decide next to nothing: more than 350 of
    400 elements are then computed in integers. Arb gives the expected bits.
    """
    monkeypatch.setattr(phases, "PRODUCT_ERROR" if dtype == "float64" else "FLOAT64_ERROR", 0.5)
    found, expected = every_element(dtype, amplitude)

    np.testing.assert_array_equal(found, expected)
    assert len(by_integers) > 350


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
        correct_rounding.round_waves(
            waves,
            lambda: waves,
            positions=np.zeros(1, np.uint64),
            wave_indices=np.zeros(1, np.intp),
            is_sine=np.zeros(1, bool),
            dtype="bfloat16",
        )


@pytest.mark.parametrize("dtype", NARROW_DTYPES)
@pytest.mark.parametrize("amplitude", [1.0, 0.3])
def test_a_table_whose_elements_are_nearly_all_in_doubt_has_the_same_bytes(
    monkeypatch, dtype, amplitude
):
    """A scale of 2^6 instead of 2^47 in the test for doubt puts more than 90 % of the elements in
    doubt, so that they are computed one by one; the bytes do not change.
    """
    scheme = Sinusoidal(90, 14, offset=999_000, amplitude=amplitude, dtype=dtype)
    usual = scheme.tables()["pe"].tobytes()
    seen = []
    monkeypatch.setattr(tiles, "_TEST_SCALE", 2.0**6)
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
