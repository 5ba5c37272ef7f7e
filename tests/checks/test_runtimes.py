"""What runtimes compute of a model: pecli.runtimes reports the departures that were measured with
their own code, and no others.

A departure is a difference from transformers, which defines the model, beyond a tolerance of 1e-3;
its cause is a sentence. Measured errors are differences of the tables that transformers, vLLM,
llama.cpp and mlx-lm computed themselves (tests/engine/runtimes/data). `rows` are the positions that
a runtime has, if fewer than the context.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import pecli
from pecli.checks.runtime_departures import compared_positions
from pecli.checks.runtimes import RuntimeResult
from pecli.engine.runtimes import EMULATED
from pecli.engine.schemes.rope import as_read
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
    """Return the recorded difference to transformers, which defines the model, by position."""
    parts = [
        COMPUTED_BY_RUNTIMES[f"{runtime}/{case}.{part}"]
        - COMPUTED_BY_RUNTIMES[f"transformers/{case}.{part}"]
        for part in ("cos", "sin")
    ]
    return np.abs(parts).max(axis=(0, 2))


@pytest.mark.parametrize("runtime", ["llama.cpp", "mlx-lm"])
def test_llama_cpp_and_mlx_lm_depart_from_gpt_oss_as_measured(runtime: str) -> None:
    """They round YaRN's limits, which changes the frequencies of pairs 9 to 17. `measured_error`
    are differences of tables that the runtimes' own code and transformers computed at some
    positions: 4 is the first of these beyond the tolerance of 1e-3.
    """
    found = results_of_runtimes("gpt-oss-20b", names=[runtime])[runtime]
    error = measured_error("gpt-oss-20b", runtime)

    assert found.departs
    assert found.first_beyond == 4
    assert POSITIONS[np.argmax(error > 1e-3)] == 4
    assert found.pairs == (9, 17)


@pytest.mark.parametrize("runtime", ["llama.cpp", "mlx-lm"])
def test_the_departure_of_a_runtime_is_the_largest_up_to_the_context(runtime: str) -> None:
    """Cosines and sines of gpt-oss-20b have the attention factor 0.1 · ln(32) + 1 = 1.35, so that
    two of opposite signs differ by up to 2 · 1.35 = 2.7. `measured_error` is that of the runtimes'
    own code at some positions, which may miss the largest by 6e-3.
    """
    found = results_of_runtimes("gpt-oss-20b", names=[runtime])[runtime]
    error = measured_error("gpt-oss-20b", runtime)

    assert found.departure == pytest.approx(2.7, abs=0.05)
    assert found.max_abs_error >= error.max() - 6e-3


@pytest.mark.parametrize("runtime", ["llama.cpp", "mlx-lm"])
def test_the_curve_of_a_runtime_follows_the_measured_errors(runtime: str) -> None:
    """The curve is the error by position of gpt-oss-20b; `measured_error` are differences of tables
    that the runtimes' own code computed. Both agree within 5e-4, the rounding of float32. From 10
    on, a point of the curve stands for many positions, of which it has the largest error.
    """
    found = results_of_runtimes("gpt-oss-20b", None, [runtime])[runtime]
    error = measured_error("gpt-oss-20b", runtime)

    assert found.curve is not None

    places, errors = found.curve
    near = POSITIONS[(POSITIONS > 0) & (POSITIONS < 10)]
    at_near = errors[np.searchsorted(places, near)]

    assert at_near == pytest.approx(error[np.isin(POSITIONS, near)], abs=5e-4)
    assert errors[places < 8192].max() >= error[POSITIONS < 8192].max() - 5e-4


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


def test_only_mlx_lm_departs_from_phi_3_up_to_its_original_length() -> None:
    """LongRoPE of Phi-3 has short factors up to 4096 positions, and long ones beyond. mlx-lm uses
    the long ones for any length; the error was measured with its own code.
    """
    found = results_of_runtimes(PHI3, 4096)
    assert departing_runtimes(found) == ["mlx-lm"]

    expected = measured_error(PHI3, "mlx-lm").max()
    assert found["mlx-lm"].departure == pytest.approx(expected, abs=0.1)


def test_three_runtimes_depart_from_phi_3_for_short_prompts_in_a_long_context() -> None:
    """LongRoPE of Phi-3 has two lists of factors, for prompts of up to 4,096 tokens and for longer
    ones. transformers chooses by the length of each prompt; these three choose once, by the context
    of 131,072, and so depart for short prompts.
    """
    found = results_of_runtimes(PHI3)
    assert departing_runtimes(found) == ["vllm", "llama.cpp", "mlx-lm"]
    for name in departing_runtimes(found):
        assert "up to 4,096 tokens" in found[name].short_prompts
        assert found[name].causes == ()


def test_llama_cpp_departs_from_phi_4_minis_longrope_at_its_full_context() -> None:
    """llama.cpp computes frequencies in float32, whose rounding times 131,072 positions exceeds the
    tolerance of 1e-3. transformers, which defines the model, does not depart.
    """
    names = ["transformers", "llama.cpp"]
    found = pecli.runtimes("phi-4-mini", 131072, names=names).layers[""]

    assert [result.departs for result in found] == [False, True]


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


def test_dynamic_scaling_is_absent_in_llama_cpp() -> None:
    """The model has 4096 positions and dynamic scaling by 2. llama.cpp's source has no such scaling."""
    found = results_of_runtimes("dynamic-2, context 8192", length=8192)
    assert "no dynamic scaling" in found["llama.cpp"].lacks


