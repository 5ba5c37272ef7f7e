"""Tables on grids (images and videos): each style computes what its project computes.

A style is a name for a project's rule: which axis each channel follows, at which frequencies.
Expected tables were computed by other libraries' own code (data/grids and data/styles.npz,
described in the README beside them and in index.json), or are the project's formula written out
here. They are compared within 1e-4, the precision of float32 angles, unless IN_FLOAT32 states
another bound.
"""

import json
import math
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import pecli
from pecli.cli.app import run
from pecli.engine.schemes import grid_styles
from pecli.engine.schemes.axis_divisions import ALTERNATING
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal

DATA = Path(__file__).parent / "data"
OLDER_COMMANDS = {
    name: row["command"]
    for name, row in json.loads((DATA / "grids" / "index.json").read_text()).items()
}
"""Commands that make the tables of other projects in data/grids, each in a file NAME.npz."""
FLOAT64_PROJECTS = ("mae", "mae-cls", "vit-mae", "cogvideox", "flux", "wan")
"""Tables of data/grids that their projects compute in float64, and round to float32 at the end."""
STYLES = json.loads((DATA / "styles.json").read_text())
COMMANDS = {name: command for name, (command, _) in STYLES.items()}
"""Commands that make the tables of other projects in data/styles.npz."""
CONFIGS_OF_STYLES = {name: config for name, (_, config) in STYLES.items() if config}
"""The configurations of those classes of diffusers that made tables of styles.npz."""
IN_FLOAT32 = {"ltx": 2e-3, "ltx2": 2e-3, "ltx2-split": 2e-3}
"""How far angles of 15,000 radians are off, which the library has in float32; others are within 1e-4."""


def tables_of(name: str) -> dict[str, np.ndarray]:
    """Return the tables of one of COMMANDS, as its project's own code made them: {"cos": …}."""
    with np.load(DATA / "styles.npz") as data:
        return {
            key.removeprefix(f"{name}/"): data[key] for key in data if key.startswith(f"{name}/")
        }


def older_tables_of(name: str) -> dict[str, np.ndarray]:
    """Return the tables of one of OLDER_COMMANDS, as its project's own code made them."""
    with np.load(DATA / "grids" / f"{name}.npz") as data:
        return dict(data)


def scheme_of(name: str, **changes: Any) -> Scheme:
    """What the command makes, with other parameters."""
    words, parameters = shlex.split(COMMANDS[name]), {}
    kind = Rope if words[0] == "rope" else Sinusoidal
    for option, value in zip(words[1::2], words[2::2], strict=True):
        key = option.removeprefix("--").replace("-", "_")
        parameters[key] = kind.parameters()[key].parse(key, value)
    return kind(**{**parameters, **changes})


def test_every_style_is_tested_against_another_project() -> None:
    """Each registered style of a grid must be named by a command with a table from the project's
    own code, or by a formula written out in this file.
    """
    commands = " ".join(
        [
            *OLDER_COMMANDS.values(),
            *COMMANDS.values(),
            *(f"--style {case}" for case in (*ADDED_STYLES, *ROTARY_STYLES, "qwen2-vl")),
        ]
    )

    assert {*grid_styles.ADDED, *grid_styles.ROTARY} <= {*re.findall(r"--style (\S+)", commands)}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_style_makes_the_table_of_its_project(name: str) -> None:
    """A style is the way in which a project numbers the points of a grid. `tables_of` reads the tables
    that the project's own code made (data/grids), and `scheme_of` is the scheme of the command that
    must make the same. Some projects keep cos + i·sin, or matrices ((cos, −sin), (sin, cos)),
    instead of two tables; IN_FLOAT32 has larger tolerances for tables of float32 angles.
    """
    theirs = tables_of(name)
    made = scheme_of(name).tables()
    if len(theirs) == 1 and "pe" not in theirs:
        (both,) = theirs.values()
        if "rotation" in theirs:
            theirs = {"cos": both[..., 0, 0], "sin": both[..., 1, 0]}
        else:
            theirs = {"cos": both.real, "sin": both.imag}

    for part, table in theirs.items():
        np.testing.assert_allclose(made[part], table, rtol=0, atol=IN_FLOAT32.get(name, 1e-4))


