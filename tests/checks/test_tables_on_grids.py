"""Tables on a grid with an axis for each of its sides, (H, W, D) or (T, H, W, D), instead of (rows,
D).

The tables are those of schemes on grids, which tests/engine/schemes/test_grid_styles.py holds
against other projects, reshaped by NumPy. `readings` note how a tensor was understood.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pecli

GRID_SCHEMES = {
    "mae": pecli.Sinusoidal(grid=(6, 8), dim=64, style="mae"),
    "vit-mae": pecli.Sinusoidal(grid=(5, 3), dim=32, style="vit-mae"),
    "sam2": pecli.Rope(grid=(6, 8), dim=64, style="sam2"),
    "pixtral": pecli.Rope(grid=(4, 7), dim=32, style="pixtral"),
    "wan": pecli.Rope(grid=(2, 6, 8), axes=(16, 24, 24), style="wan"),
}


def unfolded(scheme: Any) -> dict[str, np.ndarray]:
    """Return the tables of a scheme with an axis for each side of its grid."""
    names = {"pe", "cos", "sin"}
    tables = {name: table for name, table in scheme.tables().items() if name in names}
    return {name: table.reshape(*scheme.grid, -1) for name, table in tables.items()}


def in_batches(table: np.ndarray) -> np.ndarray:
    return np.stack([table, table, table])


def with_axes_of_length_1(table: np.ndarray) -> np.ndarray:
    return table[None, ..., None, :]


WAYS_TO_ADD_AXES: list[Callable[[np.ndarray], np.ndarray]] = [
    np.copy,
    in_batches,
    with_axes_of_length_1,
]


@pytest.mark.parametrize("name", GRID_SCHEMES)
@pytest.mark.parametrize("add_axes", WAYS_TO_ADD_AXES)
@pytest.mark.sample(4)
def test_a_table_with_an_axis_for_each_side_of_its_grid_passes(
    name: str, add_axes: Callable[[np.ndarray], np.ndarray]
) -> None:
    """The table of a grid of 6 × 8 points and 64 channels, which is (48, 64), may also be (6, 8,
    64): as it is, three times as a batch, or with more axes of length 1.
    """
    scheme = GRID_SCHEMES[name]
    dump = {key: add_axes(table) for key, table in unfolded(scheme).items()}
    result = pecli.verify(dump, scheme)

    assert result.passed
    assert all("a grid of" in note for note in result.readings.values())


@pytest.mark.parametrize(
    ("wrong", "expected", "words"),
    [
        pytest.param(
            pecli.Sinusoidal(grid=(6, 8), dim=64, style="vit-mae"),
            GRID_SCHEMES["mae"],
            "style is vit-mae",
            id="another style",
        ),
        pytest.param(
            pecli.Sinusoidal(grid=(5, 3), dim=32, style="mae"),
            GRID_SCHEMES["vit-mae"],
            "style is mae",
            id="another style and size",
        ),
        pytest.param(
            pecli.Rope(grid=(6, 8), dim=64, style="sam2", base=500.0),
            GRID_SCHEMES["sam2"],
            "base is 500",
            id="another base",
        ),
        pytest.param(
            pecli.Sinusoidal(grid=(8, 6), dim=64, style="mae"),
            GRID_SCHEMES["mae"],
            "grid is 8x6",
            id="rows and columns exchanged",
        ),
    ],
)
def test_a_wrong_table_on_a_grid_fails_by_its_values(wrong: Any, expected: Any, words: str) -> None:
    """The table is on the same number of points, with another style, base or grid: it must not be
    reported as a wrong shape.
    """
    result = pecli.verify(unfolded(wrong), expected)
    assert not result.passed
    assert not any("its shape is" in line for line in result.diagnosis)
    assert any(words in line for line in result.diagnosis)


@pytest.mark.parametrize("sides", [(6, 8), (3, 5)])
def test_a_model_without_sizes_is_checked_on_the_grid_that_the_array_has(
    sides: tuple[int, int],
) -> None:
    """DINOv3 takes images of any size. The shape (H, W, D) of the array states its sides, as (rows,
    D) would not; in reverse order of rows the table fails.
    """
    model = "dinov3-vits16"
    rope = pecli.load_model(model).one().rope(grid=sides)

    assert pecli.verify(unfolded(rope), model).passed

    wrong = {name: table[::-1].copy() for name, table in unfolded(rope).items()}
    assert not pecli.verify(wrong, model, reasons=False).passed


@pytest.mark.parametrize("model", ["pixtral-12b", "qwen2.5-vl-7b"])
def test_a_table_on_a_grid_is_checked_as_that_of_the_vision_tower(model: str) -> None:
    """The model has text and vision, and the name «cos» does not state which. With the option
    `grid`, here 4 × 6, it is vision, since text has no grid.
    """
    cos = pecli.load_model(model).one("vision").rope(grid=(4, 6)).tables()["cos"]
    assert pecli.verify({"cos": cos}, model, grid=(4, 6)).passed


@pytest.mark.parametrize("sides", [(6, 8), (4, 4)])
def test_a_grid_of_patches_passes_without_the_row_of_the_class_token(
    sides: tuple[int, int],
) -> None:
    """ViT-MAE's table has a row of zeros for the class token before those of the patches, each of
    16 × 16 pixels. As (H, W, D) it has no place for this row: it passes, which is noted.
    """
    height, width = sides
    config = {"model_type": "vit_mae", "image_size": [16 * height, 16 * width], "hidden_size": 64}
    scheme = pecli.Sinusoidal(grid=sides, dim=64, style="vit-mae")
    result = pecli.verify({"position_embeddings": unfolded(scheme)["pe"]}, config)

    assert result.passed
    assert "without rows for other tokens" in result.readings["position_embeddings"]


def test_a_table_as_rows_that_lacks_the_class_token_fails_with_the_expected_shape() -> None:
    """64 pixels are 4 patches of 16: the model has 4 × 4 rows and one for the class token, 17."""
    config = {"model_type": "vit_mae", "image_size": 64, "hidden_size": 64}
    table = pecli.Sinusoidal(grid=(4, 4), dim=64, style="vit-mae").tables()["pe"]
    result = pecli.verify({"position_embeddings": table}, config, reasons=False)

    assert "where (17, 64) of the grid 4x4" in result.problems[0]


def frequencies_of_flux() -> np.ndarray:
    """Return 10000^(−i / (d/2)) of Flux's axes of 16, 56 and 56 channels, one axis after another."""
    pairs_by_axis = (8, 28, 28)
    return np.concatenate([10000.0 ** (-np.arange(pairs) / pairs) for pairs in pairs_by_axis])


