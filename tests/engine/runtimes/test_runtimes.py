"""The tables of four runtimes (transformers, vLLM, llama.cpp, mlx-lm), compared with those that
their own code computed.

data/runtimes.npz and data/gpu.npz hold the computed tables; data/README.md states versions and
programs. Other expected numbers are formulas of each runtime's source, written here. A departure is
a difference from transformers, whose cause is reported in a sentence.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from pecli.engine.runtimes import EMULATED
from pecli.engine.scalings import SCALINGS
from pecli.engine.schemes.rope import Rope
from pecli.errors import UnsupportedError

DATA = Path(__file__).with_name("data")
CASES = json.loads((DATA / "cases.json").read_text())
DYNAMIC_CASES = [case for case in CASES if case.startswith("dynamic")]
COMPUTED_BY_RUNTIMES = np.load(DATA / "runtimes.npz")
GPU = np.load(DATA / "gpu.npz")
ULP = 2.0**-23
"""Of a number between 1 and 2: what the sines of other libraries and an attention factor leave open."""

YARN_BY_8: dict[str, Any] = {
    "scaling": "yarn", "factor": 8.0, "original_max_position_embeddings": 4096,
}  # fmt: skip
LONGROPE: dict[str, Any] = {
    "scaling": "longrope", "original_max_position_embeddings": 64, "max_position_embeddings": 1024,
    "short_factor": [1.0] * 4, "long_factor": [2.0] * 4,
}  # fmt: skip


def rope_of_case(case: str, runtime: str) -> Rope:
    given = CASES[case]
    own = dict(given["scaling"] or {"rope_type": "none"})
    own["scaling"] = own.pop("rope_type")
    if own["scaling"] in ("dynamic", "longrope"):
        own["max_position_embeddings"] = given["max_position_embeddings"]
    partial = given.get("partial")
    common = {"partial_rotary_factor": partial, "length": given["context"], "runtime": runtime}
    return Rope(1, given["head_dim"], given["base"], **own, **common)


class ComputedTables(NamedTuple):
    """Cosines and sines that a runtime computed, with a row per position."""

    positions: np.ndarray
    cos: np.ndarray
    sin: np.ndarray


def tables_computed_by(case: str, runtime: str) -> ComputedTables:
    """Return the tables of data/runtimes.npz, at the positions below the context of the case.

    vLLM's tables were the bytes of transformers', except for dynamic scaling: these are kept once.
    """
    if runtime == "vllm" and case not in DYNAMIC_CASES:
        runtime = "transformers"
    cos = COMPUTED_BY_RUNTIMES[f"{runtime}/{case}.cos"]
    sin = COMPUTED_BY_RUNTIMES[f"{runtime}/{case}.sin"]
    positions = COMPUTED_BY_RUNTIMES["positions"]  # from 0 to 131,071
    return ComputedTables(positions[: len(cos)], cos, sin)


KNOWN_DEPARTURES = {
    (
        "gpt-oss-20b",
        "llama.cpp",
    ): "rounds YaRN's limits to 8 and 18; the config has truncate: false",
    ("gpt-oss-20b", "mlx-lm"): "rounds YaRN's limits to 8 and 18; the config has truncate: false",
    ("phi-3-mini-128k, context 4096", "mlx-lm"): "uses the long factors at any length",
    ("dynamic-2, context 8192", "vllm"): "its dynamic NTK is not dynamic",
}
"""Those that were measured, and no others."""


CASES_THAT_A_RUNTIME_COMPUTES = [
    (runtime, case)
    for runtime in EMULATED
    for case in CASES
    if runtime != "llama.cpp" or case not in DYNAMIC_CASES
]


@pytest.mark.parametrize("case", DYNAMIC_CASES)
def test_llama_cpp_refuses_dynamic_scaling(case: str) -> None:
    """ggml has no formula for it, so no table can be what llama.cpp computes."""
    with pytest.raises(UnsupportedError, match="no dynamic scaling"):
        rope_of_case(case, "llama.cpp")


@pytest.mark.parametrize(("runtime", "case"), CASES_THAT_A_RUNTIME_COMPUTES)
def test_cosines_and_sines_of_a_runtime_are_those_that_its_own_code_computed(
    runtime: str, case: str
) -> None:
    """Each case is one of ten models, whose cosines and sines the runtime's own code computed at
    positions below its context: 35 of them for a context of 2048, 45 for 131,072 (data/README.md has
    the programs). Sine functions may differ by one ULP of float32 at 1, 2^-23.
    """
    positions, cos, sin = tables_computed_by(case, runtime)
    tables = rope_of_case(case, runtime).at(positions)

    np.testing.assert_allclose(tables["cos"], cos, rtol=0, atol=ULP)
    np.testing.assert_allclose(tables["sin"], sin, rtol=0, atol=ULP)


@pytest.mark.parametrize(("runtime", "case"), CASES_THAT_A_RUNTIME_COMPUTES)
def test_departures_of_a_runtime_are_those_that_were_measured(runtime: str, case: str) -> None:
    """KNOWN_DEPARTURES has the four differences from transformers among the computed tables, and how
    the sentence begins that reports each; nothing else may be reported.
    """
    causes = rope_of_case(case, runtime).runtime_reading.causes
    if (case, runtime) in KNOWN_DEPARTURES:
        (cause,) = causes
        assert cause.startswith(KNOWN_DEPARTURES[case, runtime])
    else:
        assert causes == ()


def attention_factor_of(runtime: str, **scaling: Any) -> float:
    return Rope(1, 8, runtime=runtime, **scaling).attention_factor_value()


def yarn_term(mscale: float) -> float:
    """Return 1 + 0.1 · mscale · ln(8), of which YaRN's attention factor at factor 8 is made."""
    return float(1 + 0.1 * mscale * np.log(8))


