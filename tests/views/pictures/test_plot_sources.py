"""The sources of a picture: types of layers of a scheme, encodings of a model, and the channels that
are drawn.
"""

from pathlib import Path

import numpy as np
import pytest

import pecli
from pecli.engine.schemes.bundle import Bundle
from pecli.engine.table import table_of
from pecli.files.load import opened
from pecli.views.pictures.plot_sources import (
    PlotRequest,
    PlotSource,
    of_file,
    of_model,
    of_scheme,
)


@pytest.mark.parametrize(
    ("layer_types", "windows"),
    [
        (("global", "local"), [None, 7]),
        (("full", "sliding"), [None, 7]),
        (("a", "b"), [7, 7]),
    ],
    ids=["global and local", "full and sliding", "other names"],
)
def test_only_layers_that_are_named_local_or_sliding_have_the_window(
    layer_types: tuple[str, ...], windows: list[int | None]
) -> None:
    """The model has a window of 7 positions. If no type of layers has such a name, all have it."""
    bundle = Bundle(tuple((name, pecli.Rope(seq_len=4, dim=8)) for name in layer_types))
    subjects = of_scheme(bundle, label="", context=None, window=7)

    assert [subject.window for subject in subjects] == windows


def test_each_type_of_layer_of_a_model_is_drawn_under_its_own_label() -> None:
    """Gemma 3 1B has full and sliding attention. By its published config, its window is 512, which
    only sliding layers have, and its context 32768. Tables have 512 rows by default.
    """
    full, sliding = of_model(pecli.load_model("gemma-3-1b"), "g")
    assert full.label == "g full_attention"
    assert full.window is None
    assert sliding.label == "g sliding_attention"
    assert sliding.window == 512
    for source in (full, sliding):
        assert source.context == 32768
        assert source.tables[0].rows == 512


def test_the_only_encoding_of_a_model_is_labelled_without_a_layer_type() -> None:
    """All layers of Mistral 7B v0.1 have one encoding and, by its config, a window of 4096
    tokens.
    """
    (subject,) = of_model(pecli.load_model("mistral-7b-v0.1"), "m")
    assert subject.label == "m"
    assert subject.window == 4096


@pytest.mark.parametrize(
    ("name", "grid"),
    [
        ("sd3-medium", (192, 192)),  # pos_embed_max_size
        # (49 frames − 1) / 4 + 1, and 60 × 90 latents in patches of 2 × 2.
        ("cogvideox-2b", (13, 30, 45)),
    ],
)
def test_a_table_on_a_grid_has_the_size_that_its_model_declares(
    name: str, grid: tuple[int, ...]
) -> None:
    """By the published configs of SD3 medium and CogVideoX-2B."""
    (subject,) = of_model(pecli.load_model(name), "m")
    assert subject.is_known
    assert subject.scheme.spec()["parameters"]["grid"] == grid


@pytest.mark.parametrize(
    ("shape", "names"),
    [((2, 3), ("position", "channel")), ((2, 3, 4), ("", "position", "channel"))],
)
def test_the_last_axes_of_a_file_are_positions_and_channels(
    shape: tuple[int, ...], names: tuple[str, ...]
) -> None:
    """Axes before the last two have no name. The file has no spec that would name its axes."""
    table = table_of("a", np.zeros(shape))
    assert PlotSource("x", ()).axes_of(table).names == names


@pytest.mark.parametrize(
    ("most", "channels"),
    [(1, [0]), (2, [0, 4]), (5, [0, 1, 2, 3, 4]), (6, [0, 1, 2, 3, 4])],
)
def test_channels_are_chosen_evenly_from_the_first_to_the_last(
    most: int, channels: list[int]
) -> None:
    """At most `most` channels of 5 are drawn: the first only, the first and the last, or all."""
    assert PlotRequest().choose(5, most) == channels


