"""The kinds of pictures (heatmap, curves, similarity, patch, decay, circle, slopes): the numbers that
they show, the schemes that they fit, and the names that they give.

Expected numbers are closed forms (sines, slopes 2^−k, softmax weights, buckets of T5's paper), and
elements of the table itself where a picture only copies them.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pecli
from pecli.engine.schemes.relative import Relative
from pecli.engine.table import Table, table_of
from pecli.errors import ParameterError
from pecli.files.load import opened
from pecli.views.pictures import kinds
from pecli.views.pictures.fitting import picture_kinds
from pecli.views.pictures.identification import identified
from pecli.views.pictures.kinds import decay, similarity
from pecli.views.pictures.panels import Chart, HeatmapPanel, Picture
from pecli.views.pictures.plot_sources import PlotRequest, PlotSource, of_file, of_model, of_scheme
from pecli.views.pictures.titles import labelled
from tests.exit_codes import SUCCESS, USAGE_ERROR
from tests.views.pictures.drawing import FITTING, SCHEMES, TABLES, drawn_picture


@pytest.mark.parametrize(
    ("name", "kind"), [(n, k) for n in SCHEMES for k in kinds.KINDS if k not in FITTING[n]]
)
def test_the_error_about_a_kind_that_does_not_fit_lists_those_that_do(kind: str, name: str) -> None:
    """FITTING has the kinds of pictures that each scheme has (slopes only ALiBi, wavelengths only
    waves, …); the cases are all other kinds. A heatmap fits every scheme.
    """
    with pytest.raises(ParameterError, match=f"{name} has no such picture; take one of heatmap"):
        drawn_picture(kind, SCHEMES[name])


@pytest.mark.parametrize("kind", sorted(TABLES))
def test_heatmap_curves_and_similarity_are_drawn_of_any_table(kind: str) -> None:
    """The file x.npy has random numbers, and no spec that would state its scheme."""
    noise = table_of("array", np.random.default_rng(0).normal(size=(64, 8)))
    assert kinds.picture(kind, [PlotSource("x.npy", (noise,))], PlotRequest()).panels


@pytest.mark.parametrize("kind", ["heatmap", "curves", "wavelengths", "similarity", "decay"])
def test_two_schemes_are_named_by_the_parameter_in_which_they_differ(kind: str) -> None:
    """Two tables of bases 10000 and 500: titles or labels have the parameter that differs."""
    picture = drawn_picture(kind, pecli.Rope(64, 16), pecli.Rope(64, 16, base=500.0))
    words = [panel.title for panel in picture.panels]
    words += [
        curve.label
        for panel in picture.panels
        if isinstance(panel, Chart)
        for curve in panel.curves
    ]

    assert any("base 10000" in word for word in words)
    assert any("base 500" in word for word in words)


ROPE_64_BY_8 = pecli.Rope(64, 8)
CHANNEL_2 = PlotRequest(channels=(2,))


@pytest.mark.parametrize("label", ["", "llama-3.1-8b"], ids=["without a label", "with a label"])
@pytest.mark.parametrize(
    ("schemes", "expected"),
    [
        ([ROPE_64_BY_8, pecli.Rope(128, 8)], ["seq_len 64", "seq_len 128"]),
        (
            [ROPE_64_BY_8, pecli.Rope(128, 8), ROPE_64_BY_8],
            ["seq_len 64 (1 of 2)", "seq_len 128", "seq_len 64 (2 of 2)"],
        ),
        (
            [ROPE_64_BY_8, pecli.Rope(64, 8, scaling="linear", factor=2.0)],
            ["unscaled", "scaling linear, factor 2"],
        ),
    ],
    ids=["another length", "the same twice", "a scaling"],
)
def test_names_state_what_differs_and_number_equal_schemes(
    schemes: list[pecli.Scheme], expected: list[str], label: str
) -> None:
    """ROPE_64_BY_8 has 64 positions of 8 channels. A name is the label, or else the scheme «rope»,
    and the parameters in which the schemes differ.
    """
    sources: list[PlotSource] = []
    for scheme in schemes:
        sources += of_scheme(scheme, label)
    names = [source.label for source in labelled(sources)]
    assert names == [f"{label or 'rope'}, {words}" for words in expected]


def test_a_heatmap_holds_the_table() -> None:
    """The table begins at position 5, so that its rows are numbered from 5 on. Sines are from −1 to
    1, which are the ends of the colours, with 0 in their middle.
    """
    scheme = pecli.Sinusoidal(seq_len=40, dim=16, offset=5)
    (panel,) = drawn_picture("heatmap", scheme).panels

    assert isinstance(panel, HeatmapPanel)
    np.testing.assert_array_equal(panel.values, scheme.tables()["pe"].astype(float))
    assert panel.first_row == 5
    assert panel.shape == (40, 16)
    assert panel.limits == (-1.0, 1.0)
    assert panel.is_centred


def test_the_title_of_a_heatmap_has_the_rows_of_the_table_not_those_drawn() -> None:
    """The table has 300,000 rows, of which there is room for 10."""
    request = PlotRequest(rows=10, columns=8)
    picture = drawn_picture("heatmap", pecli.Sinusoidal(300_000, 8), request=request)
    assert picture.title == "value over 300,000 positions, by channel"


def test_eight_evenly_spaced_heads_of_alibi_are_drawn() -> None:
    """Of 16 heads, the numbers are 15 k / 7 for k = 0 … 7, rounded."""
    picture = drawn_picture("heatmap", pecli.Alibi(heads=16, seq_len=8))
    heads = (0, 2, 4, 6, 9, 11, 13, 15)
    assert [panel.title for panel in picture.panels] == [f"head {head}" for head in heads]


def test_heads_of_alibi_have_one_logarithmic_scale() -> None:
    """|bias| is the slope times the distance, which is at most 7. The scale ends at the largest
    value of the first head, which has the largest slope. It begins at a tenth of the largest value
    of the last head, since the scale of each head spans a decade at least. Panels 0 and 1 are heads
    0 and 2.
    """
    slopes = pecli.Alibi(16, 8).tables()["slopes"]
    panels = drawn_picture("heatmap", pecli.Alibi(16, 8)).panels

    for panel in panels:
        assert panel.log
        assert panel.limits == pytest.approx((0.7 * slopes[15], 7 * slopes[0]))
        assert panel.values[0, 0] == 0
    assert panels[0].values[0, 7] == 7 * slopes[0]
    assert panels[1].values[0, 7] == 7 * slopes[2]


def test_a_bias_with_one_query_has_a_row_per_head() -> None:
    """In form «key», the bias is the slope times the number of the key. By the paper, the slopes of
    4 heads are 2^−2, 2^−4, 2^−6 and 2^−8, which are the column of key 1.
    """
    alibi = pecli.Alibi(heads=4, seq_len=8, form="key")
    (panel,) = drawn_picture("heatmap", alibi).panels
    assert panel.values[:, 1].tolist() == [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8]


SWIN = Relative(style="swin", grid=(2, 3))
"""The index of relative positions in a window of 2 × 3 patches, as Swin has it."""


def test_the_index_of_a_swin_window_is_drawn_by_query_and_key() -> None:
    """SWIN has a bucket for each pair of patches (query, key) in a window of 2 × 3."""
    picture = drawn_picture("heatmap", SWIN)
    (panel,) = picture.panels
    assert picture.title == "bucket by query and key"
    assert panel.rows == "query"
    assert panel.columns == "key"


def test_buckets_of_t5_are_steps_by_distance() -> None:
    """T5's formula with 32 buckets: 16 per side, of which the first 8 are exact, and up to distance
    128 the others are 8 + 8 · ln(distance / 8) / ln(128 / 8), at most 15. Keys after the query have
    the buckets from 16 on.
    """
    t5 = Relative(style="t5", seq_len=140, buckets=32, max_distance=128)
    picture = drawn_picture("curves", t5)
    (chart,) = picture.panels
    (curve,) = chart.curves

    assert picture.title == "bucket by distance"
    assert chart.x == "distance, key − query"
    # A bucket is a level from half a step before its distance to half a step after it.
    left_ends, right_ends = curve.y[::2], curve.y[1::2]
    np.testing.assert_array_equal(left_ends, right_ends)

    distances = (curve.x[::2] + 0.5).tolist()
    buckets = dict(zip(distances, left_ends.tolist(), strict=True))
    expected = {-139: 15, -128: 15, -7: 7, -1: 1, 0: 0, 1: 17, 7: 23, 8: 24, 139: 31}
    assert {distance: buckets[distance] for distance in expected} == expected


def test_a_long_table_of_buckets_is_sampled_not_averaged() -> None:
    """Of 512 rows, every third is drawn, as there is room for 200. The mean of two buckets would be
    the bucket of neither.
    """
    index = Relative(style="t5", seq_len=512)
    request = PlotRequest(rows=200, columns=200)
    (panel,) = drawn_picture("heatmap", index, request=request).panels

    np.testing.assert_array_equal(panel.values, index.tables()["index"][::3, ::3])
    assert panel.axis_names(*panel.values.shape) == ("query (one in 3)", "key (one in 3)")


@pytest.mark.parametrize(
    ("scheme", "kind"),
    [(Relative(style="t5", seq_len=512), "curves"), (SWIN, "heatmap")],
    ids=["t5", "swin"],
)
def test_buckets_are_curves_by_default_unless_they_lie_on_a_grid(
    scheme: pecli.Scheme, kind: str
) -> None:
    """Buckets of T5 depend on one distance. SWIN is the index of a window of 2 × 3 patches, whose
    distances have two axes.
    """
    assert kinds.default_kind(of_scheme(scheme)) == kind


def test_buckets_on_a_grid_have_no_curves() -> None:
    """SWIN is the index of a window of 2 × 3 patches; a curve has one axis for its distances."""
    with pytest.raises(ParameterError, match="distances on a grid have two axes"):
        drawn_picture("curves", SWIN)


def test_curves_are_the_columns_that_were_requested_in_that_order() -> None:
    """Channel 3 was requested before channel 0."""
    scheme = pecli.Sinusoidal(seq_len=50, dim=16)
    (chart,) = drawn_picture("curves", scheme, request=PlotRequest(channels=(3, 0))).panels

    assert [curve.label for curve in chart.curves] == ["channel 3", "channel 0"]
    np.testing.assert_array_equal(chart.curves[0].y, scheme.tables()["pe"][:, 3])


def test_biases_are_lines_that_fall_by_the_slope() -> None:
    """By the paper, the slopes of two heads are 2^−4 and 2^−8. Head 1 is drawn; the largest of 101
    distances is 100.
    """
    request = PlotRequest(channels=(1,))
    alibi = pecli.Alibi(heads=2, seq_len=101)
    (chart,) = drawn_picture("curves", alibi, request=request).panels
    assert chart.curves[0].y[-1] == -100 * 2.0**-8


def test_curves_are_of_five_pairs_that_turn_between_sixteen_times_and_half_a_time() -> None:
    """Slower pairs would be flat lines, and faster ones would fill the picture. From position 0 to
    999, pair i turns 999 · 10000^(−i/64) / 2π times. Neighbours differ by one ratio, within 10 %,
    as only whole pairs can be chosen.
    """
    (chart,) = drawn_picture("curves", pecli.Rope(seq_len=1000, dim=128)).panels
    pairs = [int(curve.label.removeprefix("pair ")) for curve in chart.curves]
    turns = [999 * 10000 ** (-pair / 64) / (2 * math.pi) for pair in pairs]

    np.testing.assert_allclose(turns, np.geomspace(16, 0.5, num=5), rtol=0.1)
    assert chart.y == "cosine"


def test_biases_of_an_added_scheme_are_lines_over_1024_keys() -> None:
    """The scheme has slopes and states no length, so that its lines end at the distance 1023. By
    ALiBi's paper, the first of 8 slopes is 1/2.
    """

    class Added(pecli.Scheme):
        name = "added"
        applied_as = "bias"

        def tensors(self) -> tuple[Table, ...]:
            return pecli.Alibi(8, slopes=True).tensors()

    curve = drawn_picture("curves", Added()).panels[0].curves[0]
    assert curve.x[-1] == 1023
    assert curve.y[-1] == -1023 / 2


def test_heads_of_a_bias_with_one_query_cannot_be_chosen_for_a_heatmap() -> None:
    """`channels` chooses heads of a bias, which have a panel each. A bias of one query, (heads, 1,
    keys), as form="key" makes it, is one panel with a row per head: it shows all of them anyway.
    """
    with pytest.raises(pecli.ParameterError, match="heatmap shows all of them"):
        drawn_picture("heatmap", pecli.Alibi(4, 8, form="key"), request=PlotRequest(channels=(1,)))


def test_heatmaps_of_biases_take_heads_as_channels() -> None:
    """Of a bias with 4 heads, each of which is a panel, head 1 is requested."""
    request = PlotRequest(channels=(1,))
    picture = drawn_picture("heatmap", pecli.Alibi(heads=4, seq_len=8), request=request)
    assert len(picture.panels) == 1


def test_curves_of_several_tables_have_dashes_of_their_own() -> None:
    """Two tables a and b, of which channels 2 and 3 are drawn: the first with lines, the second
    dashed.
    """
    first, second = (PlotSource(name, (table_of("x", np.eye(9)),)) for name in "ab")
    (chart,) = kinds.picture("curves", [first, second], PlotRequest(channels=(2, 3))).panels

    assert [(curve.label, curve.dash) for curve in chart.curves] == [
        ("a, channel 2", "-"),
        ("a, channel 3", "-"),
        ("b, channel 2", "--"),
        ("b, channel 3", "--"),
    ]


def mean_cosines_by_distance(distances: np.ndarray) -> np.ndarray:
    """Return the mean of cos(d · 10000^(−i/16)) over 16 frequencies: the similarity of rows d
    apart.
    """
    return np.cos(distances[..., None] * 10000.0 ** (-np.arange(16) / 16)).mean(axis=-1)


@pytest.mark.parametrize("scheme_class", [pecli.Sinusoidal, pecli.Rope])
def test_similarity_of_waves_depends_on_the_distance_alone(
    scheme_class: type[pecli.Scheme],
) -> None:
    """Each pair of channels of a row is (cos, sin) of position · frequency, so that the cosine of
    the angle between two rows is the mean of cos(distance · frequency) over the 16 frequencies.
    """
    expected = mean_cosines_by_distance(np.arange(100))
    heat, chart = drawn_picture("similarity", scheme_class(100, 32, dtype="float64")).panels

    np.testing.assert_allclose(chart.curves[0].y, expected, atol=1e-12)
    np.testing.assert_allclose(heat.values[0], expected, atol=1e-12)
    np.testing.assert_allclose(np.diag(heat.values), 1.0, atol=1e-12)


def test_rows_are_divided_by_their_length_whatever_it_is() -> None:
    """(3, 4) has the direction (0.6, 0.8), at any magnitude; zeros have none."""
    rows = np.array([[3.0, 4.0], [0.0, 0.0], [1e200, 0.0], [-6e-300, -8e-300]])
    directions = similarity.directions([table_of("", rows)], np.arange(4))

    np.testing.assert_allclose(directions[0], [0.6, 0.8], rtol=1e-12)
    assert np.isnan(directions[1]).all()
    np.testing.assert_allclose(directions[2], [1.0, 0.0], rtol=1e-12)
    np.testing.assert_allclose(directions[3], [-0.6, -0.8], rtol=1e-12)


def test_rows_without_a_direction_are_left_out_of_the_mean() -> None:
    """The rows are a = (0.6, 0.8), NaN, b = (1, 0) and −a, with a·b = 0.6. Their products are
    b·(−a) = −0.6 at distance 1, a·b = 0.6 at distance 2, and a·(−a) = −1 at distance 3.
    """
    nan = [np.nan, np.nan]
    rows = np.array([[0.6, 0.8], nan, [1.0, 0.0], [-0.6, -0.8]])
    np.testing.assert_allclose(similarity.by_distance(rows), [1.0, -0.6, 0.6, -1.0], atol=1e-12)


def test_a_file_without_a_table_of_rows_has_no_similarity() -> None:
    """The file has only a vector, which has no rows to compare."""
    vector = PlotSource("x.npy", (table_of("array", np.ones(8)),))
    with pytest.raises(ParameterError) as refused:
        kinds.picture("similarity", [vector], PlotRequest())

    assert str(refused.value) == "kind is similarity; x.npy has 0 tables with rows and columns"


def test_the_similarity_at_a_distance_is_the_mean_of_a_diagonal_of_all_products() -> None:
    """Rows i and i + d are d apart: their products are diagonal d of the matrix of all products.
    The expected means are NumPy's.
    """
    rows = np.random.default_rng(0).normal(size=(50, 7))
    products = rows @ rows.T
    expected = [np.diagonal(products, distance).mean() for distance in range(50)]
    np.testing.assert_allclose(similarity.by_distance(rows), expected, atol=1e-12)


LONG_TABLES = [
    pytest.param(pecli.Sinusoidal(seq_len=1_000_000, dim=64), id="sinusoidal"),
    pytest.param(pecli.LearnedInit(max_len=5000, dim=16, init="uniform"), id="random"),
]


def step_between_compared_rows(rows: int) -> int:
    """Return the n of «every n-th row is compared»: rows / 512, rounded up, as at most 512 are.

    1,000,000 rows / 512 are 1954, and 5000 rows / 512 are 10.
    """
    return -(-rows // 512)


ROOM_FOR_1000_ROWS = PlotRequest(rows=1000)
"""The room for a picture, which is not what limits the rows that are compared."""


@pytest.mark.parametrize("scheme", LONG_TABLES)
def test_of_a_long_table_at_most_512_rows_at_equal_steps_are_compared(
    scheme: pecli.Scheme,
) -> None:
    """A picture of similarities has a cell per pair of compared rows. They are at most 512, although
    there is room for 1000 here, and the axis states that it shows one row in so many.
    """
    heat, _ = drawn_picture("similarity", scheme, request=ROOM_FOR_1000_ROWS).panels
    name_of_rows, _ = heat.axis_names(*heat.values.shape)

    rows = scheme.tensors()[0].rows
    step = step_between_compared_rows(rows)
    assert len(heat.values) == len(range(0, rows, step))
    assert heat.title == "pairs of positions"
    assert name_of_rows.startswith("position (one in ")


@pytest.mark.parametrize("scheme", LONG_TABLES)
def test_every_row_of_a_long_table_is_like_itself(scheme: pecli.Scheme) -> None:
    """The similarity of a row with itself is 1: the diagonal of the heatmap, and the beginning of
    the curve of similarities by distance.
    """
    heat, chart = drawn_picture("similarity", scheme, request=ROOM_FOR_1000_ROWS).panels
    np.testing.assert_allclose(np.diag(heat.values), 1.0, atol=1e-12)
    assert chart.curves[0].y[0] == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("scheme", LONG_TABLES)
def test_the_similarity_of_two_rows_of_a_long_table_is_their_cosine(
    scheme: pecli.Scheme,
) -> None:
    """Of a long table, at most 512 rows are compared, n rows apart: n is 1954 or 10 here. Cell
    [3, 200] of the picture is the cosine between the rows 3n and 200n of the table, by NumPy.
    """
    heat, _ = drawn_picture("similarity", scheme, request=ROOM_FOR_1000_ROWS).panels
    table = scheme.tensors()[0]
    step = step_between_compared_rows(table.rows)
    row_a = table.read(3 * step, 3 * step + 1)[0].astype(float)
    row_b = table.read(200 * step, 200 * step + 1)[0].astype(float)
    cosine = row_a @ row_b / np.linalg.norm(row_a) / np.linalg.norm(row_b)

    assert heat.values[3, 200] == pytest.approx(cosine, abs=1e-12)


@pytest.mark.parametrize(
    ("style", "shape"),
    [
        ("eva", (3, 5)),
        ("qwen2-vl", (4, 6)),  # Its rows are in the order of blocks of 2 × 2 patches.
    ],
)
def test_similarities_of_patches_fall_with_the_distance_from_the_middle_patch(
    style: str, shape: tuple[int, int]
) -> None:
    """A head of 4 channels has one pair for the row and one for the column, both of frequency 1.
    The similarity of two patches is the mean of the cosines of their distances in rows and columns.
    """
    (panel,) = drawn_picture("patch", pecli.Rope(grid=shape, dim=4, style=style)).panels
    rows, columns = np.indices(shape)
    wanted = (np.cos(rows - shape[0] // 2) + np.cos(columns - shape[1] // 2)) / 2

    np.testing.assert_allclose(panel.values, wanted, atol=1e-6)
    assert panel.rows == "row"
    assert panel.columns == "column"


EVA_ON_4_BY_6 = pecli.Rope(grid=(4, 6), dim=8, style="eva")


def test_a_picture_of_patches_names_the_grid_and_its_middle() -> None:
    """The grid has 4 × 6 patches, of which the one at row 4 / 2 and column 6 / 2 is compared with
    all others.
    """
    picture = drawn_picture("patch", EVA_ON_4_BY_6)
    assert picture.title.endswith("similarity of one patch to all others, 4 × 6")
    assert [panel.title for panel in picture.panels] == ["row 2, column 3"]


def test_patches_of_two_towers_are_named_after_them() -> None:
    """Two vision towers are drawn, which differ in their base only: the titles of their panels have
    it.
    """
    picture = drawn_picture(
        "patch", EVA_ON_4_BY_6, pecli.Rope(grid=(4, 6), dim=8, style="eva", base=500.0)
    )
    first, second = picture.panels

    assert "base 10000" in first.title
    assert "base 500" in second.title


def test_patches_of_a_video_are_those_of_its_first_frame() -> None:
    """The grid has 5 frames of 4 × 6; its middle is row 2, column 3."""
    video = pecli.Rope(grid=(5, 4, 6), dim=24, style="wan")
    picture = drawn_picture("patch", video)

    assert picture.title.endswith("similarity of one patch to all others, 4 × 6")
    assert [panel.title for panel in picture.panels] == ["row 2, column 3, frame 0 of 5"]


def test_tables_on_grids_are_maps_of_channels() -> None:
    """MAE's table has 16 channels: 4 sines and 4 cosines of the column, then 8 of the row. Channel
    2 has the frequency 10000^(−2/4) = 1/100. The first row is a class token (keep=1), and not
    drawn.
    """
    mae = pecli.Sinusoidal(grid=(3, 5), dim=16, style="mae", keep=1)
    (panel,) = drawn_picture("heatmap", mae, request=CHANNEL_2).panels

    expected = np.tile(np.sin(np.arange(5) / 100), (3, 1))
    np.testing.assert_allclose(panel.values, expected, atol=1e-6)
    assert panel.title == "channel 2"
    assert panel.rows == "row"
    assert panel.columns == "column"
    assert panel.shape == (3, 5)


def test_all_channels_of_a_narrow_table_are_maps() -> None:
    """A table on a grid is drawn as a map per channel, at most 8. Channels that hardly vary over the
    grid, by less than a quarter of the largest variance, are left out, and a subtitle counts them.

    All four channels of this table are −1 and 1 at random, which vary alike: all are drawn.
    """
    table = np.random.default_rng(0).choice([-1.0, 1.0], size=(15, 4))
    variances = table.var(axis=0)
    assert variances.min() > 0.25 * variances.max()

    _, file = opened({"x": table})
    (source,) = of_file("x", file)
    picture = kinds.picture("heatmap", [source._replace(grid=(3, 5))], PlotRequest())

    assert [panel.title for panel in picture.panels] == [f"channel {k}" for k in range(4)]
    assert picture.subtitle == ""


VIT_TABLE = np.random.default_rng(0).normal(size=(1, 16, 8))
"""A learned table as ViT has it: a class token, then 3 × 5 patches, of 8 channels."""


def vit_source() -> PlotSource:
    """Return the source of VIT_TABLE as `--grid 3x5 --keep 1` describes it."""
    _, file = opened({"x": VIT_TABLE})
    (source,) = of_file("x", file)
    return source._replace(grid=(3, 5), keep=1)


def test_a_file_on_a_grid_has_the_kinds_of_a_scheme_on_a_grid() -> None:
    """`vit_source` is a learned table of a vision tower on a grid of 3 × 5, in a file without a
    spec; it has the kinds of pictures of a rotary table on such a grid.
    """
    tower = pecli.Rope(grid=(3, 5), dim=16, style="eva")
    assert vit_source().picture_kinds == ("heatmap", "similarity", "patch")
    assert picture_kinds(tower) == ("heatmap", "similarity", "patch")


def test_a_file_on_a_grid_is_maps_of_channels() -> None:
    """VIT_TABLE has 1 + 15 rows, a class token and a grid of 3 × 5; channel 2 is drawn."""
    (panel,) = kinds.picture("heatmap", [vit_source()], CHANNEL_2).panels
    np.testing.assert_array_equal(panel.values, VIT_TABLE[0, 1:, 2].reshape(3, 5))


def test_patches_of_a_file_are_compared_with_the_middle_one() -> None:
    """VIT_TABLE has a class token, then 3 × 5 patches. Patch 7 = 5 · 1 + 2 is the middle one, in
    row 1 and column 2. Expected are the cosines between the rows of the table, by NumPy.
    """
    (panel,) = kinds.picture("patch", [vit_source()], PlotRequest()).panels
    patches = VIT_TABLE[0, 1:]
    directions = patches / np.linalg.norm(patches, axis=1, keepdims=True)
    expected = (directions @ directions[7]).reshape(3, 5)
    np.testing.assert_allclose(panel.values, expected, atol=1e-12)


@pytest.fixture
def plot_patches_of_vit(run_pecli, tmp_path: Path):
    """Run `pecli plot` on VIT_TABLE, which has 16 rows, on a grid of 3 × 5."""
    np.save(tmp_path / "x.npy", VIT_TABLE)
    words = ("plot", str(tmp_path / "x.npy"), "--kind", "patch", "--grid", "3x5")
    return lambda *more: run_pecli(*words, *more)


def test_keep_leaves_a_class_token_out_of_the_grid(plot_patches_of_vit) -> None:
    """x.npy has 16 rows and is drawn with --grid 3x5: one row is kept, and 15 are the grid."""
    assert plot_patches_of_vit("--keep", "1").exit_code == SUCCESS


def test_a_grid_that_does_not_have_all_rows_is_refused(plot_patches_of_vit) -> None:
    """x.npy has 16 rows, and a grid of 3 × 5 has 15. Without --keep, no row is kept in front of the
    grid, for a class token: the error states these three numbers.
    """
    outcome = plot_patches_of_vit()
    assert outcome.exit_code == USAGE_ERROR
    assert "with 0 kept that is 15 rows; x.npy has 16" in outcome.err


def test_scores_and_their_bound_follow_the_definitions_of_the_paper() -> None:
    """The score at distance 3 is the mean of cos(3θ) over 8 frequencies θ. The bound of Su et al.
    (RoFormer, 2021, section 3.4.3) is the mean of |partial sums of e^(3iθ)|, divided by 4.5, the
    mean of 1 to 8, so that it is 1 at distance 0.
    """
    frequencies = 10000.0 ** (-np.arange(8) / 8)
    score, bound = decay.scores(frequencies, np.array([0.0, 3.0]))
    phases = [complex(math.cos(3 * theta), math.sin(3 * theta)) for theta in frequencies]
    partial_sums = [abs(sum(phases[: count + 1])) for count in range(8)]

    assert score[0] == 1.0
    assert bound[0] == pytest.approx(1.0)
    assert score[1] == pytest.approx(sum(phase.real for phase in phases) / 8)
    assert bound[1] == pytest.approx(sum(partial_sums) / 8 / 4.5)


YARN_BY_4: dict[str, Any] = {
    "scaling": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 64,
}


def test_scores_grow_with_the_square_of_the_attention_factor() -> None:
    """The attention factor 1.5 multiplies queries and keys, so that scores, and their bounds, are
    1.5² = 2.25 times those of factor 1.
    """
    plain = drawn_picture("decay", pecli.Rope(256, 32, **YARN_BY_4, attention_factor=1.0))
    scaled = drawn_picture("decay", pecli.Rope(256, 32, **YARN_BY_4, attention_factor=1.5))

    for panel, scaled_panel in zip(plain.panels, scaled.panels, strict=True):
        expected = 1.5**2 * panel.curves[0].y
        np.testing.assert_allclose(scaled_panel.curves[0].y, expected, rtol=1e-12)
    assert plain.subtitle == ""
    assert scaled.subtitle.startswith("Attention factor 1.5")


def test_scores_are_products_of_rotated_queries_and_keys() -> None:
    """q = k = (1, 0) in each of 16 pairs becomes, when rotated, the row of cosines and sines of its
    position. The score at distance d is the product of rows d and 0, divided by |q|² = 16; the
    first that is drawn is at distance 1.
    """
    rope = pecli.Rope(256, 32, **YARN_BY_4, attention_factor=1.5, dtype="float64")
    tables = rope.tables()
    rotated = np.concatenate([tables["cos"], tables["sin"]], axis=1)
    expected = (rotated @ rotated[0] / 16)[1:]

    scores = drawn_picture("decay", rope).panels[0].curves[0].y
    np.testing.assert_allclose(scores, expected, atol=1e-12)


def test_circles_turn_by_the_frequency_of_their_pair() -> None:
    """In polar coordinates, x is the angle and y the radius. Pair i of 6 turns by 10000^(−i/6)
    radians per position; the radius is the position.
    """
    request = PlotRequest(channels=(0, 5))
    fast, slow = drawn_picture("circle", pecli.Rope(seq_len=97, dim=12), request=request).panels

    np.testing.assert_allclose(fast.curves[0].x, np.arange(97.0), rtol=1e-12)
    np.testing.assert_allclose(slow.curves[0].x, np.arange(97) * 10000 ** (-5 / 6), rtol=1e-12)
    np.testing.assert_array_equal(slow.curves[0].y, np.arange(97.0))


def test_slopes_are_those_of_the_paper() -> None:
    """ALiBi's slopes of 8 heads are 1/2, 1/4, …, 1/256 by the paper; they are points, which no line
    joins.
    """
    (chart,) = drawn_picture("slopes", pecli.Alibi(8)).panels
    assert chart.curves[0].y.tolist() == [2.0**-k for k in range(1, 9)]
    assert not chart.joined


def test_similarities_of_which_some_are_negative_have_colours_from_minus_1() -> None:
    """A head of 2 channels has one pair, of frequency 1: the similarity of rows d apart is cos d,
    which is negative at distance 2. The colours range from −1 to 1, although no similarity is −1.
    """
    (panel,) = drawn_picture("similarity", pecli.Rope(seq_len=3, dim=2)).heatmaps
    assert panel.values.min() == pytest.approx(math.cos(2), abs=1e-6)
    assert panel.ends == (-1.0, 1.0)


def test_similarities_of_which_none_is_negative_have_the_range_of_the_data() -> None:
    """The similarity of rows d apart is the mean of cos(d · 10000^(−i/8)) over 8 pairs, which is
    positive at all 63 distances: the colours range from the smallest similarity to 1.
    """
    (panel,) = drawn_picture("similarity", pecli.Rope(seq_len=64, dim=16)).heatmaps
    phases = np.arange(64)[:, None] * 10000.0 ** (-np.arange(8) / 8)
    smallest = np.cos(phases).mean(axis=1).min()

    assert smallest > 0
    assert panel.values.min() == pytest.approx(smallest, abs=1e-6)
    assert panel.ends == (panel.values.min(), 1.0)


def test_similarities_of_two_tables_have_one_range() -> None:
    """The bases are 10000 and 100; the smaller of both minima is the end of the colours of both
    heatmaps, so that these can be compared.
    """
    slow = pecli.Sinusoidal(16, 512)
    fast = pecli.Sinusoidal(16, 512, base=100.0)
    first, second = drawn_picture("similarity", slow, fast).heatmaps
    smallest = min(first.values.min(), second.values.min())

    assert first.ends == (smallest, 1.0)
    assert second.ends == (smallest, 1.0)


@pytest.mark.parametrize("slope", [0.5, 2.0**-8, 0.0])
def test_weights_after_softmax_add_up_to_one(slope: float) -> None:
    """The weights of 100 keys at the distances 0 to 99, by NumPy, are the softmax of −slope ·
    distance. Those below MIN_WEIGHT, too small for the picture, are not drawn: they are NaN.
    """
    logits = -slope * np.arange(100)
    expected = np.exp(logits) / np.exp(logits).sum()
    weights = decay.weights(slope, np.arange(100.0), 100)

    np.testing.assert_allclose(
        weights[np.isfinite(weights)], expected[expected >= decay.MIN_WEIGHT], rtol=1e-12
    )


@pytest.mark.parametrize("label", ["whisper-tiny encoder", "t5-small decoder", "mpt-7b"])
def test_models_without_rope_are_drawn_with_the_encoding_that_they_have(
    run_pecli, label: str
) -> None:
    """Whisper's encoder has a sinusoidal table, T5 buckets of distances, and MPT the biases of
    ALiBi. The picture is labelled with the model, and the part of it that has the encoding.
    """
    assert label in run_pecli("plot", label.split()[0]).out


def test_a_model_of_which_no_table_follows_from_the_config_is_refused(run_pecli) -> None:
    """BERT's table is learned, and only in its weights."""
    outcome = run_pecli("plot", "bert-base")
    assert outcome.exit_code == USAGE_ERROR
    assert "learned" in outcome.err


