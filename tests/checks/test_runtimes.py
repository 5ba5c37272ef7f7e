"""What runtimes compute of a model: pecli.runtimes reports the departures that were measured with
their own code, and no others.

A departure is a difference from transformers, which defines the model, beyond a tolerance of 1e-3;
its cause is a sentence. Measured errors are differences of the tables that transformers, vLLM,
llama.cpp and mlx-lm computed themselves (tests/engine/runtimes/data). `rows` are the positions that
a runtime has, if fewer than the context.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import pecli
from pecli.checks.runtime_departures import compared_positions
from pecli.checks.runtimes import RuntimeResult
from pecli.engine.runtimes import EMULATED
from pecli.engine.schemes.rope import as_read_by_runtime
from tests.checks.small_models import CONFIG, TWO_LAYER_TYPES
from tests.checks.waves import inverse_frequencies
from tests.engine.runtimes.test_runtimes import COMPUTED_BY_RUNTIMES
from tests.explain.test_recipe_search import config_of_case

POSITIONS = COMPUTED_BY_RUNTIMES["positions"]
CONFIG_OF_32_POSITIONS = {**CONFIG, "max_position_embeddings": 32}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
SMALL_YARN = {**CONFIG, "max_position_embeddings": 64, "rope_scaling": YARN}


def results_of_runtimes(
    case: str, length: int | None = None, names: Sequence[str] = tuple(EMULATED)
) -> dict[str, RuntimeResult]:
    """Return the results of runtimes for a configuration whose tables were recorded, by runtime.

    They are computed for `length` positions, or for the whole context of the model.
    """
    (found,) = pecli.runtimes(config_of_case(case), length, names=names).layers.values()
    return {result.runtime: result for result in found}


def result_of(model: Any, length: int | None = None, runtime: str = "vllm") -> RuntimeResult:
    """Return the result of one runtime for a model with one layer type."""
    ((found,),) = pecli.runtimes(model, length, names=[runtime]).layers.values()
    return found


def departing_runtimes(found: dict[str, RuntimeResult]) -> list[str]:
    return [name for name, result in found.items() if result.departs]


def measured_error(case: str, runtime: str) -> np.ndarray[Any, Any]:
    """Return the largest difference to transformers at each of POSITIONS, over pairs, cosines and sines.

    Both tables were computed by the runtimes' own code, not by pecli, and recorded.
    """
    parts = [
        COMPUTED_BY_RUNTIMES[f"{runtime}/{case}.{part}"]
        - COMPUTED_BY_RUNTIMES[f"transformers/{case}.{part}"]
        for part in ("cos", "sin")
    ]
    return np.abs(parts).max(axis=(0, 2))


YARN_OF_GPT_OSS = {
    "base": 150000,
    "head_dim": 64,
    "original_length": 4096,
    "attention_factor": 1.3466,
}
"""YaRN blends frequencies between two pairs, its limits; the factor, 0.1 · ln(32) + 1, multiplies
cosines and sines."""


def limit_of_yarn(turns: int) -> float:
    """Return the pair of gpt-oss that turns so often over the original length, by YaRN's formula."""
    base = YARN_OF_GPT_OSS["base"]
    half = YARN_OF_GPT_OSS["head_dim"] / 2
    return (
        half * math.log(YARN_OF_GPT_OSS["original_length"] / (2 * math.pi * turns)) / math.log(base)
    )


@pytest.mark.parametrize("runtime", ["llama.cpp", "mlx-lm"])
def test_runtimes_that_round_yarns_limits_depart_in_the_pairs_between_them(runtime: str) -> None:
    """gpt-oss has YaRN's limits at 8.1 (32 turns) and 17.4 (1 turn). These runtimes round them to 8
    and 18: pairs up to 8 and from 18 on keep their frequencies, and those between have others.
    """
    found = results_of_runtimes("gpt-oss-20b", names=[runtime])[runtime]

    assert limit_of_yarn(turns=32) == pytest.approx(8.09, abs=0.01)
    assert limit_of_yarn(turns=1) == pytest.approx(17.40, abs=0.01)
    assert found.departs
    assert found.pairs == (9, 17)


