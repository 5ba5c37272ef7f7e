"""`pecli diff`: text, JSON, pictures and exit codes for two files.

Every test starts in a folder with two tables of 20 rows and 8 columns: a.npy has the sines of 80
angles beside their cosines, and b.npy has the cosines first. All 160 elements differ, by at most 2.
"""

from pathlib import Path

import numpy as np
import pytest

import pecli
from pecli.checks.diff import Difference
from tests.exit_codes import CHECK_FAILED, SUCCESS


@pytest.fixture(autouse=True)
def files(working_folder):
    """Write a.npy with sines beside cosines, and b.npy with cosines beside sines."""
    sin = np.sin(np.arange(80.0).reshape(20, 4))
    cos = np.cos(np.arange(80.0).reshape(20, 4))
    np.save("a.npy", np.concatenate([sin, cos], axis=1))
    np.save("b.npy", np.concatenate([cos, sin], axis=1))


def test_equal_files_have_exit_code_0(run_pecli) -> None:
    """`pecli diff a.npy a.npy` compares a file with itself."""
    outcome = run_pecli("diff", "a.npy", "a.npy")

    assert outcome.exit_code == SUCCESS
    assert outcome.err == ""
    assert outcome.out.startswith("equal  ")
    assert "every element is equal" in outcome.out


def test_equal_files_have_a_picture_too(run_pecli) -> None:
    """A .png begins with the bytes 89 50 4E 47."""
    outcome = run_pecli("diff", "a.npy", "a.npy", "-o", "same.png")

    assert outcome.exit_code == SUCCESS
    assert outcome.err == ""
    assert Path("same.png").read_bytes()[:4] == b"\x89PNG"


def test_files_that_differ_have_exit_code_1_and_a_reason(run_pecli) -> None:
    """b.npy has the sines and cosines of a.npy in the other order, so all of 20 · 8 elements differ."""
    outcome = run_pecli("diff", "a.npy", "b.npy")
    assert outcome.exit_code == CHECK_FAILED

    verdict, reason, tensor, count, worst = outcome.out.splitlines()
    assert verdict.startswith("DIFFERENT  ")
    assert reason == "  array: in B, sin and cos are swapped; exact"
    assert tensor == "  array  20 × 8"
    assert count.startswith("      160 of 160 out of tolerance")
    assert worst.startswith("      max error ")


def test_diff_as_json_has_the_fields_that_scripts_rely_on(run_pecli) -> None:
    """Scripts rely on the fields of `pecli diff --json`, in this order; each tensor has at least
    those of `fields_of_tensor`.
    """
    outcome = run_pecli("diff", "a.npy", "b.npy", "--json")
    fields = "passed a b tensors diagnosis readings weak explanations where output"
    fields_of_tensor = (
        "name shape mismatched max_abs_error max_ulp_error worst_index expected found"
    )

    assert list(outcome.json) == fields.split()
    (tensor,) = outcome.json["tensors"]
    assert {*fields_of_tensor.split()} <= set(tensor)


def test_diff_as_json_explains_a_difference(run_pecli) -> None:
    """In b.npy the halves of a.npy are swapped, bit by bit: the residual is 0."""
    outcome = run_pecli("diff", "a.npy", "b.npy", "--json")
    assert outcome.exit_code == CHECK_FAILED
    assert outcome.json["passed"] is False
    assert outcome.json["a"] == "a.npy"
    assert outcome.json["b"] == "b.npy"

    (explanation,) = outcome.json["explanations"]
    assert explanation["edits"] == [{"edit": "swapped"}]
    assert explanation["residual"] == 0.0
    assert explanation["tensors"] == ["array"]

    (tensor,) = outcome.json["tensors"]
    assert tensor["first_index"] == [0, 0]


def test_files_that_differ_within_the_tolerance_have_exit_code_0(run_pecli) -> None:
    """a.npy has sines where b.npy has cosines; they differ by at most 2, the tolerance."""
    outcome = run_pecli("diff", "a.npy", "b.npy", "--atol", "2")
    assert outcome.exit_code == SUCCESS
    assert outcome.out.startswith("within tolerance  ")


def test_a_quiet_diff_has_only_an_exit_code(run_pecli) -> None:
    """`pecli diff -q` of two tables, all elements of which differ."""
    outcome = run_pecli("diff", "a.npy", "b.npy", "-q")
    assert outcome.exit_code == CHECK_FAILED
    assert outcome.out == ""


def test_a_quiet_diff_still_finds_the_reason_for_the_caption_of_its_picture(
    run_pecli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """-q prints nothing, but the caption of the picture that -o asks for states why the files
    differ: b.npy is a.npy with sines and cosines swapped. Instead of drawing the differences, which
    takes a second, `remember` keeps them.
    """
    drawn: list[Difference] = []

    def remember(path: str, differences: list[Difference], about: object) -> None:
        drawn.extend(differences)

    monkeypatch.setattr("pecli.views.pictures.mistakes.save", remember)
    outcome = run_pecli("diff", "a.npy", "b.npy", "-q", "-o", "x.svg")

    assert outcome.out == ""
    (difference,) = drawn
    assert difference.diagnosis == ("array: in B, sin and cos are swapped; exact",)


def test_the_option_plot_draws_the_errors_below_the_text(run_pecli) -> None:
    """The files have 20 rows, but the map of their errors has only 11 lines: a line stands for up to
    two rows and shows the larger error of both.
    """
    text, map_of_errors = run_pecli("diff", "a.npy", "b.npy", "--plot").out.split("\n\n")
    title, *lines, _, _, legend = map_of_errors.splitlines()

    assert text.startswith("DIFFERENT  A: a.npy  B: b.npy")
    assert title == "|A − B| of array"
    assert len(lines) == 11
    assert legend.startswith("position (maximum of 2 rows) ↓  channel →")


@pytest.mark.parametrize(
    "words",
    [("a.npy", "b.npy"), ("a.npy", "a.npy", "--plot")],
    ids=["without --plot", "without errors"],
)
def test_no_errors_are_drawn_without_plot_or_without_errors(
    run_pecli, words: tuple[str, ...]
) -> None:
    """`pecli diff` draws a map of |A − B| only if it is asked to by --plot and there are errors to
    draw.
    """
    assert "|A − B|" not in run_pecli("diff", *words).out


def test_errors_of_two_formats_are_drawn_in_the_terminal_and_in_a_file(run_pecli) -> None:
    """A CSV file holds both functions as one table, cos_sin; the bases differ, so that there are
    errors to draw.
    """
    pecli.save("base10000.csv", pecli.Rope(6, 8))
    pecli.save("base500.npz", pecli.Rope(6, 8, base=500.0))
    outcome = run_pecli("diff", "base10000.csv", "base500.npz", "--plot", "-o", "x.svg")

    assert outcome.exit_code == CHECK_FAILED
    assert outcome.err == ""
    assert "|A − B| of cos_sin" in outcome.out
    assert Path("x.svg").read_bytes().startswith(b"<?xml")