def test_a_vision_tower_is_a_source_beside_the_text() -> None:
    """By its published config, the vision tower of Qwen3-VL has heads of 1024 / 16 = 64 channels:
    32 pairs, of which 16 turn with the row and 16 with the column, with base 10000.
    """
    model = pecli.load_model("qwen3-vl-4b")
    text, vision = of_model(model, "qwen3-vl-4b", "wavelengths")

    assert text.label == "qwen3-vl-4b"
    assert vision.label == "qwen3-vl-4b vision, one axis"
    frequencies = vision.scheme.angular_frequencies()
    np.testing.assert_allclose(frequencies, 1e4 ** (-np.arange(16) / 16), rtol=1e-12)


def test_only_the_vision_tower_has_patches() -> None:
    """In Qwen3-VL's tower, 16 pairs turn with the row and 16 with the column, at frequencies
    10000^(−i/16): the similarity of two patches is the mean of both axes' mean cosines of their
    distances. The middle of 16 × 16 patches is [8, 8].
    """
    model = pecli.load_model("qwen3-vl-4b")
    (tower,) = of_model(model, "qwen3-vl-4b", "patch")
    (panel,) = kinds.picture("patch", [tower], PlotRequest()).panels
    rows, columns = np.indices((16, 16)) - 8

    by_row = mean_cosines_by_distance(rows)
    by_column = mean_cosines_by_distance(columns)
    np.testing.assert_allclose(panel.values, (by_row + by_column) / 2, atol=1e-6)