@pytest.mark.parametrize("runtime", ["llama.cpp", "mlx-lm"])
def test_a_departure_begins_at_the_first_position_beyond_the_tolerance(runtime: str) -> None:
    """Expected is the first position at which tables of gpt-oss that the runtime's own code computed
    differ by more than 1e-3 from those of transformers: the recorded errors grow by 3e-4 a position.
    """
    found = results_of_runtimes("gpt-oss-20b", names=[runtime])[runtime]
    is_beyond = measured_error("gpt-oss-20b", runtime) > 1e-3

    assert POSITIONS[np.argmax(is_beyond)] == 4
    assert found.first_beyond == 4


@pytest.mark.parametrize("runtime", ["llama.cpp", "mlx-lm"])
def test_the_departure_of_a_runtime_is_the_largest_up_to_the_context(runtime: str) -> None:
    """`departure` is the largest error of any position below 131,072, so at least that of the few
    recorded ones, 2.68. Cosines of gpt-oss are between −1.3466 and 1.3466, its attention factor:
    they differ by 2.6931 at most. That limit is nearly reached, since the other frequencies let
    cosines fall out of step until they are opposite.
    """
    found = results_of_runtimes("gpt-oss-20b", names=[runtime])[runtime]
    largest_recorded = measured_error("gpt-oss-20b", runtime).max()
    limit = 2 * YARN_OF_GPT_OSS["attention_factor"]

    assert largest_recorded == pytest.approx(2.68, abs=0.01)
    assert largest_recorded <= found.departure <= limit


@pytest.mark.parametrize("runtime", ["llama.cpp", "mlx-lm"])
def test_the_largest_error_of_a_runtime_is_its_departure_and_the_rounding_of_float32(
    runtime: str,
) -> None:
    """`departure` is the error by other frequencies only, `max_abs_error` that of the float32 numbers
    computed with them. A float32 angle below 131,072 = 2^17 is off by 2^-7 = 0.008 at most.
    """
    found = results_of_runtimes("gpt-oss-20b", names=[runtime])[runtime]

    assert found.max_abs_error == pytest.approx(found.departure, abs=0.008)
    assert found.max_abs_error >= measured_error("gpt-oss-20b", runtime).max()


@pytest.mark.parametrize("runtime", ["llama.cpp", "mlx-lm"])
def test_the_error_curve_of_a_runtime_has_the_measured_errors_of_the_first_positions(
    runtime: str,
) -> None:
    """The curve has points (position, error). Up to position 9 each is of one position, and has the
    error of gpt-oss that was measured there, 3e-4 to 3e-3, but for 1e-6 of float32 arithmetic.
    """
    curve = results_of_runtimes("gpt-oss-20b", names=[runtime])[runtime].curve
    error = measured_error("gpt-oss-20b", runtime)

    assert curve is not None
    assert curve.positions[:9].tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert POSITIONS[1:10].tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert curve.errors[:9] == pytest.approx(error[1:10], abs=1e-6)


@pytest.mark.parametrize("runtime", ["llama.cpp", "mlx-lm"])
def test_the_error_curve_of_a_runtime_misses_no_error_before_position_8192(runtime: str) -> None:
    """pecli computes every position below 8192, and a point of the curve is the largest error of many.
    So no measured error of gpt-oss there exceeds the curve, but for 5e-4 of float32: an angle of
    8192 = 2^13 is off by 2^-11. It may have larger errors, at positions that were not recorded.
    """
    curve = results_of_runtimes("gpt-oss-20b", names=[runtime])[runtime].curve
    error = measured_error("gpt-oss-20b", runtime)

    assert curve is not None
    largest_of_curve = curve.errors[curve.positions < 8192].max()
    assert largest_of_curve >= error[POSITIONS < 8192].max() - 5e-4