@pytest.mark.parametrize("name", [*OLDER_COMMANDS, *COMMANDS])
@pytest.mark.sample(3)
def test_a_command_with_a_style_verifies_the_table_of_its_project(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --verify, a command that would make a table compares a file with it, here the table that
    another project's code made. Exit code 0 means that it passed.
    """
    monkeypatch.chdir(DATA / "grids")  # Some commands name a file of positions there.
    is_older = name in OLDER_COMMANDS
    command = OLDER_COMMANDS[name] if is_older else COMMANDS[name]
    theirs = older_tables_of(name) if is_older else tables_of(name)
    file = tmp_path / "theirs.npz"
    np.savez(file, **theirs)
    atol = str(IN_FLOAT32.get(name, 1e-4))

    assert run([*shlex.split(command), "--verify", str(file), "--atol", atol, "-q"]) == 0


@pytest.mark.parametrize("name", [*OLDER_COMMANDS, *COMMANDS])
@pytest.mark.sample(2)
def test_a_table_that_a_command_with_a_style_made_is_verified_by_its_own_spec(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An .npz file of pecli carries the spec of its table, so that `verify` needs nothing else."""
    monkeypatch.chdir(DATA / "grids")  # Some commands name a file of positions there.
    command = OLDER_COMMANDS[name] if name in OLDER_COMMANDS else COMMANDS[name]
    file = str(tmp_path / "made.npz")

    assert run([*shlex.split(command), "-o", file, "-q"]) == 0
    assert run(["verify", file, "-q"]) == 0


@pytest.mark.parametrize("name", OLDER_COMMANDS)
@pytest.mark.sample(2)
def test_a_command_with_a_style_makes_the_table_of_its_project(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The expected tables of data/grids were made by other projects' code. Integers are equal, and so
    is what a project computes in float64 and rounds to float32 at the end; others compute in float32.
    """
    monkeypatch.chdir(DATA / "grids")
    file = tmp_path / "made.npz"
    assert run([*shlex.split(OLDER_COMMANDS[name]), "-o", str(file), "-q"]) == 0

    made = pecli.load(file)
    for tensor, table in older_tables_of(name).items():
        is_exact = table.dtype.kind == "i" or name in FLOAT64_PROJECTS
        assert made[tensor].shape == table.shape
        np.testing.assert_allclose(made[tensor], table, rtol=0, atol=0 if is_exact else 1e-4)


NOT_IDENTIFIED = {
    "qwen-image-2.1": "its text has a height and a width",
    "kandinsky5": "each axis has a scale of its own",
    "cosmos-fps": "each axis has a scale and a factor of its own",
}
"""Tables of other projects that identify does not know, each with the reason."""


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in NOT_IDENTIFIED])
@pytest.mark.sample("flux2", "sam2", "wan-animate", "ltx2")
def test_tables_of_other_projects_are_identified(name: str, tmp_path: Path) -> None:
    """`identify` gets the table that another project's code made, and no parameters. The scheme that
    it finds must make the table of the project's command. It may have the recipe float32, whose
    angles of up to 112π = 352 radians are rounded by half an ULP, 1.5e-5, and LTX's by 1e-3.
    """
    np.savez(tmp_path / "theirs.npz", **tables_of(name))
    found = pecli.identify(tmp_path / "theirs.npz").matches[0].scheme.tables()
    expected = scheme_of(name).tables()

    rounding_of_angles = IN_FLOAT32.get(name, 2e-5)
    for tensor in ("cos", "sin") if "cos" in expected else ("pe",):
        np.testing.assert_allclose(found[tensor], expected[tensor], rtol=0, atol=rounding_of_angles)


@pytest.mark.parametrize("name", NOT_IDENTIFIED)
@pytest.mark.sample(1)
def test_nothing_is_claimed_about_tables_that_identify_does_not_know(
    name: str, tmp_path: Path
) -> None:
    """`tables_of` has the table of another project; `identify` reports no scheme rather than a wrong
    one.
    """
    np.savez(tmp_path / "theirs.npz", **tables_of(name))
    assert pecli.identify(tmp_path / "theirs.npz").matches == ()


def angles(p: float, d: int, base: float = 10000.0) -> list[float]:
    """Return p · base^(-i/(d/2)) for i = 0 … d/2 − 1: the angles of d channels at position p."""
    return [p * base ** (-i / (d / 2)) for i in range(d // 2)]


def halves(a: list[float]) -> list[float]:
    """Return sin a0, sin a1, …, cos a0, cos a1, …."""
    return [*map(math.sin, a), *map(math.cos, a)]


def interleaved(a: list[float]) -> list[float]:
    """Return sin a0, cos a0, sin a1, cos a1, …."""
    return [f(x) for x in a for f in (math.sin, math.cos)]


def detr(i: int, n: int) -> float:
    """Return DETR's position of point i of n: 1/n, 2/n, …, 1 turns."""
    return (i + 1) / (n + 1e-6) * 2 * math.pi


def dinov3(h: int, w: int) -> list[float]:
    """3 rows and 4 columns of points, from the middle of the image to ±1 at its edges."""
    shares = (2 * (p + 0.5) / n - 1 for p, n in ((h, 3), (w, 4)))
    return [2 * math.pi * share * 100 ** (-4 * i / 16) for share in shares for i in range(4)]


def pixtral(h: int, w: int) -> list[float]:
    """Of 8 frequencies 777^(-2i/16), even ones follow the row of a point and odd ones its column."""
    return [p * 777.0 ** (-2 * i / 16) for p, first in ((h, 0), (w, 1)) for i in range(first, 8, 2)]


class FormulaOfStyle(NamedTuple):
    """Parameters of a table on a grid, and the project's formula of a row, written out.

    Attributes:
        parameters: The arguments of Sinusoidal or Rope, except the style.
        row: Returns the row of a point, from its place on each axis: h, w, or t, h, w.
    """

    parameters: dict[str, Any]
    row: Callable[..., list[float]]

    def rows(self, sizes: tuple[int, ...] | None = None) -> np.ndarray:
        """Return the rows of all points of the grid, in the order in which w runs fastest.

        Args:
            sizes: The sizes of the axes, if they are not those of the parameter `grid`.
        """
        points = np.ndindex(sizes or self.parameters["grid"])
        return np.array([self.row(*point) for point in points])


ADDED_STYLES = {
    # Half of the channels follow the column, half the row.
    "mae": FormulaOfStyle({"grid": (2, 3), "dim": 8, "base": 500.0},
        lambda h, w: halves(angles(w, 4, 500.0)) + halves(angles(h, 4, 500.0))),
    # 9 columns are scaled to 4 points, 9/4 columns apart, and divided by the grid scale, 0.3.
    "sd3": FormulaOfStyle({"grid": (6, 9), "dim": 16, "grid_base": (4,), "grid_scale": (0.3,)},
        lambda h, w: halves(angles(w / (9 / 4) / 0.3, 8)) + halves(angles(h / (6 / 4) / 0.3, 8))),
    # Time has a quarter of the channels; the grid scales are 1 in time, 1.875 in rows and columns.
    "cogvideox": FormulaOfStyle({"grid": (2, 3, 5), "dim": 32, "grid_scale": (1.0, 1.875, 1.875)},
        lambda t, h, w: halves(angles(t, 8)) + halves(angles(w / 1.875, 12)) + halves(angles(h / 1.875, 12))),
    "detr": FormulaOfStyle({"grid": (3, 8), "dim": 24},
        lambda h, w: interleaved(angles(detr(h, 3), 12)) + interleaved(angles(detr(w, 8), 12))),
    "timm": FormulaOfStyle({"grid": (3, 4), "dim": 16}, lambda h, w: halves(angles(h, 8) + angles(w, 8))),
}  # fmt: skip
"""What stored tables of added styles leave open: other sizes, bases and scales."""
ROTARY_STYLES = {
    "flux": FormulaOfStyle({"grid": (2, 3), "dim": 64}, lambda h, w: angles(0, 8) + angles(h, 28) + angles(w, 28)),
    "hunyuan-video": FormulaOfStyle({"grid": (2, 3, 2), "dim": 32},
        lambda t, h, w: angles(t, 4, 256.0) + angles(h, 14, 256.0) + angles(w, 14, 256.0)),
    "wan": FormulaOfStyle({"grid": (2, 3, 4), "dim": 128}, lambda t, h, w: angles(t, 44) + angles(h, 42) + angles(w, 42)),
    "dinov3": FormulaOfStyle({"grid": (3, 4), "dim": 16}, dinov3),
    "pixtral": FormulaOfStyle({"grid": (2, 5), "dim": 16, "base": 777.0}, pixtral),
    # 3 rows and 2 columns are scaled to 16.
    "eva": FormulaOfStyle({"grid": (3, 2), "dim": 8, "grid_base": (16.0,)},
        lambda h, w: angles(h * 16 / 3, 4) + angles(w * 16 / 2, 4)),
}  # fmt: skip
"""What stored tables of rotary styles leave open: other sizes, bases and scales."""

FLOAT64_ERROR = 2e-14
"""Powers of 10000 are off by ln 10000 = 9.2 times the rounding of their exponent, so that the formulas'
angles, of up to 12 radians, are off by about 12 · (9.2 + 3) · 2^-53 = 1.6e-14."""


@pytest.mark.parametrize("style", ADDED_STYLES)
def test_an_added_table_on_a_grid_is_the_formula_of_its_project(style: str) -> None:
    """The formulas in ADDED_STYLES are those of the projects' code: `angles(p, d)` are the angles of d
    channels at position p, and `halves` and `interleaved` their sines and cosines in some order.
    """
    case = ADDED_STYLES[style]
    table = Sinusoidal(**case.parameters, style=style, dtype="float64").tables()["pe"]
    np.testing.assert_allclose(table, case.rows(), rtol=0, atol=FLOAT64_ERROR)


def test_tokens_before_a_grid_have_rows_of_zeros_in_an_added_table() -> None:
    """keep=2 is for two tokens such as MAE's class token."""
    case = ADDED_STYLES["mae"]
    table = Sinusoidal(**case.parameters, style="mae", keep=2, dtype="float64").tables()["pe"]

    assert table[:2].tolist() == [[0.0] * 8] * 2
    np.testing.assert_allclose(table[2:], case.rows(), rtol=0, atol=FLOAT64_ERROR)


def assert_rotates_by(parameters: dict[str, Any], style: str, expected: np.ndarray) -> None:
    """Assert that cos + i·sin of a rotary table is exp(i · angle) of the expected angles."""
    tables = Rope(**parameters, style=style, dtype="float64").tables()
    found = tables["cos"] + 1j * tables["sin"]
    np.testing.assert_allclose(found, np.exp(1j * expected), rtol=0, atol=FLOAT64_ERROR)


@pytest.mark.parametrize("style", ROTARY_STYLES)
def test_a_rotary_table_on_a_grid_has_the_angles_of_its_projects_formula(style: str) -> None:
    """The formulas in ROTARY_STYLES are those of the projects' code: `angles(p, d)` are the d/2 angles
    p · base^(-i/(d/2)) of d channels at position p.
    """
    case = ROTARY_STYLES[style]
    assert_rotates_by(case.parameters, style, case.rows())


def test_llama4_counts_points_of_an_image_from_one_and_does_not_turn_its_class_token() -> None:
    """The columns come first: w + 1 and h + 1. The class token is the last row, and has angles of 0."""
    case = FormulaOfStyle(
        {"grid": (3, 2), "dim": 16}, lambda h, w: angles(w + 1, 8) + angles(h + 1, 8)
    )
    class_token = np.zeros((1, 8))
    expected = np.concatenate([case.rows(), class_token])
    assert_rotates_by(case.parameters, "llama4-vision", expected)


def test_qwen2_vl_has_the_points_of_an_image_in_blocks_of_2_by_2() -> None:
    """Four points become one token. Of 4 × 6 points there are 2 × 3 blocks (block_h, block_w), with 2 × 2
    points (h, w) each, which follow each other in the table; both images have the same angles.
    """
    case = FormulaOfStyle(
        {"grid": (2, 4, 6), "dim": 8},
        lambda t, block_h, block_w, h, w: angles(2 * block_h + h, 4) + angles(2 * block_w + w, 4),
    )
    assert_rotates_by(case.parameters, "qwen2-vl", case.rows(sizes=(2, 2, 3, 2, 2)))


@pytest.mark.parametrize(
    "scheme",
    [
        Sinusoidal(grid=(3, 4), dim=24, style="detr"),
        Sinusoidal(grid=(9, 4), dim=24, style="sd3", grid_base=(5.0,), keep=1),
        Sinusoidal(positions=["0.1", -3, 0.5, 2**40], dim=7),
        Sinusoidal(relative=True, seq_len=5, dim=8),
        Rope(grid=(2, 3, 4), dim=32, style="wan", layout="halves"),
        Rope(grid=(4, 4), dim=32, style="llama4-vision"),
        Rope(positions=[[0, 1], [2, 3]], axes=(4, 8)),
        Rope(positions=[[0, 1.5], [2, 3], [4, 5]], dim=16, mrope_section=(2, 3, 3)),
    ],
)
def test_the_spec_of_a_grid_makes_the_same_scheme_and_bytes(scheme: Scheme) -> None:
    """A spec goes through JSON and makes an equal scheme with the same bytes; its blocks of two
    rows are the table.
    """
    again = Scheme.from_spec(json.loads(json.dumps(scheme.spec())))
    assert again == scheme

    tables_again = [table.tobytes() for table in again.tables().values()]
    assert tables_again == [table.tobytes() for table in scheme.tables().values()]

    whole = scheme.tensors()[0].array().tobytes()
    assert b"".join(block.tobytes() for block in scheme.blocks(rows=2)) == whole


@pytest.mark.parametrize(("kind", "style"), [(Sinusoidal, "mae"), (Rope, "eva")])
def test_the_float32_recipe_of_a_style_is_off_by_float32_rounding(
    kind: type[Scheme], style: str
) -> None:
    """A recipe computes in the dtypes of some project. Angles of up to 6 radians in float32 are off
    by less than 6 · 2^-23 = 7e-7, but not by nothing.
    """
    exact = kind(grid=(5, 7), dim=32, style=style, recipe="exact").tables()
    in_float32 = kind(grid=(5, 7), dim=32, style=style, recipe="float32").tables()

    for name in exact.keys() - {"inv_freq", "axis"}:
        difference = np.abs(exact[name] - in_float32[name]).max()
        assert 0 < difference < 1e-6


def test_a_table_at_listed_positions_has_the_rows_of_the_whole_table() -> None:
    """Positions may come in any order and repeatedly. Row 3 of a sinusoidal table with padding_idx=3
    is zeros in both.
    """
    positions = [7, 3, 3, 1000, 0, 12]
    listed_rope = Rope(positions=positions, dim=16).tables()
    whole_rope = Rope(1001, 16).tables()
    for name in ("cos", "sin"):
        np.testing.assert_array_equal(listed_rope[name], whole_rope[name][positions])

    listed = Sinusoidal(positions=positions, dim=9, padding_idx=3).tables()["pe"]
    whole = Sinusoidal(1001, 9, padding_idx=3).tables()["pe"]
    np.testing.assert_array_equal(listed, whole[positions])


def test_scalings_apply_at_listed_positions() -> None:
    """Dynamic scaling depends on the length, which is taken from the largest position; YaRN has its
    attention factor. The rows are those of a table of 100 positions.
    """
    dynamic = {"scaling": "dynamic", "factor": 4.0, "max_position_embeddings": 32}
    yarn = {"scaling": "yarn", "factor": 8.0, "original_max_position_embeddings": 64}
    for scaling in (dynamic, yarn):
        sines = Rope(100, 16, **scaling).tables()["sin"]
        given = Rope(positions=[0, 5, 99], dim=16, **scaling).tables()
        np.testing.assert_array_equal(given["sin"], sines[[0, 5, 99]])


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.sample("pixel", "ltx")
def test_verify_names_the_base_of_a_table_of_another_project(name: str) -> None:
    """`tables_of` has the table of another library, and the spec 2.5 times its base: the diagnosis of
    `verify` states both.
    """
    right = scheme_of(name)
    result = pecli.verify(
        tables_of(name), scheme_of(name, base=2.5 * right.base), atol=IN_FLOAT32.get(name, 1e-4)
    )

    assert not result
    assert f"base is {right.base:g} (the spec says {2.5 * right.base:g})" in " ".join(
        result.diagnosis
    )


TOKENS_LAST = ("z-image", "hidream", "torchtune")
"""Projects whose tables have the rows of tokens beside the grid at the end, others at the beginning."""


def with_rows_and_columns_exchanged(name: str) -> dict[str, np.ndarray]:
    """Return another project's tables with the points of every image in the transposed order.

    The points of a grid of 2 × 3, numbered 0 1 2, 3 4 5, come in the order 0 3 1 4 2 5. Rows of
    tokens beside the grid stay in their places.
    """
    scheme = scheme_of(name)
    *_, height, width = scheme.grid
    points = int(np.prod(scheme.grid))
    tokens = scheme.keep or 0
    first_point = 0 if name in TOKENS_LAST else tokens

    images = np.arange(points).reshape(-1, height, width)
    order = np.arange(tokens + points)
    order[first_point : first_point + points] = first_point + images.swapaxes(1, 2).reshape(-1)
    return {tensor: table[order] for tensor, table in tables_of(name).items()}


STYLES_WITH_COLUMNS_FIRST = {
    "glm-image": "style is sam2",
    "positional-encodings-2d": "style is mae",
    "sam2": "style is eva",
}
"""Projects that differ from another one only in which of rows and columns comes first.

sam2 has the columns first and eva the rows; glm-image and positional-encodings-2d have the rows
first, and sam2 and mae the columns.
"""


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.sample("cosmos", "ltx2", "sam2")
def test_verify_names_a_grid_whose_rows_and_columns_are_exchanged(name: str) -> None:
    """In a table with its points in transposed order, channels that should follow rows (h) follow
    columns (w). The diagnosis is the axes in the order w, h, after time (t) in a video; or another
    project, if there is one with that order.
    """
    scheme = scheme_of(name)
    *time, height, width = scheme.grid
    transposed = scheme_of(name, grid=(*time, width, height))
    result = pecli.verify(
        with_rows_and_columns_exchanged(name), transposed, atol=IN_FLOAT32.get(name, 1e-4)
    )

    assert not result

    diagnosis = " ".join(result.diagnosis)
    if name in STYLES_WITH_COLUMNS_FIRST:
        assert STYLES_WITH_COLUMNS_FIRST[name] in diagnosis
    else:
        assert re.search("positions are those of the axes (t,)?w,h", diagnosis)


def options_beside_the_configuration(command: str) -> list[str]:
    """Return the options of a command that state what no configuration has: the grid, the number of
    tokens beside it, and its scale.

    `rope --grid 4x5 --dim 32 --style flux2 --keep 3` has `--grid 4x5 --keep 3`.
    """
    _scheme, *words = shlex.split(command)
    options = []
    for option, value in zip(words[0::2], words[1::2], strict=True):
        if option in ("--grid", "--keep", "--grid-scale"):
            options += [option, value]
    return options


@pytest.mark.parametrize("name", CONFIGS_OF_STYLES)
@pytest.mark.sample(2)
def test_the_configuration_of_a_class_has_its_style(name: str, tmp_path: Path) -> None:
    """CONFIGS_OF_STYLES has the configuration of the class of diffusers that made a table: with it as
    --config, the table passes without --style and --dim. With another base (--theta) it fails.
    """
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIGS_OF_STYLES[name]))
    theirs = tmp_path / "theirs.npz"
    np.savez(theirs, **tables_of(name))
    command = ["rope", "--verify", str(theirs), "--config", str(config), "-q"]
    command += options_beside_the_configuration(COMMANDS[name])
    atol = str(IN_FLOAT32.get(name, 1e-4))

    assert run([*command, "--atol", atol]) == 0
    assert run([*command, "--atol", atol, "--theta", "777"]) == 1


