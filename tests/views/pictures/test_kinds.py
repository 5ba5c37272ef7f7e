"""The kinds of pictures (heatmap, curves, similarity, patch, decay, circle, slopes): the numbers that
they show, the schemes that they fit, and the names that they give.

Expected numbers are closed forms (sines, slopes 2^−k, softmax weights, buckets of T5's paper), and
elements of the table itself where a picture only copies them.
"""

import math
from pathlib import Path

import numpy as np
import pytest

import pecli
from pecli.engine.schemes.relative import Relative
from pecli.engine.table import table_of
from pecli.errors import ParameterError
from pecli.files.load import opened
from pecli.views.pictures import kinds
from pecli.views.pictures.fitting import picture_kinds
from pecli.views.pictures.identification import identified
from pecli.views.pictures.kinds import decay, similarity
from pecli.views.pictures.panels import Chart, HeatmapPanel
from pecli.views.pictures.plot_sources import PlotRequest, PlotSource, of_file, of_model, of_scheme
from pecli.views.pictures.titles import labelled
from tests.exit_codes import SUCCESS, USAGE_ERROR
from tests.views.pictures.drawing import FITTING, SCHEMES, TABLES, drawn_picture


@pytest.mark.parametrize(
    ("name", "kind"), [(n, k) for n in SCHEMES for k in kinds.KINDS if k not in FITTING[n]]
)
def test_a_kind_that_does_not_fit_says_what_does(kind: str, name: str) -> None:
    with pytest.raises(ParameterError, match=f"{name} has no such picture; take one of heatmap"):
        drawn_picture(kind, SCHEMES[name])


@pytest.mark.parametrize("kind", sorted(TABLES))
def test_files_without_a_spec_have_their_kinds(kind: str) -> None:
    subject = PlotSource(
        "x.npy", (table_of("array", np.random.default_rng(0).normal(size=(64, 8))),)
    )
    assert kinds.picture(kind, [subject], PlotRequest()).panels


@pytest.mark.parametrize("kind", ["heatmap", "curves", "wavelengths", "similarity", "decay"])
def test_two_are_compared_under_names_that_tell_them_apart(kind: str) -> None:
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


ROPE, CHANNEL_2 = pecli.Rope(64, 8), PlotRequest(channels=(2,))
SCHEMES_AND_NAMES = [
    ([ROPE, pecli.Rope(128, 8)], ["seq_len 64", "seq_len 128"]),
    (
        [ROPE, pecli.Rope(128, 8), ROPE],
        ["seq_len 64 (1 of 2)", "seq_len 128", "seq_len 64 (2 of 2)"],
    ),
    (
        [ROPE, pecli.Rope(64, 8, scaling="linear", factor=2.0)],
        ["unscaled", "scaling linear, factor 2"],
    ),
]


@pytest.mark.parametrize("label", ["", "llama-3.1-8b"])
@pytest.mark.parametrize(("schemes", "expected"), SCHEMES_AND_NAMES)
def test_no_two_names_are_alike_and_none_is_cut(
    schemes: list[pecli.Scheme], expected: list[str], label: str
) -> None:
    names = [
        each.label
        for each in labelled([each for scheme in schemes for each in of_scheme(scheme, label)])
    ]
    assert names == [f"{label or 'rope'}, {words}" for words in expected]


def test_a_heatmap_holds_the_table() -> None:
    scheme = pecli.Sinusoidal(40, 16, offset=5)
    (panel,) = drawn_picture("heatmap", scheme).panels

    assert isinstance(panel, HeatmapPanel)
    np.testing.assert_array_equal(panel.values, scheme.tables()["pe"].astype(float))
    assert panel.first_row == 5
    assert panel.shape == (40, 16)
    assert panel.limits == (-1.0, 1.0)
    assert panel.is_centred

    long = pecli.Sinusoidal(300_000, 8)
    assert (
        drawn_picture("heatmap", long, request=PlotRequest(10, 8)).title
        == "value over 300,000 positions, by channel"
    )


