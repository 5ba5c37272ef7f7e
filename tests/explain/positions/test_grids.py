"""Tables on grids of images and videos: recognised without a spec, and explained if they differ
from one.

Axes are t, h, w (time, row, column). A style is a project's rule which channels follow which axis.
Expected tables are those of other projects' own code (engine/schemes/data/grids), or NumPy's
cosines and sines of position · base^(-2i/d) per axis (`tables_on_axes`); expected words are written
by hand. `spec` is what the table should be.
"""

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pecli
from pecli import Rope, Sinusoidal
from pecli.cli.app import run
from pecli.engine.schemes.scheme import Scheme
from tests.exit_codes import CHECK_FAILED, SUCCESS

DATA = Path(__file__).parent.parent.parent / "engine" / "schemes" / "data" / "grids"
INDEX = json.loads((DATA / "index.json").read_text())
STYLES_WITHOUT_A_GRID = ("t5", "deberta", "swin", "timesteps", "mrope")
"""Tables of integers, and tables at positions of their own: they are compared with a spec, and not identified."""


@pytest.mark.parametrize(
    "name", [name for name in INDEX if not name.startswith(STYLES_WITHOUT_A_GRID)]
)
@pytest.mark.sample(3)
def test_tables_of_other_projects_are_recognised(name: str, tmp_path: Path) -> None:
    """The tables were made by transformers, diffusers and others (see the data's index.json); the
    command that identify prints must make them again within 1e-4.
    """
    found = pecli.identify(DATA / f"{name}.npz")
    assert found.identified

    words = shlex.split(found.matches[0].command)[1:]
    again = tmp_path / "again.npz"
    assert run([*words[: words.index("-o")], "-q", "-o", str(again)]) == 0

    made = np.load(again)
    theirs = np.load(DATA / f"{name}.npz")
    for tensor in theirs:
        np.testing.assert_allclose(made[tensor], theirs[tensor], rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    "scheme",
    [
        Sinusoidal(grid=(14, 14), dim=96, style="mae", keep=1, base=500.0),
        Sinusoidal(grid=(8, 6), dim=48, style="detr"),
        Sinusoidal(8, 64, relative=True),
        Rope(grid=(3, 4, 5), dim=32, style="cosmos", axis_factors=(1.0, 1.7, 2.5)),
        Rope(grid=(16, 8), dim=64, style="qwen2-vl"),
        Rope(grid=(2, 8, 4), dim=96, style="hunyuan-video"),
        Rope(grid=(5, 9), dim=32, style="dinov3", layout="halves"),
        Rope(grid=(7, 7), dim=64, style="eva"),
        Rope(grid=(16, 12), dim=16, style="pixel", base=7.0),
        Rope(grid=(3, 4, 5), dim=32, style="ltx", base=3000.0),
    ],
)
@pytest.mark.sample("scheme4", "scheme7")
def test_schemes_on_grids_are_identified_from_their_own_tables(scheme: Scheme) -> None:
    """identify sees the tables only: the scheme that it finds makes them within 1e-5, float32
    rounding of the angles, and has the same base, axis factors and kind of positions.
    """
    match = pecli.identify(scheme.tables()).matches[0].scheme
    made, wanted = match.tables(), scheme.tables()
    for name in wanted.keys() & {"pe", "cos", "sin", "index"}:
        np.testing.assert_allclose(made[name], wanted[name], rtol=0, atol=1e-5)

    for name in ("base", "axis_factors", "relative"):
        assert getattr(match, name, 0) == getattr(scheme, name, 0)


def test_no_base_is_claimed_of_points_that_are_whole_turns_apart() -> None:
    """In the style pixel, the angles of neighbouring points are many turns apart: at 4 × 6 points,
    waves of other bases look the same as those of base 37, so `identify` may claim nothing.
    """
    tables = Rope(grid=(4, 6), dim=32, style="pixel", base=37.0).tables()
    assert pecli.identify({name: tables[name] for name in ("cos", "sin")}).matches == ()