def test_grids_with_axes_need_no_style() -> None:
    """axes=(4, 2, 4) are the channels of time, row and column: base 10000 gives 4 channels the
    frequencies 1 and 1/100, and 2 channels 1. Time is 0 in an image; axes=(2, 4) are row and column.
    """
    angles = np.array(
        [[0, 0, row, column, column / 100] for row in range(2) for column in range(3)]
    )
    factors = np.exp(1j * angles)

    with_time = Rope(grid=(2, 3), axes=(4, 2, 4), dtype="float64").tables()
    np.testing.assert_allclose(
        with_time["cos"] + 1j * with_time["sin"], factors, rtol=0, atol=1e-15
    )

    without_time = Rope(grid=(2, 3), axes=(2, 4), dtype="float64").tables()
    np.testing.assert_allclose(
        without_time["cos"] + 1j * without_time["sin"], factors[:, 2:], rtol=0, atol=1e-15
    )


def test_channels_beyond_the_dim_of_a_grid_are_cut() -> None:
    """positional-encodings 6.0.3 gives each of three axes 2·⌈dim/6⌉ channels: 12 if dim is 31 or
    36, together 36, of which the first 31 stay.
    """
    grid = {"grid": (2, 3, 2), "style": "positional-encodings-3d"}
    cut = Sinusoidal(dim=31, **grid).tables()["pe"]
    whole = Sinusoidal(dim=36, **grid).tables()["pe"]

    np.testing.assert_array_equal(cut, whole[:, :31])


