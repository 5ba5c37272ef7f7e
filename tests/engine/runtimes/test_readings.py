"""How runtimes read a scaling at the edges: equal factors, missing keys, and lengths just at a
limit.

A reading is the scaling as one runtime computes it; its causes are sentences that report where it
departs from the model's own code (transformers). Expected factors and frequencies are formulas of
each runtime's source, for heads of 8 channels at base 10000, whose frequencies are 1, 0.1, 0.01 and
0.001. `yarn_rope` is YaRN with factor 4 from 64 positions.
"""

import math
from typing import Any

import numpy as np
import pytest

from pecli.engine.schemes.rope import Rope, as_read_by_runtime

YARN_FACTOR_OF_4 = 1 + 0.1 * math.log(4)
"""YaRN's attention factor at factor 4."""


def yarn_rope(runtime: str, **parameters: Any) -> Rope:
    return Rope(
        1,
        8,
        runtime=runtime,
        scaling="yarn",
        factor=4.0,
        original_max_position_embeddings=64,
        **parameters,
    )


def longrope_causes(runtime: str, longest: int, length: int) -> tuple[str, ...]:
    """Return the departures of a LongRoPE model that was trained on 64 positions."""
    divisors = {"short_factor": (1.0,) * 4, "long_factor": (2.0,) * 4}
    rope = Rope(
        1,
        8,
        runtime=runtime,
        scaling="longrope",
        original_max_position_embeddings=64,
        max_position_embeddings=longest,
        length=length,
        **divisors,
    )
    return rope.runtime_reading.causes


@pytest.mark.parametrize("length", [1, 64, 65, 128])
def test_exllamav3_has_the_short_factors_at_a_context_of_the_original_length(length: int) -> None:
    """By its source, exllamav3 has the long factors only if the context of the model exceeds the
    original length, 64. transformers has the short ones for prompts of up to 64 positions as well,
    and the long ones beyond.
    """
    has_other_factors = length > 64
    causes = longrope_causes("exllamav3", longest=64, length=length)
    assert bool(causes) == has_other_factors


@pytest.mark.parametrize("length", [1, 64, 65, 128])
def test_exllamav3_has_the_long_factors_at_a_context_beyond_the_original_length(
    length: int,
) -> None:
    """By its source, exllamav3 has the long factors at all positions if the context of the model, here
    65, exceeds the original length, 64. transformers has them for prompts beyond 64 positions.
    """
    has_other_factors = length <= 64
    causes = longrope_causes("exllamav3", longest=65, length=length)
    assert bool(causes) == has_other_factors


@pytest.mark.parametrize("length", [1, 64, 65, 128])
def test_mlx_lm_always_has_the_long_factors(length: int) -> None:
    """By its source. transformers has the long factors for prompts beyond the original length, 64."""
    has_other_factors = length <= 64
    causes = longrope_causes("mlx-lm", longest=128, length=length)
    assert bool(causes) == has_other_factors


@pytest.mark.parametrize(
    ("parameters", "mscale"),
    [
        pytest.param({"mscale": 0.7}, None, id="only mscale: lost"),
        pytest.param({"mscale": 0.7, "mscale_all_dim": 0.5}, 1.0, id="both, different: 1"),
        pytest.param({"mscale": 0.5, "mscale_all_dim": 0.5}, 0.5, id="both, equal: as given"),
    ],
)
def test_llama_cpp_reads_mscale_only_if_mscale_all_dim_is_equal(
    parameters: dict[str, float], mscale: float | None
) -> None:
    """A GGUF file has one key (yarn_log_multiplier), which holds mscale_all_dim. `as_read_by_runtime` returns the
    scheme that llama.cpp makes of it: without the key it has no mscale (None); with it, llama.cpp
    assumes mscale 1, unless both were equal.
    """
    as_llama_cpp_reads_it = as_read_by_runtime(yarn_rope("llama.cpp", **parameters))
    assert as_llama_cpp_reads_it.mscale == mscale


def test_llama_cpp_reports_an_attention_factor_that_it_ignores() -> None:
    """llama.cpp multiplies by 1 + 0.1 ln(factor), 1.13863 for factor 4, whatever factor is given."""
    (cause,) = yarn_rope("llama.cpp", attention_factor=2.0).runtime_reading.causes
    computed = f"{1 + 0.1 * math.log(4):.6g}"

    assert computed == "1.13863"
    assert cause.startswith(f"attention factor {computed}, not 2: computes it only from factor")


