"""Every mistake that ports make with waves, made on purpose, is named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pecli.checks.diagnose import explain
from tests.checks.diagnose.conftest import Diagnosed
from tests.checks.diagnose.formulas import (
    float32_waves,
    halves,
    interleaved,
    inverse,
    llama3,
    longrope_factor,
    narrowed,
    ntk,
    sinusoidal,
    through,
    waves,
    yarn,
    yarn_factor,
)

from pecli.checks.tolerance import EXACT
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.engine.table import Table, table_of

YARN = {"scaling": "yarn", "original_max_position_embeddings": 4096}
LLAMA3 = {
    "scaling": "llama3",
    "original_max_position_embeddings": 8192,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
}


def rope(cos: Any, sin: Any) -> dict[str, Any]:
    return {"cos": cos, "sin": sin}


def residual(text: str) -> float:
    return float(text.rsplit("residual ", 1)[1])


@pytest.mark.parametrize(
    ("dim", "dtype", "base"), [(64, "float32", 1e4), (128, "float16", 5e5), (32, "bfloat16", 1e4), (80, "float64", 1e6)]
)
def test_doubled_as_halves_not_interleaved(diagnosed: Diagnosed, dim: int, dtype: str, base: float) -> None:
    cos, sin = waves(300, inverse(dim, base), dtype=dtype)
    scheme = Rope(300, dim, base=base, layout="interleaved", dtype=dtype)
    text = diagnosed(scheme, cos=halves(cos), sin=halves(sin))
    assert text.startswith("cos, sin: match if the layout is halves (the spec says interleaved); residual ")
    scheme = Rope(300, dim, base=base, layout="halves", dtype=dtype)
    text = diagnosed(scheme, cos=interleaved(cos), sin=interleaved(sin))
    assert text.startswith("cos, sin: match if the layout is interleaved (the spec says halves); residual ")


@pytest.mark.parametrize(
    ("dim", "dtype", "length"), [(64, "float32", 512), (512, "float16", 100), (16, "bfloat16", 40)]
)
def test_sinusoidal_halves_not_interleaved(diagnosed: Diagnosed, dim: int, dtype: str, length: int) -> None:
    scheme = Sinusoidal(length, dim, dtype=dtype)
    text = diagnosed(scheme, pe=sinusoidal(length, dim, layout="halves", dtype=dtype))
    assert text.startswith("pe: matches if the layout is halves (the spec says interleaved); residual ")
    scheme = Sinusoidal(length, dim, layout="halves", dtype=dtype)
    text = diagnosed(scheme, pe=sinusoidal(length, dim, dtype=dtype))
    assert text.startswith("pe: matches if the layout is interleaved (the spec says halves); residual ")


@pytest.mark.parametrize(("dim", "base"), [(64, 1e4), (128, 5e5), (96, 1e6)])
def test_interleaved_read_as_halves_and_back(diagnosed: Diagnosed, dim: int, base: float) -> None:
    cos, sin = waves(200, inverse(dim, base))
    cut = [interleaved(table)[:, : dim // 2] for table in (cos, sin)]
    assert "an interleaved table was read as halves" in diagnosed(Rope(200, dim, base=base), cos=cut[0], sin=cut[1])
    cut = [halves(table)[:, ::2] for table in (cos, sin)]
    assert "a table of halves was read as interleaved" in diagnosed(Rope(200, dim, base=base), cos=cut[0], sin=cut[1])


@pytest.mark.parametrize(
    ("dim", "layout", "base"), [(64, "compact", 1e4), (128, "halves", 5e5), (32, "interleaved", 1e6)]
)
def test_sin_and_cos_swapped(diagnosed: Diagnosed, dim: int, layout: str, base: float) -> None:
    cos, sin = waves(256, inverse(dim, base))
    wide = {"compact": lambda x: x, "halves": halves, "interleaved": interleaved}[layout]
    scheme = Rope(256, dim, base=base, layout=layout)
    text = diagnosed(scheme, cos=wide(sin), sin=wide(cos))
    assert text.startswith("cos, sin: match if sin and cos are swapped; residual ")
    text = diagnosed(scheme, cos_sin=np.stack([wide(sin), wide(cos)]))
    assert text.startswith("cos_sin: matches if sin and cos are swapped; residual ")


@pytest.mark.parametrize(("dim", "style"), [(64, "paper"), (256, "roformer"), (320, "stable-diffusion")])
def test_sinusoidal_swapped(diagnosed: Diagnosed, dim: int, style: str) -> None:
    scheme = Sinusoidal(128, dim, style=style)
    wrong = sinusoidal(128, dim, layout=scheme.layout, cos_first=not scheme.cos_first)
    assert diagnosed(scheme, pe=wrong).startswith("pe: matches if sin and cos are swapped; residual ")


@pytest.mark.parametrize(("dim", "share", "base"), [(128, 0.25, 1e4), (64, 0.5, 1e6), (256, 0.25, 5e5)])
def test_exponent_over_head_dim(diagnosed: Diagnosed, dim: int, share: float, base: float) -> None:
    turning = int(dim * share)
    wrong = rope(*waves(500, inverse(dim, base, turning // 2)))
    said = f"the exponent is over the head dim, {dim}, instead of the {turning} channels that turn"
    assert said in diagnosed(Rope(500, dim, base=base, partial_rotary_factor=share), **wrong)
    said = f"the exponent is over {dim} instead of {turning}"  # the head dim is not known
    assert said in diagnosed(Rope(500, turning, base=base), **wrong)


@pytest.mark.parametrize(("dim", "style", "length"), [(512, "paper", 64), (64, "roformer", 300), (384, "dit", 1500)])
def test_exponent_one_less_than_half(diagnosed: Diagnosed, dim: int, style: str, length: int) -> None:
    scheme = Sinusoidal(length, dim, style=style)
    wrong = sinusoidal(length, dim, shift=1, layout=scheme.layout, cos_first=scheme.cos_first)
    assert diagnosed(scheme, pe=wrong).startswith("pe: matches if the exponent divides by D/2 − 1 instead of D/2;")


@pytest.mark.parametrize(("dim", "style", "length"), [(512, "whisper", 64), (64, "ddpm", 300), (384, "mlx", 1500)])
def test_exponent_not_one_less_than_half(diagnosed: Diagnosed, dim: int, style: str, length: int) -> None:
    scheme = Sinusoidal(length, dim, style=style)
    wrong = sinusoidal(length, dim, layout="halves", height=scheme.amplitude)
    assert diagnosed(scheme, pe=wrong).startswith("pe: matches if the exponent divides by D/2 instead of D/2 − 1;")


@pytest.mark.parametrize("by", [-1, 1, 2])
@pytest.mark.parametrize(
    ("dim", "base", "first", "dtype"), [(64, 1e4, 0, "float32"), (128, 5e5, 7, "bfloat16"), (32, 1e6, 100, "float16")]
)
def test_positions_off_by_one(diagnosed: Diagnosed, by: int, dim: int, base: float, first: int, dtype: str) -> None:
    wrong = rope(*waves(300, inverse(dim, base), first + by, dtype=dtype))
    text = diagnosed(Rope(300, dim, base=base, offset=first, dtype=dtype), **wrong)
    if first + by >= 0:
        assert text.startswith(f"cos, sin: match if positions start at {first + by} (the spec says {first}); residual")
    else:  # cosines are the same on both sides of zero
        assert f"positions start at {first + by} (the spec says {first})" in text


@pytest.mark.parametrize(("padding", "dim"), [(1, 64), (0, 512), (3, 32)])
def test_positions_off_by_padding(diagnosed: Diagnosed, padding: int, dim: int) -> None:
    scheme = Sinusoidal(100, dim, style="fairseq", padding_idx=padding)
    wrong = sinusoidal(100, dim, shift=1, layout="halves", first=padding + 1)
    text = diagnosed(scheme, pe=wrong)
    assert f"positions start at {padding + 1}, padding_idx + 1 later than the spec says (0)" in text
    assert residual(text) < 1e-7


@pytest.mark.parametrize(("padding", "dim"), [(1, 64), (0, 512), (3, 32)])
def test_rows_of_padding(diagnosed: Diagnosed, padding: int, dim: int) -> None:
    scheme = Sinusoidal(100, dim, style="fairseq", padding_idx=padding)
    whole = sinusoidal(100, dim, shift=1, layout="halves")
    assert diagnosed(scheme, pe=whole).startswith("pe: matches if the row of padding_idx is not zeros;")
    whole[padding] = 0
    assert diagnosed(Sinusoidal(100, dim, style="whisper"), pe=whole).startswith(
        f"pe: matches if row {padding} is zeros;"
    )


def test_rows_of_zeros_between_others(diagnosed: Diagnosed) -> None:
    pe = sinusoidal(300, 64)
    pe[::2] = 0
    assert diagnosed(Sinusoidal(300, 64), pe=pe).startswith("pe: matches if rows 0, 2 … are zeros; residual ")
    pe = sinusoidal(300, 64)
    pe[200:] = 0
    assert diagnosed(Sinusoidal(300, 64), pe=pe).startswith("pe: matches if rows 200 … 299 are zeros; residual ")


@pytest.mark.parametrize(
    ("base", "dim", "dtype"), [(5e5, 128, "float32"), (1e6, 64, "bfloat16"), (150000.0, 80, "float16")]
)
def test_theta_left_at_10000(diagnosed: Diagnosed, base: float, dim: int, dtype: str) -> None:
    wrong = rope(*waves(400, inverse(dim, 1e4), dtype=dtype))
    text = diagnosed(Rope(400, dim, base=base, dtype=dtype), **wrong)
    assert text.startswith(f"cos, sin: match if theta is 10000 (the spec says {base:.0f}); residual ")
    text = diagnosed(Rope(400, dim, base=base, dtype=dtype), inv_freq=inverse(dim, 1e4).astype(np.float32))
    assert f"inv_freq: matches if theta is 10000 (the spec says {base:.0f})" in text


@pytest.mark.parametrize(
    ("base", "dim", "dtype"), [(5e5, 128, "float32"), (12345.0, 64, "float32"), (1e6, 128, "bfloat16")]
)
def test_any_other_theta(diagnosed: Diagnosed, base: float, dim: int, dtype: str) -> None:
    wrong = rope(*waves(4096, inverse(dim, base), dtype=dtype))
    text = diagnosed(Rope(4096, dim, dtype=dtype), **wrong)
    about = "about " if base == 12345 else ""
    assert text.startswith(f"cos, sin: match if theta is {about}{base:.0f} (the spec says 10000); residual ")


SCALED = [
    ({"scaling": "linear", "factor": 4.0}, 64, 1e4, lambda inv: inv / 4, 1.0),
    ({"scaling": "ntk", "factor": 8.0}, 128, 1e4, lambda inv: ntk(128, 1e4, 8), 1.0),
    ({**YARN, "factor": 32.0}, 64, 150000.0, lambda inv: yarn(inv, 64, 150000.0, 32, 4096), yarn_factor(32)),
    ({**LLAMA3, "factor": 8.0}, 128, 5e5, lambda inv: llama3(inv, 8, 8192, 1, 4), 1.0),
]


@pytest.mark.parametrize(("scaling", "dim", "base", "scale", "height"), SCALED, ids=lambda each: str(each)[:24])
def test_scaling_ignored(diagnosed: Diagnosed, scaling: Any, dim: int, base: float, scale: Any, height: float) -> None:
    wrong = rope(*waves(6000, inverse(dim, base)))
    text = diagnosed(Rope(6000, dim, base=base, **scaling), **wrong, inv_freq=inverse(dim, base))
    assert text.startswith(f"cos, sin, inv_freq: match if the {scaling['scaling']} scaling is ignored; residual ")


@pytest.mark.parametrize(("scaling", "dim", "base", "scale", "height"), SCALED, ids=lambda each: str(each)[:24])
def test_scaling_twice(diagnosed: Diagnosed, scaling: Any, dim: int, base: float, scale: Any, height: float) -> None:
    inv = inverse(dim, base)
    wrong = rope(*waves(6000, scale(inv) ** 2 / inv, height=height))
    text = diagnosed(Rope(6000, dim, base=base, **scaling), **wrong)
    assert f"the {scaling['scaling']} scaling is applied twice" in text
    assert residual(text) < 1e-7


@pytest.mark.parametrize(("factor", "dim", "base"), [(32.0, 64, 150000.0), (4.0, 128, 1e4), (40.0, 64, 1e6)])
def test_attention_factor(diagnosed: Diagnosed, factor: float, dim: int, base: float) -> None:
    inv, height = yarn(inverse(dim, base), dim, base, factor, 4096), yarn_factor(factor)
    scheme = Rope(500, dim, base=base, factor=factor, **YARN)  # type: ignore[arg-type]
    text = diagnosed(scheme, **rope(*waves(500, inv)))
    assert text.startswith(f"cos, sin: match if the YaRN attention factor, {height:.5g}, is dropped; residual ")
    text = diagnosed(scheme, **rope(*waves(500, inv, height=height**2)))
    said = f"cos, sin: match if it is scaled by {height:.5g} = the YaRN attention factor, applied twice; residual "
    assert text.startswith(said)


def longrope(length: int, original: int, dim: int = 16, **more: Any) -> Rope:
    short, long = (1.0,) * (dim // 2), tuple(1.0 + 3 * k for k in range(dim // 2))
    return Rope(
        length, dim, scaling="longrope", original_max_position_embeddings=original, factor=8.0,
        short_factor=short, long_factor=long, **more,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("length", "original", "place"), [(512, 1024, "below"), (1024, 1024, "at exactly"), (100, 4096, "below")]
)
def test_long_factors_where_short_ones_belong(diagnosed: Diagnosed, length: int, original: int, place: str) -> None:
    inv = inverse(16, 1e4) / np.array([1.0 + 3 * k for k in range(8)])
    wrong = waves(length, inv, height=longrope_factor(8, original))
    text = diagnosed(longrope(length, original), **rope(*wrong))
    said = f"the long factors are used at length {length}, {place} the original {original}"
    assert text.startswith(f"cos, sin: match if {said}; residual ")


def test_short_factors_where_long_ones_belong(diagnosed: Diagnosed) -> None:
    wrong = waves(2000, inverse(16, 1e4), height=longrope_factor(8, 1024))
    said = "the short factors are used at length 2000, above the original 1024"
    assert said in diagnosed(longrope(2000, 1024), **rope(*wrong))


@pytest.mark.parametrize(
    ("factor", "dim", "base", "original"), [(32.0, 64, 150000.0, 4096), (10.0, 128, 1e4, 2048), (16.0, 96, 5e5, 8192)]
)
def test_truncate_ignored(diagnosed: Diagnosed, factor: float, dim: int, base: float, original: int) -> None:
    shared: Any = {"base": base, "scaling": "yarn", "factor": factor, "original_max_position_embeddings": original}
    inv = yarn(inverse(dim, base), dim, base, factor, original)
    wrong = rope(*waves(3000, inv, height=yarn_factor(factor)))
    text = diagnosed(Rope(3000, dim, truncate=False, **shared), **wrong)
    assert text.startswith("cos, sin: match if truncate=false is ignored; residual ")
    inv = yarn(inverse(dim, base), dim, base, factor, original, truncate=False)
    wrong = rope(*waves(3000, inv, height=yarn_factor(factor)))
    text = diagnosed(Rope(3000, dim, **shared), **wrong)
    assert text.startswith("cos, sin: match if truncate is false (the spec says true); residual ")


@pytest.mark.parametrize("inputs", [False, True])
@pytest.mark.parametrize(("dim", "base", "dtype"), [(128, 1e4, "float32"), (64, 5e5, "bfloat16"), (96, 1e6, "float16")])
def test_bfloat16_phases(diagnosed: Diagnosed, inputs: bool, dim: int, base: float, dtype: str) -> None:
    positions, inv = np.arange(1000.0), inverse(dim, base)
    if inputs:
        positions, inv = through(positions, "bfloat16"), through(inv, "bfloat16")
    angles = through(np.outer(positions, inv), "bfloat16")
    scheme = Rope(1000, dim, base=base, dtype=dtype)
    text = diagnosed(scheme, cos=narrowed(np.cos(angles), dtype), sin=narrowed(np.sin(angles), dtype))
    assert text.startswith("cos, sin: match if the phases are computed in bfloat16; residual ")


@pytest.mark.parametrize(("dim", "base", "length"), [(128, 1e4, 1000), (64, 5e5, 600), (96, 1e6, 4096)])
def test_bfloat16_inputs(diagnosed: Diagnosed, dim: int, base: float, length: int) -> None:
    inv = inverse(dim, base)
    rounded = through(inv, "bfloat16")
    text = diagnosed(Rope(length, dim, base=base), **rope(*waves(length, rounded)), inv_freq=rounded)
    assert text.startswith("cos, sin, inv_freq: match if inv_freq is rounded to bfloat16; residual ")
    angles = np.outer(through(np.arange(float(length)), "bfloat16"), inv)
    wrong = rope(np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32))
    text = diagnosed(Rope(length, dim, base=base), **wrong)
    assert text.startswith("cos, sin: match if positions are rounded to bfloat16 (they collide from 257 on); residual ")


@pytest.mark.parametrize(("dim", "base", "length"), [(128, 1e4, 1000), (64, 5e5, 600), (96, 1e6, 40)])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_table_cast(diagnosed: Diagnosed, dim: int, base: float, length: int, dtype: str) -> None:
    cos, sin = waves(length, inverse(dim, base), dtype=dtype)
    said = f"cos, sin: match if the table was cast to {dtype}; residual "
    scheme = Rope(length, dim, base=base)
    assert diagnosed(scheme, cos=cos, sin=sin).startswith(said)
    assert diagnosed(scheme, cos=cos.astype(np.float32), sin=sin.astype(np.float32)).startswith(said)


@pytest.mark.parametrize(("dim", "base"), [(128, 1e4), (64, 5e5), (96, 1e6)])
def test_float32_phases(diagnosed: Diagnosed, dim: int, base: float) -> None:
    text = diagnosed(Rope(4096, dim, base=base), **rope(*float32_waves(4096, dim, base)))
    assert "the phases are computed in float32, as Hugging Face does" in text
    assert "--recipe float32" in text
    assert 1e-6 < residual(text) < 1e-3


@pytest.mark.parametrize(("dim", "base"), [(128, 1e4), (64, 5e5), (96, 1e6)])
def test_recurrence(diagnosed: Diagnosed, dim: int, base: float) -> None:
    ratio, angles = np.float32(base ** (-2 / dim)), [np.arange(4096, dtype=np.float32)]
    while len(angles) < dim // 2:
        angles.append(angles[-1] * ratio)
    phases = np.stack(angles, axis=1)
    assert "--recipe float32-recurrence" in diagnosed(
        Rope(4096, dim, base=base), cos=np.cos(phases), sin=np.sin(phases)
    )


@pytest.mark.parametrize(
    "inv", [np.zeros(32), np.full(32, 3e-41), np.linspace(5, -3, 32), np.full(32, np.nan), np.ones(32)]
)
@pytest.mark.parametrize("base", [1e4, 5e5, 1e6])
def test_inv_freq_never_initialised(diagnosed: Diagnosed, inv: Any, base: float) -> None:
    text = diagnosed(Rope(300, 64, base=base), inv_freq=inv.astype(np.float32))
    assert text.startswith("inv_freq: was never initialised")


@pytest.mark.parametrize(("dim", "base"), [(64, 1e4), (128, 5e5), (32, 1e6)])
def test_tables_of_an_inv_freq_never_initialised(diagnosed: Diagnosed, dim: int, base: float) -> None:
    for noise in (np.zeros(dim // 2), np.full(dim // 2, 3e-41)):
        text = diagnosed(Rope(300, dim, base=base), **rope(*waves(300, noise)))
        assert "cos: is 1 everywhere: inv_freq is zero, as if it was never initialised" in text
        text = diagnosed(Rope(300, dim, base=base), cos_sin=np.stack(waves(300, noise)))
        assert text == "cos_sin: nothing turns: inv_freq is zero, as if it was never initialised"
    garbage = np.random.default_rng(dim).normal(size=dim // 2)
    text = diagnosed(Rope(300, dim, base=base), cos=waves(300, garbage)[0])
    assert text.startswith("cos: as if inv_freq was never initialised")


@pytest.mark.parametrize(
    ("dim", "layout", "length"), [(64, "compact", 300), (128, "halves", 128), (32, "interleaved", 4096)]
)
def test_transposed(diagnosed: Diagnosed, dim: int, layout: str, length: int) -> None:
    wide = {"compact": lambda x: x, "halves": halves, "interleaved": interleaved}[layout]
    cos, sin = (wide(table).T for table in waves(length, inverse(dim, 1e4)))
    text = diagnosed(Rope(length, dim, layout=layout), cos=cos, sin=sin)
    assert text.startswith("cos, sin: match if the table is transposed; residual ")
    text = diagnosed(Sinusoidal(length, dim), pe=sinusoidal(length, dim).T)
    assert text.startswith("pe: matches if the table is transposed; residual ")


@pytest.mark.parametrize(
    ("dim", "layout", "base"), [(64, "halves", 1e4), (128, "interleaved", 5e5), (32, "halves", 1e6)]
)
def test_doubled_otherwise(diagnosed: Diagnosed, dim: int, layout: str, base: float) -> None:
    other, double = ("interleaved", interleaved) if layout == "halves" else ("halves", halves)
    wrong = {name: double(table) for name, table in rope(*waves(300, inverse(dim, base))).items()}
    text = diagnosed(Rope(300, dim, base=base, layout=layout), **wrong)
    assert text.startswith(f"cos, sin: match if the layout is {other} (the spec says {layout}); residual ")


@pytest.mark.parametrize(("dim", "scale"), [(256, 1000.0), (64, 1000.0), (32, 30.0)])
def test_scale_of_positions(diagnosed: Diagnosed, dim: int, scale: float) -> None:
    scheme = Sinusoidal(100, dim, style="flux", scale=scale)
    text = diagnosed(scheme, pe=sinusoidal(100, dim, layout="halves", cos_first=True))
    assert text.startswith(f"pe: matches if positions are not scaled by {scale:g}; residual ")


@pytest.mark.parametrize("shape", [(1, 1, 300, 64), (300, 1, 64), (1, 300, 64)])
def test_axes_of_length_one_do_not_matter(diagnosed: Diagnosed, shape: tuple[int, ...]) -> None:
    cos, sin = (halves(table).reshape(shape) for table in waves(300, inverse(64, 1e4)))
    text = diagnosed(Rope(300, 64, base=5e5, layout="halves"), cos=cos, sin=sin)
    assert text.startswith("cos, sin: match if theta is 10000 (the spec says 500000); residual ")


def test_both_functions_in_one_tensor(diagnosed: Diagnosed) -> None:
    cos, sin = waves(300, inverse(64, 1e4))
    text = diagnosed(Rope(300, 64, layout="halves"), cos=np.concatenate([cos, sin], axis=1))
    assert "the table holds both cos and sin, one half each" in text
    text = diagnosed(Rope(300, 64), cos_sin=(cos + 1j * sin).astype(np.complex64))
    assert "the layout is complex (the spec says stacked)" in text


def test_another_number_of_rows_is_no_mistake_of_its_own(diagnosed: Diagnosed) -> None:
    wrong = rope(*waves(200, inverse(64, 1e4)))
    text = diagnosed(Rope(300, 64, base=5e5), **wrong)
    said = "theta is 10000 (the spec says 500000) and seq_len is 200 (the spec says 300)"
    assert text.startswith(f"cos, sin: match if {said}; residual ")


def test_the_whole_head_turns(diagnosed: Diagnosed) -> None:
    wrong = rope(*waves(200, inverse(128, 1e4)))
    text = diagnosed(Rope(200, 128, partial_rotary_factor=0.25), **wrong)
    assert "dim is 128 (the spec says 32)" in text or "the head dim, 128" in text


def test_turning_the_other_way(diagnosed: Diagnosed) -> None:
    cos, sin = waves(200, inverse(64, 1e4))
    text = diagnosed(Rope(200, 64), cos=cos, sin=-sin)
    assert text.startswith("sin: matches if sin is negated (it turns the other way); residual ")


@pytest.mark.parametrize(
    "scaling",
    [
        {
            "scaling": "yarn",
            "factor": 2.0,
            "original_max_position_embeddings": 4,
            "beta_fast": 1e308,
            "beta_slow": 5e-324,
        },
        {"scaling": "yarn", "factor": 1e308, "original_max_position_embeddings": 4},
        {"scaling": "linear", "factor": 1e308},
    ],
)
def test_scalings_without_measure_are_no_reason_to_fail(diagnosed: Diagnosed, scaling: dict[str, Any]) -> None:
    text = diagnosed(Rope(200, 64, **scaling), **rope(*waves(200, inverse(64, 1e4))))
    assert "scaling" in text


def test_frequencies_that_vanish_explain_nothing() -> None:
    """With the exponent of another dim, those of a large base are smaller than any float."""
    scaling = {"factor": 8.0, "original_max_position_embeddings": 8192, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    scheme = Rope(16, 128, 1e30, scaling="llama3", **scaling)  # type: ignore[arg-type]
    found = explain(scheme, {"inv_freq": table_of("inv_freq", inverse(8, 1e4))}, EXACT)
    assert not [sentence for sentence in found if "inf" in sentence.removeprefix("inv_freq")]


def test_attention_factors_that_are_given_or_cancelled(diagnosed: Diagnosed) -> None:
    inv = yarn(inverse(64, 1e4), 64, 1e4, 40, 4096)
    wrong = rope(*waves(500, inv, height=yarn_factor(40)))
    scheme = Rope(500, 64, factor=40.0, mscale=1.0, mscale_all_dim=1.0, **YARN)  # type: ignore[arg-type]
    text = diagnosed(scheme, **wrong)
    assert text.startswith("cos, sin: match if the attention factor is 1.3689, as if mscale were not given; residual ")
    scheme = Rope(500, 64, factor=40.0, attention_factor=1.25, **YARN)  # type: ignore[arg-type]
    text = diagnosed(scheme, **wrong)
    assert "the attention factor is 1.3689, as if attention_factor were not given" in text
    wrong = rope(*waves(500, inverse(16, 1e4)))
    text = diagnosed(longrope(500, 1024), **wrong)
    assert f"the longrope attention factor, {longrope_factor(8, 1024):.5g}, is dropped" in text


@pytest.mark.parametrize("first", [2**20, 2**31, 2**38])
def test_far_positions(diagnosed: Diagnosed, first: int) -> None:
    right = Rope(100, 64, base=5e5, offset=first, dtype="float32").tables()
    text = diagnosed(Rope(100, 64, base=5e5, offset=first + 1), cos=right["cos"], sin=right["sin"])
    assert text.startswith(f"cos, sin: match if positions start at {first} (the spec says {first + 1}); residual ")
    text = diagnosed(Rope(100, 64, base=1e6, offset=first), cos=right["sin"], sin=right["cos"])
    assert "sin and cos are swapped" in text


def test_only_a_few_rows_are_read() -> None:
    cos = waves(100, inverse(64, 1e4))[0]
    seen: list[int] = []

    def fill(start: int, out: Any) -> None:
        seen.extend(range(start, start + len(out)))
        out[...] = np.cos(np.outer(np.arange(start, start + len(out)), inverse(64, 1e4)))

    table = Table("cos", "float32", (1 << 30, cos.shape[1]), fill)
    (text,) = explain(Rope(1 << 30, 64, base=5e5), {"cos": table}, EXACT)
    assert text.startswith("cos: matches if theta is 10000 (the spec says 500000)")
    assert len(set(seen)) < 200


def test_tables_that_come_in_order() -> None:
    last = -1

    def fill(start: int, out: Any) -> None:
        nonlocal last
        assert start > last or start == 0
        last = start
        out[...] = np.cos(np.outer(np.arange(start, start + len(out)), inverse(64, 1e4)))

    table = Table("cos", "float32", (1 << 20, 32), fill, in_order=True)
    (text,) = explain(Rope(1 << 20, 64, base=5e5), {"cos": table}, EXACT)
    assert text.startswith("cos: matches if theta is 10000 (the spec says 500000)")


def test_frequencies_of_another_dim_have_no_base_of_their_own(diagnosed: Diagnosed) -> None:
    """Eight frequencies of base 10000 are not 64 of base 1e32."""
    text = diagnosed(Rope(64, 128, 5e5), inv_freq=inverse(16, 1e4))
    assert "1e+32" not in text
    assert diagnosed(Rope(64, 2), inv_freq=np.array([0.25])) != ""


@pytest.mark.parametrize("truncate", [True, False])
def test_the_betas_of_yarn_are_exchanged(diagnosed: Diagnosed, truncate: bool) -> None:
    scheme = Rope(600, 64, base=1e4, factor=8.0, truncate=truncate, **YARN)
    inv = inverse(64, 1e4)
    low, high = (64 * np.log(4096 / (2 * np.pi * beta)) / (2 * np.log(1e4)) for beta in (1.0, 32.0))
    if truncate:
        low, high = np.floor(low), np.ceil(high)
    ramp = np.clip((np.arange(32) - low) / (high - low), 0, 1)
    wrong = inv / 8 * ramp + inv * (1 - ramp)
    assert wrong[0] == inv[0] / 8
    text = diagnosed(scheme, **rope(*waves(600, wrong, height=yarn_factor(8.0))))
    assert text.startswith("cos, sin: match if beta_fast and beta_slow are exchanged; residual ")


@pytest.mark.parametrize("limit", [1.0, 4.0])
def test_the_factors_of_llama3_are_exchanged(diagnosed: Diagnosed, limit: float) -> None:
    """Hugging Face scales what is longer than original / low, Meta keeps what is shorter than original / high."""
    inv = inverse(128, 5e5)
    wrong = np.where(2 * np.pi / inv > 8192 / limit, inv / 8, inv)
    text = diagnosed(Rope(2000, 128, base=5e5, factor=8.0, **LLAMA3), **rope(*waves(2000, wrong)))
    assert text.startswith("cos, sin: match if low_freq_factor and high_freq_factor are exchanged; residual ")


def test_frequencies_in_reverse_and_angles_in_degrees(diagnosed: Diagnosed) -> None:
    inv, scheme = inverse(64, 1e4), Rope(300, 64)
    text = diagnosed(scheme, **rope(*waves(300, inv[::-1])))
    assert text.startswith("cos, sin: match if the frequencies are in reverse order, the slowest first; residual ")
    text = diagnosed(scheme, **rope(*waves(300, inv * 180 / np.pi)))
    assert text.startswith("cos, sin: match if angles are in degrees, where sine and cosine take radians; residual ")
    text = diagnosed(scheme, **rope(*waves(300, inv * 2 * np.pi)))
    assert text.startswith("cos, sin: match if angles are multiplied by 2π, as if frequencies were turns")


def test_the_factor_of_the_softmax_in_the_table(diagnosed: Diagnosed) -> None:
    """DeepSeek-V3 multiplies the softmax scale by g², and cosines by nothing."""
    given = {**YARN, "factor": 40.0, "mscale": 1.0, "mscale_all_dim": 1.0}
    height = (0.1 * np.log(40) + 1) ** 2
    wrong = waves(300, yarn(inverse(64, 1e4), 64, 1e4, 40, 4096), height=height)
    text = diagnosed(Rope(300, 64, **given), **rope(*wrong))
    assert "it is scaled by 1.8739 = 1.3689², which belongs to the softmax scale" in text


@pytest.mark.parametrize("layout", ["compact", "halves"])
def test_written_column_by_column(diagnosed: Diagnosed, layout: str) -> None:
    """As an Eigen matrix is dumped that NumPy then reads."""
    cos, sin = (halves(each) if layout == "halves" else each for each in waves(300, inverse(64, 1e4)))
    wrong = {"cos": cos.ravel(order="F").reshape(cos.shape), "sin": sin.ravel(order="F").reshape(sin.shape)}
    text = diagnosed(Rope(300, 64, layout=layout), **wrong)
    assert text == "cos, sin: it was written column by column, and read row by row"
    pe = sinusoidal(300, 64)
    text = diagnosed(Sinusoidal(300, 64), pe=pe.ravel(order="F").reshape(pe.shape))
    assert text == "pe: it was written column by column, and read row by row"


@pytest.mark.parametrize("scaling", [{}, {**LLAMA3, "factor": 8.0}], ids=["none", "llama3"])
def test_the_exponent_is_a_quotient_of_whole_numbers(diagnosed: Diagnosed, scaling: Any) -> None:
    wrong = 1e4 ** -((2 * np.arange(32)) // 64).astype(float)
    text = diagnosed(Rope(300, 64, **scaling), **rope(*waves(300, wrong)))
    assert text.startswith(
        "cos, sin: match if the exponent is 0 for all, as where whole numbers are divided; residual "
    )


@pytest.mark.parametrize(
    ("positions", "words"),
    [
        (np.arange(300) % 128, "positions start again: row 128 is row 0, and so on"),
        (np.arange(300).astype(np.int8), "positions start again: row 256 is row 0, and so on"),
        (np.minimum(np.arange(300), 200), "positions stop at row 200: all from there on are the same"),
    ],
    ids=["reset", "int8", "clipped"],
)
def test_positions_that_do_not_go_on(diagnosed: Diagnosed, positions: Any, words: str) -> None:
    cos, sin = (each[np.abs(positions)] for each in waves(300, inverse(64, 1e4)))
    sin[positions < 0] *= -1
    text = diagnosed(Rope(300, 64), cos=cos, sin=sin)
    assert text == f"cos, sin: {words}"


def test_the_second_half_of_the_columns_was_not_written(diagnosed: Diagnosed) -> None:
    cos, sin = (np.concatenate([each, 0 * each], 1) for each in waves(300, inverse(64, 5e5)))
    text = diagnosed(Rope(300, 64, base=5e5, layout="halves"), cos=cos, sin=sin)
    assert text == "cos, sin: the last 32 of 64 columns are zero: nothing was written there"


def test_angles_in_the_place_of_waves(diagnosed: Diagnosed) -> None:
    angles = np.outer(np.arange(300), inverse(64, 1e4)).astype(np.float32)
    assert diagnosed(Rope(300, 64), sin=angles) == "sin: it holds the angles themselves; take their cosine and sine"


def test_llama3_blend_the_wrong_way_round(diagnosed: Diagnosed) -> None:
    inv = inverse(128, 5e5)
    turns = 8192 * inv / (2 * np.pi)
    smooth = (turns - 1) / 3
    wrong = np.where(turns > 4, inv, np.where(turns < 1, inv / 8, smooth * inv / 8 + (1 - smooth) * inv))
    text = diagnosed(Rope(2000, 128, base=5e5, factor=8.0, **LLAMA3), **rope(*waves(2000, wrong)))
    assert text.startswith("cos, sin: match if the blend between both limits is the wrong way round; residual ")


def test_llama3_scaling_of_what_it_has_made(diagnosed: Diagnosed) -> None:
    """The second time, wavelengths are those that the first one left."""
    twice = llama3(llama3(inverse(128, 5e5), 8, 8192, 1, 4), 8, 8192, 1, 4)
    text = diagnosed(Rope(2000, 128, base=5e5, factor=8.0, **LLAMA3), **rope(*waves(2000, twice)))
    assert text.startswith("cos, sin: match if the llama3 scaling is applied twice; residual ")


def test_exponent_over_one_less_without_the_scaling(diagnosed: Diagnosed) -> None:
    wrong = 5e5 ** (-np.arange(64) / 63)
    text = diagnosed(Rope(2000, 128, base=5e5, factor=8.0, **LLAMA3), **rope(*waves(2000, wrong)))
    assert "the exponent divides by d/2 − 1 instead of d/2" in text
    assert "the llama3 scaling is ignored" in text


def test_the_last_row_was_not_written(diagnosed: Diagnosed) -> None:
    cos, sin = waves(300, inverse(64, 1e4))
    cos[-1] = 0
    assert diagnosed(Rope(300, 64), cos=cos, sin=sin) == "cos: the last row is zero: nothing was written there"


def test_slow_waves_of_another_rule_are_no_garbage(diagnosed: Diagnosed) -> None:
    """Gemma 3's sliding layers with the base and the scaling of its full ones: most waves are too slow to measure."""
    wrong = rope(*waves(2000, inverse(256, 1e6) / 8))
    text = diagnosed(Rope(2000, 256), **wrong)
    assert "never initialised" not in text
    assert "--theta 1000000 --scaling linear --factor 8" in text


