"""`pecli inspect`: tensors, statistics, single numbers and metadata of a file.

Expected numbers are those of the few elements that the tests write, computed by hand.
"""

import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import pecli
from tests.exit_codes import FILE_ERROR, SUCCESS, USAGE_ERROR


def test_json_names_tensors_and_spec(run_pecli) -> None:
    """A bfloat16 table of 8 x 3 has 8 · 3 · 2 = 48 bytes."""
    path = "t.safetensors"
    pecli.save(path, pecli.Rope(8, 6, dtype="bfloat16"))
    found = run_pecli("inspect", path, "--json").json

    assert found["file"] == "t.safetensors"
    assert found["format"] == "safetensors"

    tensors = {
        tensor["name"]: (tensor["dtype"], tensor["shape"], tensor["bytes"])
        for tensor in found["tensors"]
    }
    waves = dict.fromkeys(("cos", "sin"), ("bfloat16", [8, 3], 48))
    assert tensors == {**waves, "inv_freq": ("float64", [3], 24)}
    assert found["metadata"]["pecli"]["parameters"]["seq_len"] == 8


def test_statistics_only_when_asked_for(run_pecli) -> None:
    """The mean of 1.5, -2, 0.25 and 8 is 1.9375; statistics that are not finite are null in JSON."""
    array = np.array([[1.5, -2.0], [0.25, 8.0]], np.float16)
    np.save("t.npy", array)

    assert "min" not in run_pecli("inspect", "t.npy", "--json").json["tensors"][0]

    (tensor,) = run_pecli("inspect", "t.npy", "--stats", "--json").json["tensors"]
    assert tensor["min"] == -2.0
    assert tensor["max"] == 8.0
    assert tensor["mean"] == 1.9375
    assert tensor["sha256"] == hashlib.sha256(array.tobytes()).hexdigest()

    np.save("t.npy", np.array([np.nan, np.inf, 1.7e308]))
    (tensor,) = run_pecli("inspect", "t.npy", "--stats", "--json").json["tensors"]
    assert tensor["mean"] is None
    assert tensor["max"] is None


