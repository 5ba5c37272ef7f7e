"""Tables that runtimes and GPUs computed are explained as that, by verify, diff and identify.

Most tables were computed by the runtimes' own code (transformers, vLLM, llama.cpp, mlx-lm) or on a
GPU; tests/engine/runtimes/data/README.md states how. Others are NumPy's in float32. A recipe names
the dtypes in which a table is computed, such as bfloat16-module; an edit is a part of a reason.
"""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pecli
from pecli.engine.arrays import widened
from pecli.engine.edits import Parameter, Recipe
from pecli.engine.runtimes import EMULATED
from tests.engine.runtimes.test_runtimes import (
    CASES,
    GPU,
    GPU_BASES,
    KNOWN_DEPARTURES,
    tables_computed_by,
)

ROWS = 32


WAVES: dict[str, Any] = {"cos": np.cos, "sin": np.sin}


def config_of_case(case: str) -> dict[str, Any]:
    given = CASES[case]
    found = {
        "model_type": "phi" if "partial" in given else "llama",
        "hidden_size": 32 * given["head_dim"],
        "num_attention_heads": 32,
        "head_dim": given["head_dim"],
        "rope_theta": given["base"],
        "max_position_embeddings": given["max_position_embeddings"],
        "partial_rotary_factor": given.get("partial", 1.0),
    }
    return found | ({"rope_scaling": given["scaling"]} if given["scaling"] else {})


def dump_of_runtime(case: str, runtime: str) -> dict[str, np.ndarray]:
    tables = tables_computed_by(case, runtime)
    return {"cos": tables.cos[:ROWS], "sin": tables.sin[:ROWS]}


EVERY = [
    (case, runtime)
    for case in CASES
    for runtime in EMULATED
    if (case[:7], runtime) != ("dynamic", "llama.cpp")
]


@pytest.mark.parametrize(("case", "runtime"), EVERY)
@pytest.mark.sample(
    "linear-8-mlx-lm", "linear-8-vllm", "qwen3-yarn-4-llama.cpp", "phi-2-transformers"
)
def test_verify_names_the_runtime(case: str, runtime: str) -> None:
    """The dump has 32 rows that the runtime's own code computed for a config, and is checked against
    this config. The reason names the runtime, maybe among others that compute the same; if it
    departs from transformers, also the cause in KNOWN_DEPARTURES, which was measured.
    """
    model = pecli.load_config(config_of_case(case))
    length = CASES[case]["context"]
    dump = dump_of_runtime(case, runtime)
    result = pecli.verify(dump, model, length=length)
    edits = [edit for explanation in result.explanations for edit in explanation.edits]
    (named,) = [edit for edit in edits if edit.kind == "runtime"]

    assert runtime in (named.found, *named.also)

    # Without a known departure, an empty cause is in every diagnosis.
    cause = KNOWN_DEPARTURES.get((case, runtime), "")
    assert bool(named.causes) == bool(cause)
    assert cause in result.diagnosis[0]

    one_unit_of_float32_at_1 = 1.3e-7
    options = {"length": length, "runtime": runtime, "atol": one_unit_of_float32_at_1}
    assert pecli.verify(dump, model, **options).passed


def test_identify_names_the_runtime() -> None:
    """The table is gpt-oss-20b's as pecli emulates llama.cpp (other tests compare that with llama.cpp
    itself), and `identify` sees nothing but the table.

    llama.cpp does not read gpt-oss's key `truncate: false`, so the scheme that makes the table has
    no value for it (None).
    """
    gpt_oss = pecli.load_config(config_of_case("gpt-oss-20b")).one()
    tables = gpt_oss.rope(512, runtime="llama.cpp").tables()
    (match,) = pecli.identify({name: tables[name] for name in ("cos", "sin")}).matches

    assert match.runtimes == ("llama.cpp",)
    assert match.scheme.runtime == "llama.cpp"
    assert match.scheme.truncate is None
    assert "--runtime llama.cpp" in match.command
    assert match.as_json()["runtimes"] == ["llama.cpp"]