def test_dynamic_scaling_is_constant_in_vllm_and_ends_after_the_trained_rows() -> None:
    """Transformers has a base for 8192 positions, vLLM's source one for all lengths: from position 1
    on, the first with an angle other than 0, it departs. It has rows for the 4096 trained ones.
    """
    vllm = results_of_runtimes("dynamic-2, context 8192", length=8192)["vllm"]
    assert vllm.first_beyond == 1
    assert vllm.rows == 4096


def test_only_vllm_and_llama_cpp_depart_with_dynamic_scaling() -> None:
    """The model has 4096 positions and dynamic scaling by 2, and 8192 are compared."""
    found = results_of_runtimes("dynamic-2, context 8192", length=8192)
    assert departing_runtimes(found) == ["vllm", "llama.cpp"]


def test_dynamic_scaling_changes_nothing_up_to_the_original_length() -> None:
    """The model was trained with 4096 positions, and dynamic NTK changes only longer sequences: at
    4096, vLLM, which departs at 8192, computes as the config means.
    """
    found = results_of_runtimes("dynamic-2, context 8192", length=4096)
    assert found["vllm"].causes == ()


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
    """What llama.cpp does differently is true in any tolerance. The model's own code does not round
    the limits: its configuration has `truncate: false`.
    """
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
"""LongRoPE for heads of 8 channels, trained on 64 positions; the context is added by each test."""


def test_exllamav3_gives_no_prompt_the_long_factors_if_the_context_is_the_original_length() -> None:
    """Served with 128 tokens, the model has the long factors, and the short ones for prompts of up to
    64. exllamav3's source compares the context of the model, 64, with the original length, 64.
    """
    model = {**LONGROPE_FROM_64, "max_position_embeddings": 64}
    found = result_of(model, 128, "exllamav3")

    assert found.departs
    assert found.causes[0].startswith("uses the short factors at any length")
    assert found.short_prompts == ""


def test_exllamav3_takes_the_long_factors_by_the_context_of_a_config_with_a_factor() -> None:
    """The context, 128, exceeds the original length, 64, so that exllamav3 has the long factors also
    for a served context of 32 tokens. The factor does not hide the context.
    """
    model = {**LONGROPE_FROM_64, "max_position_embeddings": 128}
    found = result_of(model, 32, "exllamav3")

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
    """llama.cpp rounds YaRN's limits, which with a factor near 1 shows only beyond position 8192,
    from where on few positions are compared. Computed here for all of the 300 positions before the
    reported one, errors exceed 1e-3 only at the reported one.
    """
    model = config_of_case("gpt-oss-20b")
    model = {**model, "rope_scaling": {**model["rope_scaling"], "factor": 1.0001}}
    found = result_of(model, 131072, "llama.cpp")

    assert found.first_beyond is not None
    assert found.first_beyond > 8192

    encoding = pecli.load_config(model).one()
    positions = np.arange(found.first_beyond - 300, found.first_beyond + 1)
    expected = encoding.rope(1).at(positions)
    computed = as_read(encoding.rope(1, runtime="llama.cpp")).at(positions)
    cos_error = np.abs(computed["cos"].astype(float) - expected["cos"]).max(axis=1)
    sin_error = np.abs(computed["sin"].astype(float) - expected["sin"]).max(axis=1)

    assert np.flatnonzero(np.maximum(cos_error, sin_error) > 1e-3).tolist() == [300]