def test_alibi_is_small_multiples_of_one_logarithmic_scale() -> None:
    """Eight of 16 heads are drawn; the bias at distance 7 is 7 times the slope."""
    picture = drawn_picture("heatmap", pecli.Alibi(16, 8))
    assert [panel.title for panel in picture.panels] == [
        f"head {head}" for head in (0, 2, 4, 6, 9, 11, 13, 15)
    ]

    slopes = pecli.Alibi(16, 8).tables()["slopes"]
    assert all(
        panel.limits == pytest.approx((0.7 * slopes[15], 7 * slopes[0])) for panel in picture.panels
    )
    assert all(panel.log and panel.values[0, 0] == 0 for panel in picture.panels)
    assert [panel.values[0, 7] for panel in picture.panels[:3]] == [
        7 * slopes[head] for head in (0, 2, 4)
    ]

    (row,) = drawn_picture("heatmap", pecli.Alibi(4, 8, form="key")).panels
    np.testing.assert_array_equal(row.values[:, 1], [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8])


def test_relative_positions_are_buckets_of_queries_and_keys() -> None:
    """T5's formula: 16 buckets per side, 8 of them exact, and 128 as the largest distance."""
    picture = drawn_picture("heatmap", Relative(style="swin", grid=(2, 3)))
    (panel,) = picture.panels

    assert picture.title == "bucket by query and key"
    assert panel.rows == "query"
    assert panel.columns == "key"

    picture = drawn_picture(
        "curves", Relative(style="t5", seq_len=140, buckets=32, max_distance=128)
    )
    (curve,) = picture.panels[0].curves
    assert picture.title == "bucket by distance"
    assert picture.panels[0].x == "distance, key − query"
    assert (
        curve.y[::2] == curve.y[1::2]
    ).all()  # level from half a step before a distance to half a step after it

    buckets = dict(
        zip((curve.x[::2] + 0.5).tolist(), curve.y[::2].tolist(), strict=True)
    )  # T5: 16 a side
    assert [buckets[d] for d in (-139, -128, -7, -1, 0, 1, 7, 8, 139)] == [
        15,
        15,
        7,
        1,
        0,
        17,
        23,
        24,
        31,
    ]

    index = Relative(style="t5", seq_len=512)
    (panel,) = drawn_picture("heatmap", index, request=PlotRequest(200, 200)).panels
    np.testing.assert_array_equal(
        panel.values, index.tables()["index"][::3, ::3]
    )  # no mean of two buckets
    assert panel.axis_names(*panel.values.shape) == ("query (one in 3)", "key (one in 3)")
    assert kinds.default_kind(of_scheme(index)) == "curves"
    assert kinds.default_kind(of_scheme(Relative(style="swin", grid=(2, 3)))) == "heatmap"
    with pytest.raises(ParameterError, match="distances on a grid have two axes"):
        drawn_picture("curves", Relative(style="swin", grid=(2, 3)))


def test_chosen_pairs_turn_between_half_a_time_and_sixteen_times() -> None:
    """Pair i turns 999 · 10000^(-i/64) / 2π times in 1000 positions."""
    (chart,) = drawn_picture("curves", pecli.Rope(1000, 128)).panels
    pairs = [int(curve.label.removeprefix("pair ")) for curve in chart.curves]
    turns = [999 * 10000 ** (-pair / 64) / (2 * math.pi) for pair in pairs]

    np.testing.assert_allclose(turns, [16, 6.7, 2.8, 1.2, 0.5], rtol=0.1)
    assert chart.y == "cosine"


def test_curves_are_columns_and_biases_are_lines() -> None:
    scheme = pecli.Sinusoidal(50, 16)
    (chart,) = drawn_picture("curves", scheme, request=PlotRequest(channels=(3, 0))).panels

    np.testing.assert_array_equal(chart.curves[0].y, scheme.tables()["pe"][:, 3])
    assert [curve.label for curve in chart.curves] == ["channel 3", "channel 0"]

    (chart,) = drawn_picture(
        "curves", pecli.Alibi(2, 101), request=PlotRequest(channels=(1,))
    ).panels
    assert chart.curves[0].y[-1] == -100 * 2.0**-8


def test_heatmaps_of_biases_with_one_query_take_no_channels() -> None:
    """A bias (heads, 1, keys) is one panel, in which every head is a row."""
    with pytest.raises(pecli.ParameterError, match="heatmap shows all of them"):
        drawn_picture("heatmap", pecli.Alibi(4, 8, form="key"), request=PlotRequest(channels=(1,)))


def test_heatmaps_of_biases_take_heads_as_channels() -> None:
    request = PlotRequest(channels=(1,))
    assert len(drawn_picture("heatmap", pecli.Alibi(4, 8), request=request).panels) == 1


