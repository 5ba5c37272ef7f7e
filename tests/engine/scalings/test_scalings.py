"""RoPE scalings (linear, NTK, dynamic, YaRN, LongRoPE, Llama 3, proportional): frequencies and
attention factors.

Expected values are the formulas of the papers, written again in Arb's balls in tests/oracle.py,
numbers that others have published, and closed forms. cases.json has the parameters of each case;
dim is 128, base 10000, and 2048 positions were trained, unless a test says otherwise.
"""

import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx

from pecli.engine import scalings
from pecli.engine.scalings.ntk import Dynamic, Ntk
from pecli.engine.scalings.yarn import RampLimits
from pecli.engine.schemes.rope import Rope
from tests import oracle

DIM, BASE, LENGTH = 128, 10000.0, 2048
CASES = json.loads(Path(__file__).with_name("cases.json").read_text())
LONGROPE = {
    "original_max_position_embeddings": 4096,
    "max_position_embeddings": 131072,
    "short_factor": tuple(1 + k / 64 for k in range(64)),
    "long_factor": tuple(1.5 + k * k / 50 for k in range(64)),
}


def options_of(case: str) -> dict[str, Any]:
    return {
        "scaling": case.split(",")[0],
        **CASES[case],
        **(LONGROPE if case.startswith("longrope") else {}),
    }


def rope_of_case(case: str, **more) -> Rope:
    return Rope(16, DIM, BASE, **{**options_of(case), **more})


def exact_frequencies_and_factor(case: str) -> tuple[list[arb], arb]:
    return oracle.frequencies({"dim": DIM, "base": BASE, **options_of(case)})


@pytest.fixture(autouse=True)
def precision():
    with ctx.workprec(300):
        yield


@pytest.mark.parametrize("case", CASES)
def test_scaled_frequencies_are_the_floats_nearest_to_the_papers_formulas(case: str) -> None:
    """cases.json has parameters of every scaling. `exact_frequencies_and_factor` computes the papers'
    formulas in Arb's arbitrary precision (300 bits); the frequencies are these rounded to float64.
    """
    inverse, _ = exact_frequencies_and_factor(case)
    assert rope_of_case(case).frequencies().floats() == [float(value) for value in inverse]


@pytest.mark.parametrize("case", CASES)
def test_attention_factors_are_the_floats_nearest_to_the_papers_formulas(case: str) -> None:
    """cases.json has parameters of every scaling. `exact_frequencies_and_factor` computes the papers'
    formulas in Arb's arbitrary precision (300 bits); the factor is this rounded to float64.
    """
    _, factor = exact_frequencies_and_factor(case)
    assert rope_of_case(case).attention_factor_value() == float(factor)


