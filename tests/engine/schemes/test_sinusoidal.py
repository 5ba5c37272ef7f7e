"""Sinusoidal tables: every element is rounded once, and every style computes as its project does.

Expected bits come from Arb (python-flint), which computes amplitude · sin or cos(scale · position ·
base^(-i / n)) and rounds once (tests/oracle.py, sinusoidal_bits). A style is a name for a project's
options; FORMULAS writes each project's formula out in NumPy.
"""

import math

import numpy as np
import pytest

from pecli.engine.schemes.grid_styles import ADDED
from pecli.engine.schemes.sinusoidal import GRID_STYLES, STYLES, Sinusoidal
from pecli.errors import ParameterError
from tests.oracle import bits, sinusoidal_bits

DTYPES = ("float32", "float16", "bfloat16", "float64")
OFFSETS = (0, 10**6 - 100, 2**40 - 300)
LAYOUTS = [
    (layout, cos_first) for layout in ("interleaved", "halves") for cos_first in (False, True)
]


def sinusoidal_table(*args, **options) -> np.ndarray:
    return Sinusoidal(*args, **options).tables()["pe"]


def assert_equal_to_arbitrary_precision(
    rows: int, dim: int, *, samples: int, seed: int, **options
) -> None:
    """Compare elements of a table, bit by bit, with values of arbitrary precision.

    They are random, with the first and the last column among them; all if there are few.
    """
    found = sinusoidal_table(rows, dim, **options)
    rng = np.random.default_rng(seed)
    if rows * dim <= samples:
        row, column = (grid.ravel() for grid in np.indices((rows, dim)))
    else:
        row = rng.integers(0, rows, samples)
        column = rng.choice(np.concatenate([[0, dim - 1], rng.integers(0, dim, 98)]), samples)
    np.testing.assert_array_equal(
        bits(found[row, column]), sinusoidal_bits(row, column, dim=dim, **options)
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.sample(1)
def test_tables_of_many_bases_and_dimensions_are_correctly_rounded(offset, dtype):
    """300 random elements of each table are compared bit by bit with sin and cos of
    position · base^(−2i/dim), which Arb computes in arbitrary precision and rounds once.
    """
    for base in (2.0, 100.0, 10000.0, 500000.0, 1e6, 1e20, 0.5, 1.0, 1e300, 1e-5):
        assert_equal_to_arbitrary_precision(
            300, 64, samples=300, seed=1, base=base, offset=offset, dtype=dtype
        )
    for dim in (1, 2, 3, 64, 127, 1024):
        assert_equal_to_arbitrary_precision(
            280, dim, samples=300, seed=2, offset=offset, dtype=dtype
        )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.sample(1)
def test_a_table_of_65536_channels_is_correctly_rounded(dtype):
    """300 random elements are compared bit by bit with Arb's values; it is the largest dim."""
    assert_equal_to_arbitrary_precision(20, 65536, samples=300, seed=3, offset=999_990, dtype=dtype)


NUMBERS = [
    *({"amplitude": value} for value in (0.3, 0.125, 1e-6, 7.3e4, 1.0 + 2**-24, 1.0 + 2**-8)),
    *({"scale": value} for value in (1000.0, 0.1, 1e-9, 1e15)),
    *({"freq_shift": value} for value in (1.0, 0.5, -3.0)),
    {"freq_shift": 31.5, "base": 3.0},
    {"freq_shift": 1.0, "layout": "halves", "scale": 1000.0, "amplitude": 0.2, "cos_first": True},
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.sample(1)
def test_layouts_scale_amplitude_and_shift_are_correctly_rounded(dtype):
    """200 or 300 random elements of each table are compared bit by bit with Arb's values;
    freq_shift is what some projects subtract from dim/2 in the exponents.
    """
    for layout, cos_first in LAYOUTS:
        for dim in (1, 2, 3, 5, 64):
            assert_equal_to_arbitrary_precision(
                100,
                dim,
                samples=200,
                seed=4,
                layout=layout,
                cos_first=cos_first,
                dtype=dtype,
                offset=123_456,
            )
    for options in NUMBERS:
        assert_equal_to_arbitrary_precision(200, 64, samples=300, seed=5, dtype=dtype, **options)


def test_row_1_has_the_published_numbers():
    """Row 1 at dim 512: sin(10000^(-2/512)) by the paper, sin(10000^(-1/255)) by tensor2tensor
    (both printed from float32), and sin 1 and cos 1 from any book.
    """
    paper = sinusoidal_table(2, 512, dtype="float64")
    shifted = sinusoidal_table(2, 512, style="tensor2tensor", dtype="float64")

    assert paper[1, 2] == pytest.approx(0.82185619, abs=2**-25)
    assert shifted[1, 1] == pytest.approx(0.82177866, abs=2**-25)
    sin_1 = 0.8414709848078965
    cos_1 = 0.5403023058681398
    assert paper[1, :2].tolist() == pytest.approx([sin_1, cos_1], abs=1e-15)


def halves(position: float, dim: int, shift: int = 0, order=(np.sin, np.cos)) -> np.ndarray:
    """What most projects compute; where dim is odd, they pad a column of zeros."""
    half = dim // 2
    angles = position * 10000.0 ** (-np.arange(half) / max(half - shift, 1))
    return np.concatenate([*(wave(angles) for wave in order), np.zeros(dim % 2)])


def paper(position: int, dim: int) -> list[float]:
    return [
        (math.sin, math.cos)[c % 2](position / 10000 ** (2 * (c // 2) / dim)) for c in range(dim)
    ]


FORMULAS = {
    **dict.fromkeys(("paper", "lucid", "lightwatch"), paper),
    **dict.fromkeys(("roformer", "marian", "gptj", "ctrl"), halves),
    **dict.fromkeys(("tensor2tensor", "whisper", "ddpm"), lambda p, dim: halves(p, dim, 1)),
    **dict.fromkeys(("fairseq", "m2m100", "fsmt"), lambda p, dim: halves(p, dim, 1) * (p != 1)),
    **dict.fromkeys(
        ("stable-diffusion", "dit"), lambda p, dim: halves(p, dim, order=(np.cos, np.sin))
    ),
    "flux": lambda p, dim: halves(1000 * p, dim, order=(np.cos, np.sin)),
    "mlx": lambda p, dim: (
        math.sqrt(2 / dim) * halves(p, dim, 1)
    ),  # frequencies geometric from 1 to 1e-4
    "x-transformers": lambda p, dim: dim**-0.5 * halves(p, dim),
}
"""What each project computes, written from its own formula: (position, dim) → row."""


@pytest.mark.parametrize("style", STYLES)
def test_a_style_computes_what_its_project_computes(style):
    """FORMULAS writes each project's formula out in NumPy; Whisper's, for example, is all sines,
    then all cosines, of exponents i / (dim/2 − 1). With two channels nothing is divided by zero;
    zeros (padding, the last column of an odd dim) are exactly zero.
    """
    for dim in (2, 4, 6, 64, 7, 33):
        if dim % 2 and style in STYLES_OF_EVEN_DIMS:
            continue
        expected = np.array([FORMULAS[style](position, dim) for position in range(40)])
        found = sinusoidal_table(40, dim, style=style)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
        assert not bits(found)[expected == 0].any()


STYLES_OF_EVEN_DIMS = ("roformer", "marian", "gptj", "ctrl", "mlx", "x-transformers")


@pytest.mark.parametrize("style", STYLES_OF_EVEN_DIMS)
@pytest.mark.parametrize("dim", [7, 33])
def test_a_style_whose_project_has_even_dims_only_refuses_odd_ones(style, dim):
    """The projects after which these styles are named split dim into two equal halves, sines and
    cosines.
    """
    with pytest.raises(ParameterError, match=f"dim is {dim}; the {style} style has even dims only"):
        Sinusoidal(4, dim, style=style)


@pytest.mark.parametrize("offset", [0, 3, 5, 6])
def test_padding_idx_makes_the_row_of_that_position_zeros(offset):
    """padding_idx=5 means position 5, which is row 5 − offset, if a table of 4 rows has it."""
    table = sinusoidal_table(4, 6, offset=offset, padding_idx=5)
    is_zero = [not row.any() for row in table]

    assert is_zero == [offset + row == 5 for row in range(4)]


@pytest.mark.parametrize(
    ("style", "option", "set_by_style"),
    [
        pytest.param(
            "whisper", {"layout": "interleaved"}, {"freq_shift": 1.0}, id="another layout"
        ),
        pytest.param("whisper", {"freq_shift": 0.0}, {"layout": "halves"}, id="no shift"),
        pytest.param("flux", {"scale": 1.0}, {"cos_first": True}, id="no scale"),
        pytest.param("dit", {"cos_first": False}, {"layout": "halves"}, id="sines first"),
        pytest.param("mlx", {"amplitude": 1.0}, {"freq_shift": 1.0}, id="no amplitude"),
        pytest.param(
            "fairseq",
            {"padding_idx": 0, "base": 500.0},
            {"layout": "halves"},
            id="another padding and base",
        ),
    ],
)
def test_an_option_wins_over_the_style_which_sets_the_others(style, option, set_by_style):
    """A style is a name for the options of a project. `option` is given beside the style and differs
    from it; `set_by_style` is another option, which still has the value of the project's formula.
    """
    scheme = Sinusoidal(4, 8, style=style, **option)
    for name, value in {**option, **set_by_style}.items():
        assert getattr(scheme, name) == value


def test_a_style_is_a_name_for_its_options():
    """OpenAI's Whisper has all sines before all cosines (layout halves), and exponents i / (dim/2 − 1)
    (freq_shift 1): the style «whisper» makes the same scheme as these options.
    """
    styled = Sinusoidal(4, 8, style="whisper")
    spelled = Sinusoidal(4, 8, layout="halves", freq_shift=1)

    assert styled == spelled
    assert styled.spec() == spelled.spec()


def test_every_style_of_grids_is_an_option_of_sinusoidal_tables():
    """ADDED is the registry of styles; GRID_STYLES are the words that the parameter `style` accepts."""
    assert tuple(ADDED) == GRID_STYLES


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("exponent", [-24, -30, -45, -60, -75])
def test_sines_just_below_ties_are_correctly_rounded(exponent, dtype):
    """For tiny angles sin x = x − x³/6: if the scale is halfway between two numbers of the dtype,
    the sine of position 1 lies just below. Arb gives the bits; the second scale is the next such
    number.
    """
    significand = {"float32": 24, "float16": 11, "bfloat16": 8}[dtype]
    scale = (1 + 2.0**-significand) * 2.0**exponent

    assert_equal_to_arbitrary_precision(4, 2, samples=8, seed=0, scale=scale, dtype=dtype)
    assert_equal_to_arbitrary_precision(
        4, 2, samples=8, seed=0, scale=scale + 2.0 ** (1 + exponent - significand), dtype=dtype
    )


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"scale": (1 + 2.0**-24) * 2.0**-100}, id="float32"),
        pytest.param({"scale": 2.0**-150}, id="half of the smallest float32"),
        pytest.param({"scale": (1 + 2.0**-8) * 2.0**-100, "dtype": "bfloat16"}, id="bfloat16"),
    ],
)
def test_sines_of_ties_that_need_hundreds_of_bits_are_correctly_rounded(options):
    """At position 1 the angle is the scale, x. Each is a tie, halfway between two numbers of the dtype,
    and sin x = x − x³/6 lies below it by 2^-202 of itself or less. Arb computes that many bits.
    """
    assert_equal_to_arbitrary_precision(3, 2, samples=6, seed=0, **options)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"base": 1e60, "amplitude": 1 + 2.0**-24}, id="float32"),
        pytest.param(
            {"base": 1e300, "amplitude": 0.5 * (1 + 2.0**-8), "dtype": "bfloat16"}, id="bfloat16"
        ),
    ],
)
def test_cosines_times_ties_that_need_hundreds_of_bits_are_correctly_rounded(options):
    """The amplitude is a tie, halfway between two numbers of the dtype. Of 64 frequencies of so large a
    base, the slowest are x = base^(-63/64), below 2^-190, whose cosine 1 − x²/2 is 1 to 380 bits:
    times the amplitude, it lies just below the tie. Arb computes that many bits.
    """
    assert_equal_to_arbitrary_precision(3, 128, samples=3 * 128, seed=0, **options)


