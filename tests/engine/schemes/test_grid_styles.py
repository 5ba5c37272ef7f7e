"""Tables on grids: those of other projects, and formulas at other sizes."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Iterator
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


def points(*sizes: int) -> Iterator[tuple[int, ...]]:
    """The last axis runs fastest."""
    return (tuple(int(k) for k in point) for point in np.ndindex(sizes))


def detr(i: int, n: int) -> float:
    return (i + 1) / (n + 1e-6) * 2 * math.pi


ADDED: dict[str, tuple[dict, Callable[[], list[list[float]]]]] = {
    "mae": (
        {"grid": (5, 3), "dim": 24, "style": "mae", "keep": 2},
        lambda: [[0.0] * 24] * 2 + [halves(angles(w, 12)) + halves(angles(h, 12)) for h, w in points(5, 3)],
    ),
    "mae, another base, in float64": (
        {"grid": (2, 3), "dim": 8, "style": "mae", "base": 500.0},
        lambda: [halves(angles(w, 4, 500.0)) + halves(angles(h, 4, 500.0)) for h, w in points(2, 3)],
    ),
    "vit-mae": (
        {"grid": (4, 7), "dim": 16, "style": "vit-mae"},
        lambda: [halves(angles(h, 8)) + halves(angles(w, 8)) for h, w in points(4, 7)],
    ),
    "sd3": (
        {"grid": (6, 9), "dim": 16, "style": "sd3", "grid_base": (4,), "grid_scale": (0.3,)},
        lambda: [halves(angles(w / (9 / 4) / 0.3, 8)) + halves(angles(h / (6 / 4) / 0.3, 8)) for h, w in points(6, 9)],
    ),
    "cogvideox": (
        {"grid": (2, 3, 5), "dim": 32, "style": "cogvideox", "grid_scale": (1.0, 1.875, 1.875)},
        lambda: [
            halves(angles(t, 8)) + halves(angles(w / 1.875, 12)) + halves(angles(h / 1.875, 12))
            for t, h, w in points(2, 3, 5)
        ],
    ),
    "detr": (
        {"grid": (3, 8), "dim": 24, "style": "detr"},
        lambda: [interleaved(angles(detr(h, 3), 12)) + interleaved(angles(detr(w, 8), 12)) for h, w in points(3, 8)],
    ),
    "timm": (
        {"grid": (3, 4), "dim": 16, "style": "timm"},
        lambda: [halves(angles(h, 8) + angles(w, 8)) for h, w in points(3, 4)],
    ),
}

ROTARY: dict[str, tuple[dict, Callable[[], list[list[float]]]]] = {
    "flux": (
        {"grid": (3, 2), "style": "flux", "axes": (4, 6, 10), "keep": 1},
        lambda: [[0.0] * 10] + [angles(0, 4) + angles(h, 6) + angles(w, 10) for h, w in points(3, 2)],
    ),
    "flux, its own shares": (
        {"grid": (2, 3), "style": "flux", "dim": 64},
        lambda: [angles(0, 8) + angles(h, 28) + angles(w, 28) for h, w in points(2, 3)],
    ),
    "hunyuan-video": (
        {"grid": (2, 3, 2), "style": "hunyuan-video", "dim": 32},
        lambda: [angles(t, 4, 256.0) + angles(h, 14, 256.0) + angles(w, 14, 256.0) for t, h, w in points(2, 3, 2)],
    ),
    "wan": (
        {"grid": (2, 3, 4), "dim": 128, "style": "wan"},
        lambda: [angles(t, 44) + angles(h, 42) + angles(w, 42) for t, h, w in points(2, 3, 4)],
    ),
    "cogvideox": (
        {"grid": (2, 2, 5), "dim": 32, "style": "cogvideox"},
        lambda: [angles(t, 8) + angles(h, 12) + angles(w, 12) for t, h, w in points(2, 2, 5)],
    ),
    "llama4-vision": (
        {"grid": (3, 2), "dim": 16, "style": "llama4-vision"},
        lambda: [angles(w + 1, 8) + angles(h + 1, 8) for h, w in points(3, 2)] + [[0.0] * 8],
    ),
    "dinov3": (
        {"grid": (3, 4), "dim": 16, "style": "dinov3"},
        lambda: [
            [
                2 * math.pi * (2 * (p + 0.5) / n - 1) * 100 ** (-4 * i / 16)
                for p, n in ((h, 3), (w, 4))
                for i in range(4)
            ]
            for h, w in points(3, 4)
        ],
    ),
    "pixtral": (
        {"grid": (2, 5), "dim": 16, "style": "pixtral", "base": 777.0},
        lambda: [
            [h * 777.0 ** (-2 * i / 16) for i in (0, 2, 4, 6)] + [w * 777.0 ** (-2 * i / 16) for i in (1, 3, 5, 7)]
            for h, w in points(2, 5)
        ],
    ),
    "eva": (
        {"grid": (3, 2), "dim": 8, "style": "eva", "grid_base": (16.0,)},
        lambda: [angles(h * 16 / 3, 4) + angles(w * 16 / 2, 4) for h, w in points(3, 2)],
    ),
    "qwen2-vl": (
        {"grid": (2, 4, 6), "dim": 8, "style": "qwen2-vl"},
        lambda: [angles(2 * a + c, 4) + angles(2 * b + d, 4) for _ in range(2) for a, b, c, d in points(2, 3, 2, 2)],
    ),
}


@pytest.mark.parametrize("case", ADDED)
def test_added_tables_are_the_formula(case: str) -> None:
    parameters, formula = ADDED[case]
    found = Sinusoidal(**parameters, dtype="float64").tables()["pe"]
    np.testing.assert_allclose(found, formula(), rtol=0, atol=2e-14)


@pytest.mark.parametrize("case", ROTARY)
def test_rotary_tables_are_the_formula(case: str) -> None:
    parameters, formula = ROTARY[case]
    found, turned = Rope(**parameters, dtype="float64").tables(), np.array(formula())
    np.testing.assert_allclose(found["cos"], np.cos(turned), rtol=0, atol=2e-14)
    np.testing.assert_allclose(found["sin"], np.sin(turned), rtol=0, atol=2e-14)


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
    assert {name: table.tobytes() for name, table in again.tables().items()} == {
        name: table.tobytes() for name, table in scheme.tables().items()
    }
    assert [each.tobytes() for each in scheme.blocks(rows=2)] == [
        scheme.tensors()[0].read(k, min(k + 2, scheme.tensors()[0].rows)).tobytes()
        for k in range(0, scheme.tensors()[0].rows, 2)
    ]


def test_a_range_leaves_the_spec_as_it_was() -> None:
    assert not {"positions", "grid", "style", "axes", "keep"} & Rope(4, 8).spec()["parameters"].keys()
    assert "style" not in Sinusoidal(4, 8, style="whisper").spec()["parameters"]


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
    for scheme, other in ((Rope(1001, 16), Rope(positions=places, dim=16)),):
        for name in ("cos", "sin"):
            np.testing.assert_array_equal(other.tables()[name], scheme.tables()[name][places])
    table = Sinusoidal(1001, 9, padding_idx=3).tables()["pe"]
    np.testing.assert_array_equal(Sinusoidal(positions=places, dim=9, padding_idx=3).tables()["pe"], table[places])


def test_scalings_go_on_at_given_positions() -> None:
    """Dynamic scaling is read where the positions end, longrope has its attention factor."""
    common = {"dim": 16, "scaling": "dynamic", "factor": 4.0, "max_position_embeddings": 32}
    places = [0, 5, 99]
    np.testing.assert_array_equal(
        Rope(positions=places, **common).tables()["cos"], Rope(100, **common).tables()["cos"][places]
    )
    yarn = {"dim": 16, "scaling": "yarn", "factor": 8.0, "original_max_position_embeddings": 64}
    np.testing.assert_array_equal(
        Rope(positions=places, **yarn).tables()["sin"], Rope(100, **yarn).tables()["sin"][places]
    )


@pytest.mark.parametrize(
    "words",
    [
        "sinusoidal --grid 4by4 --dim 16 --style mae",
        "sinusoidal --positions 0,nan --dim 16",
        "sinusoidal --positions 1e13 --dim 16",
        "rope --grid 4x4 --dim 30 --style flux",
        "relative --style swin --seq-len 4",
        "relative --style t5",
    ],
)
def test_commands_refuse_in_one_line(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words.split()) == 2
    said = capsys.readouterr().err
    assert said.startswith("pecli: error: ")
    assert said.count("\n") == 1
