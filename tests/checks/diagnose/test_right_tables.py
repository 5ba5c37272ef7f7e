"""No mistake is named where none was made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pecli.checks.diagnose import explain
from pecli.checks.diagnose.alibi import explain_alibi
from pecli.checks.diagnose.inverse import explain_inverse
from pecli.checks.diagnose.learned import explain_learned
from pecli.checks.diagnose.waves import explain_waves
from pecli.checks.tolerance import EXACT, Tolerance
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.learned import LearnedInit
from pecli.engine.schemes.recipes import RECIPES
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import EVEN_ONLY, STYLES, Sinusoidal
from pecli.engine.table import Table, table_of
from tests.checks.diagnose.conftest import Diagnosed, passes
from tests.checks.diagnose.formulas import float32_waves, inverse, paper_slopes, waves

DTYPES = ("float32", "float16", "bfloat16", "float64")
COUNT = 250


def pick(rng: np.random.Generator, choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


def some_rope(rng: np.random.Generator) -> Rope:
    dim, original = 2 * int(rng.integers(2, 50)), int(2 ** rng.integers(5, 13))
    factor = float(pick(rng, (1.0, 2.0, 4.0, 8.0, 32.0, 1.7)))
    divisors = [tuple((1 + 5 * rng.random(dim // 2)).tolist()) for _ in range(2)]
    scaling: dict[str, Any] = pick(
        rng,
        [
            {},
            {"scaling": "linear", "factor": factor},
            {"scaling": "ntk", "factor": factor},
            {"scaling": "dynamic", "factor": factor, "max_position_embeddings": original},
            {"scaling": "yarn", "factor": factor, "original_max_position_embeddings": original},
            {"scaling": "yarn", "factor": factor, "original_max_position_embeddings": original, "truncate": False},
            {
                "scaling": "llama3",
                "factor": factor,
                "original_max_position_embeddings": original,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
            },
            {
                "scaling": "longrope",
                "factor": factor,
                "original_max_position_embeddings": original,
                "short_factor": divisors[0],
                "long_factor": divisors[1],
            },
        ],
    )
    return Rope(
        int(rng.integers(1, 120)),
        dim,
        base=pick(rng, (1e4, 5e5, 1e6, 150000.0, 100.0)),
        offset=int(pick(rng, (0, 0, 1, 77, 4000, 2**33))),
        layout=pick(rng, ("compact", "halves", "interleaved")),
        dtype=pick(rng, DTYPES),
        **scaling,
    )


def some_sinusoidal(rng: np.random.Generator) -> Sinusoidal:
    style = pick(rng, tuple(STYLES))
    dim = int(rng.integers(3, 130))
    return Sinusoidal(
        int(rng.integers(1, 120)),
        dim + (dim % 2 if style in EVEN_ONLY else 0),
        style=style,
        offset=int(pick(rng, (0, 0, 1, 1000))),
        dtype=pick(rng, DTYPES),
    )


def some_alibi(rng: np.random.Generator) -> Alibi:
    return Alibi(
        int(rng.integers(1, 40)),
        int(rng.integers(1, 60)),
        form=pick(rng, ("symmetric", "causal", "key", "key-last")),
        rule=pick(rng, ("paper", "naive")),
        dtype=pick(rng, DTYPES),
    )


def some_learned(rng: np.random.Generator) -> LearnedInit:
    init = pick(rng, ("normal", "trunc-normal", "uniform", "xavier-uniform", "zeros", "sinusoidal"))
    return LearnedInit(
        int(rng.integers(1, 300)),
        int(rng.integers(3, 60)),
        init=init,
        seed=int(rng.integers(9)),
        dtype=pick(rng, DTYPES),
    )


def some_recipe(rng: np.random.Generator) -> Scheme:
    some: Any = pick(rng, (some_rope, some_sinusoidal))
    return replace(some(rng), offset=0, recipe=pick(rng, tuple(RECIPES)))


def unguarded(scheme: Scheme, name: str, table: Table) -> list[Any]:
    """What the search itself says, without a look at whether the table is right."""
    if isinstance(scheme, Rope) and name == "inv_freq":
        found, words = explain_inverse(scheme, table)
        return [*found, *filter(None, [words])]
    if isinstance(scheme, (Rope, Sinusoidal)):
        found, words = explain_waves(scheme, name, table)
        return [*found, *filter(None, [words])]
    if isinstance(scheme, Alibi):
        return list(explain_alibi(scheme, name, table))
    assert isinstance(scheme, LearnedInit)
    return list(explain_learned(scheme, table))


@pytest.mark.parametrize("some", [some_rope, some_sinusoidal, some_alibi, some_learned])
def test_right_tables(some: Any) -> None:
    rng = np.random.default_rng(2024)
    for count in range(COUNT):
        scheme = some(rng)
        found = {name: table_of(name, array) for name, array in scheme.tables().items()}
        assert explain(scheme, found, EXACT) == ()
        for name, table in found.items() if count % 4 == 0 else ():
            assert unguarded(scheme, name, table) == [], scheme


def test_right_tables_of_recipes() -> None:
    rng = np.random.default_rng(5)
    for _ in range(100):
        scheme = some_recipe(rng)
        found = {name: table_of(name, array) for name, array in scheme.tables().items()}
        assert explain(scheme, found, EXACT) == ()


@pytest.mark.parametrize("recipe", [name for name in RECIPES if not name.endswith("table")])
def test_another_recipe_is_named(diagnosed: Diagnosed, recipe: str) -> None:
    exact = waves(3000, inverse(64, 1e4))
    text = diagnosed(Rope(3000, 64, recipe=recipe), cos=exact[0], sin=exact[1])
    assert text.startswith("cos, sin: match if the recipe is exact")
    assert f"(the spec says {recipe}); residual " in text
    wrong = Rope(3000, 64, base=5e5, recipe=recipe).tables()
    text = diagnosed(Rope(3000, 64, recipe=recipe), cos=wrong["cos"], sin=wrong["sin"])
    assert text.startswith("cos, sin: match if theta is 500000 (the spec says 10000); residual ")


def test_right_tables_of_float64_arithmetic() -> None:
    """Off by a unit of the last place here and there, which the comparison sees and no mistake explains."""
    rng = np.random.default_rng(7)
    for _ in range(50):
        dim, base, dtype = 2 * int(rng.integers(1, 80)), pick(rng, (1e4, 5e5, 1e6)), pick(rng, DTYPES)
        cos, sin = waves(300, inverse(dim, base), dtype=dtype)
        found = {"cos": table_of("cos", cos), "sin": table_of("sin", sin)}
        assert explain(Rope(300, dim, base=base, dtype=dtype), found, EXACT) == ()


@pytest.mark.parametrize("base", [1e4, 5e5, 1e6])
def test_float32_phases_within_the_tolerance(base: float) -> None:
    tolerance = Tolerance(atol=2e-3)
    for dim in (16, 64, 96, 128):
        cos, sin = float32_waves(2048, dim, base)
        scheme = Rope(2048, dim, base=base)
        assert passes(scheme, tolerance, cos=cos, sin=sin)
        assert explain(scheme, {"cos": table_of("cos", cos), "sin": table_of("sin", sin)}, tolerance) == ()


def test_noise_is_not_explained(diagnosed: Diagnosed) -> None:
    rng = np.random.default_rng(3)
    for dim, length in ((64, 100), (32, 32)):
        noise = rng.uniform(-1, 1, (length, dim)).astype(np.float32)
        for scheme, name in (
            (Rope(length, dim, layout="halves"), "sin"),
            (Rope(length, 2 * dim), "cos"),
            (Sinusoidal(length, dim), "pe"),
            (LearnedInit(length, dim), "weight"),
        ):
            assert explain(scheme, {name: table_of(name, noise)}, EXACT) == ()
        assert diagnosed(scheme, weight=noise) == ""  # nor is it another table


def test_unrelated_tables_are_not_explained(diagnosed: Diagnosed) -> None:
    distances = -np.abs(np.subtract.outer(np.arange(64.0), np.arange(64.0))).astype(np.float32)
    assert diagnosed(Sinusoidal(64, 64), pe=distances) == ""
    cos, _ = waves(64, inverse(128, 1e4))
    another = "it is another table, which pecli rope --seq-len 64 --dim 128 makes"
    assert diagnosed(LearnedInit(64, 64), weight=cos) == f"weight: {another}"
    assert diagnosed(Alibi(1, 64), bias=cos[None]) in ("", f"bias: {another}")
    assert diagnosed(Rope(64, 128), cos=distances, sin=np.abs(distances)) == ""
    assert diagnosed(Rope(64, 16), inv_freq=(paper_slopes(8) * 2) ** 0.5) != ""  # a base does make these


def test_one_wrong_element_is_not_explained(diagnosed: Diagnosed) -> None:
    cos, _ = waves(300, inverse(64, 1e4))
    cos[5, 7] = 0.25
    assert diagnosed(Rope(300, 64), cos=cos) == ""


def test_what_is_not_finite_is_counted(diagnosed: Diagnosed) -> None:
    cos, sin = waves(300, inverse(64, 1e4))
    cos[17, 3] = np.nan
    sin[200:, 5] = np.inf
    text = diagnosed(Rope(300, 64), cos=cos, sin=sin)
    assert "cos: 1 of 9600 values are NaN or infinite, the first at [17, 3]" in text
    assert "sin: 100 of 9600 values are NaN or infinite, the first at [200, 5]" in text


def test_empty_memory(diagnosed: Diagnosed) -> None:
    zeros = np.zeros((300, 32), np.float32)
    assert "pe: is 0 everywhere: nothing was written to it" in diagnosed(Sinusoidal(300, 32), pe=zeros)
    assert "weight: is 0 everywhere: nothing was written to it" in diagnosed(LearnedInit(300, 32), weight=zeros)
