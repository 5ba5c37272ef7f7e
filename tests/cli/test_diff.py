"""`pecli diff`: text, JSON, pictures and exit codes for two files.

Every test starts in a folder with two tables of 20 rows and 8 columns: a.npy has the sines of 80
angles beside their cosines, and b.npy has the cosines first. All 160 elements differ, by at most 2.
"""

from pathlib import Path

import numpy as np
import pytest

import pecli
from tests.exit_codes import CHECK_FAILED, SUCCESS


@pytest.fixture(autouse=True)
def files(working_folder):
    sin, cos = np.sin(np.arange(80.0).reshape(20, 4)), np.cos(np.arange(80.0).reshape(20, 4))
    np.save("a.npy", np.concatenate([sin, cos], axis=1))
    np.save("b.npy", np.concatenate([cos, sin], axis=1))


def test_equal_files_exit_0_and_a_difference_1_with_its_reason(run_pecli) -> None:
    """The second file has the same sines and cosines with the halves swapped, in all of its 20 · 8
    elements.
    """
    outcome = run_pecli("diff", "a.npy", "a.npy", "-o", "same.png")
    assert outcome.exit_code == SUCCESS
    assert outcome.err == ""
    assert Path("same.png").read_bytes()[:4] == b"\x89PNG"
    assert outcome.out.startswith("equal  ")
    assert "every element is equal" in outcome.out

    outcome = run_pecli("diff", "a.npy", "b.npy")
    assert outcome.exit_code == CHECK_FAILED

    verdict, why, tensor, count, worst = outcome.out.splitlines()
    assert verdict.startswith("DIFFERENT  ")
    assert why == "  array: in B, sin and cos are swapped; exact"
    assert tensor == "  array  20 × 8"
    assert count.startswith("      160 of 160 out of tolerance")
    assert worst.startswith("      max error ")


def test_a_difference_as_json(run_pecli) -> None:
    outcome = run_pecli("diff", "a.npy", "b.npy", "--json", "-q")
    found = outcome.json

    assert " ".join(found) == "passed a b tensors diagnosis readings weak explanations where output"
    assert outcome.exit_code == CHECK_FAILED
    assert not found["passed"]
    assert found["a"] == "a.npy"
    assert found["b"] == "b.npy"

    (why,) = found["explanations"]
    assert why["edits"] == [{"edit": "swapped"}]
    assert why["residual"] == 0.0
    assert why["tensors"] == ["array"]

    (tensor,) = found["tensors"]
    keys = "name shape mismatched max_abs_error max_ulp_error worst_index expected found"
    assert {*keys.split()} <= set(tensor)
    assert tensor["first_index"] == [0, 0]


def test_a_tolerance_passes_and_quiet_prints_nothing(run_pecli) -> None:
    """Sines and cosines differ by at most 2."""
    outcome = run_pecli("diff", "a.npy", "b.npy", "--atol", "2")
    assert outcome.exit_code == SUCCESS
    assert outcome.out.startswith("within tolerance  ")

    quiet = run_pecli("diff", "a.npy", "b.npy", "-q")
    assert quiet.exit_code == CHECK_FAILED
    assert quiet.out == ""


def test_the_errors_are_drawn_when_asked_for(run_pecli) -> None:
    drawn = run_pecli("diff", "a.npy", "b.npy", "--plot").out
    assert "|A − B| of array" in drawn
    assert "position (maximum of 2 rows) ↓  channel →" in drawn
    assert "|A − B|" not in run_pecli("diff", "a.npy", "b.npy").out
    assert "|A − B|" not in run_pecli("diff", "a.npy", "a.npy", "--plot").out

    pecli.save("a.csv", pecli.Rope(6, 8))
    pecli.save("b.npz", pecli.Rope(6, 8, base=500.0))
    outcome = run_pecli("diff", "a.csv", "b.npz", "--plot", "-o", "x.svg")

    assert outcome.exit_code == CHECK_FAILED
    assert outcome.err == ""
    assert "|A − B| of cos_sin" in outcome.out
    assert Path("x.svg").read_bytes().startswith(b"<?xml")