def test_diff_names_the_runtime(tmp_path: Path) -> None:
    """A is the exact table of gpt-oss-20b, and B the one that mlx-lm's own code computed: mlx-lm
    rounds YaRN's limits to 8 and 18 although the config has truncate: false.
    """
    exact = pecli.load_config(config_of_case("gpt-oss-20b")).one().rope(ROWS)
    pecli.save(tmp_path / "a.safetensors", exact)
    result = pecli.diff(tmp_path / "a.safetensors", dump_of_runtime("gpt-oss-20b", "mlx-lm"))

    words = "as mlx-lm computes it; rounds YaRN's limits to 8 and 18"
    assert any(words in line for line in result.diagnosis)


WAYS_OF_BFLOAT16 = {
    "module-to-bfloat16": "bfloat16-module",
    "einsum-under-bfloat16-autocast": "bfloat16-autocast",
}


@pytest.mark.parametrize("model", GPU_BASES)
@pytest.mark.parametrize("way", WAYS_OF_BFLOAT16)
@pytest.mark.sample(2)
def test_bfloat16_of_a_gpu_is_known_by_its_recipe(model: str, way: str) -> None:
    """The tables were computed on a GPU with PyTorch: by a module that was converted to bfloat16,
    which is the recipe bfloat16-module, or under autocast, which is bfloat16-autocast. Both `verify`
    and `identify` must name the recipe.
    """
    tables = {part: GPU[f"{model}.{way}.{part}"][:ROWS] for part in ("cos", "sin")}
    recipe = WAYS_OF_BFLOAT16[way]
    base = GPU_BASES[model]

    result = pecli.verify(tables, pecli.Rope(ROWS, 128, base))
    assert f"computed by the recipe {recipe}" in result.diagnosis[0]

    (match,) = pecli.identify(tables).matches
    assert match.recipe == recipe
    assert match.scheme.base == base


@pytest.mark.parametrize(
    ("recipe", "base_of_spec"),
    [
        ("bfloat16-positions", 10000.0),
        ("bfloat16-phases", 10000.0),
        ("bfloat16-inv-freq", 500000.0),
        ("float32-bfloat16-table", 500000.0),
    ],
)
@pytest.mark.sample("bfloat16-inv-freq-500000.0", "float32-bfloat16-table-500000.0")
def test_a_recipe_in_bfloat16_is_named_also_beside_a_wrong_base(
    recipe: str, base_of_spec: float
) -> None:
    """The table has base 500000 and is made by this package's recipe, which test_recipes.py compares
    with formulas. Positions and phases in bfloat16 are named although the spec has base 10000; the
    other two recipes are tried with the right base.
    """
    tables = pecli.Rope(2048, 64, 500000.0, recipe=recipe).tables()
    spec = pecli.Rope(2048, 64, base_of_spec)
    result = pecli.verify({name: tables[name] for name in ("cos", "sin")}, spec)
    (explanation,) = result.explanations

    assert [edit.found for edit in explanation.edits if edit.kind == "recipe"] == [recipe]


def test_the_command_of_a_reason_has_the_recipe_beside_another_parameter() -> None:
    """NumPy rounds the angles position · 500000^(−i/32) to bfloat16, the recipe bfloat16-phases. The
    command makes both this and the base, so that nothing is said to be missing in it.
    """
    frequencies = (500000.0 ** (-np.arange(32) / 32)).astype(np.float32)
    angles = np.arange(256, dtype=np.float32)[:, None] * frequencies
    rounded = angles.astype(ml_dtypes.bfloat16).astype(np.float32)
    tables = {"cos": np.cos(rounded), "sin": np.sin(rounded)}
    result = pecli.verify(tables, pecli.Rope(256, 64), atol=1e-6)

    assert result.diagnosis[-1] == (
        "reproduce with pecli rope --seq-len 256 --dim 64 --theta 500000 --recipe bfloat16-phases"
    )


def test_another_base_is_not_explained_as_a_runtime() -> None:
    """The tables have base 10000, computed as vLLM does, where 500000 is expected. No explanation
    may be the runtime: only the base is wrong.
    """
    tables = pecli.Rope(ROWS, 64, 10000.0, runtime="vllm").tables()
    result = pecli.verify(tables, pecli.Rope(ROWS, 64, 500000.0))
    edits = [edit for explanation in result.explanations for edit in explanation.edits]

    assert not [edit for edit in edits if edit.kind == "runtime"]


