"""Models whose positions are points of images and videos, or distances: what their configurations
ask for.

Expected tables are dumps of the models' own code in transformers and diffusers
(tests/engine/schemes/data/grids), or formulas written out here. `place` in the index has the
options that a configuration does not state, such as the grid.
"""

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pecli import load_config
from pecli.cli.app import run
from pecli.views.encodings import commands
from tests.exit_codes import CHECK_FAILED, SUCCESS, USAGE_ERROR
from tests.models.facts import stored

DATA = Path(__file__).parent.parent / "engine" / "schemes" / "data" / "grids"


INDEX = json.loads((DATA / "index.json").read_text())
TABLES = {name: (row["config"], row["place"]) for name, row in INDEX.items() if "config" in row}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.sample(3)
def test_a_dump_of_a_model_passes_against_its_configuration_and_rolled_rows_fail(
    name: str, tmp_path: Path
) -> None:
    """The dumps are tables of the models' own code (transformers, diffusers) in float32, hence the
    tolerance 1e-4. `place` has the options that a config does not state, such as --grid 4x2.
    """
    config, place = TABLES[name]
    (tmp_path / "config.json").write_text(json.dumps(config))
    options = ["--config", str(tmp_path / "config.json"), *place.split(), "--atol", "1e-4", "-q"]

    assert run(["verify", str(DATA / f"{name}.npz"), *options]) == SUCCESS

    tables = np.load(DATA / f"{name}.npz")
    rolled_by_one_row = {tensor: np.roll(table, 1, axis=0) for tensor, table in tables.items()}
    np.savez(tmp_path / "rolled.npz", **rolled_by_one_row)
    assert run(["verify", str(tmp_path / "rolled.npz"), *options]) == CHECK_FAILED


COMMANDS = stored("tables.json")["commands"]


@pytest.mark.parametrize(("config", "command"), COMMANDS, ids=[command for _, command in COMMANDS])
def test_the_command_of_a_configuration_is_given_and_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: dict[str, Any], command: str
) -> None:
    """A command, such as «pecli rope --dim 128 --grid 16x16 -o rope.safetensors», was written by hand
    from each config. `pecli config` prints commands from the same function: the options must be
    the same in any order, and the command must run.
    """
    monkeypatch.chdir(tmp_path)
    printed = commands(load_config(config), "--config config.json")

    assert sorted(command.split()) in [sorted(line.split()) for line in printed]

    words = shlex.split(command)[1:]
    without_output_file = words[: words.index("-o")]
    assert run([*without_output_file, "-q"]) == SUCCESS


QWEN2_VL_CONFIG = {
    "model_type": "qwen2_vl",
    "vision_config": {"model_type": "qwen2_vl", "embed_dim": 1280, "num_heads": 16},
}
"""Its tower for images has heads of 1280 / 16 = 80 channels, which are 40 pairs."""


def test_the_tower_of_qwen2_vl_rotates_by_rows_and_columns_in_blocks_of_2_x_2(
    tmp_path: Path,
) -> None:
    """Qwen2-VL merges 2 x 2 patches, so that its patches come block by block: on a grid of 4 x 4, first
    the four of the top left block, then those of the top right one. Pairs 0 to 19 of 40 rotate by the
    row of a patch, and 20 to 39 by its column.
    """
    (tmp_path / "config.json").write_text(json.dumps(QWEN2_VL_CONFIG))
    by_config = ["--config", str(tmp_path / "config.json"), "--layer-type", "vision"]
    output = ["-q", "-o", str(tmp_path / "made.npz")]

    assert run(["rope", *by_config, "--grid", "4x4", *output]) == SUCCESS

    rows = [0, 0, 1, 1] * 2 + [2, 2, 3, 3] * 2
    columns = [0, 1, 0, 1, 2, 3, 2, 3] * 2
    cos = np.load(tmp_path / "made.npz")["cos"]
    # The first frequency of each half is 1: the angle is the row or the column itself.
    assert np.allclose(cos[:, 0], np.cos(rows), atol=1e-6)
    assert np.allclose(cos[:, 20], np.cos(columns), atol=1e-6)


