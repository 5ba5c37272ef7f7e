"""`pecli inspect`: tensors, statistics, single numbers and metadata of a file.

Expected numbers are those of the few elements that the tests write, computed by hand.
"""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import pecli
from tests.exit_codes import FILE_ERROR, SUCCESS, USAGE_ERROR


@pytest.fixture
def summary_of_rope_8_by_6(run_pecli) -> dict[str, Any]:
    """Return `pecli inspect --json` of a rope of 8 positions and 6 channels, in bfloat16."""
    pecli.save("t.safetensors", pecli.Rope(seq_len=8, dim=6, dtype="bfloat16"))
    return run_pecli("inspect", "t.safetensors", "--json").json


def test_inspect_as_json_has_the_format_and_the_stored_spec(
    summary_of_rope_8_by_6: dict[str, Any],
) -> None:
    """pecli stores the scheme and its parameters in the metadata of the file, as «pecli»."""
    assert summary_of_rope_8_by_6["file"] == "t.safetensors"
    assert summary_of_rope_8_by_6["format"] == "safetensors"
    assert summary_of_rope_8_by_6["metadata"]["pecli"]["parameters"]["seq_len"] == 8


def test_inspect_as_json_lists_the_tensors(summary_of_rope_8_by_6: dict[str, Any]) -> None:
    """Cosines of 8 positions and 3 pairs in bfloat16 are 8 · 3 · 2 = 48 bytes; frequencies are
    always float64, and 3 of them 24 bytes.
    """
    tensors = {tensor["name"]: tensor for tensor in summary_of_rope_8_by_6["tensors"]}

    assert sorted(tensors) == ["cos", "inv_freq", "sin"]
    for name in ("cos", "sin"):
        assert tensors[name]["dtype"] == "bfloat16"
        assert tensors[name]["shape"] == [8, 3]
        assert tensors[name]["bytes"] == 48
    assert tensors["inv_freq"]["dtype"] == "float64"
    assert tensors["inv_freq"]["shape"] == [3]
    assert tensors["inv_freq"]["bytes"] == 24


def test_statistics_are_those_of_the_elements(run_pecli) -> None:
    """Of 1.5, −2, 0.25 and 8, the mean is 7.75 / 4 = 1.9375; `pecli inspect --stats` reads them
    from float16.
    """
    array = np.array([[1.5, -2.0], [0.25, 8.0]], np.float16)
    np.save("t.npy", array)
    (tensor,) = run_pecli("inspect", "t.npy", "--stats", "--json").json["tensors"]

    assert tensor["min"] == -2.0
    assert tensor["max"] == 8.0
    assert tensor["mean"] == 1.9375
    assert tensor["sha256"] == hashlib.sha256(array.tobytes()).hexdigest()


def test_without_stats_there_are_no_statistics(run_pecli) -> None:
    """Statistics read all elements, which takes time in large files."""
    np.save("t.npy", np.ones((2, 2)))
    (tensor,) = run_pecli("inspect", "t.npy", "--json").json["tensors"]
    assert "min" not in tensor


def test_statistics_that_are_not_finite_are_null_in_json(run_pecli) -> None:
    """JSON has neither NaN nor infinity: `pecli inspect --stats --json` has null for the mean and
    the maximum of numbers with both.
    """
    np.save("t.npy", np.array([np.nan, np.inf, 1.7e308]))
    (tensor,) = run_pecli("inspect", "t.npy", "--stats", "--json").json["tensors"]
    assert tensor["mean"] is None
    assert tensor["max"] is None


def save_with_a_changed_bit(path: str) -> None:
    """Save a sinusoidal table of 8 x 6 with its SHA-256, and change a bit of its last element."""
    pecli.save(path, pecli.Sinusoidal(8, 6))
    data = bytearray(Path(path).read_bytes())
    data[-4] ^= 1
    Path(path).write_bytes(data)


def test_the_stored_hash_of_an_unchanged_file_holds(run_pecli) -> None:
    """`pecli.save` stores the SHA-256 of the tensors in a safetensors file; `pecli inspect --stats`
    computes it again.
    """
    pecli.save("t.safetensors", pecli.Sinusoidal(8, 6))
    assert run_pecli("inspect", "t.safetensors", "--stats", "--json").json["sha256_holds"] is True


def test_the_stored_hash_is_not_that_of_a_single_tensor(run_pecli) -> None:
    """The SHA-256 that `pecli.save` stores is of all tensors. If FILE:NAME selects one of them,
    nothing can be said about it.
    """
    pecli.save("t.safetensors", pecli.Sinusoidal(8, 6))
    summary = run_pecli("inspect", "t.safetensors:pe", "--stats", "--json").json
    assert "sha256_holds" not in summary