def bfloat16_tables_of_a_gpu(model: str) -> dict[str, np.ndarray]:
    """Return tables that a module on a GPU computed in float32 and rounded to bfloat16."""
    return {part: GPU[f"{model}.bfloat16-input.{part}"] for part in ("cos", "sin")}


def rows_that_differ_from_exact_ones(model: str) -> np.ndarray:
    """Return for each row of a GPU's bfloat16 tables True if pecli's exact ones differ from it."""
    positions = GPU["positions"].tolist()
    exact = pecli.Rope(positions=positions, dim=128, base=GPU_BASES[model], dtype="bfloat16")
    exact_tables = exact.tables()
    gpu_tables = bfloat16_tables_of_a_gpu(model)
    differs = [widened(exact_tables[part]) != gpu_tables[part] for part in WAVES]
    return np.logical_or(*differs).any(axis=1)


@pytest.mark.parametrize("model", GPU_BASES)
def test_exact_tables_in_bfloat16_have_the_first_32_rows_of_a_gpu(model: str) -> None:
    """A GPU computed cosines and sines in float32 at positions 0 … 31, 100, …, 8191, and rounded them
    to bfloat16. For small angles this gives the numbers of exact arithmetic.
    """
    assert not rows_that_differ_from_exact_ones(model)[:32].any()


@pytest.mark.parametrize("model", GPU_BASES)
def test_exact_tables_in_bfloat16_differ_from_far_rows_of_a_gpu(model: str) -> None:
    """A GPU computed cosines and sines in float32 at positions 0 … 31, 100, …, 8191, and rounded them
    to bfloat16. Beyond row 32, float32 angles are off by enough to be rounded to other numbers.
    """
    assert rows_that_differ_from_exact_ones(model)[32:].any()


@pytest.mark.parametrize("model", GPU_BASES)
def test_32_rows_of_a_float32_table_in_bfloat16_are_called_rounded(model: str) -> None:
    """A GPU computed the tables in float32, which 32 rows do not show: only the dtype is named, and no
    recipe.
    """
    first_rows = {part: table[:ROWS] for part, table in bfloat16_tables_of_a_gpu(model).items()}
    spec = pecli.Rope(seq_len=ROWS, dim=128, base=GPU_BASES[model])
    assert pecli.verify(first_rows, spec).diagnosis[0].startswith("cos, sin: rounded to bfloat16")


@pytest.mark.parametrize("model", GPU_BASES)
def test_far_rows_of_a_float32_table_in_bfloat16_are_named_as_the_recipe(model: str) -> None:
    """A GPU computed the tables in float32 and rounded them to bfloat16, the recipe
    float32-bfloat16-table. They have all stored rows, also far from position 0.
    """
    positions = GPU["positions"].tolist()
    spec = pecli.Rope(dim=128, base=GPU_BASES[model], positions=positions)
    result = pecli.verify(bfloat16_tables_of_a_gpu(model), spec)
    assert result.diagnosis[0] == "cos, sin: computed by the recipe float32-bfloat16-table; exact"


@pytest.mark.parametrize("rows", [8, 48, 700])
@pytest.mark.parametrize("case", ["gpt-oss-20b", "llama-3.1-8b"])
@pytest.mark.parametrize("runtime", ["llama.cpp", "transformers"])
@pytest.mark.sample(1)
def test_a_runtime_is_named_although_its_sines_are_off_by_a_last_bit(
    runtime: str, case: str, rows: int
) -> None:
    """In a runtime's table, one element in twenty is moved by one unit of its last place, up or down,
    as those of another library may be.
    """
    edits = edits_found_beside_last_bits(case, runtime, rows)
    runtimes = [edit for edit in edits if edit.kind == "runtime"]
    assert any(runtime in (edit.found, *edit.also) for edit in runtimes)


@pytest.mark.parametrize("rows", [8, 48, 700])
@pytest.mark.parametrize("case", ["gpt-oss-20b", "llama-3.1-8b"])
@pytest.mark.sample(1)
def test_no_runtime_is_named_for_exact_sines_that_are_off_by_a_last_bit(
    case: str, rows: int
) -> None:
    """In the exact table, one element in twenty is moved by one unit of its last place. Neither a
    runtime nor a recipe computes that.
    """
    edits = edits_found_beside_last_bits(case, "none", rows)
    assert not {edit.kind for edit in edits} & {"runtime", "recipe"}