def test_all_runtimes_agree_on_llama_up_to_float32_rounding() -> None:
    """A float32 number is off by up to 2^-24 of itself: an angle of 131,072 = 2^17 radians by 2^-7
    = 8e-3, and as much again by its frequency. So less than 2e-2 is rounding, which is no
    departure. 3.7e-3 was measured with the runtimes' own code at the recorded positions.
    """
    comparison = pecli.runtimes("llama-3.1-8b")
    assert comparison.length == 131072
    assert comparison.agree
    for result in comparison.layers[""]:
        assert not result.departs
        assert result.causes == ()
        assert result.departure == 0
        assert 3.7e-3 <= result.max_abs_error < 2e-2


def float32_angles_of_transformers(positions: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return position times frequency, both in float32; 64 frequencies of base 10000."""
    exponents = np.arange(0, 128, 2, dtype=np.float32) / np.float32(128)
    frequencies = np.float32(1) / np.float32(10000) ** exponents
    return np.multiply.outer(positions.astype(np.float32), frequencies)


def float32_angles_of_llama_cpp(positions: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return angles as ggml_rope does: from pair to pair, they are multiplied by one float32 ratio."""
    ratio = np.float32(10000) ** np.float32(-2 / 128)
    angles = [positions.astype(np.float32)]
    for _ in range(63):
        angles.append(angles[-1] * ratio)
    return np.stack(angles, axis=1)


@pytest.mark.parametrize(
    ("runtime", "float32_angles"),
    [
        ("transformers", float32_angles_of_transformers),
        ("llama.cpp", float32_angles_of_llama_cpp),
    ],
    ids=["transformers", "llama.cpp"],
)
def test_the_error_of_a_runtime_is_that_of_its_own_float32_angles(
    runtime: str, float32_angles: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]
) -> None:
    """No runtime reads Llama 2 (4,096 positions, base 10000) differently: float32 is the only source
    of errors, 2.4e-4 with the angles of transformers and 6.3e-4 with those of llama.cpp. Expected
    are these angles in NumPy, against float64.
    """
    positions = np.arange(4096)
    angles = float32_angles(positions).astype(np.float64)
    exact = np.multiply.outer(positions, inverse_frequencies(10000.0, 128))
    expected = max(
        np.abs(np.cos(angles) - np.cos(exact)).max(), np.abs(np.sin(angles) - np.sin(exact)).max()
    )
    found = results_of_runtimes("llama-2-7b", names=[runtime])[runtime]

    assert not found.causes
    assert found.max_abs_error == pytest.approx(expected, rel=1e-3)


PHI3 = "phi-3-mini-128k, context 4096"
"""The recorded tables of Phi-3 mini 128k up to 4096. Its config has a context of 131,072, and an
original length of 4096: LongRoPE has short factors for prompts up to that, and long ones beyond."""


def test_only_mlx_lm_departs_from_phi_3_up_to_its_original_length() -> None:
    """Served with 4096 tokens, Phi-3 has the short factors. mlx-lm uses the long ones for any length;
    the expected error was measured with its own code at some positions, which miss the largest by
    less than 0.1.
    """
    found = results_of_runtimes(PHI3, length=4096)
    assert departing_runtimes(found) == ["mlx-lm"]

    expected = measured_error(PHI3, "mlx-lm").max()
    assert found["mlx-lm"].departure == pytest.approx(expected, abs=0.1)


def test_three_runtimes_depart_from_phi_3_for_short_prompts_in_its_whole_context() -> None:
    """transformers chooses between short and long factors by the length of each prompt. By their
    sources, these three choose once, by the context of 131,072: right for long prompts, so that they
    have no cause of other tables, and wrong for those of up to 4,096 tokens.
    """
    found = results_of_runtimes(PHI3, length=None)  # the whole context
    assert departing_runtimes(found) == ["vllm", "llama.cpp", "mlx-lm"]
    for name in departing_runtimes(found):
        assert "up to 4,096 tokens" in found[name].short_prompts
        assert found[name].causes == ()


def test_llama_cpp_departs_from_phi_4_mini_for_short_prompts_only() -> None:
    """Phi-4 mini has LongRoPE as Phi-3 has it. By its source, llama.cpp chooses the long factors for
    the context of 131,072, also for prompts of up to 4,096 tokens. Its tables for long prompts are
    right: their departure is 0. transformers defines the model and departs nowhere.
    """
    llama_cpp = result_of("phi-4-mini", length=131072, runtime="llama.cpp")
    transformers = result_of("phi-4-mini", length=131072, runtime="transformers")

    assert llama_cpp.departs
    assert "up to 4,096 tokens" in llama_cpp.short_prompts
    assert llama_cpp.departure == 0
    assert not transformers.departs


