"""What is said of tables that no known mistake explains."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np

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
