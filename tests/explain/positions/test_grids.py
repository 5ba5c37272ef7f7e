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
from pecli.engine.schemes.axis_blocks import AxisBlock
from pecli.engine.schemes.grid_styles import ADDED
from pecli.engine.schemes.scheme import Scheme
from pecli.explain.grid_recognition import GridPrior
from tests.exit_codes import CHECK_FAILED, SUCCESS

DATA = Path(__file__).parent.parent.parent / "engine" / "schemes" / "data" / "grids"
INDEX = json.loads((DATA / "index.json").read_text())
STYLES_WITHOUT_A_GRID = ("t5", "deberta", "swin", "timesteps", "mrope")
"""Tables of integers, and tables at positions of their own: they are compared with a spec, and not identified."""


@pytest.mark.parametrize(
    "name", [name for name in INDEX if not name.startswith(STYLES_WITHOUT_A_GRID)]
)
@pytest.mark.sample(3)
def test_the_command_of_identify_makes_the_table_of_another_project_again(
    name: str, tmp_path: Path
) -> None:
    """The expected tables are dumps of the own code of transformers, diffusers and others
    (engine/schemes/data/grids, versions in its index.json). `identify` prints a command for each,
    «pecli rope … -o FILE», which must make the dump's numbers within 1e-4.
    """
    result = pecli.identify(DATA / f"{name}.npz")
    assert result.identified

    program, *words = shlex.split(result.matches[0].command)
    assert program == "pecli"

    words_without_output = words[: words.index("-o")]
    remade = tmp_path / "remade.npz"
    assert run([*words_without_output, "-q", "-o", str(remade)]) == SUCCESS

    ours = np.load(remade)
    theirs = np.load(DATA / f"{name}.npz")
    for tensor in theirs:
        np.testing.assert_allclose(ours[tensor], theirs[tensor], rtol=0, atol=1e-4)


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
@pytest.mark.sample("scheme2", "scheme3", "scheme4", "scheme7", "scheme8")
def test_schemes_on_grids_are_identified_from_their_own_tables(scheme: Scheme) -> None:
    """A round trip: `identify` is given the tables of `scheme`, and nothing else. The scheme that it
    finds must make the same tables within 1e-5 (float32 rounding of the angles), and have the same
    base, axis factors and kind of positions.
    """
    found = pecli.identify(scheme.tables()).matches[0].scheme
    found_tables = found.tables()
    tables = scheme.tables()
    for name in tables.keys() & {"pe", "cos", "sin", "index"}:
        np.testing.assert_allclose(found_tables[name], tables[name], rtol=0, atol=1e-5)

    for parameter in ("base", "axis_factors", "relative"):
        assert getattr(found, parameter, 0) == getattr(scheme, parameter, 0)


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
        pytest.param(Sinusoidal(grid=(6, 4), dim=32, style="mae"), Sinusoidal(grid=(4, 6), dim=32, style="mae"), "grid is 6x4", id="grid"),
        pytest.param(Sinusoidal(grid=(4, 6), dim=32, style="vit-mae", base=500.0),
            Sinusoidal(grid=(4, 6), dim=32, style="mae", base=500.0), "style is vit-mae (the spec says mae)", id="style"),
        pytest.param(Sinusoidal(grid=(4, 4), dim=32, style="mae"), Sinusoidal(grid=(4, 4), dim=32, style="mae", keep=1),
            "keep is 0 (the spec says 1)", id="keep"),
        pytest.param(Sinusoidal(grid=(6, 6), dim=32, style="sd3", grid_base=(4.0,)),
            Sinusoidal(grid=(6, 6), dim=32, style="sd3", grid_base=(8.0,)), "grid_base is 4 (the spec says 8)", id="grid_base"),
        pytest.param(Rope(grid=(4, 5), dim=32, style="eva", axis_factors=(1.0, 3.0)),
            Rope(grid=(4, 5), dim=32, style="eva", axis_factors=(1.0, 2.0)), "axis_factors is 1,3 (the spec says 1,2)", id="axis_factors"),
        pytest.param(Rope(positions=MROPE_POSITIONS[[0, 2, 1]], **MROPE), Rope(positions=MROPE_POSITIONS, **MROPE),
            "positions are those of the axes t,w,h (the spec says t,h,w)", id="axes exchanged"),
        pytest.param(Rope(positions=MROPE_POSITIONS, **{**MROPE, "mrope_section": (24, 24, 16)}), Rope(positions=MROPE_POSITIONS, **MROPE),
            "mrope_section is 24,24,16 (the spec says 16,24,24)", id="mrope_section"),
        pytest.param(Rope(positions=MROPE_POSITIONS, **MROPE, mrope_interleaved=True), Rope(positions=MROPE_POSITIONS, **MROPE),
            "M-RoPE sections are interleaved, where the model has them one after the other", id="mrope_interleaved"),
    ],
)  # fmt: skip
def test_another_parameter_of_a_grid_is_named(found: Scheme, spec: Scheme, words: str) -> None:
    """The table that is checked is made by `found`, and `spec` is what it should be: they differ in
    one parameter, which `words` name. MROPE is Qwen2-VL's base 10^6 and its sections of 16, 24 and
    24 channels for time, row and column (t, h, w).
    """
    assert words in reasons_of_verify(found, spec)


