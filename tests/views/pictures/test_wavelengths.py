"""The picture of wavelengths, 2π · base^(2i/d), and what a scaling does to them.

Expected wavelengths and stretches are the formulas of the scalings (linear, YaRN, Llama 3, longrope)
repeated in the tests, or the factors of the models' own configurations.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

import pecli
from pecli.models.presets import presets
from pecli.views.pictures import kinds
from pecli.views.pictures.kinds.contexts import scheme_contexts
from pecli.views.pictures.kinds.wavelengths import PairRange, Treatment, pair_ranges, waves_of
from pecli.views.pictures.panels import Band, Chart, Curve, Picture
from pecli.views.pictures.plot_sources import PlotRequest, PlotSource, of_model, of_scheme
from pecli.views.pictures.titles import labelled
from tests.views.pictures.drawing import drawn_picture


def test_wavelengths_run_from_2_pi_to_2_pi_times_the_base() -> None:
    """A wavelength is 2π / frequency. With freq_shift 1, frequency i of 32 is 10000^(−i / (32 −
    1)), so that the first is 1 and the last is 1 / 10000 exactly.
    """
    sinusoidal = pecli.Sinusoidal(seq_len=512, dim=64, freq_shift=1.0)
    (chart,) = drawn_picture("wavelengths", sinusoidal).panels
    (curve,) = chart.curves
    assert curve.y[0] == pytest.approx(2 * math.pi, rel=1e-12)
    assert curve.y[-1] == pytest.approx(2 * math.pi * 10000, rel=1e-12)


def test_wavelengths_of_rope_are_powers_of_the_base() -> None:
    """A wavelength is 2π / frequency; that of pair i is 2π · 10000^(i/32)."""
    (chart,) = drawn_picture("wavelengths", pecli.Rope(512, 64)).panels
    expected = 2 * math.pi * 10000 ** (np.arange(32) / 32)
    np.testing.assert_allclose(chart.curves[0].y, expected, rtol=1e-12)


UNSCALED_LLAMA3 = 2 * math.pi * 5e5 ** (np.arange(64) / 64)
"""The wavelengths of LLAMA3 without its scaling: 64 pairs of base 500000."""


GIVEN = {
    "factor": 8.0,
    "original_max_position_embeddings": 8192,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
}
LLAMA3 = pecli.Rope(64, 128, base=5e5, scaling="llama3", **GIVEN)


def test_a_scaling_is_drawn_beside_the_unscaled_law() -> None:
    """LLAMA3 is Llama 3.1's rope: base 500000, 64 pairs. UNSCALED_LLAMA3 is 2π · 500000^(i/64),
    whose curve is marked as the reference, which is drawn dotted.
    """
    scaled, unscaled = drawn_picture("wavelengths", LLAMA3).panels[0].curves
    assert scaled.label == "scaled"
    assert unscaled.label == "unscaled"
    assert unscaled.reference
    np.testing.assert_allclose(unscaled.y, UNSCALED_LLAMA3, rtol=1e-12)


def test_the_stretch_of_each_pair_by_a_scaling_is_drawn_below() -> None:
    """Llama 3.1's rule, with factor 8 and an original length of 8192: wavelengths (UNSCALED_LLAMA3)
    longer than 8192 / low_freq_factor = 8192 / 1 are stretched by 8, and those shorter than
    8192 / high_freq_factor = 8192 / 4 are kept.
    """
    stretch = drawn_picture("wavelengths", LLAMA3).panels[1].curves[0].y
    np.testing.assert_allclose(stretch[UNSCALED_LLAMA3 > 8192], 8.0, rtol=1e-12)
    np.testing.assert_allclose(stretch[UNSCALED_LLAMA3 < 8192 / 4], 1.0, rtol=1e-12)


def test_the_contexts_of_a_scaling_are_levels() -> None:
    """LLAMA3 has llama3 scaling with factor 8 of an original length of 8,192; 8 · 8,192 is
    65,536.
    """
    chart = drawn_picture("wavelengths", LLAMA3).panels[0]
    assert chart.levels == [("trained on 8,192", 8192.0), ("8 times the original, 65,536", 65536.0)]


def test_pairs_that_a_scaling_treats_alike_are_bands() -> None:
    """LLAMA3 is a scaling by 8 of an original length of 8,192. By its rule, pairs of wavelengths
    (UNSCALED_LLAMA3) below 8,192 / 4 = 2,048 are kept, as they turn over 4 times within it, and
    those above 8,192 are stretched.
    """
    picture = drawn_picture("wavelengths", LLAMA3)
    kept, blended, stretched = picture.panels[0].bands
    last_kept = int(np.sum(UNSCALED_LLAMA3 < 2048)) - 1
    first_stretched = int(np.argmax(UNSCALED_LLAMA3 > 8192))

    assert kept == Band("kept", 0, last_kept)
    assert blended == Band("blended", last_kept + 1, first_stretched - 1)
    assert stretched == Band("stretched ×8", first_stretched, 63)
    words = "Llama3 scaling, factor 8, attention factor 1. Kept: pairs 0–28 (over 4 turns);"
    assert picture.subtitle.startswith(words)


def test_the_limits_of_yarn_are_those_of_its_formula() -> None:
    """YaRN's paper: the pair that turns n times within the original length L has the number
    dim · ln(L / (n · 2π)) / (2 ln base), rounded outwards. Pairs that turn over 32 times are kept,
    those under once are stretched. The attention factor is 0.1 · ln(factor) + 1.
    """
    yarn = pecli.Rope(
        seq_len=64,
        dim=64,
        base=1.5e5,
        scaling="yarn",
        factor=32.0,
        original_max_position_embeddings=4096,
    )

    def pair_of(turns: int) -> float:
        return 64 * math.log(4096 / (turns * 2 * math.pi)) / (2 * math.log(1.5e5))

    last_kept = math.floor(pair_of(turns=32))
    first_stretched = math.ceil(pair_of(turns=1))
    picture = drawn_picture("wavelengths", yarn)
    kept, blended, stretched = picture.panels[0].bands

    assert kept == Band("kept", 0, last_kept)
    assert blended == Band("blended", last_kept + 1, first_stretched - 1)
    assert stretched == Band("stretched ×32", first_stretched, 31)
    assert f"attention factor {0.1 * math.log(32) + 1:.4g}" in picture.subtitle
    assert f"Kept: pairs 0–{last_kept} (over 32 turns)" in picture.subtitle
    assert f"pairs {first_stretched}–31 (under 1)" in picture.subtitle


NTK_BY_8 = 8.0 ** (np.arange(32) / 31)
"""NTK multiplies wavelength i of 32 by 8^(i/31)."""


def test_the_stretch_of_ntk_grows_from_pair_to_pair() -> None:
    """NTK with factor 8 replaces the base, which multiplies wavelength i of 32 by 8^(i/31). The
    second panel of the picture draws this stretch.
    """
    ntk = pecli.Rope(seq_len=64, dim=64, scaling="ntk", factor=8.0)
    stretch = drawn_picture("wavelengths", ntk).panels[1].curves[0].y
    np.testing.assert_allclose(stretch, 8.0 ** (np.arange(32) / 31), rtol=1e-9)


def test_pairs_that_all_have_different_factors_are_no_bands() -> None:
    """`pair_ranges` finds ranges of pairs that are stretched alike. NTK_BY_8 is 8^(i/31) for pair i
    of 32; without the first, which is kept, and the last, which has the whole factor 8, every pair
    has a stretch of its own.
    """
    assert pair_ranges(NTK_BY_8[1:-1]) == []


def test_pairs_that_are_all_stretched_alike_are_one_band() -> None:
    """`pair_ranges` finds ranges of pairs with the same stretch: here all 8 pairs by 4."""
    (pairs,) = pair_ranges(np.full(8, 4.0))
    assert pairs.label == "stretched ×4"


def test_models_with_different_numbers_of_pairs_share_an_axis_from_0_to_1() -> None:
    """Heads of 128 and 32 channels have 64 and 16 pairs; pair i of n is at i / n."""
    ropes = pecli.Rope(seq_len=64, dim=128), pecli.Rope(seq_len=64, dim=32)
    chart = drawn_picture("wavelengths", *ropes).panels[0]
    assert chart.x == "pair, as a share of all"
    np.testing.assert_allclose(chart.curves[0].x, np.arange(64) / 64)
    np.testing.assert_allclose(chart.curves[1].x, np.arange(16) / 16)


def test_models_with_equal_numbers_of_pairs_share_an_axis_of_pairs() -> None:
    """Heads of 128 channels have 64 pairs, whatever the base: pair i is at i."""
    ropes = pecli.Rope(seq_len=64, dim=128), pecli.Rope(seq_len=64, dim=128, base=500.0)
    chart = drawn_picture("wavelengths", *ropes).panels[0]
    assert chart.x == "pair"
    assert chart.curves[1].x.tolist() == list(range(64))


def of_models(*names: str) -> Picture:
    """Return the picture of wavelengths of some presets."""
    sources = []
    for name in names:
        sources += of_model(pecli.load_model(name), name)
    return kinds.picture("wavelengths", labelled(sources), PlotRequest())


def test_the_levels_of_a_model_are_its_contexts() -> None:
    """The numbers are in the published configs: original_max_position_embeddings (trained on, or
    8192 for Llama 3.1), max_position_embeddings (context, extended to), and sliding_window.
    """
    expected = {
        "llama-3.1-8b": [("trained on 8,192", 8192.0), ("extended to 131,072", 131072.0)],
        "deepseek-v3": [("trained on 4,096", 4096.0), ("extended to 163,840", 163840.0)],
        "llama-3-8b": [("context 8,192", 8192.0)],
        "mistral-7b-v0.1": [("sliding window 4,096", 4096.0), ("context 32,768", 32768.0)],
    }
    assert {name: of_models(name).panels[0].levels for name in expected} == expected


def test_longrope_is_drawn_with_its_short_and_its_long_factors() -> None:
    """Longrope multiplies the wavelength of each pair by a factor of the config: short_factor up to
    the original length, 4,096, and long_factor beyond. Phi-3 has 48 pairs of base 10000.
    """
    config = presets()["phi-3-mini-128k-2024-04"].config
    law = 2 * math.pi * 1e4 ** (np.arange(48) / 48)
    short, long, unscaled = of_models("phi-3-mini-128k-2024-04").panels[0].curves

    assert short.label == "short factors, up to 4,096"
    assert long.label == "long factors, beyond 4,096"
    np.testing.assert_allclose(short.y, law * config["rope_scaling"]["short_factor"], rtol=1e-9)
    np.testing.assert_allclose(long.y, law * config["rope_scaling"]["long_factor"], rtol=1e-9)
    np.testing.assert_allclose(unscaled.y, law, rtol=1e-9)


def chart_of_three_models() -> Chart:
    """Return the chart of Llama 3.1 8B, Qwen3 8B and Gemma 3 1B, which has a curve per layer type."""
    chart = of_models("llama-3.1-8b", "qwen3-8b", "gemma-3-1b").panels[0]
    assert isinstance(chart, Chart)
    return chart


CONTEXTS = {
    "llama-3.1-8b, 8,192 → 131,072": [8192.0, 131072.0],
    "qwen3-8b, 40,960": [40960.0],
    "gemma-3-1b full_attention, 32,768": [32768.0],
    "gemma-3-1b sliding_attention, 32,768, window 512": [512.0, 32768.0],
}
"""By label of the curve, the lengths in the published configs: the original context and the extended
one, the context, or the sliding window and the context.
"""


def test_curves_of_several_models_have_their_contexts_in_their_labels() -> None:
    """A single model has a horizontal line (a level) for each context. With several models, they could
    not be distinguished, so that there are none.
    """
    chart = chart_of_three_models()
    assert [curve.label for curve in chart.curves] == [*CONTEXTS]
    assert not chart.levels


def test_curves_of_several_models_have_a_dot_at_the_height_of_each_context() -> None:
    """A mark (x, y) of a curve is drawn as a dot, and its height y is a wavelength as long as the
    context.
    """
    chart = chart_of_three_models()
    heights = {curve.label: [y for _, y in curve.marks] for curve in chart.curves}

    assert heights == CONTEXTS


def test_dots_of_contexts_lie_on_their_curves() -> None:
    """The vertical axis is logarithmic: log y of a dot (x, y) lies on the straight line between the
    neighbouring points of its curve, by NumPy's linear interpolation.
    """
    for curve in chart_of_three_models().curves:
        for x, y in curve.marks:
            log_of_curve = np.interp(x, curve.x, np.log(curve.y))
            assert log_of_curve == pytest.approx(math.log(y), abs=1e-9)


def test_dynamic_scaling_is_drawn_up_to_its_original_length_and_at_the_context() -> None:
    """Up to the original length, 4096, nothing is scaled. Beyond, by the formula of dynamic NTK,
    the base is multiplied by (factor · length / original − factor + 1)^(dim / (dim − 2)).
    """
    dynamic = pecli.Rope(64, 64, scaling="dynamic", factor=2.0, max_position_embeddings=4096)
    within, beyond, law = (
        kinds.picture("wavelengths", of_scheme(dynamic, "d", 16384), PlotRequest()).panels[0].curves
    )

    assert within.label == "up to 4,096"
    assert beyond.label == "at length 16,384"
    np.testing.assert_allclose(within.y, law.y, rtol=1e-12)

    base = 1e4 * (2.0 * 16384 / 4096 - 2.0 + 1) ** (64 / 62)
    np.testing.assert_allclose(beyond.y, 2 * math.pi * base ** (np.arange(32) / 32), rtol=1e-9)


def test_pairs_that_are_not_rotated_have_no_wavelength() -> None:
    """A head of 8 channels has four pairs. With partial_rotary_factor 0.25, a quarter of them is
    rotated, which is the first; the curve has no finite wavelength for the others.
    """
    rope = pecli.Rope(seq_len=8, dim=8, scaling="proportional", partial_rotary_factor=0.25)
    (chart,) = drawn_picture("wavelengths", rope).panels
    assert np.isfinite(chart.curves[0].y).tolist() == [True, False, False, False]


def curve_of_gemma_4_full_layers(chart: Chart) -> Curve:
    (curve,) = (curve for curve in chart.curves if "full_attention" in curve.label)
    return curve


def test_a_curve_ends_with_the_slowest_pair_that_is_rotated() -> None:
    """By Gemma 4's config, full layers have heads of 512 channels, which are 256 pairs, and base
    10^6; a quarter of the pairs, 0 to 63, is rotated. The wavelength of pair i is 2π · 10^(6i/256).
    """
    chart = of_models("gemma-4-e4b").panels[0]
    wavelengths = curve_of_gemma_4_full_layers(chart).y
    finite = wavelengths[np.isfinite(wavelengths)]

    assert len(finite) == 64
    assert finite.max() == pytest.approx(2 * math.pi * 1e6 ** (63 / 256), rel=1e-9)


def test_a_context_longer_than_every_wavelength_has_no_dot_on_the_curve() -> None:
    """With several models, a dot (a mark) stands where the curve of a model is as high as its
    context. The wavelengths of Gemma 4's full layers end at 2π · 10^(6 · 63/256) = 188, far below
    the context of 131,072. The second model is there because a single one has no dots.
    """
    chart = of_models("gemma-4-e4b", "qwen3-8b").panels[0]
    assert not curve_of_gemma_4_full_layers(chart).marks


def test_models_without_a_scaling_have_no_panel_of_stretches() -> None:
    """A scaling has a second panel, of the stretch of each pair. Llama 3 and Qwen3 have no scaling,
    and Gemma 4's full layers rotate fewer pairs, but stretch none.
    """
    panels = of_models("gemma-4-e4b", "llama-3-8b", "qwen3-8b").panels
    assert len(panels) == 1


@pytest.mark.parametrize(
    ("stretch", "ranges"),
    [
        pytest.param(
            [1.0, 2.0, 4.0],
            [(Treatment.KEPT, 0, 0), (Treatment.BLENDED, 1, 1), (Treatment.STRETCHED, 2, 2)],
            id="a pair of each",
        ),
        pytest.param(
            [2.0, 4.0, 4.0],
            [(Treatment.BLENDED, 0, 0), (Treatment.STRETCHED, 1, 2)],
            id="no pair is kept",
        ),
    ],
)
def test_pairs_are_kept_blended_or_stretched_by_the_largest_factor(
    stretch: list[float], ranges: list[tuple[Treatment, int, int]]
) -> None:
    """`pair_ranges` gets the factor by which the wavelength of each pair is stretched: 1 is kept,
    the largest, here 4, is stretched, and those between are blended. A range is stated by its
    treatment, its first and last pair, and the largest factor.
    """
    expected = [PairRange(treatment, first, last, 4.0) for treatment, first, last in ranges]
    assert pair_ranges(np.array(stretch)) == expected


@pytest.mark.parametrize(
    "stretch", [[1.0, 2.0, 1.0, 4.0], [2.0, 3.0, 4.0]], ids=["alternating", "all different"]
)
def test_ranges_that_alternate_or_share_no_factor_are_not_shaded(stretch: list[float]) -> None:
    """`pair_ranges` finds ranges of pairs that are stretched alike, which are shaded. Here kept
    pairs are not in one range, or no two pairs have a factor in common.
    """
    assert pair_ranges(np.array(stretch)) == []


@pytest.mark.parametrize(
    ("model_context", "words_of_curves"),
    [(None, ["at length 32"]), (128, ["up to 32", "at length 128"])],
    ids=["a model without a context", "a model with a context of 128"],
)
def test_dynamic_scaling_is_drawn_at_its_original_length_and_at_the_context_of_the_model(
    model_context: int | None, words_of_curves: list[str]
) -> None:
    """Dynamic scaling changes no wavelength up to the original length, here 32; beyond, wavelengths
    depend on the length of the prompt. A chart has a curve for each of the two lengths, or one
    curve, at the original length, if the model states no context.
    """
    rope = pecli.Rope(seq_len=4, dim=8, scaling="dynamic", factor=2.0, max_position_embeddings=32)
    waves = waves_of(PlotSource("x", (), rope, context=model_context))

    assert [wave.read_at for wave in waves] == words_of_curves


def test_dynamic_scaling_with_a_set_length_is_one_curve_without_words() -> None:
    """A rope with `length=64` has the wavelengths of a prompt of 64 tokens and no others, so that no
    words have to distinguish its curve, whatever the context of the model.
    """
    rope = pecli.Rope(
        seq_len=4, dim=8, scaling="dynamic", factor=2.0, max_position_embeddings=32, length=64
    )
    waves = waves_of(PlotSource("x", (), rope, context=128))

    assert [wave.read_at for wave in waves] == [""]


@pytest.mark.parametrize(
    ("context", "window", "label"),
    [
        (None, None, "x"),
        (128, None, "x, 128"),
        (128, 16, "x, 128, window 16"),
        (None, 16, "x, window 16"),
    ],
    ids=["neither", "a context", "a context and a window", "a window"],
)
def test_the_label_of_one_of_several_curves_states_its_contexts(
    context: int | None, window: int | None, label: str
) -> None:
    """A context or a window that the model does not have is left out."""
    (subject,) = of_scheme(pecli.Rope(64, 8), "x", context, window)
    chart = kinds.picture("wavelengths", [subject, subject], PlotRequest()).panels[0]

    assert isinstance(chart, Chart)
    assert chart.curves[0].label == label


def test_a_single_curve_without_a_scaling_has_no_label() -> None:
    """There is nothing from which it has to be distinguished; the title names the scheme."""
    (chart,) = drawn_picture("wavelengths", pecli.Rope(4, 4)).panels
    assert [curve.label for curve in chart.curves] == [""]


DYNAMIC = pecli.Rope(seq_len=4, dim=8, scaling="dynamic", factor=2.0, max_position_embeddings=32)
"""As in Hugging Face, max_position_embeddings of dynamic scaling is the length before scaling."""

YARN = pecli.Rope(
    seq_len=4,
    dim=8,
    scaling="yarn",
    original_max_position_embeddings=64,
    max_position_embeddings=128,
)
"""YaRN has a key of its own for the length before scaling; max_position_embeddings is the new one."""


def contexts_in_words(rope: pecli.Rope, *, model_context: int | None = None) -> list[str]:
    """Return what a chart writes at its lines of context lengths, such as «trained on 32»."""
    return [
        f"{context.label} {context.length:g}" for context in scheme_contexts(rope, model_context)
    ]


@pytest.mark.parametrize(
    ("rope", "words"),
    [
        pytest.param(
            DYNAMIC, ["trained on 32", "2 times the original, 64"], id="factor 2 of 32 is 64"
        ),
        pytest.param(replace(DYNAMIC, factor=1.0), ["trained on 32"], id="factor 1: not extended"),
        pytest.param(YARN, ["trained on 64", "extended to 128"], id="two lengths that are stated"),
    ],
)
def test_a_scaling_states_the_length_of_training_and_the_longest_one(
    rope: pecli.Rope, words: list[str]
) -> None:
    """No model states a context here. Without a stated longest length, it is the factor times the
    original one.
    """
    assert contexts_in_words(rope) == words


def test_the_context_of_a_model_is_what_its_scaling_extends_to() -> None:
    """The factor 2 would extend 32 to 64, but the model states a context of 33."""
    words = contexts_in_words(DYNAMIC, model_context=33)
    assert words == ["trained on 32", "extended to 33"]


def test_a_rope_without_a_scaling_has_the_context_of_its_model() -> None:
    """Nothing is extended, so that «trained on» would tell no more than the model's context, 99."""
    plain = pecli.Rope(seq_len=4, dim=8)
    assert contexts_in_words(plain, model_context=99) == ["context 99"]


