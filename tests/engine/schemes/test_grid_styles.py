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
from typing import Any

import numpy as np
import pytest

import pecli
from pecli.cli.app import run
from pecli.engine.schemes import grid_styles
from pecli.engine.schemes.axis_divisions import ALTERNATING
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from tests.oracle import ulps

DATA = Path(__file__).parent / "data"
OLDER_COMMANDS = {
    name: row["command"]
    for name, row in json.loads((DATA / "grids" / "index.json").read_text()).items()
}
IN_FLOAT64 = ("mae", "mae-cls", "vit-mae", "cogvideox", "flux", "wan")
STYLES = json.loads((DATA / "styles.json").read_text())
COMMANDS = {name: command for name, (command, _) in STYLES.items()}
CONFIGS_OF_STYLES = {name: config for name, (_, config) in STYLES.items() if config}
"""What makes each of the tables in styles.npz: a command, and the configuration of a class of diffusers."""
IN_FLOAT32 = {"ltx": 2e-3, "ltx2": 2e-3, "ltx2-split": 2e-3}
"""How far angles of 15,000 radians are off, which the library has in float32; others are within 1e-4."""


def tables_of(name: str) -> dict[str, np.ndarray]:
    with np.load(
        DATA / f"grids/{name}.npz" if name in OLDER_COMMANDS else DATA / "styles.npz"
    ) as data:
        return {
            key.partition("/")[2] or key: data[key]
            for key in data
            if name in OLDER_COMMANDS or key.startswith(f"{name}/")
        }


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
            *(f"--style {case}" for case in (*ADDED_STYLES, *ROTARY_STYLES)),
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
def test_commands_make_and_verify_tables_of_other_projects(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tables are of other libraries' own code (see the data's index.json). The command makes
    the same, verifies theirs, and verifies its own. Integers are equal, and tables that the project
    computes in float64 agree within 4 ulps.
    """
    monkeypatch.chdir(DATA / "grids")
    words = shlex.split({**OLDER_COMMANDS, **COMMANDS}[name])
    theirs = tables_of(name)
    atol = IN_FLOAT32.get(name, 1e-4)
    file, made = tmp_path / "theirs.npz", tmp_path / "made.npz"
    np.savez(file, **theirs)

    for command in (
        [*words, "-o", made],
        [*words, "--verify", file, "--atol", atol],
        ["verify", made],
    ):
        assert run([*map(str, command), "-q"]) == 0

    tables = pecli.load(made)
    for tensor, table in theirs.items() if name in OLDER_COMMANDS else ():
        assert tables[tensor].shape == table.shape
        np.testing.assert_allclose(
            tables[tensor], table, rtol=0, atol=0 if table.dtype.kind == "i" else atol
        )
        assert name not in IN_FLOAT64 or ulps(tables[tensor], table).max() <= 4


NOT_IDENTIFIED = {
    "qwen-image-2.1": "its text has a height and a width",
    "kandinsky5": "each axis has a scale of its own",
    "cosmos-fps": "each axis has a scale and a factor of its own",
}
"""Tables of other projects that identify does not know, each with the reason."""


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in NOT_IDENTIFIED])
@pytest.mark.sample("flux2", "sam2", "wan-animate", "ltx2")
def test_tables_of_other_projects_are_identified(name: str, tmp_path: Path) -> None:
    """identify gets the other library's table only; the scheme that it finds makes the table of the
    command. It may be the same in float32 arithmetic, whose angles of up to 112π radians are off by
    half a unit in the last place, 1.5e-5, and LTX's of 15,000 radians by 1e-3.
    """
    np.savez(tmp_path / "theirs.npz", **tables_of(name))
    match = pecli.identify(tmp_path / "theirs.npz").matches[0].scheme
    tables = scheme_of(name).tables()
    for tensor in ("cos", "sin") if "cos" in tables else ("pe",):
        tolerance = IN_FLOAT32.get(name, 2e-5)
        np.testing.assert_allclose(match.tables()[tensor], tables[tensor], rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", NOT_IDENTIFIED)
@pytest.mark.sample(1)
def test_nothing_is_claimed_about_tables_that_identify_does_not_know(
    name: str, tmp_path: Path
) -> None:
    np.savez(tmp_path / "theirs.npz", **tables_of(name))
    assert pecli.identify(tmp_path / "theirs.npz").matches == ()


def angles(p: float, d: int, base: float = 10000.0) -> list[float]:
    return [p * base ** (-i / (d / 2)) for i in range(d // 2)]


def halves(a: list[float]) -> list[float]:
    return [*map(math.sin, a), *map(math.cos, a)]


def interleaved(a: list[float]) -> list[float]:
    return [f(x) for x in a for f in (math.sin, math.cos)]


def detr(i: int, n: int) -> float:
    return (i + 1) / (n + 1e-6) * 2 * math.pi


def dinov3(h: int, w: int) -> list[float]:
    """3 rows and 4 columns of points, from the middle of the image to ±1 at its edges."""
    shares = (2 * (p + 0.5) / n - 1 for p, n in ((h, 3), (w, 4)))
    return [2 * math.pi * share * 100 ** (-4 * i / 16) for share in shares for i in range(4)]


def pixtral(h: int, w: int) -> list[float]:
    return [p * 777.0 ** (-2 * i / 16) for p, first in ((h, 0), (w, 1)) for i in range(first, 8, 2)]


ADDED_STYLES: dict[str, tuple[dict, Callable[..., list[float]]]] = {
    "mae": ({"grid": (2, 3), "dim": 8, "base": 500.0, "keep": 2},
        lambda h, w: halves(angles(w, 4, 500.0)) + halves(angles(h, 4, 500.0))),
    "sd3": ({"grid": (6, 9), "dim": 16, "grid_base": (4,), "grid_scale": (0.3,)},
        lambda h, w: halves(angles(w / (9 / 4) / 0.3, 8)) + halves(angles(h / (6 / 4) / 0.3, 8))),
    "cogvideox": ({"grid": (2, 3, 5), "dim": 32, "grid_scale": (1.0, 1.875, 1.875)},
        lambda t, h, w: halves(angles(t, 8)) + halves(angles(w / 1.875, 12)) + halves(angles(h / 1.875, 12))),
    "detr": ({"grid": (3, 8), "dim": 24},
        lambda h, w: interleaved(angles(detr(h, 3), 12)) + interleaved(angles(detr(w, 8), 12))),
    "timm": ({"grid": (3, 4), "dim": 16}, lambda h, w: halves(angles(h, 8) + angles(w, 8))),
}  # fmt: skip
ROTARY_STYLES: dict[str, tuple[dict, Callable[..., list[float]]]] = {
    "flux": ({"grid": (2, 3), "dim": 64}, lambda h, w: angles(0, 8) + angles(h, 28) + angles(w, 28)),
    "hunyuan-video": ({"grid": (2, 3, 2), "dim": 32},
        lambda t, h, w: angles(t, 4, 256.0) + angles(h, 14, 256.0) + angles(w, 14, 256.0)),
    "wan": ({"grid": (2, 3, 4), "dim": 128}, lambda t, h, w: angles(t, 44) + angles(h, 42) + angles(w, 42)),
    "llama4-vision": ({"grid": (3, 2), "dim": 16}, lambda h, w: angles(w + 1, 8) + angles(h + 1, 8)),
    "dinov3": ({"grid": (3, 4), "dim": 16}, dinov3),
    "pixtral": ({"grid": (2, 5), "dim": 16, "base": 777.0}, pixtral),
    "eva": ({"grid": (3, 2), "dim": 8, "grid_base": (16.0,)},
        lambda h, w: angles(h * 16 / 3, 4) + angles(w * 16 / 2, 4)),
    "qwen2-vl": ({"grid": (2, 4, 6), "dim": 8}, lambda t, a, b, c, d: angles(2 * a + c, 4) + angles(2 * b + d, 4)),
}  # fmt: skip
"""What the tables of other projects leave open: other sizes, bases and scales, and styles of which there is none."""


def rows_of(case: str, parameters: dict, formula: Callable[..., list[float]]) -> np.ndarray:
    """Zeros for the tokens beside the grid, which llama4-vision has last; qwen2-vl merges 2 x 2 points."""
    sizes = (2, 2, 3, 2, 2) if case == "qwen2-vl" else parameters["grid"]
    rows = [formula(*point) for point in np.ndindex(sizes)]
    zeros = [0.0] * len(rows[0])
    return np.array(
        [zeros] * parameters.get("keep", 0) + rows + [zeros] * (case == "llama4-vision")
    )


@pytest.mark.parametrize("style", ADDED_STYLES)
def test_an_added_table_on_a_grid_is_the_formula_of_its_project(style: str) -> None:
    """ADDED_STYLES has sizes, bases and scales of which there are no stored tables, and a function
    that computes a row by the formula of the project's code; float64 on both sides.
    """
    parameters, formula = ADDED_STYLES[style]
    table = Sinusoidal(**parameters, style=style, dtype="float64").tables()["pe"]
    np.testing.assert_allclose(table, rows_of(style, parameters, formula), rtol=0, atol=2e-14)


@pytest.mark.parametrize("style", ROTARY_STYLES)
def test_a_rotary_table_on_a_grid_has_the_angles_of_its_projects_formula(style: str) -> None:
    """ROTARY_STYLES has sizes, bases and scales of which there are no stored tables, and a function
    that computes the angles of a row by the formula of the project's code; float64 on both sides.
    """
    parameters, formula = ROTARY_STYLES[style]
    tables = Rope(**parameters, style=style, dtype="float64").tables()
    factors = np.exp(1j * rows_of(style, parameters, formula))
    np.testing.assert_allclose(tables["cos"] + 1j * tables["sin"], factors, rtol=0, atol=2e-14)


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


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.sample("cosmos", "ltx2")
def test_verify_names_a_grid_whose_rows_and_columns_are_exchanged(name: str) -> None:
    """The rows of the other library's table are put in the order of the transposed grid: row (a, b)
    has the values of (b, a). Then channels that should follow rows follow columns, which verify
    reports as axes in the order w, h, or as a project that has that order.
    """
    *time, height, width = scheme_of(name).grid
    points = np.prod((*time, height, width))
    kept = scheme_of(name).keep or 0
    first = 0 if name in ("z-image", "hidream", "torchtune") else kept  # these keep rows at the end
    order = np.arange(points).reshape(-1, height, width).swapaxes(1, 2).reshape(-1) + first
    rows = np.r_[np.arange(first), order, np.arange(first + points, kept + points)]
    spec = scheme_of(name, grid=(*time, width, height))
    exchanged = {tensor: table[rows] for tensor, table in tables_of(name).items()}
    result = pecli.verify(exchanged, spec, atol=IN_FLOAT32.get(name, 1e-4))

    assert not result

    known = {
        "glm-image": "style is sam2",
        "positional-encodings-2d": "style is mae",
    }  # These projects have the axes w and h by themselves.
    known["sam2"] = "style is eva"  # sam2's axes become h and w.

    assert re.search(
        known.get(name, "positions are those of the axes (t,)?w,h"), " ".join(result.diagnosis)
    )


@pytest.mark.parametrize("name", CONFIGS_OF_STYLES)
@pytest.mark.sample(2)
def test_the_configuration_of_a_class_has_its_style(name: str, tmp_path: Path) -> None:
    """The configuration is that of the class in diffusers that made the table: it passes, and with
    another base (--theta) it fails.
    """
    (tmp_path / "config.json").write_text(json.dumps(CONFIGS_OF_STYLES[name]))
    np.savez(tmp_path / "theirs.npz", **tables_of(name))
    words = shlex.split(COMMANDS[name])
    place = [
        word
        for k, word in enumerate(words)
        if {words[k - 1], word} & {"--grid", "--keep", "--grid-scale"}
    ]
    words = [
        "rope",
        "--verify",
        str(tmp_path / "theirs.npz"),
        "--config",
        str(tmp_path / "config.json"),
        *place,
        "-q",
    ]

    assert run([*words, "--atol", str(IN_FLOAT32.get(name, 1e-4))]) == 0
    assert run([*words, "--atol", "1e-4", "--theta", "777"]) == 1


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
        ("index", "h", [0, 1, 2, 3]),
        ("from one", "h", [1, 2, 3, 4]),
        ("centred", "h", [-2, -1, 0, 1]),
        ("centred", "t", [0, 1, 2, 3]),
        ("video latents", "t", [1 / 16, 5 / 8, 13 / 8, 21 / 8]),
        ("video latents", "w", [0.5, 1.5, 2.5, 3.5]),
        ("edge to edge", "h", [-1 / 2, -1 / 6, 1 / 6, 1 / 2]),
        ("-1 to 1", "h", [-3 / 4, -1 / 4, 1 / 4, 3 / 4]),
        ("share", "h", [0.25, 0.5, 0.75, 1]),
    ],
)
def test_four_points_of_an_axis_have_these_positions(
    coordinate: str, axis: str, positions: list[float]
) -> None:
    """Positions by hand, by the rule of each project. For «video latents» (LTX-2) they are the middles
    of what a latent holds: in time frame 0, 1 to 8, 9 to 16, 17 to 24, counted in units of 8 frames.
    «share» is DETR's (i + 1)/n, which adds 1e-6 to n.
    """
    place = grid_styles.COORDINATES[coordinate]
    found = [float(place(point, 4, axis)) for point in range(4)]

    assert found == pytest.approx(positions, abs=1e-6)


def test_the_only_point_of_an_axis_has_a_position() -> None:
    """From edge to edge, positions begin at −1/2; centred, the middle of n points, n/2 rounded up, is
    at 0. Neither rule may divide by the n − 1 = 0 steps of a single point.
    """
    assert grid_styles.COORDINATES["edge to edge"](0, 1, "h") == -0.5
    assert grid_styles.COORDINATES["centred"](0, 1, "h") == -1


@pytest.mark.parametrize(("dim", "pairs"), [(6, 0), (8, 4)])
def test_axes_take_turns_only_in_whole_pairs_of_both(dim: int, pairs: int) -> None:
    """MoonViT's 8 channels are w0 h0 w1 h1; of 6 channels, each axis would have one and a half."""
    assert len(ALTERNATING.in_turns((2, 1), dim)) == pairs