def test_the_row_of_a_class_token_is_no_difference_from_a_grid() -> None:
    """Both tables of 4 × 4 points begin with MAE's row of zeros for a class token (keep 1). Only the
    base of the others differs, 500 for 10000, so that every row is explained exactly.
    """
    found = Sinusoidal(grid=(4, 4), dim=32, style="mae", keep=1, base=500.0)
    spec = Sinusoidal(grid=(4, 4), dim=32, style="mae", keep=1)

    assert "base is 500 (the spec says 10000); exact" in reasons_of_verify(found, spec)


def test_exchanged_rows_and_columns_of_a_grid_are_named() -> None:
    """A grid of 3 × 5 points: the channels of the row (h) are made of columns, and those of the
    column (w) of rows. DETR's coordinate of row i of 3 is (i + 1)/(3 + 10^-6), of column j of 5
    (j + 1)/(5 + 10^-6).
    """
    row_coordinates = np.arange(1, 4) / (3 + 1e-6)
    column_coordinates = np.arange(1, 6) / (5 + 1e-6)
    h, w = np.meshgrid(row_coordinates, column_coordinates, indexing="ij")
    exchanged = Sinusoidal(positions=[w.ravel().tolist(), h.ravel().tolist()], dim=32, style="detr")

    reasons = reasons_of_verify(exchanged, Sinusoidal(grid=(3, 5), dim=32, style="detr"))
    assert "positions are those of the axes w,h (the spec says h,w)" in reasons


def tables_on_axes(
    *axes: tuple[np.ndarray, int], base: float = 10000.0, denominator: int = 0
) -> dict[str, np.ndarray]:
    """Return cosines and sines by NumPy: for each axis (positions, channels), in the order of the
    axes, the columns position · base^(-2i/channels), or base^(-2i/denominator) if it is given.
    """
    angles_of_axes = []
    for positions, channels in axes:
        frequencies = base ** (-np.arange(0, channels, 2) / (denominator or channels))
        angles_of_axes.append(np.outer(positions, frequencies))
    angles = np.concatenate(angles_of_axes, axis=1)
    return {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}


def with_reversed_columns(tables: dict[str, np.ndarray], *widths: int) -> dict[str, np.ndarray]:
    """Return the tables with columns in reverse order within each of several parts of a row.

    With widths 2, 3 the columns 0 1 2 3 4 become 1 0 4 3 2.
    """
    ends = np.cumsum(widths)[:-1]
    reversed_tables = {}
    for name, table in tables.items():
        parts = [part[:, ::-1] for part in np.split(table, ends, axis=1)]
        reversed_tables[name] = np.concatenate(parts, axis=1)
    return reversed_tables


