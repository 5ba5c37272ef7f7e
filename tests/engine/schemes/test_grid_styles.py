"""Tables on grids: those of other projects, and formulas at other sizes."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pecli.cli.app import run
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from tests.oracle import ulps

DATA = Path(__file__).parent / "data" / "grids"
INDEX = json.loads((DATA / "index.json").read_text())
IN_FLOAT64 = ("mae", "mae-cls", "vit-mae", "cogvideox", "flux", "wan")


@pytest.mark.parametrize("name", INDEX)
def test_tables_of_other_projects(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DATA)
    words, file = shlex.split(INDEX[name]["command"]), tmp_path / "made.npz"
    assert run([*words, "-q", "-o", str(file)]) == 0
    made, theirs = np.load(file), np.load(DATA / f"{name}.npz")
    for tensor in theirs:
        assert made[tensor].shape == theirs[tensor].shape
        if theirs[tensor].dtype.kind == "i":
            np.testing.assert_array_equal(made[tensor], theirs[tensor])
        elif name in IN_FLOAT64:
            assert ulps(made[tensor], theirs[tensor]).max() <= 4
        else:
            np.testing.assert_allclose(made[tensor], theirs[tensor], rtol=0, atol=1e-4)
    assert run([*words, "-q", "--verify", str(DATA / f"{name}.npz"), "--atol", "1e-4"]) == 0
    assert run(["verify", "-q", str(file)]) == 0


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


ADDED: dict[str, tuple[dict, Callable[..., list[float]]]] = {
    "mae": (
        {"grid": (2, 3), "dim": 8, "base": 500.0, "keep": 2},
        lambda h, w: halves(angles(w, 4, 500.0)) + halves(angles(h, 4, 500.0)),
    ),
    "sd3": (
        {"grid": (6, 9), "dim": 16, "grid_base": (4,), "grid_scale": (0.3,)},
        lambda h, w: halves(angles(w / (9 / 4) / 0.3, 8)) + halves(angles(h / (6 / 4) / 0.3, 8)),
    ),
    "cogvideox": (
        {"grid": (2, 3, 5), "dim": 32, "grid_scale": (1.0, 1.875, 1.875)},
        lambda t, h, w: halves(angles(t, 8)) + halves(angles(w / 1.875, 12)) + halves(angles(h / 1.875, 12)),
    ),
    "detr": (
        {"grid": (3, 8), "dim": 24},
        lambda h, w: interleaved(angles(detr(h, 3), 12)) + interleaved(angles(detr(w, 8), 12)),
    ),
    "timm": ({"grid": (3, 4), "dim": 16}, lambda h, w: halves(angles(h, 8) + angles(w, 8))),
}
ROTARY: dict[str, tuple[dict, Callable[..., list[float]]]] = {
    "flux": ({"grid": (2, 3), "dim": 64}, lambda h, w: angles(0, 8) + angles(h, 28) + angles(w, 28)),
    "hunyuan-video": (
        {"grid": (2, 3, 2), "dim": 32},
        lambda t, h, w: angles(t, 4, 256.0) + angles(h, 14, 256.0) + angles(w, 14, 256.0),
    ),
    "wan": ({"grid": (2, 3, 4), "dim": 128}, lambda t, h, w: angles(t, 44) + angles(h, 42) + angles(w, 42)),
    "llama4-vision": ({"grid": (3, 2), "dim": 16}, lambda h, w: angles(w + 1, 8) + angles(h + 1, 8)),
    "dinov3": ({"grid": (3, 4), "dim": 16}, dinov3),
    "pixtral": ({"grid": (2, 5), "dim": 16, "base": 777.0}, pixtral),
    "eva": (
        {"grid": (3, 2), "dim": 8, "grid_base": (16.0,)},
        lambda h, w: angles(h * 16 / 3, 4) + angles(w * 16 / 2, 4),
    ),
    "qwen2-vl": ({"grid": (2, 4, 6), "dim": 8}, lambda t, a, b, c, d: angles(2 * a + c, 4) + angles(2 * b + d, 4)),
}
"""What the tables of other projects leave open: other sizes, bases and scales, and styles of which there is none."""


def rows_of(case: str, parameters: dict, formula: Callable[..., list[float]]) -> np.ndarray:
    """Zeros for the tokens beside the grid, which llama4-vision has last; qwen2-vl merges 2 x 2 points."""
    sizes = (2, 2, 3, 2, 2) if case == "qwen2-vl" else parameters["grid"]
    rows = [formula(*point) for point in np.ndindex(sizes)]
    zeros = [0.0] * len(rows[0])
    return np.array([zeros] * parameters.get("keep", 0) + rows + [zeros] * (case == "llama4-vision"))


def test_tables_are_the_formulas() -> None:
    for case, (parameters, formula) in ADDED.items():
        found = Sinusoidal(**parameters, style=case, dtype="float64").tables()["pe"]
        np.testing.assert_allclose(found, rows_of(case, parameters, formula), rtol=0, atol=2e-14, err_msg=case)
    for case, (parameters, formula) in ROTARY.items():
        tables = Rope(**parameters, style=case, dtype="float64").tables()
        turned = np.exp(1j * rows_of(case, parameters, formula))
        np.testing.assert_allclose(tables["cos"] + 1j * tables["sin"], turned, rtol=0, atol=2e-14, err_msg=case)


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
def test_specs_come_back_as_plain_data(scheme: Scheme) -> None:
    again = Scheme.from_spec(json.loads(json.dumps(scheme.spec())))
    assert again == scheme
    assert [table.tobytes() for table in again.tables().values()] == [
        table.tobytes() for table in scheme.tables().values()
    ]
    whole = scheme.tensors()[0].array().tobytes()
    assert b"".join(block.tobytes() for block in scheme.blocks(rows=2)) == whole


@pytest.mark.parametrize(
    "scheme", [Sinusoidal(grid=(5, 7), dim=32, style="mae"), Rope(grid=(5, 7), dim=32, style="eva")]
)
def test_float32_recipes_differ_by_float32(scheme: Scheme) -> None:
    """Angles of up to 6 radians in float32 are off by less than 6 · 2^-23."""
    exact = scheme.tables()
    rough = type(scheme)(**{**scheme.spec()["parameters"], "recipe": "float32"}).tables()
    for name in exact.keys() - {"inv_freq", "axis"}:
        off = np.abs(exact[name] - rough[name]).max()
        assert 0 < off < 1e-6


def test_given_integers_are_rows_of_the_range() -> None:
    places = [7, 3, 3, 1000, 0, 12]
    for name in ("cos", "sin"):
        np.testing.assert_array_equal(
            Rope(positions=places, dim=16).tables()[name], Rope(1001, 16).tables()[name][places]
        )
    table = Sinusoidal(1001, 9, padding_idx=3).tables()["pe"]
    np.testing.assert_array_equal(Sinusoidal(positions=places, dim=9, padding_idx=3).tables()["pe"], table[places])


def test_scalings_go_on_at_given_positions() -> None:
    """Dynamic scaling is read where the positions end, yarn has its attention factor."""
    dynamic = {"scaling": "dynamic", "factor": 4.0, "max_position_embeddings": 32}
    yarn = {"scaling": "yarn", "factor": 8.0, "original_max_position_embeddings": 64}
    for scaling in (dynamic, yarn):
        found, whole = (
            Rope(dim=16, **rows, **scaling).tables() for rows in ({"positions": [0, 5, 99]}, {"seq_len": 100})
        )
        np.testing.assert_array_equal(found["sin"], whole["sin"][[0, 5, 99]])