def test_mlx_lm_is_as_defined_for_the_text_of_an_m_rope_model() -> None:
    """Qwen2.5-VL has M-RoPE, with three axes of positions, which mlx-lm does not implement. Text has
    the same position on all three, so that its tables are right; the note restricts that to text.
    """
    found = result_of("qwen2.5-vl-7b", 64, "mlx-lm")
    assert not found.departs
    assert found.notes == ("as defined for text; no M-RoPE for images",)


def test_every_layer_type_has_results_of_its_own() -> None:
    """The config is a Gemma 3 with base 100 in sliding and 500000 in full attention: vLLM has one
    result for each.
    """
    found = pecli.runtimes(TWO_LAYER_TYPES, 16, names=["vllm"])
    assert list(found.layers) == ["full_attention", "sliding_attention"]
    assert [len(results) for results in found.layers.values()] == [1, 1]


def test_the_option_layer_type_leaves_the_results_of_one_layer_type() -> None:
    """The config is a Gemma 3 with layers of sliding and of full attention. With layer_type, only
    the results for full attention are left.
    """
    found = pecli.runtimes(TWO_LAYER_TYPES, 16, names=["vllm"], layer_type="full_attention")
    assert list(found.layers) == ["full_attention"]


DYNAMIC = "dynamic-2, context 8192"
"""Llama with base 10,000, 4096 positions and dynamic NTK scaling by 2: in longer prompts, a larger
base, which depends on the length. Tables were recorded for a context of 8192."""


def test_dynamic_scaling_is_absent_in_llama_cpp() -> None:
    """By its source, llama.cpp has no dynamic scaling."""
    found = results_of_runtimes(DYNAMIC, length=8192)
    assert "no dynamic scaling" in found["llama.cpp"].lacks


def test_vllm_departs_from_dynamic_scaling_from_position_1_on() -> None:
    """transformers has a larger base for 8192 positions, and vLLM the same for all lengths. In the
    tables that both computed, position 0 is equal, and 1 is off by 0.02, beyond the tolerance of
    1e-3.
    """
    vllm = results_of_runtimes(DYNAMIC, length=8192)["vllm"]
    error = measured_error_of_vllm()

    assert error[0] == 0
    assert error[1] > 1e-3
    assert vllm.first_beyond == 1  # the first position beyond the tolerance


def measured_error_of_vllm() -> np.ndarray[Any, Any]:
    """Return the recorded difference of vLLM to transformers with dynamic scaling, by position."""
    computed_by_vllm = COMPUTED_BY_RUNTIMES[f"vllm/{DYNAMIC}.sin"]
    computed_by_transformers = COMPUTED_BY_RUNTIMES[f"transformers/{DYNAMIC}.sin"]
    return np.abs(computed_by_vllm - computed_by_transformers[: len(computed_by_vllm)]).max(axis=1)


def test_the_table_of_vllm_with_dynamic_scaling_ends_after_the_trained_positions() -> None:
    """vLLM's DynamicNTKScalingRotaryEmbedding here has max_position_embeddings = 4096 rows: its
    recorded table ends with position 4095, although the context is 8192.
    """
    vllm = results_of_runtimes(DYNAMIC, length=8192)["vllm"]
    recorded_rows = len(COMPUTED_BY_RUNTIMES[f"vllm/{DYNAMIC}.cos"])

    assert POSITIONS[recorded_rows - 1] == 4095
    assert vllm.rows == 4096


def test_only_vllm_and_llama_cpp_depart_with_dynamic_scaling() -> None:
    """Beyond 4096 positions, vLLM keeps the base that it has for shorter prompts, and llama.cpp has no
    dynamic scaling, by its source. Tables that mlx-lm computed equal those of transformers.
    """
    runtimes = ["transformers", "vllm", "llama.cpp", "mlx-lm"]
    found = results_of_runtimes(DYNAMIC, length=8192, names=runtimes)

    assert departing_runtimes(found) == ["vllm", "llama.cpp"]
    assert measured_error(DYNAMIC, "mlx-lm").max() < 1e-3