def test_inspect_prints_the_type_the_shape_and_the_bytes_of_a_tensor(run_pecli) -> None:
    """A sinusoidal table, «pe», of 8 positions and 6 channels in float32 has 8 · 6 · 4 = 192 bytes."""
    pecli.save("t.safetensors", pecli.Sinusoidal(8, 6))
    lines = run_pecli("inspect", "t.safetensors", "--stats").out.splitlines()

    first_cells = [line.split()[:6] for line in lines]
    assert ["pe", "float32", "8", "×", "6", "192"] in first_cells


def test_the_text_of_inspect_in_a_pipe_has_no_colours(run_pecli) -> None:
    """A bit of the file was changed. On a terminal, the line about its hash would be red; sequences
    that begin with ESC would disturb the program that reads a pipe.
    """
    save_with_a_changed_bit("t.safetensors")
    text = run_pecli("inspect", "t.safetensors", "--stats").out

    assert "stored SHA-256 does NOT match" in text
    assert "\x1b" not in text


def test_the_text_of_inspect_on_a_terminal_is_the_same_in_styles(run_pecli, monkeypatch) -> None:
    """The sequences are those of ANSI terminals: heads are dim (2), names bold (1), a hash that no
    longer holds is bold and red (1;31).
    """
    save_with_a_changed_bit("t.safetensors")
    plain = run_pecli("inspect", "t.safetensors", "--stats").out
    monkeypatch.setattr("pecli.views.screen.is_terminal", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.delenv("NO_COLOR", raising=False)
    styled = run_pecli("inspect", "t.safetensors", "--stats").out

    assert re.sub(r"\x1b\[[0-9;]*m", "", styled) == plain
    assert "\x1b[2mname" in styled
    assert "\x1b[1mpe" in styled
    assert "\x1b[1;31mstored SHA-256 does NOT match" in styled


@pytest.mark.parametrize("parameters", [[], None], ids=["list", "null"])
def test_inspect_prints_a_stored_spec_without_parameters(run_pecli, parameters: object) -> None:
    """A spec in a file is the scheme and its parameters as a JSON object. Here the parameters are a
    list or null, so that no table can be made of it; inspect prints the stored text as it is.
    """
    text = json.dumps({"scheme": "rope", "parameters": parameters})
    np.savez("t.npz", cos=np.ones((2, 4)), pecli=np.array(text))
    outcome = run_pecli("inspect", "t.npz", "--stats")

    assert outcome.exit_code == SUCCESS
    assert text in outcome.out


@pytest.mark.parametrize("parameters", [[], None], ids=["list", "null"])
def test_convert_refuses_a_file_with_a_stored_spec_without_parameters(
    run_pecli, parameters: object
) -> None:
    """`pecli convert --from halves --to interleaved` changes the layout, which is one of the stored
    parameters. They have to be a JSON object; here they are a list or null.
    """
    text = json.dumps({"scheme": "rope", "parameters": parameters})
    np.savez("t.npz", cos=np.ones((2, 4)), pecli=np.array(text))
    layouts = ("--from", "halves", "--to", "interleaved")
    outcome = run_pecli("convert", "t.npz", *layouts, "-o", "o.npz")

    assert outcome.exit_code == FILE_ERROR
    assert outcome.err.endswith("the parameters in its pecli metadata are not a JSON object\n")


def test_a_filter_chooses_tensors_by_name(run_pecli) -> None:
    """Of layers 0 to 2, each of which has `wpe` and `up`, the pattern *.wpe matches three tensors."""
    names = [f"layers.{layer}.{name}" for layer in range(3) for name in ("wpe", "up")]
    save_file({name: np.zeros(2) for name in names}, "t.safetensors")
    outcome = run_pecli("inspect", "t.safetensors", "--filter", "*.wpe")

    assert "3 of 6 tensors" in outcome.out
    assert "layers.2.wpe" in outcome.out
    assert ".up" not in outcome.out


def test_rows_and_columns_are_chosen_as_in_python(run_pecli) -> None:
    """Element (i, j, k) of the 3 x 4 x 5 array is 20 i + 5 j + k; all axes except the last are
    counted as rows 0 to 11.
    """
    np.save("t.npy", np.arange(60.0).reshape(3, 4, 5))
    lines = run_pecli("inspect", "t.npy", "--rows", "-2:", "--cols", "1:3").out.splitlines()
    columns, row_10, row_11 = lines[-3:]

    assert columns.split() == ["1", "2"]
    assert row_10.split() == ["10", "51", "52"]
    assert row_11.split() == ["11", "56", "57"]


def test_inspect_reports_the_numbers_of_a_row_as_json(run_pecli) -> None:
    """Row 7 of the 3 x 4 x 5 array 0, 1, 2, … begins with 7 · 5 = 35."""
    np.save("t.npy", np.arange(60.0).reshape(3, 4, 5))
    (tensor,) = run_pecli("inspect", "t.npy", "--rows", "7", "--json").json["tensors"]

    assert tensor["numbers"] == {
        "rows": [7],
        "columns": [0, 1, 2, 3, 4],
        "values": [[35.0, 36.0, 37.0, 38.0, 39.0]],
    }


@pytest.fixture
def cosines_and_noise(working_folder: Path) -> str:
    """A file with the cosines of a rope of 64 positions and 32 channels, and random numbers."""
    cos = pecli.Rope(64, 32).tables()["cos"]
    noise = np.random.default_rng(0).standard_normal((64, 32))
    np.savez("t.npz", cos=cos, noise=noise)
    return "t.npz"


def test_statistics_include_the_scheme_of_a_table(run_pecli, cosines_and_noise: str) -> None:
    """The file has the cosines of a rotary table as cos, and noise; only the former is made by a
    scheme.
    """
    (match,) = run_pecli("inspect", cosines_and_noise, "--stats", "--json").json["matches"]
    assert match["scheme"] == "rope"
    assert match["tensors"] == ["cos"]


def test_statistics_include_the_command_that_makes_a_table(
    run_pecli, cosines_and_noise: str
) -> None:
    """The file has the cosines of a rotary table of 64 positions and 32 channels as cos, and noise."""
    outcome = run_pecli("inspect", cosines_and_noise, "--stats")
    assert "cos: as made by pecli rope --seq-len 64 --dim 32\n" in outcome.out


def test_without_stats_no_scheme_is_searched(run_pecli, cosines_and_noise: str) -> None:
    """`pecli inspect` searches for the scheme of a table only with --stats, as it takes time."""
    assert "matches" not in run_pecli("inspect", cosines_and_noise, "--json").json


@pytest.mark.parametrize(
    ("shape", "columns"),
    [((3, 0), "0:8"), ((3, 4), "8:"), ((0, 4), "0:2")],
    ids=["no columns", "none of the columns", "no rows"],
)
def test_rows_are_listed_even_if_they_are_empty(
    run_pecli, shape: tuple[int, int], columns: str
) -> None:
    """A table without columns has rows that hold nothing, one list for each."""
    np.save("t.npy", np.zeros(shape))
    outcome = run_pecli("inspect", "t.npy", "--rows", ":", "--cols", columns, "--json")

    assert outcome.exit_code == SUCCESS
    (tensor,) = outcome.json["tensors"]
    assert len(tensor["numbers"]["rows"]) == shape[0]
    assert len(tensor["numbers"]["values"]) == shape[0]


@pytest.mark.parametrize(
    "words", [("inspect", "t.npy", "--rows", ":"), ("convert", "t.npy", "-o", "t.json")]
)
def test_two_billion_empty_rows_are_refused(run_pecli, words: tuple[str, ...]) -> None:
    """t.npy has 2^31 − 1 rows of no columns: hardly any data, but a list of its rows would fill the
    memory. Both commands must refuse it in one line.
    """
    np.save("t.npy", np.zeros((2**31 - 1, 0)))
    outcome = run_pecli(*words)

    assert outcome.exit_code == USAGE_ERROR
    assert outcome.err.count("\n") == 1


def test_specs_of_several_layer_types_leave_out_what_is_not_set(run_pecli, tmp_path) -> None:
    """`pecli inspect` prints the stored spec of Gemma 3's tables: by its configuration, sliding
    layers have base 10000 and 256 channels. Parameters that are None are not printed.
    """
    path = tmp_path / "layers.safetensors"
    run_pecli("rope", "--model", "gemma-3-1b", "--seq-len", "4", "-o", path)
    line = next(
        line for line in run_pecli("inspect", path).out.splitlines() if line.startswith("pecli ")
    )

    assert "sliding_attention=(scheme=rope  base=10000  dim=256" in line
    assert "None" not in line


def test_an_empty_filter_matches_every_tensor(run_pecli, tmp_path: Path) -> None:
    """`pecli inspect --filter ''`; the file has the tensors cos and sin."""
    path = tmp_path / "two.npz"
    np.savez(path, cos=np.ones((2, 4), np.float32), sin=np.zeros((2, 4), np.float32))
    outcome = run_pecli("inspect", path, "--filter", "", "--json")

    assert outcome.exit_code == SUCCESS
    assert [tensor["name"] for tensor in outcome.json["tensors"]] == ["cos", "sin"]
