"""Two mistakes at once are both named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pecli.checks.diagnose import explain
from pecli.checks.tolerance import EXACT
from pecli.engine.schemes.bundle import Bundle
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.engine.table import table_of
from tests.checks.diagnose.conftest import Diagnosed
from tests.checks.diagnose.formulas import (
    halves,
    interleaved,
    inverse,
    llama3,
    narrowed,
    sinusoidal,
    through,
    waves,
    yarn,
    yarn_factor,
)

SHARED: Any = {"scaling": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096, "base": 150000.0}
YARN = Rope(1000, 64, **SHARED)
YARN_INV = yarn(inverse(64, 150000.0), 64, 150000.0, 32, 4096)
LLAMA: Any = {
    "scaling": "llama3",
    "factor": 8.0,
    "original_max_position_embeddings": 8192,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "base": 5e5,
}


def named(text: str, *causes: str) -> bool:
    """Whether one sentence has these causes, in any order, and none else."""
    text = text.replace("sin and cos", "both")
    causes = tuple(cause.replace("sin and cos", "both") for cause in causes)
    said = text.split(" match if ")[-1].split(" matches if ")[-1].rsplit("; residual", 1)[0]
    return "\n" not in text and all(cause in said for cause in causes) and said.count(" and ") == len(causes) - 1


@pytest.mark.parametrize(("dim", "base", "dtype"), [(128, 5e5, "float32"), (64, 1e6, "bfloat16"), (96, 3e4, "float16")])
def test_theta_and_layout(diagnosed: Diagnosed, dim: int, base: float, dtype: str) -> None:
    cos, sin = (halves(table) for table in waves(500, inverse(dim, 1e4), dtype=dtype))
    text = diagnosed(Rope(500, dim, base=base, layout="interleaved", dtype=dtype), cos=cos, sin=sin)
    assert named(text, f"theta is 10000 (the spec says {base:.0f})", "the layout is halves")


@pytest.mark.parametrize(("dim", "first"), [(128, 0), (64, 5), (512, 1000)])
def test_offset_and_swap(diagnosed: Diagnosed, dim: int, first: int) -> None:
    cos, sin = waves(500, inverse(dim, 1e4), first + 1)
    text = diagnosed(Rope(500, dim, offset=first), cos=sin, sin=cos)
    assert named(text, f"positions start at {first + 1} (the spec says {first})", "sin and cos are swapped")
    wrong = sinusoidal(500, dim, cos_first=True, first=first + 1)
    text = diagnosed(Sinusoidal(500, dim, offset=first), pe=wrong)
    assert named(text, f"positions start at {first + 1} (the spec says {first})", "sin and cos are swapped")


def test_attention_factor_and_layout(diagnosed: Diagnosed) -> None:
    cos, sin = (interleaved(table) for table in waves(1000, YARN_INV))
    text = diagnosed(replace(YARN, layout="halves"), cos=cos, sin=sin)
    assert named(text, "the YaRN attention factor, 1.3466, is dropped", "the layout is interleaved")
    cos, sin = (table.T for table in waves(1000, YARN_INV, height=yarn_factor(32) ** 2))
    text = diagnosed(YARN, cos=cos, sin=sin)
    assert named(text, "1.3466 = the YaRN attention factor, applied twice", "the table is transposed")


def test_scaling_ignored_and_transposed(diagnosed: Diagnosed) -> None:
    cos, sin = (table.T for table in waves(1000, inverse(64, 150000.0)))
    assert named(diagnosed(YARN, cos=cos, sin=sin), "the yarn scaling is ignored", "the table is transposed")
    cos, sin = (table.T for table in waves(9000, inverse(128, 5e5)))
    text = diagnosed(Rope(9000, 128, **LLAMA), cos=cos, sin=sin)
    assert named(text, "the llama3 scaling is ignored", "the table is transposed")


def test_theta_and_scaling_ignored(diagnosed: Diagnosed) -> None:
    cos, sin = waves(1000, inverse(64, 1e4))
    text = diagnosed(YARN, cos=cos, sin=sin)
    assert named(text, "theta is 10000 (the spec says 150000)", "the yarn scaling is ignored")
    cos, sin = waves(9000, llama3(inverse(128, 1e4), 8, 8192, 1, 4), 1)
    text = diagnosed(Rope(9000, 128, **LLAMA), cos=cos, sin=sin)
    assert named(text, "theta is 10000 (the spec says 500000)", "positions start at 1 (the spec says 0)")


def test_truncate_and_attention_factor(diagnosed: Diagnosed) -> None:
    inv = yarn(inverse(64, 150000.0), 64, 150000.0, 32, 4096, truncate=False)
    cos, sin = waves(1000, inv)
    text = diagnosed(YARN, cos=cos, sin=sin)
    assert named(text, "truncate is false (the spec says true)", "the YaRN attention factor, 1.3466, is dropped")


def test_theta_and_bfloat16_table(diagnosed: Diagnosed) -> None:
    cos, sin = (table.astype(np.float32) for table in waves(1000, inverse(64, 1e4), dtype="bfloat16"))
    text = diagnosed(Rope(1000, 64, base=1e6), cos=cos, sin=sin)
    assert named(text, "theta is 10000 (the spec says 1000000)", "the table was cast to bfloat16")


def test_bfloat16_phases_and_layout(diagnosed: Diagnosed) -> None:
    angles = through(np.outer(np.arange(1000), inverse(64, 1e4)), "bfloat16")
    cos, sin = (halves(narrowed(table, "float32")) for table in (np.cos(angles), np.sin(angles)))
    text = diagnosed(Rope(1000, 64, layout="interleaved"), cos=cos, sin=sin)
    assert named(text, "the phases are computed in bfloat16", "the layout is halves")


def test_exponent_and_layout(diagnosed: Diagnosed) -> None:
    wrong = sinusoidal(300, 128, shift=1, layout="halves")
    text = diagnosed(Sinusoidal(300, 128), pe=wrong)
    assert named(text, "the exponent divides by D/2 − 1 instead of D/2", "the layout is halves")


def test_fitted_theta_and_swap(diagnosed: Diagnosed) -> None:
    cos, sin = waves(300, inverse(128, 7e5))
    text = diagnosed(Rope(300, 128), cos=sin, sin=cos)
    assert named(text, "theta is 700000 (the spec says 10000)", "sin and cos are swapped")


def test_each_part_of_a_bundle_by_itself() -> None:
    cos, sin = waves(300, inverse(64, 1e4))
    scheme = Bundle({"full_attention": Rope(300, 64, base=1e6), "sliding_attention": Rope(300, 64)})
    found = {
        "full_attention.cos": cos,
        "full_attention.sin": sin,
        "sliding_attention.cos": sin,
        "sliding_attention.sin": cos,
    }
    first, second = explain(scheme, {name: table_of(name, table) for name, table in found.items()}, EXACT)
    said = "full_attention.cos, full_attention.sin: match if theta is 10000 (the spec says 1000000); residual "
    assert first.startswith(said)
    assert second.startswith(
        "sliding_attention.cos, sliding_attention.sin: match if sin and cos are swapped; residual "
    )


def test_two_that_make_the_same_table(diagnosed: Diagnosed) -> None:
    cos, sin = waves(2000, inverse(64, 1e4))
    text = diagnosed(Rope(2000, 64, base=1e8), cos=cos, sin=sin)  # b^(−2i/2d) = (√b)^(−2i/d)
    assert "theta is 10000 (the spec says 100000000)" in text
    assert "the exponent is over 128 instead of 64" in text
    assert ", or if " in text