def test_a_short_table_in_bfloat16_is_not_taken_for_one_on_a_grid() -> None:
    """16 rows at positions (7 + row) · 0.11, rounded to 8 bits: the offset and scale are found, and
    no positions of a grid.
    """
    tables = Sinusoidal(16, 32, offset=7, scale=0.11, dtype="bfloat16").tables()
    scheme: Any = pecli.identify(tables).matches[0].scheme

    assert scheme.positions is None
    assert scheme.offset == 7
    assert scheme.scale == 0.11


def reasons_of_verify(found: Scheme, spec: Scheme) -> str:
    tables = {
        name: table for name, table in found.tables().items() if name not in ("inv_freq", "axis")
    }
    result = pecli.verify(tables, spec, atol=1e-4)
    assert not result.passed
    return " ".join(result.diagnosis)


MROPE_POSITIONS = np.load(DATA / "mrope-positions.npy")
MROPE = {"dim": 128, "theta": 1e6, "mrope_section": (16, 24, 24)}


@pytest.mark.parametrize(
    ("found", "spec", "words"),
    [
        (Sinusoidal(grid=(6, 4), dim=32, style="mae"), Sinusoidal(grid=(4, 6), dim=32, style="mae"), "grid is 6x4"),
        (Sinusoidal(grid=(4, 6), dim=32, style="vit-mae", base=500.0),
            Sinusoidal(grid=(4, 6), dim=32, style="mae", base=500.0), "style is vit-mae (the spec says mae)"),
        (Sinusoidal(grid=(4, 4), dim=32, style="mae"), Sinusoidal(grid=(4, 4), dim=32, style="mae", keep=1),
            "keep is 0 (the spec says 1)"),
        (Sinusoidal(grid=(6, 6), dim=32, style="sd3", grid_base=(4.0,)),
            Sinusoidal(grid=(6, 6), dim=32, style="sd3", grid_base=(8.0,)), "grid_base is 4 (the spec says 8)"),
        (Rope(positions=MROPE_POSITIONS[[0, 2, 1]], **MROPE), Rope(positions=MROPE_POSITIONS, **MROPE),
            "positions are those of the axes t,w,h (the spec says t,h,w)"),
        (Rope(positions=MROPE_POSITIONS, **{**MROPE, "mrope_section": (24, 24, 16)}), Rope(positions=MROPE_POSITIONS, **MROPE),
            "mrope_section is 24,24,16 (the spec says 16,24,24)"),
        (Rope(positions=MROPE_POSITIONS, **MROPE, mrope_interleaved=True), Rope(positions=MROPE_POSITIONS, **MROPE),
            "M-RoPE sections are interleaved, where the model has them one after the other"),
    ],
)  # fmt: skip
def test_another_parameter_of_a_grid_is_named(found: Scheme, spec: Scheme, words: str) -> None:
    """The first scheme makes the table, the second is the spec; `words` are a part of the reason.
    For example, rows and columns of Qwen2-VL's positions (t, h, w) are exchanged.
    """
    assert words in reasons_of_verify(found, spec)


def test_exchanged_rows_and_columns_of_a_grid_are_named() -> None:
    """In a grid of 3 × 5 points, channels of the row hold its column, and those of the column its
    row; DETR's coordinates are scaled to 2π along each axis.
    """
    right = Sinusoidal(grid=(3, 5), dim=32, style="detr")
    values = right.coordinates().values
    places = [[values[0][h], values[1][w]] for h in range(3) for w in range(5)]
    exchanged = Sinusoidal(
        positions=[[w for _, w in places], [h for h, _ in places]], dim=32, style="detr"
    )

    assert "positions are those of the axes w,h (the spec says h,w)" in reasons_of_verify(
        exchanged, right
    )