def test_dynamic_scaling_changes_nothing_up_to_the_original_length() -> None:
    """The model was trained with 4096 positions, and dynamic NTK changes only longer sequences: at
    4096, vLLM, which departs at 8192, computes as the config means, and has no cause of another table.
    """
    assert results_of_runtimes(DYNAMIC, length=4096)["vllm"].causes == ()
    assert results_of_runtimes(DYNAMIC, length=8192)["vllm"].causes != ()


def test_only_sglang_computes_the_rope_type_ntk() -> None:
    """The config has static NTK scaling (rope_type «ntk»). By the sources of all runtimes, only
    SGLang computes it; the others lack it.
    """
    model = {**CONFIG_OF_32_POSITIONS, "rope_scaling": {"rope_type": "ntk", "factor": 4.0}}
    found = pecli.runtimes(model).layers[""]

    assert [result.runtime for result in found if not result.lacks] == ["sglang"]


@pytest.mark.parametrize(
    ("case", "length", "rows"),
    [
        ("llama-2-7b", 4096, None),
        ("llama-2-7b", 4097, 4096),
        ("linear-8", 8 * 131072, None),
        ("linear-8", 8 * 131072 + 1, 8 * 131072),
    ],
)
@pytest.mark.sample("llama-2-7b-4096-None", "llama-2-7b-4097-4096")
def test_the_table_of_vllm_ends_at_the_context(case: str, length: int, rows: int | None) -> None:
    """vLLM allocates max_position_embeddings rows (Llama 2: 4096), times the factor of linear
    scaling (8 · 131072). `rows` states where its table ends if the compared length is larger,
    otherwise None.
    """
    assert results_of_runtimes(case, length, ["vllm"])["vllm"].rows == rows


@pytest.mark.parametrize(("length", "rows"), [(128, None), (129, 128)])
def test_linear_scaling_multiplies_the_rows_of_vllm_by_its_factor(
    length: int, rows: int | None
) -> None:
    """vLLM computes a table of max_position_embeddings · factor = 32 · 4 = 128 rows. `rows` states
    where it ends if the compared length is larger, otherwise None.
    """
    scaling = {"rope_type": "linear", "factor": 4.0}
    assert result_of({**CONFIG_OF_32_POSITIONS, "rope_scaling": scaling}, length).rows == rows


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (None, "<RuntimeComparison passed: config; length 32>"),
        (33, "<RuntimeComparison failed: config; length 33; vllm>"),
    ],
)
def test_the_repr_of_a_comparison_names_the_runtimes_that_depart(
    length: int | None, text: str
) -> None:
    """The model has 32 positions; vLLM's table ends there, so it departs at any larger length."""
    assert repr(pecli.runtimes(CONFIG_OF_32_POSITIONS, length)) == text


def test_transformers_computes_positions_beyond_the_context_and_vllm_does_not() -> None:
    """The model has positions 0 to 31, and 33 are compared. `rows` is where a runtime's table ends:
    after 32 rows, or nowhere (None).
    """
    assert result_of(CONFIG_OF_32_POSITIONS, 33, "vllm").rows == 32
    assert result_of(CONFIG_OF_32_POSITIONS, 33, "transformers").rows is None


def test_a_model_that_states_no_context_is_served_with_4096() -> None:
    """CONFIG has no max_position_embeddings; 4096 is this package's default."""
    assert pecli.runtimes(CONFIG, names=["transformers"]).length == 4096


def llama_cpp_on_gpt_oss(tolerance: float) -> RuntimeResult:
    """Return what llama.cpp computes differently at 64 positions of gpt-oss-20b, by rounding the
    limits of YaRN. Its cosines and sines are off by 0.017 at most.
    """
    model = "gpt-oss-20b"
    comparison = pecli.runtimes(model, 64, names=["llama.cpp"], tolerance=tolerance)
    (found,) = comparison.layers[""]  # A model whose layers are all alike has the layer type «».
    return found


