"""Values as colours and as curves."""

from __future__ import annotations

import math

import numpy as np

import pecli
from pecli.engine.schemes.relative import Relative
from pecli.engine.table import table_of
from pecli.views.pictures import downsample
from pecli.views.pictures import kinds as figures
from pecli.views.pictures.panels import HeatmapPanel, PlotRequest, Subject, spread
from tests.views.pictures.kinds.drawing import made


def test_a_heatmap_holds_the_table() -> None:
    scheme = pecli.Sinusoidal(40, 16, offset=5)
    (panel,) = made("heatmap", scheme).panels
    assert isinstance(panel, HeatmapPanel)
    np.testing.assert_array_equal(panel.values, scheme.tables()["pe"].astype(float))
    assert (panel.first_row, panel.row_count, panel.column_count, panel.limits) == (5, 40, 16, (-1.0, 1.0))


def test_a_long_table_is_its_means() -> None:
    scheme = pecli.Sinusoidal(1000, 8)
    (panel,) = made("heatmap", scheme, request=PlotRequest(10, 8)).panels
    expected = scheme.tables()["pe"].astype(float).reshape(10, 100, 8).mean(axis=1)
    np.testing.assert_allclose(panel.values, expected, atol=1e-12)


def test_a_wide_table_leaves_channels_out_and_mixes_none() -> None:
    scheme = pecli.Sinusoidal(100, 96)
    (panel,) = made("heatmap", scheme, request=PlotRequest(10, 40)).panels
    expected = scheme.tables()["pe"].astype(float).reshape(10, 10, 96).mean(axis=1)[:, ::3]
    np.testing.assert_allclose(panel.values, expected, atol=1e-12)
    assert (panel.column_step, panel.column_count) == (3, 96)


def test_a_heatmap_of_a_part_of_the_rows_says_so(monkeypatch) -> None:
    whole = made("heatmap", pecli.Sinusoidal(300_000, 8), request=PlotRequest(10, 8))
    monkeypatch.setattr(downsample, "MAX_ELEMENTS", 1 << 21)
    part = made("heatmap", pecli.Sinusoidal(300_000, 8), request=PlotRequest(10, 8))
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


def test_relative_positions_are_buckets_of_queries_and_keys() -> None:
    found = made("heatmap", Relative(style="swin", grid=(2, 3)))
    (panel,) = found.panels
    assert found.title == "bucket by query and key"
    assert (panel.rows, panel.columns) == ("query", "key")


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
        np.testing.assert_allclose(panel.scaled(np.array([-32.0, 0.0, 1.0])), [-4.0, 0.0, 1.0])
    (alone,) = made("heatmap", pecli.Alibi(1, 16)).panels
    np.testing.assert_array_equal(alone.scaled(alone.values), alone.values)


def test_gaps_do_not_make_restless_curves_calm() -> None:
    numbers = np.random.default_rng(0).normal(size=(300, 16))
    numbers[50:60] = np.nan
    (chart,) = figures.picture("curves", [Subject("x", (table_of("x", numbers),))], PlotRequest()).panels
    assert len(chart.curves) == 2


def test_curves_are_columns_and_biases_are_lines() -> None:
    scheme = pecli.Sinusoidal(50, 16)
    (chart,) = made("curves", scheme, request=PlotRequest(channels=(3, 0))).panels
    np.testing.assert_array_equal(chart.curves[0].y, scheme.tables()["pe"][:, 3])
    assert [curve.label for curve in chart.curves] == ["channel 3", "channel 0"]
    (chart,) = made("curves", pecli.Alibi(2, 101), request=PlotRequest(channels=(1,))).panels
    assert chart.curves[0].y[-1] == -100 * 2.0**-8