H, W = (axis.reshape(-1) for axis in np.indices((8, 12)))
ROWS = np.arange(96)
FLUX = Rope(grid=(8, 12), dim=128, style="flux")
SAM2 = Rope(grid=(8, 12), dim=64, style="sam2")
AXES = Rope(grid=(8, 12), dim=128, axes=(32, 48, 48), style="flux")


def tables_on_axes(
    *axes: tuple[np.ndarray, int], base: float = 10000.0, over: int = 0
) -> dict[str, np.ndarray]:
    waves = [
        np.outer(places, base ** (-np.arange(0, dim, 2) / (over or dim))) for places, dim in axes
    ]
    angles = np.concatenate(waves, axis=1)
    return {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}


def with_reversed_columns(tables: dict[str, np.ndarray], *pairs: int) -> dict[str, np.ndarray]:
    """Columns in reverse order within parts of so many."""
    ends = np.cumsum(pairs)[:-1]
    return {
        k: np.concatenate([part[:, ::-1] for part in np.split(t, ends, axis=1)], 1)
        for k, t in tables.items()
    }


LARGE_H, LARGE_W = (axis.reshape(-1) for axis in np.indices((64, 64)))
LARGE = tables_on_axes((LARGE_W, 32), (LARGE_H, 32))
LARGE_SAM2 = Rope(grid=(64, 64), dim=64, style="sam2")
HALVES = {name: np.tile(with_reversed_columns(LARGE, 16, 16)[name], 2) for name in LARGE}


@pytest.mark.parametrize(
    ("tables", "spec", "words"),
    [
        (with_reversed_columns(LARGE, 16, 16), LARGE_SAM2, "channels are in reverse order along each axis"),
        (HALVES, replace(LARGE_SAM2, layout="halves"), "channels are in reverse order along each axis"),
        (with_reversed_columns(LARGE, 32), LARGE_SAM2, "channels are in reverse order"),
        (tables_on_axes((LARGE_W, 32), (LARGE_H, 32), base=500.0), LARGE_SAM2, "base is 500 (the spec says 10000)"),
        (with_reversed_columns(tables_on_axes((0 * H, 16), (H, 56), (W, 56)), 8, 28, 28), FLUX,
            "channels are in reverse order along each axis"),
        (tables_on_axes((0 * H, 16), (W, 56), (H, 56)), FLUX, "positions are those of the axes t,w,h (the spec says t,h,w)"),
        (tables_on_axes((0 * H, 16), (H, 56), (W + 1, 56)), FLUX, "positions along w are off by 1"),
        (tables_on_axes((0 * H + 1, 16), (H, 56), (W, 56)), FLUX, "positions along t are off by 1"),
        (tables_on_axes((W + 0.5, 32), (H + 0.5, 32)), SAM2, "positions along h and w are off by 0.5"),
        (tables_on_axes((W, 32), (H - 1, 32)), SAM2, "positions along h are off by -1"),
        (tables_on_axes((0 * H, 16), (W % 5, 56), (H, 56)), FLUX, "positions are not those of the grid"),
        (tables_on_axes((ROWS, 32), (ROWS, 32)), SAM2, "positions are 0, 1, 2, …, not those of the grid"),
        (tables_on_axes((0 * H, 16), (ROWS, 56), (ROWS, 56)), FLUX, "positions are 0, 1, 2, …, not those of the grid"),
        (tables_on_axes((W, 32), (H, 32), over=64), SAM2, "frequencies are over 64 channels (the spec says 32)"),
        (tables_on_axes((0 * H, 32), (H, 48), (W, 48), over=128), AXES,
            "frequencies are over 128 channels (the spec says 32,48,48)"),
        (tables_on_axes((0 * H, 32), (H, 48), (W, 48), base=1e6), AXES, "base is 1000000 (the spec says 10000)"),
        (tables_on_axes((0 * H, 16), (H, 56), (W, 56)), Rope(grid=(8, 12), dim=128, style="flux", grid_scale=(2.0,)),
            "grid_scale is none (the spec says 2)"),
    ],
)  # fmt: skip
@pytest.mark.sample(3)
def test_wrong_positions_along_the_axes_of_a_grid_are_named(
    tables: dict[str, np.ndarray], spec: Scheme, words: str
) -> None:
    """Tables are computed by NumPy from positions and channels per axis; H and W are rows and
    columns of a grid of 8 × 12. For example, (W + 1, 56) gives 56 channels the column plus one:
    «positions along w are off by 1».
    """
    reason = pecli.verify(tables, spec, atol=1e-4).diagnosis[0]
    assert reason.startswith(f"cos, sin: {words};")