def test_the_doubled_table_of_half_the_dim(diagnosed: Diagnosed) -> None:
    cos, sin = waves(300, inverse(64, 1e4))
    text = diagnosed(Rope(300, 128), **rope(halves(cos), halves(sin)))
    assert "or is the doubled one of a dim of 64 (columns are there twice" in text


@pytest.mark.parametrize(("dim", "step", "words"), [(64, 2, "2k/D"), (64, 1, "k/D"), (10, 1, "k/D")])
@pytest.mark.parametrize("cos_first", [False, True])
def test_every_channel_with_its_own_frequency(
    diagnosed: Diagnosed, dim: int, step: int, words: str, cos_first: bool
) -> None:
    k = np.arange(dim)
    angles = np.outer(np.arange(200), 1e4 ** (-step * k / dim))
    table = np.where(k % 2 == int(cos_first), np.sin(angles), np.cos(angles)).astype(np.float32)
    text = diagnosed(Sinusoidal(200, dim, cos_first=cos_first), pe=table)
    assert text.startswith(f"pe: every channel k has a frequency of its own, base^(−{words});")


def test_rows_that_nobody_wrote(diagnosed: Diagnosed) -> None:
    cos, sin = waves(300, inverse(64, 1e4))
    cos[200:], sin[200:] = 0, 0
    words = "the last 100 of 300 rows are zero: nothing was written there"
    assert diagnosed(Rope(300, 64), cos=cos, sin=sin) == f"cos, sin: {words}"