def table_of_flux(ids: np.ndarray) -> dict[str, np.ndarray]:
    """Return cosines, sines and frequencies of Flux at ids (L, 3): frame, row and column."""
    frequencies = frequencies_of_flux()
    axis_of_pair = np.repeat([0, 1, 2], [8, 28, 28])
    angles = ids[:, axis_of_pair] * frequencies
    tables = {"cos": np.cos(angles), "sin": np.sin(angles)}
    single = {name: table.astype(np.float32) for name, table in tables.items()}
    return {**single, "inv_freq": frequencies}


def ids_of_flux() -> np.ndarray:
    """Return the ids of 4 tokens of text and an image of 4 × 5, (24, 3), by diffusers' rule.

    Text is at (0, 0, 0), and a patch at (0, row, column).
    """
    rows, columns = np.indices((4, 5)).reshape(2, -1)
    image = np.stack([np.zeros_like(rows), rows, columns], axis=1)
    return np.concatenate([np.zeros((4, 3), np.int64), image])


@pytest.mark.parametrize("axes_first", [False, True], ids=["(L, 3)", "(3, L)"])
def test_a_table_of_flux_passes_at_ids_as_the_model_builds_them(axes_first: bool) -> None:
    """`pecli positions` writes Flux's ids as diffusers has them, (L, 3); (3, L) is M-RoPE's order.

    The tables are computed by `table_of_flux` with NumPy.
    """
    ids = ids_of_flux()
    positions = ids.T if axes_first else ids
    result = pecli.verify(table_of_flux(ids), "flux.1-dev", positions=positions)

    assert result.passed
    assert {tensor.name for tensor in result.tensors} == {"cos", "sin", "inv_freq"}


def test_the_ids_that_positions_writes_for_flux_are_those_that_verify_reads() -> None:
    """`ids_of_flux` computes the same ids by diffusers' rule."""
    ids = pecli.positions("flux.1-dev", "text:4,image:4x5")
    np.testing.assert_array_equal(ids, ids_of_flux())

    assert pecli.verify(table_of_flux(ids_of_flux()), "flux.1-dev", positions=ids).passed


def test_a_table_of_flux_fails_at_ids_whose_rows_and_columns_are_exchanged() -> None:
    """The ids (L, 3) are frame, row, column; here frame, column, row."""
    ids = ids_of_flux()
    result = pecli.verify(table_of_flux(ids), "flux.1-dev", positions=ids[:, [0, 2, 1]])

    assert not result.passed


def test_frequencies_of_text_are_not_those_of_flux() -> None:
    """A head of 128 channels for text has 10000^(−i / 64); those of Flux begin anew for each axis."""
    table = table_of_flux(ids_of_flux()) | {"inv_freq": 10000.0 ** (-np.arange(64) / 64)}
    result = pecli.verify(table, "flux.1-dev", positions=ids_of_flux())

    assert [tensor.name for tensor in result.tensors if not tensor.passed] == ["inv_freq"]


@pytest.mark.parametrize(
    ("config", "scheme"),
    [
        (
            {"model_type": "pixtral", "hidden_size": 256, "num_attention_heads": 4, "head_dim": 64},
            pecli.Rope(grid=(6, 8), dim=64, style="pixtral"),
        ),
        (
            {"model_type": "qwen2_vl", "vision_config": {"embed_dim": 256, "num_heads": 4}},
            pecli.Rope(grid=(6, 8), dim=64, style="qwen2-vl"),
        ),
        (
            {"model_type": "dinov3_vit", "hidden_size": 256, "num_attention_heads": 4},
            pecli.Rope(grid=(6, 8), dim=64, style="dinov3", layout="halves"),
        ),
    ],
    ids=["pixtral", "qwen2-vl", "dinov3"],
)
def test_the_row_of_a_class_token_is_named_in_the_rotary_table_of_a_model(
    config: dict[str, Any], scheme: pecli.Rope
) -> None:
    """A class token is not rotated: its cosines are 1, and its sines 0. The vision towers have heads
    of 64 channels and no such token.
    """
    tables = scheme.tables()
    cosines = np.pad(tables["cos"], [(1, 0), (0, 0)], constant_values=1.0)
    sines = np.pad(tables["sin"], [(1, 0), (0, 0)])
    result = pecli.verify({"cos": cosines, "sin": sines}, config, grid="6x8", atol=1e-6)

    assert result.diagnosis[0].startswith("cos, sin: keep is 1;")