@pytest.mark.parametrize(
    ("runtime", "parameters", "expected"),
    [
        pytest.param("mlx-lm", {}, YARN_FACTOR_OF_4, id="mlx-lm without mscale"),
        pytest.param("mlx-lm", {"mscale": 0.0}, 1.0, id="mlx-lm with mscale 0"),
        pytest.param(
            "mlx-lm",
            {"mscale_all_dim": 0.5},
            YARN_FACTOR_OF_4 / (1 + 0.05 * math.log(4)),
            id="mlx-lm with mscale_all_dim",
        ),
        pytest.param(
            "onnxruntime-genai",
            {"beta_fast": 32.0, "mscale": 0.7, "mscale_all_dim": 0.5},
            (1 + 0.07 * math.log(4)) / (1 + 0.05 * math.log(4)),
            id="onnxruntime with both",
        ),
        pytest.param(
            "onnxruntime-genai",
            {"beta_fast": 32.0, "mscale": 0.0},
            YARN_FACTOR_OF_4,
            id="onnxruntime with mscale 0",
        ),
    ],
)
def test_attention_factors_of_mlx_lm_and_onnx_runtime_follow_their_source(
    runtime: str, parameters: dict[str, float], expected: float
) -> None:
    """Formulas of the runtimes' source, (1 + 0.1 m ln 4) / (1 + 0.1 a ln 4) with m = mscale and a =
    mscale_all_dim. An mscale of 0 counts as 0 in mlx-lm, and as missing in ONNX Runtime.
    """
    assert yarn_rope(runtime, **parameters).attention_factor_value() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("truncate", "causes"), [(False, ()), (None, ("does not round YaRN's limits",))]
)
def test_onnx_runtime_never_rounds_the_limits_of_yarn(
    truncate: bool | None, causes: tuple[str, ...]
) -> None:
    """By transformers, YaRN's limits are rounded to whole channels unless the config has truncate:
    false. ONNX Runtime never rounds them, so it departs only without that key (None).
    """
    scheme = yarn_rope("onnxruntime-genai", beta_fast=32.0, truncate=truncate)
    assert scheme.runtime_reading.causes == causes


def test_a_note_says_that_mlx_lm_multiplies_queries_and_keys_by_the_attention_factor() -> None:
    """transformers multiplies cos and sin, which gives the same scores: such a difference is a note
    and not a departure.
    """
    (note,) = yarn_rope("mlx-lm").runtime_reading.notes
    assert note == "its attention factor multiplies q and k, not the table"


def test_mlx_lm_has_no_note_about_an_attention_factor_of_one() -> None:
    """YaRN by 4 with mscale 0 has the attention factor 1 + 0.1 · 0 · ln 4 = 1, which multiplies
    nothing.
    """
    assert yarn_rope("mlx-lm", mscale=0.0).runtime_reading.notes == ()


def first_mlx_frequency(*, low_freq_factor: float) -> float:
    """Return the first frequency of mlx-lm with Llama 3 scaling by 8 from 64 positions.

    Unscaled it is 1, a wave of 2π = 6.283 positions. It is blended if the wave is between
    64 / high_freq_factor = 1 position and 64 / low_freq_factor positions long.
    """
    rope = Rope(
        1,
        8,
        runtime="mlx-lm",
        scaling="llama3",
        factor=8.0,
        original_max_position_embeddings=64,
        low_freq_factor=low_freq_factor,
        high_freq_factor=64.0,
    )
    frequencies = rope.inverse_frequencies()
    assert frequencies is not None
    return frequencies[0]


def test_llama_3_scaling_divides_waves_longer_than_its_limit_by_the_factor() -> None:
    """The wave of frequency 1 has 2π = 6.283 positions; the limit is 64 / low_freq_factor = 6.275
    positions, and the factor is 8.
    """
    assert first_mlx_frequency(low_freq_factor=10.2) == 1 / 8


def test_llama_3_scaling_divides_waves_shorter_than_its_limit_by_less() -> None:
    """The wave of frequency 1 has 2π = 6.283 positions, the limit is 64 / low_freq_factor = 6.337:
    the frequency is a blend of 1 and 1 / 8.
    """
    assert 1 / 8 < first_mlx_frequency(low_freq_factor=10.1) < 1


def test_mlx_lm_divides_no_wave_that_is_just_as_long_as_the_limit_of_llama_3_scaling() -> None:
    """64 / 10.185916 is 2π in float32, the wavelength of frequency 1. By its source, mlx-lm divides
    frequencies if wavelength > limit, and blends them if wavelength < limit: it leaves this one.
    """
    assert np.float32(64) / np.float32(10.185916) == np.float32(2 * math.pi)
    assert first_mlx_frequency(low_freq_factor=10.185916) == 1.0


@pytest.mark.parametrize(("factor", "expected"), [(None, [1, 0.1]), (2.0, [0.5, 0.05])])
def test_mlx_lm_divides_proportional_frequencies_by_a_factor_that_is_given(
    factor: float | None, expected: list[float]
) -> None:
    """Heads of 8 channels have 4 pairs, of which half rotate, by 1 and 0.1. By mlx-lm's source, it
    divides these by `factor`, if there is one.
    """
    rope = Rope(
        1,
        8,
        scaling="proportional",
        partial_rotary_factor=0.5,
        factor=factor,
        runtime="mlx-lm",
    )
    assert rope.inverse_frequencies() == pytest.approx([*expected, 0, 0], rel=1e-6)