def test_curves_of_several_tables_have_dashes_of_their_own() -> None:
    one, other = (PlotSource(name, (table_of("x", np.eye(9)),)) for name in "ab")
    (chart,) = kinds.picture("curves", [one, other], PlotRequest(channels=(2, 3))).panels
    found = [(curve.label, curve.dash) for curve in chart.curves]

    assert found == [
        (f"{name}, channel {k}", dash) for name, dash in (("a", "-"), ("b", "--")) for k in (2, 3)
    ]


def test_similarity_of_sinusoids_depends_on_the_distance_alone() -> None:
    """The mean of cos(d · 10000^(-i/16)) over the frequencies."""
    heat, chart = drawn_picture("similarity", pecli.Sinusoidal(100, 32, dtype="float64")).panels
    expected = np.cos(np.arange(100)[:, None] * 10000.0 ** (-np.arange(16) / 16)).mean(axis=1)

    np.testing.assert_allclose(chart.curves[0].y, expected, atol=1e-12)
    np.testing.assert_allclose(heat.values[0], expected, atol=1e-12)
    np.testing.assert_allclose(np.diag(heat.values), 1.0, atol=1e-12)

    rotated = drawn_picture("similarity", pecli.Rope(100, 32, dtype="float64")).panels[1]
    np.testing.assert_allclose(rotated.curves[0].y, expected, atol=1e-12)