@pytest.mark.parametrize(
    ("tolerance", "departs"), [(0.01, True), (0.1, False)], ids=["smaller", "larger"]
)
def test_an_error_departs_if_it_is_larger_than_the_tolerance(
    tolerance: float, departs: bool
) -> None:
    """The error is between the two tolerances: the limits of gpt-oss-20b are 8.09 and 17.40, which
    llama.cpp rounds to 8 and 18. Over 64 positions, that turns a cosine by up to 0.017.
    """
    assert llama_cpp_on_gpt_oss(tolerance).departs == departs


def test_an_error_within_the_tolerance_has_no_place_where_it_begins() -> None:
    """`first_beyond` is the first position beyond the tolerance, and `pairs` are the first and last
    pair of channels beyond it: there is none, as the largest error is 0.017.
    """
    found = llama_cpp_on_gpt_oss(tolerance=0.1)
    assert found.first_beyond is None
    assert found.pairs is None


def test_an_error_within_the_tolerance_has_its_cause() -> None:
    """The cause of an error is reported in any tolerance. By YaRN's formula, the limits of gpt-oss
    are 8.09 and 17.40. llama.cpp rounds the lower one down and the upper one up, and the model's own
    code does not: its configuration has `truncate: false`.
    """
    assert math.floor(limit_of_yarn(turns=32)) == 8
    assert math.ceil(limit_of_yarn(turns=1)) == 18

    found = llama_cpp_on_gpt_oss(tolerance=0.1)
    assert found.causes == ("rounds YaRN's limits to 8 and 18; the config has truncate: false",)


def test_pairs_without_an_error_do_not_depart_at_a_tolerance_of_0() -> None:
    """llama.cpp rounds YaRN's limits of gpt-oss-20b from 8.1 and 17.4 to 8 and 18: all pairs up to 8
    and from 18 on have the same frequency by both, and those between have others.
    """
    found = pecli.runtimes("gpt-oss-20b", 64, names=["llama.cpp"], tolerance=0).layers[""]
    assert found[0].pairs == (9, 17)


LONGROPE_FROM_64 = {
    "model_type": "phi3",
    "hidden_size": 32,
    "num_attention_heads": 4,
    "original_max_position_embeddings": 64,
    "rope_scaling": {
        "type": "longrope",
        "factor": 2.0,
        "short_factor": [1.0] * 4,
        "long_factor": [2.0] * 4,
    },
}
"""LongRoPE with an original length of 64: short factors for prompts up to that, all 1, and long ones
beyond, all 2. Each test states the context of the model, max_position_embeddings."""


def test_exllamav3_has_no_long_factors_if_the_context_is_the_original_length() -> None:
    """exllamav3 uses the long factors if the context in the config exceeds the original length: 64 is
    not above 64, so that all prompts have the short ones, as its source states. For the 128 tokens
    that are served, the model needs the long ones. Short prompts are right: nothing is said of them.
    """
    model = {**LONGROPE_FROM_64, "max_position_embeddings": 64}
    found = result_of(model, length=128, runtime="exllamav3")

    assert found.departs
    assert found.causes[0].startswith("uses the short factors at any length")
    assert found.short_prompts == ""