VALUES = np.random.default_rng(0).normal(size=(4, 6))
ANGLES = np.outer(np.arange(12), 10.0 ** -np.arange(4))
WAVES = np.exp(1j * ANGLES)
"""Complex numbers of magnitude 1, as programs that rotate complex numbers store cosines and sines."""


def source_of(tensors: dict[str, np.ndarray]) -> PlotSource:
    """Return what is drawn of a file t.npz with these tensors."""
    (source,) = of_file("t.npz", opened(tensors).file)
    return source


def shapes_of_tables(tensors: dict[str, np.ndarray]) -> dict[str, tuple[int, ...]]:
    return {table.name: table.shape for table in source_of(tensors).tables}


def test_an_array_of_real_numbers_is_drawn_as_it_is() -> None:
    """VALUES are 4 × 6 random numbers; the label is the name of the file."""
    assert shapes_of_tables({"x": VALUES}) == {"x": (4, 6)}
    assert source_of({"x": VALUES}).label == "t.npz"


def test_complex_numbers_of_magnitude_1_are_drawn_as_cosines_and_sines() -> None:
    """WAVES has 12 × 4 numbers exp(i · angle); NumPy's cosines and sines of the angles are expected."""
    cos, sin = source_of({"z": WAVES}).tables

    assert cos.name == "z.cos"
    assert sin.name == "z.sin"
    np.testing.assert_allclose(cos.array(), np.cos(ANGLES), atol=1e-6)
    np.testing.assert_allclose(sin.array(), np.sin(ANGLES), atol=1e-6)


def test_other_complex_numbers_are_drawn_as_real_and_imaginary_parts() -> None:
    """VALUES + 1i have magnitudes above 1, so that they are not cosines and sines. The label states
    nothing about parts: the names of the tables do.
    """
    assert shapes_of_tables({"z": VALUES + 1j}) == {"z.real": (4, 6), "z.imag": (4, 6)}
    assert source_of({"z": VALUES + 1j}).label == "t.npz"


@pytest.mark.parametrize(
    ("tensors", "label"),
    [
        pytest.param({"z": WAVES}, "t.npz (complex numbers)", id="the only tensor"),
        pytest.param(
            {"x": VALUES, "z": WAVES}, "t.npz (z: complex numbers)", id="one of two tensors"
        ),
    ],
)
def test_the_label_states_which_cosines_and_sines_were_complex_numbers(
    tensors: dict[str, np.ndarray], label: str
) -> None:
    """The tensor is named if the file has several."""
    assert source_of(tensors).label == label


def test_a_complex_tensor_is_divided_beside_a_real_one() -> None:
    """The real tensor x stays as it is; z, of magnitude 1, becomes cosines and sines."""
    tables = shapes_of_tables({"x": VALUES, "z": WAVES})
    assert tables == {"x": (4, 6), "z.cos": (12, 4), "z.sin": (12, 4)}


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        pytest.param("x", (1, 1, 4, 6), (4, 6), id="x, in front"),
        pytest.param("x", (1, 4, 1, 6), (4, 1, 6), id="x, in front and between"),
        pytest.param("cos", (1, 4, 1, 6), (4, 6), id="cos, in front and between"),
    ],
)
def test_axes_of_length_1_are_dropped_in_front_and_anywhere_in_cosines(
    name: str, shape: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    """Such axes are batches and heads. Only a tensor that is called cos or sin surely has rows and
    channels for its other axes, so that only there an axis between them is dropped as well.
    """
    assert shapes_of_tables({name: VALUES.reshape(shape)}) == {name: expected}


def test_a_file_with_a_spec_has_a_scheme_if_its_tables_are_complete(tmp_path: Path) -> None:
    """The file is written from a scheme, which is its spec. FILE:cos is one tensor of it."""
    path = tmp_path / "rope.npz"
    pecli.save(path, pecli.Rope(4, 8))
    (complete,) = of_file(*opened(path))
    assert complete.label == "rope.npz"
    assert complete.scheme == pecli.Rope(4, 8)

    (one_tensor,) = of_file(*opened(f"{path}:cos"))
    assert not one_tensor.is_known
