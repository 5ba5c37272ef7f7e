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


def test_numbers_are_cast_to_another_dtype_across_formats(run_pecli) -> None:
    """From .npy by .safetensors to .npz; the expected values are NumPy's cast to float16."""
    assert run_pecli("convert", "pe.npy", "-o", "pe.safetensors").exit_code == SUCCESS
    cast = run_pecli("convert", "pe.safetensors", "--dtype", "float16", "-o", "half.npz")

    assert cast.exit_code == SUCCESS
    assert np.array_equal(np.load("half.npz")["array"], np.load("pe.npy").astype(np.float16))


def test_float32_survives_csv_bit_by_bit(run_pecli) -> None:
    """CSV has the shortest decimals that read back as the same numbers. The random float32 of
    pe.npy are written to pe.csv, and read again.
    """
    written = run_pecli("convert", "pe.npy", "-o", "pe.csv")
    read_back = run_pecli("convert", "pe.csv", "--dtype", "float32", "-o", "again.npy")

    assert written.exit_code == SUCCESS
    assert read_back.exit_code == SUCCESS
    assert Path("pe.csv").read_text().startswith("array_0,array_1,")
    assert Path("again.npy").read_bytes() == Path("pe.npy").read_bytes()


def test_resize_interpolates_a_grid_and_keeps_rows_before_it(run_pecli) -> None:
    """pe.npy has 17 rows: 1 for a class token, and 4 x 4 patches, which become 6 x 5."""
    words = ("--grid", "4x4", "--to", "6x5", "--keep", "1")
    outcome = run_pecli("resize", "pe.npy", *words, "-o", "out.npy")

    assert outcome.exit_code == SUCCESS
    assert "17 × 8 → 31 × 8" in outcome.out
    assert "norm of a row" in outcome.out
    assert np.load("out.npy").shape == (1 + 6 * 5, 8)


def test_resize_without_a_file_reports_the_new_shape(run_pecli) -> None:
    """pe.npy has 8 columns; `pecli resize --to 34` without -o writes nothing."""
    answer = run_pecli("resize", "pe.npy", "--to", "34", "--json").json
    assert answer["resized"] == [34, 8]
    assert answer["output"] is None


def test_norms_of_rows_that_overflow_are_null_in_json(run_pecli) -> None:
    """The norm of a row of four times 1e300 is 2e300, but its square exceeds float64."""
    np.save("huge.npy", np.full((4, 4), 1e300))
    outcome = run_pecli("resize", "huge.npy", "--to", "8", "--json")

    assert outcome.exit_code == SUCCESS
    assert outcome.err == ""
    assert outcome.json["row_norms"]["before"] == {"mean": None, "std": None}


def test_a_conversion_of_layouts_that_changes_scores_is_not_written(run_pecli, monkeypatch) -> None:
    """--check compares the scores q·k before and after weights are permuted to another layout. With
    a limit of 0, rounding alone counts as a change.
    """
    monkeypatch.setattr("pecli.tensors.conversion.MAX_SCORE_CHANGE", 0.0)
    np.savez("qk.npz", q_proj=np.ones((16, 4)), k_proj=np.ones((16, 4)))
    words = "--from interleaved --to halves --heads 2 --check -o out.npz"
    outcome = run_pecli("convert", "qk.npz", *words.split())

    assert outcome.exit_code == CHECK_FAILED
    assert "are NOT the same, nothing was written" in outcome.out
    assert not Path("out.npz").exists()


@pytest.mark.parametrize("suffix", ["safetensors", "npz"])
def test_one_tensor_of_a_file_is_written_without_the_spec_of_the_file(
    run_pecli, suffix: str
) -> None:
    """The spec of rope.safetensors describes cos and inv_freq, too, so that the written file with
    only sin has none; `pecli verify` refuses a file without a spec.
    """
    pecli.save("rope.safetensors", pecli.Rope(9, 8))
    outcome = run_pecli("convert", "rope.safetensors:sin", "-o", f"sin.{suffix}")
    assert outcome.exit_code == SUCCESS

    tensors = pecli.load(f"sin.{suffix}")
    assert list(tensors) == ["sin"]
    assert np.array_equal(tensors["sin"], pecli.Rope(9, 8).tables()["sin"])
    assert run_pecli("verify", f"sin.{suffix}").exit_code == FILE_ERROR


@pytest.mark.parametrize(
    ("options", "count", "is_lost"),
    [
        ((), "3 tensors, ", False),
        (("--dtype", "float16"), "3 tensors (3 cast to float16), ", True),
    ],
    ids=["copied", "cast"],
)
def test_a_conversion_states_what_changed_and_that_the_spec_is_lost(
    run_pecli, options: tuple[object, ...], count: str, is_lost: bool
) -> None:
    """The spec of rope.safetensors describes float32 tables: it stays with a copy."""
    pecli.save("rope.safetensors", pecli.Rope(9, 8))
    outcome = run_pecli("convert", "rope.safetensors", *options, "-o", "new.safetensors")

    assert outcome.exit_code == SUCCESS
    assert outcome.out.startswith(f"new.safetensors: {count}")
    assert ("the spec of the file no longer holds" in outcome.out) == is_lost
