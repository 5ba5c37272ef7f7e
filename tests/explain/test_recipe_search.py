"""Tables that runtimes and GPUs computed are explained as that, by verify, diff and identify.

Most tables were computed by the runtimes' own code (transformers, vLLM, llama.cpp, mlx-lm) or on a
GPU; tests/engine/runtimes/data/README.md states how. Others are NumPy's in float32. A recipe names
the dtypes in which a table is computed, such as bfloat16-module; an edit is a part of a reason.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pecli
from pecli.engine.arrays import round_to, widened
from pecli.engine.runtimes import EMULATED
from tests.engine.runtimes.test_runtimes import (
    CASES,
    GPU,
    GPU_BASES,
    KNOWN_DEPARTURES,
    tables_computed_by,
)

ROWS = 32


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
    cos, sin = tables_computed_by(case, runtime)
    return {"cos": cos[:ROWS], "sin": sin[:ROWS]}


EVERY = [
    (case, runtime)
    for case in CASES
    for runtime in EMULATED
    if (case[:7], runtime) != ("dynamic", "llama.cpp")
]


@pytest.mark.parametrize(("case", "runtime"), EVERY)
@pytest.mark.sample(4)
def test_verify_names_the_runtime(case: str, runtime: str) -> None:
    """The first 32 rows by the runtime's own code, checked against the config. Several runtimes may
    compute the same; the cause of a difference from transformers is that of KNOWN_DEPARTURES, which
    was measured. As a table of that runtime it passes within 1.3e-7, one unit of float32 at 1.
    """
    model = pecli.load_config(config_of_case(case))
    length = CASES[case]["context"]
    found = pecli.verify(dump_of_runtime(case, runtime), model, length=length)
    (edit,) = [edit for why in found.explanations for edit in why.edits if edit.kind == "runtime"]

    assert runtime in (edit.found, *edit.also)

    # Without a known departure, an empty cause is in every diagnosis.
    cause = KNOWN_DEPARTURES.get((case, runtime), "")
    assert bool(edit.causes) == bool(cause)
    assert cause in found.diagnosis[0]
    assert pecli.verify(
        dump_of_runtime(case, runtime), model, length=length, runtime=runtime, atol=1.3e-7
    ).passed


def test_identify_names_the_runtime() -> None:
    """The table is gpt-oss-20b's as this package emulates llama.cpp, and identify sees only the
    table.

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
    """mlx-lm's own table of gpt-oss-20b against the exact one: mlx-lm rounds YaRN's limits to 8 and
    18 although the config has truncate: false.
    """
    exact = pecli.load_config(config_of_case("gpt-oss-20b")).one().rope(ROWS)
    pecli.save(tmp_path / "a.safetensors", exact)
    found = pecli.diff(tmp_path / "a.safetensors", dump_of_runtime("gpt-oss-20b", "mlx-lm"))

    assert any(
        "as mlx-lm computes it; rounds YaRN's limits to 8 and 18" in line
        for line in found.diagnosis
    )


WAYS_OF_BFLOAT16 = {
    "module-to-bfloat16": "bfloat16-module",
    "einsum-under-bfloat16-autocast": "bfloat16-autocast",
}


@pytest.mark.parametrize("model", GPU_BASES)
@pytest.mark.parametrize("way", WAYS_OF_BFLOAT16)
@pytest.mark.sample(2)
def test_bfloat16_of_a_gpu_is_known_by_its_recipe(model: str, way: str) -> None:
    """The tables were computed on a GPU with PyTorch, as a module in bfloat16 and under autocast;
    verify and identify name the recipe.
    """
    tables = {part: GPU[f"{model}.{way}.{part}"][:ROWS] for part in ("cos", "sin")}
    found = pecli.verify(tables, pecli.Rope(ROWS, 128, GPU_BASES[model]))

    assert f"computed by the recipe {WAYS_OF_BFLOAT16[way]}" in found.diagnosis[0]

    (match,) = pecli.identify(tables).matches
    assert match.recipe == WAYS_OF_BFLOAT16[way]
    assert match.scheme.base == GPU_BASES[model]