@pytest.mark.parametrize(
    ("scaling", "transformers", "vllm", "llama_cpp", "mlx_lm"),
    [
        pytest.param(
            {},
            *[yarn_term(1)] * 4,
            id="factor only",
        ),
        pytest.param(
            {"attention_factor": 1.5},
            *[1.5, 1.5, yarn_term(1), yarn_term(1)],
            id="attention_factor",
        ),
        pytest.param(
            {"mscale": 2.0},
            *[yarn_term(1), yarn_term(1), yarn_term(1), yarn_term(2)],
            id="mscale",
        ),
        pytest.param(
            {"mscale_all_dim": 0.5},
            yarn_term(1),
            yarn_term(1),
            *[yarn_term(1) / yarn_term(0.5)] * 2,
            id="mscale_all_dim",
        ),
        pytest.param(
            {"mscale": 0.707, "mscale_all_dim": 0.707},
            *[yarn_term(0.707) / yarn_term(0.707)] * 4,
            id="equal mscales",
        ),
        pytest.param(
            {"mscale": 2.0, "mscale_all_dim": 0.5},
            *[yarn_term(2) / yarn_term(0.5)] * 2,
            yarn_term(1) / yarn_term(0.5),
            yarn_term(2) / yarn_term(0.5),
            id="different mscales",
        ),
    ],
)
def test_attention_factors_of_yarn_differ_by_runtime(
    scaling: dict[str, float], transformers: float, vllm: float, llama_cpp: float, mlx_lm: float
) -> None:
    """By their source, transformers and vLLM take a given attention_factor, or else the ratio of the
    terms of mscale and mscale_all_dim if both are there, or else the term of 1. The other two ignore
    attention_factor: mlx-lm divides the terms of mscale (by default 1) and mscale_all_dim (0), and
    so does llama.cpp, which takes 1 for mscale unless both are equal.
    """
    factors = {
        runtime: attention_factor_of(runtime, **YARN_BY_8, **scaling) for runtime in EMULATED
    }
    expected = {
        "transformers": transformers,
        "vllm": vllm,
        "llama.cpp": llama_cpp,
        "mlx-lm": mlx_lm,
    }
    assert factors == pytest.approx(expected, rel=1e-12)


def test_only_transformers_takes_a_given_attention_factor_of_longrope() -> None:
    """The parameters have attention_factor 1.25. EMULATED is transformers, vLLM, llama.cpp and mlx-lm;
    the other three compute √(1 + ln s / ln O) by the paper, for the factor s = 1024 / 64 = 16 and the
    original length O = 64.
    """
    by_the_paper = float(np.sqrt(1 + np.log(16) / np.log(64)))
    factors = [
        attention_factor_of(runtime, **LONGROPE, attention_factor=1.25) for runtime in EMULATED
    ]
    assert factors == pytest.approx([1.25, by_the_paper, by_the_paper, by_the_paper], rel=1e-12)