def test_text_on_a_terminal_is_styled(run_pecli, monkeypatch) -> None:
    """The same words; heads are dim, names bold, and a hash that no longer holds is red."""
    path = "t.safetensors"
    pecli.save(path, pecli.Sinusoidal(8, 6))

    assert run_pecli("inspect", path, "--stats", "--json").json["sha256_holds"] is True
    assert "sha256_holds" not in run_pecli("inspect", f"{path}:pe", "--stats", "--json").json

    data = bytearray(Path(path).read_bytes())
    data[-4] ^= 1
    Path(path).write_bytes(data)
    plain = run_pecli("inspect", path, "--stats").out

    assert "\x1b" not in plain
    assert ["pe", "float32", "8", "×", "6", "192"] in [
        line.split()[:6] for line in plain.splitlines()
    ]

    monkeypatch.setattr("pecli.views.screen.is_terminal", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.delenv("NO_COLOR", raising=False)
    styled = run_pecli("inspect", path, "--stats").out

    assert re.sub(r"\x1b\[[0-9;]*m", "", styled) == plain
    for style, words in (("2", "name"), ("1", "pe"), ("1;31", "stored SHA-256 does NOT match")):
        assert f"\x1b[{style}m{words}" in styled


@pytest.mark.parametrize("parameters", [[], None])
def test_a_stored_spec_without_parameters_is_shown_but_not_used(run_pecli, parameters) -> None:
    path, text = "t.npz", json.dumps({"scheme": "rope", "parameters": parameters})
    np.savez(path, cos=np.ones((2, 4)), pecli=np.array(text))
    found = run_pecli("inspect", path, "--stats")

    assert found.exit_code == SUCCESS
    assert text in found.out

    turned = run_pecli("convert", path, "--from", "halves", "--to", "interleaved", "-o", "o.npz")
    said = "the parameters in its pecli metadata are not a JSON object\n"
    assert turned.exit_code == FILE_ERROR
    assert turned.err.endswith(said)


def test_names_rows_and_columns_are_chosen(run_pecli) -> None:
    """Element (i, j, k) of the 3 x 4 x 5 array is 20 i + 5 j + k, so row 7 begins with 35."""
    path = "t.safetensors"
    save_file({f"layers.{k}.{name}": np.zeros(2) for k in range(3) for name in ("wpe", "up")}, path)
    outcome = run_pecli("inspect", path, "--filter", "*.wpe")

    assert "3 of 6 tensors" in outcome.out
    assert "up" not in outcome.out.split("tensors")[1]

    np.save("t.npy", np.arange(60.0).reshape(3, 4, 5))
    lines = run_pecli("inspect", "t.npy", "--rows", "-2:", "--cols", "1:3").out.splitlines()[-3:]
    assert [line.split() for line in lines] == [["1", "2"], ["10", "51", "52"], ["11", "56", "57"]]

    (tensor,) = run_pecli("inspect", "t.npy", "--rows", "7", "--json").json["tensors"]
    assert tensor["numbers"] == {
        "rows": [7],
        "columns": [0, 1, 2, 3, 4],
        "values": [[35.0, 36.0, 37.0, 38.0, 39.0]],
    }


def test_statistics_include_the_command_that_makes_a_table(run_pecli) -> None:
    path = "t.npz"
    np.savez(
        path,
        cos=pecli.Rope(64, 32).tables()["cos"],
        noise=np.random.default_rng(0).standard_normal((64, 32)),
    )

    assert "matches" not in run_pecli("inspect", path, "--json").json

    (match,) = run_pecli("inspect", path, "--stats", "--json").json["matches"]
    assert match["scheme"] == "rope"
    assert match["tensors"] == ["cos"]
    assert (
        "cos: as made by pecli rope --seq-len 64 --dim 32\n"
        in run_pecli("inspect", path, "--stats").out
    )


def test_rows_of_an_empty_array_are_listed_up_to_a_limit(run_pecli) -> None:
    for shape, cols in (((3, 0), "0:8"), ((3, 4), "8:"), ((0, 4), "0:2")):
        np.save("t.npy", np.zeros(shape))
        words = ("inspect", "t.npy", "--rows", ":", "--cols", cols)
        (tensor,) = run_pecli(*words, "--json").json["tensors"]
        assert len(tensor["numbers"]["values"]) == len(tensor["numbers"]["rows"]) == shape[0]
        assert run_pecli(*words).exit_code == SUCCESS

    np.save("t.npy", np.zeros((2**31 - 1, 0)))  # which are not listed by the million
    for words in (("inspect", "t.npy", "--rows", ":"), ("convert", "t.npy", "-o", "t.json")):
        outcome = run_pecli(*words)
        assert outcome.exit_code == USAGE_ERROR
        assert outcome.err.count("\n") == 1


def test_specs_of_several_layer_types_leave_out_what_is_not_set(run_pecli, tmp_path) -> None:
    path = tmp_path / "layers.safetensors"
    run_pecli("rope", "--model", "gemma-3-1b", "--seq-len", "4", "-o", path)
    line = next(
        line for line in run_pecli("inspect", path).out.splitlines() if line.startswith("pecli ")
    )

    assert "sliding_attention=(scheme=rope  base=10000  dim=256" in line
    assert "None" not in line


def test_an_empty_filter_matches_every_tensor(run_pecli, tmp_path: Path) -> None:
    path = tmp_path / "two.npz"
    np.savez(path, cos=np.ones((2, 4), np.float32), sin=np.zeros((2, 4), np.float32))
    outcome = run_pecli("inspect", path, "--filter", "", "--json")

    assert outcome.exit_code == SUCCESS
    assert [tensor["name"] for tensor in outcome.json["tensors"]] == ["cos", "sin"]