@pytest.mark.parametrize(
    ("words", "title"),
    [
        ("qwen3-vl-4b --layer-type vision", "qwen3-vl-4b vision: cosine and"),
        ("flux.1-dev", "flux.1-dev: cosine and sine by row and column"),
        ("mistral -k wavelengths", "mistral-7b-v0.3: "),
    ],
    ids=["layer type", "only an image", "short name"],
)
def test_a_model_is_named_in_the_title(run_pecli, words: str, title: str) -> None:
    """«mistral» is short for mistral-7b-v0.3. FLUX has only tables of an image, so that its title
    names no part.
    """
    assert run_pecli("plot", *words.split()).out.startswith(title)


def test_the_panels_of_a_vision_tower_are_named(run_pecli) -> None:
    """Qwen3-VL has a rotary table for text and one for its vision tower. The frequencies of the
    tower are the same for rows and columns, so that a panel shows one axis.
    """
    assert "qwen3-vl-4b vision, one axis, cos" in run_pecli("plot", "qwen3-vl-4b").out


ROPE_FROM_7 = pecli.Rope(64, 16, offset=7).tables()
COS_AND_SIN = {name: ROPE_FROM_7[name] for name in ("cos", "sin")}
"""Rotary tables of 64 positions, from position 7 on, with a column per pair of 16 channels."""