def test_vllm_reports_an_attention_factor_of_longrope_that_it_ignores() -> None:
    """The parameters have 1.25; vLLM computes √(1 + ln 16 / ln 64), as LONGROPE stretches 64 positions
    to 1024, 16 times as many.
    """
    rope = Rope(1, 8, runtime="vllm", **LONGROPE, attention_factor=1.25)
    computed = f"{np.sqrt(1 + np.log(16) / np.log(64)):.6g}"  # 1.29099
    expected = (
        f"attention factor {computed}, not 1.25: computes it only from max_position_embeddings"
    )

    assert rope.runtime_reading.causes[0] == expected


@pytest.mark.parametrize(
    ("length", "runtimes_with_long_factors"), [(64, ["mlx-lm"]), (65, [*EMULATED])]
)
def test_runtimes_except_mlx_lm_choose_longrope_factors_by_the_context(
    length: int, runtimes_with_long_factors: list[str]
) -> None:
    """64 is the original length: up to it the short factors (1) are taken, beyond it the long ones
    (2), which halve the first frequency, 1. mlx-lm always takes the long ones.
    """
    for runtime in EMULATED:
        rope = Rope(4, 8, **LONGROPE, length=length, runtime=runtime)
        expected = 1 / 2 if runtime in runtimes_with_long_factors else 1 / 1
        assert rope.inverse_frequencies()[0] == expected


def test_vllm_has_factor_times_the_original_length_of_positions_with_yarn() -> None:
    """By its source, vLLM's cache has 8 · 4096 = 32,768 rows for YARN, which is YaRN by 8 from 4096
    positions: positions 32,760 to 32,767 exist, the next one does not.
    """
    Rope(8, 8, offset=32760, **YARN_BY_8, runtime="vllm")
    with pytest.raises(UnsupportedError, match="vllm has 32,768 positions for these parameters"):
        Rope(9, 8, offset=32760, **YARN_BY_8, runtime="vllm")


def test_vllm_has_no_positions_beyond_the_model_with_dynamic_scaling() -> None:
    """By its source, vLLM's cache has max_position_embeddings rows with dynamic scaling, 64 here; the
    65th is refused.
    """
    dynamic = {"scaling": "dynamic", "factor": 2.0, "max_position_embeddings": 64}
    with pytest.raises(UnsupportedError, match="vllm has 64 positions"):
        Rope(65, 8, **dynamic, runtime="vllm")


SCALINGS_A_RUNTIME_LACKS = {
    "transformers": ("ntk", "ntk-fixed"),
    "vllm": ("ntk", "proportional"),
    "llama.cpp": ("ntk", "ntk-fixed", "dynamic", "proportional"),
    "mlx-lm": ("ntk", "ntk-fixed"),
}