def test_a_tower_of_an_unknown_model_gives_half_a_head_to_each_axis() -> None:
    """Text and tower have heads of 128 / 2 = 64 channels; the tower rotates 32 of them by rows and
    32 by columns, so that `dim` is 32 there.
    """
    sizes = {"hidden_size": 128, "num_attention_heads": 2, "rope_theta": 1e4}
    text, tower = load_config({**sizes, "vision_config": sizes})
    assert text.parameters["dim"] == 128 // 2
    assert tower.parameters["dim"] == 128 // 2 // 2


@pytest.mark.parametrize(
    ("class_name", "defaults"),
    [
        ("FluxTransformer2DModel", {"dim": 16 + 56 + 56, "base": 10000.0}),
        ("QwenImageTransformer2DModel", {"dim": 16 + 56 + 56, "base": 10000.0}),
        ("HunyuanVideoTransformer3DModel", {"dim": 16 + 56 + 56, "base": 256.0}),
        ("WanTransformer3DModel", {"dim": 128, "base": 10000.0}),
        (
            "CogVideoXTransformer3DModel",
            {"dim": 30 * 64, "grid": (13, 30, 45), "grid_scale": (1.0, 1.875, 1.875)},
        ),
        ("SD3Transformer2DModel", {"dim": 18 * 64, "grid": (96, 96), "grid_base": (64.0,)}),
        (
            "PixArtTransformer2DModel",
            {"dim": 16 * 72, "grid": (64, 64), "grid_base": (64.0,), "grid_scale": (2.0,)},
        ),
    ],
)
def test_sizes_that_are_left_out_are_defaults_of_the_diffusers_class(
    class_name: str, defaults: dict[str, Any]
) -> None:
    """The values are defaults of the classes' arguments in diffusers 0.42.1, written by hand: axes
    of 16 + 56 + 56 channels, or heads times channels for tables that are added.
    """
    parameters = load_config({"_class_name": class_name}).encodings[0].parameters
    assert {name: parameters[name] for name in defaults} == defaults


def test_flux_has_a_table_over_a_grid_but_none_over_a_sequence() -> None:
    """Flux rotates by (time, row, column); positions 0, 1, 2, … mean nothing to it."""
    assert run(["rope", "--model", "flux.1-dev", "--seq-len", "4"]) == USAGE_ERROR
    assert run(["rope", "--model", "flux.1-dev", "--grid", "2x2", "-q"]) == SUCCESS


def table_made_by_command(config: dict[str, Any], path: Path) -> np.ndarray:
    """Return the table that the command of a configuration makes.

    The command has all parameters as options, such as «pecli sinusoidal --dim 1152 --grid 64x64
    -o sinusoidal.npy»; its last word, the output, is replaced by the path.
    """
    command = commands(load_config(config), "--config config.json")[0]
    options = shlex.split(command)[1:-1]
    assert run([*options, str(path), "-q"]) == SUCCESS
    return np.load(path)


def test_pixart_halves_the_places_of_its_grid(tmp_path: Path) -> None:
    """By diffusers, PixArt's grid of 64 x 64 has its point i at i · (64 / 64) / 2, and 1152 channels:
    sines and cosines of the column, then of the row, with 288 frequencies each.
    """
    table = table_made_by_command(
        {"_class_name": "PixArtTransformer2DModel"}, tmp_path / "table.npy"
    )
    row, column = 63, 5
    frequencies = 10000.0 ** (-np.arange(288) / 288)
    expected = np.concatenate(
        [
            np.sin(column / 2 * frequencies),
            np.cos(column / 2 * frequencies),
            np.sin(row / 2 * frequencies),
            np.cos(row / 2 * frequencies),
        ]
    )
    # The table is float32, whose rounding is far below 1e-6.
    assert np.allclose(table[64 * row + column], expected, atol=1e-6)