def edits_found_beside_last_bits(case: str, runtime: str, rows: int) -> list[Any]:
    """Return the differences that `verify` finds in a runtime's table («none»: the exact one) of which
    one element in twenty is moved to a neighbour, the next float up or down.
    """
    draw = np.random.default_rng(rows)
    model = pecli.load_config(config_of_case(case))
    tables = model.one().rope(rows, length=rows, runtime=runtime).tables()
    dump = {}
    for name in WAVES:
        table = tables[name]
        neighbours = np.nextafter(table, draw.choice(np.float32([-2, 2]), table.shape))
        dump[name] = np.where(draw.random(table.shape) < 0.05, neighbours, table)
    explanations = pecli.verify(dump, model, length=rows).explanations
    return [edit for explanation in explanations for edit in explanation.edits]


def single_precision(base: float, dim: int, rows: int, units: int) -> dict[str, np.ndarray]:
    """Return tables computed in float32, with every third power of the base off by so many units of
    its last place, as those of other libraries are.
    """
    powers = (base ** (np.arange(0, dim, 2) / dim)).astype(np.float32)
    powers[1::3] += np.float32(units) * np.spacing(powers[1::3])
    inv_freq = np.float32(1) / powers
    phases = np.outer(np.arange(rows, dtype=np.float32), inv_freq)
    return {
        name: wave(phases.astype(np.float64)).astype(np.float32) for name, wave in WAVES.items()
    }


BASES_AND_DIMS = pytest.mark.parametrize(
    ("base", "dim"), [(5e5, 128), (1e4, 64)], ids=["base 500000", "base 10000"]
)


@BASES_AND_DIMS
@pytest.mark.sample(1)
def test_verify_names_float32_arithmetic_as_a_recipe_and_not_as_noise(
    base: float, dim: int
) -> None:
    """NumPy computes 512 rows in float32, with every third power of the base off by two units of its
    last place, as another library's may be. No runtime makes this table.
    """
    tables = single_precision(base, dim, rows=512, units=2)
    reason = pecli.verify(tables, pecli.Rope(512, dim, base=base), atol=1e-5).diagnosis[0]
    assert reason.startswith("cos, sin: computed by the recipe float32; explains every element ")


@BASES_AND_DIMS
@pytest.mark.sample(1)
def test_identify_names_float32_arithmetic_as_a_recipe_of_the_right_base(
    base: float, dim: int
) -> None:
    """NumPy computes 512 rows in float32, with every third power of the base off by two units of its
    last place. `identify` finds the base all the same, and no mistake.
    """
    (match,) = pecli.identify(single_precision(base, dim, rows=512, units=2)).matches
    assert match.scheme.base == base
    assert match.recipe == "float32"
    assert match.edits == ()


@BASES_AND_DIMS
@pytest.mark.sample(1)
def test_diff_names_float32_arithmetic_of_one_file_as_a_recipe(base: float, dim: int) -> None:
    """A holds pecli's exact table, and B the same as NumPy computes it in float32, with every third
    power of the base off by two units of its last place.
    """
    exact = pecli.Rope(512, dim, base=base, layout="halves").tables()
    in_a = {name: exact[name] for name in WAVES}
    in_b = single_precision(base, dim, rows=512, units=2)
    reason = pecli.diff(in_a, in_b, atol=1e-5).diagnosis[0]
    assert reason.startswith("cos, sin: in B, computed by the recipe float32")


def test_a_runtime_that_computes_the_table_is_named_without_a_recipe() -> None:
    """Base 500000, computed in float32 by NumPy with the operations of transformers and vLLM in
    their order: 1 / base^(2i/64), times the position, then cosine and sine.
    """
    tables = single_precision(5e5, 64, 2048, units=0)
    reason = pecli.verify(tables, pecli.Rope(2048, 64, base=5e5), atol=1e-5).diagnosis[0]

    assert "as transformers and vllm compute it" in reason
    assert "recipe" not in reason