@pytest.mark.parametrize(
    ("coordinate", "axis", "positions"),
    [
        pytest.param("index", "h", [0, 1, 2, 3], id="MAE: i"),
        pytest.param("from one", "h", [1, 2, 3, 4], id="Llama 4: i + 1"),
        pytest.param("centred", "h", [-2, -1, 0, 1], id="Qwen-Image: i − ⌈n/2⌉"),
        pytest.param("centred", "t", [0, 1, 2, 3], id="Qwen-Image in time: i"),
        pytest.param(
            "edge to edge", "h", [-1 / 2, -1 / 6, 1 / 6, 1 / 2], id="pixel: i/(n−1) − 1/2"
        ),
        pytest.param("-1 to 1", "h", [-3 / 4, -1 / 4, 1 / 4, 3 / 4], id="DINOv3: (2i + 1)/n − 1"),
        pytest.param("share", "h", [0.25, 0.5, 0.75, 1], id="DETR: (i + 1)/n"),
        pytest.param("video latents", "w", [0.5, 1.5, 2.5, 3.5], id="LTX-2: i + 1/2"),
        pytest.param(
            "video latents", "t", [1 / 16, 5 / 8, 13 / 8, 21 / 8], id="LTX-2 in time: frames"
        ),
    ],
)
def test_four_points_of_an_axis_have_these_positions(
    coordinate: str, axis: str, positions: list[float]
) -> None:
    """Each id has a project and its rule for point i of n = 4, by which positions were computed by
    hand. LTX-2's latents hold frame 0, 1 to 8, 9 to 16, 17 to 24; positions are their middles (0.5, 5,
    13, 21), in units of 8 frames. The tolerance is for the 1e-6 that DETR adds to n.
    """
    position_of = grid_styles.COORDINATES[coordinate]
    found = [float(position_of(point, len(positions), axis)) for point in range(4)]

    assert found == pytest.approx(positions, abs=1e-6)