@pytest.mark.parametrize("factor", [{"factor": 2.0}, {}], ids=["with a factor", "without a factor"])
def test_exllamav3_has_only_long_factors_if_the_context_exceeds_the_original_length(
    factor: dict[str, float],
) -> None:
    """The context in the config, 128, is above 64, so that exllamav3 uses the long factors also for
    the 32 tokens that are served. It makes no difference whether the config states the factor of
    the extension, 128 / 64 = 2, as well.
    """
    lists = {"type": "longrope", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
    scaling = {**lists, **factor}
    model = {**LONGROPE_FROM_64, "max_position_embeddings": 128, "rope_scaling": scaling}
    found = result_of(model, length=32, runtime="exllamav3")

    assert found.causes == (
        "uses the long factors from position 0 on; the model uses the short ones up to 64",
    )


@pytest.mark.parametrize(("stated", "agree"), [({}, True), (YARN, False)])
def test_exllamav3_agrees_about_yarn_only_without_a_stated_original_length(
    stated: dict[str, Any], agree: bool
) -> None:
    """Without original_max_position_embeddings, exllamav3 scales from the model's 16 positions by
    the factor 4, as transformers does. If YARN states it, 16, exllamav3 takes the factor from the
    two lengths instead, 16 / 16 = 1, by its source.
    """
    scaling = {"rope_type": "yarn", "factor": 4.0, **stated}
    model = {**SMALL_YARN, "max_position_embeddings": 16, "rope_scaling": scaling}

    assert pecli.runtimes(model, 64, names=["exllamav3"]).agree == agree


YARN_WITH_FACTOR_4 = {
    "rope_type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 32768,
}
MODEL_WITH_FACTOR_4 = {
    **CONFIG,
    "max_position_embeddings": 40960,
    "rope_scaling": YARN_WITH_FACTOR_4,
}
"""A Qwen3 as it is published, with YaRN switched on in its config: 40,960 / 32,768 is 1.25, not 4."""


@pytest.mark.parametrize(
    ("runtime", "factor"), [("exllamav3", 40960 / 32768), ("transformers", 4.0)]
)
def test_the_table_of_a_runtime_has_the_factor_of_yarn_that_the_runtime_takes(
    runtime: str, factor: float
) -> None:
    """exllamav3 computes YaRN's factor from the context in the config and the original length, by
    its source; transformers takes the factor that the config states. At position 0, cosines are
    YaRN's attention factor, 0.1 · ln(factor) + 1.
    """
    rope = pecli.load_config(MODEL_WITH_FACTOR_4).one().rope(8, runtime=runtime)

    np.testing.assert_allclose(rope.tables()["cos"][0], 0.1 * math.log(factor) + 1, rtol=1e-6)


@pytest.mark.parametrize("length", [None, 65536])
def test_verify_accepts_the_table_that_runtimes_describes(length: int | None) -> None:
    """`runtimes` states that exllamav3 takes the factor 1.25. The same table is made with a config
    that states 1.25, and no context that could contradict it; `verify` accepts it at any length.
    """
    scaling = {**YARN_WITH_FACTOR_4, "factor": 1.25}
    tables = pecli.load_config({**CONFIG, "rope_scaling": scaling}).one().rope(64).tables()
    waves = {name: tables[name] for name in ("cos", "sin")}
    found = result_of(MODEL_WITH_FACTOR_4, length, runtime="exllamav3")
    checked = pecli.verify(
        waves, MODEL_WITH_FACTOR_4, runtime="exllamav3", length=length, atol=1e-5, reasons=False
    )

    assert "1.25; it ignores factor, 4" in found.causes[0]
    assert checked.passed


@pytest.mark.parametrize(
    ("scaling", "cause"),
    [
        (
            YARN,
            "applies YaRN only if the config has beta_fast, which is missing: nothing is scaled",
        ),
        ({**YARN, "beta_fast": 32.0}, "does not round YaRN's limits"),
    ],
)
def test_onnxruntime_genai_recognises_yarn_by_the_key_beta_fast(
    scaling: dict[str, Any], cause: str
) -> None:
    """The config has YaRN by 4 from 16 to 64 positions. By the source of onnxruntime-genai, nothing
    is scaled unless it has beta_fast; with this key, the limits are not rounded to whole channels.
    """
    model = {**SMALL_YARN, "rope_scaling": scaling}
    assert result_of(model, None, "onnxruntime-genai").causes == (cause,)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"departure": 1.0}, id="an error"),
        pytest.param({"causes": ("c",)}, id="a cause"),
    ],
)
def test_a_cause_or_an_error_without_a_position_beyond_the_tolerance_is_no_departure(
    fields: dict[str, Any],
) -> None:
    """A result with its fields set by hand: a departure needs a first position beyond the tolerance
    (first_beyond), missing rows, or something that the runtime lacks. A cause, or an error without
    such a position, is none.
    """
    assert not RuntimeResult(runtime="x", version="1", **fields).departs


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"lacks": "dynamic scaling"}, id="lacks a scaling"),
        pytest.param(
            {"short_prompts": "they get another base"}, id="treats short prompts differently"
        ),
        pytest.param({"rows": 0}, id="has no rows"),
        pytest.param({"first_beyond": 0}, id="is off at position 0"),
    ],
)
def test_a_runtime_that_lacks_a_scaling_or_rows_or_is_off_somewhere_departs(
    fields: dict[str, Any],
) -> None:
    """A result with one field set by hand: what it lacks, how it treats short prompts differently,
    after how many rows its table ends, or the first position beyond the tolerance, of which 0 is
    one.
    """
    assert RuntimeResult(runtime="x", version="1", **fields).departs