def test_a_rope_without_a_scaling_and_a_model_has_the_length_of_its_table() -> None:
    """The table has the positions 3 to 6: offset 3 and 4 rows, so that its length is 3 + 4 = 7."""
    assert contexts_in_words(pecli.Rope(seq_len=4, dim=8, offset=3)) == ["length 7"]


QWEN2_VL = pecli.Rope(64, 128, base=1e6, mrope_section=(16, 24, 24))


def test_sections_that_follow_each_other_are_bands() -> None:
    """QWEN2_VL has Qwen2-VL's mrope_section 16, 24, 24: pairs for time, height and width, in this
    order.
    """
    picture = drawn_picture("wavelengths", QWEN2_VL)
    (chart,) = picture.panels

    assert chart.bands == [("time", 0, 15), ("height", 16, 39), ("width", 40, 63)]
    assert picture.subtitle == "M-RoPE: time 0–15, height 16–39, width 40–63"


def test_sections_that_take_turns_are_counted() -> None:
    """M-RoPE with 24 + 20 + 20 = 64 pairs of 128 channels for time, height and width, which take
    turns: there are no bands to shade, so that the subtitle counts the pairs of each.
    """
    scheme = pecli.Rope(64, 128, base=5e6, mrope_section=(24, 20, 20), mrope_interleaved=True)
    picture = drawn_picture("wavelengths", scheme)
    (chart,) = picture.panels

    assert chart.bands == []
    assert picture.subtitle == "M-RoPE, axes take turns: 24 time, 20 height, 20 width pairs"


def test_bands_are_shaded_if_only_one_of_two_tables_is_scaled() -> None:
    """`pecli extend` draws a model before and after its scaling: here Llama 3.1's base 500000
    plain, and LLAMA3 with a scaling by 8. Pairs are shaded by what the scaling does to them.

    The stretch of each pair is a second chart below. It «continues» the chart of wavelengths: both
    have one horizontal axis, the pairs, and so the same bands.
    """
    unscaled = pecli.Rope(seq_len=64, dim=128, base=5e5)
    lengths, stretch = drawn_picture("wavelengths", unscaled, LLAMA3).panels

    assert [band.label for band in lengths.bands] == ["kept", "blended", "stretched ×8"]
    assert [band.start for band in stretch.bands] == [band.start for band in lengths.bands]
    assert stretch.continues
    assert not lengths.continues
