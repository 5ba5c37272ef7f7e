"""`pecli diff`: what it prints, draws and exits with."""

from __future__ import annotations

import numpy as np
import pytest

import pecli


@pytest.fixture
def files(tmp_path):
    sin, cos = np.sin(np.arange(80.0).reshape(20, 4)), np.cos(np.arange(80.0).reshape(20, 4))
    a, b = tmp_path / "a.npy", tmp_path / "b.npy"
    np.save(a, np.concatenate([sin, cos], axis=1))
    np.save(b, np.concatenate([cos, sin], axis=1))
    return a, b


def test_equal_files_exit_0(pecli_cli, files) -> None:
    outcome = pecli_cli("diff", files[0], files[0])
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("equal  ")
    assert "every element is equal" in outcome.out


def test_a_difference_exits_1_and_is_explained(pecli_cli, files) -> None:
    outcome = pecli_cli("diff", *files)
    assert outcome.code == 1
    verdict, why, tensor, count, worst = outcome.out.splitlines()
    assert verdict.startswith("DIFFERENT  ")
    assert tensor == "  array  20 × 8"
    assert count.startswith("      160 of 160 out of tolerance")
    assert worst.startswith("      max error ")
    assert why == "  array: in B, sin and cos are swapped; exact"


def test_json(pecli_cli, files) -> None:
    outcome = pecli_cli("diff", *files, "--json")
    assert outcome.code == 1
    found = outcome.json
    assert set(found) == {"passed", "a", "b", "tensors", "diagnosis", "explanations", "readings", "weak", "where"}
    assert (found["passed"], found["a"], found["b"]) == (False, str(files[0]), str(files[1]))
    (why,) = found["explanations"]
    assert (why["edits"], why["residual"], why["tensors"]) == ([{"edit": "swapped"}], 0.0, ["array"])
    keys = {"name", "shape", "mismatched", "max_abs_error", "max_ulp_error", "worst_index", "expected", "found"}
    (tensor,) = found["tensors"]
    assert keys <= set(tensor)
    assert tensor["first_index"] == [0, 0]


def test_tolerance_options(pecli_cli, files) -> None:
    outcome = pecli_cli("diff", *files, "--atol", "2")
    assert outcome.code == 0
    assert outcome.out.startswith("within tolerance  ")
    assert pecli_cli("diff", *files, "--atol", "-1").code == 2
    quiet = pecli_cli("diff", *files, "-q")
    assert (quiet.code, quiet.out) == (1, "")


def test_one_tensor_of_a_file(pecli_cli, tmp_path) -> None:
    path = tmp_path / "r.safetensors"
    pecli.save(path, pecli.Rope(16, 8))
    assert pecli_cli("diff", f"{path}:cos", f"{path}:cos").code == 0
    assert pecli_cli("diff", f"{path}:cos", f"{path}:sin").code == 1


def test_files_that_cannot_be_read_have_one_line(pecli_cli, files, tmp_path) -> None:
    for pair in ((tmp_path / "no.npy", tmp_path / "none.npy"), (files[0], tmp_path / "none.npy")):
        outcome = pecli_cli("diff", *pair)
        assert (outcome.code, outcome.err.count("\n")) == (3, 1)
        assert "does not exist" in outcome.err
    assert pecli_cli("diff", "-", "-").code == 2


def test_a_wrong_suffix_is_refused_before_any_work(pecli_cli, tmp_path) -> None:
    outcome = pecli_cli("diff", tmp_path / "no.npy", tmp_path / "none.npy", "-o", tmp_path / "diff.gif")
    assert outcome.code == 2
    assert ".png, .svg, .pdf" in outcome.err


@pytest.mark.parametrize(("suffix", "sign"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_pictures_are_written(pecli_cli, files, tmp_path, suffix, sign) -> None:
    assert pecli_cli("diff", *files, "-o", tmp_path / f"diff.{suffix}").code == 1
    assert (tmp_path / f"diff.{suffix}").read_bytes().startswith(sign)


def test_equal_files_have_a_picture_too(pecli_cli, files, tmp_path) -> None:
    assert pecli_cli("diff", files[0], files[0], "-q", "-o", tmp_path / "same.png").code == 0
    assert (tmp_path / "same.png").exists()


def test_the_errors_are_drawn_when_asked_for(pecli_cli, files) -> None:
    drawn = pecli_cli("diff", *files, "--plot").out
    assert "|A − B| of array" in drawn
    assert "position ↓  channel →" in drawn
    assert "|A − B|" not in pecli_cli("diff", *files).out
    assert "|A − B|" not in pecli_cli("diff", files[0], files[0], "--plot").out


def test_lines_of_a_csv_are_drawn_beside_the_tables_that_they_are(pecli_cli, tmp_path) -> None:
    pecli.save(tmp_path / "a.csv", pecli.Rope(6, 8))
    pecli.save(tmp_path / "b.npz", pecli.Rope(6, 8, base=500.0))
    outcome = pecli_cli("diff", tmp_path / "a.csv", tmp_path / "b.npz", "--plot", "-o", tmp_path / "x.png")
    assert (outcome.code, outcome.err) == (1, "")
    assert "|A − B| of cos_sin" in outcome.out
    assert (tmp_path / "x.png").stat().st_size > 1000


def test_standard_input(process, files) -> None:
    outcome = process("diff", files[0], "-", input=files[1].read_bytes())
    assert outcome.returncode == 1
    assert b"sin and cos are swapped" in outcome.stdout