def parameters_of_scaling(scaling: str) -> dict[str, Any]:
    """Return values for all parameters that a scaling has."""
    every = {**LONGROPE, "factor": 2.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    names = SCALINGS[scaling].names()
    return {name: value for name, value in every.items() if name in names}


@pytest.mark.parametrize(
    ("runtime", "scaling"),
    [
        (runtime, scaling)
        for runtime, lacks in SCALINGS_A_RUNTIME_LACKS.items()
        for scaling in lacks
    ],
)
def test_a_runtime_refuses_a_scaling_that_it_lacks(runtime: str, scaling: str) -> None:
    """SCALINGS_A_RUNTIME_LACKS was read from the runtimes' source. A table that a runtime cannot compute
    must not be made in its name.
    """
    with pytest.raises(UnsupportedError, match=f"it has no {scaling} scaling"):
        Rope(64, 8, scaling=scaling, runtime=runtime, **parameters_of_scaling(scaling))


@pytest.mark.parametrize("runtime", EMULATED)
def test_runtimes_except_transformers_ignore_the_factor_of_longrope(runtime: str) -> None:
    """The attention factor is √(1 + ln s / ln 64). By definition, s is the parameter `factor`, 2;
    vLLM, llama.cpp and mlx-lm take the ratio of the lengths, 1024 / 64 = 16, which is a departure.
    """
    by_definition = f"{np.sqrt(1 + np.log(2) / np.log(64)):.6g}"  # 1.08012
    by_lengths = f"{np.sqrt(1 + np.log(16) / np.log(64)):.6g}"  # 1.29099
    rope = Rope(64, 8, runtime=runtime, factor=2.0, **LONGROPE)
    causes = " ".join(rope.runtime_reading.causes)
    is_reported = f"attention factor {by_lengths}, not {by_definition}" in causes

    assert is_reported == (runtime != "transformers")


SCALINGS_AS_DEFINED = [
    (runtime, scaling)
    for runtime, lacks in SCALINGS_A_RUNTIME_LACKS.items()
    for scaling in SCALINGS
    if scaling not in lacks and (scaling != "longrope" or runtime == "transformers")
]
"""Runtimes, and the scalings that they have and compute as defined: LongRoPE is an exception."""


@pytest.mark.parametrize(("runtime", "scaling"), SCALINGS_AS_DEFINED)
def test_a_runtime_has_the_exact_table_of_a_scaling_that_it_reads_as_defined(
    runtime: str, scaling: str
) -> None:
    """A scheme without a runtime is the exact formula in float64. No departure is reported, and the
    runtime's table differs by its float32 arithmetic only: angles up to 64 are off by up to 1e-5.
    """
    parameters = parameters_of_scaling(scaling)
    rope = Rope(64, 8, scaling=scaling, runtime=runtime, **parameters)
    exact = Rope(64, 8, scaling=scaling, **parameters)

    assert rope.runtime_reading.causes == ()
    np.testing.assert_allclose(rope.tables()["cos"], exact.tables()["cos"], rtol=0, atol=1e-5)
    np.testing.assert_allclose(rope.inverse_frequencies(), exact.inverse_frequencies(), rtol=1e-6)


GPU_BASES = {"llama-2-7b": 10000.0, "qwen": 1000000.0}
RECIPES_OF_WAYS = {
    "float32": "float32",
    "einsum-under-bfloat16-autocast": "bfloat16-autocast",
    "module-to-bfloat16": "bfloat16-module",
    "bfloat16-input": "float32-bfloat16-table",
}
"""The ways in which torch computed the tables of data/gpu.npz, and the recipe that stands for each."""
OTHER_RECIPES = {*RECIPES_OF_WAYS.values(), "bfloat16-table"}


def table_of_gpu(model: str, way: str) -> np.ndarray:
    """Return the cosines and the sines that torch computed on a GPU, in one array."""
    return np.concatenate([GPU[f"{model}.{way}.cos"], GPU[f"{model}.{way}.sin"]])


def table_of_recipe(model: str, recipe: str) -> np.ndarray:
    """Return the cosines and the sines of a recipe at the same positions, in one array."""
    tables = Rope(1, 128, GPU_BASES[model], recipe=recipe).at(GPU["positions"])
    return np.concatenate([tables["cos"], tables["sin"]])


@pytest.mark.parametrize("model", GPU_BASES)
@pytest.mark.parametrize(
    ("way", "atol"),
    [
        # A frequency may be off by an ULP of float32, which the position multiplies.
        pytest.param("float32", 1e-5, id="float32"),
        # Angles are the same; a GPU's sine is off by up to 2 ULP of float32, 2.4e-7 at 1.
        pytest.param("einsum-under-bfloat16-autocast", 3e-7, id="bfloat16 angles"),
        # Both end in bfloat16, to which slightly different sines round alike.
        pytest.param("module-to-bfloat16", 0.0, id="bfloat16 frequencies and table"),
        pytest.param("bfloat16-input", 0.0, id="bfloat16 table"),
    ],
)
def test_a_recipe_computes_the_table_of_a_gpu(model: str, way: str, atol: float) -> None:
    """data/gpu.npz has what torch computed on a GPU in four ways, such as under autocast; pecli's
    recipe of the same arithmetic makes that table.
    """
    by_recipe = table_of_recipe(model, RECIPES_OF_WAYS[way])
    np.testing.assert_allclose(by_recipe, table_of_gpu(model, way), rtol=0, atol=atol)


@pytest.mark.parametrize("model", GPU_BASES)
@pytest.mark.parametrize("way", RECIPES_OF_WAYS)
def test_recipes_of_other_arithmetic_do_not_compute_the_table_of_a_gpu(
    model: str, way: str
) -> None:
    """They are off by more than 1e-3, a hundred times what the recipe of the same arithmetic may be,
    since bfloat16 rounds at another step, or at none: numbers just below 1 by up to 2^-9 = 2e-3.
    """
    by_gpu = table_of_gpu(model, way)
    for other in OTHER_RECIPES - {RECIPES_OF_WAYS[way]}:
        by_other_recipe = table_of_recipe(model, other)
        assert np.abs(by_other_recipe - by_gpu).max() > 1e-3
