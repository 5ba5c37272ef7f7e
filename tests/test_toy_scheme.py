"""A scheme is one class: a triangle wave with one parameter, registered here, works with every
command.

TRIANGLE_COMMAND makes 64 positions and 8 channels with a period of 12; TRIANGLE_BY_HAND is the same
wave, computed element by element in Python.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import ml_dtypes
import numpy as np
import pytest

import pecli
from pecli.engine.arrays import round_to
from pecli.engine.schemes import SCHEMES
from pecli.engine.schemes.parameters import Real, Whole
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import Table
from tests.exit_codes import CHECK_FAILED, SUCCESS, USAGE_ERROR


@dataclass(frozen=True)
class Triangle(Scheme):
    """Triangle waves.

    |((p + c) mod period) / period − 1/2| · 4 − 1, with p the position and c the channel.
    """

    name = "triangle"

    seq_len: Annotated[int, Whole(help="rows of the table")]
    dim: Annotated[int, Whole(help="channels of a row")]
    period: Annotated[float, Real(help="positions of a wave", above=0)] = 16.0

    def tensors(self) -> tuple[Table, ...]:
        def fill(start: int, out: np.ndarray) -> None:
            places = np.arange(start, start + len(out))[:, None] + np.arange(self.dim)
            out[...] = round_to(
                np.abs(places % self.period / self.period - 0.5) * 4 - 1, self.dtype
            )

        return (Table("pe", self.dtype, (self.seq_len, self.dim), fill),)


def triangle_command(period: str) -> tuple[str, ...]:
    return ("triangle", "--seq-len", "64", "--dim", "8", "--period", period)


TRIANGLE_COMMAND = triangle_command("12")
TRIANGLE_BY_HAND = np.array(
    [[abs((p + c) % 12 / 12 - 0.5) * 4 - 1 for c in range(8)] for p in range(64)]
)


@pytest.fixture(autouse=True)
def _known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(SCHEMES, "triangle", Triangle)


def test_the_command_of_an_added_scheme_has_its_parameters_as_options(run_pecli) -> None:
    """This module registers a scheme, Triangle. Its field `period` is the option --period."""
    assert "--period" in run_pecli("triangle", "--help").out


def test_the_command_of_an_added_scheme_describes_its_table(run_pecli) -> None:
    """TRIANGLE_COMMAND is «triangle --seq-len 64 --dim 8 --period 12», and TRIANGLE_BY_HAND this
    table, computed element by element.
    """
    assert "triangle seq_len=64 dim=8 period=12" in run_pecli(*TRIANGLE_COMMAND).out

    tensors = run_pecli(*TRIANGLE_COMMAND, "--json").json["tensors"]
    assert tensors["pe"]["max"] == TRIANGLE_BY_HAND.max()


@pytest.mark.parametrize(
    ("period", "code"), [("12", SUCCESS), ("13", CHECK_FAILED)], ids=["equal", "different"]
)
def test_files_of_an_added_scheme_are_compared(run_pecli, period: str, code: int) -> None:
    """a.npz has a triangle wave of period 12, and b.npz one of period 12 or 13."""
    assert run_pecli(*triangle_command("12"), "-o", "a.npz").exit_code == SUCCESS
    assert run_pecli(*triangle_command(period), "-o", "b.npz").exit_code == SUCCESS
    assert run_pecli("diff", "a.npz", "b.npz").exit_code == code


@pytest.mark.parametrize("suffix", ["npy", "npz", "safetensors", "csv", "json"])
def test_an_added_scheme_is_written_in_every_format(run_pecli, suffix: str) -> None:
    """Written in float64, the triangle wave of period 12 must be read back exactly as
    TRIANGLE_BY_HAND, which is computed element by element; `inspect` takes the file as well.
    """
    path = f"t.{suffix}"
    written = run_pecli(*TRIANGLE_COMMAND, "--dtype", "float64", "-o", path)
    assert written.exit_code == SUCCESS

    (array,) = pecli.load(path).values()
    assert np.array_equal(array, TRIANGLE_BY_HAND)
    assert run_pecli("inspect", path).exit_code == SUCCESS


@pytest.mark.parametrize("suffix", ["npy", "npz", "safetensors", "csv", "json"])
def test_a_file_of_an_added_scheme_passes_with_its_parameters_only(run_pecli, suffix: str) -> None:
    """The file has period 12. «triangle … --period 12 --verify FILE» passes, and 13 fails."""
    path = f"t.{suffix}"
    written = run_pecli(*TRIANGLE_COMMAND, "--dtype", "float64", "-o", path)

    assert written.exit_code == SUCCESS
    assert run_pecli(*triangle_command("12"), "--verify", path).exit_code == SUCCESS
    assert run_pecli(*triangle_command("13"), "--verify", path).exit_code == CHECK_FAILED


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_a_file_that_states_an_added_scheme_is_verified_without_options(
    run_pecli, suffix: str
) -> None:
    """pecli writes the scheme and its parameters into files of these two formats."""
    path = f"t.{suffix}"
    written = run_pecli(*TRIANGLE_COMMAND, "--dtype", "float64", "-o", path)

    assert written.exit_code == SUCCESS
    assert run_pecli("verify", path).exit_code == SUCCESS


@pytest.mark.parametrize("period", ["16", "13", "6", "24"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.sample(5)
def test_a_wrong_parameter_of_an_added_scheme_is_named(run_pecli, period: str, dtype: str) -> None:
    """This module registers a scheme, a triangle wave of period 12 (TRIANGLE_COMMAND). The table has
    another period, among them half, double, and a neighbour.
    """
    words = (*triangle_command(period), "--dtype", dtype, "-o", "t.npy")
    assert run_pecli(*words).exit_code == SUCCESS

    out = run_pecli(*TRIANGLE_COMMAND, "--verify", "t.npy", "--atol", "1e-5").out
    assert f"period is {period} (the spec says 12)" in out


def test_a_wrong_shape_of_an_added_scheme_is_named_and_noise_has_no_reason(run_pecli) -> None:
    """This module registers a scheme, a triangle wave of 64 × 8 (TRIANGLE_COMMAND). A table of six
    channels instead of eight is explained; random numbers fail without an explanation. The help
    lists the scheme with the first line of its docstring.
    """
    assert "triangle Triangle waves." in " ".join(run_pecli("--help").out.split())

    narrow = ("triangle", "--seq-len", "64", "--dim", "6", "--period", "12")
    assert run_pecli(*narrow, "-o", "narrow.npy").exit_code == SUCCESS
    outcome = run_pecli(*TRIANGLE_COMMAND, "--verify", "narrow.npy")
    assert "dim is 6 (the spec says 8)" in outcome.out

    np.save("noise.npy", np.random.default_rng(5).uniform(-1, 1, (64, 8)))
    outcome = run_pecli(*TRIANGLE_COMMAND, "--verify", "noise.npy")
    assert outcome.exit_code == CHECK_FAILED
    assert "the spec says" not in outcome.out


def test_an_added_scheme_is_audited_in_both_half_precisions(run_pecli) -> None:
    """This module registers a scheme, a triangle wave (TRIANGLE_COMMAND). `audit` measures recipes,
    other ways to compute a table: of a scheme without frequencies, tables in narrower dtypes.
    """
    rows = run_pecli("audit", *TRIANGLE_COMMAND, "--json").json["recipes"]
    assert {row["recipe"] for row in rows} == {"float16-table", "bfloat16-table"}


@pytest.mark.parametrize(
    ("recipe", "dtype"), [("float16-table", np.float16), ("bfloat16-table", ml_dtypes.bfloat16)]
)
def test_an_added_scheme_is_audited_against_its_table_in_float32(
    run_pecli, recipe: str, dtype: type
) -> None:
    """This module registers a scheme, a triangle wave (TRIANGLE_COMMAND), whose dtype is float32 by
    default. The error of a narrower dtype is its largest difference from that table, computed here
    by NumPy from TRIANGLE_BY_HAND.
    """
    in_float32 = TRIANGLE_BY_HAND.astype(np.float32).astype(np.float64)
    in_narrower_dtype = TRIANGLE_BY_HAND.astype(dtype).astype(np.float64)
    largest_error = float(np.abs(in_narrower_dtype - in_float32).max())

    words = ("audit", *TRIANGLE_COMMAND, "--recipes", recipe, "--json")
    (row,) = run_pecli(*words).json["recipes"]
    assert row["max_abs_error"] == pytest.approx(largest_error, rel=1e-6)


def test_the_audit_of_an_added_scheme_has_details_by_column(run_pecli) -> None:
    """This module registers a scheme, a triangle wave (TRIANGLE_COMMAND). Its columns have no
    frequencies, by which the details of a rotary table are listed.
    """
    heading = "largest error, by column"
    assert heading in run_pecli("audit", *TRIANGLE_COMMAND, "--details").out
    assert heading not in run_pecli("audit", *TRIANGLE_COMMAND).out


@pytest.mark.parametrize("kind", ["heatmap", "curves", "similarity"])
@pytest.mark.sample(2)
def test_an_added_scheme_has_the_pictures_of_tables(run_pecli, kind: str) -> None:
    """This module registers a scheme, a triangle wave (TRIANGLE_COMMAND). Any table can be drawn in
    these three kinds, in the terminal and to a file; wavelengths are of schemes with frequencies.
    """
    assert run_pecli("plot", *TRIANGLE_COMMAND, "--kind", kind).exit_code == SUCCESS
    assert run_pecli("plot", *TRIANGLE_COMMAND, "--kind", kind, "-o", "t.svg").exit_code == SUCCESS

    outcome = run_pecli("plot", *TRIANGLE_COMMAND, "--kind", "wavelengths")
    assert outcome.exit_code == USAGE_ERROR
    assert "take one of heatmap, curves, similarity" in outcome.err


def test_an_added_scheme_is_applied_to_an_input(run_pecli) -> None:
    """This module registers a scheme, a triangle wave of 64 × 8 with period 12. Its first rows are added
    to an input of 5 positions, in float64, and the sum is rounded once; by the method and by the
    command `apply`.
    """
    x = np.ones((2, 5, 8), np.float32)
    expected = (x + TRIANGLE_BY_HAND[:5]).astype(np.float32)
    np.testing.assert_array_equal(Triangle(64, 8, 12.0).applied_to(x), expected)

    np.save("x.npy", x)
    words = ("apply", "triangle", "x.npy", "--period", "12", "-o", "y.npy")
    assert run_pecli(*words).exit_code == SUCCESS
    np.testing.assert_array_equal(np.load("y.npy"), expected)
