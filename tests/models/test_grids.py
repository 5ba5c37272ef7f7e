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
from tests.exit_codes import CHECK_FAILED, SUCCESS
from tests.models.facts import stored

DATA = Path(__file__).parent.parent / "engine" / "schemes" / "data" / "grids"

HEADS = {"hidden_size": 128, "num_attention_heads": 2}
INDEX = json.loads((DATA / "index.json").read_text())
TABLES = {name: (row["config"], row["place"]) for name, row in INDEX.items() if "config" in row}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.sample(3)
def test_dumps_are_verified_against_the_configuration(name: str, tmp_path: Path) -> None:
    """The dumps are tables of the models' own code (transformers, diffusers) in float32, hence the
    tolerance 1e-4. `pecli verify --config` must pass them, and fail them if their rows are rolled
    by one position.
    """
    config, place = TABLES[name]
    (tmp_path / "config.json").write_text(json.dumps(config))
    words = ["--config", str(tmp_path / "config.json"), *place.split(), "--atol", "1e-4", "-q"]

    assert run(["verify", str(DATA / f"{name}.npz"), *words]) == SUCCESS

    wrong = {
        tensor: np.roll(table, 1, axis=0) for tensor, table in np.load(DATA / f"{name}.npz").items()
    }
    np.savez(tmp_path / "wrong.npz", **wrong)
    assert run(["verify", str(tmp_path / "wrong.npz"), *words]) == CHECK_FAILED


COMMANDS = stored("tables.json")["commands"]


@pytest.mark.parametrize(("config", "command"), COMMANDS, ids=[command for _, command in COMMANDS])
def test_the_command_of_a_configuration_is_given_and_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: dict[str, Any], command: str
) -> None:
    """The commands were written by hand from each model's config; `pecli config` must print the
    same options.
    """
    monkeypatch.chdir(tmp_path)
    found = commands(load_config(config), "--config config.json")

    assert sorted(command.split()) in [sorted(line.split()) for line in found]

    words = shlex.split(command)[1:]
    assert run([*words[: words.index("-o")], "-q"]) == 0


def test_the_head_of_a_vision_tower_rotates_on_a_grid(tmp_path: Path) -> None:
    """Qwen2-VL's patches come in blocks of 2 x 2, so that rows count 0 0 1 1 2 2 3 3 and columns 0
    1 0 1 …; rows (h) have the first half of the pairs, columns the second. A tower of an unknown
    model gives half a head to each axis.
    """
    (tmp_path / "config.json").write_text(json.dumps(COMMANDS[-1][0]))
    words = [
        "rope",
        "--config",
        str(tmp_path / "config.json"),
        "--layer-type",
        "vision",
        "--grid",
        "4x2",
        "-q",
    ]

    assert run([*words, "-o", str(tmp_path / "made.npz")]) == 0

    cos = np.load(tmp_path / "made.npz")["cos"]
    assert np.allclose(cos[:, 0], np.cos([0, 0, 1, 1, 2, 2, 3, 3]), atol=1e-6)
    assert np.allclose(cos[:, 20], np.cos([0, 1, 0, 1, 0, 1, 0, 1]), atol=1e-6)

    unknown = {**HEADS, "rope_theta": 1e4, "vision_config": {**HEADS, "rope_theta": 1e4}}
    assert [each.parameters["dim"] for each in load_config(unknown)] == [
        64,
        32,
    ]  # half a head for each axis


LEFT_OUT = {
    "FluxTransformer2DModel": {"dim": 16 + 56 + 56, "base": 10000.0},
    "QwenImageTransformer2DModel": {"dim": 16 + 56 + 56, "base": 10000.0},
    "HunyuanVideoTransformer3DModel": {"dim": 16 + 56 + 56, "base": 256.0},
    "WanTransformer3DModel": {"dim": 128, "base": 10000.0},
    "CogVideoXTransformer3DModel": {
        "dim": 30 * 64,
        "grid": (13, 30, 45),
        "grid_scale": (1.0, 1.875, 1.875),
    },
    "SD3Transformer2DModel": {"dim": 18 * 64, "grid": (96, 96), "grid_base": (64.0,)},
    "PixArtTransformer2DModel": {
        "dim": 16 * 72,
        "grid": (64, 64),
        "grid_base": (64.0,),
        "grid_scale": (2.0,),
    },
}
"""What the classes of diffusers 0.42.1 have as defaults of their arguments."""


def test_sizes_that_are_left_out_are_defaults_of_the_diffusers_class() -> None:
    """The expected values are defaults of the arguments in diffusers 0.42.1.

    Flux has no table over positions 0, 1, 2, … but one over a grid.
    """
    for name, expected in LEFT_OUT.items():
        found = load_config({"_class_name": name}).encodings[0].parameters
        assert {key: found[key] for key in expected} == expected
    assert (
        run(["rope", "--model", "flux.1-dev", "--seq-len", "4"]) == 2
    )  # no table over positions 0, 1, 2, …
    assert run(["rope", "--model", "flux.1-dev", "--grid", "2x2", "-q"]) == 0


def test_pixart_stretches_its_grid(tmp_path: Path) -> None:
    """A point i is at i · (64 / 64) / 2; columns have the first half of the channels, sines before
    cosines.
    """
    command = commands(
        load_config({"_class_name": "PixArtTransformer2DModel"}), "--config config.json"
    )[0]
    words = shlex.split(command)[1:-1]

    assert run([*words, str(tmp_path / "pe.npy"), "-q"]) == 0

    row, column, k = 63, 5, np.arange(288)
    angles = [place / 2 * 10000.0 ** (-k / 288) for place in (column, row)]
    expected = np.concatenate([part for angle in angles for part in (np.sin(angle), np.cos(angle))])

    assert np.allclose(np.load(tmp_path / "pe.npy")[64 * row + column], expected, atol=1e-6)