FILES_AND_AXES = {
    "rope": (COS_AND_SIN, ("position", "pair", 7)),
    "rope of four axes": (
        {name: table[None, :, None] for name, table in COS_AND_SIN.items()},
        ("position", "pair", 7),
    ),
    "bias of one query": (
        {"bias": pecli.Alibi(4, 16, form="key").tables()["bias"][None]},
        ("head", "key", 0),
    ),
    "sinusoidal": (
        {"x": pecli.Sinusoidal(64, 16, offset=3).tables()["pe"]},
        ("position", "channel", 3),
    ),
    "two layers": (
        {f"{layer}.{name}": table for layer in "01" for name, table in COS_AND_SIN.items()},
        ("position", "channel", 0),
    ),
    "noise": ({"x": np.random.default_rng(0).normal(size=(64, 16))}, ("position", "channel", 0)),
}
"""Arrays of a file without a spec; the names of the rows and columns of its picture, and its first row."""


@pytest.mark.parametrize("name", FILES_AND_AXES)
def test_a_file_without_a_spec_has_the_axes_of_the_scheme_that_was_identified(name: str) -> None:
    """Expected are the names of both axes and the number of the first row. Rotary tables begin at
    position 7, and their columns are pairs; a bias of ALiBi has heads and keys; sinusoids begin at
    position 3. Of several layers, or of noise, no scheme is known: rows are positions from 0 on.

    The first panel shows the first table of the file, without its axes of length 1.
    """
    arrays, (rows, columns, first_row) = FILES_AND_AXES[name]
    _, file = opened(arrays)
    (source,) = of_file("x.npz", file)
    source_with_scheme = identified(source, kind=None)  # None: the kind that any table has.
    panel = kinds.picture("heatmap", [source_with_scheme], PlotRequest()).panels[0]

    assert panel.rows == rows
    assert panel.columns == columns
    assert panel.first_row == first_row

    first_table, *_ = arrays.values()
    np.testing.assert_array_equal(panel.values, np.squeeze(first_table))