def test_frequencies_by_an_exponential_are_named_as_a_recipe_and_not_as_noise() -> None:
    """Tutorials compute the frequencies as exp(−2i · ln 10000 / 128) in float32. The recipe float32
    computes the power 10000^(-2i/128), also in float32, which differs in up to six units of the last
    place: so the table is explained not exactly, but «to 6.1e-5», the error of angles up to 1000.
    """
    exponents = np.arange(0, 128, 2, dtype=np.float32)
    frequencies = np.exp(exponents * np.float32(-np.log(10000.0) / 128))
    angles = np.arange(1000, dtype=np.float32)[:, None] * frequencies
    table = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(1000, 128)
    reason, advice = pecli.verify(table, pecli.Sinusoidal(1000, 128), atol=1e-6).diagnosis

    assert reason.startswith("pe: computed by the recipe float32; explains every element (to 6.")
    assert advice == "verify with --recipe float32 --atol 1e-4"


@pytest.mark.thorough
def test_noise_of_1e_6_is_not_explained_as_a_recipe() -> None:
    """Normal noise of 1e-6 on the exact table has the size of float32's errors, but none of their
    pattern: there is no reason at all.
    """
    exact = pecli.Sinusoidal(1000, 128).tables()["pe"]
    noise = np.random.default_rng(0).normal(size=exact.shape).astype(np.float32)
    off = exact + np.float32(1e-6) * noise

    assert pecli.verify(off, pecli.Sinusoidal(1000, 128), atol=1e-7).diagnosis == ()


@pytest.mark.parametrize("offset", [4096, 30_000])
def test_six_far_rows_in_float32_are_named_as_the_recipe_float32(offset: int) -> None:
    """NumPy's float32 angles, position · 1 / 500000^(2i/64), of which one of 30,000 radians is off by
    up to 1e-3. Programs that subtract turns with a π of few digits, such as 3.1416, make errors of
    this size, too; the six rows are not explained as that.
    """
    positions = np.arange(offset, offset + 6, dtype=np.float32)
    exponents = np.arange(0, 64, 2, dtype=np.float32) / np.float32(64)
    angles = np.outer(positions, 1 / np.float32(5e5) ** exponents)
    dump = {"cos": np.cos(angles), "sin": np.sin(angles)}
    explanations = pecli.verify(dump, pecli.Rope(6, 64, offset=offset, base=5e5)).explanations

    assert explanations[0].edits == (Recipe("float32"),)


FAR_POSITIONS = np.arange(60_000, 60_100)
ROPE_AT_FAR_POSITIONS = pecli.Rope(100, 128, offset=60_000)


def far_waves(base: float, dtype: str) -> dict[str, np.ndarray]:
    """Return NumPy's cosines and sines of the far positions, with angles in a dtype, 64 per row.

    Angles of 60,000 radians are off by up to 0.004 in float32.
    """
    frequencies = (base ** (-np.arange(64) / 64)).astype(dtype)
    angles = np.outer(FAR_POSITIONS.astype(dtype), frequencies)
    return {name: wave(angles).astype(np.float32) for name, wave in WAVES.items()}


def largest_difference(tables: dict[str, np.ndarray], others: dict[str, np.ndarray]) -> float:
    differences = [np.abs(widened(tables[name]) - others[name]).max() for name in WAVES]
    return float(max(differences))


def test_float32_angles_behind_a_mistake_are_named_if_the_exact_table_is_out_of_tolerance() -> None:
    """With the base 500000 instead of 10000, and angles in float32, cosines are off by 0.0029 from
    the exact ones of base 500000.
    """
    dump = far_waves(5e5, "float32")
    (explanation,) = pecli.verify(dump, ROPE_AT_FAR_POSITIONS, atol=1e-4).explanations
    assert explanation.edits == (Parameter("base", 1e4, 5e5), Recipe("float32"))