@pytest.mark.parametrize(
    "recipe",
    ["bfloat16-positions", "bfloat16-phases", "bfloat16-inv-freq", "float32-bfloat16-table"],
)
@pytest.mark.sample("bfloat16-inv-freq", "float32-bfloat16-table")
def test_a_recipe_in_bfloat16_is_named_also_beside_a_wrong_base(recipe: str) -> None:
    """The table has base 500000 and is made by this package's recipes, which test_recipes.py holds
    against formulas. Positions and phases in bfloat16 are named beside the wrong base 10000, the
    two others if nothing else is wrong.
    """
    base = 1e4 if recipe in ("bfloat16-positions", "bfloat16-phases") else 5e5
    tables = pecli.Rope(2048, 64, 500000.0, recipe=recipe).tables()
    found = pecli.verify(
        {name: tables[name] for name in ("cos", "sin")}, pecli.Rope(2048, 64, base)
    )
    (why,) = found.explanations

    assert [edit.found for edit in why.edits if edit.kind == "recipe"] == [recipe]


def test_another_base_is_not_explained_as_a_runtime() -> None:
    """The tables have base 10000, computed as vLLM does, where 500000 is expected. No explanation
    may be the runtime: only the base is wrong.
    """
    tables = pecli.Rope(ROWS, 64, 10000.0, runtime="vllm").tables()
    found = pecli.verify(tables, pecli.Rope(ROWS, 64, 500000.0))

    assert not [edit for why in found.explanations for edit in why.edits if edit.kind == "runtime"]


@pytest.mark.parametrize("model", GPU_BASES)
def test_a_float32_table_rounded_to_bfloat16_is_told_from_an_exact_one_only_far_down(
    model: str,
) -> None:
    """The GPU's module computes in float32 and rounds the table to bfloat16.

    In its first 32 rows not one element differs from NumPy's float64 table rounded to bfloat16, so
    that verify names the dtype only; in all rows it names the recipe.
    """
    tables = {part: GPU[f"{model}.bfloat16-input.{part}"] for part in ("cos", "sin")}
    places = GPU["positions"].tolist()
    few = {part: table[:ROWS] for part, table in tables.items()}
    angles = np.outer(places, GPU_BASES[model] ** (-np.arange(64) / 64))
    rounded = {
        "cos": round_to(np.cos(angles), "bfloat16"),
        "sin": round_to(np.sin(angles), "bfloat16"),
    }
    differ = {part: (widened(rounded[part]) != tables[part]).any(axis=1) for part in tables}

    assert not any(each[:ROWS].any() for each in differ.values())
    assert all(each[ROWS:].any() for each in differ.values())

    found = pecli.verify(few, pecli.Rope(ROWS, 128, GPU_BASES[model])).diagnosis
    assert found[0].startswith("cos, sin: rounded to bfloat16")

    found = pecli.verify(tables, pecli.Rope(dim=128, base=GPU_BASES[model], positions=places))
    assert found.diagnosis[0] == "cos, sin: computed by the recipe float32-bfloat16-table; exact"


@pytest.mark.parametrize("rows", [8, 48, 700])
@pytest.mark.parametrize("case", ["gpt-oss-20b", "llama-3.1-8b"])
@pytest.mark.parametrize("runtime", ["llama.cpp", "transformers"])
@pytest.mark.sample(1)
def test_a_runtime_is_named_although_its_sines_are_off_by_a_last_bit(
    runtime: str, case: str, rows: int
) -> None:
    """One element in twenty is off by one unit of the last place, as those of another library may
    be; the exact table with such errors is no runtime's.
    """
    draw = np.random.default_rng(rows)
    model = pecli.load_config(config_of_case(case))
    exact, tables = (
        model.one().rope(rows, length=rows, runtime=name).tables() for name in ("none", runtime)
    )
    for name in ("cos", "sin"):
        for each in (exact, tables):
            off = np.nextafter(each[name], draw.choice(np.float32([-2, 2]), each[name].shape))
            each[name] = np.where(draw.random(off.shape) < 0.05, off, each[name])
    named = pecli.verify(
        {name: tables[name] for name in ("cos", "sin")}, model, length=rows
    ).explanations
    edits = [edit for why in named for edit in why.edits if edit.kind == "runtime"]

    assert any(runtime in (edit.found, *edit.also) for edit in edits)

    found = pecli.verify(
        {name: exact[name] for name in ("cos", "sin")}, model, length=rows
    ).explanations
    assert not [edit for why in found for edit in why.edits if edit.kind in ("runtime", "recipe")]