@pytest.mark.parametrize("case", CASES)
def test_approximate_frequencies_are_right_to_twelve_digits(case: str) -> None:
    """`approximate` computes in plain float64, for a search that tries thousands of parameters. The
    expected numbers are the papers' formulas in Arb's arbitrary precision.
    """
    exact_frequencies, _factor = exact_frequencies_and_factor(case)
    unscaled = BASE ** (-np.arange(DIM // 2) / (DIM // 2))
    scaling_with_defaults = rope_of_case(case).scaling_value.with_defaults()
    # "llama3, a step" has equal limits, so that the blend between them divides by zero: ±∞ are then
    # cut to 1 and 0.
    with np.errstate(divide="ignore"):
        approximate = scaling_with_defaults.approximate(plain=unscaled, base=BASE, half=DIM / 2)

    expected = [float(frequency) for frequency in exact_frequencies]
    np.testing.assert_allclose(approximate, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.sample(12)
def test_tables_are_correctly_rounded(case: str, dtype: str) -> None:
    """cases.json has parameters of every scaling. Arb computes rows 99,990, 99,997 and 100,005, and
    rounds once; dynamic scaling and LongRoPE have the length that the case states.
    """
    offset = 99_990
    made = rope_of_case(case, offset=offset, dtype=dtype)

    if case.startswith(("dynamic", "longrope")):
        assert made.effective_length == CASES[case]["length"]

    tables = made.tables()
    for row in (0, 7, 15):
        for name, function in (("cos", arb.cos), ("sin", arb.sin)):
            wanted = oracle.rounded(lambda: values(case, offset + row, function), dtype)  # noqa: B023 - called at once
            np.testing.assert_array_equal(oracle.bits(tables[name][row]), wanted)


@pytest.mark.parametrize("dim", [4, 8])
def test_ntk_with_a_base_beyond_all_floats_is_exact(dim: int) -> None:
    """NTK's base 10000 · 1e308^(dim/(dim−2)) is larger than any float64; Arb holds it, and its powers
    base^(−2i/dim) are the frequencies. All but the first are so small that cos is 1.
    """
    base = arb(10000) * arb(1e308) ** (arb(dim) / (dim - 2))
    wanted = [float(base ** (arb(-2 * i) / dim)) for i in range(dim // 2)]
    made = Rope(4, dim, scaling="ntk", factor=1e308)

    assert made.frequencies().floats() == wanted
    assert made.tables()["cos"][3, 1:].tolist() == [1.0] * (dim // 2 - 1)


def values(case: str, position: int, function) -> list[arb]:
    inverse, factor = exact_frequencies_and_factor(case)
    return [function(v * position) * factor for v in inverse]


DYNAMIC_BY_10 = {
    "scaling": "dynamic",
    "factor": 10.0,
    "max_position_embeddings": 2048,
    "length": 16384,
}
YARN_BY_10 = {
    "scaling": "yarn",
    "factor": 10.0,
    "original_max_position_embeddings": 2048,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
}
LLAMA_3_BY_10 = {
    "scaling": "llama3",
    "factor": 10.0,
    "original_max_position_embeddings": 2048,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
}


@pytest.mark.parametrize(
    ("scaling", "pair", "published"),
    [
        pytest.param(DYNAMIC_BY_10, 1, "8.0931e-01", id="dynamic, pair 1"),
        pytest.param(DYNAMIC_BY_10, 63, "1.6265e-06", id="dynamic, pair 63"),
        pytest.param(YARN_BY_10, 17, "8.3479e-02", id="yarn, pair 17"),
        pytest.param(YARN_BY_10, 41, "2.7384e-04", id="yarn, pair 41"),
        pytest.param(LLAMA_3_BY_10, 31, "1.0730e-02", id="llama3, pair 31"),
        pytest.param(LLAMA_3_BY_10, 40, "3.4539e-04", id="llama3, pair 40"),
    ],
)
def test_scaled_frequencies_are_those_in_the_tests_of_transformers(
    scaling: dict[str, Any], pair: int, published: str
) -> None:
    """transformers has them, with five digits, as EXPECTED_INV_FREQ in its
    tests/utils/test_modeling_rope_utils.py: for heads of 128 channels and base 10000.
    """
    rope = Rope(seq_len=16, dim=128, base=10000.0, **scaling)
    frequencies = rope.frequencies().floats()

    assert f"{frequencies[pair]:.4e}" == published


def test_the_attention_factor_of_yarn_is_the_published_one() -> None:
    """YaRN's paper: 0.1 · ln(factor) + 1, here for factor 10; it is computed in float64."""
    assert rope_of_case("yarn").attention_factor_value() == 0.1 * math.log(10) + 1


@pytest.mark.parametrize(("low", "high"), [(8, 18), (8 + Fraction(1, 8), 17 + Fraction(1, 8))])
def test_limits_of_yarns_ramp_are_rounded_outwards_to_whole_pairs(
    low: Fraction, high: Fraction
) -> None:
    """The paper's code takes floor(low) and ceil(high): 8 and 18 for 8 1/8 and 17 1/8, and for 8 and 18
    themselves. Limits are integers over 2^100, with 100 bits.
    """
    one = 2**100
    limits = RampLimits(int(low * one), int(high * one)).rounded_outwards(bits=100)

    assert limits.low == 8 * one
    assert limits.high == 18 * one


@pytest.mark.parametrize(
    ("expected", "mistaken"),
    [
        pytest.param(None, False, id="not rounded, though they should be"),
        pytest.param(True, False, id="not rounded, though the config requires it"),
        pytest.param(False, True, id="rounded, though the config forbids it"),
    ],
)
def test_other_rounding_of_yarns_limits_is_tried_first_as_the_reason_for_a_wrong_table(
    expected: bool | None, mistaken: bool
) -> None:
    """If a table fails, `verify` tries what wrong programs make of the scaling, in the order of
    `known_mistakes`: first the other value of `truncate`, as llama.cpp for gpt-oss. None is the
    default, limits rounded to whole pairs.
    """
    scaling = rope_of_case("yarn", truncate=expected).scaling_value
    first = scaling.known_mistakes()[0]

    assert first == replace(scaling, truncate=mistaken)


def test_exchanged_betas_are_tried_next_as_the_reason_for_a_wrong_table() -> None:
    """litgpt exchanges beta_fast and beta_slow, 32 and 1 by default."""
    scaling = rope_of_case("yarn").scaling_value
    second = scaling.known_mistakes()[1]

    assert second == replace(scaling, beta_fast=1.0, beta_slow=32.0)


def yarn_attention(**parameters: Any) -> Fraction | None:
    scheme = Rope(4, 8, scaling="yarn", original_max_position_embeddings=64, **parameters)
    return scheme.scaling_value.exact_attention


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"factor": 1.0}, Fraction(1)),
        ({"factor": 4.0, "mscale": 0.7, "mscale_all_dim": 0.7}, Fraction(1)),
        ({"factor": 4.0, "attention_factor": 1.25}, Fraction(5, 4)),
        ({"factor": 4.0}, None),
        ({"factor": 4.0, "mscale": 0.7, "mscale_all_dim": 0.5}, None),
    ],
)
def test_a_rational_attention_factor_of_yarn_is_known_exactly(
    parameters: dict[str, float], expected: Fraction | None
) -> None:
    """At position 0 an element of cos is the attention factor, and if it is halfway between two
    floats, only an exact value decides. It is 1 if mscale and mscale_all_dim cancel or the factor is
    1, or the given one. 1 + 0.1 ln 4, for example, is not rational: None.
    """
    assert yarn_attention(**parameters) == expected


def two_pairs(factor: float) -> Rope:
    """LongRoPE over a head of 4 channels, trained on 16 positions."""
    divisors = {"short_factor": (1.0, 1.5), "long_factor": (2.0, 8.0)}
    return Rope(
        8, 4, scaling="longrope", factor=factor, original_max_position_embeddings=16, **divisors
    )


def test_attention_factor_of_longrope_is_rational_only_without_extension() -> None:
    """By the paper, with original length 16 it is √(1 + ln(factor) / ln(16)): 1 for a factor of 1, and
    √1.5, which is not rational, for 4.
    """
    assert two_pairs(1.0).scaling_value.exact_attention == 1
    assert two_pairs(4.0).scaling_value.exact_attention is None


def test_the_attention_factor_of_longrope_is_computed_to_eight_bits() -> None:
    """The paper's formula is sqrt(1 + ln(factor) / ln(original length)), here for 4 and 16; eight
    bits of it are ⌊… · 2^8⌋.
    """
    expected = math.floor(math.sqrt(1 + math.log(4) / math.log(16)) * 256)
    assert two_pairs(4.0).scaling_value.attention(8) == expected


def test_without_scaling_the_attention_factor_is_one() -> None:
    """Cosines and sines are not multiplied by anything."""
    assert Rope(4, 8).scaling_value.exact_attention == 1


@pytest.mark.parametrize(("length", "expected"), [(None, 1), (16, 1), (64, 3)])
def test_dynamic_ntk_stretches_once_the_length_exceeds_the_trained_one(
    length: int | None, expected: int
) -> None:
    """The base is stretched by f·L/M − (f − 1), with factor f = 2, length L and M = 32 trained
    positions: 2 · 64/32 − 1 = 3 at 64, and 1 up to 32 or without a length (None).
    """
    assert Dynamic(2.0, 32, length).stretch() == expected


def test_approximate_ntk_divides_the_last_frequency_by_the_factor() -> None:
    """A head of 4 channels has 2 pairs, with frequencies 1 and 10000^(−1/2) = 0.01. NTK by 8 keeps the
    first, and the last one is that of linear scaling by 8, 0.01 / 8.
    """
    unscaled = np.array([1.0, 0.01])
    scaled = Ntk(factor=8.0).approximate(plain=unscaled, base=10000.0, half=4 / 2)

    assert scaled.tolist() == [1.0, 0.01 / 8]


def test_approximate_ntk_leaves_a_single_frequency() -> None:
    """NTK divides the frequency of pair i of n by factor^(i / (n − 1)). A head of 2 channels has one
    pair, for which this exponent would be 0 / 0; its frequency, 1, stays.
    """
    scaled = Ntk(factor=8.0).approximate(plain=np.array([1.0]), base=10000.0, half=2 / 2)
    assert scaled.tolist() == [1.0]


@pytest.mark.parametrize(("runtime", "tolerance"), [("none", 1e-12), ("llama.cpp", 1e-6)])
def test_the_ramp_of_yarn_ends_at_the_last_channel(runtime: str, tolerance: float) -> None:
    """YaRN's limits count pairs, of which 8 channels have 4 (0 to 3), but its code cuts them at
    dim − 1, the last channel: 7 here. So the ramp at pair i is i / 7. llama.cpp computes in float32.
    """
    dim, base, length, beta_fast, beta_slow = 8, 10.0, 1000000, 1e5, 1.0
    low, high = (
        dim * math.log(length / (2 * math.pi * beta)) / (2 * math.log(base))
        for beta in (beta_fast, beta_slow)
    )
    assert math.floor(low) == 0
    assert math.ceil(high) == 21  # cut to 7

    rope = Rope(
        seq_len=1,
        dim=dim,
        base=base,
        scaling="yarn",
        factor=4.0,
        original_max_position_embeddings=length,
        beta_fast=beta_fast,
        beta_slow=beta_slow,
        runtime=runtime,
    )
    unscaled = [base ** (-2 * pair / dim) for pair in range(4)]
    ramp = [pair / 7 for pair in range(4)]
    # A ramp of 0 keeps a frequency, a ramp of 1 divides it by the factor, 4.
    expected = [
        frequency * (1 - share) + frequency / 4 * share
        for frequency, share in zip(unscaled, ramp, strict=True)
    ]
    assert rope.inverse_frequencies() == pytest.approx(expected, rel=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("recipe", ["exact", "float32"])
def test_proportional_scaling_may_leave_all_pairs_unrotated(dtype: str, recipe: str) -> None:
    """A quarter of 4 channels is half a pair; transformers 5.23.0 gives the frequencies 0 and 0, so
    that nothing rotates.
    """
    rope = Rope(
        6, 4, 1e6, scaling="proportional", partial_rotary_factor=0.25, dtype=dtype, recipe=recipe
    )
    tables = rope.tables()

    assert tables["inv_freq"].tolist() == [0, 0]
    assert (tables["cos"] == 1).all()
    assert (tables["sin"] == 0).all()
    assert (rope.factors(range(6)) == 1).all()


def test_proportional_scaling_leaves_the_last_pairs_unrotated() -> None:
    """A quarter of 32 pairs rotates: 8, whose frequencies are those of the whole head, base^(−2i/64)
    with base 10^6, in Arb's arbitrary precision. In halves, the unrotated pairs 8 to 31 are columns 8
    to 31 and 40 to 63, where cos is 1 and sin 0.
    """
    rope = Rope(
        40, 64, 1e6, scaling="proportional", partial_rotary_factor=0.25, layout="halves", offset=7
    )
    frequencies = rope.frequencies().floats()

    assert frequencies[:8] == [float(arb(10) ** (arb(-6 * 2 * i) / 64)) for i in range(8)]
    assert frequencies[8:] == [0.0] * 24

    tables = rope.tables()
    assert tables["cos"].shape == (40, 64)
    assert (tables["cos"][:, 8:32] == 1).all()
    assert (tables["sin"][:, 8:32] == 0).all()
    assert np.array_equal(tables["cos"][:, :32], tables["cos"][:, 32:])


def test_partial_rotation_has_the_frequencies_of_the_channels_that_rotate() -> None:
    """A quarter of 128 channels rotates, with the frequencies of a head of 32: a table of 16 pairs."""
    made = Rope(4, 128, partial_rotary_factor=0.25)
    assert made.rotary_dim == 32
    assert made.frequencies().floats() == Rope(4, 32).frequencies().floats()
    assert made.tables()["cos"].shape == (4, 16)


def test_partial_rotation_of_an_odd_number_of_channels_rotates_one_more() -> None:
    """GLM-4.5: 21 of 42 channels. transformers has the exponents 0, 2, …, 20 over 21, which are 11
    frequencies, and rotates 22 channels.
    """
    made = Rope(4, 42, partial_rotary_factor=0.5)
    assert made.rotary_dim == 22
    assert made.frequencies().floats() == [
        float(arb(10000) ** (arb(-2 * i) / 21)) for i in range(11)
    ]
    assert made.tables()["cos"].shape == (4, 11)


def test_sections_of_qwen2_vl_give_the_axes_one_after_the_other() -> None:
    """mrope_section counts the pairs of time (0), height (1) and width (2)."""
    chunked = Rope(4, 128, 1e6, mrope_section=(16, 24, 24))
    assert chunked.pair_axes == [0] * 16 + [1] * 24 + [2] * 24
    assert chunked.tables()["axis"].tolist() == chunked.pair_axes


def test_interleaved_sections_of_qwen3_vl_give_the_axes_in_turns() -> None:
    """Sections of 24, 20 and 20 pairs (time, rows, columns), interleaved: T H W T H W … for 3 · 20
    pairs, then the 4 that are left to time.
    """
    turns = Rope(4, 128, 5e6, mrope_section=(24, 20, 20), mrope_interleaved=True)
    assert turns.pair_axes == [0, 1, 2] * 20 + [0] * 4


def test_a_rope_has_a_parameter_for_every_parameter_of_a_scaling() -> None:
    """Parameters of `Rope` are fields of its class, which are written out: a parameter that is added to
    a scaling only would be missing.
    """
    assert set(scalings.PARAMETERS) <= set(Rope.parameters())


def test_a_rope_offers_every_scaling() -> None:
    assert set(Rope.parameters()["scaling"].options) == {*scalings.SCALINGS}