@pytest.mark.parametrize("amplitude", [1e-300, 1e-40, 1e-30, 1.1e30, 1e39, 1e300])
def test_an_amplitude_whose_products_float32_may_not_hold_is_refused(amplitude):
    """float32 has normal numbers from 1.2e-38 to 3.4e38. Amplitudes must stay well inside, as they are
    multiplied by sines, which may be small: above 1e-30 and up to 1e30.
    """
    with pytest.raises(ParameterError, match=r"must be a finite number above 1e-30, up to 1e\+30"):
        Sinusoidal(5, 4, amplitude=amplitude)


@pytest.mark.parametrize("amplitude", [1.1e-30, 1e-29, 1e29, 1e30])
def test_tables_of_the_smallest_and_largest_amplitudes_are_correctly_rounded(amplitude):
    """All 5 × 4 elements have the bits of Arb's products, rounded once to float32. NumPy warns of an
    overflow or underflow, and warnings are errors in these tests.
    """
    assert_equal_to_arbitrary_precision(5, 4, samples=20, seed=0, amplitude=amplitude)


@pytest.mark.parametrize("dim", [3, 6])
def test_channels_beyond_the_dim_of_a_grid_are_left_out(dim: int) -> None:
    """The package positional-encodings has 2·⌈dim/4⌉ channels for each of two axes, 2 or 4 here,
    together more than dim (4 > 3, 8 > 6): only dim channels stay. The grid has 6 · 2 points.
    """
    table = Sinusoidal(grid=(6, 2), dim=dim, style="positional-encodings-2d").tables()["pe"]
    assert table.shape == (12, dim)


@pytest.mark.parametrize("dim", [3, 6])
def test_a_grid_style_that_leaves_out_channels_is_refused_in_the_layout_halves(dim: int) -> None:
    """The style makes 2·⌈dim/4⌉ channels for rows and as many for columns: 4 in all for dim 3, of which
    the last, a cosine, is cut; 8 for dim 6, of which the last two, a sine and a cosine, are. In halves
    the last two are cosines, and sines would be left without them.
    """
    with pytest.raises(ParameterError, match="leaves out channels"):
        Sinusoidal(grid=(6, 2), dim=dim, layout="halves", style="positional-encodings-2d")


@pytest.mark.parametrize("dim", [4, 8])
def test_a_grid_style_that_uses_all_channels_may_have_the_layout_halves(dim: int) -> None:
    """dim is a multiple of 4, so that no channel of positional-encodings-2d is cut."""
    scheme = Sinusoidal(grid=(6, 2), dim=dim, layout="halves", style="positional-encodings-2d")
    assert scheme.tables()["pe"].shape == (12, dim)