@pytest.mark.parametrize(
    "scheme", [pecli.Sinusoidal(1_000_000, 64), pecli.LearnedInit(5000, 16, init="uniform")]
)
def test_a_long_table_is_sampled_and_every_row_is_like_itself(scheme: pecli.Scheme) -> None:
    heat, chart = drawn_picture("similarity", scheme, request=PlotRequest(1000)).panels
    table = scheme.tensors()[0]
    step = -(-table.rows // 512)

    np.testing.assert_allclose(np.diag(heat.values), 1.0, atol=1e-12)
    assert chart.curves[0].y[0] == pytest.approx(1.0, abs=1e-12)
    assert len(heat.values) == -(-table.rows // step)
    assert heat.title == "pairs of positions"
    assert heat.axis_names(*heat.values.shape)[0].startswith("position (one in ")

    one, other = (table.read(k * step, k * step + 1)[0].astype(float) for k in (3, 200))
    expected = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
    assert heat.values[3, 200] == pytest.approx(expected, abs=1e-12)


def test_rows_without_a_direction_have_no_similarity() -> None:
    """(3, 4) has the direction (0.6, 0.8), at any magnitude; zeros have none."""
    rows = np.array([[3.0, 4.0], [0.0, 0.0], [1e200, 0.0], [-6e-300, -8e-300]])
    directions = similarity.directions([table_of("", rows)], np.arange(4))

    assert np.isnan(directions[1]).all()
    np.testing.assert_allclose(
        directions[[0, 2, 3]], [[0.6, 0.8], [1.0, 0.0], [-0.6, -0.8]], rtol=1e-12
    )
    np.testing.assert_allclose(
        similarity.by_distance(directions), [1.0, -0.6, 0.6, -1.0], atol=1e-12
    )

    rows = np.random.default_rng(0).normal(size=(50, 7))
    expected = [np.diagonal(rows @ rows.T, k).mean() for k in range(50)]
    np.testing.assert_allclose(similarity.by_distance(rows), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("style", "shape"), [("eva", (3, 5)), ("qwen2-vl", (4, 6))]
)  # the second merges 2 × 2 patches
def test_a_patch_is_most_similar_to_itself(style: str, shape: tuple[int, int]) -> None:
    """The similarity of two rotations is the mean of the cosines of what they differ by."""
    (panel,) = drawn_picture("patch", pecli.Rope(grid=shape, dim=4, style=style)).panels
    rows, columns = np.indices(shape)
    wanted = (np.cos(rows - shape[0] // 2) + np.cos(columns - shape[1] // 2)) / 2

    np.testing.assert_allclose(panel.values, wanted, atol=1e-6)
    assert panel.rows == "row"
    assert panel.columns == "column"


EVA_ON_4_BY_6 = pecli.Rope(grid=(4, 6), dim=8, style="eva")


def test_a_picture_of_patches_names_the_grid_and_its_middle() -> None:
    picture = drawn_picture("patch", EVA_ON_4_BY_6)
    assert picture.title.endswith("similarity of one patch to all others, 4 × 6")
    assert [panel.title for panel in picture.panels] == ["row 2, column 3"]


def test_patches_of_two_towers_are_named_after_them() -> None:
    picture = drawn_picture(
        "patch", EVA_ON_4_BY_6, pecli.Rope(grid=(4, 6), dim=8, style="eva", base=500.0)
    )
    first, second = picture.panels

    assert "base 10000" in first.title
    assert "base 500" in second.title


def test_patches_of_a_video_are_those_of_its_first_frame() -> None:
    video = pecli.Rope(grid=(5, 4, 6), dim=24, style="wan")
    picture = drawn_picture("patch", video)

    assert picture.title.endswith("similarity of one patch to all others, 4 × 6")
    assert [panel.title for panel in picture.panels] == ["row 2, column 3, frame 0 of 5"]


def test_tables_on_grids_are_maps_of_channels(run_pecli, tmp_path: Path) -> None:
    """Channel 2 of MAE's table is the sine of the column times 1/100."""
    (panel,) = drawn_picture(
        "heatmap", pecli.Sinusoidal(grid=(3, 5), dim=16, style="mae", keep=1), request=CHANNEL_2
    ).panels
    np.testing.assert_allclose(panel.values, np.tile(np.sin(np.arange(5) / 100), (3, 1)), atol=1e-6)
    assert panel.title == "channel 2"
    assert panel.rows == "row"
    assert panel.columns == "column"
    assert panel.shape == (3, 5)

    tower_kinds = picture_kinds(pecli.Rope(grid=(3, 5), dim=16, style="eva"))
    table = np.random.default_rng(0).normal(
        size=(1, 16, 8)
    )  # learned, after a class token, as ViT has it
    subject = of_file("x", opened({"x": table})[1])[0]._replace(grid=(3, 5), keep=1)
    (panel,) = kinds.picture("heatmap", [subject], CHANNEL_2).panels

    np.testing.assert_array_equal(panel.values, table[0, 1:, 2].reshape(3, 5))

    (panel,) = kinds.picture("patch", [subject], PlotRequest()).panels
    unit = table[0, 1:] / np.linalg.norm(table[0, 1:], axis=1, keepdims=True)
    np.testing.assert_allclose(panel.values, (unit @ unit[7]).reshape(3, 5), atol=1e-12)
    assert (
        subject.picture_kinds == tower_kinds == ("heatmap", "similarity", "patch")
    )  # which are no lines

    np.save(tmp_path / "x.npy", table)
    command = ["plot", str(tmp_path / "x.npy"), "--kind", "patch", "--grid", "3x5"]
    assert run_pecli(*command, "--keep", "1").exit_code == SUCCESS

    refused = run_pecli(*command)
    assert refused.exit_code == USAGE_ERROR
    assert "with 0 kept that is 15 rows; x.npy has 16" in refused.err


def test_the_expected_score_and_its_bound() -> None:
    """The mean cosine, and the bound of Su et al.

    (2021): mean |S_i| of partial sums, normed to 1 at distance 0.
    """
    angles = 10000.0 ** (-np.arange(8) / 8)
    score, bound = decay.scores(angles, np.array([0.0, 3.0]))

    assert score[0] == 1.0
    assert bound[0] == pytest.approx(1.0)
    assert score[1] == pytest.approx(sum(math.cos(3 * angle) for angle in angles) / 8)

    sums = [
        abs(sum(complex(math.cos(3 * a), math.sin(3 * a)) for a in angles[: i + 1]))
        for i in range(8)
    ]
    assert bound[1] == pytest.approx(sum(sums) / 8 / 4.5)  # 4.5 is the mean of 1 … 8


def test_scores_grow_with_the_square_of_the_attention_factor() -> None:
    """Both queries and keys are multiplied by it: 1.5² = 2.25."""
    given = {"scaling": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
    plain, scaled = (
        drawn_picture("decay", pecli.Rope(256, 32, **given, attention_factor=each))
        for each in (1.0, 1.5)
    )
    for one, other in zip(plain.panels, scaled.panels, strict=True):
        np.testing.assert_allclose(other.curves[0].y, 2.25 * one.curves[0].y, rtol=1e-12)

    assert plain.subtitle == ""
    assert scaled.subtitle[:20] == "Attention factor 1.5"

    tables = pecli.Rope(256, 32, **given, attention_factor=1.5, dtype="float64").tables()
    rotated = np.concatenate(
        [tables["cos"], tables["sin"]], axis=1
    )  # of q = k = (1, 0) in every pair, |q| = 4
    np.testing.assert_allclose(
        scaled.panels[0].curves[0].y, (rotated @ rotated[0] / 16)[1:], atol=1e-12
    )


@pytest.mark.parametrize("slope", [0.5, 2.0**-8, 0.0])
def test_weights_after_softmax_add_up_to_one(slope: float) -> None:
    logits = -slope * np.arange(100)
    expected = np.exp(logits) / np.exp(logits).sum()
    weights = decay.weights(slope, np.arange(100.0), 100)

    np.testing.assert_allclose(
        weights[np.isfinite(weights)], expected[expected >= decay.MIN_WEIGHT], rtol=1e-12
    )


def test_circles_turn_once_in_a_wavelength_and_slopes_are_the_paper_s() -> None:
    fast, slow = drawn_picture(
        "circle", pecli.Rope(97, 12), request=PlotRequest(channels=(0, 5))
    ).panels
    np.testing.assert_allclose(fast.curves[0].x, np.arange(97.0), rtol=1e-12)
    np.testing.assert_allclose(slow.curves[0].x, np.arange(97) * 10000 ** (-5 / 6), rtol=1e-12)
    np.testing.assert_array_equal(slow.curves[0].y, np.arange(97.0))

    (chart,) = drawn_picture("slopes", pecli.Alibi(8)).panels
    assert chart.curves[0].y.tolist() == [2.0**-k for k in range(1, 9)]
    assert not chart.joined


def test_similarities_have_the_range_of_the_data_where_none_is_negative() -> None:
    rope = pecli.Rope(64, 16)
    (panel,) = drawn_picture("similarity", rope).heatmaps
    phases = np.outer(np.arange(64), rope.tables()["inv_freq"])
    expected = np.cos(phases[:, None] - phases[None]).mean(axis=-1)

    assert panel.ends == pytest.approx(
        (expected.min(), 1.0) if expected.min() >= 0 else (-1.0, 1.0), abs=1e-6
    )

    (rising,) = drawn_picture("similarity", pecli.Sinusoidal(16, 512)).heatmaps
    assert 0 < rising.ends[0] == rising.values.min()

    both = drawn_picture(
        "similarity", pecli.Sinusoidal(16, 512), pecli.Sinusoidal(16, 512, base=100.0)
    ).heatmaps
    assert both[0].ends == both[1].ends == (min(panel.values.min() for panel in both), 1.0)


@pytest.mark.parametrize("label", ["whisper-tiny encoder", "t5-small decoder", "mpt-7b"])
def test_models_without_rope_are_drawn_with_what_they_have(run_pecli, label: str) -> None:
    assert label in run_pecli("plot", label.split()[0]).out

    refused = run_pecli("plot", "bert-base")
    assert refused.exit_code == USAGE_ERROR
    assert "learned" in refused.err


def test_a_vision_tower_is_drawn_beside_the_text_and_by_its_name_alone(run_pecli) -> None:
    """The tower has 16 frequencies of base 10000 per axis."""
    model = pecli.load_model("qwen3-vl-4b")
    text, vision = of_model(model, "qwen3-vl-4b", "wavelengths")

    assert text.label == "qwen3-vl-4b"
    assert vision.label == "qwen3-vl-4b vision, one axis"
    np.testing.assert_allclose(
        vision.scheme.angular_frequencies(), 1e4 ** (-np.arange(16) / 16), rtol=1e-12
    )

    (tower,) = of_model(model, "qwen3-vl-4b", "patch")  # the text has no patches
    values = kinds.picture("patch", [tower], PlotRequest()).panels[0].values
    rows, columns = np.indices((16, 16)) - 8
    angles = 1e4 ** (-np.arange(16) / 16)
    wanted = (np.cos(rows[..., None] * angles) + np.cos(columns[..., None] * angles)).mean(
        axis=-1
    ) / 2

    np.testing.assert_allclose(values, wanted, atol=1e-6)
    assert "qwen3-vl-4b vision, one axis, cos" in run_pecli("plot", "qwen3-vl-4b").out
    assert run_pecli("plot", "qwen3-vl-4b", "--layer-type", "vision").out.startswith(
        "qwen3-vl-4b vision: cosine and"
    )
    assert run_pecli("plot", "flux.1-dev").out.startswith(
        "flux.1-dev: cosine and sine by row and column"
    )
    assert run_pecli("plot", "mistral", "-k", "wavelengths").out.startswith("mistral-7b-v0.3: ")


def test_tables_that_identify_knows_have_its_axes(tmp_path: Path) -> None:
    rope = pecli.Rope(64, 16, offset=7).tables()
    for name, arrays, expected in (
        ("rope.npz", {"cos": rope["cos"], "sin": rope["sin"]}, ("position", "pair", 7)),
        (
            "4d.npz",
            {name: rope[name][None, :, None] for name in ("cos", "sin")},
            ("position", "pair", 7),
        ),
        (
            "keys.npz",
            {"bias": pecli.Alibi(4, 16, form="key").tables()["bias"][None]},
            ("head", "key", 0),
        ),
        (
            "pe.npz",
            {"x": pecli.Sinusoidal(64, 16, offset=3).tables()["pe"]},
            ("position", "channel", 3),
        ),
        (
            "layers.npz",
            {f"{n}.{name}": rope[name] for n in "01" for name in ("cos", "sin")},
            ("position", "channel", 0),
        ),
        (
            "noise.npz",
            {"x": np.random.default_rng(0).normal(size=(64, 16))},
            ("position", "channel", 0),
        ),
    ):
        (subject,) = of_file(name, opened(arrays)[1])
        panel = kinds.picture("heatmap", [identified(subject, None)], PlotRequest()).panels[0]
        rows, columns, first_row = expected
        assert panel.rows == rows
        assert panel.columns == columns
        assert panel.first_row == first_row
        np.testing.assert_array_equal(panel.values, np.squeeze(next(iter(arrays.values()))))
    for form in ("symmetric", "causal"):  # whose slopes are not beside it
        bias = pecli.Alibi(4, 32, form=form).tables()["bias"]
        found = [identified(each, None) for each in of_file("bias.npz", opened({"bias": bias})[1])]
        panel = kinds.picture("heatmap", found, PlotRequest()).panels[1]
        assert panel.title == "head 1"
        assert panel.rows == "query"
        assert panel.columns == "key"
        np.testing.assert_array_equal(panel.values, np.abs(bias[1]))
        (chart,) = kinds.picture("curves", found, PlotRequest()).panels
        assert chart.curves[0].y[-1] == -31 / 4


@pytest.mark.parametrize(("rows", "points"), [(1, 2), (10, 9), (1201, 1200)])
def test_decay_is_drawn_at_every_distance_of_a_short_table(rows: int, points: int) -> None:
    """Up to 1200 distances."""
    chart = drawn_picture("decay", pecli.Rope(rows, 4)).panels[0]
    assert len(chart.curves[0].x) == points


def test_decay_of_a_long_table_ends_at_its_largest_distance() -> None:
    distances = drawn_picture("decay", pecli.Rope(1202, 4)).panels[0].curves[0].x
    assert distances[0] == 1.0
    assert distances[-1] == 1201.0


@pytest.mark.parametrize("kind", ["decay", "curves"])
def test_fewer_heads_are_drawn_of_each_of_several_subjects(kind: str) -> None:
    alone = drawn_picture(kind, pecli.Alibi(16, 8)).panels[0]
    beside = drawn_picture(kind, pecli.Alibi(16, 8), pecli.Alibi(16, 9)).panels[0]

    assert len(alone.curves) == 8
    assert alone.ordered
    assert len(beside.curves) == 6
    assert not beside.ordered


def test_weights_are_drawn_at_every_distance_of_a_short_context() -> None:
    chart = drawn_picture("decay", pecli.Alibi(2, 8)).panels[0]
    assert chart.curves[0].x.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]


@pytest.mark.parametrize(
    ("heads", "across"), [(1, 1), (2, 2), (3, 3), (4, 2), (5, 3), (6, 3), (7, 4), (8, 4)]
)
def test_panels_stand_in_rows_of_about_equal_length(heads: int, across: int) -> None:
    assert drawn_picture("heatmap", pecli.Alibi(heads, 4)).across == across


@pytest.mark.parametrize(
    ("schemes", "title"),
    [
        ((pecli.Rope(4, 4),), "cosine and sine over 4 positions, by pair"),
        ((pecli.Rope(4, 4), pecli.Alibi(2, 4)), "value over 4 positions, by pair"),
    ],
    ids=["two names", "three names"],
)
def test_the_title_of_a_heatmap_names_its_elements(
    schemes: tuple[pecli.Scheme, ...], title: str
) -> None:
    assert drawn_picture("heatmap", *schemes).title == title


def test_rows_that_are_kept_do_not_move_the_patches() -> None:
    plain = drawn_picture("patch", pecli.Sinusoidal(grid=(3, 5), dim=16, style="mae"))
    kept = drawn_picture("patch", pecli.Sinusoidal(grid=(3, 5), dim=16, style="mae", keep=1))

    np.testing.assert_array_equal(plain.heatmaps[0].values, kept.heatmaps[0].values)
