"""`pecli convert` and `pecli resize`: the files that they write, and when they write none.

Every test starts in a folder with pe.npy: 17 rows of 8 random float32. Expected arrays are NumPy's
casts of it, and tables of `pecli.Rope`; expected shapes follow from the command lines.
"""

from pathlib import Path

import numpy as np
import pytest

import pecli
from tests.exit_codes import CHECK_FAILED, FILE_ERROR, SUCCESS


@pytest.fixture(autouse=True)
def files(working_folder: Path) -> None:
    np.save("pe.npy", np.random.default_rng(0).standard_normal((17, 8)).astype(np.float32))


def test_tables_survive_conversions_of_format_and_dtype(run_pecli) -> None:
    """npy to safetensors to npz, and to CSV and back, must keep every bit that the dtype can hold."""
    assert run_pecli("convert", "pe.npy", "-o", "pe.safetensors").exit_code == SUCCESS
    assert (
        run_pecli("convert", "pe.safetensors", "--dtype", "float16", "-o", "half.npz").exit_code
        == SUCCESS
    )
    assert np.array_equal(np.load("half.npz")["array"], np.load("pe.npy").astype(np.float16))
    assert run_pecli("convert", "pe.npy", "-o", "pe.csv").exit_code == SUCCESS
    assert Path("pe.csv").read_text().startswith("array_0,array_1,")
    assert (
        run_pecli("convert", "pe.csv", "--dtype", "float32", "-o", "again.npy").exit_code == SUCCESS
    )
    assert Path("again.npy").read_bytes() == Path("pe.npy").read_bytes()


def test_resize_interpolates_a_grid_and_reports_norms(run_pecli) -> None:
    """One row is kept, and 4 x 4 become 6 x 5: 31 rows. Norms that overflow are null in JSON."""
    done = run_pecli(
        "resize", "pe.npy", "--grid", "4x4", "--to", "6x5", "--keep", "1", "-o", "out.npy"
    )
    assert done.exit_code == SUCCESS
    assert "17 × 8 → 31 × 8" in done.out
    assert "norm of a row" in done.out
    assert np.load("out.npy").shape == (31, 8)

    told = run_pecli("resize", "pe.npy", "--to", "34", "--json").json
    assert told["resized"] == [34, 8]
    assert told["output"] is None

    np.save("huge.npy", np.full((4, 4), 1e300))
    done = run_pecli("resize", "huge.npy", "--to", "8", "--json")
    assert done.exit_code == SUCCESS
    assert done.err == ""
    assert done.json["row_norms"]["before"] == {"mean": None, "std": None}


def test_a_conversion_that_changes_scores_is_not_written(run_pecli, monkeypatch) -> None:
    """With a limit of 0, rounding alone counts as a change of q·k."""
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
    done = run_pecli(*words, "-o", "out.npz")

    assert done.exit_code == CHECK_FAILED
    assert "are NOT the same, nothing was written" in done.out
    assert not Path("out.npz").exists()


@pytest.mark.parametrize("suffix", ["safetensors", "npz"])
def test_one_tensor_of_a_file_is_written_alone(run_pecli, suffix: str) -> None:
    assert (
        run_pecli("rope", "--seq-len", "9", "--dim", "8", "-q", "-o", "rope.safetensors").exit_code
        == SUCCESS
    )

    done = run_pecli("convert", "rope.safetensors:sin", "-o", f"sin.{suffix}")
    assert done.exit_code == SUCCESS

    found = pecli.load(f"sin.{suffix}")
    assert list(found) == ["sin"]
    assert np.array_equal(found["sin"], pecli.Rope(9, 8).tables()["sin"])
    assert (
        run_pecli("verify", f"sin.{suffix}").exit_code == FILE_ERROR
    )  # the spec is that of the whole file
