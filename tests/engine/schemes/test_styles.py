"""Styles of tables on grids against tables by other libraries' own code (tests/tools/make_data.py makes them)."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pecli
from pecli import Rope, Sinusoidal
from pecli.cli.app import run
from pecli.engine.schemes.scheme import Scheme

DATA = Path(__file__).parent / "data" / "styles.npz"
COMMANDS = {
    "flux2": "rope --grid 4x5 --dim 32 --style flux2 --keep 3 --layout interleaved",
    "z-image": "rope --grid 4x5 --dim 32 --style z-image --keep 32",
    "lumina2": "rope --grid 4x5 --dim 24 --style lumina2 --keep 3",
    "hidream": "rope --grid 4x5 --dim 32 --style hidream --keep 2",
    "qwen-image-2.1": "rope --grid 4x5 --dim 32 --style qwen-image-2.1 --keep 3",
    "ltx": "rope --grid 3x4x5 --dim 32 --style ltx --layout interleaved",
    "ltx2": "rope --grid 3x4x5 --dim 32 --style ltx2 --layout interleaved",
    "kandinsky5": "rope --grid 3x4x5 --dim 32 --style kandinsky5 --grid-scale 1,2,2",
    "pixel": "rope --grid 4x6 --dim 32 --style pixel --layout interleaved",
    "timm-pixel": "rope --grid 4x6 --dim 32 --style timm-pixel --layout interleaved",
    "cogview4": "rope --grid 4x7 --dim 32 --style cogview4 --layout halves",
    "glm-image": "rope --grid 4x7 --dim 32 --style glm-image --layout halves",
    "hunyuan-image": "rope --grid 4x7 --dim 32 --style hunyuan-image --layout interleaved",
    "hunyuan-video-1.5": "rope --grid 3x4x5 --dim 32 --style hunyuan-video --layout interleaved",
    "cosmos": "rope --grid 3x4x5 --dim 32 --style cosmos --layout halves",
    "cosmos-fps": "rope --grid 3x4x5 --dim 32 --style cosmos --axis-factors 1,3,3 --grid-scale 0.5,1,1 --layout halves",
    "wan-animate": "rope --grid 3x4x5 --dim 32 --style wan --layout interleaved",
    "skyreels-v2": "rope --grid 3x4x5 --dim 32 --style wan --layout interleaved",
    "positional-encodings-2d": "sinusoidal --grid 4x5 --dim 32 --style positional-encodings-2d",
    "positional-encodings-3d": "sinusoidal --grid 3x4x5 --dim 32 --style positional-encodings-3d",
}
IN_FLOAT32 = {"ltx": 2e-3, "ltx2": 2e-3}
"""How far angles of 15,000 radians are off, which the library has in float32; others are within 1e-4."""


def tables_of(name: str) -> dict[str, np.ndarray]:
    with np.load(DATA) as data:
        return {key.partition("/")[2]: data[key] for key in data if key.startswith(f"{name}/")}


def scheme_of(name: str, **changes: Any) -> Scheme:
    """What the command makes, with other parameters."""
    words, parameters = shlex.split(COMMANDS[name]), {}
    kind = Rope if words[0] == "rope" else Sinusoidal
    for option, value in zip(words[1::2], words[2::2], strict=True):
        key = option.removeprefix("--").replace("-", "_")
        parameters[key] = kind.parameters()[key].parse(key, value)
    return kind(**{**parameters, **changes})


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.sample(5)
def test_tables_are_made_verified_and_identified(name: str, tmp_path: Path) -> None:
    file, made = tmp_path / "theirs.npz", tmp_path / "made.npz"
    theirs, words, slack = tables_of(name), shlex.split(COMMANDS[name]), IN_FLOAT32.get(name, 1e-4)
    np.savez(file, **theirs)
    for command in ([*words, "-o", made], [*words, "--verify", file, "--atol", slack], ["verify", made]):
        assert run([*map(str, command), "-q"]) == 0
    match = pecli.identify(file).matches[0].scheme
    for tensor, table in match.tables().items():
        if tensor in ("cos", "sin", "pe"):
            np.testing.assert_allclose(table, scheme_of(name).tables()[tensor], rtol=0, atol=4e-6)


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.sample(4)
def test_a_wrong_theta_is_named(name: str) -> None:
    right = scheme_of(name)
    result = pecli.verify(tables_of(name), scheme_of(name, base=2.5 * right.base), atol=IN_FLOAT32.get(name, 1e-4))
    assert not result
    assert f"base is {right.base:g} (the spec says {2.5 * right.base:g})" in " ".join(result.diagnosis)


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.sample(4)
def test_rows_where_columns_should_be_are_named(name: str) -> None:
    """Row (a, b) of the transposed grid has the values of row (b, a): what follows rows follows columns."""
    *time, height, width = scheme_of(name).grid
    points, kept = np.prod((*time, height, width)), scheme_of(name).keep or 0
    first = 0 if name in ("z-image", "hidream") else kept
    order = np.arange(points).reshape(-1, height, width).swapaxes(1, 2).reshape(-1) + first
    rows = np.r_[np.arange(first), order, np.arange(first + points, kept + points)]
    spec = scheme_of(name, grid=(*time, width, height))
    result = pecli.verify(
        {tensor: table[rows] for tensor, table in tables_of(name).items()}, spec, atol=IN_FLOAT32.get(name, 1e-4)
    )
    assert not result
    known = {"glm-image": "style is sam2", "positional-encodings-2d": "style is mae"}  # whose axes are w and h
    assert re.search(known.get(name, "positions are those of the axes (t,)?w,h"), " ".join(result.diagnosis))


HEAD = {"attention_head_dim": 32}
CLASSES: dict[str, dict[str, Any]] = {
    "flux2": {"_class_name": "Flux2Transformer2DModel", "axes_dims_rope": [8] * 4},
    "z-image": {"_class_name": "ZImageTransformer2DModel", "axes_dims": [8, 12, 12]},
    "lumina2": {"_class_name": "Lumina2Transformer2DModel", "axes_dim_rope": [8] * 3},
    "hidream": {"_class_name": "HiDreamImageTransformer2DModel", "axes_dims_rope": [16, 8, 8]},
    "qwen-image-2.1": {"_class_name": "QwenImage21Transformer2DModel", "axes_dims_rope": [4, 14, 14]},
    "kandinsky5": {"_class_name": "Kandinsky5Transformer3DModel", "axes_dims": [8, 12, 12]},
    "ltx": {"_class_name": "LTXVideoTransformer3DModel", "num_attention_heads": 4, "attention_head_dim": 8},
    "ltx2": {"_class_name": "LTX2VideoTransformer3DModel", "num_attention_heads": 4, "attention_head_dim": 8},
    "cogview4": {"_class_name": "CogView4Transformer2DModel", **HEAD},
    "glm-image": {"_class_name": "GlmImageTransformer2DModel", **HEAD},
    "hunyuan-image": {"_class_name": "HunyuanImageTransformer2DModel", "rope_axes_dim": [16, 16]},
    "hunyuan-video-1.5": {"_class_name": "HunyuanVideo15Transformer3DModel", "rope_axes_dim": [4, 14, 14]},
    "cosmos": {"_class_name": "CosmosTransformer3DModel", **HEAD},
    "cosmos-fps": {"_class_name": "CosmosTransformer3DModel", "rope_scale": [1.0, 3.0, 3.0], **HEAD},
    "wan-animate": {"_class_name": "WanAnimateTransformer3DModel", **HEAD},
    "skyreels-v2": {"_class_name": "SkyReelsV2Transformer3DModel", **HEAD},
}


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.sample(4)
def test_the_configuration_of_a_class_has_its_style(name: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CLASSES[name]))
    np.savez(tmp_path / "theirs.npz", **tables_of(name))
    words = shlex.split(COMMANDS[name])
    place = [word for k, word in enumerate(words) if {words[k - 1], word} & {"--grid", "--keep", "--grid-scale"}]
    words = ["rope", "--verify", str(tmp_path / "theirs.npz"), "--config", str(tmp_path / "config.json"), *place, "-q"]
    assert run([*words, "--atol", str(IN_FLOAT32.get(name, 1e-4))]) == 0
    assert run([*words, "--atol", "1e-4", "--theta", "777"]) == 1


def test_grids_with_axes_need_no_style() -> None:
    """What follows rows and columns has channels of its own; time is 0 in an image."""
    turned = np.exp(1j * np.array([[0, 0, h, w, w / 100] for h in range(2) for w in range(3)]))
    tables = Rope(grid=(2, 3), axes=(4, 2, 4), dtype="float64").tables()
    np.testing.assert_allclose(tables["cos"] + 1j * tables["sin"], turned, rtol=0, atol=1e-15)
    tables = Rope(grid=(2, 3), axes=(2, 4), dtype="float64").tables()
    np.testing.assert_allclose(tables["cos"] + 1j * tables["sin"], turned[:, 2:], rtol=0, atol=1e-15)


def test_channels_beyond_the_dim_are_cut() -> None:
    """positional-encodings 6.0.3 with 3 axes has 12 channels for each where dim is 32."""
    tables = {
        dim: Sinusoidal(grid=(2, 3, 2), dim=dim, style="positional-encodings-3d").tables()["pe"] for dim in (31, 36)
    }
    np.testing.assert_array_equal(tables[31], tables[36][:, :31])
