"""What each kind of picture shows, in numbers that come from elsewhere."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pecli
from pecli.engine.table import Table, table_of
from pecli.errors import ParameterError
from pecli.models.find import context_length
from pecli.models.presets import presets
from pecli.views.pictures import downsample
from pecli.views.pictures import kinds as figures
from pecli.views.pictures.kinds import decay, histogram, similarity, spectrum
from pecli.views.pictures.panels import Chart, Heat, Picture, Subject, Wish, spread
from pecli.views.pictures.subjects import labelled, of_scheme, title_of


def made(kind: str, *schemes: pecli.Scheme, wish: Wish | None = None) -> Picture:
    subjects = labelled([subject for scheme in schemes for subject in of_scheme(scheme)])
    return figures.picture(kind, subjects, wish or Wish())


def test_a_heatmap_holds_the_table() -> None:
    scheme = pecli.Sinusoidal(40, 16, offset=5)
    (panel,) = made("heatmap", scheme).panels
    assert isinstance(panel, Heat)
    np.testing.assert_array_equal(panel.values, scheme.tables()["pe"].astype(float))
    assert (panel.first_row, panel.row_count, panel.column_count, panel.limits) == (5, 40, 16, (-1.0, 1.0))


def test_a_long_table_is_its_means() -> None:
    scheme = pecli.Sinusoidal(1000, 8)
    (panel,) = made("heatmap", scheme, wish=Wish(10, 8)).panels
    expected = scheme.tables()["pe"].astype(float).reshape(10, 100, 8).mean(axis=1)
    np.testing.assert_allclose(panel.values, expected, atol=1e-12)


def test_a_heatmap_of_a_part_of_the_rows_says_so(monkeypatch) -> None:
    whole = made("heatmap", pecli.Sinusoidal(300_000, 8), wish=Wish(10, 8))
    monkeypatch.setattr(downsample, "MOST", 1 << 21)
    part = made("heatmap", pecli.Sinusoidal(300_000, 8), wish=Wish(10, 8))
    assert (whole.title, part.title) == (
        "value by position and channel",
        "value by position and channel, from a part of the rows",
    )


def test_alibi_is_small_multiples_of_one_scale() -> None:
    picture = made("heatmap", pecli.Alibi(16, 8))
    heads = [panel.title for panel in picture.panels]
    assert heads == [f"head {head}" for head in spread(16, 8)]
    assert {panel.limits for panel in picture.panels} == {(-7 * 2**-0.5, 0.0)} or len(heads) == 8
    assert len({panel.limits for panel in picture.panels}) == 1
    (row,) = made("heatmap", pecli.Alibi(4, 8, form="key")).panels
    np.testing.assert_array_equal(row.values[:, 1], [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8])


def test_wavelengths_run_from_2_pi_to_2_pi_times_the_base() -> None:
    (chart,) = made("wavelengths", pecli.Sinusoidal(512, 64, freq_shift=1.0)).panels
    (curve,) = chart.curves
    assert curve.y[0] == pytest.approx(2 * math.pi, rel=1e-12)
    assert curve.y[-1] == pytest.approx(2 * math.pi * 10000, rel=1e-12)
    (chart,) = made("wavelengths", pecli.Rope(512, 64)).panels
    np.testing.assert_allclose(chart.curves[0].y, 2 * math.pi * 10000 ** (np.arange(32) / 32), rtol=1e-12)


def test_wavelengths_mark_the_contexts_of_a_scaling() -> None:
    scaled = pecli.Rope(
        64,
        128,
        base=5e5,
        scaling="llama3",
        factor=8.0,
        original_max_position_embeddings=8192,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
    )
    (chart,) = made("wavelengths", scaled, pecli.Rope(64, 128, base=5e5)).panels
    assert [level for _, level in chart.levels] == [8192.0, 65536.0]
    assert chart.levels[1][0] == "8 times the original, 65,536"
    ratio = chart.curves[0].y / chart.curves[1].y
    plain = chart.curves[1].y
    np.testing.assert_allclose(ratio[plain > 8192], 8.0, rtol=1e-12)
    np.testing.assert_allclose(ratio[plain < 2048], 1.0, rtol=1e-12)


def test_a_model_says_itself_how_far_it_goes() -> None:
    for name, expected in {
        "llama-3.1-8b": [("trained on 8,192", 8192.0), ("extended to 131,072", 131072.0)],
        "deepseek-v3": [("trained on 4,096", 4096.0), ("extended to 163,840", 163840.0)],
        "llama-3-8b": [("context 8,192", 8192.0)],
    }.items():
        scheme = pecli.load_config(presets()[name].config).one().rope(64)
        subjects = of_scheme(scheme, name, context_length(None, name))
        (chart,) = figures.picture("wavelengths", subjects, Wish()).panels
        assert chart.levels == expected


def test_chosen_pairs_turn_between_half_a_time_and_sixteen_times() -> None:
    (chart,) = made("curves", pecli.Rope(1000, 128)).panels
    pairs = [int(curve.label.removeprefix("pair ")) for curve in chart.curves]
    turns = [999 * 10000 ** (-pair / 64) / (2 * math.pi) for pair in pairs]
    np.testing.assert_allclose(turns, [16, 6.7, 2.8, 1.2, 0.5], rtol=0.1)
    assert chart.y == "cosine"


def test_of_noise_two_channels_are_drawn() -> None:
    (chart,) = made("curves", pecli.LearnedInit(512, 64)).panels
    assert len(chart.curves) == 2


def test_biases_are_bent_so_that_small_slopes_show() -> None:
    for panel in made("heatmap", pecli.Alibi(8, 16)).panels:
        np.testing.assert_allclose(panel.bent(np.array([-32.0, 0.0, 1.0])), [-4.0, 0.0, 1.0])
    (alone,) = made("heatmap", pecli.Alibi(1, 16)).panels
    np.testing.assert_array_equal(alone.bent(alone.values), alone.values)


@pytest.mark.parametrize("kind", ["heatmap", "curves", "similarity", "spectrum", "histogram"])
def test_rows_that_no_memory_holds_are_refused_unread(kind: str) -> None:
    def fill(start: int, out: np.ndarray) -> None:
        raise AssertionError("read")

    subject = Subject("wide.npy", (Table("array", "float32", (8, 1 << 40), fill),))
    with pytest.raises(ParameterError, match="are too long; up to"):
        figures.picture(kind, [subject], Wish())


def test_similarity_of_sinusoids_depends_on_the_distance_alone() -> None:
    heat, chart = made("similarity", pecli.Sinusoidal(100, 32, dtype="float64")).panels
    distances = np.arange(100)
    expected = np.cos(distances[:, None] * 10000.0 ** (-np.arange(16) / 16)).mean(axis=1)
    np.testing.assert_allclose(chart.curves[0].y, expected, atol=1e-12)
    np.testing.assert_allclose(heat.values[0], expected, atol=1e-12)
    np.testing.assert_allclose(np.diag(heat.values), 1.0, atol=1e-12)
    turned = made("similarity", pecli.Rope(100, 32, dtype="float64")).panels[1]
    np.testing.assert_allclose(turned.curves[0].y, expected, atol=1e-12)


def test_the_mean_by_distance_is_that_of_the_diagonals() -> None:
    rows = np.random.default_rng(0).normal(size=(50, 7))
    product = rows @ rows.T
    expected = [np.diagonal(product, k).mean() for k in range(50)]
    np.testing.assert_allclose(similarity.by_distance(rows), expected, atol=1e-12)


def test_the_block_means_of_a_similarity_are_means_of_the_products() -> None:
    scheme = pecli.LearnedInit(64, 16, dtype="float64")
    heat = made("similarity", scheme, wish=Wish(16, 16)).panels[0]
    rows = scheme.tables()["weight"]
    full = rows @ rows.T / np.mean(np.sum(rows**2, axis=1))
    np.testing.assert_allclose(heat.values, full.reshape(16, 4, 16, 4).mean(axis=(1, 3)), atol=1e-12)


def test_the_expected_score_and_its_bound() -> None:
    angles = 10000.0 ** (-np.arange(8) / 8)
    score, bound = decay.scores(angles, np.array([0.0, 3.0]))
    assert score[0] == 1.0
    assert bound[0] == pytest.approx(4.5)  # the mean of 1 … 8
    assert score[1] == pytest.approx(sum(math.cos(3 * angle) for angle in angles) / 8)
    sums = [abs(sum(complex(math.cos(3 * a), math.sin(3 * a)) for a in angles[: i + 1])) for i in range(8)]
    assert bound[1] == pytest.approx(sum(sums) / 8)


@pytest.mark.parametrize("slope", [0.5, 2.0**-8])
def test_weights_after_softmax_add_up_to_one(slope: float) -> None:
    logits = -slope * np.arange(100)
    expected = np.exp(logits) / np.exp(logits).sum()
    found = decay.weights(slope, np.arange(100.0), 100)
    np.testing.assert_allclose(found[np.isfinite(found)], expected[expected >= decay.FAINTEST], rtol=1e-12)


def test_circles_turn_once_in_a_wavelength() -> None:
    picture = made("circle", pecli.Rope(97, 12), wish=Wish(channels=(0, 5)))
    fast, slow = picture.panels
    np.testing.assert_allclose(fast.angles, np.arange(97.0), rtol=1e-12)
    np.testing.assert_allclose(slow.angles, np.arange(97) * 10000 ** (-5 / 6), rtol=1e-12)


def test_a_histogram_is_a_density() -> None:
    values = np.random.default_rng(0).uniform(-2, 4, (300, 40))
    middles, density, mean, spread = histogram.distribution(table_of("x", values))
    assert np.sum(density) * (middles[1] - middles[0]) == pytest.approx(1.0)
    np.testing.assert_allclose(density, 1 / 6, rtol=0.4)
    assert mean == pytest.approx(values.mean())
    assert spread == pytest.approx(values.std())


def test_a_histogram_of_a_long_table_is_of_a_part_and_says_so(monkeypatch) -> None:
    values = np.random.default_rng(0).normal(3, 2, (40_000, 8)) + np.linspace(0, 10, 40_000)[:, None]
    subject = Subject("x", (table_of("x", values),))
    (whole,) = figures.picture("histogram", [subject], Wish()).panels
    monkeypatch.setattr(histogram, "MOST", 1 << 16)
    assert whole.title == ""
    (part,) = figures.picture("histogram", [subject], Wish()).panels
    assert part.title == "of 65,536 of 320,000 values, evenly taken"
    middles, density, mean, spread = histogram.distribution(subject.tables[0])
    assert np.sum(density) * (middles[1] - middles[0]) == pytest.approx(1.0)
    assert mean == pytest.approx(8.0, abs=0.1)
    assert spread == pytest.approx(np.sqrt(4 + 100 / 12), abs=0.05)
    in_order = table_of("x", values)
    read = Table("x", in_order.dtype, in_order.shape, in_order.fill, in_order=True)
    assert figures.picture("histogram", [Subject("x", (read,))], Wish()).panels[0].title == ""


def test_gaps_do_not_make_restless_curves_calm() -> None:
    values = np.random.default_rng(0).normal(size=(300, 16))
    values[50:60] = np.nan
    (chart,) = figures.picture("curves", [Subject("x", (table_of("x", values),))], Wish()).panels
    assert len(chart.curves) == 2


@pytest.mark.parametrize("kind", ["decay", "similarity", "spectrum", "wavelengths"])
def test_every_axis_has_a_name(kind: str) -> None:
    charts = [panel for panel in made(kind, pecli.Rope(64, 16)).panels if isinstance(panel, Chart)]
    assert charts
    assert all(chart.x and chart.y for chart in charts)


def test_titles_count_heads_and_leave_out_what_is_drawn() -> None:
    named = {1: "alibi, 1 head: it", 8: "alibi, 8 heads: it"}
    for heads, title in named.items():
        assert title_of(labelled(of_scheme(pecli.Alibi(heads, slopes=True))), "it") == title
    assert title_of(labelled(of_scheme(pecli.Rope(9, 8, base=1e7))), "it") == "rope, dim 8, base 1e7: it"


def test_singular_values_of_a_known_table(monkeypatch) -> None:
    rng = np.random.default_rng(0)
    left, right = np.linalg.qr(rng.normal(size=(60, 5)))[0], np.linalg.qr(rng.normal(size=(5, 5)))[0]
    known = np.array([9.0, 4.0, 2.0, 1.0, 0.5])
    table = table_of("x", left * known @ right)
    np.testing.assert_allclose(spectrum.singular_values(table), known, rtol=1e-12)
    monkeypatch.setattr(spectrum, "_WHOLE", 0)
    np.testing.assert_allclose(spectrum.singular_values(table), known, rtol=1e-10)


def test_slopes_are_the_paper_s() -> None:
    (chart,) = made("slopes", pecli.Alibi(8)).panels
    assert chart.curves[0].y.tolist() == [2.0**-k for k in range(1, 9)]


def test_curves_are_columns_and_biases_are_lines() -> None:
    scheme = pecli.Sinusoidal(50, 16)
    (chart,) = made("curves", scheme, wish=Wish(channels=(3, 0))).panels
    np.testing.assert_array_equal(chart.curves[0].y, scheme.tables()["pe"][:, 3])
    assert [curve.label for curve in chart.curves] == ["channel 3", "channel 0"]
    (chart,) = made("curves", pecli.Alibi(2, 101), wish=Wish(channels=(1,))).panels
    assert chart.curves[0].y[-1] == -100 * 2.0**-8


SCHEMES = {
    "sinusoidal": pecli.Sinusoidal(64, 16),
    "rope": pecli.Rope(64, 16),
    "alibi": pecli.Alibi(4, 64),
    "learned-init": pecli.LearnedInit(64, 16),
}


_TABLES = {"heatmap", "curves", "similarity", "histogram", "spectrum"}
_WAVES = {"wavelengths", "decay", "circle"}
FITTING = {
    "sinusoidal": _TABLES | _WAVES,
    "rope": (_TABLES | _WAVES) - {"histogram"},
    "alibi": {"heatmap", "curves", "decay", "slopes"},
    "learned-init": _TABLES,
}


@pytest.mark.parametrize("kind", figures.KINDS)
@pytest.mark.parametrize("name", SCHEMES)
def test_every_kind_fits_or_says_what_does(kind: str, name: str) -> None:
    if kind in FITTING[name]:
        assert made(kind, SCHEMES[name]).panels
    else:
        with pytest.raises(ParameterError, match=f"{name} has no such picture; take one of heatmap"):
            made(kind, SCHEMES[name])


@pytest.mark.parametrize("kind", sorted(_TABLES))
def test_files_without_a_spec_have_their_kinds(kind: str) -> None:
    subject = Subject("x.npy", (table_of("array", np.random.default_rng(0).normal(size=(64, 8))),))
    assert figures.picture(kind, [subject], Wish()).panels


@pytest.mark.parametrize("kind", ["heatmap", "curves", "wavelengths", "similarity", "decay", "spectrum"])
def test_two_are_compared_under_names_that_tell_them_apart(kind: str) -> None:
    picture = made(kind, pecli.Rope(64, 16), pecli.Rope(64, 16, base=500.0))
    words = [panel.title for panel in picture.panels]
    words += [curve.label for panel in picture.panels if isinstance(panel, Chart) for curve in panel.curves]
    assert any("base 10000" in word for word in words)
    assert any("base 500" in word for word in words)