@pytest.mark.parametrize(
    ("places", "base", "words"),
    [
        ([40000], 1e6, "positions start at 40,000 (the spec says 0)"),
        ([100, 101], 1e6, "positions start at 100 (the spec says 0)"),
        ([100, 57, 8], 1e6, "positions are 100, then 57, then 8; expected 0 … 2"),
        ([0, 1, 2], 500.0, "base is 500 (the spec says 1000000)"),
        (
            [7, 8, 9, 10],
            500.0,
            "base is 500 (the spec says 1000000), and positions start at 7 (the spec says 0)",
        ),
    ],
)
@pytest.mark.sample(2)
def test_wrong_positions_of_a_few_rows_are_along_one_axis(
    places: list[int], base: float, words: str
) -> None:
    """One to four rows fit several explanations: two axes of base 1000, a thousandth of each
    position along the second, would do as well as one axis of base 10^6. Only positions that do not
    count up are printed in the command.
    """
    tables = tables_on_axes((np.array(places), 128), base=base)
    why, command = pecli.verify(tables, Rope(len(places), 128, 1e6), atol=1e-3).diagnosis

    assert why.startswith(f"cos, sin: {words};")
    assert ("--positions 100,57,8" in command) == (places == [100, 57, 8])


@pytest.mark.parametrize(("first", "rows", "base"), [(100, 2, 1e6), (0, 3, 500.0), (7, 4, 500.0)])
def test_few_consecutive_rows_are_identified(first: int, rows: int, base: float) -> None:
    """NumPy's table of two to four positions; its base and first position are found."""
    tables = tables_on_axes((np.arange(first, first + rows), 128), base=base)
    scheme: Any = pecli.identify(tables).matches[0].scheme

    assert scheme.base == base
    assert scheme.offset == first
    np.testing.assert_allclose(scheme.tables()["sin"], tables["sin"], rtol=0, atol=1e-6)


def test_three_rows_along_two_axes_are_not_identified() -> None:
    """Points (0, 0), (0, 1) and (1, 0): three rows fit too many grids."""
    tables = tables_on_axes((np.array([0, 0, 1]), 64), (np.array([0, 1, 0]), 64))
    assert not pecli.identify(tables).matches


@pytest.mark.thorough
def test_three_rows_along_two_axes_have_no_reason() -> None:
    """Points (0, 0), (0, 1) and (1, 0), where positions 0, 1, 2 are expected: three rows fit too
    many grids.
    """
    tables = tables_on_axes((np.array([0, 0, 1]), 64), (np.array([0, 1, 0]), 64))
    assert not pecli.verify(tables, Rope(3, 128), atol=1e-3).explanations