def test_the_command_of_a_mistake_with_float32_angles_makes_the_file_within_the_residual() -> None:
    """Its frequencies may differ from those of NumPy in the last place, so that the residual is much
    larger than a rounding. Cosines in float32 are off by up to 2.4e-7 themselves.
    """
    dump = far_waves(5e5, "float32")
    (explanation,) = pecli.verify(dump, ROPE_AT_FAR_POSITIONS, atol=1e-4).explanations
    assert explanation.scheme is not None
    tables = explanation.scheme.tables()
    assert largest_difference(dump, tables) == pytest.approx(explanation.residual, abs=2.4e-7)


def test_the_residual_of_negated_sines_of_float32_angles_is_that_of_the_recipe() -> None:
    """The table of the recipe is `pecli.Rope(…, recipe="float32")`, whose sines are then negated."""
    dump = far_waves(1e4, "float32")
    (explanation,) = pecli.verify(
        dump | {"sin": -dump["sin"]}, ROPE_AT_FAR_POSITIONS, atol=1e-4
    ).explanations
    by_recipe = pecli.Rope(100, 128, offset=60_000, recipe="float32").tables()
    assert Recipe("float32") in explanation.edits
    assert explanation.residual == pytest.approx(largest_difference(dump, by_recipe), abs=2.4e-7)


def test_the_residual_of_a_mistake_is_that_of_exact_angles_if_these_are_within_the_tolerance() -> (
    None
):
    """Within 0.01, «base is 500000» is the whole reason: NumPy's cosines of float64 angles with this
    base are off by 0.0029.
    """
    dump = far_waves(5e5, "float32")
    (explanation,) = pecli.verify(dump, ROPE_AT_FAR_POSITIONS, atol=1e-2).explanations
    from_exact = largest_difference(dump, far_waves(5e5, "float64"))
    assert explanation.edits == (Parameter("base", 1e4, 5e5),)
    assert explanation.residual == pytest.approx(from_exact, abs=2.4e-7)


def yarn_of_runtime(runtime: str) -> pecli.Rope:
    """Return six rows from position 4096, with YaRN by 4, as a runtime computes them.

    At these positions mlx-lm's cosines differ from those of transformers by up to 2.4e-5, while
    those of vLLM are the same: both compute YaRN with the same operations in float32.
    """
    return pecli.Rope(
        seq_len=6,
        dim=64,
        offset=4096,
        scaling="yarn",
        factor=4,
        original_len=2048,
        length=16384,
        runtime=runtime,
    )


def diagnosis_of_transformers_tables_for_mlx_lm() -> tuple[str, ...]:
    """Verify tables of transformers against a spec that states mlx-lm."""
    tables = yarn_of_runtime("transformers").tables()
    dump = {name: tables[name] for name in WAVES}
    return pecli.verify(dump, yarn_of_runtime("mlx-lm")).diagnosis


def test_a_table_of_another_runtime_than_the_specified_one_is_named() -> None:
    """The tables are pecli's own for transformers, whose arithmetic for YaRN is also vLLM's; the spec
    states mlx-lm.
    """
    diagnosis = diagnosis_of_transformers_tables_for_mlx_lm()
    assert diagnosis[0] == "cos, sin: as transformers and vllm compute it; exact"


def test_no_recipe_is_advised_for_a_spec_that_states_a_runtime() -> None:
    """For tables in float32, «verify with --recipe float32» is the usual advice. A runtime has an
    arithmetic of its own, so that --recipe beside --runtime mlx-lm would be refused.
    """
    diagnosis = diagnosis_of_transformers_tables_for_mlx_lm()
    assert not any("--recipe" in line for line in diagnosis)


def test_the_recipe_that_is_advised_for_a_table_of_llama_cpp_has_a_tolerance() -> None:
    """llama.cpp multiplies angles from pair to pair, so that its table is not that of the recipe
    float32: 64 rows of Rope(64, 64) differ from it by 4e-6.
    """
    of_runtime = pecli.Rope(64, 64, runtime="llama.cpp").tables()
    dump = {name: of_runtime[name] for name in WAVES}
    by_recipe = pecli.Rope(64, 64, recipe="float32")

    assert (
        "verify with --recipe float32 --atol 1e-5"
        in pecli.verify(dump, pecli.Rope(64, 64)).diagnosis
    )
    assert not pecli.verify(dump, by_recipe, reasons=False).passed
    assert pecli.verify(dump, by_recipe, atol=1e-5, reasons=False).passed