def test_the_json_of_a_result_has_every_field() -> None:
    """A result of the runtime «x» in version «1», with nothing else: the other fields have the
    defaults of the class.
    """
    assert RuntimeResult(runtime="x", version="1").as_json() == {
        "runtime": "x",
        "version": "1",
        "departs": False,
        "causes": [],
        "notes": [],
        "departure": 0.0,
        "pairs": None,
        "max_abs_error": 0.0,
        "lacks": None,
        "positions": None,
        "first_beyond_tolerance": None,
    }


def test_the_json_of_a_runtime_that_lacks_a_scaling_has_no_error() -> None:
    """A runtime that lacks the scaling of a model computes no table that could be compared, so its
    error is null, and not 0.
    """
    result = RuntimeResult(runtime="x", version="1", lacks="dynamic scaling")
    assert result.as_json()["max_abs_error"] is None


@pytest.mark.parametrize(
    ("count", "compared"), [(5, 5), (8192, 8192), (8193, 8193), (32768, 8192 + 2 * 256)]
)
def test_256_positions_are_compared_per_doubling_beyond_8192(count: int, compared: int) -> None:
    """`compared_positions` selects which positions of a context are compared: all of the first
    8192, then 256 per doubling of the position; 32768 are two doublings.
    """
    assert len(compared_positions(count)) == compared


def test_the_first_8192_positions_and_the_last_are_compared() -> None:
    """Of 16384 positions, those up to 8191 are compared, then 8192 · 2^(k/256), rounded down, for k
    from 1 to 255, and the last one.
    """
    positions = compared_positions(16384)
    assert positions[:8192].tolist() == list(range(8192))
    assert positions[8192] == int(8192 * 2 ** (1 / 256))
    assert positions[-2] == int(8192 * 2 ** (255 / 256))
    assert positions[-1] == 16383


def test_a_departure_after_thousands_of_positions_is_found_to_the_position() -> None:
    """From position 8192 on, only 256 positions per doubling are compared at first; the one where a
    departure begins is then searched for between two of them. llama.cpp rounds YaRN's limits, which
    with the factor 1.0001 is off by 1e-3 only there. Tables of the 300 positions before the reported
    one, 44,017, show no earlier error: from one compared position to the next it is 119 there.
    """
    gpt_oss = config_of_case("gpt-oss-20b")
    config = {**gpt_oss, "rope_scaling": {**gpt_oss["rope_scaling"], "factor": 1.0001}}
    reported = result_of(config, length=131072, runtime="llama.cpp").first_beyond

    assert reported is not None
    assert reported > 8192
    before = np.arange(reported - 300, reported)
    assert errors_of_llama_cpp(config, before).max() <= 1e-3
    assert errors_of_llama_cpp(config, np.array([reported])).max() > 1e-3


def errors_of_llama_cpp(config: Any, positions: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the largest error of cosines and sines at each position, apart from float32 arithmetic."""
    encoding = pecli.load_config(config).one()
    expected = encoding.rope(1).at(positions)
    read_by_llama_cpp = as_read_by_runtime(
        encoding.rope(1, runtime="llama.cpp")
    )  # its limits, in float64
    found = read_by_llama_cpp.at(positions)
    errors = [np.abs(found[part].astype(float) - expected[part]) for part in ("cos", "sin")]
    return np.max(errors, axis=(0, 2))