def picture_of_alibi_bias(kind: str, bias: np.ndarray) -> Picture:
    """Return the picture of a file that has only this bias, whose scheme is identified."""
    _, file = opened({"bias": bias})
    (source,) = of_file("bias.npz", file)
    return kinds.picture(kind, [identified(source, None)], PlotRequest())


@pytest.mark.parametrize("form", ["symmetric", "causal"])
def test_the_heatmap_of_an_alibi_bias_without_slopes_has_its_magnitude_per_head(form: str) -> None:
    """The file has only a bias, which is identified as ALiBi; the panel of head 1 is |bias[1]|."""
    bias = pecli.Alibi(4, 32, form=form).tables()["bias"]
    panel = picture_of_alibi_bias("heatmap", bias).panels[1]

    assert panel.title == "head 1"
    assert panel.rows == "query"
    assert panel.columns == "key"
    np.testing.assert_array_equal(panel.values, np.abs(bias[1]))


@pytest.mark.parametrize("form", ["symmetric", "causal"])
def test_the_curves_of_an_alibi_bias_without_slopes_fall_by_the_slopes(form: str) -> None:
    """The file has only a bias, which is identified as ALiBi. By the paper, the slope of head 0 of 4
    is 1/4; the largest distance of 32 positions is 31.
    """
    bias = pecli.Alibi(4, 32, form=form).tables()["bias"]
    (chart,) = picture_of_alibi_bias("curves", bias).panels

    assert chart.curves[0].y[-1] == -31 / 4