def single_precision(base: float, dim: int, rows: int, units: int) -> dict[str, np.ndarray]:
    """All in float32, every third power off by so many units of its last place, as those of other libraries are."""
    powers = (base ** (np.arange(0, dim, 2) / dim)).astype(np.float32)
    powers[1::3] += np.float32(units) * np.spacing(powers[1::3])
    inv_freq = np.float32(1) / powers
    phases = np.outer(np.arange(rows, dtype=np.float32), inv_freq)
    return {
        name: wave(phases.astype(np.float64)).astype(np.float32) for name, wave in WAVES.items()
    }


WAVES: dict[str, Any] = {"cos": np.cos, "sin": np.sin}


@pytest.mark.parametrize(("base", "dim"), [(5e5, 128), (1e4, 64)])
@pytest.mark.sample(1)
def test_float32_arithmetic_is_named_as_a_recipe_and_not_as_noise(base: float, dim: int) -> None:
    """NumPy's float32 with every third power off by two units of its last place, which is no
    runtime's table: verify, identify and diff name the recipe float32.
    """
    length = 2048
    tables = single_precision(base, dim, length, units=2)
    found = pecli.verify(tables, pecli.Rope(length, dim, base=base), atol=1e-5)

    assert found.diagnosis[0].startswith(
        "cos, sin: computed by the recipe float32; explains every element "
    )

    (match,) = pecli.identify(tables).matches
    assert match.scheme.base == base
    assert match.recipe == "float32"
    assert match.edits == ()

    exact = pecli.Rope(length, dim, base=base, layout="halves").tables()
    found = pecli.diff({name: exact[name] for name in ("cos", "sin")}, tables, atol=1e-5).diagnosis
    assert found[0].startswith("cos, sin: in B, computed by the recipe float32")


def test_a_runtime_that_computes_the_table_is_named_without_a_recipe() -> None:
    """NumPy's float32 in the order of operations of transformers and vLLM."""
    tables = single_precision(5e5, 64, 2048, units=0)
    reason = pecli.verify(tables, pecli.Rope(2048, 64, base=5e5), atol=1e-5).diagnosis[0]

    assert "as transformers and vllm compute it" in reason
    assert "recipe" not in reason


def test_frequencies_by_an_exponential_are_named_as_a_recipe_and_not_as_noise() -> None:
    """Tutorials compute exp(−i · ln 10000 / d) in float32, which is off by up to six units of the
    last place.
    """
    rates = np.exp(np.arange(0, 128, 2, dtype=np.float32) * np.float32(-np.log(10000.0) / 128))
    phases = np.arange(1000, dtype=np.float32)[:, None] * rates
    table = np.stack([np.sin(phases), np.cos(phases)], axis=-1).reshape(1000, 128)
    found = pecli.verify(table, pecli.Sinusoidal(1000, 128), atol=1e-6)

    assert found.diagnosis[0].startswith(
        "pe: computed by the recipe float32; explains every element "
    )


@pytest.mark.thorough
def test_noise_of_1e_6_is_not_explained_as_a_recipe() -> None:
    """Normal noise on the exact table has the size of float32's errors, but none of its pattern:
    there is no reason at all.
    """
    exact = pecli.Sinusoidal(1000, 128).tables()["pe"]
    noise = np.random.default_rng(0).normal(size=exact.shape).astype(np.float32)
    off = exact + np.float32(1e-6) * noise

    assert pecli.verify(off, pecli.Sinusoidal(1000, 128), atol=1e-7).diagnosis == ()