@pytest.mark.parametrize("runtime", ["none", "mlx-lm", "llama.cpp", "transformers"])
def test_the_blend_of_llama3_is_a_step_if_both_factors_are_equal(runtime: str) -> None:
    """Frequencies of waves longer than 64 / 4 = 16 positions are divided by the factor 8, and others
    stay. The 8 channels of base 10000 have the frequencies 1, 0.1, 0.01 and 0.001; the first wave,
    2π positions, is shorter than 16, the second, 2π / 0.1, longer.
    """
    rope = Rope(
        1,
        8,
        runtime=runtime,
        scaling="llama3",
        factor=8.0,
        original_max_position_embeddings=64,
        low_freq_factor=4.0,
        high_freq_factor=4.0,
    )
    expected = [1, 0.1 / 8, 0.01 / 8, 0.001 / 8]

    assert rope.inverse_frequencies() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("runtime", "divisor"), [("exllamav3", 1.0), ("mlx-lm", 2.0)])
def test_the_factors_of_longrope_if_the_context_of_the_model_is_missing(
    runtime: str, divisor: float
) -> None:
    """max_position_embeddings is missing. By their source, exllamav3 switches to the long factors (2
    each) by that context, so it has the short ones (1 each), and mlx-lm always has the long ones.
    They divide 1, 0.1, 0.01 and 0.001, the frequencies of 8 channels of base 10000.
    """
    rope = Rope(
        1,
        8,
        runtime=runtime,
        scaling="longrope",
        factor=4.0,
        original_max_position_embeddings=64,
        short_factor=(1.0,) * 4,
        long_factor=(2.0,) * 4,
    )
    expected = [1 / divisor, 0.1 / divisor, 0.01 / divisor, 0.001 / divisor]
    assert rope.inverse_frequencies() == pytest.approx(expected, rel=1e-6)
    # LongRoPE's paper: sqrt(1 + ln(factor) / ln(original length)).
    attention_factor = math.sqrt(1 + math.log(4) / math.log(64))
    assert rope.attention_factor_value() == pytest.approx(attention_factor, rel=1e-12)


def dynamic_rope(*, runtime: str, factor: float, length: int) -> Rope:
    """Return dynamic NTK of a model that was trained on 64 positions, for prompts of a length."""
    return Rope(
        1,
        8,
        runtime=runtime,
        scaling="dynamic",
        factor=factor,
        max_position_embeddings=64,
        length=length,
    )


@pytest.mark.parametrize("runtime", ["transformers", "sglang"])
@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_sglang_and_transformers_have_one_base_of_dynamic_ntk_at_the_longest_prompt(
    runtime: str, factor: float
) -> None:
    """The longest prompt for which dynamic NTK is meant has factor · 64 positions. By the formula
    of the method, the base is multiplied there by (factor · factor − factor + 1)^(8/6), as a head
    has 8 channels. Frequencies are rounded to float32, 6e-8.
    """
    rope = dynamic_rope(runtime=runtime, factor=factor, length=int(64 * factor))
    base = 10000 * (factor * factor - factor + 1) ** (8 / 6)
    expected = [1, base**-0.25, base**-0.5, base**-0.75]

    assert rope.inverse_frequencies() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("factor", "note"),
    [
        pytest.param(
            2.0,
            "shorter prompts get the same base; the model's base follows their length",
            id="a base that depends on the length",
        ),
        pytest.param(1.0, "", id="no scaling"),
    ],
)
def test_a_note_reports_that_sglangs_base_of_dynamic_ntk_does_not_follow_the_length(
    factor: float, note: str
) -> None:
    """SGLang computes the base once, for the longest prompt, factor · 64 positions, and keeps it
    for all lengths; transformers' base (the model's) falls with the length. With factor 1 both keep
    10000, so that there is nothing to note.
    """
    rope = dynamic_rope(runtime="sglang", factor=factor, length=int(64 * factor))
    assert rope.runtime_reading.short_prompts == note


@pytest.mark.parametrize(
    ("length", "departs"),
    [
        pytest.param(3700, False, id="equal by the formulas"),
        pytest.param(3699, True, id="one position less"),
    ],
)
def test_sglangs_base_departs_from_the_models_only_if_the_formulas_differ(
    length: int, departs: bool
) -> None:
    """Dynamic NTK by 3.7 from 1000 positions multiplies the base by a power of
    3.7 · length/1000 − 2.7 in the model, and of 3.7² − 3.7 + 1 = 10.99 in SGLang: both are 10.99 at
    3700 positions, though float64 rounds 3.7 and their last digits differ. A departure has a cause.
    """
    dynamic = {"scaling": "dynamic", "factor": 3.7, "max_position_embeddings": 1000}
    rope = Rope(1, 8, runtime="sglang", length=length, **dynamic)
    assert bool(rope.runtime_reading.causes) == departs