@pytest.mark.parametrize(("rows", "points"), [(1, 2), (10, 9), (1201, 1200)])
def test_decay_is_drawn_at_every_distance_of_a_short_table(rows: int, points: int) -> None:
    """`rows` positions have the distances 1 to rows − 1, each of which is a point as long as they
    are no more than 1200. A table of one row is drawn at distances 1 and 2, so that there is a
    curve.
    """
    chart = drawn_picture("decay", pecli.Rope(seq_len=rows, dim=4)).panels[0]
    assert len(chart.curves[0].x) == points


def test_decay_of_a_long_table_ends_at_its_largest_distance() -> None:
    """1,202 positions have distances up to 1,201, more than the 1,200 that are drawn one by one; a
    logarithmic axis begins at 1.
    """
    distances = drawn_picture("decay", pecli.Rope(1202, 4)).panels[0].curves[0].x
    assert distances[0] == 1.0
    assert distances[-1] == 1201.0


@pytest.mark.parametrize("kind", ["decay", "curves"])
def test_fewer_heads_are_drawn_of_each_of_several_subjects(kind: str) -> None:
    """Of a bias with 16 heads, 8 are drawn if it is the only one. Of two biases, 3 heads of each
    are drawn, 6 curves in all. Only heads of one bias have an order, and colours that show it.
    """
    bias = pecli.Alibi(heads=16, seq_len=8)
    longer_bias = pecli.Alibi(heads=16, seq_len=9)
    alone = drawn_picture(kind, bias).panels[0]
    beside = drawn_picture(kind, bias, longer_bias).panels[0]

    assert len(alone.curves) == 8
    assert alone.ordered
    assert len(beside.curves) == 6
    assert not beside.ordered


