"""Tables as other projects compute them, in float32 and by their own formulas, are recognised with their parameters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from pecli.checks.identify import identify
from pecli.checks.identify.match import Match
from pecli.checks.identify.waves import recognise
from pecli.engine.numerics.rounding import widened
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.sinusoidal import Sinusoidal

F = np.float32


def found(dtype: str = "float32", **tensors: np.ndarray) -> list[Match]:
    wide = {name: np.asarray(a, np.complex128 if a.dtype.kind == "c" else np.float64) for name, a in tensors.items()}
    return recognise(wide, {name: "complex64" if a.dtype.kind == "c" else dtype for name, a in tensors.items()})


def parameters(match: Match, *names: str) -> dict[str, Any]:
    return {name: getattr(match.scheme, name) for name in names}


def inverse(dim: int, base: float) -> np.ndarray:
    """1.0 / (base ** (arange(0, dim, 2) / dim)), all in float32."""
    return (F(1) / F(base) ** (np.arange(0, dim, 2, dtype=F) / F(dim))).astype(F)


def angles(length: int, frequencies: np.ndarray, first: int = 0) -> np.ndarray:
    return np.outer(np.arange(first, first + length).astype(F), frequencies).astype(F)


def test_hugging_face_llama() -> None:
    half = angles(2048, inverse(128, 500000.0))
    both = np.concatenate([half, half], axis=-1)
    best = found(cos=np.cos(both)[None], sin=np.sin(both)[None])[0]
    assert isinstance(best.scheme, Rope)
    expected = {"seq_len": 2048, "dim": 128, "base": 500000.0, "layout": "halves", "scaling": "none", "offset": 0}
    assert parameters(best, *expected) == expected
    assert best.tensors == ("cos", "sin")


def test_hugging_face_llama3_scaling() -> None:
    plain = inverse(128, 500000.0)
    waves = 2 * math.pi / plain
    smooth = (8192 / waves - 1) / (4 - 1)
    blended = (1 - smooth) * plain / 8 + smooth * plain
    scaled = np.where(waves > 8192, plain / 8, np.where(waves < 8192 / 4, plain, blended)).astype(F)
    half = angles(1024, scaled)
    best = found(cos=np.cos(half), sin=np.sin(half))[0]
    expected = {"base": 500000.0, "scaling": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}
    assert parameters(best, *expected) == expected
    assert parameters(best, "low_freq_factor", "high_freq_factor") == {"low_freq_factor": 1, "high_freq_factor": 4}


def test_hugging_face_yarn_of_deepseek() -> None:
    """base 10000, d 64, factor 40, original length 4096: ramps from 10 to 23; cos and sin by 0.1·ln 40 + 1."""
    plain = inverse(64, 10000.0)

    def place(rotations: float) -> float:
        return 64 * math.log(4096 / (rotations * 2 * math.pi)) / (2 * math.log(10000.0))

    low, high = math.floor(place(32)), math.ceil(place(1))
    ramp = np.clip((np.arange(32, dtype=F) - low) / (high - low), 0, 1)
    half = angles(512, (plain / 40 * ramp + plain * (1 - ramp)).astype(F))
    factor = F(0.1 * math.log(40) + 1)
    best = found(cos=np.cos(half) * factor, sin=np.sin(half) * factor)[0]
    expected = {"base": 10000.0, "scaling": "yarn", "factor": 40.0, "attention_factor": None, "truncate": None}
    assert parameters(best, *expected) == expected
    assert getattr(best.scheme, "original_max_position_embeddings") == 4096  # noqa: B009 - a scheme of any kind


def test_vllm_cache_is_both_a_sinusoidal_and_a_rotary_table() -> None:
    half = angles(300, inverse(64, 10000.0))
    matches = found(cache=np.concatenate([np.cos(half), np.sin(half)], axis=-1))
    assert [match.scheme.name for match in matches] == ["sinusoidal", "rope"]
    assert parameters(matches[0], "layout", "cos_first", "base") == {
        "layout": "halves",
        "cos_first": True,
        "base": 10000.0,
    }
    assert parameters(matches[1], "dim", "base", "layout") == {"dim": 64, "base": 10000.0, "layout": "compact"}


def test_meta_complex_and_torchtune_pairs() -> None:
    half = angles(256, inverse(96, 10000.0))
    turns = (np.cos(half) + 1j * np.sin(half)).astype(np.complex64)
    one, other = found(freqs_cis=turns)[0], found(cache=np.stack([np.cos(half), np.sin(half)], axis=-1))[0]
    assert one.form == "complex numbers"
    assert "side by side" in other.form
    for match in (one, other):
        assert parameters(match, "seq_len", "dim", "base") == {"seq_len": 256, "dim": 96, "base": 10000.0}


def test_a_piece_out_of_the_middle_transposed_and_only_its_cosine() -> None:
    half = angles(200, inverse(128, 10000.0), first=1000)
    best = found(cos=np.cos(half).T.copy())[0]
    assert parameters(best, "seq_len", "dim", "base", "offset") == {
        "seq_len": 200,
        "dim": 128,
        "base": 10000.0,
        "offset": 1000,
    }
    assert "transposed" in best.form
    assert "cosine" in best.form


def tensor2tensor(length: int, dim: int) -> np.ndarray:
    """exp(−i · ln 10000 / (D/2 − 1)), sines before cosines, in float32."""
    step = F(math.log(10000) / (dim // 2 - 1))
    angle = np.outer(np.arange(length).astype(F), np.exp(-step * np.arange(dim // 2, dtype=F)))
    return np.concatenate([np.sin(angle), np.cos(angle)], axis=1).astype(F)


def test_whisper() -> None:
    best = found(weight=tensor2tensor(1500, 384))[0]
    expected = {"base": 10000.0, "freq_shift": 1.0, "layout": "halves", "cos_first": False, "padding_idx": None}
    assert parameters(best, *expected) == expected


def test_fairseq_with_its_row_of_zeros() -> None:
    table = tensor2tensor(514, 512)
    table[1] = 0
    best = found(weights=table)[0]
    expected = {"base": 10000.0, "freq_shift": 1.0, "layout": "halves", "padding_idx": 1, "offset": 0}
    assert parameters(best, *expected) == expected


def test_paper_with_an_odd_dim() -> None:
    angle = np.arange(200)[:, None] / 10000 ** (np.arange(0, 33, 2) / 33)
    table = np.empty((200, 33), F)
    table[:, 0::2], table[:, 1::2] = np.sin(angle), np.cos(angle)[:, :16]
    best = found(pe=table)[0]
    assert parameters(best, "dim", "base", "layout", "freq_shift") == {
        "dim": 33,
        "base": 10000.0,
        "layout": "interleaved",
        "freq_shift": 0.0,
    }


def test_ddpm_and_flux_timesteps() -> None:
    half = np.exp(-math.log(10000) * np.arange(128, dtype=F) / F(128)).astype(F)
    angle = np.outer((np.arange(1000, dtype=F) * F(1000)).astype(F), half).astype(F)
    flux = found(t=np.concatenate([np.cos(angle), np.sin(angle)], axis=1))[0]
    assert parameters(flux, "base", "scale", "cos_first", "freq_shift") == {
        "base": 10000.0,
        "scale": 1000.0,
        "cos_first": True,
        "freq_shift": 0.0,
    }
    ddpm = found(t=np.pad(tensor2tensor(1000, 128), ((0, 0), (0, 1))))[0]
    assert parameters(ddpm, "dim", "base", "freq_shift") == {"dim": 129, "base": 10000.0, "freq_shift": 1.0}


def test_mlx_amplitude() -> None:
    frequencies = np.exp(np.linspace(0, math.log(1e-4), 32)).astype(F)  # from 1 to 1e-4
    angle = angles(128, frequencies)
    table = np.concatenate([np.sin(angle), np.cos(angle)], axis=1) * F(math.sqrt(2 / 64))
    best = found(pe=table)[0]
    assert parameters(best, "base", "freq_shift") == {"base": 10000.0, "freq_shift": 1.0}
    assert best.scheme.amplitude == pytest.approx(math.sqrt(2 / 64), rel=1e-7)  # type: ignore[attr-defined]


def test_ggml_recurrence() -> None:
    """theta starts as the position and is multiplied by base^(−2/d) from pair to pair."""
    step = F(10000.0 ** (-2 / 64))
    theta, columns = np.arange(400).astype(F), []
    for _ in range(32):
        columns.append(theta)
        theta = (theta * step).astype(F)
    angle = np.stack(columns, axis=1)
    best = found(cos=np.cos(angle), sin=np.sin(angle))[0]
    assert parameters(best, "base", "dim") == {"base": 10000.0, "dim": 64}
    assert best.recipe == "float32-recurrence"


@pytest.mark.parametrize(("dtype", "base"), [("float32", 73829.1), ("float16", 20000.0), ("bfloat16", 150000.0)])
def test_small_tables_of_every_dtype(dtype: str, base: float) -> None:
    scheme = Sinusoidal(64, 16, base=base, offset=37, dtype=dtype)
    best = found(dtype, pe=widened(scheme.tables()["pe"]))[0]
    assert best.scheme == scheme
    assert best.max_abs_error == 0


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("recipe", ["float32", "bfloat16-inv-freq", "bfloat16-positions", "bfloat16-phases"])
def test_recipes(recipe: str, dtype: str) -> None:
    scheme = Rope(600, 64, base=500000.0, recipe=recipe, dtype=dtype)
    tables = scheme.tables()
    best = found(dtype, cos=widened(tables["cos"]), sin=widened(tables["sin"]))[0]
    assert best.scheme == scheme


def test_a_table_cast_to_bfloat16_in_a_float32_file() -> None:
    tables = Rope(128, 32, recipe="bfloat16-table").tables()
    assert found(cos=tables["cos"], sin=tables["sin"])[0].recipe == "bfloat16-table"


def test_far_positions() -> None:
    scheme = Rope(64, 32, base=10000.0, offset=123_456_789)
    tables = scheme.tables()
    assert found(cos=tables["cos"], sin=tables["sin"])[0].scheme == scheme


def test_longrope_is_made_again() -> None:
    rng = np.random.default_rng(3)
    divisors = np.sort(np.round(1 + 30 * rng.random(48) ** 2, 2))
    half = np.outer(np.arange(128), 1e6 ** (-np.arange(48) / 48) / divisors)
    table = {"cos": np.cos(half).astype(F), "sin": np.sin(half).astype(F)}
    best = found(**table)[0]
    again = best.scheme.tables()
    assert max(np.abs(again[name] - table[name]).max() for name in table) <= 2**-23
    assert parameters(best, "base", "long_factor") == {"base": 1e6, "long_factor": tuple(divisors.tolist())}


@pytest.mark.parametrize("shape", [(64, 64), (512, 128), (2, 128, 64), (256,)])
def test_noise_is_nothing(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    assert found(w=rng.standard_normal(shape).astype(F)) == []
    assert found(w=rng.uniform(-1, 1, shape).astype(F)) == []


def test_what_is_smooth_is_not_yet_a_wave() -> None:
    y, x = np.mgrid[0:128, 0:64] / 64
    assert found(image=np.exp(-((x - 0.4) ** 2) - (y - 0.9) ** 2).astype(F)) == []
    assert found(walk=np.cumsum(np.random.default_rng(1).standard_normal((256, 64)), axis=0).astype(F)) == []
    assert found(flat=np.ones((64, 32), F)) == []


def test_waves_of_no_scheme() -> None:
    """Unrelated phases: every column is a wave, and no position explains them."""
    rng = np.random.default_rng(5)
    phase = rng.uniform(0, 2 * np.pi, 32)
    angle = np.outer(np.arange(256), 10000 ** (-np.arange(32) / 32)) + phase
    assert found(cos=np.cos(angle).astype(F), sin=np.sin(angle).astype(F)) == []


def test_cos_and_sin_that_are_exchanged_are_said_to_be() -> None:
    tables = Rope(96, 32).tables()
    (right,) = identify({"cos": tables["cos"], "sin": tables["sin"]}).matches
    (wrong,) = identify({"cos": tables["sin"], "sin": tables["cos"]}).matches
    assert right.form == ""
    assert wrong.form == "exchanged: cos holds the sines"