def repeated_columns(tables: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the tables of the layout halves: all columns, and then all of them again."""
    return {name: np.tile(table, 2) for name, table in tables.items()}


T = np.zeros(96)
"""The time of the 96 points of a grid of 8 rows and 12 columns: 0, as an image is one frame."""

H = np.indices((8, 12))[0].ravel()
"""The row of each point of the grid of 8 × 12: 0 twelve times, then 1 twelve times, …"""

W = np.indices((8, 12))[1].ravel()
"""The column of each point of the grid of 8 × 12: 0, 1, …, 11, 0, 1, …"""

COUNTED = np.arange(96)
"""0, 1, 2, …: the positions of a text of 96 tokens, in place of rows and columns."""

FLUX = Rope(grid=(8, 12), dim=128, style="flux")
"""Flux has the axes t, h, w (time, row, column) with 16, 56 and 56 channels."""

SAM2 = Rope(grid=(8, 12), dim=64, style="sam2")
"""SAM 2 has the axes w, h (column, row) with 32 channels each."""

CHANNELS_32_48_48 = Rope(grid=(8, 12), dim=128, axes=(32, 48, 48), style="flux")
"""Flux's axes t, h, w with other numbers of channels."""

LARGE_H = np.indices((64, 64))[0].ravel()
LARGE_W = np.indices((64, 64))[1].ravel()
LARGE_SAM2_TABLES = tables_on_axes((LARGE_W, 32), (LARGE_H, 32))
"""The right tables of SAM 2's own grid, 64 × 64 points: 16 columns for w, then 16 for h."""

LARGE_SAM2 = Rope(grid=(64, 64), dim=64, style="sam2")


@pytest.mark.parametrize(
    ("tables", "spec", "words"),
    [
        pytest.param(with_reversed_columns(LARGE_SAM2_TABLES, 16, 16), LARGE_SAM2,
            "channels are in reverse order along each axis", id="SAM 2, within each axis"),
        pytest.param(repeated_columns(with_reversed_columns(LARGE_SAM2_TABLES, 16, 16)), replace(LARGE_SAM2, layout="halves"),
            "channels are in reverse order along each axis", id="SAM 2 in the layout halves, within each axis"),
        pytest.param(with_reversed_columns(LARGE_SAM2_TABLES, 32), LARGE_SAM2,
            "channels are in reverse order", id="SAM 2, across the axes"),
        pytest.param(with_reversed_columns(tables_on_axes((T, 16), (H, 56), (W, 56)), 8, 28, 28), FLUX,
            "channels are in reverse order along each axis", id="Flux, within each axis"),
    ],
)  # fmt: skip
@pytest.mark.sample("SAM 2, across the axes", "Flux, within each axis")
def test_reversed_channels_of_a_grid_are_named(
    tables: dict[str, np.ndarray], spec: Scheme, words: str
) -> None:
    """The tables are right ones by NumPy whose columns are reversed: all of them, or those of each
    axis separately. An axis of 32 channels has 16 columns, one for each pair.
    """
    reason = pecli.verify(tables, spec, atol=1e-4).diagnosis[0]
    assert reason.startswith(f"cos, sin: {words};")


@pytest.mark.parametrize(
    ("tables", "spec", "words"),
    [
        pytest.param(tables_on_axes((T, 16), (W, 56), (H, 56)), FLUX,
            "positions are those of the axes t,w,h (the spec says t,h,w)", id="Flux, row and column exchanged"),
        pytest.param(tables_on_axes((T, 16), (H, 56), (W + 1, 56)), FLUX, "positions along w are off by 1", id="Flux, columns from 1"),
        pytest.param(tables_on_axes((T + 1, 16), (H, 56), (W, 56)), FLUX, "positions along t are off by 1", id="Flux, at time 1"),
        pytest.param(tables_on_axes((W + 0.5, 32), (H + 0.5, 32)), SAM2,
            "positions along h and w are off by 0.5", id="SAM 2, centres of patches"),
        pytest.param(tables_on_axes((W, 32), (H - 1, 32)), SAM2, "positions along h are off by -1", id="SAM 2, rows from -1"),
        pytest.param(tables_on_axes((T, 16), (W % 5, 56), (H, 56)), FLUX, "positions are not those of the grid", id="Flux, columns modulo 5 as rows"),
        pytest.param(tables_on_axes((COUNTED, 32), (COUNTED, 32)), SAM2,
            "positions are 0, 1, 2, …, not those of the grid", id="SAM 2, counted points"),
        pytest.param(tables_on_axes((T, 16), (COUNTED, 56), (COUNTED, 56)), FLUX,
            "positions are 0, 1, 2, …, not those of the grid", id="Flux, counted points"),
    ],
)  # fmt: skip
@pytest.mark.sample("SAM 2, rows from -1")
def test_wrong_positions_along_the_axes_of_a_grid_are_named(
    tables: dict[str, np.ndarray], spec: Scheme, words: str
) -> None:
    """`tables_on_axes((W, 32), (H, 32))` is NumPy's table of 32 channels at positions W beside 32 at
    positions H, which is right for SAM 2; Flux has the axes t, h, w. So (W + 1, 56) in place of
    (W, 56) is «positions along w are off by 1».
    """
    reason = pecli.verify(tables, spec, atol=1e-4).diagnosis[0]
    assert reason.startswith(f"cos, sin: {words};")


@pytest.mark.parametrize(
    ("tables", "spec", "words"),
    [
        pytest.param(tables_on_axes((LARGE_W, 32), (LARGE_H, 32), base=500.0), LARGE_SAM2,
            "base is 500 (the spec says 10000)", id="SAM 2, base"),
        pytest.param(tables_on_axes((T, 32), (H, 48), (W, 48), base=1e6), CHANNELS_32_48_48,
            "base is 1000000 (the spec says 10000)", id="three axes, base"),
        pytest.param(tables_on_axes((W, 32), (H, 32), denominator=64), SAM2,
            "frequencies are over 64 channels (the spec says 32)", id="SAM 2, exponents over the whole dim"),
        pytest.param(tables_on_axes((T, 32), (H, 48), (W, 48), denominator=128), CHANNELS_32_48_48,
            "frequencies are over 128 channels (the spec says 32,48,48)", id="three axes, exponents over the whole dim"),
        pytest.param(tables_on_axes((T, 16), (H, 56), (W, 56)), Rope(grid=(8, 12), dim=128, style="flux", grid_scale=(2.0,)),
            "grid_scale is none (the spec says 2)", id="Flux, positions not doubled"),
    ],
)  # fmt: skip
@pytest.mark.sample("Flux, positions not doubled")
def test_wrong_frequencies_or_scale_of_a_grid_are_named(
    tables: dict[str, np.ndarray], spec: Scheme, words: str
) -> None:
    """The tables are NumPy's at the right rows and columns. An axis of 32 channels should have the
    frequencies 10000^(-2i/32): the base is another, or the exponent is -2i over the whole dim
    instead. The scheme of the last case expects all positions times 2.
    """
    reason = pecli.verify(tables, spec, atol=1e-4).diagnosis[0]
    assert reason.startswith(f"cos, sin: {words};")


@pytest.mark.parametrize(
    ("positions", "base", "words"),
    [
        pytest.param([40000], 1e6, "positions start at 40,000 (the spec says 0)", id="one row"),
        pytest.param([100, 101], 1e6, "positions start at 100 (the spec says 0)", id="two rows"),
        pytest.param(
            [100, 57, 8],
            1e6,
            "positions are 100, then 57, then 8; expected 0 … 2",
            id="three rows in no order",
        ),
        pytest.param([0, 1, 2], 500.0, "base is 500 (the spec says 1000000)", id="another base"),
        pytest.param(
            [7, 8, 9, 10],
            500.0,
            "base is 500 (the spec says 1000000), and positions start at 7 (the spec says 0)",
            id="another base and start",
        ),
    ],
)
@pytest.mark.sample("another base and start")
def test_wrong_positions_of_a_few_rows_are_along_one_axis(
    positions: list[int], base: float, words: str
) -> None:
    """So few rows also fit some grid of two axes, but the reason is the simpler one: the base and the
    positions of a text, as far as they differ from base 10^6 and positions 0, 1, 2, …
    """
    tables = tables_on_axes((np.array(positions), 128), base=base)
    spec = Rope(len(positions), 128, 1e6)
    reason = pecli.verify(tables, spec, atol=1e-3).diagnosis[0]

    assert reason.startswith(f"cos, sin: {words};")


@pytest.mark.parametrize(
    ("positions", "option"),
    [
        pytest.param([100, 57, 8], "--positions 100,57,8", id="in no order"),
        pytest.param([40000], "--offset 40000", id="one position"),
        pytest.param([100, 101], "--offset 100", id="counting up by one"),
    ],
)
@pytest.mark.sample("in no order")
def test_a_command_lists_positions_only_if_they_do_not_count_up_by_one(
    positions: list[int], option: str
) -> None:
    """The tables are NumPy's at `positions`, where 0, 1, 2, … are expected; the second sentence of
    the diagnosis is the command that makes them.
    """
    tables = tables_on_axes((np.array(positions), 128), base=1e6)
    _, command = pecli.verify(tables, Rope(len(positions), 128, 1e6), atol=1e-3).diagnosis

    assert option in command
    assert ("--positions" in command) == option.startswith("--positions")


@pytest.mark.parametrize(("first", "rows", "base"), [(100, 2, 1e6), (0, 3, 500.0), (7, 4, 500.0)])
def test_base_and_first_position_of_a_few_rows_are_identified(
    first: int, rows: int, base: float
) -> None:
    """NumPy's cosines and sines of 128 channels at `rows` positions from `first` on."""
    tables = tables_on_axes((np.arange(first, first + rows), 128), base=base)
    scheme: Any = pecli.identify(tables).matches[0].scheme

    assert scheme.base == base
    assert scheme.offset == first
    np.testing.assert_allclose(scheme.tables()["sin"], tables["sin"], rtol=0, atol=1e-6)


def test_three_rows_along_two_axes_are_not_identified() -> None:
    """NumPy's table at the points (0, 0), (0, 1) and (1, 0), with 64 channels per axis: three rows
    fit too many grids, so `identify` must claim none.
    """
    tables = tables_on_axes((np.array([0, 0, 1]), 64), (np.array([0, 1, 0]), 64))
    assert not pecli.identify(tables).matches


@pytest.mark.thorough
def test_three_rows_along_two_axes_have_no_reason() -> None:
    """NumPy's table at the points (0, 0), (0, 1) and (1, 0), where positions 0, 1, 2 are expected:
    three rows fit too many grids, so `verify` must not name one of them.
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
    """The dump was made by transformers' own Qwen2.5-VL for a text with an image in the middle. The
    option's file has the positions (t, h, w) that transformers computed for it.
    """
    positions = str(DATA / "mrope-positions.npy")
    assert run([*verify_qwen, "--positions", positions]) == SUCCESS


def test_a_dump_of_qwen_fails_at_positions_with_rows_and_columns_exchanged(
    verify_qwen: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The dump was made by transformers at positions (t, h, w); `verify` is given them in the order
    t, w, h.
    """
    np.save(tmp_path / "wrong.npy", MROPE_POSITIONS[[0, 2, 1]])

    assert run([*verify_qwen, "--positions", str(tmp_path / "wrong.npy")]) == CHECK_FAILED
    assert "positions are those of the axes t,w,h (the spec says t,h,w)" in capsys.readouterr().out


def test_a_dump_of_qwen_fails_at_fewer_positions_than_it_has_rows(
    verify_qwen: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """`pecli verify --positions 0,1,2`: the dump by transformers has 21 rows, one for each token."""
    assert run([*verify_qwen, "--positions", "0,1,2"]) == CHECK_FAILED
    assert "its shape is (21, 128)" in capsys.readouterr().out


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
    """The table has `found` channels for each axis, and the spec `expected` ones: one mistake, the
    parameter axes. The angles are NumPy's: position along the axis · 10000^(-2i/channels of it).
    """
    angles = video_angles(grid, found, base=10000.0)
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
    """The table has `base`, where the spec has 10000; its angles are NumPy's, position along the
    axis · base^(-2i/channels of it). Another style with this base, and one more parameter, would
    explain the table as well; the base alone is the shorter reason.
    """
    spec = Rope(dim=64, **options)
    channels_per_axis = tuple(block.channels for block in spec.axis_blocks)
    angles = video_angles(options["grid"], channels_per_axis, base)
    tables = {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}
    result = pecli.verify(tables, spec, atol=1e-6)

    assert f"base is {base:.0f} (the spec says 10000)" in result.diagnosis[0]
    assert len(result.explanations[0].mistakes) == 1


@pytest.mark.parametrize("style", ["eva", "pixtral", "sam2"])
@pytest.mark.sample("pixtral")
def test_a_table_of_consecutive_positions_is_explained_against_a_grid(style: str) -> None:
    """The table of a text model has no rows and columns of an image: all pairs of a row turn by one
    position, 0 to 8, with frequencies of the whole dim.
    """
    text_tables = pecli.Rope(seq_len=9, dim=16).tables()
    grid = pecli.Rope(grid=(3, 3), dim=16, style=style)

    (sentence, *_) = pecli.verify(text_tables, grid).diagnosis

    assert "axes share the frequencies of the whole dim" in sentence
    assert "positions are 0, 1, 2, …, not those of the grid; exact" in sentence


def test_the_axes_of_pairs_are_not_explained_as_waves() -> None:
    """The tensor `axis` of a grid numbers the axis of positions that each pair follows: 8 of one or
    the other. It differs as well, and only cosines and sines have a reason.
    """
    found = pecli.Rope(grid=(4, 4), dim=16, axes=(8, 8)).tables()
    result = pecli.verify(found, pecli.Rope(grid=(4, 4), dim=16, axes=(4, 12)))

    assert result.diagnosis[0] == "cos, sin: axes is 8,8 (the spec says 4,12); exact"
    assert [explanation.tensors for explanation in result.explanations] == [("cos", "sin")]


def axes_of_pairs(blocks: list[AxisBlock], pair_count: int) -> list[int]:
    """Return the axis that each pair of a table follows if it consists of these blocks."""
    nine_rows = np.ones((9, pair_count), complex)  # Only their width matters.
    return GridPrior(ADDED["mae"], None, blocks, nine_rows).axis_of_pair.tolist()


def test_pairs_follow_the_axes_of_their_blocks() -> None:
    """Each block has 4 channels, which are 2 pairs: those of the first follow axis 0 (rows of the
    image), and those of the second axis 1 (columns).
    """
    blocks = [AxisBlock(axis=0, channels=4, denominator=2), AxisBlock(1, 4, denominator=2)]
    assert axes_of_pairs(blocks, pair_count=4) == [0, 0, 1, 1]


def test_a_table_of_an_odd_width_lacks_the_last_pair_of_its_last_block() -> None:
    """Of two blocks of 4 channels, which are 2 pairs each, a table of 3 pairs has 2 and 1."""
    blocks = [AxisBlock(axis=0, channels=4, denominator=2), AxisBlock(1, 4, denominator=2)]
    assert axes_of_pairs(blocks, pair_count=3) == [0, 0, 1]


def test_channels_reversed_along_the_axes_of_another_grid_are_named() -> None:
    """Two mistakes at once: the table is of 4 frames of 8 × 1 points, not 1 × 8, and the pairs of
    each axis are reversed. Of Wan's pairs t t h w, only those of time change places: one pair of
    height or width is its own reverse.
    """
    spec = Rope(grid=(4, 1, 8), dim=8, style="wan")
    assert spec.tables()["axis"].tolist() == [0, 0, 1, 2]

    tables = Rope(grid=(4, 8, 1), dim=8, style="wan").tables()
    pairs_reversed_per_axis = [1, 0, 2, 3]
    found = {name: tables[name][:, pairs_reversed_per_axis] for name in ("cos", "sin")}
    reason = pecli.verify(found, spec, atol=1e-3).diagnosis[0]

    words = "grid is 4x8x1 (the spec says 4x1x8), and channels are in reverse order along each axis"
    assert reason == f"cos, sin: {words}; exact"