def test_weights_are_drawn_at_every_distance_of_a_short_context() -> None:
    """Weights are the softmax of ALiBi's biases. Eight keys have the distances 0 to 7."""
    chart = drawn_picture("decay", pecli.Alibi(2, 8)).panels[0]
    assert chart.curves[0].x.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]


@pytest.mark.parametrize(
    ("heads", "longest_row"),
    [
        pytest.param(1, 1, id="one row of 1"),
        pytest.param(2, 2, id="one row of 2"),
        pytest.param(3, 3, id="one row of 3"),
        pytest.param(4, 2, id="4 = 2 + 2"),
        pytest.param(5, 3, id="5 = 3 + 2"),
        pytest.param(6, 3, id="6 = 3 + 3"),
        pytest.param(7, 4, id="7 = 4 + 3"),
        pytest.param(8, 4, id="8 = 4 + 4"),
    ],
)
def test_panels_stand_in_rows_of_about_equal_length(heads: int, longest_row: int) -> None:
    """ALiBi has one panel for each head. Up to three panels are one row; four to eight are two rows,
    the second as long as the first or one panel shorter. `across` is the length of the first row.
    """
    picture = drawn_picture("heatmap", pecli.Alibi(heads=heads, seq_len=4))
    assert picture.across == longest_row


@pytest.mark.parametrize(
    ("schemes", "title"),
    [
        ((pecli.Rope(4, 4),), "cosine and sine over 4 positions, by pair"),
        ((pecli.Rope(4, 4), pecli.Alibi(2, 4)), "value over 4 positions, by pair"),
    ],
    ids=["one scheme", "two schemes"],
)
def test_the_title_of_a_heatmap_names_its_elements(
    schemes: tuple[pecli.Scheme, ...], title: str
) -> None:
    """The title names what the elements are: cosine and sine of a Rope; beside a bias, only «value»
    fits all.
    """
    assert drawn_picture("heatmap", *schemes).title == title


def test_rows_that_are_kept_do_not_move_the_patches() -> None:
    """keep=1 puts the row of a class token before the rows of the grid; the picture of patches
    shows the same grid.
    """
    plain = drawn_picture("patch", pecli.Sinusoidal(grid=(3, 5), dim=16, style="mae"))
    kept = drawn_picture("patch", pecli.Sinusoidal(grid=(3, 5), dim=16, style="mae", keep=1))

    np.testing.assert_array_equal(plain.heatmaps[0].values, kept.heatmaps[0].values)
