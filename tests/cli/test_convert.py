"""`pecli convert` and `pecli resize` from the shell: what they write, say and refuse."""

from pathlib import Path

import numpy as np
import pytest

import pecli


@pytest.fixture(autouse=True)
def files(here: Path) -> None:
    np.save("pe.npy", np.random.default_rng(0).standard_normal((17, 8)).astype(np.float32))


def test_tables_survive_conversions_of_format_and_dtype(pecli_cli) -> None:
    assert pecli_cli("convert", "pe.npy", "-o", "pe.safetensors").code == 0
    assert pecli_cli("convert", "pe.safetensors", "--dtype", "float16", "-o", "half.npz").code == 0
    assert np.array_equal(np.load("half.npz")["array"], np.load("pe.npy").astype(np.float16))
    assert pecli_cli("convert", "pe.npy", "-o", "pe.csv").code == 0
    assert Path("pe.csv").read_text().startswith("array_0,array_1,")
    assert pecli_cli("convert", "pe.csv", "--dtype", "float32", "-o", "again.npy").code == 0
    assert Path("again.npy").read_bytes() == Path("pe.npy").read_bytes()


def test_resize_interpolates_a_grid_and_reports_norms(pecli_cli) -> None:
    done = pecli_cli(
        "resize", "pe.npy", "--grid", "4x4", "--to", "6x5", "--keep", "1", "-o", "out.npy"
    )
    assert done.code == 0
    assert "17 × 8 → 31 × 8" in done.out
    assert "norm of a row" in done.out
    assert np.load("out.npy").shape == (31, 8)
    told = pecli_cli("resize", "pe.npy", "--to", "34", "--json").json
    assert told["resized"] == [34, 8]
    assert told["output"] is None
    np.save("huge.npy", np.full((4, 4), 1e300))
    done = pecli_cli("resize", "huge.npy", "--to", "8", "--json")
    assert done.code == 0
    assert done.err == ""
    assert done.json["row_norms"]["before"] == {"mean": None, "std": None}


def test_a_conversion_that_changes_scores_is_not_written(pecli_cli, monkeypatch) -> None:
    monkeypatch.setattr("pecli.tensors.conversion.MAX_SCORE_CHANGE", 0.0)
    np.savez("qk.npz", q_proj=np.ones((16, 4)), k_proj=np.ones((16, 4)))
    words = (
        "convert",
        "qk.npz",
        "--from",
        "interleaved",
        "--to",
        "halves",
        "--heads",
        "2",
        "--check",
    )
    done = pecli_cli(*words, "-o", "out.npz")
    assert done.code == 1
    assert "are NOT the same, nothing was written" in done.out
    assert not Path("out.npz").exists()


@pytest.mark.parametrize("suffix", ["safetensors", "npz"])
def test_one_tensor_of_a_file_is_written_alone(pecli_cli, suffix: str) -> None:
    assert (
        pecli_cli("rope", "--seq-len", "9", "--dim", "8", "-q", "-o", "rope.safetensors").code == 0
    )
    done = pecli_cli("convert", "rope.safetensors:sin", "-o", f"sin.{suffix}")
    assert done.code == 0
    found = pecli.load(f"sin.{suffix}")
    assert list(found) == ["sin"]
    assert np.array_equal(found["sin"], pecli.Rope(9, 8).tables()["sin"])
    assert pecli_cli("verify", f"sin.{suffix}").code == 3  # the spec is that of the whole file
