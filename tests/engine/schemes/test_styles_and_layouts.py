"""Small tables whose numbers are known in closed form: styles of grids, layouts, recipes, scalings.

A style is a project's rule for the channels of a grid: blocks of channels, each of which follows
one axis. A recipe computes a table in the dtypes of some project. Expected numbers are sines and
cosines of simple angles, and arithmetic in the docstrings.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import pytest

import pecli
from pecli.engine.schemes.axis_blocks import STILL, AxisBlock
from pecli.engine.schemes.grid_styles import ROTARY
from pecli.engine.schemes.rope import Rope, as_read_by_runtime
from pecli.engine.schemes.sinusoidal import Sinusoidal

YARN: dict[str, Any] = {
    "scaling": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 64,
}


class Block(NamedTuple):
    """Neighbouring channels that follow one axis of a grid.

    Two channels are a pair, which rotates by the coordinate times a frequency base^exponent:
    `exponents` has one number per pair.
    """

    axis: int
    exponents: list[float]


def as_block(block: AxisBlock) -> Block:
    return Block(block.axis, [float(-index / block.denominator) for index in block.indices])


def blocks_of_style(style: str, dim: int, channels: tuple[int, ...] | None = None) -> list[Block]:
    """Return the blocks of a head, from the first channel on.

    Args:
        style: The name of the style.
        dim: The channels of the head.
        channels: The channels of each axis; None for the shares of the style.
    """
    blocks = ROTARY[style].blocks(dim, channels)
    return [as_block(block) for block in blocks if block.channels]


ROWS, COLUMNS = 0, 1
"""The axes of an image, in the order of `grid`."""


def test_moonvit_alternates_columns_and_rows() -> None:
    """MoonViT's 8 channels are four pairs, which follow column, row, column, row. The frequencies of
    each axis are those of half of the channels, base^(−2i/4): the first pair of each axis has
    base^0, the second base^(−1/2).
    """
    assert blocks_of_style("moonvit", 8) == [
        Block(COLUMNS, [0]),
        Block(ROWS, [0]),
        Block(COLUMNS, [-1 / 2]),
        Block(ROWS, [-1 / 2]),
    ]


FRAMES, HEIGHT, WIDTH = 0, 1, 2
"""The axes of a video, in the order of `grid`."""


def test_ltx_mixes_axes_after_pairs_of_angle_zero() -> None:
    """LTX-Video's 14 channels are 7 pairs. Three axes share 6 of them evenly, in turn, and the pair
    that is left, the first, has angle 0 at all positions. Frequencies grow from base^0 to base^1
    along the two pairs of an axis.
    """
    still, *mixed = ROTARY["ltx"].blocks(14)
    assert still.progression == STILL
    assert still.channels == 2
    assert [as_block(block) for block in mixed] == [
        Block(FRAMES, [0]),
        Block(HEIGHT, [0]),
        Block(WIDTH, [0]),
        Block(FRAMES, [1]),
        Block(HEIGHT, [1]),
        Block(WIDTH, [1]),
    ]


def test_ltx_has_one_frequency_per_axis_in_6_channels() -> None:
    """6 channels of LTX-Video are 3 pairs, one for each of time, rows and columns; a single frequency
    of an axis is base^0.
    """
    assert blocks_of_style("ltx", 6) == [Block(FRAMES, [0]), Block(HEIGHT, [0]), Block(WIDTH, [0])]


def test_given_channels_replace_the_shares_and_the_order_of_moonvit() -> None:
    """MoonViT gives columns and rows 8 of 16 channels each, pair by pair. With channels (4, 12),
    columns have the first 4 channels, 2 pairs of base^(−i/2), and rows the next 12, 6 pairs of
    base^(−i/6).
    """
    assert blocks_of_style("moonvit", 16, channels=(4, 12)) == [
        Block(COLUMNS, [0, -1 / 2]),
        Block(ROWS, [0, -1 / 6, -2 / 6, -3 / 6, -4 / 6, -5 / 6]),
    ]


def test_given_channels_replace_the_order_and_the_frequencies_of_ltx() -> None:
    """LTX-Video's axes have a pair each in turn, of growing frequencies. With channels (6, 6, 6), each
    axis has three pairs beside each other, of the ordinary frequencies base^(−i/3).
    """
    ordinary = [0, -1 / 3, -2 / 3]
    assert blocks_of_style("ltx", 18, channels=(6, 6, 6)) == [
        Block(FRAMES, ordinary),
        Block(HEIGHT, ordinary),
        Block(WIDTH, ordinary),
    ]


@pytest.mark.parametrize(
    ("grid_base", "positions"),
    [((4, 8), ([0, 2, 0], [0, 4, 0])), ((4,), ([0, 2, 0], [0, 2, 0]))],
)
def test_a_grid_is_resampled_from_its_base(
    grid_base: tuple[int, ...], positions: tuple[list[int], ...]
) -> None:
    """grid_base is the grid that a model was trained on; its two points along each axis are at 0 and
    4/2, or at 0 and 8/2. `positions` are those of rows and columns; the last 0 of each is the class
    token of the style mae, which stands beside the grid.
    """
    scheme = Sinusoidal(grid=(2, 2), dim=16, style="mae", grid_base=grid_base)
    assert scheme.coordinates().values == positions


def test_cosines_of_dinov3_at_quarters_of_a_turn_are_exact() -> None:
    """DINOv3's angle is 2π · position. `positions` has a list per axis; rows of the table are points,
    and its columns are the axes: (cos π/2, cos 3π/2) = (0, 0), then (cos π, cos 2π) = (−1, 1).
    """
    of_rows = (1 / 4, 1 / 2)
    of_columns = (3 / 4, 1)
    rope = Rope(positions=(of_rows, of_columns), dim=4, style="dinov3")

    assert rope.tables()["cos"].tolist() == [[0.0, 0.0], [-1.0, 1.0]]


def test_half_a_turn_of_an_amplitude_that_is_a_tie_rounds_to_even() -> None:
    """DETR's angle at 0.5 is half a turn, so that sin is 0 and cos −1, times the amplitude 1 + 2^-24.
    This is halfway between two float32 numbers, of which 1 is the even one.
    """
    amplitude = 1 + 2.0**-24
    table = Sinusoidal(positions=((0.5,), (0.5,)), dim=4, style="detr", amplitude=amplitude)

    assert table.tables()["pe"].tolist() == [[0.0, -1.0, 0.0, -1.0]]


def test_an_attention_factor_that_is_a_tie_rounds_to_even() -> None:
    """At position 0, cos is the attention factor itself. 1 + 2^-24 is halfway between two float32
    numbers, of which 1 is the even one.
    """
    rope = Rope(1, 4, **YARN, attention_factor=1 + 2.0**-24)
    assert rope.tables()["cos"].tolist() == [[1.0, 1.0]]


def test_relative_positions_fall_from_the_last_to_minus_the_last() -> None:
    """A relative table for 2 positions has the distances 1, 0 and −1, as in Transformer-XL. Two
    channels have the frequency 1: (sin, cos) of the distance.
    """
    table = Sinusoidal(2, 2, relative=True, dtype="float64").tables()["pe"]
    expected = [
        [math.sin(1), math.cos(1)],
        [0.0, 1.0],
        [-math.sin(1), math.cos(1)],
    ]

    np.testing.assert_allclose(table, expected, rtol=1e-15)


def test_a_sinusoidal_table_is_added_to_the_input() -> None:
    """The inputs are ones; the rows of the table for 2 channels are (sin 0, cos 0) and (sin 1, cos 1)."""
    result = Sinusoidal(2, 2).applied_to(np.ones((1, 2, 2)))
    expected = [[[1 + 0, 1 + 1], [1 + math.sin(1), 1 + math.cos(1)]]]

    np.testing.assert_allclose(result, expected, rtol=1e-15)


def test_tables_at_positions_have_a_column_per_frequency_in_every_layout() -> None:
    """`Rope.at` returns the rows at given positions, for programs that compute with pairs. The layout
    repeats columns in whole tables only (`tables`).
    """
    interleaved = Rope(1, 8, layout="interleaved").at([3])["cos"]
    compact = Rope(1, 8).at([3])["cos"]

    assert interleaved.tolist() == compact.tolist()


@pytest.mark.parametrize(
    ("style", "grid", "dim"),
    [
        ("cosmos", (2, 2, 2), 32),  # NTK stretches its axes.
        ("pixel", (2, 2), 16),
        ("timm-pixel", (2, 2), 16),
        ("eva", (2, 2), 16),
    ],
)
def test_the_recipe_float32_has_the_frequencies_of_a_style(
    style: str, grid: tuple[int, ...], dim: int
) -> None:
    """A style of a grid has frequencies of its own, which a recipe must not replace by those of text.
    In float32, a rounding is 6e-8 of the exact frequency; a few of them stay below 1e-6.
    """
    in_float32 = Rope(grid=grid, dim=dim, style=style, recipe="float32").inverse_frequencies()
    exact = Rope(grid=grid, dim=dim, style=style).inverse_frequencies()

    assert in_float32 == pytest.approx(exact, rel=1e-6)


def test_the_recipe_float32_multiplies_by_the_amplitude() -> None:
    """At position 0, an amplitude of 2 makes 2 · sin 0 = 0 and 2 · cos 0 = 2."""
    table = Sinusoidal(2, 2, amplitude=2.0, recipe="float32").tables()["pe"]
    assert table[0].tolist() == [0.0, 2.0]


def test_the_recipe_float32_bfloat16_table_rounds_the_table_to_bfloat16() -> None:
    """cos(1) = 0.5403 is 138.3/256, and bfloat16 has steps of 1/256 there."""
    assert Rope(2, 4, recipe="float32-bfloat16-table").tables()["cos"][1, 0] == 138 / 256


def test_a_scheme_without_a_runtime_is_read_as_it_is() -> None:
    """`as_read_by_runtime` returns the scheme as its runtime reads the parameters."""
    assert as_read_by_runtime(Rope(4, 8, **YARN)) == Rope(4, 8, **YARN)


def test_a_recipe_keeps_the_length_of_a_scaling() -> None:
    """Dynamic scaling depends on the length that is served, 64, so a copy of the scheme under
    another recipe keeps it.
    """
    rope = Rope(4, 8, scaling="dynamic", factor=2.0, max_position_embeddings=32, length=64)
    assert rope.computed_as("float32").length == 64


def test_an_exact_copy_of_a_scheme_of_a_runtime_has_no_served_length() -> None:
    """With a runtime, `length` is the context that is served, by which some runtimes choose factors.
    Computed exactly, YaRN depends on no length, so that it must not be in the spec.
    """
    served_by_vllm = Rope(1, 8, runtime="vllm", **YARN, length=64)
    exact = served_by_vllm.computed_as("exact")

    assert exact.runtime == "none"
    assert exact.length is None


def test_a_copy_of_a_scheme_for_another_runtime_keeps_the_served_length() -> None:
    """The copies are for a comparison of runtimes that serve the same context, here of 64 tokens."""
    served_by_vllm = Rope(1, 8, runtime="vllm", **YARN, length=64)
    served_by_transformers = served_by_vllm.computed_as("transformers")

    assert served_by_transformers.runtime == "transformers"
    assert served_by_transformers.length == 64


STYLES_OF_VIDEOS = [name for name, style in ROTARY.items() if "t" in style.axes]


@pytest.mark.parametrize("style", STYLES_OF_VIDEOS)
def test_an_image_has_the_table_of_a_video_of_one_frame(style: str) -> None:
    """The style is one of a video model. A grid of height and width has no axis for time; its points
    are those of (1, height, width).
    """
    dim = 96
    image = pecli.Rope(dim=dim, grid=(4, 6), style=style)
    video = pecli.Rope(dim=dim, grid=(1, 4, 6), style=style)

    np.testing.assert_array_equal(image.tables()["cos"], video.tables()["cos"])


def test_pairs_that_proportional_scaling_stops_have_cosine_1_and_sine_0() -> None:
    """partial_rotary_factor 0.5 lets half of the 4 pairs rotate; pairs 2 and 3 stay at the angle 0 at
    all positions.
    """
    rope = Rope(3, 8, scaling="proportional", partial_rotary_factor=0.5)
    tables = rope.tables()

    np.testing.assert_array_equal(tables["cos"][:, 2:4], np.ones((3, 2)))
    np.testing.assert_array_equal(tables["sin"][:, 2:4], np.zeros((3, 2)))
