"""What is said of tables that no known mistake explains."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import pecli
from pecli.engine.table import table_of
from pecli.files.save import save_tables


def test_another_table_is_named(tmp_path: Path) -> None:
    scaling = {"scaling": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4}
    scaled = pecli.Rope(2048, 128, 500000.0, original_max_position_embeddings=8192, **scaling)
    pecli.save(tmp_path / "scaled.safetensors", dict(list(scaled.tables().items())[:2]))
    (sentence,) = pecli.verify(tmp_path / "scaled.safetensors", pecli.Rope(2048, 128, 500000.0)).diagnosis
    assert sentence.startswith(
        "cos, sin: it is another table, which pecli rope --seq-len 2048 --dim 128 --theta 500000 "
    )
    assert "--scaling llama3 --factor 8 --original-len 8192 " in sentence


LLAMA = {"scaling": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}


def _waves(length: int, frequencies: np.ndarray) -> dict[str, np.ndarray]:
    angles = np.outer(np.arange(length), frequencies)
    return {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}


def _llama3(plain: np.ndarray, factor: float, original: int) -> np.ndarray:
    """As Meta writes it, with low and high factors of 1 and 4."""
    smooth = np.clip((original * plain / (2 * np.pi) - 1) / 3, 0, 1)
    return (1 - smooth) * plain / factor + smooth * plain


@pytest.mark.parametrize(
    ("factor", "original", "words"),
    [
        (32, 8192, "factor is 32 (the spec says 8)"),
        (8, 131072, "original_max_position_embeddings is 131072 (the spec says 8192)"),
    ],
)
def test_a_parameter_that_differs_is_named(factor: int, original: int, words: str) -> None:
    spec = pecli.Rope(2048, 128, 500000.0, original_max_position_embeddings=8192, **LLAMA)
    found = _waves(2048, _llama3(500000.0 ** (-np.arange(64) / 64), factor, original))
    (sentence,) = pecli.verify(found, spec).diagnosis
    assert sentence.startswith(f"cos, sin: match if {words}; residual ")


def test_of_equal_settings_the_nearest_to_the_spec_is_named() -> None:
    """A low factor of 2 is also half the length with a high factor of 2."""
    spec = pecli.Rope(2048, 128, 500000.0, original_max_position_embeddings=8192, **LLAMA)
    plain = 500000.0 ** (-np.arange(64) / 64)
    keep = np.clip((8192 * plain / (2 * np.pi) - 2) / 2, 0, 1)
    (sentence,) = pecli.verify(_waves(2048, plain * (keep + (1 - keep) / 8)), spec).diagnosis
    assert sentence.startswith("cos, sin: match if low_freq_factor is 2 (the spec says 1); residual ")


YARN = {"scaling": "yarn", "original_max_position_embeddings": 4096}


def _yarn(factor: float, original: int) -> dict[str, np.ndarray]:
    """DeepSeek-V3's, by the paper's formulas."""
    low, high = (64 * np.log(original / (beta * 2 * np.pi)) / (2 * np.log(10000)) for beta in (32, 1))
    ramp = np.clip((np.arange(32) - np.floor(low)) / (np.ceil(high) - np.floor(low)), 0, 1)
    plain = 10000.0 ** (-np.arange(32) / 32)
    return _waves(2048, plain / factor * ramp + plain * (1 - ramp))


def test_the_extended_length_in_the_place_of_the_original() -> None:
    """Rounded limits leave the length open: 163,840 is what DeepSeek-V3 claims."""
    spec = pecli.Rope(2048, 64, factor=40.0, mscale=1.0, mscale_all_dim=1.0, **YARN)
    (sentence,) = pecli.verify(_yarn(40, 163840), spec).diagnosis
    words = "original_max_position_embeddings is 163840 (the spec says 4096)"
    assert sentence.startswith(f"cos, sin: match if {words}; residual ")


def test_what_follows_from_the_factor_is_no_second_cause() -> None:
    height = np.float64(0.1 * np.log(16) + 1)
    found = {name: (table * height).astype(np.float32) for name, table in _yarn(16, 4096).items()}
    (sentence,) = pecli.verify(found, pecli.Rope(2048, 64, factor=40.0, **YARN)).diagnosis
    assert sentence.startswith("cos, sin: match if factor is 16 (the spec says 40); residual ")


def test_the_hidden_size_in_the_exponent_is_named() -> None:
    spec = pecli.Rope(2048, 128, 500000.0, original_max_position_embeddings=8192, **LLAMA)
    (sentence,) = pecli.verify(_waves(2048, 500000.0 ** (-2 * np.arange(64) / 4096)), spec).diagnosis
    words = "the llama3 scaling is ignored and the exponent is over 4096 instead of 128"
    assert sentence.startswith(f"cos, sin: match if {words}; residual ")


def test_a_table_that_is_right_in_most_rows_is_not_another_one() -> None:
    found = _waves(2048, 10000.0 ** (-np.arange(64) / 64))
    found["cos"][100:164] = found["cos"][36:100]
    result = pecli.verify(found, pecli.Rope(2048, 128))
    assert not result.passed
    assert result.diagnosis == ()


def test_another_way_to_compute_is_not_another_table() -> None:
    """Only the product is of float32: neither exact, nor what the recipe does."""
    spec = pecli.Rope(2048, 128, 500000.0, original_max_position_embeddings=8192, **LLAMA, recipe="float32")
    frequencies = _llama3(500000.0 ** (-np.arange(64) / 64), 8, 8192).astype(np.float32)
    angles = np.arange(2048, dtype=np.float32)[:, None] * frequencies
    found = {
        "cos": np.cos(angles.astype(float)).astype(np.float32),
        "sin": np.sin(angles.astype(float)).astype(np.float32),
    }
    (sentence,) = pecli.verify(found, spec, pecli.Tolerance(max_ulp=2)).diagnosis
    assert "of the exact table, but not computed by the recipe float32; verify with --atol" in sentence


def test_frequencies_of_no_rule_are_not_spelled_out() -> None:
    frequencies = 10000.0 ** (-np.arange(32) / 32) / (1 + 3 * (np.arange(32) % 5 == 2))
    (sentence,) = pecli.verify(_waves(512, frequencies), pecli.Rope(512, 64)).diagnosis
    assert sentence.startswith("cos, sin: its frequencies follow no rule that is known")


def test_last_places_are_called_so(tmp_path: Path) -> None:
    """bfloat16 numbers of angles that were computed in float32 differ here and there, by one unit."""
    inverse = (1 / 10000.0 ** (np.arange(0, 64, 2, dtype=np.float32) / 64)).astype(np.float32)
    angles = np.arange(4096, dtype=np.float32)[:, None] * inverse
    arrays = {"cos": np.cos(angles).astype(ml_dtypes.bfloat16), "sin": np.sin(angles).astype(ml_dtypes.bfloat16)}
    pecli.save(tmp_path / "t.safetensors", arrays)
    result = pecli.verify(tmp_path / "t.safetensors", pecli.Rope(4096, 64, dtype="bfloat16"))
    assert not result.passed
    assert any("float32" in sentence and "--recipe float32" in sentence for sentence in result.diagnosis)


def test_noise_is_nothing(tmp_path: Path) -> None:
    np.save(tmp_path / "t.npy", np.random.default_rng(0).standard_normal((64, 32)).astype(np.float32))
    result = pecli.verify(tmp_path / "t.npy", pecli.Sinusoidal(64, 32))
    assert not result.passed
    assert result.diagnosis == ()


def test_the_same_table_is_not_another_one(tmp_path: Path) -> None:
    """Frequencies that are off in a last place, and tables with an axis too many."""
    rope = pecli.Rope(16, 8)
    off = rope.tables()["inv_freq"] * np.array([1, 1 + 8 * 2.0**-52, 1, 1])
    for changed in ({"inv_freq": off}, {name: table[None] for name, table in rope.tables().items()}):
        tables = [table_of(name, table) for name, table in {**rope.tables(), **changed}.items()]
        save_tables(str(tmp_path / "t.npz"), tables, rope.spec())
        result = pecli.verify(tmp_path / "t.npz")
        assert not result.passed
        assert not [sentence for sentence in result.diagnosis if "another table" in sentence]