@pytest.fixture
def verify_qwen(tmp_path: Path) -> list[str]:
    """Return the command that verifies the dump of Qwen2.5-VL, without its positions."""
    config = {
        "model_type": "qwen2_5_vl",
        "hidden_size": 2048,
        "num_attention_heads": 16,
        "rope_theta": 1e6,
    }
    config["rope_scaling"] = {"type": "mrope", "mrope_section": [16, 24, 24]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    dump = str(DATA / "mrope-qwen2.5-vl.npz")
    return ["verify", dump, "--config", str(tmp_path / "config.json"), "--atol", "1e-4"]


def test_a_dump_of_qwen_passes_at_the_positions_of_its_image(verify_qwen: list[str]) -> None:
    """The dump is of transformers' own code, with an image in the middle, at positions (t, h, w)."""
    positions = str(DATA / "mrope-positions.npy")
    assert run([*verify_qwen, "--positions", positions]) == SUCCESS


def test_a_dump_of_qwen_fails_at_positions_with_rows_and_columns_exchanged(
    verify_qwen: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file has the right positions in the order t, w, h."""
    np.save(tmp_path / "wrong.npy", MROPE_POSITIONS[[0, 2, 1]])

    assert run([*verify_qwen, "--positions", str(tmp_path / "wrong.npy")]) == CHECK_FAILED
    assert "positions are those of the axes t,w,h (the spec says t,h,w)" in capsys.readouterr().out


def test_a_dump_of_qwen_does_not_pass_at_positions_for_other_tokens(
    verify_qwen: list[str],
) -> None:
    """`pecli verify` with the positions 0, 1 and 2: the dump has more than three rows."""
    assert run([*verify_qwen, "--positions", "0,1,2"]) != SUCCESS


def video_angles(grid: tuple[int, ...], axes: tuple[int, ...], base: float) -> np.ndarray:
    """Return the angles of a grid by the formula of video models: each axis has frequencies of its own."""
    places = np.indices(grid).reshape(len(grid), -1)
    blocks = []
    for place, channels in zip(places, axes, strict=True):
        frequencies = base ** (-np.arange(0, channels, 2) / channels)
        blocks.append(np.outer(place, frequencies))
    return np.hstack(blocks)


@pytest.mark.parametrize(
    ("grid", "expected", "found"),
    [
        ((4, 6, 8), (16, 24, 24), (24, 24, 16)),
        ((3, 5, 5), (16, 24, 24), (24, 20, 20)),
        ((2, 7, 9), (8, 28, 28), (16, 24, 24)),
        ((9, 6), (32, 32), (24, 40)),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.sample(2)
def test_other_numbers_of_channels_per_axis_are_named(
    grid: tuple[int, ...], expected: tuple[int, ...], found: tuple[int, ...], dtype: str
) -> None:
    """The table has `found` channels for each axis, by the formula of video models in NumPy, and
    the spec `expected` ones: one mistake, the parameter axes.
    """
    angles = video_angles(grid, found, 10000.0)
    tables = {"cos": np.cos(angles).astype(dtype), "sin": np.sin(angles).astype(dtype)}
    spec = Rope(grid=grid, dim=sum(expected), axes=expected)
    (first, *_) = pecli.verify(tables, spec, atol=1e-6).explanations

    assert [edit.as_json()["found"] for edit in first.mistakes] == [list(found)]


@pytest.mark.parametrize(
    ("options", "base"),
    [
        ({"grid": (4, 6, 8), "axes": (16, 24, 24)}, 256.0),
        ({"grid": (2, 9, 7), "style": "cogvideox"}, 256.0),
        ({"grid": (2, 9, 7), "style": "flux"}, 2000.0),
        ({"grid": (9, 7), "style": "eva"}, 256.0),
    ],
)
@pytest.mark.sample(2)
def test_another_base_of_a_grid_is_not_called_another_style(
    options: dict[str, Any], base: float
) -> None:
    """Other styles have other bases, so that two parameters could explain the table; the base alone
    is the shorter reason.
    """
    spec = Rope(dim=64, **options)
    channels = tuple(block.channels for block in spec.axis_blocks)
    angles = video_angles(options["grid"], channels, base)
    tables = {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}
    result = pecli.verify(tables, spec, atol=1e-6)

    assert f"base is {base:.0f} (the spec says 10000)" in result.diagnosis[0]
    assert len(result.explanations[0].mistakes) == 1