@pytest.mark.parametrize(
    ("coordinate", "position"),
    [
        pytest.param("edge to edge", -1 / 2, id="edge to edge: 0/max(1, n − 1) − 1/2"),
        pytest.param("centred", -1, id="centred: 0 − ⌈1/2⌉"),
    ],
)
def test_the_only_point_of_an_axis_has_a_position(coordinate: str, position: float) -> None:
    """From edge to edge, a point is i/(n − 1) − 1/2 of n, but the n − 1 = 0 steps of a single point are
    no divisor. Centred, point ⌈n/2⌉ is at 0, so that point 0 of one is at −1.
    """
    position_of = grid_styles.COORDINATES[coordinate]
    index, count, axis = 0, 1, "h"
    assert position_of(index, count, axis) == position


@pytest.mark.parametrize(
    ("dim", "axes_of_pairs"),
    [
        pytest.param(8, ["w", "h", "w", "h"], id="8 channels: 2 pairs per axis"),
        pytest.param(6, [], id="6 channels: 1.5 pairs per axis"),
    ],
)
def test_axes_take_turns_only_if_both_have_whole_pairs(dim: int, axes_of_pairs: list[str]) -> None:
    """MoonViT's pairs of channels follow the column, the row, the column, … of a point. The axes t, h
    and w have the numbers 0, 1 and 2.
    """
    pairs = ALTERNATING.in_turns(axes=(2, 1), dim=dim)
    assert ["thw"[pair.axis] for pair in pairs] == axes_of_pairs
